/* profiler.c: a plugin of NCCL's profiler interface: the library's work for a collective after the
 * call, and the only view of it if NCCL is linked into a program.
 *
 *     collective, message   COMM: what it is, its number on the communicator
 *     channels of kernels   DEVICE_WORK: when it was on the device, by the device's clock
 *     network operations    PROXY: how long they waited for the device, the wire, the other side
 *
 * The event handle given to NCCL is a number, not an address: a slot of a ring and its use count.
 * NCCL reports parts after it has ended the whole; reports that come after the slot was reused are
 * dropped. Once a communicator has begun, the result is always success. */
#include "recorder/gpu/gpu.h"
#include "recorder/gpu/profiler_abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	EVENTS = 1 << 13,
	CONTEXTS = 256,
	FIRST = LP_FIRST_GROUP + (1 << 18),
	RENEW_NS = 1000000000
};

/* A communicator. */
struct context {
	uint32_t taken, group; /* number of the group; 0 not recorded yet */
	uint64_t hash;
	int ranks, rank;
	int version;
};

struct event {
	uint32_t uses;
	uint32_t type;
	struct context *of;
	void *parent;
	uint64_t serial; /* of the collective's device work */
	int64_t start;
	void *stream;           /* of an API event */
	lk_record_entry record; /* of a collective or message, or network operation */
	/* running channels of a collective, and the time during which some ran, by the device's
	 * clock */
	int running;
	int64_t first, last;
	uint64_t timer; /* of a channel: its begin */
	int state;      /* of a step: what it waits for, and since when */
	int64_t since;
};

static struct context contexts[CONTEXTS];
static struct event events[EVENTS];
static uint64_t used;
/* Offset from the device's clock to the host's: the smallest difference seen lately, because
 * reports come late, never early. */
static int64_t offset, offset_at;
static bool has_offset;
static lp_age age;

static void renew_tables(void) {
	if (!lp_is_stale(&age)) return;
	memset(events, 0, sizeof events);
	has_offset = false;
	for (int i = 0; i < CONTEXTS; i++) contexts[i].group = 0;
	lp_renewed(&age);
}

/* ---- events as numbers ---- */

static struct event *take_profiler_event(void **out) {
	renew_tables();
	uint64_t number = __atomic_add_fetch(&used, 1, __ATOMIC_RELAXED);
	struct event *event = &events[number % EVENTS];
	memset(event, 0, sizeof *event);
	event->uses = (uint32_t)(number / EVENTS + 1);
	*out = (void *)(uintptr_t)((uint64_t)event->uses << 16 | (number % EVENTS));
	return event;
}

static struct event *find_profiler_event(const void *handle) {
	renew_tables();
	uint64_t number = (uint64_t)(uintptr_t)handle;
	struct event *event = &events[number & 0xffff & (EVENTS - 1)];
	return number && event->uses == (uint32_t)(number >> 16) ? event : NULL;
}

/* ---- communicators ---- */

static void describe_context(struct context *context, uint64_t hash, int ranks, int rank) {
	static uint32_t groups = FIRST;
	context->hash = hash;
	context->ranks = ranks;
	context->rank = rank;
	context->group = __atomic_add_fetch(&groups, 1, __ATOMIC_RELAXED);
	lp_nccl_name_group(context->group, hash, ranks, rank);
}

static int begin_context(void **out, int *mask, int version, uint64_t hash, int ranks, int rank) {
	bool was = lp_thread.busy;
	*out = NULL;
	*mask = 0;
	lp_thread.busy = false;
	if (lp_arm() && lp_enter()) {
		renew_tables();
		for (uint32_t i = 0, free = 0; i < CONTEXTS && !*out; i++, free = 0)
			if (__atomic_compare_exchange_n(&contexts[i].taken, &free, 1, false, __ATOMIC_ACQ_REL,
			                                __ATOMIC_RELAXED))
				*out = &contexts[i];
		if (*out) {
			struct context *context = *out;
			context->version = version;
			context->group = 0;
			if (version >= 4) describe_context(context, hash, ranks, rank);
			*mask = LP_NP_COLL | LP_NP_P2P | LP_NP_PROXY_OP | LP_NP_PROXY_STEP | LP_NP_KERNEL_CH;
			if (version >= 5) *mask |= LP_NP_COLL_API | LP_NP_P2P_API;
		}
		lp_leave();
	}
	lp_thread.busy = was;
	return 0;
}

static int end_context(void *handle) {
	if (handle) __atomic_store_n(&((struct context *)handle)->taken, 0, __ATOMIC_RELEASE);
	return 0;
}

/* ---- collectives and messages ---- */

