/* launch.c: pasted launch lines: settings of the environment, launchers, the training program, its
 * flags.
 *
 * A line is Megatron-LM's if its program is called pretrain_... or a flag is in it that only
 * Megatron-LM has; then what the flags leave out is what Megatron-LM assumes. */
#include "base/arena.h"
#include "launch/config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "io/stream.h"
#include "base/text.h"
#include "base/noun.h"
#include "model/layout/job.h"

/* One launch line while it is read. */
struct line {
	lk_reading *r;
	lk_launch_ranks ranks;
	lk_megatron flags;
	lk_words environment;      /* NAME=value in front of programs */
	lk_members settings;       /* flags of other trainers, by name */
	const char *deepspeed;     /* a config file */
	const char *config;        /* a configuration that the program reads; NULL: none */
	const char *also;          /* lines: configurations that are merged over it; NULL: none */
	const char *folder, *stem; /* Hydra's --config-path and --config-name; NULL: not given */
	const char *name;          /* of the program, without folders; NULL: not known */
	bool program, any_flag, megatron;
	bool hydra;             /* verl's settings follow it as words, key=value */
	bool configured;        /* the program takes all that it does from its configuration */
	bool starter;           /* its first word is the program that it starts */
	const char *configs;    /* folder of the configurations that a starter names; NULL: as named */
	lk_dotted dotted;       /* what NeMo's or torchtitan's settings say */
	const char *titan_sets; /* the latter as lines "key=value", for a configuration; NULL: none */
	int max_connections;
	char nccl[sizeof((lk_job *)0)->nccl]; /* NAME=value of NCCL's variables */
};

enum {
	CONFIGS = 8 /* that launch lines with configurations, at most */
};

static lk_status launch_read_line(lk_reading *reading, const lk_word *words, size_t count,
                                  const lk_launch_ranks *batch);

/* ---- settings ---- */

/* NCCL's variables that change what it runs; what they may say is known where collectives are
 * priced. */
static bool launch_names_nccl(const char *text, size_t length) {
	static const char *const names[] = {
		"NCCL_ALGO",     "NCCL_PROTO",    "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS",
		"NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_NVLS_ENABLE",   "NCCL_BUFFSIZE",
	};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strlen(names[i]) == length && strncmp(names[i], text, length) == 0) return true;
	return false;
}

/* Appends NAME=value; of a name that is set again the later value holds. */
static lk_status launch_add_nccl(struct line *line, const char *name, const lk_word *word) {
	char kept[sizeof line->nccl] = "";
	size_t length = strlen(name);
	for (const char *at = line->nccl; *at;) {
		size_t part = strcspn(at, " "), used = strlen(kept);
		bool again = strncmp(at, name, length) == 0 && at[length] == '=';
		if (!again)
			snprintf(kept + used, sizeof kept - used, "%s%.*s", used ? " " : "", (int)part, at);
		at += part + (at[part] == ' ');
	}
	size_t used = strlen(kept);
	if (used + 1 + strlen(word->text) >= sizeof kept || strchr(word->text, ' '))
		return lk_fail(line->r->err, LK_ERR_INPUT, line->r->where,
		               "%s: longer than %zu characters, or with a blank", name, sizeof kept - 1);
	snprintf(kept + used, sizeof kept - used, "%s%s", used ? " " : "", word->text);
	memcpy(line->nccl, kept, sizeof kept);
	return lk_launch_seen(line->r, name);
}

static lk_status launch_read_setting(struct line *line, const lk_word *word) {
	static const char connections[] = "CUDA_DEVICE_MAX_CONNECTIONS=", own[] = "LOCKSTEP_";
	size_t length = strcspn(word->text, "=");
	bool ours = strncmp(word->text, own, sizeof own - 1) == 0;
	bool queues = strncmp(word->text, connections, sizeof connections - 1) == 0;
	bool collectives = launch_names_nccl(word->text, length);
	char *name = lk_arena_strndup(line->r->arena, word->text, length);
	if (name == NULL || !lk_push(&line->environment)) return lk_oom(line->r->err);
	*lk_last(&line->environment) = *word;
	if (!ours && !queues && !collectives)
		return lk_launch_skip(line->r, name, "a setting of the environment: not modelled");
	if (word->unknown != NULL) {
		lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "%s: %s", name, word->unknown);
		return lk_hint(line->r->err, "write the value into the script");
	}
	if (queues) {
		long long value;
		LK_TRY(lk_parse_int(word->text + length + 1, 1, 32, &value, name, line->r->err));
		line->max_connections = (int)value;
		return LK_OK;
	}
	return collectives ? launch_add_nccl(line, name, word) : LK_OK;
}

/* What a launcher passes on: srun --export=ALL,NAME=value, mpiexec -genv NAME value. */
static lk_status launch_read_passed(struct line *line) {
	const char *at = line->ranks.settings;
	line->ranks.settings = NULL;
	for (size_t length; at && *at; at += length + (at[length] != '\0')) {
		length = strcspn(at, "\n");
		lk_word word = {.text = lk_arena_strndup(line->r->arena, at, length)};
		if (word.text == NULL) return lk_oom(line->r->err);
		if (!lk_launch_setting(&word)) continue; /* ALL, or the name of one that is set already */
		if (strchr(word.text, '$')) word.unknown = "its value is not known";
		LK_TRY(launch_read_setting(line, &word));
	}
	return LK_OK;
}

