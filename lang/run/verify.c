/* verify.c: runs two programs on the same random inputs, exactly, on several meshes, with random
 * sizes: their results must be the same, bit for bit. */
#include <math.h>
#include <string.h>

#include "base/stats.h"
#include "base/text.h"
#include "lang/run/run.h"
#include "lang/run/run_internal.h"

enum { DRAWS = 3, MESHES = 256 };

struct verifier {
	const lc_program *p, *q; /* original, rewritten */
	const lc_verify_options *o;
	lc_verdict *out;
	int results[2][LC_VALUES], count;
	int64_t seen[MESHES][LC_AXES];
	lk_error *err;
};

/* The two programs on one mesh with one draw. */
struct trial {
	struct verifier *v;
	lc_sizes s[2];
	lc_run *run[2];
	uint64_t seed;
};

/* ---- comparing ---- */

static void verify_put_mesh(const struct verifier *verifier, const lc_sizes *sizes, FILE *out) {
	for (int a = 0; a < verifier->p->axis_count; a++)
		fprintf(out, "%s%s=%lld", a ? "," : "", verifier->p->axes[a].name,
		        (long long)sizes->symbol[a]);
	for (int d = 0; d < verifier->p->named_count; d++)
		if (!sizes->each[d])
			fprintf(out, ",%s=%lld", verifier->p->named[d].name,
			        (long long)sizes->symbol[LC_AXES + d]);
}

/* The first rank that holds an element of the rewritten program's result. */
static int64_t holder(const struct trial *trial, int id, int64_t item, int64_t index) {
	const lc_node *node = &trial->v->q->nodes.at[id];
	int64_t whole[LC_RANK], begin[LC_RANK], extent[LC_RANK];
	if (lc_whole_shape(trial->v->q, node, &trial->s[1], item, whole, NULL) != LK_OK) return 0;
	for (int64_t rank = 0; rank < lc_ranks(trial->v->q, &trial->s[1]); rank++) {
		bool inside =
			lc_local_part(trial->v->q, node, &trial->s[1], item, whole, rank, begin, extent);
		int64_t rest = index;
		for (int d = node->rank; inside && d-- > 0; rest /= whole[d]) {
			int64_t at = rest % whole[d];
			inside = at >= begin[d] && at < begin[d] + extent[d];
		}
		if (inside) return rank;
	}
	return 0;
}

/* *index < 0: for the result as a whole. */
static void note_difference(const struct trial *trial, int result, int64_t item, int64_t index,
                            const char *what) {
	struct verifier *verifier = trial->v;
	char name[80];
	if (!verifier->out->equal) return;
	verifier->out->equal = false;
	FILE *file = lc_text_open(verifier->p, verifier->out->where, sizeof verifier->out->where);
	if (!file) return;
	int id = verifier->results[1][result];
	fprintf(file, "%s",
	        lc_result_name(verifier->p, verifier->results[0][result], name, sizeof name));
	if (verifier->p->nodes.at[verifier->results[0][result]].list >= 0)
		fprintf(file, ", tensor %lld", (long long)item);
	if (index >= 0)
		fprintf(file, ", element %lld on rank %lld", (long long)index,
		        (long long)holder(trial, id, item, index));
	fputs(", with ", file);
	verify_put_mesh(verifier, &trial->s[0], file);
	if (*what) fprintf(file, ": %s", what);
	fclose(file);
	verifier->out->where[sizeof verifier->out->where - 1] = '\0';
}

static double ulps(lc_dtype t, const lc_cells *a, const lc_cells *b) {
	double most = 0, worst = 0;
	for (int64_t i = 0; i < a->count; i++)
		if (isfinite(a->number[i])) most = fmax(most, fabs(a->number[i]));
	double unit =
		lc_roundoff(t) > 0 ? 2 * lc_roundoff(t) * (most > 0 ? exp2(floor(log2(most))) : 1) : 1;
	for (int64_t i = 0; i < a->count; i++) {
		double x = a->number[i], y = b->number[i];
		if (x == y || (isnan(x) && isnan(y))) continue;
		double apart = fabs(x - y) / unit;
		worst = isnan(apart) ? INFINITY : fmax(worst, apart);
	}
	return worst;
}

