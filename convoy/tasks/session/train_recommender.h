#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace convoy::tasks {

/// Trains a session model in this process, as `convoy train` does with these options: names and
/// values as on its command line, such as {"model.body", "xlnet"}. The model is in output_dir
/// afterwards, for a Recommender. Under a launcher each rank calls it alike.
///
/// Returns the metrics of the evaluation at the end, or of the training where there is nothing to
/// evaluate on. Throws UsageError and FileError that name the option or the file.
std::map<std::string, double> train_recommender(
    const std::vector<std::pair<std::string, std::string>>& options);

}  // namespace convoy::tasks
