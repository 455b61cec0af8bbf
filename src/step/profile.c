/* profile.c: the constants of a job's prediction: numbers of all jobs, fitted on measured runs
 * (`lockstep calibrate runs`), and what its software runs: which kernels, with which switches
 * (model/layout/job_stack.c). No number belongs to a stack. */
#include "step/step.h"

#include "base/text.h"
#include "model/build/build.h"

/* Runs of the job's codebase. */
const lk_calibration_row *lk_profile_find(const lk_calibration *calibration, const lk_job *job) {
	return lk_calibration_find(calibration, "stack", lk_stack_codebase(job->profile), "");
}

bool lk_profile_measured(const lk_calibration *calibration, lk_arch arch) {
	return arch == LK_ARCH_AMPERE ||
	       lk_calibration_find(calibration, "architecture", lk_arch_name(arch), "");
}

/* ---- constants ---- */

/* What the job's software runs by itself, whether or not a launch line states its switches. */
static const lk_stack_features *profile_features(const lk_job *job) {
	return lk_stack_features_of(*job->profile ? job->profile : job->stack, job->release);
}

lk_attention_kernel lk_profile_attention(const lk_job *job) {
	static const lk_attention_kernel of[] = {[LK_ATTN_LIBRARY_AUTO] = LK_ATTENTION_CUDNN,
	                                         [LK_ATTN_LIBRARY_CUDNN] = LK_ATTENTION_CUDNN,
	                                         [LK_ATTN_LIBRARY_FLASH] = LK_ATTENTION_FA2,
	                                         [LK_ATTN_LIBRARY_FLASH3] = LK_ATTENTION_FA3};
	const lk_stack_features *features = profile_features(job);
	lk_attention_kernel kernel = of[job->attn_library];
	bool early = job->early_attention || features->early_attention;
	if (kernel == LK_ATTENTION_FA2 && features->first_flash && !job->attn_library_said)
		return LK_ATTENTION_TRITON;
	return kernel == LK_ATTENTION_CUDNN && early ? LK_ATTENTION_CUDNN_EARLY : kernel;
}

void lk_profile_kernels(const lk_job *job, lk_constants *out) {
	const lk_stack_features *features = profile_features(job);
	out->attention = lk_profile_attention(job);
	out->narrow_attention = features->narrow_attention && job->dtype >= LK_FP8;
	out->grouped_experts = features->grouped_experts;
}

void lk_profile_base(const lk_calibration *calibration, lk_constants *out) {
	const lk_calibration_row *row = lk_calibration_find(calibration, "step", "all", "");
	*out = lk_default_constants;
#define TAKE(field) out->field = lk_calibration_value(row, #field, out->field)
	LK_STEP_NUMBERS(TAKE);
#undef TAKE
}

/* The base's shares of memory bandwidth were fitted on language models and include passes that
 * their graphs lack. Convolution nets have their own; streaming kernels measured separately reach
 * 0.83 to 0.89 (add in data/calibration/memory.csv). */
void lk_profile_streaming(lk_constants *out) {
	out->memory_efficiency = out->norm_efficiency = 0.86;
	out->stream_issue = 13.9; /* of the H100, the highest of all measured devices */
}

lk_job lk_profile_job(const lk_graph *graph, const char *stack, const char *release,
                      lk_dtype dtype) {
	const lk_software *software = &graph->software;
	lk_job job = {.dtype = dtype,
	              .fused_kernels = software->streaming,
	              .attn_library = (lk_attn_library)software->attention};
	if (!stack)
		stack = software->stack ? lk_intern_text(graph->names, software->stack) : LK_STACK_DEFAULT;
	if (!release) release = lk_intern_text(graph->names, software->release);
	lk_copy(job.profile, sizeof job.profile, stack);
	lk_copy(job.release, sizeof job.release, release);
	for (uint32_t i = 0; i < graph->ops.count; i++)
		if (graph->ops.kind[i] == LK_OP_GROUPED_GEMM) job.model.experts = 1;
	return job;
}

lk_conversion lk_profile_conversion(const lk_graph *graph, const char *stack, const char *release,
                                    lk_dtype dtype) {
	lk_job job = lk_profile_job(graph, stack, release, dtype);
	job.fp8_recipe = lk_job_fp8_recipe(&job);
	return lk_build_conversion(&job, lk_dtype_bytes(LK_BF16));
}

const char *lk_profile_move(lk_graph *graph, const char *stack, const char *release,
                            const lk_cluster *from, const lk_cluster *to) {
	lk_job job = lk_profile_job(graph, stack, release, LK_BF16);
	uint32_t *kernels = &graph->software.attention;
	bool attends = false;
	lk_copy(job.stack, sizeof job.stack, job.profile);
	if (*kernels && *kernels == lk_job_attention_by(&job, from))
		*kernels = lk_job_attention_by(&job, to);
	for (uint32_t i = 0; i < graph->ops.count; i++)
		attends |= lk_op_is_attention(graph->ops.kind[i]) || graph->ops.kind[i] == LK_OP_SOFTMAX;
	lk_capability fused = lk_job_fused_attention(&job);
	if (!attends || graph->traced || lk_cluster_can(from, fused) == lk_cluster_can(to, fused))
		return NULL;
	return lk_cluster_can(to, fused)
	           ? "the graph's attention is not fused, as on its GPU; there it would be: ask predict"
	           : "the graph's attention is fused; there the software has no such kernels: ask "
	             "predict";
}

void lk_profile_of_graph(const lk_graph *graph, const char *stack, const char *release,
                         lk_dtype dtype, lk_constants *constants, lk_cost_options *options) {
	const lk_software *software = &graph->software;
	lk_job job = lk_profile_job(graph, stack, release, dtype);
	lk_profile_constants(&job, constants);
	*options = (lk_cost_options){
		.constants = constants,
		.cuda_graphs = software->cuda_graphs,
		.compiled = software->compiled,
		.experts_eager = !software->graph_experts,
	};
}

void lk_profile_constants(const lk_job *job, lk_constants *out) {
	const lk_calibration *calibration = lk_calibration_current();
	lk_profile_base(calibration, out);
	if (lk_job_lists_passes(job)) lk_profile_streaming(out);
	lk_profile_kernels(job, out);
	const lk_scaling scaling = lk_scaling_current();
	lk_scaling_apply(&scaling, out);
	lk_error unused; /* an invalid text was refused with the request */
	if (lk_nccl_settings_read(job->nccl, "", &out->nccl, &unused) != LK_OK)
		out->nccl = (lk_nccl_settings){0};
}