static lk_status apply_settings(struct line *line) {
	lk_job *job = line->r->out->job;
	if (line->max_connections > 0) job->max_connections = line->max_connections;
	if (*line->nccl) memcpy(job->nccl, line->nccl, sizeof job->nccl);
	for (size_t i = 0; i < line->environment.count; i++)
		if (strncmp(line->environment.at[i].text, "LOCKSTEP_", 9) == 0)
			LK_TRY(lk_launch_set(line->r, line->environment.at[i].text));
	return LK_OK;
}

/* ---- the training program ---- */

static lk_status read_program(struct line *line, const lk_word *word) {
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
	if (strcmp(name, "torchtitan.train") == 0 || strstr(word->text, "torchtitan/train.py"))
		line->dotted.dialect = LK_DIALECT_TORCHTITAN;
	if (strcmp(name, "run_recipe.py") == 0 || strcmp(name, "setup_experiment.py") == 0)
		line->dotted.dialect = LK_DIALECT_BRIDGE;
	line->hydra = lk_verl_is(name);
	line->configured =
		line->hydra || strncmp(name, "axolotl.", 8) == 0 || strncmp(name, "llamafactory.", 13) == 0;
	if (work != NULL) {
		lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "%.80s %s, and trains nothing", name,
		        work);
		return lk_hint(line->r->err, "give the launch of a training");
	}
	line->starter = strcmp(name, "deepy.py") == 0;
	line->megatron = strncmp(name, "pretrain_", 9) == 0;
	line->flags.bert = strncmp(name, "pretrain_bert", 13) == 0;
	line->flags.vlm = strncmp(name, "pretrain_vlm", 12) == 0;
	for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
		if (strncmp(name, scripts[i].part, strlen(scripts[i].part)) == 0)
			line->r->out->job->model.network = scripts[i].network;
	if (strncmp(name, "pretrain_retro", 14) != 0 && strncmp(name, "pretrain_ict", 12) != 0)
		return LK_OK;
	lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "%s trains a network that is not modelled",
	        name);
	return lk_hint(line->r->err, "decoders, encoders and encoder-decoders can be predicted");
}

/* The value of a setting of the environment; NULL: there is none. */
static const char *launch_environment(const struct line *line, const char *name) {
	size_t length = strlen(name);
	for (size_t i = line->environment.count; i > 0; i--) {
		const lk_word *word = &line->environment.at[i - 1];
		if (word->unknown == NULL && strncmp(word->text, name, length) == 0 &&
		    word->text[length] == '=')
			return word->text + length + 1;
	}
	return NULL;
}

/* llamafactory-cli starts torchrun itself, by NNODES and NPROC_PER_NODE. */
static lk_status launch_own_ranks(struct line *line) {
	static const char *const names[] = {"NNODES", "NPROC_PER_NODE"};
	int *const counts[] = {&line->ranks.nodes, &line->ranks.per_node};
	long long count;
	for (size_t i = 0; i < 2; i++) {
		const char *value = launch_environment(line, names[i]);
		if (value == NULL || *counts[i] > 0) continue;
		LK_TRY(lk_parse_int(value, 1, LK_JOB_GPUS, &count, names[i], line->r->err));
		*counts[i] = (int)count;
	}
	if (line->ranks.nodes == 0 || line->ranks.per_node > 0) return LK_OK;
	line->ranks.per_node = 8;
	return lk_launch_assume(line->r, "8 GPUs a node: NPROC_PER_NODE is not set");
}

/* EXP=job.yaml bash ./examples/run_pretrain.sh: Primus's script reads the job that EXP names. */
static bool launch_primus(struct line *line) {
	line->config = launch_environment(line, "EXP");
	line->name = "Primus";
	line->configured = true;
	return line->config != NULL;
}

/* NGPU=8 MODULE=llama3 CONFIG=llama3_8b ./run_train.sh: torchtitan's script; before 2026
 * CONFIG_FILE=job.toml. Without one it takes the debug model. */
static bool launch_titan(struct line *line) {
	const char *gpus = launch_environment(line, "NGPU"),
			   *file = launch_environment(line, "CONFIG_FILE"),
			   *recipe = launch_environment(line, "CONFIG");
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
static bool launch_own_script(struct line *line, const lk_word *words, size_t count, size_t *used) {
	for (size_t i = 0; i < count && i < 2; i++) {
		if (words[i].unknown != NULL) continue;
		lk_launch_own own = lk_launch_own_script(words[i].text);
		line->program = (own == LK_OWN_PRIMUS && launch_primus(line)) ||
		                (own == LK_OWN_TITAN && launch_titan(line));
		*used = i + 1;
		if (line->program) return true;
	}
	return false;
}

/* axolotl train, trl sft: what the word after the command does. */
static lk_status read_command(struct line *line, const lk_command_of *command,
                              const lk_word *word) {
	char spaced[48];
	snprintf(spaced, sizeof spaced, " %.40s ", word != NULL ? word->text : "");
	line->program = line->configured = true;
	line->name = command->name;
	if (strcmp(command->name, "trl") == 0) {
		line->configured = false;
		static const char *const scripts[] = {"sft.py", "dpo.py", "grpo.py", "rloo.py"};
		for (size_t i = 0; word != NULL && i < sizeof scripts / sizeof *scripts; i++)
			if (strncmp(scripts[i], word->text, strcspn(scripts[i], ".")) == 0)
				line->name = scripts[i]; /* which it runs */
	}
	if (strcmp(command->name, "llamafactory-cli") == 0) LK_TRY(launch_own_ranks(line));
	if (word != NULL && strstr(command->trains, spaced) != NULL) return LK_OK;
	lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "%s%sdoes not train one network",
	        command->name, spaced);
	return lk_hint(line->r->err, "%s%sis read", command->name, command->trains);
}

