/* lookup_tasks.c: random tasks after the sharding study of Lin et al. (arXiv 2404.12674, section on
 * sharding): on n ranks 0.7 to 1.3 times 13 n tables, every second task of heavy ones (20 lookups a
 * sample on average or more), 512 samples. Each rank's share is run alone, forward and backward; a
 * step waits for the slowest forward and for the slowest backward. Networks are left out: what is
 * judged is the model of lookups and the search. Shares that several sharders have are measured
 * once, and what was measured is kept (lookup_store.c), so that another model is judged without
 * measuring again.
 */
#include "lookup_tasks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/stats.h"
#include "lookup_counts.h"
#include "lookup_store.h"
#include "lookup_work.h"
#include "shard/shard.h"

enum { BATCH = 512, SHARDERS = 16 };

struct task {
	lk_shard_problem p;
	work_shape *shapes;   /* [p.count] */
	lookup_table *tables; /* [p.count] whole */
};

struct tally {
	int tasks, chosen; /* measured; predicted fastest within 2 % of the measured one */
	int judged, ours, nearly, level; /* where the search was measured: no slower than the best
	                                    heuristic, within 1 %, 2 % */
	double error, noise;
	int measured;
};

struct study {
	const lk_host_lookup *h;
	int ranks;
	uint64_t seed;
	lookup_store *store;
	bool measures, measures_search;
	int passes;
	struct tally sum;
};

/* ---- a task ---- */

static work_shape draw_table(uint64_t seed, uint64_t i, bool heavy) {
	static const double widths[] = {16, 32, 64, 128};
	work_shape s = {.batch = BATCH,
	                .law = &work_laws[lk_hash64(seed + 31 * i) % (uint64_t)work_law_count],
	                .seed = lk_hash64(seed ^ i)};
	s.dim = widths[lk_hash64(seed + 17 * i) % 4];
	s.rows = floor(fmin(pow(10, 2.5 + 4 * lk_uniform(seed, 3 * i)), 50e6 / (4 * s.dim)));
	double mean = exp(1.2 + 1.1 * lk_normal(seed, 3 * i + 1));
	if (heavy) mean = 20 * exp(0.5 * fabs(lk_normal(seed, 3 * i + 1)));
	s.pooling = fmin(fmax(round(mean), 1), 100);
	return s;
}

static void make(struct task *task, lk_arena *arena, const lk_host_lookup *lookup, int ranks,
                 uint64_t seed, bool heavy) {
	static lk_device device; /* only its memory is looked at */
	static const lk_node node = {.device = &device, .gpus = 1};
	device.memory_bytes = 1e15;
	uint32_t count = (uint32_t)lround(13 * ranks * (0.7 + 0.6 * lk_uniform(seed, 999)));
	lk_shard_table *tables = LK_ARRAY(arena, lk_shard_table, count);
	task->shapes = LK_ARRAY(arena, work_shape, count);
	task->tables = LK_ARRAY(arena, lookup_table, count);
	if (!tables || !task->shapes || !task->tables) work_out_of_memory();
	task->p = (lk_shard_problem){
		.arena = arena,
		.tables = tables,
		.count = count,
		.ranks = ranks,
		.batch = BATCH,
		.element = 4,
		.row_state = 4,
		.capacity = 1e15,
		.seed = seed,
		.at = {.device = &device, .host = lookup, .memory_rate = 1, .l2_rate = 1, .host_rate = 1},
		.network = {.node = &node,
	                .ranks = 1,
	                .nodes = 1,
	                .ranks_per_node = 1,
	                .sharing = 1,
	                .oversubscription = 1}};
	for (uint32_t i = 0; i < count; i++) {
		lk_locality *room = LK_NEW(arena, lk_locality);
		if (!room) work_out_of_memory();
		task->shapes[i] = draw_table(seed, i, heavy);
		lk_lookup l = work_lookup(&task->shapes[i], room);
		tables[i] = (lk_shard_table){.name = "t",
		                             .where = "",
		                             .rows = l.rows,
		                             .dim = l.dim,
		                             .pooling = l.pooling,
		                             .locality = room,
		                             .allowed = 1u << LK_SHARD_TABLE | 1u << LK_SHARD_COLUMN};
	}
	lk_shard_share(&task->p);
}

/* ---- shares ---- */

/* What a rank has of a placement. */
struct share {
	const lk_shard_piece *pieces[256];
	int count;
	uint64_t key;
};

static uint64_t piece_key(const lk_shard_piece *piece) {
	return lk_hash64((uint64_t)piece->table << 32 | (uint64_t)piece->part << 16 |
	                 (uint64_t)piece->parts);
}

/* The same pieces in any order are the same share. */
static struct share share_of(const struct task *task, const lk_shard_pieces *pieces, int rank) {
	struct share s = {.count = 0};
	uint64_t sum = 0;
	for (size_t i = 0; i < pieces->count; i++)
		if (pieces->at[i].rank == rank && s.count < 256) {
			s.pieces[s.count++] = &pieces->at[i];
			sum += piece_key(&pieces->at[i]);
		}
	s.key = lk_hash64(sum ^ lk_hash64(task->p.seed ^ (uint64_t)task->p.batch));
	return s;
}

