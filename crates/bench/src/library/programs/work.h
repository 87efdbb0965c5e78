/* The work of one cell of the suite `library`, the same for every library: who submits which request
 * when, and what is measured of it.
 *
 * Request i is submitted by producer i mod P. Apart from strided work it is of file i mod F, at piece
 * i div F. Strided: one file; 32 clients read m pieces each, 32 pieces apart, one client after the
 * other; then the next round of 32 m pieces follows. A piece is 8 KiB.
 *
 * Each of P producers may have W/P requests in flight, so together at most W. The call-back completes
 * at once. Every 61st request is timed from before its submission until after its completion.
 *
 * What must be given is given as NAME=VALUE; the answer is a line of JSON.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 8192, CLIENTS = 32, PRODUCERS_MAX = 8, SAMPLE_EVERY = 61 };

static struct work {
	const char *mode;
	const char *policy;
	const char *path; /* of a configuration or a trace */
	uint64_t files;
	uint64_t pieces; /* of a client in a round; 0 for work that is not strided */
	uint64_t producers;
	uint64_t window;
	uint64_t requests;
	uint64_t rounds;
	uint64_t writes;
	uint64_t no_bypass;
	uint64_t seconds_max; /* SIGALRM ends what takes longer */
	uint64_t gaps; /* pieces left out between any two of a file */
	uint64_t way; /* what is kept beside the work, see forebay.c */
} work;

/* Ends the program: no cell is measured half. */
#define DIE(...)                                                                                       \
	do {                                                                                           \
		fprintf(stderr, __VA_ARGS__);                                                          \
		fputc('\n', stderr);                                                                   \
		exit(1);                                                                               \
	} while (0)

static void read_arguments(int count, char **arguments)
{
	static const struct {
		const char *name;
		uint64_t *number;
		const char **text;
	} known[] = {
		{"mode", NULL, &work.mode},
		{"policy", NULL, &work.policy},
		{"path", NULL, &work.path},
		{"files", &work.files, NULL},
		{"pieces", &work.pieces, NULL},
		{"producers", &work.producers, NULL},
		{"window", &work.window, NULL},
		{"requests", &work.requests, NULL},
		{"rounds", &work.rounds, NULL},
		{"writes", &work.writes, NULL},
		{"no_bypass", &work.no_bypass, NULL},
		{"gaps", &work.gaps, NULL},
		{"way", &work.way, NULL},
		{"seconds_max", &work.seconds_max, NULL},
	};
	for (int i = 1; i < count; i++) {
		const char *equals = strchr(arguments[i], '=');
		size_t length = equals ? (size_t)(equals - arguments[i]) : 0, k = 0, all = sizeof known / sizeof *known;
		while (k < all && (strlen(known[k].name) != length || strncmp(known[k].name, arguments[i], length)))
			k++;
		if (!equals || k == all)
			DIE("%s: no such argument", arguments[i]);
		if (known[k].text)
			*known[k].text = equals + 1;
		else
			*known[k].number = strtoull(equals + 1, NULL, 10);
	}
	if (!work.mode || !work.policy || !work.files || !work.requests || work.producers < 1 ||
	    work.producers > PRODUCERS_MAX || work.window < work.producers)
		DIE("mode, policy, files, requests, producers and window are needed");
	alarm((unsigned)work.seconds_max);
}

struct place {
	uint32_t file, client;
	uint64_t offset;
};

static inline struct place place_of(uint32_t i)
{
	if (work.pieces) {
		uint32_t pieces = (uint32_t)work.pieces, round = i / (CLIENTS * pieces);
		uint32_t rest = i % (CLIENTS * pieces), client = rest / pieces, piece = rest % pieces;
		return (struct place){0, client, ((uint64_t)round * pieces * CLIENTS + piece * CLIENTS + client) * PIECE};
	}
	uint32_t files = (uint32_t)work.files;
	return (struct place){i % files, i % (uint32_t)work.producers, (uint64_t)(i / files) * (1 + work.gaps) * PIECE};
}

static inline uint64_t now_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* How many requests of each producer have completed, and from when to when it worked; each on lines
 * of its own. */
static struct {
	_Alignas(128) _Atomic uint64_t count;
	uint64_t began_ns, ended_ns;
} completed[PRODUCERS_MAX];

