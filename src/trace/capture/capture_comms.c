/* capture_comms.c: communication, found in what a profiler saw.
 *
 * Newer traces state collectives in arguments: of the kernel, and of the operation
 * record_param_comms that enqueued it. Older ones have the kernel's name
 * (ncclKernel_AllReduce_RING_LL_Sum_float) and, around the call that launched it, an annotation of
 * the process group (nccl:all_reduce) whose `Input Dims` and `Input type` tell how much was sent.
 * Hosts without devices (gloo) have the annotation alone, and it is what took the time.
 *
 * In the end each communication has one note: on its kernel; on a host, on the annotation; where
 * neither exists, on the operation that enqueued it. */
#include "trace/capture/capture.h"
#include "base/check.h"
#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PARENTS = 256 };

/* A kernel without a note of its own and the annotation or operation that enqueued it. */
struct joined {
	uint32_t cause, note; /* event; index in comms */
};

struct state {
	lk_capture *capture;
	size_t read; /* number of notes from the reader */
	LK_VEC(struct joined) joined;
	uint8_t *traits; /* by name: what kind of name it is */
};

enum { UNKNOWN, OTHER, DEVICE_ANNOTATION, HOST_ANNOTATION, PARAMETERS, COMM_KERNEL };

/* Classify a name; looked up once per name. */
static uint8_t trait_of(const struct state *state, uint32_t name) {
	uint8_t *t = &state->traits[name];
	if (*t != UNKNOWN) return *t;
	const char *text = lk_capture_text(state->capture, name);
	unsigned kind;
	*t = OTHER;
	if (strcmp(text, "record_param_comms") == 0) *t = PARAMETERS;
	else if (strncmp(text, "nccl:", 5) == 0) *t = DEVICE_ANNOTATION;
	else if (strncmp(text, "gloo:", 5) == 0 || strncmp(text, "mpi:", 4) == 0) *t = HOST_ANNOTATION;
	else if (lk_comm_kernel(text, &kind)) *t = COMM_KERNEL;
	return *t;
}

/* ---- sizes from shapes ---- */

/* Elements of the tensors at the head of a list of shapes, "[[6144],[],[]]": 6144. Lists in lists
 * are lists of tensors. -1 where no shape is stated. */
static int64_t comms_elements_of(const char *dims) {
	double sum = 0, product = 1;
	bool inside = false, any = false;
	for (const char *p = dims; *p; p++) {
		if (*p == '[') {
			product = 1;
			inside = false;
		} else if (*p >= '0' && *p <= '9') {
			double size = *p - '0';
			while (p[1] >= '0' && p[1] <= '9') size = size * 10 + (*++p - '0');
			product *= size;
			inside = true;
		} else if (*p == ']' && inside) {
			sum += product;
			inside = false;
			any = true;
		}
	}
	return any && sum < 9e18 ? (int64_t)sum : -1;
}

/* The first type of "[float,Scalar]", "[TensorList]". */
static void first_type(const char *types, char *out, size_t size) {
	size_t n = strspn(types, "["), length = strcspn(types + n, ",]");
	if (length >= size) length = size - 1;
	memcpy(out, types + n, length);
	out[length] = '\0';
}

/* Elements of the result for the elements of the input. */
static int64_t comms_elements_out(const lk_comm_note *note) {
	if (note->in_elements < 0) return -1;
	bool spreads = note->kind == LK_OP_ALLGATHER || note->kind == LK_OP_REDUCESCATTER;
	if (note->kind == LK_OP_COUNT || (spreads && note->group_size <= 0)) return -1;
	if (note->kind == LK_OP_REDUCESCATTER) return note->in_elements / note->group_size;
	if (note->kind == LK_OP_ALLGATHER)
		return note->in_elements < INT64_MAX / note->group_size
		           ? note->in_elements * note->group_size
		           : -1;
	return note->in_elements;
}

static lk_status sizes_from_shapes(lk_capture *capture, uint32_t event, lk_comm_note *note,
                                   lk_error *err) {
	LK_ASSERT(event < capture->count);
	char type[64];
	if (capture->kind[event] != LK_EVENT_OP && capture->kind[event] != LK_EVENT_NOTE) return LK_OK;
	const lk_shape_note *shapes = lk_capture_shape(capture, event);
	first_type(lk_capture_text(capture, shapes->types), type, sizeof type);
	if (!note->element_bytes) note->element_bytes = (uint8_t)lk_comm_element_bytes(type);
	if (!note->element_bytes) return LK_OK; /* a TensorList has no shape of its own */
	if (!note->dtype) note->dtype = lk_intern_id(capture->names, type);
	if (note->dtype == LK_NONE) return lk_oom(err);
	if (note->in_elements < 0)
		note->in_elements = comms_elements_of(lk_capture_text(capture, shapes->shape));
	if (note->out_elements < 0) note->out_elements = comms_elements_out(note);
	return LK_OK;
}

