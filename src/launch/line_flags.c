/* line_flags.c: the words after the program: flags by whose they are, the configuration that they
 * name, and what overrides its keys. */
#include "base/arena.h"
#include "base/text.h"
#include "launch/line.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* --deepspeed ds.json, --deepspeed_config ds.json; --deepspeed alone is the switch of a config that
 * follows. */
static lk_status line_deepspeed_flag(lk_line *line, const char *name, const lk_word *words,
                                     size_t count, size_t *used) {
	bool file = count > 0 && words[0].text[0] != '-';
	*used = file;
	if (!file && strcmp(name, "deepspeed") == 0) return LK_OK;
	if (file && words[0].unknown == NULL) {
		line->deepspeed = words[0].text;
		return LK_OK;
	}
	if (file && line->megatron) /* Megatron-DeepSpeed states stage, batch and numbers as flags */
		return lk_launch_note(line->r, name,
		                      "its path is not known: the line's own flags are taken");
	lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "--%s: %s", name,
	        file ? words[0].unknown : "the file is missing");
	return lk_hint(line->r->err, "write the path of the DeepSpeed config");
}

/* deepy.py -d FOLDER job.yml; NULL: no memory. */
static const char *line_in_folder(const lk_line *line, const char *name) {
	return line->configs ? lk_arena_printf(line->r->arena, "%s/%s", line->configs, name) : name;
}

/* job.yaml, job.toml */
static bool line_names_config(const lk_word *word) {
	static const char *const endings[] = {".yaml", ".yml", ".toml"};
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (word->unknown == NULL && lk_ends_in(word->text, endings[i])) return true;
	return false;
}

/* --config job.yaml, and its other spellings. */
static bool line_is_config(const lk_line *line, const char *name, const lk_word *words,
                           size_t count) {
	static const char *const names[] = {"config",   "c",           "config-file", "config_file",
	                                    "yaml-cfg", "config_path", "config-path"};
	if (count == 0 || line->config != NULL || !line_names_config(&words[0])) return false;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(name, names[i]) == 0) return true;
	return false;
}

/* Hydra's --config-path=conf --config-name=gpt. */
static bool line_hydra(lk_line *line, const char *name, const lk_word *words, size_t count) {
	if (count == 0 || words[0].unknown != NULL) return false;
	bool folder = strcmp(name, "config-path") == 0, stem = strcmp(name, "config-name") == 0;
	if (folder) line->folder = words[0].text;
	if (stem) line->stem = words[0].text;
	return folder || stem;
}

lk_status lk_line_join_hydra(lk_line *line) {
	if (line->stem == NULL || line->config != NULL) return LK_OK;
	bool ended = lk_ends_in(line->stem, ".yaml") || lk_ends_in(line->stem, ".yml");
	line->config =
		lk_arena_printf(line->r->arena, "%s%s%s%s", line->folder != NULL ? line->folder : "",
	                    line->folder != NULL ? "/" : "", line->stem, ended ? "" : ".yaml");
	line->configured = true;
	return line->config != NULL ? LK_OK : lk_oom(line->r->err);
}

/* --name value value */
static lk_status line_keep_list(lk_line *line, const char *key, const lk_word *words,
                                size_t count) {
	lk_value list = {.kind = LK_JSON_ARRAY, .count = count};
	list.items = LK_ARRAY(line->r->arena, lk_value, count);
	if (list.items == NULL) return lk_oom(line->r->err);
	for (size_t i = 0; i < count; i++) {
		list.items[i].text = words[i].text;
		list.items[i].kind = lk_yaml_scalar(words[i].text, &list.items[i].number);
	}
	return lk_members_add(&line->settings, key, &list) ? LK_OK : lk_oom(line->r->err);
}

/* A value that is not known: of a path that names a network its end does, the number of GPUs is
 * open, and what says nothing of the job is noted: *word then has no text. */
