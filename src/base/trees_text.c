/* trees_text.c: trees as one line of text: the numbers of features and of trees, each feature's
 * edges (their number, then their values), then a word per tree: feature and edge of every inner
 * node, one character each, and two characters per leaf, counted from -2048, all in digits of base
 * 64. */
#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "base/trees.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";

enum {
	INNER = LK_TREE_LEAVES - 1,
	WORD = 2 * INNER + 2 * LK_TREE_LEAVES,
	MIDDLE = 2048,
	TREES = 4096
};

static void tree_word(const lk_tree *tree, char word[WORD + 1]) {
	char *at = word;
	for (int i = 0; i < INNER; i++) {
		*at++ = digits[tree->feature[i] & 63];
		*at++ = digits[tree->edge[i] & 63];
	}
	for (int i = 0; i < LK_TREE_LEAVES; i++) {
		int value = tree->leaf[i] + MIDDLE;
		*at++ = digits[value >> 6 & 63];
		*at++ = digits[value & 63];
	}
	*at = '\0';
}

const char *lk_trees_text(lk_arena *arena, const lk_trees *trees) {
	size_t size =
		64 + (size_t)trees->features * (LK_TREE_EDGES + 1) * 16 + (size_t)trees->count * (WORD + 1);
	char *at = LK_ARRAY(arena, char, size);
	if (!at) return NULL;
	lk_text text = lk_text_begin(at, size);
	lk_text_add(&text, "%d %d", trees->features, trees->count);
	for (int f = 0; f < trees->features; f++) {
		lk_text_add(&text, " %d", trees->edges[f]);
		for (int e = 0; e < trees->edges[f]; e++) lk_text_add(&text, " %.5g", trees->edge[f][e]);
	}
	for (int t = 0; t < trees->count; t++) {
		char word[WORD + 1];
		tree_word(&trees->tree[t], word);
		lk_text_add(&text, " %s", word);
	}
	LK_ASSERT(!lk_text_full(&text));
	return at;
}

/* ---- reading ---- */

/* What each character is worth; -1: it is no digit. */
struct digit_values {
	int8_t of[256];
};

static struct digit_values values_of_digits(void) {
	struct digit_values values;
	memset(values.of, -1, sizeof values.of);
	for (int i = 0; digits[i]; i++) values.of[(unsigned char)digits[i]] = (int8_t)i;
	return values;
}

static bool trees_text_read_number(const char **text, double low, double high, double *out) {
	const char *end;
	*out = lk_read_real(*text, &end);
	if (end == *text || !(*out >= low && *out <= high)) return false;
	*text = end + strspn(end, " ");
	return true;
}

static bool trees_text_read_count(const char **text, int high, int *out) {
	double value;
	if (!trees_text_read_number(text, 0, high, &value) || value != floor(value)) return false;
	*out = (int)value;
	return true;
}

static bool read_edges(const char **text, lk_trees *out) {
	for (int f = 0; f < out->features; f++) {
		double value, last = -INFINITY;
		if (!trees_text_read_count(text, LK_TREE_EDGES, &out->edges[f])) return false;
		for (int e = 0; e < out->edges[f]; e++, last = value) {
			if (!trees_text_read_number(text, -1e30, 1e30, &value) || value < last) return false;
			out->edge[f][e] = (float)value;
		}
	}
	return true;
}

static bool trees_text_read_tree(const char **text, const struct digit_values *values, int features,
                                 lk_tree *tree) {
	int value[WORD];
	for (int i = 0; i < WORD; i++)
		if ((value[i] = values->of[(unsigned char)(*text)[i]]) < 0) return false;
	for (int i = 0; i < INNER; i++) {
		if (value[2 * i] >= features) return false;
		tree->feature[i] = (uint8_t)value[2 * i];
		tree->edge[i] = (uint8_t)value[2 * i + 1];
	}
	for (int i = 0; i < LK_TREE_LEAVES; i++) {
		const int *pair = &value[2 * INNER + 2 * i];
		tree->leaf[i] = (int16_t)(pair[0] * 64 + pair[1] - MIDDLE);
	}
	*text += WORD;
	*text += strspn(*text, " ");
	return true;
}

lk_status lk_trees_read(lk_arena *arena, const char *text, const char *where, lk_trees *out,
                        lk_error *err) {
	int count;
	const struct digit_values values = values_of_digits();
	memset(out, 0, sizeof *out);
	bool good = trees_text_read_count(&text, LK_TREE_FEATURES, &out->features) &&
	            trees_text_read_count(&text, TREES, &count) && read_edges(&text, out);
	if (good) {
		out->tree = LK_ARRAY(arena, lk_tree, count);
		if (!out->tree) return lk_oom(err);
		while (good && out->count < count &&
		       (good = trees_text_read_tree(&text, &values, out->features, &out->tree[out->count])))
			out->count++;
	}
	if (good && !*text) return LK_OK;
	out->count = 0;
	lk_fail(err, LK_ERR_INPUT, where, "these are not trees in the form that lockstep writes");
	return lk_hint(err, "`lockstep calibrate ops` writes them");
}
