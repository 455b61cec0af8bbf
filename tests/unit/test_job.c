/* test_job.c: completing a training job: derived sizes, defaults, splits over pipeline stages,
 * refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "model/layout/job.h"
#include "model/layout/sizes.h"
#include "model/layout/schedule.h"

static lk_model dense(int layers, int hidden, int heads, int kv_heads) {
	return (lk_model){.name = "test",
	                  .layers = layers,
	                  .hidden = hidden,
	                  .heads = heads,
	                  .kv_heads = kv_heads,
	                  .head_dim = hidden / heads,
	                  .ffn = 4 * hidden,
	                  .vocab = 50257,
	                  .context = 4096,
	                  .norms_per_layer = 2,
	                  .final_norm = true,
	                  .lm_head = true};
}

static lk_model mixture(int layers, int experts) {
	lk_model m = dense(layers, 1024, 16, 16);
	m.experts = experts;
	m.topk = 2;
	m.expert_ffn = 1024;
	m.moe_every = 1;
	return m;
}

/* A cluster of equal GPUs with the given formats. */
struct machine {
	lk_device device;
	lk_node node;
	int nodes;
	lk_cluster cluster;
};

static const lk_cluster *cluster_of(struct machine *machine, int gpus, bool bf16, bool fp8) {
	*machine = (struct machine){.device = {.name = "test-gpu"}, .nodes = (gpus + 7) / 8};
	machine->device.peak_flops[LK_FP32] = 1e13;
	machine->device.peak_flops[LK_FP16] = 1e14;
	machine->device.peak_flops[LK_BF16] = bf16 ? 1e14 : 0;
	machine->device.peak_flops[LK_FP8] = fp8 ? 2e14 : 0;
	machine->node = (lk_node){.device = &machine->device, .gpus = 8};
	machine->cluster =
		(lk_cluster){.groups = 1, .node = &machine->node, .nodes = &machine->nodes, .gpus = gpus};
	return &machine->cluster;
}

static void assert_refused(lk_job job, const lk_cluster *cluster, const char *where,
                           const char *part) {
	lk_error err = {0};
	char text[1024];
	lk_job before = job;
	assert_int_equal(lk_job_complete(&job, cluster, &err), LK_ERR_INPUT);
	lk_error_text(&err, text, sizeof text);
	if (strcmp(err.where, where) != 0 || strstr(text, part) == NULL)
		fail_msg("\"%s\" should be at %s and hold \"%s\"", text, where, part);
	assert_memory_equal(&job, &before, sizeof job);
}

static lk_job completed(lk_job job, const lk_cluster *cluster) {
	lk_error err = {0};
	char text[1024];
	if (lk_job_complete(&job, cluster, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, text, sizeof text));
	return job;
}

static void derived(void **state) {
	(void)state;
	struct machine m;
	lk_job job = completed(
		(lk_job){.model = dense(32, 4096, 32, 8), .tp = 4, .pp = 2, .cp = 2, .gbs = 64, .mbs = 2},
		cluster_of(&m, 64, true, false));
	assert_int_equal(job.gpus, 64);
	assert_int_equal(job.dp, 4);
	assert_int_equal(job.microbatches, 8);
	assert_int_equal(job.seq, 4096);
	assert_int_equal(job.etp, 4);
	assert_int_equal(job.padded_vocab, 50688); /* 99 * 512 */
	assert_int_equal(job.dtype, LK_BF16);
	assert_int_equal(job.schedule, LK_SCHED_1F1B);
	assert_int_equal(job.sharding, LK_SHARD_ZERO1);
	assert_int_equal(job.sequence_parallel, LK_ON);
	assert_int_equal(job.overlap_param_gather, LK_ON);
	assert_string_equal(job.stack, "megatron");
	assert_true(job.bucket_bytes == 80e6);
}

static void defaults_by_device(void **state) {
	(void)state;
	struct machine m;
	lk_job open = {.model = dense(8, 1024, 16, 16)};
	assert_int_equal(completed(open, cluster_of(&m, 8, true, true)).dtype, LK_BF16);
	assert_int_equal(completed(open, cluster_of(&m, 8, false, false)).dtype, LK_FP16);
	cluster_of(&m, 8, false, false);
	m.device.peak_flops[LK_FP16] = 0;
	lk_job job = completed(open, &m.cluster);
	assert_int_equal(job.dtype, LK_FP32);
	assert_int_equal(job.master_weights, LK_OFF);
	open.dtype = LK_FP8;
	open.dtype_said = true;
	assert_refused(open, cluster_of(&m, 8, true, false), "--dtype", "nearest: bf16");
	assert_refused(open, cluster_of(&m, 8, false, false), "--dtype", "nearest: fp16");
}

