/* hierarchy.h: training on a tree of uneven links, from devices over sites to a cloud: what a way
 * of aggregating costs (hierarchy.c), and which one to choose (hierarchy_choose.c). */
#ifndef LK_PLAN_HIERARCHY_H
#define LK_PLAN_HIERARCHY_H

#include <stdbool.h>
#include "base/arena.h"
#include "base/cutoff.h"
#include "io/stream.h"
#include "lockstep/error.h"
#include "lockstep/plan.h"

enum {
	LK_HIERARCHY_LEVELS = 5, /* of nodes that aggregate */
	LK_HIERARCHY_NODES = 100000
};

/* A node: one that aggregates what its children have, or a client, which trains. */
typedef struct lk_hierarchy_node {
	const char *name;
	int parent;                    /* -1: the root */
	int first, children;           /* consecutive; 0 children: a client */
	int level;                     /* 0: the root */
	double bytes_per_s, latency_s; /* of the link to its parent, each way */
	double ingress;                /* bytes/s that it takes from all children together, and sends */
	double step_s, batch;          /* of a client */
	bool ring;                     /* links between its children: a ring, else all with all */
	double peer_bytes_per_s, peer_latency_s; /* 0: its children have none */
} lk_hierarchy_node;

/* Parents before children, levels in order. */
typedef struct lk_hierarchy {
	lk_hierarchy_node *nodes;
	int count, levels;                   /* levels: of nodes that aggregate */
	int starts[LK_HIERARCHY_LEVELS + 2]; /* first node of each level */
	double bytes;                        /* of the weights as they are sent */
	double spread;                       /* deviation of a client's step over its mean */
	double drop;                         /* share of the clients' work that is lost */
	double skew; /* square of how far clients' gradients differ, over the variance of one */
} lk_hierarchy;

/* How it is aggregated. */
typedef struct lk_hierarchy_way {
	int every[LK_HIERARCHY_LEVELS]; /* steps between aggregations of a level: of the root most, each
	                                 * a multiple of the next's */
	int rounds[LK_HIERARCHY_LEVELS]; /* of gossip among children that have links between them; 0:
	                                  * they send to their parent */
} lk_hierarchy_way;

/* A level's part of the costs, at its period. */
typedef struct lk_hierarchy_level {
	double bytes;    /* a period, on the links to its children and between them */
	double bytes_up; /* a period of the level above: of groups that gossip */
	double drift;    /* see lk_hierarchy_cost */
} lk_hierarchy_level;

/* One time: mean and variance. */
typedef struct lk_moments {
	double mean, variance;
} lk_moments;

/* The tree while ways are tried. */
typedef struct lk_hierarchy_walk {
	const lk_hierarchy *tree;
	lk_hierarchy_way way;
	bool *out;             /* [count] of a client: left out */
	lk_moments *ready;     /* [count] a node's aggregate, from the start of its period */
	lk_moments *period;    /* [count] ... and its clients go on */
	double *down;          /* [count] from a node to the last of its clients */
	double *batch, *noise; /* [count] samples of a step; variance of what its mean moves by */
	int *active;           /* [count] children that take part */
	int *order;            /* [count] clients as they were left out */
	struct lk_hierarchy_arrival *arrivals; /* room for the children of one node */
	double
		apart[LK_HIERARCHY_LEVELS]; /* drift of a level for each step that its children are apart */
	lk_hierarchy_level levels[LK_HIERARCHY_LEVELS];
} lk_hierarchy_walk;

/* What a way costs. */
typedef struct lk_hierarchy_cost {
	double step_s;  /* mean time of a step, aggregations included */
	double bytes;   /* on all links, a step */
	double samples; /* a step */
	double drift;   /* mean square distance of a client's weights from the mean of all, over the
	                   variance of one step of one client */
} lk_hierarchy_cost;

/* hierarchy_read.c: reads the list of nodes; what clients do not state stays 0. LK_ERR_INPUT: its
 * form, or what is no tree; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_hierarchy_read(lk_stream *in, lk_arena *arena, lk_hierarchy *out, lk_error *err);

/* `walk` borrows the tree; everybody takes part. LK_ERR_MEMORY. */
lk_status lk_hierarchy_walk_make(const lk_hierarchy *tree, lk_arena *arena, lk_hierarchy_walk *walk,
                                 lk_error *err);
/* Who takes part has changed. */
void lk_hierarchy_walk_count(lk_hierarchy_walk *walk);
/* Works out a level from those below it, at the periods in walk->way. */
void lk_hierarchy_walk_level(lk_hierarchy_walk *walk, int level);
/* The whole at walk->way, all levels worked out. */
lk_hierarchy_cost lk_hierarchy_walk_cost(const lk_hierarchy_walk *walk);
/* Works out all levels. */
lk_hierarchy_cost lk_hierarchy_walk_all(lk_hierarchy_walk *walk);
/* Steps that children which aggregate every `every` steps are apart in the mean, and with skew. */
double lk_hierarchy_apart(const lk_hierarchy *tree, double every);
/* The client that the root waits for longest. */
int lk_hierarchy_walk_last(lk_hierarchy_walk *walk);

/* What is asked of a choice. */
typedef struct lk_hierarchy_wish {
	double rate;  /* samples/s at the least */
	double bytes; /* a sample at the most; INFINITY: any */
	double take;  /* share of the samples of a step that must take part */
	int most;     /* longest period, steps */
} lk_hierarchy_wish;

/* The way with the least drift that keeps to the wish; walk->out and walk->way are it, or where
 * *found is false what comes nearest in rate. `cutoff`: nobody further is left out, and *cut_off
 * says why; NULL: none. */
lk_hierarchy_cost lk_hierarchy_choose(lk_hierarchy_walk *walk, const lk_hierarchy_wish *wish,
                                      const lk_cutoff *cutoff, bool *found, const char **cut_off);
/* Whether these costs keep to it. */
bool lk_hierarchy_keeps(const lk_hierarchy_cost *cost, const lk_hierarchy_wish *wish);

#endif
