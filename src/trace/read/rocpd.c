/* rocpd.c: AMD's profiles as SQLite databases.
 *
 * rocprofv3 --output-format rocpd (ROCm/rocprofiler-sdk, source/share/rocprofiler-sdk-rocpd,
 * rocpd_tables.sql; schema 3 has times in the rows, schema 4 numbers of rows of rocpd_timestamp and
 * of rocpd_track): a set of tables per process, whose names end alike; each is a rank. A kernel and
 * the call that launched it share the stack_id of their rows of rocpd_event.
 *
 * rocmProfileData (ROCm/rocmProfileData, rocpd_python/rocpd/schema_data): rocpd_op has the work of
 * devices, rocpd_api the calls, rocpd_api_ops joins them. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/sort.h"
#include "trace/read/database.h"
#include "trace/read/rocm_internal.h"

/* An id of a table and its value. */
struct rocpd_pair {
	int64_t id, value;
};
typedef LK_VEC(struct rocpd_pair) rocpd_pairs;

struct rocpd_track {
	int64_t id, process, thread, device, stream;
};

struct rocpd {
	lk_rocm rocm;
	lk_database db;
	char suffix[128];
	rocpd_pairs strings, symbols; /* values: interned */
	rocpd_pairs stacks, domains;  /* of events: stack; interned category */
	rocpd_pairs times;
	LK_VEC(struct rocpd_track) tracks;
	rocpd_pairs launches; /* rocmProfileData: the call of work */
	int64_t rows;         /* rows counted */
};

/* ---- maps ---- */

LK_ORDER_BY(rocpd_by_id, struct rocpd_pair, id)

LK_ORDER_BY(rocpd_tracks_by_id, struct rocpd_track, id)

static void rocpd_sort(rocpd_pairs *pairs) {
	lk_sort(pairs->at, pairs->count, sizeof *pairs->at, rocpd_by_id);
}

static int64_t rocpd_find(const rocpd_pairs *pairs, int64_t id, int64_t none) {
	struct rocpd_pair key = {id, 0};
	const struct rocpd_pair *found =
		pairs->count ? bsearch(&key, pairs->at, pairs->count, sizeof key, rocpd_by_id) : NULL;
	return found ? found->value : none;
}

static lk_status rocpd_put(struct rocpd *reader, rocpd_pairs *pairs, int64_t id, int64_t value) {
	if (!lk_push(pairs)) return lk_oom(reader->rocm.err);
	*lk_last(pairs) = (struct rocpd_pair){id, value};
	return LK_OK;
}

/* Store the text of column 1, or if it is empty of column 2, under the number of column 0. */
static lk_status rocpd_put_text(struct rocpd *reader, rocpd_pairs *pairs, sqlite3_stmt *row) {
	uint32_t name;
	char shown[1024];
	const char *text = (const char *)lk_sqlite.column_text(row, 1);
	if (!text || !*text) text = (const char *)lk_sqlite.column_text(row, 2);
	lk_copy(shown, sizeof shown, text ? text : "");
	LK_TRY(lk_rocm_intern(&reader->rocm, shown, &name));
	return rocpd_put(reader, pairs, lk_sqlite.column_int64(row, 0), name);
}

static const char *const string_columns[LK_DATABASE_COLUMNS] = {"id", "string", "none"};
static lk_status rocpd_read_string(void *context, sqlite3_stmt *row) {
	struct rocpd *reader = context;
	return rocpd_put_text(reader, &reader->strings, row);
}

static const char *const symbol_columns[LK_DATABASE_COLUMNS] = {"id", "display_name",
                                                                "kernel_name"};
static lk_status rocpd_read_symbol(void *context, sqlite3_stmt *row) {
	struct rocpd *reader = context;
	return rocpd_put_text(reader, &reader->symbols, row);
}

