/* probe_calls.c: what the probe adds to a call: calls that take as little as calls can, each timed
 * by the processor's counter. The median of a kind is printed, in ns a call; what one takes more
 * under `lockstep record` is what the probe adds to it.
 *
 *     mpicc -O2 -o probe_calls bench/probe_calls.c
 *     for i in 1 2 3 4 5; do ./probe_calls; lockstep record --out r$i -- ./probe_calls; done */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { CALLS = 20000 };
static unsigned long long taken[CALLS];
static int file, nowhere;
static char byte;

static int ascending(const void *a, const void *b) {
	unsigned long long x = *(const unsigned long long *)a, y = *(const unsigned long long *)b;
	return (x > y) - (x < y);
}

static void read_byte(int i) {
	if (pread(file, &byte, 1, i * 7919LL % 1500) < 0) abort();
}

static void write_byte(int i) {
	byte = (char)i;
	if (write(nowhere, &byte, 1) < 0) abort();
}

static void open_and_close(int i) {
	(void)i;
	close(open("/etc/passwd", O_RDONLY));
}

static void exchange(int i) {
	int got;
	MPI_Sendrecv(&i, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

static void reduce(int i) {
	int sum;
	MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
}

static void post_and_wait(int i) {
	int got;
	MPI_Request request[2];
	MPI_Irecv(&got, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &request[0]);
	MPI_Isend(&i, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &request[1]);
	MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
}

static double counts_per_ns(void) {
	struct timespec begin, end;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	unsigned long long from = __rdtsc();
	usleep(100000);
	unsigned long long to = __rdtsc();
	clock_gettime(CLOCK_MONOTONIC, &end);
	return (double)(to - from) /
	       ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec));
}

int main(int count, char **words) {
	static const struct {
		const char *name;
		void (*run)(int);
		int calls;
	} kinds[] = {{"pread", read_byte, 1},
	             {"write", write_byte, 1},
	             {"open, close", open_and_close, 2},
	             {"MPI_Sendrecv", exchange, 1},
	             {"MPI_Allreduce", reduce, 1},
	             {"Irecv, Isend, Waitall", post_and_wait, 3}};
	MPI_Init(&count, &words);
	file = open("/etc/passwd", O_RDONLY), nowhere = open("/dev/null", O_WRONLY);
	double rate = counts_per_ns();
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
		for (int i = 0; i < CALLS; i++) {
			unsigned long long begin = __rdtsc();
			kinds[k].run(i);
			taken[i] = __rdtsc() - begin;
		}
		qsort(taken, CALLS, sizeof *taken, ascending);
		printf("%-22s %6.0f ns a call\n", kinds[k].name,
		       (double)taken[CALLS / 2] / rate / kinds[k].calls);
	}
	MPI_Finalize();
	return 0;
}
