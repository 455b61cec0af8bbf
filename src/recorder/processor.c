/* processor.c: how long the process has computed, recorded where calls of communication begin and
 * end: of the time between two calls, what it slept, waited for a disk, or was not on a processor.
 */
#include "recorder/recorder.h"

#include <time.h>

/* Asking the kernel takes some 0.2 us: calls in a close sequence share an answer. */
enum {
	PROCESSOR_NS = 50000
};

void lp_record_processor(int64_t now) {
	struct timespec spent;
	int64_t since = now - lp_thread.processor_ns;
	if (LP_HOT(lp_thread.processor_ns && since >= 0 && since < PROCESSOR_NS)) return;
	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent) != 0) return;
	lk_record_entry *record = lp_next();
	if (!record) return;
	lp_thread.processor_ns = now;
	record->start_ns = record->end_ns = now;
	record->bytes = (int64_t)spent.tv_sec * 1000000000 + spent.tv_nsec;
	lp_publish(record, LK_RECORD_PROCESSOR);
}
