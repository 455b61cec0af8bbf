/* nccl.c: a stand-in for libnccl without a GPU: ranks are processes that meet in a file of shared
 * memory, work is done in the order of its stream. Tests only. Sums and maxima of float, double,
 * int32 and int64; other types are moved but not added.
 *
 * The memory: a meeting point, a piece of PIECE bytes for each rank (collectives), and one for each
 * pair (messages). */
#include <nccl.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 16, PIECE = 1 << 18, LETTER = 1 << 16, CALLS = 64, WAIT_S = 60 };

typedef struct letter {
	size_t size; /* 0: empty */
	char bytes[LETTER];
} letter;

typedef struct hall {
	pthread_mutex_t lock;
	pthread_cond_t change;
	uint32_t ready, here, round;
	int32_t color[RANKS], key[RANKS];
	uint64_t child[RANKS]; /* of a split: by colour's first rank */
	char piece[RANKS][PIECE];
	letter mail[RANKS][RANKS]; /* from, to */
} hall;

struct ncclComm {
	hall *hall;
	int ranks, rank;
};

typedef enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, SEND, RECV } what;

typedef struct call {
	what what;
	const void *from;
	void *to;
	size_t count;
	ncclDataType_t type;
	ncclRedOp_t op;
	int peer;
	ncclComm_t comm;
	cudaStream_t stream;
	size_t moved; /* of a message */
} call;

typedef struct calls {
	int count;
	call at[CALLS];
} calls;

static __thread int depth;
static __thread calls waiting;

static size_t bytes_of(ncclDataType_t type) {
	static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
	return bytes[type];
}

static void give_up(const char *what) {
	fprintf(stderr, "stand-in of NCCL: %s\n", what);
	abort();
}

/* ---- the hall ---- */

enum { NAME = 64 };
static const char *path_of(uint64_t name, char path[NAME]) {
	snprintf(path, NAME, "/lockstep-stub-%016llx", (unsigned long long)name);
	return path;
}

static void take_down(uint64_t name) {
	char path[NAME];
	shm_unlink(path_of(name, path));
}

static hall *open_hall(uint64_t name, bool *made) {
	char path[NAME];
	path_of(name, path);
	int fd = shm_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	*made = fd >= 0;
	if (fd < 0) fd = shm_open(path, O_RDWR, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(hall)) != 0) return NULL;
	hall *h = mmap(NULL, sizeof *h, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return h == MAP_FAILED ? NULL : h;
}

static void furnish(hall *h) {
	pthread_mutexattr_t shared;
	pthread_condattr_t too;
	pthread_mutexattr_init(&shared), pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_condattr_init(&too), pthread_condattr_setpshared(&too, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&h->lock, &shared), pthread_cond_init(&h->change, &too);
	__atomic_store_n(&h->ready, 1, __ATOMIC_RELEASE);
}

static void wait_change(hall *h) {
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	if (pthread_cond_timedwait(&h->change, &h->lock, &until) != 0) give_up("a rank did not come");
}

static void meet(ncclComm_t c) {
	hall *h = c->hall;
	pthread_mutex_lock(&h->lock);
	uint32_t mine = h->round;
	if (++h->here == (uint32_t)c->ranks) {
		h->here = 0, h->round++;
		pthread_cond_broadcast(&h->change);
	} else
		while (h->round == mine) wait_change(h);
	pthread_mutex_unlock(&h->lock);
}

static ncclResult_t enter(ncclComm_t *out, uint64_t name, int ranks, int rank) {
	bool made;
	if (ranks < 1 || ranks > RANKS || rank < 0 || rank >= ranks) return ncclInvalidArgument;
	ncclComm_t c = calloc(1, sizeof *c);
	if (!c || !(c->hall = open_hall(name, &made))) return ncclSystemError;
	if (made) furnish(c->hall);
	while (!__atomic_load_n(&c->hall->ready, __ATOMIC_ACQUIRE)) usleep(1000);
	c->ranks = ranks, c->rank = rank;
	meet(c);
	if (rank == 0) take_down(name); /* all have it mapped */
	return *out = c, ncclSuccess;
}

/* ---- collectives ---- */

#define ADD(type)                                                                            \
	for (size_t i = 0; i < count; i++) {                                                     \
		type *a = (type *)to + i, b = ((const type *)from)[i];                               \
		*a = op == ncclMax ? (*a > b ? *a : b) : op == ncclMin ? (*a < b ? *a : b) : *a + b; \
	}

