/* calibrate.c: `lockstep calibrate`: numbers from measurements, and the machine measured. */
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "lockstep/calibrate.h"

/* Shows on a terminal what is being measured. */
static void calibrate_show(void *context, const char *doing, double share) {
	bool *shown = context;
	fprintf(stderr, "\r%3.0f %%  %s\x1b[K", 100 * share, doing);
	*shown = true;
}

int cli_calibrate(lk_args *args) {
	lk_calibrate_request request;
	lk_calibrated *calibrated = NULL;
	lk_outputs outputs;
	lk_error err = {0};
	bool shown = false;
	lk_calibrate_defaults(&request);
	if (cli_read(args, &request, &outputs, NULL, NULL, &err) != LK_OK) return cli_fail(&err);
	if (!lk_args_given(args, "output")) outputs.format = LK_CALIBRATE_AUTO;
	request.kind = args->operands[0];
	request.table = args->operand_count > 1 ? args->operands[1] : NULL;
	request.more = args->operands + 2;
	request.more_count = args->operand_count > 2 ? args->operand_count - 2 : 0;
	if (isatty(STDERR_FILENO)) {
		request.progress = calibrate_show;
		request.context = &shown;
	}
	lk_status status = lk_calibrate(&request, &calibrated, &err);
	if (shown) fputs("\r\x1b[K", stderr);
	if (status == LK_OK)
		status =
			lk_calibrate_save(calibrated, outputs.format, cli_colour(), outputs.path, stdout, &err);
	if (calibrated) cli_warn_failed(calibrated->failed_check);
	lk_calibrate_free(calibrated);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}
