#include "tests/fake_gpu/options.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace convoy::fake_gpu {

namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  size_t begin = 0;
  for (size_t end; (end = text.find(at, begin)) != std::string::npos; begin = end + 1) {
    out.push_back(text.substr(begin, end - begin));
  }
  out.push_back(text.substr(begin));
  return out;
}

size_t bytes_of(const std::string& text) {
  char* unit = nullptr;
  const double number = std::strtod(text.c_str(), &unit);
  const double scale = *unit == 'K'   ? 1024.0
                       : *unit == 'M' ? 1024.0 * 1024
                       : *unit == 'G' ? 1024.0 * 1024 * 1024
                                      : 1.0;
  return static_cast<size_t>(number * scale);
}

std::string file_named(std::string pattern) {
  const char* rank = std::getenv("RANK");
  const std::string process = std::to_string(::getpid());
  const auto put = [&](const std::string& key, const std::string& value) {
    for (size_t at; (at = pattern.find(key)) != std::string::npos;) {
      pattern.replace(at, key.size(), value);
    }
  };
  put("%p", process);
  put("%r", rank != nullptr ? rank : process);
  return pattern;
}

/// As CUDA reads the list: up to the first entry that names no device.
int visible(int present, const char* list) {
  if (list == nullptr) return present;
  int seen = 0;
  for (const auto& part : split(list, ',')) {
    char* rest = nullptr;
    const long index = std::strtol(part.c_str(), &rest, 10);
    if (part.empty() || rest == part.c_str() || index < 0 || index >= present) break;
    ++seen;
  }
  return seen;
}

Options read() {
  Options out;
  if (const char* place = std::getenv("CONVOY_FAKE_GPU")) {
    const std::string text = place;
    const auto colon = text.rfind(':');
    if (colon != std::string::npos) out.devices = std::atoi(text.c_str() + colon + 1);
  }
  if (const char* given = std::getenv("FAKE_GPU_OPTIONS")) parse_options(given, out);
  out.devices = visible(out.devices, std::getenv("CUDA_VISIBLE_DEVICES"));
  if (out.pretends == "old_driver") out.devices = 0;
  return out;
}

}  // namespace

void parse_options(const std::string& text, Options& options) {
  for (const auto& part : split(text, ',')) {
    const auto equals = part.find('=');
    const auto key = part.substr(0, equals);
    const auto value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (key.empty()) continue;
    if (key == "devices") {
      options.devices = std::atoi(value.c_str());
    } else if (key == "memory") {
      options.memory = bytes_of(value);
    } else if (key == "mode") {
      options.only_counts = value == "count";
    } else if (key == "report") {
      options.report = file_named(value);
    } else if (key == "counts") {
      options.counts = file_named(value);
    } else if (key == "sites") {
      options.sites = file_named(value);
    } else if (key == "ignore") {
      options.ignored.push_back(value);
    } else if (key == "skip") {
      options.skipped.push_back(value);
    } else if (key == "mutate") {
      options.mutations.push_back(value);
    } else if (key == "pretend") {
      options.pretends = value;
    } else if (key == "oom") {
      options.oom = value;
    } else if (key == "held") {
      options.held = bytes_of(value);
    } else {
      options.unknown.push_back(key);
    }
  }
}

Options& options() {
  static auto* all = new Options(read());
  return *all;
}

bool mutated(std::string_view name) {
  const auto& all = options().mutations;
  return !all.empty() && std::find(all.begin(), all.end(), name) != all.end();
}

}  // namespace convoy::fake_gpu
