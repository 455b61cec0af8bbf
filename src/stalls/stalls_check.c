/* stalls_check.c: what holds for every answer of `stalls`.
 *
 * Nothing is printed that contradicts itself: whatever made it is a defect of lockstep. */
#include <math.h>

#include "base/check.h"
#include "stalls/stalls.h"

static bool is_known_time(double seconds) {
	return isnan(seconds) || (isfinite(seconds) && seconds >= 0);
}

static bool is_sum(double sum, double whole) {
	return fabs(sum - whole) <= 1e-6 * whole + 1e-9;
}

/* The parts that are known make up the step; a part that is not known has no figures. */
static lk_status stalls_check_parts(const lk_stalls_answer *answer, lk_error *err) {
	double sum = 0;
	for (int k = 0; k < LK_STALL_KINDS; k++) {
		const lk_stalls_part *part = &answer->parts[k];
		LK_CHECK(is_known_time(part->seconds), err);
		LK_CHECK(!(part->low > part->seconds) && !(part->high < part->seconds), err);
		LK_CHECK(isnan(part->share) || (part->share >= 0 && part->share <= 1 + 1e-9), err);
		LK_CHECK(isnan(part->seconds) || part->basis != LK_STALLS_UNKNOWN, err);
		sum += isnan(part->seconds) ? 0 : part->seconds;
	}
	LK_CHECK(is_known_time(answer->step_s) && is_known_time(answer->first_s), err);
	LK_CHECK(isnan(answer->step_s) || is_sum(sum, answer->step_s), err);
	LK_CHECK(!(answer->low > answer->step_s) && !(answer->high < answer->step_s), err);
	return LK_OK;
}

static lk_status stalls_check_ranks(const lk_stalls_answer *answer, lk_error *err) {
	for (int i = 0; i < answer->rank_count; i++) {
		const lk_stalls_rank *rank = &answer->by_rank[i];
		LK_CHECK(is_known_time(rank->step) && is_known_time(rank->own), err);
		LK_CHECK(!(rank->own > rank->step * (1 + 1e-9)), err);
		LK_CHECK(is_known_time(rank->computing) && is_known_time(rank->sleeping), err);
		LK_CHECK(is_known_time(rank->storage) && is_known_time(rank->data), err);
		LK_CHECK(is_known_time(rank->preempted), err);
	}
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++) {
		const lk_stalls_row *row = &answer->rows[c];
		LK_CHECK(row->runs >= 0 && is_known_time(row->step_s), err);
		LK_CHECK(!(row->low > row->step_s) && !(row->high < row->step_s), err);
	}
	return LK_OK;
}

static lk_status stalls_check_changes(const lk_stalls_answer *answer, lk_error *err) {
	for (int i = 0; i < answer->change_count; i++) {
		const lk_stalls_change *change = &answer->changes[i];
		LK_CHECK(is_known_time(change->step_s) && is_known_time(change->closed_s), err);
		LK_CHECK(isnan(change->step_s) || is_sum(change->step_s * change->factor, answer->step_s),
		         err);
	}
	const lk_stalls_buckets *buckets = &answer->buckets;
	LK_CHECK(is_known_time(buckets->per_call_s) && is_known_time(buckets->per_byte_s), err);
	LK_CHECK(is_known_time(buckets->rest_s) && is_known_time(buckets->error), err);
	for (int i = 0; i < buckets->count; i++)
		LK_CHECK(is_known_time(buckets->at[i].transfer_s) && is_known_time(buckets->at[i].step_s),
		         err);
	return LK_OK;
}

/* Each file is in one folder; what is staged has room on the fast tier. */
static lk_status stalls_check_files(const lk_stalls_answer *answer, lk_error *err) {
	double reads = 0, bytes = 0, staged = 0, of_folders = 0, bytes_of_folders = 0, files = 0;
	for (int i = 0; i < answer->file_count; i++) {
		const lk_stalls_file *file = &answer->files[i];
		LK_CHECK(file->reads >= 0 && file->read_bytes >= 0 && is_known_time(file->read_s), err);
		LK_CHECK(file->sequential >= 0 && file->sequential <= file->reads, err);
		reads += file->reads;
		bytes += file->read_bytes;
		staged += file->staged ? file->size : 0;
	}
	for (int i = 0; i < answer->folder_count; i++) {
		files += answer->folders[i].files;
		of_folders += answer->folders[i].reads;
		bytes_of_folders += answer->folders[i].read_bytes;
	}
	LK_CHECK(files == answer->file_count, err);
	LK_CHECK(is_sum(of_folders, reads) && is_sum(bytes_of_folders, bytes), err);
	const lk_stalls_staging *staging = &answer->staging;
	LK_CHECK(staging->used <= staging->size && is_sum(staged, staging->used), err);
	LK_CHECK(staging->gain_s >= 0 && staging->gain_s <= staging->read_s * (1 + 1e-9), err);
	return LK_OK;
}

lk_status lk_stalls_check(const lk_stalls_answer *answer, lk_error *err) {
	LK_TRY(stalls_check_files(answer, err));
	if (*answer->reason) return LK_OK;
	LK_TRY(stalls_check_parts(answer, err));
	LK_TRY(stalls_check_ranks(answer, err));
	return stalls_check_changes(answer, err);
}
