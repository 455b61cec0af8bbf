/* reading.h: what all readers of launch lines, scripts and configurations share: one reading, its
 * notes, the number of GPUs, the fields of a job by name. */
#ifndef LK_LAUNCH_READING_H
#define LK_LAUNCH_READING_H

#include "io/document.h"
#include "io/stream.h"
#include "base/vec.h"
#include "launch/reading/stated.h"
#include "shell/shell.h"

/* What launchers, batch options and the description of a cluster's job say of GPUs. */
typedef struct lk_launch_ranks {
	int per_node, tasks_per_node, nodes, total; /* 0: not given */
	const char *accelerate;                     /* a configuration of accelerate; NULL: none */
	const char *accelerate_flags; /* what accelerate's own flags say of it, lines "path=value" */
	const char *settings; /* NAME=value that a launcher passes on, a line each; NULL: none */
} lk_launch_ranks;

/* A file that a script writes: cat > job.yaml <<END, echo line >> job.yaml. The text belongs to the
 * script. */
typedef struct lk_inner_file {
	const char *name, *text;
	size_t size;
	struct lk_inner_file *next;
	char *buffer; /* that `text` is the beginning of, where lines are added; NULL: none are */
	size_t room;  /* bytes of the buffer */
} lk_inner_file;

/* What one reading carries along. */
typedef struct lk_reading {
	lk_arena *arena;
	const char *where; /* "train.sh", "launch line" */
	lk_launch *out;
	lk_error *err;
	int depth;      /* of scripts inside scripts: eval, bash -c */
	int line;       /* of the script, where the launch begins; 0: none */
	int visible;    /* devices of a node that the environment shows to the program; 0: not stated */
	int usual_gpus; /* on which jobs of the framework run, where a file does not say; 0: not known
	                 */
	bool script;    /* what is read is a script that somebody wrote */
	const char *missing;    /* a file that the script reads and that is not here; NULL: none */
	lk_inner_file *files;   /* that the script writes itself, the last one first */
	lk_launch_ranks batch;  /* of the job of a cluster that a configuration describes */
	const char *accelerate; /* the file that accelerate is launched with; NULL: none */
	const char *accelerate_flags; /* and what its flags say; NULL: nothing */
} lk_reading;

/* reading.c */
/* What is taken because nothing states it: a line of the answer's assumptions. */
lk_status lk_launch_assume(lk_reading *reading, const char *format, ...) LK_PRINTF(2, 3);
/* A flag that is passed over: somebody may have counted on it; it changes nothing of a step;
 * nothing is known of it, and `near` (borrowed, or NULL) may have been meant. The reason is
 * borrowed, NULL where memory was out. */
lk_status lk_launch_note(lk_reading *reading, const char *flag, const char *reason);
lk_status lk_launch_skip(lk_reading *reading, const char *flag, const char *reason);
lk_status lk_launch_unknown(lk_reading *reading, const char *flag, const char *near);
/* The kind of GPU that a description names, where it is one that is known; the text is copied. */
lk_status lk_launch_device(lk_reading *reading, const char *name, size_t length);
/* Keeps a line of what was understood, or assumed; the text is copied. */
typedef enum lk_line_kind { LK_LINE_UNDERSTOOD, LK_LINE_ASSUMED } lk_line_kind;
lk_status lk_launch_keep_line(lk_reading *reading, const char *text, lk_line_kind kind);
lk_status lk_launch_understood(lk_reading *reading, const char *key, const char *value);
/* A flag of the training program was read, whatever becomes of it. */
lk_status lk_launch_seen(lk_reading *reading, const char *flag);
/* A flag names the network in place of stating its shape; the last one counts. */
lk_status lk_launch_network(lk_reading *reading, const char *flag, const char *name);
/* network_name.c: the same for a configuration: where the name is a place for a path of one's own,
 * "/path/to/model", the network is that which the names of the file and its folders hold, as an
 * assumption. */
lk_status lk_launch_network_of_file(lk_reading *reading, const char *flag, const char *name,
                                    const char *file);
/* gpus.c: the least number of GPUs that the degrees divide, with so many replicas; INT64_MAX: more
 * than a job has. *block: those of one replica. */
