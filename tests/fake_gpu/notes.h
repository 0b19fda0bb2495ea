#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace convoy::fake_gpu {

/// What the program was doing, by its own word.
struct Label {
  int64_t step = 0;
  std::string text;
};

/// An operation and what it was for; kept for messages. Equal ones are one.
struct Note {
  std::string operation;
  const Label* label = nullptr;
};

/// What the program does now: convoy::publish_activity() is looked up in its symbols, so that it
/// need not know of this library. A program without it may tell set_label().
const Label* current_label();

void set_label(int64_t step, std::string_view text);

/// The note for `operation` under the current label.
const Note* note(std::string_view operation);

/// "'aten::add' (step 3, forward block 1)".
std::string to_text(const Note& note);

}  // namespace convoy::fake_gpu
