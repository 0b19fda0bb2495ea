#pragma once

#include <memory>

#include "convoy/models/decoder/decoder.h"
#include "convoy/models/decoder/rotary_angles.h"

namespace convoy::models {

/// Layer of a decoder: attention and a gated feed-forward, as the family of `config` arranges them.
nn::BlockPtr make_decoder_layer(const DecoderConfig& config, int64_t index,
                                std::shared_ptr<RotaryAngles> angles);

}  // namespace convoy::models