static const char *const event_columns[LK_DATABASE_COLUMNS] = {"id", "stack_id", "category_id"};
static lk_status rocpd_read_event(void *context, sqlite3_stmt *row) {
	struct rocpd *reader = context;
	int64_t id = lk_sqlite.column_int64(row, 0), category = lk_sqlite.column_int64(row, 2);
	LK_TRY(rocpd_put(reader, &reader->stacks, id, lk_sqlite.column_int64(row, 1)));
	return rocpd_put(reader, &reader->domains, id, rocpd_find(&reader->strings, category, 0));
}

static const char *const time_columns[LK_DATABASE_COLUMNS] = {"id", "value"};
static lk_status rocpd_read_time(void *context, sqlite3_stmt *row) {
	struct rocpd *reader = context;
	return rocpd_put(reader, &reader->times, lk_sqlite.column_int64(row, 0),
	                 lk_sqlite.column_int64(row, 1));
}

/* HIP's streams order work; hardware queues, which streams share, are used only if streams are not
 * given. */
static int64_t rocpd_stream(sqlite3_stmt *row, int stream, int queue) {
	return lk_database_whole(row, stream, lk_database_whole(row, queue, 0));
}

static const char *const track_columns[LK_DATABASE_COLUMNS] = {"id",       "pid",       "tid",
                                                               "agent_id", "stream_id", "queue_id"};
static lk_status rocpd_read_track(void *context, sqlite3_stmt *row) {
	struct rocpd *reader = context;
	if (!lk_push(&reader->tracks)) return lk_oom(reader->rocm.err);
	*lk_last(&reader->tracks) = (struct rocpd_track){
		lk_sqlite.column_int64(row, 0), lk_database_whole(row, 1, 0), lk_database_whole(row, 2, 0),
		lk_database_whole(row, 3, 0), rocpd_stream(row, 4, 5)};
	return LK_OK;
}

/* ---- events of rocprofv3 ---- */

/* All tables of events begin with these. */
#define ROCPD_COLUMNS                                                                        \
	"start", "end", "start_id", "end_id", "track_id", "pid", "tid", "stream_id", "queue_id", \
		"event_id"
enum { AT_TRACK = 4, AT_PROCESS, AT_THREAD, AT_STREAM, AT_QUEUE, AT_EVENT, AT_OWN };

/* Where it ran, from columns of the row or of its track. */
static struct rocpd_track rocpd_place(const struct rocpd *reader, sqlite3_stmt *row, int device) {
	struct rocpd_track key = {.id = lk_database_whole(row, AT_TRACK, -1)};
	const struct rocpd_track *found =
		reader->tracks.count
			? bsearch(&key, reader->tracks.at, reader->tracks.count, sizeof key, rocpd_tracks_by_id)
			: NULL;
	if (found) return *found;
	key.process = lk_database_whole(row, AT_PROCESS, 0);
	key.thread = lk_database_whole(row, AT_THREAD, 0);
	key.device = device ? lk_database_whole(row, device, 0) : 0;
	key.stream = rocpd_stream(row, AT_STREAM, AT_QUEUE);
	return key;
}

/* Read times and correlation; false if there are none. */
static bool rocpd_begin(struct rocpd *reader, sqlite3_stmt *row, lk_event *event) {
	int64_t start = rocpd_find(&reader->times, lk_database_whole(row, 2, -1), -1);
	int64_t end = rocpd_find(&reader->times, lk_database_whole(row, 3, -1), -1);
	event->correlation =
		(uint32_t)rocpd_find(&reader->stacks, lk_database_whole(row, AT_EVENT, -1), 0);
	return lk_rocm_times(&reader->rocm, event, lk_database_whole(row, 0, start),
	                     lk_database_whole(row, 1, end));
}

static const char *const kernel_columns[LK_DATABASE_COLUMNS] = {ROCPD_COLUMNS, "agent_id",
                                                                "kernel_id"};
