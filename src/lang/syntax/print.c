/* print.c: a program in the language, so that reading it gives the same program. Unnamed values are written inside of
 * the statement that uses them. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "lang/types/program.h"

/* ---- small parts ---- */

char *lc_layout_text(const lc_program *p, const lc_layout *l, int axis, char *out, size_t size) {
	const char *name = p->axes[axis].name;
	switch (l->kind) {
	case LC_S:
		/* A turn is never declared: this is for messages and listings. */
		snprintf(out, size, l->turn ? "S(%d,%s) turned %+d" : "S(%d,%s)", l->dim, name, l->turn);
		return out;
	case LC_P: snprintf(out, size, "P(%s,%s)", lc_reduce_name((lc_reduce)l->reduce), name); return out;
	case LC_ROOT: snprintf(out, size, "ROOT(%d,%s)", l->root, name); return out;
	default: snprintf(out, size, "%c(%s)", l->kind == LC_L ? 'L' : 'R', name); return out;
	}
}

static void group_index(const lc_group *g, char *out, size_t size) {
	if (!g->index) snprintf(out, size, "%lld", (long long)g->offset);
	else if (g->offset) snprintf(out, size, "%s%+lld", g->index, (long long)g->offset);
	else snprintf(out, size, "%s", g->index);
}

char *lc_group_text(const lc_program *p, const lc_group *g, char *out, size_t size) {
	char index[LC_NAME + 24];
	if (g->axis < 0) return lk_copy(out, size, "every group"), out;
	group_index(g, index, sizeof index);
	snprintf(out, size, "%s=%s", p->axes[g->axis].name, index);
	return out;
}

static void put_type(const lc_program *p, const lc_node *n, FILE *out) {
	char text[256];
	bool marked = false;
	fputs(lc_dtype_name((lc_dtype)n->dtype), out);
	for (int d = 0; d < n->rank; d++) {
		fputc(d ? ',' : '[', out);
		lc_dim_print(p, n->dim[d], out);
	}
	if (n->rank) fputc(']', out);
	if (n->list >= 0) fprintf(out, " of %s", p->lists.at[n->list]);
	for (int a = 0; a < p->axis_count; a++) {
		if (n->layout[a].kind == LC_R) continue;
		fprintf(out, "%s%s", marked ? " " : " @ ", lc_layout_text(p, &n->layout[a], a, text, sizeof text));
		marked = true;
	}
	if (n->at.axis >= 0) fprintf(out, " at %s", lc_group_text(p, &n->at, text, sizeof text));
}

char *lc_type_text(const lc_program *p, const lc_node *n, char *out, size_t size) {
	FILE *file = fmemopen(out, size, "w");
	out[0] = '\0';
	if (!file) return out;
	put_type(p, n, file);
	fclose(file);
	out[size - 1] = '\0';
	return out;
}

/* ---- expressions ---- */

enum { COMPARED = 1, ADDED, MULTIPLIED, NEGATED, RAISED, ATOM }; /* how tightly an operation binds */

static int binding(int op) {
	switch (op) {
	case LC_LT: case LC_LE: case LC_GT: case LC_GE: case LC_EQ: case LC_NE: return COMPARED;
	case LC_ADD: case LC_SUB: return ADDED;
	case LC_MUL: case LC_DIV: return MULTIPLIED;
	case LC_NEG: return NEGATED;
	case LC_POW: return RAISED;
	default: return ATOM;
	}
}

/* Where an expression goes, and how much deeper it may: parsed and settled programs stay below the parser's limit; what
 * is only shown in messages is cut. */
struct writer {
	const lc_program *p;
	FILE *out;
	int depth;
};

static void put_value(struct writer *w, int id, int tight);

static void put_operation(struct writer *w, const lc_node *n) {
	int tight = binding(n->op);
	if (n->op == LC_NEG) {
		fputc('-', w->out);
		put_value(w, n->in[0], NEGATED);
		return;
	}
	/* Comparisons do not chain, ^ binds to the right and takes a sign there; the others bind to the left. */
	int left = n->op == LC_POW ? ATOM : tight == COMPARED ? ADDED : tight;
	int right = n->op == LC_POW ? NEGATED : tight + 1;
	bool wide = tight <= ADDED;
	put_value(w, n->in[0], left);
	fprintf(w->out, wide ? " %s " : "%s", lc_ops[n->op].name);
	put_value(w, n->in[1], right);
}

static void put_argument(struct writer *w, const lc_node *n, char kind, int *operand) {
	char text[32];
	switch (kind) {
	case 'x': put_value(w, n->in[(*operand)++], COMPARED); break;
	case 't': fputs(lc_dtype_name((lc_dtype)n->dtype), w->out); break;
	case 'p': fputs(lk_format_shortest(n->number, text, sizeof text), w->out); break;
	case 'k': fprintf(w->out, "key=%lld", (long long)n->key); break;
	case 'o': fputs(lc_reduce_name((lc_reduce)n->reduce), w->out); break;
	case 'a': fputs(w->p->axes[n->axis].name, w->out); break;
	case 'd': fprintf(w->out, n->op == LC_REDUCESCATTER ? "dim=%d" : "%d", n->d); break;
	case 'e': fprintf(w->out, "%d", n->e); break;
	case 'r': fprintf(w->out, "root=%d", n->root); break;
	case 's': fprintf(w->out, "shift=%d", n->shift); break;
	default: break;
	}
}

