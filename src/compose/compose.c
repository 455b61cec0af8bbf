/* compose.c: recordings of single processes as one job: read, checked, written as a step graph, simulated, summed up. */
#include "compose/compose.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "step/traced.h"
#include "base/intervals.h"
#include "base/text.h"

enum { MOST_RECORDINGS = 4096, FEW = 3, MANY = 6 }; /* steps in a row whose difference is the steady state */

struct compose_work {
	lk_composed result;
	lk_composer c;
	LK_VEC(lk_compose_class) classes;
	LK_VEC(const char *) notes;
};

/* What a simulation of one graph gave. */
struct simulated {
	double step_s, first_s;
	size_t operations;
};

/* ---- recordings ---- */

static void free_rank(lk_posed_rank *rank) {
	lk_posed_step_free(&rank->step);
	lk_recorded_free(&rank->run);
	free(rank);
}

/* What the step uses; its device's times must be there. */
static lk_status look_at_device(lk_composer *c, const lk_posed_rank *rank) {
	const lk_posed_step *s = &rank->step;
	for (size_t i = 0; i < s->items.count; i++) {
		const lk_posed_item *item = &s->items.at[i];
		if (item->device) c->devices = true;
		else *(item->part == LK_PART_ENQUEUE ? &c->nccl : &c->mpi) = true;
	}
	if (!s->untimed || s->device_ns > 0) return LK_OK;
	lk_fail(c->err, LK_ERR_INPUT, rank->path, "does not tell how long work on its device took");
	return lk_hint(c->err, "record --cuda events, which is the default, or --cuda cupti tells it");
}

static lk_status read_rank(struct compose_work *w, const char *path) {
	lk_composer *c = &w->c;
	lk_posed_rank *rank = calloc(1, sizeof *rank);
	if (!rank) return lk_oom(c->err);
	rank->path = lk_arena_strdup(&c->arena, path);
	lk_status status = rank->path ? lk_recorded_load(rank->path, NULL, c->texts, &rank->run, c->err) : lk_oom(c->err);
	if (status != LK_OK) return free(rank), status;
	status = lk_posed_step_of(&rank->run, &rank->step, c->err);
	if (status == LK_OK) status = look_at_device(c, rank);
	if (status == LK_OK && !lk_push(&c->recorded)) status = lk_oom(c->err);
	if (status != LK_OK) return free_rank(rank), status;
	*lk_last(&c->recorded) = rank;
	return LK_OK;
}

static int by_rank(const void *a, const void *b) {
	const lk_posed_rank *x = *(lk_posed_rank *const *)a, *y = *(lk_posed_rank *const *)b;
	return x->step.rank != y->step.rank ? (x->step.rank < y->step.rank ? -1 : 1) : strcmp(x->path, y->path);
}

static lk_status check_alike(struct compose_work *w) {
	lk_composer *c = &w->c;
	const lk_posed_rank *first = c->recorded.at[0];
	char one[4 * sizeof first->run.head.program], other[sizeof one];
	c->world = first->step.world;
	for (size_t i = 1; i < c->recorded.count; i++) {
		const lk_posed_rank *rank = c->recorded.at[i];
		if (rank->step.world != c->world)
			return lk_fail(c->err, LK_ERR_INPUT, rank->path, "is of a world of %d ranks, %s of one of %d", (int)rank->step.world,
			               first->path, (int)c->world);
		if (strcmp(rank->run.head.program, first->run.head.program) != 0)
			return lk_fail(c->err, LK_ERR_INPUT, rank->path, "is of the program %s, %s of %s",
			               lk_escape(rank->run.head.program, one, sizeof one), first->path,
			               lk_escape(first->run.head.program, other, sizeof other));
		if (rank->step.rank == c->recorded.at[i - 1]->step.rank)
			return lk_fail(c->err, LK_ERR_INPUT, rank->path, "is of rank %d, as is %s", (int)rank->step.rank,
			               c->recorded.at[i - 1]->path);
	}
	return LK_OK;
}

