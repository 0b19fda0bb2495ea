#include "convoy/tasks/session/onnx_model.h"

#include <algorithm>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/models/session/session_bodies.h"
#include "convoy/tasks/session/loaded_model.h"
#include "convoy/tasks/session/onnx_layers.h"

// Shapes: B rows, T positions, D = d_model, V = number of item ids with padding.
namespace convoy::tasks {

namespace {

using formats::OnnxGraph;
using Type = OnnxGraph::Type;

/// Throws UsageError that names what the graph does not support.
void check_graph_has(const models::SessionConfig& config) {
  const auto refuse = [](const std::string& what) {
    fail<UsageError>("export",
                     "the graph of ONNX does not support {}; try convoy predict --requests, or "
                     "convoy export vectors",
                     what);
  };
  const auto bodies = OnnxLayers::bodies();
  if (std::ranges::count(bodies, config.body) == 0) {
    refuse(fmt::format("body = {} (it does {})", config.body, join(bodies)));
  }
  for (const auto& feature : config.features) {
    if (feature.name != config.item_feature) refuse("the feature " + feature.name);
  }
  if (!config.targets.empty()) refuse("prediction_tasks other than next-item");
  if (config.tabular_layer_norm) refuse("tabular_layer_norm");
  if (config.attend_padding) refuse("attend_padding");
}

/// Positions of the graph's rows.
class SessionGraph {
 public:
  SessionGraph(OnnxGraph& graph, const LoadedModel& model)
      : graph_(graph),
        config_(model.config),
        body_(models::session_body(config_.body)),
        layers_(graph, model.config, model.blocks) {}

  /// Adds the state [B, D] that scores items, for `ids` [B, T].
  std::string state(std::string ids) {
    lengths_ = op("ReduceSum", {is_item(ids), graph_.list({1})});
    auto last = op("Max", {op("Sub", {lengths_, graph_.list({1})}), graph_.list({0})});
    if (config_.masks_items()) {
      const auto blank = op("Mul", {lengths_, graph_.list({0})});
      ids = op("Concat", {ids, blank}, {{"axis", int64_t{1}}});
      last = lengths_;
    }
    const auto shape = op("Shape", {ids});
    const auto T = op("Gather", {shape, graph_.number(1)});
    places_ = op("Range", {graph_.number(0), T, graph_.number(1)});
    auto x = op("Gather", {layers_.weight(models::embedding_name(config_.item_feature)), ids});
    if (layers_.has("input_projection.weight")) x = layers_.linear(x, "input_projection");
    if (config_.masks_items()) {
      const auto asked = op("Unsqueeze", {op("Equal", {places_, lengths_}), graph_.list({2})});
      x = op("Where", {asked, layers_.weight("masked_item_embedding"), x});
    }
    x = with_positions(x);
    const auto seen = seen_by_positions();
    for (int64_t i = 0; i < config_.n_layer; ++i) x = layers_.layer(x, seen, i);
    auto state = op("GatherND", {x, last}, {{"batch_dims", int64_t{1}}});
    if (const auto& last = body_.last_norm) {
      state = layers_.norm(state, last->name, last->epsilon.value_or(config_.layer_norm_epsilon));
    }
    const bool projects = layers_.has("output_projection.weight");
    return projects ? layers_.linear(state, "output_projection") : state;
  }

  std::string weight(const std::string& name) { return layers_.weight(name); }

 private:
  std::string op(const std::string& name, const std::vector<std::string>& inputs,
                 const OnnxGraph::Attributes& attributes = {}) {
    return graph_.node(name, inputs, attributes);
  }

  /// Adds a mask of the ids that are no padding.
  std::string is_item(const std::string& ids) {
    return op("Cast", {op("Greater", {ids, graph_.number(0)})},
              {{"to", static_cast<int64_t>(Type::Int64)}});
  }

  std::string with_positions(const std::string& x) {
    if (config_.counts_from_end()) {
      const auto from_end = op("Sub", {op("Sub", {lengths_, graph_.number(1)}), places_});
      const auto places = op("Max", {from_end, graph_.number(0)});
      const auto table = layers_.weight("pos_encoding_layer.pos_emb.weight");
      return layers_.add(x, op("Gather", {table, places}));
    }
    if (body_.positions == models::BodyPositions::FromStart) {
      const auto table = layers_.weight("transformer.wpe.weight");
      return layers_.add(x, op("Gather", {table, places_}));
    }
    const auto embeddings = config_.body + ".embeddings.";
    const auto table = layers_.weight(embeddings + "position_embeddings.weight");
    const auto types = layers_.weight(embeddings + "token_type_embeddings.weight");
    const auto placed = layers_.add(x, op("Gather", {table, places_}));
    const auto typed = layers_.add(placed, op("Gather", {types, graph_.number(0)}));
    return layers_.norm(typed, embeddings + "LayerNorm", config_.layer_norm_epsilon);
  }

  /// Adds the visibility mask: [T, T] of earlier positions, or [B, 1, 1, T] of all items.
  std::string seen_by_positions() {
    if (!config_.masks_items()) {
      const auto rows = op("Unsqueeze", {places_, graph_.list({1})});
      return op("GreaterOrEqual", {rows, places_});
    }
    const auto there = op("LessOrEqual", {places_, lengths_});  // the mask, too
    return op("Unsqueeze", {there, graph_.list({1, 2})});
  }

  OnnxGraph& graph_;
  const models::SessionConfig& config_;
  const models::SessionBody& body_;
  OnnxLayers layers_;
  std::string lengths_;  // [B, 1]: items of a row
  std::string places_;   // [T]: 0, 1, ...
};

}  // namespace

OnnxGraph onnx_graph(const std::filesystem::path& folder) {
  const LoadedModel model(folder);
  const auto& config = model.config;
  check_graph_has(config);
  const int64_t V = model.num_items() + 1;
  OnnxGraph graph;
  const auto ids = graph.input("item_ids", Type::Int64, {"batch", "length"});
  SessionGraph session(graph, model);
  const auto state = session.state(ids);
  std::vector<float> offsets(static_cast<size_t>(V), 0);
  offsets[0] = -std::numeric_limits<float>::infinity();
  for (const int64_t id : model.known.items.unseen()) {
    offsets[static_cast<size_t>(id)] = offsets[0];
  }
  const auto table = session.weight(models::output_matrix(model.blocks)->spec().name);
  graph.node("Gemm", {state, table, graph.weights("recommended", {V}, offsets)},
             {{"alpha", 1 / config.temperature}, {"transB", int64_t{1}}}, "scores");
  graph.output("scores", Type::Float, {"batch", V});
  graph.note("max_length", std::to_string(config.prediction_length()));
  return graph;
}

}  // namespace convoy::tasks
