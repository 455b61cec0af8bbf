/* lang_adam.c: the fused Adam step that lockstep writes, against an all-reduce by each of the MPI
 * library's algorithms and one vectorised loop. The generated source is included:
 * -DGENERATED='"adam.c"'. mpirun -np P lang_adam N ROUNDS: JSON lines {"what": .., "n": ..,
 * "seconds": [..]}, all in turn in each round.
 *
 * Open MPI chooses an algorithm when a communicator is made, by a control variable of MPI's tool
 * interface; with another library there is one baseline, its own choice.
 * coll_tuned_use_dynamic_rules must be set. */
#define LOCKSTEP_NO_MAIN
#include GENERATED

enum { ALGORITHMS = 7, WAYS = ALGORITHMS + 1 };

struct step {
	int64_t n;
	float *g, *sum, *w, *m, *v, *out;
	float lr, b1, b2, eps, t, ranks;
	MPI_Comm comm[ALGORITHMS];
	int algorithms;
	rt_run *fused;
};

/* The whole update in one pass, as a good implementation without fused communication does it. */
static void update(int64_t n, const float *restrict sum, float *restrict w, float *restrict m,
                   float *restrict v, float *restrict out, const struct step *step) {
	const float c1 = 1 - powf(step->b1, step->t), c2 = 1 - powf(step->b2, step->t), b1 = step->b1,
				b2 = step->b2, lr = step->lr, eps = step->eps, ranks = step->ranks;
	for (int64_t i = 0; i < n; i++) {
		float g = sum[i] / ranks, mean = b1 * m[i] + (1 - b1) * g,
			  square = b2 * v[i] + (1 - b2) * g * g;
		float x = w[i] - lr * (mean / c1) / (sqrtf(square / c2) + eps);
		m[i] = mean, v[i] = square, w[i] = x;
		if (out) out[i] = x;
	}
}

static void run_way(struct step *step, int way) {
	if (way == step->algorithms) {
		step->fused->schedule->run(step->fused);
		return;
	}
	MPI_Allreduce(step->g, step->sum, (int)step->n, MPI_FLOAT, MPI_SUM, step->comm[way]);
	update(step->n, step->sum, step->w, step->m, step->v, NULL, step);
}

/* One communicator for each algorithm; one in all where there is no such choice. */
static void open_algorithms(struct step *step) {
	MPI_T_cvar_handle handle;
	int provided, count = 0, index = -1, size;
	MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
	if (MPI_T_cvar_get_index("coll_tuned_allreduce_algorithm", &index) != MPI_SUCCESS) index = -1;
	if (index >= 0 && MPI_T_cvar_handle_alloc(index, NULL, &handle, &size) != MPI_SUCCESS)
		index = -1;
	for (; count < (index >= 0 ? ALGORITHMS : 1); count++) {
		if (index >= 0) MPI_T_cvar_write(handle, &count);
		MPI_Comm_dup(MPI_COMM_WORLD, &step->comm[count]);
	}
	step->algorithms = count;
}

static float *numbers(int64_t n, float low, float high, uint32_t seed) {
	float *x = aligned_alloc(64, ((size_t)n * sizeof *x + 63) / 64 * 64);
	if (!x) MPI_Abort(MPI_COMM_WORLD, 1);
	for (int64_t i = 0; i < n; i++)
		x[i] = low + (high - low) * (float)((uint32_t)(i * 2654435761u + seed) >> 8) * 0x1p-24f;
	return x;
}

/* Every way is timed right behind an untimed run of itself: the baselines share their memory, and
 * would each find it in the caches where the fused one's, which is its own, had been driven out by
 * them. */
static void measure(struct step *step, int rank, int rounds) {
	double *seconds = rt_ring_memory((size_t)(WAYS * rounds), sizeof *seconds);
	int ways = step->algorithms + 1;
	for (int round = -1; round < rounds; round++)
		for (int k = 0; k < ways; k++) {
			int way = (k + round + 1) % ways;
			run_way(step, way);
			MPI_Barrier(MPI_COMM_WORLD);
			double taken = MPI_Wtime(), longest;
			run_way(step, way);
			taken = MPI_Wtime() - taken;
			MPI_Allreduce(&taken, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
			if (round >= 0) seconds[way * rounds + round] = longest;
		}
	for (int way = 0; way < ways && rank == 0; way++) {
		printf("{\"what\":\"%s%d\",\"n\":%lld,\"seconds\":[",
		       way < step->algorithms ? "allreduce" : "fused", way < step->algorithms ? way : 0,
		       (long long)step->n);
		for (int i = 0; i < rounds; i++) printf("%s%.9g", i ? "," : "", seconds[way * rounds + i]);
		printf("]}\n");
	}
	free(seconds);
}

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	int rank, ranks, rounds = argc > 2 ? atoi(argv[2]) : 21;
	char error[RT_ERROR] = "";
	struct step s = {.n = argc > 1 ? atoll(argv[1]) : 1 << 20,
	                 .lr = 0.001f,
	                 .b1 = 0.9f,
	                 .b2 = 0.999f,
	                 .eps = 1e-8f,
	                 .t = 7};
	double scalars[] = {s.lr, s.b1, s.b2, s.eps, s.t};
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (s.n < 1 || s.n > INT_MAX || rounds < 1) MPI_Abort(MPI_COMM_WORLD, 2);
	rt_sizes sizes = {.axis = {ranks}, .dim = {s.n}, .scalar = scalars};
	s.ranks = (float)ranks;
	open_algorithms(&s);
	s.g = numbers(s.n, -1, 1, (uint32_t)rank), s.sum = numbers(s.n, 0, 0, 0),
	s.w = numbers(s.n, -1, 1, 7);
	s.m = numbers(s.n, -1, 1, 8), s.v = numbers(s.n, 0.1f, 1, 9);
	for (int i = 0; i < program.schedules; i++)
		if (strcmp(schedules[i].name, "fused") == 0)
			s.fused = rt_open(&program, &schedules[i], &sizes, false, MPI_COMM_WORLD, error);
	if (!s.fused) {
		fprintf(stderr, "%s\n", error);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	for (int v = 0; v < s.fused->schedule->values;
	     v++) { /* the same numbers as the baseline's, slices of them */
		rt_part *p = &s.fused->part[v][0];
		const rt_value *value = &s.fused->schedule->value[v];
		if (value->kind > RT_STATE) continue;
		const float *from = strcmp(value->name, "g") == 0   ? s.g
		                    : strcmp(value->name, "w") == 0 ? s.w
		                    : strcmp(value->name, "m") == 0 ? s.m
		                                                    : s.v;
		memcpy(p->data, from + p->begin[0], (size_t)p->count * sizeof *from);
	}
	measure(&s, rank, rounds);
	rt_close(s.fused);
	MPI_Finalize();
	return 0;
}
