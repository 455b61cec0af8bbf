/* test_compose_device.c: jobs from recordings of single processes with a device: order of streams,
 * events and waits, NCCL beside kernels, groups of calls, where a step can be reckoned by hand. */
#include <limits.h>
#include <math.h>

#include "base/arena.h"
#include "io/recording.h"
#include "cost/collective/collective.h"
#include "lockstep/compose.h"
#include "scratch.h"

enum { MB = 1 << 20, STEPS = 6, FIRST_GROUP = 1 << 20 };
static const int64_t MS = 1000000, GB = INT64_C(1) << 30;
enum { NCCL = 1, CUDA, MEMCPY, MPI };

/* ---- recordings ---- */

struct writer {
	lk_recorder r;
	lk_record_place place, other; /* of two threads */
	bool elsewhere;               /* the next calls are of the other one */
	int64_t now;
	uint64_t serial;
};

static void text(struct writer *writer, lk_record_entry head, lk_record_kind kind,
                 const char *said) {
	lk_recorder_text(&writer->r, &writer->place, &head, kind, said, strlen(said));
}

static struct writer *begin(int rank, int world) {
	static const char *const names[] = {NULL, "ncclCall", "cudaCall", "cudaMemcpy",
	                                    "MPI_Allreduce"};
	static struct writer w;
	memset(&w, 0, sizeof w);
	assert_int_equal(lk_recorder_open(&w.r, scratch, 8 * MB, 0), 0);
	w.r.head->rank = rank;
	w.r.head->world = world;
	w.r.head->mode = LK_RECORDED_AS_RANK;
	w.r.head->seen = LK_RECORDED_DEVICE | LK_RECORDED_NCCL;
	w.other.thread = 1;
	for (uint32_t i = 1; i < sizeof names / sizeof *names; i++)
		text(&w, (lk_record_entry){.object = i}, LK_RECORD_NAME, names[i]);
	return &w;
}

static void group(struct writer *writer, uint32_t number, int own, int size, const char *ranks) {
	text(writer, (lk_record_entry){.object = number, .comm = {.peer = size, .tag = own}},
	     LK_RECORD_GROUP, ranks);
}

static void own(struct writer *writer, int64_t ns) {
	writer->now += ns;
}

static lk_record_place *place(struct writer *writer) {
	return writer->elsewhere ? &writer->other : &writer->place;
}

static uint64_t call(struct writer *writer, lk_device_what what, uint32_t name, uint32_t stream,
                     uint64_t serial, int64_t takes) {
	lk_record_entry *entry = lk_recorder_next(&writer->r, place(writer));
	assert_non_null(entry);
	entry->start_ns = writer->now;
	entry->end_ns = writer->now += takes;
	entry->device.what = (uint8_t)what;
	entry->device.call = name;
	entry->device.stream = stream;
	entry->device.count = 1;
	uint64_t own_serial = entry->device.serial = serial ? serial : ++writer->serial;
	lk_recorder_publish(&writer->r, place(writer), entry, LK_RECORD_DEVICE_CALL);
	return own_serial;
}

static void work(struct writer *writer, lk_device_what what, uint32_t stream, uint64_t serial,
                 int64_t takes) {
	lk_record_entry *entry = lk_recorder_next(&writer->r, &writer->place);
	assert_non_null(entry);
	entry->start_ns = writer->now;
	entry->end_ns = writer->now + takes;
	entry->device.what = (uint8_t)what;
	entry->device.stream = stream;
	entry->device.serial = serial;
	entry->device.count = 1;
	lk_recorder_publish(&writer->r, &writer->place, entry, LK_RECORD_DEVICE_WORK);
}

static void kernel(struct writer *writer, uint32_t stream, int64_t takes) {
	work(writer, LK_DEVICE_KERNEL, stream, call(writer, LK_DEVICE_KERNEL, CUDA, stream, 0, 0),
	     takes);
}

static uint64_t event(struct writer *writer, uint32_t stream) {
	return call(writer, LK_DEVICE_RECORD, CUDA, stream, 0, 0);
}
static void stream_waits(struct writer *writer, uint32_t stream, uint64_t of) {
	call(writer, LK_DEVICE_STREAM_WAITS, CUDA, stream, of, 0);
}
/* How long the process waited means nothing. */
static void host_waits(struct writer *writer, uint32_t stream) {
	call(writer, LK_DEVICE_WAIT_STREAM, CUDA, stream, 0, 7 * MS);
}