/* ---- flags ---- */

/* --deepspeed ds.json, --deepspeed_config ds.json; --deepspeed alone is the switch of a config that
 * follows. */
static lk_status read_deepspeed_flag(struct line *line, const char *name, const lk_word *words,
                                     size_t count, size_t *used) {
	bool file = count > 0 && words[0].text[0] != '-';
	*used = file;
	if (!file && strcmp(name, "deepspeed") == 0) return LK_OK;
	if (file && words[0].unknown == NULL) {
		line->deepspeed = words[0].text;
		return LK_OK;
	}
	lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "--%s: %s", name,
	        file ? words[0].unknown : "the file is missing");
	return lk_hint(line->r->err, "write the path of the DeepSpeed config");
}

/* deepy.py -d FOLDER job.yml; NULL: no memory. */
static const char *launch_in_folder(const struct line *line, const char *name) {
	return line->configs ? lk_arena_printf(line->r->arena, "%s/%s", line->configs, name) : name;
}

/* job.yaml, job.toml */
static bool launch_names_config(const lk_word *word) {
	static const char *const endings[] = {".yaml", ".yml", ".toml"};
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (word->unknown == NULL && lk_ends_in(word->text, endings[i])) return true;
	return false;
}

static lk_status read_titan_setting(struct line *line, const char *path, const char *value) {
	const char *before = line->titan_sets != NULL ? line->titan_sets : "";
	line->titan_sets = lk_arena_printf(line->r->arena, "%s%s=%s\n", before, path, value);
	if (line->titan_sets == NULL) return lk_oom(line->r->err);
	return lk_dotted_read(line->r, &line->dotted, path, value);
}

/* --parallelism.tensor_parallel_degree 8 */
static lk_status read_titan_flag(struct line *line, const char *name, const lk_word *words,
                                 size_t count, size_t *used) {
	bool negative = count > 0 && strcmp(words[0].text, "-1") == 0;
	char *path = lk_arena_strdup(line->r->arena, name);
	*used = count > 0 && (words[0].text[0] != '-' || negative);
	line->dotted.dialect = LK_DIALECT_TORCHTITAN;
	if (path == NULL) return lk_oom(line->r->err);
	for (char *c = path; *c; c++)
		if (*c == '-') *c = '_';
	if (strcmp(path, "module") == 0 && *used > 0) return LK_OK; /* the configuration's folder */
	if (strcmp(path, "config") == 0 && *used > 0 && words[0].unknown == NULL) {
		line->dotted.recipe = words[0].text;
		return LK_OK;
	}
	if (strcmp(path, "job.config_file") == 0 && *used > 0 && words[0].unknown == NULL) {
		line->config = words[0].text;
		line->configured = true;
		return LK_OK;
	}
	if (*used == 0 || words[0].unknown == NULL)
		return read_titan_setting(line, path, *used > 0 ? words[0].text : "true");
	if (!lk_dotted_flag(LK_DIALECT_TORCHTITAN, path))
		return lk_launch_note(line->r, name, "its value is not known");
	lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "--%s: %s", name, words[0].unknown);
	return lk_hint(line->r->err, "write the value into the script");
}

/* "llama3_70b(num_nodes=4, num_gpus_per_node=8)": the arguments of a recipe of NeMo 2. */
static lk_status read_factory(struct line *line, const char *text) {
	static const struct {
		const char *name, *path;
	} arguments[] = {{"num_nodes", "trainer.num_nodes"}, {"num_gpus_per_node", "trainer.devices"}};
	char *copy = lk_arena_strdup(line->r->arena, text), *save = NULL;
	if (copy == NULL) return lk_oom(line->r->err);
	char *at = strchr(copy, '(');
	for (at = at != NULL ? strtok_r(at + 1, "(), ", &save) : NULL; at != NULL;
	     at = strtok_r(NULL, "(), ", &save)) {
		char *value = strchr(at, '=');
		if (value == NULL) continue;
		*value++ = '\0';
		for (size_t i = 0; i < 2; i++)
			if (strcmp(at, arguments[i].name) == 0)
				LK_TRY(lk_dotted_read(line->r, &line->dotted, arguments[i].path, value));
		if (strcmp(at, "num_nodes") == 0 && line->dotted.devices == 0) line->dotted.devices = 8;
	}
	return LK_OK;
}

