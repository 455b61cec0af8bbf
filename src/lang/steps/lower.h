/* lower.h: the steps of a program as a step graph, which src/sim times on a cluster.
 *
 * Ranks of the mesh are the cluster's, in order, the last axis fastest. Axes along which programs differ (sends between
 * groups, permutes) and those before them become stages of the graph, the others chains. A rank's part is the largest
 * that any rank has; ranks that hold nothing of a root's value are taken to hold it.
 *
 *   MAP        one element-wise kernel: bytes = what is read from memory and written there (pass_bytes)
 *   CONTRACT   a matrix product, or convolution, of local extents
 *   COMM       the collective; a reduce to a root as a broadcast, which it mirrors; a permute as send and receive
 *   RING       reduce-scatter, pass and gathers: the pass runs beside the reduce-scatter, the gathers follow both; what
 *              goes from one to the other in registers is no traffic
 *   OVERLAP    every part in chunks on streams of its own: chunk k waits for chunk k of what it reads
 *
 * All other steps follow one another: each waits for all before it, as in a program that calls them in turn. Steps of a
 * list are an operation for each tensor; messages in buckets are joined. */
#ifndef LK_LANG_LOWER_H
#define LK_LANG_LOWER_H

#include "graph/graph.h"
#include "lang/run/sizes.h"
#include "lang/steps/steps.h"

enum { LC_CHUNKS = 8 }; /* of an overlap whose number of chunks is left open, unless lc_lower is told */

/* `chunks`: for overlaps that leave it open; 0: LC_CHUNKS. The steps' program and sizes must fit (lc_sizes_check). */
lk_status lc_lower(const lc_steps *steps, const lc_sizes *sizes, int64_t chunks, lk_graph **out, lk_error *err);

/* Device memory that a MAP's or RING's pass reads and writes on one rank, of tensor `item` of its list: every value that it
 * reads from memory or stores counts once. */
lk_status lc_pass_bytes(const lc_steps *steps, const lc_step *s, const lc_sizes *sizes, int64_t item, double *out,
                        lk_error *err);

#endif
