#include "convoy/formats/safetensors.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "convoy/base/error.h"
#include "convoy/base/json_number.h"
#include "convoy/base/mapped_file.h"
#include "convoy/base/text.h"
#include "convoy/formats/json_object.h"

namespace convoy::formats {

namespace {

constexpr size_t kMaxHeader = 100'000'000;
constexpr size_t kLengthBytes = 8;

const std::map<std::string, size_t>& dtypes() {
  static const std::map<std::string, size_t> sizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
      {"F32", 4},  {"C64", 8}, {"F64", 8}, {"I64", 8},     {"U64", 8},
  };
  return sizes;
}

SafetensorsEntry parse_entry(const std::string& name, const Json& json, const std::string& file) {
  auto wrong = [&](const std::string& what) {
    fail<FileError>("formats", "{}: tensor '{}': {}", file, name, what);
  };
  auto integers = [&](const char* key) {
    std::vector<int64_t> out;
    auto list = json.find(key);
    if (list == json.end() || !list->is_array()) {
      wrong(fmt::format("'{}' is missing or not a list", key));
    }
    for (const Json& item : *list) {
      const auto number = whole_number<int64_t>(item);
      if (!number || *number < 0) {
        wrong(fmt::format("'{}' holds {}; expected whole numbers from 0", key, item.dump()));
      }
      out.push_back(*number);
    }
    return out;
  };
  if (!json.is_object()) wrong(fmt::format("it is {}; expected an object", json.type_name()));
  SafetensorsEntry entry;
  auto dtype = json.find("dtype");
  if (dtype == json.end() || !dtype->is_string()) wrong("'dtype' is missing or not a string");
  entry.dtype = dtype->get<std::string>();
  if (!dtypes().contains(entry.dtype)) {
    wrong(fmt::format("dtype {} is not known; expected one of {}", entry.dtype,
                      safetensors_dtype_names()));
  }
  entry.shape = integers("shape");
  auto offsets = integers("data_offsets");
  if (offsets.size() != 2 || offsets[1] < offsets[0]) wrong("'data_offsets' is not [begin, end]");
  entry.begin = static_cast<size_t>(offsets[0]);
  entry.end = static_cast<size_t>(offsets[1]);
  size_t bytes = 0;
  if (!safetensors_bytes(entry.dtype, entry.shape, bytes)) {
    wrong("its shape holds more elements than memory can");
  }
  if (bytes != entry.end - entry.begin) {
    wrong(fmt::format("its shape takes {} bytes but its offsets hold {}", bytes,
                      entry.end - entry.begin));
  }
  return entry;
}

/// Throws FileError unless the tensors cover the data without gap or overlap.
void check_cover(const std::map<std::string, SafetensorsEntry>& entries, size_t data_bytes,
                 const std::string& file) {
  std::vector<std::pair<const std::string*, const SafetensorsEntry*>> sorted;
  for (const auto& [name, entry] : entries) sorted.emplace_back(&name, &entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  size_t place = 0;
  for (const auto& [name, entry] : sorted) {
    if (entry->begin != place) {
      fail<FileError>("formats", "{}: tensor '{}' starts at byte {} of the data; expected {}", file,
                      *name, entry->begin, place);
    }
    place = entry->end;
  }
  if (place != data_bytes) {
    fail<FileError>("formats", "{}: its tensors take {} bytes but {} follow the header{}", file,
                    place, data_bytes, place > data_bytes ? "; the file is cut short" : "");
  }
}

}  // namespace

size_t safetensors_dtype_bytes(const std::string& dtype) {
  auto found = dtypes().find(dtype);
  return found == dtypes().end() ? 0 : found->second;
}

std::string safetensors_dtype_names() {
  std::vector<std::string> names;
  for (const auto& [name, size] : dtypes()) names.push_back(name);
  return join(names);
}

bool safetensors_bytes(const std::string& dtype, const std::vector<int64_t>& shape, size_t& bytes) {
  bytes = safetensors_dtype_bytes(dtype);
  for (int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(extent), &bytes)) {
      return false;
    }
  }
  return true;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path) {
  auto mapping = std::make_shared<MappedFile>(path, "formats", "a safetensors file");
  parse(mapping->bytes());
  mapping_ = std::move(mapping);
}

void SafetensorsFile::parse(std::span<const std::byte> file) {
  const std::string name = path_.string();
  if (file.size() < kLengthBytes) {
    fail<FileError>("formats", "{} holds {} bytes; a safetensors file has at least 8", name,
                    file.size());
  }
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kMaxHeader) {
    fail<FileError>("formats",
                    "{}: its header would be {} bytes, more than the {} allowed; this is not a "
                    "safetensors file",
                    name, length, kMaxHeader);
  }
  if (length > file.size() - kLengthBytes) {
    fail<FileError>("formats", "{}: its header ends at byte {} but the file at {}; it is cut short",
                    name, length + kLengthBytes, file.size());
  }
  auto header = file.subspan(kLengthBytes, length);
  const Json json = parse_json_object({reinterpret_cast<const char*>(header.data()), header.size()},
                                      name + ": its header");
  for (const auto& [key, value] : json.items()) {
    if (key != "__metadata__") {
      entries_.emplace(key, parse_entry(key, value, name));
      continue;
    }
    if (!value.is_object()) fail<FileError>("formats", "{}: __metadata__ is not an object", name);
    for (const auto& [field, text] : value.items()) {
      if (!text.is_string()) {
        fail<FileError>("formats", "{}: __metadata__ '{}' is not a string", name, field);
      }
      metadata_[field] = text.get<std::string>();
    }
  }
  data_ = file.subspan(kLengthBytes + length);
  check_cover(entries_, data_.size(), name);
}

const SafetensorsEntry& SafetensorsFile::entry(const std::string& name) const {
  auto found = entries_.find(name);
  if (found != entries_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, entry] : entries_) names.push_back(known);
  fail<FileError>("formats", "{} has no tensor '{}'{}; it has {}", path_.string(), name,
                  did_you_mean(name, names), names.size());
}

std::span<const std::byte> SafetensorsFile::bytes(const std::string& name) const {
  const Entry& found = entry(name);
  return data_.subspan(found.begin, found.end - found.begin);
}

void SafetensorsFile::read(const std::string& name, size_t begin, size_t end, void* to) const {
  const auto all = bytes(name).subspan(begin, end - begin);
  mapping_->read(static_cast<size_t>(all.data() - mapping_->bytes().data()), all.size(), to);
}

void SafetensorsFile::read_ahead(const std::string& name, size_t begin, size_t end) const {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto all = bytes(name).subspan(begin, end - begin);
  const auto first = reinterpret_cast<uintptr_t>(all.data()) / page * page;
  const auto last = reinterpret_cast<uintptr_t>(all.data() + all.size());
  // Advice only; of more than a disk's largest request the system takes the beginning.
  constexpr uintptr_t kAtOnce = uintptr_t{512} << 10;
  for (auto at = first; at < last; at += kAtOnce) {
    ::madvise(reinterpret_cast<void*>(at), std::min(kAtOnce, last - at), MADV_WILLNEED);
  }
}

}  // namespace convoy::formats
