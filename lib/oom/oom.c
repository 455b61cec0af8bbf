/* oom.c: messages of memory that ran out. A message is a sentence with quantities; each is known by
 * the words before or after it, so that all versions of the sentence are rows of one table.
 *
 * PyTorch: c10/cuda/CUDACachingAllocator.cpp, malloc(), of 1.3, 1.8, 2.0, 2.1 and 2.9. */
#include "oom/oom.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

enum {
	MESSAGE = 1400, /* bytes of a message that are looked at */
	DIGITS = 6      /* of a rank */
};

static const char needle[] = "out of memory";

/* ---- the prefix of a line ---- */

static bool starts(const char *at, const char *end, const char *with) {
	size_t size = strlen(with);
	return size <= (size_t)(end - at) && strncasecmp(at, with, size) == 0;
}

int lk_line_rank(const char *line, const char *end) {
	static const struct {
		const char *before, *after;
	} forms[] = {
		{"[rank", "]"}, {"[rank ", "]"}, {"[default", "]"}, {"[", "]"},
		{"rank ", ":"}, {"rank ", "]"},  {"rank=", ""},     {"", ": "},
	};
	while (line < end && (*line == ' ' || *line == '\t' || *line == '>' || *line == '|')) line++;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		if (!starts(line, end, forms[i].before)) continue;
		const char *at = line + strlen(forms[i].before), *digit = at;
		int rank = 0;
		while (at < end && lk_is_digit(*at) && at - digit < DIGITS) rank = rank * 10 + *at++ - '0';
		if (at > digit && starts(at, end, forms[i].after)) return rank;
	}
	return -1;
}

static const char *line_start(const char *text, const char *at) {
	while (at > text && at[-1] != '\n') at--;
	return at;
}

/* ---- quantities ---- */

/* The words around a quantity, and the number that it is. */
static const struct phrase {
	const char *before, *after;
	size_t number;
} phrases[] = {
#define NUMBER(member) offsetof(lk_oom_text, member)
	{"to allocate ", NULL, NUMBER(requested)},
	{"Out of memory allocating ", NULL, NUMBER(requested)},
	{"total capacity of ", NULL, NUMBER(total)},
	{"total capacty of ", NULL, NUMBER(total)},
	{NULL, " total capacity", NUMBER(total)},
	{NULL, " already allocated", NUMBER(allocated)},
	{NULL, " is allocated by PyTorch", NUMBER(allocated)},
	{NULL, " allocated in private pools", NUMBER(private_pools)},
	{NULL, " reserved in total by", NUMBER(reserved)},
	{NULL, " cached", NUMBER(reserved)},
	{NULL, " is reserved by PyTorch but unallocated", 0},
	{NULL, " is free", NUMBER(free)},
	{NULL, " free", NUMBER(free)},
	{NULL, " allowed", NUMBER(allowed)},
	{"this process has ", " memory in use", NUMBER(in_use)},
	{"anon-rss:", NULL, NUMBER(in_use)},
	{" has ", " memory in use", NUMBER(others)},
#undef NUMBER
};
enum { PHRASES = sizeof phrases / sizeof *phrases };

static const struct {
	const char *name;
	double bytes;
} units[] = {
	{" bytes", 1},
	{" KiB", 1024.0},
	{" MiB", 1048576.0},
	{" GiB", 1073741824.0},
	{" TiB", 1099511627776.0},
	{"KiB", 1024.0},
	{"MiB", 1048576.0},
	{"GiB", 1073741824.0},
	{"kB", 1024.0},
	{" KB", 1e3},
	{" MB", 1e6},
	{" GB", 1e9},
	{"B", 1},
};

/* The bytes of the quantity at `at`, which ends at *end; NAN: it is none. */
static double read_quantity(const char *at, const char **end) {
	const char *after;
	double number = lk_read_real(at, &after);
	for (size_t i = 0; after > at && i < sizeof units / sizeof *units; i++)
		if (lk_begins_with(after, units[i].name)) {
			*end = after + strlen(units[i].name);
			return number * units[i].bytes;
		}
	return NAN;
}

static bool ends_with(const char *message, const char *at, const char *words) {
	size_t size = strlen(words);
	return size <= (size_t)(at - message) && memcmp(at - size, words, size) == 0;
}

struct reading {
	lk_oom_text *out;
	double unallocated;
	double process, processes; /* the largest of those in "Process 123 has ...", and their sum */
};

static void keep_quantity(struct reading *reading, const struct phrase *phrase, double bytes) {
	double *number = (double *)(void *)((char *)reading->out + phrase->number);
	if (!phrase->number) reading->unallocated = bytes;
	else if (phrase->number == offsetof(lk_oom_text, others)) {
		reading->processes += bytes;
		reading->process = fmax(reading->process, bytes);
	} else if (isnan(*number)) *number = bytes;
}