static lk_status line_unknown(lk_line *line, const char *name, const char *key, lk_word *word) {
	const char *end = lk_launch_known_end(word), *fact = lk_program_fact(line->name, key);
	bool network = fact != NULL && lk_fact_names_network(fact);
	if (network && end != NULL) {
		LK_TRY(lk_launch_assume(line->r, "%.60s: the network is that of the end of %.80s", name,
		                        word->text));
		*word = (lk_word){.text = end};
		return LK_OK;
	}
	bool counts = fact != NULL && (strcmp(fact, "nodes") == 0 || strcmp(fact, "per_node") == 0);
	if (fact != NULL && !counts && !(network && !line->hydra))
		return lk_launch_unknown_value(line->r, name, word);
	word->text = NULL;
	return lk_launch_note(line->r, name,
	                      counts ? "its value is not known: the default is taken, or --gpus"
	                             : "its value is not known");
}

/* A flag of a trainer whose flags are the keys of its configurations: --name, --name value, --name
 * value value. */
static lk_status line_keep_flag(lk_line *line, const char *name, const lk_word *words, size_t count,
                                size_t *used) {
	lk_arena *arena = line->r->arena;
	char *key = lk_arena_strdup(arena, name);
	lk_value value = {.kind = LK_JSON_TRUE, .text = "true"};
	*used = 0;
	while (*used < count &&
	       (words[*used].text[0] != '-' || isdigit((unsigned char)words[*used].text[1])))
		++*used;
	if (key == NULL) return lk_oom(line->r->err);
	if (line->configured && strcmp(key, "launcher") == 0)
		return lk_launch_skip(line->r, name, "its words follow after --");
	for (char *c = key; *c; c++)
		if (*c == '-') *c = '_';
	lk_word first = *used > 0 ? words[0] : (lk_word){.text = ""};
	if (first.unknown != NULL && line->maxtext) {
		if (lk_maxtext_states(key) && !first.empty_if_unset)
			return lk_launch_unknown_value(line->r, name, &words[0]);
		return lk_launch_note(line->r, name, "its value is not known");
	}
	if (first.unknown != NULL) {
		LK_TRY(line_unknown(line, name, key, &first));
		if (first.text == NULL) return LK_OK;
	}
	if (*used > 1) return line_keep_list(line, key, words, *used);
	if (*used > 0) {
		value.text = first.text;
		value.kind = lk_yaml_scalar(value.text, &value.number);
	}
	if (value.kind == LK_JSON_STRING && *value.text == '{') { /* a map: JSON */
		lk_value *map;
		if (lk_yaml_document(arena, value.text, strlen(value.text), name, &map, NULL) == LK_OK)
			value = *map;
	}
	return lk_members_add(&line->settings, key, &value) ? LK_OK : lk_oom(line->r->err);
}

static lk_status line_named(lk_line *line, const char *name, const lk_word *words, size_t count,
                            size_t *used) {
	LK_TRY(lk_launch_seen(line->r, name));
	bool own = line->command != NULL; /* its presets have names */
	if (!own && (strcmp(name, "deepspeed") == 0 || strcmp(name, "deepspeed_config") == 0))
		return line_deepspeed_flag(line, name, words, count, used);
	if (line->dotted.dialect == LK_DIALECT_TORCHTITAN || strcmp(name, "job.config_file") == 0 ||
	    lk_dotted_flag(LK_DIALECT_TORCHTITAN, name))
		return lk_line_titan_flag(line, name, words, count, used);
	if (strcmp(name, "accelerate_config") == 0 && count > 0 && words[0].unknown == NULL) {
		line->ranks.accelerate = words[0].text; /* of trl: fsdp2, zero3, a path */
		*used = 1;
		return LK_OK;
	}
	if (line_is_config(line, name, words, count)) {
		line->config = words[0].text;
		*used = 1;
		return LK_OK;
	}
	if (line_hydra(line, name, words, count)) {
		*used = 1;
		return LK_OK;
	}
	if (!line->megatron) return line_keep_flag(line, name, words, count, used);
	return lk_megatron_read(line->r, &line->flags, name, words, count, used);
}

