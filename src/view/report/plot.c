/* plot.c: predicted over measured as SVG, without scripts and for light and dark pages.
 *
 * Both axes are logarithmic and alike, so that equal relative errors are equal distances from the
 * diagonal. The rows of a part are one path of dots, in tenths of a pixel: some ten bytes a row.
 * Colours keep apart for colour-blind readers (after Okabe and Ito), shapes tell them apart a
 * second time. The description says in words what the legend says. */
#include "view/report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "system/memory.h"
#include "base/stats.h"
#include "base/text.h"
#include "base/noun.h"
#include "view/table/output.h"

/* Tenths of a pixel. */
enum {
	WIDTH = 7800,
	HEIGHT = 5900,
	LEFT = 950,
	TOP = 750,
	SIDE = 4300,
	LEGEND = 5450,
	ENTRY = 400
};
enum { PARTS = 10, NAME = 26, SEED = 20 };

static const char *const style =
	"text{font-family:system-ui,sans-serif;font-size:130px;fill:#1f2328}.s,.k{fill:#59636e}.s{font-"
	"size:115px}"
	".h{font-size:165px;font-weight:600}.paper{fill:#fff}.grid{stroke:#d8dee4;stroke-width:8}.band{"
	"fill:#1f2328;"
	"fill-opacity:.08}.line{stroke:#59636e;stroke-width:12}.frame{fill:none;stroke:#8c959f;stroke-"
	"width:10}"
	".p{fill:none;opacity:.8}"
	"@media(prefers-color-scheme:dark){text{fill:#e6edf3}.s,.k{fill:#9ba6b2}.paper{fill:#14181d}."
	"grid{stroke:#2b3138}"
	".band{fill:#e6edf3}.line{stroke:#9ba6b2}.frame{stroke:#6e7781}.p{opacity:1}}";

/* The last is for all parts that have none of their own. */
static const char *const colours[PARTS] = {"#1f7fc4", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
                                           "#56b4e9", "#8c6bb1", "#80891f", "#a6611a", "#888888"};
static const char *const shapes[4] = {"h1", "h1", "m-30 0h60m-30-30v60",
                                      "m-22-22l44 44m0-44l-44 44"};
static const char *const strokes[4] = {
	"stroke-width=\"52\" stroke-linecap=\"round\"",
	"stroke-width=\"42\" stroke-linecap=\"square\"",
	"stroke-width=\"16\"",
	"stroke-width=\"16\"",
};

struct part {
	const char *name; /* NULL: all that are not named */
	int rows;
	double distance; /* sum of |ln(predicted / measured)| */
	double error;
};

struct picture {
	const lk_validation *v;
	FILE *out;
	const char *unit;
	int rows;         /* scored, in this unit */
	double share;     /* of them that is drawn */
	double low, high; /* log10 of the axes' ends */
	struct part parts[PARTS];
	int part_count;
};

/* ---- text ---- */

void lk_plot_put_text(FILE *out, const char *text, int most) {
	char safe[512];
	lk_escape(text, safe, sizeof safe);
	for (const char *at = safe; *at; most--) {
		size_t length = lk_utf8_length(at, strlen(at)); /* never 0 after lk_escape */
		if (most == 0) {
			fputs("...", out);
			return;
		}
		if (*at == '&') fputs("&amp;", out);
		else if (*at == '<') fputs("&lt;", out);
		else if (*at == '>') fputs("&gt;", out);
		else if (strncmp(at, "\xef\xbf\xbe", 3) == 0 || strncmp(at, "\xef\xbf\xbf", 3) == 0)
			fputc('?', out); /* U+FFFE */
		else fwrite(at, 1, length, out);
		at += length;
	}
}

static void plot_put_percent(FILE *out, double share) {
	char text[40];
	fputs(lk_percent(share, text, sizeof text), out);
}

static void put_mark(const struct picture *picture, double value) {
	char text[64];
	if (strcmp(picture->unit, "bytes") == 0) lk_format_bytes(value, text, sizeof text);
	else if (strcmp(picture->unit, "s") == 0 && value < 100.5)
		lk_format_seconds(value, text, sizeof text);
	else
		snprintf(text, sizeof text, value < 1e5 && value > 1e-4 ? "%.6g %.16s" : "%.0e %.16s",
		         value, picture->unit);
	char *comma = strchr(text, ',');
	if (comma) *comma = '.';
	lk_plot_put_text(picture->out, text, NAME);
}

