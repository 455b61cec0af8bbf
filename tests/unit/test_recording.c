/* test_recording.c: recordings: what was written is read; a writer may be killed at any moment;
 * full means drop and count; torn and foreign blocks; threads that come and go; a file that another
 * put in the place. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "io/recording.h"
#include "lockstep/error.h"
#include "scratch.h"

enum { MB = 1 << 20 };

static void put(lk_recorder *recorder, lk_record_place *place, uint32_t object, int64_t value) {
	lk_record_entry *record = lk_recorder_next(recorder, place);
	if (!record) return;
	record->object = object;
	record->bytes = value;
	record->start_ns = value;
	record->end_ns = value + 1;
	lk_recorder_publish(recorder, place, record, LK_RECORD_READ);
}

static lk_recording opened(const char *path) {
	lk_recording r;
	lk_error err = {0};
	if (lk_recording_open(path, &r, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	return r;
}

static void test_round_trip(void **state) {
	(void)state;
	lk_recorder w;
	lk_record_place place = {.thread = 3};
	char text[3000];
	for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i % 26);
	assert_int_equal(lk_recorder_open(&w, scratch, 4 * MB, 0), 0);
	struct stat info;
	assert_int_equal(stat(w.path, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0600);
	for (int i = 0; i < 5000; i++) {
		put(&w, &place, 7, i);
		if (i % 100) continue;
		lk_record_entry head = {.object = (uint32_t)i};
		lk_recorder_text(&w, &place, &head, LK_RECORD_FILE, text, (size_t)i / 2);
	}
	char path[PATH_MAX];
	strcpy(path, w.path);
	lk_recorder_close(&w);
	lk_recording r = opened(path);
	static lk_recorded got;
	int reads = 0, files = 0;
	while (lk_recording_next(&r, &got)) {
		assert_int_equal(got.record.thread, 3);
		if (got.record.kind == LK_RECORD_READ) assert_int_equal(got.record.bytes, reads++);
		else {
			assert_int_equal(got.record.object, files++ * 100);
			assert_int_equal(strlen(got.text), got.record.object / 2);
			assert_memory_equal(got.text, text, strlen(got.text));
		}
	}
	assert_int_equal(reads, 5000);
	assert_int_equal(files, 50);
	assert_int_equal(r.head.dropped, 0);
	lk_recording_rewind(&r);
	assert_true(lk_recording_next(&r, &got));
	lk_recording_close(&r);
}

static void test_full(void **state) {
	(void)state;
	lk_recorder w;
	lk_record_place place = {0};
	assert_int_equal(lk_recorder_open(&w, scratch, 100, 0), EFBIG);
	assert_int_equal(lk_recorder_open(&w, scratch, 3 * LK_BLOCK_BYTES, 0), 0);
	for (int i = 0; i < 3000; i++) put(&w, &place, 1, i);
	assert_int_equal(w.head->dropped, 3000 - 2 * LK_BLOCK_RECORDS);
	assert_int_equal(w.head->growth_errno, 0);
	lk_recording r = opened(w.path);
	static lk_recorded got;
	int reads = 0;
	while (lk_recording_next(&r, &got)) assert_int_equal(got.record.bytes, reads++);
	assert_int_equal(reads, 2 * LK_BLOCK_RECORDS);
	assert_int_equal(r.head.dropped, 3000 - 2 * LK_BLOCK_RECORDS);
	lk_recording_close(&r);
	lk_recorder_close(&w);
}

/* Another file came to the name: it is not written to. */
static void test_replaced(void **state) {
	(void)state;
	lk_recorder w;
	lk_record_place place = {0};
	struct stat info;
	assert_int_equal(lk_recorder_open(&w, scratch, MB, 0), 0);
	assert_int_equal(unlink(w.path), 0);
	write_text(w.path, "mine");
	for (int i = 0; i < 3; i++) put(&w, &place, 1, i);
	assert_int_equal(w.head->dropped, 3);
	assert_int_not_equal(w.head->growth_errno, 0);
	assert_int_equal(stat(w.path, &info), 0);
	assert_int_equal(info.st_size, 4);
	lk_recorder_close(&w);
}

