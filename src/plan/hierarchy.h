/* hierarchy.h: training on a tree of uneven links, from devices over sites to a cloud: the cost of
 * a way to aggregate (hierarchy.c), and the choice of one (hierarchy_choose.c). */
#ifndef LK_PLAN_HIERARCHY_H
#define LK_PLAN_HIERARCHY_H

#include <stdbool.h>
#include "base/arena.h"
#include "system/cutoff.h"
#include "io/stream.h"
#include "lockstep/error.h"
#include "lockstep/plan.h"

enum {
	LK_HIERARCHY_LEVELS = 5, /* of nodes that aggregate */
	LK_HIERARCHY_NODES = 100000
};

/* A node: an aggregating one, or a client, which trains. */
typedef struct lk_hierarchy_node {
	const char *name;
	int parent;                    /* -1: the root */
	int first, children;           /* consecutive; 0 children: a client */
	int level;                     /* 0: the root */
	double bytes_per_s, latency_s; /* of the link to its parent, each way */
	double ingress;                /* bytes/s that it receives from all children together, and
	                                  sends */
	double step_s, batch;          /* of a client */
	bool ring;                     /* links between its children: a ring, else all to all */
	double peer_bytes_per_s, peer_latency_s; /* 0: no links between its children */
} lk_hierarchy_node;

/* Parents before children, levels in order. */
typedef struct lk_hierarchy {
	lk_hierarchy_node *nodes;
	int count, levels;                   /* levels: of nodes that aggregate */
	int starts[LK_HIERARCHY_LEVELS + 2]; /* first node of each level */
	double bytes;                        /* of the weights as they are sent */
	double spread;                       /* standard deviation of a client's step over its mean */
	double drop;                         /* share of the clients' work that is lost */
	double skew; /* square of how far clients' gradients differ, over the variance of one */
} lk_hierarchy;

/* A way to aggregate. */
typedef struct lk_hierarchy_way {
	int every[LK_HIERARCHY_LEVELS]; /* steps between aggregations of a level: most at the root, each
	                                   a multiple of the next level's */
	int rounds[LK_HIERARCHY_LEVELS]; /* gossip rounds among linked children; 0: they send to their
	                                    parent */
} lk_hierarchy_way;

/* A level's part of the costs, in its period. */
typedef struct lk_hierarchy_level {
	double bytes;    /* per period, on the links to its children and between them */
	double bytes_up; /* per period of the level above: from groups that gossip */
	double drift;    /* see lk_hierarchy_cost */
} lk_hierarchy_level;

/* A random time. */
typedef struct lk_moments {
	double mean, variance;
} lk_moments;

/* The tree, and scratch, while ways are tried. */
typedef struct lk_hierarchy_walk {
	const lk_hierarchy *tree;
	lk_hierarchy_way way;
	bool *out;             /* [count] of a client: left out */
	lk_moments *ready;     /* [count] a node's aggregate, from the start of its period */
	lk_moments *period;    /* [count] ... and until its clients continue */
	double *down;          /* [count] from a node to the last of its clients */
	double *batch, *noise; /* [count] samples per step; variance of a step of its mean */
	int *active;           /* [count] children that take part */
	int *order;            /* [count] clients in the order in which they were left out */
	struct lk_hierarchy_arrival *arrivals; /* room for the children of one node */
	double apart[LK_HIERARCHY_LEVELS]; /* drift of a level per step that its children are apart */
	lk_hierarchy_level levels[LK_HIERARCHY_LEVELS];
} lk_hierarchy_walk;

/* The cost of a way. */
typedef struct lk_hierarchy_cost {
	double step_s;  /* mean time of a step, aggregations included */
	double bytes;   /* on all links, per step */
	double samples; /* per step */
	double drift;   /* mean square distance of a client's weights from the mean of all, over the
	                   variance of one client's step */
} lk_hierarchy_cost;

/* hierarchy_read.c: read the list of nodes; fields that clients do not state stay 0. LK_ERR_INPUT:
 * wrong form, or not a tree; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_hierarchy_read(lk_stream *in, lk_arena *arena, lk_hierarchy *out, lk_error *err);

/* Begin with all clients; `walk` borrows the tree. LK_ERR_MEMORY. */
lk_status lk_hierarchy_walk_make(const lk_hierarchy *tree, lk_arena *arena, lk_hierarchy_walk *walk,
                                 lk_error *err);
/* Recount after a change of who takes part. */
void lk_hierarchy_walk_count(lk_hierarchy_walk *walk);
/* Compute a level from those below it, at the periods in walk->way. */
void lk_hierarchy_walk_level(lk_hierarchy_walk *walk, int level);
/* The cost of walk->way, once all levels are computed. */
lk_hierarchy_cost lk_hierarchy_walk_cost(const lk_hierarchy_walk *walk);
/* Compute all levels. */
lk_hierarchy_cost lk_hierarchy_walk_all(lk_hierarchy_walk *walk);
/* Mean number of steps, with skew, by which children that aggregate every `every` steps are
 * apart. */
double lk_hierarchy_apart(const lk_hierarchy *tree, double every);
/* The client that the root waits for longest. */
int lk_hierarchy_walk_last(lk_hierarchy_walk *walk);

/* Requirements on a way. */
typedef struct lk_hierarchy_wish {
	double rate;  /* samples/s, at least */
	double bytes; /* per sample, at most; INFINITY: any */
	double take;  /* share of a step's samples that must take part */
	int most;     /* longest period, steps */
} lk_hierarchy_wish;

/* Find the way with the least drift that meets the wish. It is in walk->out and walk->way; if
 * *found is false, they have the one nearest in rate. `cutoff`: when reached, no more clients are
 * left out, and *cut_off says why; NULL: none. */
lk_hierarchy_cost lk_hierarchy_choose(lk_hierarchy_walk *walk, const lk_hierarchy_wish *wish,
                                      const lk_cutoff *cutoff, bool *found, const char **cut_off);
/* Whether these costs meet the wish. */
bool lk_hierarchy_keeps(const lk_hierarchy_cost *cost, const lk_hierarchy_wish *wish);

#endif
