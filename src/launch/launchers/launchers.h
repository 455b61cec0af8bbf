/* launchers.h: launchers, programs that they start, and what their options say of GPUs. */
#ifndef LK_LAUNCH_LAUNCHERS_H
#define LK_LAUNCH_LAUNCHERS_H

#include "launch/reading/reading.h"

/* Rows of data/launch/launcher_programs.csv and launcher_options.csv; the last one has no name. */
typedef enum lk_launcher_kind {
	LK_LAUNCHER_TORCHRUN = 1,
	LK_LAUNCHER_SLURM = 2,
	LK_LAUNCHER_MPI = 4,
	LK_LAUNCHER_DEEPSPEED = 8,
	LK_LAUNCHER_ACCELERATE = 16,
	LK_LAUNCHER_PYTHON = 32,
	LK_LAUNCHER_WRAPPER = 64,
	LK_LAUNCHER_SHELL = 128,
	LK_LAUNCHER_COMPOSER = 256
} lk_launcher_kind;
typedef struct lk_launcher_program {
	const char *name;
	int launcher;
} lk_launcher_program;
extern const lk_launcher_program lk_launcher_programs[];
typedef enum lk_option_means {
	LK_OPTION_PER_NODE,
	LK_OPTION_NODES,
	LK_OPTION_TOTAL,
	LK_OPTION_TASKS_PER_NODE,
	LK_OPTION_LISTED,
	LK_OPTION_VALUE,
	LK_OPTION_CONFIG,
	LK_OPTION_SETTING,
	LK_OPTION_EXPORT,
	LK_OPTION_PAIR,
	LK_OPTION_ARGUMENT
} lk_option_means;
typedef struct lk_launcher_option {
	const char *name;
	int launchers; /* bits of lk_launcher_kind */
	lk_option_means means;
	const char *key, *value; /* of SETTING */
} lk_launcher_option;
extern const lk_launcher_option lk_launcher_options[];

/* launchers.c. */
typedef struct lk_launched {
	size_t used;            /* words of the launcher, its target included where it is named below */
	const lk_word *program; /* the training program, NULL if another launcher follows */
	const lk_word *script;  /* text of bash -c */
	bool alone;             /* python itself starts the program: one process */
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
/* Whether a word, with the one after it (may be NULL), starts a launcher, a command or a python
 * script. */
bool lk_launch_starts(const char *word, const char *next);
bool lk_launch_nemo(const char *word); /* the command of NeMo 2.0: nemo llm pretrain ... */
/* A command that trains by what its next word says: axolotl train, trl sft. */
typedef struct lk_other_work {
	const char *name, *work; /* "infer", "generates texts" */
} lk_other_work;
typedef struct lk_command_of {
	const char *name;
	const char *trains;          /* the words that train, each between blanks */
	const lk_other_work *others; /* those that do other work, up to NULL; NULL: not known */
	bool configured;             /* its settings are in a configuration, or flags in its place */
	bool ranks;                  /* starts as many processes as NNODES and NPROC_PER_NODE say */
	bool spreads;                /* a process uses all devices that it sees */
	const char *operand; /* the setting that a bare word after them states; NULL: they take none */
} lk_command_of;
/* "torchrun, srun, ... or python": the programs that begin a launch, by the tables. */
void lk_launch_starters(char *out, size_t size);
/* The command that `word` and the one after it (may be NULL) are; NULL: none. */
const lk_command_of *lk_launch_command(const char *word, const char *next);
/* The command that a framework's own program is, with the word in *next; NULL: none. */
const lk_command_of *lk_launch_command_file(const char *path, lk_arena *arena, const char **next);
bool lk_launch_trains(const lk_command_of *command, const char *next);
/* What the word does that trains nothing; NULL: it is none of `others`. */
const char *lk_launch_command_work(const lk_command_of *command, const char *next);

/* What a program does that trains nothing, by its name, "converts checkpoints"; NULL: it may train.
 */
const char *lk_launch_other_work(const char *program);
/* Programs of nccl-tests, NVSHMEM and OSU, which no Python starts. */
bool lk_launch_measures(const char *program);
#endif
