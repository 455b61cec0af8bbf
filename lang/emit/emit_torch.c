/* emit_torch.c: a Python module for PyTorch. It holds the C source of emit_mpi.c, which it compiles
 * at first use and calls with tensors' memory, and the program again in torch's own operations, as
 * a reference. data/target/torch.py is the rest of the module.
 *
 * In the reference every value is a rank's part: shapes are cut by the layouts, so that only
 * collectives, slices and new dims need the mesh. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "lang/emit/emit_internal.h"

static const char *const torch_files[] = {"target/torch.py", NULL};

/* ---- what torch lacks ---- */

/* NULL: not in torch. */
static const char *torch_dtype(lc_dtype t) {
	static const char *const names[LC_DTYPE_COUNT] = {
		[LC_F64] = "torch.float64",   [LC_F32] = "torch.float32", [LC_F16] = "torch.float16",
		[LC_BF16] = "torch.bfloat16", [LC_I64] = "torch.int64",   [LC_I32] = "torch.int32",
		[LC_I16] = "torch.int16",     [LC_I8] = "torch.int8",     [LC_U8] = "torch.uint8",
		[LC_BOOL] = "torch.bool",     [LC_WEAK_INT] = "None",     [LC_WEAK_REAL] = "None"};
	return names[t];
}

static lk_status torch_check(const lc_program *program, lk_error *err) {
	if (program->lists.count) {
		lc_wrong(program, program->line, program->column, err,
		         "%s works on a list, and a module for torch takes single tensors", program->name);
		return lk_hint(err, "write it for one tensor, and call it for each");
	}
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[i];
		if (torch_dtype((lc_dtype)node->dtype)) continue;
		lc_wrong(program, node->line, node->column, err, "torch has no tensors of %s",
		         lc_dtype_name((lc_dtype)node->dtype));
		return lk_hint(err, "use a format that it has, or emit C for MPI");
	}
	return LK_OK;
}

/* Why there is no reference; NULL: there is one. */
static const char *torch_refused(const lc_program *program) {
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[i];
		if (node->op == LC_DROPOUT) return "dropout draws by the place in the whole tensor";
		if (lc_ops[node->op].family == LC_ATTEND || lc_ops[node->op].family == LC_BLOCK)
			return "attention, sorts and factors are not written in torch's operations";
		if (node->by) return "ranks shift by their places";
		if (node->op == LC_SEND || node->at.axis >= 0)
			return "ranks of different groups run different parts of it";
		for (int a = 0; a < program->axis_count; a++) {
			if (node->layout[a].kind == LC_ROOT) return "a value lies on one rank alone";
			if (node->layout[a].kind == LC_S && node->layout[a].turn)
				return "slices of other ranks are worked on";
		}
	}
	return NULL;
}

/* ---- small parts ---- */

struct torch {
	const lc_program *p;
	FILE *out;
};

static void put_python_string(const char *text, FILE *out) {
	fputc('"', out);
	for (; *text; text++) fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
	fputc('"', out);
}

static void put_extent(const struct torch *torch, lc_dim d) {
	fputs("mesh.extent(\"", torch->out);
	lc_dim_print(torch->p, d, torch->out);
	fputs("\")", torch->out);
}

/* Write mesh.shape([...], {...}) of a value; `what`: shape or box. */
static void put_box(const struct torch *torch, const lc_node *node, const char *what) {
	const char *comma = "";
	fprintf(torch->out, "mesh.%s([", what);
	for (int d = 0; d < node->rank; d++) {
		fputs(d ? ", \"" : "\"", torch->out);
		lc_dim_print(torch->p, node->dim[d], torch->out);
		fputc('"', torch->out);
	}
	fputs("], {", torch->out);
	for (int a = 0; a < torch->p->axis_count; a++) {
		if (node->layout[a].kind != LC_S) continue;
		fprintf(torch->out, "%s\"%s\": %d", comma, torch->p->axes[a].name, node->layout[a].dim);
		comma = ", ";
	}
	fputs("})", torch->out);
}

/* ---- one value ---- */

static void put_leaf(const struct torch *torch, const lc_node *node) {
	switch (node->op) {
	case LC_INPUT: fprintf(torch->out, "x[\"%s\"]", node->name); break;
	case LC_STATE: fprintf(torch->out, "s[\"%s\"]", node->name); break;
	case LC_SCALAR:
		fprintf(torch->out, "_tensor(c[\"%s\"], %s)", node->name,
		        torch_dtype((lc_dtype)node->dtype));
		break;
	case LC_SIZE:
		fprintf(torch->out, "mesh.sizes[\"%s\"]",
		        node->axis >= 0 ? torch->p->axes[node->axis].name
		                        : torch->p->named[node->symbol].name);
		break;
	default: break;
	}
}

