/* rocprof.c: AMD's profiles as JSON.
 *
 * rocprofv3 --output-format json (ROCm/rocprofiler-sdk, source/lib/output/generateJSON.cpp): a list
 * "rocprofiler-sdk-tool" of processes; each has buffer_records by kind, kernel_symbols with names,
 * agents, and in strings the names of operations. A kernel and the call that launched it share the
 * correlation_id.internal.
 *
 * rocprof's results.json (ROCm/rocprofiler, bin/tblextr.py and sqlitedb.py): Chrome's events
 * without categories, whose numbers are texts and whose exact times are arguments (BeginNs, EndNs).
 * Processes are named: "GPU0" has kernels, "COPY" copies, "CPU HIP API" calls, "Markers and Ranges"
 * ranges. An arrow ("s" to "t", the same id) leads from a call to what it launched. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/sort.h"
#include "io/json.h"
#include "trace/read/rocm_internal.h"

/* ---- values ---- */

/* Parse a whole number, plain or in a text; beyond the exact integers of a double. */
static int64_t rocprof_whole(const lk_value *value, int64_t none) {
	if (!value || (value->kind != LK_JSON_NUMBER && value->kind != LK_JSON_STRING)) return none;
	char *end;
	int64_t number = strtoll(value->text, &end, 10);
	return end > value->text ? number : none;
}

static int64_t rocprof_member(const lk_value *value, const char *key, int64_t none) {
	return rocprof_whole(lk_json_get(value, key), none);
}

/* {"handle": 7}, or 7. */
static int64_t rocprof_handle(const lk_value *value, int64_t none) {
	const lk_value *handle = lk_json_get(value, "handle");
	return rocprof_whole(handle ? handle : value, none);
}

static const lk_value *rocprof_list(const lk_value *value, const char *key) {
	static const lk_value empty = {.kind = LK_JSON_ARRAY};
	const lk_value *list = lk_json_get(value, key);
	return list && list->kind == LK_JSON_ARRAY ? list : &empty;
}

/* Numbers and their names. */
struct rocprof_name {
	int64_t id;
	const char *text;
};
typedef LK_VEC(struct rocprof_name) rocprof_names;

LK_ORDER_BY(rocprof_by_id, struct rocprof_name, id)

static void rocprof_sort(rocprof_names *names) {
	lk_sort(names->at, names->count, sizeof *names->at, rocprof_by_id);
}

static const char *rocprof_find(const rocprof_names *names, int64_t id) {
	struct rocprof_name key = {.id = id};
	const struct rocprof_name *found =
		names->count ? bsearch(&key, names->at, names->count, sizeof key, rocprof_by_id) : NULL;
	return found ? found->text : "";
}

static lk_status rocprof_put(lk_rocm *rocm, rocprof_names *names, int64_t id, const char *text) {
	if (!lk_push(names)) return lk_oom(rocm->err);
	*lk_last(names) = (struct rocprof_name){id, text};
	return LK_OK;
}

static lk_status rocprof_intern(lk_rocm *rocm, const char *text, uint32_t *out) {
	char shown[1024];
	lk_copy(shown, sizeof shown, text);
	return lk_rocm_intern(rocm, shown, out);
}

/* ---- rocprofv3 ---- */

struct rocprof_tool {
	lk_rocm *rocm;
	const lk_value *value;
	rocprof_names symbols, markers;
	int64_t process;
};

static lk_status rocprof_read_names(struct rocprof_tool *tool) {
	const lk_value *symbols = rocprof_list(tool->value, "kernel_symbols");
	const lk_value *markers = rocprof_list(lk_json_get(tool->value, "strings"), "marker_api");
	for (size_t i = 0; i < symbols->count; i++) {
		const char *name = lk_json_get_text(&symbols->items[i], "formatted_kernel_name", "");
		if (!*name) name = lk_json_get_text(&symbols->items[i], "kernel_name", "");
		LK_TRY(rocprof_put(tool->rocm, &tool->symbols,
		                   rocprof_member(&symbols->items[i], "kernel_id", -1), name));
	}
	for (size_t i = 0; i < markers->count; i++)
		LK_TRY(rocprof_put(tool->rocm, &tool->markers,
		                   rocprof_member(&markers->items[i], "key", -1),
		                   lk_json_get_text(&markers->items[i], "value", "")));
	rocprof_sort(&tool->symbols);
	rocprof_sort(&tool->markers);
	return LK_OK;
}

