/* compile_tune.c: `lockstep compile tune`: where a program runs and how large it is; what is remembered or searched; the
 * evidence that the fastest schedule computes the same. */
#include <string.h>

#include "cost/calibration/calibration.h"
#include "lang/compile/compile.h"
#include "lang/tune/tune.h"

enum { TOP = 5 };

struct tuning {
	const lc_program *p;
	const lk_compile_request *request;
	lk_arena arena;
	lk_cluster cluster;
	lc_sizes sizes;
	lk_search search;
	lk_search_options options;
	lk_wisdom wisdom;
	lc_file *remembered;       /* the file that a remembered schedule was parsed in */
	lk_tuned tuned;
};

/* ---- sizes and cluster ---- */

static bool names(const char *text, const char *name) {
	size_t length = strlen(name);
	for (const char *at = text; at; at = strchr(at, ',')) {
		at += *at == ',';
		while (*at == ' ') at++;
		const char *dot = at + strcspn(at, ".=,"); /* LIST.NAME */
		if (*dot == '.') at = dot + 1;
		if (strncmp(at, name, length) == 0 && (at[length] == '=' || at[length] == ' ')) return true;
	}
	return false;
}

/* The sizes that other actions choose, small ones, would be timed in vain. */
static lk_status check_dims(const struct tuning *t, lk_error *err) {
	for (int d = 0; d < t->p->named_count; d++) {
		const char *name = t->p->named[d].name;
		if (t->request->sizes && names(t->request->sizes, name)) continue;
		lk_fail(err, LK_ERR_INPUT, "--sizes", "%s is not given, and times depend on it", name);
		return lk_hint(err, "give --sizes %s=N,...", name);
	}
	return LK_OK;
}

/* Ranks that the last axis gets where the text does not say: what the others leave of the GPUs. */
static lk_status read_sizes(struct tuning *t, int gpus, lk_error *err) {
	LK_TRY(check_dims(t, err));
	LK_TRY(lc_sizes_read(t->p, t->request->sizes, 1, &t->sizes, err));
	int64_t ranks = lc_ranks(t->p, &t->sizes);
	const char *last = t->p->axes[t->p->axis_count - 1].name;
	if (t->request->sizes && names(t->request->sizes, last)) return LK_OK;
	if (t->p->axes[t->p->axis_count - 1].size || ranks < 1 || gpus / ranks < 2) return LK_OK;
	lc_sizes_free(&t->sizes);
	return lc_sizes_read(t->p, t->request->sizes, gpus / ranks, &t->sizes, err);
}

static lk_status check_ranks(const struct tuning *t, lk_error *err) {
	int64_t ranks = lc_ranks(t->p, &t->sizes);
	if (ranks < 2) {
		lk_fail(err, LK_ERR_INPUT, "--sizes", "the mesh has one rank, and nothing is communicated");
		return lk_hint(err, "give --sizes %s=8, or --gpus", t->p->axes[t->p->axis_count - 1].name);
	}
	if (ranks <= t->cluster.gpus) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--sizes", "the mesh has %lld ranks, and there are %d GPUs", (long long)ranks, t->cluster.gpus);
	return lk_hint(err, "give more GPUs, or axes of fewer ranks");
}

static lk_status read_cluster(struct tuning *t, lk_error *err) {
	const lk_compile_request *r = t->request;
	const lk_device *device;
	if (r->cluster && r->gpu) return lk_fail(err, LK_ERR_INPUT, "--cluster", "--cluster and --gpu exclude one another");
	if (r->cluster) {
		LK_TRY(lk_cluster_parse(&t->arena, r->cluster, &t->cluster, err));
		LK_TRY(read_sizes(t, r->gpus ? r->gpus : t->cluster.gpus, err));
		return lk_timed_share_host(&t->arena, lc_ranks(t->p, &t->sizes), &t->cluster, err);
	}
	if (!r->gpu) {
		lk_fail(err, LK_ERR_INPUT, "--gpu", "no GPU was given");
		return lk_hint(err, "give --gpu NAME (`lockstep devices` lists them) or --cluster");
	}
	LK_TRY(lk_device_lookup(r->gpu, &device, err));
	LK_TRY(read_sizes(t, r->gpus, err));
	int64_t ranks = lc_ranks(t->p, &t->sizes);
	int gpus = r->gpus ? r->gpus : ranks < 1 << 24 ? (int)ranks : 1 << 24;
	return lk_cluster_simple(&t->arena, device, gpus, 0, 0, &t->cluster, err);
}

