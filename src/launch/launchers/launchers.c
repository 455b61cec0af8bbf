/* launchers.c: launchers and what their options say of GPUs: torchrun (torch.distributed.run),
 * srun and sbatch, mpirun, deepspeed, accelerate; programs that start another one (bash -c, nsys,
 * numactl, containers) are passed through.
 *
 * Options that are not in the table are passed over, and so is a word that starts no program: it is
 * the value of one. */
#include "base/arena.h"
#include "base/check.h"
#include "launch/launchers/launchers.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "model/layout/job.h"

static const char *launchers_base_name(const char *word) {
	const char *slash = strrchr(word, '/');
	return slash != NULL ? slash + 1 : word;
}

/* 0 where the word is no program that is known. */
static int launchers_program(const char *word) {
	const char *base = launchers_base_name(word);
	for (const lk_launcher_program *program = lk_launcher_programs; program->name; program++)
		if (strcmp(base, program->name) == 0) return program->launcher;
	if (strncmp(base, "python", 6) == 0 && strspn(base + 6, "0123456789.") == strlen(base + 6))
		return LK_LAUNCHER_PYTHON;
	return 0;
}

bool lk_launch_nemo(const char *word) {
	return strcmp(launchers_base_name(word), "nemo") == 0;
}

static const lk_other_work swift_works[] = {{"infer", "generates texts"},
                                            {"sample", "generates texts"},
                                            {"rollout", "generates texts"},
                                            {"deploy", "serves a network"},
                                            {"app", "serves a network"},
                                            {"app-ui", "serves a network"},
                                            {"web-ui", "serves a page"},
                                            {"export", "converts checkpoints"},
                                            {"merge-lora", "converts checkpoints"},
                                            {"eval", "evaluates"},
                                            {NULL, NULL}};
static const lk_command_of commands[] = {
	{"axolotl", " train ", .configured = true},
	{"llamafactory-cli", " train ", .configured = true, .ranks = true},
	{"lmf", " train ", .configured = true},
	{"trl", " sft dpo grpo rloo kto reward ", .configured = false},
	{"automodel", " llm finetune pretrain ", .configured = true},
	{"swift", " sft pt rlhf ", .others = swift_works, .configured = true, .ranks = true,
     .spreads = true},
	{"megatron", " sft pt rlhf ", .others = swift_works, .configured = true, .ranks = true},
	{"litgpt",
     " pretrain finetune finetune_full finetune_lora finetune_adapter finetune_adapter_v2 ",
     .operand = "checkpoint_dir", .configured = true}};

/* The programs that begin a launch, as a message lists them. */
void lk_launch_starters(char *out, size_t size) {
	lk_text list = lk_text_begin(out, size);
	int seen =
		LK_LAUNCHER_WRAPPER | LK_LAUNCHER_SHELL | LK_LAUNCHER_PYTHON; /* one name a launcher */
	for (const lk_launcher_program *program = lk_launcher_programs; program->name; program++) {
		if (seen & program->launcher) continue;
		seen |= program->launcher;
		lk_text_add(&list, "%s, ", program->name);
	}
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		lk_text_add(&list, "%s, ", commands[i].name);
	lk_text_add(&list, "nemo or python");
}

const lk_command_of *lk_launch_command(const char *word, const char *next) {
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		const lk_command_of *command = &commands[i];
		if (strcmp(launchers_base_name(word), command->name) != 0) continue;
		/* these words have other meanings, too */
		bool meant = command->others == NULL || lk_launch_trains(command, next) ||
		             lk_launch_command_work(command, next) != NULL;
		return meant ? command : NULL;
	}
	return NULL;
}

bool lk_launch_trains(const lk_command_of *command, const char *next) {
	char spaced[48];
	snprintf(spaced, sizeof spaced, " %.40s ", next != NULL ? next : "");
	return next != NULL && strstr(command->trains, spaced) != NULL;
}

const char *lk_launch_command_work(const lk_command_of *command, const char *next) {
	for (const lk_other_work *other = command->others; other && other->name; other++) {
		size_t n = 0; /* '-' and '_' alike */
		while (next && next[n] &&
		       (next[n] == other->name[n] || (next[n] == '_' && other->name[n] == '-')))
			n++;
		if (next && next[n] == '\0' && other->name[n] == '\0') return other->work;
	}
	return NULL;
}

