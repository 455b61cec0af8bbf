/* stalls_check.c: invariants of every answer of `stalls`.
 *
 * An answer that contradicts itself is a defect of lockstep and is not printed. */
#include <math.h>

#include "base/check.h"
#include "base/stats.h"
#include "stalls/stalls.h"

static bool is_sum(double sum, double whole) {
	return fabs(sum - whole) <= 1e-6 * whole + 1e-9;
}

/* The known parts sum to the step; an unknown part has no figures. */
static const char *stalls_check_parts(const lk_stalls_answer *answer) {
	double sum = 0;
	for (int k = 0; k < answer->part_count; k++) {
		const lk_stalls_part *part = &answer->parts[k];
		LK_HOLDS(lk_is_time(part->seconds));
		LK_HOLDS(!(part->low > part->seconds) && !(part->high < part->seconds));
		LK_HOLDS(isnan(part->share) || (part->share >= 0 && part->share <= 1 + 1e-9));
		LK_HOLDS(isnan(part->seconds) || part->basis != LK_STALLS_UNKNOWN);
		LK_HOLDS(part->mark == (k >= LK_STALL_KINDS) && !(part->mark && part->named));
		sum += isnan(part->seconds) ? 0 : part->seconds;
	}
	LK_HOLDS(lk_is_time(answer->step_s) && lk_is_time(answer->first_s));
	LK_HOLDS(isnan(answer->step_s) || is_sum(sum, answer->step_s));
	LK_HOLDS(!(answer->low > answer->step_s) && !(answer->high < answer->step_s));
	return NULL;
}

static const char *stalls_check_ranks(const lk_stalls_answer *answer) {
	for (int i = 0; i < answer->rank_count; i++) {
		const lk_stalls_rank *rank = &answer->by_rank[i];
		LK_HOLDS(lk_is_time(rank->step) && lk_is_time(rank->own));
		LK_HOLDS(!(rank->own > rank->step * (1 + 1e-9)));
		LK_HOLDS(lk_is_time(rank->computing) && lk_is_time(rank->sleeping));
		LK_HOLDS(lk_is_time(rank->storage) && lk_is_time(rank->data));
		LK_HOLDS(lk_is_time(rank->preempted));
	}
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++) {
		const lk_stalls_row *row = &answer->rows[c];
		LK_HOLDS(row->runs >= 0 && lk_is_time(row->step_s));
		LK_HOLDS(!(row->low > row->step_s) && !(row->high < row->step_s));
	}
	return NULL;
}

/* A mark holds no more than a step, in code and in waits. */
static const char *stalls_check_marks(const lk_stalls_answer *answer) {
	for (int i = 0; i < answer->mark_count; i++) {
		const lk_stalls_mark *mark = &answer->marks[i];
		const double seconds[] = {mark->code,     mark->most,    mark->preparation,
		                          mark->fetch,    mark->writing, mark->communication,
		                          mark->preempted};
		for (size_t k = 0; k < sizeof seconds / sizeof *seconds; k++)
			LK_HOLDS(lk_is_time(seconds[k]));
		LK_HOLDS(mark->code <= mark->most);
	}
	return NULL;
}

static const char *stalls_check_changes(const lk_stalls_answer *answer) {
	for (int i = 0; i < answer->change_count; i++) {
		const lk_stalls_change *change = &answer->changes[i];
		LK_HOLDS(lk_is_time(change->step_s) && lk_is_time(change->closed_s));
		LK_HOLDS(isnan(change->step_s) || is_sum(change->step_s * change->factor, answer->step_s));
	}
	const lk_stalls_buckets *buckets = &answer->buckets;
	LK_HOLDS(lk_is_time(buckets->per_call_s) && lk_is_time(buckets->per_byte_s));
	LK_HOLDS(lk_is_time(buckets->rest_s) && lk_is_time(buckets->error));
	for (int i = 0; i < buckets->count; i++)
		LK_HOLDS(lk_is_time(buckets->at[i].transfer_s) && lk_is_time(buckets->at[i].step_s));
	return NULL;
}

/* Each file is in one folder; staged files fit on the fast tier. */
static const char *stalls_check_files(const lk_stalls_answer *answer) {
	double reads = 0, bytes = 0, staged = 0, of_folders = 0, bytes_of_folders = 0, files = 0;
	for (int i = 0; i < answer->file_count; i++) {
		const lk_stalls_file *file = &answer->files[i];
		LK_HOLDS(file->reads >= 0 && file->read_bytes >= 0 && lk_is_time(file->read_s));
		LK_HOLDS(file->sequential >= 0 && file->sequential <= file->reads);
		reads += file->reads;
		bytes += file->read_bytes;
		staged += file->staged ? file->size : 0;
	}
	for (int i = 0; i < answer->folder_count; i++) {
		files += answer->folders[i].files;
		of_folders += answer->folders[i].reads;
		bytes_of_folders += answer->folders[i].read_bytes;
	}
	LK_HOLDS(files == answer->file_count);
	LK_HOLDS(is_sum(of_folders, reads) && is_sum(bytes_of_folders, bytes));
	const lk_stalls_staging *staging = &answer->staging;
	LK_HOLDS(staging->used <= staging->size && is_sum(staged, staging->used));
	LK_HOLDS(staging->gain_s >= 0 && staging->gain_s <= staging->read_s * (1 + 1e-9));
	return NULL;
}

/* More GPUs save no time where each does the same work; stalls are of these steps. */
static const char *stalls_check_machines(const lk_stalls_answer *answer) {
	for (int i = 0; i < answer->machine_count; i++) {
		const lk_stalls_machine_row *row = &answer->machines[i];
		LK_HOLDS(lk_is_time(row->one_s) && lk_is_time(row->all_s) && lk_is_time(row->joined_s));
		LK_HOLDS(lk_is_time(row->network) && lk_is_time(row->epoch_s));
		LK_HOLDS(isnan(row->interconnect) || (row->interconnect >= 0 && row->interconnect < 1));
	}
	return NULL;
}

const char *lk_stalls_check(const lk_stalls_answer *answer) {
	if (answer->machine_count) return stalls_check_machines(answer);
	LK_HOLDS_ALL(stalls_check_files(answer));
	if (*answer->reason) return NULL;
	LK_HOLDS_ALL(stalls_check_parts(answer));
	LK_HOLDS_ALL(stalls_check_ranks(answer));
	LK_HOLDS_ALL(stalls_check_marks(answer));
	return stalls_check_changes(answer);
}
