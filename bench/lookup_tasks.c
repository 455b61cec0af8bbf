/* lookup_tasks.c: random tasks after the sharding study of Lin et al. (arXiv 2404.12674, section on sharding): on n ranks 0.7
 * to 1.3 times 13 n tables, every second task of heavy ones (20 lookups a sample on average or more), 2048 samples. Each
 * rank's share is run alone, forward and backward; a step waits for the slowest forward and for the slowest backward.
 * Networks are left out: what is judged is the model of lookups and the search.
 */
#include "lookup_tasks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/stats.h"
#include "lookup_work.h"
#include "plan/shard.h"

enum { BATCH = 2048, SHARDERS = 16, ROUNDS = 2 };

typedef struct task {
	lk_shard_problem p;
	work_shape *shapes;      /* [p.count] */
	lookup_table *tables;    /* [p.count] whole */
} task;

typedef struct tally {
	int tasks, chosen, ours, nearly;
	double error;
	int measured;
} tally;

static void out_of_memory(void) {
	fputs("lookup: out of memory\n", stderr);
	exit(2);
}

/* ---- a task ---- */

static work_shape draw_table(uint64_t seed, uint64_t i, bool heavy) {
	static const double widths[] = {16, 32, 64, 128};
	work_shape s = {.batch = BATCH, .law = &work_laws[lk_hash64(seed + 31 * i) % (uint64_t)work_law_count], .seed = lk_hash64(seed ^ i)};
	s.dim = widths[lk_hash64(seed + 17 * i) % 4];
	s.rows = floor(fmin(pow(10, 2.5 + 4 * lk_uniform(seed, 3 * i)), 50e6 / (4 * s.dim)));
	double mean = exp(1.2 + 1.1 * lk_normal(seed, 3 * i + 1));
	if (heavy) mean = 20 * exp(0.5 * fabs(lk_normal(seed, 3 * i + 1)));
	s.pooling = fmin(fmax(round(mean), 1), 100);
	return s;
}

static void make(task *t, lk_arena *arena, const lk_host_lookup *h, int ranks, uint64_t seed, bool heavy) {
	static lk_device device; /* only its memory is looked at */
	static const lk_node node = {.device = &device, .gpus = 1};
	device.memory_bytes = 1e15;
	uint32_t count = (uint32_t)lround(13 * ranks * (0.7 + 0.6 * lk_uniform(seed, 999)));
	lk_shard_table *tables = LK_ARRAY(arena, lk_shard_table, count);
	t->shapes = LK_ARRAY(arena, work_shape, count), t->tables = LK_ARRAY(arena, lookup_table, count);
	if (!tables || !t->shapes || !t->tables) out_of_memory();
	t->p = (lk_shard_problem){.arena = arena, .tables = tables, .count = count, .ranks = ranks, .batch = BATCH, .element = 4, .row_state = 4,
	                          .capacity = 1e15, .seed = seed, .at = {.device = &device, .host = h, .memory_rate = 1, .l2_rate = 1, .host_rate = 1},
	                          .network = {.node = &node, .ranks = 1, .nodes = 1, .ranks_per_node = 1, .sharing = 1, .oversubscription = 1}};
	for (uint32_t i = 0; i < count; i++) {
		lk_locality *room = LK_NEW(arena, lk_locality);
		if (!room) out_of_memory();
		t->shapes[i] = draw_table(seed, i, heavy);
		lk_lookup l = work_lookup(&t->shapes[i], room);
		tables[i] = (lk_shard_table){.name = "t", .where = "", .rows = l.rows, .dim = l.dim, .pooling = l.pooling, .locality = room,
		                             .allowed = 1u << LK_SHARD_TABLE | 1u << LK_SHARD_COLUMN};
		work_make(&t->shapes[i], &t->tables[i]);
	}
	lk_shard_touched(&t->p);
}

/* ---- a placement, measured ---- */

/* A part of the columns is a narrower table. */
static lookup_table part_of(const task *t, const lk_shard_piece *piece) {
	lookup_table part;
	if (piece->parts == 1) return t->tables[piece->table];
	work_shape shape = t->shapes[piece->table];
	shape.dim = piece->cost.columns;
	work_make(&shape, &part);
	return part;
}

/* Each rank's share alone, into the least that was measured of it so far. */
static void measure(const task *t, const lk_shard_pieces *pieces, work_core *core, work_time *ranks) {
	lookup_table *share = calloc(pieces->count + 1, sizeof *share);
	if (!share) out_of_memory();
	for (int r = 0; r < t->p.ranks; r++) {
		size_t count = 0;
		for (size_t i = 0; i < pieces->count; i++)
			if (pieces->at[i].rank == r) share[count++] = part_of(t, &pieces->at[i]);
		work_time time = work_measure(share, count, core, NULL);
		ranks[r].forward_s = fmin(ranks[r].forward_s, time.forward_s), ranks[r].backward_s = fmin(ranks[r].backward_s, time.backward_s);
		for (size_t i = 0, k = 0; i < pieces->count; i++) {
			if (pieces->at[i].rank != r) continue;
			if (pieces->at[i].parts > 1) work_free(&share[k]);
			k++;
		}
	}
	free(share);
}

