/* expect_causes.c: the causes for which a run is slower, faster, larger or smaller than its
 * prediction, rows of data/causes/causes.csv, applied to a request. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "predict/predict_internal.h"

/* ---- options, with numbers of the job ---- */

/* All other stages give a layer to the last one; 0 where they cannot. */
static double last_layers(const lk_job *job) {
	int stages = job->pp, layers = lk_job_layers(job);
	if (stages < 2 || job->vp > 1 || layers % stages || layers / stages < 2) return 0;
	return layers / stages + stages - 1;
}

/* A number of the job or of the run; 0: there is none. */
static double cause_number(const lk_caused *caused, const char *name, size_t length) {
	const lk_job *job = caused->job;
	double seq = lk_job_tokens(job) > 0 ? job->seq : 0;
	const struct {
		const char *name;
		double value;
	} numbers[] = {
		{"gpus", job->gpus},
		{"tp", job->tp},
		{"mbs", job->mbs},
		{"gbs", job->gbs},
		{"seq", seq},
		{"unpacked", caused->request.pack || seq < 256 ? 0 : seq},
		{"last_layers", last_layers(job)},
		{"stated_gpus", (double)caused->measured->gpus},
		{"stated_gbs", (double)caused->measured->global_batch},
		{"stated_seq", (double)caused->measured->seq_len},
	};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (strlen(numbers[i].name) == length && memcmp(numbers[i].name, name, length) == 0)
			return numbers[i].value;
	LK_ASSERT(false);
	return 0;
}

/* Write the options of a cause with numbers in the place of {name}, {name/2}, {name*2}; false: a
 * number is missing, not whole, or too large. */
static bool cause_options(const lk_caused *caused, const char *form, char *out, size_t size) {
	lk_text text = lk_text_begin(out, size);
	for (const char *at = form; *at;) {
		size_t plain = strcspn(at, "{");
		lk_text_add(&text, "%.*s", (int)plain, at);
		at += plain;
		if (!*at) break;
		size_t length = strcspn(++at, "/*}");
		double number = cause_number(caused, at, length);
		at += length;
		if (*at != '}') {
			double by = strtod(at + 1, NULL);
			number = *at == '/' ? number / by : number * by;
			at += strcspn(at, "}");
		}
		if (number < 1 || number > INT_MAX || number != (int)number) return false;
		lk_text_add(&text, "%d", (int)number);
		at++;
	}
	return true;
}

/* ---- members of the job ---- */

static void edit_no_compile(lk_job *job) {
	job->compile = false;
}

static void edit_no_offload(lk_job *job) {
	job->offload_optimizer = job->offload_params = job->offload_activations = false;
}

static void edit_fp32_reduce(lk_job *job) {
	job->grad_reduce_fp32 = LK_ON;
}

static void edit_deterministic(lk_job *job) {
	job->deterministic = true;
}

static void edit_no_nvls(lk_job *job) {
	static const char text[] = " NCCL_NVLS_ENABLE=0";
	size_t length = strlen(job->nccl);
	if (length + sizeof text > sizeof job->nccl) return;
	memcpy(job->nccl + length, text + (length == 0), sizeof text - (length == 0));
}

/* Of a row whose change is LK_CAUSE_JOB. */
static void cause_edit(const lk_cause *cause, lk_job *job) {
	static const struct {
		const char *name;
		void (*edit)(lk_job *job);
	} edits[] = {
		{"no_compile", edit_no_compile},       {"no_offload", edit_no_offload},
		{"fp32_reduce", edit_fp32_reduce},     {"no_nvls", edit_no_nvls},
		{"deterministic", edit_deterministic},
	};
	for (size_t i = 0; i < sizeof edits / sizeof *edits; i++)
		if (strcmp(edits[i].name, cause->argument) == 0) {
			edits[i].edit(job);
			return;
		}
	LK_ASSERT(false);
}

/* ---- the cluster ---- */

/* The order of lk_link_fault. */
static const char *const faults[] = {"sockets", "no_links", "no_peer", "half_nodes", "shared_tree"};

