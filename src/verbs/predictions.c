/* predictions.c: verbs that predict: a step, a graph, a recorded job, collectives, tables of
 * measured runs. */
#include "verbs/verbs_internal.h"

#include "lockstep/collective.h"
#include "lockstep/compose.h"
#include "lockstep/simulate.h"
#include "lockstep/validate.h"

/* ---- predict ---- */

const char *lk_step_file_option(const lk_outputs *outputs) {
	if (outputs->trace) return "--trace";
	if (outputs->graph) return "--graph";
	if (outputs->chakra) return "--chakra";
	return outputs->goal ? "--goal" : NULL;
}

ROW_FUNCTIONS(predict, lk_prediction, lk_predict)
ROW_REPORT(predict)

static lk_status predict_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	lk_predict_request *r = request;
	LK_TRY(lk_verb_take_job(input, &r->config, &r->model, err));
	r->launch = input->launch;
	r->launch_count = input->launch_count;
	r->step = lk_step_file_option(input->outputs) != NULL;
	r->detail = input->pictured;
	r->progress = input->progress;
	r->progress_context = input->progress_context;
	if (input->brief) r->no_sensitivity = r->no_fixes = true;
	return LK_OK;
}

static lk_status predict_row_print(const void *answer, const lk_outputs *outputs, bool colour,
                                   FILE *out, lk_error *err) {
	const lk_prediction *prediction = answer;
	return lk_predict_print(&prediction, 1, outputs->format, outputs->verbose, colour,
	                        outputs->path, out, err);
}

static lk_status predict_row_files(const void *request, const void *answer,
                                   const lk_outputs *outputs, lk_error *err) {
	const char *calibrated = ((const lk_predict_request *)request)->calibrated;
	if (calibrated) LK_TRY(lk_predict_write_calibration(answer, calibrated, err));
	return lk_predict_write_files(answer, outputs, err);
}

static lk_status predict_row_emit(const void *request, const void *answer, lk_emitted *emitted,
                                  lk_error *err) {
	return ((const lk_predict_request *)request)->emit ? lk_predict_emit(answer, emitted, err)
	                                                   : LK_OK;
}

static bool predict_row_yes(const void *answer) {
	return ((const lk_prediction *)answer)->fits;
}

const lk_verb_row lk_row_predict = {
	ROW_MEMBERS(predict, lk_prediction),
	.files = predict_row_files,
	.report = predict_row_report,
	.emit = predict_row_emit,
	.yes = predict_row_yes,
	.paths = {ROW_PLACE(lk_predict_request, calibrated)},
};

/* ---- simulate ---- */

ROW_FUNCTIONS(simulate, lk_simulation, lk_simulate)

static lk_status simulate_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	(void)err;
	lk_simulate_request *r = request;
	r->graph = first_operand(input);
	r->text = input->text;
	r->text_size = input->text_size;
	return LK_OK;
}

/* JSON is the only format. */
static lk_status simulate_row_print(const void *answer, const lk_outputs *outputs, bool colour,
                                    FILE *out, lk_error *err) {
	(void)outputs;
	(void)colour;
	return lk_simulate_print(answer, out, err);
}

static lk_status simulate_row_files(const void *request, const void *answer,
                                    const lk_outputs *outputs, lk_error *err) {
	(void)request;
	return lk_simulate_write_files(answer, outputs, err);
}

const lk_verb_row lk_row_simulate = {
	ROW_MEMBERS(simulate, lk_simulation),
	.files = simulate_row_files,
};

/* ---- compose ---- */

ROW_FUNCTIONS(compose, lk_composed, lk_compose)
ROW_PRINT(compose, verbose)

static lk_status compose_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	(void)err;
	((lk_compose_request *)request)->folder = first_operand(input);
	return LK_OK;
}

const lk_verb_row lk_row_compose = {
	ROW_MEMBERS(compose, lk_composed),
	.paths = {ROW_PLACE(lk_compose_request, graph)},
};

/* ---- collective ---- */

ROW_FUNCTIONS(collective, lk_collective, lk_collective_ask)

static lk_status collective_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	(void)err;
	((lk_collective_request *)request)->log = first_operand(input);
	return LK_OK;
}

static lk_status collective_row_print(const void *answer, const lk_outputs *outputs, bool colour,
                                      FILE *out, lk_error *err) {
	return lk_collective_print(answer, outputs->format, colour, outputs->path, out, err);
}

const lk_verb_row lk_row_collective = {ROW_MEMBERS(collective, lk_collective)};

/* ---- validate ---- */

ROW_FUNCTIONS(validate, lk_validation, lk_validate)

static lk_status validate_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	(void)err;
	lk_validate_request *r = request;
	r->table = first_operand(input);
	r->more = input->operands + 1;
	r->more_count = input->operand_count - 1;
	r->team = input->team;
	return LK_OK;
}

/* The formats have the numbers of lk_output. */
static lk_status validate_row_print(const void *answer, const lk_outputs *outputs, bool colour,
                                    FILE *out, lk_error *err) {
	_Static_assert((int)LK_VALIDATE_JSON == (int)LK_OUTPUT_JSON, "formats of validate");
	return lk_validate_save(answer, outputs->format, colour, outputs->path, out, err);
}

static lk_status validate_row_files(const void *request, const void *answer,
                                    const lk_outputs *outputs, lk_error *err) {
	(void)outputs;
	const char *plot = ((const lk_validate_request *)request)->plot;
	return plot ? lk_validate_plot(answer, plot, err) : LK_OK;
}

const lk_verb_row lk_row_validate = {
	ROW_MEMBERS(validate, lk_validation),
	.files = validate_row_files,
	.paths = {ROW_PLACE(lk_validate_request, plot)},
};
