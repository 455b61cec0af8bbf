/* emit_program.c: the end of a job's step as a program of lockstep compile: gradients summed over
 * the data-parallel ranks, clipped by their norm, the optimizer's update, weights gathered. A
 * schedule of it is as fused as the prediction takes the optimizer to be.
 *
 * An axis dp has the ranks that hold copies, an axis model those of one model (TP x PP), each with
 * parameters of its own: rows of a tensor that is sliced over the axis. Where ZeRO shards
 * gradients, they come in as slices, reduced in the passes before. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/emit/emit.h"
#include "model/layout/sizes.h"

/* What an optimizer does with `d`, the gradient in fp32. States are read as m and v and written as
 * statements. */
struct update_rule {
	lk_optimizer optimizer;
	const char *scalars;
	const char *moments[2]; /* new values of m and v; NULL: it has none */
	const char *before;     /* a statement before them, or NULL */
	const char *weights;    /* what is subtracted from w, over lr */
};

static const struct update_rule update_rules[] = {
	{LK_OPT_ADAM,
     "lr, b1, b2, eps, wd, t",
     {"b1*%s + (1 - b1)*d", "b2*%s + (1 - b2)*d^2"},
     NULL,
     "(m_/(1 - b1^t))/(sqrt(v_/(1 - b2^t)) + eps) + wd*w_"},
	{LK_OPT_SGD, "lr, b1, wd", {"b1*%s + d", NULL}, NULL, "m_ + wd*w_"},
	{LK_OPT_LION,
     "lr, b1, b2, wd",
     {"b2*%s + (1 - b2)*d", NULL},
     "u = b1*m_ + (1 - b1)*d",
     "select(u > 0, 1, select(u < 0, -1, 0)) + wd*w_"},
};

struct update_text {
	const lk_job *job;
	const struct update_rule *rule;
	lk_page page;
	int copies, model;                      /* ranks: data-parallel, of one model */
	double parameters;                      /* of the rank that has most */
	const char *weight, *moment, *gradient; /* formats */
	bool clips;
};

static const char *update_format(lk_dtype dtype) {
	if (dtype == LK_FP16) return "f16";
	return dtype == LK_BF16 ? "bf16" : "f32";
}

/* ---- what has no such program ---- */

static const struct update_rule *update_find(const lk_job *job) {
	for (size_t i = 0; i < sizeof update_rules / sizeof *update_rules; i++)
		if (update_rules[i].optimizer == job->optimizer) return &update_rules[i];
	return NULL;
}

static const char *update_lacks(const lk_job *job) {
	bool sixteen = lk_job_sixteen_bit(job);
	if (job->forward_only)
		return "the job does not train; leave out what keeps weights as they are";
	if (!update_find(job))
		return "of its optimizer more than one pass over states is known; give --optimizer adam, "
			   "sgd or lion";
	if (job->offload_optimizer)
		return "its optimizer runs on the host; leave out --offload-optimizer";
	if (job->model.experts > 0 && lk_sizes_edp_ranks(job) != lk_sizes_dp_ranks(job))
		return "gradients of experts are reduced over other ranks than the rest; give --ep 1";
	if (job->shard_group > 0 && job->shard_group < lk_sizes_dp_ranks(job))
		return "hybrid sharding divides the ranks that hold gradients; leave out --shard-group";
	if (lk_sizes_dp_ranks(job) < 2) return "one rank holds each parameter; give more GPUs";
	if (sixteen && job->master_weights == LK_OFF)
		return "weights without a master copy in fp32 have no program; leave out "
			   "--no-master-weights";
	if (job->state_dtype != LK_FP32 && job->state_dtype != LK_BF16)
		return "moments of such a format have no program; give --state-dtype fp32 or bf16";
	return NULL;
}

/* ---- text ---- */

static bool update_shards(const struct update_text *text) {
	return text->job->sharding != LK_SHARD_NONE;
}

