/* emit_cuda_map.c: MAP steps as kernels. A pass without reductions is a loop with the grid's stride, four elements
 * at a time where all that it touches lies one by one and pointers are aligned. With reductions, blocks share out the
 * results, and where those are few, parts of each; sums of parts are added up by a second kernel, in order: no
 * atomics, so that every run gives the same.
 */
#include "lang/emit/emit_cuda.h"

#include <string.h>

static const lc_node *node(const lc_kernel *k, int id) { return &k->pass.p->nodes.at[id]; }

/* ---- elements in fours ---- */

static void put_parameter(lc_kernel *k, int id) {
	char name[LC_IDENTIFIER];
	fprintf(k->out, ", const %s %s", lc_memory_type(lc_kernel_format(k, id)),
	        lc_kernel_place_name(k, "x", &k->pass.places.at[k->pass.place[id]], name));
}

static void put_results(lc_kernel *k, const char *before, const char *after, const char *end) {
	char name[LC_IDENTIFIER];
	for (size_t i = 0; i < k->pass.stores.count; i++) {
		int id = k->pass.stores.at[i];
		fprintf(k->out, "%s%s%s%s%s", before, lc_memory_type(lc_kernel_format(k, id)), after,
		        lc_value_identifier(k->pass.p, "y", id, name), end);
	}
}

/* What one element is, as a function of what is loaded and of its number. */
static void put_element(lc_kernel *k) {
	fputs("\tauto element = [&](const int64_t i", k->out);
	lc_kernel_each_load(k, put_parameter);
	put_results(k, ", ", " &", "");
	fputs(") {\n\t\t(void)i;\n", k->out);
	k->depth = 2;
	lc_kernel_values(k, true);
	k->depth = 1;
	fputs("\t};\n", k->out);
}

static bool moves(const lc_kernel *k, const lc_place *at) { return lc_place_moves(&k->pass.loops, at, 0); }

static const char *format_name(const lc_kernel *k, int id) { return lc_format_name(lc_kernel_format(k, id)); }

static const char *joining(const lc_kernel *k, int scatter) {
	static const char *const names[LC_REDUCES] = {[LC_SUM] = "RT_SUM", [LC_RMAX] = "RT_MAX", [LC_RMIN] = "RT_MIN"};
	return names[node(k, scatter)->reduce];
}

static const lc_cuda_shared *shared_of(const lc_kernel *k, int id, int *buffer) {
	for (int i = 0; i < k->shared_count; i++)
		if (k->shared[i].value == id) return *buffer = i, &k->shared[i];
	return NULL;
}

/* "const rt_four<float> x_g = rt_load(a.p_g + i);", or of the reduction over the ranks' memory. */
static void put_load(lc_kernel *k, int id, bool four) {
	const lc_place *at = &k->pass.places.at[k->pass.place[id]];
	char name[LC_IDENTIFIER], pointer[LC_IDENTIFIER];
	const char *type = lc_memory_type(lc_kernel_format(k, id));
	int buffer;
	const lc_cuda_shared *shared = shared_of(k, id, &buffer);
	lc_kernel_place_name(k, "x", at, name);
	lc_put_tabs(k->depth, k->out);
	if (four && (shared || moves(k, at))) fprintf(k->out, "const rt_four<%s> %s = ", type, name);
	else fprintf(k->out, "const %s %s = ", type, name);
	if (shared) {
		const lc_place *there = &k->pass.places.at[shared->place];
		fprintf(k->out, "rt_join%s<%s>(access, %d, a.%s + ", four ? "_four" : "", format_name(k, id), buffer,
		        lc_kernel_place_name(k, "o", there, pointer));
		lc_kernel_index(k, there, k->out);
		fprintf(k->out, ", %s);\n", joining(k, id));
	} else {
		lc_kernel_place_name(k, "p", at, pointer);
		if (four && moves(k, at)) fprintf(k->out, "rt_load(a.%s + i);\n", pointer);
		else {
			fprintf(k->out, "a.%s[", pointer);
			lc_kernel_index(k, at, k->out);
			fputs("];\n", k->out);
		}
	}
}
static void put_load_four(lc_kernel *k, int id) { put_load(k, id, true); }
static void put_load_one(lc_kernel *k, int id) { put_load(k, id, false); }

