#include "convoy/nn/layers/layers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "convoy/nn/layers/lora.h"
#include "convoy/nn/layers/weight_grad.h"
#include "convoy/nn/node.h"
#include "convoy/nn/product.h"
#include "convoy/nn/skinny_gemm.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::nn {

namespace {

at::Tensor rows_of(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

/// Views a weight as a matrix [in, out]: Hugging Face's XLNet stores [in, heads, width].
at::Tensor matrix_of(const at::Tensor& weight) {
  return weight.dim() > 2 ? weight.flatten(1) : weight;
}

void add_bias_grad(const ParamPtr& bias, const at::Tensor& grad_rows,
                   const std::vector<Columns>& shared = {}) {
  if (!bias) return;
  if (!grad_rows.is_cuda() || !shared.empty()) {
    return bias->add_grad(column_sums(grad_rows, shared));
  }
  bias->add_grad(at::kFloat, [grad_rows](at::Tensor& to, bool adds) {
    auto flat = to.view({-1});
    sum_rows_into(flat, grad_rows, adds);
  });
}

/// Sums [count, D]: row k is the sum of the rows numbered k, in their order.
at::Tensor sums_by_number(const at::Tensor& rows, const at::Tensor& numbers, int64_t count) {
  constexpr int64_t kNoPadding = -1;
  return at::embedding_dense_backward(rows, numbers, count, kNoPadding,
                                      /*scale_grad_by_freq=*/false);
}

/// Adds to each of `places` in the table the sum of its rows. The host need not know how many
/// places differ: there are as many sums as rows, and the last ones are zeros for any place.
void add_sums(at::Tensor& table, const at::Tensor& places, const at::Tensor& rows, double scale) {
  const int64_t n = places.size(0);
  const auto [sorted, order] = places.sort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
  auto number = at::zeros_like(sorted);
  number.narrow(0, 1, n - 1).copy_(sorted.narrow(0, 1, n - 1) != sorted.narrow(0, 0, n - 1));
  number = number.cumsum(0);
  const auto of_row = at::empty_like(number).scatter_(0, order, number);
  const auto to =
      at::arange(n, places.options()).remainder_(table.size(0)).scatter_(0, number, sorted);
  table.index_add_(0, to, sums_by_number(rows, of_row, n), scale);
}

}  // namespace

void add_rows(at::Tensor table, const at::Tensor& places, const at::Tensor& rows, double scale,
              AddRows how) {
  constexpr int64_t kLarge = 1 << 20;  // numbers
  if (how == AddRows::Automatic) {
    const bool pays = table.numel() > kLarge && table.size(0) > places.size(0);
    how = table.is_cpu() ? AddRows::InPlace : pays ? AddRows::BySums : AddRows::OfATable;
  }
  if (how == AddRows::InPlace) {
    table.index_add_(0, places, rows, scale);
  } else if (how == AddRows::OfATable) {
    table.add_(sums_by_number(rows, places, table.size(0)), scale);
  } else if (places.size(0) > 0) {
    add_sums(table, places, rows, scale);
  }
}

at::Tensor linear(const at::Tensor& x, const ParamPtr& weight, const ParamPtr& bias,
                  bool in_first) {
  return linear(Operand(x), weight, bias, in_first, TensorRanks());
}

at::Tensor linear(const Operand& x, const ParamPtr& weight, const ParamPtr& bias, bool in_first,
                  const TensorRanks& ranks) {
  const auto w = matrix_of(weight->value());
  const bool sums = is_cut(weight, in_first ? 0 : 1, ranks.group());
  const bool scatters = sums && ranks.shares();
  const bool recorded = at::GradMode::is_enabled();
  const bool trains = weight->spec().trainable || (bias && bias->spec().trainable);
  LoraProduct lora(weight, x.value, ranks);
  at::Tensor input;
  const auto out = without_grad([&] {
    input = rows_of(x.value.detach()).to(w.scalar_type());
    auto matrix = in_first ? w : w.t();
    auto shape = x.value.sizes().vec();
    shape.back() = matrix.size(1);
    if (x.unread && recorded) {
      lora.read(input);
      if (scatters) shape = {ranks.size(), matrix.size(1)};
      return at::zeros(shape, input.options());
    }
    at::Tensor flat;
    const auto added = bias && !sums ? bias->value() : at::Tensor();
    if (!recorded) {
      flat = product_of_rows(input, matrix, added);
    } else {
      flat = added.defined() ? at::addmm(added, input, matrix) : at::mm(input, matrix);
    }
    lora.add_to(flat, input);  // where the product is a part of a sum, this is one, too
    if (scatters) {
      flat = ranks.scatter_sum(flat, label_of("rows", weight));
    } else if (sums) {
      ranks.group().all_reduce(flat, comm::ReduceOp::Sum, label_of("rows", weight));
    }
    if (sums && bias) flat.add_(bias->value());
    return scatters ? flat : flat.view(shape);
  });
  bool wants_grad = x.edge.requires_grad();
  if (!recorded || (!wants_grad && !trains && !lora)) return out;
  const bool reads = weight->spec().trainable || lora;
  if (x.gathered && reads) x.gathered->add_reader();
  if (x.gathered || !reads) input.reset();
  auto x_dtype = x.edge.scalar_type();
  return with_backward(
      out, {x.edge},
      [=, shape = x.value.sizes().vec(), gathered = x.gathered,
       late = x.late](const at::Tensor& grad) -> std::vector<at::Tensor> {
        const auto own = rows_of(grad);
        const auto g = scatters ? ranks.gather(own, label_of("gradient of rows", weight)) : own;
        const auto whole = trains || lora ? with_overlaps(g, weight, ranks.group()) : g;
        const auto shared = shared_columns(weight, ranks.group());
        const auto read = [=] { return gathered ? gathered->take() : input; };
        const auto write = [=] {
          weight->add_grad(product_dtype(g), [=](at::Tensor& to, bool adds) {
            auto matrix = matrix_of(to);
            write_weight_grad(matrix, read(), whole, in_first, adds, shared);
          });
          if (bias && bias->spec().trainable) add_bias_grad(bias, scatters ? own : whole, shared);
        };
        late&& wants_grad ? late->add(write) : write();
        const auto more = lora ? lora.backward(g, {whole, shared}, read, wants_grad) : at::Tensor();
        if (!wants_grad) return {at::Tensor()};
        const auto w = matrix_of(weight->value());
        auto back = at::mm(g, in_first ? w.t() : w);
        if (more.defined()) back.add_(more);
        return {back.view(shape).to(x_dtype)};
      });
}

namespace {

/// Embedding from a table whose rows are split over tensor ranks: all but one of them get zeros for
/// an id.
at::Tensor cut_embedding(const at::Tensor& ids, const ParamPtr& table, bool padding,
                         const TensorRanks& ranks) {
  const int64_t first = table->begin(), end = first + table->shape()[0];
  const auto elsewhere = ids.lt(first).logical_or_(ids.ge(end));
  const auto places = (ids - first).masked_fill_(elsewhere, 0);
  const bool some = end > first;  // a small table may have fewer rows than there are ranks
  const auto out = without_grad([&] {
    auto sizes = ids.sizes().vec();
    sizes.push_back(table->shape()[1]);
    auto rows = some ? at::embedding(table->value(), places).to(at::kFloat)
                     : at::zeros(sizes, places.options().dtype(at::kFloat));
    rows.masked_fill_(elsewhere.unsqueeze(-1), 0);
    const auto label = label_of("rows", table);
    if (ranks.shares()) return ranks.scatter_sum(rows_of(rows), label);
    ranks.group().all_reduce(rows, comm::ReduceOp::Sum, label);
    return rows;
  });
  return with_backward(out, {}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    const auto none = padding ? elsewhere.logical_or(ids == 0) : elsewhere;
    auto rows = rows_of(grad).to(at::kFloat);
    if (ranks.shares()) rows = ranks.gather(rows, label_of("gradient of rows", table));
    rows = rows.masked_fill(none.reshape({-1, 1}), 0);
    table->add_to_grad([&](at::Tensor& to) {
      if (some) add_rows(to, places.reshape({-1}), rows);
    });
    return {};
  });
}

}  // namespace

