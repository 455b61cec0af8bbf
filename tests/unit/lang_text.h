/* lang_text.h: programs of tests from their text; draws by a seed. */
#ifndef LK_TESTS_LANG_TEXT_H
#define LK_TESTS_LANG_TEXT_H

#include <string.h>
#include "base/stats.h"
#include "lang/types/program.h"
#include "lang/syntax/parse.h"

static inline uint64_t draw(uint64_t *seed, uint64_t below) {
	return lk_hash64((*seed)++) % below;
}

static inline lc_file *read_text(const char *name, const char *text) {
	lc_file *file = NULL;
	lk_error err = {0};
	char line[1024];
	if (lc_parse(name, text, strlen(text), &file, &err) != LK_OK)
		fail_msg("%s\n%s", lk_error_text(&err, line, sizeof line), text);
	return file;
}

#endif
