/* test_options.c: command lines, comma lists, messages, and the three outputs made from the same
 * table. */
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "options/options_internal.h"
#include "options/rows.h"
#include "base/stats.h"
#include "lockstep/options.h"
#include "scratch.h"

struct request {
	bool recompute, verbose;
	const char *output, *gpu;
	int tp, pp, rank, dtype;
	double memory, tokens, free;
};

static const char *const dtypes[] = {"bf16", "fp16", "fp8", NULL};

/* clang-format off */
#define REQUEST struct request
static const lk_option options[] = {
	{GROUP("Output")
	 TEXT("output", output, "FILE", "Where to write."), LETTER('o')},
	{FLAG("verbose", verbose, "Say more; [a: b] 'quoted' \\ back."), LETTER('v')},
	{GROUP("Layout")
	 INT("tp", tp, "N", 1, 64,
	 "Tensor-parallel size. The weights of a layer are divided among this "
	 "many ranks, which exchange activations twice per layer and direction; "
	 "a text that is long enough to be wrapped."), SWEPT, LETTER('t')},
	{INT("pipeline-parallel", pp, "N", 1, 1024, "Pipeline stages."), SWEPT},
	{INT("rank", rank, "N", 0, 0, "Any number.")},
	{TEXT("gpu", gpu, "NAME", "Device."), SWEPT, LETTER('g')},
	{GROUP("Numbers")
	 CHOICE("dtype", dtype, dtypes, NULL, "Element type."), SWEPT, LETTER('d')},
	{REAL("memory", memory, "X", 0, 1, "Part of the memory.")},
	{COUNT("tokens", tokens, "N", 1, 1e18, "Tokens, \xc3\xa0 la carte."), SWEPT},
	{REAL("free", free, "X", 0, 0, "Without limits.")},
	{FLAG("recompute", recompute, NULL)},
	{0},
};
/* clang-format on */

static const char *const examples[] = {"lockstep test --tp 1,2 a.json", "Two runs.",
                                       "lockstep test -v 'b c'", NULL};

static const lk_verb verb = {
	.name = "test",
	.summary = "Tests the options.",
	.operands = "[FILE...]",
	.options = options,
	.examples = examples,
	.description =
		"The first paragraph, which is long enough that it does not fit into one line of one "
		"hundred columns "
		"and is wrapped.\n\nThe second one:\n  kept   as it is\n.not a macro\n'nor this\n",
	.request_size = sizeof(struct request),
	.max_operands = 2,
	.rest = true,
};

static const lk_verb bare = {.name = "bare",
                             .summary = "No options: it's all.",
                             .operands = "FILE",
                             .min_operands = 1,
                             .max_operands = 1};

/* Parses words that are separated by blanks; "_" in `line` stands for an empty word. */
static lk_status parse(const lk_verb *v, const char *line, lk_args *args, lk_error *err) {
	static char copy[4096];
	static const char *words[256];
	int count = 0;
	snprintf(copy, sizeof copy, "%s", line);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
		words[count++] = strcmp(word, "_") ? word : "";
	return lk_args_parse(v, count, words, args, err);
}

static struct request one(const char *line) {
	lk_args args;
	lk_error err = {0};
	struct request r = {.tp = -1, .pp = -1, .dtype = -1};
	size_t n;
	if (parse(&verb, line, &args, &err) != LK_OK) fail_msg("%s: %s: %s", line, err.where, err.what);
	assert_int_equal(lk_args_combinations(&args, &n, &err), LK_OK);
	assert_int_equal(n, 1);
	assert_int_equal(lk_args_fill(&args, 0, &r, &err), LK_OK);
	lk_args_free(&args);
	return r;
}

/* ---- parsing ---- */