static lk_status rocpd_read_kernel(void *context, sqlite3_stmt *row) {
	struct rocpd *reader = context;
	lk_event event = {.kind = LK_EVENT_KERNEL};
	if (!rocpd_begin(reader, row, &event)) return LK_OK;
	struct rocpd_track place = rocpd_place(reader, row, AT_OWN);
	event.name = (uint32_t)rocpd_find(&reader->symbols, lk_database_whole(row, AT_OWN + 1, -1), 0);
	return lk_rocm_add_work(&reader->rocm, place.device, place.stream, &event);
}

/* A copy belongs to the device at one of its ends: to its destination, unless that is the host. */
static const char *const copy_columns[LK_DATABASE_COLUMNS] = {ROCPD_COLUMNS, "dst_agent_id",
                                                              "src_agent_id", "name_id", "size"};
static lk_status rocpd_read_copy(void *context, sqlite3_stmt *row) {
	struct rocpd *reader = context;
	lk_event event = {.kind = LK_EVENT_MEMCPY};
	if (!rocpd_begin(reader, row, &event)) return LK_OK;
	const char *name = lk_rocm_copy_name(lk_capture_text(
		reader->rocm.capture,
		(uint32_t)rocpd_find(&reader->strings, lk_database_whole(row, AT_OWN + 2, -1), 0)));
	int device = strstr(name, "toH") ? AT_OWN + 1 : AT_OWN;
	struct rocpd_track place = rocpd_place(reader, row, device);
	LK_TRY(lk_rocm_intern(&reader->rocm, name, &event.name));
	event.bytes = lk_database_whole(row, AT_OWN + 3, 0);
	return lk_rocm_add_work(&reader->rocm, lk_database_whole(row, device, place.device),
	                        place.stream, &event);
}

static const char *const region_columns[LK_DATABASE_COLUMNS] = {ROCPD_COLUMNS, "name_id"};
static lk_status rocpd_read_region(void *context, sqlite3_stmt *row) {
	struct rocpd *reader = context;
	lk_event event = {0};
	int64_t domain = rocpd_find(&reader->domains, lk_database_whole(row, AT_EVENT, -1), 0);
	if (!lk_rocm_domain(lk_capture_text(reader->rocm.capture, (uint32_t)domain), &event.kind)) {
		reader->rocm.capture->dropped++;
		return LK_OK;
	}
	if (!rocpd_begin(reader, row, &event)) return LK_OK;
	if (event.kind != LK_EVENT_RUNTIME) event.correlation = 0;
	struct rocpd_track place = rocpd_place(reader, row, 0);
	event.name = (uint32_t)rocpd_find(&reader->strings, lk_database_whole(row, AT_OWN, -1), 0);
	return lk_rocm_add_call(&reader->rocm, place.process, place.thread, &event);
}

static const char *const agent_columns[LK_DATABASE_COLUMNS] = {"type", "product_name", "name"};
static lk_status rocpd_read_agent(void *context, sqlite3_stmt *row) {
	struct rocpd *reader = context;
	const char *type = (const char *)lk_sqlite.column_text(row, 0);
	const char *product = (const char *)lk_sqlite.column_text(row, 1);
	if (!type || strcmp(type, "GPU") != 0 || reader->rocm.capture->device || !product || !*product)
		return LK_OK;
	return lk_rocm_intern(&reader->rocm, product, &reader->rocm.capture->device);
}

static lk_status rocpd_scan(struct rocpd *reader, const char *table, const char *const *columns,
                            lk_database_row read) {
	char name[192];
	snprintf(name, sizeof name, "%s%s", table, reader->suffix);
	return lk_database_scan(&reader->db, name, columns, read, reader);
}

static lk_status rocpd_count(void *context, sqlite3_stmt *row) {
	struct rocpd *reader = context;
	(void)row;
	reader->rows++;
	return LK_OK;
}

