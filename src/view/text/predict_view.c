/* predict_view.c: the report of one prediction, for people: the verdict first, then what was asked, how fast it is,
 * where the time goes, where the memory goes, what was assumed, and the command that asks again. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"
#include "view/text/views.h"

enum { TEXT = 64, LINE = 160, FEW_STAGES = 4 };

/* The report while it is written. */
struct report {
	const lk_prediction *p;
	const lk_predict_request *request; /* may be NULL */
	bool verbose, colour;
	FILE *out;
	lk_error *err;
};

static lk_status write_table(const struct report *r, lk_table *table) {
	lk_status status = table ? lk_table_write(table, LK_FORMAT_TEXT, r->colour, r->out, r->err) : lk_oom(r->err);
	lk_table_free(table);
	return status;
}

/* "model     llama ..." */
static lk_status put_labelled(const struct report *r, const char *label, const char *text) {
	if (!text || !*text) return LK_OK;
	fprintf(r->out, "%-10s ", label);
	LK_TRY(lk_put_safe(text, r->out, r->err));
	putc('\n', r->out);
	return LK_OK;
}

/* ---- the verdict ---- */

static void put_verdict(const struct report *r) {
	const lk_prediction *p = r->p;
	char peak[TEXT], usable[TEXT], room[TEXT];
	double left = p->usable_bytes - p->peak_bytes;
	const char *paint = !r->colour ? "" : p->fits ? "\x1b[1;32m" : "\x1b[1;31m", *plain = r->colour ? "\x1b[0m" : "";
	lk_gib(fabs(left), room, sizeof room);
	fprintf(r->out, "%s%s%s  %s of %s GiB on the fullest rank (stage %d)   ", paint, p->fits ? "FITS" : "DOES NOT FIT",
			plain, lk_gib(p->peak_bytes, peak, sizeof peak), lk_gib(p->usable_bytes, usable, sizeof usable),
			p->fullest_stage);
	if (p->fits) fprintf(r->out, "headroom %s GiB\n", room);
	else fprintf(r->out, "%s GiB too much\n", room);
}

/* "+3 %" for 1.03 */
static const char *change_of(double ratio, char *out, size_t size) {
	char digits[TEXT];
	snprintf(out, size, "%s%s %%", ratio >= 0.9995 ? "+" : "", lk_fixed((ratio - 1) * 100, 1, digits, sizeof digits));
	return out;
}

static lk_status put_fixes(const struct report *r) {
	static const lk_column columns[] = {
		{"change", "change that would fit", false, false}, {"peak_bytes", "GiB", true, false},
		{"step_time_s", "step", true, false}, {"time_ratio", "time", true, false},
	};
	const lk_prediction *p = r->p;
	char text[TEXT];
	if (p->fits) return LK_OK;
	if (!p->fix_count) {
		if (r->request && !r->request->no_fixes) fputs("no single change was found that would make it fit\n", r->out);
		return LK_OK;
	}
	lk_table *t = lk_table_new("fixes", columns, 4);
	for (int i = 0; t && i < p->fix_count; i++) {
		const lk_fix *fix = &p->fixes[i];
		lk_table_row(t);
		lk_table_text(t, fix->change);
		lk_table_number(t, fix->peak_bytes, lk_gib(fix->peak_bytes, text, sizeof text));
		lk_table_number(t, fix->step_time_s, lk_format_seconds(fix->step_time_s, text, sizeof text));
		lk_table_number(t, fix->time_ratio, change_of(fix->time_ratio, text, sizeof text));
	}
	putc('\n', r->out);
	LK_TRY(write_table(r, t));
	putc('\n', r->out);
	return LK_OK;
}

/* ---- speed ---- */

typedef char *shown_as(double number, char *out, size_t size);

static char *tera(double flops, char *out, size_t size) { return lk_fixed(flops / 1e12, 1, out, size); }
static char *plain(double number, char *out, size_t size) {
	return lk_fixed(number, fabs(number) < 100 ? 2 : 0, out, size);
}

/* A line of the table of speeds. Where `power` is not 0 the value has a range: it goes with that power of the step
 * time. */
static void put_speed(lk_table *t, const struct report *r, const char *name, double value, int power, shown_as *shown,
					  const char *basis) {
	const lk_prediction *p = r->p;
	char text[TEXT], low[TEXT], high[TEXT], range[LINE] = "";
	lk_table_row(t);
	lk_table_text(t, name);
	lk_table_text(t, shown(value, text, sizeof text));
	if (power && p->step_time_s > 0 && p->step_time_low_s > 0 && p->step_time_high_s > 0) {
		double a = p->step_time_low_s / p->step_time_s, b = p->step_time_high_s / p->step_time_s;
		shown(value * (power > 0 ? a : 1 / b), low, sizeof low);
		shown(value * (power > 0 ? b : 1 / a), high, sizeof high);
		snprintf(range, sizeof range, "%s - %s", low, high);
	}
	lk_table_text(t, range);
	lk_table_text(t, basis ? basis : "");
}

