/* postmortem.h: what is left of a run that died or hangs: who held the memory of a device when it
 * ran out, and which ranks did not enter a collective. `lockstep explain` answers it where its
 * files are no traces:
 *
 *   memory snapshots of PyTorch   torch.cuda.memory._dump_snapshot(), pickle or JSON
 *   logs                          messages of memory that ran out, or of PyTorch's watchdog, of
 *                                 one or many ranks
 *   flight recorder of PyTorch    one dump a rank, pickle or JSON: files, or a folder of them
 *   RAS of NCCL                   the text that ncclras prints
 *
 *     const char *files[] = {"snapshot.pickle"};
 *     lk_explain_request request;
 *     lk_explain_defaults(&request);
 *     request.traces = files, request.trace_count = 1;
 *     lk_postmortem *answer;
 *     if (lk_postmortem_read(&request, &answer, &err) != LK_OK) ...
 *     answer->memory[0].reserved_bytes ...
 *     lk_postmortem_free(answer); */
#ifndef LOCKSTEP_POSTMORTEM_H
#define LOCKSTEP_POSTMORTEM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/explain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The memory of a device, of a snapshot or of a message. Numbers are bytes; NAN where the file does
 * not state one. */
typedef struct lk_postmortem_memory {
	int rank, device;       /* -1: not stated */
	const char *source;     /* "memory snapshot", "message", "driver", "host" */
	double requested_bytes; /* what the failed allocation wanted */
	double total_bytes;     /* of the device */
	double free_bytes;      /* of the device, when the allocation failed */
	double allocated_bytes; /* blocks that tensors hold, rounded up */
	double tensor_bytes;    /* what tensors requested of them */
	double reserved_bytes;  /* what the allocator took from the device */
	double reserved_peak_bytes;
	double unused_bytes;   /* reserved - allocated */
	double stranded_bytes; /* of unused: parts of segments in use, which cannot be given back */
	double largest_free_bytes;
	double pending_bytes; /* freed, while a stream still uses it; in allocated */
	double private_bytes; /* of allocated: pools of CUDA graphs */
	double allowed_bytes; /* a limit below the device's memory, set by the program */
	double outside_bytes; /* context and libraries: what this process holds beyond reserved */
	double others_bytes;  /* of other processes */
	double peak_bytes;    /* most that tensors held in the recorded trace */
	double held_bytes;    /* what tensors held at the moment that holders are of */
	const char *moment;   /* "out of memory", "peak" or "end"; NULL: there are no holders */
	double moment_s;      /* of that moment, from the first recorded event */
	bool expandable;      /* segments that can grow: expandable_segments:True */
	int64_t segments, blocks, events;
} lk_postmortem_memory;

/* Who held memory at that moment: a line of the user's code and the kind of what it allocated. */
typedef struct lk_postmortem_holder {
	int rank, device;
	const char *kind;  /* "parameters", "gradients", "optimizer states", "activations", ... */
	const char *where; /* "train.py:12"; "" for a sum over a kind, and where nothing is known */
	const char *function;
	double bytes, share; /* of held_bytes */
	int64_t blocks;
} lk_postmortem_holder;

/* A change that frees memory. */
typedef struct lk_postmortem_remedy {
	int rank, device;
	const char *change; /* "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" */
	const char *why;
	double frees_bytes; /* the most that it frees; NAN: not known */
	int enough;         /* the failed allocation would fit: 1 yes, 0 no, -1 not known */
} lk_postmortem_remedy;

/* A collective, or a send or receive, that did not complete. Texts of ranks are like "0-2, 5". */
typedef struct lk_postmortem_collective {
	const char *problem;   /* "not entered", "mismatch", "not completed", "no peer", ... */
	bool root;             /* nothing else in the dumps explains it */
	const char *group;     /* its name and description */
	const char *operation; /* "all_reduce" */
	int64_t sequence;      /* its number in the group; -1: not known */
	int group_size;
	const char *entered;     /* ranks that wait in it */
	const char *absent;      /* ranks with a dump that did not enter it */
	const char *silent;      /* members without a dump */
	const char *shape;       /* of those who entered: "[[4096, 1024]] bfloat16" */
	const char *differing;   /* what others did instead: "rank 3: all_gather [[8]] float32" */
	const char *where;       /* the line of those who entered */
	const char *absent_last; /* the last that the first absent rank did */
	double since_unix_s;     /* when the first rank entered; NAN: not known */
	double spread_s;         /* from the first rank to the last that entered */
	double timeout_s;
} lk_postmortem_collective;

