/* dotted_flags.c: the frameworks whose settings are paths with dots: NeMo 2.0, Megatron-Bridge and
 * torchtitan, by the rows of data/launch/nemo.csv, bridge.csv and torchtitan.csv, which are read
 * and written. The network is named by a recipe (recipes.c).
 *
 * torchtitan counts tokens, T of a micro-batch of a replica and all of a step, and P micro-batches
 * of a pass through the pipeline; until 2026 it counted sequences, which is still read: micro-batch
 * = T / length;  global batch = tokens of a step / length */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "base/noun.h"
#include "model/layout/job.h"
#include "launch/config/tables.h"
#include "launch/frameworks/frameworks.h"
#include "model/read/read.h"

LK_KEYS(nemo);
LK_KEYS(torchtitan);
LK_KEYS(bridge);

#define NEMO   LK_DIALECT_NEMO
#define TITAN  LK_DIALECT_TORCHTITAN
#define BRIDGE LK_DIALECT_BRIDGE

const lk_key *lk_dotted_rows(int dialect) {
	static const lk_key none[] = {{0}};
	if (dialect == NEMO) return lk_keys_nemo;
	if (dialect == TITAN) return lk_keys_torchtitan;
	return dialect == BRIDGE ? lk_keys_bridge : none;
}

/* The row of a path; NULL: unknown. */
static const lk_key *flags_find(int dialect, const char *path, size_t length) {
	for (const lk_key *row = lk_dotted_rows(dialect); row->path != NULL; row++)
		if (strlen(row->path) == length && strncmp(row->path, path, length) == 0) return row;
	return NULL;
}

/* The row of a section, whose paths begin so; NULL: none. */
static const lk_key *flags_section(int dialect, const char *path) {
	for (const lk_key *row = lk_dotted_rows(dialect); row->path != NULL; row++) {
		size_t length = strlen(row->path) - 1;
		if (row->path[length] == '*' && strncmp(row->path, path, length) == 0) return row;
	}
	return NULL;
}

/* Paths from which fields of the job are derived (lk_dotted). */
static const char *const parts[] = {"trainer.num_nodes",
                                    "trainer.devices",
                                    "training.local_batch_size",
                                    "training.batch_size",
                                    "training.num_tokens_per_microbatch_per_dp_rank",
                                    "training.num_tokens_per_train_step",
                                    "parallelism.num_pp_microbatches",
                                    "parallelism.data_parallel_shard_degree",
                                    "parallelism.data_parallel_replicate_degree",
                                    "parallelism.pipeline_parallel_layers_per_stage",
                                    "parallelism.pipeline_parallel_first_stage_less_layers",
                                    "parallelism.pipeline_parallel_last_stage_less_layers",
                                    "model.name",
                                    "model.flavor",
                                    NULL};

bool lk_dotted_flag(int dialect, const char *path) {
	size_t length = strcspn(path, "=");
	for (int i = 0; parts[i] != NULL; i++)
		if (strlen(parts[i]) == length && strncmp(parts[i], path, length) == 0) return true;
	return flags_find(dialect, path, length) != NULL;
}

bool lk_dotted_states(int dialect, const char *path) {
	const lk_key *row = flags_find(dialect, path, strlen(path));
	return row != NULL ? row->kind == LK_KEY_FACT : lk_dotted_flag(dialect, path);
}

/* Suggest a path that `path` is a slip of; NULL: none. */
static const char *flags_near(int dialect, const char *path) {
	for (const lk_key *row = lk_dotted_rows(dialect); row->path != NULL; row++)
		if (row->kind != LK_KEY_SKIP && lk_is_slip(path, row->path)) return row->path;
	for (int i = 0; parts[i] != NULL; i++)
		if (lk_is_slip(path, parts[i])) return parts[i];
	return NULL;
}

static lk_status flags_set_number(lk_reading *reading, const char *path, const char *value,
                                  int *out) {
	long long number;
	LK_TRY(lk_parse_int(value, 1, LK_JOB_GPUS, &number, path, reading->err));
	*out = (int)number;
	return LK_OK;
}

