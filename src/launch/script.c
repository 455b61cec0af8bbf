/* script.c: reads the shell script that launches a training: variables, arrays, conditions that
 * texts decide, and the last command that starts a launcher or python. Nothing is executed.
 *
 * A command that runs as a program of its own cannot change a variable, so it is passed over; what
 * can (source, eval, read, functions) is followed or refused. In a branch, loop or function body
 * whose execution is not certain, what is assigned becomes unknown, and a launch is refused. */
#include "base/arena.h"
#include "launch/launch.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

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
	"echo",     "printf", "cd",       "pushd",  "popd",   "mkdir", "rm",      "cp",
	"mv",       "ln",     "ls",       "cat",    "touch",  "chmod", "sleep",   "date",
	"set",      "shopt",  "ulimit",   "module", "ml",     "conda", "mamba",   "nvidia-smi",
	"hostname", "pwd",    "wait",     "trap",   "true",   ":",     "tee",     "pip",
	"pip3",     "git",    "wget",     "curl",   "tar",    "which", "type",    "command",
	"test",     "[",      "[[",       "false",  "kill",   "pkill", "grep",    "sed",
	"awk",      "find",   "head",     "tail",   "sort",   "shift", "return",  "break",
	"continue", "wandb",  "scontrol", "sinfo",  "squeue", "apt",   "apt-get", "umask",
	"hash",     "]]",     NULL,
};

/* What a script is read for: the words of its last launch command, and what its batch options say.
 */
