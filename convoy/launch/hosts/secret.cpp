#include "convoy/launch/hosts/secret.h"

#include <dlfcn.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"

namespace convoy::launch {
namespace {

constexpr size_t kShortest = 16;

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

std::string shared_key(std::string_view secret) {
  constexpr std::string_view kPurpose = "convoy rendezvous, TLS 1.3";
  std::array<unsigned char, EVP_MAX_MD_SIZE> key{};
  unsigned int size = 0;
  if (::HMAC(::EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
             reinterpret_cast<const unsigned char*>(kPurpose.data()), kPurpose.size(), key.data(),
             &size) == nullptr) {
    fail<InternalError>("launch", "libcrypto made no HMAC-SHA256; please report it");
  }
  return {reinterpret_cast<const char*>(key.data()), size};
}

}  // namespace convoy::launch
