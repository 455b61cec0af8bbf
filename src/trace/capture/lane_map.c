/* lane_map.c: open addressing with linear probing; the table doubles when it is half full. The hash
 * is seeded with the table's address, which differs from process to process: no file can be made
 * whose lanes all fall into one slot. */
#include "trace/capture/capture.h"

#include <stdlib.h>
#include "base/stats.h"

struct lk_lane_slot {
	lk_lane_key key;
	uint32_t value;
	bool used;
};

static struct lk_lane_slot *slot_of(const lk_lane_map *map, lk_lane_key key) {
	uint64_t seed = (uint64_t)(uintptr_t)map->slots;
	uint64_t hash = lk_hash64(lk_hash64((uint64_t)key.process ^ seed) ^
	                          ((uint64_t)key.thread * 2 + key.stream));
	for (size_t i = hash & (map->capacity - 1);; i = (i + 1) & (map->capacity - 1)) {
		struct lk_lane_slot *slot = &map->slots[i];
		if (!slot->used) return slot;
		if (slot->key.process == key.process && slot->key.thread == key.thread &&
		    slot->key.stream == key.stream)
			return slot;
	}
}

static bool lane_map_grow(lk_lane_map *map) {
	lk_lane_map larger = {.count = map->count, .capacity = map->capacity ? map->capacity * 2 : 16};
	larger.slots = calloc(larger.capacity, sizeof *larger.slots);
	if (!larger.slots) return false;
	for (size_t i = 0; i < map->capacity; i++)
		if (map->slots[i].used) *slot_of(&larger, map->slots[i].key) = map->slots[i];
	free(map->slots);
	*map = larger;
	return true;
}

uint32_t *lk_lane_map_at(lk_lane_map *map, lk_lane_key key) {
	if (map->count >= map->capacity / 2 && !lane_map_grow(map)) return NULL;
	struct lk_lane_slot *slot = slot_of(map, key);
	if (!slot->used) {
		*slot = (struct lk_lane_slot){key, UINT32_MAX, true};
		map->count++;
	}
	return &slot->value;
}

uint32_t lk_lane_map_find(const lk_lane_map *map, lk_lane_key key) {
	const struct lk_lane_slot *slot = map->capacity ? slot_of(map, key) : NULL;
	return slot && slot->used ? slot->value : UINT32_MAX;
}

void lk_lane_map_free(lk_lane_map *map) {
	free(map->slots);
	*map = (lk_lane_map){0};
}
