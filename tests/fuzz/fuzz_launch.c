/* fuzz_launch.c: launch scripts, and the same bytes as a recipe in Python and as blank-separated
 * words; what is read is completed, written and read. */
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "launch/emit/emit.h"
#include "launch/frameworks/frameworks.h"
#include "launch/read.h"

static void check(lk_arena *arena, lk_job *job) {
	lk_launch back = {0};
	int first;
	if (lk_job_complete(job, NULL, NULL) != LK_OK) return;
	for (int stage = 0; stage < job->pp && stage < 4; stage++)
		(void)lk_job_chunk_layers(job, stage, job->vp - 1, &first);
	char *text = lk_launch_write(arena, job);
	if (text == NULL ||
	    lk_launch_text(arena, text, strlen(text), "written", NULL, &back, NULL) != LK_OK)
		abort();
	if (lk_job_complete(back.job, NULL, NULL) != LK_OK) abort();
	for (const lk_field *field = lk_job_fields; field->name != NULL; field++)
		if (!lk_field_equal(field, job, back.job)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_launch out = {0};
	lk_error err;
	const char *words[256];
	int count = 0;
	if (lk_launch_text(&arena, (const char *)data, size, "fuzz", NULL, &out, &err) == LK_OK)
		check(&arena, out.job);
	char *text = lk_arena_strndup(&arena, (const char *)data, size), *save = NULL;
	lk_reading reading = {.arena = &arena, .where = "fuzz", .out = &out, .err = &err};
	lk_words settings = {0};
	(void)lk_recipe_python(&reading, text, NULL, &settings);
	lk_vec_free(&settings);
	for (char *at = strtok_r(text, " \n", &save); at != NULL && count < 256;
	     at = strtok_r(NULL, " \n", &save))
		words[count++] = at;
	if (lk_launch_read(&arena, count, words, "fuzz", &out, &err) == LK_OK) check(&arena, out.job);
	lk_arena_free(&arena);
	return 0;
}
