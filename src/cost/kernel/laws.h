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
#include "graph/scan.h"
#include "hw/hw.h"

enum { LK_LAW_NUMBERS = 20, LK_LAW_SIZES = 16 };
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
	/* Where a fit begins to count |ln(predicted / measured)| by its logarithm: a larger miss is
	 * another kernel than the law's, such as the fallback of an autotuner. 0: nowhere. */
	double outlier;
	/* What a learned correction (laws_learned.c) sees of a call, and how many; 0: the law has no
	 * correction. */
	int features;
	void (*describe)(const double *numbers, const lk_law_call *call, const lk_law_series *series,
	                 float *out);
} lk_law;

extern const lk_law lk_law_product; /* linear layers */
extern const lk_law lk_law_few;     /* the same for few rows */
extern const lk_law lk_law_attention, lk_law_mla;
extern const lk_law lk_law_experts, lk_law_state, lk_law_quantize, lk_law_dispatch;
/* The numbers of lk_law_product as those of gemm_model.c, without what a format reads before. */
lk_gemm_numbers lk_law_product_numbers(const double *numbers);
/* Carry shares of a product. SMs issue the loads: a relative with faster memory keeps half of the
 * gain. Another architecture changes the share of the peak as published. */
void lk_law_carry_product(double *efficiency, double *memory, double *cast, const lk_device *from,
                          const lk_device *to);
/* All laws; ends with NULL. */
extern const lk_law *const lk_laws[];

/* The variant of a series' calibration row; NULL when memory runs out. */
const char *lk_law_variant(lk_arena *arena, const lk_law_series *series);

/* The part of a law that a series belongs to: the kind up to its first '_', and the format, as in
 * "context bf16". What is learned and how far rows miss is known for each part. */
typedef struct lk_law_part {
	char name[64];
} lk_law_part;
lk_law_part lk_law_part_of(const lk_law_series *series);

/* Whether two rows are of one fit: of the same source and date. */
bool lk_law_beside(const lk_calibration_row *a, const lk_calibration_row *b);

/* Where numbers come from, from near to far. */
typedef enum lk_law_basis {
	LK_LAW_DEVICE,       /* the series itself, on this device */
	LK_LAW_SERIES,       /* another series of the kind and format on this device */
	LK_LAW_RELATIVE,     /* another device of the architecture with the same SMs */
	LK_LAW_COUSIN,       /* one whose SMs have another size: a card for graphics */
	LK_LAW_ARCHITECTURE, /* another architecture */
	LK_LAW_BASES,
} lk_law_basis;
#define LK_LAW_CARRIES LK_LAW_RELATIVE /* the farthest basis that learned corrections carry to */

/* A law with its numbers. */
typedef struct lk_law_fit {
	const lk_law *law;
	double numbers[LK_LAW_NUMBERS];
	double spread; /* the 80 % quantile of |ln(predicted / measured)|, widened by distance */
	lk_law_basis basis;
	const lk_calibration_row *row; /* where they come from */
	const lk_device *from;         /* the row's device */
	bool sustained;                /* the row's series ran at the power limit */
} lk_law_fit;

/* Find the numbers for a series on a device. Kind and format must be equal; an empty kernel,
 * library or release matches any; then the nearest row counts: this device before a relative, then
 * the same kernel, sustained or not, the library, the nearest release, the nearest data sheet; of
 * another kernel the library before sustained or not. Of equally near ones those of a later fit
 * count, then the one of more points, which knows more shapes.
 * `without` (NULL: none) is left out. False without any row of the kind and format. */
bool lk_law_find(const lk_law *law, const lk_device *device, const lk_law_series *series,
                 const lk_device *without, lk_law_fit *out);
/* The same with the row of most points of the series on the device and its relatives: a die has one
 * anchor, so that its devices differ by their data sheets and not by what was measured on each.
 * False if they have none. */
