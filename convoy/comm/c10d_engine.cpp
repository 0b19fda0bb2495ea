#include "convoy/comm/c10d_engine.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/pending.h"
#include "convoy/comm/within.h"

namespace convoy::comm {

namespace {

/// Returns the message without the source location of another library, with which messages of Gloo
/// begin.
std::string without_place(const std::string& message) {
  const auto end = message.find("] ");
  return message.rfind('[', 0) == 0 && end != std::string::npos ? message.substr(end + 2) : message;
}

/// Throws a CommunicationError. `others`: ranks that this one may have waited for, as the backends
/// do not tell which of them is missing.
[[noreturn]] void rethrow(const std::string& label, const std::exception& error,
                          const std::vector<int>& others) {
  const auto what = reason_of(error);
  const bool waited =
      what.find("imed out") != std::string::npos || what.find("timeout") != std::string::npos;
  throw CommunicationError(
      fmt::format("[comm] '{}' did not finish: {}; another rank may have failed", label, what),
      waited ? others : std::vector<int>{});
}

class C10dWork : public Work {
 public:
  C10dWork(c10::intrusive_ptr<c10d::Work> work, std::string label, std::vector<int> others)
      : work_(std::move(work)), label_(std::move(label)), others_(std::move(others)) {}

  void wait() override {
    if (told_) return;
    try {
      work_->wait();
      // NCCL's wait() is one of the stream and throws no error of the collective.
      if (const auto error = work_->exception()) std::rethrow_exception(error);
    } catch (const std::exception& error) {
      told_ = true;
      rethrow(label_, error, others_);
    }
  }
  bool done() const override { return work_->isCompleted(); }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  bool told_ = false;  // what went wrong
  std::string label_;
  std::vector<int> others_;
};

bool all_equal(const Counts& counts) {
  return std::equal(counts.begin() + 1, counts.end(), counts.begin());
}

c10d::ReduceOp to_c10d(ReduceOp op) {
  return op == ReduceOp::Max ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
}

class C10dEngine : public Engine {
 public:
  C10dEngine(const char* name, c10::intrusive_ptr<c10d::Backend> backend,
             const std::vector<int>& names, std::chrono::milliseconds timeout)
      : name_(name),
        is_nccl_(std::string_view(name) == "nccl"),
        backend_(std::move(backend)),
        timeout_(timeout) {
    for (int r = 0; r < backend_->getSize(); ++r) {
      if (r == backend_->getRank()) continue;
      others_.push_back(names.empty() ? r : names.at(static_cast<size_t>(r)));
    }
  }

  const char* name() const override { return name_; }
  bool sends_when_asked() const override { return !is_nccl_; }

  std::shared_ptr<Work> all_reduce(at::Tensor tensor, ReduceOp op, const Call& call) override {
    c10d::AllreduceOptions options;
    options.reduceOp = to_c10d(op);
    std::vector<at::Tensor> tensors{std::move(tensor)};
    return start(call, [&] { return backend_->allreduce(tensors, options); });
  }

  std::shared_ptr<Work> reduce_scatter(at::Tensor out, at::Tensor in, const Counts& counts,
                                       ReduceOp op, const Call& call) override {
    if (is_nccl_ && all_equal(counts)) {
      c10d::ReduceScatterOptions options;
      options.reduceOp = to_c10d(op);
      return start(call, [&] { return backend_->_reduce_scatter_base(out, in, options); });
    }
    // Gloo's own does an all-reduce for each rank; one is enough.
    const auto rank = static_cast<size_t>(backend_->getRank());
    auto copy = in.clone();
    const int64_t begin =
        std::accumulate(counts.begin(), counts.begin() + static_cast<int64_t>(rank), int64_t{0});
    auto part = copy.narrow(0, begin, counts[rank]);
    return then(all_reduce(copy, op, call), [out, part]() mutable { out.copy_(part); });
  }

  std::shared_ptr<Work> all_gather(at::Tensor out, at::Tensor in, const Counts& counts,
                                   const Call& call) override {
    if (all_equal(counts)) return gather_equal(std::move(out), std::move(in), call);
    const int64_t most = *std::max_element(counts.begin(), counts.end());
    auto padded = at::zeros({most}, in.options());
    padded.narrow(0, 0, in.numel()).copy_(in);
    auto all = at::empty({static_cast<int64_t>(counts.size()) * most}, out.options());
    return then(gather_equal(all, padded, call), [out, all, counts, most]() mutable {
      int64_t begin = 0;
      for (size_t r = 0; r < counts.size(); ++r) {
        out.narrow(0, begin, counts[r])
            .copy_(all.narrow(0, static_cast<int64_t>(r) * most, counts[r]));
        begin += counts[r];
      }
    });
  }

  std::shared_ptr<Work> broadcast(at::Tensor tensor, int root, const Call& call) override {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    std::vector<at::Tensor> tensors{std::move(tensor)};
    return start(call, [&] { return backend_->broadcast(tensors, options); });
  }