/* When the timed requests were submitted; later, how long they took. */
static uint64_t *timed;

static inline uint32_t producer_of(uint32_t i)
{
	return work.producers == 1 ? 0 : i % (uint32_t)work.producers;
}

/* To be called for each request after it was completed. */
static inline void note_completion(uint32_t i)
{
	if (i % SAMPLE_EVERY == 0)
		timed[i / SAMPLE_EVERY] = now_ns(CLOCK_MONOTONIC) - timed[i / SAMPLE_EVERY];
	atomic_fetch_add_explicit(&completed[producer_of(i)].count, 1, memory_order_release);
}

/* Submits request i; a library's own. */
static void submit(uint32_t i, const struct place *place);

static pthread_barrier_t start;

static void wait_until_completed(uint32_t producer, uint64_t count)
{
	while (atomic_load_explicit(&completed[producer].count, memory_order_acquire) < count)
		sched_yield();
}

static void *produce(void *number)
{
	uint32_t producer = (uint32_t)(uintptr_t)number;
	uint64_t window = work.window / work.producers, submitted = 0, known = 0;
	pthread_barrier_wait(&start);
	completed[producer].began_ns = now_ns(CLOCK_MONOTONIC);
	for (uint64_t i = producer; i < work.requests; i += work.producers, submitted++) {
		if (submitted - known >= window) {
			wait_until_completed(producer, submitted - window + 1);
			known = atomic_load_explicit(&completed[producer].count, memory_order_acquire);
		}
		struct place place = place_of((uint32_t)i);
		if (i % SAMPLE_EVERY == 0)
			timed[i / SAMPLE_EVERY] = now_ns(CLOCK_MONOTONIC);
		submit((uint32_t)i, &place);
	}
	wait_until_completed(producer, submitted);
	completed[producer].ended_ns = now_ns(CLOCK_MONOTONIC);
	return NULL;
}

/* Does the work once; nanoseconds by the wall clock, from the first producer's start to the last one's
 * end. The first producer is the caller. */
static uint64_t do_work(void)
{
	pthread_t threads[PRODUCERS_MAX];
	if (!timed)
		timed = calloc(work.requests / SAMPLE_EVERY + 1, sizeof *timed);
	memset(completed, 0, sizeof completed);
	pthread_barrier_init(&start, NULL, (unsigned)work.producers);
	for (uint64_t p = 1; p < work.producers; p++)
		if (pthread_create(&threads[p], NULL, produce, (void *)(uintptr_t)p))
			DIE("no thread");
	produce(NULL);
	uint64_t began = UINT64_MAX, ended = 0;
	for (uint64_t p = 0; p < work.producers; p++) {
		if (p)
			pthread_join(threads[p], NULL);
		began = completed[p].began_ns < began ? completed[p].began_ns : began;
		ended = completed[p].ended_ns > ended ? completed[p].ended_ns : ended;
	}
	pthread_barrier_destroy(&start);
	return ended - began;
}

static int compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
	return (left > right) - (left < right);
}

/* A number of /proc/self/status, in bytes. */
static uint64_t memory(const char *name)
{
	char line[256];
	unsigned long long kib = 0;
	FILE *status = fopen("/proc/self/status", "r");
	while (status && fgets(line, sizeof line, status))
		if (!strncmp(line, name, strlen(name)) && sscanf(line + strlen(name), ": %llu", &kib) == 1)
			break;
	if (!kib)
		DIE("/proc/self/status has no %s", name);
	fclose(status);
	return (uint64_t)kib << 10;
}

/* What is said of a whole cell. `batches` is how many call-backs brought the requests. */
static void say_cell(uint64_t took_ns, uint64_t batches)
{
	uint64_t samples = (work.requests + SAMPLE_EVERY - 1) / SAMPLE_EVERY;
	uint64_t processor_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	qsort(timed, samples, sizeof *timed, compare);
	printf("{\"ns\": %llu, \"processor_ns\": %llu, \"batches\": %llu, \"p50_ns\": %llu, \"p99_ns\": %llu, "
	       "\"peak_bytes\": %llu}\n",
	       (unsigned long long)took_ns, (unsigned long long)processor_ns, (unsigned long long)batches,
	       (unsigned long long)timed[samples / 2], (unsigned long long)timed[samples * 99 / 100],
	       (unsigned long long)memory("VmHWM"));
}
