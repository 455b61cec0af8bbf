/* options_completion.c: completion scripts for bash, zsh and fish: verbs, their options, words for values, and files. */
#include <string.h>
#include "options/options_internal.h"
#include "base/text.h"

/* What is written, and where words come from that the tables do not hold. */
struct script {
	const lk_verb *const *verbs;
	lk_candidates *known;
	FILE *out;
};

/* What stands before verbs: the options of the program itself. */
static const char *const globals[] = {"--help", "--version", "--verbs", "--man", "--completion", "--data", NULL};
static const char *const shells[] = {"bash", "zsh", "fish", NULL};

/* Text inside single quotes of a shell; characters of `special` get a backslash (zsh's _arguments wants it). Fish reads
 * backslashes inside single quotes, other shells do not. */
static void quoted(FILE *out, const char *s, const char *special, bool fish) {
	for (; *s; s++) {
		if (*s == '\'') fputs(fish ? "\\'" : "'\\''", out);
		else if (fish && *s == '\\') fputs("\\\\", out);
		else if ((unsigned char)*s < 0x20) putc(' ', out);
		else fprintf(out, "%s%c", strchr(special, *s) ? "\\" : "", *s);
	}
}

/* The first sentence or clause of help, which is what a menu has room for. */
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

/* Word `index` for the values of an option, or for the first operand where there is none; NULL past the last. */
static const char *word(const struct script *s, const lk_verb *v, const lk_option *o, int index) {
	if (o && o->kind == LK_OPTION_CHOICE) {
		for (int i = 0; i < index; i++)
			if (!o->choices[i]) return NULL;
		return o->choices[index];
	}
	return s->known ? s->known(v->name, o ? o->name : NULL, index) : NULL;
}

static void words(const struct script *s, const lk_verb *v, const lk_option *o, const char *special) {
	const char *next;
	for (int i = 0; (next = word(s, v, o, i)) != NULL; i++) {
		if (i) putc(' ', s->out);
		quoted(s->out, next, special, false);
	}
}

static bool has_words(const struct script *s, const lk_verb *v, const lk_option *o) {
	return word(s, v, o, 0) != NULL;
}

/* Whether several values stand with commas between them. */
static bool is_list(const lk_option *o) {
	return o->sweep || strstr(lk_option_value(o), ",...") || strcmp(lk_option_value(o), "LIST") == 0;
}

/* ---- bash ---- */

static void bash_option(const struct script *s, const lk_verb *v, const lk_option *o) {
	fprintf(s->out, "\t%s:--%s", v->name, o->name);
	if (o->letter) fprintf(s->out, "|%s:-%c", v->name, o->letter);
	fputs(") words='", s->out);
	words(s, v, o, "");
	fprintf(s->out, "'; files=%s; list=%s ;;\n", lk_option_is_path(o) ? "1" : "", is_list(o) ? "1" : "");
}

static void bash_verb(const struct script *s, const lk_verb *v) {
	for (const lk_option *o = v->options; o && o->name; o++)
		if (!lk_option_is_switch(o)) bash_option(s, v, o);
	fprintf(s->out, "\t%s:*) words='--help", v->name);
	for (const lk_option *o = v->options; o && o->name; o++) {
		fprintf(s->out, " --%s", o->name);
		if (lk_option_is_switch(o)) fprintf(s->out, " --no-%s", o->name);
	}
	putc('\'', s->out);
	if (has_words(s, v, NULL)) {
		fputs("; [[ $COMP_CWORD -gt 2 ]] || words+=' ", s->out);
		words(s, v, NULL, "");
		putc('\'', s->out);
	}
	fprintf(s->out, "; files=%s ;;\n", v->operands && *v->operands ? "1" : "");
}

static void bash_globals(const struct script *s) {
	fputs("\tif [[ $COMP_CWORD -eq 1 ]]; then\n\t\twords='help", s->out);
	for (size_t i = 0; globals[i]; i++) fprintf(s->out, " %s", globals[i]);
	for (size_t i = 0; s->verbs[i]; i++) fprintf(s->out, " %s", s->verbs[i]->name);
	fputs("'\n\telse\n\tcase ${COMP_WORDS[1]}:$before in\n\thelp:help|--man:--man) words='", s->out);
	for (size_t i = 0; s->verbs[i]; i++) fprintf(s->out, "%s%s", i ? " " : "", s->verbs[i]->name);
	fputs("' ;;\n\t--completion:--completion) words='", s->out);
	for (size_t i = 0; shells[i]; i++) fprintf(s->out, "%s%s", i ? " " : "", shells[i]);
	fputs("' ;;\n\t--data:--data) files=1 ;;\n", s->out);
}

