/* traces_provisional.c: traces.h without alignment and matching: files one by one, ranks in order, clocks as they are. To be
 * removed when the real one is there. */
#include <stdlib.h>

#include "trace/traces.h"

static int by_rank(const void *a, const void *b) {
	const lk_capture *x = *(lk_capture *const *)a, *y = *(lk_capture *const *)b;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

void lk_traces_free(lk_traces *t) {
	if (!t) return;
	for (uint32_t i = 0; t->capture && i < t->count; i++) lk_capture_free(t->capture[i]);
	free(t->capture);
	free(t->shift_ns);
	lk_vec_free(&t->matches);
	lk_vec_free(&t->members);
	lk_vec_free(&t->groups);
	lk_vec_free(&t->problems);
	lk_vec_free(&t->warnings);
	lk_arena_free(&t->arena);
	free(t);
}

lk_status lk_traces_make(lk_capture **captures, uint32_t count, lk_traces **out, lk_error *err) {
	lk_traces *t = calloc(1, sizeof *t);
	lk_capture **own = calloc(count + 1, sizeof *own);
	int64_t *shift = calloc(count + 1, sizeof *shift);
	if (!t || !own || !shift) {
		for (uint32_t i = 0; i < count; i++) lk_capture_free(captures[i]);
		free(t), free(own), free(shift);
		return lk_oom(err);
	}
	for (uint32_t i = 0; i < count; i++) own[i] = captures[i];
	qsort(own, count, sizeof *own, by_rank);
	*t = (lk_traces){.capture = own, .shift_ns = shift, .count = count, .world = count ? own[0]->world : 0};
	*out = t;
	return LK_OK;
}

lk_status lk_traces_read(const char *const *paths, uint32_t count, const lk_read_limits *limits, int threads, lk_traces **out,
                         lk_error *err) {
	lk_capture **captures = calloc(count + 1, sizeof *captures);
	lk_status status = captures ? LK_OK : lk_oom(err);
	uint32_t read = 0;
	(void)threads;
	for (; status == LK_OK && read < count; read += status == LK_OK)
		status = lk_capture_read(paths[read], limits, &captures[read], err);
	if (status == LK_OK) status = lk_traces_make(captures, count, out, err);
	else
		for (uint32_t i = 0; i < read; i++) lk_capture_free(captures[i]);
	free(captures);
	return status;
}

const lk_match *lk_traces_match(const lk_traces *traces, uint32_t capture, uint32_t event) {
	(void)traces, (void)capture, (void)event;
	return NULL;
}
