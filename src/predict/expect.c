/* expect.c: a measured run against its prediction. Every value that the run states is compared with
 * the predicted one; where one lies outside of the 80 % range, the causes of expect_causes.c are
 * predicted one by one, then the most promising pairs, and ranked by
 *
 *     prior odds of the causes x likelihood of all measured values under their prediction.
 *
 * A step time or a size of memory is log-normal around its prediction, with the deviations of both
 * sides of the 80 % range (1.2816 deviations); shares of timed parts are normal; numbers that are
 * no estimates (batch, length, GPUs) agree or do not. docs/method/expected.md has the formulas. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/sort.h"
#include "base/text.h"
#include "base/units.h"
#include "io/stream.h"
#include "predict/predict_internal.h"
#include "system/parallel.h"

enum {
	CAUSES = 256, /* more than there are rows */
	LISTED = 6,   /* causes that are listed */
	PAIRS = 12,   /* pairs that are predicted, the likeliest by their single effects */
	TEXT = 64,
};
static const double MEMORY = 0.15;       /* deviation in ln where no range is known */
static const double MEMORY_LEAST = 0.03; /* ... of what other runs hold in addition */
static const double HELD = 0.1;         /* probability of clocks reported as held without a cause */
static const double FOUND = 0.002;      /* ln by which a scaled step may miss the measured one */
static const double OTHER_PRIOR = 0.15; /* odds of a reason that no option says */
static const double OTHER_MEAN = 0.4;   /* of its effect in ln, which falls off exponentially */

/* ---- a predicted step ---- */

static void expected_memory(lk_expected_step *out, const lk_step *step) {
	const lk_stage_use *use = &step->memory[step->fullest];
	out->memory[LK_MEMORY_UNSTATED] = out->memory[LK_MEMORY_DEVICE] = use->total;
	out->memory[LK_MEMORY_RESERVED] = use->reserved;
	out->memory[LK_MEMORY_ALLOCATED] = out->memory[LK_MEMORY_ACTIVE] = use->walk.peak;
	double low = lk_or_else(use->low / use->walk.peak, exp(-LK_EIGHTY * MEMORY)),
		   high = lk_or_else(use->high / use->walk.peak, exp(LK_EIGHTY * MEMORY));
	low = lk_or_else(use->reserved_low / use->reserved, low);
	high = lk_or_else(use->reserved_high / use->reserved, high);
	out->memory_low = fmin(low, exp(-LK_EIGHTY * MEMORY_LEAST));
	out->memory_high = fmax(high, exp(LK_EIGHTY * MEMORY_LEAST));
	out->fits = use->out_of_memory >= 0 ? 1 - use->out_of_memory : lk_step_fits(step);
	out->fits = fmax(out->fits, 0.02);
}

/* Predict the request with its causes. Refused, or the same as without them: it is not known. */
static lk_status caused_predict(lk_caused *caused, const lk_step_options *options,
                                lk_expected_step *out, lk_error *err) {
	lk_asked asked;
	lk_step step = {0};
	lk_step_options mine = *options;
	*out = (lk_expected_step){0};
	LK_TRY(lk_caused_read(caused, &asked, err));
	lk_job *job = &asked.job;
	if (caused->count > 0 && lk_caused_is_same(caused, job)) return LK_OK;
	if (caused->request.straggler) {
		mine.straggler_count = 0;
		LK_TRY(lk_read_stragglers(caused->arena, caused->request.straggler, &mine, err));
	}
	mine.few = true;
	lk_status status = lk_step_ask(job, &asked.cluster, &mine, &step, err);
	if (status == LK_OK) {
		*out = (lk_expected_step){
			.known = true,
			.step_s = step.step_s,
			.tokens = lk_model_in_tokens(&job->model) ? step.graph->tokens : 0,
			.samples = step.graph->samples,
			.flops = step.graph->model_flops,
			.peak = caused->peak,
			.gpus = job->gpus,
			.gbs = job->gbs,
			.seq = lk_job_tokens(job),
			.power = asked.cluster.node[0].device->power_w,
			.counting = caused->counting,
		};
		memcpy(out->part_s, step.breakdown.exposed_s, sizeof out->part_s);
		lk_range_of(caused->arena, job, &asked.cluster, lk_step_network_share(&step), step.step_s,
		            &out->low_s, &out->high_s, NULL);
		expected_memory(out, &step);
	}
	lk_step_free(&step);
	return status;
}

