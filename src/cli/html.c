/* html.c: `lockstep html`: turns an answer in JSON into a page. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "lockstep/report.h"
#include "lockstep/view.h"

#define MOST_BYTES (256u << 20)

/* Reads a whole file, or standard input for "-". */
static lk_status read_answer(const char *path, char **text, size_t *size, lk_error *err) {
	bool standard = strcmp(path, "-") == 0;
	FILE *in = standard ? stdin : fopen(path, "r"), *copy = lk_memory_open(text, size);
	char bytes[1 << 16];
	size_t got, all = 0;
	if (!copy) return lk_fail(err, LK_ERR_MEMORY, NULL, "out of memory");
	while (in && all <= MOST_BYTES && (got = fread(bytes, 1, sizeof bytes, in)) > 0) {
		fwrite(bytes, 1, got, copy);
		all += got;
	}
	int wrong = in && !ferror(in) ? 0 : errno;
	if (in && !standard) fclose(in);
	if (!lk_memory_close(copy)) return lk_fail(err, LK_ERR_MEMORY, NULL, "out of memory");
	if (wrong) return lk_fail(err, LK_ERR_IO, path, "cannot read: %s", strerror(wrong));
	if (all <= MOST_BYTES) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, path, "more than %u MiB", MOST_BYTES >> 20);
	return lk_hint(err, "ask for less of the answer, or use --html of the verb");
}

int cli_html(lk_args *args) {
	lk_html_request request;
	lk_outputs outputs;
	lk_error err = {0};
	char *text = NULL;
	size_t size = 0;
	const char *path = args->operands[0];
	if (cli_read(args, &request, &outputs, NULL, NULL, &err) != LK_OK) return cli_fail(&err);
	lk_status status = read_answer(path, &text, &size, &err);
	if (status == LK_OK && outputs.charts)
		status = lk_report_answer(text, size, path, LK_REPORT_CHARTS, outputs.charts, NULL, &err);
	if (status == LK_OK && (outputs.path || !outputs.charts))
		status = lk_report_answer(text, size, path, LK_REPORT_HTML, outputs.path, stdout, &err);
	free(text);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}
