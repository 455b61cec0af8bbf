/* sweep.c: the combinations of comma lists: requests, predictions or refusals, rows. */
#include "verbs/verbs.h"

#include <stdlib.h>

#include "base/check.h"

lk_status lk_combinations_open(lk_combinations *all, size_t count, lk_error *err) {
	LK_ASSERT(count > 0);
	*all = (lk_combinations){.count = count,
	                         .requests = calloc(count, sizeof *all->requests),
	                         .predictions = calloc(count, sizeof *all->predictions),
	                         .refusals = calloc(count, sizeof *all->refusals),
	                         .rows = calloc(count, sizeof *all->rows)};
	bool whole = all->requests && all->predictions && all->refusals && all->rows;
	return whole ? LK_OK : lk_oom(err);
}

void lk_combinations_close(lk_combinations *all) {
	for (size_t i = 0; all->predictions && i < all->count; i++)
		lk_predict_free(all->predictions[i]);
	free(all->requests);
	free(all->predictions);
	free(all->refusals);
	free(all->rows);
	*all = (lk_combinations){0};
}

lk_status lk_combinations_fill(lk_combinations *all, size_t first, lk_args *args,
                               const lk_verb_input *input, lk_error *err) {
	size_t count;
	LK_TRY(lk_args_combinations(args, &count, err));
	LK_ASSERT(first + count <= all->count);
	for (size_t i = 0; i < count; i++)
		LK_TRY(lk_verb_request(&lk_row_predict, args, i, input, &all->requests[first + i], err));
	return LK_OK;
}

size_t lk_combinations_rows(lk_combinations *all) {
	size_t refused = 0;
	for (size_t i = 0; i < all->count; i++) {
		const lk_error *refusal = all->predictions[i] ? NULL : &all->refusals[i];
		LK_ASSERT(!refusal || refusal->status != LK_OK);
		refused += refusal != NULL;
		all->rows[i] = (lk_sweep_row){all->predictions[i], refusal, &all->requests[i]};
	}
	return refused;
}
