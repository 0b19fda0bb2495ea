#include "convoy/formats/npy.h"

#include <fmt/ranges.h>

#include <map>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/formats/safetensors.h"

namespace convoy::formats {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kVersionBytes = 2;

[[noreturn]] void not_npy(const std::string& where, const std::string& what) {
  fail<FileError>("formats", "{} is no array of NumPy: {}; expected what numpy.save writes", where,
                  what);
}

/// Value of `key` in the header, a Python dictionary, up to `end`.
std::string_view value_of(std::string_view header, std::string_view key, std::string_view end,
                          const std::string& where) {
  const auto at = header.find(key);
  const auto stop = at == std::string_view::npos ? at : header.find(end, at + key.size());
  if (stop == std::string_view::npos) not_npy(where, fmt::format("its header lacks {}", key));
  return header.substr(at + key.size(), stop - at - key.size());
}

std::vector<int64_t> shape_of(std::string_view text, const std::string& where) {
  std::vector<int64_t> out;
  for (const auto& part : split(text, ',')) {
    const auto number = trim(part);
    if (number.empty()) continue;  // behind the last comma
    if (!parse_number(number, out.emplace_back()) || out.back() < 0) {
      not_npy(where, fmt::format("its shape has '{}'", printable(number)));
    }
  }
  return out;
}

}  // namespace

NpyArray parse_npy(std::string_view content, const std::string& where) {
  static const std::map<std::string, std::string, std::less<>> dtypes{
      {"'<f2'", "F16"}, {"'<f4'", "F32"}, {"'<f8'", "F64"}};
  if (!content.starts_with(kMagic)) not_npy(where, "it does not begin like one");
  auto rest = content.substr(kMagic.size());
  if (rest.size() < kVersionBytes) not_npy(where, "it ends in its header");
  const auto version = static_cast<unsigned char>(rest[0]);
  const size_t length_bytes = version == 1 ? 2 : 4;
  rest.remove_prefix(kVersionBytes);
  if (rest.size() < length_bytes) not_npy(where, "it ends in its header");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    length |= static_cast<size_t>(static_cast<unsigned char>(rest[i])) << (8 * i);
  }
  rest.remove_prefix(length_bytes);
  if (rest.size() < length) not_npy(where, "it ends in its header");
  const auto header = rest.substr(0, length);
  rest.remove_prefix(length);

  const auto type = trim(value_of(header, "'descr':", ",", where));
  const auto dtype = dtypes.find(type);
  if (dtype == dtypes.end()) {
    fail<FileError>("formats",
                    "{} holds numbers of type {}; expected '<f2', '<f4' or '<f8'; try {}", where,
                    printable(type), "numpy.save of array.astype('float32')");
  }
  if (trim(value_of(header, "'fortran_order':", ",", where)) != "False") {
    fail<FileError>("formats", "{} holds its array column by column; expected row by row; try {}",
                    where, "numpy.save of numpy.ascontiguousarray(array)");
  }
  NpyArray out{dtype->second, shape_of(value_of(header, "'shape': (", ")", where), where), {}};
  size_t bytes = 0;
  if (!safetensors_bytes(out.dtype, out.shape, bytes) || bytes != rest.size()) {
    not_npy(where, fmt::format("it has {} of numbers, which its shape ({}) does not say",
                               plural(static_cast<int64_t>(rest.size()), "byte"),
                               fmt::join(out.shape, ", ")));
  }
  out.bytes = std::string(rest);
  return out;
}

NpyArray read_npy(const std::filesystem::path& file) {
  return parse_npy(read_regular_file(file), file.string());
}

}  // namespace convoy::formats
