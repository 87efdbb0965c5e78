/* queues CONF HOW: what is queued while the first call-back is held up leaves as the algorithm says.
 *   wfq  queue 0 has weight 3 and queue 1 weight 1: any 40 in a row are 30 and 10, but for 2
 *   sw   all of queue 0 before all of queue 1
 *   each  both are served, queue 2 is not accepted unless HOW ends in +
 */
#include "held.h"

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
	open_gate();
	wait_for(&recorded_count, 1 + 2 * EACH);
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
	agios_exit();
	return 0;
}
