/* script_example.c: the arguments of a script that nobody gave, where a comment of it shows a call
 * with all of them:
 *
 *     # bash run_mcore_qwen.sh dsw 7B 1 8 1e-5 1e-6 2048 ...
 *
 * The first call of the script by its name counts, else the first of any script that has as many
 * arguments as this one reads: comments are copied from script to script. A call without arguments
 * ends the search: the script does without. */
#include "base/arena.h"
#include "base/text.h"
#include "launch/script/script_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum {
	FEWEST = 3,     /* arguments of a call by another name */
	LONGEST = 8192, /* bytes of a call */
	CALLS = 64,     /* comments that are looked at, and lines of one */
};

/* The highest N of $N and ${N...} in the script; 0: it reads none. */
static size_t example_highest(const char *text) {
	size_t highest = 0;
	for (const char *at = text; (at = strchr(at, '$')) != NULL;) {
		at += 1 + (at[1] == '{');
		bool number = *at >= '1' && *at <= '9';
		size_t value = number ? strtoul(at, NULL, 10) : 0;
		if (at[-1] != '{' && number) value = (size_t)(*at - '0'); /* $12 is $1 and a 2 */
		if (value > highest && value < 100) highest = value;
	}
	return highest;
}

/* Whether a comment may show a call: # bash run.sh, # ./run.sh. */
static bool example_begins(const char *at) {
	static const char *const starters[] = {"sh ", "bash ", "zsh ", "sbatch ", "./"};
	at += strspn(at, " \t");
	if (*at != '#') return false;
	at += strspn(at, "# \t");
	for (size_t i = 0; i < sizeof starters / sizeof *starters; i++)
		if (strncmp(at, starters[i], strlen(starters[i])) == 0) return true;
	return false;
}

/* The lines of a comment that end in a backslash and the one after them, without the marks. */
static const char *example_lines(lk_arena *arena, const char *at) {
	const char *out = "";
	bool more = true;
	for (int i = 0; more && i < CALLS && out != NULL; i++) {
		at += strspn(at, " \t");
		if (*at != '#') break;
		at += strspn(at, "# \t");
		size_t length = strcspn(at, "\n"), used = length;
		while (used > 0 && strchr(" \t\r", at[used - 1]) != NULL) used--;
		more = used > 0 && at[used - 1] == '\\';
		used -= more;
		if (strlen(out) + used > LONGEST) break;
		out = lk_arena_printf(arena, "%s%.*s ", out, (int)used, at);
		at += length + (at[length] == '\n');
	}
	return out;
}

static bool example_is_script(const char *word) {
	static const char *const endings[] = {".sh", ".sbatch", ".slurm", ".sub"};
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (lk_ends_in(word, endings[i])) return true;
	return false;
}

/* Whether a call is one of the script; one that was pasted has no name, and a call that leaves
 * nothing open is its. */
static bool example_is_own(const char *called, const lk_words *args, const char *script) {
	const char *slash = strrchr(script, '/'), *own = slash != NULL ? slash + 1 : script;
	const char *last = strrchr(called, '/');
	bool whole = true;
	for (size_t i = 0; i < args->count; i++) whole &= args->at[i].unknown == NULL;
	if (!example_is_script(own)) return whole;
	return strcmp(last != NULL ? last + 1 : called, own) == 0;
}

/* The arguments of a call, which are blanks apart; *called is the script, NULL where the text is no
 * call. What a reader is to fill in stays unknown. */
static lk_status example_call(lk_shell *shell, const char *text, int line, lk_words *args,
                              const char **called) {
	static const char *const starters[] = {"sh", "bash", "zsh", "sbatch"};
	char *copy = lk_arena_strdup(shell->arena, text), *save = NULL;
	if (copy == NULL) return lk_oom(shell->err);
	char *word = strtok_r(copy, " \t", &save);
	bool starts = word != NULL && strncmp(word, "./", 2) == 0 && example_is_script(word);
	bool known = false;
	*called = NULL;
	args->count = 0;
	for (size_t i = 0; word != NULL && !starts && i < sizeof starters / sizeof *starters; i++)
		if (strcmp(word, starters[i]) == 0) {
			word = strtok_r(NULL, " \t", &save);
			starts = word != NULL && example_is_script(word);
			break;
		}
	if (!starts) return LK_OK;
	*called = word;
	while ((word = strtok_r(NULL, " \t", &save)) != NULL && *word != '#') {
		if (*word == '[') *called = NULL; /* a synopsis */
		if (*word == '[') return LK_OK;
		size_t length = strlen(word);
		bool quoted = length > 1 && strchr("'\"", *word) != NULL && word[length - 1] == *word;
		if (quoted) word[length - 1] = '\0';
		if (!lk_push(args)) return lk_oom(shell->err);
		*lk_last(args) = (lk_word){.text = word + quoted};
		known |= strpbrk(word, "$`<>") == NULL;
		if (strpbrk(word, "$`<>") == NULL) continue;
		lk_last(args)->argument = true;
		lk_last(args)->unknown = lk_arena_printf(
			shell->arena, "line %d: the call that this comment shows leaves %.40s open", line,
			word);
		if (lk_last(args)->unknown == NULL) return lk_oom(shell->err);
	}
	if (!known && args->count > 0) *called = NULL; /* it shows no value */
	return LK_OK;
}

static lk_status example_take(lk_shell *shell, const lk_words *args, int line) {
	const lk_script_sought *sought = shell->caller;
	lk_word *copy = LK_ARRAY(shell->arena, lk_word, args->count);
	const char *shown = "";
	if (copy == NULL) return lk_oom(shell->err);
	memcpy(copy, args->at, args->count * sizeof *copy);
	for (size_t i = 0; i < args->count && shown != NULL && strlen(shown) < 60; i++)
		shown = lk_arena_printf(shell->arena, "%s%s%.40s", shown, i > 0 ? " " : "", copy[i].text);
	if (shown == NULL) return lk_oom(shell->err);
	shell->args = copy;
	shell->arg_count = args->count;
	shell->args_known = true;
	return lk_launch_assume(sought->reading,
	                        "arguments as in the call that the comment in line %d shows: %s%s "
	                        "(arguments after --)",
	                        line, shown, strlen(shown) >= 60 ? " ..." : "");
}

lk_status lk_script_example(lk_shell *shell, const char *text) {
	size_t highest = example_highest(text);
	int line = 1, other_line = 0;
	lk_words args = {0}, other = {0};
	lk_status status = LK_OK;
	bool all =
		strstr(text, "$#") != NULL || strstr(text, "$@") != NULL || strstr(text, "$*") != NULL;
	int calls = 0;
	for (const char *at = text; highest + all > 0 && *at && status == LK_OK; line++) {
		const char *called = NULL;
		if (example_begins(at) && calls++ < CALLS) {
			const char *whole = example_lines(shell->arena, at);
			status = whole != NULL ? example_call(shell, whole, line, &args, &called)
			                       : lk_oom(shell->err);
		}
		bool own = status == LK_OK && called != NULL && example_is_own(called, &args, shell->where);
		if (own && args.count > 0) status = example_take(shell, &args, line);
		if (own) other.count = 0;
		if (own) break;
		if (status == LK_OK && called != NULL && other.count == 0 && args.count >= FEWEST &&
		    args.count == highest) {
			lk_words swap = other;
			other = args;
			args = swap;
			other_line = line;
		}
		at += strcspn(at, "\n");
		at += *at == '\n';
	}
	if (status == LK_OK && other.count > 0) status = example_take(shell, &other, other_line);
	lk_vec_free(&args);
	lk_vec_free(&other);
	return status;
}
