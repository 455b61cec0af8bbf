/* test_lift_exact.c: whatever a capture shows, its steps, simulated by their own times, take as
 * long as measured. Captures of a machine made here: threads that launch, hand over and
 * synchronise, streams, events, copies, graphs of several branches, queues of any length, work
 * without launch, clocks that disagree; several of them that meet in collectives; and captures of
 * pure chance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/stats.h"
#include "step/traced.h"
#include "trace/lift/lift.h"
#include "rounds.h"

static lk_error err;

#define assert_ok(call)                                                                \
	do {                                                                               \
		char text_[1024];                                                              \
		if ((call) != LK_OK) fail_msg("%s", lk_error_text(&err, text_, sizeof text_)); \
	} while (0)

/* ---- a machine ---- */

enum { THREADS = 3, STREAMS = 6, STEPS = 3, RANKS = 4 };

struct machine {
	uint64_t seed, drawn;
	lk_capture *capture;
	uint32_t thread[THREADS], stream[STREAMS + 1], threads, streams; /* the last one communicates */
	int64_t host[THREADS], device[STREAMS + 1];                      /* until when each is busy */
	int64_t skew_ns;  /* the device's clock, up to this */
	int64_t clock_ns; /* of the rank */
	bool meets;       /* it has other ranks */
	uint32_t correlation;
	bool unlaunched; /* the profiler did not see the runtime */
	int queue;       /* launches that fit; 0: any number */
	LK_VEC(int64_t) over;
};

static int64_t draw(struct machine *machine, int64_t below) {
	return (int64_t)(lk_hash64(machine->seed * 7919 + ++machine->drawn * 104729) % (uint64_t)below);
}

static uint32_t put(struct machine *machine, lk_event_kind kind, uint32_t lane, const char *name,
                    int64_t start, int64_t end, uint32_t correlation) {
	lk_event event = {.kind = kind,
	                  .lane = lane,
	                  .name = lk_intern_id(machine->capture->names, name),
	                  .start_ns = start + machine->clock_ns,
	                  .dur_ns = end - start,
	                  .correlation = correlation};
	uint32_t added = lk_capture_add(machine->capture, &event);
	assert_int_not_equal(added, LK_NONE);
	return added;
}

static void call(struct machine *machine, uint32_t t, const char *name, int64_t dur,
                 uint32_t correlation) {
	if (!machine->unlaunched)
		put(machine, LK_EVENT_RUNTIME, machine->thread[t], name, machine->host[t],
		    machine->host[t] + dur, correlation);
	machine->host[t] += dur;
}

static void work(struct machine *machine, uint32_t s, int64_t ready, int64_t dur, const char *name,
                 lk_event_kind kind, uint32_t correlation) {
	int64_t start = ready > machine->device[s] ? ready : machine->device[s];
	int64_t skew = machine->skew_ns ? draw(machine, machine->skew_ns) : 0;
	start += draw(machine, 8) ? draw(machine, 3000) : draw(machine, 200000);
	put(machine, kind, machine->stream[s], name, start - skew, start + dur - skew,
	    machine->unlaunched ? 0 : correlation);
	machine->device[s] = start + dur;
}

/* A stream takes work in the order of calls, so threads do not share one. */
static uint32_t stream_of(struct machine *machine, uint32_t t) {
	return (uint32_t)draw(machine, machine->streams / machine->threads) * machine->threads + t;
}

static void wait_for_queue(struct machine *machine, uint32_t t) {
	size_t launched = machine->over.count, room = (size_t)machine->queue;
	if (room && launched >= room && machine->over.at[launched - room] > machine->host[t])
		machine->host[t] = machine->over.at[launched - room];
}

static void launched(struct machine *machine, int64_t over) {
	assert_non_null(lk_push(&machine->over));
	*lk_last(&machine->over) = over;
}

static void launch(struct machine *machine, uint32_t t) {
	uint32_t s = stream_of(machine, t), id = ++machine->correlation;
	int64_t start = machine->host[t];
	static const char *const names[] = {"gemm", "elementwise", "ncclDevKernel_AllReduce_Sum_f32"};
	wait_for_queue(machine, t);
	int64_t blocked = machine->host[t] - start;
	machine->host[t] = start;
	call(machine, t, "cudaLaunchKernel", blocked + 2000 + draw(machine, 8000), id);
	work(machine, s, machine->host[t], draw(machine, 60000),
	     names[draw(machine, machine->meets ? 2 : 3)], LK_EVENT_KERNEL, id);
	launched(machine, machine->device[s]);
}

