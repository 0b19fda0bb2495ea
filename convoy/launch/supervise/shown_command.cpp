#include "convoy/launch/supervise/shown_command.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "convoy/base/text.h"

namespace convoy::launch {
namespace {

constexpr std::array<std::string_view, 10> kSecrets{
    "token",        "hub_token", "push_to_hub_token", "use_auth_token", "auth_token",
    "access_token", "hf_token",  "api_key",           "password",       "secret"};

/// `--train.hub-token` is "hub_token"; "" for what is no option.
std::string option_name(std::string_view word) {
  if (!word.starts_with("-")) return "";
  std::string name(word.substr(std::min(word.find_first_not_of('-'), word.size())));
  name.erase(0, name.rfind('.') + 1);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

bool is_secret(std::string_view option) {
  return std::find(kSecrets.begin(), kSecrets.end(), option_name(option)) != kSecrets.end();
}

}  // namespace

std::string shown_command(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  bool secret = false;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos && is_secret(std::string_view(word).substr(0, equals))) {
      out.push_back(word.substr(0, equals + 1) + kBlanked);
    } else {
      out.push_back(secret && !word.starts_with("-") ? kBlanked : without_tokens(word));
    }
    secret = is_secret(word);
  }
  return join(out, " ");
}

}  // namespace convoy::launch
