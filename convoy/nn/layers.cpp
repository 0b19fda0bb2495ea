#include "convoy/nn/layers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "convoy/nn/few_rows.h"
#include "convoy/nn/node.h"

namespace convoy::nn {

namespace {

at::Tensor rows_of(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

void add_bias_grad(const ParamPtr& bias, const at::Tensor& grad_rows) {
  if (bias) bias->add_grad(grad_rows.sum(0, false, at::kFloat));
}

/// Adds to rows of a table, in an order that does not change from run to run.
void add_rows(at::Tensor& table, const at::Tensor& places, const at::Tensor& rows) {
  if (table.is_cpu()) {
    table.index_add_(0, places, rows);
  } else {
    table.index_put_({places}, rows, /*accumulate=*/true);
  }
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const ParamPtr& weight, const ParamPtr& bias,
                  bool in_first) {
  const auto& w = weight->value();
  const bool recorded = at::GradMode::is_enabled();
  at::Tensor input;
  const auto out = without_grad([&] {
    input = rows_of(x.detach()).to(w.scalar_type());
    auto matrix = in_first ? w : w.t();
    at::Tensor flat;
    if (!recorded) {
      flat = product_of_rows(input, matrix, bias ? bias->value() : at::Tensor());
    } else {
      flat = bias ? at::addmm(bias->value(), input, matrix) : at::mm(input, matrix);
    }
    auto shape = x.sizes().vec();
    shape.back() = flat.size(-1);
    return flat.view(shape);
  });
  bool wants_grad = x.requires_grad();
  auto x_dtype = x.scalar_type();
  return with_backward(
      out, {x}, [=, shape = x.sizes().vec()](const at::Tensor& grad) -> std::vector<at::Tensor> {
        auto g = rows_of(grad);
        weight->add_grad(g.scalar_type(), [&](at::Tensor& to) {
          if (in_first) {
            at::mm_out(to, input.t(), g);
          } else {
            at::mm_out(to, g.t(), input);
          }
        });
        add_bias_grad(bias, g);
        if (!wants_grad) return {at::Tensor()};
        auto back = at::mm(g, in_first ? weight->value().t() : weight->value());
        return {back.view(shape).to(x_dtype)};
      });
}

at::Tensor embedding(const at::Tensor& ids, const ParamPtr& table, bool padding) {
  const auto out = without_grad([&] { return at::embedding(table->value(), ids).to(at::kFloat); });
  return with_backward(out, {}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    auto rows = rows_of(grad).to(at::kFloat);
    auto places = ids.reshape({-1});
    if (padding) rows = rows.masked_fill((places == 0).unsqueeze(1), 0);
    table->add_to_grad([&](at::Tensor& to) { add_rows(to, places, rows); });
    return {};
  });
}

at::Tensor add_positions(const at::Tensor& x, const ParamPtr& table) {
  const int64_t length = x.size(1);
  const auto out = without_grad([&] { return x.detach() + table->value().narrow(0, 0, length); });
  return with_backward(out, {x}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    table->add_to_grad(
        [&](at::Tensor& to) { to.narrow(0, 0, length).add_(grad.sum(0, false, at::kFloat)); });
    return {grad};
  });
}

at::Tensor layer_norm(const at::Tensor& x, const ParamPtr& weight, const ParamPtr& bias,
                      double epsilon) {
  const auto x_dtype = x.scalar_type();
  const std::vector<int64_t> normalized{x.size(-1)};
  const auto input = x.detach().to(at::kFloat);
  const auto [out, mean, rstd] = without_grad([&] {
    return at::native_layer_norm(input, normalized, weight->value().to(at::kFloat),
                                 bias->value().to(at::kFloat), epsilon);
  });
  return with_backward(out, {x}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    auto [back, weight_grad, bias_grad] = at::native_layer_norm_backward(
        grad.to(at::kFloat).contiguous(), input, normalized, mean, rstd,
        weight->value().to(at::kFloat), bias->value().to(at::kFloat), {true, true, true});
    weight->add_grad(weight_grad);
    bias->add_grad(bias_grad);
    return {back.to(x_dtype)};
  });
}

at::Tensor replace_rows(const at::Tensor& x, const at::Tensor& mask, const ParamPtr& replacement) {
  auto rows = mask.unsqueeze(2);
  const auto out = without_grad(
      [&] { return at::where(rows, replacement->value().to(x.scalar_type()), x.detach()); });
  return with_backward(out, {x}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    replacement->add_grad((grad * rows).sum(at::IntArrayRef{0, 1}, false, at::kFloat));
    return {grad.masked_fill(rows, 0)};
  });
}

}  // namespace convoy::nn
