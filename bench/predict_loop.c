/* predict_loop.c: how long lk_predict takes by itself: bench/python.py subtracts it from a call in
 * Python. Usage: bench-predict COUNT OPTION...: seconds per call, from words to an answer that is
 * freed. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lockstep/predict.h"

static lk_status once(int count, const char *const *words, lk_error *err) {
	lk_args args;
	lk_predict_request request;
	lk_prediction *prediction;
	LK_TRY(lk_args_parse(&lk_predict_verb, count, words, &args, err));
	lk_predict_defaults(&request);
	lk_status status = lk_args_fill(&args, 0, &request, err);
	if (status == LK_OK) status = lk_predict(&request, &prediction, err);
	if (status == LK_OK) lk_predict_free(prediction);
	lk_args_free(&args);
	return status;
}

int main(int argc, char **argv) {
	struct timespec begin, end;
	lk_error err = {0};
	int count = argc > 1 ? atoi(argv[1]) : 0;
	if (count < 1) return fputs("usage: bench-predict COUNT OPTION...\n", stderr), 2;
	const char *const *words = (const char *const *)argv + 2;
	if (once(argc - 2, words, &err) != LK_OK)
		return fprintf(stderr, "%s: %s\n", err.where, err.what), 2;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < count; i++)
		if (once(argc - 2, words, &err) != LK_OK) return 2;
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%.9f\n",
	       ((double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec)) /
	           count);
	return 0;
}
