#include "convoy/checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/lanes.h"
#include "convoy/formats/json_object.h"

namespace convoy::checkpoint {

namespace {

constexpr int kVersion = 1;

template <class Value>
uint64_t sum_of(const char* data, size_t count, uint64_t begin) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    Value value;
    std::memcpy(&value, data + i * sizeof value, sizeof value);
    sum += value * (2 * (begin + i) + 1);
  }
  return sum;
}

/// The sums of values, and of values times their index, in lanes that the compiler can vectorise.
CONVOY_CLONES void add_up(const char* data, uint32_t count, uint64_t& plain, uint64_t& weighted) {
  constexpr uint32_t kLanes = 16;
  uint64_t plains[kLanes]{}, products[kLanes]{};
  uint32_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      uint32_t value;
      std::memcpy(&value, data + (uint64_t{i} + lane) * sizeof value, sizeof value);
      plains[lane] += value;
      products[lane] += uint64_t{value} * (i + lane);
    }
  }
  for (; i < count; ++i) {
    uint32_t value;
    std::memcpy(&value, data + uint64_t{i} * sizeof value, sizeof value);
    plains[0] += value;
    products[0] += uint64_t{value} * i;
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    plain += plains[lane];
    weighted += products[lane];
  }
}

/// sum_of() for fp32, of which there is most.
uint64_t sum_of_words(const char* data, size_t count, uint64_t begin) {
  constexpr size_t kAtOnce = size_t{1} << 30;  // indices in 32 bits
  uint64_t sum = 0;
  for (size_t at = 0; at < count; at += kAtOnce) {
    uint64_t plain = 0, weighted = 0;
    add_up(data + at * sizeof(uint32_t), static_cast<uint32_t>(std::min(kAtOnce, count - at)),
           plain, weighted);
    sum += plain * (2 * (begin + at) + 1) + 2 * weighted;
  }
  return sum;
}

uint64_t parse_sum(const Json& json, const std::string& where) {
  const auto text = json.is_string() ? json.get<std::string>() : "";
  uint64_t sum = 0;
  const auto end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, sum, 16);
  if (text.empty() || error != std::errc() || stop != end) {
    fail<FileError>("checkpoint", "{}: {} is no checksum", where, json.dump());
  }
  return sum;
}

}  // namespace

uint64_t checksum(const void* data, size_t count, size_t width, uint64_t begin) {
  const auto* bytes = static_cast<const char*>(data);
  switch (width) {
    case 1:
      return sum_of<uint8_t>(bytes, count, begin);
    case 2:
      return sum_of<uint16_t>(bytes, count, begin);
    case 4:
      return sum_of_words(bytes, count, begin);
    default:
      return sum_of<uint64_t>(bytes, count * width / sizeof(uint64_t), begin);
  }
}

Manifest Manifest::read(const std::filesystem::path& folder) {
  const auto path = folder / kName;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  return parse(read_regular_file(path), path.string());
}

Manifest Manifest::parse(std::string_view text, const std::string& where) {
  const Json json = formats::parse_json_object(text, where);
  auto object = [&](const Json& in, const char* key) -> const Json& {
    const auto found = in.is_object() ? in.find(key) : in.end();
    if (!in.is_object() || found == in.end() || !found->is_object()) {
      fail<FileError>("checkpoint", "{}: '{}' is missing or not an object", where, key);
    }
    return *found;
  };
  if (!json.contains("version") || json["version"] != kVersion) {
    fail<FileError>("checkpoint", "{}: expected a manifest of version {}", where, kVersion);
  }
  Manifest out;
  for (const auto& [file, entry] : object(json, "files").items()) {
    if (!entry.is_object() || !entry.contains("bytes") || !entry["bytes"].is_number_unsigned()) {
      fail<FileError>("checkpoint", "{}: {} has no number of bytes", where, file);
    }
    out.bytes_[file] = entry["bytes"].get<uint64_t>();
    auto& sums = out.sums_[file];
    for (const auto& [tensor, sum] : object(entry, "tensors").items()) {
      sums[tensor] = parse_sum(sum, where);
    }
  }
  return out;
}

void Manifest::check_files(const std::filesystem::path& folder) const {
  for (const auto& [file, bytes] : bytes_) {
    std::error_code error;
    const auto there = std::filesystem::file_size(folder / file, error);
    if (!error && there == bytes) continue;
    fail<FileError>("checkpoint",
                    "{} has vanished or changed while it was written; expected {} bytes",
                    (folder / file).string(), bytes);
  }
}

std::string Manifest::to_text() const {
  Json files = Json::object();
  for (const auto& [file, sums] : sums_) {
    Json tensors = Json::object();
    for (const auto& [tensor, sum] : sums) tensors[tensor] = fmt::format("{:016x}", sum);
    files[file] = {{"bytes", bytes_.contains(file) ? bytes_.at(file) : 0}, {"tensors", tensors}};
  }
  return Json{{"version", kVersion}, {"files", files}}.dump(1) + "\n";
}

}  // namespace convoy::checkpoint
