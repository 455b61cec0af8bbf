/* cluster_json.c: read the JSON form of a cluster:
 *
 *     {"nodes": [{"count": 8, "gpus": 8, "device": "h100-sxm", "intra": "switch",
 *                 "intra_GBps": 370, "nics": 8, "nic_gbps": 400, "nic_latency_us": 0}],
 *      "oversubscription": 1, "rail_optimised": true,
 *      "topology": {"kind": "tree", "sizes": [16, 8], "leaf": {"ratio": 4, "background": 0.3}},
 *      "devices": [{"name": "host-cpu", "base": "xeon-8380", "fp32_tflops": 2.9, "sms": 32}],
 *      "measured": {...}}
 *
 * Only "device" is required; the rest defaults to one default node of the device. "gbps" are
 * gigabits, "GBps" gigabytes per second. A device is a name, of "devices" or else of the catalogue,
 * or an object with the columns of data/devices.csv as members, the ones left out taken from the
 * device that its "base" names. "measured" is for people: other results of `lockstep calibrate
 * host`, which are ignored. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "io/form.h"
#include "io/json.h"
#include "base/text.h"
#include "hw/hw_internal.h"

enum { OWN_DEVICES = 256 }; /* most entries of "devices" */

struct reader {
	lk_arena *arena;
	const char *file;
	const lk_device **own; /* entries of "devices" read so far */
	size_t own_count;
	lk_cluster_draft draft;
	lk_error *err;
};

/* ---- members ---- */

static const char *json_place(const struct reader *reader, const lk_value *value, char out[200]) {
	snprintf(out, 200, "%.150s:%d:%d", reader->file, value->line, value->column);
	return out;
}

static lk_status json_fail_at(const struct reader *reader, const lk_value *value, const char *what,
                              const char *hint) {
	char where[200];
	lk_fail(reader->err, LK_ERR_INPUT, json_place(reader, value, where), "%s", what);
	return hint ? lk_hint(reader->err, "%s", hint) : LK_ERR_INPUT;
}

/* Every key of an object must be one of `names`. */
static lk_status check_keys(const struct reader *reader, const lk_value *object,
                            const char *const *names, size_t count) {
	for (size_t i = 0; i < object->count; i++) {
		bool known = false;
		for (size_t n = 0; n < count && !known; n++) known = strcmp(object->keys[i], names[n]) == 0;
		if (known) continue;
		char what[128], hint[128];
		const char *near = lk_nearest(object->keys[i], names, count);
		snprintf(what, sizeof what, "unknown key '%.80s'", object->keys[i]);
		snprintf(hint, sizeof hint,
		         near ? "did you mean '%s'?" : "the first of the known ones is '%s'",
		         near ? near : names[0]);
		return json_fail_at(reader, &object->items[i], what, hint);
	}
	return LK_OK;
}

/* Read an optional number of an object. */
static lk_status real_member(const struct reader *reader, const lk_value *object, const char *key,
                             double low, double high, double *out) {
	const lk_value *value = lk_json_get(object, key);
	if (!value) return LK_OK;
	char what[128];
	snprintf(what, sizeof what, "%s must be a number from %.9g to %.9g", key, low, high);
	if (value->kind != LK_JSON_NUMBER || !(value->number >= low && value->number <= high))
		return json_fail_at(reader, value, what, NULL);
	*out = value->number;
	return LK_OK;
}

static lk_status json_count_member(const struct reader *reader, const lk_value *object,
                                   const char *key, int high, int *out) {
	double number = *out;
	LK_TRY(real_member(reader, object, key, 1, high, &number));
	if (number != floor(number))
		return json_fail_at(reader, lk_json_get(object, key), "a count must be a whole number",
		                    NULL);
	*out = (int)number;
	return LK_OK;
}

/* ---- devices ---- */

static const lk_device *find_own(const struct reader *reader, const char *name) {
	for (size_t i = 0; i < reader->own_count; i++)
		if (lk_same_name(reader->own[i]->name, name)) return reader->own[i];
	return NULL;
}

/* Look up a device by a text value; an unknown one is an error at its place in the file. */
static lk_status named_device(const struct reader *reader, const lk_value *value,
                              const lk_device **out) {
	lk_error why = {0};
	*out = find_own(reader, value->text);
	if (*out) return LK_OK;
	lk_status status = lk_device_lookup(value->text, NULL, out, &why);
	if (status == LK_ERR_INPUT)
		return json_fail_at(reader, value, why.what, *why.hint ? why.hint : NULL);
	if (status != LK_OK && reader->err) *reader->err = why;
	return status;
}

static const char *field_text(const lk_value *value) {
	if (value->kind == LK_JSON_STRING || value->kind == LK_JSON_NUMBER) return value->text;
	if (value->kind == LK_JSON_TRUE) return "true";
	return value->kind == LK_JSON_FALSE ? "false" : NULL;
}