static const char *torch_operator(int op) {
	switch (op) {
	case LC_EQ: return "==";
	case LC_POW: return "**";
	default: return lc_ops[op].name;
	}
}

static void torch_put_map(const struct torch *torch, const lc_node *node) {
	int a = node->in[0], b = node->in[1];
	const char *dtype = torch_dtype((lc_dtype)node->dtype);
	bool whole = lc_is_integer((lc_dtype)node->dtype) && !lc_is_weak((lc_dtype)node->dtype);
	switch (node->op) {
	case LC_NEG: fprintf(torch->out, "-v%d", a); break;
	case LC_COPY: fprintf(torch->out, "v%d", a); break;
	case LC_CAST: fprintf(torch->out, "_tensor(v%d, %s)", a, dtype); break;
	case LC_SELECT:
		fprintf(torch->out, "_select(v%d, v%d, v%d, %s)", a, b, node->in[2], dtype);
		break;
	case LC_MIN:
	case LC_MAX:
		fprintf(torch->out, "torch.%s(_tensor(v%d, %s), _tensor(v%d, %s))", lc_ops[node->op].name,
		        a, dtype, b, dtype);
		break;
	case LC_DIV: fprintf(torch->out, whole ? "_quotient(v%d, v%d)" : "v%d / v%d", a, b); break;
	default:
		if (node->inputs == 1) fprintf(torch->out, "_%s(v%d)", lc_ops[node->op].name, a);
		else fprintf(torch->out, "v%d %s v%d", a, torch_operator(node->op), b);
	}
}

static const char *turned(bool transposed) {
	return transposed ? ".transpose(-1, -2)" : "";
}

static void put_contract(const struct torch *torch, const lc_node *node) {
	if (node->op == LC_MATMUL)
		fprintf(torch->out, "torch.matmul(v%d%s, v%d%s)", node->in[0], turned(node->ta),
		        node->in[1], turned(node->tb));
	else
		fprintf(torch->out, "torch.nn.functional.conv2d(v%d, v%d, stride=%d, padding=%d)",
		        node->in[0], node->in[1], node->stride, node->pad);
}

static void put_rows(const struct torch *torch, const lc_node *node) {
	fprintf(torch->out, "_%s(v%d, v%d, ", lc_ops[node->op].name, node->in[0], node->in[1]);
	if (node->op == LC_GATHER_ROWS) {
		put_box(torch, lc_node_at(torch->p, node->in[0]), "box");
		fputs("[0][0], ", torch->out);
		put_extent(torch, lc_node_at(torch->p, node->in[0])->dim[0]);
	} else put_extent(torch, node->count);
	fputc(')', torch->out);
}

static void put_view(const struct torch *torch, const lc_node *node) {
	int a = node->in[0];
	switch (node->op) {
	case LC_TRANSPOSE: fprintf(torch->out, "v%d.transpose(%d, %d)", a, node->d, node->e); return;
	case LC_CONCAT:
		fprintf(torch->out, "torch.cat([v%d, v%d], %d)", a, node->in[1], node->d);
		return;
	case LC_CUMSUM:
		fprintf(torch->out, "_cumsum(v%d, %d, %s)", a, node->d, node->reverse ? "True" : "False");
		return;
	case LC_IOTA:
		fputs("torch.arange(", torch->out);
		put_extent(torch, node->count);
		fprintf(torch->out, ").to(%s)", torch_dtype((lc_dtype)node->dtype));
		return;
	case LC_SPREAD:
		fprintf(torch->out, "v%d.unsqueeze(%d).repeat_interleave(", a, node->d);
		put_extent(torch, node->count);
		fprintf(torch->out, ", %d)", node->d);
		return;
	case LC_FIRST_OF:
	case LC_LAST_OF:
		fprintf(torch->out, "_cut_to(v%d, %d, ", a, node->d);
		put_extent(torch, node->count);
		fputs(node->op == LC_FIRST_OF ? ", True)" : ", False)", torch->out);
		return;
	default: /* parts, join */
		fprintf(torch->out, "v%d.reshape(", a);
		put_box(torch, node, "shape");
		fputc(')', torch->out);
	}
}

