/* intern.c: names as small numbers. Open addressing with linear probing over slots of (hash, id +
 * 1); an arena owns the texts. The table doubles when it is half full. The hash starts from a
 * number that differs between processes, so that no file can be crafted whose names all collide;
 * ids do not depend on it. */
#include "base/arena.h"
#include "base/intern.h"

#include <stdlib.h>
#include <string.h>
#include "base/stats.h"
#include "base/vec.h"

struct slot {
	uint32_t hash, id_plus_1; /* 0: free */
};

struct lk_intern {
	lk_arena arena;
	LK_VEC(const char *) texts;
	uint64_t seed;
	struct slot *slots;
	size_t slot_count; /* a power of two */
	lk_intern *pool;   /* whose texts it shares; NULL: none */
	size_t sharers;    /* number of tables that share this one */
};

enum { FIRST_SLOTS = 64 };

/* Fold both halves of a product: every bit of both factors reaches every bit of the result. */
static uint64_t fold(uint64_t a, uint64_t b) {
	unsigned __int128 product = (unsigned __int128)a * b;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint32_t intern_hash_of(const lk_intern *intern, const char *text, size_t length) {
	uint64_t h = intern->seed ^ length, word[2] = {0, 0};
	for (; length >= 16; text += 16, length -= 16) {
		memcpy(word, text, 16);
		h = fold(h ^ word[0], 0x9e3779b97f4a7c15u ^ word[1]) + h;
	}
	word[0] = word[1] = 0;
	memcpy(word, text, length);
	return (uint32_t)(fold(h ^ word[0], 0x94d049bb133111ebu ^ word[1]) + h);
}

lk_intern *lk_intern_new(void) {
	lk_intern *intern = calloc(1, sizeof *intern);
	if (!intern) return NULL;
	intern->seed = lk_hash64((uint64_t)(uintptr_t)intern);
	intern->slot_count = FIRST_SLOTS;
	intern->slots = calloc(intern->slot_count, sizeof *intern->slots);
	if (!intern->slots || lk_intern_id(intern, "") != 0) {
		lk_intern_free(intern);
		return NULL;
	}
	return intern;
}

void lk_intern_free(lk_intern *table) {
	if (!table) return;
	if (table->sharers) {
		table->sharers--;
		return;
	}
	lk_intern_free(table->pool);
	lk_arena_free(&table->arena);
	lk_vec_free(&table->texts);
	free(table->slots);
	free(table);
}

/* The slot that holds the text, or the free one for it. Texts end with '\0' and contain no
 * other. */
static struct slot *intern_find(const lk_intern *intern, const char *text, size_t length,
                                uint32_t hash) {
	for (size_t i = hash & (intern->slot_count - 1);; i = (i + 1) & (intern->slot_count - 1)) {
		struct slot *slot = &intern->slots[i];
		if (!slot->id_plus_1) return slot;
		if (slot->hash != hash) continue;
		const char *known = intern->texts.at[slot->id_plus_1 - 1];
		if (strncmp(known, text, length) == 0 && known[length] == '\0') return slot;
	}
}

static bool intern_grow(lk_intern *intern) {
	size_t count = intern->slot_count * 2;
	struct slot *slots = calloc(count, sizeof *slots);
	if (!slots) return false;
	for (size_t i = 0; i < intern->slot_count; i++) {
		if (!intern->slots[i].id_plus_1) continue;
		size_t j = intern->slots[i].hash & (count - 1);
		while (slots[j].id_plus_1) j = (j + 1) & (count - 1);
		slots[j] = intern->slots[i];
	}
	free(intern->slots);
	intern->slots = slots;
	intern->slot_count = count;
	return true;
}

uint32_t lk_intern_bytes(lk_intern *table, const char *text, size_t length) {
	uint32_t hash = intern_hash_of(table, text, length);
	struct slot *slot = intern_find(table, text, length, hash);
	if (slot->id_plus_1) return slot->id_plus_1 - 1;
	if (table->texts.count >= UINT32_MAX - 1) return UINT32_MAX;
	if (table->texts.count >= table->slot_count / 2) {
		if (!intern_grow(table)) return UINT32_MAX;
		slot = intern_find(table, text, length, hash);
	}
	const char *copy = lk_arena_strndup(&table->arena, text, length);
	if (!copy || !lk_push(&table->texts)) return UINT32_MAX;
	*lk_last(&table->texts) = copy;
	*slot = (struct slot){hash, (uint32_t)table->texts.count};
	return (uint32_t)table->texts.count - 1;
}

bool lk_intern_share(lk_intern *table, lk_intern *pool) {
	const char **shared = malloc((table->texts.count + 1) * sizeof *shared);
	bool good = shared != NULL && !table->pool;
	for (size_t i = 0; good && i < table->texts.count; i++) {
		uint32_t id = lk_intern_id(pool, table->texts.at[i]);
		if (id == UINT32_MAX) good = false;
		else shared[i] = lk_intern_text(pool, id);
	}
	if (!good) {
		free(shared);
		return false;
	}
	free(table->texts.at);
	table->texts.at = shared;
	table->texts.capacity = table->texts.count + 1;
	lk_arena_free(&table->arena);
	table->pool = pool;
	pool->sharers++;
	return true;
}

uint32_t lk_intern_id(lk_intern *table, const char *text) {
	return lk_intern_bytes(table, text, strlen(text));
}

uint32_t lk_intern_find(const lk_intern *table, const char *text) {
	size_t length = strlen(text);
	const struct slot *slot = intern_find(table, text, length, intern_hash_of(table, text, length));
	return slot->id_plus_1 ? slot->id_plus_1 - 1 : UINT32_MAX;
}

const char *lk_intern_text(const lk_intern *table, uint32_t id) {
	return id < table->texts.count ? table->texts.at[id] : "";
}

uint32_t lk_intern_count(const lk_intern *table) {
	return (uint32_t)table->texts.count;
}

size_t lk_intern_bytes_used(const lk_intern *table) {
	return table->arena.used;
}