static lk_status own_device(const struct reader *reader, const lk_value *object,
                            const lk_device **out) {
	lk_device *device = LK_NEW(reader->arena, lk_device);
	char where[200];
	if (!device) return lk_oom(reader->err);
	const lk_value *base = lk_json_get(object, "base");
	if (base) {
		const lk_device *from;
		if (base->kind != LK_JSON_STRING)
			return json_fail_at(reader, base, "base must be the name of a device", NULL);
		LK_TRY(named_device(reader, base, &from));
		*device = *from;
	}
	for (size_t i = 0; i < object->count; i++) {
		const lk_value *value = &object->items[i];
		if (strcmp(object->keys[i], "base") == 0) continue;
		const char *text = field_text(value);
		if (!text)
			return json_fail_at(reader, value,
			                    "a field of a device is a text, a number, true or false", NULL);
		LK_TRY(lk_device_set(device, object->keys[i], text, json_place(reader, value, where),
		                     reader->err));
	}
	LK_TRY(lk_device_check(device, json_place(reader, object, where), reader->err));
	*out = device;
	return LK_OK;
}

static lk_status json_read_device(const struct reader *reader, const lk_value *group,
                                  const lk_device **out) {
	const lk_value *value = lk_json_get(group, "device");
	if (!value)
		return json_fail_at(reader, group, "these nodes have no device",
		                    "add \"device\": \"h100-sxm\"");
	if (value->kind == LK_JSON_STRING) return named_device(reader, value, out);
	if (value->kind == LK_JSON_OBJECT) return own_device(reader, value, out);
	return json_fail_at(reader, value, "device must be a name or an object", NULL);
}

/* Read the devices that the file defines; one may be the "base" of later ones. */
static lk_status json_read_devices(struct reader *reader, const lk_value *list) {
	if (!list) return LK_OK;
	if (list->kind != LK_JSON_ARRAY)
		return json_fail_at(reader, list, "devices must be an array of objects", NULL);
	if (list->count > OWN_DEVICES) return json_fail_at(reader, list, "more than 256 devices", NULL);
	reader->own = LK_ARRAY(reader->arena, const lk_device *, list->count);
	if (!reader->own) return lk_oom(reader->err);
	for (size_t i = 0; i < list->count; i++) {
		const lk_value *value = &list->items[i];
		const lk_device *device;
		if (value->kind != LK_JSON_OBJECT)
			return json_fail_at(reader, value, "an element of devices must be an object", NULL);
		LK_TRY(own_device(reader, value, &device));
		if (find_own(reader, device->name))
			return json_fail_at(reader, value, "a second device of this name", "names must differ");
		reader->own[reader->own_count++] = device;
	}
	return LK_OK;
}

/* ---- nodes ---- */

/* "peer": false is a host that refuses peer access over PCIe. */
static lk_status json_read_peer(const struct reader *reader, const lk_value *group, lk_node *node) {
	const lk_value *peer = lk_json_get(group, "peer");
	if (!peer) return LK_OK;
	if (peer->kind != LK_JSON_TRUE && peer->kind != LK_JSON_FALSE)
		return json_fail_at(reader, peer, "peer must be true or false", NULL);
	node->no_peer = peer->kind == LK_JSON_FALSE;
	if (!node->no_peer || node->intra == LK_INTRA_PCIE) return LK_OK;
	return json_fail_at(reader, peer, "GPUs joined by links reach one another", "leave peer out");
}

static lk_status json_read_wiring(const struct reader *reader, const lk_value *group,
                                  lk_node *node) {
	enum { BRIDGES = LK_INTRA_SWITCH + 1, KINDS };
	static const char *const names[] = {[LK_INTRA_PCIE] = "pcie",
	                                    [LK_INTRA_MESH] = "mesh",
	                                    [LK_INTRA_SWITCH] = "switch",
	                                    [BRIDGES] = "bridges"};
	const lk_value *value = lk_json_get(group, "intra");
	if (value) {
		int intra = -1;
		for (int i = 0; i < KINDS && value->kind == LK_JSON_STRING; i++)
			if (lk_same_name(value->text, names[i])) intra = i;
		if (intra < 0)
			return json_fail_at(
				reader, value, "intra must be \"switch\", \"mesh\", \"pcie\" or \"bridges\"", NULL);
		if (intra == BRIDGES && !node->device->link_bridge)
			return json_fail_at(reader, value, "no bridge joins pairs of this device", NULL);
		if (intra == BRIDGES) node->pair_rate = node->device->link_rate, intra = LK_INTRA_PCIE;
		node->intra = (lk_intra)intra;
		node->intra_rate = lk_intra_rate(node->device, node->intra);
	}
	double *rate = node->pair_rate > 0 ? &node->pair_rate : &node->intra_rate;
	double gigabytes = *rate / 1e9, gigabits = 0;
	const lk_value *as_bits = lk_json_get(group, "intra_gbps"),
				   *as_bytes = lk_json_get(group, "intra_GBps");
	if (as_bits && as_bytes)
		return json_fail_at(reader, as_bits, "intra_gbps and intra_GBps say the same: give one",
		                    NULL);
	LK_TRY(real_member(reader, group, "intra_GBps", 1e-3, LK_CLUSTER_RATE / 1e9, &gigabytes));
	LK_TRY(real_member(reader, group, "intra_gbps", 1e-3, LK_CLUSTER_RATE * 8 / 1e9, &gigabits));
	if (as_bytes) *rate = gigabytes * 1e9;
	if (as_bits) *rate = gigabits * 1e9 / 8;
	if (node->intra_rate > 0) return json_read_peer(reader, group, node);
	return json_fail_at(reader, value ? value : group, "this device has no links of its own",
	                    "say \"intra\": \"pcie\", or give intra_GBps");
}

