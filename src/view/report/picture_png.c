/* picture_png.c: an SVG as PNG, through librsvg and cairo, which are loaded when a PNG is wanted
 * and not before (rsvg_handle_render_document, librsvg 2.46; cairo_surface_write_to_png_stream). */
#include <string.h>

#include "system/library.h"
#include "view/report/report.h"

/* What is used of both, with opaque things as void. */
struct rectangle {
	double x, y, width, height;
};
struct libraries {
	void *(*new_from_data)(const unsigned char *, size_t, void **);
	int (*render)(void *, void *, const struct rectangle *, void **);
	int (*size)(void *, double *, double *);
	void (*unref)(void *);
	void *(*surface)(int, int, int);
	void *(*create)(void *);
	void (*scale)(void *, double, double);
	void (*destroy)(void *);
	void (*surface_destroy)(void *);
	int (*write)(void *, int (*)(void *, const unsigned char *, unsigned), void *);
};

enum {
	CAIRO_ARGB32 = 0,
	CAIRO_WRITE_ERROR = 11,
	SCALE = 2, /* pixels of the PNG per pixel of the SVG: sharp on paper */
	MOST_SIDE = 30000
};

static bool png_load(struct libraries *use) {
	void *rsvg = lk_library_open(lk_library_svg.file), *cairo = lk_library_open("libcairo.so.2");
	if (!rsvg || !cairo) return false;
	const struct {
		void *library;
		const char *name;
		void *to;
	} functions[] = {
		{rsvg, "rsvg_handle_new_from_data", &use->new_from_data},
		{rsvg, "rsvg_handle_render_document", &use->render},
		{rsvg, "rsvg_handle_get_intrinsic_size_in_pixels", &use->size},
		{rsvg, "g_object_unref", &use->unref}, /* of a library that librsvg loads */
		{cairo, "cairo_image_surface_create", &use->surface},
		{cairo, "cairo_create", &use->create},
		{cairo, "cairo_scale", &use->scale},
		{cairo, "cairo_destroy", &use->destroy},
		{cairo, "cairo_surface_destroy", &use->surface_destroy},
		{cairo, "cairo_surface_write_to_png_stream", &use->write},
	};
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		void *found = lk_library_find(functions[i].library, functions[i].name);
		if (!found) return false;
		memcpy(functions[i].to, &found, sizeof found);
	}
	return true;
}

static int png_put(void *out, const unsigned char *bytes, unsigned size) {
	return fwrite(bytes, 1, size, out) == size ? 0 : CAIRO_WRITE_ERROR;
}

static bool png_draw(const struct libraries *use, void *svg, FILE *out) {
	double width = 0, height = 0;
	if (!use->size(svg, &width, &height) || width * SCALE > MOST_SIDE) return false;
	double scale = height * SCALE > MOST_SIDE ? MOST_SIDE / height : SCALE;
	void *surface = use->surface(CAIRO_ARGB32, (int)(width * scale), (int)(height * scale));
	void *cairo = use->create(surface);
	use->scale(cairo, scale, scale);
	bool good = use->render(svg, cairo, &(struct rectangle){0, 0, width, height}, NULL) &&
	            use->write(surface, png_put, out) == 0;
	use->destroy(cairo);
	use->surface_destroy(surface);
	return good;
}

lk_status lk_picture_png(const char *svg, size_t size, FILE *out, lk_error *err) {
	struct libraries use;
	if (!png_load(&use)) {
		if (!lk_library_loads) {
			lk_fail(err, LK_ERR_INPUT, "PNG", "this program is static and cannot load librsvg");
			return lk_hint(err, "name a file .svg, or build lockstep from its sources");
		}
		lk_fail(err, LK_ERR_INPUT, "PNG", "this machine has no librsvg, which draws it");
		return lk_hint(err, "install it (Debian: apt install %s), or name a file .svg",
		               lk_library_svg.package);
	}
	void *handle = use.new_from_data((const unsigned char *)svg, size, NULL);
	bool good = handle && png_draw(&use, handle, out);
	if (handle) use.unref(handle);
	return good ? LK_OK
	            : lk_fail(err, LK_ERR_INPUT, "PNG", "librsvg cannot draw it; name a file .svg");
}
