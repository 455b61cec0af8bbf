/* script.c: reads the shell script that launches a training: variables, arrays, conditions that
 * texts decide, and the last command that starts a launcher or python. Nothing is executed.
 *
 * A command that runs as a program of its own cannot change a variable, so it is passed over; what
 * can (source, eval, read, functions, loops, case) is followed. In a branch or loop body whose
 * execution is not certain, what is assigned becomes unknown; what would be added to a list is left
 * out, and an uncertain launch is taken where there is no other, and both are said. */
#include "base/arena.h"
#include "base/text.h"
#include "launch/launch.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How certain it is that the present line runs. */
static lk_truth script_runs(const lk_shell *shell) {
	lk_truth all = LK_SHELL_TRUE;
	for (size_t i = 0; i < shell->blocks.count; i++) {
		const lk_shell_block *block = &shell->blocks.at[i];
		lk_truth one = block->taken ? LK_SHELL_FALSE : block->truth;
		if (one == LK_SHELL_TRUE && block->doubtful) one = LK_SHELL_UNKNOWN;
		if (one == LK_SHELL_FALSE) return LK_SHELL_FALSE;
		if (one == LK_SHELL_UNKNOWN) all = LK_SHELL_UNKNOWN;
	}
	return all;
}

/* ---- commands ---- */

static bool script_among(const lk_raw *raw, const char *const *names) {
	for (; *names != NULL; names++)
		if (lk_shell_raw_is(raw, *names)) return true;
	return false;
}

/* Programs that are often given the name of a launcher or a script as an argument. */
static const char *const harmless[] = {
	"echo",     "printf", "cd",      "pushd",  "popd",  "mkdir", "rm",       "cp",
	"mv",       "ln",     "ls",      "cat",    "touch", "chmod", "sleep",    "date",
	"set",      "shopt",  "ulimit",  "module", "ml",    "conda", "mamba",    "nvidia-smi",
	"hostname", "pwd",    "wait",    "trap",   "true",  ":",     "tee",      "pip",
	"pip3",     "git",    "wget",    "curl",   "tar",   "which", "type",     "command",
	"test",     "[",      "[[",      "false",  "kill",  "pkill", "grep",     "sed",
	"awk",      "find",   "head",    "tail",   "sort",  "wandb", "scontrol", "sinfo",
	"squeue",   "apt",    "apt-get", "umask",  "hash",  "]]",    NULL,
};

/* What a script is read for: the words of its last launch command, and what its batch options say.
 */
struct launch_sought {
	lk_reading *reading;
	bool fed;            /* the last command runs what it reads */
	size_t option;       /* of the arguments, which getopts reads next */
	const char *missing; /* a script that this one reads and that is not here; NULL: none */
	lk_words words;
	int line; /* of the launch */
	int rank; /* how much it looks like the training: the last of the best is taken */
	bool certain;
	lk_launch_ranks *batch; /* NULL: batch options do not matter */
	int sources;            /* files that the script reads */
};

enum {
	SOURCES = 16,
	RUNS = 2048 /* of bodies of loops and functions */
};

/* What Slurm sets from the options of the batch script. */
static lk_status set_batch_variables(lk_shell *shell, const lk_launch_ranks *batch) {
	const struct {
		const char *name;
		int value;
	} sets[] = {
		{"SLURM_NNODES", batch->nodes},          {"SLURM_JOB_NUM_NODES", batch->nodes},
		{"SLURM_NTASKS", batch->total},          {"SLURM_NTASKS_PER_NODE", batch->tasks_per_node},
		{"SLURM_GPUS_ON_NODE", batch->per_node}, {"SLURM_GPUS_PER_NODE", batch->per_node}};
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		char text[96];
		int n = snprintf(text, sizeof text, "%s=%d", sets[i].name, sets[i].value);
		if (sets[i].value > 0) LK_TRY(lk_shell_set(shell, text, (size_t)n));
	}
	return LK_OK;
}

/* "#SBATCH ..." states options of the batch job. */
static lk_status read_batch_line(lk_shell *shell, const char *line, size_t length) {
	struct launch_sought *sought = shell->caller;
	if (length <= 8 || strncmp(line, "#SBATCH", 7) != 0 || sought->batch == NULL) return LK_OK;
	char *options = lk_arena_strndup(shell->arena, line + 7, length - 7);
	if (options == NULL) return lk_oom(shell->err);
	LK_TRY(lk_launcher_sbatch(sought->reading, options, sought->batch));
	return set_batch_variables(shell, sought->batch);
}

static lk_status run_text(lk_shell *shell, const char *text, size_t size);
static lk_status script_run_file(lk_shell *shell, const char *path);

static lk_status expand_all(lk_shell *shell, const lk_raws *words, size_t from, lk_words *out) {
	for (size_t i = from; i < words->count; i++) LK_TRY(lk_shell_expand(shell, &words->at[i], out));
	return LK_OK;
}

/* What is unknown in the text is still written as it was, so that reading it again finds it unknown
 * again. */
static lk_status run_eval(lk_shell *shell, const lk_raws *words) {
	lk_words expanded = {0};
	lk_status status = expand_all(shell, words, 1, &expanded);
	size_t size = 1;
	for (size_t i = 0; i < expanded.count; i++) size += strlen(expanded.at[i].text) + 1;
	char *text = status == LK_OK ? lk_arena_alloc(shell->arena, size) : NULL;
	if (status == LK_OK && text == NULL) status = lk_oom(shell->err);
	size_t length = 0;
	for (size_t i = 0; status == LK_OK && i < expanded.count; i++) {
		size_t n = strlen(expanded.at[i].text);
		memcpy(text + length, expanded.at[i].text, n);
		length += n;
		text[length++] = ' ';
	}
	if (status == LK_OK) status = run_text(shell, text, length);
	lk_vec_free(&expanded);
	return status;
}

/* A file that the script reads: in its folder, by the end of its name where its own is unknown. */
static const char *script_beside(lk_shell *shell, const char *name) {
	const char *slash = strrchr(shell->where, '/'), *last = strrchr(name, '/');
	int folder = slash != NULL ? (int)(slash - shell->where) + 1 : 0;
	const char *names[] = {name, last != NULL ? last + 1 : name};
	for (size_t i = 0; i < 2; i++) {
		if (names[i][0] == '\0' || strchr(names[i], '$') != NULL || strchr(names[i], '`') != NULL)
			continue;
		const char *path = names[i][0] == '/' ? names[i]
		                                      : lk_arena_printf(shell->arena, "%.*s%s", folder,
		                                                        shell->where, names[i]);
		if (path != NULL && access(path, R_OK) == 0) return path;
	}
	return NULL;
}

/* Scripts that prepare an environment are passed over; others are read where they are. */
static lk_status run_source(lk_shell *shell, const lk_raws *words) {
	static const char *const known[] = {"activate", "conda.sh", ".bashrc",       "bashrc",
	                                    "profile",  ".profile", ".bash_profile", "setvars.sh",
	                                    "bash",     "lmod.sh",  "modules.sh",    NULL};
	struct launch_sought *sought = shell->caller;
	if (words->count < 2) return LK_OK;
	const lk_raw *raw = &words->at[1];
	lk_raw base = *raw;
	for (const char *p = raw->at; p < raw->end; p++)
		if (*p == '/') base.at = p + 1;
	if (base.end > base.at && base.end[-1] == '"') base.end--;
	if (script_among(&base, known)) return LK_OK;
	lk_word name;
	LK_TRY(lk_shell_expand_one(shell, raw, &name));
	const char *path = script_beside(shell, name.text);
	if (path == NULL) {
		sought->missing = lk_arena_strdup(shell->arena, name.text);
		return lk_launch_assume(sought->reading,
		                        "line %d: %.80s, which the script reads, is not here: what it "
		                        "sets is not known (--var NAME=VALUE)",
		                        raw->line, name.text);
	}
	return script_run_file(shell, path);
}

