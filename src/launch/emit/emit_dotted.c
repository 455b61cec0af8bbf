/* emit_dotted.c: writes the settings of NeMo 2.0, Megatron-Bridge and torchtitan, by the rows that
 * dotted_flags.c reads. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "launch/config/tables.h"
#include "launch/emit/emit.h"

#define NEMO   LK_DIALECT_NEMO
#define TITAN  LK_DIALECT_TORCHTITAN
#define BRIDGE LK_DIALECT_BRIDGE

/* The framework's word for the value; NULL: none, or out of memory. */
static const char *theirs(lk_arena *arena, const lk_key *row, const lk_field *field,
                          const lk_job *job) {
	const char *value = lk_field_text(arena, field, job);
	if (value == NULL || row->values == NULL) return value;
	for (const lk_pair *pair = row->values; pair->theirs != NULL; pair++)
		if (strcmp(pair->ours, value) == 0) return pair->theirs;
	return field->kind == LK_FIELD_INT ? value : NULL;
}

static const char *dotted_spell(lk_arena *arena, int dialect, const char *path, const char *value) {
	return lk_arena_printf(arena, dialect == TITAN ? "--%s=%s" : "%s=%s", path, value);
}

static bool dotted_put_row(lk_emission *emission, int dialect, const lk_key *row) {
	static const lk_job open;
	lk_arena *arena = emission->arena;
	if (row->direction == LK_READ) return true;
	const lk_field *field = lk_draft_fact(row->fact);
	LK_ASSERT(field != NULL &&
	          field->offset < sizeof(lk_job)); /* a draft's facts are not written */
	if (field->kind == LK_FIELD_INT && lk_field_equal(field, emission->job, &open)) return true;
	const char *value = theirs(arena, row, field, emission->job);
	if (row->rule) value = row->rule(emission, value);
	return value == NULL ||
	       lk_put_word(&emission->program, dotted_spell(arena, dialect, row->path, value));
}

/* Llama 3.1 uses torchtitan's Llama 3 configurations, which differ only in the longest context. */
static const lk_recipe *titan_recipe(const char *preset) {
	const lk_recipe *recipe = lk_recipe_of_preset(preset);
	bool titan = recipe != NULL && recipe->titan.config != NULL;
	if (recipe != NULL && !titan && strncmp(recipe->stem, "llama31_", 8) == 0)
		return lk_recipe_of_stem(strcmp(recipe->stem, "llama31_8b") == 0 ? "llama3_8b"
		                                                                 : "llama3_70b");
	return titan ? recipe : NULL;
}

const char *lk_dotted_unknown(int dialect, const lk_job *job) {
	if (dialect == TITAN)
		return titan_recipe(job->model.name) != NULL ? NULL : "torchtitan has no configuration";
	return lk_recipe_of_preset(job->model.name) != NULL ? NULL : "no recipe is known";
}

static bool dotted_put_program(const lk_emission *emission, int dialect, const char *network,
                               lk_words *words) {
	static const char *const tasks[] = {"pretrain", "sft", "peft"};
	LK_ASSERT(emission->job->task < sizeof tasks / sizeof *tasks);
	lk_arena *arena = emission->arena;
	const lk_recipe *known = lk_recipe_of_preset(emission->job->model.name);
	if (known != NULL) network = known->stem;
	if (dialect == NEMO)
		return lk_put_word(words, "nemo") && lk_put_word(words, "llm") &&
		       lk_put_word(words, "pretrain") && lk_put_word(words, "--factory") &&
		       lk_put_word(words, network) &&
		       lk_put_word(words,
		                   lk_arena_printf(arena, "trainer.num_nodes=%d", emission->nodes)) &&
		       lk_put_word(words, lk_arena_printf(arena, "trainer.devices=%d", emission->per_node));
	if (dialect == BRIDGE)
		return lk_put_word(words, "scripts/training/run_recipe.py") &&
		       lk_put_word(words, "--recipe") &&
		       lk_put_word(words, lk_arena_printf(arena, "%s_%s_config", network,
		                                          tasks[emission->job->task]));
	const lk_recipe *titan = titan_recipe(emission->job->model.name);
	return lk_put_word(words, "-m") && lk_put_word(words, "torchtitan.train") &&
	       lk_put_word(words, lk_arena_printf(arena, "--module=%s",
	                                          titan ? titan->titan.module : network)) &&
	       lk_put_word(
			   words, lk_arena_printf(arena, "--config=%s", titan ? titan->titan.config : network));
}

