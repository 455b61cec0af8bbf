/* capture_comms.h: which events are communication, where a trace does not say it in arguments of kernels. */
#ifndef LK_TRACE_CAPTURE_COMMS_H
#define LK_TRACE_CAPTURE_COMMS_H

#include "trace/capture/capture.h"

/* Completes capture->comms once events are nested and joined with their launches; leaves them unsorted. */
lk_status lk_capture_join_comms(lk_capture *capture, lk_error *err);

#endif
