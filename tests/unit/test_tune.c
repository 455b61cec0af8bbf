/* test_tune.c: the search finds the published schedules unaided, told by the steps that they
 * become, not by their text; it finds nothing slower than what the examples' authors wrote; what it
 * prints reads back as the same. Wisdom is kept, and what is none is ignored. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/arena.h"
#include "io/stream.h"
#include "lang/compile/compile.h"
#include "cost/collective/collective.h"
#include "lang/tune/tune.h"
#include "lang/syntax/parse.h"
#include "scratch.h"

#define OK(call)                                                                                 \
	do {                                                                                         \
		lk_error err_ = {0}, *err = &err_;                                                       \
		char line_[1024];                                                                        \
		if ((call) != LK_OK) fail_msg("%s: %s", #call, lk_error_text(err, line_, sizeof line_)); \
	} while (0)

#define ONE_NODE  "8 h100-sxm"
#define TWO_NODES "2 node * 8 h100-sxm nvlink4, nic 8*400g"

struct tuned {
	lc_file *file;
	lc_program *p, *best; /* best: rewritten by the fastest schedule */
	lc_steps *steps;
	lc_sizes sizes;
	lk_arena arena;
	lk_cluster cluster;
	lk_search_options options;
	lk_search search;
};

static struct tuned *tune(const char *path, const char *cluster, const char *sizes, int programs) {
	struct tuned *tuned = calloc(1, sizeof *tuned);
	char *text;
	size_t size;
	OK(lk_stream_slurp(path, LC_TEXT_LIMIT, &text, &size, err));
	OK(lc_parse(path, text, size, &tuned->file, err));
	free(text);
	tuned->p = tuned->file->programs.at[0];
	OK(lc_sizes_read(tuned->p, sizes, 1, &tuned->sizes, err));
	OK(lk_cluster_parse(&tuned->arena, cluster, &tuned->cluster, err));
	tuned->options = (lk_search_options){
		.cluster = &tuned->cluster, .sizes = &tuned->sizes, .programs = programs};
	OK(lk_search_run(tuned->p, &tuned->options, &tuned->search, err));
	OK(lc_rewrite_all(tuned->p, &tuned->search.found.at[0].schedule, &tuned->best, err));
	OK(lc_steps_make(tuned->best, &tuned->steps, err));
	return tuned;
}

/* Of schedules within 1 % of the fastest, which are as good as equal, the first of which this holds
 * becomes the best; false: it holds of none. */
static bool settle(struct tuned *tuned, bool (*holds)(const struct tuned *tuned)) {
	double fastest = tuned->search.found.at[0].time.seconds;
	for (size_t i = 0; i < tuned->search.found.count; i++) {
		if (tuned->search.found.at[i].time.seconds > 1.01 * fastest) continue;
		lc_steps_free(tuned->steps);
		lc_program_free(tuned->best);
		OK(lc_rewrite_all(tuned->p, &tuned->search.found.at[i].schedule, &tuned->best, err));
		OK(lc_steps_make(tuned->best, &tuned->steps, err));
		if (holds(tuned)) return true;
	}
	return false;
}

static void drop(struct tuned *tuned) {
	lc_steps_free(tuned->steps);
	lc_program_free(tuned->best);
	lk_search_free(&tuned->search);
	lc_sizes_free(&tuned->sizes);
	lk_arena_free(&tuned->arena);
	lc_file_free(tuned->file);
	free(tuned);
}

static void miss(const struct tuned *tuned, const char *what) {
	enum { TOP = 5 };
	lk_arena arena = LK_ARENA_INIT;
	size_t count = tuned->search.found.count;
	lk_tuned answer = {.p = tuned->p,
	                   .sizes = &tuned->sizes,
	                   .cluster_text = tuned->cluster.text,
	                   .search = &tuned->search,
	                   .plain = &tuned->search.plain,
	                   .best = tuned->search.found.at,
	                   .shown = count < TOP ? (int)count : TOP,
	                   .arena = &arena};
	lk_tuned_text(&answer, stderr);
	lk_arena_free(&arena);
	lc_steps_print(tuned->steps, stderr);
	fail_msg("%s: %s", tuned->p->name, what);
}

