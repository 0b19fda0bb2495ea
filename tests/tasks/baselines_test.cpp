#include <fmt/format.h>

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/prepare/items.h"
#include "convoy/tasks/session/baselines/baseline.h"
#include "convoy/tasks/session/baselines/ease.h"
#include "tests/cli/command_testing.h"
#include "tests/tasks/event_log_testing.h"

namespace convoy {
namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix inverse(Matrix a) {
  const size_t n = a.size();
  Matrix out(n, std::vector<double>(n, 0));
  for (size_t i = 0; i < n; ++i) out[i][i] = 1;
  for (size_t i = 0; i < n; ++i) {  // of a positive definite matrix, without pivots
    const double pivot = a[i][i];
    for (size_t j = 0; j < n; ++j) {
      a[i][j] /= pivot;
      out[i][j] /= pivot;
    }
    for (size_t k = 0; k < n; ++k) {
      if (k == i) continue;
      const double by = a[k][i];
      for (size_t j = 0; j < n; ++j) {
        a[k][j] -= by * a[i][j];
        out[k][j] -= by * out[i][j];
      }
    }
  }
  return out;
}

/// Persons with items that they had in training, by the numbers of items.parquet.
using Persons = std::map<std::string, std::set<size_t>>;

/// How many persons have both items.
Matrix gram(const Persons& persons, size_t num_items) {
  Matrix out(num_items + 1, std::vector<double>(num_items + 1, 0));
  for (const auto& [user, items] : persons) {
    for (const size_t i : items) {
      for (const size_t j : items) ++out[i][j];
    }
  }
  return out;
}

Matrix ease(const Persons& persons, size_t num_items, double regularization) {
  auto g = gram(persons, num_items);
  for (size_t i = 0; i < g.size(); ++i) g[i][i] += regularization;
  const auto p = inverse(g);
  auto out = p;
  for (size_t i = 0; i < p.size(); ++i) {
    for (size_t j = 0; j < p.size(); ++j) out[i][j] = i == j ? 0 : -p[i][j] / p[j][j];
  }
  return out;
}

Matrix knn(const Persons& persons, size_t num_items, size_t neighbours) {
  const auto g = gram(persons, num_items);
  auto out = g;
  for (size_t j = 0; j < g.size(); ++j) {
    std::vector<std::pair<double, size_t>> similar;  // with the sign turned, to sort
    for (size_t i = 0; i < g.size(); ++i) {
      out[i][j] = 0;
      if (i != j && g[i][j] > 0) similar.emplace_back(-g[i][j] / std::sqrt(g[i][i] * g[j][j]), i);
    }
    std::sort(similar.begin(), similar.end());
    similar.resize(std::min(similar.size(), neighbours));
    for (const auto& [cosine, i] : similar) out[i][j] = -cosine;
  }
  return out;
}

/// Users walk round 30 items from places of their own, and jump now and then, so that no two items
/// have equal scores by their construction.
std::vector<LogEvent> log() {
  std::vector<LogEvent> out;
  for (int user = 0; user < 40; ++user) {
    for (int i = 0; i < 8 + user % 9; ++i) {
      const int item = (user * 7 + i * (1 + user % 3) + (i % 4 == 3 ? user * i : 0)) % 30;
      out.push_back({fmt::format("u{}", user), fmt::format("i{}", item), i});
    }
  }
  return out;
}

class Baselines : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    write_file(folder_ / "log.csv", csv_of(log()));
    ASSERT_EQ(run("data sessions log.csv --output d --max-length 6"), 0) << output_;
    const auto names = prepare::ItemNames::load(folder_ / "d/items.parquet");
    num_items_ = static_cast<size_t>(names.size());
    for (int64_t id = 1; id <= names.size(); ++id) {
      ids_[names.raw_id(id)] = static_cast<size_t>(id);
    }
  }

  int train(const std::string& more) {
    return run(
        "train --data.path d --d_model 8 --n_layer 1 --n_head 2 --max_steps 2 --threads 1 --top_ks "
        "3,8 --output_dir r --overwrite_output_dir " +
        more);
  }

  /// NDCG@k of weights over whole histories, by plain loops.
  double ndcg(const Matrix& weights, size_t k, bool excludes) const {
    const LogTruth truth(log(), 6);
    double sum = 0;
    for (const auto& row : truth.valid) {
      const auto target = ids_.at(row.items.back());
      std::set<size_t> had;
      for (size_t i = 0; i + 1 < row.had.size(); ++i) had.insert(ids_.at(row.had[i]));
      std::vector<float> scores(num_items_ + 1, 0);
      for (const size_t item : had) {
        for (size_t j = 0; j < scores.size(); ++j)
          scores[j] += static_cast<float>(weights[item][j]);
      }
      if (excludes && had.contains(target)) continue;
      size_t rank = 1;
      for (size_t j = 1; j < scores.size(); ++j) {
        if (excludes && had.contains(j)) continue;
        const float gap = scores[j] - scores[target];
        rank += j != target && (gap > 1e-6 || (std::abs(gap) <= 1e-6 && j < target));
      }
      if (rank <= k) sum += 1 / std::log2(1.0 + static_cast<double>(rank));
    }
    return sum / static_cast<double>(truth.valid.size());
  }

  Persons persons() const {
    Persons out;
    const LogTruth truth(log(), 6);
    for (const auto& row : truth.train) {
      for (const auto& item : row.items) out[row.user].insert(ids_.at(item));
    }
    return out;
  }

  size_t num_items_ = 0;
  std::map<std::string, size_t> ids_;
};