static void read_quantities(struct reading *reading, const char *message) {
	for (const char *at = message, *end; *at; at++) {
		if (!lk_is_digit(*at) || (at > message && (lk_is_digit(at[-1]) || at[-1] == '.'))) continue;
		double bytes = read_quantity(at, &end);
		if (isnan(bytes)) continue;
		for (size_t i = 0; i < PHRASES; i++) {
			const struct phrase *phrase = &phrases[i];
			if (phrase->before && !ends_with(message, at, phrase->before)) continue;
			if (phrase->after && !lk_begins_with(end, phrase->after)) continue;
			keep_quantity(reading, phrase, bytes);
			break;
		}
	}
}

/* What follows from the quantities that a version states. Without "this process", one of the
 * processes may be it, under the number that it has outside of its container: the largest, where
 * that holds what PyTorch reserves. */
static void derive_quantities(struct reading *reading) {
	lk_oom_text *out = reading->out;
	if (isnan(out->reserved)) out->reserved = out->allocated + reading->unallocated;
	if (isnan(out->in_use) && !isnan(out->reserved) && reading->process >= out->reserved) {
		out->in_use = reading->process;
		reading->processes -= reading->process;
	}
	if (reading->processes > 0) out->others = reading->processes;
}

/* "GPU 0", or another device's number. */
static int read_device(const char *message) {
	static const char *const names[] = {"GPU ", "NPU ", "XPU "};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		for (const char *at = message; (at = strstr(at, names[i])); at++) {
			const char *digit = at + strlen(names[i]);
			if (lk_is_digit(*digit)) return atoi(digit);
		}
	return -1;
}

/* ---- messages ---- */

/* Whether the words "out of memory" at `at` are a message, and whose. */
static bool source_at(const char *text, const char *at, const char *end, lk_oom_source *out) {
	static const struct {
		const char *before, *after;
		lk_oom_source source;
	} forms[] = {
		{"", ". Tried to allocate", LK_OOM_ALLOCATOR},  {"", " (MPS allocated", LK_OOM_ALLOCATOR},
		{"RESOURCE_EXHAUSTED: ", "", LK_OOM_ALLOCATOR}, {"error: ", "", LK_OOM_DRIVER},
		{"Cuda failure '", "", LK_OOM_DRIVER},          {"Cuda failure 2 '", "", LK_OOM_DRIVER},
		{"", ": Killed process", LK_OOM_HOST},
	};
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		if (!ends_with(text, at, forms[i].before) ||
		    !starts(at + sizeof needle - 1, end, forms[i].after))
			continue;
		*out = forms[i].source;
		return true;
	}
	return false;
}

static const char *find_needle(const char *at, const char *end) {
	for (; (size_t)(end - at) >= sizeof needle - 1; at++)
		if ((*at == 'o' || *at == 'O') && starts(at, end, needle)) return at;
	return NULL;
}

/* The message from `at` on as one line without doubled blanks and without quotes of mail at the
 * beginnings of lines; up to the next message. */
static void message_copy(const char *at, const char *end, char out[MESSAGE]) {
	const char *next = find_needle(at + 1, end);
	size_t used = 0;
	if (next) end = next;
	for (bool begins = false; at < end && used < MESSAGE - 1; at++) {
		bool blank = *at == ' ' || *at == '\t' || *at == '\r' || *at == '\n' || !*at;
		if (*at == '\n') begins = true;
		else if (!blank && !(begins && *at == '>')) begins = false;
		if (begins) blank = true;
		if (!blank) out[used++] = *at;
		else if (used && out[used - 1] != ' ') out[used++] = ' ';
	}
	out[used] = '\0';
}

bool lk_oom_next(const char *text, size_t size, size_t *at, lk_oom_text *out) {
	const char *end = text + size, *found = text + *at;
	lk_oom_source source;
	while ((found = find_needle(found, end)) && !source_at(text, found, end, &source)) found++;
	if (!found) return false;
	char message[MESSAGE];
	*at = (size_t)(found - text) + sizeof needle - 1;
	*out = (lk_oom_text){source,
	                     lk_line_rank(line_start(text, found), end),
	                     -1,
	                     .requested = NAN,
	                     .total = NAN,
	                     .free = NAN,
	                     .allocated = NAN,
	                     .reserved = NAN,
	                     .private_pools = NAN,
	                     .allowed = NAN,
	                     .in_use = NAN,
	                     .others = NAN};
	message_copy(found, end, message);
	struct reading reading = {out, NAN, 0, 0};
	if (source != LK_OOM_DRIVER) read_quantities(&reading, message);
	if (source == LK_OOM_ALLOCATOR) {
		derive_quantities(&reading);
		out->device = read_device(message);
	}
	return true;
}

bool lk_oom_find(const char *text, size_t size, lk_oom_text *out) {
	lk_oom_text found, first;
	size_t places = 0;
	for (size_t at = 0; lk_oom_next(text, size, &at, &found); places++)
		if (!places) first = found;
	if (!places) return false;
	*out = first;
	out->places = places;
	return true;
}
