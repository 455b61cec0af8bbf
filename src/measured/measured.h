/* measured.h: what a run measured, by its own words: logs of training frameworks, exports of
 * experiment trackers, tables of GPUs, and numbers that people type. */
#ifndef LK_MEASURED_MEASURED_H
#define LK_MEASURED_MEASURED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lockstep/error.h"

/* Which bytes of a device a run calls its memory. */
typedef enum lk_memory_kind {
	LK_MEMORY_UNSTATED,
	LK_MEMORY_ALLOCATED, /* of tensors: torch.cuda.max_memory_allocated */
	LK_MEMORY_ACTIVE,    /* ... with blocks that streams still use */
	LK_MEMORY_RESERVED,  /* by the caching allocator: max_memory_reserved */
	LK_MEMORY_DEVICE,    /* everything in use on the device: nvidia-smi, DCGM */
	LK_MEMORY_KINDS
} lk_memory_kind;
/* "", "allocated", "active", "reserved" or "device total". */
const char *lk_memory_kind_name(lk_memory_kind kind);

/* A part of a step that the run timed by itself. */
typedef struct lk_measured_part {
	char *name;     /* as the log calls it: "forward-compute" */
	double seconds; /* of a steady step, on the slowest rank stated */
} lk_measured_part;

enum { LK_MEASURED_RUNS = 32 };
typedef struct lk_measured {
	char *source;  /* what was read: "log of Megatron-LM, 4,211 steps" */
	double step_s; /* a steady step: median of the steps after the first ones; 0 not stated */
	double step_low_s, step_high_s; /* 5th and 95th percentile of them; 0 unknown */
	double *step_times_s;           /* as they came; NULL where only a number was given */
	int64_t *step_numbers;          /* [steps]; NULL likewise */
	size_t steps;
	/* Of a CSV of several runs (column run): the steps after which the later ones begin. */
	int64_t run_after[LK_MEASURED_RUNS];
	size_t run_count;
	int restarts;           /* times that the steps go back to an earlier one */
	int64_t repeated_steps; /* steps that ran again then */
	size_t first_steps; /* at the start of step_times_s, left out of step_s and its percentiles */
	double tokens_per_s, samples_per_s;       /* of the whole job; 0 not stated */
	double tokens_per_s_gpu, tflops_gpu, mfu; /* of one GPU; mfu 0..1; 0 not stated */
	double memory_bytes;                      /* peak of the fullest device; 0 not stated */
	lk_memory_kind memory_kind;
	int64_t gpus, global_batch, seq_len; /* where the run says so; 0 not stated */
	lk_measured_part *parts;             /* in the order of the table of formats */
	size_t part_count;
	/* Of nvidia-smi and DCGM; 0 and NULL not stated. */
	char *gpu_name;
	double gpu_memory_bytes;                              /* what the device has */
	double power_w, power_limit_w, clock_hz, utilisation; /* means; utilisation 0..1 */
	bool throttled;     /* clocks were held down by power or temperature */
	bool out_of_memory; /* the text says that an allocation failed */
} lk_measured;

/* What a person says of a run, separated by commas or "and": "7.2 s", "7200 ms", "1.4 s/it",
 * "3 it/s", "200 tok/s", "200 tok/s/gpu", "1.2M tokens/s", "12 samples/s", "31 % MFU",
 * "412 TFLOP/s" (of one GPU), "memory 73 GiB", "73 GiB reserved", "8 GPUs", "batch 256",
 * "seq 4096". LK_ERR_INPUT: a word is unknown, a number lacks its unit or is said twice. *out is
 * freed by lk_measured_free, and empty after an error. */
lk_status lk_measured_number(const char *text, lk_measured *out, lk_error *err);

/* Read a file, all files of a folder, or "-", standard input: logs, JSON and JSON lines, CSV
 * exports, event files of TensorBoard, metrics of MLflow, tables of nvidia-smi and DCGM
 * (data/measured/). LK_ERR_INPUT: it states nothing measured. Freed likewise. */
lk_status lk_measured_read(const char *path, lk_measured *out, lk_error *err);
/* Likewise from memory; `name` is used in messages and for its ending. */
lk_status lk_measured_text(const char *text, size_t size, const char *name, lk_measured *out,
                           lk_error *err);

enum { LK_MEASURED_DEVICE = 96 /* bytes of a name */ };
/* The number of the GPU that a line of nvidia-smi's table is of, with its name; -1: none. */
int lk_measured_smi_device(const char *line, char name[LK_MEASURED_DEVICE]);

/* Whether a text has the form of lk_measured_number rather than of a path: it begins with a number
 * or with a word of that function, and no file has its name. */
bool lk_measured_is_number(const char *text);

/* Frees what it points to and empties it; accepts an empty one. */
void lk_measured_free(lk_measured *measured);

#endif
