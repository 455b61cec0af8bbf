/* tables.h: a table of measured training runs, read as jobs on clusters. The columns are described
 * in docs/reference/tables.md, "Tables of runs": shape of the network, hardware, layout, numbers,
 * software, measured step time. */
#ifndef LK_TABLES_TABLES_H
#define LK_TABLES_TABLES_H

#include "base/vec.h"
#include "cost/collective/collective.h"
#include "cost/cost.h"
#include "cost/kernel/kernel.h"
#include "cost/kernel/laws.h"
#include "hw/hw.h"
#include "io/stream.h"
#include "model/layout/job.h"
#include "model/network/dlrm.h"
#include "model/network/model.h"
#include "rollout/rollout.h"
#include "lockstep/error.h"
#include "lockstep/predict.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

typedef struct lk_run {
	const char *id, *where;                    /* as in the table, or its line; "file:line" */
	const char *model, *gpu, *stack, *release; /* as in the table */
	const char *source;                        /* where it was published; "" */
	const char *suspect;                       /* why it is not to be scored; "" */
	const char *note;                          /* parts of the row that were not used; "" */
	const char *refused;                       /* why it cannot be predicted; "" */
	double measured_s;                         /* NAN: not stated */
	lk_job job;                                /* completed, unless refused */
	lk_cluster cluster;
} lk_run;

typedef LK_VEC(lk_run) lk_runs;

/* Read all rows; the arena owns the texts, and the vector must be freed with lk_vec_free in every
 * case. A value that cannot be read is an error with file, line and column; a row whose job is
 * invalid, or that lacks a value without default, is kept with `refused` set. */
lk_status lk_runs_read(lk_arena *arena, lk_stream *in, lk_runs *out, lk_error *err);

/* Append the rows of further tables. */
lk_status lk_runs_read_files(lk_arena *arena, const char *const *paths, int count, lk_runs *out,
                             lk_error *err);

/* "tp4 pp8 vp5 dp2 mbs1 zero1 sp": the layout, which rank comparisons vary; NULL when memory runs
 * out. */
const char *lk_run_layout(lk_arena *arena, const lk_run *run);

/* The scaling series of a run: everything that stays the same while GPUs and, with them,
 * data-parallel ranks are added. Network, task, sequence, GPU and its network, stack and release,
 * number format, all degrees except data parallelism, micro-batch, sharding, recomputation,
 * attention kernel. The batch may grow or stay: speed is per token. NULL when memory runs out. */
const char *lk_run_series(lk_arena *arena, const lk_run *run);

/* ---- collective_rows: a table of measured collectives (collectives.csv), each row with the nodes
 * that it ran on. */

/* What the time of a row holds besides the collective. */
typedef enum lk_coll_method {
	LK_COLL_NCCL_TESTS,  /* nothing: a process or a thread for each GPU */
	LK_COLL_ONE_PROCESS, /* one process launches one GPU after another (nccl-tests -g 8) */
	LK_COLL_HOST_PACED,  /* PyTorch issues calls one after another, slower than small ones run */
	LK_COLL_HOST_TIMED,  /* PyTorch issues a call and waits for its end */
} lk_coll_method;

typedef struct lk_coll_row {
	lk_coll_kind kind;
	lk_coll_method method;
	int gpus, nodes;
	double bytes, us;                  /* out of place; NAN not stated */
	const char *gpu;                   /* as in the table */
	const char *fabric;                /* its short name: "NDv4", "vidur a100_dgx" */
	const char *text, *source, *where; /* of the table; "file:line" */
	const char *slow;                  /* why the fabric is known to be slow; "" */
	const char *refused;               /* why it cannot be predicted; "" */
	lk_node node;              /* an NVLink domain; `nodes` counts domains, not trays of a rack */
	bool network_stated;       /* whether the table states the network between nodes */
	lk_nccl_settings settings; /* its NCCL settings: release, algorithm, NVLS off */
} lk_coll_row;

typedef LK_VEC(lk_coll_row) lk_coll_rows;

/* Read all rows; the arena owns the texts, the vector must be freed with lk_vec_free in every
 * case. */
