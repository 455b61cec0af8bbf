/* test_gradient.c: grad() against central differences in double: a loss of x + t d is derived by t
 * twice, by its values at -h and h, and as the gradient's product with d. Every rule, on meshes
 * that divide what there is in several ways; and against backward passes that were written by hand.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "lang/run/run.h"
#include "lang/types/program.h"
#include "lang/syntax/parse.h"

static lc_file *read_program(const char *text) {
	lc_file *file = NULL;
	lk_error err = {0};
	char line[1024];
	if (lc_parse("gradient", text, strlen(text), &file, &err) != LK_OK)
		fail_msg("%s\n%s", lk_error_text(&err, line, sizeof line), text);
	return file;
}

/* Both outputs, the loss and its slope, with t set. */
static void outputs(const lc_program *p, int64_t ranks, double t, double out[2]) {
	int64_t axes[LC_AXES] = {ranks, 2};
	lc_sizes sizes;
	lc_run *run;
	lk_error err = {0};
	int ids[16], count;
	lc_setting set = {"t", t};
	lc_run_options options = {.seed = 3, .settings = &set, .setting_count = 1};
	if (lc_sizes_draw(p, NULL, axes, 5, &sizes, &err) != LK_OK) fail_msg("%s", err.what);
	if (lc_run_program(p, &sizes, &options, &run, &err) != LK_OK) fail_msg("%s", err.what);
	assert_int_equal(lc_results(p, ids, 16, &count, &err), LK_OK);
	for (int i = 0; i < 2; i++) {
		const lc_cells *whole;
		if (lc_run_whole(run, ids[i], 0, &whole, &err) != LK_OK) fail_msg("%s", err.what);
		out[i] = whole->number[0];
	}
	lc_run_free(run);
	lc_sizes_free(&sizes);
}

static void check_slope(const char *declared, const char *loss, int64_t ranks) {
	char text[2048];
	const double h = 1e-5;
	double at[3][2];
	snprintf(text, sizeof text,
	         "program p(mesh a, b) { dim N, M, K scalar f64 t %s %s out loss out %s(sum(grad(loss, "
	         "w)*d)) }",
	         declared, loss, strncmp(declared, "list", 4) == 0 ? "total" : "");
	lc_file *file = read_program(text);
	for (int i = 0; i < 3; i++) outputs(file->programs.at[0], ranks, (i - 1) * h, at[i]);
	double want = (at[2][0] - at[0][0]) / (2 * h), got = at[1][1];
	if (!(fabs(want - got) <= 1e-6 * fmax(1, fmax(fabs(want), fabs(got)))))
		fail_msg("%.12g, not %.12g, on %lld ranks:\n%s", got, want, (long long)ranks, text);
	lc_file_free(file);
}

#define WHOLE "in x : f64[N,M], d : f64[N,M], y : f64[N,M], v : f64[M,K], i : i32[K] w = x + t*d"
#define SLICED \
	"in x : f64[N,M] @ S(0,a), d : f64[N,M] @ S(0,a), y : f64[N,M], v : f64[M,K] w = x + t*d"
#define MOVED \
	"in x : f64[N,M] @ S(1,b), d : f64[N,M] @ S(1,b), y : f64[N,M], v : f64[M,K] w = x + t*d"

#define LISTED \
	"list l dim P of l in x : f64[P] @ S(0,a), d : f64[P] @ S(0,a), y : f64[P] w = x + t*d"
/* `own`: a number of each rank of its own. */
#define OWN WHOLE " own = local(slice(iota(f64, size(a)), 0, a), a)*3 + 1"

