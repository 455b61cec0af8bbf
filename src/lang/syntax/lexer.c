/* lexer.c: the text as tokens. Blanks and line ends separate, # begins a comment. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "lang/syntax/lexer.h"

struct lexer {
	lc_file *file;
	const char *at, *end, *line_start;
	int line;
};

static lk_status wrong(const struct lexer *l, lk_error *err, const char *what) {
	char where[sizeof err->where];
	l->file->mistake.line = l->line, l->file->mistake.column = (int)(l->at - l->line_start) + 1;
	snprintf(where, sizeof where, "%.200s:%d:%d", l->file->path, l->line, l->file->mistake.column);
	return lk_fail(err, LK_ERR_INPUT, where, "%s", what);
}

static void skip_blanks(struct lexer *l) {
	for (; l->at < l->end; l->at++) {
		if (*l->at == '#')
			while (l->at < l->end && *l->at != '\n') l->at++;
		if (l->at == l->end) return;
		if (*l->at == '\n') l->line++, l->line_start = l->at + 1;
		else if (*l->at != ' ' && *l->at != '\t' && *l->at != '\r') return;
	}
}

static bool letter(char c) { return isalpha((unsigned char)c) || c == '_'; }
static bool digit(char c) { return c >= '0' && c <= '9'; }

static lk_status name(struct lexer *l, lc_token *t, lk_error *err) {
	const char *p = l->at;
	while (p < l->end && (letter(*p) || digit(*p))) p++;
	t->kind = LC_NAME_TOKEN, t->length = (int)(p - l->at);
	if (t->length >= LC_NAME) {
		wrong(l, err, "a name is too long");
		return lk_hint(err, "names have at most %d letters, digits and '_'", LC_NAME - 1);
	}
	l->at = p;
	return LK_OK;
}

static lk_status number(struct lexer *l, lc_token *t, lk_error *err) {
	char text[64];
	const char *p = l->at, *end;
	while (p < l->end &&
		   (letter(*p) || digit(*p) || *p == '.' || ((*p == '+' || *p == '-') && (p[-1] == 'e' || p[-1] == 'E'))))
		p++;
	t->kind = LC_NUMBER_TOKEN, t->length = (int)(p - l->at), t->whole = true;
	if ((size_t)t->length >= sizeof text) return wrong(l, err, "a number is too long");
	memcpy(text, l->at, (size_t)t->length);
	text[t->length] = '\0';
	t->number = lk_read_real(text, &end);
	if (*end || !isfinite(t->number)) {
		wrong(l, err, "this is no number");
		return lk_hint(err, "numbers are written 12, 0.5 or 1e-8; names begin with a letter");
	}
	for (int i = 0; i < t->length; i++) t->whole &= digit(text[i]);
	l->at = p;
	return LK_OK;
}

static lk_status sign(struct lexer *l, lc_token *t, lk_error *err) {
	static const struct {
		const char *text;
		lc_token_kind kind;
	} pairs[] = {{"<-", LC_ARROW_LEFT}, {"->", LC_ARROW_RIGHT}, {"<=", LC_AT_MOST},
				 {">=", LC_AT_LEAST},   {"==", LC_EQUAL},       {"!=", LC_UNEQUAL}};
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		if (l->end - l->at < 2 || memcmp(l->at, pairs[i].text, 2) != 0) continue;
		t->kind = (uint8_t)pairs[i].kind, t->length = 2;
		l->at += 2;
		return LK_OK;
	}
	if (*l->at == '\0' || !strchr("(){}[],;:=@+-*/^<>", *l->at)) {
		wrong(l, err, "this sign has no meaning here");
		return lk_hint(err, "comments begin with #");
	}
	t->kind = LC_SIGN, t->sign = *l->at++, t->length = 1;
	return LK_OK;
}

lk_status lc_lex(lc_file *file, const char *text, size_t size, lc_tokens *out, lk_error *err) {
	struct lexer l = {file, text, text + size, text, 1};
	for (;;) {
		skip_blanks(&l);
		if (!lk_push(out)) return lk_oom(err);
		lc_token *t = lk_last(out);
		*t = (lc_token){.text = l.at, .line = l.line, .column = (int)(l.at - l.line_start) + 1};
		if (l.at == l.end) return LK_OK;
		if (letter(*l.at)) LK_TRY(name(&l, t, err));
		else if (digit(*l.at) || *l.at == '.') LK_TRY(number(&l, t, err));
		else LK_TRY(sign(&l, t, err));
	}
}
