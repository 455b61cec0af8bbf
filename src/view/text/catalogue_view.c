/* catalogue_view.c: tables of the devices and models that are known by name. */
#include "lockstep/catalogue.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "hw/hw.h"
#include "model/read/read.h"
#include "view/table/output.h"

enum { TEXT = 64, NAMES = 1024 };

/* ---- the filter ---- */

/* Letters and digits of a name, in lower case. */
static void catalogue_view_bare(const char *text, char *out, size_t size) {
	size_t used = 0;
	for (; *text && used + 1 < size; text++)
		if (!strchr("-_. ", *text)) out[used++] = (char)tolower((unsigned char)*text);
	out[used] = '\0';
}

static bool catalogue_view_holds(const char *text, const char *bare_part) {
	char whole[NAMES];
	catalogue_view_bare(text, whole, sizeof whole);
	return strstr(whole, bare_part) != NULL;
}

static lk_status nothing_found(const char *kind, const char *filter, const char *const *names,
                               size_t count, lk_error *err) {
	char shown[TEXT];
	lk_copy(shown, sizeof shown, filter);
	lk_fail(err, LK_ERR_INPUT, NULL, "no %s has \"%s\" in its name", kind, shown);
	const char *near = lk_nearest(filter, names, count);
	if (near) return lk_hint(err, "did you mean %s?", near);
	return lk_hint(err, "lockstep %ss lists all", kind);
}

/* What people read is as wide as a page. */
struct catalogue_text {
	lk_table **table;          /* NULL when it is written */
	const char *const *extras; /* columns left out first */
	bool verbose;
};

static lk_status catalogue_view_write_text(const void *what, bool colour, FILE *out,
                                           lk_error *err) {
	const struct catalogue_text *text = what;
	lk_table *table = *text->table;
	*text->table = NULL;
	return lk_put_fitted(table, text->extras, text->verbose ? NULL : "-v", colour, out, err);
}

