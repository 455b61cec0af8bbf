/* test_accuracy.c: statistics against values worked out by hand and against python's; the reader of
 * tables of runs, its defaults and its errors; a validation from table to output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "tables/tables.h"
#include "validate/validate.h"
#include "step/step.h"
#include "io/csv.h"
#include "io/json.h"
#include "base/stats.h"
#include "data.h"
#include "rounds.h"
#include "scratch.h"

static const char small[] = "tests/data/runs_small.csv";

static void near(double value, double wanted) {
	if (isnan(wanted) ? isnan(value) : fabs(value - wanted) <= 1e-12 * fmax(1, fabs(wanted)))
		return;
	fail_msg("%.17g is not %.17g", value, wanted);
}

static lk_accuracy summary_of(const lk_score *scores, size_t count) {
	lk_accuracy a = {.by = "all", .name = "all"};
	lk_error err = {0};
	if (lk_summarise(scores, count, &a, &err) != LK_OK) fail_msg("%s", err.what);
	return a;
}

/* ---- statistics ---- */

static void test_hand(void **state) {
	(void)state;
	/* ln of the ratios: ln 2, -ln 2, 0, 2 ln 2; |errors|: 1, 0.5, 0, 3 */
	const lk_score scores[] = {
		{.predicted = 2, .measured = 1, .low = 1, .high = 4, .stack = "a"},
		{.predicted = 1, .measured = 2, .low = 0.5, .high = 1.5, .stack = "a"},
		{.predicted = 3, .measured = 3, .low = 3, .high = 3, .stack = "b"},
		{.predicted = 8, .measured = 2, .low = 2.5, .high = 9, .stack = "b"},
	};
	lk_accuracy a = summary_of(scores, 4);
	near(a.geomean_error, 1);    /* mean |ln| = ln 2 */
	near(a.bias, exp2(0.5) - 1); /* mean ln = ln 2 / 2 */
	near(a.mape, 4.5 / 4);
	near(a.median_error, 0.75);
	near(a.p90_error, 1 + 0.7 * 2);   /* place 2.7 of 0, 0.5, 1, 3 */
	near(a.coverage, 0.5);            /* limits count as inside */
	near(a.macro_geomean_error, NAN); /* no stack has ten rows */
	near(a.kendall_tau, NAN);
	near(a.mean_top1_regret, NAN);
	assert_int_equal(a.rows, 4);
	assert_int_equal(a.scored, 4);
}

static void test_nothing(void **state) {
	(void)state;
	lk_accuracy a = summary_of(NULL, 0);
	near(a.geomean_error, NAN);
	near(a.coverage, NAN);
	assert_int_equal(a.rows, 0);
	const lk_score skipped = {.predicted = NAN, .measured = 1, .stack = ""};
	a = summary_of(&skipped, 1);
	assert_int_equal(a.skipped, 1);
	assert_int_equal(a.scored, 0);
	near(a.mape, NAN);
}

static void test_macro(void **state) {
	(void)state;
	lk_score scores[10 + 11 + 9];
	size_t n = 0;
	for (int i = 0; i < 10; i++)
		scores[n++] = (lk_score){.predicted = 2, .measured = 1, .stack = "ten"};
	for (int i = 0; i < 11; i++)
		scores[n++] =
			(lk_score){.predicted = 1, .measured = 4, .stack = "eleven", .suspect = i == 0};
	for (int i = 0; i < 9; i++)
		scores[n++] = (lk_score){.predicted = 1, .measured = 100, .stack = "nine"};
	near(summary_of(scores, n).macro_geomean_error, (1 + 3) / 2.0);
	scores[12].suspect = true; /* nine scored rows are left of "eleven" */
	near(summary_of(scores, n).macro_geomean_error, 1);
}

/* What is said of suspect rows changes none of the figures, only the counts. */
static void test_suspect(void **state) {
	(void)state;
	lk_score scores[24];
	for (size_t i = 0; i < 24; i++) {
		double m = 1 + lk_uniform(1, i), p = m * exp(0.3 * lk_normal(2, i));
		scores[i] = (lk_score){.predicted = p,
		                       .measured = m,
		                       .low = 0.8 * p,
		                       .high = 1.25 * p,
		                       .stack = "s",
		                       .group = "g",
		                       .layout = i % 3   ? "x"
		                                 : i % 2 ? "y"
		                                         : "z"};
	}
	lk_accuracy without = summary_of(scores, 20);
	for (size_t i = 20; i < 24; i++) {
		scores[i].suspect = true;
		scores[i].predicted = 1e6;
		scores[i].layout = "w";
	}
	lk_accuracy with = summary_of(scores, 24);
	assert_int_equal(with.suspect, 4);
	assert_int_equal(with.predicted, 24);
	assert_int_equal(with.scored, without.scored);
	near(with.geomean_error, without.geomean_error);
	near(with.p90_error, without.p90_error);
	near(with.macro_geomean_error, without.macro_geomean_error);
	near(with.kendall_tau, without.kendall_tau);
	near(with.mean_top1_regret, without.mean_top1_regret);
	near(with.coverage, without.coverage);
}

static lk_score rank_row(const char *group, const char *layout, double predicted, double measured) {
	return (lk_score){.predicted = predicted,
	                  .measured = measured,
	                  .stack = "",
	                  .group = group,
	                  .layout = layout};
}

