/* compose_device.c: device work of the composed job's ranks.
 *
 *     kernels, copies    on their stream, as long as recorded; they begin no earlier than the host
 *                        has reached them
 *     NCCL               on its stream, as long as the cluster's links take
 *     a group of calls   together: sends, receives and collectives each in a row of their own,
 *                        which the stream waits for. Messages follow one another by communicator,
 *                        distance and sender, so that all ranks have one order and none waits in a
 *                        circle
 *     events             the last operation of the stream they were recorded in; those of an
 *                        earlier step: all its work
 *     waits of the host  on the stream of own code */
#include <math.h>
#include <stdlib.h>

#include "compose/compose.h"
#include "base/sort.h"

enum { LANE_SENDS, LANE_RECEIVES, LANE_COLLECTIVES, LANES };

/* A call of a group of calls. */
struct together {
	uint32_t item, team;
	unsigned kind, lane;
	double seconds;
	uint64_t key[3]; /* its position in the order of all ranks */
};

/* ---- streams ---- */

static bool enqueues_work(const lk_emulated_item *item) {
	if (!item->device) return item->part == LK_PART_ENQUEUE;
	return item->what <= LK_DEVICE_SET || item->what == LK_DEVICE_STREAM_WAITS;
}

static int find_stream_place(const lk_compose_device *device, uint32_t number) {
	for (int i = 0; i < device->count; i++)
		if (device->at[i].number == number) return i;
	return -1;
}

static lk_status fail_too_many_streams(const lk_compose_builder *builder) {
	return lk_fail(builder->err, LK_ERR_INPUT,
	               builder->composer->recorded.at[builder->recorded]->path,
	               "uses more streams of its device in a step than can be composed");
}

static lk_status list_device_streams(lk_compose_builder *builder, const lk_emulated_step *step) {
	lk_compose_device *device = &builder->device;
	device->count = 0;
	for (uint32_t i = 0; i < step->items.count; i++) {
		const lk_emulated_item *item = &step->items.at[i];
		if (!enqueues_work(item)) continue;
		int at = find_stream_place(device, item->stream);
		if (at < 0 && device->count == LK_STREAMS) return fail_too_many_streams(builder);
		if (at < 0) {
			at = device->count++;
			device->at[at].number = item->stream;
			device->at[at].lanes = 0;
		}
		device->at[at].tail = LK_NONE;
		if (!item->device && item->members > 1) device->at[at].lanes = 1;
	}
	return LK_OK;
}

lk_status lk_compose_device_begin(lk_compose_builder *builder, const lk_emulated_step *step) {
	lk_compose_device *device = &builder->device;
	int next = LK_STREAMS;
	LK_TRY(list_device_streams(builder, step));
	for (int i = 0; i < device->count; i++) {
		next -= device->at[i].lanes ? 1 + LANES : 1;
		if (next < LK_COMPOSED_FLIGHTS + LK_COMPOSED_FEWEST_FLIGHTS)
			return fail_too_many_streams(builder);
		device->at[i].stream = (uint8_t)next;
		if (device->at[i].lanes) device->at[i].lanes = (uint8_t)(next + 1);
	}
	device->first = (uint8_t)next;
	return LK_OK;
}

lk_status lk_compose_device_name_streams(lk_compose_builder *builder) {
	static const char *const lanes[LANES] = {"sent", "received", "collectives"};
	const lk_compose_device *device = &builder->device;
	char name[48];
	for (int i = 0; i < device->count; i++) {
		snprintf(name, sizeof name, "stream %u", device->at[i].number);
		LK_TRY(lk_graph_name_stream(builder->graph, (uint32_t)builder->rank, device->at[i].stream,
		                            name, false, builder->err));
		for (unsigned k = 0; k < LANES && device->at[i].lanes; k++) {
			snprintf(name, sizeof name, "stream %u, %s", device->at[i].number, lanes[k]);
			LK_TRY(lk_graph_name_stream(builder->graph, (uint32_t)builder->rank,
			                            device->at[i].lanes + k, name, false, builder->err));
		}
	}
	return LK_OK;
}

/* ---- kernels, copies, waits ---- */

static const char *name_device_work(const lk_compose_builder *builder,
                                    const lk_emulated_item *item) {
	static const char *const copies[] = {"copy on the host", "copy to the device",
	                                     "copy from the device", "copy on the device"};
	if (item->what == LK_DEVICE_COPY) return item->direction < 4 ? copies[item->direction] : "copy";
	if (item->what == LK_DEVICE_SET) return "fill";
	return item->name ? lk_intern_text(builder->composer->texts, item->name) : "kernels";
}

