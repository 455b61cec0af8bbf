/* mpi.h: calls of MPI: the interface of the generated wrappers (tools/mpi_wrappers.awk, from
 * mpi_calls.txt) and the modes.
 *
 * MPI fixes names and meaning of its calls, not their binary form: handles are pointers in Open
 * MPI, numbers in MPICH and its relatives. This folder, emulate/ and start/start_mpi.c are compiled
 * once for each (LP_MPI_NUMBERS); no header of MPI is needed. Other differences are in library.h.
 *
 *     library.c      the library's own functions and constants; Fortran's handles and addresses
 *     delay.c        lengthens communication by a known time
 *     results.c      results of a mode that replaces a call
 *     null_mode.c    leaves out large collectives
 *     probes.c       calls that wait for a message and leave it to a receive
 *     mpi.c          records of calls; waiting, testing, starting; communicators as numbers */
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

/* What a wrapper states about its call. */
typedef struct lp_mpi_call {
	const char *name;
	uint32_t *number; /* of the name in the recording, 0 until recorded */
	uint32_t *epoch;  /* of that recording */
	uint8_t what, part;
	int32_t peer, from, tag;
	lp_handle comm, type;
	lp_count count;     /* elements of `type`; bytes = count * size of type * factor */
	bool all;           /* times the ranks of the communicator */
	const void *status; /* of a receive; NULL none */
	int64_t start;
	bool on;  /* it is recorded */
	bool own; /* the program's own call, not one that the library makes inside another */
	/* The parameters, with handles of C, for a mode that replaces the call. Side 0 is the first of
	 * its kind, mostly for sending, 1 the second. Buffers: MPI_IN_PLACE and MPI_BOTTOM as in C. */
	const void *send;
	void *recv;
	lp_count counts[2];
	lp_handle types[2];
	/* Counts and displacements; `large`: of lp_count and lp_aint, else of int. */
	const void *lists[2], *places[2];
	const lp_handle *type_lists[2]; /* in C only */
	lp_handle op;                   /* or group, or info */
	int numbers[2];
	/* Where the program wants a new communicator, a request, a status; NULL: nowhere. */
	void *made, *request, *answer;
	bool large, fortran;
	bool replaced;     /* a mode has done it */
	int result;        /* returned to the program for a call that never reached the library */
	uint8_t given[24]; /* the status of a request that is already done */
} lp_mpi_call;

/* Before the real call and after it. `request` NULL for blocking calls. */
void lp_mpi_begin(lp_mpi_call *call);
void lp_mpi_end(lp_mpi_call *call, int result, const lp_handle *request);

/* For a receive: the caller's status or, if it wants none, `room`. */
typedef struct lp_mpi_status {
	int64_t words[8];
} lp_mpi_status;
void *lp_mpi_status_of(lp_mpi_call *call, void *status, lp_mpi_status *room);
bool lp_mpi_in_place(const void *buffer);
bool lp_mpi_ignores(const void *status); /* MPI_STATUS_IGNORE */
/* Convert a buffer address from Fortran. */
void *lp_mpi_buffer_f(void *buffer);

/* The number of ranks of a communicator (of the remote group of an intercommunicator). */
int lp_mpi_size(lp_handle comm);
lp_count lp_mpi_sum(const int *counts, lp_handle comm);
lp_count lp_mpi_sum_c(const lp_count *counts, lp_handle comm);

/* Convert handles of Fortran. */
lp_handle lp_mpi_comm_f(lp_fint comm);
lp_handle lp_mpi_type_f(lp_fint type);
lp_handle lp_mpi_request_f(lp_fint request);
lp_handle lp_mpi_op_f(lp_fint op);

/* ---- modes: replace calls of the library ---- */

typedef struct lp_mpi_mode {
	/* After MPI_Init; NULL: nothing to do. */
	void (*begin)(void);
	/* Handle a call of mpi_calls.txt. True: the mode has done it (buffers, lp_mpi_give_status,
	 * lp_mpi_give_request, lp_mpi_give_comm) and the program gets call->result; false: the library
	 * does it. It is called between lp_mpi_begin and lp_mpi_end, which write the record in either
	 * case; its own calls must be PMPI (lp_symbol("PMPI_...")). */
	bool (*replace)(lp_mpi_call *call);
	/* Handle persistent requests before the library starts them; NULL: not needed. */
	void (*start)(const lp_handle *requests, int count);
	/* Describe a communicator as the program sees it: `size`, own `rank`, `ranks` of the world as
	 * "[0, 1]" (NULL: not wanted). False, or no such function: the library answers. */
	bool (*describe)(lp_handle comm, int *size, int *rank, char *ranks, size_t room);
	/* Before MPI_Comm_free and MPI_Comm_disconnect; NULL: not needed. */
	void (*forget)(lp_handle comm);
	/* Complete the record of a communicator, and write related ones; NULL: nothing. */
	void (*add_to_record)(lp_handle comm, lk_record_entry *group);
} lp_mpi_mode;

extern const lp_mpi_mode lp_mpi_null; /* null_mode.c */
/* The current mode; NULL: record. Set before MPI_Init, in start/start_mpi.c. */
extern const lp_mpi_mode *lp_mpi_mode_now;

/* Let a blocking call of communication wait, if delays are requested. */
void lp_delay_call(const lp_mpi_call *call);

/* Whether the mode has done the call; if not, any delay is over, and the library must be called. */
static inline bool lp_mpi_replaces(lp_mpi_call *call) {
	if (!LP_HOT(lp_mpi_mode_now == NULL) && call->own && lp_mpi_mode_now->replace(call)) {
		call->replaced = true;
		return true;
	}
	if (!LP_HOT(lp_state.delay_ns == 0) && call->on) lp_delay_call(call);
	return false;
}

/* ---- results of a mode that replaces a call (results.c) ---- */

/* Copy from one typed buffer to another, of any types. */
void lp_mpi_copy(const void *from, lp_count count, lp_handle type, void *to, lp_count to_count,
                 lp_handle to_type);
/* The address of element `at` of a buffer of that type. */
void *lp_mpi_element(const void *buffer, lp_count at, lp_handle type);
/* Count and place of member `i` in lists of a vector collective (0 its sending, 1 its receiving
 * side). */
lp_count lp_mpi_listed(const lp_mpi_call *call, int side, int i);
lp_count lp_mpi_placed(const lp_mpi_call *call, int side, int i);
/* Set the status of a receive: source, tag, elements of `type`. */
void lp_mpi_give_status(lp_mpi_call *call, int source, int tag, lp_handle type, lp_count count);
/* Give a request that is already done (a persistent one: is done whenever it is started). Its
 * status is the one given by lp_mpi_give_status. */
void lp_mpi_give_request(lp_mpi_call *call);
void lp_mpi_give_comm(lp_mpi_call *call, lp_handle comm);

#endif