static void compare_cells(const struct trial *trial, int result, int64_t item, const lc_cells *a,
                          const lc_cells *b) {
	if (a->count != b->count) {
		note_difference(trial, result, item, -1, "another number of elements");
		return;
	}
	if (a->number) {
		lc_dtype dtype = (lc_dtype)trial->v->p->nodes.at[trial->v->results[0][result]].dtype;
		trial->v->out->worst = fmax(trial->v->out->worst, ulps(dtype, a, b)); /* fmax ignores NAN */
		return;
	}
	for (int64_t i = 0; i < a->count; i++)
		if (a->element[i] != b->element[i]) {
			note_difference(trial, result, item, i, "");
			return;
		}
}

/* A disagreement among ranks of the rewritten program is a difference too. */
static lk_status whole_pair(const struct trial *trial, int result, int64_t item, int64_t rank,
                            const lc_cells *out[2]) {
	lk_error found = {0};
	const struct verifier *verifier = trial->v;
	LK_TRY(lc_run_whole_of(trial->run[0], verifier->results[0][result], item, rank, &out[0],
	                       verifier->err));
	lk_status status =
		lc_run_whole_of(trial->run[1], verifier->results[1][result], item, rank, &out[1], &found);
	if (status == LK_ERR_INTERNAL) note_difference(trial, result, item, -1, found.what);
	else if (status != LK_OK && verifier->err) *verifier->err = found;
	return status == LK_ERR_INTERNAL ? LK_OK : status;
}

static lk_status compare_result(const struct trial *trial, int result) {
	const struct verifier *verifier = trial->v;
	const lc_node *node = &verifier->p->nodes.at[verifier->results[0][result]];
	for (int64_t rank = 0; rank < lc_ranks(verifier->p, &trial->s[0]); rank++) {
		if (!lc_first_of_local(verifier->p, node, &trial->s[0], rank)) continue;
		for (int64_t item = 0;
		     item < lc_items(verifier->p, &trial->s[0], node) && verifier->out->equal; item++) {
			const lc_cells *pair[2] = {NULL, NULL};
			LK_TRY(whole_pair(trial, result, item, rank, pair));
			if (verifier->out->equal) compare_cells(trial, result, item, pair[0], pair[1]);
		}
	}
	return LK_OK;
}

/* ---- one trial ---- */

static lk_status verify_run_pair(struct trial *trial, lc_arithmetic arithmetic) {
	lc_run_options o = {.arithmetic = arithmetic,
	                    .seed = trial->seed,
	                    .key = lk_hash64(trial->seed),
	                    .only_results = true};
	LK_TRY(lc_run_program(trial->v->p, &trial->s[0], &o, &trial->run[0], trial->v->err));
	LK_TRY(lc_run_program(trial->v->q, &trial->s[1], &o, &trial->run[1], trial->v->err));
	for (int i = 0; i < trial->v->count; i++) LK_TRY(compare_result(trial, i));
	return LK_OK;
}

static void end_runs(struct trial *trial) {
	lc_run_free(trial->run[0]);
	lc_run_free(trial->run[1]);
	trial->run[0] = trial->run[1] = NULL;
}

static lk_status bound_chance(const struct trial *trial) {
	lc_degrees d[2];
	lc_verdict *out = trial->v->out;
	LK_TRY(lc_degrees_of(trial->v->p, &trial->s[0], &d[0], trial->v->err));
	LK_TRY(lc_degrees_of(trial->v->q, &trial->s[1], &d[1], trial->v->err));
	double degree = fmax(d[0].result, d[1].result);
	if (degree > (double)out->degree) out->degree = (int64_t)fmin(degree, 0x1p61);
	out->chance = fmax(out->chance, lc_chance(&d[0], &d[1]));
	out->choices = d[0].choices;
	return LK_OK;
}