static void test_ranks(void **state) {
	(void)state;
	/* a: predicted order 1 2 3, measured 2 1 3: tau (2 - 1) / 3, regret of the first 2 / 1 - 1 */
	/* b: two layouts with equal predictions: no tau; regret the mean of 0 and 0.5 */
	/* c: one layout twice: no group. d: layout x is the geometric mean 4 of 2 and 8, y is 5: right
	 */
	const lk_score scores[] = {
		rank_row("a", "x", 1, 2), rank_row("a", "y", 2, 1),  rank_row("a", "z", 3, 3),
		rank_row("b", "x", 1, 4), rank_row("b", "y", 1, 6),  rank_row("c", "x", 1, 4),
		rank_row("c", "x", 2, 6), rank_row("d", "x", 1, 2),  rank_row("d", "y", 3, 5),
		rank_row("d", "x", 1, 8), rank_row(NULL, "x", 1, 2),
	};
	lk_accuracy a = summary_of(scores, sizeof scores / sizeof *scores);
	assert_int_equal(a.rank_groups, 3);
	near(a.kendall_tau, (1 / 3.0 + 1) / 2);
	near(a.mean_top1_regret, (1 + 0.25 + 0) / 3);
}

/* Units do not matter, and which of the two is called predicted only turns the bias around. */
static void test_symmetry(void **state) {
	(void)state;
	lk_score one[40], scaled[40], turned[40];
	for (size_t i = 0; i < 40; i++) {
		double m = exp(lk_normal(3, i)), p = m * exp(0.2 * lk_normal(4, i));
		one[i] = (lk_score){
			.predicted = p, .measured = m, .low = 0.9 * p, .high = 1.1 * p, .stack = "s"};
		scaled[i] = (lk_score){.predicted = 1e3 * p,
		                       .measured = 1e3 * m,
		                       .low = 9e2 * p,
		                       .high = 1.1e3 * p,
		                       .stack = "s"};
		turned[i] = (lk_score){.predicted = m, .measured = p, .stack = "s"};
	}
	lk_accuracy a = summary_of(one, 40), b = summary_of(scaled, 40), c = summary_of(turned, 40);
	near(b.geomean_error, a.geomean_error);
	near(b.p90_error, a.p90_error);
	near(b.coverage, a.coverage);
	near(c.geomean_error, a.geomean_error);
	near((1 + c.bias) * (1 + a.bias), 1);
}

static void test_divisions(void **state) {
	(void)state;
	lk_score scores[100];
	lk_score_key keys[100];
	lk_accuracy groups[100];
	lk_error err;
	int filled = 0, rows = 0, sizes[] = {1, 8, 9, 64, 65, 512, 513, 10000};
	for (size_t i = 0; i < 100; i++) {
		scores[i] = (lk_score){.predicted = 2, .measured = 1, .stack = "s", .suspect = i % 7 == 0};
		keys[i] = lk_scale_key(sizes[lk_hash64(i) % 8]);
	}
	assert_int_equal(lk_summarise_by("gpus", scores, keys, 100, groups, &filled, &err), LK_OK);
	assert_int_equal(filled, 4);
	assert_string_equal(groups[0].name, "1-8");
	assert_string_equal(groups[1].name, "9-64");
	assert_string_equal(groups[2].name, "65-512");
	assert_string_equal(groups[3].name, "over 512");
	for (int i = 0; i < filled; i++) rows += groups[i].rows;
	assert_int_equal(rows, 100);
}

/* ---- the same by python ---- */

static const char oracle[] =
	"import csv,math,sys,itertools,collections\n"
	"R=[r for r in csv.DictReader(open(sys.argv[1]))]\n"
	"for r in R:\n"
	"  for k in 'pmlh': r[k]=float(r[k])\n"
	"S=[r for r in R if r['q']=='0']\n"
	"gm=lambda x: math.exp(sum(abs(math.log(r['p']/r['m'])) for r in x)/len(x))-1\n"
	"e=sorted(abs(r['p']/r['m']-1) for r in S)\n"
	"def q(f):\n"
	"  i=f*(len(e)-1); k=int(i); return e[k]+(e[min(k+1,len(e)-1)]-e[k])*(i-k)\n"
	"st=collections.defaultdict(list)\n"
	"for r in S: st[r['s']].append(r)\n"
	"big=[gm(x) for x in st.values() if len(x)>=10]\n"
	"G=collections.defaultdict(lambda: collections.defaultdict(list))\n"
	"for r in S: G[r['g']][r['y']].append(r)\n"
	"taus=[];reg=[]\n"
	"for g in G.values():\n"
	"  if len(g)<2: continue\n"
	"  f=lambda k:[math.exp(sum(math.log(r[k]) for r in v)/len(v)) for v in g.values()]\n"
	"  p,m=f('p'),f('m'); reg.append(m[p.index(min(p))]/min(m)-1)\n"
	"  sg=lambda x:(x>0)-(x<0)\n"
	"  c=[(sg(p[i]-p[j]),sg(m[i]-m[j])) for i,j in itertools.combinations(range(len(p)),2)]\n"
	"  a=sum(x!=0 for x,_ in c);b=sum(y!=0 for _,y in c)\n"
	"  if a and b: taus.append(sum(x*y for x,y in c)/math.sqrt(a*b))\n"
	"o=[gm(S),sum(big)/len(big),sum(e)/len(e),q(.5),q(.9),math.exp(sum(math.log(r['p']/r['m']) for "
	"r in S)/len(S))-1,\n"
	"   sum(taus)/len(taus),sum(reg)/len(reg),sum(r['l']<=r['m']<=r['h'] for r in "
	"S)/len(S),len(reg)]\n"
	"print(*['%.17g'%x for x in o])\n";

