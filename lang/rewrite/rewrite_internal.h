/* rewrite_internal.h: shared by rewrites: a new program that is filled value by value from an old
 * one; names of schedules as sets of values; error places at words of a directive. */
#ifndef LK_LANG_REWRITE_REWRITE_INTERNAL_H
#define LK_LANG_REWRITE_REWRITE_INTERNAL_H

#include "base/check.h"
#include "lang/rewrite/rewrite.h"

/* ---- build.c ---- */

typedef struct lc_build {
	const lc_program *from;
	lc_program *to;
	int *map;       /* [values of from] its value in `to`; -1: none yet */
	lk_arena arena; /* of one rewrite */
} lc_build;

/* Begin an empty program with the declarations and bundles of `from`. */
lk_status lc_build_open(lc_build *build, const lc_program *from, lk_error *err);
/* End it: hand the program over on success, else free it. Returns `status`. */
lk_status lc_build_close(lc_build *build, lk_status status, lc_program **out);
/* A value of `from` as a draft: operands mapped, fields derived by lc_add cleared. */
lc_node lc_build_draft(const lc_build *build, int id);
/* A draft of another operation on one value of `to`, belonging to the statement of `like`, without
 * a name. */
lc_node lc_build_on(lc_op op, const lc_node *like, int operand);
lk_status lc_build_copy(lc_build *build, int id, lk_error *err);
/* A copy of a whole program. */
lk_status lc_build_same(const lc_program *program, lc_program **out, lk_error *err);
/* A copy of a program whose values of the set belong to a new bundle. */
lk_status lc_add_bundle(const lc_program *program, const lc_directive *directive,
                        const uint8_t *set, lc_program **out, lk_error *err);

/* Count the readers of every value; a state's update is not a reader of the version before it. */
lk_status lc_count_uses(const lc_program *program, lk_arena *arena, int **out, lk_error *err);
/* The first operand that a value depends on; an update's operand 0 is only overwritten. */
static inline int lc_first_read(const lc_node *node) {
	return node->op == LC_UPDATE ? 1 : 0;
}
static inline bool lc_communicates(const lc_node *node) {
	return lc_is_collective(node) || node->op == LC_SEND;
}
/* Whether ranks of some axis hold different pieces of a dim. */
static inline bool lc_is_sliced(const lc_program *program, const lc_node *node, int d) {
	LK_ASSERT(d >= 0 && d < node->rank);
	for (int a = 0; a < program->axis_count; a++)
		if (node->layout[a].kind == LC_S && node->layout[a].dim == d) return true;
	return false;
}
static inline bool lc_is_leaf(const lc_node *node) {
	return lc_ops[node->op].family == LC_LEAF;
}

/* ---- parts.c: names ---- */

/* lc_wrong at a word. */
#define lc_word_wrong(p, w, err, ...) lc_wrong((p), (w)->line, (w)->column, (err), __VA_ARGS__)

uint8_t *lc_new_set(const lc_program *program,
                    lk_arena *arena); /* of its values, empty; NULL when memory runs out */
/* Add the values that a word denotes; an error if there are none. */
lk_status lc_mark(const lc_program *program, const lc_word *word, uint8_t *set, lk_error *err);
/* Check that a directive's new names are free. */
lk_status lc_names_new(const lc_program *program, const lc_directive *directive, lk_error *err);
/* A statement's name in messages: "gr", or "an output". */
const char *lc_part_name(const lc_node *node);

/* ---- rewrite_split.c ---- */

/* The one all-reduce of the statement that a word names. */
lk_status lc_find_reduction(const lc_program *program, const lc_word *word, int *id, lk_error *err);
/* The dim along which an all-reduce is scattered. */
lk_status lc_scatter_dim(const lc_program *program, const lc_directive *directive,
                         const lc_node *node, int *dim, lk_error *err);
/* Values that a directive divides must not be in a bundle yet. */
lk_status lc_need_unbundled(const lc_program *program, const lc_directive *directive, int id,
                            lk_error *err);

/* ---- gathers.c ---- */

