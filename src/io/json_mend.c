/* json_mend.c: text that is nearly JSON, made JSON, in one pass and in place. */
#include "base/check.h"
#include "io/json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { WHOLE_DEPTH = 2 }; /* elements of the document's lists are kept or dropped as a whole */

struct mender {
	char *text;
	size_t size, at;
	char open[LK_JSON_DEPTH]; /* the expected closing brackets */
	size_t depth;
	size_t good, good_depth; /* after the last complete element */
	size_t comma;            /* 1 + place of a comma followed only by blanks; 0: none */
	lk_json_mended *found;
};

static bool mend_blank(char c) {
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Whether a quote at `at` ends a text: what follows can follow a text. */
static bool ends_text(const struct mender *mender, size_t at) {
	for (at++; at < mender->size && mend_blank(mender->text[at]);) at++;
	return at >= mender->size || (mender->text[at] && strchr(",]}:", mender->text[at]));
}

static void mend_escape(struct mender *mender) {
	const char *next = mender->text + mender->at + 1;
	bool good = mender->at + 1 < mender->size && *next && strchr("\"\\/bfnrtu", *next);
	if (good && *next == 'u')
		for (int i = 1; i <= 4; i++)
			good &= mender->at + 1 + (size_t)i < mender->size && isxdigit((unsigned char)next[i]);
	if (good) mender->at++;
	else {
		mender->text[mender->at] = '/';
		mender->found->escapes++;
	}
}

/* A text from its opening quote on; false if it does not end. Python's may be in single quotes. */
static bool mend_text(struct mender *mender) {
	char quote = mender->text[mender->at];
	if (quote == '\'') {
		mender->text[mender->at] = '"';
		mender->found->words++;
	}
	for (mender->at++; mender->at < mender->size; mender->at++) {
		char *c = &mender->text[mender->at];
		if (*c == '\\') mend_escape(mender);
		else if (*c == quote && (quote == '\'' || ends_text(mender, mender->at))) {
			*c = '"';
			mender->at++;
			return true;
		} else if (*c == '"') {
			*c = '\'';
			mender->found->quotes += quote == '"';
		} else if ((unsigned char)*c < 0x20) {
			*c = ' ';
			mender->found->controls++;
		}
	}
	return false;
}

static void mend_word(struct mender *mender) {
	static const struct {
		const char *word, *instead;
	} words[] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
	             {"nan", "NaN"},   {"inf", "NaN"},     {"NAN", "NaN"}};
	size_t begin = mender->at;
	while (mender->at < mender->size && isalpha((unsigned char)mender->text[mender->at]))
		mender->at++;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		size_t length = strlen(words[i].word);
		if (length != mender->at - begin ||
		    memcmp(mender->text + begin, words[i].word, length) != 0)
			continue;
		LK_ASSERT(strlen(words[i].instead) == length);
		/* "false" is as long as "False": every replacement has its word's length */
		memcpy(mender->text + begin, words[i].instead, length);
		bool number = words[i].instead[0] == 'N';
		if (number && begin && mender->text[begin - 1] == '-') mender->text[begin - 1] = ' ';
		mender->found->numbers += number;
		mender->found->words += !number;
	}
}

static bool open_bracket(struct mender *mender, char c) {
	if (mender->depth == LK_JSON_DEPTH) return false;
	mender->open[mender->depth++] = c == '{' ? '}' : ']';
	return true;
}

static bool close_bracket(struct mender *mender, char c) {
	if (!mender->depth || mender->open[mender->depth - 1] != c) return false;
	if (mender->comma) {
		mender->text[mender->comma - 1] = ' ';
		mender->found->commas++;
	}
	mender->depth--;
	if (mender->depth <= WHOLE_DEPTH) {
		mender->good = mender->at + 1;
		mender->good_depth = mender->depth;
	}
	return true;
}

/* One bracket, comma, text or word; false where mending must end. */
static bool mend_one(struct mender *mender) {
	char c = mender->text[mender->at];
	if (c == '"' || c == '\'') {
		mender->comma = 0;
		return mend_text(mender);
	}
	if (mend_blank(c)) return mender->at++, true;
	bool good = true;
	if (c == '{' || c == '[') good = open_bracket(mender, c);
	else if (c == '}' || c == ']') good = close_bracket(mender, c);
	else if (isalpha((unsigned char)c)) return mender->comma = 0, mend_word(mender), true;
	mender->comma = c == ',' ? mender->at + 1 : 0;
	mender->at++;
	return good;
}

/* Cuts after the last complete element and closes what is open there. */
static lk_status mend_close_all(struct mender *mender, char **text, size_t *size, lk_error *err) {
	LK_ASSERT(mender->good <= mender->size && mender->good_depth <= WHOLE_DEPTH);
	char *longer = realloc(*text, mender->good + mender->good_depth + 1);
	if (!longer) return lk_oom(err);
	mender->found->cut = mender->size - mender->good;
	mender->found->closed = true;
	*text = longer;
	*size = mender->good;
	while (mender->good_depth) longer[(*size)++] = mender->open[--mender->good_depth];
	longer[*size] = '\0';
	return LK_OK;
}

lk_status lk_json_mend(char **text, size_t *size, lk_json_mended *mended, lk_error *err) {
	struct mender m = {.text = *text, .size = *size, .found = mended};
	*mended = (lk_json_mended){0};
	while (m.at < m.size && mend_one(&m)) continue;
	bool ended_early = m.at >= m.size && (m.depth > 0);
	return ended_early && m.good ? mend_close_all(&m, text, size, err) : LK_OK;
}