static void put_options(struct writer *w, const lc_node *n) {
	if (n->ta) fputs(", ta", w->out);
	if (n->tb) fputs(", tb", w->out);
	if (n->stride != 1) fprintf(w->out, ", stride=%d", n->stride);
	if (n->pad) fprintf(w->out, ", pad=%d", n->pad);
	if (lc_ops[n->op].family != LC_RED) return;
	bool all = n->dims == (1u << w->p->nodes.at[n->in[0]].rank) - 1;
	for (int d = 0; d < LC_RANK && !all; d++)
		if (n->dims >> d & 1) fprintf(w->out, ", %d", d);
	if (n->keep) fputs(", keep", w->out);
}

static void put_call(struct writer *w, const lc_node *n) {
	int operand = 0;
	char from[LC_NAME + 24], to[LC_NAME + 24];
	fprintf(w->out, "%s(", lc_ops[n->op].name);
	if (n->op == LC_SEND) {
		put_value(w, n->in[0], COMPARED);
		group_index(&n->from, from, sizeof from), group_index(&n->at, to, sizeof to);
		fprintf(w->out, ", %s: %s->%s)", w->p->axes[n->at.axis].name, from, to);
		return;
	}
	for (const char *kind = lc_ops[n->op].arguments; *kind >= 'a'; kind++) {
		if (kind != lc_ops[n->op].arguments) fputs(", ", w->out);
		put_argument(w, n, *kind, &operand);
	}
	put_options(w, n);
	fputc(')', w->out);
}

void lc_print_attributes(const lc_program *p, const lc_node *n, FILE *out) {
	struct writer w = {p, out, 0};
	char from[LC_NAME + 24], to[LC_NAME + 24];
	const char *between = "";
	if (n->op == LC_SEND) {
		group_index(&n->from, from, sizeof from), group_index(&n->at, to, sizeof to);
		fprintf(out, "%s: %s->%s", p->axes[n->at.axis].name, from, to);
	}
	for (const char *kind = lc_ops[n->op].arguments; *kind >= 'a'; kind++) {
		if (*kind == 'x') continue;
		fputs(between, out);
		put_argument(&w, n, *kind, NULL);
		between = ", ";
	}
	char options[96] = "";
	w.out = fmemopen(options, sizeof options, "w");
	if (!w.out) return;
	put_options(&w, n);
	fclose(w.out);
	fputs(options + (*options && !*between ? 2 : 0), out); /* they begin with a comma */
}

/* The value as what defines it, its name aside. */
static void put_definition(struct writer *w, const lc_node *n) {
	char text[32];
	if (n->op == LC_CONST) fputs(lk_format_shortest(n->number, text, sizeof text), w->out);
	else if (n->op == LC_SIZE)
		fprintf(w->out, "size(%s)", n->axis >= 0 ? w->p->axes[n->axis].name : w->p->named[n->symbol].name);
	else if (*lc_ops[n->op].arguments || n->op == LC_SEND) put_call(w, n);
	else put_operation(w, n);
}

static void put_value(struct writer *w, int id, int tight) {
	const lc_node *n = &w->p->nodes.at[id];
	if (n->name) {
		fputs(n->name, w->out);
		return;
	}
	if (w->depth == 0) {
		fputs("...", w->out);
		return;
	}
	bool wrapped = binding(n->op) < tight;
	w->depth--;
	if (wrapped) fputc('(', w->out);
	put_definition(w, n);
	if (wrapped) fputc(')', w->out);
	w->depth++;
}

char *lc_value_text(const lc_program *p, int id, char *out, size_t size) {
	char text[512] = "";
	FILE *file = fmemopen(text, sizeof text, "w");
	if (file) {
		struct writer w = {p, file, 6};
		put_value(&w, id, COMPARED);
		fclose(file);
	}
	text[sizeof text - 1] = '\0';
	if (strlen(text) < size) lk_copy(out, size, text);
	else snprintf(out, size, "%.*s...", (int)size - 4, text);
	return out;
}

/* ---- statements ---- */

/* Whether "at" must be written: no operand says it. */
static bool needs_place(const lc_program *p, const lc_node *n) {
	if (n->at.axis < 0 || n->op == LC_SEND) return false;
	for (int i = 0; i < n->inputs; i++)
		if (p->nodes.at[n->in[i]].at.axis >= 0) return false;
	return true;
}

