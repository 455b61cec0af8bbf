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

static lk_status lexer_wrong(const struct lexer *lexer, lk_error *err, const char *what) {
	LK_ASSERT(lexer->line_start <= lexer->at && lexer->at <= lexer->end);
	char where[sizeof err->where];
	lexer->file->mistake.line = lexer->line;
	lexer->file->mistake.column = (int)(lexer->at - lexer->line_start) + 1;
	snprintf(where, sizeof where, "%.200s:%d:%d", lexer->file->path, lexer->line,
	         lexer->file->mistake.column);
	return lk_fail(err, LK_ERR_INPUT, where, "%s", what);
}

static void lexer_skip_blanks(struct lexer *lexer) {
	for (; lexer->at < lexer->end; lexer->at++) {
		if (*lexer->at == '#')
			while (lexer->at < lexer->end && *lexer->at != '\n') lexer->at++;
		if (lexer->at == lexer->end) return;
		if (*lexer->at == '\n') {
			lexer->line++;
			lexer->line_start = lexer->at + 1;
		} else if (*lexer->at != ' ' && *lexer->at != '\t' && *lexer->at != '\r') return;
	}
}

static bool letter(char c) {
	return isalpha((unsigned char)c) || c == '_';
}

static lk_status name(struct lexer *lexer, lc_token *token, lk_error *err) {
	LK_ASSERT(lexer->at < lexer->end && letter(*lexer->at));
	const char *p = lexer->at;
	while (p < lexer->end && (letter(*p) || lk_is_digit(*p))) p++;
	token->kind = LC_NAME_TOKEN;
	token->length = (int)(p - lexer->at);
	if (token->length >= LC_NAME) {
		lexer_wrong(lexer, err, "a name is too long");
		return lk_hint(err, "names have at most %d letters, digits and '_'", LC_NAME - 1);
	}
	lexer->at = p;
	return LK_OK;
}

static lk_status lexer_number(struct lexer *lexer, lc_token *token, lk_error *err) {
	char text[64];
	const char *p = lexer->at, *end;
	LK_ASSERT(p < lexer->end);
	while (p < lexer->end && (letter(*p) || lk_is_digit(*p) || *p == '.' ||
	                          ((*p == '+' || *p == '-') && (p[-1] == 'e' || p[-1] == 'E'))))
		p++;
	token->kind = LC_NUMBER_TOKEN;
	token->length = (int)(p - lexer->at);
	token->whole = true;
	if ((size_t)token->length >= sizeof text)
		return lexer_wrong(lexer, err, "a number is too long");
	memcpy(text, lexer->at, (size_t)token->length);
	text[token->length] = '\0';
	token->number = lk_read_real(text, &end);
	if (*end || !isfinite(token->number)) {
		lexer_wrong(lexer, err, "this is not a number");
		return lk_hint(err, "numbers are written 12, 0.5 or 1e-8; names begin with a letter");
	}
	for (int i = 0; i < token->length; i++) token->whole &= lk_is_digit(text[i]);
	lexer->at = p;
	return LK_OK;
}

/* The replacement for signs from other languages. */
static const char *lexer_foreign(char sign) {
	switch (sign) {
	case '&': return "both of two conditions: select(a, b, a)";
	case '|': return "one of two conditions: select(a, a, b)";
	case '!':
	case '~': return "the opposite of a condition: compare the other way";
	case '\'':
	case '"': return "names and operations are written without quotes";
	default: return "comments begin with #";
	}
}

static lk_status sign(struct lexer *lexer, lc_token *token, lk_error *err) {
	static const struct {
		const char *text;
		lc_token_kind kind;
	} pairs[] = {{"<-", LC_ARROW_LEFT}, {"->", LC_ARROW_RIGHT}, {"<=", LC_AT_MOST},
	             {">=", LC_AT_LEAST},   {"==", LC_EQUAL},       {"!=", LC_UNEQUAL}};
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		if (lexer->end - lexer->at < 2 || memcmp(lexer->at, pairs[i].text, 2) != 0) continue;
		token->kind = (uint8_t)pairs[i].kind;
		token->length = 2;
		lexer->at += 2;
		return LK_OK;
	}
	if (*lexer->at == '\0' || !strchr("(){}[],;:=@+-*/^<>", *lexer->at)) {
		lexer_wrong(lexer, err, "unexpected character");
		return lk_hint(err, "%s", lexer_foreign(*lexer->at));
	}
	token->kind = LC_SIGN;
	token->sign = *lexer->at++;
	token->length = 1;
	return LK_OK;
}

lk_status lc_lex(lc_file *file, const char *text, size_t size, lc_tokens *out, lk_error *err) {
	struct lexer l = {file, text, text + size, text, 1};
	for (;;) {
		lexer_skip_blanks(&l);
		if (!lk_push(out)) return lk_oom(err);
		lc_token *token = lk_last(out);
		*token = (lc_token){.text = l.at, .line = l.line, .column = (int)(l.at - l.line_start) + 1};
		if (l.at == l.end) return LK_OK;
		if (letter(*l.at)) LK_TRY(name(&l, token, err));
		else if (lk_is_digit(*l.at) || *l.at == '.') LK_TRY(lexer_number(&l, token, err));
		else LK_TRY(sign(&l, token, err));
	}
}