/* Store the number plus one, so that 0 means the default. */
static lk_status flags_set_less(lk_reading *reading, const char *path, const char *value,
                                int *out) {
	long long number;
	LK_TRY(lk_parse_int(value, 0, 10000, &number, path, reading->err));
	*out = (int)number + 1;
	return LK_OK;
}

/* Tokens; -1 states nothing. */
static lk_status flags_set_tokens(lk_reading *reading, const char *path, const char *value,
                                  int64_t *out) {
	long long number;
	LK_TRY(lk_parse_int(value, -1, INT64_C(1) << 40, &number, path, reading->err));
	*out = number > 0 ? number : 0;
	return LK_OK;
}

static lk_status flags_set_field(lk_reading *reading, lk_dotted *dotted, const lk_key *row,
                                 const char *value) {
	bool known;
	for (const lk_pair *pair = row->values; pair != NULL && pair->theirs != NULL; pair++)
		if (strcmp(pair->theirs, value) == 0) value = pair->ours;
	if (*value == '\0') return LK_OK; /* it states nothing */
	LK_ASSERT(row->kind == LK_KEY_FACT && lk_draft_fact(row->fact) != NULL);
	if (lk_draft_fact(row->fact)->some) {
		long long number;
		LK_TRY(lk_parse_int(value, 1, 1 << 30, &number, row->path, reading->err));
	}
	LK_TRY(lk_field_set(&dotted->job, row->fact, strlen(row->fact), value, &known, reading->err));
	if (strcmp(row->fact, "master_weights") == 0 && dotted->job.master_weights == LK_OFF)
		dotted->job.state_dtype = LK_BF16; /* moments have the weights' format */
	return LK_OK;
}

lk_status lk_dotted_read(lk_reading *reading, lk_dotted *dotted, const char *path,
                         const char *value) {
	char name[96];
	lk_copy(name, sizeof name, path);
	if (strcmp(path, "trainer.num_nodes") == 0)
		return flags_set_number(reading, path, value, &dotted->nodes);
	if (strcmp(path, "trainer.devices") == 0)
		return flags_set_number(reading, path, value, &dotted->devices);
	if (strcmp(path, "training.local_batch_size") == 0 || strcmp(path, "training.batch_size") == 0)
		return flags_set_number(reading, path, value, &dotted->local);
	if (strcmp(path, "parallelism.data_parallel_shard_degree") == 0)
		return strcmp(value, "-1") == 0 ? LK_OK
		                                : flags_set_number(reading, path, value, &dotted->shard);
	if (strcmp(path, "parallelism.data_parallel_replicate_degree") == 0)
		return flags_set_number(reading, path, value, &dotted->replicate);
	if (strcmp(path, "parallelism.num_pp_microbatches") == 0)
		return flags_set_number(reading, path, value, &dotted->passes);
	if (strcmp(path, "parallelism.pipeline_parallel_layers_per_stage") == 0)
		return flags_set_number(reading, path, value, &dotted->stage_layers);
	if (strcmp(path, "parallelism.pipeline_parallel_first_stage_less_layers") == 0)
		return flags_set_less(reading, path, value, &dotted->first_less);
	if (strcmp(path, "parallelism.pipeline_parallel_last_stage_less_layers") == 0)
		return flags_set_less(reading, path, value, &dotted->last_less);
	if (strcmp(path, "training.num_tokens_per_microbatch_per_dp_rank") == 0)
		return flags_set_tokens(reading, path, value, &dotted->tokens);
	if (strcmp(path, "training.num_tokens_per_train_step") == 0)
		return flags_set_tokens(reading, path, value, &dotted->step_tokens);
	if (strcmp(path, "model.name") == 0 || strcmp(path, "model.flavor") == 0) {
		const char *copy = lk_arena_strdup(reading->arena, value);
		if (copy == NULL) return lk_oom(reading->err);
		*(strcmp(path, "model.name") == 0 ? &dotted->name : &dotted->flavor) = copy;
		return LK_OK;
	}
	const lk_key *row = flags_find(dotted->dialect, path, strlen(path));
	if (row == NULL) {
		const char *near = flags_near(dotted->dialect, path);
		const lk_key *section = near == NULL ? flags_section(dotted->dialect, path) : NULL;
		return section != NULL ? lk_launch_skip(reading, name, section->reason)
		                       : lk_launch_unknown(reading, name, near);
	}
	if (row->kind == LK_KEY_SKIP) return lk_launch_skip(reading, name, row->reason);
	if (row->kind == LK_KEY_REFUSE && strcasecmp(value, "true") != 0) return LK_OK;
	if (row->kind == LK_KEY_REFUSE) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where, "%s: %s", name, row->reason);
		return lk_hint(reading->err, "this launch line cannot be predicted as it is");
	}
	if (row->kind == LK_KEY_NOTE)
		return strcasecmp(value, "false") == 0 ? LK_OK : lk_launch_note(reading, name, row->reason);
	return flags_set_field(reading, dotted, row, value);
}

