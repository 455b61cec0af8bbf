/* diff.c: what changed between two runs. Each is explained separately; here categories and kernels
 * are compared.
 *
 * Whether a change exceeds the noise: Welch's test of the two sets of step times at 95 % (B. L.
 * Welch, "The generalization of Student's problem", Biometrika 34, 1947). The sentence states the
 * difference with the test's own interval, which excludes 0 if it says "beyond noise". The
 * deviation of the ratio is that of single steps, as printed by hyperfine: ratio * sqrt((s1/m1)^2 +
 * (s2/m2)^2). */
#include "diff/diff.h"

#include <stddef.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "options/command.h"
#include "explain/explain.h"
#include "base/check.h"
#include "base/arena.h"
#include "base/intern.h"
#include "base/text.h"
#include "base/vec.h"
#include "base/sort.h"
#include "trace/read/read.h"

struct work {
	lk_diff result; /* first: the result is the work */
	lk_arena arena;
	lk_explanation *before, *after;
};

void lk_diff_defaults(lk_diff_request *request) {
	*request = (lk_diff_request){.rank = -1, .top = 10};
}

void lk_diff_free(lk_diff *diff) {
	if (!diff) return;
	struct work *work = diff->memory_owner;
	lk_explain_free(work->before);
	lk_explain_free(work->after);
	lk_arena_free(&work->arena);
	free(work);
}

/* ---- the step ---- */

/* R. A. Fisher, F. Yates, "Statistical tables", table III; between its rows linear in 1 /
 * freedom. */
double lk_student_95(double freedom) {
	static const struct {
		double freedom, t;
	} rows[] = {{1, 12.706}, {2, 4.303},  {3, 3.182},  {4, 2.776},  {5, 2.571},
	            {6, 2.447},  {8, 2.306},  {10, 2.228}, {15, 2.131}, {20, 2.086},
	            {30, 2.042}, {60, 2.000}, {120, 1.980}};
	enum { ROWS = sizeof rows / sizeof *rows };
	if (!(freedom > 1)) return rows[0].t;
	if (freedom >= rows[ROWS - 1].freedom)
		return 1.960 + (rows[ROWS - 1].t - 1.960) * rows[ROWS - 1].freedom / freedom;
	int i = 0;
	while (rows[i + 1].freedom < freedom) i++;
	double part =
		(1 / rows[i].freedom - 1 / freedom) / (1 / rows[i].freedom - 1 / rows[i + 1].freedom);
	return rows[i].t + part * (rows[i + 1].t - rows[i].t);
}

/* The error of the difference of the means, at 95 %; both have at least two steps. */
static double diff_noise_s(const lk_explanation *a, const lk_explanation *b) {
	double va = a->step_deviation_s * a->step_deviation_s / a->step_count;
	double vb = b->step_deviation_s * b->step_deviation_s / b->step_count;
	double v = va + vb;
	if (v <= 0) return 0;
	double freedom = v * v / (va * va / (a->step_count - 1) + vb * vb / (b->step_count - 1));
	return lk_student_95(freedom) * sqrt(v);
}

/* "1.2 x faster: 40 ms +- 3 ms a step, beyond noise (95 %)" */
static const char *diff_sentence(struct work *work, double times, const char *word, double off_s,
                                 double noise_s) {
	char off[32], noise[32];
	return lk_arena_printf(&work->arena, "%.4g x %s: %s +- %s a step, %s noise (95 %%)", times,
	                       word, lk_format_seconds(off_s, off, sizeof off),
	                       lk_format_seconds(noise_s, noise, sizeof noise),
	                       off_s > noise_s ? "beyond" : "within");
}

static lk_status diff_judge(struct work *work, lk_error *err) {
	lk_diff *diff = &work->result;
	const lk_explanation *a = diff->before, *b = diff->after;
	bool known = a->step_count > 1 && b->step_count > 1;
	diff->before_s = a->step_s;
	diff->after_s = b->step_s;
	diff->ratio = a->step_s / b->step_s;
	diff->ratio_deviation = known ? diff->ratio * hypot(a->step_deviation_s / a->step_s,
	                                                    b->step_deviation_s / b->step_s)
	                              : NAN;
	bool faster = diff->ratio >= 1;
	double shown = faster ? diff->ratio : 1 / diff->ratio;
	const char *word = faster ? "faster" : "slower";
	if (diff->before_s == diff->after_s) {
		diff->sentence = lk_arena_strdup(&work->arena, "the steps take equally long");
	} else if (!known) {
		diff->sentence =
			a->step_count > 1
				? lk_arena_printf(&work->arena,
		                          "%.4g x %s; noise is not known: the second run has one step",
		                          shown, word)
				: lk_arena_printf(&work->arena,
		                          "%.4g x %s; noise is not known: the first run has one step",
		                          shown, word);
	} else {
		double off_s = fabs(a->step_s - b->step_s), noise_s = diff_noise_s(a, b);
		if (off_s > noise_s) diff->verdict = faster ? 1 : -1;
		diff->sentence = diff_sentence(work, shown, word, off_s, noise_s);
	}
	return diff->sentence ? LK_OK : lk_oom(err);
}

