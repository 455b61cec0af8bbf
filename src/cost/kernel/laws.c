/* laws.c: formats, the laws, and their numbers: rows of the current calibration whose family is a
 * law's, with the device as subject and the series as variant:
 * "KIND FORMAT KERNEL LIBRARY RELEASE short|sustained", "-" where nothing is said. */
#include "cost/kernel/laws.h"
#include "cost/kernel/kernel.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"

static const lk_law_format formats[] = {
	{"bf16", LK_BF16, 2, 2, 0},
	{"fp16", LK_FP16, 2, 2, 0},
	{"fp8", LK_FP8, 1, 1, 2},
	{"fp8_static", LK_FP8, 1, 1, 1},
	{"fp8_block", LK_FP8, 1.03, 1, 1},
	{"mxfp8", LK_MXFP8, 1.03, 1.03, 1},
	{"nvfp4", LK_NVFP4, .5625, .5625, 1},
	{"mxfp4_mxfp8", LK_FP8, 1.03, .53, 1},
	{"mxfp4_weight_only", LK_BF16, 2, .53, 0},
	{"int8", LK_FP8, 1, 1, 1},
	{"int8_smoothquant", LK_FP8, 1, 1, 1},
	{"int8_weight_only", LK_BF16, 2, 1, 0},
	{"int4_weight_only", LK_BF16, 2, .5, 0},
};

enum { FORMATS = sizeof formats / sizeof *formats };

const lk_law *const lk_laws[] = {&lk_law_product, &lk_law_attention, &lk_law_mla, NULL};

const lk_law_format *lk_law_format_find(const char *name) {
	for (int i = 0; i < FORMATS; i++)
		if (strcmp(formats[i].name, name) == 0) return &formats[i];
	return NULL;
}

static const char *or_dash(const char *word) {
	return *word ? word : "-";
}

const char *lk_law_variant(lk_arena *arena, const lk_law_series *series) {
	return lk_arena_printf(arena, "%s %s %s %s %s %s", or_dash(series->kind),
	                       or_dash(series->format), or_dash(series->kernel),
	                       or_dash(series->library), or_dash(series->release),
	                       series->sustained ? "sustained" : "short");
}

/* ---- rows of the calibration ---- */

struct entry {
	const lk_law *law;
	const lk_device *device;
	const lk_calibration_row *row;
};

struct entries {
	struct entry *at;
	int count;
};

static const lk_law *law_of(const char *family) {
	for (int i = 0; lk_laws[i]; i++)
		if (strcmp(lk_laws[i]->family, family) == 0) return lk_laws[i];
	return NULL;
}

/* Rows follow one another by family and device: what was found for the row before holds for most.
 * Variants are compared word by word where a row is looked for. */
static lk_status entries_make(const lk_calibration *rows, lk_arena *arena, const void **out,
                              lk_error *err) {
	struct entries *made = LK_NEW(arena, struct entries);
	struct entry last = {0};
	int count = 0;
	for (size_t i = 0; i < rows->rows.count; i++) count += law_of(rows->rows.at[i].family) != NULL;
	if (made) made->at = LK_ARRAY(arena, struct entry, count + 1);
	if (!made || !made->at) return lk_oom(err);
	for (size_t i = 0; i < rows->rows.count; i++) {
		const lk_calibration_row *row = &rows->rows.at[i];
		struct entry entry = {.law = law_of(row->family), .row = row};
		if (!entry.law) continue;
		bool same = last.row && last.row->subject == row->subject;
		entry.device = same ? last.device : lk_device_find(row->subject);
		last = entry;
		if (entry.device) made->at[made->count++] = entry;
	}
	*out = made;
	return LK_OK;
}

static lk_status entries_in_use(const struct entries **out, lk_error *err) {
	const void *made = NULL;
	lk_status status = lk_calibration_made(LK_CALIBRATION_KERNELS, entries_make, &made, err);
	*out = made;
	return status;
}

lk_status lk_laws_ready(lk_error *err) {
	const struct entries *unused;
	return entries_in_use(&unused, err);
}

/* ---- learned corrections: read when one is first needed ---- */

struct correction {
	const lk_calibration_row *row;
	lk_trees trees;
};

struct corrections {
	struct correction *at;
	int count;
};

static bool corrects(const lk_calibration_row *row) {
	const lk_law *law = row->text ? law_of(row->subject) : NULL;
	return law && law->features > 0 && strcmp(row->family, "trees") == 0;
}

static lk_status law_trees_make(const lk_calibration *rows, lk_arena *arena, const void **out,
                                lk_error *err) {
	struct corrections *made = LK_NEW(arena, struct corrections);
	int count = 0;
	for (size_t i = 0; i < rows->rows.count; i++) count += corrects(&rows->rows.at[i]);
	if (made) made->at = LK_ARRAY(arena, struct correction, count + 1);
	if (!made || !made->at) return lk_oom(err);
	for (size_t i = 0; i < rows->rows.count; i++) {
		const lk_calibration_row *row = &rows->rows.at[i];
		if (!corrects(row)) continue;
		struct correction *correction = &made->at[made->count];
		correction->row = row;
		LK_TRY(lk_trees_read(arena, row->text, row->where, &correction->trees, err));
		made->count += correction->trees.features == law_of(row->subject)->features;
	}
	*out = made;
	return LK_OK;
}

size_t lk_law_part_length(const lk_law_series *series) {
	return strcspn(series->kind, "_");
}

