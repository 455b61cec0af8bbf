/* ops.h: the number formats and the table of operations of a program. */
#ifndef LK_LANG_TYPES_OPS_H
#define LK_LANG_TYPES_OPS_H

#include <stdint.h>

/* X(symbol, name, bits). The last two are literals and size(): they take the format of the other
 * operand. */
/* clang-format off */
#define LC_DTYPES(X)                                                                                      \
	X(F64, "f64", 64) X(F32, "f32", 32) X(F16, "f16", 16) X(BF16, "bf16", 16) X(F8, "f8", 8)              \
	X(I64, "i64", 64) X(I32, "i32", 32) X(I16, "i16", 16) X(I8, "i8", 8) X(U64, "u64", 64)                \
	X(U32, "u32", 32) X(U16, "u16", 16) X(U8, "u8", 8) X(BOOL, "bool", 8)                                 \
	X(WEAK_INT, "integer", 0) X(WEAK_REAL, "number", 0)
/* clang-format on */
typedef enum lc_dtype {
#define LC_SYMBOL(symbol, name, bits) LC_##symbol,
	LC_DTYPES(LC_SYMBOL) LC_DTYPE_COUNT,
#undef LC_SYMBOL
} lc_dtype;

typedef enum lc_family {
	LC_LEAF,     /* input, state, scalar, constant, size */
	LC_MAP,      /* pointwise, with broadcasting */
	LC_DROP,     /* dropout */
	LC_CONTRACT, /* matmul, conv2d */
	LC_ROWS,     /* gather_rows, add_rows */
	LC_ATTEND,   /* attention without stored scores, and its gradients */
	LC_BLOCK,    /* lines sorted, matrices factored */
	LC_VIEW,     /* moved elements: transpose, parts, join, ...; iota, cumsum */
	LC_RED,      /* reductions over dims */
	LC_TOTALS,   /* the sum over a list */
	LC_COMM,     /* collectives, and changes of layout that move nothing */
	LC_MOVE,     /* send */
	LC_EFFECT,   /* update, out */
} lc_family;

/* The arguments of a call, in order. Those after LC_A_OPTIONAL may be omitted, and repeated. */
typedef enum lc_argument {
	LC_A_END,
	LC_A_NO_CALL = LC_A_END, /* the operation has a syntax of its own */
	LC_A_OPERAND,
	LC_A_DTYPE,
	LC_A_PROBABILITY,
	LC_A_KEY,       /* key=INTEGER */
	LC_A_REDUCTION, /* sum, max, min */
	LC_A_AXIS,
	LC_A_DIM,
	LC_A_OTHER_DIM,
	LC_A_ROOT,  /* root=INTEGER */
	LC_A_SHIFT, /* shift=INTEGER */
	LC_A_COUNT, /* a size */
	LC_A_SIZES, /* sizes up to the end; for operations of composed.c */
	LC_A_OPTIONAL,
	LC_A_TRANSPOSES = LC_A_OPTIONAL, /* ta, tb */
	LC_A_WINDOW,                     /* stride=INTEGER, pad=INTEGER */
	LC_A_DIMS,                       /* dims, and keep */
	LC_A_REVERSE,                    /* reverse */
	LC_A_MASK,                       /* causal, window=INTEGER, scale=NUMBER, part */
} lc_argument;

enum { LC_ARGUMENTS = 7 };
#define LC_A_TENSORS_2 LC_A_OPERAND, LC_A_OPERAND
#define LC_A_TENSORS_3 LC_A_OPERAND, LC_A_TENSORS_2

/* X(symbol, name, family, operands, arguments ...): the table of operations. Hashes in files of
 * wisdom depend on their order: append new ones. */
