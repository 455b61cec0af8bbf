/* test_exact.c: on random jobs, the answer by default is that of every operation simulated, its
 * memory too; better hardware never makes a step longer, whichever rate is better; ranks that are
 * alike may change places; twice the nodes at twice the batch take no less time and no more memory;
 * and a change that would make a job fit is answered for what it promised. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/stats.h"
#include "hw/hw.h"
#include "lockstep/options.h"
#include "lockstep/predict.h"
#include "rounds.h"
#include "step/step.h"

static uint64_t next_random(uint64_t *state) {
	return lk_hash64(*state += 0x9e3779b97f4a7c15u);
}

#define PICK(state, of) ((of)[next_random(state) % (sizeof(of) / sizeof *(of))])

/* A job as it was drawn: the request, and what can be made better of its cluster. */
typedef struct lk_drawn {
	lk_predict_request request;
	char cluster[128];
	int nodes, gpus, nic_gbps;
	const char *gpu;
} lk_drawn;

static void drawn_set_cluster(lk_drawn *drawn, const char *gpu, int nic_gbps) {
	snprintf(drawn->cluster, sizeof drawn->cluster, "%d node * %d %s, nic %d*%dg", drawn->nodes,
	         drawn->gpus, gpu, drawn->gpus, nic_gbps);
	drawn->request.cluster = drawn->cluster;
}

static void draw_job(uint64_t *state, lk_drawn *drawn) {
	static const char *const models[] = {"llama2-7b",    "llama2-13b",   "llama3.1-8b",
	                                     "llama3.1-70b", "gpt2-xl",      "gpt3-175b",
	                                     "mixtral-8x7b", "qwen3-30b-a3b"};
	static const char *const gpus[] = {"a100-sxm-80 nvlink3", "h100-sxm nvlink4"};
	static const char *const recompute[] = {"none", "full"};
	static const char *const zero[] = {"0", "1", "2", "3"};
	static const int powers[] = {1, 1, 2, 4, 8}, rates[] = {100, 200, 400},
					 seqs[] = {1024, 2048, 4096};
	static const int nodes[] = {2, 4, 8}, few_nodes[] = {2, 2, 4};
	static const int batches[] = {1, 2, 3, 4, 8, 16, 40}, few_batches[] = {1, 2, 3, 4, 5, 8, 12};
	memset(drawn, 0, sizeof *drawn);
	lk_predict_request *request = &drawn->request;
	lk_predict_defaults(request);
	drawn->nodes = takes_long() ? PICK(state, nodes) : PICK(state, few_nodes);
	drawn->gpus = 8;
	drawn->nic_gbps = PICK(state, rates);
	drawn->gpu = PICK(state, gpus);
	drawn_set_cluster(drawn, drawn->gpu, drawn->nic_gbps);
	request->model = PICK(state, models);
	request->tp = PICK(state, powers);
	request->pp = PICK(state, powers);
	request->mbs = 1 + (int)(next_random(state) % 2);
	request->seq = PICK(state, seqs);
	request->zero = PICK(state, zero);
	request->recompute = PICK(state, recompute);
	int dp = drawn->nodes * drawn->gpus / (request->tp * request->pp);
	request->gbs = (dp ? dp : 1) * request->mbs;
	request->gbs *= takes_long() ? PICK(state, batches) : PICK(state, few_batches);
	if (next_random(state) % 4 == 0 && request->pp > 1) request->vp = 2;
}

/* Other software and switches on top. */
static void draw_software(uint64_t *state, lk_drawn *drawn) {
	static const char *const stacks[] = {"megatron", "torchtitan", "fsdp"};
	static const int degrees[] = {1, 1, 2, 4}, switches[] = {-1, 0, 1};
	lk_predict_request *request = &drawn->request;
	request->stack = PICK(state, stacks);
	request->ep = PICK(state, degrees);
	request->cp = PICK(state, degrees);
	request->tp_overlap = PICK(state, switches);
	request->overlap_grad_reduce = PICK(state, switches);
	request->overlap_param_gather = PICK(state, switches);
	request->overlap_p2p = PICK(state, switches);
	request->offload_activations = next_random(state) % 4 == 0;
	request->offload_optimizer = next_random(state) % 6 == 0;
}

/* Layers that are alike repeat: jobs are cheap with so few, which every layout that is drawn
 * divides. In the long check the networks are as they are, on more nodes and with more
 * micro-batches. */
