/* postmortem.c: finds out what files are left of a run by their first bytes, reads them, and asks
 * the file of their form. Only regular files are looked at: a pipe is a trace's. */
#include "postmortem/postmortem.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/sort.h"
#include "oom/oom.h"
#include "pickle/pickle.h"
#include "io/stream.h"
#include "options/command.h"
#include "system/listing.h"
#include "trace/read/read.h"

enum { HEAD = 1 << 18, FILES = 1 << 16 };

/* ---- forms ---- */

static bool head_has(const char *head, size_t size, const char *words) {
	return memmem(head, size, words, strlen(words)) != NULL;
}

/* By the keys in its first bytes. Kineto's traces name groups too. */
static lk_mortem_form form_of_document(const char *head, size_t size) {
	static const char *const of_traces[] = {"traceEvents", "distributedInfo", "schemaVersion"};
	for (size_t i = 0; i < sizeof of_traces / sizeof *of_traces; i++)
		if (head_has(head, size, of_traces[i])) return LK_MORTEM_NONE;
	if (head_has(head, size, "segments") &&
	    (head_has(head, size, "device_traces") || head_has(head, size, "total_size")))
		return LK_MORTEM_SNAPSHOT;
	bool entries = head_has(head, size, "entries") || head_has(head, size, "pg_status");
	return entries && (head_has(head, size, "pg_config") || head_has(head, size, "profiling_name"))
	           ? LK_MORTEM_FLIGHT
	           : LK_MORTEM_NONE;
}

/* A line of a log may begin with a bracket; JSON of traces goes on with a brace. */
static bool is_text(const char *head, size_t size) {
	size_t at = strspn(head, " \t\r\n[");
	return size && !memchr(head, '\0', size) && head[at] != '{' && head[at] != ']';
}

static lk_mortem_form form_of_text(const char *text, size_t size) {
	lk_oom_text found;
	size_t at = 0;
	bool ras = head_has(text, size, "Job summary") && head_has(text, size, "Communicators");
	if (ras || head_has(text, size, "have launched up to operation")) return LK_MORTEM_RAS;
	if (lk_oom_next(text, size, &at, &found)) return LK_MORTEM_LOG;
	return lk_mortem_has_timeouts(text, size) ? LK_MORTEM_TIMEOUTS : LK_MORTEM_NONE;
}

/* A text that is too long has no form. */
static lk_status form_of_log(const char *path, lk_mortem_form *form, lk_error *err) {
	char *text;
	size_t size;
	lk_status status = lk_stream_slurp(path, LK_MORTEM_LOG_BYTES, &text, &size, err);
	if (status != LK_OK) return status == LK_ERR_INPUT ? LK_OK : status;
	*form = form_of_text(text, size);
	free(text);
	return LK_OK;
}

/* What a file is. */
struct look {
	lk_mortem_form form;
	bool trace, pickle;
};

static lk_status look_at_head(struct look *look, lk_stream *in, const char *path, char *head,
                              lk_error *err) {
	const char *bytes;
	size_t size;
	LK_TRY(lk_stream_peek(in, HEAD, &bytes, &size, err));
	memcpy(head, bytes, size);
	head[size] = '\0';
	look->pickle = lk_pickle_is(head, size);
	lk_trace_kind kind = lk_trace_kind_of(head, size);
	look->trace = !look->pickle && kind != LK_TRACE_OTHER && kind != LK_TRACE_OTHER_JSON;
	/* "[0]: ..." of a log may be the begin of a list of events to the readers of traces */
	bool bracket = head[strspn(head, " \t\r\n")] == '[';
	if (!look->pickle && (bracket || !look->trace) && is_text(head, size)) {
		look->trace = false;
		return form_of_log(path, &look->form, err);
	}
	if (!look->trace) look->form = form_of_document(head, size);
	return LK_OK;
}

static lk_status look_at(const char *path, struct look *look, lk_error *err) {
	struct stat status;
	lk_stream *in;
	*look = (struct look){LK_MORTEM_NONE, false, false};
	if (stat(path, &status) != 0)
		return lk_fail(err, LK_ERR_IO, path, "cannot open: %s", strerror(errno));
	if (!S_ISREG(status.st_mode)) return LK_OK;
	LK_TRY(lk_stream_open(path, &in, err));
	char *head = malloc(HEAD + 1);
	lk_status result = head ? look_at_head(look, in, path, head, err) : lk_oom(err);
	free(head);
	lk_stream_close(in);
	return result;
}

typedef LK_VEC(lk_mortem_file) mortem_files;

static lk_status add_file(lk_mortem *work, mortem_files *files, const char *path,
                          lk_mortem_form form, lk_error *err) {
	if (files->count >= FILES) return lk_fail(err, LK_ERR_INPUT, path, "more than %d files", FILES);
	if (!lk_push(files)) return lk_oom(err);
	*lk_last(files) = (lk_mortem_file){.path = lk_arena_strdup(&work->arena, path), .form = form};
	return lk_last(files)->path ? LK_OK : lk_oom(err);
}

