/* restart CONF ABSENT: start and end in any order. */
#include "held.h"

#include <sys/wait.h>

static void *from_inside(int64_t id)
{
	agios_exit(); /* refused with a message */
	return record(id);
}

static int was_last;

/* Returns only when the end has begun, which refuses requests. */
static void *last(int64_t id)
{
	record(id);
	while (agios_add_request("g", RT_READ, 0, 1, 907, 0))
		REQUIRE(agios_cancel_request("g", RT_READ, 1, 0));
	REQUIRE(errno == ENXIO);
	REQUIRE(agios_release_request("f", RT_READ, 1, 0));
	was_last = 1;
	return NULL;
}

int main(int argc, char **argv)
{
	alarm(DEADLINE_S);
	REQUIRE(argc == 3);
	agios_exit();
	errno = 0;
	REQUIRE(!agios_add_request("f", RT_READ, 0, 1, 0, 0) && errno == ENXIO);
	REQUIRE(!agios_release_request("f", RT_READ, 1, 0) && errno == ENXIO);
	REQUIRE(!agios_cancel_request("f", RT_READ, 1, 0) && errno == ENXIO);
	REQUIRE(agios_get_metrics_and_reset() == NULL && errno == ENXIO);
	REQUIRE(!agios_init(record, NULL, argv[2], 2) && errno == EINVAL);
	agios_exit();
	REQUIRE(!agios_init(NULL, NULL, argv[1], 2) && errno == EINVAL);
	REQUIRE(!agios_init(record, NULL, argv[1], -1) && errno == EINVAL);
	agios_exit();
	for (int round = 0; round < 40; round++) {
		REQUIRE(agios_init(record, NULL, argv[1], 2));
		REQUIRE(!agios_init(record, NULL, argv[1], 2) && errno == EBUSY);
		for (int i = 0; i < 3; i++)
			REQUIRE(agios_add_request("f", RT_WRITE, i, 1, round * 3 + i, 0));
		wait_for(&recorded_count, 3 * (round + 1));
		agios_exit();
		/* With it went what it knew of those that were not released. */
		REQUIRE(!agios_release_request("f", RT_WRITE, 1, 0) && errno == ENXIO);
		agios_exit();
	}
	/* What is queued at the end is dropped, and said to be. */
	REQUIRE(agios_init(record, NULL, argv[1], 2));
	REQUIRE(agios_add_request("f", RT_WRITE, 0, 1, 900, 0));
	wait_for(&recorded_count, 121);
	REQUIRE(agios_add_request("f", RT_READ, 0, 1, 901, 0)); /* behind the write */
	REQUIRE(agios_add_request("f", RT_READ, 0, 1, 902, 0));
	agios_exit();
	REQUIRE(recorded_count == 121);
	/* An end from inside a call-back would wait for itself. */
	REQUIRE(agios_init(from_inside, NULL, argv[1], 2));
	REQUIRE(agios_add_request("f", RT_READ, 0, 1, 903, 0));
	wait_for(&recorded_count, 122);
	REQUIRE(agios_release_request("f", RT_READ, 1, 0));
	/* While the end waits for the call-back that runs, that one may release, but not add. */
	agios_exit();
	REQUIRE(agios_init(last, NULL, argv[1], 2));
	REQUIRE(agios_add_request("f", RT_READ, 0, 1, 906, 0));
	wait_for(&recorded_count, 123);
	agios_exit();
	REQUIRE(was_last);
	REQUIRE(agios_init(from_inside, NULL, argv[1], 2));
	/* A forked child has the memory, but not the thread. */
	pid_t child = fork();
	REQUIRE(child >= 0);
	if (child == 0) {
		alarm(DEADLINE_S);
		REQUIRE(!agios_add_request("f", RT_READ, 0, 1, 904, 0) && errno == ENXIO);
		REQUIRE(!agios_init(record, NULL, argv[1], 2) && errno == EBUSY);
		agios_exit();
		_exit(0);
	}
	int status = 1;
	REQUIRE(waitpid(child, &status, 0) == child && status == 0);
	REQUIRE(agios_add_request("f", RT_READ, 0, 1, 905, 0));
	wait_for(&recorded_count, 124);
	agios_exit();
	return 0;
}
