/* predict_fields.c: the fields of predictions, and predictions as JSON. */
#include <string.h>

#include "base/text.h"
#include "view/text/views.h"

static const lk_answer_field energy_fields[] = {
	{"gpu_watts", "W", LK_AT(lk_energy, gpu_watts), .known = LK_UNLESS_ZERO},
	{"site_watts", "site W", LK_AT(lk_energy, site_watts), .known = LK_UNLESS_ZERO},
	{"pue", "PUE", LK_AT(lk_energy, pue), .known = LK_UNLESS_ZERO},
	{"step_kwh", "energy of a step", LK_AT(lk_energy, step_kwh), .known = LK_UNLESS_ZERO,
     .shown = lk_format_energy},
	{"training_kwh", "energy", LK_AT(lk_energy, training_kwh), .known = LK_UNLESS_ZERO,
     .shown = lk_format_energy},
	{"carbon_kg", "CO2e", LK_AT(lk_energy, carbon_kg), .known = LK_UNLESS_ZERO,
     .shown = lk_format_mass},
	{"power_usd", "power", LK_AT(lk_energy, power_usd), .known = LK_UNLESS_ZERO,
     .shown = lk_format_dollars},
};
const lk_answer_record lk_energy_record = {.what = "Power and energy.",
                                           LK_RECORD(lk_energy, energy_fields)};

#define FIELD(member)     LK_AT(lk_prediction, member)
#define STAGE(member)     LK_AT(lk_stage_memory, member)
#define GENERATED(member) LK_AT(lk_generation, member)

static const lk_answer_field part_fields[] = {
	{"label", NULL, LK_AT(lk_time_part, label)},
	{"exposed_s", NULL, LK_AT(lk_time_part, exposed_s)},
	{"hidden_s", NULL, LK_AT(lk_time_part, hidden_s)},
};
static const lk_answer_record part_record = {
	.name = "Part",
	.python = "TimePart",
	.what = "A part of the step: what is exposed, and what is overlapped with computation.",
	LK_RECORD(lk_time_part, part_fields)};

static const lk_answer_field quantile_fields[] = {
	{"label", NULL, LK_AT(lk_seed_spread, label)},
	{"p50", NULL, LK_AT(lk_seed_spread, p50), .known = LK_MAYBE},
	{"p95", NULL, LK_AT(lk_seed_spread, p95), .known = LK_MAYBE},
	{"p99", NULL, LK_AT(lk_seed_spread, p99), .known = LK_MAYBE},
};
static const lk_answer_record quantile_record = {.name = "Quantiles",
                                                 .what =
                                                     "Of a time, or of a share, over the seeds.",
                                                 LK_RECORD(lk_seed_spread, quantile_fields)};

static const lk_answer_field seed_fields[] = {
	{"count", NULL, FIELD(seeds)},
	{"noise", NULL, FIELD(noise), .known = LK_MAYBE},
	{"quantiles", NULL, LK_MAP(lk_prediction, spread, spread_count, quantile_record),
     .named = offsetof(lk_seed_spread, key)},
};
static const lk_answer_record seed_record = {.python = "Seeds",
                                             .what =
                                                 "How far the step and its parts spread over seeds "
                                                 "of the jitter; keys as in breakdown, step "
                                                 "and straggler_share. With noise: step, quiet, "
                                                 "and noise_LEVEL, what the level adds to the "
                                                 "steps around the quantile.",
                                             LK_RECORD(lk_prediction, seed_fields)};

