/* device.c: the catalogue of devices: loading it, and finding a device by its common names.
 *
 * Names are compared by their key: lower case, split at everything that is no letter or digit,
 * vendor words removed, joined again. "NVIDIA_A100-PCIE-40GB" and "a100 pcie 40gb" have the key
 * "a100pcie40gb". The keys of all names and aliases are computed once, sorted, and found by
 * bisection. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "system/context.h"
#include "io/csv.h"
#include "base/text.h"
#include "base/vec.h"
#include "base/sort.h"
#include "io/embedded.h"
#include "hw/hw_internal.h"
#include "hw/hw.h"
#include "lockstep/catalogue.h"

enum { KEY = 96 };

struct entry {
	lk_device device;
	const char *aliases; /* comma separated */
};

struct key {
	const char *text;
	int device;
};

/* A known accelerator that is not modelled: every key with this prefix is refused with the
 * reason. */
struct refusal {
	const char *prefix, *name, *reason;
};

struct catalogue {
	lk_kept kept; /* first */
	lk_arena arena;
	LK_VEC(struct entry) entries;
	LK_VEC(struct key) keys;
	LK_VEC(struct refusal) refusals;
	int column[LK_DEVICE_COLUMNS]; /* in devices.csv, by field */
	int aliases;                   /* column of the aliases; negative: none */
};

static void catalogue_free(lk_kept *kept) {
	struct catalogue *cat = (struct catalogue *)kept;
	lk_arena_free(&cat->arena);
	lk_vec_free(&cat->entries);
	lk_vec_free(&cat->keys);
	lk_vec_free(&cat->refusals);
	free(cat);
}

/* ---- keys ---- */

static bool part_of_word(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (unsigned char)c >= 0x80;
}

static bool says_only_the_maker(const char *word, size_t length) {
	static const struct {
		const char *word;
		size_t length;
	} makers[] = {{"nvidia", 6}, {"tesla", 5},   {"amd", 3},   {"instinct", 8},
	              {"gpu", 3},    {"geforce", 7}, {"radeon", 6}};
	for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
		if (makers[i].length == length && memcmp(makers[i].word, word, length) == 0) return true;
	return false;
}

/* Compute the key of the first `length` bytes of a name; false if it is empty or too long, or the
 * name holds control characters. */
static bool make_key(const char *name, size_t length, char out[KEY]) {
	size_t used = 0;
	for (size_t i = 0; i < length;) {
		size_t word = used;
		for (; i < length && part_of_word(name[i]); i++) {
			if (used + 1 >= KEY) return false;
			out[used++] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : name[i];
		}
		if (says_only_the_maker(out + word, used - word)) used = word;
		for (; i < length && !part_of_word(name[i]); i++)
			if (iscntrl((unsigned char)name[i])) return false; /* never part of a real name */
	}
	out[used] = '\0';
	return used > 0;
}

LK_ORDER_BY_TEXT(compare_keys, struct key, text)

static const struct key *device_find_key(const struct catalogue *cat, const char *text) {
	struct key wanted = {text, 0};
	return cat->keys.count
	           ? bsearch(&wanted, cat->keys.at, cat->keys.count, sizeof(struct key), compare_keys)
	           : NULL;
}

/* ---- loading ---- */

/* Take the next part of a '|' separated list; false at its end. */
static bool device_next_part(const char **list, const char **part, size_t *length) {
	if (!**list) return false;
	*part = *list;
	*length = strcspn(*list, "|");
	*list += *length + ((*list)[*length] == '|');
	return true;
}

static lk_status add_key(struct catalogue *cat, const char *name, size_t length, const char *where,
                         lk_error *err) {
	char text[KEY];
	if (!make_key(name, length, text))
		return lk_fail(err, LK_ERR_INPUT, where, "'%.*s' is not a name of a device", (int)length,
		               name);
	const char *copy = lk_arena_strdup(&cat->arena, text);
	if (!copy || !lk_push(&cat->keys)) return lk_oom(err);
	*lk_last(&cat->keys) = (struct key){copy, (int)cat->entries.count - 1};
	return LK_OK;
}

static lk_status add_aliases(struct catalogue *cat, const char *list, const char *where,
                             lk_error *err) {
	char *shown = lk_arena_alloc(&cat->arena, 2 * strlen(list) + 1), *to = shown;
	if (!shown) return lk_oom(err);
	const char *part;
	size_t length;
	while (device_next_part(&list, &part, &length)) {
		LK_TRY(add_key(cat, part, length, where, err));
		if (to != shown) to += sprintf(to, ", ");
		memcpy(to, part, length);
		to += length;
	}
	lk_last(&cat->entries)->aliases = shown;
	return LK_OK;
}

