/* tables_internal.h: shared by files of this room: one row of a table of runs, as read from its
 * text for its job (runs*.c); how a benchmark launches the engines of its table (serving*.c). */
#ifndef LK_TABLES_TABLES_INTERNAL_H
#define LK_TABLES_TABLES_INTERNAL_H

#include "tables/tables.h"

enum { LK_EMPTY = -1 }; /* a field that the row leaves empty */

/* Integer columns, named after their column; choices are values of their enumeration. */
typedef struct lk_run_row {
	int layers, hidden, heads, kv_heads, head_dim, ffn, vocab, seq, gated;
	int experts, topk, expert_ffn, shared_experts, dense_layers;
	int n_gpu, nvlink_domain;
	int tp, pp, vp, cp, ep, dp, mbs, gbs, seq_parallel, mtp;
	int task, attention, sharding, recompute, attn_kernel, precision;
	double net_gbps_per_gpu;         /* Gbit/s; LK_EMPTY */
	bool compile, async_tp, rowwise; /* rowwise: factors of rows in fp8 */
	bool engine, by_node,
		balanced; /* Transformer Engine; DeepEP; rows spread evenly over experts */
} lk_run_row;

/* runs_job.c: fill job and cluster of a run whose texts are set, or `refused`. Fails only when out
 * of memory. */
lk_status lk_run_build(lk_arena *arena, const lk_run_row *row, lk_run *run, lk_error *err);

/* serving_launch.c: what the benchmark's scripts set for a row of `engine`, in the words of the
 * table. */
void lk_serving_launch(const char *engine, lk_inference_run *run);

#endif