/* "f32[size(model),N] @ S(0,model) S(1,dp)". */
static const char *update_type(const struct update_text *text, const char *format, const char *dp) {
	lk_page page = {text->page.arena, ""};
	bool rows = text->model > 1;
	lk_page_add(&page, "%s[%sN]", format, rows ? "size(model)," : "");
	if (rows || *dp) lk_page_add(&page, " @");
	if (*dp) lk_page_add(&page, " %s", dp);
	if (rows) lk_page_add(&page, " S(0,model)");
	return page.text;
}

static int update_dim(const struct update_text *text) {
	return text->model > 1;
}

static const char *update_sliced(const struct update_text *text) {
	return update_dim(text) ? "S(1,dp)" : "S(0,dp)";
}

static void update_declare(struct update_text *text) {
	bool slices = text->job->sharding >= LK_SHARD_ZERO2;
	const char *dp = update_shards(text) ? update_sliced(text) : "";
	lk_page_add(&text->page, "\tdim N\n\tscalar f32 %s%s\n", text->rule->scalars,
	            text->clips ? ", clip" : "");
	lk_page_add(&text->page, "\tin g : %s\n",
	            update_type(text, text->gradient, slices ? dp : "P(sum,dp)"));
	lk_page_add(&text->page, "\tstate w : %s", update_type(text, "f32", dp));
	for (int i = 0; i < 2 && text->rule->moments[i]; i++)
		lk_page_add(&text->page, ", %c : %s", "mv"[i], update_type(text, text->moment, dp));
	lk_page_add(&text->page, "\n");
}

/* The sum over ranks, and the factor that averages it and holds its norm. */
static void update_reduce(struct update_text *text) {
	const char *sum = "g";
	if (text->job->sharding == LK_SHARD_NONE) {
		lk_page_add(&text->page, "\ta = allreduce(g, sum, dp)\n");
		sum = "a";
	} else if (text->job->sharding == LK_SHARD_ZERO1) {
		lk_page_add(&text->page, "\ta = reducescatter(g, sum, dp, dim=%d)\n", update_dim(text));
		sum = "a";
	}
	bool narrow = strcmp(text->gradient, "f32") != 0;
	const char *wide = narrow ? "cast(f32, " : "", *end = narrow ? ")" : "";
	if (text->clips) {
		bool rows = text->model > 1, slices = update_shards(text);
		lk_page_add(&text->page, "\tq = %s%ssum(%s%s%s^2)%s%s\n", rows ? "allreduce(" : "",
		            slices ? "allreduce(" : "", wide, sum, end, slices ? ", sum, dp)" : "",
		            rows ? ", sum, model)" : "");
		lk_page_add(&text->page, "\ts = minimum(1, clip/(sqrt(q)/size(dp) + 0.000001))/size(dp)\n");
		lk_page_add(&text->page, "\td = s*%s%s%s\n", wide, sum, end);
	} else lk_page_add(&text->page, "\td = %s%s%s/size(dp)\n", wide, sum, end);
}

/* An expression of the table, with states widened where they are kept in 16 bits. */
static void update_expression(struct update_text *text, const char *of) {
	bool narrow = strcmp(text->moment, "f32") != 0;
	for (; *of; of++) {
		if (of[1] != '_') {
			lk_page_add(&text->page, "%c", *of);
			continue;
		}
		bool moment = *of == 'm' || *of == 'v';
		lk_page_add(&text->page, narrow && moment ? "cast(f32, %c)" : "%c", *of);
		of++;
	}
}

static void update_states(struct update_text *text) {
	bool narrow = strcmp(text->moment, "f32") != 0;
	if (text->rule->before) {
		lk_page_add(&text->page, "\t");
		update_expression(text, text->rule->before);
		lk_page_add(&text->page, "\n");
	}
	for (int i = 0; i < 2 && text->rule->moments[i]; i++) {
		char state = "mv"[i], old[24];
		snprintf(old, sizeof old, narrow ? "cast(f32, %c)" : "%c", state);
		lk_page_add(&text->page, "\t%c <- ", state);
		if (narrow) lk_page_add(&text->page, "cast(%s, ", text->moment);
		const char *at = strstr(text->rule->moments[i], "%s");
		lk_page_add(&text->page, "%.*s%s%s%s\n", (int)(at - text->rule->moments[i]),
		            text->rule->moments[i], old, at + 2, narrow ? ")" : "");
	}
	lk_page_add(&text->page, "\tw <- w - lr*(");
	update_expression(text, text->rule->weights);
	lk_page_add(&text->page, ")\n");
}

