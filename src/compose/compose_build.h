/* compose_build.h: the step graph of a composed job while it is written: what compose_graph.c (hosts and MPI) and
 * compose_device.c (devices and NCCL) share. */
#ifndef LK_ASK_COMPOSE_BUILD_H
#define LK_ASK_COMPOSE_BUILD_H

#include "compose/compose_parts.h"

/* Streams of a rank. Those of its device are the last ones. */
enum { LK_COMPOSED_OWN = LK_STREAM_COMPUTE, LK_COMPOSED_CALLS = LK_STREAM_DP, LK_COMPOSED_FLIGHTS = LK_STREAM_SEND_FORWARD,
       LK_COMPOSED_FEWEST_FLIGHTS = 2 };

/* The name of a small message of MPI on its way. */
#define LK_COMPOSED_FLIGHT "flight"

/* Messages from one rank to another with one tag in one communicator. */
typedef struct lk_compose_channel {
	uint32_t comm, team;
	int32_t from, to, tag;
} lk_compose_channel;

/* The device of the rank that is written: a recorded stream has one of the graph, where groups of calls were put on it three
 * more: what they send, what they receive, collectives. */
typedef struct lk_compose_device {
	uint8_t first;           /* of the graph's streams; LK_STREAMS: there is no device */
	int count;
	struct {
		uint32_t number;     /* in the recording */
		uint8_t stream, lanes; /* of the graph; lanes 0: none */
		uint32_t tail;       /* last operation of this step; LK_NONE */
	} at[LK_STREAMS];
	uint32_t *event;         /* [items] what a recorded event stands for; LK_NONE: work of an earlier step */
} lk_compose_device;

typedef struct lk_compose_builder {
	lk_composer *c;
	lk_graph *graph;
	int progress;
	lk_compose_slower slower;
	LK_VEC(lk_compose_channel) channels;
	uint32_t *channel_at;    /* hash table of 1 + index */
	uint32_t *comm_at;       /* likewise, of the composer's communicators */
	size_t table;
	/* of the rank that is written */
	int32_t rank;
	uint32_t q;
	uint32_t *op_of;         /* [items] the operation that a wait waits for */
	lk_job_member *member;   /* [groups] */
	lk_compose_device device;
	lk_error *err;
} lk_compose_builder;

int64_t lk_compose_ps(double seconds);
unsigned lk_compose_op_kind(unsigned what);
/* Index of the communicator that is this one of the stand-in's groups for the rank. */
lk_status lk_compose_comm(lk_compose_builder *b, uint32_t group, uint32_t *out);
/* The team of its collectives; of the messages from one rank to another. */
lk_status lk_compose_team(lk_compose_builder *b, uint32_t comm, uint32_t *out);
lk_status lk_compose_channel_team(lk_compose_builder *b, uint32_t comm, int32_t from, int32_t to, int32_t tag, uint32_t *team);
uint32_t lk_compose_add_comm(lk_compose_builder *b, const lk_posed_item *item, unsigned kind, uint8_t stream, uint32_t join,
                             uint32_t team, double seconds);

/* ---- compose_device.c ---- */

/* Finds the graph's streams for those of the device of the rank's stand-in. */
lk_status lk_compose_device_begin(lk_compose_builder *b, const lk_posed_step *step);
/* A call of the device's runtime, or of NCCL; own work before it is there already. */
lk_status lk_compose_device_item(lk_compose_builder *b, const lk_posed_step *step, uint32_t i);
lk_status lk_compose_device_name_streams(lk_compose_builder *b);

#endif