static void put_argument_four(lc_kernel *k, int id) {
	char name[LC_IDENTIFIER];
	const lc_place *at = &k->pass.places.at[k->pass.place[id]];
	bool four = moves(k, at) || lc_kernel_is_shared(k, id);
	fprintf(k->out, ", %s%s", lc_kernel_place_name(k, "x", at, name), four ? ".at[l]" : "");
}
static void put_argument_one(lc_kernel *k, int id) {
	char name[LC_IDENTIFIER];
	fprintf(k->out, ", %s", lc_kernel_place_name(k, "x", &k->pass.places.at[k->pass.place[id]], name));
}

/* What goes to the memory of all ranks. */
static void put_spread(lc_kernel *k, bool four) {
	char name[LC_IDENTIFIER], offset[LC_IDENTIFIER];
	for (int i = 0; i < k->shared_count; i++) {
		const lc_cuda_shared *s = &k->shared[i];
		const lc_place *there = &k->pass.places.at[s->place];
		int from = node(k, s->value)->in[0];
		if (node(k, s->value)->op != LC_ALLGATHER) continue;
		lc_put_tabs(k->depth, k->out);
		fprintf(k->out, "rt_spread%s(access, %d, a.%s + ", four ? "_four" : "", i,
			lc_kernel_place_name(k, "o", there, offset));
		lc_kernel_index(k, there, k->out);
		fprintf(k->out, ", %s);\n", lc_value_identifier(k->pass.p, "y", from, name));
	}
}

static void put_store_fours(lc_kernel *k) {
	char name[LC_IDENTIFIER], pointer[LC_IDENTIFIER];
	for (size_t i = 0; i < k->pass.stores.count; i++) {
		lc_place at = lc_kernel_stored(k, k->pass.stores.at[i]);
		if (!lc_kernel_keeps(k, k->pass.stores.at[i])) continue;
		fprintf(k->out, "\t\trt_store(a.%s + i, %s);\n", lc_kernel_place_name(k, "p", &at, pointer),
		        lc_value_identifier(k->pass.p, "y", k->pass.stores.at[i], name));
	}
}

static void put_fours(lc_kernel *k, const char *first, const char *step) {
	fprintf(k->out, "\tfor (int64_t i = 4 * %s; i < a.fours; i += 4 * %s) {\n", first, step);
	k->depth = 2;
	lc_kernel_each_load(k, put_load_four);
	put_results(k, "\t\trt_four<", "> ", ";\n");

	fputs("\t\tfor (int l = 0; l < 4; l++) element(i + l", k->out);
	lc_kernel_each_load(k, put_argument_four);
	char name[LC_IDENTIFIER];
	for (size_t i = 0; i < k->pass.stores.count; i++)
		fprintf(k->out, ", %s.at[l]", lc_value_identifier(k->pass.p, "y", k->pass.stores.at[i], name));
	fputs(");\n", k->out);
	put_store_fours(k);
	put_spread(k, true);
	fputs("\t}\n", k->out);
}

static void put_declared_stores(lc_kernel *k) {
	put_results(k, k->depth == 2 ? "\t\t" : "\t\t\t", " ", ";\n");
}

static void put_ones(lc_kernel *k, const char *first, const char *step) {
	fprintf(k->out, "\tfor (int64_t i = a.fours + %s; i < a.count; i += %s) {\n", first, step);
	k->depth = 2;
	lc_kernel_each_load(k, put_load_one);
	put_declared_stores(k);
	fputs("\t\telement(i", k->out);
	lc_kernel_each_load(k, put_argument_one);
	char name[LC_IDENTIFIER];
	for (size_t i = 0; i < k->pass.stores.count; i++)
		fprintf(k->out, ", %s", lc_value_identifier(k->pass.p, "y", k->pass.stores.at[i], name));
	fputs(");\n", k->out);
	lc_kernel_stores(k);
	put_spread(k, false);
	fputs("\t}\n", k->out);
}

static void put_plain(lc_kernel *k, const char *first, const char *step) {
	const char *e = k->flat ? "i" : "e";
	fprintf(k->out, "\tfor (int64_t %s = %s; %s < a.count; %s += %s) {\n", e, first, e, e, step);
	k->depth = 2;
	lc_kernel_coordinates(k);
	lc_kernel_each_load(k, put_load_one);
	put_declared_stores(k);
	lc_kernel_values(k, true);
	lc_kernel_stores(k);
	put_spread(k, false);
	fputs("\t}\n", k->out);
}

