/* laws.c: formats, the laws, and their numbers: rows of the current calibration whose family is a
 * law's, with the device as subject and the series as variant:
 * "KIND FORMAT KERNEL LIBRARY RELEASE short|sustained", "-" where nothing is said. Rows of family
 * "farther" say how far measurements are from numbers of another series, device, architecture. */
#include "cost/kernel/laws.h"
#include "cost/kernel/kernel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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

const lk_law *const lk_laws[] = {&lk_law_product,  &lk_law_few,      &lk_law_attention,
                                 &lk_law_mla,      &lk_law_experts,  &lk_law_state,
                                 &lk_law_quantize, &lk_law_dispatch, NULL};

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

lk_law_part lk_law_part_of(const lk_law_series *series) {
	lk_law_part part;
	snprintf(part.name, sizeof part.name, "%.*s %s", (int)strcspn(series->kind, "_"), series->kind,
	         series->format);
	return part;
}

/* ---- rows of the calibration ---- */

static const lk_law *law_of(const char *family) {
	for (int i = 0; lk_laws[i]; i++)
		if (strcmp(lk_laws[i]->family, family) == 0) return lk_laws[i];
	return NULL;
}

/* Split a variant into its six words; false if it has another form: such a row matches nothing. */
static bool read_series(lk_arena *arena, const char *variant, lk_law_series *out) {
	char *words[6], *rest = NULL;
	char *text = lk_arena_strdup(arena, variant);
	if (!text) return false;
	for (int i = 0; i < 6; i++) {
		words[i] = strtok_r(i == 0 ? text : NULL, " ", &rest);
		if (!words[i]) return false;
		if (strcmp(words[i], "-") == 0) words[i] += 1;
	}
	*out = (lk_law_series){words[0], words[1], words[2],
	                       words[3], words[4], strcmp(words[5], "sustained") == 0};
	return true;
}

static lk_status entries_make(const lk_calibration *rows, lk_arena *arena, const void **out,
                              lk_error *err) {
	lk_law_entries *made = LK_NEW(arena, lk_law_entries);
	int count = 0;
	for (size_t i = 0; i < rows->rows.count; i++) count += law_of(rows->rows.at[i].family) != NULL;
	if (made) made->at = LK_ARRAY(arena, lk_law_entry, count + 1);
	if (!made || !made->at) return lk_oom(err);
	for (size_t i = 0; i < rows->rows.count; i++) {
		const lk_calibration_row *row = &rows->rows.at[i];
		lk_law_entry entry = {.law = law_of(row->family), .row = row};
		if (!entry.law) continue;
		entry.device = lk_device_find(row->subject);
		if (entry.device && read_series(arena, row->variant, &entry.series))
			made->at[made->count++] = entry;
	}
	*out = made;
	return LK_OK;
}

lk_status lk_law_entries_of(const lk_calibration *rows, lk_arena *arena, const lk_law_entries **out,
                            lk_error *err) {
	const void *made = NULL;
	lk_status status = entries_make(rows, arena, &made, err);
	*out = made;
	return status;
}

static lk_status entries_in_use(const lk_law_entries **out, lk_error *err) {
	const void *made = NULL;
	lk_status status = lk_calibration_made(LK_CALIBRATION_KERNELS, entries_make, &made, err);
	*out = made;
	return status;
}

lk_status lk_laws_ready(lk_error *err) {
	const lk_law_entries *unused;
	return entries_in_use(&unused, err);
}

/* ---- the nearest row ---- */

static int differs(const char *wanted, const char *word) {
	return *wanted && strcmp(wanted, word) != 0;
}

/* The numbers of a release's name, the first counting most: 1.3.0rc20 before 1.3.0. */
static double release_number(const char *text) {
	double sum = 0, weight = 1;
	for (const char *c = text; *c && weight > 1e-9;) {
		if (*c < '0' || *c > '9') {
			if (*c++ == 'r') sum -= weight;
			continue;
		}
		double part = 0;
		while (*c >= '0' && *c <= '9' && part < 1e6) part = 10 * part + (*c++ - '0');
		sum += part * weight;
		weight /= 100;
	}
	return sum;
}

/* 0 of the same release, less than 1 of any other. */
static double release_far(const char *wanted, const char *release) {
	if (!differs(wanted, release)) return 0;
	double apart = fabs(release_number(wanted) - release_number(release));
	return .5 + .49 * apart / (apart + .1);
}

/* Architectures follow one another in time. */
static double sheets_far(const lk_device *from, const lk_device *device) {
	if (from == device) return 0;
	return fabs(log(lk_peak_flops(from, LK_BF16) / lk_peak_flops(device, LK_BF16))) +
	       fabs(log(from->memory_rate / device->memory_rate)) +
	       2 * fabs(log(fmax(from->shared_kib, 1) / fmax(device->shared_kib, 1))) +
	       abs((int)from->arch - (int)device->arch);
}

/* Where numbers of a row of another device come from. SMs of one size of shared memory are the
 * same SMs. */
static lk_law_basis kinship(const lk_device *from, const lk_device *device) {
	if (from->arch != device->arch) return LK_LAW_ARCHITECTURE;
	return from->shared_kib == device->shared_kib ? LK_LAW_RELATIVE : LK_LAW_COUSIN;
}

/* How far a row is from what runs: the first difference counts more than all later ones. */
static double distance(const lk_law_entry *entry, const lk_device *device,
                       const lk_law_series *series) {
	const lk_device *from = entry->device;
	int device_far = from == device ? 0 : kinship(from, device),
		other = differs(series->kernel, entry->series.kernel),
		burst = series->sustained != entry->series.sustained,
		library = differs(series->library, entry->series.library);
	double words = 8 * other + 2 * (2 - other) * burst + 2 * (1 + other) * library +
	               release_far(series->release, entry->series.release);
	return device_far * 1e4 + words * 100 + fmin(sheets_far(from, device), 90) * .1;
}