static const char *plot_file_of(const char *path) {
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* ---- what is drawn ---- */

static bool counts(const struct picture *picture, const lk_validated *row) {
	return row->scored && row->predicted > 0 && row->measured > 0 &&
	       strcmp(row->unit, picture->unit) == 0;
}

static bool is_drawn(const struct picture *picture, const lk_validated *row) {
	return counts(picture, row) &&
	       (picture->share >= 1 || lk_uniform(SEED, (uint64_t)row->row) < picture->share);
}

static int plot_part_of(const struct picture *picture, const lk_validated *row) {
	LK_ASSERT(picture->part_count > 0);
	for (int i = 0; row->part && i < picture->part_count; i++)
		if (picture->parts[i].name && strcmp(picture->parts[i].name, row->part) == 0) return i;
	return picture->part_count - 1;
}

/* Rows of a group that is a part; 0 of others. */
static int plot_part_rows(const lk_validation *validation, int group) {
	return strcmp(validation->groups[group].by, validation->parts) == 0
	           ? validation->groups[group].scored
	           : 0;
}

/* The parts in the order of their division; of more than the legend holds, those with most rows. */
static void choose_parts(struct picture *picture) {
	const lk_validation *validation = picture->v;
	int most[PARTS -
	         1] = {0},
			 equal = 0; /* rows of the largest groups, falling; how many have as many as the last */
	for (int i = 0; i < validation->group_count; i++)
		for (int k = 0, rows = plot_part_rows(validation, i); k < PARTS - 1; k++) {
			int other = most[k];
			if (rows > other) {
				most[k] = rows;
				rows = other;
			}
		}
	for (int k = 0; k < PARTS - 1; k++) equal += most[k] == most[PARTS - 2];
	for (int i = 0; i < validation->group_count; i++) {
		int rows = plot_part_rows(validation, i);
		if (rows > most[PARTS - 2] || (rows > 0 && rows == most[PARTS - 2] && equal-- > 0))
			picture->parts[picture->part_count++].name = validation->groups[i].name;
	}
	LK_ASSERT(picture->part_count < PARTS);
	picture->part_count++; /* the others */
}

static void count_rows(struct picture *picture) {
	for (int i = 0; i < picture->v->row_count; i++) {
		const lk_validated *row = &picture->v->rows[i];
		if (!counts(picture, row)) continue;
		struct part *part = &picture->parts[plot_part_of(picture, row)];
		double x = log10(row->measured), y = log10(row->predicted);
		picture->low = fmin(picture->low, fmin(x, y));
		picture->high = fmax(picture->high, fmax(x, y));
		part->distance += fabs(log(row->predicted / row->measured));
		part->rows++;
		picture->rows++;
	}
}

/* Ends of the axes, some room around the points, a factor of three at least. */
static void plot_set_limits(struct picture *picture) {
	enum { ROOM = 25 };
	if (picture->rows == 0) {
		picture->low = 0;
		picture->high = 1;
	}
	double middle = (picture->low + picture->high) / 2,
		   half = fmax((picture->high - picture->low) / 2, log10(3) / 2) * (1 + 1.0 / ROOM);
	picture->low = middle - half;
	picture->high = middle + half;
	picture->share = picture->rows > LK_PLOT_POINTS ? (double)LK_PLOT_POINTS / picture->rows : 1;
}

static void survey(struct picture *picture) {
	picture->unit = "s";
	for (int i = 0; i < picture->v->row_count; i++) {
		if (!picture->v->rows[i].scored) continue;
		picture->unit = picture->v->rows[i].unit;
		break;
	}
	picture->low = INFINITY;
	picture->high = -INFINITY;
	choose_parts(picture);
	count_rows(picture);
	plot_set_limits(picture);
	for (int i = 0; i < picture->part_count; i++)
		picture->parts[i].error = expm1(picture->parts[i].distance / picture->parts[i].rows);
}

/* ---- drawing ---- */

static int plot_along(const struct picture *picture, double logarithm) {
	return (int)lround((logarithm - picture->low) / (picture->high - picture->low) * SIDE);
}

static int plot_across(const struct picture *picture, double logarithm) {
	return LEFT + plot_along(picture, logarithm);
}

static int above(const struct picture *picture, double logarithm) {
	return TOP + SIDE - plot_along(picture, logarithm);
}

/* "350 rows, error 12.4 %, cross-validated: (stack, network, GPU)" */
static void plot_put_sum(const struct picture *picture) {
	fprintf(picture->out, "%d %s, error ", picture->rows, lk_noun(picture->rows, "row", "rows"));
	plot_put_percent(picture->out, picture->v->summary.geomean_error);
	fputs(*picture->v->folds ? ", cross-validated: " : ", with the calibration in use",
	      picture->out);
	lk_plot_put_text(picture->out, picture->v->folds, 48);
}

static void plot_put_name(const struct picture *picture, const struct part *part, int most) {
	const char *name = part->name;
	if (!name) name = picture->part_count == 1 ? "all rows" : "others";
	else if (!*name) name = "(none)";
	lk_plot_put_text(picture->out, name, most);
}

static void plot_put_words(const struct picture *picture) {
	fputs("<title id=\"t\">Predicted over measured: ", picture->out);
	lk_plot_put_text(picture->out, plot_file_of(picture->v->source), 80);
	fputs("</title>\n<desc id=\"d\">", picture->out);
	plot_put_sum(picture);
	fputs(". Points near the diagonal are predicted well; the band is 20 % around it.",
	      picture->out);
	for (int i = 0; i < picture->part_count; i++) {
		if (picture->parts[i].rows == 0) continue;
		fputc(' ', picture->out);
		plot_put_name(picture, &picture->parts[i], 80);
		fprintf(picture->out, ": %d %s, error ", picture->parts[i].rows,
		        lk_noun(picture->parts[i].rows, "row", "rows"));
		plot_put_percent(picture->out, picture->parts[i].error);
		fputc('.', picture->out);
	}
	fputs("</desc>\n", picture->out);
}

static void plot_put_head(const struct picture *picture) {
	fprintf(picture->out, "<text class=\"h\" x=\"%d\" y=\"300\">", LEFT);
	lk_plot_put_text(picture->out, plot_file_of(picture->v->source), 60);
	fprintf(picture->out, "</text>\n<text class=\"k\" x=\"%d\" y=\"540\">", LEFT);
	plot_put_sum(picture);
	fputs("</text>\n", picture->out);
}

static void put_axes(const struct picture *picture) {
	double at[LK_PLOT_TICKS];
	int count = lk_plot_ticks(picture->low, picture->high, picture->unit, at), foot = TOP + SIDE;
	for (int i = 0; i < count; i++) {
		int x = plot_across(picture, log10(at[i])), y = above(picture, log10(at[i]));
		fprintf(picture->out, "<path class=\"grid\" d=\"M%d %dv%dM%d %dh%d\"/>", x, foot, -SIDE,
		        LEFT, y, SIDE);
		fprintf(picture->out, "<text class=\"s\" text-anchor=\"middle\" x=\"%d\" y=\"%d\">", x,
		        foot + 190);
		put_mark(picture, at[i]);
		fprintf(picture->out, "</text><text class=\"s\" text-anchor=\"end\" x=\"%d\" y=\"%d\">",
		        LEFT - 80, y + 40);
		put_mark(picture, at[i]);
		fputs("</text>\n", picture->out);
	}
	fprintf(picture->out, "<text text-anchor=\"middle\" x=\"%d\" y=\"%d\">measured</text>\n",
	        LEFT + SIDE / 2, foot + 420);
	fprintf(picture->out,
	        "<text text-anchor=\"middle\" transform=\"translate(220 %d) "
	        "rotate(-90)\">predicted</text>\n",
	        TOP + SIDE / 2);
}

/* The diagonal, and the band of 20 % on both sides. */
static void put_guides(const struct picture *picture) {
	double over = log10(1.2), under = log10(0.8);
	int left = LEFT, right = LEFT + SIDE;
	fprintf(picture->out,
	        "<g clip-path=\"url(#plot)\"><path class=\"band\" d=\"M%d %dL%d %dL%d %dL%d %dz\"/>",
	        left, above(picture, picture->low + over), right, above(picture, picture->high + over),
	        right, above(picture, picture->high + under), left,
	        above(picture, picture->low + under));
	fprintf(picture->out, "<path class=\"line\" d=\"M%d %dL%d %d\"/></g>\n", left, TOP + SIDE,
	        right, TOP);
	fprintf(picture->out, "<path class=\"frame\" d=\"M%d %dh%dv%dh%dz\"/>\n", left, TOP, SIDE, SIDE,
	        -SIDE);
}

/* The last part is grey whatever its place. */
static void open_dots(const struct picture *picture, int i) {
	int shape = i % 4;
	fprintf(picture->out, "<path class=\"p\" stroke=\"%s\" %s d=\"",
	        colours[picture->parts[i].name ? i : PARTS - 1], strokes[shape]);
}

static void put_dots(const struct picture *picture) {
	for (int which = 0; which < picture->part_count; which++) {
		if (picture->parts[which].rows == 0) continue;
		open_dots(picture, which);
		for (int i = 0; i < picture->v->row_count; i++) {
			const lk_validated *row = &picture->v->rows[i];
			if (!is_drawn(picture, row) || plot_part_of(picture, row) != which) continue;
			fprintf(picture->out, "M%d %d%s", plot_across(picture, log10(row->measured)),
			        above(picture, log10(row->predicted)), shapes[which % 4]);
		}
		fputs("\"/>\n", picture->out);
	}
}

static void put_legend(const struct picture *picture) {
	int y = TOP + 120;
	for (int i = 0; i < picture->part_count; i++) {
		if (picture->parts[i].rows == 0) continue;
		open_dots(picture, i);
		fprintf(picture->out, "M%d %d%s\"/>", LEGEND, y - 45, shapes[i % 4]);
		fprintf(picture->out, "<text x=\"%d\" y=\"%d\">", LEGEND + 120, y);
		plot_put_name(picture, &picture->parts[i], NAME);
		fprintf(picture->out, "</text><text class=\"s\" x=\"%d\" y=\"%d\">%d %s, ", LEGEND + 120,
		        y + 160, picture->parts[i].rows, lk_noun(picture->parts[i].rows, "row", "rows"));
		plot_put_percent(picture->out, picture->parts[i].error);
		fputs("</text>\n", picture->out);
		y += ENTRY;
	}
}

static void put_caption(const struct picture *picture) {
	fprintf(picture->out,
	        "<text class=\"s\" x=\"%d\" y=\"%d\">Line: predicted as measured. Band: within 20 %%.",
	        LEFT, HEIGHT - 130);
	int drawn = 0;
	for (int i = 0; picture->share < 1 && i < picture->v->row_count; i++)
		drawn += is_drawn(picture, &picture->v->rows[i]);
	if (picture->share < 1)
		fprintf(picture->out, " %d of %d %s are drawn, a fixed random sample.", drawn,
		        picture->rows, lk_noun(picture->rows, "row", "rows"));
	fputs("</text>\n", picture->out);
}

static void plot_draw(const struct picture *picture) {
	fprintf(picture->out,
	        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
	        "height=\"%d\" role=\"img\" "
	        "aria-labelledby=\"t d\">\n",
	        WIDTH, HEIGHT, WIDTH / 10, HEIGHT / 10);
	plot_put_words(picture);
	fprintf(picture->out,
	        "<style>%s</style>\n<clipPath id=\"plot\"><path d=\"M%d %dh%dv%dh%dz\"/></clipPath>\n",
	        style, LEFT, TOP, SIDE, SIDE, -SIDE);
	fprintf(picture->out, "<path class=\"paper\" d=\"M0 0h%dv%dh%dz\"/>\n", WIDTH, HEIGHT, -WIDTH);
	plot_put_head(picture);
	put_axes(picture);
	put_guides(picture);
	put_dots(picture);
	put_legend(picture);
	put_caption(picture);
	fputs("</svg>\n", picture->out);
}

static lk_status plot_write(const void *what, bool colour, FILE *out, lk_error *err) {
	struct picture p = {.v = what, .out = out};
	(void)colour;
	(void)err;
	survey(&p);
	plot_draw(&p);
	return LK_OK;
}

/* The SVG in memory, then drawn. */
static lk_status plot_write_png(const void *what, bool colour, FILE *out, lk_error *err) {
	char *svg = NULL;
	size_t size = 0;
	FILE *file = lk_memory_open(&svg, &size);
	if (!file) return lk_oom(err);
	lk_status status = plot_write(what, colour, file, err);
	if (!lk_memory_close(file)) status = lk_oom(err);
	if (status == LK_OK) status = lk_picture_png(svg, size, out, err);
	free(svg);
	return status;
}

lk_status lk_validate_plot(const lk_validation *validation, const char *path, lk_error *err) {
	lk_writing w = {LK_FORMAT_JSON, false, false, path, NULL};
	return lk_write_through(&w, lk_ends_in(path, ".png") ? plot_write_png : plot_write, validation,
	                        err);
}