void lc_kernel_elements(lc_kernel *k, const char *first, const char *step) {
	k->depth = 1;
	lc_kernel_numbers(k);
	if (k->fours) {
		put_element(k);
		put_fours(k, first, step);
		put_ones(k, first, step);
	} else put_plain(k, first, step);
	k->depth = 1;
}

/* How far four at a time go: to the last full four, or nowhere if something is not aligned. */
void lc_kernel_alignment(lc_kernel *k) {
	char name[LC_IDENTIFIER];
	if (!k->fours) return;
	fputs("\tint64_t fours;\n", k->fields);
	fputs("\ta.fours = a.count / 4 * 4;\n", k->fills);
	for (size_t i = 0; i < k->pass.places.count; i++) {
		const lc_place *at = &k->pass.places.at[i];
		bool there = false;
		for (int s = 0; s < k->shared_count; s++) there |= k->shared[s].place == (int)i;
		bool mine = !lc_kernel_is_shared(k, at->id) && lc_kernel_keeps(k, at->id);
		if (at->kind == LC_PLACE_WHOLE || !moves(k, at) || (!there && !mine)) continue;
		lc_kernel_place_name(k, there ? "o" : "p", at, name);
		if (there) fprintf(k->fills, "\tif (a.%s %% 4) a.fours = 0;\n", name);
		else fprintf(k->fills, "\tif (!rt_aligned(a.%s)) a.fours = 0;\n", name);
	}
}

/* ---- reductions ---- */

static const char *sum_type(lc_dtype t) {
	return t == LC_F64 ? "double" : lc_is_real(t) ? "float" : t == LC_U64 ? "uint64_t" : "int64_t";
}

static const char *kind(const lc_node *n) {
	switch (n->op) {
	case LC_RED_MAX: return "RT_MAX";
	case LC_RED_MIN: return "RT_MIN";
	case LC_RED_MEAN: return "RT_MEAN";
	case LC_RED_NORM: return "RT_NORM";
	default: return "RT_SUM";
	}
}

static bool is_total(const lc_kernel *k, int id) { return node(k, id)->op == LC_TOTAL; }

/* Reductions over the same dims as the first that is not done share its kernel. */
static int group_of(const lc_kernel *k, const int *done, int *ids) {
	int count = 0;
	for (size_t i = 0; i < k->pass.results.count; i++) {
		int id = k->pass.results.at[i];
		if (done[i] || is_total(k, id) || (count && node(k, ids[0])->dims != node(k, id)->dims)) continue;
		ids[count++] = id;
	}
	return count;
}

static void put_sum(lc_kernel *k, int id, bool begin) {
	const lc_node *n = node(k, id);
	char name[LC_IDENTIFIER];
	const char *type = sum_type(lc_kernel_format(k, id));
	lc_put_tabs(k->depth, k->out);
	lc_value_identifier(k->pass.p, "r", id, name);
	if (begin) {
		bool max = n->op == LC_RED_MAX, min = n->op == LC_RED_MIN;
		fprintf(k->out, "%s %s = %s;\n", type, name,
		        max ? lc_lowest_text(lc_kernel_format(k, id)) : min ? lc_highest_text(lc_kernel_format(k, id)) : "0");
		return;
	}
	fprintf(k->out, "rt_include<%s>(%s, ", kind(n), name);
	lc_kernel_value(k, n->in[0]);
	fputs(");\n", k->out);
}

