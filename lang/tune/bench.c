/* bench.c: builds a program's schedules, runs them in turns, and reads their times and results. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/stats.h"
#include "io/json.h"
#include "lang/tune/tune.h"

enum { ROUNDS = 21, SECONDS = 300, WORD = 64 };

/* ---- statistics ---- */

/* The k-th smallest and largest of n bound the median with a chance of error of 2 * sum of C(n, i)
 * / 2^n, i < k: returns the largest k that keeps it below 5 %. 0: n is too small. */
static int sign_test(int n) {
	double term = pow(0.5, n), sum = 0;
	int k = 0;
	while (k <= n / 2 && (sum += term) <= 0.025) {
		term *= (double)(n - k) / (k + 1);
		k++;
	}
	return k;
}

lc_interval lc_median_bounds(const double *x, int n) {
	lc_interval out = {lk_median(x, (size_t)n), NAN, NAN};
	int k = sign_test(n);
	if (k == 0) return out;
	out.low = lk_quantile(x, (size_t)n, (double)(k - 1) / (n - 1));
	out.high = lk_quantile(x, (size_t)n, (double)(n - k) / (n - 1));
	return out;
}

/* Noise: the first variant against itself, one round later. */
static double bench_spread(const double *x, int n) {
	double *ratio = malloc((size_t)n * sizeof *ratio), far = NAN;
	for (int i = 0; ratio && i + 1 < n; i++) ratio[i] = x[i] / x[i + 1];
	if (ratio && n > 1) {
		lc_interval bounds = lc_median_bounds(ratio, n - 1);
		far = fmax(fabs(bounds.high - 1), fabs(1 - bounds.low));
	}
	free(ratio);
	return far;
}

static lk_status compare_rows(lc_bench_result *result, lk_error *err) {
	const lc_bench_row *first = &result->rows[0];
	double *ratio = malloc((size_t)result->rounds * sizeof *ratio);
	if (!ratio) return lk_oom(err);
	for (int i = 0; i < result->count; i++) {
		lc_bench_row *row = &result->rows[i];
		for (int r = 0; r < result->rounds; r++) ratio[r] = first->seconds[r] / row->seconds[r];
		row->time = lc_median_bounds(row->seconds, result->rounds);
		row->ratio = lc_median_bounds(ratio, result->rounds);
	}
	result->spread = bench_spread(first->seconds, result->rounds);
	free(ratio);
	return LK_OK;
}

/* 1 if a is faster than b by more than the noise, -1 if it is slower, else 0. */
static int bench_order_of(const lc_bench_row *a, const lc_bench_row *b, int rounds, double *ratio) {
	for (int r = 0; r < rounds; r++) ratio[r] = b->seconds[r] / a->seconds[r];
	lc_interval bounds = lc_median_bounds(ratio, rounds);
	if (bounds.low > 1) return 1;
	if (bounds.high < 1) return -1;
	return 0;
}

lk_status lc_bench_rank(lc_bench_result *result, lk_error *err) {
	double *ratio = malloc((size_t)result->rounds * sizeof *ratio), agree = 0;
	if (!ratio) return lk_oom(err);
	for (int i = 0; i < result->count; i++)
		for (int k = 0; k < i; k++) {
			const lc_bench_row *a = &result->rows[i], *b = &result->rows[k];
			int measured = bench_order_of(a, b, result->rounds, ratio);
			if (measured == 0 || !isfinite(a->predicted) || !isfinite(b->predicted)) continue;
			agree += a->predicted == b->predicted                      ? 0
			         : (a->predicted < b->predicted) == (measured > 0) ? 1
			                                                           : -1;
			result->pairs++;
		}
	result->tau = result->pairs ? agree / result->pairs : NAN;
	free(ratio);
	return LK_OK;
}

/* ---- the folder ---- */

static lk_status bench_make_folder(lc_bench_job *job, lk_error *err) {
	const char *tmp = getenv("TMPDIR");
	int length =
		snprintf(job->folder, sizeof job->folder, "%s/lockstep-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (length >= (int)sizeof job->folder || !mkdtemp(job->folder)) {
		lk_fail(err, LK_ERR_IO, job->folder, "no folder could be made: %s", strerror(errno));
		*job->folder = '\0';
		return lk_hint(err, "set TMPDIR to a folder that can be written");
	}
	snprintf(job->source, sizeof job->source, "%s/program.c", job->folder);
	snprintf(job->program, sizeof job->program, "%s/program", job->folder);
	return LK_OK;
}

/* Nobody else writes there: it has files only. */
static void remove_folder(const lc_bench_job *job) {
	DIR *all = *job->folder ? opendir(job->folder) : NULL;
	if (!all) return;
	for (struct dirent *one; (one = readdir(all));)
		if (strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0)
			unlinkat(dirfd(all), one->d_name, 0);
	closedir(all);
	rmdir(job->folder);
}

/* ---- building ---- */

static lk_status write_source(const lc_bench_job *job, int count, lk_error *err) {
	lk_sink *sink;
	LK_TRY(lk_sink_open(job->source, &sink, err));
	FILE *out = lk_sink_file(sink);
	lk_status status =
		out ? lc_emit_mpi(job->original, job->variants, count, out, err) : lk_oom(err);
	if (status == LK_OK) return lk_sink_commit(sink, err);
	lk_sink_abandon(sink);
	return status;
}

/* ---- reading ---- */

static lc_bench_row *bench_row_of(lc_bench_result *result, const char *name) {
	for (int i = 0; i < result->count; i++)
		if (strcmp(result->rows[i].name, name) == 0) return &result->rows[i];
	return NULL;
}

