/* measure.h: measures the machine that lockstep runs on: products, memory, calls, disk, pairs of
 * processes, GPUs.
 *
 * Everything is repeated and reported as a median with its 10 % and 90 % quantiles. What could not
 * be measured becomes a note with the reason; only running out of memory, and an impossible option,
 * are errors. No name of a host, of a user or of a file gets into the result. */
#ifndef LK_MEASURE_MEASURE_H
#define LK_MEASURE_MEASURE_H

#include <stdio.h>
#include "base/arena.h"
#include "base/vec.h"
#include "hw/hw.h"

typedef struct lk_quantity {
	const char *group; /* "memory" */
	const char *name;  /* "triad, all cores" */
	const char *unit;  /* "GB/s" */
	double value;      /* median */
	double low, high;  /* 10 % and 90 % quantiles of the repetitions; NAN for counted quantities */
	int repeats;
} lk_quantity;

/* A message of MPI by its size, medians: in one direction, and in both at once. */
typedef struct lk_message_measured {
	bool inside;                   /* of a node */
	double bytes, alone_s, both_s; /* 0: not measured */
} lk_message_measured;

/* A collective of MPI among all processes started by the launcher, means: after a pause, and after
 * another one. */
typedef struct lk_collective_measured {
	const char *what; /* "all_reduce" */
	int ranks, nodes;
	double bytes, alone_s, behind_s;
} lk_collective_measured;

typedef struct lk_host_options {
	double seconds;   /* for everything together, approximately */
	const char *name; /* of the device; NULL "host-cpu" */
	const char *date, *source;
	const char *disk; /* folder for a temporary file, or a file to read; NULL the default folder for
	                     temporary files */
	const char *mpi;  /* launcher and its options: "mpirun -n 2"; NULL no MPI */
	void (*progress)(void *context, const char *doing, double share); /* may be NULL */
	void *context;
} lk_host_options;

typedef struct lk_host {
	lk_arena arena;
	LK_VEC(lk_quantity) quantities;
	LK_VEC(lk_message_measured) messages;       /* by size */
	LK_VEC(lk_collective_measured) collectives; /* by kind and size */
	LK_VEC(const char *) notes; /* what was not measured, and why; the basis of numbers */
	const char *date, *source;
	const char *processor;
	int cores;        /* that this process may use */
	int nodes;        /* reached by MPI; 1 without */
	lk_device device; /* all these cores as one device */
	int gpus;         /* of the kind below; 0: the device of a node is the processor */
	const lk_device *gpu;
	lk_intra intra;
	double intra_rate; /* of the GPUs, measured; 0: the default */
} lk_host;

/* Measure. Free with lk_host_free, also after an error. */
lk_status lk_host_measure(const lk_host_options *options, lk_host *out, lk_error *err);
void lk_host_free(lk_host *host);

/* Write the cluster file: nodes, devices and, under "measured", every quantity and note. */
lk_status lk_host_write(const lk_host *host, FILE *out, lk_error *err);

#endif