/* Beyond the limit of file sizes a signal would end the program. */
static void test_file_limit(void **state) {
	(void)state;
	pid_t child = fork();
	if (child == 0) {
		lk_recorder w;
		lk_record_place place = {0};
		struct rlimit most = {LK_HEADER_BYTES + LK_BLOCK_BYTES, LK_HEADER_BYTES + LK_BLOCK_BYTES};
		if (setrlimit(RLIMIT_FSIZE, &most) != 0 || lk_recorder_open(&w, scratch, MB, 0) != 0)
			_exit(1);
		for (int i = 0; i < LK_BLOCK_RECORDS + 5; i++) put(&w, &place, 1, i);
		_exit(w.head->dropped == 5 && w.head->growth_errno == EFBIG ? 0 : 2);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* ---- threads ---- */

enum { THREADS = 40, EACH = 500 };
static lk_recorder shared;
static uint32_t next_thread;

static void *work(void *unused) {
	lk_record_place place = {.thread =
	                             (uint16_t)__atomic_fetch_add(&next_thread, 1, __ATOMIC_RELAXED)};
	for (int i = 0; i < EACH; i++) put(&shared, &place, place.thread, i);
	lk_recorder_leave(&shared, &place);
	return unused;
}

static void test_threads(void **state) {
	(void)state;
	pthread_t thread[THREADS];
	static lk_recorded got;
	static bool seen[THREADS][EACH];
	assert_int_equal(lk_recorder_open(&shared, scratch, 64 * MB, 0), 0);
	for (int wave = 0; wave < THREADS; wave += 4) {
		for (int i = wave; i < wave + 4; i++)
			assert_int_equal(pthread_create(&thread[i], NULL, work, NULL), 0);
		for (int i = wave; i < wave + 4; i++) pthread_join(thread[i], NULL);
	}
	/* what threads leave of their blocks is used again: 20000 records are 20 blocks */
	assert_true(shared.head->blocks <= THREADS * EACH / LK_BLOCK_RECORDS + 8);
	lk_recording r = opened(shared.path);
	/* every record once; those of a thread in any order, for a block that another thread left may
	 * lie before its first */
	int count = 0;
	for (; lk_recording_next(&r, &got); count++) {
		assert_true(got.record.thread < THREADS && got.record.bytes >= 0 &&
		            got.record.bytes < EACH);
		assert_false(seen[got.record.thread][got.record.bytes]);
		seen[got.record.thread][got.record.bytes] = true;
	}
	assert_int_equal(count, THREADS * EACH);
	lk_recording_close(&r);
	lk_recorder_close(&shared);
}

/* ---- killed ---- */

static _Noreturn void write_forever(void) {
	lk_recorder w;
	lk_record_place place = {0};
	static const char path[] =
		"/some/where/a/path/that/takes/more/than/one/piece/of/sixty-two/bytes/in/the/recording";
	if (lk_recorder_open(&w, scratch, 16 * MB, 0) != 0) _exit(1);
	for (int64_t i = 0;; i++) {
		put(&w, &place, 1, i);
		lk_record_entry head = {.object = 2, .bytes = i};
		if (i % 7 == 0) lk_recorder_text(&w, &place, &head, LK_RECORD_FILE, path, sizeof path - 1);
	}
}

/* Every record that is there is whole, none is missing between. */
static int64_t check_killed(const char *path) {
	static lk_recorded got;
	lk_recording r;
	lk_error err = {0};
	int64_t reads = 0, files = 0;
	struct stat info;
	assert_int_equal(stat(path, &info), 0);
	if (info.st_size < LK_HEADER_BYTES) return 0;
	if (lk_recording_open(path, &r, &err) != LK_OK) {
		/* killed before the head was whole: refused in a line */
		assert_true(strstr(err.what, "no recording") != NULL);
		return 0;
	}
	while (lk_recording_next(&r, &got)) {
		if (got.record.kind == LK_RECORD_READ) {
			assert_int_equal(got.record.bytes, reads);
			assert_int_equal(got.record.end_ns, reads + 1);
			reads++;
		} else {
			assert_int_equal(got.record.bytes, files * 7);
			assert_int_equal(strlen(got.text), 85);
			files++;
		}
	}
	assert_true(files == (reads + 6) / 7 || files + 1 == (reads + 6) / 7);
	lk_recording_close(&r);
	return reads;
}

static int64_t has_record(const char *path) {
	static lk_recorded got;
	lk_recording r;
	lk_error err = {0};
	if (lk_recording_open(path, &r, &err) != LK_OK) return 0;
	bool has = lk_recording_next(&r, &got);
	lk_recording_close(&r);
	return has;
}

/* The sum of what is told of each recording in a folder. */
static int64_t in_folder(const char *folder, int64_t (*tell)(const char *path)) {
	char path[PATH_MAX];
	int64_t sum = 0;
	DIR *dir = opendir(folder);
	assert_non_null(dir);
	for (struct dirent *dirent; (dirent = readdir(dir));) {
		if (dirent->d_name[0] == '.') continue;
		snprintf(path, sizeof path, "%s/%s", folder, dirent->d_name);
		sum += tell(path);
	}
	closedir(dir);
	return sum;
}

/* A process is killed at any moment of its first milliseconds; every fourth one when it has
 * written, however long it takes. */
static void test_killed(void **state) {
	(void)state;
	int64_t all = 0;
	uint64_t random = 88172645463325252u;
	for (int i = 0; i < 100; i++) {
		char folder[64], own[64];
		strcpy(own, scratch);
		strcpy(scratch, new_folder(folder));
		pid_t child = fork();
		if (child == 0) write_forever();
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		for (int wait = 0; i % 4 == 0 && wait < 600000 && !in_folder(folder, has_record); wait++)
			usleep(1000);
		usleep((useconds_t)(random % 4000));
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, NULL, 0), child);
		all += in_folder(folder, check_killed);
		remove_folder(folder);
		strcpy(scratch, own);
	}
	assert_true(all > 0);
}

