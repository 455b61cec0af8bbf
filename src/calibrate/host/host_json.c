/* host_json.c: what was measured as a cluster file (hw/cluster_json.c reads it back). A device is written by the names
 * of its fields, so that reader and writer cannot differ. */
#include <math.h>
#include <string.h>

#include "io/json.h"
#include "calibrate/host/measure.h"

/* Four digits are what a measurement has. */
static double rounded(double value) {
	if (!isfinite(value) || value == 0) return value;
	double step = pow(10, floor(log10(fabs(value))) - 3);
	return step >= 1 ? round(value / step) * step : round(value / step) / round(1 / step);
}

static void put(lk_json_writer *w, const char *key, double value) {
	lk_json_put_number(w, key, rounded(value));
}

static void put_device(lk_json_writer *w, const lk_device *d) {
	lk_json_object(w, NULL);
	lk_json_put_text(w, "name", d->name);
	lk_json_put_text(w, "label", d->label);
	lk_json_put_text(w, "arch", lk_arch_name(d->arch));
	put(w, "fp32_tflops", d->peak_flops[LK_FP32] / 1e12);
	put(w, "vector_tflops", d->vector_flops / 1e12);
	put(w, "memory_gib", d->memory_bytes / 0x1p30);
	put(w, "memory_GBps", d->memory_rate / 1e9);
	put(w, "l2_mib", d->l2_bytes / 0x1p20);
	lk_json_put_integer(w, "sms", d->sms);
	lk_json_put_integer(w, "shared_kib", d->shared_kib);
	put(w, "clock_mhz", d->clock_hz / 1e6);
	lk_json_put_integer(w, "node_gpus", d->node_gpus);
	put(w, "pcie_GBps", d->pcie_rate / 1e9);
	put(w, "nic_gbps", d->nic_rate * 8 / 1e9);
	put(w, "gemm_tflops", d->gemm_flops / 1e12);
	put(w, "stream_GBps", d->stream_rate / 1e9);
	put(w, "call_us", d->call_s * 1e6);
	lk_json_put_text(w, "source", d->source);
	lk_json_object_end(w);
}

/* A GPU is the catalogue's, with the rate of its slot and the memory that the driver states. */
static void put_gpu_node(lk_json_writer *w, const lk_host *host) {
	static const char *const wiring[] = {[LK_INTRA_PCIE] = "pcie", [LK_INTRA_MESH] = "mesh", [LK_INTRA_SWITCH] = "switch"};
	lk_json_object(w, "device");
	lk_json_put_text(w, "base", host->gpu->name);
	lk_json_put_number(w, "memory_gib", host->gpu->memory_bytes / 0x1p30);
	put(w, "pcie_GBps", host->gpu->pcie_rate / 1e9);
	lk_json_object_end(w);
	lk_json_put_text(w, "intra", wiring[host->intra]);
	if (host->intra_rate > 0) put(w, "intra_GBps", host->intra_rate / 1e9);
	lk_json_put_integer(w, "nics", 1);
	put(w, "nic_gbps", host->device.nic_rate * 8 / 1e9);
}

static void put_nodes(lk_json_writer *w, const lk_host *host) {
	lk_json_array(w, "nodes");
	lk_json_object(w, NULL);
	lk_json_put_integer(w, "count", host->nodes);
	lk_json_put_integer(w, "gpus", host->gpus ? host->gpus : 1);
	if (host->gpus) put_gpu_node(w, host);
	else lk_json_put_text(w, "device", host->device.name);
	lk_json_object_end(w);
	lk_json_array_end(w);
}

/* {"value", "unit", "low", "high", "repeats"}; what was only counted has a value and a unit. */
static void put_quantity(lk_json_writer *w, const lk_quantity *q) {
	lk_json_object(w, q->name);
	put(w, "value", q->value);
	lk_json_put_text(w, "unit", q->unit);
	if (q->repeats) {
		put(w, "low", q->low);
		put(w, "high", q->high);
		lk_json_put_integer(w, "repeats", q->repeats);
	}
	lk_json_object_end(w);
}

/* What cost/collective/host_messages.c reads back. */
static void put_messages(lk_json_writer *w, const lk_host *host) {
	if (!host->messages.count) return;
	lk_json_array(w, "messages");
	for (size_t i = 0; i < host->messages.count; i++) {
		const lk_message_measured *m = &host->messages.at[i];
		if (!(m->alone_s > 0 && m->both_s > 0)) continue;
		lk_json_object(w, NULL);
		lk_json_put_bool(w, "inside", m->inside);
		lk_json_put_integer(w, "bytes", (long long)m->bytes);
		lk_json_put_number(w, "alone_us", m->alone_s * 1e6);
		lk_json_put_number(w, "both_us", m->both_s * 1e6);
		lk_json_object_end(w);
	}
	lk_json_array_end(w);
}

static void put_collectives(lk_json_writer *w, const lk_host *host) {
	if (!host->collectives.count) return;
	lk_json_array(w, "collectives");
	for (size_t i = 0; i < host->collectives.count; i++) {
		const lk_collective_measured *c = &host->collectives.at[i];
		lk_json_object(w, NULL);
		lk_json_put_text(w, "kind", c->what);
		lk_json_put_integer(w, "ranks", c->ranks);
		lk_json_put_integer(w, "nodes", c->nodes);
		lk_json_put_integer(w, "bytes", (long long)c->bytes);
		lk_json_put_number(w, "alone_us", c->alone_s * 1e6);
		lk_json_put_number(w, "behind_us", c->behind_s * 1e6);
		lk_json_object_end(w);
	}
	lk_json_array_end(w);
}

/* A group may come up again later in the list; it is written once, where it comes first. */
static bool written_before(const lk_host *host, size_t index) {
	for (size_t i = 0; i < index; i++)
		if (strcmp(host->quantities.at[i].group, host->quantities.at[index].group) == 0) return true;
	return false;
}

static void put_measured(lk_json_writer *w, const lk_host *host) {
	lk_json_object(w, "measured");
	lk_json_put_text(w, "date", host->date);
	lk_json_put_text(w, "by", host->source);
	lk_json_put_text(w, "machine", host->device.label);
	for (size_t i = 0; i < host->quantities.count; i++) {
		if (written_before(host, i)) continue;
		const char *group = host->quantities.at[i].group;
		lk_json_object(w, group);
		for (size_t k = i; k < host->quantities.count; k++)
			if (strcmp(host->quantities.at[k].group, group) == 0) put_quantity(w, &host->quantities.at[k]);
		lk_json_object_end(w);
	}
	put_messages(w, host);
	put_collectives(w, host);
	lk_json_array(w, "notes");
	for (size_t i = 0; i < host->notes.count; i++) lk_json_put_text(w, NULL, host->notes.at[i]);
	lk_json_array_end(w);
	lk_json_object_end(w);
}

lk_status lk_host_write(const lk_host *host, FILE *out, lk_error *err) {
	lk_json_writer w;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	put_nodes(&w, host);
	lk_json_array(&w, "devices");
	put_device(&w, &host->device);
	lk_json_array_end(&w);
	put_measured(&w, host);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}
