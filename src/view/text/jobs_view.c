/* jobs_view.c: policies side by side, and every job under each. */
#include "lockstep/jobs.h"

#include <math.h>

#include "io/json.h"
#include "base/cutoff.h"
#include "base/text.h"
#include "base/noun.h"
#include "view/table/output.h"
#include "view/text/views.h"

/* ---- tables ---- */

static const lk_column policy_columns[] = {
	{"policy", "policy", false, false},  {"mean_s", "mean", true, false},
	{"median_s", "median", true, false}, {"p95_s", "95 %", true, false},
	{"wait_s", "wait", true, false},     {"makespan_s", "makespan", true, false},
	{"used", "GPUs used", true, false},  {"restarts", "restarts", true, false},
	{"done", "in time", true, false},    {"ratio", "sooner", true, false},
	{"what", "how", false, true},
};

static void jobs_view_put_seconds(lk_table *table, double s) {
	char text[40];
	lk_table_number(table, s, lk_format_seconds(s, text, sizeof text));
}

static lk_table *policies_of(const lk_jobs_answer *answer) {
	lk_table *table = lk_table_new("policies", policy_columns,
	                               (int)(sizeof policy_columns / sizeof *policy_columns));
	char text[40], number[32];
	for (int i = 0; table && i < answer->policy_count; i++) {
		const lk_jobs_policy *policy = &answer->policies[i];
		lk_table_row(table);
		lk_table_text(table, policy->name);
		jobs_view_put_seconds(table, policy->mean_s);
		jobs_view_put_seconds(table, policy->median_s);
		jobs_view_put_seconds(table, policy->late_s);
		jobs_view_put_seconds(table, policy->wait_s);
		jobs_view_put_seconds(table, policy->makespan_s);
		lk_table_number(table, policy->used, lk_percent(policy->used, text, sizeof text));
		lk_table_number(table, policy->restarts, NULL);
		lk_table_number(table, policy->done, NULL);
		snprintf(text, sizeof text, "%s x", lk_fixed(policy->ratio, 2, number, sizeof number));
		lk_table_number(table, policy->ratio, text);
		lk_table_text(table, policy->what);
	}
	return table;
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

static lk_table *courses_of(const lk_jobs_answer *answer) {
	lk_table *table =
		lk_table_new("jobs", course_columns, (int)(sizeof course_columns / sizeof *course_columns));
	for (int i = 0; table && i < answer->count; i++) {
		for (int p = 0; p < answer->policy_count; p++) {
			const lk_jobs_course *course = &answer->policies[p].courses[i];
			lk_table_row(table);
			lk_table_text(table, answer->jobs[i].name);
			lk_table_text(table, answer->policies[p].name);
			lk_table_text(table, answer->jobs[i].model);
			jobs_view_put_seconds(table, answer->jobs[i].submit_s);
			jobs_view_put_seconds(table, course->start_s);
			jobs_view_put_seconds(table, course->end_s);
			jobs_view_put_seconds(table, course->end_s - answer->jobs[i].submit_s);
			jobs_view_put_seconds(table, course->gpu_s);
			lk_table_number(table, course->most_gpus, NULL);
			lk_table_number(table, course->restarts, NULL);
		}
	}
	return table;
}

static const lk_column energy_columns[] = {
	{"buffer_nodes", "buffer", true, false},
	{"node_hours", "node hours", true, false},
	{"saved", "saved", true, false},
	{"longer_s", "added wait", true, false},
	{"used", "GPUs used", true, false},
	{"wakeups_a_day", "starts a day", true, false},
	{"nodes_woken", "nodes each", true, false},
	{"best", "", false, false},
};

static lk_table *energy_of(const lk_jobs_energy *energy) {
	lk_table *table = lk_table_new("energy", energy_columns,
	                               (int)(sizeof energy_columns / sizeof *energy_columns));
	char text[40];
	for (int i = 0; table && i < energy->point_count; i++) {
		const lk_jobs_energy_point *point = &energy->points[i];
		lk_table_row(table);
		lk_table_number(table, point->buffer, NULL);
		lk_table_number(table, point->node_hours,
		                lk_format_thousands(rint(point->node_hours), text, sizeof text));
		lk_table_number(table, point->saved, lk_percent(point->saved, text, sizeof text));
		jobs_view_put_seconds(table, point->longer_s);
		lk_table_number(table, point->used, lk_percent(point->used, text, sizeof text));
		lk_table_number(table, point->wakeups_a_day,
		                lk_fixed(point->wakeups_a_day, 1, text, sizeof text));
		lk_table_number(table, point->woken, lk_fixed(point->woken, 1, text, sizeof text));
		lk_table_text(table, i == energy->best && energy->worth ? "best" : NULL);
	}
	return table;
}

/* ---- text ---- */

struct text {
	const lk_jobs_answer *answer;
	bool verbose;
};

static lk_status jobs_view_put_table(lk_table *table, bool colour, FILE *out, lk_error *err) {
	lk_status status =
		table ? lk_table_write(table, LK_FORMAT_TEXT, colour, out, err) : lk_oom(err);
	lk_table_free(table);
	return status;
}

static lk_status jobs_view_put_energy(const lk_jobs_energy *energy, bool colour, FILE *out,
                                      lk_error *err) {
	char wait[40], boot[40], used[40], penalty[32], hours[40];
	fprintf(out,
	        "\nNodes switched off beyond a forecast of demand and a buffer, under %s, until the "
	        "last job arrives:\n%d %s all on: %s node hours, %s of GPUs used, mean wait %s; a node "
	        "starts in %s\n\n",
	        energy->policy, energy->nodes, lk_noun(energy->nodes, "node", "nodes"),
	        lk_format_thousands(rint(energy->node_hours), hours, sizeof hours),
	        lk_percent(energy->used, used, sizeof used),
	        lk_format_seconds(energy->wait_s, wait, sizeof wait),
	        lk_format_seconds(energy->boot_s, boot, sizeof boot));
	LK_TRY(jobs_view_put_table(energy_of(energy), colour, out, err));
	fprintf(out,
	        energy->worth
	            ? "\nBest: least node hours, an hour of a job's added wait counting as %s "
	              "node hours (--penalty).\n"
	            : "\nAll nodes on cost the least, an hour of a job's added wait counting as "
	              "%s node hours (--penalty).\n",
	        lk_fixed(energy->penalty, 2, penalty, sizeof penalty));
	return LK_OK;
}

static lk_status jobs_view_write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_jobs_answer *answer = ((const struct text *)what)->answer;
	char number[32], arrivals[32];
	fprintf(out, "%d %s on %d GPUs%s%s", answer->count, lk_noun(answer->count, "job", "jobs"),
	        answer->gpus, *answer->gpu ? ", " : "", answer->gpu);
	if (isfinite(answer->load))
		fprintf(
			out, "; load %s over %s of arrivals", lk_fixed(answer->load, 2, number, sizeof number),
			lk_format_seconds(answer->jobs[answer->count - 1].submit_s - answer->jobs[0].submit_s,
		                      arrivals, sizeof arrivals));
	fputs("\n\n", out);
	LK_TRY(jobs_view_put_table(policies_of(answer), colour, out, err));
	fputc('\n', out);
	for (int i = 0; i < answer->policy_count; i++)
		fprintf(out, "%-12s  %s\n", answer->policies[i].name, answer->policies[i].what);
	fprintf(out,
	        "\nTimes are from submission to end. in time: jobs that ended before the last one "
	        "arrived.\n"
	        "sooner: mean time under %s / under this policy. GPUs used: over the makespan.\n",
	        answer->policies[0].name);
	if (isfinite(answer->load))
		fputs("load: GPU time that all jobs request / that all GPUs have while jobs arrive.\n",
		      out);
	if (answer->energy) LK_TRY(jobs_view_put_energy(answer->energy, colour, out, err));
	if (answer->cut_off)
		fprintf(out, "\nCUT OFF by %s: what is not shown was not simulated\n",
		        lk_cutoff_text(answer->cut_off));
	for (int i = 0; i < answer->note_count; i++) {
		LK_TRY(lk_put_wrapped(answer->notes[i], 2, 0, out, err));
		fputc('\n', out);
	}
	if (!((const struct text *)what)->verbose) return LK_OK;
	fputc('\n', out);
	return jobs_view_put_table(courses_of(answer), colour, out, err);
}

