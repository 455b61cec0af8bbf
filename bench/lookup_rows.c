/* lookup_rows.c: cases drawn, measured, printed and read. */
#include "lookup_rows.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "lookup_counts.h"

/* ---- drawing ---- */

enum { UNIFORM = 150, SHAPES = 84, SHARES = 72, MOST_TABLES = 24 };

/* 16 KB to 400 MB, from which 0.2 to 50 MB of rows are read; of lengths that random shapes do not
 * have, but for the shortest and the longest. */
size_t lookup_uniform(fit_case *out) {
	static const double widths[] = {4, 16, 20, 40, 64, 100, 160, 256, 400, 640, 1024};
	for (uint64_t i = 0; i < UNIFORM; i++) {
		double dim = widths[i % (sizeof widths / sizeof *widths)], u[3];
		for (uint64_t k = 0; k < 3; k++) u[k] = lk_uniform(5, 3 * i + k);
		double rows = floor(fmax(16e3 * pow(25e3, u[0]) / (4 * dim), 16)),
			   pooling = floor(pow(50, u[2]));
		double lookups = fmin(fmax(0.2e6 * pow(250, u[1]) / fmax(4 * dim, 64), 200), 600000);
		out[i] = (fit_case){
			.shape = {rows, dim, ceil(lookups / pooling), pooling, &work_laws[0], 7 + i}};
		snprintf(out[i].share, sizeof out[i].share, "uniform-%d", (int)i);
	}
	return UNIFORM;
}

/* Of any law, and of sizes that no uniform case has; reads about `most` bytes of rows at most. */
static work_shape draw(uint64_t seed, uint64_t i, double batch, double table_bytes, double most) {
	static const double widths[] = {4, 8, 12, 24, 32, 48, 96, 128, 192, 384, 512, 768, 1024};
	double u[5];
	for (int k = 0; k < 5; k++) u[k] = lk_uniform(seed, 5 * i + (uint64_t)k);
	work_shape s = {.law = &work_laws[i % (uint64_t)work_law_count], .seed = lk_hash64(seed + i)};
	s.dim = widths[(int)(u[0] * sizeof widths / sizeof *widths)];
	s.rows = floor(fmin(pow(10, 2.5 + 4.3 * u[1]), table_bytes / (4 * s.dim)));
	s.batch = batch > 0 ? batch : floor(512 * pow(2, 4 * u[2]));
	s.pooling = floor(10 * pow(60, u[3])) / 10;
	s.pooling = fmax(fmin(s.pooling, floor(10 * most / (4 * s.dim) / s.batch) / 10), 0.5);
	return s;
}

size_t lookup_shapes(uint64_t seed, fit_case *out) {
	for (uint64_t i = 0; i < SHAPES; i++) {
		out[i] = (fit_case){.shape = draw(seed, i, 0, 400e6, 100e6)};
		snprintf(out[i].share, sizeof out[i].share, "shape-%llu-%d", (unsigned long long)seed,
		         (int)i);
	}
	return SHAPES;
}

size_t lookup_shares(uint64_t seed, fit_case *out) {
	size_t count = 0;
	for (uint64_t i = 0; i < SHARES; i++) {
		uint64_t own = lk_hash64(seed * 77 + i);
		int tables = (int)floor(pow(MOST_TABLES + 1, lk_uniform(own, 900)));
		double batch = floor(256 * pow(2, 3 * lk_uniform(own, 901)));
		for (int t = 0; t < tables && count < LOOKUP_ROWS; t++, count++) {
			out[count] = (fit_case){
				.shape = draw(own, lk_hash64(own) % 1000 + (uint64_t)t, batch, 60e6, 12e6)};
			snprintf(out[count].share, sizeof out[count].share, "share-%llu-%d",
			         (unsigned long long)seed, (int)i);
		}
	}
	return count;
}

/* ---- measuring ---- */

static const char header[] = "step,law,rows,dim,batch,pooling,seed,threads,forward_us,backward_us,"
							 "forward_again_us,backward_again_us";

