/* compose_graph.c: the job as a step graph: a program for each rank, of the items of its stand-in's
 * typical step.
 *
 *     own work             on the compute stream, as long as recorded
 *     reading, writing     the same, as copies
 *     blocking call        on the communication stream; own work waits for it
 *     non-blocking call    on a stream of its own; its wait is on the compute stream
 *     small send           leaves at once: a flight on a stream of its own, which ends where the
 *                          receive is
 *     devices              compose_device.c
 *
 * Collectives of a communicator are one team, the messages of a pair with one tag another; the k-th
 * synchronises with the k-th. If the library progresses only while it is called, a non-blocking
 * collective starts when it is waited for. */
#include <stdlib.h>

#include "compose/compose.h"
#include "base/check.h"
#include "base/noun.h"

enum { MOST_OPS = 8 << 20 };
static const double DEFAULT_EAGER = 65536; /* Open MPI's btl_tcp_eager_limit */

/* ---- operations ---- */

static void add_own_work(lk_compose_builder *builder, const lk_emulated_item *item) {
	LK_ASSERT(item->own_ns >= 0 && item->files_ns >= 0);
	if (item->files_ns > 0)
		lk_graph_add(builder->graph, &(lk_op){.kind = LK_OP_COPY,
		                                      .stream = LK_COMPOSED_OWN,
		                                      .join = LK_JOIN(LK_COMPOSED_CALLS),
		                                      .name = "files",
		                                      .phase = LK_PHASE_OTHER,
		                                      .measured_ps = lk_compose_ps(item->files_ns * 1e-9)});
	double own = item->asleep_ns + (item->own_ns - item->asleep_ns) * builder->slower.computing;
	/* with a device, the host's work is no computation that another device would speed up */
	unsigned kind = builder->device.count ? LK_OP_HOST : LK_OP_ELEMENTWISE;
	lk_graph_add(builder->graph,
	             &(lk_op){.kind = (uint8_t)kind,
	                      .stream = LK_COMPOSED_OWN,
	                      .join = LK_JOIN(LK_COMPOSED_CALLS),
	                      .name = "own code",
	                      .phase = LK_PHASE_OTHER,
	                      .measured_ps = lk_compose_ps(own * 1e-9 * builder->slower.own)});
}

/* The stream of an operation in flight: those of one team are done in order. */
static uint8_t choose_flight_stream(const lk_compose_builder *builder, uint32_t team) {
	LK_ASSERT(builder->device.first > LK_COMPOSED_FLIGHTS);
	return (uint8_t)(LK_COMPOSED_FLIGHTS + team % (builder->device.first - LK_COMPOSED_FLIGHTS));
}

/* Add a wait on the compute stream for an operation of another stream. */
static void add_compute_wait(lk_compose_builder *builder, uint32_t op) {
	LK_ASSERT(op < builder->graph->ops.count);
	lk_graph_add(builder->graph, &(lk_op){.kind = LK_OP_WAIT,
	                                      .stream = LK_COMPOSED_OWN,
	                                      .name = "wait",
	                                      .phase = LK_PHASE_OTHER,
	                                      .deps = &op,
	                                      .dep_count = 1});
}

static bool is_collective_item(const lk_emulated_item *item) {
	return item->what != LK_WHAT_SEND && item->what != LK_WHAT_RECV &&
	       item->what != LK_WHAT_SENDRECV;
}

/* Whether own work since the previous collective was shorter than that collective: then ranks
 * arrive as staggered as they left it. */
static bool follows_collective_closely(const lk_compose_builder *builder,
                                       const lk_emulated_item *item, const lk_job_member *member) {
	const lk_emulated_step *step = &builder->composer->recorded.at[builder->recorded]->step;
	const lk_emulated_item *before = item > step->items.at ? item - 1 : NULL;
	if (!before || before->device || before->part != LK_PART_WHOLE || !is_collective_item(before) ||
	    before->group != item->group)
		return false;
	double since = (item->own_ns + item->files_ns) * 1e-9;
	return since <
	       lk_compose_collective_s(builder->composer, before, member->ranks, member->size, false);
}

static lk_status add_collective_item(lk_compose_builder *builder, const lk_emulated_item *item,
                                     uint8_t stream, uint32_t *op) {
	uint32_t comm = 0, team = 0;
	LK_TRY(lk_compose_comm(builder, item->group, &comm));
	const lk_job_member *member = &builder->member[item->group];
	*op = LK_NONE;
	if (member->size < 2) return LK_OK;
	LK_TRY(lk_compose_team(builder, comm, &team));
	double seconds = lk_compose_collective_s(builder->composer, item, member->ranks, member->size,
	                                         follows_collective_closely(builder, item, member));
	*op = lk_compose_add_comm(builder, item, lk_compose_op_kind(item->what),
	                          stream ? stream : choose_flight_stream(builder, team),
	                          LK_JOIN(LK_COMPOSED_OWN), team, seconds);
	return LK_OK;
}

