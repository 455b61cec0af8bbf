/* ---- values of a program: what was open, how each lies over the ranks; the same for all targets
 * ----------------- */

enum { RT_AXES = 4, RT_DIMS = 36, RT_RANK = 6, RT_ERROR = 256 };

/* What was open in the program: numbers of dims, of the tensors of lists, of group indices, of
 * scalars. */
typedef struct rt_sizes {
	int64_t axis[RT_AXES], dim[RT_DIMS], items[RT_DIMS], index[RT_DIMS];
	int64_t *each[RT_DIMS]; /* a list's dim: of each tensor */
	double *scalar;
} rt_sizes;

typedef enum rt_kind {
	RT_INPUT,
	RT_STATE,  /* memory that lasts */
	RT_OWN,    /* memory of a run */
	RT_SHARED, /* the memory of another value */
	RT_VIEW,   /* a slice of another value's memory, whose elements lie together */
	RT_SHAPE,  /* none: only extents */
} rt_kind;

/* How a tensor lies along an axis: everywhere, in slices of dim `dim` (rank r has slice r - turn),
 * as parts of a sum, maximum or minimum, at rank `turn` alone, or each rank has its own. */
typedef enum rt_way { RT_R, RT_S, RT_P, RT_ROOT, RT_L } rt_way;
typedef struct rt_layout {
	rt_way way;
	int dim, turn;
} rt_layout;

typedef struct rt_value {
	const char *name;
	rt_format format;
	int rank, list;  /* list -1: one tensor */
	unsigned across; /* dims along which slices cut across the list's tensors, as bits */
	rt_kind kind;
	int of; /* SHARED, VIEW: whose memory */
	rt_layout layout[RT_AXES];
	/* lives where the coordinate along axis `group` is index + offset; -1: everywhere, no index */
	int group, index, offset;
	/* OWN: the steps that write and last read it; -1: its memory is never another's */
	int first, last;
} rt_value;

/* Ranks along each axis, the last axis fastest; where this one stands; a communicator along each,
 * and of all where the target keeps it. */
typedef struct rt_mesh {
	int axes, ranks[RT_AXES], at[RT_AXES], rank, size;
	RT_COMM along[RT_AXES], all;
} rt_mesh;

/* What a rank holds of one tensor, in row-major order. */
typedef struct rt_part {
	RT_MEMORY *data;
	rt_format format;
	int rank;
	bool here; /* false: another group or root has it */
	int64_t whole[RT_RANK], begin[RT_RANK], extent[RT_RANK], count;
	/* Where slices cut across tensors: the rank's parts of all of them lie end to end, `all`
	 * elements along the dim, `ahead` of them before this part. Along other dims all is 0. */
	int64_t ahead[RT_RANK], all[RT_RANK];
} rt_part;

/* A value whose memory kernels reach on the other ranks along an axis. */
typedef struct rt_reached {
	int value, axis;
} rt_reached;

/* the target's: with program, schedule, sizes, mesh, and part[values][items] */
typedef struct rt_run rt_run;

/* One way to run the program. */
typedef struct rt_schedule {
	const char *name;
	int axes;
	const int *axis;  /* of each axis: the program's axis that it is part of */
	const int *ranks; /* of each axis: how many, 0: what is left of the program's axis */
	int values;
	const rt_value *value;
	/* Extents of a whole tensor; negative ones do not exist. */
	void (*shape)(const rt_sizes *sizes, const rt_mesh *mesh, int value, int64_t item,
	              int64_t whole[RT_RANK]);
	/* a condition that does not hold, or NULL */
	const char *(*wrong)(const rt_sizes *sizes, const rt_mesh *mesh);
	/* of drawn whole numbers */
	int64_t (*bound)(const rt_sizes *sizes, const rt_mesh *mesh, int value, int64_t item);
	void (*run)(rt_run *run);
	const int *results; /* outputs, then states; -1 ends */
	/* values that passes over memory read and write, -1 ends; NULL: nobody asks */
	const int *passes;
	const rt_reached *reached; /* value -1 ends; NULL: memory of others is not reached */
} rt_schedule;

typedef struct rt_named {
	const char *name;
	/* axes: ranks, 0: any; dims: their list, -1: none; scalars: their format */
	int64_t number;
} rt_named;

typedef struct rt_program {
	const char *name;
	const rt_named *axis, *dim, *list, *index, *scalar; /* a NULL name ends */
	const rt_schedule *schedule;
	int schedules;
} rt_program;
