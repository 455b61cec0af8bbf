/* line_program.c: what a launch line starts: a training program by its name, a command of a
 * framework (axolotl train), a framework's own script, which takes its job from the environment. */
#include "base/arena.h"
#include "base/noun.h"
#include "base/text.h"
#include "launch/line.h"

#include <stdio.h>
#include <string.h>

/* swift sft, megatron rlhf: a command whose flags state all. */
static lk_status line_flagged(lk_line *line, const lk_command_of *command, const char *word) {
	line->command = command;
	line->name = lk_arena_printf(line->r->arena, "%s %s", command->name, word);
	return line->name != NULL ? LK_OK : lk_oom(line->r->err);
}

/* What the word after a command does. */
static lk_status line_command(lk_line *line, const lk_command_of *command, const char *next) {
	bool trains = lk_launch_trains(command, next);
	line->program = true;
	line->configured = command->configured;
	line->name = command->name;
	line->operand = command->operand;
	if (command->operand != NULL && next != NULL)
		line->name = lk_arena_printf(line->r->arena, "%s %.40s", command->name, next);
	if (line->name == NULL) return lk_oom(line->r->err);
	if (strcmp(command->name, "trl") == 0) {
		static const char *const scripts[] = {"sft.py",  "dpo.py", "grpo.py",
		                                      "rloo.py", "kto.py", "reward.py"};
		for (size_t i = 0; next != NULL && i < sizeof scripts / sizeof *scripts; i++)
			if (strncmp(scripts[i], next, strcspn(scripts[i], ".")) == 0)
				line->name = scripts[i]; /* which it runs */
	}
	if (command->others != NULL && trains) LK_TRY(line_flagged(line, command, next));
	if (trains) return LK_OK;
	char spaced[48];
	const char *work = lk_launch_command_work(command, next);
	if (work == NULL && next != NULL && strstr(next, "serve") != NULL) work = "serves a network";
	snprintf(spaced, sizeof spaced, " %.40s ", next != NULL ? next : "");
	if (work != NULL)
		lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "%s%s%s, and trains nothing",
		        command->name, spaced, work);
	else
		lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "%s%sdoes not train one network",
		        command->name, spaced);
	return lk_hint(line->r->err, "%s%sis read", command->name, command->trains);
}

/* Programs whose training is not modelled, by a part of their path. */
static lk_status line_unmodelled(lk_line *line, const char *path, const char *name) {
	static const struct {
		const char *part, *what, *hint;
	} programs[] = {
		{"pretrain_retro", "trains a network that is not modelled", NULL},
		{"pretrain_ict", "trains a network that is not modelled", NULL},
		{"pretrain_qwen3_next", "names layers by letters of its own, which are not modelled",
	     "give --model qwen3-next-80b-a3b, with the layout as options"},
		{"dlrm_s_pytorch", "trains a recommendation model, whose flags are not read",
	     "describe it in a file for --model: {\"model_type\": \"dlrm\", ...} (guide: predict)"},
		{"dlrm_main", "trains a recommendation model, whose flags are not read",
	     "describe it in a file for --model: {\"model_type\": \"dlrm\", ...} (guide: predict)"},
		{"chatlearn", "runs ChatLearn's loops of reinforcement learning, which are not modelled",
	     "give --model and the layout of its policy_trainer as options"},
		{"megatron_mimo", "trains modules on ranks of their own, which are not modelled",
	     "give --model and the layout of the language model as options"},
	};
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
		if (strstr(path, programs[i].part) == NULL) continue;
		lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "%s %s", name, programs[i].what);
		return lk_hint(line->r->err, "%s",
		               programs[i].hint != NULL
		                   ? programs[i].hint
		                   : "decoders, encoders and encoder-decoders can be predicted");
	}
	return LK_OK;
}

