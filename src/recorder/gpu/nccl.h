/* nccl.h: what the generated wrappers of NCCL ask of nccl.c. No header of NCCL is needed: its binary interface is pointers,
 * numbers and an identifier of 128 bytes. */
#ifndef LK_PROBE_NCCL_H
#define LK_PROBE_NCCL_H

#include "recorder/gpu/gpu.h"
#include "recorder/mode.h"

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
	struct {
		uint64_t key, count; /* what and bytes; calls so far */
	} calls[64];
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

/* Tells of a communicator: its number in the recording, the name that its members agree on, ranks and own rank. */
void lp_nccl_tell_group(uint32_t number, uint64_t hash, int ranks, int rank);

/* ---- nccl_mode.c ---- */

/* A collective or message before the library gets it; true: done instead, call->result is set. */
bool lp_nccl_stands_in(lp_nccl_call *call);
/* Holds the stream, for the mode that delays. */
void lp_nccl_hold(void *stream);

/* ---- nccl_posed.c: as-rank: communicators that are none of the library's ---- */

/* A part of the pretended world: first, first + stride, ...; stride 0: which ranks is not known. */
typedef struct lp_nccl_posed {
	int ranks, rank, first, stride;
	int product;             /* of the sizes of the parts that were made of it */
} lp_nccl_posed;

static inline bool lp_nccl_poses(void) { return !LP_HOT(lp_mode.kind != LP_MODE_AS_RANK); }
lp_nccl_posed *lp_nccl_posed_find(const void *comm); /* NULL: the library's */
/* A communicator by its size and own rank; by the colour of a split; without some ranks. NULL: there is no room. */
void *lp_nccl_pose(int ranks, int rank);
void *lp_nccl_pose_part(lp_nccl_posed *parent, int color, int key);
void *lp_nccl_pose_rest(const lp_nccl_posed *parent, const int *without, int count);
/* Its ranks as a text. */
void lp_nccl_posed_list(const lp_nccl_posed *posed, char *out, size_t room);

#endif
