/* test_allocator.c: the simulation of PyTorch's caching allocator against a plain reference of its
 * published rules, block by block on random sequences; and its rules one by one.
 *
 * The reference keeps all blocks in one list by address and searches it from end to end. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/units.h"
#include "rounds.h"
#include "sim/memory/allocator.h"
#include "sim/memory/memory.h"

/* ---- the reference ---- */

enum { MOST = 4000 };
#define KIB  1024ull
#define MIB  (1024 * KIB)
#define ROOM (1ull << 50)

typedef struct piece {
	uint64_t at, size, segment; /* segment: its first address */
	int stream;
	bool small, taken, mapped;
	long freed; /* searches of its pool until it became free */
} piece;

typedef struct plain {
	lk_caching_conf conf;
	piece list[MOST]; /* by address */
	int count;
	uint64_t top, allocated, reserved;
	bool begun[2][64];
	long searches[2];
} plain;

static uint64_t up(uint64_t size, uint64_t unit) {
	return size % unit ? size + unit - size % unit : size;
}

static uint64_t plain_round(const plain *p, uint64_t size) {
	uint64_t divisions = p->conf.roundup_power2_divisions, floor = 1, lower;
	if (size < 512) return 512;
	if (divisions < 2 || size <= 512 * divisions) return up(size, 512);
	while (floor * 2 <= size) floor *= 2;
	for (lower = 1; lower * 2 <= divisions;) lower *= 2;
	return floor == size ? size : up(size, floor / lower);
}

static void plain_insert(plain *p, int place, piece is) {
	assert_true(p->count < MOST);
	memmove(&p->list[place + 1], &p->list[place], (size_t)(p->count - place) * sizeof(piece));
	p->list[place] = is;
	p->count++;
}

static void plain_remove(plain *p, int place) {
	memmove(&p->list[place], &p->list[place + 1], (size_t)(p->count - place - 1) * sizeof(piece));
	p->count--;
}

static bool plain_whole(const plain *p, int i) {
	bool before = i > 0 && p->list[i - 1].segment == p->list[i].segment,
		 behind = i + 1 < p->count && p->list[i + 1].segment == p->list[i].segment;
	return !before && !behind;
}

/* Join all neighbours that are free and of one kind. */
static void plain_join(plain *p) {
	for (int i = 0; i + 1 < p->count;) {
		piece *a = &p->list[i], *b = &p->list[i + 1];
		if (a->segment == b->segment && !a->taken && !b->taken && a->mapped == b->mapped) {
			a->size += b->size;
			if (b->freed > a->freed) a->freed = b->freed;
			plain_remove(p, i + 1);
		} else i++;
	}
}

static bool plain_gives(plain *p, uint64_t bytes) {
	if (p->conf.limit > 0 && (double)(p->reserved + bytes) > p->conf.limit) return false;
	p->reserved += bytes;
	return true;
}

static uint64_t plain_grown(const plain *p, int i) {
	bool grows =
		i + 1 < p->count && p->list[i + 1].segment == p->list[i].segment && !p->list[i + 1].mapped;
	return p->list[i].size + (grows ? p->list[i + 1].size : 0);
}

static bool plain_less(const plain *p, int i, int than) {
	if (p->list[i].size != p->list[than].size) return p->list[i].size < p->list[than].size;
	return p->list[i].at < p->list[than].at;
}

/* The next larger free block of the stream after `last` (-1: the first of at least `size`). */
static int plain_next(const plain *p, int last, uint64_t size, int stream, bool small) {
	int best = -1;
	for (int i = 0; i < p->count; i++) {
		const piece *b = &p->list[i];
		bool fits = !b->taken && b->mapped && b->stream == stream && b->small == small &&
		            b->size >= size && (last < 0 || plain_less(p, last, i));
		if (fits && (best < 0 || plain_less(p, i, best))) best = i;
	}
	return best;
}

