/* emit_mpi_api.c: definitions of emit_header.c's functions: sizes into the runtime's form, pointers
 * into parts. */
#include <string.h>

#include "lang/emit/emit_internal.h"
#include "base/check.h"

static void put_plan(const lc_program *program, FILE *out) {
	char type[LC_API], name[LC_API];
	lc_api_name(program, "", "", type);
	fprintf(out,
	        "struct %s {\n\trt_sizes sizes;\n\trt_run *run;\n\tconst char *const *arguments; /* of "
	        "the values that have them */\n\tconst int *values;\n};\n\n",
	        type);
	fprintf(
		out,
		"void %s(%s *plan) {\n\tif (!plan) "
		"return;\n\trt_close(plan->run);\n\trt_sizes_close(&plan->sizes);\n\tfree(plan);\n}\n\n",
		lc_api_name(program, "_close", "", name), type);
	fprintf(out,
	        "int64_t %s(const %s *plan, const char *argument, int64_t item, int64_t begin[6], "
	        "int64_t extent[6]) {\n"
	        "\tfor (int i = 0; plan->arguments[i]; i++)\n"
	        "\t\tif (strcmp(plan->arguments[i], argument) == 0) return rt_describe(plan->run, "
	        "plan->values[i], item, begin, extent);\n"
	        "\treturn -1;\n}\n\n",
	        lc_api_name(program, "_part", "", name), type);
}

static void api_put_sizes(const lc_program *program, FILE *out) {
	const char *indices[LC_VALUES];
	char type[LC_API], name[LC_IDENTIFIER], list[LC_IDENTIFIER];
	int count = lc_api_indices(program, indices);
	fprintf(out, "static int take_sizes(const %s *from, rt_sizes *to) {\n",
	        lc_api_name(program, "_sizes", "", type));
	for (int a = 0; a < program->axis_count; a++)
		fprintf(out, "\tto->axis[%d] = from->%s;\n", a,
		        lc_identifier("ranks_", program->axes[a].name, name));
	for (size_t l = 0; l < program->lists.count; l++)
		fprintf(out, "\tto->items[%zu] = from->%s;\n", l,
		        lc_identifier("list_", program->lists.at[l], name));
	for (int i = 0; i < count; i++)
		fprintf(out, "\tto->index[%d] = from->%s;\n", i, lc_identifier("index_", indices[i], name));
	for (int d = 0; d < program->named_count; d++) {
		lc_identifier("dim_", program->named[d].name, name);
		if (program->named[d].list < 0) fprintf(out, "\tto->dim[%d] = from->%s;\n", d, name);
		else
			fprintf(out, "\tif (rt_copy_each(from->%s, from->%s, &to->each[%d])) return 1;\n", name,
			        lc_identifier("list_", program->lists.at[program->named[d].list], list), d);
	}
	int scalars = 0;
	for (size_t i = 0; i < program->nodes.count; i++)
		scalars += program->nodes.at[i].op == LC_SCALAR;
	fprintf(
		out,
		"\tto->scalar = (double *)calloc(%d, sizeof *to->scalar);\n\treturn !to->scalar;\n}\n\n",
		scalars + 1);
	fprintf(out,
	        "static void take_scalars(const %s *from, rt_sizes *to) {\n\t(void)from, (void)to;\n",
	        lc_api_name(program, "_scalars", "", type));
	for (size_t i = 0, at = 0; i < program->nodes.count; i++)
		if (program->nodes.at[i].op == LC_SCALAR)
			fprintf(out, "\tto->scalar[%zu] = from->%s;\n", at++,
			        lc_identifier("scalar_", program->nodes.at[i].name, name));
	fputs("}\n\n", out);
}

bool lc_api_is_argument(const lc_program *program, int id, int kind) {
	static const lc_op ops[] = {LC_INPUT, LC_STATE, LC_OUT};
	return program->nodes.at[id].op == ops[kind];
}

static void api_put_arguments(const lc_mpi *mpi) {
	char name[LC_IDENTIFIER];
	for (int table = 0; table < 2; table++) {
		int output = 0;
		fprintf(mpi->out,
		        table ? "static const int api_values%d[] = {"
		              : "static const char *const api_names%d[] = {",
		        mpi->number);
		for (int kind = 0; kind < 3; kind++)
			for (int id = 0; id < (int)mpi->p->nodes.count; id++) {
				if (!lc_api_is_argument(mpi->p, id, kind)) continue;
				if (kind == 2) output++;
				if (table) fprintf(mpi->out, "%s, ", lc_mpi_number(mpi, id, name));
				else {
					lc_put_string(lc_api_argument(mpi->p, id, output, name), mpi->out);
					fputs(", ", mpi->out);
				}
			}
		fputs(table ? "-1};\n\n" : "NULL};\n", mpi->out);
	}
}

