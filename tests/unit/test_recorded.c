/* test_recorded.c: recordings as captures: steps by period and by marker, requests with what waited
 * for them, groups and peers, what is told of files; the times of all parts add up. */
#include <limits.h>

#include "io/recording.h"
#include "base/stats.h"
#include "scratch.h"
#include "trace/align/traces.h"
#include "trace/read/read.h"

enum { MB = 1 << 20, US = 1000 };

struct writer {
	lk_recorder r;
	lk_record_place place;
	int64_t now;
};

static struct writer begin(int rank, int world, const char *marker) {
	static struct writer w;
	memset(&w, 0, sizeof w);
	assert_int_equal(lk_recorder_open(&w.r, scratch, 8 * MB, 0), 0);
	w.r.head->rank = rank;
	w.r.head->world = world;
	strcpy(w.r.head->marker, marker);
	return w;
}

static void text(struct writer *writer, lk_record_kind kind, uint32_t object, int size,
                 const char *said) {
	lk_record_entry head = {.object = object, .comm = {.peer = size}};
	lk_recorder_text(&writer->r, &writer->place, &head, kind, said, strlen(said));
}

/* A call that takes so long, after a while of own code. */
static void comm(struct writer *writer, lk_comm_what what, lk_comm_part part, uint32_t call,
                 int64_t bytes, uint64_t request, int peer, int64_t own, int64_t takes) {
	lk_record_entry *entry = lk_recorder_next(&writer->r, &writer->place);
	assert_non_null(entry);
	writer->now += own;
	entry->object = 1;
	entry->start_ns = writer->now;
	entry->end_ns = writer->now += takes;
	entry->bytes = bytes;
	entry->comm.what = (uint8_t)what;
	entry->comm.part = (uint8_t)part;
	entry->comm.call = call;
	entry->comm.request = request;
	entry->comm.peer = peer;
	entry->comm.from = -1;
	lk_recorder_publish(&writer->r, &writer->place, entry, LK_RECORD_COMM);
}

static void allreduce(struct writer *writer, int64_t bytes, int64_t own, int64_t takes) {
	comm(writer, LK_WHAT_ALLREDUCE, LK_PART_WHOLE, 1, bytes, 0, -1, own, takes);
}

static void file(struct writer *writer, lk_record_kind kind, uint32_t object, int64_t bytes,
                 int64_t own, int64_t takes) {
	lk_record_entry *entry = lk_recorder_next(&writer->r, &writer->place);
	assert_non_null(entry);
	writer->now += own;
	entry->object = object;
	entry->start_ns = writer->now;
	entry->end_ns = writer->now += takes;
	entry->bytes = bytes;
	entry->io.count = 1;
	lk_recorder_publish(&writer->r, &writer->place, entry, kind);
}

static void names(struct writer *writer) {
	text(writer, LK_RECORD_NAME, 1, 0, "MPI_Allreduce");
	text(writer, LK_RECORD_NAME, 2, 0, "MPI_Send");
	text(writer, LK_RECORD_NAME, 3, 0, "MPI_Iallreduce");
	text(writer, LK_RECORD_NAME, 4, 0, "MPI_Recv_init");
	text(writer, LK_RECORD_GROUP, 1, 2, "[4, 6]");
	text(writer, LK_RECORD_FILE, 1, 0, "/some/where/data.bin");
}

static lk_capture *finish_at(struct writer *writer, int64_t end) {
	lk_error err = {0};
	lk_capture *capture = NULL;
	writer->r.head->end_ns = end;
	char path[PATH_MAX];
	strcpy(path, writer->r.path);
	lk_recorder_close(&writer->r);
	if (lk_trace_read(path, false, NULL, &capture, &(lk_works *){NULL}, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	unlink(path); /* names of one process are few */
	return capture;
}

static lk_capture *finish(struct writer *writer) {
	return finish_at(writer, writer->now);
}

static lk_capture_steps steps_of(const lk_capture *capture) {
	lk_capture_steps steps = {0};
	lk_error err = {0};
	assert_int_equal(lk_capture_find_steps(capture, &steps, &err), LK_OK);
	return steps;
}

static uint32_t count_named(const lk_capture *capture, lk_event_kind kind, const char *name) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < capture->count; i++)
		count += capture->kind[i] == kind &&
		         strcmp(lk_capture_text(capture, capture->name[i]), name) == 0;
	return count;
}

/* ---- steps ---- */

/* A step of `calls` calls of different sizes, one of them twice in a row; some calls before the
 * loop, one behind it; a checkpoint after some steps. */
