/* test_stalls_seen.c: what stalls makes of recordings with known times: waiting and transfer of
 * ranks on one host and on two, preparation between reads, loaders of other threads; and the page
 * cache. */
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <sys/statfs.h>

#include "base/arena.h"
#include "stalls/stalls.h"
#include "scratch.h"

static lk_arena arena = LK_ARENA_INIT;

enum { MB = 1 << 20, US = 1000, MS = 1000000, SAMPLES = 8 };

/* ---- writing recordings ---- */

struct writer {
	lk_recorder r;
	lk_record_place place, other; /* of the main thread and of a second one */
	int64_t begin,
		now; /* on the machine's clock, of which a recording's times count from its opening */
};

/* All ranks of a run begin at the same moment. */
static void begin(struct writer *writer, const char *folder, int rank, int world, const char *host,
                  int64_t moment) {
	memset(writer, 0, sizeof *writer);
	assert_int_equal(lk_recorder_open(&writer->r, folder, 8 * MB, 0), 0);
	writer->r.head->rank = rank;
	writer->r.head->world = world;
	snprintf(writer->r.head->host, sizeof writer->r.head->host, "%s", host);
	writer->now = moment - writer->r.head->monotonic_ns;
	assert_true(writer->now >= 0);
	writer->other.thread = 1;
	lk_record_entry name = {.object = 1}, group = {.object = 1, .comm = {.peer = world}},
					file = {.object = 1};
	lk_recorder_text(&writer->r, &writer->place, &name, LK_RECORD_NAME, "MPI_Allreduce", 13);
	lk_recorder_text(&writer->r, &writer->place, &group, LK_RECORD_GROUP, "[0, 1]", 6);
	lk_recorder_text(&writer->r, &writer->place, &file, LK_RECORD_FILE, "/some/where/data.bin", 20);
}

static void finish(struct writer *writer) {
	writer->r.head->end_ns = writer->now;
	lk_recorder_close(&writer->r);
}

static lk_record_entry *next(struct writer *writer, lk_record_place *place, int64_t takes) {
	lk_record_entry *entry = lk_recorder_next(&writer->r, place);
	assert_non_null(entry);
	entry->object = 1;
	entry->start_ns = writer->now;
	entry->end_ns = writer->now += takes;
	return entry;
}

static void allreduce(struct writer *writer, int64_t bytes, int64_t takes) {
	lk_record_entry *entry = next(writer, &writer->place, takes);
	entry->bytes = bytes;
	entry->comm.what = LK_WHAT_ALLREDUCE;
	entry->comm.call = 1;
	entry->comm.peer = -1;
	entry->comm.from = -1;
	lk_recorder_publish(&writer->r, &writer->place, entry, LK_RECORD_COMM);
}

static void file(struct writer *writer, lk_record_place *place, lk_record_kind kind, int64_t bytes,
                 int64_t takes) {
	lk_record_entry *entry = next(writer, place, takes);
	entry->bytes = bytes;
	entry->io.count = 1;
	entry->io.busy_ns = takes;
	lk_recorder_publish(&writer->r, place, entry, kind);
}

/* Since the thread began. */
static void stored(struct writer *writer, lk_record_place *place, int64_t bytes) {
	lk_record_entry *entry = next(writer, place, 0);
	entry->bytes = bytes;
	lk_recorder_publish(&writer->r, place, entry, LK_RECORD_STORAGE);
}

/* What the kernel says of the thread so far. */
static void used(struct writer *writer, int64_t computed, int64_t queued, uint32_t faults) {
	lk_record_entry *entry = next(writer, &writer->place, 0);
	entry->bytes = computed;
	entry->use.computed_ns = computed;
	entry->use.queued_ns = queued;
	entry->use.major_faults = faults;
	lk_recorder_publish(&writer->r, &writer->place, entry, LK_RECORD_PROCESSOR);
}

/* For another thread, which does nothing that is recorded. */
static void waited(struct writer *writer, lk_wait_for what, int64_t takes) {
	enum { OTHER = 7 };
	lk_record_entry *entry = next(writer, &writer->place, takes);
	entry->object = what;
	entry->wait.waker = what == LK_WAIT_THREAD ? OTHER + 1 : 0;
	entry->wait.ended_ns = entry->end_ns;
	lk_recorder_publish(&writer->r, &writer->place, entry, LK_RECORD_WAIT);
}

