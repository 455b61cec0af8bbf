/* cluster_text.c: write a cluster in the synthetic form that cluster_parse.c reads. Defaults of the
 * device are left out or written by their default name, so that the text stays one short line. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "hw/hw_internal.h"

/* Text of bounded length: once something does not fit, nothing more is written. */
struct writer {
	char *at;
	size_t size, used;
	bool cut;
};

static const char ellipsis[] = " ...";

static void cluster_text_put(struct writer *writer, const char *text) {
	size_t length = strlen(text);
	if (writer->cut || writer->used + length + sizeof ellipsis > writer->size) {
		writer->cut = true;
		return;
	}
	memcpy(writer->at + writer->used, text, length + 1);
	writer->used += length;
}

static void cluster_text_put_count(struct writer *writer, int count) {
	char text[16];
	snprintf(text, sizeof text, "%d", count);
	cluster_text_put(writer, text);
}

/* At most six decimals: a rate that was read from a text is written as the same text, although it
 * was scaled to bytes per second in between. */
static void cluster_text_put_number(struct writer *writer, double number) {
	char text[64];
	cluster_text_put(writer, lk_format_shortest(round(number * 1e6) / 1e6, text, sizeof text));
}

static void cluster_text_put_name(struct writer *writer, const char *name) {
	const char *quote;
	if (!name[strcspn(name, " \t,+*'\"")]) quote = "";
	else if (strchr(name, '"')) quote = "'";
	else quote = "\"";
	cluster_text_put(writer, quote);
	cluster_text_put(writer, name);
	cluster_text_put(writer, quote);
}

/* Write the power if it differs from the catalogue's. */
static void put_power(struct writer *writer, const lk_device *device) {
	const lk_device *known = lk_device_find(device->name);
	if (!known || known->power_w == device->power_w) return;
	cluster_text_put(writer, " ");
	cluster_text_put_number(writer, device->power_w);
	cluster_text_put(writer, "w");
}

static void put_intra(struct writer *writer, const lk_node *node) {
	const lk_device *device = node->device;
	int generation = lk_nvlink_generation(device->arch);
	bool as_wired =
		device->link_rate > 0 && (node->intra == LK_INTRA_SWITCH) == device->link_switch;
	double rate = node->intra_rate, known = lk_intra_rate(device, node->intra);
	if (node->pair_rate > 0) {
		cluster_text_put(writer, " bridges");
		rate = node->pair_rate, known = device->link_rate;
	} else if (node->intra == LK_INTRA_PCIE) {
		cluster_text_put(writer, " pcie");
	} else if (!as_wired) {
		cluster_text_put(writer, node->intra == LK_INTRA_SWITCH ? " nvswitch" : " mesh");
	} else if (generation) {
		cluster_text_put(writer, " nvlink");
		cluster_text_put_count(writer, generation);
	} else {
		cluster_text_put(writer, " xgmi");
	}
	if (rate == known) return;
	cluster_text_put(writer, " ");
	cluster_text_put_number(writer, rate / 1e9);
	cluster_text_put(writer, "GB/s");
}

static void put_nics(struct writer *writer, const lk_node *node) {
	cluster_text_put(writer, ", nic ");
	cluster_text_put_count(writer, node->nics);
	cluster_text_put(writer, "*");
	cluster_text_put_number(writer, node->nic_rate * 8 / 1e9);
	cluster_text_put(writer, "g");
	if (node->nic_latency_s > 0) {
		cluster_text_put(writer, " ");
		cluster_text_put_number(writer, node->nic_latency_s * 1e6);
		cluster_text_put(writer, "us");
	}
	if (node->transport == LK_TRANSPORT_RDMA) return;
	cluster_text_put(writer, " ");
	cluster_text_put(writer, lk_transport_name(node->transport));
}

void lk_cluster_text(const lk_cluster *cluster, char *out, size_t size) {
	struct writer w = {out, size, 0, false};
	*out = '\0';
	for (int g = 0; g < cluster->groups && !w.cut; g++) {
		if (g) cluster_text_put(&w, " + ");
		cluster_text_put_count(&w, cluster->nodes[g]);
		cluster_text_put(&w, " node * ");
		cluster_text_put_count(&w, cluster->node[g].gpus);
		cluster_text_put(&w, " ");
		cluster_text_put_name(&w, cluster->node[g].device->name);
		put_power(&w, cluster->node[g].device);
		put_intra(&w, &cluster->node[g]);
		if (cluster->node[g].no_peer) cluster_text_put(&w, ", nop2p");
		put_nics(&w, &cluster->node[g]);
		if (lk_node_is_tray(&cluster->node[g], cluster->nodes[g])) cluster_text_put(&w, ", apart");
	}
	if (cluster->oversubscription != 1) {
		cluster_text_put(&w, ", oversub ");
		cluster_text_put_number(&w, cluster->oversubscription);
	}
	if (cluster->net.kind != LK_NET_FLAT) {
		char net[128];
		lk_interconnect_text(&cluster->net, net, sizeof net);
		cluster_text_put(&w, ", ");
		cluster_text_put(&w, net);
	}
	if (!cluster->rail_optimised) cluster_text_put(&w, ", norail");
	if (w.cut) memcpy(out + w.used, ellipsis, sizeof ellipsis);
}
