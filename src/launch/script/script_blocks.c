/* script_blocks.c: blocks of a shell script: if, loops, case, groups, functions, and how certain it
 * is that what they hold runs. The bodies of loops and functions are passed over when they are
 * read, and read as often as they run. */
#include "base/arena.h"
#include "base/check.h"
#include "launch/script/script_internal.h"

#include <stdio.h>
#include <string.h>

enum {
	RUNS = 2048 /* of bodies of loops and functions */
};

lk_status lk_script_text(lk_shell *shell, const char *text, size_t size) {
	const lk_script_sought *sought = shell->caller;
	return sought->run(shell, text, size);
}

bool lk_script_among(const lk_raw *raw, const char *const *names) {
	for (; *names != NULL; names++)
		if (lk_shell_raw_is(raw, *names)) return true;
	return false;
}

lk_status lk_script_expand(lk_shell *shell, const lk_raws *words, size_t from, lk_words *out) {
	for (size_t i = from; i < words->count; i++) LK_TRY(lk_shell_expand(shell, &words->at[i], out));
	return LK_OK;
}

void lk_script_drop_first(lk_raws *words) {
	memmove(words->at, words->at + 1, --words->count * sizeof *words->at);
}

lk_status lk_script_set(lk_shell *shell, const char *name, const lk_word *value) {
	lk_shell_var *var;
	LK_TRY(lk_shell_var_at(shell, name, strlen(name), &var));
	if (var->held) return LK_OK;
	if (var->values.count == 0 && !lk_push(&var->values)) return lk_oom(shell->err);
	var->values.count = 1;
	var->values.at[0] = *value;
	var->set = true;
	return LK_OK;
}

/* How certain it is that the present line runs. */
lk_truth lk_script_runs(const lk_shell *shell) {
	lk_truth all = LK_SHELL_TRUE;
	for (size_t i = 0; i < shell->blocks.count; i++) {
		const lk_shell_block *block = &shell->blocks.at[i];
		bool asks = block->kind == 'i' && block->condition; /* its answer so far is no branch's */
		lk_truth one = asks ? LK_SHELL_TRUE : block->truth;
		if (block->taken) one = LK_SHELL_FALSE;
		if (one == LK_SHELL_TRUE && block->doubtful) one = LK_SHELL_UNKNOWN;
		if (one == LK_SHELL_FALSE) return LK_SHELL_FALSE;
		if (one == LK_SHELL_UNKNOWN) all = LK_SHELL_UNKNOWN;
	}
	return all;
}

/* Whether the present line runs only because variables are taken as not set. */
bool lk_script_assumed(const lk_shell *shell) {
	for (size_t i = 0; i < shell->blocks.count; i++)
		if (shell->blocks.at[i].assumed) return true;
	return false;
}

/* ---- blocks ---- */

static lk_status script_push_block(lk_shell *shell, char kind, lk_truth truth, bool condition) {
	if (shell->blocks.count >= LK_SHELL_BLOCKS)
		return lk_shell_fail(shell, shell->line, "blocks are nested too deeply",
		                     "simplify the script");
	if (!lk_push(&shell->blocks)) return lk_oom(shell->err);
	*lk_last(&shell->blocks) =
		(lk_shell_block){.kind = kind, .truth = truth, .condition = condition, .line = shell->line};
	return LK_OK;
}

static lk_status script_pop_block(lk_shell *shell, const char *kinds) {
	if (shell->blocks.count <= shell->base || strchr(kinds, lk_last(&shell->blocks)->kind) == NULL)
		return lk_shell_fail(shell, shell->line, "a block ends that did not begin",
		                     "correct the script");
	shell->blocks.count--;
	return LK_OK;
}

lk_shell_block *lk_script_if(lk_shell *shell) {
	return shell->blocks.count > shell->base && lk_last(&shell->blocks)->kind == 'i'
	           ? lk_last(&shell->blocks)
	           : NULL;
}

