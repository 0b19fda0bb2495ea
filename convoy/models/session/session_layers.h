#pragma once

#include "convoy/models/session/session.h"

namespace convoy::models {

// Layers of the bodies of session models. The last one computes only the positions that predict,
// unless columns of whole sessions are predicted, too.
nn::BlockList albert_layers(const SessionConfig& config);
nn::BlockList bert_layers(const SessionConfig& config);  ///< also ELECTRA's
nn::BlockList gpt2_layers(const SessionConfig& config);
nn::BlockList hstu_layers(const SessionConfig& config);
nn::BlockList ligr_layers(const SessionConfig& config);
nn::BlockList sasrec_layers(const SessionConfig& config);
nn::BlockList xlnet_layers(const SessionConfig& config);

/// Layers of the body that tells which items were replaced.
nn::BlockList discriminator_layers(const SessionConfig& config);

}  // namespace convoy::models
