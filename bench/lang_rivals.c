/* lang_rivals.c: a program of lang_rivals.lk as lockstep writes it, all its schedules, against the
 * same step written by hand with MPI's collectives. The generated source is included:
 * -DGENERATED='"sgdm.c"' -DSGDM (or -DADAMW, -DSWIGLU with -DLOCKSTEP_BLAS).
 * mpirun -np P lang_rivals ROUNDS SIZE...: JSON lines {"what": .., "seconds": [..]}; all ways in
 * turn in each round, each after an untimed run of itself. What both leave is compared first. */
#define LOCKSTEP_NO_MAIN
#include GENERATED
#ifdef SWIGLU
#include <cblas.h>
#endif

enum {
	HANDS = 2, /* ways by hand */
	WAYS = HANDS + 4
};

struct rival {
	int rank, ranks;
	int64_t size[3]; /* as the program's dims */
	double scalar[6];
	float *result; /* of this rank, after a step */
	int64_t results;
};

static void *room(int64_t count, size_t size) {
	void *at = aligned_alloc(4096, ((size_t)count * size + 4096) / 4096 * 4096);
	if (!at) MPI_Abort(MPI_COMM_WORLD, 1);
	memset(at, 0, (size_t)count * size);
	return at;
}

/* Element i of an input or state, the same wherever it lies; parts of sums differ by rank. */
static float drawn(const char *name, int64_t i, int rank) {
	uint32_t u = (uint32_t)(i * 2654435761u) + (uint32_t)name[0] * 40503u + (uint32_t)rank * 7919u;
	u ^= u >> 15, u *= 0x2c1b3c6du, u ^= u >> 12;
	float x = (float)(u >> 8) * 0x1p-24f;
	return name[0] == 'g' || name[0] == 'x' ? x - 0.5f : 0.1f + x * 0.1f;
}

static float *numbers(const char *name, int64_t count, int rank) {
	float *x = room(count, sizeof *x);
	for (int64_t i = 0; i < count; i++) x[i] = drawn(name, i, rank);
	return x;
}

/* The part's elements as the whole tensor has them, whichever way it is sliced. */
static void fill_part(rt_part *part, const char *name, int rank) {
	for (int64_t i = 0; i < part->count; i++) {
		int64_t left = i, at = 0, step = 1;
		for (int d = part->rank; d-- > 0;) {
			at += (part->begin[d] + left % part->extent[d]) * step;
			left /= part->extent[d], step *= part->whole[d];
		}
		float x = drawn(name, at, rank);
		if (part->format == RT_BF16) ((uint16_t *)part->data)[i] = rt_to_bf16(x);
		else ((float *)part->data)[i] = x;
	}
}

/* ---- by hand ---- */

#if defined(SGDM)
static float *g, *sum, *w, *v;

static void rival_open(struct rival *rival) {
	int64_t n = rival->size[0];
	g = numbers("g", n, rival->rank), sum = room(n, 4), w = numbers("w", n, 0),
	v = numbers("v", n, 0);
	rival->scalar[0] = 0.01, rival->scalar[1] = 0.9;
	rival->result = w, rival->results = n;
}

static void update(int64_t n, const float *restrict s, float *restrict x, float *restrict y,
                   float scale, float lr, float mu) {
	for (int64_t i = 0; i < n; i++) {
		y[i] = mu * y[i] + s[i] * scale;
		x[i] -= lr * y[i];
	}
}