/* The next branch of an if: what came before was taken, or may have been. */
static lk_status script_next_branch(lk_shell *shell, bool condition) {
	lk_shell_block *block = lk_script_if(shell);
	if (block == NULL)
		return lk_shell_fail(shell, shell->line, "else without if", "correct the script");
	if (block->truth == LK_SHELL_TRUE && !block->doubtful) block->taken = true;
	else if (block->truth != LK_SHELL_FALSE) block->doubtful = true;
	block->truth = LK_SHELL_TRUE;
	block->condition = condition;
	return LK_OK;
}

/* The text of a body, as often as it is called. */
lk_status lk_script_body(lk_shell *shell, const char *at, const char *end, int line,
                         lk_truth certain) {
	if (++shell->runs > RUNS)
		return lk_shell_fail(shell, line, "loops and functions run too many times",
		                     "give the launch line itself");
	int before = shell->line;
	size_t base = shell->base;
	LK_TRY(script_push_block(shell, '{', certain, false));
	shell->base = shell->blocks.count;
	shell->line = line;
	lk_status status = lk_script_text(shell, at, (size_t)(end - at));
	if (status == LK_OK && shell->blocks.count > shell->base)
		shell->blocks.count = shell->base; /* left by break or return */
	shell->base = base;
	shell->line = before;
	LK_ASSERT(status != LK_OK || shell->blocks.count > base);
	if (status == LK_OK) shell->blocks.count--;
	return status;
}

/* ---- loops ---- */

/* for ((first; test; step)): the first sum is evaluated once. */
static lk_status script_begin_sums(lk_shell *shell, lk_shell_block *block, const lk_raw *raw) {
	const char *parts[4] = {raw->at + 2}, *end = raw->end - 2, *unknown;
	int count = 1;
	long long value;
	for (const char *at = raw->at + 2; at < end && count < 4; at++)
		if (*at == ';') parts[count++] = at + 1;
	if (count != 3) return LK_OK;
	block->over = NULL;
	block->sums = true;
	block->test = parts[1];
	block->test_end = parts[2] - 1;
	block->step = parts[2];
	block->step_end = end;
	return lk_shell_math(shell, parts[0], parts[1] - 1, raw->line, lk_shell_expand_one, &value,
	                     &unknown);
}

/* Whether the test of such a loop holds; nothing always does. */
static lk_status script_ask_sums(lk_shell *shell, const lk_shell_block *loop, lk_truth certain,
                                 lk_truth *out) {
	const char *unknown, *at = loop->test;
	long long value;
	while (at < loop->test_end && strchr(" \t\n", *at) != NULL) at++;
	*out = LK_SHELL_TRUE;
	if (at == loop->test_end) return LK_OK;
	shell->certain = certain;
	LK_TRY(lk_shell_math(shell, at, loop->test_end, loop->line, lk_shell_expand_one, &value,
	                     &unknown));
	*out = value != 0 ? LK_SHELL_TRUE : LK_SHELL_FALSE;
	if (unknown != NULL) *out = LK_SHELL_UNKNOWN;
	return LK_OK;
}

/* for NAME in WORDS: the words are expanded once, before the body. */
static lk_status script_begin_for(lk_shell *shell, const lk_raws *words) {
	lk_words list = {0};
	lk_truth certain = lk_script_runs(shell);
	LK_TRY(script_push_block(shell, 'l', LK_SHELL_FALSE, false));
	size_t at = shell->blocks.count - 1;
	static const lk_word none;
	shell->blocks.at[at].over = &none; /* a for loop, over what nobody knows */
	if (words->count < 2 || certain == LK_SHELL_FALSE) return LK_OK;
	shell->certain = certain;
	if (words->at[1].end - words->at[1].at > 4 && strncmp(words->at[1].at, "((", 2) == 0)
		return script_begin_sums(shell, &shell->blocks.at[at], &words->at[1]);
	size_t length = lk_shell_name(words->at[1].at, words->at[1].end);
	const char *name = lk_arena_strndup(shell->arena, words->at[1].at, length);
	lk_status status = name != NULL ? LK_OK : lk_oom(shell->err);
	bool listed = words->count > 2 && lk_shell_raw_is(&words->at[2], "in");
	if (status == LK_OK && listed) status = lk_script_expand(shell, words, 3, &list);
	for (size_t i = 0; !listed && shell->args_known && i < shell->arg_count; i++) {
		if (!lk_push(&list)) return lk_oom(shell->err);
		*lk_last(&list) = shell->args[i];
	}
	bool known = listed || shell->args_known;
	for (size_t i = 0; i < list.count; i++) known = known && list.at[i].unknown == NULL;
	lk_word *values = known ? LK_ARRAY(shell->arena, lk_word, list.count + 1) : NULL;
	if (known && values == NULL) status = lk_oom(shell->err);
	if (status == LK_OK) {
		lk_shell_block *block = &shell->blocks.at[at];
		block->variable = length > 0 ? name : NULL;
		if (values != NULL) {
			if (list.count > 0) memcpy(values, list.at, list.count * sizeof *values);
			block->over = values;
			block->listed = true;
			block->over_count = list.count;
		}
	}
	lk_vec_free(&list);
	return status;
}

