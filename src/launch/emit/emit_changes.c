/* emit_changes.c: a change of a job in a framework's own words: what of a text differs from the
 * text of the job before. Settings are compared by their paths in YAML, and as flags:
 *
 *     fsdp_config.offload_params: true;  --recompute-granularity full */
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/emit/emit.h"

enum { LINES = 256, DEPTH = 8, NAME = 48, PATH = 160 };

/* Settings of a text. */
typedef struct emit_settings {
	const char *path[LINES], *value[LINES]; /* of flags the value is part of the path */
	int count;
} emit_settings;

static bool settings_add(emit_settings *out, const char *path, const char *value) {
	if (out->count == LINES) return true; /* what is beyond is not compared */
	out->path[out->count] = path;
	out->value[out->count++] = value;
	return path && value;
}

/* A line "key: value" at its depth, below the keys that enclose it. */
static bool settings_yaml(lk_arena *arena, const char *line, size_t length, char keys[DEPTH][NAME],
                          emit_settings *out) {
	size_t indent = strspn(line, " "), key = indent;
	while (key < length && line[key] != ':') key++;
	int depth = (int)indent / 2;
	bool named = key < length && !memchr(line + indent, ' ', key - indent); /* no command */
	if (!named || depth >= DEPTH || line[indent] == '-' || key - indent >= NAME) return true;
	snprintf(keys[depth], NAME, "%.*s", (int)(key - indent), line + indent);
	if (key + 2 >= length) return true; /* a section */
	char path[PATH];
	lk_text text = lk_text_begin(path, sizeof path);
	for (int i = 0; i <= depth; i++) lk_text_add(&text, "%s%s", i ? "." : "", keys[i]);
	return settings_add(out, lk_arena_strdup(arena, path),
	                    lk_arena_strndup(arena, line + key + 2, length - key - 2));
}

/* Comments, and the line that starts the program, are no settings. */
static bool settings_read(lk_arena *arena, const char *text, emit_settings *out) {
	char keys[DEPTH][NAME] = {{0}};
	*out = (emit_settings){.count = 0};
	for (const char *line = text; *line;) {
		size_t length = strcspn(line, "\n"), next = length + (line[length] == '\n');
		size_t indent = strspn(line, " ");
		while (length > 0 && strchr(" \\", line[length - 1])) length--;
		bool ok = true;
		if (length > indent + 2 && strncmp(line + indent, "--", 2) == 0)
			ok = settings_add(out, lk_arena_strndup(arena, line + indent, length - indent), "");
		else if (line[indent] != '#') ok = settings_yaml(arena, line, length, keys, out);
		if (!ok) return false;
		line += next;
	}
	return true;
}

static const char *settings_find(const emit_settings *in, const char *path) {
	for (int i = 0; i < in->count; i++)
		if (strcmp(in->path[i], path) == 0) return in->value[i];
	return NULL;
}

/* The first word of a flag, which a flag with another value shares. */
static bool settings_share_flag(const emit_settings *in, const char *path) {
	size_t length = strcspn(path, " =");
	for (int i = 0; strncmp(path, "--", 2) == 0 && i < in->count; i++)
		if (strncmp(in->path[i], path, length) == 0 && strcspn(in->path[i], " =") == length)
			return true;
	return false;
}

static const char *settings_compare(lk_arena *arena, const emit_settings *before,
                                    const emit_settings *after) {
	const char *out = "";
	for (int i = 0; out && i < after->count; i++) {
		const char *was = settings_find(before, after->path[i]), *value = after->value[i];
		if (was && strcmp(was, value) == 0) continue;
		out = lk_arena_printf(arena, "%s%s%s%s%s", out, *out ? "; " : "", after->path[i],
		                      *value ? ": " : "", value);
	}
	for (int i = 0; out && i < before->count; i++)
		if (!settings_find(after, before->path[i]) && !settings_share_flag(after, before->path[i]))
			out = lk_arena_printf(arena, "%s%swithout %s", out, *out ? "; " : "", before->path[i]);
	return out;
}

/* The text of a job, NULL where the framework cannot run it, and what it cannot be told. */
static lk_status changes_text(lk_arena *arena, const char *target, const lk_job *job,
                              const lk_cluster *cluster, const char **text, lk_written *written,
                              lk_error *err) {
	lk_emitted emitted;
	lk_error refused = {0};
	*written = (lk_written){.unsaid = ""};
	lk_status status = lk_emit(arena, target, job, cluster, written, &emitted, &refused);
	*text = status == LK_OK ? emitted.text : NULL;
	return status == LK_OK || status == LK_ERR_INPUT ? LK_OK : lk_fail_as(err, &refused);
}

lk_status lk_emit_changes(lk_arena *arena, const char *target, const lk_job *before, lk_job *after,
                          const lk_cluster *cluster, const char **out, bool *other, lk_error *err) {
	const char *from, *to;
	lk_written was, is;
	*out = NULL;
	*other = false;
	LK_TRY(changes_text(arena, target, before, cluster, &from, &was, err));
	LK_TRY(changes_text(arena, target, after, cluster, &to, &is, err));
	if (!from || !to) {
		*out = from ? NULL : "";
		return LK_OK;
	}
	emit_settings *settings = LK_ARRAY(arena, emit_settings, 2);
	if (!settings || !settings_read(arena, from, &settings[0]) ||
	    !settings_read(arena, to, &settings[1]))
		return lk_oom(err);
	*out = settings_compare(arena, &settings[0], &settings[1]);
	if (!*out) return lk_oom(err);
	*other = strcmp(was.unsaid, is.unsaid) != 0;
	if (*other && !**out) *out = NULL; /* it has no words for the change */
	else if (*other) *after = is.job;
	return LK_OK;
}