/* "simple_fsdp.llama3" and "llama3_ft" are llama3, trained otherwise; NULL when memory runs out. */
static const char *dotted_family(lk_arena *arena, const char *name) {
	static const char *const ends[] = {"_ft", "_simple_fsdp"};
	const char *dot = strrchr(name, '.'), *family = name;
	if (dot != NULL && isalpha((unsigned char)dot[1])) family = dot + 1;
	size_t length = strlen(family);
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (lk_ends_in(family, ends[i])) length = strlen(family) - strlen(ends[i]);
	return lk_arena_strndup(arena, family, length);
}

/* Join name and flavour: "llama3" and "70B" are "llama3-70B". */
static lk_status dotted_name_network(lk_reading *reading, lk_dotted *dotted) {
	if (dotted->name == NULL && dotted->flavor == NULL) return LK_OK;
	bool found;
	if (dotted->dialect == TITAN && dotted->name != NULL && strcmp(dotted->name, "flux") == 0) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        "model.name: torchtitan's diffusion models are not read");
		return lk_hint(reading->err, "give --model flux.1-dev and --gbs in place of the file");
	}
	const char *flag = "model.flavor", *whole = dotted->flavor, *name = dotted->name;
	if (name != NULL && dotted->dialect == TITAN) {
		name = dotted_family(reading->arena, name);
		if (name == NULL) return lk_oom(reading->err);
	}
	if (whole == NULL) flag = "model.name", whole = name;
	else if (name != NULL) whole = lk_arena_printf(reading->arena, "%s-%s", name, whole);
	if (whole == NULL) return lk_oom(reading->err);
	if (dotted->dialect != TITAN) return lk_launch_network(reading, flag, whole);
	LK_TRY(lk_launch_own_network(reading, lk_networks_titan, flag, whole, &dotted->job, &found));
	return found ? LK_OK : lk_launch_network(reading, flag, whole);
}

/* Formats by their names in recipes for performance: tensor current scaling, blockwise, MX. */
static lk_dtype dotted_format(const char *format) {
	if (strncmp(format, "fp8mx", 5) == 0 || strncmp(format, "fp8_mx", 6) == 0) return LK_MXFP8;
	if (strncmp(format, "fp8", 3) == 0) return LK_FP8;
	return strcmp(format, "nvfp4") == 0 ? LK_NVFP4 : LK_BF16;
}

/* The format that a recipe's name has: gpt_oss_20b_sft_mxfp8_config. */
static lk_dtype dotted_named_format(const char *recipe) {
	if (strstr(recipe, "mxfp8") || strstr(recipe, "fp8mx")) return LK_MXFP8;
	if (strstr(recipe, "nvfp4")) return LK_NVFP4;
	return strstr(recipe, "_fp8") ? LK_FP8 : LK_BF16;
}

