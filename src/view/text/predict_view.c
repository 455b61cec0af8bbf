/* predict_view.c: the report of one prediction, for people: the verdict first, then what was asked,
 * how fast it is, where the time goes, where the memory goes, what was assumed, and the command
 * that asks again. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/noun.h"
#include "view/text/views.h"

enum { TEXT = 64, LINE = 160, FEW_STAGES = 4, FEW_FLAGS = 6, CHECKED = 3 };

/* The report while it is written. */
struct report {
	const lk_prediction *p;
	const lk_predict_request *request; /* may be NULL */
	bool verbose, colour;
	FILE *out;
	lk_error *err;
};

static lk_status write_table(const struct report *report, lk_table *table) {
	return lk_put_table(table, report->colour, report->out, report->err);
}

static lk_status put_labelled(const struct report *report, const char *label, const char *text) {
	return lk_put_labelled(label, text, report->out, report->err);
}

/* What the ranges above come from. */
static lk_status put_basis(const struct report *report) {
	char text[2 * LINE];
	if (!report->p->basis) return LK_OK;
	snprintf(text, sizeof text, "from %s", report->p->basis);
	return put_labelled(report, "80 % range", text);
}

/* The command that asks again is one line, to be copied. */
static lk_status put_reproduce(const struct report *report) {
	if (!report->p->reproduce) return LK_OK;
	fprintf(report->out, "%-10s ", "reproduce");
	LK_TRY(lk_put_safe(report->p->reproduce, report->out, report->err));
	putc('\n', report->out);
	return LK_OK;
}

/* ---- the verdict ---- */

static void predict_view_put_verdict(const struct report *report) {
	const lk_prediction *prediction = report->p;
	char peak[TEXT], usable[TEXT], room[TEXT];
	double left = prediction->usable_bytes - prediction->peak_bytes;
	double out = prediction->out_of_memory;
	const char *paint = "", *plain = lk_plain(report->colour);
	static const char *const verdicts[] = {[LK_VERDICT_FITS] = "FITS",
	                                       [LK_VERDICT_MAY_NOT_FIT] = "MAY NOT FIT",
	                                       [LK_VERDICT_MISFIT] = "DOES NOT FIT"};
	lk_verdict verdict = lk_verdict_of(prediction);
	if (report->colour) paint = verdict == LK_VERDICT_FITS ? "\x1b[1;32m" : "\x1b[1;31m";
	lk_gib(fabs(left), room, sizeof room);
	fprintf(report->out, "%s%s%s  %s of %s GiB on the peak-memory rank (stage %d)   ", paint,
	        verdicts[verdict], plain, lk_gib(prediction->peak_bytes, peak, sizeof peak),
	        lk_gib(prediction->usable_bytes, usable, sizeof usable), prediction->fullest_stage);
	if (prediction->fits) fprintf(report->out, "headroom %s GiB\n", room);
	else fprintf(report->out, "%s GiB too much\n", room);
	const lk_stage_memory *memory =
		prediction->memory_count ? &prediction->memory[prediction->fullest_stage] : NULL;
	if (out >= .05 && out < .95)
		fprintf(report->out,
		        "it runs out of memory in about %.0f of 10 such runs (errors on "
		        "measured runs)\n",
		        10 * out);
	if (memory && memory->orders > 0)
		fprintf(report->out, "it fits in %d of %d orders of sequences that differ in length\n",
		        memory->orders_fit, memory->orders);
}

/* "+3 %" for 1.03 */
static const char *change_of(double ratio, char *out, size_t size) {
	char digits[TEXT];
	snprintf(out, size, "%s%s %%", ratio >= 0.9995 ? "+" : "",
	         lk_fixed((ratio - 1) * 100, 1, digits, sizeof digits));
	return out;
}

/* Each change as a setting of the file or line that was given. */
static lk_status put_fix_words(const struct report *report) {
	const lk_prediction *prediction = report->p;
	char text[2 * LINE];
	for (int i = 0; i < prediction->fix_count; i++) {
		const lk_fix *fix = &prediction->fixes[i];
		if (!*fix->words) continue;
		snprintf(text, sizeof text, "%s is %s", fix->change, fix->words);
		LK_TRY(put_labelled(report, "in words", text));
	}
	return LK_OK;
}