static int type_name_bytes(const char *type) {
	static const struct {
		const char *name;
		int bytes;
	} types[] = {{"Int8", 1},    {"Uint8", 1},    {"Int32", 4},      {"Uint32", 4},
	             {"Int64", 8},   {"Uint64", 8},   {"Float16", 2},    {"Float32", 4},
	             {"Float64", 8}, {"Bfloat16", 2}, {"Float8e4m3", 1}, {"Float8e5m2", 1}};
	if (!type) return 0;
	if (strncmp(type, "nccl", 4) == 0) type += 4;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (strcmp(type, types[i].name) == 0) return types[i].bytes;
	return 0;
}

static struct function {
	const char *name, *call;
	lk_comm_what what;
	bool all; /* multiply bytes by the ranks */
	uint32_t number, epoch;
} functions[] = {
	{"AllReduce", "ncclAllReduce", LK_WHAT_ALLREDUCE, false, 0, 0},
	{"AllGather", "ncclAllGather", LK_WHAT_ALLGATHER, true, 0, 0},
	{"ReduceScatter", "ncclReduceScatter", LK_WHAT_REDUCESCATTER, true, 0, 0},
	{"Broadcast", "ncclBroadcast", LK_WHAT_BROADCAST, false, 0, 0},
	{"Reduce", "ncclReduce", LK_WHAT_REDUCE, false, 0, 0},
	{"AlltoAll", "ncclAlltoAll", LK_WHAT_ALLTOALL, true, 0, 0},
	{"Gather", "ncclGather", LK_WHAT_GATHER, true, 0, 0},
	{"Scatter", "ncclScatter", LK_WHAT_SCATTER, true, 0, 0},
	{"Send", "ncclSend", LK_WHAT_SEND, false, 0, 0},
	{"Recv", "ncclRecv", LK_WHAT_RECV, false, 0, 0},
	{"", "ncclOther", LK_WHAT_OTHER, false, 0, 0},
};

static struct function *find_nccl_function(const char *name) {
	struct function *function = functions;
	while (*function->name && (!name || strcmp(function->name, name) != 0)) function++;
	return function;
}

/* The stream of a communicator if not given: frameworks use one for each. */
static uint32_t stream_number_of(const struct event *event) {
	const struct event *api = find_profiler_event(event->parent);
	lp_stream *stream = lp_gpu_stream(api && api->stream ? api->stream : event->of);
	return stream ? stream->number : 0;
}

static void describe_collective(struct event *event, const char *func, const char *type,
                                size_t count, int peer, int64_t sequence) {
	struct function *function = find_nccl_function(func);
	int element = type_name_bytes(type);
	int64_t bytes = 0, times = function->all && event->of->ranks > 0 ? event->of->ranks : 1;
	if (count > INT64_MAX || __builtin_mul_overflow((int64_t)count, element * times, &bytes))
		bytes = 0;
	event->serial = lp_gpu_serial();
	event->record = (lk_record_entry){.object = event->of->group, .bytes = bytes};
	event->record.comm.request = event->serial;
	event->record.comm.peer = peer;
	event->record.comm.from = sequence;
	event->record.comm.tag = (int32_t)stream_number_of(event);
	event->record.comm.part = LK_PART_ENQUEUE;
	event->record.comm.what = (uint8_t)function->what;
	event->record.comm.element_bytes = (uint16_t)element;
	event->record.comm.call = lp_name(&function->number, &function->epoch, function->call);
}

/* ---- channels on the device ---- */

/* `timer` 0: the interface lacks it; only the host's clock is available. */
static int64_t note_device_time(uint64_t timer, int64_t now) {
	if (!timer) return now;
	int64_t difference = now - (int64_t)timer;
	if (!has_offset || difference < offset || now - offset_at > RENEW_NS) {
		offset = difference;
		offset_at = now;
		has_offset = true;
	}
	return (int64_t)timer;
}

static void publish_copy(lk_record_entry filled, lk_record_kind kind) {
	lk_record_entry *record = lp_next();
	if (!record) return;
	filled.thread = record->thread;
	memcpy((char *)record + sizeof record->kind, (const char *)&filled + sizeof record->kind,
	       sizeof *record - sizeof record->kind);
	lp_publish(record, kind);
}

static void begin_channel(const struct event *event, int64_t now) {
	struct event *whole = find_profiler_event(event->parent);
	int64_t at = note_device_time(event->timer, now);
	if (!whole) return;
	if (whole->running++ == 0 || at < whole->first) whole->first = at;
}

/* End a channel. When none runs any more the work is recorded; channels that come later make a
 * second piece. */