static void test_period(void **state) {
	(void)state;
	for (int calls = 1; calls <= 12; calls++) {
		struct writer w = begin(0, 2, "");
		names(&w);
		allreduce(&w, 7, 10 * US, US);
		for (int s = 0; s < 20; s++) {
			for (int i = 0; i < calls; i++) allreduce(&w, 1000 + (i / 2), 100 * US, 5 * US);
			if (s == 7 || s == 12) {
				allreduce(&w, 8, US, US);
				allreduce(&w, 9, US, US);
			}
		}
		allreduce(&w, 11, 10 * US, US);
		lk_capture *capture = finish(&w);
		lk_capture_steps steps = steps_of(capture);
		/* two calls alike are two steps: nothing tells them apart */
		assert_int_equal(steps.count, calls == 2 ? 40 : 20);
		for (size_t i = 1; i < steps.count; i++)
			assert_int_equal(steps.at[i].start_ns, steps.at[i - 1].end_ns);
		for (size_t i = 0; i < steps.count && calls > 2; i++) {
			int64_t length = steps.at[i].end_ns - steps.at[i].start_ns;
			if (i > 0 && i != 7 && i != 12) assert_int_equal(length, calls * 105 * US);
		}
		lk_vec_free(&steps);
		lk_capture_free(capture);
	}
}

static void test_no_period(void **state) {
	(void)state;
	struct writer w = begin(0, 2, "");
	names(&w);
	for (int i = 0; i < 50; i++) allreduce(&w, i * i + 1, 10 * US, US);
	lk_capture *capture = finish(&w);
	lk_capture_steps steps = steps_of(capture);
	assert_int_equal(steps.count, 1);
	assert_true(steps.at[0].event == LK_NONE);
	lk_vec_free(&steps);
	lk_capture_free(capture);
}

/* ---- steps without MPI ---- */

static void socket_call(struct writer *writer, lk_record_kind kind, uint32_t peer, int64_t bytes,
                        int64_t asked, bool goes_on, int64_t own) {
	lk_record_entry *entry = lk_recorder_next(&writer->r, &writer->place);
	assert_non_null(entry);
	entry->object = peer;
	entry->start_ns = writer->now += own;
	entry->end_ns = writer->now += US;
	entry->bytes = bytes;
	entry->io.count = 1;
	entry->io.most = asked;
	entry->io.sequential = goes_on;
	lk_recorder_publish(&writer->r, &writer->place, entry, kind);
}

static void waits(struct writer *writer, int64_t own, int64_t takes) {
	lk_record_entry *entry = lk_recorder_next(&writer->r, &writer->place);
	assert_non_null(entry);
	entry->start_ns = writer->now += own;
	entry->end_ns = writer->now += takes;
	lk_recorder_publish(&writer->r, &writer->place, entry, LK_RECORD_WAIT);
}

static size_t count_steps(struct writer *writer) {
	lk_capture *capture = finish(writer);
	lk_capture_steps steps = steps_of(capture);
	size_t count = steps.at[0].event == LK_NONE ? 0 : steps.count;
	lk_vec_free(&steps);
	lk_capture_free(capture);
	return count;
}

/* Messages by their sizes, however many pieces the socket takes them in; notes and small traffic
 * elsewhere do not count. */
static void test_messages(void **state) {
	(void)state;
	for (int messages = 1; messages <= 6; messages++) {
		struct writer w = begin(0, 2, "");
		text(&w, LK_RECORD_PEER, 1, 0, "10.0.0.2:5 from 10.0.0.1:6");
		text(&w, LK_RECORD_PEER, 2, 0, "10.0.0.9:80 from 10.0.0.1:7");
		for (int s = 0; s < 20; s++) {
			for (int m = 0; m < messages; m++) {
				int64_t size = 100000 * (m + 1), taken = s % 3 ? size : size / 2;
				socket_call(&w, LK_RECORD_SENT, 1, 48, 48, false, 50 * US);
				socket_call(&w, LK_RECORD_SENT, 1, taken, size, false, US);
				if (taken < size)
					socket_call(&w, LK_RECORD_SENT, 1, size - taken, size - taken, true, 10 * US);
				if (s % 4 == 0) socket_call(&w, LK_RECORD_SENT, 2, 3000 + s, 3000 + s, false, US);
			}
		}
		assert_int_equal(count_steps(&w), 20);
	}
}

