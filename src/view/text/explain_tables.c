/* explain_tables.c: the tables of an explanation. Names of columns are those of HTA and of `nsys
 * stats`. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "view/text/views.h"
#include "view/table/table_internal.h"

/* Columns of names, so that tables fit into 100. */
enum { KERNEL_WIDTH = 48, GROUP_WIDTH = 14 };

int lk_shown_rows(int count, int top) {
	LK_ASSERT(count >= 0);
	return top > 0 && top < count ? top : count;
}

/* ---- tables ---- */

static char *show_ns(double ns, char *out, size_t size) {
	return lk_format_seconds(ns * 1e-9, out, size);
}

static const lk_answer_field stall_fields[] = {
	{"rank_of_stall", "#", LK_FIELD_INT, .get = lk_find_row_number},
	{"kind", "kind", LK_AT(lk_explain_stall, kind)},
	{"what", "what", LK_AT(lk_explain_stall, what)},
	{"lost_s", "lost a step", LK_AT(lk_explain_stall, lost_s), .shown = lk_format_seconds},
	{"lost_pctg", "%", LK_AT(lk_explain_stall, share), .per_cent = true, .known = LK_MAYBE,
     .shown = lk_tenths},
	{"gain_s", "remedy gains", LK_AT(lk_explain_stall, gain_s), .known = LK_MAYBE,
     .shown = lk_format_seconds},
	{"most_s", "at most", LK_AT(lk_explain_stall, most_s), .shown = lk_format_seconds},
	{"adds_s", "adds", LK_AT(lk_explain_stall, adds_s), .shown = lk_format_seconds},
	{"change", "change", LK_AT(lk_explain_stall, change), .known = LK_MAYBE},
	{"evidence", "evidence", LK_AT(lk_explain_stall, evidence), .known = LK_MAYBE},
	{"remedy", "remedy", LK_AT(lk_explain_stall, remedy), .known = LK_MAYBE},
};
const lk_answer_record lk_stall_record = {
	.python = "Stall",
	.what =
		"What costs a step its time, with the figures that show it and the remedy. gain_s: "
		"simulated with the change of whatif; None: that cannot be simulated, and most_s bounds "
		"it. adds_s: on top of cheaper remedies.",
	LK_RECORD(lk_explain_stall, stall_fields)};

static lk_table *stalls(const lk_explanation *explanation, int top) {
	static const lk_columns columns = {"stalls", &lk_stall_record, .keys = NULL};
	lk_table *table = lk_fields_rows(&columns, explanation, explanation->stalls,
	                                 lk_shown_rows(explanation->stall_count, top));
	if (table) lk_table_hide_empty(table);
	return table;
}

#define RANK(member)    LK_AT(lk_explain_rank, member)
#define STEP(member)    LK_AT(lk_explain_step, member)
#define LATE(member)    LK_AT(lk_explain_straggler, member)
#define STRETCH(member) LK_AT(lk_explain_stretch, member)
#define IDLE(member)    LK_AT(lk_explain_idle, member)
#define QUEUE(member)   LK_AT(lk_explain_queue, member)
#define PCTG(struct_type, member) \
	.per_cent = true, .whole = offsetof(struct_type, member), .shown = lk_tenths
#define OF_KERNELS PCTG(lk_explain_rank, kernel_time_ns)

