/* report_page.c: a page that holds all it shows. Its policy lets the browser run and apply nothing
 * but the script and the style that are inlined, by their hashes, and load nothing at all. */
#include "view/report/report.h"

#include <stdbool.h>
#include <string.h>

#include "base/sha256.h"
#include "base/text.h"
#include "io/embedded.h"
#include "lockstep/report.h"

typedef void put_bytes(void *to, const char *bytes, size_t size);

static void put_file(void *to, const char *bytes, size_t size) {
	fwrite(bytes, 1, size, to);
}
static void put_hash(void *to, const char *bytes, size_t size) {
	lk_sha256_add(to, bytes, size);
}

/* The files of data/web/ with this ending, in the order of their names: the package of charts, then
 * ours. */
static void each_file(const char *ending, put_bytes *put, void *to) {
	const char *name, *bytes;
	size_t size;
	for (int i = 0; (bytes = lk_data_file_at(i, &name, &size)); i++)
		if ((strncmp(name, "web/charts/", 11) == 0 || strncmp(name, "web/report/", 11) == 0) &&
		    lk_ends_in(name, ending)) {
			put(to, bytes, size);
			put(to, "\n", 1);
		}
}

static lk_status written(FILE *out, lk_error *err) {
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "report", "cannot write") : LK_OK;
}

lk_status lk_report_style(FILE *out, lk_error *err) {
	each_file(".css", put_file, out);
	return written(out, err);
}

lk_status lk_report_script(FILE *out, lk_error *err) {
	each_file(".js", put_file, out);
	return written(out, err);
}

const char *lk_report_charts(const char **licence) {
	if (licence) *licence = lk_data_file("web/charts/LICENSE", NULL);
	return lk_data_file("web/charts/VERSION", NULL);
}

/* ---- parts of the page ---- */

static void put_html(const char *text, FILE *out) {
	for (; *text; text++) {
		const char *safe;
		if (*text == '<') safe = "&lt;";
		else if (*text == '>') safe = "&gt;";
		else if (*text == '&') safe = "&amp;";
		else if (*text == '"') safe = "&quot;";
		else safe = NULL;
		if (safe) fputs(safe, out);
		else putc((unsigned char)*text < ' ' && !strchr("\n\t", *text) ? ' ' : *text, out);
	}
}

/* In JSON these are in strings alone, where they may be written as escapes. */
static void page_put_json(const char *text, size_t size, FILE *out) {
	size_t from = 0;
	for (size_t i = 0; i < size; i++) {
		if (text[i] != '<' && text[i] != '>' && text[i] != '&') continue;
		fwrite(text + from, 1, i - from, out);
		fprintf(out, "\\u%04x", (unsigned)text[i]);
		from = i + 1;
	}
	fwrite(text + from, 1, size - from, out);
}

static void page_put_policy(FILE *out) {
	static const char *const endings[] = {".js", ".css"};
	char hash[2][45];
	for (int i = 0; i < 2; i++) {
		lk_sha256 h;
		lk_sha256_begin(&h);
		each_file(endings[i], put_hash, &h);
		lk_sha256_base64(&h, hash[i]);
	}
	fprintf(out,
	        "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; img-src data:; "
	        "base-uri 'none'; "
	        "form-action 'none'",
	        hash[0], hash[1]);
}

static void put_charts(FILE *out) {
	const char *licence = NULL, *package = lk_report_charts(&licence);
	if (!package) {
		fputs("<p>Curves are plain SVG: this build has no package of charts.</p>", out);
		return;
	}
	fputs("<details><summary>Curves are drawn by ", out);
	put_html(package, out);
	fputs("; its licence</summary><pre>", out);
	put_html(licence ? licence : "", out);
	fputs("</pre></details>", out);
}

static bool page_is(const char *name, size_t length, const char *wanted) {
	return strlen(wanted) == length && memcmp(name, wanted, length) == 0;
}

lk_status lk_report_page(const char *title, const char *document, size_t size, FILE *out,
                         lk_error *err) {
	const char *page = lk_data_file("web/page.html", NULL);
	if (!page)
		return lk_fail(err, LK_ERR_INTERNAL, "web/page.html", "no such file was compiled in");
	while (*page) {
		const char *open = strstr(page, "{{"), *close = open ? strstr(open, "}}") : NULL;
		if (!close) break;
		fwrite(page, 1, (size_t)(open - page), out);
		const char *name = open + 2;
		size_t length = (size_t)(close - name);
		if (page_is(name, length, "title")) put_html(title, out);
		else if (page_is(name, length, "policy")) page_put_policy(out);
		else if (page_is(name, length, "style")) each_file(".css", put_file, out);
		else if (page_is(name, length, "script")) each_file(".js", put_file, out);
		else if (page_is(name, length, "document")) page_put_json(document, size, out);
		else if (page_is(name, length, "charts")) put_charts(out);
		page = close + 2;
	}
	fputs(page, out);
	return written(out, err);
}
