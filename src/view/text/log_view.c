/* log_view.c: what the log of a run says: a page of text, JSON, or its steps as a table. */
#include "lockstep/run_log.h"

#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "view/table/fields.h"
#include "view/text/views.h"

#define LOG(member)  LK_AT(lk_run_log, member)
#define STEP(member) LK_AT(lk_log_step, member)
#define PART(member) LK_AT(lk_log_part, member)

static const lk_answer_field step_fields[] = {
	{"step", "step", STEP(number)},
	{"seconds", "time", STEP(seconds), .shown = lk_format_seconds},
	{"first", NULL, STEP(first)},
	{"slow", NULL, STEP(slow)},
};
static const lk_answer_record step_record = {.name = "LogStep",
                                             LK_RECORD(lk_log_step, step_fields)};

static const lk_answer_field part_fields[] = {
	{"name", "part", PART(name)},
	{"seconds", "time", PART(seconds), .shown = lk_format_seconds},
	{"share", "of the step", PART(share), .known = LK_MAYBE, .shown = lk_percent},
};
static const lk_answer_record part_record = {.name = "LogPart",
                                             LK_RECORD(lk_log_part, part_fields)};

#define STRETCH(member) LK_AT(lk_log_stretch, member)
static const lk_answer_field stretch_fields[] = {
	{"first", "from step", STRETCH(first)},
	{"last", "to step", STRETCH(last)},
	{"steps", NULL, STRETCH(steps)},
	{"seconds", "median", STRETCH(seconds), .shown = lk_format_seconds},
	{"slower", "slower by", STRETCH(slower), .shown = lk_percent},
	{"cost_s", "costs", STRETCH(cost_s), .shown = lk_format_seconds},
};
static const lk_answer_record stretch_record = {
	.name = "LogStretch",
	.what = "Steps of one speed: slower is a share of the fastest stretch's median.",
	LK_RECORD(lk_log_stretch, stretch_fields)};

static const lk_answer_field log_fields[] = {
	{"source", NULL, LOG(source)},
	{"step_s", NULL, LOG(step_s), .known = LK_MAYBE},
	{"step_low_s", NULL, LOG(step_low_s), .known = LK_MAYBE},
	{"step_high_s", NULL, LOG(step_high_s), .known = LK_MAYBE},
	{"first_s", NULL, LOG(first_s), .known = LK_MAYBE},
	{"drift", NULL, LOG(drift), .known = LK_MAYBE},
	{"step_count", NULL, LOG(step_count)},
	{"first_count", NULL, LOG(first_count)},
	{"slow_count", NULL, LOG(slow_count)},
	{"slow_share", NULL, LOG(slow_share), .known = LK_MAYBE},
	{"stretches", NULL, LK_MANY(lk_run_log, stretches, stretch_count, stretch_record)},
	{"restarts", NULL, LOG(restarts), .known = LK_UNLESS_ZERO},
	{"repeated_steps", NULL, LOG(repeated_steps), .known = LK_UNLESS_ZERO},
	{"restart_s", NULL, LOG(restart_s), .known = LK_UNLESS_ZERO},
	{"slow_every", NULL, LOG(slow_every), .known = LK_UNLESS_ZERO},
	{"tokens_per_s", NULL, LOG(tokens_per_s), .known = LK_MAYBE},
	{"samples_per_s", NULL, LOG(samples_per_s), .known = LK_MAYBE},
	{"tokens_per_s_gpu", NULL, LOG(tokens_per_s_gpu), .known = LK_MAYBE},
	{"tflops_gpu", NULL, LOG(tflops_gpu), .known = LK_MAYBE},
	{"mfu", NULL, LOG(mfu), .known = LK_MAYBE},
	{"memory_bytes", NULL, LOG(memory_bytes), .known = LK_MAYBE},
	{"memory_kind", NULL, LOG(memory_kind), .known = LK_UNLESS_ZERO},
	{"gpus", NULL, LOG(gpus), .known = LK_UNLESS_ZERO},
	{"global_batch", NULL, LOG(global_batch), .known = LK_UNLESS_ZERO},
	{"seq_len", NULL, LOG(seq_len), .known = LK_UNLESS_ZERO},
	{"gpu", NULL, LOG(gpu), .known = LK_MAYBE},
	{"gpu_memory_bytes", NULL, LOG(gpu_memory_bytes), .known = LK_MAYBE},
	{"power_w", NULL, LOG(power_w), .known = LK_MAYBE},
	{"power_limit_w", NULL, LOG(power_limit_w), .known = LK_MAYBE},
	{"clock_hz", NULL, LOG(clock_hz), .known = LK_MAYBE},
	{"utilisation", NULL, LOG(utilisation), .known = LK_MAYBE},
	{"throttled", NULL, LOG(throttled)},
	{"parts", NULL, LK_MANY(lk_run_log, parts, part_count, part_record)},
	{"findings", NULL, LK_LIST(lk_run_log, findings, finding_count)},
	{"steps", NULL, LK_MANY(lk_run_log, steps, step_count, step_record)},
	{"reproduce", NULL, LOG(reproduce)},
};
static const lk_answer_record log_record = {LK_RECORD(lk_run_log, log_fields)};
const lk_document lk_run_log_document = {"log", "`explain -o json` of a log", &log_record,
                                         offsetof(lk_run_log, failed_check), NULL};

