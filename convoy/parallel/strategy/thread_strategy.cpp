#include <algorithm>
#include <map>
#include <utility>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/comm/groups.h"
#include "convoy/comm/thread/thread_engine.h"
#include "convoy/parallel/strategy/strategy.h"
#include "convoy/parallel/strategy/workers.h"

namespace convoy::parallel {

namespace {

/// Throws for a module that the model factory returned twice: threads that share one would mix up
/// their gradients.
class OwnModules {
 public:
  void check(const nn::BlockList& blocks) {
    for (const auto& block : blocks) {
      for (const auto& param : block->params()) {
        const auto* leaf = param->leaf().unsafeGetTensorImpl();
        if (!param->leaf().defined() ||
            leaves_.insert({leaf, block.get()}).first->second == block.get()) {
          continue;
        }
        fail<UsageError>("parallel",
                         "the model factory returned the same module twice; threads of one process "
                         "need one for each: make the module inside the factory");
      }
    }
  }

 private:
  std::map<const void*, const nn::Block*> leaves_;
};

/// Groups and replicas that the threads work on. A stuck thread keeps them alive.
struct Ranks {
  std::vector<comm::Groups> groups;
  std::vector<std::unique_ptr<Replica>> replicas;

  void abort(const std::string& reason) const {
    for (const auto& group : groups) group.abort(reason);
  }
};

class ThreadStrategy : public Strategy {
 public:
  ThreadStrategy(const ModelFactory& factory, const std::vector<at::Device>& devices, int stages,
                 const ReplicaOptions& options, int threads, std::chrono::milliseconds timeout)
      : workers_(devices, threads) {
    const auto num_ranks = static_cast<int>(devices.size());
    comm::ThreadConnector connector(timeout, num_ranks);
    for (int r = 0; r < num_ranks; ++r) {
      const auto connect = [&](const std::vector<int>& ranks, const std::string& name) {
        return connector.connect(r, ranks, name);
      };
      ranks_->groups.emplace_back(Mesh({.pipeline = stages}, r, num_ranks), connect);
    }
    const bool shares = shares_weights(devices, options);
    OwnModules modules;
    for (int r = 0; r < num_ranks; ++r) {
      auto own = options;
      own.device = devices[static_cast<size_t>(r)];
      own.parallelism.offload.rank = r;
      auto blocks = factory();
      modules.check(blocks);
      const auto& groups = ranks_->groups[static_cast<size_t>(r)];
      const int lender = groups.mesh.ranks_along(kRows).front();
      ranks_->replicas.push_back(
          std::make_unique<Replica>(std::move(blocks), groups, own, shares,
                                    shares && r != lender ? &replica(lender) : nullptr));
    }
    each([](Ranks& all, size_t r) { all.replicas[r]->start(); });
  }

  int num_ranks() const override { return mesh().degree(kRows); }
  int first_rank() const override { return 0; }
  int num_local_ranks() const override { return num_ranks(); }

  StepResult step(const std::vector<std::vector<MicroBatch>>& micro_batches, const StepInput& input,
                  const OptimizerOptions& optimizer) override {
    const auto results = std::make_shared<std::vector<StepResult>>(ranks_->replicas.size());
    each([results, micro_batches, input, optimizer](Ranks& all, size_t r) {
      const auto row = static_cast<size_t>(all.groups[r].mesh.place(kRows));
      (*results)[r] = all.replicas[r]->step(micro_batches.at(row), input, optimizer);
    });
    return results->front();
  }

  void set_micro_batches(int64_t count, int64_t rows) override {
    each([count, rows](Ranks& all, size_t r) { all.replicas[r]->set_micro_batches(count, rows); });
  }

  std::vector<nn::Bundle> forward(const std::vector<MicroBatch>& batches, nn::Mode mode) override {
    const auto outputs = std::make_shared<std::vector<nn::Bundle>>(ranks_->replicas.size());
    each([outputs, batches, mode](Ranks& all, size_t r) {
      const auto row = static_cast<size_t>(all.groups[r].mesh.place(kRows));
      (*outputs)[r] = all.replicas[r]->forward(batches.at(row), mode);
    });
    std::vector<nn::Bundle> out(static_cast<size_t>(num_ranks()));
    for (size_t r = 0; r < outputs->size(); ++r) {
      auto& bundle = (*outputs)[r];  // empty but where the last block is
      const auto row = static_cast<size_t>(ranks_->groups[r].mesh.place(kRows));
      if (!bundle.empty()) out[row] = std::move(bundle);
    }
    return out;
  }