static void test_python(void **state) {
	(void)state;
	if (system("python3 -c '' 2>/dev/null") != 0) {
		print_message("python3 is not there\n");
		skip();
	}
	enum { N = 400 };
	static lk_score scores[N];
	static char texts[N][3][16];
	char path[64], code[64], command[200];
	FILE *file = fopen(new_file(path, ".csv"), "w");
	assert_non_null(file);
	write_text(new_file(code, ".py"), oracle);
	fputs("p,m,l,h,s,g,y,q\n", file);
	for (size_t i = 0; i < N; i++) {
		/* few different values, so that there are ties */
		double m = exp2(floor(6 * lk_uniform(5, i))),
			   p = m * exp2(floor(4 * lk_uniform(6, i)) - 1.5);
		snprintf(texts[i][0], 16, "s%d", (int)(sqrt(lk_uniform(7, i)) * 12));
		snprintf(texts[i][1], 16, "g%d", (int)(lk_uniform(8, i) * 60));
		snprintf(texts[i][2], 16, "y%d", (int)(lk_uniform(9, i) * 9));
		scores[i] = (lk_score){.predicted = p * (1 + 1e-3 * (double)i),
		                       .measured = m,
		                       .low = p * 0.5,
		                       .high = p * 1.7,
		                       .suspect = lk_uniform(10, i) < 0.1,
		                       .stack = texts[i][0],
		                       .group = texts[i][1],
		                       .layout = texts[i][2]};
		fprintf(file, "%.17g,%.17g,%.17g,%.17g,%s,%s,%s,%d\n", scores[i].predicted, m,
		        scores[i].low, scores[i].high, texts[i][0], texts[i][1], texts[i][2],
		        scores[i].suspect);
	}
	fclose(file);
	lk_accuracy a = summary_of(scores, N);
	const double ours[] = {
		a.geomean_error, a.macro_geomean_error, a.mape,     a.median_error, a.p90_error, a.bias,
		a.kendall_tau,   a.mean_top1_regret,    a.coverage, a.rank_groups};
	snprintf(command, sizeof command, "python3 %s %s", code, path);
	FILE *answer = popen(command, "r");
	assert_non_null(answer);
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
		double theirs;
		assert_int_equal(fscanf(answer, "%lf", &theirs), 1);
		near(ours[i], theirs);
	}
	assert_int_equal(pclose(answer), 0);
	unlink(path);
	unlink(code);
}

/* ---- ranges and defaults ---- */

/* A range is what the rows of the stack and of the GPU say, the wider on each side; a stack or an
 * architecture without runs makes it wider, and the words say so. */
