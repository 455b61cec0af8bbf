/* lookup.c: lookups of embedding tables on this processor: measured, predicted, and the sharding
 * study.
 *
 *     lookup measure [SECONDS] > uniform.csv       tables of all sizes alone, uniform indices
 *     lookup shares [SEED [SECONDS]] > shares.csv  random tables, 1 to 24 in a step, under all laws
 *     lookup shapes [SEED [SECONDS]] > shapes.csv  random tables alone, under all laws
 *     lookup fit all.csv [NAME] > lookups.csv      the numbers of the host's model: a row for
 *                                                  --calibration
 *     lookup score lookups.csv all.csv             predicted beside measured; errors by law and by
 *                                                  size
 *     lookup folds all.csv                         each law, then each size, predicted by a fit of
 *                                                  the others
 *     lookup tasks lookups.csv RANKS FIRST LAST SEED STORE [SECONDS [PASSES [heuristics]]]
 *                                                  random sharding tasks: each rank's share
 *                                                      measured alone, and kept in STORE
 *
 * Every time is the sum of its slices, of each the least of passes over all rows (lookup_work.c):
 * two passes, and as many as begin in SECONDS. Every second pass is kept apart: a row's two times
 * tell how well they repeat. Files may be put behind one another; of rows that were measured
 * several times the least counts. Tasks begin to be measured for SECONDS; shares that STORE knows
 * from PASSES (5) are not measured again. Threads: OMP_NUM_THREADS. Under callgrind
 * (lookup_counted.sh) cycles are counted in place of times, in one pass. LOOKUP_FIRST=N measures
 * the first N cases. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "lookup_counts.h"
#include "lookup_rows.h"
#include "lookup_tasks.h"

static fit_case rows[LOOKUP_ROWS];
static work_time predicted[LOOKUP_ROWS];

/* LOOKUP_FIRST=N: the first N cases, to see that it runs. */
static int measure(size_t count, double seconds) {
	const char *first = getenv("LOOKUP_FIRST");
	if (first && atoi(first) > 0 && (size_t)atoi(first) < count) count = (size_t)atoi(first);
	lookup_measure(rows, count, seconds);
	return 0;
}

static int fit(const char *path, const char *name) {
	lk_calibration out = {0};
	lk_host_lookup h;
	double error;
	int threads, count = lookup_read(path, rows, &threads);
	lk_calibration_row *row = count > 0 ? lk_calibration_add(&out, "lookup", name, "") : NULL;
	if (!row || !lookup_fit(rows, NULL, (size_t)count, threads, &h, &error)) return 2;
	lk_host_lookup_put(&h, row);
	row->points = 2 * count;
	row->error = error;
	row->date = "";
	row->source = "bench/lookup";
	lk_calibration_write(&out, stdout);
	lk_calibration_free(&out);
	return 0;
}

/* ---- score ---- */

static const char *size_of(const work_shape *shape) {
	double bytes = shape->rows * shape->dim * 4;
	return bytes < 2e6 ? "tables up to 2 MB" : bytes < 64e6 ? "2 to 64 MB" : "larger tables";
}

struct errors {
	const char *name;
	double forward, backward;
	int count;
};

static void add_error(struct errors *list, const char *name, double forward, double backward) {
	while (list->name && strcmp(list->name, name) != 0) list++;
	list->name = name;
	list->forward += forward;
	list->backward += backward;
	list->count++;
}

static double percent(double sum, int count) {
	return 100 * expm1(sum / count);
}

static work_time least_of(const fit_case *fitted) {
	return (work_time){fmin(fitted->measured.forward_s, fitted->again.forward_s),
	                   fmin(fitted->measured.backward_s, fitted->again.backward_s)};
}

