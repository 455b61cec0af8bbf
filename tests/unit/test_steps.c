/* test_steps.c: programs as steps. The steps are run on a memory that remembers which value each
 * place holds: every value is computed once, what is read was written and not overwritten since,
 * and the results are still there at the end. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "io/stream.h"
#include "lang/rewrite/rewrite.h"
#include "lang/steps/steps.h"
#include "lang_random.h"
#include "rounds.h"

/* ---- the memory ---- */

struct machine {
	const lc_program *p;
	const lc_steps *s;
	int holds[LC_VALUES];    /* of a storage: the value whose content it is, -1 nothing */
	uint8_t done[LC_VALUES]; /* how often it was computed */
};

static const lc_node *node(const struct machine *m, int v) {
	return &m->p->nodes.at[v];
}
static bool in(const lc_ids *ids, int id) {
	for (int i = 0; i < ids->count; i++)
		if (ids->at[i] == id) return true;
	return false;
}
static bool shares_operand(const struct machine *m, int v) {
	const lc_node *n = node(m, v);
	bool may = n->op == LC_OUT || lc_relabels(n) || n->op == LC_SLICE;
	return may && m->s->storage[v] >= 0 && m->s->storage[v] != v &&
	       m->s->storage[v] == m->s->storage[n->in[0]];
}

/* The value that wrote what v shows. */
static int home(const struct machine *m, int v) {
	while (shares_operand(m, v) && !m->done[v]) v = node(m, v)->in[0];
	return v;
}

static void wrong(const struct machine *m, const lc_step *step, int v, const char *what) {
	char text[128];
	lc_print_listing(m->p, stderr);
	lc_steps_print(m->s, stderr);
	fail_msg("%s, step %s: %%%d %s: %s", m->p->name, step ? step->name : "-", v,
	         lc_value_text(m->p, v, text, sizeof text), what);
}

/* What a step uses must be at hand: in its own registers, among its reads and intact, or recomputed
 * from such. */
static void check_use(struct machine *m, const lc_step *step, int v, int by) {
	const lc_node *n = node(m, v);
	int storage = m->s->storage[v];
	if (n->op == LC_CONST || n->op == LC_SIZE || n->op == LC_SCALAR) return;
	if (in(&step->values, v) && v < by) return;
	if (storage < 0) {
		bool recomputed = n->op == LC_SLICE || (n->rank == 0 && in(&step->numbers, v));
		if (!recomputed) wrong(m, step, v, "is neither in memory nor recomputed");
		for (int k = 0; k < n->inputs; k++) check_use(m, step, n->in[k], by);
		return;
	}
	if (!in(&step->reads, v)) wrong(m, step, v, "is read and not listed");
	if (m->holds[storage] != home(m, v))
		wrong(m, step, v, m->holds[storage] < 0 ? "was never written" : "was overwritten");
}

static void run_step(struct machine *m, const lc_step *step) {
	for (int k = 0; k < step->values.count; k++) {
		int v = step->values.at[k];
		const lc_node *n = node(m, v);
		if (m->done[v]) wrong(m, step, v, "is computed twice");
		if (k && step->values.at[k - 1] >= v) wrong(m, step, v, "is out of order");
		for (int i = n->op == LC_UPDATE ? 1 : 0; i < n->inputs; i++)
			check_use(m, step, n->in[i], v);
	}
	for (int k = 0; k < step->values.count; k++) {
		int v = step->values.at[k];
		m->done[v] = 1;
		if (m->s->storage[v] < 0) continue;
		if (!in(&step->writes, v)) wrong(m, step, v, "is written and not listed");
		m->holds[m->s->storage[v]] = v;
	}
}

static bool recomputed(const struct machine *m, int v) {
	const lc_node *n = node(m, v);
	if (lc_ops[n->op].family == LC_LEAF) return true;
	return shares_operand(m, v) || (m->s->storage[v] < 0 && (n->rank == 0 || n->op == LC_SLICE));
}

