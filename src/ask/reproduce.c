/* reproduce.c: a request as the command that asks it again. What was left open and decided is written out (degrees, batch,
 * format, schedule); every other option stands as it was given, walked in the verb's own table, so that none is
 * forgotten. */
#include <string.h>

#include "ask/notes.h"
#include "base/text.h"
#include "model/launch.h"
#include "model/schedule.h"

static bool in(const char *name, const char *const *names) {
	for (; *names; names++)
		if (strcmp(name, *names) == 0) return true;
	return false;
}

/* " --name value" of an option that was given; "" for others. NULL when memory is out. */
static const char *spell(lk_arena *arena, const lk_option *option, const void *field) {
	const char *name = option->name, *text = option->kind == LK_OPTION_TEXT ? *(const char *const *)field : NULL;
	char number[32];
	switch (option->kind) {
	case LK_OPTION_FLAG: return *(const bool *)field ? lk_arena_printf(arena, " --%s", name) : "";
	case LK_OPTION_SWITCH: {
		int said = *(const int *)field;
		return said ? lk_arena_printf(arena, " --%s%s", said < 0 ? "no-" : "", name) : "";
	}
	case LK_OPTION_INT: return *(const int *)field ? lk_arena_printf(arena, " --%s %d", name, *(const int *)field) : "";
	case LK_OPTION_REAL:
	case LK_OPTION_COUNT:
		if (*(const double *)field == 0) return "";
		return lk_arena_printf(arena, " --%s %s", name, lk_format_shortest(*(const double *)field, number, sizeof number));
	case LK_OPTION_TEXT:
		if (!text) return "";
		text = lk_shell_quote(arena, text);
		return text ? lk_arena_printf(arena, " --%s %s", name, text) : NULL;
	default: return "";
	}
}

/* All options that were given but for those of the list. */
static const char *given(lk_arena *arena, const lk_predict_request *r, const char *const *but) {
	const char *all = "";
	for (const lk_option *option = lk_predict_verb.options; option->name && all; option++) {
		if (in(option->name, but)) continue;
		const char *one = spell(arena, option, (const char *)r + option->offset);
		all = one ? lk_arena_printf(arena, "%s%s", all, one) : NULL;
	}
	return all;
}

#define OUTPUT "resume", "trace", "trace-ranks", "graph", "chakra", "no-fixes", "output", "file", "verbose"

static const char *of_line(lk_arena *arena, const lk_predict_request *r) {
	static const char *const but[] = {OUTPUT, NULL};
	const char *options = given(arena, r, but);
	const char *text = options ? lk_arena_printf(arena, "lockstep predict%s --", options) : NULL;
	for (int i = 0; text && i < r->launch_count; i++) {
		const char *word = lk_shell_quote(arena, r->launch[i]);
		text = word ? lk_arena_printf(arena, "%s %s", text, word) : NULL;
	}
	return text;
}

static const char *of_options(lk_arena *arena, const lk_predict_request *r, const lk_job *job) {
	static const char *const recompute[] = {"none", "selective", "full"};
	static const char *const but[] = {"model", "gpu", "gpus", "cluster", "tp", "pp", "vp", "cp", "ep", "mbs", "gbs", "seq",
	                                  "dtype", "recompute", "zero", "schedule", OUTPUT, NULL};
	const char *options = given(arena, r, but), *model = lk_shell_quote(arena, r->model);
	const char *cluster = r->cluster ? lk_shell_quote(arena, r->cluster) : "";
	if (!options || !model || !cluster) return NULL;
	const char *where = r->cluster ? lk_arena_printf(arena, "--cluster %s", cluster)
	                               : lk_arena_printf(arena, "--gpu %s --gpus %d", r->gpu ? r->gpu : "", job->gpus);
	if (!where) return NULL;
	return lk_arena_printf(
		arena,
		"lockstep predict --model %s %s --tp %d --pp %d --vp %d --cp %d --ep %d --mbs %d --gbs %d --seq %d --dtype %s "
		"--recompute %s --zero %d --schedule %s%s",
		model, where, job->tp, job->pp, job->vp, job->cp, job->ep, job->mbs, job->gbs, job->seq, lk_dtype_name(job->dtype),
		r->recompute ? r->recompute : recompute[job->recompute], (int)job->sharding,
		lk_schedule_get(job->schedule)->name, options);
}

const char *lk_reproduce(lk_arena *arena, const lk_predict_request *r, const lk_job *job) {
	static const char *const but[] = {OUTPUT, NULL};
	if (r->launch_count > 0) return of_line(arena, r);
	if (r->model && !r->script) return of_options(arena, r, job);
	const char *options = given(arena, r, but);
	return options ? lk_arena_printf(arena, "lockstep predict%s", options) : NULL;
}
