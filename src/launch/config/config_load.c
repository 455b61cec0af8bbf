/* config_load.c: a configuration file as a tree: what it inherits, what overrides it, what it
 * refers to.
 *
 *   defaults: x.yaml | [x.yaml, y.yaml]   NeMo RL; lists replace, _override_: true replaces a map
 *   base_config: x.yml                    MaxText
 *   extends: [x.yaml]                     Primus
 *   ${a.b} ${.x} ${..x}                   a setting of the file (OmegaConf, Hydra)
 *   ${oc.env:NAME,x} ${NAME:x}            a variable of the environment, x where it is not given
 *   ${mul:a,b} ${div:a,b} ${add:a,b}      arithmetic
 *
 * Variables come from --var alone: the environment of whoever predicts is not that of the cluster.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "launch/config/config.h"

enum {
	INNER_DEPTH = 8,      /* of references in references */
	ABOVE = 8,            /* folders above a file that are searched */
	REFERENCES = 1 << 12, /* of a file */
	PATH_BYTES = 512,
	PATH_PARTS = 32 /* of an override */
};

lk_status lk_config_fail(const lk_config *config, const char *key, const char *what,
                         const char *hint) {
	lk_reading *reading = config->reading;
	char shown[96];
	lk_fail(reading->err, LK_ERR_INPUT, reading->where, "%s: %s",
	        lk_escape(key, shown, sizeof shown), what);
	return lk_hint(reading->err, "%s", hint);
}

/* ---- values ---- */

static const lk_value *config_member(const lk_value *value, const char *key, size_t length) {
	if (!value || value->kind != LK_JSON_OBJECT) return NULL;
	for (size_t i = value->count; i-- > 0;)
		if (strlen(value->keys[i]) == length && strncmp(value->keys[i], key, length) == 0)
			return &value->items[i];
	return NULL;
}

static const lk_value *config_any_at(const lk_value *root, const char *path) {
	while (root && *path) {
		size_t length = strcspn(path, ".");
		root = config_member(root, path, length);
		path += length + (path[length] == '.');
	}
	return root;
}

const lk_value *lk_config_at(const lk_value *root, const char *path) {
	const lk_value *value = config_any_at(root, path);
	return value && value->kind != LK_JSON_NULL ? value : NULL;
}

const char *lk_config_text(const lk_value *value) {
	if (!value) return NULL;
	switch (value->kind) {
	case LK_JSON_TRUE: return "true";
	case LK_JSON_FALSE: return "false";
	case LK_JSON_NUMBER: return value->text;
	case LK_JSON_STRING:
		return strcasecmp(value->text, "none") == 0 || strcasecmp(value->text, "null") == 0
		           ? NULL
		           : value->text;
	default: return NULL;
	}
}

bool lk_config_on(const lk_value *root, const char *path) {
	const char *text = lk_config_text(lk_config_at(root, path));
	return text && strcasecmp(text, "true") == 0;
}

lk_value *lk_config_merge(lk_arena *arena, const lk_value *under, const lk_value *over) {
	lk_value *out = LK_NEW(arena, lk_value);
	if (!out) return NULL;
	*out = *over;
	const lk_value *whole = config_member(over, "_override_", 10);
	bool maps = under && under->kind == LK_JSON_OBJECT && over->kind == LK_JSON_OBJECT;
	if (!maps || (whole && whole->kind == LK_JSON_TRUE)) return out;
	if (under->count + over->count > 2 * (size_t)LK_DOCUMENT_KEYS) return NULL;
	lk_members members = {0};
	bool ok = true;
	for (size_t i = 0; ok && i < under->count; i++) {
		const lk_value *mine = config_member(over, under->keys[i], strlen(under->keys[i]));
		lk_value *item = mine ? lk_config_merge(arena, &under->items[i], mine) : NULL;
		ok = (item || !mine) &&
		     lk_members_add(&members, under->keys[i], item ? item : &under->items[i]);
	}
	for (size_t i = 0; ok && i < over->count; i++)
		if (!config_member(under, over->keys[i], strlen(over->keys[i])))
			ok = lk_members_add(&members, over->keys[i], &over->items[i]);
	ok = ok && lk_members_end(&members, arena, out);
	lk_members_free(&members);
	return ok ? out : NULL;
}

