#include <algorithm>
#include <map>

#include "convoy/base/error.h"
#include "convoy/comm/groups.h"
#include "convoy/comm/thread/thread_engine.h"
#include "convoy/parallel/data/strategy.h"
#include "convoy/parallel/data/workers.h"

namespace convoy::parallel {

namespace {

class ThreadStrategy : public Strategy {
 public:
  ThreadStrategy(const ModelFactory& factory, const std::vector<at::Device>& devices,
                 const ReplicaOptions& options, int threads, std::chrono::milliseconds timeout)
      : workers_(devices, threads) {
    comm::ThreadConnector connector(timeout);
    const auto num_ranks = static_cast<int>(devices.size());
    for (int r = 0; r < num_ranks; ++r) {
      const auto connect = [&](const std::vector<int>& ranks, const std::string& name) {
        return connector.connect(r, ranks, name);
      };
      groups_.emplace_back(schedule::Mesh({}, r, num_ranks), connect);
    }
    const bool one_device =
        std::all_of(devices.begin(), devices.end(), [&](auto d) { return d == devices[0]; });
    const bool shares = options.zero == 0 && one_device && devices.size() > 1;
    for (size_t r = 0; r < devices.size(); ++r) {
      auto own = options;
      own.device = devices[r];
      own.offload.rank = static_cast<int>(r);
      auto blocks = factory();
      check_own(blocks);
      replicas_.push_back(
          std::make_unique<Replica>(std::move(blocks), groups_[r], own, shares,
                                    shares && r > 0 ? replicas_[0].get() : nullptr));
    }
    each([&](int r) { replicas_[static_cast<size_t>(r)]->start(); });
  }

  int num_ranks() const override { return static_cast<int>(replicas_.size()); }
  int first_rank() const override { return 0; }
  int num_local_ranks() const override { return num_ranks(); }

  StepResult step(const std::vector<std::vector<MicroBatch>>& micro_batches, const StepInput& input,
                  const OptimizerOptions& optimizer) override {
    std::vector<StepResult> results(replicas_.size());
    each([&](int r) {
      auto i = static_cast<size_t>(r);
      results[i] = replicas_[i]->step(micro_batches.at(i), input, optimizer);
    });
    return results[0];
  }

  std::vector<nn::Bundle> forward(const std::vector<MicroBatch>& batches, nn::Mode mode) override {
    std::vector<nn::Bundle> out(replicas_.size());
    each([&](int r) {
      auto i = static_cast<size_t>(r);
      out[i] = replicas_[i]->forward(batches.at(i), mode);
    });
    return out;
  }

  State weights() override {
    return merge([](Replica& replica) { return replica.weights(); });
  }
  State moments() override {
    return merge([](Replica& replica) { return replica.moments(); });
  }
  void share(bool moments) override {
    each([&](int r) { replicas_[static_cast<size_t>(r)]->share(moments); });
  }
  Replica& replica() override { return *replicas_[0]; }
  const comm::Group& processes() const override { return alone_; }
  comm::Traffic traffic() const override { return replicas_[0]->traffic(); }

 private:
  /// Threads that share a module would mix up their gradients.
  void check_own(const nn::BlockList& blocks) {
    for (const auto& block : blocks) {
      for (const auto& param : block->params()) {
        const auto* leaf = param->leaf().unsafeGetTensorImpl();
        if (!param->leaf().defined() ||
            leaves_.insert({leaf, block.get()}).first->second == block.get()) {
          continue;
        }
        fail<UsageError>("parallel",
                         "the model factory returned the same module twice; DataParallel needs one "
                         "for each replica: make the module inside the factory");
      }
    }
  }

  template <class Of>
  State merge(const Of& of) {
    std::vector<State> states;
    for (auto& replica : replicas_) states.push_back(of(*replica));
    return merged(std::move(states));
  }

  void each(const std::function<void(int)>& work) {
    workers_.run(work, [this] { groups_[0].world.abort("another replica failed"); });
  }

  std::map<const void*, const nn::Block*> leaves_;
  std::vector<comm::Groups> groups_;
  comm::Group alone_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  Workers workers_;
};

}  // namespace

std::unique_ptr<Strategy> make_thread_strategy(const ModelFactory& factory,
                                               const std::vector<at::Device>& devices,
                                               const ReplicaOptions& options, int threads,
                                               std::chrono::milliseconds timeout) {
  return std::make_unique<ThreadStrategy>(factory, devices, options, threads, timeout);
}

}  // namespace convoy::parallel
