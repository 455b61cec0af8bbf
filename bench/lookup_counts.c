/* lookup_counts.c: callgrind tells its counts in files: one is written, read and removed. Without
 * its headers nothing is counted. */
#include "lookup_counts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>

bool lookup_counts(void) {
	return RUNNING_ON_VALGRIND && getenv("LOOKUP_COUNTS");
}

void lookup_counts_begin(void) {
	CALLGRIND_START_INSTRUMENTATION;
	CALLGRIND_ZERO_STATS;
}

void lookup_counts_end(void) {
	CALLGRIND_STOP_INSTRUMENTATION;
}

/* By the names of the line "events:", the numbers of the line "totals:". */
static double cycles_of(char *events, char *totals) {
	static const struct {
		const char *name;
		double cycles;
	} costs[] = {{"Ir", 1},     {"I1mr", 10},  {"D1mr", 10}, {"D1mw", 10},
	             {"ILmr", 100}, {"DLmr", 100}, {"DLmw", 100}};
	double sum = 0;
	char *left, *right, *name = strtok_r(events, " \n", &left),
						*number = strtok_r(totals, " \n", &right);
	for (; name && number;
	     name = strtok_r(NULL, " \n", &left), number = strtok_r(NULL, " \n", &right))
		for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
			if (strcmp(costs[i].name, name) == 0) sum += costs[i].cycles * atof(number);
	return sum;
}

double lookup_counts_cycles(void) {
	static int part;
	char path[4096], line[4096], events[4096] = "", totals[4096] = "";
	CALLGRIND_DUMP_STATS;
	snprintf(path, sizeof path, "%s.%d", getenv("LOOKUP_COUNTS"), ++part);
	FILE *in = fopen(path, "r");
	while (in && fgets(line, sizeof line, in)) {
		if (strncmp(line, "events: ", 8) == 0) strcpy(events, line + 8);
		if (strncmp(line, "totals: ", 8) == 0) strcpy(totals, line + 8);
	}
	if (!*events || !*totals)
		exit(
			(fprintf(
				 stderr,
				 "lookup: %s: no counts of callgrind; run the program by bench/lookup_counted.sh\n",
				 path),
		     2));
	fclose(in);
	remove(path);
	return cycles_of(events, totals);
}
#else
bool lookup_counts(void) {
	return false;
}
void lookup_counts_begin(void) {
}
void lookup_counts_end(void) {
}
double lookup_counts_cycles(void) {
	return 0;
}
#endif