static lk_status rocprof_read_agents(struct rocprof_tool *tool) {
	enum { GPU = 2 }; /* rocprofiler_agent_type_t */
	const lk_value *agents = rocprof_list(tool->value, "agents");
	lk_capture *capture = tool->rocm->capture;
	for (size_t i = 0; i < agents->count && !capture->device; i++) {
		const char *product = lk_json_get_text(&agents->items[i], "product_name", "");
		int64_t units = rocprof_member(&agents->items[i], "cu_count", 0);
		if (rocprof_member(&agents->items[i], "type", 0) != GPU || !*product) continue;
		if (units > 0 && units < 100000) capture->sms = (int32_t)units;
		LK_TRY(rocprof_intern(tool->rocm, product, &capture->device));
	}
	return LK_OK;
}

/* The kind of a record ("HIP_RUNTIME_API"), and the name of its operation. */
static const char *rocprof_kind(const struct rocprof_tool *tool, const lk_value *record,
                                const char **operation) {
	const lk_value *kinds = rocprof_list(lk_json_get(tool->value, "strings"), "buffer_records");
	int64_t kind = rocprof_member(record, "kind", -1), op = rocprof_member(record, "operation", -1);
	*operation = "";
	if (kind < 0 || (uint64_t)kind >= kinds->count) return "";
	const lk_value *operations = rocprof_list(&kinds->items[kind], "operations");
	if (op >= 0 && (uint64_t)op < operations->count && operations->items[op].kind == LK_JSON_STRING)
		*operation = operations->items[op].text;
	return lk_json_get_text(&kinds->items[kind], "kind", "");
}

static bool rocprof_begin(const struct rocprof_tool *tool, const lk_value *record,
                          lk_event *event) {
	event->correlation =
		(uint32_t)rocprof_member(lk_json_get(record, "correlation_id"), "internal", 0);
	return lk_rocm_times(tool->rocm, event, rocprof_member(record, "start_timestamp", -1),
	                     rocprof_member(record, "end_timestamp", -1));
}

static lk_status rocprof_read_kernel(const struct rocprof_tool *tool, const lk_value *record) {
	lk_event event = {.kind = LK_EVENT_KERNEL};
	const lk_value *info = lk_json_get(record, "dispatch_info");
	if (!rocprof_begin(tool, record, &event)) return LK_OK;
	LK_TRY(rocprof_intern(tool->rocm,
	                      rocprof_find(&tool->symbols, rocprof_member(info, "kernel_id", -1)),
	                      &event.name));
	int64_t queue = rocprof_handle(lk_json_get(info, "queue_id"), 0);
	return lk_rocm_add_work(tool->rocm, rocprof_handle(lk_json_get(info, "agent_id"), 0),
	                        rocprof_handle(lk_json_get(record, "stream_id"), queue), &event);
}

static lk_status rocprof_read_copy(const struct rocprof_tool *tool, const lk_value *record) {
	lk_event event = {.kind = LK_EVENT_MEMCPY};
	const char *operation;
	if (!rocprof_begin(tool, record, &event)) return LK_OK;
	rocprof_kind(tool, record, &operation);
	const char *name = lk_rocm_copy_name(operation);
	const char *device = strstr(name, "toH") ? "src_agent_id" : "dst_agent_id";
	event.bytes = rocprof_member(record, "bytes", 0);
	LK_TRY(rocprof_intern(tool->rocm, name, &event.name));
	return lk_rocm_add_work(tool->rocm, rocprof_handle(lk_json_get(record, device), 0),
	                        rocprof_handle(lk_json_get(record, "stream_id"), 0), &event);
}

static lk_status rocprof_read_call(const struct rocprof_tool *tool, const lk_value *record) {
	lk_event event = {0};
	const char *operation, *domain = rocprof_kind(tool, record, &operation);
	if (!lk_rocm_domain(domain, &event.kind)) {
		tool->rocm->capture->dropped++;
		return LK_OK;
	}
	if (!rocprof_begin(tool, record, &event)) return LK_OK;
	const char *marker = rocprof_find(&tool->markers, event.correlation);
	if (event.kind != LK_EVENT_RUNTIME) event.correlation = 0;
	bool marked = event.kind == LK_EVENT_NOTE && *marker;
	LK_TRY(rocprof_intern(tool->rocm, marked ? marker : operation, &event.name));
	return lk_rocm_add_call(tool->rocm, tool->process, rocprof_member(record, "thread_id", 0),
	                        &event);
}