/* Whether a failure to look at a file is the answer. */
static bool must_tell(const lk_mortem *work, lk_status status) {
	return status == LK_ERR_MEMORY || (status != LK_OK && work->asked);
}

/* The files of a folder with the form of the first that has one; none if a trace comes first. A
 * file that cannot be read is an error only where others have a form: of traces their reader knows
 * which files it needs. */
static lk_status add_listed(lk_mortem *work, mortem_files *files, const char *folder,
                            lk_listing *listing, lk_error *err) {
	lk_mortem_form form = LK_MORTEM_NONE;
	lk_error unread = {.status = LK_OK};
	for (size_t i = 0; i < listing->count; i++) {
		struct look look;
		lk_error failed;
		if (listing->names[i][0] == '.') continue;
		char *path = lk_arena_printf(&listing->arena, "%s/%s", folder, listing->names[i]);
		if (!path) return lk_oom(err);
		if (look_at(path, &look, &failed) != LK_OK) unread = failed;
		if (form == LK_MORTEM_NONE && look.trace) return LK_OK;
		if (form == LK_MORTEM_NONE) form = look.form;
		if (form == LK_MORTEM_NONE || look.form != form) continue;
		LK_TRY(add_file(work, files, path, form, err));
	}
	bool needed = unread.status == LK_ERR_MEMORY ||
	              (unread.status == LK_ERR_IO && (form != LK_MORTEM_NONE || work->asked));
	return needed ? lk_fail_as(err, &unread) : LK_OK;
}

static lk_status add_folder(lk_mortem *work, mortem_files *files, const char *folder,
                            lk_error *err) {
	lk_listing listing;
	lk_status status = lk_listing_read(folder, NULL, &listing, err);
	if (status != LK_OK) return must_tell(work, status) ? status : LK_OK;
	status = add_listed(work, files, folder, &listing, err);
	lk_listing_free(&listing);
	return status;
}

LK_ORDER_BY_TEXT(files_by_path, lk_mortem_file, path)

/* All files of the request that have a form; *others: operands without one. */
static lk_status find_files(lk_mortem *work, mortem_files *files, const char **others,
                            lk_error *err) {
	*others = NULL;
	for (int i = 0; i < work->request->trace_count; i++) {
		const char *path = work->request->traces[i];
		struct stat status;
		size_t before = files->count;
		if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
			LK_TRY(add_folder(work, files, path, err));
		} else {
			struct look look;
			lk_status looked = look_at(path, &look, err);
			bool broke = looked == LK_ERR_IO && access(path, R_OK) == 0;
			if (broke || must_tell(work, looked)) return looked;
			/* What cannot be opened has no form: the reader of traces says why. */
			if (looked != LK_OK) look.form = LK_MORTEM_NONE;
			/* No trace is a pickle: the reader of snapshots says what is wrong with it. */
			else if (look.form == LK_MORTEM_NONE && look.pickle) look.form = LK_MORTEM_SNAPSHOT;
			if (look.form != LK_MORTEM_NONE) LK_TRY(add_file(work, files, path, look.form, err));
		}
		if (files->count == before) *others = path;
	}
	lk_sort(files->at, files->count, sizeof *files->at, files_by_path);
	return LK_OK;
}

/* ---- reading ---- */

static lk_status read_one(lk_mortem *work, const lk_mortem_file *found, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_mortem_file file = *found;
	lk_status status = lk_mortem_load(&arena, &file, err);
	if (status == LK_OK && file.form == LK_MORTEM_SNAPSHOT)
		status = lk_mortem_snapshot(work, &file, err);
	if (status == LK_OK && file.form == LK_MORTEM_LOG) status = lk_mortem_log(work, &file, err);
	if (status == LK_OK && file.form == LK_MORTEM_RAS) status = lk_mortem_ras(work, &file, err);
	lk_arena_free(&arena);
	return status;
}

static lk_status read_files(lk_mortem *work, const mortem_files *files, lk_error *err) {
	static const char *const sources[] = {
		[LK_MORTEM_SNAPSHOT] = "memory snapshot of PyTorch",
		[LK_MORTEM_FLIGHT] = "flight recorder of PyTorch",
		[LK_MORTEM_LOG] = "log",
		[LK_MORTEM_TIMEOUTS] = "log of PyTorch's watchdog",
		[LK_MORTEM_RAS] = "RAS of NCCL",
	};
	lk_mortem_form form = files->at[0].form;
	for (size_t i = 1; i < files->count; i++)
		if (files->at[i].form != form) {
			lk_fail(err, LK_ERR_INPUT, files->at[i].path, "a %s, but %s is a %s",
			        sources[files->at[i].form], files->at[0].path, sources[form]);
			return lk_hint(err, "explain them one by one");
		}
	work->result.source = sources[form];
	work->result.missing = "";
	if (form == LK_MORTEM_TIMEOUTS) return lk_mortem_timeouts(work, files->at, files->count, err);
	if (form == LK_MORTEM_FLIGHT) return lk_mortem_flight(work, files->at, files->count, err);
	for (size_t i = 0; i < files->count; i++) LK_TRY(read_one(work, &files->at[i], err));
	return form == LK_MORTEM_RAS ? LK_OK : lk_mortem_diagnose_memory(work, err);
}

