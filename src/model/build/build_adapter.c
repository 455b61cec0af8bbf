/* build_adapter.c: low-rank adapters alongside frozen projections: two thin products, what they
 * keep, and the magnitudes of DoRA. */
#include "model/build/build.h"
#include "model/layout/job.h"

/* DoRA (arXiv 2402.09353): rows of the adapted weight are divided by their norms, which the
 * gradient treats as constants (section 4.3), and scaled. Forward, as PEFT does: the product B A is
 * scaled (two passes over [n, k]), added to the weight (three), the norm of the sum taken (one);
 * outputs of base and adapter are scaled and added. Backward: the gradient of outputs scaled, and
 * that of the magnitudes. */
static void magnitudes(lk_builder *builder, double n, double k, bool backward) {
	double outputs = builder->bytes * builder->tokens * n;
	if (backward) {
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "dora_scale_grad", 4 * outputs);
		lk_build_release(builder, outputs, LK_OWN_ACTIVATIONS);
		return;
	}
	lk_build_gemm(builder, "dora_weight", n, k, builder->job->lora_rank);
	lk_build_memory(builder, LK_OP_ELEMENTWISE, "dora_norm", 6 * builder->bytes * n * k);
	lk_build_scratch(builder, 2 * builder->bytes * n * k, LK_OWN_WORKSPACE);
	lk_build_memory(builder, LK_OP_ELEMENTWISE, "dora_scale", 3 * outputs);
	lk_build_save(builder, outputs, LK_OWN_ACTIVATIONS); /* for the magnitudes' gradient */
}

/* What an adapter keeps for its gradients: what its first product reads, which dropout makes anew
 * for each with a mask of a byte (PEFT, tuners/lora/layer.py, Linear.forward), unless it is kept
 * already; and what its second product reads. */
static double adapter_kept(const lk_builder *builder, lk_adapter of, int products) {
	double read = builder->bytes * of.k, second = builder->bytes * builder->job->lora_rank;
	if (builder->job->lora_dropout > 0) read = products * (builder->bytes + 1) * of.k;
	else if (of.at_hand) read = 0;
	return of.rows * (read + products * second);
}

static void adapter_products(lk_builder *builder, lk_adapter of, lk_adapted beside, bool backward) {
	double r = builder->job->lora_rank, all = beside.products * r;
	lk_build_gemm(builder, "adapter_a", of.rows, all, of.k);
	lk_build_gemm(builder, "adapter_b", of.rows, beside.out, r);
	if (builder->job->dora) magnitudes(builder, beside.out, of.k, backward);
	if (!backward) return;
	lk_build_gemm(builder, "adapter_a_grad", all, of.k, of.rows);
	lk_build_gemm(builder, "adapter_b_grad", beside.out, r, of.rows);
}

/* What products of a narrow base keep of their input beyond others'
 * (optimizers.c). Where a loop holds
 * the graph, all of it stays until the next loss: what was kept anyway is counted again as the
 * backward pass releases it (build_ends.c releases the sum). */
static void keep_what_is_read(lk_builder *builder, lk_adapter of, bool adapted, bool backward) {
	const lk_job *job = builder->job;
	const lk_base_kind *base = lk_base_of(job);
	if (builder->train_base || !job->narrow_base || !base->keeps) return;
	double all = builder->bytes * of.rows * of.k;
	double kept = of.at_hand || (adapted && job->lora_dropout == 0) ? 0 : all;
	bool held = lk_build_holds_inputs(builder);
	if (held && of.shared) all = 0;
	if (!backward) builder->layer_reads += held ? all : 0;
	if (!backward) lk_build_save(builder, kept, LK_OWN_ACTIVATIONS);
	else if (held) lk_build_save(builder, all - kept, LK_OWN_ACTIVATIONS);
	else lk_build_release(builder, kept, LK_OWN_ACTIVATIONS);
}

void lk_build_adapter(lk_builder *builder, lk_adapter of, bool backward) {
	const lk_job *job = builder->job;
	lk_adapted beside = {0};
	if (!of.experts || (job->adapted & LK_ADAPT_EXPERTS))
		beside = lk_job_adapted(job, of.readers, 3);
	keep_what_is_read(builder, of, beside.products > 0, backward);
	if (beside.products == 0 || builder->train_base) return;
	double passes = beside.products * (2 * builder->bytes + 1) * of.rows * of.k,
		   kept = adapter_kept(builder, of, beside.products);
	bool drops = job->lora_dropout > 0;
	if (drops && !backward) lk_build_memory(builder, LK_OP_ELEMENTWISE, "adapter_dropout", passes);
	adapter_products(builder, of, beside, backward);
	if (drops && backward)
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "adapter_dropout_grad", passes);
	if (backward) lk_build_release(builder, kept, LK_OWN_ACTIVATIONS);
	else lk_build_save(builder, kept, LK_OWN_ACTIVATIONS);
}

bool lk_build_holds_inputs(const lk_builder *builder) {
	const lk_job *job = builder->job;
	return !builder->train_base && job->narrow_base && lk_base_of(job)->held &&
	       job->recompute == LK_RECOMPUTE_NONE && !job->forward_only;
}
