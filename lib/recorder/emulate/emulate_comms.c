/* emulate_comms.c: the identity that the process assumes, and the communicators of the emulated
 * world. */
#include "recorder/emulate/emulate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	MOST_COMMS = 4096,
	LIST_MARGIN = 48,
	MOST_LISTED = 1000,     /* longer lists use first:last:stride */
	EXIT_NOT_EMULATED = 70, /* EX_SOFTWARE of sysexits.h */
	EXIT_UNHEARD = 71
};
#define WORLD lp_mpi_real.world
#define SELF  lp_mpi_real.self
#define KEY   LP_KEY

lp_emulated_rank lp_emulated;

/* By handle. A slot is reused after its communicator is freed. */
static struct place {
	uint64_t key;
	lp_emulated_comm *comm;
} places[MOST_COMMS];
static uint32_t adding;

/* ---- tools ---- */

void lp_emulate_give_up(const char *format, ...) {
	char text[448];
	va_list arguments;
	va_start(arguments, format);
	int begin = snprintf(text, sizeof text, "lockstep: as rank %d of %d: ", lp_emulated.rank,
	                     lp_emulated.world);
	vsnprintf(text + begin, sizeof text - (size_t)begin - 1, format, arguments);
	strcat(text, "\n");
	va_end(arguments);
	if (syscall(SYS_write, 2, text, strlen(text)) < 0) _exit(EXIT_UNHEARD);
	_exit(EXIT_NOT_EMULATED);
}

int *lp_emulate_new_ints(int count) {
	int *out = malloc(((size_t)(count > 0 ? count : 0) + 1) * sizeof *out);
	if (!out) lp_emulate_give_up("out of memory");
	return out;
}

/* Finalizer of SplitMix64, by Sebastiano Vigna (public domain). */
uint64_t lp_emulate_hash(uint64_t a, uint64_t b) {
	uint64_t x = a + UINT64_C(0x9e3779b97f4a7c15) * (b + 1);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* ---- communicators ---- */

lp_emulated_comm *lp_emulate_find_comm(lp_handle comm) {
	if (!lp_is_emulating()) return NULL;
	for (int i = 0; i < MOST_COMMS; i++) {
		lp_emulated_comm *at = __atomic_load_n(&places[i].comm, __ATOMIC_ACQUIRE);
		if (at && places[i].key == KEY(comm)) return at;
	}
	return NULL;
}

void lp_emulate_free_parts(lp_emulated_parts *parts) {
	if (!parts) return;
	free(parts->ranks);
	free(parts->end);
	free(parts->id);
	free(parts);
}

void lp_emulate_forget_comm(lp_handle comm) {
	lp_emulated_comm *old = lp_emulate_find_comm(comm);
	for (int i = 0; old && i < MOST_COMMS; i++)
		if (places[i].comm == old) __atomic_store_n(&places[i].comm, NULL, __ATOMIC_RELEASE);
	if (!old) return;
	lp_emulate_free_parts(old->parts);
	free(old->ranks);
	free(old->dim);
	free(old->periodic);
	free(old);
}

/* Two threads may make communicators at the same time. */
static void keep_comm(lp_handle handle, lp_emulated_comm *comm) {
	for (uint32_t no = 0;
	     !__atomic_compare_exchange_n(&adding, &no, 1, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
	     no = 0) {
	}
	struct place *free_place = NULL;
	for (int i = 0; i < MOST_COMMS && !free_place; i++)
		if (!places[i].comm) free_place = &places[i];
	if (!free_place) lp_emulate_give_up("more than %d communicators are in use", MOST_COMMS);
	free_place->key = KEY(handle);
	__atomic_store_n(&free_place->comm, comm, __ATOMIC_RELEASE);
	__atomic_store_n(&adding, 0, __ATOMIC_RELEASE);
}

int lp_emulate_index_of(const int *ranks, int size, int rank) {
	for (int i = 0; i < size; i++)
		if (ranks[i] == rank) return i;
	return -1;
}

static lp_emulated_comm *new_comm_entry(uint64_t id, int *ranks, int size) {
	lp_emulated_comm *comm = calloc(1, sizeof *comm);
	if (!comm) lp_emulate_give_up("out of memory");
	*comm = (lp_emulated_comm){.id = id,
	                           .division = id,
	                           .size = size,
	                           .ranks = ranks,
	                           .rank = lp_emulate_index_of(ranks, size, lp_emulated.rank)};
	return comm;
}

/* Make a communicator for the program, with these ranks of the world; takes ownership of
 * `ranks`. */
lp_emulated_comm *lp_emulate_new_comm(uint64_t id, int *ranks, int size, lp_handle *out) {
	LP_ASSERT(size > 0);
	static int (*copy)(lp_handle, lp_handle *);
	if (!copy) copy = (int (*)(lp_handle, lp_handle *))(uintptr_t)lp_symbol("PMPI_Comm_dup");
	if (copy(SELF, out) != 0) lp_emulate_give_up("the MPI library makes no more communicators");
	lp_emulated_comm *made = new_comm_entry(id, ranks, size);
	keep_comm(*out, made);
	return made;
}

void lp_emulate_world(void) {
	int *all = lp_emulate_new_ints(lp_emulated.world), *own = lp_emulate_new_ints(1);
	for (int i = 0; i < lp_emulated.world; i++) all[i] = i;
	own[0] = lp_emulated.rank;
	lp_emulate_forget_comm(WORLD);
	lp_emulate_forget_comm(SELF);
	keep_comm(WORLD, new_comm_entry(1, all, lp_emulated.world));
	keep_comm(SELF, new_comm_entry(lp_emulate_hash(2, (uint64_t)lp_emulated.rank), own, 1));
}

/* Lists that are too long use first:last:stride. */
void lp_emulate_list_ranks(const int *ranks, int size, char *out, size_t room) {
	LP_ASSERT(size > 0);
	lp_rank_list list = lp_rank_list_begin(out, room, LIST_MARGIN);
	for (int i = 0, n; i < size && lp_rank_list_has_room(&list); i += n) {
		int stride = i + 1 < size ? ranks[i + 1] - ranks[i] : 1;
		for (n = 1; size > MOST_LISTED && i + n < size && ranks[i + n] - ranks[i + n - 1] == stride;
		     n++) {
		}
		if (n < 3) n = 1;
		if (n > 1) lp_rank_list_add_range(&list, ranks[i], ranks[i + n - 1], stride);
		else lp_rank_list_add(&list, ranks[i]);
	}
	lp_rank_list_end(&list);
}

int *lp_emulate_copy_ranks(const int *ranks, int size) {
	int *out = lp_emulate_new_ints(size);
	memcpy(out, ranks, (size_t)size * sizeof *out);
	return out;
}

void lp_emulate_copy_grid(lp_emulated_comm *to, int dims, const int *dim, const int *periodic) {
	to->dims = dims;
	to->dim = lp_emulate_copy_ranks(dim, dims);
	to->periodic = lp_emulate_copy_ranks(periodic, dims);
}

/* Make a communicator of part `own`; takes ownership of the parts. */
lp_emulated_comm *lp_emulate_new_part(uint64_t division, lp_emulated_parts *parts, int own,
                                      lp_handle *out) {
	LP_ASSERT(own >= 0 && own < parts->count);
	int begin = own ? parts->end[own - 1] : 0, size = parts->end[own] - begin;
	lp_emulated_comm *made = lp_emulate_new_comm(
		parts->id[own], lp_emulate_copy_ranks(parts->ranks + begin, size), size, out);
	made->division = division;
	made->parts = parts;
	return made;
}
