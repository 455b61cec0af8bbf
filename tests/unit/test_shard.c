/* test_shard.c: placements of embedding tables: the closed form against the simulation, the bound
 * against every placement of small problems, memory against exhaustive search, files and their
 * errors; and the locality of indices against the published histograms. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "io/csv.h"
#include "base/stats.h"
#include "base/units.h"
#include "shard/shard.h"
#include "data.h"
#include "lookup_numbers.h"

/* ---- problems ---- */

static double bound_of(const lk_shard_problem *problem) {
	double bound = NAN;
	lk_error err = {0};
	assert_int_equal(lk_shard_bound(problem, &bound, &err), LK_OK);
	return bound;
}

static const lk_node *usual_node(const lk_device *device, lk_arena *arena) {
	lk_cluster *cluster = LK_NEW(arena, lk_cluster);
	lk_error err;
	assert_non_null(cluster);
	assert_int_equal(lk_cluster_simple(arena, device, 8, 0, 0, cluster, &err), LK_OK);
	return &cluster->node[0];
}

/* Small tables, so that ranks of `capacity` bytes are filled. */
static lk_shard_problem random_problem(lk_arena *arena, uint64_t seed, uint32_t count, int ranks,
                                       double capacity, unsigned allowed) {
	const lk_device *device = lk_device_find("a100-sxm-80");
	lk_shard_table *tables = LK_ARRAY(arena, lk_shard_table, count);
	lk_shard_problem p = {.arena = arena,
	                      .tables = tables,
	                      .count = count,
	                      .ranks = ranks,
	                      .batch = 8 * ranks,
	                      .element = 4,
	                      .row_state = 4,
	                      .capacity = capacity,
	                      .cache_share = 0.2,
	                      .seed = seed};
	assert_non_null(tables);
	p.at = (lk_shard_device){.device = device,
	                         .memory_rate = device->memory_rate,
	                         .l2_rate = 3 * device->memory_rate,
	                         .host_rate = device->pcie_rate,
	                         .floor_s = 3e-6};
	p.network = (lk_group_shape){.node = usual_node(device, arena),
	                             .ranks = ranks,
	                             .nodes = 1,
	                             .ranks_per_node = ranks,
	                             .sharing = 1,
	                             .oversubscription = 1};
	for (uint32_t i = 0; i < count; i++) {
		lk_locality *locality = LK_NEW(arena, lk_locality);
		double rows = floor(20 + 4000 * lk_uniform(seed, 3 * i)),
			   pooling = floor(1 + 20 * lk_uniform(seed, 3 * i + 1));
		assert_non_null(locality);
		lk_locality_zipf(rows, p.batch * pooling, lk_uniform(seed, 3 * i + 2), locality);
		tables[i] = (lk_shard_table){.name = "t",
		                             .where = "",
		                             .rows = rows,
		                             .dim = 16 * (1 + (double)(i % 4)),
		                             .pooling = pooling,
		                             .allowed = allowed,
		                             .locality = locality};
	}
	lk_shard_share(&p);
	return p;
}

/* The same on a processor, with caches that a rank's tables fill. */
static void on_a_processor(lk_shard_problem *problem) {
	lk_host_lookup *lookup = LK_NEW(problem->arena, lk_host_lookup);
	assert_non_null(lookup);
	*lookup = lookup_numbers(1);
	lookup->last_bytes = 0.7 * problem->share.bytes;
	lookup->near_bytes = 0.1 * lookup->last_bytes;
	problem->at.host = lookup;
	problem->at.floor_s = 0;
}

enum { ANY = (1 << LK_SHARD_KINDS) - 1, WHOLE = 1 << LK_SHARD_TABLE };

static double step_of(const lk_shard_problem *problem, const lk_shard_pieces *pieces, bool *fits) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_load load;
	lk_error err;
	assert_int_equal(lk_shard_load_of(&arena, problem, pieces, &load, &err), LK_OK);
	if (fits) *fits = lk_shard_fits(problem, &load);
	lk_arena_free(&arena);
	return load.step_s;
}

