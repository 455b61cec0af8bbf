/* print.c: prints a program so that reading it gives the same program. Unnamed values are printed
 * inside the statement that uses them. */
#include <string.h>

#include "base/text.h"
#include "lang/types/program.h"
#include "base/check.h"

/* ---- small parts ---- */

char *lc_layout_text(const lc_program *program, const lc_layout *layout, int axis, char *out,
                     size_t size) {
	LK_ASSERT(axis >= 0 && axis < program->axis_count);
	const char *name = program->axes[axis].name;
	switch (layout->kind) {
	case LC_S:
		/* A turn cannot be declared: this is for messages and listings. */
		snprintf(out, size, layout->turn ? "S(%d,%s) turned %+d" : "S(%d,%s)", layout->dim, name,
		         layout->turn);
		return out;
	case LC_P:
		snprintf(out, size, "P(%s,%s)", lc_reduce_name((lc_reduce)layout->reduce), name);
		return out;
	case LC_ROOT: snprintf(out, size, "ROOT(%d,%s)", layout->root, name); return out;
	default: snprintf(out, size, "%c(%s)", layout->kind == LC_L ? 'L' : 'R', name); return out;
	}
}

static void group_index(const lc_group *group, char *out, size_t size) {
	if (!group->index) snprintf(out, size, "%lld", (long long)group->offset);
	else if (group->offset) snprintf(out, size, "%s%+lld", group->index, (long long)group->offset);
	else snprintf(out, size, "%s", group->index);
}

char *lc_group_text(const lc_program *program, const lc_group *group, char *out, size_t size) {
	char index[LC_NAME + 24];
	if (group->axis < 0) return lk_copy(out, size, "every group"), out;
	group_index(group, index, sizeof index);
	snprintf(out, size, "%s=%s", program->axes[group->axis].name, index);
	return out;
}

static void put_type(const lc_program *program, const lc_node *node, FILE *out) {
	char text[256];
	bool marked = false;
	fputs(lc_dtype_name((lc_dtype)node->dtype), out);
	for (int d = 0; d < node->rank; d++) {
		fputc(d ? ',' : '[', out);
		lc_dim_print(program, node->dim[d], out);
	}
	if (node->rank) fputc(']', out);
	if (node->list >= 0) fprintf(out, " of %s", program->lists.at[node->list]);
	for (int a = 0; a < program->axis_count; a++) {
		if (node->layout[a].kind == LC_R) continue;
		fprintf(out, "%s%s", marked ? " " : " @ ",
		        lc_layout_text(program, &node->layout[a], a, text, sizeof text));
		marked = true;
	}
	if (node->at.axis >= 0)
		fprintf(out, " at %s", lc_group_text(program, &node->at, text, sizeof text));
}

char *lc_type_text(const lc_program *program, const lc_node *node, char *out, size_t size) {
	FILE *file = lc_text_open(program, out, size);
	out[0] = '\0';
	if (!file) return out;
	put_type(program, node, file);
	fclose(file);
	out[size - 1] = '\0';
	return out;
}

/* ---- expressions ---- */

/* Precedence of an operation. */
enum { COMPARED = 1, ADDED, MULTIPLIED, NEGATED, RAISED, ATOM };

static int print_binding(int op) {
	switch (op) {
	case LC_LT:
	case LC_LE:
	case LC_GT:
	case LC_GE:
	case LC_EQ:
	case LC_NE: return COMPARED;
	case LC_ADD:
	case LC_SUB: return ADDED;
	case LC_MUL:
	case LC_DIV: return MULTIPLIED;
	case LC_NEG: return NEGATED;
	case LC_POW: return RAISED;
	default: return ATOM;
	}
}

/* Output of an expression, and its remaining depth: parsed and settled programs stay below the
 * parser's limit; text in messages is cut. */
struct writer {
	const lc_program *p;
	FILE *out;
	int depth;
	bool brief; /* for a message: calls as the user wrote them */
};

static void print_put_value(struct writer *writer, int id, int tight);