lk_status lk_coll_rows_read(lk_arena *arena, lk_stream *in, lk_coll_rows *out, lk_error *err);
/* Read the runs of a log of nccl-tests as rows of the fabric "default", on the default nodes of its
 * GPU; `source` is borrowed. A log that does not name its test, GPUs or ranks is an error. */
lk_status lk_coll_rows_of_log(lk_arena *arena, lk_stream *in, const char *source, lk_coll_rows *out,
                              lk_error *err);
/* Whether a text is a table: it begins with a header that has commas. */
bool lk_coll_is_table(const char *text);
/* Read a table or a log. */
lk_status lk_coll_rows_read_any(lk_arena *arena, lk_stream *in, lk_coll_rows *out, lk_error *err);
/* Append the rows of further tables and logs. */
lk_status lk_coll_rows_read_files(lk_arena *arena, const char *const *paths, int count,
                                  lk_coll_rows *out, lk_error *err);

/* Find a device by its name in a table or a log; NULL. */
const lk_device *lk_coll_device(const char *text);
/* Number of NVLink domains of `hosts` hosts: the trays of a rack are one. */
int lk_coll_domains(const lk_device *device, int gpus, int hosts);
/* Fill the node of a row, from the words of its fabric and the default wiring of the device, and
 * count domains instead of hosts. */
void lk_coll_row_wire(lk_coll_row *row, const lk_device *device);

/* Group of a row; `fabric` may be NULL. */
lk_group_shape lk_coll_row_group(const lk_coll_row *row, const lk_fabric *fabric);

/* ---- dlrm_table: a table of training steps of recommendation models, timed on one device.
 *
 *     gpu,model,batch_size,measured_iter_ms        (or measured_iter_ms_digitised)
 *
 * model: a preset of data/recommenders, or the path of a config that ends in .json. */

typedef struct lk_dlrm_run {
	const char *gpu, *name, *where;
	const lk_device *device; /* NULL: not in the catalogue */
	lk_dlrm model;
	bool known;
	double batch, seconds;
} lk_dlrm_run;

typedef LK_VEC(lk_dlrm_run) lk_dlrm_runs;

/* Read all rows; the arena owns texts and tables, the vector must be freed in every case. */
lk_status lk_dlrm_runs_read(lk_arena *arena, lk_stream *in, lk_dlrm_runs *out, lk_error *err);

/* ---- memory_table: a table of measured memory: launch flags of Megatron-LM as columns, allocated
 * and peak bytes of the last pipeline stage. Each row becomes a job through the same readers as a
 * pasted launch line. */

typedef struct lk_memory_run {
	const char *where;              /* "file:line" */
	const char *model, *test, *env; /* as in the table */
	const char *gpu, *class;        /* device; one of lk_memory_classes */
	const char *refused;            /* why it cannot be predicted; "" */
	const char *suspect;            /* why it is not to be scored; "" */
	const char *note;               /* assumptions; "" */
	double steady,
		peak;   /* bytes allocated by torch after a step, and their maximum; NAN: not stated */
	lk_job job; /* completed, unless refused */
	lk_cluster cluster;
} lk_memory_run;

typedef LK_VEC(lk_memory_run) lk_memory_runs;

/* Read all rows; the arena owns the texts, and the vector must be freed with lk_vec_free in every
 * case. */
lk_status lk_memory_read(lk_arena *arena, lk_stream *in, lk_memory_runs *out, lk_error *err);

/* memory_flags.c: flags that have no column in the table, by the test's name, as one text; NULL
 * when memory runs out. */
const char *lk_memory_flags(lk_arena *arena, const char *model, const char *test);

/* ---- mlperf_table: measured steps of MLPerf submissions: benchmark, gpu, nodes, gpus_per_node,
 * n_gpu, gbs, step_s, framework, source. */

typedef struct lk_mlperf_run {
	const char *id, *benchmark, *gpu, *framework, *where;
	const char *round; /* "v5.0"; "": not stated */
	int nodes, gpus;
	int named_nodes; /* nodes stated by the system's name ("..._n4") if the table differs; 0 */
	double batch, seconds; /* NAN: not stated */
} lk_mlperf_run;

