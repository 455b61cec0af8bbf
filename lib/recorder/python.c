/* python.c: what lockstep's Python modules (data/python/) tell the recorder. They stand between a
 * program and torch.distributed, above any library whose calls are seen here. */
#include "recorder/recorder.h"

/* A call of communication, as lockstep_c10d.py lays it out. Groups and names have numbers of the
 * module's own. */
struct lockstep_call {
	int64_t start_ns; /* from lockstep_probe_begin */
	int64_t bytes;
	uint64_t request;
	uint32_t group, name;
	int32_t peer, tag;
	uint8_t what, part; /* lk_comm_what, lk_comm_part */
	uint16_t element_bytes;
};

void lockstep_probe_torch(int rank, int world);
void lockstep_probe_left_out(void);
void lockstep_probe_name(uint32_t number, const char *text);
void lockstep_probe_group(uint32_t number, uint64_t division, int rank, int size,
                          const char *ranks);
int64_t lockstep_probe_begin(void);
void lockstep_probe_end(const struct lockstep_call *call);

/* The program has made a group of all ranks. */
LP_EXPORT void lockstep_probe_torch(int rank, int world) {
	if (!lp_enter()) return;
	lk_recording_head *head = lp_state.recorder.head;
	__atomic_fetch_or(&head->seen, LK_RECORDED_TORCH, __ATOMIC_RELAXED);
	head->rank = rank;
	head->world = world;
	lp_leave();
}

/* A collective is left out above its library. */
LP_EXPORT void lockstep_probe_left_out(void) {
	if (lp_state.on) __atomic_fetch_add(&lp_state.recorder.head->left_out, 1, __ATOMIC_RELAXED);
}

LP_EXPORT void lockstep_probe_name(uint32_t number, const char *text) {
	if (!lp_enter()) return;
	lk_record_entry record = {.object = number};
	lp_text(&record, LK_RECORD_NAME, text);
	lp_leave();
}

/* A group; `rank` -1: of other ranks. `division`: of the groups that were made together. */
LP_EXPORT void lockstep_probe_group(uint32_t number, uint64_t division, int rank, int size,
                                    const char *ranks) {
	if (!lp_enter()) return;
	lk_record_entry record = {.object = number,
	                          .start_ns = lp_now(),
	                          .bytes = (int64_t)division,
	                          .comm = {.peer = size, .tag = rank}};
	lp_text(&record, LK_RECORD_GROUP, ranks);
	lp_leave();
}

/* A call begins: its time; -1: nothing is recorded. */
LP_EXPORT int64_t lockstep_probe_begin(void) {
	if (!lp_enter()) return -1;
	int64_t start = lp_now();
	lp_record_processor(start, LP_AT_CALLS);
	lp_leave();
	return start;
}

LP_EXPORT void lockstep_probe_end(const struct lockstep_call *call) {
	if (call->start_ns < 0 || !lp_enter()) return;
	lk_record_entry *record = lp_next();
	if (record) {
		record->object = call->group;
		record->start_ns = call->start_ns;
		record->end_ns = lp_now();
		record->bytes = call->bytes;
		record->comm.request = call->request;
		record->comm.peer = call->peer;
		record->comm.from = -1;
		record->comm.tag = call->tag;
		record->comm.part = call->part;
		record->comm.what = call->what;
		record->comm.element_bytes = call->element_bytes;
		record->comm.call = call->name;
		int64_t end = record->end_ns;
		lp_publish(record, LK_RECORD_COMM);
		lp_record_processor(end, LP_AT_CALLS);
	}
	lp_leave();
}