/* ---- the step ---- */

static void closed_form_is_the_simulation(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 30; seed++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_shard_problem p = random_problem(&arena, seed, 12, 1 + (int)(seed % 8), 1e9, ANY);
		p.dense_s = seed % 3 * 1e-4;
		for (int i = 0; i < lk_sharder_count; i++) {
			lk_shard_plan plan = {0};
			lk_shard_load load;
			lk_error err;
			double simulated;
			assert_int_equal(lk_sharders[i].run(&p, &plan, &err), LK_OK);
			assert_int_equal(lk_shard_load_of(&arena, &p, &plan.pieces, &load, &err), LK_OK);
			assert_int_equal(lk_shard_simulate(&p, &load, &simulated, &err), LK_OK);
			/* seven operations, each rounded to a picosecond */
			if (fabs(simulated - load.step_s) > 8e-12)
				fail_msg("%s: %.15g, simulated %.15g", lk_sharders[i].name, load.step_s, simulated);
			lk_vec_free(&plan.pieces);
		}
		lk_arena_free(&arena);
	}
}

static void every_table_is_whole(const lk_shard_problem *problem, const lk_shard_pieces *pieces) {
	for (uint32_t t = 0; t < problem->count; t++) {
		int seen = 0, parts = 0;
		for (size_t i = 0; i < pieces->count; i++) {
			const lk_shard_piece *piece = &pieces->at[i];
			if (piece->table != t) continue;
			assert_true(problem->tables[t].allowed & 1u << piece->kind);
			assert_true(piece->kind == LK_SHARD_DATA ||
			            (piece->rank >= 0 && piece->rank < problem->ranks));
			seen++;
			parts = piece->parts;
		}
		assert_int_equal(seen, parts);
	}
}

static void search_is_no_slower_than_heuristics(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_shard_problem p = random_problem(&arena, seed, 20, 4, 1e9, seed % 2 ? ANY : WHOLE);
		double ours = INFINITY, bound = bound_of(&p);
		for (int i = lk_sharder_count - 1; i >= 0; i--) {
			lk_shard_plan plan = {0};
			lk_error err;
			assert_int_equal(lk_sharders[i].run(&p, &plan, &err), LK_OK);
			every_table_is_whole(&p, &plan.pieces);
			double step = step_of(&p, &plan.pieces, NULL);
			assert_true(step >= bound * (1 - 1e-9));
			if (lk_sharders[i].search) ours = step;
			assert_true(ours <= step * (1 + 1e-9));
			lk_vec_free(&plan.pieces);
		}
		lk_arena_free(&arena);
	}
}

/* ---- small problems, every placement ---- */

struct exhaustive {
	const lk_shard_problem *p;
	lk_shard_pieces pieces;
	bool feasible;
	double best_s;  /* of those that fit */
	double least_s; /* of all */
};

static void place_all(struct exhaustive *exhaustive, size_t at) {
	if (at == exhaustive->pieces.count) {
		bool fits;
		double step = step_of(exhaustive->p, &exhaustive->pieces, &fits);
		exhaustive->least_s = fmin(exhaustive->least_s, step);
		if (fits) {
			exhaustive->feasible = true;
			exhaustive->best_s = fmin(exhaustive->best_s, step);
		}
		return;
	}
	if (exhaustive->pieces.at[at].kind == LK_SHARD_DATA) {
		place_all(exhaustive, at + 1);
		return;
	}
	for (int r = 0; r < exhaustive->p->ranks; r++) {
		exhaustive->pieces.at[at].rank = r;
		place_all(exhaustive, at + 1);
	}
}

