/* emit_cuda_map.c: MAP steps as kernels. A pass without reductions is a loop with the grid's
 * stride, four elements at a time if everything it touches is contiguous and pointers are aligned.
 * With reductions, blocks share the results, and if there are few, parts of each; sums of parts are
 * added by a second kernel, in order and without atomics, so that every run gives the same. */
#include "base/arena.h"
#include "lang/emit/emit_cuda.h"

#include <string.h>

/* ---- elements in fours ---- */

static void put_parameter(lc_kernel *kernel, int id) {
	char name[LC_IDENTIFIER];
	fprintf(
		kernel->out, ", const %s %s", lc_memory_type(lc_kernel_format(kernel, id)),
		lc_kernel_place_name(kernel, "x", &kernel->pass.places.at[kernel->pass.place[id]], name));
}

static void cuda_map_put_results(lc_kernel *kernel, const char *before, const char *after,
                                 const char *end) {
	char name[LC_IDENTIFIER];
	for (size_t i = 0; i < kernel->pass.stores.count; i++) {
		int id = kernel->pass.stores.at[i];
		fprintf(kernel->out, "%s%s%s%s%s", before, lc_memory_type(lc_kernel_format(kernel, id)),
		        after, lc_value_identifier(kernel->pass.p, "y", id, name), end);
	}
}

/* Write the function of one element, of its loads and its number. */
static void put_element(lc_kernel *kernel) {
	fputs("\tauto element = [&](const int64_t i", kernel->out);
	lc_kernel_each_load(kernel, put_parameter);
	cuda_map_put_results(kernel, ", ", " &", "");
	fputs(") {\n\t\t(void)i;\n", kernel->out);
	kernel->depth = 2;
	lc_kernel_values(kernel, true);
	kernel->depth = 1;
	fputs("\t};\n", kernel->out);
}

static bool cuda_map_moves(const lc_kernel *kernel, const lc_place *at) {
	return lc_place_moves(kernel->pass.p, &kernel->pass.loops, at, 0);
}

static const char *format_name(const lc_kernel *kernel, int id) {
	return lc_format_name(lc_kernel_format(kernel, id));
}

static const char *joining(const lc_kernel *kernel, int scatter) {
	static const char *const names[LC_REDUCES] = {
		[LC_SUM] = "RT_SUM", [LC_RMAX] = "RT_MAX", [LC_RMIN] = "RT_MIN"};
	return names[lc_node_at(kernel->pass.p, scatter)->reduce];
}

static const lc_cuda_shared *shared_of(const lc_kernel *kernel, int id, int *buffer) {
	for (int i = 0; i < kernel->shared_count; i++)
		if (kernel->shared[i].value == id) return *buffer = i, &kernel->shared[i];
	return NULL;
}

/* "const rt_four<float> x_g = rt_load(a.p_g + i);", or of the reduction over the ranks' memory. */
static void cuda_map_put_load(lc_kernel *kernel, int id, bool four) {
	const lc_place *at = &kernel->pass.places.at[kernel->pass.place[id]];
	char name[LC_IDENTIFIER], pointer[LC_IDENTIFIER];
	const char *type = lc_memory_type(lc_kernel_format(kernel, id));
	int buffer;
	const lc_cuda_shared *shared = shared_of(kernel, id, &buffer);
	lc_kernel_place_name(kernel, "x", at, name);
	lc_put_tabs(kernel->depth, kernel->out);
	if (four && (shared || cuda_map_moves(kernel, at)))
		fprintf(kernel->out, "const rt_four<%s> %s = ", type, name);
	else fprintf(kernel->out, "const %s %s = ", type, name);
	if (shared) {
		const lc_place *there = &kernel->pass.places.at[shared->place];
		fprintf(kernel->out, "rt_join%s<%s>(access, %d, a.%s + ", four ? "_four" : "",
		        format_name(kernel, id), buffer, lc_kernel_place_name(kernel, "o", there, pointer));
		lc_kernel_index(kernel, there, kernel->out);
		fprintf(kernel->out, ", %s);\n", joining(kernel, id));
	} else {
		lc_kernel_place_name(kernel, "p", at, pointer);
		if (four && cuda_map_moves(kernel, at))
			fprintf(kernel->out, "rt_load(a.%s + i);\n", pointer);
		else {
			fprintf(kernel->out, "a.%s[", pointer);
			lc_kernel_index(kernel, at, kernel->out);
			fputs("];\n", kernel->out);
		}
	}
}
static void put_load_four(lc_kernel *kernel, int id) {
	cuda_map_put_load(kernel, id, true);
}
static void put_load_one(lc_kernel *kernel, int id) {
	cuda_map_put_load(kernel, id, false);
}

