/* python_recipe.c: a recipe of Megatron-Bridge that is a file of Python. Nothing is executed: what
 * its statements give as literals is read as settings of a command line.
 *
 *     def llama3_8b_pretrain_config():              --recipe llama3_8b_pretrain_config
 *         cfg = _pretrain_common()                  that function's settings first, if it is here
 *         cfg.model.tensor_model_parallel_size = 2  model.tensor_model_parallel_size=2
 *         cfg.train.global_batch_size = 512         train.global_batch_size=512
 *     return _llama3(hf_path="...", seq_length=8192, micro_batch_size=1)
 *
 * Arguments and keys of a map, which name no section, belong to the one that has such a key. None
 * takes back what was set before. --set recipe=NAME picks one of several functions. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/frameworks/frameworks.h"

enum {
	FUNCTIONS = 512,
	SETTINGS = 256,
	NESTED = 8, /* functions that call one another */
	CALLED = 64
};

struct python_function {
	const char *name, *at, *end;
	size_t length; /* of the name */
};

struct python_recipe {
	lk_reading *reading;
	struct python_function *functions;
	int count;
	const char **paths, **values; /* settings, each path once */
	int settings, called;
	const char *hub;  /* the network's name at Hugging Face; NULL: none */
	bool hub_follows; /* on the next line */
	const char *base; /* the library's recipe that this one changes; NULL: none */
};

static bool python_is_name(char c) {
	return c == '_' || isalnum((unsigned char)c) != 0;
}

/* Functions that begin at the start of a line; each ends where the next line does that is not
 * indented. */
static void python_find(struct python_recipe *recipe, const char *text) {
	struct python_function *open = NULL;
	for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		if (*at == ' ' || *at == '\t' || *at == '\n' || *at == '#' || *at == ')') continue;
		if (open) open->end = at;
		open = NULL;
		if (strncmp(at, "def ", 4) != 0 || recipe->count == FUNCTIONS) continue;
		open = &recipe->functions[recipe->count++];
		*open = (struct python_function){.name = at + 4, .at = at, .end = at + strlen(at)};
		while (python_is_name(open->name[open->length])) open->length++;
	}
}

/* A literal as the command line has it; NULL: the text is none. "" is None. */
static const char *python_literal(lk_arena *arena, const char *at, const char *end) {
	while (at < end && (*at == ' ' || *at == '\t')) at++;
	size_t length = 0, left;
	const char *text = NULL;
	if (at < end && (*at == '"' || *at == '\'')) {
		const char *close = memchr(at + 1, *at, (size_t)(end - at - 1));
		if (close == NULL) return NULL;
		text = lk_arena_strndup(arena, at + 1, (size_t)(close - at - 1));
		length = (size_t)(close - at) + 1;
	} else {
		while (at + length < end && (python_is_name(at[length]) || at[length] == '-')) length++;
		text = lk_arena_strndup(arena, at, length);
	}
	if (text == NULL || length == 0) return NULL;
	left = strspn(at + length, " \t");
	char after = at + length + left < end ? at[length + left] : '\n';
	if (strchr("\n,)}]#", after) == NULL) return NULL; /* an expression */
	if (*at == '"' || *at == '\'') return text;
	if (strcmp(text, "None") == 0) return "";
	bool word = strcmp(text, "True") == 0 || strcmp(text, "False") == 0;
	if (!word && text[strspn(text, "-0123456789_")] != '\0') return NULL;
	char *digits = lk_arena_strdup(arena, text), *to = digits;
	for (const char *c = digits; digits != NULL && !word && *c; c++)
		if (*c != '_') *to++ = *c;
	if (digits != NULL && !word) *to = '\0';
	return digits;
}

static void python_put(struct python_recipe *recipe, const char *path, const char *value) {
	int at = 0;
	while (at < recipe->settings && strcmp(recipe->paths[at], path) != 0) at++;
	if (at == recipe->settings && (*value == '\0' || at == SETTINGS)) return;
	recipe->paths[at] = path;
	recipe->values[at] = value;
	if (at == recipe->settings) recipe->settings++;
}

/* The path of a key that names no section; NULL: none has it. */
static const char *python_section(lk_arena *arena, const char *key) {
	static const char *const sections[] = {"model.", "train.",        "dataset.",
	                                       "ddp.",   "comm_overlap.", "peft."};
	for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
		const char *path = lk_arena_printf(arena, "%s%s", sections[i], key);
		if (path != NULL && lk_dotted_states(LK_DIALECT_BRIDGE, path)) return path;
	}
	return NULL;
}