enum { FEW_LAYERS = 16 };

static bool read_drawn(lk_arena *arena, const lk_drawn *drawn, lk_asked *asked) {
	lk_error err;
	if (lk_request_read(arena, &drawn->request, asked, &err) != LK_OK) return false;
	if (!takes_long()) asked->job.model.layers = FEW_LAYERS;
	return true;
}

/* A request, simulated as `options` say, to be freed with lk_step_free; false where it is no legal
 * job. */
static bool ask_step(const lk_drawn *drawn, const lk_step_options *options, lk_step *step) {
	lk_arena arena = LK_ARENA_INIT;
	lk_asked asked;
	lk_error err;
	*step = (lk_step){0};
	bool legal = read_drawn(&arena, drawn, &asked);
	if (legal)
		assert_int_equal(lk_step_ask(&asked.job, &asked.cluster, options, step, &err), LK_OK);
	lk_arena_free(&arena);
	return legal;
}

/* Its step time; NAN where it is no legal job. */
static double ask_drawn(const lk_drawn *drawn, const lk_step_options *options) {
	lk_step step;
	double seconds = ask_step(drawn, options, &step) ? step.step_s : NAN;
	lk_step_free(&step);
	return seconds;
}

static void say_job(const lk_drawn *drawn) {
	const lk_predict_request *request = &drawn->request;
	if (!takes_long()) print_message("with %d layers: ", FEW_LAYERS);
	if (request->nccl) print_message("--nccl '%s' ", request->nccl);
	print_message("--model %s --cluster '%s' --tp %d --pp %d --vp %d --mbs %d --gbs %d --seq %d "
	              "--zero %s --recompute %s\n",
	              request->model, drawn->cluster, request->tp, request->pp,
	              request->vp ? request->vp : 1, request->mbs, request->gbs, request->seq,
	              request->zero ? request->zero : "open",
	              request->recompute ? request->recompute : "open");
	if (request->stack)
		print_message(
			"--stack %s --schedule %s --ep %d --cp %d; switches: tp overlap %d, gradients "
			"%d, parameters %d, messages %d\n",
			request->stack, request->schedule ? request->schedule : "open", request->ep,
			request->cp, request->tp_overlap, request->overlap_grad_reduce,
			request->overlap_param_gather, request->overlap_p2p);
}

/* Sums of the same numbers in another order. */
static void assert_near(double a, double b) {
	if (fabs(a - b) > 1e-9 * fmax(fabs(a), fabs(b)) + 1e-12) fail_msg("%.15g, and %.15g", a, b);
}

static void assert_same_memory(const lk_step *a, const lk_step *b) {
	assert_int_equal(a->fullest, b->fullest);
	for (uint32_t s = 0; s < a->graph->ranks.stages; s++) {
		assert_near(a->memory[s].total, b->memory[s].total);
		assert_near(a->memory[s].walk.peak, b->memory[s].walk.peak);
		assert_true(!(a->memory[s].low > a->memory[s].walk.peak));
		assert_true(!(a->memory[s].high < a->memory[s].walk.peak));
	}
}

static void the_default_is_exact(void **unused) {
	(void)unused;
	uint64_t state = 1;
	lk_drawn drawn;
	int bare_steps = 0, count = rounds(judged_elsewhere() ? 200 : 1000, 100000);
	for (int jobs = 0; jobs < count;) {
		lk_step folded, exact;
		draw_job(&state, &drawn);
		if (next_random(&state) % 2) draw_software(&state, &drawn);
		if (ask_step(&drawn, &(lk_step_options){0}, &folded)) {
			assert_true(ask_step(&drawn, &(lk_step_options){.exact = true}, &exact));
			jobs++;
			if (folded.step_s != exact.step_s) {
				say_job(&drawn);
				fail_msg("%.15g s by default, %.15g s exactly", folded.step_s, exact.step_s);
			}
			assert_same_memory(&folded, &exact);
			/* Without records, ranks take joined strides; a step that does not fit has no time. */
			if (jobs % 2 == 0) {
				double bare = ask_drawn(&drawn, &(lk_step_options){.exact = true, .bare = true});
				bare_steps += bare > 0;
				if (bare != 0 && bare != exact.step_s) {
					say_job(&drawn);
					fail_msg("%.15g s recorded, %.15g s bare", exact.step_s, bare);
				}
			}
			lk_step_free(&exact);
		}
		lk_step_free(&folded);
	}
	assert_true(bare_steps > count / 10);
}

