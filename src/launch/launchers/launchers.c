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

typedef enum launcher {
	TORCHRUN = 1,
	SLURM = 2,
	MPI = 4,
	DEEPSPEED = 8,
	ACCELERATE = 16,
	PYTHON = 32,
	WRAPPER = 64,
	SHELL = 128,
	COMPOSER = 256
} launcher;

static const struct {
	const char *name;
	launcher kind;
} programs[] = {
	{"torchrun", TORCHRUN},
	{"srun", SLURM},
	{"mpirun", MPI},
	{"mpiexec", MPI},
	{"mpiexec.hydra", MPI},
	{"orterun", MPI},
	{"prterun", MPI},
	{"deepspeed", DEEPSPEED},
	{"accelerate", ACCELERATE},
	{"accelerate-launch", ACCELERATE},
	{"composer", COMPOSER},
	{"composer.cli.launcher", COMPOSER},
	{"torch.distributed.run", TORCHRUN},
	{"torch.distributed.launch", TORCHRUN},
	{"deepspeed.launcher.runner", DEEPSPEED},
	{"accelerate.commands.launch", ACCELERATE},
	{"env", WRAPPER},
	{"nohup", WRAPPER},
	{"exec", WRAPPER},
	{"time", WRAPPER},
	{"stdbuf", WRAPPER},
	{"numactl", WRAPPER},
	{"taskset", WRAPPER},
	{"nice", WRAPPER},
	{"timeout", WRAPPER},
	{"nsys", WRAPPER},
	{"ncu", WRAPPER},
	{"singularity", WRAPPER},
	{"apptainer", WRAPPER},
	{"docker", WRAPPER},
	{"podman", WRAPPER},
	{"sudo", WRAPPER},
	{"uv", WRAPPER},
	{"xargs", WRAPPER},
	{"bash", SHELL},
	{"sh", SHELL},
	{"zsh", SHELL},
};

typedef enum meaning {
	PER_NODE,
	NODES,
	TOTAL,
	TASKS_PER_NODE,
	LISTED,
	VALUE,
	CONFIG,  /* of accelerate */
	EXPORT,  /* ALL,NAME=value,... for the environment of what is started */
	PAIR,    /* NAME value, two words, likewise */
	ARGUMENT /* what is started */
} meaning;

