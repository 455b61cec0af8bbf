/* emit_header.c: the header by which a user's program calls an emitted one: sizes, scalars, and for
 * each schedule a function that opens it and one that runs a step of it on the caller's memory,
 * lk_PROGRAM_open_SCHEDULE and _run_SCHEDULE.
 *
 * Fields are ranks_AXIS, dim_DIM, list_LIST, index_INDEX, scalar_SCALAR, arguments in_NAME,
 * state_NAME and outN_NAME. */
#include "lang/emit/emit_internal.h"

#include <string.h>

#include "lang/run/run.h"
#include "base/check.h"

/* ---- names ---- */

char *lc_api_name(const lc_program *original, const char *what, const char *schedule,
                  char out[LC_API]) {
	char program[LC_IDENTIFIER], name[LC_IDENTIFIER];
	snprintf(out, LC_API, "%s%s%s", lc_identifier("lk_", original->name, program), what,
	         lc_identifier("", schedule, name));
	return out;
}

char *lc_api_argument(const lc_program *program, int id, int output, char out[LC_IDENTIFIER]) {
	LK_ASSERT(id >= 0 && (size_t)id < program->nodes.count);
	const lc_node *node = &program->nodes.at[id];
	char prefix[24];
	if (node->op != LC_OUT)
		return lc_identifier(node->op == LC_INPUT ? "in_" : "state_", node->name, out);
	const char *name = program->nodes.at[node->in[0]].name;
	snprintf(prefix, sizeof prefix, name ? "out%d_" : "out%d", output);
	return lc_identifier(prefix, name ? name : "", out);
}

/* ---- structures ---- */

static void header_field(const char *type, const char *prefix, const char *name,
                         const char *comment, FILE *out) {
	char text[LC_IDENTIFIER];
	fprintf(out, "\t%s%s;%s\n", type, lc_identifier(prefix, name, text), comment);
}

int lc_api_indices(const lc_program *program, const char *names[LC_VALUES]) {
	int count = 0;
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_group *groups[] = {&program->nodes.at[i].at, &program->nodes.at[i].from};
		for (int k = 0; k < 2; k++) {
			bool found = groups[k]->axis < 0 || !groups[k]->index;
			for (int j = 0; j < count && !found; j++)
				found = strcmp(names[j], groups[k]->index) == 0;
			if (!found && count < LC_VALUES) names[count++] = groups[k]->index;
		}
	}
	return count;
}

static void header_put_sizes(const lc_program *program, FILE *out) {
	const char *indices[LC_VALUES];
	char name[LC_API];
	int count = lc_api_indices(program, indices);
	fputs("/* What the program leaves open. The product of ranks is the communicator's size. "
	      "*/\ntypedef struct ",
	      out);
	fprintf(out, "%s {\n", lc_api_name(program, "_sizes", "", name));
	for (int a = 0; a < program->axis_count; a++)
		header_field("int ", "ranks_", program->axes[a].name, "", out);
	for (size_t l = 0; l < program->lists.count; l++)
		header_field("int64_t ", "list_", program->lists.at[l], " /* how many tensors */", out);
	for (int d = 0; d < program->named_count; d++) {
		bool list = program->named[d].list >= 0;
		if (list)
			header_field("const int64_t *", "dim_", program->named[d].name, " /* of each tensor */",
			             out);
		else header_field("int64_t ", "dim_", program->named[d].name, "", out);
	}
	for (int i = 0; i < count; i++) header_field("int64_t ", "index_", indices[i], "", out);
	fprintf(out, "} %s;\n\n", name);
}

static void put_scalars(const lc_program *program, FILE *out) {
	char name[LC_API];
	int count = 0;
	fprintf(out, "typedef struct %s {\n", lc_api_name(program, "_scalars", "", name));
	for (size_t i = 0; i < program->nodes.count; i++) {
		if (program->nodes.at[i].op != LC_SCALAR) continue;
		header_field("double ", "scalar_", program->nodes.at[i].name, "", out);
		count++;
	}
	if (count == 0) fputs("\tint none;\n", out);
	fprintf(out, "} %s;\n\n", name);
}

/* ---- functions ---- */

static void header_put_argument(const lc_program *program, int id, int output, FILE *out) {
	LK_ASSERT(id >= 0 && (size_t)id < program->nodes.count);
	const lc_node *node = &program->nodes.at[id];
	char name[LC_IDENTIFIER];
	const char *read_only = node->op == LC_INPUT ? "const " : "";
	const char *each = node->list >= 0 ? "*const *" : "*";
	fprintf(out, ", %s%s %s%s", read_only, lc_memory_type((lc_dtype)node->dtype), each,
	        lc_api_argument(program, id, output, name));
}

/* The kinds of arguments, in the order in which a function has them. */
static const int argument_kinds[] = {LC_INPUT, LC_STATE, LC_OUT};