/* All ways to split or copy each table, all placements of each. */
static void split_all(struct exhaustive *exhaustive, uint32_t table) {
	if (table == exhaustive->p->count) {
		place_all(exhaustive, 0);
		return;
	}
	for (int kind = 0; kind < LK_SHARD_KINDS; kind++) {
		int most = lk_shard_most_parts(exhaustive->p, table, (lk_shard_kind)kind);
		for (int k = 1; most && k; k = lk_shard_more_parts(k, most)) {
			size_t before = exhaustive->pieces.count;
			if (k == 1 && kind != LK_SHARD_TABLE && kind != LK_SHARD_DATA) continue;
			for (int i = 0; i < k; i++) {
				assert_true(lk_push(&exhaustive->pieces));
				*lk_last(&exhaustive->pieces) =
					lk_shard_piece_of(exhaustive->p, table, (lk_shard_kind)kind, i, k, false);
			}
			split_all(exhaustive, table + 1);
			exhaustive->pieces.count = before;
		}
	}
}

static void compare_with_all(uint64_t seed, uint32_t count, int ranks, unsigned allowed,
                             double tight, int *feasible, int *tried) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_problem p = random_problem(&arena, seed, count, ranks, 1e9, allowed);
	double all = 0;
	for (uint32_t t = 0; t < count; t++)
		all += lk_shard_piece_of(&p, t, LK_SHARD_TABLE, 0, 1, false).cost.device_bytes;
	p.capacity = tight * all / ranks;
	struct exhaustive x = {.p = &p, .best_s = INFINITY, .least_s = INFINITY};
	lk_shard_plan plan = {0};
	lk_error err;
	split_all(&x, 0);
	lk_status status = lk_shard_search(&p, &plan, &err);
	if (x.feasible != (status == LK_OK))
		fail_msg("seed %d: exhaustive %d, search %d %s", (int)seed, x.feasible, status == LK_OK,
		         status == LK_OK ? "" : err.what);
	bool fits = false;
	if (status == LK_OK) {
		step_of(&p, &plan.pieces, &fits);
		assert_true(fits);
	}
	*feasible += x.feasible;
	*tried += 1;
	/* of problems in which any table may be copied, memory does not enter the bound */
	if (bound_of(&p) > x.least_s * (1 + 1e-9))
		fail_msg("seed %d: bound %g, a placement takes %g", (int)seed, bound_of(&p), x.least_s);
	lk_vec_free(&plan.pieces);
	lk_vec_free(&x.pieces);
	lk_arena_free(&arena);
}

static void fits_whenever_anything_fits(void **state) {
	(void)state;
	int feasible = 0, tried = 0;
	for (uint64_t seed = 1; seed <= 60; seed++)
		compare_with_all(seed, 7, 3, WHOLE, 1 + 0.15 * lk_uniform(seed, 77), &feasible, &tried);
	assert_true(feasible > 5 && feasible < tried); /* both happen */
	for (uint64_t seed = 1; seed <= 12; seed++)
		compare_with_all(seed, 3, 2, ANY, 0.9 + 0.5 * lk_uniform(seed, 78), &feasible, &tried);
}

/* Of three tables on two ranks, every way and every placement; batches small and large, with the
 * network as it is. */
static void bound_is_below_every_placement(void **state) {
	(void)state;
	double tightest = 0;
	for (uint64_t seed = 1; seed <= 150; seed++) {
		static const double batches[] = {1, 64, 2048};
		lk_arena arena = LK_ARENA_INIT;
		lk_shard_problem p = random_problem(&arena, 500 + seed, 3, 2, 1e12, seed % 4 ? ANY : WHOLE);
		p.batch *= batches[seed % 3];
		if (seed % 5 == 0) on_a_processor(&p);
		struct exhaustive x = {.p = &p, .best_s = INFINITY, .least_s = INFINITY};
		split_all(&x, 0);
		double bound = bound_of(&p);
		if (bound > x.least_s * (1 + 1e-9))
			fail_msg("seed %d: bound %g, a placement takes %g", (int)seed, bound, x.least_s);
		tightest = fmax(tightest, bound / x.least_s);
		lk_vec_free(&x.pieces);
		lk_arena_free(&arena);
	}
	assert_true(tightest > 0.97);
}

static double share_of_rank(const lk_shard_pieces *pieces, int rank) {
	double bytes = 0;
	for (size_t i = 0; i < pieces->count; i++)
		bytes += pieces->at[i].rank == rank ? pieces->at[i].shared.bytes : 0;
	return bytes;
}

