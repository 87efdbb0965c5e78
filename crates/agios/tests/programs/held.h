/* A library whose call-backs are recorded, and held up while the gate is shut, so that requests
 * queue up behind the first one. */
#pragma once

#include "check.h"

#include <agios.h>

#define RECORDED_MAX (1 << 17)

static int64_t recorded[RECORDED_MAX];
static int recorded_count;
static int gate_is_open = 1;

static inline void *record(int64_t id)
{
	pthread_mutex_lock(&lock);
	REQUIRE(recorded_count < RECORDED_MAX);
	recorded[recorded_count++] = id;
	pthread_cond_broadcast(&changed);
	while (!gate_is_open)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Shuts the gate and has one request stand in it. */
static inline void shut_gate(void)
{
	pthread_mutex_lock(&lock);
	gate_is_open = 0;
	pthread_mutex_unlock(&lock);
	int before = read_value(&recorded_count);
	REQUIRE(agios_add_request("gate", RT_READ, 0, 1, -1, 0));
	wait_for(&recorded_count, before + 1);
}

/* Opens it; the request that stood in it is released. */
static inline void open_gate(void)
{
	set(&gate_is_open, 1);
	REQUIRE(agios_release_request("gate", RT_READ, 1, 0));
}

static inline int times_recorded(int64_t id)
{
	int times = 0;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < recorded_count; i++)
		times += recorded[i] == id;
	pthread_mutex_unlock(&lock);
	return times;
}
