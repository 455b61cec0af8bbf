/* written.c: a job as a text of another program, and what that program will do with it where the
 * text cannot say all of the job. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/emit/emit.h"
#include "step/step.h"

/* Time and memory of a completed job. */
static lk_status written_ask(const lk_job *job, const lk_cluster *cluster, double *step_s,
                             double *bytes, lk_error *err) {
	const lk_step_options options = {.few = true};
	lk_step step = {0};
	lk_status status = lk_step_ask(job, cluster, &options, &step, err);
	if (status == LK_OK) {
		*step_s = step.step_s;
		*bytes = step.memory[step.fullest].total;
	}
	lk_step_free(&step);
	return status;
}

/* "axolotl has no setting for moments in bf16: as written a step takes 2 s and 30 GiB" */
static const char *written_note(lk_arena *arena, const lk_written *written, double step_s,
                                double bytes) {
	char time[32], memory[32];
	return lk_arena_printf(arena, "%s has no setting for %s: as written a step takes %s and %s",
	                       written->framework, written->unsaid,
	                       lk_format_seconds(step_s, time, sizeof time),
	                       lk_format_bytes(bytes, memory, sizeof memory));
}

/* Answers are read to three digits. */
static bool written_alike(double a, double b) {
	return fabs(a - b) <= 0.005 * b;
}

/* What the text makes of the job; NULL: the same training, as fast and as large. */
static lk_status written_say(lk_arena *arena, lk_written *written, const lk_job *job,
                             const lk_cluster *cluster, const char **note, lk_error *err) {
	double wanted_s, wanted, step_s = NAN, bytes = NAN;
	char why[512];
	lk_error refused = {0};
	*note = NULL;
	LK_TRY(written_ask(job, cluster, &wanted_s, &wanted, err));
	lk_status status = lk_job_complete(&written->job, cluster, &refused);
	if (status == LK_OK) status = written_ask(&written->job, cluster, &step_s, &bytes, &refused);
	if (status == LK_ERR_MEMORY) return lk_fail_as(err, &refused);
	if (status != LK_OK)
		*note = lk_arena_printf(arena, "%s has no setting for %s: what is written cannot run (%s)",
		                        written->framework, written->unsaid,
		                        lk_error_text(&refused, why, sizeof why));
	else if (!written->other_training && written_alike(step_s, wanted_s) &&
	         written_alike(bytes, wanted))
		return LK_OK;
	else *note = written_note(arena, written, step_s, bytes);
	return *note ? LK_OK : lk_oom(err);
}

/* Whether a target is the framework of the configuration that was read: then that one is edited. */
static bool written_is_own(const char *target, const lk_source *source) {
	const char *framework = lk_emit_framework(NULL, source->framework);
	return source->path && !source->script && !lk_ends_in(source->path, ".sh") && framework &&
	       strcmp(framework, target) == 0;
}

lk_status lk_step_emit(lk_arena *arena, const char *target, const lk_source *source,
                       const lk_job *job, const lk_cluster *cluster, lk_emitted *out,
                       lk_error *err) {
	lk_written written;
	const char *note;
	bool whole, edits = lk_emit_edits(target, &whole);
	if (edits && !source) {
		lk_fail(err, LK_ERR_INPUT, "--emit",
		        "no file or launch line was given that could be edited");
		return lk_hint(err, "give one, or name what to write, for instance --emit megatron");
	}
	lk_error none = {0}; /* a new text takes the place of an edit that cannot be made */
	bool own = !edits && source && written_is_own(target, source);
	if (own && lk_emit_edit(arena, source, true, job, cluster, &written, out, &none) == LK_OK)
		edits = true;
	else if (edits) LK_TRY(lk_emit_edit(arena, source, whole, job, cluster, &written, out, err));
	else LK_TRY(lk_emit(arena, target, job, cluster, &written, out, err));
	if (!*written.unsaid || !cluster) return LK_OK;
	LK_TRY(written_say(arena, &written, job, cluster, &note, err));
	if (!note) return LK_OK;
	const char **notes = LK_ARRAY(arena, const char *, out->note_count + 1);
	if (!notes) return lk_oom(err);
	notes[0] = note;
	for (int i = 0; i < out->note_count; i++) notes[i + 1] = out->notes[i];
	out->notes = notes;
	out->note_count++;
	return LK_OK;
}