/* On a processor a piece takes as long as its rank's share makes it: priced again in that share,
 * the sum is the rank's time. */
static void ranks_that_touch_more_take_longer(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_shard_pieces pieces = {0};
		lk_shard_load load;
		lk_error err;
		lk_shard_problem p = random_problem(&arena, seed, 12, 3, 1e12, WHOLE), there;
		on_a_processor(&p);
		assert_int_equal(lk_shard_whole(&p, &pieces, &err), LK_OK);
		/* one table alone, about a third, the rest */
		for (size_t i = 0; i < pieces.count; i++) pieces.at[i].rank = i == 0 ? 0 : i < 5 ? 1 : 2;
		assert_int_equal(lk_shard_load_of(&arena, &p, &pieces, &load, &err), LK_OK);
		for (int r = 0; r < 3; r++) {
			double times = fmin(fmax(share_of_rank(&pieces, r) / p.share.bytes, 0.5), 2),
				   forward = 0, mean = 0;
			there = p;
			there.share.bytes *= times;
			there.share.samples *= times;
			there.share.page_bytes *= times;
			for (uint32_t t = 0; t < p.count; t++)
				if (pieces.at[t].rank == r) {
					forward +=
						lk_shard_piece_of(&there, t, LK_SHARD_TABLE, 0, 1, false).cost.forward_s;
					mean += pieces.at[t].cost.forward_s;
				}
			bool ends = times == 0.5 || times == 2;
			double off = fabs(load.rank[r].forward_s / forward - 1);
			if (off > (ends ? 1e-9 : 0.01))
				fail_msg("seed %d, rank %d: %g of the mean share, off by %g", (int)seed, r, times,
				         off);
			assert_true(times < 1 ? load.rank[r].forward_s <= mean
			                      : load.rank[r].forward_s >= mean);
		}
		assert_true(load.rank[2].forward_s + load.rank[2].backward_s > 0);
		lk_vec_free(&pieces);
		lk_arena_free(&arena);
	}
}

/* Many tables can be balanced: what is left between search and bound is little. */
static void bound_is_near_where_tables_are_many(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_shard_plan plan = {0};
		lk_error err;
		lk_shard_problem p = random_problem(&arena, seed, 120, 4, 1e12,
		                                    1u << LK_SHARD_TABLE | 1u << LK_SHARD_COLUMN);
		p.batch *= 512;
		assert_int_equal(lk_shard_search(&p, &plan, &err), LK_OK);
		double step = step_of(&p, &plan.pieces, NULL), bound = bound_of(&p);
		if (step > 1.02 * bound) fail_msg("seed %d: step %g, bound %g", (int)seed, step, bound);
		assert_true(bound <= step * (1 + 1e-9));
		lk_vec_free(&plan.pieces);
		lk_arena_free(&arena);
	}
}

/* Every kind allowed, few tables for each rank: the search splits and copies what the bound does.
 * Twice the same. */
static void bound_is_near_where_tables_are_split(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_shard_plan plan = {0}, again = {0};
		lk_error err;
		lk_shard_problem p = random_problem(&arena, 40 + seed, 80, 16, 1e12, ANY);
		p.batch *= 512;
		assert_int_equal(lk_shard_search(&p, &plan, &err), LK_OK);
		assert_int_equal(lk_shard_search(&p, &again, &err), LK_OK);
		every_table_is_whole(&p, &plan.pieces);
		double step = step_of(&p, &plan.pieces, NULL), bound = bound_of(&p);
		if (step > 1.02 * bound) fail_msg("seed %d: step %g, bound %g", (int)seed, step, bound);
		assert_true(bound <= step * (1 + 1e-9));
		assert_int_equal(plan.pieces.count, again.pieces.count);
		for (size_t i = 0; i < plan.pieces.count; i++)
			assert_int_equal(plan.pieces.at[i].rank, again.pieces.at[i].rank);
		lk_vec_free(&plan.pieces);
		lk_vec_free(&again.pieces);
		lk_arena_free(&arena);
	}
}

