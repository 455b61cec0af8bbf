/* compile_compare.c: dumps of executions of an emitted program, compared with the interpreter
 * within a running bound on rounding. */
#include "lang/compile/compile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "lang/run/run_internal.h"
#include "lang/run/run.h"

struct difference {
	int id;
	double absolute, relative;   /* the largest */
	double ratio;                /* of a difference and its bound, the largest */
	int64_t rank, item, element; /* where the ratio is largest */
	int64_t compared, unbounded; /* elements; those that have no bound */
};

struct comparison {
	const lc_run *run;
	lc_run *bounds;
	const lk_compile_request *request;
	const char *schedule;
	struct difference results[LC_VALUES];
	int count;
	char path[4096];
	lk_error *err;
};

/* ---- one element, one tensor ---- */

static void compare_element(struct difference *difference, double got, double wanted, double bound,
                            int64_t rank, int64_t item, int64_t element) {
	difference->compared++;
	if (got == wanted || (isnan(got) && isnan(wanted))) return;
	double apart = fabs(got - wanted);
	if (isnan(apart)) apart = INFINITY;
	difference->absolute = fmax(difference->absolute, apart);
	difference->relative =
		fmax(difference->relative, wanted != 0 ? apart / fabs(wanted) : INFINITY);
	if (!isfinite(bound)) {
		difference->unbounded++;
		return;
	}
	double ratio = bound > 0 ? apart / bound : INFINITY;
	if (ratio <= difference->ratio) return;
	difference->ratio = ratio;
	difference->rank = rank;
	difference->item = item;
	difference->element = element;
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
                                struct difference *difference, int64_t rank, int64_t item) {
	const lc_cells *wanted = lc_part_of(comparison->run, difference->id, item, rank),
				   *bound = lc_part_of(comparison->bounds, difference->id, item, rank);
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

static lk_status compare_file(struct comparison *comparison, FILE *file, int64_t rank) {
	for (int i = 0; i < comparison->count; i++) {
		const lc_node *node = &comparison->run->p->nodes.at[comparison->results[i].id];
		for (int64_t item = 0; item < lc_items(comparison->run->p, comparison->run->s, node);
		     item++)
			LK_TRY(compare_tensor(comparison, file, &comparison->results[i], rank, item));
	}
	return fgetc(file) == EOF
	           ? LK_OK
	           : compare_foreign(comparison, "the file holds more than the program's results");
}

static lk_status run_compare_rank(struct comparison *comparison, int64_t rank) {
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
	lk_status status = compare_file(comparison, file, rank);
	fclose(file);
	return status;
}

/* ---- what is said ---- */

static bool compare_within(const struct difference *difference) {
	return difference->ratio <= 1;
}

static void compare_put_text(const struct comparison *comparison, FILE *out) {
	char name[80], type[256];
	fprintf(out, "program %s, schedule %s, against %s\n", comparison->run->p->name,
	        comparison->schedule, comparison->request->compare);
	for (int i = 0; i < comparison->count; i++) {
		const struct difference *difference = &comparison->results[i];
		const lc_node *node = &comparison->run->p->nodes.at[difference->id];
		fprintf(out,
		        "%s : %s\n  %s; largest difference %.3g, relative %.3g, %.3g of the bound; %lld "
		        "elements on all ranks\n",
		        lc_result_name(comparison->run->p, difference->id, name, sizeof name),
		        lc_type_text(comparison->run->p, node, type, sizeof type),
		        compare_within(difference) ? "agrees" : "DIFFERS", difference->absolute,
		        difference->relative, difference->ratio, (long long)difference->compared);
		if (difference->unbounded)
			fprintf(out, "  %lld differences where rounding has no bound\n",
			        (long long)difference->unbounded);
		if (!compare_within(difference))
			fprintf(out, "  furthest at rank %lld, tensor %lld, element %lld of what it holds\n",
			        (long long)difference->rank, (long long)difference->item,
			        (long long)difference->element);
	}
}

static lk_status compare_put_json(const struct comparison *comparison, FILE *out) {
	lk_json_writer w;
	char name[80];
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/compile-compare/1");
	lk_json_put_text(&w, "program", comparison->run->p->name);
	lk_json_put_text(&w, "schedule", comparison->schedule);
	lk_json_array(&w, "results");
	for (int i = 0; i < comparison->count; i++) {
		const struct difference *difference = &comparison->results[i];
		lk_json_object(&w, NULL);
		lk_json_put_text(&w, "name",
		                 lc_result_name(comparison->run->p, difference->id, name, sizeof name));
		lk_json_put_bool(&w, "agrees", compare_within(difference));
		lk_json_put_number(&w, "absolute", difference->absolute);
		lk_json_put_number(&w, "relative", difference->relative);
		lk_json_put_number(&w, "of_bound", difference->ratio);
		lk_json_put_integer(&w, "elements", difference->compared);
		lk_json_put_integer(&w, "without_bound", difference->unbounded);
		lk_json_object_end(&w);
	}
	lk_json_array_end(&w);
	lk_json_object_end(&w);
	return lk_json_finish(&w, comparison->err);
}

static lk_status compare_all(lk_compile *answer, struct comparison *comparison, FILE *out) {
	int ids[LC_VALUES];
	LK_TRY(lc_results(comparison->run->p, ids, LC_VALUES, &comparison->count, comparison->err));
	for (int i = 0; i < comparison->count; i++)
		comparison->results[i] = (struct difference){.id = ids[i]};
	LK_TRY(lc_run_bounds(comparison->run, &comparison->bounds, comparison->err));
	for (int64_t rank = 0; rank < comparison->run->ranks; rank++)
		LK_TRY(run_compare_rank(comparison, rank));
	for (int i = 0; i < comparison->count; i++)
		answer->no |= !compare_within(&comparison->results[i]);
	if (comparison->request->format == LK_COMPILE_JSON) return compare_put_json(comparison, out);
	compare_put_text(comparison, out);
	return LK_OK;
}

lk_status lc_compare(lk_compile *answer, const lc_run *run, const lk_compile_request *request,
                     FILE *out, lk_error *err) {
	struct comparison *comparison = calloc(1, sizeof *comparison);
	if (!comparison) return lk_oom(err);
	comparison->run = run;
	comparison->request = request;
	comparison->err = err;
	comparison->schedule = request->schedule ? request->schedule : LC_PLAIN;
	lk_status status = compare_all(answer, comparison, out);
	lc_run_free(comparison->bounds);
	free(comparison);
	return status;
}