typedef LK_VEC(lk_mlperf_run) lk_mlperf_runs;

/* The arena owns the texts; the vector must be freed in every case. */
lk_status lk_mlperf_read(lk_arena *arena, lk_stream *in, lk_mlperf_runs *out, lk_error *err);

/* ---- models_table: a table of whole networks, timed on one device or a few: fp32, run operator by
 * operator.
 *
 *     gpu,model,phase,seq,batch,mode,n_gpu,e2e_ms,fwd_ms,bwd_ms
 *
 * phase: inf or train (forward and backward, no optimizer). mode: single; fusion (compiled); dpN,
 * tpN, ppN_M (data, tensor and pipeline parallel, M micro-batches). */

typedef struct lk_model_run {
	const char *gpu, *name, *phase, *mode, *where;
	const lk_device *device; /* NULL: not in the catalogue */
	lk_model model;          /* of a known name */
	bool known;
	bool train, compiled;
	int data, tensor, stages, micro; /* 1 if not split */
	double seq, batch;               /* the batch over all devices */
	double seconds;
} lk_model_run;

typedef LK_VEC(lk_model_run) lk_model_runs;

/* Read all rows; the arena owns the texts, the vector must be freed in every case. */
lk_status lk_models_read(lk_arena *arena, lk_stream *in, lk_model_runs *out, lk_error *err);

/* ---- nccl_log: what nccl-tests print (NVIDIA/nccl-tests@a0b82b2), as text or as JSON (-J), read
 * as measurements. */

typedef struct lk_nccl_point {
	double bytes;
	double us, in_place_us; /* mean over equal sizes of a run; NAN: not measured */
	double busbw;           /* GB/s, of the time of lk_nccl_point_us; NAN */
	int runs;               /* number of averaged lines */
} lk_nccl_point;

/* One run of one test. */
typedef struct lk_nccl_run {
	lk_coll_kind kind;
	bool kind_known;       /* whether the log, its name or its rates tell the test */
	int gpus, nodes;       /* 0: not stated */
	const char *device;    /* "NVIDIA A100-SXM4-40GB"; "" not stated */
	const char *where;     /* "file:line" of its first row */
	lk_nccl_point *points; /* by size */
	int count;
} lk_nccl_run;

typedef LK_VEC(lk_nccl_run) lk_nccl_runs;

/* Read all runs of a log; the arena owns their contents, the vector must be freed with lk_vec_free
 * in every case. Lines that are not rows of a table are skipped; a text without any row is an
 * error. */
lk_status lk_nccl_log_read(lk_arena *arena, lk_stream *in, lk_nccl_runs *out, lk_error *err);

/* Fail for a run whose test is unknown: `option` ("--op"), unless NULL, is named as a way to set
 * it. */
lk_status lk_nccl_ask_kind(const lk_nccl_run *run, const char *option, lk_error *err);

/* Time of a point: out of place if measured. */
double lk_nccl_point_us(const lk_nccl_point *point);

/* Read the whole of a stream, owned by the arena, '\0' after it. */
lk_status lk_nccl_log_text(lk_arena *arena, lk_stream *in, char **text, size_t *size,
                           lk_error *err);

/* ---- ops_table: a table of measured kernel times: one row is one operation of one shape on one
 * device. Two forms of the table are read, told apart by their columns
 * (docs/method/kernels.md):
 *
 *     gpu,op,m,n,k,dtype,time_ms,n_meas,model       matrix products have k, memory-bound operations
 *                                                   do not
 *     op,gpu,...,d0,d1,d2,d3,...,latency_ms         fp32; products: batch, m, n, k; others: rows,
 *                                                   width
 */

typedef enum lk_op_family {
	LK_FAMILY_GEMM,   /* C[b] = A[b] B[b]: m x k times k x n, b times */
	LK_FAMILY_MEMORY, /* over m rows of n elements; batch 1, k 0 */
} lk_op_family;

