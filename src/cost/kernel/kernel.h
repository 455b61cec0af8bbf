/* kernel.h: shared by the kernel families within cost/. */
#ifndef LK_COST_KERNEL_KERNEL_H
#define LK_COST_KERNEL_KERNEL_H

#include "base/trees.h"
#include "cost/calibration/calibration.h"
#include "cost/collective/collective.h"
#include "graph/graph.h"
#include "hw/hw.h"

/* Duration and resources of an operation that runs alone. Shares are of the whole device, 0 to
 * 1. */
typedef struct lk_cost {
	int64_t duration_ps;
	int64_t host_ps;  /* launch: host thread time */
	int64_t lead_ps;  /* host time until its first kernel is issued: host_ps; for a MACRO only the
	                     first launch */
	int64_t tail_ps;  /* minimum run time after the host is done with it: duration_ps; for a MACRO
	                     its last kernel */
	float sm;         /* SMs occupied: compute kernels up to 1, collectives channels / SMs */
	float compute;    /* share of the duration limited by the SM count; the rest does not slow down
	                     when SMs are taken. For a MACRO chosen so that it slows down like its
	                     kernels (sim/fold_runs.c), over 1 if they wait for memory */
	float memory;     /* share of memory bandwidth used */
	float intra, nic; /* share of the links used; for a MACRO, while something in it communicates */
	float tier[LK_TIERS]; /* likewise of the busiest link of each tier between nodes */
	float linked; /* for a MACRO: share of the duration in which something in it communicates */
	float linked_alone; /* for a MACRO: likewise while nothing in it computes */
	float waves;        /* waves of thread blocks, 0: unknown; for quantisation under contention */
	float exposed;      /* few blocks that wait for memory: relative slowdown while communication
	                       moves data; of communication: while kernels run */
	float spread;       /* of independent jitter: 1; for a MACRO sqrt(sum d^2) / sum d over its
	                     * operations */
} lk_cost;

/* Fused attention kernels of different speed: cuDNN's (AITER on AMD's), cuDNN's before 9.13, which
 * differ only on Blackwell, FlashAttention 2, 3. */
typedef enum lk_attention_kernel {
	LK_ATTENTION_CUDNN,
	LK_ATTENTION_CUDNN_EARLY,
	LK_ATTENTION_FA2,
	LK_ATTENTION_FA3,
	LK_ATTENTION_TRITON, /* the first FlashAttention, written in Triton */
	LK_ATTENTIONS,
} lk_attention_kernel;

/* The few numbers that the analytic models need in addition to data sheets, for a job: base
 * constants times the profile of its software stack. None is per model, run or GPU. Sources:
 * docs/method/kernels.md, "Constants". */
typedef struct lk_constants {
	double gemm_share;        /* of the rate of the same products alone (gemm.c) */
	double vector_products;   /* factor on the measured rates of fp32 products */
	double attention_share;   /* of the published rates of the kernel below */
	double attention_start;   /* factor on the number of keys at which a sequence reaches half of
	                           * them */
	double memory_efficiency; /* of memory bandwidth, streaming kernels */
	double norm_efficiency;   /* likewise for norms and other reductions */
	double stream_issue;      /* both apply up to this many bytes per SM and clock; 0: on every
	                           * device */
	double kernel_floor_s;    /* shortest kernel */
	double launch_s;          /* host time to issue one operation, eager framework */
	double graph_launch_s;    /* likewise within a CUDA graph */
	double step_overhead_s;   /* per step: data, schedule, logging, optimizer's host work */
	double graph_step_overhead_s; /* likewise if steps are replayed from CUDA graphs */
	double expert_call_s;         /* host time of a grouped product in a loop over experts, outside
	                           * graphs, with its share of router, dispatcher, permutations */
	double expert_launch_s;       /* further time of it for each expert */
	double expert_efficiency; /* factor on the kernels of mixture-of-experts layers: permutations,
	                             grouped products */
	double graph_expert_efficiency; /* a further factor on them where nothing is issued expert by
	                                   expert: one kernel for all, or a CUDA graph */
	double network_call_s;          /* a collective of a step over one of a test: its launch, late
	                                   members */
	double network_beside;          /* relative slowdown of communication while kernels run */
	double network_factor;          /* on the time of all of them */
	double flash_share;             /* attention_share of FlashAttention's kernels */
	lk_attention_kernel attention;  /* whose kernel */
	bool narrow_attention;          /* its products run in 8 bits */
	bool grouped_experts;           /* one kernel for all experts: nothing is issued for each */
	lk_nccl_settings nccl;          /* not fitted: the job's NCCL settings */
} lk_constants;
extern const lk_constants lk_default_constants;

