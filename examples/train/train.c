/* train.c: options, the ranks' layout, and the training loop: all micro-batches forward, then
 * backward; gradients of the data-parallel ranks are added bucket by bucket, at the end or
 * (--overlap) while the backward pass goes on. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train.h"

void openblas_set_num_threads(int threads);

typedef struct options {
	shape s;
	int dp, tp, pp, batch, micros, steps, write, decode, every;
	bool overlap, quiet;
	float rate;
	const char *data, *checkpoint;
} options;

typedef struct trainer {
	const options *o;
	layout l;
	dataset *data;
	model *model;
	int samples; /* of a micro-batch on this rank */
	float *x, *dy;
	int *classes;        /* [micros * samples] */
	MPI_Request *reduce; /* [blocks] */
	int reducing;
	bool last_micro;
} trainer;

_Noreturn void die(const char *what, const char *about) {
	int begun = 0;
	fprintf(stderr, "train: %s: %s\n", about, what);
	MPI_Initialized(&begun);
	if (begun) MPI_Abort(MPI_COMM_WORLD, 2);
	exit(2);
}

/* ---- options ---- */

static const char usage[] =
	"usage: train --data FILE [--write-data N] [--model mlp|transformer] [--dp N] [--tp N] [--pp "
	"N] [--overlap]\n"
	"             [--layers N] [--dim N] [--hidden N] [--heads N] [--seq N] [--batch N] [--micro "
	"N] [--steps N]\n"
	"             [--decode PASSES] [--checkpoint DIR] [--every STEPS] [--rate X] [--quiet]\n";

static void set_option(options *o, const char *name, const char *value) {
	struct {
		const char *name;
		int *at;
	} numbers[] = {{"dp", &o->dp},           {"tp", &o->tp},       {"pp", &o->pp},
	               {"layers", &o->s.layers}, {"dim", &o->s.dim},   {"hidden", &o->s.hidden},
	               {"heads", &o->s.heads},   {"seq", &o->s.seq},   {"batch", &o->batch},
	               {"micro", &o->micros},    {"steps", &o->steps}, {"write-data", &o->write},
	               {"decode", &o->decode},   {"every", &o->every}};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		if (strcmp(name, numbers[i].name) != 0) continue;
		char *end;
		long number = strtol(value, &end, 10);
		if (*end || number < 0 || number > 1 << 24) die("is no such number", value);
		*numbers[i].at = (int)number;
		return;
	}
	if (strcmp(name, "data") == 0) o->data = value;
	else if (strcmp(name, "checkpoint") == 0) o->checkpoint = value;
	else if (strcmp(name, "rate") == 0) o->rate = strtof(value, NULL);
	else if (strcmp(name, "overlap") == 0) o->overlap = true;
	else if (strcmp(name, "quiet") == 0) o->quiet = true;
	else if (strcmp(value, "mlp") == 0 || strcmp(value, "transformer") == 0)
		o->s.attention = *value == 't';
	else die("is no model", value);
}

static options read_options(int argc, char **argv) {
	static const struct option names[] = {
		{"dp", 1, 0, 0},         {"tp", 1, 0, 0},    {"pp", 1, 0, 0},
		{"layers", 1, 0, 0},     {"dim", 1, 0, 0},   {"hidden", 1, 0, 0},
		{"heads", 1, 0, 0},      {"seq", 1, 0, 0},   {"batch", 1, 0, 0},
		{"micro", 1, 0, 0},      {"steps", 1, 0, 0}, {"write-data", 1, 0, 0},
		{"decode", 1, 0, 0},     {"every", 1, 0, 0}, {"data", 1, 0, 0},
		{"checkpoint", 1, 0, 0}, {"rate", 1, 0, 0},  {"overlap", 0, 0, 0},
		{"quiet", 0, 0, 0},      {"model", 1, 0, 0}, {0}};
	options o = {.s = {.layers = 4, .dim = 64, .hidden = 256, .heads = 4, .seq = 16},
	             .dp = 1,
	             .tp = 1,
	             .pp = 1,
	             .batch = 16,
	             .micros = 2,
	             .steps = 20,
	             .decode = 4,
	             .every = 10,
	             .rate = 0.05f};
	for (int at, code; (code = getopt_long(argc, argv, "", names, &at)) != -1;) {
		if (code != 0) fputs(usage, stderr), exit(2);
		set_option(&o, names[at].name, optarg);
	}
	if (!o.data || optind < argc) fputs(usage, stderr), exit(2);
	return o;
}

