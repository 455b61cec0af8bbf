/* emit.h: write a job in the form that starts its framework, or a cluster's scheduler.
 *
 * Targets: launch lines of megatron, bridge, nemo, deepspeed and torchtitan; configurations of
 * axolotl, llama-factory and nanotron; a script around a configuration of accelerate; cluster jobs
 * that run any of them, "sbatch:axolotl", "skypilot:megatron", "kubernetes:nanotron" (without a
 * framework: that of the job's stack); "edit" and "edited", the file or line of the request with
 * the changes that state the job, as a unified diff or whole; "program", the end of the step as a
 * lockstep compile program, which starts nothing.
 * lk_predict_emit and lk_plan_launch write them. */
#ifndef LOCKSTEP_EMIT_H
#define LOCKSTEP_EMIT_H

#ifdef __cplusplus
extern "C" {
#endif

/* The emitted text. It reads back as the same job; where the target cannot express all of it, a
 * note says what a step takes as it is written. What is assumed of the data, and shapes of
 * networks, are in it as LOCKSTEP_NAME=value, which only lockstep reads. Texts live as long as the
 * answer that they come from. */
typedef struct lk_emitted {
	const char *text;
	const char *const *notes; /* read these before running it: settings that the target cannot
	                             express, names to fill in */
	int note_count;
} lk_emitted;

#ifdef __cplusplus
}
#endif
#endif
