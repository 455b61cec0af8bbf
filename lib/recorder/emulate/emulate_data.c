/* emulate_data.c: the calls of an emulated rank: nothing is sent, and data of other ranks is made
 * up by a rule. If the result is known to hold the rank's own contribution, it does: its own block
 * of gathers and exchanges; in reductions its own operand, as if all others gave the neutral
 * element.
 *
 *     numbers  numbers from -1 to 1 in buffers of floating-point numbers, the same ones in every
 *              run. Zeros in others, because a program may steer by them, and if the type is
 *              unknown. Zeros everywhere would be faster than real data: exponentials of zeros, and
 *              branches that all go one way, take less time.
 *     random   the same, and integers below 16 in integer buffers
 *     zeros    bytes of 0
 *     FILE     the file's bytes, from its beginning in every call, repeated */
#include "recorder/emulate/emulate.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* LONGEST_NAME: above MPI_MAX_OBJECT_NAME of both. */
enum { ANY_TAG = -1, LONGEST_NAME = 256, SMALL = 15 };

static enum { ZEROS, NUMBERS, RANDOM, FILE_BYTES } rule;
static const char *file; /* mapped */
static size_t file_bytes;
static uint64_t drawn; /* random numbers drawn so far */

/* ---- the rule ---- */

static void map_fill_file(const char *path) {
	struct stat info = {0};
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &info) != 0 || info.st_size < 1)
		lp_emulate_give_up("%s is not a file to fill buffers with", path);
	file_bytes = (size_t)info.st_size;
	file = mmap(NULL, file_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED) lp_emulate_give_up("%s cannot be read", path);
	syscall(SYS_close, fd);
}

static void choose_fill_rule(const char *fill) {
	if (!*fill || strcmp(fill, "numbers") == 0) {
		rule = NUMBERS;
	} else if (strcmp(fill, "random") == 0) {
		rule = RANDOM;
	} else if (strcmp(fill, "zeros") == 0) {
		rule = ZEROS;
	} else {
		rule = FILE_BYTES;
		map_fill_file(fill);
	}
}

/* Bytes of a number of this type; `real`: floating point. 0: unknown. */
static int number_type_bytes(lp_handle type, bool *real) {
	static int (*name_of)(lp_handle, char *, int *);
	char name[LONGEST_NAME] = "";
	int length = 0, size = 0;
	if (!name_of)
		name_of = (int (*)(lp_handle, char *, int *))(uintptr_t)lp_symbol("PMPI_Type_get_name");
	if (name_of(type, name, &length) != 0 || !*name || lp_mpi_real.type_size(type, &size) != 0)
		return 0;
	*real = strstr(name, "FLOAT") || strstr(name, "DOUBLE") || strstr(name, "REAL");
	bool plain = size == 1 || size == 2 || size == 4 || size == 8;
	return plain && !(*real && size < 4) ? size : 0;
}

static void draw_numbers(char *to, size_t bytes, lp_handle type) {
	bool real;
	int size = number_type_bytes(type, &real);
	memset(to, 0, bytes);
	for (size_t at = 0; size && at + (size_t)size <= bytes; at += (size_t)size) {
		uint64_t random = lp_emulate_hash(drawn++, 0x66696c6c);
		float single = (float)(random >> 40) * 0x1p-23f - 1;
		double both = (double)(random >> 11) * 0x1p-52 - 1;
		if (real) memcpy(to + at, size == 4 ? (void *)&single : (void *)&both, (size_t)size);
		else if (rule == RANDOM)
			to[at] =
				(char)(random & SMALL); /* the lowest byte comes first on the supported machines */
	}
}

static void repeat_fill_file(char *to, size_t bytes) {
	for (size_t at = 0, part; at < bytes; at += part) {
		part = bytes - at < file_bytes ? bytes - at : file_bytes;
		memcpy(to + at, file, part);
	}
}

static void fill_dense(char *to, size_t bytes, lp_handle type) {
	if (rule == ZEROS) memset(to, 0, bytes);
	else if (rule == FILE_BYTES) repeat_fill_file(to, bytes);
	else draw_numbers(to, bytes, type);
}

/* Fill `count` elements that others would have sent. A type with gaps is filled from a packed copy,
 * so that gaps are unchanged. */
static void fill_typed(void *to, lp_count count, lp_handle type) {
	int size;
	lp_aint lower, extent;
	if (count <= 0 || !to || lp_mpi_real.type_size(type, &size) != 0 ||
	    lp_mpi_real.type_get_extent(type, &lower, &extent) != 0)
		return;
	size_t bytes = (size_t)count * (size_t)size;
	if (lower == 0 && extent == size) {
		fill_dense(to, bytes, type);
		return;
	}
	char *packed = malloc(bytes + 1);
	if (!packed) lp_emulate_give_up("out of memory");
	fill_dense(packed, bytes, type);
	lp_mpi_copy(packed, (lp_count)bytes, lp_mpi_real.byte, to, count, type);
	free(packed);
}

/* ---- collectives ---- */

/* The block of a rank in a buffer. `list`: which of the call's lists has the sizes; -1: all sizes
 * are equal. */