static void put_argument_four(lc_kernel *kernel, int id) {
	char name[LC_IDENTIFIER];
	const lc_place *at = &kernel->pass.places.at[kernel->pass.place[id]];
	bool four = cuda_map_moves(kernel, at) || lc_kernel_is_shared(kernel, id);
	fprintf(kernel->out, ", %s%s", lc_kernel_place_name(kernel, "x", at, name),
	        four ? ".at[l]" : "");
}
static void put_argument_one(lc_kernel *kernel, int id) {
	char name[LC_IDENTIFIER];
	fprintf(
		kernel->out, ", %s",
		lc_kernel_place_name(kernel, "x", &kernel->pass.places.at[kernel->pass.place[id]], name));
}

/* Write stores to the memory of all ranks. */
static void put_spread(lc_kernel *kernel, bool four) {
	char name[LC_IDENTIFIER], offset[LC_IDENTIFIER];
	for (int i = 0; i < kernel->shared_count; i++) {
		const lc_cuda_shared *shared = &kernel->shared[i];
		const lc_place *there = &kernel->pass.places.at[shared->place];
		int from = lc_node_at(kernel->pass.p, shared->value)->in[0];
		if (lc_node_at(kernel->pass.p, shared->value)->op != LC_ALLGATHER) continue;
		lc_put_tabs(kernel->depth, kernel->out);
		fprintf(kernel->out, "rt_spread%s(access, %d, a.%s + ", four ? "_four" : "", i,
		        lc_kernel_place_name(kernel, "o", there, offset));
		lc_kernel_index(kernel, there, kernel->out);
		fprintf(kernel->out, ", %s);\n", lc_value_identifier(kernel->pass.p, "y", from, name));
	}
}

static void put_store_fours(lc_kernel *kernel) {
	char name[LC_IDENTIFIER], pointer[LC_IDENTIFIER];
	for (size_t i = 0; i < kernel->pass.stores.count; i++) {
		lc_place at = lc_kernel_stored(kernel, kernel->pass.stores.at[i]);
		if (!lc_kernel_keeps(kernel, kernel->pass.stores.at[i])) continue;
		fprintf(kernel->out, "\t\trt_store(a.%s + i, %s);\n",
		        lc_kernel_place_name(kernel, "p", &at, pointer),
		        lc_value_identifier(kernel->pass.p, "y", kernel->pass.stores.at[i], name));
	}
}

static void put_fours(lc_kernel *kernel, const char *first, const char *step) {
	fprintf(kernel->out, "\tfor (int64_t i = 4 * %s; i < a.fours; i += 4 * %s) {\n", first, step);
	kernel->depth = 2;
	lc_kernel_each_load(kernel, put_load_four);
	cuda_map_put_results(kernel, "\t\trt_four<", "> ", ";\n");

	fputs("\t\tfor (int l = 0; l < 4; l++) element(i + l", kernel->out);
	lc_kernel_each_load(kernel, put_argument_four);
	char name[LC_IDENTIFIER];
	for (size_t i = 0; i < kernel->pass.stores.count; i++)
		fprintf(kernel->out, ", %s.at[l]",
		        lc_value_identifier(kernel->pass.p, "y", kernel->pass.stores.at[i], name));
	fputs(");\n", kernel->out);
	put_store_fours(kernel);
	put_spread(kernel, true);
	fputs("\t}\n", kernel->out);
}

static void put_declared_stores(lc_kernel *kernel) {
	cuda_map_put_results(kernel, kernel->depth == 2 ? "\t\t" : "\t\t\t", " ", ";\n");
}

