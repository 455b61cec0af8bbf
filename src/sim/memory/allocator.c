/* allocator.c: PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp, of PyTorch 2.6).
 *
 *     size      rounded up to 512 bytes; with roundup_power2_divisions above 512 times as many to
 *               a division of the space between two powers of two
 *     pool      small up to 1 MiB, else large; blocks belong to a stream
 *     segment   2 MiB for a small block; 20 MiB for one below 10 MiB; else rounded up to 2 MiB
 *     choice    the smallest free block of the stream and pool that is large enough, the lowest
 *               address of equal ones
 *     split     if what remains is at least 512 bytes (small), or more than 1 MiB (large);
 *               expandable segments: at least 512 bytes
 *     merge     a freed block with free neighbours of its segment
 *
 * Blocks of max_split_size or more are not split, nor given to smaller requests, nor to those that
 * would leave 20 MiB or more unused. Expandable segments are one range of addresses for each stream
 * and pool, to which pages are mapped (2 MiB small, 20 MiB large) where no free block suffices.
 * Where the device gives no more, cached blocks are given back: oversized ones (max_split_size),
 * then all. garbage_collection_threshold gives back old ones before. */
#include "sim/memory/allocator.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/units.h"
#include "base/vec.h"

enum { NONE = UINT32_MAX >> 1, POOLS = 2, STREAMS = 64 };

static const uint64_t least_block = 512, small_size = 1 << 20, small_segment = 2 << 20,
					  large_segment = 20 << 20, least_alone = 10 << 20, page_round = 2 << 20,
					  endless = 1ull << 50;

typedef struct block {
	uint64_t address, size;
	uint32_t prev, next; /* in its segment, by address; NONE */
	uint32_t stamp;      /* searches of the pool when it became free */
	uint8_t stream, pool;
	bool taken, mapped, expandable;
} block;

typedef LK_VEC(uint32_t) blocks_by_key;

/* Free blocks in order of stream, size, address; unmapped ones of stream, address. */
typedef struct pool {
	blocks_by_key free, unmapped;
	uint32_t searches;
} pool;

struct lk_caching {
	lk_caching_conf conf;
	LK_VEC(block) blocks;
	LK_VEC(uint32_t) unused; /* entries of `blocks` */
	pool pools[POOLS];
	bool begun[POOLS][STREAMS]; /* the stream's expandable segment */
	uint64_t top;               /* first address that no segment has */
	uint64_t allocated, reserved, peak;
	bool failed; /* out of memory of the simulation's own */
};

lk_caching *lk_caching_new(const lk_caching_conf *conf) {
	lk_caching *allocator = calloc(1, sizeof *allocator);
	if (allocator) allocator->conf = *conf;
	return allocator;
}

void lk_caching_free(lk_caching *allocator) {
	if (!allocator) return;
	for (int p = 0; p < POOLS; p++) {
		lk_vec_free(&allocator->pools[p].free);
		lk_vec_free(&allocator->pools[p].unmapped);
	}
	lk_vec_free(&allocator->unused);
	lk_vec_free(&allocator->blocks);
	free(allocator);
}

/* ---- sizes ---- */

static uint64_t round_to(uint64_t size, uint64_t unit) {
	return (size + unit - 1) / unit * unit;
}

static unsigned top_bit(uint64_t value) {
	unsigned bit = 0;
	while (value >>= 1) bit++;
	return bit;
}

static uint64_t rounded_size(const lk_caching *allocator, uint64_t size) {
	uint64_t divisions = allocator->conf.roundup_power2_divisions;
	if (size < least_block) return least_block;
	if (divisions <= 1 || size <= least_block * divisions) return round_to(size, least_block);
	uint64_t floor = 1ull << top_bit(size), step = floor >> top_bit(divisions);
	return size == floor ? size : round_to(size, step);
}

static uint64_t segment_size(uint64_t size) {
	if (size <= small_size) return small_segment;
	return size < least_alone ? large_segment : round_to(size, page_round);
}

static uint64_t page_size(const block *of) {
	return of->pool == 0 ? small_segment : large_segment;
}