/* ---- few micro-batches say what all take ---- */

/* Folded runs are split in the mean, so that splits are those of one another where both steps are
 * folded or neither is. */
static void same_step(const lk_step *few, const lk_step *all) {
	bool alike = !few->fold == !all->fold;
	assert_true(few->sim.step_ps == all->sim.step_ps);
	if (!few->fold && !all->fold) assert_true(few->sim.operations == all->sim.operations);
	assert_int_equal(few->fullest, all->fullest);
	assert_near(few->executed_flops, all->executed_flops);
	assert_true(few->graph->tokens == all->graph->tokens);
	assert_true(few->graph->model_flops == all->graph->model_flops);
	for (uint32_t s = 0; s < all->graph->ranks.stages; s++) {
		const lk_memory *known = &few->memory[s].walk, *memory = &all->memory[s].walk;
		const lk_call *peak = &few->graph->programs.at[s].calls.at[known->call];
		assert_near(known->peak, memory->peak);
		assert_int_equal(peak->microbatch,
		                 all->graph->programs.at[s].calls.at[memory->call].microbatch);
		for (int part = 0; alike && part < LK_PART_COUNT; part++) {
			assert_near(few->stage_time[s].exposed_s[part], all->stage_time[s].exposed_s[part]);
			assert_near(few->stage_time[s].hidden_s[part], all->stage_time[s].hidden_s[part]);
		}
	}
}

static const char *const periodic[] = {"1f1b",   "interleaved", "zb-h1",    "zb-h2",    "zb-v",
                                       "v-half", "v-min",       "dualpipe", "dualpipev"};

/* A job whose schedule repeats itself, with `batch` micro-batches. */
static void draw_periodic(uint64_t *state, int stages, int batch, lk_drawn *drawn) {
	lk_predict_request *request = &drawn->request;
	request->pp = stages;
	request->vp = 0;
	request->schedule = stages > 1 ? PICK(state, periodic) : NULL;
	if (request->schedule && strcmp(request->schedule, "interleaved") == 0)
		request->vp = 2 + (int)(next_random(state) % 2);
	int replicas = drawn->nodes * drawn->gpus / (request->tp * request->pp * request->cp);
	request->gbs = (replicas ? replicas : 1) * request->mbs * batch;
}

static void few_micro_batches_tell_all(void **unused) {
	(void)unused;
	static const int batches[] = {60, 130, 201, 400}, few_batches[] = {50, 70, 101, 130};
	static const int stages[] = {1, 1, 2, 4, 8};
	static const lk_straggler slow = {.rank = 5, .factor = 1.3};
	uint64_t state = 4;
	int told = 0;
	for (int jobs = 0, count = trials(60); jobs < count;) {
		lk_drawn drawn;
		lk_step few, all;
		draw_job(&state, &drawn);
		draw_software(&state, &drawn);
		int pp = PICK(&state, stages);
		draw_periodic(&state, pp, takes_long() ? PICK(&state, batches) : PICK(&state, few_batches),
		              &drawn);
		lk_step_options options = {.few = true, .exactly = true};
		if (next_random(&state) % 4 == 0) options.no_contention = true;
		if (next_random(&state) % 4 == 0) options.exact = pp < 4;
		if (next_random(&state) % 4 == 0) options.straggler_count = 1;
		options.stragglers = &slow;
		if (ask_step(&drawn, &options, &few)) {
			jobs++;
			told += few.left_out > 0;
			options.few = false;
			say_job(&drawn); /* shown where it fails */
			assert_true(ask_step(&drawn, &options, &all));
			same_step(&few, &all);
			lk_step_free(&all);
		}
		lk_step_free(&few);
	}
	print_message("%d jobs told by few micro-batches\n", told);
	assert_true(told > 0 || fewer_cases() > 1);
}

/* The rate of few micro-batches is that of all: the default against every operation of the whole
 * step. */
