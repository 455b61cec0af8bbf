/* emit_cuda_ring.c: RING steps: if ranks access each other's memory, one kernel loads this rank's
 * slice from all of them, reduces it, computes, and stores its results to all of them, between two
 * barriers. Otherwise NCCL's collectives run before and after the pass. The choice is made when the
 * program runs. */
#include "lang/emit/emit_cuda.h"

static int axis_of(const lc_mpi *mpi, const lc_step *step) {
	return lc_node_at(mpi->p, step->scatter >= 0 ? step->scatter : step->gathers.at[0])->axis;
}

/* Not with reductions, which need barriers of blocks. */
bool lc_cuda_in_kernel(const lc_mpi *mpi, const lc_step *step) {
	if (1 + step->gathers.count > LC_CUDA_SHARED) return false;
	for (int i = 0; i < step->values.count; i++) {
		lc_family family = lc_ops[lc_node_at(mpi->p, step->values.at[i])->op].family;
		if (family == LC_RED || family == LC_TOTALS) return false;
	}
	return step->space >= 0 && lc_node_at(mpi->p, step->space)->rank > 0;
}

static void put_kernel(lc_kernel *kernel) {
	lc_kernel_struct(kernel);
	fprintf(kernel->out,
	        "template <class Access> static __global__ void __launch_bounds__(RT_THREADS) "
	        "kernel_%s(const args_%s *all, "
	        "Access access) {\n",
	        kernel->name, kernel->name);
	fprintf(kernel->out, "\taccess.start();\n\tconst args_%s &a = all[access.place];\n",
	        kernel->name);
	fputs("\taccess.barrier(); /* what the others reduce and read is complete */\n", kernel->out);
	lc_kernel_elements(kernel, "access.first()", "access.step()");
	fputs("\taccess.barrier(); /* what the others store here has come */\n}\n\n", kernel->out);
}

static void put_host(lc_kernel *kernel) {
	int axis = axis_of(kernel->c, kernel->pass.step);
	char name[LC_IDENTIFIER + 16], number[LC_IDENTIFIER];
	bool list = kernel->pass.step->list >= 0;
	snprintf(name, sizeof name, "%.80s_reaching", kernel->name);
	lc_kernel_host_begin(kernel, name);
	fputs("\tconst rt_shared_part shared[] = {", kernel->out);
	for (int i = 0; i < kernel->shared_count; i++)
		fprintf(kernel->out, "%s{%s, %s}", lc_comma(i),
		        lc_mpi_number(kernel->c, kernel->shared[i].held, number), list ? "item" : "0");
	fprintf(kernel->out, "};\n\tRT_LAUNCH_RING(run, %d, kernel_%s, &a, shared, %d, 2);\n", axis,
	        kernel->name, kernel->shared_count);
	lc_kernel_host_end(kernel, name);
}

static lk_status reaching(lc_mpi *mpi, const lc_step *step) {
	lc_kernel k;
	lk_status status = lc_kernel_open(mpi, step, true, &k);
	if (status == LK_OK) {
		lc_kernel_alignment(&k);
		status = lc_kernel_put(&k, put_kernel, put_host);
	}
	lc_kernel_close(&k);
	return status;
}

/* Write only the pass, as a step with its own name. */
static lk_status pass_alone(lc_mpi *mpi, const lc_step *step, char name[LC_NAME + 8]) {
	lc_step alone = *step;
	snprintf(name, LC_NAME + 8, "%s_pass", step->name);
	alone.kind = LC_STEP_MAP;
	alone.name = name;
	return lc_cuda_map(mpi, &alone);
}

lk_status lc_cuda_ring(lc_mpi *mpi, const lc_step *step) {
	char pass[LC_NAME + 8], name[LC_IDENTIFIER], function[LC_IDENTIFIER];
	bool in_kernel = lc_cuda_in_kernel(mpi, step);
	LK_TRY(pass_alone(mpi, step, pass));
	if (in_kernel) LK_TRY(reaching(mpi, step));
	lc_step alone = {.name = pass};
	lc_mpi_function(mpi, &alone, function);
	fprintf(mpi->out, "static void %s(rt_run *run) {\n", lc_mpi_function(mpi, step, name));
	if (in_kernel)
		fprintf(mpi->out, "\tif (rt_reaches(run, %d)) {\n\t\t%s_reaching(run);\n\t\treturn;\n\t}\n",
		        axis_of(mpi, step), name);
	if (step->scatter >= 0) {
		fputs("\t{\n", mpi->out);
		LK_TRY(lc_mpi_collectives(mpi, &step->scatter, 1, step->bucket, 2));
		fputs("\t}\n", mpi->out);
	}
	fprintf(mpi->out, "\t%s(run);\n", function);
	if (step->gathers.count)
		LK_TRY(lc_mpi_collectives(mpi, step->gathers.at, step->gathers.count, step->bucket, 1));
	fputs("}\n\n", mpi->out);
	return LK_OK;
}
