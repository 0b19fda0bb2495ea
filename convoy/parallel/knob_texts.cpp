#include "convoy/parallel/knob_texts.h"

#include <fmt/ranges.h>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/formats/shard_size.h"

namespace convoy::parallel {

namespace {

std::vector<int64_t> numbers_of(const std::string& option, const std::string& text,
                                const char* expected) {
  std::vector<int64_t> out;
  if (text.empty()) return out;
  for (const auto& part : split(text, ',')) {
    if (parse_number(part, out.emplace_back()) && out.back() >= 0) continue;
    fail<UsageError>("parallel", "{} = {}; expected {}; got '{}'", option, text, expected, part);
  }
  return out;
}

}  // namespace

OptionTable::Text block_numbers(std::vector<int64_t>& splits) {
  return {[&splits] { return fmt::format("{}", fmt::join(splits, ",")); },
          [&splits](const std::string& text) {
            splits = numbers_of("pipeline_splits", text, "numbers of blocks between commas: 4,8");
          }};
}

OptionTable::Text layers_to_recompute(RecomputeOptions& recomputed) {
  return {[&recomputed] {
            return recomputed.to_fit ? std::string("auto")
                                     : fmt::format("{}", fmt::join(recomputed.of_stage, ","));
          },
          [&recomputed](const std::string& text) {
            recomputed.to_fit = text == "auto";
            recomputed.of_stage.clear();
            if (recomputed.to_fit) return;
            recomputed.of_stage = numbers_of("recompute_layers", text,
                                             "auto, or a number, or one for each stage: 2,1,1,0");
          }};
}

std::vector<std::pair<std::string, Place>> offload_places() {
  std::vector<std::pair<std::string, Place>> out;
  for (const auto place : {Place::Device, Place::Cpu, Place::Disk}) {
    out.emplace_back(name_of(place), place);
  }
  return out;
}

OptionTable::Text memory_size(const char* name, int64_t& bytes) {
  return {[&bytes] { return bytes == 0 ? "" : std::to_string(bytes); },
          [&bytes, name](const std::string& text) {
            bytes = formats::size_bytes(text);
            if (bytes > 0 || text.empty() || text == "0") return;
            fail<UsageError>("parallel", "{} = {}; expected a size such as 4GiB or 500MB", name,
                             text);
          }};
}

}  // namespace convoy::parallel