static void check_kind(struct machine *m, const lc_step *step) {
	int heavy = 0, pass = 0;
	for (int k = 0; k < step->values.count; k++) {
		const lc_node *n = node(m, step->values.at[k]);
		lc_family f = lc_ops[n->op].family;
		bool moves = f == LC_MOVE || f == LC_CONTRACT || f == LC_ROWS || f == LC_VIEW ||
		             f == LC_BLOCK || f == LC_ATTEND ||
		             (f == LC_COMM && n->op >= LC_ALLREDUCE && n->op <= LC_PERMUTE);
		heavy += moves;
		pass += !moves && n->op != LC_UPDATE;
	}
	if (step->kind == LC_STEP_MAP && (heavy || step->space < 0))
		wrong(m, step, step->values.at[0], "is not a pass");
	if (step->kind == LC_STEP_RING)
		assert_int_equal(heavy, (step->scatter >= 0) + step->gathers.count);
	if (step->kind == LC_STEP_RING) assert_true(heavy > 0);
	if (step->kind == LC_STEP_CONTRACT || step->kind == LC_STEP_ROWS || step->kind == LC_STEP_SEND)
		assert_int_equal(heavy, 1);
	if (step->kind == LC_STEP_ATTEND) assert_in_range(heavy, 1, 3);
	if (step->kind != LC_STEP_MAP && step->kind != LC_STEP_RING) assert_int_equal(pass, 0);
}

/* What a step waits for is before it, and every read is of what an awaited step, or none, wrote. */
static void check_waits(const struct machine *m, const lc_step *steps, int count) {
	for (int i = 0; i < count; i++) {
		for (int k = 0; k < steps[i].after.count; k++)
			assert_in_range(steps[i].after.at[k], 0, i - 1);
		for (int j = 0; j < i; j++) {
			bool touches = false;
			for (int k = 0; k < steps[j].writes.count; k++) {
				int w = m->s->storage[steps[j].writes.at[k]];
				for (int r = 0; r < steps[i].reads.count; r++)
					touches |= m->s->storage[steps[i].reads.at[r]] == w;
			}
			for (int k = 0; k < steps[i].writes.count; k++) {
				int w = m->s->storage[steps[i].writes.at[k]];
				for (int r = 0; r < steps[j].reads.count; r++)
					touches |= m->s->storage[steps[j].reads.at[r]] == w;
			}
			/* directly, or through steps between */
			bool waits = in(&steps[i].after, j);
			for (int k = j + 1; k < i && touches && !waits; k++)
				waits = in(&steps[i].after, k) && in(&steps[k].after, j);
			if (touches && !waits) {
				lc_steps_print(m->s, stderr);
				fail_msg("%s: step %s does not wait for %s", m->p->name, steps[i].name,
				         steps[j].name);
			}
		}
	}
}

static void check_results(struct machine *m) {
	for (int v = 0; v < (int)m->p->nodes.count; v++) {
		const lc_node *n = node(m, v);
		if (!recomputed(m, v) && !m->done[v]) wrong(m, NULL, v, "is never computed");
		bool last = n->op == LC_OUT || (n->op == LC_UPDATE && lc_value_find(m->p, n->name) == v);
		if (!last) continue;
		if (m->s->storage[v] < 0) wrong(m, NULL, v, "is a result without memory");
		if (m->holds[m->s->storage[v]] != home(m, v))
			wrong(m, NULL, v, "is a result that was overwritten");
	}
}

static void check_names(const lc_steps *steps) {
	for (int i = 0; i < steps->count; i++)
		for (int k = 0; k < i; k++) assert_string_not_equal(steps->at[i].name, steps->at[k].name);
}

static void check_steps(const lc_program *program, const lc_steps *steps) {
	struct machine *m = calloc(1, sizeof *m);
	m->p = program;
	m->s = steps;
	for (int v = 0; v < (int)program->nodes.count; v++) {
		lc_op op = (lc_op)program->nodes.at[v].op;
		m->holds[v] = op == LC_INPUT || op == LC_STATE ? v : -1;
	}
	for (int i = 0; i < steps->count; i++) {
		const lc_step *step = &steps->at[i];
		for (int k = 0; k < step->part_count; k++) {
			check_kind(m, &step->parts[k]);
			run_step(m, &step->parts[k]);
		}
		if (step->part_count == 0) {
			check_kind(m, step);
			run_step(m, step);
		}
		check_waits(m, step->parts, step->part_count);
	}
	check_waits(m, steps->at, steps->count);
	check_results(m);
	check_names(steps);
	free(m);
}

