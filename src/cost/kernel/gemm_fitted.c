/* gemm_fitted.c: the numbers for products on a device: rows of family "gemm" (subject: the device;
 * "" all) and the learned corrections, rows of family "trees" (subject "gemm"; variant "fp32", and
 * "fp32 other" for unmeasured devices). */
#include "base/arena.h"
#include "cost/kernel/kernel.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- numbers by name ---- */

#define AT(field) offsetof(lk_gemm_numbers, field)

static const struct number {
	const char *name;
	size_t at;
	double scale, otherwise;
} names[] = {
	{"efficiency", AT(efficiency), 1, 0.7},
	{"unaligned", AT(unaligned), 1, 1},
	{"tiles", AT(tiles), 1, 1},
	{"fill_us", AT(fill_s), 1e-6, 0},
	{"floor_us", AT(floor_s), 1e-6, 5},
	{"memory", AT(memory), 1, 0.8},
	{"traffic", AT(traffic), 1, 0},
	{"blend", AT(blend), 1, 4},
	{"k_extra", AT(k_extra), 1, 0},
	{"k_step", AT(k_step), 1, 0},
};

enum { NAMES = sizeof names / sizeof *names };

void lk_gemm_put(lk_calibration_row *row, const lk_gemm_numbers *numbers) {
	for (int i = 0; i < NAMES; i++) {
		double value = *(const double *)(const void *)((const char *)numbers + names[i].at);
		lk_calibration_put(row, names[i].name, value / names[i].scale);
	}
}

void lk_gemm_get(const lk_calibration_row *row, lk_gemm_numbers *out) {
	for (int i = 0; i < NAMES; i++) {
		double *value = (double *)(void *)((char *)out + names[i].at);
		*value = lk_calibration_value(row, names[i].name, names[i].otherwise) * names[i].scale;
	}
	/* a user's file may hold anything */
	out->efficiency = fmax(out->efficiency, 1e-3);
	out->unaligned = fmax(out->unaligned, 1e-3);
	out->memory = fmax(out->memory, 1e-3);
	out->blend = fmax(out->blend, 0.5);
	out->floor_s = fmax(out->floor_s, 1e-9);
	out->fill_s = fmax(out->fill_s, 0);
	out->traffic = fmax(out->traffic, 0);
}

/* ---- the learned corrections in use ---- */

struct corrections {
	lk_trees measured[LK_DTYPES], others[LK_DTYPES];
};

/* A test reads the compiled-in trees, and a user's are read with their file: an error can only be
 * memory. */
static lk_status read_trees(const lk_calibration *rows, lk_arena *arena, const char *variant,
                            lk_trees *out, lk_error *err) {
	const lk_calibration_row *row = lk_calibration_find(rows, "trees", "gemm", variant);
	*out = (lk_trees){0};
	if (row && row->text) LK_TRY(lk_trees_read(arena, row->text, row->where, out, err));
	if (out->features > LK_GEMM_FEATURES) out->count = 0;
	return LK_OK;
}

static lk_status corrections_make(const lk_calibration *rows, lk_arena *arena, const void **out,
                                  lk_error *err) {
	struct corrections *made = LK_NEW(arena, struct corrections);
	if (!made) return lk_oom(err);
	for (int d = 0; d < LK_DTYPES; d++) {
		char other[32];
		snprintf(other, sizeof other, "%s other", lk_dtype_name((lk_dtype)d));
		LK_TRY(read_trees(rows, arena, lk_dtype_name((lk_dtype)d), &made->measured[d], err));
		LK_TRY(read_trees(rows, arena, other, &made->others[d], err));
	}
	*out = made;
	return LK_OK;
}

static lk_status corrections_in_use(const struct corrections **out, lk_error *err) {
	const void *made = NULL;
	lk_status status = lk_calibration_made(LK_CALIBRATION_GEMM, corrections_make, &made, err);
	*out = made;
	return status;
}

lk_status lk_gemm_ready(lk_error *err) {
	const struct corrections *unused;
	return corrections_in_use(&unused, err);
}

/* ---- the current model ---- */

static const lk_calibration_row *fitted_row_of(const char *subject, lk_dtype dtype) {
	return lk_calibration_find(lk_calibration_current(), "gemm", subject, lk_dtype_name(dtype));
}

/* The format whose measurements are used for this one: tensor cores run bf16 like fp16; narrower
 * formats are nearest to it. */
static lk_dtype fitted_stand_in(const lk_device *device, lk_dtype dtype) {
	if (fitted_row_of(device->name, dtype) || dtype == LK_FP32) return dtype;
	return LK_FP16;
}

/* The measured device of the same architecture with the nearest peak and memory; NULL: none. */
static const lk_calibration_row *fitted_relative(const lk_device *device, lk_dtype dtype,
                                                 const lk_device **which) {
	const lk_calibration_row *best = NULL;
	double least = INFINITY;
	for (int i = 0; i < lk_device_count(); i++) {
		const lk_device *d = lk_device_at(i);
		const lk_calibration_row *row =
			d->arch == device->arch ? fitted_row_of(d->name, dtype) : NULL;
		if (!row) continue;
		double far = fabs(log(d->vector_flops / device->vector_flops)) +
		             fabs(log(d->memory_rate / device->memory_rate));
		if (far < least) {
			least = far;
			best = row;
			*which = d;
		}
	}
	return best;
}

void lk_gemm_model_of(const lk_device *device, lk_dtype dtype, lk_gemm_model *out) {
	static const struct corrections none;
	const struct corrections *in;
	lk_error unused;
	if (corrections_in_use(&in, &unused) != LK_OK) in = &none;
	lk_dtype like = fitted_stand_in(device, dtype);
	const lk_calibration_row *row = fitted_row_of(device->name, like);
	const lk_device *which = NULL;
	memset(out, 0, sizeof *out);
	out->measured = row && like == dtype;
	const char *format = lk_dtype_name(like);
	if (row) {
		out->trees = &in->measured[like];
		snprintf(out->note, sizeof out->note, "fitted to %d measurements on it in %s", row->points,
		         format);
	} else if (in->others[like].count == 0 && (row = fitted_relative(device, like, &which))) {
		snprintf(out->note, sizeof out->note, "not measured: as on %s in %s, by data sheets",
		         which->name, format);
	} else {
		row = fitted_row_of("", like);
		out->trees = row ? &in->others[like] : NULL;
		snprintf(out->note, sizeof out->note,
		         "not measured: as on all measured devices in %s, by data sheets", format);
	}
	lk_gemm_get(row, &out->numbers);
}

bool lk_gemm_measured(const lk_device *device, lk_dtype dtype, lk_gemm_numbers *out) {
	const lk_device *which = NULL;
	const lk_calibration_row *row = fitted_relative(device, dtype, &which);
	if (row) lk_gemm_get(row, out);
	return row != NULL;
}

void lk_gemm_numbers_of(const lk_device *device, lk_dtype dtype, lk_gemm_numbers *out) {
	const lk_device *which = NULL;
	const lk_calibration_row *row = fitted_row_of(device->name, dtype);
	if (!row) row = fitted_relative(device, dtype, &which);
	if (!row) row = fitted_row_of("", dtype);
	lk_gemm_get(row, out);
}