/* Add an operation of zero length; returns its place in the block. */
static uint32_t add_stream_wait(lk_compose_builder *builder, uint8_t stream, uint32_t join,
                                const uint32_t *deps, uint32_t count) {
	return lk_graph_add(builder->graph, &(lk_op){.kind = LK_OP_WAIT,
	                                             .stream = stream,
	                                             .name = "wait",
	                                             .phase = LK_PHASE_OTHER,
	                                             .join = join,
	                                             .deps = deps,
	                                             .dep_count = count});
}

static void add_stream_work(lk_compose_builder *builder, const lk_emulated_item *item, int at) {
	LK_ASSERT(at >= 0 && at < builder->device.count);
	unsigned kind = item->what == LK_DEVICE_KERNEL ? LK_OP_ELEMENTWISE : LK_OP_COPY;
	double ns = isnan(item->work_ns) ? 0 : item->work_ns;
	uint32_t op = lk_graph_add(
		builder->graph, &(lk_op){.kind = (uint8_t)kind,
	                             .stream = builder->device.at[at].stream,
	                             .join = LK_JOIN(LK_COMPOSED_OWN),
	                             .name = name_device_work(builder, item),
	                             .phase = LK_PHASE_OTHER,
	                             .measured_ps = lk_compose_ps(ns * 1e-9 * builder->slower.device)});
	builder->device.at[at].tail = op;
	if (item->waits) add_stream_wait(builder, LK_COMPOSED_OWN, 0, &op, 1);
}

static uint32_t join_of_stream(const lk_compose_builder *builder, uint32_t number) {
	int at = find_stream_place(&builder->device, number);
	return at < 0 ? 0 : LK_JOIN(builder->device.at[at].stream);
}

/* Let a stream, or the host, wait for an event; LK_NONE: nothing to wait for. */
static uint32_t add_event_wait(lk_compose_builder *builder, const lk_emulated_item *item,
                               uint8_t stream) {
	uint32_t event = item->begun == LK_NONE ? LK_NONE : builder->device.event[item->begun];
	uint32_t join = stream == LK_COMPOSED_OWN ? 0 : LK_JOIN(LK_COMPOSED_OWN);
	if (event != LK_NONE) return add_stream_wait(builder, stream, join, &event, 1);
	uint32_t all = join_of_stream(builder, item->on) & ~LK_JOIN(stream);
	return all ? add_stream_wait(builder, stream, join | all, NULL, 0) : LK_NONE;
}

static void add_wait_for_all_streams(lk_compose_builder *builder) {
	uint32_t join = 0;
	for (int i = 0; i < builder->device.count; i++) join |= LK_JOIN(builder->device.at[i].stream);
	if (join) add_stream_wait(builder, LK_COMPOSED_OWN, join, NULL, 0);
}

static void add_device_call(lk_compose_builder *builder, const lk_emulated_item *item, uint32_t i) {
	int at = find_stream_place(&builder->device, item->stream);
	uint32_t waits;
	switch (item->what) {
	case LK_DEVICE_RECORD:
		builder->device.event[i] = at < 0 ? LK_NONE : builder->device.at[at].tail;
		break;
	case LK_DEVICE_STREAM_WAITS:
		waits = add_event_wait(builder, item, builder->device.at[at].stream);
		if (waits != LK_NONE) builder->device.at[at].tail = waits;
		break;
	case LK_DEVICE_WAIT_STREAM:
		if (at >= 0)
			add_stream_wait(builder, LK_COMPOSED_OWN, LK_JOIN(builder->device.at[at].stream), NULL,
			                0);
		break;
	case LK_DEVICE_WAIT_EVENT: add_event_wait(builder, item, LK_COMPOSED_OWN); break;
	case LK_DEVICE_WAIT_ALL: add_wait_for_all_streams(builder); break;
	default: add_stream_work(builder, item, at); break;
	}
}

/* ---- NCCL ---- */