/* ---- rows ---- */

static int by_change(const void *a, const void *b) {
	const lk_diff_row *x = a, *y = b;
	double p = fabs(x->delta_s), q = fabs(y->delta_s);
	if (p != q) return p > q ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void diff_finish_rows(const struct work *work, lk_diff_row *rows, size_t count) {
	for (size_t i = 0; i < count; i++) {
		rows[i].delta_s = rows[i].after_s - rows[i].before_s;
		rows[i].share = rows[i].delta_s / work->result.before_s;
	}
	LK_ASSERT(!count || work->result.before_s > 0);
	lk_sort(rows, count, sizeof *rows, by_change);
}

static lk_status compare_categories(struct work *work, lk_error *err) {
	const lk_device_part *parts = lk_device_parts();
	lk_diff_row *rows = LK_ARRAY(&work->arena, lk_diff_row, LK_DEVICE_PARTS);
	if (!rows) return lk_oom(err);
	size_t count = 0;
	for (int i = 0; i < LK_DEVICE_PARTS; i++) {
		rows[count] = (lk_diff_row){.name = parts[i].name,
		                            .type = "",
		                            .before_s = lk_diff_mean_of(work->before, parts[i].time),
		                            .after_s = lk_diff_mean_of(work->after, parts[i].time),
		                            .before_count = NAN,
		                            .after_count = NAN,
		                            .state = ""};
		count += !parts[i].rare || rows[count].before_s > 0 || rows[count].after_s > 0;
	}
	diff_finish_rows(work, rows, count);
	work->result.categories = rows;
	work->result.category_count = (int)count;
	return LK_OK;
}

/* Rows by type and name; ids of the table count up from 1. */
struct rows_by_name {
	lk_intern *names;
	LK_VEC(lk_diff_row) rows;
};

static lk_diff_row *diff_row_of(struct rows_by_name *name, const lk_explain_kernel *kernel) {
	char prefix[2] = {(char)('0' + kernel->type), '\0'};
	size_t length = strlen(kernel->name) + 2;
	char *key = malloc(length);
	if (!key) return NULL;
	memcpy(key, prefix, 1);
	memcpy(key + 1, kernel->name, length - 1);
	uint32_t id = lk_intern_id(name->names, key);
	free(key);
	if (id == UINT32_MAX) return NULL;
	if (id <= name->rows.count) return &name->rows.at[id - 1];
	if (!lk_push(&name->rows)) return NULL;
	*lk_last(&name->rows) =
		(lk_diff_row){.name = kernel->name, .type = lk_explain_types[kernel->type], .state = ""};
	return lk_last(&name->rows);
}

static lk_status add_kernels(struct rows_by_name *name, const lk_explanation *explanation,
                             bool after, lk_error *err) {
	double steps = lk_diff_rank_steps(explanation);
	for (int i = 0; i < explanation->kernel_count; i++) {
		const lk_explain_kernel *kernel = &explanation->kernel[i];
		lk_diff_row *row = diff_row_of(name, kernel);
		if (!row) return lk_oom(err);
		*(after ? &row->after_s : &row->before_s) = kernel->time.total_ns * 1e-9 / steps;
		*(after ? &row->after_count : &row->before_count) = (double)kernel->time.count / steps;
	}
	return LK_OK;
}

/* Whether the other run has another kernel for the work of this one. */
static bool diff_is_replaced(const lk_diff *diff, const char *kernel, bool after) {
	for (int i = 0; i < diff->operation_count; i++) {
		const lk_diff_operation *of = &diff->operations[i];
		if (!*of->state && strcmp(after ? of->after_name : of->before_name, kernel) == 0)
			return true;
	}
	return false;
}

static lk_status compare_kernels(struct work *work, struct rows_by_name *name, lk_error *err) {
	if (!name->names) return lk_oom(err);
	LK_TRY(add_kernels(name, work->before, false, err));
	LK_TRY(add_kernels(name, work->after, true, err));
	lk_diff_row *rows = LK_ARRAY(&work->arena, lk_diff_row, name->rows.count);
	if (!rows) return lk_oom(err);
	for (size_t i = 0; i < name->rows.count; i++) {
		rows[i] = name->rows.at[i];
		if (rows[i].before_count <= 0) rows[i].state = "new";
		else if (rows[i].after_count <= 0) rows[i].state = "removed";
		if (*rows[i].state &&
		    diff_is_replaced(&work->result, rows[i].name, rows[i].before_count <= 0))
			rows[i].state = "replaced";
	}
	diff_finish_rows(work, rows, name->rows.count);
	work->result.kernels = rows;
	work->result.kernel_count = (int)name->rows.count;
	return LK_OK;
}

/* ---- the question ---- */

static lk_status diff_compare(struct work *work, lk_error *err) {
	LK_TRY(diff_judge(work, err));
	LK_TRY(compare_categories(work, err));
	LK_TRY(lk_diff_pair(&work->arena, work->before, work->after, &work->result.operations,
	                    &work->result.operation_count, NULL, err));
	struct rows_by_name rows = {.names = lk_intern_new()};
	lk_status status = compare_kernels(work, &rows, err);
	lk_intern_free(rows.names);
	lk_vec_free(&rows.rows);
	return status;
}

/* ---- what holds for every answer ----
 *
 * Nothing is printed that contradicts itself: whatever made it is a defect of lockstep. */

static const char *diff_check(const lk_diff *diff) {
	double before = 0, after = 0;
	LK_HOLDS_ALL(diff->before->failed_check);
	LK_HOLDS_ALL(diff->after->failed_check);
	for (int i = 0; i < diff->category_count; i++) {
		const lk_diff_row *row = &diff->categories[i];
		LK_HOLDS(row->delta_s == row->after_s - row->before_s);
		before += row->before_s;
		after += row->after_s;
	}
	for (int i = 0; i < diff->operation_count; i++) {
		const lk_diff_operation *row = &diff->operations[i];
		LK_HOLDS(row->delta_s == row->after_s - row->before_s);
		LK_HOLDS(row->before_wait_s <= row->before_s * (1 + 1e-9) + 1e-12);
		LK_HOLDS(row->after_wait_s <= row->after_s * (1 + 1e-9) + 1e-12);
	}
	/* steps of clocks in whole microseconds may overlap a little */
	LK_HOLDS(!diff->category_count || (fabs(before - diff->before_s) <= 1e-2 * diff->before_s &&
	                                   fabs(after - diff->after_s) <= 1e-2 * diff->after_s));
	LK_HOLDS(diff->verdict == 0 || (diff->verdict > 0) == (diff->ratio > 1));
	for (int i = 0; i < diff->kernel_count; i++) {
		const lk_diff_row *row = &diff->kernels[i];
		LK_HOLDS(row->delta_s == row->after_s - row->before_s);
		LK_HOLDS(i == 0 || fabs(row->delta_s) <= fabs(row[-1].delta_s));
	}
	LK_HOLDS(!(diff->after_s > 0) ||
	         fabs(diff->ratio * diff->after_s - diff->before_s) <= 1e-9 * diff->before_s);
	return NULL;
}

lk_status lk_diff_make(lk_explanation *before, lk_explanation *after, int top, lk_diff **out,
                       lk_error *err) {
	struct work *work = calloc(1, sizeof *work);
	if (!work) {
		lk_explain_free(before);
		lk_explain_free(after);
		return lk_oom(err);
	}
	work->before = before;
	work->after = after;
	work->result = (lk_diff){.before = before, .after = after, .top = top, .memory_owner = work};
	lk_status status = diff_compare(work, err);
	if (status == LK_OK) work->result.failed_check = lk_failed_check(diff_check(&work->result));
	if (status != LK_OK) lk_diff_free(&work->result);
	else *out = &work->result;
	return status;
}

/* Takes ownership of both, also on errors. */
static lk_status diff_answer(lk_explanation *before, lk_explanation *after,
                             const lk_diff_request *request, lk_diff **out, lk_error *err) {
	static const char *const but[] = {"threads", "top", NULL};
	const char *const files[] = {request->before, request->after};
	lk_diff_request usual;
	lk_diff_defaults(&usual);
	LK_TRY(lk_diff_make(before, after, request->top, out, err));
	struct work *work = (*out)->memory_owner;
	work->result.reproduce = lk_command(&work->arena, &(lk_question){.verb = &lk_diff_verb,
	                                                                 .request = request,
	                                                                 .usual = &usual,
	                                                                 .but = but,
	                                                                 .operands = files,
	                                                                 .operand_count = 2});
	if (work->result.reproduce) return LK_OK;
	lk_diff_free(*out);
	*out = NULL;
	return lk_oom(err);
}

lk_status lk_diff_ask(const lk_diff_request *request, lk_diff **out, lk_error *err) {
	lk_explanation *before, *after;
	lk_explain_request ask;
	lk_explain_defaults(&ask);
	ask.steps = request->steps;
	ask.rank = request->rank;
	ask.top = request->top;
	ask.threads = request->threads;
	ask.traces = &request->before;
	ask.trace_count = 1;
	ask.operations = true;
	*out = NULL;
	LK_TRY(lk_explain(&ask, &before, err));
	ask.traces = &request->after;
	lk_status status = lk_explain(&ask, &after, err);
	if (status == LK_OK) return diff_answer(before, after, request, out, err);
	lk_explain_free(before);
	return status;
}

/* ---- one run or two ---- */

static int32_t diff_rank_of(const lk_capture *capture) {
	return capture->rank >= 0 ? capture->rank : lk_trace_rank_in_name(capture->path);
}

static bool diff_names_no_rank(const lk_trace_files *files) {
	return files->captures == 1 && diff_rank_of(files->capture[0]) < 0 &&
	       files->capture[0]->world <= 1 && !files->capture[0]->comms.count;
}

/* Whether the runs are surely different: the devices of both are named and disjoint, or both state
 * a number of ranks and they differ. Ranks of one run on different devices can be given as one
 * folder. */
static bool diff_ran_apart(const lk_trace_files *a, const lk_trace_files *b) {
	bool named = a->captures && b->captures, shared = false, worlds = false;
	for (uint32_t i = 0; i < a->captures; i++)
		for (uint32_t k = 0; k < b->captures; k++) {
			const lk_capture *x = a->capture[i], *y = b->capture[k];
			named = named && x->device && y->device;
			shared = shared || (named && strcmp(lk_capture_text(x, x->device),
			                                    lk_capture_text(y, y->device)) == 0);
			worlds = worlds || (x->world > 0 && y->world > 0 && x->world != y->world);
		}
	return (named && !shared) || worlds;
}

/* Two runs: some rank is in both, or neither names a rank or communicates, or they cannot be ranks
 * of one run. */
static bool diff_are_runs(const lk_trace_files *a, const lk_trace_files *b) {
	if (diff_names_no_rank(a) && diff_names_no_rank(b)) return true;
	if (diff_ran_apart(a, b)) return true;
	for (uint32_t i = 0; i < a->captures; i++)
		for (uint32_t k = 0; k < b->captures; k++) {
			int32_t rank = diff_rank_of(a->capture[i]);
			if (rank >= 0 && rank == diff_rank_of(b->capture[k])) return true;
		}
	return false;
}

static lk_status explain_runs(lk_trace_files files[2], const lk_explain_request *request,
                              lk_diff **two, lk_error *err) {
	const lk_diff_request ask = {.before = request->traces[0],
	                             .after = request->traces[1],
	                             .steps = request->steps,
	                             .rank = request->rank,
	                             .top = request->top,
	                             .threads = request->threads};
	lk_explain_request each = *request;
	lk_explanation *before = NULL, *after = NULL;
	each.trace_count = 1;
	each.operations = true;
	lk_status status = lk_explain_files(&files[0], &each, &before, err);
	each.traces++;
	if (status == LK_OK) status = lk_explain_files(&files[1], &each, &after, err);
	else lk_trace_files_free(&files[1]);
	if (status == LK_OK) return diff_answer(before, after, &ask, two, err);
	lk_explain_free(before);
	return status;
}

lk_status lk_explain_or_diff(const lk_explain_request *request, lk_explanation **one, lk_diff **two,
                             lk_error *err) {
	lk_read_limits limits = lk_explain_limits(request);
	lk_trace_files files[2];
	*one = NULL;
	*two = NULL;
	if (request->trace_count != 2) return lk_explain(request, one, err);
	limits.shapes = true; /* two runs are compared by what they compute */
	for (int i = 0; i < 2; i++) {
		lk_status status =
			lk_trace_files_read(&request->traces[i], 1, &limits, request->threads, &files[i], err);
		if (status != LK_OK && i) lk_trace_files_free(&files[0]);
		LK_TRY(status);
	}
	if (diff_are_runs(&files[0], &files[1])) return explain_runs(files, request, two, err);
	lk_status status = lk_trace_files_merge(&files[0], &files[1], err);
	if (status == LK_OK) return lk_explain_files(&files[0], request, one, err);
	lk_trace_files_free(&files[0]);
	lk_trace_files_free(&files[1]);
	return status;
}
