/* script.c: reads the shell script that launches a training: variables, arrays, conditions that
 * texts decide, and the last command that starts a launcher or python. Nothing is executed.
 *
 *   script_blocks.c     if, loops, case, functions
 *   script_commands.c   what a simple command does
 *   script_inner.c      scripts that it reads and starts
 *   script_launch.c     which command is the launch
 *   script_arguments.c  a script without one, which holds arguments
 *   script_example.c    the arguments that a comment shows
 *
 * A command that runs as a program of its own cannot change a variable, so it is passed over; what
 * can (source, eval, read, functions, loops, case) is followed. In a branch or loop body whose
 * execution is not certain, what is assigned becomes unknown; what would be added to a list is left
 * out, and an uncertain launch is taken where there is no other, and both are said. */
#include "base/arena.h"
#include "base/text.h"
#include "launch/script/script_internal.h"

#include <string.h>

static lk_status script_keep_file(lk_shell *shell, const char *name, const lk_word *word);

/* ---- commands ---- */

static lk_truth script_test(lk_shell *shell, const lk_raws *words, lk_status *status) {
	const lk_raw *name = &words->at[0];
	if (lk_shell_raw_is(name, "true") || lk_shell_raw_is(name, ":")) return LK_SHELL_TRUE;
	if (lk_shell_raw_is(name, "false")) return LK_SHELL_FALSE;
	if (lk_shell_raw_is(name, "getopts")) return lk_script_getopts(shell, words, status);
	if (name->end - name->at > 4 && name->at[0] == '(') { /* ((...)) */
		long long value;
		const char *unknown = NULL;
		*status = lk_shell_math(shell, name->at + 2, name->end - 2, name->line, lk_shell_expand_one,
		                        &value, &unknown);
		if (*status != LK_OK || unknown != NULL) return LK_SHELL_UNKNOWN;
		return value != 0 ? LK_SHELL_TRUE : LK_SHELL_FALSE;
	}
	bool single = lk_shell_raw_is(name, "["), twice = lk_shell_raw_is(name, "[[");
	lk_truth answer = LK_SHELL_UNKNOWN;
	if (single || twice || lk_shell_raw_is(name, "test"))
		((lk_script_sought *)shell->caller)->tested =
			(lk_raw){name->at, words->at[words->count - 1].end, name->line};
	if (twice) {
		size_t count = words->count - 1;
		while (count > 0 && !lk_shell_raw_is(&words->at[count], "]]")) count--; /* redirections */
		if (count > 0)
			*status = lk_shell_test_raw(shell, words->at + 1, count - 1, &shell->assumed, &answer);
		return answer;
	}
	if (!single && !lk_shell_raw_is(name, "test")) return LK_SHELL_UNKNOWN;
	lk_words expanded = {0};
	*status = lk_script_expand(shell, words, 1, &expanded);
	size_t count = expanded.count;
	if (single && count > 0) count--; /* the closing bracket */
	if (*status == LK_OK) answer = lk_shell_test(shell, expanded.at, count, &shell->assumed);
	if (answer == LK_SHELL_UNKNOWN) shell->asks = NULL;
	for (size_t i = 0; answer == LK_SHELL_UNKNOWN && i < count; i++)
		if (expanded.at[i].argument) shell->asks = expanded.at[i].unknown;
	lk_vec_free(&expanded);
	return answer;
}

/* Whether a command runs that `op` joins to an answer. */
static lk_truth script_joined(char op, lk_truth chain) {
	if (op == '&') return chain;
	if (op != '|') return LK_SHELL_TRUE;
	if (chain == LK_SHELL_UNKNOWN) return LK_SHELL_UNKNOWN;
	return chain == LK_SHELL_TRUE ? LK_SHELL_FALSE : LK_SHELL_TRUE;
}

