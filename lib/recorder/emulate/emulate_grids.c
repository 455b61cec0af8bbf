/* emulate_grids.c: Cartesian grids of the emulated world. */
#include "recorder/emulate/emulate.h"

#include <stdlib.h>

#ifdef LP_MPI_NUMBERS
#define COMM_NULL 0x04000000
enum { CART_TOPOLOGY = 2 };
#else
#define COMM_NULL lp_variable("ompi_mpi_comm_null")
enum { CART_TOPOLOGY = 1 };
#endif
#define UNDEFINED LP_UNDEFINED
#define PROC_NULL LP_PROC_NULL

static lp_emulated_comm *require_grid(lp_handle handle) {
	lp_emulated_comm *comm = lp_emulate_find_comm(handle);
	if (!comm || !comm->dims)
		lp_emulate_give_up("the grid of a communicator without one is requested");
	return comm;
}

static void rank_to_coordinates(const lp_emulated_comm *grid, int rank, int *out) {
	LP_ASSERT(rank >= 0);
	for (int d = grid->dims; d-- > 0; rank /= grid->dim[d]) out[d] = rank % grid->dim[d];
}

/* -1: outside the grid. */
static int coordinates_to_rank(const lp_emulated_comm *grid, const int *at) {
	int rank = 0;
	for (int d = 0; d < grid->dims; d++) {
		int size = grid->dim[d], c = grid->periodic[d] ? ((at[d] % size) + size) % size : at[d];
		if (c < 0 || c >= size) return -1;
		rank = rank * size + c;
	}
	return rank;
}

/* Ranks keep their order: a library may reorder them, but this emulation does not. */
static int make_grid_comm(lp_emulated_comm *parent, int dims, const int *dim, const int *periodic,
                          lp_handle *out) {
	int64_t size = 1;
	for (int d = 0; d < dims; d++) size *= dim[d] > 0 ? dim[d] : 1;
	if (size > parent->size)
		lp_emulate_give_up("a grid of %lld ranks is requested of a communicator of %d",
		                   (long long)size, parent->size);
	uint64_t id = lp_emulate_next_id(parent);
	*out = COMM_NULL;
	if (parent->rank < size)
		lp_emulate_copy_grid(lp_emulate_new_comm(id,
		                                         lp_emulate_copy_ranks(parent->ranks, (int)size),
		                                         (int)size, out),
		                     dims, dim, periodic);
	return 0;
}

/* The number of the part with these coordinates: the dropped ones, as one number. */
static int grid_part_at(const lp_emulated_comm *grid, const int *remain, const int *at) {
	int number = 0;
	for (int d = 0; d < grid->dims; d++)
		if (!remain[d]) number = number * grid->dim[d] + at[d];
	return number;
}

/* Divide a grid into the ranks that share the dropped coordinates, in order: no copy runs. */
static lp_emulated_parts *divide_grid(const lp_emulated_comm *grid, const int *remain,
                                      uint64_t division, int *own) {
	int size = 1, *at = lp_emulate_new_ints(grid->dims), *taken;
	for (int d = 0; d < grid->dims; d++) size *= remain[d] ? grid->dim[d] : 1;
	int count = grid->size / size;
	lp_emulated_parts *parts = malloc(sizeof *parts);
	uint64_t *id = malloc((size_t)count * sizeof *id);
	if (!parts || !id) lp_emulate_give_up("out of memory");
	*parts =
		(lp_emulated_parts){count, lp_emulate_new_ints(grid->size), lp_emulate_new_ints(count), id};
	taken = parts->end;
	for (int i = 0; i < count; i++) {
		taken[i] = i * size;
		id[i] = lp_emulate_hash(division, (uint64_t)i);
	}
	for (int r = 0; r < grid->size; r++) {
		rank_to_coordinates(grid, r, at);
		parts->ranks[taken[grid_part_at(grid, remain, at)]++] = grid->ranks[r];
	}
	rank_to_coordinates(grid, grid->rank, at);
	*own = grid_part_at(grid, remain, at);
	free(at);
	return parts;
}