static lk_status predict_view_put_fixes(const struct report *report) {
	static const lk_column columns[] = {
		{"change", "change that would fit", false, false},
		{"peak_bytes", "GiB", true, false},
		{"step_time_s", "step", true, false},
		{"time_ratio", "time", true, false},
	};
	const lk_prediction *prediction = report->p;
	char text[TEXT];
	if (lk_verdict_of(prediction) == LK_VERDICT_FITS) return LK_OK;
	if (!prediction->fix_count) {
		if (prediction->phases)
			fputs("lockstep plan with the same options searches layouts that fit\n", report->out);
		else if (report->request && !report->request->no_fixes)
			fputs("no single change was found that would make it fit\n", report->out);
		return LK_OK;
	}
	lk_table *table = lk_table_new("fixes", columns, 4);
	for (int i = 0; table && i < prediction->fix_count; i++) {
		const lk_fix *fix = &prediction->fixes[i];
		lk_table_row(table);
		lk_table_text(table, fix->change);
		lk_table_number(table, fix->peak_bytes, lk_gib(fix->peak_bytes, text, sizeof text));
		lk_table_number(table, fix->step_time_s,
		                lk_format_seconds(fix->step_time_s, text, sizeof text));
		lk_table_number(table, fix->time_ratio, change_of(fix->time_ratio, text, sizeof text));
	}
	putc('\n', report->out);
	LK_TRY(write_table(report, table));
	LK_TRY(put_fix_words(report));
	putc('\n', report->out);
	return LK_OK;
}

/* ---- speed ---- */

typedef char *shown_as(double number, char *out, size_t size);

static char *predict_view_plain(double number, char *out, size_t size) {
	return lk_grouped(number, fabs(number) < 100 ? 2 : 0, out, size);
}

/* A line of the table of speeds. Where `power` is not 0 the value has a range: it goes with that
 * power of the step time. */
static void predict_view_put_speed(lk_table *table, const struct report *report, const char *name,
                                   double value, int power, shown_as *shown, const char *basis) {
	const lk_prediction *prediction = report->p;
	char text[TEXT], low[TEXT], high[TEXT], range[LINE] = "";
	LK_ASSERT(power >= -1 && power <= 1);
	lk_table_row(table);
	lk_table_text(table, name);
	lk_table_text(table, shown(value, text, sizeof text));
	if (power && prediction->step_time_s > 0 && prediction->step_time_low_s > 0 &&
	    prediction->step_time_high_s > 0) {
		double a = prediction->step_time_low_s / prediction->step_time_s,
			   b = prediction->step_time_high_s / prediction->step_time_s;
		double least = value * a, most = value * b;
		if (power < 0) {
			least = value * (1 / b);
			most = value * (1 / a);
		}
		if (shown == lk_format_seconds) {
			lk_format_seconds_like(least, value, low, sizeof low);
			lk_format_seconds_like(most, value, high, sizeof high);
		} else {
			shown(least, low, sizeof low);
			shown(most, high, sizeof high);
		}
		snprintf(range, sizeof range, "%s - %s", low, high);
	}
	lk_table_text(table, range);
	lk_table_text(table, basis ? basis : "");
}

static char *predict_view_kw(double watts, char *out, size_t size) {
	snprintf(out, size, "%.3g kW", watts / 1000);
	return out;
}

static const char *energy_basis(const struct report *report, char *out, size_t size) {
	const lk_prediction *prediction = report->p;
	snprintf(out, size, "%.0f W per GPU; %.0f W at the mains, PUE %.3g",
	         prediction->energy.gpu_watts, prediction->energy.site_watts / prediction->gpus,
	         prediction->energy.pue);
	return out;
}