static lk_status device_find_columns(struct catalogue *cat, const lk_csv *csv, lk_error *err) {
	for (int i = 0; i < LK_DEVICE_COLUMNS; i++) {
		cat->column[i] = lk_csv_column(csv, lk_device_field(i));
		if (cat->column[i] >= 0) continue;
		return lk_fail(err, LK_ERR_INPUT, lk_csv_where(csv), "the header has no column '%s'",
		               lk_device_field(i));
	}
	cat->aliases = lk_csv_column(csv, "aliases");
	return LK_OK;
}

static lk_status device_add_device(struct catalogue *cat, const lk_csv *csv, lk_error *err) {
	if (!cat->entries.count) LK_TRY(device_find_columns(cat, csv, err));
	const char *where = lk_csv_where(csv);
	if (!lk_push(&cat->entries)) return lk_oom(err);
	lk_device *device = &lk_last(&cat->entries)->device;
	for (int i = 0; i < LK_DEVICE_COLUMNS; i++)
		LK_TRY(lk_device_set_field(device, i, lk_csv_field(csv, cat->column[i]), where, err));
	LK_TRY(lk_device_check(device, where, err));
	LK_TRY(add_key(cat, device->name, strlen(device->name), where, err));
	LK_TRY(add_key(cat, device->label, strlen(device->label), where, err));
	return add_aliases(cat, lk_csv_field(csv, cat->aliases), where, err);
}

static lk_status add_refusal(struct catalogue *cat, const lk_csv *csv, lk_error *err) {
	const char *list = lk_csv_named(csv, "prefixes"), *part;
	const char *name = lk_arena_strdup(&cat->arena, lk_csv_named(csv, "name"));
	const char *reason = lk_arena_strdup(&cat->arena, lk_csv_named(csv, "reason"));
	size_t length;
	if (!name || !reason) return lk_oom(err);
	while (device_next_part(&list, &part, &length)) {
		char text[KEY];
		if (!make_key(part, length, text))
			return lk_fail(err, LK_ERR_INPUT, lk_csv_where(csv), "'%.*s' is not a prefix",
			               (int)length, part);
		const char *prefix = lk_arena_strdup(&cat->arena, text);
		if (!prefix || !lk_push(&cat->refusals)) return lk_oom(err);
		*lk_last(&cat->refusals) = (struct refusal){prefix, name, reason};
	}
	return LK_OK;
}

typedef lk_status row_reader(struct catalogue *cat, const lk_csv *csv, lk_error *err);

static lk_status device_read_rows(struct catalogue *cat, const char *dir, const char *file,
                                  row_reader *row, lk_error *err) {
	lk_stream *in;
	LK_TRY(lk_data_open(dir, file, &in, err));
	lk_csv *csv = NULL;
	bool more = true;
	lk_status status = lk_csv_open(in, &csv, err);
	if (status == LK_OK) status = lk_csv_next(csv, &more, err);
	while (status == LK_OK && more) {
		status = row(cat, csv, err);
		if (status == LK_OK) status = lk_csv_next(csv, &more, err);
	}
	if (csv) lk_csv_close(csv);
	lk_stream_close(in);
	return status;
}

/* With two devices of one name, the answer would depend on the order of the file. */
static lk_status sort_keys(struct catalogue *cat, lk_error *err) {
	if (!cat->entries.count) return lk_fail(err, LK_ERR_INPUT, "devices.csv", "no device in it");
	lk_sort(cat->keys.at, cat->keys.count, sizeof(struct key), compare_keys);
	for (size_t i = 1; i < cat->keys.count; i++) {
		const struct key *a = &cat->keys.at[i - 1], *b = &cat->keys.at[i];
		if (a->device == b->device || strcmp(a->text, b->text) != 0) continue;
		return lk_fail(err, LK_ERR_INPUT, "devices.csv", "'%s' names both %s and %s", a->text,
		               cat->entries.at[a->device].device.name,
		               cat->entries.at[b->device].device.name);
	}
	return LK_OK;
}

static lk_status catalogue_load(const char *dir, struct catalogue **out, lk_error *err) {
	struct catalogue *cat = calloc(1, sizeof *cat);
	if (!cat) return lk_oom(err);
	cat->kept.free = catalogue_free;
	lk_status status = device_read_rows(cat, dir, "devices.csv", device_add_device, err);
	if (status == LK_OK) status = device_read_rows(cat, dir, "not_modelled.csv", add_refusal, err);
	if (status == LK_OK) status = sort_keys(cat, err);
	if (status == LK_OK) *out = cat;
	else catalogue_free(&cat->kept);
	return status;
}

