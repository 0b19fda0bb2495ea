#include "convoy/launch/hosts/hostfile.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/host_name.h"
#include "convoy/base/text.h"
#include "convoy/launch/network.h"

namespace convoy::launch {

namespace {

std::string without_domain(const std::string& name) {
  return name.substr(0, name.find('.'));
}

bool is_this_host(const std::string& name) {
  const std::string own = host_name();
  if (name == own || name == without_domain(own) || without_domain(name) == own) return true;
  const auto addresses = Address::resolve(name, 0);
  return std::any_of(addresses.begin(), addresses.end(),
                     [](const Address& address) { return address.is_own(); });
}

}  // namespace

std::vector<ListedHost> read_hostfile(const std::filesystem::path& file) {
  std::vector<ListedHost> out;
  int number = 0;
  for (const std::string& whole : split(read_file(file), '\n')) {
    ++number;
    std::string text = trim(whole.substr(0, whole.find('#')));
    std::replace_if(text.begin(), text.end(), [](char c) { return c == '\t' || c == '\r'; }, ' ');
    ListedHost host{.line = number};
    for (const std::string& word : split(text, ' ')) {
      if (word.empty()) continue;
      int64_t slots = 0;
      if (host.name.empty()) {
        host.name = word;
      } else if (word.starts_with("slots=") && parse_number(word.substr(6), slots) && slots >= 1 &&
                 slots <= 65536) {
        host.slots = static_cast<int>(slots);
      } else if (!word.starts_with("max_slots=") && !word.starts_with("max-slots=")) {
        fail<UsageError>("launch", "line {} of {} has '{}' after the host; expected slots=N",
                         number, file.string(), word);
      }
    }
    if (host.name.empty()) continue;
    for (const auto& other : out) {
      if (other.name != host.name) continue;
      fail<UsageError>("launch", "lines {} and {} of {} both name {}; expected a line a host",
                       other.line, number, file.string(), host.name);
    }
    out.push_back(host);
  }
  if (out.empty()) {
    fail<UsageError>("launch", "{} names no host; expected a line for each, such as node7 slots=8",
                     file.string());
  }
  return out;
}

int own_place(const std::vector<ListedHost>& hosts, const std::filesystem::path& file) {
  std::vector<int> own;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (is_this_host(hosts[i].name)) own.push_back(static_cast<int>(i));
  }
  if (own.size() == 1) return own.front();
  if (own.empty()) {
    fail<UsageError>("launch",
                     "{} does not name this host, {}; try its line, or --node-rank with the number "
                     "of the line that is meant, from 0",
                     file.string(), host_name());
  }
  fail<UsageError>("launch",
                   "lines {} and {} of {} are both this host; try --node-rank with the number of "
                   "the one that is meant, from 0",
                   hosts[static_cast<size_t>(own[0])].line, hosts[static_cast<size_t>(own[1])].line,
                   file.string());
}

}  // namespace convoy::launch
