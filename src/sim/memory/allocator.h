/* allocator.h: PyTorch's caching allocator: what it holds of a device's memory while tensors come
 * and go. */
#ifndef LK_SIM_ALLOCATOR_H
#define LK_SIM_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>

/* PYTORCH_CUDA_ALLOC_CONF. All zero: the defaults. */
typedef struct lk_caching_conf {
	bool expandable_segments;
	double max_split_bytes;              /* max_split_size_mb; 0: any block is split */
	uint32_t roundup_power2_divisions;   /* of the space between powers of two; 0: none */
	double garbage_collection_threshold; /* share of `limit`; 0: off */
	double limit;                        /* bytes that the device gives; 0: any */
} lk_caching_conf;

typedef struct lk_caching lk_caching;

lk_caching *lk_caching_new(const lk_caching_conf *conf); /* NULL when memory runs out */
void lk_caching_free(lk_caching *allocator);             /* accepts NULL */

typedef enum lk_caching_result {
	LK_ALLOCATED,
	LK_ALLOCATED_NOTHING, /* the limit leaves no room, also after cached blocks are given back */
	LK_ALLOCATED_ERROR,   /* the simulation's own memory ran out */
} lk_caching_result;

/* Allocate a tensor on a stream below 64; *block names it. */
lk_caching_result lk_caching_take(lk_caching *allocator, unsigned stream, double bytes,
                                  uint32_t *block);
/* Free it. False when the simulation's own memory ran out. */
bool lk_caching_give(lk_caching *allocator, uint32_t block);

/* Bytes of tensors, as rounded; bytes held; the most held so far. */
double lk_caching_allocated(const lk_caching *allocator);
double lk_caching_reserved(const lk_caching *allocator);
double lk_caching_peak(const lk_caching *allocator);

unsigned lk_caching_stream(const lk_caching *caching, uint32_t block);
/* Where a block lies, and its size, for tests: addresses count from 0 in the order in which the
 * device gives segments. */
uint64_t lk_caching_address(const lk_caching *allocator, uint32_t block);
uint64_t lk_caching_size(const lk_caching *allocator, uint32_t block);

#endif