static void put_reduction(const struct torch *torch, const lc_node *node) {
	bool mean = node->op == LC_RED_MEAN;
	const lc_node *x = lc_node_at(torch->p, node->in[0]);
	const char *comma = "";
	fprintf(torch->out, "_reduce(v%d, \"%s\", [", node->in[0],
	        mean ? "sum" : lc_ops[node->op].name);
	for (int d = 0; d < x->rank; d++) {
		if (!(node->dims >> d & 1)) continue;
		fprintf(torch->out, "%s%d", comma, d);
		comma = ", ";
	}
	fprintf(torch->out, "], %s)", node->keep ? "True" : "False");
	for (int d = 0; d < x->rank && mean; d++) {
		if (!(node->dims >> d & 1)) continue;
		fputs(" / ", torch->out);
		put_extent(torch, x->dim[d]);
	}
}

/* How many elements along dim d the ranks of this axis hold together: outer axes may cut it too. */
static void put_whole_extent(const struct torch *torch, const lc_node *node, int d) {
	put_box(torch, node, "shape");
	fprintf(torch->out, "[%d]", d);
}

static void put_collective(const struct torch *torch, const lc_node *node) {
	const char *axis = torch->p->axes[node->axis].name;
	int a = node->in[0];
	switch (node->op) {
	case LC_SLICE: fprintf(torch->out, "mesh.slice(v%d, %d, \"%s\")", a, node->d, axis); return;
	case LC_ALLREDUCE:
		fprintf(torch->out, "mesh.allreduce(v%d, \"%s\", \"%s\")", a, axis,
		        lc_reduce_name((lc_reduce)node->reduce));
		return;
	case LC_REDUCESCATTER:
		fprintf(torch->out, "mesh.reducescatter(v%d, \"%s\", \"%s\", %d)", a, axis,
		        lc_reduce_name((lc_reduce)node->reduce), node->d);
		return;
	case LC_ALLGATHER:
		fprintf(torch->out, "mesh.allgather(v%d, %d, \"%s\", ", a, node->d, axis);
		put_whole_extent(torch, node, node->d);
		fputc(')', torch->out);
		return;
	case LC_ALLTOALL:
		fprintf(torch->out, "mesh.alltoall(v%d, %d, %d, \"%s\", ", a, node->d, node->e, axis);
		put_whole_extent(torch, node, node->d);
		fputc(')', torch->out);
		return;
	case LC_PERMUTE:
		fprintf(torch->out, "mesh.permute(v%d, \"%s\", %d)", a, axis, node->shift);
		return;
	default: fprintf(torch->out, "v%d", a); /* local, sliced, partial */
	}
}

static void put_torch_value(const struct torch *torch, int id) {
	const lc_node *node = lc_node_at(torch->p, id);
	char number[32];
	if (node->op == LC_OUT) {
		fprintf(torch->out, "    outputs.append(v%d)\n", node->in[0]);
		return;
	}
	fprintf(torch->out, "    v%d = ", id);
	if (node->op == LC_CONST)
		fputs(lk_format_shortest(node->number, number, sizeof number), torch->out);
	else switch (lc_ops[node->op].family) {
		case LC_LEAF: put_leaf(torch, node); break;
		case LC_MAP: torch_put_map(torch, node); break;
		case LC_CONTRACT: put_contract(torch, node); break;
		case LC_ROWS: put_rows(torch, node); break;
		case LC_VIEW: put_view(torch, node); break;
		case LC_RED: put_reduction(torch, node); break;
		case LC_COMM: put_collective(torch, node); break;
		default: fprintf(torch->out, "new[\"%s\"] = v%d", node->name, node->in[1]); /* update */
		}
	if (node->name && node->op != LC_UPDATE) fprintf(torch->out, "  # %s", node->name);
	fputc('\n', torch->out);
}

/* A schedule's program, as its directives have rewritten it; what they run together follows one
 * another here. */
static void put_reference(const lc_program *program, int schedule, FILE *out) {
	struct torch torch = {.p = program, .out = out};
	fprintf(out, "\n\ndef reference_%d(mesh, x, s, c):\n    outputs, new = [], {}\n", schedule);
	for (int id = 0; id < (int)program->nodes.count; id++) put_torch_value(&torch, id);
	fputs("    return outputs, new\n", out);
}

/* Whether a schedule has a reference: its mesh is the program's, which "hierarchical" changes. */
static bool has_reference(const lc_program *original, const lc_program *program) {
	return program->axis_count == original->axis_count && !torch_refused(program);
}

