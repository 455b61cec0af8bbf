/* recorder.c: when a process is armed, what becomes of its children, how it says goodbye. */
#include "recorder/overlay/overlay.h"
#include "recorder/mode.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	DEFAULT_MB = 64,
	SAMPLES = LK_BLOCK_RECORDS / 2
};

lp_state_of lp_state;
__thread lp_thread_of lp_thread __attribute__((tls_model("initial-exec")));

static uint32_t arming;
static pthread_key_t thread_ends;
static bool has_key;

/* ---- symbols ---- */

/* MPI may be loaded where the search for the next symbol does not look: by a module of Python. */
static void *in_libraries(const char *name) {
	static const char *const libraries[] = {"libmpi.so.40", "libmpi.so.12", "libmpich.so.12",
	                                        "libmpi_mpifh.so.40", "libmpifort.so.12"};
	for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
		void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
		void *found = library ? dlsym(library, name) : NULL;
		if (library) dlclose(library);
		if (found) return found;
	}
	return NULL;
}

static void *must_be(void *found) {
	static const char text[] =
		"lockstep-probe: a function that the program calls is in none of its libraries\n";
	if (found) return found;
	if (syscall(SYS_write, 2, text, sizeof text - 1) < 0) abort();
	abort();
}

void *lp_symbol_if(const char *name) {
	int code = errno;
	void *found = dlsym(RTLD_NEXT, name);
	if (!found) found = in_libraries(name);
	errno = code;
	return found;
}

void *lp_symbol(const char *name) {
	return must_be(lp_symbol_if(name));
}

/* The linker may have copied a library's variable into the program; then that copy is the one in
 * use. */
void *lp_variable(const char *name) {
	void *found = dlsym(RTLD_DEFAULT, name);
	return must_be(found ? found : in_libraries(name));
}

/* ---- arming ---- */

static void end_thread(void *unused) {
	(void)unused;
	bool mine = lp_state.on && lp_thread.epoch == lp_state.epoch && lp_state.gate->open;
	if (mine) lk_recorder_leave(&lp_state.recorder, &lp_thread.place);
	lp_thread.busy = true; /* what the thread's end still calls is not recorded */
}

void lp_text(const lk_record_entry *record, lk_record_kind kind, const char *text) {
	lp_thread.last = NULL;
	lk_recorder_text(&lp_state.recorder, &lp_thread.place, record, kind, text, strlen(text));
}

/* This thread's first record in a recording. */
static bool begin_thread(void) {
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
	return true;
}

/* What one record costs here, two looks at the clock included: some are written into a block that
 * nobody reads, which has room for as many of what the kernel read meanwhile. */
static void measure_cost(void) {
	static lk_record_block scratch;
	lk_record_place own = lp_thread.place;
	lp_thread.place = (lk_record_place){.block = &scratch};
	int64_t begin = lk_monotonic_ns();
	for (uint32_t i = 0; i < SAMPLES; i++) {
		int64_t start = lp_now();
		lp_io(LK_RECORD_READ, i, start, lp_now(), 1, -1, false);
	}
	lp_state.recorder.head->cost_ns = (uint32_t)((lk_monotonic_ns() - begin) / SAMPLES);
	lp_thread.place = own;
	lp_thread.last = NULL;
	lp_thread.storage_ns = 0, lp_thread.storage_blocks = 0;
}

static bool begin_recording(void) {
	if (lk_recorder_open(&lp_state.recorder, lp_state.folder, lp_state.limit, lp_state.root) != 0)
		return lp_state.on = 0, false;
	memcpy(lp_state.recorder.head->marker, lp_state.marker, sizeof lp_state.marker);
	lp_state.recorder.head->mode = (uint32_t)lp_mode.kind; /* the same numbers */
	lp_state.recorder.head->delay_us = (uint32_t)(lp_state.delay_ns / 1000);
	if (!lp_state.root) lp_state.root = lp_state.recorder.head->pid;
	lp_state.origin_ns = lp_state.recorder.head->monotonic_ns;
	lp_state.threads = 0;
	lp_state.epoch++;
	lp_thread.place = (lk_record_place){
		0}; /* of a forked child: those of its parent, which are no longer mapped */
	lp_thread.last = NULL;
	lp_files_reset();
	lp_sockets_reset();
	lp_mpi_reset();
	lp_gpu_reset();
	lp_nccl_reset();
	lp_profiler_reset();
	lp_state.gate->open = 1;
	measure_cost();
	return begin_thread();
}

