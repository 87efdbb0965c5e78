/* gekkofs CONF: the variant with a call-back for each request, which wakes who waits for it. */
#include "check.h"

#include <agios.h>

enum { THREADS = 8, EACH = 200 };

struct waiter {
	int done;
	int64_t id;
};

static int common;

static void *wake(int64_t id, void *info)
{
	struct waiter *waiter = info;
	REQUIRE(waiter->id == id);
	set(&waiter->done, 1);
	return NULL;
}

static void *for_all(int64_t id)
{
	REQUIRE(id == 77);
	count_up(&common);
	return NULL;
}

static void *serve(void *argument)
{
	int thread = (int)(intptr_t)argument;
	char path[20];
	snprintf(path, sizeof path, "/file%d", thread / 2);
	for (int i = 0; i < EACH; i++) {
		struct waiter waiter = {0, 1000 * thread + i};
		int64_t offset = 4096 * (int64_t)i;
		int type = i % 3 ? RT_WRITE : RT_READ;
		REQUIRE(agios_add_request(path, type, offset, 4096, waiter.id, 0, wake, &waiter));
		wait_for(&waiter.done, 1);
		REQUIRE(agios_release_request(path, type, 4096, offset));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	alarm(DEADLINE_S);
	REQUIRE(argc == 2);
	REQUIRE(agios_init(NULL, NULL, argv[1], 0));
	errno = 0;
	REQUIRE(!agios_add_request("f", RT_READ, 0, 1, 1, 0, NULL, NULL) && errno == EINVAL);
	pthread_t threads[THREADS];
	for (intptr_t i = 0; i < THREADS; i++)
		REQUIRE(pthread_create(&threads[i], NULL, serve, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0);
	struct agios_metrics_t *metrics = agios_get_metrics_and_reset();
	REQUIRE(metrics != NULL);
	REQUIRE(metrics->total_reqnb == THREADS * EACH && metrics->filenb == THREADS / 2);
	REQUIRE(metrics->served_bytes == THREADS * EACH * 4096);
	free(metrics);
	agios_exit();
	/* With a call-back for all, requests may still bring their own. */
	REQUIRE(agios_init(for_all, NULL, argv[1], 0));
	struct waiter waiter = {0, 5};
	REQUIRE(agios_add_request("f", RT_READ, 0, 1, 5, 0, wake, &waiter));
	REQUIRE(agios_add_request("f", RT_READ, 9, 1, 77, 0, NULL, NULL));
	wait_for(&waiter.done, 1);
	wait_for(&common, 1);
	agios_exit();
	return 0;
}
