/* emulate.h: one process that believes to be one rank of many: what its files share.
 *
 * The library below is started alone; it sees one rank. Communicators that the program gets are
 * copies of MPI_COMM_SELF, so that everything local (names, attributes, error handlers) is the
 * library's; who is in them, and all that depends on it, is answered here. Groups are the probe's
 * own.
 *
 *     posed.c         who it is; communicators and what programs ask of them; grids
 *     posed_group.c   groups and their algebra
 *     posed_split.c   what other ranks would say to a split: copies of the process are asked
 *     posed_data.c    what collectives and receives leave in buffers; requests and statuses
 */
#ifndef LK_PROBE_POSED_H
#define LK_PROBE_POSED_H

#include "recorder/mpi/below.h"

enum {
	LP_POSED_MOST = 1 << 16
}; /* ranks of a pretended world */

/* How the ranks of a communicator were divided: part after part, as they were ordered. */
typedef struct lp_posed_parts {
	int count, *ranks; /* of the world */
	int *end;          /* [count]: where a part ends in `ranks` */
	uint64_t *id;      /* [count]: of the communicator that the part became */
} lp_posed_parts;

/* A communicator of the pretended world. */
typedef struct lp_posed_comm {
	uint64_t id;       /* the same in every rank's process, so that ranks can be asked about it */
	uint64_t division; /* the same for the communicators that were made with it, of other ranks */
	lp_posed_parts *parts; /* all of these; NULL: only this one is known */
	int size, rank;        /* own rank */
	int *ranks;            /* [size] of the world */
	uint32_t made;         /* how many communicators were made of it so far */
	int dims;              /* of a grid; 0: none */
	int *dim, *periodic;   /* [dims] */
} lp_posed_comm;

typedef struct lp_posed_of {
	bool on;
	int rank, world, node; /* node: ranks that share one */
} lp_posed_of;
extern lp_posed_of lp_posed;

static inline bool lp_posing(void) {
	return __builtin_expect(lp_posed.on, false);
}

/* The world, and this rank in it: also of a copy that is asked as another rank. */
void lp_posed_world(void);
/* NULL: not of the pretended world (or nothing is pretended). */
lp_posed_comm *lp_posed_find(lp_handle comm);
void lp_posed_forget(lp_handle comm);
/* Calls that make communicators; false: another one, which is the library's. */
bool lp_posed_make(lp_mpi_call *call, lp_posed_comm *parent);

/* The text of ranks: "[0, 1, 2]". */
void lp_posed_list(const int *ranks, int size, char *out, size_t room);

/* Ends the program: what cannot be pretended. */
void lp_posed_give_up(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

uint64_t lp_posed_hash(uint64_t a, uint64_t b);
int *lp_posed_ints(int count);
/* What a communicator that is made of another is called in every process: all members make as many
 * of it. */
static inline uint64_t lp_posed_next_id(lp_posed_comm *parent) {
	return lp_posed_hash(parent->id, ++parent->made);
}

/* ---- posed_group.c ---- */

typedef struct lp_posed_group {
	int size;
	int *ranks; /* of the world */
} lp_posed_group;
int lp_posed_new_group(int *ranks, int size, lp_handle *out); /* `ranks` becomes the group's */
const lp_posed_group *lp_posed_group_of(lp_handle group);     /* gives up where it is none */

/* ---- posed_split.c ---- */

/* A process that waits to be asked about other ranks: what it becomes then returns from here as
 * another rank. */
void lp_posed_split_begin(void);
/* The parts of a split, in the order of their colours; `own`: this rank's, -1 none. `division`:
 * lp_posed_next_id. */
lp_posed_parts *lp_posed_split(const lp_posed_comm *parent, uint64_t division, int colour, int key,
                               int *own);

#endif
