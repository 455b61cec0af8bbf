/* steps_order.c: reads and writes of each step, which steps must finish before it, and an order:
 * the smallest last value first among the ready steps, so that a program without a schedule keeps
 * its order.
 *
 * A step waits for the writers of what it reads, and an update waits for all readers of the version
 * that it overwrites. Without bundles the order of the program satisfies both. Bundles may form a
 * cycle: refused. */
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "lang/steps/steps_internal.h"

/* ---- sets of ids ---- */

bool lc_ids_add(lk_arena *arena, lc_ids *ids, int id) {
	LK_ASSERT(ids->count >= 0 && id >= 0);
	if ((ids->count & (ids->count - 1)) == 0) { /* full: 0, 1, 2, 4, ... */
		int *more = LK_ARRAY(arena, int, ids->count ? 2 * (size_t)ids->count : 1);
		if (!more) return false;
		if (ids->count) memcpy(more, ids->at, sizeof *more * (size_t)ids->count);
		ids->at = more;
	}
	ids->at[ids->count++] = id;
	return true;
}

lk_status lc_ids_put(lk_arena *arena, lc_ids *ids, int id, lk_error *err) {
	return lc_ids_have(ids, id) || lc_ids_add(arena, ids, id) ? LK_OK : lk_oom(err);
}

/* ---- messages ---- */

enum { SHOWN = 48 };

static lk_status refuse_pass(const lc_maker *maker, const lc_unit *unit, int v, int other,
                             const char *why, lk_error *err) {
	char x[SHOWN], y[SHOWN], label[SHOWN] = "one pass";
	const lc_node *node = lc_node_at(maker->p, v);
	if (unit->fuse >= 0 && maker->p->bundles.at[unit->fuse].name)
		snprintf(label, sizeof label, "%s", maker->p->bundles.at[unit->fuse].name);
	lc_wrong(maker->p, node->line, node->column, err, "%s cannot be one pass: %s %s %s", label,
	         lc_value_text(maker->p, v, x, sizeof x), why,
	         lc_value_text(maker->p, other, y, sizeof y));
	return lk_hint(err, "leave one of them out of the set");
}

/* ---- reads ---- */

/* Whether v is in a register of unit i's pass when it is needed. */
static bool order_in_pass(const lc_maker *maker, int i, int v) {
	lc_family family = lc_ops[lc_node_at(maker->p, v)->op].family;
	return maker->at[v].unit == i && maker->at[v].held != LC_ALIAS &&
	       (family == LC_MAP || family == LC_DROP || lc_node_at(maker->p, v)->op == LC_UPDATE ||
	        maker->units.at[i].step.scatter == v);
}

static lk_status order_reads(lc_maker *maker, int i, int by, int v, lk_error *err);

static lk_status reads_operands(lc_maker *maker, int i, int by, int v, lk_error *err) {
	for (int k = 0; k < lc_node_at(maker->p, v)->inputs; k++)
		LK_TRY(order_reads(maker, i, by, lc_node_at(maker->p, v)->in[k], err));
	return LK_OK;
}

/* Record that value `by` of unit i reads v. Recursion: single numbers made of single numbers; each
 * is entered once. */
static lk_status order_reads(lc_maker *maker, int i, int by, int v, lk_error *err) {
	lc_step *step = &maker->units.at[i].step;
	const lc_node *node = lc_node_at(maker->p, v);
	if (maker->at[v].held == LC_NOWHERE) {
		if (lc_ops[node->op].family == LC_LEAF || lc_ids_have(&step->numbers, v)) return LK_OK;
		LK_TRY(reads_operands(maker, i, by, v, err));
		return lc_ids_put(maker->arena, &maker->units.at[i].step.numbers, v, err);
	}
	if (maker->at[v].held == LC_IN_PLACE) return order_reads(maker, i, by, node->in[0], err);
	if (order_in_pass(maker, i, v)) return LK_OK;
	if (maker->at[maker->at[v].home].unit == i)
		return refuse_pass(maker, &maker->units.at[i], by, v, "needs the complete result of", err);
	return lc_ids_put(maker->arena, &step->reads, v, err);
}