/* Those that a calibration states, in its row step,all. */
#define LK_STEP_NUMBERS(EACH)                                                                \
	EACH(gemm_share), EACH(attention_share), EACH(attention_start), EACH(memory_efficiency), \
		EACH(norm_efficiency), EACH(kernel_floor_s), EACH(launch_s), EACH(graph_launch_s),   \
		EACH(step_overhead_s), EACH(graph_step_overhead_s), EACH(expert_call_s),             \
		EACH(expert_launch_s), EACH(expert_efficiency), EACH(graph_expert_efficiency),       \
		EACH(network_call_s), EACH(network_beside), EACH(flash_share)

/* C[b] = A[b] B[b], b times m x k times k x n. Elements of A, B and C are as wide as the format. */
typedef struct lk_gemm_shape {
	lk_dtype dtype;
	double batch, m, n, k;
} lk_gemm_shape;

typedef struct lk_gemm_numbers {
	double efficiency; /* of dense peak, large shapes, the best tile */
	double unaligned;  /* factor on it if n or k is no multiple of 8 elements */
	double tiles;   /* exponent of the tiles' own efficiencies: 0 all equal, 1 by operand reuse */
	double fill_s;  /* first loads and epilogue of a tile */
	double floor_s; /* shortest kernel */
	double memory;  /* share of memory bandwidth, each operand read once */
	double traffic; /* share of the tiles' repeated reads that comes from memory and not from L2 */
	double blend;   /* arithmetic and memory as (a^p + b^p)^(1/p): INFINITY: the longer of the
	                 * two */
	double k_extra; /* extra steps of k per tile: its prologue and epilogue */
	double k_step;  /* k is processed in whole steps of this size; 0: any */
} lk_gemm_numbers;

/* Formats that products differ by: 16 bits and wider, 8 bits, 4 bits; and 8 bits whose operands'
 * rows have factors, for which other kernels run. */
enum { LK_PRODUCT_ROWS = 3, LK_PRODUCTS };
static inline int lk_product_of(lk_dtype dtype) {
	if (dtype == LK_NVFP4) return 2;
	return dtype == LK_FP8 || dtype == LK_MXFP8;
}
/* Products of whole steps on a device: the law of isolated ones at the power limit (gemm.c). */
void lk_step_products(const lk_device *device, lk_gemm_numbers out[LK_PRODUCTS]);

/* Where an operation runs. */
typedef struct lk_cost_site {
	const lk_constants *constants;
	lk_gemm_numbers products[LK_PRODUCTS]; /* of steps on the node's device */
	const lk_node *node;                   /* device and links of this rank */
	const lk_group_shape *groups;          /* [LK_GROUPS] as this rank sees them */
	const lk_group_shape *teams;           /* [teams of the graph] */
	bool peer_same_node[2]; /* SEND/RECV: with the next stage, with the previous one */
	double oversubscription;
	bool cuda_graphs;
	bool compiled;      /* torch.compile: fewer launches */
	bool experts_eager; /* graphs exclude the experts, whose sizes vary */
} lk_cost_site;

/* The factor on the experts' kernels. */
static inline double lk_site_experts(const lk_cost_site *site) {
	bool whole = site->constants->grouped_experts || (site->cuda_graphs && !site->experts_eager);
	return site->constants->expert_efficiency *
	       (whole ? site->constants->graph_expert_efficiency : 1);
}

/* The group of a communication operation. */
static inline const lk_group_shape *lk_site_group(const lk_cost_site *site, const lk_graph *graph,
                                                  uint32_t op) {
	unsigned group = graph->ops.group[op];
	return group == LK_GROUP_TEAM ? &site->teams[graph->ops.channel[op]] : &site->groups[group];
}

/* Bytes of the kernel that the operation is a part of (lk_op.pieces); mostly its own. */
static inline double lk_kernel_bytes(const lk_ops *ops, uint32_t op) {
	return ops->bytes[op] * (ops->pieces[op] > 1 ? ops->pieces[op] : 1);
}

