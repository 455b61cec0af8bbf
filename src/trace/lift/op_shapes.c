/* op_shapes.c: device work of PyTorch operations. A table maps names to rules; a rule is a few
 * lines of arithmetic on shapes.
 *
 * Bytes are those that must pass through device memory once: inputs read, results written. Flops
 * are two for each multiply-add. Matrix products of float run in fp32
 * (torch.backends.cuda.matmul.allow_tf32 is off by default), convolutions of float in tf32
 * (torch.backends.cudnn.allow_tf32 is on). */
#include "trace/lift/lift.h"

#include <math.h>
#include <string.h>

#include "base/text.h"
#include "trace/capture/capture.h"

enum { DIMS = 8, INPUTS = 24 };

/* An input: a tensor, or a list of tensors of which only the sum is kept. */
struct tensor {
	int rank; /* of a tensor; -1: a list of `tensors` */
	double dim[DIMS];
	double elements;
	int tensors;
	int bytes; /* per element; 0: no tensor */
};

struct asked {
	struct tensor in[INPUTS], result;
	int inputs;
	lk_dtype dtype; /* of the first floating-point tensor */
	int width;      /* bytes of its elements */
	bool has_result;
};

/* ---- parsing ---- */

/* Read a value at *at and move *at after it; a tensor's dims, a list of those, or something else.
 * False if the text is broken. */
static bool shapes_read_value(const char **at, int depth, struct tensor *out) {
	if (**at != '[') {
		for (int open = 0; **at && (open || (**at != ',' && **at != ']')); (*at)++)
			open += (**at == '(') - (**at == ')');
		return true;
	}
	double product = 1;
	int numbers = 0, lists = 0;
	for ((*at)++; **at && **at != ']'; *at += **at == ',') {
		struct tensor inner = {0};
		if (**at == '[') {
			if (depth > 8 || !shapes_read_value(at, depth + 1, &inner)) return false;
			lists++;
			out->elements += inner.elements;
			out->tensors += inner.rank < 0 ? inner.tensors : 1;
		} else {
			const char *end;
			double value = lk_read_real(*at, &end);
			if (end == *at || value < 0 || !isfinite(value)) return false;
			if (numbers < DIMS) out->dim[numbers] = value;
			product *= value;
			numbers++;
			*at = end;
		}
		if (**at != ',' && **at != ']') return false;
	}
	if (**at != ']' || numbers > DIMS) return false;
	(*at)++;
	out->rank = lists ? -1 : numbers;
	if (!lists) out->elements = product;
	return true;
}

/* Bytes of an element, from the type's name, bare or inside TensorList(...); 0 for other types
 * ("Int", "Scalar"). */
static int type_bytes(const char *type, size_t length) {
	char name[40];
	const char *list = "TensorList(";
	if (length > strlen(list) && strncmp(type, list, strlen(list)) == 0) {
		type += strlen(list);
		length -= strlen(list) + 1;
	}
	if (length >= sizeof name) return 0;
	memcpy(name, type, length);
	name[length] = '\0';
	if (strcmp(name, "TensorList") == 0) return 4; /* Kineto does not name the element type */
	/* Tensor types are in C++'s spelling; "Int", "Bool" and "Double" with a capital are scalar
	 * arguments. */
	return name[0] >= 'a' && name[0] <= 'z' ? lk_comm_element_bytes(name) : 0;
}

static bool floating(const char *type, size_t length, lk_dtype *out) {
	static const struct {
		const char *part;
		lk_dtype dtype;
	} types[] = {{"bfloat16", LK_BF16}, {"BFloat16", LK_BF16}, {"half", LK_FP16},
	             {"Half", LK_FP16},     {"float8", LK_FP8},    {"Float8", LK_FP8},
	             {"float", LK_FP32},    {"double", LK_FP32} /* there is no wider format here */};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (memmem(type, length, types[i].part, strlen(types[i].part))) {
			*out = types[i].dtype;
			return true;
		}
	return false;
}

