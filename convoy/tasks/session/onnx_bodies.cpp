#include "convoy/tasks/session/onnx_layers.h"

namespace convoy::tasks {

namespace {

std::string onnx_gpt2_layer(OnnxLayers& to, const std::string& x, const std::string& seen,
                            const std::string& name) {
  const auto layer = "transformer.h." + name + ".";
  const double epsilon = to.config().layer_norm_epsilon;
  const auto joined = to.linear(to.norm(x, layer + "ln_1", epsilon), layer + "attn.c_attn", true);
  const int64_t D = to.config().d_model;
  const auto parts =
      to.graph().nodes("Split", {joined, to.graph().list({D, D, D})}, 3, {{"axis", int64_t{2}}});
  const auto mixed = to.attention(parts[0], parts[1], parts[2], seen);
  const auto attended = to.add(x, to.linear(mixed, layer + "attn.c_proj", true));
  const auto inner =
      to.linear(to.norm(attended, layer + "ln_2", epsilon), layer + "mlp.c_fc", true);
  return to.add(attended, to.linear(to.activated(inner), layer + "mlp.c_proj", true));
}

std::string onnx_sasrec_layer(OnnxLayers& to, const std::string& x, const std::string& seen,
                              const std::string& name) {
  const auto layer = "transformer_layers.transformer_blocks." + name + ".";
  const auto attn = layer + "multi_head_attn.";
  const double epsilon = to.config().layer_norm_epsilon;
  const auto asking = to.norm(x, layer + "q_layer_norm", epsilon);
  const auto mixed = to.attention(to.linear(asking, attn + "query"), to.linear(x, attn + "key"),
                                  to.linear(x, attn + "value"), seen);
  const auto attended = to.add(asking, to.linear(mixed, attn + "out_proj"));
  const auto fed = to.norm(attended, layer + "ff_layer_norm", epsilon);
  const auto inner = to.activated(to.linear(fed, layer + "feed_forward.ff_linear_1"));
  return to.add(fed, to.linear(inner, layer + "feed_forward.ff_linear_2"));
}

std::string onnx_ligr_layer(OnnxLayers& to, const std::string& x, const std::string& seen,
                            const std::string& name) {
  const auto layer = "transformer_layers.transformer_blocks." + name + ".";
  const auto attn = layer + "multi_head_attn.", fed = layer + "feed_forward.ff_linear_";
  const double epsilon = to.config().layer_norm_epsilon;
  const auto gated = [&](const std::string& of, const std::string& added, const char* gate) {
    const auto share = to.op("Sigmoid", {to.linear(of, layer + gate)});
    return to.add(of, to.op("Mul", {share, added}));
  };
  const auto normed = to.norm(x, layer + "layer_norm_1", epsilon);
  const auto mixed =
      to.attention(to.linear(normed, attn + "query"), to.linear(normed, attn + "key"),
                   to.linear(normed, attn + "value"), seen);
  const auto attended = gated(x, to.linear(mixed, attn + "out_proj"), "gating_linear_1");
  const auto read = to.norm(attended, layer + "layer_norm_2", epsilon);
  const auto inner =
      to.op("Mul", {to.activated(to.linear(read, fed + "1")), to.linear(read, fed + "3")});
  return gated(attended, to.linear(inner, fed + "2"), "gating_linear_2");
}

std::string onnx_bert_layer(OnnxLayers& to, const std::string& x, const std::string& seen,
                            const std::string& name) {
  const auto layer = "bert.encoder.layer." + name + ".";
  const auto self = layer + "attention.self.", out = layer + "attention.output.";
  const double epsilon = to.config().layer_norm_epsilon;
  const auto mixed = to.attention(to.linear(x, self + "query"), to.linear(x, self + "key"),
                                  to.linear(x, self + "value"), seen);
  const auto attended =
      to.norm(to.add(x, to.linear(mixed, out + "dense")), out + "LayerNorm", epsilon);
  const auto inner = to.activated(to.linear(attended, layer + "intermediate.dense"));
  return to.norm(to.add(attended, to.linear(inner, layer + "output.dense")),
                 layer + "output.LayerNorm", epsilon);
}

}  // namespace

const std::map<std::string, OnnxLayer>& onnx_bodies() {
  static const std::map<std::string, OnnxLayer> all{{"bert", onnx_bert_layer},
                                                    {"gpt2", onnx_gpt2_layer},
                                                    {"ligr", onnx_ligr_layer},
                                                    {"sasrec", onnx_sasrec_layer}};
  return all;
}

}  // namespace convoy::tasks
