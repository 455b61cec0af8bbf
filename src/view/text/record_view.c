/* record_view.c: what a recording holds, for people. */

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "base/noun.h"
#include "lockstep/record.h"

enum { SHOWN = 16, SHOWN_FILES = 8 };

static const char *record_view_bytes(double b, char out[32]) {
	return lk_format_bytes(b, out, 32);
}

static void print_network(const lk_record_process *process, FILE *out) {
	char a[32], b[32], c[32];
	if (process->network_wait_s + process->device_wait_s + process->peer_wait_s > 0)
		fprintf(out,
		        "    its network operations waited %s for the wire, %s for the device, %s for the "
		        "other side\n",
		        lk_format_seconds(process->network_wait_s, a, sizeof a),
		        lk_format_seconds(process->device_wait_s, b, sizeof b),
		        lk_format_seconds(process->peer_wait_s, c, sizeof c));
}

static void print_process(const lk_record_process *process, FILE *out) {
	char a[32], b[32];
	if (process->rank >= 0) fprintf(out, "  rank %d of %d", process->rank, process->world);
	else fprintf(out, "  %s%s", process->program, process->forked ? ", forked" : "");
	if (process->steps)
		fprintf(out, ": %d %s of %s", process->steps, lk_noun(process->steps, "step", "steps"),
		        lk_format_seconds(process->step_s, a, sizeof a));
	else fprintf(out, ": %s", lk_format_seconds(process->wall_s, a, sizeof a));
	if (process->comms)
		fprintf(out, "; %llu %s, %s, %s in calls", (unsigned long long)process->comms,
		        lk_noun(process->comms, "communication", "communications"),
		        record_view_bytes(process->comm_bytes, a),
		        lk_format_seconds(process->comm_s, b, sizeof b));
	if (process->socket_bytes > 0)
		fprintf(out, "; %s by sockets", record_view_bytes(process->socket_bytes, a));
	if (process->reads)
		fprintf(out, "; %llu reads, %s, %s", (unsigned long long)process->reads,
		        record_view_bytes(process->read_bytes, a),
		        lk_format_seconds(process->read_s, b, sizeof b));
	if (process->writes)
		fprintf(out, "; %llu writes, %s", (unsigned long long)process->writes,
		        record_view_bytes(process->write_bytes, a));
	if (process->device_calls)
		fprintf(out, "; %llu %s of the device's runtime, %s waiting for it",
		        (unsigned long long)process->device_calls,
		        lk_noun(process->device_calls, "call", "calls"),
		        lk_format_seconds(process->device_s, a, sizeof a));
	if (process->work_s > 0)
		fprintf(out, "; %s of work on its streams",
		        lk_format_seconds(process->work_s, a, sizeof a));
	fprintf(out, "%s\n", process->whole ? "" : "; ended by a signal or exec");
	print_network(process, out);
}

static void print_file(const lk_record_file *file, FILE *out) {
	char a[32], b[32];
	fprintf(out, "  %s:", file->path);
	if (file->reads)
		fprintf(out, " %llu reads of %s, at most %s, %.0f %% sequential, ",
		        (unsigned long long)file->reads,
		        record_view_bytes(file->read_bytes / (double)file->reads, a),
		        record_view_bytes(file->most, b),
		        100 * (double)file->sequential / (double)file->reads);
	if (file->reads)
		fprintf(out, "%s%s", lk_format_seconds(file->read_s, a, sizeof a), file->writes ? ";" : "");
	if (file->writes)
		fprintf(out, " %llu writes of %s, %s", (unsigned long long)file->writes,
		        record_view_bytes(file->write_bytes / (double)file->writes, a),
		        lk_format_seconds(file->write_s, b, sizeof b));
	fputc('\n', out);
}

static void print_files(const lk_record_answer *answer, FILE *out) {
	if (answer->file_count) fputs("files, by time in calls:\n", out);
	for (int i = 0; i < answer->file_count && i < SHOWN_FILES; i++)
		print_file(&answer->files[i], out);
	if (answer->file_count > SHOWN_FILES)
		fprintf(out, "  and %d more\n", answer->file_count - SHOWN_FILES);
}

/* What communication was made of, where it was not the library's alone. */
static void print_modes(const lk_record_answer *answer, FILE *out) {
	uint64_t left_out = 0;
	int delay = 0;
	bool null = false, slowed = false;
	for (int i = 0; i < answer->count; i++) {
		null |= answer->processes[i].mode == LK_RECORD_MODE_NULL;
		slowed |= answer->processes[i].slowed;
		left_out += answer->processes[i].left_out;
		if (answer->processes[i].delay_us > delay) delay = answer->processes[i].delay_us;
	}
	if (null)
		fprintf(out, "null: %llu %s of communication returned at once\n",
		        (unsigned long long)left_out, lk_noun(left_out, "call", "calls"));
	if (delay) fprintf(out, "delay: communication took %d us longer\n", delay);
	if (slowed) fprintf(out, "slow: reads of some files were made to take longer\n");
}

