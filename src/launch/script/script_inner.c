/* script_inner.c: text that a script runs from elsewhere: files that it sources, scripts that it
 * starts with bash, sbatch and srun, commands of ssh, eval. */
#include "base/arena.h"
#include "base/text.h"
#include "launch/script/script_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	SOURCES = 16 /* files that a script reads */
};

/* What Slurm sets from the options of the batch script. */
lk_status lk_script_batch_variables(lk_shell *shell, const lk_launch_ranks *batch) {
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

/* What is unknown in the text is still written as it was, so that reading it again finds it unknown
 * again. */
lk_status lk_script_eval(lk_shell *shell, const lk_raws *words) {
	lk_words expanded = {0};
	lk_status status = lk_script_expand(shell, words, 1, &expanded);
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
	if (status == LK_OK) status = lk_script_text(shell, text, length);
	lk_vec_free(&expanded);
	return status;
}

/* A file that the script reads: by the longest end of its name that is known, in the script's
 * folder or those above it: $(dirname $0)/conf/arguments.sh, examples/llama/train.sh. */
static const char *script_beside(lk_shell *shell, const char *name) {
	enum { ABOVE = 4 };
	const char *slash = strrchr(shell->where, '/');
	const char *folder = slash == NULL ? ""
	                                   : lk_arena_strndup(shell->arena, shell->where,
	                                                      (size_t)(slash - shell->where) + 1);
	const char *unknown = name + strlen(name);
	while (unknown > name && unknown[-1] != '$' && unknown[-1] != '`' && unknown[-1] != ')')
		unknown--;
	if (unknown > name) name = strchr(unknown, '/') != NULL ? strchr(unknown, '/') + 1 : "";
	for (; folder != NULL && *name != '\0'; name = strchr(name, '/') + 1) {
		for (int level = 0; level <= (*name == '/' ? 0 : ABOVE); level++) {
			const char *path = *name == '/' ? name
			                                : lk_arena_printf(shell->arena, "%s%.*s%s", folder,
			                                                  3 * level, "../../../../", name);
			if (path != NULL && access(path, R_OK) == 0) return path;
		}
		if (strchr(name, '/') == NULL) return NULL;
	}
	return NULL;
}

/* The text of a script that this one reads or starts, from its first line on. */
static lk_status script_run_file(lk_shell *shell, const char *path) {
	lk_script_sought *sought = shell->caller;
	/* a script that starts itself would else be refused for what it expands */
	if (++sought->sources > SOURCES || shell->depth + 2 > LK_SHELL_DEPTH)
		return lk_shell_fail(shell, shell->line, "scripts read one another too many times",
		                     "give one that launches");
	char *text;
	size_t size;
	LK_TRY(lk_stream_slurp(path, LK_LAUNCH_BYTES, &text, &size, shell->err));
	char *copy = lk_arena_strndup(shell->arena, text, size);
	free(text);
	if (copy == NULL) return lk_oom(shell->err);
	int line = shell->line;
	shell->line = 1;
	lk_status status = lk_script_text(shell, copy, strlen(copy));
	shell->line = line;
	return status;
}

/* Scripts that prepare an environment are passed over; others are read where they are. */
lk_status lk_script_source(lk_shell *shell, const lk_raws *words) {
	static const char *const known[] = {"activate", "conda.sh", ".bashrc",       "bashrc",
	                                    "profile",  ".profile", ".bash_profile", "setvars.sh",
	                                    "bash",     "lmod.sh",  "modules.sh",    NULL};
	lk_script_sought *sought = shell->caller;
	if (words->count < 2) return LK_OK;
	const lk_raw *raw = &words->at[1];
	lk_raw base = *raw;
	for (const char *p = raw->at; p < raw->end; p++)
		if (*p == '/') base.at = p + 1;
	if (base.end > base.at && base.end[-1] == '"') base.end--;
	if (lk_script_among(&base, known)) return LK_OK;
	lk_word name;
	LK_TRY(lk_shell_expand_one(shell, raw, &name));
	const char *path = script_beside(shell, name.text);
	if (path == NULL) {
		sought->missing = lk_arena_strdup(shell->arena, name.text);
		sought->reading->missing = sought->missing;
		return lk_launch_assume(sought->reading,
		                        "line %d: %.80s, which the script reads, is not here: what it "
		                        "sets is not known (--var NAME=VALUE)",
		                        raw->line, name.text);
	}
	return script_run_file(shell, path);
}

/* helm install ... --set-file workload_launcher=launcher.sh: the file that a setting names. */
static const char *script_part(const char *text) {
	const char *equals = strchr(text, '=');
	return equals != NULL && text[0] != '-' && lk_ends_in(text, ".sh") ? equals + 1 : text;
}

/* The word that is a script which another one starts and that is here, or was written by it; its
 * path in *path, or the file in *inner. */
static size_t script_started(lk_shell *shell, const lk_words *words, const char **path,
                             const lk_inner_file **inner) {
	const lk_script_sought *sought = shell->caller;
	static const char *const starters[] = {"bash", "sh", "zsh", "sbatch", "srun", "helm"};
	static const char *const endings[] = {".sh", ".sbatch", ".slurm", ".sub"};
	bool started = words->count > 0 && strchr(words->at[0].text, '/') != NULL;
	for (size_t i = 0; words->count > 0 && i < sizeof starters / sizeof *starters; i++)
		started |= strcmp(words->at[0].text, starters[i]) == 0;
	for (size_t i = 0; started && i < words->count; i++) {
		const char *text = script_part(words->at[i].text);
		const char *next = i + 1 < words->count ? words->at[i + 1].text : NULL;
		if (i > 0 && lk_launch_starts(text, next) && strcmp(text, "srun") != 0) return 0;
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
	lk_script_sought *sought = shell->caller;
	bool slurm = strcmp(words->at[0].text, "sbatch") == 0 || strcmp(words->at[0].text, "srun") == 0;
	const char *options = "";
	if (!slurm || sought->batch == NULL) return LK_OK;
	for (size_t i = 1; i < count && options != NULL; i++)
		options = lk_arena_printf(shell->arena, "%s %s", options, words->at[i].text);
	if (options == NULL) return lk_oom(shell->err);
	LK_TRY(lk_launcher_sbatch(sought->reading, options, sought->batch));
	return lk_script_batch_variables(shell, sought->batch);
}

/* A script that another starts and that is not here: what it launches is not known. */
static void script_note_missing(lk_shell *shell, const lk_words *words) {
	lk_script_sought *sought = shell->caller;
	static const char *const starters[] = {"bash", "sh", "zsh", "sbatch", "helm", NULL};
	bool itself = words->count > 0 && strchr(words->at[0].text, '/') != NULL, starts = itself;
	for (size_t i = 0; words->count > 0 && starters[i] != NULL; i++)
		starts |= strcmp(words->at[0].text, starters[i]) == 0;
	for (size_t i = itself ? 0 : 1; starts && i < words->count; i++)
		if (words->at[i].text[0] != '-' && lk_ends_in(words->at[i].text, ".sh")) {
			sought->missing = script_part(words->at[i].text);
			break;
		}
}

/* bash inner.sh 8; sbatch --nodes=4 job.sbatch: a script that is here is read in its place, with
 * its own arguments. */
lk_status lk_script_start(lk_shell *shell, const lk_raws *words, bool *ran) {
	lk_words expanded = {0};
	const char *path = NULL;
	const lk_inner_file *inner = NULL;
	lk_status status = lk_script_expand(shell, words, 0, &expanded);
	size_t at = status == LK_OK ? script_started(shell, &expanded, &path, &inner) : 0;
	*ran = path != NULL || inner != NULL;
	if (at == 0 && !*ran) script_note_missing(shell, &expanded);
	if (*ran) status = script_batch_options(shell, &expanded, at);
	lk_word *args = *ran ? LK_ARRAY(shell->arena, lk_word, expanded.count + 1) : NULL;
	if (*ran && args == NULL) status = lk_oom(shell->err);
	if (*ran && status == LK_OK) {
		const lk_word *outer = shell->args;
		size_t outer_count = shell->arg_count;
		size_t blocks = shell->blocks.count;
		bool known = shell->args_known, stop = shell->stop;
		shell->arg_count = expanded.count - at - 1;
		if (shell->arg_count > 0)
			memcpy(args, expanded.at + at + 1, shell->arg_count * sizeof *args);
		shell->args = args;
		shell->args_known = true;
		status = inner != NULL ? lk_script_text(shell, inner->text, inner->size)
		                       : script_run_file(shell, path);
		shell->args = outer;
		shell->arg_count = outer_count;
		shell->args_known = known;
		if (shell->stop) shell->blocks.count = blocks; /* left by exit, which is its own */
		shell->stop = stop;
	}
	lk_vec_free(&expanded);
	return status;
}

/* ssh HOST "cd x && torchrun ...": what it runs elsewhere is read here. */
lk_status lk_script_remote(lk_shell *shell, const lk_raws *words) {
	static const char options[] = "bceiJlLoOpQRSWFmE";
	lk_words expanded = {0};
	lk_status status = lk_script_expand(shell, words, 0, &expanded);
	size_t i = 1;
	for (; status == LK_OK && i < expanded.count && expanded.at[i].text[0] == '-'; i++) {
		const char *text = expanded.at[i].text;
		if (text[1] != '\0' && text[2] == '\0' && strchr(options, text[1]) != NULL) i++;
	}
	const char *command = "";
	for (i++; status == LK_OK && i < expanded.count && command != NULL; i++)
		command = lk_arena_printf(shell->arena, "%s%s ", command, expanded.at[i].text);
	if (status == LK_OK && command == NULL) status = lk_oom(shell->err);
	if (status == LK_OK) status = lk_script_text(shell, command, strlen(command));
	lk_vec_free(&expanded);
	return status;
}

/* A text of bash -c that names no launcher itself is read in place of its command, as is a script.
 */
lk_status lk_script_inside(lk_shell *shell, const lk_raws *words, bool *ran) {
	static const char *const shells[] = {"bash", "sh", "zsh", "/bin/bash", "/bin/sh", NULL};
	size_t at = 1;
	*ran = false;
	while (at < words->count && !lk_script_among(&words->at[at], shells)) at++;
	if (at + 1 >= words->count) return LK_OK;
	const lk_raw *option = &words->at[at + 1];
	bool text_follows = *option->at == '-' && option->end[-1] == 'c' && at + 2 < words->count;
	if (!text_follows) {
		lk_raws inner = {.at = words->at + at, .count = words->count - at};
		return lk_shell_raw_is(&words->at[0], "srun") ? LK_OK : lk_script_start(shell, &inner, ran);
	}
	lk_word text;
	LK_TRY(lk_shell_expand_one(shell, &words->at[at + 2], &text));
	if (text.unknown != NULL || strstr(text.text, ".sh") == NULL || lk_script_launches(text.text))
		return LK_OK;
	lk_words outer = {0};
	lk_status status = lk_script_expand(shell, words, 0, &outer);
	size_t options = at < outer.count ? at : outer.count;
	if (status == LK_OK && options > 0) status = script_batch_options(shell, &outer, options);
	lk_vec_free(&outer);
	bool stop = shell->stop;
	if (status == LK_OK) status = lk_script_text(shell, text.text, strlen(text.text));
	shell->stop = stop; /* exit is that of the inner shell */
	*ran = true;
	return status;
}
