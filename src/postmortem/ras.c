/* ras.c: the text that NCCL's RAS client prints (ncclras, NCCL 2.24 and later): sections that begin
 * with "#GROUP-COMMUNICATOR (HASH) STATUS" and list counts of operations, ranks that differ from
 * most, and processes that do not answer. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "postmortem/postmortem.h"

enum { LINE = 400, SECTIONS = 4096 };

struct section {
	char title[120], operation[60];
	char behind[400]; /* ranks that launched fewer operations */
	char gone[400];   /* processes that do not answer */
	long long most, least, current;
	int ranks; /* of those counted */
};

static void text_append(char *list, size_t size, const char *format, ...) LK_PRINTF(3, 4);
static void text_append(char *list, size_t size, const char *format, ...) {
	size_t used = strlen(list);
	va_list args;
	if (used + 2 >= size) return;
	if (used) used += (size_t)snprintf(list + used, size - used, ", ");
	va_start(args, format);
	if (used < size) vsnprintf(list + used, size - used, format, args);
	va_end(args);
}

static void count_operations(struct section *section, int ranks, long long operation) {
	if (operation > section->most) section->most = operation;
	if (section->least < 0 || operation < section->least) section->least = operation;
	section->current = operation;
	section->ranks += ranks;
}

/* One line of a section, without the blanks before it. */
static void ras_read_line(struct section *section, const char *line) {
	int rank, count;
	long long operation;
	char word[60], node[80], gpu[20];
	if (sscanf(line, "Communicator ranks have different %59s operation counts", word) == 1 &&
	    strcmp(word, "collective") != 0)
		lk_copy(section->operation, sizeof section->operation, word);
	if (sscanf(line, "%d ranks have launched up to operation %lld", &count, &operation) == 2 ||
	    sscanf(line, "%d rank has launched up to operation %lld", &count, &operation) == 2)
		count_operations(section, count, operation);
	else if (sscanf(line, "%d ranks have not launched any operation%1[s]", &count, word) == 2)
		count_operations(section, count, 0);
	else if (sscanf(line, "Rank %d has launched up to operation %lld", &rank, &operation) == 2) {
		count_operations(section, 1, operation);
		if (operation < section->most)
			text_append(section->behind, sizeof section->behind, "%d", rank);
	} else if (sscanf(line, "Rank %d -- GPU %19s", &rank, gpu) == 2 &&
	           section->current < section->most)
		text_append(section->behind, sizeof section->behind, "%d", rank);
	if (sscanf(line, "Process %d on node %79s managing GPU %19s", &rank, node, gpu) == 3)
		text_append(section->gone, sizeof section->gone, "GPU %s of %s (process %d)", gpu, node,
		            rank);
}

static lk_status end_section(lk_mortem *work, struct section *section, lk_error *err) {
	lk_arena *arena = &work->arena;
	bool gone = *section->gone, behind = section->least >= 0 && section->most > section->least;
	struct section ended = *section;
	if (!*ended.operation) lk_copy(ended.operation, sizeof ended.operation, "operation");
	*section = (struct section){.least = -1};
	if ((!gone && !behind) || work->collectives.count >= SECTIONS) return LK_OK;
	if (!lk_push(&work->collectives)) return lk_oom(err);
	lk_postmortem_collective *row = lk_last(&work->collectives);
	const char *last = "";
	if (behind) last = lk_arena_printf(arena, "operation %lld", ended.least);
	*row = (lk_postmortem_collective){.problem = "not entered",
	                                  .root = true,
	                                  .group = lk_arena_strdup(arena, ended.title),
	                                  .operation = lk_arena_strdup(arena, ended.operation),
	                                  .sequence = behind ? ended.most : -1,
	                                  .group_size = ended.ranks,
	                                  .entered = "",
	                                  .absent = lk_arena_strdup(arena, ended.behind),
	                                  .silent = lk_arena_strdup(arena, ended.gone),
	                                  .shape = "",
	                                  .differing = "",
	                                  .where = "",
	                                  .absent_last = last,
	                                  .since_unix_s = NAN,
	                                  .spread_s = NAN,
	                                  .timeout_s = NAN};
	if (gone) row->problem = "unreachable";
	return row->group && row->operation && row->absent && row->silent && row->absent_last
	           ? LK_OK
	           : lk_oom(err);
}

static lk_status say_ras(lk_mortem *work, lk_error *err) {
	const lk_postmortem_collective *row = work->collectives.count ? work->collectives.at : NULL;
	for (size_t i = 0; i < work->collectives.count && !*row->silent; i++)
		if (*work->collectives.at[i].silent) row = &work->collectives.at[i];
	work->result.cause = row ? "hang" : "none";
	work->result.missing = "";
	lk_arena *arena = &work->arena;
	if (!row)
		work->result.diagnosis = "NCCL's RAS reports no communicator whose ranks differ and no "
								 "process that does not answer.";
	else if (*row->silent)
		work->result.diagnosis =
			lk_arena_printf(arena,
		                    "Processes do not answer (%s): %s. Look at their nodes: they died, or "
		                    "their host is stuck.",
		                    row->group, row->silent);
	else
		work->result.diagnosis = lk_arena_printf(
			arena,
			"In communicator %s some ranks (%s) launched up to %s, the others up to %lld. If a "
			"second query some seconds later shows the same numbers, it hangs, and these ranks are "
			"what the others wait for.",
			row->group, *row->absent ? row->absent : "not listed", row->absent_last,
			(long long)row->sequence);
	return work->result.diagnosis ? LK_OK : lk_oom(err);
}

lk_status lk_mortem_ras(lk_mortem *work, const lk_mortem_file *file, lk_error *err) {
	struct section section = {.least = -1};
	for (const char *at = file->text, *end = at + file->size, *next; at < end; at = next) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		char line[LINE];
		next = stop ? stop + 1 : end;
		while (at < next && (*at == ' ' || *at == '\t')) at++;
		snprintf(line, sizeof line, "%.*s", (int)(next - at > LINE ? LINE : next - at), at);
		line[strcspn(line, "\r\n")] = '\0';
		bool begins = *line == '#' && strchr(line, '(') && lk_is_digit(line[1]);
		if (begins || strcmp(line, "DEAD") == 0 || strcmp(line, "INCOMPLETE") == 0) {
			LK_TRY(end_section(work, &section, err));
			char *closing = strchr(line, ')');
			if (closing) closing[1] = '\0';
			lk_copy(section.title, sizeof section.title, begins ? line : "of the job");
		} else ras_read_line(&section, line);
	}
	LK_TRY(end_section(work, &section, err));
	return say_ras(work, err);
}