static void forms_of_options(void **state) {
	(void)state;
	assert_int_equal(one("--tp 4").tp, 4);
	assert_int_equal(one("--tp=4").tp, 4);
	assert_int_equal(one("-t 4").tp, 4);
	assert_int_equal(one("-t4").tp, 4);
	assert_int_equal(one("-t=4").tp, 4);
	assert_int_equal(one("-vt4").tp, 4);
	assert_true(one("-vt4").verbose);
	assert_int_equal(one("--tp 2 --tp 8").tp, 8);
	assert_int_equal(one("--pipeline_parallel 3").pp, 3);
	assert_int_equal(one("").tp, -1); /* what is not given stays */
	assert_int_equal(one("--rank -7").rank, -7);
	assert_int_equal(one("--rank=-7").rank, -7);
	assert_true(one("--free -1.5e3").free == -1500);
	assert_true(one("--free -.5").free == -.5);
	assert_true(one("--tokens 1.5T").tokens == 1.5e12);
	assert_true(one("--tokens 64Ki").tokens == 65536);
	assert_int_equal(one("--dtype FP8").dtype, 2);
	assert_true(one("--recompute").recompute);
	assert_false(one("--recompute --no-recompute").recompute);
	assert_true(one("--recompute=yes").recompute);
	assert_false(one("--recompute=0").recompute);
	assert_int_equal(one("-o - --tp 2").tp, 2);
}

static void texts_are_borrowed(void **state) {
	(void)state;
	static const char *const words[] = {"--output", "-", "-ga,b", "--output="};
	lk_args args;
	lk_error err;
	struct request r = {0};
	assert_int_equal(lk_args_parse(&verb, 2, words, &args, &err), LK_OK);
	assert_int_equal(lk_args_fill(&args, 0, &r, &err), LK_OK);
	assert_ptr_equal(r.output, words[1]);
	lk_args_free(&args);
	assert_int_equal(lk_args_parse(&verb, 4, words, &args, &err), LK_OK);
	assert_int_equal(lk_args_fill(&args, 1, &r, &err), LK_OK);
	assert_string_equal(r.output, "");
	assert_string_equal(r.gpu, "b"); /* a copy, which lives as long as args */
	lk_args_free(&args);
	lk_args_free(&args);
	lk_args_free(NULL);
}

static void operands_and_rest(void **state) {
	(void)state;
	lk_args args;
	lk_error err;
	assert_int_equal(parse(&verb, "a --tp 2 - -- --tp -x b", &args, &err), LK_OK);
	assert_int_equal(args.operand_count, 2);
	assert_string_equal(args.operands[0], "a");
	assert_string_equal(args.operands[1], "-");
	assert_int_equal(args.rest_count, 3);
	assert_string_equal(args.rest[1], "-x");
	assert_true(lk_args_given(&args, "tp"));
	assert_false(lk_args_given(&args, "rank"));
	assert_false(lk_args_given(&args, "absent"));
	lk_args_free(&args);
	assert_int_equal(parse(&bare, "-- -x", &args, &err), LK_OK); /* no rest: operands */
	assert_string_equal(args.operands[0], "-x");
	lk_args_free(&args);
	assert_int_equal(parse(&bare, "-5", &args, &err), LK_OK);
	assert_string_equal(args.operands[0], "-5");
	lk_args_free(&args);
	assert_int_equal(parse(&bare, "--help", &args, &err), LK_OK); /* although FILE is missing */
	assert_true(args.help);
	lk_args_free(&args);
	assert_int_equal(parse(&verb, "-vh --tp=x", &args, &err), LK_OK);
	assert_true(args.help);
	lk_args_free(&args);
}