static void test_range(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster known, old, slow, slower;
	lk_error err = {0};
	assert_int_equal(lk_cluster_parse(&arena, "64 a100-sxm-80", &known, &err), LK_OK);
	assert_int_equal(lk_cluster_parse(&arena, "64 k80", &old, &err), LK_OK);
	assert_int_equal(
		lk_cluster_parse(&arena, "8 node * 8 a100-sxm-80 nvlink3, nic 8*50g", &slow, &err), LK_OK);
	assert_int_equal(
		lk_cluster_parse(&arena, "8 node * 8 a100-sxm-80 nvlink3, nic 8*40g", &slower, &err),
		LK_OK);
	lk_job dense = {.profile = "llm-foundry"}, moe = {.profile = "nemo", .model.experts = 8},
		   strange = {.profile = "jax"};
	double low, high, wide_low, wide_high;
	const char *basis = NULL;
	lk_range_of(&arena, &dense, &known, .1, 2, &low, &high, &basis);
	const lk_calibration_row *row =
		lk_calibration_find(lk_calibration_current(), "range", "step", "FSDP dense");
	assert_non_null(row);
	const lk_calibration_row *gpu =
		lk_calibration_find(lk_calibration_current(), "range", "step", "a100-sxm-80 dense");
	assert_non_null(gpu);
	near(low, 2 * fmin(lk_calibration_value(row, "low", 0), lk_calibration_value(gpu, "low", 0)));
	near(high,
	     2 * fmax(lk_calibration_value(row, "high", 0), lk_calibration_value(gpu, "high", 0)));
	assert_non_null(strstr(basis, "FSDP dense"));
	assert_true(low < high && low > 0);
	lk_range_of(&arena, &moe, &known, .1, 2, &wide_low, &wide_high, NULL);
	assert_true(wide_high / wide_low > high / low);
	/* Layers on as many ranks as a node has GPUs: so many times as far, in ln. */
	lk_job seven = dense, divided = dense;
	seven.tp = 7, seven.cp = 1;
	divided.tp = 4, divided.cp = 2;
	row = lk_calibration_find(lk_calibration_current(), "range", "step", "divided");
	assert_non_null(row);
	double times = lk_calibration_value(row, "times", 0);
	assert_true(times >= 1);
	lk_range_of(&arena, &seven, &known, 0, 2, &wide_low, &wide_high, NULL);
	near(wide_low, low);
	near(wide_high, high);
	lk_range_of(&arena, &divided, &known, 0, 2, &wide_low, &wide_high, &basis);
	near(log(wide_low / 2), times * log(low / 2));
	near(log(wide_high / 2), times * log(high / 2));
	assert_int_equal(strstr(basis, "each layer is divided among 8 GPUs or more") != NULL,
	                 times > 1);
	lk_range_of(&arena, &dense, &old, .1, 2, &wide_low, &wide_high, &basis);
	assert_true(wide_high / wide_low > high / low);
	assert_non_null(strstr(basis, "architecture"));
	/* At least what held runs whose architecture was left out, a narrow stack or not. */
	row =
		lk_calibration_find(lk_calibration_current(), "range", "step", "unseen architecture dense");
	assert_non_null(row);
	assert_true(wide_low <= 2 * lk_calibration_value(row, "low", 0) * (1 + 1e-9));
	assert_true(wide_high >= 2 * lk_calibration_value(row, "high", 9) * (1 - 1e-9));
	lk_range_of(&arena, &strange, &known, .1, 2, &wide_low, &wide_high, &basis);
	assert_true(wide_high / wide_low > high / low);
	assert_non_null(strstr(basis, "of other software"));
	/* Software that was measured, but with too few runs of the kind. */
	lk_job few = {.profile = "torchtitan", .model.experts = 8};
	assert_null(lk_calibration_find(lk_calibration_current(), "range", "step", "FSDP experts"));
	row = lk_calibration_find(lk_calibration_current(), "range", "step", "unseen stack experts");
	assert_non_null(row);
	lk_range_of(&arena, &few, &known, 0, 2, &wide_low, &wide_high, &basis);
	assert_true(wide_low <= 2 * lk_calibration_value(row, "low", 0) * (1 + 1e-9));
	assert_true(wide_high >= 2 * lk_calibration_value(row, "high", 9) * (1 - 1e-9));
	assert_non_null(strstr(basis, "of other software"));
	/* What the unseen adds, adds by squares; never less than what it was itself. */
	near(lk_range_wider(.1, .2, .2), .2);
	near(lk_range_wider(.3, .2, .2), .3);
	near(lk_range_wider(.3, -.5, -.3), .5);
	near(lk_range_wider(-.4, -.5, -.4), .5);
	/* A network unlike those of the runs, as far as the step waits for it. */
	double last = high / low;
	const struct {
		const lk_cluster *cluster;
		double share;
	} farther[] = {{&slow, .1}, {&slow, .5}, {&slower, .5}, {&slower, 1}};
	for (size_t i = 0; i < sizeof farther / sizeof *farther; i++) {
		lk_range_of(&arena, &dense, farther[i].cluster, farther[i].share, 2, &wide_low, &wide_high,
		            &basis);
		assert_true(wide_high / wide_low > last);
		assert_non_null(strstr(basis, "network"));
		last = wide_high / wide_low;
	}
	lk_range_of(&arena, &dense, &slower, 0, 2, &wide_low, &wide_high, NULL);
	near(wide_high, high);
	lk_arena_free(&arena);
}

static void test_releases(void **state) {
	(void)state;
	static const char *const rising[] = {
		"",         "v3.0",  "v3.1",     "v4.0",  "v4.1",
		"v10",      "24.12", "25.09",    "25.11", "26.02",
		"26.02.01", "26.04", "26.04.01", "26.10", "99999999999999999999999999"};
	for (size_t i = 0; i < sizeof rising / sizeof *rising; i++)
		for (size_t j = 0; j < sizeof rising / sizeof *rising; j++) {
			int order = lk_release_compare(rising[i], rising[j]);
			assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
		}
	assert_int_equal(lk_release_compare("v5.0", "5.00"), 0);
}

static void test_defaults(void **state) {
	(void)state;
	for (int i = 0; lk_stack_defaults_at(i); i++) {
		const lk_stack_defaults *defaults = lk_stack_defaults_at(i);
		assert_true(*defaults->source && *defaults->job_stack);
		assert_ptr_equal(lk_stack_defaults_of(defaults->stack), defaults);
	}
	for (int i = 0; lk_stack_features_at(i); i++) {
		const lk_stack_features *features = lk_stack_features_at(i);
		assert_true(*features->source);
		/* no entry hides another */
		assert_ptr_equal(
			lk_stack_features_of(features->stack, *features->since ? features->since : "0"),
			features);
	}
	assert_string_equal(lk_stack_features_of("nemo", "26.01")->since, "25.09");
	assert_string_equal(lk_stack_features_of("nemo", "26.08")->since, "26.06");
	assert_string_equal(lk_stack_features_of("nemo", "")->since, "26.06");
	assert_string_equal(lk_stack_features_of("of nobody", "3")->stack, "");
	const lk_stack_features *whole = lk_stack_features_of("nemo", "26.06");
	lk_stack_features blackwell = lk_stack_features_for(whole, LK_ARCH_BLACKWELL, LK_MXFP8),
					  bf16 = lk_stack_features_for(whole, LK_ARCH_BLACKWELL, LK_BF16),
					  hopper = lk_stack_features_for(whole, LK_ARCH_HOPPER, LK_FP8);
	assert_true(blackwell.cuda_graphs && blackwell.graph_experts && blackwell.expert_overlap);
	assert_true(bf16.cuda_graphs && !bf16.graph_experts && !bf16.expert_overlap);
	assert_false(hopper.cuda_graphs || hopper.graph_experts || hopper.expert_overlap);
	assert_string_equal(lk_stack_defaults_of("of nobody")->stack, "");
	assert_int_equal(lk_stack_defaults_of("megatron-deepspeed")->attention, LK_KERNEL_UNFUSED);
}