/* The text of a script that this one reads or starts, from its first line on. */
static lk_status script_run_file(lk_shell *shell, const char *path) {
	struct launch_sought *sought = shell->caller;
	if (++sought->sources > SOURCES)
		return lk_shell_fail(shell, shell->line, "scripts read one another too often",
		                     "give one that launches");
	char *text;
	size_t size;
	LK_TRY(lk_stream_slurp(path, LK_LAUNCH_BYTES, &text, &size, shell->err));
	char *copy = lk_arena_strndup(shell->arena, text, size);
	free(text);
	if (copy == NULL) return lk_oom(shell->err);
	int line = shell->line;
	shell->line = 1;
	lk_status status = run_text(shell, copy, strlen(copy));
	shell->line = line;
	return status;
}

/* How much a launch looks like that of a training: 3 a program of that name or under a launcher, 2
 * another program, 1 one that generates, converts or prepares. */
static int script_launch_rank(const lk_words *words) {
	const char *program = NULL;
	bool launcher = false;
	for (size_t i = 0; i < words->count; i++) {
		const char *word = words->at[i].text;
		size_t length = strlen(word);
		bool python = length > 3 && strcmp(word + length - 3, ".py") == 0;
		if (program == NULL && word[0] != '-' && (python || strchr(word, '.') != NULL))
			program = word;
		launcher |= strstr(word, "torchrun") != NULL || strstr(word, "srun") != NULL ||
		            strcmp(word, "deepspeed") == 0 || strcmp(word, "accelerate") == 0 ||
		            strstr(word, "torch.distributed") != NULL;
	}
	if (program != NULL && lk_launch_other_work(program) != NULL) return 1;
	bool trains = program != NULL && strstr(program, "train") != NULL;
	return launcher || trains ? 3 : 2;
}

/* Words of a launch: what the script exported, then the command. */
static lk_status keep_launch(lk_shell *shell, const lk_words *words, int line, bool certain) {
	struct launch_sought *sought = shell->caller;
	int rank = script_launch_rank(words) + (certain ? 10 : 0);
	if (rank < sought->rank) return LK_OK;
	sought->words.count = 0;
	sought->rank = rank;
	sought->certain = certain;
	sought->line = line;
	for (uint32_t id = 0; id < shell->vars.count; id++) {
		const lk_shell_var *var = &shell->vars.at[id];
		if (!var->exported || !var->set || var->values.count == 0) continue;
		const lk_word *value = &var->values.at[0];
		char *text =
			lk_arena_printf(shell->arena, "%s=%s", lk_intern_text(shell->names, id), value->text);
		if (text == NULL || !lk_push(&sought->words)) return lk_oom(shell->err);
		shell->produced += strlen(text);
		*lk_last(&sought->words) = (lk_word){.text = text, .unknown = value->unknown};
	}
	for (size_t i = 0; i < words->count; i++) {
		if (!lk_push(&sought->words)) return lk_oom(shell->err);
		*lk_last(&sought->words) = words->at[i];
	}
	if (shell->produced <= LK_LAUNCH_BYTES) return LK_OK;
	return lk_shell_fail(shell, line, "the words grow beyond 4 MiB", "shorten the script");
}

/* A launcher among the words, or in the text of bash -c. */
static bool script_is_launch(const lk_words *words) {
	static const char *const names[] = {"torchrun", "python",    "srun",
	                                    "mpirun",   "deepspeed", "accelerate"};
	bool text = false;
	for (size_t i = 0; i < words->count; i++) {
		const char *word = words->at[i].text;
		if (lk_launch_starts(word) || lk_launch_own_script(word) != LK_OWN_NONE) return true;
		for (size_t k = 0; text && k < sizeof names / sizeof *names; k++)
			if (strstr(word, names[k]) != NULL) return true;
		text = word[0] == '-' && word[1] != '\0' && word[strlen(word) - 1] == 'c';
	}
	return false;
}

/* A program that is neither a builtin nor harmless: kept if it launches, else it cannot change what
 * follows. */
static lk_status run_program(lk_shell *shell, const lk_raws *words, lk_truth certain) {
	lk_words expanded = {0};
	lk_status status = expand_all(shell, words, 0, &expanded);
	bool launch = status == LK_OK && script_is_launch(&expanded);
	if (launch) status = keep_launch(shell, &expanded, words->at[0].line, certain == LK_SHELL_TRUE);
	lk_vec_free(&expanded);
	return status;
}

/* Whether the present line runs only because variables are taken as not set. */
static bool script_assumed(const lk_shell *shell) {
	for (size_t i = 0; i < shell->blocks.count; i++)
		if (shell->blocks.at[i].assumed) return true;
	return false;
}

/* shift [N]; set -- WORDS. */
static lk_status script_move_arguments(lk_shell *shell, const lk_raws *words, size_t first) {
	lk_words expanded = {0};
	lk_status status = expand_all(shell, words, first + 1, &expanded);
	bool shifts = lk_shell_raw_is(&words->at[first], "shift");
	if (status == LK_OK && shifts) {
		long by = expanded.count > 0 ? strtol(expanded.at[0].text, NULL, 10) : 1;
		size_t count = by < 0 ? 0 : (size_t)by;
		if (count > shell->arg_count) count = shell->arg_count;
		shell->args += count;
		shell->arg_count -= count;
	} else if (status == LK_OK && expanded.count > 0 && strcmp(expanded.at[0].text, "--") == 0) {
		lk_word *args = LK_ARRAY(shell->arena, lk_word, expanded.count);
		if (args == NULL) status = lk_oom(shell->err);
		else memcpy(args, expanded.at + 1, (expanded.count - 1) * sizeof *args);
		shell->args = args;
		shell->arg_count = expanded.count - 1;
		shell->args_known = true;
	}
	lk_vec_free(&expanded);
	return status;
}

/* The id of a function that is defined; UINT32_MAX: it is none. */
static uint32_t script_function(const lk_shell *shell, const lk_raw *name) {
	char text[128];
	snprintf(text, sizeof text, "%.*s",
	         (int)(name->end - name->at > 127 ? 127 : name->end - name->at), name->at);
	uint32_t id = lk_intern_find(shell->functions, text);
	bool whole = id < shell->bodies.count && shell->bodies.at[id].end != NULL;
	return whole ? id : UINT32_MAX;
}

static lk_status push_block(lk_shell *shell, char kind, lk_truth truth, bool condition);

/* The text of a body, as often as it is called. */
static lk_status script_run_body(lk_shell *shell, const char *at, const char *end, int line,
                                 lk_truth certain) {
	if (++shell->runs > RUNS)
		return lk_shell_fail(shell, line, "loops and functions run too often",
		                     "give the launch line itself");
	int before = shell->line;
	size_t base = shell->base;
	LK_TRY(push_block(shell, '{', certain, false));
	shell->base = shell->blocks.count;
	shell->line = line;
	lk_status status = run_text(shell, at, (size_t)(end - at));
	if (status == LK_OK && shell->blocks.count > shell->base)
		shell->blocks.count = shell->base; /* left by break or return */
	shell->base = base;
	shell->line = before;
	if (status == LK_OK) shell->blocks.count--;
	return status;
}

