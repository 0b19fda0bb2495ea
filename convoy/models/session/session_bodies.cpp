#include "convoy/models/session/session_bodies.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/models/session/session_layers.h"

namespace convoy::models {

namespace {

const std::vector<SessionBody>& bodies() {
  static const std::vector<SessionBody> all{
      {.name = "gpt2",
       .maskings = {"clm"},
       .layers = gpt2_layers,
       .positions = BodyPositions::FromStart,
       .last_norm = LastNorm{"transformer.ln_f"}},
      {.name = "hstu",
       .maskings = {"clm"},
       .layers = hstu_layers,
       .positions = BodyPositions::FromEnd,
       .reads_times = true},
      {.name = "ligr",
       .maskings = {"clm"},
       .layers = ligr_layers,
       .positions = BodyPositions::FromEnd,
       .activation = "silu"},
      {.name = "sasrec",
       .maskings = {"clm"},
       .layers = sasrec_layers,
       .positions = BodyPositions::FromEnd,
       .inner_factor = 1,
       .activation = "relu",
       .last_norm = LastNorm{"transformer_layers.last_layernorm", 1e-8}},
      {.name = "bert",
       .maskings = {"mlm"},
       .layers = bert_layers,
       .learns_from_wide_weights = true},
      {.name = "albert",
       .maskings = {"mlm"},
       .layers = albert_layers,
       .embedding_map = "albert.encoder.embedding_hidden_mapping_in",
       .learns_from_wide_weights = true},
      {.name = "electra",
       .maskings = {"mlm", "rtd"},
       .layers = bert_layers,
       .learns_from_wide_weights = true},
      {.name = "xlnet",
       .maskings = {"mlm", "clm", "plm"},
       .layers = xlnet_layers,
       .positions = BodyPositions::InLayers}};
  return all;
}

}  // namespace

const SessionBody& session_body(const std::string& name) {
  const auto found = std::ranges::find(bodies(), name, &SessionBody::name);
  if (found != bodies().end()) return *found;
  const auto known = bodies_that_learn_by("");
  fail<UsageError>("models", "body = {} is unknown; expected one of {}{}", name, join(known),
                   did_you_mean(name, known));
}

const std::vector<std::string>& maskings() {
  static const std::vector<std::string> all{"clm", "mlm", "plm", "rtd"};
  return all;
}

std::vector<std::string> bodies_with(bool (*has)(const SessionBody& body)) {
  std::vector<std::string> out;
  for (const auto& body : bodies()) {
    if (has(body)) out.push_back(body.name);
  }
  return out;
}

std::vector<std::string> bodies_that_learn_by(const std::string& masking) {
  std::vector<std::string> out;
  for (const auto& body : bodies()) {
    if (masking.empty() || std::ranges::count(body.maskings, masking) > 0) out.push_back(body.name);
  }
  return out;
}

}  // namespace convoy::models
