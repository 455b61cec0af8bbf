/* emulate_calls.c: creating and querying communicators of the emulated world, and calls that are
 * not emulated. */
#include "recorder/emulate/emulate.h"

#include <stdlib.h>
#include <string.h>

enum { IDENTICAL = 0, CONGRUENT = 1, SIMILAR = 2, UNEQUAL = 3 };
#ifdef LP_MPI_NUMBERS
#define COMM_NULL 0x04000000
enum { SHARED = 1 };
#else
#define COMM_NULL lp_variable("ompi_mpi_comm_null")
enum { SHARED = 0 };
#endif
#define UNDEFINED LP_UNDEFINED

/* ---- making communicators ---- */

static lp_emulated_parts *copy_division(const lp_emulated_parts *of) {
	lp_emulated_parts *out = of ? calloc(1, sizeof *out) : NULL;
	uint64_t *id = of ? malloc((size_t)of->count * sizeof *id) : NULL;
	if (!of) return NULL;
	if (!out || !id) lp_emulate_give_up("out of memory");
	memcpy(id, of->id, (size_t)of->count * sizeof *id);
	*out = (lp_emulated_parts){of->count, lp_emulate_copy_ranks(of->ranks, of->end[of->count - 1]),
	                           lp_emulate_copy_ranks(of->end, of->count), id};
	return out;
}

static int compare_comms(const lp_emulated_comm *a, const lp_emulated_comm *b) {
	if (a == b) return IDENTICAL;
	if (a->size != b->size) return UNEQUAL;
	if (memcmp(a->ranks, b->ranks, (size_t)a->size * sizeof *a->ranks) == 0) return CONGRUENT;
	unsigned char *in = calloc((size_t)lp_emulated.world, 1);
	int result = SIMILAR;
	for (int i = 0; in && i < a->size; i++) in[a->ranks[i]] = 1;
	for (int i = 0; in && i < b->size; i++)
		if (!in[b->ranks[i]]) result = UNEQUAL;
	free(in);
	return result;
}

/* Duplicate a communicator; the others of its division are duplicated too. */
static int duplicate_comm(lp_emulated_comm *of, lp_handle *out) {
	uint32_t number = of->made + 1;
	lp_emulated_comm *made = lp_emulate_new_comm(
		lp_emulate_next_id(of), lp_emulate_copy_ranks(of->ranks, of->size), of->size, out);
	made->division = lp_emulate_hash(of->division, number);
	made->parts = copy_division(of->parts);
	for (int i = 0; made->parts && i < made->parts->count; i++)
		made->parts->id[i] = lp_emulate_hash(made->parts->id[i], number);
	if (of->dims) lp_emulate_copy_grid(made, of->dims, of->dim, of->periodic);
	return 0;
}

static int split_comm(lp_emulated_comm *parent, int colour, int key, lp_handle *out) {
	int own;
	uint64_t division = lp_emulate_next_id(parent);
	lp_emulated_parts *parts = lp_emulate_split(parent, division, colour, key, &own);
	if (own >= 0) lp_emulate_new_part(division, parts, own, out);
	else {
		lp_emulate_free_parts(parts);
		*out = COMM_NULL;
	}
	return 0;
}

static int split_comm_by_type(lp_emulated_comm *parent, int type, int key, lp_handle *out) {
	if (type == UNDEFINED) return split_comm(parent, UNDEFINED, key, out);
	if (type != SHARED)
		lp_emulate_give_up("MPI_Comm_split_type is emulated only for MPI_COMM_TYPE_SHARED");
	return split_comm(parent, lp_emulated.rank / lp_emulated.node, key, out);
}

/* Create a communicator of a group. Every process knows the members, so no copy runs. `id` of the
 * call. */
static int create_comm_of_group(uint64_t id, lp_handle group, lp_handle *out) {
	const lp_emulated_group *members = lp_emulate_group_of(group);
	for (int i = 0; i < members->size; i++) id = lp_emulate_hash(id, (uint64_t)members->ranks[i]);
	*out = COMM_NULL;
	if (lp_emulate_index_of(members->ranks, members->size, lp_emulated.rank) >= 0)
		lp_emulate_new_comm(id, lp_emulate_copy_ranks(members->ranks, members->size), members->size,
		                    out);
	return 0;
}

