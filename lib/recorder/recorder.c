/* recorder.c: the library's shared state, functions of libraries, tables of a recording. */
#include "recorder/recorder.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

lp_process lp_state;
__thread lp_thread_state lp_thread __attribute__((tls_model("initial-exec")));

/* ---- functions of libraries ---- */

/* MPI may be loaded outside the search order of the next symbol: by a Python module. */
static void *find_in_mpi_libraries(const char *name) {
	static const char *const libraries[] = {"libmpi.so.40", "libmpi.so.12", "libmpich.so.12",
	                                        "libmpi_mpifh.so.40", "libmpifort.so.12"};
	for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
		void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
		void *found = library ? dlsym(library, name) : NULL;
		if (library) dlclose(library);
		if (found) return found;
	}
	return NULL;
}

static void *require_symbol(void *found) {
	static const char text[] =
		"lockstep-probe: a function that the program calls was not found in its libraries\n";
	if (found) return found;
	if (syscall(SYS_write, 2, text, sizeof text - 1) < 0) abort();
	abort();
}

/* Conditions once had another form; the present one's first version. */
#if defined __x86_64__
#define CONDITION_VERSION "GLIBC_2.3.2"
#else
#define CONDITION_VERSION "GLIBC_2.17"
#endif

void *lp_symbol_if(const char *name) {
	int code = errno;
	bool condition = strncmp(name, "pthread_cond_", strlen("pthread_cond_")) == 0;
	void *found = condition ? dlvsym(RTLD_NEXT, name, CONDITION_VERSION) : NULL;
	if (!found) found = dlsym(RTLD_NEXT, name);
	if (!found) found = find_in_mpi_libraries(name);
	if (!found) found = lp_old_libc(name);
	errno = code;
	return found;
}

void *lp_symbol(const char *name) {
	return require_symbol(lp_symbol_if(name));
}

extern const lp_libc_function __start_lp_libc[], __stop_lp_libc[];

void lp_find_libc(void) {
	for (const lp_libc_function *at = __start_lp_libc; at != __stop_lp_libc; at++) {
		void *found = lp_symbol_if(at->name);
		if (found) __atomic_store_n((void **)at->real, found, __ATOMIC_RELAXED);
	}
}

/* The linker may have copied a library's variable into the program; then that copy is the one in
 * use. */
void *lp_variable(const char *name) {
	void *found = dlsym(RTLD_DEFAULT, name);
	return require_symbol(found ? found : find_in_mpi_libraries(name));
}

/* ---- tables of a recording ---- */

/* A child forked while another thread was emptying a table has that thread's `begun` but not the
 * thread: its epoch differs, so it begins anew instead of waiting forever. */
bool lp_begin_renewal(lp_age *age) {
	uint32_t epoch = lp_state.epoch;
	for (;;) {
		uint32_t begun = __atomic_load_n(&age->begun, __ATOMIC_ACQUIRE);
		if (__atomic_load_n(&age->done, __ATOMIC_ACQUIRE) == epoch) return false;
		if (begun == epoch) sched_yield();
		else if (__atomic_compare_exchange_n(&age->begun, &begun, epoch, false, __ATOMIC_ACQ_REL,
		                                     __ATOMIC_RELAXED))
			return true;
	}
}

/* ---- records ---- */

void lp_text(const lk_record_entry *record, lk_record_kind kind, const char *text) {
	lp_thread.last = NULL;
	lk_recorder_text(&lp_state.recorder, &lp_thread.place, record, kind, text, strlen(text));
}

/* ---- lists of ranks ---- */

lp_rank_list lp_rank_list_begin(char *at, size_t room, size_t margin) {
	LP_ASSERT(room > margin && margin > sizeof ", ...]");
	at[0] = '[';
	at[1] = '\0';
	return (lp_rank_list){.at = at, .room = room, .used = 1, .margin = margin};
}

bool lp_rank_list_has_room(const lp_rank_list *list) {
	return list->used + list->margin < list->room;
}

void lp_rank_list_add(lp_rank_list *list, int rank) {
	const char *comma = list->used > 1 ? ", " : "";
	if (!lp_rank_list_has_room(list)) return;
	int length = snprintf(list->at + list->used, list->room - list->used, "%s%d", comma, rank);
	if (length > 0) list->used += (size_t)length;
}

void lp_rank_list_add_range(lp_rank_list *list, int first, int last, int stride) {
	const char *comma = list->used > 1 ? ", " : "";
	if (!lp_rank_list_has_room(list)) return;
	int length = snprintf(list->at + list->used, list->room - list->used, "%s%d:%d:%d", comma,
	                      first, last, stride);
	if (length > 0) list->used += (size_t)length;
}

void lp_rank_list_end(lp_rank_list *list) {
	LP_ASSERT(list->used < list->room);
	const char *end = lp_rank_list_has_room(list) ? "]" : ", ...]";
	snprintf(list->at + list->used, list->room - list->used, "%s", end);
}
