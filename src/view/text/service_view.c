/* service_view.c: the service in a prediction: its fields, and its tables for people. */
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "view/text/views.h"

enum { TEXT = 64, LINE = 160 };

static char *show_requests(double rate, char *out, size_t size) {
	snprintf(out, size, "%.3g", rate);
	return out;
}

#define LOAD(member) LK_AT(lk_service_load, member)
#define WAITS(key_, title_, member)                                                   \
	{key_ "_mean_s", NULL, LOAD(member.mean)},                                        \
		{key_ "_p50_s", title_ " P50", LOAD(member.p50), .shown = lk_format_seconds}, \
		{key_ "_p90_s", NULL, LOAD(member.p90)}, {                                    \
		key_ "_p99_s", "P99", LOAD(member.p99), .shown = lk_format_seconds            \
	}
static const lk_answer_field load_fields[] = {
	{"rate", "requests/s", LOAD(rate), .known = LK_MAYBE, .shown = show_requests},
	WAITS("first", "first", first),
	WAITS("token", "next", token),
	{"whole_mean_s", NULL, LOAD(whole.mean)},
	{"whole_p50_s", "whole P50", LOAD(whole.p50), .shown = lk_format_seconds},
	{"whole_p90_s", NULL, LOAD(whole.p90)},
	{"whole_p99_s", NULL, LOAD(whole.p99)},
	{"tokens_per_s_per_gpu", "tokens/s/GPU", LOAD(tokens_per_s_per_gpu),
     .shown = lk_format_thousands},
	{"tokens_per_s_user", "/user", LOAD(tokens_per_s_user), .known = LK_MAYBE,
     .shown = lk_format_thousands},
	{"batch", "batch", LOAD(batch), .shown = lk_format_thousands},
	{"busy", NULL, LOAD(busy)},
	{"waiting", NULL, LOAD(waiting)},
	{"within", "in time", LOAD(within), .known = LK_MAYBE, .shown = lk_percent},
};
static const lk_answer_record load_record = {
	.name = "ServiceLoad",
	.what = "A service at one rate of requests: how long they wait, what engines do.",
	LK_RECORD(lk_service_load, load_fields)};

static const lk_answer_field service_fields[] = {
	{"requests", NULL, LK_AT(lk_service, requests)},
	{"asked", NULL, LK_AT(lk_service, asked)},
	{"capacity", NULL, LK_AT(lk_service, capacity), .known = LK_MAYBE},
	{"loads", NULL, LK_MANY(lk_service, loads, load_count, load_record)},
};
const lk_answer_record lk_service_record = {
	.name = "Service",
	.what = "Requests that arrive at engines: at parts and multiples of the rate, of which `asked` "
			"is the number of the one that was given; capacity: the rate at which 90 of 100 keep "
			"their limits.",
	LK_RECORD(lk_service, service_fields)};

/* Waits at the rate that was given, a row each. */
static lk_table *service_waits(const lk_service_load *load) {
	static const lk_column columns[] = {{"wait", "a request waits", false, false},
	                                    {"mean", "mean", true, false},
	                                    {"p50", "P50", true, false},
	                                    {"p90", "P90", true, false},
	                                    {"p99", "P99", true, false}};
	const struct {
		const char *label;
		const lk_latency *wait;
	} rows[] = {{"for its first token", &load->first},
	            {"for each further one", &load->token},
	            {"for the last", &load->whole}};
	char text[TEXT];
	lk_table *table = lk_table_new("waits", columns, 5);
	for (size_t i = 0; table && i < sizeof rows / sizeof *rows; i++) {
		const double waits[] = {rows[i].wait->mean, rows[i].wait->p50, rows[i].wait->p90,
		                        rows[i].wait->p99};
		lk_table_row(table);
		lk_table_text(table, rows[i].label);
		for (int n = 0; n < 4; n++)
			lk_table_number(table, waits[n], lk_format_seconds(waits[n], text, sizeof text));
	}
	return table;
}

lk_status lk_put_service(const lk_prediction *prediction, bool colour, FILE *out, lk_error *err) {
	static const lk_columns columns = {"loads", &load_record, NULL, false, true};
	const lk_service *service = &prediction->service;
	const lk_service_load *asked = &service->loads[service->asked];
	char text[TEXT], line[LINE];
	LK_TRY(lk_put_table(service_waits(asked), colour, out, err));
	putc('\n', out);
	LK_TRY(lk_put_table(lk_fields_rows(&columns, prediction, service->loads, service->load_count),
	                    colour, out, err));
	LK_TRY(lk_put_labelled("known to", prediction->basis, out, err));
	if (asked->waiting > 0.05) {
		snprintf(line, sizeof line,
		         "engines fall behind: %s of the requests have no token when the last one comes",
		         lk_percent(asked->waiting, text, sizeof text));
		LK_TRY(lk_put_labelled("too much", line, out, err));
	}
	if (isnan(service->capacity)) return LK_OK;
	snprintf(line, sizeof line, "90 of 100 requests are in time up to %.3g requests/s",
	         service->capacity);
	return lk_put_labelled(
		"limits", service->capacity > 0 ? line : "not even requests that come alone keep them", out,
		err);
}
