/* line.h: between the files of the reader of launch lines (launch.c). */
#ifndef LK_LAUNCH_LINE_H
#define LK_LAUNCH_LINE_H

#include "launch/frameworks/frameworks.h"
#include "launch/launchers/launchers.h"

/* One launch line while it is read. */
typedef struct lk_line {
	lk_reading *r;
	lk_launch_ranks ranks;
	lk_megatron flags;
	lk_words environment;      /* NAME=value in front of programs */
	lk_members settings;       /* flags of other trainers, by name */
	const char *deepspeed;     /* a config file */
	const char *config;        /* a configuration that the program reads; NULL: none */
	const char *also;          /* lines: configurations that are merged over it; NULL: none */
	const char *folder, *stem; /* Hydra's --config-path and --config-name; NULL: not given */
	const lk_word *unknown;    /* the program, where it is not known; NULL: it is */
	const char *name;          /* of the program, without folders; NULL: not known */
	const lk_command_of
		*command; /* one whose flags state all, DeepSpeed's presets too; NULL: none */
	bool program, any_flag, megatron;
	bool maxtext;           /* its settings follow a configuration as words, key=value */
	bool hydra;             /* verl's settings follow it as words, key=value */
	lk_verl_kind verl;      /* which of verl's programs it is */
	bool configured;        /* the program takes all that it does from its configuration */
	bool starter;           /* its first word is the program that it starts */
	const char *operand;    /* the setting that a bare word states; NULL: none does */
	const char *configs;    /* folder of the configurations that a starter names; NULL: as named */
	lk_dotted dotted;       /* what NeMo's or torchtitan's settings say */
	const char *titan_sets; /* the latter as lines "key=value", for a configuration; NULL: none */
	int max_connections;
	char alloc_conf[sizeof((lk_job *)0)->alloc_conf];
	char nccl[sizeof((lk_job *)0)->nccl]; /* NAME=value of NCCL's variables */
} lk_line;

/* ---- line_settings.c */
lk_status lk_line_setting(lk_line *line, const lk_word *word); /* NAME=value */
/* What a launcher passes on: srun --export=ALL,NAME=value, mpiexec -genv NAME value. */
lk_status lk_line_passed(lk_line *line);
/* To the job that was read. */
lk_status lk_line_apply_settings(lk_line *line);
/* The value of a setting; NULL: there is none. */
const char *lk_line_environment(const lk_line *line, const char *name);
/* Whether there is a setting of this name, whatever its value. */
bool lk_line_states(const lk_line *line, const char *name);

/* ---- line_program.c */
lk_status lk_line_program(lk_line *line, const lk_word *word);
/* The processes of a command that nothing else starts. */
lk_status lk_line_one_process(lk_line *line);
/* A framework's own script; *used words of it. False: it is none. */
bool lk_line_own_script(lk_line *line, const lk_word *words, size_t count, size_t *used);
/* axolotl train, trl sft: `word` is the one after the command; NULL: there is none. */
lk_status lk_line_command(lk_line *line, const lk_command_of *command, const lk_word *word);
/* litgpt finetune lora: whether a bare word is the second half of the command. */
bool lk_line_command_goes_on(lk_line *line, const char *word);

/* ---- line_dotted.c: one flag, or word, with the words after it. */
lk_status lk_line_titan_flag(lk_line *line, const char *name, const lk_word *words, size_t count,
                             size_t *used);
lk_status lk_line_nemo(lk_line *line, const lk_word *words, size_t count, size_t *used);

/* ---- paste.c: texts that people paste. */
typedef struct lk_paste {
	const char *script; /* its launch line and settings, in their lines */
	size_t size;
	lk_launch notes; /* found, device, gpus and what was measured alone */
} lk_paste;
/* Whether a text is pasted, not a script: it has fences, prompts or quotes before a launch line, a
 * table of nvidia-smi, or lines of a log. */
bool lk_paste_is(const char *text, size_t size, const char *name);
/* LK_ERR_INPUT: it has no launch line. */
lk_status lk_paste_read(lk_arena *arena, const char *text, size_t size, const char *name,
                        lk_paste *out, lk_error *err);
/* Add what was found to what the launch line states. */
void lk_paste_add(const lk_paste *paste, lk_launch *launch);

/* ---- line_flags.c */
lk_status lk_line_flags(lk_line *line, const lk_word *words, size_t count);
/* The configuration that Hydra's folder and name make. */
lk_status lk_line_join_hydra(lk_line *line);

#endif
