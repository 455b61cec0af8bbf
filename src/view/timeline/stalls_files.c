/* stalls_files.c: a run of stalls as a timeline and as folded stacks. */
#include <limits.h>
#include <string.h>

#include "system/listing.h"
#include "base/text.h"
#include "lockstep/explain.h"
#include "lockstep/stalls.h"
#include "trace/read/read.h"
#include "view/table/output.h"

/* Of a log of Darshan, and of what is only predicted, there is no recording to show. */
static lk_status check_steps_shown(const lk_stalls_answer *answer, const char *option,
                                   lk_error *err) {
	if (answer->shown) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, option, "%s no steps to show",
	        answer->machine_count ? "of networks on machines there are" : "a log of Darshan has");
	return lk_hint(err, "leave it out, or give a folder of lockstep record");
}

lk_status lk_stalls_timeline(const lk_stalls_answer *answer, const char *path, lk_error *err) {
	lk_explain_request request;
	lk_explanation *explanation;
	LK_TRY(check_steps_shown(answer, "--timeline", err));
	lk_explain_defaults(&request);
	request.traces = &answer->shown;
	request.trace_count = 1;
	LK_TRY(lk_explain(&request, &explanation, err));
	lk_status status = lk_explain_trace(explanation, path, err);
	lk_explain_free(explanation);
	return status;
}

/* ---- folded stacks (https://github.com/brendangregg/FlameGraph): frames, a blank, microseconds
 * ---- */

/* Nanoseconds by stack; ids of the intern table count up from 1. */
struct stacks {
	lk_intern *names;
	LK_VEC(int64_t) ns;
};

static lk_status files_add(struct stacks *stacks, const char *stack, int64_t ns, lk_error *err) {
	uint32_t id = lk_intern_id(stacks->names, stack);
	if (id == UINT32_MAX) return lk_oom(err);
	while (stacks->ns.count <= id)
		if (!lk_push(&stacks->ns)) return lk_oom(err);
	stacks->ns.at[id] += ns;
	return LK_OK;
}

/* A frame's name has no semicolon and no control characters. */
static void frame(char *out, size_t size, const char *name) {
	lk_escape(name, out, size);
	for (char *c = out; *c; c++)
		if (*c == ';') *c = ':';
}

static void name_call(const lk_recorded_run *run, const lk_recorded_call *call, char *out,
                      size_t size) {
	static const char *const words[LK_RECORD_KINDS] = {
		[LK_RECORD_OPEN] = "open", [LK_RECORD_READ] = "read", [LK_RECORD_WRITE] = "write",
		[LK_RECORD_SYNC] = "sync", [LK_RECORD_MAP] = "map",   [LK_RECORD_CLOSE] = "close"};
	const lk_record_entry *entry = &call->record;
	bool comm = entry->kind == LK_RECORD_COMM;
	const lk_recorded_name *what =
		comm ? lk_recorded_find(&run->names, call->process, entry->comm.call)
			 : lk_recorded_find(&run->files, call->process, entry->object);
	const lk_recorded_name *group =
		comm ? lk_recorded_find(&run->groups, call->process, entry->object) : NULL;
	char name[300], on[300];
	const char *shown = "?";
	if (what) shown = lk_intern_text(run->texts, comm ? what->name : what->shown);
	frame(name, sizeof name, shown);
	frame(on, sizeof on, group ? lk_intern_text(run->texts, group->name) : "");
	if (comm) snprintf(out, size, "communication;%s%s%s", name, *on ? ";ranks " : "", on);
	else
		snprintf(out, size, "files;%s;%s",
		         entry->kind < LK_RECORD_KINDS && words[entry->kind] ? words[entry->kind] : "call",
		         name);
}

/* The main thread's calls, and its own code between them. */
static lk_status files_add_rank(struct stacks *stacks, const lk_recorded_run *run, lk_error *err) {
	char who[64], stack[1024], what[700];
	int64_t cursor = -1;
	if (run->head.rank >= 0) snprintf(who, sizeof who, "rank %d", run->head.rank);
	else snprintf(who, sizeof who, "process %u", run->head.pid);
	for (size_t i = 0; i < run->calls.count; i++) {
		const lk_recorded_call *call = &run->calls.at[i];
		const lk_record_entry *entry = &call->record;
		if (call->process || entry->thread != run->main_thread || entry->start_ns < cursor)
			continue;
		snprintf(stack, sizeof stack, "%s;own code", who);
		if (cursor >= 0) LK_TRY(files_add(stacks, stack, entry->start_ns - cursor, err));
		name_call(run, call, what, sizeof what);
		snprintf(stack, sizeof stack, "%s;%s", who, what);
		LK_TRY(files_add(stacks, stack, entry->end_ns - entry->start_ns, err));
		cursor = entry->end_ns;
	}
	return LK_OK;
}

/* Recordings of forked processes are read with their parent's. */
static lk_status files_add_file(void *stacks, const char *path, const char *name, lk_error *err) {
	if (strstr(name, LK_RECORDING_FORKED)) return LK_OK;
	lk_recorded_run run;
	lk_error unreadable = {0};
	lk_intern *texts = lk_intern_new();
	if (!texts) return lk_oom(err);
	lk_status status = LK_OK;
	if (lk_recorded_load(path, NULL, texts, &run, &unreadable) == LK_OK) {
		status = files_add_rank(stacks, &run, err);
		lk_recorded_free(&run);
	}
	lk_intern_free(texts);
	return status;
}

static lk_status write_stacks(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct stacks *stacks = what;
	(void)colour;
	(void)err;
	for (uint32_t id = 1; id < stacks->ns.count; id++)
		if (stacks->ns.at[id] >= 1000)
			fprintf(out, "%s %lld\n", lk_intern_text(stacks->names, id),
			        (long long)(stacks->ns.at[id] / 1000));
	return LK_OK;
}

lk_status lk_stalls_folded(const lk_stalls_answer *answer, const char *path, lk_error *err) {
	LK_TRY(check_steps_shown(answer, "--folded", err));
	struct stacks s = {.names = lk_intern_new()};
	lk_status status =
		s.names ? lk_listing_visit(answer->shown, LK_RECORDING_ENDING, files_add_file, &s, err)
				: lk_oom(err);
	lk_writing w = {.path = path};
	if (status == LK_OK) status = lk_write_through(&w, write_stacks, &s, err);
	lk_vec_free(&s.ns);
	lk_intern_free(s.names);
	return status;
}