/* The condition of a while loop, asked again. */
static lk_status script_ask(lk_shell *shell, const lk_shell_block *loop, const char *end,
                            lk_truth *out) {
	int line = shell->line;
	size_t base = shell->base;
	LK_TRY(script_push_block(shell, 'i', LK_SHELL_TRUE, true));
	shell->base = shell->blocks.count - 1;
	shell->line = loop->line;
	while (end > loop->test && strchr("; \t\r\n", end[-1]) != NULL)
		end--; /* the answer is the last's */
	lk_status status = lk_script_text(shell, loop->test, (size_t)(end - loop->test));
	*out = shell->blocks.at[shell->base].truth;
	if (loop->until && *out != LK_SHELL_UNKNOWN)
		*out = *out == LK_SHELL_TRUE ? LK_SHELL_FALSE : LK_SHELL_TRUE;
	LK_ASSERT(shell->base >= base);
	shell->blocks.count = shell->base;
	shell->base = base;
	shell->line = line;
	return status;
}

/* At `done`, when the whole of the loop is known: it was passed over so far. */
static lk_status script_run_loop(lk_shell *shell, const lk_shell_block *loop, const char *end) {
	lk_truth certain = lk_script_runs(shell);
	const char *body = loop->body;
	lk_truth last = LK_SHELL_TRUE;
	if (body == NULL || certain == LK_SHELL_FALSE) return LK_OK;
	if (loop->over != NULL && !loop->listed && loop->variable != NULL) {
		/* over what nobody knows: it runs once */
		lk_raw name = {loop->variable, loop->variable + strlen(loop->variable), loop->line};
		lk_raw both[2] = {name, name};
		lk_raws names = {.at = both, .count = 2};
		LK_TRY(lk_shell_set_by_command(shell, &names));
	}
	size_t left = loop->over_count > 0 || loop->listed ? loop->over_count : 1;
	bool ran = false;
	for (size_t i = 0; !shell->leaves && !shell->stop; i++) {
		lk_truth holds = LK_SHELL_TRUE;
		if (loop->over != NULL && i == left) break;
		if (loop->over != NULL && loop->over_count > 0 && loop->variable != NULL)
			LK_TRY(lk_script_set(shell, loop->variable, &loop->over[i]));
		if (loop->sums) LK_TRY(script_ask_sums(shell, loop, certain, &holds));
		else if (loop->over == NULL) LK_TRY(script_ask(shell, loop, body - 2, &holds));
		if (holds == LK_SHELL_FALSE) break;
		bool sure = holds == LK_SHELL_TRUE && certain == LK_SHELL_TRUE;
		LK_TRY(lk_script_body(shell, body, end, loop->line, sure ? certain : LK_SHELL_UNKNOWN));
		ran = true;
		last = shell->succeeded;
		if (shell->leaves == 'c') shell->leaves = '\0';
		if (loop->over == NULL && !sure) break;
		if (!loop->sums || shell->leaves || shell->stop) continue;
		long long value;
		const char *unknown;
		shell->certain = certain;
		LK_TRY(lk_shell_math(shell, loop->step, loop->step_end, loop->line, lk_shell_expand_one,
		                     &value, &unknown));
	}
	shell->succeeded = ran ? last : certain; /* of no body it is that of nothing */
	if (shell->leaves == 'b') shell->leaves = '\0';
	return LK_OK;
}

