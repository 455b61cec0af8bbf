/* nccl_groups.c: communicators of NCCL as numbers that join the processes of a job; records of its
 * calls.
 *
 * A communicator that ranks make together has a name that each of them can compute: a hash of the
 * unique id, or of the parent's name, the number of the split, and the colour. Each member writes
 * its rank of the world into the file of that name, so that the reader knows the members without a
 * message being sent. */
#include "recorder/gpu/gpu.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { GROUPS = 1 << 10, MOST_RANKS = 1 << 20 };
enum { FREE_PLACE, TAKEN, LIVE };

/* ---- communicators ---- */

static lp_nccl_group groups[GROUPS];
static uint32_t group_count;
static bool world_from_nccl; /* rank and world of the recording come from a communicator */
static lp_age age;

__thread int lp_nccl_depth __attribute__((tls_model("initial-exec")));
__thread lp_nccl_queue *lp_nccl_queued __attribute__((tls_model("initial-exec")));

lp_nccl_queue *lp_nccl_own_queue(void) {
	if (lp_nccl_queued) return lp_nccl_queued;
	void *room = mmap(NULL, sizeof *lp_nccl_queued, PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return lp_nccl_queued = room == MAP_FAILED ? NULL : room;
}

/* For a forked child, which has one thread. */
static void empty_groups(void) {
	memset(groups, 0, sizeof groups);
	group_count = 0;
	world_from_nccl = false;
	lp_nccl_depth = 0;
	if (lp_nccl_queued) lp_nccl_queued->count = lp_nccl_queued->made = 0;
	lp_renewed(&age);
}

uint64_t lp_nccl_mix(uint64_t hash, const void *bytes, size_t size) {
	const unsigned char *at = bytes;
	for (size_t i = 0; i < size; i++) hash = (hash ^ at[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return hash;
}
uint64_t lp_nccl_hash(const void *bytes, size_t size) {
	return lp_nccl_mix(UINT64_C(0xcbf29ce484222325), bytes, size);
}

lp_nccl_group *lp_nccl_find_group(const void *comm) {
	if (lp_is_stale(&age)) empty_groups();
	for (uint32_t i = 0; i < GROUPS; i++) {
		uint32_t state = __atomic_load_n(&groups[i].state, __ATOMIC_ACQUIRE);
		if (state == LIVE && groups[i].key == (uint64_t)(uintptr_t)comm) return &groups[i];
		if (i > group_count && state == FREE_PLACE) return NULL;
	}
	return NULL;
}

lp_nccl_group *lp_nccl_add_group(void *comm, const lp_nccl_making *making) {
	if (lp_is_stale(&age)) empty_groups();
	for (uint32_t i = 0; i < GROUPS; i++) {
		uint32_t free = FREE_PLACE;
		lp_nccl_group *group = &groups[i];
		if (!__atomic_compare_exchange_n(&group->state, &free, TAKEN, false, __ATOMIC_ACQ_REL,
		                                 __ATOMIC_RELAXED))
			continue;
		uint32_t number = LP_FIRST_GROUP + __atomic_add_fetch(&group_count, 1, __ATOMIC_RELAXED);
		*group = (lp_nccl_group){.key = (uint64_t)(uintptr_t)comm,
		                         .state = TAKEN,
		                         .number = number,
		                         .ranks = making->ranks,
		                         .rank = making->rank,
		                         .hash = making->hash};
		__atomic_store_n(&group->state, LIVE, __ATOMIC_RELEASE);
		return group;
	}
	return NULL;
}

/* Set rank and size of the world: from the launcher (torchrun's names), else from the largest
 * communicator. */
static void learn_world_rank(int ranks, int rank) {
	lk_recording_head *head = lp_state.recorder.head;
	const char *of = getenv("WORLD_SIZE"), *own = getenv("RANK");
	long world = of ? strtol(of, NULL, 10) : 0, number = own ? strtol(own, NULL, 10) : -1;
	if (lp_nccl_is_emulating()) {
		world = lp_mode.world;
		number = lp_mode.rank;
	}
	__atomic_fetch_or(&head->seen, LK_RECORDED_NCCL, __ATOMIC_RELAXED);
	if (head->rank >= 0 && !world_from_nccl) return;
	bool said = world >= ranks && world <= MOST_RANKS && number >= 0 && number < world;
	if (!said && ranks <= head->world) return;
	head->rank = said ? (int32_t)number : rank;
	head->world = said ? (int32_t)world : ranks;
	world_from_nccl = !said;
}

/* Write the own entry in the file of members. */
static void write_group_member(uint64_t hash, int rank) {
	char name[40];
	LP_TAKE(lp_path, at, );
	char *path = *at;
	int32_t number = lp_state.recorder.head->rank + 1;
	if (rank < 0 || rank >= MOST_RANKS || number <= 0) return;
	snprintf(name, sizeof name, "/%016llx" LK_GROUP_ENDING, (unsigned long long)hash);
	if (!lp_join(path, PATH_MAX, lp_state.folder, name, LP_END)) return;
	int fd =
		(int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) return;
	long wrote =
		syscall(SYS_pwrite64, fd, &number, sizeof number, (off_t)rank * (off_t)sizeof number);
	if (wrote != sizeof number) lp_state.recorder.head->dropped++;
	syscall(SYS_close, fd);
}

void lp_nccl_name_group(uint32_t number, uint64_t hash, int ranks, int rank) {
	char name[32];
	learn_world_rank(ranks, rank);
	write_group_member(hash, rank);
	snprintf(name, sizeof name, "#%016llx", (unsigned long long)hash);
	lk_record_entry record = {
		.object = number, .start_ns = lp_now(), .comm = {.peer = ranks, .tag = rank}};
	lp_text(&record, LK_RECORD_GROUP, name);
}

static int ask_nccl(const char *name, void *comm) {
	int (*real)(void *, int *) = (int (*)(void *, int *))(uintptr_t)lp_nccl_symbol(name);
	int value = -1;
	return real && real(comm, &value) == 0 ? value : -1;
}

/* At first use: an incomplete communicator (non-blocking) cannot be queried earlier. */
void lp_nccl_record_group(lp_nccl_group *group, void *comm) {
	if (group->recorded) return;
	LP_TAKE(lp_long_text, ranks, );
	group->recorded = true;
	if (group->ranks < 0) group->ranks = ask_nccl("ncclCommCount", comm);
	if (group->rank < 0) group->rank = ask_nccl("ncclCommUserRank", comm);
	lp_nccl_emulated *emulated = lp_nccl_find_emulated(comm);
	if (!emulated || !emulated->stride) {
		lp_nccl_name_group(group->number, group->hash, group->ranks, group->rank);
		return;
	}
	learn_world_rank(group->ranks, group->rank);
	lp_nccl_list_emulated(emulated, *ranks, sizeof *ranks);
	lk_record_entry record = {.object = group->number,
	                          .start_ns = lp_now(),
	                          .comm = {.peer = group->ranks, .tag = group->rank}};
	lp_text(&record, LK_RECORD_GROUP, *ranks);
}

lp_nccl_group *lp_nccl_group_of(void *comm) {
	lp_nccl_group *group = comm ? lp_nccl_find_group(comm) : NULL;
	/* made before recording began */
	if (!group && comm)
		group = lp_nccl_add_group(
			comm,
			&(lp_nccl_making){.hash = lp_nccl_hash(&comm, sizeof comm), .ranks = -1, .rank = -1});
	if (group) lp_nccl_record_group(group, comm);
	return group;
}

void lp_nccl_keep_made(lp_nccl_making *making) {
	if (*making->out && !lp_nccl_find_group(*making->out)) lp_nccl_add_group(*making->out, making);
}

void lp_nccl_forget_group(lp_nccl_group *group) {
	__atomic_store_n(&group->state, FREE_PLACE, __ATOMIC_RELEASE);
}

/* ---- records ---- */

void lp_nccl_publish(const lk_record_entry *filled) {
	LP_ASSERT(lp_thread.busy);
	lk_record_entry *record = lp_next();
	if (!record) return;
	uint16_t thread = record->thread;
	memcpy((char *)record + sizeof record->kind, (const char *)filled + sizeof record->kind,
	       sizeof *record - sizeof record->kind);
	record->thread = thread;
	lp_publish(record, LK_RECORD_COMM);
}

void lp_nccl_record_management(uint32_t *number, uint32_t *epoch, const char *name,
                               const lp_nccl_group *group, int64_t start) {
	uint32_t called = lp_name(number, epoch, name);
	lp_nccl_publish(&(lk_record_entry){
		.object = group ? group->number : 0,
		.start_ns = start,
		.end_ns = lp_now(),
		.comm = {
			.peer = -1, .from = -1, .part = LK_PART_WHOLE, .what = LK_WHAT_OTHER, .call = called}});
}
