/* nccl.h: what the generated wrappers of NCCL ask of nccl.c. No header of NCCL is needed: its binary interface is pointers,
 * numbers and an identifier of 128 bytes. */
#ifndef LK_PROBE_NCCL_H
#define LK_PROBE_NCCL_H

#include "probe/gpu.h"

typedef struct lp_nccl_id {
	unsigned char bytes[128];
} lp_nccl_id;

/* A communicator by its handle. */
typedef struct lp_nccl_group {
	uint64_t key;
	uint32_t state, number;
	int32_t ranks, rank;     /* -1: to be asked */
	uint64_t hash;           /* the same on all members, another for each communicator */
	uint32_t children;       /* splits and shrinks so far */
	uint64_t calls[LK_WHATS]; /* so far */
	bool told;
} lp_nccl_group;

/* What a wrapper knows of its call. */
typedef struct lp_nccl_call {
	const char *name;
	uint32_t *number, *epoch;
	uint8_t what;
	const void *from;
	void *to, *comm, *stream;
	size_t count;
	int type, peer, result;
	bool all;                /* bytes: times the ranks */
	/* made by lp_nccl_begin */
	lp_nccl_group *group;
	lp_stream *on_stream;
	int64_t bytes, start;
	void *begin;             /* the event before it */
	uint64_t serial;
	int element;
	bool on;
} lp_nccl_call;

/* True: the mode has done it, `result` is what the program gets. */
bool lp_nccl_begin(lp_nccl_call *call);
void lp_nccl_end(lp_nccl_call *call);

void *lp_nccl_symbol(const char *name);
#define LP_NCCL_REAL(name) LP_FOUND_BY(lp_nccl_symbol, name)

/* ---- nccl_mode.c ---- */

/* A collective or message before the library gets it; true: done instead, call->result is set. */
bool lp_nccl_stands_in(lp_nccl_call *call);
/* Holds the stream, for the mode that delays. */
void lp_nccl_hold(void *stream);
/* as-rank: communicators that are none of the library's. */
bool lp_nccl_poses(void);
void *lp_nccl_pose(int ranks, int rank);
bool lp_nccl_posed(const void *comm, int *ranks, int *rank);
/* Ranks and own rank of the part of a posed communicator that has this colour, as far as they can be known. */
void lp_nccl_pose_split(int ranks, int rank, int color, int key, int *out_ranks, int *out_rank);

#endif
