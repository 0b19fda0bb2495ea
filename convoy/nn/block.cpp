#include "convoy/nn/block.h"

namespace convoy::nn {

namespace {

ParamSpec without_decay(std::string name, int64_t size, Init init) {
  ParamSpec spec{std::move(name), {size}, init};
  spec.decay = false;
  return spec;
}

}  // namespace

ParamPtr Block::declare_table(std::string name, std::vector<int64_t> shape, Init init,
                              schedule::TensorCut cut) {
  ParamSpec spec{std::move(name), std::move(shape), init};
  spec.cut = std::move(cut);
  spec.read_in_backward = false;
  return declare(std::move(spec));
}

DenseParams Block::declare_dense(const std::string& name, int64_t in, int64_t out, double deviation,
                                 const schedule::TensorCut& cut) {
  ParamSpec weight{name + ".weight", {out, in}, Init::normal(deviation)};
  weight.cut = cut;
  auto bias = without_decay(name + ".bias", out, Init::zeros());
  if (cut.dim == 0) bias.cut = cut;
  const auto declared = declare(std::move(weight));
  return {declared, declare(std::move(bias))};
}

NormParams Block::declare_norm(const std::string& name, int64_t size) {
  auto weight = declare(without_decay(name + ".weight", size, Init::ones()));
  return {weight, declare(without_decay(name + ".bias", size, Init::zeros()))};
}

}  // namespace convoy::nn
