#include "convoy/nn/layers/lora.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/weight_grad.h"
#include "convoy/nn/product.h"

namespace convoy::nn {

namespace {

constexpr std::string_view kWeight = ".weight";

ParamSpec matrix(const std::string& name, std::vector<int64_t> shape, Init init,
                 parallel::TensorCut cut) {
  ParamSpec out{name, std::move(shape), init};
  out.cut = std::move(cut);
  return out;
}

}  // namespace

LowRank::LowRank(const ParamSpec& weight, const LoraOptions& options) : options_(options) {
  internal_check(weight.shape.size() == 2 && weight.name.ends_with(kWeight), "nn",
                 "an adapter of {}, which is no matrix", weight.name);
  const auto module = weight.name.substr(0, weight.name.size() - kWeight.size());
  const int64_t in = weight.shape[weight.in_first ? 0 : 1];
  const int64_t out = weight.shape[weight.in_first ? 1 : 0];
  const bool cuts = weight.cut.dim >= 0, cuts_in = weight.cut.dim == (weight.in_first ? 0 : 1);
  const auto cut_along = [&](int64_t dim) {
    auto cut = weight.cut;
    cut.dim = dim;
    return cut;
  };
  parallel::TensorCut part;  // whole, with a part of the gradient
  part.partial_grad = cuts || weight.cut.partial_grad;
  // Kaiming's bound sqrt(6 / ((1 + 5) in)), as PEFT draws A.
  const auto uniform = Init::uniform(1 / std::sqrt(static_cast<double>(in)));
  down_ = std::make_shared<Param>(matrix(module + ".lora_A.weight", {options.r, in}, uniform,
                                         cuts && cuts_in ? cut_along(1) : part));
  up_ = std::make_shared<Param>(matrix(module + ".lora_B.weight", {out, options.r}, Init::zeros(),
                                       cuts && !cuts_in ? cut_along(0) : part));
  site_ = static_cast<int64_t>(hash_text(module + ".lora_dropout"));
}

void LowRank::begin(const Context& context) {
  const bool drops = options_.dropout > 0 && context.mode == Mode::Train;
  context_ = drops ? std::make_shared<const Context>(context) : nullptr;
}

LoraProduct::LoraProduct(const ParamPtr& weight, const at::Tensor& x, const TensorRanks& ranks)
    : adapter_(weight->adapter()) {
  if (!adapter_) return;
  context_ = adapter_->context();
  if (!context_) return;
  ranks_ = ranks;
  is_cut_ = is_cut(weight, ranks.group());
  sizes_ = x.sizes().vec();
}

namespace {

/// Dropout of x [B, t, in here] or [B, in here], where `ranks` may leave some positions here and
/// the features begin at `first`.
at::Tensor dropped_tokens(const at::Tensor& x, double rate, const Context& context, int64_t site,
                          const ContextRanks& positions, int64_t first, const Param& down) {
  const int64_t width = down.spec().shape[1];
  const bool fits =
      x.dim() <= 3 && context.samples.defined() && context.samples.numel() == x.size(0);
  if (!fits) {
    fail<UsageError>("models",
                     "lora_dropout = {} cannot be addressed at {}, which reads some tokens only; "
                     "try lora_dropout 0, or other lora_target_modules",
                     rate, down.spec().name);
  }
  if (x.dim() == 2) return dropout(x, rate, context, site, {width}, {first});
  if (positions.length() == 0) return dropout(x, rate, context, site, {0, width}, {0, first});
  std::vector<at::Tensor> parts;
  int64_t at = 0;
  for (const auto& stretch : positions.stretches()) {
    const auto part = x.narrow(1, at, stretch.length);
    parts.push_back(dropout(part, rate, context, site, {0, width}, {stretch.begin, first}));
    at += stretch.length;
  }
  return at::cat(parts, 1);
}

}  // namespace

at::Tensor LoraProduct::dropped(const at::Tensor& rows) const {
  if (!context_) return rows;
  const auto x = rows.view(sizes_);
  const auto& down = *adapter_->down();
  const double rate = adapter_->options().dropout;
  const auto out = ranks_.shares() && !is_cut_
                       ? dropout(x, rate, *context_, adapter_->site(), ranks_)
                       : dropped_tokens(x, rate, *context_, adapter_->site(), ranks_.positions(),
                                        down.begin(), down);
  return out.reshape(rows.sizes());
}

void LoraProduct::read(const at::Tensor& rows) {
  if (!adapter_) return;
  inner_ = at::mm(dropped(rows), adapter_->down()->value().t()).mul_(adapter_->options().scale);
}

void LoraProduct::add_to(at::Tensor out, const at::Tensor& rows) {
  if (!adapter_) return;
  read(rows);
  out.addmm_(inner_, adapter_->up()->value().t());
}

at::Tensor LoraProduct::backward(const at::Tensor& g, const WholeGrad& whole,
                                 const std::function<at::Tensor()>& rows, bool wants_input) const {
  const auto dtype = product_dtype(g);
  const auto& down = adapter_->down();
  adapter_->up()->add_grad(dtype, [whole, inner = inner_](at::Tensor& to, bool adds) {
    write_weight_grad(to, inner, whole.values, /*in_first=*/false, adds, whole.shared);
  });
  const auto back = at::mm(g, adapter_->up()->value()).mul_(adapter_->options().scale);
  down->add_grad(dtype, [back, rows, self = *this](at::Tensor& to, bool adds) {
    product_into(to, back.t(), self.dropped(rows()), adds);
  });
  return wants_input ? dropped(at::mm(back, down->value())) : at::Tensor();
}

namespace {

class AdaptedBlock : public Block {
 public:
  AdaptedBlock(BlockPtr block, std::vector<std::shared_ptr<LowRank>> adapters)
      : Block(block->name()), block_(std::move(block)), adapters_(std::move(adapters)) {
    for (const auto& param : block_->params()) tie(param);
    for (const auto& adapter : adapters_) {
      tie(adapter->down());
      tie(adapter->up());
    }
  }