static lk_status rocprof_read_tool(struct rocprof_tool *tool) {
	static const char *const calls[] = {"hip_api", "marker_api", "rccl_api"};
	const lk_value *records = lk_json_get(tool->value, "buffer_records");
	const lk_value *kernels = rocprof_list(records, "kernel_dispatch");
	const lk_value *copies = rocprof_list(records, "memory_copy");
	tool->process = rocprof_member(lk_json_get(tool->value, "metadata"), "pid", 0);
	LK_TRY(rocprof_read_names(tool));
	LK_TRY(rocprof_read_agents(tool));
	for (size_t i = 0; i < kernels->count; i++)
		LK_TRY(rocprof_read_kernel(tool, &kernels->items[i]));
	for (size_t i = 0; i < copies->count; i++) LK_TRY(rocprof_read_copy(tool, &copies->items[i]));
	for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
		const lk_value *list = rocprof_list(records, calls[c]);
		for (size_t i = 0; i < list->count; i++) LK_TRY(rocprof_read_call(tool, &list->items[i]));
	}
	return LK_OK;
}

static lk_status rocprof_read_process(lk_rocm *rocm, const lk_value *value) {
	struct rocprof_tool tool = {.rocm = rocm, .value = value};
	lk_status status = rocprof_read_tool(&tool);
	lk_vec_free(&tool.symbols);
	lk_vec_free(&tool.markers);
	return status;
}

/* Each process with kernels is a rank; without any, the first is read. */
static lk_status rocprof_read_tools(lk_rocm *rocm, const lk_value *tools) {
	if (tools->kind != LK_JSON_ARRAY) return rocprof_read_process(rocm, tools);
	for (size_t i = 0; i < tools->count; i++) {
		const lk_value *records = lk_json_get(&tools->items[i], "buffer_records");
		if (!rocprof_list(records, "kernel_dispatch")->count) continue;
		LK_TRY(lk_rocm_next(rocm));
		LK_TRY(rocprof_read_process(rocm, &tools->items[i]));
	}
	return rocm->capture->count || !tools->count ? LK_OK : rocprof_read_process(rocm, tools->items);
}

/* ---- results.json ---- */

/* An end of an arrow, or an event that it may lead to. */
struct rocprof_end {
	int64_t process, thread, us;
	int64_t number; /* of the arrow; for an event, its index in the list */
};
typedef LK_VEC(struct rocprof_end) rocprof_ends;

struct rocprof_chrome {
	lk_rocm *rocm;
	const lk_value *events;
	rocprof_names processes;
	rocprof_ends from, to, places;
	uint32_t *correlation; /* by event */
};

LK_ORDER_BY(rocprof_by_place, struct rocprof_end, us, process, thread)

static lk_status rocprof_put_end(struct rocprof_chrome *chrome, rocprof_ends *ends,
                                 const lk_value *event, int64_t number) {
	if (!lk_push(ends)) return lk_oom(chrome->rocm->err);
	*lk_last(ends) =
		(struct rocprof_end){rocprof_member(event, "pid", -1), rocprof_member(event, "tid", -1),
	                         rocprof_member(event, "ts", -1), number};
	return LK_OK;
}

/* Sort out names of processes, arrows, and places of events. */
static lk_status rocprof_sort_out(struct rocprof_chrome *chrome) {
	for (size_t i = 0; i < chrome->events->count; i++) {
		const lk_value *event = &chrome->events->items[i];
		const char *phase = lk_json_get_text(event, "ph", "");
		int64_t id = rocprof_member(event, "id", -1);
		if (*phase == 'X') LK_TRY(rocprof_put_end(chrome, &chrome->places, event, (int64_t)i));
		else if (*phase == 's') LK_TRY(rocprof_put_end(chrome, &chrome->from, event, id));
		else if (*phase == 't') LK_TRY(rocprof_put_end(chrome, &chrome->to, event, id));
		else if (*phase == 'M' && strcmp(lk_json_get_text(event, "name", ""), "process_name") == 0)
			LK_TRY(rocprof_put(chrome->rocm, &chrome->processes, rocprof_member(event, "pid", -1),
			                   lk_json_get_text(lk_json_get(event, "args"), "name", "")));
	}
	rocprof_sort(&chrome->processes);
	lk_sort(chrome->places.at, chrome->places.count, sizeof *chrome->places.at, rocprof_by_place);
	return LK_OK;
}