static lk_status unit_reads(lc_maker *maker, int i, lk_error *err) {
	const lc_ids values = maker->units.at[i].step.values;
	for (int k = 0; k < values.count; k++) {
		const lc_node *node = lc_node_at(maker->p, values.at[k]);
		if (node->op != LC_UPDATE)
			LK_TRY(reads_operands(maker, i, values.at[k], values.at[k], err));
		else if (maker->at[node->in[1]].into < 0)
			LK_TRY(order_reads(maker, i, values.at[k], node->in[1], err));
		if (maker->at[values.at[k]].held != LC_STORED) continue;
		LK_TRY(lc_ids_put(maker->arena, &maker->units.at[i].step.writes, values.at[k], err));
	}
	return LK_OK;
}

/* ---- the extents of a pass ---- */

static bool same_part(const lc_layout *a, const lc_layout *b) {
	bool cut_a = a->kind == LC_S || a->kind == LC_ROOT,
		 cut_b = b->kind == LC_S || b->kind == LC_ROOT;
	return cut_a == cut_b && (!cut_a || lc_same_layout(a, b));
}

static bool same_extents(const lc_maker *maker, int v, int w) {
	const lc_node *a = lc_node_at(maker->p, v), *b = lc_node_at(maker->p, w);
	if (a->rank != b->rank || a->list != b->list || !lc_same_group(&a->at, &b->at)) return false;
	for (int d = 0; d < a->rank; d++)
		if (a->dim[d] != b->dim[d]) return false;
	for (int x = 0; x < maker->p->axis_count; x++)
		if (!same_part(&a->layout[x], &b->layout[x])) return false;
	return true;
}

/* The value that defines the extents of v in a pass, or -1 if it may be repeated. */
static int order_extents_of(const lc_maker *maker, const lc_step *step, int v) {
	const lc_node *node = lc_node_at(maker->p, v);
	lc_family family = lc_ops[node->op].family;
	if (family == LC_RED || family == LC_TOTALS || lc_ids_have(&step->gathers, v))
		return node->in[0];
	if (node->op == LC_UPDATE && maker->at[node->in[1]].into == v)
		return -1; /* its gathered operand */
	return maker->at[v].held == LC_STORED || v == step->scatter ? v : -1;
}

static lk_status find_space(lc_maker *maker, lc_unit *unit, lk_error *err) {
	lc_step *step = &unit->step;
	if (step->scatter >= 0 || step->gathers.count) step->kind = LC_STEP_RING;
	if (step->kind != LC_STEP_MAP && step->kind != LC_STEP_RING) return LK_OK;
	for (int k = step->values.count; k-- > 0;) {
		int v = step->values.at[k], extents = order_extents_of(maker, step, v);
		if (extents < 0) continue;
		if (step->space < 0) step->space = extents;
		else if (!same_extents(maker, step->space, extents))
			return refuse_pass(maker, unit, v, step->space, "does not have the extents of", err);
	}
	step->list = step->space >= 0 ? lc_node_at(maker->p, step->space)->list : -1;
	return LK_OK;
}

/* ---- dependencies ---- */

static lk_status order_wait_for(lc_maker *maker, int i, int earlier, lk_error *err) {
	LK_ASSERT(i >= 0 && earlier < (int)maker->units.count);
	if (earlier < 0 || earlier == i) return LK_OK;
	return lc_ids_put(maker->arena, &maker->units.at[i].step.after, earlier, err);
}

static lk_status link_unit(lc_maker *maker, int i, lk_error *err) {
	const lc_ids r = maker->units.at[i].step.reads, values = maker->units.at[i].step.values;
	for (int k = 0; k < r.count; k++) {
		const lc_place *home = &maker->at[maker->at[r.at[k]].home];
		LK_TRY(order_wait_for(maker, i, home->unit, err));
		if (home->next != LC_NEVER)
			LK_TRY(order_wait_for(maker, maker->at[home->next].unit, i, err));
	}
	for (int k = 0; k < values.count; k++)
		if (lc_node_at(maker->p, values.at[k])->op == LC_UPDATE)
			LK_TRY(order_wait_for(maker, i,
			                      maker->at[lc_node_at(maker->p, values.at[k])->in[0]].unit, err));
	return LK_OK;
}

lk_status lc_link_units(lc_maker *maker, lk_error *err) {
	for (size_t i = 0; i < maker->units.count; i++) {
		LK_TRY(unit_reads(maker, (int)i, err));
		LK_TRY(find_space(maker, &maker->units.at[i], err));
	}
	for (size_t i = 0; i < maker->units.count; i++) LK_TRY(link_unit(maker, (int)i, err));
	return LK_OK;
}

/* ---- order ---- */

