/* explain.h: what makes a run slow, from traces of one or many of its ranks.
 *
 *     const char *files[] = {"rank0.json.gz", "rank1.json.gz"};
 *     lk_explain_request request;
 *     lk_explain_defaults(&request);
 *     request.traces = files, request.trace_count = 2;
 *     lk_explanation *answer;
 *     lk_error err;
 *     if (lk_explain(&request, &answer, &err) != LK_OK) ...
 *     lk_explain_print(answer, LK_OUTPUT_TEXT, LK_EXPLAIN_ALL, false, NULL, stdout, &err);
 *     lk_explain_free(answer);
 *
 * Everything is measured; only the gains of remedies are simulated. Names and definitions of the
 * measures are those of HolisticTraceAnalysis (HTA), so that results can be checked against it:
 *
 *   kernel_time       the time looked at: the steps that were requested
 *   compute_time      the union of computation kernels
 *   non_compute_time  the union of communication and memory kernels, without compute_time
 *   idle_time         the rest. The three add up to kernel_time, to the nanosecond
 *   comp_comm_overlap_pctg  the part of the union of communication kernels that computation kernels
 *                           cover
 *   host_wait         a gap of a stream whose next kernel was launched after the gap began
 *   kernel_wait       any other gap below 30 ns
 *   other             any other gap: the kernel waits for another stream, or for the device to take
 *                     up its launch
 *   queue length      launches of a stream that were called and whose kernel has not begun
 *   launch_delay      from the end of a launch call to the begin of its kernel */
#ifndef LOCKSTEP_EXPLAIN_H
#define LOCKSTEP_EXPLAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/options.h"
#include "lockstep/predict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The request. Texts are borrowed; NULL means "not given". */
typedef struct lk_explain_request {
	const char *const *traces; /* files, and folders of them */
	int trace_count;
	const char *
		steps; /* "3-5", "4", "all" (the whole trace, as HTA looks at it); NULL: every whole step */
	int rank;  /* only this one; -1 all */
	int top;   /* rows of kernels and stalls in texts; 0 all */
	int threads; /* to read files with; 0: as the context says */
	/* What the run is held against, as for predict; NULL: the GPU that the traces name, in its
	 * usual nodes. */
	const char *gpu, *cluster;
	/* The job that ran, as the words of a command line of predict or a file that it reads; NULL:
	 * not given. lk_versus_explain (diff.h) answers it; lk_explain ignores it. */
	const char *job;
	const char *calibrated; /* with `job`: a file for what the measured step says of the models'
	                         * times (lk_versus_write_calibration; of logs and numbers
	                         * lk_predict_write_calibration); lk_explain ignores it */
	lk_mains mains;         /* for `energy`; an error where the power of the GPU is not known */
	bool roofline; /* shapes are read too, for `shaped`; gpu and cluster ask for it as well */
	bool roofline_needed; /* likewise, and traces without shapes are an error */
	bool operations;      /* work by kind, phase and shape, for lk_explanation.operations */
	bool strict;          /* damaged traces are an error */
} lk_explain_request;

/* The time of one rank's device, over all steps looked at. */
typedef struct lk_explain_rank {
	int rank;
	const char *path, *format, *device; /* device "" where not given */
	int steps;
	uint64_t events, device_events; /* of the file; device_events within the steps */
	/* idle_ns + compute_ns + non_compute_ns = kernel_time_ns */
	int64_t kernel_time_ns, idle_ns, compute_ns, non_compute_ns;
	/* together non_compute_ns; copies count only where no communication runs either */
	int64_t exposed_communication_ns, exposed_memory_ns;
	int64_t communication_ns, memory_ns; /* unions, whatever else runs */
	int64_t overlap_ns;                  /* communication_ns that computation covers */
	/* together idle_ns: what the idle device waited for */
	int64_t idle_data_ns;       /* the host was in its data loader */
	int64_t idle_one_off_ns;    /* it compiled, loaded modules, captured graphs: work done once */
	int64_t idle_allocation_ns; /* it allocated or freed memory of the driver, in every step */
	int64_t idle_saving_ns;     /* it wrote a checkpoint */
	int64_t idle_collecting_ns; /* Python collected garbage */
	int64_t idle_preparing_ns;  /* it prepared inputs: decoding, tokenizing */
	int64_t idle_computing_ns;  /* it computed itself, in a long operation that launches nothing */
	int64_t idle_sync_ns;       /* the host had been waiting for the device, which so ran dry */
	int64_t idle_host_ns;       /* the host was otherwise late with the next launch; of it ... */
	int64_t idle_optimizer_ns;  /* ... in an optimizer */
	int64_t idle_outside_ns;    /* ... long gaps in which it was in no operation and no call */
	int64_t idle_other_ns; /* it was launched: waits for another stream, or the launch on its way */
	int64_t data_loading_ns;        /* host time in enumerate(DataLoader), hidden or not */
	int64_t sync_ns;                /* host time in calls that wait for the device */
	int64_t h2d_ns, h2d_exposed_ns; /* copies from host to device; those that nothing covers */
	int64_t pinned_exposed_ns;      /* of h2d_exposed_ns: from pinned memory, where traces say so */
	int64_t pageable_exposed_ns; /* copies from and to pageable memory that nothing covers; ... */
	int64_t pageable_h2d_ns;     /* ... those of them to the device */
} lk_explain_rank;

