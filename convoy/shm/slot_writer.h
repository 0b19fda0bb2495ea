#pragma once

#include <cstddef>

namespace convoy::shm {

/// Copies into memory that ranks on other cores have read and will read again.
///
/// Between cores that share a cache an ordinary copy is best. Between cores that do not (on other
/// chiplets or sockets) each line has to be fetched back first, at 20 to 40 ns: there it is three
/// to four times as fast to write past the caches. Which of the two it is, is measured all the
/// time: a virtual machine does not tell, and its host may move its cores while they run.
class SlotWriter {
 public:
  /// Sets the time of a cache line, in nanoseconds, above which it came from afar; with a source in
  /// main memory a near one takes about 10.
  explicit SlotWriter(double far_ns_per_line = 16) : far_ns_per_line_(far_ns_per_line) {}

  /// Copies `bytes` bytes; they are written when it returns, so the caller may tell the others.
  void write(void* to, const void* from, size_t bytes);

 private:
  double far_ns_per_line_;
  bool far_ = false;
  int slow_ = 0;     ///< ordinary copies in a row that took long
  int written_ = 0;  ///< pieces written past the caches since the last ordinary copy
};

}  // namespace convoy::shm
