/* emulate.c: who the process believes to be; communicators and what programs ask of them; grids;
 * what is not pretended. */
#include "recorder/emulate/emulate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	MOST_COMMS = 4096,
	IDENTICAL = 0,
	CONGRUENT = 1,
	SIMILAR = 2,
	UNEQUAL = 3,
	AS_THEY_ARE = 1000
};
#ifdef LP_MPI_NUMBERS
#define COMM_NULL 0x04000000
enum {
	SHARED = 1,
	CART_TOPOLOGY = 2
};
#else
#define COMM_NULL lp_variable("ompi_mpi_comm_null")
enum {
	SHARED = 0,
	CART_TOPOLOGY = 1
};
#endif
#define WORLD     lp_mpi_below.world
#define SELF      lp_mpi_below.self
#define KEY       LP_KEY
#define UNDEFINED LP_UNDEFINED
#define PROC_NULL LP_PROC_NULL

lp_posed_of lp_posed;

/* By handle. A place is given back when its communicator is freed. */
static struct place {
	uint64_t key;
	lp_posed_comm *comm;
} places[MOST_COMMS];
static uint32_t adding;

/* ---- tools ---- */

void lp_posed_give_up(const char *format, ...) {
	char text[512];
	va_list arguments;
	int length =
		snprintf(text, sizeof text, "lockstep: as rank %d of %d: ", lp_posed.rank, lp_posed.world);
	va_start(arguments, format);
	length += vsnprintf(text + length, sizeof text - (size_t)length - 1, format, arguments);
	va_end(arguments);
	if (length > (int)sizeof text - 2) length = (int)sizeof text - 2;
	text[length] = '\n';
	if (syscall(SYS_write, 2, text, (size_t)length + 1) < 0) _exit(71);
	_exit(70); /* "internal software error" of sysexits: what it takes is not there */
}

int *lp_posed_ints(int count) {
	int *out = malloc(((size_t)(count > 0 ? count : 0) + 1) * sizeof *out);
	if (!out) lp_posed_give_up("there is no memory");
	return out;
}

