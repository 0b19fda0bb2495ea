#include "convoy/formats/vector_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::formats {

namespace {

// Size of a header of NumPy's format 1.0, with room for any shape.
constexpr size_t kHeaderBytes = 128;

std::string npy_header(int64_t count, int64_t width) {
  std::string out("\x93NUMPY\x01\x00", 8);
  const size_t rest = kHeaderBytes - out.size() - 2;
  out += static_cast<char>(rest & 0xFF);
  out += static_cast<char>(rest >> 8);
  out +=
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", count, width);
  out.resize(kHeaderBytes - 1, ' ');
  return out + "\n";
}

}  // namespace

VectorFile::VectorFile(const std::filesystem::path& file, std::filesystem::path shown,
                       const std::string& format, int64_t width)
    : shown_(std::move(shown)),
      is_npy_(format == kNpy),
      width_(width),
      out_(file, std::ios::binary) {
  internal_check(is_npy_ || format == kFvecs, "formats", "there is no format {}", format);
  internal_check(width > 0 && width <= std::numeric_limits<int32_t>::max(), "formats",
                 "vectors of {} numbers", width);
  put_header();
}

void VectorFile::put_header() {
  if (is_npy_) out_ << npy_header(count_, width_);
  check();
}

void VectorFile::check() {
  if (out_.good()) return;
  fail<FileError>("formats", "cannot write {}: {}", shown_.string(), write_trouble(errno));
}

void VectorFile::add(const float* vectors, int64_t count) {
  const auto bytes = static_cast<std::streamsize>(static_cast<size_t>(width_) * sizeof(float));
  const auto width = static_cast<int32_t>(width_);
  for (int64_t i = 0; i < count; ++i) {
    if (!is_npy_) out_.write(reinterpret_cast<const char*>(&width), sizeof width);
    out_.write(reinterpret_cast<const char*>(vectors + i * width_), bytes);
  }
  count_ += count;
  check();
}

void VectorFile::finish() {
  out_.seekp(0);
  put_header();
  out_.close();
  check();
}

}  // namespace convoy::formats