static void statement(const lc_program *p, const lc_node *n, FILE *out) {
	struct writer w = {p, out, LC_VALUES};
	char text[128];
	fputc('\t', out);
	if (n->op == LC_SCALAR) {
		fprintf(out, "scalar %s %s\n", lc_dtype_name((lc_dtype)n->dtype), n->name);
		return;
	}
	if (n->op == LC_INPUT || n->op == LC_STATE) {
		fprintf(out, "%s %s : ", lc_ops[n->op].name, n->name);
		put_type(p, n, out);
		fputc('\n', out);
		return;
	}
	if (n->op == LC_OUT) fputs("out ", out), put_value(&w, n->in[0], COMPARED);
	else if (n->op == LC_UPDATE) fprintf(out, "%s <- ", n->name), put_value(&w, n->in[1], COMPARED);
	else fprintf(out, "%s = ", n->name), put_definition(&w, n);
	if (needs_place(p, n)) fprintf(out, " at %s", lc_group_text(p, &n->at, text, sizeof text));
	fputc('\n', out);
}

static void declarations(const lc_program *p, FILE *out) {
	for (size_t i = 0; i < p->lists.count; i++) fprintf(out, "\tlist %s\n", p->lists.at[i]);
	for (int i = 0; i < p->named_count; i++) {
		fprintf(out, "\tdim %s", p->named[i].name);
		while (i + 1 < p->named_count && p->named[i + 1].list == p->named[i].list)
			fprintf(out, ", %s", p->named[++i].name);
		if (p->named[i].list >= 0) fprintf(out, " of %s", p->lists.at[p->named[i].list]);
		fputc('\n', out);
	}
}

void lc_print_program(const lc_program *p, FILE *out) {
	fprintf(out, "program %s(mesh ", p->name);
	for (int i = 0; i < p->axis_count; i++) {
		fprintf(out, i ? ", %s" : "%s", p->axes[i].name);
		if (p->axes[i].size) fprintf(out, "=%lld", (long long)p->axes[i].size);
	}
	fputs(") {\n", out);
	declarations(p, out);
	for (size_t i = 0; i < p->nodes.count; i++)
		if (p->nodes.at[i].name || p->nodes.at[i].op == LC_OUT) statement(p, &p->nodes.at[i], out);
	fputs("}\n", out);
}

/* ---- schedules ---- */

static void put_words(const lc_word *words, int count, const char *begin, const char *end, FILE *out) {
	fputs(begin, out);
	for (int i = 0; i < count; i++) fprintf(out, i ? ", %s" : "%s", words[i].text);
	fputs(end, out);
}

void lc_print_directive(const lc_directive *d, FILE *out) {
	fprintf(out, "%s ", lc_directive_names[d->kind]);
	switch (d->kind) {
	case LC_SPLIT: case LC_HIERARCHICAL:
		fprintf(out, "%s -> ", d->names[0].text);
		put_words(d->results, d->result_count, "(", ")", out);
		if (d->kind == LC_HIERARCHICAL) fprintf(out, " group %lld", (long long)d->size);
		else if (d->size) fprintf(out, " dim %lld", (long long)d->size - 1);
		if (d->kind == LC_SPLIT && d->order) fprintf(out, " by %s", d->order);
		break;
	case LC_REORDER:
		fprintf(out, "%s past ", d->names[0].text);
		put_words(d->names + 1, d->name_count - 1, "{", "}", out);
		break;
	case LC_SLICE_STATE: put_words(d->names, d->name_count, "", "", out); break;
	case LC_BUCKET:
		put_words(d->names, d->name_count, "{", "}", out);
		fprintf(out, " size %lld", (long long)d->size);
		break;
	default:
		if (d->result_count) fprintf(out, "%s = ", d->results[0].text);
		put_words(d->names, d->name_count, "{", "}", out);
	}
	if (d->kind == LC_OVERLAP && (*d->chunk || d->chunks)) {
		fprintf(out, *d->chunk ? " chunk %s" : " chunk", d->chunk);
		if (d->chunks) fprintf(out, " %lld", (long long)d->chunks);
	}
	if (d->kind == LC_OVERLAP && d->order) fprintf(out, " order %s", d->order);
}

void lc_print_schedule(const lc_program *p, const lc_schedule *s, FILE *out) {
	fprintf(out, "schedule %s for %s {\n", s->name, p->name);
	for (int i = 0; i < s->count; i++) {
		fputc('\t', out);
		lc_print_directive(&s->directives[i], out);
		fputc('\n', out);
	}
	fputs("}\n", out);
}

void lc_print_file(const lc_file *file, FILE *out) {
	for (size_t i = 0; i < file->programs.count; i++) {
		const lc_program *p = file->programs.at[i];
		if (i) fputc('\n', out);
		lc_print_program(p, out);
		for (size_t k = 0; k < p->schedules.count; k++) {
			fputc('\n', out);
			lc_print_schedule(p, &p->schedules.at[k], out);
		}
	}
}
