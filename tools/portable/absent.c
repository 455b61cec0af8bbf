/* absent.c: functions that archives of the static program name and lockstep never has them call.
 *
 * Debian's libmicrohttpd calls GnuTLS; lockstep serves plain HTTP and never asks it for TLS. Each
 * function fails, but for the start and the end, which libmicrohttpd's own constructors call.
 * SQLite can load extensions, which lockstep leaves switched off; linked with --wrap, so that its
 * calls come here. */
#include <stddef.h>

enum {
	UNIMPLEMENTED = -1250 /* GNUTLS_E_UNIMPLEMENTED_FEATURE */
};

#ifdef LK_STATIC
void *__wrap_dlopen(const char *path, int mode);
void *__wrap_dlsym(void *library, const char *name);
char *__wrap_dlerror(void);
int __wrap_dlclose(void *library);
void *__wrap_dlopen(const char *path, int mode) {
	(void)path, (void)mode;
	return NULL;
}
void *__wrap_dlsym(void *library, const char *name) {
	(void)library, (void)name;
	return NULL;
}
char *__wrap_dlerror(void) {
	return "this program is static and loads no libraries";
}
int __wrap_dlclose(void *library) {
	(void)library;
	return -1;
}
#endif

int gnutls_global_init(void);
void gnutls_global_deinit(void);
int gnutls_global_init(void) {
	return 0;
}
void gnutls_global_deinit(void) {
}

void *(*gnutls_malloc)(size_t);

#define FAILS(name)           \
	int gnutls_##name(void);  \
	int gnutls_##name(void) { \
		return UNIMPLEMENTED; \
	}
FAILS(alpn_set_protocols)
FAILS(bye)
FAILS(certificate_allocate_credentials)
FAILS(certificate_free_credentials)
FAILS(certificate_server_set_request)
FAILS(certificate_set_dh_params)
FAILS(certificate_set_retrieve_function2)
FAILS(certificate_set_retrieve_function3)
FAILS(certificate_set_x509_key_mem)
FAILS(certificate_set_x509_key_mem2)
FAILS(certificate_set_x509_trust_mem)
FAILS(cipher_get)
FAILS(credentials_set)
FAILS(deinit)
FAILS(dh_params_deinit)
FAILS(dh_params_import_pkcs3)
FAILS(dh_params_init)
FAILS(handshake)
FAILS(init)
FAILS(priority_deinit)
FAILS(priority_init)
FAILS(priority_set)
FAILS(protocol_get_version)
FAILS(psk_allocate_server_credentials)
FAILS(psk_free_server_credentials)
FAILS(psk_set_server_credentials_function)
FAILS(record_check_pending)
FAILS(record_get_direction)
FAILS(record_recv)
FAILS(record_send)
FAILS(session_get_ptr)
FAILS(session_set_ptr)
FAILS(strerror)
FAILS(transport_set_int2)