/* Read one type per input. */
static void read_types(const char *types, struct asked *asked) {
	bool found = false;
	const char *at = types && *types == '[' ? types + 1 : "";
	for (int i = 0; i < asked->inputs; i++) {
		const char *begin = at;
		lk_dtype dtype;
		for (int open = 0; *at && (open || (*at != ',' && *at != ']')); at++)
			open += (*at == '(' || *at == '[') - (*at == ')' || *at == ']');
		size_t length = (size_t)(at - begin);
		asked->in[i].bytes = *types ? type_bytes(begin, length) : 4;
		if (!found && asked->in[i].bytes && *types && floating(begin, length, &dtype)) {
			found = true;
			asked->dtype = dtype;
			asked->width = asked->in[i].bytes;
		}
		if (*at == ',') at++;
	}
	if (!found)
		asked->dtype = LK_FP32,
		asked->width = asked->inputs && asked->in[0].bytes ? asked->in[0].bytes : 4;
}

static bool read_shapes(const char *dims, const char *types, const char *outputs,
                        struct asked *asked) {
	struct tensor past = {0};
	*asked = (struct asked){0};
	if (!dims || *dims != '[') return false;
	for (dims++; *dims && *dims != ']'; dims += *dims == ',') {
		struct tensor *to = asked->inputs < INPUTS ? &asked->in[asked->inputs++] : &past;
		*to = (struct tensor){0};
		if (*dims == ',') continue; /* Kineto sometimes leaves scalars empty */
		if (!shapes_read_value(&dims, 0, to)) return false;
		if (*dims != ',' && *dims != ']') return false;
	}
	read_types(types ? types : "", asked);
	if (outputs && outputs[0] == '[' && outputs[1] == '[') {
		const char *first = outputs + 1;
		asked->has_result = shapes_read_value(&first, 0, &asked->result);
	}
	return *dims == ']';
}

/* ---- rules ---- */

typedef bool (*rule)(const struct asked *, lk_op *);

/* Bytes of all input tensors; *largest: of the largest one. */
static double input_bytes(const struct asked *asked, double *largest) {
	double sum = 0;
	*largest = 0;
	for (int i = 0; i < asked->inputs; i++) {
		double bytes = asked->in[i].elements * asked->in[i].bytes;
		sum += bytes;
		*largest = fmax(*largest, bytes);
	}
	return sum;
}

static bool shapes_stream(const struct asked *asked, lk_op *out, double bytes) {
	out->bytes = bytes;
	out->flops = 0;
	return asked->inputs > 0 && isfinite(bytes);
}

/* Reads its inputs, writes a result of the largest one's size. */
static bool map(const struct asked *asked, lk_op *out) {
	double largest, sum = input_bytes(asked, &largest);
	return shapes_stream(
		asked, out, sum + (asked->has_result ? asked->result.elements * asked->width : largest));
}

/* Writes its first input: fill_, zero_, uniform_. */
static bool shapes_fill(const struct asked *asked, lk_op *out) {
	return shapes_stream(asked, out, asked->in[0].elements * asked->in[0].bytes);
}

/* copy_(to, from): writes one, reads the other. */
static bool shapes_copy(const struct asked *asked, lk_op *out) {
	if (asked->inputs < 2) return map(asked, out);
	double from = asked->in[1].elements * asked->in[1].bytes;
	return shapes_stream(asked, out, asked->in[0].elements * asked->in[0].bytes + from);
}

/* Reads its inputs; the result is small: sums, means, losses. */
static bool shapes_reduce(const struct asked *asked, lk_op *out) {
	double largest, sum = input_bytes(asked, &largest);
	return shapes_stream(asked, out,
	                     sum + (asked->has_result ? asked->result.elements * asked->width : 0));
}

/* Reads everything twice and writes once: statistics first, then the normalised values. */
static bool shapes_norm(const struct asked *asked, lk_op *out) {
	double largest, sum = input_bytes(asked, &largest);
	return shapes_stream(asked, out, sum + 2 * largest);
}

