/* network_name.c: the network that a file names, by itself or by its place. */
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/reading/reading.h"
#include "model/read/read.h"

enum {
	FOLDERS = 2, /* above a file, whose names may hold the network's */
	WORDS = 16   /* of a name */
};

/* "/path/to/checkpoint", "<model>", "Follow instructions in ...": text that someone is to replace.
 */
static bool network_is_place(const char *name) {
	return *name == '/' || strpbrk(name, " <>$") != NULL || strstr(name, "path/to") != NULL;
}

/* The longest run of words of "grpo-deepseek-v3-32n4g" that names a preset, without words that say
 * nothing of it: "sft-" of "sft-qwen3-8b". False: none does. */
static bool network_in_name(const char *text, size_t length, char *out, size_t size) {
	size_t begin[WORDS], end[WORDS], count = 0;
	char name[sizeof((lk_model *)0)->name] = "";
	for (size_t at = 0; at < length && count < WORDS; at++) {
		begin[count] = at;
		while (at < length && strchr("-_.", text[at]) == NULL) at++;
		end[count++] = at;
	}
	size_t low = 0, high = count;
	for (size_t words = count; words > 0; words--)
		for (size_t first = low; first + words <= high; first++) {
			char one[64];
			lk_model model;
			size_t used = end[first + words - 1] - begin[first];
			if (used + 1 > size || used + 1 > sizeof one) continue;
			memcpy(one, text + begin[first], used);
			one[used] = '\0';
			bool sized = strpbrk(one, "0123456789") != NULL;
			if (!sized || lk_model_preset(one, &model, NULL) != LK_OK) continue;
			if (*name && strcmp(name, model.name) != 0) continue;
			lk_copy(name, sizeof name, model.name);
			lk_copy(out, size, one);
			low = first, high = first + words; /* less of it may say the same */
			break;
		}
	return *name != '\0';
}

lk_status lk_launch_network_of_file(lk_reading *reading, const char *flag, const char *name,
                                    const char *file) {
	char found[64];
	lk_model model;
	bool known = false;
	if (!network_is_place(name) || lk_model_preset(name, &model, NULL) == LK_OK)
		return lk_launch_network(reading, flag, name);
	const char *dot = strrchr(file, '.'), *end = dot != NULL ? dot : file + strlen(file);
	for (int above = 0; above <= FOLDERS && !known && end > file; above++) {
		const char *begin = end;
		while (begin > file && begin[-1] != '/') begin--;
		known = network_in_name(begin, (size_t)(end - begin), found, sizeof found);
		end = begin > file ? begin - 1 : file;
	}
	if (!known) return lk_launch_network(reading, flag, name);
	LK_TRY(lk_launch_assume(reading,
	                        "the network is %s, by the name of the file: %s names none "
	                        "(--model)",
	                        found, flag));
	return lk_launch_network(reading, flag, found);
}
