/* compose_graph.c: the job as a step graph: a program for each rank, of the items of its stand-in's
 * usual step.
 *
 *     own work             on the compute stream, as long as recorded
 *     reading, writing     likewise, as copies
 *     blocking call        on the communication stream; own work waits for it
 *     begun, waited for    on a stream of its own; what waits for it does so on the compute stream
 *     small send           leaves at once: a flight on a stream of its own, which ends where the
 * receive is a device's           compose_device.c
 *
 * Collectives of a communicator are one team, the messages of a pair with one tag another; the k-th
 * meets the k-th. Where the library goes on only while it is called, a collective that was begun
 * starts when it is waited for. */
#include <stdlib.h>
#include <string.h>

#include "compose/compose.h"
#include "base/stats.h"

enum {
	MOST_OPS = 8 << 20
};
static const double DEFAULT_EAGER = 65536; /* Open MPI's btl_tcp_eager_limit */

typedef lk_compose_builder builder;
typedef lk_compose_channel channel;

int64_t lk_compose_ps(double seconds) {
	double ps = seconds * 1e12;
	return ps < 1 ? 1 : ps > 4e18 ? INT64_C(4000000000000000000) : (int64_t)ps;
}

/* ---- communicators and channels ---- */

/* Tables that are at most half full. */
static lk_status grow_composed_tables(builder *compose_builder) {
	size_t size = compose_builder->table ? compose_builder->table * 2 : 1 << 12;
	free(compose_builder->channel_at);
	free(compose_builder->comm_at);
	compose_builder->channel_at = calloc(size, sizeof *compose_builder->channel_at);
	compose_builder->comm_at = calloc(size, sizeof *compose_builder->comm_at);
	compose_builder->table = size;
	return compose_builder->channel_at && compose_builder->comm_at ? LK_OK
	                                                               : lk_oom(compose_builder->err);
}

static uint64_t hash_comm_ranks(const int32_t *ranks, int32_t size, uint32_t again) {
	uint64_t hash = lk_hash64((uint64_t)size << 32 | again);
	for (int32_t i = 0; i < size; i++) hash = lk_hash64(hash ^ (uint64_t)(uint32_t)ranks[i]);
	return hash;
}

static uint32_t *find_comm_slot(builder *compose_builder, const int32_t *ranks, int32_t size,
                                uint32_t again) {
	size_t at = hash_comm_ranks(ranks, size, again) & (compose_builder->table - 1);
	for (; compose_builder->comm_at[at]; at = (at + 1) & (compose_builder->table - 1)) {
		const lk_job_comm *known = &compose_builder->c->comms.at[compose_builder->comm_at[at] - 1];
		if (known->size == size && known->again == again &&
		    memcmp(known->ranks, ranks, (size_t)size * sizeof *ranks) == 0)
			break;
	}
	return &compose_builder->comm_at[at];
}

static uint32_t *find_channel_slot(builder *compose_builder, const channel *compose_channel) {
	uint64_t hash =
		lk_hash64((uint64_t)(uint32_t)compose_channel->from << 32 | (uint32_t)compose_channel->to) ^
		((uint64_t)compose_channel->comm << 32 | (uint32_t)compose_channel->tag);
	size_t at = lk_hash64(hash) & (compose_builder->table - 1);
	for (; compose_builder->channel_at[at]; at = (at + 1) & (compose_builder->table - 1)) {
		const channel *k = &compose_builder->channels.at[compose_builder->channel_at[at] - 1];
		if (k->from == compose_channel->from && k->to == compose_channel->to &&
		    k->tag == compose_channel->tag && k->comm == compose_channel->comm)
			break;
	}
	return &compose_builder->channel_at[at];
}

static lk_status reserve_composed_tables(builder *compose_builder) {
	if (compose_builder->table &&
	    compose_builder->channels.count * 2 + 2 < compose_builder->table &&
	    compose_builder->c->comms.count * 2 + 2 < compose_builder->table)
		return LK_OK;
	LK_TRY(grow_composed_tables(compose_builder));
	for (uint32_t i = 0; i < compose_builder->channels.count; i++)
		*find_channel_slot(compose_builder, &compose_builder->channels.at[i]) = i + 1;
	for (uint32_t i = 0; i < compose_builder->c->comms.count; i++) {
		const lk_job_comm *comm = &compose_builder->c->comms.at[i];
		*find_comm_slot(compose_builder, comm->ranks, comm->size, comm->again) = i + 1;
	}
	return LK_OK;
}

