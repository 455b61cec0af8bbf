/* post_table.c: tables of steps of reinforcement learning, as NeMo RL publishes them with the
 * recipe of each row: a row becomes the request that predicts it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "io/csv.h"
#include "tables/tables.h"

enum { POST_ROWS = 100000 };
enum {
	ID,
	FRAMEWORK,
	ALGORITHM,
	MODEL,
	GPU,
	GPUS,
	LAG,
	RESPONSE,
	PROMPTS,
	SAMPLES,
	STEP,
	NEEDED, /* the columns above are required */
	RELEASE = NEEDED,
	COLOCATED,
	GEN_GPUS,
	MOST,
	PROMPT,
	IMPLIED_PROMPT,
	UPDATE,
	MBS,
	ROW,
	MAX_SEQ,
	PASSES,
	GEN_TP,
	GEN_PP,
	GEN_EP,
	SHARE,
	RUNNING,
	TP,
	CP,
	EP,
	ETP,
	PP,
	VP,
	PRECISION,
	RECOMPUTE,
	BACKEND,
	OPTIONS,
	SUSPECT,
	COLUMNS
};
static const char *const columns[COLUMNS] = {
	"id",
	"framework",
	"algorithm",
	"model",
	"gpu",
	"n_gpu",
	"async_lag",
	"mean_gen_len",
	"prompts_per_step",
	"gens_per_prompt",
	"step_s",
	"release",
	"colocated",
	"gen_gpus",
	"max_response",
	"mean_prompt_len",
	"implied_prompt_len",
	"t_gbs",
	"t_mbs",
	"train_mb_tokens",
	"max_seq",
	"logprob_passes",
	"gen_tp",
	"gen_pp",
	"gen_ep",
	"gpu_mem_util",
	"max_num_seqs",
	"tp",
	"cp",
	"ep",
	"etp",
	"pp",
	"vpp",
	"train_precision",
	"recompute",

	"train_backend",
	"options",
	"suspect",
};

struct post_reading {
	lk_arena *arena;
	lk_post_runs *out;
};

/* Read the number of a field; `otherwise` if the field holds none. */
static double post_number(const lk_csv *csv, const int *at, int column, double otherwise) {
	const char *text = lk_csv_field(csv, at[column]), *end;
	double number = lk_read_real(text, &end);
	return end > text && *end == '\0' && number >= 0 && number <= 1e9 ? number : otherwise;
}

static int post_whole(const lk_csv *csv, const int *at, int column) {
	return (int)post_number(csv, at, column, 0);
}

/* Read a number of the recipe's further options: "name=3|other". */
static int post_option(const char *options, const char *name) {
	const char *found = strstr(options, name), *end;
	double number = found ? lk_read_real(found + strlen(name), &end) : 0;
	return number >= 1 && number <= 1e6 ? (int)number : 0;
}

static void post_take_training(const lk_csv *csv, const int *at, lk_post_run *run) {
	lk_predict_request *request = &run->request;
	const char *options = lk_csv_field(csv, at[OPTIONS]), *recompute;
	bool sharded = strcmp(lk_csv_field(csv, at[BACKEND]), "dtensor") == 0;
	request->tp = post_whole(csv, at, TP), request->cp = post_whole(csv, at, CP);
	request->ep = post_whole(csv, at, EP);
	if (request->ep > 1) request->etp = post_whole(csv, at, ETP);
	request->pp = post_whole(csv, at, PP);
	request->vp = post_whole(csv, at, VP) > 1 ? post_whole(csv, at, VP) : 0;
	request->mbs = (int)fmax(1, post_number(csv, at, MBS, 1));
	request->gbs = post_whole(csv, at, UPDATE);
	request->seq = (int)post_number(csv, at, ROW, post_number(csv, at, MAX_SEQ, 0));
	request->first_stage_layers = post_option(options, "num_layers_in_first_pipeline_stage=");
	request->last_stage_layers = post_option(options, "num_layers_in_last_pipeline_stage=");
	request->stack = sharded ? "fsdp" : "megatron";
	if (sharded) request->zero = "3";
	recompute = lk_csv_field(csv, at[RECOMPUTE]);
	request->recompute = strncmp(recompute, "full", 4) == 0 ? "full" : NULL;
	if (strncmp(recompute, "none", 4) == 0) request->recompute = "none";
	request->dtype = "bf16";
	if (strncmp(run->precision, "fp8", 3) != 0) return;
	request->dtype = "fp8";
	request->fp8_recipe = "blockwise";
}

