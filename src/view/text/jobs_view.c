/* jobs_view.c: policies side by side, and every job under each. */
#include "lockstep/jobs.h"

#include <math.h>

#include "io/json.h"
#include "base/text.h"
#include "view/table/output.h"


/* ---- tables ---- */

static const lk_column policy_columns[] = {
	{"policy", "policy", false, false},
	{"mean_s", "mean", true, false},
	{"median_s", "median", true, false},
	{"p95_s", "95 %", true, false},
	{"wait_s", "wait", true, false},
	{"makespan_s", "makespan", true, false},
	{"used", "GPUs used", true, false},
	{"restarts", "restarts", true, false},
	{"done", "done in time", true, false},
	{"ratio", "sooner", true, false},
	{"what", "how", false, false},
};

static void put_seconds(lk_table *t, double s) {
	char text[40];
	lk_table_number(t, s, lk_format_seconds(s, text, sizeof text));
}

static lk_table *policies_of(const lk_jobs_answer *a) {
	lk_table *t = lk_table_new("policies", policy_columns, (int)(sizeof policy_columns / sizeof *policy_columns));
	char text[40], number[32];
	for (int i = 0; t && i < a->policy_count; i++) {
		const lk_jobs_policy *p = &a->policies[i];
		lk_table_row(t);
		lk_table_text(t, p->name);
		put_seconds(t, p->mean_s), put_seconds(t, p->median_s), put_seconds(t, p->late_s);
		put_seconds(t, p->wait_s), put_seconds(t, p->makespan_s);
		lk_table_number(t, p->used, lk_percent(p->used, text, sizeof text));
		lk_table_number(t, p->restarts, NULL);
		lk_table_number(t, p->done, NULL);
		snprintf(text, sizeof text, "%s x", lk_fixed(p->ratio, 2, number, sizeof number));
		lk_table_number(t, p->ratio, text);
		lk_table_text(t, p->what);
	}
	return t;
}

static const lk_column course_columns[] = {
	{"job", "job", false, false},
	{"policy", "policy", false, false},
	{"model", "model", false, false},
	{"submit_s", "submitted", true, false},
	{"start_s", "start", true, false},
	{"end_s", "end", true, false},
	{"completion_s", "took", true, false},
	{"gpu_s", "GPU time", true, false},
	{"most_gpus", "most GPUs", true, false},
	{"restarts", "restarts", true, false},
};

static lk_table *courses_of(const lk_jobs_answer *a) {
	lk_table *t = lk_table_new("jobs", course_columns, (int)(sizeof course_columns / sizeof *course_columns));
	for (int i = 0; t && i < a->count; i++) {
		for (int p = 0; p < a->policy_count; p++) {
			const lk_jobs_course *c = &a->policies[p].courses[i];
			lk_table_row(t);
			lk_table_text(t, a->jobs[i].name);
			lk_table_text(t, a->policies[p].name);
			lk_table_text(t, a->jobs[i].model);
			put_seconds(t, a->jobs[i].submit_s), put_seconds(t, c->start_s), put_seconds(t, c->end_s);
			put_seconds(t, c->end_s - a->jobs[i].submit_s), put_seconds(t, c->gpu_s);
			lk_table_number(t, c->most_gpus, NULL);
			lk_table_number(t, c->restarts, NULL);
		}
	}
	return t;
}

/* ---- text ---- */

struct text {
	const lk_jobs_answer *answer;
	bool verbose;
};

static lk_status put_table(lk_table *t, bool colour, FILE *out, lk_error *err) {
	lk_status status = t ? lk_table_write(t, LK_FORMAT_TEXT, colour, out, err) : lk_oom(err);
	lk_table_free(t);
	return status;
}

static lk_status write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_jobs_answer *a = ((const struct text *)what)->answer;
	char number[32];
	fprintf(out, "%d jobs on %d GPUs%s%s", a->count, a->gpus, *a->gpu ? ", " : "", a->gpu);
	if (isfinite(a->load)) fprintf(out, "; load %s", lk_fixed(a->load, 2, number, sizeof number));
	fputs("\n\n", out);
	LK_TRY(put_table(policies_of(a), colour, out, err));
	fprintf(out, "\nTimes are from submission to end; sooner: mean time under %s / under this policy; done in time: before the "
	        "last job arrived.\n", a->policies[0].name);
	for (int i = 0; i < a->note_count; i++) {
		LK_TRY(lk_put_safe(a->notes[i], out, err));
		fputc('\n', out);
	}
	if (!((const struct text *)what)->verbose) return LK_OK;
	fputc('\n', out);
	return put_table(courses_of(a), colour, out, err);
}

