/* calibrate_overheads.c: `lockstep calibrate` of a table of host overheads: terms of operations,
 * for recommendation models at batches of 512 to 4096; what the table lacks comes from the present
 * calibration. */
#include "calibrate/calibrate.h"
#include "fit/fits.h"

static const lk_host_kind shared = {"DLRM", 512, 4096};

lk_status lk_calibrate_overheads(lk_stream *in, const char *source, const char *date,
                                 lk_calibration *out, lk_error *err) {
	lk_host_terms terms = {0}, known = {0};
	lk_status status = lk_host_terms_read(in, &shared, &terms, err);
	if (status == LK_OK) status = lk_host_terms_known(&known, err);
	if (status == LK_OK) status = lk_host_terms_fill(&terms, &known, err);
	if (status == LK_OK) status = lk_host_terms_put(&terms, source, date, out, err);
	lk_host_terms_free(&terms);
	lk_host_terms_free(&known);
	return status;
}
