/* cancel CONF: exactly the request that is named goes, and the answer says whether one did. */
#include "held.h"

#define REFUSED(call, why) \
	do { \
		errno = 0; \
		REQUIRE(!(call)); \
		REQUIRE(errno == (why)); \
	} while (0)

int main(int argc, char **argv)
{
	alarm(DEADLINE_S);
	REQUIRE(argc == 2);
	REQUIRE(agios_init(record, NULL, argv[1], 2));
	shut_gate();
	/* The same range of two files and of both types, and neighbours that would be merged. */
	REQUIRE(agios_add_request("a", RT_READ, 100, 10, 1, 0));
	REQUIRE(agios_add_request("b", RT_READ, 100, 10, 2, 1));
	REQUIRE(agios_add_request("c", RT_WRITE, 100, 10, 3, 0));
	REQUIRE(agios_add_request("b", RT_READ, 110, 10, 4, 1));
	REQUIRE(agios_add_request("b", RT_READ, 120, 10, 5, 0));
	REQUIRE(agios_add_request("d", RT_WRITE, 0, 10, 6, 0));
	REQUIRE(agios_add_request("d", RT_READ, 0, 10, 7, 1)); /* blocked behind the write */
	REFUSED(agios_cancel_request("never", RT_READ, 10, 100), ENOENT);
	REFUSED(agios_cancel_request("a", RT_WRITE, 10, 100), ENOENT);
	REFUSED(agios_cancel_request("a", RT_READ, 100, 10), ENOENT);
	REFUSED(agios_cancel_request("gate", RT_READ, 1, 0), EALREADY);
	REFUSED(agios_release_request("a", RT_READ, 10, 100), ENOENT); /* not given yet */
	REQUIRE(agios_cancel_request("a", RT_READ, 10, 100));
	REFUSED(agios_cancel_request("a", RT_READ, 10, 100), ENOENT);
	REQUIRE(agios_cancel_request("b", RT_READ, 10, 110));
	REQUIRE(agios_cancel_request("d", RT_WRITE, 10, 0));
	open_gate();
	wait_for(&recorded_count, 1 + 4);
	REFUSED(agios_cancel_request("b", RT_READ, 10, 100), EALREADY);
	REQUIRE(agios_release_request("b", RT_READ, 10, 100));
	REQUIRE(agios_release_request("b", RT_READ, 10, 120));
	REQUIRE(agios_release_request("c", RT_WRITE, 10, 100));
	REQUIRE(agios_release_request("d", RT_READ, 10, 0));
	REFUSED(agios_release_request("d", RT_READ, 10, 0), ENOENT);
	REFUSED(agios_cancel_request("b", RT_READ, 10, 100), ENOENT);
	agios_exit();
	REQUIRE(recorded_count == 1 + 4);
	for (int64_t id = 1; id <= 7; id++)
		REQUIRE(times_recorded(id) == (id != 1 && id != 4 && id != 6));
	return 0;
}