static void rates_tell_all(void **unused) {
	(void)unused;
	static const int batches[] = {130, 256, 400, 700}, few_batches[] = {96, 130, 200};
	static const int stages[] = {2, 4, 4, 8};
	uint64_t state = 5;
	int read = 0;
	for (int jobs = 0, count = rounds(24, 2000); jobs < count;) {
		lk_drawn drawn;
		lk_step few, all;
		draw_job(&state, &drawn);
		draw_software(&state, &drawn);
		int pp = PICK(&state, stages);
		draw_periodic(&state, pp, takes_long() ? PICK(&state, batches) : PICK(&state, few_batches),
		              &drawn);
		if (ask_step(&drawn, &(lk_step_options){.few = true}, &few)) {
			jobs++;
			read += few.left_out > 0;
			assert_true(ask_step(&drawn, &(lk_step_options){.exact = true}, &all));
			assert_same_memory(&few, &all);
			assert_near(few.executed_flops, all.executed_flops);
			if (fabs(few.step_s / all.step_s - 1) > 1e-4) {
				say_job(&drawn);
				fail_msg("%.9g s from few micro-batches, %.9g s from all", few.step_s, all.step_s);
			}
			double parts_s = 0;
			for (int p = 0; p < LK_PART_COUNT; p++) parts_s += few.breakdown.exposed_s[p];
			assert_true(fabs(parts_s / few.step_s - 1) < 1e-6);
			lk_step_free(&all);
		}
		lk_step_free(&few);
	}
	print_message("%d jobs read from few micro-batches\n", read);
	assert_true(read > 0 || fewer_cases() > 1);
}

/* What runs at the same time shares the device, so that a message which ends earlier may meet a
 * kernel that suffers more: in one of some hundred jobs the step is then a little longer. The
 * channels of NCCL are held fixed: with faster links it takes more of them, which take more SMs
 * from the kernels (docs/method/contention.md). */
typedef struct exact_compared {
	int all, longer;
} exact_compared;

static void compare(const lk_drawn *drawn, const char *what, double better, double plain,
                    exact_compared *compared) {
	compared->all++;
	compared->longer +=
		better > plain * (1 + 1e-6); /* beyond what rounding to picoseconds sums to */
	if (better <= plain * 1.003) return;
	say_job(drawn);
	fail_msg("%s: %.9g s, and %.9g s without", what, better, plain);
}

/* What a cluster can be better in. */
enum {
	BETTER_NETWORK,
	BETTER_LINKS,
	BETTER_MEMORY,
	BETTER_PRODUCTS,
	BETTER_VECTORS,
	BETTER_PCIE,
	BETTER_GPU,
	BETTER_RANKS,
	BETTER_KINDS,
};

static const char *const better_names[] = {
	"twice the network",  "twice the links",   "half more memory bandwidth",
	"half more products", "half more vectors", "twice the bus to the host",
	"h100-sxm",           "no straggler"};

/* Every device with one rate raised. */
static void improve_devices(lk_arena *arena, lk_cluster *cluster, int kind) {
	lk_node *nodes = LK_ARRAY(arena, lk_node, (size_t)cluster->groups);
	for (int i = 0; i < cluster->groups; i++) {
		lk_device *device = LK_NEW(arena, lk_device);
		nodes[i] = cluster->node[i];
		*device = *nodes[i].device;
		if (kind == BETTER_MEMORY) device->memory_rate *= 1.5;
		if (kind == BETTER_VECTORS) device->vector_flops *= 1.5;
		if (kind == BETTER_PCIE) device->pcie_rate *= 2;
		for (int f = 0; kind == BETTER_PRODUCTS && f < LK_DTYPES; f++) device->peak_flops[f] *= 1.5;
		nodes[i].device = device;
	}
	cluster->node = nodes;
}

/* Seconds of the job on a cluster that is better in one way; NAN where it cannot be. */
static double ask_better(const lk_drawn *drawn, int kind, const lk_step_options *options) {
	lk_arena arena = LK_ARENA_INIT;
	lk_asked asked;
	lk_error err;
	lk_step step = {0};
	double seconds = NAN;
	assert_true(read_drawn(&arena, drawn, &asked));
	lk_cluster better = asked.cluster;
	lk_status status = LK_OK;
	if (kind == BETTER_NETWORK)
		status = lk_cluster_with_nics(&arena, &asked.cluster, "2x", &better, &err);
	else if (kind == BETTER_LINKS)
		status = lk_cluster_with_links(&arena, &asked.cluster, "2x", &better, &err);
	else if (kind == BETTER_GPU)
		status = lk_cluster_with_device(&arena, &asked.cluster, lk_device_find("h100-sxm"), &better,
		                                &err);
	else improve_devices(&arena, &better, kind);
	assert_int_equal(status, LK_OK);
	if (lk_step_ask(&asked.job, &better, options, &step, &err) == LK_OK) seconds = step.step_s;
	lk_step_free(&step);
	lk_arena_free(&arena);
	return seconds;
}

