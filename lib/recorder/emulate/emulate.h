/* emulate.h: one process that runs as one rank of many: an emulated rank.
 *
 * The MPI library is started alone; it sees one rank. Communicators that the program gets are
 * copies of MPI_COMM_SELF, so that everything local (names, attributes, error handlers) is the
 * library's; who is in them, and all that depends on it, is answered here. Groups are the
 * recorder's own.
 *
 *     emulate_comms.c    who the process is; the table of communicators
 *     emulate_group.c    groups and their algebra
 *     emulate_split.c    what other ranks would answer to a split: copies of the process are run
 *     emulate_grids.c    Cartesian grids
 *     emulate_calls.c    making communicators, and what programs ask of them
 *     emulate_data.c     what collectives and receives leave in buffers; the mode
 */
#ifndef LK_RECORDER_EMULATE_EMULATE_H
#define LK_RECORDER_EMULATE_EMULATE_H

#include "recorder/mpi/library.h"

extern const lp_mpi_mode lp_mpi_emulate; /* emulate_data.c */

/* ---- communicators (emulate_comms.c) ---- */

enum {
	LP_EMULATE_MOST_RANKS = 1 << 16 /* of an emulated world */
};

/* How the ranks of a communicator were divided: part after part, as they were ordered. */
typedef struct lp_emulated_parts {
	int count, *ranks; /* of the world */
	int *end;          /* [count]: where a part ends in `ranks` */
	uint64_t *id;      /* [count]: of the communicator that the part became */
} lp_emulated_parts;

/* A communicator of the emulated world. */
typedef struct lp_emulated_comm {
	uint64_t id;       /* the same in every rank's process, so that copies can be asked about it */
	uint64_t division; /* the same for the communicators that were made with it, of other ranks */
	lp_emulated_parts *parts; /* all of these; NULL: only this one is known */
	int size, rank;           /* own rank */
	int *ranks;               /* [size] of the world */
	uint32_t made;            /* how many communicators were made of it so far */
	int dims;                 /* of a grid; 0: none */
	int *dim, *periodic;      /* [dims] */
} lp_emulated_comm;

/* Who the process is. */
typedef struct lp_emulated_rank {
	bool on;
	int rank, world;
	int node; /* ranks that share a node */
} lp_emulated_rank;
extern lp_emulated_rank lp_emulated;

static inline bool lp_is_emulating(void) {
	return __builtin_expect(lp_emulated.on, false);
}

/* Describes MPI_COMM_WORLD and MPI_COMM_SELF; again in a copy of the process that runs as another
 * rank. */
void lp_emulate_world(void);
/* NULL: not of the emulated world. */
lp_emulated_comm *lp_emulate_find_comm(lp_handle comm);
void lp_emulate_forget_comm(lp_handle comm);
/* A communicator for the program, of these ranks of the world, which become its own. */
lp_emulated_comm *lp_emulate_new_comm(uint64_t id, int *ranks, int size, lp_handle *out);
/* One of part `own` of the parts, which become the communicator's. */
lp_emulated_comm *lp_emulate_new_part(uint64_t division, lp_emulated_parts *parts, int own,
                                      lp_handle *out);
void lp_emulate_free_parts(lp_emulated_parts *parts); /* accepts NULL */
void lp_emulate_copy_grid(lp_emulated_comm *to, int dims, const int *dim, const int *periodic);

/* The text of ranks: "[0, 1, 2]"; of more than 1000 also first:last:stride. */
void lp_emulate_list_ranks(const int *ranks, int size, char *out, size_t room);
/* Where a rank is in a list; -1 nowhere. */
int lp_emulate_index_of(const int *ranks, int size, int rank);
/* From malloc; they give up where out of memory. */
int *lp_emulate_new_ints(int count);
int *lp_emulate_copy_ranks(const int *ranks, int size);
uint64_t lp_emulate_hash(uint64_t a, uint64_t b);
/* The id of a communicator that is made of another: the same in every process, for all members make
 * as many of it. */
static inline uint64_t lp_emulate_next_id(lp_emulated_comm *parent) {
	return lp_emulate_hash(parent->id, ++parent->made);
}

/* Ends the program with a reason and exit status 70: what cannot be emulated. */
void lp_emulate_give_up(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* A wrapper that gives ANSWER where `comm` is of the emulated world, as `known`. */
#define EMULATED(name, parameters, arguments, answer)         \
	int name parameters;                                      \
	LP_EXPORT int name parameters {                           \
		LP_REAL(name)                                         \
		lp_emulated_comm *known = lp_emulate_find_comm(comm); \
		return known ? (answer) : real arguments;             \
	}

/* ---- calls that make communicators (emulate_calls.c) ---- */

/* False: another call, which is the library's. */
bool lp_emulate_make_comm(lp_mpi_call *call, lp_emulated_comm *parent);

/* ---- groups (emulate_group.c) ---- */

typedef struct lp_emulated_group {
	int size;
	int *ranks; /* of the world */
} lp_emulated_group;
int lp_emulate_new_group(int *ranks, int size, lp_handle *out); /* `ranks` becomes the group's */
const lp_emulated_group *lp_emulate_group_of(lp_handle group);  /* gives up where it is none */

/* ---- splits (emulate_split.c) ---- */

/* Forks the asker: a process that waits until copies must be run as other ranks; each copy returns
 * from here as its rank. */
void lp_emulate_begin_splits(void);
/* The parts of a split, in the order of their colours; `own`: this rank's, -1 none. `division`:
 * lp_emulate_next_id. */
lp_emulated_parts *lp_emulate_split(const lp_emulated_comm *parent, uint64_t division, int colour,
                                    int key, int *own);

#endif