static uint64_t split_limit(const lk_caching *allocator) {
	double most = allocator->conf.max_split_bytes;
	return most > 0 ? (uint64_t)most : UINT64_MAX;
}

/* ---- sets ---- */

/* The first place whose block is not before the key. */
static size_t free_place_of(const lk_caching *allocator, const blocks_by_key *set, bool by_size,
                            const block *key) {
	size_t low = 0, high = set->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const block *b = &allocator->blocks.at[set->at[middle]];
		bool before;
		if (b->stream != key->stream) before = b->stream < key->stream;
		else if (by_size && b->size != key->size) before = b->size < key->size;
		else before = b->address < key->address;
		if (before) low = middle + 1;
		else high = middle;
	}
	return low;
}

static blocks_by_key *set_of(lk_caching *allocator, const block *b) {
	pool *of = &allocator->pools[b->pool];
	return b->mapped ? &of->free : &of->unmapped;
}

static void set_insert(lk_caching *allocator, uint32_t id) {
	block *b = &allocator->blocks.at[id];
	blocks_by_key *set = set_of(allocator, b);
	size_t at = free_place_of(allocator, set, b->mapped, b);
	if (!lk_push(set)) {
		allocator->failed = true;
		return;
	}
	memmove(&set->at[at + 1], &set->at[at], (set->count - 1 - at) * sizeof *set->at);
	set->at[at] = id;
	b->stamp = allocator->pools[b->pool].searches;
}

static void set_remove(lk_caching *allocator, uint32_t id) {
	const block *b = &allocator->blocks.at[id];
	blocks_by_key *set = set_of(allocator, b);
	size_t at = free_place_of(allocator, set, b->mapped, b);
	if (at >= set->count || set->at[at] != id) return; /* it could not be inserted */
	memmove(&set->at[at], &set->at[at + 1], (set->count - 1 - at) * sizeof *set->at);
	set->count--;
}

/* ---- blocks ---- */

static uint32_t block_new(lk_caching *allocator, const block *is) {
	uint32_t id;
	if (allocator->unused.count > 0) id = allocator->unused.at[--allocator->unused.count];
	else if (lk_push(&allocator->blocks)) id = (uint32_t)allocator->blocks.count - 1;
	else {
		allocator->failed = true;
		return NONE;
	}
	allocator->blocks.at[id] = *is;
	return id;
}

static void block_drop(lk_caching *allocator, uint32_t id) {
	if (lk_push(&allocator->unused)) *lk_last(&allocator->unused) = id;
	else allocator->failed = true;
}

/* Cut what is behind the first `size` bytes off a block, as a block that is in no set. */
static uint32_t block_cut(lk_caching *allocator, uint32_t id, uint64_t size) {
	block rest = allocator->blocks.at[id];
	LK_ASSERT(size < rest.size);
	rest.address += size;
	rest.size -= size;
	rest.prev = id;
	rest.taken = false;
	uint32_t cut = block_new(allocator, &rest);
	if (cut == NONE) return NONE;
	block *b = &allocator->blocks.at[id];
	b->size = size;
	if (b->next != NONE) allocator->blocks.at[b->next].prev = cut;
	b->next = cut;
	return cut;
}

/* Join a block with a neighbour that is free too; the neighbour leaves its set. */
static void block_join(lk_caching *allocator, uint32_t id, uint32_t with) {
	if (with == NONE) return;
	block *b = &allocator->blocks.at[id], *other = &allocator->blocks.at[with];
	if (other->taken || other->mapped != b->mapped) return;
	set_remove(allocator, with);
	if (b->prev == with) {
		b->address = other->address;
		b->prev = other->prev;
		if (b->prev != NONE) allocator->blocks.at[b->prev].next = id;
	} else {
		b->next = other->next;
		if (b->next != NONE) allocator->blocks.at[b->next].prev = id;
	}
	b->size += other->size;
	block_drop(allocator, with);
}

static void block_settle(lk_caching *allocator, uint32_t id) {
	block_join(allocator, id, allocator->blocks.at[id].prev);
	block_join(allocator, id, allocator->blocks.at[id].next);
	set_insert(allocator, id);
}

static bool is_split(const block *b) {
	return b->prev != NONE || b->next != NONE;
}

