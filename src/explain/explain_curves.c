/* explain_curves.c: predictions of the NCCL model for the groups that a run communicated in, over
 * sizes and at the sizes sent. They exclude waiting, so they are compared with transfers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "explain/explain.h"
#include "base/text.h"
#include "base/sort.h"
#include "cost/collective/collective.h"

enum {
	LEAST_SIZE = 10, /* 2^ */
	MOST_SIZE = 33,
	SIZES = MOST_SIZE - LEAST_SIZE + 1,
	MOST_CURVES = 16
};

static bool curves_collective_of(const char *kind, lk_coll_kind *out) {
	for (int k = 0; k < LK_COLLS; k++)
		if (strcmp(lk_coll_name((lk_coll_kind)k), kind) == 0) {
			*out = (lk_coll_kind)k;
			return true;
		}
	*out = LK_COLL_SENDRECV;
	return strcmp(kind, "send") == 0 || strcmp(kind, "recv") == 0;
}

/* ---- placement of ranks ---- */

/* The next rank of "[0, 8, 16]", or of 0, 1, 2 ... if the trace has no list; -1: none. */
static long next_rank(const char **at, long before) {
	const char *end;
	if (!*at) return before + 1;
	*at += strcspn(*at, "0123456789");
	double rank = lk_read_real(*at, &end);
	if (end == *at || !(rank >= 0 && rank < 1e9)) return -1;
	*at = end;
	return (long)rank;
}

/* Count the nodes of a group's ranks, and the most ranks on one. False: a rank is outside the
 * cluster, or out of memory. */
static bool curves_place(const lk_explain_comm *comm, const lk_cluster *cluster,
                         lk_group_shape *out) {
	int *nodes = malloc((size_t)comm->group_size * sizeof *nodes), count = 0, run = 0;
	const char *at = *comm->ranks ? comm->ranks : NULL;
	for (long rank = -1; nodes && count < comm->group_size; count++) {
		rank = next_rank(&at, rank);
		if (rank < 0 || rank >= cluster->gpus) break;
		nodes[count] = lk_cluster_place(cluster, (int)rank).node;
	}
	bool whole = nodes && count == comm->group_size;
	if (whole) lk_sort(nodes, (size_t)count, sizeof *nodes, lk_by_int);
	*out = (lk_group_shape){.node = &cluster->node[0],
	                        .ranks = comm->group_size,
	                        .sharing = 1,
	                        .oversubscription = cluster->oversubscription};
	for (int i = 0; whole && i < count; i++) {
		bool fresh = !i || nodes[i] != nodes[i - 1];
		out->nodes += fresh;
		run = fresh ? 1 : run + 1;
		if (run > out->ranks_per_node) out->ranks_per_node = run;
	}
	free(nodes);
	return whole;
}

/* Groups of a kind that span nodes do so concurrently: together they have all ranks of a node. */
static bool curves_shape_of(const lk_explain_comm *comm, const lk_cluster *cluster,
                            lk_group_shape *out) {
	if (!curves_place(comm, cluster, out)) return false;
	int gpus = out->node->gpus < cluster->gpus ? out->node->gpus : cluster->gpus;
	if (out->nodes > 1 && gpus > out->ranks_per_node) out->sharing = gpus / out->ranks_per_node;
	return true;
}

/* ---- curves ---- */

static double curves_busbw(lk_coll_kind kind, const lk_group_shape *shape, double bytes) {
	return lk_collective_cost(kind, shape, bytes).busbw * 1e-9;
}

static lk_status curves_draw(lk_explain_work *work, lk_coll_kind kind, const lk_group_shape *shape,
                             lk_explain_curve *out, lk_error *err) {
	double *bytes = LK_ARRAY(&work->arena, double, SIZES),
		   *rates = LK_ARRAY(&work->arena, double, SIZES);
	if (!bytes || !rates) return lk_oom(err);
	for (int i = 0; i < SIZES; i++) {
		bytes[i] = ldexp(1, LEAST_SIZE + i);
		rates[i] = curves_busbw(kind, shape, bytes[i]);
	}
	out->bytes = bytes;
	out->busbw = rates;
	out->count = SIZES;
	return LK_OK;
}

/* Whether the model covers it: by device and NCCL, not by hosts. */
static bool modelled(const lk_explain_comm *comm) {
	return !comm->host && comm->group_size > 1 && comm->group_size <= 1 << 20;
}

lk_status lk_explain_curves(lk_explain_work *work, const lk_cluster *cluster, lk_error *err) {
	lk_explanation *explanation = &work->result;
	lk_explain_comm *comm =
		(lk_explain_comm *)explanation->comm; /* owned by the arena, made by explain_comm.c */
	lk_explain_curve *curves = LK_ARRAY(&work->arena, lk_explain_curve, MOST_CURVES);
	if (!curves) return lk_oom(err);
	for (int i = 0; i < explanation->comm_count; i++) {
		lk_coll_kind kind;
		lk_group_shape shape;
		if (!modelled(&comm[i]) || !curves_collective_of(comm[i].kind, &kind) ||
		    !curves_shape_of(&comm[i], cluster, &shape))
			continue;
		if (comm[i].bytes > 0)
			comm[i].model_busbw = curves_busbw(kind, &shape, comm[i].bytes / (double)comm[i].count);
		if (explanation->curve_count == MOST_CURVES) continue;
		lk_explain_curve *curve = &curves[explanation->curve_count++];
		*curve = (lk_explain_curve){.kind = comm[i].kind,
		                            .group = comm[i].group,
		                            .ranks = comm[i].group_size,
		                            .nodes = shape.nodes,
		                            .comm = i};
		LK_TRY(curves_draw(work, kind, &shape, curve, err));
	}
	explanation->curves = curves;
	if (explanation->comm_count && !explanation->curve_count)
		explanation->no_curves = "the traces do not say how many ranks their groups have";
	return LK_OK;
}
