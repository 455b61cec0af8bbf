/* test_steps.c: programs as steps. The steps are run on a memory that remembers which value each place holds: every value
 * is computed once, what is read was written and not overwritten since, and the results are still there at the end. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/stats.h"
#include "base/stream.h"
#include "lang/steps.h"

/* ---- the memory ---- */

typedef struct machine {
	const lc_program *p;
	const lc_steps *s;
	int holds[LC_VALUES];    /* of a storage: the value whose content it is, -1 nothing */
	uint8_t done[LC_VALUES]; /* how often it was computed */
} machine;

static const lc_node *node(const machine *m, int v) { return &m->p->nodes.at[v]; }
static bool in(const lc_ids *ids, int id) {
	for (int i = 0; i < ids->count; i++)
		if (ids->at[i] == id) return true;
	return false;
}
static bool shares_operand(const machine *m, int v) {
	const lc_node *n = node(m, v);
	bool may = n->op == LC_OUT || n->op == LC_LOCAL || n->op == LC_SLICED || n->op == LC_SLICE;
	return may && m->s->storage[v] >= 0 && m->s->storage[v] != v && m->s->storage[v] == m->s->storage[n->in[0]];
}

/* The value that wrote what v shows. */
static int home(const machine *m, int v) {
	while (shares_operand(m, v) && !m->done[v]) v = node(m, v)->in[0];
	return v;
}

static void wrong(const machine *m, const lc_step *s, int v, const char *what) {
	char text[128];
	lc_print_listing(m->p, stderr);
	lc_steps_print(m->s, stderr);
	fail_msg("%s, step %s: %%%d %s: %s", m->p->name, s ? s->name : "-", v, lc_value_text(m->p, v, text, sizeof text), what);
}

/* What a step uses must be at hand: in its own registers, among its reads and intact, or recomputed from such. */
static void check_use(machine *m, const lc_step *s, int v, int by) {
	const lc_node *n = node(m, v);
	int storage = m->s->storage[v];
	if (n->op == LC_CONST || n->op == LC_SIZE || n->op == LC_SCALAR) return;
	if (in(&s->values, v) && v < by) return;
	if (storage < 0) {
		bool recomputed = n->op == LC_SLICE || (n->rank == 0 && in(&s->numbers, v));
		if (!recomputed) wrong(m, s, v, "is neither in memory nor recomputed");
		for (int k = 0; k < n->inputs; k++) check_use(m, s, n->in[k], by);
		return;
	}
	if (!in(&s->reads, v)) wrong(m, s, v, "is read and not listed");
	if (m->holds[storage] != home(m, v)) wrong(m, s, v, m->holds[storage] < 0 ? "was never written" : "was overwritten");
}

static void run_step(machine *m, const lc_step *s) {
	for (int k = 0; k < s->values.count; k++) {
		int v = s->values.at[k];
		const lc_node *n = node(m, v);
		if (m->done[v]) wrong(m, s, v, "is computed twice");
		if (k && s->values.at[k - 1] >= v) wrong(m, s, v, "is out of order");
		for (int i = n->op == LC_UPDATE ? 1 : 0; i < n->inputs; i++) check_use(m, s, n->in[i], v);
	}
	for (int k = 0; k < s->values.count; k++) {
		int v = s->values.at[k];
		m->done[v] = 1;
		if (m->s->storage[v] < 0) continue;
		if (!in(&s->writes, v)) wrong(m, s, v, "is written and not listed");
		m->holds[m->s->storage[v]] = v;
	}
}

static bool recomputed(const machine *m, int v) {
	const lc_node *n = node(m, v);
	if (lc_ops[n->op].family == LC_LEAF) return true;
	return shares_operand(m, v) || (m->s->storage[v] < 0 && (n->rank == 0 || n->op == LC_SLICE));
}

static void check_kind(machine *m, const lc_step *s) {
	int heavy = 0, pass = 0;
	for (int k = 0; k < s->values.count; k++) {
		const lc_node *n = node(m, s->values.at[k]);
		lc_family f = lc_ops[n->op].family;
		bool moves = f == LC_MOVE || f == LC_CONTRACT || f == LC_ROWS || (f == LC_COMM && n->op >= LC_ALLREDUCE && n->op <= LC_PERMUTE);
		heavy += moves;
		pass += !moves && n->op != LC_UPDATE;
	}
	if (s->kind == LC_STEP_MAP && (heavy || s->space < 0)) wrong(m, s, s->values.at[0], "is no pass");
	if (s->kind == LC_STEP_RING) assert_int_equal(heavy, (s->scatter >= 0) + s->gathers.count);
	if (s->kind == LC_STEP_RING) assert_true(heavy > 0);
	if (s->kind == LC_STEP_CONTRACT || s->kind == LC_STEP_ROWS || s->kind == LC_STEP_SEND) assert_int_equal(heavy, 1);
	if (s->kind != LC_STEP_MAP && s->kind != LC_STEP_RING) assert_int_equal(pass, 0);
}

