#include <fmt/format.h>

#include <fstream>

#include "convoy/base/options.h"
#include "convoy/prepare/items.h"
#include "convoy/tasks/session/recommender.h"
#include "tests/cli/command_testing.h"
#include "tests/tasks/event_log_testing.h"

namespace convoy {
namespace {

/// A kind of log on its way from events to answers.
struct Way {
  const char* name;
  std::vector<LogEvent> (*log)();
  size_t rows_of = 20;  ///< data sessions --max-length
  size_t reads = 20;    ///< train --max_length
  bool timed = true;    ///< every event has a time
  const char* body = "gpt2";

  /// Items that a prediction reads: as many as stand before the target of a full row.
  size_t predicts() const { return reads - (body == std::string("xlnet") ? 0 : 1); }
};

/// Users walk round `items` items, and each has `events` of them.
std::vector<LogEvent> walks(int users, int events, int items) {
  std::vector<LogEvent> out;
  for (int user = 0; user < users; ++user) {
    for (int i = 0; i < events; ++i) {
      out.push_back({fmt::format("u{}", user), fmt::format("i{}", (3 * user + i) % items), i});
    }
  }
  return out;
}

std::vector<LogEvent> plain() {
  return walks(10, 7, 12);
}

std::vector<LogEvent> repeated() {
  return walks(10, 9, 4);
}

std::vector<LogEvent> long_histories() {
  return walks(6, 46, 60);
}

std::vector<LogEvent> with_single_events() {
  auto out = walks(8, 6, 9);
  for (int user = 20; user < 25; ++user) out.push_back({fmt::format("u{}", user), "i3", 1});
  out.push_back({"u30", "i1", 1});
  out.push_back({"u30", "once", 2});  // the event before the target trains nothing alone
  return out;
}

std::vector<LogEvent> with_held_out_items() {
  auto out = walks(10, 6, 9);
  for (int user = 0; user < 4; ++user) {
    out.push_back({fmt::format("u{}", user), fmt::format("rare{}", user), 50});
  }
  out.push_back({"u40", "hidden", 1});
  out.push_back({"u40", "i2", 2});
  return out;
}

std::vector<LogEvent> with_gaps() {
  auto out = walks(9, 6, 9);
  out[3].user = "";
  out[8].item = "";
  out[13].item = "NA";
  for (const size_t i : {20, 26, 33}) out[i].time.reset();
  for (const size_t i : {1, 2, 3, 40, 41}) out[i].price = "";
  return out;
}

std::vector<LogEvent> with_ties() {
  auto out = walks(9, 8, 11);
  for (auto& event : out) *event.time /= 2;
  out.push_back(out[5]);  // a duplicate, too
  return out;
}

/// The next day: some of the users, some new ones, new items among the old.
std::vector<LogEvent> next_day() {
  std::vector<LogEvent> out;
  for (int user = 4; user < 12; ++user) {
    for (int i = 0; i < 5; ++i) {
      const bool fresh = (user + i) % 4 == 0;
      out.push_back({fmt::format("u{}", user),
                     fresh ? fmt::format("new{}", (user + i) % 3) : fmt::format("i{}", user + i),
                     LogTruth::kDay + i});
    }
  }
  return out;
}

/// The day after: most are there again, and some of the new items are no longer new.
std::vector<LogEvent> third_day() {
  std::vector<LogEvent> out;
  for (int user = 2; user < 14; ++user) {
    for (int i = 0; i < 4; ++i) {
      const auto item = i == 1         ? fmt::format("new{}", user % 3)
                        : user % 5 > 0 ? fmt::format("i{}", 2 * user + i)
                                       : fmt::format("late{}", i);
      out.push_back({fmt::format("u{}", user), item, 2 * LogTruth::kDay + i});
    }
  }
  return out;
}

const Way kWays[] = {
    {"Plain", plain},
    {"Repeated", repeated},
    {"Long", long_histories, 20, 8},
    {"Masked", long_histories, 20, 8, true, "bert"},
    {"Single", with_single_events},
    {"HeldOut", with_held_out_items},
    {"Gaps", with_gaps, 20, 20, false},
    {"Ties", with_ties, 5, 5},
};

std::string rows_text(int64_t count) {
  return fmt::format("{} {}", count, count == 1 ? "row" : "rows");
}

class WholeWay : public CommandTest, public ::testing::WithParamInterface<Way> {
 protected:
  /// A line that tells a count, which is not there where the count is 0.
  void expect_told(int64_t count, const std::string& line, const std::string& part) const {
    if (count > 0) expect(line);
    if (count == 0) EXPECT_FALSE(says(part)) << part << "\nis in:\n" << output_;
  }