static void end_channel(const struct event *event, uint64_t timer, int64_t now) {
	struct event *whole = find_profiler_event(event->parent);
	int64_t at = note_device_time(timer, now), shift = timer ? offset : 0;
	if (!whole || whole->running == 0) return;
	if (at > whole->last) whole->last = at;
	if (--whole->running > 0) return;
	lk_record_entry r = {.start_ns = whole->first + shift,
	                     .end_ns = whole->last + shift,
	                     .bytes = whole->record.bytes};
	if (r.start_ns < 0) r.start_ns = 0;
	if (r.end_ns < r.start_ns) r.end_ns = r.start_ns;
	r.device.serial = whole->serial;
	r.device.stream = (uint32_t)whole->record.comm.tag;
	r.device.count = 1;
	r.device.what = LK_DEVICE_COMM;
	r.device.direction = 4;
	publish_copy(r, LK_RECORD_DEVICE_WORK);
	whole->last = 0;
}

/* ---- network ---- */

/* Count the time since the last state as that state's. */
static void spend_proxy_time(struct event *step, int64_t now) {
	struct event *op = find_profiler_event(step->parent);
	int64_t spent = now - step->since;
	step->since = now;
	if (!op || op->type != LP_NP_PROXY_OP) return;
	switch (step->state) {
	case LP_NP_SEND_GPU_WAIT:
	case LP_NP_RECV_GPU_WAIT:
	case LP_NP_RECV_FLUSH_WAIT: op->record.proxy.device_ns += spent; break;
	case LP_NP_SEND_WAIT:
	case LP_NP_RECV_WAIT: op->record.proxy.network_ns += spent; break;
	case LP_NP_SEND_PEER_WAIT: op->record.proxy.peer_ns += spent; break;
	default: break;
	}
}

/* For an operation done for another process (PXN) the parent is an address in that process. */
static void begin_network_operation(struct event *event, const lp_np_proxy_op *op) {
	struct event *whole = op->pid == getpid() ? find_profiler_event(event->parent) : NULL;
	event->record = (lk_record_entry){.object = whole ? (uint32_t)whole->serial : 0};
	event->record.proxy.peer = op->peer;
	event->record.proxy.channel = op->channel;
	event->record.proxy.sends = op->sends != 0;
	int steps = op->steps < UINT16_MAX ? op->steps : UINT16_MAX;
	event->record.proxy.steps = (uint16_t)(steps < 0 ? 0 : steps);
}

/* ---- events, of every version ---- */

static struct event *start_event(void *handle, void **out, uint64_t type, void *parent) {
	const uint64_t known = LP_NP_COLL | LP_NP_P2P | LP_NP_PROXY_OP | LP_NP_PROXY_STEP |
	                       LP_NP_KERNEL_CH | LP_NP_COLL_API | LP_NP_P2P_API;
	*out = NULL;
	if (!handle || !(type & known) || !lp_enter()) return NULL;
	struct event *event = take_profiler_event(out);
	event->type = (uint32_t)type;
	event->of = handle;
	event->parent = parent;
	event->start = event->since = lp_now();
	return event;
}

static int stop_event(void *handle) {
	struct event *event = find_profiler_event(handle);
	if (!event || !lp_enter()) return 0;
	int64_t now = lp_now();
	event->record.start_ns = event->start;
	event->record.end_ns = now;
	if (event->type == LP_NP_COLL || event->type == LP_NP_P2P)
		publish_copy(event->record, LK_RECORD_COMM);
	else if (event->type == LP_NP_PROXY_OP) publish_copy(event->record, LK_RECORD_PROXY);
	else if (event->type == LP_NP_PROXY_STEP) spend_proxy_time(event, now);
	else if (event->type == LP_NP_KERNEL_CH && event->state != LP_NP_KERNEL_CH_STOP)
		end_channel(event, 0, now);
	lp_leave();
	return 0;
}

/* `bytes`: moved; `timer`: of the device. */
static int change_event_state(void *handle, int to, size_t bytes, uint64_t timer) {
	struct event *event = find_profiler_event(handle);
	if (!event || !lp_enter()) return 0;
	int64_t now = lp_now();
	if (event->type == LP_NP_PROXY_STEP) {
		struct event *op = find_profiler_event(event->parent);
		spend_proxy_time(event, now);
		/* reported with the state that follows the transfer's begin (sends) or its end
		 * (receives) */
		if (op && (to == LP_NP_SEND_WAIT || to == LP_NP_RECV_FLUSH_WAIT) && bytes < INT64_MAX / 4)
			op->record.bytes += (int64_t)bytes;
	} else if (event->type == LP_NP_KERNEL_CH && to == LP_NP_KERNEL_CH_STOP)
		end_channel(event, timer, now);
	event->state = to;
	lp_leave();
	return 0;
}

/* ---- version 3: communicators come with their collectives; no clock of the device ---- */

static int init_context_v3(void **out, int *mask) {
	return begin_context(out, mask, 3, 0, -1, -1);
}

