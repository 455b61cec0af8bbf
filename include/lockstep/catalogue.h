/* catalogue.h: the devices and models that lockstep knows by name. */
#ifndef LOCKSTEP_CATALOGUE_H
#define LOCKSTEP_CATALOGUE_H

#include <stdbool.h>
#include <stdio.h>
#include "lockstep/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library, "0.1.0": docs/reference/versions.md says what its numbers promise. */
const char *lk_version(void);
/* The day of the built-in data, "YYYY-MM-DD". */
const char *lk_data_date(void);

/* Something that can be left out when lockstep is built. */
typedef struct lk_feature {
	const char *name; /* "isal" */
	bool here;        /* in this build */
	const char *what; /* what it is for, in words */
} lk_feature;

/* Feature number `index`, NULL past the last. */
const lk_feature *lk_feature_at(int index);

/* Version, day of the data and features: lines of text, or with `json` one object {version, commit,
 * data_date, features: {name: bool}}. `commit` is of the caller's sources; NULL: not known.
 * LK_ERR_MEMORY, LK_ERR_IO. */
lk_status lk_version_print(const char *commit, bool json, FILE *out, lk_error *err);

/* lk_context_catalogue of the calling thread's context (context.h): takes the devices from
 * DIR/devices.csv instead of the built-in ones. At most once, before anything else is asked
 * (LK_ERR_INPUT); LK_ERR_INPUT with file and line where a row is wrong; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_catalogue_open(const char *dir, lk_error *err);

/* Names of the devices and of the model presets, in the order of their tables; NULL past the last.
 * Devices are those of the calling thread's context and live as long as it, models as long as the
 * process. lk_model_name is NULL as well when memory ran out. */
const char *lk_device_name(int index);
const char *lk_model_name(int index);
/* Whether a text names a network: a preset, the repository of one on the Hub, or the address of a
 * network's page there, of which no preset may be. */
bool lk_model_named(const char *text);

/* Words that are known as values of an option of a verb ("predict", "gpu"), or with `option` NULL
 * as its first operand: number `index` of them, NULL past the last and where none are known. For
 * completion (lk_verbs_completion); what has choices in its option table is not here. */
const char *lk_candidate(const char *verb, const char *option, int index);

/* Tables of devices and models; `format`, `colour`, `path` and `out` as in view.h. `filter` (NULL:
 * all) is a part of the name; case, '-', '_', '.' and blanks do not count. Nothing found is
 * LK_ERR_INPUT with the nearest name. `verbose` adds columns to TEXT and MD; the other formats have
 * all of them in any case. The tables in SQLite are "devices" and "models".
 *
 * devices: dense peaks in TFLOP/s, memory in bytes as the driver reports it, rates in bytes/s (of
 * links per direction and GPU). models: parameters as HuggingFace counts them; active ones are
 * those that one token passes through. */
lk_status lk_devices_print(const char *filter, int format, bool verbose, bool colour,
                           const char *path, FILE *out, lk_error *err);
lk_status lk_models_print(const char *filter, int format, bool verbose, bool colour,
                          const char *path, FILE *out, lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