  void expect_prepared(const LogTruth& truth, bool excludes, bool goes_on = false) const {
    const auto most = GetParam().rows_of;
    expect(fmt::format("events {}", truth.events));
    expect_told(truth.dropped, fmt::format("{} more dropped: no user or no item", truth.dropped),
                "dropped: no");
    expect(fmt::format("users {}", truth.users));
    expect_told(
        truth.single,
        fmt::format("users {} ({} with one event, which is in no row)", truth.users, truth.single),
        "with one event");
    expect_told(
        truth.untimed,
        fmt::format("{} without a time, last of their user's", plural(truth.untimed, "event")),
        "without a time");
    expect_told(truth.ties,
                fmt::format("{} at the time of the one before, in the order of the file",
                            plural(truth.ties, "event")),
                "at the time of the one before");
    expect_told(truth.unpriced,
                fmt::format("{} of {} events have no price", truth.unpriced, truth.events),
                "have no price");
    expect(
        fmt::format("repeats {} of {} events are an item that the user had before; "
                    "exclude_seen = {}",
                    truth.repeats, truth.events, excludes));
    expect(fmt::format("train {} rows", truth.train.size()));
    expect(fmt::format("; {} dropped as shorter than 2", truth.short_rows));
    expect(fmt::format("rows blocks of up to {} events", most));
    expect_told(truth.unread,
                fmt::format("{} of {} training events", truth.unread, truth.train_events),
                "are in none");
    expect(fmt::format("valid {} rows, {} of them with a target that {}", truth.valid.size(),
                       truth.unseen,
                       goes_on ? "these training rows do not show" : "training never shows"));
    expect_told(truth.cut_valid,
                fmt::format("{} of {} hold the last {} events of a longer history", truth.cut_valid,
                            truth.valid.size(), most),
                "of a longer history");
  }

  void expect_rows(const RowsTruth& truth, size_t rows, bool evaluates) const {
    const auto all = GetParam().reads, reads = evaluates ? all : GetParam().predicts();
    expect_told(truth.unknown_targets,
                rows_text(truth.unknown_targets) + " with a target that the model does not know",
                "with a target that the model does not know");
    expect_told(truth.seen_targets,
                rows_text(truth.seen_targets) + " with a target that the person had before",
                "with a target that the person had before");
    const auto* empty = evaluates ? " without an item before the target that the model knows"
                                  : " without an item that the model knows";
    expect_told(truth.empty_rows, rows_text(truth.empty_rows) + empty, empty);
    expect_told(truth.unknown_items,
                fmt::format("{} in {} {} unknown to the model and passed over",
                            plural(truth.unknown_items, "item"), rows_text(truth.partial_rows),
                            truth.unknown_items == 1 ? "is" : "are"),
                "passed over");
    expect_told(truth.cut_rows,
                fmt::format("{} of {} {} longer than max_length = {}{}: their last {} are read, "
                            "{} of {} items",
                            truth.cut_rows, rows_text(static_cast<int64_t>(rows)),
                            truth.cut_rows == 1 ? "is" : "are", all,
                            reads < all ? " less the one that is asked for" : "", reads,
                            truth.cut_items, truth.num_items),
                "their last");
  }

  void expect_unseen(const std::string& run, const std::string& data,
                     const std::set<std::string>& items, const std::set<std::string>& seen) {
    const auto names = prepare::ItemNames::load(folder_ / data / "items.parquet");
    std::set<std::string> unseen, expected;
    const auto kept = json(run + "/unseen_items.json");
    for (const auto& stretch : kept.at("unseen")) {
      for (int64_t id = stretch.at(0); id <= stretch.at(1); ++id) unseen.insert(names.raw_id(id));
    }
    std::set_difference(items.begin(), items.end(), seen.begin(), seen.end(),
                        std::inserter(expected, expected.end()));
    EXPECT_EQ(unseen, expected);
  }

