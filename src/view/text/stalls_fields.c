/* stalls_fields.c: the fields of what stalls a command: rows of its tables, and the document. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/stats.h"
#include "base/text.h"
#include "lockstep/stalls.h"
#include "view/text/views.h"

/* ---- rows of tables ---- */

#define PART(member)    LK_AT(lk_stalls_part, member)
#define RUN(member)     LK_AT(lk_stalls_row, member)
#define RANK(member)    LK_AT(lk_stalls_rank, member)
#define MARK(member)    LK_AT(lk_stalls_mark, member)
#define BUCKET(member)  LK_AT(struct lk_stalls_bucket, member)
#define CHANGE(member)  LK_AT(lk_stalls_change, member)
#define FILE_OF(member) LK_AT(lk_stalls_file, member)
#define FOLDER(member)  LK_AT(lk_stalls_folder, member)
#define PAIR(member)    LK_AT(lk_stalls_pair, member)
#define RENTED(member)  LK_AT(lk_stalls_machine_row, member)

const char *const lk_stalls_bases[] = {"measured", "estimated", "not known"};

static char *show_factor(double factor, char *out, size_t size) {
	char text[32];
	snprintf(out, size, "x%s", lk_fixed(factor, 2, text, sizeof text));
	return out;
}

static char *show_share(double share, char *out, size_t size) {
	snprintf(out, size, "%.0f %%", 100 * share);
	return out;
}

static void find_interval(double low, double high, lk_field_value *found) {
	char a[32], b[32];
	if (isnan(low)) return;
	snprintf(found->shown, sizeof found->shown, "%s - %s", lk_format_seconds(low, a, sizeof a),
	         lk_format_seconds(high, b, sizeof b));
	found->text = found->shown;
}

static void find_part_interval(const lk_subject *subject, lk_field_value *found) {
	const lk_stalls_part *part = subject->record;
	find_interval(part->low, part->high, found);
}

static void find_part_verdict(const lk_subject *subject, lk_field_value *found) {
	const lk_stalls_part *part = subject->record;
	if (part->mark) found->text = "mark";
	if (part->mark || subject->index == LK_STALL_COMPUTE || part->basis == LK_STALLS_UNKNOWN)
		return;
	found->text = part->named ? "stall" : "within noise";
}

static void find_basis(const lk_subject *subject, lk_field_value *found) {
	found->text = lk_stalls_bases[((const lk_stalls_part *)subject->record)->basis];
}

static const lk_answer_field part_fields[] = {
	{"part", "part", PART(name)},
	{"mark", "", PART(mark), .hidden = true},
	{"seconds", "a step", PART(seconds), .shown = lk_format_seconds},
	{"low_s", "", PART(low), .hidden = true},
	{"high_s", "", PART(high), .hidden = true},
	{"interval", "95 %", LK_FIELD_TEXT, .get = find_part_interval, .right = true},
	{"share_pctg", "of the step", PART(share), .per_cent = true, .shown = lk_tenths},
	{"own_share_pctg", "of its run", PART(own_share), .per_cent = true, .shown = lk_tenths},
	{"slowdown", "slowdown", PART(factor), .known = LK_MAYBE, .shown = show_factor},
	{"verdict", "", LK_FIELD_TEXT, .get = find_part_verdict},
	{"basis", "basis", LK_FIELD_TEXT, .get = find_basis},
	{"how", "how", PART(how), .hidden = true},
};
static const lk_answer_record part_record = {LK_RECORD(lk_stalls_part, part_fields)};

static void find_configuration(const lk_subject *subject, lk_field_value *found) {
	found->text = lk_stalls_configurations[subject->index];
}

static void find_run_interval(const lk_subject *subject, lk_field_value *found) {
	const lk_stalls_row *row = subject->record;
	find_interval(row->low, row->high, found);
}

static const lk_answer_field run_fields[] = {
	{"configuration", "configuration", LK_FIELD_TEXT, .get = find_configuration},
	{"runs", "runs", RUN(runs), .shown = lk_format_thousands},
	{"step_s", "step", RUN(step_s), .shown = lk_format_seconds},
	{"low_s", "", RUN(low), .hidden = true},
	{"high_s", "", RUN(high), .hidden = true},
	{"interval", "95 %", LK_FIELD_TEXT, .get = find_run_interval, .right = true},
	{"files_in_memory_pctg", "files in memory", RUN(resident), .per_cent = true,
     .shown = lk_tenths},
	{"note", "", RUN(note), .known = LK_UNLESS_ZERO, .hidden = true},
};
static const lk_answer_record run_record = {LK_RECORD(lk_stalls_row, run_fields)};

