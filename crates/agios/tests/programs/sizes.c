/* sizes CONF: requests of no byte, and of more than a GiB, are answered. */
#include "held.h"

int main(int argc, char **argv)
{
	alarm(DEADLINE_S);
	REQUIRE(argc == 2);
	REQUIRE(agios_init(record, NULL, argv[1], 2));
	const int64_t sizes[] = {0, 1, (1LL << 30) - 1, (1LL << 30) + 1, 3LL << 30, 1LL << 62, 0};
	const int count = sizeof sizes / sizeof *sizes;
	for (int type = RT_READ; type <= RT_WRITE; type++)
		for (int i = 0; i < count; i++)
			REQUIRE(agios_add_request(type == RT_READ ? "r" : "w", type, i, sizes[i],
						  count * type + i, i % 2));
	/* Those that share bytes wait for each other's release. */
	int released[sizeof recorded / sizeof *recorded] = {0};
	for (int answered = 0; answered < 2 * count; answered++) {
		wait_for(&recorded_count, answered + 1);
		int64_t id = recorded[answered];
		REQUIRE(id >= 0 && id < 2 * count && !released[id]);
		released[id] = 1;
		int type = (int)id / count, i = (int)id % count;
		REQUIRE(agios_release_request(type == RT_READ ? "r" : "w", type, sizes[i], i));
	}
	/* What has no meaning is refused. */
	const struct {
		const char *file;
		int32_t type;
		int64_t offset, len;
	} bad[] = {
		{NULL, RT_READ, 0, 1}, {"f", 2, 0, 1}, {"f", -1, 0, 1}, {"f", RT_READ, -1, 1},
		{"f", RT_READ, 0, -1}, {"f", RT_WRITE, INT64_MAX, 1},
	};
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		errno = 0;
		REQUIRE(!agios_add_request((char *)bad[i].file, bad[i].type, bad[i].offset, bad[i].len, 9, 0));
		REQUIRE(errno == EINVAL);
		REQUIRE(!agios_release_request((char *)bad[i].file, bad[i].type, bad[i].len, bad[i].offset));
		REQUIRE(!agios_cancel_request((char *)bad[i].file, bad[i].type, bad[i].len, bad[i].offset));
	}
	agios_exit();
	return 0;
}
