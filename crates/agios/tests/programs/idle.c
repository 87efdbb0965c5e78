/* idle CONF: a library without work takes no part of a core. */
#include "held.h"

#include <poll.h>
#include <time.h>

static double seconds(clockid_t clock)
{
	struct timespec now;
	REQUIRE(clock_gettime(clock, &now) == 0);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	alarm(DEADLINE_S);
	REQUIRE(argc == 2);
	REQUIRE(agios_init(record, NULL, argv[1], 2));
	REQUIRE(agios_add_request("f", RT_READ, 0, 10, 1, 0));
	wait_for(&recorded_count, 1);
	REQUIRE(agios_release_request("f", RT_READ, 10, 0));
	/* A library that spins uses what the machine gives it; one that sleeps uses nothing, however
	 * long this takes and whoever else uses the machine. */
	double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < 5; i++)
		poll(NULL, 0, 60);
	wall = seconds(CLOCK_MONOTONIC) - wall;
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	fprintf(stderr, "idle: %.6f s of CPU in %.3f s\n", cpu, wall);
	REQUIRE(cpu * 20 < wall);
	agios_exit();
	return 0;
}