static lk_status read_folder(struct compose_work *w) {
	const char *folder = w->c.request->folder;
	DIR *dir = opendir(folder);
	lk_status status = dir ? LK_OK : lk_fail(w->c.err, LK_ERR_IO, folder, "cannot be listed: %s", strerror(errno));
	for (struct dirent *e; status == LK_OK && (e = readdir(dir));) {
		char path[PATH_MAX + NAME_MAX + 2];
		if (!lk_ends_in(e->d_name, LK_RECORDING_ENDING) || strstr(e->d_name, LK_RECORDING_FORKED)) continue;
		snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
		status = w->c.recorded.count < MOST_RECORDINGS ? read_rank(w, path)
		                                               : lk_fail(w->c.err, LK_ERR_INPUT, folder, "holds too many recordings");
	}
	if (dir) closedir(dir);
	LK_TRY(status);
	if (!w->c.recorded.count) {
		lk_fail(w->c.err, LK_ERR_INPUT, folder, "holds no recordings");
		return lk_hint(w->c.err, "lockstep record --world N --ranks A,B,... -- COMMAND makes them");
	}
	qsort(w->c.recorded.at, w->c.recorded.count, sizeof *w->c.recorded.at, by_rank);
	return check_alike(w);
}

/* ---- the cluster ---- */

static lk_status note(struct compose_work *w, const char *text) {
	if (!text || !lk_push(&w->notes)) return lk_oom(w->c.err);
	*lk_last(&w->notes) = text;
	return LK_OK;
}

static lk_status read_cluster(struct compose_work *w) {
	lk_composer *c = &w->c;
	const lk_compose_request *r = c->request;
	if (!r->cluster) {
		lk_fail(c->err, LK_ERR_INPUT, "compose", "it is not said on which machines the job runs");
		return lk_hint(c->err, "--cluster FILE, as lockstep calibrate host writes it, or a text such as '8 node * 8 h100-sxm'");
	}
	LK_TRY(lk_cluster_parse(&c->arena, r->cluster, &c->cluster, c->err));
	LK_TRY(lk_host_messages_read(r->cluster, &c->messages, c->err));
	c->ranks_per_node = r->ranks_per_node ? r->ranks_per_node : c->cluster.node[0].gpus;
	if (c->ranks_per_node < 1) c->ranks_per_node = 1;
	if (c->ranks_per_node > c->world) c->ranks_per_node = c->world;
	w->result.ranks_per_node = c->ranks_per_node;
	w->result.nodes = (c->world + c->ranks_per_node - 1) / c->ranks_per_node;
	if ((c->nccl || c->devices) && c->cluster.node[0].device->arch == LK_ARCH_CPU) {
		lk_fail(c->err, LK_ERR_INPUT, "--cluster", "these machines have no GPUs, and the recorded ranks use some");
		return lk_hint(c->err, "say machines like those that recorded, such as '8 node * 8 h100-sxm'");
	}
	w->result.messages = (size_t)(c->messages.inside.count + c->messages.between.count);
	int nodes = 0;
	for (int g = 0; g < c->cluster.groups; g++) nodes += c->cluster.nodes[g];
	if (nodes < w->result.nodes)
		LK_TRY(note(w, lk_arena_printf(&c->arena, "the cluster has %d node%s, the job takes %d: more of the first kind are assumed",
		                               nodes, nodes == 1 ? "" : "s", w->result.nodes)));
	bool across = w->result.nodes > 1, within = c->ranks_per_node > 1;
	if (c->mpi && ((across && !c->messages.between.count) || (within && !c->messages.inside.count)))
		LK_TRY(note(w, "messages of MPI were not all measured on this cluster: what is missing is reckoned from link rates "
		               "(calibrate host --mpi measures it)"));
	return LK_OK;
}

/* ---- simulating ---- */

static void repeat(lk_graph *graph, uint32_t times) {
	for (size_t p = 0; p < graph->programs.count; p++) graph->programs.at[p].calls.at[0].repeat = times;
}

static lk_status run(struct compose_work *w, const lk_graph *graph, const uint32_t *record, uint32_t count, lk_sim_result *out) {
	lk_arena arena = LK_ARENA_INIT;
	lk_costs costs;
	lk_sim_options options = {.record = record, .record_count = count};
	lk_status status = lk_lifted_costs(&arena, graph, &costs, w->c.err);
	if (status == LK_OK) status = lk_sim_run(graph, &costs, &options, out, w->c.err);
	lk_arena_free(&arena);
	return status;
}

static lk_status time_of(struct compose_work *w, lk_graph *graph, uint32_t times, double *out) {
	lk_sim_result result;
	repeat(graph, times);
	LK_TRY(run(w, graph, NULL, 0, &result));
	*out = (double)result.step_ps * 1e-12;
	lk_sim_result_free(&result);
	return LK_OK;
}

/* ---- parts ---- */

struct timeline {
	lk_intervals device, own, files, comm;
};

