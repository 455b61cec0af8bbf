/* bench_check.c: whether what is measured computes what it should: all schedules at small sizes, uneven where the program
 * lets them, on the mesh of the measurement, against the interpreter. */
#include <stdlib.h>

#include "lang/run/compare.h"
#include "lang/run/run.h"
#include "lang/tune/tune.h"

/* "dp=2,k=0,": what of the sizes is about the mesh. */
static void put_mesh(const lc_program *p, const lc_sizes *s, FILE *out) {
	for (int a = 0; a < p->axis_count; a++) fprintf(out, "%s%s=%lld", a ? "," : "", p->axes[a].name, (long long)s->symbol[a]);
	for (size_t i = 0; i < s->indices.count; i++)
		fprintf(out, ",%s=%lld", s->indices.at[i].name, (long long)s->indices.at[i].value);
}

static void put_dims(const lc_program *p, const lc_sizes *s, FILE *out) {
	for (int d = 0; d < p->named_count; d++) {
		fprintf(out, ",%s=", p->named[d].name);
		if (!s->each[d]) fprintf(out, "%lld", (long long)s->symbol[LC_AXES + d]);
		for (int64_t i = 0; s->each[d] && i < s->items[p->named[d].list]; i++)
			fprintf(out, "%s%lld", i ? ":" : "", (long long)s->each[d][i]);
	}
}

static char *text_of(const lc_program *p, const lc_sizes *s, bool dims) {
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	if (!out) return NULL;
	put_mesh(p, s, out);
	if (dims) put_dims(p, s, out);
	fclose(out);
	return text;
}

static lk_status compare_one(const lc_bench_job *b, int i, const lc_sizes *small, lk_error *err) {
	const lc_variant *v = &b->variants[i];
	lc_run_options o = {.seed = (uint64_t)b->o->seed, .key = (uint64_t)b->o->seed};
	lk_compile_request request = {.compare = b->folder, .schedule = v->name, .seed = b->o->seed};
	lk_compile answer = {0};
	lc_sizes refined = {0};
	lc_run *run = NULL;
	FILE *nowhere = fopen("/dev/null", "w");
	if (!nowhere) return lk_fail(err, LK_ERR_IO, "/dev/null", "cannot be opened");
	lk_status status = lc_sizes_refine(b->original, small, v->program, &refined, err);
	if (status == LK_OK) status = lc_run_program(v->program, &refined, &o, &run, err);
	if (status == LK_OK) status = lc_compare(&answer, run, &request, nowhere, err);
	b->result->rows[i].checked = status == LK_OK, b->result->rows[i].agrees = !answer.no;
	lc_run_free(run);
	lc_sizes_free(&refined);
	fclose(nowhere);
	return status;
}

static lk_status check_at(const lc_bench_job *b, const lc_sizes *small, lk_error *err) {
	char seed[32], *text = text_of(b->original, small, true);
	if (!text) return lk_oom(err);
	snprintf(seed, sizeof seed, "%d", b->o->seed);
	const char *arguments[] = {"--schedule", "all", "--seed", seed, "--sizes", text, "--dump", b->folder, NULL};
	lk_process_end end = {0};
	lk_status status = lc_bench_run(b, arguments, &end, err);
	lk_process_end_free(&end);
	free(text);
	for (int i = 0; i < b->result->count && status == LK_OK; i++) status = compare_one(b, i, small, err);
	return status;
}

lk_status lc_bench_check(const lc_bench_job *b, lk_error *err) {
	char *mesh = text_of(b->original, &b->sizes, false);
	int64_t axes[LC_AXES];
	lc_sizes small = {0};
	if (!mesh) return lk_oom(err);
	for (int a = 0; a < LC_AXES; a++) axes[a] = b->sizes.symbol[a];
	lk_status status = lc_sizes_draw(b->original, mesh, axes, (uint64_t)b->o->seed, &small, err);
	if (status == LK_OK) status = check_at(b, &small, err);
	lc_sizes_free(&small);
	free(mesh);
	return status;
}
