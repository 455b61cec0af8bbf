/* predict_json.c: predictions as JSON; the keys are documented in lockstep/view.h. */
#include <string.h>

#include "io/json.h"
#include "base/text.h"
#include "lockstep/catalogue.h"
#include "view/text/views.h"

/* 0 stands for "not asked" in some fields. */
static void put_known(lk_json_writer *w, const char *key, double number) {
	if (number != 0) lk_json_put_number(w, key, number);
	else lk_json_put_null(w, key);
}

static void put_verdict(lk_json_writer *w, const lk_prediction *p) {
	lk_json_put_bool(w, "fits", p->fits);
	lk_json_put_number(w, "peak_bytes", p->peak_bytes);
	lk_json_put_number(w, "usable_bytes", p->usable_bytes);
	lk_json_put_integer(w, "fullest_stage", p->fullest_stage);
}

static void put_speed(lk_json_writer *w, const lk_prediction *p) {
	lk_json_put_number(w, "step_time_s", p->step_time_s);
	lk_json_put_number(w, "step_time_low_s", p->step_time_low_s);
	lk_json_put_number(w, "step_time_high_s", p->step_time_high_s);
	lk_json_put_text(w, "basis", p->basis);
	put_known(w, "tokens_per_s_per_gpu", p->tokens_per_s_per_gpu);
	lk_json_put_number(w, "samples_per_s", p->samples_per_s);
	lk_json_put_number(w, "model_tflops_per_gpu", p->model_flops_per_s_per_gpu / 1e12);
	put_known(w, "mfu", p->mfu);
	put_known(w, "hfu", p->hfu);
	put_known(w, "peak_flops", p->peak_flops);
	lk_json_put_text(w, "peak", p->peak_label);
	put_known(w, "days", p->days);
	put_known(w, "gpu_hours", p->gpu_hours);
	put_known(w, "goodput", p->goodput);
}

static void put_breakdown(lk_json_writer *w, const lk_prediction *p) {
	lk_json_object(w, "breakdown");
	for (int i = 0; i < p->breakdown_count; i++) {
		const lk_time_part *part = &p->breakdown[i];
		lk_json_object(w, part->key);
		lk_json_put_text(w, "label", part->label);
		lk_json_put_number(w, "exposed_s", part->exposed_s);
		lk_json_put_number(w, "hidden_s", part->hidden_s);
		lk_json_object_end(w);
	}
	lk_json_object_end(w);
}

static void put_stage(lk_json_writer *w, const lk_stage_memory *m) {
	lk_json_object(w, NULL);
	lk_json_put_integer(w, "stage", m->stage);
	lk_json_put_number(w, "weights_bytes", m->weights);
	lk_json_put_number(w, "gradients_bytes", m->gradients);
	lk_json_put_number(w, "optimizer_bytes", m->optimizer);
	lk_json_put_number(w, "activations_bytes", m->activations);
	lk_json_put_number(w, "logits_bytes", m->logits);
	lk_json_put_number(w, "workspace_bytes", m->workspace);
	lk_json_put_number(w, "buffers_bytes", m->buffers);
	lk_json_put_number(w, "allocated_bytes", m->allocated);
	lk_json_put_number(w, "allocated_low_bytes", m->low);
	lk_json_put_number(w, "allocated_high_bytes", m->high);
	lk_json_put_number(w, "reserved_bytes", m->reserved);
	lk_json_put_number(w, "context_bytes", m->context);
	lk_json_put_number(w, "nccl_bytes", m->nccl);
	lk_json_put_number(w, "total_bytes", m->total);
	lk_json_put_text(w, "moment", m->moment);
	lk_json_object_end(w);
}

static void put_layout(lk_json_writer *w, const lk_prediction *p) {
	lk_json_object(w, "layout");
	lk_json_put_text(w, "text", p->layout);
	const struct { const char *key; int number; } numbers[] = {
		{"gpus", p->gpus}, {"tp", p->tp}, {"pp", p->pp}, {"vp", p->vp}, {"cp", p->cp}, {"ep", p->ep}, {"dp", p->dp},
		{"mbs", p->mbs}, {"gbs", p->gbs}, {"seq", p->seq}, {"microbatches", p->microbatches},
	};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		lk_json_put_integer(w, numbers[i].key, numbers[i].number);
	lk_json_put_text(w, "recompute", p->recompute);
	lk_json_put_text(w, "dtype", p->dtype);
	lk_json_put_text(w, "schedule", p->schedule);
	lk_json_object_end(w);
}