/* ---- candidates ---- */

struct candidate {
	const lk_cause *causes[LK_CAUSES_AT_ONCE];
	int count;
	lk_expected_step step;
	const char *option;
	double score, loss; /* ln of prior odds x likelihood; its negative, to sort by */
	bool explains;
	int place; /* in the order of the table */
};

struct expecting {
	lk_arena *arena;
	const lk_predict_request *request;
	const lk_asked *asked;
	const lk_step_options *options;
	const lk_measured *measured;
	lk_values values;
	lk_expected_step base;
	struct candidate *candidates;
	int count, tried;
};

static double cause_odds(const lk_cause *cause) {
	return cause->prior / (1 - cause->prior);
}

static void candidate_score(const struct expecting *e, struct candidate *candidate) {
	candidate->score = log(candidate->step.fits);
	candidate->explains = true;
	for (int i = 0; i < candidate->count; i++)
		candidate->score += log(cause_odds(candidate->causes[i]));
	for (int i = 0; i < e->values.count; i++) {
		lk_agreement a = lk_value_agrees(&e->values.at[i], &candidate->step);
		candidate->score += a.likelihood;
		candidate->explains &= a.inside;
	}
	bool held = false;
	for (int i = 0; i < candidate->count; i++)
		held |= strcmp(candidate->causes[i]->family, "clocks") == 0;
	if (e->measured->throttled && !held) candidate->score += log(HELD);
	candidate->loss = -candidate->score;
}

/* Whether a cause changes anything that the run states. */
static bool is_effect(const struct expecting *e, const lk_expected_step *step) {
	for (int i = 0; i < e->values.count; i++) {
		double with = lk_value_predicted(&e->values.at[i], step),
			   without = lk_value_predicted(&e->values.at[i], &e->base);
		if (fabs(with - without) > 1e-3 * without) return true;
	}
	return false;
}

static lk_status candidate_try(const struct expecting *e, struct candidate *candidate,
                               const char **option, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_caused caused;
	bool applies = true;
	lk_status status = lk_caused_begin(&arena, e->request, e->asked, e->measured, &caused, err);
	for (int i = 0; i < candidate->count && applies && status == LK_OK; i++)
		status = lk_cause_apply(&caused, candidate->causes[i], &applies, err);
	if (status == LK_OK && applies)
		status = caused_predict(&caused, e->options, &candidate->step, err);
	if (status == LK_OK && applies && caused.option && option) {
		size_t size = strlen(caused.option) + 1;
		char *copy = malloc(size);
		if (copy) memcpy(copy, caused.option, size);
		else status = lk_oom(err);
		*option = copy;
	}
	lk_caused_free(&caused);
	lk_arena_free(&arena);
	return status == LK_ERR_INPUT ? LK_OK : status; /* a change that cannot run is no cause */
}

static lk_status candidate_job(void *context, size_t i, lk_error *err) {
	const struct expecting *e = context;
	struct candidate *candidate = &e->candidates[i];
	return candidate->step.known ? LK_OK : candidate_try(e, candidate, &candidate->option, err);
}

LK_ORDER_BY(candidates_by_loss, struct candidate, loss, place)

/* Predict candidates from `first` on, and keep those that have an effect. Their texts move to the
 * answer. */
