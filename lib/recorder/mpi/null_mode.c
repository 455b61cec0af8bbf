/* null_mode.c: large collectives return at once; shows the cost of a program without communication,
 * at full scale.
 *
 * All members of a communicator must decide alike, or some wait forever for the others. So a
 * decision uses only what MPI requires to be equal on all of them: which call it is, the bytes that
 * a member contributes, and how often that occurred before on this communicator. The counts are an
 * attribute of the communicator, so that they end with it. Calls whose size is not known to all
 * members alike (gatherv, scatterv, alltoallv) are never left out; nor are those that hand data to
 * ranks that may steer by it (broadcast, scatter, scan, point-to-point), nor barriers. Persistent
 * collectives are made to be repeated: they are left out from the first time.
 *
 * In the result a rank gets its own part: its own contribution reduced with nothing, its own
 * shard. */
#include "recorder/mpi/library.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { KINDS = 1024, PERSISTENT = 4096 };

/* Of one communicator: calls of each kind so far. Filled in the same order on all members, so that
 * it is full on all alike. */
struct counts {
	struct kind {
		uint32_t name; /* its hash, never 0 */
		int64_t bytes;
		uint64_t calls;
	} kind[KINDS];
};

static int keyval = -1;

static int copy_no_counts(lp_handle comm, int key, void *extra, void *in, void *out, int *flag) {
	(void)comm, (void)key, (void)extra, (void)in, (void)out;
	*flag = 0;
	return 0;
}
static int drop_counts(lp_handle comm, int key, void *value, void *extra) {
	(void)comm, (void)key, (void)extra;
	munmap(value, sizeof(struct counts));
	return 0;
}

static void begin_null_mode(void) {
	lp_mpi_real.comm_create_keyval(copy_no_counts, drop_counts, &keyval, NULL);
}

static struct counts *counts_of_comm(lp_handle comm) {
	void *value = NULL;
	int there = 0;
	if (lp_mpi_real.comm_get_attr(comm, keyval, &value, &there) == 0 && there) return value;
	value = mmap(NULL, sizeof(struct counts), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	             -1, 0);
	if (value == MAP_FAILED) abort(); /* a different decision than the others' would hang the job */
	if (lp_mpi_real.comm_set_attr(comm, keyval, value) != 0) abort();
	return value;
}

static uint32_t hash_call_name(const char *name) {
	uint32_t hash = UINT32_C(2166136261);
	for (; *name; name++) hash = (hash ^ (uint8_t)*name) * UINT32_C(16777619);
	return hash | 1;
}

/* How often the call occurred before; calls that do not fit into the table count as first calls. */
static uint64_t count_calls_before(struct counts *counts, uint32_t name, int64_t bytes) {
	uint64_t at = (uint64_t)name * UINT64_C(0x9e3779b97f4a7c15) ^
	              (uint64_t)bytes * UINT64_C(0xff51afd7ed558ccd);
	for (uint32_t i = 0; i < KINDS; i++) {
		struct kind *kind = &counts->kind[((at >> 32) + i) % KINDS];
		if (!kind->name) {
			kind->name = name;
			kind->bytes = bytes;
		}
		if (kind->name == name && kind->bytes == bytes) return kind->calls++;
	}
	return 0;
}

/* ---- a member's contribution ---- */

static int64_t checked_bytes(lp_count count, lp_handle type) {
	int size = 0;
	int64_t bytes;
	if (count <= 0 || lp_mpi_real.type_size(type, &size) != 0) return 0;
	return __builtin_mul_overflow((int64_t)count, (int64_t)size, &bytes) ? INT64_MAX : bytes;
}

static int64_t sum_listed_bytes(const lp_mpi_call *call, int side, int size, lp_handle type) {
	lp_count sum = 0;
	for (int i = 0; i < size; i++) sum += lp_mpi_listed(call, side, i);
	return checked_bytes(sum, type);
}

/* In bytes, the same on every member; -1: not known to all. */
static int64_t contribution_bytes(const lp_mpi_call *call, int size, int rank) {
	switch (call->what) {
	case LK_WHAT_ALLREDUCE:
	case LK_WHAT_REDUCE: return checked_bytes(call->counts[0], call->types[0]);
	case LK_WHAT_ALLTOALL:
		return call->lists[0] ? -1 : checked_bytes(call->counts[1], call->types[1]);
	case LK_WHAT_ALLGATHER:
		return call->lists[0] ? sum_listed_bytes(call, 0, size, call->types[1])
		                      : checked_bytes(call->counts[1], call->types[1]);
	case LK_WHAT_GATHER:
		if (call->lists[0]) return -1;
		return rank == call->peer ? checked_bytes(call->counts[1], call->types[1])
		                          : checked_bytes(call->counts[0], call->types[0]);
	case LK_WHAT_REDUCESCATTER:
		return call->lists[0] ? sum_listed_bytes(call, 0, size, call->types[0])
		                      : checked_bytes(call->counts[0], call->types[0]);
	default: return -1;
	}
}

