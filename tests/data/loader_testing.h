#pragma once

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "convoy/base/files.h"
#include "convoy/data/loader.h"
#include "tests/data/parquet_testing.h"

namespace convoy::data {

namespace fs = std::filesystem;
/// Ids of the rows in a step of one rank, by sample.
using Samples = std::map<int64_t, int64_t>;

class LoaderTest : public ::testing::Test {
 protected:
  ~LoaderTest() override { fs::remove_all(folder_); }

  /// Row i has id i and 1 + i % 6 items i, i + 1, ...
  std::string write_rows(int64_t num_rows, int64_t group_size) {
    std::vector<int64_t> ids;
    std::vector<std::vector<int64_t>> items;
    std::vector<std::vector<float>> prices;
    for (int64_t i = 0; i < num_rows; ++i) {
      ids.push_back(i);
      std::vector<int64_t> list(static_cast<size_t>(1 + i % 6));
      std::iota(list.begin(), list.end(), i);
      prices.emplace_back(list.begin(), list.end());
      items.push_back(std::move(list));
    }
    const fs::path path = folder_ / "rows.parquet";
    testing::write_parquet(path,
                           {{"id", testing::ints(ids)},
                            {"item", testing::int_lists(items)},
                            {"price", testing::float_lists(prices)}},
                           group_size);
    return path.string();
  }

  static LoaderOptions options(BatchLayout layout = {}) {
    LoaderOptions options;
    options.selection.columns = {"id", "item", "price"};
    options.layout = layout;
    return options;
  }

  static Samples samples_of(const LoadedStep<LoadedRows>& batch) {
    Samples samples;
    for (const LoadedRows& micro_batch : batch.micro_batches) {
      for (int64_t row = 0; row < micro_batch.num_samples; ++row) {
        const bool fresh = samples
                               .emplace(batch.s0 + micro_batch.sample_offset[row],
                                        micro_batch.columns.at("id").ints[row])
                               .second;
        EXPECT_TRUE(fresh) << "a sample came twice";
      }
    }
    return samples;
  }

  /// All steps of an epoch, from s0.
  static std::vector<Samples> run(SessionLoader& loader, int64_t epoch, int64_t s0 = 0) {
    std::vector<Samples> steps;
    loader.start(epoch, s0);
    while (auto batch = loader.next()) steps.push_back(samples_of(*batch));
    return steps;
  }

  const fs::path folder_ = unique_folder("convoy-loader-test");
};

}  // namespace convoy::data