/* Add one direction of a message. `blocks`: the caller waits for it; else it is in flight. */
static lk_status add_message_item(lk_compose_builder *builder, const lk_emulated_item *item,
                                  int32_t peer, bool sends, bool blocks, uint32_t *op) {
	uint32_t comm = 0, team = 0;
	int32_t other = lk_compose_peer(builder->composer, builder->recorded, item->group,
	                                &builder->member[item->group], peer);
	*op = LK_NONE;
	if (peer == LK_PEER_NOBODY || other < 0 || other == builder->rank)
		return LK_OK; /* no peer, or itself */
	LK_TRY(lk_compose_comm(builder, item->group, &comm));
	LK_TRY(lk_compose_channel_team(builder, comm, sends ? builder->rank : other,
	                               sends ? other : builder->rank, item->tag, &team));
	double eager = builder->composer->request->eager > 0 ? builder->composer->request->eager
	                                                     : DEFAULT_EAGER,
		   bytes = (double)item->bytes;
	double seconds = lk_compose_message_s(builder->composer, builder->rank, other, bytes);
	bool small = bytes <= eager;
	if (small && sends) /* it leaves whether or not anybody waits for it */
		lk_graph_add(builder->graph, &(lk_op){.kind = LK_OP_COPY,
		                                      .stream = choose_flight_stream(builder, team),
		                                      .join = LK_JOIN(LK_COMPOSED_OWN),
		                                      .name = LK_COMPOSED_FLIGHT,
		                                      .phase = LK_PHASE_OTHER,
		                                      .measured_ps = lk_compose_ps(seconds)});
	bool flies = !blocks || (small && sends);
	uint8_t stream = flies ? choose_flight_stream(builder, team) : LK_COMPOSED_CALLS;
	uint32_t added = lk_compose_add_comm(builder, item, sends ? LK_OP_SEND : LK_OP_RECV, stream,
	                                     LK_JOIN(LK_COMPOSED_OWN), team, small ? 0 : seconds);
	if (!(small && sends)) *op = added;
	return LK_OK;
}

/* Both directions at once: started together, then waited for. */
static lk_status add_exchange_item(lk_compose_builder *builder, const lk_emulated_item *item) {
	uint32_t sent, received;
	LK_TRY(add_message_item(builder, item, item->peer, true, false, &sent));
	LK_TRY(add_message_item(builder, item, item->from, false, false, &received));
	if (sent != LK_NONE) add_compute_wait(builder, sent);
	if (received != LK_NONE) add_compute_wait(builder, received);
	return LK_OK;
}

static lk_status add_posted_item(lk_compose_builder *builder, const lk_emulated_item *item,
                                 uint32_t *op) {
	*op = LK_NONE;
	if (!is_collective_item(item))
		return add_message_item(builder, item, item->peer, item->what == LK_WHAT_SEND, false, op);
	return builder->progress == LK_PROGRESS_ALWAYS ? add_collective_item(builder, item, 0, op)
	                                               : LK_OK;
}

/* A collective that progresses only in calls is executed where it is waited for. */
static lk_status add_completed_item(lk_compose_builder *builder, const lk_emulated_step *step,
                                    const lk_emulated_item *item) {
	LK_ASSERT(item->begun == LK_NONE || item->begun < step->items.count);
	if (item->begun == LK_NONE) return LK_OK;
	const lk_emulated_item *begun = &step->items.at[item->begun];
	uint32_t op = builder->op_of[item->begun];
	if (is_collective_item(begun) && builder->progress == LK_PROGRESS_CALLS)
		return add_collective_item(builder, begun, LK_COMPOSED_CALLS, &op);
	if (op != LK_NONE) add_compute_wait(builder, op);
	return LK_OK;
}

static lk_status add_composed_item(lk_compose_builder *builder, const lk_emulated_step *step,
                                   uint32_t i) {
	LK_ASSERT(i < step->items.count);
	const lk_emulated_item *item = &step->items.at[i];
	uint32_t op;
	add_own_work(builder, item);
	if (item->device || item->part == LK_PART_ENQUEUE)
		return lk_compose_device_item(builder, step, i);
	if (item->part == LK_PART_DONE) return add_completed_item(builder, step, item);
	if (item->part != LK_PART_WHOLE) return add_posted_item(builder, item, &builder->op_of[i]);
	if (item->what == LK_WHAT_SENDRECV) return add_exchange_item(builder, item);
	if (!is_collective_item(item))
		return add_message_item(builder, item, item->peer, item->what == LK_WHAT_SEND, true, &op);
	return add_collective_item(builder, item, LK_COMPOSED_CALLS, &op);
}

/* ---- programs ---- */

static lk_status name_composed_streams(lk_compose_builder *builder) {
	LK_TRY(lk_graph_name_stream(builder->graph, (uint32_t)builder->rank, LK_COMPOSED_OWN,
	                            "own code", builder->device.count > 0, builder->err));
	LK_TRY(lk_compose_device_name_streams(builder));
	LK_TRY(lk_graph_name_stream(builder->graph, (uint32_t)builder->rank, LK_COMPOSED_CALLS,
	                            "communication", false, builder->err));
	return lk_graph_name_stream(builder->graph, (uint32_t)builder->rank, LK_STREAM_HOST,
	                            "main thread", true, builder->err);
}