struct launch_sought {
	lk_reading *reading;
	lk_words words;
	int line; /* of the launch */
	bool found;
	lk_launch_ranks *batch; /* NULL: batch options do not matter */
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

/* Scripts that prepare an environment are passed over; others could set anything. */
static lk_status run_source(lk_shell *shell, const lk_raws *words) {
	static const char *const known[] = {"activate", "conda.sh", ".bashrc",       "bashrc",
	                                    "profile",  ".profile", ".bash_profile", "setvars.sh",
	                                    "bash",     "lmod.sh",  "modules.sh",    NULL};
	if (words->count > 1) {
		const lk_raw *raw = &words->at[1];
		lk_raw base = *raw;
		for (const char *p = raw->at; p < raw->end; p++)
			if (*p == '/') base.at = p + 1;
		if (base.end > base.at && base.end[-1] == '"') base.end--;
		if (script_among(&base, known)) return LK_OK;
	}
	return lk_shell_fail(shell, words->at[0].line,
	                     "the script reads another one, which could set anything",
	                     "copy what it sets into the script");
}

/* Words of a launch: what the script exported, then the command. */
static lk_status keep_launch(lk_shell *shell, const lk_words *words, int line) {
	struct launch_sought *sought = shell->caller;
	sought->words.count = 0;
	sought->found = true;
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
		if (lk_launch_starts(word)) return true;
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
	if (status == LK_OK && launch && certain != LK_SHELL_TRUE)
		status =
			lk_shell_fail(shell, words->at[0].line,
		                  "a training is launched where it is not certain that the line runs",
		                  "give the launch line without the condition, loop or function around it");
	if (status == LK_OK && launch) status = keep_launch(shell, &expanded, words->at[0].line);
	lk_vec_free(&expanded);
	return status;
}

static lk_status run_command(lk_shell *shell, lk_raws *words, lk_truth certain) {
	static const char *const declaring[] = {"export",   "declare", "local",
	                                        "readonly", "typeset", NULL};
	static const char *const setting[] = {"read", "mapfile", "readarray", NULL};
	static const char *const refused[] = {"let", "getopts", "alias", NULL};
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
	const lk_raw *name = &words->at[first];
	if (script_among(name, declaring)) return lk_shell_declare(shell, words, certain);
	if (lk_shell_raw_is(name, "unset")) return lk_shell_unset(shell, words, certain);
	if (script_among(name, setting)) return lk_shell_set_by_command(shell, words);
	if (lk_shell_raw_is(name, "source") || lk_shell_raw_is(name, "."))
		return run_source(shell, words);
	if (lk_shell_raw_is(name, "exit") || lk_shell_raw_is(name, "exec")) {
		if (lk_shell_raw_is(name, "exit") || words->count == first + 1) {
			shell->stop = certain == LK_SHELL_TRUE && lk_shell_raw_is(name, "exit");
			return LK_OK;
		}
	}
	if (lk_shell_raw_is(name, "eval")) {
		if (certain == LK_SHELL_TRUE) return run_eval(shell, words);
		return lk_shell_fail(shell, name->line, "eval where it is not certain that the line runs",
		                     "write the command itself");
	}
	if (script_among(name, refused))
		return lk_shell_fail(shell, name->line, "let, getopts and alias are not followed",
		                     "write plain assignments");
	if (script_among(name, harmless)) return LK_OK;
	char function[128];
	snprintf(function, sizeof function, "%.*s",
	         (int)(name->end - name->at > 127 ? 127 : name->end - name->at), name->at);
	if (lk_intern_find(shell->functions, function) != UINT32_MAX)
		return lk_shell_fail(shell, name->line, "functions of the script are not followed",
		                     "write the launch line without the function");
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
	if (shell->blocks.count == 0 || strchr(kinds, lk_last(&shell->blocks)->kind) == NULL)
		return lk_shell_fail(shell, shell->line, "a block ends that did not begin",
		                     "correct the script");
	shell->blocks.count--;
	return LK_OK;
}

static lk_shell_block *open_if(lk_shell *shell) {
	return shell->blocks.count > 0 && lk_last(&shell->blocks)->kind == 'i' ? lk_last(&shell->blocks)
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

/* A word of the shell's grammar at the start of a command; *again: what follows it is a command. */
static lk_status keyword(lk_shell *shell, lk_raws *words, bool *again) {
	const lk_raw *raw = &words->at[0];
	lk_status status = LK_OK;
	*again = true;
	if (lk_shell_raw_is(raw, "if")) status = push_block(shell, 'i', LK_SHELL_TRUE, true);
	else if (lk_shell_raw_is(raw, "elif")) status = next_branch(shell, true);
	else if (lk_shell_raw_is(raw, "else")) status = next_branch(shell, false);
	else if (lk_shell_raw_is(raw, "then")) {
		if (open_if(shell) == NULL)
			return lk_shell_fail(shell, raw->line, "then without if", "correct the script");
		open_if(shell)->condition = false;
	} else if (lk_shell_raw_is(raw, "while") || lk_shell_raw_is(raw, "until"))
		status = push_block(shell, 'l', LK_SHELL_UNKNOWN, true);
	else if (lk_shell_raw_is(raw, "do")) {
		if (shell->blocks.count > 0) lk_last(&shell->blocks)->condition = false;
	} else if (lk_shell_raw_is(raw, "fi")) status = pop_block(shell, "i");
	else if (lk_shell_raw_is(raw, "done")) status = pop_block(shell, "l");
	else if (lk_shell_raw_is(raw, "}")) status = pop_block(shell, "{f");
	else if (lk_shell_raw_is(raw, "{")) {
		bool function = shell->blocks.count > 0 && lk_last(&shell->blocks)->kind == 'f' &&
		                lk_last(&shell->blocks)->condition;
		if (function) lk_last(&shell->blocks)->condition = false;
		else status = push_block(shell, '{', LK_SHELL_TRUE, false);
	} else if (lk_shell_raw_is(raw, "for") || lk_shell_raw_is(raw, "select")) {
		status = push_block(shell, 'l', LK_SHELL_UNKNOWN, false);
		if (status == LK_OK && words->count > 1) {
			lk_raws name = {.at = words->at, .count = 2};
			status = lk_shell_set_by_command(shell, &name);
		}
		words->count = 1;
	} else if (lk_shell_raw_is(raw, "case")) {
		return lk_shell_fail(shell, raw->line, "case is not followed",
		                     "write the assignments of the case that holds");
	} else if (lk_shell_raw_is(raw, "time") || lk_shell_raw_is(raw, "!")) {
	} else {
		*again = false;
	}
	if (*again) drop_first(words);
	return status;
}

/* name() or function name: its body runs when it is called, which is refused. */
static lk_status function_begins(lk_shell *shell, const lk_raw *name) {
	char text[128];
	snprintf(text, sizeof text, "%.*s",
	         (int)(name->end - name->at > 127 ? 127 : name->end - name->at), name->at);
	if (lk_intern_id(shell->functions, text) == UINT32_MAX) return lk_oom(shell->err);
	return push_block(shell, 'f', LK_SHELL_UNKNOWN, true);
}

static lk_truth test_command(lk_shell *shell, const lk_raws *words, lk_status *status) {
	const lk_raw *name = &words->at[0];
	if (lk_shell_raw_is(name, "true") || lk_shell_raw_is(name, ":")) return LK_SHELL_TRUE;
	if (lk_shell_raw_is(name, "false")) return LK_SHELL_FALSE;
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
	lk_truth answer = *status == LK_OK ? lk_shell_test(expanded.at, count) : LK_SHELL_UNKNOWN;
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
		 condition = shell->blocks.count > 0 && lk_last(&shell->blocks)->condition;
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
	while (shell->at < shell->end && !shell->stop) {
		LK_TRY(lk_shell_take_words(shell, words));
		bool brackets = shell->at + 1 < shell->end && shell->at[0] == '(' && shell->at[1] == ')';
		if (brackets && words->count > 0) {
			shell->at += 2;
			if (!lk_shell_raw_is(&words->at[0], "function"))
				LK_TRY(function_begins(shell, &words->at[0]));
			else LK_TRY(one_command(shell, words, 0, &chain));
			words->count = 0;
		}
		if (words->count > 0) LK_TRY(one_command(shell, words, op, &chain));
		lk_shell_block *block = open_if(shell);
		if (block != NULL && block->condition) block->truth = chain;
		if (shell->at >= shell->end) return LK_OK;
		bool twice = shell->at + 1 < shell->end && shell->at[1] == shell->at[0];
		op = twice && (*shell->at == '&' || *shell->at == '|') ? *shell->at : 0;
		if (op == 0) chain = LK_SHELL_TRUE;
		if (*shell->at == '\n') lk_shell_newline(shell);
		else shell->at += op != 0 ? 2 : 1;
	}
	return LK_OK;
}

static lk_status run_text(lk_shell *shell, const char *text, size_t size) {
	if (++shell->depth > LK_SHELL_DEPTH)
		return lk_shell_fail(shell, shell->line, "eval is nested too deeply",
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
	lk_intern_free(shell->names);
	lk_intern_free(shell->functions);
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
		LK_TRY(lk_shell_set(shell, line, size));
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
                          const lk_words *environment, const lk_launch_given *given, lk_words *words,
                          lk_launch_ranks *batch) {
	struct launch_sought sought = {.reading = reading, .batch = batch};
	lk_shell s = {.arena = reading->arena,
	              .err = reading->err,
	              .where = reading->where,
	              .comment = read_batch_line,
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
	if (status == LK_OK && !sought.found) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        "no command starts torchrun, srun, mpirun, deepspeed, accelerate or python");
		status = lk_hint(reading->err, "give the script that launches the training");
	}
	if (status == LK_OK) {
		*words = sought.words;
		reading->line = sought.line;
		sought.words = (lk_words){0};
	}
	lk_vec_free(&sought.words);
	shell_free(&s);
	return status;
}
