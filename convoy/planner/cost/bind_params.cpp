#include "convoy/planner/cost/bind_params.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "convoy/planner/cost/zero_pages.h"

namespace convoy::planner {

namespace {

/// Binds the rows that the block reads of a table that is kept by rows.
void bind_rows(nn::Block& block, const nn::ParamPtr& table, const nn::Bundle& batch,
               const nn::Context& context) {
  const auto read = block.rows_read(*table, batch, context);
  const auto ids = std::get<0>(at::_unique2(read));  // on the host
  auto values = at::empty({ids.size(0), table->shape().back()});
  nn::initialize(table->spec(), context.seed, values.view({-1}));
  table->bind_rows(values.to(context.compute_dtype), ids, at::arange(ids.size(0), at::kLong));
  table->bind_grad(at::zeros_like(values));
}

/// Binds the fp32 values with which a user's module made a parameter; zeros where another block has
/// run with it before.
void bind_leaf(nn::Param& param) {
  const auto given = param.leaf().detach();
  const bool has_all = given.sizes() == at::IntArrayRef(param.shape());
  param.bind_value(has_all ? given.clone() : at::zeros(param.shape(), at::kFloat));
}

}  // namespace

void bind_params(nn::Block& block, const ProfileOptions& options, const nn::Bundle& batch,
                 const nn::Context& context) {
  at::NoGradGuard no_grad;
  for (const auto& param : block.params()) {
    const auto& spec = param->spec();
    if (options.by_rows && spec.row_reads) {
      bind_rows(block, param, batch, context);
      continue;
    }
    const bool counts = options.gpu_rows > 0;
    if (param->leaf().defined()) {
      bind_leaf(*param);
    } else if (counts) {
      param->bind_value(zero_pages(param->shape(), options.compute_dtype));
    } else {
      auto values = at::empty(param->shape(), at::kFloat);
      nn::initialize(spec, options.seed, values.view({-1}));
      param->bind_value(values.to(options.compute_dtype));
    }
    if (!spec.trainable) continue;
    param->bind_grad(counts ? zero_pages(param->shape(), at::kFloat)
                            : at::zeros(param->shape(), at::kFloat));
  }
}

void release_params(const nn::Block& block) {
  for (const auto& param : block.params()) {
    param->bind_rows(at::empty({0}), {}, {});
    if (param->spec().trainable) param->bind_grad(at::empty({0}));
  }
}

}  // namespace convoy::planner