static lk_link_fault cause_fault(const lk_cause *cause) {
	int fault = 0;
	while (strcmp(faults[fault], cause->argument) != 0) {
		fault++;
		LK_ASSERT(fault < (int)(sizeof faults / sizeof *faults));
	}
	return (lk_link_fault)fault;
}

/* Change the cluster as a row says; *applies is false where it cannot. */
static lk_status cause_rewire(lk_caused *caused, const lk_cause *cause, bool *applies,
                              lk_error *err) {
	lk_arena *arena = caused->arena;
	lk_cluster *to = &caused->cluster;
	const lk_cluster *from = to;
	const lk_node *node = &from->node[0];
	bool network = from->gpus > node->gpus, pcie = node->intra == LK_INTRA_PCIE;
	double watts = caused->measured->power_limit_w;
	char one[32];
	switch (cause->change) {
	case LK_CAUSE_FAULT:
		return lk_cluster_with_fault(arena, from, cause_fault(cause), to, applies, err);
	case LK_CAUSE_NICS:
		*applies = network;
		return *applies ? lk_cluster_with_nics(arena, from, cause->argument, to, err) : LK_OK;
	case LK_CAUSE_ONE_NIC:
		*applies = network && node->nics > 1;
		snprintf(one, sizeof one, "1*%gg", node->nic_rate * 8 / 1e9);
		return *applies ? lk_cluster_with_nics(arena, from, one, to, err) : LK_OK;
	case LK_CAUSE_LINKS:
	case LK_CAUSE_PCIE:
		*applies = node->gpus > 1 && pcie == (cause->change == LK_CAUSE_PCIE);
		return *applies ? lk_cluster_with_links(arena, from, cause->argument, to, err) : LK_OK;
	case LK_CAUSE_POWER: watts = strtod(cause->argument, NULL) * node->device->power_w; break;
	default: LK_ASSERT(cause->change == LK_CAUSE_STATED_POWER);
	}
	*applies = watts > 0;
	return *applies ? lk_cluster_with_power(arena, from, watts, to, err) : LK_OK;
}

bool lk_cause_rewires(const lk_cause *cause) {
	return cause->change >= LK_CAUSE_FAULT && cause->change <= LK_CAUSE_STATED_POWER;
}

bool lk_cause_counts(const lk_cause *cause) {
	return cause->change == LK_CAUSE_COUNT || cause->change == LK_CAUSE_PEAK;
}

/* ---- other ways to count ---- */

/* PaLM's formula and many others count all pairs of positions: the half of them under the causal
 * mask, which grows with the square of the length, counts twice. */
static double count_all_pairs(const lk_job *job) {
	double ours = lk_model_flops(&job->model, job->seq);
	bool causal = job->model.network == LK_NET_DECODER && job->seq < 1 << 24;
	if (!causal || !(ours > 0)) return 1;
	return 1 + (lk_model_flops(&job->model, 2 * job->seq) - 2 * ours) / 2 / ours;
}

/* 6 per parameter and token, without attention. */
static double count_parameters(const lk_job *job) {
	double ours = lk_model_flops(&job->model, job->seq);
	if (lk_job_tokens(job) == 0 || job->model.experts > 0 || !(ours > 0)) return 1;
	return 6 * lk_model_params(&job->model) * job->seq / ours;
}

static void cause_count(lk_caused *caused, const lk_cause *cause) {
	lk_counting *counting = &caused->counting;
	if (cause->change == LK_CAUSE_PEAK) counting->peak /= strtod(cause->argument, NULL);
	else if (strcmp(cause->argument, "all_pairs") == 0)
		counting->flops *= count_all_pairs(caused->job);
	else if (strcmp(cause->argument, "per_gpu") == 0) counting->speed /= caused->job->gpus;
	else counting->flops *= count_parameters(caused->job);
}

/* ---- applying one ---- */

