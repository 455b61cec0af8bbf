/* emit_mpi.c: a program as one C file for MPI: the program as a comment, the runtime, the
 * schedules, a table, main. */
#include "base/arena.h"
#include "lang/emit/emit_internal.h"

#include <stdlib.h>
#include <string.h>

#include "io/embedded.h"
#include "lang/emit/emit.h"
#include "system/memory.h"

static const char *const runtime_files[] = {
	"target/numbers.h",      "target/values.h",
	"target/mpi.h",          "target/parts.h",
	"target/mpi_open.h",     "target/mpi_collect.h",
	"target/views.h",        "target/product.h",
	"target/linear.h",       "target/mpi_ring.h",
	"target/mpi_ring_run.h", "target/mpi_overlap.h",
	"target/mpi_flow.h",     NULL,
};
static const char *const attention_files[] = {"target/attend.h", "target/mpi_attend.h", NULL};
static const char *const block_files[] = {"target/block.h", "target/mpi_block.h", NULL};

/* ---- steps ---- */

static lk_status mpi_any(lc_mpi *mpi, const lc_step *step) {
	static lc_mpi_step *const kinds[LC_STEP_KINDS] = {
		[LC_STEP_MAP] = lc_mpi_map,         [LC_STEP_CONTRACT] = lc_mpi_contract,
		[LC_STEP_ATTEND] = lc_mpi_contract, [LC_STEP_ROWS] = lc_mpi_contract,
		[LC_STEP_COMM] = lc_mpi_comm,       [LC_STEP_SEND] = lc_mpi_comm,
		[LC_STEP_RING] = lc_mpi_ring,       [LC_STEP_OVERLAP] = lc_mpi_overlap,
	};
	return kinds[step->kind](mpi, step);
}

/* Write the names of a step's values as its comment. */
void lc_mpi_step_comment(const lc_mpi *mpi, const lc_step *step) {
	const char *between = "/* ";
	for (int i = 0; i < step->values.count; i++) {
		const lc_node *node = &mpi->p->nodes.at[step->values.at[i]];
		if (!node->name && node->op != LC_OUT) continue;
		char name[LC_IDENTIFIER];
		fprintf(mpi->out, "%s%s", between,
		        node->op == LC_OUT ? "out" : lc_identifier("", node->name, name));
		between = ", ";
	}
	if (*between == ',') fputs(" */\n", mpi->out);
}

/* Scalars and sizes of a condition, known before any step runs. */
static bool condition_leaf(void *context, int id, int view, FILE *out) {
	const lc_mpi *mpi = context;
	const lc_node *node = lc_node_at(mpi->p, id);
	(void)view;
	if (node->op == LC_SCALAR)
		fprintf(out, "((%s)run->sizes->scalar[%d])", lc_register_type((lc_dtype)node->dtype),
		        lc_mpi_scalar(mpi, id));
	else if (node->op == LC_SIZE) {
		fputc('(', out);
		lc_mpi_size(mpi, id, out);
		fputc(')', out);
	} else return false;
	return true;
}

static bool condition_rounded(void *context, int id) {
	return lc_node_at(((const lc_mpi *)context)->p, id)->op == LC_SCALAR;
}

static void mpi_put_condition(lc_mpi *mpi, int id) {
	lc_text text = {.p = mpi->p,
	                .out = mpi->out,
	                .leaf = condition_leaf,
	                .rounded = condition_rounded,
	                .context = mpi,
	                .view = -1};
	if (id < 0) return;
	fputs("if (", mpi->out);
	lc_put_value(&text, id, LC_BOOL);
	fputs(") ", mpi->out);
}

lk_status lc_mpi_schedule(lc_mpi *mpi, const lc_variant *variant, lc_mpi_step *any) {
	char name[LC_IDENTIFIER];
	mpi->any = any;
	fprintf(mpi->out, "/* ---- schedule %d: ", mpi->number);
	lc_put_comment(variant->name, "", mpi->out);
	if (variant->schedule) lc_put_comment(variant->schedule, " * ", mpi->out);
	fputs(" */\n\n", mpi->out);
	LK_TRY(lc_mpi_plan(mpi));
	LK_TRY(lc_mpi_tables(mpi));
	for (int i = 0; i < mpi->steps->count; i++) {
		lc_mpi_step_comment(mpi, &mpi->steps->at[i]);
		LK_TRY(any(mpi, &mpi->steps->at[i]));
	}
	fprintf(mpi->out, "static void run%d(rt_run *run) {\n", mpi->number);
	for (int i = 0; i < mpi->steps->count; i++) {
		fputc('\t', mpi->out);
		mpi_put_condition(mpi, mpi->steps->at[i].only_if);
		fprintf(mpi->out, "%s(run);\n", lc_mpi_function(mpi, &mpi->steps->at[i], name));
	}
	if (mpi->steps->count == 0) fputs("\t(void)run;\n", mpi->out);
	fputs("}\n\n", mpi->out);
	return LK_OK;
}

