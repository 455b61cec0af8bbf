/* fuzz_serve.c: the bytes are a verb's number and the body of a request; any body becomes words
 * that the parser takes or refuses, or an error. The same bytes as headers pass no check that they
 * must not pass. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "serve/serve_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_words(const lk_verb *verb, const lk_serve_words *words) {
	lk_args args;
	lk_error err = {0};
	for (int i = 0; i < words->count; i++)
		if (strncmp(words->words[i], "--", 2) != 0 || !strchr(words->words[i], '=')) abort();
	for (int i = 0; i < words->file_count; i++)
		if (strchr(words->files[i].name, '/')) abort();
	if (lk_args_parse(verb, words->count, words->words, &args, &err) == LK_OK) {
		if (args.help || args.operand_count || args.rest_count) abort();
		lk_args_free(&args);
	} else if (!err.what[0]) {
		abort();
	}
}

static void check_headers(const char *text) {
	const lk_guard guard = {.loopback = true, .token = "0123456789abcdef0123456789abcdef"};
	if (lk_guard_host(&guard, text) && strncasecmp(text, "localhost", 9) != 0 &&
	    strncmp(text, "127.", 4) != 0 && *text != '[')
		abort();
	if (lk_guard_origin(text, NULL, "localhost:8420") &&
	    strcasecmp(text, "http://localhost:8420") != 0)
		abort();
	if (lk_guard_token(&guard, text) && !strstr(text, guard.token)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_serve_words words;
	lk_error err = {0};
	if (size == 0) return 0;
	const lk_verb *verb = lk_question_verb((lk_question_kind)(data[0] % LK_ASK_KINDS));
	char *text = malloc(size);
	if (!text) return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	if (lk_serve_fields(verb, text, size - 1, &arena, &words, &err) == LK_OK)
		check_words(verb, &words);
	else if (!err.what[0] || err.status == LK_OK) abort();
	check_headers(text);
	lk_arena_free(&arena);
	free(text);
	return 0;
}
