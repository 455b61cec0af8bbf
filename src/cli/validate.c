/* validate.c: `lockstep validate`: predicted against measured. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/validate.h"
#include "lockstep/view.h"

static lk_status check_resume(const lk_validate_request *request, lk_error *err) {
	if (!request->resume || request->team) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--resume", "only lockstep-mpi keeps finished parts");
	return lk_hint(err, "run mpirun -n K lockstep-mpi validate ..., or leave it out");
}

int cli_validate_with(lk_args *args, const lk_plan_team *team, bool speaks) {
	lk_validate_request request;
	lk_validation *validation = NULL;
	lk_error err = {0};
	lk_validate_defaults(&request);
	if (lk_args_fill(args, 0, &request, &err) != LK_OK) return speaks ? cli_fail(&err) : CLI_WRONG;
	request.table = args->operands[0];
	request.team = team;
	if (check_resume(&request, &err) != LK_OK) return speaks ? cli_fail(&err) : CLI_WRONG;
	if (request.format == LK_VALIDATE_SQLITE && !request.output) {
		lk_fail(&err, LK_ERR_INPUT, "--output", "the format sqlite needs a file");
		lk_hint(&err, "add --file NAME.sqlite");
		return speaks ? cli_fail(&err) : CLI_WRONG;
	}
	/* Both places before the work: no picture is left behind where the table cannot be written. */
	const char *const places[] = {request.output, request.plot};
	for (int i = 0; i < 2; i++)
		if (places[i] && cli_check_place(places[i], &err) != LK_OK)
			return speaks ? cli_fail(&err) : CLI_WRONG;
	if (lk_validate(&request, &validation, &err) != LK_OK)
		return speaks ? cli_fail(&err) : CLI_WRONG;
	if (!speaks) return lk_validate_free(validation), CLI_OK;
	lk_status status = request.plot ? lk_validate_plot(validation, request.plot, &err) : LK_OK;
	if (status == LK_OK)
		status = lk_validate_save(validation, request.format, cli_colour(), request.output, stdout,
		                          &err);
	lk_validate_free(validation);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

static int validate_run(lk_args *args) {
	return cli_validate_with(args, NULL, true);
}

const cli_command cli_validate = {&lk_validate_verb, validate_run};
