/* scaling CONF: what a release costs does not grow with the number of requests that are with the
 * program. Time of this thread alone is compared, 64,000 against 1,000: a search would take 64
 * times as long. */
#include "held.h"

#include <time.h>

static void *given(int64_t id)
{
	(void)id;
	count_up(&recorded_count);
	return NULL;
}

static double release_all(int requests)
{
	int before = read_value(&recorded_count);
	for (int i = 0; i < requests; i++)
		REQUIRE(agios_add_request("f", RT_READ, 16 * (int64_t)i, 8, i, 0));
	wait_for(&recorded_count, before + requests);
	struct timespec start, end;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
	for (int i = requests - 1; i >= 0; i--)
		REQUIRE(agios_release_request("f", RT_READ, 8, 16 * (int64_t)i));
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	return ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) /
	       requests;
}

int main(int argc, char **argv)
{
	alarm(DEADLINE_S);
	REQUIRE(argc == 2);
	REQUIRE(agios_init(given, NULL, argv[1], 2));
	double few = release_all(1000);
	for (int i = 0; i < 8; i++) {
		double again = release_all(1000);
		few = again > few ? again : few;
	}
	double many = release_all(64000);
	fprintf(stderr, "release: %.0f ns with 1,000 outstanding, %.0f ns with 64,000\n", few, many);
	REQUIRE(many < 16 * few);
	agios_exit();
	return 0;
}