/* `serial`: of the group of calls. What the process did in its place takes a time that means
 * nothing too. */
static uint64_t nccl(struct writer *writer, uint32_t object, lk_comm_what what, uint32_t stream,
                     int peer, int64_t bytes, uint64_t serial) {
	lk_record_entry *entry = lk_recorder_next(&writer->r, place(writer));
	assert_non_null(entry);
	entry->object = object;
	entry->bytes = bytes;
	entry->start_ns = writer->now;
	entry->end_ns = writer->now += 3 * MS;
	entry->comm.what = (uint8_t)what;
	entry->comm.part = LK_PART_ENQUEUE;
	entry->comm.call = NCCL;
	entry->comm.tag = (int32_t)stream;
	serial = entry->comm.request = serial ? serial : ++writer->serial;
	entry->comm.peer = peer;
	entry->comm.from = -1;
	lk_recorder_publish(&writer->r, place(writer), entry, LK_RECORD_COMM);
	work(writer, LK_DEVICE_COMM, stream, serial, 100 * MS);
	return serial;
}

static void finish(struct writer *writer) {
	writer->r.head->end_ns = writer->now;
	lk_recorder_close(&writer->r);
}

static void empty(void) {
	assert_int_equal(remove_folder(scratch), 0);
	new_folder(scratch);
}

/* ---- asking ---- */

static const char cluster[] = "1 node * 8 h100-sxm";

static lk_status ask(const char *machines, lk_composed **out, lk_error *err) {
	lk_compose_request request;
	lk_compose_defaults(&request);
	request.folder = scratch;
	request.cluster = machines;
	return lk_compose(&request, out, err);
}

