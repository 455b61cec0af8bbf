/* library.c: finding the MPI library's functions; handles and special addresses of Fortran. */
#include "recorder/mpi/library.h"

#include <string.h>

lp_mpi_functions lp_mpi_real;

/* Special addresses of Fortran are those of variables; which of the names exist depends on the
 * compiler. */
static void find_fortran_addresses(lp_mpi_functions *found) {
#ifdef LP_MPI_NUMBERS
	void **in_place = dlsym(RTLD_DEFAULT, "MPIR_F_MPI_IN_PLACE");
	found->in_place_f[0] = in_place ? *in_place : NULL;
#else
	static const char *const names[] = {"mpi_fortran_in_place_", "mpi_fortran_in_place",
	                                    "MPI_FORTRAN_IN_PLACE", "mpi_fortran_in_place__"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		found->in_place_f[i] = dlsym(RTLD_DEFAULT, names[i]);
#endif
	static const char *const statuses[] = {"MPI_F_STATUS_IGNORE", "MPI_F_STATUSES_IGNORE"};
	for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
		void **at = dlsym(RTLD_DEFAULT, statuses[i]);
		found->status_ignore_f[i] = at ? *at : NULL;
	}
}

void lp_mpi_find_functions(void) {
	lp_mpi_functions *found = &lp_mpi_real;
#define FIND(name, symbol) found->name = (__typeof__(found->name))(uintptr_t)lp_symbol(symbol)
	if (found->ready) return;
	FIND(comm_size, "PMPI_Comm_size");
	FIND(comm_rank, "PMPI_Comm_rank");
	FIND(comm_group, "PMPI_Comm_group");
	FIND(comm_test_inter, "PMPI_Comm_test_inter");
	FIND(comm_remote_size, "PMPI_Comm_remote_size");
	FIND(group_translate_ranks, "PMPI_Group_translate_ranks");
	FIND(group_free, "PMPI_Group_free");
	FIND(type_size, "PMPI_Type_size");
	FIND(type_get_extent, "PMPI_Type_get_extent");
	FIND(sendrecv, "PMPI_Sendrecv");
	FIND(recv_init, "PMPI_Recv_init");
	found->barrier_init =
		(__typeof__(found->barrier_init))(uintptr_t)lp_symbol_if("PMPI_Barrier_init");
	FIND(grequest_start, "PMPI_Grequest_start");
	FIND(grequest_complete, "PMPI_Grequest_complete");
	FIND(status_set_elements, "PMPI_Status_set_elements");
	FIND(status_set_cancelled, "PMPI_Status_set_cancelled");
	FIND(request_get_status, "PMPI_Request_get_status");
	FIND(testany, "PMPI_Testany");
	FIND(testsome, "PMPI_Testsome");
	FIND(comm_create_keyval, "PMPI_Comm_create_keyval");
	FIND(comm_get_attr, "PMPI_Comm_get_attr");
	FIND(comm_set_attr, "PMPI_Comm_set_attr");
#ifdef LP_MPI_NUMBERS
	found->world = LP_WORLD;
	found->self = LP_SELF;
	found->type_null = LP_TYPE_NULL;
	found->request_null = LP_REQUEST_NULL;
	found->byte = LP_BYTE;
	found->info_null = LP_INFO_NULL;
#else
	FIND(comm_f2c, "PMPI_Comm_f2c");
	FIND(type_f2c, "PMPI_Type_f2c");
	FIND(request_f2c, "PMPI_Request_f2c");
	FIND(op_f2c, "PMPI_Op_f2c");
	FIND(comm_c2f, "PMPI_Comm_c2f");
	FIND(request_c2f, "PMPI_Request_c2f");
	found->world = lp_variable("ompi_mpi_comm_world");
	found->self = lp_variable("ompi_mpi_comm_self");
	found->type_null = lp_variable("ompi_mpi_datatype_null");
	found->request_null = lp_variable("ompi_request_null");
	found->byte = lp_variable("ompi_mpi_byte");
	found->info_null = lp_variable("ompi_mpi_info_null");
#endif
#undef FIND
	find_fortran_addresses(found);
	found->ready = true;
}

#ifdef LP_MPI_NUMBERS
lp_handle lp_mpi_comm_f(lp_fint comm) {
	return comm;
}
lp_handle lp_mpi_type_f(lp_fint type) {
	return type;
}
lp_handle lp_mpi_request_f(lp_fint request) {
	return request;
}
lp_handle lp_mpi_op_f(lp_fint op) {
	return op;
}
#else
lp_handle lp_mpi_comm_f(lp_fint comm) {
	return lp_mpi_real.ready ? lp_mpi_real.comm_f2c(comm) : NULL;
}
lp_handle lp_mpi_type_f(lp_fint type) {
	return lp_mpi_real.ready ? lp_mpi_real.type_f2c(type) : NULL;
}
lp_handle lp_mpi_request_f(lp_fint request) {
	return lp_mpi_real.ready ? lp_mpi_real.request_f2c(request) : NULL;
}
lp_handle lp_mpi_op_f(lp_fint op) {
	return lp_mpi_real.ready ? lp_mpi_real.op_f2c(op) : NULL;
}
#endif

bool lp_mpi_in_place(const void *buffer) {
	return buffer == LP_IN_PLACE;
}

bool lp_mpi_ignores(const void *status) {
	void *const *f = lp_mpi_real.status_ignore_f;
	return status == LP_STATUS_IGNORE || (status && (status == f[0] || status == f[1]));
}

void *lp_mpi_buffer_f(void *buffer) {
	for (size_t i = 0; buffer && i < sizeof lp_mpi_real.in_place_f / sizeof(void *); i++)
		if (buffer == lp_mpi_real.in_place_f[i]) return (void *)(uintptr_t)LP_IN_PLACE;
	return buffer;
}
