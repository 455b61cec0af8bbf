/* mode.h: what stands between a program and its communication.
 *
 *     record    nothing: every call goes to the library
 *     null      large collectives return at once (null.c says which), alike on all ranks
 *     as-rank   one process that believes to be a rank of a large world (posed.c)
 *
 * A mode is one table of functions, lp_mpi_mode; the generated wrappers of MPI ask it before they
 * call the library. What does not depend on MPI's binary form (the settings, the rule of null) is
 * for other libraries' wrappers too. `delay` (delay.c) can be added to each mode: what does reach
 * the library completes so much later.
 *
 * Environment, set by `lockstep record`:
 *     LOCKSTEP_RECORD_MODE=record|null|as-rank
 *     LOCKSTEP_RECORD_SCRATCH=DIR   where writing goes (guard.h); without it files are the
 * program's own affair LOCKSTEP_RECORD_RANK=N, LOCKSTEP_RECORD_WORLD=N,
 * LOCKSTEP_RECORD_FILL=numbers|random|zeros|FILE, LOCKSTEP_RECORD_NODE=N        as-rank
 */
#ifndef LK_PROBE_MODE_H
#define LK_PROBE_MODE_H

#include "recorder/mpi/mpi.h"

typedef enum lp_mode_kind {
	LP_MODE_RECORD,
	LP_MODE_NULL,
	LP_MODE_AS_RANK
} lp_mode_kind;

typedef struct lp_mode_of {
	lp_mode_kind kind;
	int rank, world; /* that as-rank pretends; -1, 0 */
	int node;        /* ranks of it that share a node; 0 not said */
	char fill[256];  /* numbers, random, zeros or a file's name; "" not said */
} lp_mode_of;
extern lp_mode_of lp_mode;

/* Reads the environment; called once, when the process begins. */
void lp_mode_read(void);

/* ---- null, of any library ---- */

/* Whether a collective is left out: a pure function of what it is, its size and how often it came
 * before on the same communicator, so that all members decide alike. `bytes`: lk_record_entry's, or
 * another measure that is the same on every member. */
bool lp_null_skips(lk_comm_what what, int64_t bytes, uint64_t before);

/* ---- MPI ---- */

typedef struct lp_mpi_mode {
	/* After MPI_Init; NULL: nothing to do. */
	void (*begun)(void);
	/* A call of mpi_calls.txt. True: the mode has done it (buffers, lp_mpi_give_status,
	 * lp_mpi_give_request, lp_mpi_give_comm) and the program gets call->result; false: the library
	 * does it. It comes between lp_mpi_begin and lp_mpi_end, which write the record in either case;
	 * what it calls itself must be PMPI (lp_symbol("PMPI_...")). */
	bool (*stand_in)(lp_mpi_call *call);
	/* Persistent requests before they are started, which the library does afterwards; NULL: not
	 * wanted. */
	void (*start)(const lp_handle *requests, int count);
	/* Of a communicator as the program sees it: `size`, own `rank`, `ranks` of the world as "[0,
	 * 1]" (NULL: not wanted). False, or no such function: the library is asked. */
	bool (*describe)(lp_handle comm, int *size, int *rank, char *ranks, size_t room);
	/* Before MPI_Comm_free and MPI_Comm_disconnect; NULL: not wanted. */
	void (*forget)(lp_handle comm);
	/* Adds to the record of a communicator what the mode knows of it, and writes others that belong
	 * to it; NULL: nothing. */
	void (*tell)(lp_handle comm, lk_record_entry *group);
} lp_mpi_mode;

extern const lp_mpi_mode lp_mpi_null, lp_mpi_posed;
/* The one that is in force; NULL: record. Set before MPI_Init. */
extern const lp_mpi_mode *lp_mpi_mode_now;

/* A blocking call of communication waits, where delays are wanted. */
void lp_delay_call(const lp_mpi_call *call);

static inline bool lp_mpi_stands_in(lp_mpi_call *call) {
	if (!LP_HOT(lp_mpi_mode_now == NULL) && call->own && lp_mpi_mode_now->stand_in(call))
		return call->stood_in = true;
	if (!LP_HOT(lp_state.delay_ns == 0) && call->on) lp_delay_call(call);
	return false;
}

/* ---- what a mode that stands in gives the program ---- */

/* From one typed buffer to another, of whatever types. */
void lp_mpi_copy(const void *from, lp_count count, lp_handle type, void *to, lp_count to_count,
                 lp_handle to_type);
/* The place of element `at` of a buffer of that type. */
void *lp_mpi_element(const void *buffer, lp_count at, lp_handle type);
/* Count and place of member `i` in lists of a vector collective (0 its sending, 1 its receiving
 * side). */
lp_count lp_mpi_listed(const lp_mpi_call *call, int side, int i);
lp_count lp_mpi_placed(const lp_mpi_call *call, int side, int i);
/* The status of a receive: where from, which tag, how many of `type`. */
void lp_mpi_give_status(lp_mpi_call *call, int source, int tag, lp_handle type, lp_count count);
/* A request that is done already (of a persistent call: that is done whenever it is started). Its
 * status says what was given by lp_mpi_give_status. */
void lp_mpi_give_request(lp_mpi_call *call);
void lp_mpi_give_comm(lp_mpi_call *call, lp_handle comm);

#endif