  std::shared_ptr<Work> all_to_all(at::Tensor out, const Counts& receive, at::Tensor in,
                                   const Counts& send, const Call& call) override {
    auto from = receive, to = send;
    return start(call, [&] { return backend_->alltoall_base(out, in, from, to); });
  }

  std::shared_ptr<Work> send(at::Tensor tensor, int to, const Call& call) override {
    std::vector<at::Tensor> tensors{std::move(tensor)};
    return start(call, [&] { return backend_->send(tensors, to, 0); });
  }

  std::shared_ptr<Work> receive(at::Tensor tensor, int from, const Call& call) override {
    std::vector<at::Tensor> tensors{std::move(tensor)};
    return start(call, [&] { return backend_->recv(tensors, from, 0); });
  }

  std::shared_ptr<Work> send_receive(at::Tensor out, int to, at::Tensor in, int from,
                                     const Call& call) override {
    if (!is_nccl_) return Engine::send_receive(std::move(out), to, std::move(in), from, call);
    std::vector<at::Tensor> sent{std::move(out)}, received{std::move(in)};
    return start(call, [&] {
      backend_->startCoalescing();
      backend_->send(sent, to, 0);
      backend_->recv(received, from, 0);
      return backend_->endCoalescing();
    });
  }

  void connect_pairs(const Pairs& pairs, at::Tensor word, const Call& call) override {
    if (!is_nccl_) return;
    const int own = own_rank();
    for (const auto& [first, second] : pairs) {
      if (own == first || own == second) connect(first + second - own, own == first, word, call);
    }
  }

  void abort(const std::string&) override { backend_->abort(); }

 private:
  std::shared_ptr<Work> gather_equal(at::Tensor out, at::Tensor in, const Call& call) {
    if (is_nccl_) return start(call, [&] { return backend_->_allgather_base(out, in); });
    std::vector<std::vector<at::Tensor>> outputs(1);
    const int size = backend_->getSize();
    auto rows = out.view({size, -1});
    for (int64_t r = 0; r < size; ++r) outputs[0].push_back(rows[r]);
    std::vector<at::Tensor> inputs{std::move(in)};
    return start(call, [&] { return backend_->allgather(outputs, inputs); });
  }

  /// Connects to `peer` by a word in each direction. The host waits in NCCL until both have
  /// arrived.
  void connect(int peer, bool speaks_first, const at::Tensor& word, const Call& call) {
    const std::vector<int> other{
        others_.at(static_cast<size_t>(peer - (peer > own_rank() ? 1 : 0)))};
    const auto label = fmt::format("{}: ranks {} and {}", call.label, own_rank(), peer);
    using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;
    std::optional<Works> works;
    try {
      works = within(timeout_, [backend = backend_, peer, speaks_first, word] {
        std::vector<at::Tensor> out{word}, in{at::empty_like(word)};
        Works made;
        if (speaks_first) made.push_back(backend->send(out, peer, 0));
        made.push_back(backend->recv(in, peer, 0));
        if (!speaks_first) made.push_back(backend->send(out, peer, 0));
        return made;
      });
    } catch (const std::exception& error) {
      rethrow(label, error, other);
    }
    if (!works) {
      throw CommunicationError(
          fmt::format("[comm] '{}' did not finish within {:g} s; another rank may have failed",
                      label, static_cast<double>(timeout_.count()) / 1000),
          other);
    }
    for (const auto& work : *works) {
      add_pending({std::make_shared<C10dWork>(work, label, other), label, other, timeout_});
    }
    finish_pending();
  }
  int own_rank() const { return backend_->getRank(); }

  template <class Start>
  std::shared_ptr<Work> start(const Call& call, Start start) {
    try {
      const NoBrokenPipes none;
      auto work = std::make_shared<C10dWork>(start(), call.label, others_);
      if (is_nccl_) add_pending({work, call.label, others_, timeout_});
      return work;
    } catch (const std::exception& error) {
      rethrow(call.label, error, others_);
    }
  }

  const char* name_;
  bool is_nccl_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  std::chrono::milliseconds timeout_;
  std::vector<int> others_;
};

}  // namespace

std::string reason_of(const std::exception& error) {
  const std::string_view text = error.what();
  auto line = without_place(first_line(error.what()));
  constexpr std::string_view kReason = "Last error:\n";
  const auto at = text.find(kReason);
  if (at != std::string_view::npos) {
    line += "; " + trim(first_line(std::string(text.substr(at + kReason.size()))));
  }
  return line;
}

std::shared_ptr<Engine> make_c10d_engine(const char* name,
                                         c10::intrusive_ptr<c10d::Backend> backend,
                                         const std::vector<int>& names,
                                         std::chrono::milliseconds timeout) {
  return std::make_shared<C10dEngine>(name, std::move(backend), names, timeout);
}

}  // namespace convoy::comm
