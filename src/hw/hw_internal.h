/* hw_internal.h: shared by the cluster descriptions. Private to hw/. */
#ifndef LK_HW_HW_INTERNAL_H
#define LK_HW_HW_INTERNAL_H

#include "base/vec.h"
#include "hw/hw.h"
#include "io/stream.h"

enum {
	LK_CLUSTER_GPUS = 1 << 24, /* most GPUs of a cluster */
	LK_CLUSTER_GROUPS = 4096,  /* most runs of equal nodes */
	LK_CLUSTER_NICS = 1 << 16, /* most NICs of a node */
};

/* Higher rates are typos: 1 PB/s. */
#define LK_CLUSTER_RATE 1e15

typedef struct lk_node_run {
	lk_node node;
	int nodes;
} lk_node_run;

/* A cluster under construction. Free with lk_vec_free(&draft.runs). */
typedef struct lk_cluster_draft {
	LK_VEC(lk_node_run) runs;
	double oversubscription;
	bool rail_optimised;
	lk_interconnect net;
	char nccl[256];
	const char *assumed; /* as in lk_cluster */
} lk_cluster_draft;

#define LK_CLUSTER_DRAFT_INIT \
	{ .oversubscription = 1, .rail_optimised = true }

/* A node of `gpus` devices with default wiring and network. */
lk_node lk_node_usual(const lk_device *device, int gpus);

/* The text of a node that is rented by this name, such as "p4d.24xlarge"; *out is NULL if none
 * is. */
lk_status lk_machine_text(lk_arena *arena, const char *name, size_t length, const char **out,
                          lk_error *err);

/* Whether `nodes` nodes of this kind are trays of a larger domain of the device, as those of an
 * NVL72 rack are. */
static inline bool lk_node_is_tray(const lk_node *node, int nodes) {
	return nodes > 1 && node->device->node_gpus > 8 && node->gpus < node->device->node_gpus &&
	       node->intra == LK_INTRA_SWITCH;
}

/* Default rate per direction and GPU of this wiring; 0 if the device has no such links. */
double lk_intra_rate(const lk_device *device, lk_intra intra);

/* NVLink generation of an architecture; 0 without NVLink. */
int lk_nvlink_generation(lk_arch arch);

/* Append runs that hold `gpus` devices: full nodes of node->gpus, then one with the rest. */
lk_status lk_cluster_fill(lk_cluster_draft *draft, const lk_node *node, int gpus, lk_error *err);

/* Append `nodes` nodes. */
lk_status lk_cluster_add(lk_cluster_draft *draft, const lk_node *node, int nodes, const char *where,
                         lk_error *err);

/* Move the draft into a cluster owned by the arena and write its text. */
lk_status lk_cluster_seal(lk_arena *arena, const lk_cluster_draft *draft, lk_cluster *out,
                          lk_error *err);

/* Write the synthetic form, which lk_cluster_parse reads back to the same cluster as long as it
 * fits and its devices are in the catalogue; a text that does not fit ends in " ...". */
void lk_cluster_text(const lk_cluster *cluster, char *out, size_t size);

/* Read the JSON form to its end. */
lk_status lk_cluster_json(lk_arena *arena, lk_stream *in, lk_cluster *out, lk_error *err);

/* ---- interconnect: the network between nodes, as text and in numbers. */

/* The kind called "tree", "rails", "dragonfly" or "torus"; else LK_NET_FLAT. */
lk_net_kind lk_net_kind_of(const char *name, size_t length);
/* Read the text form from *at and move *at past it. An error has no place; *at is then at it. */
lk_status lk_interconnect_read(const char **at, lk_interconnect *out, lk_error *err);
/* Write the text form. */
void lk_interconnect_text(const lk_interconnect *net, char *out, size_t size);
/* Check sizes and properties against the kind. */
lk_status lk_interconnect_check(const lk_interconnect *net, const char *where, lk_error *err);
/* Whether the nodes of a cluster fit into its network. */
lk_status lk_interconnect_fits(const lk_cluster *cluster, lk_error *err);

/* ---- fields: the fields of a device by their names in data/devices.csv and in the JSON form of a
 * cluster. */

/* Set field `name` of a device from text, in the unit of the name: "memory_gib", "nic_gbps"
 * (gigabits), "memory_GBps" (gigabytes). An empty text sets 0 or "". Unknown names and values out
 * of range: errors at `where`. */
lk_status lk_device_set(lk_device *device, const char *name, const char *text, const char *where,
                        lk_error *err);

/* The number of fields and their names, in the order of the columns; and lk_device_set by that
 * order. Fields from LK_DEVICE_COLUMNS on are measured: only JSON has them. */
enum { LK_DEVICE_COLUMNS = 26, LK_DEVICE_FIELDS = 29 };
const char *lk_device_field(int index);
lk_status lk_device_set_field(lk_device *device, int index, const char *text, const char *where,
                              lk_error *err);

/* Check that a device can be modelled: every divisor of the models is set, and links have a
 * rate. */
lk_status lk_device_check(const lk_device *device, const char *where, lk_error *err);

/* ---- topology_xml: NCCL's description of a node (NCCL_TOPO_DUMP_FILE, or what a cloud ships as
 * NCCL_TOPO_FILE). */

/* Read the file as one kind of node. What it omits defaults to the device's. */
lk_status lk_topology_xml_read(lk_stream *in, lk_node *out, lk_error *err);

/* ---- nccl_info: NCCL's output with NCCL_DEBUG=INFO. */

/* Read the nodes of the largest communicator. `device`: the GPUs; "": as stated by nccl-tests. */
lk_status lk_nccl_info_read(lk_stream *in, const char *device, lk_cluster_draft *draft,
                            lk_error *err);

#endif
