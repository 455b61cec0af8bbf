/* recorded.c: a recording and those of forked processes as one list of calls, by time; which call
 * waited for which. */
#include "trace/read/recorded_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/listing.h"
#include "base/stats.h"
#include "base/text.h"
#include "base/sort.h"
#include "trace/read/read.h"

enum { MOST_CHILDREN = 1024 };

/* Times beyond three months are invalid. */
static const int64_t LAST_NS = INT64_C(1) << 53;

struct loader {
	lk_recorded_run *run;
	const lk_read_limits *limits;
	uint32_t process;
	int64_t shift_ns; /* from this process's times to those of the first */
	lk_error *err;
};

void lk_recorded_free(lk_recorded_run *run) {
	lk_vec_free(&run->calls);
	lk_vec_free(&run->storage);
	lk_vec_free(&run->processor);
	lk_vec_free(&run->threads);
	lk_vec_free(&run->marks);
	lk_vec_free(&run->spans);
	lk_vec_free(&run->mark_names);
	lk_vec_free(&run->names);
	lk_vec_free(&run->files);
	lk_vec_free(&run->groups);
	lk_vec_free(&run->peers);
	lk_vec_free(&run->mounts);
}

/* ---- names ---- */

LK_ORDER_BY(recorded_by_key, lk_recorded_name, key)

const lk_recorded_name *lk_recorded_find(const lk_recorded_names *names, uint32_t process,
                                         uint32_t number) {
	lk_recorded_name key = {.key = (uint64_t)process << 32 | number};
	return names->count ? bsearch(&key, names->at, names->count, sizeof key, recorded_by_key)
	                    : NULL;
}

static lk_status recorded_intern(struct loader *loader, const char *text, uint32_t *out) {
	uint64_t most = loader->limits && loader->limits->names ? loader->limits->names : 16u << 20;
	char plain[LK_TEXT_MOST * 4];
	*out = lk_intern_id(loader->run->texts, lk_escape(text, plain, sizeof plain));
	if (*out == UINT32_MAX) return lk_oom(loader->err);
	return *out < most ? LK_OK
	                   : lk_fail(loader->err, LK_ERR_INPUT, loader->run->path,
	                             "holds too many different names");
}

static lk_status recorded_add_name(struct loader *loader, lk_recorded_names *to,
                                   const lk_recorded *recorded) {
	const char *slash = strrchr(recorded->text, '/');
	if (!lk_push(to)) return lk_oom(loader->err);
	lk_recorded_name *name = lk_last(to);
	name->key = (uint64_t)loader->process << 32 | recorded->record.object;
	if (recorded->record.kind == LK_RECORD_GROUP) {
		name->size = recorded->record.comm.peer;
		name->rank = recorded->record.comm.tag;
		name->division = (uint64_t)recorded->record.bytes;
	}
	if (recorded->record.kind == LK_RECORD_FILE) {
		name->mount = recorded->record.file.mount;
		name->bytes = recorded->record.bytes;
	}
	LK_TRY(recorded_intern(loader, recorded->text, &name->name));
	return recorded_intern(loader, slash ? slash + 1 : recorded->text, &name->shown);
}

/* ---- records ---- */

static bool possible(const lk_record_entry *entry) {
	if (entry->start_ns < 0 || entry->end_ns < entry->start_ns || entry->end_ns >= LAST_NS ||
	    entry->bytes < 0)
		return false;
	switch (entry->kind) {
	case LK_RECORD_COMM: return entry->comm.part < LK_PARTS && entry->comm.what < LK_WHATS;
	case LK_RECORD_DEVICE_CALL:
	case LK_RECORD_DEVICE_WORK: return entry->device.what < LK_DEVICE_WHATS;
	case LK_RECORD_PROXY:
		return entry->proxy.device_ns >= 0 && entry->proxy.network_ns >= 0 &&
		       entry->proxy.peer_ns >= 0;
	case LK_RECORD_MARK: return entry->object < LK_MARK_PARTS;
	default: return true;
	}
}

static uint64_t most_records(const struct loader *loader) {
	return loader->limits && loader->limits->events ? loader->limits->events : 1000000000;
}

