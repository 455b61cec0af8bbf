/* lane_map.h: from a process and thread, or device and stream, to a number. */
#ifndef LK_TRACE_LANE_MAP_H
#define LK_TRACE_LANE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lk_lane_key {
	int64_t process, thread;
	bool stream;
} lk_lane_key;

typedef struct lk_lane_map {
	struct lk_lane_slot *slots;
	size_t count, capacity;  /* of slots: a power of two */
} lk_lane_map;

/* The number of a key, UINT32_MAX where it has none yet; to be set by the caller. NULL when memory is out. */
uint32_t *lk_lane_map_at(lk_lane_map *map, lk_lane_key key);
/* The number of a key, or UINT32_MAX. */
uint32_t lk_lane_map_find(const lk_lane_map *map, lk_lane_key key);
void lk_lane_map_free(lk_lane_map *map);

#endif
