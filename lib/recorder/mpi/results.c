/* results.c: results of a mode that replaces a call of MPI: copies between typed buffers, statuses,
 * requests that are done, communicators. All are made with the library's own calls, so programs may
 * use them freely. */
#include "recorder/mpi/library.h"

#include <stdlib.h>
#include <string.h>

/* ---- buffers ---- */

static bool is_dense_type(lp_handle type, int *size) {
	lp_aint lower, extent;
	return lp_mpi_real.type_size(type, size) == 0 &&
	       lp_mpi_real.type_get_extent(type, &lower, &extent) == 0 && lower == 0 && extent == *size;
}

void lp_mpi_copy(const void *from, lp_count count, lp_handle type, void *to, lp_count to_count,
                 lp_handle to_type) {
	int size, to_size;
	if (count <= 0 || to_count <= 0 || !from || !to || from == to) return;
	if (is_dense_type(type, &size) && is_dense_type(to_type, &to_size)) {
		lp_count bytes = count * size < to_count * to_size ? count * size : to_count * to_size;
		memmove(to, from, (size_t)bytes);
		return;
	}
	if (count > INT32_MAX || to_count > INT32_MAX)
		return; /* no library has a send to itself of this size */
	lp_mpi_real.sendrecv(from, (int)count, type, 0, 0, to, (int)to_count, to_type, 0, 0,
	                     lp_mpi_real.self, LP_STATUS_IGNORE);
}

void *lp_mpi_element(const void *buffer, lp_count at, lp_handle type) {
	lp_aint lower, extent = 0;
	if (lp_mpi_real.type_get_extent(type, &lower, &extent) != 0) return NULL;
	return (char *)(uintptr_t)buffer + (lp_aint)at * extent;
}

lp_count lp_mpi_listed(const lp_mpi_call *call, int side, int i) {
	const void *list = call->lists[side];
	if (!list) return 0;
	return call->large ? ((const lp_count *)list)[i] : ((const int *)list)[i];
}

lp_count lp_mpi_placed(const lp_mpi_call *call, int side, int i) {
	const void *list = call->places[side];
	if (!list) return 0;
	return call->large ? ((const lp_aint *)list)[i] : ((const int *)list)[i];
}

/* ---- statuses ---- */

static void fill_status(void *status, int source, int tag, lp_handle type, lp_count count) {
	int *words = status;
	memset(status, 0, LP_STATUS_BYTES);
	words[LP_SOURCE_WORD] = source;
	words[LP_SOURCE_WORD + 1] = tag;
	lp_mpi_real.status_set_elements(status, type, count < INT32_MAX ? (int)count : INT32_MAX);
	lp_mpi_real.status_set_cancelled(status, 0);
}

void lp_mpi_give_status(lp_mpi_call *call, int source, int tag, lp_handle type, lp_count count) {
	fill_status(call->given, source, tag, type, count);
	if (call->answer && !lp_mpi_ignores(call->answer))
		memcpy(call->answer, call->given, LP_STATUS_BYTES);
}

/* ---- requests ---- */

/* A generalized request queries its status when it is waited for. */
static int query_given_status(void *given, void *status) {
	if (status && !lp_mpi_ignores(status)) memcpy(status, given, LP_STATUS_BYTES);
	return 0;
}
static int free_given_status(void *given) {
	free(given);
	return 0;
}
static int ignore_cancel(void *given, int complete) {
	(void)given, (void)complete;
	return 0;
}

static lp_handle make_done_request(const lp_mpi_call *call) {
	static const uint8_t none[sizeof call->given];
	lp_handle request = lp_mpi_real.request_null;
	void *given = malloc(sizeof call->given);
	if (!given) return request;
	if (memcmp(call->given, none, sizeof none) != 0) memcpy(given, call->given, sizeof call->given);
	else
		fill_status(given, LP_ANY_SOURCE, -1, lp_mpi_real.byte,
		            0); /* as an empty status; any tag is -1 in both forms */
	if (lp_mpi_real.grequest_start(query_given_status, free_given_status, ignore_cancel, given,
	                               &request) != 0) {
		free(given);
		return lp_mpi_real.request_null;
	}
	lp_mpi_real.grequest_complete(request);
	return request;
}

void lp_mpi_give_request(lp_mpi_call *call) {
	lp_handle request = lp_mpi_real.request_null;
	if (call->part != LK_PART_MAKE) request = make_done_request(call);
	else if (lp_mpi_real.barrier_init)
		lp_mpi_real.barrier_init(lp_mpi_real.self, lp_mpi_real.info_null, &request);
	else
		lp_mpi_real.recv_init(NULL, 0, lp_mpi_real.byte, LP_PROC_NULL, 0, lp_mpi_real.self,
		                      &request); /* MPICH: not found by Waitany */
#ifdef LP_MPI_NUMBERS
	if (call->fortran) *(lp_fint *)call->request = request;
#else
	if (call->fortran) *(lp_fint *)call->request = lp_mpi_real.request_c2f(request);
#endif
	else *(lp_handle *)call->request = request;
}

void lp_mpi_give_comm(lp_mpi_call *call, lp_handle comm) {
#ifdef LP_MPI_NUMBERS
	if (call->fortran) *(lp_fint *)call->made = comm;
#else
	if (call->fortran) *(lp_fint *)call->made = lp_mpi_real.comm_c2f(comm);
#endif
	else *(lp_handle *)call->made = comm;
}
