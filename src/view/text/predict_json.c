/* predict_json.c: predictions as JSON; the keys are documented in lockstep/view.h. */
#include <string.h>

#include "io/json.h"
#include "base/text.h"
#include "lockstep/catalogue.h"
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

void lk_json_put_energy(lk_json_writer *writer, const lk_energy *energy) {
	lk_json_put_fields(writer, &lk_energy_record, &(lk_subject){energy, energy, 0, NULL});
}

static void json_put_verdict(lk_json_writer *writer, const lk_prediction *prediction) {
	lk_json_put_bool(writer, "fits", prediction->fits);
	lk_json_put_number(writer, "peak_bytes", prediction->peak_bytes);
	lk_json_put_number(writer, "usable_bytes", prediction->usable_bytes);
	lk_json_put_integer(writer, "fullest_stage", prediction->fullest_stage);
}

static void json_put_speed(lk_json_writer *writer, const lk_prediction *prediction) {
	lk_json_put_number(writer, "step_time_s", prediction->step_time_s);
	lk_json_put_number(writer, "step_time_low_s", prediction->step_time_low_s);
	lk_json_put_number(writer, "step_time_high_s", prediction->step_time_high_s);
	lk_json_put_text(writer, "basis", prediction->basis);
	lk_json_put_known(writer, "tokens_per_s_per_gpu", prediction->tokens_per_s_per_gpu);
	lk_json_put_number(writer, "samples_per_s", prediction->samples_per_s);
	lk_json_put_text(writer, "unit", prediction->unit);
	lk_json_put_number(writer, "model_tflops_per_gpu",
	                   prediction->model_flops_per_s_per_gpu / 1e12);
	lk_json_put_known(writer, "mfu", prediction->mfu);
	lk_json_put_known(writer, "hfu", prediction->hfu);
	lk_json_put_known(writer, "peak_flops", prediction->peak_flops);
	lk_json_put_text(writer, "peak", prediction->peak_label);
	lk_json_put_known(writer, "days", prediction->days);
	lk_json_put_known(writer, "gpu_hours", prediction->gpu_hours);
	lk_json_put_known(writer, "goodput", prediction->goodput);
	lk_json_put_energy(writer, &prediction->energy);
}

static void json_put_breakdown(lk_json_writer *writer, const lk_prediction *prediction) {
	lk_json_object(writer, "breakdown");
	for (int i = 0; i < prediction->breakdown_count; i++) {
		const lk_time_part *part = &prediction->breakdown[i];
		lk_json_object(writer, part->key);
		lk_json_put_text(writer, "label", part->label);
		lk_json_put_number(writer, "exposed_s", part->exposed_s);
		lk_json_put_number(writer, "hidden_s", part->hidden_s);
		lk_json_object_end(writer);
	}
	lk_json_object_end(writer);
}

/* null where no seeds were requested. */
static void json_put_seeds(lk_json_writer *writer, const lk_prediction *prediction) {
	if (!prediction->seeds) {
		lk_json_put_null(writer, "seeds");
		return;
	}
	lk_json_object(writer, "seeds");
	lk_json_put_integer(writer, "count", prediction->seeds);
	lk_json_object(writer, "quantiles");
	for (int i = 0; i < prediction->spread_count; i++) {
		const lk_seed_spread *row = &prediction->spread[i];
		lk_json_object(writer, row->key);
		lk_json_put_text(writer, "label", row->label);
		lk_json_put_number(writer, "p50", row->p50);
		lk_json_put_number(writer, "p95", row->p95);
		lk_json_put_number(writer, "p99", row->p99);
		lk_json_object_end(writer);
	}
	lk_json_object_end(writer);
	lk_json_object_end(writer);
}

