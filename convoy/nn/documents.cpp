#include "convoy/nn/documents.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/to_host.h"

namespace convoy::nn {

at::Tensor documents_of(const Bundle& batch) {
  const auto found = batch.find("documents");
  return found != batch.end() && batch.contains("input_ids") ? found->second : at::Tensor();
}

std::vector<DocumentPlace> places_of_documents(const at::Tensor& documents) {
  const auto here = comm::download(documents).to(at::kLong).contiguous();
  const int64_t B = here.size(0), T = here.size(1);
  const auto* number = here.const_data_ptr<int64_t>();
  std::vector<DocumentPlace> out;
  for (int64_t row = 0; row < B; ++row, number += T) {
    for (int64_t begin = 0, end = 0; begin < T; begin = end) {
      while (end < T && number[end] == number[begin]) ++end;
      out.push_back({row, begin, end - begin, number[begin] < 0});
    }
  }
  return out;
}

bool are_whole_rows(const std::vector<DocumentPlace>& places, const at::Tensor& documents) {
  return std::ssize(places) == documents.size(0) &&
         std::none_of(places.begin(), places.end(),
                      [](const auto& place) { return place.is_padding; });
}

void check_take_documents(const BlockList& blocks, int num_context_ranks) {
  std::vector<std::string> unable;
  for (const auto& block : blocks) {
    if (!block->takes_documents()) unable.push_back(block->name());
  }
  if (!unable.empty()) {
    fail<UsageError>("models",
                     "rows of several documents need blocks that keep these apart, as those of "
                     "GPT-2 and Llama do; {} of this model's {} do not, such as {}; try a row for "
                     "each document",
                     unable.size(), plural(std::ssize(blocks), "block"), unable.front());
  }
  if (num_context_ranks > 1) {
    fail<UsageError>("models",
                     "rows of several documents do not go with context_parallel_size = {}, whose "
                     "ranks share out the positions of each row; try --context_parallel_size 1, or "
                     "a row for each document",
                     num_context_ranks);
  }
}

void check_documents(const Bundle& batch, const BlockList& blocks, int num_context_ranks) {
  const auto documents = documents_of(batch);
  if (!documents.defined()) return;
  check_take_documents(blocks, num_context_ranks);
  const auto& ids = batch.at("input_ids");
  if (documents.sizes() == ids.sizes()) return;
  fail<UsageError>("models",
                   "the batch's 'documents' have sizes {}; expected those of input_ids, {}",
                   fmt::join(documents.sizes(), " x "), fmt::join(ids.sizes(), " x "));
}

}  // namespace convoy::nn