/* swift/cli/sft.py, swift.cli._megatron.rlhf: what `swift sft` and `megatron rlhf` run. */
const lk_command_of *lk_launch_command_file(const char *path, lk_arena *arena, const char **next) {
	const char *found = strstr(path, "swift/cli/");
	if (found == NULL) found = strstr(path, "swift.cli.");
	if (found == NULL || (found > path && found[-1] != '/')) return NULL;
	const char *at = found + strlen("swift/cli/"), *name = "swift";
	if (strncmp(at, "_megatron", 9) == 0 && at[9] != '\0') {
		at += 10;
		name = "megatron";
	}
	*next = lk_arena_strndup(arena, at, strcspn(at, "./"));
	return *next != NULL ? lk_launch_command(name, *next) : NULL;
}

lk_launch_own lk_launch_own_script(const char *word) {
	static const struct {
		const char *name;
		lk_launch_own own;
	} scripts[] = {{"run_pretrain.sh", LK_OWN_PRIMUS},
	               {"run_local_pretrain.sh", LK_OWN_PRIMUS},
	               {"run_slurm_pretrain.sh", LK_OWN_PRIMUS},
	               {"run_train.sh", LK_OWN_TITAN}};
	for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
		if (strcmp(launchers_base_name(word), scripts[i].name) == 0) return scripts[i].own;
	return LK_OWN_NONE;
}

bool lk_launch_starts(const char *word, const char *next) {
	int kind = launchers_program(word);
	return lk_launch_nemo(word) || lk_launch_command(word, next) != NULL ||
	       strcmp(launchers_base_name(word), "ray") == 0 ||
	       (kind != 0 && kind != LK_LAUNCHER_WRAPPER && kind != LK_LAUNCHER_SHELL) ||
	       lk_ends_in(word, ".py");
}

static lk_status unknown_value(lk_reading *reading, const char *option, const lk_word *value) {
	return lk_launch_unknown_value(reading, option, value);
}

/* A command that counts the GPUs of a node: $(nvidia-smi -L | wc -l), device_count() of PyTorch; a
 * variable with which Kubernetes tells a container how many it has. */
static bool launchers_counts_gpus(const char *text) {
	static const char *const counters[] = {"nvidia-smi", "rocm-smi", "amd-smi", "device_count",
	                                       "CONTAINER_RESOURCE_GPU"};
	for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
		if (strstr(text, counters[i]) != NULL) return true;
	return false;
}

/* "8", "gpu:8", "gpu:h100:8", "h100:8", "1:4" (elastic, the most), "auto" (not given). */
static lk_status launchers_read_count(lk_reading *reading, const char *option, const lk_word *value,
                                      bool fail, int *out) {
	if (value->unknown != NULL && launchers_counts_gpus(value->text))
		return lk_launch_assume(reading, "all GPUs of a node, which a command counts (--gpus)");
	if (value->argument)
		return lk_launch_note(reading, option,
		                      "an argument of the script: the GPUs are those of --gpus, or of a "
		                      "node (arguments after --)");
	if (value->unknown != NULL) return fail ? unknown_value(reading, option, value) : LK_OK;
	const char *colon = strrchr(value->text, ':'),
			   *number = colon != NULL ? colon + 1 : value->text;
	if (!isdigit((unsigned char)*number)) return LK_OK;
	long long count;
	LK_TRY(lk_parse_int(number, 1, LK_JOB_GPUS, &count, option, reading->err));
	*out = (int)count;
	/* "gpu:h100:8", "h100:8": the kind between the colons */
	const char *kind =
		colon != NULL && !isdigit((unsigned char)value->text[0]) ? value->text : NULL;
	if (kind != NULL && strncmp(kind, "gpu:", 4) == 0) kind += 4;
	if (kind != NULL && kind < colon)
		LK_TRY(lk_launch_device(reading, kind, (size_t)(colon - kind)));
	if (colon != NULL && isdigit((unsigned char)value->text[0]) &&
	    strtol(value->text, NULL, 10) != count)
		return lk_launch_note(
			reading, option,
			"the number of nodes may change while the job runs; the largest is taken");
	return LK_OK;
}