  State weights() override {
    return merge([](Replica& replica) { return replica.weights(); });
  }
  State moments() override {
    return merge([](Replica& replica) { return replica.moments(); });
  }
  void share(bool moments) override {
    each([moments](Ranks& all, size_t r) { all.replicas[r]->share(moments); });
  }
  Replica& replica() override { return replica(0); }
  std::vector<Replica*> replicas() override {
    std::vector<Replica*> out;
    for (const auto& replica : ranks_->replicas) out.push_back(replica.get());
    return out;
  }
  int64_t take_passing_bytes(int replica) override { return workers_.take_passing_bytes(replica); }
  const comm::Group& processes() const override { return alone_; }
  comm::Traffic traffic() const override { return ranks_->replicas[0]->traffic(); }

 private:
  const Mesh& mesh() const { return ranks_->groups[0].mesh; }
  Replica& replica(int rank) { return *ranks_->replicas[static_cast<size_t>(rank)]; }

  /// Whether the data ranks of each stage are on one device, and use one copy of its weights.
  bool shares_weights(const std::vector<at::Device>& devices, const ReplicaOptions& options) const {
    if (options.parallelism.zero > 0 || options.parallelism.offload.any() || num_ranks() == 1)
      return false;
    for (const auto& groups : ranks_->groups) {
      const auto together = groups.mesh.ranks_along(kRows);
      const auto first = devices[static_cast<size_t>(together.front())];
      if (devices[static_cast<size_t>(groups.mesh.rank())] != first) return false;
    }
    return true;
  }

  template <class Of>
  State merge(const Of& of) {
    std::vector<State> states;
    for (auto& replica : ranks_->replicas) states.push_back(of(*replica));
    return merged(std::move(states));
  }

  void each(std::function<void(Ranks& all, size_t rank)> work) {
    const auto failure =
        workers_.try_run([ranks = ranks_, work = std::move(work)](
                             int rank) { work(*ranks, static_cast<size_t>(rank)); },
                         [ranks = ranks_] { ranks->abort("another rank failed"); });
    if (failure) throw_for(*failure);
  }

  std::string name_of(int rank) const {
    const auto own = mesh().of(rank);
    const int stages = own.degree(Axis::Pipeline);
    if (stages == 1) return fmt::format("replica {} of {}", rank, num_ranks());
    auto text = fmt::format("stage {} of {}", own.place(Axis::Pipeline), stages);
    if (num_ranks() > 1) {
      text += fmt::format(", replica {} of {}", own.place(kRows), num_ranks());
    }
    return text;
  }

  /// Throws the failure of a thread, and names the rank where the error does not.
  [[noreturn]] void throw_for(const Workers::Failure& failure) const {
    auto where = name_of(failure.index);
    if (!failure.operation.empty()) {
      where +=
          fmt::format(", in {}", convoy::to_text({current_activity().step, failure.operation}));
    }
    try {
      std::rethrow_exception(failure.error);
    } catch (const CommunicationError& error) {
      if (!failure.is_stuck) throw;
      fail<CommunicationError>("parallel", "the others waited in vain for {}: {}", where,
                               error.what());
    } catch (const UsageError&) {
      throw;
    } catch (const Error& error) {
      if (!error.on_all_ranks()) note_failure(where);
      throw;
    } catch (...) {
      note_failure(where);
      throw;
    }
  }

  comm::Group alone_;
  std::shared_ptr<Ranks> ranks_ = std::make_shared<Ranks>();
  Workers workers_;
};

}  // namespace

std::unique_ptr<Strategy> make_thread_strategy(const ModelFactory& factory,
                                               const std::vector<at::Device>& devices,
                                               const ReplicaOptions& options, int threads,
                                               std::chrono::milliseconds timeout, int stages) {
  return std::make_unique<ThreadStrategy>(factory, devices, stages, options, threads, timeout);
}

}  // namespace convoy::parallel
