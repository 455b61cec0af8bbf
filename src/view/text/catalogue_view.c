/* catalogue_view.c: tables of the devices and models that are known by name. */
#include "lockstep/catalogue.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "hw/hw.h"
#include "model/network/model.h"
#include "view/table/output.h"

enum { TEXT = 64, NAMES = 1024 };

/* ---- the filter ---- */

/* Letters and digits of a name, in lower case. */
static void bare(const char *text, char *out, size_t size) {
	size_t used = 0;
	for (; *text && used + 1 < size; text++)
		if (!strchr("-_. ", *text)) out[used++] = (char)tolower((unsigned char)*text);
	out[used] = '\0';
}

static bool holds(const char *text, const char *bare_part) {
	char whole[NAMES];
	bare(text, whole, sizeof whole);
	return strstr(whole, bare_part) != NULL;
}

static lk_status nothing_found(const char *kind, const char *filter, const char *const *names, size_t count,
							   lk_error *err) {
	char shown[TEXT];
	lk_copy(shown, sizeof shown, filter);
	lk_fail(err, LK_ERR_INPUT, NULL, "no %s has \"%s\" in its name", kind, shown);
	const char *near = lk_nearest(filter, names, count);
	if (near) return lk_hint(err, "did you mean %s?", near);
	return lk_hint(err, "lockstep %ss lists all", kind);
}

/* ---- devices ---- */

enum { DEVICE_COLUMNS = 26 };

static const lk_column device_columns[DEVICE_COLUMNS] = {
	{"name", "name", false, false},
	{"label", "product", false, true},
	{"arch", "arch", false, false},
	{"fp32_tflops", "fp32", true, false},
	{"tf32_tflops", "tf32", true, false},
	{"fp16_tflops", "fp16", true, false},
	{"bf16_tflops", "bf16", true, false},
	{"fp8_tflops", "fp8", true, false},
	{"mxfp8_tflops", "mxfp8", true, true},
	{"nvfp4_tflops", "nvfp4", true, false},
	{"vector_tflops", "vector", true, true},
	{"memory_bytes", "GiB", true, false},
	{"memory_bytes_per_s", "bandwidth", true, false},
	{"sms", "SMs", true, false},
	{"l2_bytes", "L2", true, true},
	{"shared_kib", "shared KiB", true, true},
	{"clock_hz", "MHz", true, true},
	{"power_w", "W", true, true},
	{"link_bytes_per_s", "links", true, false},
	{"link_count", "count", true, true},
	{"link_kind", "kind", false, true},
	{"node_gpus", "per node", true, false},
	{"pcie_bytes_per_s", "PCIe", true, true},
	{"nic_bytes_per_s", "NIC", true, false},
	{"aliases", "also", false, true},
	{"source", "source", false, true},
};

static void put_rate(lk_table *t, double rate) {
	char text[TEXT];
	lk_table_number(t, rate > 0 ? rate : NAN, lk_format_rate(rate, text, sizeof text));
}

static void put_tera(lk_table *t, double flops) {
	lk_table_number(t, flops > 0 ? flops / 1e12 : NAN, NULL);
}

static void put_count(lk_table *t, double count) {
	lk_table_number(t, count > 0 ? count : NAN, NULL);
}

static void put_device(lk_table *t, const lk_device *d) {
	char text[TEXT];
	lk_table_row(t);
	lk_table_text(t, d->name);
	lk_table_text(t, d->label);
	lk_table_text(t, lk_arch_name(d->arch));
	for (int i = 0; i < LK_DTYPES; i++) put_tera(t, d->peak_flops[i]);
	put_tera(t, d->vector_flops);
	lk_table_number(t, d->memory_bytes, lk_gib(d->memory_bytes, text, sizeof text));
	put_rate(t, d->memory_rate);
	put_count(t, d->sms);
	lk_table_number(t, d->l2_bytes > 0 ? d->l2_bytes : NAN, lk_format_bytes(d->l2_bytes, text, sizeof text));
	put_count(t, d->shared_kib);
	lk_table_number(t, d->clock_hz, lk_fixed(d->clock_hz / 1e6, 0, text, sizeof text));
	put_count(t, d->power_w);
	put_rate(t, d->link_rate);
	put_count(t, d->links);
	lk_table_text(t, d->links == 0 ? NULL : d->link_switch ? "switch" : d->link_bridge ? "bridge" : "mesh");
	put_count(t, d->node_gpus);
	put_rate(t, d->pcie_rate);
	put_rate(t, d->nic_rate);
	lk_table_text(t, lk_device_aliases(d));
	lk_table_text(t, d->source);
}

static bool device_matches(const lk_device *d, const char *part) {
	return !*part || holds(d->name, part) || holds(d->label, part) || holds(lk_device_aliases(d), part);
}