/* Families; each sets the seconds of the whole kernel on an idle device and the resources. */
void lk_cost_gemm(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);
void lk_cost_grouped_gemm(const lk_graph *graph, uint32_t op, const lk_cost_site *site,
                          lk_cost *out);
void lk_cost_conv(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);
void lk_cost_attention(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);
void lk_cost_scan(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);
void lk_cost_memory(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);
void lk_cost_embedding(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);
void lk_cost_copy(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);
void lk_cost_host(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);

/* ---- gemm: the duration of a matrix product: one model, its numbers in a struct. Whole training
 * steps fill the struct from lk_constants; single kernels use the numbers fitted to their
 * device. */

/* Intermediate results of the time. */
typedef struct lk_gemm_detail {
	double compute_s, memory_s;
	double waves;     /* CTAs over SMs */
	int tile, splits; /* index of the tile; parts of k */
} lk_gemm_detail;

/* The first ones also make sense on unmeasured devices. */
enum { LK_GEMM_FEATURES = 46, LK_GEMM_GENERAL_FEATURES = 41 };

/* Seconds on an idle device by the formula. `bytes` NAN: each operand once. `detail` may be
 * NULL. */
double lk_gemm_formula(const lk_gemm_numbers *numbers, const lk_device *device,
                       const lk_gemm_shape *shape, double bytes, lk_gemm_detail *detail);

/* Inputs of the learned correction for a product on a device. */
void lk_gemm_features(const lk_gemm_numbers *numbers, const lk_device *device,
                      const lk_gemm_shape *shape, const lk_gemm_detail *detail, double seconds,
                      float *out);

/* Numbers by name, as in calibration rows. */
void lk_gemm_put(lk_calibration_row *row, const lk_gemm_numbers *numbers);
void lk_gemm_get(const lk_calibration_row *row, lk_gemm_numbers *out);

/* A model of products on one device: the formula, times exp of the learned correction if there is
 * one. */
typedef struct lk_gemm_model {
	lk_gemm_numbers numbers;
	const lk_trees *trees; /* NULL: none */
	char note[120]; /* source of the numbers, for people: "fitted to 26946 measurements on it" */
	bool measured;  /* on this device, in this format */
} lk_gemm_model;

double lk_gemm_seconds(const lk_gemm_model *model, const lk_device *device,
                       const lk_gemm_shape *shape, lk_gemm_detail *detail);

/* Numbers of the formula without correction: fitted on the device, else on the measured device of
 * its architecture with the nearest data sheet, else on all. */
void lk_gemm_numbers_of(const lk_device *device, lk_dtype dtype, lk_gemm_numbers *out);
/* Likewise without the last: false if none of the architecture was measured in that format. */
bool lk_gemm_measured(const lk_device *device, lk_dtype dtype, lk_gemm_numbers *out);

/* Read the learned corrections of the current calibration, which lk_gemm_model_of uses.
 * LK_ERR_MEMORY only. */
lk_status lk_gemm_ready(lk_error *err);
/* The current model for a device and format: numbers fitted to it, else to its relatives (its
 * architecture, then all). */
void lk_gemm_model_of(const lk_device *device, lk_dtype dtype, lk_gemm_model *out);

/* Set the duration, rounded once to picoseconds. */
/* Seconds, rounded once to picoseconds; never below 0 or NAN. Virtual time is whole picoseconds
 * everywhere else. */
int64_t lk_cost_picoseconds(double seconds);
void lk_cost_set(lk_cost *cost, double seconds);

/* Dense peak of a format, or of the nearest wider one that the device has. Never 0. */
double lk_peak_flops(const lk_device *device, lk_dtype dtype);
/* Whether the device has Blackwell's second die (B300, GB300), which the catalogue distinguishes by
 * its products in fp4. */
bool lk_blackwell_ultra(const lk_device *device);

/* Sustained rate of large products, flop/s; and of fused attention over long causal sequences at
 * head size 128, with the keys at which half of that is reached: as published (sustained.c). */
double lk_sustained_flops(const lk_device *device, lk_dtype dtype);
/* The same as a share of the peak. */
double lk_published_share(const lk_device *device, lk_dtype dtype);
typedef struct lk_attention_rate {
	double flops, start;
} lk_attention_rate;
lk_attention_rate lk_published_attention(const lk_device *device, lk_attention_kernel kernel,
                                         bool backward);
