/* lookup_counts.h: where the program runs under callgrind, what it does is counted in place of
 * being timed. */
#ifndef BENCH_LOOKUP_COUNTS_H
#define BENCH_LOOKUP_COUNTS_H

#include <stdbool.h>

/* Whether this is callgrind. It is to be told --instr-atstart=no --cache-sim=yes
 * --callgrind-out-file=FILE, and the program FILE in LOOKUP_COUNTS (bench/lookup_counted.sh does
 * both). */
bool lookup_counts(void);

/* From begin on caches are simulated, empty ones; end forgets them. */
void lookup_counts_begin(void);
void lookup_counts_end(void);

/* Cycles from the last call on, as KCachegrind estimates them: an instruction 1, what the first
 * cache has not 10, what the last has not 100. Ends the program where callgrind's file cannot be
 * read. */
double lookup_counts_cycles(void);

#endif
