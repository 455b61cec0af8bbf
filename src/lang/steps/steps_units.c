/* steps_units.c: where each value is held, and which step computes it.
 *
 * Values are decided from the last to the first, so that all users of a value are. What is read again only by passes
 * (not by collectives and the like) need not be stored: it is recomputed, read in place, or a register of the one pass that
 * reads it. Whatever reads a state's old version late, through something that is not stored, would have to run before
 * the state's update; where the order of the program forbids that, it is stored.
 */
#include "lang/steps/steps_internal.h"

static bool pointwise(const lc_node *n) {
	return lc_ops[n->op].family == LC_MAP || lc_ops[n->op].family == LC_DROP;
}
static bool reduces(const lc_node *n) {
	return lc_ops[n->op].family == LC_RED || lc_ops[n->op].family == LC_TOTALS;
}
static bool relabels(const lc_node *n) { return n->op == LC_LOCAL || n->op == LC_SLICED; }
static bool is_version(const lc_node *n) { return n->op == LC_STATE || n->op == LC_UPDATE; }
static bool collective(const lc_node *n) {
	return lc_ops[n->op].family == LC_COMM && n->op != LC_SLICE && !relabels(n);
}

int lc_fused(const lc_maker *m, int v) {
	int b = lc_value(m, v)->fuse;
	return b >= 0 && (size_t)b < m->p->bundles.count && m->p->bundles.at[b].kind == LC_FUSE ? b : -1;
}

/* ---- what is known beforehand: users, versions ---- */

static lk_status find_users(lc_maker *m, lk_error *err) {
	int total = 0;
	for (int v = 0; v < m->count; v++)
		for (int k = 0; k < lc_value(m, v)->inputs; k++) m->at[lc_value(m, v)->in[k]].users++, total++;
	m->users = LK_ARRAY(&m->scratch, int, (size_t)total + 1);
	if (!m->users) return lk_oom(err);
	for (int v = 0, next = 0; v < m->count; v++) {
		m->at[v].first = next;
		next += m->at[v].users;
		m->at[v].users = 0;
	}
	for (int v = 0; v < m->count; v++)
		for (int k = 0; k < lc_value(m, v)->inputs; k++) {
			lc_place *x = &m->at[lc_value(m, v)->in[k]];
			m->users[x->first + x->users++] = v;
		}
	return LK_OK;
}

/* A slice whose elements lie together: only dims of extent 1 stand before its dim. */
static bool contiguous(const lc_maker *m, int v) {
	const lc_node *n = lc_value(m, v);
	for (int d = 0; d < n->d; d++)
		if (n->dim[d] != 0) return false;
	return lc_value(m, n->in[0])->op != LC_SLICE || contiguous(m, n->in[0]);
}

static void find_versions(lc_maker *m) {
	for (int v = 0; v < m->count; v++) m->at[v].next = m->at[v].keeps = LC_NEVER;
	for (int v = 0; v < m->count; v++)
		if (lc_value(m, v)->op == LC_UPDATE) m->at[lc_value(m, v)->in[0]].next = v;
	for (int v = 0; v < m->count; v++) {
		const lc_node *n = lc_value(m, v);
		lc_place *x = &m->at[v];
		if (is_version(n)) x->keeps = x->next;
		bool through = n->op == LC_SLICE || relabels(n);
		if (!through && (!pointwise(n) || (n->name && n->rank && lc_fused(m, v) < 0))) continue;
		for (int k = 0; k < n->inputs; k++) {
			const lc_place *o = &m->at[n->in[k]];
			if (through && pointwise(lc_value(m, n->in[k]))) continue; /* stored, for it is read from memory */
			if (o->keeps < x->keeps) x->keeps = o->keeps;
		}
	}
}

/* ---- units ---- */

static lk_status new_unit(lc_maker *m, int v, lc_step_kind kind, int *out, lk_error *err) {
	const lc_node *n = lc_value(m, v);
	if (!lk_push(&m->units)) return lk_oom(err);
	*out = (int)m->units.count - 1;
	lc_unit *u = lk_last(&m->units);
	u->step = (lc_step){.kind = kind, .space = -1, .scatter = -1, .list = n->list, .chunk_dim = -1};
	if (n->op == LC_TOTAL) u->step.list = lc_value(m, n->in[0])->list;
	u->key = v, u->fuse = u->overlap = -1;
	int b = n->overlap;
	if (b >= 0 && (size_t)b < m->p->bundles.count && m->p->bundles.at[b].kind == LC_OVERLAP) u->overlap = b;
	return LK_OK;
}