static lk_status mpi_put_schedule(lc_mpi *mpi, const lc_variant *variant) {
	char name[LC_IDENTIFIER];
	LK_TRY(lc_mpi_schedule(mpi, variant, mpi_any));
	fprintf(mpi->out, "static const int passes%d[] = {", mpi->number);
	for (size_t i = 0; i < mpi->touched.count; i++)
		fprintf(mpi->out, "%s, ", lc_mpi_number(mpi, mpi->touched.at[i], name));
	fputs("-1};\n\n", mpi->out);
	return LK_OK;
}

/* ---- the axes of a schedule as parts of the program's axes ---- */

/* An axis with another name is a part of a divided one: its groups, or the ranks of a group. */
lk_status lc_mpi_axes(const lc_program *original, const lc_program *program, int number, FILE *out,
                      lk_error *err) {
	int of[LC_AXES], ranks[LC_AXES], to = 0;
	for (int a = 0; a < original->axis_count && to < program->axis_count; a++) {
		bool same = strcmp(original->axes[a].name, program->axes[to].name) == 0;
		of[to] = a;
		ranks[to++] = 0;
		if (same || to == program->axis_count) continue;
		of[to] = a;
		ranks[to] = (int)program->axes[to].size;
		to++;
	}
	if (to != program->axis_count)
		return lk_fail(err, LK_ERR_INPUT, program->name,
		               "the mesh of a schedule is refined more than once");
	fprintf(out, "static const int axes%d[] = {", number);
	for (int a = 0; a < to; a++) fprintf(out, a ? ", %d" : "%d", of[a]);
	fprintf(out, "};\nstatic const int ranks%d[] = {", number);
	for (int a = 0; a < to; a++) fprintf(out, a ? ", %d" : "%d", ranks[a]);
	fputs("};\n\n", out);
	return LK_OK;
}

/* ---- tables ---- */

static void mpi_put_named(const char *name, long long number, FILE *out) {
	fputs("\t{", out);
	lc_put_string(name, out);
	fprintf(out, ", %lld},\n", number);
}

void lc_mpi_program_tables(const lc_program *program, const lc_mpi *mpi, FILE *out) {
	fputs("/* Names with: of axes the ranks, 0 any; of dims their list, -1 none; of scalars the "
	      "format. */\n",
	      out);
	fputs("static const rt_named axis_names[] = {\n", out);
	for (int a = 0; a < program->axis_count; a++)
		mpi_put_named(program->axes[a].name, (long long)program->axes[a].size, out);
	fputs("\t{NULL, 0}\n};\nstatic const rt_named dim_names[] = {\n", out);
	for (int d = 0; d < program->named_count; d++)
		mpi_put_named(program->named[d].name, program->named[d].list, out);
	fputs("\t{NULL, 0}\n};\nstatic const rt_named list_names[] = {\n", out);
	for (size_t l = 0; l < program->lists.count; l++) mpi_put_named(program->lists.at[l], 0, out);
	fputs("\t{NULL, 0}\n};\nstatic const rt_named index_names[] = {\n", out);
	for (size_t i = 0; i < mpi->indices.count; i++) mpi_put_named(mpi->indices.at[i], 0, out);
	fputs("\t{NULL, 0}\n};\nstatic const rt_named scalar_names[] = {\n", out);
	for (size_t i = 0; i < program->nodes.count; i++)
		if (program->nodes.at[i].op == LC_SCALAR)
			mpi_put_named(program->nodes.at[i].name, program->nodes.at[i].dtype, out);
	fputs("\t{NULL, 0}\n};\n\n", out);
}

void lc_mpi_program(const lc_program *program, const lc_variant *variants, int count, bool reaches,
                    FILE *out) {
	fputs("static const rt_schedule schedules[] = {\n", out);
	for (int i = 0; i < count; i++) {
		int n = i + 1;
		fputs("\t{", out);
		lc_put_string(variants[i].name, out);
		fprintf(out,
		        ", %d, axes%d, ranks%d, t%d__count, values%d, shape%d, wrong%d, bound%d, run%d, "
		        "results%d, ",
		        variants[i].program->axis_count, n, n, n, n, n, n, n, n, n);
		fprintf(out, reaches ? "NULL, reached%d},\n" : "passes%d, NULL},\n", n);
	}
	fputs("};\n\nstatic const rt_program program = {", out);
	lc_put_string(program->name, out);
	fprintf(out,
	        ", axis_names, dim_names, list_names, index_names, scalar_names, schedules, %d};\n\n",
	        count);
}

static void put_main(FILE *out) {
	fputs("#ifndef LOCKSTEP_NO_MAIN\n\n", out);
	fputs(lk_data_file("target/input.h", NULL), out);
	fputc('\n', out);
	fputs(lk_data_file("target/main.h", NULL), out);
	fputs("\nint main(int argc, char **argv) { return rt_main(argc, argv, &program); }\n\n#endif\n",
	      out);
}

