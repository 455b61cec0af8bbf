/* start.c: begin and end of a process: reads the settings, arms the process if its program is to be
 * recorded, and ends the recording. */
#include "recorder/start/start.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/overlay/overlay.h"
#include "recorder/recorder.h"

enum {
	DEFAULT_MB = 64,
	MOST_MB = 16384,
	MOST_RANKS = 1 << 24,
	LONGEST_DELAY_US = 1000000000,
	STORAGE_BLOCK = 512
};

static bool is_name_in_list(const char *list, const char *name) {
	size_t length = strlen(name);
	for (const char *at = list; *at;) {
		size_t part = strcspn(at, ",");
		if (part == length && strncmp(at, name, length) == 0) return true;
		at += part + (at[part] == ',');
	}
	return false;
}

static uint64_t parse_setting_number(const char *text, uint64_t otherwise) {
	char *end;
	unsigned long long value = text ? strtoull(text, &end, 10) : 0;
	return text && *text && !*end ? value : otherwise;
}

/* The rank that a launcher states; the first of these that is one counts. */
static void read_launched_rank(void) {
	static const char *const names[][2] = {{"RANK", "WORLD_SIZE"},
	                                       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
	                                       {"PMI_RANK", "PMI_SIZE"},
	                                       {"SLURM_PROCID", "SLURM_NTASKS"}};
	lp_state.rank = -1;
	for (size_t i = 0; i < sizeof names / sizeof *names && lp_state.rank < 0; i++) {
		uint64_t rank = parse_setting_number(getenv(names[i][0]), UINT64_MAX),
				 world = parse_setting_number(getenv(names[i][1]), 0);
		if (rank >= world || world >= MOST_RANKS) continue;
		lp_state.rank = (int)rank;
		lp_state.world = (int)world;
	}
}

__attribute__((constructor)) static void read_recorder_settings(void) {
	lp_find_libc();
	lp_find_python();
	lp_overlay_is_active(); /* before the program opens anything: files open now were inherited */
	const char *folder = getenv("LOCKSTEP_RECORD"), *program = getenv("LOCKSTEP_RECORD_PROGRAM");
	if (!folder || folder[0] != '/' || strlen(folder) >= sizeof lp_state.folder ||
	    getauxval(AT_SECURE))
		return;
	strcpy(lp_state.folder, folder);
	uint64_t mb = parse_setting_number(getenv("LOCKSTEP_RECORD_MB"), DEFAULT_MB);
	lp_state.limit = (mb < 1 || mb > MOST_MB ? DEFAULT_MB : mb) << 20;
	lp_state.delay_ns =
		(int64_t)(parse_setting_number(getenv("LOCKSTEP_RECORD_DELAY"), 0) % LONGEST_DELAY_US) *
		1000;
	lp_mode_read();
	const char *marker = getenv("LOCKSTEP_RECORD_MARKER");
	if (marker && strlen(marker) < sizeof lp_state.marker) strcpy(lp_state.marker, marker);
	read_launched_rank();
	if (!lp_is_plugin && program && is_name_in_list(program, program_invocation_short_name))
		lp_arm();
}

/* io_uring's rings are mapped; operations through them are not recorded. */
static bool maps_io_uring(void) {
	struct piece {
		char text[4096 + 16];
	};
	LP_TAKE(struct piece, piece, false);
	char *text = piece->text;
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

/* End the recording: of this process, not of the parent of a vfork, whose memory it shares. */
static void leave_process(void) {
	struct rusage use;
	bool uring = (lp_state.on || lp_overlay.on) && maps_io_uring();
	if (lp_overlay.on && uring)
		lp_overlay_log(program_invocation_short_name,
		               "has an io_uring, whose writes are not guarded");
	if (!lp_state.on || !lp_state.gate->open || lp_thread.busy) return;
	lk_recording_head *head = lp_state.recorder.head;
	if (head->pid != (uint32_t)getpid()) return;
	int code = errno;
	if (getrusage(RUSAGE_SELF, &use) == 0) {
		head->major_faults = (uint64_t)use.ru_majflt;
		head->storage_bytes = (uint64_t)use.ru_inblock * STORAGE_BLOCK;
	}
	if (uring) __atomic_fetch_or(&head->seen, LK_RECORDED_URING, __ATOMIC_RELAXED);
	__atomic_store_n(&head->end_ns, lp_now(), __ATOMIC_RELEASE);
	errno = code;
}

__attribute__((destructor)) static void end_recorded_process(void) {
	leave_process();
}

LP_EXPORT void _exit(int status) {
	leave_process();
	for (;;) syscall(SYS_exit_group, status);
}

LP_EXPORT void _Exit(int status) {
	_exit(status);
}
