/* compile_verify.c: `lockstep compile verify`: whether the schedules of a program compute what it says. */
#include <math.h>
#include <string.h>

#include "io/json.h"
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
};

/* ---- what is tried ---- */

static lk_status read_meshes(struct check *c, const char *text, lk_error *err) {
	char word[32];
	if (!text) return LK_OK;
	for (const char *at = text;; at++) {
		size_t length = strcspn(at, ",");
		long long ranks;
		if (c->o.rank_count == MOST_RANKS)
			return lk_fail(err, LK_ERR_INPUT, "--meshes", "more than %d numbers", MOST_RANKS);
		snprintf(word, sizeof word, "%.*s", length < sizeof word ? (int)length : (int)sizeof word - 1, at);
		LK_TRY(lk_parse_int(word, 1, LC_RANKS, &ranks, "--meshes", err));
		c->ranks[c->o.rank_count++] = (int)ranks;
		at += length;
		if (!*at) break;
	}
	c->o.ranks = c->ranks;
	return LK_OK;
}

static lk_status check_one(struct check *c, const lc_schedule *s, lk_error *err) {
	lc_program *q = NULL;
	if (!lk_push(&c->done)) return lk_oom(err);
	lk_last(&c->done)->schedule = s->name;
	LK_TRY(lc_rewrite_all(c->p, s, &q, err));
	lk_status status = lc_verify(c->p, q, &c->o, &lk_last(&c->done)->verdict, err);
	lc_program_free(q);
	return status;
}

static lk_status check_schedules(struct check *c, lk_error *err) {
	const lc_schedule *one;
	const char *name = c->request->schedule;
	if (name && strcmp(name, "all") != 0) {
		LK_TRY(lc_pick_schedule(c->p, name, &one, err));
		if (one) return check_one(c, one, err);
		lk_fail(err, LK_ERR_INPUT, "--schedule", "%s is what schedules are held against", LC_PLAIN);
		return lk_hint(err, "name a schedule, or all");
	}
	for (size_t i = 0; i < c->p->schedules.count; i++) LK_TRY(check_one(c, &c->p->schedules.at[i], err));
	return LK_OK;
}

/* ---- what is said ---- */

static void put_text(const struct check *c, FILE *out) {
	if (!c->done.count) fprintf(out, "program %s has no schedule to verify\n", c->p->name);
	for (size_t i = 0; i < c->done.count; i++) {
		const lc_verdict *v = &c->done.at[i].verdict;
		fprintf(out, "%s, schedule %s: %s\n", c->p->name, c->done.at[i].schedule, v->equal ? "equal" : "NOT EQUAL");
		if (!v->equal) fprintf(out, "  they differ in %s\n", v->where);
		fprintf(out, "  %d draws of inputs and sizes, modulo 2^61 - 1, on %d meshes: %s\n", v->runs, v->meshes,
				v->tried);
		if (v->skipped)
			fprintf(out, "  %d meshes were left out: the program or its schedule cannot have them\n", v->skipped);
		if (!v->equal) continue;
		if (v->chance < 1)
			fprintf(out,
					"  degree at most %lld; a difference at sizes that were drawn stays unseen with a chance of at "
					"most %.1g\n",
					(long long)v->degree, v->chance);
		else fputs("  the degree is too high for a bound on the chance of error\n", out);
		if (v->choices)
			fprintf(
				out,
				"  not in this bound: %d maxima or minima, whose wrong choice among n shows in a draw with about 1/n\n",
				v->choices);
		if (!isnan(v->worst))
			fprintf(out, "  in its own formats it differs by at most %.3g units in the last place\n", v->worst);
	}
}

static void json_one(lk_json_writer *w, const struct checked *one) {
	const lc_verdict *v = &one->verdict;
	lk_json_object(w, NULL);
	lk_json_put_text(w, "schedule", one->schedule);
	lk_json_put_bool(w, "equal", v->equal);
	if (!v->equal) lk_json_put_text(w, "where", v->where);
	lk_json_put_integer(w, "draws", v->runs);
	lk_json_put_integer(w, "meshes", v->meshes);
	lk_json_put_text(w, "tried", v->tried);
	lk_json_put_integer(w, "left_out", v->skipped);
	lk_json_put_integer(w, "degree", v->degree);
	lk_json_put_number(w, "chance", v->chance);
	lk_json_put_integer(w, "choices", v->choices);
	lk_json_put_number(w, "ulps", v->worst);
	lk_json_object_end(w);
}

static lk_status put_json(const struct check *c, FILE *out, lk_error *err) {
	lk_json_writer w;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_text(&w, "program", c->p->name);
	lk_json_array(&w, "schedules");
	for (size_t i = 0; i < c->done.count; i++) json_one(&w, &c->done.at[i]);
	lk_json_array_end(&w);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lc_do_verify(lk_compile *answer, const lk_compile_request *request, FILE *out, lk_error *err) {
	lc_program *p;
	LK_TRY(lc_pick_program(answer, request, &p, err));
	struct check c = {.p = p, .request = request};
	c.o = (lc_verify_options){.seed = (uint64_t)request->seed, .draws = request->draws, .sizes = request->sizes};
	lk_status status = read_meshes(&c, request->meshes, err);
	if (status == LK_OK) status = check_schedules(&c, err);
	if (status == LK_OK && request->format == LK_COMPILE_JSON) status = put_json(&c, out, err);
	else if (status == LK_OK) put_text(&c, out);
	for (size_t i = 0; i < c.done.count; i++) answer->no |= !c.done.at[i].verdict.equal;
	lk_vec_free(&c.done);
	return status;
}
