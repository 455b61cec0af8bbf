/* nsys.c: Nsight Systems' export to SQLite (`nsys export --type sqlite`). Tables exist only if they
 * have rows, and columns vary by version: missing ones read as NULL (database.c). */
#include "trace/read/read.h"

#include <stdlib.h>
#include <string.h>
#include "base/intervals.h"
#include "base/text.h"
#include "base/sort.h"
#include "trace/read/database.h"

enum {
	RANKS = 1024,
	FEW_KERNELS = 20, /* a twentieth of those of another rank */
	PUSH_POP = 59
};

/* Later times are invalid. */
#define LAST_NS (INT64_C(1) << 61)

struct text_id {
	int64_t id;
	uint32_t name;
};

struct reader {
	lk_database db;
	const char *path;
	const lk_read_limits *limits;
	lk_capture *capture;
	lk_error *err;
	LK_VEC(struct text_id) texts; /* StringIds, by id */
	struct nsys_rank {
		int64_t process, device, kernels;
	} ranks[RANKS];
	int rank_count;
	bool several;                 /* some of them, or others, are in the report */
	const struct nsys_rank *rank; /* the one to read; NULL: everything */
	uint64_t strange;             /* rows with invalid times */
};

/* ---- texts ---- */

static lk_status nsys_intern(struct reader *reader, const char *text, uint32_t *out) {
	return lk_capture_name(reader->capture, reader->limits, text ? text : "", out, reader->err);
}

/* "cudaLaunchKernel_v7000" is a version of cudaLaunchKernel. */
static void drop_version(char *name) {
	char *at = strrchr(name, '_');
	if (at && at[1] == 'v' && at[2] && strspn(at + 2, "0123456789") == strlen(at + 2) &&
	    strncmp(name, "cu", 2) == 0)
		*at = '\0';
}

static lk_status nsys_read_text(void *context, sqlite3_stmt *row) {
	struct reader *reader = context;
	const char *value = (const char *)lk_sqlite.column_text(row, 1);
	char name[512];
	lk_copy(name, sizeof name, value ? value : "");
	drop_version(name);
	if (!lk_push(&reader->texts)) return lk_oom(reader->err);
	lk_last(&reader->texts)->id = lk_sqlite.column_int64(row, 0);
	return nsys_intern(reader, name, &lk_last(&reader->texts)->name);
}

LK_ORDER_BY(nsys_by_id, struct text_id, id)

/* A name in a column: the number of a text, or the text itself. */
static lk_status name_in(struct reader *reader, sqlite3_stmt *row, int column, uint32_t *out) {
	*out = 0;
	if (lk_sqlite.column_type(row, column) == SQLITE_TEXT)
		return nsys_intern(reader, (const char *)lk_sqlite.column_text(row, column), out);
	if (lk_sqlite.column_type(row, column) != SQLITE_INTEGER || !reader->texts.count) return LK_OK;
	struct text_id key = {lk_sqlite.column_int64(row, column), 0};
	const struct text_id *found =
		bsearch(&key, reader->texts.at, reader->texts.count, sizeof key, nsys_by_id);
	if (found) *out = found->name;
	return LK_OK;
}

/* ---- events ---- */

/* Global ids hold hardware and virtual machine above 24 bits of the process and 24 of the thread.
 */
static int64_t process_of(int64_t global) {
	return global >> 24 & 0xffffff;
}
static int64_t thread_of(int64_t global) {
	return global & 0xffffff;
}

static bool other_process(const struct reader *reader, sqlite3_stmt *row, int column) {
	return reader->rank && lk_sqlite.column_type(row, column) != SQLITE_NULL &&
	       process_of(lk_sqlite.column_int64(row, column)) != reader->rank->process;
}

/* Read start and end from columns 0 and 1; false if they are invalid. */
static bool read_times(struct reader *reader, sqlite3_stmt *row, lk_event *event) {
	int64_t start = lk_database_whole(row, 0, -1), end = lk_database_whole(row, 1, -1);
	bool good = start >= 0 && end >= start && end < LAST_NS;
	event->start_ns = start;
	event->dur_ns = end - start;
	reader->strange += !good;
	return good;
}

static lk_status nsys_add(struct reader *reader, const lk_event *event, uint32_t *place) {
	LK_TRY(lk_capture_room(reader->capture, reader->limits, 0, reader->err));
	*place = event->lane == LK_NONE ? LK_NONE : lk_capture_add(reader->capture, event);
	return *place == LK_NONE ? lk_oom(reader->err) : LK_OK;
}

/* All tables of device work begin with these. */
#define DEVICE_COLUMNS "start", "end", "deviceId", "streamId", "correlationId", "globalPid"
enum { AT_DEVICE = 2, AT_STREAM, AT_CORRELATION, AT_PROCESS, AT_OWN };

