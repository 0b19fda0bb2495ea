#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "convoy/parallel/program/steps.h"

namespace convoy::parallel::rules {

/// State that is in memory only between its fetch and its store.
class OffloadRules {
 public:
  explicit OffloadRules(Steps& steps)
      : steps_(steps), update_(offloaded_in_update(steps.layout())) {}

  void see(const Instruction& i) {
    const auto& layout = steps_.layout();
    if (i.op == Op::Fetch) {
      steps_.require(layout.offloaded(i.kind), i, "fetches what is in memory");
      steps_.require(here_.emplace(Place{i.kind, i.bucket}, false).second, i, "comes twice");
    } else if (i.op == Op::Store) {
      const auto found = here_.find({i.kind, i.bucket});
      steps_.require(found != here_.end() && found->second, i, "has nothing new to store");
      here_.erase(found);
    } else if (i.op == Op::Gather && layout.offloaded(Kind::Weights)) {
      need(i, Kind::Weights);
      here_.erase({Kind::Weights, i.bucket});
    } else if (i.op == Op::ReduceScatter && layout.offloaded(Kind::Gradients)) {
      const Place place{Kind::Gradients, i.bucket};
      if (summed_.insert(i.bucket).second) {
        steps_.require(!here_.contains(place), i, "loses what was fetched");
      } else {
        need(i, Kind::Gradients);
      }
      here_[place] = true;
    } else if (i.op == Op::Update) {
      for (const Kind kind : update_) {
        need(i, kind);
        here_[{kind, i.bucket}] = true;
        if (kind == Kind::Gradients) here_.erase({kind, i.bucket});
      }
    }
  }

  /// A store that the end of the program lacks, if any.
  std::optional<Instruction> missing() const {
    if (here_.empty()) return {};
    const auto& [kind, bucket] = here_.begin()->first;
    return Instruction{.op = Op::Store, .bucket = bucket, .kind = kind};
  }

 private:
  using Place = std::pair<Kind, int64_t>;  // kind, bucket
  void need(const Instruction& i, Kind kind) const {
    steps_.require_before(here_.contains({kind, i.bucket}), i,
                          {.op = Op::Fetch, .bucket = i.bucket, .kind = kind});
  }

  Steps& steps_;
  std::vector<Kind> update_;
  std::map<Place, bool> here_;  // whether it has changed
  std::set<int64_t> summed_;
};

}  // namespace convoy::parallel::rules
