#include "convoy/nn/tensor_parallel/tensor_ranks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "convoy/comm/device.h"
#include "convoy/nn/node.h"

namespace convoy::nn {

namespace {

/// Flattens [B, T, ...] to [N, ...]; leaves [N, ...] as it is.
at::Tensor flattened(const at::Tensor& all, int64_t rows, int64_t length) {
  const bool apart = all.dim() > 1 && all.size(0) == rows && all.size(1) == length;
  return apart ? all.flatten(0, 1) : all;
}

int64_t inner_size(const at::Tensor& states) {
  const auto sizes = states.sizes().slice(1);
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

comm::Counts times(comm::Counts counts, int64_t factor) {
  for (auto& count : counts) count *= factor;
  return counts;
}

at::Tensor with_rows(const at::Tensor& like, int64_t rows) {
  auto sizes = like.sizes().vec();
  sizes[0] = rows;
  return at::empty(sizes, like.options());
}

}  // namespace

TensorRanks::TensorRanks(comm::Group group, int64_t rows, ContextRanks positions, bool shares)
    : group_(std::move(group)),
      positions_(std::move(positions)),
      rows_(rows),
      length_(positions_.size()) {
  const int64_t ranks = group_.size(), tokens = rows_ * length_;
  if (ranks == 1 || !shares) return;
  for (int64_t r = 0; r < ranks; ++r) {
    counts_.push_back(tokens * (r + 1) / ranks - tokens * r / ranks);
  }
  begin_ = tokens * group_.rank() / ranks;
}

int64_t TensorRanks::size() const {
  return shares() ? counts_[static_cast<size_t>(group_.rank())] : rows_ * length_;
}

TensorRanks TensorRanks::among(const at::Tensor& tokens) const {
  if (!shares()) return *this;
  TensorRanks out(group_);
  out.positions_ = ContextRanks({}, 1);
  out.rows_ = tokens.numel();
  out.length_ = 1;
  const auto known = comm::download(tokens).to(at::kLong).contiguous();
  const auto* first = known.const_data_ptr<int64_t>();
  const auto* const last = first + known.numel();
  int64_t end = 0;
  for (size_t r = 0; r < counts_.size(); ++r) {
    end += counts_[r];
    const auto* const next = std::lower_bound(first, last, end);
    if (static_cast<int>(r) == group_.rank()) out.begin_ = first - known.const_data_ptr<int64_t>();
    out.counts_.push_back(next - first);
    first = next;
  }
  return out;
}

at::Tensor TensorRanks::first_tokens(at::Device device) const {
  return at::arange(rows_, at::TensorOptions(at::kLong).device(device)).mul_(length_);
}

at::Tensor TensorRanks::select(const at::Tensor& states, const at::Tensor& tokens,
                               const TensorRanks& some) const {
  const auto here = shares() ? some.own(tokens) - begin_ : tokens;
  return states.reshape({-1, states.size(-1)}).index_select(0, here);
}

at::Tensor TensorRanks::own(const at::Tensor& all) const {
  const bool apart = all.dim() > 1 && all.size(0) == rows_ && all.size(1) == positions_.length();
  const auto here = apart ? positions_.own(all) : all;
  if (!shares()) return here;
  return flattened(here, rows_, length_).narrow(0, begin_, size());
}

at::Tensor TensorRanks::gather(const at::Tensor& mine, const std::string& label) const {
  auto all = with_rows(mine, rows_ * length_);
  if (all.numel() == 0) return all;
  group_.all_gather(all, mine.contiguous(), label, times(counts_, inner_size(mine)));
  return all;
}

at::Tensor TensorRanks::scatter_sum(const at::Tensor& all, const std::string& label) const {
  auto mine = with_rows(all, size());
  if (all.numel() == 0) return mine;
  group_.reduce_scatter(mine, all.contiguous(), comm::ReduceOp::Sum, label,
                        times(counts_, inner_size(all)));
  return mine;
}

at::Tensor TensorRanks::whole(const at::Tensor& mine, const std::string& label) const {
  if (!shares()) return mine;
  const auto all = without_grad([&] { return gather(mine.detach(), label); });
  return with_backward(all, {mine}, [*this](const at::Tensor& grad) -> std::vector<at::Tensor> {
    return {grad.narrow(0, begin_, size())};
  });
}

std::string label_of(const char* what, const ParamPtr& weight) {
  constexpr std::string_view kEnd = ".weight";
  std::string_view name = weight->spec().name;
  if (name.ends_with(kEnd)) name.remove_suffix(kEnd.size());
  return std::string(what).append(" of ").append(name);
}

void LateWrites::run() {
  for (const auto& write : std::exchange(writes_, {})) write();
}

at::Tensor GatheredInput::take() {
  if (!all_.defined()) all_ = ranks_.gather(share_, label_);
  auto out = all_;
  if (--readers_ <= 0) all_.reset();
  return out;
}

namespace {

constexpr const char* kInputGradient = "gradient of the input";

/// Gathers an operand from the ranks' shares [n, in].
Operand gathered(const at::Tensor& x, const ParamPtr& weight, const TensorRanks& ranks) {
  const auto label = label_of("input", weight);
  const auto share =
      without_grad([&] { return x.detach().to(weight->value().scalar_type()).contiguous(); });
  const std::vector<int64_t> sizes{ranks.rows(), ranks.length(), x.size(-1)};
  Operand out(without_grad([&] { return ranks.gather(share, label).view(sizes); }));
  if (!x.requires_grad()) return out;
  out.gathered = std::make_shared<GatheredInput>(share, ranks, label);
  // The gradient is summed in the dtype of `x`, whatever that of the products.
  const auto shape =
      without_grad([&] { return at::zeros({1}, x.options()).expand(sizes).detach(); });
  out.edge = with_backward(shape, {x}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    return {ranks.scatter_sum(grad.reshape({-1, grad.size(-1)}), label_of(kInputGradient, weight))};
  });
  return out;
}

}  // namespace

Operand to_columns(const at::Tensor& x, const ParamPtr& weight, const TensorRanks& ranks) {
  const auto& tensor = ranks.group();
  if (!is_cut(weight, tensor)) return x;
  if (ranks.shares()) return gathered(x, weight, ranks);
  if (!x.requires_grad()) return x;
  // Weight gradients overlap with the sum on GPUs only: on the host both need the same cores.
  const auto late = x.is_cpu() ? nullptr : std::make_shared<LateWrites>();
  Operand out(
      with_backward(x.detach(), {x}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
        auto sum = grad.clone(at::MemoryFormat::Contiguous);
        const auto label = label_of(kInputGradient, weight);
        if (!late) {
          tensor.all_reduce(sum, comm::ReduceOp::Sum, label);
          return {sum};
        }
        auto handle = tensor.start_all_reduce(sum, comm::ReduceOp::Sum, label);
        late->run();
        handle.wait();
        return {sum};
      }));
  out.late = late;
  return out;
}