  /// Items recommended to each user, by a table that predict wrote.
  std::map<std::string, Items> predicted(const std::string& file) const {
    std::map<std::string, Items> out;
    std::ifstream lines(folder_ / file);
    std::string line;
    std::getline(lines, line);
    EXPECT_EQ(line, "row,user_id,rank,item_id,score");
    while (std::getline(lines, line)) out[split(line, ',').at(1)].push_back(split(line, ',').at(3));
    return out;
  }

  /// Evaluates and predicts rows with a run, and asks for each user's next items.
  void expect_answers(const std::string& run_folder, const std::string& data, const LogTruth& truth,
                      const std::set<std::string>& known, bool excludes) {
    std::map<std::string, Items> of_users;
    ASSERT_NO_FATAL_FAILURE(expect_tables(run_folder, data, truth, known, excludes, of_users));
    expect_requests(run_folder, data, truth, known, excludes, of_users);
  }

  /// Evaluates and predicts rows with a run. Also gives what it recommends to each user.
  void expect_tables(const std::string& run_folder, const std::string& data, const LogTruth& truth,
                     const std::set<std::string>& known, bool excludes,
                     std::map<std::string, Items>& of_users) {
    const auto reads = GetParam().reads;
    ASSERT_EQ(run(fmt::format("eval {} --data {} --json > eval.json", run_folder, data)), 0)
        << output_;
    expect_rows({truth.valid, known, reads, true, excludes}, truth.valid.size(), true);
    EXPECT_EQ(json("eval.json").at("eval_samples"), truth.valid.size());
    EXPECT_EQ(json("eval.json").at("eval_exclude_seen"), excludes ? 1 : 0);
    ASSERT_EQ(
        run(fmt::format("predict {} --data {} --top-k 1000 --output p.csv", run_folder, data)), 0)
        << output_;
    const RowsTruth rows(truth.valid, known, GetParam().predicts(), false, excludes);
    expect_rows(rows, truth.valid.size(), false);
    expect(fmt::format("wrote p.csv ({}, ", rows_text(std::ssize(truth.valid))));
    expect(fmt::format("each); exclude_seen = {}", excludes));
    of_users = predicted("p.csv");
    int64_t recommended = 0;
    for (const auto& [user, items] : of_users) {
      EXPECT_TRUE(truth.histories.contains(user)) << user;
      recommended += std::ssize(items);
    }
    EXPECT_EQ(recommended, rows.recommended);
  }

  /// The last evaluation's popularity baseline, of what has been trained on so far.
  void expect_popularity(const LogTruth& truth, const std::map<std::string, int64_t>& counts,
                         const std::set<std::string>& known, const std::string& data,
                         bool excludes) const {
    const auto names = prepare::ItemNames::load(folder_ / data / "items.parquet");
    std::map<std::string, int64_t> ids;
    for (int64_t id = 1; id <= names.size(); ++id) ids[names.raw_id(id)] = id;
    const auto told = json("eval.json").at("eval_popularity_baseline_recall_at_5").get<double>();
    EXPECT_NEAR(told, popular_recall(truth.valid, counts, known, ids, excludes, 5), 1e-9);
  }