static const lc_step *step_of(const lc_step *steps, int count, lc_step_kind kind) {
	for (int i = 0; i < count; i++)
		if (steps[i].kind == kind) return &steps[i];
	return NULL;
}

static int count_op(const lc_program *program, const lc_ids *values, lc_op op) {
	int count = 0;
	for (int i = 0; i < values->count; i++) count += program->nodes.at[values->at[i]].op == op;
	return count;
}

static int states_sliced(const lc_program *program) {
	int count = 0;
	for (size_t v = 0; v < program->nodes.count; v++)
		count += program->nodes.at[v].op == LC_STATE && program->nodes.at[v].layout[0].kind == LC_S;
	return count;
}

/* ---- what the reference publishes ---- */

static const lc_step *epilogue_ring(const struct tuned *tuned) {
	const lc_step *whole = step_of(tuned->steps->at, tuned->steps->count, LC_STEP_OVERLAP);
	if (!whole || !step_of(whole->parts, whole->part_count, LC_STEP_CONTRACT)) return NULL;
	const lc_step *ring = step_of(whole->parts, whole->part_count, LC_STEP_RING);
	return ring && ring->scatter >= 0 && ring->gathers.count == 1 ? ring : NULL;
}

static bool epilogue_in_ring(const struct tuned *tuned) {
	return epilogue_ring(tuned) != NULL;
}

/* Reduce-scatter, epilogue and all-gather in one pass, overlapped with the product, on the GPUs of
 * the reference: later ones reduce in the switch. */
static void test_output_projection(void **state) {
	(void)state;
	struct tuned *tuned =
		tune("examples/lang/tp_out.lk", "8 v100-sxm-32", "tp=8,B=8,S=1024,H=12288", 0);
	if (!settle(tuned, epilogue_in_ring))
		miss(tuned, "the epilogue is not in the ring beside the product");
	assert_int_equal(count_op(tuned->best, &epilogue_ring(tuned)->values, LC_DROPOUT), 1);
	assert_true(tuned->search.found.at[0].time.seconds < 0.9 * tuned->search.plain.time.seconds);
	assert_false(tuned->search.capped);
	drop(tuned);
}

/* One pass between the halves of the all-reduce, on sliced states; the format that is gathered is
 * the small one. */
static void test_adam(void **state) {
	(void)state;
	struct tuned *tuned = tune("examples/lang/adam.lk", ONE_NODE, "dp=8,N=100000000", 0);
	if (tuned->steps->count != 1 || tuned->steps->at[0].kind != LC_STEP_RING)
		miss(tuned, "it is not one pass");
	const lc_step *ring = &tuned->steps->at[0];
	assert_true(ring->scatter >= 0);
	assert_int_equal(ring->gathers.count, 1);
	assert_int_equal(tuned->best->nodes.at[ring->gathers.at[0]].dtype, LC_F16);
	assert_int_equal(count_op(tuned->best, &ring->values, LC_UPDATE), 3);
	assert_int_equal(states_sliced(tuned->best), 3);
	assert_false(tuned->search.capped);
	drop(tuned);
}

/* Two passes around the sums of the norms: scatter, moments and partial norms; then the weights'
 * update. */
