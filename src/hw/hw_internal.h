/* hw_internal.h: what the ways to describe a cluster share. Private to hw/. */
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
	lk_interconnect net;
	char nccl[256];
	const char *assumed; /* as in lk_cluster */
} lk_cluster_draft;

#define LK_CLUSTER_DRAFT_INIT \
	{ .oversubscription = 1, .rail_optimised = true }

/* A node of `gpus` devices wired and networked as usual. */
lk_node lk_node_usual(const lk_device *device, int gpus);

/* Rate per direction and GPU of such wiring when nothing else is said; 0 where the device has no
 * links for it. */
double lk_intra_rate(const lk_device *device, lk_intra intra);

/* NVLink generation of an architecture; 0 for those without. */
int lk_nvlink_generation(lk_arch arch);

/* Appends runs that hold `gpus` devices: full nodes of node->gpus, then one with what is left. */
lk_status lk_cluster_fill(lk_cluster_draft *draft, const lk_node *node, int gpus, lk_error *err);

/* Appends `nodes` nodes. */
lk_status lk_cluster_add(lk_cluster_draft *draft, const lk_node *node, int nodes, const char *where,
                         lk_error *err);

/* Moves the draft into a cluster owned by the arena and writes its text. */
lk_status lk_cluster_seal(lk_arena *arena, const lk_cluster_draft *draft, lk_cluster *out,
                          lk_error *err);

/* Writes the synthetic form, which lk_cluster_parse reads back to the same cluster as long as it
 * fits and its devices are in the catalogue; a text that does not fit ends in " ...". */
void lk_cluster_text(const lk_cluster *cluster, char *out, size_t size);

/* The JSON form, read to its end. */
lk_status lk_cluster_json(lk_arena *arena, lk_stream *in, lk_cluster *out, lk_error *err);

/* ---- interconnect: the network between nodes, as text and in numbers. */

/* The kind of a name, "tree", "rails", "dragonfly", "torus"; LK_NET_FLAT: of none. */
lk_net_kind lk_net_kind_of(const char *name, size_t length);
/* Reads the text form from *at, and moves it after what belongs to it. An error has no place; *at
 * is then where it is. */
lk_status lk_interconnect_read(const char **at, lk_interconnect *out, lk_error *err);
/* The text form. */
void lk_interconnect_text(const lk_interconnect *net, char *out, size_t size);
/* Whether sizes and properties are such as the kind has. */
lk_status lk_interconnect_check(const lk_interconnect *net, const char *where, lk_error *err);
/* Whether the nodes of a cluster have places in its network. */
lk_status lk_interconnect_fits(const lk_cluster *cluster, lk_error *err);

/* ---- fields: the fields of a device by the names they have in data/devices.csv and in the JSON
 * form of a cluster. */

/* Sets field `name` of a device from text, in the unit that the name states: "memory_gib",
 * "nic_gbps" (gigabits), "memory_GBps" (gigabytes). An empty text sets 0 or "". Unknown names and
 * values out of range: errors at `where`. */
lk_status lk_device_set(lk_device *device, const char *name, const char *text, const char *where,
                        lk_error *err);

/* The number of fields and their names, in the order of the columns; and lk_device_set by that
 * order. Those from LK_DEVICE_COLUMNS on are measured: they are in JSON alone. */
enum { LK_DEVICE_COLUMNS = 26, LK_DEVICE_FIELDS = 29 };
const char *lk_device_field(int index);
lk_status lk_device_set_field(lk_device *device, int index, const char *text, const char *where,
                              lk_error *err);

/* A device can be reckoned with: what every model divides by is there, and links and their rate go
 * together. */
lk_status lk_device_check(const lk_device *device, const char *where, lk_error *err);

/* ---- topology_xml: NCCL's description of a node (NCCL_TOPO_DUMP_FILE, or what a cloud ships as
 * NCCL_TOPO_FILE). */

/* Reads the file as one kind of node. What it does not say is as usual for the device. */
lk_status lk_topology_xml_read(lk_stream *in, lk_node *out, lk_error *err);

/* ---- nccl_info: what NCCL prints with NCCL_DEBUG=INFO. */

/* The nodes of the largest communicator. `device`: which GPUs these are; "": as nccl-tests say. */
lk_status lk_nccl_info_read(lk_stream *in, const char *device, lk_cluster_draft *draft,
                            lk_error *err);

#endif