static int64_t moment_ahead(void) {
	return lk_monotonic_ns() + 100 * MS;
}

/* A step: samples are read and decoded, the model runs, two all-reduces of different sizes; a write
 * after some steps. */
struct step_times {
	int64_t read, decode, own, transfer[2], late;
	int64_t uneven; /* rank 1 leaves the first all-reduce so much later, and the second one at once
	                   with rank 0 */
	int64_t stored; /* bytes from storage in the last read of a step, and again so many in rank 1 */
	int samples, steps;
	bool write;
};

static void write_rank(const char *folder, const struct step_times *times, int rank,
                       const char *host, int64_t moment) {
	struct writer w;
	begin(&w, folder, rank, 2, host, moment);
	for (int s = 0; s < times->steps; s++) {
		for (int i = 0; i < times->samples; i++) {
			file(&w, &w.place, LK_RECORD_READ, 4096, times->read);
			if (times->stored && i == times->samples - 1)
				stored(&w, &w.place, (50 + s) * (1 + rank) * times->stored);
			w.now += times->decode;
		}
		w.now += times->own + (rank ? times->late : 0);
		int64_t after = rank ? times->uneven : 0;
		allreduce(&w, 1 << 16, times->transfer[0] + (rank ? 0 : times->late) + after);
		allreduce(&w, 1 << 20, times->transfer[1] - after);
		if (times->write) file(&w, &w.place, LK_RECORD_WRITE, 100, 200 * US);
	}
	finish(&w);
}

static void write_run(char folder[64], const struct step_times *times, const char *a,
                      const char *b) {
	new_folder(folder);
	int64_t moment = moment_ahead();
	write_rank(folder, times, 0, a, moment);
	write_rank(folder, times, 1, b, moment);
}

static void assert_near(double a, double b, double off) {
	if (!(fabs(a - b) <= off)) fail_msg("%.9g is not %.9g", a, b);
}

/* ---- times ---- */

static const struct step_times usual = {.read = 50 * US,
                                        .decode = 300 * US,
                                        .own = 5 * MS,
                                        .transfer = {200 * US, 3 * MS},
                                        .late = 700 * US,
                                        .samples = SAMPLES,
                                        .steps = 30,
                                        .write = true};

static void test_times(void **state) {
	(void)state;
	char folder[64];
	lk_stalls_seen s;
	lk_error err = {0};
	write_run(folder, &usual, "a", "a");
	if (lk_stalls_see(folder, 3, 20, &arena, &s, NULL, &err) != LK_OK) fail_msg("%s", err.what);
	assert_int_equal(s.ranks, 2);
	assert_int_equal(s.steps, 20);
	assert_near(s.times.step, 8 * 350e-6 + 5e-3 + 3.2e-3 + 0.7e-3 + 0.2e-3, 2e-6);
	assert_near(s.times.reading, 8 * 50e-6, 1e-8);
	assert_near(s.times.writing, 200e-6, 1e-8);
	assert_near(s.times.preparation, 8 * 300e-6, 1e-6);
	assert_near(s.loader.bytes, 8 * 4096, 1e-6);
	assert_near(s.communications, 2, 1e-9);
	assert_false(s.loader.apart);
	assert_near(s.times.usual, s.times.step - 3.9e-3 - 8 * 50e-6, 2e-6);
	assert_near(s.times.own, s.times.usual + 0.35e-3 + 8 * 50e-6, 2e-6);
	assert_int_equal(s.times.steps.count, 20);
	for (int i = 0; i < 20; i++) {
		assert_near(s.times.steps.length[i], s.times.step, 2e-6);
		assert_near(s.times.steps.slowest[i], s.times.usual + 1.1e-3, 2e-6);
		assert_near(s.times.steps.fed[i], s.times.usual + 0.7e-3, 2e-6);
	}
	for (int i = 0; i < 2; i++) assert_int_equal(s.by_rank[i].rank, i);
	assert_near(s.by_rank[1].own - s.by_rank[0].own, 0.7e-3, 2e-6);
	lk_stalls_files files = {0};
	double bytes;
	assert_int_equal(lk_stalls_files_of(folder, false, &arena, &files, &bytes, &err), LK_OK);
	assert_int_equal(files.count, 1);
	assert_string_equal(files.at[0], "/some/where/data.bin");
	lk_vec_free(&files);
	remove_folder(folder);
}