static void put_operation(struct writer *writer, const lc_node *node) {
	int tight = print_binding(node->op);
	if (node->op == LC_NEG) {
		fputc('-', writer->out);
		print_put_value(writer, node->in[0], NEGATED);
		return;
	}
	/* Comparisons do not chain, ^ binds to the right and takes a sign there; the others bind to the
	 * left. */
	int left;
	if (node->op == LC_POW) left = ATOM;
	else if (tight == COMPARED) left = ADDED;
	else left = tight;
	int right = node->op == LC_POW ? NEGATED : tight + 1;
	bool wide = tight <= ADDED;
	print_put_value(writer, node->in[0], left);
	fprintf(writer->out, wide ? " %s " : "%s", lc_ops[node->op].name);
	print_put_value(writer, node->in[1], right);
}

static void print_put_argument(struct writer *writer, const lc_node *node, unsigned kind,
                               int *operand) {
	char text[32];
	switch (kind) {
	case LC_A_OPERAND: print_put_value(writer, node->in[(*operand)++], COMPARED); break;
	case LC_A_DTYPE: fputs(lc_dtype_name((lc_dtype)node->dtype), writer->out); break;
	case LC_A_PROBABILITY:
		fputs(lk_format_shortest(node->number, text, sizeof text), writer->out);
		break;
	case LC_A_KEY: fprintf(writer->out, "key=%lld", (long long)node->key); break;
	case LC_A_REDUCTION: fputs(lc_reduce_name((lc_reduce)node->reduce), writer->out); break;
	case LC_A_AXIS: fputs(writer->p->axes[node->axis].name, writer->out); break;
	case LC_A_DIM:
		fprintf(writer->out, node->op == LC_REDUCESCATTER ? "dim=%d" : "%d", node->d);
		break;
	case LC_A_OTHER_DIM: fprintf(writer->out, "%d", node->e); break;
	case LC_A_ROOT: fprintf(writer->out, "root=%d", node->root); break;
	case LC_A_COUNT: lc_dim_print(writer->p, node->count, writer->out); break;
	case LC_A_SHIFT:
		fprintf(writer->out, "shift=%d", node->shift);
		if (node->by) fprintf(writer->out, "*rank(%s)", writer->p->axes[node->by - 1].name);
		break;
	default: break;
	}
}

static void put_options(struct writer *writer, const lc_node *node) {
	if (node->ta) fputs(", ta", writer->out);
	if (node->tb) fputs(", tb", writer->out);
	if (node->reverse) fputs(", reverse", writer->out);
	if (node->stride != 1) fprintf(writer->out, ", stride=%d", node->stride);
	if (node->pad) fprintf(writer->out, ", pad=%d", node->pad);
	if (node->causal) fputs(", causal", writer->out);
	if (node->window) fprintf(writer->out, ", window=%d", node->window);
	if (lc_ops[node->op].family == LC_ATTEND && node->number > 0) {
		char text[32];
		fprintf(writer->out, ", scale=%s", lk_format_shortest(node->number, text, sizeof text));
	}
	if (node->part) fputs(", part", writer->out);
	if (lc_ops[node->op].family != LC_RED) return;
	bool all = node->dims == (1u << writer->p->nodes.at[node->in[0]].rank) - 1;
	for (int d = 0; d < LC_RANK && !all; d++)
		if (node->dims >> d & 1) fprintf(writer->out, ", %d", d);
	if (node->keep) fputs(", keep", writer->out);
}

static void print_put_call(struct writer *writer, const lc_node *node) {
	int operand = 0;
	char from[LC_NAME + 24], to[LC_NAME + 24];
	fprintf(writer->out, "%s(", lc_ops[node->op].name);
	if (node->op == LC_SEND) {
		print_put_value(writer, node->in[0], COMPARED);
		group_index(&node->from, from, sizeof from);
		group_index(&node->at, to, sizeof to);
		fprintf(writer->out, ", %s: %s->%s)", writer->p->axes[node->at.axis].name, from, to);
		return;
	}
	for (const uint8_t *kind = lc_ops[node->op].arguments; *kind && *kind < LC_A_OPTIONAL; kind++) {
		if (kind != lc_ops[node->op].arguments) fputs(", ", writer->out);
		print_put_argument(writer, node, *kind, &operand);
	}
	put_options(writer, node);
	fputc(')', writer->out);
}

