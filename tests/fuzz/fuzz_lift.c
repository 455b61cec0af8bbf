/* fuzz_lift.c: any events of any ranks are lifted to a graph that is legal and runs to its end, or
 * to an error; the parts of the critical path add up to it; any changes of the graph give an answer
 * or an error. The first byte says how many ranks and which change; then four bytes are an event:
 * rank, kind and lane; name and group; time since the one before; duration and correlation. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "explain/explain.h"
#include "step/traced.h"
#include "whatif/whatif.h"
#include "trace/lift/lift.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_RANKS = 3, MOST_BYTES = 4096 };

static const char *const host_names[] = {"aten::mm",
                                         "autograd::engine::evaluate_function: X",
                                         "Optimizer.step#SGD.step",
                                         "ProfilerStep#1",
                                         "enumerate(DataLoader)#It.__next__",
                                         "ProfilerStep#2",
                                         "aten::copy_",
                                         "c10d::allreduce_"};
static const char *const call_names[] = {
	"cudaLaunchKernel",      "cudaStreamWaitEvent",  "cudaDeviceSynchronize", "cudaMemcpyAsync",
	"cudaStreamSynchronize", "cudaEventSynchronize", "cudaEventRecord",       "cudaGraphLaunch"};
static const char *const work_names[] = {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)",
                                         "volta_sgemm_128x64_nn",
                                         "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
                                         "Memcpy HtoD (Pageable -> Device)",
                                         "elementwise",
                                         "ncclDevKernel_Generic",
                                         "Memset (Device)",
                                         "flash_fwd_kernel"};
static const char *const sets[] = {
	"overlap=on",    "remove:*gemm*", "op:*=0x",          "scale=2",
	"launch=graphs", "bucket=1MB",    "data-loading=off", "host=0.5x",
	"dtype=fp8",     "batch=2x",      "straggler=0:1.5x", "fused-optimizer=on",
	"remove:*",      "nic=2x",        "op:host=3x",       "gpu=h200"};

/* Mostly small steps; some of the largest and smallest times there are. */
static int64_t span(uint8_t byte) {
	return byte < 250    ? (int64_t)byte * byte * 37
	       : byte == 250 ? -5
	                     : INT64_MAX / 300 * (byte - 250);
}

static _Noreturn void broken(const lk_error *err) {
	fprintf(stderr, "%s: %s\n", err->where, err->what);
	abort();
}

static void add_notes(lk_capture *capture, uint32_t event, lk_event_kind kind,
                      const uint8_t *byte) {
	uint32_t lanes = (uint32_t)capture->lanes.count;
	if (kind == LK_EVENT_KERNEL && byte[1] >> 6 && lk_push(&capture->comms))
		*lk_last(&capture->comms) = (lk_comm_note){
			.event = event,
			.kind = (uint8_t)(LK_OP_ALLREDUCE + byte[1] % 8),
			.element_bytes = 4,
			.group = lk_intern_id(capture->names, byte[1] >> 7 ? "0" : "1"),
			.ranks = lk_intern_id(capture->names, byte[1] >> 7 ? "[0, 1, 2]" : "[0, 1]"),
			.group_size = byte[1] >> 7 ? 3 : 2,
			.peer = byte[1] & 8 ? 1 : -1,
			.in_elements = byte[1] & 15,
			.out_elements = byte[1] & 15};
	if ((kind == LK_EVENT_RUNTIME && byte[1] >> 6) || kind == LK_EVENT_SYNC) {
		if (!lk_push(&capture->syncs)) abort();
		*lk_last(&capture->syncs) =
			(lk_sync_note){.event = event,
		                   .kind = byte[1] >> 4 & 3,
		                   .stream = byte[1] & 64 ? byte[2] % lanes : LK_NONE,
		                   .on = byte[1] & 128 ? byte[3] % lanes : LK_NONE,
		                   .record = byte[3] & 31};
	}
}