/* From any placement a balance leads to a shorter step, also where ranks share caches; every piece
 * stays, ranks have room. */
static void balance_shortens_steps(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_shard_plan plan = {0};
		lk_error err;
		size_t budget = 300000;
		lk_shard_problem p = random_problem(&arena, seed, 30, 4, 1e9, WHOLE);
		if (seed % 2) on_a_processor(&p);
		double all = 0;
		for (uint32_t t = 0; t < p.count; t++)
			all += lk_shard_piece_of(&p, t, LK_SHARD_TABLE, 0, 1, false).cost.device_bytes;
		p.capacity = all / 3;
		assert_int_equal(lk_shard_size_greedy(&p, &plan, &err), LK_OK);
		double before = step_of(&p, &plan.pieces, NULL);
		bool fits;
		assert_int_equal(lk_shard_balance(&p, &plan.pieces, &budget, &err), LK_OK);
		double after = step_of(&p, &plan.pieces, &fits);
		if (!(after < before))
			fail_msg("seed %d: %g before, %g balanced", (int)seed, before, after);
		assert_true(fits);
		every_table_is_whole(&p, &plan.pieces);
		lk_vec_free(&plan.pieces);
		lk_arena_free(&arena);
	}
}

/* What the rank with most columns has at least, against every placement of six pieces on three
 * ranks. */
static void even_columns_are_below_every_placement(void **state) {
	(void)state;
	enum { PIECES = 6, RANKS = 3, WAYS = 729 };
	int reached = 0;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		lk_shard_widths widths = {.grain = 8};
		double width[PIECES], least = INFINITY;
		for (int i = 0; i < PIECES; i++) {
			width[i] = 8 * (double)(1ull << lk_hash64(seed * PIECES + (uint64_t)i) % 6);
			lk_shard_widths_add(&widths, width[i], 1);
		}
		for (int way = 0; way < WAYS; way++) {
			double sum[RANKS] = {0};
			for (int i = 0, rest = way; i < PIECES; i++, rest /= RANKS)
				sum[rest % RANKS] += width[i];
			least = fmin(least, fmax(sum[0], fmax(sum[1], sum[2])));
		}
		double even = lk_shard_even_columns(&widths, 1, RANKS);
		if (even > least) fail_msg("seed %d: %g, a placement has %g", (int)seed, even, least);
		assert_true(even >= widths.columns / RANKS);
		reached += even == least;
	}
	assert_true(reached > 20);
}

static void host_memory_takes_the_rest(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_problem p = random_problem(&arena, 5, 10, 2, 1e9, ANY);
	double all = 0;
	for (uint32_t t = 0; t < p.count; t++)
		all += lk_shard_piece_of(&p, t, LK_SHARD_TABLE, 0, 1, false).cost.device_bytes;
	lk_shard_plan plan = {0};
	lk_error err;
	p.capacity = all / 4;
	assert_int_equal(lk_shard_search(&p, &plan, &err), LK_ERR_INPUT);
	p.host_capacity = all;
	assert_int_equal(lk_shard_search(&p, &plan, &err), LK_OK);
	int host = 0;
	bool fits;
	for (size_t i = 0; i < plan.pieces.count; i++) host += plan.pieces.at[i].host;
	step_of(&p, &plan.pieces, &fits);
	assert_true(fits && host > 0);
	lk_vec_free(&plan.pieces);
	lk_arena_free(&arena);
}

/* ---- locality ---- */

