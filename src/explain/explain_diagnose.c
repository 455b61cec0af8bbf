/* explain_diagnose.c: the diagnosis: two sentences, and at most three actions.
 *
 * The first sentence names the costliest stall, the second the critical path and the simulated gain
 * of remedies. If another stall's remedy gains more than the costliest one's, it is named, so that
 * nobody spends time on a remedy without gain. */
#include <math.h>

#include "base/arena.h"
#include "base/text.h"
#include "explain/explain.h"

enum { ACTIONS = 3 };
static const double LEAST_GAIN = 0.0005; /* of a step */

/* What a remedy adds to the gain of cheaper ones; of work done once, what vanishes when warm. */
static double most_gain(const lk_explain_stall *stall) {
	return lk_explain_is_once(stall) ? stall->most_s : stall->adds_s;
}

static bool is_better_action(const lk_explain_stall *one, const lk_explain_stall *other) {
	if (most_gain(one) != most_gain(other)) return most_gain(one) > most_gain(other);
	return isnan(one->gain_s) < isnan(other->gain_s);
}

static int find_actions(const lk_explanation *explanation, int *out) {
	int count = 0;
	for (int i = 0; i < explanation->stall_count; i++) {
		const lk_explain_stall *stall = &explanation->stalls[i];
		if (!*stall->remedy || !(most_gain(stall) > LEAST_GAIN * explanation->step_s)) continue;
		int at = count;
		while (at > 0 && is_better_action(stall, &explanation->stalls[out[at - 1]])) at--;
		if (at == ACTIONS) continue;
		if (count < ACTIONS) count++;
		for (int k = count - 1; k > at; k--) out[k] = out[k - 1];
		out[at] = i;
	}
	return count;
}

static const char *whole_of(const lk_explanation *explanation) {
	return explanation->annotated ? "step" : "trace";
}

/* From this share of computation on, a run is bound by its kernels ... */
static const double COMPUTE_BOUND = 0.9;

/* ... and if no remedy gains more than this share of a step, there is nothing to do. */
static const double NOTHING_LARGER = 0.02;

/* A healthy run: its devices compute. */
static bool is_compute_bound(const lk_explanation *explanation, double *share) {
	double compute = 0, all = 0;
	for (int i = 0; i < explanation->rank_count; i++) {
		compute += (double)explanation->ranks[i].compute_ns;
		all += (double)explanation->ranks[i].kernel_time_ns;
	}
	*share = all > 0 ? compute / all : 0;
	return *share >= COMPUTE_BOUND && explanation->kernels && !explanation->processors;
}

static double largest_gain(const lk_explanation *explanation) {
	double most = 0;
	for (int i = 0; i < explanation->stall_count; i++)
		most = fmax(most, explanation->stalls[i].adds_s);
	return most / explanation->step_s;
}

static void put_costliest(const lk_explanation *explanation, lk_text *text) {
	char whole[32], lost[32];
	double share;
	lk_format_seconds(explanation->step_s, whole, sizeof whole);
	if (is_compute_bound(explanation, &share)) {
		lk_text_add(text, "Compute-bound: kernels run for %.1f %% of the %s %s", 100 * share, whole,
		            whole_of(explanation));
		if (!isnan(explanation->kernel_roof))
			lk_text_add(text, ", at %.0f %% of their roof", 100 * explanation->kernel_roof);
		const lk_explain_stall *worst = explanation->stalls;
		double most = largest_gain(explanation);
		if (!explanation->stall_count) lk_text_add(text, "; nothing else takes 0.5 %%");
		else if (most <= NOTHING_LARGER)
			lk_text_add(text, "; nothing larger than %.1f %% to gain", 100 * most);
		else
			lk_text_add(text, "; the largest stall is %s (%s), %.1f %%", worst->kind, worst->what,
			            100 * worst->share);
		return;
	}
	if (!explanation->stall_count) {
		lk_text_add(text, "No stall takes 0.5 %% or more of the %s %s", whole,
		            whole_of(explanation));
		return;
	}
	const lk_explain_stall *worst = &explanation->stalls[0];
	lk_text_add(text, "The largest stall is %s (%s): %s of the %s %s (%.1f %%)", worst->kind,
	            worst->what, lk_format_seconds(worst->lost_s, lost, sizeof lost), whole,
	            whole_of(explanation), 100 * worst->share);
}

static void put_path(const lk_explanation *explanation, lk_text *text) {
	const lk_critical_path *path = &explanation->critical;
	double all = 0;
	for (int i = 0; i < path->part_count; i++) all += path->parts[i].seconds;
	lk_text_add(text, " The largest part of the critical path is %s (%.1f %%)", path->parts[0].kind,
	            100 * path->parts[0].seconds / all);
}

/* Add the gain of the best simulated remedy. */
static void put_gain(const lk_explanation *explanation, lk_text *text) {
	char gain[32];
	const lk_explain_stall *best = NULL;
	for (int i = 0; i < explanation->stall_count; i++) {
		const lk_explain_stall *stall = &explanation->stalls[i];
		if (!isnan(stall->gain_s) && (!best || stall->gain_s > best->gain_s)) best = stall;
	}
	if (!best) return;
	if (!(best->gain_s > 0)) {
		lk_text_add(text, "; in the simulation, no remedy shortens the step");
		return;
	}
	lk_text_add(text, "; in the simulation, the remedy for ");
	if (best == explanation->stalls) lk_text_add(text, "that stall");
	else lk_text_add(text, "%s (%s)", best->kind, best->what);
	lk_text_add(text, " makes the %s %s (%.1f %%) shorter", whole_of(explanation),
	            lk_format_seconds(best->gain_s, gain, sizeof gain),
	            100 * best->gain_s / explanation->step_s);
}

lk_status lk_explain_diagnose(lk_explain_work *work, lk_error *err) {
	lk_explanation *explanation = &work->result;
	int *actions = LK_ARRAY(&work->arena, int, ACTIONS);
	char line[1200];
	lk_text text = lk_text_begin(line, sizeof line);
	if (!actions) return lk_oom(err);
	explanation->actions = actions;
	explanation->action_count = find_actions(explanation, actions);
	put_costliest(explanation, &text);
	lk_text_add(&text, ".");
	if (explanation->critical.part_count) { /* only then remedies were simulated */
		put_path(explanation, &text);
		put_gain(explanation, &text);
		lk_text_add(&text, ".");
	}
	explanation->diagnosis = lk_arena_strdup(&work->arena, line);
	return explanation->diagnosis ? LK_OK : lk_oom(err);
}