lk_status lc_mpi_find_indices(lc_mpi *mpi, const lc_program *program) {
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_group *groups[] = {&program->nodes.at[i].at, &program->nodes.at[i].from};
		for (int k = 0; k < 2; k++) {
			if (groups[k]->axis < 0 || !groups[k]->index ||
			    lc_mpi_index(mpi, groups[k]->index) >= 0)
				continue;
			if (!lk_push(&mpi->indices)) return lk_oom(mpi->err);
			*lk_last(&mpi->indices) = groups[k]->index;
		}
	}
	return LK_OK;
}

/* ---- the file ---- */

lk_status lc_mpi_program_text(const lc_program *program, FILE *out, lk_error *err) {
	char *text = NULL;
	size_t size = 0;
	FILE *file = lk_memory_open(&text, &size);
	if (!file) return lk_oom(err);
	lc_print_program(program, file);
	if (!lk_memory_close(file) || !text) {
		free(text);
		return lk_oom(err);
	}
	lc_put_comment(text, " * ", out);
	free(text);
	return LK_OK;
}

void lc_mpi_runtime(const char *const *files, FILE *out) {
	for (; *files; files++) {
		const char *text = lk_data_file(*files, NULL);
		if (text) {
			fputs(text, out);
			fputc('\n', out);
		}
	}
}

static void mpi_put_head(const lc_program *original, FILE *out) {
	fputs("#ifndef _POSIX_C_SOURCE\n#define _POSIX_C_SOURCE 200809L\n#endif\n"
	      "#include <errno.h>\n#include <inttypes.h>\n#include <limits.h>\n#include "
	      "<math.h>\n#include <mpi.h>\n#include <sched.h>\n#include <stdbool.h>\n"
	      "#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n"
	      "#define RT_COMM MPI_Comm\n#define RT_MEMORY void\n\n",
	      out);
	lc_mpi_runtime(runtime_files, out);
	if (lc_program_has(original, LC_ATTEND)) lc_mpi_runtime(attention_files, out);
	if (lc_program_has(original, LC_BLOCK)) lc_mpi_runtime(block_files, out);
}

static lk_status mpi_put_variant(lc_mpi *mpi, const lc_variant *variant) {
	LK_TRY(lc_mpi_find_indices(mpi, mpi->original));
	LK_TRY(mpi_put_schedule(mpi, variant));
	return lc_mpi_axes(mpi->original, mpi->p, mpi->number, mpi->out, mpi->err);
}

static lk_status mpi_put_all(const lc_program *original, const lc_variant *variants, int count,
                             lc_mpi *contexts, FILE *out, lk_error *err) {
	fputs("/* Generated by lockstep from this program, in C11 with MPI:\n *\n", out);
	LK_TRY(lc_mpi_program_text(original, out, err));
	fputs(" *\n * cc: mpicc -O3 FILE.c -lm; with -DLOCKSTEP_BLAS ... -lopenblas matrices are "
	      "multiplied by cblas. --help lists the\n"
	      " * program's options; with -DLOCKSTEP_NO_MAIN it has none, and another program calls "
	      "it.\n */\n",
	      out);
	mpi_put_head(original, out);
	for (int i = 0; i < count; i++) LK_TRY(mpi_put_variant(&contexts[i], &variants[i]));
	lc_mpi_program_tables(original, &contexts[0], out);
	lc_mpi_program(original, variants, count, false, out);
	lc_mpi_api_head(original, variants, count, false, out);
	for (int i = 0; i < count; i++) lc_mpi_api(&contexts[i], &variants[i], false);
	put_main(out);
	return LK_OK;
}

lk_status lc_mpi_write(const lc_program *original, const lc_variant *variants, int count,
                       lc_mpi_writer *write, FILE *out, lk_error *err) {
	lc_mpi *contexts = calloc((size_t)count + 1, sizeof *contexts);
	if (!contexts) return lk_oom(err);
	for (int i = 0; i < count; i++)
		contexts[i] = (lc_mpi){.original = original,
		                       .p = variants[i].program,
		                       .steps = variants[i].steps,
		                       .out = out,
		                       .number = i + 1,
		                       .helper = "",
		                       .err = err};
	lk_status status = write(original, variants, count, contexts, out, err);
	for (int i = 0; i < count; i++) {
		lk_vec_free(&contexts[i].touched);
		lk_vec_free(&contexts[i].indices);
		lk_arena_free(&contexts[i].arena);
	}
	free(contexts);
	return status;
}

lk_status lc_emit_mpi(const lc_program *original, const lc_variant *variants, int count, FILE *out,
                      lk_error *err) {
	return lc_mpi_write(original, variants, count, mpi_put_all, out, err);
}
