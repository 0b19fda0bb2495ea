#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace convoy {

/// A file without a name, for what has no room in memory: however this process ends, it is gone.
/// Reads and writes are done by threads in large pieces, past the page cache where the folder
/// allows that.
class ScratchFile {
 public:
  /// Alignment of places, sizes and memory, so that the page cache can be bypassed.
  static constexpr size_t kAlignment = 4096;
  static constexpr size_t aligned(size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// Takes `bytes` on the disk, which read as zeros. `what` begins its errors: whose file it is.
  /// Throws FileError where the folder is missing or full, or nobody may write there.
  ScratchFile(const std::filesystem::path& folder, size_t bytes, std::string what);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  /// A read or write under way.
  class Ticket {
   public:
    Ticket() = default;
    /// Returns when it is done. Throws FileError.
    void wait();

   private:
    friend class ScratchFile;
    struct State;
    std::shared_ptr<State> state_;
  };

  /// Starts to read into, or to write, `memory`. Leave it untouched until wait() returned.
  /// Transfers under way must not overlap.
  Ticket read(size_t place, void* memory, size_t bytes);
  Ticket write(size_t place, const void* memory, size_t bytes);

  /// Maps these bytes into memory, for when no transfer of them is under way. Changes are in the
  /// file once the last owner is gone.
  std::shared_ptr<void> map(size_t place, size_t bytes) const;

  /// Whether reads and writes bypass the page cache.
  bool is_direct() const { return direct_; }

 private:
  struct Piece;

  void open(const std::filesystem::path& folder);
  void reserve(size_t bytes);
  void close();  // once what is under way is done
  Ticket start(bool writes, size_t place, char* memory, size_t bytes);
  void loop();
  void carry_out(const Piece& piece);
  std::string trouble(const char* doing, int error) const;

  std::filesystem::path folder_;
  std::string what_;
  int fd_ = -1;
  std::atomic<bool> direct_{false};
  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<Piece> pieces_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace convoy
