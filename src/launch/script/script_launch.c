/* script_launch.c: which command of a script is the launch: one that starts a launcher or python,
 * the last of those that look most like a training. */
#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "launch/script/script_internal.h"

#include <string.h>

/* How much a launch looks like that of a training: 3 a program of that name or under a launcher, 2
 * another program, 1 one that generates, converts or prepares. */
static int script_launch_rank(const lk_words *words) {
	const char *program = NULL;
	bool launcher = false;
	for (size_t i = 0; i < words->count; i++) {
		const char *word = words->at[i].text;
		const char *next = i + 1 < words->count ? words->at[i + 1].text : NULL;
		const lk_command_of *command = program == NULL ? lk_launch_command(word, next) : NULL;
		if (command != NULL && command->others != NULL)
			return lk_launch_trains(command, next) ? 3 : 1;
		size_t length = strlen(word);
		bool python = length > 3 && strcmp(word + length - 3, ".py") == 0;
		if (program == NULL && word[0] != '-' && (python || strchr(word, '.') != NULL))
			program = word;
		if (command != NULL && next != NULL && !lk_launch_trains(command, next))
			return 1; /* trl vllm-serve */
		launcher |= strstr(word, "torchrun") != NULL || strstr(word, "srun") != NULL ||
		            strcmp(word, "deepspeed") == 0 || strcmp(word, "accelerate") == 0 ||
		            strstr(word, "torch.distributed") != NULL;
	}
	if (program != NULL && lk_launch_other_work(program) != NULL) return 1;
	bool trains = program != NULL && strstr(program, "train") != NULL;
	return launcher || trains ? 3 : 2;
}

/* Words of a launch: what the script exported, then the command. */
static lk_status script_keep_launch(lk_shell *shell, const lk_words *words, int line,
                                    bool certain) {
	lk_script_sought *sought = shell->caller;
	int rank = script_launch_rank(words) + (certain ? 10 : 0);
	LK_ASSERT(rank > 0); /* 0: no launch was found */
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
	return lk_shell_fail(shell, line, "the expanded words are longer than 4 MiB",
	                     "shorten the script");
}

bool lk_script_launches(const char *text) {
	static const char *const names[] = {
		"torchrun",  "python",   "srun",       "mpirun",       "deepspeed",   "accelerate",
		"swift sft", "swift pt", "swift rlhf", "megatron sft", "megatron pt", "megatron rlhf"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strstr(text, names[i]) != NULL) return true;
	return false;
}

/* python -m pip install, helm install: what they name launches nothing here. */
static bool script_installs(const lk_words *words) {
	if (words->count > 0 && strcmp(words->at[0].text, "helm") == 0) return true;
	for (size_t i = 0; i + 1 < words->count; i++)
		if (strcmp(words->at[i].text, "-m") == 0) return strcmp(words->at[i + 1].text, "pip") == 0;
	return false;
}

/* Whether bash -c runs a text that names no launcher and no script: srun bash -c "uv sync"; python
 * a text of the script: python - <<END, python -c "...". */
static bool script_prepares(const lk_words *words) {
	for (size_t i = 0; i + 1 < words->count; i++) {
		const char *slash = strrchr(words->at[i].text, '/'), *option = words->at[i + 1].text,
				   *base = slash != NULL ? slash + 1 : words->at[i].text;
		if (strncmp(base, "python", 6) == 0 && (!strcmp(option, "-") || !strcmp(option, "-c")))
			return true;
	}
	for (size_t i = 0; i + 2 < words->count; i++) {
		const char *option = words->at[i + 1].text, *text = words->at[i + 2].text;
		size_t length = strlen(option);
		if (lk_ends_in(words->at[i].text, "sh") && option[0] == '-' && length > 1 &&
		    option[length - 1] == 'c')
			return words->at[i + 2].unknown == NULL && !lk_script_launches(text) &&
			       strstr(text, ".sh") == NULL && strstr(text, ".py") == NULL;
	}
	return false;
}

/* A launcher among the words, or in the text of bash -c. */
static bool script_is_launch(const lk_words *words) {
	bool text = false;
	if (script_prepares(words)) return false;
	for (size_t i = 0; i < words->count; i++) {
		const char *word = words->at[i].text;
		const char *next = i + 1 < words->count ? words->at[i + 1].text : NULL;
		if (lk_launch_starts(word, next) || lk_launch_own_script(word) != LK_OWN_NONE) return true;
		if (text && lk_script_launches(word)) return true;
		text = word[0] == '-' && word[1] != '\0' && word[strlen(word) - 1] == 'c';
	}
	return false;
}

/* What a program does that is no training, for the message where nothing else is launched. */
static const char *script_other_work(const lk_words *words) {
	static const struct {
		const char *program, *verb, *work;
	} others[] = {{"vllm", "serve", "vllm serve serves a network"},
	              {"sglang", "serve", "sglang serve serves a network"},
	              {"docker", "run", "docker run opens a container"},
	              {"podman", "run", "podman run opens a container"},
	              {"huggingface-cli", "download", "huggingface-cli downloads"},
	              {"hf", "download", "hf downloads"}};
	size_t at = 0;
	while (at < words->count && lk_launch_setting(&words->at[at])) at++;
	for (size_t i = 0; at + 1 < words->count && i < sizeof others / sizeof *others; i++)
		if (strcmp(words->at[at].text, others[i].program) == 0 &&
		    strcmp(words->at[at + 1].text, others[i].verb) == 0)
			return others[i].work;
	return NULL;
}

/* A program that is neither a builtin nor harmless: kept if it launches, else it cannot change what
 * follows. */
lk_status lk_script_program(lk_shell *shell, const lk_raws *words, lk_truth certain) {
	lk_words expanded = {0};
	lk_status status = lk_script_expand(shell, words, 0, &expanded);
	bool launch = status == LK_OK && script_is_launch(&expanded) && !script_installs(&expanded);
	const char *other = status == LK_OK && !launch ? script_other_work(&expanded) : NULL;
	if (other != NULL) ((lk_script_sought *)shell->caller)->other = other;
	if (launch)
		status = script_keep_launch(shell, &expanded, words->at[0].line, certain == LK_SHELL_TRUE);
	lk_vec_free(&expanded);
	return status;
}
