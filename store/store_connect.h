/*
 * store/store_connect.h: how a connection of store.c begins: the URL with what every session of
 * ours has, and with another host of the URL first.
 */
#ifndef ONCEPAY_STORE_STORE_CONNECT_H
#define ONCEPAY_STORE_STORE_CONNECT_H

#include <libpq-fe.h>

/*
 * Without blocking, libpq goes on to the next host when one refuses or is read-only; one that is
 * silent, or accepts and says nothing, costs the whole attempt. So the caller counts first_host up
 * with each attempt that fails. NULL: the URL cannot be read.
 */
PGconn *store_connect_start(const char *url, size_t first_host, const char *application,
                            const char *settings);

#endif