static void put_texts(lk_json_writer *w, const char *key, const char *const *texts, int count) {
	lk_json_array(w, key);
	for (int i = 0; i < count; i++) lk_json_put_text(w, NULL, texts[i]);
	lk_json_array_end(w);
}

static void put_fixes(lk_json_writer *w, const lk_prediction *p) {
	lk_json_array(w, "fixes");
	for (int i = 0; i < p->fix_count; i++) {
		lk_json_object(w, NULL);
		lk_json_put_text(w, "change", p->fixes[i].change);
		lk_json_put_number(w, "peak_bytes", p->fixes[i].peak_bytes);
		lk_json_put_number(w, "step_time_s", p->fixes[i].step_time_s);
		lk_json_put_number(w, "time_ratio", p->fixes[i].time_ratio);
		lk_json_object_end(w);
	}
	lk_json_array_end(w);
}

static void put_simulation(lk_json_writer *w, const lk_prediction *p) {
	lk_json_put_integer(w, "operations", (long long)p->operations);
	lk_json_put_integer(w, "layer_operations", p->layer_operations);
	lk_json_put_integer(w, "ranks_simulated", p->ranks_simulated);
	lk_json_put_integer(w, "ranks", p->ranks);
	lk_json_put_number(w, "simulation_s", p->simulation_s);
}

static void put_prediction(lk_json_writer *w, const lk_prediction *p) {
	put_verdict(w, p);
	put_speed(w, p);
	put_breakdown(w, p);
	lk_json_array(w, "memory");
	for (int i = 0; i < p->memory_count; i++) put_stage(w, &p->memory[i]);
	lk_json_array_end(w);
	put_layout(w, p);
	put_texts(w, "assumptions", p->assumptions, p->assumption_count);
	put_texts(w, "ignored", p->ignored, p->ignored_count);
	put_fixes(w, p);
	put_simulation(w, p);
	lk_json_put_text(w, "warning", p->warning);
	lk_json_put_text(w, "reproduce", p->reproduce);
	lk_json_put_text(w, "model", p->model);
	lk_json_put_text(w, "cluster", p->cluster);
}

/* What tells this object of an array from the others. */
static void put_asked(lk_json_writer *w, const lk_sweep *sweep, const lk_predict_request *request) {
	char text[512];
	lk_json_object(w, "asked");
	for (int i = 0; i < sweep->varying_count; i++) {
		const lk_option *o = sweep->varying[i];
		lk_option_text(o, request, text, sizeof text);
		const char *end;
		double number = lk_read_real(text, &end);
		if (!*text) lk_json_put_null(w, o->name);
		else if (o->kind == LK_OPTION_TEXT || *end) lk_json_put_text(w, o->name, text);
		else lk_json_put_number(w, o->name, number);
	}
	lk_json_object_end(w);
}

static void put_row(lk_json_writer *w, const lk_sweep *sweep, const lk_sweep_row *row) {
	char text[1024];
	lk_json_object(w, NULL);
	if (row->prediction) {
		put_prediction(w, row->prediction);
	} else {
		lk_json_put_null(w, "fits");
		lk_json_put_text(w, "refused", row->refusal ? lk_error_text(row->refusal, text, sizeof text) : NULL);
	}
	if (row->request && sweep->count > 1) put_asked(w, sweep, row->request);
	lk_json_put_text(w, "version", lk_version());
	lk_json_put_text(w, "data_date", lk_data_date());
	lk_json_object_end(w);
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
		put_row(&w, sweep, &sweep->rows[i]);
	}
	if (array) lk_json_array_end(&w);
	if (sweep->compact && !sweep->count) return LK_OK;
	return lk_json_finish(&w, err);
}