/* Give events at the ends of an arrow its number, from 1 on. */
static void rocprof_join(struct rocprof_chrome *chrome, const rocprof_ends *ends) {
	for (size_t i = 0; i < ends->count && chrome->places.count; i++) {
		const struct rocprof_end *end = &ends->at[i];
		const struct rocprof_end *found =
			bsearch(end, chrome->places.at, chrome->places.count, sizeof *end, rocprof_by_place);
		if (found && end->number >= 0 && end->number < UINT32_MAX - 1)
			chrome->correlation[found->number] = (uint32_t)end->number + 1;
	}
}

static lk_status rocprof_read_event(struct rocprof_chrome *chrome, size_t i) {
	const lk_value *value = &chrome->events->items[i], *args = lk_json_get(value, "args");
	int64_t process = rocprof_member(value, "pid", -1), thread = rocprof_member(value, "tid", 0);
	const char *where = rocprof_find(&chrome->processes, process);
	const char *name = lk_json_get_text(value, "name", "");
	lk_event event = {.correlation = chrome->correlation[i]};
	bool gpu = strncmp(where, "GPU", 3) == 0, copy = strcmp(where, "COPY") == 0;
	if (gpu) event.kind = strncasecmp(name, "Copy", 4) == 0 ? LK_EVENT_MEMCPY : LK_EVENT_KERNEL;
	else if (copy) event.kind = LK_EVENT_MEMCPY;
	else if (strstr(where, "HIP")) event.kind = LK_EVENT_RUNTIME;
	else if (strstr(where, "Marker")) event.kind = LK_EVENT_NOTE;
	else {
		chrome->rocm->capture->dropped++;
		return LK_OK;
	}
	if (!lk_rocm_times(chrome->rocm, &event, rocprof_member(args, "BeginNs", -1),
	                   rocprof_member(args, "EndNs", -1)))
		return LK_OK;
	if (event.kind == LK_EVENT_MEMCPY) name = lk_rocm_copy_name(name);
	LK_TRY(rocprof_intern(chrome->rocm, name, &event.name));
	if (!gpu && !copy)
		return lk_rocm_add_call(chrome->rocm, rocprof_member(args, "pid", process), thread, &event);
	int64_t device = rocprof_member(args, "dev-id", gpu ? strtoll(where + 3, NULL, 10) : 0);
	/* the runtime's copies have no stream, but engines of their own */
	return lk_rocm_add_work(chrome->rocm, device, copy ? -1 - thread : thread, &event);
}

static lk_status rocprof_read_chrome(lk_rocm *rocm, const lk_value *events) {
	struct rocprof_chrome chrome = {.rocm = rocm, .events = events};
	chrome.correlation = calloc(events->count + 1, sizeof *chrome.correlation);
	lk_status status = chrome.correlation ? rocprof_sort_out(&chrome) : lk_oom(rocm->err);
	if (status == LK_OK) {
		rocprof_join(&chrome, &chrome.from);
		rocprof_join(&chrome, &chrome.to);
	}
	for (size_t i = 0; i < events->count && status == LK_OK; i++)
		if (*lk_json_get_text(&events->items[i], "ph", "") == 'X')
			status = rocprof_read_event(&chrome, i);
	free(chrome.correlation);
	lk_vec_free(&chrome.processes);
	lk_vec_free(&chrome.from);
	lk_vec_free(&chrome.to);
	lk_vec_free(&chrome.places);
	return status;
}

lk_status lk_rocprof_read(lk_stream *in, const lk_read_limits *limits, lk_capture *capture,
                          lk_error *err) {
	lk_rocm rocm = {.capture = capture, .limits = limits, .err = err};
	lk_arena arena = LK_ARENA_INIT;
	lk_value *document;
	lk_status status = lk_json_document(&arena, in, &document, err);
	if (status == LK_OK) {
		const lk_value *tools = lk_json_get(document, "rocprofiler-sdk-tool");
		status = tools ? rocprof_read_tools(&rocm, tools)
		               : rocprof_read_chrome(&rocm, rocprof_list(document, "traceEvents"));
	}
	if (status == LK_OK) status = lk_rocm_finish(&rocm);
	lk_arena_free(&arena);
	return status;
}