static void put_ones(lc_kernel *kernel, const char *first, const char *step) {
	fprintf(kernel->out, "\tfor (int64_t i = a.fours + %s; i < a.count; i += %s) {\n", first, step);
	kernel->depth = 2;
	lc_kernel_each_load(kernel, put_load_one);
	put_declared_stores(kernel);
	fputs("\t\telement(i", kernel->out);
	lc_kernel_each_load(kernel, put_argument_one);
	char name[LC_IDENTIFIER];
	for (size_t i = 0; i < kernel->pass.stores.count; i++)
		fprintf(kernel->out, ", %s",
		        lc_value_identifier(kernel->pass.p, "y", kernel->pass.stores.at[i], name));
	fputs(");\n", kernel->out);
	lc_kernel_stores(kernel);
	put_spread(kernel, false);
	fputs("\t}\n", kernel->out);
}

static void cuda_map_put_plain(lc_kernel *kernel, const char *first, const char *step) {
	const char *e = kernel->flat ? "i" : "e";
	fprintf(kernel->out, "\tfor (int64_t %s = %s; %s < a.count; %s += %s) {\n", e, first, e, e,
	        step);
	kernel->depth = 2;
	lc_kernel_coordinates(kernel);
	lc_kernel_each_load(kernel, put_load_one);
	put_declared_stores(kernel);
	lc_kernel_values(kernel, true);
	lc_kernel_stores(kernel);
	put_spread(kernel, false);
	fputs("\t}\n", kernel->out);
}

void lc_kernel_elements(lc_kernel *kernel, const char *first, const char *step) {
	kernel->depth = 1;
	lc_kernel_numbers(kernel);
	if (kernel->fours) {
		put_element(kernel);
		put_fours(kernel, first, step);
		put_ones(kernel, first, step);
	} else cuda_map_put_plain(kernel, first, step);
	kernel->depth = 1;
}

/* Declare the end of elements in fours: the last full four, or 0 if something is not aligned. */
void lc_kernel_alignment(lc_kernel *kernel) {
	char name[LC_IDENTIFIER];
	if (!kernel->fours) return;
	fputs("\tint64_t fours;\n", kernel->fields);
	fputs("\ta.fours = a.count / 4 * 4;\n", kernel->fills);
	for (size_t i = 0; i < kernel->pass.places.count; i++) {
		const lc_place *at = &kernel->pass.places.at[i];
		bool there = false;
		for (int s = 0; s < kernel->shared_count; s++) there |= kernel->shared[s].place == (int)i;
		bool mine = !lc_kernel_is_shared(kernel, at->id) && lc_kernel_keeps(kernel, at->id);
		if (at->kind == LC_PLACE_WHOLE || !cuda_map_moves(kernel, at) || (!there && !mine))
			continue;
		lc_kernel_place_name(kernel, there ? "o" : "p", at, name);
		if (there) fprintf(kernel->fills, "\tif (a.%s %% 4) a.fours = 0;\n", name);
		else fprintf(kernel->fills, "\tif (!rt_aligned(a.%s)) a.fours = 0;\n", name);
	}
}

/* ---- reductions ---- */

static const char *cuda_map_sum_type(lc_dtype t) {
	if (t == LC_F64) return "double";
	if (lc_is_real(t)) return "float";
	if (t == LC_U64) return "uint64_t";
	return "int64_t";
}

static const char *kind(const lc_node *node) {
	switch (node->op) {
	case LC_RED_MAX: return "RT_MAX";
	case LC_RED_MIN: return "RT_MIN";
	case LC_RED_MEAN: return "RT_MEAN";
	case LC_RED_NORM: return "RT_NORM";
	default: return "RT_SUM";
	}
}

static bool is_total(const lc_kernel *kernel, int id) {
	return lc_node_at(kernel->pass.p, id)->op == LC_TOTAL;
}

/* Group reductions: those over the same dims as the first one not done share its kernel. */
static int cuda_map_group_of(const lc_kernel *kernel, const int *done, int *ids) {
	int count = 0;
	for (size_t i = 0; i < kernel->pass.results.count; i++) {
		int id = kernel->pass.results.at[i];
		if (done[i] || is_total(kernel, id) ||
		    (count &&
		     lc_node_at(kernel->pass.p, ids[0])->dims != lc_node_at(kernel->pass.p, id)->dims))
			continue;
		ids[count++] = id;
	}
	return count;
}