static void put_training(lk_table *table, const struct report *report) {
	const lk_prediction *prediction = report->p;
	char text[TEXT], basis[LINE] = "";
	if (report->request && report->request->tokens > 0)
		snprintf(basis, sizeof basis, "for %s %ss",
		         lk_format_count(report->request->tokens, text, sizeof text),
		         prediction->tokens_per_s_per_gpu > 0 ? "token" : prediction->unit);
	if (prediction->days > 0)
		predict_view_put_speed(table, report, "days of training", prediction->days, 1, lk_days,
		                       basis);
	if (prediction->gpu_hours > 0)
		predict_view_put_speed(table, report, "GPU-hours", prediction->gpu_hours, 1,
		                       lk_format_thousands, "");
	if (prediction->energy.site_watts > 0 && !(prediction->energy.training_kwh > 0) &&
	    report->request && report->request->mains.pue > 0)
		predict_view_put_speed(table, report, "power", prediction->energy.site_watts, 0,
		                       predict_view_kw, energy_basis(report, text, sizeof text));
	if (prediction->energy.training_kwh > 0)
		predict_view_put_speed(table, report, "energy", prediction->energy.training_kwh, 1,
		                       lk_format_energy, energy_basis(report, text, sizeof text));
	if (prediction->energy.carbon_kg > 0)
		predict_view_put_speed(table, report, "CO2e", prediction->energy.carbon_kg, 1,
		                       lk_format_mass, "of the mains, as --carbon says");
	if (prediction->energy.power_usd > 0)
		predict_view_put_speed(table, report, "power", prediction->energy.power_usd, 1,
		                       lk_format_dollars, "of the mains, as --price-kwh says");
	if (prediction->goodput > 0)
		predict_view_put_speed(table, report, "goodput", prediction->goodput, 0, lk_percent,
		                       "without failures, restarts, checkpoints");
}

static lk_status put_speeds(const struct report *report) {
	static const lk_column columns[] = {
		{"quantity", "speed", false, false},
		{"value", "value", true, false},
		{"range", "80 % range", true, false},
		{"basis", "basis", false, false},
	};
	const lk_prediction *prediction = report->p;
	char of[LINE], rate[LINE];
	lk_table *table = lk_table_new("speed", columns, 4);
	if (!table) return lk_oom(report->err);
	const char *peak = prediction->peak_label ? prediction->peak_label : "an unknown peak";
	/* figures of a whole training are wide: the GPU's name is in the line of the cluster */
	size_t most = prediction->days > 0 ? strcspn(peak, ",") : strlen(peak);
	snprintf(of, sizeof of, "of %.*s", (int)most, peak);
	snprintf(rate, sizeof rate, "%ss/s", prediction->unit);
	predict_view_put_speed(table, report, "step time", prediction->step_time_s, 1,
	                       lk_format_seconds, "");
	if (prediction->tokens_per_s_per_gpu > 0)
		predict_view_put_speed(table, report, "tokens/s/GPU", prediction->tokens_per_s_per_gpu, -1,
		                       lk_format_thousands, "");
	else
		predict_view_put_speed(table, report, rate, prediction->samples_per_s, -1,
		                       predict_view_plain, "all GPUs together");
	predict_view_put_speed(table, report, "model TFLOP/s/GPU",
	                       prediction->model_flops_per_s_per_gpu, -1, lk_tera,
	                       "forward and backward, no recomputation");
	if (prediction->peak_flops > 0) {
		predict_view_put_speed(table, report, "MFU", prediction->mfu, -1, lk_percent, of);
		predict_view_put_speed(table, report, "HFU", prediction->hfu, -1, lk_percent,
		                       "of the same peak, all operations that run");
	}
	put_training(table, report);
	LK_TRY(write_table(report, table));
	LK_TRY(lk_put_above_peak(fmax(prediction->mfu, prediction->hfu), report->out, report->err));
	return put_basis(report);
}

/* ---- generation ---- */