static void put_training(lk_table *t, const struct report *r) {
	const lk_prediction *p = r->p;
	char text[TEXT], basis[LINE] = "";
	if (r->request && r->request->tokens > 0)
		snprintf(basis, sizeof basis, "for %s tokens", lk_format_count(r->request->tokens, text, sizeof text));
	if (p->days > 0) put_speed(t, r, "days of training", p->days, 1, plain, basis);
	if (p->gpu_hours > 0) put_speed(t, r, "GPU-hours", p->gpu_hours, 1, lk_format_thousands, "");
	if (p->goodput > 0)
		put_speed(t, r, "goodput", p->goodput, 0, lk_percent, "share of time without failures, restarts, checkpoints");
}

static lk_status put_speeds(const struct report *r) {
	static const lk_column columns[] = {
		{"quantity", "speed", false, false}, {"value", "value", true, false}, {"range", "80 % range", true, false},
		{"basis", "basis", false, false},
	};
	const lk_prediction *p = r->p;
	char of[LINE];
	lk_table *t = lk_table_new("speed", columns, 4);
	if (!t) return lk_oom(r->err);
	snprintf(of, sizeof of, "of %s", p->peak_label ? p->peak_label : "an unknown peak");
	put_speed(t, r, "step time", p->step_time_s, 1, lk_format_seconds, p->basis);
	if (p->tokens_per_s_per_gpu > 0)
		put_speed(t, r, "tokens/s/GPU", p->tokens_per_s_per_gpu, -1, lk_format_thousands, "");
	else put_speed(t, r, "samples/s", p->samples_per_s, -1, plain, "all GPUs together");
	put_speed(t, r, "model TFLOP/s/GPU", p->model_flops_per_s_per_gpu, -1, tera,
			  "forward and backward, no recomputation");
	if (p->peak_flops > 0) {
		put_speed(t, r, "MFU", p->mfu, -1, lk_percent, of);
		put_speed(t, r, "HFU", p->hfu, -1, lk_percent, "of the same peak, all operations that run");
	}
	put_training(t, r);
	return write_table(r, t);
}

/* ---- where one step goes ---- */

static lk_status put_breakdown(const struct report *r) {
	static const lk_column columns[] = {
		{"part", "where one step goes", false, false},
		{"exposed_s", "exposed", true, false},
		{"share", "share", true, false},
		{"hidden_s", "hidden", true, false},
	};
	const lk_prediction *p = r->p;
	char text[TEXT];
	if (!p->breakdown_count) return LK_OK;
	lk_table *t = lk_table_new("breakdown", columns, 4);
	for (int i = 0; t && i < p->breakdown_count; i++) {
		const lk_time_part *part = &p->breakdown[i];
		lk_table_row(t);
		lk_table_text(t, part->label);
		lk_table_text(t, part->exposed_s > 0 ? lk_format_seconds(part->exposed_s, text, sizeof text) : "");
		lk_table_text(t, part->exposed_s > 0 ? lk_percent(part->exposed_s / p->step_time_s, text, sizeof text) : "");
		lk_table_text(t, part->hidden_s > 0 ? lk_format_seconds(part->hidden_s, text, sizeof text) : "");
	}
	putc('\n', r->out);
	LK_TRY(write_table(r, t));
	if (p->memory_count > 1) fputs("mean over the pipeline stages\n", r->out);
	return LK_OK;
}

/* ---- memory ---- */

static bool stage_shown(const struct report *r, int i) {
	const lk_prediction *p = r->p;
	if (r->verbose || p->memory_count <= FEW_STAGES) return true;
	return i < 2 || i == p->memory_count - 1 || p->memory[i].stage == p->fullest_stage;
}

/* GiB with as many places as the whole table has; nothing at all as "-". */
static const char *size_text(double bytes, int places, char *out, size_t size) {
	return bytes == 0 ? "-" : lk_fixed(bytes / 0x1p30, places, out, size);
}

static void put_stage(lk_table *t, const struct report *r, const lk_stage_memory *m) {
	const double sizes[] = {m->weights, m->gradients, m->optimizer, m->activations, m->logits, m->workspace, m->buffers,
		m->allocated, m->reserved - m->allocated, m->context, m->nccl, m->total};
	char text[TEXT];
	int places = r->p->peak_bytes < 10 * 0x1p30 ? 2 : 1;
	snprintf(text, sizeof text, "stage %d%s", m->stage,
			 m->stage == r->p->fullest_stage && r->p->memory_count > 1 ? " (fullest)" : "");
	lk_table_row(t);
	lk_table_text(t, text);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		lk_table_text(t, size_text(sizes[i], places, text, sizeof text));
}

