/* line_settings.c: environment settings in front of a launch line and those that its launchers pass
 * on: lockstep's own, NCCL's, the device's queues; the rest is kept for programs that read it. */
#include "base/arena.h"
#include "base/text.h"
#include "hw/hw.h"
#include "launch/line.h"

#include <stdio.h>
#include <string.h>

/* Append NAME=value; a later value overrides an earlier one. */
static lk_status line_add_nccl(lk_line *line, const char *name, const lk_word *word) {
	char kept[sizeof line->nccl] = "";
	size_t length = strlen(name);
	for (const char *at = line->nccl; *at;) {
		size_t part = strcspn(at, " "), used = strlen(kept);
		bool again = strncmp(at, name, length) == 0 && at[length] == '=';
		if (!again)
			snprintf(kept + used, sizeof kept - used, "%s%.*s", used ? " " : "", (int)part, at);
		at += part + (at[part] == ' ');
	}
	size_t used = strlen(kept);
	if (used + 1 + strlen(word->text) >= sizeof kept || strchr(word->text, ' '))
		return lk_fail(line->r->err, LK_ERR_INPUT, line->r->where,
		               "%s: longer than %zu characters, or with a blank", name, sizeof kept - 1);
	snprintf(kept + used, sizeof kept - used, "%s%s", used ? " " : "", word->text);
	memcpy(line->nccl, kept, sizeof kept);
	return lk_launch_seen(line->r, name);
}

/* CUDA_VISIBLE_DEVICES=0,1: how many devices a node shows; 0: the variable is another, or its value
 * is no list. */
static int line_visible(const lk_word *word, size_t length) {
	static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
	                                    "ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES"};
	bool any = false;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		any |= strlen(names[i]) == length && strncmp(names[i], word->text, length) == 0;
	if (!any || word->unknown != NULL || word->text[length] == '\0') return 0;
	const char *at = word->text + length + 1;
	int count = 0;
	for (size_t part; *at; at += part + (at[part] == ',')) {
		part = strcspn(at, ",");
		if (*at == '-') break; /* -1: it and what follows are not shown */
		count += part > 0;
	}
	return count <= LK_JOB_GPUS ? count : 0;
}

static bool line_names_allocator(const char *text, size_t length) {
	static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
	                                    "PYTORCH_HIP_ALLOC_CONF"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strlen(names[i]) == length && strncmp(names[i], text, length) == 0) return true;
	return false;
}

/* Length of the first setting of a list; commas in brackets belong to its value. */
static size_t allocator_setting(const char *at) {
	int depth = 0;
	size_t length = 0;
	for (; at[length] && (at[length] != ',' || depth > 0); length++)
		depth += (at[length] == '[') - (at[length] == ']');
	return length;
}

/* Settings of PyTorch's allocator; those that are not modelled are left out one by one, and said.
 * */
static lk_status line_take_allocator(lk_line *line, const char *name, const lk_word *word) {
	if (word->unknown != NULL) return lk_launch_skip(line->r, name, "its value is not known");
	char *kept = lk_arena_strdup(line->r->arena, ""), *left_out = kept;
	if (!kept) return lk_oom(line->r->err);
	const char *at = word->text + strlen(name) + 1;
	for (size_t length; *at; at += length + (at[length] == ',')) {
		length = allocator_setting(at);
		char *setting = lk_arena_strndup(line->r->arena, at, length);
		lk_alloc_conf conf;
		lk_error ignored = {0};
		if (!setting) return lk_oom(line->r->err);
		bool known = lk_alloc_conf_read(setting, name, &conf, &ignored) == LK_OK;
		char **list = known ? &kept : &left_out;
		*list = lk_arena_printf(line->r->arena, "%s%s%s", *list, **list ? "," : "", setting);
		if (!*list) return lk_oom(line->r->err);
	}
	if (*left_out)
		LK_TRY(lk_launch_skip(line->r, name,
		                      lk_arena_printf(line->r->arena, "%.100s: not modelled", left_out)));
	if (strlen(kept) >= sizeof line->alloc_conf)
		return lk_launch_skip(line->r, name, "a setting of the allocator that is not modelled");
	lk_copy(line->alloc_conf, sizeof line->alloc_conf, kept);
	return *kept ? lk_launch_seen(line->r, name) : LK_OK;
}

