#include "convoy/checkpoint/manifest.h"

#include <fmt/format.h>

#include <charconv>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json_number.h"
#include "convoy/formats/json_object.h"

namespace convoy::checkpoint {

namespace {

constexpr int kVersion = 1;

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

uint64_t sum_of(const std::filesystem::path& file) {
  const auto bytes = read_regular_file(file);
  return checksum(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), 1, 0);
}

Json hex(uint64_t sum) {
  return fmt::format("{:016x}", sum);
}

}  // namespace

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
    const auto bytes =
        whole_number<uint64_t>(entry.is_object() ? entry.value("bytes", Json()) : Json());
    if (!bytes) {
      fail<FileError>("checkpoint", "{}: {} has no number of bytes", where, file);
    }
    out.bytes_[file] = *bytes;
    auto& sums = out.sums_[file];
    for (const auto& [tensor, sum] : object(entry, "tensors").items()) {
      sums[tensor] = parse_sum(sum, where);
    }
  }
  if (!json.contains("others")) return out;  // an older one
  for (const auto& [file, sum] : object(json, "others").items()) {
    out.others_[file] = parse_sum(sum, where);
  }
  return out;
}

void Manifest::set_others(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (sums_.contains(name) || name == kName || !entry.is_regular_file()) continue;
    others_[name] = sum_of(entry.path());
  }
}

std::vector<std::string> Manifest::wrong_others(const std::filesystem::path& folder) const {
  std::vector<std::string> out;
  for (const auto& [file, sum] : others_) {
    std::error_code error;
    if (!std::filesystem::exists(folder / file, error)) {
      out.push_back(fmt::format("{} is missing", file));
      continue;
    }
    try {
      if (sum_of(folder / file) == sum) continue;
      out.push_back(fmt::format("{} is not as it was written", file));
    } catch (const FileError& failed) {
      out.emplace_back(failed.what());
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
    for (const auto& [tensor, sum] : sums) tensors[tensor] = hex(sum);
    files[file] = {{"bytes", bytes_.contains(file) ? bytes_.at(file) : 0}, {"tensors", tensors}};
  }
  Json others = Json::object();
  for (const auto& [file, sum] : others_) others[file] = hex(sum);
  return Json{{"version", kVersion}, {"files", files}, {"others", others}}.dump(1) + "\n";
}

}  // namespace convoy::checkpoint