static lk_status find_group_members(lk_compose_builder *builder, const lk_emulated_step *step) {
	for (uint32_t g = 0; g < step->groups.count; g++) {
		builder->member[g] = (lk_job_member){.at = -1};
		if (step->groups.at[g].own >= 0)
			LK_TRY(lk_compose_member(builder->composer, builder->recorded, g, builder->rank,
			                         &builder->member[g]));
	}
	return LK_OK;
}

static lk_status add_rank_program(lk_compose_builder *builder) {
	const lk_emulated_step *step = &builder->composer->recorded.at[builder->recorded]->step;
	char name[32];
	uint32_t block;
	LK_TRY(find_group_members(builder, step));
	LK_TRY(lk_compose_device_begin(builder, step));
	snprintf(name, sizeof name, "rank %d", (int)builder->rank);
	lk_graph_begin_block(builder->graph, name);
	lk_graph_add(builder->graph, &(lk_op){.kind = LK_OP_HOST,
	                                      .stream = LK_STREAM_HOST,
	                                      .name = "begin",
	                                      .phase = LK_PHASE_OTHER});
	for (uint32_t i = 0; i < step->items.count; i++) LK_TRY(add_composed_item(builder, step, i));
	lk_graph_add(builder->graph,
	             &(lk_op){.kind = LK_OP_HOST,
	                      .stream = LK_STREAM_HOST,
	                      .name = "end of step",
	                      .phase = LK_PHASE_OTHER,
	                      .join = (LK_JOIN(LK_STREAMS) - 1) & ~LK_JOIN(LK_STREAM_HOST)});
	LK_TRY(lk_graph_end_block(builder->graph, &block, builder->err));
	LK_TRY(name_composed_streams(builder));
	builder->graph->programs.at[builder->rank].name = lk_intern_id(builder->graph->names, name);
	lk_call call = {.block = block, .repeat = 1, .microbatch = -1, .layer = -1};
	return lk_graph_call(builder->graph, (uint32_t)builder->rank, &call, builder->err);
}

static lk_status check_composed_size(lk_compose_builder *builder) {
	uint64_t items = 0;
	size_t most = 0, groups = 0;
	for (int32_t r = 0; r < builder->composer->world; r++) {
		const lk_emulated_step *step =
			&builder->composer->recorded.at[builder->composer->stand_in[r]]->step;
		items += step->items.count;
		if (step->items.count > most) most = step->items.count;
		if (step->groups.count > groups) groups = step->groups.count;
	}
	if (items * 3 > MOST_OPS) {
		lk_fail(builder->err, LK_ERR_INPUT, builder->composer->request->folder,
		        "a step of all %d %s has %llu %s, too many for a step graph",
		        (int)builder->composer->world, lk_noun(builder->composer->world, "rank", "ranks"),
		        (unsigned long long)items, lk_noun(items, "call", "calls"));
		return lk_hint(builder->err, "record the job at a smaller --world");
	}
	builder->op_of = calloc(most + 1, sizeof *builder->op_of);
	builder->device.event = calloc(most + 1, sizeof *builder->device.event);
	builder->member = calloc(groups + 1, sizeof *builder->member);
	return builder->op_of && builder->member && builder->device.event ? LK_OK
	                                                                  : lk_oom(builder->err);
}

static lk_status build_composed_graph(lk_compose_builder *builder) {
	lk_graph *graph = builder->graph = lk_graph_new();
	if (!graph) return lk_oom(builder->err);
	uint32_t world = (uint32_t)builder->composer->world;
	graph->traced = true;
	graph->ranks = (lk_ranks){.world = world, .stages = world, .chains = 1};
	for (int g = 0; g < LK_GROUPS; g++)
		graph->ranks.group[g].size = graph->ranks.group[g].stride = 1;
	LK_TRY(lk_graph_set_programs(graph, world, 0, builder->err));
	LK_TRY(check_composed_size(builder));
	builder->composer->comms.count = 0;
	for (builder->rank = 0; builder->rank < builder->composer->world; builder->rank++) {
		builder->recorded = builder->composer->stand_in[builder->rank];
		LK_TRY(add_rank_program(builder));
	}
	return lk_graph_check(graph, builder->err);
}

lk_status lk_compose_graph(lk_composer *composer, int progress, lk_compose_slower slower,
                           lk_graph **out) {
	lk_compose_builder builder = {
		.composer = composer, .progress = progress, .slower = slower, .err = composer->err};
	lk_status status = build_composed_graph(&builder);
	lk_vec_free(&builder.channels);
	free(builder.channel_at);
	free(builder.comm_at);
	free(builder.op_of);
	free(builder.device.event);
	free(builder.member);
	if (status != LK_OK) lk_graph_free(builder.graph);
	else *out = builder.graph;
	return status;
}
