/* fuzz_options.c: the bytes are words, each ended by a line end; any words are requests within the
 * limits of the table, or an error. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "lockstep/options.h"
#include "options/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct request {
	bool flag;
	const char *text, *item;
	int number, choice;
	double real, count;
};

static const char *const choices[] = {"bf16", "fp16", "fp8", NULL};
/* clang-format off */
#define REQUEST struct request
static const lk_option options[] = {
	{GROUP("Output")
	 TEXT("output", text, "FILE", "A text."), LETTER('o')},
	{FLAG("flag", flag, "A flag."), LETTER('f')},
	{TEXT("gpu", item, "NAME", "A list of texts."), SWEPT, LETTER('g')},
	{GROUP("Numbers")
	 INT("tp", number, "N", 1, 64, "A list of numbers."), SWEPT, LETTER('t')},
	{CHOICE("dtype", choice, choices, NULL, "A list of names."), SWEPT, LETTER('d')},
	{REAL("memory", real, "X", -1, 1, "A number.")},
	{COUNT("tokens", count, "N", 1, 1e18, "A list of counts."), SWEPT},
	{0},
};
/* clang-format on */
static const lk_verb verb = {.name = "fuzz",
                             .operands = "[FILE...]",
                             .options = options,
                             .max_operands = 3,
                             .rest = true,
                             .request_size = sizeof(struct request)};

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