/* ---- what the device gives ---- */

static bool device_gives(lk_caching *allocator, uint64_t bytes) {
	double limit = allocator->conf.limit;
	if (limit > 0 && (double)(allocator->reserved + bytes) > limit) return false;
	allocator->reserved += bytes;
	if (allocator->reserved > allocator->peak) allocator->peak = allocator->reserved;
	return true;
}

static void release_segment(lk_caching *allocator, uint32_t id) {
	set_remove(allocator, id);
	allocator->reserved -= allocator->blocks.at[id].size;
	block_drop(allocator, id);
}

/* Map pages from the beginning of an unmapped block on, which then is free. */
static bool map_pages(lk_caching *allocator, uint32_t id, uint64_t size) {
	const block *b = &allocator->blocks.at[id];
	uint64_t bytes = round_to(size, page_size(b));
	if (bytes > b->size) bytes = b->size;
	if (!device_gives(allocator, bytes)) return false;
	set_remove(allocator, id);
	if (bytes < b->size) {
		uint32_t rest = block_cut(allocator, id, bytes);
		if (rest == NONE) return false;
		set_insert(allocator, rest);
	}
	allocator->blocks.at[id].mapped = true;
	block_settle(allocator, id);
	return true;
}

/* Unmap the whole pages of a free block of an expandable segment. */
static void unmap_pages(lk_caching *allocator, uint32_t id) {
	block *b = &allocator->blocks.at[id];
	uint64_t page = page_size(b), begin = round_to(b->address, page),
			 end = (b->address + b->size) / page * page;
	if (end <= begin) return;
	set_remove(allocator, id);
	if (begin > b->address) {
		uint32_t middle = block_cut(allocator, id, begin - b->address);
		if (middle == NONE) return;
		set_insert(allocator, id);
		id = middle;
	}
	if (allocator->blocks.at[id].address + allocator->blocks.at[id].size > end) {
		uint32_t rest = block_cut(allocator, id, end - begin);
		if (rest == NONE) return;
		set_insert(allocator, rest);
	}
	allocator->blocks.at[id].mapped = false;
	allocator->reserved -= end - begin;
	block_settle(allocator, id);
}

/* ---- a request ---- */

typedef struct request {
	uint64_t size; /* rounded */
	uint8_t stream, pool;
} request;

static bool is_free(const lk_caching *allocator, uint32_t id) {
	return id != NONE && !allocator->blocks.at[id].taken;
}

/* What a free block of an expandable segment can grow to. */
static uint64_t grown_size(const lk_caching *allocator, uint32_t id) {
	const block *b = &allocator->blocks.at[id];
	bool grows = b->next != NONE && !allocator->blocks.at[b->next].mapped;
	return b->size + (grows ? allocator->blocks.at[b->next].size : 0);
}

/* Take the free block that serves a request best out of its set; NONE. */
static uint32_t find_free(lk_caching *allocator, const request *of) {
	pool *from = &allocator->pools[of->pool];
	block key = {.stream = of->stream, .size = of->size};
	uint64_t most = split_limit(allocator);
	from->searches++;
	size_t at = free_place_of(allocator, &from->free, true, &key);
	if (at == from->free.count) return NONE;
	uint32_t id = from->free.at[at];
	if (allocator->blocks.at[id].stream != of->stream) return NONE;
	/* a smaller block whose segment can still grow is worth more than one that cannot */
	while (allocator->blocks.at[id].expandable && at + 1 < from->free.count) {
		uint32_t next = from->free.at[at + 1];
		if (allocator->blocks.at[next].stream != of->stream ||
		    grown_size(allocator, next) >= grown_size(allocator, id))
			break;
		id = next;
		at++;
	}
	uint64_t size = allocator->blocks.at[id].size;
	if (of->size < most && size >= most) return NONE;
	if (of->size >= most && size >= of->size + large_segment) return NONE;
	set_remove(allocator, id);
	return id;
}

/* Whether free blocks from here on have room for a request, mapped or not. */
static bool has_room(const lk_caching *allocator, uint32_t from, uint64_t size) {
	uint64_t bytes = 0;
	for (; is_free(allocator, from) && bytes < size; from = allocator->blocks.at[from].next)
		bytes += allocator->blocks.at[from].size;
	return bytes >= size;
}