lk_status lk_line_setting(lk_line *line, const lk_word *word) {
	static const char connections[] = "CUDA_DEVICE_MAX_CONNECTIONS=", own[] = "LOCKSTEP_";
	size_t length = strcspn(word->text, "=");
	bool ours = strncmp(word->text, own, sizeof own - 1) == 0;
	bool queues = strncmp(word->text, connections, sizeof connections - 1) == 0;
	bool collectives = lk_nccl_variable(word->text, length);
	char *name = lk_arena_strndup(line->r->arena, word->text, length);
	if (name == NULL || !lk_push(&line->environment)) return lk_oom(line->r->err);
	*lk_last(&line->environment) = *word;
	int visible = line_visible(word, length);
	if (visible > 0) {
		line->r->visible = visible;
		return lk_launch_understood(line->r, name, word->text + length + 1);
	}
	if (line_names_allocator(word->text, length)) return line_take_allocator(line, name, word);
	if (!ours && !queues && !collectives)
		return lk_launch_skip(line->r, name, "a setting of the environment: not modelled");
	if (word->unknown != NULL && queues)
		return lk_launch_note(line->r, name, "its value is not known: the default is taken");
	if (word->unknown != NULL) {
		lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "%s: %s", name, word->unknown);
		return lk_launch_ask_value(line->r, word, "write the value into the script");
	}
	if (queues) {
		long long value;
		LK_TRY(lk_parse_int(word->text + length + 1, 1, 32, &value, name, line->r->err));
		line->max_connections = (int)value;
		return LK_OK;
	}
	return collectives ? line_add_nccl(line, name, word) : LK_OK;
}

/* What a launcher passes on: srun --export=ALL,NAME=value, mpiexec -genv NAME value. */
lk_status lk_line_passed(lk_line *line) {
	const char *at = line->ranks.settings;
	line->ranks.settings = NULL;
	for (size_t length; at && *at; at += length + (at[length] != '\0')) {
		length = strcspn(at, "\n");
		lk_word word = {.text = lk_arena_strndup(line->r->arena, at, length)};
		if (word.text == NULL) return lk_oom(line->r->err);
		if (!lk_launch_setting(&word)) continue; /* ALL, or the name of one that is set already */
		if (strchr(word.text, '$')) word.unknown = "its value is not known";
		LK_TRY(lk_line_setting(line, &word));
	}
	return LK_OK;
}

lk_status lk_line_apply_settings(lk_line *line) {
	lk_job *job = line->r->out->job;
	if (line->max_connections > 0) job->max_connections = line->max_connections;
	if (*line->nccl) memcpy(job->nccl, line->nccl, sizeof job->nccl);
	if (*line->alloc_conf) memcpy(job->alloc_conf, line->alloc_conf, sizeof job->alloc_conf);
	for (size_t i = 0; i < line->environment.count; i++)
		if (strncmp(line->environment.at[i].text, "LOCKSTEP_", 9) == 0)
			LK_TRY(lk_launch_set(line->r, line->environment.at[i].text));
	return LK_OK;
}

/* The value of an environment setting; NULL: not set. */
const char *lk_line_environment(const lk_line *line, const char *name) {
	size_t length = strlen(name);
	for (size_t i = line->environment.count; i > 0; i--) {
		const lk_word *word = &line->environment.at[i - 1];
		if (word->unknown == NULL && strncmp(word->text, name, length) == 0 &&
		    word->text[length] == '=')
			return word->text + length + 1;
	}
	return NULL;
}

bool lk_line_states(const lk_line *line, const char *name) {
	size_t length = strlen(name);
	for (size_t i = 0; i < line->environment.count; i++) {
		const char *text = line->environment.at[i].text;
		if (strncmp(text, name, length) == 0 && text[length] == '=') return true;
	}
	return false;
}
