/* test_tune.c: the search finds the published schedules unaided, told by the steps that they become, not by their text; it
 * finds nothing slower than what the examples' authors wrote; what it prints reads back as the same. Wisdom is kept, and
 * what is none is ignored. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "io/stream.h"
#include "lang/compile/compile.h"
#include "lang/tune/tune.h"
#include "scratch.h"

#define OK(call)                                                                                 \
	do {                                                                                         \
		lk_error err_ = {0}, *err = &err_;                                                       \
		char line_[1024];                                                                        \
		if ((call) != LK_OK) fail_msg("%s: %s", #call, lk_error_text(err, line_, sizeof line_)); \
	} while (0)

#define ONE_NODE "8 h100-sxm"
#define TWO_NODES "2 node * 8 h100-sxm nvlink4, nic 8*400g"

struct tuned {
	lc_file *file;
	lc_program *p, *best;   /* best: rewritten by the fastest schedule */
	lc_steps *steps;
	lc_sizes sizes;
	lk_arena arena;
	lk_cluster cluster;
	lk_search_options options;
	lk_search search;
};

static struct tuned *tune(const char *path, const char *cluster, const char *sizes, int programs) {
	struct tuned *t = calloc(1, sizeof *t);
	char *text;
	size_t size;
	OK(lk_stream_slurp(path, LC_TEXT_LIMIT, &text, &size, err));
	OK(lc_parse(path, text, size, &t->file, err));
	free(text);
	t->p = t->file->programs.at[0];
	OK(lc_sizes_read(t->p, sizes, 1, &t->sizes, err));
	OK(lk_cluster_parse(&t->arena, cluster, &t->cluster, err));
	t->options = (lk_search_options){.cluster = &t->cluster, .sizes = &t->sizes, .programs = programs};
	OK(lk_search_run(t->p, &t->options, &t->search, err));
	OK(lc_rewrite_all(t->p, &t->search.found.at[0].schedule, &t->best, err));
	OK(lc_steps_make(t->best, &t->steps, err));
	return t;
}

static void drop(struct tuned *t) {
	lc_steps_free(t->steps);
	lc_program_free(t->best);
	lk_search_free(&t->search);
	lc_sizes_free(&t->sizes);
	lk_arena_free(&t->arena);
	lc_file_free(t->file);
	free(t);
}

static void miss(const struct tuned *t, const char *what) {
	lk_tuned answer = {.p = t->p, .sizes = &t->sizes, .cluster = &t->cluster, .search = &t->search, .top = 5};
	lk_tuned_text(&answer, stderr);
	lc_steps_print(t->steps, stderr);
	fail_msg("%s: %s", t->p->name, what);
}

static const lc_step *step_of(const lc_step *steps, int count, lc_step_kind kind) {
	for (int i = 0; i < count; i++)
		if (steps[i].kind == kind) return &steps[i];
	return NULL;
}

static int count_op(const lc_program *p, const lc_ids *values, lc_op op) {
	int count = 0;
	for (int i = 0; i < values->count; i++) count += p->nodes.at[values->at[i]].op == op;
	return count;
}

static int states_sliced(const lc_program *p) {
	int count = 0;
	for (size_t v = 0; v < p->nodes.count; v++)
		count += p->nodes.at[v].op == LC_STATE && p->nodes.at[v].layout[0].kind == LC_S;
	return count;
}

/* ---- what the reference publishes ---- */

/* Reduce-scatter, epilogue and all-gather in one pass, overlapped with the product. */
static void test_output_projection(void **state) {
	(void)state;
	struct tuned *t = tune("examples/lang/tp_out.lk", ONE_NODE, "tp=8,B=8,S=1024,H=12288", 0);
	const lc_step *whole = step_of(t->steps->at, t->steps->count, LC_STEP_OVERLAP);
	if (!whole || !step_of(whole->parts, whole->part_count, LC_STEP_CONTRACT)) miss(t, "the product is not overlapped");
	const lc_step *ring = step_of(whole->parts, whole->part_count, LC_STEP_RING);
	if (!ring || ring->scatter < 0 || ring->gathers.count != 1) miss(t, "the epilogue is not in the ring");
	assert_int_equal(count_op(t->best, &ring->values, LC_DROPOUT), 1);
	assert_true(t->search.found.at[0].time.seconds < 0.9 * t->search.plain.time.seconds);
	assert_false(t->search.capped);
	drop(t);
}