at::Tensor embedding(const at::Tensor& ids, const ParamPtr& table, bool padding) {
  return embedding(ids, table, padding, TensorRanks());
}

at::Tensor embedding(const at::Tensor& ids, const ParamPtr& table, bool padding,
                     const TensorRanks& ranks) {
  if (is_cut(table, 0, ranks.group())) {
    return cut_embedding(ranks.positions().own(ids), table, padding, ranks);
  }
  const auto own = ranks.own(ids);
  const auto places = table->places_of(own);
  const auto out =
      without_grad([&] { return at::embedding(table->value(), places).to(at::kFloat); });
  return with_backward(out, {}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    auto rows = rows_of(grad).to(at::kFloat);
    if (padding) rows = rows.masked_fill((own.reshape({-1}) == 0).unsqueeze(1), 0);
    table->add_to_grad([&](at::Tensor& to) { add_rows(to, places.reshape({-1}), rows); });
    return {};
  });
}

at::Tensor as_tensor(const ParamPtr& param) {
  const auto value = without_grad([&] { return param->value().to(at::kFloat).clone(); });
  return with_backward(value, {}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    param->add_grad(grad);
    return {};
  });
}

at::Tensor add_vector(const at::Tensor& x, const ParamPtr& vector) {
  const auto out =
      without_grad([&] { return x.detach() + vector->value().reshape({-1}).to(x.scalar_type()); });
  return with_backward(out, {x}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    vector->add_grad(rows_of(grad).sum(0, false, at::kFloat).view(vector->shape()));
    return {grad};
  });
}