/* Rate of attention whose products run in 8 bits over the same in 16 bits: cuDNN's on long causal
 * sequences (NVIDIA/cudnn-frontend, benchmark/sdpa_benchmark_training); 1 where nobody published it
 * (sustained.c). */
double lk_narrow_attention(const lk_device *device, bool backward);
/* The head size, in 16-bit elements, whose products take as long as the exponential of a pair of
 * query and key (attention.c). */
double lk_attention_exponential(const lk_device *device, lk_attention_kernel kernel);
/* The same as reached in steps, with everything fitted on measured steps. */
double lk_step_gemm_flops(const lk_constants *constants, const lk_device *device, lk_dtype dtype);
lk_attention_rate lk_step_attention(const lk_constants *constants, const lk_device *device,
                                    bool backward);

/* Seconds of a convolution in fp32 by the faster of Winograd's algorithms; INFINITY if none applies
 * (conv.c). */
double lk_conv_winograd(const lk_graph *graph, uint32_t op, const lk_gemm_numbers *numbers,
                        const lk_device *device, double stream_rate);

/* The cost on a device with its own measurements; false without them, or for other kinds of
 * operations. */
bool lk_cost_measured(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);

/* ---- memory_model: the duration of a memory-bound kernel: one function, whose numbers are the
 * step model's constants or were fitted to measurements of one operation on one device. */

/* How blocks of threads share the work. */
typedef enum lk_memory_grid {
	LK_GRID_FLAT,  /* any thread takes any element: rows do not matter */
	LK_GRID_ROW,   /* a block per row, one thread per element up to the largest block */
	LK_GRID_HEADS, /* a block per row, one thread per four elements, up to half the largest block */
	LK_GRID_REDUCE, /* a block per row, of fixed size, that reads its row more than once */
} lk_memory_grid;

/* An operation as named in tables of measurements. */
typedef struct lk_memory_kernel {
	const char *name;
	double accesses; /* elements read and written per element of a row */
	lk_memory_grid grid;
} lk_memory_kernel;

/* NULL if the name is unknown. */
const lk_memory_kernel *lk_memory_kernel_find(const char *name);

/* The numbers: all seconds, or shares without a unit. */
typedef struct lk_memory_model {
	double efficiency;  /* of memory bandwidth, for data far larger than L2 */
	double start_s;     /* launch, first loads, last stores */
	double floor_s;     /* lower bound of a call: launches back to back */
	double cache_gain;  /* within L2 the rate grows by up to this much */
	double cache_share; /* of L2, above which the rate is memory's */
	double row_s;       /* per wave of blocks: independent of the row's width */
	double pass_s;      /* per wave of blocks and per element of every thread */
	double tail;        /* share of the last wave's idle blocks that is waited for */
	double reread; /* further accesses per element if the rows in flight do not fit the caches */
	double reread_share; /* of L2: the limit above which they do not fit */
} lk_memory_model;

enum { LK_MEMORY_NUMBERS = 10 };

/* One call. `bytes`: bytes that must go through memory once; `element`: bytes per element. */
typedef struct lk_memory_work {
	const lk_memory_kernel *kernel; /* NULL: flat */
	double bytes, rows, width, element;
} lk_memory_work;

/* The work of a named operation over rows of this width. */
lk_memory_work lk_memory_work_of(const lk_memory_kernel *kernel, double rows, double width,
                                 double element);

double lk_memory_seconds(const lk_memory_model *model, const lk_device *device,
                         const lk_memory_work *work);

/* Source of a model's numbers. */
typedef enum lk_memory_basis {
	LK_BASIS_DEVICE, /* measured on this device */
	LK_BASIS_FAMILY, /* on devices of its architecture */
	LK_BASIS_ANY,    /* on other devices */
	LK_BASIS_KIND,   /* from other operations of its kind on this device */
	LK_BASIS_NONE,   /* unmeasured: default numbers */
} lk_memory_basis;

/* The model of an operation on a device from rows of family "memory": subject the device, variant
 * "add fp16". Without such a row from relatives: geometric means of their numbers, which are shares
 * of the data sheet or times. `without`: a device whose rows are ignored, NULL: none. */
lk_memory_model lk_memory_model_find(const lk_calibration *calibration, const lk_device *device,
                                     const lk_memory_kernel *kernel, lk_dtype dtype,
                                     const lk_device *without, lk_memory_basis *basis);