/* ---- JSON ---- */

static void put_policy(lk_json_writer *w, const lk_jobs_policy *p) {
	lk_json_object(w, NULL);
	lk_json_put_text(w, "policy", p->name);
	lk_json_put_number(w, "mean_s", p->mean_s);
	lk_json_put_number(w, "median_s", p->median_s);
	lk_json_put_number(w, "p95_s", p->late_s);
	lk_json_put_number(w, "wait_s", p->wait_s);
	lk_json_put_number(w, "makespan_s", p->makespan_s);
	lk_json_put_number(w, "used", p->used);
	lk_json_put_integer(w, "restarts", p->restarts);
	lk_json_put_integer(w, "done", p->done);
	lk_json_put_number(w, "ratio", p->ratio);
	lk_json_object_end(w);
}

static void put_courses(lk_json_writer *w, const lk_jobs_answer *a, int job) {
	lk_json_object(w, "courses");
	for (int i = 0; i < a->policy_count; i++) {
		const lk_jobs_course *c = &a->policies[i].courses[job];
		lk_json_object(w, a->policies[i].name);
		lk_json_put_number(w, "start_s", c->start_s);
		lk_json_put_number(w, "end_s", c->end_s);
		lk_json_put_number(w, "gpu_s", c->gpu_s);
		lk_json_put_integer(w, "restarts", c->restarts);
		lk_json_put_integer(w, "most_gpus", c->most_gpus);
		lk_json_object_end(w);
	}
	lk_json_object_end(w);
}

static void put_job(lk_json_writer *w, const lk_jobs_answer *a, int job) {
	const lk_jobs_job *j = &a->jobs[job];
	lk_json_object(w, NULL);
	lk_json_put_text(w, "job", j->name);
	lk_json_put_text(w, "model", j->model);
	lk_json_put_number(w, "submit_s", j->submit_s);
	lk_json_put_number(w, "samples", j->samples);
	lk_json_put_integer(w, "gpus", j->gpus);
	lk_json_put_integer(w, "batch", j->batch);
	lk_json_put_number(w, "samples_per_s", j->asked_per_s);
	lk_json_array(w, "rates");
	for (int i = 0; i < j->rate_count; i++) {
		lk_json_object(w, NULL);
		lk_json_put_integer(w, "gpus", j->rates[i].gpus);
		lk_json_put_integer(w, "batch", j->rates[i].batch);
		lk_json_put_number(w, "samples_per_s", j->rates[i].per_s);
		lk_json_object_end(w);
	}
	lk_json_array_end(w);
	put_courses(w, a, job);
	lk_json_object_end(w);
}

static lk_status write_json(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_jobs_answer *a = ((const struct text *)what)->answer;
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_integer(&w, "gpus", a->gpus);
	lk_json_put_text(&w, "gpu", *a->gpu ? a->gpu : NULL);
	lk_json_put_number(&w, "load", a->load);
	lk_json_put_integer(&w, "predictions", a->predictions);
	lk_json_array(&w, "policies");
	for (int i = 0; i < a->policy_count; i++) put_policy(&w, &a->policies[i]);
	lk_json_array_end(&w);
	lk_json_array(&w, "jobs");
	for (int i = 0; i < a->count; i++) put_job(&w, a, i);
	lk_json_array_end(&w);
	lk_json_array(&w, "notes");
	for (int i = 0; i < a->note_count; i++) lk_json_put_text(&w, NULL, a->notes[i]);
	lk_json_array_end(&w);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_jobs_print(const lk_jobs_answer *answer, int format, bool verbose, bool colour, const char *path, FILE *out,
                        lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	struct text t = {answer, verbose};
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_FORMAT_TEXT) return lk_write_through(&w, write_text, &t, err);
	if (format == LK_FORMAT_JSON) return lk_write_through(&w, write_json, &t, err);
	return lk_write_table(&w, verbose ? courses_of(answer) : policies_of(answer), err);
}