static lk_status put_generation(const struct report *report) {
	static const lk_column columns[] = {
		{"quantity", "generation", false, false},
		{"value", "value", true, false},
		{"range", "80 % range", true, false},
		{"basis", "basis", false, false},
	};
	const lk_prediction *prediction = report->p;
	const lk_generation *generation = &prediction->generation;
	char text[TEXT], other[TEXT], basis[LINE];
	lk_table *table = lk_table_new("generation", columns, 4);
	if (!table) return lk_oom(report->err);
	predict_view_put_speed(table, report, "all sequences", prediction->step_time_s, 1,
	                       lk_format_seconds, "");
	predict_view_put_speed(table, report, "tokens/s", generation->tokens_per_s, -1,
	                       lk_format_thousands, "generated, all engines together");
	predict_view_put_speed(table, report, "tokens/s/GPU", prediction->tokens_per_s_per_gpu, -1,
	                       lk_format_thousands, "");
	predict_view_put_speed(table, report, "time per token", generation->token_time_s, 1,
	                       lk_format_seconds, "of one sequence, mean");
	snprintf(basis, sizeof basis, "less than half of the batch; longest response %s",
	         lk_format_thousands(generation->longest_tokens, text, sizeof text));
	predict_view_put_speed(table, report, "tail", generation->tail_s, 1, lk_format_seconds, basis);
	snprintf(basis, sizeof basis, "of an engine; room for %s of mean length",
	         lk_format_thousands(generation->batch_room, text, sizeof text));
	predict_view_put_speed(table, report, "largest batch", generation->batch_most, 0,
	                       lk_format_thousands, basis);
	snprintf(basis, sizeof basis, "%s GiB on each GPU, %s KiB a token",
	         lk_gib(generation->cache_bytes, text, sizeof text),
	         lk_fixed(generation->token_bytes / 1024, 1, other, sizeof other));
	predict_view_put_speed(table, report, "cached tokens", generation->cache_tokens, 0,
	                       lk_format_thousands, basis);
	if (generation->preempted > 0)
		predict_view_put_speed(table, report, "preempted", generation->preempted, 0,
		                       lk_format_thousands, "computed again for want of room");
	LK_TRY(write_table(report, table));
	return put_basis(report);
}

/* ---- where one step goes ---- */

static lk_status predict_view_put_breakdown(const struct report *report) {
	static const lk_column columns[] = {
		{"part", "where one step goes", false, false},
		{"exposed_s", "exposed", true, false},
		{"share", "share", true, false},
		{"hidden_s", "hidden", true, false},
	};
	const lk_prediction *prediction = report->p;
	char text[TEXT];
	if (!prediction->breakdown_count) return LK_OK;
	lk_table *table = lk_table_new("breakdown", columns, 4);
	for (int i = 0; table && i < prediction->breakdown_count; i++) {
		const lk_time_part *part = &prediction->breakdown[i];
		lk_table_row(table);
		lk_table_text(table, part->label);
		lk_table_text(table, part->exposed_s > 0
		                         ? lk_format_seconds(part->exposed_s, text, sizeof text)
		                         : "");
		lk_table_text(table,
		              part->exposed_s > 0
		                  ? lk_percent(part->exposed_s / prediction->step_time_s, text, sizeof text)
		                  : "");
		lk_table_text(
			table, part->hidden_s > 0 ? lk_format_seconds(part->hidden_s, text, sizeof text) : "");
	}
	putc('\n', report->out);
	LK_TRY(write_table(report, table));
	if (prediction->memory_count > 1 && !prediction->phases)
		fputs("mean over the pipeline stages\n", report->out);
	return LK_OK;
}

/* What the GPUs of each side do and wait, and the end of the generation. */
static lk_status put_sides(const struct report *report) {
	static const lk_column columns[] = {
		{"side", "GPUs", false, false},
		{"busy_s", "busy", true, false},
		{"idle_s", "idle", true, false},
		{"share", "idle share", true, false},
	};
	const lk_prediction *prediction = report->p;
	const lk_generation *generation = &prediction->generation;
	char text[TEXT], longest[TEXT], most[TEXT], tail[TEXT];
	double busy[2] = {0}, idle[2] = {0};
	for (int i = 0; i < prediction->phase_span_count; i++) {
		const lk_phase_span *span = &prediction->spans[i];
		(span->part < 0 ? idle : busy)[span->engines] += span->end_s - span->start_s;
	}
	lk_table *table = busy[1] > 0 ? lk_table_new("sides", columns, 4) : NULL;
	for (int side = 0; table && side < 2; side++) {
		lk_table_row(table);
		lk_table_text(table, side ? "engines" : "that train");
		lk_table_text(table, lk_format_seconds(busy[side], text, sizeof text));
		lk_table_text(table, lk_format_seconds(idle[side], text, sizeof text));
		lk_table_text(table, lk_percent(idle[side] / prediction->step_time_s, text, sizeof text));
	}
	if (busy[1] > 0) {
		putc('\n', report->out);
		LK_TRY(write_table(report, table));
	}
	if (generation->tail_s > 0) {
		char line[2 * LINE];
		snprintf(line, sizeof line,
		         "%s of the generation with less than half of the largest batch (%s of an engine); "
		         "longest response %s tokens",
		         lk_format_seconds(generation->tail_s, tail, sizeof tail),
		         lk_format_thousands(generation->batch_most, most, sizeof most),
		         lk_format_thousands(generation->longest_tokens, longest, sizeof longest));
		return put_labelled(report, "tail", line);
	}
	return LK_OK;
}