static lk_status own_unit(lc_maker *m, int v, lc_step_kind kind, lk_error *err) {
	m->at[v].held = LC_STORED;
	return new_unit(m, v, kind, &m->at[v].unit, err);
}

static int fuse_unit(const lc_maker *m, int bundle) {
	for (size_t i = 0; i < m->units.count; i++)
		if (m->units.at[i].fuse == bundle) return (int)i;
	return -1;
}

static lk_status join_fuse(lc_maker *m, int v, lk_error *err) {
	int unit = fuse_unit(m, lc_fused(m, v));
	if (unit < 0) {
		LK_TRY(new_unit(m, v, LC_STEP_MAP, &unit, err));
		m->units.at[unit].fuse = lc_fused(m, v);
	}
	m->at[v].unit = unit;
	if (m->units.at[unit].overlap < 0 && lc_value(m, v)->overlap >= 0) m->units.at[unit].overlap = lc_value(m, v)->overlap;
	return LK_OK;
}

/* ---- how users read ---- */

static bool gathered_by_ring(const lc_maker *m, int u) {
	return lc_value(m, u)->op == LC_ALLGATHER && m->at[u].unit >= 0 && m->units.at[m->at[u].unit].fuse >= 0;
}

/* Whether user u needs v to lie in memory. */
static bool from_memory(const lc_maker *m, int v, int u) {
	const lc_node *n = lc_value(m, u);
	if (n->op == LC_OUT) return m->at[u].held == LC_ALIAS;
	if (n->op == LC_SLICE) return lc_value(m, v)->op != LC_SLICE || m->at[u].held != LC_IN_PLACE;
	if (n->op == LC_UPDATE || pointwise(n) || reduces(n)) return false;
	return !gathered_by_ring(m, u);
}

static bool any_from_memory(const lc_maker *m, int v) {
	for (int i = 0; i < m->at[v].users; i++)
		if (from_memory(m, v, m->users[m->at[v].first + i])) return true;
	return false;
}

/* Whether v, not being stored, is read by all its users before what it is made of is overwritten; notes when. */
static bool kept(lc_maker *m, int v) {
	lc_place *x = &m->at[v];
	int until = x->keeps == LC_NEVER ? -1 : m->at[x->keeps].unit;
	bool safe = true;
	x->last = -1;
	for (int i = 0; i < x->users; i++) {
		int u = m->users[x->first + i], unit = m->at[u].unit;
		bool open = unit < 0 && lc_value(m, u)->op != LC_OUT;
		int when = unit >= 0 ? m->units.at[unit].key : open ? m->at[u].last : LC_NEVER;
		if (when > x->last) x->last = when;
		if (when > x->keeps && (unit < 0 || unit != until)) safe = false;
	}
	return safe;
}

/* The one pass that reads v, or -1. */
static int only_pass(const lc_maker *m, int v) {
	int unit = -1;
	for (int i = 0; i < m->at[v].users; i++) {
		int u = m->users[m->at[v].first + i];
		if (from_memory(m, v, u) || m->at[u].unit < 0 || (unit >= 0 && m->at[u].unit != unit)) return -1;
		unit = m->at[u].unit;
	}
	return unit >= 0 && m->units.at[unit].step.kind == LC_STEP_MAP ? unit : -1;
}

static bool used_outside(const lc_maker *m, int v) {
	int unit = m->at[v].unit;
	for (int i = 0; i < m->at[v].users; i++) {
		int u = m->users[m->at[v].first + i];
		if (from_memory(m, v, u) || m->at[u].unit != unit) return true;
	}
	return m->at[v].users == 0;
}

/* ---- one value ---- */

static lk_status decide_number(lc_maker *m, int v, lk_error *err) {
	if (m->at[v].users && kept(m, v) && !any_from_memory(m, v)) {
		m->at[v].held = LC_NOWHERE;
		return LK_OK;
	}
	return own_unit(m, v, LC_STEP_MAP, err);
}

static lk_status decide_pointwise(lc_maker *m, int v, lk_error *err) {
	lc_place *x = &m->at[v];
	const lc_node *n = lc_value(m, v);
	if (n->rank == 0) return decide_number(m, v, err);
	if (lc_fused(m, v) >= 0) {
		LK_TRY(join_fuse(m, v, err));
		x->held = used_outside(m, v) ? LC_STORED : LC_REGISTER;
		return LK_OK;
	}
	int unit = n->name ? -1 : only_pass(m, v);
	bool joins = unit >= 0 && m->units.at[unit].step.list == n->list && (m->units.at[unit].fuse >= 0 || kept(m, v));
	if (!joins) return own_unit(m, v, LC_STEP_MAP, err);
	x->unit = unit, x->held = LC_REGISTER;
	return LK_OK;
}

