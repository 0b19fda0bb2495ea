#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convoy/nn/block.h"

namespace convoy::models {

struct SessionConfig;

/// Ways in which a session body knows where an item stands.
enum class BodyPositions {
  FromStart,  ///< a learned vector for each position
  FromEnd,    ///< a learned vector for each distance from the last item that is asked
  WithTypes,  ///< as BERT: a vector for each position and one for its type, normalised
  InLayers    ///< distances, in the attention of each layer
};

/// Norm between the last layer and the head.
struct LastNorm {
  std::string name;
  std::optional<double> epsilon = {};  ///< else that of the layers
};

/// A body of session models: its layers, and what the input and the head must know of it.
struct SessionBody {
  std::string name;                   ///< value of `body`
  std::vector<std::string> maskings;  ///< values of `masking` that it learns by; `auto`: the first
  nn::BlockList (*layers)(const SessionConfig& config) = nullptr;
  BodyPositions positions = BodyPositions::WithTypes;
  bool reads_times = false;                ///< layers know how long ago events were
  int64_t inner_factor = 4;                ///< width of the feed-forward layers, in d_model
  std::string activation = "gelu";         ///< value that `auto` takes
  std::optional<LastNorm> last_norm = {};  ///< none: layers end normalised
  std::string embedding_map = "";          ///< a product between embeddings and layers; "" = none
  bool learns_from_wide_weights = false;   ///< initial weights grow where the model is narrow
};

/// Entry of a body. Throws UsageError for a name that there is not.
const SessionBody& session_body(const std::string& name);

/// Values of `masking` but for `auto`: clm, mlm, plm, rtd.
const std::vector<std::string>& maskings();

/// Names of the bodies for which `has` holds, in the order of the table: an error suggests the
/// first.
std::vector<std::string> bodies_with(bool (*has)(const SessionBody& body));

/// Bodies that can learn by `masking`, in the order of the table; all where it is "".
std::vector<std::string> bodies_that_learn_by(const std::string& masking);

/// Makes the layers of the body that tells which items were replaced.
nn::BlockList discriminator_layers(const SessionConfig& config);

}  // namespace convoy::models