static lk_status candidates_try(struct expecting *e, int first, lk_error *err) {
	e->tried += e->count - first;
	struct expecting part = *e;
	part.candidates += first;
	lk_status status = lk_parallel((size_t)(e->count - first), 0, candidate_job, &part, err);
	int kept = first;
	for (int i = first; i < e->count; i++) {
		struct candidate *candidate = &e->candidates[i];
		char *option = (char *)candidate->option;
		candidate->option = option ? lk_arena_strdup(e->arena, option) : "";
		if (!candidate->option && status == LK_OK) status = lk_oom(err);
		free(option);
		if (!candidate->step.known || !is_effect(e, &candidate->step)) continue;
		candidate_score(e, candidate);
		e->candidates[kept++] = *candidate;
	}
	e->count = kept;
	return status;
}

/* ---- pairs ---- */

/* How well a pair would agree if the effects of its causes multiplied. */
static double pair_guess(const struct expecting *e, const struct candidate *a,
                         const struct candidate *b) {
	lk_expected_step both = a->step;
	double factor = b->step.step_s / e->base.step_s;
	both.step_s *= factor, both.low_s *= factor, both.high_s *= factor;
	both.tokens *= b->step.tokens / lk_or_else(e->base.tokens, 1);
	both.samples *= b->step.samples / lk_or_else(e->base.samples, 1);
	both.flops *= b->step.flops / lk_or_else(e->base.flops, 1);
	both.gpus *= b->step.gpus / e->base.gpus;
	both.gbs *= b->step.gbs / lk_or_else(e->base.gbs, 1);
	both.seq *= b->step.seq / lk_or_else(e->base.seq, 1);
	both.counting.flops *= b->step.counting.flops;
	both.counting.peak *= b->step.counting.peak;
	both.counting.speed *= b->step.counting.speed;
	for (int i = 0; i < LK_MEMORY_KINDS; i++)
		both.memory[i] = fmax(both.memory[i] + b->step.memory[i] - e->base.memory[i], 1);
	for (int i = 0; i < LK_PART_COUNT; i++)
		both.part_s[i] = fmax(both.part_s[i] + b->step.part_s[i] - e->base.part_s[i], 0);
	double score = log(cause_odds(a->causes[0])) + log(cause_odds(b->causes[0]));
	for (int i = 0; i < e->values.count; i++)
		score += lk_value_agrees(&e->values.at[i], &both).likelihood;
	return score;
}

/* Causes of one family do not occur together; links are those of the device as stated. */
static bool causes_combine(const lk_cause *a, const lk_cause *b) {
	bool device = strcmp(a->family, "device") == 0 || strcmp(b->family, "device") == 0;
	return strcmp(a->family, b->family) != 0 &&
	       !(device && (lk_cause_rewires(a) || lk_cause_rewires(b)));
}

/* Insert a pair among the PAIRS best, the best first. */
static void pairs_insert(struct candidate *best, int *count, struct candidate pair) {
	int at = *count;
	while (at > 0 && pair.score > best[at - 1].score) at--;
	if (at == PAIRS) return;
	if (*count < PAIRS) (*count)++;
	memmove(&best[at + 1], &best[at], (size_t)(*count - 1 - at) * sizeof *best);
	best[at] = pair;
}

static lk_status candidates_pair(struct expecting *e, lk_error *err) {
	int count = 0;
	struct candidate *best = &e->candidates[e->count];
	for (int i = 0; i < e->count; i++)
		for (int j = i + 1; j < e->count; j++) {
			const struct candidate *a = &e->candidates[i], *b = &e->candidates[j];
			if (!causes_combine(a->causes[0], b->causes[0])) continue;
			pairs_insert(best, &count,
			             (struct candidate){.causes = {a->causes[0], b->causes[0]},
			                                .count = 2,
			                                .score = pair_guess(e, a, b),
			                                .place = (i + 1) * CAUSES + j});
		}
	int first = e->count;
	e->count += count;
	return candidates_try(e, first, err);
}