static const lk_answer_field stage_fields[] = {
	{"stage", NULL, STAGE(stage)},
	{"weights_bytes", NULL, STAGE(weights)},
	{"gradients_bytes", NULL, STAGE(gradients)},
	{"optimizer_bytes", NULL, STAGE(optimizer)},
	{"activations_bytes", NULL, STAGE(activations)},
	{"logits_bytes", NULL, STAGE(logits)},
	{"workspace_bytes", NULL, STAGE(workspace)},
	{"buffers_bytes", NULL, STAGE(buffers)},
	{"allocated_bytes", NULL, STAGE(allocated)},
	{"allocated_low_bytes", NULL, STAGE(low), .known = LK_MAYBE},
	{"allocated_high_bytes", NULL, STAGE(high), .known = LK_MAYBE},
	{"reserved_bytes", NULL, STAGE(reserved)},
	{"reserved_low_bytes", NULL, STAGE(reserved_low), .known = LK_MAYBE},
	{"reserved_high_bytes", NULL, STAGE(reserved_high), .known = LK_MAYBE},
	{"orders", NULL, STAGE(orders)},
	{"orders_fit", NULL, STAGE(orders_fit)},
	{"context_bytes", NULL, STAGE(context)},
	{"nccl_bytes", NULL, STAGE(nccl)},
	{"total_bytes", NULL, STAGE(total)},
	{"moment", NULL, STAGE(moment), .known = LK_MAYBE},
};
static const lk_answer_record stage_record = {
	.name = "Stage",
	.python = "StageMemory",
	.what = "Memory of one rank of a pipeline stage at its peak.",
	LK_RECORD(lk_stage_memory, stage_fields)};

static const lk_answer_field layout_fields[] = {
	{"text", NULL, FIELD(layout)},
	{"gpus", "GPUs", FIELD(gpus)},
	{"tp", "tp", FIELD(tp)},
	{"pp", "pp", FIELD(pp)},
	{"vp", "vp", FIELD(vp)},
	{"cp", "cp", FIELD(cp)},
	{"ep", "ep", FIELD(ep)},
	{"dp", "dp", FIELD(dp)},
	{"mbs", "mbs", FIELD(mbs)},
	{"gbs", "gbs", FIELD(gbs)},
	{"seq", "seq", FIELD(seq)},
	{"microbatches", NULL, FIELD(microbatches)},
	{"recompute", "recompute", FIELD(recompute), .known = LK_MAYBE},
	{"dtype", "dtype", FIELD(dtype), .known = LK_MAYBE},
	{"schedule", "schedule", FIELD(schedule), .known = LK_MAYBE},
};
const lk_answer_record lk_layout_record = {
	.name = "Layout", .what = "The layout in numbers.", LK_RECORD(lk_prediction, layout_fields)};

static const lk_answer_field fix_fields[] = {
	{"change", NULL, LK_AT(lk_fix, change)},
	{"peak_bytes", NULL, LK_AT(lk_fix, peak_bytes)},
	{"step_time_s", NULL, LK_AT(lk_fix, step_time_s)},
	{"time_ratio", NULL, LK_AT(lk_fix, time_ratio)},
	{"words", NULL, LK_AT(lk_fix, words)},
};
static const lk_answer_record fix_record = {
	.name = "Fix", .what = "A change that would make the job fit.", LK_RECORD(lk_fix, fix_fields)};

static const lk_answer_field generation_fields[] = {
	{"sequences", NULL, GENERATED(sequences)},
	{"engines", NULL, GENERATED(engines)},
	{"engine_gpus", NULL, GENERATED(engine_gpus)},
	{"tokens", NULL, GENERATED(tokens)},
	{"tokens_per_s", NULL, GENERATED(tokens_per_s)},
	{"token_time_s", NULL, GENERATED(token_time_s)},
	{"longest_tokens", NULL, GENERATED(longest_tokens)},
	{"cache_bytes", NULL, GENERATED(cache_bytes)},
	{"token_bytes", NULL, GENERATED(token_bytes)},
	{"cache_tokens", NULL, GENERATED(cache_tokens)},
	{"batch_room", NULL, GENERATED(batch_room)},
	{"batch_most", NULL, GENERATED(batch_most)},
	{"tail_s", NULL, GENERATED(tail_s)},
	{"preempted", NULL, GENERATED(preempted)},
	{"fixed_s", NULL, GENERATED(fixed_s), .known = LK_UNLESS_ZERO},
	{"exponential_s", NULL, GENERATED(exponential_s), .known = LK_UNLESS_ZERO},
};
static const lk_answer_record generation_record = {
	.name = "Generation",
	.what =
		"What generation answers beyond a step: figures of one engine where nothing else is said.",
	LK_RECORD(lk_generation, generation_fields)};

static void find_side(const lk_subject *subject, lk_field_value *found) {
	found->text = ((const lk_phase_span *)subject->record)->engines ? "engines" : "training";
}

