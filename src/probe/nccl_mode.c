/* nccl_mode.c: what stands between a program and NCCL in the modes null, delay and as-rank. */
#include "probe/nccl.h"

bool lp_nccl_stands_in(lp_nccl_call *call) {
	(void)call;
	return false;
}
void lp_nccl_hold(void *stream) { (void)stream; }
bool lp_nccl_poses(void) { return false; }
void *lp_nccl_pose(int ranks, int rank) {
	(void)ranks, (void)rank;
	return NULL;
}
bool lp_nccl_posed(const void *comm, int *ranks, int *rank) {
	(void)comm, (void)ranks, (void)rank;
	return false;
}
void lp_nccl_pose_split(int ranks, int rank, int color, int key, int *out_ranks, int *out_rank) {
	(void)rank, (void)color, (void)key;
	*out_ranks = ranks, *out_rank = rank;
}