static lk_status decide_slice(lc_maker *m, int v, lk_error *err) {
	bool together = contiguous(m, v);
	if (!m->at[v].users || !kept(m, v) || (!together && any_from_memory(m, v))) return own_unit(m, v, LC_STEP_MAP, err);
	m->at[v].held = together ? LC_ALIAS : LC_IN_PLACE;
	return LK_OK;
}

static lk_status decide_relabelled(lc_maker *m, int v, lk_error *err) {
	if (!kept(m, v)) return own_unit(m, v, LC_STEP_MAP, err);
	m->at[v].held = LC_ALIAS;
	return LK_OK;
}

/* An output is its operand's memory, unless there is none, or it is overwritten later. */
static lk_status decide_out(lc_maker *m, int v, lk_error *err) {
	int operand = lc_value(m, v)->in[0];
	const lc_node *x = lc_value(m, operand);
	bool through = is_version(x) || x->op == LC_SLICE || relabels(x);
	bool lies = x->op != LC_SCALAR && x->op != LC_CONST && x->op != LC_SIZE;
	if (x->op == LC_SLICE && !contiguous(m, operand)) lies = false;
	if (!lies || (through && m->at[operand].keeps != LC_NEVER)) return own_unit(m, v, LC_STEP_MAP, err);
	m->at[v].held = LC_ALIAS;
	return LK_OK;
}

/* Whether update v takes what its own bundle gathers, and nothing of the bundle reads it: the pass reads this rank's slice
 * of the state, element by element, where the gather writes. */
static bool ring_writes(const lc_maker *m, int v) {
	int e = lc_value(m, v)->in[1], bundle = lc_fused(m, v);
	if (lc_value(m, e)->op != LC_ALLGATHER || bundle < 0 || lc_fused(m, e) != bundle) return false;
	for (int i = 0; i < m->at[v].users; i++)
		if (lc_fused(m, m->users[m->at[v].first + i]) == bundle) return false;
	return true;
}

/* Whether what update v takes may be written to the state directly: by a step that does not read that memory. */
static bool written_directly(const lc_maker *m, int v) {
	int e = lc_value(m, v)->in[1];
	const lc_node *n = lc_value(m, e);
	bool heavy = collective(n) || lc_ops[n->op].family == LC_CONTRACT || n->op == LC_GATHER_ROWS || n->op == LC_SEND;
	if (!heavy || m->at[e].users != 1 || n->bucket >= 0 || (lc_fused(m, e) >= 0 && !ring_writes(m, v))) return false;
	for (int k = 0; k < n->inputs; k++) {
		int o = n->in[k];
		while (lc_value(m, o)->op == LC_SLICE || relabels(lc_value(m, o))) o = lc_value(m, o)->in[0];
		if (is_version(lc_value(m, o)) && lc_value(m, o)->name == lc_value(m, v)->name) return false;
	}
	return true;
}

static lk_status decide_update(lc_maker *m, int v, lk_error *err) {
	lc_place *x = &m->at[v];
	x->held = LC_STORED;
	if (written_directly(m, v)) {
		m->at[lc_value(m, v)->in[1]].into = v;
		return LK_OK; /* its unit is that of what it takes */
	}
	if (lc_fused(m, v) >= 0 && lc_value(m, v)->rank) return join_fuse(m, v, err);
	return own_unit(m, v, LC_STEP_MAP, err);
}

static lk_status decide_reduction(lc_maker *m, int v, lk_error *err) {
	if (lc_fused(m, v) < 0 || lc_value(m, v)->op == LC_TOTAL) return own_unit(m, v, LC_STEP_MAP, err);
	m->at[v].held = LC_STORED;
	return join_fuse(m, v, err);
}

/* A reduce-scatter and all-gathers along one dim and axis join the pass of their bundle; others stand alone. */
static bool ring_takes(const lc_maker *m, int v) {
	const lc_node *n = lc_value(m, v);
	int unit = fuse_unit(m, lc_fused(m, v));
	if (n->op == LC_ALLGATHER) {
		const lc_node *x = lc_value(m, n->in[0]);
		bool inside = lc_fused(m, n->in[0]) == lc_fused(m, v);
		if (!inside && (x->name || !pointwise(x) || m->at[n->in[0]].users != 1)) return false;
		for (int i = 0; i < m->at[v].users && m->at[v].into < 0; i++)
			if (lc_fused(m, m->users[m->at[v].first + i]) == lc_fused(m, v)) return false;
		if (unit < 0 || m->units.at[unit].step.gathers.count == 0) return true;
		const lc_node *other = lc_value(m, m->units.at[unit].step.gathers.at[0]);
		return other->axis == n->axis && other->d == n->d;
	}
	if (n->op != LC_REDUCESCATTER || unit < 0 || m->units.at[unit].step.scatter >= 0) return false;
	const lc_ids *gathers = &m->units.at[unit].step.gathers;
	const lc_node *other = gathers->count ? lc_value(m, gathers->at[0]) : n;
	return other->axis == n->axis && other->d == n->d;
}