  void expect_requests(const std::string& run_folder, const std::string& data,
                       const LogTruth& truth, const std::set<std::string>& known, bool excludes,
                       const std::map<std::string, Items>& of_rows) {
    std::string lines = "{\"user\": \"nobody\", \"items\": [\"i1\", \"i2\"]}\n";
    for (const auto& [user, history] : truth.histories) {
      lines += Json{{"user", user}, {"top_k", 1000}}.dump() + "\n";
    }
    write_file(folder_ / "requests", lines);
    ASSERT_EQ(shell(fmt::format("$convoy predict {} --data {} --requests < requests > answers",
                                run_folder, data)),
              0)
        << output_;
    std::ifstream file(folder_ / "answers");
    std::string line;
    std::getline(file, line);
    EXPECT_EQ(parse_json(line, "answers").at("unknown").at(0), "user: nobody");
    const tasks::Recommender recommender(folder_ / run_folder, at::kCPU, folder_ / data);
    for (const auto& [user, history] : truth.histories) {
      ASSERT_TRUE(std::getline(file, line));
      const auto answer = parse_json(line, "answers");
      Items items, unknown;
      for (const auto& item : answer.at("items")) items.push_back(item.at("item_id"));
      for (const auto& item : history) {
        const bool told = std::ranges::find(unknown, item) != unknown.end();
        if (!known.contains(item) && !told) unknown.push_back(item);
      }
      EXPECT_EQ(answer.value("unknown", Items()), unknown) << user;
      EXPECT_EQ(answer.value("popular", false),
                unknown.size() == std::set(history.begin(), history.end()).size())
          << user;
      EXPECT_EQ(std::ssize(items), RowsTruth::candidates(known, history, excludes)) << user;
      const auto same = recommender.recommend({.user = user, .top_k = 1000});
      EXPECT_EQ(same.unknown, unknown);
      ASSERT_EQ(same.items.size(), items.size());
      for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ(same.items[i].item_id, items[i]);
      const auto row = of_rows.find(user);
      if (row == of_rows.end() || history.size() > GetParam().rows_of) continue;
      const bool whole = std::ranges::any_of(truth.valid, [&](const LogRow& valid) {
        return valid.user == user && valid.items.size() == history.size();
      });
      if (whole) EXPECT_TRUE(std::ranges::is_permutation(row->second, items)) << user;
    }
  }