static void put_references(const lc_program *original, const lc_variant *variants, int count,
                           FILE *out) {
	const char *refused = torch_refused(original);
	fputs("REFUSED = ", out);
	put_python_string(refused ? refused : "", out);
	fputc('\n', out);
	for (int i = 0; i < count; i++)
		if (has_reference(original, variants[i].program))
			put_reference(variants[i].program, i, out);
	fputs("\n\nREFERENCES = [", out);
	for (int i = 0; i < count; i++) {
		fputs(i ? ", " : "", out);
		if (has_reference(original, variants[i].program)) fprintf(out, "reference_%d", i);
		else fputs("None", out);
	}
	fputs("]\n", out);
}

/* ---- tables ---- */

static void put_names(const char *table, const char *const *names, int count, FILE *out) {
	fprintf(out, "%s = [", table);
	for (int i = 0; i < count; i++) {
		fputs(i ? ", " : "", out);
		put_python_string(names[i], out);
	}
	fputs("]\n", out);
}

/* The name of argument `id` of a kind (inputs, states, outputs), "in_g"; NULL: of another kind. */
static const char *torch_argument(const lc_program *program, int id, int kind, int *output,
                                  char name[LC_IDENTIFIER]) {
	if (!lc_api_is_argument(program, id, kind)) return NULL;
	bool is_output = program->nodes.at[id].op == LC_OUT;
	return lc_api_argument(program, id, is_output ? ++*output : 0, name);
}

static void put_arguments(const lc_program *program, FILE *out) {
	char name[LC_IDENTIFIER], layout[LC_NAME + 64];
	int output = 0;
	fputs("    {\n", out);
	for (int kind = 0; kind < 3; kind++)
		for (int id = 0; id < (int)program->nodes.count; id++) {
			const lc_node *node = &program->nodes.at[id];
			if (!torch_argument(program, id, kind, &output, name)) continue;
			fprintf(out, "        \"%s\": (%s, [", name, torch_dtype((lc_dtype)node->dtype));
			for (int d = 0; d < node->rank; d++) {
				fputs(d ? ", \"" : "\"", out);
				lc_dim_print(program, node->dim[d], out);
				fputc('"', out);
			}
			fputs("], \"", out);
			for (int a = 0; a < program->axis_count; a++)
				fprintf(out, "%s%s", a ? " " : "",
				        lc_layout_text(program, &node->layout[a], a, layout, sizeof layout));
			fputs("\"),\n", out);
		}
	fputs("    },\n", out);
}

static void put_tables(const lc_program *program, const lc_variant *variants, int count,
                       FILE *out) {
	const char *axes[LC_AXES], *sizes[LC_SYMBOLS + LC_VALUES], *scalars[LC_VALUES];
	const char *schedules[256 + 1];
	int size_count = 0, scalar_count = 0;
	for (int a = 0; a < program->axis_count; a++)
		axes[a] = sizes[size_count++] = program->axes[a].name;
	for (int d = 0; d < program->named_count; d++) sizes[size_count++] = program->named[d].name;
	size_count += lc_api_indices(program, &sizes[size_count]);
	for (size_t i = 0; i < program->nodes.count; i++)
		if (program->nodes.at[i].op == LC_SCALAR)
			scalars[scalar_count++] = program->nodes.at[i].name;
	for (int i = 0; i < count; i++) schedules[i] = variants[i].name;
	fputs("# ---- the program ----\n\nPROGRAM = ", out);
	put_python_string(program->name, out);
	fputc('\n', out);
	put_names("AXES", axes, program->axis_count, out);
	put_names("SIZES", sizes, size_count, out);
	put_names("SCALARS", scalars, scalar_count, out);
	put_names("SCHEDULES", schedules, count, out);
	fputs("ARGUMENTS = [  # of each schedule: format, dims, layout\n", out);
	for (int i = 0; i < count; i++) put_arguments(variants[i].program, out);
	fputs("]\n", out);
}

/* ---- C functions without types of the program, for Python to call ---- */

