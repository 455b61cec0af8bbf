/* job_stack.c: which relatives of a job's software have its defaults. */
#include "model/layout/job.h"

#include <string.h>

bool lk_job_like_megatron(const lk_job *job) {
	return job->stack[0] == '\0' || strncmp(job->stack, "megatron", 8) == 0 ||
	       strcmp(job->stack, "nemo") == 0;
}

bool lk_job_uses_deepspeed(const lk_job *job) {
	return strstr(job->stack, "deepspeed") != NULL;
}