/* Messages of several buckets that overtake one another: in some steps, or in all. */
static void test_messages_overtake(void **state) {
	(void)state;
	enum { MESSAGES = 6, STEPS = 20 };
	for (int seed = 0; seed < 60; seed++) {
		struct writer w = begin(0, 2, "");
		text(&w, LK_RECORD_PEER, 1, 0, "10.0.0.2:5 from 10.0.0.1:6");
		for (int s = 0; s < STEPS; s++) {
			int size[MESSAGES];
			for (int m = 0; m < MESSAGES; m++)
				size[m] = 100000 * (1 + m / 2 + m % 2); /* two sizes each of two buckets */
			bool orderly = seed % 3 == 0 ? s % 3 != 1 : seed % 3 == 1 && s % 5 != 1;
			for (int m = MESSAGES - 1; m > 0 && !orderly; m--) {
				int other =
						(int)(lk_hash64((uint64_t)(seed * 1000 + s * 10 + m)) % (uint64_t)(m + 1)),
					kept = size[m];
				size[m] = size[other];
				size[other] = kept;
			}
			for (int m = 0; m < MESSAGES; m++)
				socket_call(&w, LK_RECORD_SENT, 1, size[m], size[m], false, 20 * US);
		}
		assert_int_equal(count_steps(&w), STEPS);
	}
}

/* Reads that are all alike, in batches of equal number; some are joined in one record; pauses vary
 * by a half. */
static void test_pauses(void **state) {
	(void)state;
	for (int batch = 2; batch <= 64; batch *= 2) {
		struct writer w = begin(-1, 0, "");
		names(&w);
		for (int s = 0; s < 30; s++) {
			for (int i = 0; i < batch; i++) {
				bool joined = batch > 4 && i == s % 3;
				file(&w, LK_RECORD_READ, 1, 1000,
				     i ? (10 + (s * 7 + i) % 10) * US : (1000 + (s * 37 % 500)) * US, 2 * US);
				if (!joined) continue;
				w.place.block->record[w.place.at - 1].io.count = 2;
				i++;
			}
		}
		assert_int_equal(count_steps(&w), 29); /* the last one has no end */
	}
}

/* Batches that come by a pipe, and libraries that are read before. */
static void test_pipe(void **state) {
	(void)state;
	struct writer w = begin(-1, 0, "");
	text(&w, LK_RECORD_PEER, 1, 0, LK_RECORD_PIPE "77");
	text(&w, LK_RECORD_FILE, 1, 0, "/lib/python3/torch/nn.py");
	for (int i = 0; i < 500; i++) file(&w, LK_RECORD_READ, 1, 100, 10 * US, US);
	for (int s = 0; s < 12; s++) {
		waits(&w, 2000 * US, 300 * US);
		socket_call(&w, LK_RECORD_RECEIVED, 1, 4, 4, false, US);
		socket_call(&w, LK_RECORD_RECEIVED, 1, 300 + s, 300 + s, false, US);
	}
	assert_int_equal(count_steps(&w), 12);
}

/* What the main thread waits for is communication while connections carry something, and only then.
 */
static void test_sockets_shown(void **state) {
	(void)state;
	struct writer w = begin(0, 2, "");
	text(&w, LK_RECORD_PEER, 1, 0, "10.0.0.2:5 from 10.0.0.1:6");
	for (int s = 0; s < 10; s++) {
		socket_call(&w, LK_RECORD_SENT, 1, 5000, 5000, false, 3000 * US);
		waits(&w, US, 500 * US);
		socket_call(&w, LK_RECORD_RECEIVED, 1, 5000, 5000, false, US);
		waits(&w, 2000 * US, 400 * US);
	}
	lk_capture *capture = finish(&w);
	int64_t sum = 0;
	assert_int_equal(count_named(capture, LK_EVENT_KERNEL, "sockets"), 10);
	for (uint32_t i = 0; i < capture->count; i++)
		if (capture->kind[i] == LK_EVENT_KERNEL &&
		    strcmp(lk_capture_text(capture, capture->name[i]), "sockets") == 0)
			sum += capture->dur_ns[i];
	assert_in_range(sum, 10 * 500 * US, 10 * 510 * US);
	assert_int_equal(capture->processor, true);
	lk_capture_free(capture);
}