/* "localhost:0,1,2,3@node2:0,1": the listed GPUs; a node without a list is not counted. */
static void read_listed(const char *text, lk_launch_ranks *ranks) {
	int total = 0;
	for (const char *p = text; *p != '\0'; p++) {
		if (*p == ':') total++;
		if (*p == ',' && total < LK_JOB_GPUS) total++;
	}
	if (strchr(text, ':') != NULL) ranks->total = total;
}

/* Lines of settings after those that there are. */
static lk_status ranks_add_settings(lk_reading *reading, const char *text, lk_launch_ranks *ranks) {
	const char *before = ranks->settings ? ranks->settings : "";
	ranks->settings = lk_arena_printf(reading->arena, "%s%s\n", before, text);
	return ranks->settings ? LK_OK : lk_oom(reading->err);
}

static lk_status ranks_add_export(lk_reading *reading, const char *list, lk_launch_ranks *ranks) {
	char *lines = lk_arena_strdup(reading->arena, list);
	if (lines == NULL) return lk_oom(reading->err);
	for (char *c = lines; *c; c++)
		if (*c == ',') *c = '\n';
	return ranks_add_settings(reading, lines, ranks);
}

static lk_status launchers_apply(lk_reading *reading, lk_option_means means, const char *option,
                                 const lk_word *value, lk_launch_ranks *ranks) {
	switch (means) {
	case LK_OPTION_PER_NODE:
		return launchers_read_count(reading, option, value, true, &ranks->per_node);
	case LK_OPTION_NODES:
		return launchers_read_count(reading, option, value, ranks->nodes == 0, &ranks->nodes);
	case LK_OPTION_TOTAL: return launchers_read_count(reading, option, value, true, &ranks->total);
	case LK_OPTION_TASKS_PER_NODE:
		return launchers_read_count(reading, option, value, true, &ranks->tasks_per_node);
	case LK_OPTION_LISTED:
		if (value->unknown != NULL) return unknown_value(reading, option, value);
		read_listed(value->text, ranks);
		return LK_OK;
	case LK_OPTION_CONFIG:
		if (value->unknown != NULL) return unknown_value(reading, option, value);
		ranks->accelerate = value->text;
		return LK_OK;
	case LK_OPTION_EXPORT: return ranks_add_export(reading, value->text, ranks);
	default: return LK_OK;
	}
}

/* By name, '-' and '_' alike; NULL if unknown. Settings of accelerate's file are apart. */
static const lk_launcher_option *find_option(int kind, const char *name, size_t length,
                                             bool setting) {
	for (const lk_launcher_option *option = lk_launcher_options; option->name; option++) {
		const char *known = option->name;
		if (!(option->launchers & kind) || strlen(known) != length) continue;
		if ((option->means == LK_OPTION_SETTING) != setting) continue;
		size_t n = 0;
		while (n < length && (name[n] == known[n] || (name[n] == '-' && known[n] == '_'))) n++;
		if (n == length) return option;
	}
	return NULL;
}

/* One option of a launcher as written: "--nnodes=4", "--nnodes 4", "-N4". */
struct option {
	const lk_launcher_option *row; /* NULL: unknown */
	lk_word value;
	bool needs_next; /* the value is the next word */
};

static struct option split_option(int kind, const lk_word *word) {
	LK_ASSERT(word->text[0] == '-');
	const char *name = word->text + strspn(word->text, "-"), *equals = strchr(name, '=');
	size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
	struct option o = {.row = find_option(kind, name, length, false),
	                   .value = {.text = equals != NULL ? equals + 1 : "",
	                             .unknown = word->unknown,
	                             .argument = word->argument}};
	bool glued =
		o.row == NULL && word->text[1] != '-' && length > 1 && isdigit((unsigned char)name[1]);
	if (glued) {
		o.row = find_option(kind, name, 1, false);
		o.value.text = name + 1;
	}
	o.needs_next = o.row != NULL && equals == NULL && !glued;
	return o;
}

