/* predict.c: one prediction, and what is wrong where there is none.
 *
 *     ./predict MODEL GPU GPUS [TP [PP]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <lockstep/predict.h>

int main(int argc, char **argv) {
	lk_predict_request request;
	lk_prediction *prediction;
	lk_error err;
	char text[1024];

	if (argc < 4) {
		fprintf(stderr, "usage: %s MODEL GPU GPUS [TP [PP]]\n", argv[0]);
		return 2;
	}
	lk_predict_defaults(&request);
	request.model = argv[1], request.gpu = argv[2], request.gpus = atoi(argv[3]);
	request.tp = argc > 4 ? atoi(argv[4]) : 0, request.pp = argc > 5 ? atoi(argv[5]) : 0;
	request.gbs = 128, request.seq = 8192;
	if (lk_predict(&request, &prediction, &err) != LK_OK) {
		fprintf(stderr, "%s: %s\n", argv[0], lk_error_text(&err, text, sizeof text));
		return 2;
	}

	printf("%s on %s\n", prediction->model, prediction->cluster);
	printf("%s: %.1f of %.1f GiB\n", prediction->fits ? "fits" : "does not fit",
	       prediction->peak_bytes / (1 << 30), prediction->usable_bytes / (1 << 30));
	printf("%.2f s a step (%.2f to %.2f), %.0f tokens/s per GPU, MFU %.1f %%\n",
	       prediction->step_time_s, prediction->step_time_low_s, prediction->step_time_high_s,
	       prediction->tokens_per_s_per_gpu, prediction->mfu * 100);
	for (int i = 0; i < prediction->breakdown_count; i++) {
		const lk_time_part *part = &prediction->breakdown[i];
		if (part->exposed_s > 0.01 * prediction->step_time_s)
			printf("  %-26s %5.1f %%\n", part->label,
			       part->exposed_s / prediction->step_time_s * 100);
	}
	/* A job that does not fit is an answer too; these are the changes that would make it fit. */
	for (int i = 0; i < prediction->fix_count; i++)
		printf("  would fit with %s: %.1f GiB, %+.0f %% time\n", prediction->fixes[i].change,
		       prediction->fixes[i].peak_bytes / (1 << 30),
		       (prediction->fixes[i].time_ratio - 1) * 100);
	int status = prediction->fits ? 0 : 1;
	lk_predict_free(prediction);
	return status;
}
