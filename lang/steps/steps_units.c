/* steps_units.c: where each value is held, and which step computes it.
 *
 * Values are decided from the last to the first, so that all users of a value are decided. A value
 * read only by passes (not by collectives and the like) need not be stored: it is recomputed, read
 * in place, or a register of the only pass that reads it. A late reader of a state's old version
 * through a value that is not stored would have to run before the state's update; if the order of
 * the program forbids that, the value is stored. */
#include "base/arena.h"
#include "lang/steps/steps_internal.h"

static bool is_version(const lc_node *node) {
	return node->op == LC_STATE || node->op == LC_UPDATE;
}

int lc_fused(const lc_maker *maker, int v) {
	int b = lc_node_at(maker->p, v)->fuse;
	return b >= 0 && (size_t)b < maker->p->bundles.count && maker->p->bundles.at[b].kind == LC_FUSE
	           ? b
	           : -1;
}

/* ---- what is known beforehand: users, versions ---- */

static lk_status find_users(lc_maker *maker, lk_error *err) {
	int total = 0;
	for (int v = 0; v < maker->count; v++)
		for (int k = 0; k < lc_node_at(maker->p, v)->inputs; k++) {
			maker->at[lc_node_at(maker->p, v)->in[k]].users++;
			total++;
		}
	maker->users = LK_ARRAY(&maker->scratch, int, (size_t)total + 1);
	if (!maker->users) return lk_oom(err);
	for (int v = 0, next = 0; v < maker->count; v++) {
		maker->at[v].first = next;
		next += maker->at[v].users;
		maker->at[v].users = 0;
	}
	for (int v = 0; v < maker->count; v++)
		for (int k = 0; k < lc_node_at(maker->p, v)->inputs; k++) {
			lc_place *place = &maker->at[lc_node_at(maker->p, v)->in[k]];
			maker->users[place->first + place->users++] = v;
		}
	return LK_OK;
}

/* A slice whose elements lie together: only dims of extent 1 come before its dim. */
static bool contiguous(const lc_maker *maker, int v) {
	const lc_node *node = lc_node_at(maker->p, v);
	for (int d = 0; d < node->d; d++)
		if (node->dim[d] != 0) return false;
	return lc_node_at(maker->p, node->in[0])->op != LC_SLICE || contiguous(maker, node->in[0]);
}

static void find_versions(lc_maker *maker) {
	for (int v = 0; v < maker->count; v++) maker->at[v].next = maker->at[v].keeps = LC_NEVER;
	for (int v = 0; v < maker->count; v++)
		if (lc_node_at(maker->p, v)->op == LC_UPDATE)
			maker->at[lc_node_at(maker->p, v)->in[0]].next = v;
	for (int v = 0; v < maker->count; v++) {
		const lc_node *node = lc_node_at(maker->p, v);
		lc_place *place = &maker->at[v];
		if (is_version(node)) place->keeps = place->next;
		bool through = node->op == LC_SLICE || lc_relabels(node);
		if (!through &&
		    (!lc_is_pointwise(node) || (node->name && node->rank && lc_fused(maker, v) < 0)))
			continue;
		for (int k = 0; k < node->inputs; k++) {
			const lc_place *o = &maker->at[node->in[k]];
			if (through && lc_is_pointwise(lc_node_at(maker->p, node->in[k])))
				continue; /* stored, for it is read from memory */
			if (o->keeps < place->keeps) place->keeps = o->keeps;
		}
	}
}

/* ---- units ---- */

static lk_status new_unit(lc_maker *maker, int v, lc_step_kind kind, int *out, lk_error *err) {
	const lc_node *node = lc_node_at(maker->p, v);
	if (!lk_push(&maker->units)) return lk_oom(err);
	*out = (int)maker->units.count - 1;
	lc_unit *unit = lk_last(&maker->units);
	unit->step =
		(lc_step){.kind = kind, .space = -1, .scatter = -1, .list = node->list, .chunk_dim = -1};
	if (node->op == LC_TOTAL) unit->step.list = lc_node_at(maker->p, node->in[0])->list;
	unit->key = v;
	unit->fuse = unit->overlap = -1;
	int b = node->overlap;
	if (b >= 0 && (size_t)b < maker->p->bundles.count && maker->p->bundles.at[b].kind == LC_OVERLAP)
		unit->overlap = b;
	return LK_OK;
}