bool lk_law_find_widest(const lk_law *law, const lk_device *device, const lk_law_series *series,
                        lk_law_fit *out);
/* Read the rows of the laws: every question that asks a law calls it first. LK_ERR_MEMORY. */
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
 * Boosted trees for each part of a law (family "trees", subject: the law's family, variant: the
 * part) predict ln(measured / law). They hold for the numbers of their own source and date, on
 * measured devices alone: another device has the law. Steps use the law alone. */

/* The law times exp(the trees' sum), clipped; `trees` without a tree change nothing. */
double lk_law_learned(const lk_trees *trees, const lk_law *law, const double *numbers,
                      const lk_law_series *series, const lk_law_call *call);
/* With the trees of the calibration in use. */
double lk_law_corrected(const lk_law_fit *fit, const lk_law_series *series,
                        const lk_law_call *call);

/* ---- law_features.c: what corrections see of a call ---- */

/* Fill features of a law of `numbers` numbers whose first three sizes are those of a product:
 * LK_SIZE_FEATURES(numbers) of them. */
#define LK_SIZE_FEATURES(numbers) (30 + (numbers))
void lk_law_describe_sizes(const lk_law *law, const double *numbers, const lk_law_call *call,
                           const lk_law_series *series, float *out);
enum { LK_SERIES_FEATURES = 7 };
/* Fill features that say what runs where. */
void lk_law_describe_series(const lk_law_call *call, const lk_law_series *series, float *out);

/* ---- attention (law_attention.c) ---- */

/* Sizes of a call. Heads are those of one device; a window of 0 is none; `causal` is 0 or 1;
 * `cache` is the bytes of a stored element. */
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

/* ---- experts, layers with a state, quantisation (law_experts.c and others) ---- */

/* Sizes of lk_law_experts. Rows, experts that are hit, and rows padded to whole tiles are those of
 * the rank; the columns of its experts are inter / tp. Of the tokens, some reach the rank; choices
 * are theirs on all ranks. */
enum {
	LK_EXPERTS_TOKENS,
	LK_EXPERTS_HIDDEN,
	LK_EXPERTS_INTER,
	LK_EXPERTS_EXPERTS,
	LK_EXPERTS_TP,
	LK_EXPERTS_GATED,
	LK_EXPERTS_ROWS,
	LK_EXPERTS_HIT,
	LK_EXPERTS_REACH,
	LK_EXPERTS_CHOICES,
	LK_EXPERTS_PADDED,
	LK_EXPERT_TILES = 3
};
#define LK_EXPERT_HEIGHTS \
	{ 16, 64, 128 }

/* Sizes of lk_law_quantize: a matrix [m, k], bytes moved per element. */
enum { LK_QUANTIZE_M, LK_QUANTIZE_K, LK_QUANTIZE_BYTES };

/* Sizes of lk_law_dispatch: tokens of one rank, experts and ranks of the group, SMs of its kernels
 * (0: not stated). */
enum {
	LK_DISPATCH_TOKENS,
	LK_DISPATCH_HIDDEN,
	LK_DISPATCH_TOPK,
	LK_DISPATCH_EXPERTS,
	LK_DISPATCH_RANKS,
	LK_DISPATCH_SMS,
};

/* Sizes of lk_law_state: what lk_state_amounts fills; after the first two as lk_state_work. */
enum {
	LK_STATE_BATCH,
	LK_STATE_LENGTH,
	LK_STATE_CHUNK,  /* tokens that are computed together */
	LK_STATE_CHAINS, /* of a sequence: heads whose chunks follow one another; 0: none */
	LK_STATE_TOKEN_BYTES,
	LK_STATE_SEQUENCE_BYTES,
	LK_STATE_TOKEN_FLOPS,
	LK_STATE_KEY_CHANNELS, /* of keys that a scan passes over more often than once */
};

/* Fill the sizes of a call of lk_law_state. */
void lk_state_amounts(const lk_state_layer *layer, lk_law_call *out);

#endif
