#include "convoy/train/loop/torch_seed.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <utility>

namespace convoy::train {

void seed_torch(uint64_t seed) {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

parallel::ModelFactory seeded(parallel::ModelFactory factory, uint64_t seed) {
  if (!factory) return factory;
  return [factory = std::move(factory), seed] {
    static std::mutex one_at_a_time;  // the generator is shared by all threads of the process
    const std::lock_guard lock(one_at_a_time);
    seed_torch(seed);
    return factory();
  };
}

}  // namespace convoy::train