static void score_row(const fit_case *fitted, work_time p, struct errors *folds) {
	const work_shape *shape = &fitted->shape;
	work_time m = least_of(fitted);
	double f = log(p.forward_s / m.forward_s), b = log(p.backward_s / m.backward_s);
	printf("%s,%s,%.0f,%.0f,%.0f,%.1f,%.1f,%.1f,%+.1f%%,%.1f,%.1f,%+.1f%%\n", fitted->share,
	       shape->law->name, shape->rows, shape->dim, shape->batch, shape->pooling,
	       m.forward_s * 1e6, p.forward_s * 1e6, 100 * expm1(f), m.backward_s * 1e6,
	       p.backward_s * 1e6, 100 * expm1(b));
	add_error(folds, "all", fabs(f), fabs(b));
	add_error(folds, "measured twice",
	          fabs(log(fitted->measured.forward_s / fitted->again.forward_s)),
	          fabs(log(fitted->measured.backward_s / fitted->again.backward_s)));
	add_error(folds, shape->law->name, fabs(f), fabs(b));
	add_error(folds, size_of(shape), fabs(f), fabs(b));
	add_error(folds,
	          shape->dim < 64    ? "rows below 64"
	          : shape->dim < 256 ? "rows of 64 to 255"
	                             : "longer rows",
	          fabs(f), fabs(b));
}

/* A step of several tables, as a whole. */
static void score_step(const fit_case *cases, const work_time *time, size_t count,
                       struct errors *folds) {
	work_time sum = {0}, measured = {0};
	for (size_t i = 0; i < count; i++) {
		work_time m = least_of(&cases[i]);
		sum.forward_s += time[i].forward_s;
		sum.backward_s += time[i].backward_s;
		measured.forward_s += m.forward_s;
		measured.backward_s += m.backward_s;
	}
	double f = log(sum.forward_s / measured.forward_s),
		   b = log(sum.backward_s / measured.backward_s);
	add_error(folds, count > 1 ? "whole steps of several tables" : "tables alone", fabs(f),
	          fabs(b));
}

static void print_folds(const struct errors *errors) {
	for (; errors->name; errors++)
		printf("%s,%d,%.1f%%,%.1f%%,%.1f%%\n", errors->name, errors->count,
		       percent(errors->forward, errors->count), percent(errors->backward, errors->count),
		       percent(errors->forward + errors->backward, 2 * errors->count));
}

static int score(const lk_host_lookup *lookup, const char *path) {
	struct errors folds[32] = {{0}};
	int threads, count = lookup_read(path, rows, &threads);
	if (count < 0) return 2;
	lookup_predict(lookup, rows, (size_t)count, predicted);
	puts("step,law,rows,dim,batch,pooling,forward_us,predicted_us,forward_error,backward_us,"
	     "predicted_us,backward_error");
	for (int i = 0; i < count; i++) score_row(&rows[i], predicted[i], folds);
	for (size_t i = 0, end; i < (size_t)count; i = end) {
		end = lookup_step_end(rows, (size_t)count, i);
		score_step(&rows[i], &predicted[i], end - i, folds);
	}
	puts("\nfold,shapes,forward,backward,both");
	print_folds(folds);
	return 0;
}

/* ---- folds ---- */

static const char *law_of(const work_shape *shape) {
	return shape->law->name;
}

/* Everything but one fold is fitted, that one is scored; then the next. What is left out of the fit
 * is still in the steps of the others. */
static int leave_out(const char *(*fold_of)(const work_shape *), int count, int threads,
                     struct errors *folds) {
	static bool kept[LOOKUP_ROWS];
	const char *names[16];
	int found = 0;
	for (int i = 0; i < count; i++) {
		int k = 0;
		while (k < found && strcmp(names[k], fold_of(&rows[i].shape)) != 0) k++;
		if (k == found && found < 16) names[found++] = fold_of(&rows[i].shape);
	}
	for (int k = 0; k < found; k++) {
		lk_host_lookup h;
		double error;
		for (int i = 0; i < count; i++) kept[i] = strcmp(fold_of(&rows[i].shape), names[k]) != 0;
		if (!lookup_fit(rows, kept, (size_t)count, threads, &h, &error)) return 2;
		lookup_predict(&h, rows, (size_t)count, predicted);
		for (int i = 0; i < count; i++) {
			if (kept[i]) continue;
			work_time m = least_of(&rows[i]);
			double f = fabs(log(predicted[i].forward_s / m.forward_s)),
				   b = fabs(log(predicted[i].backward_s / m.backward_s));
			add_error(folds, names[k], f, b);
			add_error(folds, "all", f, b);
		}
	}
	return 0;
}

