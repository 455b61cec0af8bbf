/* rendezvous.h: the port of PyTorch's rendezvous, in processes that pose as ranks. */
#ifndef LK_PROBE_RENDEZVOUS_H
#define LK_PROBE_RENDEZVOUS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Whether an address is that of the store of the absent ranks; then `elsewhere` is one to bind to. */
bool lp_rendezvous_binds(const struct sockaddr *at, socklen_t length, struct sockaddr_storage *elsewhere);
/* A socket was bound there. */
void lp_rendezvous_bound(int fd);

#endif