at::Tensor add_positions(const at::Tensor& x, const ParamPtr& table, const TensorRanks& ranks) {
  if (ranks.has_all()) return add_positions(x, table);
  auto places = ranks.positions().positions(x.device());
  if (ranks.shares()) {
    const int64_t begin = ranks.begin();
    const auto tokens = at::arange(begin, begin + ranks.size(), places.options());
    places = places.index_select(0, tokens.remainder(std::max<int64_t>(1, ranks.length())));
  }
  return x + embedding(places, table, false);
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
                      double epsilon, ReadBy reader) {
  const auto x_dtype = x.scalar_type(), dtype = norm_dtype(x, weight, reader);
  const std::vector<int64_t> normalized{x.size(-1)};
  const auto input = x.detach().to(dtype);
  // Backward reads weight and bias again, unless forward made a copy in another dtype, which is
  // kept.
  const auto w = weight->value().to(dtype), b = bias->value().to(dtype);
  const bool copies = x.is_cuda() && weight->value().scalar_type() != dtype;
  const auto kept_w = copies ? w : at::Tensor(), kept_b = copies ? b : at::Tensor();
  const auto [out, mean, rstd] =
      without_grad([&] { return at::native_layer_norm(input, normalized, w, b, epsilon); });
  return with_backward(out, {x}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    auto [back, weight_grad, bias_grad] = at::native_layer_norm_backward(
        grad.to(dtype).contiguous(), input, normalized, mean, rstd,
        copies ? kept_w : weight->value().to(dtype), copies ? kept_b : bias->value().to(dtype),
        {true, true, true});
    weight->add_grad(weight_grad);
    bias->add_grad(bias_grad);
    return {back.to(x_dtype)};
  });
}

at::Tensor replace_rows(const at::Tensor& x, const at::Tensor& mask, const ParamPtr& replacement) {
  auto rows = mask.unsqueeze(-1);
  const auto out = without_grad(
      [&] { return at::where(rows, replacement->value().to(x.scalar_type()), x.detach()); });
  return with_backward(out, {x}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    replacement->add_grad(rows_of(grad * rows).sum(0, false, at::kFloat));
    return {grad.masked_fill(rows, 0)};
  });
}

}  // namespace convoy::nn