struct block {
	void *at;
	lp_count count;
	lp_handle type;
};

static struct block rank_block_of(const lp_mpi_call *call, const void *buffer, lp_count each,
                                  lp_handle type, int list, int i) {
	bool listed = list >= 0 && call->lists[list];
	lp_count count = listed ? lp_mpi_listed(call, list, i) : each,
			 place = listed ? lp_mpi_placed(call, list, i) : each * i;
	return (struct block){lp_mpi_element(buffer, place, type), count, type};
}

static struct block received_block(const lp_mpi_call *call, int i) {
	return rank_block_of(call, call->recv, call->counts[1], call->types[1],
	                     call->what == LK_WHAT_ALLTOALL ? 1 : 0, i);
}

static void copy_rank_block(struct block from, struct block to) {
	lp_mpi_copy(from.at, from.count, from.type, to.at, to.count, to.type);
}

static void fill_other_blocks(const lp_mpi_call *call, const lp_emulated_comm *comm) {
	for (int i = 0; i < comm->size; i++) {
		struct block b = received_block(call, i);
		if (i != comm->rank) fill_typed(b.at, b.count, b.type);
	}
}

static void emulate_gather(const lp_mpi_call *call, const lp_emulated_comm *comm) {
	struct block own = {(void *)(uintptr_t)call->send, call->counts[0], call->types[0]};
	fill_other_blocks(call, comm);
	if (!lp_mpi_in_place(call->send)) copy_rank_block(own, received_block(call, comm->rank));
}

static void emulate_scatter(const lp_mpi_call *call, const lp_emulated_comm *comm) {
	struct block to = {call->recv, call->lists[0] ? call->counts[0] : call->counts[1],
	                   call->types[1]};
	if (comm->rank != call->peer) fill_typed(to.at, to.count, to.type);
	else if (!lp_mpi_in_place(call->recv))
		copy_rank_block(
			rank_block_of(call, call->send, call->counts[0], call->types[0], 0, comm->rank), to);
}

/* MPI_Alltoallw: displacements are in bytes, and every block has its own type. */
static struct block alltoallw_block(const lp_mpi_call *call, const void *buffer, int side, int i) {
	char *at = (char *)(uintptr_t)buffer + lp_mpi_placed(call, side, i);
	return (struct block){at, lp_mpi_listed(call, side, i), call->type_lists[side][i]};
}

static void emulate_alltoallw(const lp_mpi_call *call, const lp_emulated_comm *comm) {
	if (!call->type_lists[1]) lp_emulate_give_up("MPI_Alltoallw is emulated only in C");
	for (int i = 0; i < comm->size; i++) {
		struct block b = alltoallw_block(call, call->recv, 1, i);
		if (i != comm->rank) fill_typed(b.at, b.count, b.type);
		else if (!lp_mpi_in_place(call->send))
			copy_rank_block(alltoallw_block(call, call->send, 0, i), b);
	}
}

static void emulate_alltoall(const lp_mpi_call *call, const lp_emulated_comm *comm) {
	if (strstr(call->name, "lltoallw")) {
		emulate_alltoallw(call, comm);
		return;
	}
	fill_other_blocks(call, comm);
	if (!lp_mpi_in_place(call->send))
		copy_rank_block(
			rank_block_of(call, call->send, call->counts[0], call->types[0], 0, comm->rank),
			received_block(call, comm->rank));
}

static void emulate_reduce(const lp_mpi_call *call) {
	if (!lp_mpi_in_place(call->send))
		lp_mpi_copy(call->send, call->counts[0], call->types[0], call->recv, call->counts[0],
		            call->types[0]);
}

static void emulate_scan(const lp_mpi_call *call, const lp_emulated_comm *comm) {
	if (!strstr(call->name, "xscan")) emulate_reduce(call);
	else if (comm->rank > 0) fill_typed(call->recv, call->counts[0], call->types[0]);
}

static void emulate_reduce_scatter(const lp_mpi_call *call, const lp_emulated_comm *comm) {
	lp_count before = call->counts[0] * comm->rank,
			 count = call->lists[0] ? lp_mpi_listed(call, 0, comm->rank) : call->counts[0];
	for (int i = 0; call->lists[0] && i < comm->rank; i++) before += lp_mpi_listed(call, 0, i);
	const void *from = lp_mpi_in_place(call->send) ? call->recv : call->send;
	lp_mpi_copy(lp_mpi_element(from, before, call->types[0]), count, call->types[0], call->recv,
	            count, call->types[0]);
}

/* ---- messages ---- */

/* Fill a receive. If the program leaves the source open, it is the next rank; the recording marks
 * it as unknown. */
static void emulate_receive(lp_mpi_call *call, const lp_emulated_comm *comm, int from,
                            lp_count count, lp_handle type) {
	int tag = call->tag == ANY_TAG ? 0 : call->tag;
	if (from == LP_PROC_NULL) {
		lp_mpi_give_status(call, LP_PROC_NULL, ANY_TAG, type, 0);
		return;
	}
	fill_typed(call->recv, count, type);
	lp_mpi_give_status(call, from == LP_ANY_SOURCE ? (comm->rank + 1) % comm->size : from, tag,
	                   type, count);
	if (from == LP_ANY_SOURCE) call->status = NULL;
}

