/* oom.h: messages of a device's memory that ran out, found in any text: a log, a traceback, a
 * pasted line.
 *
 *     lk_oom_text found;
 *     for (size_t at = 0; lk_oom_next(log, size, &at, &found);) ... found.rank, found.requested
 *
 * All forms of PyTorch since 1.3 are read (CUDA, HIP and other backends), errors of the driver and
 * of NCCL, those of XLA, and the kernel's line about a process that it killed for the host's
 * memory. */
#ifndef LK_OOM_OOM_H
#define LK_OOM_OOM_H

#include <stdbool.h>
#include <stddef.h>

typedef enum lk_oom_source {
	LK_OOM_ALLOCATOR, /* a framework's allocator, which says what it holds */
	LK_OOM_DRIVER,    /* CUDA or HIP itself, outside of the allocator; no numbers */
	LK_OOM_HOST,      /* the host's memory: the kernel killed the process */
} lk_oom_source;

/* A message. Numbers are bytes; NAN where the message does not state one. */
typedef struct lk_oom_text {
	lk_oom_source source;
	int rank, device; /* -1: not stated. The rank is that of the line's prefix: "[rank3]:" */
	double requested, total, free;
	double allocated;     /* by tensors */
	double reserved;      /* by the framework, with what is allocated */
	double private_pools; /* of `allocated`: of CUDA graphs */
	double allowed;       /* a limit below the device's memory, set by the program */
	double in_use;        /* by this process, with context and libraries */
	double others;        /* by other processes on the device */
	size_t places;        /* lk_oom_find: messages in the text */
} lk_oom_text;

/* Find the first message and count all; false: there is none, and *out is unchanged. */
bool lk_oom_find(const char *text, size_t size, lk_oom_text *out);
/* Find the next message from *at on and set *at after its beginning. */
bool lk_oom_next(const char *text, size_t size, size_t *at, lk_oom_text *out);

/* The rank in the prefix of the line at `line`, as launchers write it: "[rank3]:", "[default3]:",
 * "[3]", "3: " (srun -l), with quotes before it; -1: none. `end` ends the text. */
int lk_line_rank(const char *line, const char *end);

#endif
