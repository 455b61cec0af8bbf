/* dlrm_copies.c: rows replicated on every rank, so that their sums need no exchange; their
 * gradients are reduced with those of the MLPs. HugeCTR's rules for MLPerf:
 *
 * One lookup a table (HybridSparseEmbedding, NVIDIA-Merlin/HugeCTR@1dde7cb2,
 * hybrid_embedding/calibration_data.cu): rows that a batch looks up `threshold` times or more, on N
 * nodes, the break-even of the sums' and the gradients' traffic,
 *
 *     threshold = N * (all-to-all rate / all-reduce rate) * efficiency * N / (N - 1)
 *
 * and on one node, the break-even at which a rank's M samples contain a row twice with probability
 * p: batch sqrt(2 p / (M (M - 1))). Rates, efficiency and p are those of the launch files
 * (mlcommons/training_results_v1.1, dgx_a100_14x8x640.py). How often rows are looked up is Zipf's
 * law with exponent 1: the i-th row 1 / (i H(rows)) of the lookups.
 *
 * Several lookups a table: whole tables of at most DP_SHARDING_THRESHOLD
 * (mlcommons/training_results_v3.1 to v5.1, dlrm_dcnv2). */
#include "model/dlrm/dlrm_build.h"

#include <math.h>

static const double all_to_all_rate = 1.9e11, all_reduce_rate = 1.3e11, efficiency = 0.5,
					twice = 0.01;
static const double copied_bytes = 0.008 * 0x1p30, single = 4;

/* Sum of 1 / i up to n. */
static double harmonic(double n) {
	const double euler = 0.57721566490153286;
	return n < 1 ? 0 : log(n) + euler + 1 / (2 * n) - 1 / (12 * n * n);
}

static bool one_lookup(const lk_dlrm *dlrm) {
	return lk_dlrm_lookups(dlrm) == dlrm->tables;
}

double lk_dlrm_threshold(const lk_dlrm_job *job) {
	double in_node =
		job->node_ranks > 0 && job->node_ranks < job->ranks ? job->node_ranks : job->ranks;
	double nodes = job->ranks / in_node, own = job->batch / job->ranks;
	if (nodes > 1)
		return nodes * all_to_all_rate / all_reduce_rate * efficiency * nodes / (nodes - 1);
	return own > 1 ? job->batch * sqrt(2 * twice / (own * (own - 1))) : job->batch;
}

/* Rows of a table with at least `threshold` lookups, and their share of its lookups. */
static double frequent(double rows, double lookups, double threshold, double *share) {
	double all = harmonic(rows), count = fmin(floor(lookups / (all * threshold)), rows);
	*share = harmonic(count) / all;
	return count;
}

/* Of the `count` most frequent rows, the number that a rank with this many lookups touches: sums of
 * 1 - exp(-lookups / (i H)). */
static double copies_touched(double count, double rows, double lookups) {
	double mean = lookups / harmonic(rows), sum = 0, from = 1;
	while (from <= count) {
		double to = fmin(fmax(floor(from * 1.25), from + 1), count + 1);
		sum -= (to - from) * expm1(-mean / sqrt(from * (to - 1)));
		from = to;
	}
	return sum;
}

lk_dlrm_copied lk_dlrm_copies(const lk_dlrm *dlrm, const lk_dlrm_job *job) {
	lk_dlrm_copied out = {0, 1, 1, 0};
	double threshold = lk_dlrm_threshold(job), sums = 0, lookups = 0;
	bool one_node = job->node_ranks <= 0 || job->node_ranks >= job->ranks;
	if (job->ranks < 2) return out;
	for (int i = 0; i < dlrm->kind_count; i++) {
		const lk_dlrm_tables *tables = &dlrm->kinds[i];
		double share = tables->rows * dlrm->dim * single <= copied_bytes,
			   rows = share * tables->rows;
		if (one_lookup(dlrm)) rows = frequent(tables->rows, job->batch, threshold, &share);
		out.rows += tables->count * rows;
		/* within a node an owner reads its peers' gradients; across nodes and for whole tables all
		 * are summed */
		out.reduced +=
			tables->count * (one_lookup(dlrm) && one_node
		                         ? copies_touched(rows, tables->rows, job->batch / job->ranks)
		                         : rows);
		sums += tables->count * (1 - share);
		lookups += tables->count * tables->pooling * (1 - share);
	}
	out.sums = sums / dlrm->tables;
	out.lookups = lookups / lk_dlrm_lookups(dlrm);
	return out;
}
