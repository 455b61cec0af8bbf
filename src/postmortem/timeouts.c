/* timeouts.c: what PyTorch's watchdog writes into the logs of ranks whose collective timed out:
 *
 *   [rank3]:[E... ProcessGroupNCCL.cpp:632] [PG ID 2 PG GUID 5(tp) Rank 1] Watchdog caught
 *   collective operation timeout: WorkNCCL(SeqNum=117, OpType=ALLREDUCE, NumelIn=8, NumelOut=8,
 *   Timeout(ms)=600000) ran for 600021 milliseconds before timing out.
 *
 * Each rank names the first collective that it waits in, so a rank that names an earlier one than
 * others is late, and one of whom the log has lines but no message did not wait at all. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "oom/oom.h"
#include "postmortem/postmortem.h"

enum {
	MESSAGES = 1 << 14, /* of which repeated ones are looked for among all */
	LINE = 2000,
	WORD = 200
};

static const char caught[] = "Watchdog caught collective operation timeout: WorkNCCL(";

bool lk_mortem_has_timeouts(const char *text, size_t size) {
	return memmem(text, size, caught, sizeof caught - 1) != NULL;
}

/* The text after `key` up to one of `ends`; "" where there is none. */
static void word_after(const char *line, const char *key, const char *ends, char out[WORD]) {
	const char *at = strstr(line, key);
	*out = '\0';
	if (!at) return;
	at += strlen(key);
	size_t length = strcspn(at, ends);
	lk_copy(out, length < WORD ? length + 1 : WORD, at);
}

/* The group of "PG ID 2 PG GUID 5(tp) Rank 1", "PG 2 (tp) Rank 1" or "Rank 1". */
static lk_hang_group *group_of_line(lk_hang *hang, const char *line) {
	char words[WORD];
	word_after(line, "PG GUID ", "]", words);
	if (!*words) word_after(line, "[PG ", "]", words);
	if (!*words) return lk_hang_group_named(hang, "0", "default_pg");
	char *open = strchr(words, '('), *close = open ? strchr(open, ')') : NULL;
	if (close) *close = '\0';
	words[strcspn(words, " (")] = '\0';
	return lk_hang_group_named(hang, words, close ? open + 1 : "");
}

static bool is_new(const lk_hang *hang, const lk_hang_call *call) {
	for (size_t i = 0; i < hang->calls.count; i++) {
		const lk_hang_call *old = &hang->calls.at[i];
		if (old->rank == call->rank && old->group == call->group && old->sequence == call->sequence)
			return false;
	}
	return true;
}

static bool add_timeout(lk_hang *hang, const char *line, const char *work, int rank) {
	char word[WORD], shape[WORD];
	const char *end;
	lk_hang_group *group = group_of_line(hang, line);
	lk_hang_call call = {.rank = rank, .from = -1, .to = -1};
	if (!group) return false;
	call.group = (uint32_t)(group - hang->groups.at);
	word_after(work, "SeqNum=", ",)", word);
	call.sequence = *word ? (int64_t)fmin(lk_read_real(word, &end), 1e15) : -1;
	word_after(work, "Timeout(ms)=", ",)", word);
	call.timeout_ms = *word ? lk_read_real(word, &end) : NAN;
	word_after(work, "NumelIn=", ",)", word);
	snprintf(shape, sizeof shape, "%s%.180s", *word ? "elements " : "", word);
	word_after(work, "OpType=", ",)", word);
	for (char *at = word; *at; at++) *at = (char)tolower((unsigned char)*at);
	call.operation = lk_intern_id(hang->texts, word);
	call.shape = lk_intern_id(hang->texts, strstr(word, "toall") ? "" : shape);
	if (call.operation == UINT32_MAX || call.shape == UINT32_MAX) return false;
	if (!is_new(hang, &call)) return true;
	if (!lk_push(&hang->calls)) return false;
	*lk_last(&hang->calls) = call;
	return true;
}

/* The rank of the line's prefix, or the one in the watchdog's brackets, which is the group's. */
static int rank_of_line(const char *line, const char *path) {
	char word[WORD];
	int rank = lk_line_rank(line, line + strlen(line));
	if (rank >= 0) return rank;
	rank = lk_mortem_rank_of(path, false);
	word_after(line, "Rank ", "]", word);
	return rank < 0 && lk_is_digit(*word) ? atoi(word) % LK_HANG_RANKS : rank;
}

static bool read_line(lk_hang *hang, const char *line, const char *path) {
	const char *work = strstr(line, caught);
	bool prefixed = lk_begins_with(line, "[rank") || lk_begins_with(line, "[default");
	if (!work && !prefixed) return true;
	int rank = rank_of_line(line, path);
	if (rank < 0) return true;
	if (rank >= hang->world) hang->world = rank + 1;
	/* lines of a rank mostly follow one another */
	if (!hang->dumped.count || *lk_last(&hang->dumped) != rank)
		if (!lk_ranks_add(&hang->dumped, rank)) return false;
	if (!work || hang->calls.count >= MESSAGES) return true;
	return add_timeout(hang, line, work + sizeof caught - 1, rank);
}

static lk_status read_log(lk_hang *hang, const lk_mortem_file *file, lk_error *err) {
	char line[LINE];
	for (const char *at = file->text, *end = at + file->size, *next; at < end; at = next) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		next = stop ? stop + 1 : end;
		size_t length = (size_t)((stop ? stop : end) - at);
		lk_copy(line, length < LINE ? length + 1 : LINE, at);
		if (!read_line(hang, line, file->path)) return lk_oom(err);
	}
	return LK_OK;
}

/* The default group has the ranks of which the log has lines. */
static bool describe_default(lk_hang *hang) {
	for (size_t i = 0; i < hang->groups.count; i++) {
		lk_hang_group *group = &hang->groups.at[i];
		if (!strstr(lk_intern_text(hang->texts, group->name), "default_pg")) continue;
		group->described = true;
		for (size_t k = 0; k < hang->dumped.count; k++)
			if (!lk_hang_member(hang, group, hang->dumped.at[k])) return false;
	}
	return true;
}

lk_status lk_mortem_timeouts(lk_mortem *work, const lk_mortem_file *files, size_t count,
                             lk_error *err) {
	lk_hang hang = {.work = work, .texts = lk_intern_new(), .timeouts = true};
	lk_status status = hang.texts ? LK_OK : lk_oom(err);
	for (size_t i = 0; i < count && status == LK_OK; i++) {
		lk_mortem_file file = files[i];
		status = lk_mortem_load(&hang.scratch, &file, err);
		if (status == LK_OK) status = read_log(&hang, &file, err);
		lk_arena_free(&hang.scratch);
	}
	if (status == LK_OK && !describe_default(&hang)) status = lk_oom(err);
	if (status == LK_OK) status = lk_hang_find(&hang, err);
	lk_hang_free(&hang);
	return status;
}