static void spread_put_cell(lk_table *table, const lk_seed_spread *row, double number) {
	char text[TEXT];
	bool share = strcmp(row->key, "straggler_share") == 0;
	lk_table_number(table, number,
	                share ? lk_percent(number, text, sizeof text)
	                      : lk_format_seconds(number, text, sizeof text));
}

lk_table *lk_spread_table(const lk_prediction *prediction) {
	char title[TEXT];
	char count[32];
	snprintf(title, sizeof title, "over %s seeds",
	         lk_format_thousands(prediction->seeds, count, sizeof count));
	const lk_column columns[] = {
		{"part", title, false, false},
		{"p50", "P50", true, false},
		{"p95", "P95", true, false},
		{"p99", "P99", true, false},
	};
	lk_table *table = lk_table_new("seeds", columns, 4);
	for (int i = 0; table && i < prediction->spread_count; i++) {
		const lk_seed_spread *row = &prediction->spread[i];
		lk_table_row(table);
		lk_table_text(table, row->label);
		spread_put_cell(table, row, row->p50);
		spread_put_cell(table, row, row->p95);
		spread_put_cell(table, row, row->p99);
	}
	return table;
}

static lk_status put_spread(const struct report *report) {
	if (!report->p->spread_count) return LK_OK;
	putc('\n', report->out);
	LK_TRY(write_table(report, lk_spread_table(report->p)));
	return report->p->noise ? put_labelled(report, "noise", report->p->noise) : LK_OK;
}

/* ---- the whole run ---- */

static lk_status put_run_phases(const struct report *report) {
	static const lk_columns columns = {"run_phases", &lk_run_phase_record, NULL, false, true};
	const lk_run_forecast *run = &report->p->run;
	if (!run->phase_count) return LK_OK;
	LK_TRY(write_table(report, lk_fields_rows(&columns, report->p, run->phases, run->phase_count)));
	putc('\n', report->out);
	return LK_OK;
}

/* Lines on checkpoints, recovery and spares. */
static lk_status put_run(const struct report *report) {
	const lk_run_forecast *run = &report->p->run;
	char every[TEXT], stall[TEXT], best[TEXT], line[4 * LINE];
	if (!run->samples) return LK_OK;
	putc('\n', report->out);
	LK_TRY(put_run_phases(report));
	LK_TRY(write_table(report, lk_run_figures_table(report->p)));
	putc('\n', report->out);
	LK_TRY(write_table(report, lk_run_times_table(report->p)));
	for (int i = 0; i < run->saved_count; i++) {
		const lk_run_saved *saved = &run->saved[i];
		int used = snprintf(line, sizeof line, "%s: every %s, a step waits %s", saved->label,
		                    lk_format_seconds(saved->interval_s, every, sizeof every),
		                    lk_format_seconds(saved->stall_s, stall, sizeof stall));
		if (run->saved_count == 1)
			snprintf(line + used, sizeof line - (size_t)used, "; the best interval is %s",
			         lk_format_seconds(run->best_interval_s, best, sizeof best));
		LK_TRY(put_labelled(report, i ? "" : "saved", line));
	}
	if (!(run->mtbf_hours > 0)) return LK_OK;
	snprintf(line, sizeof line,
	         "a stop every %.3g h; %s; %d spare %s cost least, %d are enough in 99 of 100 hours",
	         run->mtbf_hours, run->recovery, run->cheapest_spares,
	         lk_noun(run->cheapest_spares, "node", "nodes"), run->enough_spares);
	return put_labelled(report, "recovery", line);
}