/* A part of the columns is a narrower table. */
static lookup_table part_of(const struct task *task, const lk_shard_piece *piece) {
	lookup_table part;
	if (piece->parts == 1) return task->tables[piece->table];
	work_shape shape = task->shapes[piece->table];
	shape.dim = piece->cost.columns;
	work_make(&shape, &part);
	return part;
}

static bool measure(struct study *study, const struct task *task, const struct share *share) {
	lookup_table tables[256];
	for (int i = 0; i < share->count; i++) tables[i] = part_of(task, share->pieces[i]);
	work_slices pass = {0};
	work_measure(tables, (size_t)share->count, &pass);
	for (int i = 0; i < share->count; i++)
		if (share->pieces[i]->parts > 1) work_free(&tables[i]);
	return lookup_store_add(study->store, share->key, &pass);
}

/* Every share that was not yet measured so many times, in turn, the sharders' behind one another:
 * what disturbs a while disturbs all of them. */
static bool measure_all(struct study *study, const struct task *task, const lk_shard_plan *plans) {
	for (int round = 1; round <= study->passes; round++)
		for (int r = 0; r < study->ranks; r++)
			for (int i = 0; i < lk_sharder_count; i++) {
				struct share s = share_of(task, &plans[i].pieces, r);
				if (i == lk_sharder_search && !study->measures_search) continue;
				if (s.count && lookup_store_find(study->store, s.key)->passes < round &&
				    !measure(study, task, &s))
					return false;
			}
	return true;
}

/* A step waits for the slowest forward and for the slowest backward; of every second pass alone
 * where asked. NAN: a share of it was not measured. */
static double measured_step(struct study *study, const struct task *task, const lk_shard_plan *plan,
                            int which) {
	work_time slowest = {0};
	for (int r = 0; r < study->ranks; r++) {
		struct share s = share_of(task, &plan->pieces, r);
		if (!s.count) continue;
		const lookup_known *known = lookup_store_find(study->store, s.key);
		if (known->passes < 1) return NAN;
		const work_slices *second = &known->least[known->passes > 1];
		work_time m =
			work_sum(which == 2 ? second : &known->least[0], which ? NULL : second, WORK_ALL);
		slowest.forward_s = fmax(slowest.forward_s, m.forward_s);
		slowest.backward_s = fmax(slowest.backward_s, m.backward_s);
	}
	return slowest.forward_s + slowest.backward_s;
}

static double predicted_step(const struct task *task, const lk_shard_pieces *pieces) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_load load;
	lk_error err;
	if (lk_shard_load_of(&arena, &task->p, pieces, &load, &err) != LK_OK) work_out_of_memory();
	lk_arena_free(&arena);
	return load.forward_s + load.backward_s;
}

/* ---- what need not be counted ---- */

static bool count_share(struct study *study, const struct task *task, const lk_shard_plan *plan,
                        int rank, work_time *slowest) {
	struct share s = share_of(task, &plan->pieces, rank);
	if (!s.count) return true;
	if (!lookup_store_find(study->store, s.key)->passes && !measure(study, task, &s)) return false;
	work_time m = work_sum(&lookup_store_find(study->store, s.key)->least[0], NULL, WORK_ALL);
	slowest->forward_s = fmax(slowest->forward_s, m.forward_s);
	slowest->backward_s = fmax(slowest->backward_s, m.backward_s);
	return true;
}

static double seconds_of(const lk_shard_cost *cost) {
	return cost->forward_s + cost->backward_s;
}

/* The ranks in turn, from the one that is predicted to be slowest, until the step is longer than
 * `best`, which only grows with more ranks; a shorter one becomes the best. */
static bool count_ranks(struct study *study, const struct task *task, const lk_shard_plan *plan,
                        double *best) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_load load;
	lk_error err;
	work_time slowest = {0};
	bool counted[64] = {0}, done = true;
	if (lk_shard_load_of(&arena, &task->p, &plan->pieces, &load, &err) != LK_OK)
		work_out_of_memory();
	for (int i = 0; i < study->ranks && done && slowest.forward_s + slowest.backward_s <= *best;
	     i++) {
		int next = -1;
		for (int r = 0; r < study->ranks; r++)
			if (!counted[r] &&
			    (next < 0 || seconds_of(&load.rank[r]) > seconds_of(&load.rank[next])))
				next = r;
		counted[next] = true;
		done = count_share(study, task, plan, next, &slowest);
	}
	*best = fmin(*best, slowest.forward_s + slowest.backward_s);
	lk_arena_free(&arena);
	return done;
}

/* Counts do not change, but take a hundred times as long as the lookups: the search, the heuristic
 * that is predicted to be fastest, and of the others as much as shows that they are slower. */
