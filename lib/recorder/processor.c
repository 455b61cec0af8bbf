/* processor.c: computation time of the process and the calling thread, and what kept the thread
 * from computing (sleep, a disk, another thread on its processor), recorded where calls of
 * communication begin and end, and now and then at other calls.
 *
 *     process   clock_gettime(CLOCK_PROCESS_CPUTIME_ID)
 *     thread    getrusage(RUSAGE_THREAD): time, major faults, switches
 *     queue     /proc/self/task/TID/schedstat: nanoseconds on a processor, waiting for one,
 * turns */
#include "recorder/recorder.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Reading the queue takes 8 us, because its file is opened each time. */
enum { QUEUE_NS = 5000000 };

/* -1 if it was read a moment ago or is not available. */
static int64_t ask_queued_ns(int64_t now) {
	char path[64], text[96], digits[LP_DIGITS];
	const char *at = text;
	int64_t since = now - lp_thread.queued_ns;
	if (lp_thread.queued_ns && since >= 0 && since < QUEUE_NS) return -1;
	lp_thread.queued_ns = now;
	lp_join(path, sizeof path, "/proc/self/task/", lp_digits((uint64_t)syscall(SYS_gettid), digits),
	        "/schedstat", LP_END);
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) return -1;
	long size = syscall(SYS_read, fd, text, sizeof text - 1);
	syscall(SYS_close, fd);
	if (size <= 0) return -1;
	text[size] = '\0';
	lp_number_at(&at); /* computed */
	return *at == ' ' ? (int64_t)lp_number_at(&at) : -1;
}

static int64_t timeval_ns(struct timeval time) {
	return (int64_t)time.tv_sec * 1000000000 + (int64_t)time.tv_usec * 1000;
}

void lp_ask_processor(int64_t now) {
	struct timespec process;
	struct rusage thread;
	lp_thread.processor_ns = now; /* also if the recording is full */
	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &process) != 0 ||
	    getrusage(RUSAGE_THREAD, &thread) != 0)
		return;
	int code = errno;
	int64_t queued = ask_queued_ns(now);
	errno = code;
	lk_record_entry *record = lp_next();
	if (!record) return;
	record->start_ns = record->end_ns = now;
	record->bytes = (int64_t)process.tv_sec * 1000000000 + process.tv_nsec;
	record->use.computed_ns = timeval_ns(thread.ru_utime) + timeval_ns(thread.ru_stime);
	record->use.queued_ns = queued;
	record->use.major_faults = (uint32_t)thread.ru_majflt;
	record->use.gave_up = (uint32_t)thread.ru_nvcsw;
	record->use.preempted = (uint32_t)thread.ru_nivcsw;
	lp_publish(record, LK_RECORD_PROCESSOR);
}
