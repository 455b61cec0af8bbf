/* pack_families.c: the rows of data/families: keys of configs, families of networks with their
 * start values, encoders of images, what joins these to a language model, and members that shape no
 * network. Sets of start values and lists of keys that are not named are refused here; members of
 * structs, types of values, parts of keys and rules by the compiler. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tools/pack_tables.h"

enum { MEMBERS = 96, NESTING = 8, LIST_BYTES = 8192 };

/* ---- start values ---- */

/* Members with their values, in the order in which they are first named. */
struct start {
	struct {
		char name[PACK_NAME], value[2 * PACK_NAME];
	} at[MEMBERS];
	int count;
};

static void start_set(const struct pack_file *file, struct start *start, const char *word) {
	size_t length = strcspn(word, "=");
	const char *value = word[length] ? word + length + 1 : "true";
	int i = 0;
	while (i < start->count &&
	       (strncmp(start->at[i].name, word, length) != 0 || start->at[i].name[length] != '\0'))
		i++;
	if (i == MEMBERS || length >= PACK_NAME || strlen(value) >= sizeof start->at[i].value)
		pack_refuse(file, "start: more members, or longer ones, than there is room for: %s", word);
	if (i == start->count) start->count++;
	snprintf(start->at[i].name, PACK_NAME, "%.*s", (int)length, word);
	lk_copy(start->at[i].value, sizeof start->at[i].value, value);
}

/* Read "@set member member=value"; what is named later counts. */
static void start_read(const struct pack_file *file, struct start *start, const char *text,
                       int depth) {
	if (depth > NESTING) pack_refuse(file, "start: sets name one another in a circle");
	while (*text) {
		char word[4 * PACK_NAME];
		size_t length = strcspn(text, " ");
		if (length >= sizeof word) pack_refuse(file, "start: \"%s\" is too long", text);
		snprintf(word, sizeof word, "%.*s", (int)length, text);
		if (*word == '@') start_read(file, start, pack_text_of(file, "starts", word), depth + 1);
		else if (*word) start_set(file, start, word);
		text += length + (text[length] == ' ');
	}
}

/* Write a name as an enumerator: LK_NORM_RMS. */
static void put_enumerator(const char *prefix, const char *name, size_t length) {
	printf("%s", prefix);
	for (size_t i = 0; i < length; i++) putchar(toupper((unsigned char)name[i]));
}

/* Write a member, whose index may be the name of a block of diffusion transformers. */
static void put_member(const char *name) {
	size_t head = strcspn(name, "["), index = strcspn(name + head, "]");
	printf("%.*s", (int)head, name);
	if (name[head] == '[') {
		putchar('[');
		put_enumerator("LK_DIT_", name + head + 1, index - 1);
		printf("%s", name + head + index);
	}
}

static void put_value(const struct pack_file *file, const char *member, const char *value) {
	static const struct {
		const char *member, *prefix;
	} named[] = {{"network", "LK_NET_"}, {"norm", "LK_NORM_"}, {"activation", "LK_ACT_"}};
	if (strchr(value, ':')) {
		putchar('{');
		for (; *value; value++) printf("%s", (char[]){*value == ':' ? ',' : *value, '\0'});
		putchar('}');
		return;
	}
	if (!islower((unsigned char)*value) || strcmp(value, "true") == 0 ||
	    strcmp(value, "false") == 0) {
		printf("%s", value);
		return;
	}
	for (size_t i = 0; i < sizeof named / sizeof *named; i++)
		if (strcmp(member, named[i].member) == 0) {
			put_enumerator(named[i].prefix, value, strlen(value));
			return;
		}
	pack_refuse(file, "start: %s=%s is no number", member, value);
}

static void put_values(const struct pack_file *file, const struct start *start) {
	putchar('{');
	for (int i = 0; i < start->count; i++) {
		printf(".");
		put_member(start->at[i].name);
		printf(" = ");
		put_value(file, start->at[i].name, start->at[i].value);
		printf(", ");
	}
	putchar('}');
}

/* Start values of all families; families with equal ones share a row. */
static struct pack_list starts;

static struct start row_start(const struct pack_file *file) {
	struct start start = {0};
	start_read(file, &start, pack_cell(file, "start"), 0);
	return start;
}

/* The values as a text to compare. */
static void start_text(const struct start *start, char out[LIST_BYTES]) {
	lk_text text = lk_text_begin(out, LIST_BYTES);
	for (int i = 0; i < start->count; i++)
		lk_text_add(&text, "%s=%s ", start->at[i].name, start->at[i].value);
}

static void put_start(const struct pack_file *file) {
	char text[LIST_BYTES], index[16];
	struct start start = row_start(file);
	start_text(&start, text);
	if (pack_find(&starts, text)) return;
	snprintf(index, sizeof index, "%zu", starts.rows.count);
	pack_add(&starts, text, index);
	putchar('\t');
	put_values(file, &start);
	printf(",\n");
}

