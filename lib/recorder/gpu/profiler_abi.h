/* profiler_abi.h: the used part of the binary interface of NCCL's profiler plugins, versions 3
 * (NCCL 2.26) to 6 (2.29): NCCL's library looks up ncclProfiler_vN, a table of functions; it passes
 * descriptions of events. Sizes and order of members are NCCL's. */
#ifndef LK_PROBE_PROFILER_ABI_H
#define LK_PROBE_PROFILER_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Kinds of events: bits of the mask, and lp_np_descr.type. */
enum {
	LP_NP_GROUP = 1,
	LP_NP_COLL = 2,
	LP_NP_P2P = 4,
	LP_NP_PROXY_OP = 8,
	LP_NP_PROXY_STEP = 16,
	LP_NP_PROXY_CTRL = 32,
	LP_NP_KERNEL_CH = 64,
	LP_NP_NET = 128,
	LP_NP_GROUP_API = 256,
	LP_NP_COLL_API = 512,
	LP_NP_P2P_API = 1024,
	LP_NP_KERNEL_LAUNCH = 2048,
};
/* States of events. */
enum {
	LP_NP_SEND_GPU_WAIT = 8,
	LP_NP_SEND_WAIT = 9,
	LP_NP_RECV_WAIT = 10,
	LP_NP_RECV_FLUSH_WAIT = 11,
	LP_NP_RECV_GPU_WAIT = 12,
	LP_NP_SEND_PEER_WAIT = 20,
	LP_NP_KERNEL_CH_STOP = 22,
};

typedef struct lp_np_proxy_op {
	pid_t pid;
	uint8_t channel;
	int peer, steps, chunk, sends;
} lp_np_proxy_op;

typedef struct lp_np_coll { /* since version 4 */
	uint64_t sequence;
	const char *func;
	const void *from;
	void *to;
	size_t count;
	int root;
	const char *type;
	uint8_t channels, warps;
	const char *algorithm, *protocol;
	void *group; /* since version 5 */
} lp_np_coll;

typedef struct lp_np_p2p { /* since version 4 */
	const char *func;
	void *buffer;
	const char *type;
	size_t count;
	int peer;
	uint8_t channels;
	void *group; /* since version 5 */
} lp_np_p2p;

typedef struct lp_np_kernel_ch {
	uint8_t channel;
	uint64_t timer; /* since version 4: nanoseconds of the GPU's clock */
} lp_np_kernel_ch;

typedef struct lp_np_descr_v3 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t hash, sequence;
			const char *func;
			const void *from;
			void *to;
			size_t count;
			int root;
			const char *type;
			uint8_t channels, warps;
			const char *algorithm, *protocol;
		} coll;
		struct {
			const char *name;
			uint64_t hash;
			const char *func;
			void *buffer;
			const char *type;
			size_t count;
			int peer;
		} p2p;
		lp_np_proxy_op proxy_op;
		struct {
			int step;
		} proxy_step;
		struct {
			uint8_t channel;
		} kernel_ch;
		struct {
			int64_t id;
			void *data;
		} net;
	};
} lp_np_descr_v3;

typedef struct lp_np_descr_v4 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		lp_np_coll coll;
		lp_np_p2p p2p;
		lp_np_proxy_op proxy_op;
		struct {
			int step;
		} proxy_step;
		lp_np_kernel_ch kernel_ch;
		struct {
			int64_t id;
			void *data;
		} net;
	};
} lp_np_descr_v4;

typedef struct lp_np_descr_v5 { /* and 6 */
	uint64_t type;
	void *parent;
	int rank;
	union {
		struct {
			bool captured;
			int depth;
		} group_api;
		struct {
			const char *func;
			size_t count;
			const char *type;
			int root;
			void *stream;
			bool captured;
		} coll_api;
		struct {
			const char *func;
			size_t count;
			const char *type;
			void *stream;
			bool captured;
		} p2p_api;
		struct {
			void *stream;
		} kernel_launch;
		lp_np_coll coll;
		lp_np_p2p p2p;
		lp_np_proxy_op proxy_op;
		struct {
			int step;
		} proxy_step;
		lp_np_kernel_ch kernel_ch;
		struct {
			int64_t id;
			void *data;
		} net;
	};
} lp_np_descr_v5;

/* Arguments of a state. */
typedef union lp_np_state_v3 {
	struct {
		size_t bytes;
		int steps;
	} proxy_op;
	struct {
		int appended;
	} proxy_ctrl;
} lp_np_state_v3;
typedef union lp_np_state_v4 { /* to 6 */
	struct {
		size_t bytes;
	} proxy_step;
	struct {
		int appended;
	} proxy_ctrl;
	struct {
		void *data;
	} net;
	struct {
		uint64_t timer;
	} kernel_ch;
} lp_np_state_v4;

typedef struct lp_np_table_v3 {
	const char *name;
	int (*init)(void **context, int *mask);
	int (*start)(void *context, void **event, lp_np_descr_v3 *descr);
	int (*stop)(void *event);
	int (*state)(void *event, int state, lp_np_state_v3 *with);
	int (*finalize)(void *context);
} lp_np_table_v3;

typedef struct lp_np_table_v4 {
	const char *name;
	int (*init)(void **context, int *mask, const char *comm, uint64_t hash, int nodes, int ranks,
	            int rank, void *log);
	int (*start)(void *context, void **event, lp_np_descr_v4 *descr);
	int (*stop)(void *event);
	int (*state)(void *event, int state, lp_np_state_v4 *with);
	int (*finalize)(void *context);
} lp_np_table_v4;

typedef struct lp_np_table_v5 { /* and 6 */
	const char *name;
	int (*init)(void **context, uint64_t id, int *mask, const char *comm, int nodes, int ranks,
	            int rank, void *log);
	int (*start)(void *context, void **event, lp_np_descr_v5 *descr);
	int (*stop)(void *event);
	int (*state)(void *event, int state, lp_np_state_v4 *with);
	int (*finalize)(void *context);
} lp_np_table_v5;

#endif
