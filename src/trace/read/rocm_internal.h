/* rocm_internal.h: shared by the readers of AMD's profilers. */
#ifndef LK_TRACE_READ_ROCM_INTERNAL_H
#define LK_TRACE_READ_ROCM_INTERNAL_H

#include "trace/read/read.h"

typedef struct lk_rocm {
	lk_capture *capture;
	const lk_read_limits *limits;
	lk_error *err;
	uint64_t strange;
} lk_rocm;

lk_status lk_rocm_intern(lk_rocm *rocm, const char *text, uint32_t *out);
/* Add device work; `event` has kind, times, name and correlation. */
lk_status lk_rocm_add_work(lk_rocm *rocm, int64_t device, int64_t stream, const lk_event *event);
/* Add a call (RUNTIME) or a range (NOTE) of a thread. */
lk_status lk_rocm_add_call(lk_rocm *rocm, int64_t process, int64_t thread, const lk_event *event);
/* Set the times of an event; if they are invalid, count it and return false. */
bool lk_rocm_times(lk_rocm *rocm, lk_event *event, int64_t start_ns, int64_t end_ns);
/* The kind of a call of a domain: "HIP_RUNTIME_API", "MARKER_CORE_API"; false: it is not kept. */
bool lk_rocm_domain(const char *domain, lk_event_kind *kind);
/* "MEMORY_COPY_HOST_TO_DEVICE" is "Memcpy HtoD". */
const char *lk_rocm_copy_name(const char *operation);
/* Another process follows: finish the capture unless it is empty, and begin one that follows it. */
lk_status lk_rocm_next(lk_rocm *rocm);
/* Note the damage. An empty capture is an error. */
lk_status lk_rocm_finish(lk_rocm *rocm);

#endif
