/* user_marks.c: parts of its work that the program names itself, by include/lockstep/mark.h, by
 * lockstep.mark of Python, or by ranges of NVTX (nvtx.c).
 *
 * The begin and the end of a mark are records of their own, so that one that never ends is not
 * lost. Its times are those of the thread that began it. */
#include "recorder/recorder.h"

void lp_mark(lk_mark_part part, int64_t domain, const char *name) {
	if (!lp_enter()) return;
	int code = errno;
	int64_t now = lp_now();
	lk_record_entry record = {.object = part, .start_ns = now, .end_ns = now, .bytes = domain};
	lp_record_processor(now, LP_AT_COMM);
	lp_text(&record, LK_RECORD_MARK, name);
	errno = code;
	lp_leave();
}

void lockstep_probe_mark_begin(const char *name);
void lockstep_probe_mark_end(void);

LP_EXPORT void lockstep_probe_mark_begin(const char *name) {
	lp_mark(LK_MARK_BEGINS, 0, name ? name : "");
}
LP_EXPORT void lockstep_probe_mark_end(void) {
	lp_mark(LK_MARK_ENDS, 0, "");
}
