/* ---- runtime: ranks, what they hold of tensors, memory ---- */

enum { RT_READY = 4, RT_SCRATCHES = 4 + RT_READY, RT_SUMS = 64 };

/* Two ways to run an overlap: beside each other, or one after the other. Which is faster depends on
 * the network and on what computes; it is tried in the first runs. */
#ifndef RT_FIRST_WAY
#define RT_FIRST_WAY 0
#endif
enum { RT_BESIDE, RT_AFTER, RT_WAYS, RT_TRIALS = 3, RT_CHOICES = 16 };
typedef struct rt_choice {
	double best[RT_WAYS];
	int runs;
} rt_choice;

/* Memory that grows as it is asked for. */
typedef struct rt_room {
	void *at;
	size_t size;
} rt_room;

struct rt_run {
	const rt_program *program;
	const rt_schedule *schedule;
	const rt_sizes *sizes;
	rt_mesh mesh;
	rt_part **part; /* [values][items] */
	char *memory;   /* of all values of their own */
	size_t bytes;
	void *scratch[RT_SCRATCHES];
	size_t room[RT_SCRATCHES];
	void *sum[RT_SUMS]; /* of reductions, while a pass runs */
	int64_t sums[RT_SUMS];
	rt_choice choice[RT_CHOICES]; /* of overlaps */
	rt_room *rooms;               /* of messages under way: rt_room_at */
	int room_count;
	rt_part ready[RT_READY]; /* rt_make_ready */
	/* looks at the messages that are under way beside a product; NULL: there are none */
	void (*poke)(void *poked);
	void *poked;
	MPI_Op op[RT_FORMATS][3];
	int64_t sent[RT_AXES]; /* bytes that left this rank along each axis */
};

/* What cannot go on, on one rank, ends all. */
RT_FUNCTION void rt_abort(const rt_run *run, const char *what) {
	fprintf(stderr, "%s: rank %d: %s\n", run->program->name, run->mesh.rank, what);
	MPI_Abort(run->mesh.all, 1);
	abort();
}

/* Memory between steps; what it held before is lost. */
RT_FUNCTION void *rt_scratch(rt_run *run, int which, size_t bytes) {
	if (bytes > run->room[which]) {
		free(run->scratch[which]);
		run->room[which] = bytes;
		run->scratch[which] = malloc(bytes);
		if (!run->scratch[which]) rt_abort(run, "out of memory");
	}
	return run->scratch[which];
}

/* The same for messages, of which there are as many as are asked for. */
RT_FUNCTION void *rt_room_at(rt_run *run, int which, size_t bytes) {
	if (which >= run->room_count) {
		rt_room *more = realloc(run->rooms, ((size_t)which + 1) * sizeof *more);
		if (!more) rt_abort(run, "out of memory");
		run->rooms = more;
		while (run->room_count <= which) run->rooms[run->room_count++] = (rt_room){NULL, 0};
	}
	rt_room *room = &run->rooms[which];
	if (bytes > room->size) {
		free(room->at);
		room->size = bytes, room->at = malloc(bytes);
		if (!room->at) rt_abort(run, "out of memory");
	}
	return room->at;
}

/* The way that a run goes; each is tried in turn. */
RT_FUNCTION int rt_way_of(const rt_choice *c) {
	if (c->runs < RT_WAYS * RT_TRIALS) return (c->runs + RT_FIRST_WAY) % RT_WAYS;
	return c->best[RT_AFTER] < c->best[RT_BESIDE] ? RT_AFTER : RT_BESIDE;
}

RT_FUNCTION void rt_took(rt_choice *c, int way, double seconds) {
	if (c->runs >= RT_WAYS * RT_TRIALS) return;
	if (c->runs < RT_WAYS || seconds < c->best[way]) c->best[way] = seconds;
	c->runs++;
}

/* Sums of 8 bytes each; they last over the calls of one pass. */
RT_FUNCTION void *rt_sums(rt_run *run, int which, int64_t count) {
	if (count > run->sums[which]) {
		free(run->sum[which]);
		run->sums[which] = count;
		run->sum[which] = calloc((size_t)count, 8);
		if (!run->sum[which]) rt_abort(run, "out of memory");
	}
	return run->sum[which];
}