/* ---- memory ---- */

static bool stage_shown(const struct report *report, int i) {
	const lk_prediction *prediction = report->p;
	if (report->verbose || prediction->memory_count <= FEW_STAGES) return true;
	return i < 2 || i == prediction->memory_count - 1 ||
	       prediction->memory[i].stage == prediction->fullest_stage;
}

/* GiB with as many places as the whole table has; nothing at all as "-". */
static const char *size_text(double bytes, int places, char *out, size_t size) {
	return bytes == 0 ? "-" : lk_grouped(bytes / 0x1p30, places, out, size);
}

static void predict_view_put_stage(lk_table *table, const struct report *report,
                                   const lk_stage_memory *memory) {
	const double sizes[] = {
		memory->weights,     memory->gradients, memory->optimizer,
		memory->activations, memory->logits,    memory->workspace,
		memory->buffers,     memory->allocated, memory->reserved - memory->allocated,
		memory->context,     memory->nccl,      memory->total};
	char text[TEXT];
	int places = report->p->peak_bytes < 10 * 0x1p30 ? 2 : 1;
	snprintf(text, sizeof text, "stage %d%s", memory->stage,
	         memory->stage == report->p->fullest_stage && report->p->memory_count > 1 ? "*" : "");
	lk_table_row(table);
	lk_table_text(table, text);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		lk_table_text(table, size_text(sizes[i], places, text, sizeof text));
}

/* The total's range: of what the allocator held in measured fine-tuning runs where that was scored,
 * else of what tensors took in Megatron-LM's own tests; the rest of the total is taken as it is. */
static void put_memory_range(const struct report *report, const lk_stage_memory *memory) {
	const char *from = "the sum on Megatron-LM's own tests";
	double least = memory->low, most = memory->high, of = memory->allocated;
	if (memory->reserved_low > 0) {
		least = memory->reserved_low, most = memory->reserved_high, of = memory->reserved;
		from = "reserved memory in measured runs";
	}
	if (!(least > 0)) return;
	double rest = memory->total - of;
	char low[TEXT], high[TEXT];
	int places = report->p->peak_bytes < 10 * 0x1p30 ? 2 : 1;
	fprintf(report->out, "80 %% range of the total: %s - %s GiB, from errors of %s\n",
	        size_text(least + rest, places, low, sizeof low),
	        size_text(most + rest, places, high, sizeof high), from);
}

static lk_status predict_view_put_memory(const struct report *report) {
	static const lk_column columns[] = {
		{"stage", "GiB", false, false},        {"weights", "weights", true, false},
		{"gradients", "grads", true, false},   {"optimizer", "optim", true, false},
		{"activations", "activ", true, false}, {"logits", "logits", true, false},
		{"workspace", "work", true, false},    {"buffers", "bufs", true, false},
		{"allocated", "= sum", true, false},   {"unused", "+ idle", true, false},
		{"context", "+ CUDA", true, false},    {"nccl", "+ NCCL", true, false},
		{"total", "= total", true, false},
	};
	const lk_prediction *prediction = report->p;
	int left_out = 0;
	if (!prediction->memory_count) return LK_OK;
	lk_table *table = lk_table_new("memory", columns, sizeof columns / sizeof *columns);
	for (int i = 0; table && i < prediction->memory_count; i++) {
		if (stage_shown(report, i)) predict_view_put_stage(table, report, &prediction->memory[i]);
		else left_out++;
	}
	putc('\n', report->out);
	LK_TRY(write_table(report, table));
	if (left_out) fprintf(report->out, "%d more stages with -v\n", left_out);
	for (int i = 0; i < prediction->memory_count; i++) {
		if (prediction->memory[i].stage != prediction->fullest_stage ||
		    !prediction->memory[i].moment[0])
			continue;
		fprintf(report->out, "%speak of stage %d: ", prediction->memory_count > 1 ? "* " : "",
		        prediction->fullest_stage);
		LK_TRY(lk_put_safe(prediction->memory[i].moment, report->out, report->err));
		putc('\n', report->out);
		put_memory_range(report, &prediction->memory[i]);
	}
	return LK_OK;
}

