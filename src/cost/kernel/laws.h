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

enum { LK_LAW_NUMBERS = 20, LK_LAW_SIZES = 12 };

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

/* What runs, in the words of tables; "" where a table says nothing. */
typedef struct lk_law_series {
	const char *kind;   /* "linear", "context_bf16": a part of a law, then what else differs */
	const char *format; /* "bf16" */
	const char *kernel; /* "fa3" */
	const char *library, *release;
	bool sustained; /* at the power limit; false: short runs */
} lk_law_series;

typedef struct lk_law {
	const char *family;           /* of its calibration rows */
	const lk_fit_number *numbers; /* [count] */
	int count;
	double (*seconds)(const double *numbers, const lk_law_call *call);
	/* Change numbers fitted on one device for a relative; NULL: they carry over as they are. */
	void (*carry)(double *numbers, const lk_device *from, const lk_device *to);
	/* A learned correction of the logarithm (base/trees.h), one for each part: the inputs and their
	 * number; 0: none. */
	int features;
	void (*describe)(const double *numbers, const lk_law_call *call, const lk_law_series *series,
	                 float *out);
} lk_law;

extern const lk_law lk_law_product, lk_law_attention, lk_law_mla;
/* All laws; ends with NULL. */
extern const lk_law *const lk_laws[];

/* The variant of a series' calibration row; NULL when memory runs out. */
const char *lk_law_variant(lk_arena *arena, const lk_law_series *series);

/* Where numbers come from, from near to far. */
typedef enum lk_law_basis {
	LK_LAW_DEVICE,       /* the series itself, on this device */
	LK_LAW_SERIES,       /* another series of the kind and format on this device */
	LK_LAW_RELATIVE,     /* another device of the architecture */
	LK_LAW_ARCHITECTURE, /* another architecture */
	LK_LAW_BASES,
} lk_law_basis;

/* A law with its numbers. */
typedef struct lk_law_fit {
	const lk_law *law;
	double numbers[LK_LAW_NUMBERS];
	double spread; /* the 80 % quantile of |ln(predicted / measured)|, widened by distance */
	lk_law_basis basis;
	const lk_calibration_row *row; /* where they come from */
	const lk_trees *trees;         /* the learned correction of its part; NULL: none */
	const lk_law_series *series;   /* what was requested: must stay valid */
} lk_law_fit;

/* Find the numbers for a series on a device. Kind and format must be equal; an empty kernel,
 * library or release matches any; then the nearest row counts: this device before a relative,
 * the same kernel, sustained or not, library, release before others. `without` (NULL: none) is
 * left out. False without any row of the kind and format. */
bool lk_law_find(const lk_law *law, const lk_device *device, const lk_law_series *series,
                 const lk_device *without, lk_law_fit *out);
/* Read the rows of the laws: every question that prices kernels calls it first. LK_ERR_MEMORY. */
lk_status lk_laws_ready(lk_error *err);

double lk_law_seconds(const lk_law_fit *fit, const lk_law_call *call);

/* The part of a series' law: "context" of "context_bf16". Rows of a part share one correction, the
 * calibration row "trees" of the law's family with the part as variant; it holds for rows of its
 * source and date. */
size_t lk_law_part_length(const lk_law_series *series);
/* Seconds with a correction; trees may be NULL. */
double lk_law_corrected(const lk_law *law, const double *numbers, const lk_trees *trees,
                        const lk_law_call *call, const lk_law_series *series);

enum { LK_SERIES_FEATURES = 7 };
/* Inputs of a correction that say what runs where. */
void lk_law_describe_series(const lk_law_call *call, const lk_law_series *series, float *out);

/* ---- attention (law_attention.c) ---- */

/* Sizes of a call. Heads are those of one device; a window of 0 is none; `causal` is 0 or 1; `cache`
 * is the bytes of a stored element. */
enum {
	LK_ATTENTION_BATCH,
	LK_ATTENTION_QUERIES,
	LK_ATTENTION_KEYS,
	LK_ATTENTION_HEADS,
	LK_ATTENTION_KV_HEADS,
	LK_ATTENTION_HEAD,
	LK_ATTENTION_WINDOW,
	LK_ATTENTION_CAUSAL,
	LK_ATTENTION_CACHE,
};

/* Terms of the law. */
typedef struct lk_attention_parts {
	double total, longest, memory, start; /* s */
	double window;                        /* keys of a query, at most */
	double keys, most;                    /* of the mean and the longest unit */
	double loose, packed, units;          /* a head a tile; a tile of many heads; as it runs */
	double splits;
} lk_attention_parts;

/* Seconds of the law and its terms. */
double lk_attention_parts_of(const double *numbers, const lk_law_call *call,
                             lk_attention_parts *out);

/* One forward pass of training; heads of one device; a window of 0 is none. */
typedef struct lk_attention_shape {
	double batch, queries, keys, heads, kv_heads, head, window;
	bool causal;
} lk_attention_shape;

/* Seconds of a forward pass in 16 bits alone (attention.c): by the law where the kernel was measured
 * on the device or a relative (FlashAttention 2 on Ampere, 3 on Hopper), without its learned
 * correction, so that more work never takes less time; else by published rates, and `basis` is
 * LK_LAW_ARCHITECTURE. The published rates know no window. */
double lk_attention_forward_seconds(const lk_device *device, lk_attention_kernel kernel,
                                    const lk_attention_shape *shape, lk_law_basis *basis);

/* ---- multi-head latent attention (law_mla.c) ---- */

enum {
	LK_MLA_BATCH,
	LK_MLA_QUERIES,
	LK_MLA_KEYS,
	LK_MLA_HEADS,
	LK_MLA_PART,       /* lk_mla_part */
	LK_MLA_GENERATION, /* 0: a prompt; 1: absorbed */
	LK_MLA_CACHE,      /* bytes of a stored element */
};

typedef enum lk_mla_part {
	LK_MLA_ATTENTION, /* the kernel alone */
	LK_MLA_MODULE,    /* the whole layer, with projections */
	LK_MLA_ABSORB,    /* one of the two absorbed products */
} lk_mla_part;

#endif
