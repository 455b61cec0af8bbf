/* compile_compare.c: dumps of executions of an emitted program, compared with the interpreter
 * within a running bound on rounding.
 *
 * Integers, indices and booleans must be equal. If two compared numbers lie within their bounds of
 * one another, an execution may choose either (run_bound.c). The run's own choices are tried first.
 * While results differ from them, the run is repeated with one more choice reversed, which is kept
 * if fewer elements differ: a choice is accepted only with all its consequences.
 *
 * Bounds of long programs are wide, since they assume the worst of every rounding, and a bound as
 * wide as the values proves nothing. If one exceeds 1/256 of the range of values and zero, a
 * measured bound replaces it if that is smaller: the run is repeated in doubles, from inputs that
 * are not rounded either, and rounding explains 64 times the largest change of the result plus a
 * rounding of its range (sums of n numbers in the format itself are off by about sqrt(n) roundings,
 * the run's by one). Elements whose bound is still as wide as the range are counted as not
 * comparable; a result without comparable elements does not agree. */
#include "lang/compile/compile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lang/run/run_internal.h"
#include "lang/run/run.h"

enum {
	COMPARE_LOOSE = 256,    /* bounds above 1/256 of the range are wide */
	COMPARE_EXPLAINED = 64, /* multiple of the change by rounding that is a measured bound */
	COMPARE_TRIES = 256,    /* runs with one more choice reversed */
	COMPARE_OTHERWISE = 64  /* reversed choices that may be accepted */
};

struct difference {
	int id;
	double range;                /* from the least to the largest value of the run and zero */
	double measured;             /* what rounding explains */
	double absolute, relative;   /* largest difference of comparable elements */
	double ratio;                /* largest ratio of a difference to its bound */
	int64_t rank, item, element; /* where the ratio is largest */
	int64_t compared;            /* elements, and of these: */
	int64_t by_measure;          /* with the measured bound */
	int64_t incomparable;        /* with a bound as wide as the range */
	int64_t beyond;              /* further apart than their bound */
};

/* A run, bounds on other executions, and the differences of the dumps. */
struct judgement {
	lc_run *run;
	lc_run *bounds;
	lc_choices choices;
	struct difference *results; /* [count of the comparison] */
	int64_t beyond;
};

struct comparison {
	const lc_program *p;
	const lc_sizes *s;
	const lk_compile_request *request;
	const char *schedule;
	int64_t ranks;
	int ids[LC_VALUES];
	double measured[LC_VALUES]; /* for each result */
	int count;
	lc_nudge otherwise[COMPARE_OTHERWISE + 1]; /* choices reversed to match the dumps */
	int otherwise_count;
	size_t near_ties;
	const struct difference *results; /* of the best judgement */
	const char *failed_check;
	char path[4096];
	lk_error *err;
};

/* ---- one element, one tensor ---- */

static void compare_element(struct difference *difference, double got, double wanted, double bound,
                            int64_t rank, int64_t item, int64_t element) {
	difference->compared++;
	if (bound > difference->range / COMPARE_LOOSE && difference->measured < bound) {
		bound = difference->measured;
		difference->by_measure++;
	}
	if (bound > 0 && !(bound < difference->range)) {
		difference->incomparable++;
		return;
	}
	if (got == wanted || (isnan(got) && isnan(wanted))) return;
	double apart = fabs(got - wanted);
	if (isnan(apart)) apart = INFINITY;
	difference->absolute = fmax(difference->absolute, apart);
	difference->relative =
		fmax(difference->relative, wanted != 0 ? apart / fabs(wanted) : INFINITY);
	double ratio = bound > 0 ? apart / bound : INFINITY;
	difference->beyond += ratio > 1;
	if (ratio <= difference->ratio) return;
	difference->ratio = ratio;
	difference->rank = rank;
	difference->item = item;
	difference->element = element;
}

/* ---- effects of rounding ---- */

/* Range of all elements of a result on all ranks. */
static double compare_range(const lc_run *run, int id) {
	double least = 0, most = 0;
	int64_t parts = lc_items(run->p, run->s, &run->p->nodes.at[id]) * run->ranks;
	for (int64_t part = 0; part < parts; part++) {
		const lc_cells *cells = &run->parts[id][part];
		for (int64_t i = 0; i < cells->count; i++) {
			if (!isfinite(cells->number[i])) continue;
			least = fmin(least, cells->number[i]);
			most = fmax(most, cells->number[i]);
		}
	}
	return most - least;
}