static lk_status recorded_add_call(struct loader *loader, const lk_record_entry *entry) {
	lk_recorded_run *run = loader->run;
	if (!possible(entry)) {
		run->strange++;
		return LK_OK;
	}
	lk_recorded_calls *to = &run->calls;
	if (entry->kind == LK_RECORD_STORAGE) to = &run->storage;
	else if (entry->kind == LK_RECORD_PROCESSOR) to = &run->processor;
	else if (entry->kind == LK_RECORD_THREAD) to = &run->threads;
	if (to->count >= most_records(loader))
		return lk_fail(loader->err, LK_ERR_INPUT, run->path, "holds too many records");
	if (!lk_push(to)) return lk_oom(loader->err);
	/* `done` holds its index until all are sorted */
	*lk_last(to) = (lk_recorded_call){*entry, loader->process, (uint32_t)(to->count - 1)};
	lk_last(to)->record.start_ns += loader->shift_ns;
	lk_last(to)->record.end_ns += loader->shift_ns;
	return LK_OK;
}

static lk_status recorded_add_mark(struct loader *loader, const lk_recorded *recorded) {
	const lk_record_entry *entry = &recorded->record;
	lk_recorded_run *run = loader->run;
	if (!possible(entry)) {
		run->strange++;
		return LK_OK;
	}
	if (run->marks.count >= most_records(loader))
		return lk_fail(loader->err, LK_ERR_INPUT, run->path, "holds too many records");
	if (!lk_push(&run->marks)) return lk_oom(loader->err);
	lk_recorded_mark *mark = lk_last(&run->marks);
	*mark = (lk_recorded_mark){.thread = (uint64_t)loader->process << 16 | entry->thread,
	                           .ns = entry->start_ns + loader->shift_ns,
	                           .domain = entry->bytes,
	                           .name = LK_NONE,
	                           .order = (uint32_t)run->marks.count};
	return entry->object == LK_MARK_ENDS ? LK_OK
	                                     : recorded_intern(loader, recorded->text, &mark->name);
}

static lk_status add_record(struct loader *loader, const lk_recorded *recorded) {
	switch (recorded->record.kind) {
	case LK_RECORD_THREAD:
		if (!loader->process && recorded->record.bytes == loader->run->head.pid)
			loader->run->first_thread = recorded->record.thread;
		return recorded_add_call(loader, &recorded->record);
	case LK_RECORD_NAME: return recorded_add_name(loader, &loader->run->names, recorded);
	case LK_RECORD_FILE: return recorded_add_name(loader, &loader->run->files, recorded);
	case LK_RECORD_PEER: return recorded_add_name(loader, &loader->run->peers, recorded);
	case LK_RECORD_MOUNT: return recorded_add_name(loader, &loader->run->mounts, recorded);
	case LK_RECORD_GROUP: return recorded_add_name(loader, &loader->run->groups, recorded);
	case LK_RECORD_MARK: return recorded_add_mark(loader, recorded);
	default: return recorded_add_call(loader, &recorded->record);
	}
}

static lk_status add_records(struct loader *loader, lk_recording *recording) {
	lk_recorded *got = malloc(sizeof *got);
	lk_status status = got ? LK_OK : lk_oom(loader->err);
	if (status == LK_OK) status = lk_recording_check(recording, loader->err);
	while (status == LK_OK && lk_recording_next(recording, got)) status = add_record(loader, got);
	free(got);
	if (status == LK_OK) status = lk_recording_status(recording, loader->err);
	loader->run->dropped += recording->head.dropped;
	return status;
}

/* ---- order ---- */

LK_ORDER_BY(recorded_by_start, lk_recorded_call, record.start_ns, process, record.thread,
            record.end_ns, done)

/* Sort by start; equal calls stay in recorded order, with any C library's sort. */
static void sort_calls(lk_recorded_calls *calls) {
	lk_sort(calls->at, calls->count, sizeof *calls->at, recorded_by_start);
	for (size_t i = 0; i < calls->count; i++) calls->at[i].done = LK_NONE;
}

bool lk_recorded_by_pipe(const lk_recorded_run *run, const lk_recorded_call *call) {
	const lk_recorded_name *peer =
		lk_recorded_find(&run->peers, call->process, call->record.object);
	return peer && strncmp(lk_intern_text(run->texts, peer->name), LK_RECORD_PIPE,
	                       strlen(LK_RECORD_PIPE)) == 0;
}