/* ---- the reader ---- */

struct table {
	lk_arena arena;
	lk_runs runs;
	lk_status status;
	lk_error err;
};

static void read_stream(struct table *table, lk_stream *in) {
	table->status = lk_runs_read(&table->arena, in, &table->runs, &table->err);
	lk_stream_close(in);
}

static struct table read_text(const char *text) {
	struct table t = {0};
	lk_stream *in;
	assert_int_equal(lk_stream_memory(text, strlen(text), "t.csv", &in, &t.err), LK_OK);
	read_stream(&t, in);
	return t;
}

static void drop(struct table *table) {
	lk_vec_free(&table->runs);
	lk_arena_free(&table->arena);
}

static void test_small(void **state) {
	(void)state;
	struct table t = {0};
	lk_stream *in;
	if (lk_stream_open(small, &in, &t.err) != LK_OK) fail_msg("%s", t.err.what);
	read_stream(&t, in);
	if (t.status != LK_OK) fail_msg("%s: %s", t.err.where, t.err.what);
	assert_int_equal(t.runs.count, 4);
	const lk_run *dense = &t.runs.at[0], *gpt = &t.runs.at[1], *moe = &t.runs.at[2],
				 *nowhere = &t.runs.at[3];

	assert_string_equal(dense->refused, "");
	assert_string_equal(dense->id, "dense");
	assert_string_equal(dense->where, "tests/data/runs_small.csv:3");
	assert_int_equal(dense->job.microbatches, 8);
	assert_int_equal(dense->job.model.norm, LK_NORM_RMS);
	assert_int_equal(dense->job.sequence_parallel, LK_ON);
	assert_int_equal(dense->job.schedule, LK_SCHED_INTERLEAVED);
	assert_int_equal(dense->job.cuda_graphs, LK_OFF); /* nemo since 26.02, not on H100 */
	assert_int_equal(dense->cluster.nodes[0], 2);
	assert_int_equal(dense->cluster.node[0].gpus, 8);
	near(dense->cluster.node[0].nic_rate, 50e9);
	near(dense->measured_s, 0.07);
	const char *layout = lk_run_layout(&t.arena, dense);
	assert_string_equal(layout, "tp2 pp2 vp3 dp4 mbs2 zero1 sp");

	assert_string_equal(gpt->refused, "");
	assert_int_equal(gpt->job.sharding, LK_SHARD_ZERO3);
	assert_int_equal(gpt->job.recompute, LK_RECOMPUTE_FULL);
	assert_int_equal(gpt->job.model.norm, LK_NORM_LAYER);
	assert_true(gpt->job.compile && gpt->job.model.mlp_bias);

	assert_string_equal(moe->refused, "");
	assert_string_equal(moe->suspect, "invented on purpose");
	assert_int_equal(moe->cluster.node[0].gpus, 64); /* 128 GPUs of racks of 72 */
	assert_int_equal(moe->job.model.attention, LK_ATTN_MLA);
	assert_int_equal(moe->job.model.kv_lora, 512);
	assert_int_equal(moe->job.model.shared_ffn, 512);
	assert_int_equal(moe->job.dtype, LK_MXFP8);
	assert_int_equal(moe->job.etp, 1);

	assert_non_null(strstr(nowhere->refused, "TPU"));
	assert_int_equal(nowhere->job.gpus, 8);
	drop(&t);
}

/* A row of a table and the options of predict that say the same job are one job: software, release
 * and what they turn on. */
static void test_row_is_request(void **state) {
	(void)state;
	static const struct {
		const char *stack, *release;
	} software[] = {{"nemo", "24.12"},  {"nemo", "25.09"},   {"nemo", "26.02"}, {"nemo", "26.08"},
	                {"torchtitan", ""}, {"llm-foundry", ""}, {"megatron", ""}};
	static const char *const networks[] = {"llama3.1-8b", "mixtral-8x7b"};
	for (size_t i = 0; i < sizeof software / sizeof *software; i++)
		for (int n = 0; n < 2; n++) {
			char text[400];
			bool wide = !strcmp(software[i].stack, "torchtitan") ||
			            !strcmp(software[i].stack, "megatron"),
				 experts = n == 1;
			snprintf(text, sizeof text,
			         "model,gpu,n_gpu,gbs,mbs,seq,tp,pp,vp,cp,ep,seq_parallel,sharding,precision,"
			         "recompute,id,step_s,stack,release\n"
			         "%s,H100-SXM,32,128,1,4096,2,4,2,1,%d,1,zero1,bf16,none,x,1,%s,%s\n",
			         networks[n], experts ? 4 : 1, software[i].stack, software[i].release);
			struct table t = read_text(text);
			assert_int_equal(t.status, LK_OK);
			if (*t.runs.at[0].refused) fail_msg("%s", t.runs.at[0].refused);
			lk_predict_request request;
			lk_predict_defaults(&request);
			request.model = networks[n];
			request.gpu = "h100-sxm";
			request.gpus = 32, request.gbs = 128, request.seq = 4096, request.mbs = 1;
			request.tp = 2, request.pp = 4, request.vp = 2, request.ep = experts ? 4 : 0;
			request.zero = "1", request.recompute = "none", request.dtype = "bf16";
			request.stack = software[i].stack;
			request.release = *software[i].release ? software[i].release : "0";
			if (experts && !strcmp(software[i].stack, "nemo")) request.moe_imbalance = 1;
			lk_arena arena = LK_ARENA_INIT;
			lk_asked asked;
			lk_error err = {0};
			lk_step_options options = {0};
			lk_step row = {0}, option = {0};
			if (lk_request_read(&arena, &request, &asked, &err) != LK_OK) fail_msg("%s", err.what);
			const lk_run *run = &t.runs.at[0];
			assert_int_equal(lk_step_ask(&run->job, &run->cluster, &options, &row, &err), LK_OK);
			assert_int_equal(lk_step_ask(&asked.job, &asked.cluster, &options, &option, &err),
			                 LK_OK);
			if (row.step_s != option.step_s)
				fail_msg("%s %s %s: %.12g as a row, %.12g by options", networks[n],
				         software[i].stack, software[i].release, row.step_s, option.step_s);
			assert_int_equal(wide, asked.job.grad_reduce_fp32 == LK_ON);
			lk_step_free(&row);
			lk_step_free(&option);
			lk_arena_free(&arena);
			drop(&t);
		}
}