/* ---- JSON ---- */

static void jobs_view_put_policy(lk_json_writer *writer, const lk_jobs_policy *policy) {
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "policy", policy->name);
	lk_json_put_number(writer, "mean_s", policy->mean_s);
	lk_json_put_number(writer, "median_s", policy->median_s);
	lk_json_put_number(writer, "p95_s", policy->late_s);
	lk_json_put_number(writer, "wait_s", policy->wait_s);
	lk_json_put_number(writer, "makespan_s", policy->makespan_s);
	lk_json_put_number(writer, "used", policy->used);
	lk_json_put_integer(writer, "restarts", policy->restarts);
	lk_json_put_integer(writer, "done", policy->done);
	lk_json_put_number(writer, "ratio", policy->ratio);
	lk_json_object_end(writer);
}

static void jobs_view_put_energy_json(lk_json_writer *writer, const lk_jobs_energy *energy) {
	if (!energy) {
		lk_json_put_null(writer, "energy");
		return;
	}
	lk_json_object(writer, "energy");
	lk_json_put_text(writer, "policy", energy->policy);
	lk_json_put_integer(writer, "nodes", energy->nodes);
	lk_json_put_number(writer, "boot_s", energy->boot_s);
	lk_json_put_number(writer, "penalty", energy->penalty);
	lk_json_put_number(writer, "node_hours", energy->node_hours);
	lk_json_put_number(writer, "wait_s", energy->wait_s);
	lk_json_put_number(writer, "used", energy->used);
	lk_json_array(writer, "points");
	for (int i = 0; i < energy->point_count; i++) {
		const lk_jobs_energy_point *point = &energy->points[i];
		lk_json_object(writer, NULL);
		lk_json_put_integer(writer, "buffer_nodes", point->buffer);
		lk_json_put_number(writer, "node_hours", point->node_hours);
		lk_json_put_number(writer, "saved", point->saved);
		lk_json_put_number(writer, "longer_s", point->longer_s);
		lk_json_put_number(writer, "used", point->used);
		lk_json_put_number(writer, "wakeups_a_day", point->wakeups_a_day);
		lk_json_put_number(writer, "nodes_woken", point->woken);
		lk_json_put_bool(writer, "best", i == energy->best && energy->worth);
		lk_json_object_end(writer);
	}
	lk_json_array_end(writer);
	lk_json_object_end(writer);
}

