/* start_mpi.c: MPI_Init and MPI_Finalize: the mode is chosen before the library begins, the process
 * is armed after it has begun. */
#include "recorder/emulate/emulate.h"
#include "recorder/mpi/library.h"

static bool describe_world_rank(int *size, int *rank) {
	const lp_mpi_mode *mode = lp_mpi_mode_now;
	if (mode && mode->describe && mode->describe(lp_mpi_real.world, size, rank, NULL, 0))
		return true;
	return lp_mpi_real.comm_rank(lp_mpi_real.world, rank) == 0 &&
	       lp_mpi_real.comm_size(lp_mpi_real.world, size) == 0;
}

static void begin_mpi(int result) {
	int rank = -1, world = 0;
	if (result != 0) return;
	if (lp_arm() || lp_mpi_mode_now) lp_mpi_find_functions();
	if (lp_mpi_mode_now && lp_mpi_mode_now->begin) lp_mpi_mode_now->begin();
	if (!lp_state.on || !lp_enter()) return;
	lk_recording_head *head = lp_state.recorder.head;
	if (describe_world_rank(&world, &rank)) {
		head->rank = rank;
		head->world = world;
	}
	__atomic_fetch_or(&head->seen, LK_RECORDED_MPI, __ATOMIC_RELAXED);
	lp_leave();
}

static void choose_mpi_mode(void) {
	static const lp_mpi_mode *const modes[] = {[LP_MODE_RECORD] = NULL,
	                                           [LP_MODE_NULL] = &lp_mpi_null,
	                                           [LP_MODE_AS_RANK] = &lp_mpi_emulate};
	if ((size_t)lp_mode.kind < sizeof modes / sizeof *modes) lp_mpi_mode_now = modes[lp_mode.kind];
}

/* Mark the thread as busy, because the library's own reads during its initialisation are not
 * recorded. Returns the earlier state. */
static bool enter_library(void) {
	bool was = lp_thread.busy;
	lp_thread.busy = true;
	return was;
}

static void leave_library(bool was, int result) {
	lp_thread.busy = was;
	begin_mpi(result);
}

int MPI_Init(int *count, char ***words);
LP_EXPORT int MPI_Init(int *count, char ***words) {
	LP_REAL(MPI_Init)
	choose_mpi_mode();
	bool was = enter_library();
	int result = real(count, words);
	leave_library(was, result);
	return result;
}

int MPI_Init_thread(int *count, char ***words, int want, int *got);
LP_EXPORT int MPI_Init_thread(int *count, char ***words, int want, int *got) {
	LP_REAL(MPI_Init_thread)
	choose_mpi_mode();
	bool was = enter_library();
	int result = real(count, words, want, got);
	leave_library(was, result);
	return result;
}

void mpi_init_(lp_fint *error);
LP_EXPORT void mpi_init_(lp_fint *error) {
	LP_REAL(mpi_init_)
	choose_mpi_mode();
	bool was = enter_library();
	real(error);
	leave_library(was, *error);
}

void mpi_init_thread_(lp_fint *want, lp_fint *got, lp_fint *error);
LP_EXPORT void mpi_init_thread_(lp_fint *want, lp_fint *got, lp_fint *error) {
	LP_REAL(mpi_init_thread_)
	choose_mpi_mode();
	bool was = enter_library();
	real(want, got, error);
	leave_library(was, *error);
}

int MPI_Finalize(void);
LP_EXPORT int MPI_Finalize(void) {
	LP_REAL(MPI_Finalize)
	bool was = enter_library();
	int result = real();
	lp_thread.busy = was;
	return result;
}
