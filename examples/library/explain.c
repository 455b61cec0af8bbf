/* explain.c: where the step of a profiled run goes, its worst stalls, and when to raise an alarm.
 *
 *     ./explain TRACE...
 */
#include <stdio.h>
#include <lockstep/explain.h>
#include <lockstep/view.h>

int main(int argc, char **argv) {
	lk_explain_request request;
	lk_explanation *x;
	lk_error err;
	char text[1024];

	lk_explain_defaults(&request);
	request.traces = (const char *const *)argv + 1, request.trace_count = argc - 1;
	if (lk_explain(&request, &x, &err) != LK_OK) {
		fprintf(stderr, "%s: %s\n", argv[0], lk_error_text(&err, text, sizeof text));
		return 2;
	}

	double busy = 0, time = 0;
	for (int i = 0; i < x->rank_count; i++) {
		busy += (double)x->ranks[i].compute_ns;
		time += (double)x->ranks[i].kernel_time_ns;
	}
	printf("%d ranks, %d steps of %.3f ms, computing %.0f %% of the time\n", x->rank_count,
	       x->step_count, x->step_s * 1e3, busy / time * 100);
	double lost = 0;
	for (int i = 0; i < x->stall_count; i++) {
		const lk_explain_stall *stall = &x->stalls[i];
		lost += stall->share;
		if (i < 3)
			printf("%4.1f %%  %s: %s\n         %s\n", stall->share * 100, stall->kind, stall->what,
			       stall->remedy);
	}
	/* The tables that the program prints can be written too. */
	lk_status status =
		lk_explain_print(x, LK_OUTPUT_CSV, LK_EXPLAIN_STALLS, false, "stalls.csv", stdout, &err);
	if (status != LK_OK)
		fprintf(stderr, "%s: %s\n", argv[0], lk_error_text(&err, text, sizeof text));
	lk_explain_free(x);
	if (status != LK_OK) return 2;
	return lost > 0.25; /* for a nightly job: status 1 where stalls take more than a quarter */
}
