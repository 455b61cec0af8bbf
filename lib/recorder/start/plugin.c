/* plugin.c: libnccl-profiler-lockstep.so: the symbols that NCCL looks up. It has the probe's code,
 * without its wrappers; if the probe is in the process too, that one's is used, so that there is
 * one recording. */
#include "recorder/gpu/gpu.h"
#include "recorder/gpu/profiler_abi.h"
#include "recorder/start/start.h"

const bool lp_is_plugin = true;
const void *lockstep_probe_profiler(int version);

static const void *profiler_table(int version) {
	static const void *found[8];
	const void *known = __atomic_load_n(&found[version], __ATOMIC_RELAXED);
	if (known) return known;
	const void *(*probe)(int) =
		(const void *(*)(int))(uintptr_t)dlsym(RTLD_DEFAULT, "lockstep_probe_profiler");
	known = probe ? probe(version) : lockstep_probe_profiler(version);
	__atomic_store_n(&found[version], known, __ATOMIC_RELAXED);
	return known;
}

#define TABLE(version, of)                                                 \
	static int init_##version of##_PARAMETERS {                            \
		return ((const of *)profiler_table(version))->init of##_ARGUMENTS; \
	}                                                                      \
	static int start_##version(void *c, void **e, of##_DESCR *d) {         \
		return ((const of *)profiler_table(version))->start(c, e, d);      \
	}                                                                      \
	static int stop_##version(void *e) {                                   \
		return ((const of *)profiler_table(version))->stop(e);             \
	}                                                                      \
	static int state_##version(void *e, int s, of##_STATE *w) {            \
		return ((const of *)profiler_table(version))->state(e, s, w);      \
	}                                                                      \
	static int end_##version(void *c) {                                    \
		return ((const of *)profiler_table(version))->finalize(c);         \
	}                                                                      \
	extern const of ncclProfiler_v##version;                               \
	LP_EXPORT const of ncclProfiler_v##version = {                         \
		"lockstep",     init_##version,  start_##version,                  \
		stop_##version, state_##version, end_##version};

#define lp_np_table_v3_PARAMETERS (void **c, int *m)
#define lp_np_table_v3_ARGUMENTS  (c, m)
#define lp_np_table_v3_DESCR      lp_np_descr_v3
#define lp_np_table_v3_STATE      lp_np_state_v3
#define lp_np_table_v4_PARAMETERS \
	(void **c, int *m, const char *n, uint64_t h, int nodes, int ranks, int rank, void *log)
#define lp_np_table_v4_ARGUMENTS (c, m, n, h, nodes, ranks, rank, log)
#define lp_np_table_v4_DESCR     lp_np_descr_v4
#define lp_np_table_v4_STATE     lp_np_state_v4
#define lp_np_table_v5_PARAMETERS \
	(void **c, uint64_t h, int *m, const char *n, int nodes, int ranks, int rank, void *log)
#define lp_np_table_v5_ARGUMENTS (c, h, m, n, nodes, ranks, rank, log)
#define lp_np_table_v5_DESCR     lp_np_descr_v5
#define lp_np_table_v5_STATE     lp_np_state_v4

TABLE(3, lp_np_table_v3)
TABLE(4, lp_np_table_v4)
TABLE(5, lp_np_table_v5)
TABLE(6, lp_np_table_v5)
