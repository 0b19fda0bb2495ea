#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "convoy/options/arguments.h"

namespace convoy::train {
namespace {

using ::testing::UnorderedElementsAre;

/// A value that the option has not.
std::string another(const Option& option) {
  static const std::map<std::string, std::string> kTexts{{"parallel.pipeline_splits", "4,8"},
                                                         {"parallel.recompute_layers", "2,1"},
                                                         {"parallel.pipeline_memory", "1GiB"},
                                                         {"parallel.device_memory", "1GiB"}};
  const auto text = kTexts.find(option.key());
  if (text != kTexts.end()) return text->second;
  const auto now = option.plain();
  for (const auto& choice : option.choices) {
    if (choice != now) return choice;
  }
  if (option.type == "bool") return now == "true" ? "false" : "true";
  if (option.type == "text") return now + "x";
  return now.starts_with("3") ? "2" : "3";
}

// Whoever declares an option need not think of it: what differs between ranks says so.
TEST(SharedOptions, AreAllButThoseThatMayDiffer) {
  options::TrainingArguments usual;
  OptionTable names;
  usual.declare(names);
  std::vector<std::string> may_differ;
  for (const auto& name : names.keys()) {
    options::TrainingArguments other;
    OptionTable table;
    other.declare(table);
    table.set(name, another(*table.find(name)), "the test");
    if (other.shared_options() == usual.shared_options()) may_differ.push_back(name);
  }
  EXPECT_THAT(
      may_differ,
      UnorderedElementsAre("train.logging_strategy", "train.logging_first_step", "train.report_to",
                           "train.logging_dir", "train.deepspeed", "parallel.strategy",
                           "parallel.replicas", "parallel.dp_batch", "parallel.threads",
                           "parallel.offload_dir", "parallel.timeout", "parallel.device",
                           "output.overwrite", "output.quiet", "output.trace", "output.trace_steps",
                           "output.events", "output.metrics_file", "output.metrics_port"));
}

TEST(SharedOptions, CompareOnlyWhetherAFolderIsSet) {
  options::TrainingArguments first, second, third;
  first.output.dir = "/data/run";
  second.output.dir = "/scratch/run";
  EXPECT_EQ(first.shared_options(), second.shared_options());
  EXPECT_NE(first.shared_options(), third.shared_options());
}

}  // namespace
}  // namespace convoy::train