/* Calls a function: its words are $1, $2, ... meanwhile. */
static lk_status script_call(lk_shell *shell, const lk_raws *words, size_t first, uint32_t id,
                             lk_truth certain) {
	lk_words expanded = {0};
	lk_status status = expand_all(shell, words, first + 1, &expanded);
	lk_word *args = LK_ARRAY(shell->arena, lk_word, expanded.count + 1);
	if (status == LK_OK && args == NULL) status = lk_oom(shell->err);
	if (status == LK_OK && expanded.count > 0)
		memcpy(args, expanded.at, expanded.count * sizeof *args);
	const lk_word *outer = shell->args;
	size_t outer_count = shell->arg_count;
	bool known = shell->args_known;
	shell->args = args;
	shell->arg_count = expanded.count;
	shell->args_known = true;
	lk_vec_free(&expanded);
	lk_shell_function body = shell->bodies.at[id];
	if (status == LK_OK) status = script_run_body(shell, body.at, body.end, body.line, certain);
	shell->leaves = '\0';
	shell->args = outer;
	shell->arg_count = outer_count;
	shell->args_known = known;
	return status;
}

/* The word that is a script which another one starts and that is here, or was written by it; its
 * path in *path, or the file in *inner. */
static size_t script_started(lk_shell *shell, const lk_words *words, const char **path,
                             const lk_inner_file **inner) {
	const struct launch_sought *sought = shell->caller;
	static const char *const starters[] = {"bash", "sh", "zsh", "sbatch", "srun"};
	static const char *const endings[] = {".sh", ".sbatch", ".slurm", ".sub"};
	bool started = words->count > 0 && strchr(words->at[0].text, '/') != NULL;
	for (size_t i = 0; words->count > 0 && i < sizeof starters / sizeof *starters; i++)
		started |= strcmp(words->at[0].text, starters[i]) == 0;
	for (size_t i = 0; started && i < words->count; i++) {
		const char *text = words->at[i].text;
		if (i > 0 && lk_launch_starts(text) && strcmp(text, "srun") != 0) return 0;
		bool script = false;
		for (size_t k = 0; k < sizeof endings / sizeof *endings; k++)
			script |= text[0] != '-' && lk_ends_in(text, endings[k]);
		*path = NULL;
		*inner = sought->reading->files;
		while (*inner != NULL && (!script || strcmp((*inner)->name, text) != 0))
			*inner = (*inner)->next;
		if (script && *inner == NULL) *path = script_beside(shell, text);
		if (*path != NULL || *inner != NULL) return i;
	}
	*path = NULL;
	*inner = NULL;
	return 0;
}

/* Options of sbatch and srun in front of the script that they start. */
static lk_status script_batch_options(lk_shell *shell, const lk_words *words, size_t count) {
	struct launch_sought *sought = shell->caller;
	bool slurm = strcmp(words->at[0].text, "sbatch") == 0 || strcmp(words->at[0].text, "srun") == 0;
	const char *options = "";
	if (!slurm || sought->batch == NULL) return LK_OK;
	for (size_t i = 1; i < count && options != NULL; i++)
		options = lk_arena_printf(shell->arena, "%s %s", options, words->at[i].text);
	if (options == NULL) return lk_oom(shell->err);
	LK_TRY(lk_launcher_sbatch(sought->reading, options, sought->batch));
	return set_batch_variables(shell, sought->batch);
}

/* bash inner.sh 8; sbatch --nodes=4 job.sbatch: a script that is here is read in its place, with
 * its own arguments. */
static lk_status script_start(lk_shell *shell, const lk_raws *words, bool *ran) {
	lk_words expanded = {0};
	const char *path = NULL;
	const lk_inner_file *inner = NULL;
	lk_status status = expand_all(shell, words, 0, &expanded);
	size_t at = status == LK_OK ? script_started(shell, &expanded, &path, &inner) : 0;
	*ran = path != NULL || inner != NULL;
	if (*ran) status = script_batch_options(shell, &expanded, at);
	lk_word *args = *ran ? LK_ARRAY(shell->arena, lk_word, expanded.count + 1) : NULL;
	if (*ran && args == NULL) status = lk_oom(shell->err);
	if (*ran && status == LK_OK) {
		const lk_word *outer = shell->args;
		size_t outer_count = shell->arg_count;
		bool known = shell->args_known, stop = shell->stop;
		shell->arg_count = expanded.count - at - 1;
		if (shell->arg_count > 0)
			memcpy(args, expanded.at + at + 1, shell->arg_count * sizeof *args);
		shell->args = args;
		shell->args_known = true;
		status = inner != NULL ? run_text(shell, inner->text, inner->size)
		                       : script_run_file(shell, path);
		shell->args = outer;
		shell->arg_count = outer_count;
		shell->args_known = known;
		shell->stop = stop; /* its exit is its own */
	}
	lk_vec_free(&expanded);
	return status;
}

/* ssh HOST "cd x && torchrun ...": what it runs elsewhere is read here. */
static lk_status script_run_remote(lk_shell *shell, const lk_raws *words) {
	static const char options[] = "bceiJlLoOpQRSWFmE";
	lk_words expanded = {0};
	lk_status status = expand_all(shell, words, 0, &expanded);
	size_t i = 1;
	for (; status == LK_OK && i < expanded.count && expanded.at[i].text[0] == '-'; i++) {
		const char *text = expanded.at[i].text;
		if (text[1] != '\0' && text[2] == '\0' && strchr(options, text[1]) != NULL) i++;
	}
	const char *command = "";
	for (i++; status == LK_OK && i < expanded.count && command != NULL; i++)
		command = lk_arena_printf(shell->arena, "%s%s ", command, expanded.at[i].text);
	if (status == LK_OK && command == NULL) status = lk_oom(shell->err);
	if (status == LK_OK) status = run_text(shell, command, strlen(command));
	lk_vec_free(&expanded);
	return status;
}

/* let N=2*M "K += 1": each as N=$((...)). Any other change of a variable makes it unknown. */
static lk_status run_let(lk_shell *shell, const lk_raws *words, size_t first, lk_truth certain) {
	for (size_t i = first + 1; i < words->count; i++) {
		lk_word one;
		LK_TRY(lk_shell_expand_one(shell, &words->at[i], &one));
		size_t length = lk_shell_name(one.text, one.text + strlen(one.text));
		const char *at = one.text + length + strspn(one.text + length, " ");
		const char *sign = strchr("+-*/%", *at);
		if (one.unknown != NULL || length == 0 ||
		    (*at != '=' && (*at == '\0' || sign == NULL || at[1] != '='))) {
			lk_raw named[] = {words->at[first], words->at[i]};
			lk_raws rest = {.at = named, .count = 2};
			LK_TRY(lk_shell_set_by_command(shell, &rest));
			continue;
		}
		const char *text =
			*at == '='
				? lk_arena_printf(shell->arena, "%.*s=$((%s))", (int)length, one.text, at + 1)
				: lk_arena_printf(shell->arena, "%.*s=$((%.*s%c(%s)))", (int)length, one.text,
		                          (int)length, one.text, *at, at + 2);
		if (text == NULL) return lk_oom(shell->err);
		lk_raw assignment = {text, text + strlen(text), words->at[i].line};
		LK_TRY(lk_shell_assign(shell, &assignment, certain, false));
	}
	return LK_OK;
}