/* Set the engines' options, the words of --rollout. */
static lk_status post_take_rollout(lk_arena *arena, const lk_csv *csv, const int *at,
                                   lk_post_run *run, lk_error *err) {
	lk_predict_request *request = &run->request;
	int lag = post_whole(csv, at, LAG), gpus = post_whole(csv, at, GEN_GPUS);
	bool apart = strcmp(lk_csv_field(csv, at[COLOCATED]), "0") == 0;
	double sequences = post_number(csv, at, PROMPTS, 0) * post_number(csv, at, SAMPLES, 0);
	request->samples = (int)fmax(1, post_number(csv, at, SAMPLES, 1));
	request->response = post_number(csv, at, RESPONSE, 0);
	request->response_max = post_number(csv, at, MOST, 0);
	request->prompt = post_number(csv, at, PROMPT, post_number(csv, at, IMPLIED_PROMPT, 0));
	request->gpu_mem_util = post_number(csv, at, SHARE, 0);
	request->max_sequences = post_whole(csv, at, RUNNING);
	request->rollout = lk_arena_printf(
		arena, "sequences=%.0f tp=%.0f pp=%.0f ep=%.0f lag=%d reference=%d", sequences,
		fmax(1, post_number(csv, at, GEN_TP, 1)), fmax(1, post_number(csv, at, GEN_PP, 1)),
		fmax(1, post_number(csv, at, GEN_EP, 1)), apart ? lag : 0,
		post_number(csv, at, PASSES, 2) > 1);
	/* NeMo RL pads packed rows to one length where a pipeline passes them on, and keeps a pinned
	 * copy of the weights of Megatron-LM's buffers, as its files are read
	 * (launch/frameworks/keys_nemo_rl.c) */
	bool nemo = strncmp(run->software, "nemo-rl", 7) == 0,
		 core = strcmp(lk_csv_field(csv, at[BACKEND]), "megatron") == 0;
	if (request->rollout && nemo && post_whole(csv, at, PP) > 1)
		request->rollout = lk_arena_printf(arena, "%s full_rows=1", request->rollout);
	if (request->rollout && nemo && core)
		request->rollout = lk_arena_printf(arena, "%s pinned_params=1", request->rollout);
	if (request->rollout && apart)
		request->rollout = lk_arena_printf(arena, "%s gpus=%d", request->rollout, gpus);
	run->kind = lk_arena_printf(arena, apart ? "lag %d" : "on the same GPUs", lag);
	if (!request->rollout || !run->kind) return lk_oom(err);
	if (!(request->response > 0)) run->why_not = "the length of responses is not stated";
	else if (!(sequences >= 1)) run->why_not = "the number of sequences is not stated";
	else if (!(post_number(csv, at, GEN_TP, 0) >= 1))
		run->why_not = "the layout of the engines is not stated";
	return LK_OK;
}

static lk_status post_read_row(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct post_reading *reading = context;
	lk_arena *arena = reading->arena;
	long long gpus;
	if (!lk_push(reading->out)) return lk_oom(err);
	lk_post_run *run = lk_last(reading->out);
	lk_predict_defaults(&run->request);
	LK_TRY(lk_parse_int(lk_csv_field(csv, at[GPUS]), 1, 1 << 20, &gpus, lk_csv_where(csv), err));
	run->id = lk_arena_strdup(arena, lk_csv_field(csv, at[ID]));
	run->where = lk_arena_strdup(arena, lk_csv_where(csv));
	run->software = lk_arena_printf(arena, "%s %s", lk_csv_field(csv, at[FRAMEWORK]),
	                                lk_csv_field(csv, at[RELEASE]));
	run->model = lk_arena_strdup(arena, lk_csv_field(csv, at[MODEL]));
	run->gpu = lk_arena_strdup(arena, lk_csv_field(csv, at[GPU]));
	run->precision = lk_arena_strdup(arena, lk_csv_field(csv, at[PRECISION]));
	run->request.task = lk_arena_strdup(arena, lk_csv_field(csv, at[ALGORITHM]));
	if (!run->id || !run->where || !run->software || !run->model || !run->gpu || !run->precision ||
	    !run->request.task)
		return lk_oom(err);
	run->request.model = run->model, run->request.gpu = run->gpu;
	run->request.gpus = (int)gpus;
	run->request.no_fixes = true;
	run->seconds = post_number(csv, at, STEP, 0);
	run->suspect = *lk_csv_field(csv, at[SUSPECT]) != '\0';
	post_take_training(csv, at, run);
	LK_TRY(post_take_rollout(arena, csv, at, run, err));
	if (!(run->seconds > 0)) run->why_not = "the time of a step is not stated";
	return LK_OK;
}

lk_status lk_post_read(lk_arena *arena, lk_stream *in, lk_post_runs *out, lk_error *err) {
	const lk_csv_table table = {columns,   COLUMNS,       NEEDED, "table of reinforcement learning",
	                            POST_ROWS, post_read_row, NULL};
	return lk_csv_read(in, &table, &(struct post_reading){arena, out}, err);
}
