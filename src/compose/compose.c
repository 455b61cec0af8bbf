/* compose.c: recordings of single processes as one job: read, checked, written as a step graph,
 * simulated, summed up. */
#include "base/check.h"
#include "base/arena.h"
#include "compose/compose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "step/traced.h"
#include "base/intervals.h"
#include "base/text.h"
#include "base/noun.h"

enum {
	/* consecutive steps: the difference of two simulations is the steady state */
	FEW = 3,
	MANY = 6,
	LONGEST_RANGE = 64 /* characters of "123-456" and the end of a list */
};

struct compose_work {
	lk_composed result;
	lk_composer composer;
	LK_VEC(lk_compose_class) classes;
	LK_VEC(const char *) notes;
};

/* Results of simulating one graph. */
struct simulated {
	double step_s, first_s;
	size_t operations;
};

/* ---- the cluster ---- */

static lk_status add_compose_note(struct compose_work *work, const char *text) {
	if (!text || !lk_push(&work->notes)) return lk_oom(work->composer.err);
	*lk_last(&work->notes) = text;
	return LK_OK;
}

static lk_status read_compose_cluster(struct compose_work *work) {
	lk_composer *composer = &work->composer;
	const lk_compose_request *request = composer->request;
	if (!request->cluster) {
		lk_fail(composer->err, LK_ERR_INPUT, "compose",
		        "the machines that the job runs on are missing");
		return lk_hint(composer->err, "give --cluster: a file, as lockstep calibrate host writes "
		                              "it, or a text such as '8 node * 8 h100-sxm'");
	}
	LK_TRY(lk_cluster_parse(&composer->arena, request->cluster, &composer->cluster, composer->err));
	LK_TRY(lk_cluster_refuse_network(&composer->cluster, "compose", composer->err));
	LK_TRY(lk_host_messages_read(request->cluster, &composer->messages, composer->err));
	if (request->ranks_per_node > composer->world) {
		lk_fail(composer->err, LK_ERR_INPUT, "--ranks-per-node",
		        "%d on a node, but the job has %d %s", request->ranks_per_node, composer->world,
		        lk_noun(composer->world, "rank", "ranks"));
		return lk_hint(composer->err, "give at most %d", composer->world);
	}
	composer->ranks_per_node =
		request->ranks_per_node ? request->ranks_per_node : composer->cluster.node[0].gpus;
	if (composer->ranks_per_node < 1) composer->ranks_per_node = 1;
	if (composer->ranks_per_node > composer->world) composer->ranks_per_node = composer->world;
	work->result.ranks_per_node = composer->ranks_per_node;
	work->result.nodes =
		(composer->world + composer->ranks_per_node - 1) / composer->ranks_per_node;
	if ((composer->nccl || composer->devices) &&
	    composer->cluster.node[0].device->arch == LK_ARCH_CPU) {
		lk_fail(composer->err, LK_ERR_INPUT, "--cluster",
		        "these machines have no GPUs, but the recorded ranks use some");
		return lk_hint(composer->err,
		               "give machines like those that recorded, such as '8 node * 8 h100-sxm'");
	}
	work->result.messages =
		(size_t)(composer->messages.inside.count + composer->messages.between.count);
	int nodes = 0;
	for (int g = 0; g < composer->cluster.groups; g++) nodes += composer->cluster.nodes[g];
	if (nodes < work->result.nodes)
		LK_TRY(add_compose_note(
			work, lk_arena_printf(
					  &composer->arena,
					  "the cluster has %d %s, the job needs %d: more of the first kind are assumed",
					  nodes, lk_noun(nodes, "node", "nodes"), work->result.nodes)));
	bool across = work->result.nodes > 1, within = composer->ranks_per_node > 1;
	if (composer->torch)
		return add_compose_note(work, "times of gloo's messages are computed from link rates");
	if (composer->mpi && ((across && !composer->messages.between.count) ||
	                      (within && !composer->messages.inside.count)))
		LK_TRY(add_compose_note(
			work, "not all messages of MPI were measured on this cluster: missing times are "
				  "computed from link rates (calibrate host --mpi measures them)"));
	return LK_OK;
}

