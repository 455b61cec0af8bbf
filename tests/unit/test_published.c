/* test_published.c: configs of public repositories with all their members, bookkeeping too, as the
 * library wrote them at the time (lists of labels and tokens left out): each is read without
 * --as and without a warning, its parameters within 0.5 % of the published total, active ones
 * within 1 %, and its layers add up to its total.
 *
 * A line of tests/data/hf/published.jsonl holds one: {"name", "params", "active", "config"}. */
#include "networks.h"

#include <stdio.h>
#include <stdlib.h>

static double number_of(const lk_value *row, const char *name) {
	const lk_value *value = lk_json_get(row, name);
	return value && value->kind == LK_JSON_NUMBER ? value->number : 0;
}

static double sum_of_parts(const lk_model *model) {
	double sum = lk_model_embedding_params(model) + lk_model_head_params(model);
	for (int i = 0; i < model->layers + model->decoder_layers; i++) {
		lk_layer_params layer = lk_model_layer_params(model, i);
		sum += layer.attention + layer.mlp + layer.router + layer.experts + layer.norms;
	}
	return sum;
}

static void check_row(const lk_value *row) {
	const char *name = lk_json_get(row, "name")->text;
	char warning[LK_MODEL_WARNING];
	lk_model model;
	lk_error err = {0};
	if (lk_model_from_hf(lk_json_get(row, "config"), name, NULL, &model, warning, &err) != LK_OK)
		fail_msg("%s: %s; %s", err.where, err.what, err.hint);
	double params = number_of(row, "params"), active = number_of(row, "active");
	if (fabs(lk_model_params(&model) / params - 1) > .005)
		fail_msg("%s: %.0f parameters, published %.0f", name, lk_model_params(&model), params);
	if (active > 0 && fabs(lk_model_active_params(&model) / active - 1) > .01)
		fail_msg("%s: %.0f active parameters, published %.0f", name, lk_model_active_params(&model),
		         active);
	if (sum_of_parts(&model) != lk_model_params(&model)) fail_msg("%s: parts are no sum", name);
	if (*warning) fail_msg("%s: %s", name, warning);
}

static void published_configs_are_read(void **state) {
	(void)state;
	FILE *file = fopen("tests/data/hf/published.jsonl", "r");
	char *line = NULL;
	size_t room = 0;
	int rows = 0;
	assert_non_null(file);
	for (; getline(&line, &room, file) > 0; rows++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_stream *in = NULL;
		lk_value *row = NULL;
		lk_error err = {0};
		assert_int_equal(lk_stream_memory(line, strlen(line), "published.jsonl", &in, &err), LK_OK);
		if (lk_json_document(&arena, in, &row, &err) != LK_OK) fail_msg("%s", err.what);
		check_row(row);
		lk_stream_close(in);
		lk_arena_free(&arena);
	}
	free(line);
	fclose(file);
	assert_true(rows > 150);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(published_configs_are_read)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