/* The largest change of a result from one run to another. */
static double compare_change(const lc_run *a, const lc_run *b, int id) {
	double most = 0;
	int64_t parts = lc_items(a->p, a->s, &a->p->nodes.at[id]) * a->ranks;
	for (int64_t part = 0; part < parts; part++)
		for (int64_t i = 0; i < a->parts[id][part].count; i++) {
			double apart = fabs(a->parts[id][part].number[i] - b->parts[id][part].number[i]);
			if (!isnan(apart)) most = fmax(most, apart);
		}
	return most;
}

/* Repeat the run in doubles; if an index then lies outside its table, nothing is measured. */
static lk_status compare_measure(struct comparison *comparison, const lc_run *run) {
	lc_program doubles = *run->p;
	lc_run_options o = run->o;
	lc_run *fine = NULL;
	size_t size = run->p->nodes.count * sizeof *doubles.nodes.at;
	for (int i = 0; i < comparison->count; i++) comparison->measured[i] = INFINITY;
	doubles.nodes.at = malloc(size);
	if (!doubles.nodes.at) return lk_oom(comparison->err);
	memcpy(doubles.nodes.at, run->p->nodes.at, size);
	for (size_t id = 0; id < doubles.nodes.count; id++)
		if (lc_is_real((lc_dtype)doubles.nodes.at[id].dtype) &&
		    !lc_is_weak((lc_dtype)doubles.nodes.at[id].dtype))
			doubles.nodes.at[id].dtype = LC_F64;
	o.only_results = true;
	lk_status status = lc_run_program(&doubles, run->s, &o, &fine, comparison->err);
	for (int i = 0; i < comparison->count && status == LK_OK; i++) {
		int id = comparison->ids[i];
		double rounding =
			compare_range(run, id) * lc_roundoff((lc_dtype)run->p->nodes.at[id].dtype);
		double change = compare_change(run, fine, id) + rounding;
		if (change > 0) comparison->measured[i] = COMPARE_EXPLAINED * change;
	}
	lc_run_free(fine);
	free(doubles.nodes.at);
	return status == LK_ERR_INPUT ? LK_OK : status;
}

static lk_status compare_foreign(const struct comparison *comparison, const char *what) {
	lk_fail(comparison->err, LK_ERR_INPUT, comparison->path, "%s", what);
	return lk_hint(comparison->err, "dump it with the same program, schedule, --sizes and --seed");
}

static lk_status compare_read_words(const struct comparison *comparison, FILE *file, void *out,
                                    size_t count) {
	if (fread(out, 8, count, file) == count) return LK_OK;
	return ferror(file) ? lk_fail(comparison->err, LK_ERR_IO, comparison->path, "cannot be read")
	                    : compare_foreign(comparison, "the file ends too early");
}

static lk_status compare_tensor(struct comparison *comparison, FILE *file,
                                const struct judgement *judgement, struct difference *difference,
                                int64_t rank, int64_t item) {
	const lc_cells *wanted = lc_part_of(judgement->run, difference->id, item, rank),
				   *bound = lc_part_of(judgement->bounds, difference->id, item, rank);
	double got[512];
	int64_t count;
	LK_TRY(compare_read_words(comparison, file, &count, 1));
	if (count != wanted->count)
		return compare_foreign(comparison,
		                       "a tensor with another number of elements than the program's");
	for (int64_t done = 0; done < count; done += 512) {
		int64_t n = count - done < 512 ? count - done : 512;
		LK_TRY(compare_read_words(comparison, file, got, (size_t)n));
		for (int64_t i = 0; i < n; i++)
			compare_element(difference, got[i], wanted->number[done + i], bound->number[done + i],
			                rank, item, done + i);
	}
	return LK_OK;
}

/* ---- one rank's file ---- */

static lk_status compare_file(struct comparison *comparison, FILE *file,
                              const struct judgement *judgement, int64_t rank) {
	for (int i = 0; i < comparison->count; i++) {
		const lc_node *node = &comparison->p->nodes.at[comparison->ids[i]];
		for (int64_t item = 0; item < lc_items(comparison->p, comparison->s, node); item++)
			LK_TRY(compare_tensor(comparison, file, judgement, &judgement->results[i], rank, item));
	}
	return fgetc(file) == EOF
	           ? LK_OK
	           : compare_foreign(comparison, "the file holds more than the program's results");
}

static lk_status run_compare_rank(struct comparison *comparison, const struct judgement *judgement,
                                  int64_t rank) {
	int length = snprintf(comparison->path, sizeof comparison->path, "%s/%s.%lld",
	                      comparison->request->compare, comparison->schedule, (long long)rank);
	if (length >= (int)sizeof comparison->path)
		return lk_fail(comparison->err, LK_ERR_INPUT, "--compare", "the path is too long");
	FILE *file = fopen(comparison->path, "rb");
	if (!file) {
		lk_fail(comparison->err, LK_ERR_INPUT, comparison->path, "cannot open it: %s",
		        strerror(errno));
		return lk_hint(comparison->err, "the emitted program writes it with --dump %.100s",
		               comparison->request->compare);
	}
	lk_status status = compare_file(comparison, file, judgement, rank);
	fclose(file);
	return status;
}

