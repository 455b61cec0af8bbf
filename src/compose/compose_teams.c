/* compose_teams.c: the teams of the composed step graph: communicators for collectives, channels
 * for messages, and the operations that synchronise in them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compose/compose.h"
#include "base/stats.h"
#include "base/check.h"
#include "base/sort.h"

int64_t lk_compose_ps(double seconds) {
	static const double LONGEST_PS = 4e18; /* half of what fits */
	double ps = seconds * 1e12;
	LK_ASSERT(seconds >= 0);
	return (int64_t)fmin(fmax(ps, 1), LONGEST_PS);
}

/* ---- communicators and channels ---- */

/* Keep tables at most half full. */
static lk_status grow_composed_tables(lk_compose_builder *builder) {
	size_t size = builder->table ? builder->table * 2 : 1 << 12;
	free(builder->channel_at);
	free(builder->comm_at);
	builder->channel_at = calloc(size, sizeof *builder->channel_at);
	builder->comm_at = calloc(size, sizeof *builder->comm_at);
	builder->table = size;
	return builder->channel_at && builder->comm_at ? LK_OK : lk_oom(builder->err);
}

static uint64_t hash_comm_ranks(const int32_t *ranks, int32_t size, uint32_t again) {
	uint64_t hash = lk_hash64((uint64_t)size << 32 | again);
	for (int32_t i = 0; i < size; i++) hash = lk_hash64(hash ^ (uint64_t)(uint32_t)ranks[i]);
	return hash;
}

static uint32_t *find_comm_slot(lk_compose_builder *builder, const int32_t *ranks, int32_t size,
                                uint32_t again) {
	LK_ASSERT((builder->table & (builder->table - 1)) == 0 && size > 0);
	size_t at = hash_comm_ranks(ranks, size, again) & (builder->table - 1);
	for (; builder->comm_at[at]; at = (at + 1) & (builder->table - 1)) {
		const lk_job_comm *known = &builder->composer->comms.at[builder->comm_at[at] - 1];
		if (known->size == size && known->again == again &&
		    memcmp(known->ranks, ranks, (size_t)size * sizeof *ranks) == 0)
			break;
	}
	return &builder->comm_at[at];
}

static uint32_t *find_channel_slot(lk_compose_builder *builder, const lk_compose_channel *channel) {
	uint64_t hash = lk_hash64((uint64_t)(uint32_t)channel->from << 32 | (uint32_t)channel->to) ^
	                ((uint64_t)channel->comm << 32 | (uint32_t)channel->tag);
	size_t at = lk_hash64(hash) & (builder->table - 1);
	for (; builder->channel_at[at]; at = (at + 1) & (builder->table - 1)) {
		const lk_compose_channel *known = &builder->channels.at[builder->channel_at[at] - 1];
		if (known->from == channel->from && known->to == channel->to &&
		    known->tag == channel->tag && known->comm == channel->comm)
			break;
	}
	return &builder->channel_at[at];
}

static lk_status reserve_composed_tables(lk_compose_builder *builder) {
	if (builder->table && builder->channels.count * 2 + 2 < builder->table &&
	    builder->composer->comms.count * 2 + 2 < builder->table)
		return LK_OK;
	LK_TRY(grow_composed_tables(builder));
	for (uint32_t i = 0; i < builder->channels.count; i++)
		*find_channel_slot(builder, &builder->channels.at[i]) = i + 1;
	for (uint32_t i = 0; i < builder->composer->comms.count; i++) {
		const lk_job_comm *comm = &builder->composer->comms.at[i];
		*find_comm_slot(builder, comm->ranks, comm->size, comm->again) = i + 1;
	}
	return LK_OK;
}

lk_status lk_compose_comm(lk_compose_builder *builder, uint32_t group, uint32_t *out) {
	LK_ASSERT(group < builder->composer->recorded.at[builder->recorded]->step.groups.count);
	const lk_job_member *member = &builder->member[group];
	uint32_t again = builder->composer->recorded.at[builder->recorded]->step.groups.at[group].again;
	LK_TRY(reserve_composed_tables(builder));
	uint32_t *slot = find_comm_slot(builder, member->ranks, member->size, again);
	if (!*slot) {
		if (!lk_push(&builder->composer->comms)) return lk_oom(builder->err);
		*lk_last(&builder->composer->comms) =
			(lk_job_comm){member->ranks, member->size, again, LK_NONE};
		*slot = (uint32_t)builder->composer->comms.count;
	}
	*out = *slot - 1;
	return LK_OK;
}

lk_status lk_compose_team(lk_compose_builder *builder, uint32_t comm, uint32_t *out) {
	LK_ASSERT(comm < builder->composer->comms.count);
	lk_job_comm *job_comm = &builder->composer->comms.at[comm];
	char name[64];
	if (job_comm->team == LK_NONE) {
		uint32_t *sorted = malloc((size_t)job_comm->size * sizeof *sorted);
		if (!sorted) return lk_oom(builder->err);
		for (int32_t i = 0; i < job_comm->size; i++) sorted[i] = (uint32_t)job_comm->ranks[i];
		lk_sort(sorted, (size_t)job_comm->size, sizeof *sorted, lk_by_u32);
		bool world = job_comm->size == builder->composer->world && !job_comm->again;
		snprintf(name, sizeof name, world ? "world" : "%d ranks from %u, #%u", (int)job_comm->size,
		         sorted[0], job_comm->again + 1);
		job_comm->team = lk_graph_add_team(builder->graph, name, sorted, (uint32_t)job_comm->size,
		                                   (uint32_t)job_comm->size, false);
		free(sorted);
	}
	*out = job_comm->team;
	return LK_OK;
}

lk_status lk_compose_channel_team(lk_compose_builder *builder, uint32_t comm, int32_t from,
                                  int32_t to, int32_t tag, uint32_t *team) {
	LK_ASSERT(comm < builder->composer->comms.count && from != to);
	lk_compose_channel wanted = {.comm = comm, .from = from, .to = to, .tag = tag};
	LK_TRY(reserve_composed_tables(builder));
	uint32_t *slot = find_channel_slot(builder, &wanted);
	if (!*slot) {
		uint32_t pair[2] = {(uint32_t)(from < to ? from : to), (uint32_t)(from < to ? to : from)};
		char name[64];
		snprintf(name, sizeof name, "%d to %d, tag %d", (int)from, (int)to, (int)tag);
		wanted.team = lk_graph_add_team(builder->graph, name, pair, 2, 2, false);
		if (!lk_push(&builder->channels)) return lk_oom(builder->err);
		*lk_last(&builder->channels) = wanted;
		*slot = (uint32_t)builder->channels.count;
	}
	*team = builder->channels.at[*slot - 1].team;
	return LK_OK;
}

/* ---- operations ---- */

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

uint32_t lk_compose_add_comm(lk_compose_builder *builder, const lk_emulated_item *item,
                             unsigned kind, uint8_t stream, uint32_t join, uint32_t team,
                             double seconds) {
	LK_ASSERT(team < builder->graph->teams.count);
	return lk_graph_add(builder->graph,
	                    &(lk_op){.kind = (uint8_t)kind,
	                             .stream = stream,
	                             .join = join,
	                             .group = LK_GROUP_TEAM,
	                             .channel = (int32_t)team,
	                             .name = lk_intern_text(builder->composer->texts, item->name),
	                             .bytes = (double)item->bytes,
	                             .phase = LK_PHASE_OTHER,
	                             .measured_ps = lk_compose_ps(seconds)});
}
