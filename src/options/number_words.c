/* number_words.c: words NAME=NUMBER with a unit, one after another. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "options/number_words.h"

lk_status lk_number_words_refuse(const lk_word_list *list, const char *word, const char *what,
                                 lk_error *err) {
	char shown[64];
	lk_fail(err, LK_ERR_INPUT, list->option, "'%s' %s", lk_escape(word, shown, sizeof shown), what);
	return lk_hint(err, "%s", list->form);
}

static lk_status number_words_read_one(const lk_word_list *list, const char *said, void *out,
                                       uint64_t *given, lk_error *err) {
	const char *value = strchr(said, '='), *end;
	for (int i = 0; value && i < list->count; i++) {
		const lk_number_word *word = &list->words[i];
		size_t length = (size_t)(value - said);
		if (strlen(word->name) != length || strncmp(said, word->name, length) != 0) continue;
		double number = lk_read_real(value + 1, &end);
		if (end == value + 1 || strcmp(end, word->unit) != 0)
			return lk_number_words_refuse(list, said, "is not understood", err);
		if (number < word->low || number > word->high || (word->whole && number != floor(number)))
			return lk_number_words_refuse(list, said, "is outside of its limits", err);
		if (*given >> i & 1) return lk_number_words_refuse(list, said, "is a second value", err);
		*given |= UINT64_C(1) << i;
		number *= word->scale;
		memcpy((char *)out + word->offset, &number, sizeof number);
		return LK_OK;
	}
	return lk_number_words_refuse(list, said, "is not understood", err);
}

lk_status lk_number_words_read(const lk_word_list *list, const char *text, void *out,
                               const char **over, lk_error *err) {
	char word[64];
	uint64_t given = 0; /* by place in the list */
	LK_ASSERT(list->count <= 64);
	*over = NULL;
	while (*(text += strspn(text, " ,"))) {
		size_t length = strcspn(text, " ,");
		if (length == 4 && strncmp(text, "over", 4) == 0) {
			*over = text + length;
			return LK_OK;
		}
		if (length >= sizeof word)
			return lk_number_words_refuse(list, text, "is not understood", err);
		lk_copy(word, length + 1, text);
		text += length;
		LK_TRY(number_words_read_one(list, word, out, &given, err));
	}
	return LK_OK;
}
