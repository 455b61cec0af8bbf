/* graph_check.h: parts of lk_graph_check in files of their own. Private to graph/. */
#ifndef LK_GRAPH_GRAPH_CHECK_H
#define LK_GRAPH_GRAPH_CHECK_H

#include "graph/graph.h"

/* graph_check_teams.c: lists of members in order; every operation of a team issued equally often by all its members.
 * Blocks, operations and calls have been checked. */
lk_status lk_graph_check_teams(const lk_graph *graph, lk_error *err);

#endif