lk_status lk_compose_comm(builder *compose_builder, uint32_t group, uint32_t *out) {
	const lk_job_member *member = &compose_builder->member[group];
	uint32_t again =
		compose_builder->c->recorded.at[compose_builder->q]->step.groups.at[group].again;
	LK_TRY(reserve_composed_tables(compose_builder));
	uint32_t *slot = find_comm_slot(compose_builder, member->ranks, member->size, again);
	if (!*slot) {
		if (!lk_push(&compose_builder->c->comms)) return lk_oom(compose_builder->err);
		*lk_last(&compose_builder->c->comms) =
			(lk_job_comm){member->ranks, member->size, again, LK_NONE};
		*slot = (uint32_t)compose_builder->c->comms.count;
	}
	*out = *slot - 1;
	return LK_OK;
}

static int compare_rank_numbers(const void *a, const void *b) {
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

lk_status lk_compose_team(builder *compose_builder, uint32_t comm, uint32_t *out) {
	lk_job_comm *job_comm = &compose_builder->c->comms.at[comm];
	char name[64];
	if (job_comm->team == LK_NONE) {
		uint32_t *sorted = malloc((size_t)job_comm->size * sizeof *sorted);
		if (!sorted) return lk_oom(compose_builder->err);
		for (int32_t i = 0; i < job_comm->size; i++) sorted[i] = (uint32_t)job_comm->ranks[i];
		qsort(sorted, (size_t)job_comm->size, sizeof *sorted, compare_rank_numbers);
		bool world = job_comm->size == compose_builder->c->world && !job_comm->again;
		snprintf(name, sizeof name, world ? "world" : "%d ranks from %u, #%u", (int)job_comm->size,
		         sorted[0], job_comm->again + 1);
		job_comm->team =
			lk_graph_add_team(compose_builder->graph, name, sorted, (uint32_t)job_comm->size,
		                      (uint32_t)job_comm->size, false);
		free(sorted);
	}
	*out = job_comm->team;
	return LK_OK;
}

lk_status lk_compose_channel_team(builder *compose_builder, uint32_t comm, int32_t from, int32_t to,
                                  int32_t tag, uint32_t *team) {
	channel wanted = {.comm = comm, .from = from, .to = to, .tag = tag};
	LK_TRY(reserve_composed_tables(compose_builder));
	uint32_t *slot = find_channel_slot(compose_builder, &wanted);
	if (!*slot) {
		uint32_t pair[2] = {(uint32_t)(from < to ? from : to), (uint32_t)(from < to ? to : from)};
		char name[64];
		snprintf(name, sizeof name, "%d to %d, tag %d", (int)from, (int)to, (int)tag);
		wanted.team = lk_graph_add_team(compose_builder->graph, name, pair, 2, 2, false);
		if (!lk_push(&compose_builder->channels)) return lk_oom(compose_builder->err);
		*lk_last(&compose_builder->channels) = wanted;
		*slot = (uint32_t)compose_builder->channels.count;
	}
	*team = compose_builder->channels.at[*slot - 1].team;
	return LK_OK;
}

/* ---- operations ---- */

static void add_own_work(builder *compose_builder, const lk_emulated_item *item) {
	if (item->files_ns > 0)
		lk_graph_add(compose_builder->graph,
		             &(lk_op){.kind = LK_OP_COPY,
		                      .stream = LK_COMPOSED_OWN,
		                      .join = LK_JOIN(LK_COMPOSED_CALLS),
		                      .name = "files",
		                      .phase = LK_PHASE_OTHER,
		                      .measured_ps = lk_compose_ps(item->files_ns * 1e-9)});
	/* beside a device the host's work is no computation that another device would do faster */
	unsigned kind = compose_builder->device.count ? LK_OP_HOST : LK_OP_ELEMENTWISE;
	lk_graph_add(
		compose_builder->graph,
		&(lk_op){.kind = (uint8_t)kind,
	             .stream = LK_COMPOSED_OWN,
	             .join = LK_JOIN(LK_COMPOSED_CALLS),
	             .name = "own code",
	             .phase = LK_PHASE_OTHER,
	             .measured_ps = lk_compose_ps(item->own_ns * 1e-9 * compose_builder->slower.own)});
}

unsigned lk_compose_op_kind(unsigned what) {
	switch (what) {
	case LK_WHAT_SEND: return LK_OP_SEND;
	case LK_WHAT_RECV: return LK_OP_RECV;
	case LK_WHAT_BROADCAST:
	case LK_WHAT_SCATTER: return LK_OP_BROADCAST;
	case LK_WHAT_ALLGATHER:
	case LK_WHAT_GATHER: return LK_OP_ALLGATHER;
	case LK_WHAT_REDUCESCATTER: return LK_OP_REDUCESCATTER;
	case LK_WHAT_ALLTOALL: return LK_OP_ALLTOALL;
	default: return LK_OP_ALLREDUCE;
	}
}

static const char *name_comm_item(const builder *compose_builder, const lk_emulated_item *item) {
	return lk_intern_text(compose_builder->c->texts, item->name);
}

/* Streams of things in flight: those of one team are done in order. */
static uint8_t choose_flight_stream(const builder *compose_builder, uint32_t team) {
	return (uint8_t)(LK_COMPOSED_FLIGHTS +
	                 team % (compose_builder->device.first - LK_COMPOSED_FLIGHTS));
}

uint32_t lk_compose_add_comm(builder *compose_builder, const lk_emulated_item *item, unsigned kind,
                             uint8_t stream, uint32_t join, uint32_t team, double seconds) {
	return lk_graph_add(compose_builder->graph,
	                    &(lk_op){.kind = (uint8_t)kind,
	                             .stream = stream,
	                             .join = join,
	                             .group = LK_GROUP_TEAM,
	                             .channel = (int32_t)team,
	                             .name = name_comm_item(compose_builder, item),
	                             .bytes = (double)item->bytes,
	                             .phase = LK_PHASE_OTHER,
	                             .measured_ps = lk_compose_ps(seconds)});
}

/* What waits on the compute stream for an operation of another one. */
static void add_compute_wait(builder *compose_builder, uint32_t op) {
	lk_graph_add(compose_builder->graph, &(lk_op){.kind = LK_OP_WAIT,
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

/* Whether own work since the collective before was shorter than that one: ranks come as unlike as
 * they left it. */
static bool follows_collective_closely(const builder *compose_builder, const lk_emulated_item *item,
                                       const lk_job_member *member) {
	const lk_emulated_step *step = &compose_builder->c->recorded.at[compose_builder->q]->step;
	const lk_emulated_item *before = item > step->items.at ? item - 1 : NULL;
	if (!before || before->device || before->part != LK_PART_WHOLE || !is_collective_item(before) ||
	    before->group != item->group)
		return false;
	double since = (item->own_ns + item->files_ns) * 1e-9;
	return since <
	       lk_compose_collective_s(compose_builder->c, before, member->ranks, member->size, false);
}

static lk_status add_collective_item(builder *compose_builder, const lk_emulated_item *item,
                                     uint8_t stream, uint32_t *op) {
	uint32_t comm = 0, team = 0;
	LK_TRY(lk_compose_comm(compose_builder, item->group, &comm));
	const lk_job_member *member = &compose_builder->member[item->group];
	*op = LK_NONE;
	if (member->size < 2) return LK_OK;
	LK_TRY(lk_compose_team(compose_builder, comm, &team));
	double seconds =
		lk_compose_collective_s(compose_builder->c, item, member->ranks, member->size,
	                            follows_collective_closely(compose_builder, item, member));
	*op = lk_compose_add_comm(compose_builder, item, lk_compose_op_kind(item->what),
	                          stream ? stream : choose_flight_stream(compose_builder, team),
	                          LK_JOIN(LK_COMPOSED_OWN), team, seconds);
	return LK_OK;
}

/* One direction of a message. `blocks`: the caller waits for it; else it is in flight. */
static lk_status add_message_item(builder *compose_builder, const lk_emulated_item *item,
                                  int32_t peer, bool sends, bool blocks, uint32_t *op) {
	uint32_t comm = 0, team = 0;
	int32_t other = lk_compose_peer(compose_builder->c, compose_builder->q, item->group,
	                                &compose_builder->member[item->group], peer);
	*op = LK_NONE;
	if (peer == -2 || other < 0 || other == compose_builder->rank)
		return LK_OK; /* nobody, or itself */
	LK_TRY(lk_compose_comm(compose_builder, item->group, &comm));
	LK_TRY(lk_compose_channel_team(compose_builder, comm, sends ? compose_builder->rank : other,
	                               sends ? other : compose_builder->rank, item->tag, &team));
	double eager = compose_builder->c->request->eager > 0 ? compose_builder->c->request->eager
	                                                      : DEFAULT_EAGER,
		   bytes = (double)item->bytes;
	double seconds = lk_compose_message_s(compose_builder->c, compose_builder->rank, other, bytes);
	bool small = bytes <= eager;
	if (small && sends) /* it flies, whether somebody waits for it or not; then it is there */
		lk_graph_add(compose_builder->graph,
		             &(lk_op){.kind = LK_OP_COPY,
		                      .stream = choose_flight_stream(compose_builder, team),
		                      .join = LK_JOIN(LK_COMPOSED_OWN),
		                      .name = LK_COMPOSED_FLIGHT,
		                      .phase = LK_PHASE_OTHER,
		                      .measured_ps = lk_compose_ps(seconds)});
	bool flies = !blocks || (small && sends);
	uint8_t stream = flies ? choose_flight_stream(compose_builder, team) : LK_COMPOSED_CALLS;
	uint32_t added =
		lk_compose_add_comm(compose_builder, item, sends ? LK_OP_SEND : LK_OP_RECV, stream,
	                        LK_JOIN(LK_COMPOSED_OWN), team, small ? 0 : seconds);
	if (!(small && sends)) *op = added;
	return LK_OK;
}

/* Both directions at once: begun together, then waited for. */
static lk_status add_exchange_item(builder *compose_builder, const lk_emulated_item *item) {
	uint32_t sent, received;
	LK_TRY(add_message_item(compose_builder, item, item->peer, true, false, &sent));
	LK_TRY(add_message_item(compose_builder, item, item->from, false, false, &received));
	if (sent != LK_NONE) add_compute_wait(compose_builder, sent);
	if (received != LK_NONE) add_compute_wait(compose_builder, received);
	return LK_OK;
}

static lk_status add_posted_item(builder *compose_builder, const lk_emulated_item *item,
                                 uint32_t *op) {
	*op = LK_NONE;
	if (!is_collective_item(item))
		return add_message_item(compose_builder, item, item->peer, item->what == LK_WHAT_SEND,
		                        false, op);
	return compose_builder->progress == LK_PROGRESS_ALWAYS
	           ? add_collective_item(compose_builder, item, 0, op)
	           : LK_OK;
}

/* A collective that goes on in calls alone is done where it is waited for. */
static lk_status add_completed_item(builder *compose_builder, const lk_emulated_step *step,
                                    const lk_emulated_item *item) {
	if (item->begun == LK_NONE) return LK_OK;
	const lk_emulated_item *begun = &step->items.at[item->begun];
	uint32_t op = compose_builder->op_of[item->begun];
	if (is_collective_item(begun) && compose_builder->progress == LK_PROGRESS_CALLS)
		return add_collective_item(compose_builder, begun, LK_COMPOSED_CALLS, &op);
	if (op != LK_NONE) add_compute_wait(compose_builder, op);
	return LK_OK;
}

static lk_status add_composed_item(builder *compose_builder, const lk_emulated_step *step,
                                   uint32_t i) {
	const lk_emulated_item *item = &step->items.at[i];
	uint32_t op;
	add_own_work(compose_builder, item);
	if (item->device || item->part == LK_PART_ENQUEUE)
		return lk_compose_device_item(compose_builder, step, i);
	if (item->part == LK_PART_DONE) return add_completed_item(compose_builder, step, item);
	if (item->part != LK_PART_WHOLE)
		return add_posted_item(compose_builder, item, &compose_builder->op_of[i]);
	if (item->what == LK_WHAT_SENDRECV) return add_exchange_item(compose_builder, item);
	if (!is_collective_item(item))
		return add_message_item(compose_builder, item, item->peer, item->what == LK_WHAT_SEND, true,
		                        &op);
	return add_collective_item(compose_builder, item, LK_COMPOSED_CALLS, &op);
}

/* ---- programs ---- */

static lk_status name_composed_streams(builder *compose_builder) {
	LK_TRY(lk_graph_name_stream(compose_builder->graph, (uint32_t)compose_builder->rank,
	                            LK_COMPOSED_OWN, "own code", compose_builder->device.count > 0,
	                            compose_builder->err));
	LK_TRY(lk_compose_device_name_streams(compose_builder));
	LK_TRY(lk_graph_name_stream(compose_builder->graph, (uint32_t)compose_builder->rank,
	                            LK_COMPOSED_CALLS, "communication", false, compose_builder->err));
	return lk_graph_name_stream(compose_builder->graph, (uint32_t)compose_builder->rank,
	                            LK_STREAM_HOST, "main thread", true, compose_builder->err);
}

static lk_status find_group_members(builder *compose_builder, const lk_emulated_step *step) {
	for (uint32_t g = 0; g < step->groups.count; g++) {
		compose_builder->member[g] = (lk_job_member){.at = -1};
		if (step->groups.at[g].own >= 0)
			LK_TRY(lk_compose_member(compose_builder->c, compose_builder->q, g,
			                         compose_builder->rank, &compose_builder->member[g]));
	}
	return LK_OK;
}

static lk_status add_rank_program(builder *compose_builder) {
	const lk_emulated_step *step = &compose_builder->c->recorded.at[compose_builder->q]->step;
	char name[32];
	uint32_t block;
	LK_TRY(find_group_members(compose_builder, step));
	LK_TRY(lk_compose_device_begin(compose_builder, step));
	snprintf(name, sizeof name, "rank %d", (int)compose_builder->rank);
	lk_graph_begin_block(compose_builder->graph, name);
	lk_graph_add(compose_builder->graph, &(lk_op){.kind = LK_OP_HOST,
	                                              .stream = LK_STREAM_HOST,
	                                              .name = "begin",
	                                              .phase = LK_PHASE_OTHER});
	for (uint32_t i = 0; i < step->items.count; i++)
		LK_TRY(add_composed_item(compose_builder, step, i));
	lk_graph_add(compose_builder->graph,
	             &(lk_op){.kind = LK_OP_HOST,
	                      .stream = LK_STREAM_HOST,
	                      .name = "end of step",
	                      .phase = LK_PHASE_OTHER,
	                      .join = (LK_JOIN(LK_STREAMS) - 1) & ~LK_JOIN(LK_STREAM_HOST)});
	LK_TRY(lk_graph_end_block(compose_builder->graph, &block, compose_builder->err));
	LK_TRY(name_composed_streams(compose_builder));
	compose_builder->graph->programs.at[compose_builder->rank].name =
		lk_intern_id(compose_builder->graph->names, name);
	lk_call call = {.block = block, .repeat = 1, .microbatch = -1, .layer = -1};
	return lk_graph_call(compose_builder->graph, (uint32_t)compose_builder->rank, &call,
	                     compose_builder->err);
}

static lk_status check_composed_size(builder *compose_builder) {
	uint64_t items = 0;
	size_t most = 0, groups = 0;
	for (int32_t r = 0; r < compose_builder->c->world; r++) {
		const lk_emulated_step *step =
			&compose_builder->c->recorded.at[compose_builder->c->stand_in[r]]->step;
		items += step->items.count;
		if (step->items.count > most) most = step->items.count;
		if (step->groups.count > groups) groups = step->groups.count;
	}
	if (items * 3 > MOST_OPS) {
		lk_fail(compose_builder->err, LK_ERR_INPUT, compose_builder->c->request->folder,
		        "a step of all %d ranks has %llu calls, more than fit a step graph",
		        (int)compose_builder->c->world, (unsigned long long)items);
		return lk_hint(compose_builder->err, "record the job at a smaller --world");
	}
	compose_builder->op_of = calloc(most + 1, sizeof *compose_builder->op_of);
	compose_builder->device.event = calloc(most + 1, sizeof *compose_builder->device.event);
	compose_builder->member = calloc(groups + 1, sizeof *compose_builder->member);
	return compose_builder->op_of && compose_builder->member && compose_builder->device.event
	           ? LK_OK
	           : lk_oom(compose_builder->err);
}

static lk_status build_composed_graph(builder *compose_builder) {
	lk_graph *graph = compose_builder->graph = lk_graph_new();
	if (!graph) return lk_oom(compose_builder->err);
	uint32_t world = (uint32_t)compose_builder->c->world;
	graph->traced = true;
	graph->ranks = (lk_ranks){.world = world, .stages = world, .chains = 1};
	for (int g = 0; g < LK_GROUPS; g++)
		graph->ranks.group[g].size = graph->ranks.group[g].stride = 1;
	LK_TRY(lk_graph_set_programs(graph, world, 0, compose_builder->err));
	LK_TRY(check_composed_size(compose_builder));
	compose_builder->c->comms.count = 0;
	for (compose_builder->rank = 0; compose_builder->rank < compose_builder->c->world;
	     compose_builder->rank++) {
		compose_builder->q = compose_builder->c->stand_in[compose_builder->rank];
		LK_TRY(add_rank_program(compose_builder));
	}
	return lk_graph_check(graph, compose_builder->err);
}

lk_status lk_compose_graph(lk_composer *composer, int progress, lk_compose_slower slower,
                           lk_graph **out) {
	builder b = {.c = composer, .progress = progress, .slower = slower, .err = composer->err};
	lk_status status = build_composed_graph(&b);
	lk_vec_free(&b.channels);
	free(b.channel_at);
	free(b.comm_at);
	free(b.op_of);
	free(b.device.event);
	free(b.member);
	if (status != LK_OK) lk_graph_free(b.graph);
	else *out = b.graph;
	return status;
}