/* Translate an item to this rank; false: nothing to do, in a communicator of one, or to itself. */
static lk_status resolve_nccl_call(lk_compose_builder *builder, const lk_emulated_item *item,
                                   struct together *out, bool *something) {
	const lk_job_member *member = &builder->member[item->group];
	bool sends = item->what == LK_WHAT_SEND;
	uint32_t comm;
	*something = false;
	if (member->size < 2) return LK_OK;
	LK_TRY(lk_compose_comm(builder, item->group, &comm));
	if (!sends && item->what != LK_WHAT_RECV) {
		out->kind = lk_compose_op_kind(item->what);
		out->lane = LANE_COLLECTIVES;
		out->seconds = lk_compose_nccl_s(builder->composer, item, member->ranks, member->size);
		out->key[0] = comm;
		*something = true;
		return lk_compose_team(builder, comm, &out->team);
	}
	int32_t other =
		lk_compose_peer(builder->composer, builder->recorded, item->group, member, item->peer);
	int32_t from = sends ? builder->rank : other, to = sends ? other : builder->rank;
	if (other < 0 || other == builder->rank) return LK_OK;
	out->kind = sends ? LK_OP_SEND : LK_OP_RECV;
	out->lane = sends ? LANE_SENDS : LANE_RECEIVES;
	out->seconds = lk_compose_nccl_message_s(builder->composer, from, to, (double)item->bytes);
	out->key[0] = comm;
	out->key[1] = (uint64_t)((to - from + builder->composer->world) % builder->composer->world);
	out->key[2] = (uint64_t)from;
	*something = true;
	return lk_compose_channel_team(builder, comm, from, to, 0, &out->team);
}

static uint32_t add_nccl_op(lk_compose_builder *builder, const lk_emulated_step *step,
                            const struct together *together, uint8_t stream, uint32_t join) {
	return lk_compose_add_comm(builder, &step->items.at[together->item], together->kind, stream,
	                           join | LK_JOIN(LK_COMPOSED_OWN), together->team, together->seconds);
}

static lk_status add_single_nccl_call(lk_compose_builder *builder, const lk_emulated_step *step,
                                      uint32_t i, int at) {
	struct together t = {.item = i};
	bool something;
	LK_TRY(resolve_nccl_call(builder, &step->items.at[i], &t, &something));
	if (something)
		builder->device.at[at].tail =
			add_nccl_op(builder, step, &t, builder->device.at[at].stream, 0);
	return LK_OK;
}

static int compare_group_calls(const void *a, const void *b) {
	const struct together *x = a, *y = b;
	for (int i = 0; i < 3; i++)
		if (x->key[i] != y->key[i]) return x->key[i] < y->key[i] ? -1 : 1;
	return x->item < y->item ? -1 : x->item > y->item;
}

static lk_status list_group_calls(lk_compose_builder *builder, const lk_emulated_step *step,
                                  uint32_t last, struct together *out, uint32_t *count) {
	uint32_t members = step->items.at[last].members, seen = 0;
	*count = 0;
	for (uint32_t i = last + 1; i-- > 0 && seen < members;) {
		const lk_emulated_item *item = &step->items.at[i];
		bool something;
		if (item->device || item->part != LK_PART_ENQUEUE || item->last != last) continue;
		seen++;
		struct together t = {.item = i};
		LK_TRY(resolve_nccl_call(builder, item, &t, &something));
		if (something) out[(*count)++] = t;
	}
	lk_sort(out, *count, sizeof *out, compare_group_calls);
	return LK_OK;
}

/* Add the group of calls that item `last` ends. */
static lk_status add_nccl_group(lk_compose_builder *builder, const lk_emulated_step *step,
                                uint32_t last, int at) {
	LK_ASSERT(step->items.at[last].members > 1 && at >= 0 && at < builder->device.count);
	uint32_t members = step->items.at[last].members, count = 0,
			 join = LK_JOIN(builder->device.at[at].stream);
	struct together *all = malloc(members * sizeof *all);
	uint32_t *op = malloc(members * sizeof *op);
	lk_status status =
		all && op ? list_group_calls(builder, step, last, all, &count) : lk_oom(builder->err);
	for (uint32_t i = 0; status == LK_OK && i < count; i++)
		op[i] = add_nccl_op(builder, step, &all[i],
		                    (uint8_t)(builder->device.at[at].lanes + all[i].lane), join);
	if (status == LK_OK && count)
		builder->device.at[at].tail =
			add_stream_wait(builder, builder->device.at[at].stream, 0, op, count);
	free(all);
	free(op);
	return status;
}

lk_status lk_compose_device_item(lk_compose_builder *builder, const lk_emulated_step *step,
                                 uint32_t i) {
	LK_ASSERT(i < step->items.count);
	const lk_emulated_item *item = &step->items.at[i];
	int at = find_stream_place(&builder->device, item->stream);
	/* lk_compose_device_begin has listed every stream that work is put on */
	LK_CHECK(at >= 0 || !enqueues_work(item), builder->err);
	if (item->device) {
		add_device_call(builder, item, i);
		return LK_OK;
	}
	if (item->members < 2) return add_single_nccl_call(builder, step, i, at);
	return item->last == i ? add_nccl_group(builder, step, i, at) : LK_OK;
}