void lc_print_attributes(const lc_program *program, const lc_node *node, FILE *out) {
	struct writer w = {.p = program, .out = out};
	char from[LC_NAME + 24], to[LC_NAME + 24];
	const char *between = "";
	if (node->op == LC_SEND) {
		group_index(&node->from, from, sizeof from);
		group_index(&node->at, to, sizeof to);
		fprintf(out, "%s: %s->%s", program->axes[node->at.axis].name, from, to);
	}
	for (const uint8_t *kind = lc_ops[node->op].arguments; *kind && *kind < LC_A_OPTIONAL; kind++) {
		if (*kind == LC_A_OPERAND) continue;
		fputs(between, out);
		print_put_argument(&w, node, *kind, NULL);
		between = ", ";
	}
	char options[96] = "";
	w.out = lc_text_open(program, options, sizeof options);
	if (!w.out) return;
	put_options(&w, node);
	fclose(w.out);
	fputs(options + (*options && !*between ? 2 : 0), out); /* skip the leading comma */
}

/* Print a value's definition, without its name. */
static void put_definition(struct writer *writer, const lc_node *node) {
	char text[32];
	if (node->op == LC_CONST)
		fputs(lk_format_shortest(node->number, text, sizeof text), writer->out);
	else if (node->op == LC_SIZE)
		fprintf(writer->out, "size(%s)",
		        node->axis >= 0 ? writer->p->axes[node->axis].name
		                        : writer->p->named[node->symbol].name);
	else if (*lc_ops[node->op].arguments || node->op == LC_SEND) print_put_call(writer, node);
	else put_operation(writer, node);
}

static void print_put_value(struct writer *writer, int id, int tight) {
	LK_ASSERT(id >= 0 && (size_t)id < writer->p->nodes.count);
	const lc_node *node = &writer->p->nodes.at[id];
	if (node->name) {
		fputs(node->name, writer->out);
		return;
	}
	if (node->said && writer->brief) {
		fputs(node->said, writer->out);
		return;
	}
	if (writer->depth == 0) {
		fputs("...", writer->out);
		return;
	}
	bool wrapped = print_binding(node->op) < tight;
	writer->depth--;
	if (wrapped) fputc('(', writer->out);
	put_definition(writer, node);
	if (wrapped) fputc(')', writer->out);
	writer->depth++;
}

char *lc_value_text(const lc_program *program, int id, char *out, size_t size) {
	LK_ASSERT(id >= 0 && (size_t)id < program->nodes.count);
	char text[512] = "";
	FILE *file = lc_text_open(program, text, sizeof text);
	if (file) {
		struct writer w = {.p = program, .out = file, .depth = 6, .brief = true};
		print_put_value(&w, id, COMPARED);
		fclose(file);
	}
	text[sizeof text - 1] = '\0';
	if (strlen(text) < size) lk_copy(out, size, text);
	else snprintf(out, size, "%.*s...", (int)size - 4, text);
	return out;
}

/* ---- statements ---- */

/* Whether "at" must be printed: no operand implies it. */
static bool needs_place(const lc_program *program, const lc_node *node) {
	if (node->at.axis < 0 || node->op == LC_SEND) return false;
	for (int i = 0; i < node->inputs; i++)
		if (program->nodes.at[node->in[i]].at.axis >= 0) return false;
	return true;
}

static void print_statement(const lc_program *program, const lc_node *node, FILE *out) {
	struct writer w = {.p = program, .out = out, .depth = LC_VALUES};
	char text[128];
	fputc('\t', out);
	if (node->op == LC_SCALAR) {
		fprintf(out, "scalar %s %s\n", lc_dtype_name((lc_dtype)node->dtype), node->name);
		return;
	}
	if (node->op == LC_INPUT || node->op == LC_STATE) {
		fprintf(out, "%s %s : ", lc_ops[node->op].name, node->name);
		put_type(program, node, out);
		fputc('\n', out);
		return;
	}
	if (node->op == LC_OUT) {
		fputs("out ", out);
		print_put_value(&w, node->in[0], COMPARED);
	} else if (node->op == LC_UPDATE) {
		fprintf(out, "%s <- ", node->name);
		print_put_value(&w, node->in[1], COMPARED);
	} else {
		fprintf(out, "%s = ", node->name);
		put_definition(&w, node);
	}
	if (needs_place(program, node))
		fprintf(out, " at %s", lc_group_text(program, &node->at, text, sizeof text));
	fputc('\n', out);
}