/* Without contention a step is sums and maxima of prices: less of one is never more of the step. */
static void compare_without_contention(const lk_drawn *drawn, int kind) {
	static const lk_step_options alone = {.no_contention = true};
	double plain = ask_drawn(drawn, &alone), better = ask_better(drawn, kind, &alone);
	if (better <= plain * (1 + 1e-6)) return;
	say_job(drawn);
	fail_msg("%s, no contention: %.9g s, and %.9g s without", better_names[kind], better, plain);
}

static void better_hardware_is_never_slower(void **unused) {
	(void)unused;
	static const char *const channels[] = {"NCCL_MIN_NCHANNELS=8 NCCL_MAX_NCHANNELS=8",
	                                       "NCCL_MIN_NCHANNELS=16 NCCL_MAX_NCHANNELS=16",
	                                       "NCCL_MIN_NCHANNELS=24 NCCL_MAX_NCHANNELS=24"};
	uint64_t state = 2;
	lk_drawn drawn;
	exact_compared compared = {0};
	lk_straggler slow = {.rank = 3, .factor = 1.2};
	const lk_step_options usual = {0}, late = {.stragglers = &slow, .straggler_count = 1};
	for (int jobs = 0, count = rounds(judged_elsewhere() ? 200 : 1000, 100000); jobs < count;) {
		draw_job(&state, &drawn);
		if (next_random(&state) % 4 == 0) draw_software(&state, &drawn);
		drawn.request.nccl = PICK(&state, channels);
		double plain = ask_drawn(&drawn, &usual);
		if (isnan(plain)) continue;
		jobs++;
		int kind = (int)(next_random(&state) % BETTER_KINDS);
		if (kind == BETTER_RANKS) {
			compare(&drawn, better_names[kind], plain, ask_drawn(&drawn, &late), &compared);
		} else if (kind != BETTER_GPU || strstr(drawn.gpu, "a100")) {
			compare(&drawn, better_names[kind], ask_better(&drawn, kind, &usual), plain, &compared);
			compare_without_contention(&drawn, kind);
		}
	}
	print_message("%d of %d are longer\n", compared.longer, compared.all);
	assert_true(compared.longer * 100 <= compared.all);
}

/* ---- places of ranks, more of them ---- */

/* Which node of a stage is slow changes nothing, where the stage is whole nodes. */
static void ranks_may_change_places(void **unused) {
	(void)unused;
	uint64_t state = 5;
	lk_drawn drawn;
	for (int jobs = 0, count = rounds(judged_elsewhere() ? 60 : 1000, 100000); jobs < count;) {
		draw_job(&state, &drawn);
		int ranks = drawn.nodes * drawn.gpus, chains = ranks / drawn.request.pp;
		if (chains % drawn.gpus || chains < 2 * drawn.gpus || drawn.request.tp > drawn.gpus)
			continue;
		lk_straggler slow = {.rank = (int)(next_random(&state) % (uint64_t)chains), .factor = 1.3};
		const lk_step_options late = {.stragglers = &slow, .straggler_count = 1};
		double here = ask_drawn(&drawn, &late);
		if (isnan(here)) continue;
		jobs++;
		slow.rank = (slow.rank + drawn.gpus) % chains;
		double there = ask_drawn(&drawn, &late);
		if (here == there) continue;
		say_job(&drawn);
		fail_msg("%.15g s, and %.15g s with the slow rank one node on", here, there);
	}
}

/* Twice the nodes and twice the batch: each rank has the work that it had, and more to talk to;
 * of what is sharded it holds less. Buffers of NCCL may become more. The multicast reduces eight
 * ranks of a node in a little less time than four, which a step of few micro-batches shows. */
