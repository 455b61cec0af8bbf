/* predict_phases.c: --run: a training in phases. A file states the phases; each overrides options
 * of the request, is predicted as a job of its own, and takes its share of the days:
 *
 *     [job]                      # of all phases: options of predict by their names
 *     model = "llama3.1-8b"
 *
 *     [[phase]]
 *     name = "ramp"
 *     tokens = "100G"            # or steps = 25000
 *     gbs = [256, 512, 1024]     # a ramp: equal shares of the tokens, or of the steps
 *     eval-every = 1000          # steps between evaluations, each of
 *     eval-time = "2min"
 *     pause = "45min"            # before the phase: checkpoints for another layout, new data
 *
 * The answer is that of the longest phase, or of the first that does not fit, with days, GPU-hours
 * and figures of the whole run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/vec.h"
#include "io/document.h"
#include "options/options_schema.h"
#include "predict/predict_internal.h"

enum { PHASES = 64, RAMP = 32, WORDS = 256 };
static const double DAY = 86400;

/* A phase as it is read; members are NULL where the file does not state them. */
struct phase {
	const char *name;
	lk_predict_request request;
	double steps, eval_every, eval_s, pause_s;
	lk_prediction *prediction;
	lk_args args;
};

struct phases {
	lk_arena *arena;
	const lk_predict_request *base;
	const char *path;
	LK_VEC(struct phase) list;
};

static lk_status refuse_value(const struct phases *phases, const lk_value *value, const char *key,
                              const char *why, lk_error *err) {
	char where[300];
	snprintf(where, sizeof where, "%.200s:%d:%d", phases->path, value->line, value->column);
	return lk_fail(err, LK_ERR_INPUT, where, "\"%.60s\": %s", key, why);
}

/* ---- reading ---- */

/* Keys of a phase that are no options of predict. */
static bool is_own(const char *key) {
	static const char *const own[] = {"name", "steps", "eval-every", "eval-time", "pause"};
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if (strcmp(own[i], key) == 0) return true;
	return false;
}

/* Options of a whole run, and of its answer, belong on the command line. */
static bool is_of_run(const char *key) {
	const lk_option *option = lk_option_of_member(&lk_predict_verb, key);
	if (!option) return false;
	if (option->output) return true;
	return lk_name_among("run failures mtbf checkpoint-interval checkpoint-write checkpoint-tiers "
	                     "recovery spares repair price-gpu calibration measured calibrated emit "
	                     "no-fixes",
	                     option->name);
}

/* How many sub-phases its lists make; 0: lists differ in length. */
static size_t ramp_of(const lk_value *phase) {
	size_t length = 1;
	for (size_t i = 0; i < phase->count; i++) {
		const lk_value *value = &phase->items[i];
		if (value->kind != LK_JSON_ARRAY || value->count == 1) continue;
		if (length > 1 && value->count != length) return 0;
		length = value->count;
	}
	return length;
}

/* The step of what is no ramp. */
static const size_t OF_ALL = SIZE_MAX;

/* Add "--key value" for every option of an object; `step`: of a ramp. */
static lk_status add_words(struct phases *phases, const lk_value *of, size_t step,
                           const char **words, int *count, lk_error *err) {
	for (size_t i = 0; of && i < of->count; i++) {
		const char *key = of->keys[i];
		const lk_value *value = &of->items[i];
		if (is_own(key)) continue;
		if (strchr(key, '=')) return refuse_value(phases, value, key, "is no option", err);
		if (is_of_run(key))
			return lk_hint((refuse_value(phases, value, key, "it is of the whole run", err), err),
			               "give --%s with --run", key);
		if (value->kind == LK_JSON_ARRAY && value->count > 1 && step == OF_ALL)
			return refuse_value(phases, value, key, "a list is of a phase, not of all", err);
		if (value->kind == LK_JSON_ARRAY && value->count)
			value = &value->items[value->count == 1 ? 0 : step];
		bool truth = value->kind == LK_JSON_TRUE || value->kind == LK_JSON_FALSE;
		if (!truth && value->kind != LK_JSON_STRING && value->kind != LK_JSON_NUMBER)
			return refuse_value(phases, value, key, "is no text, number or truth", err);
		if (*count + 2 > WORDS)
			return refuse_value(phases, value, key, "there are too many options", err);
		if (value->kind == LK_JSON_FALSE)
			words[*count] = lk_arena_printf(phases->arena, "--no-%s", key);
		else if (truth) words[*count] = lk_arena_printf(phases->arena, "--%s", key);
		else words[*count] = lk_arena_printf(phases->arena, "--%s=%s", key, value->text);
		if (!words[(*count)++]) return lk_oom(err);
	}
	return LK_OK;
}

