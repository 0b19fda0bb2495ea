#include "convoy/tasks/session/onnx_layers.h"

#include <ATen/ATen.h>

#include <cmath>
#include <functional>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::tasks {

OnnxLayers::OnnxLayers(formats::OnnxGraph& graph, const models::SessionConfig& config,
                       const nn::BlockList& blocks)
    : graph_(graph), config_(config) {
  for (const auto& block : blocks) {
    for (const auto& param : block->params()) params_[param->spec().name] = param;
  }
  if (!config.item_tower.empty()) item_vectors_ = models::output_vectors(blocks);
}

std::string OnnxLayers::weight(const std::string& name) {
  auto& written = written_[name];
  if (!written.empty()) return written;
  const auto found = params_.find(name);
  internal_check(found != params_.end(), "export", "the model has no weight {}", name);
  const bool of_items =
      name == models::embedding_name(config_.item_feature) && !config_.item_tower.empty();
  const auto weights = of_items ? item_vectors_ : found->second->value();
  const auto values = weights.to(at::kFloat).contiguous();
  const std::span<const float> numbers(values.const_data_ptr<float>(),
                                       static_cast<size_t>(values.numel()));
  return written = graph_.weights(name, values.sizes().vec(), numbers);
}

std::string OnnxLayers::linear(const std::string& x, const std::string& name, bool in_first) {
  auto matrix = weight(name + ".weight");
  if (!in_first) matrix = op("Transpose", {matrix}, {{"perm", std::vector<int64_t>{1, 0}}});
  const auto product = op("MatMul", {x, matrix});
  return has(name + ".bias") ? add(product, weight(name + ".bias")) : product;
}

std::string OnnxLayers::norm(const std::string& x, const std::string& name, double epsilon) {
  return op("LayerNormalization", {x, weight(name + ".weight"), weight(name + ".bias")},
            {{"axis", int64_t{-1}}, {"epsilon", epsilon}});
}

std::string OnnxLayers::activated(const std::string& x) {
  const auto kind = config_.activation_kind();
  if (kind == "relu") return op("Relu", {x});
  if (kind == "tanh") return op("Tanh", {x});
  if (kind == "gelu") return op("Gelu", {x});
  if (kind.starts_with("gelu_")) return op("Gelu", {x}, {{"approximate", std::string("tanh")}});
  if (kind == "silu" || kind == "swish") return op("Mul", {x, op("Sigmoid", {x})});
  fail<UsageError>("export",
                   "activation = {} has no operator in ONNX; expected one of relu, tanh, gelu, "
                   "gelu_new and silu",
                   kind);
}

std::string OnnxLayers::heads(const std::string& x) {
  const int64_t H = config_.n_head;
  const auto split = op("Reshape", {x, graph_.list({0, 0, H, config_.d_model / H})});
  return op("Transpose", {split}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
}

std::string OnnxLayers::attention(const std::string& query, const std::string& key,
                                  const std::string& value, const std::string& seen) {
  const auto width = static_cast<double>(config_.d_model / config_.n_head);
  const auto turned = op("Transpose", {heads(key)}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  const auto scale = graph_.real(static_cast<float>(1 / std::sqrt(width)));
  const auto scores = op("Mul", {op("MatMul", {heads(query), turned}), scale});
  const auto never = graph_.real(std::numeric_limits<float>::lowest());
  const auto weights = op("Softmax", {op("Where", {seen, scores, never})}, {{"axis", int64_t{-1}}});
  const auto mixed = op("Transpose", {op("MatMul", {weights, heads(value)})},
                        {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  return op("Reshape", {mixed, graph_.list({0, 0, config_.d_model})});
}

std::vector<std::string> OnnxLayers::bodies() {
  std::vector<std::string> out;
  for (const auto& [body, layer] : onnx_bodies()) out.push_back(body);
  return out;
}

std::string OnnxLayers::layer(const std::string& x, const std::string& seen, int64_t index) {
  return onnx_bodies().at(config_.body)(*this, x, seen, std::to_string(index));
}

}  // namespace convoy::tasks
