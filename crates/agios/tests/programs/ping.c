/* ping CONF: a request added right after the start is answered, and the call-back may release. */
#include "check.h"

#include <agios.h>

static int answered;

static void *answer(int64_t id)
{
	REQUIRE(agios_release_request("f", RT_WRITE, 10, 10 * id));
	count_up(&answered);
	return NULL;
}

int main(int argc, char **argv)
{
	alarm(DEADLINE_S);
	REQUIRE(argc == 2);
	REQUIRE(agios_init(answer, NULL, argv[1], 2));
	for (int i = 0; i < 20; i++) {
		REQUIRE(agios_add_request("f", RT_WRITE, 10 * i, 10, i, 0));
		wait_for(&answered, i + 1);
	}
	agios_exit();
	return 0;
}