  Bundle forward(const Bundle& in, const Context& context) override {
    for (const auto& adapter : adapters_) adapter->begin(context);
    return block_->forward(in, context);
  }

  Bundle serve(const Context& context) override { return block_->serve(context); }

  bool repeatable() const override { return block_->repeatable(); }
  bool takes_tensor_ranks() const override { return block_->takes_tensor_ranks(); }
  bool takes_sequence_parallel() const override { return block_->takes_sequence_parallel(); }
  bool takes_context_ranks() const override { return block_->takes_context_ranks(); }
  bool takes_documents() const override { return block_->takes_documents(); }
  int64_t experts_per_token() const override { return block_->experts_per_token(); }
  std::string cost_key() const override {
    const auto& block = *block_;
    return fmt::format("{} {} lora_dropout {}", typeid(block).name(), block.cost_key(),
                       adapters_.front()->options().dropout);
  }
  at::Tensor rows_read(const Param& table, const Bundle& batch, const Context& context) override {
    return block_->rows_read(table, batch, context);
  }
  bool collects_ids() const override { return block_->collects_ids(); }
  at::Tensor told_ids(const Bundle& batch, const Context& context) override {
    return block_->told_ids(batch, context);
  }
  std::vector<std::string> metrics() const override { return block_->metrics(); }
  std::vector<NamedTensor> buffers() override { return block_->buffers(); }

 private:
  BlockPtr block_;
  std::vector<std::shared_ptr<LowRank>> adapters_;
};

}  // namespace

BlockPtr with_adapters(BlockPtr block, std::vector<std::shared_ptr<LowRank>> adapters) {
  if (adapters.empty()) return block;
  return std::make_shared<AdaptedBlock>(std::move(block), std::move(adapters));
}

}  // namespace convoy::nn