static void json_put_stage(lk_json_writer *writer, const lk_stage_memory *memory) {
	lk_json_object(writer, NULL);
	lk_json_put_integer(writer, "stage", memory->stage);
	lk_json_put_number(writer, "weights_bytes", memory->weights);
	lk_json_put_number(writer, "gradients_bytes", memory->gradients);
	lk_json_put_number(writer, "optimizer_bytes", memory->optimizer);
	lk_json_put_number(writer, "activations_bytes", memory->activations);
	lk_json_put_number(writer, "logits_bytes", memory->logits);
	lk_json_put_number(writer, "workspace_bytes", memory->workspace);
	lk_json_put_number(writer, "buffers_bytes", memory->buffers);
	lk_json_put_number(writer, "allocated_bytes", memory->allocated);
	lk_json_put_number(writer, "allocated_low_bytes", memory->low);
	lk_json_put_number(writer, "allocated_high_bytes", memory->high);
	lk_json_put_number(writer, "reserved_bytes", memory->reserved);
	lk_json_put_number(writer, "context_bytes", memory->context);
	lk_json_put_number(writer, "nccl_bytes", memory->nccl);
	lk_json_put_number(writer, "total_bytes", memory->total);
	lk_json_put_text(writer, "moment", memory->moment);
	lk_json_object_end(writer);
}

static void put_layout(lk_json_writer *writer, const lk_prediction *prediction) {
	lk_json_object(writer, "layout");
	lk_json_put_text(writer, "text", prediction->layout);
	const struct {
		const char *key;
		int number;
	} numbers[] = {
		{"gpus", prediction->gpus},
		{"tp", prediction->tp},
		{"pp", prediction->pp},
		{"vp", prediction->vp},
		{"cp", prediction->cp},
		{"ep", prediction->ep},
		{"dp", prediction->dp},
		{"mbs", prediction->mbs},
		{"gbs", prediction->gbs},
		{"seq", prediction->seq},
		{"microbatches", prediction->microbatches},
	};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		lk_json_put_integer(writer, numbers[i].key, numbers[i].number);
	lk_json_put_text(writer, "recompute", prediction->recompute);
	lk_json_put_text(writer, "dtype", prediction->dtype);
	lk_json_put_text(writer, "schedule", prediction->schedule);
	lk_json_object_end(writer);
}

static void json_put_texts(lk_json_writer *writer, const char *key, const char *const *texts,
                           int count) {
	lk_json_array(writer, key);
	for (int i = 0; i < count; i++) lk_json_put_text(writer, NULL, texts[i]);
	lk_json_array_end(writer);
}

static void json_put_fixes(lk_json_writer *writer, const lk_prediction *prediction) {
	lk_json_array(writer, "fixes");
	for (int i = 0; i < prediction->fix_count; i++) {
		lk_json_object(writer, NULL);
		lk_json_put_text(writer, "change", prediction->fixes[i].change);
		lk_json_put_number(writer, "peak_bytes", prediction->fixes[i].peak_bytes);
		lk_json_put_number(writer, "step_time_s", prediction->fixes[i].step_time_s);
		lk_json_put_number(writer, "time_ratio", prediction->fixes[i].time_ratio);
		lk_json_object_end(writer);
	}
	lk_json_array_end(writer);
}

static void put_simulation(lk_json_writer *writer, const lk_prediction *prediction) {
	lk_json_put_integer(writer, "operations", (long long)prediction->operations);
	lk_json_put_integer(writer, "layer_operations", prediction->layer_operations);
	lk_json_put_integer(writer, "ranks_simulated", prediction->ranks_simulated);
	lk_json_put_integer(writer, "ranks", prediction->ranks);
}

/* null where nothing is generated. */
static void json_put_generation(lk_json_writer *writer, const lk_prediction *prediction) {
	const lk_generation *generation = &prediction->generation;
	if (!generation->sequences) {
		lk_json_put_null(writer, "generation");
		return;
	}
	lk_json_object(writer, "generation");
	lk_json_put_integer(writer, "sequences", generation->sequences);
	lk_json_put_integer(writer, "engines", generation->engines);
	lk_json_put_integer(writer, "engine_gpus", generation->engine_gpus);
	lk_json_put_number(writer, "tokens", generation->tokens);
	lk_json_put_number(writer, "tokens_per_s", generation->tokens_per_s);
	lk_json_put_number(writer, "token_time_s", generation->token_time_s);
	lk_json_put_number(writer, "longest_tokens", generation->longest_tokens);
	lk_json_put_number(writer, "cache_bytes", generation->cache_bytes);
	lk_json_put_number(writer, "token_bytes", generation->token_bytes);
	lk_json_put_number(writer, "cache_tokens", generation->cache_tokens);
	lk_json_put_number(writer, "batch_room", generation->batch_room);
	lk_json_put_number(writer, "batch_most", generation->batch_most);
	lk_json_put_number(writer, "tail_s", generation->tail_s);
	lk_json_put_number(writer, "preempted", generation->preempted);
	lk_json_put_known(writer, "fixed_s", generation->fixed_s);
	lk_json_put_known(writer, "exponential_s", generation->exponential_s);
	lk_json_object_end(writer);
}