static void bash(const struct script *s) {
	fputs("# bash completion of lockstep\n"
	      "_lockstep() {\n"
	      "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= files= list= done=\n"
	      "\tif [[ $word == '=' ]]; then\n"
	      "\t\tword=\n"
	      "\telif [[ $before == '=' && $COMP_CWORD -gt 2 ]]; then\n"
	      "\t\tbefore=${COMP_WORDS[COMP_CWORD-2]}\n"
	      "\tfi\n", s->out);
	bash_globals(s);
	for (size_t i = 0; s->verbs[i]; i++) bash_verb(s, s->verbs[i]);
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
	      "complete -F _lockstep lockstep\n", s->out);
}

/* ---- zsh ---- */

/* What completes a value: words, one or several with commas; files; both; nothing. */
static void zsh_value(const struct script *s, const lk_verb *v, const lk_option *o) {
	bool known = has_words(s, v, o), path = lk_option_is_path(o);
	if (!known) {
		fputs(path ? "_files" : " ", s->out);
		return;
	}
	if (path) fputs(" _alternative \"words\\:name\\:", s->out);
	fputs(is_list(o) && !path ? " _sequence compadd - " : "(", s->out);
	words(s, v, o, "[]:\\");
	if (!is_list(o) || path) putc(')', s->out);
	if (path) fputs("\" \"files\\:file\\:_files\"", s->out);
}

static void zsh_option(const struct script *s, const lk_verb *v, const lk_option *o, const char *dashes, char letter) {
	bool flag = lk_option_is_switch(o);
	fputs(" \\\n\t\t'", s->out);
	if (o->kind == LK_OPTION_LINES) putc('*', s->out);
	if (letter) fprintf(s->out, "-%c%s[", letter, flag ? "" : "+");
	else fprintf(s->out, "%s%s%s[", dashes, o->name, flag ? "" : "=");
	short_help(s->out, o->help, "[]:\\", false);
	putc(']', s->out);
	if (!flag) {
		putc(':', s->out);
		quoted(s->out, lk_option_value(o), "[]:\\", false);
		putc(':', s->out);
		zsh_value(s, v, o);
	}
	putc('\'', s->out);
}

static void zsh_verb(const struct script *s, const lk_verb *v) {
	fprintf(s->out, "\t%s)\n\t\t_arguments -s '(- *)--help[show help]'", v->name);
	for (const lk_option *o = v->options; o && o->name; o++) {
		zsh_option(s, v, o, "--", 0);
		if (lk_option_is_switch(o)) zsh_option(s, v, o, "--no-", 0);
		if (o->letter) zsh_option(s, v, o, "", o->letter);
	}
	if (has_words(s, v, NULL)) {
		fputs(" \\\n\t\t'1:what:(", s->out);
		words(s, v, NULL, "[]:\\");
		fputs(")'", s->out);
	}
	if (v->operands && *v->operands) fputs(" \\\n\t\t'*:file:_files'", s->out);
	fputs(" ;;\n", s->out);
}

static void zsh_globals(const struct script *s) {
	fputs("\t\t'help:show the options of a verb'\n\t)\n"
	      "\tif (( CURRENT == 2 )); then\n"
	      "\t\t_describe verb verbs\n"
	      "\t\t[[ $PREFIX == -* ]] && compadd --", s->out);
	for (size_t i = 0; globals[i]; i++) fprintf(s->out, " %s", globals[i]);
	fputs("\n\t\treturn\n"
	      "\tfi\n"
	      "\tlocal verb=$words[2]\n"
	      "\tshift words\n"
	      "\t(( CURRENT-- ))\n"
	      "\tcase $verb in\n"
	      "\thelp|--man)\n\t\t_describe verb verbs ;;\n"
	      "\t--completion)\n\t\tcompadd", s->out);
	for (size_t i = 0; shells[i]; i++) fprintf(s->out, " %s", shells[i]);
	fputs(" ;;\n\t--data)\n\t\t_files -/ ;;\n", s->out);
}