typedef struct lk_op_sample {
	const char *op, *gpu,
		*where;        /* as in the table; "file:line". Equal texts of op and gpu are one pointer */
	const char *model; /* the network it was profiled for; "": not stated */
	const lk_device *device; /* of the catalogue; NULL: unknown */
	lk_op_family family;
	lk_dtype dtype;
	double batch, m, n, k; /* whole numbers from 1 */
	double seconds;
	int points; /* averaged measurements, 1 if not stated */
} lk_op_sample;

typedef LK_VEC(lk_op_sample) lk_op_samples;

/* Read all rows; the arena owns the texts, and the vector must be freed with lk_vec_free in every
 * case. A value that cannot be read is an error with file, line and column. */
lk_status lk_ops_read(lk_arena *arena, lk_stream *in, lk_op_samples *out, lk_error *err);

/* ---- kernel_table: a table of isolated kernels (kernels_*_2026.csv.gz). */

typedef struct lk_kernel_row {
	const lk_law *law;
	lk_law_call call;
	lk_law_series series;
	const char *gpu, *where; /* as in the table; "file:line" */
	const char *text;        /* its sizes: "m 4096 n 1024 k 8192" */
	const char *refused;     /* why it cannot be predicted; "" */
	uint64_t shape;          /* equal for calls that a fold leaves out together */
	double seconds;
} lk_kernel_row;

typedef LK_VEC(lk_kernel_row) lk_kernel_rows;

/* Read all rows; the arena owns the texts, the vector must be freed with lk_vec_free in every
 * case. A value that cannot be read is an error with file, line and column. */
lk_status lk_kernel_rows_read(lk_arena *arena, lk_stream *in, lk_kernel_rows *out, lk_error *err);

/* ---- expert_loads: how many rows the experts of the busiest rank get, as tables of experts state
 * their routing. */

typedef struct lk_expert_routing {
	double tokens, experts, topk, ranks;
	double skew; /* exponent of the power law of tokens per expert; 0: all get the same */
} lk_expert_routing;

typedef struct lk_expert_load {
	double rows, hit, reach;        /* of the rank: rows, experts with rows, tokens with a row */
	double padded[LK_EXPERT_TILES]; /* rows when each expert's are padded to whole tiles */
} lk_expert_load;

typedef struct lk_expert_loads {
	struct lk_expert_slot *slots; /* those computed before */
} lk_expert_loads;

/* The mean over draws of the routing; memory from the arena. NULL when memory runs out. */
const lk_expert_load *lk_expert_load_of(lk_arena *arena, lk_expert_loads *loads,
                                        const lk_expert_routing *routing);

/* ---- stack_defaults: what a table of runs leaves empty, by software stack. */

typedef struct lk_stack_defaults {
	const char *stack;     /* column `stack` of the table of runs */
	const char *job_stack; /* lk_job.stack, whose rules of layout, padding and buckets apply */
	/* for columns that may be empty */
	lk_sharding sharding;
	lk_recompute recompute;
	lk_attn_kernel attention;
	lk_dtype dtype;
	/* for values without a column */
	double dropout, moe_imbalance;
	const char *source; /* where this is stated, or why it is assumed */
} lk_stack_defaults;

/* Find the entry of the stack; unknown stacks get the entry of the stack "". Never NULL. */
const lk_stack_defaults *lk_stack_defaults_of(const char *stack);

/* All entries, for documents and tests; NULL past the end. */
const lk_stack_defaults *lk_stack_defaults_at(int index);

/* ---- throughput: measured training throughput of BERT and of convolution nets, from published
 * tables. */

/* One row; fields that its table lacks are empty. */
typedef struct lk_throughput_run {
	const char *id, *where;
	const char *stack;       /* whose code: "tensorflow", "mlperf bert" */
	const char *model;       /* a preset */
	const char *gpu;         /* as in the table */
	const lk_device *device; /* NULL: unknown */
	lk_dtype dtype;
	const char *precision; /* "fp32", "tf32", "fp16" */
	int gpus;
	int mbs, steps;        /* samples per GPU at once; micro-batches per update */
	int seq;               /* 0: images */
	bool reduces_late;     /* gradients are reduced after the backward pass */
	bool unfused;          /* attention as separate kernels */
	bool compiled;         /* element-wise work is fused */
	const char *optimizer; /* NULL: lamb of BERT, sgd of images */
	double seconds;        /* per step of all GPUs */
	const char *why_not;   /* why it cannot be predicted; NULL */
} lk_throughput_run;
typedef LK_VEC(lk_throughput_run) lk_throughput_runs;

