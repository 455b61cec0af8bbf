/* doctor_data.c: lockstep's data and their age: devices, models, calibrations, prices; and the
 * files of defaults, with their calibration and prices. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/noun.h"
#include "base/text.h"
#include "cost/calibration/calibration.h"
#include "doctor/doctor.h"
#include "hw/hw.h"
#include "lockstep/catalogue.h"
#include "rent/rent.h"

/* Add a file that cannot be used: the error says where and why. */
static lk_status add_broken(lk_findings *out, const lk_finding *finding, const lk_error *why,
                            lk_error *err) {
	char line[1024];
	lk_finding broken = *finding;
	broken.state = LK_FINDING_BROKEN;
	broken.what = lk_arena_strdup(out->arena, lk_error_text(why, line, sizeof line));
	return broken.what ? lk_doctor_add(out, &broken, err) : lk_oom(err);
}

/* ---- the catalogue ---- */

static lk_status doctor_catalogue(lk_findings *out, lk_error *err) {
	int models = 0;
	LK_TRY(lk_devices_ready(err));
	while (lk_model_name(models)) models++;
	if (!models) return lk_oom(err); /* they are compiled in */
	const char *devices =
				   lk_arena_printf(out->arena, "%d, data of %s", lk_device_count(), lk_data_date()),
			   *presets = lk_arena_printf(out->arena, "%d presets", models);
	if (!devices || !presets) return lk_oom(err);
	LK_TRY(lk_doctor_add(
		out,
		&(lk_finding){
			.part = "data", .name = "devices", .what = devices, .use = "--gpu, --cluster"},
		err));
	return lk_doctor_add(
		out, &(lk_finding){.part = "data", .name = "models", .what = presets, .use = "--model"},
		err);
}

/* ---- dates ---- */

/* The span of dates of the form 2026-07-20, which compare as texts. */
struct span {
	const char *first, *last;
	int count, undated;
};

static void span_add(struct span *span, const char *date) {
	span->count++;
	if (isnan(lk_days_since(date))) {
		span->undated++;
		return;
	}
	if (!span->first || strcmp(date, span->first) < 0) span->first = date;
	if (!span->last || strcmp(date, span->last) > 0) span->last = date;
}

/* "54 rows, 2026-06-18 to 2026-07-20 (the oldest 162 days ago), 21 without a date" */
static const char *span_text(const struct span *span, lk_arena *arena) {
	const char *age = "", *undated = "";
	LK_ASSERT(!span->first == !span->last && span->undated <= span->count);
	if (span->first) {
		double days = lk_days_since(span->first);
		const char *noun = lk_noun(days, "day", "days");
		if (strcmp(span->first, span->last) == 0)
			age = lk_arena_printf(arena, ", %s (%.0f %s ago)", span->first, days, noun);
		else
			age = lk_arena_printf(arena, ", %s to %s (the oldest %.0f %s ago)", span->first,
			                      span->last, days, noun);
	}
	if (span->undated) undated = lk_arena_printf(arena, ", %d without a date", span->undated);
	if (!age || !undated) return NULL;
	return lk_arena_printf(arena, "%d %s%s%s", span->count, lk_noun(span->count, "row", "rows"),
	                       age, undated);
}

/* ---- calibrations ---- */

/* Whether an earlier row is of the same family. */
static bool family_known(const lk_calibration *rows, size_t at) {
	LK_ASSERT(at < rows->rows.count);
	for (size_t i = 0; i < at; i++)
		if (strcmp(rows->rows.at[i].family, rows->rows.at[at].family) == 0) return true;
	return false;
}

static lk_status doctor_family(const lk_calibration *rows, const char *family, lk_findings *out,
                               lk_error *err) {
	struct span span = {0};
	for (size_t i = 0; i < rows->rows.count; i++)
		if (!family || strcmp(rows->rows.at[i].family, family) == 0)
			span_add(&span, rows->rows.at[i].date);
	lk_finding finding = {.part = "calibration", .name = family};
	if (!family)
		finding = (lk_finding){
			.part = "data", .name = "calibrations", .use = "times, memory and their ranges"};
	finding.what = span_text(&span, out->arena);
	return finding.what ? lk_doctor_add(out, &finding, err) : lk_oom(err);
}

static lk_status doctor_calibrations(lk_findings *out, lk_error *err) {
	LK_TRY(lk_calibration_ready(err));
	const lk_calibration *rows = lk_calibration_current();
	LK_TRY(doctor_family(rows, NULL, out, err));
	for (size_t i = 0; i < rows->rows.count; i++)
		if (!family_known(rows, i)) LK_TRY(doctor_family(rows, rows->rows.at[i].family, out, err));
	return LK_OK;
}

/* ---- prices ---- */