/* ---- case ---- */

/* case WORD in */
static lk_status script_begin_case(lk_shell *shell, lk_raws *words) {
	lk_word *subject = LK_NEW(shell->arena, lk_word);
	if (subject == NULL) return lk_oom(shell->err);
	if (words->count < 2)
		return lk_shell_fail(shell, shell->line, "case without a word", "correct the script");
	shell->certain = lk_script_runs(shell);
	if (shell->certain != LK_SHELL_FALSE)
		LK_TRY(lk_shell_expand_one(shell, &words->at[1], subject));
	else subject->text = "";
	LK_TRY(script_push_block(shell, 'c', LK_SHELL_FALSE, true));
	lk_last(&shell->blocks)->subject = subject;
	size_t used = words->count > 2 && lk_shell_raw_is(&words->at[2], "in") ? 3 : 2;
	memmove(words->at, words->at + used, (words->count - used) * sizeof *words->at);
	words->count -= used;
	return LK_OK;
}

lk_shell_block *lk_script_pattern(lk_shell *shell) {
	bool open = shell->blocks.count > shell->base && lk_last(&shell->blocks)->kind == 'c' &&
	            lk_last(&shell->blocks)->condition;
	return open ? lk_last(&shell->blocks) : NULL;
}

/* Words where a case expects a pattern, or its end. */
lk_status lk_script_case_pattern(lk_shell *shell, const lk_raws *words) {
	for (size_t i = 0; i < words->count; i++) {
		lk_shell_block *block = lk_script_pattern(shell);
		lk_word pattern;
		if (block == NULL || lk_shell_raw_is(&words->at[i], "in")) continue;
		if (lk_shell_raw_is(&words->at[i], "esac")) {
			if (!block->taken && !block->doubtful && block->truth == LK_SHELL_FALSE &&
			    lk_script_runs(shell) == LK_SHELL_TRUE)
				shell->succeeded = LK_SHELL_TRUE;
			shell->blocks.count--;
			return LK_OK;
		}
		if (block->matched == LK_SHELL_TRUE || block->taken) continue;
		shell->certain = LK_SHELL_FALSE; /* a pattern sets nothing */
		LK_TRY(lk_shell_expand_pattern(shell, &words->at[i], &pattern));
		block = lk_script_pattern(shell);
		LK_ASSERT(block != NULL); /* expanding a word opens and closes its own blocks only */
		lk_truth here = lk_shell_match(block->subject, &pattern, &block->assumed);
		if (here == LK_SHELL_TRUE || block->matched == LK_SHELL_FALSE) block->matched = here;
	}
	return LK_OK;
}

/* The bracket after a pattern: its commands follow. */
void lk_script_case_commands(lk_shell_block *block) {
	block->condition = false;
	block->truth = block->matched;
	if (block->falls == LK_SHELL_TRUE || block->truth == LK_SHELL_FALSE)
		block->truth = block->falls;
	if (block->falls == LK_SHELL_FALSE) block->truth = block->matched;
	block->matched = block->falls = LK_SHELL_FALSE;
}

size_t lk_script_branch_ends(const lk_shell *shell) {
	static const char *const marks[] = {";;&", ";;", ";&"};
	size_t left = (size_t)(shell->end - shell->at);
	for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
		size_t length = strlen(marks[i]);
		if (left >= length && strncmp(shell->at, marks[i], length) == 0) return length;
	}
	return 0;
}

/* ";;": the next pattern, after which no other is looked at where this one matched; ";;&": they
 * are; ";&": its commands run whether it matches or not. */
