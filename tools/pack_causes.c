/* pack_causes.c: the rows of data/causes: what may make a run differ from its prediction. Changes
 * that nothing makes, numbers that no job has, and priors that are none are refused here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "predict/predict_internal.h"
#include "tools/pack_tables.h"

static const char *const changes[] = {
#define CHANGE_NAME(symbol, name) name,
	LK_CAUSE_CHANGES(CHANGE_NAME)
#undef CHANGE_NAME
		NULL};
static const char *const change_symbols[] = {
#define CHANGE_SYMBOL(symbol, name) #symbol,
	LK_CAUSE_CHANGES(CHANGE_SYMBOL)
#undef CHANGE_SYMBOL
};

/* Names that the argument of a change may have; NULL: any. */
static const char *const edits[] = {"no_compile", "no_offload",    "fp32_reduce",
                                    "no_nvls",    "deterministic", NULL};
static const char *const faults[] = {"sockets",    "no_links",    "no_peer",
                                     "half_nodes", "shared_tree", NULL};
static const char *const counts[] = {"all_pairs", "parameters", "per_gpu", NULL};
static const char *const numbers[] = {"gpus",       "tp",         "mbs",         "gbs",
                                      "seq",        "unpacked",   "last_layers", "stated_gpus",
                                      "stated_gbs", "stated_seq", NULL};

/* Every {name}, {name/2} or {name*2} of the options. */
static void check_numbers(const struct pack_file *file) {
	for (const char *at = strchr(pack_cell(file, "argument"), '{'); at; at = strchr(at, '{')) {
		size_t length = strcspn(++at, "/*}");
		bool known = false;
		for (int i = 0; numbers[i]; i++)
			known |= strlen(numbers[i]) == length && memcmp(numbers[i], at, length) == 0;
		if (!known || !strchr(at, '}'))
			pack_refuse(file, "argument: unknown number {%.*s}", (int)length, at);
		if (at[length] != '}' && !(strtod(at + length + 1, NULL) > 0))
			pack_refuse(file, "argument: {%.*s} has no factor", (int)length, at);
	}
}

static void put_cause(const struct pack_file *file) {
	int change = pack_one_of(file, "change", changes);
	bool bare = change == LK_CAUSE_ONE_NIC || change == LK_CAUSE_STATED_POWER;
	double prior = strtod(pack_cell(file, "prior"), NULL);
	if (change == LK_CAUSE_JOB) pack_one_of(file, "argument", edits);
	if (change == LK_CAUSE_FAULT) pack_one_of(file, "argument", faults);
	if (change == LK_CAUSE_COUNT) pack_one_of(file, "argument", counts);
	if (change == LK_CAUSE_OPTIONS) check_numbers(file);
	if (bare == (*pack_cell(file, "argument") != '\0'))
		pack_refuse(file, "argument: one_nic and stated_power have none, others have one");
	if (!(prior > 0 && prior <= 0.5)) pack_refuse(file, "prior: a share above 0, at most 0.5");
	if (!*pack_cell(file, "what") || !*pack_cell(file, "check"))
		pack_refuse(file, "what and check: both are needed");
	printf("\t{");
	pack_put_text(pack_cell(file, "cause"));
	printf(", ");
	pack_put_text(pack_cell(file, "family"));
	printf(", %.17g, LK_CAUSE_%s, ", prior, change_symbols[change]);
	pack_put_text(pack_cell(file, "argument"));
	printf(", ");
	pack_put_text(pack_cell(file, "shown"));
	printf(", ");
	pack_put_text(pack_cell(file, "what"));
	printf(", ");
	pack_put_text(pack_text_of(file, "checks", pack_cell(file, "check")));
	printf("},\n");
}

static const char *const named[] = {"checks", NULL};
static const struct pack_form forms[] = {
	{"cause", "lk_cause", "lk_", "", "{NULL, NULL, 0, LK_CAUSE_OPTIONS, NULL, NULL, NULL, NULL}",
     put_cause, PACK_ONCE},
	{NULL, NULL, NULL, NULL, NULL, NULL, PACK_ONCE},
};
const struct pack_set pack_causes = {"causes", "#include \"predict/predict_internal.h\"", named,
                                     forms};