static int folds_of(const char *path) {
	struct errors laws[32] = {{0}}, parts[32] = {{0}};
	int threads, count = lookup_read(path, rows, &threads);
	puts("left out of the fit,shapes,forward,backward,both");
	if (count <= 0 || leave_out(law_of, count, threads, laws) ||
	    leave_out(size_of, count, threads, parts))
		return 2;
	print_folds(laws);
	print_folds(parts);
	return 0;
}

/* ---- the program ---- */

static int usage(void) {
	fputs("lookup: give measure, shares [SEED], shapes [SEED], fit FILE [NAME], score FILE ROWS, "
	      "folds FILE, or tasks FILE RANKS FIRST LAST SEED STORE\n",
	      stderr);
	return 2;
}

/* What the file says is used until `hold` ends. */
static int read_host(const char *path, lk_calibration_hold *hold, lk_host_lookup *out) {
	lk_error err;
	char line[1024];
	if (lk_calibration_begin(hold, path, &err) != LK_OK)
		return fprintf(stderr, "lookup: %s\n", lk_error_text(&err, line, sizeof line)), 0;
	const lk_calibration *calibration = lk_calibration_current();
	for (size_t i = calibration->rows.count; i-- > 0;)
		if (strcmp(calibration->rows.at[i].family, "lookup") == 0 &&
		    lk_host_lookup_of(&calibration->rows.at[i], out))
			return 1;
	return fprintf(stderr, "lookup: %s: there is no row of the family lookup with all numbers\n",
	               path),
	       0;
}

/* Modes that predict: with the numbers of argv[2]. */
static int predict(int argc, char **argv) {
	lk_host_lookup h;
	lk_calibration_hold hold = {0};
	int status;
	if (!read_host(argv[2], &hold, &h)) status = 2;
	else if (strcmp(argv[1], "score") == 0 && argc > 3) status = score(&h, argv[3]);
	else if (strcmp(argv[1], "tasks") == 0 && argc >= 8)
		status =
			lookup_tasks(&h, &(lookup_tasks_options){
								 .ranks = atoi(argv[3]),
								 .first = atoi(argv[4]),
								 .last = atoi(argv[5]),
								 .seed = strtoull(argv[6], NULL, 10),
								 .store = argv[7],
								 .seconds = argc > 8 ? atof(argv[8]) : 0,
								 .passes = argc > 9 ? atoi(argv[9]) : 5,
								 .heuristics = argc > 10 && strcmp(argv[10], "heuristics") == 0});
	else status = usage();
	lk_calibration_end(&hold);
	return status;
}

int main(int argc, char **argv) {
	const char *mode = argc > 1 ? argv[1] : "";
	if (getenv("LOOKUP_COUNTS") && !lookup_counts())
		return fputs("lookup: LOOKUP_COUNTS is set, but this is not callgrind, or the program was "
		             "built without valgrind's headers; "
		             "install valgrind, make bench-lookup-counted, and run it by "
		             "bench/lookup_counted.sh\n",
		             stderr),
		       2;
	if (strcmp(mode, "measure") == 0)
		return measure(lookup_uniform(rows), argc > 2 ? atof(argv[2]) : 0);
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	if (strcmp(mode, "shapes") == 0)
		return measure(lookup_shapes(seed, rows), argc > 3 ? atof(argv[3]) : 0);
	if (strcmp(mode, "shares") == 0)
		return measure(lookup_shares(seed, rows), argc > 3 ? atof(argv[3]) : 0);
	if (argc < 3) return usage();
	if (strcmp(mode, "fit") == 0) return fit(argv[2], argc > 3 ? argv[3] : "host-cpu");
	if (strcmp(mode, "folds") == 0) return folds_of(argv[2]);
	return predict(argc, argv);
}