static void refusals(void **state) {
	(void)state;
	lk_model m = dense(32, 96 * 64, 96, 96);
	assert_refused((lk_job){.model = m, .tp = 7, .gpus = 7}, NULL, "--tp",
	               "96 heads are not divisible by 7; nearest: 6, 8");
	assert_refused((lk_job){.model = m, .tp = 8, .gpus = 100}, NULL, "--gpus",
	               "nearest: 96, 104 GPUs");
	assert_refused((lk_job){.model = m, .gpus = 8, .tp = 2, .dp = 3}, NULL, "--dp", "use --dp 4");
	assert_refused((lk_job){.model = m, .gpus = 8, .gbs = 20}, NULL, "--gbs", "nearest: 16, 24");
	assert_refused((lk_job){.model = m, .gpus = 8, .gbs = 64, .mbs = 2, .microbatches = 3}, NULL,
	               "--gbs", "2 * 8 * 3 = 48");
	assert_refused((lk_job){.model = m, .pp = 4, .vp = 3}, NULL, "--vp",
	               "no pp divides them with vp 3; nearest with pp 4: vp 2, 4");
	assert_refused((lk_job){.model = m, .pp = 40}, NULL, "--pp", "at most --pp 32");
	assert_refused((lk_job){.model = m, .vp = 2}, NULL, "--pp", "needs two or more stages");
	assert_refused((lk_job){.model = m, .ep = 2}, NULL, "--ep", "has no experts");
	assert_refused((lk_job){.model = m, .cp = 2, .seq = 1026}, NULL, "--cp",
	               "nearest: seq 1024, 1028");
	assert_refused((lk_job){.model = m, .sequence_parallel = LK_ON}, NULL, "--sequence-parallel",
	               "tp is 1");
	assert_refused((lk_job){.model = m, .tp = 2, .seq = 1023, .sequence_parallel = LK_ON}, NULL,
	               "--sequence-parallel", "nearest: seq 1022, 1024");
	assert_refused((lk_job){.model = m,
	                        .pp = 2,
	                        .stack = "deepspeed",
	                        .sharding = LK_SHARD_ZERO3,
	                        .sharding_said = true},
	               NULL, "--zero", "use --zero 1");
	assert_refused(
		(lk_job){
			.model = m, .pp = 3, .schedule = LK_SCHED_DUALPIPE, .schedule_said = true, .gbs = 12},
		NULL, "--schedule dualpipe", "2, 4");
	assert_refused((lk_job){.model = mixture(8, 8), .ep = 3, .gpus = 3}, NULL, "--ep",
	               "nearest: 2, 4");
	assert_refused((lk_job){.model = mixture(8, 8), .ep = 8, .gpus = 4}, NULL, "--ep",
	               "nearest: ep 4");
	assert_refused((lk_job){.model = m, .tp = -1}, NULL, "--tp",
	               "is out of range; give a whole number from 1 to 65536");
	assert_refused((lk_job){.model = m, .tp = 65536, .pp = 4096, .cp = 65536, .dp = 1 << 22}, NULL,
	               "--tp", "more ranks than");
	assert_refused((lk_job){.model = m, .mbs = 1 << 20, .gpus = 1 << 22}, NULL, "--mbs",
	               "are more than");
	assert_refused((lk_job){.model = m, .recompute_layers = 3}, NULL, "--recompute", "full");
	assert_refused(
		(lk_job){.model = m, .pp = 4, .recompute = LK_RECOMPUTE_FULL, .recompute_layers = 9}, NULL,
		"--recompute", "use at most full/8");
	static const struct {
		int module;
		const char *part;
	} absent[] = {
		{LK_MODULE_MOE, "moe: the network has no experts"},
		{LK_MODULE_MOE_ACT, "moe_act: the network has no experts"},
		{LK_MODULE_SHARED_EXPERTS, "the network has no shared experts"},
		{LK_MODULE_MLA_UP_PROJ, "the network has no multi-latent attention"},
	};
	for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
		lk_job job = {.model = m};
		lk_job_select(&job, absent[i].module);
		assert_refused(job, NULL, "--recompute", absent[i].part);
	}
	lk_job other = {.model = m, .stack = "fsdp"};
	lk_job_select(&other, LK_MODULE_MLP);
	assert_refused(other, NULL, "--recompute", "not those of fsdp");
	assert_refused((lk_job){.model = m, .overlap_param_gather = LK_ON, .sharding_said = true}, NULL,
	               "--overlap-param-gather", "--zero 1");
	assert_refused((lk_job){.model = m, .gpus = 8, .shard_group = 3}, NULL, "--shard-group",
	               "nearest: 2, 4");
	assert_refused((lk_job){.model = m, .gpus = 8, .shard_copies = 3}, NULL, "--gpus",
	               "3 copies of the weights");
}

