/* versus_parts.c: the difference of a measured and a predicted step by part, and the work that only
 * one of them has. A part is a phase and a sort of work, or communication of one kind in one group,
 * its transfer and its waiting apart, or idle time of one cause: they add up to the step. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/sort.h"
#include "diff/diff.h"
#include "versus/versus.h"

/* ---- parts ---- */

static lk_versus_part *part_of(lk_versus_part *parts, int *count, const char *phase,
                               const char *part, const char *kind, const char *group) {
	for (int i = 0; i < *count; i++)
		if (strcmp(parts[i].phase, phase) == 0 && strcmp(parts[i].part, part) == 0 &&
		    strcmp(parts[i].kind, kind) == 0 && strcmp(parts[i].group, group) == 0)
			return &parts[i];
	parts[*count] = (lk_versus_part){.phase = phase, .part = part, .kind = kind, .group = group};
	return &parts[(*count)++];
}

static void add_seconds(lk_versus_part *part, double predicted_s, double measured_s) {
	part->predicted_s += predicted_s;
	part->measured_s += measured_s;
}

static void add_operation(lk_versus_part *parts, int *count, const lk_diff_operation *of) {
	bool comm = strcmp(of->part, "communication") == 0;
	const char *kind = comm ? of->kind : "", *group = comm ? of->group : "";
	add_seconds(part_of(parts, count, comm ? "" : of->phase, of->part, kind, group),
	            of->before_s - of->before_wait_s, of->after_s - of->after_wait_s);
	if (comm && (of->before_wait_s > 0 || of->after_wait_s > 0))
		add_seconds(part_of(parts, count, "", "waiting", kind, group), of->before_wait_s,
		            of->after_wait_s);
}

static void add_idle(lk_versus_part *parts, int *count, const lk_explanation *predicted,
                     const lk_explanation *measured) {
	const lk_device_part *all = lk_device_parts();
	for (int i = LK_BUSY_PARTS; i < LK_DEVICE_PARTS; i++) {
		double predicted_s = lk_diff_mean_of(predicted, all[i].time),
			   measured_s = lk_diff_mean_of(measured, all[i].time);
		if (!all[i].rare || predicted_s > 0 || measured_s > 0)
			add_seconds(part_of(parts, count, "", all[i].name, "", ""), predicted_s, measured_s);
	}
}

static int parts_by_delta(const void *a, const void *b) {
	const lk_versus_part *x = a, *y = b;
	double p = fabs(x->delta_s), q = fabs(y->delta_s);
	if (p != q) return p > q ? -1 : 1;
	int order = strcmp(x->phase, y->phase);
	if (!order) order = strcmp(x->part, y->part);
	if (!order) order = strcmp(x->kind, y->kind);
	return order ? order : strcmp(x->group, y->group);
}

/* ---- what was not expected ---- */

/* Words for work of which there is more than the job has; the first row that fits. NULL: any. */
static const struct {
	const char *phase, *part, *kind, *in_name, *what;
} words[] = {
	{"recompute", NULL, NULL, NULL, "activations are computed again"},
	{NULL, "copies", NULL, "HtoD", "copies from the host"},
	{NULL, "copies", NULL, "DtoH", "copies to the host"},
	{NULL, "copies", NULL, NULL, "copies and fills"},
	{NULL, NULL, "softmax", NULL, "attention in separate kernels: scores go through memory"},
	{NULL, NULL, "attention", NULL, "attention kernels"},
	{NULL, NULL, "attention_bwd", NULL, "attention kernels"},
	{NULL, NULL, "all_gather", NULL, "gathers"},
	{NULL, NULL, "all_reduce", NULL, "all-reduces"},
	{NULL, NULL, "reduce_scatter", NULL, "reduce-scatters"},
	{NULL, NULL, "all_to_all", NULL, "all-to-alls"},
	{NULL, NULL, "elementwise", "copy", "casts and copies on the device"},
	{NULL, NULL, "elementwise", "cast", "casts and copies on the device"},
	{NULL, NULL, "elementwise", NULL, "element-wise kernels: not fused"},
	{NULL, "optimizer", NULL, NULL, "optimizer kernels: not fused"},
	{NULL, NULL, "gemm", NULL, "products of this shape"},
	{NULL, NULL, NULL, NULL, "work of this kind"},
};

static const char *words_for(const lk_diff_operation *of) {
	const char *name = *of->after_name ? of->after_name : of->before_name;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if ((!words[i].phase || strcmp(words[i].phase, of->phase) == 0) &&
		    (!words[i].part || strcmp(words[i].part, of->part) == 0) &&
		    (!words[i].kind || strcmp(words[i].kind, of->kind) == 0) &&
		    (!words[i].in_name || strcasestr(name, words[i].in_name)))
			return words[i].what;
	return "";
}

static int findings_by_time(const void *a, const void *b) {
	const lk_diff_operation *x = ((const lk_versus_finding *)a)->operation,
							*y = ((const lk_versus_finding *)b)->operation;
	double p = fmax(x->before_sum_s, x->after_sum_s), q = fmax(y->before_sum_s, y->after_sum_s);
	if (p != q) return p > q ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Numbers of kernels differ by chance where a run's element-wise work is split otherwise: a
 * difference counts from a tenth on, and work from a thousandth of the step. */
static const double OFTEN = 1.1, LEAST_WORK = 1e-3;

static lk_status find_unexpected(lk_compared_run *run, lk_error *err) {
	lk_versus *out = &run->result;
	lk_versus_finding *found =
		LK_ARRAY(&run->arena, lk_versus_finding, (size_t)out->operation_count);
	if (!found) return lk_oom(err);
	for (int i = 0; i < out->operation_count; i++) {
		const lk_diff_operation *of = &out->operations[i];
		const char *state = NULL;
		double more = of->after_count, less = of->before_count;
		double step_s = of->after_sum_s > of->before_sum_s ? out->measured_s : out->predicted_s;
		if (fmax(of->before_sum_s, of->after_sum_s) < LEAST_WORK * step_s) continue;
		if (!(less > 0)) state = "not expected";
		else if (!(more > 0)) state = "missing";
		else if (more > OFTEN * less) state = "more often";
		else if (less > OFTEN * more) state = "less often";
		if (!state) continue;
		found[out->finding_count++] = (lk_versus_finding){state, words_for(of), of};
	}
	lk_sort(found, (size_t)out->finding_count, sizeof *found, findings_by_time);
	out->findings = found;
	return LK_OK;
}

lk_status lk_versus_parts(lk_compared_run *run, const lk_explanation *measured, lk_error *err) {
	lk_versus *out = &run->result;
	lk_versus_part *parts =
		LK_ARRAY(&run->arena, lk_versus_part, 2 * (size_t)out->operation_count + LK_DEVICE_PARTS);
	if (!parts) return lk_oom(err);
	for (int i = 0; i < out->operation_count; i++)
		add_operation(parts, &out->part_count, &out->operations[i]);
	add_idle(parts, &out->part_count, run->expected, measured);
	double whole_s = out->measured_s - out->predicted_s;
	for (int i = 0; i < out->part_count; i++) {
		parts[i].delta_s = parts[i].measured_s - parts[i].predicted_s;
		parts[i].share = whole_s != 0 ? parts[i].delta_s / whole_s : NAN;
	}
	lk_sort(parts, (size_t)out->part_count, sizeof *parts, parts_by_delta);
	out->parts = parts;
	return find_unexpected(run, err);
}
