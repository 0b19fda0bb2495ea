#include "convoy/data/binary_tokens.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::data {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);
constexpr int32_t kLlmcHeader = 256;  // numbers of 32 bits

/// A whole file in memory, of which the system reads what is used.
class Mapping {
 public:
  explicit Mapping(const fs::path& file) : path_(file) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) refuse();
    const auto end = ::lseek(fd, 0, SEEK_END);
    if (end > 0) {
      size_ = static_cast<size_t>(end);
      void* at = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
      if (at != MAP_FAILED) data_ = static_cast<const char*>(at);
    }
    const int error = errno;
    ::close(fd);
    errno = error;
    if (end < 0 || (end > 0 && data_ == nullptr)) refuse();
  }
  ~Mapping() {
    if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const fs::path& path() const { return path_; }
  const char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  [[noreturn]] void refuse() const {
    fail<FileError>("data", "cannot read {}: {}", path_.string(), std::strerror(errno));
  }

  fs::path path_;
  const char* data_ = nullptr;
  size_t size_ = 0;
};

/// Numbers of a header, one after the other.
class Reader {
 public:
  Reader(const Mapping& file, size_t at) : file_(file), at_(at) {}

  template <class T>
  T next() {
    T value;
    const char* from = take(1, sizeof(T));
    std::memcpy(&value, from, sizeof(T));
    return value;
  }
  /// First byte of `count` elements of `width` bytes, which are passed over.
  const char* take(uint64_t count, size_t width) {
    if (count > (file_.size() - at_) / width) {
      fail<FileError>("data", "{} ends within its header, at {} bytes; try writing it again",
                      file_.path().string(), file_.size());
    }
    const char* from = file_.data() + at_;
    at_ += static_cast<size_t>(count) * width;
    return from;
  }

 private:
  const Mapping& file_;
  size_t at_;
};

int64_t number_at(const char* from, uint64_t index, bool is_wide) {
  int64_t wide;
  int32_t narrow;
  if (is_wide) {
    std::memcpy(&wide, from + index * sizeof(wide), sizeof(wide));
    return wide;
  }
  std::memcpy(&narrow, from + index * sizeof(narrow), sizeof(narrow));
  return narrow;
}

/// Bytes of an id by Megatron's code of its type.
int width_of(uint8_t code, const fs::path& index) {
  if (code == 8) return 2;
  if (code == 4) return 4;
  fail<FileError>("data",
                  "{} has ids of the type {}; expected 8 (uint16) or 4 (int32); try Megatron's "
                  "preprocess_data.py again",
                  index.string(), code);
}

/// Ids of `width` bytes from the byte `begin` on. Throws FileError where the last one is cut.
TokenView view_of(const Mapping& file, size_t begin, int width) {
  const size_t bytes = file.size() - begin;
  if (bytes % static_cast<size_t>(width) != 0) {
    fail<FileError>("data",
                    "{} has {} bytes of ids, {} each: the last one is cut; try copying it again",
                    file.path().string(), bytes, width);
  }
  return {file.data() + begin, width, static_cast<int64_t>(bytes) / width};
}

