/* options_schema.h: options as members of objects, and the JSON Schema of such an object as a part of
 * a larger document. */
#ifndef LK_OPTIONS_OPTIONS_SCHEMA_H
#define LK_OPTIONS_OPTIONS_SCHEMA_H

#include <stdbool.h>

#include "io/json.h"
#include "lockstep/options.h"

/* The option that a member of an object names, in a spelling that a command line accepts: '_' equals
 * '-'. NULL: none. */
const lk_option *lk_option_of_member(const lk_verb *verb, const char *key);

/* Whether an option has a member in the schema. */
typedef bool lk_option_wanted(const lk_verb *verb, const lk_option *option);
/* Those that most questions need. */
lk_option_wanted lk_option_wanted_first;

/* Write the schema of a verb's options as lk_verb_schema does. `wanted` leaves options out, which
 * are additional properties then; NULL: none. */
void lk_verb_schema_put(lk_json_writer *writer, const char *key, const lk_verb *verb,
                        lk_option_wanted *wanted);

#endif
