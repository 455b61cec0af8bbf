/* target_header.c: what a user's program includes to call an emitted one. */
#include "lang/target/target.h"

lk_status lc_emit_header(const lc_program *original, const lc_variant *variants, int count, bool cuda, FILE *out, lk_error *err) {
	(void)original, (void)variants, (void)count, (void)cuda, (void)out;
	return lk_fail(err, LK_ERR_INPUT, "--header", "not yet");
}