static lk_composed *compose(void) {
	lk_composed *composed = NULL;
	lk_error err = {0};
	if (ask(cluster, &composed, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	return composed;
}

static double step_s(void) {
	lk_composed *composed = compose();
	double seconds = composed->step_s;
	lk_compose_free(composed);
	return seconds;
}

static void refuses(const char *machines, const char *what) {
	lk_composed *composed = NULL;
	lk_error err = {0};
	assert_int_not_equal(ask(machines, &composed, &err), LK_OK);
	if (!strstr(err.what, what))
		fail_msg("said \"%s\" of %s, not \"%s\"", err.what, err.where, what);
}

static double nccl_s(lk_coll_kind kind, int ranks, double bytes) {
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster c;
	lk_error err = {0};
	assert_int_equal(lk_cluster_parse(&arena, cluster, &c, &err), LK_OK);
	lk_group_shape shape = {.node = &c.node[0],
	                        .ranks = ranks,
	                        .nodes = 1,
	                        .ranks_per_node = ranks,
	                        .sharing = 1,
	                        .oversubscription = 1};
	double seconds = kind == LK_COLL_SENDRECV
	                     ? lk_p2p_cost(&c.node[0], true, 1, 1, NULL, NULL, bytes).seconds
	                     : lk_collective_cost(kind, &shape, bytes).seconds;
	lk_arena_free(&arena);
	return seconds;
}

static void near(double a, double b) {
	if (!(fabs(a - b) <= 1e-6 * fabs(b))) fail_msg("%.9g is not %.9g", a, b);
}

/* ---- jobs ---- */

/* 20 ms of kernels, then a reduction beside 30 ms of others, then 10 ms that need both; the host
 * waits, and works 1 ms. */
static void overlapping_rank(int rank, int64_t bytes) {
	struct writer *writer = begin(rank, 2);
	group(writer, FIRST_GROUP, rank, 2, "[0, 1]");
	for (int i = 0; i < STEPS; i++) {
		own(writer, MS);
		kernel(writer, 1, 20 * MS);
		stream_waits(writer, 2, event(writer, 1));
		nccl(writer, FIRST_GROUP, LK_WHAT_ALLREDUCE, 2, -1, bytes, 0);
		kernel(writer, 1, 30 * MS);
		stream_waits(writer, 1, event(writer, 2));
		kernel(writer, 1, 10 * MS);
		host_waits(writer, 1);
	}
	finish(writer);
}

static void test_overlap(void **state) {
	(void)state;
	const int64_t sizes[] = {MB, 16 * GB};
	for (int i = 0; i < 2; i++) {
		empty();
		overlapping_rank(0, sizes[i]);
		double moves = nccl_s(LK_COLL_ALLREDUCE, 2, (double)sizes[i]);
		assert_true((moves > 0.030) == (i == 1));
		lk_composed *composed = compose();
		near(composed->step_s, 0.001 + 0.020 + fmax(0.030, moves) + 0.010);
		near(composed->classes[0].parts.device, 0.060);
		near(composed->classes[0].parts.own, 0.001);
		near(composed->classes[0].parts.transfer + 1, fmax(0, moves - 0.030) + 1);
		near(composed->classes[0].device_s, 0.060);
		assert_string_equal(composed->classes[0].stands_for, "0-1");
		assert_int_equal(composed->classes[0].calls, 1);
		lk_compose_free(composed);
	}
}

/* What nothing waits for goes on beside the next step, which its stream waits for where the event
 * says so. */
static void test_beside_next_step(void **state) {
	(void)state;
	double moves = nccl_s(LK_COLL_ALLREDUCE, 2, 16.0 * (double)GB);
	assert_true(moves > 0.040);
	for (int waits = 0; waits < 2; waits++) {
		empty();
		struct writer *writer = begin(0, 2);
		uint64_t last = 0;
		group(writer, FIRST_GROUP, 0, 2, "[0, 1]");
		for (int i = 0; i < STEPS; i++) {
			if (waits && last) stream_waits(writer, 1, last);
			kernel(writer, 1, 40 * MS);
			stream_waits(writer, 2, event(writer, 1));
			nccl(writer, FIRST_GROUP, LK_WHAT_ALLREDUCE, 2, -1, 16 * GB, 0);
			last = event(writer, 2);
		}
		finish(writer);
		near(step_s(), waits ? 0.040 + moves : moves);
	}
}

/* Kernels that the host comes to late; one stream after another only where a wait says so. */
static void test_waits(void **state) {
	(void)state;
	enum { NO_WAIT, EVENT, ALL, COPY, WAYS };
	const double expected[WAYS] = {0.030, 0.035, 0.030 + 0.005 + 0.008, 0.035 + 0.008};
	for (int way = 0; way < WAYS; way++) {
		empty();
		struct writer *writer = begin(0, 1);
		group(writer, FIRST_GROUP, 0, 1, "[0]");
		for (int i = 0; i < STEPS; i++) {
			nccl(writer, FIRST_GROUP, LK_WHAT_ALLREDUCE, 1, -1, 4, 0);
			kernel(writer, 1, 30 * MS);
			uint64_t at = event(writer, 1);
			if (way == EVENT) call(writer, LK_DEVICE_WAIT_EVENT, CUDA, 0, at, MS);
			if (way == ALL) call(writer, LK_DEVICE_WAIT_ALL, CUDA, 0, 0, MS);
			if (way == COPY)
				work(writer, LK_DEVICE_COPY, 1, call(writer, LK_DEVICE_COPY, MEMCPY, 1, 0, 9 * MS),
				     5 * MS);
			if (way == EVENT) own(writer, 5 * MS);
			if (way == ALL) {
				own(writer, 5 * MS);
				kernel(writer, 2, 8 * MS);
				host_waits(writer, 2);
			}
			if (way == COPY) own(writer, 8 * MS);
		}
		finish(writer);
		near(step_s(), expected[way]);
	}
}

/* A launch that comes late, and what a call itself takes, are the host's. */
static void test_host_bound(void **state) {
	(void)state;
	empty();
	struct writer *writer = begin(0, 1);
	group(writer, FIRST_GROUP, 0, 1, "[0]");
	for (int i = 0; i < STEPS; i++) {
		nccl(writer, FIRST_GROUP, LK_WHAT_ALLREDUCE, 1, -1, 4, 0);
		for (int k = 0; k < 4; k++) {
			uint64_t serial = call(writer, LK_DEVICE_KERNEL, CUDA, 1, 0, 2 * MS);
			call(writer, LK_DEVICE_KERNEL, CUDA, 1, serial,
			     3 * MS); /* the same batch, told as two calls */
			work(writer, LK_DEVICE_KERNEL, 1, serial, MS);
		}
	}
	finish(writer);
	lk_composed *composed = compose();
	near(composed->step_s, 4 * 0.005);
	near(composed->classes[0].device_s, 0.004);
	lk_compose_free(composed);
}

/* The backward pass is another thread's, as PyTorch has it. */
static void test_threads(void **state) {
	(void)state;
	empty();
	struct writer *writer = begin(0, 2);
	group(writer, FIRST_GROUP, 0, 2, "[0, 1]");
	for (int i = 0; i < STEPS; i++) {
		own(writer, MS);
		kernel(writer, 1, 10 * MS);
		writer->elsewhere = true;
		own(writer, MS);
		kernel(writer, 1, 20 * MS);
		stream_waits(writer, 2, event(writer, 1));
		nccl(writer, FIRST_GROUP, LK_WHAT_ALLREDUCE, 2, -1, 4, 0);
		uint64_t done = event(writer, 2);
		writer->elsewhere = false;
		own(writer, 1);
		stream_waits(writer, 1, done);
		host_waits(writer, 1);
	}
	finish(writer);
	near(step_s(), 0.001 + 0.030 + nccl_s(LK_COLL_ALLREDUCE, 2, 4));
}

/* ---- messages ---- */

/* A ring in which each sends before it receives: only together can these go. */
static void test_ring(void **state) {
	(void)state;
	empty();
	struct writer *writer = begin(1, 4);
	group(writer, FIRST_GROUP, 1, 4, "[0, 1, 2, 3]");
	for (int i = 0; i < STEPS; i++) {
		kernel(writer, 1, 10 * MS);
		uint64_t serial = nccl(writer, FIRST_GROUP, LK_WHAT_SEND, 1, 2, 64 * MB, 0);
		nccl(writer, FIRST_GROUP, LK_WHAT_RECV, 1, 0, 64 * MB, serial);
		host_waits(writer, 1);
	}
	finish(writer);
	lk_composed *composed = compose();
	near(composed->step_s, 0.010 + nccl_s(LK_COLL_SENDRECV, 2, 64 * MB));
	assert_string_equal(composed->classes[0].stands_for, "0-3");
	lk_compose_free(composed);
}

/* Everybody to everybody, in whatever order they are called: one after another on each rank's way
 * out and in. */
static void test_all_to_all(void **state) {
	(void)state;
	empty();
	for (int rank = 0; rank < 6; rank++) {
		struct writer *writer = begin(rank, 6);
		group(writer, FIRST_GROUP, rank, 6, "[0, 1, 2, 3, 4, 5]");
		for (int i = 0; i < STEPS; i++) {
			uint64_t serial = 0;
			for (int k = 0; k < 6; k++) {
				int peer = rank % 2 ? k : 5 - k;
				serial = nccl(writer, FIRST_GROUP, rank % 3 ? LK_WHAT_SEND : LK_WHAT_RECV, 1, peer,
				              MB, serial);
				nccl(writer, FIRST_GROUP, rank % 3 ? LK_WHAT_RECV : LK_WHAT_SEND, 1, peer, MB,
				     serial);
			}
			host_waits(writer, 1);
		}
		finish(writer);
	}
	near(step_s(), 5 * nccl_s(LK_COLL_SENDRECV, 2, MB));
}

/* Stages of a pipeline: a message holds its stream until it has come. */
static void test_pipeline(void **state) {
	(void)state;
	empty();
	for (int rank = 0; rank < 4; rank += rank ? 2 : 1) { /* 0, 1, 3 of stages 0 to 3 */
		int stage = rank;
		struct writer *writer = begin(stage, 4);
		group(writer, FIRST_GROUP, stage, 4, "[0:3:1]");
		for (int i = 0; i < STEPS; i++) {
			if (stage) nccl(writer, FIRST_GROUP, LK_WHAT_RECV, 1, stage - 1, MB, 0);
			kernel(writer, 1, 10 * MS);
			if (stage < 3) nccl(writer, FIRST_GROUP, LK_WHAT_SEND, 1, stage + 1, MB, 0);
			nccl(writer, FIRST_GROUP, LK_WHAT_ALLREDUCE, 1, -1, 4, 0);
			host_waits(writer, 1);
		}
		finish(writer);
	}
	lk_composed *composed = compose();
	assert_string_equal(composed->classes[1].stands_for, "1-2");
	near(composed->step_s,
	     4 * 0.010 + 3 * nccl_s(LK_COLL_SENDRECV, 2, MB) + nccl_s(LK_COLL_ALLREDUCE, 4, 4));
	lk_compose_free(composed);
	empty();
	struct writer *writer = begin(0, 4);
	group(writer, FIRST_GROUP, 0, 4, "[0:3:1]");
	for (int i = 0; i < STEPS; i++) {
		nccl(writer, FIRST_GROUP, LK_WHAT_SEND, 1, 1, MB, 0);
		kernel(writer, 1, MS);
	}
	finish(writer);
	refuses(cluster, "no recording has the peers");
}

/* Parts of the world go on as the recorded one begins: blocks of two and rows of four; MPI beside.
 */
static void test_parts(void **state) {
	(void)state;
	empty();
	struct writer *writer = begin(0, 8);
	group(writer, 1, 0, 8, "[0:7:1]");
	group(writer, FIRST_GROUP, 0, 2, "[0, 1]");
	group(writer, FIRST_GROUP + 1, 0, 4, "[0, 2, 4, 6]");
	for (int i = 0; i < STEPS; i++) {
		kernel(writer, 1, 10 * MS);
		nccl(writer, FIRST_GROUP, LK_WHAT_ALLGATHER, 1, -1, MB, 0);
		nccl(writer, FIRST_GROUP + 1, LK_WHAT_REDUCESCATTER, 1, -1, MB, 0);
		host_waits(writer, 1);
		lk_record_entry *entry = lk_recorder_next(&writer->r, &writer->place);
		entry->object = 1;
		entry->bytes = 8;
		entry->start_ns = writer->now;
		entry->end_ns = writer->now += MS;
		entry->comm.what = LK_WHAT_ALLREDUCE;
		entry->comm.call = MPI;
		entry->comm.peer = -1;
		lk_recorder_publish(&writer->r, &writer->place, entry, LK_RECORD_COMM);
	}
	finish(writer);
	lk_composed *composed = compose();
	double known = 0.010 + nccl_s(LK_COLL_ALLGATHER, 2, MB) + nccl_s(LK_COLL_REDUCESCATTER, 4, MB);
	assert_string_equal(composed->classes[0].stands_for, "0-7");
	assert_true(composed->step_s > known && composed->step_s < known + 0.001);
	lk_compose_free(composed);
}

/* ---- what cannot be ---- */

static void test_refused(void **state) {
	(void)state;
	empty();
	overlapping_rank(0, MB);
	refuses("2 node * 1 cpu", "have no GPUs");
	empty();
	struct writer *writer = begin(0, 2);
	group(writer, FIRST_GROUP, 0, 2, "[0, 1]");
	for (int i = 0; i < STEPS; i++) {
		nccl(writer, FIRST_GROUP, LK_WHAT_ALLREDUCE, 1, -1, MB, 0);
		call(writer, LK_DEVICE_KERNEL, CUDA, 1, 0, 0);
	}
	finish(writer);
	refuses(cluster, "has no times of the work");
	empty();
	writer = begin(0, 2);
	group(writer, FIRST_GROUP, 0, 2, "#0123456789abcdef");
	for (int i = 0; i < STEPS; i++) nccl(writer, FIRST_GROUP, LK_WHAT_ALLREDUCE, 1, -1, MB, 0);
	finish(writer);
	refuses(cluster, "not all known");
	empty();
	writer = begin(0, 2);
	group(writer, FIRST_GROUP, 0, 2, "[0, 1]");
	for (int i = 0; i < STEPS; i++) {
		nccl(writer, FIRST_GROUP, LK_WHAT_ALLREDUCE, 1, -1, MB, 0);
		for (uint32_t s = 1; s < 40; s++) kernel(writer, s, MS);
	}
	finish(writer);
	refuses(cluster, "more streams");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_overlap),    cmocka_unit_test(test_beside_next_step),
		cmocka_unit_test(test_waits),      cmocka_unit_test(test_host_bound),
		cmocka_unit_test(test_threads),    cmocka_unit_test(test_ring),
		cmocka_unit_test(test_all_to_all), cmocka_unit_test(test_pipeline),
		cmocka_unit_test(test_parts),      cmocka_unit_test(test_refused)};
	return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