/* Options that show what only traces have. */
static lk_status refuse_options(const lk_explain_request *request, lk_error *err) {
	const struct {
		bool given;
		const char *option;
	} of_traces[] = {
		{request->steps != NULL, "--steps"},   {request->rank >= 0, "--rank"},
		{request->gpu != NULL, "--gpu"},       {request->cluster != NULL, "--cluster"},
		{request->roofline_needed, "--table"},
	};
	for (size_t i = 0; i < sizeof of_traces / sizeof *of_traces; i++)
		if (of_traces[i].given)
			return lk_fail(err, LK_ERR_INPUT, of_traces[i].option,
			               "is of traces of steps, and the files are left of a run that died or "
			               "hangs");
	return LK_OK;
}

static lk_status write_reproduce(lk_mortem *work, lk_error *err) {
	static const char *const but[] = {"threads", "top", NULL};
	lk_explain_request usual;
	lk_explain_defaults(&usual);
	work->result.reproduce =
		lk_command(&work->arena, &(lk_question){.verb = &lk_explain_verb,
	                                            .request = work->request,
	                                            .usual = &usual,
	                                            .but = but,
	                                            .operands = work->request->traces,
	                                            .operand_count = work->request->trace_count});
	return work->result.reproduce ? LK_OK : lk_oom(err);
}

/* What was held at a device's moment is the sum of its kinds, and of its lines. */
static const char *check_sums(const lk_postmortem *result) {
	double held = 0, kinds = 0, lines = 0;
	for (int i = 0; i < result->memory_count; i++)
		if (result->memory[i].moment) held += result->memory[i].held_bytes;
	for (int i = 0; i < result->kind_count; i++) kinds += result->kinds[i].bytes;
	for (int i = 0; i < result->holder_count; i++) lines += result->holders[i].bytes;
	LK_HOLDS(fabs(kinds - held) <= 1e-9 * held);
	LK_HOLDS(fabs(lines - held) <= 1e-9 * held);
	return NULL;
}

static void give_rows(lk_mortem *work) {
	lk_postmortem *result = &work->result;
	result->top = work->request->top;
#define GIVE(member, number) \
	(result->member = work->member.at, result->number = (int)work->member.count)
	GIVE(memory, memory_count);
	GIVE(kinds, kind_count);
	GIVE(holders, holder_count);
	GIVE(remedies, remedy_count);
	GIVE(collectives, collective_count);
	GIVE(warnings, warning_count);
#undef GIVE
	result->failed_check = lk_failed_check(check_sums(result));
}

lk_status lk_postmortem_asked(const lk_explain_request *request, bool *asked, lk_error *err) {
	lk_mortem work = {.request = request};
	mortem_files files = {0};
	const char *others;
	lk_status status = find_files(&work, &files, &others, err);
	*asked = files.count > 0;
	if (status == LK_OK && *asked && others) {
		lk_fail(err, LK_ERR_INPUT, others,
		        "it is not what a run leaves when it dies or hangs, but %s is", files.at[0].path);
		status = lk_hint(err, "explain them one by one");
	}
	lk_vec_free(&files);
	lk_arena_free(&work.arena);
	return status;
}

lk_status lk_postmortem_read(const lk_explain_request *request, lk_postmortem **out,
                             lk_error *err) {
	lk_mortem *work = calloc(1, sizeof *work);
	mortem_files files = {0};
	const char *others;
	*out = NULL;
	if (!work) return lk_oom(err);
	work->request = request;
	work->asked = true;
	work->result.memory_owner = work;
	lk_status status = refuse_options(request, err);
	if (status == LK_OK) status = find_files(work, &files, &others, err);
	if (status == LK_OK && !files.count)
		status = lk_mortem_lacks(request->trace_count ? request->traces[0] : "explain",
		                         "memory snapshot, dump or message", err);
	if (status == LK_OK) status = read_files(work, &files, err);
	if (status == LK_OK) status = write_reproduce(work, err);
	lk_vec_free(&files);
	if (status == LK_OK) {
		give_rows(work);
		*out = &work->result;
	} else lk_postmortem_free(&work->result);
	return status;
}

void lk_postmortem_free(lk_postmortem *postmortem) {
	if (!postmortem) return;
	lk_mortem *work = postmortem->memory_owner;
	if (postmortem->versus_free) postmortem->versus_free(postmortem->versus_owner);
	lk_vec_free(&work->memory);
	lk_vec_free(&work->kinds);
	lk_vec_free(&work->holders);
	lk_vec_free(&work->remedies);
	lk_vec_free(&work->collectives);
	lk_vec_free(&work->warnings);
	lk_arena_free(&work->arena);
	free(work);
}
