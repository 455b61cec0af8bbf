/* versus_mortem.c: what is left of a run that died or hangs, set against its job: the memory of the
 * fullest device by kind, and what causes would explain it; the collectives that hang, as
 * operations of the job's step. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/units.h"
#include "lockstep/postmortem.h"
#include "versus/versus.h"

struct mortem_versus {
	lk_postmortem_versus result; /* first */
	lk_arena arena;
	lk_prediction *predicted;
	lk_explanation *step;
	char measured[64];
};

static void mortem_versus_free(void *owner) {
	struct mortem_versus *of = owner;
	lk_explain_free(of->step);
	lk_predict_free(of->predicted);
	lk_arena_free(&of->arena);
	free(of);
}

/* ---- memory ---- */

/* What the allocator took at most, else took, else gave to tensors; 0: not stated. */
static double mortem_bytes(const lk_postmortem_memory *memory, const char **what) {
	*what = "reserved";
	if (memory->reserved_peak_bytes > 0) return memory->reserved_peak_bytes;
	if (memory->reserved_bytes > 0) return memory->reserved_bytes;
	*what = "allocated";
	return memory->allocated_bytes > 0 ? memory->allocated_bytes : 0;
}

static const lk_postmortem_memory *fullest_memory(const lk_postmortem *answer) {
	const lk_postmortem_memory *fullest = NULL;
	const char *what;
	for (int i = 0; i < answer->memory_count; i++) {
		double bytes = mortem_bytes(&answer->memory[i], &what);
		if (bytes > 0 && (!fullest || bytes > mortem_bytes(fullest, &what)))
			fullest = &answer->memory[i];
	}
	return fullest;
}

static lk_status compare_memory(struct mortem_versus *of, const lk_postmortem *answer,
                                const lk_postmortem_memory *memory, lk_error *err) {
	const lk_stage_memory *stage = &of->predicted->memory[of->predicted->fullest_stage];
	const struct {
		const char *kinds[3], *what;
		double predicted;
	} rows[] = {
		{{"parameters", "unsharded parameters"}, "parameters", stage->weights},
		{{"gradients"}, "gradients", stage->gradients},
		{{"optimizer states"}, "optimizer states", stage->optimizer},
		{{"activations"}, "activations", stage->activations + stage->logits},
		{{"communication", "work of the optimizer", "other"},
	     "buffers and workspace",
	     stage->workspace + stage->buffers},
	};
	enum { ROWS = sizeof rows / sizeof *rows };
	lk_postmortem_part *parts = LK_ARRAY(&of->arena, lk_postmortem_part, ROWS + 1);
	const char *what;
	double bytes = mortem_bytes(memory, &what);
	if (!parts) return lk_oom(err);
	of->result.parts = parts;
	for (int r = 0; r < ROWS && answer->kind_count; r++) {
		double measured = 0;
		for (int i = 0; i < answer->kind_count; i++)
			for (int k = 0; k < 3 && rows[r].kinds[k]; k++)
				if (answer->kinds[i].rank == memory->rank &&
				    answer->kinds[i].device == memory->device &&
				    strcmp(answer->kinds[i].kind, rows[r].kinds[k]) == 0)
					measured += answer->kinds[i].bytes;
		parts[of->result.part_count++] = (lk_postmortem_part){
			rows[r].what, rows[r].predicted, measured, measured - rows[r].predicted};
	}
	double predicted = *what == 'r' ? stage->reserved : stage->allocated;
	parts[of->result.part_count++] =
		(lk_postmortem_part){what, predicted, bytes, bytes - predicted};
	return LK_OK;
}

/* ---- collectives ---- */

static const lk_explain_comm *comm_of(const lk_explanation *step, const char *operation,
                                      int ranks) {
	for (int i = 0; i < step->comm_count; i++)
		if (strcmp(step->comm[i].kind, operation) == 0 && step->comm[i].group_size == ranks)
			return &step->comm[i];
	return NULL;
}