/* The correction that was fitted together with a row's numbers: of the same source and date. */
static lk_status correction_of(const lk_law *law, const lk_law_series *series,
                               const lk_calibration_row *of, const lk_trees **out) {
	const void *made = NULL;
	lk_error unused;
	size_t length = lk_law_part_length(series);
	*out = NULL;
	if (law->features == 0) return LK_OK;
	LK_TRY(lk_calibration_made(LK_CALIBRATION_KERNEL_TREES, law_trees_make, &made, &unused));
	const struct corrections *all = made;
	for (int i = 0; i < all->count; i++) { /* later rows have precedence */
		const lk_calibration_row *row = all->at[i].row;
		if (strcmp(row->subject, law->family) == 0 && strlen(row->variant) == length &&
		    strncmp(row->variant, series->kind, length) == 0 &&
		    strcmp(row->source, of->source) == 0 && strcmp(row->date, of->date) == 0)
			*out = &all->at[i].trees;
	}
	return LK_OK;
}

double lk_law_corrected(const lk_law *law, const double *numbers, const lk_trees *trees,
                        const lk_law_call *call, const lk_law_series *series) {
	double seconds = law->seconds(numbers, call);
	float x[LK_TREE_FEATURES];
	if (!trees || trees->count == 0) return seconds;
	law->describe(numbers, call, series, x);
	/* a user's file may hold any trees */
	return seconds * exp(fmin(fmax(lk_trees_at(trees, x), -2), 2));
}

double lk_law_seconds(const lk_law_fit *fit, const lk_law_call *call) {
	return lk_law_corrected(fit->law, fit->numbers, fit->trees, call, fit->series);
}

/* ---- the nearest row ---- */

enum { WORDS = 6 };

/* Whether each word of a variant differs from what is wanted; false if the variant has another
 * form: such a row matches nothing. An empty wanted word matches any. */
static bool compare_words(const char *variant, const char *const wanted[WORDS],
                          bool differs[WORDS]) {
	for (int i = 0; i < WORDS; i++) {
		size_t length = strcspn(variant, " ");
		if (length == 0) return false;
		differs[i] =
			*wanted[i] && (strlen(wanted[i]) != length || strncmp(variant, wanted[i], length) != 0);
		variant += length + strspn(variant + length, " ");
	}
	return true;
}

/* How far a row is from what runs: the first difference counts more than all later ones. INFINITY:
 * another kind or format. */
static double distance(const struct entry *entry, const lk_device *device,
                       const lk_law_series *series, bool *same) {
	const char *const wanted[WORDS] = {series->kind,    series->format,
	                                   series->kernel,  series->library,
	                                   series->release, series->sustained ? "sustained" : "short"};
	bool differs[WORDS];
	if (!compare_words(entry->row->variant, wanted, differs) || differs[0] || differs[1])
		return INFINITY;
	const lk_device *from = entry->device;
	double device_far = from == device ? 0 : from->arch == device->arch ? 1 : 2;
	double sheets = from == device
	                    ? 0
	                    : fabs(log(lk_peak_flops(from, LK_BF16) / lk_peak_flops(device, LK_BF16))) +
	                          fabs(log(from->memory_rate / device->memory_rate));
	double words = 8 * differs[2] + 4 * differs[5] + 2 * differs[3] + differs[4];
	*same = words == 0;
	return device_far * 1e3 + words * 10 + fmin(sheets, 9);
}

static lk_law_basis basis_of(const lk_device *from, const lk_device *device, bool same) {
	if (from != device) return from->arch == device->arch ? LK_LAW_RELATIVE : LK_LAW_ARCHITECTURE;
	return same ? LK_LAW_DEVICE : LK_LAW_SERIES;
}

/* Of equally near rows: later ones of the same series have precedence, else those of more points,
 * which know more shapes. */
static bool overrides(const lk_calibration_row *row, const lk_calibration_row *best) {
	return strcmp(row->variant, best->variant) == 0 || row->points > best->points;
}

bool lk_law_find(const lk_law *law, const lk_device *device, const lk_law_series *series,
                 const lk_device *without, lk_law_fit *out) {
	/* added to the spread of a row's own fit: whole series, GPUs, architectures left out
	 * (docs/accuracy) */
	static const double farther[LK_LAW_BASES] = {0, .08, .12, .25};
	const struct entries *entries;
	const struct entry *best = NULL;
	double least = INFINITY;
	lk_error unused;
	if (entries_in_use(&entries, &unused) != LK_OK) return false;
	*out = (lk_law_fit){.law = law, .series = series};
	for (int i = 0; i < entries->count; i++) {
		const struct entry *entry = &entries->at[i];
		bool same = false;
		if (entry->law != law || entry->device == without) continue;
		double far = distance(entry, device, series, &same);
		if (isfinite(far) && (far < least || (far == least && overrides(entry->row, best->row)))) {
			least = far;
			best = entry;
			out->basis = basis_of(entry->device, device, same);
		}
	}
	if (!best || correction_of(law, series, best->row, &out->trees) != LK_OK) return false;
	out->row = best->row;
	for (int i = 0; i < law->count; i++)
		out->numbers[i] =
			lk_calibration_value(best->row, law->numbers[i].name, law->numbers[i].start);
	if (best->device != device && law->carry) law->carry(out->numbers, best->device, device);
	out->spread = lk_calibration_value(best->row, "spread", .2) + farther[out->basis];
	return true;
}