/* The same with passes joined: nothing is lost, and there are never more steps. *q: of these. */
static lc_steps *joined_ok(const lc_program *program, lc_program **q, int plain) {
	lc_steps *steps = NULL;
	lk_error err = {0};
	char line[1024];
	if (lc_rewrite_all(program, NULL, q, &err) != LK_OK ||
	    lc_steps_joined(*q, q, &steps, &err) != LK_OK) {
		lc_print_listing(program, stderr);
		fail_msg("%s, joined: %s", program->name, lk_error_text(&err, line, sizeof line));
	}
	check_steps(*q, steps);
	assert_true(steps->count <= plain);
	return steps;
}

static lc_steps *steps_ok(const lc_program *program) {
	lc_steps *steps = NULL;
	lc_program *joined;
	lk_error err = {0};
	char line[1024];
	if (lc_steps_make(program, &steps, &err) != LK_OK) {
		lc_print_listing(program, stderr);
		fail_msg("%s: %s", program->name, lk_error_text(&err, line, sizeof line));
	}
	check_steps(program, steps);
	lc_steps_free(joined_ok(program, &joined, steps->count));
	lc_program_free(joined);
	return steps;
}

/* ---- examples ---- */

static lc_bundle *push_bundle(lc_program *program) {
	assert_true(lk_push(&program->bundles));
	return lk_last(&program->bundles);
}

typedef void use(lc_program *p, uint64_t seed);

static int over_examples(use *f) {
	DIR *folder = opendir("examples/lang");
	int count = 0;
	assert_non_null(folder);
	for (struct dirent *dirent; (dirent = readdir(folder));) {
		char path[512], *text;
		size_t size;
		lk_error err;
		if (!strstr(dirent->d_name, ".lk")) continue;
		snprintf(path, sizeof path, "examples/lang/%s", dirent->d_name);
		assert_int_equal(lk_stream_slurp(path, LC_TEXT_LIMIT, &text, &size, &err), LK_OK);
		lc_file *file = read_text(path, text);
		for (size_t i = 0; i < file->programs.count; i++)
			f(file->programs.at[i], (uint64_t)++count << 32);
		lc_file_free(file);
		free(text);
	}
	closedir(folder);
	return count;
}

static int last_value(const lc_step *step) {
	return step->values.at[step->values.count - 1];
}

static void use_plain(lc_program *program, uint64_t seed) {
	(void)seed;
	lc_steps *steps = steps_ok(program);
	/* In the order of the program, and nothing joined. */
	for (int i = 0; i < steps->count; i++) {
		assert_true(steps->at[i].kind != LC_STEP_RING && steps->at[i].kind != LC_STEP_OVERLAP);
		if (i) assert_true(last_value(&steps->at[i]) > last_value(&steps->at[i - 1]));
	}
	lc_steps_free(steps);
}

static void test_examples(void **state) {
	(void)state;
	assert_true(over_examples(use_plain) >= 10);
}

/* ---- schedules ---- */

/* What is rewritten becomes steps. */
static void use_schedules(lc_program *program, uint64_t seed) {
	(void)seed;
	for (size_t i = 0; i < program->schedules.count; i++) {
		lc_program *q = NULL;
		lk_error err = {0};
		char line[1024];
		lk_status status = lc_rewrite_all(program, &program->schedules.at[i], &q, &err);
		if (status != LK_OK)
			fail_msg("%s, %s: %s", program->name, program->schedules.at[i].name,
			         lk_error_text(&err, line, sizeof line));
		lc_steps *steps = steps_ok(q);
		if (getenv("SHOW_STEPS")) {
			fprintf(stderr, "%s %s\n", program->name, program->schedules.at[i].name);
			lc_steps_print(steps, stderr);
		}
		lc_steps_free(steps);
		lc_program_free(q);
	}
}

static void test_schedules(void **state) {
	(void)state;
	over_examples(use_schedules);
}

/* ---- sets at random: steps that hold, or a reason ---- */

static int accepted, refused;