/* In numeric mode an index may lie beyond its table: then rounding is not reported. */
static lk_status try_numbers(struct trial *trial) {
	if (trial->v->o->exact_only || !trial->v->out->equal) return LK_OK;
	lk_status status = verify_run_pair(trial, LC_NUMERIC);
	end_runs(trial);
	return status == LK_ERR_INPUT ? LK_OK : status;
}

static lk_status try_once(struct trial *trial) {
	lk_status status = verify_run_pair(trial, LC_FIELD);
	end_runs(trial);
	LK_TRY(status);
	trial->v->out->runs++;
	LK_TRY(bound_chance(trial));
	return try_numbers(trial);
}

/* ---- meshes ---- */

static bool new_mesh(struct verifier *verifier, const lc_sizes *sizes) {
	for (int i = 0; i < verifier->out->meshes; i++)
		if (memcmp(verifier->seen[i], sizes->symbol, sizeof verifier->seen[i]) == 0) return false;
	if (verifier->out->meshes == MESHES) return false;
	memcpy(verifier->seen[verifier->out->meshes++], sizes->symbol, sizeof verifier->seen[0]);
	lk_text tried = {.at = verifier->out->tried,
	                 .size = sizeof verifier->out->tried,
	                 .used = strlen(verifier->out->tried)};
	for (int a = 0; a < verifier->p->axis_count; a++) {
		if (tried.used + 24 > tried.size) break;
		const char *before = tried.used ? " " : "";
		lk_text_add(&tried, "%s%lld", a ? "x" : before, (long long)sizes->symbol[a]);
	}
	return true;
}

/* *fits: whether both programs can have the mesh. */
static lk_status draw_sizes(struct trial *trial, const int64_t axes[LC_AXES], bool *fits) {
	struct verifier *verifier = trial->v;
	lk_status status = lc_sizes_draw(verifier->p, verifier->o->sizes, axes, trial->seed,
	                                 &trial->s[0], verifier->err);
	if (status == LK_OK)
		status =
			lc_sizes_refine(verifier->p, &trial->s[0], verifier->q, &trial->s[1], verifier->err);
	if (status == LK_OK) status = lc_sizes_check(verifier->q, &trial->s[1], verifier->err);
	*fits = status == LK_OK;
	return status == LK_ERR_INPUT ? LK_OK : status;
}

static lk_status try_mesh(struct verifier *verifier, const int64_t axes[LC_AXES], uint64_t number) {
	int draws = verifier->o->draws ? verifier->o->draws : DRAWS;
	for (int i = 0; i < draws && verifier->out->equal; i++) {
		struct trial t = {.v = verifier,
		                  .seed = lk_hash64(verifier->o->seed + 1) + number * 65536 + (uint64_t)i};
		bool fits, fresh = true;
		lk_status status = draw_sizes(&t, axes, &fits);
		if (status == LK_OK && fits && i == 0) fresh = new_mesh(verifier, &t.s[0]);
		if (status == LK_OK && fits && fresh) status = try_once(&t);
		lc_sizes_free(&t.s[0]);
		lc_sizes_free(&t.s[1]);
		LK_TRY(status);
		if (!fits && i == 0) verifier->out->skipped++;
		if (!fits || !fresh) return LK_OK;
	}
	return LK_OK;
}

enum { CHOICES = 24 };

/* The requested numbers of ranks, or the defaults; if the rewritten mesh has groups, multiples of
 * their size. */
