/* tests/contract/http_server_tls.c: see http_server_tls.h. */
#include "tests/contract/http_server_tls.h"

#include "pipeline/base.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

static void add_extension(X509 *certificate, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    INVARIANT(extension != NULL);
    INVARIANT(X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

static X509 *make_certificate(EVP_PKEY *key)
{
    X509 *certificate = X509_new();
    INVARIANT(certificate != NULL);
    INVARIANT(X509_set_version(certificate, X509_VERSION_3) == 1);
    INVARIANT(ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) == 1);
    INVARIANT(X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) != NULL);
    INVARIANT(X509_gmtime_adj(X509_getm_notAfter(certificate), 3600) != NULL);
    X509_NAME *name = X509_get_subject_name(certificate);
    INVARIANT(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                         (const unsigned char *)"localhost", -1, -1, 0) == 1);
    INVARIANT(X509_set_issuer_name(certificate, name) == 1);
    add_extension(certificate, NID_subject_alt_name, "DNS:localhost");
    add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
    INVARIANT(X509_set_pubkey(certificate, key) == 1);
    INVARIANT(X509_sign(certificate, key, EVP_sha256()) != 0);
    return certificate;
}

SSL_CTX *http_server_tls_create(const char *certificate_path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    INVARIANT(key != NULL);
    X509 *certificate = make_certificate(key);
    FILE *file = fopen(certificate_path, "w");
    INVARIANT(file != NULL && PEM_write_X509(file, certificate) == 1 && fclose(file) == 0);

    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    INVARIANT(context != NULL);
    INVARIANT(SSL_CTX_use_certificate(context, certificate) == 1);
    INVARIANT(SSL_CTX_use_PrivateKey(context, key) == 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return context;
}