/* ---- text ---- */

static void put_log_steps(const lk_run_log *log, FILE *out) {
	char step[32], low[32], high[32], first[32];
	if (isnan(log->step_s)) return;
	fprintf(out, "step         %s", lk_format_seconds(log->step_s, step, sizeof step));
	if (log->step_count > 1)
		fprintf(out, " median; 5 to 95 %%: %s to %s; the first one: %s",
		        lk_format_seconds_like(log->step_low_s, log->step_s, low, sizeof low),
		        lk_format_seconds_like(log->step_high_s, log->step_s, high, sizeof high),
		        lk_format_seconds(log->first_s, first, sizeof first));
	fputc('\n', out);
	if (!isnan(log->drift))
		fprintf(out, "drift        %+.1f %% from the first third of the steps to the last\n",
		        100 * log->drift);
}

/* The slow steps, the first ones by number. */
static lk_status put_slow_steps(const lk_run_log *log, FILE *out, lk_error *err) {
	enum { SHOWN = 5, LABEL = 13 };
	char line[400], time[32];
	int shown = 0;
	if (log->slow_count == 0) return LK_OK;
	lk_text text = lk_text_begin(line, sizeof line);
	lk_text_add(&text, "%d of %d took more than 1.5 times the median, %.1f %% of the time:",
	            log->slow_count, log->step_count - log->first_count, 100 * log->slow_share);
	for (int i = 0; i < log->step_count && shown < SHOWN; i++)
		if (log->steps[i].slow)
			lk_text_add(&text, "%s %lld (%s)", shown++ ? "," : "", (long long)log->steps[i].number,
			            lk_format_seconds(log->steps[i].seconds, time, sizeof time));
	if (log->slow_count > SHOWN) lk_text_add(&text, ", ...");
	fputs("slow steps   ", out);
	LK_TRY(lk_put_wrapped(line, LABEL, LABEL, out, err));
	fputc('\n', out);
	return LK_OK;
}

static void put_log_speed(const lk_run_log *log, FILE *out) {
	const struct {
		double number;
		const char *unit;
	} speeds[] = {{log->tokens_per_s, "tokens/s"},
	              {log->tokens_per_s_gpu, "tokens/s a GPU"},
	              {log->samples_per_s, "samples/s"},
	              {log->tflops_gpu, "TFLOP/s a GPU"}};
	const char *before = "throughput   ";
	char number[32];
	for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
		if (isnan(speeds[i].number)) continue;
		fprintf(out, "%s%s %s", before,
		        lk_grouped(speeds[i].number, speeds[i].number < 100 ? 1 : 0, number, sizeof number),
		        speeds[i].unit);
		before = ", ";
	}
	if (*before == ',') fputc('\n', out);
	if (!isnan(log->mfu))
		fprintf(out, "MFU          %s, as the log states it\n",
		        lk_percent(log->mfu, number, sizeof number));
}

