/* versus_scaling.c: a traced step as a calibration. Each part is scaled by what the trace says of
 * it alone: kernels by the durations of computing operations that both steps have, links by those
 * of collectives without waiting, the host by the time that the device waits for launches. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "step/step.h"
#include "versus/versus.h"

/* Of a step: less of a part says nothing. */
static const double LEAST_PART = 0.005;

/* Sums of durations of both steps, of one sort of operations that both have equally often. */
struct scaled_sums {
	double predicted_s, measured_s;
};

static void scaling_add(const lk_diff_operation *of, struct scaled_sums *kernels,
                        struct scaled_sums *links) {
	bool comm = strcmp(of->part, "communication") == 0;
	double counts = of->before_count > 0 ? of->after_count / of->before_count : 0;
	if (*of->state || strcmp(of->part, "copies") == 0 || !(counts > 0.9 && counts < 1.1)) return;
	struct scaled_sums *sums = comm ? links : kernels;
	sums->predicted_s += of->before_sum_s - of->before_wait_s;
	sums->measured_s += of->after_sum_s - of->after_wait_s;
}

static double scaling_of(const struct scaled_sums *sums, double step_s) {
	if (!(sums->predicted_s > LEAST_PART * step_s) || !(sums->measured_s > 0)) return 0;
	return fmin(fmax(sums->measured_s / sums->predicted_s, 1e-2), 1e2);
}

/* The part of the difference that is the device's idle time for late launches. */
static bool waits_for_launches(const lk_versus_part *part) {
	const lk_device_part *all = lk_device_parts();
	for (int i = LK_BUSY_PARTS; i < LK_DEVICE_PARTS; i++)
		if (all[i].time == offsetof(lk_explain_rank, idle_host_ns))
			return strcmp(part->part, all[i].name) == 0;
	return false;
}

lk_status lk_versus_scaling(lk_compared_run *run, const lk_explanation *measured, lk_error *err) {
	struct scaled_sums kernels = {0}, links = {0}, host = {0};
	lk_versus *out = &run->result;
	bool waits = measured->rank_count > 1 || out->predicted->ranks == 1;
	for (int i = 0; i < out->operation_count; i++)
		scaling_add(&out->operations[i], &kernels, &links);
	for (int i = 0; i < out->part_count; i++)
		if (waits_for_launches(&out->parts[i]))
			host = (struct scaled_sums){out->parts[i].predicted_s, out->parts[i].measured_s};
	out->scaled_kernels = scaling_of(&kernels, out->predicted_s);
	out->scaled_links = waits ? scaling_of(&links, out->predicted_s) : 0;
	out->scaled_host = scaling_of(&host, out->predicted_s);
	lk_scaling scaling = {out->scaled_kernels, out->scaled_links, out->scaled_host};
	const char *text = lk_scaling_text(&run->arena, &scaling);
	if (!text) return lk_oom(err);
	const char *links_say = "";
	if (!waits) links_say = "; one rank does not tell transfers from waiting: links as modelled";
	else if (!(out->scaled_links > 0)) links_say = "; links are hardly used";
	out->scaled = lk_arena_printf(
		&run->arena, "times of %s%s%s%s", *text ? text : "nothing to scale",
		out->scaled_kernels > 0 ? "" : "; no kernels of both steps agree", links_say,
		out->scaled_host > 0 ? "" : "; the device never waits for the host in the prediction");
	return out->scaled ? LK_OK : lk_oom(err);
}

lk_status lk_versus_write_calibration(const lk_explanation *explanation, const char *path,
                                      lk_error *err) {
	const lk_versus *of = explanation->versus;
	char source[128], seconds[32];
	lk_scaling scaling = {0};
	if (of) scaling = (lk_scaling){of->scaled_kernels, of->scaled_links, of->scaled_host};
	if (!(scaling.kernels > 0 || scaling.links > 0 || scaling.host > 0)) {
		lk_fail(err, LK_ERR_INPUT, "--calibrated", "the trace and the job have nothing in common");
		return lk_hint(err, "give the job that ran with --job");
	}
	snprintf(source, sizeof source, "a traced step of %s on %d GPUs",
	         lk_format_seconds(of->measured_s, seconds, sizeof seconds), of->predicted->gpus);
	return lk_scaling_write(&scaling, source, path, err);
}
