/* mlperf_table.h: measured steps of MLPerf submissions: benchmark, gpu, nodes, gpus_per_node, n_gpu, gbs, step_s, framework,
 * source. */
#ifndef LK_ACCURACY_MLPERF_TABLE_H
#define LK_ACCURACY_MLPERF_TABLE_H

#include "base/arena.h"
#include "io/stream.h"
#include "base/vec.h"

typedef struct lk_mlperf_run {
	const char *id, *benchmark, *gpu, *framework, *where;
	int nodes, gpus;
	int named_nodes;       /* that the system's name states ("..._n4"), where the table says otherwise; 0 */
	double batch, seconds; /* NAN: not stated */
} lk_mlperf_run;

typedef LK_VEC(lk_mlperf_run) lk_mlperf_runs;

/* Texts are owned by the arena; the vector is to be freed in every case. */
lk_status lk_mlperf_read(lk_arena *arena, lk_stream *in, lk_mlperf_runs *out, lk_error *err);

#endif