/* Fill what the line leaves open from a performance recipe; *found is false if it is unknown. */
static lk_status dotted_finish_perf(lk_reading *reading, lk_dotted *dotted, const char *stem,
                                    int *gpus, bool *found) {
	lk_job *job = &dotted->job;
	const lk_recipe_named *named = &dotted->perf;
	const char *format = *named->format ? named->format : "bf16";
	const lk_recipe_perf *is = lk_recipe_perf_of(stem, named->kind, format);
	LK_TRY(lk_launch_device(reading, named->kind, strlen(named->kind)));
	if (!job->dtype_said) job->dtype = dotted_format(format);
	job->dtype_said = true;
	if (job->dtype == LK_FP8 && job->fp8_recipe == 0)
		job->fp8_recipe = strcmp(format, "fp8sc") == 0 ? LK_FP8_BLOCKWISE : LK_FP8_TENSORWISE;
	if (*gpus == 0) *gpus = named->gpus;
	*found = is != NULL;
	if (is == NULL && job->seq == 0) {
		job->seq = lk_recipe_perf_seq(stem);
		if (job->seq > 0)
			return lk_launch_assume(reading, "%d tokens, as in other recipes of %s", job->seq,
			                        stem);
	}
	if (is == NULL) return LK_OK;
	bool pipeline = job->pp == 0 && job->vp == 0;
	lk_fill_int(&job->tp, is->tp);
	lk_fill_int(&job->pp, is->pp);
	if (pipeline) job->vp = is->vp;
	lk_fill_int(&job->cp, is->cp);
	lk_fill_int(&job->ep, is->ep);
	lk_fill_int(&job->mbs, is->mbs);
	lk_fill_int(&job->gbs, is->gbs);
	lk_fill_int(&job->seq, is->seq);
	if (*gpus == 0) *gpus = is->gpus;
	if (is->sharded && !job->sharding_said) {
		job->sharding = LK_SHARD_ZERO3;
		job->sharding_said = true;
	}
	if (is->recomputed > 0 && !job->recompute_said) {
		job->recompute = LK_RECOMPUTE_FULL;
		job->recompute_layers = is->recomputed;
		job->recompute_said = true;
	}
	return lk_launch_assume(reading,
	                        "what the line leaves open is as in Megatron-Bridge's recipe for "
	                        "performance on %s in %s: global batch %d, %d tokens",
	                        named->kind, format, job->gbs, job->seq);
}

/* Set the default adapter rank if the line requests adapters. */
static lk_status dotted_task(lk_reading *reading, lk_dotted *dotted) {
	lk_job *job = &dotted->job;
	const char *task = dotted->task != NULL ? dotted->task : "";
	bool adapters = strcmp(task, "peft") == 0 || strcmp(task, "lora") == 0 ||
	                (dotted->recipe != NULL && strstr(dotted->recipe, "_peft") != NULL);
	if (!adapters && job->lora_rank == 0) return LK_OK;
	job->task = LK_TASK_LORA;
	if (!*job->lora_targets) lk_copy(job->lora_targets, sizeof job->lora_targets, "experts");
	if (job->lora_rank > 0) return LK_OK;
	job->lora_rank = 32;
	return lk_launch_assume(reading, "adapters of rank 32: the default of LoRA (--lora-rank)");
}

/* Whether the recipe pretrains: layouts of fine-tuning recipes differ and are unknown. */
static bool dotted_pretrains(const lk_dotted *dotted) {
	static const char *const others[] = {"_sft", "_peft", "_finetune"};
	for (size_t i = 0; i < 3; i++)
		if (strstr(dotted->recipe, others[i]) != NULL) return false;
	return dotted->task == NULL || strcmp(dotted->task, "pretrain") == 0;
}

/* GPUs by nodes and devices of a node; 0: the line states neither. */
static int64_t dotted_gpus(const lk_dotted *dotted) {
	if (dotted->nodes == 0 && dotted->devices == 0) return 0;
	int64_t nodes = dotted->nodes > 0 ? dotted->nodes : 1;
	return nodes * (dotted->devices > 0 ? dotted->devices : 1);
}