static const struct {
	int launchers;
	const char *name;
	meaning means;
} options[] = {
	{TORCHRUN, "nproc_per_node", PER_NODE},
	{TORCHRUN, "nnodes", NODES},
	{TORCHRUN, "node_rank", VALUE},
	{TORCHRUN, "master_addr", VALUE},
	{TORCHRUN, "master_port", VALUE},
	{TORCHRUN, "rdzv_backend", VALUE},
	{TORCHRUN, "rdzv_endpoint", VALUE},
	{TORCHRUN, "rdzv_id", VALUE},
	{TORCHRUN, "rdzv_conf", VALUE},
	{TORCHRUN, "max_restarts", VALUE},
	{TORCHRUN, "monitor_interval", VALUE},
	{TORCHRUN, "start_method", VALUE},
	{TORCHRUN, "role", VALUE},
	{TORCHRUN, "log_dir", VALUE},
	{TORCHRUN, "redirects", VALUE},
	{TORCHRUN, "r", VALUE},
	{TORCHRUN, "tee", VALUE},
	{TORCHRUN, "t", VALUE},
	{TORCHRUN, "local_addr", VALUE},
	{TORCHRUN, "logs_specs", VALUE},
	{TORCHRUN, "local_ranks_filter", VALUE},
	{TORCHRUN, "local_ranks_stdout", VALUE},
	{COMPOSER, "n", PER_NODE},
	{COMPOSER, "nproc", PER_NODE},
	{COMPOSER, "world_size", TOTAL},
	{COMPOSER, "node_rank", VALUE},
	{COMPOSER, "base_rank", VALUE},
	{COMPOSER, "master_addr", VALUE},
	{COMPOSER, "master_port", VALUE},
	{SLURM, "N", NODES},
	{SLURM, "nodes", NODES},
	{SLURM, "n", TOTAL},
	{SLURM, "ntasks", TOTAL},
	{SLURM, "ntasks_per_node", TASKS_PER_NODE},
	{SLURM, "tasks_per_node", TASKS_PER_NODE},
	{SLURM, "gpus_per_node", PER_NODE},
	{SLURM, "gres", PER_NODE},
	{SLURM, "container_image", VALUE},
	{SLURM, "container_mounts", VALUE},
	{SLURM, "container_name", VALUE},
	{SLURM, "container_workdir", VALUE},
	{SLURM, "container_env", VALUE},
	{SLURM, "output", VALUE},
	{SLURM, "o", VALUE},
	{SLURM, "error", VALUE},
	{SLURM, "e", VALUE},
	{SLURM, "job_name", VALUE},
	{SLURM, "J", VALUE},
	{SLURM, "partition", VALUE},
	{SLURM, "p", VALUE},
	{SLURM, "account", VALUE},
	{SLURM, "A", VALUE},
	{SLURM, "time", VALUE},
	{SLURM, "t", VALUE},
	{SLURM, "mpi", VALUE},
	{SLURM, "cpus_per_task", VALUE},
	{SLURM, "c", VALUE},
	{SLURM, "cpu_bind", VALUE},
	{SLURM, "chdir", VALUE},
	{SLURM, "D", VALUE},
	{SLURM, "mem", VALUE},
	{SLURM, "exclude", VALUE},
	{SLURM, "x", VALUE},
	{SLURM, "nodelist", VALUE},
	{SLURM, "w", VALUE},
	{SLURM, "qos", VALUE},
	{SLURM, "q", VALUE},
	{SLURM, "reservation", VALUE},
	{SLURM, "constraint", VALUE},
	{SLURM, "C", VALUE},
	{SLURM, "hint", VALUE},
	{SLURM, "distribution", VALUE},
	{SLURM, "m", VALUE},
	{SLURM, "dependency", VALUE},
	{SLURM, "d", VALUE},
	{SLURM, "input", VALUE},
	{SLURM, "i", VALUE},
	{SLURM, "wait", VALUE},
	{SLURM, "W", VALUE},
	{SLURM, "comment", VALUE},
	{SLURM, "mail_type", VALUE},
	{SLURM, "mail_user", VALUE},
	{SLURM, "signal", VALUE},
	{SLURM, "network", VALUE},
	{SLURM, "accel_bind", VALUE},
	{SLURM, "gpu_bind", VALUE},
	{SLURM, "licenses", VALUE},
	{SLURM, "L", VALUE},
	{SLURM, "array", VALUE},
	{SLURM, "a", VALUE},
	{SLURM, "G", TOTAL},
	{SLURM, "gpus", TOTAL},
	{SLURM, "export", EXPORT},
	{MPI, "genv", PAIR},
	{MPI, "env", PAIR},
	{MPI, "np", TOTAL},
	{MPI, "n", TOTAL},
	{MPI, "c", TOTAL},
	{MPI, "N", TASKS_PER_NODE},
	{MPI, "npernode", TASKS_PER_NODE},
	{MPI, "ppn", TASKS_PER_NODE},
	{DEEPSPEED, "num_gpus", PER_NODE},
	{DEEPSPEED, "num_nodes", NODES},
	{DEEPSPEED, "include", LISTED},
	{DEEPSPEED, "i", LISTED},
	{DEEPSPEED, "exclude", VALUE},
	{DEEPSPEED, "e", VALUE},
	{DEEPSPEED, "hostfile", VALUE},
	{DEEPSPEED, "H", VALUE},
	{DEEPSPEED, "master_port", VALUE},
	{DEEPSPEED, "master_addr", VALUE},
	{DEEPSPEED, "launcher", VALUE},
	{DEEPSPEED, "launcher_args", VALUE},
	{DEEPSPEED, "node_rank", VALUE},
	{DEEPSPEED, "ssh_port", VALUE},
	{DEEPSPEED, "autotuning", VALUE},
	{ACCELERATE, "num_processes", TOTAL},
	{ACCELERATE, "config_file", CONFIG},
	{ACCELERATE, "num_machines", VALUE},
	{ACCELERATE, "machine_rank", VALUE},
	{ACCELERATE, "main_process_ip", VALUE},
	{ACCELERATE, "main_process_port", VALUE},
	{PYTHON, "W", VALUE},
	{PYTHON, "X", VALUE},
	{PYTHON | ACCELERATE, "m", ARGUMENT},
	{SHELL, "c", ARGUMENT},
	{SHELL, "lc", ARGUMENT},
	{SHELL, "ec", ARGUMENT},
	{SHELL, "xc", ARGUMENT},
	{SHELL, "o", VALUE},
};

static const char *launchers_base_name(const char *word) {
	const char *slash = strrchr(word, '/');
	return slash != NULL ? slash + 1 : word;
}

/* 0 where the word is no program that is known. */
static int launchers_program(const char *word) {
	const char *base = launchers_base_name(word);
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
		if (strcmp(base, programs[i].name) == 0) return programs[i].kind;
	if (strncmp(base, "python", 6) == 0 && strspn(base + 6, "0123456789.") == strlen(base + 6))
		return PYTHON;
	return 0;
}

bool lk_launch_nemo(const char *word) {
	return strcmp(launchers_base_name(word), "nemo") == 0;
}

