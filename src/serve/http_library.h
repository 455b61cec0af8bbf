/* http_library.h: functions of libmicrohttpd, loaded when the server starts. */
#ifndef LK_SERVE_HTTP_LIBRARY_H
#define LK_SERVE_HTTP_LIBRARY_H

#include <microhttpd.h>
#include "lockstep/error.h"

/* The functions used, without the prefix MHD_. */
#define LK_MHD_CALLS(CALL)            \
	CALL(add_response_header)         \
	CALL(create_post_processor)       \
	CALL(create_response_from_buffer) \
	CALL(destroy_post_processor)      \
	CALL(destroy_response)            \
	CALL(get_connection_info)         \
	CALL(get_connection_values)       \
	CALL(get_daemon_info)             \
	CALL(get_timeout)                 \
	CALL(lookup_connection_value)     \
	CALL(post_process)                \
	CALL(queue_response)              \
	CALL(resume_connection)           \
	CALL(run)                         \
	CALL(start_daemon)                \
	CALL(stop_daemon)                 \
	CALL(suspend_connection)

typedef struct lk_mhd_calls {
#define LK_CALL(name) __typeof__(MHD_##name) *name;
	LK_MHD_CALLS(LK_CALL)
#undef LK_CALL
} lk_mhd_calls;

/* Usable after lk_mhd_load, which may be called repeatedly and from any thread. */
extern lk_mhd_calls lk_mhd;
lk_status lk_mhd_load(lk_error *err);

#endif