static void add_event(lk_capture *capture, const uint8_t *byte, int64_t *now) {
	lk_event_kind kind = (lk_event_kind)((byte[0] >> 2 & 7) % LK_EVENT_KINDS);
	const char *const *names = lk_event_on_device(kind)   ? work_names
	                           : kind == LK_EVENT_RUNTIME ? call_names
	                                                      : host_names;
	if (__builtin_add_overflow(*now, span(byte[2]), now)) *now = INT64_MAX;
	bool device = lk_event_on_device(kind) || kind == LK_EVENT_SYNC;
	lk_event event = {
		.kind = kind,
		.start_ns = *now,
		.dur_ns = span((uint8_t)(byte[3] & 31 ? byte[3] : byte[1])),
		.name = lk_intern_id(capture->names, names[byte[1] & 7]),
		.lane = lk_capture_lane(capture, device, 0, (byte[0] >> 5) * (byte[1] & 32 ? 5 : 1)),
		.correlation = kind == LK_EVENT_RUNTIME || device ? byte[3] & 31 : 0};
	if (kind == LK_EVENT_OP && byte[1] & 16)
		event.shape = lk_intern_id(capture->names, "[[64, 32], [32, 16]]");
	if (kind == LK_EVENT_OP && byte[1] & 16)
		event.types = lk_intern_id(capture->names, "[\"float\", \"float\"]");
	uint32_t number = lk_capture_add(capture, &event);
	if (number == LK_NONE) abort();
	add_notes(capture, number, kind, byte);
}

static lk_traces *make(const uint8_t *data, size_t size, uint32_t ranks) {
	lk_capture *captures[MOST_RANKS];
	int64_t now[MOST_RANKS] = {0};
	lk_traces *traces = NULL;
	for (uint32_t r = 0; r < ranks; r++) {
		if (!(captures[r] = lk_capture_new("x", "bytes"))) abort();
		captures[r]->rank = (int32_t)r;
	}
	for (size_t i = 0; i + 4 <= size; i += 4)
		add_event(captures[(data[i] & 3) % ranks], data + i, &now[(data[i] & 3) % ranks]);
	for (uint32_t r = 0; r < ranks; r++)
		if (lk_capture_finish(captures[r], NULL) != LK_OK) abort();
	return lk_traces_make(captures, ranks, &traces, NULL) == LK_OK ? traces : NULL;
}

/* Operations stand in order of their dependencies; pieces of a thread that become operations are
 * each of one only. */
static void check_rank(const lk_lifted_rank *rank) {
	for (uint32_t i = 0; i < rank->ops.count; i++) {
		const lk_lifted_op *op = &rank->ops.at[i];
		if (op->stream >= LK_STREAMS || op->piece_begin > op->piece_end ||
		    op->piece_end > rank->pieces.count)
			abort();
		if (op->end_ns < op->start_ns || lk_lifted_own(rank, i) < 0) abort();
		for (uint32_t d = op->dep_begin; d < op->dep_end; d++)
			if (rank->deps.at[d] >= i) abort();
		for (uint32_t p = op->piece_begin; p < op->piece_end; p++)
			if (rank->pieces.at[p].dur_ns < 0) abort();
	}
	if (rank->end >= rank->ops.count || rank->ops.at[rank->end].what != LK_LIFTED_END) abort();
}

/* Simulated with its own times every operation runs once what it waits for is over, or ranks wait
 * for one another: that is said. */
static bool run(const lk_lifted *lifted) {
	lk_arena arena = LK_ARENA_INIT;
	lk_error err = {0};
	lk_ran **ran;
	lk_status status = lk_lifted_run(&arena, lifted, &ran, &err);
	if (status != LK_OK && !strstr(err.what, "wait") && !strstr(err.what, "46 days")) broken(&err);
	for (uint32_t r = 0; status == LK_OK && r < lifted->traces->count; r++) {
		const lk_lifted_rank *rank = &lifted->rank[r];
		for (uint32_t i = 0; i < rank->ops.count; i++) {
			if (ran[r][i].end_ps < ran[r][i].start_ps || ran[r][i].start_ps < lifted->begin_ps[r])
				abort();
			for (uint32_t d = rank->ops.at[i].dep_begin; d < rank->ops.at[i].dep_end; d++)
				if (ran[r][rank->deps.at[d]].end_ps > ran[r][i].end_ps) abort();
		}
		lk_device_use use;
		if (lk_lifted_use(lifted, ran[r], r, &use, &err) != LK_OK || use.idle < 0 ||
		    use.exposed < 0)
			abort();
	}
	lk_arena_free(&arena);
	return status == LK_OK;
}