/* Numbers as a list, in the order of the struct: for fitting, for calibration rows. */
typedef struct lk_memory_number {
	const char *name;
	double usual, low, high, unit; /* of the list; times unit in the struct */
	bool ratio;                    /* searched on a ratio scale */
	bool rows;                     /* only for kernels with a block per row */
	bool reduce;                   /* only for kernels that read again */
} lk_memory_number;
extern const lk_memory_number lk_memory_numbers[LK_MEMORY_NUMBERS];

bool lk_memory_number_applies(const lk_memory_number *number, const lk_memory_kernel *kernel);
lk_memory_model lk_memory_model_from(const double list[LK_MEMORY_NUMBERS]);
void lk_memory_model_list(const lk_memory_model *model, double list[LK_MEMORY_NUMBERS]);

/* ---- overlap: the slowdown of a compute kernel overlapped with communication, from its profile
 * when running alone. */

/* A launch as profiled: shares 0 to 1 of peak, occupancy or hits. The kernel's name is not used. */
typedef struct lk_overlap_kernel {
	double alone_s;
	double ratio; /* share of it that overlaps with communication */
	double compute, memory, dram;
	double achieved, maximum; /* occupancy */
	double l1, l2;
} lk_overlap_kernel;

enum { LK_OVERLAP_FEATURES = 9 };

/* Launches with equal profiles, and their joint slowdown. */
typedef struct lk_overlap_kind {
	double at[LK_OVERLAP_FEATURES];
	double slower; /* overlapped / alone - 1, at the middle of the kind */
	double spread; /* median error of its launches, |ln| of the time, predicted without them */
	int missed;    /* number of those launches */
	int count;
} lk_overlap_kind;

typedef struct lk_overlap {
	double displacement; /* relative slowdown of a kernel limited only by SMs */
	double latency;      /* likewise for few blocks that wait for device memory, per share of its
	                        bandwidth */
	lk_overlap_kind *kinds;
	size_t kind_count;
} lk_overlap;

/* Its class, for ranges and tables. */
typedef enum lk_overlap_class {
	LK_OVERLAP_SHORT, /* little more than a launch */
	LK_OVERLAP_FEW_BLOCKS,
	LK_OVERLAP_COMPUTE,
	LK_OVERLAP_MEMORY,
	LK_OVERLAP_CLASSES,
} lk_overlap_class;
extern const char *const lk_overlap_class_names[LK_OVERLAP_CLASSES];
lk_overlap_class lk_overlap_class_of(const lk_overlap_kernel *kernel);

/* The quantities that the two constants multiply: the share of the time limited only by SMs; and,
 * with few blocks, the share of memory bandwidth that they wait for. At most one is above 0. */
double lk_overlap_sm_bound(const lk_overlap_kernel *kernel);
double lk_overlap_latency_bound(const lk_overlap_kernel *kernel);

/* The kernel as a point; similar launches are near one another: at a distance of 1 they begin to
 * differ. */
void lk_overlap_place(const lk_overlap_kernel *kernel, double at[LK_OVERLAP_FEATURES]);
double lk_overlap_distance2(const double *a, const double *b);
/* Expected overlapped / alone - 1 by the two constants; seconds while overlapped with
 * communication, by kinds if one is near. */
double lk_overlap_mechanism(const lk_overlap *model, const lk_overlap_kernel *kernel);
double lk_overlap_seconds(const lk_overlap *model, const lk_overlap_kernel *kernel);
/* Typical error of such a kernel, |ln| of the time: its kind's spread, shrunk towards `usual` as if
 * one more launch had had that error; `usual` itself if no kind is near. */
double lk_overlap_spread(const lk_overlap *model, const lk_overlap_kernel *kernel, double usual);
/* How a launch's time alone is interpreted within a kind: partly as noise around the kind's own.
 * Factor on the time. */
double lk_overlap_regress(const double *kind, const double *kernel);

/* Rows of family "overlap", read and written. `out` belongs to the arena; false when memory runs
 * out. */
bool lk_overlap_load(lk_arena *arena, const lk_calibration *calibration, lk_overlap *out);
/* The number that lk_overlap.latency uses for the device, or for the measured devices. */
double lk_overlap_latency(const lk_calibration *calibration, const char *device);
bool lk_overlap_store(const lk_overlap *model, const char *device, int points, double error,
                      const char *date, const char *source, lk_calibration *out);

#endif
