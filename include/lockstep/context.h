/* context.h: what many requests share, and who they share it with.
 *
 * A context holds a catalogue of devices, calibration rows, a wish to stop and a number of threads.
 * Each thread has a current context; every function that the thread calls uses it, and so do the
 * threads that the library starts for the call. A thread that never calls lk_context_use has the
 * default context, which the process keeps.
 *
 *     lk_context *mine = lk_context_new();
 *     if (mine && lk_context_catalogue(mine, "site", &err) == LK_OK &&
 *         lk_context_calibration(mine, "site/calibration.csv", &err) == LK_OK) {
 *         lk_context *before = lk_context_use(mine);
 *         ... lk_predict(&request, &answer, &err); lk_predict_print(...); lk_predict_free(answer);
 *         lk_context_use(before);
 *     }
 *     lk_context_free(mine);
 *
 * Set up a context first, then ask in it: several threads may use one context at the same time, but
 * none may set it up while another one uses it. Requests in different contexts do not affect one
 * another. An answer may point into its context: print it there, and free it before the context. */
#ifndef LOCKSTEP_CONTEXT_H
#define LOCKSTEP_CONTEXT_H

#include "lockstep/error.h"
#include "lockstep/stop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What requests share. */
typedef struct lk_context lk_context;

/* A context as the default one is at first: the built-in devices and calibration, nothing that
 * stops it, a thread for each core. NULL when memory runs out. */
lk_context *lk_context_new(void);

/* Frees a context that no other thread uses, and with it the devices and calibration rows. If the
 * calling thread uses it, the thread goes back to the default context. Accepts NULL. */
void lk_context_free(lk_context *context);

/* Makes `context` (NULL: the default one) the calling thread's current context and returns the one
 * before (NULL: the default one), so that a caller can set it back. Call it between requests, not
 * from a function that the library calls. */
lk_context *lk_context_use(lk_context *context);

/* Takes the devices from DIR/devices.csv and DIR/not_modelled.csv instead of the built-in ones; a
 * file that DIR lacks is the built-in one, a NULL `dir` has none. `context` NULL: the default one.
 * At most once, before the first request (LK_ERR_INPUT); LK_ERR_INPUT with file and line where a
 * row is wrong; LK_ERR_IO; LK_ERR_MEMORY. After an error the context is as before. */
lk_status lk_context_catalogue(lk_context *context, const char *dir, lk_error *err);

/* Lays the rows of a calibration file on top of the built-in ones for all requests in the context;
 * rows of a file that a request names lie on top of these. `context` NULL: the default one. At most
 * once, before the first request (LK_ERR_INPUT); LK_ERR_INPUT with file and line where a row is
 * wrong; LK_ERR_IO; LK_ERR_MEMORY. After an error the context is as before. The command that
 * reproduces an answer does not name the file. */
lk_status lk_context_calibration(lk_context *context, const char *path, lk_error *err);

/* Calls in the context end when `stop` is asked, on threads that do not watch a stop of their own
 * (lk_stop_watch, and calls that take a stop); NULL: none does. `context` NULL: the default one.
 * `stop` is borrowed: set NULL before it is freed. */
void lk_context_stop(lk_context *context, const lk_stop *stop);

/* The number of threads of a call in the context whose request states none; 0 or less: one for each
 * core that the process may use. The number changes no answer. `context` NULL: the default one. */
void lk_context_threads(lk_context *context, int threads);

#ifdef __cplusplus
}
#endif
#endif