static lk_status own_unit(lc_maker *maker, int v, lc_step_kind kind, lk_error *err) {
	maker->at[v].held = LC_STORED;
	return new_unit(maker, v, kind, &maker->at[v].unit, err);
}

static int fuse_unit(const lc_maker *maker, int bundle) {
	for (size_t i = 0; i < maker->units.count; i++)
		if (maker->units.at[i].fuse == bundle) return (int)i;
	return -1;
}

static lk_status join_fuse(lc_maker *maker, int v, lk_error *err) {
	int unit = fuse_unit(maker, lc_fused(maker, v));
	if (unit < 0) {
		LK_TRY(new_unit(maker, v, LC_STEP_MAP, &unit, err));
		maker->units.at[unit].fuse = lc_fused(maker, v);
	}
	maker->at[v].unit = unit;
	if (maker->units.at[unit].overlap < 0 && lc_node_at(maker->p, v)->overlap >= 0)
		maker->units.at[unit].overlap = lc_node_at(maker->p, v)->overlap;
	return LK_OK;
}

/* ---- how users read ---- */

static bool gathered_by_ring(const lc_maker *maker, int u) {
	return lc_node_at(maker->p, u)->op == LC_ALLGATHER && maker->at[u].unit >= 0 &&
	       maker->units.at[maker->at[u].unit].fuse >= 0;
}

/* Whether user u needs v to lie in memory. */
static bool from_memory(const lc_maker *maker, int v, int u) {
	const lc_node *node = lc_node_at(maker->p, u);
	if (node->op == LC_OUT) return maker->at[u].held == LC_ALIAS;
	if (node->op == LC_SLICE)
		return lc_node_at(maker->p, v)->op != LC_SLICE || maker->at[u].held != LC_IN_PLACE;
	if (node->op == LC_UPDATE || lc_is_pointwise(node) || lc_is_reduction(node)) return false;
	return !gathered_by_ring(maker, u);
}

static bool any_from_memory(const lc_maker *maker, int v) {
	for (int i = 0; i < maker->at[v].users; i++)
		if (from_memory(maker, v, maker->users[maker->at[v].first + i])) return true;
	return false;
}

/* Whether v, not being stored, is read by all its users before what it is made of is overwritten;
 * notes when. */
static bool units_kept(lc_maker *maker, int v) {
	lc_place *place = &maker->at[v];
	int until = place->keeps == LC_NEVER ? -1 : maker->at[place->keeps].unit;
	bool safe = true;
	place->last = -1;
	for (int i = 0; i < place->users; i++) {
		int u = maker->users[place->first + i], unit = maker->at[u].unit;
		bool open = unit < 0 && lc_node_at(maker->p, u)->op != LC_OUT;
		int when;
		if (unit >= 0) when = maker->units.at[unit].key;
		else if (open) when = maker->at[u].last;
		else when = LC_NEVER;
		if (when > place->last) place->last = when;
		if (when > place->keeps && (unit < 0 || unit != until)) safe = false;
	}
	return safe;
}

/* The one pass that reads v, or -1. */
static int only_pass(const lc_maker *maker, int v) {
	int unit = -1;
	for (int i = 0; i < maker->at[v].users; i++) {
		int u = maker->users[maker->at[v].first + i];
		if (from_memory(maker, v, u) || maker->at[u].unit < 0 ||
		    (unit >= 0 && maker->at[u].unit != unit))
			return -1;
		unit = maker->at[u].unit;
	}
	return unit >= 0 && maker->units.at[unit].step.kind == LC_STEP_MAP ? unit : -1;
}

static bool used_outside(const lc_maker *maker, int v) {
	int unit = maker->at[v].unit;
	for (int i = 0; i < maker->at[v].users; i++) {
		int u = maker->users[maker->at[v].first + i];
		if (from_memory(maker, v, u) || maker->at[u].unit != unit) return true;
	}
	return maker->at[v].users == 0;
}