static void find_phase(const lk_subject *subject, lk_field_value *found) {
	const lk_prediction *prediction = subject->answer;
	const lk_phase_span *span = subject->record;
	found->text = span->part < 0 ? "wait" : prediction->breakdown[span->part].key;
}

static const lk_answer_field span_fields[] = {
	{"gpus", NULL, LK_FIELD_TEXT, .get = find_side},
	{"phase", NULL, LK_FIELD_TEXT, .get = find_phase},
	{"start_s", NULL, LK_AT(lk_phase_span, start_s)},
	{"end_s", NULL, LK_AT(lk_phase_span, end_s)},
};
static const lk_answer_record span_record = {.python = "PhaseSpan",
                                             .what =
                                                 "When a phase of a step of reinforcement learning "
                                                 "runs, on the GPUs that train (\"training\") "
                                                 "or on engines of their own.",
                                             LK_RECORD(lk_phase_span, span_fields)};

static void put_spans(lk_json_writer *writer, const lk_subject *subject) {
	const lk_prediction *prediction = subject->answer;
	for (int i = 0; i < prediction->phase_span_count; i++) {
		lk_subject span = {prediction, &prediction->spans[i], i, NULL};
		lk_json_object(writer, NULL);
		lk_json_put_fields(writer, &span_record, &span);
		lk_json_object_end(writer);
	}
}

/* ---- a whole run ---- */

#define RUN(member) LK_AT(lk_run_forecast, member)

static const lk_answer_field figure_fields[] = {
	{"mean", NULL, LK_AT(lk_run_figure, mean)},
	{"p5", NULL, LK_AT(lk_run_figure, p5)},
	{"p50", NULL, LK_AT(lk_run_figure, p50)},
	{"p95", NULL, LK_AT(lk_run_figure, p95)},
};
static const lk_answer_record figure_record = {
	.name = "RunFigure",
	.what = "A figure of a whole run, over the runs that were simulated.",
	LK_RECORD(lk_run_figure, figure_fields)};

static const lk_answer_field run_time_fields[] = {
	{"share", NULL, LK_AT(lk_run_time, share)},
	{"days", NULL, LK_AT(lk_run_time, days), .known = LK_UNLESS_ZERO},
};
static const lk_answer_record run_time_record = {.name = "RunTime",
                                                 .what = "A part of the time of a whole run, mean.",
                                                 LK_RECORD(lk_run_time, run_time_fields)};

static const lk_answer_field saved_fields[] = {
	{"name", NULL, LK_AT(lk_run_saved, name)},
	{"interval_s", NULL, LK_AT(lk_run_saved, interval_s)},
	{"stall_s", NULL, LK_AT(lk_run_saved, stall_s)},
	{"write_s", NULL, LK_AT(lk_run_saved, write_s)},
};
static const lk_answer_record saved_record = {.name = "Checkpoints",
                                              .what = "Checkpoints of one kind.",
                                              LK_RECORD(lk_run_saved, saved_fields)};

static void put_run_part(lk_json_writer *writer, const char *key, const lk_answer_record *record,
                         const void *of) {
	lk_subject subject = {of, of, 0, NULL};
	lk_json_object(writer, key);
	lk_json_put_fields(writer, record, &subject);
	lk_json_object_end(writer);
}

static void put_run_figures(lk_json_writer *writer, const lk_subject *subject) {
	const lk_run_forecast *run = subject->record;
	for (int i = 0; i < run->figure_count; i++)
		put_run_part(writer, run->figures[i].key, &figure_record, &run->figures[i]);
}

static void put_run_times(lk_json_writer *writer, const lk_subject *subject) {
	const lk_run_forecast *run = subject->record;
	for (int i = 0; i < run->time_count; i++)
		put_run_part(writer, run->times[i].key, &run_time_record, &run->times[i]);
}

static void put_run_saved(lk_json_writer *writer, const lk_subject *subject) {
	const lk_run_forecast *run = subject->record;
	for (int i = 0; i < run->saved_count; i++)
		put_run_part(writer, NULL, &saved_record, &run->saved[i]);
}

