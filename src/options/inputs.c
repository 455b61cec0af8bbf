/* inputs.c: finds the files among operands and values of options. */
#include "base/arena.h"
#include "options/command.h"
#include "options/rollout_words.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"

/* Options of any verb that read a file, by name: the tables of options do not distinguish reading
 * from writing. */
static const char *const reading[] = {
	"model",       "cluster", "config",   "script", "deepspeed_config",
	"calibration", "prices",  "catalog",  "stalls", "teacher",
	"rollout",     "run",     "failures",
};
enum { READING = sizeof reading / sizeof *reading };

static bool inputs_reads(const lk_option *option) {
	for (int i = 0; i < READING; i++)
		if (option->kind == LK_OPTION_TEXT && strcmp(option->name, reading[i]) == 0) return true;
	return false;
}

/* Distinguishes a file from a preset or a description, as the verbs do. */
static bool inputs_looks_like_path(const char *text) {
	return strchr(text, '/') || lk_ends_in(text, ".json") || lk_ends_in(text, ".xml") ||
	       lk_ends_in(text, ".log");
}

/* Whether the file can be opened: a file that this process may not read is not named either. */
static bool inputs_is_file(const char *path) {
	struct stat info;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	bool regular = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
	if (fd >= 0) close(fd);
	return regular;
}

static void inputs_add(const char **paths, int *count, const char *path) {
	for (int i = 0; i < *count; i++)
		if (strcmp(paths[i], path) == 0) return;
	paths[(*count)++] = path;
}

lk_status lk_inputs_find(lk_arena *arena, const lk_verb *verb, const void *request,
                         const char *const *operands, int count, lk_inputs *out, lk_error *err) {
	const char **paths = LK_ARRAY(arena, const char *, (size_t)count + READING);
	int found = 0;
	if (!paths) return lk_oom(err);
	for (const lk_option *option = verb->options; option->name; option++) {
		const char *value =
			!option->output && inputs_reads(option)
				? *(const char *const *)(const void *)((const char *)request + option->offset)
				: NULL;
		if (!value) continue;
		if (strcmp(option->name, "rollout") == 0) {
			size_t length;
			value = lk_rollout_file(value, &length);
			if (value && !(value = lk_arena_strndup(arena, value, length))) return lk_oom(err);
			if (value && inputs_is_file(value)) inputs_add(paths, &found, value);
			continue;
		}
		/* "8 node * FILE.xml", "FILE.log h100-sxm" */
		const char *last = strrchr(value, ' '), *log = strstr(value, ".log ");
		if (log && !(value = lk_arena_strndup(arena, value, (size_t)(log - value) + 4)))
			return lk_oom(err);
		if (last && strchr(option->value, '|') && !inputs_is_file(value)) value = last + 1;
		bool named = !strchr(option->value, '|') || inputs_looks_like_path(value);
		if (named && inputs_is_file(value)) inputs_add(paths, &found, value);
	}
	/* Operands may be traces of thousands of ranks, whose names differ: no search for duplicates. */
	for (int i = 0; i < count; i++)
		if (inputs_is_file(operands[i])) paths[found++] = operands[i];
	for (int i = 0; i < found; i++)
		if (!(paths[i] = lk_arena_strdup(arena, paths[i]))) return lk_oom(err);
	LK_ASSERT(found <= count + READING);
	*out = (lk_inputs){paths, found};
	return LK_OK;
}
