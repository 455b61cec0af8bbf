/* measured_devices.c: tables of nvidia-smi and DCGM in blanks: those of `nvidia-smi`, with the name
 * of each GPU, and those of `nvidia-smi dmon` and `dcgmi dmon`, whose header begins with '#'. What
 * `nvidia-smi -q` has are rows of data/measured/keys.csv. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "measured/measured_internal.h"

/* The name at `at`, up to `end` and without blanks there. False: none, or one that is too long. */
static bool take_name(const char *at, const char *end, char name[LK_MEASURED_DEVICE]) {
	while (end > at && end[-1] == ' ') end--;
	if (end <= at || (size_t)(end - at) >= LK_MEASURED_DEVICE) return false;
	lk_copy(name, (size_t)(end - at) + 1, at);
	return true;
}

/* Of nvidia-smi -L: "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)". */
static int listed_device(const char *line, char name[LK_MEASURED_DEVICE]) {
	const char *at = line + 4, *end = strstr(line, " (UUID: ");
	size_t digits = strspn(at, "0123456789");
	if (!end || digits < 1 || digits > 3 || at[digits] != ':') return -1;
	at += digits + 1;
	return take_name(at + strspn(at, " "), end, name) ? atoi(line + 4) : -1;
}

/* "|   0  NVIDIA GeForce RTX 4090        On  | 00000000:01:00.0 Off |": the name ends before "On",
 * "Off", "WDDM" or two blanks; the place on the bus tells it from processes below. */
int lk_measured_smi_device(const char *line, char name[LK_MEASURED_DEVICE]) {
	static const char *const modes[] = {" On ", " Off ", " WDDM ", " TCC ", "  ", "|"};
	if (lk_begins_with(line, "GPU ")) return listed_device(line, name);
	if (*line != '|') return -1;
	const char *at = line + 1 + strspn(line + 1, " "), *end = NULL, *bus = strstr(line, "0000");
	size_t digits = strspn(at, "0123456789"), blanks = strspn(at + digits, " ");
	if (digits < 1 || digits > 3 || blanks < 1 || !bus || !strchr(bus, ':')) return -1;
	int index = atoi(at);
	at += digits + blanks;
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		const char *stop = strstr(at, modes[i]);
		if (stop && (!end || stop < end)) end = stop;
	}
	bool named = *at >= 'A' && *at <= 'Z' && end && take_name(at, end, name);
	return named ? index : -1;
}

static const lk_measured_key *device_key(const char *name) {
	const lk_measured_key *key = lk_measured_keys_devices;
	while (key->key && strcmp(key->key, name) != 0) key++;
	return key->key ? key : NULL;
}

/* The next word of a line; false at its end. */
static bool next_word(const char **at, char word[64]) {
	*at += strspn(*at, " \t");
	size_t length = strcspn(*at, " \t");
	if (length == 0) return false;
	lk_copy(word, length < 64 ? length + 1 : 64, *at);
	*at += length;
	return true;
}

/* A header: its columns, where the table has any of ours. */
static void devices_header(lk_hits *hits, const char *at) {
	char word[64];
	size_t count = 0, known = 0;
	const lk_measured_key *columns[LK_TABLE_COLUMNS];
	while (count < LK_TABLE_COLUMNS && next_word(&at, word)) {
		columns[count] = device_key(word);
		known += columns[count++] != NULL;
	}
	if (known < 2) return; /* units, or a comment */
	memcpy(hits->columns, columns, sizeof columns);
	hits->column_count = count;
}

/* A row of numbers; dcgmi's begin with "GPU 0" in the column of the entity. */
static void devices_row(lk_hits *hits, const char *line) {
	char word[64];
	const char *at = line, *end;
	uint32_t table = lk_hits_table(hits, lk_measured_keys_devices);
	size_t words = 0;
	while (next_word(&at, word)) words++;
	bool named = words == hits->column_count + 1;
	if (words != hits->column_count && !named) return;
	at = line;
	if (named && next_word(&at, word) && strcmp(word, "GPU") == 0)
		lk_hits_add(hits, table, device_key("index"), NAN, lk_read_number(at + 1, &end));
	for (size_t i = 0; i < hits->column_count && next_word(&at, word); i++) {
		const lk_measured_key *key = hits->columns[i];
		double value = key ? lk_key_value(key, word, &end) : NAN;
		if (key && end > word) lk_hits_add(hits, table, key, NAN, value);
	}
}

void lk_hits_devices(lk_hits *hits, const char *line) {
	char name[LK_MEASURED_DEVICE];
	int index = lk_measured_smi_device(line, name);
	if (index >= 0) {
		lk_copy(hits->device, sizeof hits->device, name);
		lk_hits_add(hits, lk_hits_table(hits, lk_measured_keys_devices), device_key("index"), NAN,
		            index);
	}
	const char *state = strstr(line, ": Active");
	if (state && (strstr(line, "Slowdown") || strstr(line, "SW Power Cap"))) hits->throttled = true;
	if (strstr(line, "out of memory") || strstr(line, "OutOfMemoryError"))
		hits->out_of_memory = true;
	const char *product = strstr(line, "Product Name");
	if (product && (product = strchr(product, ':')))
		lk_copy(hits->device, sizeof hits->device, product + 1 + strspn(product + 1, " "));
	if (*line == '#') devices_header(hits, line + 1);
	else if (hits->column_count > 0) devices_row(hits, line);
}
