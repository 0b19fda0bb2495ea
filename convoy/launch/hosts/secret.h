#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "convoy/launch/environment.h"

// The secret that the hosts of one job share.
namespace convoy::launch {

/// The shared secret: from `file` when one is given, else from CONVOY_TOKEN. Throws UsageError when
/// there is none, when it is shorter than 16 characters, or when others may read the file.
std::string read_secret(const std::filesystem::path& file, const GetEnv& get);

/// The OpenSSL between the hosts: its version, and the file that it was loaded from.
std::string crypto_library();

/// The pre-shared key of TLS that the secret stands for, 32 bytes.
std::string shared_key(std::string_view secret);

}  // namespace convoy::launch
