/* test_recorded_device.c: recordings of programs with a device as captures: calls joined with their
 * work, groups of calls as one piece of it, steps that end where the host has waited, members of
 * groups from the files beside. */
#include <limits.h>
#include <math.h>
#include <unistd.h>

#include "record/record.h"
#include "io/recording.h"
#include "scratch.h"
#include "trace/read/read.h"

enum {
	MB = 1 << 20,
	US = 1000,
	ALLREDUCE = 1,
	LAUNCH,
	WAIT,
	SEND,
	RECV,
	RECORD,
	STREAM_WAITS,
	NAMES
};

struct writer {
	lk_recorder r;
	lk_record_place place;
	int64_t now; /* of the host */
	uint64_t serial;
};

static struct writer *begin(void) {
	static const char *const names[NAMES] = {
		NULL,       "ncclAllReduce", "cudaLaunchKernel", "cudaStreamSynchronize",
		"ncclSend", "ncclRecv",      "cudaEventRecord",  "cudaStreamWaitEvent"};
	static struct writer w;
	memset(&w, 0, sizeof w);
	assert_int_equal(lk_recorder_open(&w.r, scratch, 8 * MB, 0), 0);
	w.r.head->rank = 1;
	w.r.head->world = 4;
	w.r.head->seen = LK_RECORDED_DEVICE | LK_RECORDED_NCCL;
	for (uint32_t i = 1; i < NAMES; i++) {
		lk_record_entry head = {.object = i};
		lk_recorder_text(&w.r, &w.place, &head, LK_RECORD_NAME, names[i], strlen(names[i]));
	}
	return &w;
}

static void group(struct writer *writer, uint32_t number, int size, const char *said) {
	lk_record_entry head = {.object = number, .comm = {.peer = size}};
	lk_recorder_text(&writer->r, &writer->place, &head, LK_RECORD_GROUP, said, strlen(said));
}

static lk_record_entry *next(struct writer *writer, int64_t takes) {
	lk_record_entry *entry = lk_recorder_next(&writer->r, &writer->place);
	assert_non_null(entry);
	entry->start_ns = writer->now += US;
	entry->end_ns = writer->now += takes;
	return entry;
}

static uint64_t call(struct writer *writer, lk_device_what what, uint32_t name, uint32_t stream,
                     uint64_t serial, int64_t takes) {
	lk_record_entry *entry = next(writer, takes);
	entry->device.what = (uint8_t)what;
	entry->device.call = name;
	entry->device.stream = stream;
	entry->device.count = 1;
	entry->device.serial = serial ? serial : ++writer->serial;
	serial = entry->device.serial;
	lk_recorder_publish(&writer->r, &writer->place, entry, LK_RECORD_DEVICE_CALL);
	return serial;
}

static uint64_t comm(struct writer *writer, lk_comm_what what, uint32_t name, uint32_t stream,
                     int64_t bytes, uint64_t serial) {
	lk_record_entry *entry = next(writer, 2 * US);
	entry->object = 1;
	entry->bytes = bytes;
	entry->comm.what = (uint8_t)what;
	entry->comm.part = LK_PART_ENQUEUE;
	entry->comm.call = name;
	entry->comm.tag = (int32_t)stream;
	entry->comm.request = serial ? serial : ++writer->serial;
	serial = entry->comm.request;
	entry->comm.peer = what == LK_WHAT_ALLREDUCE ? -1 : 0, entry->comm.from = -1;
	lk_recorder_publish(&writer->r, &writer->place, entry, LK_RECORD_COMM);
	return serial;
}

static void work(struct writer *writer, lk_device_what what, uint32_t stream, uint64_t serial,
                 int64_t start, int64_t takes) {
	lk_record_entry *entry = lk_recorder_next(&writer->r, &writer->place);
	assert_non_null(entry);
	entry->start_ns = start;
	entry->end_ns = start + takes;
	entry->device.what = (uint8_t)what;
	entry->device.stream = stream;
	entry->device.serial = serial;
	entry->device.count = 1;
	lk_recorder_publish(&writer->r, &writer->place, entry, LK_RECORD_DEVICE_WORK);
}

