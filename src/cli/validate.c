/* validate.c: `lockstep validate`: predicted against measured. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/validate.h"
#include "lockstep/view.h"

static int validate_files(const void *request, const char **paths) {
	paths[0] = ((const lk_validate_request *)request)->plot;
	return 1;
}

int cli_validate_with(lk_args *args, const lk_plan_team *team, bool speaks) {
	lk_validate_request request;
	lk_validation *validation = NULL;
	lk_outputs outputs;
	lk_error err = {0};
	lk_validate_defaults(&request);
	if (cli_read(args, &request, &outputs, validate_files, team, &err) != LK_OK)
		return speaks ? cli_fail(&err) : CLI_WRONG;
	request.table = args->operands[0];
	request.more = args->operands + 1;
	request.more_count = args->operand_count - 1;
	request.team = team;
	if (lk_validate(&request, &validation, &err) != LK_OK)
		return speaks ? cli_fail(&err) : CLI_WRONG;
	if (!speaks) return lk_validate_free(validation), CLI_OK;
	lk_status status = request.plot ? lk_validate_plot(validation, request.plot, &err) : LK_OK;
	if (status == LK_OK)
		status =
			lk_validate_save(validation, outputs.format, cli_colour(), outputs.path, stdout, &err);
	cli_warn_failed(validation->failed_check);
	lk_validate_free(validation);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

static int validate_run(lk_args *args) {
	return cli_validate_with(args, NULL, true);
}

const cli_command cli_validate = {&lk_validate_verb, validate_run};
