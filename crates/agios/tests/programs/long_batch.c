/* long_batch CONF: many small neighbours that leave as one batch, of which the library gives some
 * at a time; the call-back of the first cancels each of the others. What is cancelled is not given,
 * what is not is given once, and nothing is lost. */
#include "held.h"

#define COUNT 64
#define LENGTH 512

static int is_cancelled[COUNT + 1], cancelled_count;

static void *cancel_others(int64_t id)
{
	static int first = 1;
	if (id > 0 && first) {
		first = 0;
		for (int64_t other = 1; other <= COUNT; other++) {
			if (other == id)
				continue;
			if (agios_cancel_request("a", RT_READ, LENGTH, (other - 1) * LENGTH))
				cancelled_count += is_cancelled[other] = 1;
			else
				REQUIRE(errno == EALREADY);
		}
	}
	return record(id);
}

int main(int argc, char **argv)
{
	alarm(DEADLINE_S);
	REQUIRE(argc == 2);
	REQUIRE(agios_init(cancel_others, NULL, argv[1], 1));
	shut_gate();
	for (int64_t id = 1; id <= COUNT; id++)
		REQUIRE(agios_add_request("a", RT_READ, (id - 1) * LENGTH, LENGTH, id, 0));
	open_gate();
	wait_for(&recorded_count, 1 + 1);
	int given = 1 + COUNT - cancelled_count;
	wait_for(&recorded_count, given);
	for (int64_t id = 1; id <= COUNT; id++) {
		REQUIRE(times_recorded(id) == !is_cancelled[id]);
		if (!is_cancelled[id])
			REQUIRE(agios_release_request("a", RT_READ, LENGTH, (id - 1) * LENGTH));
	}
	agios_exit();
	REQUIRE(recorded_count == given);
	return 0;
}
