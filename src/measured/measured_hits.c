/* measured_hits.c: the list of numbers that a file states, and the progress bars among them. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/stats.h"
#include "base/text.h"
#include "measured/measured_internal.h"

static const double MOST_VALUE = 1e18;

void lk_hits_open(lk_hits *hits) {
	memset(hits, 0, sizeof *hits);
	hits->stamp = NAN;
	for (const lk_measured_format *format = lk_measured_formats; format->name; format++) {
		for (int i = 0; format->tables[i] && hits->table_count < LK_HIT_TABLES; i++) {
			if (lk_hits_table(hits, format->tables[i]) < hits->table_count) continue;
			hits->tables[hits->table_count].step = NAN;
			hits->tables[hits->table_count++].keys = format->tables[i];
		}
	}
}

void lk_hits_close(lk_hits *hits) {
	lk_vec_free(&hits->hits);
	lk_vec_free(&hits->bars);
}

uint32_t lk_hits_table(const lk_hits *hits, const lk_measured_key *keys) {
	uint32_t table = 0;
	while (table < hits->table_count && hits->tables[table].keys != keys) table++;
	return table;
}

void lk_hits_add(lk_hits *hits, uint32_t table, const lk_measured_key *key, double step,
                 double value) {
	if (!(fabs(value) < MOST_VALUE)) return; /* nothing that is measured; sums stay finite */
	if (value < 1 / MOST_VALUE) value = value < 0 ? value : 0;
	if (!lk_push(&hits->hits)) {
		hits->lost = true;
		return;
	}
	*lk_last(&hits->hits) =
		(lk_hit){.key = key, .table = table, .step = step, .value = value, .stamp = hits->stamp};
}

/* ---- names of records ---- */

/* Whether a name is that of a row, or ends in it: "train/tps", "run 1 - tps". Numbers of steps are
 * named as they are, and those of devices: evaluations count steps too. */
static bool name_is(const char *name, const lk_measured_key *key) {
	size_t length = strlen(name), own = strlen(key->key);
	if (length < own || strcasecmp(name + length - own, key->key) != 0) return false;
	if (length == own) return true;
	if (lk_begins_with(name, "eval")) return false;
	char before = name[length - own - 1];
	bool number = key->gauge == LK_GAUGE_STEP || key->gauge == LK_GAUGE_INDEX;
	return before == ' ' || (!number && strchr("/.", before));
}

/* The row of a name in a table; NULL: none. */
static const lk_measured_key *key_of_name(const lk_measured_key *key, const char *name) {
	char plain[128];
	lk_copy(plain, sizeof plain, name + strspn(name, " "));
	char *unit = strstr(plain, " [");
	if (unit) *unit = '\0';
	for (; key->key; key++)
		if (*key->key != '|' && !strpbrk(key->key, "#?") && name_is(plain, key)) return key;
	return NULL;
}

bool lk_hits_knows(const lk_hits *hits, const char *name) {
	for (uint32_t i = 0; i < hits->table_count; i++)
		if (key_of_name(hits->tables[i].keys, name)) return true;
	return false;
}

bool lk_hits_is_step(const lk_hits *hits, const char *name) {
	for (uint32_t i = 0; i < hits->table_count; i++) {
		const lk_measured_key *key = key_of_name(hits->tables[i].keys, name);
		if (key && key->gauge == LK_GAUGE_STEP) return true;
	}
	return false;
}

bool lk_hits_named(lk_hits *hits, const char *name, const char *value, double step) {
	bool any = false;
	for (uint32_t i = 0; i < hits->table_count; i++) {
		const lk_measured_key *key = key_of_name(hits->tables[i].keys, name);
		const char *text = value + strspn(value, " "), *end;
		double number = key ? lk_key_value(key, text, &end) : NAN;
		if (!key || isnan(number)) continue;
		lk_hits_add(hits, i, key, step, number);
		any = true;
	}
	return any;
}

/* ---- progress bars: tqdm's "Epoch 1:  12%|#3   | 12/100 [01:23<10:11,  6.95s/it, loss=2]" ---- */

static uint64_t bar_title(const char *line) {
	size_t length = strcspn(line, "%");
	uint64_t hash = LK_HASH_SEED;
	for (size_t i = 0; i < length; i++)
		if (!lk_is_digit(line[i]) && line[i] != ' ') hash = lk_hash_bytes(hash, line + i, 1);
	return hash;
}

/* Bars of other work than training, by the words before them. */
static bool bar_is_aside(const char *line) {
	static const char *const words[] = {"Loading",    "Map",      "Filter",   "Tokeniz",
	                                    "Generating", "Fetching", "Download", "Saving",
	                                    "Eval",       "Valid",    "Convert",  "Running"};
	size_t length = strcspn(line, "%");
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		const char *at = strstr(line, words[i]);
		if (at && at < line + length) return true;
	}
	return false;
}

/* The bar that the line is of, from 1; 0 when memory runs out. */
static uint32_t bar_of(lk_hits *hits, uint64_t title, double total) {
	for (size_t i = 0; i < hits->bars.count; i++)
		if (hits->bars.at[i].title == title && hits->bars.at[i].total == total)
			return (uint32_t)i + 1;
	if (!lk_push(&hits->bars)) return 0;
	lk_last(&hits->bars)->title = title;
	lk_last(&hits->bars)->total = total;
	return (uint32_t)hits->bars.count;
}

/* The row of the unit at `text`, "s/it" and the like. */
static const lk_measured_key *bar_unit(const char *text) {
	char unit[24];
	size_t length = strcspn(text, ",] ");
	if (length + 1 >= sizeof unit) return NULL;
	unit[0] = '|';
	lk_copy(unit + 1, length + 1, text);
	for (const lk_measured_key *key = lk_measured_keys_bars; key->key; key++)
		if (strcmp(key->key, unit) == 0) return key;
	return NULL;
}

void lk_hits_bar(lk_hits *hits, const char *line) {
	const char *open = strstr(line, "% |"), *at, *end;
	if (!open) open = strstr(line, "%|");
	if (!open || bar_is_aside(line) || !(open = strchr(open, '|')) ||
	    !(at = strstr(open + 1, "| ")))
		return;
	double step = lk_read_number(at + 2 + strspn(at + 2, " "), &end);
	if (*end != '/') return;
	double total = lk_read_number(end + 1, &at), elapsed;
	at += strspn(at, " ");
	if (*at != '[') return;
	elapsed = lk_read_clock(at + 1, &end);
	at = strchr(end, ',');
	if (isnan(elapsed) || !at || *end != '<') return;
	at += 1 + strspn(at + 1, " ");
	double rate = lk_read_real(at, &end);
	const lk_measured_key *key = end > at ? bar_unit(end) : NULL;
	uint32_t number = key && step > 0 ? bar_of(hits, bar_title(line), total) : 0;
	if (number == 0) return;
	lk_bar *bar = &hits->bars.at[number - 1];
	if (step <= 1 && bar->last > total / 2) bar->before += bar->last;
	bar->last = step;
	if (elapsed > bar->elapsed_s) bar->elapsed_s = elapsed;
	lk_hits_add(hits, lk_hits_table(hits, lk_measured_keys_bars), key, bar->before + step, rate);
	if (hits->hits.count > 0) lk_last(&hits->hits)->bar = number;
}
