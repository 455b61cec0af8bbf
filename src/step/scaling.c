/* scaling.c: a cluster measured against the models: factors on the times of kernels, links and
 * host, the row `scaled,all` of a calibration. They apply to all jobs, after the constants of their
 * software. */
#include <stdio.h>

#include "base/arena.h"
#include "io/stream.h"
#include "step/step.h"

static const lk_calibration_row *scaling_row(void) {
	return lk_calibration_find(lk_calibration_current(), "scaled", "all", "");
}

lk_scaling lk_scaling_current(void) {
	const lk_calibration_row *row = scaling_row();
	return (lk_scaling){.kernels = lk_calibration_value(row, "kernels", 1),
	                    .links = lk_calibration_value(row, "links", 1),
	                    .host = lk_calibration_value(row, "host", 1)};
}

void lk_scaling_apply(const lk_scaling *scaling, lk_constants *constants) {
	double *const rates[] = {&constants->gemm_share,        &constants->attention_share,
	                         &constants->memory_efficiency, &constants->norm_efficiency,
	                         &constants->expert_efficiency, &constants->graph_expert_efficiency};
	double *const times[] = {&constants->launch_s,        &constants->graph_launch_s,
	                         &constants->step_overhead_s, &constants->graph_step_overhead_s,
	                         &constants->expert_call_s,   &constants->expert_launch_s};
	for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) *rates[i] /= scaling->kernels;
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) *times[i] *= scaling->host;
	constants->kernel_floor_s *= scaling->kernels;
	constants->network_factor *= scaling->links;
}

const char *lk_scaling_text(lk_arena *arena, const lk_scaling *scaling) {
	const struct {
		const char *what;
		double factor;
	} parts[] = {{"kernels", scaling->kernels}, {"links", scaling->links}, {"host", scaling->host}};
	const char *text = "";
	for (size_t i = 0; text && i < sizeof parts / sizeof *parts; i++)
		if (parts[i].factor > 0 && parts[i].factor != 1)
			text = lk_arena_printf(arena, "%s%s%s by %.2f", text, *text ? ", " : "", parts[i].what,
			                       parts[i].factor);
	return text;
}

const char *lk_scaling_note(lk_arena *arena) {
	const lk_calibration_row *row = scaling_row();
	lk_scaling scaling = lk_scaling_current();
	const char *text = row ? lk_scaling_text(arena, &scaling) : "";
	if (!text || !*text) return text;
	return lk_arena_printf(arena, "times of %s scaled after %s (--calibration)", text,
	                       row->source ? row->source : "a measured step");
}

lk_status lk_scaling_write(const lk_scaling *scaling, const char *source, const char *path,
                           lk_error *err) {
	lk_calibration rows = {0};
	lk_scaling before = lk_scaling_current();
	const struct {
		const char *name;
		double now, before;
	} numbers[] = {{"kernels", scaling->kernels, before.kernels},
	               {"links", scaling->links, before.links},
	               {"host", scaling->host, before.host}};
	lk_calibration_row *row = lk_calibration_add(&rows, "scaled", "all", "");
	lk_sink *sink = NULL;
	lk_status status = row ? lk_sink_open(path, &sink, err) : lk_oom(err);
	FILE *out = sink ? lk_sink_file(sink) : NULL;
	for (size_t i = 0; out && i < sizeof numbers / sizeof *numbers; i++)
		lk_calibration_put(row, numbers[i].name,
		                   (numbers[i].now > 0 ? numbers[i].now : 1) * numbers[i].before);
	if (out) {
		row->points = 1, row->source = source;
		lk_calibration_write(&rows, out);
		status = lk_sink_commit(sink, err);
	} else if (sink) {
		lk_sink_abandon(sink);
		status = lk_oom(err);
	}
	lk_calibration_free(&rows);
	return status;
}