static lk_status expect_search(struct expecting *e, lk_error *err) {
	for (int i = 0; lk_causes[i].key; i++)
		e->candidates[e->count++] =
			(struct candidate){.causes = {&lk_causes[i]}, .count = 1, .place = i};
	LK_TRY(candidates_try(e, 0, err));
	lk_sort(e->candidates, (size_t)e->count, sizeof *e->candidates, candidates_by_loss);
	if (e->count < 2 || e->candidates[0].explains) return LK_OK;
	LK_TRY(candidates_pair(e, err));
	lk_sort(e->candidates, (size_t)e->count, sizeof *e->candidates, candidates_by_loss);
	return LK_OK;
}

/* ---- the answer ---- */

/* A reason that no option says, such as slow data: it makes a step longer or its memory larger,
 * most often by little. */
static double other_score(const struct expecting *e) {
	double score = log(OTHER_PRIOR);
	for (int i = 0; i < e->values.count; i++) {
		const lk_value_stated *value = &e->values.at[i];
		lk_agreement a = lk_value_agrees(value, &e->base);
		double off = log(value->measured / a.predicted) * (value->kind == LK_VALUE_RATE ? -1 : 1);
		if (a.inside || value->kind > LK_VALUE_MEMORY) score += a.likelihood;
		else score -= log(OTHER_MEAN) + fabs(off) / OTHER_MEAN + (off < 0 ? log(10) : 0);
	}
	return score;
}

static const char *join(lk_arena *arena, const char *first, const char *between,
                        const char *second) {
	return second ? lk_arena_printf(arena, "%s%s%s", first, between, second) : first;
}

static lk_status fill_suspects(const struct expecting *e, lk_expected *out, lk_error *err) {
	struct candidate unchanged = {.step = e->base};
	candidate_score(e, &unchanged);
	double other = other_score(e), most = fmax(unchanged.score, other), sum = 0;
	for (int i = 0; i < e->count; i++) most = fmax(most, e->candidates[i].score);
	for (int i = 0; i < e->count; i++) sum += exp(e->candidates[i].score - most);
	sum += exp(unchanged.score - most) + exp(other - most);
	out->unchanged_share = exp(unchanged.score - most) / sum;
	out->other_share = exp(other - most) / sum;
	int count = e->count < LISTED ? e->count : LISTED;
	lk_suspect *suspects = LK_ARRAY(e->arena, lk_suspect, count);
	if (!suspects) return lk_oom(err);
	out->suspects = suspects;
	for (int i = 0; i < count; i++) {
		const struct candidate *c = &e->candidates[i];
		const lk_cause *a = c->causes[0], *b = c->causes[1];
		lk_suspect *suspect = &suspects[out->suspect_count++];
		*suspect = (lk_suspect){
			.cause = join(e->arena, a->key, "+", b ? b->key : NULL),
			.what = join(e->arena, a->what, "; and ", b ? b->what : NULL),
			.option = c->option,
			.check = join(e->arena, a->check, "; and ",
		                  b && strcmp(b->check, a->check) != 0 ? b->check : NULL),
			.share = exp(c->score - most) / sum,
			.step_time_s = c->step.step_s,
			.mfu = lk_expected_mfu(&c->step),
			.memory_bytes = c->step.memory[LK_MEMORY_DEVICE],
			.time_ratio = c->step.step_s / e->base.step_s,
			.explains = c->explains,
		};
		if (!suspect->cause || !suspect->what || !suspect->check) return lk_oom(err);
		/* far below the first it is no longer worth a look */
		if (i > 0 && suspect->share < suspects[0].share / 50) out->suspect_count--;
	}
	return LK_OK;
}