static void put_log_memory(const lk_run_log *log, FILE *out) {
	char used[32], has[32];
	if (isnan(log->memory_bytes)) return;
	fprintf(out, "memory       %s%s%s", lk_format_bytes(log->memory_bytes, used, sizeof used),
	        *log->memory_kind ? " " : "", log->memory_kind);
	if (!isnan(log->gpu_memory_bytes))
		fprintf(out, " of %s", lk_format_bytes(log->gpu_memory_bytes, has, sizeof has));
	fputs(", on the fullest GPU\n", out);
}

static lk_status put_log_devices(const lk_run_log *log, FILE *out, lk_error *err) {
	if (!log->gpu && isnan(log->power_w) && isnan(log->utilisation)) return LK_OK;
	fputs("GPUs         ", out);
	if (log->gpus > 0) fprintf(out, "%lld x ", (long long)log->gpus);
	LK_TRY(lk_put_safe(log->gpu ? log->gpu : "GPU", out, err));
	if (!isnan(log->power_w)) fprintf(out, ", %.0f W", log->power_w);
	if (!isnan(log->power_limit_w)) fprintf(out, " of %.0f W", log->power_limit_w);
	if (!isnan(log->clock_hz)) fprintf(out, ", %.0f MHz", log->clock_hz * 1e-6);
	if (!isnan(log->utilisation))
		fprintf(out, ", %.0f %% of the time busy", 100 * log->utilisation);
	fputc('\n', out);
	return LK_OK;
}

static void put_log_job(const lk_run_log *log, FILE *out) {
	const struct {
		int64_t number;
		const char *noun;
	} counts[] = {{log->gpus, "GPUs"},
	              {log->global_batch, "samples a step"},
	              {log->seq_len, "tokens a sample"}};
	const char *before = "job          ";
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		if (counts[i].number <= 0) continue;
		fprintf(out, "%s%lld %s", before, (long long)counts[i].number, counts[i].noun);
		before = ", ";
	}
	if (*before == ',') fputc('\n', out);
}

static lk_status log_view_write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_run_log *log = what;
	LK_TRY(lk_put_safe(log->source, out, err));
	fputs("\n\n", out);
	put_log_steps(log, out);
	LK_TRY(put_slow_steps(log, out, err));
	put_log_speed(log, out);
	put_log_memory(log, out);
	LK_TRY(put_log_devices(log, out, err));
	put_log_job(log, out);
	if (log->part_count > 0) {
		static const lk_columns columns = {"parts", &part_record, .people = true};
		fputc('\n', out);
		LK_TRY(lk_put_table(lk_fields_rows(&columns, log, log->parts, log->part_count), colour, out,
		                    err));
	}
	if (log->stretch_count > 1) {
		static const lk_columns columns = {"stretches", &stretch_record, .people = true};
		fputc('\n', out);
		LK_TRY(lk_put_table(lk_fields_rows(&columns, log, log->stretches, log->stretch_count),
		                    colour, out, err));
	}
	for (int i = 0; i < log->finding_count; i++) {
		fprintf(out, "\n%d. ", i + 1);
		LK_TRY(lk_put_wrapped(log->findings[i], 3, 3, out, err));
	}
	if (log->finding_count > 0) fputc('\n', out);
	fputs("\nWhat the run should take is predicted of its launch line: lockstep predict -- LINE\n",
	      out);
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "output", "cannot write") : LK_OK;
}

lk_status lk_run_log_print(const lk_run_log *log, int format, bool colour, const char *path,
                           FILE *out, lk_error *err) {
	static const char *const keys[] = {"step", "seconds", "first", "slow", NULL};
	static const lk_columns columns = {"steps", &step_record, .keys = keys};
	lk_writing writing = {format, false, colour, path, out};
	LK_TRY(lk_writing_check(&writing, err));
	if (format == LK_FORMAT_TEXT) return lk_write_through(&writing, log_view_write_text, log, err);
	if (format == LK_FORMAT_JSON)
		return lk_write_document(&writing, &lk_run_log_document, log, err);
	return lk_write_table(&writing,
	                      lk_table_mark(lk_fields_rows(&columns, log, log->steps, log->step_count),
	                                    log->failed_check),
	                      err);
}
