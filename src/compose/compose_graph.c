/* compose_graph.c: the job as a step graph: a program for each rank, of the items of its stand-in's usual step.
 *
 *     own work             on the compute stream, as long as recorded
 *     reading, writing     likewise, as copies
 *     blocking call        on the communication stream; own work waits for it
 *     begun, waited for    on a stream of its own; what waits for it does so on the compute stream
 *     small send           leaves at once: a flight on a stream of its own, which ends where the receive is
 *     a device's           compose_device.c
 *
 * Collectives of a communicator are one team, the messages of a pair with one tag another; the k-th meets the k-th. Where the
 * library goes on only while it is called, a collective that was begun starts when it is waited for. */
#include <stdlib.h>
#include <string.h>

#include "compose/compose.h"
#include "base/stats.h"

enum { MOST_OPS = 8 << 20 };
static const double DEFAULT_EAGER = 65536; /* Open MPI's btl_tcp_eager_limit */

typedef lk_compose_builder builder;
typedef lk_compose_channel channel;

int64_t lk_compose_ps(double seconds) {
	double ps = seconds * 1e12;
	return ps < 1 ? 1 : ps > 4e18 ? INT64_C(4000000000000000000) : (int64_t)ps;
}

/* ---- communicators and channels ---- */

/* Tables that are at most half full. */
static lk_status grow(builder *b) {
	size_t size = b->table ? b->table * 2 : 1 << 12;
	free(b->channel_at);
	free(b->comm_at);
	b->channel_at = calloc(size, sizeof *b->channel_at);
	b->comm_at = calloc(size, sizeof *b->comm_at);
	b->table = size;
	return b->channel_at && b->comm_at ? LK_OK : lk_oom(b->err);
}

static uint64_t hash_comm(const int32_t *ranks, int32_t size, uint32_t again) {
	uint64_t hash = lk_hash64((uint64_t)size << 32 | again);
	for (int32_t i = 0; i < size; i++) hash = lk_hash64(hash ^ (uint64_t)(uint32_t)ranks[i]);
	return hash;
}

static uint32_t *comm_slot(builder *b, const int32_t *ranks, int32_t size, uint32_t again) {
	size_t at = hash_comm(ranks, size, again) & (b->table - 1);
	for (; b->comm_at[at]; at = (at + 1) & (b->table - 1)) {
		const lk_job_comm *known = &b->c->comms.at[b->comm_at[at] - 1];
		if (known->size == size && known->again == again && memcmp(known->ranks, ranks, (size_t)size * sizeof *ranks) == 0) break;
	}
	return &b->comm_at[at];
}

static uint32_t *channel_slot(builder *b, const channel *c) {
	uint64_t hash = lk_hash64((uint64_t)(uint32_t)c->from << 32 | (uint32_t)c->to) ^ ((uint64_t)c->comm << 32 | (uint32_t)c->tag);
	size_t at = lk_hash64(hash) & (b->table - 1);
	for (; b->channel_at[at]; at = (at + 1) & (b->table - 1)) {
		const channel *k = &b->channels.at[b->channel_at[at] - 1];
		if (k->from == c->from && k->to == c->to && k->tag == c->tag && k->comm == c->comm) break;
	}
	return &b->channel_at[at];
}

static lk_status keep_room(builder *b) {
	if (b->table && b->channels.count * 2 + 2 < b->table && b->c->comms.count * 2 + 2 < b->table) return LK_OK;
	LK_TRY(grow(b));
	for (uint32_t i = 0; i < b->channels.count; i++) *channel_slot(b, &b->channels.at[i]) = i + 1;
	for (uint32_t i = 0; i < b->c->comms.count; i++) {
		const lk_job_comm *k = &b->c->comms.at[i];
		*comm_slot(b, k->ranks, k->size, k->again) = i + 1;
	}
	return LK_OK;
}

lk_status lk_compose_comm(builder *b, uint32_t group, uint32_t *out) {
	const lk_job_member *m = &b->member[group];
	uint32_t again = b->c->recorded.at[b->q]->step.groups.at[group].again;
	LK_TRY(keep_room(b));
	uint32_t *slot = comm_slot(b, m->ranks, m->size, again);
	if (!*slot) {
		if (!lk_push(&b->c->comms)) return lk_oom(b->err);
		*lk_last(&b->c->comms) = (lk_job_comm){m->ranks, m->size, again, LK_NONE};
		*slot = (uint32_t)b->c->comms.count;
	}
	*out = *slot - 1;
	return LK_OK;
}