/* A step of 10 ms of own time, by what the kernel and calls say of it, and an all-reduce in which
 * the thread computes all the time: 4 ms computing, 1 ms queued, 2 ms waiting for another
 * thread, 1.5 ms asleep; of what is left the kernel says that pages were read, or nobody knows. */
static void test_own_time(void **state) {
	(void)state;
	for (int faults = 0; faults < 2; faults++) {
		char folder[64];
		struct writer w;
		lk_stalls_seen s;
		lk_error err = {0};
		int64_t computed = 0, queued = 0;
		new_folder(folder);
		begin(&w, folder, 0, 2, "a", moment_ahead());
		w.r.head->seen |= LK_RECORDED_MPI;
		for (int i = 0; i < 30; i++) {
			w.now += 5 * MS;
			waited(&w, LK_WAIT_THREAD, 2 * MS);
			waited(&w, LK_WAIT_SLEEP, 1500 * US);
			w.now += 1500 * US;
			used(&w, computed += 4 * MS, queued += 1 * MS, (uint32_t)(faults * (i + 1)));
			allreduce(&w, 1 << 16, 3 * MS);
			used(&w, computed += 3 * MS, -1, (uint32_t)(faults * (i + 1)));
		}
		finish(&w);
		if (lk_stalls_see(folder, 3, 20, &arena, &s, NULL, &err) != LK_OK) fail_msg("%s", err.what);
		assert_int_equal(s.ranks, 1);
		const lk_stalls_rank *rank = &s.by_rank[0];
		assert_near(rank->own, 10e-3, 1e-6);
		assert_near(rank->computing, 4e-3, 2e-5);
		assert_near(rank->preempted, 1e-3, 2e-5);
		assert_near(rank->data, 2e-3, 2e-5);
		assert_near(rank->sleeping, faults ? 1.5e-3 : 3e-3, 2e-5);
		assert_near(rank->storage, faults ? 1.5e-3 : 0, 2e-5);
		/* what other threads hand over is preparation */
		assert_near(s.times.preparation, 2e-3, 1e-6);
		remove_folder(folder);
	}
}

static void test_no_steps(void **state) {
	(void)state;
	char folder[64];
	lk_stalls_seen s;
	lk_error err = {0};
	struct step_times few = usual;
	new_folder(folder);
	assert_int_equal(lk_stalls_see(folder, 0, 10, &arena, &s, NULL, &err), LK_OK);
	assert_int_equal(s.steps, 0);
	assert_true(lk_stalls_see("/no/such/folder", 0, 10, &arena, &s, NULL, &err) != LK_OK);
	few.steps = 4;
	remove_folder(folder);
	write_run(folder, &few, "a", "a");
	assert_int_equal(lk_stalls_see(folder, 50, 10, &arena, &s, NULL, &err), LK_OK);
	assert_int_equal(s.steps, 0);
	remove_folder(folder);
}

/* ---- communication ---- */

/* Rank 1 is 0.7 ms late in each step: half of the ranks wait so long; transfer is inside a host, or
 * across two. */
static void test_comm(void **state) {
	(void)state;
	for (int hosts = 1; hosts <= 2; hosts++) {
		char folder[64];
		lk_stalls_comm c;
		lk_error err = {0};
		write_run(folder, &usual, "a", hosts == 2 ? "b" : "a");
		if (lk_stalls_see_comm(folder, 3, 20, &c, &err) != LK_OK)
			fail_msg("%s: %s", err.where, err.what);
		assert_int_equal(c.hosts, hosts);
		assert_near(c.waiting, 0.35e-3, 5e-6);
		assert_near(hosts == 2 ? c.network : c.interconnect, 3.2e-3, 5e-6);
		assert_near(hosts == 2 ? c.interconnect : c.network, 0, 1e-9);
		assert_int_equal(c.sizes.count, 2);
		assert_near(c.sizes.at[0].calls, 1, 1e-9);
		assert_near(c.sizes.at[0].seconds, 200e-6, 3e-6);
		assert_near(c.sizes.at[1].seconds, 3e-3, 3e-6);
		lk_vec_free(&c.sizes);
		remove_folder(folder);
	}
}