static const char *const newer_prices =
	"curl -LO https://raw.githubusercontent.com/skypilot-org/skypilot-catalog/master/catalogs/v8/"
	"aws/vms.csv && lockstep machines --catalog vms.csv --catalog-provider aws";

static lk_status prices_describe(const lk_offers *offers, lk_finding *finding, lk_arena *arena,
                                 lk_error *err) {
	struct span span = {0};
	int old = 0;
	for (size_t i = 0; i < offers->count; i++) {
		span_add(&span, offers->at[i].date);
		old += !(lk_days_since(offers->at[i].date) <= LK_OFFER_OLD_DAYS);
	}
	const char *text = span_text(&span, arena);
	finding->what = text && old ? lk_arena_printf(arena, "%s; %d older than %d days or undated",
	                                              text, old, LK_OFFER_OLD_DAYS)
	                            : text;
	if (old) {
		finding->state = LK_FINDING_OLD;
		finding->mend = newer_prices;
	}
	return finding->what ? LK_OK : lk_oom(err);
}

/* The list in `path`; NULL: the built-in one. */
static lk_status doctor_prices(const char *path, lk_findings *out, lk_error *err) {
	lk_offers offers = {0};
	lk_offer_faults faults = {0};
	lk_finding finding = {.part = "data", .name = "prices", .use = "rent, machines"};
	if (path) {
		finding.part = "settings";
		finding.name = path;
	}
	lk_error why = {0};
	lk_machines_request request = {.prices = path};
	lk_status status = lk_rent_offers(&request, &(lk_mains){0}, out->arena, &offers, &faults, &why);
	if (status == LK_OK) {
		status = prices_describe(&offers, &finding, out->arena, err);
		if (status == LK_OK) status = lk_doctor_add(out, &finding, err);
	} else status = add_broken(out, &finding, &why, err);
	lk_vec_free(&offers);
	lk_vec_free(&faults);
	return status;
}

/* ---- defaults ---- */

static lk_status doctor_calibration_file(const char *path, lk_findings *out, lk_error *err) {
	lk_calibration rows = {0};
	lk_finding finding = {.part = "settings", .name = path, .use = "--calibration"};
	lk_error why = {0};
	lk_stream *in;
	lk_status status = lk_stream_open(path, &in, &why);
	if (status == LK_OK) {
		status = lk_calibration_read(in, &rows, &why);
		lk_stream_close(in);
	}
	struct span span = {0};
	for (size_t i = 0; i < rows.rows.count; i++) span_add(&span, rows.rows.at[i].date);
	if (status != LK_OK) status = add_broken(out, &finding, &why, err);
	else if (!(finding.what = span_text(&span, out->arena))) status = lk_oom(err);
	else status = lk_doctor_add(out, &finding, err);
	lk_calibration_free(&rows);
	return status;
}

static lk_status doctor_defaults(const char *path, lk_findings *out, lk_error *err) {
	lk_finding finding = {.part = "settings", .name = path, .use = "defaults of every verb"};
	lk_defaults *defaults;
	lk_error why = {0};
	struct stat info;
	const char *file;
	if (stat(path, &info) != 0) return LK_OK;
	if (lk_defaults_open(&path, 1, &defaults, &why) != LK_OK) {
		const char *quoted = lk_shell_quote(out->arena, path);
		if (quoted)
			finding.mend = lk_arena_printf(out->arena, "mv %1$s %1$s.wrong && lockstep init%2$s",
			                               quoted, strchr(path, '/') ? " --home" : "");
		return finding.mend ? add_broken(out, &finding, &why, err) : lk_oom(err);
	}
	finding.what = "read";
	lk_status status = lk_doctor_add(out, &finding, err);
	const char *calibration = lk_defaults_value(defaults, "calibration", &file),
			   *prices = lk_defaults_value(defaults, "prices", &file);
	if (status == LK_OK && calibration) {
		calibration = lk_arena_strdup(out->arena, calibration);
		status = calibration ? doctor_calibration_file(calibration, out, err) : lk_oom(err);
	}
	if (status == LK_OK && prices) {
		prices = lk_arena_strdup(out->arena, prices);
		status = prices ? doctor_prices(prices, out, err) : lk_oom(err);
	}
	lk_defaults_free(defaults);
	return status;
}

lk_status lk_doctor_data(const lk_doctor_request *request, lk_findings *out, lk_error *err) {
	LK_TRY(doctor_catalogue(out, err));
	LK_TRY(doctor_calibrations(out, err));
	LK_TRY(doctor_prices(NULL, out, err));
	for (int i = 0; i < request->default_count; i++)
		LK_TRY(doctor_defaults(request->defaults[i], out, err));
	return LK_OK;
}