bool lk_launch_measures(const char *program) {
	const char *base = launchers_base_name(program);
	if (base == program) return false; /* it may be the value of an option */
	return lk_ends_in(base, "_perf") || lk_ends_in(base, "_latency") || lk_ends_in(base, "_bw") ||
	       strncmp(base, "shmem_", 6) == 0 || strncmp(base, "osu_", 4) == 0;
}

/* Whether a word that is no option is what the launcher starts. torchrun, deepspeed and python know
 * all their options; with the others it may be the value of one that is not in the table. */
static bool is_target(int kind, const lk_word *word, const lk_word *next) {
	if ((kind & (LK_LAUNCHER_TORCHRUN | LK_LAUNCHER_COMPOSER | LK_LAUNCHER_DEEPSPEED |
	             LK_LAUNCHER_PYTHON | LK_LAUNCHER_SHELL)) != 0 ||
	    word->unknown != NULL)
		return true;
	return launchers_program(word->text) != 0 ||
	       lk_launch_command(word->text, next != NULL ? next->text : NULL) != NULL ||
	       lk_launch_measures(word->text) || lk_ends_in(word->text, ".py") ||
	       lk_launch_setting(word);
}

/* The key of a configuration that a flag of accelerate launch states
 * (accelerate/commands/launch.py), and in *value what a flag without one means; NULL: it says
 * nothing of the layout, or out of memory. */
static const char *accelerate_key(lk_arena *arena, const char *flag, const char **value) {
	char name[96];
	const lk_launcher_option *row = find_option(LK_LAUNCHER_ACCELERATE, flag, strlen(flag), true);
	if (row != NULL && row->value != NULL) *value = row->value;
	if (row != NULL) return row->key;
	lk_copy(name, sizeof name, flag);
	for (char *c = name; *c; c++)
		if (*c == '-') *c = '_';
	if (strncmp(name, "fsdp_", 5) == 0) return lk_arena_printf(arena, "fsdp_config.%s", name);
	bool mesh = strncmp(name, "parallelism_config_", 19) == 0;
	return mesh ? lk_arena_printf(arena, "parallelism_config.%s", name) : NULL;
}

/* --fsdp_offload_params true, --use_fsdp: flags that override accelerate's file. *used: the next
 * word is the value. */
static lk_status launcher_accelerate_flag(lk_reading *reading, const lk_word *words, size_t count,
                                          lk_launch_ranks *ranks, bool *used) {
	char name[96];
	const char *text = words[0].text + strspn(words[0].text, "-"), *equals = strchr(text, '='),
			   *value = "true";
	snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
	const char *key = accelerate_key(reading->arena, name, &value);
	*used = false;
	if (key == NULL) return LK_OK;
	lk_word given = {.text = equals != NULL ? equals + 1 : value, .unknown = words[0].unknown};
	bool next = equals == NULL && count > 1 && words[1].text[0] != '-' &&
	            (words[1].unknown != NULL ||
	             !is_target(LK_LAUNCHER_ACCELERATE, &words[1], count > 2 ? &words[2] : NULL));
	*used = next && strcmp(value, "true") == 0;
	if (*used) given = words[1];
	if (given.unknown != NULL) return unknown_value(reading, name, &given);
	const char *before = ranks->accelerate_flags != NULL ? ranks->accelerate_flags : "";
	ranks->accelerate_flags = lk_arena_printf(reading->arena, "%s%s=%s\n", before, key, given.text);
	return ranks->accelerate_flags != NULL ? lk_launch_seen(reading, name) : lk_oom(reading->err);
}

/* Whether a launcher's word whose text is not known is an option or a value, because the program
 * comes later: srun ${AUTO_RESUME} -l torchrun. */
static bool launchers_follow(int kind, const lk_word *words, size_t count) {
	if (words[0].unknown == NULL ||
	    (kind & (LK_LAUNCHER_TORCHRUN | LK_LAUNCHER_COMPOSER | LK_LAUNCHER_DEEPSPEED |
	             LK_LAUNCHER_PYTHON | LK_LAUNCHER_SHELL)) != 0)
		return false;
	for (size_t i = 1; i < count; i++)
		if (words[i].unknown == NULL && words[i].text[0] != '-' &&
		    is_target(kind, &words[i], i + 1 < count ? &words[i + 1] : NULL))
			return true;
	return false;
}

