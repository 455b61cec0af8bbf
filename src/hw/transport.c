/* transport.c: the names of how messages leave a node. */
#include <string.h>
#include <strings.h>

#include "hw/hw.h"

static const char *const transport_names[LK_TRANSPORTS] = {"rdma", "sockets", "tcpx", "tcpxo"};

const char *lk_transport_name(lk_transport transport) {
	return transport_names[transport];
}

lk_transport lk_transport_find(const char *word, size_t length) {
	int found = 0;
	while (found < LK_TRANSPORTS && (strlen(transport_names[found]) != length ||
	                                 strncasecmp(transport_names[found], word, length) != 0))
		found++;
	return (lk_transport)found;
}