lk_law_basis lk_law_basis_of(const lk_law_entry *entry, const lk_device *device,
                             const lk_law_series *series) {
	if (entry->device != device) return kinship(entry->device, device);
	bool same = !differs(series->kernel, entry->series.kernel) &&
	            !differs(series->library, entry->series.library) &&
	            !differs(series->release, entry->series.release) &&
	            series->sustained == entry->series.sustained;
	return same ? LK_LAW_DEVICE : LK_LAW_SERIES;
}

bool lk_law_beside(const lk_calibration_row *a, const lk_calibration_row *b) {
	return strcmp(a->source, b->source) == 0 && strcmp(a->date, b->date) == 0;
}

/* Of equally near rows: those of a later fit have precedence, and later ones of the same series;
 * else those of more points, which know more shapes. */
static bool overrides(const lk_calibration_row *row, const lk_calibration_row *best) {
	return !lk_law_beside(row, best) || strcmp(row->variant, best->variant) == 0 ||
	       row->points > best->points;
}

const lk_law_entry *lk_law_nearest(const lk_law_entries *entries, const lk_law *law,
                                   const lk_device *device, const lk_law_series *series,
                                   bool (*leave)(const lk_law_entry *entry, const void *context),
                                   const void *context) {
	const lk_law_entry *best = NULL;
	double least = INFINITY;
	for (int i = 0; i < entries->count; i++) {
		const lk_law_entry *entry = &entries->at[i];
		if (entry->law != law || (leave && leave(entry, context)) ||
		    differs(series->kind, entry->series.kind) ||
		    strcmp(series->format, entry->series.format) != 0)
			continue;
		double far = distance(entry, device, series);
		if (far < least || (far == least && overrides(entry->row, best->row))) {
			least = far;
			best = entry;
		}
	}
	return best;
}

void lk_law_numbers_on(const lk_law_entry *entry, const lk_device *device, double *numbers) {
	const lk_law *law = entry->law;
	for (int i = 0; i < law->count; i++) {
		const lk_fit_number *number = &law->numbers[i];
		numbers[i] = lk_calibration_value(entry->row, number->name, number->start);
	}
	if (entry->device == device || !law->carry) return;
	law->carry(numbers, entry->device, device);
	for (int i = 0; i < law->count; i++)
		numbers[i] = fmin(fmax(numbers[i], law->numbers[i].low), law->numbers[i].high);
}

const char *lk_law_basis_name(lk_law_basis basis) {
	static const char *const names[LK_LAW_BASES] = {"device", "series", "relative", "cousin",
	                                                "architecture"};
	return names[basis];
}

/* The spread of other rows, of the part if it was measured, else of all. */
static double spread_farther(const lk_law *law, const lk_law_series *series, lk_law_basis basis) {
	const lk_calibration *rows = lk_calibration_current();
	char variant[96];
	snprintf(variant, sizeof variant, "%s %s", lk_law_basis_name(basis),
	         lk_law_part_of(series).name);
	const lk_calibration_row *row = lk_calibration_find(rows, "farther", law->family, variant);
	if (!row) row = lk_calibration_find(rows, "farther", law->family, lk_law_basis_name(basis));
	return lk_calibration_value(row, "spread", .3);
}

static bool is_of(const lk_law_entry *entry, const void *device) {
	return entry->device == device;
}

static void take_entry(const lk_law *law, const lk_law_entry *entry, const lk_device *device,
                       const lk_law_series *series, lk_law_fit *out) {
	*out = (lk_law_fit){.law = law,
	                    .basis = lk_law_basis_of(entry, device, series),
	                    .row = entry->row,
	                    .from = entry->device,
	                    .sustained = entry->series.sustained};
	lk_law_numbers_on(entry, device, out->numbers);
	out->spread = lk_calibration_value(entry->row, "spread", .2);
	if (out->basis != LK_LAW_DEVICE)
		out->spread = fmax(out->spread, spread_farther(law, series, out->basis));
}

bool lk_law_find(const lk_law *law, const lk_device *device, const lk_law_series *series,
                 const lk_device *without, lk_law_fit *out) {
	const lk_law_entries *entries;
	lk_error unused;
	if (entries_in_use(&entries, &unused) != LK_OK) return false;
	const lk_law_entry *best =
		lk_law_nearest(entries, law, device, series, without ? is_of : NULL, without);
	if (best) take_entry(law, best, device, series, out);
	return best != NULL;
}

bool lk_law_find_widest(const lk_law *law, const lk_device *device, const lk_law_series *series,
                        lk_law_fit *out) {
	const lk_law_entries *entries;
	const lk_law_entry *best = NULL;
	lk_error unused;
	if (entries_in_use(&entries, &unused) != LK_OK) return false;
	for (int i = 0; i < entries->count; i++) {
		const lk_law_entry *entry = &entries->at[i];
		if (entry->law != law || kinship(entry->device, device) != LK_LAW_RELATIVE ||
		    strcmp(series->kind, entry->series.kind) != 0 ||
		    strcmp(series->format, entry->series.format) != 0 ||
		    differs(series->library, entry->series.library) ||
		    series->sustained != entry->series.sustained)
			continue;
		if (!best || entry->row->points > best->row->points) best = entry;
	}
	if (best) take_entry(law, best, device, series, out);
	return best != NULL;
}
