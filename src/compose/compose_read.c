/* compose_read.c: the recordings of a folder as the recorded ranks of one job. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "system/listing.h"
#include "base/arena.h"
#include "compose/compose.h"
#include "base/text.h"
#include "base/noun.h"
#include "base/sort.h"

enum { MOST_RECORDINGS = 4096 };

void lk_emulated_rank_free(lk_emulated_rank *rank) {
	lk_emulated_step_free(&rank->step);
	lk_recorded_free(&rank->run);
	free(rank);
}

/* Note what the step uses; times of its device are required. */
static lk_status note_device_use(lk_composer *composer, const lk_emulated_rank *rank) {
	const lk_emulated_step *step = &rank->step;
	for (size_t i = 0; i < step->items.count; i++) {
		const lk_emulated_item *item = &step->items.at[i];
		if (item->device) composer->devices = true;
		else *(item->part == LK_PART_ENQUEUE ? &composer->nccl : &composer->mpi) = true;
	}
	composer->torch |= (rank->run.head.seen & LK_RECORDED_TORCH) && composer->mpi;
	composer->progress = composer->torch ? LK_PROGRESS_ALWAYS : composer->request->progress;
	if (!step->untimed || step->device_ns > 0) return LK_OK;
	lk_fail(composer->err, LK_ERR_INPUT, rank->path, "has no times of the work on its device");
	return lk_hint(composer->err, "record with --cuda events (the default) or --cuda cupti");
}

static lk_status read_recorded_rank(lk_composer *composer, const char *path) {
	lk_emulated_rank *rank = calloc(1, sizeof *rank);
	if (!rank) return lk_oom(composer->err);
	rank->path = lk_arena_strdup(&composer->arena, path);
	lk_status status =
		rank->path ? lk_recorded_load(rank->path, NULL, composer->texts, &rank->run, composer->err)
				   : lk_oom(composer->err);
	if (status != LK_OK) {
		free(rank);
		return status;
	}
	status = lk_emulated_step_of(&rank->run, &rank->step, composer->err);
	if (status == LK_OK) status = note_device_use(composer, rank);
	if (status == LK_OK && !lk_push(&composer->recorded)) status = lk_oom(composer->err);
	if (status != LK_OK) {
		lk_emulated_rank_free(rank);
		return status;
	}
	*lk_last(&composer->recorded) = rank;
	return LK_OK;
}

static int compare_recorded_ranks(const void *a, const void *b) {
	const lk_emulated_rank *x = *(lk_emulated_rank *const *)a, *y = *(lk_emulated_rank *const *)b;
	if (x->step.rank != y->step.rank) return x->step.rank < y->step.rank ? -1 : 1;
	return strcmp(x->path, y->path);
}

static lk_status check_recordings_agree(lk_composer *composer) {
	const lk_emulated_rank *first = composer->recorded.at[0];
	char one[4 * sizeof first->run.head.program], other[sizeof one];
	composer->world = first->step.world;
	for (size_t i = 1; i < composer->recorded.count; i++) {
		const lk_emulated_rank *rank = composer->recorded.at[i];
		if (rank->step.world != composer->world)
			return lk_fail(composer->err, LK_ERR_INPUT, rank->path,
			               "has a world of %d %s, but %s one of %d", (int)rank->step.world,
			               lk_noun(rank->step.world, "rank", "ranks"), first->path,
			               (int)composer->world);
		if (strcmp(rank->run.head.program, first->run.head.program) != 0)
			return lk_fail(composer->err, LK_ERR_INPUT, rank->path,
			               "is of the program %s, but %s of %s",
			               lk_escape(rank->run.head.program, one, sizeof one), first->path,
			               lk_escape(first->run.head.program, other, sizeof other));
		if (rank->step.rank == composer->recorded.at[i - 1]->step.rank)
			return lk_fail(composer->err, LK_ERR_INPUT, rank->path, "is of rank %d, like %s",
			               (int)rank->step.rank, composer->recorded.at[i - 1]->path);
	}
	return LK_OK;
}

lk_status lk_compose_read(lk_composer *composer) {
	const char *folder = composer->request->folder;
	lk_listing listing;
	lk_status status = lk_listing_read(folder, LK_RECORDING_ENDING, &listing, composer->err);
	if (status == LK_ERR_IO)
		return lk_hint(composer->err, "give a folder that lockstep record wrote");
	LK_TRY(status);
	for (size_t i = 0; i < listing.count && status == LK_OK; i++) {
		char path[PATH_MAX + NAME_MAX + 2];
		if (strstr(listing.names[i], LK_RECORDING_FORKED)) continue;
		snprintf(path, sizeof path, "%s/%s", folder, listing.names[i]);
		status = composer->recorded.count < MOST_RECORDINGS
		             ? read_recorded_rank(composer, path)
		             : lk_fail(composer->err, LK_ERR_INPUT, folder, "holds too many recordings");
	}
	lk_listing_free(&listing);
	LK_TRY(status);
	if (!composer->recorded.count) {
		lk_fail(composer->err, LK_ERR_INPUT, folder, "holds no recordings");
		return lk_hint(composer->err,
		               "lockstep record --world N --ranks A,B,... -- COMMAND makes them");
	}
	lk_sort(composer->recorded.at, composer->recorded.count, sizeof *composer->recorded.at,
	        compare_recorded_ranks);
	return check_recordings_agree(composer);
}
