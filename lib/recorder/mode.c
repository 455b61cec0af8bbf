/* mode.c: the current mode, and the rule of null. */
#include "recorder/recorder.h"

#include <stdlib.h>
#include <string.h>

/* Messages up to this size carry control: losses, flags of overflow, counts of tokens for each
 * expert. Such a collective costs only its latency, so keeping it changes little. */
static const int64_t CONTROL_BYTES = 4096;
/* A collective is let through this often before it is left out: programs share sizes, names and
 * weights before their first step, mostly once each. */
static const uint64_t LET_THROUGH = 2;

lp_mode_setting lp_mode = {.rank = -1};

bool lp_null_skips(lk_comm_what what, int64_t bytes, uint64_t before) {
	switch (what) {
	case LK_WHAT_ALLREDUCE:
	case LK_WHAT_REDUCE:
	case LK_WHAT_ALLGATHER:
	case LK_WHAT_GATHER:
	case LK_WHAT_REDUCESCATTER:
	case LK_WHAT_ALLTOALL: return bytes > CONTROL_BYTES && before >= LET_THROUGH;
	default: return false;
	}
}

static int parse_small_number(const char *text, int otherwise) {
	char *end;
	long value = text ? strtol(text, &end, 10) : 0;
	return text && *text && !*end && value >= 0 && value <= INT32_MAX ? (int)value : otherwise;
}

void lp_mode_read(void) {
	static const char *const names[] = {"record", "null", "as-rank"};
	const char *name = getenv("LOCKSTEP_RECORD_MODE"), *fill = getenv("LOCKSTEP_RECORD_FILL");
	for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
		if (strcmp(name, names[i]) == 0) lp_mode.kind = (lp_mode_kind)i;
	lp_mode.rank = parse_small_number(getenv("LOCKSTEP_RECORD_RANK"), -1);
	lp_mode.world = parse_small_number(getenv("LOCKSTEP_RECORD_WORLD"), 0);
	lp_mode.node = parse_small_number(getenv("LOCKSTEP_RECORD_NODE"), 0);
	if (fill && strlen(fill) < sizeof lp_mode.fill) strcpy(lp_mode.fill, fill);
}
