#pragma once

#include <map>
#include <string>
#include <vector>

#include "convoy/formats/onnx.h"
#include "convoy/models/session/session.h"
#include "convoy/nn/block.h"

// Shapes: B rows, T positions, D = d_model, H heads, E width of a head.
namespace convoy::tasks {

/// Builds the layers of a model's graph, from the weights of its blocks by name.
class OnnxLayers {
 public:
  OnnxLayers(formats::OnnxGraph& graph, const models::SessionConfig& config,
             const nn::BlockList& blocks);

  bool has(const std::string& name) const { return params_.contains(name); }
  /// Adds a weight once, and returns its name.
  std::string weight(const std::string& name);
  /// Adds the product of x and the matrix `name`.weight, plus `name`.bias where there is one.
  /// `in_first`: the matrix is [in, out].
  std::string linear(const std::string& x, const std::string& name, bool in_first = false);
  std::string norm(const std::string& x, const std::string& name, double epsilon);
  std::string activated(const std::string& x);
  std::string add(const std::string& a, const std::string& b) { return op("Add", {a, b}); }
  /// Adds attention; its result is [B, T, D].
  std::string attention(const std::string& query, const std::string& key, const std::string& value,
                        const std::string& seen);
  /// Adds layer `index` of the model's body. `seen` [.., T, T] bool: positions that each position
  /// sees.
  std::string layer(const std::string& x, const std::string& seen, int64_t index);
  std::string op(const std::string& name, const std::vector<std::string>& inputs,
                 const formats::OnnxGraph::Attributes& attributes = {}) {
    return graph_.node(name, inputs, attributes);
  }

  formats::OnnxGraph& graph() { return graph_; }
  const models::SessionConfig& config() const { return config_; }

  /// Returns the bodies whose layers layer() supports.
  static std::vector<std::string> bodies();

 private:
  std::string heads(const std::string& x);

  formats::OnnxGraph& graph_;
  const models::SessionConfig& config_;
  std::map<std::string, nn::ParamPtr> params_;
  at::Tensor item_vectors_;  // of an item tower, in place of the item embedding
  std::map<std::string, std::string> written_;
};

/// Function that adds one layer of a body: `name` is its number, x and `seen` are as of
/// OnnxLayers::layer().
using OnnxLayer = std::string (*)(OnnxLayers& to, const std::string& x, const std::string& seen,
                                  const std::string& name);

/// Layers by the names of their bodies.
const std::map<std::string, OnnxLayer>& onnx_bodies();

}  // namespace convoy::tasks