/* A word of the grammar; braces of a group run as a whole, or not: [ -n "$X" ] && { A=1; B=2; }. */
static lk_status script_grammar(lk_shell *shell, lk_raws *words, char *op, lk_truth *chain,
                                bool *again) {
	size_t blocks = shell->blocks.count;
	lk_shell_block closed = {0};
	if (blocks > shell->base && lk_shell_raw_is(&words->at[0], "}"))
		closed = *lk_last(&shell->blocks);
	static const char *const ends[] = {"fi", "done", "esac", "}", NULL};
	bool ended = lk_script_among(&words->at[0], ends);
	LK_TRY(lk_script_keyword(shell, words, again));
	if (closed.kind == '{' && closed.truth != LK_SHELL_TRUE) *chain = closed.chain;
	else if (ended && lk_script_runs(shell) == LK_SHELL_TRUE) *chain = shell->succeeded;
	if (shell->blocks.count <= blocks || lk_last(&shell->blocks)->kind != '{') return LK_OK;
	lk_shell_block *group = lk_last(&shell->blocks);
	group->truth = script_joined(*op, *chain);
	group->chain = group->truth == LK_SHELL_FALSE ? *chain : group->truth;
	group->assumed = *op != 0 && shell->assumed;
	*op = 0;
	*chain = LK_SHELL_TRUE;
	return LK_OK;
}

/* Whether a command may set variables: in a pipe and in the background it does so for itself alone.
 */
static bool script_sets(const lk_shell *shell, const lk_raw *name) {
	static const char *const sets[] = {"export", "declare", "typeset", "readonly",  "local",
	                                   "unset",  "read",    "mapfile", "readarray", "let",
	                                   "eval",   "printf",  ":",       "[[",        NULL};
	bool append;
	const char *value;
	return lk_script_among(name, sets) || name->at[0] == '(' ||
	       lk_shell_assignment(name, &append, &value) > 0 ||
	       lk_script_function(shell, name) != UINT32_MAX;
}

/* Runs a simple command. Programs are taken to succeed, but where a condition asks for it. */
static lk_status script_run_command(lk_shell *shell, lk_raws *words, lk_truth certain,
                                    lk_truth *answer) {
	static const char *const tests[] = {"[", "[[", "test", NULL};
	static const char *const own[] = {"return", "exit", "let", "eval", NULL};
	lk_status status = LK_OK;
	bool append,
		condition = shell->blocks.count > shell->base && lk_last(&shell->blocks)->condition;
	const char *value;
	const lk_raw *name = &words->at[0];
	if (lk_script_asks_device(name->at, lk_last(words)->end)) {
		*answer = LK_SHELL_FALSE;
		return LK_OK;
	}
	*answer = script_test(shell, words, &status);
	if (status != LK_OK || lk_script_among(name, tests) || name->at[0] == '(') return status;
	bool knows = lk_script_among(name, own) || lk_script_function(shell, name) != UINT32_MAX;
	bool assigns = lk_shell_assignment(&lk_last(words)[0], &append, &value) > 0;
	for (size_t i = 0; i < words->count; i++)
		assigns = assigns && memchr(words->at[i].at, '(',
		                            (size_t)(words->at[i].end - words->at[i].at)) == NULL;
	if (*answer == LK_SHELL_UNKNOWN && (!condition || assigns)) *answer = LK_SHELL_TRUE;
	bool strung = shell->strung;
	const lk_raw string = shell->string;
	LK_TRY(lk_script_command(shell, words, certain));
	if (knows) *answer = certain == LK_SHELL_TRUE ? shell->succeeded : LK_SHELL_UNKNOWN;
	if (!strung || certain != LK_SHELL_TRUE) return LK_OK;
	lk_word input;
	LK_TRY(lk_shell_expand_one(shell, &string, &input));
	input.text = lk_arena_printf(shell->arena, "%s\n", input.text);
	return input.text != NULL ? script_keep_file(shell, NULL, &input) : lk_oom(shell->err);
}

/* Commands joined by && and ||. `apart`: in a pipe. `chain` is the answer so far; `op` joins this
 * one to it: 0, '&' or
 * '|'. */