/* Copies of the weights share the ranks evenly, those of context parallelism too. */
static void copies_share_ranks(void **state) {
	(void)state;
	static const struct {
		int gpus, tp, cp, copies, stated, group;
	} cases[] = {{64, 8, 1, 2, 0, 4},
	             {64, 4, 2, 2, 0, 8},
	             {64, 8, 1, 2, 2, 2},
	             {64, 8, 1, 1, 0, 0},
	             {64, 8, 1, 8, 0, 1}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_job job = {.model = dense(8, 1024, 16, 16),
		              .stack = "fsdp",
		              .gpus = cases[i].gpus,
		              .tp = cases[i].tp,
		              .cp = cases[i].cp,
		              .shard_copies = cases[i].copies,
		              .shard_group = cases[i].stated};
		assert_int_equal(lk_job_complete(&job, NULL, NULL), LK_OK);
		assert_int_equal(job.shard_group, cases[i].group);
		assert_int_equal(job.shard_copies, 0);
		assert_int_equal(job.sharding, cases[i].group == 1 ? LK_SHARD_NONE : LK_SHARD_ZERO3);
	}
}

static void kv_heads_replicate(void **state) {
	(void)state;
	lk_job job = {.model = dense(8, 2048, 32, 4), .tp = 16};
	completed(job, NULL);
	job.model = dense(8, 2304, 36, 12);
	job.tp = 9;
	assert_refused(job, NULL, "--tp", "12 key-value heads are not divisible by 9");
	job.tp = 36; /* each key-value head on three ranks */
	completed(job, NULL);
}

/* The split covers every layer once, in order, for every schedule that accepts the shape. */
static void splits_cover(void **state) {
	(void)state;
	int seen = 0;
	for (int kind = 0; kind < LK_SCHEDULES; kind++)
		for (int layers = 1; layers <= 61; layers += 3)
			for (int pp = 1; pp <= 16; pp++)
				for (int vp = 1; vp <= 3; vp++)
					for (int account = 0; account < 4; account++) {
						lk_job job = {.model = dense(layers, 64, 4, 4),
						              .pp = pp,
						              .vp = vp,
						              .gbs = 64,
						              .schedule = (lk_schedule_kind)kind,
						              .schedule_said = true,
						              .account_embedding = account & 1,
						              .account_loss = account & 2};
						if (lk_job_complete(&job, NULL, NULL) != LK_OK) continue;
						seen++;
						char owner[64] = {0};
						int firsts[64], counts[64];
						lk_schedule_shape shape = {job.pp, job.vp, job.microbatches,
						                           job.microbatch_group, lk_job_pairs(&job)};
						lk_job_split(&job, firsts, counts);
						for (int stage = 0; stage < pp; stage++)
							for (int chunk = 0; chunk < job.vp; chunk++) {
								int first, count = lk_job_chunk_layers(&job, stage, chunk, &first);
								int place = lk_schedule_get(kind)->place(&shape, stage, chunk);
								assert_int_equal(counts[place], count);
								assert_int_equal(firsts[place], first);
								assert_true(count >= 0 && first >= 0 && first + count <= layers);
								for (int i = first; i < first + count; i++) owner[i]++;
							}
						for (int i = 0; i < layers; i++)
							assert_int_equal(owner[i], kind == LK_SCHED_DUALPIPE ? 2 : 1);
					}
	assert_true(seen > 1000);
}

static void assert_split(const lk_job *job, const int *counts, int places) {
	int at = 0, first, firsts[64], split[64];
	lk_job_split(job, firsts, split);
	for (int i = 0; i < places; i++) {
		assert_int_equal(lk_job_chunk_layers(job, i % job->pp, i / job->pp, &first), counts[i]);
		assert_int_equal(first, at);
		assert_int_equal(split[i], counts[i]);
		assert_int_equal(firsts[i], at);
		at += counts[i];
	}
}

