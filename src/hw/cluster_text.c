/* cluster_text.c: writes a cluster in the synthetic form that cluster_parse.c reads. What is as usual for the device is
 * left out or said by its usual name, so that the text stays one short line. */
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

static void put(struct writer *w, const char *text) {
	size_t length = strlen(text);
	if (w->cut || w->used + length + sizeof ellipsis > w->size) {
		w->cut = true;
		return;
	}
	memcpy(w->at + w->used, text, length + 1);
	w->used += length;
}

static void put_count(struct writer *w, int count) {
	char text[16];
	snprintf(text, sizeof text, "%d", count);
	put(w, text);
}

/* Six decimals at most: the text of a rate that was read from a text is that text again, although it was scaled to
 * bytes per second in between. */
static void put_number(struct writer *w, double number) {
	char text[64];
	put(w, lk_format_shortest(round(number * 1e6) / 1e6, text, sizeof text));
}

static void put_name(struct writer *w, const char *name) {
	const char *quote = !name[strcspn(name, " \t,+*'\"")] ? "" : strchr(name, '"') ? "'" : "\"";
	put(w, quote);
	put(w, name);
	put(w, quote);
}

static void put_intra(struct writer *w, const lk_node *node) {
	const lk_device *device = node->device;
	int generation = lk_nvlink_generation(device->arch);
	bool as_wired = device->link_rate > 0 && (node->intra == LK_INTRA_SWITCH) == device->link_switch;
	if (node->intra == LK_INTRA_PCIE) {
		put(w, " pcie");
	} else if (!as_wired) {
		put(w, node->intra == LK_INTRA_SWITCH ? " nvswitch" : " mesh");
	} else if (generation) {
		put(w, " nvlink");
		put_count(w, generation);
	} else {
		put(w, " xgmi");
	}
	if (node->intra_rate == lk_intra_rate(device, node->intra)) return;
	put(w, " ");
	put_number(w, node->intra_rate / 1e9);
	put(w, "GB/s");
}

static void put_nics(struct writer *w, const lk_node *node) {
	put(w, ", nic ");
	put_count(w, node->nics);
	put(w, "*");
	put_number(w, node->nic_rate * 8 / 1e9);
	put(w, "g");
	if (!(node->nic_latency_s > 0)) return;
	put(w, " ");
	put_number(w, node->nic_latency_s * 1e6);
	put(w, "us");
}

void lk_cluster_text(const lk_cluster *cluster, char *out, size_t size) {
	struct writer w = {out, size, 0, false};
	*out = '\0';
	for (int g = 0; g < cluster->groups && !w.cut; g++) {
		if (g) put(&w, " + ");
		put_count(&w, cluster->nodes[g]);
		put(&w, " node * ");
		put_count(&w, cluster->node[g].gpus);
		put(&w, " ");
		put_name(&w, cluster->node[g].device->name);
		put_intra(&w, &cluster->node[g]);
		put_nics(&w, &cluster->node[g]);
	}
	if (cluster->oversubscription != 1) {
		put(&w, ", oversub ");
		put_number(&w, cluster->oversubscription);
	}
	if (!cluster->rail_optimised) put(&w, ", norail");
	if (w.cut) memcpy(out + w.used, ellipsis, sizeof ellipsis);
}
