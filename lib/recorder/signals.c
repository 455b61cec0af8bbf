/* signals.c: which thread ended the wait of another.
 *
 * A thread that signals a condition, posts a semaphore, writes to an event or ends leaves its
 * number and the time under the address of what it signals; the thread that wakes up finds it
 * there. So neither waits for the other, and a signal costs one reading of the clock and two
 * stores. Two addresses may have one place: the waker is then unknown. */
#include <link.h>

#include "recorder/recorder.h"

enum { PLACE_BITS = 12, THREAD_BITS = 16 };

static struct place {
	uint64_t who;  /* the address << THREAD_BITS | the thread */
	int64_t at_ns; /* on the monotonic clock, which forked processes share */
} places[1 << PLACE_BITS];

static struct place *place_of(uint64_t address) {
	return &places[(address * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - PLACE_BITS)];
}

void lp_leave_signal(uint64_t address) {
	struct place *place = place_of(address);
	int64_t now = lp_now();
	__atomic_store_n(&place->at_ns, now + lp_state.origin_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&place->who, address << THREAD_BITS | lp_thread.place.thread,
	                 __ATOMIC_RELEASE);
	lp_record_processor(now, LP_AT_CALLS);
}

uint32_t lp_find_waker(uint64_t address, int64_t start, int64_t end, int64_t *ended) {
	enum { EARLY_NS = 10000 }; /* a thread that is about to wait may be signalled already */
	const struct place *place = place_of(address);
	uint64_t who = __atomic_load_n(&place->who, __ATOMIC_ACQUIRE);
	int64_t at = __atomic_load_n(&place->at_ns, __ATOMIC_RELAXED) - lp_state.origin_ns;
	if (!address || who >> THREAD_BITS != address || at < start - EARLY_NS || at > end) return 0;
	*ended = at < start ? start : at;
	return (uint32_t)(who & ((1 << THREAD_BITS) - 1)) + 1;
}

/* ---- Python ---- */

static uint64_t interpreter, interpreter_end;

/* Python's lock is a condition in the interpreter's own state: waiting there is not for what
 * another thread makes, but for its turn. */
void lp_find_python(void) {
	Dl_info info;
	ElfW(Sym) *symbol = NULL;
	void *at = dlsym(RTLD_DEFAULT, "_PyRuntime");
	if (!at || !dladdr1(at, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol) return;
	interpreter = (uint64_t)(uintptr_t)at;
	interpreter_end = interpreter + symbol->st_size;
}

bool lp_is_python_lock(uint64_t address) {
	return address >= interpreter && address < interpreter_end;
}
