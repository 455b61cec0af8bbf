/* collective_rows.h: a table of measured collectives (collectives.csv), each row with the nodes that it ran on. */
#ifndef LK_ACCURACY_COLLECTIVE_ROWS_H
#define LK_ACCURACY_COLLECTIVE_ROWS_H

#include "io/stream.h"
#include "base/vec.h"
#include "cost/collective/collective.h"
#include "cost/collective/fabric.h"

typedef struct lk_coll_row {
	lk_coll_kind kind;
	int gpus, nodes;
	double bytes, us;                  /* out of place; NAN not stated */
	const char *gpu;                   /* as in the table */
	const char *fabric;                /* its short name: "NDv4", "vidur a100_dgx" */
	const char *text, *source, *where; /* of the table; "file:line" */
	const char *slow;                  /* why the fabric is known to be slow; "" */
	const char *refused;               /* why it cannot be predicted; "" */
	lk_node node;
	bool network_stated; /* the table says which NICs the nodes have */
} lk_coll_row;

typedef LK_VEC(lk_coll_row) lk_coll_rows;

/* Reads all rows; texts are owned by the arena, the vector is to be freed with lk_vec_free in every case. */
lk_status lk_coll_rows_read(lk_arena *arena, lk_stream *in, lk_coll_rows *out, lk_error *err);

/* A device by the name that a table or a log has for it; NULL. */
const lk_device *lk_coll_device(const char *text);
/* Fills the node of a row, from the words of its fabric and the usual wiring of the device. */
void lk_coll_row_wire(lk_coll_row *row, const lk_device *device);

/* The group of a row; `fabric` may be NULL. */
lk_group_shape lk_coll_row_group(const lk_coll_row *row, const lk_fabric *fabric);

#endif
