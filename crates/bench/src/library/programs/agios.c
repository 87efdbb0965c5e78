/* Drives the drop-in libagios through agios.h, AGIOS's own interface; see work.h.
 *
 * mode=cell  the work once; `path` is the configuration, which names the algorithm
 */
#include <agios.h>

#include "work.h"

enum { QUEUES = 4 };

static char (*names)[24];
static _Atomic uint64_t batches;

static void complete(int64_t id)
{
	struct place place = place_of((uint32_t)id);
	if (!agios_release_request(names[place.file], work.writes ? RT_WRITE : RT_READ, PIECE, (int64_t)place.offset))
		DIE("agios_release_request: request %lld", (long long)id);
	note_completion((uint32_t)id);
}

static void *on_request(int64_t id)
{
	atomic_fetch_add_explicit(&batches, 1, memory_order_relaxed);
	complete(id);
	return NULL;
}

static void *on_requests(int64_t *ids, int32_t count)
{
	atomic_fetch_add_explicit(&batches, 1, memory_order_relaxed);
	for (int32_t k = 0; k < count; k++)
		complete(ids[k]);
	return NULL;
}

static void submit(uint32_t i, const struct place *place)
{
	int32_t queue = (int32_t)(i / (uint32_t)work.producers % QUEUES);
	if (!agios_add_request(names[place->file], work.writes ? RT_WRITE : RT_READ, (int64_t)place->offset, PIECE, i,
			       queue))
		DIE("agios_add_request: request %u", i);
}

int main(int count, char **arguments)
{
	read_arguments(count, arguments);
	if (strcmp(work.mode, "cell"))
		DIE("mode=%s: no such mode", work.mode);
	names = calloc(work.files, sizeof *names);
	for (uint64_t file = 0; file < work.files; file++)
		snprintf(names[file], sizeof *names, "/f%llu", (unsigned long long)file);
	if (!agios_init(on_request, on_requests, (char *)(uintptr_t)work.path, QUEUES))
		DIE("agios_init: %s", work.path);
	uint64_t took = do_work();
	say_cell(took, batches);
	agios_exit();
	return 0;
}
