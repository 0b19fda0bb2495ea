#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "convoy/comm/engine.h"

namespace convoy::comm {

/// Messages between the threads of a group, of tensors on devices: whoever receives copies what its
/// sender has there, in the order sent. The copy waits on the devices for what is computed before,
/// and the sender's device for the copy; the host waits for the other thread's call only.
class ThreadMailbox {
 public:
  /// `names`: how the ranks are called in messages; none: by their numbers here.
  ThreadMailbox(int size, std::chrono::milliseconds timeout, std::vector<int> names = {});
  ~ThreadMailbox();

  /// Sends a tensor; the work ends when the receiver has made its copy.
  std::shared_ptr<Work> send(const at::Tensor& tensor, int from, int to, const std::string& label);
  /// Receives a tensor. The work ends with a CommunicationError naming `label` on abort, on
  /// timeout, and where the sent tensor has another size or label.
  std::shared_ptr<Work> receive(const at::Tensor& tensor, int from, int to,
                                const std::string& label);

  void abort(const std::string& reason);

 private:
  struct Message;
  class SendWork;
  class ReceiveWork;
  using Lock = std::unique_lock<std::mutex>;

  int name(int rank) const { return names_.empty() ? rank : names_.at(static_cast<size_t>(rank)); }
  std::deque<std::shared_ptr<Message>>& queue(int from, int to) {
    return queues_.at(static_cast<size_t>(from * size_ + to));
  }
  /// Waits until `is_there` is true, as `rank` that waits for `other`.
  template <class IsThere>
  void wait(Lock& lock, int rank, int other, const std::string& label, const IsThere& is_there);
  void copy(at::Tensor to, int from, int rank, const std::string& label);

  const int size_;
  const std::chrono::milliseconds timeout_;
  const std::vector<int> names_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::deque<std::shared_ptr<Message>>> queues_;  // [from x size + to]
  bool aborted_ = false;
  std::string reason_;
};

}  // namespace convoy::comm
