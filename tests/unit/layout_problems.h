/* layout_problems.h: random problems of a search for layouts, and random layouts of them. */
#ifndef LK_TEST_LAYOUT_PROBLEMS_H
#define LK_TEST_LAYOUT_PROBLEMS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/stats.h"
#include "base/units.h"
#include "hw/hw.h"
#include "model/layout/job.h"
#include "plan/plan.h"

struct dice {
	uint64_t state;
};

static uint32_t roll(struct dice *dice, uint32_t below) {
	dice->state = lk_hash64(dice->state + 0x9e3779b97f4a7c15u);
	return (uint32_t)(dice->state >> 33) % below;
}

static int pick(struct dice *dice, const int *of, int count) {
	return of[roll(dice, (uint32_t)count)];
}

#define PICK(d, ...) \
	pick(d, (const int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))

/* A small network: dense, with experts, with windows, an encoder-decoder, tied or not. */
static lk_model network(struct dice *dice) {
	int heads = PICK(dice, 4, 8, 12), width = PICK(dice, 32, 64, 128);
	lk_model m = {
		.name = "random",
		.family = "llama",
		.layers = PICK(dice, 2, 4, 6, 7, 8, 12),
		.hidden = heads * width,
		.heads = heads,
		.kv_heads = roll(dice, 2) ? heads : heads / 2,
		.head_dim = width,
		.ffn = heads * width * PICK(dice, 2, 4),
		.vocab = PICK(dice, 1000, 32000, 128256),
		.context = 8192,
		.norms_per_layer = 2,
		.final_norm = true,
		.lm_head = true,
		.gated = roll(dice, 2),
		.tied = roll(dice, 2),
		.moe_every = 1,
	};
	if (roll(dice, 4) == 0) {
		m.experts = PICK(dice, 4, 8);
		m.topk = 2;
		m.expert_ffn = heads * width;
	}
	if (m.experts && roll(dice, 2)) m.dense_layers = 1;
	if (roll(dice, 6) == 0) {
		m.window = 512;
		m.full_every = 2;
	}
	if (roll(dice, 8) == 0) m.mtp_layers = 1;
	if (!m.experts && !m.window && !m.mtp_layers && roll(dice, 8) == 0) {
		m.network = LK_NET_ENCDEC;
		m.decoder_layers = m.layers;
	}
	return m;
}

struct problem {
	lk_arena arena;
	lk_asked asked;
	lk_plan_request request;
	lk_space space;
};

static void make_cluster(struct dice *dice, struct problem *problem) {
	static const char *const devices[] = {"h100-sxm", "a100-sxm-40", "v100-sxm-16", "b200"};
	const lk_device *device = lk_device_find(devices[roll(dice, 4)]);
	assert_non_null(device);
	problem->asked.job.gpus = PICK(dice, 1, 2, 4, 6, 8, 12, 16, 24);
	int domain = roll(dice, 3) ? 0 : PICK(dice, 2, 4);
	assert_int_equal(lk_cluster_simple(&problem->arena, device, problem->asked.job.gpus, domain, 0,
	                                   &problem->asked.cluster, NULL),
	                 LK_OK);
	if (roll(dice, 3) == 0 &&
	    problem->asked.cluster.groups == 1) { /* less memory, so that some layouts do not fit */
		lk_device *small = LK_NEW(&problem->arena, lk_device);
		*small = *device;
		small->memory_bytes = LK_GIB * (3 + roll(dice, 8));
		problem->asked.cluster.node[0].device = small;
	}
}

/* `wide`: every kind of schedule and software, one or two values of the rest. */
static bool make_problem(struct dice *dice, bool wide, struct problem *problem) {
	static const char *const stacks[] = {"megatron", "fsdp", "megatron,fsdp", "deepspeed",
	                                     "torchtitan"};
	static const char *const schedules[] = {NULL, "1f1b,interleaved", "gpipe,zb-h1",
	                                        "zb-v,dualpipe,dualpipev,interleaved"};
	static const char *const recompute[] = {NULL, "none,full", "selective,full/1",
	                                        "none,selective,full"};
	memset(problem, 0, sizeof *problem);
	problem->asked.job.model = network(dice);
	make_cluster(dice, problem);
	lk_job *job = &problem->asked.job;
	job->seq = PICK(dice, 512, 2048, 8192);
	job->gbs = PICK(dice, 8, 12, 16, 24, 32, 48);
	job->dtype = roll(dice, 5) ? LK_FP16 : LK_FP32, job->dtype_said = true;
	if (roll(dice, 6) == 0) job->overlap_p2p = roll(dice, 2) ? LK_ON : LK_OFF;
	if (roll(dice, 6) == 0) job->max_connections = 1;
	if (roll(dice, 6) == 0) job->attn_kernel = LK_KERNEL_UNFUSED;
	if (job->model.experts && roll(dice, 2)) job->expert_overlap = LK_ON;
	problem->request.stack = stacks[roll(dice, 5)];
	problem->request.schedule = schedules[roll(dice, 4)];
	problem->request.recompute = recompute[roll(dice, 4)];
	problem->request.mbs = roll(dice, 2) ? "1,2" : "1";
	if (!wide || roll(dice, 2)) problem->request.tp = roll(dice, 2) ? "1,2" : "2,4";
	problem->request.fixed_switches = !wide || roll(dice, 2);
	problem->request.offload = roll(dice, 5) == 0;
	problem->request.no_exact = problem->request.no_sensitivity = true;
	return lk_space_read(&problem->request, &problem->asked, &problem->space, NULL) == LK_OK;
}

static void say(const lk_job *job, const char *what) {
	lk_arena arena = LK_ARENA_INIT;
	print_message("%s: %s, %d GPUs, pp %d, m %d, layers %d+%d, hidden %d, heads %d, seq %d, "
	              "experts %d, tied %d, stack %s, dtype %d, "
	              "overlap_p2p %d, connections %d, kernel %d\n",
	              what, lk_layout_text(&arena, job), job->gpus, job->pp, job->microbatches,
	              job->model.layers, job->model.decoder_layers, job->model.hidden, job->model.heads,
	              job->seq, job->model.experts, job->model.tied, job->stack, (int)job->dtype,
	              job->overlap_p2p, job->max_connections, job->attn_kernel);
	lk_arena_free(&arena);
}

/* A random layout of the space, completed; false if it is refused. */
static bool random_job(struct dice *dice, const struct problem *problem, lk_core *core,
                       lk_job *job) {
	lk_cores_list cores = {0};
	lk_layouts layouts = {0};
	bool ok = lk_space_cores(&problem->space, &cores, NULL) == LK_OK && cores.count > 0;
	if (ok) *core = cores.at[roll(dice, (uint32_t)cores.count)];
	ok = ok && lk_space_job(&problem->space, core, job, NULL) == LK_OK;
	ok = ok && lk_space_switches(&problem->space, core, 0, job, &layouts, NULL) == LK_OK &&
	     layouts.count > 0;
	ok = ok && lk_layout_job(&problem->space, core,
	                         &layouts.at[roll(dice, (uint32_t)layouts.count)], job, NULL) == LK_OK;
	lk_vec_free(&cores);
	lk_vec_free(&layouts);
	return ok;
}

#endif
