/* number_words.c: reads a list of words NAME=NUMBER with a unit, a quantity in any of its units. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "options/number_words.h"

lk_status lk_number_words_refuse(const lk_word_list *list, const char *word, const char *what,
                                 lk_error *err) {
	char shown[64];
	lk_fail(err, LK_ERR_INPUT, list->option, "'%s' %s", lk_escape(word, shown, sizeof shown), what);
	return lk_hint(err, "%s", list->form);
}

/* ---- units ---- */

enum quantity {
	COUNT,
	BYTES, /* with "/s" after it a rate */
	TIME,
	LINK, /* Gbit/s */
	SHARE
};

static const struct unit {
	const char *name;
	enum quantity quantity;
	double size;
} units[] = {
	{"", COUNT, 1},         {"k", COUNT, 1e3},      {"K", COUNT, 1e3},      {"M", COUNT, 1e6},
	{"G", COUNT, 1e9},      {"B", COUNT, 1e9},      {"T", COUNT, 1e12},     {"Ki", COUNT, 0x1p10},
	{"Mi", COUNT, 0x1p20},  {"Gi", COUNT, 0x1p30},  {"B", BYTES, 1},        {"k", BYTES, 1e3},
	{"K", BYTES, 1e3},      {"kB", BYTES, 1e3},     {"KB", BYTES, 1e3},     {"M", BYTES, 1e6},
	{"MB", BYTES, 1e6},     {"G", BYTES, 1e9},      {"GB", BYTES, 1e9},     {"T", BYTES, 1e12},
	{"TB", BYTES, 1e12},    {"Ki", BYTES, 0x1p10},  {"KiB", BYTES, 0x1p10}, {"Mi", BYTES, 0x1p20},
	{"MiB", BYTES, 0x1p20}, {"Gi", BYTES, 0x1p30},  {"GiB", BYTES, 0x1p30}, {"Ti", BYTES, 0x1p40},
	{"TiB", BYTES, 0x1p40}, {"ns", TIME, 1e-9},     {"us", TIME, 1e-6},     {"ms", TIME, 1e-3},
	{"s", TIME, 1},         {"min", TIME, 60},      {"h", TIME, 3600},      {"d", TIME, 86400},
	{"g", LINK, 1},         {"G", LINK, 1},         {"Gbit/s", LINK, 1},    {"m", LINK, 1e-3},
	{"M", LINK, 1e-3},      {"Mbit/s", LINK, 1e-3}, {"t", LINK, 1e3},       {"T", LINK, 1e3},
	{"Tbit/s", LINK, 1e3},  {"%", SHARE, 1},
};

/* Returns the quantity that a word's own unit measures, without its "/s". */
static enum quantity quantity_of(const char *unit) {
	if (!*unit) return COUNT;
	if (strcmp(unit, "%") == 0) return SHARE;
	if (strcmp(unit, "g") == 0) return LINK;
	return strchr(unit, 'B') ? BYTES : TIME;
}

/* Returns the size of a unit, given as `length` characters; 0: the quantity has no such unit. */
static double unit_size(enum quantity quantity, const char *text, size_t length) {
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (units[i].quantity == quantity && strlen(units[i].name) == length &&
		    strncmp(units[i].name, text, length) == 0)
			return units[i].size;
	return 0;
}

/* Converts the unit written after a number into the word's own unit; 0: unknown unit. */
static double unit_in_own(const char *own, const char *written) {
	size_t length = strlen(own), said = strlen(written);
	enum quantity quantity = quantity_of(own);
	bool rate = quantity == BYTES && length > 2 && strcmp(own + length - 2, "/s") == 0;
	if (strcmp(own, written) == 0) return 1;
	if (rate) {
		if (said < 2 || strcmp(written + said - 2, "/s") != 0) return 0;
		length -= 2;
		said -= 2;
	}
	return unit_size(quantity, written, said) / unit_size(quantity, own, length);
}

static lk_status number_words_read_one(const lk_word_list *list, const char *said, void *out,
                                       uint64_t *given, lk_error *err) {
	const char *value = strchr(said, '='), *end;
	for (int i = 0; value && i < list->count; i++) {
		const lk_number_word *word = &list->words[i];
		size_t length = (size_t)(value - said);
		if (strlen(word->name) != length || strncmp(said, word->name, length) != 0) continue;
		double number = lk_read_real(value + 1, &end), each = unit_in_own(word->unit, end);
		if (end == value + 1 || each == 0)
			return lk_number_words_refuse(list, said, "is not understood", err);
		number *= each;
		if (number < word->low || number > word->high || (word->whole && number != floor(number)))
			return lk_number_words_refuse(list, said, "is outside of its limits", err);
		if (*given >> i & 1) return lk_number_words_refuse(list, said, "is a second value", err);
		*given |= UINT64_C(1) << i;
		number *= word->scale;
		memcpy((char *)out + word->offset, &number, sizeof number);
		return LK_OK;
	}
	return lk_number_words_refuse(list, said, "is not understood", err);
}

lk_status lk_number_words_read(const lk_word_list *list, const char *text, void *out,
                               const char **over, lk_error *err) {
	char word[64];
	uint64_t given = 0; /* one bit per word of the list */
	LK_ASSERT(list->count <= 64);
	*over = NULL;
	while (*(text += strspn(text, " ,"))) {
		size_t length = strcspn(text, " ,");
		if (length == 4 && strncmp(text, "over", 4) == 0) {
			*over = text + length;
			return LK_OK;
		}
		if (length >= sizeof word)
			return lk_number_words_refuse(list, text, "is not understood", err);
		lk_copy(word, length + 1, text);
		text += length;
		LK_TRY(number_words_read_one(list, word, out, &given, err));
	}
	return LK_OK;
}