/* How strongly a call suggests that its thread is the main one. Connections mostly have threads of
 * their own. */
static uint64_t weight_of(const lk_record_entry *entry) {
	switch (entry->kind) {
	case LK_RECORD_COMM: return 1u << 20;
	case LK_RECORD_SENT:
	case LK_RECORD_RECEIVED:
	case LK_RECORD_WAIT: return 0;
	case LK_RECORD_DEVICE_WORK:
	case LK_RECORD_PROXY: return 0; /* another record reports it */
	default: return 1;
	}
}

/* The main thread is the one that communicates most by calls; else the one that the process began
 * with, if it has its share of the file calls; else the one with most of them. */
static lk_status find_main_thread(lk_recorded_run *run, lk_error *err) {
	enum { SHARE = 16 };
	uint64_t *weight = calloc(1 << 16, sizeof *weight);
	if (!weight) return lk_oom(err);
	for (size_t i = 0; i < run->calls.count; i++)
		if (run->calls.at[i].process == 0)
			weight[run->calls.at[i].record.thread] += weight_of(&run->calls.at[i].record);
	for (uint32_t t = 1; t < 1 << 16; t++)
		if (weight[t] > weight[run->main_thread]) run->main_thread = (uint16_t)t;
	bool communicates =
		weight[run->main_thread] >= weight_of(&(lk_record_entry){.kind = LK_RECORD_COMM});
	if (!communicates && SHARE * weight[run->first_thread] >= weight[run->main_thread])
		run->main_thread = run->first_thread;
	free(weight);
	return LK_OK;
}

/* ---- requests ---- */

/* By handle: the call that started the request, and, for persistent requests, the call that created
 * it. */
struct request {
	uint64_t key;
	uint32_t call, made;
	bool used;
};

static struct request *request_at(struct request *table, size_t size, uint64_t key) {
	size_t at = lk_hash64(key) & (size - 1);
	while (table[at].used && table[at].key != key) at = (at + 1) & (size - 1);
	return &table[at];
}

/* A persistent request is described when it is created; its starts copy that. */
static void recorded_start(lk_recorded_run *run, struct request *request, uint32_t call) {
	lk_record_entry *record = &run->calls.at[call].record;
	request->call = call;
	if (request->made == LK_NONE) return;
	const lk_record_entry *made = &run->calls.at[request->made].record;
	record->object = made->object;
	record->bytes = made->bytes;
	record->comm.peer = made->comm.peer;
	record->comm.tag = made->comm.tag;
	record->comm.what = made->comm.what;
	record->comm.element_bytes = made->comm.element_bytes;
	record->comm.call = made->comm.call;
}

static void follow(lk_recorded_run *run, struct request *table, size_t size, uint32_t call) {
	const lk_record_entry *record = &run->calls.at[call].record;
	struct request *request = request_at(table, size, record->comm.request);
	if (!request->used) *request = (struct request){record->comm.request, LK_NONE, LK_NONE, true};
	switch (record->comm.part) {
	case LK_PART_POST:
		request->call = call;
		request->made = LK_NONE;
		break;
	case LK_PART_MAKE:
		request->call = LK_NONE;
		request->made = call;
		break;
	case LK_PART_START: recorded_start(run, request, call); break;
	case LK_PART_FREE: request->call = request->made = LK_NONE; break;
	case LK_PART_DONE:
		if (request->call == LK_NONE) break;
		run->calls.at[request->call].done = call;
		run->calls.at[call].done = request->call;
		request->call = LK_NONE;
		break;
	default: break;
	}
}

static lk_status follow_requests(lk_recorded_run *run, lk_error *err) {
	size_t size = 16;
	while (size < run->calls.count * 2) size *= 2;
	struct request *table = calloc(size, sizeof *table);
	if (!table) return lk_oom(err);
	for (uint32_t i = 0; i < run->calls.count; i++) {
		const lk_record_entry *entry = &run->calls.at[i].record;
		if (run->calls.at[i].process == 0 && entry->kind == LK_RECORD_COMM &&
		    entry->comm.part != LK_PART_WHOLE && entry->comm.part != LK_PART_ENQUEUE)
			follow(run, table, size, i);
	}
	free(table);
	return LK_OK;
}