static const lk_answer_field rank_fields[] = {
	{"rank", "rank", RANK(rank), .known = LK_UNLESS_NEGATIVE, .shown = lk_format_thousands},
	{"step_s", "step", RANK(step), .shown = lk_format_seconds},
	{"own_s", "own time", RANK(own), .shown = lk_format_seconds},
	{"computing_s", "computing", RANK(computing), .shown = lk_format_seconds},
	{"sleeping_s", "asleep", RANK(sleeping), .shown = lk_format_seconds},
	{"storage_s", "storage", RANK(storage), .shown = lk_format_seconds},
	{"data_s", "for data", RANK(data), .shown = lk_format_seconds},
	{"preempted_s", "preempted", RANK(preempted), .shown = lk_format_seconds},
};
static const lk_answer_record rank_record = {LK_RECORD(lk_stalls_rank, rank_fields)};

static const lk_answer_field mark_fields[] = {
	{"mark", "mark", MARK(name)},
	{"code_s", "code", MARK(code), .shown = lk_format_seconds},
	{"most_code_s", "of the slowest", MARK(most), .shown = lk_format_seconds},
	{"preparation_s", "preparation", MARK(preparation), .shown = lk_format_seconds},
	{"fetch_s", "fetch", MARK(fetch), .shown = lk_format_seconds},
	{"writing_s", "writing", MARK(writing), .shown = lk_format_seconds},
	{"communication_s", "communication", MARK(communication), .shown = lk_format_seconds},
	{"preempted_s", "preempted", MARK(preempted), .shown = lk_format_seconds},
};
static const lk_answer_record mark_record = {LK_RECORD(lk_stalls_mark, mark_fields)};

static const lk_answer_field size_fields[] = {
	{"bucket_bytes", "bucket", BUCKET(bucket_bytes), .shown = lk_format_bytes},
	{"calls", "calls a step", BUCKET(calls), .shown = lk_format_thousands},
	{"transfer_s", "transfer", BUCKET(transfer_s), .shown = lk_format_seconds},
	{"step_s", "step", BUCKET(step_s), .shown = lk_format_seconds},
};
static const lk_answer_record size_record = {LK_RECORD(struct lk_stalls_bucket, size_fields)};

static const lk_answer_field change_fields[] = {
	{"machine", "machine", CHANGE(what)},
	{"step_s", "step", CHANGE(step_s), .shown = lk_format_seconds},
	{"speedup", "faster", CHANGE(factor), .known = LK_MAYBE, .shown = show_factor},
	{"closed_step_s", "closed form", CHANGE(closed_s), .hidden = true},
	{"bottleneck", "hangs on", CHANGE(bottleneck)},
};
static const lk_answer_record change_record = {LK_RECORD(lk_stalls_change, change_fields)};

static void find_file_sequential(const lk_subject *subject, lk_field_value *found) {
	const lk_stalls_file *file = subject->record;
	found->number = lk_share(file->sequential, file->reads);
}

static void find_file_rate(const lk_subject *subject, lk_field_value *found) {
	const lk_stalls_file *file = subject->record;
	if (file->read_s > 0) found->number = file->read_bytes / file->read_s;
}

static void find_size(const lk_subject *subject, lk_field_value *found) {
	double size = ((const lk_stalls_file *)subject->record)->size;
	if (size > 0) found->number = size;
}

static void find_staged(const lk_subject *subject, lk_field_value *found) {
	found->text = ((const lk_stalls_file *)subject->record)->staged ? "yes" : "";
}

static const lk_answer_field file_fields[] = {
	{"file", "file", FILE_OF(path)},
	{"opens", "opens", FILE_OF(opens)},
	{"reads", "reads", FILE_OF(reads)},
	{"read_bytes", "read", FILE_OF(read_bytes), .shown = lk_format_bytes},
	{"size_bytes", "size", LK_FIELD_REAL, .get = find_size, .shown = lk_format_bytes},
	{"sequential", "sequential", LK_FIELD_REAL, .get = find_file_sequential, .shown = show_share},
	{"read_s", "time", FILE_OF(read_s), .shown = lk_format_seconds},
	{"bytes_per_s", "rate", LK_FIELD_REAL, .get = find_file_rate, .shown = lk_format_rate},
	{"gain_s", "gain", FILE_OF(gain_s), .shown = lk_format_seconds},
	{"staged", "staged", LK_FIELD_TEXT, .get = find_staged},
};
static const lk_answer_record file_record = {LK_RECORD(lk_stalls_file, file_fields)};

