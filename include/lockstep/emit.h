/* emit.h: a job written as what its framework, or a cluster's scheduler, is started with.
 *
 * Targets: launch lines of megatron, bridge, nemo, deepspeed and torchtitan; configurations of
 * axolotl, llama-factory, nanotron and accelerate; jobs of clusters that run any of them,
 * "sbatch:axolotl", "skypilot:megatron", "kubernetes:nanotron" (alone: of the framework that the
 * job's stack is of); "program", the end of the step as a program of lockstep compile, which starts
 * nothing. lk_predict_emit and lk_plan_launch write them. */
#ifndef LOCKSTEP_EMIT_H
#define LOCKSTEP_EMIT_H

#ifdef __cplusplus
extern "C" {
#endif

/* What was written. It reads back as the same job: settings that the target has no word for are in
 * it as LOCKSTEP_NAME=value, which lockstep alone looks at. Texts live as long as what was asked.
 */
typedef struct lk_emitted {
	const char *text;
	const char *const *notes; /* what to know before it is run: settings that the target cannot
	                             say, names to fill in */
	int note_count;
} lk_emitted;

#ifdef __cplusplus
}
#endif
#endif
