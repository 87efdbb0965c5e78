/* threads CONF [EACH]: a service as AGIOS's users write it. Threads add requests, the call-back, which no
 * other call-back may interrupt, makes a thread for each, and that thread releases. The program
 * holds a lock of its own while it adds, which its call-backs take too. */
#include "check.h"

#include <agios.h>

enum { THREADS = 4, EACH_MAX = 100 };

static int each = EACH_MAX; /* requests a thread */

static struct {
	char file[32];
	int32_t type;
	int64_t offset;
} requests[THREADS * EACH_MAX];

static pthread_t makers[THREADS], carriers[THREADS * EACH_MAX];
static pthread_mutex_t service = PTHREAD_MUTEX_INITIALIZER;
static int carried;
static int inside; /* not under a lock: call-backs are one at a time */

static void *carry_out(void *argument)
{
	intptr_t i = (intptr_t)argument;
	REQUIRE(agios_release_request(requests[i].file, requests[i].type, 512, requests[i].offset));
	count_up(&carried);
	return NULL;
}

static void *start_one(int64_t id)
{
	REQUIRE(__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST) == 1);
	pthread_mutex_lock(&service);
	REQUIRE(pthread_create(&carriers[id], NULL, carry_out, (void *)(intptr_t)id) == 0);
	pthread_mutex_unlock(&service);
	__atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void *start_several(int64_t *ids, int32_t count)
{
	REQUIRE(count > 1 && count <= 16);
	for (int32_t i = 0; i < count; i++)
		start_one(ids[i]);
	return NULL;
}

static void *make(void *argument)
{
	intptr_t thread = (intptr_t)argument;
	for (intptr_t i = thread * each; i < (thread + 1) * each; i++) {
		pthread_mutex_lock(&service);
		REQUIRE(agios_add_request(requests[i].file, requests[i].type, requests[i].offset, 512, i,
					  (int32_t)(i % 2)));
		pthread_mutex_unlock(&service);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	alarm(DEADLINE_S);
	REQUIRE(argc == 2 || argc == 3);
	if (argc == 3)
		each = atoi(argv[2]);
	REQUIRE(each > 0 && each <= EACH_MAX);
	const int all = THREADS * each;
	unsigned seed = 3;
	for (int i = 0; i < all; i++) {
		snprintf(requests[i].file, sizeof requests[i].file, "file.%d", i / each / 2);
		requests[i].type = (int32_t)(rand_r(&seed) % 2);
		requests[i].offset = rand_r(&seed) % 100 < 60 ? 512LL * i : 512LL * (rand_r(&seed) % 5000);
	}
	REQUIRE(agios_init(start_one, start_several, argv[1], 2));
	for (intptr_t i = 0; i < THREADS; i++)
		REQUIRE(pthread_create(&makers[i], NULL, make, (void *)i) == 0);
	wait_for(&carried, all);
	agios_exit();
	for (int i = 0; i < THREADS; i++)
		REQUIRE(pthread_join(makers[i], NULL) == 0);
	for (int i = 0; i < all; i++)
		REQUIRE(pthread_join(carriers[i], NULL) == 0);
	return 0;
}
