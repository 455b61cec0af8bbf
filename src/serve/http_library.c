/* http_library.c: loads libmicrohttpd.so.12, unless the program is linked with it. */
#include "serve/http_library.h"

#include "system/library.h"

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

lk_status lk_mhd_load(lk_error *err) {
#define LK_CALL(name) "MHD_" #name,
	static const char *const names[] = {LK_MHD_CALLS(LK_CALL) NULL};
#undef LK_CALL
	_Static_assert(sizeof names - sizeof *names == sizeof lk_mhd, "a pointer for each name");
	static lk_library_once once = LK_LIBRARY_ONCE;
	return lk_library_load(&lk_library_http, &once, names, &lk_mhd, err);
}

#endif