/* Options of Megatron-Bridge's programs: -tp 4, --recipe NAME. */
static lk_status read_bridge_option(struct line *line, const char *option, const char *value,
                                    bool *known) {
	static const struct {
		const char *name, *also, *path; /* of a setting; NULL: see below */
	} options[] = {
		{"tp", "tensor_model_parallel_size", "model.tensor_model_parallel_size"},
		{"pp", "pipeline_model_parallel_size", "model.pipeline_model_parallel_size"},
		{"cp", "context_parallel_size", "model.context_parallel_size"},
		{"vp", "virtual_pipeline_model_parallel_size",
	     "model.virtual_pipeline_model_parallel_size"},
		{"ep", "expert_model_parallel_size", "model.expert_model_parallel_size"},
		{"etp", "expert_tensor_parallel_size", "model.expert_tensor_parallel_size"},
		{"mb", "micro_batch_size", "train.micro_batch_size"},
		{"gb", "global_batch_size", "train.global_batch_size"},
		{"sl", "seq_length", "dataset.seq_length"},
		{"ng", "num_gpus", "gpus"},
		{"recipe", "recipe_name", "recipe"},
		{"mr", "model_recipe_name", "recipe"},
		{"g", "gpu", "kind"},
		{"c", "compute_dtype", "format"},
		{"mode", "task", "task"},
		{"m", "model", "model"},
	};
	const char *name = option + strspn(option, "-"), *path = NULL;
	lk_dotted *dotted = &line->dotted;
	long long gpus;
	for (size_t i = 0; i < sizeof options / sizeof *options && path == NULL; i++)
		if (strcmp(name, options[i].name) == 0 || strcmp(name, options[i].also) == 0)
			path = options[i].path;
	*known = path != NULL && dotted->dialect == LK_DIALECT_BRIDGE;
	if (!*known) return LK_OK;
	LK_TRY(lk_launch_seen(line->r, name));
	if (strchr(path, '.') != NULL) return lk_dotted_read(line->r, dotted, path, value);
	if (strcmp(path, "recipe") == 0) dotted->recipe = value;
	else if (strcmp(path, "model") == 0 && dotted->recipe == NULL) dotted->recipe = value;
	else if (strcmp(path, "task") == 0) dotted->task = value;
	else if (strcmp(path, "kind") == 0) lk_copy(dotted->perf.kind, sizeof dotted->perf.kind, value);
	else if (strcmp(path, "gpus") == 0) {
		LK_TRY(lk_parse_int(value, 1, LK_JOB_GPUS, &gpus, option, line->r->err));
		dotted->perf.gpus = (int)gpus;
	} else if (strcmp(path, "format") == 0) { /* fp8_cs is fp8cs in names of recipes */
		size_t used = 0;
		for (const char *c = value; *c && used + 1 < sizeof dotted->perf.format; c++)
			if (*c != '_') dotted->perf.format[used++] = *c;
	}
	return LK_OK;
}

/* Settings and options of `nemo llm pretrain`. */
static lk_status read_nemo(struct line *line, const lk_word *words, size_t count, size_t *used) {
	const char *text = words[0].text, *equals = strchr(text, '=');
	*used = 1;
	if (strcmp(text, "--factory") == 0 && count > 1) {
		*used = 2;
		if (words[1].unknown != NULL) return lk_launch_note(line->r, text, words[1].unknown);
		line->dotted.recipe = words[1].text;
		return read_factory(line, words[1].text);
	}
	if (text[0] == '-' && count > 1 && words[1].unknown == NULL) {
		bool known;
		LK_TRY(read_bridge_option(line, text, words[1].text, &known));
		if (known) *used = 2;
		if (known) return LK_OK;
	}
	if (strcmp(text, "finetune") == 0) line->dotted.task = "lora"; /* NeMo 2's default */
	if (strcmp(text, "peft=none") == 0) line->dotted.task = "sft";
	if (text[0] == '-' || equals == NULL)
		return lk_launch_skip(line->r, text, "a word of NeMo's command line: not part of the step");
	if (words[0].unknown != NULL) {
		lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "%s: %s", text, words[0].unknown);
		return lk_hint(line->r->err, "write the value into the script");
	}
	char *path = lk_arena_strndup(line->r->arena, text, (size_t)(equals - text));
	if (path == NULL) return lk_oom(line->r->err);
	return lk_dotted_read(line->r, &line->dotted, path, equals + 1);
}

/* --config job.yaml, and its other spellings. */
static bool launch_is_config(const struct line *line, const char *name, const lk_word *words,
                             size_t count) {
	static const char *const names[] = {"config",   "c",           "config-file", "config_file",
	                                    "yaml-cfg", "config_path", "config-path"};
	if (count == 0 || line->config != NULL || !launch_names_config(&words[0])) return false;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(name, names[i]) == 0) return true;
	return false;
}

/* Hydra's --config-path=conf --config-name=gpt. */
static bool launch_hydra(struct line *line, const char *name, const lk_word *words, size_t count) {
	if (count == 0 || words[0].unknown != NULL) return false;
	bool folder = strcmp(name, "config-path") == 0, stem = strcmp(name, "config-name") == 0;
	if (folder) line->folder = words[0].text;
	if (stem) line->stem = words[0].text;
	return folder || stem;
}

static lk_status launch_join_hydra(struct line *line) {
	if (line->stem == NULL || line->config != NULL) return LK_OK;
	bool ended = lk_ends_in(line->stem, ".yaml") || lk_ends_in(line->stem, ".yml");
	line->config =
		lk_arena_printf(line->r->arena, "%s%s%s%s", line->folder != NULL ? line->folder : "",
	                    line->folder != NULL ? "/" : "", line->stem, ended ? "" : ".yaml");
	line->configured = true;
	return line->config != NULL ? LK_OK : lk_oom(line->r->err);
}

/* A flag of a trainer whose flags are the keys of its configurations: --name, --name value, --name
 * value value. */