/* ---- one value ---- */

static lk_status decide_number(lc_maker *maker, int v, lk_error *err) {
	if (maker->at[v].users && units_kept(maker, v) && !any_from_memory(maker, v)) {
		maker->at[v].held = LC_NOWHERE;
		return LK_OK;
	}
	return own_unit(maker, v, LC_STEP_MAP, err);
}

static lk_status decide_pointwise(lc_maker *maker, int v, lk_error *err) {
	lc_place *place = &maker->at[v];
	const lc_node *node = lc_node_at(maker->p, v);
	if (node->rank == 0) return decide_number(maker, v, err);
	if (lc_fused(maker, v) >= 0) {
		LK_TRY(join_fuse(maker, v, err));
		place->held = used_outside(maker, v) ? LC_STORED : LC_REGISTER;
		return LK_OK;
	}
	int unit = node->name ? -1 : only_pass(maker, v);
	bool joins = unit >= 0 && maker->units.at[unit].step.list == node->list &&
	             (maker->units.at[unit].fuse >= 0 || units_kept(maker, v));
	if (!joins) return own_unit(maker, v, LC_STEP_MAP, err);
	place->unit = unit;
	place->held = LC_REGISTER;
	return LK_OK;
}

static lk_status decide_slice(lc_maker *maker, int v, lk_error *err) {
	bool together = contiguous(maker, v);
	if (!maker->at[v].users || !units_kept(maker, v) || (!together && any_from_memory(maker, v)))
		return own_unit(maker, v, LC_STEP_MAP, err);
	maker->at[v].held = together ? LC_ALIAS : LC_IN_PLACE;
	return LK_OK;
}

static lk_status decide_relabelled(lc_maker *maker, int v, lk_error *err) {
	bool turns = lc_ops[lc_node_at(maker->p, v)->op].family == LC_VIEW; /* its dims are others */
	if (!units_kept(maker, v)) return own_unit(maker, v, turns ? LC_STEP_ROWS : LC_STEP_MAP, err);
	maker->at[v].held = LC_ALIAS;
	return LK_OK;
}

/* An output is its operand's memory, unless there is none, or it is overwritten later. */
static lk_status decide_out(lc_maker *maker, int v, lk_error *err) {
	int operand = lc_node_at(maker->p, v)->in[0];
	const lc_node *node = lc_node_at(maker->p, operand);
	bool through = is_version(node) || node->op == LC_SLICE || lc_relabels(node);
	bool lies = node->op != LC_SCALAR && node->op != LC_CONST && node->op != LC_SIZE;
	if (node->op == LC_SLICE && !contiguous(maker, operand)) lies = false;
	if (!lies || (through && maker->at[operand].keeps != LC_NEVER))
		return own_unit(maker, v, LC_STEP_MAP, err);
	maker->at[v].held = LC_ALIAS;
	return LK_OK;
}

/* Whether update v takes what its own bundle gathers, and nothing of the bundle reads it: the pass
 * reads this rank's slice of the state, element by element, where the gather writes. */
static bool ring_writes(const lc_maker *maker, int v) {
	int e = lc_node_at(maker->p, v)->in[1], bundle = lc_fused(maker, v);
	if (lc_node_at(maker->p, e)->op != LC_ALLGATHER || bundle < 0 || lc_fused(maker, e) != bundle)
		return false;
	for (int i = 0; i < maker->at[v].users; i++)
		if (lc_fused(maker, maker->users[maker->at[v].first + i]) == bundle) return false;
	return true;
}

/* Whether what update v takes may be written to the state directly: by a step that does not read
 * that memory. */
