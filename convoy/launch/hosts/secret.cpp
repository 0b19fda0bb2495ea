#include "convoy/launch/hosts/secret.h"

#include <dlfcn.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"

namespace convoy::launch {
namespace {

constexpr size_t kShortest = 16;

std::string hex(const unsigned char* bytes, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += fmt::format("{:02x}", bytes[i]);
  return out;
}

std::string read_owners_file(const std::filesystem::path& file) {
  struct stat facts{};
  if (::stat(file.c_str(), &facts) == 0 && (facts.st_mode & 077) != 0) {
    fail<UsageError>("launch", "others may read the token file {}; try chmod 600 {}", file.string(),
                     file.string());
  }
  return trim(read_file(file));
}

}  // namespace

std::string read_secret(const std::filesystem::path& file, const GetEnv& get) {
  const char* given = get("CONVOY_TOKEN");
  const std::string secret =
      file.empty() ? trim(given == nullptr ? "" : given) : read_owners_file(file);
  const std::string where = file.empty() ? "CONVOY_TOKEN" : file.string();
  constexpr const char* kTry =
      "try --token-file FILE with the output of `head -c 24 /dev/urandom | base64`";
  if (secret.empty()) {
    fail<UsageError>("launch",
                     "several hosts need a shared secret, but {} {}; expected the same on all of "
                     "them; {}",
                     where, file.empty() ? "is not set" : "is empty", kTry);
  }
  if (secret.size() < kShortest) {
    fail<UsageError>("launch",
                     "the shared secret in {} has {} characters; expected at least {}; {}", where,
                     secret.size(), kShortest, kTry);
  }
  return secret;
}

std::string crypto_library() {
  Dl_info place{};
  const bool found = ::dladdr(reinterpret_cast<const void*>(&::HMAC), &place) != 0;
  return fmt::format("{} ({})", ::OpenSSL_version(OPENSSL_VERSION),
                     found ? place.dli_fname : "unknown");
}

std::string hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> code{};
  unsigned int size = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  if (::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes, text.size(),
             code.data(), &size) == nullptr) {
    fail<InternalError>("launch", "libcrypto made no HMAC-SHA256; please report it");
  }
  return hex(code.data(), size);
}

bool same_proof(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string fresh_nonce() {
  std::array<unsigned char, 16> bytes{};
  if (::RAND_bytes(bytes.data(), bytes.size()) != 1) {
    fail<InternalError>("launch", "libcrypto has no random numbers; please report it");
  }
  return hex(bytes.data(), bytes.size());
}

Proofs::Proofs(std::string_view secret, std::string_view run_id, std::string_view host_nonce,
               std::string_view joiner_nonce) {
  // The length keeps one run id and nonce from being read as another pair.
  const auto about = fmt::format("{} {} {} {}", host_nonce, joiner_nonce, run_id.size(), run_id);
  of_joiner = hmac(secret, "convoy joiner " + about);
  of_host = hmac(secret, "convoy host " + about);
  session_key = hmac(secret, "convoy session " + about);
}

std::string Proofs::of_refusal(std::string_view why) const {
  return hmac(session_key, fmt::format("refused {}", why));
}

}  // namespace convoy::launch