static lk_status launch_keep_flag(struct line *line, const char *name, const lk_word *words,
                                  size_t count, size_t *used) {
	lk_arena *arena = line->r->arena;
	char *key = lk_arena_strdup(arena, name);
	lk_value value = {.kind = LK_JSON_TRUE, .text = "true"};
	*used = 0;
	while (*used < count &&
	       (words[*used].text[0] != '-' || isdigit((unsigned char)words[*used].text[1])))
		++*used;
	if (key == NULL) return lk_oom(line->r->err);
	if (line->configured && strcmp(key, "launcher") == 0)
		return lk_launch_skip(line->r, name, "its words follow after --");
	for (char *c = key; *c; c++)
		if (*c == '-') *c = '_';
	if (*used > 0 && words[0].unknown != NULL && line->hydra && lk_verl_states(key))
		return lk_launch_unknown_value(line->r, name, &words[0]);
	if (*used > 0 && words[0].unknown != NULL) {
		if (!lk_trainer_states(key) || strcmp(key, "model_name_or_path") == 0)
			return lk_launch_note(line->r, name, "its value is not known");
		return lk_launch_unknown_value(line->r, name, &words[0]);
	}
	if (*used > 0) {
		value.text = words[0].text;
		value.kind = lk_yaml_scalar(value.text, &value.number);
	}
	if (value.kind == LK_JSON_STRING && *value.text == '{') { /* a map: JSON */
		lk_value *map;
		if (lk_yaml_document(arena, value.text, strlen(value.text), name, &map, NULL) == LK_OK)
			value = *map;
	}
	return lk_members_add(&line->settings, key, &value) ? LK_OK : lk_oom(line->r->err);
}

static lk_status read_named(struct line *line, const char *name, const lk_word *words, size_t count,
                            size_t *used) {
	LK_TRY(lk_launch_seen(line->r, name));
	if (strcmp(name, "deepspeed") == 0 || strcmp(name, "deepspeed_config") == 0)
		return read_deepspeed_flag(line, name, words, count, used);
	if (line->dotted.dialect == LK_DIALECT_TORCHTITAN ||
	    lk_dotted_flag(LK_DIALECT_TORCHTITAN, name))
		return read_titan_flag(line, name, words, count, used);
	if (launch_is_config(line, name, words, count)) {
		line->config = words[0].text;
		*used = 1;
		return LK_OK;
	}
	if (launch_hydra(line, name, words, count)) {
		*used = 1;
		return LK_OK;
	}
	if (!line->megatron) return launch_keep_flag(line, name, words, count, used);
	return lk_megatron_read(line->r, &line->flags, name, words, count, used);
}

/* "--name value..." or "--name=value". */
static lk_status read_flag(struct line *line, const lk_word *words, size_t count, size_t *used) {
	const char *name = words[0].text + strspn(words[0].text, "-"), *equals = strchr(name, '=');
	size_t values;
	line->any_flag = true;
	*used = 1;
	if (equals == NULL) {
		LK_TRY(read_named(line, name, words + 1, count - 1, &values));
		*used += values;
		return LK_OK;
	}
	char *alone = lk_arena_strndup(line->r->arena, name, (size_t)(equals - name));
	if (alone == NULL) return lk_oom(line->r->err);
	lk_word value = words[0];
	value.text = equals + 1;
	return read_named(line, alone, &value, 1, &values);
}

/* key=value after a configuration; Hydra's +key=value and ++key=value add what its files lack. */
static lk_status read_override(struct line *line, const lk_word *word) {
	size_t length = strcspn(word->text, "="), plus = strspn(word->text, "+"), used;
	char *name = lk_arena_strndup(line->r->arena, word->text + plus, length - plus);
	lk_word value = *word;
	value.text += length + 1;
	return name ? launch_keep_flag(line, name, &value, 1, &used) : lk_oom(line->r->err);
}

/* Whether some flag is one that only Megatron-LM has: its name holds a '-', and nobody else's. */
static bool launch_has_megatron_flag(const lk_word *words, size_t count) {
	for (size_t i = 0; i < count; i++) {
		char name[96];
		const char *text = words[i].text;
		if (strncmp(text, "--", 2) != 0) continue;
		snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 2, "="), text + 2);
		const lk_flag *flag = strchr(name, '-') != NULL ? lk_megatron_flag(name) : NULL;
		if (flag != NULL && flag->kind < LK_FLAG_IGNORED) return true;
	}
	return false;
}

static lk_status read_flags(struct line *line, const lk_word *words, size_t count) {
	line->megatron =
		line->megatron || (!line->configured && launch_has_megatron_flag(words, count));
	for (size_t i = 0, used; i < count; i += used) {
		used = 1;
		const lk_word *word = &words[i];
		if (line->configured && strcmp(word->text, "--") == 0) { /* words of torchrun */
			lk_launched launched;
			lk_word *rest = LK_ARRAY(line->r->arena, lk_word, count - i);
			if (rest == NULL) return lk_oom(line->r->err);
			memcpy(rest, words + i, (count - i) * sizeof *rest);
			rest[0].text = "torchrun";
			return lk_launcher_read(line->r, rest, count - i, &line->ranks, &launched);
		}
		bool titan = line->dotted.dialect == LK_DIALECT_TORCHTITAN;
		if (titan && strncmp(word->text, "activation", 10) == 0 && strchr(word->text, ':')) {
			LK_TRY(lk_dotted_read(line->r, &line->dotted, "activation_checkpoint.mode",
			                      strchr(word->text, ':') + 1));
		} else if (line->dotted.dialect == LK_DIALECT_NEMO ||
		           line->dotted.dialect == LK_DIALECT_BRIDGE) {
			LK_TRY(read_nemo(line, word, count - i, &used));
		} else if (line->hydra && word->text[0] != '-' && strchr(word->text, '=') != NULL) {
			LK_TRY(read_override(line, word));
		} else if (word->unknown != NULL && word->text[0] != '-') {
			if (!word->empty_if_unset) {
				lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "%s, and flags may be in it",
				        word->unknown);
				return lk_hint(line->r->err, "write its text into the script");
			}
			LK_TRY(lk_launch_note(
				line->r, word->text,
				lk_arena_printf(line->r->arena, "%s: taken as empty", word->unknown)));
		} else if (line->starter && i + 1 < count &&
		           (strcmp(word->text, "-d") == 0 || strcmp(word->text, "--conf_dir") == 0)) {
			line->configs = words[++i].text;
		} else if (word->text[0] == '-' && word->text[strspn(word->text, "-")] != '\0') {
			LK_TRY(read_flag(line, word, count - i, &used));
		} else if (line->config == NULL && launch_names_config(word)) {
			line->config = launch_in_folder(line, word->text);
			if (line->config == NULL) return lk_oom(line->r->err);
		} else if (line->config != NULL && line->starter && launch_names_config(word)) {
			const char *name = launch_in_folder(line, word->text);
			if (name == NULL) return lk_oom(line->r->err);
			line->also = lk_arena_printf(line->r->arena, "%s%s\n",
			                             line->also != NULL ? line->also : "", name);
			if (line->also == NULL) return lk_oom(line->r->err);
		} else if ((line->config != NULL || line->stem != NULL) &&
		           strchr(word->text, '=') != NULL) {
			LK_TRY(read_override(line, word));
		} else if (word->text[0] != '\0' && !(line->starter && i == 0)) {
			LK_TRY(lk_launch_note(line->r, word->text, "a word that belongs to no flag"));
		}
	}
	return LK_OK;
}