/* ---- keys ---- */

static void put_key(const struct pack_file *file) {
	static const char *const names[] = {"", "refused", "null_is_0", NULL};
	int absent = pack_one_of(file, "absent", names);
	printf("\t{");
	pack_put_text(pack_cell(file, "names"));
	printf(", LK_HF_KIND(");
	put_member(pack_cell(file, "member"));
	printf("), LK_HF_FIELD(");
	put_member(pack_cell(file, "member"));
	printf("), %s, %s},\n", absent == 1 ? "true" : "false", absent == 2 ? "true" : "false");
}

static void list_read(const struct pack_file *file, lk_text *out, const char *text, int depth) {
	if (depth > NESTING) pack_refuse(file, "lists name one another in a circle");
	while (*text) {
		char name[2 * PACK_NAME];
		size_t length = strcspn(text, "|");
		snprintf(name, sizeof name, "%.*s", (int)length, text);
		if (length == 0 || length >= sizeof name || strchr(name, ' '))
			pack_refuse(file, "keys are separated by |: \"%s\"", text);
		if (*name == '@') list_read(file, out, pack_text_of(file, "lists", name), depth + 1);
		else lk_text_add(out, "%s%s", out->used ? "|" : "", name);
		text += length + (text[length] == '|');
	}
}

/* "a|b|@list" as one text. */
static void put_list(const struct pack_file *file, const char *column, bool needed) {
	char keys[LIST_BYTES] = "";
	lk_text text = lk_text_begin(keys, sizeof keys);
	list_read(file, &text, pack_cell(file, column), 0);
	if (lk_text_full(&text)) pack_refuse(file, "%s: the list is too long", column);
	if (needed) pack_put_quoted(keys, strlen(keys));
	else pack_put_text(keys);
}

/* The tables of keys that a row names, "a|b"; none is read if it names none. */
static void put_keys_of(const struct pack_file *file) {
	const char *parts = pack_cell(file, "keys");
	printf("(const lk_hf_key *const[]){");
	while (*parts) {
		size_t length = strcspn(parts, "|");
		printf("lk_hf_keys_%.*s, ", (int)length, parts);
		parts += length + (parts[length] == '|');
	}
	printf("NULL}");
}

/* ---- families, encoders, joints ---- */

static void put_family(const struct pack_file *file) {
	char text[LIST_BYTES];
	struct start start = row_start(file);
	start_text(&start, text);
	printf("\t{");
	pack_put_text(pack_cell(file, "type"));
	printf(", ");
	put_keys_of(file);
	printf(", &lk_hf_starts_of_families[%s], lk_hf_finish_%s, ", pack_find(&starts, text),
	       pack_cell(file, "rule"));
	put_list(file, "passes", false);
	printf("},\n");
}

static void put_encoder(const struct pack_file *file) {
	struct start start = row_start(file);
	printf("\t{");
	put_list(file, "types", true);
	printf(", ");
	put_keys_of(file);
	printf(", ");
	put_list(file, "known", true);
	printf(", ");
	put_values(file, &start);
	printf("},\n");
}

static void put_joint(const struct pack_file *file) {
	printf("\t{");
	pack_put_text(pack_cell(file, "joint"));
	printf(", ");
	pack_put_text(pack_cell(file, "text"));
	printf(", ");
	pack_put_text(pack_cell(file, "encoder"));
	printf(", lk_hf_join_%s, ", pack_cell(file, "rule"));
	put_list(file, "known", true);
	printf("},\n");
}

static void put_harmless(const struct pack_file *file) {
	if (!*pack_cell(file, "about")) pack_refuse(file, "about: it is missing");
	printf("\t{");
	pack_put_text(pack_cell(file, "pattern"));
	printf(", ");
	pack_put_text(pack_cell(file, "value"));
	printf("},\n");
}

static const char *const named[] = {"starts", "lists", NULL};
static const struct pack_form forms[] = {
	{"names", "lk_hf_key", "lk_hf_", "", "{NULL, LK_HF_INT, 0, false, false}", put_key, PACK_ONCE},
	{"type", "lk_model", "lk_hf_starts_of_", "", NULL, put_start, PACK_ONCE},
	{"type", "lk_hf_family", "lk_hf_", "", "{NULL, NULL, NULL, NULL, NULL}", put_family, PACK_ONCE},
	{"types", "lk_hf_encoder", "lk_hf_", "", "{NULL, NULL, NULL, {0}}", put_encoder, PACK_ONCE},
	{"joint", "lk_hf_joint", "lk_hf_", "", "{NULL, NULL, NULL, NULL, NULL}", put_joint, PACK_ONCE},
	{"pattern", "lk_hf_harmless_key", "lk_hf_", "", "{NULL, NULL}", put_harmless, PACK_SEVERAL},
	{NULL, NULL, NULL, NULL, NULL, NULL, PACK_ONCE},
};
const struct pack_set pack_families = {"families", "#include \"model/read/hf.h\"", named, forms};
