/* bench_check.c: checks the results of all measured schedules against the interpreter, at small
 * sizes, uneven if the program allows them, on the mesh of the measurement. */
#include <stdlib.h>

#include "lang/compile/compile.h"
#include "lang/run/run.h"
#include "lang/tune/tune.h"
#include "system/memory.h"

/* "dp=2,k=0,": the part of the sizes that concerns the mesh. */
static void bench_check_put_mesh(const lc_program *program, const lc_sizes *sizes, FILE *out) {
	for (int a = 0; a < program->axis_count; a++)
		fprintf(out, "%s%s=%lld", a ? "," : "", program->axes[a].name, (long long)sizes->symbol[a]);
	for (size_t i = 0; i < sizes->indices.count; i++)
		fprintf(out, ",%s=%lld", sizes->indices.at[i].name, (long long)sizes->indices.at[i].value);
}

static void put_dims(const lc_program *program, const lc_sizes *sizes, FILE *out) {
	for (int d = 0; d < program->named_count; d++) {
		fprintf(out, ",%s=", program->named[d].name);
		if (!sizes->each[d]) fprintf(out, "%lld", (long long)sizes->symbol[LC_AXES + d]);
		for (int64_t i = 0; sizes->each[d] && i < sizes->items[program->named[d].list]; i++)
			fprintf(out, "%s%lld", i ? ":" : "", (long long)sizes->each[d][i]);
	}
}

static char *bench_check_text_of(const lc_program *program, const lc_sizes *sizes, bool dims) {
	char *text = NULL;
	size_t size = 0;
	FILE *out = lk_memory_open(&text, &size);
	if (!out) return NULL;
	bench_check_put_mesh(program, sizes, out);
	if (dims) put_dims(program, sizes, out);
	return lk_memory_text(out, &text);
}

static lk_status compare_one(const lc_bench_job *job, int i, const lc_sizes *small, lk_error *err) {
	const lc_variant *variant = &job->variants[i];
	lc_run_options o = {.seed = (uint64_t)job->o->seed, .key = (uint64_t)job->o->seed};
	lk_compile_request request = {
		.compare = job->folder, .schedule = variant->name, .seed = job->o->seed};
	lk_compile answer = {0};
	lc_sizes refined = {0};
	lc_run *run = NULL;
	FILE *nowhere = fopen("/dev/null", "w");
	if (!nowhere) return lk_fail(err, LK_ERR_IO, "/dev/null", "cannot be opened");
	lk_status status = lc_sizes_refine(job->original, small, variant->program, &refined, err);
	if (status == LK_OK) status = lc_run_program(variant->program, &refined, &o, &run, err);
	if (status == LK_OK) status = lc_compare(&answer, run, &request, nowhere, err);
	job->result->rows[i].checked = status == LK_OK;
	job->result->rows[i].agrees = !answer.no;
	lc_sizes_free(&refined);
	fclose(nowhere);
	return status;
}

static lk_status check_at(const lc_bench_job *job, const lc_sizes *small, lk_error *err) {
	char seed[32], *text = bench_check_text_of(job->original, small, true);
	if (!text) return lk_oom(err);
	snprintf(seed, sizeof seed, "%d", job->o->seed);
	const char *arguments[] = {"--schedule", "all",    "--seed",    seed, "--sizes",
	                           text,         "--dump", job->folder, NULL};
	lk_process_end end = {0};
	lk_status status = lc_bench_run(job, arguments, &end, err);
	lk_process_end_free(&end);
	free(text);
	for (int i = 0; i < job->result->count && status == LK_OK; i++)
		status = compare_one(job, i, small, err);
	return status;
}

lk_status lc_bench_check(const lc_bench_job *job, lk_error *err) {
	char *mesh = bench_check_text_of(job->original, &job->sizes, false);
	int64_t axes[LC_AXES];
	lc_sizes small = {0};
	if (!mesh) return lk_oom(err);
	for (int a = 0; a < LC_AXES; a++) axes[a] = job->sizes.symbol[a];
	lk_status status =
		lc_sizes_draw(job->original, mesh, axes, (uint64_t)job->o->seed, &small, err);
	if (status == LK_OK) status = check_at(job, &small, err);
	lc_sizes_free(&small);
	free(mesh);
	return status;
}
