/* models_table.h: a table of whole networks, timed on one device or a few: fp32, run operator by operator.
 *
 *     gpu,model,phase,seq,batch,mode,n_gpu,e2e_ms,fwd_ms,bwd_ms
 *
 * phase: inf or train (forward and backward, no optimizer). mode: single; fusion (compiled); dpN, tpN, ppN_M (data,
 * tensor and pipeline parallel, M micro-batches).
 */
#ifndef LK_ACCURACY_MODELS_TABLE_H
#define LK_ACCURACY_MODELS_TABLE_H

#include "io/stream.h"
#include "base/vec.h"
#include "hw/hw.h"
#include "model/network/model.h"

typedef struct lk_model_run {
	const char *gpu, *name, *phase, *mode, *where;
	const lk_device *device;      /* NULL: not in the catalogue */
	lk_model model;               /* of a name that is known */
	bool known;
	bool train, compiled;
	int data, tensor, stages, micro; /* 1 where not split */
	double seq, batch;            /* the batch over all devices */
	double seconds;
} lk_model_run;

typedef LK_VEC(lk_model_run) lk_model_runs;

/* Reads all rows; texts are owned by the arena, the vector is to be freed in every case. */
lk_status lk_models_read(lk_arena *arena, lk_stream *in, lk_model_runs *out, lk_error *err);

#endif