static int plain_find(const plain *p, uint64_t size, int stream, bool small) {
	double most = p->conf.max_split_bytes > 0 ? p->conf.max_split_bytes : INFINITY;
	int found = plain_next(p, -1, size, stream, small), next;
	if (found < 0) return -1;
	while (p->conf.expandable_segments && (next = plain_next(p, found, size, stream, small)) >= 0 &&
	       plain_grown(p, next) < plain_grown(p, found))
		found = next;
	double has = (double)p->list[found].size;
	if ((double)size < most && has >= most) return -1;
	if ((double)size >= most && has >= (double)(size + 20 * MIB)) return -1;
	return found;
}

/* Map pages for `size` bytes from a place on; the place, or -1. */
static int plain_map(plain *p, int first, uint64_t size, uint64_t page) {
	uint64_t at = p->list[first].at;
	for (;;) {
		int i = 0;
		while (p->list[i].at > at || p->list[i].at + p->list[i].size <= at) i++;
		if (p->list[i].mapped && p->list[i].size >= size) return i;
		int target = p->list[i].mapped ? i + 1 : i;
		uint64_t missing = p->list[i].mapped ? size - p->list[i].size : size,
				 room = p->list[target].size;
		uint64_t bytes = up(missing < room ? missing : room, page);
		if (bytes > room) bytes = room;
		if (!plain_gives(p, bytes)) return -1;
		piece rest = p->list[target];
		rest.at += bytes, rest.size -= bytes;
		p->list[target].size = bytes, p->list[target].mapped = true;
		p->list[target].freed = p->searches[p->list[target].small];
		if (rest.size > 0) plain_insert(p, target + 1, rest);
		plain_join(p);
	}
}

static int plain_grow(plain *p, uint64_t size, int stream, bool small) {
	if (!p->begun[small][stream]) {
		p->begun[small][stream] = true;
		plain_insert(p, p->count, (piece){p->top, ROOM, p->top, stream, small, false, false, 0});
		p->top += ROOM;
	}
	for (int i = 0; i < p->count; i++) {
		int from = i;
		const piece *b = &p->list[i];
		if (b->mapped || b->stream != stream || b->small != small) continue;
		if (i > 0 && p->list[i - 1].segment == b->segment && !p->list[i - 1].taken) from = i - 1;
		uint64_t bytes = 0;
		for (int k = from; k < p->count && p->list[k].segment == b->segment && !p->list[k].taken;
		     k++)
			bytes += p->list[k].size;
		if (bytes >= size) return plain_map(p, from, size, small ? 2 * MIB : 20 * MIB);
	}
	return -1;
}

static int plain_segment(plain *p, uint64_t size, int stream, bool small) {
	if (p->conf.expandable_segments) return plain_grow(p, size, stream, small);
	uint64_t bytes = up(size, 2 * MIB);
	if (size <= MIB) bytes = 2 * MIB;
	else if (size < 10 * MIB) bytes = 20 * MIB;
	if (!plain_gives(p, bytes)) return -1;
	plain_insert(p, p->count, (piece){p->top, bytes, p->top, stream, small, false, true, 0});
	p->top += bytes;
	return p->count - 1;
}

static void plain_release(plain *p, int i) {
	p->reserved -= p->list[i].size;
	plain_remove(p, i);
}

static void plain_collect(plain *p) {
	double threshold = p->conf.garbage_collection_threshold * p->conf.limit, age = 0, got = 0;
	if (!(threshold > 0) || (double)p->reserved <= threshold) return;
	double target = (double)p->reserved - threshold;
	int count = 0;
	for (int i = 0; i < p->count; i++)
		if (!p->list[i].taken && !p->list[i].small && p->list[i].mapped && plain_whole(p, i))
			age += (double)(p->searches[0] - p->list[i].freed), count++;
	for (bool freed = true; freed && got < target && count > 0;) {
		double mean = age / count;
		freed = false;
		/* in the order of the pool: stream, size, address */
		for (int stream = 0; stream < 64; stream++)
			for (int i = plain_next(p, -1, 0, stream, false); i >= 0;) {
				double own = (double)(p->searches[0] - p->list[i].freed);
				int next = plain_next(p, i, 0, stream, false);
				if (plain_whole(p, i) && own >= mean && !p->conf.expandable_segments) {
					got += (double)p->list[i].size, age -= own, count--, freed = true;
					plain_release(p, i);
					if (next > i) next--;
				}
				i = next;
			}
	}
}