#define PHASE(member) LK_AT(lk_run_phase, member)
static const lk_answer_field phase_fields[] = {
	{"name", "phase", PHASE(name)},
	{"gpus", "GPUs", PHASE(gpus)},
	{"gbs", "gbs", PHASE(gbs), .known = LK_UNLESS_ZERO},
	{"seq", "seq", PHASE(seq), .known = LK_UNLESS_ZERO},
	{"tokens", "tokens", PHASE(tokens), .shown = lk_format_count},
	{"steps", "steps", PHASE(steps), .shown = lk_format_thousands},
	{"step_time_s", "step", PHASE(step_time_s), .shown = lk_format_seconds},
	{"work_days", "days of work", PHASE(work_days), .shown = lk_days},
};
const lk_answer_record lk_run_phase_record = {
	.name = "RunPhase",
	.what = "A phase of a run: its job, its steps, and the days of its steps and evaluations.",
	LK_RECORD(lk_run_phase, phase_fields)};

static const lk_answer_field run_fields[] = {
	{"samples", NULL, RUN(samples)},
	{"figures", NULL, LK_FIELD_MAP, .of = &figure_record, .put = put_run_figures},
	{"time", NULL, LK_FIELD_MAP, .of = &run_time_record, .put = put_run_times},
	{"mtbf_hours", NULL, RUN(mtbf_hours), .known = LK_UNLESS_ZERO},
	{"recovery", NULL, RUN(recovery)},
	{"checkpoints", NULL, LK_FIELD_MANY, .of = &saved_record, .put = put_run_saved},
	{"best_interval_s", NULL, RUN(best_interval_s), .known = LK_UNLESS_ZERO},
	{"cheapest_spares", NULL, RUN(cheapest_spares)},
	{"enough_spares", NULL, RUN(enough_spares)},
	{"phases", NULL, LK_MANY(lk_run_forecast, phases, phase_count, lk_run_phase_record)},
};
static const lk_answer_record run_record = {
	.python = "Run",
	.what = "The whole run with what stops it: quantiles over simulated runs, where its time goes.",
	LK_RECORD(lk_run_forecast, run_fields)};

/* ---- a whole run as tables ---- */

