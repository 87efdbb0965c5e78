/* order CONF: writes and reads of a few blocks of a modelled file, carried out by several threads
 * in whatever order they get to it. Every read must find what the last write before it wrote, and
 * the file must end as if all had been carried out one after the other. */
#include "check.h"

#include <agios.h>
#include <sched.h>

enum { BLOCKS = 8, REQUESTS = 3000, WORKERS = 4, BLOCK = 4096 };

static struct request {
	int type, first, count;
	int expected[BLOCKS]; /* of a read: the writes that it must find */
} requests[REQUESTS];

static int contents[BLOCKS];
static int64_t to_do[REQUESTS];
static int given, taken, done;

static void *give(int64_t id)
{
	pthread_mutex_lock(&lock);
	to_do[given++] = id;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void *give_all(int64_t *ids, int32_t count)
{
	REQUIRE(count > 1);
	for (int32_t i = 1; i < count; i++) {
		struct request *a = &requests[ids[i - 1]], *b = &requests[ids[i]];
		REQUIRE(a->type == b->type);
		REQUIRE(a->first + a->count == b->first);
	}
	for (int32_t i = 0; i < count; i++)
		give(ids[i]);
	return NULL;
}

static void *work(void *seed_of_worker)
{
	unsigned seed = (unsigned)(intptr_t)seed_of_worker;
	for (;;) {
		wait_for(&given, read_value(&taken) + 1);
		pthread_mutex_lock(&lock);
		if (taken == given) {
			pthread_mutex_unlock(&lock);
			continue;
		}
		/* Any of those that are waiting, not the first. */
		int choice = taken + (int)(rand_r(&seed) % (unsigned)(given - taken));
		int64_t id = to_do[choice];
		to_do[choice] = to_do[taken];
		taken++;
		pthread_mutex_unlock(&lock);
		struct request *request = &requests[id];
		for (int i = request->first; i < request->first + request->count; i++) {
			if (request->type == RT_WRITE)
				__atomic_store_n(&contents[i], (int)id + 1, __ATOMIC_SEQ_CST);
			else
				REQUIRE(__atomic_load_n(&contents[i], __ATOMIC_SEQ_CST) ==
					request->expected[i]);
			if (rand_r(&seed) % 4 == 0)
				sched_yield();
		}
		REQUIRE(agios_release_request("file", request->type, (int64_t)request->count * BLOCK,
					      (int64_t)request->first * BLOCK));
		count_up(&done);
	}
}

int main(int argc, char **argv)
{
	alarm(DEADLINE_S);
	REQUIRE(argc == 2);
	REQUIRE(agios_init(give, give_all, argv[1], 2));
	pthread_t workers[WORKERS];
	for (intptr_t i = 0; i < WORKERS; i++)
		REQUIRE(pthread_create(&workers[i], NULL, work, (void *)(i + 1)) == 0);
	unsigned seed = 7;
	int written[BLOCKS] = {0};
	for (int i = 0; i < REQUESTS; i++) {
		struct request *request = &requests[i];
		request->type = rand_r(&seed) % 2 ? RT_WRITE : RT_READ;
		request->first = (int)(rand_r(&seed) % BLOCKS);
		request->count = 1 + (int)(rand_r(&seed) % (unsigned)(BLOCKS - request->first));
		memcpy(request->expected, written, sizeof written);
		if (request->type == RT_WRITE)
			for (int b = request->first; b < request->first + request->count; b++)
				written[b] = i + 1;
		REQUIRE(agios_add_request("file", request->type, (int64_t)request->first * BLOCK,
					  (int64_t)request->count * BLOCK, i, i % 2));
	}
	wait_for(&done, REQUESTS);
	REQUIRE(memcmp(contents, written, sizeof written) == 0);
	struct agios_metrics_t *metrics = agios_get_metrics_and_reset();
	REQUIRE(metrics != NULL && metrics->total_reqnb == REQUESTS);
	free(metrics);
	agios_exit();
	/* The workers wait for more; they end with the process. */
	return 0;
}