static bool count_all(struct study *study, const struct task *task, const lk_shard_plan *plans) {
	double best = INFINITY, ours = INFINITY, predicted[SHARDERS];
	int first = -1;
	for (int i = 0; i < lk_sharder_count; i++) {
		predicted[i] = predicted_step(task, &plans[i].pieces);
		if (i != lk_sharder_search && (first < 0 || predicted[i] < predicted[first])) first = i;
	}
	if (study->measures_search && !count_ranks(study, task, &plans[lk_sharder_search], &ours))
		return false;
	if (!count_ranks(study, task, &plans[first], &best)) return false;
	for (int i = 0; i < lk_sharder_count; i++)
		if (i != first && i != lk_sharder_search && !count_ranks(study, task, &plans[i], &best))
			return false;
	return true;
}

/* ---- the study ---- */

static void judge(struct study *study, const struct task *task, const lk_shard_plan *plans,
                  int number) {
	struct tally *sum = &study->sum;
	int picked = -1, fastest = -1, ours = lk_sharder_search;
	double predicted[SHARDERS], measured[SHARDERS];
	printf("%d,%d,%u,%s", number, study->ranks, task->p.count, number % 2 ? "heavy" : "any");
	for (int i = 0; i < lk_sharder_count; i++) {
		predicted[i] = predicted_step(task, &plans[i].pieces);
		measured[i] = measured_step(study, task, &plans[i], 0);
		printf(",%.2f,", predicted[i] * 1e3);
		if (!(measured[i] > 0)) continue; /* not measured, or as far as to know that it is slower */
		printf("%.2f", measured[i] * 1e3);
		sum->error += fabs(log(predicted[i] / measured[i]));
		sum->measured++;
		sum->noise += fabs(log(measured_step(study, task, &plans[i], 1) /
		                       measured_step(study, task, &plans[i], 2)));
		if (i == ours) continue;
		if (picked < 0 || predicted[i] < predicted[picked]) picked = i;
		if (fastest < 0 || measured[i] < measured[fastest]) fastest = i;
	}
	if (fastest < 0) {
		printf(",,,,\n");
		return;
	}
	double over = measured[picked] / measured[fastest], our = measured[ours] / measured[fastest];
	sum->tasks++;
	sum->chosen += over <= 1.02;
	if (our > 0) {
		sum->judged++;
		sum->ours += our <= 1;
		sum->nearly += our <= 1.01;
		sum->level += our <= 1.02;
	}
	printf(",%s,%s,%.3f,%.3f\n", lk_sharders[picked].name, lk_sharders[fastest].name, over, our);
}

static bool run_task(struct study *study, int number) {
	lk_arena arena = LK_ARENA_INIT;
	struct task t;
	lk_shard_plan plans[SHARDERS] = {{{0}}};
	make(&t, &arena, study->h, study->ranks, lk_hash64(study->seed * 1000 + (uint64_t)number),
	     number % 2);
	for (int i = 0; i < lk_sharder_count; i++) {
		lk_error err;
		if (lk_sharders[i].run(&t.p, &plans[i], &err) != LK_OK) work_out_of_memory();
	}
	bool done = true;
	if (study->measures) {
		for (uint32_t i = 0; i < t.p.count; i++) work_make(&t.shapes[i], &t.tables[i]);
		done = lookup_counts() ? count_all(study, &t, plans) : measure_all(study, &t, plans);
		for (uint32_t i = 0; i < t.p.count; i++) work_free(&t.tables[i]);
	}
	judge(study, &t, plans, number);
	fflush(stdout);
	for (int i = 0; i < lk_sharder_count; i++) lk_vec_free(&plans[i].pieces);
	lk_arena_free(&arena);
	return done;
}

static void print_header(void) {
	printf("task,ranks,tables,kind");
	for (int i = 0; i < lk_sharder_count; i++)
		printf(",%s predicted ms,measured ms", lk_sharders[i].name);
	printf(",predicted fastest,measured fastest,picked over fastest,search over fastest\n");
}

int lookup_tasks(const lk_host_lookup *lookup, const lookup_tasks_options *options) {
	lookup_store store;
	struct study y = {.h = lookup,
	                  .ranks = options->ranks,
	                  .seed = options->seed,
	                  .store = &store,
	                  .measures = options->seconds > 0,
	                  .measures_search = !options->heuristics,
	                  .passes = options->passes};
	if (y.ranks < 1 || y.ranks > 64 || !lookup_store_open(options->store, &store)) return 2;
	print_header();
	double begin = work_now();
	for (int i = options->first; i <= options->last; i++) {
		if (y.measures && work_now() - begin > options->seconds) break;
		if (!run_task(&y, i)) return 2;
	}
	lookup_store_close(&store);
	const struct tally *sum = &y.sum;
	if (!sum->tasks) return fputs("lookup: no task was measured\n", stderr), 2;
	printf("# %d tasks on %d ranks: predicted fastest within 2 %% of the measured fastest in %d; "
	       "of %d, search no slower than the best heuristic "
	       "in %d, within 1 %% in %d, within 2 %% in %d; steps predicted with an error of %.1f %%, "
	       "measured twice %.1f %%\n",
	       sum->tasks, y.ranks, sum->chosen, sum->judged, sum->ours, sum->nearly, sum->level,
	       100 * expm1(sum->error / sum->measured), 100 * expm1(sum->noise / sum->measured));
	return 0;
}
