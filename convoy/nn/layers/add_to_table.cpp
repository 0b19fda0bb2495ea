#include "convoy/nn/layers/add_to_table.h"

#include <ATen/ATen.h>

#include "convoy/nn/layers/layers.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::nn {

void add_to_table(const ParamPtr& table, const at::Tensor& ids, const at::Tensor& rows,
                  const comm::Group& tensor) {
  if (!is_cut(table, 0, tensor)) {
    return table->add_to_grad([&](at::Tensor& to) { add_rows(to, table->places_of(ids), rows); });
  }
  const int64_t here = table->shape()[0];
  if (here == 0) return;  // a small table may have fewer rows than there are ranks
  const auto places = ids - table->begin();
  const auto elsewhere = places.lt(0).logical_or_(places.ge(here));
  table->add_to_grad([&](at::Tensor& to) {
    add_rows(to, places.masked_fill(elsewhere, 0), rows.masked_fill(elsewhere.unsqueeze(1), 0));
  });
}

}  // namespace convoy::nn
