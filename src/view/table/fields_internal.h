/* fields_internal.h: the value of a field, for the files that write it. */
#ifndef LK_VIEW_FIELDS_INTERNAL_H
#define LK_VIEW_FIELDS_INTERNAL_H

#include "view/table/fields.h"

/* A field with one value, as its row says when it is known. */
void lk_field_find(const lk_answer_field *field, const lk_subject *subject, lk_field_value *found);

#endif
