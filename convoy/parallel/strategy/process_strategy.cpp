#include <algorithm>

#include "convoy/base/tensor_memory.h"
#include "convoy/parallel/strategy/strategy.h"

namespace convoy::parallel {

namespace {

class ProcessStrategy : public Strategy {
 public:
  ProcessStrategy(const ModelFactory& factory, comm::Groups groups, const ReplicaOptions& options)
      : replica_(factory(), std::move(groups), options) {
    replica_.start();
  }

  int num_ranks() const override { return replica_.groups().rows.size(); }
  int first_rank() const override { return replica_.groups().rows.rank(); }
  int num_local_ranks() const override { return 1; }

  StepResult step(const std::vector<std::vector<MicroBatch>>& micro_batches, const StepInput& input,
                  const OptimizerOptions& optimizer) override {
    return replica_.step(micro_batches.at(0), input, optimizer);
  }

  void set_micro_batches(int64_t count, int64_t rows) override {
    replica_.set_micro_batches(count, rows);
  }

  std::vector<nn::Bundle> forward(const std::vector<MicroBatch>& batches, nn::Mode mode) override {
    return {replica_.forward(batches.at(0), mode)};
  }

  State weights() override { return replica_.weights(); }
  State moments() override { return replica_.moments(); }
  void share(bool moments) override { replica_.share(moments); }
  Replica& replica() override { return replica_; }
  std::vector<Replica*> replicas() override { return {&replica_}; }
  int64_t take_passing_bytes(int /*replica*/) override {
    // The allocator's own count, which rounds sizes up.
    const int64_t held = tensor_memory.held();
    return std::max<int64_t>(0, tensor_memory.take_peak() - held);
  }
  const comm::Group& processes() const override { return replica_.world(); }
  comm::Traffic traffic() const override { return replica_.traffic(); }

 private:
  Replica replica_;
};

}  // namespace

std::unique_ptr<Strategy> make_process_strategy(const ModelFactory& factory, comm::Groups groups,
                                                const ReplicaOptions& options) {
  return std::make_unique<ProcessStrategy>(factory, std::move(groups), options);
}

}  // namespace convoy::parallel
