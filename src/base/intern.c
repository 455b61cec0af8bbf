/* intern.c: names as small numbers. Open addressing with linear probing over slots of (hash, id + 1); the texts lie in
 * an arena. The table doubles when it is half full. */
#include "base/intern.h"

#include <stdlib.h>
#include <string.h>
#include "base/stats.h"
#include "base/vec.h"

typedef struct slot {
	uint32_t hash, id_plus_1; /* 0: free */
} slot;

struct lk_intern {
	lk_arena arena;
	LK_VEC(const char *) texts;
	slot *slots;
	size_t slot_count; /* a power of two */
};

enum { FIRST_SLOTS = 256 };

static uint32_t hash_of(const char *text, size_t length) {
	uint64_t h = length;
	for (; length >= 8; text += 8, length -= 8) {
		uint64_t word;
		memcpy(&word, text, 8);
		h = lk_hash64(h ^ word);
	}
	uint64_t word = 0;
	memcpy(&word, text, length);
	return (uint32_t)(lk_hash64(h ^ word) >> 32);
}

lk_intern *lk_intern_new(void) {
	lk_intern *t = calloc(1, sizeof *t);
	if (!t) return NULL;
	t->slot_count = FIRST_SLOTS;
	t->slots = calloc(t->slot_count, sizeof *t->slots);
	if (!t->slots || lk_intern_id(t, "") != 0) {
		lk_intern_free(t);
		return NULL;
	}
	return t;
}

void lk_intern_free(lk_intern *table) {
	if (!table) return;
	lk_arena_free(&table->arena);
	lk_vec_free(&table->texts);
	free(table->slots);
	free(table);
}

/* The slot that holds `text`, or the free one where it belongs. */
static slot *find(const lk_intern *t, const char *text, uint32_t hash) {
	for (size_t i = hash & (t->slot_count - 1);; i = (i + 1) & (t->slot_count - 1)) {
		slot *s = &t->slots[i];
		if (!s->id_plus_1) return s;
		if (s->hash == hash && strcmp(t->texts.at[s->id_plus_1 - 1], text) == 0) return s;
	}
}

static bool grow(lk_intern *t) {
	size_t count = t->slot_count * 2;
	slot *slots = calloc(count, sizeof *slots);
	if (!slots) return false;
	for (size_t i = 0; i < t->slot_count; i++) {
		if (!t->slots[i].id_plus_1) continue;
		size_t j = t->slots[i].hash & (count - 1);
		while (slots[j].id_plus_1) j = (j + 1) & (count - 1);
		slots[j] = t->slots[i];
	}
	free(t->slots);
	t->slots = slots;
	t->slot_count = count;
	return true;
}

uint32_t lk_intern_id(lk_intern *table, const char *text) {
	size_t length = strlen(text);
	uint32_t hash = hash_of(text, length);
	slot *s = find(table, text, hash);
	if (s->id_plus_1) return s->id_plus_1 - 1;
	if (table->texts.count >= UINT32_MAX - 1) return UINT32_MAX;
	if (table->texts.count >= table->slot_count / 2) {
		if (!grow(table)) return UINT32_MAX;
		s = find(table, text, hash);
	}
	const char *copy = lk_arena_strndup(&table->arena, text, length);
	if (!copy || !lk_push(&table->texts)) return UINT32_MAX;
	*lk_last(&table->texts) = copy;
	*s = (slot){hash, (uint32_t)table->texts.count};
	return (uint32_t)table->texts.count - 1;
}

uint32_t lk_intern_find(const lk_intern *table, const char *text) {
	const slot *s = find(table, text, hash_of(text, strlen(text)));
	return s->id_plus_1 ? s->id_plus_1 - 1 : UINT32_MAX;
}

const char *lk_intern_text(const lk_intern *table, uint32_t id) {
	return id < table->texts.count ? table->texts.at[id] : "";
}

uint32_t lk_intern_count(const lk_intern *table) {
	return (uint32_t)table->texts.count;
}