/* ---- the catalogue of a context: devices are compared and kept by address ---- */

lk_status lk_context_catalogue(lk_context *context, const char *dir, lk_error *err) {
	struct catalogue *cat = NULL;
	LK_TRY(catalogue_load(dir, &cat, err));
	if (lk_context_keep(context, LK_CONTEXT_CATALOGUE, &cat->kept)) return LK_OK;
	return lk_fail(err, LK_ERR_INPUT, "devices.csv",
	               "the device catalogue is already in use and cannot change");
}

lk_status lk_catalogue_open(const char *dir, lk_error *err) {
	return lk_context_catalogue(lk_carried_here()->context, dir, err);
}

/* NULL, with the error filled, only when memory runs out or the compiled-in file is damaged; the
 * next call then tries again. */
static const struct catalogue *get_catalogue(lk_error *err) {
	struct catalogue *cat = (struct catalogue *)lk_context_kept(LK_CONTEXT_CATALOGUE);
	if (cat) return cat;
	if (catalogue_load(NULL, &cat, err) != LK_OK) return NULL;
	lk_context_keep(lk_carried_here()->context, LK_CONTEXT_CATALOGUE, &cat->kept);
	return (struct catalogue *)lk_context_kept(LK_CONTEXT_CATALOGUE);
}

/* ---- finding ---- */

/* Length of a name without a remark at its end: "H100-SXM (per file comment)". Parentheses with
 * digits are no remark: they distinguish variants, as in "A100 (40 GB)". */
static size_t before_remark(const char *name) {
	const char *open = strchr(name, '(');
	if (!open || open[strcspn(open, "0123456789")]) return strlen(name);
	return (size_t)(open - name);
}

static const lk_device *find_in(const struct catalogue *cat, const char *name) {
	char text[KEY];
	if (!cat || !name || !make_key(name, before_remark(name), text)) return NULL;
	const struct key *found = device_find_key(cat, text);
	return found ? &cat->entries.at[found->device].device : NULL;
}

double lk_device_peak(const lk_device *device, lk_dtype dtype) {
	return device->peak_flops[dtype] > 0 ? device->peak_flops[dtype] : device->vector_flops;
}

const lk_device *lk_device_find(const char *name) {
	return find_in(get_catalogue(NULL), name);
}

/* Whether two keys name one model, give or take a slip of the keyboard: numbers are equal and in
 * the same places, and so are single letters, which distinguish cards ("l20" and "h20", "4090d").
 * A key that ends before the other's next number or word is the beginning of its name. */
static bool keys_name_one_model(const char *typed, const char *known) {
	static const char digits[] = "0123456789";
	if (!typed[strcspn(typed, digits)]) return false;
	while (*typed) {
		size_t a = strcspn(typed, digits), b = strcspn(known, digits);
		if (a != b && (a < 2 || b < 2)) return false;
		if (a < 2 && strncmp(typed, known, a) != 0) return false;
		typed += a, known += b;
		a = strspn(typed, digits), b = strspn(known, digits);
		if (a != b || strncmp(typed, known, a) != 0) return false;
		typed += a, known += b;
	}
	return true;
}

/* Fill the error for an unknown name; `text` is its key. */
static lk_status not_found(const struct catalogue *cat, const char *name, const char *text,
                           const char *where, lk_error *err) {
	for (size_t i = 0; i < cat->refusals.count; i++) {
		const struct refusal *refusal = &cat->refusals.at[i];
		if (!lk_begins_with(text, refusal->prefix)) continue;
		lk_fail(err, LK_ERR_INPUT, where, "'%.80s' (%s) is not modelled: %s", name, refusal->name,
		        refusal->reason);
		return lk_hint(
			err, "describe it in a cluster file with its own rates, or name a modelled device");
	}
	lk_fail(err, LK_ERR_INPUT, where, "unknown device '%.80s'", name);
	const char **names = malloc(cat->keys.count * sizeof *names);
	if (!names) return lk_oom(err);
	size_t count = 0;
	for (size_t i = 0; i < cat->keys.count; i++)
		if (keys_name_one_model(text, cat->keys.at[i].text)) names[count++] = cat->keys.at[i].text;
	const char *near = lk_nearest(text, names, count);
	const struct key *found = near ? device_find_key(cat, near) : NULL;
	free(names);
	if (found) return lk_hint(err, "did you mean %s?", cat->entries.at[found->device].device.name);
	return lk_hint(
		err,
		"name a device such as h100-sxm, a100-sxm-80 or mi300x, or describe it in a cluster file");
}