/* Reads and writes a list of tensors; reads further lists. */
static bool foreach (const struct asked *asked, lk_op * out) {
	double largest, sum = input_bytes(asked, &largest);
	return asked->in[0].rank == -1 &&
	       shapes_stream(asked, out, sum + asked->in[0].elements * asked->in[0].bytes);
}

static bool shapes_product(const struct asked *asked, lk_op *out, double batch, double m, double n,
                           double k) {
	if (!(batch > 0 && m > 0 && n > 0 && k > 0)) return false;
	out->batch = batch;
	out->m = m;
	out->n = n;
	out->k = k;
	out->flops = 2 * batch * m * n * k;
	out->bytes = batch * (m * k + k * n + m * n) * asked->width;
	return isfinite(out->flops);
}

/* The product of inputs `a` and a + 1, matrices or batches of them. */
static bool shapes_multiply(const struct asked *asked, lk_op *out, int a) {
	if (asked->inputs < a + 2) return false;
	const struct tensor *x = &asked->in[a], *y = &asked->in[a + 1];
	if (x->rank < 2 || y->rank < 2 || x->dim[x->rank - 1] != y->dim[y->rank - 2]) return false;
	double m = x->dim[x->rank - 2], k = x->dim[x->rank - 1], n = y->dim[y->rank - 1];
	/* batches times one right matrix are one tall product */
	double batch = m * k > 0 ? x->elements / (m * k) : 0;
	return y->rank == 2 ? shapes_product(asked, out, 1, m * batch, n, k)
	                    : shapes_product(asked, out, batch, m, n, k);
}

static bool mm(const struct asked *asked, lk_op *out) {
	return shapes_multiply(asked, out, 0);
}
static bool addmm(const struct asked *asked, lk_op *out) {
	return shapes_multiply(asked, out, 1);
}

/* linear(input, weight [out, in], bias) */
static bool shapes_linear(const struct asked *asked, lk_op *out) {
	if (asked->inputs < 2 || asked->in[0].rank < 1 || asked->in[1].rank != 2) return false;
	double k = asked->in[1].dim[1];
	if (asked->in[0].dim[asked->in[0].rank - 1] != k || !(k > 0)) return false;
	return shapes_product(asked, out, 1, asked->in[0].elements / k, asked->in[1].dim[0], k);
}

/* An implicit product: one row per output point, the window (weight / filters) as k; `times`
 * products of that size. */
static bool convolve(const struct asked *asked, lk_op *out, const struct tensor *result,
                     const struct tensor *weight, double inputs, double times) {
	if (result->rank < 3 || weight->rank != result->rank || !(weight->dim[0] > 0) ||
	    !(result->dim[1] > 0))
		return false;
	double points = result->elements / result->dim[1];
	if (!shapes_product(asked, out, 1, points, weight->dim[0], weight->elements / weight->dim[0]))
		return false;
	out->flops *= times;
	out->m *= times;
	out->bytes = times * (inputs + weight->elements + result->elements) * asked->width;
	if (asked->dtype == LK_FP32) out->dtype = LK_TF32;
	return true;
}

/* convolution(input, weight, ...) */
static bool convolution(const struct asked *asked, lk_op *out) {
	if (asked->inputs < 2 || !asked->has_result) return false;
	return convolve(asked, out, &asked->result, &asked->in[1], asked->in[0].elements, 1);
}

/* convolution_backward(gradient, input, weight, ...): the gradients of input and of weight, each
 * the forward's work */
static bool convolution_backward(const struct asked *asked, lk_op *out) {
	if (asked->inputs < 3) return false;
	return convolve(asked, out, &asked->in[0], &asked->in[2], asked->in[1].elements, 2);
}

/* attention(query [..., heads, queries, size], key, value): two products of the scores' size */
static bool shapes_attend(const struct asked *asked, lk_op *out, int first, double products) {
	if (asked->inputs < first + 3) return false;
	const struct tensor *a = &asked->in[first], *b = &asked->in[first + 1];
	if (a->rank != 4 || b->rank != 4) return false;
	out->batch = a->dim[0] * a->dim[1];
	out->m = a->dim[2];
	out->n = b->dim[2];
	out->k = a->dim[3];
	out->flops = 2 * products * out->batch * out->m * out->n * out->k;
	out->bytes = products * (a->elements + b->elements) * asked->width;
	return out->flops > 0 && isfinite(out->flops);
}