/* ---- a measured run ---- */

static lk_status put_measured(const struct report *report) {
	const lk_expected *expected = report->p->expected;
	char is[TEXT], was[TEXT], step[TEXT], line[6 * TEXT], mfu[3 * TEXT] = "";
	if (!(expected->step_time_s > 0)) return LK_OK;
	if (report->p->mfu > 0)
		snprintf(mfu, sizeof mfu, "MFU %s, predicted %s; ",
		         lk_percent(expected->mfu, is, sizeof is),
		         lk_percent(report->p->mfu, was, sizeof was));
	snprintf(line, sizeof line, "%sa step of %s, %.2f times the predicted one", mfu,
	         lk_format_seconds(expected->step_time_s, step, sizeof step), expected->time_ratio);
	return put_labelled(report, "measured", line);
}

/* What explains it, what would be predicted then and, of the first causes, how to find out. */
static lk_status put_cause(const struct report *report, int i) {
	const lk_suspect *suspect = &report->p->expected->suspects[i];
	char label[24], share[TEXT], step[TEXT], mfu[TEXT], gib[TEXT], text[16 * TEXT];
	snprintf(label, sizeof label, "cause %d", i + 1);
	snprintf(text, sizeof text, "%s likely (a step of %s, MFU %s, %s GiB): %.640s",
	         lk_percent(suspect->share, share, sizeof share),
	         lk_format_seconds(suspect->step_time_s, step, sizeof step),
	         lk_percent(suspect->mfu, mfu, sizeof mfu),
	         lk_gib(suspect->memory_bytes, gib, sizeof gib), suspect->what);
	LK_TRY(put_labelled(report, label, text));
	if (i >= CHECKED) return LK_OK;
	LK_TRY(put_labelled(report, "  check", suspect->check));
	if (!*suspect->option) return LK_OK;
	fprintf(report->out, "%-10s ", "  predict"); /* one line, to be copied */
	LK_TRY(lk_put_safe(suspect->option, report->out, report->err));
	putc('\n', report->out);
	return LK_OK;
}

static lk_status put_expected(const struct report *report) {
	const lk_expected *expected = report->p->expected;
	char unchanged[TEXT], other[TEXT], text[6 * TEXT];
	if (!expected) return LK_OK;
	LK_TRY(put_measured(report));
	LK_TRY(put_labelled(report, "verdict", expected->verdict));
	if (expected->scaled) LK_TRY(put_labelled(report, "scaled", expected->scaled));
	for (int i = 0; i < expected->note_count; i++)
		LK_TRY(put_labelled(report, "steps", expected->notes[i]));
	for (int i = 0; i < expected->suspect_count; i++) LK_TRY(put_cause(report, i));
	snprintf(text, sizeof text,
	         "%s something else (data, synchronisation, the host); %s nothing differs, and the "
	         "prediction errs",
	         lk_percent(expected->other_share, other, sizeof other),
	         lk_percent(expected->unchanged_share, unchanged, sizeof unchanged));
	if (!expected->as_expected) LK_TRY(put_labelled(report, "otherwise", text));
	putc('\n', report->out);
	return LK_OK;
}

/* ---- the end ---- */

static lk_status predict_view_put_list(const struct report *report, const char *title,
                                       const char *const *texts, int count) {
	if (!count) return LK_OK;
	fprintf(report->out, "%s\n", title);
	for (int i = 0; i < count; i++) {
		fputs("  - ", report->out);
		LK_TRY(lk_put_wrapped(texts[i], 4, 4, report->out, report->err));
		putc('\n', report->out);
	}
	return LK_OK;
}