/* Whether the recipe's degrees divide the number of GPUs on the line. */
static bool dotted_holds(const lk_dotted *dotted, const lk_recipe *recipe, int gpus) {
	const lk_job *job = &dotted->job;
	int64_t stated = dotted_gpus(dotted);
	int64_t tp = job->tp > 0 ? job->tp : recipe->layout.tp;
	int64_t pp = job->pp > 0 ? job->pp : recipe->layout.pp;
	int64_t cp = job->cp > 0 ? job->cp : recipe->layout.cp;
	if (stated == 0) stated = gpus;
	LK_ASSERT(tp > 0 && pp > 0 && cp > 0);
	return stated % (tp * pp * cp) == 0;
}

/* Layers that no number of stages divides: recipes count the embedding and the loss as a layer each
 * (Llama 3.1 405B, Qwen3 235B), or leave the last stage, which has the loss and the layer that
 * predicts further tokens, three layers short (DeepSeek-V3). */
static lk_status dotted_stages_bridge(lk_reading *reading, lk_dotted *dotted) {
	static const int less[][2] = {{1, 1}, {0, 3}, {0, 1}, {1, 3}};
	lk_job *job = &dotted->job;
	lk_model model;
	int64_t stages = (int64_t)job->pp * (job->vp > 1 ? job->vp : 1);
	bool stated = job->account_embedding || job->account_loss || job->first_stage_layers > 0 ||
	              job->last_stage_layers > 0 || *job->pipeline_layout;
	if (job->pp <= 1 || stated || reading->out->network == NULL ||
	    lk_model_preset(reading->out->network, &model, NULL) != LK_OK || stages > model.layers ||
	    model.layers % stages == 0)
		return LK_OK;
	for (size_t i = 0; i < sizeof less / sizeof *less; i++) {
		if ((model.layers + less[i][0] + less[i][1]) % stages != 0) continue;
		if (!lk_launch_split(job, &model, less[i][0], less[i][1])) continue;
		return lk_launch_assume(reading,
		                        "%d layers in %d stages: the first has %d fewer than the others, "
		                        "the last %d, as recipes have them",
		                        model.layers, (int)stages, less[i][0], less[i][1]);
	}
	return LK_OK;
}

/* Recipes for long sequences say so: qwen3_600m_sft_128k_config. */
static lk_status dotted_long(lk_reading *reading, lk_dotted *dotted) {
	lk_job *job = &dotted->job;
	if (strstr(dotted->recipe, "_128k") == NULL || (job->seq > 0 && job->cp > 0)) return LK_OK;
	lk_fill_int(&job->seq, 131072);
	lk_fill_int(&job->cp, 8);
	return lk_launch_assume(reading,
	                        "sequences of %d tokens, over %d ranks of context parallelism, "
	                        "by the recipe's name (--seq, --cp)",
	                        job->seq, job->cp);
}