/* One pass between the halves of the all-reduce, on sliced states; the format that is gathered is the small one. */
static void test_adam(void **state) {
	(void)state;
	struct tuned *t = tune("examples/lang/adam.lk", ONE_NODE, "dp=8,N=100000000", 0);
	if (t->steps->count != 1 || t->steps->at[0].kind != LC_STEP_RING) miss(t, "it is not one pass");
	const lc_step *ring = &t->steps->at[0];
	assert_true(ring->scatter >= 0);
	assert_int_equal(ring->gathers.count, 1);
	assert_int_equal(t->best->nodes.at[ring->gathers.at[0]].dtype, LC_F16);
	assert_int_equal(count_op(t->best, &ring->values, LC_UPDATE), 3);
	assert_int_equal(states_sliced(t->best), 3);
	assert_false(t->search.capped);
	drop(t);
}

/* Two passes around the sums of the norms: scatter, moments and partial norms; then the weights' update. */
static void test_lamb(void **state) {
	(void)state;
	struct tuned *t = tune("examples/lang/lamb.lk", ONE_NODE, "dp=8,N=1000000:20000000:30000:5000000", 0);
	const lc_step *first = step_of(t->steps->at, t->steps->count, LC_STEP_RING);
	if (!first || first->scatter < 0) miss(t, "the first pass is not joined with the scatter");
	assert_int_equal(count_op(t->best, &first->values, LC_RED_SUM), 2);
	assert_int_equal(count_op(t->best, &first->values, LC_UPDATE), 2);
	assert_int_equal(states_sliced(t->best), 3);
	const lc_step *last = &t->steps->at[t->steps->count - 1];
	if (last == first || count_op(t->best, &last->values, LC_ALLGATHER) + count_op(t->best, &last->values, LC_UPDATE) == 0)
		miss(t, "there is no second pass");
	for (int i = 0; i < t->steps->count; i++) /* nothing but sums of single numbers between */
		if (&t->steps->at[i] != first && count_op(t->best, &t->steps->at[i].values, LC_ALLREDUCE)) {
			assert_int_equal(t->best->nodes.at[t->steps->at[i].values.at[0]].rank, 0);
			assert_int_equal(count_op(t->best, &t->steps->at[i].values, LC_ALLREDUCE), 2); /* of both norms, in one message */
		}
	drop(t);
}

/* Slices are sent, and gathered on the other side: a 1/T of the bytes between the groups. */
static void test_hand_over(void **state) {
	(void)state;
	struct tuned *t = tune("examples/lang/pp_edge.lk", TWO_NODES, "pp=2,tp=8,B=8,S=1024,H=12288", 0);
	bool sent = false, gathered = false;
	for (size_t v = 0; v < t->best->nodes.count; v++) {
		const lc_node *n = &t->best->nodes.at[v];
		if (n->op == LC_SEND) sent = n->layout[1].kind == LC_S;
		if (n->op == LC_ALLGATHER) gathered = n->at.axis == 0 && n->at.offset == 1;
	}
	if (!sent || !gathered) miss(t, "slices are not sent");
	if (!step_of(t->steps->at, t->steps->count, LC_STEP_OVERLAP)) miss(t, "nothing overlaps");
	assert_true(t->search.found.at[0].time.seconds < t->search.plain.time.seconds / 3);
	drop(t);
}

/* Experts in turn, so that no weight is read twice: exchange of some beside the products of others, there and back. */
static void test_experts(void **state) {
	(void)state;
	struct tuned *t = tune("examples/lang/moe.lk", ONE_NODE, "ep=8,E=64,C=512,H=4096,F=2048", 0);
	const lc_step *whole = step_of(t->steps->at, t->steps->count, LC_STEP_OVERLAP);
	if (!whole || whole->part_count < 4) miss(t, "exchanges and products do not overlap");
	for (int i = 0; i < whole->values.count; i++) assert_int_equal(t->steps->cut[whole->values.at[i]], 0);
	assert_true(t->search.found.at[0].time.seconds < 0.95 * t->search.plain.time.seconds);
	drop(t);
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
	{"examples/lang/ring_attention.lk", "1 node * 4 h100-sxm nvlink4, nic 4*400g", "cp=4,B=16,T=2048,D=64"},
};

/* No schedule that the file's author wrote is faster than what is found, where the search came to its end. */
static void test_no_author_is_faster(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
		struct tuned *t = tune(examples[i].path, examples[i].cluster, examples[i].sizes, 0);
		assert_false(t->search.capped);
		assert_true(t->search.found.at[0].time.seconds <= t->search.plain.time.seconds);
		for (size_t k = 1; k < t->search.found.count; k++)
			assert_true(t->search.found.at[k - 1].time.seconds <= t->search.found.at[k].time.seconds);
		for (size_t k = 0; k < t->p->schedules.count; k++) {
			lk_found one;
			OK(lk_search_time(t->p, &t->p->schedules.at[k], &t->options, &one, err));
			if (one.time.seconds < 0.999 * t->search.found.at[0].time.seconds) miss(t, t->p->schedules.at[k].name);
		}
		drop(t);
	}
}

