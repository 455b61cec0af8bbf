/* nccl_mode.c: what stands between a program and NCCL: null, as-rank, delay.
 *
 * What a collective would leave in this rank's buffers without the others is done on the stream:
 * its own contribution, its own shard; in as-rank what others would send is filled in. So the order
 * of the program's work stays as it is. */
#include "recorder/gpu/gpu.h"

#include <string.h>
#include <time.h>

enum {
	ANY_DIRECTION = 4,
	SMALL_NUMBERS = 0x3c
};

static struct {
	int (*copy)(void *, const void *, size_t, int, void *), (*set)(void *, int, size_t, void *);
	int (*host)(void *, void (*)(void *), void *);
} below;

static void find_below(void) {
	if (below.copy) return;
	below.set = (int (*)(void *, int, size_t, void *))(uintptr_t)lp_gpu_symbol("cudaMemsetAsync");
	below.host =
		(int (*)(void *, void (*)(void *), void *))(uintptr_t)lp_gpu_symbol("cudaLaunchHostFunc");
	below.copy = (int (*)(void *, const void *, size_t, int, void *))(uintptr_t)lp_gpu_symbol(
		"cudaMemcpyAsync");
}

/* ---- delay ---- */

static void sleep_so_long(void *unused) {
	(void)unused;
	struct timespec t = {(time_t)(lp_state.delay_ns / 1000000000),
	                     (long)(lp_state.delay_ns % 1000000000)};
	nanosleep(&t, NULL);
}

void lp_nccl_hold(void *stream) {
	if (LP_HOT(lp_state.delay_ns == 0)) return;
	find_below();
	if (!below.host || below.host(stream, sleep_so_long, NULL) != 0) sleep_so_long(NULL);
}

/* ---- own contribution ---- */

static void copy(const lp_nccl_call *call, void *to, const void *from, size_t size) {
	if (size && to && from && to != from && below.copy)
		below.copy(to, from, size, ANY_DIRECTION, call->stream);
}

/* What others would have sent. */
static void fill(const lp_nccl_call *call, void *to, size_t size) {
	bool zeros = strcmp(lp_mode.fill, "random") != 0;
	if (size && to && lp_nccl_poses() && below.set)
		below.set(to, zeros ? 0 : SMALL_NUMBERS, size, call->stream);
}

static void *place(const void *buffer, size_t size, int rank) {
	return buffer && rank >= 0 ? (char *)(uintptr_t)buffer + size * (size_t)rank : NULL;
}

/* All ranks' shards, of which one is known. */
static void assemble(const lp_nccl_call *call, const void *own, size_t size) {
	int rank = call->group->rank;
	bool in_place = place(call->to, size, rank) == own;
	for (int r = 0; r < call->group->ranks && !in_place; r++)
		if (r != rank) fill(call, place(call->to, size, r), size);
	copy(call, place(call->to, size, rank), own, size);
}

static void do_own(const lp_nccl_call *call) {
	size_t size = call->count * (size_t)call->element;
	int rank = call->group->rank;
	bool root = rank == call->peer;
	switch (call->what) {
	case LK_WHAT_ALLREDUCE: copy(call, call->to, call->from, size); break;
	case LK_WHAT_REDUCE:
		if (root) copy(call, call->to, call->from, size);
		break;
	case LK_WHAT_BROADCAST: /* ncclBcast has one buffer; what is there is as good as what others
	                           have there, weights say */
		if (root) copy(call, call->to, call->from, size);
		else if (call->from && call->from != call->to) fill(call, call->to, size);
		break;
	case LK_WHAT_ALLGATHER: assemble(call, call->from, size); break;
	case LK_WHAT_GATHER:
		if (root) assemble(call, call->from, size);
		break;
	case LK_WHAT_REDUCESCATTER: copy(call, call->to, place(call->from, size, rank), size); break;
	case LK_WHAT_ALLTOALL: assemble(call, place(call->from, size, rank), size); break;
	case LK_WHAT_SCATTER:
		if (root) copy(call, call->to, place(call->from, size, rank), size);
		else fill(call, call->to, size);
		break;
	case LK_WHAT_RECV: fill(call, call->to, size); break;
	default: break;
	}
}

/* ---- null ---- */

/* How often this call came before on its communicator; what finds no place has come never, for
 * ever. All members fill their tables alike: NCCL demands that calls and sizes are the same on all.
 */
static uint64_t counted(lp_nccl_call *call) {
	enum {
		PLACES = sizeof call->group->calls / sizeof *call->group->calls
	};
	uint64_t key = (uint64_t)call->bytes << 8 | (uint64_t)call->what << 1 | 1;
	for (unsigned i = 0; i < PLACES; i++) {
		if (call->group->calls[i].key == 0) call->group->calls[i].key = key;
		if (call->group->calls[i].key == key) return call->group->calls[i].count++;
	}
	return 0;
}

static bool leaves_out(lp_nccl_call *call) {
	if (lp_mode.kind != LP_MODE_NULL || !call->group || call->group->rank < 0) return false;
	if (!lp_null_skips((lk_comm_what)call->what, call->bytes, counted(call))) return false;
	__atomic_fetch_add(&lp_state.recorder.head->left_out, 1, __ATOMIC_RELAXED);
	return true;
}

bool lp_nccl_stands_in(lp_nccl_call *call) {
	if (LP_HOT(lp_mode.kind == LP_MODE_RECORD)) return false;
	bool poses = lp_nccl_posed_find(call->comm) != NULL;
	if (!poses && !leaves_out(call)) return false;
	find_below();
	if (call->group) do_own(call);
	call->result = 0;
	return true;
}