static lk_status catalogue_view_put(const lk_writing *w, lk_table *table, const char *const *extras,
                                    lk_error *err) {
	const struct catalogue_text text = {&table, extras, w->verbose};
	if (w->format != LK_FORMAT_TEXT) return lk_write_table(w, table, err);
	lk_status status = lk_write_through(w, catalogue_view_write_text, &text, err);
	lk_table_free(table);
	return status;
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

static const char *const device_extras[] = {"sms",          "tf32_tflops",     "node_gpus",
                                            "nvfp4_tflops", "nic_bytes_per_s", NULL};

static void catalogue_view_put_rate(lk_table *table, double rate) {
	char text[TEXT];
	lk_table_number(table, rate > 0 ? rate : NAN, lk_format_rate(rate, text, sizeof text));
}

static void put_tera(lk_table *table, double flops) {
	lk_table_number(table, flops > 0 ? flops / 1e12 : NAN, NULL);
}

static void catalogue_view_put_count(lk_table *table, double count) {
	lk_table_number(table, count > 0 ? count : NAN, NULL);
}

/* What links the GPUs of a node; NULL: nothing. */
static const char *links_between(const lk_device *device) {
	if (device->links == 0) return NULL;
	if (device->link_switch) return "switch";
	return device->link_bridge ? "bridge" : "mesh";
}

static void catalogue_view_put_device(lk_table *table, const lk_device *device) {
	char text[TEXT];
	lk_table_row(table);
	lk_table_text(table, device->name);
	lk_table_text(table, device->label);
	lk_table_text(table, lk_arch_name(device->arch));
	for (int i = 0; i < LK_DTYPES; i++) put_tera(table, device->peak_flops[i]);
	put_tera(table, device->vector_flops);
	lk_table_number(table, device->memory_bytes, lk_gib(device->memory_bytes, text, sizeof text));
	catalogue_view_put_rate(table, device->memory_rate);
	catalogue_view_put_count(table, device->sms);
	lk_table_number(table, device->l2_bytes > 0 ? device->l2_bytes : NAN,
	                lk_format_bytes(device->l2_bytes, text, sizeof text));
	catalogue_view_put_count(table, device->shared_kib);
	lk_table_number(table, device->clock_hz,
	                lk_fixed(device->clock_hz / 1e6, 0, text, sizeof text));
	catalogue_view_put_count(table, device->power_w);
	catalogue_view_put_rate(table, device->link_rate);
	catalogue_view_put_count(table, device->links);
	lk_table_text(table, links_between(device));
	catalogue_view_put_count(table, device->node_gpus);
	catalogue_view_put_rate(table, device->pcie_rate);
	catalogue_view_put_rate(table, device->nic_rate);
	lk_table_text(table, lk_device_aliases(device));
	lk_table_text(table, device->source);
}

static bool device_matches(const lk_device *device, const char *part) {
	return !*part || catalogue_view_holds(device->name, part) ||
	       catalogue_view_holds(device->label, part) ||
	       catalogue_view_holds(lk_device_aliases(device), part);
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

lk_status lk_devices_print(const char *filter, int format, bool verbose, bool colour,
                           const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	lk_column columns[DEVICE_COLUMNS];
	char part[TEXT];
	LK_TRY(lk_writing_check(&w, err));
	LK_TRY(lk_devices_ready(err));
	if (lk_device_count() == 0)
		return lk_fail(err, LK_ERR_INPUT, "devices.csv", "the device catalogue is empty");
	memcpy(columns, device_columns, sizeof columns);
	for (int i = 0; i < DEVICE_COLUMNS && verbose; i++) columns[i].hidden = false;
	catalogue_view_bare(filter ? filter : "", part, sizeof part);
	lk_table *table = lk_table_new("devices", columns, DEVICE_COLUMNS);
	for (int i = 0; table && i < lk_device_count(); i++)
		if (device_matches(lk_device_at(i), part))
			catalogue_view_put_device(table, lk_device_at(i));
	if (table && !lk_table_shows(table)) {
		lk_table_free(table);
		return no_device(filter, err);
	}
	return catalogue_view_put(&w, table, device_extras, err);
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

static const char *const model_extras[] = {"vocab", "family", "kv_heads", "context", NULL};

static const char DLRM[] = "dlrm"; /* the family of all recommendation models */

static void put_params(lk_table *table, double params) {
	char text[TEXT];
	lk_table_number(table, params, lk_format_count(params, text, sizeof text));
}

static const char *attention_name(const lk_model *model) {
	if (model->attention == LK_ATTN_MLA) return "MLA";
	if (model->kv_heads == model->heads) return "MHA";
	return model->kv_heads == 1 ? "MQA" : "GQA";
}

static void put_model(lk_table *table, const lk_model *model) {
	lk_table_row(table);
	lk_table_text(table, model->name);
	lk_table_text(table, model->family);
	catalogue_view_put_count(table, model->layers);
	catalogue_view_put_count(table, model->decoder_layers);
	catalogue_view_put_count(table, model->hidden);
	catalogue_view_put_count(table, model->heads);
	catalogue_view_put_count(table, model->kv_heads);
	catalogue_view_put_count(table, model->head_dim);
	catalogue_view_put_count(table, model->ffn);
	catalogue_view_put_count(table, model->vocab);
	catalogue_view_put_count(table, model->experts);
	catalogue_view_put_count(table, model->topk);
	catalogue_view_put_count(table, model->expert_ffn);
	catalogue_view_put_count(table, model->window);
	lk_table_text(table, attention_name(model));
	lk_table_bool(table, model->tied);
	put_params(table, lk_model_params(model));
	put_params(table, lk_model_active_params(model));
	catalogue_view_put_count(table, model->context);
}

/* Numbers of a row that a recommendation model has not stay empty; its width is each table's. */
static lk_status put_recommender(lk_table *table, const char *name, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_dlrm model;
	lk_status status = lk_dlrm_preset(&arena, name, &model, err);
	if (status == LK_OK) {
		lk_table_row(table);
		lk_table_text(table, name);
		lk_table_text(table, DLRM);
		for (const lk_column *column = model_columns + 2; column < model_columns + MODEL_COLUMNS;
		     column++) {
			if (strcmp(column->key, "params") == 0) put_params(table, lk_dlrm_params(&model));
			else if (strcmp(column->key, "active_params") == 0)
				put_params(table, lk_dlrm_active_params(&model));
			else if (strcmp(column->key, "tied") == 0) lk_table_bool(table, false);
			else if (column->right) lk_table_number(table, NAN, NULL);
			else lk_table_text(table, NULL);
		}
	}
	lk_arena_free(&arena);
	return status;
}

static lk_status put_recommenders(lk_table *table, const char *part, lk_error *err) {
	const char *name;
	for (int i = 0; (name = lk_model_recommender_at(i)) != NULL; i++)
		if (!*part || catalogue_view_holds(name, part) || catalogue_view_holds(DLRM, part))
			LK_TRY(put_recommender(table, name, err));
	return LK_OK;
}

static lk_status no_model(const char *filter, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	size_t presets = (size_t)lk_model_preset_count(), count = presets;
	while (lk_model_recommender_at((int)(count - presets))) count++;
	const char **names = LK_ARRAY(&arena, const char *, count);
	for (size_t i = 0; names && i < count; i++) {
		const lk_model *model = i < presets ? lk_model_preset_at((int)i) : NULL;
		const char *name = model ? model->name : lk_model_recommender_at((int)(i - presets));
		names[i] = name ? name : "";
	}
	lk_status status = names ? nothing_found("model", filter, names, count, err) : lk_oom(err);
	lk_arena_free(&arena);
	return status;
}

/* A preset's name where the filter is the repository's id of it, or the address of its page. */
static const char *models_filter(const char *filter, lk_model *named) {
	if (!filter) return "";
	return lk_id_form(filter) && lk_model_preset(filter, named, NULL) == LK_OK ? named->name
	                                                                           : filter;
}

lk_status lk_models_print(const char *filter, int format, bool verbose, bool colour,
                          const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	lk_column columns[MODEL_COLUMNS];
	lk_model named;
	char part[TEXT];
	LK_TRY(lk_writing_check(&w, err));
	memcpy(columns, model_columns, sizeof columns);
	for (int i = 0; i < MODEL_COLUMNS && verbose; i++) columns[i].hidden = false;
	catalogue_view_bare(models_filter(filter, &named), part, sizeof part);
	lk_table *table = lk_table_new("models", columns, MODEL_COLUMNS);
	for (int i = 0; table && i < lk_model_preset_count(); i++) {
		const lk_model *model = lk_model_preset_at(i);
		if (!model) {
			lk_table_free(table);
			return lk_oom(err);
		}
		if (!*part || catalogue_view_holds(model->name, part) ||
		    catalogue_view_holds(model->family, part))
			put_model(table, model);
	}
	lk_status status = table ? put_recommenders(table, part, err) : LK_OK;
	if (status != LK_OK) {
		lk_table_free(table);
		return status;
	}
	if (table && !lk_table_shows(table)) {
		lk_table_free(table);
		return no_model(filter, err);
	}
	return catalogue_view_put(&w, table, model_extras, err);
}