/* ---- simulating ---- */

static void repeat_programs(lk_graph *graph, uint32_t times) {
	LK_ASSERT(times > 0);
	for (size_t p = 0; p < graph->programs.count; p++)
		graph->programs.at[p].calls.at[0].repeat = times;
}

static lk_status simulate_composed(struct compose_work *work, const lk_graph *graph,
                                   const uint32_t *record, uint32_t count, lk_sim_result *out) {
	lk_arena arena = LK_ARENA_INIT;
	lk_costs costs;
	lk_sim_options options = {.record = record, .record_count = count};
	lk_status status = lk_lifted_costs(&arena, graph, &costs, work->composer.err);
	if (status == LK_OK) status = lk_sim_run(graph, &costs, &options, out, work->composer.err);
	lk_arena_free(&arena);
	return status;
}

static lk_status time_repeated_steps(struct compose_work *work, lk_graph *graph, uint32_t times,
                                     double *out) {
	lk_sim_result result;
	repeat_programs(graph, times);
	LK_TRY(simulate_composed(work, graph, NULL, 0, &result));
	*out = (double)result.step_ps * 1e-12;
	lk_sim_result_free(&result);
	return LK_OK;
}

/* ---- parts ---- */

struct timeline {
	lk_intervals device, own, files, comm;
};

/* Whether an operation is a small MPI message in flight. */
static bool is_message_in_flight(const lk_graph *graph, uint32_t op) {
	return strcmp(lk_intern_text(graph->names, graph->ops.name[op]), LK_COMPOSED_FLIGHT) == 0;
}

static bool put_event_on_timeline(struct timeline *timeline, const lk_graph *graph,
                                  const lk_sim_event *event) {
	unsigned kind = graph->ops.kind[event->op], stream = graph->ops.stream[event->op];
	bool own = stream == LK_COMPOSED_OWN;
	if (kind == LK_OP_WAIT || stream == LK_STREAM_HOST) return true;
	if (own)
		return lk_intervals_add(kind == LK_OP_COPY ? &timeline->files : &timeline->own,
		                        event->start_ps, event->end_ps);
	bool device = kind == LK_OP_ELEMENTWISE ||
	              (kind == LK_OP_COPY && !is_message_in_flight(graph, event->op));
	return lk_intervals_add(device ? &timeline->device : &timeline->comm, event->start_ps,
	                        event->end_ps);
}

/* The length of a set outside `before`, to which it is then added. */
static bool measure_uncovered(lk_intervals *set, lk_intervals *before, double *seconds) {
	lk_intervals alone = {0};
	lk_intervals_sort(set);
	bool fine = lk_intervals_minus(set, before, &alone);
	*seconds = (double)lk_intervals_length(&alone) * 1e-12;
	for (size_t i = 0; fine && i < alone.count; i++)
		fine = lk_intervals_add(before, alone.at[i].start, alone.at[i].end);
	lk_intervals_sort(before);
	lk_vec_free(&alone);
	return fine;
}

/* Divide the last of the steps into parts; each moment counts once: for the device, else own work,
 * files, data movement; the rest is waiting. */