/* Number of words of "ray job submit ... --", which starts what follows; 0: it is no such line. */
static size_t launch_ray(const lk_word *words, size_t count) {
	size_t i = 0;
	if (count < 3 || strcmp(words[0].text, "ray") != 0 || strcmp(words[1].text, "job") != 0)
		return 0;
	while (i < count && strcmp(words[i].text, "--") != 0) i++;
	return i < count ? i + 1 : 0;
}

static lk_status launch_read_words(struct line *line, const lk_word *words, size_t count);

static lk_status read_inner_script(struct line *line, const lk_word *text) {
	lk_words words = {0};
	lk_reading *reading = line->r;
	if (reading->depth >= 8)
		return lk_fail(reading->err, LK_ERR_INPUT, reading->where, "shells are nested too deeply");
	reading->depth++;
	lk_status status = lk_script_words(reading, text->text, strlen(text->text), &line->environment,
	                                   NULL, &words, &line->ranks);
	if (status == LK_OK) status = launch_read_words(line, words.at, words.count);
	lk_vec_free(&words);
	reading->depth--;
	return status;
}

/* Settings, launchers, program, flags. */
static lk_status launch_read_words(struct line *line, const lk_word *words, size_t count) {
	size_t i = 0;
	while (i < count && !line->program) {
		lk_launched launched;
		const char *text = words[i].text;
		if (lk_launch_setting(&words[i])) {
			LK_TRY(launch_read_setting(line, &words[i++]));
			continue;
		}
		size_t own = launch_ray(words + i, count - i);
		i += own;
		if (own > 0) continue;
		if (launch_own_script(line, words + i, count - i, &own)) {
			i += own;
			break;
		}
		LK_TRY(lk_launcher_read(line->r, words + i, count - i, &line->ranks, &launched));
		LK_TRY(launch_read_passed(line));
		if (launched.script != NULL) return read_inner_script(line, launched.script);
		if (launched.program != NULL) LK_TRY(read_program(line, launched.program));
		i += launched.used;
		if (launched.used > 0) continue;
		if (text[0] == '-') break;
		if (lk_launch_nemo(text)) {
			line->program = true;
			line->dotted.dialect = LK_DIALECT_NEMO;
		}
		if (lk_launch_command(text) != NULL)
			LK_TRY(read_command(line, lk_launch_command(text), i + 1 < count ? &words[++i] : NULL));
		if (line->program) {
			i++;
			break;
		}
		size_t length = strlen(text);
		if (length > 3 && strcmp(text + length - 3, ".py") == 0)
			LK_TRY(read_program(line, &words[i]));
		else if (text[0] != '\0')
			LK_TRY(lk_launch_note(line->r, text, "a word that is no launcher and no program"));
		i++;
	}
	return read_flags(line, words + i, count - i);
}

static lk_status count_gpus(struct line *line) {
	const lk_launch_ranks *ranks = &line->ranks;
	int64_t nodes = ranks->nodes > 0 ? ranks->nodes : 1;
	int64_t gpus = ranks->total > 0
	                   ? ranks->total
	                   : nodes * (ranks->per_node > 0 ? ranks->per_node : ranks->tasks_per_node);
	if (gpus > LK_JOB_GPUS) {
		lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "%lld %s", (long long)gpus,
		        lk_noun(gpus, "rank", "ranks"));
		return lk_hint(line->r->err, "at most %d are read", LK_JOB_GPUS);
	}
	line->r->out->gpus = (int)gpus;
	return LK_OK;
}

/* The flags after a configuration override its keys. */
static const char *launch_overrides(struct line *line) {
	const char *sets = line->titan_sets != NULL ? line->titan_sets : "";
	for (size_t i = 0; i < line->settings.count && sets; i++) {
		const char *text = line->settings.items[i].text;
		if (text == NULL || strchr(text, '\n')) continue;
		sets = lk_arena_printf(line->r->arena, "%s%s=%s\n", sets, line->settings.keys[i], text);
	}
	return sets;
}

/* The environment, for configurations that refer to it. */
static const char *launch_variables(struct line *line) {
	const char *vars = "";
	for (size_t i = 0; i < line->environment.count && vars; i++) {
		const lk_word *word = &line->environment.at[i];
		if (word->unknown != NULL || strchr(word->text, '\n')) continue;
		vars = lk_arena_printf(line->r->arena, "%s%s\n", vars, word->text);
	}
	return vars;
}