void lk_script_case_next(lk_shell_block *block, const char *mark, size_t length) {
	LK_ASSERT(block->kind == 'c' && (length == 2 || length == 3));
	bool falls = length == 2 && mark[1] == '&';
	if (falls) block->falls = block->taken ? LK_SHELL_FALSE : block->truth;
	else if (length == 2 && block->truth == LK_SHELL_TRUE && !block->doubtful) block->taken = true;
	else if (length == 2 && block->truth != LK_SHELL_FALSE) block->doubtful = true;
	block->condition = true;
	block->truth = LK_SHELL_FALSE;
}

/* ---- words of the grammar ---- */

/* The end of a function's body, or of a loop's, whose text is known now. */
static lk_status script_end_body(lk_shell *shell, const lk_raw *raw, const char *kinds) {
	lk_shell_block block = {0};
	if (shell->blocks.count > shell->base) block = *lk_last(&shell->blocks);
	LK_TRY(script_pop_block(shell, kinds));
	if (block.kind == 'l') return script_run_loop(shell, &block, raw->at);
	bool begun = block.body != NULL; /* by a brace */
	if (block.kind != 'f' || !begun || block.function >= shell->bodies.count) return LK_OK;
	shell->bodies.at[block.function] = (lk_shell_function){
		.at = block.body, .end = raw->at, .line = block.line, .subshell = block.subshell};
	return LK_OK;
}

/* ---- subshells ---- */

lk_status lk_script_subshell(lk_shell *shell, const char *at, const char *end, int line,
                             lk_truth certain) {
	lk_shell_vars saved;
	size_t blocks = shell->blocks.count, base = shell->base, count = shell->arg_count;
	const lk_word *args = shell->args;
	bool stop = shell->stop, known = shell->args_known;
	LK_TRY(lk_shell_save(shell, &saved));
	size_t hidden = shell->hidden.count;
	int calls = shell->calls;
	lk_status status = lk_script_body(shell, at, end, line, certain);
	lk_shell_forget_hidden(shell, hidden);
	lk_shell_restore(shell, &saved);
	shell->calls = calls;
	if (status != LK_OK) return status;
	shell->blocks.count = blocks; /* left by exit */
	shell->base = base;
	shell->stop = stop;
	shell->leaves = '\0';
	shell->args = args;
	shell->arg_count = count;
	shell->args_known = known;
	return LK_OK;
}

/* Like the body of a loop it is passed over first, so that its end is known. */
lk_status lk_script_bracket_begins(lk_shell *shell, lk_truth joined, lk_truth chain) {
	lk_shell_block *top = shell->blocks.count > shell->base ? lk_last(&shell->blocks) : NULL;
	const char *body = ++shell->at;
	if (top != NULL && top->condition && top->kind != 'f') return LK_OK; /* if ( [ -n "$X" ] ) */
	if (top != NULL && top->condition) {
		top->condition = false;
		top->subshell = true;
		top->body = body;
		return LK_OK;
	}
	LK_TRY(script_push_block(shell, '(', LK_SHELL_FALSE, false));
	top = lk_last(&shell->blocks);
	top->body = body;
	top->joined = joined;
	top->chain = joined == LK_SHELL_FALSE ? chain : joined;
	return LK_OK;
}

lk_status lk_script_bracket_ends(lk_shell *shell, lk_truth *chain) {
	const lk_raw raw = {.at = shell->at, .end = shell->at + 1, .line = shell->line};
	lk_shell_block block = {0};
	if (shell->blocks.count > shell->base) block = *lk_last(&shell->blocks);
	shell->at++;
	if (block.kind == 'f' && block.subshell) return script_end_body(shell, &raw, "f");
	if (block.kind != '(') return LK_OK;
	shell->blocks.count--;
	*chain = block.chain;
	lk_truth certain = lk_script_runs(shell);
	if (block.joined == LK_SHELL_FALSE || certain == LK_SHELL_FALSE) return LK_OK;
	if (block.joined == LK_SHELL_UNKNOWN) certain = LK_SHELL_UNKNOWN;
	return lk_script_subshell(shell, block.body, raw.at, block.line, certain);
}

