/*
 * tests/contract/http_server_tls.h: a TLS context with a certificate for "localhost" that is made
 * on the spot and lives as long as the test.
 */
#ifndef ONCEPAY_TESTS_CONTRACT_HTTP_SERVER_TLS_H
#define ONCEPAY_TESTS_CONTRACT_HTTP_SERVER_TLS_H

#include <openssl/ssl.h>

/* Writes the certificate, as PEM, to certificate_path. The caller frees the context. */
SSL_CTX *http_server_tls_create(const char *certificate_path);

#endif