static lk_status script_one_command(lk_shell *shell, lk_raws *words, char op, lk_truth *chain,
                                    bool apart) {
	bool again = true, negated = false;
	while (again && words->count > 0) {
		negated ^= lk_shell_raw_is(&words->at[0], "!");
		if (lk_shell_raw_is(&words->at[0], "function") && words->count > 1) {
			LK_TRY(lk_script_function_begins(shell, &words->at[1]));
			lk_script_drop_first(words);
			lk_script_drop_first(words);
			continue;
		}
		LK_TRY(script_grammar(shell, words, &op, chain, &again));
	}
	if (words->count == 0) return LK_OK;
	lk_truth here = script_joined(op, *chain), certain = lk_script_runs(shell);
	if (here == LK_SHELL_UNKNOWN && certain == LK_SHELL_TRUE) certain = LK_SHELL_UNKNOWN;
	shell->certain = here == LK_SHELL_FALSE ? LK_SHELL_FALSE : certain;
	if (here == LK_SHELL_FALSE) return LK_OK; /* the chain keeps its answer */
	*chain = here;
	if (certain == LK_SHELL_FALSE) return LK_OK;
	lk_shell_vars saved;
	apart = apart && script_sets(shell, &words->at[0]);
	if (apart) LK_TRY(lk_shell_save(shell, &saved));
	lk_truth answer;
	lk_status status = script_run_command(shell, words, certain, &answer);
	if (apart) lk_shell_restore(shell, &saved);
	LK_TRY(status);
	if (negated && answer != LK_SHELL_UNKNOWN)
		answer = answer == LK_SHELL_TRUE ? LK_SHELL_FALSE : LK_SHELL_TRUE;
	*chain = here == LK_SHELL_UNKNOWN ? LK_SHELL_UNKNOWN : answer;
	shell->succeeded = certain == LK_SHELL_TRUE ? *chain : LK_SHELL_UNKNOWN;
	return LK_OK;
}

/* Whether | or & begins here, which are not || and &&. */
static bool script_is_single(const lk_shell *shell, const char *at) {
	bool mark = at < shell->end && (*at == '|' || *at == '&');
	return mark && (at + 1 >= shell->end || at[1] != *at);
}

static lk_status script_read_commands(lk_shell *shell, lk_raws *words) {
	char op = 0;
	bool piped = false; /* what the command before writes is read */
	lk_truth chain = LK_SHELL_TRUE;
	while (shell->at < shell->end && !shell->stop && !shell->leaves) {
		LK_TRY(lk_shell_take_words(shell, words));
		bool brackets = shell->at + 1 < shell->end && shell->at[0] == '(' && shell->at[1] == ')';
		if (lk_script_pattern(shell) != NULL) {
			LK_TRY(lk_script_case_pattern(shell, words));
			lk_shell_block *block = lk_script_pattern(shell);
			if (block != NULL && shell->at < shell->end && *shell->at == ')')
				lk_script_case_commands(block);
			if (shell->at >= shell->end) return LK_OK;
			if (block == NULL) {
				chain = lk_script_runs(shell) == LK_SHELL_TRUE ? shell->succeeded : LK_SHELL_TRUE;
				words->count = 0; /* after esac */
			} else {
				if (*shell->at == '\n') LK_TRY(lk_shell_newline(shell));
				else shell->at++;
				continue;
			}
		}
		if (brackets && words->count > 0) {
			shell->at += 2;
			for (bool again = true; again && words->count > 1 &&
			                        !lk_shell_raw_is(&words->at[0], "function");) /* then name() */
				LK_TRY(script_grammar(shell, words, &op, &chain, &again));
			if (!lk_shell_raw_is(&words->at[0], "function"))
				LK_TRY(lk_script_function_begins(shell, &words->at[0]));
			else LK_TRY(script_one_command(shell, words, 0, &chain, false));
			op = 0;
			continue;
		}
		bool single = script_is_single(shell, shell->at);
		if (words->count > 0) LK_TRY(script_one_command(shell, words, op, &chain, piped || single));
		piped = single && *shell->at == '|' && lk_script_pattern(shell) == NULL;
		lk_shell_block *block = lk_script_if(shell);
		if (block != NULL && block->condition) {
			block->truth = chain;
			block->assumed = shell->assumed;
		}
		if (shell->at >= shell->end) return LK_OK;
		lk_shell_block *pattern = lk_script_pattern(shell); /* case X in PATTERN) on a line */
		if (pattern != NULL && *shell->at == ')') {
			lk_script_case_commands(pattern);
			shell->at++;
			continue;
		}
		if (*shell->at == '(' && words->count == 0) {
			LK_TRY(lk_script_bracket_begins(shell, script_joined(op, chain), chain));
			op = 0;
			chain = LK_SHELL_TRUE;
			continue;
		}
		if (*shell->at == ')') {
			LK_TRY(lk_script_bracket_ends(shell, &chain));
			continue;
		}
		bool twice = shell->at + 1 < shell->end && shell->at[1] == shell->at[0];
		op = twice && (*shell->at == '&' || *shell->at == '|') ? *shell->at : 0;
		if (op == 0) chain = LK_SHELL_TRUE;
		if (op == 0) shell->assumed = false;
		bool within = shell->blocks.count > shell->base && lk_last(&shell->blocks)->kind == 'c';
		size_t branch = within ? lk_script_branch_ends(shell) : 0;
		if (branch > 0) lk_script_case_next(lk_last(&shell->blocks), shell->at, branch);
		if (branch > 0) shell->at += branch;
		else if (*shell->at == '\n') LK_TRY(lk_shell_newline(shell));
		else shell->at += op != 0 ? 2 : 1;
	}
	return LK_OK;
}

