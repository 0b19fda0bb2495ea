#include "convoy/parallel/pipeline/csv.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::parallel {

namespace {

using enum ActionKind;

/// Cell and its position; both count from one.
struct Position {
  size_t line = 0, cell = 0;
};

constexpr std::pair<ActionKind, char> kLetters[] = {
    {Forward, 'F'}, {Backward, 'B'}, {BackwardInput, 'I'}, {BackwardWeight, 'W'}};

std::optional<Action> parse(const std::string& text) {
  const auto letter = text.find_first_not_of("0123456789");
  if (letter == std::string::npos) return {};
  Action out;
  const bool numbers = parse_number(text.substr(0, letter), out.virtual_stage) &&
                       parse_number(text.substr(letter + 1), out.micro_batch);
  for (const auto& [kind, name] : kLetters) {
    out.kind = kind;
    if (name == text[letter] && numbers && out.micro_batch >= 0) return out;
  }
  return {};
}

class Reader {
 public:
  Reader(const std::string& text, std::string file, int num_ranks, int64_t num_micro_batches)
      : file_(std::move(file)), num_micro_batches_(num_micro_batches) {
    read(text);
    if (static_cast<int>(out_.orders.size()) != num_ranks) {
      fail<UsageError>("parallel", "{} is for {} ranks, a line each; expected {}", file_,
                       out_.orders.size(), num_ranks);
    }
  }