/* Branches on streams; between their parts long waits for one another. */
static void graph(struct machine *machine, uint32_t t) {
	uint32_t id = ++machine->correlation, parts = (uint32_t)draw(machine, 30) + 2;
	int64_t begin = machine->host[t], over = 0;
	call(machine, t, "cudaGraphLaunch", 5000 + draw(machine, 100000), id);
	for (uint32_t part = 0; part < parts; part++) {
		uint32_t s = stream_of(machine, t);
		int64_t ready = begin + 4000;
		for (uint32_t other = 0; other < machine->streams; other++)
			if (!draw(machine, 3) && machine->device[other] > ready) ready = machine->device[other];
		bool fill = !draw(machine, 4);
		work(machine, s, ready, draw(machine, 40000), fill ? "Memset (Device)" : "node",
		     fill ? LK_EVENT_MEMSET : LK_EVENT_KERNEL, id);
		if (machine->device[s] > over) over = machine->device[s];
	}
	launched(machine, over);
}

static void copy(struct machine *machine, uint32_t t) {
	uint32_t s = stream_of(machine, t), id = ++machine->correlation;
	bool waits = draw(machine, 2);
	int64_t begin = machine->host[t];
	work(machine, s, begin + 4000, draw(machine, 50000), "Memcpy HtoD (Pageable -> Device)",
	     LK_EVENT_MEMCPY, id);
	call(machine, t, "cudaMemcpyAsync", (waits ? machine->device[s] - begin : 4000) + 3000, id);
	launched(machine, machine->device[s]);
}

static void synchronize(struct machine *machine, uint32_t t) {
	static const char *const names[] = {"cudaStreamSynchronize", "cudaDeviceSynchronize",
	                                    "cudaEventSynchronize"};
	int64_t which = draw(machine, 3), until = machine->host[t];
	for (uint32_t s = 0; s < machine->streams; s++)
		if ((which == 1 || s == (uint32_t)draw(machine, machine->streams)) &&
		    machine->device[s] > until)
			until = machine->device[s];
	call(machine, t, names[which], until - machine->host[t] + 2000 + draw(machine, 9000),
	     ++machine->correlation);
}

static void stream_wait(struct machine *machine, uint32_t t) {
	uint32_t from = (uint32_t)draw(machine, machine->streams),
			 to = (uint32_t)draw(machine, machine->streams);
	call(machine, t, "cudaStreamWaitEvent", 1000, ++machine->correlation);
	if (machine->device[from] > machine->device[to]) machine->device[to] = machine->device[from];
}

/* An operation of the host with launches and operations inside. */
static void operation(struct machine *machine, uint32_t t, int depth) {
	static const char *const names[] = {"aten::mm", "aten::add",
	                                    "autograd::engine::evaluate_function: X",
	                                    "enumerate(DataLoader)#next"};
	int64_t begin = machine->host[t], parts = draw(machine, 4);
	const char *name = names[draw(machine, 4)];
	for (int64_t part = 0; part < parts; part++) {
		machine->host[t] += draw(machine, 5000);
		switch (draw(machine, 8)) {
		case 0: graph(machine, t); break;
		case 1: copy(machine, t); break;
		case 2: synchronize(machine, t); break;
		case 3: stream_wait(machine, t); break;
		case 4:
			if (depth < 4) operation(machine, t, depth + 1);
			break;
		default: launch(machine, t);
		}
	}
	machine->host[t] += draw(machine, 20000);
	put(machine, LK_EVENT_OP, machine->thread[t], name, begin, machine->host[t], 0);
}

static void step(struct machine *machine, int number, bool marked) {
	int64_t begin = machine->host[0];
	char name[32];
	for (int i = 0; i < 25; i++) {
		uint32_t t = (uint32_t)draw(machine, machine->threads);
		if (!draw(machine, 6)) { /* handed over: forward to backward */
			uint32_t by = (uint32_t)draw(machine, machine->threads);
			if (machine->host[by] > machine->host[t]) machine->host[t] = machine->host[by];
		}
		machine->host[t] += draw(machine, 10) ? draw(machine, 9000) : draw(machine, 900000);
		operation(machine, t, 0);
	}
	machine->host[0] += draw(machine, 50000);
	snprintf(name, sizeof name, "ProfilerStep#%d", number);
	if (marked) put(machine, LK_EVENT_NOTE, machine->thread[0], name, begin, machine->host[0], 0);
}

