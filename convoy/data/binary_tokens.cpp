#include "convoy/data/binary_tokens.h"

#include <cstring>

#include "convoy/base/error.h"
#include "convoy/base/mapped_file.h"
#include "convoy/base/text.h"

namespace convoy::data {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);
constexpr int32_t kLlmcHeader = 256;  // numbers of 32 bits

/// Reads the numbers of a header, one after the other.
class Reader {
 public:
  Reader(const MappedFile& file, size_t at) : file_(file), at_(at) {}

  template <class T>
  T next() {
    T value;
    const char* from = take(1, sizeof(T));
    std::memcpy(&value, from, sizeof(T));
    return value;
  }
  /// Skips `count` elements of `width` bytes, and returns their first byte.
  const char* take(uint64_t count, size_t width) {
    if (count > (file_.size() - at_) / width) {
      fail<FileError>("data", "{} ends within its header, at {} bytes; try writing it again",
                      file_.path().string(), file_.size());
    }
    const auto* from = reinterpret_cast<const char*>(file_.bytes().data()) + at_;
    at_ += static_cast<size_t>(count) * width;
    return from;
  }

 private:
  const MappedFile& file_;
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

/// Bytes of an id for Megatron's type code.
int width_of(uint8_t code, const fs::path& index) {
  if (code == 8) return 2;
  if (code == 4) return 4;
  fail<FileError>("data",
                  "{} has ids of the type {}; expected 8 (uint16) or 4 (int32); try Megatron's "
                  "preprocess_data.py again",
                  index.string(), code);
}

/// Ids of `width` bytes from byte `begin` on. Throws FileError where the last one is incomplete.
TokenView view_of(const MappedFile& file, size_t begin, int width) {
  const size_t bytes = file.size() - begin;
  if (bytes % static_cast<size_t>(width) != 0) {
    fail<FileError>("data",
                    "{} has {} bytes of ids, {} each: the last one is cut; try copying it again",
                    file.path().string(), bytes, width);
  }
  return {file.bytes().data() + begin, width, static_cast<int64_t>(bytes) / width};
}

std::shared_ptr<const MappedFile> map(const fs::path& file) {
  return std::make_shared<const MappedFile>(file, "data", "a file of ids");
}

BinaryTokens read_megatron(const fs::path& index_file, const fs::path& ids_file) {
  const auto index = map(index_file);
  Reader in(*index, 0);
  if (index->size() < kIndexMagic.size() ||
      std::string_view(in.take(kIndexMagic.size(), 1), kIndexMagic.size()) != kIndexMagic) {
    fail<FileError>("data",
                    "{} is no index of Megatron's, which begins with MMIDIDX; try the file that "
                    "preprocess_data.py wrote beside {}",
                    index_file.string(), ids_file.string());
  }
  if (std::error_code ignored; !fs::is_regular_file(ids_file, ignored)) {
    fail<FileError>("data", "there is no {} for the index {}", ids_file.string(),
                    index_file.string());
  }
  const auto version = in.next<uint64_t>();
  if (version != 1) {
    fail<FileError>("data", "{} is of version {}; expected 1", index_file.string(), version);
  }
  const int width = width_of(in.next<uint8_t>(), index_file);
  const auto sequences = in.next<uint64_t>(), documents = in.next<uint64_t>();
  const char* lengths = in.take(sequences, sizeof(int32_t));
  const char* begins = in.take(sequences, sizeof(int64_t));
  const char* borders = in.take(documents, sizeof(int64_t));

  const auto ids = map(ids_file);
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
  const auto all = map(file);
  struct Header {
    int32_t magic = 0, version = 0, count = 0;
  } header;
  const size_t header_bytes = kLlmcHeader * sizeof(int32_t);
  if (all->size() >= header_bytes) std::memcpy(&header, all->bytes().data(), sizeof(header));
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

/// Files of a name: the ids, and Megatron's index of them where it exists.
struct TokenFiles {
  fs::path ids, index;
  bool has_index = false;
};

std::optional<TokenFiles> token_files_of(const fs::path& file) {
  std::error_code ignored;
  const auto kind = file.extension();
  const bool named = kind == ".bin" || kind == ".idx";
  TokenFiles out{file, file};
  if (named) {
    out.index.replace_extension(".idx");
    out.ids.replace_extension(".bin");
  } else {
    out.index += ".idx";
    out.ids += ".bin";
  }
  out.has_index = fs::is_regular_file(out.index, ignored);
  if (!named && fs::exists(file, ignored)) return std::nullopt;
  const bool is_bare = kind == ".bin" && fs::is_regular_file(file, ignored);
  return out.has_index || is_bare ? std::optional(out) : std::nullopt;
}

}  // namespace

bool holds_binary_tokens(const fs::path& file) {
  return token_files_of(file).has_value();
}

std::optional<BinaryTokens> map_binary_tokens(const fs::path& file) {
  const auto files = token_files_of(file);
  if (!files) return std::nullopt;
  return files->has_index ? read_megatron(files->index, files->ids) : read_bare(files->ids);
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
