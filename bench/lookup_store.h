/* lookup_store.h: what was measured of ranks' shares, kept in a file that grows: a line for each
 * share and pass, with the share, how many slices are forward, and the microseconds of all. */
#ifndef BENCH_LOOKUP_STORE_H
#define BENCH_LOOKUP_STORE_H

#include "lookup_work.h"

typedef struct lookup_known {
	uint64_t share; /* what its tables and pieces are, as a number */
	int passes;
	work_slices least[2]; /* of the first, third, ... pass; of the others */
} lookup_known;

typedef struct lookup_store {
	const char *path;
	lookup_known *at;
	size_t count, room;
} lookup_store;

/* 0: the file cannot be read, or a line of it is none of ours; both are said. A file that is not
 * there is empty. */
int lookup_store_open(const char *path, lookup_store *out);
void lookup_store_close(lookup_store *store);
/* Never NULL: a share that is not known has no passes. */
const lookup_known *lookup_store_find(lookup_store *store, uint64_t share);
/* Adds a pass, here and in the file, and takes it over. 0: the file cannot be written, which it
 * says. */
int lookup_store_add(lookup_store *store, uint64_t share, work_slices *pass);

#endif
