/* bounded CONF: with queue_requests_max = 10 and in_flight_max = 3, no more than 3 requests are
 * with the program and no more than 10 wait. */
#include "held.h"

int main(int argc, char **argv)
{
	alarm(DEADLINE_S);
	REQUIRE(argc == 2);
	REQUIRE(agios_init(record, NULL, argv[1], 2));
	for (int i = 0; i < 3; i++)
		REQUIRE(agios_add_request("f", RT_READ, 100 * i, 10, i, 0));
	wait_for(&recorded_count, 3);
	for (int i = 3; i < 13; i++)
		REQUIRE(agios_add_request("f", RT_READ, 100 * i, 10, i, 0));
	for (int i = 0; i < 100; i++) {
		errno = 0;
		REQUIRE(!agios_add_request("f", RT_READ, 0, 10, 99, 0) && errno == EAGAIN);
	}
	REQUIRE(read_value(&recorded_count) == 3);
	for (int i = 0; i < 13; i++) {
		wait_for(&recorded_count, i + 1);
		REQUIRE(read_value(&recorded_count) <= i + 3);
		REQUIRE(agios_release_request("f", RT_READ, 10, 100 * recorded[i]));
	}
	REQUIRE(agios_add_request("f", RT_READ, 0, 10, 13, 0));
	wait_for(&recorded_count, 14);
	REQUIRE(times_recorded(99) == 0);
	agios_exit();
	return 0;
}
