#pragma once

#include <algorithm>
#include <random>
#include <string>

#include "convoy/base/files.h"
#include "convoy/parallel/knobs.h"
#include "convoy/planner/search/search.h"
#include "convoy/planner/time/cluster.h"

namespace convoy::planner {

constexpr double kGiga = 1e9;

/// The cluster that a file with this text describes.
inline Cluster cluster_of(const std::string& text) {
  const struct Folder {
    std::filesystem::path path = unique_folder("convoy-cluster");
    ~Folder() { std::filesystem::remove_all(path); }
  } folder;
  write_file(folder.path / "cluster.toml", text);
  return read_cluster(folder.path / "cluster.toml");
}

/// A transformer on paper: a table, layers that are alike, a head.
struct PaperModel {
  int64_t layers = 8, width = 512, vocabulary = 8000, length = 128, heads = 8;
  double flops = 1e12;  ///< a second, of a rank
  double bytes_per_weight = 4;

  parallel::ModelDecl decl() const {
    parallel::ModelDecl out;
    const auto add = [&](const std::string& block, const std::string& name, parallel::Shape shape,
                         parallel::TensorCut cut, bool read_in_backward = true) {
      out.params.push_back({name, std::move(shape), cut, true, true, read_in_backward});
      if (out.blocks.empty() || out.blocks.back().name != block) {
        out.blocks.push_back({block, {}, true, true, true, true});
      }
      out.blocks.back().params.push_back(static_cast<int64_t>(out.params.size()) - 1);
    };
    add("table", "table", {vocabulary, width}, {.dim = 0}, false);
    for (int64_t n = 0; n < layers; ++n) {
      const auto name = "layer." + std::to_string(n);
      add(name, name + ".in", {8 * width, width}, {.dim = 0, .granule = 8 * width / heads});
      add(name, name + ".out", {width, 4 * width}, {.dim = 1, .granule = 4 * width / heads});
    }
    add("head", "head", {vocabulary, width}, {.dim = 0});
    return out;
  }

  std::vector<BlockCost> costs(const BlockShare& share) const {
    const int tensor = share.tensor, ring = share.context;
    const int whole = share.sequence ? tensor : 1;  // ranks that share out what is not cut
    std::vector<BlockCost> out;
    const auto tokens = static_cast<double>(share.rows * length) / ring;
    const auto hidden =
        static_cast<int64_t>(bytes_per_weight * tokens * static_cast<double>(width));
    const auto block = [&](double weights, int64_t kept, bool is_last) {
      BlockCost cost;
      cost.forward_seconds = 2 * weights * tokens / flops / tensor;
      cost.backward_seconds = 2 * cost.forward_seconds;
      cost.kept_bytes = cost.forward_bytes = kept / tensor + hidden / whole;
      cost.returned_bytes = cost.sent_bytes = is_last ? 8 : hidden / whole;
      cost.grad_bytes = is_last ? 0 : hidden / whole;
      cost.backward_bytes = hidden;
      cost.sent_parts = cost.grad_parts = 1;
      cost.forward_sums = cost.backward_sums = 2;
      cost.forward_sum_bytes = cost.backward_sum_bytes = 2 * hidden;
      if (share.sequence) {  // in halves, and what entered is gathered once more
        cost.forward_sums = 4, cost.backward_sums = 6;
        cost.backward_sum_bytes += hidden;
      }
      if (kept > 0 && !is_last) {  // keys and values, and their gradients
        cost.forward_messages = ring - 1, cost.backward_messages = ring == 1 ? 0 : 2 * ring - 1;
        cost.forward_message_bytes = cost.forward_messages * 2 * hidden;
        cost.backward_message_bytes = cost.backward_messages * 2 * hidden;
      }
      out.push_back(cost);
    };
    block(0, 0, false);
    for (int64_t n = 0; n < layers; ++n) {
      block(12.0 * static_cast<double>(width * width), 16 * hidden, false);
    }
    block(static_cast<double>(width * vocabulary), 0, true);
    return out;
  }

  ModelCosts numbers() const {
    return {.model = decl(),
            .blocks = [*this](const BlockShare& share) { return costs(share); },
            .update_seconds = 3e-11,
            .accumulate_seconds = 1e-11};
  }

  double weights() const {
    return static_cast<double>(12 * layers * width * width + 2 * vocabulary * width);
  }
};

inline Cluster paper_cluster(int hosts, int devices, double memory, double inside, double between) {
  Cluster out;
  out.num_hosts = hosts;
  out.devices_per_host = devices;
  out.device = {"paper", static_cast<int64_t>(memory), 1e12, 1e12, 1e12};
  out.inside = {5e-6, inside};
  out.between = {20e-6, between};
  return out;
}

}  // namespace convoy::planner