/* clang-format off */
#define LC_OPS(X) \
	X(INPUT,        "in",            LEAF,     0, LC_A_NO_CALL) \
	X(STATE,        "state",         LEAF,     0, LC_A_NO_CALL) \
	X(SCALAR,       "scalar",        LEAF,     0, LC_A_NO_CALL) \
	X(CONST,        "constant",      LEAF,     0, LC_A_NO_CALL) \
	X(SIZE,         "size",          LEAF,     0, LC_A_NO_CALL) \
	X(ADD,          "+",             MAP,      2, LC_A_NO_CALL) \
	X(SUB,          "-",             MAP,      2, LC_A_NO_CALL) \
	X(MUL,          "*",             MAP,      2, LC_A_NO_CALL) \
	X(DIV,          "/",             MAP,      2, LC_A_NO_CALL) \
	X(POW,          "^",             MAP,      2, LC_A_NO_CALL) \
	X(LT,           "<",             MAP,      2, LC_A_NO_CALL) \
	X(LE,           "<=",            MAP,      2, LC_A_NO_CALL) \
	X(GT,           ">",             MAP,      2, LC_A_NO_CALL) \
	X(GE,           ">=",            MAP,      2, LC_A_NO_CALL) \
	X(EQ,           "==",            MAP,      2, LC_A_NO_CALL) \
	X(NE,           "!=",            MAP,      2, LC_A_NO_CALL) \
	X(NEG,          "neg",           MAP,      1, LC_A_NO_CALL) \
	X(COPY,         "copy",          MAP,      1, LC_A_OPERAND) \
	X(MIN,          "minimum",       MAP,      2, LC_A_OPERAND, LC_A_OPERAND) \
	X(MAX,          "maximum",       MAP,      2, LC_A_OPERAND, LC_A_OPERAND) \
	X(SQRT,         "sqrt",          MAP,      1, LC_A_OPERAND) \
	X(EXP,          "exp",           MAP,      1, LC_A_OPERAND) \
	X(LOG,          "log",           MAP,      1, LC_A_OPERAND) \
	X(TANH,         "tanh",          MAP,      1, LC_A_OPERAND) \
	X(ERF,          "erf",           MAP,      1, LC_A_OPERAND) \
	X(RELU,         "relu",          MAP,      1, LC_A_OPERAND) \
	X(GELU,         "gelu",          MAP,      1, LC_A_OPERAND) \
	X(SIGMOID,      "sigmoid",       MAP,      1, LC_A_OPERAND) \
	X(ABS,          "abs",           MAP,      1, LC_A_OPERAND) \
	X(SIN,          "sin",           MAP,      1, LC_A_OPERAND) \
	X(COS,          "cos",           MAP,      1, LC_A_OPERAND) \
	X(EXP2,         "exp2",          MAP,      1, LC_A_OPERAND) \
	X(ROUND,        "round",         MAP,      1, LC_A_OPERAND) \
	X(SELECT,       "select",        MAP,      3, LC_A_OPERAND, LC_A_OPERAND, LC_A_OPERAND) \
	X(CAST,         "cast",          MAP,      1, LC_A_DTYPE, LC_A_OPERAND) \
	X(DROPOUT,      "dropout",       DROP,     1, LC_A_OPERAND, LC_A_PROBABILITY, LC_A_KEY) \
	X(MATMUL,       "matmul",        CONTRACT, 2, LC_A_OPERAND, LC_A_OPERAND, LC_A_TRANSPOSES) \
	X(CONV2D,       "conv2d",        CONTRACT, 2, LC_A_OPERAND, LC_A_OPERAND, LC_A_WINDOW) \
	X(GATHER_ROWS,  "gather_rows",   ROWS,     2, LC_A_OPERAND, LC_A_OPERAND) \
	X(ADD_ROWS,     "add_rows",      ROWS,     2, LC_A_OPERAND, LC_A_OPERAND, LC_A_COUNT) \
	X(TRANSPOSE,    "transpose",     VIEW,     1, LC_A_OPERAND, LC_A_DIM, LC_A_OTHER_DIM) \
	X(PARTS,        "parts",         VIEW,     1, LC_A_OPERAND, LC_A_DIM, LC_A_COUNT) \
	X(JOIN,         "join",          VIEW,     1, LC_A_OPERAND, LC_A_DIM) \
	X(SPREAD,       "spread",        VIEW,     1, LC_A_OPERAND, LC_A_DIM, LC_A_COUNT) \
	X(FIRST_OF,        "first",         VIEW,     1, LC_A_OPERAND, LC_A_DIM, LC_A_COUNT) \
	X(LAST_OF,         "last",          VIEW,     1, LC_A_OPERAND, LC_A_DIM, LC_A_COUNT) \
	X(CONCAT,       "concat",        VIEW,     2, LC_A_OPERAND, LC_A_OPERAND, LC_A_DIM) \
	X(CUMSUM,       "cumsum",        VIEW,     1, LC_A_OPERAND, LC_A_DIM, LC_A_REVERSE) \
	X(IOTA,         "iota",          VIEW,     0, LC_A_DTYPE, LC_A_COUNT) \
	X(RED_SUM,      "sum",           RED,      1, LC_A_OPERAND, LC_A_DIMS) \
	X(RED_MAX,      "max",           RED,      1, LC_A_OPERAND, LC_A_DIMS) \
	X(RED_MIN,      "min",           RED,      1, LC_A_OPERAND, LC_A_DIMS) \
	X(RED_MEAN,     "mean",          RED,      1, LC_A_OPERAND, LC_A_DIMS) \
	X(RED_NORM,     "norm",          RED,      1, LC_A_OPERAND, LC_A_DIMS) \
	X(TOTAL,        "total",         TOTALS,   1, LC_A_OPERAND) \
	X(SLICE,        "slice",         COMM,     1, LC_A_OPERAND, LC_A_DIM, LC_A_AXIS) \
	X(ALLREDUCE,    "allreduce",     COMM,     1, LC_A_OPERAND, LC_A_REDUCTION, LC_A_AXIS) \
	X(REDUCESCATTER,"reducescatter", COMM,     1, LC_A_OPERAND, LC_A_REDUCTION, LC_A_AXIS, LC_A_DIM) \
	X(ALLGATHER,    "allgather",     COMM,     1, LC_A_OPERAND, LC_A_DIM, LC_A_AXIS) \
	X(ALLTOALL,     "alltoall",      COMM,     1, LC_A_OPERAND, LC_A_DIM, LC_A_OTHER_DIM, LC_A_AXIS) \
	X(BROADCAST,    "broadcast",     COMM,     1, LC_A_OPERAND, LC_A_AXIS) \
	X(REDUCE,       "reduce",        COMM,     1, LC_A_OPERAND, LC_A_REDUCTION, LC_A_AXIS, LC_A_ROOT) \
	X(PERMUTE,      "permute",       COMM,     1, LC_A_OPERAND, LC_A_AXIS, LC_A_SHIFT) \
	X(LOCAL,        "local",         COMM,     1, LC_A_OPERAND, LC_A_AXIS) \
	X(SLICED,       "sliced",        COMM,     1, LC_A_OPERAND, LC_A_DIM, LC_A_AXIS) \
	X(PARTIAL,      "partial",       COMM,     1, LC_A_OPERAND, LC_A_REDUCTION, LC_A_AXIS) \
	X(SEND,         "send",          MOVE,     1, LC_A_NO_CALL) \
	X(UPDATE,       "<-",            EFFECT,   2, LC_A_NO_CALL) \
	X(OUT,          "out",           EFFECT,   1, LC_A_NO_CALL) \
	X(ATTENTION,    "attention",     ATTEND,   3, LC_A_TENSORS_3, LC_A_MASK) \
	X(ATTENTION_LSE,"attention_lse", ATTEND,   2, LC_A_OPERAND, LC_A_OPERAND, LC_A_MASK) \
	X(ATTENTION_MORE, "attention_more", ATTEND, 5, LC_A_TENSORS_3, LC_A_TENSORS_2, \
	  LC_A_MASK) \
	X(ATTENTION_LSE_MORE, "attention_lse_more", ATTEND, 3, LC_A_TENSORS_3, \
	  LC_A_MASK) \
	X(ATTENTION_DQ, "attention_dq",  ATTEND,   6, LC_A_TENSORS_3, LC_A_TENSORS_3, LC_A_MASK) \
	X(ATTENTION_DK, "attention_dk",  ATTEND,   6, LC_A_TENSORS_3, LC_A_TENSORS_3, LC_A_MASK) \
	X(ATTENTION_DV, "attention_dv",  ATTEND,   6, LC_A_TENSORS_3, LC_A_TENSORS_3, LC_A_MASK) \
	X(SORT,         "sort",          BLOCK,    1, LC_A_OPERAND, LC_A_DIM, LC_A_REVERSE) \
	X(ARGSORT,      "argsort",       BLOCK,    1, LC_A_OPERAND, LC_A_DIM, LC_A_REVERSE) \
	X(CHOLESKY,     "cholesky",      BLOCK,    1, LC_A_OPERAND) \
	X(QR_Q,         "qr_q",          BLOCK,    1, LC_A_OPERAND) \
	X(QR_R,         "qr_r",          BLOCK,    1, LC_A_OPERAND) \
	X(EIGH_VALUES,  "eigh_values",   BLOCK,    1, LC_A_OPERAND) \
	X(EIGH_VECTORS, "eigh_vectors",  BLOCK,    1, LC_A_OPERAND)
/* clang-format on */
typedef enum lc_op {
#define LC_SYMBOL(symbol, ...) LC_##symbol,
	LC_OPS(LC_SYMBOL) LC_OP_COUNT,
#undef LC_SYMBOL
} lc_op;

typedef struct lc_op_row {
	const char *name;
	lc_family family;
	int operands;
	uint8_t arguments[LC_ARGUMENTS + 1]; /* lc_argument; LC_A_END after the last */
} lc_op_row;
extern const lc_op_row lc_ops[LC_OP_COUNT];

typedef enum lc_reduce { LC_SUM, LC_RMAX, LC_RMIN, LC_REDUCES } lc_reduce;

#endif