/* Expands a format of %s and %d alone, repeated while there are words; NULL: any other format. */
static const char *printf_text(lk_arena *arena, const lk_words *words) {
	const char *out = "", *format = words->at[0].text;
	size_t next = 1;
	do {
		size_t before = next;
		for (const char *at = format; *at && out; at++) {
			if (*at == '\\' || (*at == '%' && at[1] != 's' && at[1] != 'd')) return NULL;
			if (*at != '%') {
				out = lk_arena_printf(arena, "%s%c", out, *at);
				continue;
			}
			out = lk_arena_printf(arena, "%s%s", out,
			                      next < words->count ? words->at[next].text : "");
			next++;
			at++;
		}
		if (next == before || !out || strlen(out) > LK_LAUNCH_BYTES) break;
	} while (next < words->count);
	return out;
}

/* printf -v NAME FORMAT WORD...; without -v it prints. */
static lk_status run_printf(lk_shell *shell, const lk_raws *words, size_t first, lk_truth certain) {
	if (words->count < first + 4 || !lk_shell_raw_is(&words->at[first + 1], "-v")) return LK_OK;
	lk_words expanded = {0};
	lk_status status = expand_all(shell, words, first + 3, &expanded);
	bool known = certain == LK_SHELL_TRUE && expanded.count > 0;
	for (size_t i = 0; i < expanded.count; i++) known &= expanded.at[i].unknown == NULL;
	const char *text = status == LK_OK && known ? printf_text(shell->arena, &expanded) : NULL;
	const lk_raw *name = &words->at[first + 2];
	lk_vec_free(&expanded);
	LK_TRY(status);
	if (text == NULL) {
		lk_raw named[] = {words->at[first], *name};
		lk_raws rest = {.at = named, .count = 2};
		return lk_shell_set_by_command(shell, &rest);
	}
	text = lk_arena_printf(shell->arena, "%.*s=%s", (int)(name->end - name->at), name->at, text);
	return text != NULL ? lk_shell_set(shell, text, strlen(text)) : lk_oom(shell->err);
}

static lk_status run_command(lk_shell *shell, lk_raws *words, lk_truth certain) {
	static const char *const declaring[] = {"export",   "declare", "local",
	                                        "readonly", "typeset", NULL};
	static const char *const setting[] = {"read", "mapfile", "readarray", NULL};
	static const char *const passed[] = {"getopts", "alias", NULL};
	bool append;
	const char *value;
	size_t first = 0;
	while (first < words->count && lk_shell_assignment(&words->at[first], &append, &value) > 0)
		first++;
	if (first == words->count) {
		for (size_t i = 0; i < first; i++)
			LK_TRY(lk_shell_assign(shell, &words->at[i], certain, false));
		return LK_OK;
	}
	static const char *const fed[] = {"bash", "sh", "zsh", "sbatch", "ssh", "srun", NULL};
	struct launch_sought *sought = shell->caller;
	const lk_raw *name = &words->at[first];
	sought->fed = certain == LK_SHELL_TRUE && script_among(name, fed);
	if (script_among(name, declaring)) return lk_shell_declare(shell, words, certain);
	if (lk_shell_raw_is(name, "unset")) return lk_shell_unset(shell, words, certain);
	if (script_among(name, setting)) return lk_shell_set_by_command(shell, words);
	if (lk_shell_raw_is(name, "source") || lk_shell_raw_is(name, "."))
		return run_source(shell, words);
	if (lk_shell_raw_is(name, "exit")) {
		shell->stop = certain == LK_SHELL_TRUE && !script_assumed(shell);
		return LK_OK;
	}
	if (lk_shell_raw_is(name, "exec") && words->count == first + 1) return LK_OK;
	if (lk_shell_raw_is(name, "break") || lk_shell_raw_is(name, "return") ||
	    lk_shell_raw_is(name, "continue")) {
		if (certain == LK_SHELL_TRUE && shell->base > 0) shell->leaves = *name->at;
		return LK_OK;
	}
	if (lk_shell_raw_is(name, "shift") || lk_shell_raw_is(name, "set"))
		return certain == LK_SHELL_FALSE ? LK_OK : script_move_arguments(shell, words, first);
	if (lk_shell_raw_is(name, "eval")) {
		if (certain == LK_SHELL_TRUE) return run_eval(shell, words);
		return lk_shell_fail(shell, name->line, "eval where it is not certain that the line runs",
		                     "write the command itself");
	}
	if (lk_shell_raw_is(name, "let")) return run_let(shell, words, first, certain);
	if (lk_shell_raw_is(name, "printf")) return run_printf(shell, words, first, certain);
	if (lk_shell_raw_is(name, ":")) { /* it may set variables: ": ${MBS:=2}" */
		lk_words expanded = {0};
		lk_status status = expand_all(shell, words, first + 1, &expanded);
		lk_vec_free(&expanded);
		return status;
	}
	if (script_among(name, passed)) return LK_OK;
	if (script_among(name, harmless)) return LK_OK;
	uint32_t function = script_function(shell, name);
	if (function != UINT32_MAX) return script_call(shell, words, first, function, certain);
	bool ran = false, remote = lk_shell_raw_is(name, "ssh");
	if (remote && certain == LK_SHELL_TRUE) return script_run_remote(shell, words);
	if (certain != LK_SHELL_FALSE && first == 0) LK_TRY(script_start(shell, words, &ran));
	if (ran) return LK_OK;
	return run_program(shell, words, certain);
}

/* ---- blocks ---- */

static lk_status push_block(lk_shell *shell, char kind, lk_truth truth, bool condition) {
	if (shell->blocks.count >= LK_SHELL_BLOCKS)
		return lk_shell_fail(shell, shell->line, "blocks are nested too deeply",
		                     "simplify the script");
	if (!lk_push(&shell->blocks)) return lk_oom(shell->err);
	*lk_last(&shell->blocks) =
		(lk_shell_block){.kind = kind, .truth = truth, .condition = condition, .line = shell->line};
	return LK_OK;
}

static lk_status pop_block(lk_shell *shell, const char *kinds) {
	if (shell->blocks.count <= shell->base || strchr(kinds, lk_last(&shell->blocks)->kind) == NULL)
		return lk_shell_fail(shell, shell->line, "a block ends that did not begin",
		                     "correct the script");
	shell->blocks.count--;
	return LK_OK;
}

static lk_shell_block *open_if(lk_shell *shell) {
	return shell->blocks.count > shell->base && lk_last(&shell->blocks)->kind == 'i'
	           ? lk_last(&shell->blocks)
	           : NULL;
}

/* The next branch of an if: what came before was taken, or may have been. */
static lk_status next_branch(lk_shell *shell, bool condition) {
	lk_shell_block *block = open_if(shell);
	if (block == NULL)
		return lk_shell_fail(shell, shell->line, "else without if", "correct the script");
	if (block->truth == LK_SHELL_TRUE && !block->doubtful) block->taken = true;
	else if (block->truth != LK_SHELL_FALSE) block->doubtful = true;
	block->truth = LK_SHELL_TRUE;
	block->condition = condition;
	return LK_OK;
}

static void drop_first(lk_raws *words) {
	memmove(words->at, words->at + 1, --words->count * sizeof *words->at);
}