static void test_lamb(void **state) {
	(void)state;
	struct tuned *tuned =
		tune("examples/lang/lamb.lk", ONE_NODE, "dp=8,N=1000000:20000000:30000:5000000", 0);
	const lc_step *first = step_of(tuned->steps->at, tuned->steps->count, LC_STEP_RING);
	if (!first || first->scatter < 0) miss(tuned, "the first pass is not joined with the scatter");
	assert_int_equal(count_op(tuned->best, &first->values, LC_RED_SUM), 2);
	assert_int_equal(count_op(tuned->best, &first->values, LC_UPDATE), 2);
	assert_int_equal(states_sliced(tuned->best), 3);
	const lc_step *last = &tuned->steps->at[tuned->steps->count - 1];
	if (last == first || count_op(tuned->best, &last->values, LC_ALLGATHER) +
	                             count_op(tuned->best, &last->values, LC_UPDATE) ==
	                         0)
		miss(tuned, "there is no second pass");
	for (int i = 0; i < tuned->steps->count; i++) /* nothing but sums of single numbers between */
		if (&tuned->steps->at[i] != first &&
		    count_op(tuned->best, &tuned->steps->at[i].values, LC_ALLREDUCE)) {
			assert_int_equal(tuned->best->nodes.at[tuned->steps->at[i].values.at[0]].rank, 0);
			assert_int_equal(count_op(tuned->best, &tuned->steps->at[i].values, LC_ALLREDUCE),
			                 2); /* of both norms, in one message */
		}
	drop(tuned);
}

/* Slices are sent, and gathered on the other side: a 1/T of the bytes between the groups. */
static void test_hand_over(void **state) {
	(void)state;
	struct tuned *tuned =
		tune("examples/lang/pp_edge.lk", TWO_NODES, "pp=2,tp=8,B=8,S=1024,H=12288", 0);
	bool sent = false, gathered = false;
	for (size_t v = 0; v < tuned->best->nodes.count; v++) {
		const lc_node *node = &tuned->best->nodes.at[v];
		if (node->op == LC_SEND) sent = node->layout[1].kind == LC_S;
		if (node->op == LC_ALLGATHER) gathered = node->at.axis == 0 && node->at.offset == 1;
	}
	if (!sent || !gathered) miss(tuned, "slices are not sent");
	if (!step_of(tuned->steps->at, tuned->steps->count, LC_STEP_OVERLAP))
		miss(tuned, "nothing overlaps");
	assert_true(tuned->search.found.at[0].time.seconds < tuned->search.plain.time.seconds / 3);
	drop(tuned);
}

static bool experts_in_turn(const struct tuned *tuned) {
	const lc_step *whole = step_of(tuned->steps->at, tuned->steps->count, LC_STEP_OVERLAP);
	if (!whole || whole->part_count < 4) return false;
	for (int i = 0; i < whole->values.count; i++)
		if (tuned->steps->cut[whole->values.at[i]] != 0) return false;
	return true;
}

/* Experts in turn, so that no weight is read twice: exchange of some beside the products of others,
 * there and back. */
static void test_experts(void **state) {
	(void)state;
	struct tuned *tuned =
		tune("examples/lang/moe.lk", ONE_NODE, "ep=8,E=64,C=1024,H=4096,F=4096", 0);
	if (!settle(tuned, experts_in_turn))
		miss(tuned, "exchanges and products do not overlap, one expert after the other");
	assert_true(tuned->search.found.at[0].time.seconds < 0.95 * tuned->search.plain.time.seconds);
	drop(tuned);
}

/* ---- properties of a search ---- */

static const struct {
	const char *path, *cluster, *sizes;
} examples[] = {
	{"examples/lang/sgd.lk", ONE_NODE, "dp=8,N=10000000"},
	{"examples/lang/adam.lk", TWO_NODES, "dp=16,N=10000019"},
	{"examples/lang/adamw.lk", ONE_NODE, "dp=8,N=100000000"},
	{"examples/lang/tp_out.lk", ONE_NODE, "tp=4,B=3,S=1000,H=4096"},
	{"examples/lang/mlp.lk", TWO_NODES, "dp=2,tp=8,B=4,S=512,H=4096,F=16384"},
	{"examples/lang/moe.lk", ONE_NODE, "ep=8,E=32,C=256,H=2048,F=4096"},
	{"examples/lang/lamb.lk", ONE_NODE, "dp=8,N=1000000:20000000:30000:5000000"},
	{"examples/lang/ring_attention.lk", "1 node * 4 h100-sxm nvlink4, nic 4*400g",
     "cp=4,B=16,T=2048,D=64"},
};

/* No schedule that the file's author wrote is faster than what is found, where the search came to
 * its end. */