static lk_status fill_compared(const struct expecting *e, lk_expected *out, lk_error *err) {
	lk_compared *compared = LK_ARRAY(e->arena, lk_compared, e->values.count);
	if (!compared) return lk_oom(err);
	out->as_expected = true;
	for (int i = 0; i < e->values.count; i++) {
		const lk_value_stated *value = &e->values.at[i];
		lk_agreement a = lk_value_agrees(value, &e->base);
		compared[i] = (lk_compared){value->key,  value->label, value->unit, value->measured,
		                            a.predicted, a.low,        a.high,      a.inside};
		out->as_expected &= a.inside;
		double off = value->measured / a.predicted;
		if (value->kind > LK_VALUE_RATE) continue;
		out->time_ratio = value->kind == LK_VALUE_TIME ? off : 1 / off;
		out->step_time_s = out->time_ratio * e->base.step_s;
		out->mfu = value->of == lk_expected_mfu ? value->measured
		                                        : lk_expected_mfu(&e->base) / out->time_ratio;
	}
	out->compared = compared;
	out->compared_count = e->values.count;
	return LK_OK;
}

/* "7.2 s", "31.0 %", "73.0 GiB", "200 tokens/s/GPU" or, `bare`, "200". */
static const char *value_text(const lk_compared *compared, double number, bool bare, char *out,
                              size_t size) {
	const char *unit = compared->unit;
	char digits[32];
	if (strcmp(unit, "s") == 0) return lk_format_seconds(number, out, size);
	if (number < 100) snprintf(digits, sizeof digits, "%.*f", *unit ? 1 : 0, number);
	else lk_format_thousands(number, digits, sizeof digits);
	if (strcmp(unit, "bytes") == 0) snprintf(out, size, "%.1f GiB", number / LK_GIB);
	else if (strcmp(unit, "share") == 0) snprintf(out, size, "%.1f %%", 100 * number);
	else snprintf(out, size, "%s%s%s", digits, bare || !*unit ? "" : " ", bare ? "" : unit);
	return out;
}

/* "step time 29.4 s, expected 9.2 s (8.1 s to 10.1 s)", "global batch 32, expected 64" */
static const char *compared_text(lk_arena *arena, const lk_compared *compared, bool measured_only) {
	char is[TEXT], was[TEXT], low[TEXT], high[TEXT];
	value_text(compared, compared->measured, false, is, sizeof is);
	value_text(compared, compared->predicted, true, was, sizeof was);
	value_text(compared, compared->low, true, low, sizeof low);
	value_text(compared, compared->high, true, high, sizeof high);
	if (measured_only)
		return lk_arena_printf(arena, "%s %s is as expected (%s to %s)", compared->label, is, low,
		                       high);
	if (!*compared->unit)
		return lk_arena_printf(arena, "%s %s, expected %s", compared->label, is, was);
	return lk_arena_printf(arena, "%s %s, expected %s (%s to %s)", compared->label, is, was, low,
	                       high);
}

static lk_status fill_verdict(const struct expecting *e, lk_expected *out, lk_error *err) {
	const char *text = NULL;
	for (int i = 0; i < out->compared_count; i++) {
		const lk_compared *compared = &out->compared[i];
		if (!out->as_expected && compared->inside) continue;
		const char *one = compared_text(e->arena, compared, out->as_expected);
		text = text && one ? lk_arena_printf(e->arena, "%s; %s", text, one) : one;
		if (!text) return lk_oom(err);
		if (out->as_expected) break; /* the speed says enough */
	}
	const lk_suspect *first = out->suspects;
	if (out->as_expected) text = lk_arena_printf(e->arena, "nothing needed: %s", text);
	else if (out->suspect_count == 0)
		text =
			lk_arena_printf(e->arena, "%s; no change of the job or the cluster explains it", text);
	else if (out->unchanged_share > fmax(first->share, out->other_share))
		text = lk_arena_printf(e->arena,
		                       "%s; no change explains it better than an error of the "
		                       "prediction",
		                       text);
	else
		text = lk_arena_printf(e->arena, "%s; %s: %s", text,
		                       first->share >= out->other_share && first->explains
		                           ? "most likely"
		                           : "hardly explained; the likeliest change",
		                       first->what);
	out->verdict = text;
	return text ? LK_OK : lk_oom(err);
}

/* ---- one measured step as a calibration ---- */