/* for NAME in WORDS: the words are expanded once, before the body. */
static lk_status script_begin_for(lk_shell *shell, const lk_raws *words) {
	lk_words list = {0};
	lk_truth certain = script_runs(shell);
	LK_TRY(push_block(shell, 'l', LK_SHELL_FALSE, false));
	size_t at = shell->blocks.count - 1;
	static const lk_word none;
	shell->blocks.at[at].over = &none; /* a for loop, over what nobody knows */
	if (words->count < 2 || certain == LK_SHELL_FALSE) return LK_OK;
	size_t length = lk_shell_name(words->at[1].at, words->at[1].end);
	const char *name = lk_arena_strndup(shell->arena, words->at[1].at, length);
	lk_status status = name != NULL ? LK_OK : lk_oom(shell->err);
	bool listed = words->count > 2 && lk_shell_raw_is(&words->at[2], "in");
	if (status == LK_OK && listed) status = expand_all(shell, words, 3, &list);
	bool known = listed && list.count > 0;
	for (size_t i = 0; i < list.count; i++) known = known && list.at[i].unknown == NULL;
	lk_word *values = known ? LK_ARRAY(shell->arena, lk_word, list.count) : NULL;
	if (known && values == NULL) status = lk_oom(shell->err);
	if (status == LK_OK) {
		lk_shell_block *block = &shell->blocks.at[at];
		block->variable = length > 0 ? name : NULL;
		if (values != NULL) {
			memcpy(values, list.at, list.count * sizeof *values);
			block->over = values;
			block->over_count = list.count;
		}
	}
	lk_vec_free(&list);
	return status;
}

static lk_status script_set(lk_shell *shell, const char *name, const lk_word *value) {
	lk_shell_var *var;
	LK_TRY(lk_shell_var_at(shell, name, strlen(name), &var));
	if (var->held) return LK_OK;
	if (var->values.count == 0 && !lk_push(&var->values)) return lk_oom(shell->err);
	var->values.count = 1;
	var->values.at[0] = *value;
	var->set = true;
	return LK_OK;
}

/* The condition of a while loop, asked again. */
static lk_status script_ask(lk_shell *shell, const lk_shell_block *loop, const char *end,
                            lk_truth *out) {
	int line = shell->line;
	size_t base = shell->base;
	LK_TRY(push_block(shell, 'i', LK_SHELL_TRUE, true));
	shell->base = shell->blocks.count - 1;
	shell->line = loop->line;
	while (end > loop->test && strchr("; \t\r\n", end[-1]) != NULL)
		end--; /* the answer is the last's */
	lk_status status = run_text(shell, loop->test, (size_t)(end - loop->test));
	*out = shell->blocks.at[shell->base].truth;
	if (loop->until && *out != LK_SHELL_UNKNOWN)
		*out = *out == LK_SHELL_TRUE ? LK_SHELL_FALSE : LK_SHELL_TRUE;
	shell->blocks.count = shell->base;
	shell->base = base;
	shell->line = line;
	return status;
}

/* At `done`, when the whole of the loop is known: it was passed over so far. */
static lk_status script_run_loop(lk_shell *shell, const lk_shell_block *loop, const char *end) {
	lk_truth certain = script_runs(shell);
	const char *body = loop->body;
	if (body == NULL || certain == LK_SHELL_FALSE) return LK_OK;
	if (loop->over != NULL && loop->over_count == 0 && loop->variable != NULL) {
		/* over what nobody knows: it runs once */
		lk_raw name = {loop->variable, loop->variable + strlen(loop->variable), loop->line};
		lk_raw both[2] = {name, name};
		lk_raws names = {.at = both, .count = 2};
		LK_TRY(lk_shell_set_by_command(shell, &names));
	}
	size_t left = loop->over_count > 0 ? loop->over_count : 1;
	for (size_t i = 0; !shell->leaves && !shell->stop; i++) {
		lk_truth holds = LK_SHELL_TRUE;
		if (loop->over != NULL && i == left) break;
		if (loop->over != NULL && loop->over_count > 0 && loop->variable != NULL)
			LK_TRY(script_set(shell, loop->variable, &loop->over[i]));
		if (loop->over == NULL) LK_TRY(script_ask(shell, loop, body - 2, &holds));
		if (holds == LK_SHELL_FALSE) break;
		bool sure = holds == LK_SHELL_TRUE && certain == LK_SHELL_TRUE;
		LK_TRY(script_run_body(shell, body, end, loop->line, sure ? certain : LK_SHELL_UNKNOWN));
		if (shell->leaves == 'c') shell->leaves = '\0';
		if (loop->over == NULL && !sure) break;
	}
	if (shell->leaves == 'b') shell->leaves = '\0';
	return LK_OK;
}

/* case WORD in */
static lk_status script_begin_case(lk_shell *shell, lk_raws *words) {
	lk_word *subject = LK_NEW(shell->arena, lk_word);
	if (subject == NULL) return lk_oom(shell->err);
	if (words->count < 2)
		return lk_shell_fail(shell, shell->line, "case without a word", "correct the script");
	if (script_runs(shell) != LK_SHELL_FALSE)
		LK_TRY(lk_shell_expand_one(shell, &words->at[1], subject));
	else subject->text = "";
	LK_TRY(push_block(shell, 'c', LK_SHELL_FALSE, true));
	lk_last(&shell->blocks)->subject = subject;
	size_t used = words->count > 2 && lk_shell_raw_is(&words->at[2], "in") ? 3 : 2;
	memmove(words->at, words->at + used, (words->count - used) * sizeof *words->at);
	words->count -= used;
	return LK_OK;
}

static lk_shell_block *open_pattern(lk_shell *shell) {
	bool open = shell->blocks.count > shell->base && lk_last(&shell->blocks)->kind == 'c' &&
	            lk_last(&shell->blocks)->condition;
	return open ? lk_last(&shell->blocks) : NULL;
}

/* Words where a case expects a pattern, or its end. */
static lk_status script_case_pattern(lk_shell *shell, const lk_raws *words) {
	for (size_t i = 0; i < words->count; i++) {
		lk_shell_block *block = open_pattern(shell);
		lk_word pattern;
		if (block == NULL || lk_shell_raw_is(&words->at[i], "in")) continue;
		if (lk_shell_raw_is(&words->at[i], "esac")) {
			shell->blocks.count--;
			return LK_OK;
		}
		LK_TRY(lk_shell_expand_one(shell, &words->at[i], &pattern));
		block = open_pattern(shell);
		lk_truth here = lk_shell_match(block->subject, &pattern, &block->assumed);
		if (here == LK_SHELL_TRUE || block->matched == LK_SHELL_FALSE) block->matched = here;
	}
	return LK_OK;
}

/* The bracket after a pattern: its commands follow. */
static void script_case_commands(lk_shell_block *block) {
	block->condition = false;
	block->truth = block->matched;
	block->matched = LK_SHELL_FALSE;
}

/* ";;": the next pattern. */
static void script_case_next(lk_shell_block *block) {
	if (block->truth == LK_SHELL_TRUE && !block->doubtful) block->taken = true;
	else if (block->truth != LK_SHELL_FALSE) block->doubtful = true;
	block->condition = true;
	block->truth = LK_SHELL_FALSE;
}

/* The end of a function's body, or of a loop's, whose text is known now. */
static lk_status script_end_body(lk_shell *shell, const lk_raw *raw, const char *kinds) {
	lk_shell_block block = {0};
	if (shell->blocks.count > shell->base) block = *lk_last(&shell->blocks);
	LK_TRY(pop_block(shell, kinds));
	if (block.kind == 'l') return script_run_loop(shell, &block, raw->at);
	if (block.kind != 'f' || block.function >= shell->bodies.count) return LK_OK;
	shell->bodies.at[block.function] =
		(lk_shell_function){.at = block.body, .end = raw->at, .line = block.line};
	return LK_OK;
}