/* One statement, argument or item: cfg.model.x = 2, x=2 and "x": 2. */
static lk_status python_item(struct python_recipe *recipe, const char *at, const char *end) {
	lk_arena *arena = recipe->reading->arena;
	while (at < end && (*at == ' ' || *at == '\t')) at++;
	bool quoted = at < end && (*at == '"' || *at == '\'');
	const char *name = at + quoted, *stop = name;
	while (stop < end && (python_is_name(*stop) || *stop == '.')) stop++;
	char *key = lk_arena_strndup(arena, name, (size_t)(stop - name));
	if (key == NULL) return lk_oom(recipe->reading->err);
	const char *next = stop + (quoted && stop < end);
	while (next < end && (*next == ' ' || *next == '\t')) next++;
	if (*key == '\0' || next >= end || *next != (quoted ? ':' : '=') || next[1] == '=')
		return LK_OK;
	const char *value = python_literal(arena, next + 1, end), *other = next + 1;
	while (other < end && *other == ' ') other++;
	for (stop = other; stop < end && python_is_name(*stop);) stop++;
	if (value == NULL && !quoted && stop - other > 7 && stop < end && *stop == '(' &&
	    strncmp(stop - 7, "_config", 7) == 0 && strchr(key, '.') == NULL)
		recipe->base = lk_arena_strndup(arena, other, (size_t)(stop - other));
	if (value == NULL) return LK_OK;
	if (strcmp(key, "hf_path") == 0 && *value != '\0') recipe->hub = value;
	const char *dot = strchr(key, '.');
	const char *path = dot != NULL ? dot + 1 : python_section(arena, key);
	if (dot != NULL && strchr(path, '.') == NULL && !lk_dotted_states(LK_DIALECT_BRIDGE, path))
		return LK_OK; /* cfg.seed */
	if (path != NULL) python_put(recipe, path, value);
	return LK_OK;
}

/* from_hf_pretrained("NAME"), whose name may be on the next line. */
static void python_hub(struct python_recipe *recipe, const char *at, const char *end) {
	static const char hub[] = "from_hf_pretrained(";
	const char *call = recipe->hub_follows ? at : NULL;
	for (const char *c = at; c + sizeof hub - 1 <= end && call == NULL; c++)
		if (strncmp(c, hub, sizeof hub - 1) == 0) call = c + sizeof hub - 1;
	recipe->hub_follows = call != NULL && call >= end;
	if (call != NULL && call < end && *call == '"') {
		const char *close = memchr(call + 1, '"', (size_t)(end - call - 1));
		if (close != NULL)
			recipe->hub =
				lk_arena_strndup(recipe->reading->arena, call + 1, (size_t)(close - call - 1));
	}
}

/* A line with what it begins, and arguments and items of maps after commas and brackets. */
static lk_status python_line(struct python_recipe *recipe, const char *at, const char *end) {
	python_hub(recipe, at, end);
	LK_TRY(python_item(recipe, at, end));
	char quote = '\0';
	for (const char *c = at; c < end; c++) {
		if (quote == '\0' && *c == '#') break;
		bool mark = *c == '"' || *c == '\'', closes = mark && quote == *c;
		if (mark && quote == '\0') quote = *c;
		else if (closes) quote = '\0';
		if (quote == '\0' && strchr(",({", *c) != NULL) LK_TRY(python_item(recipe, c + 1, end));
	}
	return LK_OK;
}

/* The function that a text calls; NULL: it calls none of the file. */
static const struct python_function *python_calls(const struct python_recipe *recipe,
                                                  const char *at, const char *end) {
	for (const char *c = at; c < end; c++) {
		size_t length = 0;
		while (c + length < end && python_is_name(c[length])) length++;
		for (int i = 0; length > 0 && c + length < end && c[length] == '(' && i < recipe->count;
		     i++)
			if (recipe->functions[i].length == length &&
			    strncmp(recipe->functions[i].name, c, length) == 0)
				return &recipe->functions[i];
		c += length;
	}
	return NULL;
}

static lk_status python_read(struct python_recipe *recipe, const struct python_function *function,
                             int depth) {
	bool text = false; /* within a text of several lines */
	const char *at = function->at + strcspn(function->at, "\n");
	if (depth > NESTED || ++recipe->called > CALLED) return LK_OK;
	for (; at < function->end; at += strcspn(at, "\n")) {
		at += *at == '\n';
		const char *end = at + strcspn(at, "\n"), *first = at + strspn(at, " \t");
		if (end > function->end) end = function->end;
		int marks = 0;
		for (const char *c = first; c + 2 < end; c++)
			if (strncmp(c, "\"\"\"", 3) == 0) marks++, c += 2;
		bool inside = text;
		text ^= marks % 2 == 1;
		if (inside || marks > 0 || *first == '#') continue;
		const struct python_function *called = python_calls(recipe, first, end);
		if (called != NULL && called != function) LK_TRY(python_read(recipe, called, depth + 1));
		LK_TRY(python_line(recipe, first, end));
		if (called != NULL) recipe->base = NULL; /* it was read */
	}
	return LK_OK;
}