static void mistakes(void **state) {
	(void)state;
	static const struct {
		const char *line, *message;
	} cases[] = {
		{"--tpp 3", "--tpp: unknown option; did you mean --tp?"},
		{"--tpp=3", "--tpp: unknown option; did you mean --tp?"},
		{"--pipeline 3", "--pipeline: unknown option; did you mean --pipeline-parallel?"},
		{"--wildebeest", "--wildebeest: unknown option; see lockstep test --help"},
		{"-x", "-x: unknown option; see lockstep test --help"},
		{"-vx", "-x: unknown option; see lockstep test --help"},
		{"--no-tp", "--no-tp: unknown option; did you mean --tp?"},
		{"--no-verbose=1", "--no-verbose: unknown option; did you mean --verbose?"},
		{"--tp", "--tp needs a value; write --tp N"},
		{"--tp --rank 3", "--tp needs a value; write --tp=VALUE where the value begins with -"},
		{"-t -v", "--tp needs a value; write --tp=VALUE where the value begins with -"},
		{"--tp 65", "--tp: 65 is out of range; give a whole number from 1 to 64"},
		{"--tp 1,65", "--tp: 65 is out of range; give a whole number from 1 to 64"},
		{"--tp 1,,2", "--tp: an empty value in the list; write lists as 1,2,4"},
		{"--tp 1.5", "--tp: \"1.5\" is not a whole number; give a whole number from 1 to 64"},
		{"--tp=", "--tp: \"\" is not a whole number; give a whole number from 1 to 64"},
		{"--rank 9999999999",
	     "--rank: 9999999999 is out of range; give a whole number from -2147483648 to 2147483647"},
		{"--memory 1.5", "--memory: 1.5 is out of range; give a number from 0 to 1"},
		{"--memory nan", "--memory: \"nan\" is not a number; give a number such as 0.5 or 1e-3"},
		{"--tokens 15X",
	     "--tokens: \"15X\" is not a number; give a number such as 4096, 1.5k, 64Ki or 15T"},
		{"--tokens 1e19", "--tokens: 1e19 is out of range; give a number from 1 to 1e+18"},
		{"--free 1e999", "--free: 1e999 is out of range; give a number that is not infinite"},
		{"--dtype fp9", "--dtype: \"fp9\" is not known; did you mean fp8?"},
		{"--dtype complex128", "--dtype: \"complex128\" is not known; give one of bf16, fp16, fp8"},
		{"--recompute=maybe",
	     "--recompute: \"maybe\" is neither true nor false; give true or false"},
		{"a b c", "test: \"c\" is one word too many; give at most 2; quote names that hold blanks"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_args args;
		lk_error err = {0};
		char text[1024];
		assert_int_equal(parse(&verb, cases[i].line, &args, &err), LK_ERR_INPUT);
		assert_string_equal(lk_error_text(&err, text, sizeof text), cases[i].message);
		assert_null(args.memory);
		assert_int_equal(parse(&verb, cases[i].line, &args, NULL), LK_ERR_INPUT);
	}
	lk_args args;
	lk_error err;
	char text[1024];
	assert_int_equal(parse(&bare, "", &args, &err), LK_ERR_INPUT);
	assert_string_equal(lk_error_text(&err, text, sizeof text),
	                    "bare: FILE is missing; see lockstep bare --help");
}

/* ---- the sweep ---- */

static void lists_make_all_combinations(void **state) {
	(void)state;
	lk_args args;
	lk_error err;
	size_t n;
	assert_int_equal(
		parse(&verb, "--dtype bf16,fp8 --tp 1,2,4 --rank 3 --gpu h100,a100", &args, &err), LK_OK);
	assert_int_equal(lk_args_combinations(&args, &n, &err), LK_OK);
	assert_int_equal(n, 12);
	for (size_t i = 0; i < n; i++) {
		struct request r = {0};
		assert_int_equal(lk_args_fill(&args, i, &r, &err), LK_OK);
		/* in the order of the table, tp, gpu, dtype: the last varies fastest */
		assert_int_equal(r.tp, 1 << i / 4);
		assert_string_equal(r.gpu, i / 2 % 2 ? "a100" : "h100");
		assert_int_equal(r.dtype, i % 2 ? 2 : 0);
		assert_int_equal(r.rank, 3);
	}
	struct request r;
	assert_int_equal(lk_args_fill(&args, n, &r, &err), LK_ERR_INTERNAL);
	lk_args_free(&args);
}

static void combinations_are_limited(void **state) {
	(void)state;
	char line[2048] = "--tp 1", lists[3][8] = {"--tp", "-g", "-d"};
	lk_args args;
	lk_error err;
	size_t n;
	line[0] = '\0';
	for (int k = 0; k < 3; k++) {
		strcat(strcat(line, " "), lists[k]);
		for (int i = 0; i < 50; i++)
			strcat(line, i ? (k == 2 ? ",fp8" : ",7") : (k == 2 ? " fp8" : " 7"));
	}
	assert_int_equal(parse(&verb, line, &args, &err), LK_OK);
	assert_int_equal(lk_args_combinations(&args, &n, &err), LK_ERR_INPUT); /* 125,000 */
	struct request r;
	assert_int_equal(lk_args_fill(&args, 0, &r, &err), LK_ERR_INPUT);
	lk_args_free(&args);
	char *huge = malloc(200002);
	assert_non_null(huge);
	for (int i = 0; i < 200000; i += 2) memcpy(huge + i, "1,", 2);
	strcpy(huge + 200000, "1");
	const char *words[] = {"--tp", huge};
	assert_int_equal(lk_args_parse(&verb, 2, words, &args, &err), LK_ERR_INPUT);
	free(huge);
}

/* Random values written in any of the forms come out as they went in. */
static void values_come_out_as_given(void **state) {
	(void)state;
	static const char *const suffixes[] = {"k", "M", "Gi", ""};
	static const double factors[] = {1e3, 1e6, 0x1p30, 1};
	uint64_t seed = 1;
	for (int i = 0; i < 5000; i++) {
		char line[512], tokens[64];
		int tp = 1 + (int)(lk_hash64(seed++) % 64), rank = (int)lk_hash64(seed++),
			dtype = (int)(lk_hash64(seed++) % 3);
		double memory = lk_uniform(3, seed++), count = (double)(1 + lk_hash64(seed++) % 4000);
		snprintf(tokens, sizeof tokens, "%.0f%s", count, suffixes[i % 4]);
		snprintf(line, sizeof line, "%s%d --rank%s%d --memory %.17g --tokens %s -d%s",
		         i % 2 ? "-t" : "--tp ", tp, i % 3 ? "=" : " ", rank, memory, tokens,
		         dtypes[dtype]);
		struct request r = one(line);
		assert_int_equal(r.tp, tp);
		assert_int_equal(r.rank, rank);
		assert_int_equal(r.dtype, dtype);
		assert_true(r.memory == memory);
		assert_true(r.tokens == count * factors[i % 4]);
	}
}

/* ---- what is made from the table ---- */

static char *written(const char *what, bool colour) {
	static const lk_verb *const verbs[] = {&verb, &bare, NULL};
	char *text;
	size_t size;
	lk_error err;
	FILE *file = open_memstream(&text, &size);
	if (strcmp(what, "help") == 0) lk_verb_help(&verb, colour, file);
	else if (strcmp(what, "man") == 0) lk_verb_man(&verb, "0.1", "2026-01-01", file);
	else assert_int_equal(lk_verbs_completion(verbs, NULL, what, file, &err), LK_OK);
	fclose(file);
	return text;
}

static void help_is_complete_and_narrow(void **state) {
	(void)state;
	char *text = written("help", false), *colour = written("help", true);
	for (const lk_option *option = options; option->name; option++) {
		char name[64];
		snprintf(name, sizeof name, " --%s", option->name);
		assert_non_null(strstr(text, name));
	}
	static const char *const parts[] = {
		"\nUsage: lockstep test [OPTION...] [FILE...] [-- WORD...]\n",
		"\n  kept   as it is\n",
		"  -t, --tp N ",
		"\nLayout\n",
		"\nNumbers\n",
		"[1 to 64; list]",
		"[bf16, fp16, fp8; list]",
		"[0 to 1]",
		"\nExamples\n  lockstep test --tp 1,2 a.json\n      Two runs.\n",
		"[list]",
		"combination is run.\n",
	};
	char *flat = strdup(text);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		assert_non_null(strstr(text, parts[i]));
	assert_null(strchr(text, '\033'));
	assert_non_null(strstr(colour, "\033[1mLayout\033[0m"));
	for (char *line = strtok(flat, "\n"); line; line = strtok(NULL, "\n")) {
		size_t columns = 0;
		for (char *c = line; *c; c++) columns += (*c & 0xc0) != 0x80;
		assert_true(columns <= 100);
		assert_true(line[strlen(line) - 1] != ' ');
	}
	free(flat);
	free(text);
	free(colour);
}

static void man_page_is_troff(void **state) {
	(void)state;
	char *text = written("man", false);
	for (char *c = text; (c = strchr(c, '\n')) != NULL; c++) {
		/* every control line is one of ours */
		if (c[1] == '.')
			assert_true(isupper((unsigned char)c[2]) || strncmp(c + 2, "nf", 2) == 0 ||
			            strncmp(c + 2, "fi", 2) == 0);
		assert_true(c[1] != '\'');
	}
	assert_non_null(strstr(text, "\\fB\\-\\-pipeline\\-parallel\\fR \\fIN\\fR"));
	free(text);
}

/* groff with all warnings says nothing about the page. */
static void groff_takes_man_page(void **state) {
	(void)state;
	if (system("groff --version >/dev/null 2>&1") != 0) {
		print_message("groff is not installed\n");
		skip();
	}
	char path[64], command[200], line[256], *text = written("man", false);
	write_text(new_file(path, ""), text);
	snprintf(command, sizeof command, "groff -man -ww -Tutf8 -K utf8 %s 2>&1 >/dev/null", path);
	FILE *pipe = popen(command, "r");
	assert_non_null(pipe);
	if (fgets(line, sizeof line, pipe)) fail_msg("%s", line);
	assert_int_equal(pclose(pipe), 0);
	unlink(path);
	free(text);
}

/* The completions that bash offers for a line, by running the script in bash. */
static void completes(const char *line, const char *expected) {
	char path[64], *script = written("bash", false);
	FILE *file = fopen(new_file(path, ""), "w");
	assert_non_null(file);
	fprintf(file,
	        "%s\nCOMP_WORDS=(%s)\nCOMP_CWORD=$((${#COMP_WORDS[@]}-1))\n_lockstep\necho "
	        "\"${COMPREPLY[*]}\"\n",
	        script, line);
	fclose(file);
	char command[128], answer[1024] = "";
	snprintf(command, sizeof command, "cd / && bash %s", path);
	FILE *pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_non_null(fgets(answer, sizeof answer, pipe));
	assert_int_equal(pclose(pipe), 0);
	answer[strcspn(answer, "\n")] = '\0';
	assert_string_equal(answer, expected);
	unlink(path);
	free(script);
}

static void bash_completes(void **state) {
	(void)state;
	if (system("bash -c : 2>/dev/null") != 0) {
		print_message("bash is not installed\n");
		skip();
	}
	completes("lockstep b", "bare");
	completes("lockstep test --pi", "--pipeline-parallel");
	completes("lockstep test --dtype f", "fp16 fp8");
	completes("lockstep test --dtype = b", "bf16");
	completes("lockstep test -d ''", "bf16 fp16 fp8");
	completes("lockstep test -d fp8,b", "fp8,bf16");
	completes("lockstep test --no-v", "--no-verbose");
	completes("lockstep test --output dev/nul", "dev/null");
	completes("lockstep test --tp ''", "");
	completes("lockstep bare --", "--help");
}

static void other_shells(void **state) {
	(void)state;
	char *zsh = written("zsh", false), *fish = written("fish", false);
	assert_non_null(
		strstr(zsh, "'--dtype=[Element type]:NAME: _sequence compadd - bf16 fp16 fp8'"));
	assert_non_null(strstr(zsh, "'-o+[Where to write]:FILE:_files'"));
	assert_non_null(strstr(zsh, "'bare:No options\\: it'\\''s all'"));
	assert_non_null(
		strstr(fish, "-l dtype -s d -x -a '(__fish_append , bf16 fp16 fp8)' -d 'Element type'\n"));
	assert_non_null(strstr(fish, "-l output -s o -r -F -d 'Where to write'\n"));
	lk_error err;
	static const lk_verb *const none[] = {NULL};
	assert_int_equal(lk_verbs_completion(none, NULL, "tcsh", stdout, &err), LK_ERR_INPUT);
	free(zsh);
	free(fish);
}

/* A shell reads its script without running it. */
static void shell_takes(const char *shell, const char *reader) {
	char command[128];
	snprintf(command, sizeof command, "command -v %s >/dev/null", shell);
	if (system(command) != 0) {
		print_message("%s is not installed\n", shell);
		skip();
	}
	char *script = written(shell, false);
	FILE *pipe = popen(reader, "w");
	assert_non_null(pipe);
	fputs(script, pipe);
	assert_int_equal(pclose(pipe), 0);
	free(script);
}

static void zsh_takes_script(void **state) {
	(void)state;
	shell_takes("zsh", "zsh -n");
}

static void fish_takes_script(void **state) {
	(void)state;
	shell_takes("fish", "fish --no-execute");
}

struct lines {
	const char *set, *name;
};
#undef REQUEST
#define REQUEST struct lines

/* Of LINES every value counts, in order; of others the last. */
static void lines_add_up(void **state) {
	(void)state;
	struct lines got = {0};
	const lk_option two[] = {
		{LINES("set", set, "KEY=VALUE", "Again and again."), LETTER('s')},
		{TEXT("name", name, "NAME", "Once."), LETTER('n')},
		{0},
	};
	const lk_verb v = {.name = "lines", .summary = "", .options = two, .request_size = sizeof got};
	const char *words[] = {"--set", "a=1,2", "-sb=2", "--name=x", "-n", "y", "--set=c,d"};
	lk_args args;
	lk_error err = {0};
	assert_int_equal(lk_args_parse(&v, sizeof words / sizeof *words, words, &args, &err), LK_OK);
	assert_int_equal(lk_args_fill(&args, 0, &got, &err), LK_OK);
	assert_string_equal(got.set, "a=1,2\nb=2\nc,d");
	assert_string_equal(got.name, "y");
	lk_args_free(&args);
}

/* Options of the answer fill lk_outputs, and leave the request alone, whatever their offsets. */
static void outputs_are_apart(void **state) {
	(void)state;
	struct lines got = {"set", "name"};
	const lk_option three[] = {
		{OUT_FORMAT(lk_output_formats, "")},
		{OUT_FILE("")},
		{OUT_VERBOSE("")},
		{OUT_TABLE(dtypes, "NAME", "")},
		{0},
	};
	const lk_verb v = {.name = "v", .summary = "", .options = three, .request_size = sizeof got};
	const char *words[] = {"-ojsonl", "--file=x", "-v", "--table", "fp8"};
	lk_args args;
	lk_outputs outputs;
	lk_error err = {0};
	assert_int_equal(lk_args_parse(&v, 5, words, &args, &err), LK_OK);
	assert_int_equal(lk_args_fill(&args, 0, &got, &err), LK_OK);
	assert_string_equal(got.set, "set");
	assert_string_equal(got.name, "name");
	assert_int_equal(lk_args_fill_outputs(&args, &outputs, &err), LK_OK);
	assert_int_equal(outputs.format, 4);
	assert_string_equal(outputs.path, "x");
	assert_true(outputs.verbose);
	assert_int_equal(outputs.table, 2);
	assert_null(outputs.html);
	lk_args_free(&args);
	assert_int_equal(lk_args_parse(&v, 0, words, &args, &err), LK_OK);
	assert_int_equal(lk_args_fill_outputs(&args, &outputs, &err), LK_OK);
	assert_int_equal(outputs.format, 0);
	assert_null(outputs.path);
	lk_args_free(&args);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(outputs_are_apart),
		cmocka_unit_test(lines_add_up),
		cmocka_unit_test(forms_of_options),
		cmocka_unit_test(texts_are_borrowed),
		cmocka_unit_test(operands_and_rest),
		cmocka_unit_test(mistakes),
		cmocka_unit_test(lists_make_all_combinations),
		cmocka_unit_test(combinations_are_limited),
		cmocka_unit_test(values_come_out_as_given),
		cmocka_unit_test(help_is_complete_and_narrow),
		cmocka_unit_test(man_page_is_troff),
		cmocka_unit_test(groff_takes_man_page),
		cmocka_unit_test(bash_completes),
		cmocka_unit_test(other_shells),
		cmocka_unit_test(zsh_takes_script),
		cmocka_unit_test(fish_takes_script),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
