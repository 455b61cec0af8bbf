/* presets.c: networks by name. A preset is a small HuggingFace config in the built-in data,
 * data/models/NAME.json, with its source in it; a run reads only the requested one. "_beside" is
 * the number of parameters of the published network, such as an image encoder, that the config
 * leaves out. */
#include <ctype.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/arena.h"
#include "base/text.h"
#include "io/csv.h"
#include "io/embedded.h"
#include "lockstep/catalogue.h"
#include "model/read/read.h"

enum { NAME = 64 };

static const char folder[] = "models/", suffix[] = ".json";

/* "models/NAME.json" -> NAME; false for other files. */
static bool preset_name(const char *file, char *out) {
	size_t length = strlen(file), head = sizeof folder - 1, tail = sizeof suffix - 1;
	if (length <= head + tail || length - head - tail >= NAME) return false;
	if (strncmp(file, folder, head) != 0 || strcmp(file + length - tail, suffix) != 0) return false;
	memcpy(out, file + head, length - head - tail);
	out[length - head - tail] = '\0';
	return true;
}

/* The data file of the next preset from *index on, or NULL; *index moves after it. */
static const char *next_preset(int *index, char *name, size_t *size) {
	LK_ASSERT(*index >= 0);
	const char *file, *bytes;
	while ((bytes = lk_data_file_at((*index)++, &file, size)) != NULL)
		if (preset_name(file, name)) return bytes;
	return NULL;
}

static lk_status presets_tree(lk_arena *arena, const char *file, const char *bytes, size_t size,
                              lk_value **out, lk_error *err) {
	lk_stream *in = NULL;
	LK_TRY(lk_stream_memory(bytes, size, file, &in, err));
	lk_status status = lk_json_document(arena, in, out, err);
	lk_stream_close(in);
	return status;
}

static lk_status presets_parse(const char *name, const char *bytes, size_t size, lk_model *out,
                               lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_value *tree = NULL;
	char file[NAME + sizeof folder + sizeof suffix];
	snprintf(file, sizeof file, "%s%s%s", folder, name, suffix);
	lk_status status = presets_tree(&arena, file, bytes, size, &tree, err);
	if (status == LK_OK) status = lk_model_from_hf(tree, file, NULL, out, NULL, err);
	if (status == LK_OK) {
		const lk_value *beside = lk_json_get(tree, "_beside");
		if (beside) out->beside = beside->number;
		lk_copy(out->name, sizeof out->name, name);
	}
	lk_arena_free(&arena);
	return status;
}

/* Normalise a name for comparison: lower case, without '-', '_' and blanks, except that one between
 * two digits becomes '-'. So "Llama-2-7b" is "llama2-7b", but "opt-1.3b" is not "opt-13b". */
static void canonical(const char *name, char *out, size_t size) {
	LK_ASSERT(size > 0);
	size_t used = 0;
	for (size_t i = 0; name[i] && used + 1 < size; i++) {
		bool blank = strchr("-_ ", name[i]) != NULL;
		if (!blank) out[used++] = (char)tolower((unsigned char)name[i]);
		else if (i > 0 && isdigit((unsigned char)name[i - 1]) &&
		         isdigit((unsigned char)name[i + 1]))
			out[used++] = '-';
	}
	out[used] = '\0';
}

/* Matching presets: the last one's name and bytes, and as many names as fit on a line. */
struct found {
	char name[NAME];
	char names[160];
	const char *bytes;
	size_t size;
	int count, unnamed;
};

static void found_name(struct found *out, const char *name) {
	size_t used = strlen(out->names);
	if (out->unnamed || used + strlen(name) + 3 > sizeof out->names) out->unnamed++;
	else snprintf(out->names + used, sizeof out->names - used, "%s%s", used ? ", " : "", name);
}

/* "a, b, c and 4 more". */
static lk_status hint_of_names(const struct found *match, lk_error *err) {
	if (match->count == 1) return lk_hint(err, "did you mean %s?", match->names);
	if (!match->unnamed) return lk_hint(err, "choose one: %s", match->names);
	return lk_hint(err, "choose one: %s and %d more (see `lockstep models`)", match->names,
	               match->unnamed);
}

/* The place of a text among a preset's repository ids ("_ids", near its beginning); NULL: not
 * there. */
static const char *presets_states(const char *bytes, size_t size, const char *text) {
	enum { HEAD = 400 };
	static const char key[] = "\"_ids\": [";
	const char *ids = memmem(bytes, size < HEAD ? size : HEAD, key, sizeof key - 1),
			   *end = ids ? strchr(ids, ']') : NULL, *found = end ? strcasestr(ids, text) : NULL;
	return found && found < end ? found : NULL;
}

