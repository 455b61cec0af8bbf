/* remedies.c: what would free memory, from what was held. Each remedy is a row: of whose bytes it
 * frees at most how many. Whether that is enough is said where the failed allocation is known. */
#include <math.h>
#include <string.h>

#include "base/sort.h"
#include "postmortem/postmortem.h"

/* Smaller parts of what is reserved are not worth a change. */
static const double WORTH = 0.02;

struct remedy_row {
	size_t bytes;      /* offset of what it frees in the row of memory; 0: of a kind */
	lk_held_kind kind; /* whose bytes it frees, where bytes is 0 */
	double part;       /* of them, at most */
	bool unless_expandable;
	const char *change, *why;
};

#define MEMORY(member) offsetof(lk_postmortem_memory, member)
/* Of snapshots and of messages. */
static const struct remedy_row rows[] = {
	{MEMORY(stranded_bytes), 0, 1, true, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
     "free parts of segments in use cannot be given back or joined; segments that grow have none"},
	{MEMORY(others_bytes), 0, 1, false, "end the other processes on the device",
     "other processes hold memory of the device"},
	{0, LK_HELD_ACTIVATIONS, 1, false, "activation recomputation",
     "keeps the inputs of layers and computes the rest again in the backward pass"},
	{0, LK_HELD_ACTIVATIONS, 0.5, false, "half the micro-batch, twice the accumulation steps",
     "activations are proportional to the micro-batch"},
	{0, LK_HELD_OPTIMIZER, 1, false, "shard the optimizer states (FSDP, ZeRO 1)",
     "each of N data-parallel ranks then holds 1/N of them"},
	{0, LK_HELD_GRADIENTS, 1, false, "shard the gradients (FSDP, ZeRO 2)",
     "each of N data-parallel ranks then holds 1/N of them"},
	{0, LK_HELD_PARAMETERS, 1, false, "shard the parameters (FSDP, ZeRO 3, tensor parallelism)",
     "each of N ranks then holds 1/N of them"},
	{0, LK_HELD_OPTIMIZER_WORK, 1, false, "a fused optimizer, or foreach=False",
     "foreach optimizers allocate temporary tensors of the size of all parameters"},
};

/* Of a message, which does not say who held what: the last row is there whatever the numbers. */
static const struct remedy_row message_rows[] = {
	{0, LK_HELD_ACTIVATIONS, NAN, false, "a smaller micro-batch, or activation recomputation",
     "a memory snapshot says how much: torch.cuda.memory._dump_snapshot() when it fails"},
};

static double kind_bytes(const lk_mortem *work, const lk_postmortem_memory *memory,
                         lk_held_kind kind) {
	for (size_t i = 0; i < work->kinds.count; i++) {
		const lk_postmortem_holder *held = &work->kinds.at[i];
		if (held->rank == memory->rank && held->device == memory->device &&
		    strcmp(held->kind, lk_held_names[kind]) == 0)
			return held->bytes;
	}
	return 0;
}

static int is_enough(const lk_postmortem_memory *memory, double frees) {
	double needs = memory->requested_bytes - memory->free_bytes;
	return isnan(frees) || isnan(needs) ? -1 : frees >= needs;
}

static lk_status add_row(lk_mortem *work, const lk_postmortem_memory *memory,
                         const struct remedy_row *row, lk_error *err) {
	double bytes = row->bytes ? *(const double *)(const void *)((const char *)memory + row->bytes)
	                          : kind_bytes(work, memory, row->kind);
	double frees = row->part * bytes;
	if (row->unless_expandable && memory->expandable) return LK_OK;
	if (!isnan(row->part) && !(frees > WORTH * memory->reserved_bytes && frees > 0)) return LK_OK;
	if (!lk_push(&work->remedies)) return lk_oom(err);
	*lk_last(&work->remedies) = (lk_postmortem_remedy){
		memory->rank, memory->device, row->change, row->why, frees, is_enough(memory, frees)};
	return LK_OK;
}

/* Sufficient ones first, then by what they free. */
static int remedies_best_first(const void *a, const void *b) {
	const lk_postmortem_remedy *x = a, *y = b;
	if (x->enough != y->enough) return x->enough > y->enough ? -1 : 1;
	return (x->frees_bytes < y->frees_bytes) - (x->frees_bytes > y->frees_bytes);
}

lk_status lk_mortem_remedies(lk_mortem *work, lk_error *err) {
	const lk_postmortem_memory *memory = lk_last(&work->memory);
	size_t first = work->remedies.count;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		LK_TRY(add_row(work, memory, &rows[i], err));
	lk_sort(work->remedies.at + first, work->remedies.count - first, sizeof *work->remedies.at,
	        remedies_best_first);
	for (size_t i = 0; !memory->moment && i < sizeof message_rows / sizeof *message_rows; i++)
		LK_TRY(add_row(work, memory, &message_rows[i], err));
	return LK_OK;
}