int64_t lk_launch_least_gpus(const lk_job *job, int64_t replicas, int64_t *block);
/* Sets the GPUs of a job whose data parallelism is `replicas` at least. `stated` (0: none) holds
 * where it is certain; else where the degrees and the batch divide by it, and the least number that
 * works is assumed where they do not. */
lk_status lk_launch_count_gpus(lk_reading *reading, const lk_job *job, int64_t replicas, int stated,
                               bool certain);
/* Notes that a node starts another number of processes than the environment shows it devices. */
lk_status lk_launch_name_visible(lk_reading *reading, int processes);
/* The end of a path whose beginning is not known: "models/Qwen3-8B" of "$HOME/models/Qwen3-8B";
 * NULL: all of the word is unknown, or its end is. */
const char *lk_launch_known_end(const lk_word *word);
/* The hint after a failure: the variable of an unknown word, by name; `otherwise`: it has none. */
lk_status lk_launch_ask_value(lk_reading *reading, const lk_word *value, const char *otherwise);
/* Refuses a flag whose value is not known, and asks for the variable by name. */
lk_status lk_launch_unknown_value(lk_reading *reading, const char *flag, const lk_word *value);
/* stages.c: divides the layers of a network among the stages of job->pp and job->vp as frameworks
 * of PyTorch do, where the first and the last stage have so many less than the others; false where
 * that is not modelled. */
bool lk_launch_split(lk_job *job, const lk_model *model, int first_less, int last_less);

/* offload.c: into the host's memory go parameters, their gradients and the optimizer's states;
 * parameters, where the optimizer is there already; what layers keep. Where the layout does not
 * allow it, `key` is listed with the reason. `network` is the network's name, used where the job
 * does not have its shape. */
lk_status lk_launch_offload_shards(lk_reading *reading, lk_job *job, const char *key);
lk_status lk_launch_offload_params(lk_reading *reading, lk_job *job, const char *key);
lk_status lk_launch_offload_activations(lk_reading *reading, lk_job *job, const char *key,
                                        const char *network);

/* job_fields.c: every field of a job that a launch line can carry, by name. Launch lines state them
 * as environment settings, LOCKSTEP_TASK=lora: harmless to the program that is started, and the
 * only way for what no flag says. */
typedef enum lk_field_kind {
	LK_FIELD_INT,
	LK_FIELD_REAL,
	LK_FIELD_BOOL,
	LK_FIELD_TEXT,
	LK_FIELD_CHOICE,
	LK_FIELD_SWITCH
} lk_field_kind;
typedef struct lk_field {
	const char *name; /* "lora_rank" */
	lk_field_kind kind;
	size_t offset, size; /* in lk_job */
	const char *const *choices;
	int first;   /* value of choices[0] */
	size_t said; /* offset of the bool that it sets; 0: none */
	bool layout; /* how the job is laid out over ranks: what a search decides */
	bool code;   /* how the published code is written: of jobs that run it, lk_job.eager */
	bool some;   /* a length or a batch: no job has 0 of it, and 0 does not leave it open */
} lk_field;

extern const lk_field lk_job_fields[]; /* ends with name NULL */
bool lk_field_equal(const lk_field *field, const lk_job *a, const lk_job *b);
/* The value as text; _text: quoted for a shell where it must be. */
const char *lk_field_value(lk_arena *arena, const lk_field *field, const lk_job *job);
const char *lk_field_text(lk_arena *arena, const lk_field *field, const lk_job *job);
/* Keeps what trains and leaves open how it is laid out: every field of the layout is as if it had
 * not been said. */
void lk_job_open_layout(lk_job *job);
/* Sets a field from text in a struct that begins with a job, or that the field's offset is of. */
lk_status lk_field_put(void *base, const lk_field *field, const char *value, lk_error *err);
/* Handles "LOCKSTEP_NAME=value"; *known false if the name is no field. */
lk_status lk_field_set(lk_job *job, const char *name, size_t length, const char *value, bool *known,
                       lk_error *err);
/* "LOCKSTEP_NAME=value": a field of the reading's job. */
lk_status lk_launch_set(lk_reading *reading, const char *setting);

#endif