static void check(const options *o, int world) {
	int least = o->s.layers && o->s.dim && o->s.hidden && o->s.heads && o->s.seq && o->batch &&
	            o->micros && o->every;
	if (!least || !o->dp || !o->tp || !o->pp) die("must not be 0", "a size");
	if (o->dp * o->tp * o->pp != world) die("dp * tp * pp is not the number of ranks", "layout");
	if (o->s.layers % o->pp || o->s.heads % o->tp || o->s.hidden % o->tp || o->s.dim % o->s.heads)
		die("layers, heads and hidden must be multiples of what splits them, dim of heads",
		    "shape");
	if (o->batch % (o->dp * o->micros)) die("must be a multiple of dp * micro", "batch");
}

/* ---- layout ---- */

static layout make_layout(const options *o, int rank) {
	layout l = {.dp = o->dp, .tp = o->tp, .pp = o->pp};
	l.tp_rank = rank % o->tp, l.dp_rank = rank / o->tp % o->dp, l.pp_rank = rank / (o->tp * o->dp);
	int stage = o->tp * o->dp;
	l.before = l.pp_rank > 0 ? rank - stage : MPI_PROC_NULL;
	l.after = l.pp_rank < l.pp - 1 ? rank + stage : MPI_PROC_NULL;
	MPI_Comm_split(MPI_COMM_WORLD, l.pp_rank * o->dp + l.dp_rank, rank, &l.tp_comm);
	MPI_Comm_split(MPI_COMM_WORLD, l.pp_rank * o->tp + l.tp_rank, rank, &l.dp_comm);
	return l;
}

/* ---- a step ---- */

static int width(const trainer *t) {
	return t->samples * t->o->s.seq * t->o->s.dim;
}

/* The samples of this rank's micro-batch; only the first stage needs what is in them, only the last
 * their classes. */
static void load(trainer *t, int step, int micro) {
	int share = t->o->batch / t->o->dp;
	for (int i = 0; i < t->samples; i++) {
		int64_t index = (int64_t)step * t->o->batch + t->l.dp_rank * share + micro * t->samples + i;
		/* a walk that is no walk through the file: 7919 is a prime */
		float *x = t->x + (size_t)i * (size_t)(t->o->s.seq * t->o->s.dim);
		t->classes[micro * t->samples + i] = dataset_read(t->data, index * 7919, x);
	}
}

