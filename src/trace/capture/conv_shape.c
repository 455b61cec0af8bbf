/* conv_shape.c: convolutions by PyTorch's signatures.
: out = floor((in + 2 padding - dilation (kernel - 1) - 1) / stride) + 1
 * in every dimension. Transposed ones are left alone: their weights lie the other way round, and
groups count. */
#include "trace/capture/capture.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

enum { MOST = 5 }; /* batch, channels, three dimensions */

/* Index of each argument; -1: none. */
struct signature {
	const char *name;
	int stride, padding, dilation, transposed;
};

static const struct signature signatures[] = {
	{"aten::conv1d", 3, 4, 5, -1},
	{"aten::conv2d", 3, 4, 5, -1},
	{"aten::conv3d", 3, 4, 5, -1},
	{"aten::convolution", 3, 4, 5, 6},
	{"aten::_convolution", 3, 4, 5, 6},
	{"aten::cudnn_convolution", 3, 2, 4, -1},
	{"aten::miopen_convolution", 4, 3, 5, -1},
};

/* Argument `index` of a list, at its first byte, or NULL. */
static const char *shape_argument(const char *list, int index) {
	if (*list != '[') return NULL;
	int depth = 0;
	for (list++; *list && (depth || *list != ']'); list++) {
		if (!index && !depth) return *list == ',' ? NULL : list;
		depth += (*list == '[') - (*list == ']');
		index -= !depth && *list == ',';
	}
	return NULL;
}

/* Read the whole numbers of an argument; returns their count, or -1. */
static int numbers(const char *list, int index, double out[MOST]) {
	const char *at = index < 0 ? NULL : shape_argument(list, index);
	int count = 0;
	if (!at || *at != '[') return -1;
	for (at++; *at != ']'; at += *at == ',') {
		while (*at == ' ') at++; /* Kineto writes the lists as texts, "[2, 2]" */
		const char *end;
		double value = count < MOST ? lk_read_real(at, &end) : NAN;
		if (count == MOST || end == at || !(fabs(value) < 1e12) || value != floor(value)) return -1;
		out[count++] = value;
		at = end;
		if (*at != ',' && *at != ']') return -1;
	}
	return count;
}

/* Read one number per dimension; a single number applies to all. */
static bool per_dimension(const char *values, int index, int dimensions, double least,
                          double out[MOST]) {
	int count = numbers(values, index, out);
	if (count != dimensions && count != 1) return false;
	for (int d = count; d < dimensions; d++) out[d] = out[0];
	for (int d = 0; d < dimensions; d++)
		if (out[d] < least) return false;
	return true;
}

static bool is_true(const char *values, int index) {
	const char *at = index < 0 ? NULL : shape_argument(values, index);
	return at && strncasecmp(at, "true", 4) == 0;
}

bool lk_conv_result(const char *name, const char *dims, const char *values, char *out,
                    size_t size) {
	const struct signature *signature = NULL;
	for (size_t i = 0; i < sizeof signatures / sizeof *signatures && !signature; i++)
		if (strcmp(name, signatures[i].name) == 0) signature = &signatures[i];
	double in[MOST], weight[MOST], stride[MOST], padding[MOST], dilation[MOST];
	int rank = signature ? numbers(dims, 0, in) : -1;
	if (rank < 3 || numbers(dims, 1, weight) != rank ||
	    !per_dimension(values, signature->stride, rank - 2, 1, stride) ||
	    !per_dimension(values, signature->padding, rank - 2, 0, padding) ||
	    !per_dimension(values, signature->dilation, rank - 2, 1, dilation))
		return false;
	if (is_true(values, signature->transposed)) return false;
	lk_text text = lk_text_begin(out, size);
	lk_text_add(&text, "[[%.0f,%.0f", in[0], weight[0]);
	for (int d = 0; d < rank - 2; d++) {
		double points = floor((in[d + 2] + 2 * padding[d] - dilation[d] * (weight[d + 2] - 1) - 1) /
		                      stride[d]) +
		                1;
		if (!(points >= 1)) return false;
		lk_text_add(&text, ",%.0f", points);
	}
	if (text.used + sizeof "]]" > size) return false;
	lk_text_add(&text, "]]");
	return true;
}
