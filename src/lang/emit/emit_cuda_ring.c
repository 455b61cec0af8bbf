/* emit_cuda_ring.c: RING steps: where ranks reach each other's memory, one kernel loads this rank's slice from all of
 * them, reduces it, computes, and stores what it made to all of them, between two barriers. Elsewhere NCCL's
 * collectives run before and behind the pass. Which of the two is chosen when the program runs.
 */
#include "lang/emit/emit_cuda.h"

static const lc_node *node(const lc_mpi *c, int id) { return &c->p->nodes.at[id]; }

static int axis_of(const lc_mpi *c, const lc_step *s) {
	return node(c, s->scatter >= 0 ? s->scatter : s->gathers.at[0])->axis;
}

/* Slices that have been handed round lie elsewhere than a rank's number says; reductions need barriers of blocks. */
bool lc_cuda_in_kernel(const lc_mpi *c, const lc_step *s) {
	if (1 + s->gathers.count > LC_CUDA_SHARED) return false;
	for (int i = 0; i < s->values.count; i++) {
		lc_family family = lc_ops[node(c, s->values.at[i])->op].family;
		if (family == LC_RED || family == LC_TOTALS) return false;
	}
	return s->space >= 0 && node(c, s->space)->rank > 0;
}

static void put_kernel(lc_kernel *k) {
	lc_kernel_alignment(k);
	lc_kernel_struct(k);
	fprintf(k->out,
		"template <class Access> static __global__ void __launch_bounds__(RT_THREADS) kernel_%s(const args_%s *all, "
		"Access access) {\n",
		k->name, k->name);
	fprintf(k->out, "\taccess.start();\n\tconst args_%s &a = all[access.place];\n", k->name);
	fputs("\taccess.barrier(); /* what the others reduce and read is complete */\n", k->out);
	lc_kernel_elements(k, "access.first()", "access.step()");
	fputs("\taccess.barrier(); /* what the others store here has come */\n}\n\n", k->out);
}

static void put_host(lc_kernel *k, int axis) {
	char name[LC_IDENTIFIER + 16], number[LC_IDENTIFIER];
	bool list = k->pass.step->list >= 0;
	snprintf(name, sizeof name, "%.80s_reaching", k->name);
	lc_kernel_host_begin(k, name);
	fputs("\tconst rt_shared_part shared[] = {", k->out);
	for (int i = 0; i < k->shared_count; i++)
		fprintf(k->out, "%s{%s, %s}", i ? ", " : "", lc_mpi_number(k->c, k->shared[i].held, number), list ? "item" : "0");
	fprintf(k->out, "};\n\tRT_LAUNCH_RING(run, %d, kernel_%s, &a, shared, %d, 2);\n", axis, k->name, k->shared_count);
	lc_kernel_host_end(k, name);
}

static lk_status reaching(lc_mpi *c, const lc_step *s) {
	lc_kernel k;
	lk_status status = lc_kernel_open(c, s, true, &k);
	k.out = c->out;
	if (status == LK_OK) {
		put_kernel(&k);
		put_host(&k, axis_of(c, s));
	}
	lc_kernel_close(&k);
	return status;
}

/* The pass alone, as a step of its own name. */
static lk_status pass_alone(lc_mpi *c, const lc_step *s, char name[LC_NAME + 8]) {
	lc_step alone = *s;
	snprintf(name, LC_NAME + 8, "%s_pass", s->name);
	alone.kind = LC_STEP_MAP, alone.name = name;
	return lc_cuda_map(c, &alone);
}

lk_status lc_cuda_ring(lc_mpi *c, const lc_step *s) {
	char pass[LC_NAME + 8], name[LC_IDENTIFIER], function[LC_IDENTIFIER];
	bool in_kernel = lc_cuda_in_kernel(c, s);
	LK_TRY(pass_alone(c, s, pass));
	if (in_kernel) LK_TRY(reaching(c, s));
	lc_step alone = {.name = pass};
	lc_mpi_function(c, &alone, function);
	fprintf(c->out, "static void %s(rt_run *run) {\n", lc_mpi_function(c, s, name));
	if (in_kernel)
		fprintf(c->out, "\tif (rt_reaches(run, %d)) {\n\t\t%s_reaching(run);\n\t\treturn;\n\t}\n", axis_of(c, s), name);
	if (s->scatter >= 0) {
		fputs("\t{\n", c->out);
		LK_TRY(lc_mpi_collectives(c, &s->scatter, 1, s->bucket, 2));
		fputs("\t}\n", c->out);
	}
	fprintf(c->out, "\t%s(run);\n", function);
	if (s->gathers.count) LK_TRY(lc_mpi_collectives(c, s->gathers.at, s->gathers.count, s->bucket, 1));
	fputs("}\n\n", c->out);
	return LK_OK;
}