/* Layers that do not divide: every layer is placed once, and as the recipes place them. */
static void test_uneven(void **state) {
	(void)state;
	static const struct {
		const char *row, *layout; /* NULL: counted as layers */
		int first, last;
	} cases[] = {
		{"deepseek-v3,GB200,256,4096,4,4,1,1,64", "Et*4|(t*4|)*14t*1mL", 4, 1},
		{"deepseek-v3,B200,256,4096,8,4,1,1,8", "Et*1|(t*2|)*30mL", 1, 0},
		{"deepseek-v3,B200,256,4096,16,1,1,1,8", "Et*4|(t*4|)*14t*1mL", 4, 1},
		{"llama3.1-405b,GB200,512,896,8,8,4,2,1", NULL, 1, 1},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[400];
		snprintf(text, sizeof text,
		         "model,gpu,n_gpu,gbs,pp,vp,tp,cp,ep,id,step_s,stack,release\n%s,x,1,nemo,26.04\n",
		         cases[i].row);
		struct table t = read_text(text);
		assert_int_equal(t.status, LK_OK);
		const lk_job *job = &t.runs.at[0].job;
		if (*t.runs.at[0].refused) fail_msg("%s", t.runs.at[0].refused);
		if (cases[i].layout) assert_string_equal(job->pipeline_layout, cases[i].layout);
		int sum = 0, first;
		for (int s = 0; s < job->pp; s++)
			for (int c = 0; c < job->vp; c++) sum += lk_job_chunk_layers(job, s, c, &first);
		assert_int_equal(sum, job->model.layers);
		assert_int_equal(lk_job_chunk_layers(job, 0, 0, &first), cases[i].first);
		assert_int_equal(lk_job_chunk_layers(job, job->pp - 1, job->vp - 1, &first), cases[i].last);
		drop(&t);
	}
}

/* The catalogue's network of that name holds only while no stated size differs. */
static void test_names(void **state) {
	(void)state;
	struct table t =
		read_text("id,model,gpu,n_gpu,gbs,step_s,layers,window\n"
	              "a,gpt-oss-120b,h100-sxm,64,64,1,36,\nb,gpt-oss-120b,h100-sxm,64,64,1,35,\n");
	assert_int_equal(t.status, LK_OK);
	assert_string_equal(t.runs.at[0].refused, "");
	assert_int_equal(t.runs.at[0].job.model.window, 128);
	assert_int_equal(t.runs.at[0].job.model.full_every, 2);
	assert_non_null(strstr(t.runs.at[1].refused, "lacks sizes"));
	drop(&t);
}

