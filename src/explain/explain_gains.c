/* explain_gains.c: gains that add up. A step's time consists of parts; a remedy shortens its
 * stall's part and perhaps others. Where the gains of several remedies overlap, the cheapest one
 * has what they share: remedies take, in the order of their effort, what is left of their parts. So
 * the gains of a list never exceed the time that its parts have. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "explain/explain.h"

/* Parts of a step, X(symbol, time of a rank). */
#define PARTS_OF_A_STEP(X)            \
	X(DATA, idle_data_ns)             \
	X(ONE_OFF, idle_one_off_ns)       \
	X(ALLOCATION, idle_allocation_ns) \
	X(SAVING, idle_saving_ns)         \
	X(COLLECTING, idle_collecting_ns) \
	X(PREPARING, idle_preparing_ns)   \
	X(COMPUTING, idle_computing_ns)   \
	X(SYNC, idle_sync_ns)             \
	X(LAUNCH, idle_host_ns)           \
	X(OPTIMIZER, idle_optimizer_ns)   \
	X(OUTSIDE, idle_outside_ns)       \
	X(GAPS, idle_other_ns)            \
	X(COPIES, exposed_memory_ns)      \
	X(COMM, exposed_communication_ns) \
	X(COMPUTE, compute_ns)

enum {
#define PART_INDEX(symbol, field) AT_##symbol,
	PARTS_OF_A_STEP(PART_INDEX) PARTS
#undef PART_INDEX
};
enum {
#define PART_BIT(symbol, field) symbol = 1 << AT_##symbol,
	PARTS_OF_A_STEP(PART_BIT)
#undef PART_BIT
		HOST = OPTIMIZER | LAUNCH | GAPS
};

/* What a remedy takes: a setting, an edit, a rewrite, other machines. */
enum { SETTING, EDIT, REWRITE, MACHINES };

/* By kind and the beginning of what it is. Ranks that arrive sooner keep others waiting less. */
static const lk_remedy remedies[] = {
	{"data loading", "", DATA, HOST | COMM, SETTING, "data-loading=off"},
	{"one-off", "", ONE_OFF, 0, SETTING, NULL},
	{"allocation", "", ALLOCATION, 0, SETTING, NULL},
	{"optimizer", "", OPTIMIZER, 0, SETTING, NULL},
	{"copies", "host to device", COPIES, HOST | COMM, SETTING, "remove:Memcpy HtoD*"},
	{"copies", "pageable memory", COPIES, 0, SETTING, NULL},
	{"copies", "", COPIES, 0, EDIT, NULL},
	{"communication", "all_reduce", COMM, 0, SETTING, "overlap=on"},
	{"communication", "reduce_scatter", COMM, 0, SETTING, "overlap=on"},
	{"communication", "", COMM, 0, EDIT, NULL},
	{"garbage collection", "", COLLECTING, 0, SETTING, NULL},
	{"checkpoint", "", SAVING, 0, EDIT, NULL},
	{"preprocessing", "", PREPARING, 0, EDIT, NULL},
	{"host", "operations", COMPUTING, 0, EDIT, NULL},
	{"sync", "", SYNC, 0, EDIT, NULL},
	{"host", "", OUTSIDE, 0, EDIT, NULL},
	{"other calls", "", LAUNCH, 0, EDIT, NULL},
	{"launch", "", LAUNCH, HOST | COMM, REWRITE, "launch=graphs"},
	{"gaps", "", GAPS, 0, REWRITE, NULL},
	{"slow kernel", "", COMPUTE, 0, REWRITE, NULL},
	{"arrival skew", "", COMM, 0, EDIT, NULL},
	{"straggler", "", COMM, 0, MACHINES, NULL},
};

const lk_remedy *lk_explain_remedy(const lk_explain_stall *stall) {
	for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++)
		if (strcmp(stall->kind, remedies[i].kind) == 0 &&
		    lk_begins_with(stall->what, remedies[i].what))
			return &remedies[i];
	LK_ASSERT(false);
	return &remedies[0];
}

bool lk_explain_is_once(const lk_explain_stall *stall) {
	return strcmp(stall->kind, "one-off") == 0;
}

/* The time of each part, seconds per step, mean over ranks. */
static void gains_parts(const lk_explanation *explanation, double parts[PARTS]) {
	static const size_t fields[PARTS] = {
#define PART_FIELD(symbol, field) offsetof(lk_explain_rank, field),
		PARTS_OF_A_STEP(PART_FIELD)
#undef PART_FIELD
	};
	double steps = 0;
	memset(parts, 0, PARTS * sizeof *parts);
	for (int i = 0; i < explanation->rank_count; i++) {
		const lk_explain_rank *rank = &explanation->ranks[i];
		steps += rank->steps;
		for (int k = 0; k < PARTS; k++) parts[k] += (double)lk_rank_time(rank, fields[k]) * 1e-9;
	}
	for (int k = 0; k < PARTS; k++) parts[k] /= steps > 0 ? steps : 1;
	parts[AT_LAUNCH] -= parts[AT_OPTIMIZER] + parts[AT_OUTSIDE];
}

static double gains_sum(const double parts[PARTS], unsigned of) {
	double sum = 0;
	for (int k = 0; k < PARTS; k++)
		if (of >> k & 1) sum += parts[k];
	return fmax(sum, 0);
}

double lk_explain_most(const lk_explanation *explanation, const lk_remedy *remedy) {
	double parts[PARTS];
	if (!explanation->kernels) return INFINITY; /* hosts alone: times are not of these parts */
	gains_parts(explanation, parts);
	return gains_sum(parts, remedy->own | remedy->others);
}

/* Take up to `wanted` seconds of the parts of a remedy, its own first; returns what there was. */
static double gains_take(double left[PARTS], const lk_remedy *remedy, double wanted) {
	const unsigned order[] = {remedy->own, remedy->others & ~remedy->own};
	double taken = 0;
	for (int o = 0; o < 2; o++)
		for (int k = 0; k < PARTS; k++) {
			if (!(order[o] >> k & 1) || !(left[k] > 0)) continue;
			double now = fmin(left[k], wanted - taken);
			left[k] -= now;
			taken += now;
		}
	return taken;
}

void lk_explain_order(const lk_explanation *explanation, int *order) {
	for (int i = 0; i < explanation->stall_count; i++) {
		int effort = lk_explain_remedy(&explanation->stalls[i])->effort, at = i;
		for (; at > 0; at--) {
			if (lk_explain_remedy(&explanation->stalls[order[at - 1]])->effort <= effort) break;
			order[at] = order[at - 1];
		}
		order[at] = i;
	}
}

void lk_explain_share(lk_explain_work *work, const int *order) {
	double left[PARTS], rest = work->result.step_s; /* parts are means over ranks */
	const lk_explanation *explanation = &work->result;
	gains_parts(explanation, left);
	for (int i = 0; i < explanation->stall_count; i++) {
		lk_explain_stall *stall = &work->stalls.at[order[i]];
		double wanted = isnan(stall->gain_s) ? stall->most_s : stall->gain_s;
		if (!isnan(stall->adds_s)) wanted = fmin(wanted, fmax(stall->adds_s, 0));
		if (!*stall->remedy || lk_explain_is_once(stall)) wanted = 0;
		wanted = fmin(wanted, fmax(rest, 0));
		stall->adds_s =
			explanation->kernels ? gains_take(left, lk_explain_remedy(stall), wanted) : wanted;
		rest -= stall->adds_s;
	}
}