static void add(void *to, const void *from, size_t count, ncclDataType_t type, ncclRedOp_t op) {
	switch (type) {
	case ncclFloat32: ADD(float) break;
	case ncclFloat64: ADD(double) break;
	case ncclInt32: ADD(int32_t) break;
	case ncclInt64: ADD(int64_t) break;
	default: break;
	}
}

static void average(void *to, size_t count, ncclDataType_t type, int ranks) {
	for (size_t i = 0; i < count && type == ncclFloat32; i++) ((float *)to)[i] /= (float)ranks;
}

/* All ranks' pieces of `size` bytes, added in the order of ranks. */
static void reduce_piece(const call *c, char *to, const char *from, size_t size) {
	hall *h = c->comm->hall;
	memcpy(h->piece[c->comm->rank], from, size);
	meet(c->comm);
	size_t count = size / bytes_of(c->type);
	if (to) memcpy(to, h->piece[0], size);
	for (int r = 1; to && r < c->comm->ranks; r++) add(to, h->piece[r], count, c->type, c->op);
	if (to && c->op == ncclAvg) average(to, count, c->type, c->comm->ranks);
	meet(c->comm);
}

static void gather_piece(const call *c, char *to, const char *from, size_t size, size_t apart) {
	hall *h = c->comm->hall;
	memcpy(h->piece[c->comm->rank], from, size);
	meet(c->comm);
	for (int r = 0; r < c->comm->ranks; r++) memcpy(to + (size_t)r * apart, h->piece[r], size);
	meet(c->comm);
}

static void broadcast_piece(const call *c, char *to, const char *from, size_t size) {
	hall *h = c->comm->hall;
	if (c->comm->rank == c->peer) memcpy(h->piece[0], from, size);
	meet(c->comm);
	memcpy(to, h->piece[0], size);
	meet(c->comm);
}

static void collective(const call *c) {
	size_t size = c->count * bytes_of(c->type);
	char *to = c->to;
	const char *from = c->from;
	for (size_t at = 0, n; at < size; at += n) {
		n = size - at < PIECE ? size - at : PIECE;
		if (c->what == ALL_REDUCE) reduce_piece(c, to + at, from + at, n);
		if (c->what == ALL_GATHER) gather_piece(c, to + at, from + at, n, size);
		if (c->what == BROADCAST)
			broadcast_piece(c, to + at, c->comm->rank == c->peer ? from + at : NULL, n);
		for (int r = 0; c->what == REDUCE_SCATTER && r < c->comm->ranks; r++)
			reduce_piece(c, r == c->comm->rank ? to + at : NULL, from + (size_t)r * size + at, n);
	}
}

/* ---- messages ---- */

/* Moves a letter of a message if it can; with the lock held. */
static bool move(call *c) {
	hall *h = c->comm->hall;
	size_t size = c->count * bytes_of(c->type), left = size - c->moved,
		   n = left < LETTER ? left : LETTER;
	letter *box =
		c->what == SEND ? &h->mail[c->comm->rank][c->peer] : &h->mail[c->peer][c->comm->rank];
	if ((c->what == SEND) == (box->size != 0)) return false;
	if (c->what == SEND) memcpy(box->bytes, (const char *)c->from + c->moved, n), box->size = n;
	else memcpy((char *)c->to + c->moved, box->bytes, n), box->size = 0;
	c->moved += n;
	pthread_cond_broadcast(&h->change);
	return true;
}

static bool moved_all(calls *list, bool *some) {
	bool all = true;
	*some = false;
	for (int i = 0; i < list->count; i++) {
		call *c = &list->at[i];
		if (c->what < SEND || c->moved == c->count * bytes_of(c->type)) continue;
		*some |= move(c);
		all &= c->moved == c->count * bytes_of(c->type);
	}
	return all;
}

static void messages(calls *list) {
	int first = 0;
	while (first < list->count && list->at[first].what < SEND) first++;
	if (first == list->count) return;
	hall *h = list->at[first].comm->hall; /* messages of one group are of one communicator here */
	bool some;
	pthread_mutex_lock(&h->lock);
	while (!moved_all(list, &some))
		if (!some) wait_change(h);
	pthread_mutex_unlock(&h->lock);
}

