#pragma once

#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/parallel/model_decl.h"
#include "convoy/parallel/program/simulate.h"
#include "convoy/parallel/step_facts.h"

namespace convoy::parallel {

/// As costs by block.
Costs costs_of(const std::vector<BlockCounts>& counts);

/// Counts as ranks tell them each other.
Json to_json(const std::vector<BlockCounts>& counts);
std::vector<BlockCounts> counts_from_json(const Json& json);

/// Reads costs that were measured: of each block, by its name, `forward`, `backward` (both halves)
/// and `weight` in seconds, `kept` and `put_off` in bytes; where blocks are recomputed `returned`;
/// where messages between stages take long `send` and `send_grad`, the seconds in which what the
/// block returns goes to the next stage, and its gradient comes back. Throws UsageError naming
/// `file` where the names are not the model's blocks, a number is missing or none, or a part is
/// more than the whole.
std::vector<BlockCounts> counts_from_file(const std::string& text, const std::string& file,
                                          const ModelDecl& model);

}  // namespace convoy::parallel