static void find_folder_sequential(const lk_subject *subject, lk_field_value *found) {
	const lk_stalls_folder *folder = subject->record;
	found->number = lk_share(folder->sequential, folder->reads);
}

static void find_folder_rate(const lk_subject *subject, lk_field_value *found) {
	const lk_stalls_folder *folder = subject->record;
	if (folder->read_s > 0) found->number = folder->read_bytes / folder->read_s;
}

static const lk_answer_field folder_fields[] = {
	{"folder", "folder", FOLDER(path)},
	{"tier", "tier", FOLDER(tier), .known = LK_UNLESS_ZERO},
	{"files", "files", FOLDER(files)},
	{"opens", "opens", FOLDER(opens), .hidden = true},
	{"reads", "reads", FOLDER(reads), .shown = lk_format_thousands},
	{"read_bytes", "read", FOLDER(read_bytes), .shown = lk_format_bytes},
	{"size_bytes", "size", FOLDER(size), .hidden = true},
	{"sequential", "sequential", LK_FIELD_REAL, .get = find_folder_sequential, .shown = show_share},
	{"read_s", "time", FOLDER(read_s), .shown = lk_format_seconds},
	{"bytes_per_s", "rate", LK_FIELD_REAL, .get = find_folder_rate, .shown = lk_format_rate},
};
static const lk_answer_record folder_record = {LK_RECORD(lk_stalls_folder, folder_fields)};

static const lk_answer_field pair_fields[] = {
	{"file", "file", PAIR(path)},
	{"before_reads", "reads before", PAIR(before_reads)},
	{"after_reads", "after", PAIR(after_reads)},
	{"before_bytes", "read before", PAIR(before_bytes), .shown = lk_format_bytes},
	{"after_bytes", "after", PAIR(after_bytes), .shown = lk_format_bytes},
	{"before_s", "time before", PAIR(before_s), .shown = lk_format_seconds},
	{"after_s", "after", PAIR(after_s), .shown = lk_format_seconds},
};
static const lk_answer_record pair_record = {LK_RECORD(lk_stalls_pair, pair_fields)};