static int choose_ranks(const struct verifier *verifier, int out[CHOICES]) {
	static const int usual[] = {1, 2, 3, 4, 8};
	const int *ranks = verifier->o->ranks ? verifier->o->ranks : usual;
	int count = verifier->o->ranks ? verifier->o->rank_count : (int)(sizeof usual / sizeof *usual),
		group = 1;
	if (count > CHOICES - 2) count = CHOICES - 2;
	memcpy(out, ranks, sizeof *out * (size_t)count);
	if (verifier->o->ranks || verifier->q->axis_count == verifier->p->axis_count) return count;
	for (int a = 0; a < verifier->q->axis_count; a++)
		if (lc_axis_find(verifier->p, verifier->q->axes[a].name) < 0 &&
		    verifier->q->axes[a].size > 0 && verifier->q->axes[a].size <= LC_VERIFY_RANKS / group)
			group *= (int)verifier->q->axes[a].size;
	for (int groups = 2; groups <= 3 && group > 1; groups++)
		if (group * groups <= LC_VERIFY_RANKS) out[count++] = group * groups;
	return count;
}

/* Try every number of ranks on every axis, up to the limit of all ranks. */
static lk_status each_mesh(struct verifier *verifier) {
	int ranks[CHOICES], choices = choose_ranks(verifier, ranks), combinations = 1;
	for (int a = 0; a < verifier->p->axis_count; a++) combinations *= choices;
	for (int c = 0; c < combinations && verifier->out->equal; c++) {
		int64_t axes[LC_AXES] = {0}, all = 1;
		for (int a = verifier->p->axis_count, rest = c; a-- > 0; rest /= choices) {
			axes[a] = ranks[rest % choices];
			all *= verifier->p->axes[a].size ? verifier->p->axes[a].size : axes[a];
		}
		if (all <= LC_VERIFY_RANKS || combinations == choices)
			LK_TRY(try_mesh(verifier, axes, (uint64_t)c));
	}
	if (verifier->out->runs) return LK_OK;
	if (verifier->err && verifier->err->what[0]) return verifier->err->status;
	return lk_fail(verifier->err, LK_ERR_INPUT, verifier->p->name,
	               "no mesh was given that the program can have");
}

/* ---- comparable results ---- */

static bool local_alike(const lc_node *a, const lc_program *program, const lc_node *b,
                        const lc_program *q) {
	bool one = false, other = false;
	for (int x = 0; x < program->axis_count; x++) one |= a->layout[x].kind == LC_L;
	for (int x = 0; x < q->axis_count; x++) other |= b->layout[x].kind == LC_L;
	return one == other;
}

static lk_status pair_results(struct verifier *verifier) {
	int other;
	LK_TRY(
		lc_results(verifier->p, verifier->results[0], LC_VALUES, &verifier->count, verifier->err));
	LK_TRY(lc_results(verifier->q, verifier->results[1], LC_VALUES, &other, verifier->err));
	for (int i = 0; i < verifier->count && other == verifier->count; i++) {
		const lc_node *a = &verifier->p->nodes.at[verifier->results[0][i]],
					  *b = &verifier->q->nodes.at[verifier->results[1][i]];
		bool state = a->op != LC_OUT;
		if (state == (b->op != LC_OUT) && a->dtype == b->dtype && a->rank == b->rank &&
		    a->list == b->list && (!state || strcmp(a->name, b->name) == 0) &&
		    local_alike(a, verifier->p, b, verifier->q))
			continue;
		other = -1;
	}
	if (other == verifier->count) return LK_OK;
	verifier->out->equal = false;
	snprintf(verifier->out->where, sizeof verifier->out->where,
	         "they do not have the same results");
	return LK_OK;
}

lk_status lc_verify(const lc_program *original, const lc_program *rewritten,
                    const lc_verify_options *options, lc_verdict *out, lk_error *err) {
	lk_error unused = {0};
	struct verifier v = {
		.p = original, .q = rewritten, .o = options, .out = out, .err = err ? err : &unused};
	*out = (lc_verdict){.equal = true, .worst = NAN};
	v.err->what[0] = '\0';
	LK_TRY(pair_results(&v));
	return out->equal ? each_mesh(&v) : LK_OK;
}
