/* conversion.c: passes that cast operands of products.
 *
 * A separate kernel scales, casts and, for the weight gradient, transposes: read once, written
 * twice (Transformer Engine's cast-transpose). With a tensor's own factor, a kernel first reads it
 * for its largest value; NVFP4 has such a factor above those of its blocks, and another for the
 * weight gradient's operand, whose largest value is that after a Hadamard transform (Transformer
 * Engine's NVFP4BlockScaling). Factors of rows need the whole row: one kernel casts it and writes
 * the transpose as it is stored, whose rows another casts (torchao/testing/training/
 * roofline_utils.py). */
#include "graph/conversion.h"

int lk_conversion_passes(const lk_conversion *of, lk_conversion_pass out[LK_CONVERSION_PASSES]) {
	static const char *const looks[] = {"largest", "largest_transformed"};
	int count = 0;
	if (of->operand >= of->stored) return 0;
	if (of->rows) {
		out[0] = (lk_conversion_pass){"quantize", 2 * of->stored + of->operand};
		out[1] = (lk_conversion_pass){"quantize_transposed", of->stored + of->operand};
		return 2;
	}
	for (; count < of->largest && count < 2; count++)
		out[count] = (lk_conversion_pass){looks[count], of->stored};
	out[count++] = (lk_conversion_pass){"quantize", of->stored + 2 * of->operand};
	return count;
}

/* Along its rows for the forward product, along its columns for the input's gradient, after a
 * transpose where rows have factors; a tensor's factor takes a pass of its own. */
double lk_conversion_weight_bytes(const lk_conversion *of) {
	if (of->operand >= of->stored || !of->weights) return 0;
	return 2 * (of->stored + of->operand) + (of->rows ? 2 : 1) * of->stored;
}
