/* metrics CONF: the figures are those of the requests, and start anew when they were read. */
#include "held.h"

int main(int argc, char **argv)
{
	alarm(DEADLINE_S);
	REQUIRE(argc == 2);
	REQUIRE(sizeof(struct agios_metrics_t) == 9 * sizeof(int64_t));
	REQUIRE(agios_init(record, NULL, argv[1], 2));
	REQUIRE(agios_add_request("a", RT_READ, 0, 10, 0, 0));
	REQUIRE(agios_add_request("a", RT_READ, 30, 20, 1, 0)); /* 20 from the end before it */
	REQUIRE(agios_add_request("b", RT_WRITE, 500, 90, 2, 0));
	wait_for(&recorded_count, 3);
	REQUIRE(agios_release_request("a", RT_READ, 10, 0));
	REQUIRE(agios_release_request("b", RT_WRITE, 90, 500));
	/* Read in order as plain numbers, since a program may have its own idea of the names. */
	int64_t *metrics = (int64_t *)agios_get_metrics_and_reset();
	REQUIRE(metrics != NULL);
	const int64_t expected[9] = {3, 2, 1, metrics[3], 40, 90, 2, 20, 100};
	REQUIRE(metrics[3] > 0);
	REQUIRE(memcmp(metrics, expected, sizeof expected) == 0);
	free(metrics);
	REQUIRE(agios_release_request("a", RT_READ, 20, 30));
	struct agios_metrics_t *named = agios_get_metrics_and_reset();
	REQUIRE(named != NULL && named->total_reqnb == 0 && named->filenb == 1);
	REQUIRE(named->served_bytes == 20 && named->avg_offset_distance == 0);
	free(named);
	agios_exit();
	return 0;
}