static int make_subgrid_comm(lp_emulated_comm *grid, const int *remain, lp_handle *out) {
	int own;
	uint64_t division = lp_emulate_next_id(grid);
	lp_emulated_parts *parts = divide_grid(grid, remain, division, &own);
	lp_emulated_comm *made = lp_emulate_new_part(division, parts, own, out);
	made->dim = lp_emulate_new_ints(grid->dims);
	made->periodic = lp_emulate_new_ints(grid->dims);
	for (int d = 0; d < grid->dims; d++)
		if (remain[d]) {
			made->dim[made->dims] = grid->dim[d];
			made->periodic[made->dims++] = grid->periodic[d];
		}
	return 0;
}

static int shift_on_grid(const lp_emulated_comm *grid, int dimension, int by, int *source,
                         int *target) {
	int *at = lp_emulate_new_ints(grid->dims), rank;
	if (dimension < 0 || dimension >= grid->dims)
		lp_emulate_give_up("a grid has no dimension %d", dimension);
	for (int way = -1; way <= 1; way += 2) {
		rank_to_coordinates(grid, grid->rank, at);
		at[dimension] += way * by;
		rank = coordinates_to_rank(grid, at);
		*(way < 0 ? source : target) = rank < 0 ? PROC_NULL : rank;
	}
	free(at);
	return 0;
}

static int describe_grid(const lp_emulated_comm *grid, int most, int *dim, int *periodic,
                         int *own) {
	int *at = lp_emulate_new_ints(grid->dims);
	rank_to_coordinates(grid, grid->rank, at);
	for (int d = 0; d < grid->dims && d < most; d++) {
		dim[d] = grid->dim[d];
		periodic[d] = grid->periodic[d];
		own[d] = at[d];
	}
	free(at);
	return 0;
}

static int give_coordinates(const lp_emulated_comm *grid, int rank, int most, int *out) {
	LP_ASSERT(grid->dims > 0);
	int *at = lp_emulate_new_ints(grid->dims);
	rank_to_coordinates(grid, rank, at);
	for (int d = 0; d < grid->dims && d < most; d++) out[d] = at[d];
	free(at);
	return 0;
}

/* ---- the calls ---- */

EMULATED(MPI_Topo_test, (lp_handle comm, int *kind), (comm, kind),
         (*kind = known->dims ? CART_TOPOLOGY : UNDEFINED, 0))
EMULATED(MPI_Cartdim_get, (lp_handle comm, int *dims), (comm, dims),
         (known = require_grid(comm), *dims = known->dims, 0))
EMULATED(MPI_Cart_get, (lp_handle comm, int most, int *dim, int *periodic, int *own),
         (comm, most, dim, periodic, own),
         (known = require_grid(comm), describe_grid(known, most, dim, periodic, own)))
EMULATED(MPI_Cart_rank, (lp_handle comm, const int *at, int *rank), (comm, at, rank),
         (*rank = coordinates_to_rank(require_grid(comm), at), *rank < 0 ? 1 : 0))
EMULATED(MPI_Cart_coords, (lp_handle comm, int rank, int most, int *out), (comm, rank, most, out),
         (known = require_grid(comm), give_coordinates(known, rank, most, out)))
EMULATED(MPI_Cart_shift, (lp_handle comm, int dimension, int by, int *source, int *target),
         (comm, dimension, by, source, target),
         (known = require_grid(comm), shift_on_grid(known, dimension, by, source, target)))
EMULATED(MPI_Cart_create,
         (lp_handle comm, int dims, const int *dim, const int *periodic, int reorder,
          lp_handle *out),
         (comm, dims, dim, periodic, reorder, out), make_grid_comm(known, dims, dim, periodic, out))
EMULATED(MPI_Cart_sub, (lp_handle comm, const int *remain, lp_handle *out), (comm, remain, out),
         (known = require_grid(comm), make_subgrid_comm(known, remain, out)))
