/* options_completion.c: completion scripts for bash, zsh and fish: verbs, their options, words for
 * values, and files. */
#include <string.h>
#include "base/check.h"
#include "options/options_internal.h"
#include "base/text.h"

/* The verbs, the source of words that the tables do not hold, and the output. */
struct script {
	const lk_verb *const *verbs;
	lk_candidates *known;
	FILE *out;
};

/* The options of the program itself, which precede the verb. */
static const char *const globals[] = {"--help", "--version",    "--verbs", "--schema",
                                      "--man",  "--completion", "--data",  NULL};
static const char *const shells[] = {"bash", "zsh", "fish", NULL};

/* Writes text inside single quotes of a shell. Characters of `special` get a backslash, as zsh's
 * _arguments requires. Fish reads backslashes inside single quotes, other shells do not. */
static void quoted(FILE *out, const char *s, const char *special, bool fish) {
	for (; *s; s++) {
		if (*s == '\'') fputs(fish ? "\\'" : "'\\''", out);
		else if (fish && *s == '\\') fputs("\\\\", out);
		else if ((unsigned char)*s < 0x20) putc(' ', out);
		else fprintf(out, "%s%c", strchr(special, *s) ? "\\" : "", *s);
	}
}

/* Writes the first sentence or clause of help, which fits in a menu. */
static void short_help(FILE *out, const char *help, const char *special, bool fish) {
	char line[80];
	lk_copy(line, sizeof line, help ? help : "");
	line[strcspn(line, ".;\n")] = '\0';
	/* The copy may have cut a character in two. */
	size_t length = 0, left = strlen(line);
	for (size_t n; (n = lk_utf8_length(line + length, left)) != 0; length += n, left -= n) continue;
	line[length] = '\0';
	quoted(out, line, special, fish);
}

/* Returns word `index` of the values of an option, or of the first operand if `option` is NULL;
 * NULL past the last. */
static const char *completion_word(const struct script *script, const lk_verb *verb,
                                   const lk_option *option, int index) {
	LK_ASSERT(index >= 0);
	if (option && option->kind == LK_OPTION_CHOICE) {
		for (int i = 0; i < index; i++)
			if (!option->choices[i]) return NULL;
		return option->choices[index];
	}
	const char *name = option ? option->name : NULL;
	return script->known ? script->known(verb->name, name, index) : NULL;
}

static void completion_words(const struct script *script, const lk_verb *verb,
                             const lk_option *option, const char *special) {
	const char *next;
	for (int i = 0; (next = completion_word(script, verb, option, i)) != NULL; i++) {
		if (i) putc(' ', script->out);
		quoted(script->out, next, special, false);
	}
}

static bool has_words(const struct script *script, const lk_verb *verb, const lk_option *option) {
	return completion_word(script, verb, option, 0) != NULL;
}

/* Whether the option takes several values, separated by commas. */
static bool is_list(const lk_option *option) {
	return option->sweep || strstr(lk_option_value(option), ",...") ||
	       strcmp(lk_option_value(option), "LIST") == 0;
}

/* ---- bash ---- */

static void bash_option(const struct script *script, const lk_verb *verb, const lk_option *option) {
	fprintf(script->out, "\t%s:--%s", verb->name, option->name);
	if (option->letter) fprintf(script->out, "|%s:-%c", verb->name, option->letter);
	fputs(") words='", script->out);
	completion_words(script, verb, option, "");
	fprintf(script->out, "'; files=%s; list=%s ;;\n", lk_option_is_path(option) ? "1" : "",
	        is_list(option) ? "1" : "");
}

static void bash_verb(const struct script *script, const lk_verb *verb) {
	for (const lk_option *option = verb->options; option && option->name; option++)
		if (!lk_option_is_switch(option)) bash_option(script, verb, option);
	fprintf(script->out, "\t%s:*) words='--help", verb->name);
	for (const lk_option *option = verb->options; option && option->name; option++) {
		fprintf(script->out, " --%s", option->name);
		if (lk_option_is_switch(option)) fprintf(script->out, " --no-%s", option->name);
	}
	putc('\'', script->out);
	if (has_words(script, verb, NULL)) {
		fputs("; [[ $COMP_CWORD -gt 2 ]] || words+=' ", script->out);
		completion_words(script, verb, NULL, "");
		putc('\'', script->out);
	}
	fprintf(script->out, "; files=%s ;;\n", verb->operands && *verb->operands ? "1" : "");
}

static void bash_globals(const struct script *script) {
	fputs("\tif [[ $COMP_CWORD -eq 1 ]]; then\n\t\twords='help", script->out);
	for (size_t i = 0; globals[i]; i++) fprintf(script->out, " %s", globals[i]);
	for (size_t i = 0; script->verbs[i]; i++) fprintf(script->out, " %s", script->verbs[i]->name);
	fputs("'\n\telse\n\tcase ${COMP_WORDS[1]}:$before in\n\thelp:help|--man:--man) words='",
	      script->out);
	for (size_t i = 0; script->verbs[i]; i++)
		fprintf(script->out, "%s%s", i ? " " : "", script->verbs[i]->name);
	fputs("' ;;\n\t--completion:--completion) words='", script->out);
	for (size_t i = 0; shells[i]; i++) fprintf(script->out, "%s%s", i ? " " : "", shells[i]);
	fputs("' ;;\n\t--data:--data) files=1 ;;\n", script->out);
}