static lk_status sum_rank_parts(struct compose_work *work, const lk_graph *graph,
                                const lk_sim_result *result, uint32_t record, double step_s,
                                lk_compose_parts *out) {
	struct timeline t = {{0}, {0}, {0}, {0}};
	lk_intervals counted = {0};
	bool fine = true;
	for (size_t i = 0; fine && i < result->events.count; i++) {
		const lk_sim_event *event = &result->events.at[i];
		if (event->record == record && event->repetition == MANY - 1)
			fine = put_event_on_timeline(&t, graph, event);
	}
	fine = fine && measure_uncovered(&t.device, &counted, &out->device) &&
	       measure_uncovered(&t.own, &counted, &out->own) &&
	       measure_uncovered(&t.files, &counted, &out->files) &&
	       measure_uncovered(&t.comm, &counted, &out->transfer);
	double known = out->device + out->own + out->files;
	out->transfer = fmin(out->transfer, fmax(0, step_s - known));
	out->wait = fmax(0, step_s - known - out->transfer);
	lk_intervals *all[] = {&t.device, &t.own, &t.files, &t.comm, &counted};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) lk_vec_free(all[i]);
	return fine ? LK_OK : lk_oom(work->composer.err);
}

static lk_status find_step_parts(struct compose_work *work, lk_graph *graph, double step_s) {
	lk_sim_result result;
	uint32_t count = (uint32_t)work->classes.count,
			 *record = LK_ARRAY(&work->composer.arena, uint32_t, count);
	if (!record) return lk_oom(work->composer.err);
	for (uint32_t i = 0; i < count; i++) record[i] = (uint32_t)work->classes.at[i].rank;
	repeat_programs(graph, MANY);
	LK_TRY(simulate_composed(work, graph, record, count, &result));
	lk_status status = LK_OK;
	lk_compose_parts *sum = &work->result.parts;
	for (uint32_t i = 0; i < count && status == LK_OK; i++) {
		lk_compose_parts *parts = &work->classes.at[i].parts;
		double share = (double)work->classes.at[i].ranks / work->composer.world;
		status = sum_rank_parts(work, graph, &result, i, step_s, parts);
		sum->device += share * parts->device;
		sum->own += share * parts->own;
		sum->files += share * parts->files;
		sum->transfer += share * parts->transfer;
		sum->wait += share * parts->wait;
	}
	lk_sim_result_free(&result);
	return status;
}

/* ---- classes ---- */

/* "0-7, 16": the ranks that recorded rank q represents. */
static lk_status list_emulated_ranks(struct compose_work *work, uint32_t q, int *count,
                                     const char **out) {
	char room[1024];
	lk_text text = lk_text_begin(room, sizeof room);
	bool cut = false;
	const uint32_t *of = work->composer.stand_in;
	*count = 0;
	for (int32_t r = 0; r < work->composer.world; r++) {
		int32_t last = r;
		if (of[r] != q) continue;
		while (last + 1 < work->composer.world && of[last + 1] == q) last++;
		*count += last - r + 1;
		if (!cut) {
			lk_text_add(&text, text.used ? ", %d" : "%d", (int)r);
			if (last > r) lk_text_add(&text, "-%d", (int)last);
			cut = text.used + LONGEST_RANGE >= sizeof room;
			if (cut) lk_text_add(&text, ", ...");
		}
		r = last;
	}
	*out = lk_arena_strdup(&work->composer.arena, room);
	return *out ? LK_OK : lk_oom(work->composer.err);
}

static lk_status list_rank_classes(struct compose_work *work) {
	for (uint32_t q = 0; q < work->composer.recorded.count; q++) {
		const lk_emulated_rank *rank = work->composer.recorded.at[q];
		const lk_emulated_step *step = &rank->step;
		if (!lk_push(&work->classes)) return lk_oom(work->composer.err);
		lk_compose_class *class = lk_last(&work->classes);
		*class = (lk_compose_class){.rank = step->rank,
		                            .path = rank->path,
		                            .steps = (int)step->steps,
		                            .unlike = (int)step->unlike,
		                            .own_s = step->step_ns * 1e-9,
		                            .asleep_s = step->asleep_ns * 1e-9,
		                            .own_low_s = step->low_ns * 1e-9,
		                            .own_high_s = step->high_ns * 1e-9,
		                            .beside_s = step->extra_ns * 1e-9,
		                            .device_s = step->device_ns * 1e-9,
		                            .device_low_s = step->device_low_ns * 1e-9,
		                            .device_high_s = step->device_high_ns * 1e-9,
		                            .untimed = (int)step->untimed};
		for (size_t i = 0; i < step->items.count; i++) {
			const lk_emulated_item *item = &step->items.at[i];
			if (!item->device && item->part != LK_PART_DONE) {
				class->calls++;
				class->bytes += (double)item->bytes;
			}
		}
		LK_TRY(list_emulated_ranks(work, q, &class->ranks, &class->stands_for));
	}
	return LK_OK;
}

