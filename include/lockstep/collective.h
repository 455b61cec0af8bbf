/* collective.h: the duration of a collective by size, in the form of nccl-tests, and compared with
 * their output.
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
	const char *log; /* output of nccl-tests to compare with; "-" standard input; NULL: none */
	int op; /* 0: not given (all_reduce, or the log's); all_reduce, all_gather, reduce_scatter,
	           all_to_all, broadcast, reduce, send_recv */
	const char *gpu;         /* catalogue name; default with a log: its GPU */
	const char *cluster;     /* alternative: text, .json or NCCL's .xml */
	int gpus;                /* ranks; default: all of a cluster, or the log's */
	const char *begin, *end; /* sizes in the notation of nccl-tests: 8, 4K, 16G (powers of 1024) */
	double factor;           /* from one size to the next */
	const char *step;        /* alternative: bytes to add */
	int sharing;             /* groups that share the NICs of a node */
	int library;             /* LK_LIBRARY_NCCL, ... */
	const char *nccl;   /* release and environment of NCCL: "2.21 NCCL_ALGO=Ring"; NULL: default */
	const char *fabric; /* a calibrated fabric whose numbers apply; NULL: the default fabric */
	const char *calibration; /* a file of `lockstep calibrate`, which overrides the built-in one */
} lk_collective_request;

/* One size. */
typedef struct lk_collective_row {
	double bytes, count;      /* as in nccl-tests: elements of 4 bytes */
	double us, algbw, busbw;  /* predicted; GB/s */
	double low_us, high_us;   /* 80 % range of the time; NAN for mpi and gloo */
	const char *algo, *proto; /* "Ring", "LL128"; "" without a protocol */
	int channels;
	const char *limit; /* the bottleneck: "latency", "links", "NICs", "network" */
	/* from the log; NAN and "" without one */
	double measured_us, measured_busbw;
	double ratio;     /* measured / predicted */
	const char *flag; /* "falls": twice the size is faster. "slow": far above the model */
} lk_collective_row;

/* All sizes of one collective on one cluster. */
typedef struct lk_collective {
	const char *op, *library, *cluster, *fabric, *log;
	const char *gpu; /* of its nodes, as named in data sheets */
	int gpus, nodes;
	const lk_collective_row *rows;
	int row_count;
	const char *const *notes; /* remarks, in sentences; first the basis of the numbers and ranges */
	int note_count;
	double mean_busbw;        /* GB/s, predicted */
	double error;             /* exp(mean |ln ratio|) - 1; NAN without a log */
	const char *failed_check; /* the consistency check that failed; NULL: all passed */
	void *memory_owner;
} lk_collective;

/* Set every field to its default. Call it first, then set fields; later versions may add fields. */
void lk_collective_defaults(lk_collective_request *request);

/* Predict every size; with a log, the sizes of its runs, which must be of one test on one number of
 * GPUs. LK_ERR_INPUT: an invalid device, cluster, size or log; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_collective_ask(const lk_collective_request *request, lk_collective **out,
                            lk_error *err);
/* Free an answer and everything it points to; accepts NULL. */
void lk_collective_free(lk_collective *collective);

/* The formats of lk_collective_print: those of lk_output (view.h), then the output of nccl-tests.
 */
enum { LK_COLLECTIVE_NCCL_TESTS = 6 };
extern const char *const lk_collective_formats[];

/* Write to `path`, or to `out` if it is NULL. Text resembles nccl-tests' own, plus NCCL's choices;
 * NCCL_TESTS has exactly their lines and columns, which they print and programs for their logs
 * read. LK_ERR_INPUT: the format needs a path; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_collective_print(const lk_collective *collective, int format, bool colour,
                              const char *path, FILE *out, lk_error *err);

/* The verb's option table, for parsing, help, man page and completion (options.h). */
extern const lk_verb lk_collective_verb;

#ifdef __cplusplus
}
#endif
#endif