/* Thinning, and the histogram of what is drawn, by counting. */
static void drawn_indices_have_the_classes(void **state) {
	(void)state;
	enum { ROWS = 50000, LOOKUPS = 400000 };
	uint32_t *indices = malloc(LOOKUPS * sizeof *indices), *times = calloc(ROWS, sizeof *times);
	lk_locality l, thin;
	assert_true(indices && times);
	lk_locality_zipf(ROWS, LOOKUPS, 1, &l);
	assert_true(fabs(lk_locality_lookups(&l) / LOOKUPS - 1) < 1e-6);
	lk_locality_draw(&l, ROWS, 7, LOOKUPS, indices);
	size_t different = 0, kept = 0, kept_different = 0;
	for (size_t i = 0; i < LOOKUPS; i++) {
		assert_true(indices[i] < ROWS);
		different += times[indices[i]]++ == 0;
	}
	assert_true(fabs((double)different / lk_locality_rows(&l) - 1) < 0.02);
	memset(times, 0, ROWS * sizeof *times);
	for (size_t i = 0; i < LOOKUPS; i++) {
		if (lk_uniform(99, i) >= 0.25) continue;
		kept++;
		kept_different += times[indices[i]]++ == 0;
	}
	lk_locality_thin(&l, 0.25, &thin);
	assert_true(fabs((double)kept / lk_locality_lookups(&thin) - 1) < 0.01);
	assert_true(fabs((double)kept_different / lk_locality_rows(&thin) - 1) < 0.03);
	assert_true(lk_locality_covered(&l, ROWS) > 0.999 && lk_locality_covered(&l, 1) < 0.2);
	free(indices);
	free(times);
}

/* Every row once; the first of them lie as if thrown: in as many lines of four rows as that would
 * leave. */
static void rows_lie_anywhere(void **state) {
	(void)state;
	static const uint64_t counts[] = {1, 2, 3, 5, 64, 1023, 40000};
	for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
		for (uint64_t seed = 1; seed <= 5; seed++) {
			uint64_t rows = counts[c], lines = rows / 4, met = 0;
			uint8_t *row = calloc(rows, 1), *line = calloc(lines + 1, 1);
			assert_true(row && line);
			for (uint64_t place = 0; place < rows; place++) {
				uint64_t at = lk_locality_row(place, rows, seed);
				assert_true(at < rows && !row[at]++);
				if (place < lines) met += !line[at / 4]++;
			}
			if (lines > 1000)
				assert_true(fabs((double)met / ((double)lines * (1 - 0.316)) - 1) <
				            0.03); /* (3/4)^4 = 0.316 */
			free(row);
			free(line);
		}
}

/* One published file, a 400th of it: both histograms of what is drawn, and its mean reuse. */
static void check_published(const lk_csv *csv, double *worst) {
	enum { PART = 400 };
	double unique[LK_REUSE_BINS], access[LK_REUSE_BINS], u[LK_REUSE_BINS] = {0},
														 a[LK_REUSE_BINS] = {0};
	int first = lk_csv_column(csv, "uniq (0,1]");
	double lookups = floor(atof(lk_csv_field(csv, lk_csv_column(csv, "n_indices"))) / PART);
	double rows = floor(atof(lk_csv_field(csv, lk_csv_column(csv, "n_unique"))) / PART * 10);
	for (int b = 0; b < LK_REUSE_BINS; b++) {
		unique[b] = atof(lk_csv_field(csv, first + b));
		access[b] = atof(lk_csv_field(csv, first + LK_REUSE_BINS + b));
	}
	lk_locality l;
	lk_locality_reuse(unique, access, rows, lookups, &l);
	uint32_t *indices = malloc((size_t)lookups * sizeof *indices),
			 *times = calloc((size_t)rows, sizeof *times);
	assert_true(indices && times);
	lk_locality_draw(&l, (uint64_t)rows, 3, (size_t)lookups, indices);
	double different = 0;
	for (size_t i = 0; i < (size_t)lookups; i++) times[indices[i]]++;
	for (size_t r = 0; r < (size_t)rows; r++) {
		if (!times[r]) continue;
		int bin = times[r] <= 1 ? 0 : (int)ceil(log2(times[r]));
		bin = bin < LK_REUSE_BINS ? bin : LK_REUSE_BINS - 1;
		u[bin]++;
		a[bin] += times[r];
		different++;
	}
	for (int b = 0; b < LK_REUSE_BINS; b++)
		*worst = fmax(*worst,
		              fmax(fabs(u[b] / different - unique[b]), fabs(a[b] / lookups - access[b])));
	double mean = atof(lk_csv_field(csv, lk_csv_column(csv, "avg_reuse")));
	if (fabs(lookups / different / mean - 1) > 0.03)
		fail_msg("%s: %.2f lookups of a row, published %.2f", lk_csv_where(csv),
		         lookups / different, mean);
	free(indices);
	free(times);
}