static int start_event_v3(void *handle, void **out, lp_np_descr_v3 *descr_v3) {
	struct event *event = start_event(handle, out, descr_v3->type, descr_v3->parent);
	if (!event) return 0;
	bool coll = descr_v3->type == LP_NP_COLL;
	if ((coll || descr_v3->type == LP_NP_P2P) && !event->of->group)
		describe_context(event->of, coll ? descr_v3->coll.hash : descr_v3->p2p.hash, 0,
		                 descr_v3->rank);
	if (coll)
		describe_collective(event, descr_v3->coll.func, descr_v3->coll.type, descr_v3->coll.count,
		                    descr_v3->coll.root, (int64_t)descr_v3->coll.sequence);
	if (descr_v3->type == LP_NP_P2P)
		describe_collective(event, descr_v3->p2p.func, descr_v3->p2p.type, descr_v3->p2p.count,
		                    descr_v3->p2p.peer, -1);
	if (descr_v3->type == LP_NP_PROXY_OP) begin_network_operation(event, &descr_v3->proxy_op);
	if (descr_v3->type == LP_NP_KERNEL_CH) begin_channel(event, event->start);
	lp_leave();
	return 0;
}

/* Bytes come with whole operations. */
static int change_state_v3(void *handle, int to, lp_np_state_v3 *with) {
	struct event *event = find_profiler_event(handle);
	if (event && with && event->type == LP_NP_PROXY_OP &&
	    (int64_t)with->proxy_op.bytes > event->record.bytes)
		event->record.bytes = (int64_t)with->proxy_op.bytes;
	return change_event_state(handle, to, 0, 0);
}

/* ---- versions 4 to 6 ---- */

static void start_event_common(struct event *event, uint64_t type, const lp_np_coll *coll,
                               const lp_np_p2p *p2p, const lp_np_proxy_op *op,
                               const lp_np_kernel_ch *channel) {
	if (type == LP_NP_COLL)
		describe_collective(event, coll->func, coll->type, coll->count, coll->root,
		                    (int64_t)coll->sequence);
	if (type == LP_NP_P2P)
		describe_collective(event, p2p->func, p2p->type, p2p->count, p2p->peer, -1);
	if (type == LP_NP_PROXY_OP) begin_network_operation(event, op);
	if (type == LP_NP_KERNEL_CH) {
		event->timer = channel->timer;
		begin_channel(event, event->start);
	}
	lp_leave();
}

static int init_context_v4(void **out, int *mask, const char *comm, uint64_t hash, int nodes,
                           int ranks, int rank, void *log) {
	(void)comm, (void)nodes, (void)log;
	return begin_context(out, mask, 4, hash, ranks, rank);
}

static int start_event_v4(void *handle, void **out, lp_np_descr_v4 *descr_v4) {
	struct event *event = start_event(handle, out, descr_v4->type, descr_v4->parent);
	if (event)
		start_event_common(event, descr_v4->type, &descr_v4->coll, &descr_v4->p2p,
		                   &descr_v4->proxy_op, &descr_v4->kernel_ch);
	return 0;
}

static int change_state_v4(void *handle, int to, lp_np_state_v4 *with) {
	return change_event_state(handle, to, with ? with->proxy_step.bytes : 0,
	                          with ? with->kernel_ch.timer : 0);
}

static int init_context_v5(void **out, uint64_t id, int *mask, const char *comm, int nodes,
                           int ranks, int rank, void *log) {
	(void)comm, (void)nodes, (void)log;
	return begin_context(out, mask, 5, id, ranks, rank);
}

static int start_event_v5(void *handle, void **out, lp_np_descr_v5 *descr_v5) {
	struct event *event = start_event(handle, out, descr_v5->type, descr_v5->parent);
	if (!event) return 0;
	if (descr_v5->type == LP_NP_COLL_API) event->stream = descr_v5->coll_api.stream;
	if (descr_v5->type == LP_NP_P2P_API) event->stream = descr_v5->p2p_api.stream;
	start_event_common(event, descr_v5->type, &descr_v5->coll, &descr_v5->p2p, &descr_v5->proxy_op,
	                   &descr_v5->kernel_ch);
	return 0;
}

/* ---- tables ---- */

static const lp_np_table_v3 own_v3 = {"lockstep", init_context_v3, start_event_v3,
                                      stop_event, change_state_v3, end_context};
static const lp_np_table_v4 own_v4 = {"lockstep", init_context_v4, start_event_v4,
                                      stop_event, change_state_v4, end_context};
static const lp_np_table_v5 own_v5 = {"lockstep", init_context_v5, start_event_v5,
                                      stop_event, change_state_v4, end_context};

/* The preload library's tables, for the plugin's library, which may be loaded into a process with
 * the preload library: there must be one recording. */
const void *lockstep_probe_profiler(int version);
LP_EXPORT const void *lockstep_probe_profiler(int version) {
	if (version == 3) return &own_v3;
	if (version == 4) return &own_v4;
	return &own_v5;
}
