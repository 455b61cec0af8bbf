/* defaults.h: where files of defaults are. */
#ifndef LK_OPTIONS_DEFAULTS_H
#define LK_OPTIONS_DEFAULTS_H

#include <limits.h>

/* The places of lockstep.toml: this folder, then the home folder, if any. */
typedef struct lk_defaults_places {
	const char *at[2]; /* at[1] may be `home` */
	int count;
	char home[PATH_MAX];
} lk_defaults_places;

/* Finds them by HOME. Pointers lead into `places`, which must not be copied. */
void lk_defaults_find(lk_defaults_places *places);

#endif