lk_status lk_device_lookup(const char *name, const char *where, const lk_device **out,
                           lk_error *err) {
	const struct catalogue *cat = get_catalogue(err);
	if (!cat) return err ? err->status : LK_ERR_INTERNAL;
	const lk_device *found = find_in(cat, name);
	if (found) {
		*out = found;
		return LK_OK;
	}
	char text[KEY] = "";
	if (!name || !*name) return lk_fail(err, LK_ERR_INPUT, where, "no device was named");
	if (!make_key(name, strlen(name), text)) *text = '\0';
	return not_found(cat, name, text, where, err);
}

lk_status lk_devices_ready(lk_error *err) {
	lk_error own = {0};
	if (!err) err = &own;
	return get_catalogue(err) ? LK_OK : err->status;
}

int lk_device_count(void) {
	const struct catalogue *cat = get_catalogue(NULL);
	return cat ? (int)cat->entries.count : 0;
}

const lk_device *lk_device_at(int index) {
	const struct catalogue *cat = get_catalogue(NULL);
	return cat && index >= 0 && (size_t)index < cat->entries.count ? &cat->entries.at[index].device
	                                                               : NULL;
}

const char *lk_device_name(int index) {
	const lk_device *device = lk_device_at(index);
	return device ? device->name : NULL;
}

const char *lk_device_aliases(const lk_device *device) {
	const struct catalogue *cat = get_catalogue(NULL);
	for (size_t i = 0; cat && i < cat->entries.count; i++)
		if (&cat->entries.at[i].device == device) return cat->entries.at[i].aliases;
	return "";
}

/* ---- variants ---- */

/* Length of a name without a memory size at its end: "a100-sxm-40" is 8. */
static size_t before_size(const char *name) {
	size_t end = strlen(name), at = end;
	while (at && name[at - 1] >= '0' && name[at - 1] <= '9') at--;
	return at > 1 && at < end && name[at - 1] == '-' ? at - 1 : end;
}

static bool same_but_memory(const lk_device *a, const lk_device *b) {
	size_t length = before_size(a->name);
	return a->arch == b->arch && a->sms == b->sms && length == before_size(b->name) &&
	       memcmp(a->name, b->name, length) == 0;
}

const lk_device *lk_device_variant(const lk_device *device, double memory_bytes) {
	const struct catalogue *cat = get_catalogue(NULL);
	const lk_device *best = device;
	for (size_t i = 0; cat && i < cat->entries.count; i++) {
		const lk_device *other = &cat->entries.at[i].device;
		if (!same_but_memory(device, other)) continue;
		if (fabs(other->memory_bytes - memory_bytes) < fabs(best->memory_bytes - memory_bytes))
			best = other;
	}
	return best;
}

lk_status lk_device_with_power(lk_arena *arena, const lk_device *device, double watts,
                               const lk_device **out, lk_error *err) {
	const lk_device *known = lk_device_find(device->name);
	double board = known ? known->power_w : device->power_w;
	if (known && watts == board) {
		*out = known;
		return LK_OK;
	}
	if (!(board > 0))
		return lk_fail(err, LK_ERR_INPUT, "--power", "the board power of %s is not known",
		               device->name);
	if (!(watts >= board / 4 && watts <= board * 1.5)) {
		lk_fail(err, LK_ERR_INPUT, "--power", "%g W for a board of %g W (%s)", watts, board,
		        device->name);
		return lk_hint(err, "give %g to %g W", ceil(board / 4), floor(board * 1.5));
	}
	lk_device *held = LK_NEW(arena, lk_device);
	if (!held) return lk_oom(err);
	*held = *device;
	held->power_w = watts;
	*out = held;
	return LK_OK;
}

double lk_intra_rate(const lk_device *device, lk_intra intra) {
	return intra == LK_INTRA_PCIE ? device->pcie_rate : device->link_rate;
}

int lk_nvlink_generation(lk_arch arch) {
	static const int generation[LK_ARCHES] = {
		[LK_ARCH_PASCAL] = 1, [LK_ARCH_VOLTA] = 2,  [LK_ARCH_TURING] = 2,
		[LK_ARCH_AMPERE] = 3, [LK_ARCH_HOPPER] = 4, [LK_ARCH_BLACKWELL] = 5,
	};
	return generation[arch];
}