/* A word of the shell's grammar at the start of a command; *again: what follows it is a command. */
lk_status lk_script_keyword(lk_shell *shell, lk_raws *words, bool *again) {
	const lk_raw *raw = &words->at[0];
	lk_raw first = *raw;
	lk_shell_block *top = shell->blocks.count > shell->base ? lk_last(&shell->blocks) : NULL;
	lk_status status = LK_OK;
	*again = true;
	if (lk_shell_raw_is(raw, "if")) status = script_push_block(shell, 'i', LK_SHELL_TRUE, true);
	else if (lk_shell_raw_is(raw, "elif")) status = script_next_branch(shell, true);
	else if (lk_shell_raw_is(raw, "else")) status = script_next_branch(shell, false);
	else if (lk_shell_raw_is(raw, "then")) {
		if (lk_script_if(shell) == NULL)
			return lk_shell_fail(shell, raw->line, "then without if", "correct the script");
		lk_script_if(shell)->condition = false;
	} else if (lk_shell_raw_is(raw, "while") || lk_shell_raw_is(raw, "until")) {
		bool until = lk_shell_raw_is(raw, "until");
		status = script_push_block(shell, 'l', LK_SHELL_FALSE, true);
		if (status == LK_OK) {
			lk_last(&shell->blocks)->test = first.end;
			lk_last(&shell->blocks)->until = until;
		}
	} else if (lk_shell_raw_is(raw, "do")) {
		if (top != NULL && top->kind == 'l' && top->body == NULL) top->body = raw->end;
		if (top != NULL) top->condition = false;
	} else if (lk_shell_raw_is(raw, "fi")) status = script_pop_block(shell, "i");
	else if (lk_shell_raw_is(raw, "done")) status = script_end_body(shell, &first, "l");
	else if (lk_shell_raw_is(raw, "}")) status = script_end_body(shell, &first, "{f");
	else if (lk_shell_raw_is(raw, "esac")) status = script_pop_block(shell, "c");
	else if (lk_shell_raw_is(raw, "{")) {
		bool function = top != NULL && top->kind == 'f' && top->condition;
		if (function) {
			top->condition = false;
			top->body = raw->end;
		} else status = script_push_block(shell, '{', LK_SHELL_TRUE, false);
	} else if (lk_shell_raw_is(raw, "for") || lk_shell_raw_is(raw, "select")) {
		status = script_begin_for(shell, words);
		words->count = 1;
	} else if (lk_shell_raw_is(raw, "case")) {
		LK_TRY(script_begin_case(shell, words));
		LK_TRY(lk_script_case_pattern(shell, words));
		words->count = 0;
		return LK_OK;
	} else if (lk_shell_raw_is(raw, "time") || lk_shell_raw_is(raw, "!")) {
	} else {
		*again = false;
	}
	if (*again && words->count > 0) lk_script_drop_first(words);
	return status;
}

/* name() or function name: its body runs when it is called. */
lk_status lk_script_function_begins(lk_shell *shell, const lk_raw *name) {
	char text[128];
	snprintf(text, sizeof text, "%.*s",
	         (int)(name->end - name->at > 127 ? 127 : name->end - name->at), name->at);
	uint32_t id = lk_intern_id(shell->functions, text);
	if (id == UINT32_MAX) return lk_oom(shell->err);
	while (shell->bodies.count <= id)
		if (!lk_push(&shell->bodies)) return lk_oom(shell->err);
	LK_TRY(script_push_block(shell, 'f', LK_SHELL_FALSE, true));
	LK_ASSERT(id < shell->bodies.count);
	lk_last(&shell->blocks)->function = id;
	return LK_OK;
}

uint32_t lk_script_function(const lk_shell *shell, const lk_raw *name) {
	char text[128];
	snprintf(text, sizeof text, "%.*s",
	         (int)(name->end - name->at > 127 ? 127 : name->end - name->at), name->at);
	uint32_t id = lk_intern_find(shell->functions, text);
	bool whole = id < shell->bodies.count && shell->bodies.at[id].end != NULL;
	return whole ? id : UINT32_MAX;
}
