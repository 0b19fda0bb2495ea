#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "convoy/launch/environment.h"

// The secret that the hosts of one job share, and proofs that one knows it.
namespace convoy::launch {

/// The shared secret: from `file` when one is given, else from CONVOY_TOKEN. Throws UsageError when
/// there is none, when it is shorter than 16 characters, or when others may read the file.
std::string read_secret(const std::filesystem::path& file, const GetEnv& get);

/// The OpenSSL that makes the proofs: its version, and the file that it was loaded from.
std::string crypto_library();

/// HMAC-SHA256 (RFC 2104) as 64 hexadecimal digits.
std::string hmac(std::string_view key, std::string_view text);

/// Compares in a time that does not tell where the difference is.
bool same_proof(std::string_view a, std::string_view b);

/// 32 hexadecimal digits that nobody can guess.
std::string fresh_nonce();

/// What two sides of a connection make of the secret and of both their nonces: each proves to know
/// the secret without telling it, and what they say later carries a code that only they can make.
struct Proofs {
  Proofs(std::string_view secret, std::string_view run_id, std::string_view host_nonce,
         std::string_view joiner_nonce);

  /// Of the host, that it is the one that turns the joiner away.
  std::string of_refusal(std::string_view why) const;

  std::string of_joiner;
  std::string of_host;
  std::string session_key;
};

}  // namespace convoy::launch