static void zsh(const struct script *s) {
	fputs("#compdef lockstep\n"
	      "_lockstep() {\n"
	      "\tlocal -a verbs\n"
	      "\tverbs=(\n", s->out);
	for (size_t i = 0; s->verbs[i]; i++) {
		fprintf(s->out, "\t\t'%s:", s->verbs[i]->name);
		short_help(s->out, s->verbs[i]->summary, ":\\", false);
		fputs("'\n", s->out);
	}
	zsh_globals(s);
	for (size_t i = 0; s->verbs[i]; i++) zsh_verb(s, s->verbs[i]);
	fputs("\tesac\n}\n"
	      "if [[ $funcstack[1] == _lockstep ]]; then _lockstep \"$@\"; else compdef _lockstep lockstep; fi\n", s->out);
}

/* ---- fish ---- */

static void fish_value(const struct script *s, const lk_verb *v, const lk_option *o) {
	if (lk_option_is_switch(o)) return;
	bool path = lk_option_is_path(o);
	fputs(path ? " -r -F" : " -x", s->out);
	if (!has_words(s, v, o)) return;
	fputs(is_list(o) && !path ? " -a '(__fish_append , " : " -a '", s->out);
	words(s, v, o, "");
	fputs(is_list(o) && !path ? ")'" : "'", s->out);
}

static void fish_option(const struct script *s, const lk_verb *v, const lk_option *o, const char *no) {
	fprintf(s->out, "complete -c lockstep -n '__fish_seen_subcommand_from %s' -l %s%s", v->name, no, o->name);
	if (o->letter && !*no) fprintf(s->out, " -s %c", o->letter);
	fish_value(s, v, o);
	fputs(" -d '", s->out);
	short_help(s->out, o->help, "", true);
	fputs("'\n", s->out);
}

static void fish_verb(const struct script *s, const lk_verb *v) {
	if (!v->operands || !*v->operands)
		fprintf(s->out, "complete -c lockstep -n '__fish_seen_subcommand_from %s' -f\n", v->name);
	if (has_words(s, v, NULL)) {
		fprintf(s->out, "complete -c lockstep -n '__fish_seen_subcommand_from %s; and test (count (commandline -opc)) -eq 2' -a '",
		        v->name);
		words(s, v, NULL, "");
		fputs("'\n", s->out);
	}
	for (const lk_option *o = v->options; o && o->name; o++) {
		fish_option(s, v, o, "");
		if (lk_option_is_switch(o)) fish_option(s, v, o, "no-");
	}
}

static void fish_globals(const struct script *s) {
	static const char *const begin = "complete -c lockstep -n __fish_use_subcommand -f";
	fprintf(s->out, "# fish completion of lockstep\n%s\n%s -a help -d 'show the options of a verb'\n", begin, begin);
	for (size_t i = 0; globals[i]; i++) fprintf(s->out, "%s -l %s\n", begin, globals[i] + 2);
	fputs("complete -c lockstep -n '__fish_seen_subcommand_from help' -f -a '", s->out);
	for (size_t i = 0; s->verbs[i]; i++) fprintf(s->out, "%s%s", i ? " " : "", s->verbs[i]->name);
	fputs("'\n", s->out);
}

static void fish(const struct script *s) {
	fish_globals(s);
	for (size_t i = 0; s->verbs[i]; i++) {
		fprintf(s->out, "complete -c lockstep -n __fish_use_subcommand -f -a %s -d '", s->verbs[i]->name);
		short_help(s->out, s->verbs[i]->summary, "", true);
		fputs("'\n", s->out);
	}
	for (size_t i = 0; s->verbs[i]; i++) fish_verb(s, s->verbs[i]);
}

lk_status lk_verbs_completion(const lk_verb *const *verbs, lk_candidates *known, const char *shell, FILE *out, lk_error *err) {
	static void (*const writers[])(const struct script *s) = {bash, zsh, fish};
	const struct script s = {verbs, known, out};
	for (size_t i = 0; shells[i]; i++) {
		if (strcmp(shell, shells[i]) != 0) continue;
		writers[i](&s);
		return LK_OK;
	}
	char shown[64];
	lk_copy(shown, sizeof shown, shell);
	lk_fail(err, LK_ERR_INPUT, "completion", "\"%s\" is no shell that is known", shown);
	return lk_hint(err, "give bash, zsh or fish");
}
