/* view.h: answers as text for people and as data for programs. */
#ifndef LOCKSTEP_VIEW_H
#define LOCKSTEP_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/predict.h"
#include "lockstep/validate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Output formats; the numbers are those of the option -o of all verbs. */
typedef enum lk_output {
	LK_OUTPUT_TEXT,   /* for a terminal: control characters of the input are escaped */
	LK_OUTPUT_MD,     /* a Markdown table */
	LK_OUTPUT_CSV,    /* all columns, SI units (seconds, bytes, FLOP/s) */
	LK_OUTPUT_JSON,   /* one document */
	LK_OUTPUT_JSONL,  /* one object per line */
	LK_OUTPUT_SQLITE, /* a table in a database; needs a path */
} lk_output;

/* The functions below write to `path` (a temporary file, then renamed; *.gz is compressed; an
 * SQLite database is opened, and only its table is replaced), or to `out` if it is NULL. `colour`
 * applies only to `out`. Errors: LK_ERR_INPUT: the format needs a path, LK_ERR_IO, LK_ERR_MEMORY; a
 * file that could not be completed is left unchanged. */

/* Print predictions (LK_ERR_INPUT, LK_ERR_IO, LK_ERR_MEMORY as above). In TEXT one is a report;
 * several are one row each, with the best that fits (most tokens per second and GPU) marked. MD,
 * CSV and SQLITE (table "predictions") always have rows. JSON: an object for one, else an array of
 * objects; JSONL: one object per line.
 *
 * Keys of the object. Numbers have SI units; values that were not requested or do not apply are
 * null:
 *   fits                    bool; null where the combination was refused
 *   refused                 only then: why
 *   peak_bytes, usable_bytes, fullest_stage
 *                           peak memory of a rank, of the device, the stage with that rank
 *   step_time_s, step_time_low_s, step_time_high_s, basis
 *                           the step, its 80 % range and what the range is based on
 *   tokens_per_s_per_gpu, samples_per_s
 *   model_tflops_per_gpu    1e12 FLOP/s of the model, recomputation not counted
 *   mfu, hfu, peak_flops, peak
 *                           shares of the dense peak in FLOP/s without and with recomputation;
 *                           `peak` names it
 *   days, gpu_hours, goodput
 *                           of the whole training
 *   gpu_watts, site_watts, pue, step_kwh, training_kwh, carbon_kg, power_usd
 *                           power of a GPU, and of all with their hosts at the mains; energy
 *   breakdown               {part: {label, exposed_s, hidden_s}}, mean over the stages
 *   seeds                   {count, quantiles: {key: {label, p50, p95, p99}}} of the step and its
 *                           exposed parts, in seconds, and of straggler_share
 *   generation              of jobs that generate: {sequences, engines, engine_gpus, tokens,
 *                           tokens_per_s, token_time_s, longest_tokens, cache_bytes, token_bytes,
 *                           cache_tokens, batch_room, batch_most, tail_s, preempted, fixed_s,
 *                           exponential_s} as in lk_generation
 *   phases                  of a step of reinforcement learning: [{gpus ("training" or "engines"),
 *                           phase (a key of breakdown, or "wait"), start_s, end_s}]; else null
 *   memory                  [{stage, weights_bytes, gradients_bytes, optimizer_bytes,
 *                           activations_bytes, logits_bytes, workspace_bytes, buffers_bytes,
 *                           allocated_bytes, reserved_bytes, context_bytes, nccl_bytes,
 *                           total_bytes, moment}]
 *   layout                  {text, gpus, tp, pp, vp, cp, ep, dp, mbs, gbs, seq, microbatches,
 *                           recompute, dtype, schedule}
 *   assumptions, ignored    [text]
 *   fixes                   [{change, peak_bytes, step_time_s, time_ratio}]
 *   operations, layer_operations, ranks_simulated, ranks
 *                           how it was simulated
 *   warning, reproduce, model, cluster
 *   asked                   {option: value} of the options whose values differ between the objects
 *                           of an array
 */
lk_status lk_predict_print(const lk_prediction *const *predictions, size_t count, int format,
                           bool verbose, bool colour, const char *path, FILE *out, lk_error *err);

/* One combination of a sweep: its prediction, or why there is none. */
typedef struct lk_sweep_row {
	const lk_prediction *prediction;   /* NULL: refused */
	const lk_error *refusal;           /* the reason, if refused */
	const lk_predict_request *request; /* what was requested; may be NULL */
} lk_sweep_row;

/* Like lk_predict_print, with its errors (LK_ERR_...), for a sweep in which combinations may have
 * been refused. Fields that differ between the requests have columns. */
lk_status lk_sweep_print(const lk_sweep_row *rows, size_t count, int format, bool verbose,
                         bool colour, const char *path, FILE *out, lk_error *err);

/* Write a text that is an answer of its own, such as a launch line or an emitted program, like the
 * functions above; a line feed is added at its end. LK_ERR_IO, LK_ERR_MEMORY as above. */
lk_status lk_text_save(const char *text, const char *path, FILE *out, lk_error *err);

/* A FILE that writes into memory: `*text` (the caller frees it with free) and its `*size` in bytes
 * without the final '\0' are valid once lk_memory_close has closed it. NULL when memory runs out.
 * Unlike open_memstream's, it reports data lost in the middle. */
FILE *lk_memory_open(char **text, size_t *size);
/* Close a FILE of lk_memory_open; false if memory ran out on the way: the text is incomplete, and
 * still the caller's. */
bool lk_memory_close(FILE *file);

/* lk_validate_print to a path or a stream, in every format. LK_ERR_INPUT, LK_ERR_IO, LK_ERR_MEMORY
 * as above. */
lk_status lk_validate_save(const lk_validation *validation, int format, bool colour,
                           const char *path, FILE *out, lk_error *err);

/* Writes what is in the JSON of answers, as JSON: `documents` {verb: {prints, type}}, `types` {name:
 * type} and, for bindings, `classes` {name: {what, fields: {key: type}}}. Types: bool, int, num, text,
 * any, [T], {key:T ...}, {*:T}, a name; "T?" may be null, "key?" may be absent. LK_ERR_IO,
 * LK_ERR_MEMORY. */
lk_status lk_answers_print(FILE *out, lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