/* ---- groups ---- */

static void perform(void *data) {
	calls *list = data;
	for (int i = 0; i < list->count; i++)
		if (list->at[i].what < SEND) collective(&list->at[i]);
	messages(list);
	free(list);
}

/* All calls of a group for one stream are one piece of its work. */
static ncclResult_t launch(void) {
	while (waiting.count) {
		calls *list = calloc(1, sizeof *list);
		cudaStream_t stream = waiting.at[0].stream;
		int kept = 0;
		if (!list) return ncclSystemError;
		for (int i = 0; i < waiting.count; i++) {
			if (waiting.at[i].stream == stream) list->at[list->count++] = waiting.at[i];
			else waiting.at[kept++] = waiting.at[i];
		}
		waiting.count = kept;
		if (cudaLaunchHostFunc(stream, perform, list) != cudaSuccess) return ncclUnhandledCudaError;
	}
	return ncclSuccess;
}

static ncclResult_t issue(call c) {
	if (!c.comm || waiting.count == CALLS || (unsigned)c.type > ncclBfloat16)
		return ncclInvalidArgument;
	waiting.at[waiting.count++] = c;
	return depth ? ncclSuccess : launch();
}

ncclResult_t ncclGroupStart(void) {
	return depth++, ncclSuccess;
}
ncclResult_t ncclGroupEnd(void) {
	if (depth == 0) return ncclInvalidUsage;
	return --depth ? ncclSuccess : launch();
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
	return issue((call){ALL_REDUCE, from, to, n, type, op, 0, comm, stream, 0});
}
ncclResult_t ncclReduceScatter(const void *from, void *to, size_t n, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
	return issue((call){REDUCE_SCATTER, from, to, n, type, op, 0, comm, stream, 0});
}
ncclResult_t ncclAllGather(const void *from, void *to, size_t n, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
	return issue((call){ALL_GATHER, from, to, n, type, ncclSum, 0, comm, stream, 0});
}
ncclResult_t ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
	return issue((call){BROADCAST, from, to, n, type, ncclSum, root, comm, stream, 0});
}
ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
	return issue((call){SEND, from, NULL, n, type, ncclSum, peer, comm, stream, 0});
}
ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
	return issue((call){RECV, NULL, to, n, type, ncclSum, peer, comm, stream, 0});
}

/* ---- communicators ---- */

ncclResult_t ncclGetVersion(int *version) {
	return *version = 22809, ncclSuccess;
}
const char *ncclGetErrorString(ncclResult_t result) {
	return result ? "error of the stand-in" : "no error";
}
ncclResult_t ncclCommCount(const ncclComm_t c, int *count) {
	return *count = c->ranks, ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t c, int *rank) {
	return *rank = c->rank, ncclSuccess;
}

static uint64_t new_name(void) {
	uint64_t name = 0;
	int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, &name, sizeof name) != sizeof name) give_up("no random numbers");
	close(fd);
	return name;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
	uint64_t name = new_name();
	memset(id, 0, sizeof *id);
	memcpy(id->internal, &name, sizeof name);
	return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *out, int ranks, ncclUniqueId id, int rank) {
	uint64_t name;
	memcpy(&name, id.internal, sizeof name);
	return enter(out, name, ranks, rank);
}

ncclResult_t ncclCommSplit(ncclComm_t c, int color, int key, ncclComm_t *out,
                           ncclConfig_t *config) {
	(void)config;
	int rank = 0, ranks = 0, first = -1;
	hall *h = c->hall;
	h->color[c->rank] = color, h->key[c->rank] = key;
	meet(c);
	for (int r = 0; r < c->ranks; r++) {
		if (h->color[r] != color) continue;
		if (first < 0) first = r;
		ranks++;
		rank += h->key[r] < key || (h->key[r] == key && r < c->rank);
	}
	if (first == c->rank) h->child[c->rank] = new_name();
	meet(c);
	uint64_t name = first < 0 ? 0 : h->child[first];
	meet(c);
	*out = NULL;
	return color == NCCL_SPLIT_NOCOLOR ? ncclSuccess : enter(out, name, ranks, rank);
}

ncclResult_t ncclCommDestroy(ncclComm_t c) {
	if (!c) return ncclInvalidArgument;
	munmap(c->hall, sizeof *c->hall);
	free(c);
	return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c) {
	return ncclCommDestroy(c);
}
