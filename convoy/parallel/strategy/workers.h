#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace convoy::parallel {

/// A thread for each of some devices; all run the same function side by side, again and again.
class Workers {
 public:
  /// Starts a thread for each device, which computes on it with `threads` intra-op threads.
  Workers(const std::vector<at::Device>& devices, int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Failure of a run.
  struct Failure {
    int index = 0;             ///< the thread that is to blame
    std::string operation;     ///< the last operation that it told
    std::exception_ptr error;  ///< its own, or of one that waited for it
    bool is_stuck = false;     ///< whether it has not ended
  };

  /// Runs `work(index)` on every thread and returns when all are done. Calls `on_error` as soon as
  /// one throws, so that the others can be woken. To blame is the first whose error was no
  /// CommunicationError. Where all errors are such, it is a thread that has not ended some seconds
  /// later, which is left behind with its copy of `work`, else the first. A run after one with a
  /// thread left behind is an error.
  std::optional<Failure> try_run(std::function<void(int)> work,
                                 const std::function<void()>& on_error);
  /// Runs work like try_run(), and throws the error of a failure.
  void run(std::function<void(int)> work, const std::function<void()>& on_error);

  /// Peak bytes of the host's tensors of a thread since the last call, above what it holds now; 0
  /// in a program whose allocator does not count.
  int64_t take_passing_bytes(int index);

 private:
  struct State;
  static void loop(std::shared_ptr<State> state, int index, at::Device device, int threads);
  void end();

  std::shared_ptr<State> state_;  // of the threads, too, which may outlive this
  std::vector<std::thread> threads_;
};

}  // namespace convoy::parallel
