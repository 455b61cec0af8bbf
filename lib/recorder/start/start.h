/* start.h: shared by the files of recorder/start: they are on top of the recorder, and nothing
 * includes them.
 *
 *     start.c         the process: settings, arming by program name, the end
 *     start_mpi.c     MPI: MPI_Init chooses the mode and arms, communicators are forgotten
 *     plugin.c        the same code as a plugin of NCCL's profiler, in a library of its own
 *     plugin_none.c   the preload library, which is no plugin */
#ifndef LK_RECORDER_START_START_H
#define LK_RECORDER_START_START_H

#include <stdbool.h>

/* Whether this is the library that NCCL loads as its plugin, which has no wrappers and is armed
 * only by NCCL. */
extern const bool lp_is_plugin;

#endif
