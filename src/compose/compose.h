/* compose.h: recordings of single emulated ranks as one job: shared by the files of compose, in the
 * order in which they should be read.
 *
 *     emulated_device.c   a rank's device work, and its times
 *     emulated_step.c     the typical step of a recording: calls, and own work between them
 *     compose_read.c      the recordings of a folder
 *     compose_ranks.c     the recorded rank that stands in for each rank of the job
 *     compose_time.c      times of communication on the cluster
 *     compose_teams.c     communicators and channels of the step graph
 *     compose_device.c    streams, events and NCCL in the step graph
 *     compose_graph.c     the job as a step graph
 *     compose.c           lk_compose: recordings in, simulated, summed up */
#ifndef LK_COMPOSE_COMPOSE_H
#define LK_COMPOSE_COMPOSE_H

#include "base/check.h"
#include "cost/collective/collective.h"
#include "graph/graph.h"
#include "hw/hw.h"
#include "lockstep/compose.h"
#include "trace/read/read.h"

/* ---- the device of a recording (emulated_device.c) ---- */

/* Work with one serial number: a batch of kernels, a copy, an event's recording. */
typedef struct lk_emulated_work {
	uint64_t serial;
	uint32_t call; /* of the run: the first that put it on its stream; LK_NONE */
	uint32_t name; /* interned, of a kernel; 0 none */
	bool waited;   /* something waits for the event */
	double ns;     /* on the stream, without communication; NAN unknown */
} lk_emulated_work;

typedef struct lk_emulated_device {
	LK_VEC(lk_emulated_work) at; /* by serial */
} lk_emulated_device;

lk_status lk_emulated_device_read(const lk_recorded_run *run, lk_emulated_device *out,
                                  lk_error *err);
/* Whether call `i` is an item of the step: the first of a batch, a copy, an awaited event, a
 * wait. */
bool lk_emulated_device_item(const lk_emulated_device *device, const lk_recorded_run *run,
                             uint32_t i);
/* Whether the host waits in it. */
bool lk_emulated_device_waits(const lk_recorded_run *run, uint32_t i);
/* The call that recorded the event that call `i` waits for; LK_NONE. */
uint32_t lk_emulated_device_awaited(const lk_emulated_device *device, const lk_recorded_run *run,
                                    uint32_t i);
/* For a call of the device: the time of its work on the stream, and its name; 0 for others. */
double lk_emulated_device_work_ns(const lk_emulated_device *device, const lk_record_entry *call);
uint32_t lk_emulated_device_name(const lk_emulated_device *device, const lk_record_entry *call);

/* ---- the typical step of a recording (emulated_step.c) ----
 *
 * The communication and device calls of one emulated rank, in order, and the times of its own work
 * between them. Recorded communication times are meaningless and are left out. Device calls of
 * several threads are treated as one thread's, in order of time. */

/* Peers of messages that are no rank, as recorded: MPI_ANY_SOURCE, MPI_PROC_NULL. */
enum { LK_PEER_ANY = -1, LK_PEER_NOBODY = -2 };

/* A communicator of the emulated world; also those of other ranks that the same call made. */
typedef struct lk_emulated_group {
	uint32_t number;   /* in the recording */
	int32_t own;       /* own rank in it; -1: of other ranks */
	uint64_t division; /* shared by all that one call made */
	int32_t size;
	int32_t *ranks; /* [size] of the world */
	uint32_t again; /* number of earlier communicators of exactly these ranks */
} lk_emulated_group;

/* A call, and the own work before it. */
typedef struct lk_emulated_item {
	uint8_t part;      /* of communication: WHOLE, POST, START, DONE, ENQUEUE */
	uint8_t what;      /* lk_comm_what */
	bool device;       /* a call of a device's runtime, with `what` an lk_device_what; else
	                      communication */
	uint8_t direction; /* of a copy, as recorded */
	bool waits;        /* a synchronous copy */
	uint16_t element_bytes;
	uint32_t group;     /* index into groups */
	uint32_t name;      /* interned in the run's texts */
	int32_t peer, from; /* rank in the group, LK_PEER_ANY, LK_PEER_NOBODY */
	int32_t tag;
	int64_t bytes;
	/* DONE: the item it waits for; a wait for an event: the item that recorded it; LK_NONE: none of
	 * this step. */
	uint32_t begun;
	uint32_t stream; /* of a device: its number in the recording; 0 none */
	uint32_t on;     /* a wait for an event: the stream on which it was recorded; 0 unknown */
	/* ENQUEUE: the last item of its group of calls on this stream, and the number of its items. */
	uint32_t last, members;
	double work_ns; /* on the stream: median; NAN unknown */
	/* Own work since the item before: median, 10 % and 90 % quantile over steps. */
	double own_ns, low_ns, high_ns;
	double asleep_ns; /* of own_ns, without any thread computing: median */
	double files_ns;  /* in reading and writing, median */
} lk_emulated_item;

