/* collective.h: how long a collective takes, size by size, as nccl-tests would print it; and beside
 * it what they did print.
 *
 *     lk_collective_request request;
 *     lk_collective_defaults(&request);
 *     request.gpu = "h100-sxm", request.gpus = 64;
 *     lk_collective *answer;
 *     lk_error err;
 *     if (lk_collective_ask(&request, &answer, &err) != LK_OK) ...
 *     lk_collective_print(answer, LK_OUTPUT_TEXT, false, NULL, stdout, &err);
 *     lk_collective_free(answer); */
#ifndef LOCKSTEP_COLLECTIVE_H
#define LOCKSTEP_COLLECTIVE_H

#include <stdbool.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who runs the collective, in the order of the option's choices. */
enum { LK_LIBRARY_NCCL, LK_LIBRARY_MPI, LK_LIBRARY_GLOO };

/* The request. Texts are borrowed; NULL and 0 mean "not given". */
typedef struct lk_collective_request {
	const char *log; /* output of nccl-tests to compare with; "-" standard input; NULL none */
	int op; /* 0 not given (all_reduce, or as in the log); all_reduce, all_gather, reduce_scatter,
	           all_to_all, broadcast, reduce, send_recv */
	const char *gpu;         /* name in the catalogue; of a log: as in it */
	const char *cluster;     /* instead: text, .json or NCCL's .xml */
	int gpus;                /* ranks; of a cluster: all, of a log: as in it */
	const char *begin, *end; /* sizes, as nccl-tests read them: 8, 4K, 16G (powers of 1024) */
	double factor;           /* from one size to the next */
	const char *step;        /* instead: bytes to add */
	int sharing;             /* groups that share the NICs of a node */
	int library;             /* LK_LIBRARY_NCCL, ... */
	const char *nccl; /* release and environment of NCCL: "2.21 NCCL_ALGO=Ring"; NULL nothing set */
	const char *fabric;      /* a calibrated fabric whose numbers apply; NULL: the default ones */
	const char *calibration; /* a file of `lockstep calibrate`, on top of the built-in one */
} lk_collective_request;

/* One size. */
typedef struct lk_collective_row {
	double bytes, count;      /* as nccl-tests have them: elements of 4 bytes */
	double us, algbw, busbw;  /* predicted; GB/s */
	double low_us, high_us;   /* 80 % range of the time; NAN for mpi and gloo, which have none */
	const char *algo, *proto; /* "Ring", "LL128"; "" where there is no protocol */
	int channels;
	const char *limit; /* what bounds it: "latency", "links", "NICs", "network" */
	/* of the log; NAN and "" without one */
	double measured_us, measured_busbw;
	double ratio;     /* measured / predicted */
	const char *flag; /* "falls": twice the size is faster. "slow": far above the model */
} lk_collective_row;

/* All sizes of one collective on one cluster. */
typedef struct lk_collective {
	const char *op, *library, *cluster, *fabric, *log;
	const char *gpu; /* of its nodes, as data sheets name it */
	int gpus, nodes;
	const lk_collective_row *rows;
	int row_count;
	const char *const *
		notes; /* what is remarkable, in sentences; first what the numbers and the ranges rest on */
	int note_count;
	double mean_busbw;        /* GB/s, predicted */
	double error;             /* exp(mean |ln ratio|) - 1; NAN without a log */
	const char *failed_check; /* of its own consistency, which failed; NULL: none did */
	void *memory_owner;
} lk_collective;

/* Sets every field to what holds where nothing is said. Call it first, then set fields: they may
 * become more. */
void lk_collective_defaults(lk_collective_request *request);

/* Predicts every size; of a log, the sizes of its runs, which must be of one test on one number of
 * GPUs. LK_ERR_INPUT: a device, a cluster, sizes or a log that are wrong; LK_ERR_IO; LK_ERR_MEMORY.
 */
lk_status lk_collective_ask(const lk_collective_request *request, lk_collective **out,
                            lk_error *err);
/* Frees an answer with all that it points to; accepts NULL. */
void lk_collective_free(lk_collective *collective);

/* The formats of lk_collective_print: those of lk_output (view.h), then the output of nccl-tests.
 */
enum { LK_COLLECTIVE_NCCL_TESTS = 6 };
extern const char *const lk_collective_formats[];

/* To `path` where it is not NULL, else to `out`. Text looks like nccl-tests' own, with what NCCL
 * chooses; NCCL_TESTS are their lines and columns exactly, which they and programs for their logs
 * print and read. LK_ERR_INPUT for a format without its path; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_collective_print(const lk_collective *collective, int format, bool colour,
                              const char *path, FILE *out, lk_error *err);

/* The verb's option table: parsing, help, man page and completion come from it (options.h). */
extern const lk_verb lk_collective_verb;

#ifdef __cplusplus
}
#endif
#endif