static void mark(lc_program *program, uint64_t *seed, lc_directive_kind kind, int *bundles) {
	*push_bundle(program) = (lc_bundle){
		.kind = kind, .name = draw(seed, 2) ? "F" : NULL, .chunk = "", .chunks = 2, .size = 64};
	int from = (int)draw(seed, program->nodes.count), length = 1 + (int)draw(seed, 8);
	for (int v = from; v < (int)program->nodes.count && v < from + length; v++) {
		lc_node *n = &program->nodes.at[v];
		if (draw(seed, 4) == 0) continue;
		if (kind == LC_FUSE) n->fuse = (int16_t)*bundles;
		else if (kind == LC_OVERLAP) n->overlap = (int16_t)*bundles;
		else n->bucket = (int16_t)*bundles;
	}
	++*bundles;
}

static void try_sets(lc_program *program, uint64_t *seed) {
	static const lc_directive_kind kinds[] = {LC_FUSE, LC_FUSE, LC_OVERLAP, LC_BUCKET};
	int bundles = 0, count = 1 + (int)draw(seed, 3);
	for (size_t v = 0; v < program->nodes.count; v++)
		program->nodes.at[v].fuse = program->nodes.at[v].overlap = program->nodes.at[v].bucket = -1;
	program->bundles.count = 0;
	for (int i = 0; i < count; i++) mark(program, seed, kinds[draw(seed, 4)], &bundles);
	lc_steps *steps = NULL;
	lk_error err = {0};
	lk_status status = lc_steps_make(program, &steps, &err);
	if (status == LK_OK) {
		check_steps(program, steps);
		accepted++;
	} else {
		assert_int_equal(status, LK_ERR_INPUT);
		assert_true(err.what[0]);
		refused++;
	}
	lc_steps_free(steps);
}

static void use_random_sets(lc_program *program, uint64_t seed) {
	int tries =
		program->file->programs.at[0]->name[1] ? rounds(200, 3000) : 10; /* random ones: "p" */
	for (int i = 0; i < tries; i++) try_sets(program, &seed);
}

static void test_random_sets(void **state) {
	(void)state;
	over_examples(use_random_sets);
	assert_true(accepted > refused / 4 && refused > 0);
}

/* ---- random programs, random directives ---- */

/* What rewrites make of a program are steps, or there is a reason why a set is none. */
static void try_directives(const lc_program *program, uint64_t *seed) {
	lc_program *at = NULL;
	lk_error err = {0};
	if (lc_rewrite_all(program, NULL, &at, &err) != LK_OK) fail_msg("%s", err.what);
	for (int i = 0; i < 6; i++) {
		lc_directive d = random_directive(at, seed, i);
		lc_program *next = NULL;
		lc_steps *steps = NULL;
		if (lc_rewrite(at, &d, &next, &err) != LK_OK) continue;
		lc_program_free(at);
		at = next;
		lk_status status = lc_steps_make(at, &steps, &err);
		assert_true(status == LK_OK || (status == LK_ERR_INPUT && err.what[0]));
		if (steps) {
			check_steps(at, steps);
			accepted++;
		}
		lc_steps_free(steps);
	}
	lc_program_free(at);
}

static void test_random_programs(void **state) {
	(void)state;
	int programs = rounds(400, 5000);
	accepted = 0;
	for (int i = 0; i < programs; i++) {
		uint64_t seed = (uint64_t)(i + 1) << 32;
		lc_file *file = random_program((uint64_t)i, 30);
		lc_program *program = file->programs.at[0];
		lc_steps_free(steps_ok(program));
		try_directives(program, &seed);
		use_random_sets(program, seed);
		lc_file_free(file);
	}
	assert_true(accepted > programs);
}

/* ---- what sets become ---- */

static void label(lc_program *program, lc_directive_kind kind, const char *names) {
	int bundle = (int)program->bundles.count;
	*push_bundle(program) = (lc_bundle){
		.kind = kind, .name = kind == LC_OVERLAP ? "O" : "F", .order = "ring", .size = 100};
	char name[LC_NAME];
	for (const char *at = names; sscanf(at, "%63s", name) == 1;
	     at += strcspn(at, " ") + (at[strcspn(at, " ")] == ' ')) {
		int end = lc_value_find(program, name), begin = end;
		assert_true(end >= 0);
		while (begin > 0 && !program->nodes.at[begin - 1].name &&
		       program->nodes.at[begin - 1].op != LC_OUT)
			begin--;
		for (int v = begin; v <= end; v++) {
			lc_node *n = &program->nodes.at[v];
			*(kind == LC_FUSE      ? &n->fuse
			  : kind == LC_OVERLAP ? &n->overlap
			                       : &n->bucket) = (int16_t)bundle;
		}
	}
}

