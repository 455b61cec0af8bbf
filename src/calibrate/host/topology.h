/* topology.h: the link matrix of `nvidia-smi topo -m`. */
#ifndef LK_MEASURE_TOPOLOGY_H
#define LK_MEASURE_TOPOLOGY_H

#include <stdbool.h>

enum { LK_TOPOLOGY_GPUS = 16 };

typedef struct lk_topology {
	int gpus;
	char link[LK_TOPOLOGY_GPUS][LK_TOPOLOGY_GPUS][8]; /* "NV18", "PIX", "PHB", "SYS", "X" on the diagonal */
} lk_topology;

/* Reads the text that the command prints, with or without colours. False where it holds no such matrix. */
bool lk_topology_read(const char *text, lk_topology *out);
/* Pairs (i < j) that NVLink joins, and all pairs. */
int lk_topology_joined(const lk_topology *topology, int *pairs);

#endif