/* Sets a path in a tree that belongs to nobody else: what it goes through is copied. */
static bool config_put(lk_arena *arena, lk_value *root, const char *path, const lk_value *item) {
	size_t length = strcspn(path, ".");
	const char *key = lk_arena_strndup(arena, path, length);
	if (!key) return false;
	lk_value inner = {.kind = LK_JSON_OBJECT};
	const lk_value *old = config_member(root, path, length);
	if (path[length] == '.') {
		if (old && old->kind == LK_JSON_OBJECT) inner = *old;
		if (!config_put(arena, &inner, path + length + 1, item)) return false;
		item = &inner;
	}
	lk_members members = {0};
	bool ok = true, found = false;
	for (size_t i = 0; ok && root->kind == LK_JSON_OBJECT && i < root->count; i++) {
		bool same = strcmp(root->keys[i], key) == 0;
		if (same && !item) continue;
		ok = lk_members_add(&members, root->keys[i], same ? item : &root->items[i]);
		found |= same;
	}
	if (ok && !found && item) ok = lk_members_add(&members, key, item);
	root->kind = LK_JSON_OBJECT;
	ok = ok && lk_members_end(&members, arena, root);
	lk_members_free(&members);
	return ok;
}

/* ---- files ---- */

static bool config_exists(const char *path) {
	return access(path, R_OK) == 0;
}

const char *lk_config_beside(lk_arena *arena, const char *file, const char *name) {
	char folder[1024];
	if (*name == '/') return config_exists(name) ? name : NULL;
	lk_copy(folder, sizeof folder, file);
	for (int i = 0; i < ABOVE; i++) {
		char *slash = strrchr(folder, '/');
		bool last = slash == NULL;
		if (slash) *slash = '\0';
		const char *path = last ? name : lk_arena_printf(arena, "%s/%s", folder, name);
		if (path && config_exists(path)) return path;
		if (last) return NULL;
	}
	return NULL;
}

const char *lk_launch_file_named(const lk_reading *reading, const char *name,
                                 const lk_inner_file **inner) {
	*inner = NULL;
	for (const lk_inner_file *file = reading->files; file && !*inner; file = file->next)
		if (strcmp(file->name, name) == 0) *inner = file;
	return *inner ? NULL : lk_config_beside(reading->arena, reading->where, name);
}

static lk_status config_load_tree(lk_config *config, const char *path, int depth, lk_value **out);

/* What a file inherits, one name or several, comes below it. */
static lk_status config_inherit(lk_config *config, const char *path, const char *key, int depth,
                                lk_value **tree) {
	lk_arena *arena = config->reading->arena;
	const lk_value *names = lk_config_at(*tree, key);
	if (!names) return LK_OK;
	size_t count = names->kind == LK_JSON_ARRAY ? names->count : 1;
	lk_value *below = NULL;
	for (size_t i = 0; i < count; i++) {
		const char *name = lk_config_text(names->kind == LK_JSON_ARRAY ? &names->items[i] : names);
		if (!name || strcmp(name, "_self_") == 0) continue;
		const char *file = lk_config_beside(arena, path, name);
		if (!file) {
			if (strstr(name, ".y") == NULL) continue; /* Hydra's groups have no ending */
			if (strcmp(key, "base_config") == 0 && lk_ends_in(name, "base.yml"))
				continue; /* data/launch/maxtext.yaml */
			return lk_config_fail(config, key,
			                      lk_arena_printf(arena, "the file %.160s is not found", name),
			                      "give the file in the tree that it belongs to");
		}
		lk_value *one;
		LK_TRY(config_load_tree(config, file, depth + 1, &one));
		below = below ? lk_config_merge(arena, below, one) : one;
		if (!below) return lk_oom(config->reading->err);
	}
	if (!below) return LK_OK;
	*tree = lk_config_merge(arena, below, *tree);
	return *tree ? LK_OK : lk_oom(config->reading->err);
}

