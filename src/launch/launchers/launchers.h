/* launchers.h: launchers, programs that they start, and what their options say of GPUs. */
#ifndef LK_LAUNCH_LAUNCHERS_H
#define LK_LAUNCH_LAUNCHERS_H

#include "launch/reading/reading.h"

/* launchers.c. */
typedef struct lk_launched {
	size_t used;            /* words of the launcher, its target included where it is named below */
	const lk_word *program; /* the training program, NULL if another launcher follows */
	const lk_word *script;  /* text of bash -c */
} lk_launched;
/* Reads the launcher that `words` begins with; used is 0 where the first word is none. */
lk_status lk_launcher_read(lk_reading *reading, const lk_word *words, size_t count,
                           lk_launch_ranks *ranks, lk_launched *out);
/* A line "#SBATCH ..." of a batch script, without that word. */
lk_status lk_launcher_sbatch(lk_reading *reading, const char *line, lk_launch_ranks *ranks);
/* NAME=value in front of a program. */
bool lk_launch_setting(const lk_word *word);

/* Scripts of a framework's own that start a training by variables of the environment: Primus's by
 * EXP, torchtitan's by NGPU and MODULE, CONFIG or CONFIG_FILE. */
typedef enum lk_launch_own {
	LK_OWN_NONE,
	LK_OWN_PRIMUS,
	LK_OWN_TITAN,
} lk_launch_own;
lk_launch_own lk_launch_own_script(const char *word);
/* Whether a word starts a launcher or a python script; NULL-safe. */
bool lk_launch_starts(const char *word);
bool lk_launch_nemo(const char *word); /* the command of NeMo 2.0: nemo llm pretrain ... */
/* A command that trains by what its next word says: axolotl train, trl sft; NULL: none. */
typedef struct lk_command_of {
	const char *name;
	const char *trains; /* the words that train, each between blanks */
} lk_command_of;
const lk_command_of *lk_launch_command(const char *word);

/* What a program does that trains nothing, by its name, "converts checkpoints"; NULL: it may train.
 */
const char *lk_launch_other_work(const char *program);
/* accelerate_flags.c: the key of a configuration that a flag of accelerate launch states, without
 * dashes, and in *value what a flag without one means; NULL: it says nothing of the layout, or
 * out of memory. */
const char *lk_accelerate_key(lk_arena *arena, const char *flag, const char **value);

#endif