/* What a scaled step takes: all of it, and the communication that the run has timed. */
struct scaled_step {
	double step_s, timed_s;
};

static lk_status scaled_ask(const struct expecting *e, const lk_scaling *scaling, unsigned timed,
                            struct scaled_step *out, lk_error *err) {
	const lk_job *job = &e->asked->job;
	lk_constants constants;
	lk_step step = {0};
	lk_step_options options = *e->options;
	lk_profile_constants(job, &constants);
	lk_scaling_apply(scaling, &constants);
	options.constants = &constants;
	options.few = true;
	lk_status status = lk_step_ask(job, &e->asked->cluster, &options, &step, err);
	*out = (struct scaled_step){.step_s = step.step_s};
	for (int i = 0; i < LK_PART_COUNT; i++)
		if (timed >> i & 1) out->timed_s += step.breakdown.exposed_s[i];
	lk_step_free(&step);
	return status;
}

/* Find, by halving, the factor on links with which timed communication takes `wanted` seconds, or
 * that on kernels and host with which the step does: both grow with it. False: there is none. */
static lk_status scaled_find(const struct expecting *e, lk_scaling *scaling, unsigned timed,
                             double wanted, bool *found, lk_error *err) {
	enum { HALVINGS = 18 };
	double low = log(0.1), high = log(10), got = 0;
	for (int i = 0; i < HALVINGS; i++) {
		struct scaled_step step;
		double middle = (low + high) / 2;
		if (timed) scaling->links = exp(middle);
		else scaling->kernels = scaling->host = exp(middle);
		LK_TRY(scaled_ask(e, scaling, timed, &step, err));
		got = timed ? step.timed_s : step.step_s;
		if (got < wanted) low = middle;
		else high = middle;
	}
	*found = fabs(log(got / wanted)) < FOUND;
	return LK_OK;
}

static const char *scaled_says(const struct expecting *e, const lk_scaling *scaling,
                               const lk_value_stated *timed) {
	const char *text = lk_scaling_text(e->arena, scaling);
	if (!text) return NULL;
	if (!timed)
		return lk_arena_printf(e->arena,
		                       "times of %s: one time of a step does not tell kernels, host and "
		                       "links apart; a trace does (explain --job --calibrated)",
		                       *text ? text : "nothing to scale");
	return lk_arena_printf(e->arena,
	                       "times of %s: links by what \"%s\" took, kernels and host alike by the "
	                       "rest of the step",
	                       *text ? text : "nothing to scale", timed->label);
}

/* Scale what the measured step tells: kernels and host by its time; where the run has timed its
 * data-parallel communication, links by that first. */
static lk_status find_scaling(const struct expecting *e, lk_expected *out, lk_error *err) {
	static const double LEAST_TIMED = 0.005; /* of a step, else links say nothing */
	enum { ROUNDS = 2 };
	const lk_value_stated *timed = NULL;
	lk_scaling scaling = {1, 1, 1};
	bool found = false;
	for (int i = 0; i < e->values.count; i++) {
		const lk_value_stated *value = &e->values.at[i];
		if (value->kind == LK_VALUE_SHARE && value->parts == 1u << LK_PART_DP &&
		    fmin(value->measured, lk_value_predicted(value, &e->base)) > LEAST_TIMED)
			timed = value;
	}
	for (int round = 0; round < (timed ? ROUNDS : 1); round++) {
		if (timed) {
			LK_TRY(scaled_find(e, &scaling, timed->parts, timed->measured * out->step_time_s,
			                   &found, err));
			if (!found) timed = NULL, scaling.links = 1; /* it overlaps otherwise than here */
		}
		LK_TRY(scaled_find(e, &scaling, 0, out->step_time_s, &found, err));
	}
	if (!found) {
		lk_fail(err, LK_ERR_INPUT, "--calibrated",
		        "no factor from 0.1 to 10 on kernels and host makes this job take what was "
		        "measured");
		return lk_hint(err, "see the causes without --calibrated");
	}
	out->scaled_kernels = scaling.kernels, out->scaled_host = scaling.host;
	out->scaled_links = timed ? scaling.links : 0;
	out->scaled = scaled_says(e, &scaling, timed);
	return out->scaled ? LK_OK : lk_oom(err);
}

