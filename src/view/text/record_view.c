/* record_view.c: what a recording holds, for people. */
#include <math.h>

#include "base/text.h"
#include "lockstep/record.h"

enum { SHOWN = 16, SHOWN_FILES = 8 };

static const char *seconds(double s, char out[32]) { return lk_format_seconds(s, out, 32); }
static const char *bytes(double b, char out[32]) { return lk_format_bytes(b, out, 32); }

static void print_network(const lk_record_process *p, FILE *out) {
	char a[32], b[32], c[32];
	if (p->network_wait_s + p->device_wait_s + p->peer_wait_s > 0)
		fprintf(out, "    its network operations waited %s for the wire, %s for the device, %s for the other side\n",
		        seconds(p->network_wait_s, a), seconds(p->device_wait_s, b), seconds(p->peer_wait_s, c));
}

static void print_process(const lk_record_process *p, FILE *out) {
	char a[32], b[32];
	if (p->rank >= 0) fprintf(out, "  rank %d of %d", p->rank, p->world);
	else fprintf(out, "  %s%s", p->program, p->forked ? ", forked" : "");
	if (p->steps) fprintf(out, ": %d steps of %s", p->steps, seconds(p->step_s, a));
	else fprintf(out, ": %s", seconds(p->wall_s, a));
	if (p->comms)
		fprintf(out, "; %llu communications, %s, %s in calls", (unsigned long long)p->comms, bytes(p->comm_bytes, a),
		        seconds(p->comm_s, b));
	if (p->socket_bytes > 0) fprintf(out, "; %s by sockets", bytes(p->socket_bytes, a));
	if (p->reads)
		fprintf(out, "; %llu reads, %s, %s", (unsigned long long)p->reads, bytes(p->read_bytes, a), seconds(p->read_s, b));
	if (p->writes) fprintf(out, "; %llu writes, %s", (unsigned long long)p->writes, bytes(p->write_bytes, a));
	if (p->device_calls)
		fprintf(out, "; %llu calls of the device's runtime, %s waiting for it", (unsigned long long)p->device_calls,
		        seconds(p->device_s, a));
	if (p->work_s > 0) fprintf(out, "; %s of work on its streams", seconds(p->work_s, a));
	fprintf(out, "%s\n", p->whole ? "" : "; ended by a signal or exec");
	print_network(p, out);
}

static void print_file(const lk_record_file *f, FILE *out) {
	char a[32], b[32];
	fprintf(out, "  %s:", f->path);
	if (f->reads)
		fprintf(out, " %llu reads of %s, at most %s, %.0f %% sequential, ", (unsigned long long)f->reads,
		        bytes(f->read_bytes / (double)f->reads, a), bytes(f->most, b),
		        100 * (double)f->sequential / (double)f->reads);
	if (f->reads) fprintf(out, "%s%s", seconds(f->read_s, a), f->writes ? ";" : "");
	if (f->writes)
		fprintf(out, " %llu writes of %s, %s", (unsigned long long)f->writes, bytes(f->write_bytes / (double)f->writes, a),
		        seconds(f->write_s, b));
	fputc('\n', out);
}

static void print_files(const lk_record_answer *x, FILE *out) {
	if (x->file_count) fputs("files, by time in calls:\n", out);
	for (int i = 0; i < x->file_count && i < SHOWN_FILES; i++) print_file(&x->files[i], out);
	if (x->file_count > SHOWN_FILES) fprintf(out, "  and %d more\n", x->file_count - SHOWN_FILES);
}

/* What communication was made of, where it was not the library's alone. */
static void print_modes(const lk_record_answer *x, FILE *out) {
	uint64_t left_out = 0;
	int delay = 0;
	bool null = false;
	for (int i = 0; i < x->count; i++) {
		null |= x->processes[i].mode == LK_RECORD_MODE_NULL;
		left_out += x->processes[i].left_out;
		if (x->processes[i].delay_us > delay) delay = x->processes[i].delay_us;
	}
	if (null) fprintf(out, "null: %llu calls of communication returned at once\n", (unsigned long long)left_out);
	if (delay) fprintf(out, "delay: communication took %d us longer\n", delay);
}

static void print_guard(const lk_record_answer *x, FILE *out) {
	char a[32];
	double sum = 0;
	if (!x->guarded) return;
	for (int i = 0; i < x->change_count; i++) sum += x->changes[i].bytes;
	fprintf(out, "guarded: %d files, %s, were written or deleted in %s instead of where the command wanted them%s\n",
	        x->change_count, bytes(sum, a), x->scratch ? x->scratch : "a private folder", x->scratch ? "" : ", removed since");
	for (int i = 0; i < x->change_count && i < SHOWN_FILES; i++)
		fprintf(out, "  %s %s\n", x->changes[i].deleted ? "deleted" : "written", x->changes[i].path);
	if (x->change_count > SHOWN_FILES) fprintf(out, "  and %d more\n", x->change_count - SHOWN_FILES);
	for (int i = 0; i < x->unguarded_count && i < SHOWN; i++) fprintf(out, "not guarded: %s\n", x->unguarded[i]);
	if (x->unguarded_count > SHOWN) fprintf(out, "  and %d more\n", x->unguarded_count - SHOWN);
}

/* Of the process that has most. */
static void print_overhead(const lk_record_answer *x, FILE *out) {
	double most = 0, cost = 0;
	char a[32];
	for (int i = 0; i < x->count; i++) {
		const lk_record_process *p = &x->processes[i];
		double calls = (double)(p->comms + p->reads + p->writes + p->device_calls);
		double share = p->wall_s > 0 ? calls * p->cost_s / p->wall_s : 0;
		if (share >= most) most = share, cost = p->cost_s;
	}
	if (x->count)
		fprintf(out, "overhead: %s a call as measured in the process, at most %.3f %% of its time\n", seconds(cost, a),
		        100 * most);
}

void lk_record_print(const lk_record_answer *x, FILE *out) {
	char a[32], b[32];
	if (x->end == LK_RECORD_STEPS_DONE) fprintf(out, "lockstep: the steps are done; the command was stopped\n");
	if (x->end == LK_RECORD_TIME_OVER) fprintf(out, "lockstep: the time limit is over; the command was stopped\n");
	if (x->count)
		fprintf(out, "lockstep: recorded %d process%s in %s, %s, into %s\n", x->count, x->count == 1 ? "" : "es",
		        seconds(x->wall_s, a), bytes(x->bytes, b), x->out);
	for (int i = 0; i < x->count && i < SHOWN; i++) print_process(&x->processes[i], out);
	if (x->count > SHOWN) fprintf(out, "  and %d more\n", x->count - SHOWN);
	print_files(x, out);
	print_modes(x, out);
	print_guard(x, out);
	print_overhead(x, out);
	if (*x->reason) fprintf(out, "lockstep: %s\n", x->reason);
	if (x->store_requests)
		fprintf(out, "rendezvous: %llu requests answered for the absent ranks, %llu values made up\n",
		        (unsigned long long)x->store_requests, (unsigned long long)x->store_made_up);
	if (x->store_wrong && *x->store_wrong) fprintf(out, "rendezvous: a connection was closed, which %s\n", x->store_wrong);
	if (x->count) fprintf(out, x->posed ? "next: lockstep compose %s --cluster ...\n" : "next: lockstep explain %s\n", x->out);
}