static lk_status rocpd_read_process(struct rocpd *reader) {
	reader->strings.count = reader->symbols.count = reader->stacks.count = 0;
	reader->domains.count = reader->times.count = reader->tracks.count = 0;
	LK_TRY(rocpd_scan(reader, "rocpd_string", string_columns, rocpd_read_string));
	rocpd_sort(&reader->strings);
	LK_TRY(rocpd_scan(reader, "rocpd_info_agent", agent_columns, rocpd_read_agent));
	LK_TRY(rocpd_scan(reader, "rocpd_info_kernel_symbol", symbol_columns, rocpd_read_symbol));
	LK_TRY(rocpd_scan(reader, "rocpd_event", event_columns, rocpd_read_event));
	LK_TRY(rocpd_scan(reader, "rocpd_timestamp", time_columns, rocpd_read_time));
	LK_TRY(rocpd_scan(reader, "rocpd_track", track_columns, rocpd_read_track));
	rocpd_sort(&reader->symbols);
	rocpd_sort(&reader->stacks);
	rocpd_sort(&reader->domains);
	rocpd_sort(&reader->times);
	lk_sort(reader->tracks.at, reader->tracks.count, sizeof *reader->tracks.at, rocpd_tracks_by_id);
	LK_TRY(rocpd_scan(reader, "rocpd_kernel_dispatch", kernel_columns, rocpd_read_kernel));
	LK_TRY(rocpd_scan(reader, "rocpd_memory_copy", copy_columns, rocpd_read_copy));
	return rocpd_scan(reader, "rocpd_region", region_columns, rocpd_read_region);
}

/* Each set of tables with kernels is a process; without any, the first set is read. */
static lk_status rocpd_read_v3(struct rocpd *reader) {
	static const char begins[] = "rocpd_kernel_dispatch";
	static const char *const id[LK_DATABASE_COLUMNS] = {"id"};
	enum { PROCESSES = 1024 };
	char table[128];
	bool found = true;
	for (int i = 0; i < PROCESSES; i++) {
		LK_TRY(lk_database_table(&reader->db, begins, i, table, sizeof table, &found));
		if (!found) break;
		reader->rows = 0;
		LK_TRY(lk_database_scan(&reader->db, table, id, rocpd_count, reader));
		if (i == 0) lk_copy(reader->suffix, sizeof reader->suffix, table + strlen(begins));
		if (!reader->rows) continue;
		lk_copy(reader->suffix, sizeof reader->suffix, table + strlen(begins));
		LK_TRY(lk_rocm_next(&reader->rocm));
		LK_TRY(rocpd_read_process(reader));
	}
	return reader->rocm.capture->count ? LK_OK : rocpd_read_process(reader);
}

/* ---- rocmProfileData ---- */

static const char *const join_columns[LK_DATABASE_COLUMNS] = {"op_id", "api_id"};
static lk_status rocpd_read_join(void *context, sqlite3_stmt *row) {
	struct rocpd *reader = context;
	return rocpd_put(reader, &reader->launches, lk_sqlite.column_int64(row, 0),
	                 lk_sqlite.column_int64(row, 1));
}

static const char *const op_columns[LK_DATABASE_COLUMNS] = {
	"start", "end", "id", "gpuId", "queueId", "description_id", "opType_id"};
static lk_status rocpd_read_op(void *context, sqlite3_stmt *row) {
	struct rocpd *reader = context;
	lk_event event = {.kind = LK_EVENT_KERNEL};
	if (!lk_rocm_times(&reader->rocm, &event, lk_database_whole(row, 0, -1),
	                   lk_database_whole(row, 1, -1)))
		return LK_OK;
	event.name = (uint32_t)rocpd_find(&reader->strings, lk_database_whole(row, 5, -1), 0);
	uint32_t type = (uint32_t)rocpd_find(&reader->strings, lk_database_whole(row, 6, -1), 0);
	const char *kind = lk_capture_text(reader->rocm.capture, type);
	if (strncasecmp(kind, "Copy", 4) == 0) {
		event.kind = LK_EVENT_MEMCPY;
		LK_TRY(lk_rocm_intern(&reader->rocm, lk_rocm_copy_name(kind), &event.name));
	} else if (strncasecmp(kind, "Fill", 4) == 0) {
		event.kind = LK_EVENT_MEMSET;
		LK_TRY(lk_rocm_intern(&reader->rocm, "Memset (Device)", &event.name));
	} else if (strstr(kind, "Barrier") || strstr(kind, "Marker")) return LK_OK;
	event.correlation = (uint32_t)rocpd_find(&reader->launches, lk_database_whole(row, 2, -1), 0);
	return lk_rocm_add_work(&reader->rocm, lk_database_whole(row, 3, 0),
	                        lk_database_whole(row, 4, 0), &event);
}

