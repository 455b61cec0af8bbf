/* json_mend.c: text that is nearly JSON, made JSON, in one pass and in place. */
#include "io/json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { WHOLE_DEPTH = 2 }; /* elements of a list of the document are kept or dropped as a whole */

struct mender {
	char *text;
	size_t size, at;
	char open[LK_JSON_DEPTH]; /* the closing brackets that are due */
	size_t depth;
	size_t good, good_depth;  /* behind the last complete element */
	size_t comma;             /* 1 + place of a comma with nothing but blanks behind it; 0 none */
	lk_json_mended *found;
};

static bool blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* Whether a quote at `at` ends a text: what follows can follow a text. */
static bool ends_text(const struct mender *m, size_t at) {
	for (at++; at < m->size && blank(m->text[at]);) at++;
	return at >= m->size || (m->text[at] && strchr(",]}:", m->text[at]));
}

static void mend_escape(struct mender *m) {
	const char *next = m->text + m->at + 1;
	bool good = m->at + 1 < m->size && *next && strchr("\"\\/bfnrtu", *next);
	if (good && *next == 'u')
		for (int i = 1; i <= 4; i++) good &= m->at + 1 + (size_t)i < m->size && isxdigit((unsigned char)next[i]);
	if (good) m->at++;
	else m->text[m->at] = '/', m->found->escapes++;
}

/* A text from its opening quote on; false if it does not end. Python's may be in single quotes. */
static bool mend_text(struct mender *m) {
	char quote = m->text[m->at];
	if (quote == '\'') m->text[m->at] = '"', m->found->words++;
	for (m->at++; m->at < m->size; m->at++) {
		char *c = &m->text[m->at];
		if (*c == '\\') mend_escape(m);
		else if (*c == quote && (quote == '\'' || ends_text(m, m->at))) {
			*c = '"';
			m->at++;
			return true;
		} else if (*c == '"') *c = '\'', m->found->quotes += quote == '"';
		else if ((unsigned char)*c < 0x20) *c = ' ', m->found->controls++;
	}
	return false;
}

static void mend_word(struct mender *m) {
	static const struct {
		const char *word, *instead;
	} words[] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
				 {"nan", "NaN"},   {"inf", "NaN"},     {"NAN", "NaN"}};
	size_t begin = m->at;
	while (m->at < m->size && isalpha((unsigned char)m->text[m->at])) m->at++;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		size_t length = strlen(words[i].word);
		if (length != m->at - begin || memcmp(m->text + begin, words[i].word, length) != 0) continue;
		/* "false" is as long as "False": every replacement has its word's length */
		memcpy(m->text + begin, words[i].instead, length);
		bool number = words[i].instead[0] == 'N';
		if (number && begin && m->text[begin - 1] == '-') m->text[begin - 1] = ' ';
		m->found->numbers += number;
		m->found->words += !number;
	}
}

static bool open_bracket(struct mender *m, char c) {
	if (m->depth == LK_JSON_DEPTH) return false;
	m->open[m->depth++] = c == '{' ? '}' : ']';
	return true;
}

static bool close_bracket(struct mender *m, char c) {
	if (!m->depth || m->open[m->depth - 1] != c) return false;
	if (m->comma) m->text[m->comma - 1] = ' ', m->found->commas++;
	m->depth--;
	if (m->depth <= WHOLE_DEPTH) m->good = m->at + 1, m->good_depth = m->depth;
	return true;
}

/* One bracket, comma, text or word; false where mending must end. */
static bool mend_one(struct mender *m) {
	char c = m->text[m->at];
	if (c == '"' || c == '\'') {
		m->comma = 0;
		return mend_text(m);
	}
	if (blank(c)) return m->at++, true;
	bool good = true;
	if (c == '{' || c == '[') good = open_bracket(m, c);
	else if (c == '}' || c == ']') good = close_bracket(m, c);
	else if (isalpha((unsigned char)c)) return m->comma = 0, mend_word(m), true;
	m->comma = c == ',' ? m->at + 1 : 0;
	m->at++;
	return good;
}

/* Cuts behind the last complete element and closes what is open there. */
static lk_status close_all(struct mender *m, char **text, size_t *size, lk_error *err) {
	char *longer = realloc(*text, m->good + m->good_depth + 1);
	if (!longer) return lk_oom(err);
	m->found->cut = m->size - m->good;
	m->found->closed = true;
	*text = longer;
	*size = m->good;
	while (m->good_depth) longer[(*size)++] = m->open[--m->good_depth];
	longer[*size] = '\0';
	return LK_OK;
}

lk_status lk_json_mend(char **text, size_t *size, lk_json_mended *mended, lk_error *err) {
	struct mender m = {.text = *text, .size = *size, .found = mended};
	*mended = (lk_json_mended){0};
	while (m.at < m.size && mend_one(&m)) continue;
	bool ended_early = m.at >= m.size && (m.depth > 0);
	return ended_early && m.good ? close_all(&m, text, size, err) : LK_OK;
}