/* What MaxText's base.yml states of a step, for lines whose file is not here. */
static const char launch_maxtext[] = "per_device_batch_size: 12\nmax_target_length: 2048\n"
									 "hardware: tpu\nremat_policy: full\n";

static bool launch_is_maxtext(const struct line *line, const char *name) {
	return name != NULL && lk_ends_in(name, "base.yml") && line->name != NULL &&
	       (strstr(line->name, "MaxText") || strcmp(line->name, "train.py") == 0) &&
	       line->settings.count > 0;
}

/* The configuration that the program reads; *found false where it is not here and the line may do
 * without. */
static lk_status read_configured(struct line *line, bool *found) {
	lk_reading *reading = line->r;
	const char *where = reading->where, *name = line->config;
	lk_launch_given given = {
		.sets = launch_overrides(line), .vars = launch_variables(line), .also = line->also};
	const lk_inner_file *inner = NULL;
	lk_words words = {0};
	if (given.sets == NULL || given.vars == NULL) return lk_oom(reading->err);
	const char *path = name != NULL ? lk_launch_file_named(reading, name, &inner) : NULL;
	if (path == NULL && inner == NULL && launch_is_maxtext(line, name)) {
		static const lk_inner_file base = {"base.yml", launch_maxtext, sizeof launch_maxtext - 1,
		                                   NULL};
		inner = &base;
		LK_TRY(lk_launch_assume(reading,
		                        "MaxText's defaults of a batch of 12 a device, 2048 "
		                        "tokens and full recomputation: %.100s is not here",
		                        name));
	}
	if (path == NULL && inner == NULL && line->hydra) {
		static const lk_inner_file none = {"ppo_trainer.yaml", "actor_rollout_ref: {}\n", 22, NULL};
		inner = &none;
	}
	if (path == NULL && inner == NULL) {
		if (!line->configured) return lk_launch_note(reading, name, "the file is not here");
		if (name == NULL && line->settings.count > 0) return LK_OK; /* flags in its place */
		lk_fail(reading->err, LK_ERR_INPUT, where, "%s: %.120s, its configuration, is not here",
		        line->name, name != NULL ? name : "the file");
		return lk_hint(reading->err, "give the script in its folder, or the configuration itself");
	}
	if (++reading->depth > CONFIGS)
		return lk_fail(reading->err, LK_ERR_INPUT, where, "configurations launch one another");
	reading->where = path != NULL ? path : inner->name;
	lk_status status = path != NULL ? lk_config_read(reading, path, &given, &words)
	                                : lk_config_read_text(reading, inner->text, inner->size,
	                                                      inner->name, &given, &words);
	if (status == LK_OK && words.count > 0)
		status = launch_read_line(reading, words.at, words.count, &line->ranks);
	if (status == LK_OK) reading->where = where;
	reading->depth--;
	lk_vec_free(&words);
	*found = true;
	return status;
}

/* The job that the flags state, by whose flags they are. */
static lk_status finish_flags(struct line *line) {
	lk_reading *reading = line->r;
	if (line->dotted.dialect != 0) {
		LK_TRY(lk_dotted_finish(reading, &line->dotted, &reading->out->gpus));
		for (size_t i = 0; i < line->settings.count; i++)
			LK_TRY(lk_launch_unknown(reading, line->settings.keys[i]));
		*reading->out->job = line->dotted.job;
		return LK_OK;
	}
	if (line->megatron) return lk_megatron_finish(reading, &line->flags, reading->out->gpus);
	if (line->name != NULL && lk_openrlhf_is(line->name))
		return lk_openrlhf_line(reading, &line->settings, line->name);
	return lk_trainer_line(reading, &line->settings, line->name);
}

/* A published script is written for one node, whatever its degrees need ("change for multinode"):
 * then they say how many there are. */
static lk_status launch_spread(struct line *line) {
	lk_reading *reading = line->r;
	const lk_job *job = reading->out->job;
	const int degrees[] = {job->tp, job->pp, job->cp};
	int stated = reading->out->gpus;
	int64_t block = 1;
	for (int i = 0; i < 3; i++) block *= degrees[i] > 1 && block <= LK_JOB_GPUS ? degrees[i] : 1;
	if (!reading->script || stated == 0 || stated >= block || block > LK_JOB_GPUS) return LK_OK;
	reading->out->gpus = 0;
	LK_TRY(
		lk_launch_assume(reading,
	                     "more GPUs than the %d that the script states, which its degrees do not "
	                     "divide",
	                     stated));
	return lk_launch_count_gpus(reading, job, 1, 0, false);
}

static lk_status finish_line(struct line *line) {
	lk_reading *reading = line->r;
	if (!line->program && !line->any_flag) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where, "no training program and no flags");
		return lk_hint(reading->err, "paste the whole line, for instance torchrun --nproc_per_node "
		                             "8 pretrain_gpt.py --num-layers 32 ...");
	}
	LK_TRY(launch_join_hydra(line));
	LK_TRY(count_gpus(line));
	bool configured = false;
	reading->accelerate = line->ranks.accelerate;
	reading->accelerate_flags = line->ranks.accelerate_flags;
	if (line->config != NULL || line->configured) LK_TRY(read_configured(line, &configured));
	if (!configured) LK_TRY(finish_flags(line));
	LK_TRY(launch_spread(line));
	reading->out->job->gpus = reading->out->gpus;
	if (reading->out->gpus == 0 && reading->out->gpus_assumed == 0)
		LK_TRY(lk_launch_count_gpus(reading, reading->out->job, 1, reading->usual_gpus, false));
	if (line->deepspeed != NULL) LK_TRY(lk_deepspeed_apply(reading, line->deepspeed));
	return apply_settings(line);
}