static void print_guard(const lk_record_answer *answer, FILE *out) {
	char a[32];
	double sum = 0;
	if (!answer->guarded) return;
	for (int i = 0; i < answer->change_count; i++) sum += answer->changes[i].bytes;
	fprintf(out,
	        "guarded: %d %s, %s, were written or deleted in %s instead of where the command wanted "
	        "them",
	        answer->change_count, lk_noun(answer->change_count, "file", "files"),
	        record_view_bytes(sum, a), answer->scratch ? answer->scratch : "a private folder");
	fputs(answer->scratch ? "\n" : ", removed since\n", out);
	for (int i = 0; i < answer->change_count && i < SHOWN_FILES; i++)
		fprintf(out, "  %s %s\n", answer->changes[i].deleted ? "deleted" : "written",
		        answer->changes[i].path);
	if (answer->change_count > SHOWN_FILES)
		fprintf(out, "  and %d more\n", answer->change_count - SHOWN_FILES);
	for (int i = 0; i < answer->unguarded_count && i < SHOWN; i++)
		fprintf(out, "not guarded: %s\n", answer->unguarded[i]);
	if (answer->unguarded_count > SHOWN)
		fprintf(out, "  and %d more\n", answer->unguarded_count - SHOWN);
}

/* Of the process that has most. */
static void print_overhead(const lk_record_answer *answer, FILE *out) {
	double most = 0, cost = 0;
	char a[32];
	for (int i = 0; i < answer->count; i++) {
		const lk_record_process *process = &answer->processes[i];
		double calls =
			(double)(process->comms + process->reads + process->writes + process->device_calls);
		double share = process->wall_s > 0 ? calls * process->cost_s / process->wall_s : 0;
		if (share >= most) {
			most = share;
			cost = process->cost_s;
		}
	}
	if (answer->count)
		fprintf(out,
		        "overhead: %s a call as measured in the process, at most %.3f %% of its time\n",
		        lk_format_seconds(cost, a, sizeof a), 100 * most);
}

/* Of the process with most steps: how much of the run they are. Forked processes, which come last,
 * count only where no other one has steps: a loader may repeat itself more often than the step. */
static void print_coverage(const lk_record_answer *answer, FILE *out) {
	const lk_record_process *most = NULL;
	for (int i = 0; i < answer->count; i++) {
		if (most && answer->processes[i].forked != most->forked) break;
		if (answer->processes[i].steps > (most ? most->steps : 0)) most = &answer->processes[i];
	}
	if (!most || !(most->wall_s > 0)) return;
	LK_ASSERT(most->steps > 0);
	fprintf(out, "lockstep: %d %s seen; %.0f %% of the run's time is outside of steps\n",
	        most->steps, lk_noun(most->steps, "step", "steps"),
	        100 * most->outside_s / most->wall_s);
}

void lk_record_print(const lk_record_answer *answer, FILE *out) {
	char a[32], b[32];
	if (answer->end == LK_RECORD_STEPS_DONE)
		fprintf(out, "lockstep: the steps are done; the command was stopped\n");
	if (answer->end == LK_RECORD_TIME_OVER)
		fprintf(out, "lockstep: the time limit is over; the command was stopped\n");
	if (answer->count)
		fprintf(out, "lockstep: recorded %d process%s in %s, %s, into %s\n", answer->count,
		        answer->count == 1 ? "" : "es", lk_format_seconds(answer->wall_s, a, sizeof a),
		        record_view_bytes(answer->bytes, b), answer->out);
	print_coverage(answer, out);
	for (int i = 0; i < answer->count && i < SHOWN; i++) print_process(&answer->processes[i], out);
	if (answer->count > SHOWN) fprintf(out, "  and %d more\n", answer->count - SHOWN);
	print_files(answer, out);
	print_modes(answer, out);
	print_guard(answer, out);
	print_overhead(answer, out);
	if (*answer->reason) fprintf(out, "lockstep: %s\n", answer->reason);
	if (answer->store_requests)
		fprintf(out, "rendezvous: %llu %s answered for the absent ranks, %llu values made up\n",
		        (unsigned long long)answer->store_requests,
		        lk_noun(answer->store_requests, "request", "requests"),
		        (unsigned long long)answer->store_made_up);
	if (answer->store_wrong && *answer->store_wrong)
		fprintf(out, "rendezvous: a connection was closed, which %s\n", answer->store_wrong);
	if (!answer->count) return;
	lk_arena arena = LK_ARENA_INIT;
	const char *recording = lk_shell_quote(&arena, answer->out);
	if (!recording) recording = "RECORDING";
	if (answer->posed) fprintf(out, "next: lockstep compose %s --cluster ...\n", recording);
	else fprintf(out, "next: lockstep explain %s\n", recording);
	lk_arena_free(&arena);
}