static lk_status config_load_tree(lk_config *config, const char *path, int depth, lk_value **out) {
	static const char *const keys[] = {"defaults", "extends", "base_config"};
	lk_reading *reading = config->reading;
	char *text;
	size_t size;
	if (depth > LK_CONFIG_DEPTH)
		return lk_config_fail(config, path, "files inherit from one another too deeply",
		                      "a file may name itself");
	const char *given = depth == 0 ? config->given.text : NULL;
	if (given) {
		size = strlen(given);
		if (!(text = strdup(given))) return lk_oom(reading->err);
	} else LK_TRY(lk_stream_slurp(path, LK_DOCUMENT_BYTES, &text, &size, reading->err));
	lk_status status = lk_document_parse(reading->arena, text, size, path, out, reading->err);
	if (depth == 0) config->text = lk_arena_strndup(reading->arena, text, size);
	free(text);
	LK_TRY(status);
	if ((*out)->kind != LK_JSON_OBJECT)
		return lk_config_fail(config, path, "the document is not a map of settings",
		                      "give a configuration of a training framework");
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		if (i == 1) LK_TRY(lk_config_fill(config, *out));
		LK_TRY(config_inherit(config, path, keys[i], depth, out));
	}
	return LK_OK;
}

lk_status lk_config_load(lk_config *config, const char *path) {
	config->file = path;
	return config_load_tree(config, path, 0, &config->root);
}

/* ---- references ---- */

/* The value of NAME in the lines "NAME=value"; NULL: it is not given. */
static const char *config_variable(const lk_config *config, const char *name, size_t length) {
	const char *found = NULL;
	int at = 0;
	for (const char *line = config->given.vars; line && *line; at++) {
		size_t size = strcspn(line, "\n");
		bool same = size > length && line[length] == '=' && strncmp(line, name, length) == 0;
		if (same && config->given.vars_read && at < 64)
			*config->given.vars_read |= UINT64_C(1) << at;
		if (same)
			found = lk_arena_strndup(config->reading->arena, line + length + 1, size - length - 1);
		line += size + (line[size] == '\n');
	}
	return found;
}

/* The end of the reference that begins at "${": after its '}', NULL where it does not end. */
static const char *config_reference_end(const char *at) {
	int depth = 0;
	for (; *at; at++) {
		if (at[0] == '$' && at[1] == '{') depth++;
		if (*at == '}' && --depth == 0) return at + 1;
	}
	return NULL;
}

static const char *config_expand(const lk_config *config, const char *text, const char *path,
                                 int depth, int *left);

/* A setting by its path; with dots in front relative to the one that refers to it. */
static const char *config_refer(const lk_config *config, const char *name, const char *path,
                                int depth, int *left) {
	char absolute[256];
	size_t up = strspn(name, ".");
	if (up == 0) lk_copy(absolute, sizeof absolute, name);
	else {
		lk_copy(absolute, sizeof absolute, path);
		for (size_t i = 0; i < up; i++) {
			char *dot = strrchr(absolute, '.');
			if (dot) *dot = '\0';
			else *absolute = '\0';
		}
		size_t used = strlen(absolute);
		snprintf(absolute + used, sizeof absolute - used, "%s%s", used ? "." : "", name + up);
	}
	const lk_value *value = config_any_at(config->root, absolute);
	if (value && value->kind == LK_JSON_NULL) return "null";
	const char *found = lk_config_text(value);
	return found ? config_expand(config, found, absolute, depth + 1, left) : NULL;
}

static const char *config_arithmetic(const lk_config *config, const char *inner, char operation) {
	char left[64], shown[32];
	const char *comma = strchr(inner, ',');
	double a, b;
	if (!comma) return NULL;
	snprintf(left, sizeof left, "%.*s", (int)(comma - inner), inner);
	if (lk_parse_real(left, -1e15, 1e15, &a, NULL, NULL) != LK_OK) return NULL;
	if (lk_parse_real(comma + 1 + strspn(comma + 1, " "), -1e15, 1e15, &b, NULL, NULL) != LK_OK)
		return NULL;
	if (operation == 'd' && b == 0) return NULL;
	double value = a + b;
	if (operation == 'm') value = a * b;
	if (operation == 'd') value = a / b;
	return lk_arena_strdup(config->reading->arena, lk_format_shortest(value, shown, sizeof shown));
}

