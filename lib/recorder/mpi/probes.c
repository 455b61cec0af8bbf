/* probes.c: calls that wait for a message before the program makes room for it: MPI_Probe, after
 * which any receive may take it, and MPI_Mprobe and MPI_Improbe, whose message only MPI_Mrecv can
 * take (mpi4py's recv uses these). A matched message is recorded as received by the probe, whose
 * status has source, tag and bytes; MPI_Mrecv is passed to the library. */
#include "recorder/mpi/library.h"

/* The caller's status, or a local one. */
#define PROBES(symbol, what_, parameters, passed, came)                  \
	int symbol parameters;                                               \
	LP_EXPORT int symbol parameters {                                    \
		LP_REAL(symbol)                                                  \
		static uint32_t number, epoch;                                   \
		lp_mpi_call call = {.name = #symbol,                             \
		                    .number = &number,                           \
		                    .epoch = &epoch,                             \
		                    .what = (what_),                             \
		                    .part = LK_PART_WHOLE,                       \
		                    .peer = source,                              \
		                    .from = LP_NO_PEER,                          \
		                    .tag = tag,                                  \
		                    .comm = comm};                               \
		lp_mpi_status room;                                              \
		lp_mpi_begin(&call);                                             \
		status = lp_mpi_status_of(&call, status, &room);                 \
		int result = lp_mpi_replaces(&call) ? call.result : real passed; \
		if (result == 0 && !(came)) call.on = false;                     \
		lp_mpi_end(&call, result, NULL);                                 \
		return result;                                                   \
	}
PROBES(MPI_Probe, LK_WHAT_OTHER, (int source, int tag, lp_handle comm, void *status),
       (source, tag, comm, status), true)
PROBES(MPI_Mprobe, LK_WHAT_RECV,
       (int source, int tag, lp_handle comm, lp_handle *message, void *status),
       (source, tag, comm, message, status), true)
PROBES(MPI_Improbe, LK_WHAT_RECV,
       (int source, int tag, lp_handle comm, int *flag, lp_handle *message, void *status),
       (source, tag, comm, flag, message, status), *flag)

/* The communicator is not among its parameters. */
#define TAKES(symbol, type_of_count)                                                            \
	int symbol(void *buffer, type_of_count count, lp_handle type, lp_handle *message,           \
	           void *status);                                                                   \
	LP_EXPORT int symbol(void *buffer, type_of_count count, lp_handle type, lp_handle *message, \
	                     void *status) {                                                        \
		LP_REAL(symbol)                                                                         \
		static uint32_t number, epoch;                                                          \
		lp_mpi_call call = {.name = #symbol,                                                    \
		                    .number = &number,                                                  \
		                    .epoch = &epoch,                                                    \
		                    .what = LK_WHAT_OTHER,                                              \
		                    .part = LK_PART_WHOLE,                                              \
		                    .peer = LP_NO_PEER,                                                 \
		                    .from = LP_NO_PEER,                                                 \
		                    .comm = lp_mpi_real.world};                                         \
		lp_mpi_begin(&call);                                                                    \
		int result = real(buffer, count, type, message, status);                                \
		lp_mpi_end(&call, result, NULL);                                                        \
		return result;                                                                          \
	}
TAKES(MPI_Mrecv, int)
TAKES(MPI_Mrecv_c, lp_count)
