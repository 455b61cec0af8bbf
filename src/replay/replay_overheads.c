/* replay_overheads.c: host overheads, extracted from captures, read from a table, fitted to each
 * rank, and written. */
#include <string.h>

#include "base/arena.h"
#include "replay/replay.h"

static lk_status own_overheads(const lk_replaying *replaying, uint32_t first, uint32_t end,
                               lk_overheads **out, lk_error *err) {
	lk_lifted *lifted;
	if (!(*out = lk_overheads_new())) return lk_oom(err);
	LK_TRY(lk_lift_ranks(replaying->traces, LK_NONE, LK_NONE, &lifted, err));
	lk_status status = LK_OK;
	for (uint32_t i = first; i < end && status == LK_OK; i++)
		status = lk_lifted_overheads(&lifted->rank[i], *out, err);
	lk_lifted_free(lifted);
	return status;
}

/* Read a table, or a trace to extract them from. */
lk_status lk_replay_stored_overheads(const char *path, lk_overheads **out, lk_traces **traces,
                                     lk_error *err) {
	size_t length = strlen(path);
	if (length > 4 && strcmp(path + length - 4, ".csv") == 0)
		return lk_overheads_read(path, out, err);
	lk_traces *read;
	LK_TRY(lk_traces_read(&path, 1, NULL, 0, &read, err));
	lk_replaying other = {.traces = read};
	lk_status status = own_overheads(&other, 0, read->count, out, err);
	if (traces && status == LK_OK) *traces = read;
	else lk_traces_free(read);
	return status;
}

lk_status lk_replay_share_overheads(lk_replaying *replaying, lk_overheads **table, lk_error *err) {
	if (!replaying->request->overheads) return LK_OK;
	LK_TRY(lk_replay_stored_overheads(replaying->request->overheads, table, NULL, err));
	replaying->shared = LK_ARRAY(replaying->arena, lk_shared_overheads, replaying->traces->count);
	if (!replaying->shared) return lk_oom(err);
	for (uint32_t i = 0; i < replaying->traces->count; i++) {
		lk_overheads *own = NULL;
		lk_status status =
			replaying->request->as_stored ? LK_OK : own_overheads(replaying, i, i + 1, &own, err);
		if (status == LK_OK) lk_shared_overheads_fit(*table, own, &replaying->shared[i]);
		lk_overheads_free(own);
		LK_TRY(status);
	}
	return LK_OK;
}

lk_status lk_replay_write_overheads(lk_replaying *replaying, lk_error *err) {
	lk_overheads *own = NULL;
	if (!replaying->request->overheads_out) return LK_OK;
	lk_status status = own_overheads(replaying, 0, replaying->traces->count, &own, err);
	if (status == LK_OK) status = lk_overheads_write(own, replaying->request->overheads_out, err);
	lk_overheads_free(own);
	return status;
}