/* The options of one launcher; *used counts words. *argument: what python -m or bash -c starts. */
static lk_status launcher_options(lk_reading *reading, int kind, const lk_word *words, size_t count,
                                  lk_launch_ranks *ranks, size_t *used, const lk_word **argument) {
	LK_ASSERT(kind != 0);
	size_t i = 0;
	*argument = NULL;
	for (; i < count && *argument == NULL; i++) {
		if (strcmp(words[i].text, "--") == 0) continue;
		if (words[i].text[0] != '-') {
			if (is_target(kind, &words[i], i + 1 < count ? &words[i + 1] : NULL) &&
			    !launchers_follow(kind, words + i, count - i))
				break;
			continue;
		}
		struct option o = split_option(kind, &words[i]);
		bool value = false;
		if (o.row == NULL && kind == LK_LAUNCHER_ACCELERATE)
			LK_TRY(launcher_accelerate_flag(reading, words + i, count - i, ranks, &value));
		i += value;
		if (o.row == NULL) continue;
		if (o.needs_next && ++i >= count) break;
		if (o.needs_next) o.value = words[i];
		if (o.row->means == LK_OPTION_PAIR && !lk_launch_setting(&o.value)) {
			const char *set = i + 1 >= count ? NULL
			                                 : lk_arena_printf(reading->arena, "%s=%s",
			                                                   o.value.text, words[i + 1].text);
			if (i + 1 >= count) break;
			if (set == NULL) return lk_oom(reading->err);
			LK_TRY(ranks_add_settings(reading, set, ranks));
			i++;
		} else if (o.row->means == LK_OPTION_PAIR)
			LK_TRY(ranks_add_settings(reading, o.value.text, ranks));
		else if (o.row->means == LK_OPTION_ARGUMENT) *argument = &words[i];
		else LK_TRY(launchers_apply(reading, o.row->means, o.row->name, &o.value, ranks));
	}
	*used = i < count ? i : count;
	return LK_OK;
}

lk_status lk_launcher_sbatch(lk_reading *reading, const char *line, lk_launch_ranks *ranks) {
	lk_word words[64];
	size_t count = 0, used;
	const lk_word *argument;
	char *text = lk_arena_strdup(reading->arena, line), *save = NULL;
	if (text == NULL) return lk_oom(reading->err);
	for (char *at = strtok_r(text, " \t\r", &save); at != NULL && count < 64;
	     at = strtok_r(NULL, " \t\r", &save))
		words[count++] = (lk_word){.text = at};
	return launcher_options(reading, LK_LAUNCHER_SLURM, words, count, ranks, &used, &argument);
}

bool lk_launch_setting(const lk_word *word) {
	size_t n = 0;
	while (isalnum((unsigned char)word->text[n]) || word->text[n] == '_') n++;
	return n > 0 && !isdigit((unsigned char)word->text[0]) && word->text[n] == '=';
}