/* ---- damage ---- */

static void test_damage(void **state) {
	(void)state;
	lk_recorder w;
	lk_record_place place = {0};
	lk_recording r;
	lk_error err = {0};
	static lk_recorded got;
	char later[24];
	snprintf(later, sizeof later, "version %d", LK_RECORDING_VERSION + 1);
	assert_int_equal(lk_recorder_open(&w, scratch, MB, 0), 0);
	for (int i = 0; i < 2 * LK_BLOCK_RECORDS + 10; i++) put(&w, &place, 1, i);
	size_t size = LK_HEADER_BYTES + 3 * LK_BLOCK_BYTES;
	unsigned char *bytes = malloc(size);
	assert_non_null(bytes);
	memcpy(bytes, w.map, size);
	/* the second block was never stored */
	memset(bytes + LK_HEADER_BYTES + LK_BLOCK_BYTES, 0, LK_BLOCK_BYTES);
	assert_int_equal(lk_recording_of("torn", bytes, size, &r, &err), LK_OK);
	int reads = 0;
	while (lk_recording_next(&r, &got)) reads++;
	assert_int_equal(reads, LK_BLOCK_RECORDS + 10);
	lk_recording_close(&r);
	/* a record in the middle without a kind ends its block */
	memset(bytes + LK_HEADER_BYTES + 100 * LK_RECORD_BYTES, 0, 2);
	assert_int_equal(lk_recording_of("torn", bytes, size - 1, &r, &err), LK_OK);
	for (reads = 0; lk_recording_next(&r, &got);) reads++;
	assert_int_equal(reads, 99);
	lk_recording_close(&r);
	/* another version, no recording, nothing */
	bytes[8]++;
	assert_int_equal(lk_recording_of("new", bytes, size, &r, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, later));
	bytes[0]++;
	assert_int_equal(lk_recording_of("other", bytes, size, &r, &err), LK_ERR_INPUT);
	assert_int_equal(lk_recording_of("short", bytes, 10, &r, &err), LK_ERR_INPUT);
	assert_int_equal(lk_recording_open(scratch, &r, &err), LK_ERR_INPUT);
	assert_int_equal(lk_recording_open("/no/such", &r, &err), LK_ERR_IO);
	free(bytes);
	lk_recorder_close(&w);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip), cmocka_unit_test(test_full),
		cmocka_unit_test(test_replaced),   cmocka_unit_test(test_file_limit),
		cmocka_unit_test(test_threads),    cmocka_unit_test(test_killed),
		cmocka_unit_test(test_damage),
	};
	return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