/* "--name value..." or "--name=value". */
static lk_status line_flag(lk_line *line, const lk_word *words, size_t count, size_t *used) {
	const char *name = words[0].text + strspn(words[0].text, "-"), *equals = strchr(name, '=');
	size_t values;
	line->any_flag = true;
	*used = 1;
	if (equals == NULL) {
		LK_TRY(line_named(line, name, words + 1, count - 1, &values));
		*used += values;
		return LK_OK;
	}
	char *alone = lk_arena_strndup(line->r->arena, name, (size_t)(equals - name));
	if (alone == NULL) return lk_oom(line->r->err);
	lk_word value = words[0];
	value.text = equals + 1;
	return line_named(line, alone, &value, 1, &values);
}

/* Whether a setting of verl's chooses one of the files of a group, and is no value: optim=megatron,
 * model=hf_model, actor@actor_rollout_ref.actor=megatron_actor. */
static bool line_chooses_file(const char *name) {
	static const char *const groups[] = {"optim", "model", "profiler", "data", "critic", "reward"};
	for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
		if (strcmp(name, groups[i]) == 0) return true;
	return strchr(name, '@') != NULL;
}

/* key=value after a configuration; Hydra's +key=value and ++key=value add what its files lack. Of
 * verl's groups engine= says what model_engine= does. */
static lk_status line_override(lk_line *line, const lk_word *word) {
	size_t length = strcspn(word->text, "="), plus = strspn(word->text, "+"), used;
	const char *name = lk_arena_strndup(line->r->arena, word->text + plus, length - plus);
	lk_word value = *word;
	if (name && line->hydra && line_chooses_file(name))
		return lk_launch_skip(line->r, name, "a choice of default settings");
	if (name && line->hydra && strcmp(name, "engine") == 0) name = "model_engine";
	value.text += length + 1;
	return name ? line_keep_flag(line, name, &value, 1, &used) : lk_oom(line->r->err);
}

/* Whether a word is key=value, of which at least the key is known. */
static bool line_is_setting(const char *text) {
	size_t length = 0;
	while (isalnum((unsigned char)text[length]) || strchr("_.", text[length] ? text[length] : ' '))
		length++;
	return length > 0 && text[length] == '=';
}

/* MaxText: a configuration, then settings; of its path the name is enough. */
static lk_status line_maxtext(lk_line *line, const lk_word *word) {
	if (line_is_setting(word->text)) return line_override(line, word);
	bool file = lk_ends_in(word->text, ".yml") || lk_ends_in(word->text, ".yaml");
	if (file && line->config == NULL) line->config = word->text;
	return file ? LK_OK : lk_launch_note(line->r, word->text, "a word that belongs to no flag");
}

/* Whether some flag is one that only Megatron-LM has: its name holds a '-', and nobody else's. */
static bool line_has_megatron_flag(const lk_word *words, size_t count) {
	for (size_t i = 0; i < count; i++) {
		char name[96];
		const char *text = words[i].text;
		if (strncmp(text, "--", 2) != 0) continue;
		snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 2, "="), text + 2);
		const lk_flag *flag = strchr(name, '-') != NULL ? lk_megatron_flag(name) : NULL;
		if (flag == NULL || flag->kind >= LK_FLAG_IGNORED) continue;
		for (char *c = name; *c; c++)
			if (*c == '-') *c = '_';
		if (lk_program_fact(NULL, name) == NULL) return true; /* the Trainer takes both */
	}
	return false;
}

/* Whether a word is a setting of a path, whatever its value: runtime_args.output_dir=$DIR. */
static bool line_sets_path(const char *text) {
	size_t length = 0;
	while (isalnum((unsigned char)text[length]) || strchr("_.+", text[length]) != NULL) {
		if (text[length] == '\0') return false;
		length++;
	}
	return length > 0 && text[length] == '=' && memchr(text, '.', length) != NULL;
}

