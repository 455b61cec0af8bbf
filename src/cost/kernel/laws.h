/* laws.h: laws of kernels that run alone on a device. A law states the seconds of one call by a few
 * numbers that carry over from device to device: shares of the peak and of memory bandwidth,
 * seconds of a start. They are fitted to tables of isolated kernels (`lockstep calibrate kernels`):
 * a calibration row of the law's family for each device and series. No number belongs to a software
 * stack; a stack only says which series runs.
 *
 * Each law_*.c states one law with the order of its sizes. */
#ifndef LK_COST_KERNEL_LAWS_H
#define LK_COST_KERNEL_LAWS_H

#include "base/fit.h"
#include "base/trees.h"
#include "cost/calibration/calibration.h"
#include "cost/kernel/kernel.h"
#include "graph/graph.h"
#include "hw/hw.h"

enum { LK_LAW_NUMBERS = 14, LK_LAW_SIZES = 12, LK_LAW_FEATURES = 60 };
enum { LK_LAW_FEW_ROWS = 256 }; /* up to which lk_law_few states a product */

/* A number format of kernels: what the units multiply, and what is read before. */
typedef struct lk_law_format {
	const char *name;          /* as in tables */
	lk_dtype units;            /* whose peak */
	double activation, weight; /* bytes per element, with scales */
	int reads; /* of a 16-bit activation before it is multiplied: to find its scale, to
	                            * convert it; 0: none */
} lk_law_format;

/* NULL if the name is unknown. */
const lk_law_format *lk_law_format_find(const char *name);

/* One call on an idle device. */
typedef struct lk_law_call {
	const lk_device *device;
	const lk_law_format *format;
	double size[LK_LAW_SIZES]; /* in the order of the law */
} lk_law_call;

typedef struct lk_law {
	const char *family;           /* of its calibration rows */
	const lk_fit_number *numbers; /* [count] */
	int count;
	double (*seconds)(const double *numbers, const lk_law_call *call);
	/* Change numbers fitted on one device for a relative; NULL: they carry over as they are. */
	void (*carry)(double *numbers, const lk_device *from, const lk_device *to);
	int sizes; /* that a learned correction may use: the first ones; 0: no correction */
} lk_law;

extern const lk_law lk_law_product; /* linear layers */
extern const lk_law lk_law_few;     /* the same for few rows */
/* Its product as numbers of gemm_model.c, without what a format reads before. */
lk_gemm_numbers lk_law_product_numbers(const double *numbers);
/* The shares of a product's law (efficiency, memory, cast) on another device. SMs issue the loads,
 * so a relative with faster memory keeps half of the gain. Another architecture changes the share
 * of the peak as published. */
void lk_law_carry_product(const lk_law *law, double *numbers, const lk_device *from,
                          const lk_device *to);
/* All laws; ends with NULL. */
extern const lk_law *const lk_laws[];

/* What runs, in the words of tables; "" where a table says nothing. */
typedef struct lk_law_series {
	const char *kind;   /* "linear", "context", "generation" */
	const char *format; /* "bf16" */
	const char *kernel; /* "fa3" */
	const char *library, *release;
	bool sustained; /* at the power limit; false: short runs */
} lk_law_series;

/* The variant of a series' calibration row; NULL when memory runs out. */
const char *lk_law_variant(lk_arena *arena, const lk_law_series *series);

/* Where numbers come from, from near to far. */
typedef enum lk_law_basis {
	LK_LAW_DEVICE,       /* the series itself, on this device */
	LK_LAW_SERIES,       /* another series of the kind and format on this device */
	LK_LAW_RELATIVE,     /* another device of the architecture with the same SMs */
	LK_LAW_COUSIN,       /* one whose SMs have another size: a card for graphics */
	LK_LAW_ARCHITECTURE, /* another architecture */
	LK_LAW_BASES,
} lk_law_basis;

/* A law with its numbers. */
typedef struct lk_law_fit {
	const lk_law *law;
	double numbers[LK_LAW_NUMBERS];
	double spread; /* the 80 % quantile of |ln(predicted / measured)|, widened by distance */
	lk_law_basis basis;
	/* where they come from */
	const lk_device *from;
	bool sustained;
	const lk_calibration_row *row;
} lk_law_fit;

/* Find the numbers for a series on a device. Kind and format must be equal; an empty kernel,
 * library or release matches any; then the nearest row counts: this device before a relative, then
 * the same kernel, sustained or not, the library, the nearest release, the nearest data sheet; of
 * another kernel the library before sustained or not.
 * `without` (NULL: none) is left out. False without any row of the kind and format. */
bool lk_law_find(const lk_law *law, const lk_device *device, const lk_law_series *series,
                 const lk_device *without, lk_law_fit *out);
/* Read the rows of the laws: every question that prices kernels calls it first. LK_ERR_MEMORY. */
lk_status lk_laws_ready(lk_error *err);

static inline double lk_law_seconds(const lk_law_fit *fit, const lk_law_call *call) {
	return fit->law->seconds(fit->numbers, call);
}

/* ---- rows of one calibration (calibrate kernels) ---- */

typedef struct lk_law_entry {
	const lk_law *law;
	const lk_device *device;
	lk_law_series series;
	const lk_calibration_row *row;
} lk_law_entry;

typedef struct lk_law_entries {
	lk_law_entry *at;
	int count;
} lk_law_entries;

lk_status lk_law_entries_of(const lk_calibration *rows, lk_arena *arena, const lk_law_entries **out,
                            lk_error *err);
/* The nearest of the entries that `leave` (NULL: none) does not leave out; NULL: none. */
const lk_law_entry *lk_law_nearest(const lk_law_entries *entries, const lk_law *law,
                                   const lk_device *device, const lk_law_series *series,
                                   bool (*leave)(const lk_law_entry *entry, const void *context),
                                   const void *context);
lk_law_basis lk_law_basis_of(const lk_law_entry *entry, const lk_device *device,
                             const lk_law_series *series);
/* The entry's numbers as they hold on a device. */
void lk_law_numbers_on(const lk_law_entry *entry, const lk_device *device, double *numbers);
/* The variant of the row (family "farther", subject: the law's) that holds the spread of a basis
 * beyond the series itself. */
const char *lk_law_basis_name(lk_law_basis basis);

/* ---- laws_learned.c: what a law misses, learned ----
 *
 * Boosted trees for each law and format (family "trees", subject: the law's family, variant: the
 * format) predict ln(measured / law). They hold for measured devices alone: another one has the
 * law. Steps use the law alone. */

/* x[LK_LAW_FEATURES]; return their number. */
int lk_law_features(const lk_law *law, const double *numbers, bool sustained,
                    const lk_law_call *call, double seconds, float *x);
/* The law times exp(the trees' sum), clipped; `trees` without a tree change nothing. */
double lk_law_learned(const lk_trees *trees, const lk_law *law, const double *numbers,
                      bool sustained, const lk_law_call *call);
/* With the trees of the calibration in use. */
double lk_law_corrected(const lk_law_fit *fit, const lk_law_call *call);

#endif