  ReadSchedule run() {
    check_micro_batches();
    place_virtual_stages();
    check_cells();
    check_circles();
    return std::move(out_);
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(const Position& place, fmt::format_string<Args...> what,
                           Args&&... args) const {
    fail<UsageError>("parallel", "{}, line {}, cell {}: {}", file_, place.line, place.cell,
                     fmt::format(what, std::forward<Args>(args)...));
  }

  void read(const std::string& text) {
    size_t line = 0;
    for (const auto& cells : split(text, '\n')) {
      ++line;
      if (trim(cells).empty()) continue;
      auto& order = out_.orders.emplace_back();
      auto& places = places_.emplace_back();
      size_t number = 0;
      for (const auto& column : split(cells, ',')) {
        const Position place{line, ++number};
        const auto word = trim(column);
        if (word.empty()) continue;
        const auto cell = parse(word);
        if (!cell)
          refuse(place, "'{}' is no cell; expected one such as 0F0, 0B0, 0I0 or 0W0", word);
        order.push_back(*cell);
        places.push_back(place);
      }
    }
  }

  /// Calls `look` with the rank, each cell and its place.
  template <class Look>
  void each(const Look& look) const {
    for (size_t r = 0; r < out_.orders.size(); ++r) {
      for (size_t c = 0; c < out_.orders[r].size(); ++c) {
        look(static_cast<int>(r), out_.orders[r][c], places_[r][c]);
      }
    }
  }

  void check_micro_batches() {
    int64_t most = 0;
    each([&](int, const Action& cell, const Position& place) {
      if (cell.micro_batch < num_micro_batches_) {
        most = std::max(most, cell.micro_batch + 1);
        return;
      }
      refuse(place, "'{}' is of a micro-batch that there is not; gradient_accumulation_steps = {}",
             to_text(cell), num_micro_batches_);
    });
    if (most == num_micro_batches_) return;
    fail<UsageError>("parallel", "{} is for {} micro-batches; gradient_accumulation_steps = {}",
                     file_, most, num_micro_batches_);
  }

  void place_virtual_stages() {
    std::map<int64_t, std::pair<int, size_t>> held;  // [virtual stage] rank, line
    each([&](int rank, const Action& cell, const Position& place) {
      const auto [found, fresh] = held.try_emplace(cell.virtual_stage, std::pair{rank, place.line});
      if (found->second.first == rank) return;
      refuse(place, "'{}' is of a virtual stage that line {} has", to_text(cell),
             found->second.second);
    });
    auto& pipe = out_.pipe;
    pipe.num_micro_batches = num_micro_batches_;
    for (const auto& [v, holder] : held) {
      if (v != pipe.num_virtual_stages()) refuse_gap(pipe.num_virtual_stages());
      pipe.rank_of.push_back(holder.first);
    }
    if (pipe.num_ranks() == static_cast<int>(out_.orders.size()) &&
        (pipe.is_loop() || pipe.is_v())) {
      return;
    }
    fail<UsageError>("parallel",
                     "{}: the virtual stages lie neither in a loop (line 1 has 0, {}, ...) nor in "
                     "a v (line 1 has the first and the last)",
                     file_, out_.orders.size());
  }

  void refuse_gap(int64_t missing) const {
    each([&](int, const Action& cell, const Position& place) {
      if (cell.virtual_stage < missing) return;
      refuse(place, "'{}' is of a virtual stage after {}, of which there are no cells",
             to_text(cell), missing);
    });
  }

  void check_cells() {
    std::map<std::pair<int64_t, int64_t>, std::set<ActionKind>> seen;  // virtual stage, micro-batch
    each([&](int, const Action& cell, const Position& place) {
      const auto& [v, kind, m] = cell;
      auto& kinds = seen[{v, m}];
      if (!kinds.insert(kind).second) refuse(place, "'{}' comes twice", to_text(cell));
      if (kinds.contains(Backward) &&
          (kinds.contains(BackwardInput) || kinds.contains(BackwardWeight))) {
        refuse(place, "'{}': a backward comes whole or in halves, not both", to_text(cell));
      }
    });
    for (int64_t v = 0; v < out_.pipe.num_virtual_stages(); ++v) {
      for (int64_t m = 0; m < num_micro_batches_; ++m) require(seen[{v, m}], v, m);
    }
    std::map<int64_t, int64_t> next;  // [virtual stage] micro-batch whose weights come
    each([&](int, const Action& cell, const Position& place) {
      const auto& [v, kind, m] = cell;
      if (kind == Forward || kind == BackwardInput) return;
      if (m != next[v]++) {
        refuse(place,
               "'{}' comes before that of micro-batch {}; gradients are summed by ascending "
               "micro-batches",
               to_text(cell), next[v] - 1);
      }
    });
  }

  void require(const std::set<ActionKind>& kinds, int64_t v, int64_t m) const {
    std::optional<ActionKind> missing;
    const bool input = kinds.contains(BackwardInput), weight = kinds.contains(BackwardWeight);
    if (!kinds.contains(Forward)) {
      missing = Forward;
    } else if (!kinds.contains(Backward) && !(input && weight)) {
      missing = input ? BackwardWeight : weight ? BackwardInput : Backward;
    }
    if (!missing) return;
    const auto rank = static_cast<size_t>(out_.pipe.rank_of[static_cast<size_t>(v)]);
    fail<UsageError>("parallel", "{}, line {}: there is no cell '{}'", file_,
                     places_[rank].front().line, to_text(Action{v, *missing, m}));
  }

  /// Cells that a cell waits for: the forwards of its micro-batch down to it, then the backwards.
  std::vector<Action> needs(const Action& cell) const {
    const auto& [v, kind, m] = cell;
    if (kind == Forward)
      return v > 0 ? std::vector<Action>{{v - 1, Forward, m}} : std::vector<Action>{};
    if (kind == BackwardWeight) return {{v, BackwardInput, m}};
    std::vector<Action> out{{v, Forward, m}};
    if (v + 1 == out_.pipe.num_virtual_stages()) return out;
    out.push_back({v + 1, Backward, m});
    out.push_back({v + 1, BackwardInput, m});
    return out;
  }

  void check_circles() const {
    const auto played = play(out_.pipe, out_.orders);
    std::vector<size_t> at;  // [rank] number of cells that ran
    for (const auto& began : played.begin) at.push_back(began.size());
    for (size_t r = 0; r < at.size(); ++r) {
      if (at[r] < out_.orders[r].size()) tell_circle(at, r);
    }
  }

  [[noreturn]] void tell_circle(const std::vector<size_t>& at, size_t rank) const {
    std::string text;
    const auto first = places_[rank][at[rank]];
    for (std::set<size_t> seen; seen.insert(rank).second;) {
      const auto& cell = out_.orders[rank][at[rank]];
      for (const auto& needed : needs(cell)) {
        const auto other =
            static_cast<size_t>(out_.pipe.rank_of[static_cast<size_t>(needed.virtual_stage)]);
        const auto& order = out_.orders[other];
        const auto place =
            std::find(order.begin() + static_cast<std::ptrdiff_t>(at[other]), order.end(), needed);
        if (place == order.end()) continue;  // done, or the other way to have a backward
        const auto& there = places_[other][static_cast<size_t>(place - order.begin())];
        text += fmt::format("{}'{}' waits for '{}' (line {}, cell {})",
                            text.empty() ? "" : ", before which ", to_text(cell), to_text(needed),
                            there.line, there.cell);
        rank = other;
        break;
      }
    }
    refuse(first, "{}: a circle", text);
  }

  std::string file_;
  int64_t num_micro_batches_;
  ReadSchedule out_;
  std::vector<std::vector<Position>> places_;  // [rank][cell]
};

}  // namespace

std::string to_text(const Action& cell) {
  for (const auto& [kind, letter] : kLetters) {
    if (kind == cell.kind)
      return fmt::format("{}{}{}", cell.virtual_stage, letter, cell.micro_batch);
  }
  return "?";
}

std::string to_csv(const Orders& orders) {
  std::string out;
  for (const auto& order : orders) {
    std::vector<std::string> cells;
    for (const auto& cell : order) cells.push_back(to_text(cell));
    out += join(cells, ",") + "\n";
  }
  return out;
}

ReadSchedule from_csv(const std::string& text, const std::string& file, int num_ranks,
                      int64_t num_micro_batches) {
  return Reader(text, file, num_ranks, num_micro_batches).run();
}

}  // namespace convoy::parallel
