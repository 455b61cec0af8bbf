/* test_lang.c: the language of `lockstep compile`. The type rules are held against a table, over
 * all layouts; what is printed must read back as the same program, for the examples and for random
 * programs; wrong programs are refused with place and reason. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/arena.h"
#include "base/stats.h"
#include "io/stream.h"
#include "lang/rewrite/rewrite.h"
#include "lang/types/program.h"
#include "lang/syntax/parse.h"
#include "lang_text.h"
#include "rounds.h"

static char *printed(const lc_file *file) {
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	assert_non_null(out);
	lc_print_file(file, out);
	fclose(out);
	return text;
}

/* ---- printing ---- */

/* A backward pass reads back in another order. */
static bool same_program(const lc_program *a, const lc_program *b) {
	return a->gradients.of ? lc_program_hash(a) == lc_program_hash(b) : lc_program_equal(a, b);
}

static void check_same(const lc_file *a, const lc_file *b) {
	assert_int_equal(a->programs.count, b->programs.count);
	for (size_t i = 0; i < a->programs.count; i++)
		if (!same_program(a->programs.at[i], b->programs.at[i])) {
			lc_print_listing(a->programs.at[i], stderr);
			lc_print_listing(b->programs.at[i], stderr);
			fail_msg("%s reads back as another program", a->programs.at[i]->name);
		}
}

static void check_round_trip(const char *name, const char *text) {
	lc_file *first = read_text(name, text);
	char *one = printed(first);
	lc_file *second = read_text(name, one);
	char *two = printed(second);
	check_same(first, second);
	assert_string_equal(one, two);
	lc_file_free(first);
	lc_file_free(second);
	free(one);
	free(two);
}

static void test_examples(void **state) {
	(void)state;
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
		check_round_trip(path, text);
		free(text);
		count++;
	}
	closedir(folder);
	assert_true(count >= 10);
}

/* Every corner of the grammar that the examples leave out. */
static void test_syntax(void **state) {
	(void)state;
	check_round_trip("syntax",
	                 "program p(mesh a=4, b, c) { list L; dim N, M; dim K of L; scalar f32 x, y\n"
	                 "in i : f32[2*N+M/2,size(b)*M,N/size(a)-1] @ S(1,b) P(max,a) ROOT(0,c)\n"
	                 "in t : f32[K] of L @ L(a), u : i32, z : f32 at b=k-1\n"
	                 "q = -(x - (y - 2)) ^ -y ^ 2 / (x/y) * -3.5e-9\n"
	                 "e = select(x <= y, x < -y, (x == y) != (x > y))\n"
	                 "k0 = copy(q) s = total(sum(t)) r = size(N)*x + size(a)\n"
	                 "j = z + 1 out k0, e, s, r*1, j at b=k-1 }");
	check_round_trip(
		"conv",
		"program c(mesh a) { dim N in x : f16[N,3,32,32] @ S(0,a) in w : f16[8,3,3,3]\n"
		"y = conv2d(x, w, pad=1, stride=1) z = mean(y, 2, dim=3, keep) out z\n"
		"in t : f16[64,N] @ S(0,a) in i : i32[5] g = gather_rows(t, i)\n"
		"out reduce(g, sum, a, root=0), broadcast(reduce(g, sum, a, root=0), a)\n"
		"h = allreduce(g, sum, a) h2 = allreduce(g, sum, a)\n"
		"out permute(x, a, shift=-1), matmul(h, h2, ta), matmul(h, h, tb) }\n"
		"schedule s { bucket {h, h2} size 4; overlap O={g,h} chunk cols 3 order linear }\n"
		"schedule u { split h -> (x1,x2) dim 1; split h2 -> (x3,x4) by reduce; overlap {x1,x3} }\n"
		"program d(mesh a) { dim N in q : f32[N] @ P(sum,a) h = allreduce(q, sum, a) out h }\n"
		"schedule t for d { hierarchical h -> (x1,x2,x3) group 2 }");
}