/* A part of a device's time; all together are kernel_time_ns. */
typedef struct lk_device_part {
	const char *title; /* "idle:data" */
	const char *name;  /* "idle: data loading" */
	size_t time;       /* offset in lk_explain_rank, an int64_t of nanoseconds */
	bool rare;         /* left out where no run has any */
} lk_device_part;
/* The first are computing, exposed communication and copies; those from LK_BUSY_PARTS on are the
 * causes of idle time. */
enum { LK_BUSY_PARTS = 3, LK_DEVICE_PARTS = 13 };
const lk_device_part *lk_device_parts(void); /* [LK_DEVICE_PARTS], static */

/* A step of a rank. */
typedef struct lk_explain_step {
	int rank;
	int64_t number, start_ns; /* start on the run's common clock */
	int64_t dur_ns;           /* = compute + exposed communication + exposed memory + idle */
	int64_t compute_ns, exposed_communication_ns, exposed_memory_ns, idle_ns;
	int64_t data_loading_ns;
} lk_explain_step;

/* Work of one kind, whatever its kernels are called, over all ranks and steps. */
typedef struct lk_explain_operation {
	const char *phase;  /* "forward", "backward", "recompute", "optimizer", "other" */
	const char *part;   /* "products", "attention", "experts", "communication", "copies", ... */
	const char *kind;   /* "gemm", "attention_bwd", "all_reduce" */
	const char *shape;  /* "4096 x 4096 x 1024", the largest first; "64 MiB"; "" not known */
	const char *group;  /* of communication: as the trace names it, "tp" of predicted steps */
	const char *name;   /* of the longest of its kernels */
	const char *module; /* as lk_explain_module.path; "" outside of modules, or not known */
	int ranks;          /* of the group; 0 not known */
	double bytes;       /* of communication; 0 not known */
	uint64_t count;
	double time_ns; /* sum of durations */
	double own_ns;  /* of the steps' time: what no other operation has; see explain_operations.c */
	double wait_ns; /* of it: waiting for the last rank */
	double flops;   /* of all; 0 not known */
} lk_explain_operation;

/* Gaps of a stream between its kernels. */
typedef struct lk_explain_idle {
	int rank;
	int64_t stream;
	uint64_t gaps;
	int64_t idle_ns, host_wait_ns, kernel_wait_ns, other_ns;
} lk_explain_idle;

/* Launches of a stream that are outstanding. */
typedef struct lk_explain_queue {
	int rank;
	int64_t stream;
	uint64_t launches;
	double mean, median, p95; /* by time */
	int64_t min, max;
	int64_t full_ns, span_ns; /* time with 1024 or more outstanding, and of all */
} lk_explain_queue;

/* Nanoseconds of many events. */
typedef struct lk_explain_stats {
	uint64_t count;
	double total_ns, mean_ns, median_ns, p95_ns, min_ns, max_ns, deviation_ns;
} lk_explain_stats;

/* How a rank's launches and their kernels lie in time. */
typedef struct lk_explain_launch {
	int rank;
	lk_explain_stats cpu_duration, gpu_duration, launch_delay;
	uint64_t short_kernels; /* gpu_duration < cpu_duration: the host cannot keep ahead */
} lk_explain_launch;