/* ---- judgement ---- */

static void judgement_free(struct judgement *judgement) {
	lc_run_free(judgement->run);
	lc_run_free(judgement->bounds);
	lc_choices_free(&judgement->choices);
	free(judgement->results);
	*judgement = (struct judgement){0};
}

/* Takes ownership of `run`. */
static lk_status compare_judge(struct comparison *comparison, lc_run *run, struct judgement *out) {
	*out = (struct judgement){.run = run};
	out->results = calloc((size_t)comparison->count + 1, sizeof *out->results);
	if (!out->results) return lk_oom(comparison->err);
	LK_TRY(lc_run_bounds(run, &out->bounds, &out->choices, comparison->err));
	for (int i = 0; i < comparison->count; i++)
		out->results[i] = (struct difference){.id = comparison->ids[i],
		                                      .range = compare_range(run, comparison->ids[i]),
		                                      .measured = comparison->measured[i]};
	for (int64_t rank = 0; rank < comparison->ranks; rank++)
		LK_TRY(run_compare_rank(comparison, out, rank));
	for (int i = 0; i < comparison->count; i++) out->beyond += out->results[i].beyond;
	return LK_OK;
}

/* ---- reversed choices ---- */

/* Run with one more nudge. No run if an index then lies outside its table. */
static lk_status compare_try(struct comparison *comparison, const lc_run_options *options,
                             const lc_nudge *nudge, struct judgement *out) {
	lc_run_options o = *options;
	lc_run *run;
	comparison->otherwise[comparison->otherwise_count] = *nudge;
	o.nudges = comparison->otherwise;
	o.nudge_count = comparison->otherwise_count + 1;
	*out = (struct judgement){0};
	lk_status status = lc_run_program(comparison->p, comparison->s, &o, &run, comparison->err);
	if (status == LK_ERR_INPUT) return LK_OK;
	LK_TRY(status);
	return compare_judge(comparison, run, out);
}

/* Find a choice whose reversal leaves fewer elements beyond their bounds; *found: whether there is
 * one. */
static lk_status compare_improve(struct comparison *comparison, const lc_run_options *options,
                                 struct judgement *judgement, int *tries, bool *found) {
	*found = false;
	size_t count = judgement->choices.nudges.count;
	for (size_t i = 0; *tries > 0 && i < count && !*found; i++) {
		struct judgement other;
		--*tries;
		lk_status status =
			compare_try(comparison, options, &judgement->choices.nudges.at[i], &other);
		*found = status == LK_OK && other.run && other.beyond < judgement->beyond;
		if (*found) {
			struct judgement worse = *judgement;
			*judgement = other;
			other = worse;
			comparison->otherwise_count++;
		}
		judgement_free(&other);
		LK_TRY(status);
	}
	return LK_OK;
}

static lk_status compare_follow(struct comparison *comparison, struct judgement *judgement) {
	const lc_run_options options = judgement->run->o;
	int tries = COMPARE_TRIES;
	bool found = true;
	while (judgement->beyond > 0 && found && comparison->otherwise_count < COMPARE_OTHERWISE)
		LK_TRY(compare_improve(comparison, &options, judgement, &tries, &found));
	return LK_OK;
}

/* ---- report ---- */

static bool compare_agrees(const struct difference *difference) {
	return difference->beyond == 0 &&
	       (difference->compared == 0 || difference->incomparable < difference->compared);
}

static const char *compare_verdict(const struct difference *difference) {
	if (difference->beyond > 0) return "DIFFERS";
	return compare_agrees(difference) ? "agrees" : "not comparable";
}