static void cuda_map_put_sum(lc_kernel *kernel, int id, bool begin) {
	const lc_node *value = lc_node_at(kernel->pass.p, id);
	char name[LC_IDENTIFIER];
	const char *type = cuda_map_sum_type(lc_kernel_format(kernel, id));
	lc_put_tabs(kernel->depth, kernel->out);
	lc_value_identifier(kernel->pass.p, "r", id, name);
	if (begin) {
		const char *none = "0";
		if (value->op == LC_RED_MAX) none = lc_lowest_text(lc_kernel_format(kernel, id));
		if (value->op == LC_RED_MIN) none = lc_highest_text(lc_kernel_format(kernel, id));
		fprintf(kernel->out, "%s %s = %s;\n", type, name, none);
		return;
	}
	fprintf(kernel->out, "rt_include<%s>(%s, ", kind(value), name);
	lc_kernel_value(kernel, value->in[0]);
	fputs(");\n", kernel->out);
}

/* Begin a kernel of one tensor, or of all of a list: then tile by tile. */
static void put_kernel_begin(lc_kernel *kernel, const char *number) {
	bool list = kernel->pass.step->list >= 0;
	fprintf(
		kernel->out,
		list ? "static __global__ void __launch_bounds__(RT_THREADS) kernel%s_%s(const "
			   "rt_list<args_%s> list) {\n"
			 : "static __global__ void __launch_bounds__(RT_THREADS) kernel%s_%s(const args_%s a) "
			   "{\n",
		number, kernel->name, kernel->name);
}

static void put_tiles(lc_kernel *kernel) {
	fprintf(kernel->out,
	        "\tfor (int64_t tile = blockIdx.x; tile < list.tiles; tile += gridDim.x) {\n"
	        "\tconst args_%s a = list.args[list.item(tile)];\n",
	        kernel->name);
}

/* The number of the kernel that finishes what the one with this number began, for a list. */
static int finishing(const lc_kernel *kernel, int number) {
	return number + (int)kernel->pass.results.count;
}

/* Sums of a list's tensors from those of their tasks. */
static void put_finishing_kernel(lc_kernel *kernel, const int *ids, int count, int number) {
	char name[LC_IDENTIFIER], to[LC_IDENTIFIER], text[16];
	snprintf(text, sizeof text, "%d", finishing(kernel, number));
	put_kernel_begin(kernel, text);
	fprintf(kernel->out,
	        "\tfor (int64_t item = blockIdx.x; item < list.items; item += gridDim.x) {\n"
	        "\t\tconst args_%s a = list.args[item];\n"
	        "\t\tfor (int64_t o = threadIdx.x; o < a.tasks.outs; o += blockDim.x) {\n",
	        kernel->name);
	for (int i = 0; i < count; i++) {
		const lc_node *value = lc_node_at(kernel->pass.p, ids[i]);
		lc_value_identifier(kernel->pass.p, "r", ids[i], name);
		lc_value_identifier(kernel->pass.p, "o", ids[i], to);
		fprintf(kernel->out,
		        "\t\t\trt_finish_one<%s>(a.%s.to, a.%s, o, a.tasks.splits, %s, a.%s.elements);\n",
		        lc_format_name(lc_kernel_format(kernel, ids[i])), to, name, kind(value), to);
	}
	fputs("\t\t}\n\t}\n}\n\n", kernel->out);
}

