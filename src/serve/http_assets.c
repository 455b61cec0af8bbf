/* http_assets.c: the page's files, compiled in from data/web. */
#include "serve/http.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "io/embedded.h"

static const struct {
	const char *ending, *type;
} types[] = {
	{".html", "text/html; charset=utf-8"},
	{".js", "text/javascript; charset=utf-8"},
	{".css", "text/css; charset=utf-8"},
	{".svg", "image/svg+xml"},
};

const char *lk_asset_find(const char *path, const char **type, size_t *size) {
	char name[256];
	snprintf(name, sizeof name, "web/%s", *path ? path : "serve.html");
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		if (!lk_ends_in(name, types[i].ending)) continue;
		*type = types[i].type;
		return lk_data_file(name, size);
	}
	return NULL;
}