static void compare_put_text(const struct comparison *comparison, const struct judgement *judgement,
                             FILE *out) {
	char name[80], type[256];
	fprintf(out, "program %s, schedule %s, against %s\n", comparison->p->name, comparison->schedule,
	        comparison->request->compare);
	for (int i = 0; i < comparison->count; i++) {
		const struct difference *difference = &judgement->results[i];
		const lc_node *node = &comparison->p->nodes.at[difference->id];
		fprintf(out,
		        "%s : %s\n  %s; largest difference %.3g, relative %.3g, %.3g of the bound; %lld "
		        "elements on all ranks\n",
		        lc_result_name(comparison->p, difference->id, name, sizeof name),
		        lc_type_text(comparison->p, node, type, sizeof type), compare_verdict(difference),
		        difference->absolute, difference->relative, difference->ratio,
		        (long long)difference->compared);
		if (difference->by_measure)
			fprintf(
				out,
				"  %lld elements have wide bounds; held to %.3g, 64 times what rounding changes\n",
				(long long)difference->by_measure, difference->measured);
		if (difference->incomparable && !(difference->range > 0))
			fprintf(out, "  not comparable: %lld elements, which are 0, infinite or not numbers\n",
			        (long long)difference->incomparable);
		else if (difference->incomparable)
			fprintf(out, "  not comparable: %lld elements, which rounding alone may move by %.3g\n",
			        (long long)difference->incomparable, difference->range);
		if (difference->beyond)
			fprintf(out,
			        "  %lld elements are beyond their bounds, furthest at rank %lld, tensor %lld, "
			        "element %lld of what it holds\n",
			        (long long)difference->beyond, (long long)difference->rank,
			        (long long)difference->item, (long long)difference->element);
	}
	if (judgement->choices.count)
		fprintf(out, "%lld comparisons are within rounding of a tie; %d were decided otherwise\n",
		        (long long)judgement->choices.count, comparison->otherwise_count);
}

/* ---- fields ---- */

#define DIFFERENCE(member) LK_AT(struct difference, member)
#define COMPARED(member)   LK_AT(struct comparison, member)

static void find_difference_name(const lk_subject *subject, lk_field_value *found) {
	const struct comparison *comparison = subject->answer;
	const struct difference *difference = subject->record;
	found->text = lc_result_name(comparison->p, difference->id, found->shown, sizeof found->shown);
}

static void find_agrees(const lk_subject *subject, lk_field_value *found) {
	found->number = compare_agrees(subject->record);
}

static const lk_answer_field difference_fields[] = {
	{"name", NULL, LK_FIELD_TEXT, .get = find_difference_name},
	{"agrees", NULL, LK_FIELD_BOOL, .get = find_agrees},
	{"absolute", NULL, DIFFERENCE(absolute), .known = LK_EVEN_INFINITE},
	{"relative", NULL, DIFFERENCE(relative), .known = LK_EVEN_INFINITE},
	{"of_bound", NULL, DIFFERENCE(ratio), .known = LK_EVEN_INFINITE},
	{"elements", NULL, DIFFERENCE(compared)},
	{"beyond_bound", NULL, DIFFERENCE(beyond)},
	{"by_measure", NULL, DIFFERENCE(by_measure)},
	{"not_comparable", NULL, DIFFERENCE(incomparable)},
};
static const lk_answer_record difference_record = {LK_RECORD(struct difference, difference_fields)};

static const lk_answer_field compared_fields[] = {
	{LK_ONE(struct comparison, p, lc_program_name_record)},
	{"schedule", NULL, COMPARED(schedule)},
	{"near_ties", NULL, COMPARED(near_ties)},
	{"decided_otherwise", NULL, COMPARED(otherwise_count)},
	{"results", NULL, LK_MANY(struct comparison, results, count, difference_record)},
};
static const lk_answer_record compared_record = {LK_RECORD(struct comparison, compared_fields)};
const lk_document lc_compare_document = {"compile-compare", "`compile run --compare DIR -o json`",
                                         &compared_record,
                                         offsetof(struct comparison, failed_check), NULL};

static lk_status compare_all(lk_compile *answer, struct comparison *comparison,
                             struct judgement *judgement, FILE *out) {
	LK_TRY(compare_follow(comparison, judgement));
	for (int i = 0; i < comparison->count; i++)
		answer->no |= !compare_agrees(&judgement->results[i]);
	comparison->near_ties = judgement->choices.count;
	comparison->results = judgement->results;
	if (comparison->request->format == LK_COMPILE_JSON)
		return lc_put_document(&lc_compare_document, comparison, out, comparison->err);
	compare_put_text(comparison, judgement, out);
	return LK_OK;
}

lk_status lc_compare(lk_compile *answer, lc_run *run, const lk_compile_request *request, FILE *out,
                     lk_error *err) {
	struct comparison *comparison = calloc(1, sizeof *comparison);
	struct judgement judgement = {.run = run};
	if (!comparison) return lc_run_free(run), lk_oom(err);
	comparison->p = run->p;
	comparison->s = run->s;
	comparison->ranks = run->ranks;
	comparison->request = request;
	comparison->err = err;
	comparison->schedule = request->schedule ? request->schedule : LC_PLAIN;
	lk_status status = lc_results(run->p, comparison->ids, LC_VALUES, &comparison->count, err);
	if (status == LK_OK) status = compare_measure(comparison, run);
	if (status == LK_OK) status = compare_judge(comparison, run, &judgement);
	if (status == LK_OK) status = compare_all(answer, comparison, &judgement, out);
	judgement_free(&judgement);
	free(comparison);
	return status;
}