static void put_reducing_kernel(lc_kernel *kernel, const int *ids, int count, int number,
                                bool stores) {
	char name[LC_IDENTIFIER], text[16];
	bool list = kernel->pass.step->list >= 0;
	snprintf(text, sizeof text, "%d", number);
	put_kernel_begin(kernel, text);
	kernel->depth = 1;
	if (list) put_tiles(kernel);
	lc_kernel_numbers(kernel);
	fputs(list ? "\tconst int64_t task = tile - a.tile.begin; {\n"
	           : "\tfor (int64_t task = blockIdx.x; task < a.tasks.outs * a.tasks.splits; task += "
	             "gridDim.x) {\n",
	      kernel->out);
	kernel->depth = 2;
	for (int i = 0; i < count; i++) cuda_map_put_sum(kernel, ids[i], true);
	fprintf(kernel->out, "\t\tRT_EACH_OF_TASK(%s, a.tasks, task) {\n", kernel->flat ? "i" : "e");
	kernel->depth = 3;
	lc_kernel_coordinates(kernel);
	lc_kernel_loads(kernel);
	if (stores) put_declared_stores(kernel);
	lc_kernel_values(kernel, stores);
	if (stores) lc_kernel_stores(kernel);
	for (int i = 0; i < count; i++) cuda_map_put_sum(kernel, ids[i], false);
	fputs("\t\t}\n", kernel->out);
	for (int i = 0; i < count; i++) {
		lc_value_identifier(kernel->pass.p, "r", ids[i], name);
		fprintf(kernel->out,
		        "\t\t%s = rt_over_block(%s, %s);\n\t\tif (threadIdx.x == 0) a.%s[task] = %s;\n",
		        name, name, kind(lc_node_at(kernel->pass.p, ids[i])), name, name);
	}
	fputs(list ? "\t}\n\t}\n}\n\n" : "\t}\n}\n\n", kernel->out);
	if (list) put_finishing_kernel(kernel, ids, count, number);
}

/* Write the host's side of one such kernel: room for the parts of sums, launch, the second
 * kernel. */
static void put_reducing_launch(lc_kernel *kernel, const int *ids, int count, int number,
                                bool last) {
	FILE *host = kernel->out;
	(void)last;
	char name[LC_IDENTIFIER], part[LC_CUDA_PART];
	lc_mpi_part(kernel->c, kernel->pass.step->space, part, sizeof part);
	fprintf(host, "\ta.tasks = rt_tasks_of(%s, %d);\n", part,
	        lc_node_at(kernel->pass.p, ids[0])->dims);
	for (int i = 0; i < count; i++) {
		const char *type = cuda_map_sum_type(lc_kernel_format(kernel, ids[i]));
		lc_value_identifier(kernel->pass.p, "r", ids[i], name);
		fprintf(host,
		        "\ta.%s = (%s *)rt_scratch(run, a.tasks.outs * a.tasks.splits * (int64_t)sizeof "
		        "*a.%s);\n",
		        name, type, name);
	}
	fprintf(host, "\tRT_RUN_TASKS(kernel%d_%s, a);\n", number, kernel->name);
	for (int i = 0; i < count; i++) {
		const lc_node *value = lc_node_at(kernel->pass.p, ids[i]);
		lc_value_identifier(kernel->pass.p, "r", ids[i], name);
		fprintf(host, "\trt_finish<%s>(run, %s, a.%s, a.tasks, %s, ",
		        lc_format_name(lc_kernel_format(kernel, ids[i])),
		        lc_mpi_part(kernel->c, ids[i], part, sizeof part), name, kind(value));
		fprintf(host, "rt_reduced_elements(%s, %d));\n",
		        lc_mpi_part(kernel->c, value->in[0], part, sizeof part), value->dims);
		fprintf(host, "\trt_release(run, a.%s);\n", name);
	}
}

