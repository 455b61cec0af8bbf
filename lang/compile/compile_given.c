/* compile_given.c: `lockstep compile run --inputs FILE`: numbers of inputs, states and scalars
 * in place of drawn ones, as a JSON object: {"x": [0.5, -1], "w": [1, 2, 3, 4]}, whole tensors
 * in row-major order. */
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "io/json.h"
#include "lang/compile/compile.h"
#include "lang/run/run.h"

enum { GIVEN_FIRST_ROOM = 256 };

/* The leaf of a name; NULL: none. */
static const lc_node *given_leaf(const lc_program *program, const char *name) {
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[i];
		bool leaf = node->op == LC_INPUT || node->op == LC_STATE || node->op == LC_SCALAR;
		if (leaf && strcmp(node->name, name) == 0) return node;
	}
	return NULL;
}

static lk_status given_find(lk_json *json, const lc_program *program, const lc_node **out,
                            lk_error *err) {
	const char *names[LC_VALUES], *name = lk_json_text(json, NULL);
	int count = 0;
	*out = given_leaf(program, name);
	if (*out && (*out)->list < 0) return LK_OK;
	if (*out) {
		lk_fail(err, LK_ERR_INPUT, lk_json_where(json), "%s is a list of tensors", name);
		return lk_hint(err, "give inputs that are single tensors; lists are drawn");
	}
	for (size_t i = 0; i < program->nodes.count; i++)
		if (program->nodes.at[i].name && given_leaf(program, program->nodes.at[i].name))
			names[count++] = program->nodes.at[i].name;
	const char *near = lk_nearest(name, names, count);
	lk_fail(err, LK_ERR_INPUT, lk_json_where(json), "%s has no input \"%.63s\"", program->name,
	        name);
	return near ? lk_hint(err, "did you mean %s?", near)
	            : lk_hint(err, "name inputs, states and scalars of the program");
}

static lk_status given_numbers(lk_json *json, lk_arena *arena, lc_given *given, lk_error *err) {
	int64_t room = 0;
	double *numbers = NULL;
	lk_json_token token;
	LK_TRY(lk_json_next(json, &token, err));
	if (token != LK_JSON_ARRAY) {
		lk_fail(err, LK_ERR_INPUT, lk_json_where(json), "%s is no array", given->name);
		return lk_hint(err, "give all numbers of the tensor in one: [1, 2, 3]");
	}
	for (;;) {
		LK_TRY(lk_json_next(json, &token, err));
		if (token == LK_JSON_ARRAY_END) break;
		bool yes = token == LK_JSON_TRUE;
		if (token != LK_JSON_NUMBER && token != LK_JSON_FALSE && !yes)
			return lk_fail(err, LK_ERR_INPUT, lk_json_where(json),
			               "%s holds something else than numbers", given->name);
		if (given->count == LC_CELLS_LIMIT)
			return lk_fail(err, LK_ERR_INPUT, lk_json_where(json), "%s has more than 2^27 numbers",
			               given->name);
		if (given->count == room) {
			int64_t more = room ? 2 * room : GIVEN_FIRST_ROOM;
			double *longer = LK_ARRAY(arena, double, (size_t)more);
			if (!longer) return lk_oom(err);
			if (room) memcpy(longer, numbers, (size_t)room * sizeof *numbers);
			room = more;
			numbers = longer;
		}
		numbers[given->count++] = token == LK_JSON_NUMBER ? lk_json_number(json) : yes;
	}
	given->number = numbers;
	return LK_OK;
}

static lk_status given_check(const lc_program *program, const lc_node *leaf, const lc_sizes *sizes,
                             const lc_given *given, lk_error *err) {
	int64_t whole[LC_RANK], count = 1;
	LK_TRY(lc_whole_shape(program, leaf, sizes, 0, whole, err));
	for (int d = 0; d < leaf->rank; d++) count *= whole[d];
	for (int a = 0; a < program->axis_count; a++) {
		const lc_layout *layout = &leaf->layout[a];
		bool sum = layout->kind == LC_P && layout->reduce == LC_SUM;
		if (layout->kind == LC_R || layout->kind == LC_S || layout->kind == LC_ROOT || sum)
			continue;
		lk_fail(err, LK_ERR_INPUT, given->name,
		        "differs from rank to rank over %s, and one tensor is given",
		        program->axes[a].name);
		return lk_hint(err, "leave it out: it is drawn");
	}
	if (count == given->count) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, given->name, "has %lld numbers for %lld elements",
	        (long long)given->count, (long long)count);
	return lk_hint(err, "give the whole tensor, row by row");
}

lk_status lc_given_read(const char *path, const lc_program *program, const lc_sizes *sizes,
                        lk_arena *arena, lc_run_options *options, lk_error *err) {
	lk_stream *stream;
	lk_json_token token;
	const lc_node *leaf;
	lc_given *given = LK_ARRAY(arena, lc_given, LC_VALUES);
	if (!given) return lk_oom(err);
	LK_TRY(lk_stream_open(path, &stream, err));
	lk_json *json = lk_json_open(stream);
	lk_status status = json ? lk_json_next(json, &token, err) : lk_oom(err);
	if (status == LK_OK && token != LK_JSON_OBJECT)
		status = lk_fail(err, LK_ERR_INPUT, lk_json_where(json), "is no object of arrays by name");
	while (status == LK_OK && (status = lk_json_next(json, &token, err)) == LK_OK &&
	       token == LK_JSON_KEY) {
		lc_given *one = &given[options->given_count];
		status = given_find(json, program, &leaf, err);
		if (status != LK_OK) break;
		*one = (lc_given){.name = leaf->name};
		for (int i = 0; i < options->given_count && status == LK_OK; i++)
			if (given[i].name == leaf->name)
				status =
					lk_fail(err, LK_ERR_INPUT, lk_json_where(json), "%s is given twice", one->name);
		if (status == LK_OK) status = given_numbers(json, arena, one, err);
		if (status == LK_OK) status = given_check(program, leaf, sizes, one, err);
		options->given_count++;
	}
	if (status == LK_OK) status = lk_json_next(json, &token, err); /* nothing follows */
	lk_json_close(json);
	lk_stream_close(stream);
	options->given = given;
	return status;
}