static void put_reducing_kernel(lc_kernel *k, const int *ids, int count, int number, bool stores) {
	char name[LC_IDENTIFIER];
	fprintf(k->out, "static __global__ void __launch_bounds__(RT_THREADS) kernel%d_%s(const args_%s a) {\n", number,
		k->name, k->name);
	k->depth = 1;
	lc_kernel_numbers(k);
	fputs("\tfor (int64_t task = blockIdx.x; task < a.tasks.outs * a.tasks.splits; task += gridDim.x) {\n", k->out);
	k->depth = 2;
	for (int i = 0; i < count; i++) put_sum(k, ids[i], true);
	fprintf(k->out, "\t\tRT_EACH_OF_TASK(%s, a.tasks, task) {\n", k->flat ? "i" : "e");
	k->depth = 3;
	lc_kernel_coordinates(k);
	lc_kernel_loads(k);
	if (stores) put_declared_stores(k);
	lc_kernel_values(k, stores);
	if (stores) lc_kernel_stores(k);
	for (int i = 0; i < count; i++) put_sum(k, ids[i], false);
	fputs("\t\t}\n", k->out);
	for (int i = 0; i < count; i++) {
		lc_value_identifier(k->pass.p, "r", ids[i], name);
		fprintf(k->out, "\t\t%s = rt_over_block(%s, %s);\n\t\tif (threadIdx.x == 0) a.%s[task] = %s;\n", name, name,
		        kind(node(k, ids[i])), name, name);
	}
	fputs("\t}\n}\n\n", k->out);
}

/* The host's side of one such kernel: room for the parts of sums, launch, the second kernel. */
static void put_reducing_launch(lc_kernel *k, const int *ids, int count, int number, FILE *host) {
	char name[LC_IDENTIFIER], part[LC_CUDA_PART];
	lc_mpi_part(k->c, k->pass.step->space, part, sizeof part);
	fprintf(host, "\ta.tasks = rt_tasks_of(%s, %d);\n", part, node(k, ids[0])->dims);
	for (int i = 0; i < count; i++) {
		const char *type = sum_type(lc_kernel_format(k, ids[i]));
		lc_value_identifier(k->pass.p, "r", ids[i], name);
		fprintf(host, "\ta.%s = (%s *)rt_scratch(run, a.tasks.outs * a.tasks.splits * (int64_t)sizeof *a.%s);\n",
			name, type, name);
	}
	fprintf(host, "\tRT_RUN_TASKS(kernel%d_%s, a);\n", number, k->name);
	for (int i = 0; i < count; i++) {
		const lc_node *n = node(k, ids[i]);
		lc_value_identifier(k->pass.p, "r", ids[i], name);
		fprintf(host, "\trt_finish<%s>(run, %s, a.%s, a.tasks, %s, ", lc_format_name(lc_kernel_format(k, ids[i])),
		        lc_mpi_part(k->c, ids[i], part, sizeof part), name, kind(n));
		fprintf(host, "rt_reduced_elements(%s, %d));\n", lc_mpi_part(k->c, n->in[0], part, sizeof part), n->dims);
		fprintf(host, "\trt_release(run, a.%s);\n", name);
	}
}

/* The sum over a list: tensor by tensor. */
static void put_totals(lc_kernel *k) {
	char name[LC_IDENTIFIER], part[LC_CUDA_PART];
	for (size_t i = 0; i < k->pass.results.count; i++) {
		int id = k->pass.results.at[i];
		if (!is_total(k, id)) continue;
		lc_dtype t = lc_kernel_format(k, id);
		const lc_place *at = &k->pass.places.at[k->pass.place[id]];
		lc_kernel_place_name(k, "p", at, name);
		lc_put_tabs(k->depth, k->out);
		fprintf(k->out, "a.%s[", name);
		lc_kernel_index(k, at, k->out);
		fprintf(k->out, "] = %s(a.item ? %sa.%s[", strcmp(lc_store_call(t), "(") ? lc_store_call(t) : "",
			lc_load_call(t), name);
		lc_kernel_index(k, at, k->out);
		fputs("]) : 0) + ", k->out);
		lc_kernel_value(k, node(k, id)->in[0]);
		fputs(strcmp(lc_store_call(t), "(") ? ");\n" : ";\n", k->out);
		(void)part;
	}
}

/* ---- functions ---- */

static void copy(FILE *from, FILE *to) {
	char text[4096];
	size_t n;
	rewind(from);
	while ((n = fread(text, 1, sizeof text, from)) > 0) fwrite(text, 1, n, to);
}

void lc_kernel_struct(lc_kernel *k) {
	fprintf(k->c->out, "typedef struct args_%s {\n", k->name);
	copy(k->fields, k->c->out);
	fprintf(k->c->out, "} args_%s;\n\n", k->name);
}

