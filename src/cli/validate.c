/* validate.c: `lockstep validate`: predicted against measured. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/validate.h"
#include "lockstep/view.h"

static int run(lk_args *args) {
	lk_validate_request request;
	lk_validation *validation = NULL;
	lk_error err = {0};
	lk_validate_defaults(&request);
	if (lk_args_fill(args, 0, &request, &err) != LK_OK) return cli_fail(&err);
	request.table = args->operands[0];
	if (request.format == LK_VALIDATE_SQLITE && !request.output) {
		lk_fail(&err, LK_ERR_INPUT, "--output", "the format sqlite needs a file");
		lk_hint(&err, "add --file NAME.sqlite");
		return cli_fail(&err);
	}
	/* Both places before the work: no picture is left behind where the table cannot be written. */
	const char *const places[] = {request.output, request.plot};
	for (int i = 0; i < 2; i++)
		if (places[i] && cli_check_place(places[i], &err) != LK_OK) return cli_fail(&err);
	if (lk_validate(&request, &validation, &err) != LK_OK) return cli_fail(&err);
	lk_status status = request.plot ? lk_validate_plot(validation, request.plot, &err) : LK_OK;
	if (status == LK_OK) status = lk_validate_save(validation, request.format, cli_colour(), request.output, stdout, &err);
	lk_validate_free(validation);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

const cli_command cli_validate = {&lk_validate_verb, run};
