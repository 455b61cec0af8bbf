/* plan.c: the best layout on several numbers of GPUs, with progress, and the launch line of the
 * fastest.
 *
 *     ./plan MODEL GPU GPUS[,GPUS...]
 */
#include <stdio.h>
#include <lockstep/plan.h>

static void show(void *context, int gpus, double done, double all) {
	(void)context;
	fprintf(stderr, "\r%d GPUs: %3.0f %%", gpus, all > 0 ? done / all * 100 : 100);
}

static int print(const lk_plan *plan, lk_error *err) {
	for (int i = 0; i < plan->count; i++) {
		const lk_plan_count *count = &plan->counts[i];
		if (!count->choice_count) {
			printf("%5d GPUs: %s\n", count->gpus, count->nothing);
			continue;
		}
		const lk_plan_choice *best = &count->choices[0];
		printf("%5d GPUs: %6.2f s a step, MFU %4.1f %%  %s\n", best->gpus, best->step_time_s,
		       best->mfu * 100, best->layout);
	}
	if (plan->best < 0) return 1;
	lk_emitted line;
	if (lk_plan_launch(plan, &plan->counts[plan->best].choices[0], "megatron", &line, err) != LK_OK)
		return 2;
	printf("\n%s\n", line.text);
	return 0;
}

int main(int argc, char **argv) {
	lk_plan_request request;
	lk_plan *plan;
	lk_error err;
	char text[1024];

	if (argc < 4) {
		fprintf(stderr, "usage: %s MODEL GPU GPUS[,GPUS...]\n", argv[0]);
		return 2;
	}
	lk_plan_defaults(&request);
	request.job.model = argv[1], request.job.gpu = argv[2], request.gpus = argv[3];
	request.job.gbs = 128, request.job.seq = 4096;
	request.top = 1, request.no_sensitivity = true;
	request.progress = show;
	int status = 2;
	if (lk_plan_find(&request, &plan, &err) == LK_OK) {
		fputc('\n', stderr);
		status = print(plan, &err);
		lk_plan_free(plan);
	}
	if (status == 2) fprintf(stderr, "%s: %s\n", argv[0], lk_error_text(&err, text, sizeof text));
	return status;
}