/* A small message of MPI on its way. */
static bool is_flight(const lk_graph *graph, uint32_t op) {
	return strcmp(lk_intern_text(graph->names, graph->ops.name[op]), LK_COMPOSED_FLIGHT) == 0;
}

static bool put(struct timeline *t, const lk_graph *graph, const lk_sim_event *e) {
	unsigned kind = graph->ops.kind[e->op], stream = graph->ops.stream[e->op];
	bool own = stream == LK_COMPOSED_OWN;
	if (kind == LK_OP_WAIT || stream == LK_STREAM_HOST) return true;
	if (own) return lk_intervals_add(kind == LK_OP_COPY ? &t->files : &t->own, e->start_ps, e->end_ps);
	bool device = kind == LK_OP_ELEMENTWISE || (kind == LK_OP_COPY && !is_flight(graph, e->op));
	return lk_intervals_add(device ? &t->device : &t->comm, e->start_ps, e->end_ps);
}

/* The length of a set without what is in `before`, to which it is added. */
static bool count_beside(lk_intervals *set, lk_intervals *before, double *seconds) {
	lk_intervals alone = {0};
	lk_intervals_sort(set);
	bool fine = lk_intervals_minus(set, before, &alone);
	*seconds = (double)lk_intervals_length(&alone) * 1e-12;
	for (size_t i = 0; fine && i < alone.count; i++) fine = lk_intervals_add(before, alone.at[i].start, alone.at[i].end);
	lk_intervals_sort(before);
	lk_vec_free(&alone);
	return fine;
}

/* Of the last step in a row, each moment counts once: for the device, else own work, files, moving data; the rest is waiting. */
static lk_status sum_parts(struct compose_work *w, const lk_graph *graph, const lk_sim_result *result, uint32_t record, double step_s,
                           lk_compose_parts *out) {
	struct timeline t = {{0}, {0}, {0}, {0}};
	lk_intervals counted = {0};
	bool fine = true;
	for (size_t i = 0; fine && i < result->events.count; i++) {
		const lk_sim_event *e = &result->events.at[i];
		if (e->record == record && e->repetition == MANY - 1) fine = put(&t, graph, e);
	}
	fine = fine && count_beside(&t.device, &counted, &out->device) && count_beside(&t.own, &counted, &out->own) &&
	       count_beside(&t.files, &counted, &out->files) && count_beside(&t.comm, &counted, &out->transfer);
	double known = out->device + out->own + out->files;
	out->transfer = fmin(out->transfer, fmax(0, step_s - known));
	out->wait = fmax(0, step_s - known - out->transfer);
	lk_intervals *all[] = {&t.device, &t.own, &t.files, &t.comm, &counted};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) lk_vec_free(all[i]);
	return fine ? LK_OK : lk_oom(w->c.err);
}

static lk_status find_parts(struct compose_work *w, lk_graph *graph, double step_s) {
	lk_sim_result result;
	uint32_t count = (uint32_t)w->classes.count, *record = LK_ARRAY(&w->c.arena, uint32_t, count);
	if (!record) return lk_oom(w->c.err);
	for (uint32_t i = 0; i < count; i++) record[i] = (uint32_t)w->classes.at[i].rank;
	repeat(graph, MANY);
	LK_TRY(run(w, graph, record, count, &result));
	lk_status status = LK_OK;
	lk_compose_parts *sum = &w->result.parts;
	for (uint32_t i = 0; i < count && status == LK_OK; i++) {
		lk_compose_parts *p = &w->classes.at[i].parts;
		double share = (double)w->classes.at[i].ranks / w->c.world;
		status = sum_parts(w, graph, &result, i, step_s, p);
		sum->device += share * p->device, sum->own += share * p->own, sum->files += share * p->files;
		sum->transfer += share * p->transfer, sum->wait += share * p->wait;
	}
	lk_sim_result_free(&result);
	return status;
}

/* ---- classes ---- */

/* "0-7, 16": the ranks that recorded rank q stands in for. */
static lk_status list_ranks(struct compose_work *w, uint32_t q, int *count, const char **out) {
	char text[1024] = "";
	size_t length = 0;
	const uint32_t *of = w->c.stand_in;
	*count = 0;
	for (int32_t r = 0; r < w->c.world; r++) {
		int32_t last = r;
		if (of[r] != q) continue;
		while (last + 1 < w->c.world && of[last + 1] == q) last++;
		*count += last - r + 1;
		if (length + 64 < sizeof text) {
			length += (size_t)snprintf(text + length, sizeof text - length, length ? ", %d" : "%d", (int)r);
			if (last > r) length += (size_t)snprintf(text + length, sizeof text - length, "-%d", (int)last);
			if (length + 64 >= sizeof text) snprintf(text + length, sizeof text - length, ", ...");
		}
		r = last;
	}
	*out = lk_arena_strdup(&w->c.arena, text);
	return *out ? LK_OK : lk_oom(w->c.err);
}