/* Fill what the line leaves open from a recipe of Megatron-Bridge's library. */
static lk_status dotted_finish_bridge(lk_reading *reading, lk_dotted *dotted, int *gpus) {
	lk_job *job = &dotted->job;
	if (dotted->size != NULL) {
		const char *sized = lk_arena_printf(reading->arena, "%s_%s", dotted->recipe, dotted->size);
		if (sized == NULL) return lk_oom(reading->err);
		dotted->recipe = sized;
	}
	const lk_recipe *recipe = dotted->here ? NULL : lk_recipe_of_stem(dotted->recipe);
	const char *network = lk_recipe_network(reading->arena, dotted->recipe);
	bool found = false;
	lk_recipe_named named;
	if (network == NULL) return lk_oom(reading->err);
	LK_TRY(lk_launch_network(reading, dotted->dialect == NEMO ? "factory" : "recipe", network));
	if (dotted->hub != NULL) LK_TRY(lk_launch_network(reading, "hf_path", dotted->hub));
	LK_TRY(dotted_task(reading, dotted));
	if (dotted->perf.kind[0] == '\0' && lk_recipe_perf_name(dotted->recipe, &named))
		dotted->perf = named;
	if (recipe != NULL && dotted->perf.kind[0] != '\0')
		LK_TRY(dotted_finish_perf(reading, dotted, recipe->stem, gpus, &found));
	if (!job->sharding_said) job->sharding = LK_SHARD_ZERO1;
	job->sharding_said = true;
	if (!job->dtype_said) job->dtype = dotted_named_format(dotted->recipe);
	job->dtype_said = true;
	if (found) return LK_OK;
	LK_TRY(dotted_long(reading, dotted));
	if (strstr(dotted->recipe, "omni") || strstr(dotted->recipe, "audio"))
		LK_TRY(lk_launch_assume(reading,
		                        "the language model alone: encoders of other inputs are left "
		                        "out where --model has none"));
	if (dotted->dialect == BRIDGE && job->ep > 1 && job->etp == 0) {
		job->etp = 1;
		if (job->tp > 1)
			LK_TRY(lk_launch_assume(reading, "experts are not split by tensor parallelism, as in "
			                                 "Megatron-Bridge's recipes (--etp)"));
	}
	job->etp = 1; /* all its recipes */
	bool layout = job->tp > 0 || job->pp > 0 || job->cp > 0 || job->ep > 0;
	if (recipe == NULL || recipe->layout.gpus == 0 || !dotted_pretrains(dotted) ||
	    !dotted_holds(dotted, recipe, *gpus)) {
		lk_fill_int(&job->mbs, 1);
		return layout || dotted->here
		           ? LK_OK
		           : lk_launch_assume(reading,
		                              "the recipe's own layout is not known: what the line "
		                              "leaves open is lockstep's default");
	}
	bool pipeline = job->pp == 0 && job->vp == 0;
	lk_fill_int(&job->tp, recipe->layout.tp);
	lk_fill_int(&job->pp, recipe->layout.pp);
	if (pipeline) job->vp = recipe->layout.vp;
	lk_fill_int(&job->cp, recipe->layout.cp);
	lk_fill_int(&job->ep, recipe->layout.ep);
	lk_fill_int(&job->mbs, 1);
	lk_fill_int(&job->gbs, recipe->layout.gbs);
	lk_fill_int(&job->seq, recipe->layout.seq);
	if (*gpus == 0) *gpus = recipe->layout.gpus;
	return lk_launch_assume(reading,
	                        "what the line leaves open is as in the recipe of %s: global batch %d, "
	                        "%d tokens",
	                        dotted->dialect == BRIDGE ? "Megatron-Bridge's library for H100"
	                                                  : "NeMo 2",
	                        job->gbs, job->seq);
}

/* Fill what the line leaves open from torchtitan's configuration. */
static lk_status dotted_fill_titan(lk_reading *reading, lk_dotted *dotted) {
	lk_job *job = &dotted->job;
	const lk_recipe *recipe = dotted->recipe ? lk_recipe_of_titan(dotted->recipe) : NULL;
	lk_fill_int(&job->etp, 1); /* its default, and since 2026 all that there is */
	if (dotted->recipe == NULL) return LK_OK;
	if (recipe == NULL) return lk_launch_network(reading, "config", dotted->recipe);
	LK_TRY(lk_launch_network(reading, "config", recipe->preset));
	lk_fill_int(&job->seq, recipe->titan.seq);
	lk_fill_int(&job->tp, recipe->titan.tp);
	lk_fill_int(&job->ep, recipe->titan.ep);
	if (dotted->tokens == 0 && dotted->local == 0)
		dotted->tokens = (int64_t)recipe->titan.mbs * recipe->titan.seq;
	if (job->recompute_said) return LK_OK;
	job->recompute = recipe->titan.full ? LK_RECOMPUTE_FULL : LK_RECOMPUTE_SELECTIVE;
	job->recompute_said = true;
	return LK_OK;
}

