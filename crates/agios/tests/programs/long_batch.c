/* long_batch CONF: many small neighbours, which could leave as one batch. Of those that are not in the
 * first call-back for some of them, this cancels every other one, and may not release the rest: none
 * is on its way. What is cancelled is not given, what is not is given once, and nothing is lost. */
#include "held.h"

#define COUNT 200
#define LENGTH 64
#define CALL_MAX 16

static int is_cancelled[COUNT + 1], cancelled_count;

static void cancel_others(const int64_t *ids, int count)
{
	static int first = 1;
	REQUIRE(count <= CALL_MAX);
	if (ids[0] < 0 || !first)
		return;
	first = 0;
	int is_given[COUNT + 1] = { 0 };
	for (int i = 0; i < count; i++)
		is_given[ids[i]] = 1;
	for (int64_t other = 1; other <= COUNT; other++) {
		long offset = (other - 1) * LENGTH;
		if (is_given[other])
			continue;
		if (other % 2) {
			REQUIRE(agios_cancel_request("a", RT_READ, LENGTH, offset));
			cancelled_count += is_cancelled[other] = 1;
		} else {
			errno = 0;
			REQUIRE(!agios_release_request("a", RT_READ, LENGTH, offset));
			REQUIRE(errno == ENOENT);
		}
	}
}

static void *give(int64_t id)
{
	cancel_others(&id, 1);
	return record(id);
}

static void *give_several(int64_t *ids, int count)
{
	cancel_others(ids, count);
	for (int i = 0; i < count; i++)
		record(ids[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	alarm(DEADLINE_S);
	REQUIRE(argc == 2);
	REQUIRE(agios_init(give, give_several, argv[1], 1));
	shut_gate();
	for (int64_t id = 1; id <= COUNT; id++)
		REQUIRE(agios_add_request("a", RT_READ, (id - 1) * LENGTH, LENGTH, id, 0));
	open_gate();
	wait_for(&recorded_count, 1 + 1);
	int given = 1 + COUNT - cancelled_count;
	for (int i = 1; i < given; i++) {
		wait_for(&recorded_count, i + 1);
		REQUIRE(agios_release_request("a", RT_READ, LENGTH, (recorded[i] - 1) * LENGTH));
	}
	agios_exit();
	REQUIRE(recorded_count == given);
	for (int64_t id = 1; id <= COUNT; id++)
		REQUIRE(times_recorded(id) == !is_cancelled[id]);
	return 0;
}
