/* cluster_edit.h: a cluster with something changed. What is the same afterwards as before is returned as it was. */
#ifndef LK_HW_CLUSTER_EDIT_H
#define LK_HW_CLUSTER_EDIT_H

#include "hw/hw.h"

/* With room for `gpus`: more nodes like those it has. A cluster that is large enough stays as it is. */
lk_status lk_cluster_grown(lk_arena *arena, const lk_cluster *from, int gpus, lk_cluster *out, lk_error *err);
/* Another device in place of every one: nodes as usual for it where they were as usual for the old one, else nodes of
 * the same size with the same NICs and the links of the new device. */
lk_status lk_cluster_with_device(lk_arena *arena, const lk_cluster *from, const lk_device *device, lk_cluster *out,
								 lk_error *err);
/* Other NICs in every node: "2x" times as fast (also 0.5x), "400g" Gbit/s or "50GB/s" each, "8*400g" or "8x400g" so
 * many. */
lk_status lk_cluster_with_nics(lk_arena *arena, const lk_cluster *from, const char *text, lk_cluster *out,
							   lk_error *err);
/* Other links inside the node: "2x", or "450GB/s" per GPU and direction. */
lk_status lk_cluster_with_links(lk_arena *arena, const lk_cluster *from, const char *text, lk_cluster *out,
								lk_error *err);

#endif