static bool plain_oversized(plain *p, uint64_t size, int stream, bool small) {
	double most = p->conf.max_split_bytes;
	if (!(most > 0)) return false;
	uint64_t key = (double)size < most ? (uint64_t)most : size, got = 0;
	int one = plain_next(p, -1, key, stream, small);
	if (one >= 0) {
		if (plain_whole(p, one)) plain_release(p, one);
		return true;
	}
	while (got < key) {
		int largest = -1;
		for (int i = plain_next(p, -1, 0, stream, small); i >= 0;
		     i = plain_next(p, i, 0, stream, small))
			if ((double)p->list[i].size >= most && plain_whole(p, i) &&
			    !p->conf.expandable_segments)
				largest = i;
		if (largest < 0) return false;
		got += p->list[largest].size;
		plain_release(p, largest);
	}
	return true;
}

static void plain_release_all(plain *p) {
	for (int i = 0; i < p->count;) {
		piece *b = &p->list[i];
		uint64_t page = b->small ? 2 * MIB : 20 * MIB, begin = up(b->at, page),
				 end = (b->at + b->size) / page * page;
		if (b->taken || !b->mapped) i++;
		else if (!p->conf.expandable_segments && plain_whole(p, i)) plain_release(p, i);
		else if (!p->conf.expandable_segments || begin >= end) i++;
		else {
			piece before = *b, behind = *b;
			before.size = begin - b->at;
			behind.size = b->at + b->size - end, behind.at = end;
			b->at = begin, b->size = end - begin, b->mapped = false;
			p->reserved -= end - begin;
			if (behind.size > 0) plain_insert(p, i + 1, behind);
			if (before.size > 0) plain_insert(p, i, before);
			i += (before.size > 0) + 1 + (behind.size > 0);
		}
	}
	plain_join(p);
}

/* The address, or UINT64_MAX. */
static uint64_t plain_take(plain *p, int stream, uint64_t bytes, uint64_t *size_out) {
	uint64_t size = plain_round(p, bytes);
	bool small = size <= MIB;
	p->searches[small]++;
	int i = plain_find(p, size, stream, small);
	if (i < 0) plain_collect(p), i = plain_segment(p, size, stream, small);
	if (i < 0 && plain_oversized(p, size, stream, small)) i = plain_segment(p, size, stream, small);
	if (i < 0) plain_release_all(p), i = plain_segment(p, size, stream, small);
	if (i < 0) return UINT64_MAX;
	piece *b = &p->list[i];
	uint64_t rest = b->size - size;
	double most = p->conf.max_split_bytes > 0 ? p->conf.max_split_bytes : INFINITY;
	bool split =
		small || p->conf.expandable_segments ? rest >= 512 : (double)size < most && rest > MIB;
	b->taken = true;
	if (split) {
		piece behind = *b;
		behind.at += size, behind.size = rest, behind.taken = false;
		behind.freed = p->searches[small];
		b->size = size;
		plain_insert(p, i + 1, behind);
	}
	p->allocated += p->list[i].size;
	*size_out = p->list[i].size;
	return p->list[i].at;
}

static void plain_give(plain *p, uint64_t at) {
	int i = 0;
	while (p->list[i].at != at || p->list[i].size == 0) i++;
	p->list[i].taken = false;
	p->list[i].freed = p->searches[p->list[i].small];
	p->allocated -= p->list[i].size;
	plain_join(p);
}

/* ---- random sequences ---- */

typedef struct dice {
	uint64_t state;
} dice;

static uint64_t roll(dice *d, uint64_t below) {
	d->state ^= d->state << 13, d->state ^= d->state >> 7, d->state ^= d->state << 17;
	return d->state % below;
}

/* Sizes of all classes; now and then the one before, as tensors of a layer repeat. */
static uint64_t roll_size(dice *d, uint64_t before) {
	static const uint64_t most[] = {2 * KIB, MIB, 3 * MIB, 10 * MIB, 40 * MIB, 300 * MIB};
	if (before && roll(d, 3) == 0) return before;
	return 1 + roll(d, most[roll(d, 6)]);
}