static bool attention(const struct asked *asked, lk_op *out) {
	return shapes_attend(asked, out, 0, 2);
}
/* its backward has the gradient first, and five products: the scores again, and four gradients */
static bool attention_backward(const struct asked *asked, lk_op *out) {
	return shapes_attend(asked, out, 1, 5);
}
/* flash_attn's own layout is [batch, queries, heads, size] */
static bool shapes_flash(const struct asked *asked, lk_op *out, int first, double products) {
	if (!shapes_attend(asked, out, first, products)) return false;
	const struct tensor *a = &asked->in[first], *b = &asked->in[first + 1];
	out->batch = a->dim[0] * a->dim[2];
	out->m = a->dim[1];
	out->n = b->dim[1];
	out->flops = 2 * products * out->batch * out->m * out->n * out->k;
	return true;
}
static bool flash_forward(const struct asked *asked, lk_op *out) {
	return shapes_flash(asked, out, 0, 2);
}
static bool flash_backward(const struct asked *asked, lk_op *out) {
	return shapes_flash(asked, out, 1, 5);
}

/* Gather rows of a table by indices: each row is read and written once, and the indices are
 * read. */
static bool shapes_gather(const struct asked *asked, lk_op *out, int table, int indices) {
	if (asked->inputs <= indices || asked->inputs <= table || asked->in[table].rank < 1)
		return false;
	const struct tensor *tensor = &asked->in[table], *i = &asked->in[indices];
	double row = tensor->rank > 1 && tensor->dim[0] > 0 ? tensor->elements / tensor->dim[0] : 1;
	return shapes_stream(asked, out, i->elements * (2 * row * asked->width + i->bytes));
}

static bool shapes_embedding(const struct asked *asked, lk_op *out) {
	return shapes_gather(asked, out, 0, 1);
}
/* the indices are the last tensor */
static bool index_select(const struct asked *asked, lk_op *out) {
	int last = asked->inputs - 1;
	while (last > 0 && !asked->in[last].bytes) last--;
	return shapes_gather(asked, out, 0, last);
}

/* embedding_dense_backward(gradient, indices, ...): reads the gradient and adds it to rows, after
 * clearing the table */
static bool shapes_embedding_backward(const struct asked *asked, lk_op *out) {
	double table = asked->has_result ? asked->result.elements * asked->width : 0;
	return shapes_stream(asked, out, table + 3 * asked->in[0].elements * asked->width);
}

/* fbgemm's lookups take the weights of all tables as one flat list, then the indices, then the
 * offset where each sample begins: one per table and sample, plus one. So
 *     tables = (offsets - 1) / samples    width = columns of the result / tables
 *     pooled = indices / (samples tables) rows = weights / (width tables)
 *
 * If no pair of inputs fits this, at least one row is read for each row written. */
static bool shapes_pooled(const struct asked *asked, lk_op *out) {
	if (!asked->has_result || asked->result.rank != 2 ||
	    !shapes_stream(asked, out, 2 * asked->result.elements * asked->width))
		return false;
	double samples = asked->result.dim[0], weights = 0;
	for (int i = 0; i < asked->inputs; i++)
		if (asked->in[i].bytes == asked->width && asked->in[i].elements > weights)
			weights = asked->in[i].elements;
	for (int i = 0; i + 1 < asked->inputs; i++) {
		const struct tensor *indices = &asked->in[i], *offsets = &asked->in[i + 1];
		if (indices->rank != 1 || offsets->rank != 1 || indices->bytes != offsets->bytes ||
		    !(samples > 0) || !(offsets->elements > samples))
			continue;
		double tables = (offsets->elements - 1) / samples;
		if (tables != floor(tables) || !(indices->elements > 0)) continue;
		out->m = samples;
		out->n = asked->result.dim[1] / tables;
		out->batch = tables;
		out->k = indices->elements / (samples * tables);
		out->window = weights / (out->n * tables);
		return true;
	}
	return true;
}

