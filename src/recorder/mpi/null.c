/* null.c: large collectives return at once; what a program costs without communication, at full scale.
 *
 * All members of a communicator must decide alike, or some wait for ever for the others. So a decision takes nothing but
 * what MPI demands to be equal on all of them: which call it is, the bytes that a member contributes, and how often that
 * came before on this communicator. The counts hang on the communicator as an attribute, so that they end with it.
 * Calls whose size is not known to all members alike (gatherv, scatterv, alltoallv) are never left out; nor is what hands
 * data to ranks that may steer by it (broadcast, scatter, scan, point-to-point), nor barriers. Persistent collectives are
 * made to be repeated: they are left out from the first time.
 *
 * Of the result a rank gets what is its own: its own contribution reduced with nothing, its own shard. */
#include "recorder/mpi/below.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define below lp_mpi_below
enum { KINDS = 1024, PERSISTENT = 4096 };

/* Of one communicator: calls of a kind so far. Filled in the same order on all members, so that it is full for all alike. */
struct counts {
	struct kind {
		uint32_t name;       /* a hash of it, never 0 */
		int64_t bytes;
		uint64_t calls;
	} kind[KINDS];
};

static int keyval = -1;

static int copy_none(lp_handle comm, int key, void *extra, void *in, void *out, int *flag) {
	(void)comm, (void)key, (void)extra, (void)in, (void)out;
	*flag = 0;
	return 0;
}
static int drop(lp_handle comm, int key, void *value, void *extra) {
	(void)comm, (void)key, (void)extra;
	munmap(value, sizeof(struct counts));
	return 0;
}

static void begun(void) { below.comm_create_keyval(copy_none, drop, &keyval, NULL); }

static struct counts *counts_of(lp_handle comm) {
	void *value = NULL;
	int there = 0;
	if (below.comm_get_attr(comm, keyval, &value, &there) == 0 && there) return value;
	value = mmap(NULL, sizeof(struct counts), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (value == MAP_FAILED) abort(); /* to decide otherwise than the others would hang the job */
	if (below.comm_set_attr(comm, keyval, value) != 0) abort();
	return value;
}

static uint32_t hash_name(const char *name) {
	uint32_t hash = UINT32_C(2166136261);
	for (; *name; name++) hash = (hash ^ (uint8_t)*name) * UINT32_C(16777619);
	return hash | 1;
}

/* How often it came before; what finds no place has come never, for ever. */
static uint64_t calls_before(struct counts *c, uint32_t name, int64_t bytes) {
	uint64_t at = (uint64_t)name * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)bytes * UINT64_C(0xff51afd7ed558ccd);
	for (uint32_t i = 0; i < KINDS; i++) {
		struct kind *k = &c->kind[((at >> 32) + i) % KINDS];
		if (!k->name) k->name = name, k->bytes = bytes;
		if (k->name == name && k->bytes == bytes) return k->calls++;
	}
	return 0;
}

/* ---- what a member contributes ---- */

static int64_t times(lp_count count, lp_handle type) {
	int size = 0;
	int64_t bytes;
	if (count <= 0 || below.type_size(type, &size) != 0) return 0;
	return __builtin_mul_overflow((int64_t)count, (int64_t)size, &bytes) ? INT64_MAX : bytes;
}

static int64_t sum_of_list(const lp_mpi_call *c, int side, int size, lp_handle type) {
	lp_count sum = 0;
	for (int i = 0; i < size; i++) sum += lp_mpi_listed(c, side, i);
	return times(sum, type);
}

/* In bytes, the same on every member; -1: not known to all. */
static int64_t contribution(const lp_mpi_call *c, int size, int rank) {
	switch (c->what) {
	case LK_WHAT_ALLREDUCE:
	case LK_WHAT_REDUCE: return times(c->counts[0], c->types[0]);
	case LK_WHAT_ALLTOALL: return c->lists[0] ? -1 : times(c->counts[1], c->types[1]);
	case LK_WHAT_ALLGATHER: return c->lists[0] ? sum_of_list(c, 0, size, c->types[1]) : times(c->counts[1], c->types[1]);
	case LK_WHAT_GATHER:
		if (c->lists[0]) return -1;
		return rank == c->peer ? times(c->counts[1], c->types[1]) : times(c->counts[0], c->types[0]);
	case LK_WHAT_REDUCESCATTER:
		return c->lists[0] ? sum_of_list(c, 0, size, c->types[0]) : times(c->counts[0], c->types[0]);
	default: return -1;
	}
}

/* ---- what a member gets ---- */