static void test_no_author_is_faster(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
		struct tuned *tuned = tune(examples[i].path, examples[i].cluster, examples[i].sizes, 0);
		assert_false(tuned->search.capped);
		assert_true(tuned->search.found.at[0].time.seconds <= tuned->search.plain.time.seconds);
		for (size_t k = 1; k < tuned->search.found.count; k++)
			assert_true(tuned->search.found.at[k - 1].time.seconds <=
			            tuned->search.found.at[k].time.seconds);
		for (size_t k = 0; k < tuned->p->schedules.count; k++) {
			lk_found one;
			OK(lk_search_time(tuned->p, &tuned->p->schedules.at[k], &tuned->options, &one, err));
			if (one.time.seconds < 0.999 * tuned->search.found.at[0].time.seconds)
				miss(tuned, tuned->p->schedules.at[k].name);
		}
		drop(tuned);
	}
}

/* What is found can be pasted: the text reads back as a schedule that makes the same program and
 * takes the same time. */
static void test_reads_back(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
		struct tuned *tuned = tune(examples[i].path, examples[i].cluster, examples[i].sizes, 100);
		for (size_t k = 0; k < tuned->search.found.count && k < 20; k++) {
			const lk_found *found = &tuned->search.found.at[k];
			lc_file *file = NULL;
			const lc_schedule *again;
			lk_found one;
			OK(lk_wisdom_schedule(tuned->p, lk_wisdom_text(&tuned->arena, &found->schedule), &file,
			                      &again, err));
			OK(lk_search_time(tuned->p, again, &tuned->options, &one, err));
			assert_float_equal(one.time.seconds, found->time.seconds, 1e-12);
			lc_file_free(file);
		}
		drop(tuned);
	}
}

static void test_same_again_and_capped(void **state) {
	(void)state;
	struct tuned *a = tune(examples[1].path, examples[1].cluster, examples[1].sizes, 40);
	struct tuned *b = tune(examples[1].path, examples[1].cluster, examples[1].sizes, 40);
	assert_true(a->search.capped);
	assert_int_equal(a->search.looked, 40);
	assert_int_equal(a->search.found.count, b->search.found.count);
	for (size_t i = 0; i < a->search.found.count; i++)
		assert_true(a->search.found.at[i].hash == b->search.found.at[i].hash);
	drop(a);
	drop(b);
}

/* ---- wisdom ---- */

static void test_wisdom_is_kept(void **state) {
	(void)state;
	char path[512];
	snprintf(path, sizeof path, "%s/kept", scratch);
	lk_wisdom w;
	OK(lk_wisdom_read(path, &w, err)); /* none yet */
	assert_int_equal(w.entries.count, 0);
	OK(lk_wisdom_keep(&w, &(lk_wise){7, "dp=8 on x", false, 2, 3, "split a -> (b, c)"}, err));
	OK(lk_wisdom_keep(&w, &(lk_wise){7, "dp=8 on x", true, 2.5, 3, "slice w"}, err));
	OK(lk_wisdom_keep(&w, &(lk_wise){7, "dp=8 on x", false, 1, 3, ""},
	                  err)); /* simulated: no better */
	OK(lk_wisdom_keep(&w, &(lk_wise){7, "dp=9 on x", false, 1, 3, ""}, err));
	OK(lk_wisdom_write(&w, path, err));
	lk_wisdom_free(&w);
	OK(lk_wisdom_read(path, &w, err));
	assert_int_equal(w.entries.count, 2);
	assert_int_equal(w.warnings.count, 0);
	const lk_wise *wise = lk_wisdom_find(&w, 7, "dp=8 on x");
	assert_true(wise && wise->measured && wise->seconds == 2.5 && wise->plain == 3);
	assert_string_equal(wise->schedule, "slice w");
	assert_null(lk_wisdom_find(&w, 8, "dp=8 on x"));
	lk_wisdom_free(&w);
}

