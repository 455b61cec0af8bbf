/* tables.h: the tables of data/launch, checked and packed by tools/pack_tables.c during the build.
 * Each file is a table, or one table per part. The last row of a table has no name. */
#ifndef LK_LAUNCH_TABLES_H
#define LK_LAUNCH_TABLES_H

#include "launch/config/config.h"

/* Declares the table of a file, for the file that reads it: data/launch/NAME.csv is LK_KEYS(NAME),
 * its part PART LK_KEYS(NAME_PART). */
#define LK_KEYS(name) extern const lk_key lk_keys_##name[]

/* Declares the rules of a framework, a part of data/launch/rules.csv. */
#define LK_RULES(part) extern const lk_rule lk_rules_##part[]

/* A setting of a configuration and the flag that has another name. */
typedef struct lk_renamed {
	const char *name, *flag, *when; /* when: the value that means the switch; NULL: any value */
} lk_renamed;
extern const lk_renamed lk_megatron_names[], lk_openrlhf_names[];
/* config_words.c: the name that a table has for a setting; itself where it is not renamed. */
const char *lk_name_of(const lk_renamed *names, const char *name);

/* The offset of a flag's field; a compile error unless the field has the type that the kind
 * needs. */
#define LK_FLAG_AT(type, field) \
	(offsetof(lk_megatron, field) + 0 * sizeof(_Generic(((lk_megatron *)0)->field, type : 0)))
#define LK_FLAG_CHOICE_AT(field)    \
	(offsetof(lk_megatron, field) + \
	 0 * sizeof(_Generic(((lk_megatron *)0)->field, int : 0, unsigned : 0)))

#endif
