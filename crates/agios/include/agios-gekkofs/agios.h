/* The variant of AGIOS's interface that GekkoFS's forwarding mode is written against, served by
 * Forebay: each request may bring a call-back of its own.
 *
 * Compile with -I PREFIX/include/agios-gekkofs and link with the same -lagios: the functions that
 * differ from <agios.h> have the same names in the program and names of their own in the library.
 * A program uses one of the two headers, in all its files.
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

/* As in <agios.h>, but process_request_user may be NULL too. Each request must then bring a
 * call-back.
 */
bool agios_init(void *process_request_user(int64_t req_id),
		void *process_requests_user(int64_t *reqs, int32_t reqnb),
		char *config_file,
		int32_t max_queue_id) __asm__("agios_gekkofs_init");

/* As in <agios.h>. */
void agios_exit(void);

/* As in <agios.h>, with a call-back for this request: it is called with the identifier and with
 * user_info when it is the request's turn, instead of those given to agios_init. NULL for those.
 *
 * errno: also EINVAL if there is no call-back, neither here nor from agios_init
 */
bool agios_add_request(char *file_id,
		int32_t type,
		int64_t offset,
		int64_t len,
		int64_t identifier,
		int32_t queue_id,
		void *user_callback(int64_t req_id, void *user_info),
		void *user_info) __asm__("agios_gekkofs_add_request");

/* As in <agios.h>. Note the order: len, then offset. */
bool agios_release_request(char *file_id,
		int32_t type,
		int64_t len,
		int64_t offset);

/* As in <agios.h>. Note the order: len, then offset. */
bool agios_cancel_request(char *file_id,
		int32_t type,
		int64_t len,
		int64_t offset);

/* As in <agios.h>. */
struct agios_metrics_t {
	int64_t total_reqnb;
	int64_t reads;
	int64_t writes;
	int64_t avg_time_between_requests;
	int64_t avg_request_size;
	int64_t max_request_size;
	int64_t filenb;
	int64_t avg_offset_distance;
	int64_t served_bytes;
};

/* As in <agios.h>. */
struct agios_metrics_t *agios_get_metrics_and_reset(void);

#ifdef __cplusplus
}
#endif