static const lk_answer_field breakdown_fields[] = {
	{"rank", "rank", RANK(rank), .shown = lk_whole},
	{"trace", "trace", RANK(path), .hidden = true},
	{"device", "device", RANK(device), .known = LK_UNLESS_ZERO, .hidden = true},
	{"steps", "steps", RANK(steps), .shown = lk_whole},
	{"events", "events", RANK(events), .shown = lk_format_thousands, .hidden = true},
	{"kernels", "kernels", RANK(device_events), .shown = lk_format_thousands},
	{"kernel_time_ns", "kernel_time", RANK(kernel_time_ns), .shown = show_ns},
	{"compute_time_ns", "compute_time", RANK(compute_ns), .shown = show_ns},
	{"compute_time_pctg", "%", RANK(compute_ns), OF_KERNELS},
	{"non_compute_time_ns", "non_compute_time", RANK(non_compute_ns), .shown = show_ns},
	{"non_compute_time_pctg", "%", RANK(non_compute_ns), OF_KERNELS},
	{"idle_time_ns", "idle_time", RANK(idle_ns), .shown = show_ns},
	{"idle_time_pctg", "%", RANK(idle_ns), OF_KERNELS},
	{"exposed_communication_ns", "", RANK(exposed_communication_ns), .hidden = true},
	{"exposed_memory_ns", "", RANK(exposed_memory_ns), .hidden = true},
	{"idle_data_loading_ns", "", RANK(idle_data_ns), .hidden = true},
	{"idle_one_off_ns", "", RANK(idle_one_off_ns), .hidden = true},
	{"idle_allocation_ns", "", RANK(idle_allocation_ns), .hidden = true},
	{"idle_checkpoint_ns", "", RANK(idle_saving_ns), .hidden = true},
	{"idle_garbage_ns", "", RANK(idle_collecting_ns), .hidden = true},
	{"idle_preprocessing_ns", "", RANK(idle_preparing_ns), .hidden = true},
	{"idle_computing_ns", "", RANK(idle_computing_ns), .hidden = true},
	{"idle_sync_ns", "", RANK(idle_sync_ns), .hidden = true},
	{"idle_host_ns", "", RANK(idle_host_ns), .hidden = true},
	{"idle_optimizer_ns", "", RANK(idle_optimizer_ns), .hidden = true},
	{"idle_outside_ns", "", RANK(idle_outside_ns), .hidden = true},
	{"idle_other_ns", "", RANK(idle_other_ns), .hidden = true},
	{"data_loading_ns", "", RANK(data_loading_ns), .hidden = true},
	{"sync_calls_ns", "", RANK(sync_ns), .hidden = true},
	{"h2d_ns", "", RANK(h2d_ns), .hidden = true},
	{"h2d_exposed_ns", "", RANK(h2d_exposed_ns), .hidden = true},
	{"pinned_exposed_ns", "", RANK(pinned_exposed_ns), .hidden = true},
	{"pageable_exposed_ns", "", RANK(pageable_exposed_ns), .hidden = true},
	{"pageable_h2d_ns", "", RANK(pageable_h2d_ns), .hidden = true},
};
static const lk_answer_record breakdown_record = {LK_RECORD(lk_explain_rank, breakdown_fields)};

static lk_table *breakdown(const lk_explanation *explanation) {
	static const lk_columns columns = {"breakdown", &breakdown_record, .keys = NULL};
	return lk_fields_rows(&columns, explanation, explanation->ranks, explanation->rank_count);
}

static const lk_answer_field step_fields[] = {
	{"rank", "rank", STEP(rank), .shown = lk_whole},
	{"step", "step", STEP(number), .shown = lk_whole},
	{"start_ns", "", STEP(start_ns), .shown = lk_whole, .hidden = true},
	{"dur_ns", "time", STEP(dur_ns), .shown = show_ns},
	{"compute_ns", "compute", STEP(compute_ns), .shown = show_ns},
	{"exposed_communication_ns", "exposed comm", STEP(exposed_communication_ns), .shown = show_ns},
	{"exposed_memory_ns", "exposed copies", STEP(exposed_memory_ns), .shown = show_ns},
	{"idle_ns", "idle", STEP(idle_ns), .shown = show_ns},
	{"data_loading_ns", "data loading", STEP(data_loading_ns), .shown = show_ns},
};
static const lk_answer_record step_record = {LK_RECORD(lk_explain_step, step_fields)};

static lk_table *steps(const lk_explanation *explanation) {
	static const lk_columns columns = {"steps", &step_record, .keys = NULL};
	return lk_fields_rows(&columns, explanation, explanation->steps, explanation->step_rows);
}