/* What is found can be pasted: the text reads back as a schedule that makes the same program and takes the same time. */
static void test_reads_back(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
		struct tuned *t = tune(examples[i].path, examples[i].cluster, examples[i].sizes, 100);
		for (size_t k = 0; k < t->search.found.count && k < 20; k++) {
			const lk_found *f = &t->search.found.at[k];
			lc_file *file = NULL;
			const lc_schedule *again;
			lk_found one;
			OK(lk_wisdom_schedule(t->p, lk_wisdom_text(&t->arena, &f->schedule), &file, &again, err));
			OK(lk_search_time(t->p, again, &t->options, &one, err));
			assert_float_equal(one.time.seconds, f->time.seconds, 1e-12);
			lc_file_free(file);
		}
		drop(t);
	}
}

static void test_same_again_and_capped(void **state) {
	(void)state;
	struct tuned *a = tune(examples[1].path, examples[1].cluster, examples[1].sizes, 40);
	struct tuned *b = tune(examples[1].path, examples[1].cluster, examples[1].sizes, 40);
	assert_true(a->search.capped);
	assert_int_equal(a->search.looked, 40);
	assert_int_equal(a->search.found.count, b->search.found.count);
	for (size_t i = 0; i < a->search.found.count; i++) assert_true(a->search.found.at[i].hash == b->search.found.at[i].hash);
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
	OK(lk_wisdom_keep(&w, &(lk_wise){7, "dp=8 on x", false, 1, 3, ""}, err)); /* simulated: no better */
	OK(lk_wisdom_keep(&w, &(lk_wise){7, "dp=9 on x", false, 1, 3, ""}, err));
	OK(lk_wisdom_write(&w, path, err));
	lk_wisdom_free(&w);
	OK(lk_wisdom_read(path, &w, err));
	assert_int_equal(w.entries.count, 2);
	assert_int_equal(w.warnings.count, 0);
	const lk_wise *e = lk_wisdom_find(&w, 7, "dp=8 on x");
	assert_true(e && e->measured && e->seconds == 2.5 && e->plain == 3);
	assert_string_equal(e->schedule, "slice w");
	assert_null(lk_wisdom_find(&w, 8, "dp=8 on x"));
	lk_wisdom_free(&w);
}

static void test_hostile_wisdom(void **state) {
	(void)state;
	static const char *const lines[] = {
		"x", "0123456789abcdef\tsimulated\t1\t1\twhere", "0123456789abcdef\tguessed\t1\t1\twhere\t",
		"0123456789abcdeg\tsimulated\t1\t1\twhere\t", "0123456789abcdef\tsimulated\tnan\t1\twhere\t",
		"0123456789abcdef\tsimulated\t-1\t1\twhere\t", "0123456789abcdef\tsimulated\t1\t1e99\twhere\t",
		"0123456789abcdef\tsimulated\t1\t1\twhere\t\tmore", "\t\t\t\t\t",
	};
	char path[512], text[512];
	lk_error why;
	lk_wisdom w;
	snprintf(path, sizeof path, "%s/wisdom", scratch);
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		snprintf(text, sizeof text, "# lockstep wisdom 1\n%s\n0123456789abcdef\tsimulated\t1\t2\twhere\tslice w\n", lines[i]);
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
	static const char *const texts[] = {"split", "slice nothing", "} program q(mesh a) { in x : f32 out x", "slice w } schedule b { slice m",
	                                    "fuse F={gr,w}", "((((", "split gr -> (a,b); split gr -> (c,d)"};
	struct tuned *t = tune("examples/lang/adam.lk", ONE_NODE, "dp=8,N=1000", 1);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		lc_file *file = NULL;
		const lc_schedule *s;
		lk_error err = {0};
		assert_int_equal(lk_wisdom_schedule(t->p, texts[i], &file, &s, &err), LK_ERR_INPUT);
		assert_true(err.what[0]);
		lc_file_free(file);
	}
	drop(t);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_output_projection),    cmocka_unit_test(test_adam),
		cmocka_unit_test(test_lamb),                 cmocka_unit_test(test_hand_over),
		cmocka_unit_test(test_experts),
		cmocka_unit_test(test_no_author_is_faster),  cmocka_unit_test(test_reads_back),
		cmocka_unit_test(test_same_again_and_capped), cmocka_unit_test(test_wisdom_is_kept),
		cmocka_unit_test(test_hostile_wisdom),       cmocka_unit_test(test_hostile_schedules),
	};
	return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