static const char *const kernel_columns[LK_DATABASE_COLUMNS] = {DEVICE_COLUMNS, "demangledName",
                                                                "shortName"};
static const char *const memcpy_columns[LK_DATABASE_COLUMNS] = {DEVICE_COLUMNS, "bytes", "copyKind",
                                                                "srcKind", "dstKind"};
static const char *const memset_columns[LK_DATABASE_COLUMNS] = {DEVICE_COLUMNS, "bytes"};
static const char *const sync_columns[LK_DATABASE_COLUMNS] = {DEVICE_COLUMNS, "syncType"};
static const char *const runtime_columns[LK_DATABASE_COLUMNS] = {"start", "end", "globalTid",
                                                                 "correlationId", "nameId"};
static const char *const nvtx_columns[LK_DATABASE_COLUMNS] = {"start",     "end",  "globalTid",
                                                              "eventType", "text", "textId"};
static const char *const text_columns[LK_DATABASE_COLUMNS] = {"id", "value"};
static const char *const gpu_columns[LK_DATABASE_COLUMNS] = {"id", "name", "totalMemory",
                                                             "smCount"};
static const char *const start_columns[LK_DATABASE_COLUMNS] = {"utcEpochNs"};

static bool begin_device(struct reader *reader, sqlite3_stmt *row, lk_event_kind kind,
                         lk_event *event) {
	*event = (lk_event){.kind = kind};
	bool other = reader->rank && lk_database_whole(row, AT_DEVICE, 0) != reader->rank->device;
	if (other || other_process(reader, row, AT_PROCESS) || !read_times(reader, row, event))
		return false;
	event->correlation = (uint32_t)lk_database_whole(row, AT_CORRELATION, 0);
	event->lane = lk_capture_lane(reader->capture, true, lk_database_whole(row, AT_DEVICE, 0),
	                              lk_database_whole(row, AT_STREAM, 0));
	return true;
}

static lk_status read_kernel(void *context, sqlite3_stmt *row) {
	struct reader *reader = context;
	lk_event event;
	uint32_t place;
	if (!begin_device(reader, row, LK_EVENT_KERNEL, &event)) return LK_OK;
	LK_TRY(name_in(reader, row, AT_OWN, &event.name));
	if (!event.name) LK_TRY(name_in(reader, row, AT_OWN + 1, &event.name));
	return nsys_add(reader, &event, &place);
}

/* The kind of memory in a column, as Kineto names it; NULL unknown. Ids are those of the table
 * ENUM_CUDA_MEM_KIND. */
static const char *nsys_memory(sqlite3_stmt *row, int column) {
	static const char *const kinds[] = {"Pageable", "Pinned", "Device", "Array", "Managed"};
	int64_t kind = lk_database_whole(row, column, -1);
	return kind >= 0 && kind < (int64_t)(sizeof kinds / sizeof *kinds) ? kinds[kind] : NULL;
}

static lk_status read_memcpy(void *context, sqlite3_stmt *row) {
	struct reader *reader = context;
	/* CUpti_ActivityMemcpyKind */
	static const char *const kinds[] = {"Memcpy (Unknown)", "Memcpy HtoD", "Memcpy DtoH",
	                                    "Memcpy HtoA",      "Memcpy AtoH", "Memcpy AtoA",
	                                    "Memcpy AtoD",      "Memcpy DtoA", "Memcpy DtoD",
	                                    "Memcpy HtoH",      "Memcpy PtoP"};
	lk_event event;
	uint32_t place;
	int64_t kind = lk_database_whole(row, AT_OWN + 1, 0);
	if (!begin_device(reader, row, LK_EVENT_MEMCPY, &event)) return LK_OK;
	event.bytes = lk_database_whole(row, AT_OWN, 0);
	const char *what = kinds[kind > 0 && kind < (int64_t)(sizeof kinds / sizeof *kinds) ? kind : 0];
	const char *from = nsys_memory(row, AT_OWN + 2), *to = nsys_memory(row, AT_OWN + 3);
	char name[80];
	lk_text text = lk_text_begin(name, sizeof name);
	lk_text_add(&text, "%s", what);
	if (from && to) lk_text_add(&text, " (%s -> %s)", from, to);
	LK_TRY(nsys_intern(reader, name, &event.name));
	return nsys_add(reader, &event, &place);
}

static lk_status read_memset(void *context, sqlite3_stmt *row) {
	struct reader *reader = context;
	lk_event event;
	uint32_t place;
	if (!begin_device(reader, row, LK_EVENT_MEMSET, &event)) return LK_OK;
	event.bytes = lk_database_whole(row, AT_OWN, 0);
	LK_TRY(nsys_intern(reader, "Memset (Device)", &event.name));
	return nsys_add(reader, &event, &place);
}