static void test_marker(void **state) {
	(void)state;
	static const char *const markers[] = {"read:data", "MPI_Allreduce", "write:data", "read:other"};
	static const size_t expected[] = {15, 30, 1, 1};
	for (int m = 0; m < 8; m++) {
		bool stopped =
			m >=
			4; /* in the last step, which is not counted: how much of it there was nobody knows */
		struct writer w = begin(-1, 0, markers[m % 4]);
		names(&w);
		for (int i = 0; i < 15; i++) {
			file(&w, LK_RECORD_READ, 1, 100, 50 * US, 10 * US);
			allreduce(&w, i, 10 * US, US);
			allreduce(&w, i * i, US, US);
		}
		lk_capture *capture = finish_at(&w, stopped ? 0 : w.now);
		lk_capture_steps steps = steps_of(capture);
		assert_int_equal(steps.count, expected[m % 4] > 1 ? expected[m % 4] - stopped : 1);
		lk_vec_free(&steps);
		lk_capture_free(capture);
	}
}

/* ---- what calls become ---- */

static void test_requests(void **state) {
	(void)state;
	struct writer w = begin(4, 8, "");
	names(&w);
	/* two in flight at once, and a persistent one that is started twice */
	comm(&w, LK_WHAT_ALLREDUCE, LK_PART_POST, 3, 4000, 0xaa, -1, 10 * US, US);
	comm(&w, LK_WHAT_ALLREDUCE, LK_PART_POST, 3, 8000, 0xbb, -1, 10 * US, US);
	comm(&w, LK_WHAT_OTHER, LK_PART_DONE, 0, 0, 0xaa, -1, 100 * US, 20 * US);
	comm(&w, LK_WHAT_OTHER, LK_PART_DONE, 0, 0, 0xbb, -1, 0, 20 * US);
	comm(&w, LK_WHAT_RECV, LK_PART_MAKE, 4, 600, 0xaa, 1, 0, US);
	for (int i = 0; i < 2; i++) {
		comm(&w, LK_WHAT_OTHER, LK_PART_START, 0, 0, 0xaa, -1, 10 * US, US);
		comm(&w, LK_WHAT_OTHER, LK_PART_DONE, 0, 0, 0xaa, -1, 30 * US, 5 * US);
	}
	comm(&w, LK_WHAT_SEND, LK_PART_WHOLE, 2, 60, 0, -2, 10 * US, US); /* to nobody */
	comm(&w, LK_WHAT_SEND, LK_PART_WHOLE, 2, 61, 0, 0, 10 * US, US);
	lk_capture *capture = finish(&w);
	assert_int_equal(capture->rank, 4);
	assert_int_equal(capture->world, 8);
	assert_int_equal(capture->comms.count, 5);
	static const struct {
		unsigned kind;
		int64_t bytes, ns;
		int peer;
	} expected[] = {
		{LK_OP_ALLREDUCE, 4000, 132 * US, -1},
		{LK_OP_ALLREDUCE, 8000, 141 * US, -1},
		{LK_OP_RECV, 600, 36 * US, 6},
		{LK_OP_RECV, 600, 36 * US, 6},
		{LK_OP_SEND, 61, US, 4},
	};
	for (size_t i = 0; i < capture->comms.count; i++) {
		const lk_comm_note *note = &capture->comms.at[i];
		assert_int_equal(note->kind, expected[i].kind);
		assert_int_equal(note->in_elements * note->element_bytes, expected[i].bytes);
		assert_int_equal(note->peer, expected[i].peer);
		assert_string_equal(lk_capture_text(capture, note->ranks), "[4, 6]");
		/* the nanosecond of the launch is not its own */
		assert_in_range(capture->dur_ns[note->event], expected[i].ns - 2, expected[i].ns);
	}
	lk_capture_free(capture);
}

/* Of the main thread's time, what is own code, communication, or a file's leaves nothing over. */
static void test_adds_up(void **state) {
	(void)state;
	struct writer w = begin(0, 1, "");
	names(&w);
	for (int i = 0; i < 30; i++) {
		file(&w, LK_RECORD_OPEN, 1, 0, 3 * US, 2 * US);
		file(&w, LK_RECORD_READ, 1, 100, 50 * US, 10 * US);
		allreduce(&w, 16, 100 * US, 40 * US);
	}
	w.now += 17 * US;
	lk_capture *capture = finish(&w);
	int64_t sum = 0;
	for (uint32_t i = 0; i < capture->count; i++) {
		bool step = strncmp(lk_capture_text(capture, capture->name[i]), "ProfilerStep", 12) == 0;
		if (capture->kind[i] == LK_EVENT_KERNEL || (capture->kind[i] == LK_EVENT_NOTE && !step))
			sum += capture->dur_ns[i];
	}
	/* a nanosecond of launch for each kernel */
	uint32_t kernels = count_named(capture, LK_EVENT_KERNEL, "own code") +
	                   count_named(capture, LK_EVENT_KERNEL, "MPI_Allreduce");
	assert_int_equal(sum + kernels, 30 * 205 * US + 17 * US);
	assert_int_equal(count_named(capture, LK_EVENT_NOTE, "file:read data.bin"), 30);
	assert_int_equal(count_named(capture, LK_EVENT_NOTE, "file:open data.bin"), 30);
	for (size_t i = 0; i < capture->lanes.count; i++)
		for (uint32_t at = capture->lanes.at[i].begin; at + 1 < capture->lanes.at[i].end; at++)
			if (capture->lanes.at[i].stream)
				assert_true(lk_event_end(capture, capture->order[at]) <=
				            capture->start_ns[capture->order[at + 1]]);
	lk_capture_free(capture);
}

