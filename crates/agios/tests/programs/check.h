/* What the test programs share: a check that ends the program, and an event to wait for. */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUIRE(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
			_exit(1); \
		} \
	} while (0)

/* A program that hangs is ended, and the test fails. */
#define DEADLINE_S 120

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* Sets *value under the lock and tells those that wait. */
static inline void set(int *value, int to)
{
	pthread_mutex_lock(&lock);
	*value = to;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static inline void count_up(int *value)
{
	pthread_mutex_lock(&lock);
	*value += 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

/* Waits until *value is at least `least`. */
static inline void wait_for(int *value, int least)
{
	pthread_mutex_lock(&lock);
	while (*value < least)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static inline int read_value(int *value)
{
	pthread_mutex_lock(&lock);
	int now = *value;
	pthread_mutex_unlock(&lock);
	return now;
}
