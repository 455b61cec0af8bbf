/* http_library.c: loads libmicrohttpd.so.12, unless the program is linked with it. */
#include "serve/http_library.h"

#include <string.h>

#include "system/library.h"
#include "system/once.h"

#ifdef LK_LINKED

#define LK_CALL(name) MHD_##name,
lk_mhd_calls lk_mhd = {LK_MHD_CALLS(LK_CALL)};
#undef LK_CALL

lk_status lk_mhd_load(lk_error *err) {
	(void)err;
	return LK_OK;
}

#else

lk_mhd_calls lk_mhd;

static lk_status http_library_load(lk_error *err) {
#define LK_CALL(name) "MHD_" #name,
	static const char *const names[] = {LK_MHD_CALLS(LK_CALL) NULL};
#undef LK_CALL
	void *calls[sizeof names / sizeof *names - 1];
	_Static_assert(sizeof calls == sizeof lk_mhd, "a pointer for each name");
	LK_TRY(lk_library_load(&lk_library_http, names, calls, err));
	memcpy(&lk_mhd, calls, sizeof lk_mhd);
	return LK_OK;
}

static void http_library_forget(void) {
}

lk_status lk_mhd_load(lk_error *err) {
	static lk_once once = LK_ONCE_INIT;
	return lk_once_load(&once, http_library_load, http_library_forget, err);
}

#endif
