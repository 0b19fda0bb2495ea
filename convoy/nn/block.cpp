#include "convoy/nn/block.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "convoy/base/error.h"

namespace convoy::nn {

Bundle Block::serve(const Context&) {
  return {};
}

std::string Block::cost_key() const {
  return fmt::format("{}", fmt::ptr(this));
}

StepIds StepIds::of(const at::Tensor& told) {
  const auto [ids, places, counts] = at::_unique2(told, true, false, true);  // on the host
  return {ids, counts};
}

at::Tensor Block::told_ids(const Bundle&, const Context&) {
  fail<InternalError>("nn", "block '{}' tells no ids", name_);
}

at::Tensor Block::rows_read(const Param& table, const Bundle&, const Context&) {
  fail<InternalError>("nn", "block {} cannot tell which rows of {} it reads", name_,
                      table.spec().name);
}

ParamPtr Block::declare_matrix(std::string name, std::vector<int64_t> shape, Init init,
                               parallel::TensorCut cut) {
  ParamSpec spec{std::move(name), std::move(shape), init};
  spec.cut = std::move(cut);
  return declare(std::move(spec));
}

ParamPtr Block::declare_vector(std::string name, int64_t size, Init init, parallel::TensorCut cut) {
  ParamSpec spec{std::move(name), {size}, init};
  spec.cut = std::move(cut);
  spec.decay = false;
  return declare(std::move(spec));
}

ParamPtr Block::declare_table(std::string name, std::vector<int64_t> shape, Init init,
                              parallel::TensorCut cut) {
  ParamSpec spec{std::move(name), std::move(shape), init};
  spec.cut = std::move(cut);
  spec.read_in_backward = false;
  return declare(std::move(spec));
}

DenseParams Block::declare_dense(const std::string& name, int64_t in, int64_t out, double deviation,
                                 const parallel::TensorCut& cut) {
  return {declare_matrix(name + ".weight", {out, in}, Init::normal(deviation), cut),
          declare_vector(name + ".bias", out, Init::zeros(),
                         cut.dim == 0 ? cut : parallel::TensorCut())};
}

NormParams Block::declare_norm(const std::string& name, int64_t size) {
  return {declare_vector(name + ".weight", size, Init::ones()),
          declare_vector(name + ".bias", size)};
}

}  // namespace convoy::nn