lk_status lk_line_flags(lk_line *line, const lk_word *words, size_t count) {
	line->megatron = line->megatron || (!line->configured && line_has_megatron_flag(words, count));
	for (size_t i = 0, used; i < count; i += used) {
		used = 1;
		const lk_word *word = &words[i];
		if (line->configured && strcmp(word->text, "--") == 0) { /* words of torchrun */
			lk_launched launched;
			lk_word *rest = LK_ARRAY(line->r->arena, lk_word, count - i);
			if (rest == NULL) return lk_oom(line->r->err);
			memcpy(rest, words + i, (count - i) * sizeof *rest);
			rest[0].text = "torchrun";
			return lk_launcher_read(line->r, rest, count - i, &line->ranks, &launched);
		}
		bool titan = line->dotted.dialect == LK_DIALECT_TORCHTITAN;
		if (titan && strncmp(word->text, "activation", 10) == 0 && strchr(word->text, ':')) {
			LK_TRY(lk_dotted_read(line->r, &line->dotted, "activation_checkpoint.mode",
			                      strchr(word->text, ':') + 1));
		} else if (line->dotted.dialect == LK_DIALECT_NEMO ||
		           line->dotted.dialect == LK_DIALECT_BRIDGE) {
			LK_TRY(lk_line_nemo(line, word, count - i, &used));
		} else if (line->maxtext && word->text[0] != '-' && *word->text != '\0' &&
		           (word->unknown == NULL || line_is_setting(word->text) ||
		            line_names_config(&(lk_word){.text = word->text}))) {
			LK_TRY(line_maxtext(line, word));
		} else if (line->hydra && word->text[0] != '-' && strchr(word->text, '=') != NULL) {
			LK_TRY(line_override(line, word));
		} else if (word->unknown != NULL && word->text[0] != '-') {
			if (line_sets_path(word->text)) {
				char *path = lk_arena_strndup(line->r->arena, word->text, strcspn(word->text, "="));
				if (path == NULL) return lk_oom(line->r->err);
				LK_TRY(lk_launch_note(line->r, path, "its value is not known"));
				continue;
			}
			if (!word->empty_if_unset) {
				lk_fail(line->r->err, LK_ERR_INPUT, line->r->where, "%s, and flags may be in it",
				        word->unknown);
				return lk_launch_ask_value(line->r, word, "write its text into the script");
			}
			LK_TRY(lk_launch_note(
				line->r, word->text,
				lk_arena_printf(line->r->arena, "%s: taken as empty", word->unknown)));
		} else if (line->starter && i + 1 < count &&
		           (strcmp(word->text, "-d") == 0 || strcmp(word->text, "--conf_dir") == 0)) {
			line->configs = words[++i].text;
		} else if (word->text[0] == '-' && word->text[strspn(word->text, "-")] != '\0') {
			LK_TRY(line_flag(line, word, count - i, &used));
		} else if (line->config == NULL && line_names_config(word)) {
			line->config = line_in_folder(line, word->text);
			if (line->config == NULL) return lk_oom(line->r->err);
		} else if (line->config != NULL && line->starter && line_names_config(word)) {
			const char *name = line_in_folder(line, word->text);
			if (name == NULL) return lk_oom(line->r->err);
			line->also = lk_arena_printf(line->r->arena, "%s%s\n",
			                             line->also != NULL ? line->also : "", name);
			if (line->also == NULL) return lk_oom(line->r->err);
		} else if ((line->config != NULL || line->stem != NULL) &&
		           strchr(word->text, '=') != NULL) {
			LK_TRY(line_override(line, word));
		} else if (line->operand != NULL && word->text[0] != '\0') {
			if (!lk_line_command_goes_on(line, word->text))
				LK_TRY(line_keep_flag(line, line->operand, word, 1, &used));
			used = 1;
		} else if (word->text[0] != '\0' && !(line->starter && i == 0)) {
			LK_TRY(lk_launch_note(line->r, word->text, "a word that belongs to no flag"));
		}
	}
	return LK_OK;
}