/* ---- the range ---- */

static double clamp_spread(double end, double of, bool low) {
	double ratio = end / fmax(of, 1e-12);
	if (of <= 0) return 1;
	return low ? fmin(1, ratio) : fmax(1, ratio);
}

/* The relative spread of whole steps: mean over classes, weighted by their ranks. */
static void find_step_spread(const struct compose_work *work, lk_compose_slower *low,
                             lk_compose_slower *high) {
	*low = *high = (lk_compose_slower){0, 1, 0};
	for (size_t i = 0; i < work->classes.count; i++) {
		const lk_compose_class *class = &work->classes.at[i];
		double share = (double)class->ranks / work->composer.world;
		low->own += share * clamp_spread(class->own_low_s, class->own_s, true);
		high->own += share * clamp_spread(class->own_high_s, class->own_s, false);
		low->device += share * clamp_spread(class->device_low_s, class->device_s, true);
		high->device += share * clamp_spread(class->device_high_s, class->device_s, false);
	}
}

static lk_status simulate_range_end(struct compose_work *work, int progress,
                                    lk_compose_slower slower, double *out) {
	lk_graph *graph;
	double few, many;
	LK_TRY(lk_compose_graph(&work->composer, progress, slower, &graph));
	lk_status status = time_repeated_steps(work, graph, FEW, &few);
	if (status == LK_OK) status = time_repeated_steps(work, graph, MANY, &many);
	lk_graph_free(graph);
	if (status == LK_OK) *out = (many - few) / (MANY - FEW);
	return status;
}

static bool starts_collectives_early(const lk_composer *composer) {
	for (size_t q = 0; q < composer->recorded.count; q++) {
		const lk_emulated_step *step = &composer->recorded.at[q]->step;
		for (size_t i = 0; i < step->items.count; i++) {
			unsigned part = step->items.at[i].part, what = step->items.at[i].what;
			bool message = what == LK_WHAT_SEND || what == LK_WHAT_RECV || what == LK_WHAT_SENDRECV;
			if ((part == LK_PART_POST || part == LK_PART_START) && !message) return true;
		}
	}
	return false;
}

static lk_status note_device_limits(struct compose_work *work) {
	int untimed = 0;
	for (size_t i = 0; i < work->classes.count; i++) untimed += work->classes.at[i].untimed;
	LK_TRY(add_compose_note(
		work, "work on streams takes as long as on the GPU that recorded, where nothing else ran: "
			  "how much concurrent communication slows kernels down is not counted"));
	if (!untimed) return LK_OK;
	return add_compose_note(
		work, lk_arena_printf(&work->composer.arena, "%d %s as 0", untimed,
	                          lk_noun(untimed, "piece of work on streams has no times and counts",
	                                  "pieces of work on streams have no times and count")));
}