/* Radix sort: four passes over the keys, each read and written. */
static bool sort(const struct asked *asked, lk_op *out) {
	return shapes_stream(asked, out, 8 * asked->in[0].elements * asked->in[0].bytes);
}

/* ---- the table ---- */

/* Rules by name: names without "aten::", separated by blanks; a '*' matches anything. The first
 * match counts. */
static const struct {
	rule rule;
	uint8_t kind;
	bool sync;
	const char *names;
} rules[] = {
	{mm, LK_OP_GEMM, false, "mm _scaled_mm matmul bmm"},
	{addmm, LK_OP_GEMM, false, "addmm addmm_ _addmm_activation baddbmm baddbmm_"},
	{shapes_linear, LK_OP_GEMM, false, "linear"},
	{convolution, LK_OP_CONV, false,
     "conv1d conv2d conv3d convolution _convolution cudnn_convolution miopen_convolution"},
	{convolution_backward, LK_OP_CONV, false, "convolution_backward"},
	{attention, LK_OP_ATTENTION, false,
     "scaled_dot_product_attention _scaled_dot_product_flash_attention "
     "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention"},
	{attention_backward, LK_OP_ATTENTION_BWD, false,
     "_scaled_dot_product_flash_attention_backward "
     "_scaled_dot_product_efficient_attention_backward "
     "_scaled_dot_product_cudnn_attention_backward"},
	{flash_forward, LK_OP_ATTENTION, false,
     "_flash_attention_forward _efficient_attention_forward"},
	{flash_backward, LK_OP_ATTENTION_BWD, false,
     "_flash_attention_backward _efficient_attention_backward"},
	{map, LK_OP_SOFTMAX, false, "_softmax _softmax_backward_data _masked_softmax*"},
	{map, LK_OP_LOSS, false, "_log_softmax _log_softmax_backward_data"},
	{shapes_reduce, LK_OP_LOSS, false, "nll_loss*_forward"},
	{map, LK_OP_LOSS, false,
     "nll_loss* mse_loss* binary_cross_entropy binary_cross_entropy_backward"},
	{shapes_norm, LK_OP_NORM, false,
     "native_layer_norm* native_group_norm* native_batch_norm* cudnn_batch_norm* "
     "miopen_batch_norm* _batch_norm_with_update* _fused_rms_norm* batch_norm_*"},
	{shapes_reduce, LK_OP_NORM, false,
     "sum mean amax max min amin argmax norm linalg_vector_norm any all var* std* prod"},
	{map, LK_OP_NORM, false, "cumsum cumsum_"},
	{shapes_reduce, LK_OP_NORM, false, "_foreach_norm"},
	{shapes_fill, LK_OP_OPTIMIZER, false, "_foreach_zero_"},
	{foreach, LK_OP_OPTIMIZER, false, "_foreach_* _fused_adam* _fused_sgd* _amp_*"},
	{shapes_embedding, LK_OP_EMBEDDING, false, "embedding _embedding_bag*"},
	{index_select, LK_OP_EMBEDDING, false, "index_select gather"},
	{shapes_embedding_backward, LK_OP_EMBEDDING, false, "embedding_dense_backward"},
	{map, LK_OP_PERMUTE, false, "index index_put_ _index_put_impl_ index_add* scatter*"},
	{sort, LK_OP_PERMUTE, false, "sort topk argsort"},
	{map, LK_OP_PERMUTE, false, "roll flip"},
	{map, LK_OP_ELEMENTWISE, false, "cat stack"},
	{shapes_copy, LK_OP_ELEMENTWISE, false, "copy_"},
	{shapes_fill, LK_OP_ELEMENTWISE, false,
     "fill_ zero_ uniform_ normal_ random_ bernoulli_ exponential_"},
	{map, LK_OP_ELEMENTWISE, false,
     "max_pool2d_with_indices* avg_pool2d* _adaptive_avg_pool2d* upsample_* native_dropout* "
     "threshold_backward clamp* relu relu_ gelu* silu* tanh* sigmoid* elu* leaky_relu* hardtanh* "
     "hardswish* softplus* glu* add add_ sub sub_ rsub mul mul_ div div_ pow* neg* exp exp_ log* "
     "sqrt* rsqrt* reciprocal* abs* sin* cos* erf* where masked_fill* addcmul* addcdiv* lerp* "
     "remainder* floor* round* eq* ne lt* gt* le ge bitwise_* maximum minimum isnan isfinite "
     "isinf tril* triu* constant_pad_nd repeat_interleave"},
	{shapes_fill, LK_OP_COPY, true, "_local_scalar_dense"},
	{map, LK_OP_ELEMENTWISE, true, "nonzero masked_select"},
	{map, LK_OP_PERMUTE, false, "fbgemm::permute_*"},
	{map, LK_OP_NORM, false, "fbgemm::asynchronous_*_cumsum"},
	{map, LK_OP_ELEMENTWISE, false, "fbgemm::bounds_check_indices"},
	{shapes_pooled, LK_OP_EMBEDDING, false, "fbgemm::*_function fbgemm::*_lookup_*"},
};