static void split_rules(void **state) {
	(void)state;
	lk_job job = completed((lk_job){.model = dense(61, 64, 4, 4), .pp = 8}, NULL);
	assert_split(&job, (int[]){7, 8, 8, 8, 8, 8, 7, 7}, 8);
	job = completed(
		(lk_job){
			.model = dense(62, 64, 4, 4), .pp = 8, .account_embedding = true, .account_loss = true},
		NULL);
	assert_split(&job, (int[]){7, 8, 8, 8, 8, 8, 8, 7}, 8);
	job = completed((lk_job){.model = dense(7, 64, 4, 4), .pp = 4}, NULL);
	assert_split(&job, (int[]){2, 2, 2, 1}, 4);
	job = completed(
		(lk_job){
			.model = dense(30, 64, 4, 4), .pp = 4, .first_stage_layers = 6, .last_stage_layers = 8},
		NULL);
	assert_split(&job, (int[]){6, 8, 8, 8}, 4);
	job = completed(
		(lk_job){.model = dense(28, 64, 4, 4), .pp = 4, .vp = 2, .first_stage_layers = 4, .gbs = 8},
		NULL);
	assert_split(&job, (int[]){2, 4, 4, 4, 2, 4, 4, 4}, 8);
	job = completed((lk_job){.model = dense(61, 64, 4, 4),
	                         .pp = 4,
	                         .schedule = LK_SCHED_DUALPIPE,
	                         .schedule_said = true,
	                         .gbs = 16},
	                NULL);
	assert_split(&job, (int[]){15, 16, 15, 15}, 4);
	int first;
	assert_int_equal(lk_job_chunk_layers(&job, 3, 1, &first), 15);
	assert_int_equal(first, 0);
	job = completed((lk_job){.model = dense(16, 64, 4, 4),
	                         .pp = 4,
	                         .schedule = LK_SCHED_ZB_V,
	                         .schedule_said = true,
	                         .gbs = 16},
	                NULL);
	assert_int_equal(lk_job_chunk_layers(&job, 0, 1, &first), 2);
	assert_int_equal(first, 14);
	job = (lk_job){.model = dense(30, 64, 4, 4), .pp = 4, .first_stage_layers = 28};
	assert_refused(job, NULL, "--first-stage-layers", "leave 2 of 30 for the 3 stages");
	job = (lk_job){
		.model = dense(30, 64, 4, 4), .pp = 4, .last_stage_layers = 6, .account_loss = true};
	assert_refused(job, NULL, "--last-stage-layers", "do not go with");
}

static lk_job with_layout(int layers, int pp, const char *layout) {
	lk_job job = {.model = dense(layers, 64, 4, 4), .pp = pp, .gbs = 96};
	lk_copy(job.pipeline_layout, sizeof job.pipeline_layout, layout);
	return job;
}

static void layouts(void **state) {
	(void)state;
	lk_job job = completed(with_layout(61, 16, "Et*3|(tt|)*29|L"), NULL);
	assert_int_equal(job.vp, 2);
	assert_int_equal(job.schedule, LK_SCHED_INTERLEAVED);
	int counts[32] = {3};
	for (int i = 1; i < 30; i++) counts[i] = 2;
	assert_split(&job, counts, 32);
	job = completed(with_layout(8, 2, "E(tt)*2, |t*4 L"), NULL);
	assert_split(&job, (int[]){4, 4}, 2);
	job = completed(with_layout(12, 3, "E|((t)*2t|)*4 L"), NULL);
	assert_split(&job, (int[]){0, 3, 3, 3, 3, 0}, 6);
	assert_refused(with_layout(8, 2, "E(tt|L"), NULL, "--pipeline-layout", "not closed");
	assert_refused(with_layout(8, 2, "Et*4|xt*4L"), NULL, "--pipeline-layout", "are known");
	assert_refused(with_layout(8, 2, "Et*4|t*3L"), NULL, "--pipeline-layout",
	               "7 layers (t), but the model has 8");
	assert_refused(with_layout(8, 2, "Et*4|t*4"), NULL, "--pipeline-layout", "L once, in the last");
	assert_refused(with_layout(8, 2, "Et*4|t*4|L"), NULL, "--pipeline-layout",
	               "no multiple of pp 2");
	assert_refused(with_layout(8, 2, "(((((t)*999)*999)*999)*999)*999"), NULL, "--pipeline-layout",
	               "65536");
	assert_refused(with_layout(8, 2, "((((((((((((t))))))))))))"), NULL, "--pipeline-layout",
	               "nested");
	assert_refused(with_layout(8, 2, "t*0"), NULL, "--pipeline-layout", "repeats");
	assert_refused(with_layout(8, 2, "Et*4m|t*4L"), NULL, "--pipeline-layout",
	               "prediction modules");
}

