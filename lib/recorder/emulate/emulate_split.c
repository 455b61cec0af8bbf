/* emulate_split.c: the members of a communicator from MPI_Comm_split depend on the colour and key
 * of every rank. They are found by running the program: a copy of the process, forked at the end of
 * MPI_Init, waits (the *asker*). For each needed rank it forks another copy, which returns from
 * MPI_Init as that rank, runs the program's own code up to the split, leaves its colour and key in
 * shared memory, and ends. So the answer is the program's, whatever rule it has.
 *
 * A copy that first reaches another, incomplete split is run again when that one is complete. All
 * of this happens while the rank that needs the answers waits, so the shared memory needs no lock.
 * Output of copies is discarded; their writes are overlaid like the program's. */
#include "recorder/emulate/emulate.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_QUESTIONS = 4096, DEEPEST = 64, SHARED_BYTES = 1 << 28 };
/* Limits of the time for one rank to reach the split, and for all ranks together. Nanoseconds. */
static const int64_t LONGEST_NS = INT64_C(20000000000), LONGEST_IN_ALL_NS = INT64_C(300000000000);

struct said {
	int colour, key;
	int known;
};

/* One split, and the arguments of its ranks. */
struct question {
	uint64_t division;
	uint32_t ranks, said; /* offsets in the shared memory; `size` each */
	int size, unknown;
};

static struct shared {
	uint32_t wanted;  /* 1 + the question for the asker to complete; 0 none */
	uint32_t stopped; /* of a copy: 1 + the question that it reached; 0 not yet */
	int silent;       /* the rank that did not reach the split; -1 */
	int questions;
	uint32_t used; /* bytes of `room` */
	pid_t program, asker;
	struct question question[MOST_QUESTIONS];
	char room[];
} * shared;

static bool asked;       /* this is a copy that runs as another rank */
static uint32_t asking;  /* one thread at a time */
static int64_t asked_ns; /* the asker's time so far */

static void wait_for_word(uint32_t *word, uint32_t value, int ms) {
	struct timespec most = {0, (long)ms * 1000000};
	syscall(SYS_futex, word, FUTEX_WAIT, value, &most, NULL, 0);
}

