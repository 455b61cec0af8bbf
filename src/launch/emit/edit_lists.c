/* edit_lists.c: changes of a list's items, in a block or between brackets; the other items, their
 * order and their comments stay. */
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/emit/rows.h"
#include "model/layout/job.h"

/* Without quotes. */
static const char *list_item(lk_arena *arena, const char *text, const lk_spot *item) {
	bool quoted = item->at < item->end && strchr("\"'", text[item->at]);
	return lk_arena_strndup(arena, text + item->at + quoted, item->end - item->at - 2 * quoted);
}

bool lk_list_has(lk_arena *arena, const char *text, const lk_list_change *list, const char *name,
                 size_t *at) {
	for (*at = 0; *at < list->count; ++*at) {
		const char *item = list_item(arena, text, &list->items[*at]);
		if (item && strcmp(item, name) == 0) return true;
	}
	return false;
}

/* ---- layers that have adapters ---- */

/* Families of names, and the one key that takes no other. */
static const struct {
	const char *key, *names[8];
} layers_of[] = {
	{NULL, {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}},
	{NULL, {"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"}}, /* Megatron-LM */
	{"lora_attn_modules.-", {"q_proj", "k_proj", "v_proj", "output_proj"}} /* torchtune */};
enum { FAMILIES = sizeof layers_of / sizeof *layers_of };

/* How many of a list's items are a family's, by their last parts. */
static size_t list_of_family(lk_arena *arena, const char *text, const lk_list_change *list,
                             const char *const *family) {
	size_t known = 0;
	for (size_t i = 0; i < list->count; i++) {
		const char *item = list_item(arena, text, &list->items[i]);
		size_t length = item ? strlen(item) : 0;
		for (int k = 0; item && family[k]; k++) {
			size_t own = strlen(family[k]);
			bool ends = length >= own && strcmp(item + length - own, family[k]) == 0;
			known += ends && (length == own || strchr(".*", item[length - own - 1]));
		}
	}
	return known;
}

void lk_list_adapters(lk_arena *arena, const char *text, int adapted, lk_list_change *list) {
	int kept = 0, best = 0;
	size_t most = 0;
	for (int i = 0; i < FAMILIES; i++) {
		size_t known = list_of_family(arena, text, list, layers_of[i].names);
		if (layers_of[i].key && !lk_ends_in(list->items[0].name, layers_of[i].key)) continue;
		if (known > most || (known > 0 && layers_of[i].key)) best = i, most = known;
	}
	bool any = false; /* "*q_proj": a pattern */
	for (size_t i = 0; i < list->count; i++) {
		const char *item = list_item(arena, text, &list->items[i]);
		int parts = item ? lk_adapters_find(item) : 0;
		any |= item && *item == '*';
		list->leaves[i] = (parts & LK_ADAPT_LINEAR & ~adapted) != 0;
		if (!list->leaves[i]) kept |= parts;
	}
	for (int i = 0; most > 0 && layers_of[best].names[i]; i++) {
		const char *name = layers_of[best].names[i];
		int parts = lk_adapters_find(name) & LK_ADAPT_LINEAR;
		if ((parts & adapted) != parts || (parts & kept) == parts) continue;
		list->joins[list->join_count++] = any ? lk_arena_printf(arena, "*%s", name) : name;
	}
}

/* ---- changes ---- */

/* The bytes that go with an item that leaves: in a block its line; between brackets the comma, that
 * of the next item as long as none before it stays. */
static void list_extent(const char *text, const lk_list_change *list, size_t i, size_t *from,
                        size_t *to) {
	const lk_spot *item = &list->items[i];
	bool first = true;
	for (size_t k = 0; k < i; k++) first = first && list->leaves[k];
	if (text[item->begin] == '-' && item->begin < item->at) {
		*from = lk_edit_line(text, item->begin);
		*to = item->end + strcspn(text + item->end, "\n");
		*to += text[*to] == '\n';
	} else if (first) *from = item->at, *to = list->items[i + 1].at;
	else *from = list->items[i - 1].end, *to = item->end;
}

lk_status lk_list_edit(lk_arena *arena, const char *text, lk_list_change *list, lk_edits *out,
                       lk_error *err) {
	size_t next = 0, stay = list->join_count;
	const lk_spot *last = &list->items[list->count - 1];
	bool block = text[last->begin] == '-' && last->begin < last->at;
	for (size_t i = 0; i < list->count; i++) stay += !list->leaves[i];
	if (stay == 0) return LK_OK; /* a list of nothing */
	for (size_t i = 0; i < list->count && next < list->join_count; i++) {
		if (!list->leaves[i]) continue;
		list->leaves[i] = false; /* another takes its place */
		LK_TRY(lk_spot_change(arena, text, &list->items[i], list->joins[next++], out, err));
	}
	for (size_t i = 0; i < list->count; i++) {
		size_t from, to;
		if (!list->leaves[i]) continue;
		list_extent(text, list, i, &from, &to);
		LK_TRY(lk_edit_push(out, from, to, "", err));
	}
	for (; next < list->join_count; next++) {
		const char *value = lk_spot_quoted(arena, text, last, list->joins[next]), *put;
		size_t line = lk_edit_line(text, last->begin), at = last->end;
		if (block) at += strcspn(text + at, "\n");
		put = block ? lk_arena_printf(arena, "\n%.*s%s", (int)(last->at - line), text + line, value)
		            : lk_arena_printf(arena, ", %s", value);
		LK_TRY(lk_edit_push(out, at, at, value ? put : NULL, err));
	}
	return LK_OK;
}
