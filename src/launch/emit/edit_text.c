/* edit_text.c: changes made to a text, and shown as a unified diff. */
#include <string.h>

#include "base/arena.h"
#include "base/sort.h"
#include "launch/emit/rows.h"

enum { CONTEXT = 3 }; /* lines around a change */

/* Changes in the order of the text, without those that overlap an earlier one. */
typedef struct edit_list {
	lk_edit *at;
	size_t count;
} edit_list;

LK_ORDER_BY(edits_by_place, lk_edit, at, end)

static bool edit_sort(lk_arena *arena, const lk_edit *edits, size_t count, edit_list *out) {
	lk_edit *sorted = LK_ARRAY(arena, lk_edit, count + 1);
	size_t kept = 0;
	if (!sorted) return false;
	for (size_t i = 0; i < count; i++)
		if (edits[i].made) sorted[kept++] = edits[i];
	lk_sort(sorted, kept, sizeof *sorted, edits_by_place);
	*out = (edit_list){sorted, 0};
	for (size_t i = 0; i < kept; i++)
		if (out->count == 0 || sorted[i].at >= sorted[out->count - 1].end)
			sorted[out->count++] = sorted[i];
	return true;
}

/* The bytes of `text` from `from` to `to` with the changes that begin there. */
static const char *edit_span(lk_arena *arena, const char *text, size_t from, size_t to,
                             const edit_list *list) {
	lk_page page = {arena, ""};
	for (size_t i = 0; i < list->count; i++) {
		const lk_edit *edit = &list->at[i];
		if (edit->at < from || edit->end > to) continue;
		lk_page_add(&page, "%.*s%s", (int)(edit->at - from), text + from, edit->with);
		from = edit->end;
	}
	lk_page_add(&page, "%.*s", (int)(to - from), text + from);
	return page.text;
}

const char *lk_edited(lk_arena *arena, const char *text, const lk_edit *edits, size_t count) {
	edit_list list;
	return edit_sort(arena, edits, count, &list) ? edit_span(arena, text, 0, strlen(text), &list)
	                                             : NULL;
}

/* ---- the diff ---- */

/* Lines of the text, from..to, that become `with`. */
struct edit_block {
	size_t from, to;
	const char *with;
	size_t with_length;
};

size_t lk_edit_line(const char *text, size_t at) {
	while (at > 0 && text[at - 1] != '\n') at--;
	return at;
}

static size_t edit_line_end(const char *text, size_t at) {
	at += strcspn(text + at, "\n");
	return at + (text[at] == '\n');
}

static int edit_lines(const char *text, size_t length) {
	int count = 0;
	for (size_t i = 0; i < length; i++) count += text[i] == '\n' || i + 1 == length;
	return count;
}

/* Leave out lines at both ends that stay as they are. */
static void edit_trim(const char *text, struct edit_block *block) {
	while (block->from < block->to && block->with_length > 0) {
		size_t length = edit_line_end(text, block->from) - block->from;
		if (length > block->with_length || memcmp(text + block->from, block->with, length) != 0)
			break;
		block->from += length;
		block->with += length;
		block->with_length -= length;
	}
	while (block->from < block->to && block->with_length > 0) {
		size_t begin = lk_edit_line(text, block->to - 1), length = block->to - begin;
		bool same =
			length <= block->with_length &&
			memcmp(text + begin, block->with + block->with_length - length, length) == 0 &&
			(length == block->with_length || block->with[block->with_length - length - 1] == '\n');
		if (!same) break;
		block->to = begin;
		block->with_length -= length;
	}
}

static bool edit_blocks(lk_arena *arena, const char *text, const edit_list *list,
                        struct edit_block *blocks, size_t *count) {
	*count = 0;
	for (size_t i = 0; i < list->count; i++) {
		const lk_edit *edit = &list->at[i];
		size_t from = lk_edit_line(text, edit->at), to = edit->end;
		if (to == edit->at || text[to - 1] != '\n') to = edit_line_end(text, to);
		if (*count > 0 && from <= blocks[*count - 1].to) {
			if (to > blocks[*count - 1].to) blocks[*count - 1].to = to;
		} else blocks[(*count)++] = (struct edit_block){.from = from, .to = to};
	}
	for (size_t i = 0; i < *count; i++) {
		blocks[i].with = edit_span(arena, text, blocks[i].from, blocks[i].to, list);
		if (!blocks[i].with) return false;
		blocks[i].with_length = strlen(blocks[i].with);
		edit_trim(text, &blocks[i]);
	}
	return true;
}

/* Lines of a text, each after a sign. */
static void edit_put_lines(lk_page *page, char sign, const char *text, size_t length) {
	while (length > 0) {
		size_t line = strcspn(text, "\n");
		bool ends = line < length;
		if (!ends) line = length;
		lk_page_add(page, "%c%.*s\n%s", sign, (int)line, text,
		            ends ? "" : "\\ No newline at end of file\n");
		text += line + ends;
		length -= line + ends;
	}
}

/* "12,7": the first line and their number, which is left out where it is 1. */
static void edit_put_range(lk_page *page, int line, int lines) {
	lk_page_add(page, "%d", lines > 0 ? line : line - 1);
	if (lines != 1) lk_page_add(page, ",%d", lines);
}

static size_t edit_back(const char *text, size_t at, size_t least) {
	for (int i = 0; i < CONTEXT && at > least; i++) at = lk_edit_line(text, at - 1);
	return at;
}

static size_t edit_forth(const char *text, size_t at) {
	for (int i = 0; i < CONTEXT && text[at]; i++) at = edit_line_end(text, at);
	return at;
}

const char *lk_edit_diff(lk_arena *arena, const char *path, const char *text, const lk_edit *edits,
                         size_t count) {
	edit_list list;
	lk_page page = {arena, ""};
	struct edit_block *blocks = LK_ARRAY(arena, struct edit_block, count + 1);
	if (!blocks || !edit_sort(arena, edits, count, &list) ||
	    !edit_blocks(arena, text, &list, blocks, &count))
		return NULL;
	int shift = 0; /* lines that the text has gained so far */
	if (count > 0) lk_page_add(&page, "--- %s\n+++ %s\n", path, path);
	for (size_t i = 0; i < count;) {
		size_t from = edit_back(text, blocks[i].from, 0), to = edit_forth(text, blocks[i].to),
			   n = 1;
		while (i + n < count && blocks[i + n].from <= edit_forth(text, to)) {
			to = edit_forth(text, blocks[i + n].to);
			n++;
		}
		int gained = 0;
		for (size_t k = i; k < i + n; k++)
			gained += edit_lines(blocks[k].with, blocks[k].with_length) -
			          edit_lines(text + blocks[k].from, blocks[k].to - blocks[k].from);
		int line = edit_lines(text, from) + 1, lines = edit_lines(text + from, to - from);
		lk_page_add(&page, "@@ -");
		edit_put_range(&page, line, lines);
		lk_page_add(&page, " +");
		edit_put_range(&page, line + shift, lines + gained);
		lk_page_add(&page, " @@\n");
		shift += gained;
		for (size_t k = i; k < i + n; k++) {
			edit_put_lines(&page, ' ', text + from, blocks[k].from - from);
			edit_put_lines(&page, '-', text + blocks[k].from, blocks[k].to - blocks[k].from);
			edit_put_lines(&page, '+', blocks[k].with, blocks[k].with_length);
			from = blocks[k].to;
		}
		edit_put_lines(&page, ' ', text + from, to - from);
		i += n;
	}
	return page.text;
}