bool lp_arm(void) {
	uint32_t free = 0;
	int code = errno;
	if (lp_state.on) return true;
	if (!lp_state.folder[0]) return false;
	if (!__atomic_compare_exchange_n(&arming, &free, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	lp_gate *gate = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool good = gate != MAP_FAILED && madvise(gate, 4096, MADV_WIPEONFORK) == 0;
	bool was = lp_thread.busy;
	lp_thread.busy = true;
	lp_state.gate = gate;
	if (good && begin_recording()) __atomic_store_n(&lp_state.on, 1, __ATOMIC_RELEASE);
	lp_thread.busy = was;
	errno = code;
	return lp_state.on;
}

/* A thread's first call; or the first call of a forked child, which has its parent's memory but for
 * the gate. The child's other threads do not exist. */
bool lp_enter_slow(void) {
	static uint32_t beginning;
	uint32_t free = 0;
	int code = errno;
	bool good = false;
	if (lp_state.gate->open) good = begin_thread();
	else if (__atomic_compare_exchange_n(&beginning, &free, 1, false, __ATOMIC_ACQ_REL,
	                                     __ATOMIC_RELAXED)) {
		lk_recorder_close(&lp_state.recorder);
		good = begin_recording();
		__atomic_store_n(&beginning, 0, __ATOMIC_RELEASE);
	}
	errno = code;
	return good;
}

/* ---- beginning and end ---- */

static bool named(const char *list, const char *name) {
	size_t length = strlen(name);
	for (const char *at = list; *at;) {
		size_t part = strcspn(at, ",");
		if (part == length && strncmp(at, name, length) == 0) return true;
		at += part + (at[part] == ',');
	}
	return false;
}

static uint64_t number(const char *text, uint64_t otherwise) {
	char *end;
	unsigned long long value = text ? strtoull(text, &end, 10) : 0;
	return text && *text && !*end ? value : otherwise;
}

__attribute__((constructor)) static void begin_process(void) {
	lp_guard_active();
	const char *folder = getenv("LOCKSTEP_RECORD"), *program = getenv("LOCKSTEP_RECORD_PROGRAM");
	if (!folder || folder[0] != '/' || strlen(folder) >= sizeof lp_state.folder ||
	    getauxval(AT_SECURE))
		return;
	strcpy(lp_state.folder, folder);
	uint64_t mb = number(getenv("LOCKSTEP_RECORD_MB"), DEFAULT_MB);
	lp_state.limit = (mb < 1 || mb > 16384 ? DEFAULT_MB : mb) << 20;
	lp_state.delay_ns = (int64_t)(number(getenv("LOCKSTEP_RECORD_DELAY"), 0) % 1000000000) * 1000;
	lp_mode_read();
	const char *marker = getenv("LOCKSTEP_RECORD_MARKER");
	if (marker && strlen(marker) < sizeof lp_state.marker) strcpy(lp_state.marker, marker);
	uint64_t rank = number(getenv("RANK"), UINT64_MAX), world = number(getenv("WORLD_SIZE"), 0);
	lp_state.rank = -1;
	if (rank < world && world < 1 << 24) lp_state.rank = (int)rank, lp_state.world = (int)world;
	has_key = pthread_key_create(&thread_ends, end_thread) == 0;
	if (!lp_is_plugin && program && named(program, program_invocation_short_name)) lp_arm();
}

/* Rings of io_uring are mapped; what goes through them is not seen. */
static bool maps_uring(void) {
	char text[4096 + 16];
	size_t kept = 0;
	bool found = false;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	for (long got; fd >= 0 && !found && (got = syscall(SYS_read, fd, text + kept, 4096)) > 0;) {
		size_t size = kept + (size_t)got;
		found = memmem(text, size, "[io_uring]", 10) != NULL;
		kept = size < 9 ? size : 9;
		memmove(text, text + size - kept, kept);
	}
	if (fd >= 0) syscall(SYS_close, fd);
	return found;
}

/* Of this process, not of the parent of a vfork, whose memory it shares. */
void lp_leave_process(void) {
	struct rusage use;
	bool uring = (lp_state.on || lp_guard.on) && maps_uring();
	if (lp_guard.on && uring)
		lp_guard_tell(program_invocation_short_name,
		              "has an io_uring, whose writes are not guarded");
	if (!lp_state.on || !lp_state.gate->open || lp_thread.busy) return;
	lk_recording_head *head = lp_state.recorder.head;
	if (head->pid != (uint32_t)getpid()) return;
	int code = errno;
	if (getrusage(RUSAGE_SELF, &use) == 0)
		head->major_faults = (uint64_t)use.ru_majflt,
		head->storage_bytes = (uint64_t)use.ru_inblock * 512;
	if (uring) __atomic_fetch_or(&head->seen, LK_RECORDED_URING, __ATOMIC_RELAXED);
	__atomic_store_n(&head->end_ns, lp_now(), __ATOMIC_RELEASE);
	errno = code;
}

__attribute__((destructor)) static void end_process(void) {
	lp_leave_process();
}

LP_EXPORT void _exit(int status) {
	lp_leave_process();
	for (;;) syscall(SYS_exit_group, status);
}

LP_EXPORT void _Exit(int status) {
	_exit(status);
}
