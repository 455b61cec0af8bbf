/* library.h: internal to mpi/ and emulate/: the MPI library that the wrappers call: its functions,
 * found when MPI_Init has been called, and the differences between the two binary forms: public
 * constants of Open MPI's mpi.h, and of MPICH's and its relatives'. */
#ifndef LK_RECORDER_MPI_LIBRARY_H
#define LK_RECORDER_MPI_LIBRARY_H

#include "recorder/mpi/mpi.h"

#ifdef LP_MPI_NUMBERS
enum { LP_ANY_SOURCE = -2, LP_PROC_NULL = -1, LP_SOURCE_WORD = 2, LP_UNDEFINED = -32766 };
#define LP_IN_PLACE        ((const void *)-1)
#define LP_STATUS_IGNORE   ((void *)1)
#define LP_STATUSES_IGNORE ((void *)1)
#define LP_WORLD           0x44000000
#define LP_SELF            0x44000001
#define LP_TYPE_NULL       0x0c000000
#define LP_REQUEST_NULL    0x2c000000
#define LP_BYTE            0x4c00010d
#define LP_INFO_NULL       0x1c000000
#define LP_KEY(handle)     ((uint64_t)(uint32_t)(handle))
enum { LP_STATUS_BYTES = 20 };
/* count_lo, count_hi_and_cancelled */
static inline int64_t lp_mpi_status_bytes(const void *status) {
	const uint32_t *words = status;
	return (int64_t)words[0] | (int64_t)(words[1] >> 1) << 32;
}
#else
enum { LP_ANY_SOURCE = -1, LP_PROC_NULL = -2, LP_SOURCE_WORD = 0, LP_UNDEFINED = -32766 };
#define LP_IN_PLACE        ((const void *)1)
#define LP_STATUS_IGNORE   NULL
#define LP_STATUSES_IGNORE NULL
#define LP_KEY(handle)     ((uint64_t)(uintptr_t)(handle))
enum { LP_STATUS_BYTES = 24 };
/* _ucount */
static inline int64_t lp_mpi_status_bytes(const void *status) {
	return (int64_t)((const uint64_t *)status)[2];
}
#endif

typedef struct lp_mpi_functions {
	int (*comm_size)(lp_handle, int *), (*comm_rank)(lp_handle, int *),
		(*comm_group)(lp_handle, lp_handle *);
	int (*comm_test_inter)(lp_handle, int *), (*comm_remote_size)(lp_handle, int *);
	int (*group_translate_ranks)(lp_handle, int, const int *, lp_handle, int *),
		(*group_free)(lp_handle *);
	int (*type_size)(lp_handle, int *), (*type_get_extent)(lp_handle, lp_aint *, lp_aint *);
	int (*sendrecv)(const void *, int, lp_handle, int, int, void *, int, lp_handle, int, int,
	                lp_handle, void *);
	int (*recv_init)(void *, int, lp_handle, int, int, lp_handle, lp_handle *);
	int (*barrier_init)(lp_handle, lp_handle, lp_handle *); /* NULL before MPI 4 */
	int (*grequest_start)(int (*)(void *, void *), int (*)(void *), int (*)(void *, int), void *,
	                      lp_handle *);
	int (*grequest_complete)(lp_handle);
	int (*status_set_elements)(void *, lp_handle, int), (*status_set_cancelled)(void *, int);
	int (*request_get_status)(lp_handle, int *, void *);
	int (*testany)(int, lp_handle *, int *, int *, void *),
		(*testsome)(int, lp_handle *, int *, int *, void *);
	int (*comm_create_keyval)(int (*)(lp_handle, int, void *, void *, void *, int *),
	                          int (*)(lp_handle, int, void *, void *), int *, void *);
	int (*comm_get_attr)(lp_handle, int, void *, int *), (*comm_set_attr)(lp_handle, int, void *);
#ifndef LP_MPI_NUMBERS
	lp_handle (*comm_f2c)(lp_fint), (*type_f2c)(lp_fint), (*request_f2c)(lp_fint),
		(*op_f2c)(lp_fint);
	lp_fint (*comm_c2f)(lp_handle), (*request_c2f)(lp_handle);
#endif
	lp_handle world, self, type_null, request_null, byte, info_null;
	void *in_place_f[4], *status_ignore_f[2]; /* addresses that denote these constants in Fortran */
	bool ready;
} lp_mpi_functions;
extern lp_mpi_functions lp_mpi_real;

void lp_mpi_find_functions(void);

/* ---- delay.c ---- */

/* In one waiting or testing call; further ones are not recorded. */
enum { LP_MOST_REQUESTS = 512 };

/* A request begins at that moment. For requests that the library reports as done after
 * `transfer_ns` in it: wait until they may be. */
void lp_delay_posted(uint64_t key, int64_t ns);
void lp_delay_done(const uint64_t *keys, int count, int64_t transfer_ns);
/* Whether one of them cannot be done yet. */
bool lp_delay_any_late(const lp_handle *all, int n);
/* MPI_Testany and MPI_Testsome, or the corresponding waits, without the late requests. */
int lp_delay_any(int n, lp_handle *all, int *which, int *flag, void *status, bool wait);
int lp_delay_some(int n, lp_handle *all, int *count, int *which, void *statuses, bool wait);

#endif
