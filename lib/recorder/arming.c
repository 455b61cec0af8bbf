/* arming.c: begins the recording of a process, of its threads, and of its forked children. */
#include "recorder/recorder.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	SAMPLES = LK_BLOCK_RECORDS / 2, /* records timed, */
	BATCHES = 31,                   /* in batches; the median batch counts */
	GATE_BYTES = 4096
};

static uint32_t arming; /* 1: some thread is arming the process */
static pthread_key_t thread_ends;
static bool has_key;

static void end_recorded_thread(void *unused) {
	(void)unused;
	bool mine = lp_state.on && lp_thread.epoch == lp_state.epoch && lp_state.gate->open;
	bool was = lp_thread.busy;
	lp_thread.busy = true; /* so that calls at the thread's end are not recorded */
	if (mine && !was) lp_leave_signal((uint64_t)pthread_self());
	if (mine) lk_recorder_leave(&lp_state.recorder, &lp_thread.place);
}

/* Begin this thread's records in a recording. */
static bool begin_recorded_thread(void) {
	lp_thread.place = (lk_record_place){
		.thread = (uint16_t)__atomic_fetch_add(&lp_state.threads, 1, __ATOMIC_RELAXED)};
	lp_thread.last = NULL;
	lp_thread.epoch = lp_state.epoch;
	lp_state.recorder.head->threads = lp_state.threads;
	if (has_key) pthread_setspecific(thread_ends, &lp_state);
	lk_record_entry *record = lp_next();
	if (!record) return true;
	record->object = lp_thread.place.thread;
	record->start_ns = record->end_ns = lp_now();
	record->bytes = syscall(SYS_gettid);
	lp_publish(record, LK_RECORD_THREAD);
	lp_ask_processor(record->start_ns);
	return true;
}

/* Measure the cost of one record, two clock reads included: write some into a scratch block, with
 * as many storage records. The median excludes effects of other programs and of the block's first
 * page faults. */
static void measure_record_cost(void) {
	static lk_record_block scratch;
	lk_record_place own = lp_thread.place;
	lp_thread.place = (lk_record_place){.block = &scratch};
	int64_t taken[BATCHES] = {0}; /* ascending */
	for (uint32_t batch = 0, each = SAMPLES / BATCHES; batch < BATCHES; batch++) {
		int64_t begin = lk_monotonic_ns();
		for (uint32_t i = 0; i < each; i++) {
			int64_t start = lp_now();
			lp_io(LK_RECORD_READ, i, start, lp_now(), 1, -1, false);
		}
		int64_t cost = (lk_monotonic_ns() - begin) / each;
		uint32_t at = batch;
		for (; at > 0 && taken[at - 1] > cost; at--) taken[at] = taken[at - 1];
		taken[at] = cost;
	}
	lp_state.recorder.head->cost_ns = (uint32_t)taken[BATCHES / 2];
	lp_thread.place = own;
	lp_thread.last = NULL;
	lp_thread.storage_ns = lp_thread.processor_ns = lp_thread.queued_ns = 0;
	lp_thread.storage_blocks = 0;
}

/* Begin a recording. Tables of the last one are emptied by their users, which detect the new
 * epoch. */
static bool begin_recording(void) {
	if (lk_recorder_open(&lp_state.recorder, lp_state.folder, lp_state.limit, lp_state.root) != 0) {
		lp_state.on = 0;
		return false;
	}
	memcpy(lp_state.recorder.head->marker, lp_state.marker, sizeof lp_state.marker);
	lp_state.recorder.head->mode = (uint32_t)lp_mode.kind; /* the numbers are the same */
	lp_state.recorder.head->delay_us = (uint32_t)(lp_state.delay_ns / 1000);
	if (!lp_state.root) lp_state.root = lp_state.recorder.head->pid;
	lp_state.origin_ns = lp_state.recorder.head->monotonic_ns;
	lp_state.threads = 0;
	lp_state.epoch++;
	lp_thread.place =
		(lk_record_place){0}; /* the parent's counters are no longer mapped in a forked child */
	lp_thread.last = NULL;
	lp_state.gate->open = 1;
	measure_record_cost();
	return begin_recorded_thread();
}

bool lp_arm(void) {
	uint32_t free = 0;
	int code = errno;
	if (lp_state.on) return true;
	if (!lp_state.folder[0]) return false;
	if (!__atomic_compare_exchange_n(&arming, &free, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	lp_gate *gate =
		mmap(NULL, GATE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool good = gate != MAP_FAILED && madvise(gate, GATE_BYTES, MADV_WIPEONFORK) == 0;
	bool was = lp_thread.busy;
	has_key = pthread_key_create(&thread_ends, end_recorded_thread) == 0;
	lp_thread.busy = true;
	lp_state.gate = gate;
	if (good && begin_recording()) __atomic_store_n(&lp_state.on, 1, __ATOMIC_RELEASE);
	lp_thread.busy = was;
	errno = code;
	return lp_state.on;
}

/* Enter for a thread's first call, or the first call of a forked child, which has its parent's
 * memory except the gate. The child's other threads do not exist. */
bool lp_enter_slow(void) {
	static uint32_t beginning;
	uint32_t free = 0;
	int code = errno;
	bool good = false;
	if (lp_state.gate->open) good = begin_recorded_thread();
	else if (__atomic_compare_exchange_n(&beginning, &free, 1, false, __ATOMIC_ACQ_REL,
	                                     __ATOMIC_RELAXED)) {
		lk_recorder_close(&lp_state.recorder);
		good = begin_recording();
		__atomic_store_n(&beginning, 0, __ATOMIC_RELEASE);
	}
	errno = code;
	return good;
}
