/* hierarchy_read.c: a tree of links as a list of its nodes: what each sends to its parent, and what
 * its clients train. */
#include <math.h>

#include "base/intern.h"
#include "base/text.h"
#include "base/vec.h"
#include "io/csv.h"
#include "plan/hierarchy.h"

enum {
	NAME,
	PARENT,
	GBPS,
	LATENCY,
	INGRESS,
	STEP,
	BATCH,
	COPIES,
	PEERS,
	PEER_GBPS,
	PEER_LATENCY,
	COLUMNS,
	NEEDED = LATENCY,
	NOWHERE = -1
};

static const char *const columns[COLUMNS] = {
	"name",  "parent", "gbps",  "latency_ms", "ingress_gbps",   "step_s",
	"batch", "copies", "peers", "peer_gbps",  "peer_latency_ms"};

/* A row, with links to the first of its children and to the next child of its own parent, in the
 * list's order. */
struct row {
	lk_hierarchy_node node;
	const char *parent, *where;
	int copies, first, last, next, of;
};

struct reading {
	lk_arena *arena;
	LK_VEC(struct row) rows;
	lk_intern *names;
};

/* A number of a row; empty: none, 0. */
static lk_status tree_read_number(const lk_csv *csv, const int *at, int column, double low,
                                  double high, double scale, double *out, lk_error *err) {
	LK_TRY(lk_csv_real(csv, at[column], low, high, out, err));
	*out = isnan(*out) ? 0 : *out * scale;
	return LK_OK;
}

static lk_status tree_read_peers(const lk_csv *csv, const int *at, lk_hierarchy_node *node,
                                 lk_error *err) {
	const char *peers = lk_csv_field(csv, at[PEERS]);
	LK_TRY(tree_read_number(csv, at, PEER_GBPS, 1e-9, 1e6, 1e9 / 8, &node->peer_bytes_per_s, err));
	LK_TRY(tree_read_number(csv, at, PEER_LATENCY, 0, 1e7, 1e-3, &node->peer_latency_s, err));
	node->ring = lk_same_name(peers, "ring");
	if (*peers && !node->ring && !lk_same_name(peers, "all"))
		return lk_fail(err, LK_ERR_INPUT, lk_csv_where(csv), "peers is %.40s; ring, all or empty",
		               peers);
	if (!*peers != !(node->peer_bytes_per_s > 0)) {
		lk_fail(err, LK_ERR_INPUT, lk_csv_where(csv), "%s without %s",
		        *peers ? "peers" : "peer_gbps", *peers ? "peer_gbps" : "peers");
		return lk_hint(err, "both say how the node's children are linked to one another");
	}
	return LK_OK;
}

static lk_status tree_read_row(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct reading *reading = context;
	double copies;
	if (!lk_push(&reading->rows)) return lk_oom(err);
	struct row *row = lk_last(&reading->rows);
	lk_hierarchy_node *node = &row->node;
	node->name = lk_arena_strdup(reading->arena, lk_csv_field(csv, at[NAME]));
	row->parent = lk_arena_strdup(reading->arena, lk_csv_field(csv, at[PARENT]));
	row->where = lk_arena_strdup(reading->arena, lk_csv_where(csv));
	if (!node->name || !row->parent || !row->where) return lk_oom(err);
	if (!*node->name) return lk_fail(err, LK_ERR_INPUT, row->where, "a node without a name");
	if (lk_intern_find(reading->names, node->name) != UINT32_MAX)
		return lk_fail(err, LK_ERR_INPUT, row->where, "a second node %.60s", node->name);
	if (lk_intern_id(reading->names, node->name) == UINT32_MAX) return lk_oom(err);
	LK_TRY(tree_read_number(csv, at, GBPS, 1e-9, 1e6, 1e9 / 8, &node->bytes_per_s, err));
	LK_TRY(tree_read_number(csv, at, LATENCY, 0, 1e7, 1e-3, &node->latency_s, err));
	LK_TRY(tree_read_number(csv, at, INGRESS, 1e-9, 1e6, 1e9 / 8, &node->ingress, err));
	LK_TRY(tree_read_number(csv, at, STEP, 1e-6, 1e7, 1, &node->step_s, err));
	LK_TRY(tree_read_number(csv, at, BATCH, 1e-3, 1e9, 1, &node->batch, err));
	LK_TRY(tree_read_number(csv, at, COPIES, 1, LK_HIERARCHY_NODES, 1, &copies, err));
	row->copies = copies > 1 ? (int)copies : 1;
	row->first = row->last = row->next = row->of = NOWHERE;
	if (*row->parent && !(node->bytes_per_s > 0))
		return lk_fail(err, LK_ERR_INPUT, row->where, "node %.60s has no gbps to its parent",
		               node->name);
	return tree_read_peers(csv, at, node, err);
}

static lk_status tree_read_head(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	(void)context, (void)at;
	return lk_csv_refuse_others(csv, columns, COLUMNS, "list of a tree's nodes", err);
}

