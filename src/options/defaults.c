/* defaults.c: lockstep.toml, the defaults of a project or a person: options that apply unless the
 * command line overrides them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "io/document.h"
#include "lockstep/options.h"
#include "options/defaults.h"

/* A key sets the option of its name for the verbs in `verbs`, unless an option in `but` is given. A
 * key with `stated` is ignored for a job that a file, a script or a launch line describes, because
 * that may state the same. */
static const struct key {
	const char *name, *word, *verbs, *but;
	bool stated;
	const char *help, *example;
} keys[] = {
	{"gpu", "--gpu", "predict plan shard collective compile", "cluster", true,
     "a name of `lockstep devices`; not with --cluster or where a job's file or launch line is "
     "given",
     "h100-sxm"},
	{"stack", "--stack", "predict plan", "", true,
     "the training framework; not where a job's file or launch line is given", "megatron"},
	{"calibration", "--calibration", "predict plan whatif collective compile shard rent jobs", "",
     false, "numbers that `lockstep calibrate` wrote, on top of the built-in ones",
     "calibration.csv"},
	{"prices", "--prices", "rent machines", "catalog", false,
     "a price list with the columns of data/instances.csv; not with --catalog", "prices.csv"},
	{"currency", "", "", "", false, "of prices: USD, the only one", "USD"},
};
enum {
	KEYS = sizeof keys / sizeof *keys,
	BYTES = 65536 /* of a file */
};

/* A value and the file that states it; NULL: no file does. */
struct stated {
	const char *text, *file;
	bool used; /* by the command line that was parsed last */
};

struct lk_defaults {
	lk_arena arena;
	struct stated values[KEYS];
};

void lk_defaults_find(lk_defaults_places *places) {
	static const char name[] = "lockstep.toml";
	const char *home = getenv("HOME");
	bool fits = home && *home &&
	            snprintf(places->home, sizeof places->home, "%s/%s", home, name) < PATH_MAX;
	places->at[0] = name;
	places->at[1] = places->home;
	places->count = fits ? 2 : 1;
}

static lk_status defaults_unknown(const char *path, const char *name, const lk_value *value,
                                  lk_error *err) {
	const char *names[KEYS];
	char where[512], shown[80];
	for (int i = 0; i < KEYS; i++) names[i] = keys[i].name;
	snprintf(where, sizeof where, "%s:%d", path, value->line);
	lk_fail(err, LK_ERR_INPUT, where, "unknown key \"%s\"", lk_escape(name, shown, sizeof shown));
	const char *near = lk_nearest(name, names, KEYS);
	return near ? lk_hint(err, "did you mean %s?", near)
	            : lk_hint(err, "the keys are gpu, stack, calibration, prices and currency");
}

static lk_status defaults_wrong(const char *path, const struct key *key, const lk_value *value,
                                lk_error *err) {
	char where[512];
	snprintf(where, sizeof where, "%s:%d", path, value->line);
	if (value->kind != LK_JSON_STRING || !*value->text) {
		lk_fail(err, LK_ERR_INPUT, where, "%s is not a text", key->name);
		return lk_hint(err, "write it in quotes, as in %s = \"%s\"", key->name, key->example);
	}
	lk_fail(err, LK_ERR_INPUT, where, "prices are in US dollars, and no rate is known here");
	return lk_hint(err, "leave currency out, or give prices in USD");
}

/* Resolves a path relative to the file that contains it. */
static const char *defaults_from(lk_arena *arena, const char *path, const struct key *key,
                                 const char *text) {
	const char *slash = strrchr(path, '/');
	bool file = strcmp(key->name, "calibration") == 0 || strcmp(key->name, "prices") == 0;
	if (!file || *text == '/' || !slash) return lk_arena_strdup(arena, text);
	return lk_arena_printf(arena, "%.*s/%s", (int)(slash - path), path, text);
}

static lk_status defaults_take(lk_defaults *defaults, const char *path, const char *name,
                               const lk_value *value, lk_error *err) {
	int at = 0;
	while (at < KEYS && strcmp(keys[at].name, name) != 0) at++;
	if (at == KEYS) return defaults_unknown(path, name, value, err);
	bool dollars =
		strcmp(name, "currency") != 0 || strcmp(value->text ? value->text : "", "USD") == 0;
	if (value->kind != LK_JSON_STRING || !*value->text || !dollars)
		return defaults_wrong(path, &keys[at], value, err);
	if (defaults->values[at].text) return LK_OK; /* an earlier file takes precedence */
	defaults->values[at].text = defaults_from(&defaults->arena, path, &keys[at], value->text);
	defaults->values[at].file = lk_arena_strdup(&defaults->arena, path);
	return defaults->values[at].text && defaults->values[at].file ? LK_OK : lk_oom(err);
}