lk_status lk_line_program(lk_line *line, const lk_word *word) {
	static const struct {
		const char *part;
		lk_network network;
	} scripts[] = {{"pretrain_bert", LK_NET_ENCODER},
	               {"pretrain_t5", LK_NET_ENCDEC},
	               {"pretrain_vision", LK_NET_ENCODER}};
	const char *slash = strrchr(word->text, '/'), *name = slash != NULL ? slash + 1 : word->text;
	const char *work = lk_launch_other_work(word->text);
	line->program = true;
	line->name = name;
	if (lk_launch_nemo(name)) line->dotted.dialect = LK_DIALECT_NEMO; /* torchrun --no-python */
	line->unknown = word->unknown != NULL && lk_launch_known_end(word) == NULL ? word : NULL;
	if (strcmp(name, "torchtitan.train") == 0 || strstr(word->text, "torchtitan/train.py"))
		line->dotted.dialect = LK_DIALECT_TORCHTITAN;
	if (strcmp(name, "run_recipe.py") == 0 || lk_ends_in(name, "setup_experiment.py") ||
	    strstr(word->text, "performance/run_script.py"))
		line->dotted.dialect = LK_DIALECT_BRIDGE;
	line->verl = lk_verl_is(name);
	line->hydra = line->verl != LK_VERL_NONE;
	line->maxtext = work == NULL && lk_maxtext_is(word->text);
	if (line->maxtext) line->name = word->text;
	line->configured = line->hydra || line->maxtext || strncmp(name, "axolotl.", 8) == 0 ||
	                   strncmp(name, "llamafactory.", 13) == 0;
	if (work != NULL) {
		lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "%.80s %s, and trains nothing", name,
		        work);
		return lk_hint(line->r->err, "give the launch of a training");
	}
	line->starter = strcmp(name, "deepy.py") == 0;
	const char *next;
	const lk_command_of *command = lk_launch_command_file(word->text, line->r->arena, &next);
	if (command != NULL) return line_command(line, command, next); /* another launcher's ranks */
	line->megatron = strncmp(name, "pretrain_", 9) == 0;
	line->flags.bert = strncmp(name, "pretrain_bert", 13) == 0;
	line->flags.gpt = strcmp(name, "pretrain_gpt.py") == 0;
	line->flags.huggingface = strstr(name, "_huggingface_") != NULL;
	if (strncmp(name, "ds_train_", 9) == 0)
		LK_TRY(lk_launch_assume(line->r,
		                        "no stage of ZeRO: %.60s reads it from a file that the line "
		                        "does not name (--sharding)",
		                        name));
	line->flags.vlm =
		strncmp(name, "pretrain_vlm", 12) == 0 || strstr(word->text, "multimodal/train.py") != NULL;
	for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
		if (strncmp(name, scripts[i].part, strlen(scripts[i].part)) == 0)
			line->r->out->job->model.network = scripts[i].network;
	return line_unmodelled(line, word->text, name);
}

/* A setting of the environment that says something after all. */
static lk_status line_heed(lk_line *line, const char *name, const char *value) {
	lk_launch *out = line->r->out;
	int kept = 0;
	for (int i = 0; i < out->ignored_count; i++)
		if (strcmp(out->ignored[i].flag, name) != 0) out->ignored[kept++] = out->ignored[i];
	out->ignored_count = kept;
	return lk_launch_understood(line->r, name, value);
}

/* llamafactory-cli, swift and megatron start torchrun themselves, by NNODES and NPROC_PER_NODE. */
static lk_status line_own_ranks(lk_line *line) {
	static const char *const names[] = {"NNODES", "NPROC_PER_NODE"};
	int *const counts[] = {&line->ranks.nodes, &line->ranks.per_node};
	long long count;
	for (size_t i = 0; i < 2; i++) {
		const char *value = lk_line_environment(line, names[i]);
		if (value == NULL || *counts[i] > 0) continue;
		LK_TRY(lk_parse_int(value, 1, LK_JOB_GPUS, &count, names[i], line->r->err));
		*counts[i] = (int)count;
		LK_TRY(line_heed(line, names[i], value));
	}
	if (line->ranks.nodes == 0 || line->ranks.per_node > 0) return LK_OK;
	line->ranks.per_node = 8;
	return lk_launch_assume(line->r, "8 GPUs a node: NPROC_PER_NODE is not set");
}