static void put_courses(lk_json_writer *writer, const lk_jobs_answer *answer, int job) {
	lk_json_object(writer, "courses");
	for (int i = 0; i < answer->policy_count; i++) {
		const lk_jobs_course *course = &answer->policies[i].courses[job];
		lk_json_object(writer, answer->policies[i].name);
		lk_json_put_number(writer, "start_s", course->start_s);
		lk_json_put_number(writer, "end_s", course->end_s);
		lk_json_put_number(writer, "gpu_s", course->gpu_s);
		lk_json_put_integer(writer, "restarts", course->restarts);
		lk_json_put_integer(writer, "most_gpus", course->most_gpus);
		lk_json_object_end(writer);
	}
	lk_json_object_end(writer);
}

static void jobs_view_put_job(lk_json_writer *writer, const lk_jobs_answer *answer, int job) {
	const lk_jobs_job *jobs_job = &answer->jobs[job];
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "job", jobs_job->name);
	lk_json_put_text(writer, "model", jobs_job->model);
	lk_json_put_text(writer, "user", jobs_job->user);
	lk_json_put_text(writer, "group", jobs_job->group);
	lk_json_put_number(writer, "submit_s", jobs_job->submit_s);
	lk_json_put_number(writer, "samples", jobs_job->samples);
	lk_json_put_integer(writer, "gpus", jobs_job->gpus);
	lk_json_put_integer(writer, "batch", jobs_job->batch);
	lk_json_put_number(writer, "samples_per_s", jobs_job->asked_per_s);
	lk_json_array(writer, "rates");
	for (int i = 0; i < jobs_job->rate_count; i++) {
		lk_json_object(writer, NULL);
		lk_json_put_integer(writer, "gpus", jobs_job->rates[i].gpus);
		lk_json_put_integer(writer, "batch", jobs_job->rates[i].batch);
		lk_json_put_number(writer, "samples_per_s", jobs_job->rates[i].per_s);
		lk_json_object_end(writer);
	}
	lk_json_array_end(writer);
	put_courses(writer, answer, job);
	lk_json_object_end(writer);
}

static lk_status jobs_view_write_json(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_jobs_answer *answer = ((const struct text *)what)->answer;
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/jobs/1", answer->failed_check);
	lk_json_put_integer(&w, "gpus", answer->gpus);
	lk_json_put_text(&w, "gpu", *answer->gpu ? answer->gpu : NULL);
	lk_json_put_number(&w, "load", answer->load);
	lk_json_put_text(&w, "cut_off", answer->cut_off);
	lk_json_put_integer(&w, "predictions", answer->predictions);
	lk_json_array(&w, "policies");
	for (int i = 0; i < answer->policy_count; i++) jobs_view_put_policy(&w, &answer->policies[i]);
	lk_json_array_end(&w);
	lk_json_array(&w, "jobs");
	for (int i = 0; i < answer->count; i++) jobs_view_put_job(&w, answer, i);
	lk_json_array_end(&w);
	jobs_view_put_energy_json(&w, answer->energy);
	lk_json_array(&w, "notes");
	for (int i = 0; i < answer->note_count; i++) lk_json_put_text(&w, NULL, answer->notes[i]);
	lk_json_array_end(&w);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_jobs_print(const lk_jobs_answer *answer, int format, bool verbose, bool colour,
                        const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	struct text t = {answer, verbose};
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_FORMAT_TEXT) return lk_write_through(&w, jobs_view_write_text, &t, err);
	if (format == LK_FORMAT_JSON) return lk_write_through(&w, jobs_view_write_json, &t, err);
	return lk_write_table(&w,
	                      verbose          ? courses_of(answer)
	                      : answer->energy ? energy_of(answer->energy)
	                                       : policies_of(answer),
	                      err);
}
