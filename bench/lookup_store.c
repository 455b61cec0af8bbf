/* lookup_store.c: shares that were measured, in memory and in the file. */
#include "lookup_store.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lookup_known *entry_of(lookup_store *store, uint64_t share) {
	for (size_t i = 0; i < store->count; i++)
		if (store->at[i].share == share) return &store->at[i];
	if (store->count == store->room) {
		store->room = 2 * store->room + 64;
		store->at = realloc(store->at, store->room * sizeof *store->at);
		if (!store->at) work_out_of_memory();
	}
	store->at[store->count] = (lookup_known){.share = share};
	return &store->at[store->count++];
}

/* 0: these are not the slices of the passes before. */
static int note(lookup_store *store, uint64_t share, work_slices *pass) {
	lookup_known *known = entry_of(store, share);
	work_slices *least = &known->least[known->passes++ % 2];
	if (!least->count) {
		*least = *pass;
		*pass = (work_slices){0};
		return 1;
	}
	int same = least->count == pass->count && least->forward == pass->forward;
	for (size_t i = 0; same && i < pass->count; i++)
		least->us[i] = fminf(least->us[i], pass->us[i]);
	work_slices_free(pass);
	return same;
}

/* "share,forward,us us us ...". 0: it is none. */
static int parse_pass(char *line, uint64_t *share, work_slices *out) {
	char *at, *end, digit = 0;
	size_t most = strlen(line) / 2 + 1;
	*share = strtoull(line, &at, 16);
	if (at == line || *at++ != ',') return 0;
	*out = (work_slices){.forward = strtoull(at, &end, 10), .us = malloc(most * sizeof *out->us)};
	if (!out->us) work_out_of_memory();
	digit = *end++;
	for (at = end; digit == ',' && (out->us[out->count] = strtof(at, &end)) >= 0 && end != at &&
	               out->count + 1 < most;
	     at = end)
		out->count++;
	if (out->count && out->forward <= out->count && *at == '\n') return 1;
	work_slices_free(out);
	return 0;
}

int lookup_store_open(const char *path, lookup_store *out) {
	char *line = NULL;
	size_t room = 0;
	FILE *in = fopen(path, "r");
	*out = (lookup_store){.path = path};
	if (!in && errno == ENOENT) return 1;
	if (!in) return fprintf(stderr, "lookup: %s: %s\n", path, strerror(errno)), 0;
	int number = 1, good = 1;
	for (; good && getline(&line, &room, in) > 0; number++) {
		uint64_t share;
		work_slices pass;
		good = parse_pass(line, &share, &pass) && note(out, share, &pass);
	}
	if (!good)
		fprintf(stderr, "lookup: %s:%d: no share with its slices in microseconds\n", path,
		        number - 1);
	free(line);
	fclose(in);
	return good;
}

void lookup_store_close(lookup_store *store) {
	for (size_t i = 0; i < store->count; i++)
		for (int k = 0; k < 2; k++) work_slices_free(&store->at[i].least[k]);
	free(store->at);
	*store = (lookup_store){0};
}

const lookup_known *lookup_store_find(lookup_store *store, uint64_t share) {
	return entry_of(store, share);
}

int lookup_store_add(lookup_store *store, uint64_t share, work_slices *pass) {
	FILE *out = fopen(store->path, "a");
	if (out) {
		fprintf(out, "%llx,%zu,", (unsigned long long)share, pass->forward);
		for (size_t i = 0; i < pass->count; i++)
			fprintf(out, "%.2f%c", pass->us[i], i + 1 < pass->count ? ' ' : '\n');
	}
	note(store, share, pass);
	if (out && !fclose(out)) return 1;
	return fprintf(stderr, "lookup: %s: %s\n", store->path, strerror(errno)), 0;
}
