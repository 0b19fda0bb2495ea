#include "convoy/nn/losses/top_products.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <span>

#include "convoy/comm/to_host.h"
#include "convoy/nn/losses/top_columns.h"
#include "convoy/nn/skinny_gemm.h"

namespace convoy::nn {

namespace {

constexpr float kLeftOut = -std::numeric_limits<float>::infinity();
constexpr int64_t kMostRows = 64;         // that share a pass over the table
constexpr int64_t kColumnsAtOnce = 2048;  // whose scores stay in the cache
// Factor by which gathered rows are slower to read than a contiguous table.
constexpr int64_t kGather = 4;

/// Returns the part of ascending columns from `first` up to `end`.
std::span<const int64_t> between(std::span<const int64_t> columns, int64_t first, int64_t end) {
  const auto from = std::ranges::lower_bound(columns, first);
  return {from, std::lower_bound(from, columns.end(), end)};
}

/// Computes products [M, C] of rows on the host in memory of `buffer`.
class TableProducts {
 public:
  TableProducts(const at::Tensor& x, const at::Tensor& table, double temperature)
      : x_(x), table_(table), temperature_(static_cast<float>(temperature)) {}

  float* of(int64_t first, int64_t count) {
    const int64_t M = x_.size(0), K = x_.size(1);
    if (!buffer_.defined() || buffer_.numel() < M * count) {
      buffer_ = at::empty({M * count}, x_.options());
    }
    auto* out = buffer_.mutable_data_ptr<float>();
    const auto* rows = table_.const_data_ptr<float>() + first * K;
    if (!dots_into(x_.const_data_ptr<float>(), rows, out, M, count, K)) {
      auto products = buffer_.narrow(0, 0, M * count).view({M, count});
      at::mm_out(products, x_, table_.narrow(0, first, count).t());
    }
    if (temperature_ != 1) {
      for (int64_t i = 0; i < M * count; ++i) out[i] /= temperature_;
    }
    return out;
  }

 private:
  const at::Tensor &x_, &table_;
  float temperature_;
  at::Tensor buffer_;
};

/// Rows of one pass over the table.
struct TablePass {
  std::vector<const TopQuery*> queries;
  std::span<const int64_t> left_out = {};

  std::vector<TopHeap> heaps() const {
    std::vector<TopHeap> out;
    for (const auto* query : queries) out.emplace_back(query->k);
    return out;
  }

  /// Takes scores [M, count] of the columns from `first` on, whose left-out ones are overwritten.
  void take(float* scores, int64_t first, int64_t count, std::vector<TopHeap>& heaps) const {
    for (size_t row = 0; row < queries.size(); ++row) {
      const auto& query = *queries[row];
      auto* own = scores + static_cast<int64_t>(row) * count;
      if (query.among) {
        for (const int64_t column : between(*query.among, first, first + count)) {
          heaps[row].add(own[column - first], column);
        }
        continue;
      }
      for (const std::span<const int64_t> columns :
           {left_out, std::span<const int64_t>(query.left_out)}) {
        for (const int64_t column : between(columns, first, first + count)) {
          own[column - first] = kLeftOut;
        }
      }
      heaps[row].add_all({own, static_cast<size_t>(count)}, first);
    }
  }
};

std::vector<TopHeap> pass_of_host(const at::Tensor& x, const at::Tensor& table, double temperature,
                                  const TablePass& pass) {
  const int64_t C = table.size(0), chunks = at::divup(C, kColumnsAtOnce);
  auto found = pass.heaps();
  std::mutex mutex;
  at::parallel_for(0, chunks, /*grain=*/4, [&](int64_t begin, int64_t end) {
    at::NoGradGuard no_grad;
    auto own = pass.heaps();
    TableProducts products(x, table, temperature);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * kColumnsAtOnce, count = std::min(kColumnsAtOnce, C - first);
      pass.take(products.of(first, count), first, count, own);
    }
    const std::lock_guard lock(mutex);
    for (size_t row = 0; row < own.size(); ++row) found[row].merge(own[row]);
  });
  return found;
}

std::vector<TopHeap> pass_of_device(const at::Tensor& x, const at::Tensor& table,
                                    double temperature, const TablePass& pass) {
  auto scores = comm::download(at::mm(x, table.t()).div_(temperature)).contiguous();
  auto found = pass.heaps();
  pass.take(scores.mutable_data_ptr<float>(), 0, table.size(0), found);
  return found;
}

TopColumns top_among(const at::Tensor& x, const at::Tensor& table, double temperature,
                     const TopQuery& query) {
  if (query.among->empty()) return {};
  const auto ids = at::tensor(*query.among, at::kLong);
  const auto rows = table.index_select(0, comm::upload(ids, table.device()));
  const TopQuery all{query.k};
  const TablePass pass{{&all}};
  auto found = x.is_cpu() ? pass_of_host(x, rows, temperature, pass)
                          : pass_of_device(x, rows, temperature, pass);
  auto out = found.front().sorted();
  for (auto& column : out.columns) column = (*query.among)[static_cast<size_t>(column)];
  return out;
}

}  // namespace

std::vector<TopColumns> top_products(const at::Tensor& x, const at::Tensor& table,
                                     double temperature, const std::vector<TopQuery>& queries,
                                     const std::vector<int64_t>& left_out) {
  at::NoGradGuard no_grad;
  const auto rows = x.to(at::kFloat).contiguous();
  const auto all = table.to(at::kFloat).contiguous();
  const int64_t C = all.size(0);
  std::vector<TopColumns> out(queries.size());
  std::vector<size_t> whole;  // queries that take a pass over the table
  for (size_t i = 0; i < queries.size(); ++i) {
    const auto& query = queries[i];
    if (query.among && std::ssize(*query.among) * kGather <= C) {
      out[i] = top_among(rows.narrow(0, static_cast<int64_t>(i), 1), all, temperature, query);
    } else if (query.k > 0) {
      whole.push_back(i);
    }
  }
  for (size_t begin = 0; begin < whole.size(); begin += kMostRows) {
    const auto count = std::min<size_t>(kMostRows, whole.size() - begin);
    TablePass pass{{}, left_out};
    std::vector<int64_t> places;
    for (size_t i = begin; i < begin + count; ++i) {
      pass.queries.push_back(&queries[whole[i]]);
      places.push_back(static_cast<int64_t>(whole[i]));
    }
    const auto picked = rows.index_select(0, comm::upload(at::tensor(places), rows.device()));
    const auto found = picked.is_cpu() ? pass_of_host(picked, all, temperature, pass)
                                       : pass_of_device(picked, all, temperature, pass);
    for (size_t i = 0; i < count; ++i) out[whole[begin + i]] = found[i].sorted();
  }
  return out;
}

}  // namespace convoy::nn
