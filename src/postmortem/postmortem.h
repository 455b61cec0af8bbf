/* postmortem.h: the inside of the room: one file a form of what is left of a run. */
#ifndef LK_POSTMORTEM_POSTMORTEM_H
#define LK_POSTMORTEM_POSTMORTEM_H

#include "lockstep/postmortem.h"
#include "base/arena.h"
#include "base/intern.h"
#include "base/vec.h"
#include "io/json.h"

typedef struct lk_mortem {
	lk_postmortem result; /* first: the result is the work */
	lk_arena arena;
	const lk_explain_request *request;
	bool asked; /* its files are what a run left: what cannot be read is an error */
	LK_VEC(lk_postmortem_memory) memory;
	LK_VEC(lk_postmortem_holder) kinds;
	LK_VEC(lk_postmortem_holder) holders;
	LK_VEC(lk_postmortem_remedy) remedies;
	LK_VEC(lk_postmortem_collective) collectives;
	LK_VEC(const char *) warnings;
} lk_mortem;

/* The forms, by content. */
typedef enum lk_mortem_form {
	LK_MORTEM_NONE,
	LK_MORTEM_SNAPSHOT,
	LK_MORTEM_FLIGHT,
	LK_MORTEM_LOG,
	LK_MORTEM_TIMEOUTS,
	LK_MORTEM_RAS,
} lk_mortem_form;

enum { LK_MORTEM_LOG_BYTES = 1 << 30 }; /* of a log at most */

/* A file, and once it is loaded its text or the document in it. */
typedef struct lk_mortem_file {
	const char *path;
	lk_mortem_form form;
	const char *text; /* of LOG, TIMEOUTS and RAS */
	size_t size;
	const lk_value *root; /* of SNAPSHOT and FLIGHT */
} lk_mortem_file;

lk_status lk_mortem_warn(lk_mortem *work, lk_error *err, const char *format, ...) LK_PRINTF(3, 4);
/* Read the file whose path and form are set: its text, or its document, into the arena. */
lk_status lk_mortem_load(lk_arena *arena, lk_mortem_file *file, lk_error *err);
/* The rank in the name of a file: the number after "rank"; -1: none. `any`: else its last number,
 * before its ending. */
int lk_mortem_rank_of(const char *path, bool any);
/* LK_ERR_INPUT: a file lacks what its form has. */
lk_status lk_mortem_lacks(const char *path, const char *what, lk_error *err);

/* snapshot.c, oom_log.c: rows of memory with holders and remedies. */
lk_status lk_mortem_snapshot(lk_mortem *work, const lk_mortem_file *file, lk_error *err);
lk_status lk_mortem_log(lk_mortem *work, const lk_mortem_file *file, lk_error *err);
/* The sentences of a cause of memory, once all files are read. */
lk_status lk_mortem_diagnose_memory(lk_mortem *work, lk_error *err);
/* remedies.c: what would free memory of the last row, by the kinds that were held then. */
lk_status lk_mortem_remedies(lk_mortem *work, lk_error *err);

/* ras.c */
lk_status lk_mortem_ras(lk_mortem *work, const lk_mortem_file *file, lk_error *err);

/* ---- hang.c: which collective did who not enter ---- */

enum { LK_HANG_RANKS = 1 << 20 };

typedef LK_VEC(int) lk_rank_set;

/* A collective, or one side of a send and receive, on one rank. Texts are interned. */
typedef struct lk_hang_call {
	uint32_t group, operation, shape, where;
	int rank;
	bool p2p, completed;
	int from, to; /* p2p: ranks in the group; -1 */
	int64_t sequence;
	double created_ns; /* 0: not known */
	double timeout_ms;
} lk_hang_call;

typedef struct lk_hang_group {
	uint32_t name;       /* interned: "0 (default_pg)" */
	lk_rank_set members; /* sorted once all are known */
	bool described;      /* its members are stated */
} lk_hang_group;

typedef struct lk_hang {
	lk_mortem *work;
	lk_arena scratch; /* of the file that is being read */
	lk_intern *texts;
	LK_VEC(uint32_t) group_of_text; /* by interned name: 1 + the index of the group; 0: none */
	LK_VEC(lk_hang_call) calls;
	LK_VEC(lk_hang_group) groups;
	LK_VEC(struct lk_stuck) stuck;
	lk_rank_set dumped; /* ranks of which something is known; sorted once all are */
	int world;
	bool timeouts; /* calls are those that timed out: a rank at an earlier one is late */
	struct lk_rank_state *rank; /* [world] */
} lk_hang;

/* The group of this name and description; NULL when memory runs out. */
lk_hang_group *lk_hang_group_named(lk_hang *hang, const char *name, const char *what);
/* Add a member; false when memory runs out, here and below. Ranks that cannot be are left out. */
bool lk_hang_member(lk_hang *hang, lk_hang_group *group, double rank);
bool lk_ranks_add(lk_rank_set *set, int rank);
/* Write the rows and sentences of the answer, once all calls are known. */
lk_status lk_hang_find(lk_hang *hang, lk_error *err);
void lk_hang_free(lk_hang *hang);

/* flight.c: dumps of all ranks, which it loads. */
lk_status lk_mortem_flight(lk_mortem *work, const lk_mortem_file *files, size_t count,
                           lk_error *err);
/* timeouts.c: messages of PyTorch's watchdog in logs of all ranks, which it loads. */
lk_status lk_mortem_timeouts(lk_mortem *work, const lk_mortem_file *files, size_t count,
                             lk_error *err);
/* Whether a log has such a message. */
bool lk_mortem_has_timeouts(const char *text, size_t size);

/* ---- frames.c: stacks of PyTorch: [{filename, line, name}], the innermost first ---- */

/* The innermost frame outside of PyTorch and of generated code as "train.py:12", in the arena; ""
 * where there is none, NULL when memory runs out. `function` may be NULL. */
const char *lk_frames_where(lk_arena *arena, const lk_value *frames, const char **function);
/* The frame itself; NULL: none. */
const lk_value *lk_frames_user(const lk_value *frames);

/* Kinds of what was allocated, X(symbol, name). */
#define LK_HELD_KINDS(X)                       \
	X(PARAMETERS, "parameters")                \
	X(UNSHARDED, "unsharded parameters")       \
	X(GRADIENTS, "gradients")                  \
	X(OPTIMIZER, "optimizer states")           \
	X(OPTIMIZER_WORK, "work of the optimizer") \
	X(ACTIVATIONS, "activations")              \
	X(COMMUNICATION, "communication")          \
	X(OTHER, "other")                          \
	X(UNKNOWN, "unknown")
typedef enum lk_held_kind {
#define LK_HELD_SYMBOL(symbol, name) LK_HELD_##symbol,
	LK_HELD_KINDS(LK_HELD_SYMBOL) LK_HELDS,
#undef LK_HELD_SYMBOL
} lk_held_kind;
extern const char *const lk_held_names[LK_HELDS];

/* The kind of an allocation with this stack, which is not empty. */
lk_held_kind lk_frames_kind(const lk_value *frames);

#endif
