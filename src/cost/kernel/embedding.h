/* embedding.h: pooled lookups of many embedding tables in one kernel: how much of their traffic the L2 cache holds, and how
 * long they take. After Lin et al. (arXiv 2201.07821, "embedding lookup"), extended from uniform indices to measured reuse. */
#ifndef LK_COST_EMBEDDING_H
#define LK_COST_EMBEDDING_H

#include <stdbool.h>
#include "cost/kernel/locality.h"
#include "graph/graph.h"
#include "hw/hw.h"

typedef struct lk_lookup {
	double batch, tables, rows, dim, pooling; /* rows and pooling of each table */
	const double *reuse;   /* [LK_REUSE_BINS] shares of the different rows that are looked up; NULL: indices are uniform */
	const lk_locality *locality; /* the same in more detail; goes before `reuse` */
	bool backward;         /* reads and writes each row that was looked up: an optimizer fused into the kernel */
	double element;        /* bytes of a number of the table; 0: 4 */
	double state;          /* bytes of a row's optimizer state, read and written once for each different row, backward */
} lk_lookup;

typedef struct lk_lookup_traffic {
	double hit;            /* share of looked-up rows that the cache holds */
	double dram, l2;       /* bytes from memory; bytes of rows from the cache */
} lk_lookup_traffic;

/* Traffic on a device with so much cache and so many SMs. Sums and their gradients are fp32. */
lk_lookup_traffic lk_lookup_traffic_of(const lk_lookup *lookup, const lk_device *device);
/* Seconds at these rates in bytes/s, without the kernel's start. */
double lk_lookup_seconds(const lk_lookup *lookup, const lk_device *device, double memory_rate, double l2_rate);

/* Rate of the L2 cache over memory's: V100, P100, Titan Xp, measured (family "rates") 3.5, 2.9, 3.2. */
extern const double lk_lookup_l2_gain;

/* The lookup that an EMBEDDING operation with pooling states. */
lk_lookup lk_lookup_of(const lk_graph *graph, uint32_t op);

#endif
