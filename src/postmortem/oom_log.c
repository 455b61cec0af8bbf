/* oom_log.c: messages of memory that ran out, in a log of one or many ranks: a row of memory for
 * each that says something new. What one rank prints twice (its traceback, its launcher's summary)
 * is one. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "oom/oom.h"
#include "postmortem/postmortem.h"

enum { MESSAGES = 4096 };

static bool same_number(double a, double b) {
	return a == b || (isnan(a) && isnan(b));
}

/* A summary may repeat a message without the rank's prefix. */
static bool is_repeated(const lk_mortem *work, const lk_postmortem_memory *new_row) {
	for (size_t i = 0; i < work->memory.count; i++) {
		const lk_postmortem_memory *old = &work->memory.at[i];
		if ((old->rank == new_row->rank || new_row->rank < 0) && old->device == new_row->device &&
		    old->source == new_row->source &&
		    same_number(old->requested_bytes, new_row->requested_bytes) &&
		    same_number(old->free_bytes, new_row->free_bytes) &&
		    same_number(old->allocated_bytes, new_row->allocated_bytes))
			return true;
	}
	return false;
}

static lk_postmortem_memory memory_of(lk_oom_text *found) {
	static const char *const sources[] = {
		[LK_OOM_ALLOCATOR] = "message", [LK_OOM_DRIVER] = "driver", [LK_OOM_HOST] = "host"};
	bool host = found->source == LK_OOM_HOST;
	if (host) found->allocated = found->reserved = found->in_use;
	double unused = found->reserved - found->allocated;
	return (lk_postmortem_memory){
		.rank = found->rank,
		.device = found->device,
		.source = sources[found->source],
		.requested_bytes = found->requested,
		.total_bytes = found->total,
		.free_bytes = found->free,
		.allocated_bytes = found->allocated,
		.tensor_bytes = NAN,
		.reserved_bytes = found->reserved,
		.reserved_peak_bytes = NAN,
		.unused_bytes = unused,
		.stranded_bytes = unused,
		.largest_free_bytes = NAN,
		.pending_bytes = NAN,
		.private_bytes = found->private_pools,
		.allowed_bytes = found->allowed,
		.outside_bytes = host ? NAN : found->in_use - found->reserved,
		.others_bytes = found->others,
		.peak_bytes = NAN,
		.held_bytes = NAN,
		.moment_s = NAN,
	};
}

lk_status lk_mortem_log(lk_mortem *work, const lk_mortem_file *file, lk_error *err) {
	lk_oom_text found;
	size_t at = 0;
	while (lk_oom_next(file->text, file->size, &at, &found)) {
		lk_postmortem_memory memory = memory_of(&found);
		if (memory.rank < 0) memory.rank = lk_mortem_rank_of(file->path, false);
		if (is_repeated(work, &memory)) continue;
		if (work->memory.count >= MESSAGES)
			return lk_mortem_warn(work, err, "only the first %d messages are shown", MESSAGES);
		if (!lk_push(&work->memory)) return lk_oom(err);
		*lk_last(&work->memory) = memory;
		if (found.source == LK_OOM_ALLOCATOR) LK_TRY(lk_mortem_remedies(work, err));
	}
	return LK_OK;
}

/* ---- in words ---- */

static void add_bytes(lk_text *text, const char *before, double bytes, const char *after) {
	char number[32];
	if (!isnan(bytes))
		lk_text_add(text, "%s%s%s", before, lk_format_bytes(bytes, number, sizeof number), after);
}

static void add_who(lk_text *text, const lk_postmortem_memory *memory) {
	if (memory->rank >= 0) lk_text_add(text, "Rank %d", memory->rank);
	if (memory->device >= 0)
		lk_text_add(text, "%s %d", memory->rank >= 0 ? ", GPU" : "GPU", memory->device);
	if (memory->rank < 0 && memory->device < 0)
		lk_text_add(text, strcmp(memory->source, "host") == 0 ? "The host" : "A device");
}

/* Unused memory that is larger than the request and yet did not serve it. */
static void add_fragmentation(lk_text *text, const lk_postmortem_memory *memory) {
	double could = memory->unused_bytes + (isnan(memory->free_bytes) ? 0 : memory->free_bytes);
	bool fits = could >= memory->requested_bytes;
	add_bytes(text, " ", memory->unused_bytes, " are reserved but unused");
	if (isnan(memory->unused_bytes)) return;
	if (!isnan(memory->largest_free_bytes))
		add_bytes(text, ", the largest free block has ", memory->largest_free_bytes, "");
	lk_text_add(text, fits && !(memory->largest_free_bytes >= memory->requested_bytes)
	                      ? ": fragmentation, not size, made it fail."
	                      : ".");
}