/* What stands between "${" and "}"; NULL: nobody says. */
static const char *config_resolve(const lk_config *config, const char *inner, const char *path,
                                  int depth, int *left) {
	static const char *const environments[] = {"oc.env:", "env:"};
	static const char *const operations[] = {"mul:", "div:", "add:"};
	inner = config_expand(config, inner, path, depth + 1, left);
	if (!inner) return NULL;
	for (size_t i = 0; i < 3; i++)
		if (strncmp(inner, operations[i], 4) == 0)
			return config_arithmetic(config, inner + 4, operations[i][0]);
	for (size_t i = 0; i < 2; i++) {
		size_t length = strlen(environments[i]);
		if (strncmp(inner, environments[i], length) != 0) continue;
		const char *name = inner + length, *comma = strchr(name, ',');
		const char *given =
			config_variable(config, name, comma ? (size_t)(comma - name) : strlen(name));
		if (!given && comma) given = comma + 1 + strspn(comma + 1, " ");
		return given;
	}
	size_t name = strspn(inner, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
	if (name > 0 && (inner[name] == ':' || inner[name] == '\0')) {
		const char *given = config_variable(config, inner, name);
		if (given) return given;
		if (inner[name] == ':') return inner + name + 1 + (inner[name + 1] == '-');
	}
	return config_refer(config, inner, path, depth, left);
}

/* The text with its references filled in; what nobody says stays as it is written. NULL when memory
 * is out. */
static const char *config_expand(const lk_config *config, const char *text, const char *path,
                                 int depth, int *left) {
	lk_arena *arena = config->reading->arena;
	const char *at = strstr(text, "${");
	if (!at || depth > INNER_DEPTH || strlen(text) > 4096) return text;
	const char *out = lk_arena_strndup(arena, text, (size_t)(at - text));
	while (out && at) {
		const char *end = config_reference_end(at);
		if (!end || --*left < 0) return lk_arena_printf(arena, "%s%s", out, at);
		const char *inner = lk_arena_strndup(arena, at + 2, (size_t)(end - at) - 3);
		const char *value = inner ? config_resolve(config, inner, path, depth, left) : NULL;
		const char *next = strstr(end, "${");
		int between = (int)(next ? (size_t)(next - end) : strlen(end));
		if (value) out = lk_arena_printf(arena, "%s%s%.*s", out, value, between, end);
		else out = lk_arena_printf(arena, "%s%.*s%.*s", out, (int)(end - at), at, between, end);
		if (out && strlen(out) > 1 << 16) return text;
		at = next;
	}
	return out;
}

/* What may still be looked at, so that aliases cannot multiply it. */
struct config_budget {
	int references, values;
};

static lk_status config_fill_value(const lk_config *config, lk_value *value, const char *path,
                                   int depth, struct config_budget *budget) {
	lk_arena *arena = config->reading->arena;
	if (value->kind == LK_JSON_STRING && strstr(value->text, "${")) {
		const char *text = config_expand(config, value->text, path, 0, &budget->references);
		if (!text) return lk_oom(config->reading->err);
		if (text == value->text) return LK_OK;
		value->text = text;
		value->kind = lk_yaml_scalar(text, &value->number);
		return LK_OK;
	}
	bool map = value->kind == LK_JSON_OBJECT;
	if ((!map && value->kind != LK_JSON_ARRAY) || depth > LK_JSON_DEPTH) return LK_OK;
	/* Aliases share what they name: it is filled where it is reached. */
	lk_value *items = LK_ARRAY(arena, lk_value, value->count + 1);
	if (!items) return lk_oom(config->reading->err);
	for (size_t i = 0; i < value->count; i++) {
		items[i] = value->items[i];
		if (--budget->values < 0 || strlen(path) > PATH_BYTES)
			return lk_config_fail(config, path, "too many values", "shorten the file");
		const char *inner = path;
		if (map) inner = value->keys[i];
		if (map && *path) inner = lk_arena_printf(arena, "%s.%s", path, value->keys[i]);
		if (!inner) return lk_oom(config->reading->err);
		LK_TRY(config_fill_value(config, &items[i], inner, depth + 1, budget));
	}
	value->items = items;
	return LK_OK;
}

lk_status lk_config_fill(lk_config *config, lk_value *value) {
	struct config_budget budget = {REFERENCES, 4 * LK_CONFIG_SETTINGS};
	const lk_value *root = config->root;
	if (!root) config->root = value;
	lk_status status = config_fill_value(config, value, "", 0, &budget);
	config->root = (lk_value *)root;
	return status;
}

int lk_config_commented(const lk_config *config, const char *name) {
	const char *at = config->text ? strstr(config->text, name) : NULL;
	if (!at) return 0;
	at += strlen(name);
	at += strspn(at, " =");
	long value = strtol(at, NULL, 10);
	return isdigit((unsigned char)*at) && value > 0 && value <= 1 << 16 ? (int)value : 0;
}

/* ---- overrides, settings ---- */

/* "a.b=v", "+a.b=v", "++a.b=v", "--a.b=v"; "~a.b" takes away. */
static lk_status config_override(lk_config *config, const char *line, size_t size) {
	lk_arena *arena = config->reading->arena;
	const char *text = lk_arena_strndup(arena, line, size);
	if (!text) return lk_oom(config->reading->err);
	bool away = *text == '~';
	text += strspn(text, "+-~");
	const char *equals = strchr(text, '=');
	size_t length = equals ? (size_t)(equals - text) : strlen(text);
	int parts = 1;
	for (size_t i = 0; i < length; i++) parts += text[i] == '.';
	if (length == 0 || length > PATH_BYTES || parts > PATH_PARTS || (!equals && !away))
		return lk_config_fail(config, "--set", "it is not key=value",
		                      "write for instance --set micro_batch_size=2");
	const char *path = lk_arena_strndup(arena, text, length);
	lk_value *value = NULL;
	if (!away)
		LK_TRY(lk_yaml_document(arena, equals + 1, strlen(equals + 1), "--set", &value,
		                        config->reading->err));
	if (value && value->kind == LK_JSON_NULL) value->text = "null";
	lk_value *root = LK_NEW(arena, lk_value);
	if (!root || !path) return lk_oom(config->reading->err);
	*root = *config->root;
	/* A key that holds dots itself is that key. */
	const lk_value *whole = config_member(root, path, length);
	char dashed[256];
	lk_copy(dashed, sizeof dashed, path);
	for (char *c = dashed; *c; c++)
		if (*c == '-') *c = '_';
	if (!whole && !config_any_at(root, path) && config_any_at(root, dashed)) path = dashed;
	if (!config_put(arena, root, path, value)) return lk_oom(config->reading->err);
	config->root = root;
	return LK_OK;
}

struct config_leaves {
	lk_setting *at;
	size_t count;
};

static lk_status config_flatten(const lk_config *config, const lk_value *value, const char *path,
                                int depth, struct config_leaves *out) {
	lk_arena *arena = config->reading->arena;
	if (value->kind != LK_JSON_OBJECT || value->count == 0) {
		if (out->count == LK_CONFIG_SETTINGS)
			return lk_config_fail(config, path, "too many settings", "shorten the file");
		out->at[out->count++] = (lk_setting){path, value};
		return LK_OK;
	}
	if (strlen(path) > PATH_BYTES)
		return lk_config_fail(config, path, "the path of a setting is too long",
		                      "shorten the file");
	for (size_t i = 0; i < value->count && depth < LK_JSON_DEPTH; i++) {
		const char *key = value->keys[i];
		bool last = true; /* of equal keys the last one counts */
		for (size_t k = i + 1; k < value->count && value->count <= 1024; k++)
			last &= strcmp(key, value->keys[k]) != 0;
		if (!last) continue;
		const char *inner = *path ? lk_arena_printf(arena, "%s.%s", path, key) : key;
		if (!inner) return lk_oom(config->reading->err);
		LK_TRY(config_flatten(config, &value->items[i], inner, depth + 1, out));
	}
	return LK_OK;
}

lk_status lk_config_settle(lk_config *config) {
	lk_arena *arena = config->reading->arena;
	for (const char *line = config->given.sets; line && *line;) {
		size_t size = strcspn(line, "\n");
		if (size > 0) LK_TRY(config_override(config, line, size));
		line += size + (line[size] == '\n');
	}
	LK_TRY(lk_config_fill(config, config->root));
	struct config_leaves leaves = {.at = LK_ARRAY(arena, lk_setting, LK_CONFIG_SETTINGS)};
	if (!leaves.at) return lk_oom(config->reading->err);
	LK_TRY(config_flatten(config, config->root, "", 0, &leaves));
	LK_ASSERT(leaves.count <= LK_CONFIG_SETTINGS);
	config->settings = leaves.at;
	config->count = leaves.count;
	return LK_OK;
}