/* "nccl:send 0->1", "nccl:recv 0<-1": the other rank. */
static int32_t comms_peer_of(const char *annotation) {
	const char *at = strstr(annotation, "->");
	if (!at) at = strstr(annotation, "<-");
	if (!at || at[2] < '0' || at[2] > '9') return -1;
	long peer = strtol(at + 2, NULL, 10);
	return peer < 1 << 30 ? (int32_t)peer : -1;
}

/* ---- notes ---- */

/* The reader's note of an event, or NULL. */
static const lk_comm_note *read_note(const struct state *state, uint32_t event) {
	LK_ASSERT(event < state->capture->count);
	lk_comm_note key = {.event = event};
	return state->read
	           ? bsearch(&key, state->capture->comms.at, state->read, sizeof key, lk_note_order)
	           : NULL;
}

/* The innermost annotation around an event of a thread, else the operation with parameters. */
static uint32_t comms_cause_of(const struct state *state, uint32_t event) {
	uint32_t parameters = LK_NONE;
	for (int i = 0; event != LK_NONE && i < MOST_PARENTS;
	     i++, event = state->capture->parent[event]) {
		uint8_t trait = trait_of(state, state->capture->name[event]);
		if (trait == DEVICE_ANNOTATION || trait == HOST_ANNOTATION) return event;
		if (trait == PARAMETERS && parameters == LK_NONE) parameters = event;
	}
	return parameters;
}

/* The operation with parameters around an annotation, if the reader noted them. */
static const lk_comm_note *parameters_of(const struct state *state, uint32_t event) {
	for (int i = 0; event != LK_NONE && i < MOST_PARENTS;
	     i++, event = state->capture->parent[event])
		if (trait_of(state, state->capture->name[event]) == PARAMETERS)
			return read_note(state, event);
	return NULL;
}

/* Make the note of a communication of `kind` from the annotation `cause` (or LK_NONE). */
static lk_status note_of(struct state *state, uint32_t event, uint32_t cause, unsigned kind,
                         lk_comm_note *note, lk_error *err) {
	LK_ASSERT(event < state->capture->count);
	*note = (lk_comm_note){
		.event = event, .kind = (uint8_t)kind, .peer = -1, .in_elements = -1, .out_elements = -1};
	if (cause == LK_NONE) return LK_OK;
	const lk_comm_note *stated = parameters_of(state, cause);
	if (stated) {
		*note = *stated;
		note->event = event;
	}
	const char *name = lk_capture_text(state->capture, state->capture->name[cause]);
	unsigned said = trait_of(state, state->capture->name[cause]) == PARAMETERS ? LK_OP_COUNT
	                                                                           : lk_comm_kind(name);
	/* Trust the kernel's name, except for names that all point-to-point traffic shares. */
	if (kind != LK_OP_COUNT && kind != LK_OP_ALLTOALL) note->kind = (uint8_t)kind;
	else if (said != LK_OP_COUNT) note->kind = (uint8_t)said;
	if (note->peer < 0 && (note->kind == LK_OP_SEND || note->kind == LK_OP_RECV))
		note->peer = comms_peer_of(name);
	return sizes_from_shapes(state->capture, cause, note, err);
}

static lk_status add_kernel(struct state *state, uint32_t event, lk_error *err) {
	LK_ASSERT(event < state->capture->count);
	lk_capture *capture = state->capture;
	lk_comm_note n;
	unsigned kind;
	uint32_t call = capture->launch[event],
			 cause = call == LK_NONE ? LK_NONE : comms_cause_of(state, call);
	lk_comm_kernel(lk_capture_text(capture, capture->name[event]), &kind);
	LK_TRY(note_of(state, event, cause, kind, &n, err));
	if (!lk_push(&capture->comms)) return lk_oom(err);
	*lk_last(&capture->comms) = n;
	if (cause == LK_NONE) return LK_OK;
	if (!lk_push(&state->joined)) return lk_oom(err);
	*lk_last(&state->joined) = (struct joined){cause, (uint32_t)capture->comms.count - 1};
	return LK_OK;
}

