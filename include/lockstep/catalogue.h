/* catalogue.h: the devices and models that lockstep knows by name. */
#ifndef LOCKSTEP_CATALOGUE_H
#define LOCKSTEP_CATALOGUE_H

#include <stdbool.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library, "0.1.0"; docs/reference/versions.md states what its numbers
 * promise. */
const char *lk_version(void);
/* The date of the built-in data, "YYYY-MM-DD". */
const char *lk_data_date(void);

/* An optional part of a lockstep build. */
typedef struct lk_feature {
	const char *name; /* "isal" */
	bool here;        /* included in this build */
	const char *what; /* its purpose, in words */
} lk_feature;

/* Feature number `index`, NULL past the last. */
const lk_feature *lk_feature_at(int index);

/* Print version, data date and features: lines of text, or with `json` one object {version, commit,
 * data_date, features: {name: bool}}. `commit`: of the caller's sources; NULL: unknown.
 * LK_ERR_MEMORY, LK_ERR_IO. */
lk_status lk_version_print(const char *commit, bool json, FILE *out, lk_error *err);

/* Read the devices from DIR/devices.csv instead of the built-in ones. At most once, before any
 * question (LK_ERR_INPUT); LK_ERR_INPUT with file and line for an invalid row; LK_ERR_IO;
 * LK_ERR_MEMORY. */
lk_status lk_catalogue_open(const char *dir, lk_error *err);

/* Names of the devices and of the model presets, in the order of their tables; NULL past the last.
 * They live as long as the process. lk_model_name also returns NULL when memory runs out. */
const char *lk_device_name(int index);
const char *lk_model_name(int index);
/* Whether a text names a network: a preset, its repository on the Hub, or the address of any
 * network's page there, even without a preset. */
bool lk_model_named(const char *text);

/* Known values of an option of a verb ("predict", "gpu"), or, if `option` is NULL, of its first
 * operand: number `index`; NULL past the last and if none are known. For completion
 * (lk_verbs_completion); options with choices in their table are not included. */
const char *lk_candidate(const char *verb, const char *option, int index);

/* Print tables of devices and models; `format`, `colour`, `path` and `out` as in view.h. `filter`
 * (NULL: all) is a part of the name; case, '-', '_', '.' and blanks are ignored. LK_ERR_INPUT with
 * the nearest name if nothing matches. `verbose` adds columns to TEXT and MD; the other formats
 * always have all of them. The tables in SQLite are "devices" and "models".
 *
 * devices: dense peaks in TFLOP/s, memory in bytes as reported by the driver, rates in bytes/s (of
 * links per direction and GPU). models: parameters as counted by HuggingFace; active ones are those
 * used by one token. */
lk_status lk_devices_print(const char *filter, int format, bool verbose, bool colour,
                           const char *path, FILE *out, lk_error *err);
lk_status lk_models_print(const char *filter, int format, bool verbose, bool colour,
                          const char *path, FILE *out, lk_error *err);

/* What selects from these lists: `filter`, as above. */
typedef struct lk_catalogue_request {
	const char *filter;
} lk_catalogue_request;

/* The options of `lockstep devices` and `lockstep models`. */
extern const lk_verb lk_devices_verb, lk_models_verb;

#ifdef __cplusplus
}
#endif
#endif
