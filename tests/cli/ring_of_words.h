#pragma once

#include <filesystem>
#include <string>

#include "convoy/base/files.h"

namespace convoy {

/// Writes a vocabulary `words` of twenty words, and `text.txt`: 400 lines, in each `length` words
/// that follow each other in a ring, so there is something to learn.
inline void write_ring_of_words(const std::filesystem::path& folder, int length) {
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", lines;
  for (int i = 0; i < 20; ++i) vocabulary += "w" + std::to_string(i) + "\n";
  for (int line = 0; line < 400; ++line) {
    for (int i = 0; i < length; ++i) lines += "w" + std::to_string((line * 7 + i * 3) % 20) + " ";
    lines += "\n";
  }
  write_file(folder / "words/vocab.txt", vocabulary);
  write_file(folder / "text.txt", lines);
}

/// How that vocabulary writes an id.
inline std::string word_of(int id) {
  static constexpr const char* kSpecial[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  return id < 5 ? kSpecial[id] : "w" + std::to_string(id - 5);
}

}  // namespace convoy
