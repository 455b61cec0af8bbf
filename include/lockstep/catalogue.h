/* catalogue.h: the devices and models that lockstep knows by name. */
#ifndef LOCKSTEP_CATALOGUE_H
#define LOCKSTEP_CATALOGUE_H

#include <stdbool.h>
#include <stdio.h>
#include "lockstep/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0" */
const char *lk_version(void);
/* The day of the built-in data, "YYYY-MM-DD". */
const char *lk_data_date(void);

/* Takes the devices from DIR/devices.csv instead of the built-in ones. At most once, before anything else is asked. */
lk_status lk_catalogue_open(const char *dir, lk_error *err);

/* Tables of devices and models; `format`, `colour`, `path` and `out` as in view.h. `filter` (NULL: all) is a part of
 * the name; case, '-', '_', '.' and blanks do not count. Nothing found is LK_ERR_INPUT with the nearest name. `verbose`
 * adds columns to TEXT and MD; the other formats have all of them in any case. The tables in SQLite are "devices" and
 * "models".
 *
 * devices: dense peaks in TFLOP/s, memory in bytes as the driver reports it, rates in bytes/s (of links per direction
 * and GPU). models: parameters as HuggingFace counts them; active ones are those that one token passes through. */
lk_status lk_devices_print(const char *filter, int format, bool verbose, bool colour, const char *path, FILE *out,
                           lk_error *err);
lk_status lk_models_print(const char *filter, int format, bool verbose, bool colour, const char *path, FILE *out,
                          lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
