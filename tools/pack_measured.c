/* pack_measured.c: the rows of data/measured: what logs state, one number a row, and the formats
 * that have them. Gauges, units and kinds of memory without a meaning are refused here, tables that
 * are not there by the compiler. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "measured/measured_internal.h"
#include "tools/pack_tables.h"

static const char *const gauges[] = {
#define GAUGE_NAME(symbol, name) name,
	LK_MEASURED_GAUGES(GAUGE_NAME)
#undef GAUGE_NAME
		NULL};
static const char *const gauge_symbols[] = {
#define GAUGE_SYMBOL(symbol, name) #symbol,
	LK_MEASURED_GAUGES(GAUGE_SYMBOL)
#undef GAUGE_SYMBOL
};
static const char *const memory_kinds[] = {"",         "allocated",    "active",
                                           "reserved", "device total", NULL};
static const char *const memory_symbols[] = {"UNSTATED", "ALLOCATED", "ACTIVE", "RESERVED",
                                             "DEVICE"};

/* The last two are LK_UNIT_SAID and LK_UNIT_CLOCK. */
static const char *const unit_names[] = {"",    "s",   "ms", "us",  "B",    "MB",    "GB",
                                         "MiB", "GiB", "%",  "MHz", "said", "clock", NULL};
static const char *const unit_scales[] = {
	"1",    "1",   "1e-3",         "1e-6",         "1", "1e6", "1e9", "0x1p20", "0x1p30",
	"0.01", "1e6", "LK_UNIT_SAID", "LK_UNIT_CLOCK"};

static void put_measured_key(const struct pack_file *file) {
	int gauge = pack_one_of(file, "gauge", gauges), unit = pack_one_of(file, "unit", unit_names);
	const char *detail = pack_cell(file, "detail");
	int memory = gauge == LK_GAUGE_MEMORY ? pack_one_of(file, "detail", memory_kinds) : 0;
	if ((gauge == LK_GAUGE_PART || gauge == LK_GAUGE_MEMORY) != (*detail != '\0'))
		pack_refuse(file, "detail: parts and memory have one, others have none");
	printf("\t{");
	pack_put_text(pack_cell(file, "key"));
	printf(", LK_GAUGE_%s, %s, LK_MEMORY_%s, ", gauge_symbols[gauge], unit_scales[unit],
	       memory_symbols[memory]);
	pack_put_text(gauge == LK_GAUGE_PART ? detail : "");
	printf("},\n");
}

static void put_measured_format(const struct pack_file *file) {
	printf("\t{");
	pack_put_text(pack_cell(file, "name"));
	printf(", {");
	for (const char *at = pack_cell(file, "keys"); *at;) {
		size_t length = strcspn(at, "|");
		printf("lk_measured_keys_%.*s, ", (int)length, at);
		at += length + (at[length] == '|');
	}
	printf("NULL}},\n");
}

static const char *const named[] = {NULL};
static const struct pack_form forms[] = {
	{"key", "lk_measured_key", "lk_measured_", "", "{NULL, LK_GAUGES, 0, LK_MEMORY_UNSTATED, NULL}",
     put_measured_key, PACK_ONCE},
	{"name", "lk_measured_format", "lk_measured_", "", "{NULL, {NULL}}", put_measured_format,
     PACK_ONCE},
	{NULL, NULL, NULL, NULL, NULL, NULL, PACK_ONCE},
};
const struct pack_set pack_measured = {"measured", "#include \"measured/measured_internal.h\"",
                                       named, forms};