/* A word of the shell's grammar at the start of a command; *again: what follows it is a command. */
static lk_status keyword(lk_shell *shell, lk_raws *words, bool *again) {
	const lk_raw *raw = &words->at[0];
	lk_raw first = *raw;
	lk_shell_block *top = shell->blocks.count > shell->base ? lk_last(&shell->blocks) : NULL;
	lk_status status = LK_OK;
	*again = true;
	if (lk_shell_raw_is(raw, "if")) status = push_block(shell, 'i', LK_SHELL_TRUE, true);
	else if (lk_shell_raw_is(raw, "elif")) status = next_branch(shell, true);
	else if (lk_shell_raw_is(raw, "else")) status = next_branch(shell, false);
	else if (lk_shell_raw_is(raw, "then")) {
		if (open_if(shell) == NULL)
			return lk_shell_fail(shell, raw->line, "then without if", "correct the script");
		open_if(shell)->condition = false;
	} else if (lk_shell_raw_is(raw, "while") || lk_shell_raw_is(raw, "until")) {
		bool until = lk_shell_raw_is(raw, "until");
		status = push_block(shell, 'l', LK_SHELL_FALSE, true);
		if (status == LK_OK) {
			lk_last(&shell->blocks)->test = first.end;
			lk_last(&shell->blocks)->until = until;
		}
	} else if (lk_shell_raw_is(raw, "do")) {
		if (top != NULL && top->kind == 'l' && top->body == NULL) top->body = raw->end;
		if (top != NULL) top->condition = false;
	} else if (lk_shell_raw_is(raw, "fi")) status = pop_block(shell, "i");
	else if (lk_shell_raw_is(raw, "done")) status = script_end_body(shell, &first, "l");
	else if (lk_shell_raw_is(raw, "}")) status = script_end_body(shell, &first, "{f");
	else if (lk_shell_raw_is(raw, "esac")) status = pop_block(shell, "c");
	else if (lk_shell_raw_is(raw, "{")) {
		bool function = top != NULL && top->kind == 'f' && top->condition;
		if (function) {
			top->condition = false;
			top->body = raw->end;
		} else status = push_block(shell, '{', LK_SHELL_TRUE, false);
	} else if (lk_shell_raw_is(raw, "for") || lk_shell_raw_is(raw, "select")) {
		status = script_begin_for(shell, words);
		words->count = 1;
	} else if (lk_shell_raw_is(raw, "case")) {
		LK_TRY(script_begin_case(shell, words));
		LK_TRY(script_case_pattern(shell, words));
		words->count = 0;
		return LK_OK;
	} else if (lk_shell_raw_is(raw, "time") || lk_shell_raw_is(raw, "!")) {
	} else {
		*again = false;
	}
	if (*again && words->count > 0) drop_first(words);
	return status;
}

/* name() or function name: its body runs when it is called. */
static lk_status function_begins(lk_shell *shell, const lk_raw *name) {
	char text[128];
	snprintf(text, sizeof text, "%.*s",
	         (int)(name->end - name->at > 127 ? 127 : name->end - name->at), name->at);
	uint32_t id = lk_intern_id(shell->functions, text);
	if (id == UINT32_MAX) return lk_oom(shell->err);
	while (shell->bodies.count <= id)
		if (!lk_push(&shell->bodies)) return lk_oom(shell->err);
	LK_TRY(push_block(shell, 'f', LK_SHELL_FALSE, true));
	lk_last(&shell->blocks)->function = id;
	return LK_OK;
}

/* getopts OPTIONS NAME: the next option of the script's arguments. */
static lk_truth script_getopts(lk_shell *shell, const lk_raws *words, lk_status *status) {
	struct launch_sought *sought = shell->caller;
	lk_word known;
	if (words->count < 3 || !shell->args_known || sought->option >= shell->arg_count)
		return LK_SHELL_FALSE;
	if (shell->blocks.count > 0 && lk_last(&shell->blocks)->kind == 'l')
		return LK_SHELL_TRUE; /* the loop is read; it is asked when it runs */
	const lk_word *arg = &shell->args[sought->option];
	*status = lk_shell_expand_one(shell, &words->at[1], &known);
	char *name = lk_arena_strndup(shell->arena, words->at[2].at,
	                              (size_t)(words->at[2].end - words->at[2].at));
	if (*status == LK_OK && name == NULL) *status = lk_oom(shell->err);
	if (*status != LK_OK || arg->unknown != NULL || arg->text[0] != '-' || arg->text[1] == '\0' ||
	    strcmp(arg->text, "--") == 0)
		return LK_SHELL_FALSE;
	sought->option++;
	const char *at = strchr(known.text, arg->text[1]);
	lk_word letter = {.text = lk_arena_strndup(shell->arena, at != NULL ? at : "?", 1)},
			value = {.text = arg->text + 2};
	if (at != NULL && at[1] == ':' && *value.text == '\0' && sought->option < shell->arg_count)
		value = shell->args[sought->option++];
	lk_word next = {.text = lk_arena_printf(shell->arena, "%zu", sought->option + 1)};
	if (letter.text == NULL || next.text == NULL) *status = lk_oom(shell->err);
	if (*status == LK_OK) *status = script_set(shell, name, &letter);
	if (*status == LK_OK) *status = script_set(shell, "OPTARG", &value);
	if (*status == LK_OK) *status = script_set(shell, "OPTIND", &next);
	return *status == LK_OK ? LK_SHELL_TRUE : LK_SHELL_UNKNOWN;
}

static lk_truth test_command(lk_shell *shell, const lk_raws *words, lk_status *status) {
	const lk_raw *name = &words->at[0];
	if (lk_shell_raw_is(name, "true") || lk_shell_raw_is(name, ":")) return LK_SHELL_TRUE;
	if (lk_shell_raw_is(name, "false")) return LK_SHELL_FALSE;
	if (lk_shell_raw_is(name, "getopts")) return script_getopts(shell, words, status);
	bool single = lk_shell_raw_is(name, "["), twice = lk_shell_raw_is(name, "[[");
	if (!single && !twice && !lk_shell_raw_is(name, "test")) return LK_SHELL_UNKNOWN;
	lk_words expanded = {0};
	for (size_t i = 1; *status == LK_OK && i < words->count; i++) {
		lk_word one;
		const lk_raw *raw = &words->at[i];
		if (!twice) { /* an unquoted empty variable is no word at all, which the test would not
			             notice */
			*status = lk_shell_expand(shell, raw, &expanded);
			continue;
		}
		*status = lk_shell_expand_one(shell, raw, &one);
		if (*status == LK_OK && !lk_push(&expanded)) *status = lk_oom(shell->err);
		if (*status == LK_OK) *lk_last(&expanded) = one;
	}
	size_t count = expanded.count;
	if ((single || twice) && count > 0) count--; /* the closing bracket */
	lk_truth answer =
		*status == LK_OK ? lk_shell_test(expanded.at, count, &shell->assumed) : LK_SHELL_UNKNOWN;
	lk_vec_free(&expanded);
	return answer;
}

/* Commands joined by && and ||. `chain` is the answer so far; `op` joins this one to it: 0, '&' or
 * '|'. */
