/* trees.c: boosted regression trees on histograms. */
#include "base/arena.h"
#include "base/trees.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/stats.h"
#include "base/sort.h"

enum { BINS = LK_TREE_EDGES + 1, INNER = LK_TREE_LEAVES - 1 };

/* ---- use ---- */

double lk_trees_at(const lk_trees *trees, const float *x) {
	uint8_t bin[LK_TREE_FEATURES] = {0};
	for (int f = 0; f < trees->features; f++) {
		int low = 0, high = trees->edges[f];
		while (low < high) {
			int middle = (low + high) / 2;
			if (trees->edge[f][middle] < x[f]) low = middle + 1;
			else high = middle;
		}
		bin[f] = (uint8_t)low;
	}
	long sum = 0;
	for (int t = 0; t < trees->count; t++) {
		const lk_tree *tree = &trees->tree[t];
		int node = 0;
		for (int level = 0; level < LK_TREE_DEPTH; level++)
			node = 2 * node + 1 + (bin[tree->feature[node]] > tree->edge[node]);
		sum += tree->leaf[node - INNER];
	}
	return (double)sum * LK_TREE_UNIT;
}

/* ---- fitting ---- */

struct fit {
	const lk_trees_options *options;
	size_t rows, sample;
	int features;
	double rate;          /* of the current tree */
	uint8_t *bin;         /* [features][rows], rows shuffled */
	float *target, *left; /* [rows] shuffled; residuals, clipped */
	float *sum;           /* [rows] over the trees so far */
	uint8_t *leaf;        /* [rows] a row's node of the current level */
	uint32_t *order;      /* [rows] shuffled row -> row */
};

struct cell {
	float sum;
	uint32_t count;
};