/* A loop is its body, repeated: the same program as the one that is written out. */
static void test_loops(void **state) {
	(void)state;
	static const struct {
		const char *loop, *plain;
	} rows[] = {
		{"x0 = x*1 for i = 1 to size(a) - 1 { x[i] = x[i-1]*i } out x[size(a) - 1]",
	     "x0 = x*1 x1 = x0*1 x2 = x1*2 x3 = x2*3 out x3"},
		{"for i = 0 to 1 { for j = 0 to 1 { y[2*i+j] = dropout(x, 0.5, key=i) + j } } out y3",
	     "y0 = dropout(x, 0.5, key=0) + 0 y1 = dropout(x, 0.5, key=0) + 1 y2 = dropout(x, 0.5, "
	     "key=1) + 0 "
	     "y3 = dropout(x, 0.5, key=1) + 1 out y3"},
		{"for i = 1 to 2 { state s[i] : f32[N*i] s[i] <- s[i]/i } for i = 3 to 2 { this is not "
	     "read }",
	     "state s1 : f32[N] s1 <- s1/1 state s2 : f32[2*N] s2 <- s2/2"},
		{"y0 = x*1 at b=0 for i = 0 to 1 { y[i+1] = send(y[i], b: i -> i+1) } out y2 at b=2",
	     "y0 = x*1 at b=0 y1 = send(y0, b: 0 -> 1) y2 = send(y1, b: 1 -> 2) out y2 at b=2"},
		{"y0 = x*1 y1 = y0*2 out y1 } schedule s { for i = 0 to 0 { fuse f[i]={y[i],y[i+1]} }",
	     "y0 = x*1 y1 = y0*2 out y1 } schedule s { fuse f0={y0,y1}"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char one[1024], two[1024];
		snprintf(one, sizeof one, "program p(mesh a=4, b) { dim N in x : f32[N] %s }",
		         rows[i].loop);
		snprintf(two, sizeof two, "program p(mesh a=4, b) { dim N in x : f32[N] %s }",
		         rows[i].plain);
		lc_file *loop = read_text("loop", one), *plain = read_text("plain", two);
		check_same(loop, plain);
		lc_file_free(loop);
		lc_file_free(plain);
		check_round_trip("loop", one);
	}
}

/* Sizes are canonical: what is equal by algebra has one id, and its text reads back as the same
 * size. */
static void test_dims(void **state) {
	(void)state;
	static const struct {
		const char *size, *same;
	} rows[] = {
		{"N+M", "M+N"},     {"2*N-N", "N"},   {"(N+1)*(M+1)", "N*M+N+M+1"}, {"N*M/M", "N"},
		{"6*N/4", "3*N/2"}, {"N-N+5", "5"},   {"N/size(a)*size(a)", "N"},   {"size(b)", "2"},
		{"0-N+M+N", "M"},   {"N/2+N/2", "N"}, {"(N-M)*(N+M)", "N*N-M*M"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char text[256];
		snprintf(text, sizeof text,
		         "program p(mesh a, b=2) { dim N, M in x : f32[%s], y : f32[%s] out x + y }",
		         rows[i].size, rows[i].same);
		lc_file *file = read_text("dims", text);
		const lc_program *p = file->programs.at[0];
		assert_int_equal(p->nodes.at[0].dim[0], p->nodes.at[1].dim[0]);
		lc_file_free(file);
		check_round_trip("dims", text);
	}
}

static void test_dim_values(void **state) {
	(void)state;
	lc_file *file = read_text(
		"dims", "program p(mesh a) { dim N, M in x : f32[N/size(a)+3*M,N*N] @ S(1,a) out x }");
	const lc_program *p = file->programs.at[0];
	int64_t size[LC_SYMBOLS] = {0}, value;
	lk_error err;
	size[0] = 4;
	size[LC_AXES] = 12;
	size[LC_AXES + 1] = 5;
	assert_int_equal(lc_dim_value(p, p->nodes.at[0].dim[0], size, &value, &err), LK_OK);
	assert_int_equal(value, 12 / 4 + 15);
	size[0] = 5;
	assert_int_equal(lc_dim_value(p, p->nodes.at[0].dim[0], size, &value, &err), LK_ERR_INPUT);
	size[LC_AXES] = (int64_t)1 << 40;
	assert_int_equal(lc_dim_value(p, p->nodes.at[0].dim[1], size, &value, &err), LK_ERR_INPUT);
	assert_int_equal(p->conditions.count, 1); /* slices need not be equal */
	lc_file_free(file);
}

/* ---- random programs ---- */

enum { VALUES = 40 };

static lc_layout random_layout(uint64_t *seed, int rank) {
	lc_layout l = {.kind = (uint8_t)draw(seed, 5)};
	if (l.kind == LC_S && rank == 0) l.kind = LC_R;
	if (l.kind == LC_S) l.dim = (int8_t)draw(seed, (uint64_t)rank);
	if (l.kind == LC_P) l.reduce = (uint8_t)draw(seed, LC_REDUCES);
	if (l.kind == LC_ROOT) l.root = (int32_t)draw(seed, 4);
	return l;
}

static void random_leaf(lc_program *p, uint64_t *seed, int number) {
	static const lc_op ops[] = {LC_INPUT, LC_STATE};
	lc_node n = lc_draft(ops[draw(seed, 2)], 0, 0);
	char name[16];
	lk_error err;
	snprintf(name, sizeof name, "v%d", number);
	n.dtype = draw(seed, 4) ? LC_F32 : LC_I32;
	n.rank = (uint8_t)draw(seed, 3);
	for (int d = 0; d < n.rank; d++) lc_dim_named(p, (int)draw(seed, 2), &n.dim[d], &err);
	for (int a = 0; a < p->axis_count; a++)
		if (draw(seed, 2)) n.layout[a] = random_layout(seed, n.rank);
	n.name = lk_arena_strdup(&p->file->arena, name);
	lc_add(p, &n, NULL, &err);
}

static bool takes_argument(lc_op op, lc_argument wanted) {
	for (const uint8_t *kind = lc_ops[op].arguments; *kind; kind++)
		if (*kind == wanted) return true;
	return false;
}

/* A draft of any operation on any values, mostly refused. */
static lc_node random_draft(const lc_program *p, uint64_t *seed) {
	lc_op op = (lc_op)(LC_CONST + (int)draw(seed, LC_OP_COUNT - LC_CONST));
	lc_node n = lc_draft(op, 0, 0);
	/* Half of the operands are the newest value, so that expressions grow deep. */
	for (int i = 0; i < n.inputs; i++)
		n.in[i] = (int32_t)(draw(seed, 2) ? p->nodes.count - 1 - draw(seed, 2)
		                                  : draw(seed, p->nodes.count));
	if (op == LC_CONST || op == LC_DROPOUT) n.number = (double)draw(seed, 8) / 8;
	if (takes_argument(op, LC_A_DTYPE)) n.dtype = (uint8_t)draw(seed, LC_WEAK_INT);
	if (lc_ops[op].family == LC_COMM || op == LC_SIZE)
		n.axis = (int8_t)draw(seed, (uint64_t)p->axis_count);
	if (takes_argument(op, LC_A_DIM)) n.d = (int8_t)draw(seed, 2);
	if (takes_argument(op, LC_A_OTHER_DIM)) n.e = (int8_t)draw(seed, 2);
	if (takes_argument(op, LC_A_REDUCTION)) n.reduce = (uint8_t)draw(seed, LC_REDUCES);
	if (takes_argument(op, LC_A_SHIFT)) n.shift = (int32_t)draw(seed, 3) - 1;
	if (takes_argument(op, LC_A_DIMS)) {
		n.dims = (uint8_t)draw(seed, 4);
		n.keep = (uint8_t)draw(seed, 2);
	}
	if (takes_argument(op, LC_A_REVERSE)) n.reverse = (uint8_t)draw(seed, 2);
	if (takes_argument(op, LC_A_TRANSPOSES)) {
		n.ta = (uint8_t)draw(seed, 2);
		n.tb = (uint8_t)draw(seed, 2);
	}
	if (op == LC_SEND) {
		n.at.axis = n.from.axis = 0;
		n.from.offset = (int64_t)draw(seed, 2);
		n.at.offset = 1 - n.from.offset;
	}
	return n;
}

static bool reads_output(const lc_program *p, const lc_node *n) {
	for (int i = 0; i < n->inputs; i++)
		if (p->nodes.at[n->in[i]].op == LC_OUT) return true;
	return false;
}

static size_t grow(lc_program *p, uint64_t *seed) {
	size_t made = 0;
	lk_error err;
	for (int i = 0; i < 6; i++) random_leaf(p, seed, i);
	for (int tries = 0; tries < 3000 && p->nodes.count < VALUES; tries++) {
		lc_node n = random_draft(p, seed);
		if (reads_output(p, &n)) continue;
		lk_status status = lc_add(p, &n, NULL, &err);
		assert_true(status == LK_OK || status == LK_ERR_INPUT);
		if (status == LK_ERR_INPUT) assert_true(err.what[0] != '\0');
		made += status == LK_OK;
	}
	return made;
}

static void test_random(void **state) {
	(void)state;
	size_t made = 0;
	int programs = rounds(300, 3000);
	for (uint64_t s = 0; s < (uint64_t)programs; s++) {
		uint64_t seed = s << 32;
		lk_error err;
		char line[1024];
		lc_file *file = lc_file_new("random");
		lc_program *p = lc_program_new(file, "p");
		lc_axis_add(p, "dp", draw(&seed, 2) ? 4 : 0, &err);
		lc_axis_add(p, "tp", 0, &err);
		lc_dim_declare(p, "N", -1, &err);
		lc_dim_declare(p, "M", -1, &err);
		made += grow(p, &seed);
		lc_node out = lc_draft(LC_OUT, 0, 0);
		out.in[0] = lc_value_find(p, p->nodes.at[0].name);
		assert_int_equal(lc_add(p, &out, NULL, &err), LK_OK);
		if (lc_settle(p, &err) != LK_OK) fail_msg("%s", lk_error_text(&err, line, sizeof line));
		char *one = printed(file);
		lc_file *again = read_text("printed", one);
		char *two = printed(again);
		assert_string_equal(one, two);
		assert_int_equal(p->nodes.count, again->programs.at[0]->nodes.count);
		check_round_trip("again", two);
		lc_file_free(file);
		lc_file_free(again);
		free(one);
		free(two);
	}
	assert_true(made > (size_t)programs * 15);
}

/* ---- type rules, from the table of the reference: what is not in a row is refused ---- */

static const char *const layout_words[] = {"R", "S0", "S1", "Psum", "Pmax", "ROOT0", "ROOT1", "L"};
enum { LAYOUTS = sizeof layout_words / sizeof *layout_words };
static const lc_layout layouts[LAYOUTS] = {
	{.kind = LC_R},
	{.kind = LC_S, .dim = 0},
	{.kind = LC_S, .dim = 1},
	{.kind = LC_P, .reduce = LC_SUM},
	{.kind = LC_P, .reduce = LC_RMAX},
	{.kind = LC_ROOT, .root = 0},
	{.kind = LC_ROOT, .root = 1},
	{.kind = LC_L},
};

static const char *word_of(const lc_layout *l) {
	for (int i = 0; i < LAYOUTS; i++)
		if (lc_same_layout(l, &layouts[i])) return layout_words[i];
	return "other";
}

/* "; X Y=Z;" of a rule table for one pair, or "error". */
static void expected(const char *rules, const char *x, const char *y, char *out, size_t size) {
	char key[48];
	snprintf(key, sizeof key, y ? ";%s %s=" : ";%s=", x, y);
	const char *found = strstr(rules, key);
	if (!found) snprintf(out, size, "error");
	else snprintf(out, size, "%.*s", (int)strcspn(found + strlen(key), ";"), found + strlen(key));
}

static lc_file *one_program(lk_error *err) {
	lc_file *file = lc_file_new("rules");
	lc_program *p = lc_program_new(file, "p");
	assert_int_equal(lc_axis_add(p, "a", 0, err), LK_OK);
	assert_int_equal(lc_dim_declare(p, "N", -1, err), LK_OK);
	return file;
}

static int leaf(lc_program *p, lc_op op, lc_dtype dtype, const lc_layout *l, const char *name) {
	lc_node n = lc_draft(op, 0, 0);
	lk_error err;
	int id = -1;
	n.dtype = (uint8_t)dtype;
	n.rank = 2;
	n.name = name;
	n.layout[0] = *l;
	lc_dim_named(p, 0, &n.dim[0], &err);
	n.dim[1] = n.dim[0];
	assert_int_equal(lc_add(p, &n, &id, &err), LK_OK);
	return id;
}

static void check_rule(lc_node draft, const char *rules, int x, int y) {
	char want[32];
	lk_error err = {0};
	lc_file *file = one_program(&err);
	lc_program *p = file->programs.at[0];
	int id;
	draft.in[0] = leaf(p, draft.op == LC_UPDATE ? LC_STATE : LC_INPUT, LC_F32, &layouts[x], "x");
	if (y >= 0)
		draft.in[1] =
			leaf(p, LC_INPUT, draft.op == LC_GATHER_ROWS ? LC_I32 : LC_F32, &layouts[y], "y");
	expected(rules, layout_words[x], y >= 0 ? layout_words[y] : NULL, want, sizeof want);
	lk_status status = lc_add(p, &draft, &id, &err);
	const char *got = status == LK_OK ? word_of(&p->nodes.at[id].layout[0]) : "error";
	if (strcmp(got, want) != 0)
		fail_msg("%s(%s, %s): %s instead of %s (%s)", lc_ops[draft.op].name, layout_words[x],
		         y >= 0 ? layout_words[y] : "", got, want, err.what);
	if (status != LK_OK) assert_true(err.hint[0] != '\0');
	lc_file_free(file);
}

static void check_rules(lc_node draft, const char *rules) {
	for (int x = 0; x < LAYOUTS; x++)
		for (int y = draft.inputs == 2 ? 0 : -1; y < (draft.inputs == 2 ? LAYOUTS : 0); y++)
			check_rule(draft, rules, x, y);
}

#define POINTWISE                                                                 \
	";R R=R;S0 S0=S0;S1 S1=S1;S0 R=S0;R S0=S0;S1 R=S1;R S1=S1;L L=L;L R=L;R L=L;" \
	"ROOT0 ROOT0=ROOT0;ROOT1 ROOT1=ROOT1;ROOT0 R=ROOT0;R ROOT0=ROOT0;ROOT1 R=ROOT1;R ROOT1=ROOT1;"

static lc_node draft_of(lc_op op) {
	return lc_draft(op, 0, 0);
}

static void test_rules_pointwise(void **state) {
	(void)state;
	static const lc_op plain[] = {LC_POW, LC_LT, LC_EQ, LC_MIN, LC_MAX};
	check_rules(draft_of(LC_ADD), POINTWISE "Psum Psum=Psum;");
	check_rules(draft_of(LC_SUB), POINTWISE "Psum Psum=Psum;");
	check_rules(draft_of(LC_MUL), POINTWISE "Psum R=Psum;R Psum=Psum;");
	check_rules(draft_of(LC_DIV), POINTWISE "Psum R=Psum;");
	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
		check_rules(draft_of(plain[i]), POINTWISE);
	static const char unary[] = ";R=R;S0=S0;S1=S1;ROOT0=ROOT0;ROOT1=ROOT1;L=L;";
	static const lc_op nonlinear[] = {LC_SQRT, LC_EXP,  LC_LOG,     LC_TANH, LC_ERF,
	                                  LC_RELU, LC_GELU, LC_SIGMOID, LC_ABS,  LC_SIN,
	                                  LC_COS,  LC_EXP2, LC_ROUND};
	for (size_t i = 0; i < sizeof nonlinear / sizeof *nonlinear; i++)
		check_rules(draft_of(nonlinear[i]), unary);
	check_rules(draft_of(LC_NEG), ";R=R;S0=S0;S1=S1;ROOT0=ROOT0;ROOT1=ROOT1;L=L;Psum=Psum;");
	lc_node cast = draft_of(LC_CAST);
	cast.dtype = LC_F16;
	check_rules(cast, ";R=R;S0=S0;S1=S1;ROOT0=ROOT0;ROOT1=ROOT1;L=L;Psum=Psum;Pmax=Pmax;");
	check_rules(draft_of(LC_DROPOUT), ";R=R;S0=S0;S1=S1;ROOT0=ROOT0;ROOT1=ROOT1;");
}

static void test_rules_contract(void **state) {
	(void)state;
	lc_node t = draft_of(LC_MATMUL);
	static const char common[] =
		";R R=R;Psum R=Psum;R Psum=Psum;L L=L;L R=L;R L=L;ROOT0 ROOT0=ROOT0;ROOT1 ROOT1=ROOT1;"
		"ROOT0 R=ROOT0;R ROOT0=ROOT0;ROOT1 R=ROOT1;R ROOT1=ROOT1;";
	char rules[512];
	snprintf(rules, sizeof rules, "%s%s", common,
	         "S0 R=S0;R S1=S1;S1 S0=Psum;S1 R=Psum;R S0=Psum;");
	check_rules(t, rules);
	t.ta = 1;
	snprintf(rules, sizeof rules, "%s%s", common,
	         "S1 R=S0;R S1=S1;S0 S0=Psum;S0 R=Psum;R S0=Psum;");
	check_rules(t, rules);
	t.tb = 1;
	snprintf(rules, sizeof rules, "%s%s", common,
	         "S1 R=S0;R S0=S1;S0 S1=Psum;S0 R=Psum;R S1=Psum;");
	check_rules(t, rules);
	check_rules(draft_of(LC_GATHER_ROWS),
	            ";R R=R;S0 R=Psum;R S0=S0;R S1=S1;Psum R=Psum;L L=L;L R=L;R L=L;ROOT0 R=ROOT0;"
	            "ROOT1 R=ROOT1;R ROOT0=ROOT0;R ROOT1=ROOT1;ROOT0 ROOT0=ROOT0;ROOT1 ROOT1=ROOT1;S1 "
	            "R=other;");
}

static void test_rules_views(void **state) {
	(void)state;
	static const struct {
		lc_op op;
		int d, e;
		const char *rules;
	} rows[] = {
		{LC_TRANSPOSE, 0, 1, ";R=R;S0=S1;S1=S0;Psum=Psum;Pmax=Pmax;ROOT0=ROOT0;ROOT1=ROOT1;L=L;"},
		{LC_PARTS, 0, 0, ";R=R;S0=S1;S1=other;Psum=Psum;Pmax=Pmax;ROOT0=ROOT0;ROOT1=ROOT1;L=L;"},
		{LC_PARTS, 1, 0, ";R=R;S0=S0;S1=other;Psum=Psum;Pmax=Pmax;ROOT0=ROOT0;ROOT1=ROOT1;L=L;"},
		{LC_JOIN, 0, 0, ";R=R;S0=S0;Psum=Psum;Pmax=Pmax;ROOT0=ROOT0;ROOT1=ROOT1;L=L;"},
		{LC_SPREAD, 0, 0, ";R=R;S0=S1;S1=other;Psum=Psum;Pmax=Pmax;ROOT0=ROOT0;ROOT1=ROOT1;L=L;"},
		{LC_SPREAD, 2, 0, ";R=R;S0=S0;S1=S1;Psum=Psum;Pmax=Pmax;ROOT0=ROOT0;ROOT1=ROOT1;L=L;"},
		{LC_FIRST_OF, 0, 0, ";R=R;S1=S1;Psum=Psum;ROOT0=ROOT0;ROOT1=ROOT1;L=L;"},
		{LC_LAST_OF, 1, 0, ";R=R;S0=S0;Psum=Psum;ROOT0=ROOT0;ROOT1=ROOT1;L=L;"},
		{LC_CUMSUM, 1, 0, ";R=R;S0=S0;Psum=Psum;ROOT0=ROOT0;ROOT1=ROOT1;L=L;"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		lc_node n = draft_of(rows[i].op);
		n.d = (int8_t)rows[i].d;
		n.e = (int8_t)rows[i].e;
		check_rules(n, rows[i].rules); /* n.count: 1 */
	}
}

static void test_rules_reductions(void **state) {
	(void)state;
	static const struct {
		lc_op op;
		unsigned dims;
		const char *rules;
	} rows[] = {
		{LC_RED_SUM, 1, ";R=R;S0=Psum;S1=S0;Psum=Psum;ROOT0=ROOT0;ROOT1=ROOT1;L=L;"},
		{LC_RED_SUM, 2, ";R=R;S0=S0;S1=Psum;Psum=Psum;ROOT0=ROOT0;ROOT1=ROOT1;L=L;"},
		{LC_RED_MEAN, 3, ";R=R;S0=Psum;S1=Psum;Psum=Psum;ROOT0=ROOT0;ROOT1=ROOT1;L=L;"},
		{LC_RED_MAX, 1, ";R=R;S0=Pmax;S1=S0;Pmax=Pmax;ROOT0=ROOT0;ROOT1=ROOT1;L=L;"},
		{LC_RED_NORM, 1, ";R=R;S1=S0;ROOT0=ROOT0;ROOT1=ROOT1;L=L;"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		lc_node n = draft_of(rows[i].op);
		n.dims = (uint8_t)rows[i].dims;
		check_rules(n, rows[i].rules);
	}
}

static void test_rules_collectives(void **state) {
	(void)state;
	static const struct {
		lc_op op;
		int d, e;
		lc_reduce reduce;
		const char *rules;
	} rows[] = {
		{LC_ALLREDUCE, 0, 0, LC_SUM, ";Psum=R;"},
		{LC_ALLREDUCE, 0, 0, LC_RMAX, ";Pmax=R;"},
		{LC_REDUCESCATTER, 1, 0, LC_SUM, ";Psum=S1;"},
		{LC_ALLGATHER, 0, 0, 0, ";S0=R;"},
		{LC_ALLGATHER, 1, 0, 0, ";S1=R;"},
		{LC_ALLTOALL, 0, 1, 0, ";S0=S1;"},
		{LC_ALLTOALL, 1, 0, 0, ";S1=S0;"},
		{LC_BROADCAST, 0, 0, 0, ";ROOT0=R;ROOT1=R;"},
		{LC_REDUCE, 0, 0, LC_SUM, ";Psum=ROOT0;"},
		{LC_SLICE, 1, 0, 0, ";R=S1;"},
		{LC_PERMUTE, 0, 0, 0, ";S0=S0;S1=S1;L=L;"},
		{LC_LOCAL, 0, 0, 0, ";R=L;S0=L;S1=L;"},
		{LC_SLICED, 1, 0, 0, ";L=S1;"},
		{LC_PARTIAL, 0, 0, LC_SUM, ";L=Psum;"},
		{LC_PARTIAL, 0, 0, LC_RMAX, ";L=Pmax;"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		lc_node n = draft_of(rows[i].op);
		n.axis = 0;
		n.d = (int8_t)rows[i].d;
		n.e = (int8_t)rows[i].e;
		n.reduce = (uint8_t)rows[i].reduce;
		check_rules(n, rows[i].rules);
	}
	check_rules(draft_of(LC_UPDATE),
	            ";R R=R;S0 S0=S0;S1 S1=S1;Psum Psum=Psum;Pmax Pmax=Pmax;ROOT0 ROOT0=ROOT0;"
	            "ROOT1 ROOT1=ROOT1;L L=L;");
}

/* ---- wrong programs ---- */

#define IN_MESH(text)                                                                        \
	"program p(mesh tp) {\n dim N, M\n in r : f32[N] in l : f32[N] @ L(tp) in s : f32[N] @ " \
	"S(0,tp)\n"                                                                              \
	" in q : f32[N] @ P(sum,tp) state w : f32[N]\n" text "\n}\n"

static void test_wrong(void **state) {
	(void)state;
	static const struct {
		const char *text, *line;
	} rows[] = {
		/* the conformance list */
		{IN_MESH("y = s + l out y"), "f:5:7: s is sliced over tp along dim 0, and is combined with "
	                                 "a local value; add allgather(s, 0, tp)"},
		{IN_MESH("out allreduce(s, sum, tp)"), "f:5:5: s is sliced over tp along dim 0, and slices "
	                                           "are not added; leave allreduce out, or "
	                                           "gather them: allgather(s, 0, tp)"},
		{IN_MESH("out allgather(r, 0, tp)"),
	     "f:5:5: r is whole on every rank of tp already; leave allgather out"},
		{IN_MESH("w <- s"), "f:5:1: s is sliced over tp along dim 0, but the state w is f32[N]; "
	                        "add allgather(s, 0, tp)"},
		{IN_MESH("in a : f32[N,M] out matmul(a, a)"),
	     "f:5:21: matmul sums over dim 1 of a, which has M elements, and dim 0 of a, which has N; "
	     "transpose with the flags ta or tb, or correct a shape"},
		{IN_MESH("y = q + r out y"), "f:5:7: q is partial over tp; every rank would add r, "
	                                 "size(tp) times in all; add allreduce(q, sum, tp)"},
		{IN_MESH("g1 = r*2 w1 = g1*3 o1 = w1 + g1 out o1\n} schedule s { fuse {g1,o1}"),
	     "f:6:16: what is fused depends on itself through w1, which is outside of it; add w1 to "
	     "the set, or fuse less"},
		{IN_MESH("a = allreduce(q, sum, tp) w <- w + a out w*2\n} schedule s { split a -> (rs,ag); "
	             "slice w"),
	     "f:6:42: w is read in full by w, in line 5; move a gather past it first: reorder ag past "
	     "{w}"},
		{IN_MESH(
			 "a = allreduce(q, sum, tp) w <- w + a out sum(w)\n} schedule s { split a -> (rs,ag) "
			 "reorder ag past {w} slice w"),
	     "f:6:61: w is read in full by an output, in line 5; leave it out of \"slice\", or put out "
	     "a value made from it"},
		/* others */
		{IN_MESH("state z : f32[N] @ S(0,tp) z <- r"),
	     "f:5:28: r is the same on all ranks of tp, but the state z is f32[N] @ S(0,tp); take its "
	     "part: slice(r, 0, tp)"},
		{IN_MESH("state z : f32[N] @ S(0,tp) z <- q"),
	     "f:5:28: q is partial over tp, but the state z is f32[N] @ S(0,tp); add reducescatter(q, "
	     "sum, tp, dim=0)"},
		{IN_MESH("y = sqrt(q) out y"),
	     "f:5:5: q is partial over tp, and sqrt of parts is not a part "
	     "of the result; add allreduce(q, sum, tp)"},
		{IN_MESH("out dropout(q, 0.1, key=1)"),
	     "f:5:5: q is partial over tp, and dropout of parts would drop each part differently; add "
	     "allreduce(q, sum, tp)"},
		{IN_MESH("out norm(s)"), "f:5:5: norm over a dim that is sliced over tp: roots of parts do "
	                             "not add up; write sqrt(allreduce(sum(s^2), sum, tp))"},
		{IN_MESH("out r + cast(f16, r)"),
	     "f:5:7: r is f32 and cast(f16, r) is f16; make them equal: cast(f32, cast(f16, r))"},
		{IN_MESH("out weight"),
	     "f:5:5: weight is not defined; declare it: in, state or scalar, or define it before"},
		{IN_MESH("gradient = r out gradeint"),
	     "f:5:18: gradeint is not defined; do you mean gradient?"},
		{IN_MESH("out allredcue(q, sum, tp)"),
	     "f:5:5: unknown operation allredcue; do you mean allreduce?"},
		{IN_MESH("out allreduce(q, sum, dp)"), "f:5:23: unknown mesh axis dp; do you mean tp?"},
		{IN_MESH("r = s out r"), "f:5:1: r is defined already, in line 3; choose another name"},
		{IN_MESH("r <- s"),
	     "f:5:1: r is not a state, and its value cannot change; declare it with state, or "
	     "define a new value: NAME = ..."},
		{IN_MESH("in z : f32[7] @ S(0,tp), a : f32[N"), "f:6:1: "},
		{IN_MESH("y = r"),
	     "f:1:9: the program p has no effect; name what it computes: out VALUE, or update a state"},
		{IN_MESH("out r <- 1"), "f:5:7: \"<-\" updates a state"},
		{IN_MESH("out r\n} schedule x { split r -> (a,b)"),
	     "f:6:22: r holds no unsplit allreduce; name the value that is reduced"},
		{"program p(mesh t=2) { in x : f32[7] @ S(0,t) out local(x, t) }",
	     "f:1:50: 7 is not divisible by 2; choose sizes that divide without a "
	     "remainder, or pad the tensor"},
		{"program p(mesh t) { dim N in x : f32[9223372036854775807*N] out x }",
	     "f:1:38: a size is 9.2"},
		{"program p(mesh t) { dim N in x : f32[9007199254740992*9007199254740992*N] out x }",
	     "f:1:38: a size overflows; "},
		{"program p(mesh a) { in x : i32 @ P(sum,a) out x / 2 }",
	     "f:1:49: x is partial over a, and / of parts is not a part of the result; add "
	     "allreduce(x, "
	     "sum, a)"},
		{"program p(mesh a) { in x : f32 @ P(sum,a) out 2 / x }",
	     "f:1:49: x is partial over a, and so cannot be divided by; add allreduce(x, sum, a)"},
		{"program p(mesh pp) { in x : f32 at pp=0 state w : f32 w <- x }",
	     "f:1:55: the state w is everywhere, and its new value at pp=0 alone; declare the state at "
	     "pp=0"},
		{"program p(mesh pp) { in x : f32 at pp=0 in y : f32 at pp=1 out x + y }",
	     "f:1:66: y lives at pp=1, the other operand at pp=0; send one to the other's group"},
		/* what is composed */
		{IN_MESH("out argmax(s, 0)"), "f:5:5: s is sliced over tp along dim 0, and all elements "
	                                  "along a dim are compared; add allgather(s, 0, tp)"},
		{IN_MESH("out softmax(q, 0)"), "f:5:5: q is partial over tp, and all elements along a dim "
	                                   "are compared; add allreduce(q, sum, tp)"},
		{IN_MESH("out topk(r, 0, 0)"), "f:5:5: topk selects 0 elements; select 1 element at least"},
		{IN_MESH("out topk(s, 0, N)"), "f:5:5: s is sliced over tp along dim 0, and all elements "
	                                   "along a dim are compared; add allgather(s, 0, tp)"},
		{IN_MESH("out argmax(r, 1)"), "f:5:5: r has no dim 1; its dims count from 0 to 0"},
		{IN_MESH("out gather(r, r, 0)"),
	     "f:5:5: r is f32, and an integer format is needed; add cast(i32, r)"},
		{IN_MESH("out onehot(f32, r, 4)"),
	     "f:5:5: r is f32, and an integer format is needed; add cast(i32, r)"},
		{IN_MESH("out gather(reshape(r, N, 1), iota(i32, N), 0)"),
	     "f:5:5: reshape(r, N, 1) and iota(i32, N) do not have the same dims except the indexed "
	     "one; insert"},
		{IN_MESH("out reshape(r, N, 2)"),
	     "f:5:5: reshape would change the number of elements of r; "},
		{IN_MESH("out narrow(iota(f32, 4), 0, 2, 3)"),
	     "f:5:5: iota(f32, 4) has 4 elements along dim 0, not 5; "},
		{IN_MESH("out narrow(r, 0, 0-1, 2)"), "f:5:5: narrow begins at place -1, before the first"},
		{IN_MESH("out alltoallv(r, iota(i32, N), tp)"),
	     "f:5:5: r is not local to each rank of tp; declare it @ L(tp), or make it of slices: "
	     "local(x, tp)"},
		{IN_MESH("out pad(2, 0, 1, 1)"), "f:5:5: 2 has no number format; "},
		{IN_MESH("out cumsum(s, 0)"), "f:5:5: s is sliced over tp along dim 0, along which the "
	                                  "sums go on from rank to rank; add allgather(s, 0, tp)"},
		{IN_MESH("out sofmax(r, 0)"), "f:5:5: unknown operation sofmax; do you mean softmax?"},
		/* loops */
		{IN_MESH("for i = 1 to 3 { y[i] = r*z[i] } out y3"),
	     "f:5:27: z1 is not defined, where i is 1; "},
		{IN_MESH("for i = 1 to 3 { y = r*i } out y"),
	     "f:5:18: y is defined already, in line 5, where i is 2; in a loop, index it: y[i]"},
		{IN_MESH("for i = 1 to size(tp) { }"),
	     "f:5:14: this is not a number when the text is read; use integers, loop variables and "
	     "size(axis) of an axis of fixed size: mesh cp=4"},
		{IN_MESH("for i = 0 to 9999 { for j = 0 to 9999 { ; } } out r"),
	     "f:5:45: the loops run more than 16384 times, where j is 6382"},
		{IN_MESH("for i = 1 to 2 { i = r*2 } out r"),
	     "f:5:18: i is the variable of a loop, where i is 1"},
		{IN_MESH("for i = 1 to 2 { for i = 1 to 2 { } } out r"),
	     "f:5:22: i is the variable of another loop here, where i is 1"},
		{IN_MESH("for r = 1 to 2 { } out r"), "f:5:5: r is defined already, in line 3; "},
		{IN_MESH("for i = 0-1 to 2 { } out r"),
	     "f:5:5: a loop runs from 0 at least, to 1048576 at most"},
		{IN_MESH("for i = 1 to 2 { out r"),
	     "f:7:1: the text ends where a statement or '}' is expected"},
		{IN_MESH("out r[0-1]"), "f:5:5: the index of r is -1"},
		{IN_MESH("out r[N]"), "f:5:7: this is not a number when the text is read; "},
		{"schedule s { }", "f:1:12: a schedule precedes every program; write it after its program"},
		{"", "f: it holds no program; begin with: program NAME(mesh AXIS) { ... }"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		lc_file *file = NULL;
		lk_error err = {0};
		char line[2048];
		assert_int_equal(lc_parse("f", rows[i].text, strlen(rows[i].text), &file, &err),
		                 LK_ERR_INPUT);
		lk_error_text(&err, line, sizeof line);
		if (strncmp(line, rows[i].line, strlen(rows[i].line)) != 0)
			fail_msg("%s\ngave     %s\nexpected %s", rows[i].text, line, rows[i].line);
		lc_file_free(file);
	}
}

/* Text of great depth and length ends in an error, not in a full stack. */
static void test_limits(void **state) {
	(void)state;
	static const char *const parts[] = {"(", "-", "1^", "sqrt(", "1+", "x:", "{"};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		char *text = NULL;
		size_t size = 0;
		lc_file *file = NULL;
		lk_error err = {0};
		FILE *out = open_memstream(&text, &size);
		fputs("program p(mesh a) { y = ", out);
		for (int k = 0; k < 100000; k++) fputs(parts[i], out);
		fclose(out);
		assert_int_equal(lc_parse("deep", text, size, &file, &err), LK_ERR_INPUT);
		lc_file_free(file);
		free(text);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_examples),
		cmocka_unit_test(test_syntax),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_rules_pointwise),
		cmocka_unit_test(test_rules_contract),
		cmocka_unit_test(test_rules_views),
		cmocka_unit_test(test_rules_reductions),
		cmocka_unit_test(test_rules_collectives),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_dims),
		cmocka_unit_test(test_dim_values),
		cmocka_unit_test(test_loops),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