/* A part of the trace in which the device is idle most of the time, for one reason. */
typedef struct lk_explain_stretch {
	int rank;
	const char *cause;        /* "launch", "sync", "data loading", "one-off", "allocation" or
	                             "preprocessing" */
	int64_t start_ns, dur_ns; /* on the run's common clock */
	int64_t lost_ns;          /* of it: idle for this reason */
	uint64_t gaps;
	const char *annotation, *operation; /* around the call that ends the longest gap; "" none */
} lk_explain_stretch;

/* Types of device work, and their names in tables. */
enum { LK_WORK_COMPUTATION, LK_WORK_COMMUNICATION, LK_WORK_MEMORY, LK_WORK_HOST };
extern const char *const
	lk_explain_types[]; /* "COMPUTATION", ...; HOST: operations, of traces without a device */

/* All kernels of a name, over all ranks; those that begin in the steps. */
typedef struct lk_explain_kernel {
	const char *name;
	int type;
	double share; /* of the sum of all durations */
	lk_explain_stats time;
} lk_explain_kernel;

/* The device work of a module of the network, with that of the modules in it; siblings that
 * differ only in their number are one. From Python stacks and from annotations that name
 * modules. Per step, mean over ranks. */
typedef struct lk_explain_module {
	const char *path;   /* "LlamaModel/LlamaDecoderLayer/LlamaMLP"; "": outside of modules */
	const char *module; /* its last part and how many there are: "LlamaDecoderLayer x 32" */
	int depth;          /* 0: the outermost */
	double instances;   /* modules */
	double calls, kernels;
	double time_s,
		share;    /* sum of durations; of that of all device work, of the host's without a device */
	double own_s; /* of time_s: outside of the modules in it */
	double backward_s; /* of time_s: gradients, found by autograd's sequence numbers */
	double host_s;     /* duration of its calls on the host */
	double expected_s; /* time_s as the job predicts it; NAN without a job */
} lk_explain_module;

/* Communication of a kind and process group, over all ranks. */
typedef struct lk_explain_comm {
	const char *kind, *group; /* "all_reduce", "default_pg"; group "" where not given */
	const char *ranks;        /* of the group, "[0, 1, 2, 3]", as the trace has them; "" not said */
	int group_size;           /* 0 not given */
	uint64_t count;           /* kernels */
	double bytes;             /* of their messages; NAN not given */
	bool host; /* by hosts: exposed_ns is then its union; what it hides after is not known */
	int64_t kernel_ns, exposed_ns;
	/* of the kernels that were matched across ranks */
	uint64_t matched;
	int64_t wait_ns,
		transfer_ns;         /* before and after the last rank's arrival; together their time */
	int64_t exposed_wait_ns; /* the part of exposed_ns that is waiting */
	/* GB/s as nccl-tests define it, mean; of the transfer where all were matched, else of whole
	 * kernels, and so too low
	 */
	double busbw;
	double model_busbw; /* what the model of NCCL gives at the mean size; NAN not known */
} lk_explain_comm;

/* The model's bus bandwidth over sizes, for a row of communication. */
typedef struct lk_explain_curve {
	const char *kind, *group;
	int ranks, nodes;
	int comm; /* the row */
	int count;
	const double *bytes, *busbw; /* GB/s */
} lk_explain_curve;

/* What operations of one name and shape asked of the device, over all ranks. Bytes pass through
 * memory once, flops are two for each multiply-add; the time is that of all kernels that the
 * operation launched. */
typedef struct lk_explain_shaped {
	const char *operation, *shapes; /* "aten::mm", "[[512,13],[13,512]]" */
	const char *kernel;             /* the longest of its kernels */
	const char *kind, *dtype;       /* "gemm", "fp16" */
	uint64_t count;
	double total_ns, share; /* share of the sum of all kernels' durations */
	double flops, bytes;    /* of one; bytes 0: shapes do not tell */
	double peak_flops;      /* dense, of the device in this format; 0 not known */
	double roof; /* least time by peak and memory bandwidth, over the time it took; NAN not known */
	bool memory_bound; /* the least time is that of memory */
} lk_explain_shaped;

