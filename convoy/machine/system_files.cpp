#include "convoy/machine/system_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "convoy/base/text.h"

namespace convoy::machine {

std::string line_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return trim(line);
}

std::string value_in(const std::filesystem::path& file, const std::string& key, char separator) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find(separator);
    if (at != std::string::npos && trim(line.substr(0, at)) == key)
      return trim(line.substr(at + 1));
  }
  return "";
}

int64_t leading_number(const std::string& text, int64_t fallback) {
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 0);
  return end == text.c_str() || errno != 0 ? fallback : value;
}

std::vector<int> cpus_in(const std::string& list) {
  constexpr int64_t kMostCpus = 1 << 16;
  std::vector<int> cpus;
  for (const std::string& part : split(trim(list), ',')) {
    const auto ends = split(part, '-');
    int64_t first = 0, last = 0;
    if (!parse_number(ends.front(), first) || !parse_number(ends.back(), last)) continue;
    if (first < 0 || last >= kMostCpus) continue;
    for (int64_t cpu = first; cpu <= last; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
       at.increment(failed)) {
    names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace convoy::machine
