/* setup.c: verbs that set lockstep up: what this machine lacks, defaults, its own numbers. */
#include "verbs/verbs_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/calibrate.h"
#include "lockstep/doctor.h"
#include "options/defaults.h"

/* ---- doctor ---- */

ROW_FREE(doctor)
ROW_PRINT(doctor, verbose)

static lk_status doctor_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	(void)err;
	*(lk_doctor_request *)request = input->program;
	return LK_OK;
}

static lk_status find_here(const lk_doctor_request *request, lk_doctor **out, lk_error *err) {
	lk_doctor_request asked = *request;
	lk_defaults_places places;
	lk_defaults_find(&places);
	asked.defaults = places.at;
	asked.default_count = places.count;
	return lk_doctor_find(&asked, out, err);
}

ROW_ASK(doctor, lk_doctor, find_here)

static bool doctor_row_yes(const void *answer) {
	return !((const lk_doctor *)answer)->broken;
}

const lk_verb_row lk_row_doctor = {
	.verb = &lk_doctor_verb,
	.fill = doctor_row_fill,
	.ask = doctor_row_ask,
	.free = doctor_row_free,
	.print = doctor_row_print,
	.yes = doctor_row_yes,
};

/* ---- init ---- */

/* Predicts a small step on one GPU, which reads the defaults as later questions do. */
static lk_status init_try(const char *model, const char *gpu, const char *stack,
                          const char *calibration, lk_error *err) {
	lk_prediction *prediction = NULL;
	lk_predict_request step = {.model = model,
	                           .gpu = gpu ? gpu : "h100-sxm",
	                           .stack = stack,
	                           .calibration = calibration,
	                           .no_fixes = true};
	lk_status status = lk_predict(&step, &prediction, err);
	if (status != LK_OK && strcmp(err->where, "--gpus") == 0) { /* "8xh100" states the number */
		step.gpus = 1;
		status = lk_predict(&step, &prediction, err);
	}
	lk_predict_free(prediction);
	return status;
}

/* Refuses defaults that every later question would refuse: unknown names, missing files. */
static lk_status init_check(const lk_init_request *request, lk_error *err) {
	FILE *prices = request->prices ? fopen(request->prices, "r") : NULL;
	if (request->prices && !prices) {
		lk_fail(err, LK_ERR_IO, request->prices, "cannot open: %s", strerror(errno));
		return lk_hint(err, "check the path");
	}
	if (prices) fclose(prices);
	if (!request->gpu && !request->stack && !request->calibration) return LK_OK;
	if (init_try("gpt2", request->gpu, request->stack, request->calibration, err) == LK_OK)
		return LK_OK;
	if (strcmp(err->where, "--stack") != 0) return err->status;
	lk_error unused; /* some stacks train only recommendation models */
	return init_try("dlrm-dcnv2", "8xh100-sxm", request->stack, NULL, &unused) == LK_OK
	           ? LK_OK
	           : err->status;
}

/* The answer is the path of the file. */
static lk_status init_row_ask(const void *request, void **answer, lk_error *err) {
	bool home = ((const lk_init_request *)request)->home;
	lk_defaults_places places;
	LK_TRY(init_check(request, err));
	lk_defaults_find(&places);
	if (home && places.count < 2)
		return lk_fail(err, LK_ERR_INPUT, "--home", "HOME names no folder");
	*answer = strdup(places.at[home]);
	return *answer ? LK_OK : lk_oom(err);
}

static lk_status init_row_files(const void *request, const void *answer, const lk_outputs *outputs,
                                lk_error *err) {
	(void)outputs;
	const char *path = answer;
	FILE *out = fopen(path, "wx"); /* an existing file is never overwritten */
	if (!out) {
		int code = errno;
		lk_fail(err, LK_ERR_IO, path, "cannot write: %s", strerror(code));
		return code == EEXIST ? lk_hint(err, "change it, or remove it first") : LK_ERR_IO;
	}
	lk_defaults_write(request, out);
	bool wrong = ferror(out) != 0;
	if ((fclose(out) == 0) & !wrong) return LK_OK;
	remove(path);
	return lk_fail(err, LK_ERR_IO, path, "cannot write");
}

static lk_status init_row_print(const void *answer, const lk_outputs *outputs, bool colour,
                                FILE *out, lk_error *err) {
	(void)outputs;
	(void)colour;
	(void)err;
	fprintf(out, "%s\n", (const char *)answer);
	return LK_OK;
}

const lk_verb_row lk_row_init = {
	.verb = &lk_init_verb,
	.ask = init_row_ask,
	.free = free,
	.print = init_row_print,
	.files = init_row_files,
};

/* ---- calibrate ---- */

ROW_FUNCTIONS(calibrate, lk_calibrated, lk_calibrate)

static lk_status calibrate_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	(void)err;
	lk_calibrate_request *r = request;
	r->kind = input->operands[0];
	r->table = input->operand_count > 1 ? input->operands[1] : NULL;
	r->more = input->operands + 2;
	r->more_count = input->operand_count > 2 ? input->operand_count - 2 : 0;
	r->progress = input->doing;
	r->context = input->progress_context;
	return LK_OK;
}

static lk_status calibrate_row_print(const void *answer, const lk_outputs *outputs, bool colour,
                                     FILE *out, lk_error *err) {
	return lk_calibrate_save(answer, outputs->format, colour, outputs->path, out, err);
}

const lk_verb_row lk_row_calibrate = {
	ROW_MEMBERS(calibrate, lk_calibrated),
	.format = LK_CALIBRATE_AUTO,
};