static void put_glue_open(const lc_program *program, const lc_variant *variants, int count,
                          FILE *out) {
	const char *indices[LC_VALUES];
	char name[LC_API], field[LC_IDENTIFIER];
	int at = 0, index_count = lc_api_indices(program, indices);
	fprintf(out,
	        "int lk_torch_open(int schedule, const int64_t *sizes, int count, const int *ranks, "
	        "void **plan, char *error) {\n"
	        "\tint begun, given;\n\tMPI_Group world, some;\n\tMPI_Comm all;\n"
	        "\tMPI_Initialized(&begun);\n"
	        "\tif (!begun) {\n\t\tMPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given);\n"
	        "\t\tatexit(lk_torch_end); /* who begins it ends it */\n\t}\n"
	        "\tMPI_Comm_group(MPI_COMM_WORLD, &world);\n"
	        "\tMPI_Group_incl(world, count, ranks, &some);\n"
	        "\tMPI_Comm_create_group(MPI_COMM_WORLD, some, 0, &all);\n"
	        "\tMPI_Group_free(&some);\n\tMPI_Group_free(&world);\n\t%s of = {0};\n",
	        lc_api_name(program, "_sizes", "", name));
	for (int a = 0; a < program->axis_count; a++)
		fprintf(out, "\tof.%s = (int)sizes[%d];\n",
		        lc_identifier("ranks_", program->axes[a].name, field), at++);
	for (int d = 0; d < program->named_count; d++)
		fprintf(out, "\tof.%s = sizes[%d];\n", lc_identifier("dim_", program->named[d].name, field),
		        at++);
	for (int i = 0; i < index_count; i++)
		fprintf(out, "\tof.%s = sizes[%d];\n", lc_identifier("index_", indices[i], field), at++);
	fputs("\tswitch (schedule) {\n", out);
	for (int i = 0; i < count; i++) {
		char type[LC_API];
		fprintf(out, "\tcase %d: return %s(&of, all, (%s **)plan, error);\n", i,
		        lc_api_name(program, "_open_", variants[i].name, name),
		        lc_api_name(program, "", "", type));
	}
	fputs("\tdefault: return 1;\n\t}\n}\n\n", out);
}

static void put_glue_run(const lc_program *program, const lc_variant *variants, int count,
                         FILE *out) {
	char name[LC_API], field[LC_IDENTIFIER];
	int at = 0;
	fprintf(out,
	        "int lk_torch_run(int schedule, void *plan, const double *scalars, void *const *of) "
	        "{\n\t%s with = {0};\n\t(void)scalars, (void)of;\n",
	        lc_api_name(program, "_scalars", "", name));
	for (size_t i = 0; i < program->nodes.count; i++)
		if (program->nodes.at[i].op == LC_SCALAR)
			fprintf(out, "\twith.%s = scalars[%d];\n",
			        lc_identifier("scalar_", program->nodes.at[i].name, field), at++);
	fputs("\tswitch (schedule) {\n", out);
	for (int i = 0; i < count; i++) {
		int output = 0, argument = 0;
		fprintf(out, "\tcase %d: return %s(plan, &with", i,
		        lc_api_name(program, "_run_", variants[i].name, name));
		for (int kind = 0; kind < 3; kind++)
			for (int id = 0; id < (int)variants[i].program->nodes.count; id++)
				if (torch_argument(variants[i].program, id, kind, &output, field))
					fprintf(out, ", of[%d]", argument++);
		fputs(");\n", out);
	}
	fputs("\tdefault: return 1;\n\t}\n}\n\n", out);
}

static void put_glue(const lc_program *program, const lc_variant *variants, int count, FILE *out) {
	char name[LC_API];
	fputs("static void lk_torch_end(void) {\n\tint ended;\n\tMPI_Finalized(&ended);\n\tif (!ended) "
	      "MPI_Finalize();\n}\n\n",
	      out);
	put_glue_open(program, variants, count, out);
	put_glue_run(program, variants, count, out);
	fprintf(out,
	        "int64_t lk_torch_part(void *plan, const char *argument, int64_t begin[6], int64_t "
	        "extent[6]) {\n\treturn %s(plan, argument, 0, begin, extent);\n}\n\n",
	        lc_api_name(program, "_part", "", name));
	fprintf(out, "void lk_torch_close(void *plan) { %s(plan); }\n",
	        lc_api_name(program, "_close", "", name));
}

/* ---- the module ---- */

lk_status lc_emit_torch(const lc_program *original, const lc_variant *variants, int count,
                        FILE *out, lk_error *err) {
	LK_TRY(torch_check(original, err));
	fprintf(out, "r'''%s for PyTorch, made by lockstep from this program:\n\n", original->name);
	LK_TRY(lc_mpi_program_text(original, out, err));
	fputs("\nCompiled(schedule, sizes, group) compiles the C source below at first use; "
	      "Reference(sizes, group) is the same by torch.\n'''\n\n",
	      out);
	lc_mpi_runtime(torch_files, out);
	fputs("\n\n", out);
	put_tables(original, variants, count, out);
	put_references(original, variants, count, out);
	fputs("\n\nSOURCE = r'''", out);
	LK_TRY(lc_emit_mpi(original, variants, count, out, err));
	fputs("'''\n\nGLUE = r'''\n", out);
	put_glue(original, variants, count, out);
	fputs("'''\n", out);
	return LK_OK;
}
