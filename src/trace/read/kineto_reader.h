/* kineto_reader.h: what the files of the JSON reader share: kineto.c (the document), kineto_keep.c (an event into the
 * capture), kineto_head.c (the fields before and behind the events). */
#ifndef LK_TRACE_KINETO_READER_H
#define LK_TRACE_KINETO_READER_H

#include "trace/read/kineto_event.h"
#include "trace/capture/lane_map.h"

/* What may be odd about a file without making it useless; each becomes at most one warning. */
typedef enum lk_odd {
	LK_ODD_DAMAGED,
	LK_ODD_LONG,
	LK_ODD_NO_TIME,
	LK_ODD_NO_DURATION,
	LK_ODD_NEGATIVE,
	LK_ODD_TWICE,
	LK_ODD_CONTROLS,
	LK_ODD_NOT_FINITE,
	LK_ODD_COMMA,
	LK_ODD_NOT_ENDED,
	LK_ODD_NOT_BEGUN,
	LK_ODD_LONG_SHAPE,
	LK_ODD_HEAD,
	LK_ODD_BEHIND,
	LK_ODD_COUNT,
} lk_odd;

/* An event that began (ph B) and has not ended. */
typedef struct lk_open_call {
	lk_event event;
	uint32_t below;          /* the open call around it, or the next free place */
	bool kept;
} lk_open_call;

typedef struct lk_lane_label {
	int64_t process, thread;
	uint32_t name;
} lk_lane_label;

/* A row of deviceProperties. */
typedef struct lk_head_device {
	int64_t id;
	uint32_t name;
	int32_t sms;
	double bytes;
} lk_head_device;

enum { LK_SCRATCH = 1 << 16, LK_HEAD_DEVICES = 1024 };

typedef struct lk_kineto {
	lk_window window;
	lk_capture *c;
	lk_read_limits limits;   /* defaults filled in */
	lk_error *err;
	lk_keys keys;
	lk_kineto_fields f;      /* the event at hand */
	bool full;               /* the window could not grow any more */
	bool found;              /* a list of events */
	bool cut;                /* the file ended inside something */
	bool base_time;          /* the head says what time 0 is */
	struct {
		uint64_t count, line;
	} odd[LK_ODD_COUNT];
	LK_VEC(lk_open_call) open;
	uint32_t free_call;      /* LK_NONE: none */
	uint64_t open_count;
	lk_lane_map open_on;     /* the innermost open call of a thread */
	LK_VEC(lk_lane_label) labels;
	LK_VEC(lk_head_device) devices;
	char scratch[LK_SCRATCH];
} lk_kineto;

/* Counts something odd; the line of the first is that of `at`, in the window. */
void lk_kineto_odd(lk_kineto *r, lk_odd what, const char *at);
/* The number of a text; longer ones are cut at LK_SCRATCH. LK_NONE when memory is out. */
uint32_t lk_kineto_intern(lk_kineto *r, lk_slice text);
/* Adds the event of r->f to the capture, if it is one of use. */
lk_status lk_kineto_keep(lk_kineto *r, const char *at);
/* What can be done only when all events are there: names of lanes, calls left open, the device used. */
lk_status lk_kineto_finish(lk_kineto *r);
/* The name of a key of the head that there is a use for, or NULL; reads its value, which lies at `text`. */
const char *lk_head_wants(const char *key, size_t length);
lk_status lk_head_read(lk_kineto *r, const char *key, const char *text, size_t length);
/* Sets name, multiprocessors and memory of the device that ran most of the work. */
void lk_head_device_used(lk_kineto *r);

#endif
