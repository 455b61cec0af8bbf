/* measured_lines.c: the numbers of one line of a log: rows of data/measured/ looked for in it. A
 * row begins with letters that stand as they are, its anchor; the line's pairs of letters say
 * which anchors it cannot have. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "measured/measured_internal.h"

enum { LINE = 1 << 15, LINE_HITS = 96 };

static bool is_word(char c) {
	return (lk_lower(c) >= 'a' && lk_lower(c) <= 'z') || lk_is_digit(c) || c == '_';
}

/* ---- patterns ---- */

static const char *skip_run(const char *at) {
	return at + strspn(at, " \t.");
}

/* Match the rest of a pattern at `at`. The value is that of '#'. */
static bool pattern_matches(const lk_measured_key *key, const char *pattern, const char *at,
                            double *value) {
	const char *end;
	for (; *pattern; pattern++) {
		switch (*pattern) {
		case '#':
			*value = lk_key_value(key, at, &end);
			if (end == at) return false;
			at = end;
			break;
		case '?':
			lk_read_number(at, &end);
			if (end == at) return false;
			at = end;
			break;
		case ' ': at = skip_run(at); break;
		case '\'':
			if (*at != '\'' && *at != '"') return false;
			at++;
			break;
		default:
			if (*at++ != *pattern) return false;
		}
	}
	return true;
}

/* What follows a name: NAME: 1, NAME=1, 'NAME': '1', NAME:np.float64(1), NAME{labels} 1. */
static bool name_matches(const lk_measured_key *key, const char *at, double *value) {
	const char *end;
	if (*at == '\'' || *at == '"') at++;
	at += strspn(at, " ");
	if (*at == '{') at += strcspn(at, "}");
	else if (*at != ':' && *at != '=') return false;
	at += *at != '\0';
	at += strspn(at, " ");
	if (lk_begins_with(at, "np.") || lk_begins_with(at, "tensor(")) at += strcspn(at, "(") + 1;
	if (*at == '\'' || *at == '"') at++;
	*value = lk_key_value(key, at, &end);
	return end > at;
}

/* The number before `at`, passed over backwards; NULL: there is none. */
static const char *number_before(const char *line, const char *at) {
	while (at > line && at[-1] == ' ') at--;
	const char *end = at;
	while (at > line && strchr("0123456789.,+-eE", at[-1])) at--;
	while (at < end && !lk_is_digit(*at)) at++;
	return at < end ? at : NULL;
}

/* The letters of a key that stand for themselves. */
static const char *anchor_of(const char *key, size_t *length) {
	bool pattern = strpbrk(key, "#?") != NULL;
	key += strspn(key, pattern ? "#? '" : "");
	*length = pattern ? strcspn(key, "#? '") : strlen(key);
	return key;
}

static bool begins_a_word(const char *line, const char *at, bool pattern) {
	if (at == line || !is_word(*at)) return true;
	return !is_word(at[-1]) && (pattern || !strchr("/-.", at[-1]));
}

/* Whether what is before the anchor is what the pattern has there. */
static bool prefix_matches(const char *key, const char *line, const char *at) {
	if (*key == ' ') return at == line || strchr(" \t|", at[-1]);
	return *key != '\'' || (at > line && strchr("'\"", at[-1]));
}

/* Find a row in a line. */
static bool key_in_line(const lk_measured_key *key, const char *line, double *value) {
	size_t length;
	const char *anchor = anchor_of(key->key, &length);
	bool pattern = strpbrk(key->key, "#?") != NULL, numbered = strchr("#?", key->key[0]);
	const char *end = line + strlen(line);
	for (const char *at = line; (at = memmem(at, (size_t)(end - at), anchor, length)); at++) {
		const char *begin = numbered ? number_before(line, at) : at;
		if (!begin || (!numbered && !begins_a_word(line, at, pattern))) continue;
		if (!prefix_matches(key->key, line, at)) continue;
		if (!pattern && name_matches(key, at + length, value)) return true;
		if (pattern && pattern_matches(key, numbered ? key->key : anchor, begin, value))
			return true;
	}
	return false;
}

/* ---- which rows a line may have ---- */

typedef struct line_pairs {
	uint64_t set[64];
} line_pairs;

static unsigned pair_at(const char *at) {
	return ((unsigned char)at[0] * 31u + (unsigned char)at[1]) % 4096;
}

static void pairs_of_line(line_pairs *pairs, const char *line) {
	memset(pairs, 0, sizeof *pairs);
	for (const char *at = line; *at && at[1]; at++)
		pairs->set[pair_at(at) / 64] |= UINT64_C(1) << pair_at(at) % 64;
}

static bool line_may_have(const line_pairs *pairs, const char *anchor, size_t length) {
	for (size_t i = 0; i + 1 < length; i++)
		if (!(pairs->set[pair_at(anchor + i) / 64] >> pair_at(anchor + i) % 64 & 1)) return false;
	return true;
}

/* ---- lines ---- */

/* Copy a line without quotes of mails, escapes of terminals and control characters. */
static void plain_line(const char *line, size_t length, char out[LINE]) {
	size_t at = 0, used = 0;
	while (at < length && (line[at] == '>' || line[at] == ' ')) at++;
	for (; at < length && used + 1 < LINE; at++) {
		if (line[at] == '\033' && at + 1 < length && line[at + 1] == '[') {
			for (at += 2; at < length && (line[at] < '@' || line[at] > '~');) at++;
		} else {
			out[used++] = (unsigned char)line[at] < ' ' ? ' ' : line[at];
		}
	}
	out[used] = '\0';
}

/* The number of a step, which epochs may count from 1 again: then it is far below what was reached.
 * Ranks are never so far apart. */
static void take_step(lk_hits *hits, uint32_t table, double step) {
	enum { FAR = 8 };
	if (hits->tables[table].most >= FAR && 2 * step < hits->tables[table].most) {
		hits->tables[table].rounds += hits->tables[table].most;
		hits->tables[table].most = 0;
	}
	if (step > hits->tables[table].most) hits->tables[table].most = step;
	hits->tables[table].step = hits->tables[table].rounds + step;
}

static void line_of_table(lk_hits *hits, uint32_t table, const char *line,
                          const line_pairs *pairs) {
	struct {
		const lk_measured_key *key;
		double value;
	} found[LINE_HITS];
	size_t count = 0;
	bool numbered = false;
	for (const lk_measured_key *key = hits->tables[table].keys; key->key; key++) {
		size_t length;
		const char *anchor = anchor_of(key->key, &length);
		double value = NAN;
		if (*key->key == '|' && key->key[1] != ' ') continue; /* a bar's unit */
		if (!line_may_have(pairs, anchor, length) || !key_in_line(key, line, &value)) continue;
		if (key->gauge == LK_GAUGE_STEP && !numbered) {
			take_step(hits, table, value);
			numbered = true;
		}
		if (count < LINE_HITS) {
			found[count].key = key;
			found[count++].value = value;
		}
	}
	for (size_t i = 0; i < count; i++)
		lk_hits_add(hits, table, found[i].key, hits->tables[table].step, found[i].value);
}

void lk_hits_line(lk_hits *hits, const char *line, size_t length) {
	char plain[LINE];
	line_pairs pairs;
	plain_line(line, length, plain);
	if (!*plain) return;
	hits->stamp = lk_read_stamp(plain);
	pairs_of_line(&pairs, plain);
	for (uint32_t table = 0; table < hits->table_count; table++)
		line_of_table(hits, table, plain, &pairs);
	lk_hits_bar(hits, plain);
	lk_hits_devices(hits, plain);
}