static lk_status list_classes(struct compose_work *w) {
	for (uint32_t q = 0; q < w->c.recorded.count; q++) {
		const lk_posed_rank *rank = w->c.recorded.at[q];
		const lk_posed_step *s = &rank->step;
		if (!lk_push(&w->classes)) return lk_oom(w->c.err);
		lk_compose_class *k = lk_last(&w->classes);
		*k = (lk_compose_class){.rank = s->rank, .path = rank->path, .steps = (int)s->steps, .unlike = (int)s->unlike,
		                        .own_s = s->step_ns * 1e-9, .own_low_s = s->low_ns * 1e-9, .own_high_s = s->high_ns * 1e-9,
		                        .beside_s = s->beside_ns * 1e-9, .device_s = s->device_ns * 1e-9,
		                        .device_low_s = s->device_low_ns * 1e-9, .device_high_s = s->device_high_ns * 1e-9,
		                        .untimed = (int)s->untimed};
		for (size_t i = 0; i < s->items.count; i++) {
			const lk_posed_item *item = &s->items.at[i];
			if (!item->device && item->part != LK_PART_DONE) k->calls++, k->bytes += (double)item->bytes;
		}
		LK_TRY(list_ranks(w, q, &k->ranks, &k->stands_for));
	}
	return LK_OK;
}

/* ---- the range ---- */

static double part_of(double end, double of, bool low) {
	double ratio = end / fmax(of, 1e-12);
	return of <= 0 ? 1 : low ? fmin(1, ratio) : fmax(1, ratio);
}

/* The spread of whole steps, relative, mean over classes by their ranks. */
static void spread(const struct compose_work *w, lk_compose_slower *low, lk_compose_slower *high) {
	*low = *high = (lk_compose_slower){0, 0};
	for (size_t i = 0; i < w->classes.count; i++) {
		const lk_compose_class *k = &w->classes.at[i];
		double share = (double)k->ranks / w->c.world;
		low->own += share * part_of(k->own_low_s, k->own_s, true), high->own += share * part_of(k->own_high_s, k->own_s, false);
		low->device += share * part_of(k->device_low_s, k->device_s, true);
		high->device += share * part_of(k->device_high_s, k->device_s, false);
	}
}

static lk_status end_of_range(struct compose_work *w, int progress, lk_compose_slower slower, double *out) {
	lk_graph *graph;
	double few, many;
	LK_TRY(lk_compose_graph(&w->c, progress, slower, &graph));
	lk_status status = time_of(w, graph, FEW, &few);
	if (status == LK_OK) status = time_of(w, graph, MANY, &many);
	lk_graph_free(graph);
	if (status == LK_OK) *out = (many - few) / (MANY - FEW);
	return status;
}

static bool begins_collectives(const lk_composer *c) {
	for (size_t q = 0; q < c->recorded.count; q++) {
		const lk_posed_step *s = &c->recorded.at[q]->step;
		for (size_t i = 0; i < s->items.count; i++) {
			unsigned part = s->items.at[i].part, what = s->items.at[i].what;
			bool message = what == LK_WHAT_SEND || what == LK_WHAT_RECV || what == LK_WHAT_SENDRECV;
			if ((part == LK_PART_POST || part == LK_PART_START) && !message) return true;
		}
	}
	return false;
}

static lk_status say_of_devices(struct compose_work *w) {
	int untimed = 0;
	for (size_t i = 0; i < w->classes.count; i++) untimed += w->classes.at[i].untimed;
	LK_TRY(note(w, "work on streams takes as long as on the GPU that recorded, which had it to itself: what communication takes "
	               "from kernels beside it is not counted"));
	if (!untimed) return LK_OK;
	return note(w, lk_arena_printf(&w->c.arena, "%d pieces of work on streams have no times and count as nothing", untimed));
}