/* Convert torchtitan's token counts to sequences. */
static lk_status dotted_batch_titan(lk_reading *reading, lk_dotted *dotted) {
	lk_job *job = &dotted->job;
	if (dotted->tokens == 0 && dotted->step_tokens == 0) return LK_OK;
	if (job->seq == 0) job->seq = 2048;
	LK_ASSERT(job->seq > 0);
	bool whole = dotted->tokens % job->seq == 0 && dotted->step_tokens % job->seq == 0;
	if (!whole || dotted->step_tokens / job->seq > INT32_MAX ||
	    dotted->tokens / job->seq > INT32_MAX) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        "training.num_tokens_per_microbatch_per_dp_rank %lld, num_tokens_per_train_step "
		        "%lld: no whole number of sequences of %d tokens",
		        (long long)dotted->tokens, (long long)dotted->step_tokens, job->seq);
		return lk_hint(reading->err, "state multiples of training.max_context_length");
	}
	if (dotted->tokens > 0) job->mbs = (int)(dotted->tokens / job->seq);
	if (dotted->step_tokens > 0) job->gbs = (int)(dotted->step_tokens / job->seq);
	else if (job->gbs == 0) job->microbatches = dotted->passes > 0 ? dotted->passes : 1;
	return LK_OK;
}

/* Derive the stages from layers per stage, else one per rank, two with an interleaved schedule. The
 * embedding and the head count as layers (stages.c). */
static lk_status dotted_stages_titan(lk_reading *reading, lk_dotted *dotted) {
	lk_job *job = &dotted->job;
	lk_model model;
	int first = dotted->first_less > 0 ? dotted->first_less - 1 : 1,
		last = dotted->last_less > 0 ? dotted->last_less - 1 : 1;
	bool several =
		job->schedule_said && (job->schedule == LK_SCHED_INTERLEAVED || lk_job_folds(job));
	if (job->pp <= 1) return LK_OK;
	if (job->model.layers > 0) model = job->model;
	else if (reading->out->network == NULL ||
	         lk_model_preset(reading->out->network, &model, NULL) != LK_OK)
		return LK_OK;
	int stages = job->pp * (several ? 2 : 1), layers = model.layers + first + last;
	if (dotted->stage_layers > 0) stages = (layers - 1) / dotted->stage_layers + 1;
	if (stages % job->pp != 0 || (stages == job->pp) == several) {
		lk_fail(
			reading->err, LK_ERR_INPUT, reading->where,
			"parallelism.pipeline_parallel_layers_per_stage: %d %s and %d for embedding and head "
			"in stages of %d are %d stages, which %d ranks with this schedule cannot hold",
			model.layers, lk_noun(model.layers, "layer", "layers"), first + last,
			dotted->stage_layers, stages, job->pp);
		return lk_hint(reading->err, "torchtitan wants %s",
		               several ? "the same number on each rank, "
		                         "two at least"
		                       : "one on each rank");
	}
	LK_ASSERT(stages >= job->pp && stages % job->pp == 0);
	job->vp = stages / job->pp;
	if (lk_launch_split(job, &model, first, last)) return LK_OK;
	return lk_launch_note(reading, "parallelism.pipeline_parallel_degree",
	                      "stages hold layers as equally as they can");
}

/* torchtitan ignores the schedule unless pipeline_parallel_degree (default 1) is above 1. */
static lk_status dotted_schedule_titan(lk_reading *reading, lk_job *job) {
	if (job->pp > 1 || !job->schedule_said) return LK_OK;
	job->schedule = LK_SCHED_1F1B;
	job->schedule_said = false;
	return lk_launch_note(reading, "parallelism.pipeline_parallel_schedule",
	                      "it acts with two pipeline stages or more");
}

/* HSDP: replicas of sharding groups. A group has all ranks of a replica, including those of context
 * parallelism (torchtitan/distributed/parallel_dims.py, fsdp = dp_shard x cp). Groups of one rank
 * are plain data parallelism. */
static lk_status dotted_replicas(lk_reading *reading, lk_dotted *dotted, const int *gpus) {
	lk_job *job = &dotted->job;
	int64_t replicas = dotted->replicate > 1 ? dotted->replicate : 1;
	if (dotted->shard == 1 && job->cp <= 1 && !job->sharding_said) {
		job->sharding = LK_SHARD_NONE;
		job->sharding_said = true;
	} else if (replicas > 1) job->shard_copies = (int)replicas;
	if (dotted->shard == 0 || *gpus > 0) return LK_OK;
	return lk_launch_count_gpus(reading, job, replicas * dotted->shard, 0, false);
}