static lk_caching_conf roll_conf(dice *d) {
	lk_caching_conf conf = {.expandable_segments = roll(d, 2)};
	if (roll(d, 3) == 0) conf.max_split_bytes = (double)((21 + roll(d, 200)) * MIB);
	if (roll(d, 3) == 0) conf.roundup_power2_divisions = 1u << roll(d, 5);
	if (roll(d, 2) == 0) conf.limit = (double)((200 + roll(d, 3000)) * MIB);
	if (conf.limit > 0 && roll(d, 2) == 0)
		conf.garbage_collection_threshold = 0.3 + 0.1 * (double)roll(d, 7);
	return conf;
}

static void same_blocks(void **state) {
	(void)state;
	enum { LIVE = 150 };
	plain *reference = malloc(sizeof *reference);
	assert_non_null(reference);
	int refused = 0;
	for (int trial = 0; trial < trials(300); trial++) {
		dice d = {0x9E3779B97F4A7C15ull + (uint64_t)trial * 2654435761u};
		struct {
			uint32_t id;
			uint64_t at;
		} live[LIVE];
		int count = 0, streams = 1 + (int)roll(&d, 3);
		uint64_t size = 0;
		*reference = (plain){.conf = roll_conf(&d)};
		lk_caching *allocator = lk_caching_new(&reference->conf);
		assert_non_null(allocator);
		for (int step = 0; step < 400; step++) {
			bool takes =
				count == 0 || (count < LIVE && roll(&d, 100) < (step % 100 < 60 ? 65 : 35));
			if (takes) {
				int stream = (int)roll(&d, (uint64_t)streams);
				uint64_t has, at;
				uint32_t id;
				size = roll_size(&d, size);
				at = plain_take(reference, stream, size, &has);
				lk_caching_result done =
					lk_caching_take(allocator, (unsigned)stream, (double)size, &id);
				assert_int_equal(done, at == UINT64_MAX ? LK_ALLOCATED_NOTHING : LK_ALLOCATED);
				refused += done != LK_ALLOCATED;
				if (done == LK_ALLOCATED) {
					assert_true(lk_caching_address(allocator, id) == at);
					assert_true(lk_caching_size(allocator, id) == has);
					live[count].id = id, live[count++].at = at;
				}
			} else {
				int which = (int)roll(&d, (uint64_t)count);
				plain_give(reference, live[which].at);
				assert_true(lk_caching_give(allocator, live[which].id));
				live[which] = live[--count];
			}
			assert_true(lk_caching_allocated(allocator) == (double)reference->allocated);
			assert_true(lk_caching_reserved(allocator) == (double)reference->reserved);
			assert_true(lk_caching_peak(allocator) >= lk_caching_reserved(allocator));
		}
		lk_caching_free(allocator);
	}
	assert_true(refused > 0); /* limits were reached */
	free(reference);
}

/* ---- the rules, by hand ---- */

static uint32_t take(lk_caching *allocator, double mib) {
	uint32_t id;
	assert_int_equal(lk_caching_take(allocator, 1, mib * MIB, &id), LK_ALLOCATED);
	return id;
}

static double held(const lk_caching *allocator) {
	return lk_caching_reserved(allocator) / MIB;
}

static void sizes_of_segments(void **state) {
	(void)state;
	static const struct {
		double asked, held, rounded;
	} cases[] = {
		{0.0001, 2, 512 / (double)MIB},
		{0.5, 2, 0.5},
		{1, 2, 1},
		{1.5, 20, 1.5},
		{9.5, 20, 9.5},
		{10, 10, 10},
		{11, 12, 11},
		{100, 100, 100},
		{101, 102, 101},
		{10.75, 12, 10.75},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_caching *allocator = lk_caching_new(&(lk_caching_conf){0});
		take(allocator, cases[i].asked);
		assert_true(held(allocator) == cases[i].held);
		lk_caching_free(allocator);
	}
}

/* A freed block serves what is smaller, and keeps what it cannot split off; streams do not
 * share. */
