/* catalogue_view.c: tables of the devices and models that are known by name. */
#include "lockstep/catalogue.h"

#include <ctype.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "hw/hw.h"
#include "model/read/read.h"
#include "view/table/fields.h"

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

#define DEVICE(member) LK_AT(lk_device, member)
#define KNOWN          .known = LK_UNLESS_ZERO
#define TERA           .over = 1e12, KNOWN
#define RATE           .shown = lk_format_rate, KNOWN

static void find_arch(const lk_subject *subject, lk_field_value *found) {
	found->text = lk_arch_name(((const lk_device *)subject->record)->arch);
}

static char *show_megahertz(double hertz, char *out, size_t size) {
	return lk_whole(hertz / 1e6, out, size);
}

/* What links the GPUs of a node; nothing without links. */
static void find_link_kind(const lk_subject *subject, lk_field_value *found) {
	const lk_device *device = subject->record;
	if (device->links == 0) return;
	if (device->link_switch) found->text = "switch";
	else found->text = device->link_bridge ? "bridge" : "mesh";
}

static void find_aliases(const lk_subject *subject, lk_field_value *found) {
	found->text = lk_device_aliases(subject->record);
}

static const lk_answer_field device_fields[] = {
	{"name", "name", DEVICE(name)},
	{"label", "product", DEVICE(label), .hidden = true},
	{"arch", "arch", LK_FIELD_TEXT, .get = find_arch},
	{"fp32_tflops", "fp32", DEVICE(peak_flops[LK_FP32]), TERA},
	{"tf32_tflops", "tf32", DEVICE(peak_flops[LK_TF32]), TERA},
	{"fp16_tflops", "fp16", DEVICE(peak_flops[LK_FP16]), TERA},
	{"bf16_tflops", "bf16", DEVICE(peak_flops[LK_BF16]), TERA},
	{"fp8_tflops", "fp8", DEVICE(peak_flops[LK_FP8]), TERA},
	{"mxfp8_tflops", "mxfp8", DEVICE(peak_flops[LK_MXFP8]), TERA, .hidden = true},
	{"nvfp4_tflops", "nvfp4", DEVICE(peak_flops[LK_NVFP4]), TERA},
	{"vector_tflops", "vector", DEVICE(vector_flops), TERA, .hidden = true},
	{"memory_bytes", "GiB", DEVICE(memory_bytes), .shown = lk_gib},
	{"memory_bytes_per_s", "bandwidth", DEVICE(memory_rate), RATE},
	{"sms", "SMs", DEVICE(sms), KNOWN},
	{"l2_bytes", "L2", DEVICE(l2_bytes), .shown = lk_format_bytes, KNOWN, .hidden = true},
	{"shared_kib", "shared KiB", DEVICE(shared_kib), KNOWN, .hidden = true},
	{"clock_hz", "MHz", DEVICE(clock_hz), .shown = show_megahertz, .hidden = true},
	{"power_w", "W", DEVICE(power_w), KNOWN, .hidden = true},
	{"link_bytes_per_s", "links", DEVICE(link_rate), RATE},
	{"link_count", "count", DEVICE(links), KNOWN, .hidden = true},
	{"link_kind", "kind", LK_FIELD_TEXT, .get = find_link_kind, .hidden = true},
	{"node_gpus", "per node", DEVICE(node_gpus), KNOWN},
	{"pcie_bytes_per_s", "PCIe", DEVICE(pcie_rate), RATE, .hidden = true},
	{"nic_bytes_per_s", "NIC", DEVICE(nic_rate), RATE},
	{"aliases", "also", LK_FIELD_TEXT, .get = find_aliases, .hidden = true},
	{"source", "source", DEVICE(source), .hidden = true},
};
static const lk_answer_record device_record = {LK_RECORD(lk_device, device_fields)};

static const char *const device_extras[] = {"sms",          "tf32_tflops",     "node_gpus",
                                            "nvfp4_tflops", "nic_bytes_per_s", NULL};

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
	const lk_columns columns = {"devices", &device_record, .all = verbose};
	lk_writing w = {format, verbose, colour, path, out};
	char part[TEXT];
	LK_TRY(lk_writing_check(&w, err));
	LK_TRY(lk_devices_ready(err));
	if (lk_device_count() == 0)
		return lk_fail(err, LK_ERR_INPUT, "devices.csv", "the device catalogue is empty");
	catalogue_view_bare(filter ? filter : "", part, sizeof part);
	lk_table *table = lk_fields_table(&columns);
	for (int i = 0; table && i < lk_device_count(); i++)
		if (device_matches(lk_device_at(i), part))
			lk_fields_row(table, &columns, &(lk_subject){NULL, lk_device_at(i), i, NULL});
	if (table && !lk_table_shows(table)) {
		lk_table_free(table);
		return no_device(filter, err);
	}
	return catalogue_view_put(&w, table, device_extras, err);
}