static void rival_step(struct rival *rival, int way) {
	int64_t n = rival->size[0], own = n / rival->ranks, at = own * rival->rank;
	float scale = 1.0f / (float)rival->ranks, lr = (float)rival->scalar[0],
		  mu = (float)rival->scalar[1];
	if (way == 0) {
		MPI_Allreduce(g, sum, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		update(n, sum, w, v, scale, lr, mu);
	} else {
		MPI_Reduce_scatter_block(g, sum, (int)own, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		update(own, sum, w + at, v + at, scale, lr, mu);
		MPI_Allgather(MPI_IN_PLACE, 0, MPI_FLOAT, w, (int)own, MPI_FLOAT, MPI_COMM_WORLD);
	}
}
#elif defined(ADAMW)
static uint16_t *g, *sum, *out;
static float *w, *m, *v;
static MPI_Op add;

static float wide(uint16_t x) {
	uint32_t u = (uint32_t)x << 16;
	float y;
	memcpy(&y, &u, sizeof y);
	return y;
}

static uint16_t narrow(float x) {
	uint32_t u;
	memcpy(&u, &x, sizeof u);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static void add_bf16(void *in, void *into, int *count, MPI_Datatype *type) {
	const uint16_t *restrict a = in;
	uint16_t *restrict b = into;
	(void)type;
	for (int i = 0; i < *count; i++) b[i] = narrow(wide(a[i]) + wide(b[i]));
}

static void rival_open(struct rival *rival) {
	int64_t n = rival->size[0];
	const double scalars[] = {0.001, 0.9, 0.999, 1e-8, 0.01, 7};
	float *draws = numbers("g", n, rival->rank);
	g = room(n, 2), sum = room(n, 2), out = room(n, 2);
	for (int64_t i = 0; i < n; i++) g[i] = narrow(draws[i]);
	free(draws);
	w = numbers("w", n, 0), m = numbers("m", n, 0), v = numbers("v", n, 0);
	MPI_Op_create(add_bf16, 1, &add);
	memcpy(rival->scalar, scalars, sizeof scalars);
	rival->result = w, rival->results = n;
}

static void update(const struct rival *rival, int64_t n, const uint16_t *restrict s,
                   float *restrict x, float *restrict mean, float *restrict square,
                   uint16_t *restrict copy) {
	const double *c = rival->scalar;
	const float lr = (float)c[0], b1 = (float)c[1], b2 = (float)c[2], eps = (float)c[3],
				keep = 1 - (float)(c[0] * c[4]);
	const float c1 = 1 / (1 - powf(b1, (float)c[5])), c2 = 1 / (1 - powf(b2, (float)c[5])),
				scale = 1.0f / (float)rival->ranks;
	for (int64_t i = 0; i < n; i++) {
		float d = wide(s[i]) * scale;
		mean[i] = b1 * mean[i] + (1 - b1) * d;
		square[i] = b2 * square[i] + (1 - b2) * d * d;
		x[i] = x[i] * keep - lr * (mean[i] * c1) / (sqrtf(square[i] * c2) + eps);
		copy[i] = narrow(x[i]);
	}
}

static void rival_step(struct rival *rival, int way) {
	int64_t n = rival->size[0], own = n / rival->ranks, at = own * rival->rank;
	if (way == 0) {
		MPI_Allreduce(g, sum, (int)n, MPI_UINT16_T, add, MPI_COMM_WORLD);
		update(rival, n, sum, w, m, v, out);
	} else {
		MPI_Reduce_scatter_block(g, sum, (int)own, MPI_UINT16_T, add, MPI_COMM_WORLD);
		update(rival, own, sum, w + at, m + at, v + at, out + at);
		MPI_Allgather(MPI_IN_PLACE, 0, MPI_UINT16_T, out, (int)own, MPI_UINT16_T, MPI_COMM_WORLD);
	}
}
#elif defined(SWIGLU)
static float *x, *gate, *up, *down, *z, *u, *part, *y;

/* Columns of the first matrices, rows of the last. */
static float *slice_of(const char *name, int64_t columns, int64_t r0, int64_t r1, int64_t c0,
                       int64_t c1) {
	float *at = room((r1 - r0) * (c1 - c0), 4);
	for (int64_t i = r0; i < r1; i++)
		for (int64_t j = c0; j < c1; j++)
			at[(i - r0) * (c1 - c0) + j - c0] = drawn(name, i * columns + j, 0);
	return at;
}

static void rival_open(struct rival *rival) {
	int64_t t = rival->size[0], h = rival->size[1], f = rival->size[2], own = f / rival->ranks,
			at = own * rival->rank;
	x = numbers("x", t * h, 0);
	gate = slice_of("gate", f, 0, h, at, at + own), up = slice_of("up", f, 0, h, at, at + own);
	down = slice_of("down", h, at, at + own, 0, h);
	z = room(t * own, 4), u = room(t * own, 4), part = room(t * h, 4), y = room(t * h, 4);
	rival->result = y, rival->results = t * h;
}

static void product(int64_t rows, int64_t columns, int64_t inner, const float *a, const float *b,
                    float *c) {
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, (int)columns, (int)inner, 1,
	            a, (int)inner, b, (int)columns, 0, c, (int)columns);
}

static void rival_step(struct rival *rival, int way) {
	int64_t t = rival->size[0], h = rival->size[1], own = rival->size[2] / rival->ranks;
	product(t, own, h, x, gate, z);
	product(t, own, h, x, up, u);
	for (int64_t i = 0; i < t * own; i++) z[i] = z[i] / (1 + expf(-z[i])) * u[i];
	product(t, h, own, z, down, part);
	if (way == 0) MPI_Allreduce(part, y, (int)(t * h), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	else {
		int64_t rows = t * h / rival->ranks;
		MPI_Reduce_scatter_block(part, y + rows * rival->rank, (int)rows, MPI_FLOAT, MPI_SUM,
		                         MPI_COMM_WORLD);
		MPI_Allgather(MPI_IN_PLACE, 0, MPI_FLOAT, y, (int)rows, MPI_FLOAT, MPI_COMM_WORLD);
	}
}
#endif

/* ---- both ---- */

static rt_run *open_schedule(const rt_schedule *schedule, const rt_sizes *sizes, int rank) {
	char error[RT_ERROR] = "";
	rt_run *run = rt_open(&program, schedule, sizes, false, MPI_COMM_WORLD, error);
	if (!run) {
		fprintf(stderr, "%s\n", error);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	for (int v = 0; v < schedule->values; v++) {
		const rt_value *value = &schedule->value[v];
		if (value->kind <= RT_STATE)
			fill_part(&run->part[v][0], value->name, value->layout[0].way == RT_P ? rank : 0);
	}
	return run;
}

/* The largest difference of the first state, or else the first output, from what was made by hand.
 */
static double apart(const rt_run *run, const struct rival *rival) {
	const rt_schedule *s = run->schedule;
	int v = s->results[0];
	for (int i = 0; i < s->values; i++)
		if (s->value[i].kind == RT_STATE && strcmp(s->value[i].name, "w") == 0) v = i;
	const rt_part *part = &run->part[v][0];
	const float *got = part->data,
				*wanted = rival->result + (part->count < rival->results ? part->begin[0] : 0);
	double most = 0, size = 0, all;
	for (int64_t i = 0; i < part->count; i++) {
		most = fmax(most, fabs((double)got[i] - (double)wanted[i]));
		size = fmax(size, fabs((double)wanted[i]));
	}
	most /= size;
	MPI_Allreduce(&most, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return all;
}

static void run_way(struct rival *rival, rt_run *const runs[], int way) {
	if (way < HANDS) rival_step(rival, way);
	else runs[way - HANDS]->schedule->run(runs[way - HANDS]);
}

int main(int argc, char **argv) {
	struct rival rival = {0};
	rt_run *runs[WAYS] = {NULL};
	static double seconds[WAYS][1000];
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rival.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &rival.ranks);
	int rounds = argc > 1 ? atoi(argv[1]) : 21, ways = HANDS + program.schedules;
	for (int i = 0; i < 3 && i + 2 < argc; i++) rival.size[i] = atoll(argv[i + 2]);
	if (rounds < 1 || rounds > 1000 || ways > WAYS || rival.size[0] < 1)
		MPI_Abort(MPI_COMM_WORLD, 2);
	rival_open(&rival);
	rt_sizes sizes = {.axis = {rival.ranks},
	                  .dim = {rival.size[0], rival.size[1], rival.size[2]},
	                  .scalar = rival.scalar};
	rival_step(&rival, 0);
	for (int i = 0; i < program.schedules; i++) {
		runs[i] = open_schedule(&schedules[i], &sizes, rival.rank);
		runs[i]->schedule->run(runs[i]);
		double far = apart(runs[i], &rival);
		if (far < 1e-5) continue;
		if (rival.rank == 0)
			fprintf(stderr, "%s is %g from what was made by hand\n", schedules[i].name, far);
		MPI_Abort(MPI_COMM_WORLD, 3);
	}
	for (int round = -1; round < rounds; round++)
		for (int k = 0; k < ways; k++) {
			int way = (k + round + 1) % ways;
			run_way(&rival, runs, way);
			MPI_Barrier(MPI_COMM_WORLD);
			double taken = MPI_Wtime(), longest;
			run_way(&rival, runs, way);
			taken = MPI_Wtime() - taken;
			MPI_Allreduce(&taken, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
			if (round >= 0) seconds[way][round] = longest;
		}
	for (int way = 0; way < ways && rival.rank == 0; way++) {
		static const char *const by_hand[HANDS] = {"by hand: all-reduce",
		                                           "by hand: reduce-scatter, all-gather"};
		const char *what = way < HANDS ? by_hand[way] : schedules[way - HANDS].name;
		printf("{\"what\":\"%s\",\"seconds\":[", what);
		for (int i = 0; i < rounds; i++) printf("%s%.9g", i ? "," : "", seconds[way][i]);
		printf("]}\n");
	}
	for (int i = 0; i < program.schedules; i++) rt_close(runs[i]);
	MPI_Finalize();
	return 0;
}