static lk_status json_read_nics(const struct reader *reader, const lk_value *group, lk_node *node) {
	double gigabits = 0, us = 0;
	LK_TRY(json_count_member(reader, group, "nics", LK_CLUSTER_NICS, &node->nics));
	LK_TRY(real_member(reader, group, "nic_gbps", 1e-3, LK_CLUSTER_RATE * 8 / 1e9, &gigabits));
	LK_TRY(real_member(reader, group, "nic_latency_us", 0, 1e6, &us));
	if (gigabits > 0) node->nic_rate = gigabits * 1e9 / 8;
	node->nic_latency_s = us * 1e-6;
	const lk_value *transport = lk_json_get(group, "transport");
	if (!transport) return LK_OK;
	if (transport->kind == LK_JSON_STRING)
		node->transport = lk_transport_find(transport->text, strlen(transport->text));
	if (transport->kind == LK_JSON_STRING && node->transport != LK_TRANSPORTS) return LK_OK;
	return json_fail_at(reader, transport,
	                    "transport must be \"rdma\", \"sockets\", \"tcpx\" or \"tcpxo\"", NULL);
}

static lk_status json_read_group(struct reader *reader, const lk_value *group) {
	static const char *const keys[] = {"count",          "gpus",       "device", "intra",
	                                   "intra_gbps",     "intra_GBps", "nics",   "nic_gbps",
	                                   "nic_latency_us", "transport",  "peer"};
	if (group->kind != LK_JSON_OBJECT)
		return json_fail_at(reader, group, "an element of nodes must be an object", NULL);
	LK_TRY(check_keys(reader, group, keys, sizeof keys / sizeof *keys));
	const lk_device *device;
	LK_TRY(json_read_device(reader, group, &device));
	int count = 1, gpus = device->node_gpus;
	LK_TRY(json_count_member(reader, group, "count", LK_CLUSTER_GPUS, &count));
	LK_TRY(json_count_member(reader, group, "gpus", LK_CLUSTER_GPUS, &gpus));
	lk_node node = lk_node_usual(device, gpus);
	LK_TRY(json_read_wiring(reader, group, &node));
	LK_TRY(json_read_nics(reader, group, &node));
	char where[200];
	return lk_cluster_add(&reader->draft, &node, count, json_place(reader, group, where),
	                      reader->err);
}

/* ---- the network ---- */

static lk_status json_read_sizes(const struct reader *reader, const lk_value *object,
                                 lk_interconnect *net) {
	const lk_value *list = lk_json_get(object, "sizes");
	bool good = list && list->kind == LK_JSON_ARRAY && list->count >= 1 && list->count <= LK_TIERS;
	for (size_t i = 0; good && i < list->count; i++) {
		double size = list->items[i].kind == LK_JSON_NUMBER ? list->items[i].number : 0;
		good = size >= 1 && size <= 1 << 16 && size == floor(size);
		if (good) net->size[net->sizes++] = (int)size;
	}
	return good ? LK_OK
	            : json_fail_at(reader, list ? list : object,
	                           "a topology needs \"sizes\", one to three whole numbers up to 65536",
	                           "write \"sizes\": [16]");
}

static lk_status json_read_tier(const struct reader *reader, const lk_value *object, int tier,
                                lk_interconnect *net) {
	bool ratios = net->kind == LK_NET_TREE || net->kind == LK_NET_RAILS;
	static const char *const keys[] = {"background", "gbps", "latency_us", "ratio"};
	if (object->kind != LK_JSON_OBJECT)
		return json_fail_at(reader, object, "a tier must be an object", NULL);
	LK_TRY(check_keys(reader, object, keys, ratios ? 4 : 3));
	double gigabits = 0, us = 0;
	LK_TRY(real_member(reader, object, "ratio", 1, 1e4, &net->ratio[tier]));
	LK_TRY(real_member(reader, object, "gbps", 1e-3, LK_CLUSTER_RATE * 8 / 1e9, &gigabits));
	LK_TRY(real_member(reader, object, "latency_us", 0, 1e7, &us));
	net->rate[tier] = gigabits * 1e9 / 8;
	net->latency_s[tier] = us * 1e-6;
	return real_member(reader, object, "background", 0, 0.99, &net->background[tier]);
}

