/* layout_emit.c: a choice as a launch line of a framework. */
#include <string.h>

#include "model/layout/job.h"
#include "plan/plan.h"

static bool emit_one_of(const char *stack, const char *const *names) {
	for (; *names; names++)
		if (strcmp(stack, *names) == 0) return true;
	return false;
}

/* What the framework cannot run, in words; NULL: nothing. */
static const char *hindrance(lk_plan_emit emit, const lk_job *job) {
	static const char *const fsdp[] = {"fsdp", "torchtitan", "llm-foundry", NULL};
	bool zb = job->schedule == LK_SCHED_ZB_H1 || job->schedule == LK_SCHED_DUALPIPE;
	if (emit == LK_EMIT_TORCHTITAN && !emit_one_of(job->stack, fsdp))
		return "the layout is one of Megatron-LM; add --stack torchtitan to the search";
	if (emit == LK_EMIT_TORCHTITAN && zb)
		return "torchtitan has no such pipeline schedule; add --schedule 1f1b,interleaved,zb-v";
	if (emit == LK_EMIT_NEMO && !lk_job_like_megatron(job))
		return "the layout is one of FSDP; add --stack nemo to the search";
	if (emit == LK_EMIT_NEMO &&
	    (zb || job->schedule == LK_SCHED_ZB_V || job->schedule == LK_SCHED_GPIPE))
		return "NeMo runs 1f1b and interleaved alone; add --schedule 1f1b,interleaved";
	if (emit == LK_EMIT_DEEPSPEED && !lk_job_uses_deepspeed(job))
		return "the layout is not one of DeepSpeed; add --stack deepspeed to the search";
	if (emit == LK_EMIT_MEGATRON && job->schedule == LK_SCHED_DUALPIPE)
		return "Megatron-LM has no such pipeline schedule; add --schedule 1f1b,interleaved";
	return NULL;
}

lk_status lk_plan_launch(const lk_plan *plan, const lk_plan_choice *choice, lk_plan_emit emit,
                         const char **out, lk_error *err) {
	static const char *const names[] = {"megatron", "nemo", "deepspeed", "torchtitan"};
	static const lk_dialect dialects[] = {LK_DIALECT_MEGATRON, LK_DIALECT_NEMO,
	                                      LK_DIALECT_DEEPSPEED, LK_DIALECT_TORCHTITAN};
	const lk_job *job = choice->job;
	const char *no = hindrance(emit, job);
	*out = NULL;
	if (no) {
		lk_fail(err, LK_ERR_INPUT, "--emit", "%s cannot run \"%.200s\"", names[emit],
		        choice->layout);
		return lk_hint(err, "%s", no);
	}
	*out = lk_launch_write_for(lk_plan_arena(plan), dialects[emit], job);
	return *out ? LK_OK : lk_oom(err);
}