static void twice_the_nodes_take_no_less(void **unused) {
	(void)unused;
	uint64_t state = 6;
	for (int jobs = 0, count = rounds(judged_elsewhere() ? 60 : 1000, 100000); jobs < count;) {
		lk_drawn drawn;
		lk_step plain, twice;
		draw_job(&state, &drawn);
		drawn.request.zero = "0";
		drawn.request.bucket_mib = 160; /* by default it grows with the ranks */
		if (ask_step(&drawn, &(lk_step_options){0}, &plain)) {
			jobs++;
			drawn.nodes *= 2;
			drawn.request.gbs *= 2;
			drawn_set_cluster(&drawn, drawn.gpu, drawn.nic_gbps);
			assert_true(ask_step(&drawn, &(lk_step_options){0}, &twice));
			if (twice.step_s < plain.step_s * (1 - 0.025) ||
			    twice.memory[twice.fullest].walk.peak >
			        plain.memory[plain.fullest].walk.peak * (1 + 1e-9)) {
				say_job(&drawn);
				fail_msg("%.9g s and %.0f bytes; half of it: %.9g s and %.0f bytes", twice.step_s,
				         twice.memory[twice.fullest].walk.peak, plain.step_s,
				         plain.memory[plain.fullest].walk.peak);
			}
			lk_step_free(&twice);
		}
		lk_step_free(&plain);
	}
}

/* ---- fixes ---- */

enum { FIX_WORDS = 16 };

/* The request with the options of a fix on top, as they are typed. */
static lk_prediction *ask_fixed(const lk_predict_request *request, const lk_fix *fix) {
	lk_predict_request changed = *request;
	lk_prediction *prediction = NULL;
	lk_args args = {0};
	lk_error err = {0};
	char text[sizeof fix->change], *next = text, *word;
	const char *words[FIX_WORDS];
	int count = 0;
	memcpy(text, fix->change, sizeof text);
	while ((word = strsep(&next, " "))) {
		assert_true(count < FIX_WORDS);
		words[count++] = word;
	}
	assert_int_equal(lk_args_parse(&lk_predict_verb, count, words, &args, &err), LK_OK);
	assert_int_equal(lk_args_fill(&args, 0, &changed, &err), LK_OK);
	if (lk_predict(&changed, &prediction, &err) != LK_OK) {
		print_message("%s: %s\n", fix->change, err.what);
		prediction = NULL;
	}
	lk_args_free(&args);
	return prediction;
}

static void check_fixes(const lk_drawn *drawn, const lk_prediction *said) {
	for (int i = 0; i < said->fix_count; i++) {
		const lk_fix *fix = &said->fixes[i];
		lk_prediction *fixed = ask_fixed(&drawn->request, fix);
		bool same = fixed && fixed->fits && fixed->step_time_s == fix->step_time_s &&
		            fixed->peak_bytes == fix->peak_bytes;
		if (!same) {
			say_job(drawn);
			fail_msg("%s: promised %.12g s, %.0f bytes; answered %.12g s, %.0f bytes", fix->change,
			         fix->step_time_s, fix->peak_bytes, fixed ? fixed->step_time_s : NAN,
			         fixed ? fixed->peak_bytes : NAN);
		}
		lk_predict_free(fixed);
	}
}

/* Some of what draw_job states is left open; on a described cluster no GPUs can be added. */
static void draw_unfit(uint64_t *state, lk_drawn *drawn) {
	draw_job(state, drawn);
	lk_predict_request *request = &drawn->request;
	if (next_random(state) % 2) request->cluster = NULL;
	if (!request->cluster) {
		request->gpu = strstr(drawn->gpu, "a100") ? "a100-sxm-80" : "h100-sxm";
		request->gpus = drawn->nodes * drawn->gpus;
	}
	if (next_random(state) % 2) request->zero = NULL;
	if (next_random(state) % 2) request->recompute = NULL;
	if (next_random(state) % 4 == 0) request->mbs = 0;
	if (next_random(state) % 4 == 0) request->gbs = 0;
}

static void a_fix_is_what_predict_answers(void **unused) {
	(void)unused;
	uint64_t state = 3;
	int rows = 0;
	for (int jobs = 0, count = trials(100); jobs < count;) {
		lk_drawn drawn;
		lk_prediction *said = NULL;
		draw_unfit(&state, &drawn);
		if (lk_predict(&drawn.request, &said, NULL) == LK_OK && said->fix_count > 0) {
			jobs++;
			rows += said->fix_count;
			check_fixes(&drawn, said);
		}
		lk_predict_free(said);
	}
	print_message("%d rows\n", rows);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_default_is_exact),
		cmocka_unit_test(few_micro_batches_tell_all),
		cmocka_unit_test(rates_tell_all),
		cmocka_unit_test(better_hardware_is_never_slower),
		cmocka_unit_test(ranks_may_change_places),
		cmocka_unit_test(twice_the_nodes_take_no_less),
		cmocka_unit_test(a_fix_is_what_predict_answers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
