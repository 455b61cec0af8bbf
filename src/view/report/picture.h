/* picture.h: the charts of a report as one SVG: what its files share. Private to view/report/.
 * Lengths are tenths of a pixel. */
#ifndef LK_VIEW_REPORT_PICTURE_H
#define LK_VIEW_REPORT_PICTURE_H

#include <stdio.h>

#include "io/json.h"

enum {
	LK_PICTURE_WIDTH = 9600,
	LK_PICTURE_LEFT = 300,
	LK_PICTURE_RIGHT = 9300,
	LK_PICTURE_TICKS = 24,
};

typedef struct lk_picture {
	FILE *out;
	int y; /* the top of what comes next */
} lk_picture;

/* A value's way along an axis. */
typedef struct lk_picture_scale {
	double low, high; /* values at its ends; logarithms (base 10) where `log` */
	bool log;
	int from, to;
} lk_picture_scale;
int lk_picture_at(const lk_picture_scale *scale, double value);
/* Marks of a linear axis, about `wished`; of bytes at powers of two of their unit. */
int lk_picture_ticks(double low, double high, int wished, bool bytes, double at[LK_PICTURE_TICKS]);

/* A member's number; NAN without one. */
double lk_picture_number(const lk_value *value, const char *key);
const char *lk_picture_words(const lk_value *value, const char *key); /* "" without one */
/* "1.2 s", "34 GiB", "5.1 %", "989 TFLOP/s" */
char *lk_picture_quantity(double number, const char *unit, char *out, size_t size);

/* The colour that report.css gives to a key (its class PREFIX-KEY), as "#2f62ad". */
void lk_picture_colour(const char *prefix, const char *key, char out[8]);

void lk_picture_rect(lk_picture *picture, int x, int y, int width, int height, const char *colour);
/* `style`: a class of picture.c: "grid", "base", "limit" */
void lk_picture_line(lk_picture *picture, int x1, int y1, int x2, int y2, const char *style);
/* `anchor`: "start", "middle", "end"; at most `most` characters. */
void lk_picture_text(lk_picture *picture, int x, int y, const char *anchor, const char *style,
                     const char *text, int most);
/* Squares with names, in lines; `keys`: each entry's colour. Moves on below them. */
typedef struct lk_picture_entry {
	char colour[8];
	const char *name;
} lk_picture_entry;
void lk_picture_legend(lk_picture *picture, const lk_picture_entry *entries, size_t count);

/* Draws a panel of its kind and moves on below it. */
typedef void lk_picture_draw(lk_picture *picture, const lk_value *panel);
/* What draws a panel; NULL: it is no chart, or an empty one. */
lk_picture_draw *lk_picture_kind(const lk_value *panel);

#endif