static const char *const api_columns[LK_DATABASE_COLUMNS] = {"start", "end",        "id",     "pid",
                                                             "tid",   "apiName_id", "args_id"};
static lk_status rocpd_read_api(void *context, sqlite3_stmt *row) {
	struct rocpd *reader = context;
	lk_event event = {.kind = LK_EVENT_RUNTIME};
	if (!lk_rocm_times(&reader->rocm, &event, lk_database_whole(row, 0, -1),
	                   lk_database_whole(row, 1, -1)))
		return LK_OK;
	event.name = (uint32_t)rocpd_find(&reader->strings, lk_database_whole(row, 5, -1), 0);
	event.correlation = (uint32_t)lk_database_whole(row, 2, 0);
	if (strcmp(lk_capture_text(reader->rocm.capture, event.name), "UserMarker") == 0) {
		event.kind = LK_EVENT_NOTE;
		event.correlation = 0;
		event.name = (uint32_t)rocpd_find(&reader->strings, lk_database_whole(row, 6, -1), 0);
	}
	return lk_rocm_add_call(&reader->rocm, lk_database_whole(row, 3, 0),
	                        lk_database_whole(row, 4, 0), &event);
}

static lk_status rocpd_read_profile_data(struct rocpd *reader) {
	LK_TRY(rocpd_scan(reader, "rocpd_string", string_columns, rocpd_read_string));
	LK_TRY(rocpd_scan(reader, "rocpd_api_ops", join_columns, rocpd_read_join));
	rocpd_sort(&reader->strings);
	rocpd_sort(&reader->launches);
	LK_TRY(rocpd_scan(reader, "rocpd_op", op_columns, rocpd_read_op));
	return rocpd_scan(reader, "rocpd_api", api_columns, rocpd_read_api);
}

/* ---- the file ---- */

lk_status lk_rocpd_found(const char *path, bool *found, lk_error *err) {
	lk_database db;
	char table[128];
	*found = false;
	lk_status status = lk_database_open(&db, path, err);
	if (status == LK_OK) status = lk_database_table(&db, "rocpd_", 0, table, sizeof table, found);
	lk_database_close(&db);
	return status;
}

static lk_status rocpd_read_all(struct rocpd *reader) {
	char table[128];
	bool operations;
	LK_TRY(lk_database_table(&reader->db, "rocpd_op", 0, table, sizeof table, &operations));
	LK_TRY(operations ? rocpd_read_profile_data(reader) : rocpd_read_v3(reader));
	return lk_rocm_finish(&reader->rocm);
}

lk_status lk_rocpd_read(const char *path, const lk_read_limits *limits, lk_capture *capture,
                        lk_error *err) {
	struct rocpd *reader = calloc(1, sizeof *reader);
	if (!reader) return lk_oom(err);
	reader->rocm = (lk_rocm){.capture = capture, .limits = limits, .err = err};
	capture->format = "rocpd SQLite";
	lk_status status = lk_database_open(&reader->db, path, err);
	if (status == LK_OK) status = rocpd_read_all(reader);
	lk_database_close(&reader->db);
	lk_vec_free(&reader->strings);
	lk_vec_free(&reader->symbols);
	lk_vec_free(&reader->stacks);
	lk_vec_free(&reader->domains);
	lk_vec_free(&reader->times);
	lk_vec_free(&reader->tracks);
	lk_vec_free(&reader->launches);
	free(reader);
	return status;
}
