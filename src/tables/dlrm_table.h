/* dlrm_table.h: a table of training steps of recommendation models, timed on one device.
 *
 *     gpu,model,batch_size,measured_iter_ms        (or measured_iter_ms_digitised)
 *
 * model: a preset of data/recommenders, or the path of a config that ends in .json.
 */
#ifndef LK_ACCURACY_DLRM_TABLE_H
#define LK_ACCURACY_DLRM_TABLE_H

#include "io/stream.h"
#include "base/vec.h"
#include "hw/hw.h"
#include "model/network/dlrm.h"

typedef struct lk_dlrm_run {
	const char *gpu, *name, *where;
	const lk_device *device;  /* NULL: not in the catalogue */
	lk_dlrm model;
	bool known;
	double batch, seconds;
} lk_dlrm_run;

typedef LK_VEC(lk_dlrm_run) lk_dlrm_runs;

/* Reads all rows; texts and tables are owned by the arena, the vector is to be freed in every case. */
lk_status lk_dlrm_runs_read(lk_arena *arena, lk_stream *in, lk_dlrm_runs *out, lk_error *err);

#endif
