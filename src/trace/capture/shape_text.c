/* shape_text.c: shapes and types of an operation's inputs as compact text. */
#include "trace/capture/capture.h"

#include <string.h>

bool lk_shape_put(lk_shape_text *shape_text, const char *text, size_t length) {
	if (shape_text->text.count + length + 1 > LK_SHAPE_TEXT) return true;
	if (!lk_reserve(&shape_text->text, length + 1)) return false;
	if (length) memcpy(shape_text->text.at + shape_text->text.count, text, length);
	shape_text->text.count += length;
	shape_text->text.at[shape_text->text.count] = '\0';
	return true;
}

static bool shape_text_begins(const char *text, size_t length, const char *with) {
	size_t size = strlen(with);
	return length >= size && memcmp(text, with, size) == 0;
}

bool lk_shape_put_type(lk_shape_text *shape_text, const char *text, size_t length) {
	static const char single[] = "Tensor(", many[] = "GenericList[Tensor(";
	bool list = shape_text_begins(text, length, many);
	if (!list && !shape_text_begins(text, length, single))
		return lk_shape_put(shape_text, text, length);
	size_t head = (list ? sizeof many : sizeof single) - 1;
	const char *type = text + head, *end = memchr(type, ')', length - head);
	if (!end) return lk_shape_put(shape_text, text, length);
	if (!list) return lk_shape_put(shape_text, type, (size_t)(end - type));
	return lk_shape_put(shape_text, "TensorList(", 11) &&
	       lk_shape_put(shape_text, type, (size_t)(end - type + 1));
}

bool lk_shape_python(lk_shape_text *shape_text, const char *text, size_t length) {
	bool good = true;
	shape_text->text.count = 0;
	for (size_t at = 0; good && at < length; at++) {
		char c = text[at];
		if (c == '\'' || c == '"') {
			const char *begin = text + at + 1, *end = memchr(begin, c, length - at - 1);
			if (!end) return good;
			good = lk_shape_put_type(shape_text, begin, (size_t)(end - begin));
			at = (size_t)(end - text);
		} else if (c == '(' || c == ')') good = lk_shape_put(shape_text, c == '(' ? "[" : "]", 1);
		else if (c != ' ' && (unsigned char)c > 0x20) good = lk_shape_put(shape_text, &c, 1);
	}
	return good;
}
