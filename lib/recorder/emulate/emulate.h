/* emulate.h: one process that runs as one rank of many: an emulated rank.
 *
 * The MPI library is started with a single rank. Communicators that the program gets are copies of
 * MPI_COMM_SELF, so that everything local (names, attributes, error handlers) is the library's;
 * members and everything that depends on them is answered here. Groups are the recorder's own.
 *
 *     emulate_comms.c    the process' identity; the table of communicators
 *     emulate_group.c    groups and their algebra
 *     emulate_split.c    other ranks' arguments to a split, found by running copies of the process
 *     emulate_grids.c    Cartesian grids
 *     emulate_calls.c    creating and querying communicators
 *     emulate_data.c     results of collectives and receives in buffers; the mode */
#ifndef LK_RECORDER_EMULATE_EMULATE_H
#define LK_RECORDER_EMULATE_EMULATE_H

#include "recorder/mpi/library.h"

extern const lp_mpi_mode lp_mpi_emulate; /* emulate_data.c */

/* ---- communicators (emulate_comms.c) ---- */

enum {
	LP_EMULATE_MOST_RANKS = 1 << 16 /* of an emulated world */
};

/* How the ranks of a communicator were divided: part after part, in order. */
typedef struct lp_emulated_parts {
	int count, *ranks; /* of the world */
	int *end;          /* [count]: end of a part in `ranks` */
	uint64_t *id;      /* [count]: of the part's communicator */
} lp_emulated_parts;

/* A communicator of the emulated world. */
typedef struct lp_emulated_comm {
	uint64_t id;       /* the same in every rank's process, so that copies can refer to it */
	uint64_t division; /* shared by the communicators of other ranks that one call made together */
	lp_emulated_parts *parts; /* all parts of that division; NULL: only this one is known */
	int size, rank;           /* own rank */
	int *ranks;               /* [size] of the world */
	uint32_t made;            /* communicators made from it so far */
	int dims;                 /* of a grid; 0: none */
	int *dim, *periodic;      /* [dims] */
} lp_emulated_comm;

/* The process' identity. */
typedef struct lp_emulated_rank {
	bool on;
	int rank, world;
	int node; /* ranks per node */
} lp_emulated_rank;
extern lp_emulated_rank lp_emulated;

static inline bool lp_is_emulating(void) {
	return __builtin_expect(lp_emulated.on, false);
}

/* Describe MPI_COMM_WORLD and MPI_COMM_SELF; again in a copy of the process that runs as another
 * rank. */
void lp_emulate_world(void);
/* NULL: not emulated. */
lp_emulated_comm *lp_emulate_find_comm(lp_handle comm);
void lp_emulate_forget_comm(lp_handle comm);
/* Make a communicator for the program, with these ranks of the world, of which it takes
 * ownership. */
lp_emulated_comm *lp_emulate_new_comm(uint64_t id, int *ranks, int size, lp_handle *out);
/* Make a communicator of part `own`; takes ownership of the parts. */
lp_emulated_comm *lp_emulate_new_part(uint64_t division, lp_emulated_parts *parts, int own,
                                      lp_handle *out);
void lp_emulate_free_parts(lp_emulated_parts *parts); /* accepts NULL */
void lp_emulate_copy_grid(lp_emulated_comm *to, int dims, const int *dim, const int *periodic);

/* Format ranks: "[0, 1, 2]"; more than 1000 also as first:last:stride. */
void lp_emulate_list_ranks(const int *ranks, int size, char *out, size_t room);
/* Index of a rank in a list; -1: not in it. */
int lp_emulate_index_of(const int *ranks, int size, int rank);
/* Like malloc, but give up when memory runs out. */
int *lp_emulate_new_ints(int count);
int *lp_emulate_copy_ranks(const int *ranks, int size);
uint64_t lp_emulate_hash(uint64_t a, uint64_t b);
/* The id of a communicator made from another: the same in every process, because all members make
 * equally many. */
static inline uint64_t lp_emulate_next_id(lp_emulated_comm *parent) {
	return lp_emulate_hash(parent->id, ++parent->made);
}

/* End the program with a reason and exit status 70, because something cannot be emulated. */
void lp_emulate_give_up(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* A wrapper that gives ANSWER if `comm` is emulated, as `known`. */
#define EMULATED(name, parameters, arguments, answer)         \
	int name parameters;                                      \
	LP_EXPORT int name parameters {                           \
		LP_REAL(name)                                         \
		lp_emulated_comm *known = lp_emulate_find_comm(comm); \
		return known ? (answer) : real arguments;             \
	}

/* ---- calls that make communicators (emulate_calls.c) ---- */

/* False: another call, which the library handles. */
bool lp_emulate_make_comm(lp_mpi_call *call, lp_emulated_comm *parent);

/* ---- groups (emulate_group.c) ---- */

typedef struct lp_emulated_group {
	int size;
	int *ranks; /* of the world */
} lp_emulated_group;
int lp_emulate_new_group(int *ranks, int size, lp_handle *out); /* takes ownership of `ranks` */
const lp_emulated_group *lp_emulate_group_of(lp_handle group);  /* gives up if it is no emulated
                                                                   group */

/* ---- splits (emulate_split.c) ---- */

/* Fork the asker: a process that waits for requests to run copies as other ranks; each copy returns
 * from here as its rank. */
void lp_emulate_begin_splits(void);
/* The parts of a split, in the order of their colours; `own`: this rank's, -1 none. `division`:
 * from lp_emulate_next_id. */
lp_emulated_parts *lp_emulate_split(const lp_emulated_comm *parent, uint64_t division, int colour,
                                    int key, int *own);

#endif