/* Read {"schedule": NAME, "seconds": [..]}; other lines are skipped. */
static lk_status bench_take_line(lc_bench_job *job, char *line, int *taken, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_stream *in;
	lk_value *value = NULL;
	if (*line != '{') return LK_OK;
	LK_TRY(lk_stream_memory(line, strlen(line), "mpirun", &in, err));
	lk_status status = lk_json_document(&arena, in, &value, err);
	lk_stream_close(in);
	const lk_value *name = status == LK_OK ? lk_json_get(value, "schedule") : NULL,
				   *seconds = name ? lk_json_get(value, "seconds") : NULL;
	lc_bench_row *row =
		seconds && name->kind == LK_JSON_STRING ? bench_row_of(job->result, name->text) : NULL;
	for (int i = 0; row && seconds->kind == LK_JSON_ARRAY && i < (int)seconds->count &&
	                i < job->result->rounds;
	     i++)
		if (seconds->items[i].number > 0) {
			row->seconds[i] = seconds->items[i].number;
			++*taken;
		}
	lk_arena_free(&arena);
	return status;
}

static lk_status bench_take_times(lc_bench_job *job, char *text, lk_error *err) {
	int taken = 0;
	for (char *next; text && *text; text = next) {
		next = strchr(text, '\n');
		if (next) *next++ = '\0';
		LK_TRY(bench_take_line(job, text, &taken, err));
	}
	if (taken == job->result->count * job->result->rounds) return LK_OK;
	return lk_fail(err, LK_ERR_INTERNAL, "bench", "%d of %d times came back", taken,
	               job->result->count * job->result->rounds);
}

static lk_status bench_measure(lc_bench_job *job, lk_error *err) {
	char rounds[WORD], seed[WORD];
	const char *arguments[16] = {"--schedule", "all", "--repeat", rounds, "--seed", seed};
	int used = 6;
	snprintf(rounds, sizeof rounds, "%d", job->result->rounds);
	snprintf(seed, sizeof seed, "%d", job->o->seed);
	if (job->o->sizes) {
		arguments[used++] = "--sizes";
		arguments[used++] = job->o->sizes;
	}
	if (job->o->set) {
		arguments[used++] = "--set";
		arguments[used++] = job->o->set;
	}
	lk_process_end end = {0};
	lk_status status = lc_bench_run(job, arguments, &end, err);
	if (status == LK_OK) status = bench_take_times(job, end.out, err);
	lk_process_end_free(&end);
	return status;
}

/* ---- the benchmark ---- */

static lk_status bench_predict(lc_bench_job *job, int i, lk_error *err) {
	lk_cluster cluster;
	lk_constants constants;
	lk_timed timed;
	lc_sizes refined = {0};
	job->result->rows[i].predicted = NAN;
	if (!job->o->cluster) return LK_OK;
	cluster = *job->o->cluster;
	LK_TRY(lk_timed_share_host(&job->result->arena, job->result->ranks, &cluster, err));
	lk_timed_constants(&constants);
	lk_status status =
		lc_sizes_refine(job->original, &job->sizes, job->variants[i].program, &refined, err);
	if (status == LK_OK)
		status = lk_time_steps(job->variants[i].steps, &refined, &cluster, job->o->messages,
		                       &constants, 0, &timed, err);
	if (status == LK_OK) job->result->rows[i].predicted = timed.seconds;
	lc_sizes_free(&refined);
	return status;
}

static lk_status bench_prepare(lc_bench_job *job, int count, lk_error *err) {
	lc_bench_result *result = job->result;
	LK_TRY(lc_sizes_read(job->original, job->o->sizes, 2, &job->sizes, err));
	result->ranks = lc_ranks(job->original, &job->sizes);
	result->count = count;
	result->rounds = job->o->repeat > 0 ? job->o->repeat : ROUNDS;
	job->seconds = job->o->seconds > 0 ? job->o->seconds : SECONDS;
	result->rows = LK_ARRAY(&result->arena, lc_bench_row, (size_t)count);
	if (!result->rows) return lk_oom(err);
	for (int i = 0; i < count; i++) {
		result->rows[i].name = lk_arena_strdup(&result->arena, job->variants[i].name);
		result->rows[i].seconds = LK_ARRAY(&result->arena, double, (size_t)result->rounds);
		if (!result->rows[i].name || !result->rows[i].seconds) return lk_oom(err);
		LK_TRY(bench_predict(job, i, err));
		lk_error why;
		/* A refined mesh has other axes than the sizes: not counted. */
		if (job->variants[i].program->axis_count != job->original->axis_count ||
		    lc_moved_count(job->variants[i].steps, &job->sizes, &result->rows[i].moved, &why) !=
		        LK_OK)
			result->rows[i].moved = (lc_moved){NAN, NAN, NAN};
	}
	return bench_make_folder(job, err);
}

lk_status lc_bench(const lc_program *original, const lc_variant *variants, int count,
                   const lc_bench_options *options, lc_bench_result *out, lk_error *err) {
	lc_bench_job b = {.original = original, .variants = variants, .o = options, .result = out};
	*out = (lc_bench_result){0};
	if (!lc_bench_can(err)) return LK_ERR_INPUT;
	lk_status status = bench_prepare(&b, count, err);
	if (status == LK_OK) status = write_source(&b, count, err);
	if (status == LK_OK) status = lc_bench_build(&b, err);
	if (status == LK_OK && !options->unchecked) status = lc_bench_check(&b, err);
	if (status == LK_OK) status = bench_measure(&b, err);
	if (status == LK_OK) status = compare_rows(out, err);
	if (status == LK_OK) status = lc_bench_rank(out, err);
	remove_folder(&b);
	lc_sizes_free(&b.sizes);
	return status;
}

void lc_bench_free(lc_bench_result *result) {
	lk_arena_free(&result->arena);
}