BinaryTokens read_megatron(const fs::path& index_file, const fs::path& ids_file) {
  const Mapping index(index_file);
  Reader in(index, kIndexMagic.size());
  const auto version = in.next<uint64_t>();
  if (version != 1) {
    fail<FileError>("data", "{} is of version {}; expected 1", index_file.string(), version);
  }
  const int width = width_of(in.next<uint8_t>(), index_file);
  const auto sequences = in.next<uint64_t>(), documents = in.next<uint64_t>();
  const char* lengths = in.take(sequences, sizeof(int32_t));
  const char* begins = in.take(sequences, sizeof(int64_t));
  const char* borders = in.take(documents, sizeof(int64_t));

  const auto ids = std::make_shared<const Mapping>(ids_file);
  BinaryTokens out{"Megatron", view_of(*ids, 0, width), {}, ids};
  const auto refuse = [&](const std::string& what) {
    fail<FileError>("data", "{} does not fit {}: {}; try the two files of one run",
                    index_file.string(), ids_file.string(), what);
  };
  std::vector<int64_t> ends{0};  // of each sequence
  for (uint64_t s = 0; s < sequences; ++s) {
    if (number_at(begins, s, true) != ends.back() * width) {
      refuse(fmt::format("its sequence {} does not begin where the one before ends", s));
    }
    const int64_t length = number_at(lengths, s, false);
    if (length < 0) refuse(fmt::format("its sequence {} has the length {}", s, length));
    ends.push_back(ends.back() + length);
  }
  if (ends.back() != out.ids.size()) {
    refuse(fmt::format("its sequences have {} ids, the file has {}", ends.back(), out.ids.size()));
  }
  int64_t before = 0;
  for (uint64_t d = 0; d < documents; ++d) {
    const int64_t border = number_at(borders, d, true);
    if (border < before || border > static_cast<int64_t>(sequences)) {
      refuse(fmt::format("its document {} ends with sequence {} of {}", d, border, sequences));
    }
    if (border > before) out.ends.push_back(ends[static_cast<size_t>(border)]);
    before = border;
  }
  if (out.ends.empty() || out.ends.back() != ends.back()) out.ends.push_back(ends.back());
  return out;
}

BinaryTokens read_bare(const fs::path& file) {
  const auto all = std::make_shared<const Mapping>(file);
  struct Header {
    int32_t magic = 0, version = 0, count = 0;
  } header;
  const size_t header_bytes = kLlmcHeader * sizeof(int32_t);
  if (all->size() >= header_bytes) std::memcpy(&header, all->data(), sizeof(header));
  const bool short_ids = header.magic == 20240520, long_ids = header.magic == 20240801;
  if (!short_ids && !long_ids) {
    BinaryTokens out{"nanoGPT", view_of(*all, 0, 2), {}, all};
    out.ends = {out.ids.size()};
    return out;
  }
  if (header.version != (short_ids ? 1 : 7)) {
    fail<FileError>("data", "{} is llm.c's, of version {}; expected {}", file.string(),
                    header.version, short_ids ? 1 : 7);
  }
  BinaryTokens out{"llm.c", view_of(*all, header_bytes, short_ids ? 2 : 4), {}, all};
  if (out.ids.size() != header.count) {
    fail<FileError>("data", "{} says that it has {} ids, and has {}; try copying it again",
                    file.string(), header.count, out.ids.size());
  }
  out.ends = {out.ids.size()};
  return out;
}

}  // namespace

std::optional<BinaryTokens> map_binary_tokens(const fs::path& file) {
  std::error_code ignored;
  const auto kind = file.extension();
  const bool named = kind == ".bin" || kind == ".idx";
  auto index = file, ids = file;
  if (named) {
    index.replace_extension(".idx");
    ids.replace_extension(".bin");
  } else {
    index += ".idx";
    ids += ".bin";
  }
  const bool has_index = fs::is_regular_file(index, ignored);
  if (!named && (!has_index || fs::exists(file, ignored))) return std::nullopt;
  if (!has_index) {
    return kind == ".bin" && fs::is_regular_file(file, ignored) ? std::optional(read_bare(file))
                                                                : std::nullopt;
  }
  const Mapping begin(index);
  const bool is_megatron = begin.size() >= kIndexMagic.size() &&
                           std::string_view(begin.data(), kIndexMagic.size()) == kIndexMagic;
  if (!is_megatron) {
    fail<FileError>("data",
                    "{} is no index of Megatron's, which begins with MMIDIDX; try the file that "
                    "preprocess_data.py wrote beside {}",
                    index.string(), ids.string());
  }
  if (!fs::is_regular_file(ids, ignored)) {
    fail<FileError>("data", "there is no {} for the index {}", ids.string(), index.string());
  }
  return read_megatron(index, ids);
}

std::vector<int64_t> ends_by_token(const TokenView& ids, int64_t token) {
  std::vector<int64_t> out;
  for (int64_t at = 0; at < ids.size(); ++at) {
    if (ids[at] == token) out.push_back(at + 1);
  }
  if (out.empty() || out.back() != ids.size()) out.push_back(ids.size());
  return out;
}

}  // namespace convoy::data