lk_status lk_predict_write_calibration(const lk_prediction *prediction, const char *path,
                                       lk_error *err) {
	const lk_expected *expected = prediction->expected;
	char source[128], seconds[TEXT];
	if (!expected || !(expected->scaled_kernels > 0))
		return lk_fail(err, LK_ERR_INPUT, "--calibrated", "no step time was measured");
	snprintf(source, sizeof source, "a step of %s measured on %d GPUs",
	         lk_format_seconds(expected->step_time_s, seconds, sizeof seconds), prediction->gpus);
	lk_scaling scaling = {expected->scaled_kernels, expected->scaled_links, expected->scaled_host};
	return lk_scaling_write(&scaling, source, path, err);
}

/* ---- the whole ---- */

/* Read a number, a file that holds no more than one, or what a run wrote. */
static lk_status read_measured(const char *text, lk_measured *out, lk_error *err) {
	enum { SENTENCE = 256 };
	char *line = NULL;
	size_t size;
	struct stat info;
	if (lk_measured_is_number(text)) return lk_measured_number(text, out, err);
	bool brief = stat(text, &info) == 0 && S_ISREG(info.st_mode) && info.st_size < SENTENCE;
	if (brief) LK_TRY(lk_stream_slurp(text, SENTENCE, &line, &size, err));
	bool number = line && lk_measured_is_number(line);
	lk_status status =
		number ? lk_measured_number(line, out, err) : lk_measured_read(text, out, err);
	free(line);
	return status;
}

lk_status lk_expect(lk_arena *arena, const lk_predict_request *request, const lk_asked *asked,
                    const lk_step_options *options, const lk_expected **result, lk_error *err) {
	struct expecting e = {.arena = arena, .request = request, .asked = asked, .options = options};
	lk_expected *out = LK_NEW(arena, lk_expected);
	lk_measured measured = {0};
	e.candidates = LK_ARRAY(arena, struct candidate, CAUSES + PAIRS + 1);
	if (!out || !e.candidates) return lk_oom(err);
	LK_TRY(read_measured(request->measured, &measured, err));
	e.measured = &measured;
	struct candidate base = {0};
	lk_status status = candidate_try(&e, &base, NULL, err);
	e.base = base.step;
	if (status == LK_OK && !e.base.known)
		status = lk_fail(err, LK_ERR_INPUT, "--measured", "this job cannot be compared");
	if (status == LK_OK) {
		lk_values_fill(&e.values, &measured, &e.base);
		if (e.values.count == 0) {
			lk_fail(err, LK_ERR_INPUT, "--measured", "nothing in it can be compared with this job");
			status = lk_hint(err, "give a step time, a speed or a memory, as \"7.2 s\", \"200 "
			                      "tok/s/gpu\", \"31 %% MFU\" or \"73 GiB reserved\"");
		}
	}
	if (status == LK_OK) status = lk_expect_steps(arena, &measured, out, err);
	if (status == LK_OK) status = fill_compared(&e, out, err);
	if (status == LK_OK && !out->as_expected) {
		status = expect_search(&e, err);
		if (status == LK_OK) status = fill_suspects(&e, out, err);
	}
	if (status == LK_OK) status = fill_verdict(&e, out, err);
	if (status == LK_OK && request->calibrated && out->step_time_s > 0)
		status = find_scaling(&e, out, err);
	if (status == LK_OK) {
		out->measured = lk_arena_strdup(arena, measured.source ? measured.source : "");
		out->tried = e.tried;
		if (!out->measured) status = lk_oom(err);
	}
	lk_measured_free(&measured);
	*result = out;
	return status;
}
