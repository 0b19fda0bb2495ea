#include "convoy/tasks/mixture_options.h"

#include <charconv>
#include <filesystem>
#include <set>

#include "convoy/base/error.h"
#include "convoy/data/pattern.h"

namespace convoy::tasks {

namespace {

/// Files that fit a pattern, sorted by name.
std::vector<std::string> files_of(const std::string& pattern) {
  std::vector<std::string> out;
  for (const auto& file : data::matching_files(pattern)) out.push_back(file.string());
  if (out.empty()) fail<FileError>("data", "no file fits {} in the mixture", pattern);
  return out;
}

MixtureOptions::Source source_of(const std::string& typed) {
  const auto equal = typed.rfind('=');
  if (equal == typed.npos || equal == 0) {
    fail<UsageError>("data", "mixture = {} has no weight; expected FILE=WEIGHT, such as {}=0.7",
                     typed, typed.empty() || equal == 0 ? "a.jsonl" : typed);
  }
  MixtureOptions::Source out{.name = typed.substr(0, equal)};
  const auto weight = typed.substr(equal + 1);
  const auto [end, error] =
      std::from_chars(weight.data(), weight.data() + weight.size(), out.weight);
  if (error != std::errc() || end != weight.data() + weight.size()) {
    fail<UsageError>("data", "mixture = {} has the weight '{}'; expected a number above 0", typed,
                     weight);
  }
  return out;
}

}  // namespace

void MixtureOptions::declare(OptionTable& t) {
  const char* s = "data";
  t.add(s, "mixture", sources,
        "training data from several sources instead of data.train: FILE=WEIGHT each, such as "
        "a.jsonl=0.7,b/*.jsonl=0.3; an epoch has rows of each as weights say");
  t.add(s, "mixture_stop", stop,
        "end of an epoch of the mixture: with the first source that is used up, or with the last, "
        "where smaller ones are repeated")
      .choice({"first_exhausted", "all_exhausted"})
      .alias("stopping_strategy")
      .only_with("data.mixture");
  t.hint({"data.mixture", true, {"dataset_mixer", "data_mixture", "blend", "data_path_weights"}});
}

std::vector<MixtureOptions::Source> MixtureOptions::read() const {
  std::vector<Source> out;
  std::set<std::string> names;
  for (const auto& typed : sources) {
    out.push_back(source_of(typed));
    auto& source = out.back();
    if (!names.insert(source.name).second) {
      fail<UsageError>("data", "the mixture names {} twice; expected each source once",
                       source.name);
    }
    std::error_code error;
    const bool is_file = std::filesystem::exists(source.name, error);
    source.files = is_file ? std::vector{source.name} : files_of(source.name);
  }
  return out;
}

void MixtureOptions::check_alone(const std::string& train, bool is_limited) const {
  if (sources.empty()) return;
  if (!train.empty()) {
    fail<UsageError>("data",
                     "data.train = {} and data.mixture are both given; try {}=WEIGHT as a part of "
                     "the mixture",
                     train, train);
  }
  if (is_limited) {
    fail<UsageError>("data",
                     "max_train_samples has no effect on a mixture; try other weights, or "
                     "--max_steps");
  }
}

data::Mixture MixtureOptions::mixture(std::vector<data::MixtureSource> rows) const {
  const auto typed = read();
  for (size_t i = 0; i < typed.size(); ++i) {
    rows[i].name = typed[i].name;
    rows[i].weight = typed[i].weight;
  }
  return {std::move(rows), stop == "first_exhausted" ? data::MixtureStop::FirstExhausted
                                                     : data::MixtureStop::AllExhausted};
}

}  // namespace convoy::tasks