/* Finalizer of SplitMix64, by Sebastiano Vigna (public domain). */
uint64_t lp_posed_hash(uint64_t a, uint64_t b) {
	uint64_t x = a + UINT64_C(0x9e3779b97f4a7c15) * (b + 1);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* ---- communicators ---- */

lp_posed_comm *lp_posed_find(lp_handle comm) {
	if (!lp_posing()) return NULL;
	for (int i = 0; i < MOST_COMMS; i++) {
		lp_posed_comm *at = __atomic_load_n(&places[i].comm, __ATOMIC_ACQUIRE);
		if (at && places[i].key == KEY(comm)) return at;
	}
	return NULL;
}

static void free_parts(lp_posed_parts *parts) {
	if (!parts) return;
	free(parts->ranks);
	free(parts->end);
	free(parts->id);
	free(parts);
}

void lp_posed_forget(lp_handle comm) {
	lp_posed_comm *old = lp_posed_find(comm);
	for (int i = 0; old && i < MOST_COMMS; i++)
		if (places[i].comm == old) __atomic_store_n(&places[i].comm, NULL, __ATOMIC_RELEASE);
	if (!old) return;
	free_parts(old->parts);
	free(old->ranks);
	free(old->dim);
	free(old->periodic);
	free(old);
}

/* Two threads may make communicators at the same time. */
static void keep(lp_handle handle, lp_posed_comm *comm) {
	for (uint32_t no = 0;
	     !__atomic_compare_exchange_n(&adding, &no, 1, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
	     no = 0) {
	}
	struct place *free_place = NULL;
	for (int i = 0; i < MOST_COMMS && !free_place; i++)
		if (!places[i].comm) free_place = &places[i];
	if (!free_place) lp_posed_give_up("more than %d communicators are in use", MOST_COMMS);
	free_place->key = KEY(handle);
	__atomic_store_n(&free_place->comm, comm, __ATOMIC_RELEASE);
	__atomic_store_n(&adding, 0, __ATOMIC_RELEASE);
}

static int place_of(const int *ranks, int size, int rank) {
	for (int i = 0; i < size; i++)
		if (ranks[i] == rank) return i;
	return -1;
}

static lp_posed_comm *describe(uint64_t id, int *ranks, int size) {
	lp_posed_comm *comm = calloc(1, sizeof *comm);
	if (!comm) lp_posed_give_up("there is no memory");
	*comm = (lp_posed_comm){.id = id,
	                        .division = id,
	                        .size = size,
	                        .ranks = ranks,
	                        .rank = place_of(ranks, size, lp_posed.rank)};
	return comm;
}

/* A communicator for the program, of these ranks of the world; `ranks` becomes its own. */
static lp_posed_comm *new_comm(uint64_t id, int *ranks, int size, lp_handle *out) {
	static int (*copy)(lp_handle, lp_handle *);
	if (!copy) copy = (int (*)(lp_handle, lp_handle *))(uintptr_t)lp_symbol("PMPI_Comm_dup");
	if (copy(SELF, out) != 0) lp_posed_give_up("the MPI library makes no more communicators");
	lp_posed_comm *made = describe(id, ranks, size);
	keep(*out, made);
	return made;
}

void lp_posed_world(void) {
	int *all = lp_posed_ints(lp_posed.world), *own = lp_posed_ints(1);
	for (int i = 0; i < lp_posed.world; i++) all[i] = i;
	own[0] = lp_posed.rank;
	lp_posed_forget(WORLD);
	lp_posed_forget(SELF);
	keep(WORLD, describe(1, all, lp_posed.world));
	keep(SELF, describe(lp_posed_hash(2, (uint64_t)lp_posed.rank), own, 1));
}

/* Rank lists that are too long become first:last:stride. */
void lp_posed_list(const int *ranks, int size, char *out, size_t room) {
	size_t length = (size_t)snprintf(out, room, "[");
	for (int i = 0, n; i < size && length + 48 < room; i += n) {
		int stride = i + 1 < size ? ranks[i + 1] - ranks[i] : 1;
		for (n = 1; size > AS_THEY_ARE && i + n < size && ranks[i + n] - ranks[i + n - 1] == stride;
		     n++) {
		}
		if (n < 3) n = 1;
		length += (size_t)snprintf(out + length, room - length, i ? ", %d" : "%d", ranks[i]);
		if (n > 1)
			length +=
				(size_t)snprintf(out + length, room - length, ":%d:%d", ranks[i + n - 1], stride);
	}
	snprintf(out + length, room - length, length + 48 < room ? "]" : ", ...]");
}

static int *copy_of(const int *ranks, int size) {
	int *out = lp_posed_ints(size);
	memcpy(out, ranks, (size_t)size * sizeof *out);
	return out;
}

static lp_posed_parts *copy_parts(const lp_posed_parts *of) {
	lp_posed_parts *out = of ? calloc(1, sizeof *out) : NULL;
	uint64_t *id = of ? malloc((size_t)of->count * sizeof *id) : NULL;
	if (!of) return NULL;
	if (!out || !id) lp_posed_give_up("there is no memory");
	memcpy(id, of->id, (size_t)of->count * sizeof *id);
	*out = (lp_posed_parts){of->count, copy_of(of->ranks, of->end[of->count - 1]),
	                        copy_of(of->end, of->count), id};
	return out;
}

static int compare(const lp_posed_comm *a, const lp_posed_comm *b) {
	if (a == b) return IDENTICAL;
	if (a->size != b->size) return UNEQUAL;
	if (memcmp(a->ranks, b->ranks, (size_t)a->size * sizeof *a->ranks) == 0) return CONGRUENT;
	unsigned char *in = calloc((size_t)lp_posed.world, 1);
	int result = SIMILAR;
	for (int i = 0; in && i < a->size; i++) in[a->ranks[i]] = 1;
	for (int i = 0; in && i < b->size; i++)
		if (!in[b->ranks[i]]) result = UNEQUAL;
	free(in);
	return result;
}

/* ---- making communicators ---- */

static void copy_grid(lp_posed_comm *to, int dims, const int *dim, const int *periodic) {
	to->dims = dims, to->dim = copy_of(dim, dims), to->periodic = copy_of(periodic, dims);
}

/* The communicators that were made with it have copies too. */
static int duplicate(lp_posed_comm *of, lp_handle *out) {
	uint32_t number = of->made + 1;
	lp_posed_comm *made =
		new_comm(lp_posed_next_id(of), copy_of(of->ranks, of->size), of->size, out);
	made->division = lp_posed_hash(of->division, number);
	made->parts = copy_parts(of->parts);
	for (int i = 0; made->parts && i < made->parts->count; i++)
		made->parts->id[i] = lp_posed_hash(made->parts->id[i], number);
	if (of->dims) copy_grid(made, of->dims, of->dim, of->periodic);
	return 0;
}

/* Part `own` of the parts, which become the communicator's. */
static lp_posed_comm *new_part(uint64_t division, lp_posed_parts *parts, int own, lp_handle *out) {
	int begin = own ? parts->end[own - 1] : 0, size = parts->end[own] - begin;
	lp_posed_comm *made = new_comm(parts->id[own], copy_of(parts->ranks + begin, size), size, out);
	made->division = division, made->parts = parts;
	return made;
}

static int split(lp_posed_comm *parent, int colour, int key, lp_handle *out) {
	int own;
	uint64_t division = lp_posed_next_id(parent);
	lp_posed_parts *parts = lp_posed_split(parent, division, colour, key, &own);
	if (own >= 0) new_part(division, parts, own, out);
	else free_parts(parts), *out = COMM_NULL;
	return 0;
}

static int split_type(lp_posed_comm *parent, int type, int key, lp_handle *out) {
	if (type == UNDEFINED) return split(parent, UNDEFINED, key, out);
	if (type != SHARED)
		lp_posed_give_up("MPI_Comm_split_type is known for MPI_COMM_TYPE_SHARED alone");
	return split(parent, lp_posed.rank / lp_posed.node, key, out);
}

/* Who is in a group, its own process says: no other rank need be asked. `id` of the call. */
static int create(uint64_t id, lp_handle group, lp_handle *out) {
	const lp_posed_group *posed_group = lp_posed_group_of(group);
	for (int i = 0; i < posed_group->size; i++)
		id = lp_posed_hash(id, (uint64_t)posed_group->ranks[i]);
	*out = COMM_NULL;
	if (place_of(posed_group->ranks, posed_group->size, lp_posed.rank) >= 0)
		new_comm(id, copy_of(posed_group->ranks, posed_group->size), posed_group->size, out);
	return 0;
}

/* ---- grids ---- */

static lp_posed_comm *grid_of(lp_handle handle) {
	lp_posed_comm *comm = lp_posed_find(handle);
	if (!comm || !comm->dims)
		lp_posed_give_up("a communicator is asked for its grid, and has none");
	return comm;
}

static void coordinates(const lp_posed_comm *grid, int rank, int *out) {
	for (int d = grid->dims; d-- > 0; rank /= grid->dim[d]) out[d] = rank % grid->dim[d];
}

/* -1: outside of the grid. */
static int rank_at(const lp_posed_comm *grid, const int *at) {
	int rank = 0;
	for (int d = 0; d < grid->dims; d++) {
		int size = grid->dim[d], c = grid->periodic[d] ? ((at[d] % size) + size) % size : at[d];
		if (c < 0 || c >= size) return -1;
		rank = rank * size + c;
	}
	return rank;
}

/* Ranks keep their order: reordering is the library's choice, and this one's is not to. */
static int make_grid(lp_posed_comm *parent, int dims, const int *dim, const int *periodic,
                     lp_handle *out) {
	int64_t size = 1;
	for (int d = 0; d < dims; d++) size *= dim[d] > 0 ? dim[d] : 1;
	if (size > parent->size)
		lp_posed_give_up("a grid of %lld is made of %d ranks", (long long)size, parent->size);
	uint64_t id = lp_posed_next_id(parent);
	*out = COMM_NULL;
	if (parent->rank < size)
		copy_grid(new_comm(id, copy_of(parent->ranks, (int)size), (int)size, out), dims, dim,
		          periodic);
	return 0;
}

/* The number of the part that coordinates are in: those that do not remain, as one number. */
static int part_at(const lp_posed_comm *grid, const int *remain, const int *at) {
	int number = 0;
	for (int d = 0; d < grid->dims; d++)
		if (!remain[d]) number = number * grid->dim[d] + at[d];
	return number;
}

/* The ranks that share the coordinates that do not remain, in their order: no other rank need be
 * asked. */
static lp_posed_parts *divide_grid(const lp_posed_comm *grid, const int *remain, uint64_t division,
                                   int *own) {
	int size = 1, *at = lp_posed_ints(grid->dims), *taken;
	for (int d = 0; d < grid->dims; d++) size *= remain[d] ? grid->dim[d] : 1;
	int count = grid->size / size;
	lp_posed_parts *parts = malloc(sizeof *parts);
	uint64_t *id = malloc((size_t)count * sizeof *id);
	if (!parts || !id) lp_posed_give_up("there is no memory");
	*parts = (lp_posed_parts){count, lp_posed_ints(grid->size), lp_posed_ints(count), id};
	taken = parts->end;
	for (int i = 0; i < count; i++)
		taken[i] = i * size, id[i] = lp_posed_hash(division, (uint64_t)i);
	for (int r = 0; r < grid->size; r++) {
		coordinates(grid, r, at);
		parts->ranks[taken[part_at(grid, remain, at)]++] = grid->ranks[r];
	}
	coordinates(grid, grid->rank, at);
	*own = part_at(grid, remain, at);
	free(at);
	return parts;
}

static int part_of_grid(lp_posed_comm *grid, const int *remain, lp_handle *out) {
	int own;
	uint64_t division = lp_posed_next_id(grid);
	lp_posed_parts *parts = divide_grid(grid, remain, division, &own);
	lp_posed_comm *made = new_part(division, parts, own, out);
	made->dim = lp_posed_ints(grid->dims), made->periodic = lp_posed_ints(grid->dims);
	for (int d = 0; d < grid->dims; d++)
		if (remain[d])
			made->dim[made->dims] = grid->dim[d], made->periodic[made->dims++] = grid->periodic[d];
	return 0;
}

static int shift(const lp_posed_comm *grid, int dimension, int by, int *source, int *target) {
	int *at = lp_posed_ints(grid->dims), rank;
	if (dimension < 0 || dimension >= grid->dims)
		lp_posed_give_up("a grid has no dimension %d", dimension);
	for (int way = -1; way <= 1; way += 2) {
		coordinates(grid, grid->rank, at);
		at[dimension] += way * by;
		rank = rank_at(grid, at);
		*(way < 0 ? source : target) = rank < 0 ? PROC_NULL : rank;
	}
	free(at);
	return 0;
}

static int describe_grid(const lp_posed_comm *grid, int most, int *dim, int *periodic, int *own) {
	int *at = lp_posed_ints(grid->dims);
	coordinates(grid, grid->rank, at);
	for (int d = 0; d < grid->dims && d < most; d++)
		dim[d] = grid->dim[d], periodic[d] = grid->periodic[d], own[d] = at[d];
	free(at);
	return 0;
}

static int coordinates_of(const lp_posed_comm *grid, int rank, int most, int *out) {
	int *at = lp_posed_ints(grid->dims);
	coordinates(grid, rank, at);
	for (int d = 0; d < grid->dims && d < most; d++) out[d] = at[d];
	free(at);
	return 0;
}

bool lp_posed_make(lp_mpi_call *call, lp_posed_comm *parent) {
	lp_handle made;
	if (strstr(call->name, "Comm_dup")) duplicate(parent, &made);
	else if (strcmp(call->name, "MPI_Comm_split") == 0)
		split(parent, call->numbers[0], call->numbers[1], &made);
	else if (strcmp(call->name, "MPI_Comm_split_type") == 0)
		split_type(parent, call->numbers[0], call->numbers[1], &made);
	else if (strcmp(call->name, "MPI_Comm_create") == 0)
		create(lp_posed_next_id(parent), call->op, &made);
	else return false;
	lp_mpi_give_comm(call, made);
	return true;
}

/* ---- the calls ---- */

/* ANSWER where `comm` is of the pretended world, as `c`. */
#define POSED(name, parameters, arguments, answer) \
	int name parameters;                           \
	LP_EXPORT int name parameters {                \
		LP_REAL(name)                              \
		lp_posed_comm *c = lp_posed_find(comm);    \
		return c ? (answer) : real arguments;      \
	}

POSED(MPI_Comm_size, (lp_handle comm, int *size), (comm, size), (*size = c->size, 0))
POSED(MPI_Comm_rank, (lp_handle comm, int *rank), (comm, rank), (*rank = c->rank, 0))
/* From Fortran. */
#define POSED_F(name, parameters, arguments, answer)                                 \
	void name parameters;                                                            \
	LP_EXPORT void name parameters {                                                 \
		LP_REAL(name)                                                                \
		lp_posed_comm *c = lp_posing() ? lp_posed_find(lp_mpi_comm_f(*comm)) : NULL; \
		if (c) *error = 0, answer;                                                   \
		else real arguments;                                                         \
	}
POSED_F(mpi_comm_size_, (lp_fint * comm, lp_fint *size, lp_fint *error), (comm, size, error),
        *size = c->size)
POSED_F(mpi_comm_rank_, (lp_fint * comm, lp_fint *rank, lp_fint *error), (comm, rank, error),
        *rank = c->rank)

POSED(MPI_Comm_group, (lp_handle comm, lp_handle *out), (comm, out),
      lp_posed_new_group(copy_of(c->ranks, c->size), c->size, out))
POSED(MPI_Comm_compare, (lp_handle comm, lp_handle other, int *result), (comm, other, result),
      (*result = lp_posed_find(other) ? compare(c, lp_posed_find(other)) : UNEQUAL, 0))
POSED(MPI_Topo_test, (lp_handle comm, int *kind), (comm, kind),
      (*kind = c->dims ? CART_TOPOLOGY : UNDEFINED, 0))
POSED(MPI_Cartdim_get, (lp_handle comm, int *dims), (comm, dims),
      (c = grid_of(comm), *dims = c->dims, 0))
POSED(MPI_Cart_get, (lp_handle comm, int most, int *dim, int *periodic, int *own),
      (comm, most, dim, periodic, own),
      (c = grid_of(comm), describe_grid(c, most, dim, periodic, own)))
POSED(MPI_Cart_rank, (lp_handle comm, const int *at, int *rank), (comm, at, rank),
      (*rank = rank_at(grid_of(comm), at), *rank < 0 ? 1 : 0))
POSED(MPI_Cart_coords, (lp_handle comm, int rank, int most, int *out), (comm, rank, most, out),
      (c = grid_of(comm), coordinates_of(c, rank, most, out)))
POSED(MPI_Cart_shift, (lp_handle comm, int dimension, int by, int *source, int *target),
      (comm, dimension, by, source, target),
      (c = grid_of(comm), shift(c, dimension, by, source, target)))

POSED(MPI_Comm_create_group, (lp_handle comm, lp_handle group, int tag, lp_handle *out),
      (comm, group, tag, out),
      create(lp_posed_hash(c->id ^ UINT64_C(0x6772), (uint64_t)tag), group, out))
POSED(MPI_Cart_create,
      (lp_handle comm, int dims, const int *dim, const int *periodic, int reorder, lp_handle *out),
      (comm, dims, dim, periodic, reorder, out), make_grid(c, dims, dim, periodic, out))
POSED(MPI_Cart_sub, (lp_handle comm, const int *remain, lp_handle *out), (comm, remain, out),
      (c = grid_of(comm), part_of_grid(c, remain, out)))

/* What cannot be pretended ends the program with a reason instead of going on with one rank. */
#define REFUSED(name, parameters, arguments)                                                  \
	int name parameters;                                                                      \
	LP_EXPORT int name parameters {                                                           \
		LP_REAL(name)                                                                         \
		if (lp_posing()) lp_posed_give_up("%s cannot be answered by a process alone", #name); \
		return real arguments;                                                                \
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
REFUSED(MPI_Mprobe, (int a, int b, lp_handle c, lp_handle *d, void *e), (a, b, c, d, e))