static lk_status read_sync(void *context, sqlite3_stmt *row) {
	struct reader *reader = context;
	/* CUpti_ActivitySynchronizationType */
	static const struct {
		const char *name;
		int kind;
	} kinds[] = {{"Unknown", LK_SYNC_DEVICE},
	             {"Event Sync", LK_SYNC_EVENT},
	             {"Stream Wait Event", LK_SYNC_STREAM_WAITS},
	             {"Stream Sync", LK_SYNC_STREAM},
	             {"Context Sync", LK_SYNC_DEVICE}};
	lk_event event;
	uint32_t place;
	int64_t kind = lk_database_whole(row, AT_OWN, 0);
	if (kind < 0 || kind >= (int64_t)(sizeof kinds / sizeof *kinds)) kind = 0;
	if (!begin_device(reader, row, LK_EVENT_SYNC, &event)) return LK_OK;
	LK_TRY(nsys_intern(reader, kinds[kind].name, &event.name));
	LK_TRY(nsys_add(reader, &event, &place));
	if (!lk_push(&reader->capture->syncs)) return lk_oom(reader->err);
	*lk_last(&reader->capture->syncs) =
		(lk_sync_note){.event = place, .stream = event.lane, .on = LK_NONE};
	lk_last(&reader->capture->syncs)->kind = kinds[kind].kind;
	return LK_OK;
}

static lk_status read_runtime(void *context, sqlite3_stmt *row) {
	struct reader *reader = context;
	lk_event event = {.kind = LK_EVENT_RUNTIME};
	uint32_t place;
	int64_t thread = lk_database_whole(row, 2, 0);
	if (other_process(reader, row, 2) || !read_times(reader, row, &event)) return LK_OK;
	event.correlation = (uint32_t)lk_database_whole(row, 3, 0);
	event.lane = lk_capture_lane(reader->capture, false, process_of(thread), thread_of(thread));
	LK_TRY(name_in(reader, row, 4, &event.name));
	return nsys_add(reader, &event, &place);
}

/* Read pushed and popped ranges, which nest; other NVTX events are no stretches of a thread. */
static lk_status nsys_read_range(void *context, sqlite3_stmt *row) {
	struct reader *reader = context;
	lk_event event = {.kind = LK_EVENT_NOTE};
	uint32_t place;
	int64_t thread = lk_database_whole(row, 2, 0);
	if (lk_database_whole(row, 3, PUSH_POP) != PUSH_POP ||
	    lk_sqlite.column_type(row, 1) == SQLITE_NULL) {
		reader->capture->dropped++;
		return LK_OK;
	}
	if (other_process(reader, row, 2) || !read_times(reader, row, &event)) return LK_OK;
	event.lane = lk_capture_lane(reader->capture, false, process_of(thread), thread_of(thread));
	LK_TRY(name_in(reader, row, 4, &event.name));
	if (!event.name) LK_TRY(name_in(reader, row, 5, &event.name));
	return nsys_add(reader, &event, &place);
}

/* ---- head ---- */

static lk_status count_rank(void *context, sqlite3_stmt *row) {
	struct reader *reader = context;
	int at = 0;
	if (lk_sqlite.column_type(row, AT_PROCESS) == SQLITE_NULL) return LK_OK;
	int64_t process = process_of(lk_sqlite.column_int64(row, AT_PROCESS)),
			device = lk_database_whole(row, AT_DEVICE, 0);
	while (at < reader->rank_count &&
	       (reader->ranks[at].process != process || reader->ranks[at].device != device))
		at++;
	if (at == RANKS) return LK_OK;
	if (at == reader->rank_count)
		reader->ranks[reader->rank_count++] = (struct nsys_rank){process, device, 0};
	reader->ranks[at].kernels++;
	return LK_OK;
}

LK_ORDER_BY(nsys_ranks_order, struct nsys_rank, device, process)

/* Each process on each device is a rank, in the order of devices. Those with few kernels are not:
 * they read something back, or look at what there is. */
static lk_status find_ranks(struct reader *reader) {
	int64_t most = 0;
	int kept = 0;
	LK_TRY(lk_database_scan(&reader->db, "CUPTI_ACTIVITY_KIND_KERNEL", kernel_columns, count_rank,
	                        reader));
	reader->several = reader->rank_count > 1;
	for (int i = 0; i < reader->rank_count; i++) most = lk_later(most, reader->ranks[i].kernels);
	for (int i = 0; i < reader->rank_count; i++)
		if (reader->ranks[i].kernels * FEW_KERNELS >= most)
			reader->ranks[kept++] = reader->ranks[i];
	reader->rank_count = kept;
	lk_sort(reader->ranks, (size_t)kept, sizeof *reader->ranks, nsys_ranks_order);
	return LK_OK;
}