static const lc_step *step_named(const lc_steps *steps, const char *name) {
	for (int i = 0; i < steps->count; i++) {
		if (strcmp(steps->at[i].name, name) == 0) return &steps->at[i];
		for (int k = 0; k < steps->at[i].part_count; k++)
			if (strcmp(steps->at[i].parts[k].name, name) == 0) return &steps->at[i].parts[k];
	}
	return NULL;
}

#define ZERO                                                                      \
	"program zero(mesh dp) { dim N scalar f32 lr, b1 in g : f16[N] @ P(sum,dp)\n" \
	"state w : f32[N] @ S(0,dp), m : f32[N] @ S(0,dp)\n"                          \
	"rs = reducescatter(g, sum, dp, dim=0) gr = cast(f32, rs) / size(dp)\n"       \
	"m <- b1*m + (1 - b1)*gr w <- w - lr*m ag = allgather(cast(f16, w), 0, dp) out ag }"

static void test_ring(void **state) {
	(void)state;
	lc_file *file = read_text("zero", ZERO);
	lc_program *program = file->programs.at[0];
	label(program, LC_FUSE, "rs gr m w ag");
	lc_steps *steps = steps_ok(program);
	assert_int_equal(steps->count, 1);
	assert_int_equal(steps->at[0].kind, LC_STEP_RING);
	assert_int_equal(steps->at[0].scatter, lc_value_find(program, "rs"));
	assert_int_equal(steps->at[0].gathers.count, 1);
	assert_int_equal(steps->storage[lc_value_find(program, "rs")], -1); /* registers */
	assert_int_equal(steps->storage[lc_value_find(program, "gr")], -1);
	assert_int_equal(steps->at[0].reads.count, 3);  /* g, m, w */
	assert_int_equal(steps->at[0].writes.count, 3); /* m, w, ag */
	lc_steps_free(steps);
	lc_file_free(file);
}

/* Cycles of a host for an element: calls cost more than what is multiplied, and narrow formats than
 * wide ones. */
static void test_cycles(void **state) {
	(void)state;
	lc_file *file = read_text(
		"cycles",
		"program cycles(mesh dp) { dim N scalar f32 t in a : f32[N], x : bf16[N], y : bf16[N]\n"
		"g = gelu(x + y) s = a^2 c = a^3 q = a/t z = a/(a + 1) e = exp(a) d = "
		"exp(cast(f64, a)) n = norm(a)\n"
		"out g out s out c out q out z out e out d out n }");
	lc_program *program = file->programs.at[0];
	lc_step none = {.list = -1};
	double of[128];
	for (const char *v = "gscqzedn"; *v; v++) {
		char name[2] = {*v, '\0'};
		of[(int)*v] = lc_element_cycles(program, &none, lc_value_find(program, name));
	}
	assert_true(of['s'] > 0 && of['s'] < of['c'] / 20);
	assert_true(of['q'] > 0 && of['q'] < of['z']);
	assert_true(of['e'] > of['z'] && of['d'] > 4 * of['e']);
	assert_true(of['n'] > of['s']);
	/* the sum of x and y, which widens both and is rounded, and gelu of it, which widens it again
	 */
	lc_steps *steps = steps_ok(program);
	double cycles = 0;
	for (int i = 0; i < steps->count; i++)
		for (int k = 0; k < steps->at[i].values.count; k++) {
			int v = steps->at[i].values.at[k];
			if (program->nodes.at[v].dtype == LC_BF16)
				cycles += lc_element_cycles(program, &steps->at[i], v);
		}
	assert_true(cycles > 0.9 * lc_gelu_cycles() && cycles < 1.2 * lc_gelu_cycles());
	lc_steps_free(steps);
	lc_file_free(file);
}

