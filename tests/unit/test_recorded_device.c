/* test_recorded_device.c: recordings of programs with a device as captures: calls joined with their work, groups of calls as
 * one piece of it, steps that end where the host has waited, members of groups from the files beside. */
#include <limits.h>
#include <math.h>
#include <unistd.h>

#include "record/record.h"
#include "io/recording.h"
#include "scratch.h"
#include "trace/read/read.h"

enum { MB = 1 << 20, US = 1000, ALLREDUCE = 1, LAUNCH, WAIT, SEND, RECV, RECORD, STREAM_WAITS, NAMES };

struct writer {
	lk_recorder r;
	lk_record_place place;
	int64_t now;             /* of the host */
	uint64_t serial;
};

static struct writer *begin(void) {
	static const char *const names[NAMES] = {NULL, "ncclAllReduce", "cudaLaunchKernel", "cudaStreamSynchronize", "ncclSend",
	                                         "ncclRecv", "cudaEventRecord", "cudaStreamWaitEvent"};
	static struct writer w;
	memset(&w, 0, sizeof w);
	assert_int_equal(lk_recorder_open(&w.r, scratch, 8 * MB, 0), 0);
	w.r.head->rank = 1, w.r.head->world = 4;
	w.r.head->seen = LK_RECORDED_DEVICE | LK_RECORDED_NCCL;
	for (uint32_t i = 1; i < NAMES; i++) {
		lk_record_entry head = {.object = i};
		lk_recorder_text(&w.r, &w.place, &head, LK_RECORD_NAME, names[i], strlen(names[i]));
	}
	return &w;
}

static void group(struct writer *w, uint32_t number, int size, const char *said) {
	lk_record_entry head = {.object = number, .comm = {.peer = size}};
	lk_recorder_text(&w->r, &w->place, &head, LK_RECORD_GROUP, said, strlen(said));
}

static lk_record_entry *next(struct writer *w, int64_t takes) {
	lk_record_entry *e = lk_recorder_next(&w->r, &w->place);
	assert_non_null(e);
	e->start_ns = w->now += US, e->end_ns = w->now += takes;
	return e;
}

static uint64_t call(struct writer *w, lk_device_what what, uint32_t name, uint32_t stream, uint64_t serial, int64_t takes) {
	lk_record_entry *e = next(w, takes);
	e->device.what = (uint8_t)what, e->device.call = name, e->device.stream = stream, e->device.count = 1;
	e->device.serial = serial ? serial : ++w->serial;
	serial = e->device.serial;
	lk_recorder_publish(&w->r, &w->place, e, LK_RECORD_DEVICE_CALL);
	return serial;
}

static uint64_t comm(struct writer *w, lk_comm_what what, uint32_t name, uint32_t stream, int64_t bytes, uint64_t serial) {
	lk_record_entry *e = next(w, 2 * US);
	e->object = 1, e->bytes = bytes;
	e->comm.what = (uint8_t)what, e->comm.part = LK_PART_ENQUEUE, e->comm.call = name, e->comm.tag = (int32_t)stream;
	e->comm.request = serial ? serial : ++w->serial;
	serial = e->comm.request;
	e->comm.peer = what == LK_WHAT_ALLREDUCE ? -1 : 0, e->comm.from = -1;
	lk_recorder_publish(&w->r, &w->place, e, LK_RECORD_COMM);
	return serial;
}

static void work(struct writer *w, lk_device_what what, uint32_t stream, uint64_t serial, int64_t start, int64_t takes) {
	lk_record_entry *e = lk_recorder_next(&w->r, &w->place);
	assert_non_null(e);
	e->start_ns = start, e->end_ns = start + takes;
	e->device.what = (uint8_t)what, e->device.stream = stream, e->device.serial = serial, e->device.count = 1;
	lk_recorder_publish(&w->r, &w->place, e, LK_RECORD_DEVICE_WORK);
}

