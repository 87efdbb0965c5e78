/* queues CONF HOW: what is queued while the first call-back is held up leaves as the algorithm says.
 *   wfq  queue 0 has weight 3 and queue 1 weight 1: any 40 in a row are 30 and 10, but for 2
 *   sw   all of queue 0 before all of queue 1
 *   twins the queue changes no more often than windows of 2 ms pass
 */
#include "held.h"

#include <time.h>

static double now_s(void)
{
	struct timespec now;
	REQUIRE(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

enum { EACH = 200 };

int main(int argc, char **argv)
{
	alarm(DEADLINE_S);
	REQUIRE(argc == 3);
	const char *how = argv[2];
	REQUIRE(agios_init(record, NULL, argv[1], 2));
	shut_gate();
	for (int i = 0; i < EACH; i++)
		for (int queue = 1; queue >= 0; queue--)
			REQUIRE(agios_add_request("f", RT_READ, 1000000 * queue + 20 * i, 10,
						  1000 * queue + i, queue));
	errno = 0;
	REQUIRE(!agios_add_request("f", RT_READ, 0, 1, 1, -1) && errno == EINVAL);
	if (strcmp(how, "sw") != 0)
		REQUIRE(!agios_add_request("f", RT_READ, 0, 1, 1, 3) && errno == EINVAL);
	double start = now_s();
	open_gate();
	wait_for(&recorded_count, 1 + 2 * EACH);
	double windows = (now_s() - start) / 0.002;
	int changes = 0;
	for (int i = 2; i <= 2 * EACH; i++)
		changes += (recorded[i] >= 1000) != (recorded[i - 1] >= 1000);
	if (strcmp(how, "twins") == 0)
		REQUIRE(changes <= windows + 2);
	for (int i = 1; i <= 2 * EACH; i++) {
		if (strcmp(how, "sw") == 0)
			REQUIRE((recorded[i] >= 1000) == (i > EACH));
		if (strcmp(how, "wfq") == 0 && i <= EACH - 40) {
			int of_queue_1 = 0;
			for (int j = i; j < i + 40; j++)
				of_queue_1 += recorded[j] >= 1000;
			REQUIRE(of_queue_1 >= 8 && of_queue_1 <= 12);
		}
	}
	/* The number that agios_init was told: AGIOS has room for it, but WFQ wants a weight. */
	if (strcmp(how, "wfq") == 0) {
		REQUIRE(!agios_add_request("g", RT_READ, 0, 1, 5000, 2) && errno == EINVAL);
	} else {
		REQUIRE(agios_add_request("g", RT_READ, 0, 1, 5000, 2));
		wait_for(&recorded_count, 2 + 2 * EACH);
	}
	agios_exit();
	return 0;
}