/* Collectives of one step of a rank, in groups of so many ranks. */
static double comms_of_group(const lk_explanation *step, const char *group) {
	double count = 0;
	for (int i = 0; i < step->comm_count; i++)
		if (strcmp(step->comm[i].group, group) == 0) count += (double)step->comm[i].count;
	return count / step->rank_count;
}

static lk_status compare_collectives(struct mortem_versus *of, const lk_postmortem *answer,
                                     lk_error *err) {
	lk_postmortem_match *matches =
		LK_ARRAY(&of->arena, lk_postmortem_match, answer->collective_count + 1);
	if (!matches) return lk_oom(err);
	of->result.matches = matches;
	for (int i = 0; i < answer->collective_count; i++) {
		const lk_postmortem_collective *stuck = &answer->collectives[i];
		const lk_explain_comm *comm = comm_of(of->step, stuck->operation, stuck->group_size);
		lk_postmortem_match match = {.operation = stuck->operation,
		                             .ranks = stuck->group_size,
		                             .sequence = stuck->sequence,
		                             .group = ""};
		if (comm && comm->count > 0) {
			match.group = comm->group;
			match.count = (double)comm->count / of->step->rank_count;
			match.bytes = comm->bytes / (double)comm->count;
			double all = comms_of_group(of->step, comm->group);
			if (stuck->sequence >= 0 && all >= 1) match.step = floor((double)stuck->sequence / all);
		}
		matches[of->result.match_count++] = match;
	}
	return LK_OK;
}

/* ---- the whole ---- */

static const char *mortem_sentence(struct mortem_versus *of, bool memory) {
	const lk_postmortem_versus *result = &of->result;
	if (memory) return of->predicted->expected->verdict;
	if (!result->match_count) return "there is nothing to compare: neither memory nor a collective";
	const lk_postmortem_match *first = &result->matches[0];
	char bytes[32];
	if (!*first->group)
		return lk_arena_printf(&of->arena,
		                       "the job has no %s among %d ranks: the program that hangs is not "
		                       "this job, or the group is one of its own (a barrier, a metric, a "
		                       "checkpoint)",
		                       first->operation, first->ranks);
	return lk_arena_printf(&of->arena,
	                       "%s among %d ranks is one of %.0f a step that the job has in the group "
	                       "%s, of %s",
	                       first->operation, first->ranks, first->count, first->group,
	                       lk_format_bytes(first->bytes, bytes, sizeof bytes));
}

static lk_status mortem_compare(struct mortem_versus *of, const lk_postmortem *answer,
                                const lk_predict_request *job, lk_error *err) {
	static const lk_explanation nobody; /* of all stages */
	const lk_postmortem_memory *memory = fullest_memory(answer);
	const char *what;
	lk_predict_request ask = *job;
	ask.no_fixes = ask.no_sensitivity = true;
	ask.step = answer->collective_count > 0;
	if (memory) {
		double bytes = mortem_bytes(memory, &what);
		snprintf(of->measured, sizeof of->measured, "%.9g GiB %s", bytes / LK_GIB, what);
		ask.measured = of->measured;
	}
	LK_TRY(lk_predict(&ask, &of->predicted, err));
	of->result.predicted = of->predicted;
	if (memory) LK_TRY(compare_memory(of, answer, memory, err));
	if (ask.step) {
		LK_TRY(lk_versus_expected(of->predicted, &nobody, &of->step, err));
		LK_TRY(compare_collectives(of, answer, err));
	}
	of->result.sentence = mortem_sentence(of, memory != NULL);
	return of->result.sentence ? LK_OK : lk_oom(err);
}

lk_status lk_versus_postmortem(lk_postmortem *answer, const lk_predict_request *job,
                               const char *text, lk_error *err) {
	struct mortem_versus *of = calloc(1, sizeof *of);
	if (!of) return lk_oom(err);
	of->result.job = text;
	lk_status status = mortem_compare(of, answer, job, err);
	if (status != LK_OK) {
		mortem_versus_free(of);
		return status;
	}
	answer->versus = &of->result;
	answer->versus_owner = of;
	answer->versus_free = mortem_versus_free;
	return LK_OK;
}