static void test_hostile_wisdom(void **state) {
	(void)state;
	static const char *const lines[] = {
		"x",
		"0123456789abcdef\tsimulated\t1\t1\twhere",
		"0123456789abcdef\tguessed\t1\t1\twhere\t",
		"0123456789abcdeg\tsimulated\t1\t1\twhere\t",
		"0123456789abcdef\tsimulated\tnan\t1\twhere\t",
		"0123456789abcdef\tsimulated\t-1\t1\twhere\t",
		"0123456789abcdef\tsimulated\t1\t1e99\twhere\t",
		"0123456789abcdef\tsimulated\t1\t1\twhere\t\tmore",
		"\t\t\t\t\t",
	};
	char path[512], text[512];
	lk_error why;
	lk_wisdom w;
	snprintf(path, sizeof path, "%s/wisdom", scratch);
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		snprintf(text, sizeof text,
		         "# lockstep wisdom 1\n%s\n0123456789abcdef\tsimulated\t1\t2\twhere\tslice w\n",
		         lines[i]);
		write_text(path, text);
		OK(lk_wisdom_read(path, &w, err));
		assert_int_equal(w.entries.count, 1);
		assert_int_equal(w.warnings.count, 1);
		lk_wisdom_free(&w);
	}
	write_text(path, "my diary\n");
	assert_int_equal(lk_wisdom_read(path, &w, &why), LK_ERR_INPUT); /* not to be overwritten */
	lk_wisdom_free(&w);
}

/* An entry's schedule is parsed as any other text. */
static void test_hostile_schedules(void **state) {
	(void)state;
	static const char *const texts[] = {"split",
	                                    "slice nothing",
	                                    "} program q(mesh a) { in x : f32 out x",
	                                    "slice w } schedule b { slice m",
	                                    "fuse F={gr,w}",
	                                    "((((",
	                                    "split gr -> (a,b); split gr -> (c,d)"};
	struct tuned *tuned = tune("examples/lang/adam.lk", ONE_NODE, "dp=8,N=1000", 1);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		lc_file *file = NULL;
		const lc_schedule *s;
		lk_error err = {0};
		assert_int_equal(lk_wisdom_schedule(tuned->p, texts[i], &file, &s, &err), LK_ERR_INPUT);
		assert_true(err.what[0]);
		lc_file_free(file);
	}
	drop(tuned);
}

/* Rows of plain and of the first two found, which take so long in the rounds, in turn. */
static void measured(struct tuned *tuned, const double (*seconds)[2], lk_measurement *out) {
	enum { ROUNDS = 21 };
	static double rounds[3][ROUNDS];
	lc_bench_row rows[3] = {{.name = "plain"}, {.name = "first"}, {.name = "second"}};
	lc_bench_result result = {.rows = rows, .count = 3, .rounds = ROUNDS};
	int found_of[3] = {-1, 0, 1};
	for (int i = 0; i < 3; i++) {
		double ratio[ROUNDS];
		for (int r = 0; r < ROUNDS; r++) rounds[i][r] = seconds[i][r % 2];
		for (int r = 0; r < ROUNDS; r++) ratio[r] = rounds[0][r] / rounds[i][r];
		rows[i].seconds = rounds[i];
		rows[i].time = lc_median_bounds(rounds[i], ROUNDS);
		rows[i].ratio = lc_median_bounds(ratio, ROUNDS);
	}
	OK(lk_search_trust(&tuned->search, &result, found_of, err));
	*out = tuned->search.measurement;
}