static lk_status no_device(const char *filter, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	size_t count = (size_t)lk_device_count();
	const char **names = LK_ARRAY(&arena, const char *, count);
	for (size_t i = 0; names && i < count; i++) names[i] = lk_device_at((int)i)->name;
	lk_status status = names ? nothing_found("device", filter, names, count, err) : lk_oom(err);
	lk_arena_free(&arena);
	return status;
}

lk_status lk_devices_print(const char *filter, int format, bool verbose, bool colour, const char *path, FILE *out,
                           lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	lk_column columns[DEVICE_COLUMNS];
	char part[TEXT];
	LK_TRY(lk_writing_check(&w, err));
	if (lk_device_count() == 0) return lk_fail(err, LK_ERR_INPUT, "devices.csv", "the device catalogue is empty");
	memcpy(columns, device_columns, sizeof columns);
	for (int i = 0; i < DEVICE_COLUMNS && verbose; i++) columns[i].hidden = false;
	bare(filter ? filter : "", part, sizeof part);
	lk_table *t = lk_table_new("devices", columns, DEVICE_COLUMNS);
	for (int i = 0; t && i < lk_device_count(); i++)
		if (device_matches(lk_device_at(i), part)) put_device(t, lk_device_at(i));
	if (t && lk_table_rows(t) == 0) {
		lk_table_free(t);
		return no_device(filter, err);
	}
	return lk_write_table(&w, t, err);
}

/* ---- models ---- */

enum { MODEL_COLUMNS = 19 };

static const lk_column model_columns[MODEL_COLUMNS] = {
	{"name", "name", false, false},
	{"family", "family", false, false},
	{"layers", "layers", true, false},
	{"decoder_layers", "decoder", true, true},
	{"hidden", "hidden", true, false},
	{"heads", "heads", true, false},
	{"kv_heads", "kv heads", true, false},
	{"head_dim", "head dim", true, true},
	{"ffn", "ffn", true, true},
	{"vocab", "vocab", true, false},
	{"experts", "experts", true, false},
	{"topk", "top-k", true, true},
	{"expert_ffn", "expert ffn", true, true},
	{"window", "window", true, true},
	{"attention", "attention", false, true},
	{"tied", "tied", false, true},
	{"params", "parameters", true, false},
	{"active_params", "active", true, false},
	{"context", "context", true, false},
};

static void put_params(lk_table *t, double params) {
	char text[TEXT];
	lk_table_number(t, params, lk_format_count(params, text, sizeof text));
}

static void put_model(lk_table *t, const lk_model *m) {
	lk_table_row(t);
	lk_table_text(t, m->name);
	lk_table_text(t, m->family);
	put_count(t, m->layers);
	put_count(t, m->decoder_layers);
	put_count(t, m->hidden);
	put_count(t, m->heads);
	put_count(t, m->kv_heads);
	put_count(t, m->head_dim);
	put_count(t, m->ffn);
	put_count(t, m->vocab);
	put_count(t, m->experts);
	put_count(t, m->topk);
	put_count(t, m->expert_ffn);
	put_count(t, m->window);
	lk_table_text(t, m->attention == LK_ATTN_MLA ? "MLA"
					 : m->kv_heads == m->heads   ? "MHA"
					 : m->kv_heads == 1          ? "MQA"
												 : "GQA");
	lk_table_bool(t, m->tied);
	put_params(t, lk_model_params(m));
	put_params(t, lk_model_active_params(m));
	put_count(t, m->context);
}

static lk_status no_model(const char *filter, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	size_t count = (size_t)lk_model_preset_count();
	const char **names = LK_ARRAY(&arena, const char *, count);
	for (size_t i = 0; names && i < count; i++) {
		const lk_model *m = lk_model_preset_at((int)i);
		names[i] = m ? m->name : "";
	}
	lk_status status = names ? nothing_found("model", filter, names, count, err) : lk_oom(err);
	lk_arena_free(&arena);
	return status;
}

lk_status lk_models_print(const char *filter, int format, bool verbose, bool colour, const char *path, FILE *out,
                          lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	lk_column columns[MODEL_COLUMNS];
	char part[TEXT];
	LK_TRY(lk_writing_check(&w, err));
	memcpy(columns, model_columns, sizeof columns);
	for (int i = 0; i < MODEL_COLUMNS && verbose; i++) columns[i].hidden = false;
	bare(filter ? filter : "", part, sizeof part);
	lk_table *t = lk_table_new("models", columns, MODEL_COLUMNS);
	for (int i = 0; t && i < lk_model_preset_count(); i++) {
		const lk_model *m = lk_model_preset_at(i);
		if (!m) {
			lk_table_free(t);
			return lk_oom(err);
		}
		if (!*part || holds(m->name, part) || holds(m->family, part)) put_model(t, m);
	}
	if (t && lk_table_rows(t) == 0) {
		lk_table_free(t);
		return no_model(filter, err);
	}
	return lk_write_table(&w, t, err);
}
