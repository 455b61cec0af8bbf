/* doctor.c: `lockstep doctor`. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/doctor.h"
#include "serve/serve.h"

int cli_doctor(lk_args *args) {
	lk_outputs outputs;
	lk_doctor *doctor = NULL;
	lk_error err = {0};
	cli_defaults_paths paths;
	if (cli_read(args, NULL, &outputs, NULL, NULL, &err) != LK_OK) return cli_fail(&err);
	int count = cli_defaults_find(&paths);
	lk_status status = lk_doctor_find(&(lk_doctor_request){.commit = cli_commit,
	                                                       .defaults = paths.at,
	                                                       .default_count = count,
	                                                       .serves = lk_serve_is_built},
	                                  &doctor, &err);
	if (status == LK_OK)
		status = lk_doctor_print(doctor, outputs.format, outputs.verbose, cli_colour(),
		                         outputs.path, stdout, &err);
	int code = doctor && doctor->broken ? CLI_NO : CLI_OK;
	lk_doctor_free(doctor);
	return status == LK_OK ? code : cli_fail(&err);
}