static lk_status caused_show(lk_caused *caused, const char *more, lk_error *err) {
	const char *before = caused->option ? caused->option : "";
	if (!more) return lk_oom(err);
	caused->option = lk_arena_printf(caused->arena, "%s%s%s", before, *before ? " " : "", more);
	return caused->option ? LK_OK : lk_oom(err);
}

/* Set options as typed, separated by blanks. */
static lk_status caused_set(lk_caused *caused, const char *options, lk_error *err) {
	enum { WORDS = 8 };
	const char *words[WORDS];
	int count = 0;
	char *copy = lk_arena_strdup(caused->arena, options), *word;
	if (!copy) return lk_oom(err);
	while ((word = strsep(&copy, " ")) && count < WORDS) words[count++] = word;
	LK_ASSERT(!word);
	lk_args *args = &caused->args[caused->count];
	LK_TRY(lk_args_parse(&lk_predict_verb, count, words, args, err));
	LK_TRY(lk_args_fill(args, 0, &caused->request, err));
	return caused_show(caused, options, err);
}

lk_status lk_cause_apply(lk_caused *caused, const lk_cause *cause, bool *applies, lk_error *err) {
	char options[128];
	LK_ASSERT(caused->count < LK_CAUSES_AT_ONCE);
	*applies = true;
	if (cause->change == LK_CAUSE_OPTIONS) {
		*applies = cause_options(caused, cause->argument, options, sizeof options);
		if (*applies) LK_TRY(caused_set(caused, options, err));
	}
	if (cause->shown) LK_TRY(caused_show(caused, cause->shown, err));
	if (lk_cause_rewires(cause)) {
		LK_TRY(cause_rewire(caused, cause, applies, err));
		caused->cluster_changed |= *applies;
	}
	if (!*applies) return LK_OK;
	if (lk_cause_counts(cause)) cause_count(caused, cause);
	caused->causes[caused->count++] = cause;
	return LK_OK;
}

/* The number of GPUs is stated by itself: replicas follow from it. */
lk_status lk_caused_begin(lk_arena *arena, const lk_predict_request *request, const lk_asked *asked,
                          const lk_measured *measured, lk_caused *out, lk_error *err) {
	*out = (lk_caused){.arena = arena,
	                   .job = &asked->job,
	                   .measured = measured,
	                   .request = *request,
	                   .cluster = asked->cluster,
	                   .counting = {1, 1, 1}};
	bool mixed;
	out->peak = lk_predict_peak(out->job, &out->cluster, &mixed);
	LK_TRY(lk_where_count(&out->request.gpu, &out->request.gpus, err));
	if (out->request.gpus > 0 || out->request.cluster) out->request.dp = 0;
	return LK_OK;
}

lk_status lk_caused_read(lk_caused *caused, lk_asked *out, lk_error *err) {
	LK_TRY(lk_request_take(caused->arena, &caused->request, out, err));
	if (caused->cluster_changed) {
		out->cluster = caused->cluster;
		if (!caused->request.cluster || !lk_cluster_text_is_file(caused->request.cluster))
			LK_TRY(caused_show(
				caused, lk_arena_printf(caused->arena, "--cluster '%s'", out->cluster.text), err));
	}
	for (int i = 0; i < caused->count; i++)
		if (caused->causes[i]->change == LK_CAUSE_JOB) cause_edit(caused->causes[i], &out->job);
	return lk_request_complete(caused->arena, &caused->request, out, err);
}

bool lk_caused_is_same(const lk_caused *caused, const lk_job *job) {
	const lk_counting *counting = &caused->counting;
	for (int i = 0; i < caused->count; i++)
		if (strcmp(caused->causes[i]->family, "device") == 0) return false;
	return !caused->cluster_changed && !caused->request.straggler && counting->flops == 1 &&
	       counting->peak == 1 && counting->speed == 1 &&
	       memcmp(job, caused->job, sizeof *job) == 0;
}

void lk_caused_free(lk_caused *caused) {
	for (int i = 0; i < LK_CAUSES_AT_ONCE; i++) lk_args_free(&caused->args[i]);
}