/* What is measured decides, against the simulation too; but not what lies within the noise. */
static void test_measurement_is_trusted(void **state) {
	(void)state;
	static const double second_wins[3][2] = {{1, 1.1}, {1.2, 1.3}, {0.5, 0.55}},
						noise[3][2] = {{1, 1.1}, {1.2, 0.9}, {0.9, 1.2}};
	lk_measurement m;
	struct tuned *tuned = tune("examples/lang/adam.lk", ONE_NODE, "dp=8,N=10000000", 200);
	assert_true(tuned->search.found.count > 2);
	uint64_t first = tuned->search.found.at[0].hash, second = tuned->search.found.at[1].hash;
	measured(tuned, second_wins, &m);
	assert_false(m.plain);
	assert_int_equal(m.schedules, 3);
	assert_int_equal(m.pairs, 3);
	assert_true(m.first.median > 1.9 && m.first.median < 2.1);
	assert_true(m.simulated.median < 1 && m.tau < 1);
	assert_true(tuned->search.found.at[0].hash == second && tuned->search.found.at[0].measured);
	assert_true(tuned->search.found.at[2].hash == first); /* plain is between */
	drop(tuned);
	tuned = tune("examples/lang/adam.lk", ONE_NODE, "dp=8,N=10000000", 200);
	measured(tuned, noise, &m);
	assert_true(m.plain);
	assert_int_equal(m.pairs, 0);
	assert_int_equal(tuned->search.found.at[0].schedule.count, 0);
	assert_true(tuned->search.found.at[1].hash == first ||
	            tuned->search.found.at[1].hash == second);
	drop(tuned);
}

/* ---- a collective of a program ---- */

/* A program of one collective takes as long as the collective alone, and its launch, which is the
 * same for every size: differences between sizes are those of the collective, to the picosecond. */
static double program_seconds(const char *text, const char *cluster, const char *sizes) {
	lc_file *file;
	lc_steps *steps;
	lc_sizes set = {0};
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster on;
	lk_constants constants;
	lk_timed timed;
	OK(lc_parse("one", text, strlen(text), &file, err));
	OK(lc_sizes_read(file->programs.at[0], sizes, 1, &set, err));
	OK(lk_cluster_parse(&arena, cluster, &on, err));
	OK(lc_steps_make(file->programs.at[0], &steps, err));
	lk_timed_constants(&constants);
	OK(lk_time_steps(steps, &set, &on, NULL, &constants, 0, &timed, err));
	lc_steps_free(steps);
	lc_sizes_free(&set);
	lc_file_free(file);
	lk_arena_free(&arena);
	return timed.seconds;
}

static void test_collective_alone(void **state) {
	(void)state;
	static const char *const clusters[] = {"2 a100-sxm-80", "4 h100-sxm", "8 h200",
	                                       "8 b200",        "4 gb200",    TWO_NODES};
	static const char text[] = "program one(mesh dp) {\n\tdim N\n\tin x : f16[N] @ "
							   "P(sum,dp)\n\tout allreduce(x, sum, dp)\n}\n";
	for (size_t c = 0; c < sizeof clusters / sizeof *clusters; c++) {
		char sizes[64];
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster on;
		OK(lk_cluster_parse(&arena, clusters[c], &on, err));
		for (double elements = 512; elements < 1e9; elements *= 8) {
			lk_group_shape group = {.node = &on.node[0],
			                        .ranks = on.gpus,
			                        .nodes = on.nodes[0],
			                        .ranks_per_node = on.node[0].gpus,
			                        .sharing = 1,
			                        .oversubscription = 1};
			double alone = lk_collective_cost(LK_COLL_ALLREDUCE, &group, 2 * elements).seconds;
			snprintf(sizes, sizeof sizes, "dp=%d,N=%.0f", on.gpus, elements);
			double more = program_seconds(text, clusters[c], sizes) - alone;
			if (fabs(more) > 3e-12)
				fail_msg("%s, %g elements: %.9g us in a program, %.9g us alone", clusters[c],
				         elements, 1e6 * (more + alone), 1e6 * alone);
		}
		lk_arena_free(&arena);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_collective_alone),
		cmocka_unit_test(test_output_projection),
		cmocka_unit_test(test_adam),
		cmocka_unit_test(test_lamb),
		cmocka_unit_test(test_hand_over),
		cmocka_unit_test(test_experts),
		cmocka_unit_test(test_no_author_is_faster),
		cmocka_unit_test(test_reads_back),
		cmocka_unit_test(test_same_again_and_capped),
		cmocka_unit_test(test_wisdom_is_kept),
		cmocka_unit_test(test_measurement_is_trusted),
		cmocka_unit_test(test_hostile_wisdom),
		cmocka_unit_test(test_hostile_schedules),
	};
	return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
