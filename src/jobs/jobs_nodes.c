/* jobs_nodes.c: places jobs like Helios (arXiv 2109.01313): a job that fits on one node goes to the
 * fullest node with room for it; a larger one takes whole empty nodes and its rest like a small
 * job. Nodes of equal free GPUs are a list; a bit per list says whether it is empty, so that the
 * list with the least sufficient room is found by words. Empty nodes have lists of their own. A
 * cluster without nodes is one node of all GPUs. */
#include <stdlib.h>

#include "base/arena.h"
#include "jobs/jobs.h"

enum { NONE = -1, WORD = 64 };

/* The list of a node that is on: by free GPUs, empty nodes after all others. */
static int nodes_list_of(const lk_nodes *nodes, int node) {
	const lk_jobs_node *place = &nodes->at[node];
	return place->free + (place->free == place->gpus ? nodes->most + 1 : 0);
}

static void nodes_link(lk_nodes *nodes, int node) {
	int list = nodes_list_of(nodes, node);
	lk_jobs_node *place = &nodes->at[node];
	place->before = NONE;
	place->after = nodes->first[list];
	if (place->after != NONE) nodes->at[place->after].before = node;
	nodes->first[list] = node;
	nodes->any[list / WORD] |= (uint64_t)1 << list % WORD;
}

static void nodes_unlink(lk_nodes *nodes, int node) {
	int list = nodes_list_of(nodes, node);
	const lk_jobs_node *place = &nodes->at[node];
	if (place->after != NONE) nodes->at[place->after].before = place->before;
	if (place->before != NONE) nodes->at[place->before].after = place->after;
	else nodes->first[list] = place->after;
	if (nodes->first[list] == NONE) nodes->any[list / WORD] &= ~((uint64_t)1 << list % WORD);
}

/* The first list in [from, end) with a node, else `end`. */
static int nodes_next_list(const lk_nodes *nodes, int from, int end) {
	for (int list = from; list < end; list = (list / WORD + 1) * WORD) {
		uint64_t word = nodes->any[list / WORD] >> list % WORD;
		if (!word) continue;
		list += __builtin_ctzll(word);
		return list < end ? list : end;
	}
	return end;
}

lk_status lk_nodes_make(const int *sizes, int count, lk_arena *arena, lk_nodes *out,
                        lk_error *err) {
	*out = (lk_nodes){.count = count, .spare = NONE};
	for (int i = 0; i < count; i++) out->most = sizes[i] > out->most ? sizes[i] : out->most;
	size_t lists = 2 * ((size_t)out->most + 1);
	out->at = LK_ARRAY(arena, lk_jobs_node, (size_t)count);
	out->first = LK_ARRAY(arena, int, lists);
	out->any = LK_ARRAY(arena, uint64_t, lists / WORD + 1);
	if (!out->at || !out->first || !out->any) return lk_oom(err);
	for (size_t i = 0; i < lists; i++) out->first[i] = NONE;
	/* Lists are stacks: the first node is on top. */
	for (int i = count - 1; i >= 0; i--) {
		out->at[i] = (lk_jobs_node){.gpus = sizes[i], .free = sizes[i]};
		lk_nodes_switch_on(out, i);
	}
	return LK_OK;
}

void lk_nodes_free(lk_nodes *nodes) {
	lk_vec_free(&nodes->holdings);
}

void lk_nodes_switch_on(lk_nodes *nodes, int node) {
	nodes->free += nodes->at[node].gpus;
	nodes->on++;
	nodes_link(nodes, node);
}

int lk_nodes_switch_off(lk_nodes *nodes) {
	int end = 2 * (nodes->most + 1), list = nodes_next_list(nodes, nodes->most + 1, end);
	if (list == end) return NONE;
	int node = nodes->first[list];
	nodes_unlink(nodes, node);
	nodes->free -= nodes->at[node].gpus;
	nodes->on--;
	return node;
}

/* ---- holdings of jobs ---- */

static lk_status nodes_hold(lk_nodes *nodes, int node, int gpus, int *holding, lk_error *err) {
	int at = nodes->spare;
	if (at != NONE) {
		nodes->spare = nodes->holdings.at[at].next;
	} else {
		if (!lk_push(&nodes->holdings)) return lk_oom(err);
		at = (int)nodes->holdings.count - 1;
	}
	nodes->holdings.at[at] = (lk_holding){node, gpus, *holding};
	*holding = at;
	nodes_unlink(nodes, node);
	nodes->used += nodes->at[node].free == nodes->at[node].gpus;
	nodes->at[node].free -= gpus;
	nodes->free -= gpus;
	nodes_link(nodes, node);
	return LK_OK;
}

void lk_nodes_release(lk_nodes *nodes, int holding) {
	while (holding != NONE) {
		lk_holding *held = &nodes->holdings.at[holding];
		int next = held->next;
		nodes_unlink(nodes, held->node);
		nodes->at[held->node].free += held->gpus;
		nodes->free += held->gpus;
		nodes->used -= nodes->at[held->node].free == nodes->at[held->node].gpus;
		nodes_link(nodes, held->node);
		held->next = nodes->spare;
		nodes->spare = holding;
		holding = next;
	}
}

/* The node with the least sufficient room; one in use before an empty one. */
static int nodes_fullest(const lk_nodes *nodes, int gpus) {
	int used_end = nodes->most + 1, end = 2 * used_end;
	if (gpus > nodes->most) return NONE;
	int used = nodes_next_list(nodes, gpus, used_end);
	int empty = nodes_next_list(nodes, used_end + gpus, end);
	if (used < used_end && (empty == end || used <= empty - used_end)) return nodes->first[used];
	return empty < end ? nodes->first[empty] : NONE;
}

/* The largest empty node of at most this many GPUs. */
static int nodes_largest_empty(const lk_nodes *nodes, int gpus) {
	int size = gpus < nodes->most ? gpus : nodes->most;
	while (size > 0 && nodes->first[nodes->most + 1 + size] == NONE) size--;
	return size > 0 ? nodes->first[nodes->most + 1 + size] : NONE;
}

lk_status lk_nodes_place(lk_nodes *nodes, int gpus, int *holding, lk_error *err) {
	*holding = NONE;
	if (gpus > nodes->free) return LK_OK;
	for (int left = gpus; left > 0;) {
		int node =
			left > nodes->most ? nodes_largest_empty(nodes, left) : nodes_fullest(nodes, left);
		/* The rest of a large job may be split over several nodes if no node has room for all of
		 * it. */
		if (node == NONE && gpus > nodes->most) node = nodes_largest_empty(nodes, left);
		if (node == NONE) {
			lk_nodes_release(nodes, *holding);
			*holding = NONE;
			return LK_OK;
		}
		int part = left < nodes->at[node].free ? left : nodes->at[node].free;
		LK_TRY(nodes_hold(nodes, node, part, holding, err));
		left -= part;
	}
	return LK_OK;
}
