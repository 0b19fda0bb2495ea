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

std::string OnnxLayers::gpt2_layer(const std::string& x, const std::string& seen,
                                   const std::string& name) {
  const auto layer = "transformer.h." + name + ".";
  const double epsilon = config_.layer_norm_epsilon;
  const auto joined = linear(norm(x, layer + "ln_1", epsilon), layer + "attn.c_attn", true);
  const int64_t D = config_.d_model;
  const auto parts =
      graph_.nodes("Split", {joined, graph_.list({D, D, D})}, 3, {{"axis", int64_t{2}}});
  const auto mixed = attention(parts[0], parts[1], parts[2], seen);
  const auto attended = add(x, linear(mixed, layer + "attn.c_proj", true));
  const auto inner = linear(norm(attended, layer + "ln_2", epsilon), layer + "mlp.c_fc", true);
  return add(attended, linear(activated(inner), layer + "mlp.c_proj", true));
}

std::string OnnxLayers::sasrec_layer(const std::string& x, const std::string& seen,
                                     const std::string& name) {
  const auto layer = "transformer_layers.transformer_blocks." + name + ".";
  const auto attn = layer + "multi_head_attn.";
  const double epsilon = config_.layer_norm_epsilon;
  const auto asking = norm(x, layer + "q_layer_norm", epsilon);
  const auto mixed = attention(linear(asking, attn + "query"), linear(x, attn + "key"),
                               linear(x, attn + "value"), seen);
  const auto attended = add(asking, linear(mixed, attn + "out_proj"));
  const auto fed = norm(attended, layer + "ff_layer_norm", epsilon);
  const auto inner = activated(linear(fed, layer + "feed_forward.ff_linear_1"));
  return add(fed, linear(inner, layer + "feed_forward.ff_linear_2"));
}

std::string OnnxLayers::ligr_layer(const std::string& x, const std::string& seen,
                                   const std::string& name) {
  const auto layer = "transformer_layers.transformer_blocks." + name + ".";
  const auto attn = layer + "multi_head_attn.", fed = layer + "feed_forward.ff_linear_";
  const double epsilon = config_.layer_norm_epsilon;
  const auto gated = [&](const std::string& of, const std::string& added, const char* gate) {
    const auto share = op("Sigmoid", {linear(of, layer + gate)});
    return add(of, op("Mul", {share, added}));
  };
  const auto normed = norm(x, layer + "layer_norm_1", epsilon);
  const auto mixed = attention(linear(normed, attn + "query"), linear(normed, attn + "key"),
                               linear(normed, attn + "value"), seen);
  const auto attended = gated(x, linear(mixed, attn + "out_proj"), "gating_linear_1");
  const auto read = norm(attended, layer + "layer_norm_2", epsilon);
  const auto inner = op("Mul", {activated(linear(read, fed + "1")), linear(read, fed + "3")});
  return gated(attended, linear(inner, fed + "2"), "gating_linear_2");
}

std::string OnnxLayers::bert_layer(const std::string& x, const std::string& seen,
                                   const std::string& name) {
  const auto layer = "bert.encoder.layer." + name + ".";
  const auto self = layer + "attention.self.", out = layer + "attention.output.";
  const double epsilon = config_.layer_norm_epsilon;
  const auto mixed = attention(linear(x, self + "query"), linear(x, self + "key"),
                               linear(x, self + "value"), seen);
  const auto attended = norm(add(x, linear(mixed, out + "dense")), out + "LayerNorm", epsilon);
  const auto inner = activated(linear(attended, layer + "intermediate.dense"));
  return norm(add(attended, linear(inner, layer + "output.dense")), layer + "output.LayerNorm",
              epsilon);
}

const std::map<std::string, OnnxLayers::Layer>& OnnxLayers::layers() {
  static const std::map<std::string, Layer> all{{"bert", &OnnxLayers::bert_layer},
                                                {"gpt2", &OnnxLayers::gpt2_layer},
                                                {"ligr", &OnnxLayers::ligr_layer},
                                                {"sasrec", &OnnxLayers::sasrec_layer}};
  return all;
}

std::vector<std::string> OnnxLayers::bodies() {
  std::vector<std::string> out;
  for (const auto& [body, layer] : layers()) out.push_back(body);
  return out;
}

std::string OnnxLayers::layer(const std::string& x, const std::string& seen, int64_t index) {
  return (this->*layers().at(config_.body))(x, seen, std::to_string(index));
}

}  // namespace convoy::tasks
