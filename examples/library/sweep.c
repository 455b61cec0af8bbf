/* sweep.c: many predictions, in threads, as a table of its own: one row for each number of GPUs,
 * one column for each degree of tensor parallelism, tokens per second and GPU in the cells.
 *
 *     ./sweep MODEL GPU
 */
#include <pthread.h>
#include <stdio.h>
#include <lockstep/predict.h>

enum { ROWS = 4, COLUMNS = 4, CELLS = ROWS * COLUMNS, THREADS = 2 };

static const int gpus[ROWS] = {16, 32, 64, 128}, tp[COLUMNS] = {1, 2, 4, 8};

/* A cell: the rate, or why there is none. */
typedef struct cell {
	double rate;
	char why[8];
} cell;

typedef struct sweep {
	const char *model, *gpu;
	cell cells[CELLS];
} sweep;

/* What a thread does of it: every cell from `first` on, THREADS apart. */
typedef struct part {
	sweep *all;
	int first;
} part;

static void fill(const sweep *s, int index, cell *out) {
	lk_predict_request request;
	lk_prediction *prediction;
	lk_error err;

	lk_predict_defaults(&request);
	request.model = s->model, request.gpu = s->gpu;
	request.gpus = gpus[index / COLUMNS], request.tp = tp[index % COLUMNS];
	request.gbs = 128, request.seq = 4096, request.zero = "1";
	request.no_fixes = true; /* nobody looks at them here, and they cost several predictions */
	if (lk_predict(&request, &prediction, &err) != LK_OK) {
		snprintf(out->why, sizeof out->why, "-");
		return;
	}
	out->rate = prediction->tokens_per_s_per_gpu;
	if (!prediction->fits) snprintf(out->why, sizeof out->why, "memory");
	lk_predict_free(prediction);
}

static void *work(void *context) {
	const part *p = context;
	for (int i = p->first; i < CELLS; i += THREADS) fill(p->all, i, &p->all->cells[i]);
	return NULL;
}

int main(int argc, char **argv) {
	static sweep s;
	pthread_t threads[THREADS];
	part parts[THREADS];

	if (argc < 3) {
		fprintf(stderr, "usage: %s MODEL GPU\n", argv[0]);
		return 2;
	}
	s.model = argv[1], s.gpu = argv[2];
	for (int i = 0; i < THREADS; i++) {
		parts[i] = (part){&s, i};
		if (pthread_create(&threads[i], NULL, work, &parts[i]) != 0) return 2;
	}
	for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);

	printf("tokens/s per GPU, %s on %s\n%6s", s.model, s.gpu, "GPUs");
	for (int c = 0; c < COLUMNS; c++) printf("    TP %2d", tp[c]);
	putchar('\n');
	for (int i = 0; i < CELLS; i++) {
		if (i % COLUMNS == 0) printf("%6d", gpus[i / COLUMNS]);
		if (s.cells[i].why[0]) printf("  %8s", s.cells[i].why);
		else printf("  %8.0f", s.cells[i].rate);
		if (i % COLUMNS == COLUMNS - 1) putchar('\n');
	}
	return 0;
}
