/* compile_verify.c: `lockstep compile verify`: whether the schedules of a program compute the same
 * as it. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "lang/compile/compile.h"
#include "lang/rewrite/rewrite.h"
#include "lang/run/run.h"

enum { MOST_RANKS = 16 };

struct checked {
	const char *schedule;
	lc_verdict verdict;
};

struct check {
	const lc_program *p;
	const lk_compile_request *request;
	lc_verify_options o;
	int ranks[MOST_RANKS];
	LK_VEC(struct checked) done;
	const char *failed_check;
};

/* ---- meshes ---- */

static lk_status read_meshes(struct check *check, const char *text, lk_error *err) {
	char word[32];
	if (!text) return LK_OK;
	for (const char *at = text;; at++) {
		size_t length = strcspn(at, ",");
		long long ranks;
		if (check->o.rank_count == MOST_RANKS)
			return lk_fail(err, LK_ERR_INPUT, "--meshes", "more than %d numbers", MOST_RANKS);
		snprintf(word, sizeof word, "%.*s",
		         length < sizeof word ? (int)length : (int)sizeof word - 1, at);
		LK_TRY(lk_parse_int(word, 1, LC_RANKS, &ranks, "--meshes", err));
		check->ranks[check->o.rank_count++] = (int)ranks;
		at += length;
		if (!*at) break;
	}
	check->o.ranks = check->ranks;
	return LK_OK;
}

static lk_status check_one(struct check *check, const lc_schedule *schedule, lk_error *err) {
	lc_program *program = NULL;
	if (!lk_push(&check->done)) return lk_oom(err);
	lk_last(&check->done)->schedule = schedule->name;
	LK_TRY(lc_rewrite_all(check->p, schedule, &program, err));
	lk_status status =
		lc_verify(check->p, program, &check->o, &lk_last(&check->done)->verdict, err);
	lc_program_free(program);
	if (status == LK_OK && !check->failed_check)
		check->failed_check = lc_verdict_check(&lk_last(&check->done)->verdict);
	return status;
}

static lk_status check_schedules(struct check *check, lk_error *err) {
	const lc_schedule *one;
	const char *name = check->request->schedule;
	if (name && strcmp(name, "all") != 0) {
		LK_TRY(lc_pick_schedule(check->p, name, &one, err));
		if (one) return check_one(check, one, err);
		lk_fail(err, LK_ERR_INPUT, "--schedule",
		        "%s is the reference that schedules are compared with", LC_PLAIN);
		return lk_hint(err, "name a schedule, or all");
	}
	for (size_t i = 0; i < check->p->schedules.count; i++)
		LK_TRY(check_one(check, &check->p->schedules.at[i], err));
	return LK_OK;
}

/* ---- report ---- */

static void verify_put_text(const struct check *check, FILE *out) {
	if (!check->done.count) fprintf(out, "program %s has no schedule to verify\n", check->p->name);
	for (size_t i = 0; i < check->done.count; i++) {
		const lc_verdict *verdict = &check->done.at[i].verdict;
		fprintf(out, "%s, schedule %s: %s\n", check->p->name, check->done.at[i].schedule,
		        verdict->equal ? "equal" : "NOT EQUAL");
		if (!verdict->equal) fprintf(out, "  they differ in %s\n", verdict->where);
		fprintf(out, "  %d draws of inputs and sizes, modulo 2^61 - 1, on %d meshes: %s\n",
		        verdict->runs, verdict->meshes, verdict->tried);
		if (verdict->skipped)
			fprintf(out,
			        "  %d meshes were left out: the program or its schedule cannot have them\n",
			        verdict->skipped);
		if (!verdict->equal) continue;
		if (verdict->chance < 1)
			fprintf(out,
			        "  degree at most %lld; a difference at sizes that were drawn stays unseen "
			        "with a chance of at "
			        "most %.1g\n",
			        (long long)verdict->degree, verdict->chance);
		else fputs("  the degree is too high for a bound on the chance of error\n", out);
		if (verdict->choices)
			fprintf(out,
			        "  not in this bound: %d maxima or minima, whose wrong choice among n shows in "
			        "a draw with about 1/n\n",
			        verdict->choices);
		if (!isnan(verdict->worst))
			fprintf(out,
			        "  in its own formats it differs by at most %.3g units in the last place\n",
			        verdict->worst);
	}
}

/* ---- fields ---- */

#define VERDICT(member) LK_AT(lc_verdict, member)
#define CHECKED(member) LK_AT(struct checked, member)

static const lk_answer_field tried_fields[] = {
	{"equal", NULL, VERDICT(equal)},
	{"where", NULL, VERDICT(where), .known = LK_UNLESS_ZERO, .absent = true},
	{"draws", NULL, VERDICT(runs)},
	{"meshes", NULL, VERDICT(meshes)},
};
const lk_answer_record lc_tried_record = {LK_RECORD(lc_verdict, tried_fields)};

static const lk_answer_field certain_fields[] = {
	{"degree", NULL, VERDICT(degree)},
	{"chance", NULL, VERDICT(chance), .known = LK_MAYBE},
	{"choices", NULL, VERDICT(choices)},
};
const lk_answer_record lc_certain_record = {LK_RECORD(lc_verdict, certain_fields)};

static const lk_answer_field checked_fields[] = {
	{"schedule", NULL, CHECKED(schedule)},
	{LK_INSIDE(struct checked, verdict, lc_tried_record)},
	{"tried", NULL, CHECKED(verdict.tried)},
	{"left_out", NULL, CHECKED(verdict.skipped)},
	{LK_INSIDE(struct checked, verdict, lc_certain_record)},
	{"ulps", NULL, CHECKED(verdict.worst), .known = LK_MAYBE},
};
static const lk_answer_record checked_record = {LK_RECORD(struct checked, checked_fields)};

static const lk_answer_field verify_fields[] = {
	{LK_ONE(struct check, p, lc_program_name_record)},
	{"schedules", NULL, LK_MANY(struct check, done.at, done.count, checked_record)},
};
static const lk_answer_record verify_record = {LK_RECORD(struct check, verify_fields)};
const lk_document lc_verify_document = {"compile-verify", "`compile verify -o json`",
                                        &verify_record, offsetof(struct check, failed_check), NULL};

lk_status lc_do_verify(lk_compile *answer, const lk_compile_request *request, FILE *out,
                       lk_error *err) {
	lc_program *program;
	LK_TRY(lc_pick_program(answer, request, &program, err));
	struct check c = {.p = program, .request = request};
	c.o = (lc_verify_options){
		.seed = (uint64_t)request->seed, .draws = request->draws, .sizes = request->sizes};
	lk_status status = read_meshes(&c, request->meshes, err);
	if (status == LK_OK) status = check_schedules(&c, err);
	answer->failed_check = c.failed_check = lk_failed_check(c.failed_check);
	if (status == LK_OK && request->format == LK_COMPILE_JSON)
		status = lc_put_document(&lc_verify_document, &c, out, err);
	else if (status == LK_OK) verify_put_text(&c, out);
	for (size_t i = 0; i < c.done.count; i++) answer->no |= !c.done.at[i].verdict.equal;
	lk_vec_free(&c.done);
	return status;
}