/* swift starts one process where neither variable is set, even on several devices. A process then
 * has layers on each (transformers' device_map), which work one after another. */
lk_status lk_line_one_process(lk_line *line) {
	const lk_launch_ranks *ranks = &line->ranks;
	bool stated = ranks->per_node > 0 || ranks->total > 0 || ranks->tasks_per_node > 0;
	if (!stated && lk_line_states(line, "NNODES")) return LK_OK; /* of a value not known */
	if (!stated && lk_line_states(line, "NPROC_PER_NODE")) return LK_OK;
	if (!stated) line->ranks.per_node = 1;
	if (!stated && line->r->visible == 0)
		LK_TRY(lk_launch_assume(line->r, "one process on one GPU: NPROC_PER_NODE is not set"));
	int visible = line->r->visible, processes = line->ranks.per_node;
	if (!line->command->spreads || processes == 0 || visible / 2 < processes) return LK_OK;
	lk_fail(
		line->r->err, LK_ERR_INPUT, line->r->where,
		"CUDA_VISIBLE_DEVICES: %d devices for %d %s: layers of a network that are put on several "
		"devices (device_map) are not modelled",
		visible, processes, lk_noun(processes, "process", "processes"));
	return lk_hint(line->r->err, "set NPROC_PER_NODE=%d, for data parallelism", visible);
}

/* EXP=job.yaml bash ./examples/run_pretrain.sh: Primus's script reads the job that EXP names. */
static bool line_primus(lk_line *line) {
	line->config = lk_line_environment(line, "EXP");
	line->name = "Primus";
	line->configured = true;
	return line->config != NULL;
}

/* NGPU=8 MODULE=llama3 CONFIG=llama3_8b ./run_train.sh: torchtitan's script; before 2026
 * CONFIG_FILE=job.toml. Without one it takes the debug model. */
static bool line_titan(lk_line *line) {
	const char *gpus = lk_line_environment(line, "NGPU"),
			   *file = lk_line_environment(line, "CONFIG_FILE"),
			   *recipe = lk_line_environment(line, "CONFIG");
	long long count = 8;
	if (file == NULL && recipe == NULL) return false;
	if (gpus != NULL && lk_parse_int(gpus, 1, LK_JOB_GPUS, &count, "NGPU", NULL) != LK_OK)
		return false;
	if (line->ranks.per_node == 0) line->ranks.per_node = (int)count;
	line->name = "torchtitan.train";
	line->dotted.dialect = LK_DIALECT_TORCHTITAN;
	line->dotted.recipe = file == NULL ? recipe : line->dotted.recipe;
	line->config = file;
	line->configured = file != NULL;
	return true;
}

/* A framework's own script is not read: its use of the environment is known. */
bool lk_line_own_script(lk_line *line, const lk_word *words, size_t count, size_t *used) {
	for (size_t i = 0; i < count && i < 2; i++) {
		if (words[i].unknown != NULL) continue;
		lk_launch_own own = lk_launch_own_script(words[i].text);
		line->program = (own == LK_OWN_PRIMUS && line_primus(line)) ||
		                (own == LK_OWN_TITAN && line_titan(line));
		*used = i + 1;
		if (line->program) return true;
	}
	return false;
}

bool lk_line_command_goes_on(lk_line *line, const char *word) {
	static const char *const methods[] = {"lora", "full", "adapter", "adapter_v2"};
	for (size_t i = 0; lk_ends_in(line->name, " finetune") && i < 4; i++) {
		if (strcmp(word, methods[i]) != 0) continue;
		const char *name = lk_arena_printf(line->r->arena, "%s_%s", line->name, word);
		if (name != NULL) line->name = name;
		return name != NULL;
	}
	return false;
}

/* axolotl train, trl sft */
lk_status lk_line_command(lk_line *line, const lk_command_of *command, const lk_word *word) {
	LK_TRY(line_command(line, command, word != NULL ? word->text : NULL));
	if (command->ranks) LK_TRY(line_own_ranks(line));
	return line->command != NULL ? lk_line_one_process(line) : LK_OK;
}