static lk_status decide_ring(lc_maker *m, int v, lk_error *err) {
	lc_place *x = &m->at[v];
	LK_TRY(join_fuse(m, v, err));
	lc_step *step = &m->units.at[x->unit].step;
	x->held = LC_STORED;
	if (lc_value(m, v)->op == LC_ALLGATHER) return lc_ids_put(m->arena, &step->gathers, v, err);
	step->scatter = v;
	if (!used_outside(m, v)) x->held = LC_REGISTER;
	return LK_OK;
}

/* The unit of a bucket that holds collectives like v, or -1. */
static int bucket_unit(const lc_maker *m, int v) {
	const lc_node *n = lc_value(m, v);
	for (int u = v + 1; u < m->count && n->bucket >= 0; u++) {
		const lc_node *o = lc_value(m, u);
		if (o->bucket == n->bucket && o->op == n->op && o->axis == n->axis && o->reduce == n->reduce && o->d == n->d &&
		    o->dtype == n->dtype && o->list == n->list && o->root == n->root && m->units.at[m->at[u].unit].fuse < 0)
			return m->at[u].unit;
	}
	return -1;
}

static lk_status decide_collective(lc_maker *m, int v, lk_error *err) {
	lc_place *x = &m->at[v];
	int bucket = lc_value(m, v)->bucket;
	bool joined = lc_fused(m, v) >= 0 && ring_takes(m, v);
	x->held = LC_STORED;
	if (joined) LK_TRY(decide_ring(m, v, err));
	else if ((x->unit = bucket_unit(m, v)) < 0) LK_TRY(own_unit(m, v, LC_STEP_COMM, err));
	if (bucket >= 0 && (size_t)bucket < m->p->bundles.count && m->p->bundles.at[bucket].kind == LC_BUCKET)
		m->units.at[x->unit].step.bucket = m->p->bundles.at[bucket].size;
	return LK_OK;
}

static lk_status decide(lc_maker *m, int v, lk_error *err) {
	const lc_node *n = lc_value(m, v);
	switch (lc_ops[n->op].family) {
	case LC_LEAF: m->at[v].held = n->op == LC_INPUT || n->op == LC_STATE ? LC_STORED : LC_NOWHERE; return LK_OK;
	case LC_MAP: case LC_DROP: return decide_pointwise(m, v, err);
	case LC_CONTRACT: return own_unit(m, v, LC_STEP_CONTRACT, err);
	case LC_ROWS: return own_unit(m, v, LC_STEP_ROWS, err);
	case LC_RED: case LC_TOTALS: return decide_reduction(m, v, err);
	case LC_COMM:
		if (n->op == LC_SLICE) return decide_slice(m, v, err);
		return relabels(n) ? decide_relabelled(m, v, err) : decide_collective(m, v, err);
	case LC_MOVE: return own_unit(m, v, LC_STEP_SEND, err);
	case LC_EFFECT: return n->op == LC_UPDATE ? decide_update(m, v, err) : decide_out(m, v, err);
	}
	return LK_OK;
}

lk_status lc_make_units(lc_maker *m, lk_error *err) {
	LK_TRY(find_users(m, err));
	for (int v = 0; v < m->count; v++) m->at[v].unit = m->at[v].into = -1;
	find_versions(m);
	for (int v = m->count; v-- > 0;) {
		LK_TRY(decide(m, v, err));
		int into = m->at[v].into;
		if (into < 0) continue;
		m->at[into].unit = m->at[v].unit;
		m->units.at[m->at[v].unit].key = into;
	}
	for (int v = 0; v < m->count; v++) {
		int unit = m->at[v].unit;
		m->at[v].home = m->at[v].held == LC_ALIAS || m->at[v].held == LC_IN_PLACE ? m->at[lc_value(m, v)->in[0]].home : v;
		if (unit >= 0) LK_TRY(lc_ids_put(m->arena, &m->units.at[unit].step.values, v, err));
	}
	return LK_OK;
}