/* A step waits for the slowest forward and for the slowest backward. */
static double step_of(const work_time *ranks, int count) {
	work_time slowest = {0};
	for (int r = 0; r < count; r++)
		slowest.forward_s = fmax(slowest.forward_s, ranks[r].forward_s), slowest.backward_s = fmax(slowest.backward_s, ranks[r].backward_s);
	return slowest.forward_s + slowest.backward_s;
}

static double predict(const task *t, const lk_shard_pieces *pieces) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_load load;
	lk_error err;
	if (lk_shard_load_of(&arena, &t->p, pieces, &load, &err) != LK_OK) out_of_memory();
	lk_arena_free(&arena);
	return load.forward_s + load.backward_s;
}

/* ---- the study ---- */

static void judge(const double *predicted, const double *measured, tally *sum) {
	int picked = -1, fastest = -1, ours = lk_sharder_search;
	for (int i = 0; i < lk_sharder_count; i++) {
		sum->error += fabs(log(predicted[i] / measured[i])), sum->measured++;
		if (i == ours) continue;
		if (picked < 0 || predicted[i] < predicted[picked]) picked = i;
		if (fastest < 0 || measured[i] < measured[fastest]) fastest = i;
	}
	bool chosen = measured[picked] <= 1.02 * measured[fastest];
	sum->tasks++, sum->chosen += chosen, sum->ours += measured[ours] <= measured[fastest], sum->nearly += measured[ours] <= 1.01 * measured[fastest];
	printf(",%s,%s,%.3f,%.3f\n", lk_sharders[picked].name, lk_sharders[fastest].name, measured[picked] / measured[fastest],
	       measured[ours] / measured[fastest]);
}

/* The sharders in turn, and then again: what disturbs a while disturbs none alone. */
static void measure_all(const task *t, const lk_shard_plan *plans, work_core *core, double *measured) {
	static const work_time never = {INFINITY, INFINITY};
	static work_time ranks[SHARDERS][64];
	for (int i = 0; i < lk_sharder_count; i++)
		for (int r = 0; r < t->p.ranks; r++) ranks[i][r] = never;
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < lk_sharder_count; i++) measure(t, &plans[i].pieces, core, ranks[i]);
	for (int i = 0; i < lk_sharder_count; i++) measured[i] = step_of(ranks[i], t->p.ranks);
}

static void run_task(const lk_host_lookup *h, int ranks, int number, uint64_t seed, work_core *core, tally *sum) {
	lk_arena arena = LK_ARENA_INIT;
	task t;
	lk_shard_plan plans[SHARDERS] = {{{0}}};
	double predicted[SHARDERS], measured[SHARDERS];
	make(&t, &arena, h, ranks, lk_hash64(seed * 1000 + (uint64_t)number), number % 2);
	for (int i = 0; i < lk_sharder_count; i++) {
		lk_error err;
		if (lk_sharders[i].run(&t.p, &plans[i], &err) != LK_OK) out_of_memory();
		predicted[i] = predict(&t, &plans[i].pieces);
	}
	measure_all(&t, plans, core, measured);
	printf("%d,%d,%u,%s", number, ranks, t.p.count, number % 2 ? "heavy" : "any");
	for (int i = 0; i < lk_sharder_count; i++) printf(",%.2f,%.2f", predicted[i] * 1e3, measured[i] * 1e3);
	judge(predicted, measured, sum);
	fflush(stdout);
	for (int i = 0; i < lk_sharder_count; i++) lk_vec_free(&plans[i].pieces);
	for (uint32_t i = 0; i < t.p.count; i++) work_free(&t.tables[i]);
	lk_arena_free(&arena);
}

int lookup_tasks(const lk_host_lookup *h, int ranks, int first, int last, uint64_t seed) {
	tally sum = {0};
	if (ranks < 1 || ranks > 64) return 2;
	work_core core = work_core_new();
	printf("task,ranks,tables,kind");
	for (int i = 0; i < lk_sharder_count; i++) printf(",%s predicted ms,measured ms", lk_sharders[i].name);
	printf(",predicted fastest,measured fastest,picked over fastest,search over fastest\n");
	for (int i = first; i <= last; i++) run_task(h, ranks, i, seed, &core, &sum);
	if (!sum.tasks) return 2;
	printf("# %d tasks on %d ranks: predicted fastest within 2 %% of the measured fastest in %d; search no slower than the best heuristic in %d, "
	       "within 1 %% in %d; steps predicted with an error of %.1f %%\n", sum.tasks, ranks, sum.chosen, sum.ours, sum.nearly,
	       100 * expm1(sum.error / sum.measured));
	return 0;
}