static lk_status put_assumed(const struct report *report) {
	const lk_prediction *prediction = report->p;
	if (report->verbose) {
		LK_TRY(predict_view_put_list(report, "understood", prediction->understood,
		                             prediction->understood_count));
		LK_TRY(predict_view_put_list(report, "assumptions", prediction->assumptions,
		                             prediction->assumption_count));
		return predict_view_put_list(report, "ignored flags", prediction->ignored,
		                             prediction->ignored_count);
	}
	if (!prediction->assumption_count && !prediction->ignored_count) return LK_OK;
	fprintf(report->out, "%-10s %d   ignored flags %d   (-v lists them)\n", "assumed",
	        prediction->assumption_count, prediction->ignored_count);
	return LK_OK;
}

/* Flags that somebody may have counted on, at the top: the others are for -v. */
static lk_status put_notable(const struct report *report) {
	const lk_prediction *prediction = report->p;
	int shown = prediction->notable_count < FEW_FLAGS ? prediction->notable_count : FEW_FLAGS;
	int taken = prediction->taken_count < FEW_FLAGS ? prediction->taken_count : FEW_FLAGS;
	if (report->verbose) return LK_OK;
	LK_TRY(predict_view_put_list(report, "assumed, as nothing states it", prediction->assumptions,
	                             taken));
	if (taken < prediction->taken_count)
		fprintf(report->out, "  - and %d more (-v)\n", prediction->taken_count - taken);
	if (shown == 0) return LK_OK;
	LK_TRY(predict_view_put_list(report, "ignored flags", prediction->ignored, shown));
	if (shown < prediction->notable_count)
		fprintf(report->out, "  - and %d more (-v)\n", prediction->notable_count - shown);
	return LK_OK;
}

static void put_simulated(const struct report *report) {
	const lk_prediction *prediction = report->p;
	char operations[TEXT], ranks[TEXT], all[TEXT], time[TEXT];
	fprintf(report->out, "\n%-10s %s %s on %s of %s %s in %s", "simulated",
	        lk_format_thousands((double)prediction->operations, operations, sizeof operations),
	        lk_noun((double)prediction->operations, "operation", "operations"),
	        lk_format_thousands(prediction->ranks_simulated, ranks, sizeof ranks),
	        lk_format_thousands(prediction->ranks, all, sizeof all),
	        lk_noun(prediction->ranks, "rank", "ranks"),
	        lk_format_seconds(prediction->simulation_s, time, sizeof time));
	if (prediction->layer_operations)
		fprintf(report->out, "; a layer has %u, forward and backward",
		        (unsigned)prediction->layer_operations);
	putc('\n', report->out);
}

static lk_status predict_view_put_asked(const struct report *report) {
	LK_TRY(put_labelled(report, "model", report->p->model));
	LK_TRY(put_labelled(report, "cluster", report->p->cluster));
	LK_TRY(put_labelled(report, "layout", report->p->layout));
	return put_labelled(report, "searched", report->p->searched);
}

lk_status lk_write_report(const lk_sweep_row *row, bool verbose, bool colour, FILE *out,
                          lk_error *err) {
	struct report r = {row->prediction, row->request, verbose, colour, out, err};
	if (!r.p) {
		char text[1024];
		fprintf(out, "REFUSED  %s\n",
		        row->refusal ? lk_error_text(row->refusal, text, sizeof text) : "");
		return LK_OK;
	}
	LK_TRY(put_expected(&r));
	predict_view_put_verdict(&r);
	LK_TRY(predict_view_put_fixes(&r));
	LK_TRY(predict_view_put_asked(&r));
	LK_TRY(predict_view_put_list(&r, "found in the text", r.p->found, r.p->found_count));
	LK_TRY(put_notable(&r));
	putc('\n', out);
	bool generates = r.p->generation.sequences && !r.p->phases;
	if (r.p->service.requests) LK_TRY(lk_put_service(r.p, colour, out, err));
	else LK_TRY(generates ? put_generation(&r) : put_speeds(&r));
	LK_TRY(predict_view_put_breakdown(&r));
	if (r.p->phases) LK_TRY(put_sides(&r));
	LK_TRY(put_spread(&r));
	LK_TRY(put_run(&r));
	LK_TRY(predict_view_put_memory(&r));
	put_simulated(&r);
	LK_TRY(put_assumed(&r));
	LK_TRY(put_labelled(&r, "warning", r.p->warning));
	return put_reproduce(&r);
}
