/* options_completion.c: completion scripts for bash, zsh and fish: verbs, their options, choices, and files. */
#include <string.h>
#include "base/options_text.h"
#include "base/text.h"

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

static void choices(FILE *out, const lk_option *o) {
	for (size_t i = 0; o->choices[i]; i++) {
		if (i) putc(' ', out);
		quoted(out, o->choices[i], "", false);
	}
}

/* ---- bash ---- */

static void bash_values(const lk_verb *v, FILE *out) {
	for (const lk_option *o = v->options; o && o->name; o++) {
		if (lk_option_is_switch(o) || lk_option_is_path(o)) continue;
		fprintf(out, "\t%s:--%s", v->name, o->name);
		if (o->letter) fprintf(out, "|%s:-%c", v->name, o->letter);
		fputs(") words='", out);
		if (o->kind == LK_OPTION_CHOICE) choices(out, o);
		fputs("'; files= ;;\n", out);
	}
}

static void bash_paths(const lk_verb *v, FILE *out) {
	for (const lk_option *o = v->options; o && o->name; o++) {
		if (!lk_option_is_path(o)) continue;
		fprintf(out, "\t%s:--%s", v->name, o->name);
		if (o->letter) fprintf(out, "|%s:-%c", v->name, o->letter);
		fputs(") words=; files=1 ;;\n", out);
	}
}

static void bash_words(const lk_verb *v, FILE *out) {
	fprintf(out, "\t%s:*) words='--help", v->name);
	for (const lk_option *o = v->options; o && o->name; o++) {
		fprintf(out, " --%s", o->name);
		if (lk_option_is_switch(o)) fprintf(out, " --no-%s", o->name);
	}
	fprintf(out, "'; files=%s ;;\n", v->operands && *v->operands ? "1" : "");
}

static void bash(const lk_verb *const *verbs, FILE *out) {
	fputs("# bash completion of lockstep\n"
	      "_lockstep() {\n"
	      "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= files=\n"
	      "\tif [[ $word == '=' ]]; then\n"
	      "\t\tword=\n"
	      "\telif [[ $before == '=' && $COMP_CWORD -gt 2 ]]; then\n"
	      "\t\tbefore=${COMP_WORDS[COMP_CWORD-2]}\n"
	      "\tfi\n"
	      "\tif [[ $COMP_CWORD -eq 1 ]]; then\n"
	      "\t\twords='--help --version", out);
	for (size_t i = 0; verbs[i]; i++) fprintf(out, " %s", verbs[i]->name);
	fputs("'\n\telse\n\tcase ${COMP_WORDS[1]}:$before in\n", out);
	for (size_t i = 0; verbs[i]; i++) {
		bash_values(verbs[i], out);
		bash_paths(verbs[i], out);
		bash_words(verbs[i], out);
	}
	fputs("\tesac\n\tfi\n"
	      "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
	      "\tif [[ -n $files && $word != -* ]]; then\n"
	      "\t\tlocal IFS=$'\\n'\n"
	      "\t\tcompopt -o filenames 2>/dev/null\n"
	      "\t\tCOMPREPLY+=($(compgen -f -- \"$word\"))\n"
	      "\tfi\n"
	      "}\n"
	      "complete -F _lockstep lockstep\n", out);
}

/* ---- zsh ---- */

static void zsh_spec(const lk_option *o, const char *dashes, char letter, FILE *out) {
	bool flag = lk_option_is_switch(o);
	fputs(" \\\n\t\t'", out);
	if (letter) fprintf(out, "-%c%s[", letter, flag ? "" : "+");
	else fprintf(out, "%s%s%s[", dashes, o->name, flag ? "" : "=");
	short_help(out, o->help, "[]:\\", false);
	putc(']', out);
	if (!flag) {
		putc(':', out);
		quoted(out, lk_option_value(o), "[]:\\", false);
		putc(':', out);
		if (o->kind == LK_OPTION_CHOICE) {
			putc('(', out);
			choices(out, o);
			putc(')', out);
		} else if (lk_option_is_path(o)) {
			fputs("_files", out);
		} else {
			putc(' ', out);
		}
	}
	putc('\'', out);
}