  std::string train(const std::string& more) const {
    return fmt::format(
        "train --d_model 8 --n_layer 1 --n_head 2 --per_device_train_batch_size 4 --max_steps 6 "
        "--save_steps 3 --learning_rate 0.02 --threads 1 --data.features item_id-list "
        "--model.body {} {} {}",
        GetParam().body,
        GetParam().reads < GetParam().rows_of ? fmt::format("--max_length {}", GetParam().reads)
                                              : "",
        more);
  }
};

TEST_P(WholeWay, CountsWhatPlainLoopsCount) {
  const auto& way = GetParam();
  const auto today = way.log(), tomorrow = next_day();
  write_file(folder_ / "today.csv", csv_of(today));
  write_file(folder_ / "tomorrow.csv", csv_of(tomorrow));
  const LogTruth truth(today, way.rows_of);
  const bool excludes = truth.repeats * 100 < truth.events;
  const auto sessions = fmt::format("--features price --max-length {} --output ", way.rows_of);

  ASSERT_EQ(run("data sessions today.csv " + sessions + "d0"), 0) << output_;
  expect_prepared(truth, excludes);
  expect(fmt::format("items {}", truth.items.size()));

  ASSERT_EQ(run(train("--data.path d0 --output_dir r0")), 0) << output_;
  const auto known = truth.seen_by(way.reads);
  int64_t cut_rows = 0, cut_items = 0, num_items = 0;
  for (const auto& row : truth.train) {
    const auto length = std::ssize(row.items);
    cut_rows += row.items.size() > way.reads;
    cut_items += std::max<int64_t>(0, length - static_cast<int64_t>(way.reads));
    num_items += length;
  }
  expect_told(cut_rows,
              fmt::format("{} of {} rows are longer than max_length = {} and are cut to that: {} "
                          "of {} items",
                          cut_rows, truth.train.size(), way.reads, cut_items, num_items),
              "are cut to that");
  expect_rows({truth.valid, known, way.reads, true, excludes}, truth.valid.size(), true);
  expect_unseen("r0", "d0", truth.items, known);
  EXPECT_EQ(toml_values(folder_ / "r0/run.toml").at("train.exclude_seen"),
            excludes ? "true" : "false");
  EXPECT_EQ(json("r0/eval_results.json").at("eval_exclude_seen"), excludes ? 1 : 0);
  expect_answers("r0", "d0", truth, known, excludes);
  std::map<std::string, int64_t> counts;
  count_in(truth.train, counts);
  expect_popularity(truth, counts, known, "d0", excludes);

  // Resumed, it tells and keeps the same.
  ASSERT_EQ(run(train("--data.path d0 --output_dir r0 --max_steps 9 "
                      "--resume_from_checkpoint latest")),
            0)
      << output_;
  expect_rows({truth.valid, known, way.reads, true, excludes}, truth.valid.size(), true);
  expect_unseen("r0", "d0", truth.items, known);

  // The next day's data, read by this model and by one that goes on from it.
  ASSERT_EQ(run("data sessions tomorrow.csv --ids-from d0 " + sessions + "d1"), 0) << output_;
  const LogTruth next(tomorrow, way.rows_of, truth.histories);
  expect_prepared(next, excludes, /*goes_on=*/true);
  auto items = truth.items;
  items.insert(next.items.begin(), next.items.end());
  const auto fresh = items.size() - truth.items.size();
  expect(fmt::format("items {} ({} new)", items.size(), fresh));
  expect(fmt::format("histories go on from those of {} users in d0", truth.users));
  expect_answers("r0", "d1", next, known, excludes);
  ASSERT_EQ(run(train("--data.path d1 --model_name_or_path r0 --output_dir r1")), 0) << output_;
  auto both = known;
  for (const auto& item : next.seen_by(way.reads)) both.insert(item);
  expect(
      fmt::format("begins with the weights of r0; {} of {} items are new, training sees {} for "
                  "the first time",
                  fresh, items.size(), both.size() - known.size()));
  expect_unseen("r1", "d1", items, both);
  EXPECT_EQ(toml_values(folder_ / "r1/run.toml").at("train.exclude_seen"),
            excludes ? "true" : "false");
  expect_answers("r1", "d1", next, both, excludes);
  count_in(next.train, counts);
  expect_popularity(next, counts, both, "d1", excludes);
  if (!way.timed) return;

  // Three days as windows.
  const auto last = third_day();
  write_file(folder_ / "third.csv", csv_of(last));
  auto all = today;
  all.insert(all.end(), tomorrow.begin(), tomorrow.end());
  all.insert(all.end(), last.begin(), last.end());
  ASSERT_EQ(run("data sessions today.csv tomorrow.csv third.csv --windows day " + sessions + "w"),
            0)
      << output_;
  std::vector<LogTruth> days;
  for (int day = 1; day <= 3; ++day) {
    days.emplace_back(all, way.rows_of, std::map<std::string, Items>(), day);
  }
  const bool window_excludes = days[0].repeats * 100 < days[0].events;
  int64_t single = 0, train_rows = 0, short_rows = 0, valid_rows = 0;
  for (const auto& day : days) {
    single += day.single;
    train_rows += std::ssize(day.train);
    short_rows += day.short_rows;
    valid_rows += std::ssize(day.valid);
  }
  expect(fmt::format("sessions {}", single + valid_rows));
  expect_told(single, fmt::format("({} with one event, which is in no row)", single),
              "with one event");
  expect(fmt::format("train {} rows", train_rows));
  expect(fmt::format("; {} dropped as shorter than 2", short_rows));
  expect(fmt::format("valid {} rows", valid_rows));
  ASSERT_EQ(run(train("--windows w --output_dir rw")), 0) << output_;
  const auto results = json("rw/results_over_time.json").at("windows");
  ASSERT_EQ(results.size(), 2U);
  std::set<std::string> known_so_far;
  counts.clear();
  for (size_t i = 0; i < 2; ++i) {
    const auto folder = fmt::format("rw/{:04}", i + 1), data = fmt::format("w/{:04}", i + 2);
    SCOPED_TRACE(folder);
    for (const auto& item : days[i].seen_by(way.reads)) known_so_far.insert(item);
    count_in(days[i].train, counts);
    expect_unseen(folder, "w", days[0].items, known_so_far);
    EXPECT_EQ(results[i].at("metrics").at("eval_samples"), days[i + 1].valid.size());
    EXPECT_EQ(results[i].at("metrics").at("eval_exclude_seen"), window_excludes ? 1 : 0);
    EXPECT_EQ(toml_values(folder_ / folder / "run.toml").at("train.exclude_seen"),
              window_excludes ? "true" : "false");
    std::map<std::string, Items> of_users;
    ASSERT_NO_FATAL_FAILURE(
        expect_tables(folder, data, days[i + 1], known_so_far, window_excludes, of_users));
    expect_popularity(days[i + 1], counts, known_so_far, "w", window_excludes);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, WholeWay, ::testing::ValuesIn(kWays),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace convoy