static void test_refused(void **state) {
	(void)state;
	static const struct {
		const char *row, *why;
	} cases[] = {
		{"a,llama3.1-8b,h100-sxm,,8,1,,,", "does not state the GPU"},
		{"a,llama3.1-8b,,8,8,1,,,", "does not state the GPU"},
		{"a,llama3.1-8b,h100-sxm,8,,1,,,", "does not state the batch"},
		{"a,nobody-7b,h100-sxm,8,8,1,,,", "lacks sizes"},
		{"a,llama3.1-8b,h100-sxm,8,8,1,3,,", "multiple"},
		{"a,llama3.1-8b,h100-sxm,8,9,1,1,2,", "multiple"},
		{"a,llama3.1-8b,a100-sxm-80,8,8,1,,,fp8", "no fp8"},
		{"a,llama3.1-8b,h999,8,8,1,,,", "h999"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[300];
		snprintf(text, sizeof text, "id,model,gpu,n_gpu,gbs,step_s,tp,mbs,precision\n%s\n",
		         cases[i].row);
		struct table t = read_text(text);
		if (t.status != LK_OK) fail_msg("%s: %s", cases[i].row, t.err.what);
		if (!strstr(t.runs.at[0].refused, cases[i].why))
			fail_msg("%s: \"%s\"", cases[i].row, t.runs.at[0].refused);
		assert_null(strchr(t.runs.at[0].refused, '\n'));
		drop(&t);
	}
}

static void test_hostile(void **state) {
	(void)state;
	static const struct {
		const char *text, *where, *what;
	} cases[] = {
		{"", "t.csv:1", "no rows"},
		{"id,model\n", "t.csv", "the column gpu is missing"},
		{"id,model,gpu,n_gpu,gbs,step_s\na,b\n", "t.csv:2", "2 fields"},
		{"id,model,gpu,n_gpu,gbs,step_s,tp\n#\na,b,c,8,8,1,x\n", "t.csv:3: tp", "\"x\""},
		{"id,model,gpu,n_gpu,gbs,step_s,tp\na,b,c,8,8,1,-1\n", "t.csv:2: tp", "-1 is out of range"},
		{"id,model,gpu,n_gpu,gbs,step_s\na,b,c,0,8,1\n", "t.csv:2: n_gpu", "out of range"},
		{"id,model,gpu,n_gpu,gbs,step_s\na,b,c,99999999999999999999999,8,1\n", "t.csv:2: n_gpu",
	     "out of range"},
		{"id,model,gpu,n_gpu,gbs,step_s\na,b,c,8,1e9,1\n", "t.csv:2: gbs", "1e9"},
		{"id,model,gpu,n_gpu,gbs,step_s\na,b,c,8,8,-1\n", "t.csv:2: step_s", "-1"},
		{"id,model,gpu,n_gpu,gbs,step_s\na,b,c,8,8,nan\n", "t.csv:2: step_s", "nan"},
		{"id,model,gpu,n_gpu,gbs,step_s\na,b,c,8,8,1e999\n", "t.csv:2: step_s", "1e999"},
		{"id,model,gpu,n_gpu,gbs,step_s\na,b,c,8,8,1s\n", "t.csv:2: step_s", "1s"},
		{"id,model,gpu,n_gpu,gbs,step_s,sharding\na,b,c,8,8,1,zero9\n", "t.csv:2: sharding",
	     "zero9"},
		{"id,model,gpu,n_gpu,gbs,step_s,precision\na,b,c,8,8,1,int3\n", "t.csv:2: precision",
	     "int3"},
		{"id,model,gpu,n_gpu,gbs,step_s,net_gbps_per_gpu\na,b,c,8,8,1,inf\n",
	     "t.csv:2: net_gbps_per_gpu", "inf"},
		{"id,model,gpu,n_gpu,gbs,step_s\na,\"b,c,8,8,1\n", "t.csv:2", "not closed"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct table t = read_text(cases[i].text);
		char line[900];
		lk_error_text(&t.err, line, sizeof line);
		if (t.status != LK_ERR_INPUT) fail_msg("case %zu is read", i);
		if (strncmp(t.err.where, cases[i].where, strlen(cases[i].where)) != 0 ||
		    !strstr(line, cases[i].what))
			fail_msg("case %zu: %s", i, line);
		assert_null(strchr(line, '\n'));
		drop(&t);
	}
}

/* ---- from table to output ---- */

static lk_validation *validated(const char *path, const char *stack, int sort) {
	lk_validate_request request;
	lk_validation *validation = NULL;
	lk_error err = {0};
	lk_validate_defaults(&request);
	request.table = path;
	request.stack = stack;
	request.sort = sort;
	if (lk_validate(&request, &validation, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	return validation;
}

static char *printed(const lk_validation *validation, int format) {
	char *text = NULL;
	size_t size;
	lk_error err = {0};
	FILE *file = open_memstream(&text, &size);
	if (lk_validate_print(validation, format, false, file, &err) != LK_OK) fail_msg("%s", err.what);
	fclose(file);
	return text;
}

static void test_validate(void **state) {
	(void)state;
	lk_validation *validation = validated(small, NULL, 0);
	assert_int_equal(validation->summary.rows, 4);
	assert_int_equal(validation->summary.predicted, 3);
	assert_int_equal(validation->summary.skipped, 1);
	assert_int_equal(validation->summary.suspect, 1);
	assert_int_equal(validation->summary.scored, 2);
	for (int i = 0; i < 3; i++) {
		const lk_validated *row = &validation->rows[i];
		assert_true(row->predicted > 0 && row->low < row->predicted && row->high > row->predicted);
		near(row->error, row->predicted / row->measured - 1);
	}
	assert_true(isnan(validation->rows[3].predicted) && isnan(validation->rows[3].error));
	assert_non_null(strstr(validation->rows[3].reason, "TPU"));
	assert_non_null(strstr(validation->rows[2].reason, "invented on purpose"));
	assert_null(validation->rows[0].reason);
	lk_validate_free(validation);

	validation = validated(small, "NeMo", 1);
	assert_int_equal(validation->row_count, 2);
	assert_true(fabs(log1p(validation->rows[0].error)) >= fabs(log1p(validation->rows[1].error)));
	assert_string_equal(validation->reproduce,
	                    "lockstep validate tests/data/runs_small.csv --stack NeMo --sort error");
	lk_validate_free(validation);
}

static void test_json(void **state) {
	(void)state;
	static const char *const keys[] = {
		"predicted", "skipped", "geomean_error", "macro_geomean_error", "mape",    "median_error",
		"p90_error", "bias",    "kendall_tau",   "mean_top1_regret",    "coverage"};
	static const char *const row_keys[] = {"id",    "predicted", "measured", "unit",
	                                       "error", "low",       "high",     "reason"};
	lk_validation *validation = validated(small, NULL, 0);
	char *text = printed(validation, LK_VALIDATE_JSON);
	lk_arena arena = LK_ARENA_INIT;
	lk_stream *in;
	lk_value *tree;
	lk_error err;
	assert_int_equal(lk_stream_memory(text, strlen(text), "json", &in, &err), LK_OK);
	assert_int_equal(lk_json_document(&arena, in, &tree, &err), LK_OK);
	const lk_value *summary = lk_json_get(tree, "summary"), *rows = lk_json_get(tree, "rows");
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		assert_non_null(lk_json_get(summary, keys[i]));
	near(lk_json_get(summary, "geomean_error")->number, validation->summary.geomean_error);
	assert_int_equal(lk_json_get(summary, "kendall_tau")->kind, LK_JSON_NULL);
	assert_int_equal(lk_json_get(summary, "macro_geomean_error")->kind, LK_JSON_NULL);
	assert_int_equal(rows->count, 4);
	for (size_t r = 0; r < 4; r++)
		for (size_t i = 0; i < sizeof row_keys / sizeof *row_keys; i++)
			assert_non_null(lk_json_get(&rows->items[r], row_keys[i]));
	assert_int_equal(lk_json_get(&rows->items[3], "predicted")->kind, LK_JSON_NULL);
	lk_stream_close(in);
	lk_arena_free(&arena);
	free(text);
	lk_validate_free(validation);
}

static void test_formats(void **state) {
	(void)state;
	lk_validation *validation = validated(small, NULL, 0);
	char *text = printed(validation, LK_VALIDATE_TEXT), *csv = printed(validation, LK_VALIDATE_CSV),
		 *lines = printed(validation, LK_VALIDATE_JSONL);
	assert_non_null(
		strstr(text, "4 rows of tests/data/runs_small.csv: 3 predicted, 1 skipped, 2 scored"));
	assert_non_null(strstr(text, "\nlockstep validate tests/data/runs_small.csv\n"));
	assert_non_null(strstr(text, "TPU"));
	int newlines = 0;
	for (const char *c = lines; *c; c++) newlines += *c == '\n';
	assert_int_equal(newlines, 4);
	lk_stream *in;
	lk_csv *rows;
	lk_error err;
	bool more;
	int count = 0;
	assert_int_equal(lk_stream_memory(csv, strlen(csv), "csv", &in, &err), LK_OK);
	assert_int_equal(lk_csv_open(in, &rows, &err), LK_OK);
	while (lk_csv_next(rows, &more, &err) == LK_OK && more) {
		assert_string_equal(lk_csv_field(rows, lk_csv_column(rows, "id")),
		                    validation->rows[count].id);
		if (validation->rows[count].predicted > 0)
			near(atof(lk_csv_field(rows, lk_csv_column(rows, "predicted"))),
			     validation->rows[count].predicted);
		count++;
	}
	assert_int_equal(count, 4);
	lk_csv_close(rows);
	lk_stream_close(in);
	free(text);
	free(csv);
	free(lines);
	lk_validate_free(validation);
}

static void test_wrong_questions(void **state) {
	(void)state;
	static const struct {
		const char *runs, *stack, *what;
	} cases[] = {
		{NULL, NULL, "no table"},
		{"tests/data/there-is-no-such-file.csv", NULL, ""},
		{small, "nobody", "no row has the stack"},
		{"tests/fuzz/corpus/runs/empty.csv", NULL, "no rows"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_validate_request request;
		lk_validation *validation = NULL;
		lk_error err = {0};
		lk_validate_defaults(&request);
		request.table = cases[i].runs;
		request.stack = cases[i].stack;
		assert_int_not_equal(lk_validate(&request, &validation, &err), LK_OK);
		assert_null(validation);
		assert_non_null(strstr(err.what, cases[i].what));
	}
	lk_validate_free(NULL);
}

/* The measured runs: nearly all are predicted, each skipped row says why, and no figure is missing.
 */
static void test_measured(void **state) {
	(void)state;
	if (judged_elsewhere()) skip();
	lk_validation *validation = validated(need_data("measured/llm_runs.csv"), NULL, 0);
	const lk_accuracy *accuracy = &validation->summary;
	assert_true(accuracy->skipped * 50 <= accuracy->rows);
	assert_true(isfinite(accuracy->geomean_error) && isfinite(accuracy->macro_geomean_error) &&
	            isfinite(accuracy->kendall_tau));
	assert_true(isfinite(accuracy->mean_top1_regret) && accuracy->mean_top1_regret >= 0);
	for (int i = 0; i < validation->row_count; i++) {
		const lk_validated *row = &validation->rows[i];
		assert_true(row->predicted > 0 || (row->reason && *row->reason));
		assert_true(row->scored || row->reason);
	}
	/* Each row is in a part of every division; those that are skipped have no kind of network, and
	 * mixtures of experts alone are divided once more. */
	int rows = 0, experts = 0, experts_by_stack = 0;
	for (int i = 0; i < validation->group_count; i++) {
		const lk_accuracy *group = &validation->groups[i];
		if (strcmp(group->by, "experts") == 0) experts_by_stack += group->rows;
		else rows += group->rows;
		if (strcmp(group->name, "experts") == 0) experts += group->rows;
	}
	assert_int_equal(rows, 4 * accuracy->rows - accuracy->skipped);
	assert_true(experts > 0);
	assert_int_equal(experts_by_stack, experts);
	lk_validate_free(validation);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hand),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_macro),
		cmocka_unit_test(test_suspect),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_symmetry),
		cmocka_unit_test(test_divisions),
		cmocka_unit_test(test_python),
		cmocka_unit_test(test_range),
		cmocka_unit_test(test_releases),
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_uneven),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_row_is_request),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_validate),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_wrong_questions),
		cmocka_unit_test(test_measured),
	};
	return cmocka_run_group_tests_name("accuracy", tests, NULL, NULL);
}