/* Ranks that leave a collective unequally wait for its transfer in the next one, not for one
 * another. */
static void test_uneven(void **state) {
	(void)state;
	char folder[64];
	lk_stalls_comm c;
	lk_error err = {0};
	struct step_times t = usual;
	t.late = 0;
	t.uneven = 900 * US;
	write_run(folder, &t, "a", "b");
	if (lk_stalls_see_comm(folder, 3, 20, &c, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	/* the first call that is looked at has none before it: its ranks are compared by clocks,
	 * aligned by ends */
	assert_near(c.waiting, 0, 0.9e-3 / 20);
	assert_near(c.network + c.waiting, 3.2e-3, 5e-6);
	lk_vec_free(&c.sizes);
	remove_folder(folder);
}

/* ---- storage ---- */

/* What ranks of a host have from storage adds up, step by step; reads at the same time are one
 * waiting. The records of storage are no calls: steps and preparation stay as they were. */
static void test_storage(void **state) {
	(void)state;
	for (int hosts = 1; hosts <= 2; hosts++) {
		char folder[64];
		lk_stalls_seen s, without;
		lk_disk_steps each = {0};
		lk_error err = {0};
		struct step_times t = usual;
		write_run(folder, &t, "a", hosts == 2 ? "b" : "a");
		assert_int_equal(lk_stalls_see(folder, 3, 20, &arena, &without, NULL, &err), LK_OK);
		remove_folder(folder);
		t.stored = MB;
		write_run(folder, &t, "a", hosts == 2 ? "b" : "a");
		for (size_t runs = 1; runs <= 2; runs++) {
			if (lk_stalls_see(folder, 3, 20, &arena, &s, &each, &err) != LK_OK)
				fail_msg("%s", err.what);
			assert_int_equal(each.count, 20 * runs);
		}
		for (size_t i = 0; i < each.count; i++) {
			assert_near(each.at[i].stored, 3.0 * MB / hosts, 1e-6);
			assert_near(each.at[i].seconds, s.times.step, 1e-6);
		}
		assert_near(s.times.waited, 8 * 50e-6, 1e-7);
		assert_near(s.times.preparation, without.times.preparation, 1e-9);
		assert_near(s.times.step, without.times.step, 1e-9);
		lk_vec_free(&each);
		remove_folder(folder);
	}
}

/* ---- loaders ---- */

static lk_stalls_seen see(const char *folder) {
	lk_stalls_seen s;
	lk_error err = {0};
	if (lk_stalls_see(folder, 2, 100, &arena, &s, NULL, &err) != LK_OK) fail_msg("%s", err.what);
	return s;
}

/* Reads in bursts tell preparation; single ones, or none, do not. */
static void test_bursts(void **state) {
	(void)state;
	for (int samples = 0; samples <= 12; samples += samples < 2 ? 1 : 5) {
		char folder[64];
		struct step_times t = usual;
		t.samples = samples;
		write_run(folder, &t, "a", "a");
		lk_stalls_seen s = see(folder);
		if (samples < 3) assert_true(isnan(s.times.preparation));
		else assert_near(s.times.preparation, samples * 300e-6, 1e-6);
		remove_folder(folder);
	}
}

/* A thread beside the main one that reads and decodes for `busy` of the step of 10 ms, and rests.
 */
static void write_threads(const char *folder, int64_t decode, int samples) {
	struct writer w;
	begin(&w, folder, 0, 2, "a", moment_ahead());
	for (int s = 0; s < 40; s++) {
		int64_t from = w.now;
		for (int i = 0; i < samples; i++) {
			file(&w, &w.other, LK_RECORD_READ, 4096, 50 * US);
			w.now += decode;
		}
		w.now = from + 9 * MS;
		allreduce(&w, 1 << 16, MS);
	}
	finish(&w);
}

static void test_threads(void **state) {
	(void)state;
	char folder[64];
	new_folder(folder);
	write_threads(folder, 200 * US, 8); /* 2 ms of 10: hidden */
	lk_stalls_seen s = see(folder);
	assert_true(s.loader.apart);
	assert_near(s.times.preparation, 0, 1e-9);
	assert_near(s.loader.busy, 8 * 50e-6, 1e-8);
	assert_near(s.loader.own, 8 * 200e-6, 1e-6);
	assert_near(s.loader.threads, 1, 1e-9);
	remove_folder(folder);
}

/* ---- threads that are waited for ---- */

static void waited_for(struct writer *writer, lk_record_place *place, int64_t from, int64_t to,
                       const lk_record_place *waker) {
	lk_record_entry *entry = lk_recorder_next(&writer->r, place);
	assert_non_null(entry);
	entry->object = LK_WAIT_THREAD;
	entry->start_ns = from;
	entry->end_ns = to;
	entry->wait.on = 64;
	entry->wait.ended_ns = to - 100 * US; /* until then; afterwards it had no processor */
	entry->wait.waker = waker->thread + 1u;
	lk_recorder_publish(&writer->r, place, entry, LK_RECORD_WAIT);
}

/* A step of 10 ms, of which the main thread waits 8 for another one. That one reads for 3 of them,
 * which makes it a loader; or it was woken by the main thread when the step began; or neither. */
static void test_causes(void **state) {
	(void)state;
	enum { READS, ASKED, AHEAD, KINDS };
	/* compute, preparation, fetch, preempted: when it is asked the other thread has no processor
	 * either */
	static const double truth[KINDS][4] = {
		{1e-3, 4.9e-3, 3e-3, 0.1e-3}, {8.8e-3, 0, 0, 0.2e-3}, {1e-3, 7.9e-3, 0, 0.1e-3}};
	for (int kind = 0; kind < KINDS; kind++) {
		char folder[64];
		struct writer w;
		lk_stalls_request q;
		lk_stalls_answer *answer;
		lk_error err = {0};
		new_folder(folder);
		begin(&w, folder, 0, 1, "a", moment_ahead());
		for (int s = 0; s < 40; s++) {
			int64_t from = w.now;
			if (kind == ASKED) waited_for(&w, &w.other, from - MS / 2, from + 200 * US, &w.place);
			if (kind == READS) file(&w, &w.other, LK_RECORD_READ, 4096, 3 * MS);
			waited_for(&w, &w.place, from, from + 8 * MS, &w.other);
			w.now = from + 9 * MS;
			allreduce(&w, 1 << 16, MS);
		}
		finish(&w);
		lk_stalls_defaults(&q);
		q.recording = folder;
		if (lk_stalls(&q, &answer, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
		const lk_stalls_part *parts = answer->parts;
		assert_near(parts[LK_STALL_PREEMPTED].seconds, truth[kind][3], 1e-6);
		assert_near(parts[LK_STALL_COMPUTE].seconds, truth[kind][0], 1e-6);
		assert_near(lk_stalls_known(parts[LK_STALL_PREPARATION].seconds), truth[kind][1], 1e-6);
		assert_near(lk_stalls_known(parts[LK_STALL_FETCH].seconds), truth[kind][2], 1e-6);
		lk_stalls_free(answer);
		remove_folder(folder);
	}
}

/* ---- loaders out of step ---- */

/* Rank 1 works 2 ms longer than the 10 of rank 0. Rank 0 waits 6 ms for its loader in even steps,
 * rank 1 in odd ones: the steps are as long as 16 and 18 ms of own time, and 3 of transfer. */
static void write_rank_in_turn(const char *folder, int rank, int64_t moment) {
	struct writer w;
	begin(&w, folder, rank, 2, "a", moment);
	w.r.head->seen |= LK_RECORDED_MPI;
	for (int s = 0; s < 40; s++) {
		int64_t work = rank ? 12 * MS : 10 * MS, longest = s % 2 ? 18 * MS : 16 * MS,
				wait = s % 2 == rank ? 6 * MS : 0;
		if (wait) waited(&w, LK_WAIT_THREAD, wait);
		w.now += work;
		allreduce(&w, 1 << 16, longest - work - wait + 3 * MS);
	}
	finish(&w);
}

/* Whichever rank waits: preparation is what the steps would be shorter if data were there, and the
 * ranks' imbalance is that of their work. */
static void test_loaders_in_turn(void **state) {
	(void)state;
	char folder[64];
	lk_stalls_request q;
	lk_stalls_answer *answer;
	lk_error err = {0};
	int64_t moment = moment_ahead();
	double sum = 0;
	new_folder(folder);
	for (int rank = 0; rank < 2; rank++) write_rank_in_turn(folder, rank, moment);
	lk_stalls_seen s = see(folder);
	assert_true(s.times.handed);
	assert_near(s.times.preparation, 3e-3, 1e-6);
	assert_near(s.times.usual, 10e-3, 1e-6);
	assert_near(s.times.own, 14e-3, 1e-6);
	for (int i = 0; i < s.times.steps.count; i++) {
		assert_near(s.times.steps.working[i], 12e-3, 1e-6);
		assert_near(s.times.steps.slowest[i], i % 2 ? 18e-3 : 16e-3, 1e-6);
	}
	assert_near(s.working[1] - s.working[0], 2e-3, 1e-6);
	lk_stalls_defaults(&q);
	q.recording = folder;
	q.steps = 20;
	if (lk_stalls(&q, &answer, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	assert_near(answer->step_s, 20e-3, 1e-6);
	assert_near(answer->parts[LK_STALL_COMPUTE].seconds, 10e-3, 1e-5);
	assert_near(answer->parts[LK_STALL_IMBALANCE].seconds, 2e-3, 1e-5);
	assert_near(answer->parts[LK_STALL_PREPARATION].seconds, 5e-3, 1e-5);
	assert_near(answer->parts[LK_STALL_INTERCONNECT].seconds, 3e-3, 1e-5);
	assert_near(answer->parts[LK_STALL_WAITING].seconds, 0, 1e-5);
	for (int k = 0; k < LK_STALL_KINDS; k++) sum += lk_stalls_known(answer->parts[k].seconds);
	assert_near(sum, answer->step_s, 1e-15);
	lk_stalls_free(answer);
	remove_folder(folder);
}

/* ---- marks of the program ---- */

static void mark(struct writer *writer, lk_mark_part part, int64_t domain, const char *name) {
	lk_record_entry entry = {
		.object = part, .start_ns = writer->now, .end_ns = writer->now, .bytes = domain};
	lk_recorder_text(&writer->r, &writer->place, &entry, LK_RECORD_MARK, name, strlen(name));
}

/* A step of rank 0: 4 ms outside of marks; "compress": 1 ms, 2 in "pack", 2 again, 3 of waiting for
 * a loader; an end without a begin. Rank 1 compresses 1 ms longer. */
static void write_marked_rank(const char *folder, int rank, int64_t moment) {
	struct writer w;
	begin(&w, folder, rank, 2, "a", moment);
	w.r.head->seen |= LK_RECORDED_MPI;
	for (int s = 0; s < 40; s++) {
		mark(&w, LK_MARK_ENDS, 7, "");
		w.now += 4 * MS;
		mark(&w, LK_MARK_BEGINS, 0, "compress");
		w.now += rank ? 2 * MS : 1 * MS;
		mark(&w, LK_MARK_BEGINS, 7, "pack");
		w.now += 2 * MS;
		mark(&w, LK_MARK_ENDS, 7, "");
		w.now += 2 * MS;
		waited(&w, LK_WAIT_THREAD, 3 * MS);
		mark(&w, LK_MARK_ENDS, 0, "");
		allreduce(&w, 1 << 16, rank ? 3 * MS : 4 * MS);
	}
	mark(&w, LK_MARK_BEGINS, 0, "never ends");
	finish(&w);
}

static double part_named(const lk_stalls_answer *answer, const char *name) {
	for (int k = 0; k < answer->part_count; k++)
		if (strcmp(answer->parts[k].name, name) == 0) return answer->parts[k].seconds;
	fail_msg("no part %s", name);
	return 0;
}

/* Time is in the innermost mark; waits keep their cause; the parts still sum to the step. */
static void test_marks(void **state) {
	(void)state;
	char folder[64];
	lk_stalls_request q;
	lk_stalls_answer *answer;
	lk_error err = {0};
	int64_t moment = moment_ahead();
	double sum = 0;
	new_folder(folder);
	for (int rank = 0; rank < 2; rank++) write_marked_rank(folder, rank, moment);
	lk_stalls_defaults(&q);
	q.recording = folder;
	if (lk_stalls(&q, &answer, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	assert_int_equal(answer->part_count, LK_STALL_KINDS + 2);
	assert_near(part_named(answer, "compute"), 4e-3, 1e-6);
	assert_near(part_named(answer, "compress"), 3e-3, 1e-6);
	assert_near(part_named(answer, "pack"), 2e-3, 1e-6);
	assert_near(part_named(answer, "imbalance"), 1e-3, 1e-6);
	assert_near(part_named(answer, "preparation"), 3e-3, 1e-6);
	for (int k = 0; k < answer->part_count; k++) sum += lk_stalls_known(answer->parts[k].seconds);
	assert_near(sum, answer->step_s, 1e-15);
	assert_near(answer->step_s, 16e-3, 1e-6);
	assert_int_equal(answer->mark_count, 2);
	assert_string_equal(answer->marks[0].name, "compress");
	assert_near(answer->marks[0].most, 4e-3, 1e-6);
	assert_near(answer->marks[0].preparation, 3e-3, 1e-6);
	assert_near(answer->marks[1].preparation, 0, 1e-9);
	assert_string_equal(answer->parts[answer->lead.first].name, "compute");
	lk_stalls_free(answer);
	remove_folder(folder);
}

/* More names than there are parts: the rest is one part, and what is named beyond any reason shares
 * a name. */
static void test_many_marks(void **state) {
	(void)state;
	enum { NAMES = 400 };
	char folder[64], name[16];
	lk_stalls_request q;
	lk_stalls_answer *answer;
	lk_error err = {0};
	struct writer w;
	double sum = 0;
	new_folder(folder);
	begin(&w, folder, 0, 1, "a", moment_ahead());
	w.r.head->seen |= LK_RECORDED_MPI;
	for (int s = 0; s < 20; s++) {
		for (int i = 0; i < NAMES; i++) {
			snprintf(name, sizeof name, "mark %d", i);
			mark(&w, LK_MARK_BEGINS, 0, name);
			w.now += (1 + (i < 3)) * MS / 10;
			mark(&w, LK_MARK_ENDS, 0, "");
		}
		allreduce(&w, 1 << 16, MS);
	}
	finish(&w);
	lk_stalls_defaults(&q);
	q.recording = folder;
	if (lk_stalls(&q, &answer, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	assert_int_equal(answer->part_count, LK_STALL_KINDS + LK_STALLS_MARKS);
	for (int k = LK_STALL_KINDS; k < answer->part_count; k++) sum += answer->parts[k].seconds;
	assert_near(sum, 1e-4 * (NAMES + 3), 1e-6);
	assert_near(part_named(answer, "compute"), 0, 1e-6);
	lk_stalls_free(answer);
	remove_folder(folder);
}

/* ---- a whole answer from a recording ---- */

static void test_answer(void **state) {
	(void)state;
	char folder[64];
	lk_stalls_request q;
	lk_stalls_answer *answer;
	lk_error err = {0};
	write_run(folder, &usual, "a", "b");
	lk_stalls_defaults(&q);
	q.recording = folder;
	q.what_ifs = "network=2\nspeed=2\nspeed=2,cache=1\ndisk=2";
	if (lk_stalls(&q, &answer, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	assert_int_equal(answer->hosts, 2);
	assert_near(answer->parts[LK_STALL_NETWORK].seconds, 3.2e-3, 1e-5);
	assert_near(answer->parts[LK_STALL_PREPARATION].seconds, 2.4e-3, 1e-5);
	assert_near(answer->parts[LK_STALL_FETCH].seconds, 0.4e-3, 1e-5);
	assert_near(answer->parts[LK_STALL_COMPUTE].seconds, 5e-3, 2e-5);
	assert_near(answer->parts[LK_STALL_IMBALANCE].seconds, 0.7e-3, 2e-5);
	assert_near(answer->parts[LK_STALL_WAITING].seconds, 0, 2e-5);
	assert_true(answer->lead.apart && answer->lead.first == LK_STALL_COMPUTE);
	assert_int_equal(answer->rank_count, 2);
	assert_int_equal(answer->parts[LK_STALL_NETWORK].basis, LK_STALLS_ESTIMATED);
	assert_int_equal(answer->parts[LK_STALL_FETCH].basis, LK_STALLS_ESTIMATED);
	assert_int_equal(answer->change_count, 4);
	assert_near(answer->changes[0].step_s, answer->step_s - 1.6e-3, 1e-5);
	assert_near(answer->changes[1].step_s, answer->step_s - 2.85e-3, 1e-5);
	assert_near(answer->changes[0].closed_s, answer->changes[0].step_s, 1e-6);
	/* a recording does not tell what storage takes of its step */
	for (int i = 2; i < 4; i++) {
		assert_true(isnan(answer->changes[i].step_s) && isnan(answer->changes[i].factor) &&
		            isnan(answer->changes[i].closed_s));
		assert_string_equal(answer->changes[i].bottleneck, "not known");
	}
	assert_true(isnan(answer->rates.device) && isnan(answer->rates.hidden));
	int told = 0;
	for (int i = 0; i < answer->note_count; i++)
		told += strstr(answer->notes[i], "without a cold run it is not known") != NULL;
	assert_int_equal(told, 1);
	assert_near(answer->buckets.per_byte_s * (1 << 20) + answer->buckets.per_call_s, 3e-3, 5e-6);
	lk_stalls_free(answer);
	lk_stalls_free(NULL);
	remove_folder(folder);
}

static void test_refused(void **state) {
	(void)state;
	lk_stalls_request q;
	lk_stalls_answer *answer;
	lk_error err = {0};
	lk_stalls_defaults(&q);
	assert_int_equal(lk_stalls(&q, &answer, &err), LK_ERR_INPUT);
	q.recording = scratch;
	assert_int_equal(lk_stalls(&q, &answer, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "no recording"));
	q.repeats = 0;
	assert_int_equal(lk_stalls(&q, &answer, &err), LK_ERR_INPUT);
}

/* ---- the page cache ---- */

static void test_cache(void **state) {
	(void)state;
	enum { SIZE = 4 * MB };
	char *bytes = calloc(1, SIZE);
	struct statfs fs;
	lk_cache_state c;
	assert_non_null(bytes);
	const char *paths[] = {"", "/no/such/file", scratch, "/dev/null"};
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/data", scratch);
	write_bytes(path, bytes, SIZE);
	free(bytes);
	paths[0] = path;
	lk_cache_warm(paths, 4, &c);
	assert_int_equal(c.files, 1);
	assert_int_equal(c.unreadable, 3);
	assert_true(c.bytes == SIZE);
	if (isnan(c.resident)) skip(); /* a file system that does not tell */
	assert_near(c.resident, 1, 1e-9);
	assert_int_equal(statfs(scratch, &fs), 0);
	if (fs.f_type == 0x01021994) skip(); /* tmpfs: its files are the page cache */
	lk_cache_evict(paths, 4, &c);
	assert_true(c.resident < 0.05);
	lk_cache_warm(paths, 1, &c);
	assert_near(c.resident, 1, 1e-9);
	lk_cache_warm(paths, 0, &c);
	assert_true(c.files == 0 && isnan(c.resident));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_times),      cmocka_unit_test(test_own_time),
		cmocka_unit_test(test_no_steps),   cmocka_unit_test(test_comm),
		cmocka_unit_test(test_uneven),     cmocka_unit_test(test_loaders_in_turn),
		cmocka_unit_test(test_bursts),     cmocka_unit_test(test_threads),
		cmocka_unit_test(test_answer),     cmocka_unit_test(test_storage),
		cmocka_unit_test(test_refused),    cmocka_unit_test(test_cache),
		cmocka_unit_test(test_causes),     cmocka_unit_test(test_marks),
		cmocka_unit_test(test_many_marks),
	};
	int failed = cmocka_run_group_tests(tests, make_scratch, remove_scratch);
	lk_arena_free(&arena);
	return failed;
}
