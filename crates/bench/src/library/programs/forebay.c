/* Drives libforebay through forebay.h; see work.h.
 *
 * mode=cell      the work once
 * mode=overhead  the work in rounds, in each with all of three controllers that stay: plain, with
 *                accounts by class and file, with a trace to `path`; there and back again, so that
 *                what changes little by little changes all alike
 * mode=count     the work with the one of them that `way` says, for somebody who counts instructions
 * mode=memory    everything is queued and nothing dispatched; bytes a request
 */
#include <forebay.h>

#include "work.h"

static struct forebay *controller;

#define CALL(call)                                                                                     \
	do {                                                                                           \
		int result_ = (call);                                                                  \
		if (result_ < 0)                                                                       \
			DIE("%s: %d: %s", #call, result_, forebay_message());                          \
	} while (0)

static void on_batch(struct forebay *of, const struct forebay_batch *batch, void *user)
{
	(void)user;
	for (uint32_t k = 0; k < batch->count; k++) {
		const struct forebay_turn *turn = &batch->turns[k];
		CALL(forebay_complete(of, turn->ticket, (int64_t)turn->length));
		note_completion((uint32_t)turn->id);
	}
}

/* Classes of the rows that share: as many as weights, in turns. */
enum { CLASSES = 4 };
static int has_classes;

static void submit(uint32_t i, const struct place *place)
{
	struct forebay_request request = {
		.id = i,
		.file = {.high = 1, .low = place->file},
		.offset = place->offset,
		.length = PIECE,
		.operation = work.writes ? FOREBAY_WRITE : FOREBAY_READ,
		.client = place->client,
		.class_id = has_classes ? i / (uint32_t)work.producers % CLASSES : 0,
	};
	CALL(forebay_submit(controller, &request, NULL));
}

/* WFQ is TO in classes that share by weight; TWINS is TO in classes that have windows, of which one
 * that is not needed is lent. Other names are policies'. */
static void create(uint32_t delivery, uint32_t account_rows)
{
	struct forebay_options options;
	CALL(forebay_options_init(&options, sizeof options));
	int is_wfq = !strcmp(work.policy, "WFQ"), is_twins = !strcmp(work.policy, "TWINS");
	has_classes = is_wfq || is_twins;
	options.policy = has_classes ? "TO" : work.policy;
	options.delivery = delivery;
	options.on_batch = delivery == FOREBAY_DELIVER_CALL_BACK ? on_batch : NULL;
	options.no_bypass = (uint32_t)work.no_bypass;
	options.account_rows = account_rows;
	options.class_requests_max = options.queue_requests_max;
	if (is_wfq)
		options.sharing = FOREBAY_SHARE_SFQ;
	if (is_twins) {
		options.sharing = FOREBAY_SHARE_TWINS;
		options.twins_targets = CLASSES;
		options.twins_idle_ns = 0;
	}
	CALL(forebay_create(&options, &controller));
	for (uint32_t id = 0; is_wfq && id < CLASSES; id++) {
		struct forebay_share share;
		CALL(forebay_share_init(&share, sizeof share));
		share.weight = id + 1;
		CALL(forebay_set_class(controller, id, &share));
	}
}

static void end(void)
{
	CALL(forebay_drain(controller, -1));
	CALL(forebay_destroy(controller));
}

static void measure_cell(void)
{
	create(FOREBAY_DELIVER_CALL_BACK, 0);
	uint64_t took = do_work();
	struct forebay_counters counters;
	CALL(forebay_read_counters(controller, &counters, sizeof counters));
	if (counters.completed != work.requests)
		DIE("%llu requests completed", (unsigned long long)counters.completed);
	say_cell(took, counters.batches + counters.bypassed);
	end();
}

/* What is kept beside the work. */
enum { PLAIN, ACCOUNTS, TRACE, WAYS };

static struct forebay *create_way(uint64_t way)
{
	create(FOREBAY_DELIVER_CALL_BACK, way == ACCOUNTS ? 1024 : 0);
	if (way == TRACE)
		CALL(forebay_record(controller, work.path, 64 << 20));
	return controller;
}

static void measure_overhead(void)
{
	static const char *const names[WAYS] = {"plain_ns", "accounts_ns", "trace_ns"};
	static const int order[2 * WAYS] = {PLAIN, ACCOUNTS, TRACE, TRACE, ACCOUNTS, PLAIN};
	struct forebay *ways[WAYS];
	/* Where something lies in memory makes it quicker or slower; `way` is the first to be made. */
	for (uint64_t k = 0; k < WAYS; k++) {
		uint64_t way = (work.way + k) % WAYS;
		ways[way] = create_way(way);
	}
	uint64_t *took = calloc(work.rounds * WAYS, sizeof *took), events, lost;
	/* The first round only fills the caches, and memory that is used for the first time. */
	for (uint64_t round = 0; round <= work.rounds; round++) {
		for (int k = 0; k < 2 * WAYS; k++) {
			controller = ways[order[k]];
			uint64_t ns = do_work();
			if (round > 0)
				took[(uint64_t)order[k] * work.rounds + round - 1] += ns;
		}
	}
	CALL(forebay_end_record(ways[TRACE], &events, &lost));
	for (int way = 0; way < WAYS; way++) {
		controller = ways[way];
		end();
		printf("%s\"%s\": [", way ? ", " : "{", names[way]);
		for (uint64_t round = 0; round < work.rounds; round++)
			printf("%s%llu", round ? ", " : "", (unsigned long long)took[(uint64_t)way * work.rounds + round]);
		printf("]");
	}
	printf(", \"events\": %llu, \"lost\": %llu}\n", (unsigned long long)events, (unsigned long long)lost);
}

/* Its name tells where to begin counting and where to end; it is not the same as what it calls. */
__attribute__((noinline)) uint64_t counted(void)
{
	uint64_t took = do_work();
	__asm__ volatile("" ::: "memory");
	return took;
}

static void measure_count(void)
{
	if (work.way >= WAYS)
		DIE("way=%llu: no such way", (unsigned long long)work.way);
	create_way(work.way);
	do_work();
	printf("{\"ns\": %llu}\n", (unsigned long long)counted());
	end();
}

static void measure_memory(void)
{
	create(FOREBAY_DELIVER_POLL, 0);
	/* What is there once, whatever the queue: the descriptor, the first chunks, the C library. */
	for (uint32_t i = 0; i < 64; i++) {
		struct place place = place_of(i);
		submit(i, &place);
	}
	CALL(forebay_take_back(controller, NULL, NULL));
	uint64_t before = memory("VmRSS");
	for (uint32_t i = 0; i < work.requests; i++) {
		struct place place = place_of(i);
		submit(i, &place);
	}
	uint64_t queued_bytes = memory("VmRSS") - before;
	struct forebay_counters counters;
	CALL(forebay_read_counters(controller, &counters, sizeof counters));
	if (counters.queued_now != work.requests)
		DIE("%llu requests are queued", (unsigned long long)counters.queued_now);
	printf("{\"queued_bytes\": %llu}\n", (unsigned long long)queued_bytes);
	/* Taking a million requests back is not what is measured. */
	fflush(stdout);
	_exit(0);
}

int main(int count, char **arguments)
{
	read_arguments(count, arguments);
	if (!strcmp(work.mode, "cell"))
		measure_cell();
	else if (!strcmp(work.mode, "overhead"))
		measure_overhead();
	else if (!strcmp(work.mode, "count"))
		measure_count();
	else if (!strcmp(work.mode, "memory"))
		measure_memory();
	else
		DIE("mode=%s: no such mode", work.mode);
	return 0;
}