/* ---- models ---- */

#define MODEL(member) LK_AT(lk_model, member)

static void find_attention(const lk_subject *subject, lk_field_value *found) {
	const lk_model *model = subject->record;
	if (model->attention == LK_ATTN_MLA) found->text = "MLA";
	else if (model->kv_heads == model->heads) found->text = "MHA";
	else found->text = model->kv_heads == 1 ? "MQA" : "GQA";
}

/* `context`: the recommendation model that a row is about; its record has name and family alone. */
static bool is_no_recommender(const lk_subject *subject) {
	return !subject->context;
}

static void find_params(const lk_subject *subject, lk_field_value *found) {
	const lk_dlrm *recommender = subject->context;
	found->number = recommender ? lk_dlrm_params(recommender) : lk_model_params(subject->record);
}

static void find_active_params(const lk_subject *subject, lk_field_value *found) {
	const lk_dlrm *recommender = subject->context;
	found->number =
		recommender ? lk_dlrm_active_params(recommender) : lk_model_active_params(subject->record);
}

static const lk_answer_field model_fields[] = {
	{"name", "name", MODEL(name)},
	{"family", "family", MODEL(family)},
	{"layers", "layers", MODEL(layers), KNOWN},
	{"decoder_layers", "decoder", MODEL(decoder_layers), KNOWN, .hidden = true},
	{"hidden", "hidden", MODEL(hidden), KNOWN},
	{"heads", "heads", MODEL(heads), KNOWN},
	{"kv_heads", "kv heads", MODEL(kv_heads), KNOWN},
	{"head_dim", "head dim", MODEL(head_dim), KNOWN, .hidden = true},
	{"ffn", "ffn", MODEL(ffn), KNOWN, .hidden = true},
	{"vocab", "vocab", MODEL(vocab), KNOWN},
	{"experts", "experts", MODEL(experts), KNOWN},
	{"topk", "top-k", MODEL(topk), KNOWN, .hidden = true},
	{"expert_ffn", "expert ffn", MODEL(expert_ffn), KNOWN, .hidden = true},
	{"window", "window", MODEL(window), KNOWN, .hidden = true},
	{"attention", "attention", LK_FIELD_TEXT, .get = find_attention, .there = is_no_recommender,
     .hidden = true},
	{"tied", "tied", MODEL(tied), .hidden = true},
	{"params", "parameters", LK_FIELD_REAL, .get = find_params, .shown = lk_format_count},
	{"active_params", "active", LK_FIELD_REAL, .get = find_active_params, .shown = lk_format_count},
	{"context", "context", MODEL(context), KNOWN},
};
static const lk_answer_record model_record = {LK_RECORD(lk_model, model_fields)};

static const char *const model_extras[] = {"vocab", "family", "kv_heads", "context", NULL};

static const char DLRM[] = "dlrm"; /* the family of all recommendation models */

/* Most numbers of a recommendation model stay empty: its width is each table's. */
static lk_status put_recommender(lk_table *table, const lk_columns *columns, const char *name,
                                 lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_dlrm recommender;
	lk_model model = {0};
	lk_copy(model.name, sizeof model.name, name);
	lk_copy(model.family, sizeof model.family, DLRM);
	lk_status status = lk_dlrm_preset(&arena, name, &recommender, err);
	if (status == LK_OK)
		lk_fields_row(table, columns, &(lk_subject){NULL, &model, 0, &recommender});
	lk_arena_free(&arena);
	return status;
}

static lk_status put_recommenders(lk_table *table, const lk_columns *columns, const char *part,
                                  lk_error *err) {
	const char *name;
	for (int i = 0; (name = lk_model_recommender_at(i)) != NULL; i++)
		if (!*part || catalogue_view_holds(name, part) || catalogue_view_holds(DLRM, part))
			LK_TRY(put_recommender(table, columns, name, err));
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
	const lk_columns columns = {"models", &model_record, .all = verbose};
	lk_model named;
	char part[TEXT];
	LK_TRY(lk_writing_check(&w, err));
	catalogue_view_bare(models_filter(filter, &named), part, sizeof part);
	lk_table *table = lk_fields_table(&columns);
	for (int i = 0; table && i < lk_model_preset_count(); i++) {
		const lk_model *model = lk_model_preset_at(i);
		if (!model) {
			lk_table_free(table);
			return lk_oom(err);
		}
		if (!*part || catalogue_view_holds(model->name, part) ||
		    catalogue_view_holds(model->family, part))
			lk_fields_row(table, &columns, &(lk_subject){NULL, model, i, NULL});
	}
	lk_status status = table ? put_recommenders(table, &columns, part, err) : LK_OK;
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