/* A chain without gaps, whose parts add up to its length, `most_ns` at most. */
static double check_chain(const lk_lifted *lifted, int64_t most_ns) {
	lk_critical_chain chain;
	lk_error err = {0};
	double sum = 0;
	lk_status status = lk_critical_find(lifted, NULL, most_ns, &chain, &err);
	if (status == LK_ERR_INPUT) return 0;
	if (status != LK_OK || chain.length_ns > (double)most_ns) abort();
	for (int k = 0; k < LK_CRITICALS; k++) sum += chain.ns[k];
	if (fabs(sum - chain.length_ns) > 1 + 1e-9 * chain.length_ns) abort();
	for (size_t i = 1; i < chain.ops.count; i++)
		if (chain.ops.at[i].start_ns != chain.ops.at[i - 1].end_ns) abort();
	lk_critical_free(&chain);
	return sum;
}

static void check_path(const lk_lifted *lifted) {
	check_chain(lifted, (int64_t)(check_chain(lifted, INT64_C(1) << 60) / 2));
}

static void predict(const lk_lifted *lifted) {
	lk_step_times *times = lk_step_times_new();
	lk_retimed retimed;
	if (!times || lk_step_times_add(times, &lifted->rank[0], 0, NULL) != LK_OK) abort();
	if (lk_step_times_predict(times, &lifted->rank[0], NULL, LK_NONE, &retimed, NULL) != LK_OK)
		abort();
	for (uint32_t i = 0; i < lifted->rank[0].ops.count; i++)
		if (retimed.ns[i] < 0) abort();
	lk_retimed_free(&retimed);
	lk_step_times_free(times);
}

static void change(const lk_lifted *lifted, uint8_t which) {
	lk_arena arena = LK_ARENA_INIT;
	lk_whatif_site site = {0};
	lk_whatif_base *base = NULL;
	lk_error err = {0};
	double seconds;
	if (lk_cluster_simple(&arena, lk_device_find("a100-sxm-80"), MOST_RANKS, 0, 0, &site.cluster,
	                      &err) != LK_OK)
		abort();
	if (lk_whatif_begin(lifted->graph, &site, &base, &err) != LK_OK) broken(&err);
	if (lk_whatif_worth(base, &sets[which % 16], 1, &seconds, &err) == LK_OK ? !isfinite(seconds)
	                                                                         : !err.what[0])
		abort();
	if (lk_whatif_worth(base, &sets[which / 16], 1, &seconds, &err) == LK_OK ? !isfinite(seconds)
	                                                                         : !err.what[0])
		abort();
	lk_whatif_end(base);
	lk_arena_free(&arena);
}

static void lift(const lk_traces *traces, uint32_t step, bool changes, uint8_t which) {
	lk_lifted *lifted;
	lk_error err = {0};
	if (lk_lift(traces, step, LK_NONE, &lifted, &err) != LK_OK) {
		if (!err.what[0]) abort();
		return;
	}
	for (uint32_t r = 0; r < traces->count; r++) check_rank(&lifted->rank[r]);
	if (lk_graph_check(lifted->graph, &err) != LK_OK) broken(&err);
	check_path(lifted);
	predict(lifted);
	if (run(lifted) && changes) change(lifted, which);
	lk_lifted_free(lifted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	if (size < 2 || size > MOST_BYTES) return 0;
	lk_traces *traces = make(data + 2, size - 2, 1 + data[0] % MOST_RANKS);
	if (!traces) return 0;
	/* what takes longest for one of the two */
	lift(traces, LK_NONE, data[0] >> 7, data[1]);
	lift(traces, 0, !(data[0] >> 7), data[1]);
	lk_traces_free(traces);
	return 0;
}
