/* rent.c: `lockstep rent` and `lockstep machines`: what to rent, and what there is. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/rent.h"
#include "lockstep/report.h"

static int run_rent(lk_args *args) {
	lk_rent_request request;
	lk_rent *rent = NULL;
	lk_outputs outputs;
	lk_error err = {0};
	cli_search search;
	lk_rent_defaults(&request);
	if (cli_read(args, &request, &outputs, NULL, NULL, &err) != LK_OK ||
	    cli_take_job(args, NULL, &request.job.model, &err) != LK_OK)
		return cli_fail(&err);
	if (request.map && (outputs.html || outputs.charts)) {
		lk_fail(&err, LK_ERR_INPUT, outputs.html ? "--html" : "--charts",
		        "functions have no page; leave it or --map out");
		return cli_fail(&err);
	}
	request.progress = cli_search_show;
	request.progress_context = &search;
	cli_search_begin(&search, "machines and batches");
	lk_status status = lk_rent_find(&request, &rent, &err);
	cli_search_end(&search);
	if (status != LK_OK) return cli_fail(&err);
	status = lk_rent_print(rent, outputs.format, outputs.verbose, cli_colour(), outputs.path,
	                       stdout, &err);
	if (status == LK_OK && outputs.html)
		status = lk_report_rent(rent, LK_REPORT_HTML, outputs.html, NULL, &err);
	if (status == LK_OK && outputs.charts)
		status = lk_report_rent(rent, LK_REPORT_CHARTS, outputs.charts, NULL, &err);
	int code = rent->nothing ? CLI_NO : CLI_OK;
	cli_warn_failed(rent->failed_check);
	lk_rent_free(rent);
	return status == LK_OK ? code : cli_fail(&err);
}

const cli_command cli_rent = {&lk_rent_verb, run_rent};

static int run_machines(lk_args *args) {
	lk_machines_request request;
	lk_outputs outputs;
	lk_error err = {0};
	lk_machines_defaults(&request);
	if (cli_read(args, &request, &outputs, NULL, NULL, &err) != LK_OK) return cli_fail(&err);
	request.filter = args->operand_count ? args->operands[0] : NULL;
	lk_status status = lk_machines_print(&request, outputs.format, outputs.verbose, cli_colour(),
	                                     outputs.path, stdout, &err);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

const cli_command cli_machines = {&lk_machines_verb, run_machines};