static const lk_answer_field overlap_fields[] = {
	{"rank", "rank", RANK(rank), .shown = lk_whole},
	{"comp_comm_overlap_pctg", "comp_comm_overlap_pctg", RANK(overlap_ns),
     PCTG(lk_explain_rank, communication_ns)},
	{"communication_ns", "communication", RANK(communication_ns), .shown = show_ns},
	{"overlap_ns", "hidden", RANK(overlap_ns), .shown = show_ns},
	{"exposed_communication_ns", "exposed", RANK(exposed_communication_ns), .shown = show_ns},
};
static const lk_answer_record overlap_record = {LK_RECORD(lk_explain_rank, overlap_fields)};

static lk_table *tables_overlap(const lk_explanation *explanation) {
	static const lk_columns columns = {"overlap", &overlap_record, .keys = NULL};
	return lk_fields_rows(&columns, explanation, explanation->ranks, explanation->rank_count);
}

static const lk_answer_field straggler_fields[] = {
	{"rank", "rank", LATE(rank), .shown = lk_whole},
	{"collectives", "collectives", LATE(collectives), .shown = lk_format_thousands},
	{"last", "last", LATE(last), .shown = lk_format_thousands},
	{"last_pctg", "%", LATE(last), PCTG(lk_explain_straggler, collectives)},
	{"late_ns", "late by", LATE(late_ns), .shown = show_ns},
	{"caused_ns", "others wait, exposed", LATE(caused_ns), .shown = show_ns},
	{"waited_ns", "waits itself", LATE(waited_ns), .shown = show_ns},
	{"compute_ratio", "compute / median", LATE(compute_ratio), .shown = lk_thousandths},
};
static const lk_answer_record straggler_record = {
	LK_RECORD(lk_explain_straggler, straggler_fields)};

static lk_table *tables_stragglers(const lk_explanation *explanation) {
	static const lk_columns columns = {"stragglers", &straggler_record, .keys = NULL};
	return lk_fields_rows(&columns, explanation, explanation->stragglers,
	                      explanation->straggler_count);
}

static const lk_answer_field stretch_fields[] = {
	{"rank", "rank", STRETCH(rank), .shown = lk_whole},
	{"cause", "idle for", STRETCH(cause)},
	{"start_ns", "start", STRETCH(start_ns), .shown = show_ns},
	{"dur_ns", "length", STRETCH(dur_ns), .shown = show_ns},
	{"lost_ns", "lost", STRETCH(lost_ns), .shown = show_ns},
	{"lost_pctg", "%", STRETCH(lost_ns), PCTG(lk_explain_stretch, dur_ns)},
	{"gaps", "gaps", STRETCH(gaps), .shown = lk_format_thousands},
	{"annotation", "annotation", STRETCH(annotation), .known = LK_UNLESS_ZERO},
	{"operation", "operation", STRETCH(operation), .known = LK_UNLESS_ZERO},
};
static const lk_answer_record stretch_record = {LK_RECORD(lk_explain_stretch, stretch_fields)};

static lk_table *stretches(const lk_explanation *explanation, int top) {
	static const lk_columns columns = {"stretches", &stretch_record, .keys = NULL};
	return lk_fields_rows(&columns, explanation, explanation->stretches,
	                      lk_shown_rows(explanation->stretch_count, top));
}

#define OF_IDLE PCTG(lk_explain_idle, idle_ns)

static const lk_answer_field idle_fields[] = {
	{"rank", "rank", IDLE(rank), .shown = lk_whole},
	{"stream", "stream", IDLE(stream), .shown = lk_whole},
	{"gaps", "gaps", IDLE(gaps), .shown = lk_format_thousands},
	{"idle_time_ns", "idle_time", IDLE(idle_ns), .shown = show_ns},
	{"host_wait_ns", "host_wait", IDLE(host_wait_ns), .shown = show_ns},
	{"host_wait_pctg", "%", IDLE(host_wait_ns), OF_IDLE},
	{"kernel_wait_ns", "kernel_wait", IDLE(kernel_wait_ns), .shown = show_ns},
	{"kernel_wait_pctg", "%", IDLE(kernel_wait_ns), OF_IDLE},
	{"other_ns", "other", IDLE(other_ns), .shown = show_ns},
	{"other_pctg", "%", IDLE(other_ns), OF_IDLE},
};
static const lk_answer_record idle_record = {LK_RECORD(lk_explain_idle, idle_fields)};