const char *lk_launch_other_work(const char *program) {
	static const struct {
		const char *part, *work;
	} parts[] = {{"param_only", "converts checkpoints"},
	             {"checkpoint_conversion", "converts checkpoints"},
	             {"_ckpt", "converts checkpoints"},
	             {"decode", "generates texts"},
	             {"_checker", "evaluates"},
	             {"eval_assert", "evaluates"},
	             {"generat", "generates texts"},
	             {"inference", "generates texts"},
	             {"server", "serves a network"},
	             {"convert", "converts checkpoints"},
	             {"export", "converts checkpoints"},
	             {"quantize", "converts checkpoints"},
	             {"prune", "converts checkpoints"},
	             {"to_universal", "converts checkpoints"},
	             {"model_merger", "converts checkpoints"},
	             {"lora_combiner", "converts checkpoints"},
	             {"interactive_chat", "serves a network"},
	             {"serve_", "serves a network"},
	             {"preprocess", "prepares data"},
	             {"mmlu", "evaluates"},
	             {"validate", "evaluates"},
	             {"_eval", "evaluates"},
	             {"judge_", "evaluates"},
	             {"evaluat", "evaluates"},
	             {"msdp", "generates texts"},
	             {"merge_datasets", "prepares data"},
	             {"checkpoint/util", "converts checkpoints"},
	             {"lm_eval", "evaluates"},
	             {"benchmark_", "measures"},
	             {"roundtrip", "converts checkpoints"},
	             {"conversion/", "converts checkpoints"},
	             {"verify_", "evaluates"},
	             {"prepare_", "prepares data"},
	             {"download_", "prepares data"},
	             {"pack_data", "prepares data"}};
	const char *base = launchers_base_name(program);
	bool module = base == program && !lk_ends_in(base, ".py") && strchr(base, '.') != NULL;
	if (module && strstr(base, "train") != NULL) /* verl.trainer.main_generation */
		base = strrchr(base, '.') + 1;
	if (strncmp(base, "compare_", 8) == 0) return "compares runs";
	if (strstr(base, "train") != NULL) return NULL;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (strcasestr(strchr(parts[i].part, '/') != NULL ? program : base, parts[i].part) != NULL)
			return parts[i].work;
	return NULL;
}

/* A file that the script wrote, as the text of a shell; NULL: it wrote none of that name. */
static lk_status launcher_written(lk_reading *reading, const char *name, const lk_word **out) {
	const lk_inner_file *file = reading->files;
	while (file != NULL && strcmp(file->name, name) != 0) file = file->next;
	if (file == NULL) return LK_OK;
	lk_word *text = LK_NEW(reading->arena, lk_word);
	if (text == NULL) return lk_oom(reading->err);
	text->text = file->text;
	*out = text;
	return LK_OK;
}

lk_status lk_launcher_read(lk_reading *reading, const lk_word *words, size_t count,
                           lk_launch_ranks *ranks, lk_launched *out) {
	const lk_word *argument;
	size_t options_used;
	int kind = count > 0 ? launchers_program(words[0].text) : 0;
	*out = (lk_launched){0};
	if (kind == 0) return LK_OK;
	lk_launch_ranks own = {.nodes = ranks->nodes};
	LK_TRY(launcher_options(reading, kind, words + 1, count - 1, &own, &options_used, &argument));
	out->used = 1 + options_used;
	ranks->nodes = own.nodes;
	if (own.per_node > 0 || own.total > 0)
		ranks->total = own.total; /* the inner launcher knows better */
	if (own.per_node > 0) ranks->per_node = own.per_node;
	if (own.tasks_per_node > 0) ranks->tasks_per_node = own.tasks_per_node;
	if (own.accelerate != NULL) ranks->accelerate = own.accelerate;
	if (own.accelerate_flags != NULL) ranks->accelerate_flags = own.accelerate_flags;
	if (own.settings != NULL) ranks->settings = own.settings; /* an outer one's are read by now */
	if (kind == LK_LAUNCHER_SHELL) {
		out->script = argument;
		if (argument != NULL || out->used >= count) return LK_OK;
		LK_TRY(launcher_written(reading, words[out->used].text, &out->script));
		if (out->script != NULL) return LK_OK;
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        "the training is launched by another script, %s", words[out->used].text);
		return lk_hint(reading->err, "give that script");
	}
	out->alone = kind == LK_LAUNCHER_PYTHON;
	if (argument != NULL && launchers_program(argument->text) == 0) out->program = argument;
	if (argument != NULL && launchers_program(argument->text) != 0)
		out->used--;                                /* python -m torch.distributed.run */
	LK_ASSERT(out->used > 0 && out->used <= count); /* so that reading goes on */
	bool direct =
		(kind & (LK_LAUNCHER_TORCHRUN | LK_LAUNCHER_DEEPSPEED | LK_LAUNCHER_PYTHON)) != 0 &&
		argument == NULL && out->used < count;
	int next = direct && kind != LK_LAUNCHER_PYTHON ? launchers_program(words[out->used].text) : 0;
	if (direct && next != LK_LAUNCHER_PYTHON && next != LK_LAUNCHER_SHELL)
		out->program = &words[out->used++];
	return LK_OK;
}