static lk_status note_assumptions(struct compose_work *work, const char *contention) {
	double extra = 0, preempted = 0;
	char text[32];
	for (size_t i = 0; i < work->classes.count; i++)
		extra = fmax(extra, work->classes.at[i].beside_s);
	LK_TRY(add_compose_note(
		work, "own work and files take as long as recorded (medians over steps) with nothing else "
			  "on the processor; the range is their 10 % and 90 % quantile over steps"));
	if (work->composer.devices) LK_TRY(note_device_limits(work));
	if (contention) LK_TRY(add_compose_note(work, contention));
	if (starts_collectives_early(&work->composer))
		LK_TRY(add_compose_note(
			work, work->composer.progress == LK_PROGRESS_CALLS
					  ? "non-blocking collectives progress only while the program waits for them; "
						"at the range's lower end they always progress"
					  : "non-blocking collectives progress concurrently with own work"));
	for (size_t i = 0; i < work->composer.recorded.count; i++)
		preempted = fmax(preempted, 1e-9 * work->composer.recorded.at[i]->step.preempted_ns);
	if (preempted > 0.01 * work->result.step_s)
		LK_TRY(add_compose_note(
			work,
			lk_arena_printf(&work->composer.arena,
		                    "other programs kept a recorded rank from the processor for up to "
		                    "%s a step: this is left out",
		                    lk_format_seconds(preempted, text, sizeof text))));
	if (extra > 0.01 * work->result.step_s)
		LK_TRY(add_compose_note(
			work, lk_arena_printf(&work->composer.arena,
		                          "a mean recorded step takes up to %s longer than the typical one "
		                          "(checkpoints, evaluation, interruptions): this is left out",
		                          lk_format_seconds(extra, text, sizeof text))));
	return LK_OK;
}

/* ---- the composition ---- */

/* Refuse options of ranks that share a machine, if it is no processor or its memory was not
 * measured. */
static lk_status check_shared(const lk_composer *composer) {
	const lk_compose_request *request = composer->request;
	const lk_device *device = composer->cluster.node[0].device;
	int shared = request->shared ? request->shared : composer->ranks_per_node;
	if (request->shared && device->arch != LK_ARCH_CPU) {
		lk_fail(composer->err, LK_ERR_INPUT, "--shared",
		        "it has no effect: the ranks compute on %s", device->name);
		return lk_hint(composer->err, "leave it out");
	}
	if (request->memory_bound < 0) return LK_OK;
	bool measured = composer->messages.one_core_rate > 0 && device->stream_rate > 0;
	if (device->arch == LK_ARCH_CPU && shared > 1 && measured) return LK_OK;
	lk_fail(composer->err, LK_ERR_INPUT, "--memory-bound", "it has no effect: %s",
	        measured ? "no ranks share a machine" : "the machine's memory was not measured");
	return lk_hint(composer->err,
	               measured ? "use --shared N, or leave it out"
	                        : "give --cluster a file of lockstep calibrate host, or leave it out");
}

static lk_status predict_composed_step(struct compose_work *work) {
	lk_composer *composer = &work->composer;
	lk_composed *composed = &work->result;
	lk_graph *graph;
	double contention[2], few, many;
	lk_compose_slower least, most;
	const char *why;
	LK_TRY(check_shared(composer));
	lk_compose_contention(composer, &contention[0], &contention[1], &why);
	find_step_spread(work, &least, &most);
	lk_compose_slower usual = {1, sqrt(contention[0] * contention[1]), 1};
	LK_TRY(lk_compose_graph(composer, composer->progress, usual, &graph));
	composed->operations = graph->ops.count;
	lk_status status = time_repeated_steps(work, graph, FEW, &few);
	if (status == LK_OK) status = time_repeated_steps(work, graph, MANY, &many);
	if (status == LK_OK) composed->step_s = (many - few) / (MANY - FEW);
	if (status == LK_OK) status = find_step_parts(work, graph, composed->step_s);
	if (status == LK_OK) status = time_repeated_steps(work, graph, 1, &composed->first_s);
	if (status == LK_OK && composer->request->graph)
		status = lk_graph_write(graph, composer->request->graph, composer->err);
	lk_graph_free(graph);
	LK_TRY(status);
	least.computing = contention[0];
	most.computing = contention[1];
	LK_TRY(simulate_range_end(work, LK_PROGRESS_ALWAYS, least, &composed->low_s));
	LK_TRY(simulate_range_end(work, composer->progress, most, &composed->high_s));
	composed->low_s = fmin(composed->low_s, composed->step_s);
	composed->high_s = fmax(composed->high_s, composed->step_s);
	return note_assumptions(work, why);
}

