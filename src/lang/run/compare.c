#include "lang/run/compare.h"

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

static void compare_element(struct difference *d, double got, double wanted, double bound, int64_t rank, int64_t item,
							int64_t element) {
	d->compared++;
	if (got == wanted || (isnan(got) && isnan(wanted))) return;
	double apart = fabs(got - wanted);
	if (isnan(apart)) apart = INFINITY;
	d->absolute = fmax(d->absolute, apart);
	d->relative = fmax(d->relative, wanted != 0 ? apart / fabs(wanted) : INFINITY);
	if (!isfinite(bound)) {
		d->unbounded++;
		return;
	}
	double ratio = bound > 0 ? apart / bound : INFINITY;
	if (ratio <= d->ratio) return;
	d->ratio = ratio, d->rank = rank, d->item = item, d->element = element;
}

static lk_status foreign(const struct comparison *c, const char *what) {
	lk_fail(c->err, LK_ERR_INPUT, c->path, "%s", what);
	return lk_hint(c->err, "dump it with the same program, schedule, --sizes and --seed");
}

static lk_status read_words(const struct comparison *c, FILE *file, void *out, size_t count) {
	if (fread(out, 8, count, file) == count) return LK_OK;
	return ferror(file) ? lk_fail(c->err, LK_ERR_IO, c->path, "cannot be read") : foreign(c, "the file ends too early");
}

static lk_status compare_tensor(struct comparison *c, FILE *file, struct difference *d, int64_t rank, int64_t item) {
	const lc_cells *wanted = lc_part_of(c->run, d->id, item, rank), *bound = lc_part_of(c->bounds, d->id, item, rank);
	double got[512];
	int64_t count;
	LK_TRY(read_words(c, file, &count, 1));
	if (count != wanted->count) return foreign(c, "a tensor with another number of elements than the program's");
	for (int64_t done = 0; done < count; done += 512) {
		int64_t n = count - done < 512 ? count - done : 512;
		LK_TRY(read_words(c, file, got, (size_t)n));
		for (int64_t i = 0; i < n; i++)
			compare_element(d, got[i], wanted->number[done + i], bound->number[done + i], rank, item, done + i);
	}
	return LK_OK;
}

/* ---- one rank's file ---- */

static lk_status compare_file(struct comparison *c, FILE *file, int64_t rank) {
	for (int i = 0; i < c->count; i++) {
		const lc_node *n = &c->run->p->nodes.at[c->results[i].id];
		for (int64_t item = 0; item < lc_items(c->run->p, c->run->s, n); item++)
			LK_TRY(compare_tensor(c, file, &c->results[i], rank, item));
	}
	return fgetc(file) == EOF ? LK_OK : foreign(c, "the file holds more than the program's results");
}

static lk_status compare_rank(struct comparison *c, int64_t rank) {
	int length = snprintf(c->path, sizeof c->path, "%s/%s.%lld", c->request->compare, c->schedule, (long long)rank);
	if (length >= (int)sizeof c->path) return lk_fail(c->err, LK_ERR_INPUT, "--compare", "the path is too long");
	FILE *file = fopen(c->path, "rb");
	if (!file) {
		lk_fail(c->err, LK_ERR_INPUT, c->path, "cannot open it: %s", strerror(errno));
		return lk_hint(c->err, "the emitted program writes it with --dump %.100s", c->request->compare);
	}
	lk_status status = compare_file(c, file, rank);
	fclose(file);
	return status;
}

/* ---- what is said ---- */

static bool within(const struct difference *d) { return d->ratio <= 1; }

static void put_text(const struct comparison *c, FILE *out) {
	char name[80], type[256];
	fprintf(out, "program %s, schedule %s, against %s\n", c->run->p->name, c->schedule, c->request->compare);
	for (int i = 0; i < c->count; i++) {
		const struct difference *d = &c->results[i];
		const lc_node *n = &c->run->p->nodes.at[d->id];
		fprintf(
			out,
			"%s : %s\n  %s; largest difference %.3g, relative %.3g, %.3g of the bound; %lld elements on all ranks\n",
			lc_result_name(c->run->p, d->id, name, sizeof name), lc_type_text(c->run->p, n, type, sizeof type),
			within(d) ? "agrees" : "DIFFERS", d->absolute, d->relative, d->ratio, (long long)d->compared);
		if (d->unbounded) fprintf(out, "  %lld differences where rounding has no bound\n", (long long)d->unbounded);
		if (!within(d))
			fprintf(out, "  furthest at rank %lld, tensor %lld, element %lld of what it holds\n", (long long)d->rank,
					(long long)d->item, (long long)d->element);
	}
}

static lk_status put_json(const struct comparison *c, FILE *out) {
	lk_json_writer w;
	char name[80];
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_text(&w, "program", c->run->p->name);
	lk_json_put_text(&w, "schedule", c->schedule);
	lk_json_array(&w, "results");
	for (int i = 0; i < c->count; i++) {
		const struct difference *d = &c->results[i];
		lk_json_object(&w, NULL);
		lk_json_put_text(&w, "name", lc_result_name(c->run->p, d->id, name, sizeof name));
		lk_json_put_bool(&w, "agrees", within(d));
		lk_json_put_number(&w, "absolute", d->absolute);
		lk_json_put_number(&w, "relative", d->relative);
		lk_json_put_number(&w, "of_bound", d->ratio);
		lk_json_put_integer(&w, "elements", d->compared);
		lk_json_put_integer(&w, "without_bound", d->unbounded);
		lk_json_object_end(&w);
	}
	lk_json_array_end(&w);
	lk_json_object_end(&w);
	return lk_json_finish(&w, c->err);
}

static lk_status compare_all(lk_compile *answer, struct comparison *c, FILE *out) {
	int ids[LC_VALUES];
	LK_TRY(lc_results(c->run->p, ids, LC_VALUES, &c->count, c->err));
	for (int i = 0; i < c->count; i++) c->results[i] = (struct difference){.id = ids[i]};
	LK_TRY(lc_run_bounds(c->run, &c->bounds, c->err));
	for (int64_t rank = 0; rank < c->run->ranks; rank++) LK_TRY(compare_rank(c, rank));
	for (int i = 0; i < c->count; i++) answer->no |= !within(&c->results[i]);
	if (c->request->format == LK_COMPILE_JSON) return put_json(c, out);
	put_text(c, out);
	return LK_OK;
}

lk_status lc_compare(lk_compile *answer, const lc_run *run, const lk_compile_request *request, FILE *out,
					 lk_error *err) {
	struct comparison *c = calloc(1, sizeof *c);
	if (!c) return lk_oom(err);
	c->run = run, c->request = request, c->err = err;
	c->schedule = request->schedule ? request->schedule : LC_PLAIN;
	lk_status status = compare_all(answer, c, out);
	lc_run_free(c->bounds);
	free(c);
	return status;
}
