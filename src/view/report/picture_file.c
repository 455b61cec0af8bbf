/* picture_file.c: the charts of a report's document, one below the other, as SVG or, drawn by
 * librsvg, as PNG. Panels that are no charts (tables, texts) are left out. */
#include <stdlib.h>

#include "base/arena.h"
#include "system/memory.h"
#include "io/stream.h"
#include "view/report/picture.h"
#include "view/report/report.h"

static const char *const picture_style =
	"text{font-family:system-ui,Liberation Sans,DejaVu "
	"Sans,sans-serif;font-size:120px;fill:#1d2530}"
	".soft{fill:#5a6676;font-size:110px}.title{font-size:160px;font-weight:600}"
	".head{font-size:200px;font-weight:600}.strong{font-weight:600}.bad{fill:#c2453b}"
	".grid{stroke:#e3e7ed;stroke-width:8}.base{stroke:#5a6676;stroke-width:10}"
	".limit{stroke:#c2453b;stroke-width:14}.curve{fill:none;stroke-width:20}";

/* Title and note of a panel, then its chart; false: it is none. */
static bool picture_put(lk_picture *picture, const lk_value *panel) {
	lk_picture_draw *draw = lk_picture_kind(panel);
	if (!draw) return false;
	lk_picture_text(picture, LK_PICTURE_LEFT, picture->y + 160, "start", "title",
	                lk_picture_words(panel, "title"), 100);
	const char *note = lk_picture_words(panel, "note");
	if (*note)
		lk_picture_text(picture, LK_PICTURE_LEFT, picture->y + 340, "start", "soft", note, 140);
	picture->y += *note ? 420 : 240;
	draw(picture, panel);
	picture->y += 400;
	return true;
}

/* Body first: its height is in the head. */
static lk_status picture_svg(const lk_value *document, FILE *out, lk_error *err) {
	char *body = NULL;
	size_t size = 0;
	int charts = 0;
	lk_picture picture = {lk_memory_open(&body, &size), 700};
	if (!picture.out) return lk_oom(err);
	const lk_value *panels = lk_json_get(document, "panels");
	for (size_t i = 0; panels && i < panels->count; i++)
		charts += picture_put(&picture, &panels->items[i]);
	if (!lk_memory_close(picture.out)) return free(body), lk_oom(err);
	if (!charts) {
		free(body);
		lk_fail(err, LK_ERR_INPUT, "--charts", "this answer has no charts");
		return lk_hint(err, "leave it out, or write its report with --html");
	}
	fprintf(out,
	        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
	        "height=\"%d\" role=\"img\">\n<title>",
	        LK_PICTURE_WIDTH, picture.y, LK_PICTURE_WIDTH / 10, picture.y / 10);
	const char *title = lk_picture_words(document, "title");
	lk_plot_put_text(out, title, 200);
	fprintf(out, "</title>\n<style>%s</style>\n", picture_style);
	lk_picture head = {out, 0};
	lk_picture_rect(&head, 0, 0, LK_PICTURE_WIDTH, picture.y, "#fff");
	lk_picture_text(&head, LK_PICTURE_LEFT, 400, "start", "head", title, 80);
	fwrite(body, 1, size, out);
	fputs("</svg>\n", out);
	free(body);
	return LK_OK;
}

lk_status lk_picture_write(const char *document, size_t size, bool png, FILE *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_value *value = NULL;
	lk_stream *in = NULL;
	lk_status status = lk_stream_memory(document, size, "report", &in, err);
	if (status == LK_OK) status = lk_json_document(&arena, in, &value, err);
	lk_stream_close(in);
	char *svg = NULL;
	size_t length = 0;
	FILE *file = status == LK_OK ? lk_memory_open(&svg, &length) : NULL;
	if (status == LK_OK && !file) status = lk_oom(err);
	if (status == LK_OK) status = picture_svg(value, file, err);
	if (file && !lk_memory_close(file) && status == LK_OK) status = lk_oom(err);
	if (status == LK_OK && png) status = lk_picture_png(svg, length, out, err);
	else if (status == LK_OK) fwrite(svg, 1, length, out);
	free(svg);
	lk_arena_free(&arena);
	return status;
}