/* How many statements of a function set a part of a configuration. */
static int python_states(const struct python_function *function) {
	static const char *const sections[] = {".model.", ".train.", ".dataset.", "parallel_size"};
	int count = 0;
	for (const char *at = function->at; at < function->end && *at;
	     at += strcspn(at, "\n"), at += *at == '\n') {
		size_t before = strcspn(at, "=:\n");
		if (at[before] == '\n' || at[before] == '\0') continue;
		for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
			for (size_t c = 0, length = strlen(sections[i]); c + length <= before; c++)
				count += strncmp(at + c, sections[i], length) == 0;
	}
	return count;
}

/* The function that is asked for, else the first whose name is a recipe's, else the first that
 * sets something. */
static const struct python_function *python_choose(const struct python_recipe *recipe,
                                                   const char *wanted, int *among) {
	const struct python_function *best = NULL, *any = NULL;
	for (int i = 0; i < recipe->count; i++) {
		const struct python_function *function = &recipe->functions[i];
		if (wanted != NULL && strlen(wanted) == function->length &&
		    strncmp(function->name, wanted, function->length) == 0)
			return function;
		if (wanted != NULL || python_states(function) == 0) continue;
		bool public = function->name[0] != '_';
		*among += public;
		if (best == NULL && public) best = function;
		if (any == NULL) any = function;
	}
	return best != NULL ? best : any;
}

static lk_status python_word(struct python_recipe *recipe, lk_words *words, const char *text) {
	if (text == NULL || !lk_push(words)) return lk_oom(recipe->reading->err);
	*lk_last(words) = (lk_word){.text = text};
	return LK_OK;
}

lk_status lk_recipe_python(lk_reading *reading, const char *text, const lk_launch_given *given,
                           lk_words *words) {
	lk_arena *arena = reading->arena;
	struct python_recipe recipe = {.reading = reading,
	                               .functions = LK_ARRAY(arena, struct python_function, FUNCTIONS),
	                               .paths = LK_ARRAY(arena, const char *, SETTINGS),
	                               .values = LK_ARRAY(arena, const char *, SETTINGS)};
	const char *wanted = NULL, *sets = given != NULL && given->sets != NULL ? given->sets : "";
	int among = 0;
	if (!recipe.functions || !recipe.paths || !recipe.values) return lk_oom(reading->err);
	if (strncmp(sets, "recipe=", 7) == 0)
		wanted = lk_arena_strndup(arena, sets + 7, strcspn(sets + 7, "\n"));
	python_find(&recipe, text);
	const struct python_function *chosen = python_choose(&recipe, wanted, &among);
	if (chosen == NULL) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        wanted != NULL ? "no function is called %.80s"
		                       : "no function sets a configuration of Megatron-Bridge",
		        wanted != NULL ? wanted : "");
		return lk_hint(reading->err, "give a recipe's file (cfg.model.tensor_model_parallel_size = "
		                             "2), or the launch line");
	}
	const char *name = lk_arena_strndup(arena, chosen->name, chosen->length);
	if (name == NULL) return lk_oom(reading->err);
	if (among > 1)
		LK_TRY(lk_launch_assume(reading, "%.80s, the first of %d recipes (--set recipe=NAME)", name,
		                        among));
	LK_TRY(python_read(&recipe, chosen, 0));
	LK_TRY(python_word(&recipe, words, "run_recipe.py"));
	LK_TRY(python_word(&recipe, words, recipe.base != NULL ? "--recipe" : "--recipe_here"));
	LK_TRY(python_word(&recipe, words, recipe.base != NULL ? recipe.base : name));
	if (recipe.hub != NULL) {
		LK_TRY(python_word(&recipe, words, "--hf_path"));
		LK_TRY(python_word(&recipe, words, recipe.hub));
	}
	for (int i = 0; i < recipe.settings; i++)
		if (*recipe.values[i] != '\0')
			LK_TRY(python_word(&recipe, words,
			                   lk_arena_printf(arena, "%s=%s", recipe.paths[i], recipe.values[i])));
	for (const char *line = sets; *line;) {
		size_t length = strcspn(line, "\n");
		if (strncmp(line, "recipe=", 7) != 0)
			LK_TRY(python_word(&recipe, words, lk_arena_strndup(arena, line, length)));
		line += length + (line[length] == '\n');
	}
	return LK_OK;
}