bool lp_emulate_make_comm(lp_mpi_call *call, lp_emulated_comm *parent) {
	lp_handle made;
	if (strstr(call->name, "Comm_dup")) duplicate_comm(parent, &made);
	else if (strcmp(call->name, "MPI_Comm_split") == 0)
		split_comm(parent, call->numbers[0], call->numbers[1], &made);
	else if (strcmp(call->name, "MPI_Comm_split_type") == 0)
		split_comm_by_type(parent, call->numbers[0], call->numbers[1], &made);
	else if (strcmp(call->name, "MPI_Comm_create") == 0)
		create_comm_of_group(lp_emulate_next_id(parent), call->op, &made);
	else return false;
	lp_mpi_give_comm(call, made);
	return true;
}

/* ---- the calls ---- */

EMULATED(MPI_Comm_size, (lp_handle comm, int *size), (comm, size), (*size = known->size, 0))
EMULATED(MPI_Comm_rank, (lp_handle comm, int *rank), (comm, rank), (*rank = known->rank, 0))
/* The same from Fortran. */
#define EMULATED_FORTRAN(name, parameters, arguments, answer)                      \
	void name parameters;                                                          \
	LP_EXPORT void name parameters {                                               \
		LP_REAL(name)                                                              \
		lp_emulated_comm *known =                                                  \
			lp_is_emulating() ? lp_emulate_find_comm(lp_mpi_comm_f(*comm)) : NULL; \
		if (known) *error = 0, answer;                                             \
		else real arguments;                                                       \
	}
EMULATED_FORTRAN(mpi_comm_size_, (lp_fint * comm, lp_fint *size, lp_fint *error),
                 (comm, size, error), *size = known->size)
EMULATED_FORTRAN(mpi_comm_rank_, (lp_fint * comm, lp_fint *rank, lp_fint *error),
                 (comm, rank, error), *rank = known->rank)

EMULATED(MPI_Comm_group, (lp_handle comm, lp_handle *out), (comm, out),
         lp_emulate_new_group(lp_emulate_copy_ranks(known->ranks, known->size), known->size, out))
EMULATED(MPI_Comm_compare, (lp_handle comm, lp_handle other, int *result), (comm, other, result),
         (*result = lp_emulate_find_comm(other) ? compare_comms(known, lp_emulate_find_comm(other))
                                                : UNEQUAL,
          0))
EMULATED(MPI_Comm_create_group, (lp_handle comm, lp_handle group, int tag, lp_handle *out),
         (comm, group, tag, out),
         create_comm_of_group(lp_emulate_hash(known->id ^ UINT64_C(0x6772), (uint64_t)tag), group,
                              out))
/* End the program with a reason, instead of continuing with one rank. */
#define REFUSED(name, parameters, arguments)                                        \
	int name parameters;                                                            \
	LP_EXPORT int name parameters {                                                 \
		LP_REAL(name)                                                               \
		if (lp_is_emulating())                                                      \
			lp_emulate_give_up("%s cannot be emulated by a single process", #name); \
		return real arguments;                                                      \
	}
REFUSED(MPI_Intercomm_create, (lp_handle a, int b, lp_handle c, int d, int e, lp_handle *f),
        (a, b, c, d, e, f))
REFUSED(MPI_Comm_spawn,
        (const char *a, char **b, int c, lp_handle d, int e, lp_handle f, lp_handle *g, int *h),
        (a, b, c, d, e, f, g, h))
REFUSED(MPI_Graph_create, (lp_handle a, int b, const int *c, const int *d, int e, lp_handle *f),
        (a, b, c, d, e, f))
REFUSED(MPI_Dist_graph_create_adjacent,
        (lp_handle a, int b, const int *c, const int *d, int e, const int *f, const int *g,
         lp_handle h, int i, lp_handle *j),
        (a, b, c, d, e, f, g, h, i, j))
REFUSED(MPI_Win_create, (void *a, lp_aint b, int c, lp_handle d, lp_handle e, lp_handle *f),
        (a, b, c, d, e, f))
REFUSED(MPI_Win_allocate, (lp_aint a, int b, lp_handle c, lp_handle d, void *e, lp_handle *f),
        (a, b, c, d, e, f))
REFUSED(MPI_Win_allocate_shared,
        (lp_aint a, int b, lp_handle c, lp_handle d, void *e, lp_handle *f), (a, b, c, d, e, f))