static char *run_shown(const char *key, double number, char *out, size_t size) {
	static const struct {
		const char *key;
		lk_shown *shown;
	} rows[] = {{"days", lk_days},
	            {"goodput", lk_percent},
	            {"cost_usd", lk_format_dollars},
	            {"energy_kwh", lk_format_energy},
	            {"carbon_kg", lk_format_mass}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (strcmp(rows[i].key, key) == 0) return rows[i].shown(number, out, size);
	return lk_format_thousands(number, out, size);
}

lk_table *lk_run_figures_table(const lk_prediction *prediction) {
	const lk_run_forecast *run = &prediction->run;
	char title[64], text[64];
	snprintf(title, sizeof title, "over %d runs", run->samples);
	const lk_column columns[] = {{"figure", title, false, false},
	                             {"mean", "mean", true, false},
	                             {"p5", "P5", true, false},
	                             {"p50", "P50", true, false},
	                             {"p95", "P95", true, false}};
	lk_table *table = lk_table_new("run", columns, 5);
	for (int i = 0; table && i < run->figure_count; i++) {
		const lk_run_figure *figure = &run->figures[i];
		const double numbers[] = {figure->mean, figure->p5, figure->p50, figure->p95};
		lk_table_row(table);
		lk_table_text(table, figure->label);
		for (int n = 0; n < 4; n++)
			lk_table_number(table, numbers[n],
			                run_shown(figure->key, numbers[n], text, sizeof text));
	}
	return table;
}

lk_table *lk_run_times_table(const lk_prediction *prediction) {
	static const lk_column columns[] = {{"part", "where the run goes", false, false},
	                                    {"share", "share", true, false},
	                                    {"days", "days", true, false}};
	const lk_run_forecast *run = &prediction->run;
	char text[64];
	lk_table *table = lk_table_new("run_time", columns, 3);
	for (int i = 0; table && i < run->time_count; i++) {
		const lk_run_time *time = &run->times[i];
		lk_table_row(table);
		lk_table_text(table, time->label);
		lk_table_number(table, time->share, lk_percent(time->share, text, sizeof text));
		lk_table_text(table, time->days > 0 ? lk_days(time->days, text, sizeof text) : "");
	}
	return table;
}

/* ---- a measured run ---- */

#define COMPARED(member) LK_AT(lk_compared, member)
#define SUSPECT(member)  LK_AT(lk_suspect, member)
#define EXPECTED(member) LK_AT(lk_expected, member)

static const lk_answer_field compared_fields[] = {
	{"key", NULL, COMPARED(key)},
	{"label", "value", COMPARED(label)},
	{"unit", "unit", COMPARED(unit)},
	{"measured", "measured", COMPARED(measured)},
	{"predicted", "predicted", COMPARED(predicted)},
	{"low", "from", COMPARED(low)},
	{"high", "to", COMPARED(high)},
	{"inside", NULL, COMPARED(inside)},
};
static const lk_answer_record compared_record = {
	.name = "Compared",
	.what = "A measured value and its prediction, with its 80 % range.",
	LK_RECORD(lk_compared, compared_fields)};

static const lk_answer_field suspect_fields[] = {
	{"what", "what", SUSPECT(what)},
	{"share", "likely", SUSPECT(share), .shown = lk_percent},
	{"step_time_s", "step", SUSPECT(step_time_s), .shown = lk_format_seconds},
	{"mfu", NULL, SUSPECT(mfu)},
	{"memory_bytes", "memory", SUSPECT(memory_bytes), .shown = lk_format_bytes},
	{"cause", NULL, SUSPECT(cause)},
	{"option", "options", SUSPECT(option), .known = LK_UNLESS_ZERO},
	{"check", "check", SUSPECT(check)},
	{"time_ratio", NULL, SUSPECT(time_ratio)},
	{"explains", NULL, SUSPECT(explains)},
};
static const lk_answer_record suspect_record = {
	.name = "Suspect",
	.what = "A cause that may explain a measured run, with what would be predicted under it.",
	LK_RECORD(lk_suspect, suspect_fields)};

lk_table *lk_expected_table(const lk_expected *expected, bool causes) {
	static const lk_columns values = {"values", &compared_record, .people = false},
							suspects = {"causes", &suspect_record, .people = false};
	lk_table *table =
		causes ? lk_fields_rows(&suspects, expected, expected->suspects, expected->suspect_count)
			   : lk_fields_rows(&values, expected, expected->compared, expected->compared_count);
	if (table) lk_table_hide_empty(table);
	return table;
}

static const lk_answer_field expected_fields[] = {
	{"measured", NULL, EXPECTED(measured)},
	{"verdict", NULL, EXPECTED(verdict)},
	{"as_expected", NULL, EXPECTED(as_expected)},
	{"step_time_s", NULL, EXPECTED(step_time_s), .known = LK_UNLESS_ZERO},
	{"mfu", NULL, EXPECTED(mfu), .known = LK_UNLESS_ZERO},
	{"time_ratio", NULL, EXPECTED(time_ratio), .known = LK_UNLESS_ZERO},
	{"compared", NULL, LK_MANY(lk_expected, compared, compared_count, compared_record)},
	{"causes", NULL, LK_MANY(lk_expected, suspects, suspect_count, suspect_record)},
	{"unchanged_share", NULL, EXPECTED(unchanged_share)},
	{"other_share", NULL, EXPECTED(other_share)},
	{"scaled_kernels", NULL, EXPECTED(scaled_kernels), .known = LK_UNLESS_ZERO},
	{"scaled_links", NULL, EXPECTED(scaled_links), .known = LK_UNLESS_ZERO},
	{"scaled_host", NULL, EXPECTED(scaled_host), .known = LK_UNLESS_ZERO},
	{"scaled", NULL, EXPECTED(scaled), .known = LK_MAYBE},
	{"tried", NULL, EXPECTED(tried)},
	{"notes", NULL, LK_LIST(lk_expected, notes, note_count)},
};
static const lk_answer_record expected_record = {
	.name = "Expected",
	.what = "A measured run against its prediction, and what explains the difference.",
	LK_RECORD(lk_expected, expected_fields)};

/* ---- the prediction ---- */

static void find_tflops(const lk_subject *subject, lk_field_value *found) {
	found->number = ((const lk_prediction *)subject->record)->model_flops_per_s_per_gpu / 1e12;
}

/* A row of a sweep, as the context of its fields. */
struct swept {
	const lk_sweep *sweep;
	const lk_sweep_row *row;
};

static bool was_swept(const lk_subject *subject) {
	const struct swept *swept = subject->context;
	return swept && swept->row->request && swept->sweep->count > 1;
}

/* The requested values that distinguish this object of an array from the others. */
static void put_asked(lk_json_writer *writer, const lk_subject *subject) {
	const struct swept *swept = subject->context;
	char text[512];
	for (int i = 0; i < swept->sweep->varying_count; i++) {
		const lk_option *option = swept->sweep->varying[i];
		lk_option_text(option, swept->row->request, text, sizeof text);
		const char *end;
		double number = lk_read_real(text, &end);
		if (!*text) lk_json_put_null(writer, option->name);
		else if (option->kind == LK_OPTION_TEXT || *end)
			lk_json_put_text(writer, option->name, text);
		else lk_json_put_number(writer, option->name, number);
	}
}

#define ASKED \
	{ "asked", NULL, LK_FIELD_MAP, .when = was_swept, .put = put_asked, .type = "any" }

static const lk_answer_field prediction_fields[] = {
	{"fits", NULL, FIELD(fits)},
	{"peak_bytes", "GiB", FIELD(peak_bytes), .shown = lk_gib},
	{"usable_bytes", "of GiB", FIELD(usable_bytes), .shown = lk_gib},
	{"out_of_memory", NULL, FIELD(out_of_memory), .known = LK_MAYBE},
	{"fullest_stage", "stage", FIELD(fullest_stage)},
	{"step_time_s", "step", FIELD(step_time_s), .shown = lk_format_seconds},
	{"step_time_low_s", "low", FIELD(step_time_low_s), .known = LK_MAYBE,
     .shown = lk_format_seconds},
	{"step_time_high_s", "high", FIELD(step_time_high_s), .known = LK_MAYBE,
     .shown = lk_format_seconds},
	{"basis", NULL, FIELD(basis), .known = LK_MAYBE},
	{"tokens_per_s_per_gpu", "tokens/s/GPU", FIELD(tokens_per_s_per_gpu), .known = LK_UNLESS_ZERO,
     .shown = lk_format_thousands},
	{"samples_per_s", "samples/s", FIELD(samples_per_s), .shown = lk_format_thousands},
	{"unit", NULL, FIELD(unit)},
	{"model_tflops_per_gpu", NULL, LK_FIELD_REAL, .get = find_tflops},
	{"mfu", "MFU", FIELD(mfu), .known = LK_UNLESS_ZERO, .shown = lk_percent},
	{"hfu", "HFU", FIELD(hfu), .known = LK_UNLESS_ZERO, .shown = lk_percent},
	{"peak_flops", NULL, FIELD(peak_flops), .known = LK_UNLESS_ZERO},
	{"peak", NULL, FIELD(peak_label), .known = LK_MAYBE},
	{"days", "days", FIELD(days), .known = LK_UNLESS_ZERO, .shown = lk_days},
	{"gpu_hours", "GPU-hours", FIELD(gpu_hours), .known = LK_UNLESS_ZERO,
     .shown = lk_format_thousands},
	{"goodput", "goodput", FIELD(goodput), .known = LK_UNLESS_ZERO, .shown = lk_percent},
	{"checkpoint_bytes", NULL, FIELD(checkpoint_bytes), .known = LK_UNLESS_ZERO},
	{"checkpoint_write_s", NULL, FIELD(checkpoint_write_s), .known = LK_UNLESS_ZERO},
	{LK_INSIDE(lk_prediction, energy, lk_energy_record)},
	{"run", NULL, LK_INSIDE(lk_prediction, run, run_record), LK_IF(lk_prediction, run.samples)},
	{"breakdown", NULL, LK_MAP(lk_prediction, breakdown, breakdown_count, part_record),
     .named = offsetof(lk_time_part, key)},
	{"seeds", NULL, LK_HERE(seed_record), LK_IF(lk_prediction, seeds)},
	{"generation", NULL, LK_INSIDE(lk_prediction, generation, generation_record),
     LK_IF(lk_prediction, generation.sequences)},
	{"service", NULL, LK_INSIDE(lk_prediction, service, lk_service_record),
     LK_IF(lk_prediction, service.requests)},
	{"expected", NULL, LK_ONE(lk_prediction, expected, expected_record), .known = LK_MAYBE},
	{"phases", NULL, LK_FIELD_MANY, .of = &span_record, .put = put_spans,
     LK_IF(lk_prediction, phases)},
	{"memory", NULL, LK_MANY(lk_prediction, memory, memory_count, stage_record)},
	{"layout", NULL, LK_HERE(lk_layout_record)},
	{"found", NULL, LK_LIST(lk_prediction, found, found_count)},
	{"assumptions", NULL, LK_LIST(lk_prediction, assumptions, assumption_count)},
	{"understood", NULL, LK_LIST(lk_prediction, understood, understood_count)},
	{"ignored", NULL, LK_LIST(lk_prediction, ignored, ignored_count)},
	{"notable", "ignored flags", LK_LIST(lk_prediction, ignored, notable_count), .column = true},
	{"fixes", NULL, LK_MANY(lk_prediction, fixes, fix_count, fix_record)},
	{"operations", NULL, FIELD(operations)},
	{"layer_operations", NULL, FIELD(layer_operations)},
	{"ranks_simulated", NULL, FIELD(ranks_simulated)},
	{"ranks", NULL, FIELD(ranks)},
	{"searched", NULL, FIELD(searched), .known = LK_MAYBE},
	{"warning", "warning", FIELD(warning), .known = LK_MAYBE},
	{"reproduce", NULL, FIELD(reproduce)},
	{"model", "model", FIELD(model)},
	{"cluster", "cluster", FIELD(cluster)},
	ASKED,
};
const lk_answer_record lk_prediction_record = {
	.name = "Prediction",
	.what = "One training step: does it fit, how long is it, where does the time go.",
	LK_RECORD(lk_prediction, prediction_fields)};

/* ---- refused combinations ---- */

static void find_nothing(const lk_subject *subject, lk_field_value *found) {
	(void)subject;
	(void)found;
}

static void find_refusal(const lk_subject *subject, lk_field_value *found) {
	found->text = subject->record;
}

static const lk_answer_field refused_fields[] = {
	{"fits", NULL, LK_FIELD_BOOL, .get = find_nothing, .type = "any"},
	{"refused", NULL, LK_FIELD_TEXT, .get = find_refusal},
	ASKED,
};
static const lk_answer_record refused_record = {.name = "Refused",
                                                .fields = refused_fields,
                                                .count =
                                                    sizeof refused_fields / sizeof *refused_fields};

const lk_document lk_predict_document = {
	"predict", "`predict -o json`; a sweep is an array of them, JSON lines have one a line",
	&lk_prediction_record, offsetof(lk_prediction, failed_check), &refused_record};

/* ---- JSON ---- */

static void json_put_row(lk_json_writer *writer, const lk_sweep *sweep, const lk_sweep_row *row) {
	const lk_prediction *prediction = row->prediction;
	struct swept swept = {sweep, row};
	char text[1024];
	lk_json_object(writer, NULL);
	lk_json_put_head(writer, "lockstep/predict/1", prediction ? prediction->failed_check : NULL);
	if (prediction) {
		lk_subject subject = {prediction, prediction, 0, &swept};
		lk_json_put_fields(writer, &lk_prediction_record, &subject);
	} else {
		const char *why = row->refusal ? lk_error_text(row->refusal, text, sizeof text) : NULL;
		lk_json_put_fields(writer, &refused_record, &(lk_subject){NULL, why, 0, &swept});
	}
	lk_json_object_end(writer);
}

lk_status lk_write_sweep_json(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_sweep *sweep = what;
	(void)colour;
	lk_json_writer w;
	lk_json_begin(&w, out, sweep->compact);
	bool array = !sweep->compact && sweep->count != 1;
	if (array) lk_json_array(&w, NULL);
	for (size_t i = 0; i < sweep->count; i++) {
		if (sweep->compact && i) {
			LK_TRY(lk_json_finish(&w, err));
			lk_json_begin(&w, out, true);
		}
		json_put_row(&w, sweep, &sweep->rows[i]);
	}
	if (array) lk_json_array_end(&w);
	if (sweep->compact && !sweep->count) return LK_OK;
	return lk_json_finish(&w, err);
}
