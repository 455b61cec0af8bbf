/* host_json.c: writes the measurements as a cluster file (hw/cluster_json.c reads it back). A
 * device is written by the names of its fields, so that reader and writer cannot differ. */
#include <math.h>
#include <string.h>

#include "io/form.h"
#include "io/json.h"
#include "calibrate/host/measure.h"

/* A measurement has four significant digits. */
static double json_rounded(double value) {
	if (!isfinite(value) || value == 0) return value;
	double step = pow(10, floor(log10(fabs(value))) - 3);
	return step >= 1 ? round(value / step) * step : round(value / step) / round(1 / step);
}

static void json_put(lk_json_writer *writer, const char *key, double value) {
	lk_json_put_number(writer, key, json_rounded(value));
}

static void json_put_device(lk_json_writer *writer, const lk_device *device) {
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "name", device->name);
	lk_json_put_text(writer, "label", device->label);
	lk_json_put_text(writer, "arch", lk_arch_name(device->arch));
	json_put(writer, "fp32_tflops", device->peak_flops[LK_FP32] / 1e12);
	json_put(writer, "vector_tflops", device->vector_flops / 1e12);
	json_put(writer, "memory_gib", device->memory_bytes / 0x1p30);
	json_put(writer, "memory_GBps", device->memory_rate / 1e9);
	json_put(writer, "l2_mib", device->l2_bytes / 0x1p20);
	lk_json_put_integer(writer, "sms", device->sms);
	lk_json_put_integer(writer, "shared_kib", device->shared_kib);
	json_put(writer, "clock_mhz", device->clock_hz / 1e6);
	lk_json_put_integer(writer, "node_gpus", device->node_gpus);
	json_put(writer, "pcie_GBps", device->pcie_rate / 1e9);
	json_put(writer, "nic_gbps", device->nic_rate * 8 / 1e9);
	json_put(writer, "gemm_tflops", device->gemm_flops / 1e12);
	json_put(writer, "stream_GBps", device->stream_rate / 1e9);
	json_put(writer, "call_us", device->call_s * 1e6);
	lk_json_put_text(writer, "source", device->source);
	lk_json_object_end(writer);
}

/* A GPU is the catalogue's, with the measured rate of its slot and the memory that the driver
 * states. */
static void put_gpu_node(lk_json_writer *writer, const lk_host *host) {
	static const char *const wiring[] = {
		[LK_INTRA_PCIE] = "pcie", [LK_INTRA_MESH] = "mesh", [LK_INTRA_SWITCH] = "switch"};
	lk_json_object(writer, "device");
	lk_json_put_text(writer, "base", host->gpu->name);
	lk_json_put_number(writer, "memory_gib", host->gpu->memory_bytes / 0x1p30);
	json_put(writer, "pcie_GBps", host->gpu->pcie_rate / 1e9);
	lk_json_object_end(writer);
	lk_json_put_text(writer, "intra", wiring[host->intra]);
	if (host->intra_rate > 0) json_put(writer, "intra_GBps", host->intra_rate / 1e9);
	lk_json_put_integer(writer, "nics", 1);
	json_put(writer, "nic_gbps", host->device.nic_rate * 8 / 1e9);
}

static void put_nodes(lk_json_writer *writer, const lk_host *host) {
	lk_json_array(writer, "nodes");
	lk_json_object(writer, NULL);
	lk_json_put_integer(writer, "count", host->nodes);
	lk_json_put_integer(writer, "gpus", host->gpus ? host->gpus : 1);
	if (host->gpus) put_gpu_node(writer, host);
	else lk_json_put_text(writer, "device", host->device.name);
	lk_json_object_end(writer);
	lk_json_array_end(writer);
}

/* {"value", "unit", "low", "high", "repeats"}; counted quantities have only a value and a unit. */
static void put_quantity(lk_json_writer *writer, const lk_quantity *quantity) {
	lk_json_object(writer, quantity->name);
	json_put(writer, "value", quantity->value);
	lk_json_put_text(writer, "unit", quantity->unit);
	if (quantity->repeats) {
		json_put(writer, "low", quantity->low);
		json_put(writer, "high", quantity->high);
		lk_json_put_integer(writer, "repeats", quantity->repeats);
	}
	lk_json_object_end(writer);
}

/* Read back by cost/collective/host_messages.c. */
static void put_messages(lk_json_writer *writer, const lk_host *host) {
	if (!host->messages.count) return;
	lk_json_array(writer, "messages");
	for (size_t i = 0; i < host->messages.count; i++) {
		const lk_message_measured *measured = &host->messages.at[i];
		if (!(measured->alone_s > 0 && measured->both_s > 0)) continue;
		lk_json_object(writer, NULL);
		lk_json_put_bool(writer, "inside", measured->inside);
		lk_json_put_integer(writer, "bytes", (long long)measured->bytes);
		lk_json_put_number(writer, "alone_us", measured->alone_s * 1e6);
		lk_json_put_number(writer, "both_us", measured->both_s * 1e6);
		lk_json_object_end(writer);
	}
	lk_json_array_end(writer);
}

static void json_put_collectives(lk_json_writer *writer, const lk_host *host) {
	if (!host->collectives.count) return;
	lk_json_array(writer, "collectives");
	for (size_t i = 0; i < host->collectives.count; i++) {
		const lk_collective_measured *measured = &host->collectives.at[i];
		lk_json_object(writer, NULL);
		lk_json_put_text(writer, "kind", measured->what);
		lk_json_put_integer(writer, "ranks", measured->ranks);
		lk_json_put_integer(writer, "nodes", measured->nodes);
		lk_json_put_integer(writer, "bytes", (long long)measured->bytes);
		lk_json_put_number(writer, "alone_us", measured->alone_s * 1e6);
		lk_json_put_number(writer, "behind_us", measured->behind_s * 1e6);
		lk_json_object_end(writer);
	}
	lk_json_array_end(writer);
}

/* A group may occur again later in the list; it is written once, at its first place. */
static bool written_before(const lk_host *host, size_t index) {
	for (size_t i = 0; i < index; i++)
		if (strcmp(host->quantities.at[i].group, host->quantities.at[index].group) == 0)
			return true;
	return false;
}

static void json_put_measured(lk_json_writer *writer, const lk_host *host) {
	lk_json_object(writer, "measured");
	lk_json_put_text(writer, "date", host->date);
	lk_json_put_text(writer, "by", host->source);
	lk_json_put_text(writer, "machine", host->device.label);
	for (size_t i = 0; i < host->quantities.count; i++) {
		if (written_before(host, i)) continue;
		const char *group = host->quantities.at[i].group;
		lk_json_object(writer, group);
		for (size_t k = i; k < host->quantities.count; k++)
			if (strcmp(host->quantities.at[k].group, group) == 0)
				put_quantity(writer, &host->quantities.at[k]);
		lk_json_object_end(writer);
	}
	put_messages(writer, host);
	json_put_collectives(writer, host);
	lk_json_array(writer, "notes");
	for (size_t i = 0; i < host->notes.count; i++)
		lk_json_put_text(writer, NULL, host->notes.at[i]);
	lk_json_array_end(writer);
	lk_json_object_end(writer);
}

lk_status lk_host_write(const lk_host *host, FILE *out, lk_error *err) {
	lk_json_writer w;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_form_put(&w, LK_FORM_CLUSTER);
	put_nodes(&w, host);
	lk_json_array(&w, "devices");
	json_put_device(&w, &host->device);
	lk_json_array_end(&w);
	json_put_measured(&w, host);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}
