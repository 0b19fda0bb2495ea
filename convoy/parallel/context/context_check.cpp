#include "convoy/parallel/context/context_check.h"

#include "convoy/base/error.h"
#include "convoy/parallel/first_names.h"

namespace convoy::parallel {

void check_context_ranks(const ModelDecl& model, int num_ranks) {
  if (num_ranks == 1) return;
  std::vector<std::string> unable;
  for (const auto& block : model.blocks) {
    if (!block.takes_context_ranks) unable.push_back(block.name);
  }
  if (unable.empty()) return;
  fail<UsageError>("parallel",
                   "context_parallel_size = {} needs blocks that compute with some positions of "
                   "each row; {} of this model's {} do not: {} (docs/context.md tells which models "
                   "have such); try --tensor_parallel_size",
                   num_ranks, unable.size(), model.blocks.size(), first_names(unable));
}

}  // namespace convoy::parallel
