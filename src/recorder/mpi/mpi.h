/* mpi.h: what the generated wrappers of MPI ask of mpi.c.
 *
 * MPI fixes names and meaning of its calls, not their binary form: handles are pointers in Open
 * MPI, numbers in MPICH and its relatives. The wrappers are compiled once for each; no header of
 * MPI is needed. Everything else that differs is in mpi_below.h under LP_MPI_NUMBERS.
 */
#ifndef LK_PROBE_MPI_H
#define LK_PROBE_MPI_H

#include "recorder/recorder.h"

#ifdef LP_MPI_NUMBERS
typedef int lp_handle;
#else
typedef void *lp_handle;
#endif
enum {
	LP_NO_PEER = INT32_MIN
};
typedef int lp_fint;        /* of Fortran; compilers' default */
typedef long long lp_count; /* MPI_Count */
typedef intptr_t lp_aint;   /* MPI_Aint */

/* What a wrapper knows of its call. */
typedef struct lp_mpi_call {
	const char *name;
	uint32_t *number; /* of the name, 0 until it was told */
	uint32_t *epoch;  /* in which it was */
	uint8_t what, part;
	int32_t peer, from, tag;
	lp_handle comm, type;
	lp_count count;     /* elements of `type`; bytes = count * size of type * factor */
	bool all;           /* times the ranks of the communicator */
	const void *status; /* of a receive; NULL none */
	int64_t start;
	bool on;  /* it is recorded */
	bool own; /* the program's own, not one that the library makes inside another */
	/* The parameters, with handles of C, for what stands in for the library (mode.h). Side 0 is the
	 * first of its kind, mostly what is sent, 1 the second. Buffers: MPI_IN_PLACE and MPI_BOTTOM as
	 * C has them. */
	const void *send;
	void *recv;
	lp_count counts[2];
	lp_handle types[2];
	const void *lists[2],
		*places[2]; /* counts and displacements; `large`: lp_count and lp_aint, else int */
	const lp_handle *type_lists[2]; /* of C alone */
	lp_handle op;                   /* or group, or info */
	int numbers[2];
	void *made, *request,
		*answer; /* new communicator, request, status: where the program wants them; NULL none */
	bool large, fortran;
	bool stood_in;     /* a mode has done it */
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

#endif