static bool written_directly(const lc_maker *maker, int v) {
	int e = lc_node_at(maker->p, v)->in[1];
	const lc_node *node = lc_node_at(maker->p, e);
	lc_family family = lc_ops[node->op].family;
	bool heavy = lc_is_collective(node) || family == LC_CONTRACT || family == LC_ROWS ||
	             family == LC_VIEW || node->op == LC_SEND;
	if (!heavy || lc_relabels(node) || maker->at[e].users != 1 || node->bucket >= 0 ||
	    (lc_fused(maker, e) >= 0 && !ring_writes(maker, v)))
		return false;
	for (int k = 0; k < node->inputs; k++) {
		int o = node->in[k];
		while (lc_node_at(maker->p, o)->op == LC_SLICE || lc_relabels(lc_node_at(maker->p, o)))
			o = lc_node_at(maker->p, o)->in[0];
		if (is_version(lc_node_at(maker->p, o)) &&
		    lc_node_at(maker->p, o)->name == lc_node_at(maker->p, v)->name)
			return false;
	}
	return true;
}

static lk_status decide_update(lc_maker *maker, int v, lk_error *err) {
	lc_place *place = &maker->at[v];
	place->held = LC_STORED;
	if (written_directly(maker, v)) {
		maker->at[lc_node_at(maker->p, v)->in[1]].into = v;
		return LK_OK; /* its unit is that of what it takes */
	}
	if (lc_fused(maker, v) >= 0 && lc_node_at(maker->p, v)->rank) return join_fuse(maker, v, err);
	return own_unit(maker, v, LC_STEP_MAP, err);
}

static lk_status decide_reduction(lc_maker *maker, int v, lk_error *err) {
	if (lc_fused(maker, v) < 0 || lc_node_at(maker->p, v)->op == LC_TOTAL)
		return own_unit(maker, v, LC_STEP_MAP, err);
	maker->at[v].held = LC_STORED;
	return join_fuse(maker, v, err);
}

/* A reduce-scatter and all-gathers along one dim and axis join the pass of their bundle; others
 * stand alone. */
static bool ring_takes(const lc_maker *maker, int v) {
	const lc_node *node = lc_node_at(maker->p, v);
	int unit = fuse_unit(maker, lc_fused(maker, v));
	if (node->op == LC_ALLGATHER) {
		const lc_node *value = lc_node_at(maker->p, node->in[0]);
		bool inside = lc_fused(maker, node->in[0]) == lc_fused(maker, v);
		if (!inside &&
		    (value->name || !lc_is_pointwise(value) || maker->at[node->in[0]].users != 1))
			return false;
		for (int i = 0; i < maker->at[v].users && maker->at[v].into < 0; i++)
			if (lc_fused(maker, maker->users[maker->at[v].first + i]) == lc_fused(maker, v))
				return false;
		if (unit < 0 || maker->units.at[unit].step.gathers.count == 0) return true;
		const lc_node *other = lc_node_at(maker->p, maker->units.at[unit].step.gathers.at[0]);
		return other->axis == node->axis && other->d == node->d;
	}
	if (node->op != LC_REDUCESCATTER || unit < 0 || maker->units.at[unit].step.scatter >= 0)
		return false;
	const lc_ids *gathers = &maker->units.at[unit].step.gathers;
	const lc_node *other = gathers->count ? lc_node_at(maker->p, gathers->at[0]) : node;
	return other->axis == node->axis && other->d == node->d;
}

static lk_status decide_ring(lc_maker *maker, int v, lk_error *err) {
	lc_place *place = &maker->at[v];
	LK_TRY(join_fuse(maker, v, err));
	lc_step *step = &maker->units.at[place->unit].step;
	place->held = LC_STORED;
	if (lc_node_at(maker->p, v)->op == LC_ALLGATHER)
		return lc_ids_put(maker->arena, &step->gathers, v, err);
	step->scatter = v;
	if (!used_outside(maker, v)) place->held = LC_REGISTER;
	return LK_OK;
}

/* The unit of a bucket that holds collectives like v, or -1. */
static int bucket_unit(const lc_maker *maker, int v) {
	const lc_node *node = lc_node_at(maker->p, v);
	for (int u = v + 1; u < maker->count && node->bucket >= 0; u++) {
		const lc_node *value = lc_node_at(maker->p, u);
		if (value->bucket == node->bucket && value->op == node->op && value->axis == node->axis &&
		    value->reduce == node->reduce && value->d == node->d && value->e == node->e &&
		    value->dtype == node->dtype && value->list == node->list && value->root == node->root &&
		    maker->units.at[maker->at[u].unit].fuse < 0)
			return maker->at[u].unit;
	}
	return -1;
}

