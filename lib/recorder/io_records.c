/* io_records.c: records of reads and writes, for any file or connection. */
#include "recorder/recorder.h"

#include <sys/resource.h>

/* Calls that follow each other this closely (nanoseconds) are one record: a file read in small
 * pieces would fill the recording. */
enum { CLOSE_NS = 20000 };

static bool merge_io_record(lk_record_kind kind, uint32_t file, int64_t start, int64_t end,
                            int64_t bytes, int64_t offset, bool moved) {
	lk_record_entry *last = lp_thread.last;
	if (!last || last->kind != kind || last->object != file || start - last->end_ns > CLOSE_NS)
		return false;
	if (last->io.count == UINT32_MAX) return false;
	last->io.sequential += offset < 0 ? !moved : last->io.offset == offset - bytes;
	last->io.offset = offset;
	last->io.busy_ns += end - start;
	last->io.count++;
	if (bytes > last->io.most) last->io.most = bytes;
	last->bytes += bytes;
	last->end_ns = end;
	return true;
}

/* The kernel counts a thread's reads from storage, including read-ahead and whole pages. The
 * counter is read now and then, and recorded if it has grown. */
enum { STORAGE_NS = 10000000, STORAGE_BLOCK = 512 };

static void record_storage_reads(int64_t now) {
	struct rusage use;
	int64_t since = now - lp_thread.storage_ns;
	if (LP_HOT(lp_thread.storage_ns && since >= 0 && since < STORAGE_NS)) return;
	lp_thread.storage_ns = now;
	if (getrusage(RUSAGE_THREAD, &use) != 0 || (uint64_t)use.ru_inblock == lp_thread.storage_blocks)
		return;
	lk_record_entry *record = lp_next();
	if (!record) return;
	lp_thread.storage_blocks = (uint64_t)use.ru_inblock;
	record->start_ns = record->end_ns = now;
	record->bytes = (int64_t)use.ru_inblock * STORAGE_BLOCK;
	lp_publish(record, LK_RECORD_STORAGE);
}

void lp_io(lk_record_kind kind, uint32_t file, int64_t start, int64_t end, int64_t bytes,
           int64_t offset, bool moved) {
	if (bytes < 0) bytes = 0;
	if (offset >= 0) offset += bytes;
	if (kind == LK_RECORD_READ) record_storage_reads(end);
	if (merge_io_record(kind, file, start, end, bytes, offset, moved)) return;
	lp_record_processor(end, LP_AT_CALLS);
	lk_record_entry *record = lp_next();
	if (!record) return;
	record->object = file;
	record->start_ns = start;
	record->end_ns = end;
	record->bytes = record->io.most = bytes;
	record->io.busy_ns = end - start;
	record->io.offset = offset;
	record->io.count = 1;
	record->io.sequential = offset < 0 && !moved;
	lp_publish(record, kind);
	lp_thread.last = record;
}

void lp_file_event(lk_record_kind kind, uint32_t file, int64_t start, int64_t end, int64_t bytes) {
	lk_record_entry *record = lp_next();
	if (!record) return;
	record->object = file;
	record->start_ns = start;
	record->end_ns = end;
	record->bytes = bytes;
	lp_publish(record, kind);
}