static void emulate_sendrecv(lp_mpi_call *call, const lp_emulated_comm *comm) {
	bool replace = strstr(call->name, "replace");
	emulate_receive(call, comm, call->from, call->counts[!replace], call->types[!replace]);
}

static void check_peer_rank(const lp_mpi_call *call, const lp_emulated_comm *comm, int peer) {
	if (peer >= comm->size)
		lp_emulate_give_up("%s names rank %d of a communicator of %d", call->name, peer,
		                   comm->size);
}

static void emulate_call(lp_mpi_call *call, lp_emulated_comm *comm) {
	LP_ASSERT(comm->size > 0);
	check_peer_rank(call, comm, call->peer);
	if (call->what == LK_WHAT_SENDRECV) check_peer_rank(call, comm, call->from);
	switch (call->what) {
	case LK_WHAT_BROADCAST:
		if (comm->rank != call->peer) fill_typed(call->recv, call->counts[0], call->types[0]);
		break;
	case LK_WHAT_REDUCE:
		if (comm->rank == call->peer) emulate_reduce(call);
		break;
	case LK_WHAT_GATHER:
		if (comm->rank == call->peer) emulate_gather(call, comm);
		break;
	case LK_WHAT_ALLREDUCE: emulate_reduce(call); break;
	case LK_WHAT_ALLGATHER: emulate_gather(call, comm); break;
	case LK_WHAT_SCATTER: emulate_scatter(call, comm); break;
	case LK_WHAT_ALLTOALL: emulate_alltoall(call, comm); break;
	case LK_WHAT_SCAN: emulate_scan(call, comm); break;
	case LK_WHAT_REDUCESCATTER: emulate_reduce_scatter(call, comm); break;
	case LK_WHAT_RECV:
		emulate_receive(call, comm, call->peer, call->counts[0], call->types[0]);
		break;
	case LK_WHAT_SENDRECV: emulate_sendrecv(call, comm); break;
	default: break; /* a barrier, a send */
	}
}

/* ---- the mode ---- */

static bool replace_emulated_call(lp_mpi_call *call) {
	lp_emulated_comm *comm = lp_emulate_find_comm(call->comm);
	if (!comm) return false;
	if (strstr(call->name, "robe")) /* of messages that nobody sent */
		lp_emulate_give_up("%s cannot be emulated by a single process", call->name);
	call->result = 0;
	if (call->what == LK_WHAT_OTHER) return lp_emulate_make_comm(call, comm);
	emulate_call(call, comm);
	if (call->request) lp_mpi_give_request(call);
	return true;
}

static bool describe_emulated_comm(lp_handle handle, int *size, int *rank, char *ranks,
                                   size_t room) {
	const lp_emulated_comm *comm = lp_emulate_find_comm(handle);
	if (!comm) return false;
	*size = comm->size;
	*rank = comm->rank;
	if (ranks) lp_emulate_list_ranks(comm->ranks, comm->size, ranks, room);
	return true;
}

/* Record the communicators of other ranks that the same call made: numbers that no call uses, own
 * rank -1. */
static void record_other_parts(lp_handle handle, lk_record_entry *group) {
	static uint32_t others = UINT32_C(1) << 31;
	const lp_emulated_comm *comm = lp_emulate_find_comm(handle);
	if (!comm) return;
	LP_TAKE(lp_long_text, text, );
	group->bytes = (int64_t)(comm->division >> 1);
	group->comm.request = comm->id;
	for (int i = 0, begin = 0; comm->parts && i < comm->parts->count;
	     begin = comm->parts->end[i++]) {
		int size = comm->parts->end[i] - begin;
		lk_record_entry other = {.object = others,
		                         .start_ns = group->start_ns,
		                         .bytes = group->bytes,
		                         .comm = {.request = comm->parts->id[i], .peer = size, .tag = -1}};
		if (other.comm.request == comm->id) continue;
		others++;
		lp_emulate_list_ranks(comm->parts->ranks + begin, size, *text, sizeof *text);
		lp_text(&other, LK_RECORD_GROUP, *text);
	}
}

static void begin_emulation(void) {
	lp_emulated =
		(lp_emulated_rank){.rank = lp_mode.rank, .world = lp_mode.world, .node = lp_mode.node};
	if (lp_emulated.world < 1 || lp_emulated.world > LP_EMULATE_MOST_RANKS ||
	    lp_emulated.rank < 0 || lp_emulated.rank >= lp_emulated.world)
		lp_emulate_give_up("no such rank");
	if (lp_emulated.node < 1) lp_emulated.node = 1;
	lp_emulated.on = true;
	choose_fill_rule(lp_mode.fill);
	lp_emulate_world();
	lp_emulate_begin_splits();
}

const lp_mpi_mode lp_mpi_emulate = {.begin = begin_emulation,
                                    .replace = replace_emulated_call,
                                    .describe = describe_emulated_comm,
                                    .forget = lp_emulate_forget_comm,
                                    .add_to_record = record_other_parts};