static lk_status decide_collective(lc_maker *maker, int v, lk_error *err) {
	lc_place *place = &maker->at[v];
	int bucket = lc_node_at(maker->p, v)->bucket;
	bool joined = lc_fused(maker, v) >= 0 && ring_takes(maker, v);
	place->held = LC_STORED;
	if (joined) LK_TRY(decide_ring(maker, v, err));
	else if ((place->unit = bucket_unit(maker, v)) < 0)
		LK_TRY(own_unit(maker, v, LC_STEP_COMM, err));
	if (bucket >= 0 && (size_t)bucket < maker->p->bundles.count &&
	    maker->p->bundles.at[bucket].kind == LC_BUCKET)
		maker->units.at[place->unit].step.bucket = maker->p->bundles.at[bucket].size;
	return LK_OK;
}

/* What one kernel makes of the same operands is one unit, where the first is computed. */
static lk_status decide_attention(lc_maker *maker, int v, lk_error *err) {
	const lc_node *node = lc_node_at(maker->p, v);
	maker->at[v].held = LC_STORED;
	for (size_t i = 0; i < maker->units.count; i++) {
		lc_unit *unit = &maker->units.at[i];
		const lc_node *other = lc_node_at(maker->p, unit->key);
		if (unit->step.kind != LC_STEP_ATTEND || !lc_attend_siblings(node, other) ||
		    other->overlap != node->overlap)
			continue;
		maker->at[v].unit = (int)i;
		unit->key = v;
		return LK_OK;
	}
	return own_unit(maker, v, LC_STEP_ATTEND, err);
}

static lk_status units_decide(lc_maker *maker, int v, lk_error *err) {
	const lc_node *node = lc_node_at(maker->p, v);
	switch (lc_ops[node->op].family) {
	case LC_LEAF:
		maker->at[v].held = node->op == LC_INPUT || node->op == LC_STATE ? LC_STORED : LC_NOWHERE;
		return LK_OK;
	case LC_MAP:
	case LC_DROP: return decide_pointwise(maker, v, err);
	case LC_CONTRACT: return own_unit(maker, v, LC_STEP_CONTRACT, err);
	case LC_BLOCK:
	case LC_ROWS: return own_unit(maker, v, LC_STEP_ROWS, err);
	case LC_ATTEND: return decide_attention(maker, v, err);
	case LC_VIEW:
		return lc_relabels(node) ? decide_relabelled(maker, v, err)
		                         : own_unit(maker, v, LC_STEP_ROWS, err);
	case LC_RED:
	case LC_TOTALS: return decide_reduction(maker, v, err);
	case LC_COMM:
		if (node->op == LC_SLICE) return decide_slice(maker, v, err);
		return lc_relabels(node) ? decide_relabelled(maker, v, err)
		                         : decide_collective(maker, v, err);
	case LC_MOVE: return own_unit(maker, v, LC_STEP_SEND, err);
	case LC_EFFECT:
		return node->op == LC_UPDATE ? decide_update(maker, v, err) : decide_out(maker, v, err);
	}
	return LK_OK;
}

lk_status lc_make_units(lc_maker *maker, lk_error *err) {
	LK_TRY(find_users(maker, err));
	for (int v = 0; v < maker->count; v++) maker->at[v].unit = maker->at[v].into = -1;
	find_versions(maker);
	for (int v = maker->count; v-- > 0;) {
		LK_TRY(units_decide(maker, v, err));
		int into = maker->at[v].into;
		if (into < 0) continue;
		maker->at[into].unit = maker->at[v].unit;
		maker->units.at[maker->at[v].unit].key = into;
	}
	for (int v = 0; v < maker->count; v++) {
		int unit = maker->at[v].unit;
		maker->at[v].home = maker->at[v].held == LC_ALIAS || maker->at[v].held == LC_IN_PLACE
		                        ? maker->at[lc_node_at(maker->p, v)->in[0]].home
		                        : v;
		if (unit >= 0) LK_TRY(lc_ids_put(maker->arena, &maker->units.at[unit].step.values, v, err));
	}
	return LK_OK;
}