static lk_status read_gpu(void *context, sqlite3_stmt *row) {
	struct reader *reader = context;
	double bytes = lk_sqlite.column_double(row, 2);
	int64_t sms = lk_database_whole(row, 3, 0);
	if (reader->capture->device) return LK_OK; /* devices of a node are alike */
	if (bytes > 0 && bytes < 1e15) reader->capture->device_bytes = bytes;
	if (sms > 0 && sms < 100000) reader->capture->sms = (int32_t)sms;
	return name_in(reader, row, 1, &reader->capture->device);
}

static lk_status read_start(void *context, sqlite3_stmt *row) {
	struct reader *reader = context;
	int64_t ns = lk_database_whole(row, 0, -1);
	if (ns > 0 && ns < LAST_NS) {
		reader->capture->origin_ns = ns;
		reader->capture->absolute = true;
	}
	return LK_OK;
}

/* Read one rank, or everything where the report does not tell ranks apart. */
static lk_status nsys_read_rank(struct reader *reader) {
	reader->texts.count = 0;
	LK_TRY(lk_database_scan(&reader->db, "StringIds", text_columns, nsys_read_text, reader));
	lk_sort(reader->texts.at, reader->texts.count, sizeof *reader->texts.at, nsys_by_id);
	LK_TRY(lk_database_scan(&reader->db, "TARGET_INFO_GPU", gpu_columns, read_gpu, reader));
	LK_TRY(lk_database_scan(&reader->db, "TARGET_INFO_SESSION_START_TIME", start_columns,
	                        read_start, reader));
	LK_TRY(lk_database_scan(&reader->db, "CUPTI_ACTIVITY_KIND_KERNEL", kernel_columns, read_kernel,
	                        reader));
	LK_TRY(lk_database_scan(&reader->db, "CUPTI_ACTIVITY_KIND_MEMCPY", memcpy_columns, read_memcpy,
	                        reader));
	LK_TRY(lk_database_scan(&reader->db, "CUPTI_ACTIVITY_KIND_MEMSET", memset_columns, read_memset,
	                        reader));
	LK_TRY(lk_database_scan(&reader->db, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", sync_columns,
	                        read_sync, reader));
	LK_TRY(lk_database_scan(&reader->db, "CUPTI_ACTIVITY_KIND_RUNTIME", runtime_columns,
	                        read_runtime, reader));
	return lk_database_scan(&reader->db, "NVTX_EVENTS", nvtx_columns, nsys_read_range, reader);
}

static lk_status nsys_read_all(struct reader *reader) {
	LK_TRY(find_ranks(reader));
	reader->capture->parts = (uint32_t)reader->rank_count;
	if (!reader->several) return nsys_read_rank(reader);
	for (int i = 0; i < reader->rank_count; i++) {
		reader->rank = &reader->ranks[i];
		if (i) {
			lk_capture *next = lk_capture_new(reader->path, reader->capture->format);
			if (!next) return lk_oom(reader->err);
			next->parts = reader->capture->parts;
			reader->capture = reader->capture->next = next;
		}
		LK_TRY(nsys_read_rank(reader));
	}
	return LK_OK;
}

static lk_status check_found(const struct reader *reader) {
	if (reader->strange)
		lk_capture_damage(reader->capture, reader->strange,
		                  "rows whose start or end is not a time, left out: %llu",
		                  (unsigned long long)reader->strange);
	if (reader->capture->count) return LK_OK;
	lk_fail(reader->err, LK_ERR_INPUT, reader->path,
	        "the database holds no kernels, calls or ranges");
	return lk_hint(reader->err,
	               "profile with `nsys profile -t cuda,nvtx`, then `nsys export --type sqlite`");
}

lk_status lk_nsys_read(const char *path, const lk_read_limits *limits, lk_capture *capture,
                       lk_error *err) {
	static const lk_read_limits none = {0};
	struct reader *reader = calloc(1, sizeof *reader);
	if (!reader) return lk_oom(err);
	*reader = (struct reader){
		.path = path, .limits = limits ? limits : &none, .capture = capture, .err = err};
	capture->format = "Nsight Systems SQLite";
	lk_status status = lk_database_open(&reader->db, path, err);
	if (status == LK_OK) status = nsys_read_all(reader);
	if (status == LK_OK) status = check_found(reader);
	lk_database_close(&reader->db);
	lk_vec_free(&reader->texts);
	free(reader);
	return status;
}