/* Allocations, views and queries: names without "aten::". */
static const char nothing[] =
	"empty empty_like empty_strided new_empty new_empty_strided resize_ set_ record_stream view "
	"_unsafe_view reshape _reshape_alias view_as as_strided as_strided_ transpose transpose_ t "
	"t_ numpy_T permute expand expand_as squeeze squeeze_ unsqueeze unsqueeze_ select slice "
	"narrow split split_with_sizes chunk unbind unfold diagonal detach detach_ alias lift_fresh "
	"flatten unflatten movedim swapaxes swapdims result_type is_same_size is_pinned "
	"resolve_conj resolve_neg size stride broadcast_tensors _nested_tensor_size real "
	"view_as_real view_as_complex unsafe_split unsafe_chunk tensor_split mT matrix_H "
	"_has_compatible_shallow_copy_type";

/* One '*' matches anything. */
static bool shapes_fits(const char *pattern, size_t size, const char *name) {
	const char *star = memchr(pattern, '*', size);
	size_t length = strlen(name);
	if (!star) return length == size && memcmp(pattern, name, size) == 0;
	size_t head = (size_t)(star - pattern), tail = size - head - 1;
	return length >= head + tail && memcmp(name, pattern, head) == 0 &&
	       memcmp(name + length - tail, star + 1, tail) == 0;
}

/* Whether one of the patterns, separated by blanks, matches. */
static bool fits_any(const char *patterns, const char *name) {
	while (*patterns) {
		size_t size = strcspn(patterns, " ");
		if (shapes_fits(patterns, size, name)) return true;
		patterns += size + (patterns[size] == ' ');
	}
	return false;
}

lk_shapes_known lk_op_from_shapes(const char *name, const char *dims, const char *types,
                                  const char *outputs, lk_op *out) {
	struct asked q;
	const char *plain = strncmp(name, "aten::", 6) == 0 ? name + 6 : name;
	if (strcmp(name, "detach") == 0 || strcmp(name, "detach_") == 0) return LK_SHAPES_NOTHING;
	if (plain != name && fits_any(nothing, plain)) return LK_SHAPES_NOTHING;
	if (plain == name && strncmp(name, "fbgemm::", 8) != 0) return LK_SHAPES_UNKNOWN;
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
		if (!fits_any(rules[i].names, plain)) continue;
		if (!read_shapes(dims, types, outputs, &q)) return LK_SHAPES_UNKNOWN;
		out->kind = rules[i].kind;
		out->dtype = (uint8_t)q.dtype;
		out->m = out->n = out->k = out->batch = out->flops = out->bytes = out->window = 0;
		if (!rules[i].rule(&q, out)) return LK_SHAPES_UNKNOWN;
		return rules[i].sync ? LK_SHAPES_SYNC : LK_SHAPES_WORK;
	}
	return LK_SHAPES_UNKNOWN;
}
