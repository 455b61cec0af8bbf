/* conversion.h: the passes over memory that cast operands of products to 8 or 4 bits, by recipe:
 * for the builder of steps (model/build) and for edits of graphs (graph/edit). */
#ifndef LK_GRAPH_CONVERSION_H
#define LK_GRAPH_CONVERSION_H

#include <stdbool.h>

/* How the software of a job casts. */
typedef struct lk_conversion {
	double stored, operand; /* bytes of an element in memory; of an operand, with its factors */
	int largest;  /* passes that look for largest values first: 1 for a factor of this step's
	                 tensor, 2 where the weight gradient's operand has one of its own */
	bool rows;    /* each row has a factor */
	bool norms;   /* norms write operands themselves */
	bool weights; /* a weight is cast in every pass (torchao), not once a step */
} lk_conversion;

typedef struct lk_conversion_pass {
	const char *name;
	double bytes; /* an element */
} lk_conversion_pass;

enum { LK_CONVERSION_PASSES = 3 };

/* The passes over an operand that both a product and a weight's gradient read, in order. Returns
 * how many; 0 if the format is as wide as what is stored. */
int lk_conversion_passes(const lk_conversion *of, lk_conversion_pass out[LK_CONVERSION_PASSES]);

/* Bytes for each element of a weight, over the forward and the backward pass; 0 if weights are cast
 * once a step. */
double lk_conversion_weight_bytes(const lk_conversion *of);

#endif
