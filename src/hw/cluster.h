/* cluster.h: what the ways to describe a cluster share. Private to hw/. */
#ifndef LK_HW_CLUSTER_H
#define LK_HW_CLUSTER_H

#include "io/stream.h"
#include "base/vec.h"
#include "hw/hw.h"

enum {
	LK_CLUSTER_GPUS = 1 << 24,  /* most GPUs of a cluster */
	LK_CLUSTER_GROUPS = 4096,   /* most runs of equal nodes */
	LK_CLUSTER_NICS = 1 << 16,  /* most NICs of a node */
};

/* Rates above this are slips of the keyboard: 1 PB/s. */
#define LK_CLUSTER_RATE 1e15

typedef struct lk_node_run {
	lk_node node;
	int nodes;
} lk_node_run;

/* A cluster while it is described. Free with lk_vec_free(&draft.runs). */
typedef struct lk_cluster_draft {
	LK_VEC(lk_node_run) runs;
	double oversubscription;
	bool rail_optimised;
} lk_cluster_draft;

#define LK_CLUSTER_DRAFT_INIT {{0}, 1, true}

/* A node of `gpus` devices wired and networked as usual. */
lk_node lk_node_usual(const lk_device *device, int gpus);

/* Rate per direction and GPU of such wiring when nothing else is said; 0 where the device has no links for it. */
double lk_intra_rate(const lk_device *device, lk_intra intra);

/* NVLink generation of an architecture; 0 for those without. */
int lk_nvlink_generation(lk_arch arch);

/* Appends runs that hold `gpus` devices: full nodes of node->gpus, then one with what is left. */
lk_status lk_cluster_fill(lk_cluster_draft *draft, const lk_node *node, int gpus, lk_error *err);

/* Appends `nodes` nodes. */
lk_status lk_cluster_add(lk_cluster_draft *draft, const lk_node *node, int nodes, const char *where, lk_error *err);

/* Moves the draft into a cluster owned by the arena and writes its text. */
lk_status lk_cluster_seal(lk_arena *arena, const lk_cluster_draft *draft, lk_cluster *out, lk_error *err);

/* Writes the synthetic form, which lk_cluster_parse reads back to the same cluster as long as it fits and its devices
 * are in the catalogue; a text that does not fit ends in " ...". */
void lk_cluster_text(const lk_cluster *cluster, char *out, size_t size);

/* The JSON form, read to its end. */
lk_status lk_cluster_json(lk_arena *arena, lk_stream *in, lk_cluster *out, lk_error *err);

#endif
