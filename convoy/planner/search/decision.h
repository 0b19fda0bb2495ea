#pragma once

#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/planner/search/search.h"

namespace convoy::planner {

/// Returns the decision as Hugging Face's guide to several GPUs makes it ("The scalability
/// strategy"), in sentences with numbers: does the model fit on one device, does its largest block,
/// are the links fast, and what follows.
std::vector<std::string> decision(const ModelCosts& numbers, const Cluster& cluster,
                                  const SearchSpace& space, const SearchResult& found);

/// Reason why a split is not the one that was chosen: "3.1 GiB short in stage 0", "a bubble of
/// 27 %".
std::string verdict(const Candidate& planned, const Candidate* best);

/// Amount and place by which a step of so many stages does not fit: "3.1 GiB short in stage 0".
std::string shortage(const Prediction& prediction, int num_stages);

/// Time of a step: "12.3 ms", "1.25 s".
std::string step_text(double seconds);

Json to_json(const Candidate& planned);

}  // namespace convoy::planner