static void published_locality(void **state) {
	(void)state;
	const char *path = need_data("measured/embedding_locality.csv");
	lk_stream *in;
	lk_csv *csv;
	lk_error err;
	double worst = 0;
	int files = 0;
	assert_int_equal(lk_stream_open(path, &in, &err), LK_OK);
	assert_int_equal(lk_csv_open(in, &csv, &err), LK_OK);
	for (bool more;; files++) {
		assert_int_equal(lk_csv_next(csv, &more, &err), LK_OK);
		if (!more) break;
		if (files % 8 == 0) check_published(csv, &worst);
	}
	lk_csv_close(csv);
	lk_stream_close(in);
	assert_int_equal(files, 33);
	if (worst > 0.02) fail_msg("a bin is off by %.3f", worst);
}

/* ---- files ---- */

static lk_status read_text(const char *text, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_tables tables = {0};
	lk_stream *in;
	assert_int_equal(lk_stream_memory(text, strlen(text), "t.csv", &in, err), LK_OK);
	bool assumed;
	lk_status status = lk_shard_tables_read(&arena, in, 4096, &tables, &assumed, err);
	lk_stream_close(in);
	lk_vec_free(&tables);
	lk_arena_free(&arena);
	return status;
}

static void wrong_tables_name_row_and_column(void **state) {
	(void)state;
	static const char *const wrong[][2] = {
		{"rows", "name,rows,dim,pooling\na,0,64,1\n"},
		{"rows", "name,rows,dim,pooling\na,1.5,64,1\n"},
		{"dim", "name,rows,dim,pooling\na,5,x,1\n"},
		{"rows", "name,rows,dim,pooling\na,1e12,65536,1\n"},
		{"pooling", "name,rows,dim,pooling\na,5,64,-1\n"},
		{"name", "name,rows,dim,pooling\n,5,64,1\n"},
		{"kinds", "name,rows,dim,pooling,kinds\na,5,64,1,diagonal\n"},
		{"reuse", "name,rows,dim,pooling,reuse\na,5,64,1,0.5 0.5\n"},
		{"skew", "name,rows,dim,pooling,skew\na,5,64,1,nan\n"},
		{"pooling", "name,rows,dim,pooling\na,5,64,\n"},
		{"num_embeddings", "name,num_embeddings,embedding_dim\na,0,64\n"},
		{"pooling_factor", "num_embeddings,embedding_dim,pooling_factor\n5,64,few\n"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		lk_error err = {0};
		char column[32];
		snprintf(column, sizeof column, "column %s", wrong[i][0]);
		assert_int_equal(read_text(wrong[i][1], &err), LK_ERR_INPUT);
		if (!strstr(err.where, "t.csv:2") || !strstr(err.where, column))
			fail_msg("%zu: %s: %s", i, err.where, err.what);
	}
	lk_error err;
	assert_int_equal(read_text("name,dim,pooling\na,5,4\n", &err), LK_ERR_INPUT);
	assert_int_equal(read_text("name,rows,pooling\na,5,4\n", &err), LK_ERR_INPUT);
	assert_int_equal(read_text("name,rows,dim,pooling\n", &err), LK_ERR_INPUT);
	assert_int_equal(read_text("name,rows,dim,pooling\na,5,4,1\na,5,4,1\n", &err), LK_ERR_INPUT);
	assert_int_equal(read_text("name,rows,dim,pooling,count\na,5,4,1,3\nb,1M,64,10,1\n", &err),
	                 LK_OK);
	assert_int_equal(read_text("name,rows,dim,pooling,count\na,5,4,1,99999\nb,5,4,1,1\n", &err),
	                 LK_OK);
	assert_int_equal(read_text("name,rows,dim,pooling,count\na,5,4,1,99999\nb,5,4,1,2\n", &err),
	                 LK_ERR_INPUT);
}

/* ---- packing ---- */

static bool packs_somehow(const lk_shard_problem *problem, const lk_shard_pieces *pieces, size_t at,
                          double *device, double *host) {
	if (at == pieces->count) return true;
	const lk_shard_cost *cost = &pieces->at[at].cost;
	for (int r = 0; r < problem->ranks; r++) {
		if (device[r] + cost->device_bytes > problem->capacity ||
		    host[r] + cost->host_bytes > problem->host_capacity)
			continue;
		device[r] += cost->device_bytes;
		host[r] += cost->host_bytes;
		bool placed = packs_somehow(problem, pieces, at + 1, device, host);
		device[r] -= cost->device_bytes;
		host[r] -= cost->host_bytes;
		if (placed) return true;
	}
	return false;
}

/* Few sizes, so that many pieces are equal and ranks are full: packed if and only if some placement
 * fits, and then within what ranks hold. */
static void packs_what_fits(void **state) {
	(void)state;
	int fitting = 0, rounds = 2000;
	for (int n = 0; n < rounds; n++) {
		uint64_t draw = (uint64_t)n * 100;
		lk_shard_problem problem = {.ranks = 1 + (int)(4 * lk_uniform(3, draw)),
		                            .capacity = 3 + floor(6 * lk_uniform(3, draw + 1)),
		                            .host_capacity = floor(4 * lk_uniform(3, draw + 2))};
		draw += 3;
		lk_shard_pieces pieces = {0};
		for (int i = (int)(8 * lk_uniform(3, draw++)); i >= 0; i--) {
			assert_true(lk_push(&pieces));
			*lk_last(&pieces) = (lk_shard_piece){.table = (uint32_t)i, .rank = -1, .parts = 1};
			lk_last(&pieces)->cost.device_bytes = 1 + floor(4 * lk_uniform(3, draw++));
			if (lk_uniform(3, draw++) < 0.3) lk_last(&pieces)->cost.host_bytes = 1;
		}
		double device[4] = {0}, host[4] = {0};
		bool placed;
		lk_error err;
		assert_int_equal(lk_shard_pack(&problem, &pieces, 1000000, &placed, &err), LK_OK);
		assert_int_equal(placed, packs_somehow(&problem, &pieces, 0, device, host));
		for (size_t i = 0; placed && i < pieces.count; i++) {
			assert_in_range(pieces.at[i].rank, 0, problem.ranks - 1);
			device[pieces.at[i].rank] += pieces.at[i].cost.device_bytes;
			host[pieces.at[i].rank] += pieces.at[i].cost.host_bytes;
		}
		for (int r = 0; r < problem.ranks; r++)
			assert_true(device[r] <= problem.capacity && host[r] <= problem.host_capacity);
		fitting += placed;
		lk_vec_free(&pieces);
	}
	assert_true(fitting > rounds / 5 && fitting < rounds * 4 / 5);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closed_form_is_the_simulation),
		cmocka_unit_test(search_is_no_slower_than_heuristics),
		cmocka_unit_test(fits_whenever_anything_fits),
		cmocka_unit_test(bound_is_below_every_placement),
		cmocka_unit_test(ranks_that_touch_more_take_longer),
		cmocka_unit_test(bound_is_near_where_tables_are_many),
		cmocka_unit_test(bound_is_near_where_tables_are_split),
		cmocka_unit_test(balance_shortens_steps),
		cmocka_unit_test(even_columns_are_below_every_placement),
		cmocka_unit_test(host_memory_takes_the_rest),
		cmocka_unit_test(packs_what_fits),
		cmocka_unit_test(drawn_indices_have_the_classes),
		cmocka_unit_test(rows_lie_anywhere),
		cmocka_unit_test(published_locality),
		cmocka_unit_test(wrong_tables_name_row_and_column),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