static void put_memory_range(const struct report *r, const lk_stage_memory *m) {
	if (!(m->low > 0)) return;
	char low[TEXT], high[TEXT];
	int places = r->p->peak_bytes < 10 * 0x1p30 ? 2 : 1;
	fprintf(r->out, "its tensors: %s - %s GiB in 8 of 10 cases, as measured in Megatron-LM's tests\n",
	        size_text(m->low, places, low, sizeof low), size_text(m->high, places, high, sizeof high));
}

static lk_status put_memory(const struct report *r) {
	static const lk_column columns[] = {
		{"stage", "memory, GiB", false, false},  {"weights", "weights", true, false},
		{"gradients", "grads", true, false},     {"optimizer", "optim.", true, false},
		{"activations", "activ.", true, false},  {"logits", "logits", true, false},
		{"workspace", "worksp.", true, false},   {"buffers", "buffers", true, false},
		{"allocated", "= tensors", true, false}, {"unused", "+ unused", true, false},
		{"context", "+ context", true, false},   {"nccl", "+ NCCL", true, false},
		{"total", "= total", true, false},
	};
	const lk_prediction *p = r->p;
	int left_out = 0;
	if (!p->memory_count) return LK_OK;
	lk_table *t = lk_table_new("memory", columns, sizeof columns / sizeof *columns);
	for (int i = 0; t && i < p->memory_count; i++) {
		if (stage_shown(r, i)) put_stage(t, r, &p->memory[i]);
		else left_out++;
	}
	putc('\n', r->out);
	LK_TRY(write_table(r, t));
	if (left_out) fprintf(r->out, "%d more stages with -v\n", left_out);
	for (int i = 0; i < p->memory_count; i++) {
		if (p->memory[i].stage != p->fullest_stage || !p->memory[i].moment[0]) continue;
		fprintf(r->out, "fullest moment of stage %d: ", p->fullest_stage);
		LK_TRY(lk_put_safe(p->memory[i].moment, r->out, r->err));
		putc('\n', r->out);
		put_memory_range(r, &p->memory[i]);
	}
	return LK_OK;
}

/* ---- the end ---- */

static lk_status put_list(const struct report *r, const char *title, const char *const *texts, int count) {
	if (!count) return LK_OK;
	fprintf(r->out, "%s\n", title);
	for (int i = 0; i < count; i++) {
		fputs("  - ", r->out);
		LK_TRY(lk_put_safe(texts[i], r->out, r->err));
		putc('\n', r->out);
	}
	return LK_OK;
}

static lk_status put_assumed(const struct report *r) {
	const lk_prediction *p = r->p;
	if (r->verbose) {
		LK_TRY(put_list(r, "assumptions", p->assumptions, p->assumption_count));
		return put_list(r, "ignored flags", p->ignored, p->ignored_count);
	}
	if (!p->assumption_count && !p->ignored_count) return LK_OK;
	fprintf(r->out, "%-10s %d   ignored flags %d   (-v lists them)\n", "assumed", p->assumption_count,
			p->ignored_count);
	return LK_OK;
}

static void put_simulated(const struct report *r) {
	const lk_prediction *p = r->p;
	char operations[TEXT], ranks[TEXT], all[TEXT], time[TEXT];
	fprintf(r->out, "\n%-10s %s operations on %s of %s ranks in %s", "simulated",
		lk_format_thousands((double)p->operations, operations, sizeof operations),
		lk_format_thousands(p->ranks_simulated, ranks, sizeof ranks), lk_format_thousands(p->ranks, all, sizeof all),
		lk_format_seconds(p->simulation_s, time, sizeof time));
	if (p->layer_operations) fprintf(r->out, "; a layer has %u, forward and backward", (unsigned)p->layer_operations);
	putc('\n', r->out);
}

static lk_status put_asked(const struct report *r) {
	LK_TRY(put_labelled(r, "model", r->p->model));
	LK_TRY(put_labelled(r, "cluster", r->p->cluster));
	return put_labelled(r, "layout", r->p->layout);
}

lk_status lk_write_report(const lk_sweep_row *row, bool verbose, bool colour, FILE *out, lk_error *err) {
	struct report r = {row->prediction, row->request, verbose, colour, out, err};
	if (!r.p) {
		char text[1024];
		fprintf(out, "REFUSED  %s\n", row->refusal ? lk_error_text(row->refusal, text, sizeof text) : "");
		return LK_OK;
	}
	put_verdict(&r);
	LK_TRY(put_fixes(&r));
	LK_TRY(put_asked(&r));
	putc('\n', out);
	LK_TRY(put_speeds(&r));
	LK_TRY(put_breakdown(&r));
	LK_TRY(put_memory(&r));
	put_simulated(&r);
	LK_TRY(put_assumed(&r));
	LK_TRY(put_labelled(&r, "warning", r.p->warning));
	return put_labelled(&r, "reproduce", r.p->reproduce);
}