static lk_capture *run_machine(uint64_t seed, bool *marked) {
	struct machine machine = {.seed = seed, .capture = lk_capture_new("made", "made")};
	assert_non_null(machine.capture);
	machine.threads = 1 + (uint32_t)draw(&machine, THREADS);
	machine.streams = machine.threads * (1 + (uint32_t)draw(&machine, STREAMS / THREADS));
	machine.unlaunched = !draw(&machine, 6);
	machine.skew_ns = draw(&machine, 2) ? 0 : 2000;
	machine.queue = draw(&machine, 2) ? 0 : 16;
	*marked = draw(&machine, 4);
	for (uint32_t t = 0; t < machine.threads; t++)
		machine.thread[t] = lk_capture_lane(machine.capture, false, 1, t + 1);
	for (uint32_t s = 0; s < machine.streams; s++)
		machine.stream[s] = lk_capture_lane(machine.capture, true, 0, s + 7);
	for (int number = 0; number < STEPS; number++) step(&machine, number, *marked);
	lk_vec_free(&machine.over);
	assert_ok(lk_capture_finish(machine.capture, &err));
	return machine.capture;
}

/* All ranks' next collective: it ends for all together, but for what clocks differ. */
static void meet(struct machine *machines, uint32_t ranks, uint32_t correlation) {
	int64_t start[RANKS], last = 0, dur = 5000 + draw(&machines[0], 90000);
	for (uint32_t r = 0; r < ranks; r++) {
		struct machine *machine = &machines[r];
		call(machine, 0, "cudaLaunchKernel", 3000 + draw(machine, 5000), correlation);
		start[r] = machine->host[0] + 3000 + draw(machine, 9000);
		if (machine->device[STREAMS] > start[r]) start[r] = machine->device[STREAMS] + 1000;
		if (start[r] > last) last = start[r];
	}
	for (uint32_t r = 0; r < ranks; r++) {
		struct machine *machine = &machines[r];
		int64_t end = last + dur + draw(machine, 2000);
		uint32_t event = put(machine, LK_EVENT_KERNEL, machine->stream[STREAMS],
		                     "ncclDevKernel_AllReduce_Sum_f32_RING_LL", start[r], end, correlation);
		machine->device[STREAMS] = end;
		assert_non_null(lk_push(&machine->capture->comms));
		*lk_last(&machine->capture->comms) =
			(lk_comm_note){.event = event,
		                   .kind = LK_OP_ALLREDUCE,
		                   .element_bytes = 4,
		                   .group_size = (int32_t)ranks,
		                   .group = lk_intern_id(machine->capture->names, "0"),
		                   .peer = -1,
		                   .in_elements = dur,
		                   .out_elements = dur};
	}
}

static void start_machine(struct machine *machine, uint64_t seed, int32_t rank) {
	*machine = (struct machine){.seed = seed, .capture = lk_capture_new("made", "made")};
	assert_non_null(machine->capture);
	machine->capture->rank = rank;
	machine->capture->absolute = true;
	machine->meets = true;
	machine->threads = 1 + (uint32_t)draw(machine, THREADS);
	machine->streams = machine->threads * (1 + (uint32_t)draw(machine, STREAMS / THREADS));
	machine->clock_ns = draw(machine, 1000000);
	for (uint32_t t = 0; t < machine->threads; t++)
		machine->thread[t] = lk_capture_lane(machine->capture, false, 1, t + 1);
	for (uint32_t s = 0; s <= STREAMS; s++)
		machine->stream[s] = lk_capture_lane(machine->capture, true, 0, s + 7);
	for (uint32_t t = 0; t < THREADS; t++) machine->host[t] = draw(machine, 3000000);
}

static lk_traces *run_machines(uint64_t seed, uint32_t ranks) {
	struct machine machines[RANKS];
	lk_capture *captures[RANKS];
	lk_traces *traces = NULL;
	uint32_t correlation = 1u << 20;
	for (uint32_t r = 0; r < ranks; r++) start_machine(&machines[r], seed * RANKS + r, (int32_t)r);
	for (int number = 0; number < STEPS; number++) {
		int64_t begin[RANKS];
		for (uint32_t r = 0; r < ranks; r++) begin[r] = machines[r].host[0];
		for (int i = 0; i < 8; i++) {
			for (uint32_t r = 0; r < ranks; r++) {
				machines[r].host[0] += draw(&machines[r], 300000);
				operation(&machines[r], (uint32_t)draw(&machines[r], machines[r].threads), 0);
			}
			meet(machines, ranks, ++correlation);
		}
		for (uint32_t r = 0; r < ranks; r++) {
			char name[32];
			snprintf(name, sizeof name, "ProfilerStep#%d", number);
			if (draw(&machines[r], 2) && machines[r].device[STREAMS] > machines[r].host[0])
				call(&machines[r], 0, "cudaDeviceSynchronize",
				     machines[r].device[STREAMS] - machines[r].host[0] + 5000, ++correlation);
			put(&machines[r], LK_EVENT_NOTE, machines[r].thread[0], name, begin[r],
			    machines[r].host[0], 0);
		}
	}
	for (uint32_t r = 0; r < ranks; r++) {
		lk_vec_free(&machines[r].over);
		captures[r] = machines[r].capture;
		assert_ok(lk_capture_finish(captures[r], &err));
	}
	assert_ok(lk_traces_make(captures, ranks, &traces, &err));
	return traces;
}