const lk_command_of *lk_launch_command(const char *word) {
	static const lk_command_of commands[] = {{"axolotl", " train "},
	                                         {"llamafactory-cli", " train "},
	                                         {"lmf", " train "},
	                                         {"trl", " sft dpo grpo rloo "},
	                                         {"automodel", " llm finetune pretrain "}};
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		if (strcmp(launchers_base_name(word), commands[i].name) == 0) return &commands[i];
	return NULL;
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

bool lk_launch_starts(const char *word) {
	int kind = launchers_program(word);
	return lk_launch_nemo(word) || lk_launch_command(word) != NULL || strcmp(word, "ray") == 0 ||
	       (kind != 0 && kind != WRAPPER && kind != SHELL) || lk_ends_in(word, ".py");
}

static lk_status unknown_value(lk_reading *reading, const char *option, const lk_word *value) {
	return lk_launch_unknown_value(reading, option, value);
}

/* A command that counts the GPUs of a node: $(nvidia-smi -L | wc -l), device_count() of PyTorch. */
static bool launchers_counts_gpus(const char *text) {
	static const char *const counters[] = {"nvidia-smi", "rocm-smi", "amd-smi", "device_count"};
	for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
		if (strstr(text, counters[i]) != NULL) return true;
	return false;
}

/* "8", "gpu:8", "gpu:h100:8", "h100:8", "1:4" (elastic, the most), "auto" (not given). */
static lk_status launchers_read_count(lk_reading *reading, const char *option, const lk_word *value,
                                      bool fail, int *out) {
	if (value->unknown != NULL && launchers_counts_gpus(value->text))
		return lk_launch_assume(reading, "all GPUs of a node, which a command counts (--gpus)");
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

static lk_status launchers_apply(lk_reading *reading, meaning means, const char *option,
                                 const lk_word *value, lk_launch_ranks *ranks) {
	switch (means) {
	case PER_NODE: return launchers_read_count(reading, option, value, true, &ranks->per_node);
	case NODES:
		return launchers_read_count(reading, option, value, ranks->nodes == 0, &ranks->nodes);
	case TOTAL: return launchers_read_count(reading, option, value, true, &ranks->total);
	case TASKS_PER_NODE:
		return launchers_read_count(reading, option, value, true, &ranks->tasks_per_node);
	case LISTED:
		if (value->unknown != NULL) return unknown_value(reading, option, value);
		read_listed(value->text, ranks);
		return LK_OK;
	case CONFIG:
		if (value->unknown != NULL) return unknown_value(reading, option, value);
		ranks->accelerate = value->text;
		return LK_OK;
	case EXPORT: return ranks_add_export(reading, value->text, ranks);
	default: return LK_OK;
	}
}

/* By name, '-' and '_' alike; -1 if unknown. */
static int find_option(int kind, const char *name, size_t length) {
	for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
		const char *known = options[i].name;
		if ((options[i].launchers & kind) == 0 || strlen(known) != length) continue;
		size_t n = 0;
		while (n < length && (name[n] == known[n] || (name[n] == '-' && known[n] == '_'))) n++;
		if (n == length) return (int)i;
	}
	return -1;
}

/* One option of a launcher as written: "--nnodes=4", "--nnodes 4", "-N4". */
struct option {
	int at; /* in options, -1 unknown */
	lk_word value;
	bool needs_next; /* the value is the next word */
};

static struct option split_option(int kind, const lk_word *word) {
	LK_ASSERT(word->text[0] == '-');
	const char *name = word->text + strspn(word->text, "-"), *equals = strchr(name, '=');
	size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
	struct option o = {
		.at = find_option(kind, name, length),
		.value = {.text = equals != NULL ? equals + 1 : "", .unknown = word->unknown}};
	bool glued = o.at < 0 && word->text[1] != '-' && length > 1 && isdigit((unsigned char)name[1]);
	if (glued) {
		o.at = find_option(kind, name, 1);
		o.value.text = name + 1;
	}
	o.needs_next = o.at >= 0 && equals == NULL && !glued;
	return o;
}

/* Whether a word that is no option is what the launcher starts. torchrun, deepspeed and python know
 * all their options; with the others it may be the value of one that is not in the table. */
static bool is_target(int kind, const lk_word *word) {
	if ((kind & (TORCHRUN | COMPOSER | DEEPSPEED | PYTHON | SHELL)) != 0 || word->unknown != NULL)
		return true;
	return launchers_program(word->text) != 0 || lk_launch_command(word->text) != NULL ||
	       lk_ends_in(word->text, ".py") || lk_launch_setting(word);
}

/* --fsdp_offload_params true, --use_fsdp: flags that override accelerate's file. *used: the next
 * word is the value. */
static lk_status launcher_accelerate_flag(lk_reading *reading, const lk_word *words, size_t count,
                                          lk_launch_ranks *ranks, bool *used) {
	char name[96];
	const char *text = words[0].text + strspn(words[0].text, "-"), *equals = strchr(text, '='),
			   *value = "true";
	snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
	const char *key = lk_accelerate_key(reading->arena, name, &value);
	*used = false;
	if (key == NULL) return LK_OK;
	lk_word given = {.text = equals != NULL ? equals + 1 : value, .unknown = words[0].unknown};
	bool next = equals == NULL && count > 1 && words[1].text[0] != '-' &&
	            (words[1].unknown != NULL || !is_target(ACCELERATE, &words[1]));
	*used = next && strcmp(value, "true") == 0;
	if (*used) given = words[1];
	if (given.unknown != NULL) return unknown_value(reading, name, &given);
	const char *before = ranks->accelerate_flags != NULL ? ranks->accelerate_flags : "";
	ranks->accelerate_flags = lk_arena_printf(reading->arena, "%s%s=%s\n", before, key, given.text);
	return ranks->accelerate_flags != NULL ? lk_launch_seen(reading, name) : lk_oom(reading->err);
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
			if (is_target(kind, &words[i])) break;
			continue;
		}
		struct option o = split_option(kind, &words[i]);
		bool value = false;
		if (o.at < 0 && kind == ACCELERATE)
			LK_TRY(launcher_accelerate_flag(reading, words + i, count - i, ranks, &value));
		i += value;
		if (o.at < 0) continue;
		if (o.needs_next && ++i >= count) break;
		if (o.needs_next) o.value = words[i];
		if (options[o.at].means == PAIR && !lk_launch_setting(&o.value)) {
			const char *set = i + 1 >= count ? NULL
			                                 : lk_arena_printf(reading->arena, "%s=%s",
			                                                   o.value.text, words[i + 1].text);
			if (i + 1 >= count) break;
			if (set == NULL) return lk_oom(reading->err);
			LK_TRY(ranks_add_settings(reading, set, ranks));
			i++;
		} else if (options[o.at].means == PAIR)
			LK_TRY(ranks_add_settings(reading, o.value.text, ranks));
		else if (options[o.at].means == ARGUMENT) *argument = &words[i];
		else
			LK_TRY(
				launchers_apply(reading, options[o.at].means, options[o.at].name, &o.value, ranks));
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
	return launcher_options(reading, SLURM, words, count, ranks, &used, &argument);
}