/* Who keeps the others waiting. */
typedef struct lk_explain_straggler {
	int rank;
	uint64_t collectives, last; /* matched ones it took part in; where it came last */
	int64_t late_ns;            /* of those: after the one before it, in sum */
	int64_t caused_ns;          /* exposed waiting for it, of the ranks requested */
	int64_t waited_ns;          /* waiting of its own, exposed or not */
	double compute_ratio;       /* its compute_time to the median of the ranks */
} lk_explain_straggler;

/* What costs the steps time, with evidence, remedy and what that would be worth. */
typedef struct lk_explain_stall {
	const char
		*kind; /* "communication", "straggler", "launch", "sync", "data loading", "copies", ... */
	const char *what;              /* "all_reduce of default_pg" */
	int subject;                   /* communication: index in comm; straggler: rank; else -1 */
	double lost_s;                 /* per step, mean over ranks */
	double share;                  /* of the step */
	const char *evidence, *remedy; /* remedy: "" if it gains nothing in the simulation */
	double gain_s; /* per step, what the simulation says the remedy is worth, on all ranks; it may
	                * be more than is lost to the stall; NAN where it cannot be simulated */
	double most_s; /* per step, the most that a remedy can gain where it cannot be simulated:
	                * lost_s, of work of the device at most what the critical path has of it */
	const char *change; /* what was simulated, as whatif --set has it; "" nothing was */
	double adds_s; /* per step, what the remedy gains, or can gain at most, on top of the cheaper
	                * ones of other stalls: these add up. 0 of work done once, which a warm run
	                * lacks */
} lk_explain_stall;

/* The chain of work that a step's time hangs on, at most as long as the step; empty until found. */
typedef struct lk_critical_part {
	const char *kind;
	double seconds;
} lk_critical_part;
typedef struct lk_critical_event {
	uint32_t capture, event;
} lk_critical_event;
typedef struct lk_critical_path {
	const lk_critical_part *parts;
	int part_count;
	const lk_critical_event *events; /* in order of time */
	size_t event_count;
	int64_t step;  /* the number of the step whose time is nearest to the mean */
	double step_s; /* its time, the mean of its ranks */
} lk_critical_path;

/* Everything that was measured, and the ranked stalls. */
typedef struct lk_explanation {
	int world;        /* ranks of the run, traced or not; 0 not given */
	uint64_t kernels; /* device events in the steps */
	uint32_t anchors; /* collectives that the clocks were aligned on */
	double residual_max_s;
	int step_count;  /* different steps */
	int lost_steps;  /* further ones that a rank shown lacks, or has a part of */
	bool annotated;  /* false: no steps were marked, the trace counts as one */
	bool processors; /* recorded programs without a device: their processors stand for it */
	double step_s,
		step_deviation_s; /* over steps, each the mean of its ranks; deviation NAN for one */
	/* Of all ranks, traced or not, as those shown are on average; emissions and cost are of one
	 * step, and training_kwh is 0. All 0 where the GPU is not known. */
	lk_energy energy;
	const lk_explain_rank *ranks;
	int rank_count;
	const lk_explain_step *steps; /* by rank, then time */
	int step_rows;
	const lk_explain_idle *idle;
	int idle_count;
	const lk_explain_stretch
		*stretches; /* the costliest first; those of a thousandth of the time or more */
	int stretch_count;
	const lk_explain_queue *queues;
	int queue_count;
	const lk_explain_launch *launches;
	int launch_count;
	const lk_explain_kernel *kernel; /* by time, the longest first */
	int kernel_count;
	const lk_explain_operation *operations; /* by own time, the longest first; if requested */
	int operation_count;
	const lk_explain_module *modules; /* a tree: each before those in it, the costliest first */
	int module_count;
	const lk_explain_comm *comm;
	int comm_count;
	const lk_explain_curve *curves;
	int curve_count;
	const lk_explain_shaped *shaped; /* by time, the longest first */
	int shaped_count, shaped_all;    /* those that are kept, 256 at most, of how many */
	double shaped_share;      /* of the kernels' durations: that of all work of known shape */
	double kernel_roof;       /* how close that work comes to its roof, by time; NAN not known */
	const char *held_against; /* the device, "NVIDIA H100 SXM5 80GB"; NULL not known */
	double memory_rate;       /* bytes/s of it */
	const char *no_roofline, *no_curves; /* why there are none; NULL where there are */
	const lk_explain_straggler *stragglers;
	int straggler_count;
	const lk_explain_stall *stalls; /* the worst first */
	int stall_count;
	lk_critical_path critical;
	const char *diagnosis; /* two sentences: what costs most, and what the critical path and the
	                        * simulation of remedies say */
	const int *actions;    /* stalls whose remedies gain most, three at most, the best first */
	int action_count;
	const char *const *warnings; /* numbered sentences; the first ... */
	int warning_count;
	int caveat_count; /* ... so many change what the rest means: damage, lost steps, missing ranks
	                   */
	const struct lk_versus *versus; /* of lk_versus_explain (diff.h); else NULL */
	int top;                        /* of the request */
	const char *reproduce;          /* the command that asks again */
	lk_inputs inputs;         /* the files that were read; reports name them by their content */
	const char *failed_check; /* of its own consistency, which failed; NULL: none did */
	void *memory_owner;
} lk_explanation;