static void add_cause(lk_text *text, const lk_postmortem_memory *memory) {
	add_who(text, memory);
	if (strcmp(memory->source, "host") == 0) {
		lk_text_add(text, " ran out of memory of the host");
		add_bytes(text, ": the kernel killed a process of ", memory->allocated_bytes, "");
		lk_text_add(text, ".");
		return;
	}
	if (strcmp(memory->source, "driver") == 0) {
		lk_text_add(text, " ran out of memory outside of PyTorch's allocator (context, NCCL, "
		                  "cuBLAS): leave room with set_per_process_memory_fraction.");
		return;
	}
	bool failed = !isnan(memory->requested_bytes);
	if (failed) {
		add_bytes(text, " ran out of memory: ", memory->requested_bytes, " were requested");
		add_bytes(text, ", ", memory->free_bytes, " were free");
		add_bytes(text, " of ", memory->total_bytes, "");
		lk_text_add(text, ".");
	} else {
		add_bytes(text, " holds ", memory->allocated_bytes, " in tensors");
		add_bytes(text, ", of ", memory->reserved_bytes, " reserved.");
	}
	add_fragmentation(text, memory);
	add_bytes(text, " Other processes hold ", memory->others_bytes, ".");
}

/* The rank that lacked most is the one that the sentences are about. */
static const lk_postmortem_memory *worst_memory(const lk_mortem *work) {
	const lk_postmortem_memory *worst = &work->memory.at[0];
	for (size_t i = 1; i < work->memory.count; i++) {
		const lk_postmortem_memory *row = &work->memory.at[i];
		bool failed = !isnan(row->requested_bytes), before = !isnan(worst->requested_bytes);
		if (failed > before || (failed == before && row->reserved_bytes > worst->reserved_bytes))
			worst = row;
	}
	return worst;
}

static void add_kinds_held(lk_text *text, const lk_mortem *work,
                           const lk_postmortem_memory *memory) {
	int said = 0;
	for (size_t i = 0; i < work->kinds.count && said < 2; i++) {
		const lk_postmortem_holder *kind = &work->kinds.at[i];
		if (kind->rank != memory->rank || kind->device != memory->device) continue;
		char number[32];
		lk_text_add(text, "%s%s %s (%.0f %%)", said++ ? ", then " : " Most was held by ",
		            kind->kind, lk_format_bytes(kind->bytes, number, sizeof number),
		            100 * kind->share);
	}
	if (said) lk_text_add(text, ".");
}

static bool has_failed(const lk_postmortem_memory *memory) {
	return !isnan(memory->requested_bytes) || strcmp(memory->source, "memory snapshot") != 0;
}

/* The ranks that failed, in the order of the log, each once; of one alone the rest has said it. */
static void add_failed_ranks(lk_text *text, const lk_mortem *work, int failures) {
	int said = 0;
	for (size_t i = 0; i < work->memory.count && failures > 1; i++) {
		const lk_postmortem_memory *memory = &work->memory.at[i];
		bool again = memory->rank < 0 || !has_failed(memory);
		for (size_t k = 0; k < i && !again; k++)
			again = work->memory.at[k].rank == memory->rank && has_failed(&work->memory.at[k]);
		if (again || said > 64) continue;
		lk_text_add(text, "%s%d", said++ ? ", " : " Ranks that ran out of memory: ", memory->rank);
	}
	if (said) lk_text_add(text, "%s.", said > 64 ? " ..." : "");
	else if (failures > 1) lk_text_add(text, " %d messages in all.", failures);
}

lk_status lk_mortem_diagnose_memory(lk_mortem *work, lk_error *err) {
	char line[900];
	lk_text text = lk_text_begin(line, sizeof line);
	int failures = 0;
	for (size_t i = 0; i < work->memory.count; i++) failures += has_failed(&work->memory.at[i]);
	work->result.cause = failures ? "out of memory" : "memory";
	const lk_postmortem_memory *worst = worst_memory(work);
	add_cause(&text, worst);
	add_kinds_held(&text, work, worst);
	add_failed_ranks(&text, work, failures);
	work->result.diagnosis = lk_arena_strdup(&work->arena, line);
	return work->result.diagnosis ? LK_OK : lk_oom(err);
}