static void put_open(const lc_mpi *mpi, const lc_variant *variant, bool cuda) {
	char name[LC_API];
	lc_api_open_signature(mpi->original, variant, cuda, mpi->out);
	fprintf(mpi->out,
	        " {\n\tchar reason[RT_ERROR] = \"\";\n\t*plan = (%s *)calloc(1, sizeof **plan);\n"
	        "\tint wrong = !*plan || take_sizes(sizes, &(*plan)->sizes);\n"
	        "\tif (wrong) rt_wrong(reason, \"out of memory\", NULL);\n",
	        lc_api_name(mpi->original, "", "", name));
	if (cuda)
		fprintf(mpi->out,
		        "\telse (*plan)->run = rt_open_lent(&program, &schedules[%d], &(*plan)->sizes, "
		        "all, stream, reason);\n",
		        mpi->number - 1);
	else
		fprintf(mpi->out,
		        "\tif (!rt_agree(all, wrong, reason)) (*plan)->run = rt_open(&program, "
		        "&schedules[%d], &(*plan)->sizes, true, all, reason);\n",
		        mpi->number - 1);
	fprintf(mpi->out,
	        "\tif (*plan && (*plan)->run) {\n\t\t(*plan)->arguments = api_names%d, (*plan)->values "
	        "= api_values%d;\n\t\treturn 0;\n\t}\n",
	        mpi->number, mpi->number);
	fprintf(mpi->out,
	        "\tif (error) memcpy(error, reason, sizeof reason);\n\t%s(*plan);\n\t*plan = "
	        "NULL;\n\treturn 1;\n}\n\n",
	        lc_api_name(mpi->original, "_close", "", name));
}

static void api_put_argument(const lc_mpi *mpi, int id, int output) {
	LK_ASSERT(id >= 0 && (size_t)id < mpi->p->nodes.count);
	const lc_node *node = &mpi->p->nodes.at[id];
	char name[LC_IDENTIFIER], number[LC_IDENTIFIER];
	bool list = node->list >= 0, out = node->op == LC_OUT;
	lc_api_argument(mpi->p, id, output, name);
	lc_mpi_number(mpi, id, number);
	const char *call = out ? "rt_return" : "wrong |= rt_lend";
	if (!list) {
		fprintf(mpi->out, "\t%s(run, %s, 0, %s);\n", call, number, name);
		return;
	}
	fprintf(mpi->out, "\tfor (int64_t item = 0; item < rt_items(run, %s)", number);
	if (out) fprintf(mpi->out, " && %s", name);
	fprintf(mpi->out, "; item++)\n\t\t%s(run, %s, item, %s[item]);\n", call, number, name);
}

static void api_put_step(const lc_mpi *mpi, const lc_variant *variant, bool cuda) {
	int output = 0;
	lc_api_signature(mpi->original, variant, mpi->out);
	fputs(" {\n\trt_run *run = plan->run;\n\tint wrong = 0;\n\ttake_scalars(scalars, "
	      "&plan->sizes);\n",
	      mpi->out);
	for (int kind = 0; kind < 3; kind++) {
		if (kind == 2)
			fprintf(mpi->out, "\tif (wrong) return 1;\n\trt_share_parts(run);\n\trun%d(run);\n",
			        mpi->number);
		for (int id = 0; id < (int)mpi->p->nodes.count; id++)
			if (lc_api_is_argument(mpi->p, id, kind))
				api_put_argument(mpi, id, kind == 2 ? ++output : 0);
	}
	fputs(cuda ? "\treturn run->error[0] != 0;\n}\n\n" : "\treturn 0;\n}\n\n", mpi->out);
}

void lc_mpi_api(const lc_mpi *mpi, const lc_variant *variant, bool cuda) {
	api_put_arguments(mpi);
	put_open(mpi, variant, cuda);
	api_put_step(mpi, variant, cuda);
}

void lc_mpi_api_head(const lc_program *original, const lc_variant *variants, int count, bool cuda,
                     FILE *out) {
	fputs("/* ---- for other programs ---- */\n\n", out);
	if (cuda) fputs("extern \"C\" {\n", out);
	lc_api_declarations(original, variants, count, cuda, out);
	if (cuda) fputs("}\n", out);
	fputc('\n', out);
	put_plan(original, out);
	api_put_sizes(original, out);
}
