/* host_messages.h: how long messages of MPI take by their size, as `lockstep calibrate host --mpi` measured them. */
#ifndef LK_COST_HOST_MESSAGES_H
#define LK_COST_HOST_MESSAGES_H

#include <stdbool.h>
#include "lockstep/error.h"

enum { LK_MESSAGE_SIZES = 64 };

/* By ascending size; seconds alone (half of there and back) and when both send at once. */
typedef struct lk_message_times {
	int count;
	double bytes[LK_MESSAGE_SIZES], alone[LK_MESSAGE_SIZES], both[LK_MESSAGE_SIZES];
} lk_message_times;

typedef struct lk_host_messages {
	lk_message_times inside, between; /* nodes; count 0: not measured */
	double one_core_rate;    /* bytes/s that one core streams through memory; 0 not measured */
} lk_host_messages;

/* Of a cluster file in JSON; nothing where it has no such measurements, or is no such file. */
lk_status lk_host_messages_read(const char *path, lk_host_messages *out, lk_error *err);

/* Between measured sizes by a straight line, beyond the largest by its rate over the one before. */
double lk_message_seconds(const lk_message_times *times, double bytes, bool both);

#endif
