/* compose_parts.h: what the files of compose share. compose.c reads the recordings, asks and sums up; compose_ranks.c finds
 * who stands in for whom; compose_time.c says how long communication takes; compose_graph.c writes the job as a step graph, of
 * devices compose_device.c does. */
#ifndef LK_ASK_COMPOSE_PARTS_H
#define LK_ASK_COMPOSE_PARTS_H

#include "cost/collective/host_messages.h"
#include "graph/graph.h"
#include "hw/hw.h"
#include "lockstep/compose.h"
#include "compose/emulated_step.h"

typedef struct lk_posed_rank {
	const char *path;
	lk_recorded_run run;
	lk_posed_step step;
} lk_posed_rank;

/* A communicator of the job. */
typedef struct lk_job_comm {
	const int32_t *ranks;    /* [size] of the world, in its order */
	int32_t size;
	uint32_t again;          /* how many of these very ranks came before */
	uint32_t team;           /* of its collectives in the graph; LK_NONE none yet */
} lk_job_comm;

/* A rank in a communicator of its stand-in, translated to its own. */
typedef struct lk_job_member {
	const int32_t *ranks;
	int32_t size, at;        /* at: own rank in it; -1: it is not known who would be in it */
} lk_job_member;

/* A division of a communicator, as far as the recordings tell it. */
typedef struct lk_job_division {
	uint64_t division;
	lk_job_member *member;   /* [world] the part that a rank is in; ranks NULL not known */
} lk_job_division;

/* A communicator that nobody told of, by the pattern of a recorded one. */
typedef struct lk_job_pattern {
	const lk_posed_group *of;
	int32_t first, *ranks;
} lk_job_pattern;

typedef struct lk_composer {
	const lk_compose_request *request;
	lk_intern *texts;
	lk_arena arena;
	LK_VEC(lk_posed_rank *) recorded; /* by rank */
	int32_t world;
	uint32_t *stand_in;      /* [world] index into recorded */
	LK_VEC(lk_job_division) divisions;
	LK_VEC(lk_job_pattern) patterns;
	LK_VEC(lk_job_comm) comms;
	/* the cluster */
	lk_cluster cluster;
	lk_host_messages messages;
	int ranks_per_node;
	bool mpi, nccl, devices; /* whether the usual steps use them */
	lk_error *err;
} lk_composer;

/* ---- compose_ranks.c ---- */

/* Sets stand_in of every rank, or says which rank nobody can stand in for. */
lk_status lk_compose_stand_in(lk_composer *c);
/* Group `group` of a recorded rank, as `rank` would have it. */
lk_status lk_compose_member(lk_composer *c, uint32_t recorded, uint32_t group, int32_t rank, lk_job_member *out);
/* The rank of the world that rank `peer` of the stand-in's communicator is for `rank`; -1: none. */
int32_t lk_compose_peer(const lk_composer *c, uint32_t recorded, uint32_t group, const lk_job_member *member, int32_t peer);

/* ---- compose_time.c ---- */

/* `behind`: another one is just over. */
double lk_compose_collective_s(const lk_composer *c, const lk_posed_item *item, const int32_t *ranks, int32_t size,
                               bool behind);
double lk_compose_message_s(const lk_composer *c, int32_t from, int32_t to, double bytes);
/* The same of NCCL. */
double lk_compose_nccl_s(const lk_composer *c, const lk_posed_item *item, const int32_t *ranks, int32_t size);
double lk_compose_nccl_message_s(const lk_composer *c, int32_t from, int32_t to, double bytes);
/* What own work takes longer, of ranks that share a machine: at least and at most. */
void lk_compose_contention(lk_composer *c, double *low, double *high, const char **why);

/* ---- compose_graph.c ---- */

/* Factors on recorded times: of own work, of work on devices. */
typedef struct lk_compose_slower {
	double own, device;
} lk_compose_slower;

lk_status lk_compose_graph(lk_composer *c, int progress, lk_compose_slower slower, lk_graph **out);

#endif