static int trees_by_value(const void *a, const void *b) {
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

/* Round to four digits: people read edges, and they take space in files. */
static float trees_shorter(float x) {
	if (x == 0 || !isfinite(x)) return 0;
	double unit = pow(10, floor(log10(fabs((double)x))) - 3);
	return (float)(round(x / unit) * unit);
}

/* Edges of a feature: between the values if they are few, else at quantiles. */
static void find_edges(const float *x, size_t rows, int features, int f, float *room,
                       lk_trees *out) {
	size_t distinct = 1, n = rows;
	for (size_t i = 0; i < n; i++) room[i] = x[i * (size_t)features + (size_t)f];
	lk_sort(room, n, sizeof *room, trees_by_value);
	for (size_t i = 1; i < n; i++) distinct += room[i] != room[i - 1];
	out->edges[f] = 0;
	double next = distinct <= BINS ? 0 : (double)n / BINS;
	for (size_t i = 1; i < n && out->edges[f] < LK_TREE_EDGES; i++) {
		if (room[i] == room[i - 1] || (double)i < next) continue;
		out->edge[f][out->edges[f]++] = trees_shorter((room[i] + room[i - 1]) / 2);
		if (distinct > BINS) next = (double)i + (double)(n - i) / (BINS - out->edges[f]);
	}
}

static void trees_shuffle(uint32_t *order, size_t rows) {
	for (size_t i = 0; i < rows; i++) order[i] = (uint32_t)i;
	for (size_t i = rows; i-- > 1;) {
		size_t j = lk_hash64(i) % (i + 1);
		uint32_t keep = order[i];
		order[i] = order[j];
		order[j] = keep;
	}
}

static void sort_into_bins(struct fit *fit, const float *x, const float *target,
                           const lk_trees *out) {
	for (size_t i = 0; i < fit->rows; i++) fit->target[i] = target[fit->order[i]];
	for (int f = 0; f < fit->features; f++) {
		uint8_t *bin = fit->bin + (size_t)f * fit->rows;
		for (size_t i = 0; i < fit->rows; i++) {
			float value = x[(size_t)fit->order[i] * (size_t)fit->features + (size_t)f];
			int low = 0, high = out->edges[f];
			while (low < high) {
				int middle = (low + high) / 2;
				if (out->edge[f][middle] < value) low = middle + 1;
				else high = middle;
			}
			bin[i] = (uint8_t)low;
		}
	}
}

struct split {
	double gain;
	int feature, edge;
};

static void best_edges(const struct fit *fit, const struct cell cells[][BINS], int nodes, int f,
                       int edges, struct split *best) {
	for (int node = 0; node < nodes; node++) {
		double all = 0, below = 0;
		long rows = 0, under = 0, least = fit->options->rows;
		for (int b = 0; b <= edges; b++) {
			all += cells[node][b].sum;
			rows += cells[node][b].count;
		}
		if (rows < 2 * least) continue;
		double none = all * all / (double)rows;
		for (int b = 0; b < edges; b++) {
			below += cells[node][b].sum;
			under += cells[node][b].count;
			if (under < least) continue;
			if (rows - under < least) break;
			double gain = below * below / (double)under +
			              (all - below) * (all - below) / (double)(rows - under) - none;
			if (gain > best[node].gain) best[node] = (struct split){gain, f, b};
		}
	}
}

/* Split the nodes of one level, each where it helps most; the sample begins at `first`. */
static void trees_divide(struct fit *fit, size_t first, int level, lk_trees *out, lk_tree *tree) {
	struct cell cells[LK_TREE_LEAVES / 2][BINS];
	int nodes = 1 << level;
	struct split best[LK_TREE_LEAVES / 2];
	for (int n = 0; n < nodes; n++) best[n] = (struct split){1e-9, 0, LK_TREE_EDGES};
	const float *left = fit->left + first;
	const uint8_t *leaf = fit->leaf + first;
	for (int f = 0; f < fit->features; f++) {
		const uint8_t *bin = fit->bin + (size_t)f * fit->rows + first;
		memset(cells, 0, (size_t)nodes * sizeof *cells);
		for (size_t i = 0; i < fit->sample; i++) {
			struct cell *cell = &cells[leaf[i]][bin[i]];
			cell->sum += left[i];
			cell->count++;
		}
		best_edges(fit, (const struct cell(*)[BINS])cells, nodes, f, out->edges[f], best);
	}
	for (int n = 0; n < nodes; n++) {
		tree->feature[nodes - 1 + n] = (uint8_t)best[n].feature;
		tree->edge[nodes - 1 + n] = (uint8_t)best[n].edge;
	}
	for (size_t i = 0; i < fit->sample; i++) {
		const struct split *split = &best[leaf[i]];
		bool above = fit->bin[(size_t)split->feature * fit->rows + first + i] > split->edge;
		fit->leaf[first + i] = (uint8_t)(2 * leaf[i] + above);
	}
}

/* Set leaves to the mean of their residuals, times the rate, in units. */
static void fill_leaves(struct fit *fit, size_t first, lk_tree *tree) {
	struct cell cells[LK_TREE_LEAVES] = {0};
	for (size_t i = first; i < first + fit->sample; i++) {
		cells[fit->leaf[i]].sum += fit->left[i];
		cells[fit->leaf[i]].count++;
	}
	for (int l = 0; l < LK_TREE_LEAVES; l++) {
		double value =
			cells[l].count ? cells[l].sum / (cells[l].count + 1.0) * fit->rate / LK_TREE_UNIT : 0;
		tree->leaf[l] = (int16_t)lround(fmin(fmax(value, -2047), 2047));
	}
}

static void add_tree(struct fit *fit, const lk_tree *tree) {
	for (size_t i = 0; i < fit->rows; i++) {
		int node = 0;
		for (int level = 0; level < LK_TREE_DEPTH; level++)
			node = 2 * node + 1 +
			       (fit->bin[(size_t)tree->feature[node] * fit->rows + i] > tree->edge[node]);
		fit->sum[i] += (float)(tree->leaf[node - INNER] * LK_TREE_UNIT);
	}
}

/* Steps and clipping limits shrink from tree to tree: the last trees average out noise and weigh
 * magnitudes. */
static void boost(struct fit *fit, lk_trees *out) {
	size_t first = 0;
	for (int t = 0; t < out->count; t++) {
		double done = (double)t / out->count;
		float limit = (float)(fit->options->limit * fmax(0.25, 1 - done));
		fit->rate = fit->options->rate * (1 - 0.7 * done);
		for (size_t i = first; i < first + fit->sample; i++) {
			float left = fit->target[i] - fit->sum[i];
			if (left > limit) fit->left[i] = limit;
			else if (left < -limit) fit->left[i] = -limit;
			else fit->left[i] = left;
		}
		memset(fit->leaf, 0, fit->rows);
		for (int level = 0; level < LK_TREE_DEPTH; level++)
			trees_divide(fit, first, level, out, &out->tree[t]);
		fill_leaves(fit, first, &out->tree[t]);
		add_tree(fit, &out->tree[t]);
		first = first + 2 * fit->sample <= fit->rows
		            ? first + fit->sample
		            : lk_hash64((uint64_t)t) % (fit->rows - fit->sample + 1);
	}
}

/* Drop the edges that no tree uses, to keep trees small on disk. */
static void drop_edges(lk_trees *out) {
	for (int f = 0; f < out->features; f++) {
		bool used[BINS] = {false};
		uint8_t place[BINS];
		int kept = 0;
		for (int t = 0; t < out->count; t++)
			for (int i = 0; i < INNER; i++)
				if (out->tree[t].feature[i] == f) used[out->tree[t].edge[i]] = true;
		for (int e = 0; e < out->edges[f]; e++) {
			place[e] = (uint8_t)kept;
			if (used[e]) out->edge[f][kept++] = out->edge[f][e];
		}
		place[LK_TREE_EDGES] = LK_TREE_EDGES;
		out->edges[f] = kept;
		for (int t = 0; t < out->count; t++)
			for (int i = 0; i < INNER; i++)
				if (out->tree[t].feature[i] == f)
					out->tree[t].edge[i] = place[out->tree[t].edge[i]];
	}
}

lk_status lk_trees_fit(lk_arena *arena, const float *x, const float *target, size_t rows,
                       int features, const lk_trees_options *options, lk_trees *out,
                       lk_error *err) {
	lk_arena room = LK_ARENA_INIT;
	struct fit s = {.options = options, .rows = rows, .features = features};
	s.sample = (size_t)fmax(1, options->sample * (double)rows);
	out->features = features, out->count = rows ? options->count : 0;
	out->tree = LK_ARRAY(arena, lk_tree, out->count);
	s.bin = LK_ARRAY(&room, uint8_t, rows * (size_t)features);
	s.target = LK_ARRAY(&room, float, rows);
	s.left = LK_ARRAY(&room, float, rows);
	s.sum = LK_ARRAY(&room, float, rows);
	s.leaf = LK_ARRAY(&room, uint8_t, rows);
	s.order = LK_ARRAY(&room, uint32_t, rows);
	bool enough = out->tree && s.bin && s.target && s.left && s.sum && s.leaf && s.order;
	if (enough && rows) {
		for (int f = 0; f < features; f++) find_edges(x, rows, features, f, s.left, out);
		trees_shuffle(s.order, rows);
		sort_into_bins(&s, x, target, out);
		boost(&s, out);
		drop_edges(out);
	}
	lk_arena_free(&room);
	return enough ? LK_OK : lk_oom(err);
}
