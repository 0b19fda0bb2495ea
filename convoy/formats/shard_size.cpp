#include "convoy/formats/shard_size.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::formats {

int64_t size_bytes(const std::string& text) {
  static const std::map<std::string, double> kUnits{
      {"", 1},       {"KB", 1e3},      {"MB", 1e6},      {"GB", 1e9},    {"TB", 1e12},
      {"KIB", 1024}, {"MIB", 1 << 20}, {"GIB", 1 << 30}, {"TIB", 0x1p40}};
  auto unit = text.substr(std::min(text.find_first_not_of("0123456789"), text.size()));
  int64_t number = 0;
  parse_number(text.substr(0, text.size() - unit.size()), number);
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto known = kUnits.find(unit);
  const double bytes = known == kUnits.end() ? 0 : static_cast<double>(number) * known->second;
  return bytes >= 1 && bytes <= 0x1p60 ? static_cast<int64_t>(bytes) : 0;
}

int64_t shard_bytes(const std::string& max_shard_size) {
  if (const int64_t bytes = size_bytes(max_shard_size); bytes > 0) return bytes;
  fail<UsageError>("formats", "max_shard_size = {}; expected a size such as 5GB, 500MB or 2GiB",
                   max_shard_size);
}

}  // namespace convoy::formats