static lk_table *tables_idle(const lk_explanation *explanation) {
	static const lk_columns columns = {"idle", &idle_record, .keys = NULL};
	return lk_fields_rows(&columns, explanation, explanation->idle, explanation->idle_count);
}

static const lk_answer_field queue_fields[] = {
	{"rank", "rank", QUEUE(rank), .shown = lk_whole},
	{"stream", "stream", QUEUE(stream), .shown = lk_whole},
	{"launches", "launches", QUEUE(launches), .shown = lk_format_thousands},
	{"mean", "mean", QUEUE(mean), .shown = lk_tenths},
	{"min", "min", QUEUE(min), .shown = lk_whole},
	{"median", "median", QUEUE(median), .shown = lk_whole},
	{"p95", "95 %", QUEUE(p95), .shown = lk_whole},
	{"max", "max", QUEUE(max), .shown = lk_whole},
	{"full_ns", "full (1024)", QUEUE(full_ns), .shown = show_ns},
	{"span_ns", "", QUEUE(span_ns), .hidden = true},
	{"full_pctg", "%", QUEUE(full_ns), PCTG(lk_explain_queue, span_ns)},
};
static const lk_answer_record queue_record = {LK_RECORD(lk_explain_queue, queue_fields)};

static lk_table *tables_queue(const lk_explanation *explanation) {
	static const lk_columns columns = {"queue", &queue_record, .keys = NULL};
	return lk_fields_rows(&columns, explanation, explanation->queues, explanation->queue_count);
}

#define COMM(member) LK_AT(lk_explain_comm, member)

static void find_comm_hidden(const lk_subject *subject, lk_field_value *found) {
	const lk_explain_comm *comm = subject->record;
	found->number = (double)comm->kernel_ns - (double)comm->exposed_ns;
}

/* `context`: whether waiting and transfer alone are shown where all of the time is known as one of
 * them. */
static bool has_comm_time(const lk_subject *subject) {
	const lk_explain_comm *comm = subject->record;
	const bool *brief = subject->context;
	return !*brief || comm->matched != comm->count;
}

static bool has_comm_hidden(const lk_subject *subject) {
	return !((const lk_explain_comm *)subject->record)->host;
}

static const lk_answer_field comm_fields[] = {
	{"kind", "kind", COMM(kind)},
	{"group", "group", COMM(group), .known = LK_UNLESS_ZERO, .width = GROUP_WIDTH},
	{"group_size", "ranks", COMM(group_size), .known = LK_UNLESS_ZERO, .shown = lk_whole},
	{"count", "count", COMM(count), .shown = lk_format_thousands},
	{"bytes", "bytes", COMM(bytes), .shown = lk_format_bytes},
	{"kernel_ns", "time", COMM(kernel_ns), .there = has_comm_time, .shown = show_ns},
	{"exposed_ns", "exposed", COMM(exposed_ns), .shown = show_ns},
	{"hidden_pctg", "hidden %", LK_FIELD_INT64, .get = find_comm_hidden, .there = has_comm_hidden,
     PCTG(lk_explain_comm, kernel_ns)},
	{"matched", "matched", COMM(matched), .hidden = true},
	{"wait_ns", "waiting", COMM(wait_ns), LK_IF(lk_explain_comm, matched), .shown = show_ns},
	{"transfer_ns", "transfer", COMM(transfer_ns), LK_IF(lk_explain_comm, matched),
     .shown = show_ns},
	{"exposed_wait_ns", "exposed waiting", COMM(exposed_wait_ns), LK_IF(lk_explain_comm, matched),
     .shown = show_ns},
	{"busbw_GBps", "bus GB/s", COMM(busbw), .shown = lk_hundredths},
	{"model_busbw_GBps", "model", COMM(model_busbw), .shown = lk_hundredths},
};
static const lk_answer_record comm_record = {LK_RECORD(lk_explain_comm, comm_fields)};