/* Read tables of throughput by GPUs (cnn_bert_scaling.csv): framework, model_path, gpu, n_gpu,
 * batch_cols, precision, throughput, extra, section. Texts belong to the arena. */
lk_status lk_throughput_read(lk_arena *arena, lk_stream *in, lk_throughput_runs *out,
                             lk_error *err);

/* ---- inference: tables of what inference engines generate (inference_throughput.csv): sequences
 * of one length that all wait at the start. */

/* One row. The arena that the table was read into owns its model and cluster. */
typedef struct lk_inference_run {
	const char *id, *where, *software, *model, *gpu, *precision; /* texts of the table */
	lk_engine engine;
	double prompt, response; /* tokens of every sequence */
	size_t sequences;
	double seconds;   /* until all are finished; of served requests: from a token to the next */
	lk_served served; /* of served requests; sequences 0: they all wait at the start */
	double first_s;   /* of served requests: to the first token; 0: not stated */
	bool suspect;
	const char *why_not; /* why it cannot be predicted; NULL */
} lk_inference_run;
typedef LK_VEC(lk_inference_run) lk_inference_runs;

/* Read the columns engine, model, shape (as in tables of training runs), gpu, n_gpu, pp, attn_dp,
 * ep, isl, osl, precision, kv_precision, batch, num_requests, out_tok_s, ttft_ms, suspect. A batch
 * without requests is a batch that runs from start to end. */
lk_status lk_inference_read(lk_arena *arena, lk_stream *in, lk_inference_runs *out, lk_error *err);
/* Served requests: the time per token with a number of them in flight (serving_2026.csv). */
lk_status lk_serving_read(lk_arena *arena, lk_stream *in, lk_inference_runs *out, lk_error *err);

/* ---- post: tables of steps of reinforcement learning (rl_runs.csv). */

/* One row: the request that predicts it. The arena that the table was read into owns the texts. */
typedef struct lk_post_run {
	const char *id, *where, *software, *model, *gpu, *precision; /* texts of the table */
	const char *kind; /* placement, "on the same GPUs", "lag 1" */
	lk_predict_request request;
	double seconds; /* of a step */
	bool suspect;
	const char *why_not; /* why it cannot be predicted; NULL */
} lk_post_run;
typedef LK_VEC(lk_post_run) lk_post_runs;

/* Read the columns framework, algorithm, model, gpu, n_gpu, gen_gpus, colocated, async_lag, the
 * training layout, gen_tp, gen_pp, lengths, batches, step_s, suspect. */
lk_status lk_post_read(lk_arena *arena, lk_stream *in, lk_post_runs *out, lk_error *err);

/* ---- finetune: tables of fine-tuning runs (finetune_runs.csv). */

typedef enum lk_run_verdict {
	LK_RUN_UNSTATED, /* or on a GPU that the table does not name */
	LK_RUN_RAN,
	LK_RUN_OUT_OF_MEMORY,
} lk_run_verdict;

/* One row: the request that predicts it, and what was measured (NAN: not stated). The arena that
 * the table was read into owns the texts. */
typedef struct lk_finetune_run {
	const char *id, *where, *stack, *release, *model, *gpu, *task, *sharding, *precision;
	const char *suspect; /* why it is not to be scored; "" */
	const char *why_not; /* why it cannot be predicted; NULL */
	lk_predict_request request;
	bool doubled;   /* a sample is two sequences */
	bool names_gpu; /* else the memory of another GPU is asked, and no verdict or time */
	double usable;  /* bytes of a board that is named by its memory; NAN: the GPU's */
	bool at_most;   /* sequences are shorter than the request's, by how much is not known */
	double reserved, allocated, device; /* peaks, bytes: of the allocator, of tensors, of all */
	double seconds;                     /* of a step */
	lk_run_verdict verdict;
	double longest; /* sequence that fits, tokens; or batch of a GPU, if `of_batch` */
	bool of_batch;
} lk_finetune_run;
typedef LK_VEC(lk_finetune_run) lk_finetune_runs;

