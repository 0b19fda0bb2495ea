#include "convoy/trials/halving.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "convoy/base/json_value.h"

namespace convoy::trials {

std::vector<Rung> rungs(int64_t trials, int64_t number, int64_t reduction) {
  std::vector<Rung> out;
  for (int64_t left = trials; std::ssize(out) < number; left = (left + reduction - 1) / reduction) {
    out.push_back({left, 1});
    if (left == 1) break;
  }
  for (auto rung = out.rbegin() + 1; rung < out.rend(); ++rung) {
    rung->share = (rung - 1)->share / static_cast<double>(reduction);
  }
  return out;
}

std::vector<size_t> Search::best_first() const {
  std::vector<size_t> out(trials.size());
  std::iota(out.begin(), out.end(), size_t{0});
  std::ranges::stable_sort(out, [&](size_t a, size_t b) {
    const auto &one = trials[a].scores, &other = trials[b].scores;
    if (one.size() != other.size()) return one.size() > other.size();
    if (trials[a].failed() != trials[b].failed()) return trials[b].failed();
    if (one.empty()) return false;
    const double x = one.back().value, y = other.back().value;
    return greater_is_better ? x > y : x < y;
  });
  return out;
}

std::vector<size_t> Search::starters(size_t rung) const {
  std::vector<size_t> out;
  if (rung == 0) {
    for (size_t i = 0; i < trials.size(); ++i) out.push_back(i);
    return out;
  }
  Search before = *this;  // as it was at the end of that round
  for (auto& trial : before.trials) {
    trial.scores.resize(std::min(trial.scores.size(), rung));
    trial.failure.clear();
  }
  const auto most = static_cast<size_t>(rungs[rung].trials);
  for (const size_t i : before.best_first()) {
    if (before.trials[i].scores.size() < rung || out.size() == most) break;
    const bool failed = trials[i].failed() && trials[i].scores.size() <= rung;
    if (!failed) out.push_back(i);
  }
  return out;
}

Json Search::to_json() const {
  Json out = Json::array();
  for (const auto& trial : trials) {
    Json scores = Json::array();
    for (const auto& score : trial.scores) {
      Json one{{"value", score.value}, {"seconds", score.seconds}};
      if (score.error) one["error"] = *score.error;
      scores.push_back(one);
    }
    Json one{{"options", trial.options}, {"scores", scores}};
    if (trial.failed()) one["failure"] = trial.failure;
    out.push_back(one);
  }
  return out;
}

bool Search::take(const Json& json) {
  if (!json.is_array() || json.size() != trials.size()) return false;
  auto taken = trials;
  for (size_t i = 0; i < taken.size(); ++i) {
    const auto& one = json.at(i);
    if (value_from<Options>(one.at("options")) != taken[i].options) return false;
    for (const auto& score : one.at("scores")) {
      taken[i].scores.push_back({.value = value_from<double>(score.at("value")),
                                 .seconds = value_from<double>(score.at("seconds"))});
      if (score.contains("error")) {
        taken[i].scores.back().error = value_from<double>(score.at("error"));
      }
    }
  }
  trials = std::move(taken);
  return true;
}

namespace {

/// Runs trials that a round lacks; false where it is complete.
bool run_some(Search& search, size_t rung, int64_t jobs, const Hooks& hooks) {
  auto starters = search.starters(rung);
  std::erase_if(starters, [&](size_t i) {
    return search.trials[i].scores.size() > rung || search.trials[i].failed();
  });
  std::mutex mutex;
  std::exception_ptr error;
  std::atomic<bool> broken{false};
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t at = next++; at < starters.size() && !broken; at = next++) {
      try {
        const size_t i = starters[at];
        auto outcome = hooks.run(i, rung);
        const std::scoped_lock lock(mutex);
        if (broken) return;
        if (outcome.failure.empty()) {
          search.trials[i].scores.push_back(outcome.score);
        } else {
          search.trials[i].failure = std::move(outcome.failure);
        }
        hooks.done(i, rung);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!broken.exchange(true)) error = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> workers;
  for (int64_t job = 0; job < std::min(jobs, std::ssize(starters)); ++job) {
    workers.emplace_back(work);
  }
  workers.clear();
  if (error) std::rethrow_exception(error);
  return !starters.empty();
}

}  // namespace

void run(Search& search, int64_t jobs, const Hooks& hooks) {
  for (size_t rung = 0; rung < search.rungs.size(); ++rung) {
    while (run_some(search, rung, jobs, hooks)) {
    }
  }
}

}  // namespace convoy::trials
