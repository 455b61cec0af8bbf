/* lookup_store.c: shares that were measured, in memory and in the file. */
#include "lookup_store.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const work_time never = {INFINITY, INFINITY};

static lookup_known *entry_of(lookup_store *s, uint64_t share) {
	for (size_t i = 0; i < s->count; i++)
		if (s->at[i].share == share) return &s->at[i];
	if (s->count == s->room) {
		s->room = 2 * s->room + 64;
		s->at = realloc(s->at, s->room * sizeof *s->at);
		if (!s->at) fputs("lookup: out of memory\n", stderr), exit(2);
	}
	s->at[s->count] = (lookup_known){.share = share, .least = never, .again = never};
	return &s->at[s->count++];
}

static void note(lookup_store *s, uint64_t share, work_time t) {
	lookup_known *k = entry_of(s, share);
	work_time *least = k->passes++ % 2 ? &k->again : &k->least;
	*least = (work_time){fmin(least->forward_s, t.forward_s), fmin(least->backward_s, t.backward_s)};
}

int lookup_store_open(const char *path, lookup_store *out) {
	char line[128];
	FILE *in = fopen(path, "r");
	*out = (lookup_store){.path = path};
	if (!in && errno == ENOENT) return 1;
	if (!in) return fprintf(stderr, "lookup: %s: %s\n", path, strerror(errno)), 0;
	for (int number = 1; fgets(line, sizeof line, in); number++) {
		unsigned long long share;
		work_time t;
		if (sscanf(line, "%llx,%lf,%lf", &share, &t.forward_s, &t.backward_s) != 3) {
			fprintf(stderr, "lookup: %s:%d: no share with microseconds forward and backward\n", path, number);
			return fclose(in), 0;
		}
		note(out, share, (work_time){t.forward_s * 1e-6, t.backward_s * 1e-6});
	}
	fclose(in);
	return 1;
}

void lookup_store_close(lookup_store *s) {
	free(s->at);
	*s = (lookup_store){0};
}

const lookup_known *lookup_store_find(lookup_store *s, uint64_t share) {
	return entry_of(s, share);
}

int lookup_store_add(lookup_store *s, uint64_t share, work_time t) {
	FILE *out = fopen(s->path, "a");
	note(s, share, t);
	if (out && fprintf(out, "%llx,%.2f,%.2f\n", (unsigned long long)share, t.forward_s * 1e6, t.backward_s * 1e6) > 0 && !fclose(out)) return 1;
	return fprintf(stderr, "lookup: %s: %s\n", s->path, strerror(errno)), 0;
}
