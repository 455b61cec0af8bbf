/* probe_read.c: what the probe adds to a read: reads of one byte at changing places of a cached
 * file, so that each call costs as little as a call can and joins the record before. Time of the
 * processor, which other programs do not lengthen.
 *
 *     cc -O2 -o probe_read bench/probe_read.c
 *     for i in 1 2 3 4 5; do ./probe_read /etc/passwd; lockstep record --out r$i -- ./probe_read
 *         /etc/passwd; done */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
	READS = 200000,
	ROUNDS = 9
};

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
	int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;
	double round[ROUNDS];
	char byte;
	if (fd < 0) return fprintf(stderr, "usage: probe_read FILE\n"), 2;
	for (int k = 0; k < ROUNDS; k++) {
		double begin = now();
		for (int i = 0; i < READS; i++)
			if (pread(fd, &byte, 1, i % 64) != 1) return 1;
		round[k] = (now() - begin) / READS;
	}
	qsort(round, ROUNDS, sizeof *round, ascending);
	printf("%.1f ns a read (median of %d rounds), %.1f at least\n", round[ROUNDS / 2], ROUNDS,
	       round[0]);
	return 0;
}
