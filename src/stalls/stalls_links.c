/* stalls_links.c: the least time of a communication call on the machines of a file written by
 * `lockstep calibrate host --mpi`. If all calls of a run have one size, their time alone does not
 * divide into the costs per call and per byte. */
#include <math.h>

#include "base/arena.h"
#include "cost/collective/collective.h"
#include "hw/hw.h"
#include "stalls/stalls.h"

struct lk_stalls_links {
	lk_cluster cluster;
	lk_host_messages messages;
};

lk_status lk_stalls_read_links(lk_stalls_work *work) {
	const char *path = work->request->cluster;
	if (!path) return LK_OK;
	struct lk_stalls_links *links = LK_NEW(&work->arena, struct lk_stalls_links);
	if (!links) return lk_oom(work->err);
	LK_TRY(lk_cluster_parse(&work->arena, path, &links->cluster, work->err));
	LK_TRY(lk_host_messages_read(path, &links->messages, work->err));
	if (!links->messages.inside.count && !links->messages.between.count) {
		lk_fail(work->err, LK_ERR_INPUT, "--cluster", "%.200s has no measured messages of MPI",
		        path);
		return lk_hint(work->err, "give the file that lockstep calibrate host --mpi wrote");
	}
	work->links = links;
	return LK_OK;
}

double lk_stalls_call_s(const lk_stalls_work *work, const lk_stalls_comm *comm) {
	if (!work->links || comm->bucket_ranks < 2) return NAN;
	int nodes = comm->bucket_network ? comm->hosts : 1, ranks = comm->bucket_ranks;
	lk_group_shape shape = {.node = &work->links->cluster.node[0],
	                        .ranks = ranks,
	                        .nodes = nodes,
	                        .ranks_per_node = (ranks + nodes - 1) / nodes,
	                        .sharing = 1,
	                        .oversubscription = 1};
	return lk_host_collective_measured(&work->links->messages, LK_COLL_ALLREDUCE, &shape, 1, false)
	    .seconds;
}
