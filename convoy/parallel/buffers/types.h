#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "convoy/nn/block.h"

// Parts, inputs and results of replicas of a model.
namespace convoy::parallel {

class Replica;
class Strategy;

/// Makes a model's blocks; called once per replica.
using ModelFactory = std::function<nn::BlockList()>;

/// Rows that one device computes at once. A short last batch may leave a device without any.
struct MicroBatch {
  nn::Bundle inputs;
  at::Tensor samples;  ///< [rows] int64 on the host: index of each row in the step's global batch
  at::Tensor row_lengths;  ///< [rows] int64 on the host: positions before the padding on the
                           ///< right; undefined: nobody knows, or all are alike
  nn::Bundle loaded;  ///< the inputs before they went to another device; empty while they are there
  std::shared_ptr<nn::KvCache> cache;  ///< for prediction: of the positions before
  /// Inputs that a model computed of the rows: their last bits differ between layouts.
  std::vector<std::string> derived = {};

  bool empty() const { return !samples.defined() || samples.numel() == 0; }
};

}  // namespace convoy::parallel