bool lk_launch_setting(const lk_word *word) {
	size_t n = 0;
	while (isalnum((unsigned char)word->text[n]) || word->text[n] == '_') n++;
	return n > 0 && !isdigit((unsigned char)word->text[0]) && word->text[n] == '=';
}

const char *lk_launch_other_work(const char *program) {
	static const struct {
		const char *part, *work;
	} parts[] = {{"generat", "generates texts"},
	             {"inference", "generates texts"},
	             {"server", "serves a network"},
	             {"convert", "converts checkpoints"},
	             {"export", "converts checkpoints"},
	             {"quantize", "converts checkpoints"},
	             {"prune", "converts checkpoints"},
	             {"preprocess", "prepares data"},
	             {"mmlu", "evaluates"},
	             {"validate", "evaluates"},
	             {"evaluat", "evaluates"},
	             {"msdp", "generates texts"},
	             {"merge_datasets", "prepares data"},
	             {"checkpoint/util", "converts checkpoints"},
	             {"lm_eval", "evaluates"},
	             {"benchmark_", "measures"}};
	const char *base = strrchr(program, '/') != NULL ? strrchr(program, '/') + 1 : program;
	if (strstr(base, "train") != NULL) return NULL;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (strcasestr(strchr(parts[i].part, '/') != NULL ? program : base, parts[i].part) != NULL)
			return parts[i].work;
	return NULL;
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
	if (kind == SHELL) {
		out->script = argument;
		if (argument != NULL || out->used >= count) return LK_OK;
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        "the training is launched by another script, %s", words[out->used].text);
		return lk_hint(reading->err, "give that script");
	}
	if (argument != NULL && launchers_program(argument->text) == 0) out->program = argument;
	if (argument != NULL && launchers_program(argument->text) != 0)
		out->used--;                                /* python -m torch.distributed.run */
	LK_ASSERT(out->used > 0 && out->used <= count); /* so that reading goes on */
	bool direct =
		(kind & (TORCHRUN | DEEPSPEED | PYTHON)) != 0 && argument == NULL && out->used < count;
	if (direct && !(kind != PYTHON && launchers_program(words[out->used].text) == PYTHON))
		out->program = &words[out->used++];
	return LK_OK;
}