static void test_norms_are_a_pass_of_their_own(void **state) {
	(void)state;
	lc_file *file = read_text("two", "program two(mesh dp) { dim N scalar f32 lr in g : f32[N] @ "
	                                 "P(sum,dp) state w : f32[N] @ S(0,dp)\n"
	                                 "rs = reducescatter(g, sum, dp, dim=0) u = 2*rs s = sum(u^2) "
	                                 "un = sqrt(allreduce(s, sum, dp))\n"
	                                 "w <- w - lr*u/un ag = allgather(w, 0, dp) out ag }");
	lc_program *program = file->programs.at[0];
	lk_error err = {0};
	lc_steps *steps = NULL;
	label(program, LC_FUSE, "rs u s un w ag");
	assert_int_equal(lc_steps_make(program, &steps, &err), LK_ERR_INPUT);
	for (size_t v = 0; v < program->nodes.count; v++) program->nodes.at[v].fuse = -1;
	program->bundles.count = 0;
	label(program, LC_FUSE, "rs u s");
	label(program, LC_FUSE, "w ag");
	steps = steps_ok(program);
	assert_int_equal(steps->count, 3); /* the pass, the sum of one number, the other pass */
	assert_int_equal(steps->at[0].kind, LC_STEP_RING);
	assert_int_equal(steps->at[1].kind, LC_STEP_COMM);
	assert_int_equal(steps->at[2].kind, LC_STEP_RING);
	assert_int_equal(steps->at[2].numbers.count, 1); /* the root */
	lc_steps_free(steps);
	lc_file_free(file);
}

static void test_overlap(void **state) {
	(void)state;
	lc_file *file =
		read_text("o", "program o(mesh tp) { dim B, H in x : f16[B,H] @ S(1,tp) in w : f16[H,H] @ "
	                   "S(0,tp) in b : f16[H]\n"
	                   "y = matmul(x, w) rs = reducescatter(y, sum, tp, dim=0) o = relu(rs + b)\n"
	                   "ag = allgather(o, 0, tp) out ag }");
	lc_program *program = file->programs.at[0];
	label(program, LC_FUSE, "rs o ag");
	label(program, LC_OVERLAP, "y rs o ag");
	lc_steps *steps = steps_ok(program);
	assert_int_equal(steps->count, 1);
	assert_int_equal(steps->at[0].kind, LC_STEP_OVERLAP);
	assert_true(steps->at[0].ring);
	assert_int_equal(steps->at[0].part_count, 2);
	assert_int_equal(steps->at[0].parts[0].kind, LC_STEP_CONTRACT);
	assert_int_equal(steps->at[0].parts[1].kind, LC_STEP_RING);
	assert_int_equal(steps->at[0].parts[1].after.count, 1);
	assert_int_equal(steps->at[0].chunk_dim, 0);
	assert_ptr_equal(step_named(steps, "F"), &steps->at[0].parts[1]);
	lc_steps_free(steps);
	lc_file_free(file);
}

/* A set that another step splits: the sum must be over before, and after. */
static void test_cycle(void **state) {
	(void)state;
	lc_file *file =
		read_text("c", "program c(mesh dp) { dim N in g : f32[N] @ P(sum,dp) in h : f32[N]\n"
	                   "a = h*h s = allreduce(g*a, sum, dp) b = s + a out a, b }");
	lc_program *program = file->programs.at[0];
	lk_error err = {0};
	lc_steps *steps = NULL;
	label(program, LC_FUSE, "a b");
	assert_int_equal(lc_steps_make(program, &steps, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "depends on itself through"));
	lc_file_free(file);
}

/* The old value is read behind the update in the text's meaning, and must be kept for it. */
static void test_old_versions(void **state) {
	(void)state;
	lc_file *file =
		read_text("v", "program v(mesh dp) { dim N, M state w : f32[N,M], t : f32 in x : f32[N,M]\n"
	                   "half = slice(w, 1, dp) old = t*2 out w, t\n"
	                   "w <- x + w t <- t + 1 out half*slice(w, 1, dp)*old*t }");
	lc_program *program = file->programs.at[0];
	lc_steps *steps = steps_ok(program);
	assert_int_equal(steps->storage[lc_value_find(program, "half")],
	                 lc_value_find(program, "half"));
	assert_int_equal(steps->storage[lc_value_find(program, "old")], lc_value_find(program, "old"));
	lc_steps_free(steps);
	lc_file_free(file);
}

