/* emit.h: a job as what it is started with: a launch line, a framework's configuration, a job of a
 * cluster around either.
 *
 *   emit.c           targets by name; what is written is read back, and what comes out different is
 *                    stated as LOCKSTEP_NAME=value, until nothing does
 *   emit_lacks.c     jobs that those started by a line cannot run
 *   emit_page.c      texts and words that grow
 *   emit_line.c      launch lines of Megatron-LM and DeepSpeed
 *   emit_dotted.c    launch lines of NeMo, Megatron-Bridge and torchtitan
 *   emit_rows.c      the rows of data/launch that are written, as a file or as flags
 *   emit_files.c     axolotl, LLaMA-Factory, nanotron, accelerate: jobs that they cannot run, and
 *                    rules of their rows
 *   emit_program.c   the end of its step as a program of lockstep compile, which nobody reads back
 *   emit_cluster.c   batch scripts of Slurm, tasks of SkyPilot, PyTorchJobs of Kubernetes
 *   edit.c           the text that states a job, changed where another job needs it
 *   edit_places.c    where a text states what: keys of files, flags and variables of scripts
 *   edit_lists.c     items of lists that leave and join
 *   edit_text.c      changes made to a text, or shown as a unified diff */
#ifndef LK_LAUNCH_EMIT_H
#define LK_LAUNCH_EMIT_H

#include "launch/frameworks/frameworks.h"
#include "lockstep/emit.h"

/* Refuses names that are no target. */
lk_status lk_emit_known(const char *target, lk_error *err);
/* The software stack of a target's framework, for jobs that state none; NULL: no target. */
const char *lk_emit_stack(const char *target);
/* The framework whose jobs are laid out: a target's or, without one (NULL), that of a file or line
 * that was read (NULL: not known). NULL: one that is not written. */
const char *lk_emit_framework(const char *target, const char *read);
/* The software with which a framework trains, "fsdp,ddp,deepspeed". */
const char *lk_emit_stacks(const char *framework);
/* Refuses a task of which a target's framework cannot be told, naming those that can. */
lk_status lk_emit_check_task(const char *target, const lk_job *job, lk_error *err);
/* Why a framework cannot run a layout, complete or not, and what to do; NULL: it can. */
const char *lk_emit_lacks(const char *framework, const lk_job *job);
/* Whether a target is the given text with changes; *whole: all of it, else a unified diff. */
bool lk_emit_edits(const char *target, bool *whole);
/* Whether keys can state a fact, "pp": those of what was read; NULL: flags, which state all. */
bool lk_emit_states(const lk_key *const *keys, const char *fact);
/* What a text makes its framework do, where that is not the job. */
typedef struct lk_written {
	const char *framework;
	const char *unsaid;  /* "fp32_grads on, ...": what the framework cannot be told; "": nothing */
	const char *changes; /* of a text that is edited: "batch_size: 1; compile: true"; else NULL */
	bool other_training; /* unsaid is more than how fast it runs: network, degrees, formats, ... */
	lk_job job;          /* as the text states it, not completed */
} lk_written;
/* Writes a completed job. `cluster` (may be NULL) is where it runs. Texts from the arena. `written`
 * NULL: the text is for lockstep alone, and states what the framework cannot be told.
 * LK_ERR_INPUT: no such target, or its framework cannot run the job. */
lk_status lk_emit(lk_arena *arena, const char *target, const lk_job *job, const lk_cluster *cluster,
                  lk_written *written, lk_emitted *out, lk_error *err);

/* A text that was read as a job. */
typedef struct lk_source lk_source;
/* Reads `text` in its place: what it states, and the job that it makes without more GPUs than it
 * states (0: none). */
typedef lk_status lk_source_read(const lk_source *source, lk_arena *arena, const char *text,
                                 lk_launch *launch, lk_job *raw, lk_error *err);
struct lk_source {
	const char *path; /* a file's; NULL: `text` is a pasted line */
	const char *text;
	const char *framework; /* NULL: not known */
	bool script;           /* whatever the path ends in */
	lk_source_read *read;
	const void *request; /* of whoever reads it */
};
/* edit.c */
/* Writes a completed job as changes of the text that states another one: what differs is changed or
 * added where its like is, every other byte stays. Reading needs each change: without it the text
 * would state something else. LK_ERR_INPUT: it has no place for any of what differs, which
 * `written` says; or it cannot be edited. */