static void test_functions(void **state) {
	(void)state;
	static const char *const losses[] = {
		"loss = sum(w*y - w/(y + 3) + y/(w + 3) - (-w))",
		"loss = sum(sqrt(w + 2)*exp(w) + log(w + 2) + tanh(w) + erf(w))",
		"loss = sum(relu(w)*gelu(w) + sigmoid(w)*abs(w) + sin(w*2) + cos(w) + exp2(w))",
		"loss = sum((w + 2)^3 + w^2 + (w + 2)^-1.5 + (w + 2)^y + (y + 2)^w)",
		"loss = sum(minimum(w, y)*3 + maximum(w, y*0.5) + select(y > 0, w^2, w*y) + copy(w))",
		"loss = sum(dropout(w^2, 0.3, key=4)) + sum(cast(f64, w)*round(w*9))",
		("loss = mean(w^2*mean(w, 0) + sum(w, 1, keep)*y) + norm(w) + sum(norm(w, 1, keep)*"
	     "norm(w, 0))"),
		"loss = sum(max(w, 1)^2) + sum(min(w, 0, keep)*w) + max(w)",
		"loss = sum(w*max(y, 0)) + sum(mean(w*y, 1, keep, 0)*2)",
		"p = exp(w - max(w, 1, keep)) loss = mean(log(p/sum(p, 1, keep))*y)",
	};
	for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
		check_slope(WHOLE, losses[i], 1);
		check_slope(WHOLE, losses[i], 3);
	}
}

static void test_products_and_views(void **state) {
	(void)state;
	static const char *const losses[] = {
		"loss = sum(matmul(w, v)^2)",
		"loss = sum(matmul(w, y, tb)^2 + matmul(y, w, tb)) + sum(matmul(w, y, ta)^2)",
		"loss = sum(matmul(y, w, ta)^2) + sum(matmul(v, w, ta, tb)^2) + sum(matmul(w, "
		"transpose(y, 0, 1), ta, tb)^2)",
		"z = parts(w, 0, 1) q = spread(y, 0, 3) loss = sum(matmul(z, q, tb)^2 + matmul(q, z, tb))",
		"loss = sum(transpose(w, 0, 1)^3) + sum(parts(w, 1, M)*2 + spread(y, 2, 1)) + sum(join(w, "
		"0)^2)",
		"loss = sum(spread(w, 1, 3)^2) + sum(first(w, 1, M + 2)^2) + sum(last(first(w, 0, N + 3), "
		"0, 4)^3)",
		"loss = sum(concat(w, y, 1)^3 * concat(y, w, 1)) + sum(concat(w^2, w, 0))",
		"loss = sum(cumsum(w, 0)^2*y) + sum(cumsum(w^2, 1, reverse)*y)",
		"z = gather_rows(w, i)*2 loss = sum(z^2) + sum(add_rows(z, i, M)^3)",
	};
	for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
		for (int64_t ranks = 1; ranks <= 3; ranks += 2) {
			const char *rows = strstr(losses[i], "gather_rows");
			const char *declared = rows ? "in x : f64[N,M], d : f64[N,M], y : f64[N,M], i : "
			                              "i32[K] w = x + t*d"
			                            : WHOLE;
			check_slope(declared, losses[i], ranks);
		}
}

