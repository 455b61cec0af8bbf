/* fuzz_store.c: any bytes of a connection to the store of absent ranks are answered, or it is
 * closed with a reason; how they are cut makes no difference. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "rendezvous/rendezvous.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool take(lk_store *store, lk_store_client *client, const uint8_t *data, size_t size,
                 size_t piece) {
	for (size_t at = 0; at < size; at += piece)
		if (!lk_store_take(store, client, data + at, size - at < piece ? size - at : piece))
			return false;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static lk_store one, other;
	lk_store_client whole = {0}, cut = {0};
	lk_store_begin(&one, 3, 64);
	lk_store_begin(&other, 3, 64);
	bool good = take(&one, &whole, data, size, size ? size : 1),
		 also = take(&other, &cut, data, size, 3);
	if (good != also || !good != (whole.wrong != NULL)) abort();
	if (good && (whole.out.count != cut.out.count ||
	             (whole.out.count && memcmp(whole.out.at, cut.out.at, whole.out.count) != 0)))
		abort();
	if (one.bytes > LK_STORE_MOST_BYTES || one.bytes != other.bytes || one.keys != other.keys)
		abort();
	lk_store_client_end(&whole);
	lk_store_client_end(&cut);
	lk_store_end(&one);
	lk_store_end(&other);
	return 0;
}