/* The same for a list: one launch of each kernel. */
static void put_list_launch(lc_kernel *kernel, const int *ids, int count, int number, bool last) {
	FILE *host = kernel->out;
	char name[LC_IDENTIFIER], to[LC_IDENTIFIER], part[LC_CUDA_PART], space[LC_CUDA_PART];
	int dims = lc_node_at(kernel->pass.p, ids[0])->dims;
	(void)last;
	lc_mpi_part(kernel->c, kernel->pass.step->space, space, sizeof space);
	fprintf(host,
	        "\tfor (int64_t item = 0; item < items; item++) {\n\t\targs_%s &a = all[item];\n"
	        "\t\ta.tasks = rt_tasks_of(%s, %d);\n"
	        "\t\ta.tile.count = a.tasks.outs * a.tasks.splits;\n",
	        kernel->name, space, dims);
	for (int i = 0; i < count; i++) {
		const lc_node *value = lc_node_at(kernel->pass.p, ids[i]);
		lc_value_identifier(kernel->pass.p, "o", ids[i], to);
		fprintf(host, "\t\ta.%s.to = (%s)->data;\n", to,
		        lc_mpi_part(kernel->c, ids[i], part, sizeof part));
		fprintf(host, "\t\ta.%s.elements = rt_reduced_elements(%s, %d);\n", to,
		        lc_mpi_part(kernel->c, value->in[0], part, sizeof part), value->dims);
	}
	fputs("\t}\n\ttiles = rt_lay_tiles(all, items);\n", host);
	for (int i = 0; i < count; i++) {
		lc_value_identifier(kernel->pass.p, "r", ids[i], name);
		const char *type = cuda_map_sum_type(lc_kernel_format(kernel, ids[i]));
		fprintf(host,
		        "\t%s *sums%d_%d = (%s *)rt_scratch(run, tiles * (int64_t)sizeof(%s));\n"
		        "\tfor (int64_t item = 0; item < items; item++) {\n\t\targs_%s &a = all[item];\n"
		        "\t\ta.%s = sums%d_%d + a.tile.begin;\n\t}\n",
		        type, number, i, type, type, kernel->name, name, number, i);
	}
	fprintf(host, "\tlist = rt_list_keep(run, step, %d, all, items, tiles);\n", number);
	fprintf(host, "\tRT_RUN_LIST(kernel%d_%s, list.tiles, list);\n", number, kernel->name);
	fprintf(host, "\tRT_RUN_LIST(kernel%d_%s, list.items, list);\n", finishing(kernel, number),
	        kernel->name);
	for (int i = 0; i < count; i++) fprintf(host, "\trt_release(run, sums%d_%d);\n", number, i);
}

/* "float r_t3 = 0;" of each sum over a list; or its stored value, from what all threads have. */
static void put_totals(lc_kernel *kernel, bool begin) {
	char name[LC_IDENTIFIER], sum[LC_IDENTIFIER];
	for (size_t i = 0; i < kernel->pass.results.count; i++) {
		int id = kernel->pass.results.at[i];
		lc_dtype t = lc_kernel_format(kernel, id);
		const lc_place *at = &kernel->pass.places.at[kernel->pass.place[id]];
		lc_value_identifier(kernel->pass.p, "r", id, sum);
		lc_put_tabs(kernel->depth, kernel->out);
		if (begin) {
			fprintf(kernel->out, "%s %s = 0;\n", cuda_map_sum_type(t), sum);
			continue;
		}
		fprintf(kernel->out, "%s = rt_over_block(%s, RT_SUM);\n", sum, sum);
		lc_put_tabs(kernel->depth, kernel->out);
		fprintf(kernel->out, "if (threadIdx.x == 0) a.%s[",
		        lc_kernel_place_name(kernel, "p", at, name));
		lc_kernel_index(kernel, at, kernel->out);
		fprintf(kernel->out, "] = %s%s);\n", lc_store_call(t), sum);
	}
}

/* The sums over a list: a block takes an element of all tensors, which its threads add. */
static void put_totals_body(lc_kernel *kernel) {
	const char *e = kernel->flat ? "i" : "e";
	fprintf(kernel->out,
	        "\tfor (int64_t %s = blockIdx.x; %s < list.args[0].count; %s += gridDim.x) {\n", e, e,
	        e);
	kernel->depth = 2;
	put_totals(kernel, true);
	fprintf(kernel->out,
	        "\t\tfor (int64_t item = threadIdx.x; item < list.items; item += blockDim.x) {\n"
	        "\t\t\tconst args_%s a = list.args[item];\n",
	        kernel->name);
	kernel->depth = 3;
	lc_kernel_numbers(kernel);
	lc_kernel_coordinates(kernel);
	lc_kernel_loads(kernel);
	put_declared_stores(kernel);
	lc_kernel_values(kernel, true);
	lc_kernel_stores(kernel);
	for (size_t i = 0; i < kernel->pass.results.count; i++)
		cuda_map_put_sum(kernel, kernel->pass.results.at[i], false);
	fprintf(kernel->out, "\t\t}\n\t\tconst args_%s a = list.args[0];\n", kernel->name);
	kernel->depth = 2;
	lc_kernel_coordinates(kernel);
	put_totals(kernel, false);
	fputs("\t}\n", kernel->out);
}

