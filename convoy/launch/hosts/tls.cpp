#include "convoy/launch/hosts/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>

#include "convoy/base/error.h"
#include "convoy/launch/hosts/secret.h"

namespace convoy::launch {
namespace {

constexpr std::string_view kIdentity = "convoy";
constexpr const char* kCiphers = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> kCipher{0x13, 0x01};

SSL_SESSION* session_of(SSL* ssl) {
  const auto& key = *static_cast<const std::string*>(SSL_get_app_data(ssl));
  SSL_SESSION* session = ::SSL_SESSION_new();
  const auto* bytes = reinterpret_cast<const unsigned char*>(key.data());
  if (session != nullptr && ::SSL_SESSION_set1_master_key(session, bytes, key.size()) == 1 &&
      ::SSL_SESSION_set_cipher(session, ::SSL_CIPHER_find(ssl, kCipher.data())) == 1 &&
      ::SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  ::SSL_SESSION_free(session);
  return nullptr;
}

int offer_key(SSL* ssl, const EVP_MD* /*unused*/, const unsigned char** id, size_t* size,
              SSL_SESSION** session) {
  *id = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *size = kIdentity.size();
  *session = session_of(ssl);
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* id, size_t size, SSL_SESSION** session) {
  const bool known = std::string_view(reinterpret_cast<const char*>(id), size) == kIdentity;
  *session = known ? session_of(ssl) : nullptr;
  return 1;
}

/// Makes a context without certificates: only the shared key authenticates.
SSL_CTX* make_context(bool is_host) {
  SSL_CTX* context = ::SSL_CTX_new(is_host ? ::TLS_server_method() : ::TLS_client_method());
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      ::SSL_CTX_set_ciphersuites(context, kCiphers) != 1 ||
      ::SSL_CTX_set_num_tickets(context, 0) != 1) {
    fail<InternalError>("launch", "libssl has no TLS 1.3 with {}; please report it", kCiphers);
  }
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  if (is_host) {
    ::SSL_CTX_set_psk_find_session_callback(context, find_key);
  } else {
    ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    ::SSL_CTX_set_psk_use_session_callback(context, offer_key);
  }
  return context;
}

SSL_CTX* context(bool is_host) {
  static SSL_CTX* const host = make_context(true);
  static SSL_CTX* const joiner = make_context(false);
  return is_host ? host : joiner;
}

}  // namespace

void Tls::Free::operator()(SSL* ssl) const {
  ::SSL_free(ssl);
}

Tls::Tls(std::string_view secret, bool is_host)
    : is_host_(is_host),
      key_(std::make_unique<std::string>(shared_key(secret))),
      ssl_(::SSL_new(context(is_host))) {
  BIO* in = ::BIO_new(::BIO_s_mem());
  BIO* out = ::BIO_new(::BIO_s_mem());
  if (!ssl_ || in == nullptr || out == nullptr) {
    fail<InternalError>("launch", "libssl makes no connection; please report it");
  }
  ::SSL_set_bio(ssl_.get(), in, out);
  SSL_set_app_data(ssl_.get(), key_.get());
  if (is_host) {
    ::SSL_set_accept_state(ssl_.get());
  } else {
    ::SSL_set_connect_state(ssl_.get());
  }
}

Tls::~Tls() = default;
Tls::Tls(Tls&&) noexcept = default;
Tls& Tls::operator=(Tls&&) noexcept = default;

void Tls::receive(std::string_view wire, std::string& plain) {
  if (!why_ended_.empty()) return;
  ::BIO_write(::SSL_get_rbio(ssl_.get()), wire.data(), static_cast<int>(wire.size()));
  advance(plain);
}

void Tls::send(std::string_view plain) {
  if (!why_ended_.empty()) return;
  unsent_ += plain;
  std::string nothing;
  advance(nothing);
}

std::string Tls::take() {
  BIO* wire = ::SSL_get_wbio(ssl_.get());
  std::string out(BIO_pending(wire), '\0');
  if (!out.empty()) ::BIO_read(wire, out.data(), static_cast<int>(out.size()));
  return out;
}

void Tls::advance(std::string& plain) {
  ::ERR_clear_error();
  if (!proven_) {
    const int result = ::SSL_do_handshake(ssl_.get());
    if (result != 1) return end(result);
    proven_ = ::SSL_session_reused(ssl_.get()) == 1;  // the key, and no certificate, proved it
    if (!proven_) return end(-1);
  }
  while (!unsent_.empty()) {
    size_t sent = 0;
    const int result = ::SSL_write_ex(ssl_.get(), unsent_.data(), unsent_.size(), &sent);
    if (result != 1) return end(result);
    unsent_.erase(0, sent);
  }
  std::array<char, 16384> buffer;
  while (true) {
    size_t got = 0;
    const int result = ::SSL_read_ex(ssl_.get(), buffer.data(), buffer.size(), &got);
    if (result != 1) return end(result);
    plain.append(buffer.data(), got);
  }
}

/// Notes why the connection ended. Does nothing where the library only waits for more.
void Tls::end(int result) {
  const int error = ::SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ) return;
  const int reason = ERR_GET_REASON(::ERR_peek_error());
  if (error == SSL_ERROR_ZERO_RETURN) {
    why_ended_ = "it closed the connection";
  } else if (proven_) {
    why_ended_ = "a message that the other side did not send";
  } else if (reason == SSL_R_BINDER_DOES_NOT_VERIFY) {
    why_ended_ = "a wrong secret";
  } else if (!is_host_ && reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER) {
    why_ended_ = "it says that the secret is wrong";
  } else {
    why_ended_ = "it does not speak this protocol";
  }
}

}  // namespace convoy::launch