/* Overlapping units are ordered as one: `lead` is the first of them, else the unit itself. */
static int lead(const lc_maker *maker, int i) {
	if (maker->units.at[i].overlap < 0) return i;
	for (int k = 0; k < i; k++)
		if (maker->units.at[k].overlap == maker->units.at[i].overlap) return k;
	return i;
}

/* Whether all units that unit i waits for are done; `inside` false: except those in its own
 * bundle. */
static bool order_ready(const lc_maker *maker, int i, bool inside) {
	const lc_ids *after = &maker->units.at[i].step.after;
	for (int k = 0; k < after->count; k++) {
		const lc_unit *other = &maker->units.at[after->at[k]];
		bool own = maker->units.at[i].overlap >= 0 && other->overlap == maker->units.at[i].overlap;
		if (!other->ordered && (inside || !own)) return false;
	}
	return true;
}

/* Whether all units with this lead wait for no others, and the largest key among them. */
static bool all_ready(const lc_maker *maker, const int *leads, int of, int *key) {
	*key = -1;
	for (int i = of; i < (int)maker->units.count; i++) {
		if (leads[i] != of) continue;
		if (!order_ready(maker, i, false)) return false;
		if (maker->units.at[i].key > *key) *key = maker->units.at[i].key;
	}
	return true;
}

static int next_single(const lc_maker *maker, const int *leads, int of) {
	int best = -1;
	for (int i = of; i < (int)maker->units.count; i++) {
		if (leads[i] != of || maker->units.at[i].ordered || !order_ready(maker, i, true)) continue;
		if (best < 0 || maker->units.at[i].key < maker->units.at[best].key) best = i;
	}
	return best;
}

/* The set that made a unit of several values, or -1. */
static int order_bundle_of(const lc_maker *maker, const lc_unit *unit) {
	if (unit->fuse >= 0) return unit->fuse;
	return unit->overlap >= 0 ? unit->overlap : lc_node_at(maker->p, unit->key)->bucket;
}

static lk_status refuse_cycle(const lc_maker *maker, lk_error *err) {
	const lc_unit *unit = NULL, *w = NULL;
	char x[SHOWN], y[SHOWN];
	for (size_t i = 0; i < maker->units.count; i++) {
		const lc_unit *at = &maker->units.at[i];
		if (at->ordered) continue;
		if (!unit && order_bundle_of(maker, at) >= 0) unit = at;
		else if (!w) w = at;
	}
	if (!unit)
		return lk_fail(err, LK_ERR_INTERNAL, maker->p->name, "steps that wait for each other");
	const lc_node *node = lc_node_at(maker->p, unit->key);
	const lc_bundle *bundle = &maker->p->bundles.at[order_bundle_of(maker, unit)];
	lc_wrong(maker->p, node->line, node->column, err,
	         "the set %s with %s depends on itself through %s, which is outside of it",
	         bundle->name ? bundle->name : "", lc_value_text(maker->p, unit->key, x, sizeof x),
	         w ? lc_value_text(maker->p, w->key, y, sizeof y) : "another set");
	return lk_hint(err, "add it to the set, or take less together");
}

static lk_status order_group(lc_maker *maker, const int *leads, int of, int *order, int *done,
                             lk_error *err) {
	int members = 0;
	for (int i = of; i < (int)maker->units.count; i++) members += leads[i] == of;
	for (; members > 0; members--) {
		int i = next_single(maker, leads, of);
		if (i < 0) return refuse_cycle(maker, err);
		maker->units.at[i].ordered = true;
		order[(*done)++] = i;
	}
	return LK_OK;
}

lk_status lc_order_units(lc_maker *maker, int *order, lk_error *err) {
	int count = (int)maker->units.count, done = 0;
	int *leads = LK_ARRAY(&maker->scratch, int, (size_t)count);
	if (!leads) return lk_oom(err);
	for (int i = 0; i < count; i++) leads[i] = lead(maker, i);
	while (done < count) {
		int best = -1, smallest = 0, key;
		for (int i = 0; i < count; i++) {
			bool later =
				best >= 0 && maker->units.at[i].overlap < 0 && maker->units.at[i].key > smallest;
			if (leads[i] != i || maker->units.at[i].ordered || later) continue;
			if (all_ready(maker, leads, i, &key) && (best < 0 || key < smallest)) {
				best = i;
				smallest = key;
			}
		}
		if (best < 0) return refuse_cycle(maker, err);
		int before = done;
		LK_TRY(order_group(maker, leads, best, order, &done, err));
		LK_ASSERT(done > before && done <= count);
	}
	return LK_OK;
}