/* People get 100 columns: where some waiting is known, the times that it is a part of go. */
static lk_table *tables_communication(const lk_explanation *explanation, bool people) {
	const lk_columns columns = {"communication", &comm_record, .people = people};
	const lk_explain_comm *comms = explanation->comm;
	bool brief = false;
	for (int i = 0; i < explanation->comm_count; i++) brief |= people && comms[i].matched > 0;
	lk_table *table = lk_fields_table(&columns);
	for (int i = 0; i < explanation->comm_count; i++)
		lk_fields_row(table, &columns, &(lk_subject){explanation, &comms[i], i, &brief});
	if (table) lk_table_hide_empty(table);
	if (brief) lk_table_hide(table, "hidden_pctg", true);
	if (brief) lk_table_hide(table, "exposed_wait_ns", true);
	return table;
}

#define KERNEL(member) LK_AT(lk_explain_kernel, member)

static void find_kernel_type(const lk_subject *subject, lk_field_value *found) {
	found->text = lk_explain_types[((const lk_explain_kernel *)subject->record)->type];
}

static const lk_answer_field kernel_fields[] = {
	{"time_pctg", "Time (%)", KERNEL(share), .per_cent = true, .shown = lk_tenths},
	{"total_time_ns", "Total Time", KERNEL(time.total_ns), .shown = show_ns},
	{"instances", "Instances", KERNEL(time.count), .shown = lk_format_thousands},
	{"avg_ns", "Avg", KERNEL(time.mean_ns), .shown = show_ns},
	{"med_ns", "med_ns", KERNEL(time.median_ns), .shown = show_ns, .hidden = true},
	{"min_ns", "min_ns", KERNEL(time.min_ns), .shown = show_ns, .hidden = true},
	{"max_ns", "Max", KERNEL(time.max_ns), .shown = show_ns},
	{"stddev_ns", "stddev_ns", KERNEL(time.deviation_ns), .shown = show_ns, .hidden = true},
	{"type", "type", LK_FIELD_TEXT, .get = find_kernel_type, .hidden = true},
	{"name", "Name", KERNEL(name), .width = KERNEL_WIDTH},
};
static const lk_answer_record kernel_record = {LK_RECORD(lk_explain_kernel, kernel_fields)};

static lk_table *tables_kernels(const lk_explanation *explanation, int top, bool people) {
	const lk_columns columns = {"kernels", &kernel_record, .people = people};
	return lk_fields_rows(&columns, explanation, explanation->kernel,
	                      lk_shown_rows(explanation->kernel_count, top));
}

#define SHAPED(member) LK_AT(lk_explain_shaped, member)

/* Nanoseconds of one operation; NAN: no time is known. */
static double shaped_each(const lk_subject *subject) {
	const lk_explain_shaped *shaped = subject->record;
	return shaped->count && shaped->total_ns > 0 ? shaped->total_ns / (double)shaped->count : NAN;
}

static void find_shaped_each(const lk_subject *subject, lk_field_value *found) {
	found->number = shaped_each(subject);
}

static void find_shaped_limit(const lk_subject *subject, lk_field_value *found) {
	const lk_explain_shaped *shaped = subject->record;
	if (!isnan(shaped->roof)) found->text = shaped->memory_bound ? "memory" : "peak";
}

static void find_shaped_flops(const lk_subject *subject, lk_field_value *found) {
	const lk_explain_shaped *shaped = subject->record;
	found->number = shaped->flops / (shaped_each(subject) * 1e-9);
}

static void find_shaped_bytes(const lk_subject *subject, lk_field_value *found) {
	const lk_explain_shaped *shaped = subject->record;
	found->number = shaped->bytes / (shaped_each(subject) * 1e-9);
}

static void find_shaped_intensity(const lk_subject *subject, lk_field_value *found) {
	const lk_explain_shaped *shaped = subject->record;
	if (shaped->flops > 0 && shaped->bytes > 0) found->number = shaped->flops / shaped->bytes;
}

static char *show_rate(double rate, double unit, char *out, size_t size) {
	return lk_fixed(rate / unit, rate < 10 * unit ? 2 : 1, out, size);
}