/* The preset that states this repository id; else one with the same name and another owner, as in
 * copies of a repository. */
static bool presets_by_id(const char *id, char *name, const char **bytes, size_t *size) {
	char text[NAME + 4], mirror[NAME];
	const char *owner = strchr(id, '/'), *found, *copy = NULL;
	size_t before = owner ? (size_t)(owner - id) : 0, copied = 0;
	if (!owner || strchr(id, '"') || strlen(owner) + 3 > sizeof text) return false;
	snprintf(text, sizeof text, "%s\"", owner);
	for (int i = 0; (*bytes = next_preset(&i, name, size)) != NULL;) {
		found = presets_states(*bytes, *size, text);
		if (!found) continue;
		if ((size_t)(found - *bytes) > before && found[-(ptrdiff_t)before - 1] == '"' &&
		    strncasecmp(found - before, id, before) == 0)
			return true;
		if (copy) continue;
		copy = *bytes;
		copied = *size;
		lk_copy(mirror, sizeof mirror, name);
	}
	if (!copy) return false;
	*bytes = copy;
	*size = copied;
	lk_copy(name, NAME, mirror);
	return true;
}

static void found_add(struct found *out, const char *name, const char *bytes, size_t size) {
	found_name(out, name);
	lk_copy(out->name, sizeof out->name, name);
	out->bytes = bytes;
	out->size = size;
	out->count++;
}

/* Presets of this name in any spelling; `begins`: presets whose names begin with it. */
static void presets_find(const char *text, bool begins, struct found *out) {
	char name[NAME], plain[NAME], wanted[NAME];
	size_t size;
	const char *bytes;
	canonical(text, wanted, sizeof wanted);
	size_t length = strlen(wanted);
	for (int i = 0; (bytes = next_preset(&i, name, &size)) != NULL;) {
		if (tolower((unsigned char)*name) != *wanted) continue;
		canonical(name, plain, sizeof plain);
		if (strncmp(plain, wanted, length) == 0 && (begins || !plain[length]))
			found_add(out, name, bytes, size);
	}
}

/* Drop an ending of published names that does not change the shape. */
static bool drop_ending(char *name) {
	static const char *const endings[] = {
		"-instruct", "-chat",      "-base",  "-hf",         "-it",          "-pt",      "-bf16",
		"-fp8",      "-v0.1",      "-awq",   "-gptq",       "-thinking",    "-uncased", "-nvfp4",
		"-nf4",      "-bnb",       "-4bit",  "-linearized", "-dequantized", "-8bit",    "-int4",
		"-int8",     "-reasoning", "-mxfp4", "-deduped",    "-v0",
	};
	size_t length = strlen(name);
	const char *dash = strrchr(name, '-');
	if (dash && strlen(dash) == 5 && strspn(dash + 1, "0123456789") == 4) { /* a date: "-2507" */
		name[dash - name] = '\0';
		return true;
	}
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
		size_t tail = strlen(endings[i]);
		if (length <= tail || strcasecmp(name + length - tail, endings[i]) != 0) continue;
		name[length - tail] = '\0';
		return true;
	}
	return false;
}

/* The first text after `mark` that ends with one of `ends`, as an id; false if not found. */
static bool presets_cut_id(const char *bytes, const char *mark, const char *ends, char *out,
                           size_t size) {
	const char *at = strstr(bytes, mark);
	if (!at) return false;
	at += strlen(mark);
	size_t length = strcspn(at, ends);
	if (length == 0 || length >= size) return false;
	snprintf(out, size, "%.*s", (int)length, at);
	return lk_id_form(out);
}

bool lk_model_hub_id(const char *preset, char out[LK_MODEL_ID]) {
	char name[NAME];
	size_t size;
	const char *bytes;
	for (int i = 0; (bytes = next_preset(&i, name, &size)) != NULL;) {
		if (strcmp(name, preset) != 0) continue;
		return presets_cut_id(bytes, "\"huggingface.co/", ",\"", out, LK_MODEL_ID) ||
		       presets_cut_id(bytes, "\"_ids\": [\"", "\"", out, LK_MODEL_ID);
	}
	return false;
}

/* ---- training number formats: "_trained" of a preset, options and source ---- */