static void test_layouts(void **state) {
	(void)state;
	static const struct {
		const char *declared, *loss;
	} rows[] = {
		{SLICED, "loss = sum(exp(w)*y)"},
		{SLICED, "loss = allreduce(sum(exp(w)*y), sum, a)^2"},
		{SLICED, "f = allgather(w, 0, a) loss = sum(matmul(f, v)^2)"},
		{SLICED,
	     "f = allgather(w, 0, a) z = matmul(slice(y, 0, a), f, tb) loss = allreduce(sum(z^2), "
	     "sum, a)"},
		{SLICED, "z = matmul(transpose(w, 0, 1), slice(y, 0, a)) loss = "
	             "sum(allreduce(z, sum, a)^2)"},
		{SLICED, "z = matmul(w, y, ta) loss = sum(reducescatter(z, sum, a, dim=1)^2)"},
		{SLICED, "loss = sum(alltoall(w, 0, 1, a)^3)"},
		{SLICED, "loss = sum(permute(w, a, shift=1)*permute(w, a, shift=1))"},
		{SLICED, "loss = allreduce(max(w), max, a)*2 + allreduce(sum(w^2), sum, a)"},
		{SLICED, "m = allreduce(max(w, 0, keep), max, a) e = exp(w - m) s = allreduce(sum(e, 0, "
	             "keep), sum, a) loss = sum(e/s*y)"},
		{WHOLE, "loss = sum(w^2*y) + allreduce(partial(sum(local(w, a)^2*local(y, a)), sum, a), "
	            "sum, a)"},
		{OWN, "loss = allreduce(partial(sum(w^2*own), sum, a), sum, a)"},
		{OWN, "loss = partial(sum(exp(w)*own), sum, a)"},
		{OWN, "z = partial(matmul(w, v)*own, sum, a) loss = sum(allreduce(z, sum, a)^2)"},
		{OWN,
	     "z = partial(matmul(w, v)*own, sum, a) loss = sum(reducescatter(z, sum, a, dim=0)^2)"},
		{OWN,
	     "loss = sum(slice(w, 0, a)^2) + partial(sum(w*own), sum, a) + partial(sum(norm(w)*own), "
	     "sum, a)"},
		{OWN, "loss = allreduce(partial(max(w*own), max, a), max, a)^2"},
		{OWN, "loss = sum(sliced(spread(max(w*own, 1), 0, 1), 0, a)^2)"},
		{OWN,
	     "r = reduce(partial(w*own, sum, a), sum, a, root=0) loss = sum(broadcast(r^2*w, a)*y)"},
		{OWN,
	     "r = reduce(partial(w*own, sum, a), sum, a, root=0) loss = sum(slice(broadcast(exp(r), "
	     "a), 0, a)^2)"},
		{OWN, "z = select(own > 5, local(w, a), y) loss = partial(sum(z^2), sum, a)"},
		{OWN, "z = permute(w*own, a, shift=1) loss = partial(sum(z^2*own), sum, a)"},
		{SLICED, "loss = sum(join(parts(w, 0, 1)*3, 0)^2) + sum(spread(parts(w^2, 0, 1), 0, 2))"},
		{LISTED, "loss = total(sum(w^2*y))"},
		{LISTED, "s = allreduce(sum(w^2), sum, a) loss = total(sqrt(s))^2 + total(s*total(s))"},
		{LISTED, "n = sqrt(allreduce(total(sum(w^2)), sum, a)) loss = total(sum(w*y))/(n + 1)"},
		{SLICED, "loss = sum(log_softmax(w, 1)*y + softmax(w, 1)^2)"},
		{WHOLE, "loss = sum(log_softmax(w, 0)*y + softmax(w, 0)^2)"},
		{WHOLE, "loss = sum(select(w > 0.5, log(w), 0)) + sum(sqrt(select(w > 0.25, w, 0)))"},
		{SLICED, "loss = sum(dropout(w, 0.4, key=2)^2*w)"},
		{MOVED, "loss = sum(matmul(w, slice(v, 0, b)))"},
		{MOVED, "z = allreduce(matmul(w, slice(v, 0, b)), sum, b) loss = sum(z^2)"},
		{MOVED, "loss = sum(slice(allgather(w, 1, b), 0, a)^3)"},
		{MOVED, "loss = sum(allreduce(mean(w, 1, keep), sum, b)*w)"},
		{WHOLE, "s = slice(w, 0, a) z = s^2 + y loss = sum(allgather(z, 0, a)*w)"},
		{WHOLE,
	     "z = matmul(w, slice(v, 1, b)) h = relu(z) loss = sum(matmul(h, slice(v, 1, b), tb)*y)"},
		{WHOLE,
	     "z = matmul(w, slice(v, 1, b)) h = tanh(z) loss = sum(allreduce(matmul(h, slice(v, 1, "
	     "b), tb), sum, b)*w)"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (int64_t ranks = 1; ranks <= 4; ranks++)
			check_slope(rows[i].declared, rows[i].loss, ranks);
}

/* A convolution, by image or by kernel. */
struct convolution {
	const char *image, *image_at, *kernel, *kernel_at, *sum;
};

static void check_convolution(const struct convolution *row, const char *window, bool by_kernel,
                              int64_t ranks) {
	char image[64], kernel[64], declared[512], loss[256];
	snprintf(image, sizeof image, "f64[N,M,%s]%s", row->image, row->image_at);
	snprintf(kernel, sizeof kernel, "f64[K,M,%s]%s", row->kernel, row->kernel_at);
	const char *own = by_kernel ? kernel : image, *other = by_kernel ? image : kernel;
	snprintf(declared, sizeof declared, "dim P in x : %s, d : %s, y : %s w = x + t*d", own, own,
	         other);
	snprintf(loss, sizeof loss, "z = conv2d(%s%s)/4 loss = %s", by_kernel ? "y, w" : "w, y", window,
	         row->sum);
	check_slope(declared, loss, ranks);
}

/* Strides, paddings from none to more than a kernel reaches beyond the image, kernels that are no
 * squares and one whose size is a symbol; samples, channels and filters sliced. */
static void test_convolutions(void **state) {
	(void)state;
	static const char *const windows[] = {"",           ", pad=1",           ", pad=4",
	                                      ", stride=2", ", stride=2, pad=1", ", stride=2, pad=3"};
	static const struct convolution rows[] = {
		{"7,9", "", "3,3", "", "sum(z^3)"},
		{"7,9", " @ S(0,a)", "3,3", "", "allreduce(sum(z^2), sum, a)"},
		{"7,9", " @ S(1,a)", "3,3", " @ S(1,a)", "sum(allreduce(z, sum, a)^2)"},
		{"7,9", "", "3,3", " @ S(0,a)", "allreduce(sum(sin(z)), sum, a)"},
		{"7,9", " @ S(0,b)", "1,5", " @ S(0,a)", "allreduce(allreduce(sum(z^2), sum, a), sum, b)"},
		{"7,9", " @ S(0,a)", "5,1", "", "sum(allgather(z, 0, a)^2)"},
		{"P+6,9", "", "P,3", "", "sum(z^2)"},
		{"7,9", "", "3,3", "", "partial(sum(local(z, a)^2), sum, a)"},
	};
	static const struct convolution thirds = {"7,10", "", "1,4", "", "sum(z^2)"};
	for (int by_kernel = 0; by_kernel < 2; by_kernel++) {
		for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
			for (size_t n = 0; n < sizeof windows / sizeof *windows; n++)
				check_convolution(&rows[i], windows[n], by_kernel, 1 + (int64_t)(i + n) % 3);
		check_convolution(&thirds, ", stride=3", by_kernel, 2);
	}
}

static void test_refused(void **state) {
	(void)state;
	static const char *const rows[][2] = {
		{"out grad(x, x)", "is not one real number"},
		{"out grad(sum(y), x)", "does not depend on"},
		{"out grad(sum(cast(f32, x > 0)), x)", "does not depend on"},
		{"state m : f32[N,N] m <- m + x out grad(sum(m*y), x)", "<- has no gradient rule"},
		{"l = sum(x) x2 = x + l out grad(l, x2)", "does not depend on"},
		{"out grad(sum(x, 0), x)", "is not one real number"},
		{"out grad(max(s), s)", "is neither whole on the ranks of a nor a sum over them"},
		{"out grad(sum(stop(x)*y), x)", "does not depend on"},
		{"out grad(reduce(sum(s), sum, a, root=0), s)", "is neither whole"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char text[512];
		lc_file *file = NULL;
		lk_error err = {0};
		snprintf(text, sizeof text,
		         "program p(mesh a) { dim N in x : f32[N,N], y : f32[N,N], s : f32[N] @ S(0,a) %s "
		         "}",
		         rows[i][0]);
		assert_int_equal(lc_parse("refused", text, strlen(text), &file, &err), LK_ERR_INPUT);
		if (!strstr(err.what, rows[i][1])) fail_msg("%s: %s", rows[i][0], err.what);
		assert_true(err.hint[0] != '\0');
		lc_file_free(file);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions), cmocka_unit_test(test_products_and_views),
		cmocka_unit_test(test_layouts),   cmocka_unit_test(test_convolutions),
		cmocka_unit_test(test_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