static lk_status json_read_network(struct reader *reader, const lk_value *object) {
	lk_interconnect net = {.ratio = {1, 1, 1}};
	const char *keys[3 + LK_TIERS] = {"kind", "sizes"};
	size_t known = 2;
	char where[200];
	if (!object) return LK_OK;
	if (object->kind != LK_JSON_OBJECT)
		return json_fail_at(reader, object, "topology must be an object", NULL);
	const lk_value *kind = lk_json_get(object, "kind");
	if (kind && kind->kind == LK_JSON_STRING)
		net.kind = lk_net_kind_of(kind->text, strlen(kind->text));
	if (net.kind == LK_NET_FLAT)
		return json_fail_at(reader, kind ? kind : object,
		                    "kind must be \"tree\", \"rails\", \"dragonfly\" or \"torus\"", NULL);
	LK_TRY(json_read_sizes(reader, object, &net));
	LK_TRY(lk_interconnect_check(&net, json_place(reader, object, where), reader->err));
	for (int tier = 0; tier < lk_interconnect_tiers(&net); tier++)
		keys[known++] = lk_tier_name(net.kind, tier);
	if (net.kind == LK_NET_TREE || net.kind == LK_NET_RAILS) keys[known++] = "sharp";
	LK_TRY(check_keys(reader, object, keys, known));
	const lk_value *sharp = lk_json_get(object, "sharp");
	if (sharp && sharp->kind != LK_JSON_TRUE && sharp->kind != LK_JSON_FALSE)
		return json_fail_at(reader, sharp, "sharp must be true or false", NULL);
	net.sharp = sharp && sharp->kind == LK_JSON_TRUE;
	for (int tier = 0; tier < lk_interconnect_tiers(&net); tier++) {
		const lk_value *links = lk_json_get(object, lk_tier_name(net.kind, tier));
		if (links) LK_TRY(json_read_tier(reader, links, tier, &net));
	}
	reader->draft.net = net;
	return lk_interconnect_check(&net, json_place(reader, object, where), reader->err);
}

/* ---- the whole ---- */

static lk_status json_read_cluster(struct reader *reader, const lk_value *top) {
	static const char *const keys[] = {
		"nodes",   "oversubscription", "rail_optimised",   "topology",
		"devices", "measured",         "lockstep_cluster", "lockstep_seal"};
	if (top->kind != LK_JSON_OBJECT)
		return json_fail_at(reader, top, "a cluster must be an object", NULL);
	LK_TRY(lk_form_check_member(LK_FORM_CLUSTER, top, reader->file, reader->err));
	LK_TRY(check_keys(reader, top, keys, sizeof keys / sizeof *keys));
	const lk_value *nodes = lk_json_get(top, "nodes"), *rail = lk_json_get(top, "rail_optimised");
	if (!nodes || nodes->kind != LK_JSON_ARRAY || !nodes->count)
		return json_fail_at(reader, nodes ? nodes : top,
		                    "a cluster needs \"nodes\", an array of at least one kind", NULL);
	LK_TRY(real_member(reader, top, "oversubscription", 1, 1e4, &reader->draft.oversubscription));
	if (rail && rail->kind != LK_JSON_TRUE && rail->kind != LK_JSON_FALSE)
		return json_fail_at(reader, rail, "rail_optimised must be true or false", NULL);
	if (rail) reader->draft.rail_optimised = rail->kind == LK_JSON_TRUE;
	LK_TRY(json_read_network(reader, lk_json_get(top, "topology")));
	LK_TRY(json_read_devices(reader, lk_json_get(top, "devices")));
	for (size_t i = 0; i < nodes->count; i++) LK_TRY(json_read_group(reader, &nodes->items[i]));
	return LK_OK;
}

lk_status lk_cluster_json(lk_arena *arena, lk_stream *in, lk_cluster *out, lk_error *err) {
	lk_value *top;
	LK_TRY(lk_json_document(arena, in, &top, err));
	struct reader r = {arena, lk_stream_name(in), NULL, 0, LK_CLUSTER_DRAFT_INIT, err};
	lk_status status = json_read_cluster(&r, top);
	if (status == LK_OK) status = lk_cluster_seal(arena, &r.draft, out, err);
	lk_vec_free(&r.draft.runs);
	return status;
}