static lk_status own_number(const struct phases *phases, const lk_value *of, const char *key,
                            bool duration, double *out, lk_error *err) {
	const lk_value *value = lk_json_get(of, key);
	if (!value) return LK_OK;
	if (value->kind != LK_JSON_STRING && value->kind != LK_JSON_NUMBER)
		return refuse_value(phases, value, key, "is no number", err);
	char where[300];
	snprintf(where, sizeof where, "%.200s:%d: %.40s", phases->path, value->line, key);
	return duration ? lk_parse_duration(value->text, 1, 0, 1e8, out, where, err)
	                : lk_parse_count(value->text, 1, 1e12, out, where, err);
}

static lk_status read_phase(struct phases *phases, const lk_value *job, const lk_value *of,
                            size_t step, size_t ramp, lk_error *err) {
	const char *words[WORDS];
	int count = 0;
	if (!lk_push(&phases->list)) return lk_oom(err);
	struct phase *phase = lk_last(&phases->list);
	phase->request = *phases->base;
	phase->request.run = NULL;
	phase->request.failures = NULL;
	phase->request.mtbf_hours = 0;
	phase->request.tokens = 0;
	phase->name = lk_json_get_text(of, "name", NULL);
	if (!phase->name) phase->name = lk_arena_printf(phases->arena, "phase %zu", phases->list.count);
	if (!phase->name) return lk_oom(err);
	LK_TRY(add_words(phases, job, OF_ALL, words, &count, err));
	LK_TRY(add_words(phases, of, step, words, &count, err));
	LK_TRY(lk_args_parse(&lk_predict_verb, count, words, &phase->args, err));
	LK_TRY(lk_args_check_empty(&phase->args, err));
	size_t combinations;
	LK_TRY(lk_args_combinations(&phase->args, &combinations, err));
	if (combinations > 1)
		return refuse_value(phases, of, phase->name, "a phase has no sweep: write a list", err);
	LK_TRY(lk_args_fill(&phase->args, 0, &phase->request, err));
	LK_TRY(own_number(phases, of, "steps", false, &phase->steps, err));
	LK_TRY(own_number(phases, of, "eval-every", false, &phase->eval_every, err));
	LK_TRY(own_number(phases, of, "eval-time", true, &phase->eval_s, err));
	if (step == 0) LK_TRY(own_number(phases, of, "pause", true, &phase->pause_s, err));
	if (!(phase->steps > 0) == !(phase->request.tokens > 0)) {
		refuse_value(phases, of, phase->name, "a phase has either tokens or steps", err);
		return lk_hint(err, "write tokens = \"100G\" or steps = 25000");
	}
	phase->steps /= (double)ramp;
	phase->request.tokens /= (double)ramp;
	return LK_OK;
}

static lk_status read_phases(struct phases *phases, lk_error *err) {
	char *text;
	size_t size;
	lk_value *root;
	LK_TRY(lk_stream_slurp(phases->path, LK_DOCUMENT_BYTES, &text, &size, err));
	lk_status status = lk_document_parse(phases->arena, text, size, phases->path, &root, err);
	free(text);
	LK_TRY(status);
	const lk_value *job = lk_json_get(root, "job"), *list = lk_json_get(root, "phase");
	for (size_t i = 0; root->kind == LK_JSON_OBJECT && i < root->count; i++)
		if (&root->items[i] != job && &root->items[i] != list) {
			refuse_value(phases, &root->items[i], root->keys[i], "unknown table", err);
			return lk_hint(err, "a run has one [job] and several [[phase]]");
		}
	if (!list || list->kind != LK_JSON_ARRAY || !list->count ||
	    (job && job->kind != LK_JSON_OBJECT)) {
		lk_fail(err, LK_ERR_INPUT, phases->path, "it has no phases");
		return lk_hint(err, "write a table [[phase]] for each, with tokens or steps");
	}
	for (size_t i = 0; i < list->count; i++) {
		const lk_value *of = &list->items[i];
		size_t ramp = of->kind == LK_JSON_OBJECT ? ramp_of(of) : 0;
		if (ramp == 0 || ramp > RAMP || phases->list.count + ramp > PHASES)
			return refuse_value(phases, of, "phase",
			                    "is no table, has lists of several lengths, or is one too many",
			                    err);
		for (size_t step = 0; step < ramp; step++)
			LK_TRY(read_phase(phases, job, of, step, ramp, err));
	}
	return LK_OK;
}

/* ---- the answer ---- */

