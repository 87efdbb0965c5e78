/* storm CONF: threads add, others cancel, others release, and one reads the metrics, all at once and
 * of the same few names. Every request that was added is given back once or cancelled once, never
 * both; every release names one that is with the program; and the metrics add up. */
#include "check.h"

#include <agios.h>
#include <sched.h>

enum { ADDERS = 3, EACH = 2000, ALL = ADDERS * EACH, RELEASERS = 2, FILES = 3, BLOCKS = 5 };

static struct request {
	char *file;
	int32_t type;
	int64_t offset;
} requests[ALL];

static char *files[FILES] = {"a", "b", "/a/longer/name.of.a.file"};
static int given_times[ALL];
static int64_t given[ALL];
static int given_count, taken, released, cancelled, added, is_over;
static int64_t counted, read_writes, served;

static void give_one(int64_t id)
{
	REQUIRE(id >= 0 && id < ALL);
	REQUIRE(++given_times[id] == 1);
	given[given_count++] = id;
}

static void *give(int64_t id)
{
	pthread_mutex_lock(&lock);
	give_one(id);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void *give_several(int64_t *ids, int32_t count)
{
	pthread_mutex_lock(&lock);
	for (int32_t i = 0; i < count; i++)
		give_one(ids[i]);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void *add(void *number)
{
	for (intptr_t i = (intptr_t)number; i < ALL; i += ADDERS) {
		struct request *request = &requests[i];
		while (!agios_add_request(request->file, request->type, request->offset, 10, i, i % 2)) {
			REQUIRE(errno == EAGAIN);
			sched_yield();
		}
		count_up(&added);
		/* Now and then until the library has nothing to do, so that it sleeps. */
		if (i % 500 < ADDERS)
			for (int all = 0; !all;) {
				sched_yield();
				pthread_mutex_lock(&lock);
				all = added == released + cancelled;
				pthread_mutex_unlock(&lock);
			}
	}
	return NULL;
}

static void *release(void *unused)
{
	(void)unused;
	for (;;) {
		pthread_mutex_lock(&lock);
		while (taken == given_count && !is_over)
			pthread_cond_wait(&changed, &lock);
		if (taken == given_count) {
			pthread_mutex_unlock(&lock);
			return NULL;
		}
		struct request *request = &requests[given[taken++]];
		pthread_mutex_unlock(&lock);
		REQUIRE(agios_release_request(request->file, request->type, 10, request->offset));
		count_up(&released);
	}
}

static void *cancel(void *unused)
{
	(void)unused;
	for (unsigned seed = 5; !read_value(&is_over);) {
		struct request *request = &requests[rand_r(&seed) % ALL];
		if (agios_cancel_request(request->file, request->type, 10, request->offset))
			count_up(&cancelled);
		else
			REQUIRE(errno == ENOENT || errno == EALREADY);
		sched_yield();
	}
	return NULL;
}

static void sum_up(void)
{
	struct agios_metrics_t *metrics = agios_get_metrics_and_reset();
	REQUIRE(metrics != NULL);
	counted += metrics->total_reqnb;
	read_writes += metrics->reads + metrics->writes;
	served += metrics->served_bytes;
	free(metrics);
}

static void *measure(void *unused)
{
	(void)unused;
	while (!read_value(&is_over)) {
		sum_up();
		sched_yield();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	alarm(DEADLINE_S);
	REQUIRE(argc == 2);
	unsigned seed = 11;
	for (int i = 0; i < ALL; i++)
		requests[i] = (struct request){files[rand_r(&seed) % FILES], (int32_t)(rand_r(&seed) % 4 == 0),
					       10 * (int64_t)(rand_r(&seed) % BLOCKS)};
	REQUIRE(agios_init(give, give_several, argv[1], 2));
	pthread_t adders[ADDERS], others[RELEASERS + 2];
	for (intptr_t i = 0; i < ADDERS; i++)
		REQUIRE(pthread_create(&adders[i], NULL, add, (void *)i) == 0);
	for (int i = 0; i < RELEASERS + 2; i++)
		REQUIRE(pthread_create(&others[i], NULL,
				       i < RELEASERS ? release : i == RELEASERS ? cancel : measure, NULL) == 0);
	for (int i = 0; i < ADDERS; i++)
		REQUIRE(pthread_join(adders[i], NULL) == 0);
	pthread_mutex_lock(&lock);
	while (released + cancelled < ALL)
		pthread_cond_wait(&changed, &lock);
	is_over = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < RELEASERS + 2; i++)
		REQUIRE(pthread_join(others[i], NULL) == 0);
	sum_up();
	REQUIRE(given_count == released && released + cancelled == ALL);
	REQUIRE(counted == ALL && read_writes == ALL && served == 10 * (int64_t)released);
	agios_exit();
	REQUIRE(!agios_add_request("a", RT_READ, 0, 10, 0, 0) && errno == ENXIO);
	return 0;
}