typedef struct lk_emulated_step {
	const lk_recorded_run *run;
	int32_t rank, world;
	LK_VEC(lk_emulated_group) groups;
	LK_VEC(lk_emulated_item) items;
	uint32_t steps, unlike; /* in the recording; of these, with another sequence of calls */
	double step_ns;         /* own work and files of a typical step: sum of the medians */
	double asleep_ns;       /* of it, without any thread computing */
	double low_ns, high_ns; /* 10 % and 90 % quantile over whole steps */
	double preempted_ns;    /* in a mean step, waiting for a processor used by others; excluded from
	                           the times above */
	double extra_ns; /* excess of a mean step over the typical one: checkpoints, evaluation */
	/* Work on streams: sum of the medians; 10 % and 90 % quantile over whole steps. */
	double device_ns, device_low_ns, device_high_ns;
	uint32_t untimed; /* pieces of it with unknown times */
	lk_arena arena;
} lk_emulated_step;

/* Find the typical step; the run must outlive it. Errors say why the recording has none. */
lk_status lk_emulated_step_of(const lk_recorded_run *run, lk_emulated_step *out, lk_error *err);
void lk_emulated_step_free(lk_emulated_step *step);

typedef struct lk_emulated_rank {
	const char *path;
	lk_recorded_run run;
	lk_emulated_step step;
} lk_emulated_rank;

/* ---- the job ---- */

/* A communicator of the job. */
typedef struct lk_job_comm {
	const int32_t *ranks; /* [size] of the world, in its order */
	int32_t size;
	uint32_t again; /* number of earlier ones of exactly these ranks */
	uint32_t team;  /* of its collectives in the graph; LK_NONE none yet */
} lk_job_comm;

/* A rank in a communicator of its stand-in, translated to its own. */
typedef struct lk_job_member {
	const int32_t *ranks;
	int32_t size, at; /* at: own rank in it; -1: its members are unknown */
} lk_job_member;

/* A division of a communicator, as far as recorded. */
typedef struct lk_job_division {
	uint64_t division;
	lk_job_member *member; /* [world] the part of a rank; ranks NULL: unknown */
} lk_job_division;

/* A communicator without recording, extrapolated from the pattern of a recorded one. */
typedef struct lk_job_pattern {
	const lk_emulated_group *of;
	int32_t first, *ranks;
} lk_job_pattern;

typedef struct lk_composer {
	const lk_compose_request *request;
	lk_intern *texts;
	lk_arena arena;
	LK_VEC(lk_emulated_rank *) recorded; /* by rank */
	int32_t world;
	uint32_t *stand_in; /* [world] index into recorded */
	LK_VEC(lk_job_division) divisions;
	LK_VEC(lk_job_pattern) patterns;
	LK_VEC(lk_job_comm) comms;
	/* the cluster */
	lk_cluster cluster;
	lk_host_messages messages;
	int ranks_per_node;
	bool mpi, nccl, devices; /* the typical steps use them */
	bool torch;              /* the calls are of torch.distributed on the host: gloo's */
	int progress;            /* the request's; gloo always progresses, in threads of its own */
	lk_error *err;
} lk_composer;

/* ---- recordings (compose_read.c) ---- */

/* Read the recordings of the request's folder, by rank; they must be of one program and one
 * world. */
lk_status lk_compose_read(lk_composer *composer);
void lk_emulated_rank_free(lk_emulated_rank *rank);

/* ---- stand-ins (compose_ranks.c) ---- */

/* Set stand_in of every rank, or report which rank has no possible stand-in. */
lk_status lk_compose_stand_in(lk_composer *composer);
/* Translate group `group` of a recorded rank to `rank`. */
lk_status lk_compose_member(lk_composer *composer, uint32_t recorded, uint32_t group, int32_t rank,
                            lk_job_member *out);
/* Translate rank `peer` of the stand-in's communicator to a rank of the world for `rank`; -1:
 * none. */
int32_t lk_compose_peer(const lk_composer *composer, uint32_t recorded, uint32_t group,
                        const lk_job_member *member, int32_t peer);

/* ---- times (compose_time.c) ---- */

/* Seconds on the cluster. `after_another`: another one has just ended, so ranks arrive as staggered
 * as they left it. */