/* Appends a random part of a layout string to `text`, and all of its symbols to `all`. */
static void random_layout(char *text, char *all, int depth) {
	for (int items = 1 + rand() % 3; items > 0; items--) {
		char inner[400] = "", expanded[4000] = "", repeat[8] = "";
		int times = rand() % 2 ? 1 + rand() % 4 : 1;
		if (depth < 2 && rand() % 3 == 0) {
			random_layout(inner, expanded, depth + 1);
			snprintf(text + strlen(text), 400 - strlen(text), "(%.300s)", inner);
		} else {
			snprintf(expanded, sizeof expanded, "%c", "ttt|"[rand() % 4]);
			strcat(text, expanded);
		}
		if (times > 1) snprintf(repeat, sizeof repeat, "*%d", times);
		strcat(text, repeat);
		for (int i = 0; i < times && strlen(all) + strlen(expanded) < 3900; i++)
			strcat(all, expanded);
	}
}

/* Repeats that are not walked one by one count as if they were. */
static void layouts_are_as_written_out(void **state) {
	(void)state;
	int done = 0;
	srand(23);
	for (int tries = 0; tries < 3000; tries++) {
		char text[500] = "", all[4100] = "";
		int layers[4200] = {0}, places = 1, total = 0;
		random_layout(text, all, 0);
		for (const char *symbol = all; *symbol; symbol++) {
			if (*symbol == '|') places++;
			else layers[places - 1]++, total++;
		}
		lk_job job = {.pp = places, .vp = 1, .model = dense(total, 64, 4, 4)};
		if (strlen(text) > 120 || strlen(all) > 3000) continue;
		snprintf(job.pipeline_layout, sizeof job.pipeline_layout, "E%.120sL", text);
		int counted;
		assert_int_equal(lk_job_layout_places(&job, &counted, NULL), LK_OK);
		assert_int_equal(counted, places);
		assert_int_equal(lk_job_check_split(&job, NULL), LK_OK);
		for (int place = 0, before = 0, first; place < places; before += layers[place++]) {
			assert_int_equal(lk_job_chunk_layers(&job, place, 0, &first), layers[place]);
			assert_int_equal(first, before);
		}
		done++;
	}
	assert_true(done > 1000);
}

/* Completing again changes nothing, and the numbers fit each other: random jobs, legal ones kept.
 */