static lk_status script_run_text(lk_shell *shell, const char *text, size_t size) {
	if (++shell->depth > LK_SHELL_DEPTH)
		return lk_shell_fail(shell, shell->line, "eval, functions and loops are nested too deeply",
		                     "write the command itself");
	const char *at = shell->at, *end = shell->end;
	int line = shell->line;
	lk_raws words = {0};
	shell->at = text;
	shell->end = text + size;
	lk_status status = script_read_commands(shell, &words);
	lk_vec_free(&words);
	shell->at = at;
	shell->end = end;
	shell->line = line;
	shell->depth--;
	return status;
}

/* ---- the script ---- */

/* "#SBATCH ..." states options of the batch job. */
static lk_status script_batch_line(lk_shell *shell, const char *line, size_t length) {
	lk_script_sought *sought = shell->caller;
	if (length <= 8 || strncmp(line, "#SBATCH", 7) != 0 || sought->batch == NULL) return LK_OK;
	char *options = lk_arena_strndup(shell->arena, line + 7, length - 7);
	if (options == NULL) return lk_oom(shell->err);
	LK_TRY(lk_launcher_sbatch(sought->reading, options, sought->batch));
	return lk_script_batch_variables(shell, sought->batch);
}

static void script_free_shell(lk_shell *shell) {
	for (size_t i = 0; i < shell->vars.count; i++) lk_vec_free(&shell->vars.at[i].values);
	lk_vec_free(&shell->vars);
	lk_vec_free(&shell->blocks);
	lk_vec_free(&shell->bodies);
	lk_shell_forget_hidden(shell, 0);
	lk_vec_free(&shell->hidden);
	lk_intern_free(shell->names);
	lk_intern_free(shell->functions);
}

/* What may be added to a list is left out, once said for each line. */
static lk_status script_doubt(lk_shell *shell, int line) {
	lk_script_sought *sought = shell->caller;
	return lk_launch_assume(sought->reading,
	                        "line %d is left out: only the cluster decides whether it runs", line);
}

/* A file that the script writes before it launches with it; without a name the input of the last
 * command, which bash, sbatch and ssh run: sbatch <<END. */
static lk_status script_keep_file(lk_shell *shell, const char *name, const lk_word *word) {
	lk_script_sought *sought = shell->caller;
	const char *text = word->text;
	size_t length = strlen(text);
	if (name == NULL && sought->reads.count > 0) return lk_script_reads(shell, word);
	if (name == NULL && sought->cats) return lk_script_document(shell, text);
	if (name == NULL) return sought->fed ? script_run_text(shell, text, length) : LK_OK;
	lk_inner_file *file = LK_NEW(shell->arena, lk_inner_file);
	if (file == NULL) return lk_oom(shell->err);
	*file =
		(lk_inner_file){.name = name, .text = text, .size = length, .next = sought->reading->files};
	sought->reading->files = file;
	return LK_OK;
}