static lk_status say(struct compose_work *w, const char *contention) {
	double beside = 0;
	char text[32];
	for (size_t i = 0; i < w->classes.count; i++) beside = fmax(beside, w->classes.at[i].beside_s);
	LK_TRY(note(w, "own work and files take as long as recorded (medians over steps), the processor to itself; the range is their "
	               "10 % and 90 % quantile over steps"));
	if (w->c.devices) LK_TRY(say_of_devices(w));
	if (contention) LK_TRY(note(w, contention));
	if (begins_collectives(&w->c))
		LK_TRY(note(w, w->c.request->progress == LK_PROGRESS_CALLS
		                   ? "collectives that were begun go on only while the program waits for them; the range's lower end has "
		                     "them go on always"
		                   : "collectives that were begun go on beside own work"));
	if (beside > 0.01 * w->result.step_s)
		LK_TRY(note(w, lk_arena_printf(&w->c.arena, "a mean recorded step has up to %s more, that the usual step has not (checkpoints, "
		                               "evaluation, interruptions): it is left out", lk_format_seconds(beside, text, sizeof text))));
	return LK_OK;
}

/* ---- all of it ---- */

static lk_status predict(struct compose_work *w) {
	lk_composer *c = &w->c;
	lk_composed *x = &w->result;
	lk_graph *graph;
	double contention[2], few, many;
	lk_compose_slower least, most;
	const char *why;
	lk_compose_contention(c, &contention[0], &contention[1], &why);
	spread(w, &least, &most);
	lk_compose_slower usual = {sqrt(contention[0] * contention[1]), 1};
	LK_TRY(lk_compose_graph(c, c->request->progress, usual, &graph));
	x->operations = graph->ops.count;
	lk_status status = time_of(w, graph, FEW, &few);
	if (status == LK_OK) status = time_of(w, graph, MANY, &many);
	if (status == LK_OK) x->step_s = (many - few) / (MANY - FEW);
	if (status == LK_OK) status = find_parts(w, graph, x->step_s);
	if (status == LK_OK) status = time_of(w, graph, 1, &x->first_s);
	if (status == LK_OK && c->request->graph) status = lk_graph_write(graph, c->request->graph, c->err);
	lk_graph_free(graph);
	LK_TRY(status);
	least.own *= contention[0], most.own *= contention[1];
	LK_TRY(end_of_range(w, LK_PROGRESS_ALWAYS, least, &x->low_s));
	LK_TRY(end_of_range(w, c->request->progress, most, &x->high_s));
	x->low_s = fmin(x->low_s, x->step_s), x->high_s = fmax(x->high_s, x->step_s);
	return say(w, why);
}

static lk_status compose(struct compose_work *w) {
	lk_composer *c = &w->c;
	lk_composed *x = &w->result;
	char program[4 * sizeof c->recorded.at[0]->run.head.program];
	c->texts = lk_intern_new();
	if (!c->texts) return lk_oom(c->err);
	LK_TRY(read_folder(w));
	LK_TRY(read_cluster(w));
	LK_TRY(lk_compose_stand_in(c));
	LK_TRY(list_classes(w));
	LK_TRY(predict(w));
	x->world = c->world;
	x->program = lk_arena_strdup(&c->arena, lk_escape(c->recorded.at[0]->run.head.program, program, sizeof program));
	x->cluster = lk_arena_strdup(&c->arena, c->request->cluster);
	x->classes = w->classes.at, x->class_count = (int)w->classes.count;
	x->notes = w->notes.at, x->note_count = (int)w->notes.count;
	return x->program && x->cluster ? LK_OK : lk_oom(c->err);
}

lk_status lk_compose(const lk_compose_request *request, lk_composed **out, lk_error *err) {
	struct compose_work *w = calloc(1, sizeof *w);
	if (!w) return lk_oom(err);
	w->result.memory_owner = w;
	w->c.request = request, w->c.err = err;
	lk_status status = compose(w);
	if (status != LK_OK) lk_compose_free(&w->result);
	else *out = &w->result;
	return status;
}

void lk_compose_free(lk_composed *composed) {
	if (!composed) return;
	struct compose_work *w = composed->memory_owner;
	for (size_t i = 0; i < w->c.recorded.count; i++) free_rank(w->c.recorded.at[i]);
	lk_vec_free(&w->c.recorded);
	lk_vec_free(&w->c.divisions);
	lk_vec_free(&w->c.patterns);
	lk_vec_free(&w->c.comms);
	lk_vec_free(&w->classes);
	lk_vec_free(&w->notes);
	lk_intern_free(w->c.texts);
	lk_arena_free(&w->c.arena);
	free(w);
}