LK_ORDER_BY(by_cause, struct joined, cause)

/* An annotation that launched several kernels states their total size: forget the size of each. */
static void drop_shared_sizes(struct state *state) {
	lk_sort(state->joined.at, state->joined.count, sizeof *state->joined.at, by_cause);
	for (size_t i = 0; i < state->joined.count; i++) {
		const struct joined *joined = &state->joined.at[i];
		bool shared = (i > 0 && joined[-1].cause == joined->cause) ||
		              (i + 1 < state->joined.count && joined[1].cause == joined->cause);
		if (shared)
			state->capture->comms.at[joined->note].in_elements =
				state->capture->comms.at[joined->note].out_elements = -1;
	}
}

/* Add annotations of hosts as communication if nothing ran on a device. */
static lk_status comms_add_host(struct state *state, lk_error *err) {
	lk_capture *capture = state->capture;
	for (uint32_t i = 0; i < capture->count; i++) {
		if (capture->kind[i] != LK_EVENT_NOTE ||
		    trait_of(state, capture->name[i]) != HOST_ANNOTATION || read_note(state, i))
			continue;
		lk_comm_note n;
		LK_TRY(note_of(state, i, i, LK_OP_COUNT, &n, err));
		if (!lk_push(&capture->comms)) return lk_oom(err);
		*lk_last(&capture->comms) = n;
	}
	return LK_OK;
}

/* Drop operations that only enqueued a communication already noted. */
static void drop_parameters(struct state *state, bool kernels) {
	lk_capture *capture = state->capture;
	size_t kept = 0;
	for (size_t i = 0; i < capture->comms.count; i++) {
		uint32_t event = capture->comms.at[i].event;
		bool carried = kernels ? lk_event_on_device(capture->kind[event])
		                       : capture->kind[event] == LK_EVENT_NOTE;
		if (carried) capture->comms.at[kept++] = capture->comms.at[i];
	}
	if (kept) capture->comms.count = kept;
}

static lk_status comms_join(struct state *state, lk_error *err) {
	lk_capture *capture = state->capture;
	bool kernels = false;
	for (uint32_t i = 0; i < capture->count; i++) {
		if (capture->kind[i] != LK_EVENT_KERNEL || trait_of(state, capture->name[i]) != COMM_KERNEL)
			continue;
		kernels = true;
		if (!read_note(state, i)) LK_TRY(add_kernel(state, i, err));
	}
	drop_shared_sizes(state);
	if (!kernels) LK_TRY(comms_add_host(state, err));
	drop_parameters(state, kernels);
	return LK_OK;
}

/* Find which of the few names of device work are communication. */
static lk_status comms_learn_names(lk_capture *capture, lk_error *err) {
	uint32_t count = lk_intern_count(capture->names);
	bool *asked = calloc((size_t)count + 1, sizeof *asked);
	free(capture->comm_names);
	capture->comm_name_count = 0;
	capture->comm_names = calloc((size_t)count + 1, sizeof *capture->comm_names);
	for (uint32_t i = 0; asked && capture->comm_names && i < capture->count; i++) {
		uint32_t name = capture->name[i];
		unsigned kind;
		if (!lk_event_on_device(capture->kind[i]) || asked[name]) continue;
		asked[name] = true;
		capture->comm_names[name] = lk_comm_kernel(lk_capture_text(capture, name), &kind);
	}
	lk_status status = asked && capture->comm_names ? LK_OK : lk_oom(err);
	if (status == LK_OK) capture->comm_name_count = count;
	free(asked);
	return status;
}

bool lk_work_communicates(const lk_capture *capture, uint32_t event) {
	LK_ASSERT(event < capture->count && lk_event_on_device(capture->kind[event]));
	uint32_t name = capture->name[event];
	unsigned kind;
	return name < capture->comm_name_count ? capture->comm_names[name]
	                                       : lk_comm_kernel(lk_capture_text(capture, name), &kind);
}

lk_status lk_capture_join_comms(lk_capture *capture, lk_error *err) {
	struct state s = {.capture = capture, .read = capture->comms.count};
	LK_TRY(comms_learn_names(capture, err));
	lk_notes_sort(capture->comms.at, s.read, sizeof *capture->comms.at);
	s.traits = calloc(lk_intern_count(capture->names) + 1, 1);
	lk_status status = s.traits ? comms_join(&s, err) : lk_oom(err);
	free(s.traits);
	lk_vec_free(&s.joined);
	return status;
}