static lk_status one_command(lk_shell *shell, lk_raws *words, char op, lk_truth *chain) {
	bool again = true, negated = false;
	while (again && words->count > 0) {
		negated ^= lk_shell_raw_is(&words->at[0], "!");
		if (lk_shell_raw_is(&words->at[0], "function") && words->count > 1) {
			LK_TRY(function_begins(shell, &words->at[1]));
			drop_first(words);
			drop_first(words);
			continue;
		}
		LK_TRY(keyword(shell, words, &again));
	}
	if (words->count == 0) return LK_OK;
	lk_truth here;
	if (op == '&') here = *chain;
	else if (op != '|') here = LK_SHELL_TRUE;
	else if (*chain == LK_SHELL_UNKNOWN) here = LK_SHELL_UNKNOWN;
	else if (*chain == LK_SHELL_TRUE) here = LK_SHELL_FALSE;
	else here = LK_SHELL_TRUE;
	lk_truth certain = script_runs(shell);
	lk_status status = LK_OK;
	lk_truth answer = test_command(shell, words, &status);
	LK_TRY(status);
	static const char *const tests[] = {"[", "[[", "test", NULL};
	bool tested = script_among(&words->at[0], tests) || words->at[0].at[0] == '(',
		 condition = shell->blocks.count > shell->base && lk_last(&shell->blocks)->condition;
	if (!tested && answer == LK_SHELL_UNKNOWN && !condition)
		answer = LK_SHELL_TRUE; /* programs are taken to succeed */
	if (negated && answer != LK_SHELL_UNKNOWN)
		answer = answer == LK_SHELL_TRUE ? LK_SHELL_FALSE : LK_SHELL_TRUE;
	if (here == LK_SHELL_FALSE) return LK_OK; /* the chain keeps its answer */
	*chain = here == LK_SHELL_UNKNOWN ? LK_SHELL_UNKNOWN : answer;
	if (condition) return LK_OK;
	if (here == LK_SHELL_UNKNOWN && certain == LK_SHELL_TRUE) certain = LK_SHELL_UNKNOWN;
	return certain == LK_SHELL_FALSE || tested ? LK_OK : run_command(shell, words, certain);
}

static lk_status read_commands(lk_shell *shell, lk_raws *words) {
	char op = 0;
	lk_truth chain = LK_SHELL_TRUE;
	while (shell->at < shell->end && !shell->stop && !shell->leaves) {
		LK_TRY(lk_shell_take_words(shell, words));
		bool brackets = shell->at + 1 < shell->end && shell->at[0] == '(' && shell->at[1] == ')';
		if (open_pattern(shell) != NULL) {
			LK_TRY(script_case_pattern(shell, words));
			lk_shell_block *block = open_pattern(shell);
			if (block != NULL && shell->at < shell->end && *shell->at == ')')
				script_case_commands(block);
			if (shell->at >= shell->end) return LK_OK;
			if (*shell->at == '\n') LK_TRY(lk_shell_newline(shell));
			else shell->at++;
			continue;
		}
		if (brackets && words->count > 0) {
			shell->at += 2;
			if (!lk_shell_raw_is(&words->at[0], "function"))
				LK_TRY(function_begins(shell, &words->at[0]));
			else LK_TRY(one_command(shell, words, 0, &chain));
			words->count = 0;
		}
		if (words->count > 0) LK_TRY(one_command(shell, words, op, &chain));
		lk_shell_block *block = open_if(shell);
		if (block != NULL && block->condition) {
			block->truth = chain;
			block->assumed = shell->assumed;
		}
		if (shell->at >= shell->end) return LK_OK;
		lk_shell_block *pattern = open_pattern(shell); /* case X in PATTERN) on a line */
		if (pattern != NULL && *shell->at == ')') {
			script_case_commands(pattern);
			shell->at++;
			continue;
		}
		bool twice = shell->at + 1 < shell->end && shell->at[1] == shell->at[0];
		op = twice && (*shell->at == '&' || *shell->at == '|') ? *shell->at : 0;
		if (op == 0) chain = LK_SHELL_TRUE;
		if (op == 0) shell->assumed = false;
		bool branch = twice && *shell->at == ';' && shell->blocks.count > shell->base &&
		              lk_last(&shell->blocks)->kind == 'c';
		if (branch) script_case_next(lk_last(&shell->blocks));
		if (*shell->at == '\n') LK_TRY(lk_shell_newline(shell));
		else shell->at += op != 0 || branch ? 2 : 1;
	}
	return LK_OK;
}

static lk_status run_text(lk_shell *shell, const char *text, size_t size) {
	if (++shell->depth > LK_SHELL_DEPTH)
		return lk_shell_fail(shell, shell->line, "eval, functions and loops are nested too deeply",
		                     "write the command itself");
	const char *at = shell->at, *end = shell->end;
	int line = shell->line;
	lk_raws words = {0};
	shell->at = text;
	shell->end = text + size;
	lk_status status = read_commands(shell, &words);
	lk_vec_free(&words);
	shell->at = at;
	shell->end = end;
	shell->line = line;
	shell->depth--;
	return status;
}

static void shell_free(lk_shell *shell) {
	for (size_t i = 0; i < shell->vars.count; i++) lk_vec_free(&shell->vars.at[i].values);
	lk_vec_free(&shell->vars);
	lk_vec_free(&shell->blocks);
	lk_vec_free(&shell->bodies);
	lk_intern_free(shell->names);
	lk_intern_free(shell->functions);
}

/* ---- a script that only holds the arguments, for another one that reads it ---- */

/* How many flags of Megatron-LM a variable holds. */
static int script_flags_held(const lk_shell_var *var) {
	int count = 0;
	for (size_t i = 0; var->set && i < var->values.count; i++) {
		for (const char *at = var->values.at[i].text; (at = strstr(at, "--")) != NULL;) {
			char name[64];
			size_t length = strcspn(at + 2, " =\t\n");
			snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), at + 2);
			count += lk_megatron_flag(name) != NULL;
			at += 2 + length;
		}
	}
	return count;
}

/* Whether all that one variable holds is part of another's text. */
static bool script_held_by_other(const lk_shell *shell, uint32_t id) {
	const lk_shell_var *own = &shell->vars.at[id];
	for (uint32_t other = 0; other < shell->vars.count; other++) {
		const lk_shell_var *var = &shell->vars.at[other];
		if (other == id || !var->set || var->values.count == 0 || own->values.count == 0) continue;
		const char *text = var->values.at[0].text, *part = own->values.at[0].text;
		if (strlen(text) > strlen(part) && strstr(text, part) != NULL) return true;
	}
	return false;
}

/* The value of the first of several variables that is a number; NULL: none is. */
static const char *script_number(lk_shell *shell, const char *const *names) {
	for (; *names != NULL; names++) {
		const lk_shell_var *var = lk_shell_find(shell, *names, strlen(*names));
		if (var == NULL || var->values.count == 0 || var->values.at[0].unknown != NULL) continue;
		const char *text = var->values.at[0].text;
		if (*text != '\0' && strspn(text, "0123456789") == strlen(text)) return text;
	}
	return NULL;
}

static lk_status script_put(lk_shell *shell, lk_words *words, const char *text) {
	if (text == NULL || !lk_push(words)) return lk_oom(shell->err);
	*lk_last(words) = (lk_word){.text = text};
	return LK_OK;
}

/* Splits a text that holds flags into words. */
static lk_status script_split(lk_shell *shell, const lk_word *value, lk_words *words) {
	char *text = lk_arena_strdup(shell->arena, value->text), *save = NULL;
	if (text == NULL) return lk_oom(shell->err);
	for (char *at = strtok_r(text, " \t\n\\", &save); at != NULL;
	     at = strtok_r(NULL, " \t\n\\", &save)) {
		LK_TRY(script_put(shell, words, at));
		if (strchr(at, '$') != NULL && at[0] != '-')
			lk_last(words)->unknown = value->unknown != NULL ? value->unknown : "it is not known";
	}
	return LK_OK;
}

