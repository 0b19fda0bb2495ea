#pragma once

#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/parallel/model_decl.h"
#include "convoy/parallel/program/memory.h"
#include "convoy/parallel/program/simulate.h"
#include "convoy/parallel/step_facts.h"

namespace convoy::parallel {

/// Converts costs that a rank measured of its blocks to counts, with times in seconds.
std::vector<BlockCounts> counts_of(const std::vector<BlockCost>& measured);

/// Converts counts by block to costs by block.
Costs costs_of(const std::vector<BlockCounts>& counts);

/// Converts counts to the JSON that ranks send each other, and back.
Json to_json(const std::vector<BlockCounts>& counts);
std::vector<BlockCounts> counts_from_json(const Json& json);

/// Reads measured costs from the JSON `text`. Each block, by its name, has `forward`, `backward`
/// (both halves) and `weight` in seconds, `kept` and `put_off` in bytes. A block may also have
/// `returned`, for recomputation, and `send` and `send_grad`: the seconds in which its output goes
/// to the next stage and the gradient of that comes back. Throws UsageError naming `file` where the
/// names are not the model's blocks, a number is missing or is not a number, or a part exceeds the
/// whole.
std::vector<BlockCounts> counts_from_file(const std::string& text, const std::string& file,
                                          const ModelDecl& model);

}  // namespace convoy::parallel
