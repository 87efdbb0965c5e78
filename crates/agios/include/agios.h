/* AGIOS's interface, version 2, served by Forebay.
 *
 * A program written for AGIOS compiles and links against this header and -lagios unchanged.
 * docs/agios.md says what behaves differently and why.
 *
 * All functions may be called from any thread, and from inside the call-backs, except agios_exit.
 * Those that return bool return true for success; on false, errno says why.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a request does. */
enum {
	RT_READ = 0,
	RT_WRITE = 1,
};

/* Reads the configuration and starts the library.
 *
 * process_request_user   called with the identifier of each request whose turn it is; required
 * process_requests_user  called instead for several requests that are contiguous, of one file and
 *                        one type, in offset order; the array is valid during the call only; may
 *                        be NULL, then each of them is given to process_request_user
 * config_file            NULL or "" for /etc/agios.conf
 * max_queue_id           how many queue ids there are, for the algorithms TWINS and WFQ; else 0
 *
 * errno: EINVAL  no call-back, or a configuration that cannot be used (a line on standard error
 *                names file, line, key, value and remedy)
 *        EBUSY   the library is running already
 *        EAGAIN  its thread could not be started
 */
bool agios_init(void *process_request_user(int64_t req_id),
		void *process_requests_user(int64_t *reqs, int32_t reqnb),
		char *config_file,
		int32_t max_queue_id);

/* Stops the library and waits for the call-back that is running, which may still release. Requests
 * that are still queued are dropped, and standard error says how many. May follow a failed
 * agios_init; agios_init may follow it. Not to be called from a call-back.
 * Under NOOP call-backs run on the threads that add; agios_exit does not wait for those.
 */
void agios_exit(void);

/* Adds a request. The text of file_id is copied; identifier comes back in the call-back.
 *
 * errno: EINVAL  type, offset, len or queue_id is out of range, or file_id is NULL
 *        EAGAIN  the queue is full (queue_requests_max in the configuration)
 *        ENXIO   the library is not running
 */
bool agios_add_request(char *file_id,
		int32_t type,
		int64_t offset,
		int64_t len,
		int64_t identifier,
		int32_t queue_id);

/* Says that a request that was given to a call-back is done. Note the order: len, then offset.
 * Requests that conflict with it may now have their turn.
 *
 * errno: ENOENT  no such request is with the program
 *        ENXIO   the library is not running
 */
bool agios_release_request(char *file_id,
		int32_t type,
		int64_t len,
		int64_t offset);

/* Takes back a request that has not been given to a call-back; of several equal ones, the one
 * added first. Note the order: len, then offset.
 *
 * errno: ENOENT  no such request was ever added, or it has been released or cancelled
 *        EALREADY  it is with the program, or will be when the call-backs return for those that are
 *                  given back together with it; the program must release it
 *        ENXIO   the library is not running
 */
bool agios_cancel_request(char *file_id,
		int32_t type,
		int64_t len,
		int64_t offset);

/* What was asked for since agios_init or the last call of agios_get_metrics_and_reset.
 * Times are in nanoseconds, sizes and distances in bytes; means are rounded down.
 */
struct agios_metrics_t {
	int64_t total_reqnb;               /* requests added */
	int64_t reads;                     /* of these, reads */
	int64_t writes;                    /* and writes */
	int64_t avg_time_between_requests; /* mean time between two requests */
	int64_t avg_request_size;          /* mean size of a request */
	int64_t max_request_size;          /* largest request */
	int64_t filenb;                    /* files of which requests were added or released */
	int64_t avg_offset_distance;       /* mean distance from the end of the request before it, of
	                                      one file and type, averaged over these */
	int64_t served_bytes;              /* bytes of requests that were released */
};

/* The metrics; they start anew. To be freed by the caller with free(). NULL with errno ENXIO if
 * the library is not running, or with ENOMEM.
 */
struct agios_metrics_t *agios_get_metrics_and_reset(void);

#ifdef __cplusplus
}
#endif