static void print_row(const fit_case *fitted) {
	const work_shape *shape = &fitted->shape;
	printf("%s,%s,%.0f,%.0f,%.0f,%.1f,%llu,%d,%.2f,%.2f,%.2f,%.2f\n", fitted->share,
	       shape->law->name, shape->rows, shape->dim, shape->batch, shape->pooling,
	       (unsigned long long)shape->seed, omp_get_max_threads(), fitted->measured.forward_s * 1e6,
	       fitted->measured.backward_s * 1e6, fitted->again.forward_s * 1e6,
	       fitted->again.backward_s * 1e6);
}

/* One step, into the least of the even or the odd passes. */
static void measure_step(const fit_case *cases, size_t count, work_slices *least) {
	lookup_table tables[MOST_TABLES] = {{0}};
	for (size_t i = 0; i < count; i++) work_make(&cases[i].shape, &tables[i]);
	work_measure(tables, count, least);
	for (size_t i = 0; i < count; i++) work_free(&tables[i]);
}

void lookup_measure(fit_case *cases, size_t count, double seconds) {
	static work_slices least[LOOKUP_ROWS][2]; /* of the step that begins there */
	int done = 0, halves = lookup_counts() ? 1 : 2;
	for (double begin = work_now(); done < halves || work_now() - begin < seconds; done++)
		for (size_t i = 0, end; i < count; i = end) {
			end = lookup_step_end(cases, count, i);
			measure_step(&cases[i], end - i, &least[i][done % halves]);
		}
	for (size_t i = 0, end; i < count; i = end) {
		end = lookup_step_end(cases, count, i);
		for (size_t k = i; k < end; k++) {
			cases[k].measured = work_sum(&least[i][0], NULL, k - i);
			cases[k].again = work_sum(&least[i][halves - 1], NULL, k - i);
		}
		for (int k = 0; k < 2; k++) work_slices_free(&least[i][k]);
	}
	printf("# %d passes\n%s\n", done, header);
	for (size_t i = 0; i < count; i++) print_row(&cases[i]);
}

/* ---- reading ---- */

static work_time least_of(work_time a, work_time b) {
	return (work_time){fmin(a.forward_s, b.forward_s), fmin(a.backward_s, b.backward_s)};
}

static bool parse_row(const char *line, fit_case *fitted, int *threads) {
	char law[64];
	unsigned long long seed;
	work_shape *shape = &fitted->shape;
	work_time *time = &fitted->measured, *a = &fitted->again;
	*fitted = (fit_case){.shape = {0}};
	if (sscanf(line, "%31[^,],%63[^,],%lf,%lf,%lf,%lf,%llu,%d,%lf,%lf,%lf,%lf", fitted->share, law,
	           &shape->rows, &shape->dim, &shape->batch, &shape->pooling, &seed, threads,
	           &time->forward_s, &time->backward_s, &a->forward_s, &a->backward_s) != 12)
		return false;
	for (int i = 0; i < work_law_count; i++)
		if (strcmp(law, work_laws[i].name) == 0) shape->law = &work_laws[i];
	shape->seed = seed;
	time->forward_s *= 1e-6;
	time->backward_s *= 1e-6;
	a->forward_s *= 1e-6;
	a->backward_s *= 1e-6;
	return shape->law != NULL;
}

static bool same_case(const fit_case *x, const fit_case *y) {
	const work_shape *a = &x->shape, *b = &y->shape;
	return strcmp(x->share, y->share) == 0 && a->law == b->law && a->seed == b->seed &&
	       a->rows == b->rows && a->dim == b->dim && a->batch == b->batch &&
	       a->pooling == b->pooling;
}

int lookup_read(const char *path, fit_case *out, int *threads) {
	char line[512];
	FILE *in = fopen(path, "r");
	int count = 0;
	while (in && count < LOOKUP_ROWS && fgets(line, sizeof line, in)) {
		fit_case *fitted = &out[count];
		int k = 0;
		if (!parse_row(line, fitted, threads)) continue;
		while (k < count && !same_case(&out[k], fitted)) k++;
		if (k == count) count++;
		else {
			out[k].measured = least_of(out[k].measured, fitted->measured);
			out[k].again = least_of(out[k].again, fitted->again);
		}
	}
	if (!count) fprintf(stderr, "lookup: %s: no measurements in it\n", path);
	if (in) fclose(in);
	return count ? count : -1;
}