/* The tables of an explanation, in the order of the option's choices, and their names; NULL last.
 */
enum {
	LK_EXPLAIN_ALL,
	LK_EXPLAIN_STALLS,
	LK_EXPLAIN_BREAKDOWN,
	LK_EXPLAIN_STEPS,
	LK_EXPLAIN_OVERLAP,
	LK_EXPLAIN_COMMUNICATION,
	LK_EXPLAIN_STRAGGLERS,
	LK_EXPLAIN_STRETCHES,
	LK_EXPLAIN_IDLE,
	LK_EXPLAIN_KERNELS,
	LK_EXPLAIN_QUEUE,
	LK_EXPLAIN_LAUNCHES,
	LK_EXPLAIN_ROOFLINE,
	LK_EXPLAIN_MODULES,
	LK_EXPLAIN_TABLES,
};
extern const char *const lk_explain_tables[LK_EXPLAIN_TABLES + 1];

/* Sets every field to what holds where nothing is said. Call it first, then set fields: they may
 * become more. */
void lk_explain_defaults(lk_explain_request *request);
/* Reads, measures, ranks. LK_ERR_INPUT: files that are no traces, two of one rank, steps or ranks
 * that they do not hold; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_explain(const lk_explain_request *request, lk_explanation **out, lk_error *err);
/* Frees an explanation with all that it points to; accepts NULL. */
void lk_explain_free(lk_explanation *explanation);

/* To `path` where it is not NULL, else to `out`; `format` is an lk_output (view.h). LK_ERR_INPUT
 * for a format without its path; LK_ERR_IO; LK_ERR_MEMORY. `table` selects what is printed;
 * LK_EXPLAIN_ALL is the report in text, every table in md, json and sqlite, and the breakdown in
 * csv and jsonl, which hold one table.
 *
 * The keys of the JSON are in docs/reference/schemas/explain.json. What is not known is null. */
lk_status lk_explain_print(const lk_explanation *explanation, int format, int table, bool colour,
                           const char *path, FILE *out, lk_error *err);
/* The events of the steps as a file for trace viewers (.json, .json.gz, .pftrace): one track per
 * thread and stream of each rank, all ranks on one clock, and a track "critical path" where there
 * is one. LK_ERR_INPUT: an ending that is none of these; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_explain_trace(const lk_explanation *explanation, const char *path, lk_error *err);

/* Work of one sort on a device in one step, without gaps that could be seen; seconds from the start
 * of the step. `sort` is one of lk_explain_sorts: phases of computation, "communication",
 * "copies". */
enum { LK_EXPLAIN_PHASES = 5, LK_EXPLAIN_SORTS = LK_EXPLAIN_PHASES + 2 };
extern const char *const lk_explain_sorts[LK_EXPLAIN_SORTS];
typedef struct lk_explain_span {
	int rank, sort;
	double start_s, end_s;
} lk_explain_span;
/* The work in the step of the critical path, of at most eight ranks: by rank, then computation,
 * communication and copies, then time, without overlap. *out is freed with free().
 * LK_ERR_MEMORY. */
lk_status lk_explain_spans(const lk_explanation *explanation, lk_explain_span **out, int *count,
                           lk_error *err);

/* The verb's option table: parsing, help, man page and completion come from it (options.h). */
extern const lk_verb lk_explain_verb;

#ifdef __cplusplus
}
#endif
#endif