/* ---- a member's result ---- */

static void give_own_shard(const lp_mpi_call *call, int size, int rank) {
	bool in_place = lp_mpi_in_place(call->send);
	lp_count before = 0;
	switch (call->what) {
	case LK_WHAT_REDUCE:
		if (rank != call->peer) return; /* fall through */
	case LK_WHAT_ALLREDUCE:
		if (!in_place)
			lp_mpi_copy(call->send, call->counts[0], call->types[0], call->recv, call->counts[0],
			            call->types[0]);
		return;
	case LK_WHAT_GATHER:
		if (rank != call->peer) return; /* fall through */
	case LK_WHAT_ALLGATHER: {
		lp_count count = call->lists[0] ? lp_mpi_listed(call, 0, rank) : call->counts[1];
		lp_count place = call->lists[0] ? lp_mpi_placed(call, 0, rank) : call->counts[1] * rank;
		if (!in_place)
			lp_mpi_copy(call->send, call->counts[0], call->types[0],
			            lp_mpi_element(call->recv, place, call->types[1]), count, call->types[1]);
		return;
	}
	case LK_WHAT_ALLTOALL:
		if (!in_place)
			lp_mpi_copy(lp_mpi_element(call->send, call->counts[0] * rank, call->types[0]),
			            call->counts[0], call->types[0],
			            lp_mpi_element(call->recv, call->counts[1] * rank, call->types[1]),
			            call->counts[1], call->types[1]);
		return;
	case LK_WHAT_REDUCESCATTER: {
		lp_count count = call->lists[0] ? lp_mpi_listed(call, 0, rank) : call->counts[0];
		for (int i = 0; i < rank && i < size; i++)
			before += call->lists[0] ? lp_mpi_listed(call, 0, i) : call->counts[0];
		lp_mpi_copy(lp_mpi_element(in_place ? call->recv : call->send, before, call->types[0]),
		            count, call->types[0], call->recv, count, call->types[0]);
		return;
	}
	default: return;
	}
}

/* ---- persistent collectives ---- */

/* Created collectives by request: their shard is copied whenever they are started. One without a
 * slot is not copied. */
static struct made {
	uint64_t key;
	lp_mpi_call call;
	int size, rank;
} made[PERSISTENT];

static struct made *find_persistent(uint64_t key, bool place) {
	for (uint32_t i = 0, at = (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
	     i < PERSISTENT; i++) {
		struct made *slot = &made[(at + i) % PERSISTENT];
		if (slot->key == key || (place && !slot->key)) return slot;
		if (!slot->key) return NULL;
	}
	return NULL;
}

static void remember_persistent(const lp_mpi_call *call, int size, int rank) {
	uint64_t key = LP_KEY(call->fortran ? lp_mpi_request_f(*(const lp_fint *)call->request)
	                                    : *(const lp_handle *)call->request);
	struct made *m = find_persistent(key, true);
	if (m) *m = (struct made){key, *call, size, rank};
}

static void start_persistent(const lp_handle *requests, int count) {
	for (int i = 0; i < count; i++) {
		const struct made *known = find_persistent(LP_KEY(requests[i]), false);
		if (known && known->call.name) give_own_shard(&known->call, known->size, known->rank);
	}
}

/* ---- the decision ---- */

static bool is_left_out(const lp_mpi_call *call, int64_t bytes) {
	if (call->part == LK_PART_MAKE)
		return lp_null_skips((lk_comm_what)call->what, bytes, UINT64_MAX);
	return lp_null_skips(
		(lk_comm_what)call->what, bytes,
		count_calls_before(counts_of_comm(call->comm), hash_call_name(call->name), bytes));
}

static bool leave_out_collective(lp_mpi_call *call) {
	int inter = 0, size = 0, rank = 0;
	if (!lp_null_skips((lk_comm_what)call->what, INT64_MAX, UINT64_MAX))
		return false; /* of any size */
	if (lp_mpi_real.comm_test_inter(call->comm, &inter) != 0 || inter)
		return false; /* the library refuses invalid calls */
	if (lp_mpi_real.comm_size(call->comm, &size) != 0 || size < 2 ||
	    lp_mpi_real.comm_rank(call->comm, &rank) != 0)
		return false;
	int64_t bytes = contribution_bytes(call, size, rank);
	if (bytes < 0 || !is_left_out(call, bytes)) return false;
	if (call->part != LK_PART_MAKE) give_own_shard(call, size, rank);
	if (call->request) lp_mpi_give_request(call);
	if (call->part == LK_PART_MAKE) remember_persistent(call, size, rank);
	if (lp_state.on) __atomic_fetch_add(&lp_state.recorder.head->left_out, 1, __ATOMIC_RELAXED);
	call->result = 0;
	return true;
}

const lp_mpi_mode lp_mpi_null = {
	.begin = begin_null_mode, .replace = leave_out_collective, .start = start_persistent};
