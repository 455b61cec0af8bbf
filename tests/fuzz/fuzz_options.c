/* fuzz_options.c: the bytes are words, each ended by a line end; any words are requests within the
 * limits of the table, or an error. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "lockstep/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct request {
	bool flag;
	const char *text, *item;
	int number, choice;
	double real, count;
};

static const char *const choices[] = {"bf16", "fp16", "fp8", NULL};
static const lk_option options[] = {
	{"output", 'o', LK_OPTION_TEXT, offsetof(struct request, text), false, 0, 0, NULL, "FILE",
     "Output", "A text."},
	{"flag", 'f', LK_OPTION_FLAG, offsetof(struct request, flag), false, 0, 0, NULL, NULL, NULL,
     "A flag."},
	{"gpu", 'g', LK_OPTION_TEXT, offsetof(struct request, item), true, 0, 0, NULL, "NAME", NULL,
     "A list of texts."},
	{"tp", 't', LK_OPTION_INT, offsetof(struct request, number), true, 1, 64, NULL, "N", "Numbers",
     "A list of numbers."},
	{"dtype", 'd', LK_OPTION_CHOICE, offsetof(struct request, choice), true, 0, 0, choices, NULL,
     NULL, "A list of names."},
	{"memory", 0, LK_OPTION_REAL, offsetof(struct request, real), false, -1, 1, NULL, "X", NULL,
     "A number."},
	{"tokens", 0, LK_OPTION_COUNT, offsetof(struct request, count), true, 1, 1e18, NULL, "N", NULL,
     "A list of counts."},
	{0},
};
static const lk_verb verb = {
	.name = "fuzz", .operands = "[FILE...]", .options = options, .max_operands = 3, .rest = true};

static void check(lk_args *args, size_t index) {
	struct request r = {.number = 1, .count = 1};
	if (lk_args_fill(args, index, &r, NULL) != LK_OK) abort();
	if (r.number < 1 || r.number > 64 || r.choice < 0 || r.choice > 2) abort();
	if (!(r.real >= -1 && r.real <= 1) || !(r.count >= 1 && r.count <= 1e18)) abort();
	if (lk_args_given(args, "output") != (r.text != NULL)) abort();
	if (r.item && strchr(r.item, ',')) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	const char *words[64];
	char *text = malloc(size + 1);
	if (!text) return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	int count = 0;
	for (char *p = text; p < text + size && count < 64; p += strlen(p) + 1) {
		char *end = strchr(p, '\n');
		if (end) *end = '\0';
		words[count++] = p;
	}
	lk_args args;
	lk_error err = {0};
	size_t n;
	if (lk_args_parse(&verb, count, words, &args, &err) == LK_OK) {
		if (args.operand_count + args.rest_count > count) abort();
		if (!args.help && lk_args_combinations(&args, &n, &err) == LK_OK) {
			for (size_t i = 0; i < n; i += 1 + n / 50) check(&args, i);
			check(&args, n - 1);
		}
		lk_args_free(&args);
	} else if (!err.what[0]) {
		abort();
	}
	free(text);
	return 0;
}