/* NeMo names a recipe after its network: llama31_405b. */
static const char *recipe(lk_arena *arena, const char *name) {
	char out[64];
	size_t n = 0;
	for (const char *c = name; *c != '\0' && n + 1 < sizeof out; c++)
		if (*c != '.') out[n++] = *c == '-' ? '_' : *c;
	out[n] = '\0';
	return lk_arena_strdup(arena, n > 0 ? out : "recipe");
}

/* Write the degrees of hybrid sharding if sharding groups contain whole context-parallel groups. */
static bool titan_put_shards(lk_arena *arena, const lk_job *job, lk_words *words) {
	int ranks = job->dp * job->cp, group = job->shard_group;
	LK_ASSERT(job->dp > 0 && job->cp > 0); /* the job is complete */
	bool hybrid = job->sharding != LK_SHARD_NONE && group > 0 && group < ranks;
	if (!hybrid || ranks % group != 0 || group % job->cp != 0) return true;
	return lk_put_word(words,
	                   lk_arena_printf(arena, "--parallelism.data_parallel_replicate_degree=%d",
	                                   ranks / group)) &&
	       lk_put_word(words, lk_arena_printf(arena, "--parallelism.data_parallel_shard_degree=%d",
	                                          group / job->cp));
}

/* Write the layers per stage, and how many fewer the first and last stage have, that make
 * torchtitan split the layers the same way. */
static bool titan_put_stages(lk_arena *arena, const lk_job *job, lk_words *words) {
	static const char *const ends[] = {"first", "last"};
	int stages = job->pp * (job->vp > 1 ? job->vp : 1), layers = lk_job_layers(job);
	if (job->pp <= 1) return true;
	for (int both = 1; both >= 0; both--) {
		lk_job split = *job;
		bool same = lk_launch_split(&split, &job->model, both, both) &&
		            strcmp(split.pipeline_layout, job->pipeline_layout) == 0 &&
		            split.account_embedding == job->account_embedding &&
		            split.account_loss == job->account_loss;
		if (!same) continue;
		int each = (layers + 2 * both - 1) / stages + 1;
		LK_ASSERT(each > 0 && each * stages >= layers + 2 * both);
		for (int i = 0; i < 2; i++)
			if (!lk_put_word(words, lk_arena_printf(arena,
			                                        "--parallelism.pipeline_parallel_%s_stage_less_"
			                                        "layers=%d",
			                                        ends[i], both)))
				return false;
		bool divides = (layers + 2 * both - 1) / each + 1 == stages;
		return job->vp <= 1 || !divides ||
		       lk_put_word(words,
		                   lk_arena_printf(
							   arena, "--parallelism.pipeline_parallel_layers_per_stage=%d", each));
	}
	return true;
}

bool lk_dotted_write(lk_emission *emission, int dialect) {
	lk_arena *arena = emission->arena;
	const lk_job *job = emission->job;
	lk_words *words = &emission->program;
	if (!dotted_put_program(emission, dialect, recipe(arena, job->model.name), words)) return false;
	for (const lk_key *row = lk_dotted_rows(dialect); row->path != NULL; row++)
		if (!dotted_put_row(emission, dialect, row)) return false;
	if (dialect != TITAN && job->recompute == LK_RECOMPUTE_FULL)
		return lk_put_word(words, lk_arena_printf(arena, "model.%srecompute_method=%s",
		                                          dialect == NEMO ? "config." : "",
		                                          job->recompute_layers > 0 ? "block" : "uniform"));
	if (dialect != TITAN) return true;
	if (!titan_put_shards(arena, job, words)) return false;
	int64_t seq = job->seq > 0 ? job->seq : 1;
	if (!titan_put_stages(arena, job, words)) return false;
	if (job->pp > 1 &&
	    !lk_put_word(words, lk_arena_printf(arena, "--parallelism.num_pp_microbatches=%d",
	                                        job->microbatches)))
		return false;
	static const char *const recomputed[] = {[LK_RECOMPUTE_NONE] = "none",
	                                         [LK_RECOMPUTE_SELECTIVE] = "selective",
	                                         [LK_RECOMPUTE_FULL] = "full"};
	/* The last word names a class of the configuration, and ends the flags before it. */
	return lk_put_word(words, lk_arena_printf(
								  arena, "--training.num_tokens_per_microbatch_per_dp_rank=%lld",
								  (long long)(job->mbs * seq))) &&
	       lk_put_word(words, lk_arena_printf(arena, "--training.num_tokens_per_train_step=%lld",
	                                          (long long)(job->gbs * seq))) &&
	       lk_put_word(words, lk_arena_printf(arena, "activation-checkpoint:%s",
	                                          recomputed[job->recompute]));
}