/* What the next step's passes read. ZeRO 2 and 3 gather it there. */
static void update_hand_out(struct update_text *text) {
	bool narrow = strcmp(text->weight, "f32") != 0;
	const char *out = narrow ? "h" : "w";
	if (narrow) lk_page_add(&text->page, "\th = cast(%s, w)\n", text->weight);
	if (text->job->sharding == LK_SHARD_ZERO1) {
		lk_page_add(&text->page, "\twhole = allgather(%s, %d, dp)\n", out, update_dim(text));
		out = "whole";
	}
	lk_page_add(&text->page, "\tout %s\n}\n", out);
	lk_page_add(&text->page, "schedule as_predicted { fuse U = {d, %s%s%sw%s} }\n",
	            text->rule->before ? "u, " : "", text->rule->moments[0] ? "m, " : "",
	            text->rule->moments[1] ? "v, " : "", narrow ? ", h" : "");
}

static void update_head(struct update_text *text, const lk_cluster *cluster) {
	lk_page *page = &text->page;
	const lk_job *job = text->job;
	lk_page_add(page, "# The end of a step of %s: ", job->model.name);
	if (text->model > 1)
		lk_page_add(page, "%d ranks of the model with copies on %d each", text->model,
		            text->copies);
	else lk_page_add(page, "%d copies of the model", text->copies);
	lk_page_add(page, ", ZeRO %d, %s.\n# --sizes dp=%d,", (int)job->sharding,
	            lk_optimizer_of(job)->name, text->copies);
	if (text->model > 1) lk_page_add(page, "model=%d,", text->model);
	lk_page_add(page, "N=%.0f", ceil(text->parameters));
	if (cluster) lk_page_add(page, " --cluster '%s'", cluster->text);
	lk_page_add(page, "\nprogram update(mesh dp%s) {\n", text->model > 1 ? ", model" : "");
}

static void update_measure(struct update_text *text) {
	const lk_job *job = text->job;
	bool sixteen = lk_job_sixteen_bit(job);
	double gradient =
		job->sharding >= LK_SHARD_ZERO2 ? lk_sizes_gradient_bytes(job) : lk_sizes_wire_bytes(job);
	text->copies = lk_sizes_dp_ranks(job);
	text->model = job->gpus / text->copies;
	for (int stage = 0; stage < job->pp; stage++) {
		lk_rank_params p = lk_sizes_stage(job, stage);
		text->parameters = fmax(text->parameters, p.trained_dense + p.trained_experts);
	}
	text->weight = sixteen ? update_format(job->dtype == LK_FP16 ? LK_FP16 : LK_BF16) : "f32";
	text->gradient = gradient < 4 ? text->weight : "f32";
	text->moment = update_format(job->state_dtype);
	text->clips = job->model.network != LK_NET_CONV;
}

lk_status lk_emit_program(lk_arena *arena, const lk_job *job, const lk_cluster *cluster,
                          lk_emitted *out, lk_error *err) {
	const char *lacks = update_lacks(job);
	if (lacks) {
		const char *what = strchr(lacks, ';');
		lk_fail(err, LK_ERR_INPUT, "--emit", "the end of this job's step is no program: %.*s",
		        (int)(what - lacks), lacks);
		return lk_hint(err, "%s", what + 2);
	}
	struct update_text text = {.job = job, .rule = update_find(job), .page = {arena, ""}};
	update_measure(&text);
	update_head(&text, cluster);
	update_declare(&text);
	update_reduce(&text);
	update_states(&text);
	update_hand_out(&text);
	out->text = text.page.text;
	return out->text ? LK_OK : lk_oom(err);
}
