/* verify.c: two programs on the same random inputs, exactly, on several meshes, with random sizes: their results must
 * be the same, bit for bit. */
#include <math.h>
#include <string.h>

#include "base/stats.h"
#include "lang/run/run.h"
#include "lang/run/run_internal.h"

enum { DRAWS = 3, MESHES = 256 };

struct verifier {
	const lc_program *p, *q;   /* original, rewritten */
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

static void put_mesh(const struct verifier *v, const lc_sizes *s, FILE *out) {
	for (int a = 0; a < v->p->axis_count; a++)
		fprintf(out, "%s%s=%lld", a ? "," : "", v->p->axes[a].name, (long long)s->symbol[a]);
	for (int d = 0; d < v->p->named_count; d++)
		if (!s->each[d]) fprintf(out, ",%s=%lld", v->p->named[d].name, (long long)s->symbol[LC_AXES + d]);
}

/* The first rank that holds an element of the rewritten program's result. */
static int64_t holder(const struct trial *t, int id, int64_t item, int64_t index) {
	const lc_node *n = &t->v->q->nodes.at[id];
	int64_t whole[LC_RANK], begin[LC_RANK], extent[LC_RANK];
	if (lc_whole_shape(t->v->q, n, &t->s[1], item, whole, NULL) != LK_OK) return 0;
	for (int64_t rank = 0; rank < lc_ranks(t->v->q, &t->s[1]); rank++) {
		bool inside = lc_local_part(t->v->q, n, &t->s[1], whole, rank, begin, extent);
		int64_t rest = index;
		for (int d = n->rank; inside && d-- > 0; rest /= whole[d]) {
			int64_t at = rest % whole[d];
			inside = at >= begin[d] && at < begin[d] + extent[d];
		}
		if (inside) return rank;
	}
	return 0;
}

/* *index < 0: of the result as a whole. */
static void note_difference(const struct trial *t, int result, int64_t item, int64_t index, const char *what) {
	struct verifier *v = t->v;
	char name[80];
	if (!v->out->equal) return;
	v->out->equal = false;
	FILE *file = fmemopen(v->out->where, sizeof v->out->where, "w");
	if (!file) return;
	int id = v->results[1][result];
	fprintf(file, "%s", lc_result_name(v->p, v->results[0][result], name, sizeof name));
	if (v->p->nodes.at[v->results[0][result]].list >= 0) fprintf(file, ", tensor %lld", (long long)item);
	if (index >= 0)
		fprintf(file, ", element %lld on rank %lld", (long long)index, (long long)holder(t, id, item, index));
	fputs(", with ", file);
	put_mesh(v, &t->s[0], file);
	if (*what) fprintf(file, ": %s", what);
	fclose(file);
	v->out->where[sizeof v->out->where - 1] = '\0';
}

static double ulps(lc_dtype t, const lc_cells *a, const lc_cells *b) {
	double most = 0, worst = 0;
	for (int64_t i = 0; i < a->count; i++)
		if (isfinite(a->number[i])) most = fmax(most, fabs(a->number[i]));
	double unit = lc_roundoff(t) > 0 ? 2 * lc_roundoff(t) * (most > 0 ? exp2(floor(log2(most))) : 1) : 1;
	for (int64_t i = 0; i < a->count; i++) {
		double x = a->number[i], y = b->number[i];
		if (x == y || (isnan(x) && isnan(y))) continue;
		double apart = fabs(x - y) / unit;
		worst = isnan(apart) ? INFINITY : fmax(worst, apart);
	}
	return worst;
}

static void compare_cells(const struct trial *t, int result, int64_t item, const lc_cells *a, const lc_cells *b) {
	if (a->count != b->count) {
		note_difference(t, result, item, -1, "another number of elements");
		return;
	}
	if (a->number) {
		lc_dtype dtype = (lc_dtype)t->v->p->nodes.at[t->v->results[0][result]].dtype;
		t->v->out->worst = fmax(t->v->out->worst, ulps(dtype, a, b)); /* fmax leaves NAN out */
		return;
	}
	for (int64_t i = 0; i < a->count; i++)
		if (a->element[i] != b->element[i]) {
			note_difference(t, result, item, i, "");
			return;
		}
}

/* Where ranks of the rewritten program disagree among themselves, that is a difference too. */
static lk_status whole_pair(const struct trial *t, int result, int64_t item, int64_t rank, const lc_cells *out[2]) {
	lk_error found = {0};
	const struct verifier *v = t->v;
	LK_TRY(lc_run_whole_of(t->run[0], v->results[0][result], item, rank, &out[0], v->err));
	lk_status status = lc_run_whole_of(t->run[1], v->results[1][result], item, rank, &out[1], &found);
	if (status == LK_ERR_INTERNAL) note_difference(t, result, item, -1, found.what);
	else if (status != LK_OK && v->err) *v->err = found;
	return status == LK_ERR_INTERNAL ? LK_OK : status;
}

static lk_status compare_result(const struct trial *t, int result) {
	const struct verifier *v = t->v;
	const lc_node *n = &v->p->nodes.at[v->results[0][result]];
	for (int64_t rank = 0; rank < lc_ranks(v->p, &t->s[0]); rank++) {
		if (!lc_first_of_local(v->p, n, &t->s[0], rank)) continue;
		for (int64_t item = 0; item < lc_items(v->p, &t->s[0], n) && v->out->equal; item++) {
			const lc_cells *pair[2] = {NULL, NULL};
			LK_TRY(whole_pair(t, result, item, rank, pair));
			if (v->out->equal) compare_cells(t, result, item, pair[0], pair[1]);
		}
	}
	return LK_OK;
}

/* ---- one trial ---- */

static lk_status run_pair(struct trial *t, lc_arithmetic arithmetic) {
	lc_run_options o = {.arithmetic = arithmetic, .seed = t->seed, .key = lk_hash64(t->seed), .only_results = true};
	LK_TRY(lc_run_program(t->v->p, &t->s[0], &o, &t->run[0], t->v->err));
	LK_TRY(lc_run_program(t->v->q, &t->s[1], &o, &t->run[1], t->v->err));
	for (int i = 0; i < t->v->count; i++) LK_TRY(compare_result(t, i));
	return LK_OK;
}

static void end_runs(struct trial *t) {
	lc_run_free(t->run[0]);
	lc_run_free(t->run[1]);
	t->run[0] = t->run[1] = NULL;
}

static lk_status bound_chance(const struct trial *t) {
	lc_degrees d[2];
	lc_verdict *out = t->v->out;
	LK_TRY(lc_degrees_of(t->v->p, &t->s[0], &d[0], t->v->err));
	LK_TRY(lc_degrees_of(t->v->q, &t->s[1], &d[1], t->v->err));
	double degree = fmax(d[0].result, d[1].result);
	if (degree > (double)out->degree) out->degree = (int64_t)fmin(degree, 0x1p61);
	out->chance = fmax(out->chance, lc_chance(&d[0], &d[1]));
	out->choices = d[0].choices;
	return LK_OK;
}

/* In numbers an index may lie beyond its table: then nothing is said about rounding. */
static lk_status try_numbers(struct trial *t) {
	if (t->v->o->exact_only || !t->v->out->equal) return LK_OK;
	lk_status status = run_pair(t, LC_NUMERIC);
	end_runs(t);
	return status == LK_ERR_INPUT ? LK_OK : status;
}

static lk_status try_once(struct trial *t) {
	lk_status status = run_pair(t, LC_FIELD);
	end_runs(t);
	LK_TRY(status);
	t->v->out->runs++;
	LK_TRY(bound_chance(t));
	return try_numbers(t);
}

/* ---- meshes ---- */

static bool new_mesh(struct verifier *v, const lc_sizes *s) {
	for (int i = 0; i < v->out->meshes; i++)
		if (memcmp(v->seen[i], s->symbol, sizeof v->seen[i]) == 0) return false;
	if (v->out->meshes == MESHES) return false;
	memcpy(v->seen[v->out->meshes++], s->symbol, sizeof v->seen[0]);
	size_t used = strlen(v->out->tried);
	for (int a = 0; a < v->p->axis_count; a++) {
		if (used + 24 > sizeof v->out->tried) break;
		used += (size_t)snprintf(v->out->tried + used, sizeof v->out->tried - used, "%s%lld", a ? "x" : used ? " " : "",
								 (long long)s->symbol[a]);
	}
	return true;
}

/* *fits: whether both programs can have the mesh. */
static lk_status draw_sizes(struct trial *t, const int64_t axes[LC_AXES], bool *fits) {
	struct verifier *v = t->v;
	lk_status status = lc_sizes_draw(v->p, v->o->sizes, axes, t->seed, &t->s[0], v->err);
	if (status == LK_OK) status = lc_sizes_refine(v->p, &t->s[0], v->q, &t->s[1], v->err);
	if (status == LK_OK) status = lc_sizes_check(v->q, &t->s[1], v->err);
	*fits = status == LK_OK;
	return status == LK_ERR_INPUT ? LK_OK : status;
}

static lk_status try_mesh(struct verifier *v, const int64_t axes[LC_AXES], uint64_t number) {
	int draws = v->o->draws ? v->o->draws : DRAWS;
	for (int i = 0; i < draws && v->out->equal; i++) {
		struct trial t = {.v = v, .seed = lk_hash64(v->o->seed + 1) + number * 65536 + (uint64_t)i};
		bool fits, fresh = true;
		lk_status status = draw_sizes(&t, axes, &fits);
		if (status == LK_OK && fits && i == 0) fresh = new_mesh(v, &t.s[0]);
		if (status == LK_OK && fits && fresh) status = try_once(&t);
		lc_sizes_free(&t.s[0]);
		lc_sizes_free(&t.s[1]);
		LK_TRY(status);
		if (!fits && i == 0) v->out->skipped++;
		if (!fits || !fresh) return LK_OK;
	}
	return LK_OK;
}

enum { CHOICES = 24 };

/* The numbers of ranks that were asked for, or the usual ones; where the rewritten mesh has groups, some groups of
 * them. */
static int choose_ranks(const struct verifier *v, int out[CHOICES]) {
	static const int usual[] = {1, 2, 3, 4, 8};
	const int *ranks = v->o->ranks ? v->o->ranks : usual;
	int count = v->o->ranks ? v->o->rank_count : (int)(sizeof usual / sizeof *usual), group = 1;
	if (count > CHOICES - 2) count = CHOICES - 2;
	memcpy(out, ranks, sizeof *out * (size_t)count);
	if (v->o->ranks || v->q->axis_count == v->p->axis_count) return count;
	for (int a = 0; a < v->q->axis_count; a++)
		if (lc_axis_find(v->p, v->q->axes[a].name) < 0 && v->q->axes[a].size > 0 &&
			v->q->axes[a].size <= LC_VERIFY_RANKS / group)
			group *= (int)v->q->axes[a].size;
	for (int groups = 2; groups <= 3 && group > 1; groups++)
		if (group * groups <= LC_VERIFY_RANKS) out[count++] = group * groups;
	return count;
}

/* Every axis has every number of ranks, as far as there are not too many in all. */
static lk_status each_mesh(struct verifier *v) {
	int ranks[CHOICES], choices = choose_ranks(v, ranks), combinations = 1;
	for (int a = 0; a < v->p->axis_count; a++) combinations *= choices;
	for (int c = 0; c < combinations && v->out->equal; c++) {
		int64_t axes[LC_AXES] = {0}, all = 1;
		for (int a = v->p->axis_count, rest = c; a-- > 0; rest /= choices) {
			axes[a] = ranks[rest % choices];
			all *= v->p->axes[a].size ? v->p->axes[a].size : axes[a];
		}
		if (all <= LC_VERIFY_RANKS || combinations == choices) LK_TRY(try_mesh(v, axes, (uint64_t)c));
	}
	if (v->out->runs) return LK_OK;
	if (v->err && v->err->what[0]) return v->err->status;
	return lk_fail(v->err, LK_ERR_INPUT, v->p->name, "no mesh was given that the program can have");
}

/* ---- results side by side ---- */

static bool local_alike(const lc_node *a, const lc_program *p, const lc_node *b, const lc_program *q) {
	bool one = false, other = false;
	for (int x = 0; x < p->axis_count; x++) one |= a->layout[x].kind == LC_L;
	for (int x = 0; x < q->axis_count; x++) other |= b->layout[x].kind == LC_L;
	return one == other;
}

static lk_status pair_results(struct verifier *v) {
	int other;
	LK_TRY(lc_results(v->p, v->results[0], LC_VALUES, &v->count, v->err));
	LK_TRY(lc_results(v->q, v->results[1], LC_VALUES, &other, v->err));
	for (int i = 0; i < v->count && other == v->count; i++) {
		const lc_node *a = &v->p->nodes.at[v->results[0][i]], *b = &v->q->nodes.at[v->results[1][i]];
		bool state = a->op != LC_OUT;
		if (state == (b->op != LC_OUT) && a->dtype == b->dtype && a->rank == b->rank && a->list == b->list &&
			(!state || strcmp(a->name, b->name) == 0) && local_alike(a, v->p, b, v->q)) continue;
		other = -1;
	}
	if (other == v->count) return LK_OK;
	v->out->equal = false;
	snprintf(v->out->where, sizeof v->out->where, "they do not have the same results");
	return LK_OK;
}

lk_status lc_verify(const lc_program *original, const lc_program *rewritten, const lc_verify_options *o,
					lc_verdict *out, lk_error *err) {
	lk_error unused = {0};
	struct verifier v = {.p = original, .q = rewritten, .o = o, .out = out, .err = err ? err : &unused};
	*out = (lc_verdict){.equal = true, .worst = NAN};
	v.err->what[0] = '\0';
	LK_TRY(pair_results(&v));
	return out->equal ? each_mesh(&v) : LK_OK;
}