static lk_status launch_read_line(lk_reading *reading, const lk_word *words, size_t count,
                                  const lk_launch_ranks *batch) {
	struct line l = {.r = reading};
	if (batch != NULL) l.ranks = *batch;
	reading->out->job = LK_NEW(reading->arena, lk_job);
	if (reading->out->job == NULL) return lk_oom(reading->err);
	lk_megatron_init(&l.flags);
	lk_status status = launch_read_passed(&l); /* #SBATCH --export */
	if (status == LK_OK) status = launch_read_words(&l, words, count);
	if (status == LK_OK) status = finish_line(&l);
	lk_members_free(&l.settings);
	lk_vec_free(&l.environment);
	return status;
}

lk_status lk_launch_read(lk_arena *arena, int count, const char *const *words, const char *where,
                         lk_launch *out, lk_error *err) {
	lk_reading r = {
		.arena = arena, .where = where != NULL ? where : "launch line", .out = out, .err = err};
	if (count < 0 || count > LK_LAUNCH_WORDS)
		return lk_fail(err, LK_ERR_INPUT, r.where, "%d words", count);
	*out = (lk_launch){0};
	lk_word *list = LK_ARRAY(arena, lk_word, (size_t)count + 1);
	if (list == NULL) return lk_oom(err);
	for (int i = 0; i < count; i++) list[i].text = words[i];
	return launch_read_line(&r, list, (size_t)count, NULL);
}

bool lk_launch_has_flag(const char *name) {
	return lk_megatron_flag(name) != NULL;
}

lk_status lk_launch_text(lk_arena *arena, const char *text, size_t size, const char *name,
                         const lk_launch_given *given, lk_launch *out, lk_error *err) {
	lk_reading r = {.arena = arena, .where = name, .out = out, .err = err, .script = true};
	lk_words words = {0};
	lk_launch_ranks batch = {0};
	if (size > LK_LAUNCH_BYTES)
		return lk_fail(err, LK_ERR_INPUT, name, "a script of more than 4 MiB");
	char *copy = lk_arena_strndup(arena, text, size);
	if (copy == NULL) return lk_oom(err);
	if (strlen(copy) != size) {
		lk_fail(err, LK_ERR_INPUT, name, "byte %zu is NUL", strlen(copy));
		return lk_hint(err, "give a shell script");
	}
	*out = (lk_launch){0};
	if (given != NULL && given->sets != NULL && *given->sets != '\0') {
		lk_fail(err, LK_ERR_INPUT, "--set", "%s is a shell script, which has no keys", name);
		return lk_hint(err, "give --var NAME=VALUE for its variables");
	}
	lk_status status = lk_script_words(&r, copy, size, NULL, given, &words, &batch);
	if (status == LK_OK) status = launch_read_line(&r, words.at, words.count, &batch);
	lk_vec_free(&words);
	return status;
}

lk_status lk_launch_script(lk_arena *arena, const char *path, const lk_launch_given *given,
                           lk_launch *out, lk_error *err) {
	char *text;
	size_t size;
	LK_TRY(lk_stream_slurp(path, LK_LAUNCH_BYTES, &text, &size, err));
	lk_status status = lk_launch_text(arena, text, size, path, given, out, err);
	free(text);
	return status;
}

/* The launch line that a configuration stands for, where its framework is started by one. */
static lk_status launch_end_config(lk_reading *reading, lk_words *words, lk_status status) {
	if (status == LK_OK && words->count > 0)
		status = launch_read_line(reading, words->at, words->count, &reading->batch);
	else if (status == LK_OK) reading->out->job->gpus = reading->out->gpus;
	lk_vec_free(words);
	return status;
}

/* A configuration, whose framework may be started by a launch line that it stands for. */
static lk_status launch_read_config(lk_reading *reading, const char *path,
                                    const lk_launch_given *given) {
	lk_words words = {0};
	if (given != NULL && given->arg_count > 0) {
		lk_fail(reading->err, LK_ERR_INPUT, path, "a configuration takes no words after --");
		return lk_hint(reading->err, "give --set key=value");
	}
	lk_status status = lk_config_read(reading, path, given, &words);
	return launch_end_config(reading, &words, status);
}

lk_status lk_launch_config_text(lk_arena *arena, const char *text, size_t size, const char *name,
                                lk_launch *out, lk_error *err) {
	lk_reading reading = {.arena = arena, .where = name, .out = out, .err = err};
	lk_words words = {0};
	*out = (lk_launch){0};
	lk_status status = lk_config_read_text(&reading, text, size, name, NULL, &words);
	return launch_end_config(&reading, &words, status);
}

lk_status lk_launch_file(lk_arena *arena, const char *path, const lk_launch_given *given,
                         lk_launch *out, lk_error *err) {
	lk_reading reading = {.arena = arena, .where = path, .out = out, .err = err};
	char *text;
	size_t size;
	*out = (lk_launch){0};
	LK_TRY(lk_stream_slurp(path, LK_LAUNCH_BYTES, &text, &size, err));
	bool config = lk_config_is(path, text, size);
	lk_status status = config ? launch_read_config(&reading, path, given)
	                          : lk_launch_text(arena, text, size, path, given, out, err);
	free(text);
	return status;
}
