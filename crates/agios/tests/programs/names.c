/* names CONF: files that nobody uses any longer take no memory, however many there were. */
#include "held.h"

#include <malloc.h>

enum { FILES = 70000 };

static void *answer(int64_t id)
{
	char name[40];
	snprintf(name, sizeof name, "a-file-with-a-name/%lld", (long long)id);
	REQUIRE(agios_release_request(name, RT_WRITE, 10, 0));
	count_up(&recorded_count);
	return NULL;
}

static long use_files(int64_t first)
{
	int before = read_value(&recorded_count);
	for (int64_t i = first; i < first + FILES; i++) {
		char name[40];
		snprintf(name, sizeof name, "a-file-with-a-name/%lld", (long long)i);
		REQUIRE(agios_add_request(name, RT_WRITE, 0, 10, i, 0));
		if (i % 64 == 0) /* a bounded number at a time, or the queue itself is measured */
			wait_for(&recorded_count, before + (int)(i - first) + 1);
	}
	wait_for(&recorded_count, before + FILES);
	/* Small pieces, and large ones that are mapped. */
	struct mallinfo2 info = mallinfo2();
	return (long)(info.uordblks + info.hblkhd);
}

int main(int argc, char **argv)
{
	alarm(DEADLINE_S);
	REQUIRE(argc == 2);
	REQUIRE(agios_init(answer, NULL, argv[1], 2));
	long first = use_files(0), second = use_files(FILES), third = use_files(2 * FILES);
	fprintf(stderr, "names: %ld, %ld, %ld bytes in use\n", first, second, third);
	/* 530 bytes a name would be 37 MB. */
	REQUIRE(second - first < 1 << 20);
	REQUIRE(third - second < 1 << 20);
	agios_exit();
	return 0;
}