static void blocks_are_reused(void **state) {
	(void)state;
	lk_caching *allocator = lk_caching_new(&(lk_caching_conf){0});
	uint32_t other, first = take(allocator, 100);
	assert_true(lk_caching_give(allocator, first));
	first = take(allocator, 99.5); /* 0.5 MiB is not split off */
	assert_true(held(allocator) == 100 && lk_caching_allocated(allocator) == 100 * MIB);
	assert_true(lk_caching_give(allocator, first));
	take(allocator, 60), take(allocator, 40);
	assert_true(held(allocator) == 100);
	assert_int_equal(lk_caching_take(allocator, 2, 60 * MIB, &other), LK_ALLOCATED);
	assert_true(held(allocator) == 160);
	lk_caching_free(allocator);
}

/* Growing tensors leave holes in segments of their own, none in expandable ones. */
static void expandable_segments_have_no_holes(void **state) {
	(void)state;
	double reserved[2];
	for (int expandable = 0; expandable < 2; expandable++) {
		lk_caching *allocator =
			lk_caching_new(&(lk_caching_conf){.expandable_segments = expandable});
		for (int size = 40; size <= 400; size += 20)
			assert_true(lk_caching_give(allocator, take(allocator, size)));
		reserved[expandable] = held(allocator);
		lk_caching_free(allocator);
	}
	assert_true(reserved[1] == 400);
	assert_true(reserved[0] == (40 + 400) / 2. * 19);
}

/* At the limit cached blocks are given back before a request fails. */
static void limits_release_what_is_cached(void **state) {
	(void)state;
	lk_caching *allocator = lk_caching_new(&(lk_caching_conf){.limit = 300 * MIB});
	uint32_t id, small = take(allocator, 100);
	assert_true(lk_caching_give(allocator, small));
	take(allocator, 250);
	assert_true(held(allocator) == 250);
	assert_int_equal(lk_caching_take(allocator, 1, 60 * MIB, &id), LK_ALLOCATED_NOTHING);
	lk_caching_free(allocator);
}

/* ---- a program ---- */

static void add_op(lk_graph *graph, unsigned stream, double alloc, double release) {
	lk_op op = {.kind = LK_OP_ELEMENTWISE,
	            .stream = (uint8_t)stream,
	            .name = "op",
	            .alloc = alloc * MIB,
	            .release = release * MIB,
	            .alloc_owner = LK_OWN_ACTIVATIONS,
	            .release_owner = LK_OWN_ACTIVATIONS};
	lk_graph_add(graph, &op);
}

/* A graph of one stage that runs one block `repeat` times. */
static lk_graph *one_block(const double (*ops)[3], int count, uint32_t repeat) {
	lk_graph *graph = lk_graph_new();
	lk_error err;
	uint32_t block;
	assert_non_null(graph);
	lk_graph_begin_block(graph, "block");
	for (int i = 0; i < count; i++) add_op(graph, (unsigned)ops[i][0], ops[i][1], ops[i][2]);
	assert_int_equal(lk_graph_end_block(graph, &block, &err), LK_OK);
	assert_int_equal(lk_graph_set_programs(graph, 1, 0, &err), LK_OK);
	lk_call call = {.block = block, .repeat = repeat, .microbatch = -1, .layer = -1};
	assert_int_equal(lk_graph_call(graph, 0, &call, &err), LK_OK);
	return graph;
}

static double reserved_by(const lk_graph *graph, const double *sizes, int count, double limit) {
	lk_reserving how = {.sizes = sizes, .size_count = count, .states = 1, .microbatches = 1};
	double bytes;
	how.conf.limit = limit * MIB;
	if (lk_memory_reserved(graph, 0, &how, &bytes) != LK_ALLOCATED) return NAN;
	return bytes / MIB;
}

/* A sum that is one piece leaves a hole of its size; as tensors it leaves holes of theirs. */
static void sums_are_taken_apart(void **state) {
	(void)state;
	static const double ops[][3] = {{1, 300, 0},
	                                {1, 0, 300},
	                                {1, 100, 0},
	                                {1, 400, 0},
	                                {1, 0, 500}},
						sizes[] = {100 * MIB};
	lk_graph *graph = one_block(ops, 5, 1);
	assert_true(reserved_by(graph, NULL, 0, 0) == 300 + 400);
	assert_true(reserved_by(graph, sizes, 1, 0) == 500);
	assert_true(isnan(reserved_by(graph, sizes, 1, 450)));
	assert_true(isnan(reserved_by(graph, NULL, 0, 600))); /* a block that is split stays */
	lk_graph_free(graph);
}