/* ---- remembered, or searched ---- */

static lk_status forget(struct tuning *t, const lk_error *why, lk_error *err) {
	char line[640];
	lk_error copy = *why;
	if (!lk_push(&t->wisdom.warnings)) return lk_oom(err);
	*lk_last(&t->wisdom.warnings) =
		lk_arena_printf(&t->wisdom.arena, "what %s has for this program is not legal: %s; it is searched again",
		                t->request->wisdom, lk_error_text(&copy, line, sizeof line));
	lc_file_free(t->remembered);
	t->remembered = NULL;
	return *lk_last(&t->wisdom.warnings) ? LK_OK : lk_oom(err);
}

/* Sets *hit where the entry is good. */
static lk_status recall(struct tuning *t, const lk_wise *entry, bool *hit, lk_error *err) {
	const lc_schedule *s;
	lk_error why = {0};
	lk_found found;
	lk_status status = lk_wisdom_schedule(t->p, entry->schedule, &t->remembered, &s, &why);
	if (status == LK_OK) status = lk_search_time(t->p, s, &t->options, &found, &why);
	if (status == LK_ERR_INPUT) return forget(t, &why, err);
	if (status != LK_OK) return *err = why, status;
	if (!lk_push(&t->search.found)) return lk_oom(err);
	t->search.found.at[t->search.found.count - 1] = t->search.found.at[0];
	if (entry->measured) {
		found.simulated_s = found.time.seconds;
		found.time.seconds = entry->seconds, found.measured = true;
		t->search.plain.time.seconds = entry->plain, t->search.plain.measured = true;
	}
	t->search.found.at[0] = found;
	*hit = true;
	return LK_OK;
}

/* The mesh and sizes as a text, also of the axis that the GPUs decided. */
static lk_status measure(struct tuning *t, lk_error *err) {
	int last = t->p->axis_count - 1, top = t->request->top > 0 ? t->request->top : TOP;
	const char *sizes = t->request->sizes ? t->request->sizes : "", *axis = t->p->axes[last].name;
	if (!t->request->measure) return LK_OK;
	if (!names(sizes, axis))
		sizes = lk_arena_printf(&t->arena, "%s%s%s=%lld", sizes, *sizes ? "," : "", axis, (long long)t->sizes.symbol[last]);
	if (!sizes) return lk_oom(err);
	return lk_search_measure(t->p, &t->search, top, sizes, t->request->set, t->request->seed, err);
}

static lk_status look(struct tuning *t, lk_error *err) {
	lk_search_free(&t->search);
	t->options.only_plain = false;
	LK_TRY(lk_search_run(t->p, &t->options, &t->search, err));
	return measure(t, err);
}

static lk_status remember(struct tuning *t, const char *where, lk_error *err) {
	const lk_found *best = &t->search.found.at[0];
	const char *text = lk_wisdom_text(&t->wisdom.arena, &best->schedule);
	lk_wise entry = {t->search.plain_hash, where, best->measured, best->time.seconds, t->search.plain.time.seconds, text};
	if (!text) return lk_oom(err);
	LK_TRY(lk_wisdom_keep(&t->wisdom, &entry, err));
	return lk_wisdom_write(&t->wisdom, t->request->wisdom, err);
}