static void zsh_verb(const lk_verb *v, FILE *out) {
	fprintf(out, "\t%s)\n\t\t_arguments -s '(- *)--help[show help]'", v->name);
	for (const lk_option *o = v->options; o && o->name; o++) {
		zsh_spec(o, "--", 0, out);
		if (lk_option_is_switch(o)) zsh_spec(o, "--no-", 0, out);
		if (o->letter) zsh_spec(o, "", o->letter, out);
	}
	if (v->operands && *v->operands) fputs(" \\\n\t\t'*:file:_files'", out);
	fputs(" ;;\n", out);
}

static void zsh(const lk_verb *const *verbs, FILE *out) {
	fputs("#compdef lockstep\n"
	      "_lockstep() {\n"
	      "\tlocal -a verbs\n"
	      "\tverbs=(\n", out);
	for (size_t i = 0; verbs[i]; i++) {
		fprintf(out, "\t\t'%s:", verbs[i]->name);
		short_help(out, verbs[i]->summary, ":\\", false);
		fputs("'\n", out);
	}
	fputs("\t)\n"
	      "\tif (( CURRENT == 2 )); then\n"
	      "\t\t_describe verb verbs\n"
	      "\t\treturn\n"
	      "\tfi\n"
	      "\tlocal verb=$words[2]\n"
	      "\tshift words\n"
	      "\t(( CURRENT-- ))\n"
	      "\tcase $verb in\n", out);
	for (size_t i = 0; verbs[i]; i++) zsh_verb(verbs[i], out);
	fputs("\tesac\n}\n"
	      "if [[ $funcstack[1] == _lockstep ]]; then _lockstep \"$@\"; else compdef _lockstep lockstep; fi\n", out);
}

/* ---- fish ---- */

static void fish_option(const lk_verb *v, const lk_option *o, const char *no, FILE *out) {
	fprintf(out, "complete -c lockstep -n '__fish_seen_subcommand_from %s' -l %s%s", v->name, no, o->name);
	if (o->letter && !*no) fprintf(out, " -s %c", o->letter);
	if (o->kind == LK_OPTION_CHOICE) {
		fputs(" -x -a '", out);
		choices(out, o);
		putc('\'', out);
	} else if (!lk_option_is_switch(o)) {
		fputs(lk_option_is_path(o) ? " -r -F" : " -x", out);
	}
	fputs(" -d '", out);
	short_help(out, o->help, "", true);
	fputs("'\n", out);
}

static void fish(const lk_verb *const *verbs, FILE *out) {
	fputs("# fish completion of lockstep\ncomplete -c lockstep -n __fish_use_subcommand -f\n", out);
	for (size_t i = 0; verbs[i]; i++) {
		fprintf(out, "complete -c lockstep -n __fish_use_subcommand -f -a %s -d '", verbs[i]->name);
		short_help(out, verbs[i]->summary, "", true);
		fputs("'\n", out);
	}
	for (size_t i = 0; verbs[i]; i++) {
		if (!verbs[i]->operands || !*verbs[i]->operands) {
			fprintf(out, "complete -c lockstep -n '__fish_seen_subcommand_from %s' -f\n", verbs[i]->name);
		}
		for (const lk_option *o = verbs[i]->options; o && o->name; o++) {
			fish_option(verbs[i], o, "", out);
			if (lk_option_is_switch(o)) fish_option(verbs[i], o, "no-", out);
		}
	}
}

lk_status lk_verbs_completion(const lk_verb *const *verbs, const char *shell, FILE *out, lk_error *err) {
	static const struct {
		const char *name;
		void (*write)(const lk_verb *const *verbs, FILE *out);
	} shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
	for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
		if (strcmp(shell, shells[i].name) != 0) continue;
		shells[i].write(verbs, out);
		return LK_OK;
	}
	char shown[64];
	lk_copy(shown, sizeof shown, shell);
	lk_fail(err, LK_ERR_INPUT, "completion", "\"%s\" is no shell that is known", shown);
	return lk_hint(err, "give bash, zsh or fish");
}