/* ---- what comes out ---- */

static void check_step(const lk_traces *traces, uint32_t number, uint64_t seed, int64_t most_ns) {
	lk_lifted *lifted = NULL;
	lk_arena arena = LK_ARENA_INIT;
	lk_ran **ran;
	assert_ok(lk_lift(traces, number, LK_NONE, &lifted, &err));
	assert_ok(lk_graph_check(lifted->graph, &err));
	assert_ok(lk_lifted_run(&arena, lifted, &ran, &err));
	for (uint32_t r = 0; r < traces->count; r++) {
		const lk_lifted_rank *rank = &lifted->rank[r];
		int64_t measured = rank->to_ns - rank->from_ns,
				simulated = lk_lifted_step_ps(lifted, ran[r], r) / 1000;
		if (llabs(simulated - measured) > most_ns)
			fail_msg("captures %llu, rank %u, step %u: measured %lld ns, simulated %lld",
			         (unsigned long long)seed, r, number, (long long)measured,
			         (long long)simulated);
		for (uint32_t i = 0; i < rank->ops.count; i++) {
			const lk_lifted_op *op = &rank->ops.at[i];
			/* work takes no longer than its event, however long it waited */
			if (op->what != LK_LIFTED_DEVICE) continue;
			assert_true(lk_lifted_own(rank, i) <= rank->capture->dur_ns[op->event]);
		}
	}
	lk_arena_free(&arena);
	lk_lifted_free(lifted);
}

static void check_traces(lk_traces *traces, uint64_t seed, int64_t most_ns) {
	lk_capture_steps steps = {0};
	assert_ok(lk_capture_find_steps(traces->capture[0], &steps, &err));
	for (uint32_t number = 0; number < steps.count; number++)
		check_step(traces, number, seed, most_ns);
	lk_vec_free(&steps);
	lk_traces_free(traces);
}

static void check_capture(lk_capture *capture, uint64_t seed, int64_t most_ns) {
	lk_traces *traces = NULL;
	assert_ok(lk_traces_make(&capture, 1, &traces, &err));
	check_traces(traces, seed, most_ns);
}

static void test_ranks(void **state) {
	(void)state;
	uint64_t runs = (uint64_t)rounds(100, 2000);
	for (uint64_t seed = 1; seed <= runs; seed++) {
		lk_traces *traces = run_machines(seed, 2 + (uint32_t)(seed % (RANKS - 1)));
		assert_int_equal(traces->matches.count, STEPS * 8);
		check_traces(traces, seed, 3100 + 3 * (int64_t)traces->residual_ns);
	}
}

static void test_machines(void **state) {
	(void)state;
	uint64_t captures = (uint64_t)rounds(400, 6000);
	for (uint64_t seed = 1; seed <= captures; seed++) {
		bool marked;
		lk_capture *capture = run_machine(seed, &marked);
		check_capture(capture, seed, 3100);
	}
}

/* Anything at any time. */
static void test_chance(void **state) {
	(void)state;
	static const char *const names[] = {"aten::mm",
	                                    "cudaLaunchKernel",
	                                    "cudaStreamSynchronize",
	                                    "cudaStreamWaitEvent",
	                                    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
	                                    "cudaMemcpyAsync",
	                                    "ProfilerStep#1",
	                                    "enumerate(DataLoader)#x",
	                                    "cudaDeviceSynchronize",
	                                    "cudaEventSynchronize"};
	uint64_t captures = (uint64_t)rounds(400, 6000);
	for (uint64_t seed = 1; seed <= captures; seed++) {
		struct machine machine = {.seed = seed, .capture = lk_capture_new("made", "made")};
		assert_non_null(machine.capture);
		for (uint32_t i = 0; i < 2; i++) {
			machine.thread[i] = lk_capture_lane(machine.capture, false, 1, i + 1);
			machine.stream[i] = lk_capture_lane(machine.capture, true, 0, i + 7);
		}
		for (int i = 0; i < 120; i++) {
			lk_event_kind kind = (lk_event_kind)draw(&machine, LK_EVENT_SYNC);
			int64_t which = draw(&machine, 2), start = draw(&machine, 2000000);
			put(&machine, kind,
			    lk_event_on_device(kind) ? machine.stream[which] : machine.thread[which],
			    names[draw(&machine, 10)], start, start + draw(&machine, 300000),
			    (uint32_t)draw(&machine, 40));
		}
		assert_ok(lk_capture_finish(machine.capture, &err));
		check_capture(machine.capture, seed, 3100);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_machines),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_chance),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