static void bash(const struct script *script) {
	fputs("# bash completion of lockstep\n"
	      "_lockstep() {\n"
	      "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= files= "
	      "list= done=\n"
	      "\tif [[ $word == '=' ]]; then\n"
	      "\t\tword=\n"
	      "\telif [[ $before == '=' && $COMP_CWORD -gt 2 ]]; then\n"
	      "\t\tbefore=${COMP_WORDS[COMP_CWORD-2]}\n"
	      "\tfi\n",
	      script->out);
	bash_globals(script);
	for (size_t i = 0; script->verbs[i]; i++) bash_verb(script, script->verbs[i]);
	fputs("\tesac\n\tfi\n"
	      "\tif [[ -n $list && $word == *,* ]]; then\n"
	      "\t\tdone=${word%,*},\n"
	      "\tfi\n"
	      "\tCOMPREPLY=($(compgen -P \"$done\" -W \"$words\" -- \"${word#\"$done\"}\"))\n"
	      "\tif [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then\n"
	      "\t\tcompopt -o nospace 2>/dev/null\n"
	      "\tfi\n"
	      "\tif [[ -n $files && $word != -* ]]; then\n"
	      "\t\tlocal IFS=$'\\n'\n"
	      "\t\tcompopt -o filenames 2>/dev/null\n"
	      "\t\tCOMPREPLY+=($(compgen -f -- \"$word\"))\n"
	      "\tfi\n"
	      "}\n"
	      "complete -F _lockstep lockstep\n",
	      script->out);
}

/* ---- zsh ---- */

/* Writes what completes a value: words, one or several with commas; files; both; nothing. */
static void zsh_value(const struct script *script, const lk_verb *verb, const lk_option *option) {
	bool known = has_words(script, verb, option), path = lk_option_is_path(option);
	if (!known) {
		fputs(path ? "_files" : " ", script->out);
		return;
	}
	if (path) fputs(" _alternative \"words\\:name\\:", script->out);
	fputs(is_list(option) && !path ? " _sequence compadd - " : "(", script->out);
	completion_words(script, verb, option, "[]:\\");
	if (!is_list(option) || path) putc(')', script->out);
	if (path) fputs("\" \"files\\:file\\:_files\"", script->out);
}

static void zsh_option(const struct script *script, const lk_verb *verb, const lk_option *option,
                       const char *dashes, char letter) {
	bool flag = lk_option_is_switch(option);
	fputs(" \\\n\t\t'", script->out);
	if (option->kind == LK_OPTION_LINES) putc('*', script->out);
	if (letter) fprintf(script->out, "-%c%s[", letter, flag ? "" : "+");
	else fprintf(script->out, "%s%s%s[", dashes, option->name, flag ? "" : "=");
	short_help(script->out, option->help, "[]:\\", false);
	putc(']', script->out);
	if (!flag) {
		putc(':', script->out);
		quoted(script->out, lk_option_value(option), "[]:\\", false);
		putc(':', script->out);
		zsh_value(script, verb, option);
	}
	putc('\'', script->out);
}

static void zsh_verb(const struct script *script, const lk_verb *verb) {
	fprintf(script->out, "\t%s)\n\t\t_arguments -s '(- *)--help[show help]'", verb->name);
	for (const lk_option *option = verb->options; option && option->name; option++) {
		zsh_option(script, verb, option, "--", 0);
		if (lk_option_is_switch(option)) zsh_option(script, verb, option, "--no-", 0);
		if (option->letter) zsh_option(script, verb, option, "", option->letter);
	}
	if (has_words(script, verb, NULL)) {
		fputs(" \\\n\t\t'1:what:(", script->out);
		completion_words(script, verb, NULL, "[]:\\");
		fputs(")'", script->out);
	}
	if (verb->operands && *verb->operands) fputs(" \\\n\t\t'*:file:_files'", script->out);
	fputs(" ;;\n", script->out);
}

static void zsh_globals(const struct script *script) {
	fputs("\t\t'help:show the options of a verb'\n\t)\n"
	      "\tif (( CURRENT == 2 )); then\n"
	      "\t\t_describe verb verbs\n"
	      "\t\t[[ $PREFIX == -* ]] && compadd --",
	      script->out);
	for (size_t i = 0; globals[i]; i++) fprintf(script->out, " %s", globals[i]);
	fputs("\n\t\treturn\n"
	      "\tfi\n"
	      "\tlocal verb=$words[2]\n"
	      "\tshift words\n"
	      "\t(( CURRENT-- ))\n"
	      "\tcase $verb in\n"
	      "\thelp|--man)\n\t\t_describe verb verbs ;;\n"
	      "\t--completion)\n\t\tcompadd",
	      script->out);
	for (size_t i = 0; shells[i]; i++) fprintf(script->out, " %s", shells[i]);
	fputs(" ;;\n\t--data)\n\t\t_files -/ ;;\n", script->out);
}