/* A gathered state is written by the gather itself. */
static void test_update_in_place(void **state) {
	(void)state;
	lc_file *file =
		read_text("u", "program u(mesh dp) { dim N state w : f32[N] in g : f32[N] @ S(0,dp)\n"
	                   "w <- allgather(slice(w, 0, dp) - g, 0, dp) out w*2 }");
	lc_program *program = file->programs.at[0];
	lc_steps *steps = steps_ok(program);
	assert_int_equal(steps->count, 3);
	assert_int_equal(steps->at[1].kind, LC_STEP_COMM);
	assert_int_equal(steps->at[1].values.count, 2);
	assert_int_equal(steps->storage[steps->at[1].values.at[0]],
	                 lc_value_find(program, "w") < 0 ? 0
	                                                 : steps->storage[lc_value_find(program, "w")]);
	lc_steps_free(steps);
	lc_file_free(file);
}

/* The steps of a program once passes are joined, as lc_steps_print names them: "map m map w". */
static void assert_joined(const char *text, const char *wanted) {
	lc_file *file = read_text("j", text);
	lc_program *program = file->programs.at[0], *joined;
	static const char *const kinds[LC_STEP_KINDS] = {"map",    "contract", "rows",
	                                                 "attend", "comm",     "send"};
	char got[1024] = "";
	lc_steps *plain = steps_ok(program), *steps = joined_ok(program, &joined, plain->count);
	for (int i = 0; i < steps->count; i++)
		snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s %s", i ? ", " : "",
		         kinds[steps->at[i].kind], steps->at[i].name);
	assert_string_equal(got, wanted);
	lc_steps_free(plain);
	lc_steps_free(steps);
	lc_program_free(joined);
	lc_file_free(file);
}

static void test_joined(void **state) {
	(void)state;
	assert_joined(
		"program a(mesh dp) { dim N scalar f32 b in g : f32[N] @ P(sum,dp) state w : f32[N], m : "
		"f32[N], v : f32[N]\n"
		"s = allreduce(g, sum, dp) m <- b*m + s v <- b*v + s^2 w <- w - m/sqrt(v) }",
		"comm s, map w");
	/* A product in between, which needs the one and feeds the other. */
	assert_joined(
		"program p(mesh dp) { dim N in x : f32[N,N] a = x*2 y = matmul(a, x) b = a + y out b }",
		"map a, contract y, map b");
	/* What reads the older value of a state is before its update, which reads what comes after. */
	assert_joined("program s(mesh dp) { dim N state w : f32[N,N] in x : f32[N,N]\n"
	              "a = w + x y = matmul(w, a) w <- w + x b = y + x out a, b }",
	              "map a, contract y, map b");
	/* Other extents, other slices, nothing in common, what is used by a sum. */
	assert_joined(
		"program e(mesh dp) { dim N, M in x : f32[N,M], c : f32[M] a = exp(c) b = x*a out b }",
		"map a, map b");
	assert_joined("program l(mesh dp) { dim N in x : f32[N,N] @ S(0,dp), y : f32[N,N] a = y + 1 b "
	              "= slice(a, 0, "
	              "dp)*x out a, b }",
	              "map a, map b");
	assert_joined(
		"program n(mesh dp) { dim N in x : f32[N], y : f32[N] a = exp(x) b = exp(y) out a, b }",
		"map a, map b");
	assert_joined(
		"program r(mesh dp) { dim N in x : f32[N] a = x*x s = sum(a) b = a/s c = b + 1 out c }",
		"map a, map s, map c");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_examples),     cmocka_unit_test(test_schedules),
		cmocka_unit_test(test_random_sets),  cmocka_unit_test(test_random_programs),
		cmocka_unit_test(test_ring),         cmocka_unit_test(test_norms_are_a_pass_of_their_own),
		cmocka_unit_test(test_overlap),      cmocka_unit_test(test_cycle),
		cmocka_unit_test(test_old_versions), cmocka_unit_test(test_update_in_place),
		cmocka_unit_test(test_joined),       cmocka_unit_test(test_cycles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