static lk_status defaults_read(lk_defaults *defaults, const char *path, lk_error *err) {
	struct stat info;
	lk_stream *in;
	lk_value *top;
	size_t size = 0, got = 1;
	if (stat(path, &info) != 0) {
		if (errno == ENOENT || errno == ENOTDIR || errno == EACCES) return LK_OK;
		return lk_fail(err, LK_ERR_IO, path, "cannot be looked at: %s", strerror(errno));
	}
	if (!S_ISREG(info.st_mode)) return LK_OK;
	char *text = lk_arena_alloc(&defaults->arena, BYTES);
	if (!text) return lk_oom(err);
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = LK_OK;
	while (status == LK_OK && got > 0 && size < BYTES) {
		status = lk_stream_read(in, text + size, BYTES - size, &got, err);
		if (status == LK_OK) size += got;
	}
	lk_stream_close(in);
	LK_TRY(status);
	if (size == BYTES) return lk_fail(err, LK_ERR_INPUT, path, "more than 64 KiB");
	LK_TRY(lk_toml_document(&defaults->arena, text, size, path, &top, err));
	for (size_t i = 0; i < top->count; i++)
		LK_TRY(defaults_take(defaults, path, top->keys[i], &top->items[i], err));
	return LK_OK;
}

lk_status lk_defaults_open(const char *const *paths, int count, lk_defaults **out, lk_error *err) {
	lk_defaults *defaults = *out = calloc(1, sizeof *defaults);
	if (!defaults) return lk_oom(err);
	lk_status status = LK_OK;
	for (int i = 0; i < count && status == LK_OK; i++)
		status = defaults_read(defaults, paths[i], err);
	if (status != LK_OK) {
		lk_defaults_free(defaults);
		*out = NULL;
	}
	return status;
}

void lk_defaults_free(lk_defaults *defaults) {
	if (!defaults) return;
	lk_arena_free(&defaults->arena);
	free(defaults);
}

/* ---- for a command line ---- */

static bool defaults_any_given(const lk_args *args, const char *names) {
	for (const lk_option *option = args->verb->options; option->name; option++)
		if (lk_name_among(names, option->name) && lk_args_given(args, option->name)) return true;
	return false;
}

/* Whether the default applies. `compile` simulates only with tune; a log of a collective names its
 * GPUs. */
static bool defaults_act(const lk_args *args, const struct key *key) {
	const char *verb = args->verb->name;
	bool described = args->operand_count > 0 || args->rest_count > 0 ||
	                 defaults_any_given(args, "config script deepspeed-config");
	if (!lk_name_among(key->verbs, verb) || args->help) return false;
	if (lk_args_given(args, key->name) || defaults_any_given(args, key->but)) return false;
	if (strcmp(verb, "compile") == 0)
		return args->operand_count > 0 && strcmp(args->operands[0], "tune") == 0;
	if (strcmp(verb, "shard") == 0) return true; /* its operand is a list of tables */
	return !(key->stated && described);
}

lk_status lk_args_parse_defaults(const lk_verb *verb, int argc, const char *const *argv,
                                 lk_defaults *defaults, lk_args *out, lk_error *err) {
	LK_TRY(lk_args_parse(verb, argc, argv, out, err));
	const char **words = LK_ARRAY(&defaults->arena, const char *, (size_t)argc + 2 * KEYS);
	int count = 0;
	for (int i = 0; words && i < KEYS; i++) {
		struct stated *value = &defaults->values[i];
		value->used = value->text && defaults_act(out, &keys[i]);
		if (!value->used) continue;
		words[count++] = keys[i].word;
		words[count++] = value->text;
	}
	if (words && !count) return LK_OK;
	lk_args_free(out);
	if (!words) return lk_oom(err);
	for (int i = 0; i < argc; i++) words[count++] = argv[i];
	LK_ASSERT(count <= argc + 2 * KEYS);
	return lk_args_parse(verb, count, words, out, err);
}

bool lk_defaults_used(const lk_defaults *defaults, int index, const char **name, const char **text,
                      const char **file) {
	for (int i = 0; i < KEYS; i++) {
		const struct stated *value = &defaults->values[i];
		if (!value->used || index-- > 0) continue;
		*name = keys[i].name;
		*text = value->text;
		*file = value->file;
		return true;
	}
	return false;
}

const char *lk_defaults_value(const lk_defaults *defaults, const char *key, const char **file) {
	for (int i = 0; i < KEYS; i++)
		if (strcmp(keys[i].name, key) == 0 && defaults->values[i].text) {
			*file = defaults->values[i].file;
			return defaults->values[i].text;
		}
	return NULL;
}

/* ---- init ---- */

static void defaults_put_quoted(const char *text, FILE *out) {
	putc('"', out);
	for (; *text; text++) {
		if ((unsigned char)*text < ' ') fprintf(out, "\\u%04x", (unsigned)*text);
		else fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
	}
	fputs("\"\n", out);
}

void lk_defaults_write(const lk_init_request *request, FILE *out) {
	const char *const values[KEYS] = {request->gpu, request->stack, request->calibration,
	                                  request->prices, NULL};
	fputs(
		"# Defaults of lockstep in this folder, before those of lockstep.toml in the home folder.\n"
		"# What the command line says overrides them; --no-config leaves them out.\n",
		out);
	for (int i = 0; i < KEYS; i++) {
		fprintf(out, "\n# %s\n%s%s = ", keys[i].help, values[i] ? "" : "#", keys[i].name);
		defaults_put_quoted(values[i] ? values[i] : keys[i].example, out);
	}
}
