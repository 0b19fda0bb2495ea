#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "convoy/base/files.h"

namespace convoy::report {

inline size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

/// Every opened element is closed, in order, and nothing but text stands between.
inline bool well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = 0; at < xml.size();) {
    if (xml[at] != '<') {
      if (xml[at] == '>') return false;
      ++at;
      continue;
    }
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return false;
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
    at = end + 1;
  }
  return open.empty();
}

/// With CONVOY_KEEP_CHARTS=DIR the pictures are kept to be looked at.
inline void keep(const char* name, const std::string& svg) {
  if (const char* folder = std::getenv("CONVOY_KEEP_CHARTS")) {
    write_file(std::filesystem::path(folder) / name, svg);
  }
}

}  // namespace convoy::report
