/* peers.c: TCP connections and pipes by peer (gloo, parameter servers, rendezvous, loader
 * processes). In a process that has called MPI_Init only pipes are recorded, because connections
 * may belong to the MPI library.
 *
 * A message that a non-blocking socket takes in pieces is one message: later pieces are marked
 * (io.sequential), and io.most of the first is the full size, so that messages can be distinguished
 * by their sizes. */
#include "recorder/files/files.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PEERS = 1 << 12, PEER_TEXT = 176 };

lp_peer_table lp_peers;
/* [peer] whether its last message was incomplete. */
static bool was_cut[PEERS];

/* ---- peers ---- */

static bool format_address(const struct sockaddr_storage *at, char *out, size_t room) {
	char host[INET6_ADDRSTRLEN] = "";
	const struct sockaddr_in *v4 = (const void *)at;
	const struct sockaddr_in6 *v6 = (const void *)at;
	if (at->ss_family == AF_INET) inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
	else if (at->ss_family == AF_INET6) inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
	else return false;
	char digits[LP_DIGITS];
	return lp_join(
		out, room, host, ":",
		lp_digits(ntohs(at->ss_family == AF_INET ? v4->sin_port : v6->sin6_port), digits), LP_END);
}

static bool format_connection(int fd, char out[PEER_TEXT]) {
	struct ends {
		struct sockaddr_storage own, other;
		char here[80], there[80];
	};
	LP_TAKE(struct ends, ends, false);
	socklen_t size = sizeof ends->own, other_size = sizeof ends->other;
	if (getpeername(fd, (void *)&ends->other, &other_size) != 0) return false;
	if (syscall(SYS_getsockname, fd, &ends->own, &size) != 0) return false;
	return format_address(&ends->other, ends->there, sizeof ends->there) &&
	       format_address(&ends->own, ends->here, sizeof ends->here) &&
	       lp_join(out, PEER_TEXT, ends->there, " from ", ends->here, LP_END);
}

/* Loader processes pass their batches through pipes. Standard input and output are the user's. */
static bool format_pipe(int fd, ino_t inode, char out[PEER_TEXT]) {
	char digits[LP_DIGITS];
	return fd > 2 &&
	       lp_join(out, PEER_TEXT, LK_RECORD_PIPE, lp_digits((uint64_t)inode, digits), LP_END);
}

uint32_t lp_new_peer(int fd, const struct stat *info) {
	char text[PEER_TEXT];
	if (lp_is_stale(&lp_peers.age)) {
		memset(was_cut, 0, sizeof was_cut);
		__atomic_store_n(&lp_peers.count, 0, __ATOMIC_RELAXED);
		lp_renewed(&lp_peers.age);
	}
	bool socket = S_ISSOCK(info->st_mode);
	if (socket && lp_state.recorder.head->seen & LK_RECORDED_MPI) return 0;
	if (socket ? !format_connection(fd, text)
	           : !S_ISFIFO(info->st_mode) || !format_pipe(fd, info->st_ino, text))
		return 0;
	uint32_t number = __atomic_add_fetch(&lp_peers.count, 1, __ATOMIC_RELAXED);
	if (number >= PEERS) return 0;
	lk_recording_head *head = lp_state.recorder.head;
	if (socket && head->rank < 0 && !head->root && lp_state.rank >= 0) {
		head->rank = lp_state.rank;
		head->world = lp_state.world;
	}
	lk_record_entry record = {.object = number, .start_ns = lp_now()};
	lp_text(&record, LK_RECORD_PEER, text);
	return number;
}

/* ---- messages ---- */

void lp_peer_moved(lk_record_kind kind, uint32_t peer, int64_t start, int64_t end, int64_t bytes,
                   int64_t wanted) {
	bool sends = kind == LK_RECORD_WRITE;
	if (bytes <= 0 || peer >= PEERS) return; /* nothing available now, or the end */
	lp_record_processor(end, LP_AT_CALLS);
	lk_record_entry *record = lp_next();
	if (!record) return;
	record->object = peer;
	record->start_ns = start;
	record->end_ns = end;
	record->bytes = bytes;
	record->io.busy_ns = end - start;
	record->io.offset = -1;
	record->io.count = 1;
	record->io.most = wanted;
	if (sends) {
		record->io.sequential = was_cut[peer];
		was_cut[peer] = bytes < wanted;
	}
	lp_publish(record, sends ? LK_RECORD_SENT : LK_RECORD_RECEIVED);
}