static double tokens_of_step(const lk_prediction *prediction) {
	double tokens = prediction->tokens_per_s_per_gpu * prediction->gpus * prediction->step_time_s;
	return tokens > 0 ? tokens : prediction->samples_per_s * prediction->step_time_s;
}

static lk_status predict_phase(struct phase *phase, lk_run_phase *row, lk_error *err) {
	LK_TRY(lk_answer_with(&phase->request, lk_answer_any, &phase->prediction, err));
	const lk_prediction *prediction = phase->prediction;
	double each = tokens_of_step(prediction);
	if (!(phase->steps > 0)) phase->steps = ceil(phase->request.tokens / each * (1 - 1e-12));
	double work_s = phase->steps * prediction->step_time_s;
	if (phase->eval_every > 0) work_s += floor(phase->steps / phase->eval_every) * phase->eval_s;
	*row = (lk_run_phase){.name = phase->name,
	                      .gpus = prediction->gpus,
	                      .gbs = prediction->gbs,
	                      .seq = prediction->seq,
	                      .tokens = each * phase->steps,
	                      .steps = phase->steps,
	                      .step_time_s = prediction->step_time_s,
	                      .work_days = (work_s + phase->pause_s) / DAY};
	return LK_OK;
}

/* The phase whose answer is shown. */
static size_t main_phase(const struct phases *phases, const lk_run_phase *rows) {
	size_t longest = 0;
	for (size_t i = 0; i < phases->list.count; i++) {
		if (!phases->list.at[i].prediction->fits) return i;
		if (rows[i].work_days > rows[longest].work_days) longest = i;
	}
	return longest;
}

static lk_status answer_phases(struct phases *phases, struct lk_answer *a, lk_error *err) {
	size_t count = phases->list.count;
	lk_run_phase *rows = LK_ARRAY(phases->arena, lk_run_phase, count);
	lk_long_run *runs = LK_ARRAY(phases->arena, lk_long_run, count);
	double kwh = 0;
	if (!rows || !runs) return lk_oom(err);
	for (size_t i = 0; i < count; i++) {
		struct phase *phase = &phases->list.at[i];
		LK_TRY(predict_phase(phase, &rows[i], err));
		const lk_run_words *job = &((struct lk_answer *)phase->prediction->memory_owner)->words;
		lk_run_words words =
			lk_predict_run_words(phases->base, job->gpus, job->nodes, job->replicas, job->bytes);
		LK_TRY(lk_run_of(&words, &runs[i], err));
		runs[i].work_s = rows[i].work_days * DAY;
		kwh += phase->prediction->energy.step_kwh * phase->steps;
	}
	size_t shown = main_phase(phases, rows);
	LK_TRY(lk_answer_any(&phases->list.at[shown].request, a, err));
	if (!a->p.fits) {
		a->p.warning = lk_arena_printf(phases->arena, "phase \"%s\" does not fit",
		                               phases->list.at[shown].name);
		if (!a->p.warning) return lk_oom(err);
	}
	a->p.reproduce = lk_reproduce_given(phases->arena, phases->base);
	if (!a->p.reproduce) return lk_oom(err);
	a->p.run.phases = rows;
	a->p.run.phase_count = (int)count;
	LK_TRY(lk_predict_forecast(&a->p, phases->base, runs, (int)count, err));
	a->p.energy.training_kwh = kwh / a->p.goodput;
	a->p.energy.carbon_kg = a->p.energy.training_kwh * phases->base->mains.carbon / 1000;
	a->p.energy.power_usd = a->p.energy.training_kwh * phases->base->mains.price_kwh;
	lk_predict_run_energy(&a->p);
	return LK_OK;
}

lk_status lk_predict_phases(const lk_predict_request *request, struct lk_answer *a, lk_error *err) {
	struct phases phases = {.arena = &a->arena, .base = request, .path = request->run};
	const char *idle = NULL;
	if (request->tokens > 0) idle = "--tokens";
	if (request->step) idle = "--trace, --graph, --chakra or --goal";
	if (request->emit) idle = "--emit";
	if (request->measured) idle = "--measured";
	if (idle) {
		lk_fail(err, LK_ERR_INPUT, idle, "a run of --run has several jobs");
		return lk_hint(err, "leave it out, or ask for one phase without --run");
	}
	lk_status status = read_phases(&phases, err);
	if (status == LK_OK) status = answer_phases(&phases, a, err);
	for (size_t i = 0; i < phases.list.count; i++) {
		lk_predict_free(phases.list.at[i].prediction);
		lk_args_free(&phases.list.at[i].args);
	}
	lk_vec_free(&phases.list);
	return status;
}
