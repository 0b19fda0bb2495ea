#include "convoy/models/session/session.h"

#include "convoy/models/session/replaced_items.h"
#include "convoy/models/session/session_bodies.h"
#include "convoy/models/session/session_head.h"
#include "convoy/models/session/session_input.h"

namespace convoy::models {

nn::BlockList make_session_model(const SessionConfig& config) {
  config.check();
  auto input = std::make_shared<SessionInput>(config);
  nn::BlockList blocks{input};
  for (auto& layer : session_body(config.body).layers(config)) blocks.push_back(std::move(layer));
  nn::ParamPtr output = config.weight_tying ? input->item_table() : nullptr;
  if (config.detects()) {
    const auto replaced = std::make_shared<ReplacedItems>(config, *input);
    output = replaced->output_table();
    blocks.push_back(replaced);
    for (auto& layer : discriminator_layers(config)) blocks.push_back(make_training_only(layer));
  }
  blocks.push_back(std::make_shared<SessionHead>(config, output, input->item_tower()));
  return blocks;
}

}  // namespace convoy::models
