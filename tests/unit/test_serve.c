/* test_serve.c: who may ask, and what: the checks of headers, the fields of requests, names of
 * uploaded files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/explain.h"
#include "lockstep/plan.h"
#include "lockstep/predict.h"
#include "base/arena.h"
#include "system/process.h"
#include "serve/serve_internal.h"

/* ---- what a child keeps open ---- */

/* From here on close_range(2) fails as on kernels before 5.9. */
static void become_old_kernel(void) {
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(77); /* no filters here: nothing to see */
}

/* 0 when descriptors 10 to 12 were open and 11 and 12 no longer are; 77: not to be found out. */
static int close_in_child(bool old_kernel) {
	pid_t child = fork();
	if (child == 0) {
		for (int fd = 10; fd <= 12; fd++)
			if (dup2(0, fd) != fd) _exit(1);
		if (old_kernel) become_old_kernel();
		lk_process_close_from(11);
		_exit(fcntl(10, F_GETFD) < 0 || fcntl(11, F_GETFD) >= 0 || fcntl(12, F_GETFD) >= 0);
	}
	int status = 0;
	assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void children_keep_nothing_open(void **state) {
	(void)state;
	assert_int_equal(close_in_child(false), 0);
	int old = close_in_child(true);
	assert_true(old == 0 || old == 77);
}

/* ---- guard ---- */

static void hosts_of_loopback(void **state) {
	(void)state;
	const lk_guard g = {.loopback = true, .names = "planner.example.org\nbox"};
	static const char *const good[] = {"127.0.0.1",
	                                   "127.0.0.1:8420",
	                                   "127.9.9.9:1",
	                                   "localhost",
	                                   "LocalHost:80",
	                                   "[::1]",
	                                   "[::1]:8420",
	                                   "[::ffff:127.0.0.1]:8420",
	                                   "planner.example.org:8420",
	                                   "BOX"};
	static const char *const bad[] = {"",
	                                  "evil.example",
	                                  "evil.example:8420",
	                                  "localhost.evil.example",
	                                  "10.0.0.5:8420",
	                                  "127.0.0.1.evil.example",
	                                  "0x7f.1",
	                                  "2130706433",
	                                  "127.1",
	                                  "::1",
	                                  "[::1",
	                                  "[::1]x",
	                                  "[]",
	                                  ":8420",
	                                  "127.0.0.1:",
	                                  "127.0.0.1:84200000",
	                                  "127.0.0.1:84a",
	                                  "127.0.0.1:80:80",
	                                  "planner.example.orgx",
	                                  "planner",
	                                  "[fe80::1]",
	                                  " localhost",
	                                  "[localhost]",
	                                  "0.0.0.0:8420"};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(lk_guard_host(&g, good[i]));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(lk_guard_host(&g, bad[i]));
	assert_false(lk_guard_host(&g, NULL));
}

static void hosts_of_a_network(void **state) {
	(void)state;
	const lk_guard g = {.loopback = false};
	assert_true(lk_guard_host(&g, "10.0.0.5:8420"));
	assert_true(lk_guard_host(&g, "[fe80::1]:8420"));
	assert_true(lk_guard_host(&g, "localhost:8420"));
	assert_false(lk_guard_host(&g, "evil.example:8420"));
	assert_false(lk_guard_host(&g, "2130706433"));
}

static void origins(void **state) {
	(void)state;
	assert_true(lk_guard_origin(NULL, NULL, "localhost:8420"));
	assert_true(lk_guard_origin("http://localhost:8420", "same-origin", "localhost:8420"));
	assert_true(lk_guard_origin(NULL, "none", "localhost:8420"));
	assert_false(lk_guard_origin("http://localhost:8421", NULL, "localhost:8420"));
	assert_false(lk_guard_origin("http://localhost", NULL, "localhost:8420"));
	assert_false(lk_guard_origin("https://localhost:8420", NULL, "localhost:8420"));
	assert_false(lk_guard_origin("http://evil.example", NULL, "localhost:8420"));
	assert_false(lk_guard_origin("null", NULL, "localhost:8420"));
	assert_false(lk_guard_origin(NULL, "cross-site", "localhost:8420"));
	assert_false(lk_guard_origin(NULL, "same-site", "localhost:8420"));
}

static void tokens(void **state) {
	(void)state;
	lk_guard a, b;
	char header[64];
	assert_int_equal(lk_guard_init(&a, true, NULL, NULL), LK_OK);
	assert_int_equal(lk_guard_init(&b, true, NULL, NULL), LK_OK);
	assert_int_equal(strlen(a.token), 32);
	assert_string_not_equal(a.token, b.token);
	snprintf(header, sizeof header, "Bearer %s", a.token);
	assert_true(lk_guard_token(&a, header));
	assert_false(lk_guard_token(&b, header));
	assert_false(lk_guard_token(&a, a.token));
	assert_false(lk_guard_token(&a, NULL));
	assert_false(lk_guard_token(&a, "Bearer "));
	header[12] = header[12] == '0' ? '1' : '0';
	assert_false(lk_guard_token(&a, header));
	header[strlen(header) - 1] = '\0';
	assert_false(lk_guard_token(&a, header));
}

/* ---- fields ---- */

static lk_status read_body(const lk_verb *verb, const char *body, lk_arena *arena,
                           lk_serve_words *out, lk_error *err) {
	memset(err, 0, sizeof *err);
	return lk_serve_fields(verb, body, strlen(body), arena, out, err);
}

static void fields_become_words(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_serve_words w;
	lk_error err;
	assert_int_equal(read_body(&lk_predict_verb,
	                           "{\"model\": \"--help\", \"gpus\": 64, \"tokens\": \"15T\", "
	                           "\"no-fixes\": true, \"tp-overlap\": false, \"pp\": null,"
	                           " \"launch\": [\"pretrain_gpt.py\", \"--help\"]}",
	                           &arena, &w, &err),
	                 LK_OK);
	assert_int_equal(w.count, 5);
	assert_string_equal(w.words[0], "--model=--help");
	assert_string_equal(w.words[1], "--gpus=64");
	assert_string_equal(w.words[2], "--tokens=15T");
	assert_string_equal(w.words[3], "--no-fixes=true");
	assert_string_equal(w.words[4], "--tp-overlap=false");
	assert_int_equal(w.launch_count, 2);
	assert_string_equal(w.launch[1], "--help");
	assert_int_equal(w.file_count, 0);
	lk_arena_free(&arena);
}

static void files_come_as_content(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_serve_words w;
	lk_error err;
	assert_int_equal(read_body(&lk_predict_verb,
	                           "{\"model\": {\"hidden_size\": 64}, \"script\": \"torchrun x.py\"}",
	                           &arena, &w, &err),
	                 LK_OK);
	assert_int_equal(w.file_count, 2);
	assert_string_equal(w.words[0], "--model=config.json");
	assert_string_equal(w.files[0].name, "config.json");
	assert_int_equal(w.files[0].value->kind, LK_JSON_OBJECT);
	assert_string_equal(w.files[1].value->text, "torchrun x.py");
	assert_int_equal(read_body(&lk_predict_verb, "{\"rollout\": {\"lag\": 1}}", &arena, &w, &err),
	                 LK_OK);
	assert_string_equal(w.words[0], "--rollout=rollout.json");
	assert_int_equal(read_body(&lk_predict_verb, "{\"rollout\": \"lag=1 teacher=Qwen/Qwen3-8B\"}",
	                           &arena, &w, &err),
	                 LK_OK);
	assert_int_equal(w.file_count, 0);
	lk_arena_free(&arena);
}

static void wrong_fields_are_named(void **state) {
	(void)state;
	static const struct {
		const lk_verb *verb;
		const char *body, *where, *what;
	} wrong[] = {
		{&lk_predict_verb, "", "body:1:1", ""},
		{&lk_predict_verb, "[]", "body", "must be an object in JSON"},
		{&lk_predict_verb, "{\"gpus\": 64", "body:1:12", ""},
		{&lk_predict_verb, "{\"gpuz\": 64}", "--gpuz", "unknown option"},
		{&lk_predict_verb, "{\"help\": true}", "--help", "unknown option"},
		{&lk_predict_verb, "{\"no-compile\": true}", "--no-compile", "unknown option"},
		{&lk_predict_verb, "{\"model=x\": \"y\"}", "--model=x", "unknown option"},
		{&lk_predict_verb, "{\"\": 1}", "--", "unknown option"},
		{&lk_predict_verb, "{\"gpus\": true}", "--gpus", "must be a number or a text in JSON"},
		{&lk_predict_verb, "{\"gpus\": [64]}", "--gpus", "must be a number or a text in JSON"},
		{&lk_predict_verb, "{\"model\": 5}", "--model", "must be a text or an object in JSON"},
		{&lk_predict_verb, "{\"compile\": 1}", "--compile", "must be true or false in JSON"},
		{&lk_predict_verb, "{\"model\": \"\"}", "--model", "the value is empty"},
		{&lk_predict_verb, "{\"model\": \"/etc/passwd\"}", "--model",
	     "the server reads no files by name"},
		{&lk_predict_verb, "{\"model\": \"Qwen/config.json\"}", "--model",
	     "the server reads no files by name"},
		{&lk_predict_verb, "{\"cluster\": \"../x.json\"}", "--cluster",
	     "the server reads no files by name"},
		{&lk_predict_verb, "{\"rollout\": \"lag=1 /etc/rollout.yaml\"}", "--rollout",
	     "the server reads no files by name"},
		{&lk_plan_verb, "{\"rollout\": \"rollout.json\"}", "--rollout",
	     "the server reads no files by name"},
		{&lk_predict_verb, "{\"calibration\": \"x\"}", "--calibration",
	     "the server neither reads nor writes files by name"},
		{&lk_predict_verb, "{\"trace\": \"x.json\"}", "--trace",
	     "the server neither reads nor writes files by name"},
		{&lk_predict_verb, "{\"chakra\": \"x\"}", "--chakra",
	     "the server neither reads nor writes files by name"},
		{&lk_predict_verb, "{\"output\": \"csv\"}", "--output", "the server decides this"},
		{&lk_predict_verb, "{\"launch\": \"torchrun\"}", "launch",
	     "must be an array of texts in JSON"},
		{&lk_predict_verb, "{\"launch\": [1]}", "launch", "must be an array of texts in JSON"},
		{&lk_explain_verb, "{\"launch\": []}", "--launch", "unknown option"},
		{&lk_plan_verb, "{\"resume\": \"x\"}", "--resume",
	     "the server neither reads nor writes files by name"},
		{&lk_plan_verb, "{\"threads\": 4}", "--threads", "the server decides this"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_serve_words w;
		lk_error err;
		assert_int_equal(read_body(wrong[i].verb, wrong[i].body, &arena, &w, &err), LK_ERR_INPUT);
		assert_string_equal(err.where, wrong[i].where);
		if (*wrong[i].what) assert_string_equal(err.what, wrong[i].what);
		lk_arena_free(&arena);
	}
}

/* Every option has a form, and no option whose value is a file is taken by name. */
static void options_have_forms(void **state) {
	(void)state;
	static const lk_verb *const verbs[] = {&lk_predict_verb, &lk_plan_verb, &lk_explain_verb};
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
		for (const lk_option *option = verbs[i]->options; option->name; option++) {
			lk_serve_form form = lk_serve_form_of(option);
			bool file =
				option->value && (strstr(option->value, "FILE") || strstr(option->value, "DIR"));
			if (file) assert_true(form == LK_FIELD_REFUSED || form >= LK_FIELD_TEXT_OR_FILE);
			assert_true(*lk_serve_form_names[form].key && *lk_serve_form_names[form].said);
		}
}

/* ---- names of files ---- */

static void file_names_are_harmless(void **state) {
	(void)state;
	static const char *const names[][2] = {
		{"rank0.json.gz", "rank0.json.gz"},
		{"../../etc/passwd", "passwd"},
		{"/", "trace"},
		{"", "trace"},
		{"..", "trace"},
		{".hidden", "hidden"},
		{"C:\\traces\\r 1.json", "r_1.json"},
		{"-rf", "_rf"},
		{"a\nb", "a_b"},
		{"\xc3\xa4", "__"},
		{"0123456789012345678901234567890123456789.json", "67890123456789012345678_.json"},
	};
	char name[30];
	for (size_t i = 0; i + 1 < sizeof names / sizeof *names; i++) {
		lk_folder_name(names[i][0], name, sizeof name);
		assert_string_equal(name, names[i][1]);
	}
	lk_folder_name(names[10][0], name, sizeof name);
	assert_int_equal(strlen(name), 29);
	assert_string_equal(name + 24, ".json");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(children_keep_nothing_open),
		cmocka_unit_test(hosts_of_loopback),
		cmocka_unit_test(hosts_of_a_network),
		cmocka_unit_test(origins),
		cmocka_unit_test(tokens),
		cmocka_unit_test(fields_become_words),
		cmocka_unit_test(files_come_as_content),
		cmocka_unit_test(wrong_fields_are_named),
		cmocka_unit_test(options_have_forms),
		cmocka_unit_test(file_names_are_harmless),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
