/* embedding.h: pooled lookups of many embedding tables in one kernel: how much of their traffic the L2 cache holds, and how
 * long they take. After Lin et al. (arXiv 2201.07821, "embedding lookup"), extended from uniform indices to measured reuse. */
#ifndef LK_COST_EMBEDDING_H
#define LK_COST_EMBEDDING_H

#include <stdbool.h>
#include "graph/graph.h"
#include "hw/hw.h"

/* Bins of a reuse histogram: rows looked up once, twice, 3 or 4 times, 5 to 8, ... over 32768 times. */
enum { LK_REUSE_BINS = 17 };

typedef struct lk_lookup {
	double batch, tables, rows, dim, pooling; /* rows and pooling of each table */
	const double *reuse;   /* [LK_REUSE_BINS] shares of the different rows that are looked up; NULL: indices are uniform */
	bool backward;         /* reads and writes each row that was looked up: an optimizer fused into the kernel */
} lk_lookup;

typedef struct lk_lookup_traffic {
	double hit;            /* share of looked-up rows that the cache holds */
	double dram, l2;       /* bytes from memory; bytes of rows from the cache */
} lk_lookup_traffic;

/* Traffic on a device with so much cache and so many SMs; fp32. */
lk_lookup_traffic lk_lookup_traffic_of(const lk_lookup *lookup, const lk_device *device);
/* Seconds at these rates in bytes/s, without the kernel's start. */
double lk_lookup_seconds(const lk_lookup *lookup, const lk_device *device, double memory_rate, double l2_rate);

/* The lookup that an EMBEDDING operation with pooling states. */
lk_lookup lk_lookup_of(const lk_graph *graph, uint32_t op);

#endif
