/* read.h: launch lines, scripts and configurations of other programs as jobs. */
#ifndef LK_LAUNCH_READ_H
#define LK_LAUNCH_READ_H

#include "launch/reading/stated.h"

enum { LK_LAUNCH_CONFLICTS = 192 };
/* The line's flags that contradict `model`, as "--num-layers 80 (32), ..."; "" if they agree. */
void lk_launch_conflicts(const lk_launch *launch, const lk_model *model,
                         char out[LK_LAUNCH_CONFLICTS]);

/* Pasted launch lines. Words are those after "--": an optional launcher (torchrun, python, srun,
 * deepspeed, mpirun, env settings) with --nproc_per_node, --nnodes, -N ..., a script name, then the
 * framework's flags. Every flag is honoured, or listed in `ignored` with its reason. */
lk_status lk_launch_read(lk_arena *arena, int count, const char *const *words, const char *where,
                         lk_launch *out, lk_error *err);
/* Whether launch lines of Megatron-LM have a flag of this name, dashes left out. */
bool lk_launch_has_flag(const char *name);
/* Read a shell script: assignments, ${VAR:-x}, continuations, arrays and decidable conditions are
 * read; nothing is executed. `$(...)`, backticks, arguments of the script and variables that it
 * never sets are refused, with their line, if a flag that matters needs them. The launch line is
 * the last command that starts a known launcher or python. */
lk_status lk_launch_script(lk_arena *arena, const char *path, const lk_launch_given *given,
                           lk_launch *out, lk_error *err);
/* lk_launch_script from memory; messages name `name`. */
lk_status lk_launch_text(lk_arena *arena, const char *text, size_t size, const char *name,
                         const lk_launch_given *given, lk_launch *out, lk_error *err);
/* Read a training framework's configuration or a shell script. `given` may be NULL. */
lk_status lk_launch_file(lk_arena *arena, const char *path, const lk_launch_given *given,
                         lk_launch *out, lk_error *err);
/* Read a DeepSpeed config file into out->job; a new job is made if it is NULL. `out` is zeroed or
 * was filled before. */
lk_status lk_deepspeed_read(lk_arena *arena, const char *path, lk_launch *out, lk_error *err);
/* Read a training framework's configuration from memory; `name` has the extension of its file. */
lk_status lk_launch_config_text(lk_arena *arena, const char *text, size_t size, const char *name,
                                lk_launch *out, lk_error *err);

#endif