void lc_api_signature(const lc_program *original, const lc_variant *variant, FILE *out) {
	char name[LC_API], type[LC_API], scalars[LC_API];
	int output = 0;
	const lc_program *program = variant->program;
	fprintf(out, "int %s(%s *plan, const %s *scalars",
	        lc_api_name(original, "_run_", variant->name, name),
	        lc_api_name(original, "", "", type), lc_api_name(original, "_scalars", "", scalars));
	for (int kind = 0; kind < 3; kind++)
		for (int id = 0; id < (int)program->nodes.count; id++) {
			int op = program->nodes.at[id].op;
			if (op == argument_kinds[kind])
				header_put_argument(program, id, op == LC_OUT ? ++output : 0, out);
		}
	fputc(')', out);
}

void lc_api_open_signature(const lc_program *original, const lc_variant *variant, bool cuda,
                           FILE *out) {
	char name[LC_API], sizes[LC_API], type[LC_API];
	fprintf(out, "int %s(const %s *sizes, %s, %s **plan, char *error)",
	        lc_api_name(original, "_open_", variant->name, name),
	        lc_api_name(original, "_sizes", "", sizes),
	        cuda ? "ncclComm_t all, cudaStream_t stream" : "MPI_Comm all",
	        lc_api_name(original, "", "", type));
}

/* List the arguments with their types, as lines of a comment. */
static void header_describe(const lc_program *program, FILE *out) {
	char type[256], name[LC_IDENTIFIER], line[400];
	int output = 0;
	for (int kind = 0; kind < 3; kind++)
		for (int id = 0; id < (int)program->nodes.count; id++) {
			const lc_node *node = &program->nodes.at[id];
			if (node->op != argument_kinds[kind]) continue;
			lc_api_argument(program, id, node->op == LC_OUT ? ++output : 0, name);
			snprintf(line, sizeof line, "  %s: %s", name,
			         lc_type_text(program, node, type, sizeof type));
			lc_put_comment(line, " * ", out);
		}
}

void lc_api_declarations(const lc_program *original, const lc_variant *variants, int count,
                         bool cuda, FILE *out) {
	char name[LC_API];
	header_put_sizes(original, out);
	put_scalars(original, out);
	fprintf(out,
	        "/* One opened schedule: communicators, shapes and memory of what lies between inputs "
	        "and outputs. */\n"
	        "typedef struct %s %s;\n\n",
	        lc_api_name(original, "", "", name), name);
	fputs("/* All ranks of the communicator open, run and close together. open_SCHEDULE returns 0, "
	      "or 1 and a reason in `error` (256\n"
	      " * bytes). run_SCHEDULE runs once: inputs are read, states updated in place, outputs "
	      "written; pointers are to what this rank\n"
	      " * holds, in row-major order (for lists an array of such pointers). It returns 0, or 1 "
	      "on a rank where a pointer is missing\n"
	      " * that it needs; an output that is not wanted may be NULL.\n",
	      out);
	fputs(cuda ? " * Pointers are to the device's memory, arrays of them to the host's. All work "
	             "goes to `stream`, on which other work may\n"
	             " * come before and after; run_SCHEDULE returns when it is issued, and 1 also "
	             "where CUDA, NCCL or cuBLASLt refuse it.\n */\n"
	           : " * Memory that runs out, or MPI failing, ends all ranks.\n */\n",
	      out);
	for (int i = 0; i < count; i++) {
		fputc('\n', out);
		fputs("/* ", out);
		lc_put_comment(variants[i].name, "", out);
		header_describe(variants[i].program, out);
		fputs(" */\n", out);
		lc_api_open_signature(original, &variants[i], cuda, out);
		fputs(";\n", out);
		lc_api_signature(original, &variants[i], out);
		fputs(";\n", out);
	}
	fprintf(out, "\nvoid %s(", lc_api_name(original, "_close", "", name));
	fprintf(out, "%s *plan); /* accepts NULL */\n", lc_api_name(original, "", "", name));
	fputs("/* What this rank holds of an argument (\"in_g\", \"state_w\", \"out1\"): its dims' "
	      "first elements and extents, of one tensor of\n"
	      " * its list. Returns the elements, 0 where the rank holds nothing, -1 if there is no "
	      "such argument. */\n",
	      out);
	fprintf(out, "int64_t %s(const ", lc_api_name(original, "_part", "", name));
	fprintf(out,
	        "%s *plan, const char *argument, int64_t item, int64_t begin[6], int64_t extent[6]);\n",
	        lc_api_name(original, "", "", name));
}

lk_status lc_emit_header(const lc_program *original, const lc_variant *variants, int count,
                         bool cuda, FILE *out, lk_error *err) {
	char guard[LC_API];
	(void)err;
	lc_api_name(original, cuda ? "_cuda_h" : "_h", "", guard);
	fputs("/* Generated by lockstep: declarations of the program ", out);
	lc_put_comment(original->name, "", out);
	fprintf(out,
	        " * as it is emitted; compile that with -DLOCKSTEP_NO_MAIN and link the two. "
	        "*/\n#ifndef %s\n#define %s\n\n",
	        guard, guard);
	fputs(cuda ? "#include <cuda_runtime.h>\n#include <nccl.h>\n" : "#include <mpi.h>\n", out);
	fputs("#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n", out);
	lc_api_declarations(original, variants, count, cuda, out);
	fputs("\n#ifdef __cplusplus\n}\n#endif\n#endif\n", out);
	return LK_OK;
}
