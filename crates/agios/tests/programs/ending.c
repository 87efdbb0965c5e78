/* ending CONF: the library ends while threads add, cancel and release, one of them with a lock of
 * the program held that the call-back takes too. It must end each time, and begin again. */
#include "check.h"

#include <agios.h>

enum { ROUNDS = 150, THREADS = 3 };

static int given_count, is_over;
static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

static void *give(int64_t id)
{
	(void)id;
	pthread_mutex_lock(&own);
	pthread_mutex_unlock(&own);
	count_up(&given_count);
	return NULL;
}

static void *work(void *number)
{
	int64_t first = (int64_t)(intptr_t)number * 1000;
	for (int64_t i = 0; !read_value(&is_over); i = (i + 1) % 1000) {
		int64_t offset = (first + i) * 10;
		pthread_mutex_lock(&own);
		int is_added = agios_add_request("a", RT_READ, offset, 10, i, 0);
		pthread_mutex_unlock(&own);
		if (is_added && !agios_cancel_request("a", RT_READ, 10, offset))
			(void)agios_release_request("a", RT_READ, 10, offset);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	alarm(DEADLINE_S);
	REQUIRE(argc == 2);
	pthread_t threads[THREADS];
	for (int round = 0; round < ROUNDS; round++) {
		REQUIRE(agios_init(give, NULL, argv[1], 1));
		set(&is_over, 0);
		int before = read_value(&given_count);
		for (intptr_t i = 0; i < THREADS; i++)
			REQUIRE(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
		wait_for(&given_count, before + 1);
		agios_exit();
		set(&is_over, 1);
		for (int i = 0; i < THREADS; i++)
			REQUIRE(pthread_join(threads[i], NULL) == 0);
	}
	return 0;
}