/* FSDP2: weights are sharded, gradients are reduced in fp32, and their shards have the format of
 * the weights'; offload moves all shards. */
static lk_status dotted_shards_titan(lk_reading *reading, lk_job *job) {
	if (job->grad_reduce_fp32 == LK_AUTO) job->grad_reduce_fp32 = LK_ON;
	if (job->fp32_grads == LK_AUTO && job->master_weights != LK_OFF)
		job->fp32_grads = job->grad_reduce_fp32;
	if (!job->offload_params) return LK_OK;
	if (!job->sharding_said) job->sharding = LK_SHARD_ZERO3;
	job->sharding_said = true;
	job->offload_params = false;
	return lk_launch_offload_shards(reading, job, "training.enable_cpu_offload");
}

/* local_batch_size (until 2026): the sequences of one forward and backward pass; a pipeline divides
 * them into micro-batches of pipeline_parallel_microbatch_size, default 1. */
static lk_status dotted_local_batch(lk_reading *reading, lk_dotted *dotted) {
	lk_job *job = &dotted->job;
	if (job->pp <= 1) job->mbs = dotted->local;
	else if (job->mbs == 0) job->mbs = 1;
	LK_ASSERT(job->mbs > 0);
	if (job->gbs > 0 || dotted->local % job->mbs != 0) return LK_OK;
	int stated = dotted->local / job->mbs, group = 1;
	if (job->pp > 1 && job->schedule == LK_SCHED_INTERLEAVED) group = job->pp;
	if (job->pp > 1 && job->schedule == LK_SCHED_DUALPIPE_V && stated < 2 * job->pp)
		group = 2 * job->pp;
	job->microbatches = (stated + group - 1) / group * group;
	LK_ASSERT(job->microbatches >= stated && job->microbatches % group == 0);
	if (job->microbatches == stated) return LK_OK;
	return lk_launch_assume(
		reading,
		"%d micro-batches, where training.local_batch_size makes %d: the schedule "
		"is modelled with groups of %d (--gbs)",
		job->microbatches, stated, group);
}

lk_status lk_dotted_finish(lk_reading *reading, lk_dotted *dotted, int *gpus) {
	lk_job *job = &dotted->job;
	LK_TRY(dotted_name_network(reading, dotted));
	if (dotted->dialect != TITAN && dotted->recipe != NULL)
		LK_TRY(dotted_finish_bridge(reading, dotted, gpus));
	if (dotted->dialect == BRIDGE) LK_TRY(dotted_stages_bridge(reading, dotted));
	if (dotted->dialect == TITAN) {
		LK_TRY(dotted_fill_titan(reading, dotted));
		LK_TRY(dotted_batch_titan(reading, dotted));
		LK_TRY(dotted_schedule_titan(reading, job));
		LK_TRY(dotted_stages_titan(reading, dotted));
		if (job->tp_overlap == LK_ON && job->tp <= 1) { /* nothing to overlap */
			job->tp_overlap = LK_OFF;
			LK_TRY(lk_launch_skip(reading, "parallelism.enable_async_tensor_parallel",
			                      "without tensor parallelism there is nothing to overlap"));
		}
	}
	if (dotted->local > 0) LK_TRY(dotted_local_batch(reading, dotted));
	LK_TRY(dotted_replicas(reading, dotted, gpus));
	int64_t all = dotted_gpus(dotted);
	if (all > LK_JOB_GPUS)
		return lk_fail(reading->err, LK_ERR_INPUT, reading->where, "%lld %s", (long long)all,
		               lk_noun(all, "rank", "ranks"));
	if (all > 0) *gpus = (int)all;
	if (dotted->dialect == TITAN) LK_TRY(dotted_shards_titan(reading, job));
	if (job->fused_cross_entropy == LK_OFF) job->loss = LK_LOSS_LOGITS;
	if (job->loss == LK_LOSS_LINEAR) job->fused_cross_entropy = LK_AUTO;
	if (job->stack[0] == '\0')
		lk_copy(job->stack, sizeof job->stack, dotted->dialect == TITAN ? "torchtitan" : "nemo");
	return LK_OK;
}
