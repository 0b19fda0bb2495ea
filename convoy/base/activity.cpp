#include "convoy/base/activity.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace convoy {

namespace {

/// Shared page with an operation as text. It consists of atomic words, so that reading while it is
/// written is defined; `version` is odd while it is written.
struct Page {
  std::atomic<uint64_t> version;
  std::atomic<int64_t> step;
  std::atomic<uint64_t> since;  // microseconds since 1970
  std::array<std::atomic<uint64_t>, 29> text;
};
static_assert(sizeof(Page) == kActivityBytes);
constexpr int kQuickLooks = 1000;
constexpr Voice kMainVoice = 1;
using Text = std::array<char, sizeof(Page::text)>;

struct Board {
  std::mutex mutex;
  std::vector<Page*> pages;
  Voice voice = kMainVoice;  // whose Doing counts
  int64_t step = 0;
  uint64_t since = 0;
  Text text{};
};

Board& board() {
  static auto* instance = new Board;  // outlives whatever tells something while the program ends
  return *instance;
}

uint64_t microseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

void write(Page& page, const Board& from) {
  const uint64_t version = page.version.load(std::memory_order_relaxed);
  page.version.store(version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  page.step.store(from.step, std::memory_order_relaxed);
  page.since.store(from.since, std::memory_order_relaxed);
  for (size_t i = 0; i < page.text.size(); ++i) {
    uint64_t word = 0;
    std::memcpy(&word, from.text.data() + i * sizeof word, sizeof word);
    page.text[i].store(word, std::memory_order_relaxed);
  }
  page.version.store(version + 2, std::memory_order_release);
}

Activity read(const Page& page) {
  Activity out;
  // Waits a quarter of a second at most for a page that is half written, as its writer may only
  // have lost its core. After that the writer has died, and the page is read as it is.
  for (int attempt = 0; attempt < kQuickLooks + 1250; ++attempt) {
    if (attempt >= kQuickLooks) std::this_thread::sleep_for(std::chrono::microseconds(200));
    const uint64_t before = page.version.load(std::memory_order_acquire);
    Text text;
    out.step = page.step.load(std::memory_order_relaxed);
    out.since = static_cast<double>(page.since.load(std::memory_order_relaxed)) * 1e-6;
    for (size_t i = 0; i < page.text.size(); ++i) {
      const uint64_t word = page.text[i].load(std::memory_order_relaxed);
      std::memcpy(text.data() + i * sizeof word, &word, sizeof word);
    }
    out.operation.assign(text.data(), ::strnlen(text.data(), text.size()));
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && before == page.version.load(std::memory_order_relaxed)) break;
  }
  return out;
}

void publish(Board& all) {
  all.since = microseconds();
  for (Page* page : all.pages) write(*page, all);
}

void update(const auto& change) {
  Board& all = board();
  const std::lock_guard lock(all.mutex);
  change(all);
  publish(all);
}

void set_text(Board& all, std::string_view operation) {
  const size_t length = std::min(operation.size(), all.text.size() - 1);
  all.text.fill(0);
  std::copy_n(operation.begin(), length, all.text.begin());
}

Voice first_voice() {
  static std::atomic<Voice> last{kMainVoice};
  return ::gettid() == ::getpid() ? kMainVoice : ++last;
}

thread_local Voice voice = first_voice();
thread_local ThreadOperation* own_operation = nullptr;

struct Failure {
  std::mutex mutex;
  std::string text;
};

Failure& failure() {
  static auto* instance = new Failure;
  return *instance;
}

}  // namespace

void publish_activity(void* page) {
  update([&](Board& all) { all.pages.push_back(static_cast<Page*>(page)); });
}

void retract_activity(void* page) {
  update([&](Board& all) { std::erase(all.pages, static_cast<Page*>(page)); });
}

bool publish_activity_to_file(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  void* page = MAP_FAILED;
  if (::posix_fallocate(fd, 0, kActivityBytes) == 0) {  // or a full disk would end the process
    page = ::mmap(nullptr, kActivityBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  ::close(fd);
  if (page == MAP_FAILED) return false;
  publish_activity(page);
  return true;
}

Voice own_voice() {
  return voice;
}

void speak_as(Voice other) {
  voice = other;
}

void tell_step(int64_t step) {
  update([&](Board& all) {
    all.step = step;
    all.voice = voice;
  });
}

void tell_operation(std::string_view operation) {
  update([&](Board& all) {
    set_text(all, operation);
    all.voice = voice;
  });
  if (own_operation != nullptr) own_operation->tell(operation);
}

std::string ThreadOperation::tell(std::string_view operation) {
  const std::lock_guard lock(mutex_);
  return std::exchange(text_, std::string(operation));
}

std::string ThreadOperation::told() const {
  const std::lock_guard lock(mutex_);
  return text_;
}

void tell_too(ThreadOperation* own) {
  own_operation = own;
}

void note_failure(const std::string& who_and_where) {
  const std::lock_guard lock(failure().mutex);
  failure().text = who_and_where;
}

std::string noted_failure() {
  const std::lock_guard lock(failure().mutex);
  return failure().text;
}

std::optional<std::string> Doing::tell_own(std::string_view operation) {
  if (own_operation == nullptr) return std::nullopt;
  return own_operation->tell(operation);
}

std::optional<std::string> Doing::tell(std::string_view operation) {
  Board& all = board();
  const std::lock_guard lock(all.mutex);
  if (all.voice != voice) return std::nullopt;
  std::string before = all.text.data();
  set_text(all, operation);
  publish(all);
  return before;
}

Activity current_activity() {
  Board& all = board();
  const std::lock_guard lock(all.mutex);
  return {all.step, all.text.data(), static_cast<double>(all.since) * 1e-6};
}

Activity read_activity(const void* page) {
  return read(*static_cast<const Page*>(page));
}

std::optional<Activity> read_activity_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  alignas(Page) std::array<char, kActivityBytes> bytes{};
  if (!file.read(bytes.data(), bytes.size())) return std::nullopt;
  return read_activity(bytes.data());
}

std::string to_text(const Activity& activity) {
  std::string text = activity.step > 0 ? fmt::format("step {}", activity.step) : "";
  if (!text.empty() && !activity.operation.empty()) text += ", ";
  return text + activity.operation;
}

}  // namespace convoy