/* ---- functions ---- */

/* Copy the collected text of `from`. */
static void cuda_map_copy(const lc_kernel *kernel, FILE *from, char *const *text,
                          const size_t *size) {
	if (fflush(from) != 0 || ferror(from)) kernel->c->p->file->lost = true;
	else fwrite(*text, 1, *size, kernel->c->out);
}

void lc_kernel_struct(lc_kernel *kernel) {
	fprintf(kernel->c->out, "typedef struct args_%s {\n", kernel->name);
	cuda_map_copy(kernel, kernel->fields, &kernel->fields_text, &kernel->fields_size);
	fprintf(kernel->c->out, "} args_%s;\n\n", kernel->name);
}

void lc_kernel_host_begin(lc_kernel *kernel, const char *name) {
	char part[LC_CUDA_PART];
	bool list = kernel->pass.step->list >= 0;
	fprintf(kernel->c->out,
	        list ? "static void %s_of(rt_run *run, int64_t item) {\n"
	             : "static void %s(rt_run *run) {\n",
	        name);
	if (lc_mpi_may_be_absent(kernel->c, kernel->pass.step->space))
		fprintf(kernel->c->out, "\tif (!(%s)->here) return;\n",
		        lc_mpi_part(kernel->c, kernel->pass.step->space, part, sizeof part));
	fprintf(kernel->c->out, "\targs_%s a;\n", kernel->name);
	cuda_map_copy(kernel, kernel->fills, &kernel->fills_text, &kernel->fills_size);
}

void lc_kernel_host_end(lc_kernel *kernel, const char *name) {
	char number[LC_IDENTIFIER];
	fputs("}\n\n", kernel->c->out);
	if (kernel->pass.step->list < 0) return;
	fprintf(kernel->c->out,
	        "static void %s(rt_run *run) {\n\tfor (int64_t item = 0; item < rt_items(run, %s); "
	        "item++) %s_of(run, "
	        "item);\n}\n\n",
	        name, lc_mpi_number(kernel->c, kernel->pass.step->space, number), name);
}

/* Call `put` for each group of reductions, a kernel each. The last kernel stores: then it
 * overwrites what others read. */
static void cuda_map_each_group(lc_kernel *kernel, void (*put)(lc_kernel *kernel, const int *ids,
                                                               int count, int number, bool last)) {
	size_t results = kernel->pass.results.count;
	int *done = kernel->groups, *ids = done + results + 1;
	memset(done, 0, results * sizeof *done);
	for (int number = 0, count; (count = cuda_map_group_of(kernel, done, ids)) > 0; number++) {
		size_t left = 0;
		for (size_t i = 0; i < results; i++) {
			for (int j = 0; j < count; j++) done[i] |= kernel->pass.results.at[i] == ids[j];
			left += !done[i];
		}
		put(kernel, ids, count, number, left == 0);
	}
}

static void put_reductions_device(lc_kernel *kernel) {
	lc_kernel_struct(kernel);
	cuda_map_each_group(kernel, put_reducing_kernel);
}

/* The function that launches a kernel over a list, up to where the arguments of all tensors are
 * filled in: `all`, of `items`. */
static void put_list_begin(lc_kernel *kernel) {
	char part[LC_CUDA_PART], number[LC_IDENTIFIER];
	FILE *out = kernel->c->out;
	fprintf(out, "static void %s(rt_run *run) {\n", kernel->name);
	fprintf(out,
	        "\tvoid (*const step)(rt_run *) = %s;\n\tconst int64_t items = rt_items(run, %s);\n"
	        "\tint64_t tiles = 0, item = 0;\n",
	        kernel->name, lc_mpi_number(kernel->c, kernel->pass.step->space, number));
	if (lc_mpi_may_be_absent(kernel->c, kernel->pass.step->space))
		fprintf(out, "\tif (!(%s)->here) return;\n",
		        lc_mpi_part(kernel->c, kernel->pass.step->space, part, sizeof part));
	fprintf(out,
	        "\trt_list<args_%s> list;\n\targs_%s *all = rt_list_new<args_%s>(run, items);\n"
	        "\tif (!all) return;\n\tfor (; item < items; item++) {\n\targs_%s &a = all[item];\n",
	        kernel->name, kernel->name, kernel->name, kernel->name);
	cuda_map_copy(kernel, kernel->fills, &kernel->fills_text, &kernel->fills_size);
	fputs("\ta.tile.count = rt_tiles_of(a.count);\n\t}\n", out);
}