/* When the phases of a step of reinforcement learning run; null of other steps. */
static void json_put_spans(lk_json_writer *writer, const lk_prediction *prediction) {
	if (!prediction->phases) {
		lk_json_put_null(writer, "phases");
		return;
	}
	lk_json_array(writer, "phases");
	for (int i = 0; i < prediction->phase_span_count; i++) {
		const lk_phase_span *span = &prediction->spans[i];
		lk_json_object(writer, NULL);
		lk_json_put_text(writer, "gpus", span->engines ? "engines" : "training");
		lk_json_put_text(writer, "phase",
		                 span->part < 0 ? "wait" : prediction->breakdown[span->part].key);
		lk_json_put_number(writer, "start_s", span->start_s);
		lk_json_put_number(writer, "end_s", span->end_s);
		lk_json_object_end(writer);
	}
	lk_json_array_end(writer);
}

static void put_prediction(lk_json_writer *writer, const lk_prediction *prediction) {
	json_put_verdict(writer, prediction);
	json_put_speed(writer, prediction);
	json_put_breakdown(writer, prediction);
	json_put_seeds(writer, prediction);
	json_put_generation(writer, prediction);
	json_put_spans(writer, prediction);
	lk_json_array(writer, "memory");
	for (int i = 0; i < prediction->memory_count; i++)
		json_put_stage(writer, &prediction->memory[i]);
	lk_json_array_end(writer);
	put_layout(writer, prediction);
	json_put_texts(writer, "assumptions", prediction->assumptions, prediction->assumption_count);
	json_put_texts(writer, "understood", prediction->understood, prediction->understood_count);
	json_put_texts(writer, "ignored", prediction->ignored, prediction->ignored_count);
	json_put_fixes(writer, prediction);
	put_simulation(writer, prediction);
	lk_json_put_text(writer, "searched", prediction->searched);
	lk_json_put_text(writer, "warning", prediction->warning);
	lk_json_put_text(writer, "reproduce", prediction->reproduce);
	lk_json_put_text(writer, "model", prediction->model);
	lk_json_put_text(writer, "cluster", prediction->cluster);
}

/* What tells this object of an array from the others. */
static void json_put_asked(lk_json_writer *writer, const lk_sweep *sweep,
                           const lk_predict_request *request) {
	char text[512];
	lk_json_object(writer, "asked");
	for (int i = 0; i < sweep->varying_count; i++) {
		const lk_option *option = sweep->varying[i];
		lk_option_text(option, request, text, sizeof text);
		const char *end;
		double number = lk_read_real(text, &end);
		if (!*text) lk_json_put_null(writer, option->name);
		else if (option->kind == LK_OPTION_TEXT || *end)
			lk_json_put_text(writer, option->name, text);
		else lk_json_put_number(writer, option->name, number);
	}
	lk_json_object_end(writer);
}

static void json_put_row(lk_json_writer *writer, const lk_sweep *sweep, const lk_sweep_row *row) {
	char text[1024];
	lk_json_object(writer, NULL);
	lk_json_put_head(writer, "lockstep/predict/1",
	                 row->prediction ? row->prediction->failed_check : NULL);
	if (row->prediction) {
		put_prediction(writer, row->prediction);
	} else {
		lk_json_put_null(writer, "fits");
		lk_json_put_text(writer, "refused",
		                 row->refusal ? lk_error_text(row->refusal, text, sizeof text) : NULL);
	}
	if (row->request && sweep->count > 1) json_put_asked(writer, sweep, row->request);
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