static double forward(trainer *t, int step, int micro) {
	bool first = t->l.pp_rank == 0, last = t->l.pp_rank == t->l.pp - 1;
	if (first || last) load(t, step, micro);
	if (!first)
		MPI_Recv(t->x, width(t), MPI_FLOAT, t->l.before, micro, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	const float *y = model_forward(t->model, micro, t->x);
	if (!last) MPI_Send(y, width(t), MPI_FLOAT, t->l.after, micro, MPI_COMM_WORLD);
	return last ? model_loss(t->model, micro, t->classes + micro * t->samples, t->o->batch) : 0;
}

static void block_done(void *context, int block) {
	trainer *t = context;
	int count;
	if (!t->o->overlap || !t->last_micro || t->l.dp == 1) return;
	float *gradients = model_gradients(t->model, block, &count);
	MPI_Iallreduce(MPI_IN_PLACE, gradients, count, MPI_FLOAT, MPI_SUM, t->l.dp_comm,
	               &t->reduce[t->reducing++]);
}

static void backward(trainer *t, int micro) {
	bool first = t->l.pp_rank == 0, last = t->l.pp_rank == t->l.pp - 1;
	if (!last)
		MPI_Recv(t->dy, width(t), MPI_FLOAT, t->l.after, micro, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	const float *dx = model_backward(t->model, micro, t->dy, block_done, t);
	if (!first) MPI_Send(dx, width(t), MPI_FLOAT, t->l.before, micro, MPI_COMM_WORLD);
}

static void add_gradients(trainer *t) {
	int count;
	if (t->o->overlap) MPI_Waitall(t->reducing, t->reduce, MPI_STATUSES_IGNORE);
	for (int b = model_blocks(t->model); !t->o->overlap && t->l.dp > 1 && b-- > 0;) {
		float *gradients = model_gradients(t->model, b, &count);
		MPI_Allreduce(MPI_IN_PLACE, gradients, count, MPI_FLOAT, MPI_SUM, t->l.dp_comm);
	}
	t->reducing = 0;
}

static double step(trainer *t, int number) {
	double loss = 0;
	for (int micro = 0; micro < t->o->micros; micro++) loss += forward(t, number, micro);
	for (int micro = t->o->micros; micro-- > 0;) {
		t->last_micro = micro == 0;
		backward(t, micro);
	}
	add_gradients(t);
	model_step(t->model, t->o->rate);
	MPI_Allreduce(MPI_IN_PLACE, &loss, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return loss / t->o->tp; /* every tensor rank of the last stage has it */
}

/* ---- all ---- */

/* Complete or not there: written beside, then renamed. */
static void save(const trainer *t, int rank) {
	char path[4096], whole[4096];
	snprintf(path, sizeof path, "%s/rank%d.tmp", t->o->checkpoint, rank);
	snprintf(whole, sizeof whole, "%s/rank%d.bin", t->o->checkpoint, rank);
	if (model_save(t->model, path) != 0 || rename(path, whole) != 0)
		die("cannot write the checkpoint", path);
}

static void train(trainer *t, int rank) {
	double loss = 0, begin = MPI_Wtime(), fastest = 1e9;
	for (int i = 0; i < t->o->steps; i++) {
		double from = MPI_Wtime();
		loss = step(t, i);
		double took = MPI_Wtime() - from;
		if (took < fastest) fastest = took;
		if (rank == 0 && !t->o->quiet) printf("step %d loss %.6f %.3f ms\n", i, loss, 1e3 * took);
		if (t->o->checkpoint && (i + 1) % t->o->every == 0) save(t, rank);
	}
	if (rank == 0)
		printf("done %d steps, loss %.6f, mean %.3f ms, fastest %.3f ms\n", t->o->steps, loss,
		       1e3 * (MPI_Wtime() - begin) / (t->o->steps ? t->o->steps : 1), 1e3 * fastest);
}

static void *room(size_t count, size_t size) {
	void *at = calloc(count + 1, size);
	if (!at) die("no memory", "train");
	return at;
}

int main(int argc, char **argv) {
	int rank, world;
	options o = read_options(argc, argv);
	openblas_set_num_threads(1);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &world);
	check(&o, world);
	if (o.write && rank == 0) dataset_write(o.data, o.write, &o.s, 1);
	if (o.checkpoint) mkdir(o.checkpoint, 0777);
	MPI_Barrier(MPI_COMM_WORLD);
	trainer t = {.o = &o,
	             .l = make_layout(&o, rank),
	             .data = dataset_open(o.data, &o.s, o.decode),
	             .samples = o.batch / o.dp / o.micros};
	t.model = model_new(&o.s, &t.l, t.samples, o.micros);
	t.x = room((size_t)width(&t), sizeof *t.x), t.dy = room((size_t)width(&t), sizeof *t.dy);
	t.classes = room((size_t)(o.micros * t.samples), sizeof *t.classes);
	t.reduce = room((size_t)model_blocks(t.model), sizeof *t.reduce);
	train(&t, rank);
	dataset_close(t.data);
	MPI_Finalize();
	return 0;
}