static void put_reductions_host(lc_kernel *kernel) {
	if (kernel->pass.step->list >= 0) {
		put_list_begin(kernel);
		cuda_map_each_group(kernel, put_list_launch);
		fputs("\tfree(all);\n}\n\n", kernel->c->out);
		return;
	}
	lc_kernel_host_begin(kernel, kernel->name);
	cuda_map_each_group(kernel, put_reducing_launch);
	lc_kernel_host_end(kernel, kernel->name);
}

static lk_status put_reductions(lc_kernel *kernel) {
	char name[LC_IDENTIFIER];
	kernel->groups = LK_ARRAY(&kernel->c->arena, int, 2 * (kernel->pass.results.count + 1));
	if (!kernel->groups) return lk_oom(kernel->c->err);
	fputs("\trt_tasks tasks;\n", kernel->fields);
	for (size_t i = 0; i < kernel->pass.results.count; i++) {
		int id = kernel->pass.results.at[i];
		if (is_total(kernel, id)) continue;
		fprintf(kernel->fields, "\t%s *%s;\n", cuda_map_sum_type(lc_kernel_format(kernel, id)),
		        lc_value_identifier(kernel->pass.p, "r", id, name));
		if (kernel->pass.step->list >= 0)
			fprintf(kernel->fields, "\trt_sums %s;\n",
			        lc_value_identifier(kernel->pass.p, "o", id, name));
	}
	return lc_kernel_put(kernel, put_reductions_device, put_reductions_host);
}

static bool cuda_map_reduces(const lc_kernel *kernel) {
	for (size_t i = 0; i < kernel->pass.results.count; i++)
		if (!is_total(kernel, kernel->pass.results.at[i])) return true;
	return false;
}

static void put_map_device(lc_kernel *kernel) {
	bool list = kernel->pass.step->list >= 0;
	lc_kernel_struct(kernel);
	put_kernel_begin(kernel, "");
	if (kernel->pass.results.count) put_totals_body(kernel);
	else if (list) {
		put_tiles(kernel);
		lc_kernel_elements(kernel, "RT_TILE_FIRST", "RT_TILE_STEP");
		fputs("\t}\n", kernel->out);
	} else lc_kernel_elements(kernel, "rt_first()", "rt_step()");
	fputs("}\n\n", kernel->out);
}

static void put_map_host(lc_kernel *kernel) {
	if (kernel->pass.step->list >= 0) {
		put_list_begin(kernel);
		fprintf(kernel->out,
		        "\ttiles = rt_lay_tiles(all, items);\n"
		        "\tlist = rt_list_keep(run, step, 0, all, items, tiles);\n"
		        "\tRT_RUN_LIST(kernel_%s, %s, list);\n\tfree(all);\n}\n\n",
		        kernel->name, kernel->pass.results.count ? "all[0].count" : "list.tiles");
		return;
	}
	lc_kernel_host_begin(kernel, kernel->name);
	fprintf(kernel->out, "\tRT_RUN(kernel_%s, a.count, a);\n", kernel->name);
	lc_kernel_host_end(kernel, kernel->name);
}

static lk_status put_map(lc_kernel *kernel) {
	if (kernel->pass.step->list >= 0) fputs("\trt_tiles tile;\n", kernel->fields);
	if (cuda_map_reduces(kernel)) return put_reductions(kernel);
	lc_kernel_alignment(kernel);
	return lc_kernel_put(kernel, put_map_device, put_map_host);
}

lk_status lc_cuda_map(lc_mpi *mpi, const lc_step *step) {
	lc_kernel k;
	lk_status status = lc_kernel_open(mpi, step, false, &k);
	if (status == LK_OK) status = put_map(&k);
	lc_kernel_close(&k);
	return status;
}
