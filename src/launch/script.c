/* script.c: reads the shell script that launches a training: variables, arrays, conditions that texts decide, and the
 * last command that starts a launcher or python. Nothing is executed.
 *
 * A command that runs as a program of its own cannot change a variable, so it is passed over; what can (source, eval,
 * read, functions) is followed or refused. In a branch, loop or function body whose execution is not certain, what is
 * assigned becomes unknown, and a launch is refused. */
#include "launch/shell/shell.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* How certain it is that the present line runs. */
static lk_truth runs(const lk_shell *s) {
	lk_truth all = LK_TRUE;
	for (size_t i = 0; i < s->blocks.count; i++) {
		const lk_shell_block *b = &s->blocks.at[i];
		lk_truth one = b->taken ? LK_FALSE : b->truth;
		if (one == LK_TRUE && b->doubtful) one = LK_UNKNOWN;
		if (one == LK_FALSE) return LK_FALSE;
		if (one == LK_UNKNOWN) all = LK_UNKNOWN;
	}
	return all;
}

/* ---- commands ---- */

static bool among(const lk_raw *raw, const char *const *names) {
	for (; *names != NULL; names++)
		if (lk_shell_raw_is(raw, *names)) return true;
	return false;
}

/* Programs that are often given the name of a launcher or a script as an argument. */
static const char *const harmless[] = {
	"echo", "printf", "cd", "pushd", "popd", "mkdir", "rm", "cp", "mv", "ln", "ls", "cat", "touch", "chmod", "sleep",
	"date",
	"set", "shopt", "ulimit", "module", "ml", "conda", "mamba", "nvidia-smi", "hostname", "pwd", "wait", "trap", "true",
	":",
	"tee", "pip", "pip3", "git", "wget", "curl", "tar", "which", "type", "command", "test", "[", "[[", "false", "kill",
	"pkill",
	"grep", "sed", "awk", "find", "head", "tail", "sort", "shift", "return", "break", "continue", "wandb", "scontrol",
	"sinfo",
	"squeue", "apt", "apt-get", "umask", "hash", "]]", NULL,
};

static lk_status run_text(lk_shell *s, const char *text, size_t size);

static lk_status expand_all(lk_shell *s, const lk_raws *words, size_t from, lk_words *out) {
	for (size_t i = from; i < words->count; i++) LK_TRY(lk_shell_expand(s, &words->at[i], out));
	return LK_OK;
}

/* What is unknown in the text is still written as it was, so that reading it again finds it unknown again. */
static lk_status run_eval(lk_shell *s, const lk_raws *words) {
	lk_words expanded = {0};
	lk_status status = expand_all(s, words, 1, &expanded);
	size_t size = 1;
	for (size_t i = 0; i < expanded.count; i++) size += strlen(expanded.at[i].text) + 1;
	char *text = status == LK_OK ? lk_arena_alloc(s->r->arena, size) : NULL;
	if (status == LK_OK && text == NULL) status = lk_oom(s->r->err);
	size_t length = 0;
	for (size_t i = 0; status == LK_OK && i < expanded.count; i++) {
		size_t n = strlen(expanded.at[i].text);
		memcpy(text + length, expanded.at[i].text, n);
		length += n;
		text[length++] = ' ';
	}
	if (status == LK_OK) status = run_text(s, text, length);
	lk_vec_free(&expanded);
	return status;
}

/* Scripts that prepare an environment are passed over; others could set anything. */
static lk_status run_source(lk_shell *s, const lk_raws *words) {
	static const char *const known[] = {"activate",      "conda.sh",   ".bashrc", "bashrc",  "profile",    ".profile",
										".bash_profile", "setvars.sh", "bash",    "lmod.sh", "modules.sh", NULL};
	if (words->count > 1) {
		const lk_raw *raw = &words->at[1];
		lk_raw base = *raw;
		for (const char *p = raw->at; p < raw->end; p++)
			if (*p == '/') base.at = p + 1;
		if (base.end > base.at && base.end[-1] == '"') base.end--;
		if (among(&base, known)) return LK_OK;
	}
	return lk_shell_fail(s, words->at[0].line, "the script reads another one, which could set anything",
	                     "copy what it sets into the script");
}