static char *show_tera(double rate, char *out, size_t size) {
	return show_rate(rate, 1e12, out, size);
}

static char *show_giga(double rate, char *out, size_t size) {
	return show_rate(rate, 1e9, out, size);
}

static const lk_answer_field shaped_fields[] = {
	{"time_pctg", "Time (%)", SHAPED(share), .per_cent = true, .shown = lk_tenths},
	{"total_time_ns", "Total Time", SHAPED(total_ns), .shown = show_ns},
	{"instances", "Instances", SHAPED(count), .shown = lk_format_thousands},
	{"avg_ns", "Avg", LK_FIELD_REAL, .get = find_shaped_each, .shown = show_ns},
	{"roof_pctg", "of roof %", SHAPED(roof), .per_cent = true, .shown = lk_tenths},
	{"limit", "limit", LK_FIELD_TEXT, .get = find_shaped_limit},
	{"flops_per_s", "TFLOP/s", LK_FIELD_REAL, .get = find_shaped_flops, .known = LK_UNLESS_ZERO,
     .shown = show_tera},
	{"bytes_per_s", "GB/s", LK_FIELD_REAL, .get = find_shaped_bytes, .known = LK_UNLESS_ZERO,
     .shown = show_giga},
	{"flops_per_byte", "FLOP/B", LK_FIELD_REAL, .get = find_shaped_intensity,
     .shown = lk_hundredths},
	{"dtype", "format", SHAPED(dtype)},
	{"kind", "kind", SHAPED(kind)},
	{"operation", "operation", SHAPED(operation)},
	{"shapes", "shapes", SHAPED(shapes), .width = KERNEL_WIDTH},
	{"flops", "flops", SHAPED(flops), .hidden = true},
	{"bytes", "bytes", SHAPED(bytes), .hidden = true},
	{"peak_flops", "peak_flops", SHAPED(peak_flops), .known = LK_UNLESS_ZERO, .hidden = true},
	{"kernel", "longest kernel", SHAPED(kernel), .width = KERNEL_WIDTH},
};
static const lk_answer_record shaped_record = {LK_RECORD(lk_explain_shaped, shaped_fields)};

static lk_table *roofline(const lk_explanation *explanation, int top, bool people) {
	const lk_columns columns = {"roofline", &shaped_record, .people = people};
	lk_table *table = lk_fields_rows(&columns, explanation, explanation->shaped,
	                                 lk_shown_rows(explanation->shaped_count, top));
	if (table) lk_table_hide_empty(table);
	return table;
}

#define MODULE(member) LK_AT(lk_explain_module, member)

/* For people, the tree: `context`, whether they read it. */
static void find_module(const lk_subject *subject, lk_field_value *found) {
	const lk_explain_module *module = subject->record;
	const bool *people = subject->context;
	found->text = module->module;
	if (!*people) return;
	snprintf(found->shown, sizeof found->shown, "%*s%s", 2 * module->depth, "", module->module);
	found->text = found->shown;
}

static const lk_answer_field module_fields[] = {
	{"module", "module", LK_FIELD_TEXT, .get = find_module, .width = KERNEL_WIDTH},
	{"path", "path", MODULE(path), .known = LK_UNLESS_ZERO, .hidden = true},
	{"depth", "depth", MODULE(depth), .shown = lk_whole, .hidden = true},
	{"instances", "instances", MODULE(instances), .known = LK_UNLESS_ZERO, .hidden = true},
	{"calls", "calls", MODULE(calls), .hidden = true},
	{"kernels", "kernels", MODULE(kernels), .shown = lk_format_thousands},
	{"time_s", "time a step", MODULE(time_s), .shown = lk_format_seconds},
	{"time_pctg", "%", MODULE(share), .per_cent = true, .shown = lk_tenths},
	{"own_s", "own", MODULE(own_s), .shown = lk_format_seconds, .hidden = true},
	{"backward_s", "gradients", MODULE(backward_s), .shown = lk_format_seconds},
	{"host_s", "on the host", MODULE(host_s), .shown = lk_format_seconds},
	{"expected_s", "expected", MODULE(expected_s), .known = LK_MAYBE, .shown = lk_format_seconds},
};
static const lk_answer_record module_record = {LK_RECORD(lk_explain_module, module_fields)};

