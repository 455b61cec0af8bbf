/* emulated_device.h: what a process that posed as a rank asked of its device: which calls are steps of its work, how long that
 * took on its streams, which event is waited for. */
#ifndef LK_TRACE_POSED_DEVICE_H
#define LK_TRACE_POSED_DEVICE_H

#include "trace/read/recorded.h"

/* All that one serial number stands for: a batch of kernels, a copy, an event's recording. */
typedef struct lk_posed_work {
	uint64_t serial;
	uint32_t call;           /* of the run: the first that put it on its stream; LK_NONE */
	uint32_t name;           /* interned, of a kernel; 0 none */
	bool waited;             /* something waits for the event */
	double ns;               /* on the stream, without communication; NAN not known */
} lk_posed_work;

typedef struct lk_posed_device {
	LK_VEC(lk_posed_work) at; /* by serial */
} lk_posed_device;

lk_status lk_posed_device_read(const lk_recorded_run *run, lk_posed_device *out, lk_error *err);
/* Whether call `i` is part of a step: the first of a batch, a copy, an event that is waited for, a wait. */
bool lk_posed_device_item(const lk_posed_device *device, const lk_recorded_run *run, uint32_t i);
/* Whether the host waits in it. */
bool lk_posed_device_waits(const lk_recorded_run *run, uint32_t i);
/* The call that recorded the event that call `i` waits for; LK_NONE. */
uint32_t lk_posed_device_awaited(const lk_posed_device *device, const lk_recorded_run *run, uint32_t i);
/* Of a call of the device: what it put on a stream takes so long there, and its name; of others 0. */
double lk_posed_device_work_ns(const lk_posed_device *device, const lk_record_entry *call);
uint32_t lk_posed_device_name(const lk_posed_device *device, const lk_record_entry *call);

#endif