/* Words of a launch: what the script exported, then the command. */
static lk_status keep_launch(lk_shell *s, const lk_words *words, int line) {
	s->launch.count = 0;
	s->found = true;
	s->launch_line = line;
	for (uint32_t id = 0; id < s->vars.count; id++) {
		const lk_shell_var *var = &s->vars.at[id];
		if (!var->exported || !var->set || var->values.count == 0) continue;
		const lk_word *value = &var->values.at[0];
		char *text = lk_arena_printf(s->r->arena, "%s=%s", lk_intern_text(s->names, id), value->text);
		if (text == NULL || !lk_push(&s->launch)) return lk_oom(s->r->err);
		s->produced += strlen(text);
		*lk_last(&s->launch) = (lk_word){.text = text, .unknown = value->unknown};
	}
	for (size_t i = 0; i < words->count; i++) {
		if (!lk_push(&s->launch)) return lk_oom(s->r->err);
		*lk_last(&s->launch) = words->at[i];
	}
	if (s->produced <= LK_LAUNCH_BYTES) return LK_OK;
	return lk_shell_fail(s, line, "the words grow beyond 4 MiB", "shorten the script");
}

/* A launcher among the words, or in the text of bash -c. */
static bool is_launch(const lk_words *words) {
	static const char *const names[] = {"torchrun", "python", "srun", "mpirun", "deepspeed", "accelerate"};
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

/* A program that is neither a builtin nor harmless: kept if it launches, else it cannot change what follows. */
static lk_status run_program(lk_shell *s, const lk_raws *words, lk_truth certain) {
	lk_words expanded = {0};
	lk_status status = expand_all(s, words, 0, &expanded);
	bool launch = status == LK_OK && is_launch(&expanded);
	if (status == LK_OK && launch && certain != LK_TRUE)
		status =
			lk_shell_fail(s, words->at[0].line, "a training is launched where it is not certain that the line runs",
						  "give the launch line without the condition, loop or function around it");
	if (status == LK_OK && launch) status = keep_launch(s, &expanded, words->at[0].line);
	lk_vec_free(&expanded);
	return status;
}

static lk_status run_command(lk_shell *s, lk_raws *words, lk_truth certain) {
	static const char *const declaring[] = {"export", "declare", "local", "readonly", "typeset", NULL};
	static const char *const setting[] = {"read", "mapfile", "readarray", NULL};
	static const char *const refused[] = {"let", "getopts", "alias", NULL};
	bool append;
	const char *value;
	size_t first = 0;
	while (first < words->count && lk_shell_assignment(&words->at[first], &append, &value) > 0) first++;
	if (first == words->count) {
		for (size_t i = 0; i < first; i++) LK_TRY(lk_shell_assign(s, &words->at[i], certain, false));
		return LK_OK;
	}
	const lk_raw *name = &words->at[first];
	if (among(name, declaring)) return lk_shell_declare(s, words, certain);
	if (lk_shell_raw_is(name, "unset")) return lk_shell_unset(s, words, certain);
	if (among(name, setting)) return lk_shell_set_by_command(s, words);
	if (lk_shell_raw_is(name, "source") || lk_shell_raw_is(name, ".")) return run_source(s, words);
	if (lk_shell_raw_is(name, "exit") || lk_shell_raw_is(name, "exec")) {
		if (lk_shell_raw_is(name, "exit") || words->count == first + 1) {
			s->stop = certain == LK_TRUE && lk_shell_raw_is(name, "exit");
			return LK_OK;
		}
	}
	if (lk_shell_raw_is(name, "eval")) {
		if (certain == LK_TRUE) return run_eval(s, words);
		return lk_shell_fail(s, name->line, "eval where it is not certain that the line runs",
							 "write the command itself");
	}
	if (among(name, refused))
		return lk_shell_fail(s, name->line, "let, getopts and alias are not followed", "write plain assignments");
	if (among(name, harmless)) return LK_OK;
	char function[128];
	snprintf(function, sizeof function, "%.*s", (int)(name->end - name->at > 127 ? 127 : name->end - name->at),
			 name->at);
	if (lk_intern_find(s->functions, function) != UINT32_MAX)
		return lk_shell_fail(s, name->line, "functions of the script are not followed",
							 "write the launch line without the function");
	return run_program(s, words, certain);
}

/* ---- blocks ---- */

static lk_status push_block(lk_shell *s, char kind, lk_truth truth, bool condition) {
	if (s->blocks.count >= LK_SHELL_BLOCKS)
		return lk_shell_fail(s, s->line, "blocks are nested too deeply", "simplify the script");
	if (!lk_push(&s->blocks)) return lk_oom(s->r->err);
	*lk_last(&s->blocks) = (lk_shell_block){.kind = kind, .truth = truth, .condition = condition, .line = s->line};
	return LK_OK;
}

static lk_status pop_block(lk_shell *s, const char *kinds) {
	if (s->blocks.count == 0 || strchr(kinds, lk_last(&s->blocks)->kind) == NULL)
		return lk_shell_fail(s, s->line, "a block ends that did not begin", "correct the script");
	s->blocks.count--;
	return LK_OK;
}

static lk_shell_block *open_if(lk_shell *s) {
	return s->blocks.count > 0 && lk_last(&s->blocks)->kind == 'i' ? lk_last(&s->blocks) : NULL;
}

/* The next branch of an if: what came before was taken, or may have been. */
static lk_status next_branch(lk_shell *s, bool condition) {
	lk_shell_block *b = open_if(s);
	if (b == NULL) return lk_shell_fail(s, s->line, "else without if", "correct the script");
	if (b->truth == LK_TRUE && !b->doubtful) b->taken = true;
	else if (b->truth != LK_FALSE) b->doubtful = true;
	b->truth = LK_TRUE;
	b->condition = condition;
	return LK_OK;
}

static void drop_first(lk_raws *words) {
	memmove(words->at, words->at + 1, --words->count * sizeof *words->at);
}

/* A word of the shell's grammar at the start of a command; *again: what follows it is a command. */
static lk_status keyword(lk_shell *s, lk_raws *words, bool *again) {
	const lk_raw *w = &words->at[0];
	lk_status status = LK_OK;
	*again = true;
	if (lk_shell_raw_is(w, "if")) status = push_block(s, 'i', LK_TRUE, true);
	else if (lk_shell_raw_is(w, "elif")) status = next_branch(s, true);
	else if (lk_shell_raw_is(w, "else")) status = next_branch(s, false);
	else if (lk_shell_raw_is(w, "then")) {
		if (open_if(s) == NULL) return lk_shell_fail(s, w->line, "then without if", "correct the script");
		open_if(s)->condition = false;
	} else if (lk_shell_raw_is(w, "while") || lk_shell_raw_is(w, "until"))
		status = push_block(s, 'l', LK_UNKNOWN, true);
	else if (lk_shell_raw_is(w, "do")) {
		if (s->blocks.count > 0) lk_last(&s->blocks)->condition = false;
	} else if (lk_shell_raw_is(w, "fi")) status = pop_block(s, "i");
	else if (lk_shell_raw_is(w, "done")) status = pop_block(s, "l");
	else if (lk_shell_raw_is(w, "}")) status = pop_block(s, "{f");
	else if (lk_shell_raw_is(w, "{")) {
		bool function = s->blocks.count > 0 && lk_last(&s->blocks)->kind == 'f' && lk_last(&s->blocks)->condition;
		if (function) lk_last(&s->blocks)->condition = false;
		else status = push_block(s, '{', LK_TRUE, false);
	} else if (lk_shell_raw_is(w, "for") || lk_shell_raw_is(w, "select")) {
		status = push_block(s, 'l', LK_UNKNOWN, false);
		if (status == LK_OK && words->count > 1) {
			lk_raws name = {.at = words->at, .count = 2};
			status = lk_shell_set_by_command(s, &name);
		}
		words->count = 1;
	} else if (lk_shell_raw_is(w, "case")) {
		return lk_shell_fail(s, w->line, "case is not followed", "write the assignments of the case that holds");
	} else if (lk_shell_raw_is(w, "time") || lk_shell_raw_is(w, "!")) {
	} else {
		*again = false;
	}
	if (*again) drop_first(words);
	return status;
}

/* name() or function name: its body runs when it is called, which is refused. */
static lk_status function_begins(lk_shell *s, const lk_raw *name) {
	char text[128];
	snprintf(text, sizeof text, "%.*s", (int)(name->end - name->at > 127 ? 127 : name->end - name->at), name->at);
	if (lk_intern_id(s->functions, text) == UINT32_MAX) return lk_oom(s->r->err);
	return push_block(s, 'f', LK_UNKNOWN, true);
}

static lk_truth test_command(lk_shell *s, const lk_raws *words, lk_status *status) {
	const lk_raw *name = &words->at[0];
	if (lk_shell_raw_is(name, "true") || lk_shell_raw_is(name, ":")) return LK_TRUE;
	if (lk_shell_raw_is(name, "false")) return LK_FALSE;
	bool single = lk_shell_raw_is(name, "["), twice = lk_shell_raw_is(name, "[[");
	if (!single && !twice && !lk_shell_raw_is(name, "test")) return LK_UNKNOWN;
	lk_words expanded = {0};
	for (size_t i = 1; *status == LK_OK && i < words->count; i++) {
		lk_word one;
		const lk_raw *raw = &words->at[i];
		if (!twice) { /* an unquoted empty variable is no word at all, which the test would not notice */
			*status = lk_shell_expand(s, raw, &expanded);
			continue;
		}
		*status = lk_shell_expand_one(s, raw, &one);
		if (*status == LK_OK && !lk_push(&expanded)) *status = lk_oom(s->r->err);
		if (*status == LK_OK) *lk_last(&expanded) = one;
	}
	size_t count = expanded.count;
	if ((single || twice) && count > 0) count--; /* the closing bracket */
	lk_truth answer = *status == LK_OK ? lk_shell_test(expanded.at, count) : LK_UNKNOWN;
	lk_vec_free(&expanded);
	return answer;
}

/* Commands joined by && and ||. `chain` is the answer so far; `op` joins this one to it: 0, '&' or '|'. */
static lk_status one_command(lk_shell *s, lk_raws *words, char op, lk_truth *chain) {
	bool again = true, negated = false;
	while (again && words->count > 0) {
		negated ^= lk_shell_raw_is(&words->at[0], "!");
		if (lk_shell_raw_is(&words->at[0], "function") && words->count > 1) {
			LK_TRY(function_begins(s, &words->at[1]));
			drop_first(words);
			drop_first(words);
			continue;
		}
		LK_TRY(keyword(s, words, &again));
	}
	if (words->count == 0) return LK_OK;
	lk_truth here = op == '&' ? *chain : op != '|' ? LK_TRUE : *chain == LK_UNKNOWN ? LK_UNKNOWN
	              : *chain == LK_TRUE ? LK_FALSE : LK_TRUE;
	lk_truth certain = runs(s);
	lk_status status = LK_OK;
	lk_truth answer = test_command(s, words, &status);
	LK_TRY(status);
	static const char *const tests[] = {"[", "[[", "test", NULL};
	bool tested = among(&words->at[0], tests) || words->at[0].at[0] == '(',
		 condition = s->blocks.count > 0 && lk_last(&s->blocks)->condition;
	if (!tested && answer == LK_UNKNOWN && !condition) answer = LK_TRUE; /* programs are taken to succeed */
	if (negated && answer != LK_UNKNOWN) answer = answer == LK_TRUE ? LK_FALSE : LK_TRUE;
	if (here == LK_FALSE) return LK_OK; /* the chain keeps its answer */
	*chain = here == LK_UNKNOWN ? LK_UNKNOWN : answer;
	if (condition) return LK_OK;
	if (here == LK_UNKNOWN && certain == LK_TRUE) certain = LK_UNKNOWN;
	return certain == LK_FALSE || tested ? LK_OK : run_command(s, words, certain);
}

static lk_status read_commands(lk_shell *s, lk_raws *words) {
	char op = 0;
	lk_truth chain = LK_TRUE;
	while (s->at < s->end && !s->stop) {
		LK_TRY(lk_shell_take_words(s, words));
		bool brackets = s->at + 1 < s->end && s->at[0] == '(' && s->at[1] == ')';
		if (brackets && words->count > 0) {
			s->at += 2;
			if (!lk_shell_raw_is(&words->at[0], "function")) LK_TRY(function_begins(s, &words->at[0]));
			else LK_TRY(one_command(s, words, 0, &chain));
			words->count = 0;
		}
		if (words->count > 0) LK_TRY(one_command(s, words, op, &chain));
		lk_shell_block *b = open_if(s);
		if (b != NULL && b->condition) b->truth = chain;
		if (s->at >= s->end) return LK_OK;
		bool twice = s->at + 1 < s->end && s->at[1] == s->at[0];
		op = twice && (*s->at == '&' || *s->at == '|') ? *s->at : 0;
		if (op == 0) chain = LK_TRUE;
		if (*s->at == '\n') lk_shell_newline(s);
		else s->at += op != 0 ? 2 : 1;
	}
	return LK_OK;
}

static lk_status run_text(lk_shell *s, const char *text, size_t size) {
	if (++s->depth > LK_SHELL_DEPTH)
		return lk_shell_fail(s, s->line, "eval is nested too deeply", "write the command itself");
	const char *at = s->at, *end = s->end;
	int line = s->line;
	lk_raws words = {0};
	s->at = text;
	s->end = text + size;
	lk_status status = read_commands(s, &words);
	lk_vec_free(&words);
	s->at = at;
	s->end = end;
	s->line = line;
	s->depth--;
	return status;
}

static void shell_free(lk_shell *s) {
	for (size_t i = 0; i < s->vars.count; i++) lk_vec_free(&s->vars.at[i].values);
	lk_vec_free(&s->vars);
	lk_vec_free(&s->blocks);
	lk_vec_free(&s->launch);
	lk_intern_free(s->names);
	lk_intern_free(s->functions);
}

lk_status lk_script_words(lk_reading *r, const char *text, size_t size, const lk_words *environment, lk_words *words,
                          lk_launch_ranks *batch) {
	lk_shell s = {.r = r,
				  .line = r->line > 0 ? r->line : 1,
				  .batch = batch,
				  .names = lk_intern_new(),
				  .functions = lk_intern_new(),
				  .depth = r->depth};
	lk_status status = s.names == NULL || s.functions == NULL ? lk_oom(r->err) : LK_OK;
	for (size_t i = 0; status == LK_OK && environment != NULL && i < environment->count; i++)
		if (environment->at[i].unknown == NULL)
			status = lk_shell_set(&s, environment->at[i].text, strlen(environment->at[i].text));
	if (status == LK_OK) status = run_text(&s, text, size);
	if (status == LK_OK && s.blocks.count > 0)
		status = lk_shell_fail(&s, lk_last(&s.blocks)->line, "a block that begins here does not end", "close it");
	if (status == LK_OK && !s.found) {
		lk_fail(r->err, LK_ERR_INPUT, r->where,
				"no command starts torchrun, srun, mpirun, deepspeed, accelerate or python");
		status = lk_hint(r->err, "give the script that launches the training");
	}
	if (status == LK_OK) {
		*words = s.launch;
		r->line = s.launch_line;
		s.launch = (lk_words){0};
	}
	shell_free(&s);
	return status;
}