static int ascending(const void *a, const void *b) {
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

lk_status lk_compose_team(builder *b, uint32_t comm, uint32_t *out) {
	lk_job_comm *k = &b->c->comms.at[comm];
	char name[64];
	if (k->team == LK_NONE) {
		uint32_t *sorted = malloc((size_t)k->size * sizeof *sorted);
		if (!sorted) return lk_oom(b->err);
		for (int32_t i = 0; i < k->size; i++) sorted[i] = (uint32_t)k->ranks[i];
		qsort(sorted, (size_t)k->size, sizeof *sorted, ascending);
		bool world = k->size == b->c->world && !k->again;
		snprintf(name, sizeof name, world ? "world" : "%d ranks from %u, #%u", (int)k->size, sorted[0], k->again + 1);
		k->team = lk_graph_add_team(b->graph, name, sorted, (uint32_t)k->size, (uint32_t)k->size, false);
		free(sorted);
	}
	*out = k->team;
	return LK_OK;
}

lk_status lk_compose_channel_team(builder *b, uint32_t comm, int32_t from, int32_t to, int32_t tag, uint32_t *team) {
	channel wanted = {.comm = comm, .from = from, .to = to, .tag = tag};
	LK_TRY(keep_room(b));
	uint32_t *slot = channel_slot(b, &wanted);
	if (!*slot) {
		uint32_t pair[2] = {(uint32_t)(from < to ? from : to), (uint32_t)(from < to ? to : from)};
		char name[64];
		snprintf(name, sizeof name, "%d to %d, tag %d", (int)from, (int)to, (int)tag);
		wanted.team = lk_graph_add_team(b->graph, name, pair, 2, 2, false);
		if (!lk_push(&b->channels)) return lk_oom(b->err);
		*lk_last(&b->channels) = wanted;
		*slot = (uint32_t)b->channels.count;
	}
	*team = b->channels.at[*slot - 1].team;
	return LK_OK;
}

/* ---- operations ---- */

static void add_own(builder *b, const lk_posed_item *item) {
	if (item->files_ns > 0)
		lk_graph_add(b->graph, &(lk_op){.kind = LK_OP_COPY, .stream = LK_COMPOSED_OWN, .join = LK_JOIN(LK_COMPOSED_CALLS),
		                                .name = "files", .phase = LK_PHASE_OTHER, .measured_ps = lk_compose_ps(item->files_ns * 1e-9)});
	/* beside a device the host's work is no computation that another device would do faster */
	unsigned kind = b->device.count ? LK_OP_HOST : LK_OP_ELEMENTWISE;
	lk_graph_add(b->graph, &(lk_op){.kind = (uint8_t)kind, .stream = LK_COMPOSED_OWN, .join = LK_JOIN(LK_COMPOSED_CALLS),
	                                .name = "own code", .phase = LK_PHASE_OTHER,
	                                .measured_ps = lk_compose_ps(item->own_ns * 1e-9 * b->slower.own)});
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

static const char *name_of(const builder *b, const lk_posed_item *item) {
	return lk_intern_text(b->c->texts, item->name);
}

/* Streams of things in flight: those of one team are done in order. */
static uint8_t flight(const builder *b, uint32_t team) {
	return (uint8_t)(LK_COMPOSED_FLIGHTS + team % (b->device.first - LK_COMPOSED_FLIGHTS));
}

uint32_t lk_compose_add_comm(builder *b, const lk_posed_item *item, unsigned kind, uint8_t stream, uint32_t join, uint32_t team,
                             double seconds) {
	return lk_graph_add(b->graph, &(lk_op){.kind = (uint8_t)kind, .stream = stream, .join = join, .group = LK_GROUP_TEAM,
	                                       .channel = (int32_t)team, .name = name_of(b, item), .bytes = (double)item->bytes,
	                                       .phase = LK_PHASE_OTHER, .measured_ps = lk_compose_ps(seconds)});
}

/* What waits on the compute stream for an operation of another one. */
static void add_wait(builder *b, uint32_t op) {
	lk_graph_add(b->graph, &(lk_op){.kind = LK_OP_WAIT, .stream = LK_COMPOSED_OWN, .name = "wait", .phase = LK_PHASE_OTHER,
	                                .deps = &op, .dep_count = 1});
}

static bool is_collective(const lk_posed_item *item) {
	return item->what != LK_WHAT_SEND && item->what != LK_WHAT_RECV && item->what != LK_WHAT_SENDRECV;
}

/* Whether own work since the collective before was shorter than that one: ranks come as unlike as they left it. */
static bool is_behind(const builder *b, const lk_posed_item *item, const lk_job_member *m) {
	const lk_posed_step *step = &b->c->recorded.at[b->q]->step;
	const lk_posed_item *before = item > step->items.at ? item - 1 : NULL;
	if (!before || before->device || before->part != LK_PART_WHOLE || !is_collective(before) || before->group != item->group) return false;
	double since = (item->own_ns + item->files_ns) * 1e-9;
	return since < lk_compose_collective_s(b->c, before, m->ranks, m->size, false);
}

static lk_status add_collective(builder *b, const lk_posed_item *item, uint8_t stream, uint32_t *op) {
	uint32_t comm = 0, team = 0;
	LK_TRY(lk_compose_comm(b, item->group, &comm));
	const lk_job_member *m = &b->member[item->group];
	*op = LK_NONE;
	if (m->size < 2) return LK_OK;
	LK_TRY(lk_compose_team(b, comm, &team));
	double seconds = lk_compose_collective_s(b->c, item, m->ranks, m->size, is_behind(b, item, m));
	*op = lk_compose_add_comm(b, item, lk_compose_op_kind(item->what), stream ? stream : flight(b, team), LK_JOIN(LK_COMPOSED_OWN), team,
	                          seconds);
	return LK_OK;
}

/* One direction of a message. `blocks`: the caller waits for it; else it is in flight. */
static lk_status add_message(builder *b, const lk_posed_item *item, int32_t peer, bool sends, bool blocks, uint32_t *op) {
	uint32_t comm = 0, team = 0;
	int32_t other = lk_compose_peer(b->c, b->q, item->group, &b->member[item->group], peer);
	*op = LK_NONE;
	if (peer == -2 || other < 0 || other == b->rank) return LK_OK; /* nobody, or itself */
	LK_TRY(lk_compose_comm(b, item->group, &comm));
	LK_TRY(lk_compose_channel_team(b, comm, sends ? b->rank : other, sends ? other : b->rank, item->tag, &team));
	double eager = b->c->request->eager > 0 ? b->c->request->eager : DEFAULT_EAGER, bytes = (double)item->bytes;
	double seconds = lk_compose_message_s(b->c, b->rank, other, bytes);
	bool small = bytes <= eager;
	if (small && sends) /* it flies, whether somebody waits for it or not; then it is there */
		lk_graph_add(b->graph, &(lk_op){.kind = LK_OP_COPY, .stream = flight(b, team), .join = LK_JOIN(LK_COMPOSED_OWN),
		                                .name = LK_COMPOSED_FLIGHT, .phase = LK_PHASE_OTHER, .measured_ps = lk_compose_ps(seconds)});
	bool flies = !blocks || (small && sends);
	uint8_t stream = flies ? flight(b, team) : LK_COMPOSED_CALLS;
	uint32_t added = lk_compose_add_comm(b, item, sends ? LK_OP_SEND : LK_OP_RECV, stream, LK_JOIN(LK_COMPOSED_OWN), team,
	                                     small ? 0 : seconds);
	if (!(small && sends)) *op = added;
	return LK_OK;
}

/* Both directions at once: begun together, then waited for. */
static lk_status add_exchange(builder *b, const lk_posed_item *item) {
	uint32_t sent, received;
	LK_TRY(add_message(b, item, item->peer, true, false, &sent));
	LK_TRY(add_message(b, item, item->from, false, false, &received));
	if (sent != LK_NONE) add_wait(b, sent);
	if (received != LK_NONE) add_wait(b, received);
	return LK_OK;
}

static lk_status add_begun(builder *b, const lk_posed_item *item, uint32_t *op) {
	*op = LK_NONE;
	if (!is_collective(item)) return add_message(b, item, item->peer, item->what == LK_WHAT_SEND, false, op);
	return b->progress == LK_PROGRESS_ALWAYS ? add_collective(b, item, 0, op) : LK_OK;
}

/* A collective that goes on in calls alone is done where it is waited for. */
static lk_status add_done(builder *b, const lk_posed_step *step, const lk_posed_item *item) {
	if (item->begun == LK_NONE) return LK_OK;
	const lk_posed_item *begun = &step->items.at[item->begun];
	uint32_t op = b->op_of[item->begun];
	if (is_collective(begun) && b->progress == LK_PROGRESS_CALLS) return add_collective(b, begun, LK_COMPOSED_CALLS, &op);
	if (op != LK_NONE) add_wait(b, op);
	return LK_OK;
}

static lk_status add_item(builder *b, const lk_posed_step *step, uint32_t i) {
	const lk_posed_item *item = &step->items.at[i];
	uint32_t op;
	add_own(b, item);
	if (item->device || item->part == LK_PART_ENQUEUE) return lk_compose_device_item(b, step, i);
	if (item->part == LK_PART_DONE) return add_done(b, step, item);
	if (item->part != LK_PART_WHOLE) return add_begun(b, item, &b->op_of[i]);
	if (item->what == LK_WHAT_SENDRECV) return add_exchange(b, item);
	if (!is_collective(item)) return add_message(b, item, item->peer, item->what == LK_WHAT_SEND, true, &op);
	return add_collective(b, item, LK_COMPOSED_CALLS, &op);
}

/* ---- programs ---- */

static lk_status name_streams(builder *b) {
	LK_TRY(lk_graph_name_stream(b->graph, (uint32_t)b->rank, LK_COMPOSED_OWN, "own code", b->device.count > 0, b->err));
	LK_TRY(lk_compose_device_name_streams(b));
	LK_TRY(lk_graph_name_stream(b->graph, (uint32_t)b->rank, LK_COMPOSED_CALLS, "communication", false, b->err));
	return lk_graph_name_stream(b->graph, (uint32_t)b->rank, LK_STREAM_HOST, "main thread", true, b->err);
}

static lk_status find_members(builder *b, const lk_posed_step *step) {
	for (uint32_t g = 0; g < step->groups.count; g++) {
		b->member[g] = (lk_job_member){.at = -1};
		if (step->groups.at[g].own >= 0) LK_TRY(lk_compose_member(b->c, b->q, g, b->rank, &b->member[g]));
	}
	return LK_OK;
}

static lk_status add_rank(builder *b) {
	const lk_posed_step *step = &b->c->recorded.at[b->q]->step;
	char name[32];
	uint32_t block;
	LK_TRY(find_members(b, step));
	LK_TRY(lk_compose_device_begin(b, step));
	snprintf(name, sizeof name, "rank %d", (int)b->rank);
	lk_graph_begin_block(b->graph, name);
	lk_graph_add(b->graph, &(lk_op){.kind = LK_OP_HOST, .stream = LK_STREAM_HOST, .name = "begin", .phase = LK_PHASE_OTHER});
	for (uint32_t i = 0; i < step->items.count; i++) LK_TRY(add_item(b, step, i));
	lk_graph_add(b->graph, &(lk_op){.kind = LK_OP_HOST, .stream = LK_STREAM_HOST, .name = "end of step", .phase = LK_PHASE_OTHER,
	                                .join = (LK_JOIN(LK_STREAMS) - 1) & ~LK_JOIN(LK_STREAM_HOST)});
	LK_TRY(lk_graph_end_block(b->graph, &block, b->err));
	LK_TRY(name_streams(b));
	b->graph->programs.at[b->rank].name = lk_intern_id(b->graph->names, name);
	lk_call call = {.block = block, .repeat = 1, .microbatch = -1, .layer = -1};
	return lk_graph_call(b->graph, (uint32_t)b->rank, &call, b->err);
}

static lk_status check_size(builder *b) {
	uint64_t items = 0;
	size_t most = 0, groups = 0;
	for (int32_t r = 0; r < b->c->world; r++) {
		const lk_posed_step *step = &b->c->recorded.at[b->c->stand_in[r]]->step;
		items += step->items.count;
		if (step->items.count > most) most = step->items.count;
		if (step->groups.count > groups) groups = step->groups.count;
	}
	if (items * 3 > MOST_OPS) {
		lk_fail(b->err, LK_ERR_INPUT, b->c->request->folder, "a step of all %d ranks has %llu calls, more than fit a step graph",
		        (int)b->c->world, (unsigned long long)items);
		return lk_hint(b->err, "record the job at a smaller --world");
	}
	b->op_of = calloc(most + 1, sizeof *b->op_of);
	b->device.event = calloc(most + 1, sizeof *b->device.event);
	b->member = calloc(groups + 1, sizeof *b->member);
	return b->op_of && b->member && b->device.event ? LK_OK : lk_oom(b->err);
}

static lk_status build(builder *b) {
	lk_graph *graph = b->graph = lk_graph_new();
	if (!graph) return lk_oom(b->err);
	uint32_t world = (uint32_t)b->c->world;
	graph->traced = true;
	graph->ranks = (lk_ranks){.world = world, .stages = world, .chains = 1};
	for (int g = 0; g < LK_GROUPS; g++) graph->ranks.group[g].size = graph->ranks.group[g].stride = 1;
	LK_TRY(lk_graph_set_programs(graph, world, 0, b->err));
	LK_TRY(check_size(b));
	b->c->comms.count = 0;
	for (b->rank = 0; b->rank < b->c->world; b->rank++) {
		b->q = b->c->stand_in[b->rank];
		LK_TRY(add_rank(b));
	}
	return lk_graph_check(graph, b->err);
}

lk_status lk_compose_graph(lk_composer *c, int progress, lk_compose_slower slower, lk_graph **out) {
	builder b = {.c = c, .progress = progress, .slower = slower, .err = c->err};
	lk_status status = build(&b);
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