TEST_F(Baselines, HaveTheNumbersOfPlainLoops) {
  for (const bool excludes : {false, true}) {
    ASSERT_EQ(
        train(fmt::format("--baselines popularity,itemknn:4,ease:5.5 --exclude_seen {}", excludes)),
        0)
        << output_;
    expect("NDCG of ease");
    expect("NDCG of itemknn");
    const auto results = json("r/eval_results.json");
    for (const size_t k : {3U, 8U}) {
      EXPECT_NEAR(results.at(fmt::format("eval_ease_baseline_ndcg_at_{}", k)).get<double>(),
                  ndcg(ease(persons(), num_items_, 5.5), k, excludes), 1e-9)
          << k << excludes;
      EXPECT_NEAR(results.at(fmt::format("eval_itemknn_baseline_ndcg_at_{}", k)).get<double>(),
                  ndcg(knn(persons(), num_items_, 4), k, excludes), 1e-9)
          << k << excludes;
    }
    EXPECT_TRUE(results.contains("eval_ease_baseline_recall_at_8_stderr"));
    EXPECT_TRUE(results.contains("eval_popularity_baseline_ndcg_at_8"));
    // Of the run's data, with other baselines.
    ASSERT_EQ(run("eval r --baselines ease:5.5 --json > eval.json"), 0) << output_;
    EXPECT_EQ(json("eval.json").at("eval_ease_baseline_ndcg_at_8"),
              results.at("eval_ease_baseline_ndcg_at_8"));
    EXPECT_FALSE(json("eval.json").contains("eval_popularity_baseline_ndcg_at_8"));
    EXPECT_FALSE(says("without effect")) << output_;
  }
  ASSERT_EQ(train("--baselines none"), 0) << output_;
  const auto without = json("r/eval_results.json");
  for (const auto& [name, value] : without.items()) {
    EXPECT_EQ(name.find("_baseline_"), std::string::npos) << name;
  }
}

TEST_F(Baselines, AreTheSameOnSeveralRanks) {
  const std::string asked = "--baselines itemknn,ease --per_device_train_batch_size 4 ";
  ASSERT_EQ(train(asked), 0) << output_;
  const auto one = json("r/eval_results.json");
  ASSERT_EQ(train(asked + "--nproc 2"), 0) << output_;
  const auto two = json("r/eval_results.json");
  for (const char* name : {"eval_ease_baseline_ndcg_at_3", "eval_itemknn_baseline_mrr_at_8"}) {
    EXPECT_EQ(one.at(name), two.at(name)) << name;
  }
}

TEST_F(Baselines, AreRefusedInASentence) {
  EXPECT_EQ(train("--baselines eas"), 2);
  expect("train.baselines has 'eas'; expected popularity, itemknn");
  expect("did you mean 'ease'?");
  EXPECT_EQ(train("--baselines ease:-1"), 2);
  EXPECT_EQ(train("--baselines itemknn:2.5"), 2);
  EXPECT_EQ(train("--baselines ease,ease:3"), 2);
  expect("train.baselines has ease twice");
  EXPECT_EQ(train("--baselines none,ease"), 2);
}

TEST_F(Baselines, AreLeftOutWithAWarningWhereTheirDataIsGone) {
  ASSERT_EQ(train(""), 0) << output_;
  fs::create_directory(folder_ / "v");
  for (const char* name : {"valid.parquet", "schema.json", "items.parquet", "seen.parquet",
                           "users.parquet", "sessions.json"}) {
    fs::rename(folder_ / "d" / name, folder_ / "v" / name);
  }
  fs::remove_all(folder_ / "d");
  ASSERT_EQ(run("eval r --data v --baselines popularity,ease"), 0) << output_;
  expect("warning: no ease baseline");
  expect("NDCG of popularity");
}

TEST(BaselineMemory, IsAskedBeforeTraining) {
  const auto ease = tasks::parse_baselines({"popularity", "ease"});
  tasks::check_memory_of(ease, 1000, tasks::ease_bytes(1000));
  tasks::check_memory_of(ease, 1000, 0);
  tasks::check_memory_of(tasks::parse_baselines({"itemknn"}), 1'000'000, 1000);
  try {
    tasks::check_memory_of(ease, 200'000, int64_t{24} << 30);
    ADD_FAILURE() << "nothing was refused";
  } catch (const UsageError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("200,000 x 200,000 items and takes 596.1 GiB"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace convoy