/* The first free part of the stream's expandable segment that has room. */
static uint32_t find_room(lk_caching *allocator, const request *of) {
	pool *from = &allocator->pools[of->pool];
	block key = {.stream = of->stream, .address = 0};
	if (!allocator->begun[of->pool][of->stream]) {
		allocator->begun[of->pool][of->stream] = true;
		block whole = {.address = allocator->top,
		               .size = endless,
		               .prev = NONE,
		               .next = NONE,
		               .stream = of->stream,
		               .pool = of->pool,
		               .expandable = true};
		uint32_t id = block_new(allocator, &whole);
		allocator->top += endless;
		if (id != NONE) set_insert(allocator, id);
	}
	size_t at = free_place_of(allocator, &from->unmapped, false, &key);
	for (; at < from->unmapped.count; at++) {
		uint32_t id = from->unmapped.at[at];
		if (allocator->blocks.at[id].stream != of->stream) break;
		if (is_free(allocator, allocator->blocks.at[id].prev)) id = allocator->blocks.at[id].prev;
		if (has_room(allocator, id, of->size)) return id;
	}
	return NONE;
}

static uint32_t grow_segment(lk_caching *allocator, const request *of) {
	uint32_t id = find_room(allocator, of);
	if (id == NONE) return NONE;
	const block *b = &allocator->blocks.at[id];
	if (!b->mapped && !map_pages(allocator, id, of->size < b->size ? of->size : b->size))
		return NONE;
	while (allocator->blocks.at[id].size < of->size) {
		uint32_t next = allocator->blocks.at[id].next;
		uint64_t rest = of->size - allocator->blocks.at[id].size,
				 room = allocator->blocks.at[next].size;
		if (!map_pages(allocator, next, rest < room ? rest : room)) return NONE;
		id = next; /* it has joined what is before it */
	}
	set_remove(allocator, id);
	return id;
}

static uint32_t new_segment(lk_caching *allocator, const request *of) {
	if (allocator->conf.expandable_segments) return grow_segment(allocator, of);
	block whole = {.size = segment_size(of->size),
	               .prev = NONE,
	               .next = NONE,
	               .stream = of->stream,
	               .pool = of->pool,
	               .mapped = true};
	if (!device_gives(allocator, whole.size)) return NONE;
	whole.address = allocator->top;
	allocator->top += whole.size;
	return block_new(allocator, &whole);
}

/* ---- giving back ---- */

/* Old blocks, where more than a share of the limit is held: those that are at least as old as the
 * mean, until enough is given back. */
static void collect_garbage(lk_caching *allocator) {
	double threshold = allocator->conf.garbage_collection_threshold * allocator->conf.limit;
	if (!(threshold > 0) || (double)allocator->reserved <= threshold) return;
	double target = (double)allocator->reserved - threshold, reclaimed = 0, age = 0;
	pool *large = &allocator->pools[1];
	int count = 0;
	for (size_t i = 0; i < large->free.count; i++) {
		const block *b = &allocator->blocks.at[large->free.at[i]];
		if (is_split(b)) continue;
		age += large->searches - b->stamp;
		count++;
	}
	for (bool freed = true; freed && reclaimed < target && count > 0;) {
		double mean = age / count;
		freed = false;
		for (size_t i = 0; i < large->free.count;) {
			uint32_t id = large->free.at[i];
			const block *b = &allocator->blocks.at[id];
			double own = large->searches - b->stamp;
			if (is_split(b) || b->expandable || own < mean) {
				i++;
				continue;
			}
			freed = true;
			reclaimed += (double)b->size;
			age -= own;
			count--;
			release_segment(allocator, id);
		}
	}
}