static void completing_is_stable(void **state) {
	(void)state;
	static const int sizes[] = {0, 0, 1, 2, 3, 4, 8};
	int legal = 0;
	srand(7);
	for (int i = 0; i < 20000; i++) {
#define PICK sizes[rand() % 7]
		lk_job job = {.model = rand() % 2 ? dense(24, 1024, 16, 4) : mixture(24, 16),
		              .tp = PICK,
		              .pp = PICK,
		              .vp = PICK,
		              .cp = PICK,
		              .ep = PICK,
		              .etp = PICK,
		              .dp = PICK,
		              .mbs = PICK,
		              .gbs = 16 * PICK,
		              .microbatches = PICK,
		              .seq = 512 * PICK,
		              .sharding = (lk_sharding)(rand() % 4),
		              .sharding_said = rand() % 2,
		              .schedule = (lk_schedule_kind)(rand() % LK_SCHEDULES),
		              .schedule_said = rand() % 3 == 0};
#undef PICK
		if (rand() % 2) job.gpus = 1 << rand() % 8;
		lk_error err = {0};
		if (lk_job_complete(&job, NULL, &err) != LK_OK) {
			assert_true(err.where[0] != '\0' && err.what[0] != '\0');
			continue;
		}
		legal++;
		assert_int_equal(job.tp * job.pp * job.cp * job.dp, job.gpus);
		assert_int_equal(job.mbs * job.dp * job.microbatches, job.gbs);
		assert_int_equal(job.tp * job.cp * job.dp % (job.etp * job.ep), 0);
		assert_int_equal(job.padded_vocab % job.tp, 0);
		assert_true(job.padded_vocab >= job.model.vocab);
		lk_job again = job;
		if (lk_job_complete(&again, NULL, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
		assert_memory_equal(&again, &job, sizeof job);
	}
	assert_true(legal > 300);
}

static void batches(void **state) {
	(void)state;
	lk_model m = dense(16, 1024, 16, 16);
	lk_job job = completed((lk_job){.model = m, .gpus = 8, .pp = 4}, NULL);
	assert_int_equal(job.gbs, 2 * 16);
	job = completed((lk_job){.model = m, .gpus = 8, .gbs = 64, .microbatches = 2}, NULL);
	assert_int_equal(job.mbs, 4);
	job = completed((lk_job){.model = m, .gpus = 8, .mbs = 2, .microbatches = 3}, NULL);
	assert_int_equal(job.gbs, 48);
	m.context = 0;
	assert_int_equal(completed((lk_job){.model = m}, NULL).seq, 2048);
	m.context = 131072;
	assert_int_equal(completed((lk_job){.model = m}, NULL).seq, 8192);
	m.position_rows = 1024;
	assert_refused((lk_job){.model = m, .seq = 2048}, NULL, "--seq", "1024 learned positions");
	/* mpt's max_seq_len: the table is as long as what is trained, never shorter than published */
	m.context = 1024, m.position_setting = true;
	assert_int_equal(completed((lk_job){.model = m, .seq = 2048}, NULL).model.position_rows, 2048);
	assert_int_equal(completed((lk_job){.model = m, .seq = 512}, NULL).model.position_rows, 1024);
}

static void vision(void **state) {
	(void)state;
	lk_model m = dense(12, 768, 12, 12);
	m.network = LK_NET_ENCODER;
	m.vocab = 0;
	m.image = 224;
	m.patch = 16;
	m.channels = 3;
	m.lm_head = false;
	lk_job job = completed((lk_job){.model = m, .tp = 2}, NULL);
	assert_int_equal(job.seq, 197);
	assert_int_equal(job.sequence_parallel, LK_OFF); /* 197 tokens do not divide by 2 */
	assert_refused((lk_job){.model = m, .seq = 196}, NULL, "--seq", "197 tokens");
}

/* What buckets of gradients are filled with is all that a layer trains, whatever the stack. */
static void tensors_are_the_layer(void **state) {
	(void)state;
	static const char *const stacks[] = {"megatron", "ddp", "deepspeed"};
	for (int s = 0; s < 3; s++)
		for (int kind = 0; kind < 4; kind++) {
			lk_job job = {.model = kind == 1 ? mixture(4, 8) : dense(4, 1024, 16, 4),
			              .tp = 2,
			              .dp = 4,
			              .ep = kind == 1 ? 4 : 0,
			              .task = kind == 2 ? LK_TASK_LORA : LK_TASK_PRETRAIN};
			job.model.gated = kind == 3;
			lk_copy(job.stack, sizeof job.stack, stacks[s]);
			job = completed(job, NULL);
			lk_rank_params whole = lk_sizes_layer(&job, 1);
			lk_rank_tensors tensors[LK_LAYER_TENSORS];
			double dense_sum = 0, expert_sum = 0;
			int kinds = lk_sizes_tensors(&job, 1, whole, tensors), count = 0;
			for (int i = 0; i < kinds; i++) {
				dense_sum += tensors[i].count * tensors[i].dense;
				expert_sum += tensors[i].count * tensors[i].experts;
				count += tensors[i].count;
			}
			assert_true(fabs(dense_sum - whole.trained_dense) < 1e-6 * whole.trained_dense);
			assert_true(fabs(expert_sum - whole.trained_experts) <= 1e-6 * whole.trained_experts);
			if (kind == 0) assert_int_equal(count, 4);
			if (kind == 1) assert_int_equal(count, 2 + 2 * 2); /* 2 experts a rank */
			if (kind == 3) assert_int_equal(count, s == 1 ? 7 : 4);
		}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(derived),
		cmocka_unit_test(defaults_by_device),
		cmocka_unit_test(refusals),
		cmocka_unit_test(copies_share_ranks),
		cmocka_unit_test(kv_heads_replicate),
		cmocka_unit_test(splits_cover),
		cmocka_unit_test(split_rules),
		cmocka_unit_test(layouts),
		cmocka_unit_test(layouts_are_as_written_out),
		cmocka_unit_test(completing_is_stable),
		cmocka_unit_test(batches),
		cmocka_unit_test(vision),
		cmocka_unit_test(tensors_are_the_layer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