static bool presets_same_shape(const lk_model *a, const lk_model *b) {
	return a->layers == b->layers && a->hidden == b->hidden && a->vocab == b->vocab &&
	       a->experts == b->experts && lk_model_params(a) == lk_model_params(b);
}

/* Whether a preset's file already states other sizes: reading all of it would take a quarter of a
 * prediction. */
static bool presets_other_size(const lk_value *tree, const lk_model *model) {
	const lk_value *hidden = lk_json_get(tree, "hidden_size"),
				   *vocab = lk_json_get(tree, "vocab_size");
	return (hidden && hidden->number != model->hidden) || (vocab && vocab->number != model->vocab);
}

lk_status lk_model_trained(lk_arena *arena, const lk_model *model, lk_trained *out, lk_error *err) {
	static const char key[] = "\"_trained\"";
	char name[NAME];
	const char *bytes;
	size_t size;
	*out = (lk_trained){NULL, NULL};
	for (int i = 0; (bytes = next_preset(&i, name, &size)) != NULL;) {
		lk_value *tree = NULL;
		lk_model preset;
		if (!memmem(bytes, size, key, sizeof key - 1)) continue;
		LK_TRY(presets_tree(arena, name, bytes, size, &tree, err));
		if (presets_other_size(tree, model)) continue;
		LK_TRY(lk_model_from_hf(tree, name, NULL, &preset, NULL, err));
		if (!presets_same_shape(&preset, model)) continue;
		const lk_value *trained = lk_json_get(tree, "_trained");
		const lk_value *options = lk_json_get(trained, "options"),
					   *source = lk_json_get(trained, "source");
		if (!options || !source) continue;
		out->options = options->text;
		out->source = source->text;
		return LK_OK;
	}
	return LK_OK;
}

/* ---- networks known only by name ----
 *
 * data/model_names.csv: those whose language model is a preset, and those that are refused. */

struct name_row {
	const char *wanted; /* canonical, without the owner */
	size_t length;      /* of the longest prefix so far */
	char preset[NAME];  /* "": refused */
	char reason[120];
};

static lk_status presets_name_row(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct name_row *row = context;
	char prefix[NAME];
	(void)err;
	canonical(lk_csv_field(csv, at[0]), prefix, sizeof prefix);
	size_t length = strlen(prefix);
	bool whole = length > 0 && prefix[length - 1] == '$';
	length -= whole;
	if (length <= row->length || strncmp(row->wanted, prefix, length) != 0) return LK_OK;
	if (whole && row->wanted[length]) return LK_OK;
	row->length = length;
	lk_copy(row->preset, sizeof row->preset, lk_csv_field(csv, at[1]));
	lk_copy(row->reason, sizeof row->reason, lk_csv_field(csv, at[2]));
	return LK_OK;
}

/* Find the row that is the longest prefix of the name; length 0 if none. */
static lk_status presets_named(const char *name, struct name_row *row, lk_error *err) {
	static const char *const columns[] = {"prefix", "preset", "reason"};
	static const lk_csv_table table = {.columns = columns,
	                                   .count = 3,
	                                   .needed = 3,
	                                   .what = "list of names of networks",
	                                   .most = 4096,
	                                   .row = presets_name_row};
	char wanted[2 * NAME];
	lk_stream *in = NULL;
	canonical(lk_file_name(name), wanted, sizeof wanted);
	*row = (struct name_row){.wanted = wanted};
	LK_TRY(lk_data_open(NULL, "model_names.csv", &in, err));
	lk_status status = lk_csv_read(in, &table, row, err);
	lk_stream_close(in);
	row->wanted = NULL;
	return status;
}

static bool names_recommender(const char *wanted) {
	lk_arena arena = LK_ARENA_INIT;
	lk_dlrm model;
	bool is = lk_dlrm_preset(&arena, wanted, &model, NULL) == LK_OK;
	lk_arena_free(&arena);
	return is;
}

/* Presets with `wanted` as one of their words: "8b" is one of "llama3-8b". */
static void presets_with_word(const char *wanted, struct found *out) {
	char name[NAME];
	size_t size, length = strlen(wanted);
	for (int i = 0; length > 0 && next_preset(&i, name, &size);) {
		for (const char *word = name; word; word = strchr(word, '-')) {
			word += *word == '-';
			if (strncasecmp(word, wanted, length) != 0 || (word[length] && word[length] != '-'))
				continue;
			found_name(out, name);
			out->count++;
			break;
		}
	}
}