Operand for_result(at::Tensor x, const Context& context) {
  Operand out(std::move(x));
  out.unread = context.recomputes;
  return out;
}

at::Tensor with_overlaps(const at::Tensor& g, const ParamPtr& weight, const comm::Group& tensor) {
  const auto& spec = weight->spec();
  if (!is_cut(weight, tensor) || !parallel::overlaps(spec.shape, spec.cut, tensor.size())) return g;
  const int64_t columns = spec.shape[static_cast<size_t>(spec.cut.dim)];
  auto all = at::zeros({g.size(0), columns}, g.options());
  std::vector<at::Tensor> here;  // of each part this rank's columns, side by side
  int64_t local = 0;
  for (const auto& box : parallel::boxes(spec.shape, spec.cut, {tensor.rank(), tensor.size()})) {
    const auto dim = static_cast<size_t>(spec.cut.dim);
    here.push_back(all.narrow(1, box.begin[dim], box.size[dim]));
    here.back().copy_(g.narrow(1, local, box.size[dim]));
    local += box.size[dim];
  }
  tensor.all_reduce(all, comm::ReduceOp::Sum, label_of("overlaps", weight));
  if (spec.cut.parts.empty()) return all.narrow(1, weight->begin(), g.size(1));
  return at::cat(here, 1);
}

std::vector<Columns> shared_columns(const ParamPtr& weight, const comm::Group& tensor) {
  const auto& spec = weight->spec();
  if (!is_cut(weight, tensor) || !parallel::overlaps(spec.shape, spec.cut, tensor.size()))
    return {};
  const auto dim = static_cast<size_t>(spec.cut.dim);
  std::vector<Columns> out;
  for (const auto& box :
       parallel::common_boxes(spec.shape, spec.cut, {tensor.rank(), tensor.size()})) {
    if (box.size[dim] > 0) out.push_back({box.local_begin[dim], box.size[dim]});
  }
  return out;
}

at::Tensor gather_columns(const at::Tensor& x, const ParamPtr& weight, int64_t dim,
                          const comm::Group& tensor, int64_t first) {
  if (!is_cut(weight, dim, tensor)) return x;
  const auto& spec = weight->spec();
  const auto d = static_cast<size_t>(dim);
  comm::Counts counts;
  for (int rank = 0; rank < tensor.size(); ++rank) {
    const auto box = parallel::boxes(spec.shape, spec.cut, {rank, tensor.size()}).front();
    const int64_t end = box.begin[d] + box.size[d];
    counts.push_back(std::max<int64_t>(0, end - std::max(first, box.begin[d])) * x.size(0));
  }
  const auto mine = x.t().contiguous();
  auto all = at::empty({spec.shape[d] - first, x.size(0)}, x.options());
  tensor.all_gather(all.view({-1}), mine.view({-1}), label_of("columns", weight), counts);
  return all.t().contiguous();
}

}  // namespace convoy::nn