static lk_status find(struct tuning *t, lk_error *err) {
	if (!t->request->wisdom) return look(t, err);
	LK_TRY(lk_wisdom_read(t->request->wisdom, &t->wisdom, err));
	const char *where = lk_wisdom_where(&t->wisdom, t->p, &t->sizes, &t->cluster);
	if (!where) return lk_oom(err);
	t->options.only_plain = true;
	LK_TRY(lk_search_run(t->p, &t->options, &t->search, err));
	const lk_wise *entry = lk_wisdom_find(&t->wisdom, t->search.plain_hash, where);
	if (entry && (entry->measured || !t->request->measure)) LK_TRY(recall(t, entry, &t->tuned.remembered, err));
	if (t->tuned.remembered) return LK_OK;
	LK_TRY(look(t, err));
	return remember(t, where, err);
}

/* ---- the file's own schedules ---- */

static lk_status time_own(struct tuning *t, lk_error *err) {
	const char *name = t->request->schedule;
	const lc_schedule *one = NULL;
	bool all = name && strcmp(name, "all") == 0;
	if (!all) LK_TRY(lc_pick_schedule(t->p, name, &one, err));
	t->tuned.own = LK_ARRAY(&t->arena, lk_found, t->p->schedules.count + 1);
	if (!t->tuned.own) return lk_oom(err);
	for (size_t i = 0; i < t->p->schedules.count; i++) {
		const lc_schedule *s = &t->p->schedules.at[i];
		if (all || s == one) LK_TRY(lk_search_time(t->p, s, &t->options, &t->tuned.own[t->tuned.own_count++], err));
	}
	return LK_OK;
}

/* ---- evidence ---- */

static lk_status verify(struct tuning *t, lk_error *err) {
	const lc_schedule *s = &t->search.found.at[0].schedule;
	lc_verify_options o = {.seed = (uint64_t)t->request->seed, .exact_only = true};
	lc_program *q = NULL;
	if (s->count == 0) return LK_OK; /* plain itself */
	LK_TRY(lc_rewrite_all(t->p, s, &q, err));
	lk_status status = lc_verify(t->p, q, &o, &t->tuned.verdict, err);
	lc_program_free(q);
	t->tuned.verified = status == LK_OK;
	return status;
}

static lk_status tune(struct tuning *t, FILE *out, lk_error *err) {
	if (t->request->calibration) LK_TRY(lk_calibration_use(t->request->calibration, err));
	LK_TRY(read_cluster(t, err));
	LK_TRY(check_ranks(t, err));
	t->options = (lk_search_options){.cluster = &t->cluster, .sizes = &t->sizes, .programs = t->request->programs};
	LK_TRY(find(t, err));
	LK_TRY(time_own(t, err));
	LK_TRY(verify(t, err));
	t->tuned.p = t->p, t->tuned.sizes = &t->sizes, t->tuned.cluster = &t->cluster, t->tuned.search = &t->search;
	t->tuned.top = t->request->top > 0 ? t->request->top : TOP;
	t->tuned.warnings = t->wisdom.warnings.at, t->tuned.warning_count = t->wisdom.warnings.count;
	if (t->request->format == LK_COMPILE_JSON) return lk_tuned_json(&t->tuned, out, err);
	lk_tuned_text(&t->tuned, out);
	return LK_OK;
}

lk_status lk_compile_tune(lk_compile *answer, const lk_compile_request *request, FILE *out, lk_error *err) {
	lc_program *p;
	LK_TRY(lc_pick_program(answer, request, &p, err));
	struct tuning t = {.p = p, .request = request};
	lk_status status = tune(&t, out, err);
	answer->no |= t.tuned.verified && !t.tuned.verdict.equal;
	lc_file_free(t.remembered);
	lk_wisdom_free(&t.wisdom);
	lk_search_free(&t.search);
	lc_sizes_free(&t.sizes);
	lk_arena_free(&t.arena);
	return status;
}