/* What a product writes is there until the next has read it, beside what is kept; logits are not
 * counted twice. */
static void outputs_pass(void **state) {
	(void)state;
	lk_graph *graph = lk_graph_new();
	lk_error err;
	uint32_t block;
	lk_graph_begin_block(graph, "block");
	lk_op product = {.kind = LK_OP_GEMM,
	                 .stream = LK_STREAM_COMPUTE,
	                 .dtype = LK_BF16,
	                 .name = "product",
	                 .m = MIB,
	                 .n = 50,
	                 .k = 1,
	                 .batch = 1};
	lk_graph_add(graph, &product);
	lk_graph_add(graph, &product);
	add_op(graph, LK_STREAM_COMPUTE, 30, 30);
	assert_int_equal(lk_graph_end_block(graph, &block, &err), LK_OK);
	assert_int_equal(lk_graph_set_programs(graph, 1, 0, &err), LK_OK);
	lk_call call = {.block = block, .repeat = 3, .microbatch = -1, .layer = -1};
	assert_int_equal(lk_graph_call(graph, 0, &call, &err), LK_OK);
	assert_true(reserved_by(graph, NULL, 0, 0) == 2 * 100);
	lk_reserving how = {.states = 1, .microbatches = 1, .vocab = 50};
	double bytes;
	assert_int_equal(lk_memory_reserved(graph, 0, &how, &bytes), LK_ALLOCATED);
	assert_true(bytes == 30 * MIB);
	lk_graph_free(graph);
}

/* A buffer of another stream is allocated again before its last use has passed; and blocks of
 * streams are their own. */
static void streams_hold_one_more(void **state) {
	(void)state;
	static const double here[][3] = {{1, 100, 0}, {1, 0, 100}},
						there[][3] = {{LK_STREAM_DP, 100, 0}, {LK_STREAM_DP, 0, 100}};
	lk_graph *compute = one_block(here, 2, 8), *gathers = one_block(there, 2, 8);
	assert_true(reserved_by(compute, NULL, 0, 0) == 100);
	assert_true(reserved_by(gathers, NULL, 0, 0) == 200);
	lk_graph_free(compute);
	lk_graph_free(gathers);
}

/* Never less than what tensors take; and what is left of a piece stays. */
static void holds_what_tensors_take(void **state) {
	(void)state;
	for (int trial = 0; trial < trials(200); trial++) {
		dice d = {0x2545F4914F6CDD1Dull + (uint64_t)trial * 977};
		double ops[40][3], held = 0, sizes[3];
		for (int i = 0; i < 3; i++) sizes[i] = (double)((1 + roll(&d, 60)) * MIB);
		for (int i = 0; i < 40; i++) {
			double more = roll(&d, 3) ? (double)roll(&d, 200) : 0,
				   less = roll(&d, 2) ? floor((held + more) * (double)roll(&d, 100) / 100) : 0;
			if (i == 39) less = held + more;
			ops[i][0] = 1, ops[i][1] = more, ops[i][2] = less;
			held += more - less;
		}
		lk_graph *graph = one_block((const double(*)[3])ops, 40, 3);
		double peak = lk_memory_walk(graph, 0).peak / MIB;
		assert_true(reserved_by(graph, sizes, 3, 0) >= peak);
		assert_true(reserved_by(graph, NULL, 0, 0) >= peak);
		lk_graph_free(graph);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_blocks),
		cmocka_unit_test(sizes_of_segments),
		cmocka_unit_test(blocks_are_reused),
		cmocka_unit_test(expandable_segments_have_no_holes),
		cmocka_unit_test(limits_release_what_is_cached),
		cmocka_unit_test(sums_are_taken_apart),
		cmocka_unit_test(streams_hold_one_more),
		cmocka_unit_test(outputs_pass),
		cmocka_unit_test(holds_what_tensors_take),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