void lc_kernel_host_begin(lc_kernel *k, const char *name) {
	char part[LC_CUDA_PART];
	bool list = k->pass.step->list >= 0;
	fprintf(k->c->out, "static void %s%s(rt_run *run%s) {\n", name, list ? "_of" : "", list ? ", int64_t item" : "");
	if (lc_mpi_may_be_absent(k->c, k->pass.step->space))
		fprintf(k->c->out, "\tif (!(%s)->here) return;\n", lc_mpi_part(k->c, k->pass.step->space, part, sizeof part));
	fprintf(k->c->out, "\targs_%s a;\n", k->name);
	copy(k->fills, k->c->out);
}

void lc_kernel_host_end(lc_kernel *k, const char *name) {
	char number[LC_IDENTIFIER];
	fputs("}\n\n", k->c->out);
	if (k->pass.step->list < 0) return;
	fprintf(k->c->out,
		"static void %s(rt_run *run) {\n\tfor (int64_t item = 0; item < rt_items(run, %s); item++) %s_of(run, "
		"item);\n}\n\n",
		name, lc_mpi_number(k->c, k->pass.step->space, number), name);
}

static lk_status put_reductions(lc_kernel *k) {
	size_t results = k->pass.results.count;
	int *done = LK_ARRAY(&k->c->arena, int, results + 1), *ids = LK_ARRAY(&k->c->arena, int, results + 1);
	FILE *host = tmpfile();
	if (!done || !ids || !host) return lk_oom(k->c->err);
	char name[LC_IDENTIFIER];
	fputs("\trt_tasks tasks;\n", k->fields);
	for (size_t i = 0; i < k->pass.results.count; i++)
		if (!is_total(k, k->pass.results.at[i]))
			fprintf(k->fields, "\t%s *%s;\n", sum_type(lc_kernel_format(k, k->pass.results.at[i])),
			        lc_value_identifier(k->pass.p, "r", k->pass.results.at[i], name));
	lc_kernel_struct(k);
	/* The last kernel stores: what others read is overwritten then. */
	for (int number = 0, count; (count = group_of(k, done, ids)) > 0; number++) {
		size_t left = 0;
		for (size_t i = 0; i < k->pass.results.count; i++) {
			for (int j = 0; j < count; j++) done[i] |= k->pass.results.at[i] == ids[j];
			left += !done[i];
		}
		put_reducing_kernel(k, ids, count, number, left == 0);
		put_reducing_launch(k, ids, count, number, host);
	}
	lc_kernel_host_begin(k, k->name);
	copy(host, k->c->out);
	fclose(host);
	lc_kernel_host_end(k, k->name);
	return LK_OK;
}

static bool reduces(const lc_kernel *k) {
	for (size_t i = 0; i < k->pass.results.count; i++)
		if (!is_total(k, k->pass.results.at[i])) return true;
	return false;
}

static lk_status put_map(lc_kernel *k) {
	k->out = k->c->out;
	if (reduces(k)) return put_reductions(k);
	lc_kernel_alignment(k);
	lc_kernel_struct(k);
	fprintf(k->out, "static __global__ void __launch_bounds__(RT_THREADS) kernel_%s(const args_%s a) {\n", k->name,
		k->name);
	if (k->pass.results.count) {
		k->depth = 1;
		lc_kernel_numbers(k);
		fprintf(k->out, "\tRT_FOR(%s, a.count) {\n", k->flat ? "i" : "e");
		k->depth = 2;
		lc_kernel_coordinates(k);
		lc_kernel_loads(k);
		put_declared_stores(k);
		lc_kernel_values(k, true);
		lc_kernel_stores(k);
		put_totals(k);
		fputs("\t}\n", k->out);
	} else lc_kernel_elements(k, "rt_first()", "rt_step()");
	fputs("}\n\n", k->out);
	lc_kernel_host_begin(k, k->name);
	fprintf(k->out, "\tRT_RUN(kernel_%s, a.count, a);\n", k->name);
	lc_kernel_host_end(k, k->name);
	return LK_OK;
}

lk_status lc_cuda_map(lc_mpi *c, const lc_step *s) {
	lc_kernel k;
	lk_status status = lc_kernel_open(c, s, false, &k);
	if (status == LK_OK) status = put_map(&k);
	lc_kernel_close(&k);
	return status;
}
