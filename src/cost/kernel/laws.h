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
#include "cost/calibration/calibration.h"
#include "graph/graph.h"
#include "hw/hw.h"

enum { LK_LAW_NUMBERS = 14, LK_LAW_SIZES = 16 };

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
	/* Where a fit begins to count |ln(predicted / measured)| by its logarithm: a larger miss is
	 * another kernel than the law's, such as the fallback of an autotuner. 0: nowhere. */
	double outlier;
} lk_law;

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

/* Sizes of lk_law_state: what lk_state_amounts fills. */
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

typedef enum lk_state_kernel {
	LK_STATE_CONVOLUTION, /* causal, of `window` tokens, over `channels` */
	LK_STATE_MAMBA_SCAN,
	LK_STATE_DELTA_SCAN, /* gated delta net, KDA */
	LK_STATE_STEP,       /* token by token, in generation */
	LK_STATE_MHC_PRE,    /* hyper-connections of `heads` streams of `channels` */
	LK_STATE_MHC_POST,
} lk_state_kernel;

/* One kernel of a layer with a state. Mamba-2: value_dim is the head's, key_dim the state's,
 * key_heads its groups. */
typedef struct lk_state_layer {
	lk_state_kernel kernel;
	double batch, length;
	double heads, key_heads, key_dim, value_dim;
	double channels, window;
	double chunk; /* tokens of a thread block (convolution), of Mamba-2's scan */
} lk_state_layer;

/* Fill the sizes of a call of lk_law_state. */
void lk_state_amounts(const lk_state_layer *layer, lk_law_call *out);

extern const lk_law lk_law_product, lk_law_experts, lk_law_state, lk_law_quantize;
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
} lk_law_fit;

/* Find the numbers for a series on a device. Kind and format must be equal; an empty kernel,
 * library or release matches any; then the nearest row counts: this device before a relative,
 * the same kernel, sustained or not, library, release before others. `without` (NULL: none) is
 * left out. False without any row of the kind and format. */
bool lk_law_find(const lk_law *law, const lk_device *device, const lk_law_series *series,
                 const lk_device *without, lk_law_fit *out);
/* Read the rows of the laws: every question that prices kernels calls it first. LK_ERR_MEMORY. */
lk_status lk_laws_ready(lk_error *err);

static inline double lk_law_seconds(const lk_law_fit *fit, const lk_law_call *call) {
	return fit->law->seconds(fit->numbers, call);
}

/* ---- law_calls: calls of layers in training, by the laws and the numbers in use ---- */

typedef struct lk_law_estimate {
	double seconds;
	double spread; /* of lk_law_fit */
	lk_law_basis basis;
} lk_law_estimate;

/* The experts of one rank: `rows` spread evenly over its experts, of `tokens` that reach it. `inter`
 * is the rank's share of columns. Rows include what an imbalance adds. */
typedef struct lk_experts_work {
	double rows, tokens, experts, hidden, inter;
	double routed; /* experts of the layer on all ranks, which the router scores */
	bool gated;
} lk_experts_work;

/* Fill the sizes of a call of lk_law_experts. */
void lk_experts_amounts(const lk_experts_work *work, lk_law_call *out);

/* Seconds of the forward pass of a rank's experts: permutation, grouped products, weighted sum.
 * The series says kind "experts", a format of lk_law_format_find and, where known, a kernel; words
 * that are not known are "". False where nothing of the format was measured. */
bool lk_experts_estimate(const lk_device *device, const lk_law_series *series,
                         const lk_experts_work *work, lk_law_estimate *out);
/* Seconds of one kernel of a layer with a state, forward. The series' kind: "mamba2_convolution",
 * "mamba2_scan", "gdn_scan", "kda_scan", ... */
bool lk_state_estimate(const lk_device *device, const lk_law_series *series,
                       const lk_state_layer *layer, lk_law_estimate *out);
/* Time of a backward pass over the time of the forward pass. An assumption: no table of isolated
 * kernels has backward passes, so it is the ratio of work. */
double lk_state_backward(lk_state_kernel kernel);

#endif
