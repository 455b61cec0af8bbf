/* jobs_view.c: the fields of a simulated cluster of jobs; policies next to one another, and every job
 * under each. */
#include "lockstep/jobs.h"

#include <math.h>

#include "base/check.h"
#include "system/cutoff.h"
#include "base/text.h"
#include "base/noun.h"
#include "view/table/fields.h"

/* ---- fields ---- */

#define POLICY(member) LK_AT(lk_jobs_policy, member)
#define COURSE(member) LK_AT(lk_jobs_course, member)
#define POINT(member)  LK_AT(lk_jobs_energy_point, member)
#define ENERGY(member) LK_AT(lk_jobs_energy, member)
#define JOB(member)    LK_AT(lk_jobs_job, member)
#define ANSWER(member) LK_AT(lk_jobs_answer, member)

static char *show_speedup(double ratio, char *out, size_t size) {
	char number[32];
	snprintf(out, size, "%s x", lk_fixed(ratio, 2, number, sizeof number));
	return out;
}

static char *show_node_hours(double hours, char *out, size_t size) {
	return lk_format_thousands(rint(hours), out, size);
}

static const lk_answer_field policy_fields[] = {
	{"policy", "policy", POLICY(name)},
	{"mean_s", "mean", POLICY(mean_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"median_s", "median", POLICY(median_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"p95_s", "95 %", POLICY(late_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"wait_s", "wait", POLICY(wait_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"makespan_s", "makespan", POLICY(makespan_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"used", "GPUs used", POLICY(used), .known = LK_MAYBE, .shown = lk_percent},
	{"restarts", "restarts", POLICY(restarts)},
	{"done", "in time", POLICY(done)},
	{"ratio", "sooner", POLICY(ratio), .known = LK_MAYBE, .shown = show_speedup},
	{"what", "how", POLICY(what), .hidden = true, .column = true},
};
static const lk_answer_record policy_record = {LK_RECORD(lk_jobs_policy, policy_fields)};

/* A job under a policy: `index` is the job, `context` the policy. */
static const lk_jobs_job *job_of(const lk_subject *subject) {
	LK_ASSERT(subject->index >= 0);
	return &((const lk_jobs_answer *)subject->answer)->jobs[subject->index];
}

static void find_job(const lk_subject *subject, lk_field_value *found) {
	found->text = job_of(subject)->name;
}

static void find_policy(const lk_subject *subject, lk_field_value *found) {
	found->text = ((const lk_jobs_policy *)subject->context)->name;
}

static void find_model(const lk_subject *subject, lk_field_value *found) {
	found->text = job_of(subject)->model;
}

static void find_submitted(const lk_subject *subject, lk_field_value *found) {
	found->number = job_of(subject)->submit_s;
}

static void find_completion(const lk_subject *subject, lk_field_value *found) {
	const lk_jobs_course *course = subject->record;
	found->number = course->end_s - job_of(subject)->submit_s;
}

static const lk_answer_field course_fields[] = {
	{"job", "job", LK_FIELD_TEXT, .get = find_job, .column = true},
	{"policy", "policy", LK_FIELD_TEXT, .get = find_policy, .column = true},
	{"model", "model", LK_FIELD_TEXT, .get = find_model, .column = true},
	{"submit_s", "submitted", LK_FIELD_REAL, .get = find_submitted, .column = true,
     .shown = lk_format_seconds},
	{"start_s", "start", COURSE(start_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"end_s", "end", COURSE(end_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"completion_s", "took", LK_FIELD_REAL, .get = find_completion, .column = true,
     .shown = lk_format_seconds},
	{"gpu_s", "GPU time", COURSE(gpu_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"restarts", "restarts", COURSE(restarts)},
	{"most_gpus", "most GPUs", COURSE(most_gpus)},
};
static const lk_answer_record course_record = {LK_RECORD(lk_jobs_course, course_fields)};

static bool is_best(const lk_subject *subject) {
	const lk_jobs_energy *energy = ((const lk_jobs_answer *)subject->answer)->energy;
	LK_ASSERT(energy->best >= 0 && energy->best < energy->point_count);
	return subject->index == energy->best && energy->worth;
}

static void find_best(const lk_subject *subject, lk_field_value *found) {
	found->number = is_best(subject);
}

static void find_best_mark(const lk_subject *subject, lk_field_value *found) {
	found->text = is_best(subject) ? "best" : NULL;
}

static const lk_answer_field point_fields[] = {
	{"buffer_nodes", "buffer", POINT(buffer)},
	{"node_hours", "node hours", POINT(node_hours), .shown = show_node_hours},
	{"saved", "saved", POINT(saved), .shown = lk_percent},
	{"longer_s", "added wait", POINT(longer_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"used", "GPUs used", POINT(used), .known = LK_MAYBE, .shown = lk_percent},
	{"wakeups_a_day", "starts a day", POINT(wakeups_a_day), .shown = lk_tenths},
	{"nodes_woken", "nodes each", POINT(woken), .shown = lk_tenths},
	{"best", "", LK_FIELD_TEXT, .get = find_best_mark, .column = true},
	{"best", NULL, LK_FIELD_BOOL, .get = find_best},
};
static const lk_answer_record point_record = {LK_RECORD(lk_jobs_energy_point, point_fields)};

static const lk_answer_field energy_fields[] = {
	{"policy", NULL, ENERGY(policy)},
	{"nodes", NULL, ENERGY(nodes)},
	{"boot_s", NULL, ENERGY(boot_s)},
	{"penalty", NULL, ENERGY(penalty)},
	{"node_hours", NULL, ENERGY(node_hours)},
	{"wait_s", NULL, ENERGY(wait_s), .known = LK_MAYBE},
	{"used", NULL, ENERGY(used), .known = LK_MAYBE},
	{"points", NULL, LK_MANY(lk_jobs_energy, points, point_count, point_record)},
};
static const lk_answer_record energy_record = {LK_RECORD(lk_jobs_energy, energy_fields)};

static const lk_answer_field rate_fields[] = {
	{"gpus", NULL, LK_AT(lk_jobs_rate, gpus)},
	{"batch", NULL, LK_AT(lk_jobs_rate, batch)},
	{"samples_per_s", NULL, LK_AT(lk_jobs_rate, per_s)},
};
static const lk_answer_record rate_record = {LK_RECORD(lk_jobs_rate, rate_fields)};

static void put_courses(lk_json_writer *writer, const lk_subject *subject) {
	const lk_jobs_answer *answer = subject->answer;
	int job = subject->index;
	LK_ASSERT(job >= 0);
	for (int i = 0; i < answer->policy_count; i++) {
		const lk_jobs_policy *policy = &answer->policies[i];
		lk_subject course = {answer, &policy->courses[job], job, policy};
		lk_json_object(writer, policy->name);
		lk_json_put_fields(writer, &course_record, &course);
		lk_json_object_end(writer);
	}
}

static const lk_answer_field job_fields[] = {
	{"job", NULL, JOB(name)},
	{"model", NULL, JOB(model), .known = LK_MAYBE},
	{"user", NULL, JOB(user), .known = LK_MAYBE},
	{"group", NULL, JOB(group), .known = LK_MAYBE},
	{"submit_s", NULL, JOB(submit_s)},
	{"samples", NULL, JOB(samples), .known = LK_MAYBE},
	{"gpus", NULL, JOB(gpus)},
	{"batch", NULL, JOB(batch)},
	{"samples_per_s", NULL, JOB(asked_per_s), .known = LK_MAYBE},
	{"rates", NULL, LK_MANY(lk_jobs_job, rates, rate_count, rate_record)},
	{"courses", NULL, LK_FIELD_MAP, .of = &course_record, .put = put_courses},
};
static const lk_answer_record job_record = {LK_RECORD(lk_jobs_job, job_fields)};

static const lk_answer_field answer_fields[] = {
	{"gpus", NULL, ANSWER(gpus)},
	{"gpu", NULL, ANSWER(gpu), .known = LK_UNLESS_ZERO},
	{"load", NULL, ANSWER(load), .known = LK_MAYBE},
	{"cut_off", NULL, ANSWER(cut_off), .known = LK_MAYBE},
	{"predictions", NULL, ANSWER(predictions)},
	{"policies", NULL, LK_MANY(lk_jobs_answer, policies, policy_count, policy_record)},
	{"jobs", NULL, LK_MANY(lk_jobs_answer, jobs, count, job_record)},
	{"energy", NULL, LK_ONE(lk_jobs_answer, energy, energy_record), .known = LK_MAYBE},
	{"notes", NULL, LK_LIST(lk_jobs_answer, notes, note_count)},
};
static const lk_answer_record answer_record = {LK_RECORD(lk_jobs_answer, answer_fields)};
const lk_document lk_jobs_document = {"jobs", "`jobs -o json`", &answer_record,
                                      offsetof(lk_jobs_answer, failed_check), NULL};

/* ---- tables ---- */

static lk_table *policies_of(const lk_jobs_answer *answer) {
	static const lk_columns columns = {"policies", &policy_record, .keys = NULL};
	return lk_fields_rows(&columns, answer, answer->policies, answer->policy_count);
}

static lk_table *courses_of(const lk_jobs_answer *answer) {
	static const char *const keys[] = {"job",   "policy",       "model", "submit_s",  "start_s",
	                                   "end_s", "completion_s", "gpu_s", "most_gpus", "restarts",
	                                   NULL};
	static const lk_columns columns = {"jobs", &course_record, .keys = keys};
	lk_table *table = lk_fields_table(&columns);
	for (int i = 0; i < answer->count; i++)
		for (int p = 0; p < answer->policy_count; p++) {
			const lk_jobs_policy *policy = &answer->policies[p];
			lk_fields_row(table, &columns, &(lk_subject){answer, &policy->courses[i], i, policy});
		}
	return table;
}

static lk_table *energy_of(const lk_jobs_answer *answer) {
	static const lk_columns columns = {"energy", &point_record, .keys = NULL};
	return lk_fields_rows(&columns, answer, answer->energy->points, answer->energy->point_count);
}

/* ---- text ---- */

struct text {
	const lk_jobs_answer *answer;
	bool verbose;
};

static lk_status jobs_view_put_energy(const lk_jobs_answer *answer, bool colour, FILE *out,
                                      lk_error *err) {
	const lk_jobs_energy *energy = answer->energy;
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
	LK_TRY(lk_put_table(energy_of(answer), colour, out, err));
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
	LK_TRY(lk_put_table(policies_of(answer), colour, out, err));
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
	if (answer->energy) LK_TRY(jobs_view_put_energy(answer, colour, out, err));
	if (answer->cut_off)
		fprintf(out, "\nCUT OFF by %s: what is not shown was not simulated\n",
		        lk_cutoff_text(answer->cut_off));
	for (int i = 0; i < answer->note_count; i++) {
		LK_TRY(lk_put_wrapped(answer->notes[i], 2, 0, out, err));
		fputc('\n', out);
	}
	if (!((const struct text *)what)->verbose) return LK_OK;
	fputc('\n', out);
	return lk_put_table(courses_of(answer), colour, out, err);
}

lk_status lk_jobs_print(const lk_jobs_answer *answer, int format, bool verbose, bool colour,
                        const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	struct text t = {answer, verbose};
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_FORMAT_TEXT) return lk_write_through(&w, jobs_view_write_text, &t, err);
	if (format == LK_FORMAT_JSON) return lk_write_document(&w, &lk_jobs_document, answer, err);
	if (verbose) return lk_write_table(&w, courses_of(answer), err);
	return lk_write_table(&w, answer->energy ? energy_of(answer) : policies_of(answer), err);
}
