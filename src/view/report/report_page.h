/* report_page.h: a report's document as a page. */
#ifndef LK_VIEW_REPORT_PAGE_H
#define LK_VIEW_REPORT_PAGE_H

#include <stdio.h>
#include "lockstep/error.h"

/* Fills data/web/page.html: style and script inlined, told to the browser by their hashes, the document as JSON that
 * cannot end its element. */
lk_status lk_report_page(const char *title, const char *document, size_t size, FILE *out, lk_error *err);

#endif