static void zsh(const struct script *script) {
	fputs("#compdef lockstep\n"
	      "_lockstep() {\n"
	      "\tlocal -a verbs\n"
	      "\tverbs=(\n",
	      script->out);
	for (size_t i = 0; script->verbs[i]; i++) {
		fprintf(script->out, "\t\t'%s:", script->verbs[i]->name);
		short_help(script->out, script->verbs[i]->summary, ":\\", false);
		fputs("'\n", script->out);
	}
	zsh_globals(script);
	for (size_t i = 0; script->verbs[i]; i++) zsh_verb(script, script->verbs[i]);
	fputs("\tesac\n}\n"
	      "if [[ $funcstack[1] == _lockstep ]]; then _lockstep \"$@\"; else compdef _lockstep "
	      "lockstep; fi\n",
	      script->out);
}

/* ---- fish ---- */

static void fish_value(const struct script *script, const lk_verb *verb, const lk_option *option) {
	if (lk_option_is_switch(option)) return;
	bool path = lk_option_is_path(option);
	fputs(path ? " -r -F" : " -x", script->out);
	if (!has_words(script, verb, option)) return;
	fputs(is_list(option) && !path ? " -a '(__fish_append , " : " -a '", script->out);
	completion_words(script, verb, option, "");
	fputs(is_list(option) && !path ? ")'" : "'", script->out);
}

static void fish_option(const struct script *script, const lk_verb *verb, const lk_option *option,
                        const char *no) {
	fprintf(script->out, "complete -c lockstep -n '__fish_seen_subcommand_from %s' -l %s%s",
	        verb->name, no, option->name);
	if (option->letter && !*no) fprintf(script->out, " -s %c", option->letter);
	fish_value(script, verb, option);
	fputs(" -d '", script->out);
	short_help(script->out, option->help, "", true);
	fputs("'\n", script->out);
}

static void fish_verb(const struct script *script, const lk_verb *verb) {
	if (!verb->operands || !*verb->operands)
		fprintf(script->out, "complete -c lockstep -n '__fish_seen_subcommand_from %s' -f\n",
		        verb->name);
	if (has_words(script, verb, NULL)) {
		fprintf(script->out,
		        "complete -c lockstep -n '__fish_seen_subcommand_from %s; and test (count "
		        "(commandline -opc)) -eq 2' -a '",
		        verb->name);
		completion_words(script, verb, NULL, "");
		fputs("'\n", script->out);
	}
	for (const lk_option *option = verb->options; option && option->name; option++) {
		fish_option(script, verb, option, "");
		if (lk_option_is_switch(option)) fish_option(script, verb, option, "no-");
	}
}

static void fish_globals(const struct script *script) {
	static const char *const begin = "complete -c lockstep -n __fish_use_subcommand -f";
	fprintf(script->out,
	        "# fish completion of lockstep\n%s\n%s -a help -d 'show the options of a verb'\n",
	        begin, begin);
	for (size_t i = 0; globals[i]; i++) fprintf(script->out, "%s -l %s\n", begin, globals[i] + 2);
	fputs("complete -c lockstep -n '__fish_seen_subcommand_from help' -f -a '", script->out);
	for (size_t i = 0; script->verbs[i]; i++)
		fprintf(script->out, "%s%s", i ? " " : "", script->verbs[i]->name);
	fputs("'\n", script->out);
}

static void fish(const struct script *script) {
	fish_globals(script);
	for (size_t i = 0; script->verbs[i]; i++) {
		fprintf(script->out, "complete -c lockstep -n __fish_use_subcommand -f -a %s -d '",
		        script->verbs[i]->name);
		short_help(script->out, script->verbs[i]->summary, "", true);
		fputs("'\n", script->out);
	}
	for (size_t i = 0; script->verbs[i]; i++) fish_verb(script, script->verbs[i]);
}

lk_status lk_verbs_completion(const lk_verb *const *verbs, lk_candidates *known, const char *shell,
                              FILE *out, lk_error *err) {
	static void (*const writers[])(const struct script *script) = {bash, zsh, fish};
	const struct script script = {verbs, known, out};
	for (size_t i = 0; shells[i]; i++) {
		if (strcmp(shell, shells[i]) != 0) continue;
		writers[i](&script);
		return LK_OK;
	}
	char shown[64];
	lk_copy(shown, sizeof shown, shell);
	lk_fail(err, LK_ERR_INPUT, "completion", "\"%s\" is not a shell that is known", shown);
	return lk_hint(err, "give bash, zsh or fish");
}