static lk_capture *finish(struct writer *writer) {
	lk_error err = {0};
	lk_capture *capture = NULL;
	char path[PATH_MAX];
	writer->r.head->end_ns = writer->now;
	strcpy(path, writer->r.path);
	lk_recorder_close(&writer->r);
	if (lk_trace_read(path, false, NULL, &capture, &(lk_works *){NULL}, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	return capture;
}

static uint32_t find(const lk_capture *capture, lk_event_kind kind, const char *name, int which) {
	for (uint32_t i = 0; i < capture->count; i++)
		if (capture->kind[i] == kind &&
		    strcmp(lk_capture_text(capture, capture->name[i]), name) == 0 && which-- == 0)
			return i;
	return LK_NONE;
}

/* Kernels, an event that the other stream waits for, an all-reduce there, and the host's wait. */
static void one_step(struct writer *writer) {
	int64_t at = writer->now;
	uint64_t batch = call(writer, LK_DEVICE_KERNEL, LAUNCH, 1, 0, US);
	call(writer, LK_DEVICE_KERNEL, LAUNCH, 1, batch, US);
	uint64_t event = call(writer, LK_DEVICE_RECORD, RECORD, 1, 0, US);
	call(writer, LK_DEVICE_STREAM_WAITS, STREAM_WAITS, 2, event, US);
	uint64_t sum = comm(writer, LK_WHAT_ALLREDUCE, ALLREDUCE, 2, 4000, 0);
	call(writer, LK_DEVICE_WAIT_STREAM, WAIT, 2, 0, 200 * US);
	work(writer, LK_DEVICE_KERNEL, 1, batch, at + 10 * US, 80 * US);
	work(writer, LK_DEVICE_COMM, 2, sum, at + 90 * US, 100 * US);
	writer->now += 50 * US;
}

static void test_joined(void **state) {
	(void)state;
	struct writer *writer = begin();
	group(writer, 1, 2, "[1, 3]");
	for (int i = 0; i < 6; i++) one_step(writer);
	lk_capture *capture = finish(writer);
	for (int i = 0; i < 6; i++) {
		uint32_t kernels = find(capture, LK_EVENT_KERNEL, "kernels", i),
				 sum = find(capture, LK_EVENT_KERNEL, "ncclAllReduce", i);
		assert_true(kernels != LK_NONE && sum != LK_NONE);
		/* the first of two launches has the batch */
		assert_int_equal(capture->launch[kernels],
		                 find(capture, LK_EVENT_RUNTIME, "cudaLaunchKernel", 2 * i));
		assert_int_equal(capture->launch[sum], find(capture, LK_EVENT_RUNTIME, "ncclAllReduce", i));
		assert_int_equal(capture->dur_ns[kernels], 80 * US);
		assert_int_equal(capture->dur_ns[sum], 100 * US);
		assert_true(capture->lane[kernels] != capture->lane[sum]);
		const lk_comm_note *note = lk_capture_comm(capture, sum);
		assert_non_null(note);
		assert_int_equal(note->group_size, 2);
		assert_string_equal(lk_capture_text(capture, note->ranks), "[1, 3]");
		assert_true(note->in_elements == 4000);
		const lk_sync_note *waits =
			lk_capture_sync(capture, find(capture, LK_EVENT_RUNTIME, "cudaStreamWaitEvent", i));
		assert_true(waits && waits->kind == LK_SYNC_STREAM_WAITS);
		assert_int_equal(waits->stream, capture->lane[sum]);
		assert_int_equal(waits->on, capture->lane[kernels]);
		const lk_sync_note *host =
			lk_capture_sync(capture, find(capture, LK_EVENT_RUNTIME, "cudaStreamSynchronize", i));
		assert_true(host && host->kind == LK_SYNC_STREAM && host->stream == capture->lane[sum]);
	}
	assert_int_equal(capture->warnings.count, 0);
	lk_capture_free(capture);
}

/* A step ends where the host has waited for the device. */
static void test_steps(void **state) {
	(void)state;
	struct writer *writer = begin();
	group(writer, 1, 2, "[1, 3]");
	for (int i = 0; i < 8; i++) one_step(writer);
	lk_capture *capture = finish(writer);
	lk_capture_steps steps = {0};
	lk_error err = {0};
	assert_int_equal(lk_capture_find_steps(capture, &steps, &err), LK_OK);
	assert_int_equal(steps.count, 8);
	for (size_t i = 1; i < steps.count; i++) {
		uint32_t wait = find(capture, LK_EVENT_RUNTIME, "cudaStreamSynchronize", (int)i - 1);
		assert_int_equal(steps.at[i].start_ns, lk_event_end(capture, wait));
	}
	lk_vec_free(&steps);
	lk_capture_free(capture);
}

/* Calls of a group share their work by bytes; messages that are received lie beside. */
static void test_groups_of_calls(void **state) {
	(void)state;
	struct writer *writer = begin();
	group(writer, 1, 2, "[1, 3]");
	int64_t at = writer->now;
	uint64_t one = comm(writer, LK_WHAT_ALLREDUCE, ALLREDUCE, 1, 999, 0);
	comm(writer, LK_WHAT_ALLREDUCE, ALLREDUCE, 1, 2999, one);
	uint64_t two = comm(writer, LK_WHAT_SEND, SEND, 1, 500, 0);
	comm(writer, LK_WHAT_RECV, RECV, 1, 700, two);
	work(writer, LK_DEVICE_COMM, 1, one, at + 10 * US, 40 * US);
	work(writer, LK_DEVICE_COMM, 1, two, at + 60 * US, 10 * US);
	writer->now += 100 * US;
	lk_capture *capture = finish(writer);
	uint32_t small = find(capture, LK_EVENT_KERNEL, "ncclAllReduce", 0),
			 large = find(capture, LK_EVENT_KERNEL, "ncclAllReduce", 1);
	uint32_t send = find(capture, LK_EVENT_KERNEL, "ncclSend", 0),
			 receive = find(capture, LK_EVENT_KERNEL, "ncclRecv", 0);
	assert_int_equal(capture->dur_ns[small], 10 * US);
	assert_int_equal(capture->dur_ns[large], 30 * US);
	assert_int_equal(lk_event_end(capture, small), capture->start_ns[large]);
	assert_int_equal(capture->start_ns[send], capture->start_ns[receive]);
	assert_int_equal(capture->dur_ns[send], 10 * US);
	assert_int_equal(capture->dur_ns[receive], 10 * US);
	assert_true(capture->lane[send] == capture->lane[small] &&
	            capture->lane[send] != capture->lane[receive]);
	/* to rank 0 of the group, which is 1 of the world */
	assert_int_equal(lk_capture_comm(capture, send)->peer, 1);
	lk_capture_free(capture);
}

static void test_untimed(void **state) {
	(void)state;
	struct writer *writer = begin();
	group(writer, 1, 2, "[1, 3]");
	for (int i = 0; i < 4; i++) comm(writer, LK_WHAT_ALLREDUCE, ALLREDUCE, 1, 4000, 0);
	lk_capture *capture = finish(writer);
	assert_int_equal(find(capture, LK_EVENT_KERNEL, "ncclAllReduce", 0), LK_NONE);
	assert_true(find(capture, LK_EVENT_RUNTIME, "ncclAllReduce", 3) != LK_NONE);
	assert_int_equal(capture->warnings.count, 1);
	assert_non_null(strstr(capture->warnings.at[0], "4 communications"));
	lk_capture_free(capture);
}

/* ---- members ---- */

static void write_members(const char *name, const int32_t *members, size_t count) {
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/%s" LK_GROUP_ENDING, scratch, name);
	FILE *IO_FILE = fopen(path, "wb");
	assert_non_null(IO_FILE);
	assert_int_equal(fwrite(members, sizeof *members, count, IO_FILE), count);
	fclose(IO_FILE);
}

static void check_members(const char *name, int size, const char *ranks) {
	char text[80];
	struct writer *writer = begin();
	snprintf(text, sizeof text, "#%s", name);
	group(writer, 1, size, text);
	uint64_t serial = comm(writer, LK_WHAT_ALLREDUCE, ALLREDUCE, 1, 4000, 0);
	work(writer, LK_DEVICE_COMM, 1, serial, writer->now, 10 * US);
	writer->now += 50 * US;
	lk_capture *capture = finish(writer);
	const lk_comm_note *note =
		lk_capture_comm(capture, find(capture, LK_EVENT_KERNEL, "ncclAllReduce", 0));
	assert_non_null(note);
	assert_string_equal(lk_capture_text(capture, note->ranks), ranks);
	lk_capture_free(capture);
}

static void test_members(void **state) {
	(void)state;
	write_members("00000000000000aa", (int32_t[]){2, 4}, 2);
	write_members("00000000000000bb", (int32_t[]){2, 0, 4}, 3); /* one was not recorded */
	write_members("00000000000000cc", (int32_t[]){2}, 1);       /* shorter than the group */
	write_members("00000000000000dd", (int32_t[]){-7, INT32_MAX}, 2);
	check_members("00000000000000aa", 2, "[1, 3]");
	check_members("00000000000000bb", 3, "");
	check_members("00000000000000cc", 2, "");
	check_members("00000000000000dd", 2, "");
	check_members("00000000000000ee", 2, "");         /* no file */
	check_members("../../../../etc/hostname", 2, ""); /* no name */
	check_members("00000000000000aa", INT32_MAX, "");
	check_members("00000000000000aa", -1, "");
}

/* ---- records that cannot be ---- */

static void test_strange(void **state) {
	(void)state;
	struct writer *writer = begin();
	group(writer, 1, 2, "[1, 3]");
	one_step(writer);
	uint64_t serial = call(writer, LK_DEVICE_WHATS, LAUNCH, 1, 0, US);
	work(writer, (lk_device_what)200, 1, serial, writer->now, US);
	work(writer, LK_DEVICE_KERNEL, 1, serial, -5, US);
	work(writer, LK_DEVICE_COMM, 3, UINT64_MAX, writer->now, US); /* no call of it */
	call(writer, LK_DEVICE_WAIT_EVENT, 77, 99, UINT64_MAX, US);   /* no such name, event */
	lk_capture *capture = finish(writer);
	assert_int_equal(capture->damaged, 3);
	assert_non_null(strstr(capture->damages.at[0], "records that are damaged"));
	lk_capture_free(capture);
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
	assert_true(lk_elf_has_loader(path, "/ld-"));
	assert_false(lk_elf_has_loader(path, "/ld-musl-"));
	assert_false(lk_elf_has_loader("/none/such", "/"));
	assert_false(lk_elf_has_loader("/dev/zero", "/"));
	assert_false(lk_elf_needs("/none/such", "libc.so.6"));
	assert_false(lk_elf_needs("/dev/zero", "libc.so.6"));
	snprintf(cut, sizeof cut, "%s/cut", scratch);
	FILE *from = fopen(path, "rb"), *to = fopen(cut, "wb");
	char bytes[300];
	assert_true(from && to);
	assert_int_equal(fread(bytes, 1, sizeof bytes, from), sizeof bytes);
	assert_int_equal(fwrite(bytes, 1, sizeof bytes, to), sizeof bytes);
	fclose(from);
	fclose(to);
	assert_false(lk_elf_needs(cut, "libc.so.6"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_joined),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_groups_of_calls),
		cmocka_unit_test(test_untimed),
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_strange),
		cmocka_unit_test(test_elf),
	};
	return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