/* Damaged records are left out, with a warning. */
static void test_strange(void **state) {
	(void)state;
	struct writer w = begin(0, 1, "");
	names(&w);
	for (int i = 0; i < 10; i++) allreduce(&w, 16, 100 * US, 40 * US);
	/* behind six texts of two records each */
	w.place.block->record[13].start_ns = INT64_MIN;
	w.place.block->record[14].comm.what = 200;
	w.place.block->record[15].end_ns = INT64_MAX;
	lk_capture *capture = finish(&w);
	assert_int_equal(count_named(capture, LK_EVENT_KERNEL, "MPI_Allreduce"), 7);
	assert_int_equal(capture->damaged, 3);
	assert_non_null(strstr(capture->damages.at[0], "records that are damaged"));
	lk_capture_free(capture);
}

/* ---- several ranks ---- */

enum { GATHERS = 40, LAG = 30 * US };

/* A rank that gives so much to each MPI_Gatherv, and whose calls end later and later. */
static lk_capture *gather_unevenly(int rank, int64_t bytes, const char *host) {
	struct writer w = begin(rank, 2, "");
	text(&w, LK_RECORD_NAME, 1, 0, "MPI_Gatherv");
	text(&w, LK_RECORD_GROUP, 1, 2, "[0, 1]");
	snprintf(w.r.head->host, sizeof w.r.head->host, "%s", host);
	w.r.head->monotonic_ns = 1000 * US;
	w.r.head->realtime_ns = 1700000000LL * 1000000000 + rank * US;
	for (int i = 0; i < GATHERS; i++) {
		w.now = i * 1000 * US;
		comm(&w, LK_WHAT_GATHER, LK_PART_WHOLE, 1, bytes, 0, 0, 100 * US,
		     20 * US + rank * LAG * (int64_t)i / GATHERS);
	}
	return finish(&w);
}

static lk_traces *two_ranks(const char *host, const char *other) {
	lk_traces *traces;
	lk_error err = {0};
	lk_capture *captures[] = {gather_unevenly(0, 2 * 100, host),
	                          gather_unevenly(1, 2 * 300, other)};
	assert_int_equal(lk_traces_make(captures, 2, &traces, &err), LK_OK);
	return traces;
}

/* Members of MPI_Gatherv give as much as they like: what is gathered is their sum. Processes of a
 * host read one clock, whenever their calls end; those of two hosts are tied by them. */
static void test_two_ranks(void **state) {
	(void)state;
	lk_traces *traces = two_ranks("here", "here");
	assert_int_equal(traces->problems.count, 0);
	assert_int_equal(traces->warnings.count, 0);
	assert_true(traces->one_clock);
	assert_true(traces->drift_ppm[1] == 0 && traces->shift_ns[1] == traces->shift_ns[0]);
	assert_int_equal(traces->matches.count, GATHERS);
	for (size_t i = 0; i < traces->matches.count; i++)
		assert_int_equal(traces->matches.at[i].bytes, 400);
	lk_traces_free(traces);
	traces = two_ranks("here", "there");
	assert_false(traces->one_clock);
	assert_true(traces->drift_ppm[1] != 0);
	lk_traces_free(traces);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_period),        cmocka_unit_test(test_no_period),
		cmocka_unit_test(test_messages),      cmocka_unit_test(test_messages_overtake),
		cmocka_unit_test(test_pauses),        cmocka_unit_test(test_pipe),
		cmocka_unit_test(test_sockets_shown), cmocka_unit_test(test_marker),
		cmocka_unit_test(test_requests),      cmocka_unit_test(test_adds_up),
		cmocka_unit_test(test_strange),       cmocka_unit_test(test_two_ranks),
	};
	return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
