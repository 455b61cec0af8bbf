/* nccl_mode.c: replaces calls of NCCL: null, as-rank, delay.
 *
 * The result of a collective in this rank's buffers without the others is produced on the stream:
 * its own contribution, its own shard; in as-rank, data of others is filled in. So the order of the
 * program's work is unchanged. */
#include "recorder/gpu/gpu.h"

#include <string.h>
#include <time.h>

enum { ANY_DIRECTION = 4, SMALL_NUMBERS = 0x3c };

static struct {
	int (*copy)(void *, const void *, size_t, int, void *), (*set)(void *, int, size_t, void *);
	int (*host)(void *, void (*)(void *), void *);
} runtime;

static void find_copy_functions(void) {
	if (runtime.copy) return;
	runtime.set = (int (*)(void *, int, size_t, void *))(uintptr_t)lp_gpu_symbol("cudaMemsetAsync");
	runtime.host =
		(int (*)(void *, void (*)(void *), void *))(uintptr_t)lp_gpu_symbol("cudaLaunchHostFunc");
	runtime.copy = (int (*)(void *, const void *, size_t, int, void *))(uintptr_t)lp_gpu_symbol(
		"cudaMemcpyAsync");
}

/* ---- delay ---- */

static void sleep_for_delay(void *unused) {
	(void)unused;
	struct timespec t = {(time_t)(lp_state.delay_ns / 1000000000),
	                     (long)(lp_state.delay_ns % 1000000000)};
	nanosleep(&t, NULL);
}

void lp_nccl_hold(void *stream) {
	if (LP_HOT(lp_state.delay_ns == 0)) return;
	find_copy_functions();
	if (!runtime.host || runtime.host(stream, sleep_for_delay, NULL) != 0) sleep_for_delay(NULL);
}

/* ---- own contribution ---- */

static void copy_on_stream(const lp_nccl_call *call, void *to, const void *from, size_t size) {
	if (size && to && from && to != from && runtime.copy)
		runtime.copy(to, from, size, ANY_DIRECTION, call->stream);
}

/* Fill in what others would have sent. */
static void fill_on_stream(const lp_nccl_call *call, void *to, size_t size) {
	bool zeros = strcmp(lp_mode.fill, "random") != 0;
	if (size && to && lp_nccl_is_emulating() && runtime.set)
		runtime.set(to, zeros ? 0 : SMALL_NUMBERS, size, call->stream);
}

static void *shard_at(const void *buffer, size_t size, int rank) {
	return buffer && rank >= 0 ? (char *)(uintptr_t)buffer + size * (size_t)rank : NULL;
}

/* Repeat this rank's shard for every rank, in doubling copies: programs compare counts and shapes
 * that they gather, and continue if all ranks have the same. */
static void repeat_shard(const lp_nccl_call *call, size_t size) {
	int first = call->group->rank, end = first + 1, ranks = call->group->ranks;
	while (first > 0 || end < ranks) {
		int known = end - first, before = known < first ? known : first,
			after = known < ranks - end ? known : ranks - end;
		const void *from = shard_at(call->to, size, first);
		if (after > 0) {
			copy_on_stream(call, shard_at(call->to, size, end), from, size * (size_t)after);
			end += after;
		} else {
			first -= before;
			copy_on_stream(call, shard_at(call->to, size, first), from, size * (size_t)before);
		}
	}
}

/* Assemble all ranks' shards, of which one is known. With an in-place gather it is already
 * there. */
static void assemble_shards(const lp_nccl_call *call, const void *own, size_t size) {
	int rank = call->group->rank;
	if (shard_at(call->to, size, rank) == own) return;
	copy_on_stream(call, shard_at(call->to, size, rank), own, size);
	if (!lp_nccl_is_emulating()) return;
	if (strcmp(lp_mode.fill, "numbers") == 0) {
		repeat_shard(call, size);
		return;
	}
	for (int r = 0; r < call->group->ranks; r++)
		if (r != rank) fill_on_stream(call, shard_at(call->to, size, r), size);
}

static void apply_own_contribution(const lp_nccl_call *call) {
	size_t size = call->count * (size_t)call->element;
	int rank = call->group->rank;
	bool root = rank == call->peer;
	switch (call->what) {
	case LK_WHAT_ALLREDUCE: copy_on_stream(call, call->to, call->from, size); break;
	case LK_WHAT_REDUCE:
		if (root) copy_on_stream(call, call->to, call->from, size);
		break;
	case LK_WHAT_BROADCAST: /* ncclBcast has one buffer; the present content (weights, say) is as
	                           good as what others would send */
		if (root) copy_on_stream(call, call->to, call->from, size);
		else if (call->from && call->from != call->to) fill_on_stream(call, call->to, size);
		break;
	case LK_WHAT_ALLGATHER: assemble_shards(call, call->from, size); break;
	case LK_WHAT_GATHER:
		if (root) assemble_shards(call, call->from, size);
		break;
	case LK_WHAT_REDUCESCATTER:
		copy_on_stream(call, call->to, shard_at(call->from, size, rank), size);
		break;
	case LK_WHAT_ALLTOALL: assemble_shards(call, shard_at(call->from, size, rank), size); break;
	case LK_WHAT_SCATTER:
		if (root) copy_on_stream(call, call->to, shard_at(call->from, size, rank), size);
		else fill_on_stream(call, call->to, size);
		break;
	case LK_WHAT_RECV: fill_on_stream(call, call->to, size); break;
	default: break;
	}
}

/* ---- null ---- */

/* How often this call occurred before on its communicator; calls that do not fit into the table
 * count as first calls. All members fill their tables alike: NCCL requires the same calls and sizes
 * on all. */
static uint64_t count_earlier_calls(lp_nccl_call *call) {
	enum { PLACES = sizeof call->group->calls / sizeof *call->group->calls };
	uint64_t key = (uint64_t)call->bytes << 8 | (uint64_t)call->what << 1 | 1;
	for (unsigned i = 0; i < PLACES; i++) {
		if (call->group->calls[i].key == 0) call->group->calls[i].key = key;
		if (call->group->calls[i].key == key) return call->group->calls[i].count++;
	}
	return 0;
}

static bool leaves_out_collective(lp_nccl_call *call) {
	if (lp_mode.kind != LP_MODE_NULL || !call->group || call->group->rank < 0) return false;
	if (!lp_null_skips((lk_comm_what)call->what, call->bytes, count_earlier_calls(call)))
		return false;
	__atomic_fetch_add(&lp_state.recorder.head->left_out, 1, __ATOMIC_RELAXED);
	return true;
}

bool lp_nccl_replaces(lp_nccl_call *call) {
	if (LP_HOT(lp_mode.kind == LP_MODE_RECORD)) return false;
	bool emulated = lp_nccl_find_emulated(call->comm) != NULL;
	if (!emulated && !leaves_out_collective(call)) return false;
	find_copy_functions();
	if (call->group) apply_own_contribution(call);
	call->result = 0;
	return true;
}
