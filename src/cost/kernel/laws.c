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

const lk_law *const lk_laws[] = {&lk_law_product, &lk_law_experts, &lk_law_state, &lk_law_quantize,
                                 NULL};

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
	lk_law_series series;
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
	struct entries *made = LK_NEW(arena, struct entries);
	int count = 0;
	for (size_t i = 0; i < rows->rows.count; i++) count += law_of(rows->rows.at[i].family) != NULL;
	if (made) made->at = LK_ARRAY(arena, struct entry, count + 1);
	if (!made || !made->at) return lk_oom(err);
	for (size_t i = 0; i < rows->rows.count; i++) {
		const lk_calibration_row *row = &rows->rows.at[i];
		struct entry entry = {.law = law_of(row->family), .row = row};
		if (!entry.law) continue;
		entry.device = lk_device_find(row->subject);
		if (entry.device && read_series(arena, row->variant, &entry.series))
			made->at[made->count++] = entry;
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

/* ---- the nearest row ---- */

static int differs(const char *wanted, const char *word) {
	return *wanted && strcmp(wanted, word) != 0;
}

/* How far a row is from what runs: the first difference counts more than all later ones. */
static double distance(const struct entry *entry, const lk_device *device,
                       const lk_law_series *series) {
	const lk_device *from = entry->device;
	double device_far = from == device ? 0 : from->arch == device->arch ? 1 : 2;
	double sheets = from == device
	                    ? 0
	                    : fabs(log(lk_peak_flops(from, LK_BF16) / lk_peak_flops(device, LK_BF16))) +
	                          fabs(log(from->memory_rate / device->memory_rate));
	double words = 8 * differs(series->kernel, entry->series.kernel) +
	               4 * (series->sustained != entry->series.sustained) +
	               2 * differs(series->library, entry->series.library) +
	               differs(series->release, entry->series.release);
	return device_far * 1e3 + words * 10 + fmin(sheets, 9);
}

static lk_law_basis basis_of(const struct entry *entry, const lk_device *device,
                             const lk_law_series *series) {
	if (entry->device != device)
		return entry->device->arch == device->arch ? LK_LAW_RELATIVE : LK_LAW_ARCHITECTURE;
	bool same = !differs(series->kernel, entry->series.kernel) &&
	            !differs(series->library, entry->series.library) &&
	            !differs(series->release, entry->series.release) &&
	            series->sustained == entry->series.sustained;
	return same ? LK_LAW_DEVICE : LK_LAW_SERIES;
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
	for (int i = 0; i < entries->count; i++) {
		const struct entry *entry = &entries->at[i];
		if (entry->law != law || entry->device == without ||
		    differs(series->kind, entry->series.kind) ||
		    strcmp(series->format, entry->series.format) != 0)
			continue;
		double far = distance(entry, device, series);
		if (far <= least) { /* later rows have precedence */
			least = far;
			best = entry;
		}
	}
	if (!best) return false;
	*out = (lk_law_fit){.law = law, .row = best->row, .basis = basis_of(best, device, series)};
	for (int i = 0; i < law->count; i++)
		out->numbers[i] =
			lk_calibration_value(best->row, law->numbers[i].name, law->numbers[i].start);
	if (best->device != device && law->carry) law->carry(out->numbers, best->device, device);
	out->spread = lk_calibration_value(best->row, "spread", .2) + farther[out->basis];
	return true;
}