lk_status lk_emit_edit(lk_arena *arena, const lk_source *source, bool whole, const lk_job *job,
                       const lk_cluster *cluster, lk_written *written, lk_emitted *out,
                       lk_error *err);

/* Whether layers are attention by whole heads with full context, and an MLP, each after one norm:
 * what software that takes a network by a few numbers builds. */
bool lk_emit_plain(const lk_model *model);
/* Whether flags and settings can state the whole network: they cannot state convolutions or
 * diffusion blocks. */
bool lk_launch_describes(const lk_model *model);
/* Write a completed job as one line of that dialect, whether or not the framework could run it;
 * reading it back gives the same job. NULL when memory runs out. lk_launch_write: Megatron-LM's. */
char *lk_launch_write_for(lk_arena *arena, lk_dialect dialect, const lk_job *job);
char *lk_launch_write(lk_arena *arena, const lk_job *job);

/* ---- between the files above */

/* A text that grows; NULL once memory was out. */
typedef struct lk_page {
	lk_arena *arena;
	const char *text;
} lk_page;
void lk_page_add(lk_page *page, const char *format, ...) LK_PRINTF(2, 3);
/* Lines of `text`, each after `indent` blanks. */
void lk_page_lines(lk_page *page, int indent, const char *text);

/* Settings and launcher on the first line, then a line per flag. NULL when memory runs out. */
char *lk_join_line(lk_arena *arena, const lk_words *settings, const lk_words *launcher,
                   const lk_words *program);
bool lk_put_word(lk_words *words, const char *text); /* false for NULL, and without memory */

/* A job on its way to a text. */
typedef struct lk_emission {
	lk_arena *arena;
	const lk_job *job;
	const lk_cluster *cluster; /* NULL: not known */
	int nodes, per_node;
	const char *network;  /* its id on the hub, else its name */
	lk_words environment; /* NAME=value of the program's own variables */
	lk_words settings;    /* LOCKSTEP_NAME=value */
	const char *file;     /* of the configuration; NULL: the program's words say all */
	const char *contents;
	lk_words launcher, program; /* torchrun and its options; what it starts */
	bool accelerate;            /* is the launcher */
	bool pairs;                 /* the text counts pairs, of two sequences each */
	const char *image;          /* of a container that has the framework */
} lk_emission;

/* The job on its way; false when memory runs out. Lists of words are freed by lk_emission_end. */
bool lk_emission_begin(lk_emission *emission, lk_arena *arena, const lk_job *job,
                       const lk_cluster *cluster);
void lk_emission_end(lk_emission *emission);

/* emit_line.c: launcher and program of a line. */
bool lk_write_line(lk_emission *emission, lk_dialect dialect);

/* emit_dotted.c: the job as the program's words, without what the dialect cannot say; false when
 * memory runs out. */
bool lk_dotted_write(lk_emission *emission, int dialect);
/* Why the line may not run: nobody's recipe trains the network; NULL where one does. */
const char *lk_dotted_unknown(int dialect, const lk_job *job);

/* emit_lacks.c: what they cannot run, in words, and what to do; NULL: nothing. */
const char *lk_megatron_lacks(const lk_job *job);
const char *lk_bridge_lacks(const lk_job *job);
const char *lk_deepspeed_lacks(const lk_job *job);
const char *lk_titan_lacks(const lk_job *job);

/* emit_files.c: contents and program of a configuration. */
bool lk_write_axolotl(lk_emission *emission);
bool lk_write_llama_factory(lk_emission *emission);
bool lk_write_nanotron(lk_emission *emission);
bool lk_write_accelerate(lk_emission *emission);
/* What they cannot run, in words, and what to do; NULL: nothing. */
const char *lk_axolotl_lacks(const lk_job *job);
const char *lk_llama_factory_lacks(const lk_job *job);
const char *lk_nanotron_lacks(const lk_job *job);
const char *lk_accelerate_lacks(const lk_job *job);

/* emit_program.c. LK_ERR_INPUT: what is no program, and why. */
lk_status lk_emit_program(lk_arena *arena, const lk_job *job, const lk_cluster *cluster,
                          lk_emitted *out, lk_error *err);

/* emit_cluster.c: the whole text. NULL when memory runs out. lk_write_commands: a script of one
 * node with its configuration, where a program's flags say what the configuration does not. */
const char *lk_write_commands(const lk_emission *emission);
const char *lk_write_sbatch(const lk_emission *emission);
const char *lk_write_skypilot(const lk_emission *emission);
const char *lk_write_kubernetes(const lk_emission *emission);

#endif