/* What a step waits for is before it, and every read is of what an awaited step, or none, wrote. */
static void check_waits(const machine *m, const lc_step *steps, int count) {
	for (int i = 0; i < count; i++) {
		for (int k = 0; k < steps[i].after.count; k++) assert_in_range(steps[i].after.at[k], 0, i - 1);
		for (int j = 0; j < i; j++) {
			bool touches = false;
			for (int k = 0; k < steps[j].writes.count; k++) {
				int w = m->s->storage[steps[j].writes.at[k]];
				for (int r = 0; r < steps[i].reads.count; r++) touches |= m->s->storage[steps[i].reads.at[r]] == w;
			}
			for (int k = 0; k < steps[i].writes.count; k++) {
				int w = m->s->storage[steps[i].writes.at[k]];
				for (int r = 0; r < steps[j].reads.count; r++) touches |= m->s->storage[steps[j].reads.at[r]] == w;
			}
			/* directly, or through steps between */
			bool waits = in(&steps[i].after, j);
			for (int k = j + 1; k < i && touches && !waits; k++) waits = in(&steps[i].after, k) && in(&steps[k].after, j);
			if (touches && !waits) {
				lc_steps_print(m->s, stderr);
				fail_msg("%s: step %s does not wait for %s", m->p->name, steps[i].name, steps[j].name);
			}
		}
	}
}

static void check_results(machine *m) {
	for (int v = 0; v < (int)m->p->nodes.count; v++) {
		const lc_node *n = node(m, v);
		if (!recomputed(m, v) && !m->done[v]) wrong(m, NULL, v, "is never computed");
		bool last = n->op == LC_OUT || (n->op == LC_UPDATE && lc_value_find(m->p, n->name) == v);
		if (!last) continue;
		if (m->s->storage[v] < 0) wrong(m, NULL, v, "is a result without memory");
		if (m->holds[m->s->storage[v]] != home(m, v)) wrong(m, NULL, v, "is a result that was overwritten");
	}
}

static void check_names(const lc_steps *s) {
	for (int i = 0; i < s->count; i++)
		for (int k = 0; k < i; k++) assert_string_not_equal(s->at[i].name, s->at[k].name);
}

static void check_steps(const lc_program *p, const lc_steps *s) {
	machine *m = calloc(1, sizeof *m);
	m->p = p, m->s = s;
	for (int v = 0; v < (int)p->nodes.count; v++) {
		lc_op op = (lc_op)p->nodes.at[v].op;
		m->holds[v] = op == LC_INPUT || op == LC_STATE ? v : -1;
	}
	for (int i = 0; i < s->count; i++) {
		const lc_step *step = &s->at[i];
		for (int k = 0; k < step->part_count; k++) check_kind(m, &step->parts[k]), run_step(m, &step->parts[k]);
		if (step->part_count == 0) check_kind(m, step), run_step(m, step);
		check_waits(m, step->parts, step->part_count);
	}
	check_waits(m, s->at, s->count);
	check_results(m);
	check_names(s);
	free(m);
}

static lc_steps *steps_ok(const lc_program *p) {
	lc_steps *s = NULL;
	lk_error err = {0};
	char line[1024];
	if (lc_steps_make(p, &s, &err) != LK_OK) {
		lc_print_listing(p, stderr);
		fail_msg("%s: %s", p->name, lk_error_text(&err, line, sizeof line));
	}
	check_steps(p, s);
	return s;
}

static lc_file *read_ok(const char *name, const char *text) {
	lc_file *file = NULL;
	lk_error err = {0};
	char line[1024];
	if (lc_parse(name, text, strlen(text), &file, &err) != LK_OK) fail_msg("%s", lk_error_text(&err, line, sizeof line));
	return file;
}

/* ---- examples ---- */

static void test_examples(void **state) {
	(void)state;
	DIR *folder = opendir("examples/lang");
	int count = 0;
	assert_non_null(folder);
	for (struct dirent *e; (e = readdir(folder));) {
		char path[512], *text;
		size_t size;
		lk_error err;
		if (!strstr(e->d_name, ".lk")) continue;
		snprintf(path, sizeof path, "examples/lang/%s", e->d_name);
		assert_int_equal(lk_stream_slurp(path, LC_TEXT_LIMIT, &text, &size, &err), LK_OK);
		lc_file *file = read_ok(path, text);
		for (size_t i = 0; i < file->programs.count; i++) {
			lc_steps *s = steps_ok(file->programs.at[i]);
			if (getenv("SHOW_STEPS")) {
				fprintf(stderr, "%s\n", file->programs.at[i]->name);
				lc_steps_print(s, stderr);
			}
			lc_steps_free(s);
		}
		lc_file_free(file);
		free(text);
		count++;
	}
	closedir(folder);
	assert_true(count >= 10);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_examples),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