static lk_status presets_unknown(const char *wanted, lk_error *err) {
	enum {
		SAYS_SOMETHING = 3 /* characters of a prefix */
	};
	if (names_recommender(wanted)) {
		lk_fail(err, LK_ERR_INPUT, NULL,
		        "%.60s is a recommendation model: its tables are placed, it has no layout", wanted);
		return lk_hint(err, "see `lockstep shard --model %.60s`, and `lockstep predict`", wanted);
	}
	lk_arena arena = LK_ARENA_INIT;
	int most = lk_model_preset_count(), count = 0;
	size_t size;
	char name[NAME];
	const char **names = LK_ARRAY(&arena, const char *, (size_t)most + 1);
	const char **families = LK_ARRAY(&arena, const char *, (size_t)most + 1);
	for (int i = 0; names && families && count < most && next_preset(&i, name, &size); count++) {
		names[count] = lk_arena_strdup(&arena, name);
		families[count] = lk_arena_strndup(&arena, name, strcspn(name, "-"));
		if (!names[count] || !families[count]) break;
	}
	const char *plain = lk_file_name(wanted);
	struct found similar = {.count = 0};
	if (strlen(plain) >= SAYS_SOMETHING) presets_find(plain, true, &similar);
	if (!similar.count) presets_with_word(plain, &similar);
	const char *nearest = names ? lk_nearest(plain, names, (size_t)count) : NULL;
	const char *family = families ? lk_nearest(plain, families, (size_t)count) : NULL;
	if (!similar.count && !nearest && family &&
	    tolower((unsigned char)*family) == tolower((unsigned char)*plain))
		presets_with_word(family, &similar);
	lk_fail(err, LK_ERR_INPUT, NULL, "no model is named \"%.60s\"", wanted);
	if (similar.count) hint_of_names(&similar, err);
	else
		lk_hint(err, "%s %s, or give the path of a config.json",
		        nearest ? "did you mean" : "name one such as", nearest ? nearest : "llama3.1-70b");
	lk_arena_free(&arena);
	return LK_ERR_INPUT;
}

/* The part of a name that is the network which another was trained from: the end ("Llama-3.1-8B" of
 * "Hermes-3-Llama-3.1-8B"), or the beginning up to the size ("Llama-3-8b" of
 * "Llama-3-8b-sft-mixture"). False: no such part. */
static bool presets_base(const char *name, char base[2 * NAME]) {
	static const char *const families[] = {"llama", "mistral-", "mixtral", "qwen", "gemma", "phi"};
	const char *start = lk_file_name(name);
	for (const char *at = start; at; at = strchr(at, '-')) {
		at += *at == '-';
		for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
			if (strncasecmp(at, families[i], strlen(families[i])) != 0) continue;
			lk_copy(base, 2 * NAME, at);
			if (at > start) return true;
			for (char *dash; (dash = strrchr(base, '-')) != NULL;) {
				*dash = '\0';
				size_t length = (size_t)(dash - base);
				if (length > 1 && strchr("bB", dash[-1]) && isdigit((unsigned char)dash[-2]))
					return true;
			}
			return false;
		}
	}
	return false;
}

/* Presets that state an id whose name part equals `part`. */
static void presets_by_part(const char *part, struct found *out) {
	char text[NAME + 4], name[NAME];
	size_t size;
	const char *bytes;
	if (strchr(part, '"') || strlen(part) + 3 > sizeof text) return;
	snprintf(text, sizeof text, "/%s\"", part);
	for (int i = 0; (bytes = next_preset(&i, name, &size)) != NULL;)
		if (presets_states(bytes, size, text)) found_add(out, name, bytes, size);
}

/* Find presets by name, else by published name, else both without endings. A name that is a prefix
 * of others does not match them here. */
static void presets_search(const char *name, struct found *match) {
	char wanted[2 * NAME];
	lk_copy(wanted, sizeof wanted, lk_file_name(name));
	if (strncasecmp(wanted, "meta-", 5) == 0) memmove(wanted, wanted + 5, strlen(wanted + 5) + 1);
	*match = (struct found){.count = 0};
	do {
		presets_find(wanted, false, match);
		if (match->count == 0) presets_by_part(wanted, match);
	} while (match->count == 0 && drop_ending(wanted));
}

