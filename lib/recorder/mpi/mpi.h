/* mpi.h: calls of MPI: what the generated wrappers (tools/mpi_wrappers.awk, of mpi_calls.txt) and
 * the modes use.
 *
 * MPI fixes names and meaning of its calls, not their binary form: handles are pointers in Open
 * MPI, numbers in MPICH and its relatives. This folder, emulate/ and start/start_mpi.c are compiled
 * once for each (LP_MPI_NUMBERS); no header of MPI is needed. All else that differs is in
 * library.h.
 *
 *     library.c      the library's own functions and constants; Fortran's handles and addresses
 *     delay.c        communication that takes a known time longer
 *     results.c      what a mode that replaces a call gives the program
 *     null_mode.c    large collectives are left out
 *     probes.c       calls that wait for a message and leave it to a receive
 *     mpi.c          records of calls; waiting, testing, starting; communicators as numbers
 */
#ifndef LK_RECORDER_MPI_MPI_H
#define LK_RECORDER_MPI_MPI_H

#include "recorder/recorder.h"

#ifdef LP_MPI_NUMBERS
typedef int lp_handle;
#else
typedef void *lp_handle;
#endif
enum { LP_NO_PEER = INT32_MIN };
typedef int lp_fint;        /* of Fortran; compilers' default */
typedef long long lp_count; /* MPI_Count */
typedef intptr_t lp_aint;   /* MPI_Aint */

/* What a wrapper knows of its call. */
typedef struct lp_mpi_call {
	const char *name;
	uint32_t *number; /* of the name in the recording, 0 until it was recorded */
	uint32_t *epoch;  /* of that recording */
	uint8_t what, part;
	int32_t peer, from, tag;
	lp_handle comm, type;
	lp_count count;     /* elements of `type`; bytes = count * size of type * factor */
	bool all;           /* times the ranks of the communicator */
	const void *status; /* of a receive; NULL none */
	int64_t start;
	bool on;  /* it is recorded */
	bool own; /* the program's own, not one that the library makes inside another */
	/* The parameters, with handles of C, for the mode that replaces the call. Side 0 is the
	 * first of its kind, mostly what is sent, 1 the second. Buffers: MPI_IN_PLACE and MPI_BOTTOM as
	 * C has them. */
	const void *send;
	void *recv;
	lp_count counts[2];
	lp_handle types[2];
	/* Counts and displacements; `large`: of lp_count and lp_aint, else of int. */
	const void *lists[2], *places[2];
	const lp_handle *type_lists[2]; /* of C alone */
	lp_handle op;                   /* or group, or info */
	int numbers[2];
	/* Where the program wants a new communicator, a request, a status; NULL nowhere. */
	void *made, *request, *answer;
	bool large, fortran;
	bool replaced;     /* a mode has done it */
	int result;        /* what the program gets of a call that never reached the library */
	uint8_t given[24]; /* the status of a request that is done already */
} lp_mpi_call;

/* Before the real call and after it. `request` NULL for blocking calls. */
void lp_mpi_begin(lp_mpi_call *call);
void lp_mpi_end(lp_mpi_call *call, int result, const lp_handle *request);

/* Of a receive: the caller's status or, where it wants none, `room`. */
typedef struct lp_mpi_status {
	int64_t words[8];
} lp_mpi_status;
void *lp_mpi_status_of(lp_mpi_call *call, void *status, lp_mpi_status *room);
bool lp_mpi_in_place(const void *buffer);
bool lp_mpi_ignores(const void *status); /* MPI_STATUS_IGNORE */
/* A buffer as Fortran names it. */
void *lp_mpi_buffer_f(void *buffer);

/* The number of ranks of a communicator (of the remote group of an intercommunicator). */
int lp_mpi_size(lp_handle comm);
lp_count lp_mpi_sum(const int *counts, lp_handle comm);
lp_count lp_mpi_sum_c(const lp_count *counts, lp_handle comm);

/* Handles of Fortran. */
lp_handle lp_mpi_comm_f(lp_fint comm);
lp_handle lp_mpi_type_f(lp_fint type);
lp_handle lp_mpi_request_f(lp_fint request);
lp_handle lp_mpi_op_f(lp_fint op);

/* ---- modes: what may replace a call of the library ---- */

typedef struct lp_mpi_mode {
	/* After MPI_Init; NULL: nothing to do. */
	void (*begin)(void);
	/* A call of mpi_calls.txt. True: the mode has done it (buffers, lp_mpi_give_status,
	 * lp_mpi_give_request, lp_mpi_give_comm) and the program gets call->result; false: the library
	 * does it. It comes between lp_mpi_begin and lp_mpi_end, which write the record in either case;
	 * what it calls itself must be PMPI (lp_symbol("PMPI_...")). */
	bool (*replace)(lp_mpi_call *call);
	/* Persistent requests before they are started, which the library does afterwards; NULL: not
	 * wanted. */
	void (*start)(const lp_handle *requests, int count);
	/* Of a communicator as the program sees it: `size`, own `rank`, `ranks` of the world as "[0,
	 * 1]" (NULL: not wanted). False, or no such function: the library answers. */
	bool (*describe)(lp_handle comm, int *size, int *rank, char *ranks, size_t room);
	/* Before MPI_Comm_free and MPI_Comm_disconnect; NULL: not wanted. */
	void (*forget)(lp_handle comm);
	/* Adds to the record of a communicator what the mode knows of it, and writes others that belong
	 * to it; NULL: nothing. */
	void (*add_to_record)(lp_handle comm, lk_record_entry *group);
} lp_mpi_mode;

extern const lp_mpi_mode lp_mpi_null; /* null_mode.c */
/* The one that is in force; NULL: record. Set before MPI_Init, in start/start_mpi.c. */
extern const lp_mpi_mode *lp_mpi_mode_now;

/* A blocking call of communication waits, where delays are wanted. */
void lp_delay_call(const lp_mpi_call *call);

/* Whether the mode has done the call; else a delay is over, and the library is to be called. */
static inline bool lp_mpi_replaces(lp_mpi_call *call) {
	if (!LP_HOT(lp_mpi_mode_now == NULL) && call->own && lp_mpi_mode_now->replace(call)) {
		call->replaced = true;
		return true;
	}
	if (!LP_HOT(lp_state.delay_ns == 0) && call->on) lp_delay_call(call);
	return false;
}

/* ---- what a mode that replaces a call gives the program (results.c) ---- */

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
