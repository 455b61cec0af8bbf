/* host_messages.h: how long messages and collectives of MPI take by their size, as `lockstep calibrate host --mpi` measured
 * them. */
#ifndef LK_COST_HOST_MESSAGES_H
#define LK_COST_HOST_MESSAGES_H

#include <stdbool.h>
#include "cost/collective/collective.h"
#include "lockstep/error.h"

enum { LK_MESSAGE_SIZES = 64 };

/* By ascending size; seconds alone (half of there and back) and when both send at once. */
typedef struct lk_message_times {
	int count;
	double bytes[LK_MESSAGE_SIZES], alone[LK_MESSAGE_SIZES], both[LK_MESSAGE_SIZES];
} lk_message_times;

/* A kind of collective among so many ranks on so many nodes; by ascending size. Seconds after a pause, and behind another
 * one without a pause, when ranks come at unlike times. */
typedef struct lk_collective_times {
	int count, ranks, nodes;
	double bytes[LK_MESSAGE_SIZES], alone[LK_MESSAGE_SIZES], behind[LK_MESSAGE_SIZES];
} lk_collective_times;

typedef struct lk_host_messages {
	lk_message_times inside, between; /* nodes; count 0: not measured */
	lk_collective_times collective[LK_COLLS]; /* count 0: not measured */
	double one_core_rate;    /* bytes/s that one core streams through memory; 0 not measured */
} lk_host_messages;

/* Of a cluster file in JSON; nothing where it has no such measurements, or is no such file. */
lk_status lk_host_messages_read(const char *path, lk_host_messages *out, lk_error *err);

/* Between measured sizes by a straight line, beyond the largest by its rate over the one before. */
double lk_message_seconds(const lk_message_times *times, double bytes, bool both);
double lk_collective_seconds(const lk_collective_times *times, double bytes, bool behind);

#endif
