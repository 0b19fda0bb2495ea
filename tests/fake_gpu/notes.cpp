#include "tests/fake_gpu/notes.h"

#include <array>
#include <atomic>
#include <cstring>
#include <map>

#include "tests/fake_gpu/device_lock.h"
#include "tests/fake_gpu/symbols.h"

namespace convoy::fake_gpu {

namespace {

/// As convoy/base/activity.cpp writes it.
struct Page {
  std::atomic<uint64_t> version;
  std::atomic<int64_t> step;
  std::atomic<uint64_t> since;
  std::array<std::atomic<uint64_t>, 29> text;
};

Page page;

struct Labels {
  std::map<std::pair<int64_t, std::string>, Label> labels;
  std::map<std::pair<std::string, const Label*>, Note> notes;
  const Label* current = nullptr;
  uint64_t version = 0;
  bool asked = false;
};

Labels& all() {
  static auto* labels = new Labels;
  return *labels;
}

const Label* label_of(int64_t step, const std::string& text) {
  auto& label = all().labels[{step, text}];
  label.step = step;
  label.text = text;
  return &label;
}

void publish() {
  using Publish = void (*)(void*);
  const auto tell = reinterpret_cast<Publish>(program_symbol("_ZN6convoy16publish_activityEPv"));
  if (tell != nullptr) tell(&page);
}

}  // namespace

const Label* current_label() {
  const Locked lock;
  auto& labels = all();
  if (!labels.asked) {
    labels.asked = true;
    publish();
  }
  const uint64_t version = page.version.load(std::memory_order_acquire);
  if (labels.current != nullptr && version == labels.version) return labels.current;
  std::array<char, sizeof(Page::text)> text{};
  for (size_t i = 0; i < page.text.size(); ++i) {
    const uint64_t word = page.text[i].load(std::memory_order_relaxed);
    std::memcpy(text.data() + i * sizeof word, &word, sizeof word);
  }
  labels.current = label_of(page.step.load(std::memory_order_relaxed),
                            std::string(text.data(), ::strnlen(text.data(), text.size())));
  labels.version = version;
  return labels.current;
}

void set_label(int64_t step, std::string_view text) {
  const Locked lock;
  current_label();
  all().current = label_of(step, std::string(text));
}

const Note* note(std::string_view operation) {
  const Locked lock;
  const auto* label = current_label();
  auto& out = all().notes[{std::string(operation), label}];
  if (out.label == nullptr) out = {std::string(operation), label};
  return &out;
}

std::string to_text(const Note& note) {
  std::string text = "'" + note.operation + "'";
  if (note.label->step == 0 && note.label->text.empty()) return text;
  text += " (step " + std::to_string(note.label->step);
  if (!note.label->text.empty()) text += ", " + note.label->text;
  return text + ")";
}

}  // namespace convoy::fake_gpu