lk_status lk_model_preset(const char *name, lk_model *out, lk_error *err) {
	char known[NAME], page[LK_ID];
	if (lk_id_of_page(name, page, sizeof page)) name = page;
	const char *bytes;
	size_t size;
	if (presets_by_id(name, known, &bytes, &size))
		return presets_parse(known, bytes, size, out, err);
	struct found match;
	struct name_row row;
	LK_TRY(presets_named(name, &row, err));
	bool named = row.length > 0;
	if (named && !*row.preset) {
		lk_fail(err, LK_ERR_INPUT, NULL, "no preset is \"%.60s\": %s", name, row.reason);
		return lk_hint(err, "give the path of a config.json");
	}
	presets_search(named ? row.preset : name, &match);
	char base[2 * NAME];
	bool found = false;
	if (match.count == 0 && presets_base(name, base)) LK_TRY(lk_model_find(base, out, &found, err));
	if (found) return LK_OK;
	if (match.count == 0) return presets_unknown(name, err);
	if (match.count == 1) return presets_parse(match.name, match.bytes, match.size, out, err);
	lk_fail(err, LK_ERR_INPUT, NULL, "\"%.60s\" matches %d models", name, match.count);
	return hint_of_names(&match, err);
}

lk_status lk_model_find(const char *name, lk_model *out, bool *found, lk_error *err) {
	lk_error unknown = {0};
	lk_status status = lk_model_preset(name, out, &unknown);
	*found = status == LK_OK;
	return status == LK_ERR_MEMORY ? lk_oom(err) : LK_OK;
}

lk_status lk_model_taken(const char *name, char out[LK_MODEL_REASON], lk_error *err) {
	struct name_row row;
	struct found match;
	char known[NAME], base[2 * NAME], page[LK_ID];
	const char *bytes;
	size_t size;
	lk_model model;
	*out = '\0';
	if (lk_id_of_page(name, page, sizeof page)) name = page;
	if (presets_by_id(name, known, &bytes, &size)) return LK_OK;
	LK_TRY(presets_named(name, &row, err));
	if (row.length > 0) {
		if (*row.preset && *row.reason)
			snprintf(out, LK_MODEL_REASON, "the language model alone; %s", row.reason);
		return LK_OK;
	}
	presets_search(name, &match);
	if (match.count > 0 || !presets_base(name, base)) return LK_OK;
	bool found;
	LK_TRY(lk_model_find(base, &model, &found, err));
	if (found)
		snprintf(out, LK_MODEL_REASON, "by a part of its name it is taken as %s", model.name);
	return LK_OK;
}

int lk_model_preset_count(void) {
	char name[NAME];
	size_t size;
	int count = 0;
	for (int i = 0; next_preset(&i, name, &size);) count++;
	return count;
}

/* All presets, parsed at the first request by number; constant afterwards. */
static struct {
	pthread_once_t once;
	lk_model *models;
	int count;
	char (*recommenders)[LK_DLRM_NAME];
	int recommender_count;
} all = {.once = PTHREAD_ONCE_INIT};

static void parse_all(void) {
	int count = lk_model_preset_count(), used = 0;
	size_t size;
	char name[NAME];
	const char *bytes;
	all.models = calloc((size_t)count + 1, sizeof *all.models);
	if (!all.models) return;
	for (int i = 0; used < count && (bytes = next_preset(&i, name, &size)) != NULL; used++)
		if (presets_parse(name, bytes, size, &all.models[used], NULL) != LK_OK) return;
	all.count = used;
	for (int i = 0; lk_dlrm_next(&i, name);) all.recommender_count++;
	all.recommenders = calloc((size_t)all.recommender_count + 1, sizeof *all.recommenders);
	if (!all.recommenders) all.recommender_count = 0;
	for (int i = 0, at = 0; at < all.recommender_count; at++)
		lk_dlrm_next(&i, all.recommenders[at]);
}

const lk_model *lk_model_preset_at(int index) {
	pthread_once(&all.once, parse_all);
	return index >= 0 && index < all.count ? &all.models[index] : NULL;
}

const char *lk_model_recommender_at(int index) {
	pthread_once(&all.once, parse_all);
	return index >= 0 && index < all.recommender_count ? all.recommenders[index] : NULL;
}

const char *lk_model_name(int index) {
	const lk_model *model = index >= 0 ? lk_model_preset_at(index) : NULL;
	return model ? model->name : lk_model_recommender_at(index - lk_model_preset_count());
}

bool lk_model_named(const char *text) {
	lk_model model;
	char page[LK_ID];
	if (lk_id_of_page(text, page, sizeof page) || lk_model_preset(text, &model, NULL) == LK_OK)
		return true;
	lk_arena arena = LK_ARENA_INIT;
	lk_dlrm tables;
	bool named = lk_dlrm_preset(&arena, text, &tables, NULL) == LK_OK;
	lk_arena_free(&arena);
	return named;
}
