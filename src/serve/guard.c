/* guard.c: checks of Host, Origin and token. */
#include "serve/serve_internal.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

enum { HOST_SIZE = 256 };

lk_status lk_guard_init(lk_guard *guard, bool loopback, const char *names, lk_error *err) {
	unsigned char bytes[LK_TOKEN_BYTES];
	*guard = (lk_guard){.loopback = loopback, .names = names};
	if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
		return lk_fail(err, LK_ERR_IO, "getrandom",
		               "the system gives no random numbers for the token");
	for (int i = 0; i < LK_TOKEN_BYTES; i++) snprintf(guard->token + 2 * i, 3, "%02x", bytes[i]);
	return LK_OK;
}

/* Extracts the name from "name:port" or "[address]:port". False: another form. */
static bool split_host_port(const char *host, char name[HOST_SIZE]) {
	const char *begin = host, *end, *port;
	if (*host == '[') {
		begin = host + 1;
		end = strchr(begin, ']');
		if (!end) return false;
		port = end + 1;
	} else {
		end = port = host + strcspn(host, ":");
	}
	size_t length = (size_t)(end - begin),
		   digits = *port == ':' ? strspn(port + 1, "0123456789") : 0;
	if (length == 0 || length >= HOST_SIZE) return false;
	if (*port && (*port != ':' || digits == 0 || digits > 5 || port[1 + digits])) return false;
	memcpy(name, begin, length);
	name[length] = '\0';
	return true;
}

static bool is_loopback_address(const struct in6_addr *address) {
	return IN6_IS_ADDR_LOOPBACK(address) ||
	       (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127);
}

/* Whether a text is a numeric address in canonical form. */
static bool is_plain_address(const char *name, bool bracket, bool *loopback) {
	struct in_addr four;
	struct in6_addr six;
	if (!bracket && inet_pton(AF_INET, name, &four) == 1) {
		*loopback = (ntohl(four.s_addr) >> 24) == 127;
		return true;
	}
	if (!bracket || inet_pton(AF_INET6, name, &six) != 1) return false;
	*loopback = is_loopback_address(&six);
	return true;
}

static bool is_allowed_name(const char *names, const char *name) {
	size_t length = strlen(name);
	for (const char *line = names; line && *line;) {
		size_t n = strcspn(line, "\n");
		if (n == length && strncasecmp(line, name, n) == 0) return true;
		line += n + (line[n] == '\n');
	}
	return false;
}

bool lk_guard_host(const lk_guard *guard, const char *host) {
	char name[HOST_SIZE];
	bool loopback = false, bracket = host && *host == '[';
	if (!host || !split_host_port(host, name)) return false;
	if (!bracket && (strcasecmp(name, "localhost") == 0 || is_allowed_name(guard->names, name)))
		return true;
	return is_plain_address(name, bracket, &loopback) && (loopback || !guard->loopback);
}

bool lk_guard_origin(const char *origin, const char *site, const char *host) {
	if (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0) return false;
	if (!origin) return true;
	return host && strncmp(origin, "http://", 7) == 0 && strcasecmp(origin + 7, host) == 0;
}

bool lk_guard_token(const lk_guard *guard, const char *authorization) {
	unsigned different = 0;
	if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0) return false;
	const char *token = authorization + 7;
	if (strlen(token) != LK_TOKEN_SIZE - 1) return false;
	for (int i = 0; i < LK_TOKEN_SIZE - 1; i++)
		different |= (unsigned char)(token[i] ^ guard->token[i]);
	return different == 0;
}