/* Memory of one kind on the fullest device, bytes: as predicted of the job, and as it was. */
typedef struct lk_postmortem_part {
	const char *what; /* "parameters", ..., "reserved" */
	double predicted_bytes, measured_bytes, delta_bytes;
} lk_postmortem_part;

/* A collective that did not complete as an operation of the job's step. */
typedef struct lk_postmortem_match {
	const char *operation;
	int ranks;
	int64_t sequence;
	const char *group; /* of the job: "dp"; "": it has no such collective */
	double count;      /* of these a step and rank */
	double bytes;      /* of each */
	double step;       /* that its number is of, where the group is used by the step alone */
} lk_postmortem_match;

/* What is left of a run against its job. */
typedef struct lk_postmortem_versus {
	const char *job; /* as given */
	const char *sentence;
	const lk_prediction *predicted; /* its `expected` compares the memory and has causes */
	const lk_postmortem_part *parts;
	int part_count;
	const lk_postmortem_match *matches; /* in the order of the collectives */
	int match_count;
} lk_postmortem_versus;

/* The answer. */
typedef struct lk_postmortem {
	const char *cause;  /* "out of memory", "memory", "hang" or "none" */
	const char *source; /* what was read */
	const char *diagnosis;
	const lk_postmortem_memory *memory;
	int memory_count;
	const lk_postmortem_holder *kinds; /* by device, the largest first; `where` is "" */
	int kind_count;
	const lk_postmortem_holder *holders; /* by device, the largest first */
	int holder_count;
	const lk_postmortem_remedy *remedies;
	int remedy_count;
	int world, dumps;                            /* ranks of the run; those with a dump */
	const char *missing;                         /* ranks without one; "" none */
	const lk_postmortem_collective *collectives; /* the roots first */
	int collective_count;
	const char *const *warnings;
	int warning_count;
	int top; /* of the request */
	const char *reproduce;
	const char *failed_check;
	const lk_postmortem_versus *versus; /* of lk_versus_postmortem; else NULL */
	void *versus_owner;
	void (*versus_free)(void *owner);
	void *memory_owner;
} lk_postmortem;

/* Whether the files of a request are left of a run that died or hangs, by their content; a folder
 * by its first file that has a form. LK_ERR_INPUT: some are and others are not; LK_ERR_IO;
 * LK_ERR_MEMORY. */
lk_status lk_postmortem_asked(const lk_explain_request *request, bool *asked, lk_error *err);
/* Read them. LK_ERR_INPUT: damaged files, two dumps of a rank, options that only traces have;
 * LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_postmortem_read(const lk_explain_request *request, lk_postmortem **out, lk_error *err);
/* Fill `versus`: predict the job and compare. `text` is the job as given. LK_ERR_INPUT, LK_ERR_IO,
 * LK_ERR_MEMORY: as of lk_predict; the answer then stays as it was. */
lk_status lk_versus_postmortem(lk_postmortem *answer, const lk_predict_request *job,
                               const char *text, lk_error *err);
/* Free an answer with all that it points to; accepts NULL. */
void lk_postmortem_free(lk_postmortem *postmortem);
/* Print as lk_explain_print, with its errors (LK_ERR_...); `table` must be LK_EXPLAIN_ALL. The one
 * table of csv and jsonl is that of collectives, of holders, or of memory, whichever the answer
 * has. The keys of the JSON are in docs/reference/schemas/postmortem.json. */
lk_status lk_postmortem_print(const lk_postmortem *postmortem, int format, int table, bool colour,
                              const char *path, FILE *out, lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