/* The variables that hold flags, as the words of a launch; rank stays 0 where none does. The
 * degrees are those that the usual variables state, where no flag does. */
static lk_status script_arguments_alone(lk_shell *shell, struct launch_sought *sought) {
	static const char *const degrees[][6] = {
		{"--tensor-model-parallel-size", "TP", "TP_SIZE", "TENSOR_PARALLEL", NULL},
		{"--pipeline-model-parallel-size", "PP", "PP_SIZE", "PIPELINE_PARALLEL", NULL},
		{"--context-parallel-size", "CP", "CP_SIZE", NULL},
		{"--expert-model-parallel-size", "EP", "EP_SIZE", NULL},
		{"--expert-tensor-parallel-size", "ETP", "ETP_SIZE", NULL},
		{"--micro-batch-size", "MBS", "MICRO_BATCH_SIZE", NULL},
		{"--global-batch-size", "GBS", "GLOBAL_BATCH_SIZE", NULL}};
	static const char *const nodes[] = {"NNODES", "NUM_NODES", "NODES", "NODES_REQUIRED", NULL};
	static const char *const per_node[] = {"GPUS_PER_NODE", "NUM_GPUS", "NPROC_PER_NODE", NULL};
	lk_words *words = &sought->words;
	int held = 0;
	for (uint32_t id = 0; id < shell->vars.count; id++)
		held += script_flags_held(&shell->vars.at[id]);
	if (held < 3) return LK_OK;
	const char *count = script_number(shell, per_node), *machines = script_number(shell, nodes);
	words->count = 0;
	LK_TRY(script_put(shell, words, "torchrun"));
	if (count != NULL)
		LK_TRY(
			script_put(shell, words, lk_arena_printf(shell->arena, "--nproc_per_node=%s", count)));
	if (machines != NULL && count != NULL)
		LK_TRY(script_put(shell, words, lk_arena_printf(shell->arena, "--nnodes=%s", machines)));
	LK_TRY(script_put(shell, words, "pretrain_gpt.py"));
	size_t flags = words->count;
	for (uint32_t id = 0; id < shell->vars.count; id++) {
		if (script_flags_held(&shell->vars.at[id]) == 0 || script_held_by_other(shell, id))
			continue;
		for (size_t i = 0; i < shell->vars.at[id].values.count; i++)
			LK_TRY(script_split(shell, &shell->vars.at[id].values.at[i], words));
	}
	for (size_t k = 0; k < sizeof degrees / sizeof *degrees; k++) {
		const char *value = script_number(shell, degrees[k] + 1);
		bool said = false;
		for (size_t i = flags; i < words->count; i++)
			said |= strcmp(words->at[i].text, degrees[k][0]) == 0;
		if (value == NULL || said) continue;
		LK_TRY(script_put(shell, words, degrees[k][0]));
		LK_TRY(script_put(shell, words, value));
	}
	sought->rank = 1;
	sought->certain = true;
	return lk_launch_assume(
		sought->reading, "the script launches nothing: the flags that it holds are taken as those "
						 "of pretrain_gpt.py");
}

/* What may be added to a list is left out, once said for each line. */
static lk_status script_doubt(lk_shell *shell, int line) {
	struct launch_sought *sought = shell->caller;
	return lk_launch_assume(sought->reading,
	                        "line %d adds nothing: whether it runs only the cluster knows", line);
}

/* A file that the script writes before it launches with it; without a name the input of the last
 * command, which bash, sbatch and ssh run: sbatch <<END. */
static lk_status script_keep_file(lk_shell *shell, const char *name, const char *text,
                                  size_t length) {
	struct launch_sought *sought = shell->caller;
	if (name == NULL) return sought->fed ? run_text(shell, text, length) : LK_OK;
	lk_inner_file *file = LK_NEW(shell->arena, lk_inner_file);
	if (file == NULL) return lk_oom(shell->err);
	*file = (lk_inner_file){name, text, length, sought->reading->files};
	sought->reading->files = file;
	return LK_OK;
}

/* Variables that the cluster sets, and the script's arguments. */
static lk_status script_take_given(lk_shell *shell, const lk_launch_given *given) {
	for (const char *line = given->vars; line != NULL && *line != '\0';) {
		size_t size = strcspn(line, "\n"), name = lk_shell_name(line, line + size);
		if (name == 0 || name >= size || line[name] != '=') {
			lk_fail(shell->err, LK_ERR_INPUT, "--var", "\"%.*s\" is no NAME=VALUE",
			        (int)(size > 40 ? 40 : size), line);
			return lk_hint(shell->err, "write for instance --var NNODES=4");
		}
		lk_shell_var *var;
		LK_TRY(lk_shell_set(shell, line, size));
		LK_TRY(lk_shell_var_at(shell, line, name, &var));
		var->held = true;
		line += size + (line[size] == '\n');
	}
	if (given->arg_count <= 0) return LK_OK;
	lk_word *args = LK_ARRAY(shell->arena, lk_word, (size_t)given->arg_count);
	if (args == NULL) return lk_oom(shell->err);
	for (int i = 0; i < given->arg_count; i++) args[i].text = given->args[i];
	shell->args = args;
	shell->arg_count = (size_t)given->arg_count;
	shell->args_known = true;
	return LK_OK;
}

lk_status lk_script_words(lk_reading *reading, const char *text, size_t size,
                          const lk_words *environment, const lk_launch_given *given,
                          lk_words *words, lk_launch_ranks *batch) {
	struct launch_sought sought = {.reading = reading, .batch = batch};
	lk_shell s = {.arena = reading->arena,
	              .err = reading->err,
	              .where = reading->where,
	              .comment = read_batch_line,
	              .doubt = script_doubt,
	              .wrote = script_keep_file,
	              .caller = &sought,
	              .line = reading->line > 0 ? reading->line : 1,
	              .names = lk_intern_new(),
	              .functions = lk_intern_new(),
	              .depth = reading->depth};
	lk_status status = s.names == NULL || s.functions == NULL ? lk_oom(reading->err) : LK_OK;
	for (size_t i = 0; status == LK_OK && environment != NULL && i < environment->count; i++)
		if (environment->at[i].unknown == NULL)
			status = lk_shell_set(&s, environment->at[i].text, strlen(environment->at[i].text));
	if (status == LK_OK && given != NULL) status = script_take_given(&s, given);
	if (status == LK_OK) status = run_text(&s, text, size);
	if (status == LK_OK && s.blocks.count > 0)
		status = lk_shell_fail(&s, lk_last(&s.blocks)->line,
		                       "a block that begins here does not end", "close it");
	if (status == LK_OK && sought.rank == 0) status = script_arguments_alone(&s, &sought);
	if (status == LK_OK && sought.rank == 0) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        "no command starts torchrun, srun, mpirun, deepspeed, accelerate or python");
		status = sought.missing != NULL
		             ? lk_hint(reading->err, "give it beside %.80s, which it reads", sought.missing)
		             : lk_hint(reading->err, "give the script that launches the training");
	}
	if (status == LK_OK && sought.rank > 0 && !sought.certain)
		status = lk_launch_assume(
			reading, "line %d launches: whether it runs only the cluster knows", sought.line);
	if (status == LK_OK) {
		*words = sought.words;
		reading->line = sought.line;
		sought.words = (lk_words){0};
	}
	lk_vec_free(&sought.words);
	shell_free(&s);
	return status;
}
