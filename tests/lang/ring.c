/* ring.c: data/target/mpi_ring.h against what it stands for, computed from the definition: drawn
 * tensors, lists, dims, uneven slices, small subs. Values are whole numbers, so that every order of
 * additions gives the same. mpirun -np P ring [DRAWS [SEED]] */
#include <mpi.h>

#include "../../data/target/mpi_ring.h"
#include "../../data/target/mpi_ring_run.h"

enum { ITEMS = 5, GATHERS = 3 };

typedef struct trial {
	rt_ring ring;
	rt_ring_item item[ITEMS];
	int32_t *ready[ITEMS]; /* copies of parts that produce hands out */
	int64_t passed, came;  /* elements that the pass and arrive have seen */
	int seen;              /* items that the pass has begun */
	int wrong;
} trial;

static uint64_t mix(uint64_t x) {
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u, x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static int64_t draw(uint64_t *state, int64_t low, int64_t high) {
	*state += 0x9e3779b97f4a7c15u;
	return low + (int64_t)(mix(*state) % (uint64_t)(high - low + 1));
}

static int32_t summand(int rank, int item, int64_t i) {
	return (int32_t)(mix((uint64_t)(rank * 64 + item) << 40 | (uint64_t)i) % 1000);
}
static int64_t total(const trial *t, int item, int64_t i) {
	int64_t sum = 0;
	for (int r = 0; r < t->ring.ranks && t->ring.part_size; r++) sum += summand(r, item, i);
	return t->ring.part_size ? sum : summand(0, item, i);
}

static void add(void *sum, const void *mine, int64_t count) {
	int32_t *to = sum;
	for (int64_t i = 0; i < count; i++) to[i] += ((const int32_t *)mine)[i];
}

/* What the pass writes for gather j: of other sizes than the sums. */
static void last(void *self, const void *arrived, const rt_ring_piece *piece) {
	trial *t = self;
	const int32_t *mine = t->item[piece->item].parts;
	if (piece->begin == 0 && t->seen++ != piece->item) t->wrong++; /* each once, in order */
	for (int64_t i = 0; i < piece->count; i++) {
		int64_t at = piece->at + i,
				others = arrived ? ((const int32_t *)arrived)[i] : 0, /* none on one rank */
			sum = mine ? others + (int64_t)mine[at] : total(t, piece->item, at);
		if (sum != total(t, piece->item, at)) t->wrong++;
		for (int j = 0; j < t->ring.gathers; j++)
			if (j % 2) ((int64_t *)t->item[piece->item].whole[j])[at] = sum * 3 + j;
			else ((int16_t *)t->item[piece->item].whole[j])[at] = (int16_t)(sum + j);
		t->passed++;
	}
}

static void produce(rt_ring *ring, int64_t sub, int64_t subs, int chunk) {
	trial *t = ring->self;
	rt_ring_path walk = rt_ring_walk_on(ring, sub, subs, chunk);
	rt_ring_piece piece;
	while (rt_ring_next(ring, &walk, &piece)) {
		memcpy((int32_t *)t->item[piece.item].parts + piece.at, t->ready[piece.item] + piece.at,
		       (size_t)piece.count * 4);
		rt_ring_poke(ring);
	}
}

static bool right(const trial *t, int item, int j, int64_t at) {
	int64_t sum = total(t, item, at);
	return j % 2 ? ((int64_t *)t->item[item].whole[j])[at] == sum * 3 + j
	             : ((int16_t *)t->item[item].whole[j])[at] == (int16_t)(sum + j);
}

static void arrive(rt_ring *ring, int64_t sub, int chunk) {
	trial *t = ring->self;
	rt_ring_path walk = rt_ring_walk(ring, sub, chunk);
	rt_ring_piece piece;
	while (rt_ring_next(ring, &walk, &piece)) {
		for (int64_t i = 0; i < piece.count; i++)
			t->wrong += !right(t, piece.item, 0, piece.at + i);
		t->came += piece.count;
		rt_ring_poke(ring);
	}
}

static void prepare(trial *t, uint64_t *state, int rank) {
	bool scatters = draw(state, 0, 3) > 0, makes = draw(state, 0, 1), big = draw(state, 0, 9) == 0;
	t->ring =
		(rt_ring){.comm = MPI_COMM_WORLD, .item = t->item, .self = t, .add = add, .last = last};
	t->ring.items = (int)draw(state, 1, ITEMS),
	t->ring.gathers = (int)draw(state, !scatters, GATHERS);
	t->ring.part_size = scatters ? 4 : 0;
	t->ring.bucket = draw(state, 0, 1) * draw(state, 100, 20000),
	t->ring.sub_bytes = draw(state, 16, 4000);
	t->ring.by_rows = draw(state, 0, 2) == 0, t->ring.subs = draw(state, 0, 1) * draw(state, 1, 9);
	if (scatters && makes) t->ring.produce = produce;
	if (t->ring.gathers && draw(state, 0, 1)) t->ring.arrive = arrive;
	for (int j = 0; j < GATHERS; j++) t->ring.whole_size[j] = j % 2 ? 8 : 2;
	for (int i = 0; i < t->ring.items; i++) {
		rt_ring_item *item = &t->item[i];
		*item = (rt_ring_item){0};
		item->outer = draw(state, 1, 4);
		int longest = draw(state, 0, 1) ? 60 : 3;
		item->extent = draw(state, 1, big ? 30000 : longest);
		item->inner = draw(state, 1, 4);
		size_t n = (size_t)(item->outer * item->extent * item->inner);
		int32_t *parts = rt_ring_memory(n, 4);
		t->ready[i] = rt_ring_memory(n, 4);
		for (size_t k = 0; k < n; k++) t->ready[i][k] = summand(rank, i, (int64_t)k);
		if (!t->ring.produce) memcpy(parts, t->ready[i], n * 4);
		if (scatters) item->parts = parts;
		else free(parts);
		for (int j = 0; j < t->ring.gathers; j++)
			item->whole[j] = rt_ring_memory(n, t->ring.whole_size[j]);
	}
}

static int64_t judge(trial *t) {
	int64_t mine = 0, all = 0;
	for (int i = 0; i < t->ring.items; i++) {
		int64_t n = t->item[i].outer * t->item[i].extent * t->item[i].inner;
		all += n, mine += rt_ring_share(&t->ring, &t->item[i], t->ring.rank);
		for (int j = 0; j < t->ring.gathers; j++)
			for (int64_t k = 0; k < n; k++) t->wrong += !right(t, i, j, k);
		for (int j = 0; j < t->ring.gathers; j++) free(t->item[i].whole[j]);
		free((void *)t->item[i].parts);
		free(t->ready[i]);
	}
	return t->wrong + (t->seen != t->ring.items) + (t->passed != mine) +
	       (t->ring.arrive && t->came != all);
}

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	int rank, ranks, wrong = 0, draws = argc > 1 ? atoi(argv[1]) : 100;
	uint64_t state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	rt_ring_pool pool = {NULL, 0};
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int i = 0; i < draws; i++) {
		trial t = {.passed = 0};
		uint64_t before = state;
		prepare(&t, &state, rank);
		t.ring.pool = &pool;
		rt_ring_run(&t.ring);
		int64_t bad = judge(&t);
		if (bad)
			printf("rank %d of %d, draw %d (seed %llu): %lld wrong\n", rank, ranks, i,
			       (unsigned long long)before, (long long)bad);
		wrong += bad > 0;
	}
	free(pool.at);
	MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0 && !wrong) printf("%d ranks: %d draws right\n", ranks, draws);
	MPI_Finalize();
	return wrong > 0;
}