double lk_compose_collective_s(const lk_composer *composer, const lk_emulated_item *item,
                               const int32_t *ranks, int32_t size, bool after_another);
double lk_compose_message_s(const lk_composer *composer, int32_t from, int32_t to, double bytes);
/* The same of NCCL. */
double lk_compose_nccl_s(const lk_composer *composer, const lk_emulated_item *item,
                         const int32_t *ranks, int32_t size);
double lk_compose_nccl_message_s(const lk_composer *composer, int32_t from, int32_t to,
                                 double bytes);
/* Slowdown of computation in own work for ranks that share a machine: least and most. */
void lk_compose_contention(lk_composer *composer, double *low, double *high, const char **why);

/* ---- the step graph under construction (compose_teams.c) ---- */

/* Factors on recorded times: own work, its computation, device work. */
typedef struct lk_compose_slower {
	double own, computing, device;
} lk_compose_slower;

/* Streams of a rank. Those of its device are the last ones. */
enum {
	LK_COMPOSED_OWN = LK_STREAM_COMPUTE,
	LK_COMPOSED_CALLS = LK_STREAM_DP,
	LK_COMPOSED_FLIGHTS = LK_STREAM_SEND_FORWARD,
	LK_COMPOSED_FEWEST_FLIGHTS = 2
};

/* The name of a small MPI message in flight. */
#define LK_COMPOSED_FLIGHT "flight"

/* Messages from one rank to another with one tag in one communicator. */
typedef struct lk_compose_channel {
	uint32_t comm, team;
	int32_t from, to, tag;
} lk_compose_channel;

/* The device of the current rank: a recorded stream has one of the graph, and if groups of calls
 * were put on it three more: sends, receives, collectives. */
typedef struct lk_compose_device {
	uint8_t first; /* of the graph's streams; LK_STREAMS: no device */
	int count;
	struct {
		uint32_t number;       /* in the recording */
		uint8_t stream, lanes; /* of the graph; lanes 0: none */
		uint32_t tail;         /* last operation of this step; LK_NONE */
	} at[LK_STREAMS];
	/* [items] the operation of a recorded event; LK_NONE: work of an earlier step */
	uint32_t *event;
} lk_compose_device;

typedef struct lk_compose_builder {
	lk_composer *composer;
	lk_graph *graph;
	int progress;
	lk_compose_slower slower;
	LK_VEC(lk_compose_channel) channels;
	uint32_t *channel_at; /* hash table of 1 + index */
	uint32_t *comm_at;    /* likewise, of the composer's communicators */
	size_t table;
	/* of the current rank */
	int32_t rank;
	uint32_t recorded;     /* its stand-in: index into the composer's recorded ranks */
	uint32_t *op_of;       /* [items] the operation that a wait waits for */
	lk_job_member *member; /* [groups] */
	lk_compose_device device;
	lk_error *err;
} lk_compose_builder;

/* Picoseconds, at least 1. */
int64_t lk_compose_ps(double seconds);
/* The lk_op_kind of an lk_comm_what. */
unsigned lk_compose_op_kind(unsigned what);
/* Index of the rank's communicator that corresponds to this group of the stand-in. */
lk_status lk_compose_comm(lk_compose_builder *builder, uint32_t group, uint32_t *out);
/* The team of its collectives; of the messages from one rank to another. */
lk_status lk_compose_team(lk_compose_builder *builder, uint32_t comm, uint32_t *out);
lk_status lk_compose_channel_team(lk_compose_builder *builder, uint32_t comm, int32_t from,
                                  int32_t to, int32_t tag, uint32_t *team);
/* Add an operation that synchronises in a team; returns its place in the block. */
uint32_t lk_compose_add_comm(lk_compose_builder *builder, const lk_emulated_item *item,
                             unsigned kind, uint8_t stream, uint32_t join, uint32_t team,
                             double seconds);

/* ---- devices (compose_device.c) ---- */

/* Map the streams of the stand-in's device to the graph's. */
lk_status lk_compose_device_begin(lk_compose_builder *builder, const lk_emulated_step *step);
/* Add a call of the device's runtime, or of NCCL; own work before it was already added. */
lk_status lk_compose_device_item(lk_compose_builder *builder, const lk_emulated_step *step,
                                 uint32_t i);
lk_status lk_compose_device_name_streams(lk_compose_builder *builder);

/* ---- the step graph (compose_graph.c) ---- */

/* `progress`: lk_progress. The caller owns the graph. */
lk_status lk_compose_graph(lk_composer *composer, int progress, lk_compose_slower slower,
                           lk_graph **out);

#endif
