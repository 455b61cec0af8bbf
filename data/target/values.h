/* ---- values of a program: what was open, how each lies over the ranks; the same for all targets ----------------- */

enum { RT_AXES = 4, RT_DIMS = 36 };

/* What was open in the program: numbers of dims, of the tensors of lists, of group indices, of scalars. */
typedef struct rt_sizes {
	int64_t axis[RT_AXES], dim[RT_DIMS], items[RT_DIMS], index[RT_DIMS];
	int64_t *each[RT_DIMS]; /* a list's dim: of each tensor */
	double *scalar;
} rt_sizes;

typedef enum rt_kind {
	RT_INPUT, RT_STATE,     /* memory that lasts */
	RT_OWN,                 /* memory of a run */
	RT_SHARED,              /* the memory of another value */
	RT_VIEW,                /* a slice of another value's memory, whose elements lie together */
	RT_SHAPE,               /* none: only extents */
} rt_kind;

/* How a tensor lies along an axis: everywhere, in slices of dim `dim` (rank r has slice r - turn), as parts of a sum,
 * maximum or minimum, at rank `turn` alone, or each rank has its own. */
typedef enum rt_way { RT_R, RT_S, RT_P, RT_ROOT, RT_L } rt_way;
typedef struct rt_layout {
	rt_way way;
	int dim, turn;
} rt_layout;

typedef struct rt_value {
	const char *name;
	rt_format format;
	int rank, list;         /* list -1: one tensor */
	rt_kind kind;
	int of;                 /* SHARED, VIEW: whose memory */
	rt_layout layout[RT_AXES];
	int group, index, offset; /* lives where the coordinate along axis `group` is index + offset; -1: everywhere, no index */
} rt_value;

typedef struct rt_schedule rt_schedule; /* one way to run the program: the target's */

typedef struct rt_named {
	const char *name;
	int64_t number;         /* axes: ranks, 0: any; dims: their list, -1: none; scalars: their format */
} rt_named;

typedef struct rt_program {
	const char *name;
	const rt_named *axis, *dim, *list, *index, *scalar; /* a NULL name ends */
	const rt_schedule *schedule;
	int schedules;
} rt_program;