/* Link the children of each row, in order; *root is the row without a parent. */
static lk_status tree_link_rows(struct reading *reading, const char *path, int *root,
                                lk_error *err) {
	struct row *rows = reading->rows.at;
	*root = NOWHERE;
	for (int i = 0; i < (int)reading->rows.count; i++) {
		if (!*rows[i].parent) {
			if (*root != NOWHERE)
				return lk_fail(err, LK_ERR_INPUT, rows[i].where,
				               "%.60s has no parent, and %.60s has none either", rows[i].node.name,
				               rows[*root].node.name);
			*root = i;
			continue;
		}
		uint32_t parent = lk_intern_find(reading->names, rows[i].parent);
		if (parent == UINT32_MAX)
			return lk_fail(err, LK_ERR_INPUT, rows[i].where, "unknown parent %.60s",
			               rows[i].parent);
		int of = rows[i].of = (int)parent - 1; /* ids count from 1 in the order of the rows */
		if (rows[of].first == NOWHERE) rows[of].first = i;
		else rows[rows[of].last].next = i;
		rows[of].last = i;
	}
	if (*root == NOWHERE || rows[*root].first == NOWHERE)
		return lk_fail(err, LK_ERR_INPUT, path, "no node without a parent has others below it");
	return LK_OK;
}

/* Check for fields that only a client, or only an aggregating node, may have. */
static lk_status tree_check_row(const struct row *row, int level, lk_error *err) {
	const lk_hierarchy_node *node = &row->node;
	bool client = row->first == NOWHERE;
	const char *wrong = NULL;
	if (client && (node->ingress > 0 || node->peer_bytes_per_s > 0))
		wrong = "nothing below it, but ingress_gbps or peers";
	if (!client && (node->step_s > 0 || node->batch > 0))
		wrong = "others below it, but step_s or batch";
	if (!client && row->copies > 1) wrong = "others below it, but copies";
	if (wrong) return lk_fail(err, LK_ERR_INPUT, row->where, "%.60s has %s", node->name, wrong);
	if (client || level < LK_HIERARCHY_LEVELS) return LK_OK;
	return lk_fail(err, LK_ERR_INPUT, row->where,
	               "%.60s is below %d levels that aggregate, the most", node->name,
	               LK_HIERARCHY_LEVELS);
}

/* Append a row's node, as number `copy` of several. */
static lk_status tree_put_node(lk_arena *arena, const struct row *row, int copy, int parent,
                               lk_hierarchy *tree, lk_error *err) {
	if (tree->count == LK_HIERARCHY_NODES)
		return lk_fail(err, LK_ERR_INPUT, row->where, "more than %d nodes", LK_HIERARCHY_NODES);
	lk_hierarchy_node *node = &tree->nodes[tree->count++];
	*node = row->node;
	node->parent = parent;
	node->level = parent < 0 ? 0 : tree->nodes[parent].level + 1;
	if (row->copies > 1) node->name = lk_arena_printf(arena, "%s-%d", node->name, copy + 1);
	return node->name ? LK_OK : lk_oom(err);
}

/* Put nodes in order, level after level: nodes[n] comes from row at[n]. */
static lk_status tree_order(struct reading *reading, const char *path, int root, lk_hierarchy *tree,
                            lk_error *err) {
	const struct row *rows = reading->rows.at;
	size_t most = 1, seen = 1;
	for (size_t i = 0; i < reading->rows.count; i++) most += (size_t)rows[i].copies;
	if (most > LK_HIERARCHY_NODES) most = LK_HIERARCHY_NODES;
	int *at = LK_ARRAY(reading->arena, int, most);
	tree->nodes = LK_ARRAY(reading->arena, lk_hierarchy_node, most);
	if (!at || !tree->nodes) return lk_oom(err);
	at[0] = root;
	LK_TRY(tree_put_node(reading->arena, &rows[root], 0, -1, tree, err));
	for (int n = 0; n < tree->count; n++) {
		lk_hierarchy_node *node = &tree->nodes[n];
		LK_TRY(tree_check_row(&rows[at[n]], node->level, err));
		node->first = tree->count;
		for (int child = rows[at[n]].first; child != NOWHERE; child = rows[child].next) {
			seen++;
			for (int copy = 0; copy < rows[child].copies; copy++) {
				LK_TRY(tree_put_node(reading->arena, &rows[child], copy, n, tree, err));
				at[tree->count - 1] = child;
			}
		}
		node->children = tree->count - node->first;
		if (node->children) tree->levels = node->level + 1;
	}
	if (seen < reading->rows.count)
		return lk_fail(err, LK_ERR_INPUT, path, "some nodes are their own ancestors");
	for (int l = 0, n = 0; l <= tree->levels + 1; l++) {
		while (n < tree->count && tree->nodes[n].level < l) n++;
		tree->starts[l] = n;
	}
	return LK_OK;
}

lk_status lk_hierarchy_read(lk_stream *in, lk_arena *arena, lk_hierarchy *out, lk_error *err) {
	const lk_csv_table table = {
		columns,       COLUMNS,       NEEDED, "list of a tree's nodes", LK_HIERARCHY_NODES,
		tree_read_row, tree_read_head};
	struct reading reading = {.arena = arena, .names = lk_intern_new()};
	const char *path = lk_stream_name(in);
	int root;
	*out = (lk_hierarchy){0};
	lk_status status = reading.names ? lk_csv_read(in, &table, &reading, err) : lk_oom(err);
	if (status == LK_OK) status = tree_link_rows(&reading, path, &root, err);
	if (status == LK_OK) status = tree_order(&reading, path, root, out, err);
	lk_intern_free(reading.names);
	lk_vec_free(&reading.rows);
	return status;
}