/* Gathers (or broadcasts) to be moved, and the values to move them past. */
typedef struct lc_passage {
	const uint8_t *gathers, *past;
	const char *name;     /* name of the gathers in messages and for later directives */
	const lc_word *words; /* of the statements: an error is placed at the one concerned */
	int word_count;
	int line, column;
} lc_passage;
lk_status lc_move_gathers(const lc_program *program, const lc_passage *passage, lc_program **out,
                          lk_error *err);

/* ---- convex.c ---- */

/* Whether a set is convex; the error is placed at its directive. */
lk_status lc_check_convex(const lc_program *program, const uint8_t *set,
                          const lc_directive *directive, lk_error *err);

/* ---- bundles.c ---- */

/* A value's name in a directive of that kind. */
const char *lc_bundle_word(const lc_program *program, const lc_node *node, lc_directive_kind kind);
/* A node's field for its bundle of that kind; -1 in it: none. */
int16_t *lc_bundle_slot(lc_node *node, lc_directive_kind kind);
/* Drop bundles that a rewrite made useless: one tensor fills no bucket, one stage overlaps with
 * nothing. */
void lc_drop_idle_bundles(lc_program *program);

/* ---- rewrite_overlap.c ---- */

/* Whether all concurrent parts are still one stage each; the error is placed at the directive after
 * which they are not. */
lk_status lc_check_sides(const lc_program *program, const lc_directive *directive, lk_error *err);

/* ---- chunks.c ---- */

/* The dim of a value that dim d of its operand k becomes; -1: it is summed over, or repeated. */
int lc_dim_to(const lc_program *program, int id, int k, int d);
/* For each value of a set whose members feed each other, the dim along which it is cut, as
 * requested by a directive; -1 for those that every chunk needs whole, and for all if the chunks
 * are tensors of a list. */
lk_status lc_chunk_dims(const lc_program *program, const uint8_t *set,
                        const lc_directive *directive, int *dims, lk_error *err);

/* ---- directives; each makes a new program ---- */
typedef lk_status lc_rewriter(const lc_program *p, const lc_directive *d, lc_program **out,
                              lk_error *err);
lc_rewriter lc_rewrite_split, lc_rewrite_reorder, lc_rewrite_slice, lc_rewrite_fuse,
	lc_rewrite_overlap, lc_rewrite_bucket, lc_rewrite_hierarchical, lc_rewrite_recompute,
	lc_rewrite_attention;

/* ---- moves: a program as statements and passes, and directives made for a search. */

enum { LC_WORDS = 64 }; /* statements and passes that a search looks at */

typedef struct lc_mover {
	const lc_program *p;
	lc_moves *out;
	lk_arena scratch;
	int *word_of;                   /* [values] the word that names it; -1 */
	const char *word[LC_WORDS];     /* in the order of their first value */
	bool feeds[LC_WORDS][LC_WORDS]; /* a value of the first is read by the second */
	uint64_t
		shares[LC_WORDS]; /* words that read a common tensor, as bits: one pass reads it once */
	bool collective[LC_WORDS], overlapped[LC_WORDS];
	int count;
} lc_mover;

lk_status lc_mover_open(lc_mover *mover, const lc_program *program, lc_moves *out, lk_error *err);
void lc_mover_close(lc_mover *mover);
/* Make a directive on words, in the file's arena; NULL when memory runs out. */
lc_directive *lc_move(const lc_mover *mover, lc_directive_kind kind, const int *words, int count);
/* Give it `count` new names like these ("rs"). */
bool lc_move_names(const lc_mover *mover, lc_directive *directive, const char *const *names,
                   int count);
lk_status lc_move_add(lc_mover *mover, const lc_directive *directive, lk_error *err);
/* Test whether it applies. */
lk_status lc_move_try(lc_mover *mover, const lc_directive *directive, bool *applies, lk_error *err);

/* moves_bundles.c: moves that bundle the present values. */
lk_status lc_move_buckets(lc_mover *mover, lk_error *err);
lk_status lc_move_fuse(lc_mover *mover, lk_error *err);
lk_status lc_move_overlap(lc_mover *mover, lk_error *err);

#endif