static void declarations(const lc_program *program, FILE *out) {
	for (size_t i = 0; i < program->lists.count; i++)
		fprintf(out, "\tlist %s\n", program->lists.at[i]);
	for (int i = 0; i < program->named_count; i++) {
		fprintf(out, "\tdim %s", program->named[i].name);
		while (i + 1 < program->named_count && program->named[i + 1].list == program->named[i].list)
			fprintf(out, ", %s", program->named[++i].name);
		if (program->named[i].list >= 0)
			fprintf(out, " of %s", program->lists.at[program->named[i].list]);
		fputc('\n', out);
	}
}

void lc_print_program(const lc_program *program, FILE *out) {
	fprintf(out, "program %s(mesh ", program->name);
	for (int i = 0; i < program->axis_count; i++) {
		fprintf(out, i ? ", %s" : "%s", program->axes[i].name);
		if (program->axes[i].size) fprintf(out, "=%lld", (long long)program->axes[i].size);
	}
	fputs(") {\n", out);
	declarations(program, out);
	for (size_t i = 0; i < program->nodes.count; i++)
		if (program->nodes.at[i].name || program->nodes.at[i].op == LC_OUT)
			print_statement(program, &program->nodes.at[i], out);
	fputs("}\n", out);
}

/* ---- schedules ---- */

static void print_put_words(const lc_word *words, int count, const char *begin, const char *end,
                            FILE *out) {
	fputs(begin, out);
	for (int i = 0; i < count; i++) fprintf(out, i ? ", %s" : "%s", words[i].text);
	fputs(end, out);
}

void lc_print_directive(const lc_directive *directive, FILE *out) {
	fprintf(out, "%s ", lc_directive_names[directive->kind]);
	switch (directive->kind) {
	case LC_SPLIT:
	case LC_HIERARCHICAL:
		fprintf(out, "%s -> ", directive->names[0].text);
		print_put_words(directive->results, directive->result_count, "(", ")", out);
		if (directive->kind == LC_HIERARCHICAL)
			fprintf(out, " group %lld", (long long)directive->size);
		else if (directive->dim_given) fprintf(out, " dim %d", directive->dim);
		if (directive->kind == LC_SPLIT && directive->order)
			fprintf(out, " by %s", directive->order);
		break;
	case LC_REORDER:
		fprintf(out, "%s past ", directive->names[0].text);
		print_put_words(directive->names + 1, directive->name_count - 1, "{", "}", out);
		break;
	case LC_SLICE_STATE:
		print_put_words(directive->names, directive->name_count, "", "", out);
		break;
	case LC_RECOMPUTE:
		print_put_words(directive->names, directive->name_count, "{", "}", out);
		print_put_words(directive->results, directive->result_count, " for {", "}", out);
		break;
	case LC_BUCKET:
		print_put_words(directive->names, directive->name_count, "{", "}", out);
		fprintf(out, " size %lld", (long long)directive->size);
		break;
	default:
		if (directive->result_count) fprintf(out, "%s = ", directive->results[0].text);
		print_put_words(directive->names, directive->name_count, "{", "}", out);
	}
	if (directive->kind == LC_OVERLAP && (*directive->chunk || directive->chunks)) {
		fprintf(out, *directive->chunk ? " chunk %s" : " chunk", directive->chunk);
		if (directive->chunks) fprintf(out, " %lld", (long long)directive->chunks);
	}
	if (directive->kind == LC_OVERLAP && directive->order)
		fprintf(out, " order %s", directive->order);
}

void lc_print_schedule(const lc_program *program, const lc_schedule *schedule, FILE *out) {
	fprintf(out, "schedule %s for %s {\n", schedule->name, program->name);
	for (int i = 0; i < schedule->count; i++) {
		fputc('\t', out);
		lc_print_directive(&schedule->directives[i], out);
		fputc('\n', out);
	}
	fputs("}\n", out);
}

void lc_print_file(const lc_file *file, FILE *out) {
	for (size_t i = 0; i < file->programs.count; i++) {
		const lc_program *program = file->programs.at[i];
		if (i) fputc('\n', out);
		lc_print_program(program, out);
		for (size_t k = 0; k < program->schedules.count; k++) {
			fputc('\n', out);
			lc_print_schedule(program, &program->schedules.at[k], out);
		}
	}
}