/* Give back one oversized block that suffices, else several, the largest first. */
static bool release_oversized(lk_caching *allocator, const request *of) {
	pool *from = &allocator->pools[of->pool];
	uint64_t most = split_limit(allocator), released = 0;
	if (most == UINT64_MAX) return false;
	block key = {.stream = of->stream, .size = of->size < most ? most : of->size};
	size_t at = free_place_of(allocator, &from->free, true, &key);
	if (at < from->free.count && allocator->blocks.at[from->free.at[at]].stream == of->stream) {
		uint32_t id = from->free.at[at];
		if (!is_split(&allocator->blocks.at[id])) release_segment(allocator, id);
		return true;
	}
	while (at > 0 && released < key.size) {
		uint32_t id = from->free.at[--at];
		const block *b = &allocator->blocks.at[id];
		if (b->size < most || b->stream != of->stream) break;
		if (b->expandable || is_split(b)) continue;
		released += b->size;
		release_segment(allocator, id);
	}
	return released >= key.size;
}

/* Blocks that are whole segments; of expandable segments, whole pages. */
static void release_cached_of(lk_caching *allocator, pool *from) {
	blocks_by_key pages = {0};
	for (size_t i = 0; i < from->free.count;) {
		uint32_t id = from->free.at[i];
		const block *b = &allocator->blocks.at[id];
		if (!b->expandable && !is_split(b)) {
			release_segment(allocator, id);
			continue;
		}
		i++;
		if (!b->expandable) continue;
		if (lk_push(&pages)) *lk_last(&pages) = id;
		else allocator->failed = true;
	}
	for (size_t i = 0; i < pages.count; i++) unmap_pages(allocator, pages.at[i]);
	lk_vec_free(&pages);
}

/* ---- tensors ---- */

static bool splits(const lk_caching *allocator, const block *b, uint64_t size) {
	uint64_t rest = b->size - size;
	if (b->pool == 0 || allocator->conf.expandable_segments) return rest >= least_block;
	return size < split_limit(allocator) && rest > small_size;
}

lk_caching_result lk_caching_take(lk_caching *allocator, unsigned stream, double bytes,
                                  uint32_t *out) {
	LK_ASSERT(stream < STREAMS && bytes >= 0 && bytes < (double)endless);
	request of = {.size = rounded_size(allocator, (uint64_t)bytes), .stream = (uint8_t)stream};
	of.pool = of.size > small_size;
	uint32_t id = find_free(allocator, &of);
	if (id == NONE) {
		collect_garbage(allocator);
		id = new_segment(allocator, &of);
	}
	if (id == NONE && release_oversized(allocator, &of)) id = new_segment(allocator, &of);
	if (id == NONE) {
		release_cached_of(allocator, &allocator->pools[1]);
		release_cached_of(allocator, &allocator->pools[0]);
		id = new_segment(allocator, &of);
	}
	if (allocator->failed) return LK_ALLOCATED_ERROR;
	if (id == NONE) return LK_ALLOCATED_NOTHING;
	allocator->blocks.at[id].taken = true;
	if (splits(allocator, &allocator->blocks.at[id], of.size)) {
		uint32_t rest = block_cut(allocator, id, of.size);
		if (rest != NONE) set_insert(allocator, rest);
	}
	allocator->allocated += allocator->blocks.at[id].size;
	*out = id;
	return allocator->failed ? LK_ALLOCATED_ERROR : LK_ALLOCATED;
}

bool lk_caching_give(lk_caching *allocator, uint32_t id) {
	LK_ASSERT(id < allocator->blocks.count && allocator->blocks.at[id].taken);
	allocator->blocks.at[id].taken = false;
	allocator->allocated -= allocator->blocks.at[id].size;
	block_settle(allocator, id);
	return !allocator->failed;
}

double lk_caching_allocated(const lk_caching *allocator) {
	return (double)allocator->allocated;
}

double lk_caching_reserved(const lk_caching *allocator) {
	return (double)allocator->reserved;
}

double lk_caching_peak(const lk_caching *allocator) {
	return (double)allocator->peak;
}

uint64_t lk_caching_address(const lk_caching *allocator, uint32_t id) {
	return allocator->blocks.at[id].address;
}

uint64_t lk_caching_size(const lk_caching *allocator, uint32_t id) {
	return allocator->blocks.at[id].size;
}

unsigned lk_caching_stream(const lk_caching *allocator, uint32_t id) {
	return allocator->blocks.at[id].stream;
}