static lk_status compose_recordings(struct compose_work *work) {
	lk_composer *composer = &work->composer;
	lk_composed *composed = &work->result;
	char program[4 * sizeof composer->recorded.at[0]->run.head.program];
	composer->texts = lk_intern_new();
	if (!composer->texts) return lk_oom(composer->err);
	LK_TRY(lk_compose_read(composer));
	LK_TRY(read_compose_cluster(work));
	LK_TRY(lk_compose_stand_in(composer));
	LK_TRY(list_rank_classes(work));
	LK_TRY(predict_composed_step(work));
	composed->world = composer->world;
	composed->program =
		lk_arena_strdup(&composer->arena, lk_escape(composer->recorded.at[0]->run.head.program,
	                                                program, sizeof program));
	composed->cluster = lk_arena_strdup(&composer->arena, composer->request->cluster);
	composed->classes = work->classes.at;
	composed->class_count = (int)work->classes.count;
	composed->notes = work->notes.at;
	composed->note_count = (int)work->notes.count;
	return composed->program && composed->cluster ? LK_OK : lk_oom(composer->err);
}

/* ---- invariants of every answer ----
 *
 * An answer that contradicts itself is a defect of lockstep and is not printed. */

static bool is_whole_step(const lk_compose_parts *parts, double step_s) {
	double sum = parts->device + parts->own + parts->files + parts->transfer + parts->wait;
	return parts->device >= 0 && parts->own >= 0 && parts->files >= 0 && parts->transfer >= 0 &&
	       parts->wait >= 0 && fabs(sum - step_s) <= 1e-6 * step_s + 1e-12;
}

static const char *compose_check(const lk_composed *composed) {
	LK_HOLDS(isfinite(composed->step_s) && composed->step_s >= 0);
	LK_HOLDS(!(composed->low_s > composed->step_s) && !(composed->high_s < composed->step_s));
	int ranks = 0;
	for (int i = 0; i < composed->class_count; i++) {
		const lk_compose_class *class = &composed->classes[i];
		LK_HOLDS(!(class->own_low_s > class->own_high_s));
		LK_HOLDS(!(class->device_low_s > class->device_high_s));
		LK_HOLDS(class->unlike <= class->steps);
		LK_HOLDS(is_whole_step(&class->parts, composed->step_s));
		ranks += class->ranks;
	}
	LK_HOLDS(ranks == composed->world);
	LK_HOLDS(is_whole_step(&composed->parts, composed->step_s));
	return NULL;
}

lk_status lk_compose(const lk_compose_request *request, lk_composed **out, lk_error *err) {
	*out = NULL;
	LK_TRY(lk_cost_ready(err));
	struct compose_work *work = calloc(1, sizeof *work);
	if (!work) return lk_oom(err);
	work->result.memory_owner = work;
	work->composer.request = request;
	work->composer.err = err;
	lk_status status = compose_recordings(work);
	if (status == LK_OK) work->result.failed_check = lk_failed_check(compose_check(&work->result));
	if (status != LK_OK) lk_compose_free(&work->result);
	else *out = &work->result;
	return status;
}

void lk_compose_free(lk_composed *composed) {
	if (!composed) return;
	struct compose_work *work = composed->memory_owner;
	for (size_t i = 0; i < work->composer.recorded.count; i++)
		lk_emulated_rank_free(work->composer.recorded.at[i]);
	lk_vec_free(&work->composer.recorded);
	lk_vec_free(&work->composer.divisions);
	lk_vec_free(&work->composer.patterns);
	lk_vec_free(&work->composer.comms);
	lk_vec_free(&work->classes);
	lk_vec_free(&work->notes);
	lk_intern_free(work->composer.texts);
	lk_arena_free(&work->composer.arena);
	free(work);
}