/* Read the columns id, framework, model, method, gpu, n_gpu, sharding, the layout, seq, seq_means,
 * switches, peak_reserved_gib, peak_allocated_gib, mem_means, oom, step_s, tokens_per_s,
 * time_valid, max_context, suspect. The vector must be freed with lk_vec_free in every case. */
lk_status lk_finetune_read(lk_arena *arena, lk_stream *in, lk_finetune_runs *out, lk_error *err);

/* ---- refit: tables of times that new weights take to the engines (weight_update.csv). */

typedef struct lk_refit_run {
	const char *id, *where, *software, *model, *gpu, *precision, *transport; /* texts */
	lk_refit_job job;
	int gpus;
	double seconds;
	const char *why_not; /* why it cannot be predicted; NULL */
} lk_refit_run;
typedef LK_VEC(lk_refit_run) lk_refit_runs;

/* Read the columns id, framework, model, gpu, n_gpu, gen_gpus, train_layout, gen_layout, precision,
 * transport, time_s, what, status. */
lk_status lk_refit_read(lk_arena *arena, lk_stream *in, lk_refit_runs *out, lk_error *err);

/* ---- step_series: step times of real runs, a file a run. */

typedef struct lk_step_series {
	const char *name, *kind, *cluster; /* kind: the preset of noise of such runs, "mlperf" */
	double *seconds;                   /* [count] without the first steps of each run */
	size_t count;
	int mean_of; /* steps whose mean each time is */
} lk_step_series;
typedef LK_VEC(lk_step_series) lk_step_series_set;

/* Read all .csv files of a folder; free the set with lk_vec_free in every case. */
lk_status lk_step_series_read(lk_arena *arena, const char *folder, lk_step_series_set *out,
                              lk_error *err);

/* ---- slowdown: tables of kernels measured concurrently with communication and alone. */

typedef struct lk_slowdown_row {
	const char *id, *name, *where;
	lk_overlap_kernel kernel;
	double measured_s; /* in the run with communication */
} lk_slowdown_row;

typedef LK_VEC(lk_slowdown_row) lk_slowdown_table;

/* Read a table; texts belong to the arena. */
lk_status lk_slowdown_read(lk_arena *arena, lk_stream *in, lk_slowdown_table *out, lk_error *err);

/* ---- eager_ops: the kernels that a network launches when a framework runs it operator by
 * operator: matrix products, and memory-bound operations between them, as the Hugging Face
 * implementations issue them in fp32. */

/* One kernel, launched `count` times. */
typedef struct lk_eager_op {
	double count;
	bool backward;
	bool whole; /* not split over tensor-parallel ranks: all tokens, all of hidden */
	bool product;
	double batch, m, n, k;          /* of a product */
	const lk_memory_kernel *kernel; /* else */
	double rows, width, bytes;
} lk_eager_op;
typedef LK_VEC(lk_eager_op) lk_eager_ops;

/* How the network is run. */
typedef struct lk_eager_run {
	double batch, seq;
	bool train;    /* forward that keeps the inputs of backward, and backward; no optimizer */
	bool compiled; /* operations between products fused */
} lk_eager_run;

/* Whether the family is known: gpt2, opt, bert and switch_transformers. */
bool lk_eager_known(const lk_model *model);

/* Append the kernels. */
lk_status lk_eager_list(const lk_model *model, const lk_eager_run *run, lk_eager_ops *out,
                        lk_error *err);

/* Memory on the device at the end of a training forward. */
typedef struct lk_eager_kept {
	double bytes;   /* weights, gradients, inputs of backward */
	double fetches; /* requests to the driver for it, starting with an empty allocator */
} lk_eager_kept;
lk_eager_kept lk_eager_keeps(const lk_model *model, const lk_eager_run *run);

/* Find a measured Switch Transformer shape that is no preset: an encoder and a decoder, every
 * second MLP with experts. */
bool lk_eager_switch(const char *name, lk_model *out);

#endif