static void set_and_wake_word(uint32_t *word, uint32_t value) {
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static uint32_t load_word(uint32_t *word) {
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* ---- questions ---- */

static uint32_t reserve_shared(size_t bytes) {
	size_t at = shared->used, end = at + (bytes + 15) / 16 * 16;
	if (end > SHARED_BYTES - sizeof *shared) lp_emulate_give_up("its splits need too much memory");
	shared->used = (uint32_t)end;
	return (uint32_t)at;
}

static struct said *answers_of(const struct question *question) {
	return (struct said *)(void *)(shared->room + question->said);
}
static int *ranks_of_question(const struct question *question) {
	return (int *)(void *)(shared->room + question->ranks);
}

static struct question *find_or_add_question(const lp_emulated_comm *parent, uint64_t division) {
	for (int i = 0; i < shared->questions; i++)
		if (shared->question[i].division == division) return &shared->question[i];
	if (shared->questions == MOST_QUESTIONS)
		lp_emulate_give_up("it splits communicators more than %d times", MOST_QUESTIONS);
	struct question *question = &shared->question[shared->questions];
	size_t size = (size_t)parent->size;
	*question =
		(struct question){division, reserve_shared(size * sizeof(int)),
	                      reserve_shared(size * sizeof(struct said)), parent->size, parent->size};
	memcpy(ranks_of_question(question), parent->ranks, size * sizeof(int));
	shared->questions++;
	return question;
}

static void note_own_answer(struct question *question, int at, int colour, int key) {
	LP_ASSERT(at >= 0 && at < question->size);
	struct said *own = &answers_of(question)[at];
	question->unknown -= !own->known;
	*own = (struct said){colour, key, 1};
}

/* ---- the asker ---- */

/* Fork a copy that continues as another rank: true in the copy. Otherwise wait until it stopped or
 * ended. */
static bool fork_as_rank(int rank) {
	set_and_wake_word(&shared->stopped, 0);
	int64_t begin = lk_monotonic_ns(), end = begin + LONGEST_NS;
	pid_t copy = fork();
	if (copy == 0) {
		lp_emulated.rank = rank;
		asked = true;
		lp_emulate_world();
		return true;
	}
	bool ended = copy < 0;
	while (!ended && !load_word(&shared->stopped) && lk_monotonic_ns() < end) {
		wait_for_word(&shared->stopped, 0, 20);
		ended = waitpid(copy, NULL, WNOHANG) != 0;
	}
	if (!ended) {
		kill(copy, SIGKILL);
		waitpid(copy, NULL, 0);
	}
	asked_ns += lk_monotonic_ns() - begin;
	return false;
}

/* Complete a question, with those it depends on, the latest last; true in a copy. If a rank does
 * not answer, sets shared->silent. */
static bool complete_question(struct question *first) {
	struct questions {
		struct question *open[DEEPEST];
	};
	LP_TAKE(struct questions, all, false);
	struct question **open = all->open;
	open[0] = first;
	for (int depth = 1; depth > 0;) {
		struct question *question = open[depth - 1];
		int at = 0;
		while (at < question->size && answers_of(question)[at].known) at++;
		if (at == question->size) {
			depth--;
			continue;
		}
		if (fork_as_rank(ranks_of_question(question)[at])) return true;
		uint32_t stopped = load_word(&shared->stopped);
		struct question *came_to = stopped ? &shared->question[stopped - 1] : NULL;
		if (!came_to || asked_ns > LONGEST_IN_ALL_NS || (came_to != question && depth == DEEPEST)) {
			shared->silent = ranks_of_question(question)[at];
			return false;
		}
		if (came_to != question) open[depth++] = came_to;
	}
	return false;
}

/* Discard the output of a copy. */
static void silence_output(void) {
	int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd <= 2 && nowhere >= 0; fd++) dup2(nowhere, fd);
}

/* Serve requests; returns only in copies. */
static void answer_questions(void) {
	shared->asker = getpid();
	silence_output();
	while (kill(shared->program, 0) == 0) {
		uint32_t wanted = load_word(&shared->wanted);
		if (!wanted) {
			wait_for_word(&shared->wanted, 0, 100);
			continue;
		}
		if (complete_question(&shared->question[wanted - 1])) return;
		set_and_wake_word(&shared->wanted, 0);
	}
	syscall(SYS_exit_group, 0);
}

/* Fork twice, so that the program has no unknown child. */
void lp_emulate_begin_splits(void) {
	shared = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE,
	              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (shared == MAP_FAILED) lp_emulate_give_up("out of memory");
	shared->program = getpid();
	shared->silent = -1;
	pid_t between = fork();
	if (between > 0) {
		waitpid(between, NULL, 0);
		return;
	}
	if (between < 0) return; /* the first split will report that nobody answers */
	lp_state.on = 0;
	if (fork() != 0) syscall(SYS_exit_group, 0);
	answer_questions();
}

/* ---- the requesting rank ---- */

static void wait_for_answers(const struct question *question) {
	uint32_t wanted = (uint32_t)(question - shared->question) + 1;
	set_and_wake_word(&shared->wanted, wanted);
	while (load_word(&shared->wanted)) {
		wait_for_word(&shared->wanted, wanted, 200);
		if (!shared->asker || kill(shared->asker, 0) != 0)
			lp_emulate_give_up(
				"the process that runs copies as other ranks for MPI_Comm_split has ended");
	}
	if (question->unknown)
		lp_emulate_give_up("rank %d does not reach an MPI_Comm_split that this rank takes part in",
		                   shared->silent);
}

struct member {
	int colour, key, place, rank;
};

static int compare_colour_key(const void *a, const void *b) {
	const struct member *x = a, *y = b;
	if (x->colour != y->colour) return x->colour < y->colour ? -1 : 1;
	if (x->key != y->key) return x->key < y->key ? -1 : 1;
	return x->place - y->place;
}

static int gather_split_members(const struct question *question, struct member *out) {
	int count = 0;
	for (int i = 0; i < question->size; i++) {
		const struct said *said = &answers_of(question)[i];
		if (said->colour != LP_UNDEFINED)
			out[count++] =
				(struct member){said->colour, said->key, i, ranks_of_question(question)[i]};
	}
	qsort(out, (size_t)count, sizeof *out, compare_colour_key);
	return count;
}

static lp_emulated_parts *divide_by_colour(const struct question *question, int *own) {
	LP_ASSERT(question->unknown == 0);
	struct member *all = calloc((size_t)question->size + 1, sizeof *all);
	lp_emulated_parts *parts = calloc(1, sizeof *parts);
	uint64_t *id = calloc((size_t)question->size + 1, sizeof *id);
	if (!all || !parts || !id) lp_emulate_give_up("out of memory");
	int count = gather_split_members(question, all);
	*parts = (lp_emulated_parts){0, lp_emulate_new_ints(count), lp_emulate_new_ints(count), id};
	*own = -1;
	for (int i = 0; i < count; i++) {
		if (i == 0 || all[i].colour != all[i - 1].colour)
			id[parts->count++] =
				lp_emulate_hash(question->division, (uint64_t)(uint32_t)all[i].colour);
		parts->ranks[i] = all[i].rank;
		parts->end[parts->count - 1] = i + 1;
		if (all[i].rank == lp_emulated.rank) *own = parts->count - 1;
	}
	free(all);
	return parts;
}

lp_emulated_parts *lp_emulate_split(const lp_emulated_comm *parent, uint64_t division, int colour,
                                    int key, int *own) {
	for (uint32_t no = 0;
	     !__atomic_compare_exchange_n(&asking, &no, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
	     no = 0)
		sched_yield();
	struct question *question = find_or_add_question(parent, division);
	bool open = question->unknown;
	note_own_answer(question, parent->rank, colour, key);
	if (asked && open) {
		set_and_wake_word(&shared->stopped, (uint32_t)(question - shared->question) + 1);
		syscall(SYS_exit_group, 0);
	}
	if (question->unknown) wait_for_answers(question);
	lp_emulated_parts *parts = divide_by_colour(question, own);
	__atomic_store_n(&asking, 0, __ATOMIC_RELEASE);
	return parts;
}
