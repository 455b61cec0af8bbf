/* lexer.h: the text as tokens, and what the parts of the parser share. */
#ifndef LK_LANG_LEXER_H
#define LK_LANG_LEXER_H

#include "base/check.h"
#include "lang/types/program.h"

typedef enum lc_token_kind {
	LC_END,
	LC_NAME_TOKEN,
	LC_NUMBER_TOKEN,
	LC_SIGN, /* one of ( ) { } [ ] , ; : = @ + - * / ^ < > */
	LC_ARROW_LEFT,
	LC_ARROW_RIGHT,
	LC_AT_MOST,
	LC_AT_LEAST,
	LC_EQUAL,
	LC_UNEQUAL, /* <- -> <= >= == != */
} lc_token_kind;

typedef struct lc_token {
	uint8_t kind;
	char sign;
	bool whole;       /* a number without point and exponent */
	const char *text; /* in the source; names are at most LC_NAME - 1 bytes */
	int length;
	int line, column; /* from 1, in bytes */
	double number;
} lc_token;

typedef LK_VEC(lc_token) lc_tokens;

/* The tokens end with one LC_END. */
lk_status lc_lex(lc_file *file, const char *text, size_t size, lc_tokens *out, lk_error *err);

enum { LC_DEPTH = 100, LC_LOOPS = 4 }; /* of nested expressions; of nested loops */

typedef struct lc_loop {
	const char *name;
	int64_t value; /* in this iteration */
} lc_loop;

typedef struct lc_parser {
	lc_file *file;
	lc_tokens tokens;
	size_t at;
	lc_program *p; /* the current one */
	int depth;
	int64_t work; /* values that schedules have traversed */
	lc_loop loops[LC_LOOPS];
	int loop_count, turns;
	int condition, conditions; /* 1 + the value on which updates depend, or 0; how many deep */
	const char *sizes;         /* replaces fixed sizes of axes in the text, or NULL */
} lc_parser;

/* ---- parse.c ---- */
static inline const lc_token *lc_peek(const lc_parser *parser) {
	LK_ASSERT(parser->at < parser->tokens.count);
	return &parser->tokens.at[parser->at];
}
bool lc_sees(const lc_parser *parser, char sign);
bool lc_sees_word(const lc_parser *parser, const char *word);
bool lc_take(lc_parser *parser, char sign); /* consumes the sign if it is next */
bool lc_take_word(lc_parser *parser, const char *word);
/* An error at a token: what was found instead of `wanted`. */
lk_status lc_unexpected(lc_parser *parser, const char *wanted, lk_error *err);
lk_status lc_expect(lc_parser *parser, char sign, const char *after, lk_error *err);
/* Read any name, kept by the arena; LC_NAME_TOKEN. */
lk_status lc_word_next(lc_parser *parser, const char *what, const char **out, lk_error *err);
lk_status lc_integer(lc_parser *parser, const char *what, int64_t low, int64_t high, int64_t *out,
                     lk_error *err);
lk_status lc_at(lc_parser *parser, const lc_token *token, lk_error *err, const char *fmt, ...)
	LK_PRINTF(4, 5);
/* The index of a token's text in names, or -1. */
int lc_choice(const lc_token *token, const char *const *names, int count);
/* Add "do you mean X" from names to the error, or `otherwise`. */
lk_status lc_suggest(lk_error *err, const char *text, const char *const *names, size_t count,
                     const char *otherwise);
/* Read a size: sums and products. */
lk_status lc_size(lc_parser *parser, lc_dim *out, lk_error *err);
lk_status lc_axis_next(lc_parser *parser, int *axis, lk_error *err);
lk_status lc_group_next(lc_parser *parser, int axis, lc_group *out, lk_error *err); /* "k+1" */
lk_status lc_dtype_next(lc_parser *parser, lc_dtype *out, lk_error *err);

/* ---- parse_loop.c ---- */
typedef lk_status lc_item(lc_parser *s, void *context,
                          lk_error *err); /* a statement, a directive */
/* Read a loop, after the word for. */
lk_status lc_loop_next(lc_parser *parser, lc_item *item, void *context, lk_error *err);
/* Read a size that must be a known number. */
lk_status lc_known(lc_parser *parser, int64_t *out, lk_error *err);
const lc_loop *lc_loop_find(const lc_parser *parser,
                            const lc_token *token); /* NULL: not a loop's variable */
lk_status lc_indexed(lc_parser *parser, const char *what, const char **out,
                     lk_error *err); /* a name: k, k[i-1] */
const lc_token *lc_behind_name(const lc_parser *parser);

/* ---- parse_expression.c ---- */
lk_status lc_expression(lc_parser *parser, int *id, lk_error *err);

bool lc_is_call(const lc_token *token);

/* ---- parse_schedule.c ---- */
lk_status lc_schedule_next(lc_parser *parser, lk_error *err); /* after the word schedule */

#endif