static lk_capture *finish(struct writer *w) {
	lk_error err = {0};
	lk_capture *c = NULL;
	char path[PATH_MAX];
	w->r.head->end_ns = w->now;
	strcpy(path, w->r.path);
	lk_recorder_close(&w->r);
	if (lk_capture_read(path, NULL, &c, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	return c;
}

static uint32_t find(const lk_capture *c, lk_event_kind kind, const char *name, int which) {
	for (uint32_t i = 0; i < c->count; i++)
		if (c->kind[i] == kind && strcmp(lk_capture_text(c, c->name[i]), name) == 0 && which-- == 0) return i;
	return LK_NONE;
}

/* Kernels, an event that the other stream waits for, an all-reduce there, and the host's wait. */
static void one_step(struct writer *w) {
	int64_t at = w->now;
	uint64_t batch = call(w, LK_DEVICE_KERNEL, LAUNCH, 1, 0, US);
	call(w, LK_DEVICE_KERNEL, LAUNCH, 1, batch, US);
	uint64_t event = call(w, LK_DEVICE_RECORD, RECORD, 1, 0, US);
	call(w, LK_DEVICE_STREAM_WAITS, STREAM_WAITS, 2, event, US);
	uint64_t sum = comm(w, LK_WHAT_ALLREDUCE, ALLREDUCE, 2, 4000, 0);
	call(w, LK_DEVICE_WAIT_STREAM, WAIT, 2, 0, 200 * US);
	work(w, LK_DEVICE_KERNEL, 1, batch, at + 10 * US, 80 * US);
	work(w, LK_DEVICE_COMM, 2, sum, at + 90 * US, 100 * US);
	w->now += 50 * US;
}

static void test_joined(void **state) {
	(void)state;
	struct writer *w = begin();
	group(w, 1, 2, "[1, 3]");
	for (int i = 0; i < 6; i++) one_step(w);
	lk_capture *c = finish(w);
	for (int i = 0; i < 6; i++) {
		uint32_t kernels = find(c, LK_EVENT_KERNEL, "kernels", i), sum = find(c, LK_EVENT_KERNEL, "ncclAllReduce", i);
		assert_true(kernels != LK_NONE && sum != LK_NONE);
		/* the first of two launches has the batch */
		assert_int_equal(c->launch[kernels], find(c, LK_EVENT_RUNTIME, "cudaLaunchKernel", 2 * i));
		assert_int_equal(c->launch[sum], find(c, LK_EVENT_RUNTIME, "ncclAllReduce", i));
		assert_int_equal(c->dur_ns[kernels], 80 * US);
		assert_int_equal(c->dur_ns[sum], 100 * US);
		assert_true(c->lane[kernels] != c->lane[sum]);
		const lk_comm_note *note = lk_capture_comm(c, sum);
		assert_non_null(note);
		assert_int_equal(note->group_size, 2);
		assert_string_equal(lk_capture_text(c, note->ranks), "[1, 3]");
		assert_true(note->in_elements == 4000);
		const lk_sync_note *waits = lk_capture_sync(c, find(c, LK_EVENT_RUNTIME, "cudaStreamWaitEvent", i));
		assert_true(waits && waits->kind == LK_SYNC_STREAM_WAITS);
		assert_int_equal(waits->stream, c->lane[sum]);
		assert_int_equal(waits->on, c->lane[kernels]);
		const lk_sync_note *host = lk_capture_sync(c, find(c, LK_EVENT_RUNTIME, "cudaStreamSynchronize", i));
		assert_true(host && host->kind == LK_SYNC_STREAM && host->stream == c->lane[sum]);
	}
	assert_int_equal(c->warnings.count, 0);
	lk_capture_free(c);
}

/* A step ends where the host has waited for the device. */
static void test_steps(void **state) {
	(void)state;
	struct writer *w = begin();
	group(w, 1, 2, "[1, 3]");
	for (int i = 0; i < 8; i++) one_step(w);
	lk_capture *c = finish(w);
	lk_capture_steps steps = {0};
	lk_error err = {0};
	assert_int_equal(lk_capture_find_steps(c, &steps, &err), LK_OK);
	assert_int_equal(steps.count, 8);
	for (size_t i = 1; i < steps.count; i++) {
		uint32_t wait = find(c, LK_EVENT_RUNTIME, "cudaStreamSynchronize", (int)i - 1);
		assert_int_equal(steps.at[i].start_ns, lk_event_end(c, wait));
	}
	lk_vec_free(&steps);
	lk_capture_free(c);
}

/* Calls of a group share their work by bytes; messages that are received lie beside. */
static void test_groups_of_calls(void **state) {
	(void)state;
	struct writer *w = begin();
	group(w, 1, 2, "[1, 3]");
	int64_t at = w->now;
	uint64_t one = comm(w, LK_WHAT_ALLREDUCE, ALLREDUCE, 1, 999, 0);
	comm(w, LK_WHAT_ALLREDUCE, ALLREDUCE, 1, 2999, one);
	uint64_t two = comm(w, LK_WHAT_SEND, SEND, 1, 500, 0);
	comm(w, LK_WHAT_RECV, RECV, 1, 700, two);
	work(w, LK_DEVICE_COMM, 1, one, at + 10 * US, 40 * US);
	work(w, LK_DEVICE_COMM, 1, two, at + 60 * US, 10 * US);
	w->now += 100 * US;
	lk_capture *c = finish(w);
	uint32_t small = find(c, LK_EVENT_KERNEL, "ncclAllReduce", 0), large = find(c, LK_EVENT_KERNEL, "ncclAllReduce", 1);
	uint32_t send = find(c, LK_EVENT_KERNEL, "ncclSend", 0), receive = find(c, LK_EVENT_KERNEL, "ncclRecv", 0);
	assert_int_equal(c->dur_ns[small], 10 * US);
	assert_int_equal(c->dur_ns[large], 30 * US);
	assert_int_equal(lk_event_end(c, small), c->start_ns[large]);
	assert_int_equal(c->start_ns[send], c->start_ns[receive]);
	assert_int_equal(c->dur_ns[send], 10 * US);
	assert_int_equal(c->dur_ns[receive], 10 * US);
	assert_true(c->lane[send] == c->lane[small] && c->lane[send] != c->lane[receive]);
	/* to rank 0 of the group, which is 1 of the world */
	assert_int_equal(lk_capture_comm(c, send)->peer, 1);
	lk_capture_free(c);
}

static void test_untimed(void **state) {
	(void)state;
	struct writer *w = begin();
	group(w, 1, 2, "[1, 3]");
	for (int i = 0; i < 4; i++) comm(w, LK_WHAT_ALLREDUCE, ALLREDUCE, 1, 4000, 0);
	lk_capture *c = finish(w);
	assert_int_equal(find(c, LK_EVENT_KERNEL, "ncclAllReduce", 0), LK_NONE);
	assert_true(find(c, LK_EVENT_RUNTIME, "ncclAllReduce", 3) != LK_NONE);
	assert_int_equal(c->warnings.count, 1);
	assert_non_null(strstr(c->warnings.at[0], "4 communications"));
	lk_capture_free(c);
}

/* ---- members ---- */

static void write_members(const char *name, const int32_t *members, size_t count) {
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/%s" LK_GROUP_ENDING, scratch, name);
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(members, sizeof *members, count, f), count);
	fclose(f);
}

static void check_members(const char *name, int size, const char *ranks) {
	char text[80];
	struct writer *w = begin();
	snprintf(text, sizeof text, "#%s", name);
	group(w, 1, size, text);
	uint64_t serial = comm(w, LK_WHAT_ALLREDUCE, ALLREDUCE, 1, 4000, 0);
	work(w, LK_DEVICE_COMM, 1, serial, w->now, 10 * US);
	w->now += 50 * US;
	lk_capture *c = finish(w);
	const lk_comm_note *note = lk_capture_comm(c, find(c, LK_EVENT_KERNEL, "ncclAllReduce", 0));
	assert_non_null(note);
	assert_string_equal(lk_capture_text(c, note->ranks), ranks);
	lk_capture_free(c);
}

static void test_members(void **state) {
	(void)state;
	write_members("00000000000000aa", (int32_t[]){2, 4}, 2);
	write_members("00000000000000bb", (int32_t[]){2, 0, 4}, 3);  /* one was not recorded */
	write_members("00000000000000cc", (int32_t[]){2}, 1);        /* shorter than the group */
	write_members("00000000000000dd", (int32_t[]){-7, INT32_MAX}, 2);
	check_members("00000000000000aa", 2, "[1, 3]");
	check_members("00000000000000bb", 3, "");
	check_members("00000000000000cc", 2, "");
	check_members("00000000000000dd", 2, "");
	check_members("00000000000000ee", 2, "");                    /* no file */
	check_members("../../../../etc/hostname", 2, "");            /* no name */
	check_members("00000000000000aa", INT32_MAX, "");
	check_members("00000000000000aa", -1, "");
}

/* ---- records that cannot be ---- */

static void test_strange(void **state) {
	(void)state;
	struct writer *w = begin();
	group(w, 1, 2, "[1, 3]");
	one_step(w);
	uint64_t serial = call(w, LK_DEVICE_WHATS, LAUNCH, 1, 0, US);
	work(w, (lk_device_what)200, 1, serial, w->now, US);
	work(w, LK_DEVICE_KERNEL, 1, serial, -5, US);
	work(w, LK_DEVICE_COMM, 3, UINT64_MAX, w->now, US);          /* no call of it */
	call(w, LK_DEVICE_WAIT_EVENT, 77, 99, UINT64_MAX, US);        /* no such name, event */
	lk_capture *c = finish(w);
	assert_int_equal(c->warnings.count, 1);
	assert_non_null(strstr(c->warnings.at[0], "3 records are damaged"));
	lk_capture_free(c);
}

/* ---- programs ---- */

static void test_elf(void **state) {
	(void)state;
	char path[PATH_MAX], cut[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
	assert_true(length > 0);
	path[length] = '\0';
	assert_true(lk_elf_needs(path, "libc.so.6"));
	assert_false(lk_elf_needs(path, "libnccl.so.2"));
	assert_false(lk_elf_needs("/none/such", "libc.so.6"));
	assert_false(lk_elf_needs("/dev/zero", "libc.so.6"));
	snprintf(cut, sizeof cut, "%s/cut", scratch);
	FILE *from = fopen(path, "rb"), *to = fopen(cut, "wb");
	char bytes[300];
	assert_true(from && to);
	assert_int_equal(fread(bytes, 1, sizeof bytes, from), sizeof bytes);
	assert_int_equal(fwrite(bytes, 1, sizeof bytes, to), sizeof bytes);
	fclose(from), fclose(to);
	assert_false(lk_elf_needs(cut, "libc.so.6"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_joined), cmocka_unit_test(test_steps), cmocka_unit_test(test_groups_of_calls),
		cmocka_unit_test(test_untimed), cmocka_unit_test(test_members), cmocka_unit_test(test_strange), cmocka_unit_test(test_elf),
	};
	return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