/* Modules with less of the time are for programs. */
static const double LEAST_MODULE = 0.01;

static lk_table *tables_modules(const lk_explanation *explanation, int top, bool people) {
	const lk_columns columns = {"modules", &module_record, .people = people};
	lk_table *table = lk_fields_table(&columns);
	for (int i = 0; i < explanation->module_count; i++) {
		const lk_explain_module *module = &explanation->modules[i];
		if (!top || module->share >= LEAST_MODULE)
			lk_fields_row(table, &columns, &(lk_subject){explanation, module, i, &people});
	}
	if (table) lk_table_hide_empty(table);
	return table;
}

/* A row of the launches: one measure of a rank. */
struct launch_row {
	int rank;
	const char *measure;
	lk_explain_stats time;
	uint64_t short_kernels;
};
#define LAUNCH(member) LK_AT(struct launch_row, member)

static const lk_answer_field launch_fields[] = {
	{"rank", "rank", LAUNCH(rank), .shown = lk_whole},
	{"measure", "measure", LAUNCH(measure)},
	{"count", "count", LAUNCH(time.count), .shown = lk_format_thousands},
	{"total_ns", "total", LAUNCH(time.total_ns), .shown = show_ns},
	{"avg_ns", "avg", LAUNCH(time.mean_ns), .shown = show_ns},
	{"med_ns", "med", LAUNCH(time.median_ns), .shown = show_ns},
	{"p95_ns", "95 %", LAUNCH(time.p95_ns), .shown = show_ns},
	{"min_ns", "min", LAUNCH(time.min_ns), .shown = show_ns},
	{"max_ns", "max", LAUNCH(time.max_ns), .shown = show_ns},
	{"stddev_ns", "stddev", LAUNCH(time.deviation_ns), .shown = show_ns},
	{"short_kernels", "short kernels", LAUNCH(short_kernels), .shown = lk_format_thousands},
};
static const lk_answer_record launch_record = {LK_RECORD(struct launch_row, launch_fields)};

static lk_table *tables_launches(const lk_explanation *explanation) {
	static const lk_columns columns = {"launches", &launch_record, .keys = NULL};
	lk_table *table = lk_fields_table(&columns);
	for (int i = 0; i < explanation->launch_count; i++) {
		const lk_explain_launch *launch = &explanation->launches[i];
		const struct launch_row rows[] = {
			{launch->rank, "cpu_duration", launch->cpu_duration, launch->short_kernels},
			{launch->rank, "gpu_duration", launch->gpu_duration, launch->short_kernels},
			{launch->rank, "launch_delay", launch->launch_delay, launch->short_kernels},
		};
		for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
			lk_fields_row(table, &columns, &(lk_subject){explanation, &rows[k], i, NULL});
	}
	return table;
}

lk_table *lk_explain_table(const lk_explanation *explanation, int which, bool people) {
	int top = people ? explanation->top : 0;
	switch (which) {
	case LK_EXPLAIN_STALLS: return stalls(explanation, top);
	case LK_EXPLAIN_STEPS: return steps(explanation);
	case LK_EXPLAIN_OVERLAP: return tables_overlap(explanation);
	case LK_EXPLAIN_COMMUNICATION: return tables_communication(explanation, people);
	case LK_EXPLAIN_STRAGGLERS: return tables_stragglers(explanation);
	case LK_EXPLAIN_STRETCHES: return stretches(explanation, top);
	case LK_EXPLAIN_IDLE: return tables_idle(explanation);
	case LK_EXPLAIN_KERNELS: return tables_kernels(explanation, top, people);
	case LK_EXPLAIN_QUEUE: return tables_queue(explanation);
	case LK_EXPLAIN_LAUNCHES: return tables_launches(explanation);
	case LK_EXPLAIN_MODULES: return tables_modules(explanation, top, people);
	case LK_EXPLAIN_ROOFLINE: return roofline(explanation, top, people);
	default: return breakdown(explanation);
	}
}
