/* shape_text.h: shapes and types of an operation's inputs as compact JSON without quotes, the one form in which traces
 * keep them: "[[512,13],[13,512],[]]" and "[float,TensorList(float),Int]". */
#ifndef LK_TRACE_SHAPE_TEXT_H
#define LK_TRACE_SHAPE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include "base/vec.h"

enum { LK_SHAPE_TEXT = 1 << 18 }; /* what is longer is cut, and then understood by nobody */

/* A text that is being put together; '\0' stands behind it. */
typedef struct lk_shape_text {
	LK_VEC(char) text;
} lk_shape_text;

static inline const char *lk_shape_text_of(const lk_shape_text *s) { return s->text.count ? s->text.at : ""; }
/* Appends; false when memory is out. */
bool lk_shape_put(lk_shape_text *s, const char *text, size_t length);
/* Appends a type as Kineto writes it: of "Tensor(float)" what is inside, of "GenericList[Tensor(float),...]"
 * "TensorList(float)". */
bool lk_shape_put_type(lk_shape_text *s, const char *text, size_t length);
/* Puts in its place what Python printed: "[[4, 5], []]", "['Tensor(float)', 'Int']". */
bool lk_shape_python(lk_shape_text *s, const char *text, size_t length);

#endif