static void sort_names(lk_recorded_names *names) {
	lk_sort(names->at, names->count, sizeof *names->at, recorded_by_key);
}

static lk_status recorded_put_in_order(lk_recorded_run *run, lk_error *err) {
	sort_calls(&run->calls);
	sort_calls(&run->storage);
	sort_calls(&run->processor);
	sort_calls(&run->threads);
	sort_names(&run->names);
	sort_names(&run->files);
	sort_names(&run->groups);
	sort_names(&run->peers);
	sort_names(&run->mounts);
	LK_TRY(lk_recorded_span_marks(run, err));
	LK_TRY(find_main_thread(run, err));
	return follow_requests(run, err);
}

/* ---- several processes ---- */

/* "HOST-12-0.of-7.lkrec" for the recording of process 7. */
static bool is_child(const char *name, uint32_t root) {
	const char *at = strstr(name, LK_RECORDING_FORKED);
	char *end;
	return at && name[0] != '.' && strtoul(at + strlen(LK_RECORDING_FORKED), &end, 10) == root &&
	       strcmp(end, LK_RECORDING_ENDING) == 0;
}

static lk_status add_child(struct loader *loader, const char *path) {
	lk_recording recording;
	const lk_recording_head *own = &loader->run->head;
	lk_status status = lk_recording_open(path, &recording, loader->err);
	/* it ended while its recording began */
	if (status == LK_ERR_INPUT && recording.size < LK_HEADER_BYTES) return LK_OK;
	LK_TRY(status);
	if (strcmp(recording.head.host, own->host) == 0 && recording.head.root == own->pid &&
	    !__builtin_sub_overflow(recording.head.monotonic_ns, own->monotonic_ns,
	                            &loader->shift_ns) &&
	    loader->shift_ns >= 0 && loader->shift_ns < LAST_NS) {
		loader->process = ++loader->run->children;
		status = add_records(loader, &recording);
	}
	lk_recording_close(&recording);
	return status;
}

static lk_status add_children(struct loader *loader, const char *path) {
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int length = slash ? (int)(slash - path) + 1 : 0;
	snprintf(folder, sizeof folder, "%.*s", length, path);
	if (!*folder) lk_copy(folder, sizeof folder, "./");
	/* a folder that may be entered but not listed shows no children */
	if (access(folder, R_OK) != 0 && errno == EACCES) return LK_OK;
	lk_listing listing;
	LK_TRY(lk_listing_read(folder, LK_RECORDING_ENDING, &listing, loader->err));
	lk_status status = LK_OK;
	for (size_t i = 0; i < listing.count && status == LK_OK; i++) {
		char child[PATH_MAX + NAME_MAX + 2];
		if (loader->run->children >= MOST_CHILDREN) break;
		if (!is_child(listing.names[i], loader->run->head.pid)) continue;
		snprintf(child, sizeof child, "%s%s", folder, listing.names[i]);
		status = add_child(loader, child);
	}
	lk_listing_free(&listing);
	return status;
}

static lk_status recorded_take(struct loader *loader, lk_recording *recording, lk_intern *texts,
                               const char *path) {
	*loader->run =
		(lk_recorded_run){.path = recording->path, .head = recording->head, .texts = texts};
	lk_status status = add_records(loader, recording);
	if (status == LK_OK && path) status = add_children(loader, path);
	if (status == LK_OK && path) status = lk_recorded_find_members(loader->run, path, loader->err);
	if (status == LK_OK) status = recorded_put_in_order(loader->run, loader->err);
	if (status != LK_OK) lk_recorded_free(loader->run);
	return status;
}

lk_status lk_recorded_take(lk_recording *recording, const lk_read_limits *limits, lk_intern *texts,
                           lk_recorded_run *out, lk_error *err) {
	struct loader l = {.run = out, .limits = limits, .err = err};
	return recorded_take(&l, recording, texts, NULL);
}

lk_status lk_recorded_load(const char *path, const lk_read_limits *limits, lk_intern *texts,
                           lk_recorded_run *out, lk_error *err) {
	lk_recording recording;
	struct loader l = {.run = out, .limits = limits, .err = err};
	LK_TRY(lk_recording_open(path, &recording, err));
	lk_status status = recorded_take(&l, &recording, texts, path);
	out->path = path;
	lk_recording_close(&recording);
	return status;
}