static const lk_answer_field machine_fields[] = {
	{"model", "network", RENTED(model)},
	{"gradient_bytes", "gradients", RENTED(gradient_bytes), .shown = lk_format_bytes},
	{"machine", "machine", RENTED(machine)},
	{"gpus", "GPUs", RENTED(gpus)},
	{"one_gpu_s", "one GPU", RENTED(one_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"all_gpus_s", "all GPUs", RENTED(all_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"interconnect_pctg", "interconnect %", RENTED(interconnect), .known = LK_MAYBE,
     .per_cent = true, .shown = lk_tenths},
	{"joined", "joined", RENTED(joined)},
	{"joined_s", "step", RENTED(joined_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"network_pctg", "network %", RENTED(network), .known = LK_MAYBE, .per_cent = true,
     .shown = lk_tenths},
	{"epoch_s", "epoch", RENTED(epoch_s), .known = LK_MAYBE, .shown = lk_format_seconds},
	{"epoch_usd", "price", RENTED(epoch_usd), .known = LK_MAYBE, .shown = lk_format_dollars},
	{"note", "", RENTED(note), .known = LK_UNLESS_ZERO},
};
static const lk_answer_record machine_record = {LK_RECORD(lk_stalls_machine_row, machine_fields)};

/* By table: its columns, and where its rows lie in the answer. */
static const struct rows {
	lk_columns columns;
	size_t at;    /* of the rows, or of the pointer to them */
	size_t count; /* of their number */
	int fixed;    /* or always so many; 0: not */
	bool here;    /* in the answer itself, instead of behind a pointer */
} rows[LK_STALLS_TABLES] = {
#define LISTED(name_, record_, member, number)                                     \
	{                                                                              \
		{.name = name_, .record = &(record_)}, offsetof(lk_stalls_answer, member), \
			offsetof(lk_stalls_answer, number), 0, false                           \
	}
	[LK_STALLS_PARTS] = {{.name = "parts", .record = &part_record},
                         offsetof(lk_stalls_answer, parts),
                         offsetof(lk_stalls_answer, part_count),
                         0,
                         true},
	[LK_STALLS_RUNS] = {{.name = "runs", .record = &run_record},
                        offsetof(lk_stalls_answer, rows),
                        0,
                        LK_STALLS_CONFIGURATIONS,
                        true},
	[LK_STALLS_RANKS] = LISTED("ranks", rank_record, by_rank, rank_count),
	[LK_STALLS_MARKED] = LISTED("marks", mark_record, marks, mark_count),
	[LK_STALLS_BUCKETS] = LISTED("buckets", size_record, buckets.at, buckets.count),
	[LK_STALLS_WHAT_IF] = LISTED("what_if", change_record, changes, change_count),
	[LK_STALLS_FILES] = LISTED("files", file_record, files, file_count),
	[LK_STALLS_FOLDERS] = LISTED("folders", folder_record, folders, folder_count),
	[LK_STALLS_AGAINST] = LISTED("against", pair_record, pairs, pair_count),
	[LK_STALLS_MACHINES] = LISTED("machines", machine_record, machines, machine_count),
};

lk_table *lk_stalls_top(const lk_stalls_answer *answer, int which, int most) {
	LK_ASSERT(most >= 0);
	if (which <= LK_STALLS_ALL || which >= LK_STALLS_TABLES) which = LK_STALLS_PARTS;
	const struct rows *table_rows = &rows[which];
	const char *answer_at = (const char *)answer, *records = answer_at + table_rows->at;
	int count = table_rows->fixed;
	if (!count) count = *(const int *)(const void *)(answer_at + table_rows->count);
	if (!table_rows->here) records = *(const char *const *)(const void *)records;
	LK_ASSERT(count >= 0);
	if (most > 0 && most < count) count = most;
	lk_table *table = lk_fields_rows(&table_rows->columns, answer, records, count);
	if (which == LK_STALLS_FILES && answer->staging.size == 0) {
		lk_table_hide(table, "gain_s", true);
		lk_table_hide(table, "staged", true);
	}
	return table;
}

lk_table *lk_stalls_table(const lk_stalls_answer *answer, int which) {
	return lk_stalls_top(answer, which, 0);
}

/* ---- the document ---- */

#define STALLED(member) LK_AT(lk_stalls_answer, member)
#define BUCKETS(member) LK_AT(lk_stalls_buckets, member)
#define RATES(member)   LK_AT(lk_stalls_rates, member)
#define LEAD(member)    LK_AT(lk_stalls_lead, member)
#define STAGED(member)  LK_AT(lk_stalls_staging, member)

static const lk_answer_field drift_fields[] = {
	{"low", NULL, STALLED(drift_low), .known = LK_MAYBE},
	{"high", NULL, STALLED(drift_high), .known = LK_MAYBE},
	{"trend", NULL, STALLED(drift_trend), .known = LK_MAYBE},
};
static const lk_answer_record drift_record = {LK_RECORD(lk_stalls_answer, drift_fields)};

static const lk_answer_field staging_fields[] = {
	{"size", NULL, STAGED(size)},       {"used", NULL, STAGED(used)},
	{"files", NULL, STAGED(files)},     {"unknown", NULL, STAGED(unknown)},
	{"read_s", NULL, STAGED(read_s)},   {"gain_s", NULL, STAGED(gain_s)},
	{"bound_s", NULL, STAGED(bound_s)},
};
static const lk_answer_record staging_record = {LK_RECORD(lk_stalls_staging, staging_fields)};

static void find_first(const lk_subject *subject, lk_field_value *found) {
	const lk_stalls_answer *answer = subject->answer;
	found->text = answer->parts[((const lk_stalls_lead *)subject->record)->first].name;
}

static void find_second(const lk_subject *subject, lk_field_value *found) {
	const lk_stalls_answer *answer = subject->answer;
	found->text = answer->parts[((const lk_stalls_lead *)subject->record)->second].name;
}

static const lk_answer_field lead_fields[] = {
	{"first", NULL, LK_FIELD_TEXT, .get = find_first},
	{"second", NULL, LK_FIELD_TEXT, .get = find_second},
	{"low_s", NULL, LEAD(low), .known = LK_MAYBE},
	{"high_s", NULL, LEAD(high), .known = LK_MAYBE},
	{"rounds_needed", NULL, LEAD(rounds_needed), .known = LK_MAYBE},
	{"apart", NULL, LEAD(apart)},
};
static const lk_answer_record lead_record = {LK_RECORD(lk_stalls_lead, lead_fields)};

static const lk_answer_field bucket_fields[] = {
	{"group", NULL, BUCKETS(group), .known = LK_MAYBE},
	{"calls", NULL, BUCKETS(calls), .known = LK_MAYBE},
	{"bytes", NULL, BUCKETS(bytes), .known = LK_MAYBE},
	{"per_call_s", NULL, BUCKETS(per_call_s), .known = LK_MAYBE},
	{"per_byte_s", NULL, BUCKETS(per_byte_s), .known = LK_MAYBE},
	{"rest_s", NULL, BUCKETS(rest_s), .known = LK_MAYBE},
	{"error", NULL, BUCKETS(error), .known = LK_MAYBE},
	{"sizes", NULL, BUCKETS(sizes)},
};
static const lk_answer_record bucket_record = {.name = "Buckets",
                                               LK_RECORD(lk_stalls_buckets, bucket_fields)};

static const lk_answer_field rate_fields[] = {
	{"pipelined", NULL, RATES(pipelined)},
	{"ingestion", NULL, RATES(ingestion), .known = LK_MAYBE},
	{"preparation", NULL, RATES(preparation), .known = LK_MAYBE},
	{"fetch", NULL, RATES(fetch), .known = LK_MAYBE},
	{"bytes", NULL, RATES(bytes), .known = LK_MAYBE},
	{"disk_bytes_per_s", NULL, RATES(disk), .known = LK_MAYBE},
	{"memory_bytes_per_s", NULL, RATES(memory), .known = LK_MAYBE},
	{"device_s", NULL, RATES(device), .known = LK_MAYBE},
	{"hidden_s", NULL, RATES(hidden), .known = LK_MAYBE},
	{"hit", NULL, RATES(hit), .known = LK_MAYBE},
	{"workers", NULL, RATES(workers), .known = LK_MAYBE},
	{"cores", NULL, RATES(cores), .known = LK_MAYBE},
	{"busy", NULL, RATES(busy), .known = LK_MAYBE},
	{"cores_to_hide", NULL, RATES(cores_to_hide), .known = LK_MAYBE},
	{"cache_to_hide", NULL, RATES(cache_to_hide), .known = LK_MAYBE},
	{"from", NULL, RATES(from), .known = LK_MAYBE},
};
static const lk_answer_record rate_record = {.name = "Rates",
                                             LK_RECORD(lk_stalls_rates, rate_fields)};

static lk_table *stalls_rows(const void *answer, int which) {
	return lk_stalls_table(answer, which);
}

/* --table leaves the rows of the other tables out, so that their keys may be absent. */
#define ROWS(number) \
	.kind = LK_FIELD_ROWS, .rows = stalls_rows, .which = LK_STALLS_##number, .absent = true

static const lk_answer_field answer_fields[] = {
	{"status", NULL, STALLED(status)},
	{"ranks", NULL, STALLED(ranks)},
	{"hosts", NULL, STALLED(hosts)},
	{"steps", NULL, STALLED(steps)},
	{"first_step_s", NULL, STALLED(first_s), .known = LK_MAYBE},
	{"step_s", NULL, STALLED(step_s), .known = LK_MAYBE},
	{"step_low_s", NULL, STALLED(low), .known = LK_MAYBE},
	{"step_high_s", NULL, STALLED(high), .known = LK_MAYBE},
	{"base", NULL, STALLED(base), .known = LK_MAYBE},
	{"rounds", NULL, STALLED(rounds)},
	{"rounds_left_out", NULL, STALLED(rounds_left_out)},
	{"drift", NULL, LK_HERE(drift_record)},
	{"staging", NULL, LK_INSIDE(lk_stalls_answer, staging, staging_record),
     LK_IF(lk_stalls_answer, staging.size)},
	{"lead", NULL, LK_INSIDE(lk_stalls_answer, lead, lead_record)},
	{"parts", NULL, ROWS(PARTS)},
	{"runs", NULL, ROWS(RUNS)},
	{"by_rank", NULL, ROWS(RANKS)},
	{"marks", NULL, ROWS(MARKED)},
	{"buckets", NULL, ROWS(BUCKETS)},
	{"what_if", NULL, ROWS(WHAT_IF)},
	{"files", NULL, ROWS(FILES)},
	{"folders", NULL, ROWS(FOLDERS)},
	{"against", NULL, ROWS(AGAINST)},
	{"machines", NULL, ROWS(MACHINES)},
	{"communication", NULL, LK_INSIDE(lk_stalls_answer, buckets, bucket_record)},
	{"rates", NULL, LK_INSIDE(lk_stalls_answer, rates, rate_record)},
	{"notes", NULL, LK_LIST(lk_stalls_answer, notes, note_count)},
	{"reason", NULL, STALLED(reason), .known = LK_UNLESS_ZERO},
	{"reproduce", NULL, STALLED(reproduce)},
};
static const lk_answer_record answer_record = {LK_RECORD(lk_stalls_answer, answer_fields)};
const lk_document lk_stalls_document = {"stalls", "`stalls -o json`", &answer_record,
                                        offsetof(lk_stalls_answer, failed_check), NULL};