/* Variables that the cluster sets, and the script's arguments. */
static lk_status script_take_given(lk_shell *shell, const lk_launch_given *given) {
	for (const char *line = given->vars; line != NULL && *line != '\0';) {
		size_t size = strcspn(line, "\n"), name = lk_shell_name(line, line + size);
		if (name == 0 || name >= size || line[name] != '=') {
			lk_fail(shell->err, LK_ERR_INPUT, "--var", "\"%.*s\" is not of the form NAME=VALUE",
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

/* Notes which of the given variables the script reads or exports. A subshell has variables of its
 * own, so a name in the text counts as well. */
static void script_note_read(lk_shell *shell, const lk_launch_given *given, const char *text) {
	int at = 0;
	for (const char *line = given->vars; line != NULL && *line != '\0' && at < 64; at++) {
		size_t size = strcspn(line, "\n"), length = strcspn(line, "=\n");
		char name[128];
		lk_copy(name, length < sizeof name ? length + 1 : sizeof name, line);
		uint32_t id = lk_intern_find(shell->names, name);
		const lk_shell_var *var = id < shell->vars.count ? &shell->vars.at[id] : NULL;
		if ((var != NULL && (var->seen || var->exported)) || strstr(text, name) != NULL)
			*given->vars_read |= UINT64_C(1) << at;
		line += size + (line[size] == '\n');
	}
}

static lk_status script_launches_nothing(const lk_script_sought *sought, bool stops) {
	lk_error *err = sought->reading->err;
	const char *where = sought->reading->where;
	if (stops) {
		lk_fail(err, LK_ERR_INPUT, where, "the script ends in line %d, and has launched nothing",
		        sought->ended);
		return lk_hint(err, "give what it asks for: --var NAME=VALUE, arguments after --");
	}
	const char *work = sought->missing != NULL ? lk_launch_other_work(sought->missing) : NULL;
	if (work != NULL) {
		lk_fail(err, LK_ERR_INPUT, where, "%.80s %s, and trains nothing", sought->missing, work);
		return lk_hint(err, "give the launch of a training");
	}
	if (sought->other != NULL && sought->missing == NULL) {
		lk_fail(err, LK_ERR_INPUT, where, "%s, and trains nothing", sought->other);
		return lk_hint(err, "give the script that launches the training");
	}
	char starters[256];
	lk_launch_starters(starters, sizeof starters);
	lk_fail(err, LK_ERR_INPUT, where, "no command starts %s", starters);
	if (sought->missing == NULL) return lk_hint(err, "give the script that launches the training");
	return lk_hint(err, "it runs %.80s, which is not here: put that file next to it",
	               sought->missing);
}

lk_status lk_script_words(lk_reading *reading, const char *text, size_t size,
                          const lk_words *environment, const lk_launch_given *given,
                          lk_words *words, lk_launch_ranks *batch) {
	lk_script_sought sought = {.reading = reading, .run = script_run_text, .batch = batch};
	lk_shell s = {.arena = reading->arena,
	              .err = reading->err,
	              .where = reading->where,
	              .comment = script_batch_line,
	              .doubt = script_doubt,
	              .wrote = script_keep_file,
	              .substitute = lk_script_output,
	              .caller = &sought,
	              .line = reading->line > 0 ? reading->line : 1,
	              .names = lk_intern_new(),
	              .functions = lk_intern_new(),
	              .succeeded = LK_SHELL_TRUE,
	              .certain = LK_SHELL_TRUE,
	              .depth = reading->depth};
	lk_status status = s.names == NULL || s.functions == NULL ? lk_oom(reading->err) : LK_OK;
	for (size_t i = 0; status == LK_OK && environment != NULL && i < environment->count; i++)
		if (environment->at[i].unknown == NULL)
			status = lk_shell_set(&s, environment->at[i].text, strlen(environment->at[i].text));
	if (status == LK_OK && given != NULL) status = script_take_given(&s, given);
	if (status == LK_OK && !s.args_known) status = lk_script_example(&s, text);
	if (status == LK_OK) status = script_run_text(&s, text, size);
	if (status == LK_OK && s.blocks.count > 0 && !s.stop)
		status = lk_shell_fail(&s, lk_last(&s.blocks)->line,
		                       "a block that begins here does not end", "close it");
	if (status == LK_OK && sought.rank == 0) status = lk_script_arguments(&s, &sought);
	if (status == LK_OK && given != NULL && given->vars_read != NULL)
		script_note_read(&s, given, text);
	if (status == LK_OK && sought.rank == 0) status = script_launches_nothing(&sought, s.stop);
	if (status == LK_OK && sought.rank > 0 && !sought.certain)
		status = lk_launch_assume(
			reading, "line %d launches a program, but only the cluster decides whether it runs",
			sought.line);
	if (status == LK_OK) {
		*words = sought.words;
		reading->line = sought.line;
		sought.words = (lk_words){0};
	}
	lk_vec_free(&sought.words);
	lk_vec_free(&sought.reads);
	script_free_shell(&s);
	return status;
}