static void own_shard(const lp_mpi_call *c, int size, int rank) {
	bool in_place = lp_mpi_in_place(c->send);
	lp_count before = 0;
	switch (c->what) {
	case LK_WHAT_REDUCE:
		if (rank != c->peer) return; /* fall through */
	case LK_WHAT_ALLREDUCE:
		if (!in_place) lp_mpi_copy(c->send, c->counts[0], c->types[0], c->recv, c->counts[0], c->types[0]);
		return;
	case LK_WHAT_GATHER:
		if (rank != c->peer) return; /* fall through */
	case LK_WHAT_ALLGATHER: {
		lp_count count = c->lists[0] ? lp_mpi_listed(c, 0, rank) : c->counts[1];
		lp_count place = c->lists[0] ? lp_mpi_placed(c, 0, rank) : c->counts[1] * rank;
		if (!in_place)
			lp_mpi_copy(c->send, c->counts[0], c->types[0], lp_mpi_element(c->recv, place, c->types[1]), count, c->types[1]);
		return;
	}
	case LK_WHAT_ALLTOALL:
		if (!in_place)
			lp_mpi_copy(lp_mpi_element(c->send, c->counts[0] * rank, c->types[0]), c->counts[0], c->types[0],
			            lp_mpi_element(c->recv, c->counts[1] * rank, c->types[1]), c->counts[1], c->types[1]);
		return;
	case LK_WHAT_REDUCESCATTER: {
		lp_count count = c->lists[0] ? lp_mpi_listed(c, 0, rank) : c->counts[0];
		for (int i = 0; i < rank && i < size; i++) before += c->lists[0] ? lp_mpi_listed(c, 0, i) : c->counts[0];
		lp_mpi_copy(lp_mpi_element(in_place ? c->recv : c->send, before, c->types[0]), count, c->types[0], c->recv, count,
		            c->types[0]);
		return;
	}
	default: return;
	}
}

/* ---- persistent ones ---- */

/* Made collectives by request: their shard is copied whenever they are started. One that finds no place is not copied. */
static struct made {
	uint64_t key;
	lp_mpi_call call;
	int size, rank;
} made[PERSISTENT];

static struct made *find_made(uint64_t key, bool place) {
	for (uint32_t i = 0, at = (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 40); i < PERSISTENT; i++) {
		struct made *m = &made[(at + i) % PERSISTENT];
		if (m->key == key || (place && !m->key)) return m;
		if (!m->key) return NULL;
	}
	return NULL;
}

static void remember(const lp_mpi_call *c, int size, int rank) {
	uint64_t key = LP_KEY(c->fortran ? lp_mpi_request_f(*(const lp_fint *)c->request) : *(const lp_handle *)c->request);
	struct made *m = find_made(key, true);
	if (m) *m = (struct made){key, *c, size, rank};
}

static void start(const lp_handle *requests, int count) {
	for (int i = 0; i < count; i++) {
		const struct made *m = find_made(LP_KEY(requests[i]), false);
		if (m && m->call.name) own_shard(&m->call, m->size, m->rank);
	}
}

/* ---- the decision ---- */

static bool leaves_out(const lp_mpi_call *c, int64_t bytes) {
	if (c->part == LK_PART_MAKE) return lp_null_skips((lk_comm_what)c->what, bytes, UINT64_MAX);
	return lp_null_skips((lk_comm_what)c->what, bytes, calls_before(counts_of(c->comm), hash_name(c->name), bytes));
}

static bool stand_in(lp_mpi_call *c) {
	int inter = 0, size = 0, rank = 0;
	if (!lp_null_skips((lk_comm_what)c->what, INT64_MAX, UINT64_MAX)) return false; /* whatever its size */
	if (below.comm_test_inter(c->comm, &inter) != 0 || inter) return false; /* wrong calls are the library's to refuse */
	if (below.comm_size(c->comm, &size) != 0 || size < 2 || below.comm_rank(c->comm, &rank) != 0) return false;
	int64_t bytes = contribution(c, size, rank);
	if (bytes < 0 || !leaves_out(c, bytes)) return false;
	if (c->part != LK_PART_MAKE) own_shard(c, size, rank);
	if (c->request) lp_mpi_give_request(c);
	if (c->part == LK_PART_MAKE) remember(c, size, rank);
	if (lp_state.on) __atomic_fetch_add(&lp_state.recorder.head->left_out, 1, __ATOMIC_RELAXED);
	c->result = 0;
	return true;
}

const lp_mpi_mode lp_mpi_null = {.begun = begun, .stand_in = stand_in, .start = start};
