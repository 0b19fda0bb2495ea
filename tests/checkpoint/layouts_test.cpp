#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <mutex>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/save.h"
#include "convoy/checkpoint/visitors.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/nn/declare.h"
#include "convoy/parallel/run_plan/run_plan.h"
#include "convoy/parallel/strategy/strategy.h"
#include "tests/comm/ranks_testing.h"
#include "tests/models/testing.h"

// A checkpoint knows nothing of who wrote it.
namespace convoy::checkpoint {
namespace {

namespace fs = std::filesystem;

nn::BlockList blocks() {
  return models::small_gpt2({.ids = 23, .width = 12, .length = 6}).make_blocks();
}

parallel::MicroBatch batch() {
  auto ids = at::arange(12, at::kLong).view({2, 6});
  return {{{"input_ids", ids}, {"labels", ids}}, at::arange(2, at::kLong)};
}

class Layouts : public testing::Test {
 protected:
  Layouts() { train(blocks, folder_ / "one"); }
  ~Layouts() override { fs::remove_all(folder_); }

  /// One device, two steps on.
  static void train(const parallel::ModelFactory& factory, const fs::path& folder) {
    auto options = parallel::ReplicaOptions();
    options.seed = 7;
    const auto strategy = parallel::make_process_strategy(factory, {}, options);
    for (int64_t step = 0; step < 2; ++step) {
      strategy->step({{batch()}}, {.seed = 7, .step = step, .learning_rate = 1e-2, .updates = step},
                     {});
    }
    save(*strategy, folder);
  }

  static void save(parallel::Strategy& strategy, const fs::path& folder) {
    save(strategy.weights(), strategy.moments(), strategy.processes(), folder);
  }
  static void save(const parallel::State& weights, const parallel::State& moments,
                   const comm::Group& group, const fs::path& folder) {
    if (group.rank() == 0) make_folder(folder);
    group.barrier("made");
    BackgroundSave save({.folder = folder,
                         .weights = weights,
                         .moments = moments,
                         .max_shard_bytes = 3000,
                         .beside = group.size() % 2 == 0},
                        group);
    const auto manifest = save.finish();
    if (group.rank() == 0) write_file(folder / Manifest::kName, manifest.to_text());
    group.barrier("saved");
  }

  static void load(parallel::Strategy& strategy, const fs::path& folder) {
    load_weights(folder, strategy.weights(), strategy.processes());
    load_optimizer(folder / kOptimizer, strategy.moments(), strategy.processes());
    strategy.share(/*moments=*/true);
  }

  void expect_same_files(const fs::path& other, const std::string& one = "one") const {
    int files = 0;
    for (const auto& entry : fs::directory_iterator(folder_ / one)) {
      ++files;
      EXPECT_EQ(read_file(entry.path()), read_file(other / entry.path().filename()))
          << entry.path().filename();
    }
    EXPECT_GT(files, 4) << "shards, an index, moments, a manifest";
  }

  static double loss(parallel::Strategy& strategy) {
    std::vector<parallel::MicroBatch> batches(static_cast<size_t>(strategy.num_local_ranks()),
                                              batch());
    return strategy.forward(batches, nn::Mode::Evaluate)[0].at("loss").item<double>();
  }

  const fs::path folder_ = unique_folder("convoy-layouts");
};

TEST_F(Layouts, GiveTheSameFilesAndReadThoseOfAnyOther) {
  const auto one = parallel::make_process_strategy(blocks, {}, {});
  load(*one, folder_ / "one");
  const double expected = loss(*one);
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      for (int stage = 0; stage <= 3; ++stage) {
        SCOPED_TRACE(fmt::format("stage {} on {} ranks in {}", stage, ranks, c10::toString(dtype)));
        const auto out = folder_ / fmt::format("{}-{}-{}", ranks, stage, c10::toString(dtype));
        parallel::ReplicaOptions options;
        options.parallelism.zero = stage;
        options.seed = 99;
        options.compute_dtype = dtype;
        options.parallelism.bucket_bytes = 0;
        comm::run_thread_ranks(ranks, [&](const comm::Group& group) {
          const auto strategy = parallel::make_process_strategy(blocks, group, options);
          load(*strategy, folder_ / "one");
          if (dtype == at::kFloat) {
            EXPECT_EQ(loss(*strategy), expected);
          }
          save(*strategy, out);
        });
        expect_same_files(out);
        if (ranks == 1) continue;
        const auto replicas = parallel::make_thread_strategy(
            blocks, std::vector<at::Device>(static_cast<size_t>(ranks), at::kCPU), options, 1,
            std::chrono::seconds(20));
        load(*replicas, folder_ / "one");
        save(*replicas, out);
        expect_same_files(out);
      }
    }
  }
}

// What ranks keep is all that counts here; nothing runs.
TEST_F(Layouts, StagesAndTensorRanksGiveTheSameFiles) {
  const std::map<std::string, std::vector<std::vector<int64_t>>> pipelines{
      {"no pipeline", {}}, {"halves", {{0, 1}, {2, 3}}}, {"turns", {{0, 2}, {1, 3}}}};
  for (const auto& [pipeline, stages] : pipelines) {
    for (const int tensors : {1, 2, 3}) {
      for (const auto& [parts, zero] : {std::pair(1, 0), {2, 1}, {2, 3}}) {
        const int num_stages = std::max(1, static_cast<int>(stages.size()));
        const auto name =
            fmt::format("{}, {} tensor ranks, {} parts, zero {}", pipeline, tensors, parts, zero);
        SCOPED_TRACE(name);
        comm::run_thread_ranks(num_stages * tensors * parts, [&](const comm::Group& group) {
          parallel::LayoutOptions options;
          options.parallelism.zero = zero;
          options.num_parts = parts;
          options.parallelism.bucket_bytes = 0;
          options.tensor = {group.rank() / parts % tensors, tensors};
          options.stages = stages;
          options.pipeline_stage = group.rank() / parts / tensors;
          const auto model = blocks();
          parallel::FlatBuffers flat(model, parallel::layout_of(nn::declare(model), options),
                                     {.rank = group.rank() % parts});
          const auto weights = parallel::weights_of(flat, {}, group);
          const auto moments = parallel::moments_of(flat, group);
          load_weights(folder_ / "one", weights, group);
          load_optimizer(folder_ / "one" / kOptimizer, moments, group);
          save(weights, moments, group, folder_ / name);
        });
        expect_same_files(folder_ / name);
      }
    }
  }
}

// One state through layouts of all kinds, each of which loads, runs, saves and goes on.
TEST_F(Layouts, SaveTheSameFilesAndResumeOneAfterTheOther) {
  struct Way {
    parallel::Degrees mesh;
    int zero = 0;
    at::ScalarType dtype = at::kFloat;
    bool sequence = false;
  };
  const std::vector<Way> ways{{{.shard = 3}, 0},
                              {{.shard = 2}, 1, at::kBFloat16},
                              {{.shard = 2}, 2},
                              {{.replicate = 2, .shard = 2}, 3},
                              {{.pipeline = 2}, 0},
                              {{.pipeline = 2, .shard = 2}, 1},
                              {{.tensor = 2}, 0},
                              {{.tensor = 2}, 0, at::kBFloat16},
                              {{.shard = 2, .tensor = 2}, 1},
                              {{.shard = 2, .tensor = 2}, 3},
                              {{.pipeline = 2, .tensor = 2}, 0},
                              {{.pipeline = 2, .shard = 2, .tensor = 2}, 1},
                              {{.tensor = 2}, 0, at::kFloat, true},
                              {{.context = 2}, 0},
                              {{.context = 2, .tensor = 2}, 1, at::kFloat, true}};
  const auto go_on = [](parallel::Strategy& strategy, const comm::Groups& groups) {
    auto rows = batch();
    if (groups.rows.rank() > 0) rows = {};
    const parallel::StepInput input{.seed = 7, .step = 2, .learning_rate = 1e-2, .updates = 2};
    return strategy.step({{rows}}, input, {}).loss();
  };
  const auto one = parallel::make_process_strategy(blocks, {}, {});
  load(*one, folder_ / "one");
  const double expected = go_on(*one, {});
  std::string from = "one";
  for (size_t w = 0; w < ways.size(); ++w) {
    const auto& [mesh, zero, dtype, sequence] = ways[w];
    const int ranks = static_cast<int>(mesh.product());
    const auto to = fmt::format("through-{}", w);
    SCOPED_TRACE(fmt::format("{}, zero {}", parallel::Mesh(mesh, 0, ranks).to_text(), zero));
    comm::ThreadConnector connector(std::chrono::seconds(30));
    comm::run_threads(ranks, [&](int rank) {
      const comm::Groups groups({mesh, rank, ranks},
                                [&](const std::vector<int>& all, const std::string& name) {
                                  return connector.connect(rank, all, name);
                                });
      parallel::ReplicaOptions options;
      options.parallelism.zero = zero;
      options.compute_dtype = dtype;
      options.parallelism.bucket_bytes = 0;
      options.seed = 99;
      options.parallelism.sequence_parallel = sequence;
      const auto strategy = parallel::make_process_strategy(blocks, groups, options);
      load(*strategy, folder_ / from);
      save(*strategy, folder_ / to);
      EXPECT_NEAR(go_on(*strategy, groups) / expected, 1, dtype == at::kFloat ? 1e-5 : 2e-2);
    });
    expect_same_files(folder_ / to);
    from = to;
  }
}

TEST_F(Layouts, AWeightThatIsNotFiniteIsNamedWithItsOwnerOnAllRanks) {
  for (const int stage : {0, 3}) {
    SCOPED_TRACE(stage);
    std::string name;
    std::array<std::string, 2> errors;
    comm::run_thread_ranks(2, [&](const comm::Group& group) {
      parallel::ReplicaOptions options;
      options.parallelism.zero = stage;
      const auto strategy = parallel::make_process_strategy(blocks, group, options);
      const auto weights = strategy->weights();
      check_finite(weights, group, 4);
      if (group.rank() == 1) {
        for (const auto& tensor : weights) {
          if (tensor.pieces.empty() || tensor.is_buffer) continue;
          name = tensor.name;
          tensor.pieces.front().values.narrow(0, 0, 1).fill_(NAN);
          break;
        }
      }
      try {
        check_finite(weights, group, 4);
      } catch (const NumericError& error) {
        errors[static_cast<size_t>(group.rank())] = error.what();
      }
    });
    ASSERT_FALSE(name.empty());
    EXPECT_THAT(errors[0], testing::HasSubstr(fmt::format(
                               "the weights after step 4 are not finite on rank 1 ({})", name)));
    EXPECT_EQ(errors[0], errors[1]);
  }
}

TEST_F(Layouts, TensorRanksOfEachFamilyOwnEachElementOnce) {
  const models::Small size{.ids = 23, .width = 12, .length = 6};
  const std::map<std::string, parallel::ModelFactory> families{
      {"gpt2", [&] { return models::small_gpt2(size).make_blocks(); }},
      {"llama", [&] { return models::small_llama(size).make_blocks(); }},
      {"t5", [&] { return models::small_t5(size).make_blocks(); }},
      {"bert", [&] { return models::small_bert(size).make_blocks(); }}};
  for (const auto& [family, factory] : families) {
    SCOPED_TRACE(family);
    const auto one = family + " on one", two = family + " on two";
    train(factory, folder_ / one);
    std::mutex mutex;
    std::map<std::string, at::Tensor> owners;
    std::array<int64_t, 2> held{};
    comm::run_thread_ranks(2, [&](const comm::Group& group) {
      parallel::LayoutOptions options;
      options.parallelism.bucket_bytes = 0;
      options.tensor = {group.rank(), 2};
      const auto model = factory();
      parallel::FlatBuffers flat(model, parallel::layout_of(nn::declare(model), options), {});
      const auto weights = parallel::weights_of(flat, {}, group);
      const auto moments = parallel::moments_of(flat, group);
      {
        const std::lock_guard lock(mutex);
        for (const auto& tensor : weights) {
          auto& times = owners[tensor.name];
          if (!times.defined()) times = at::zeros({parallel::num_elements(tensor.shape)});
          for (const auto& piece : tensor.pieces) {
            held[static_cast<size_t>(group.rank())] += piece.values.numel();
            if (!piece.owned) continue;
            parallel::each_row(piece, [&](int64_t begin, int64_t, int64_t length) {
              times.narrow(0, begin, length).add_(1);
            });
          }
        }
      }
      load_weights(folder_ / one, weights, group);
      load_optimizer(folder_ / one / kOptimizer, moments, group);
      save(weights, moments, group, folder_ / two);
    });
    int64_t all = 0;
    for (const auto& [name, times] : owners) {
      EXPECT_TRUE(at::equal(times, at::ones_like(times))) << name;
      all += times.numel();
    }
    for (const int64_t some : held) EXPECT_LT(some, all * 7 / 10) << "little is cut";
    expect_same_files(folder_ / two, one);
  }
}

TEST_F(Layouts, AFlippedBitIsNamedByItsTensorOnAllRanks) {
  const auto index = folder_ / "one" / (std::string(kOptimizer) + ".index.json");
  const auto path = folder_ / "one" /
                    formats::parse_safetensors_index(read_file(index), index.string())
                        .at("exp_avg_sq.transformer.wte.weight");
  auto bytes = read_file(path);
  bytes[bytes.size() - 100] ^= 4;  // the last tensor: moments come by name
  write_file(path, bytes);
  std::atomic<int> refused{0};
  comm::run_thread_ranks(3, [&](const comm::Group& group) {
    parallel::ReplicaOptions options;
    options.parallelism.zero = 2;
    const auto strategy = parallel::make_process_strategy(blocks, group, options);
    try {
      load(*strategy, folder_ / "one");
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("exp_avg_sq.transformer.wte.weight"));
      ++refused;
    }
  });
  EXPECT_EQ(refused, 3);
}

TEST_F(Layouts, OtherFilesUnderTheSameNameAreRefused) {
  const std::vector<float> values(4);
  formats::write_safetensors(
      folder_ / "other" / "one" / formats::kWeightsFile,
      std::vector<formats::TensorView>{{"transformer.wte.weight", "F32", {4}, values.data(), 16}});
  std::atomic<int> refused{0};
  comm::run_thread_ranks(2, [&](const comm::Group& group) {
    const auto strategy = parallel::make_process_strategy(blocks, group, {});
    try {
      load_weights(folder_ / (group.rank() == 0 ? "one" : "other/one"), strategy->weights(), group);
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(),
                  testing::HasSubstr("other/one/model.safetensors differs from what rank "
                                     "0 finds under that name: transformer."));
      ++refused;
    }
  });
  EXPECT_EQ(refused, 2);
}

TEST_F(Layouts, AFullDiskIsToldByAllAndLeavesNoFile) {
  std::atomic<int> refused{0};
  comm::run_thread_ranks(2, [&](const comm::Group& group) {
    parallel::ReplicaOptions options;
    options.parallelism.zero = 3;
    const auto strategy = parallel::make_process_strategy(blocks, group, options);
    try {
      BackgroundSave({.folder = "/proc/none",
                      .weights = strategy->weights(),
                      .moments = strategy->moments(),
                      .max_shard_bytes = 3000,
                      .beside = true},
                     group)
          .finish();
    } catch (const FileError&) {
      ++refused;
    }
  });
  EXPECT_EQ(refused, 2);
}

TEST(Visitors, RanksWithoutTheFilesSendTheirPiecesToRankZero) {
  comm::run_thread_ranks(3, [](const comm::Group& group) {
    // Rank r has elements 2 r and 2 r + 1 of each tensor.
    parallel::State state(2);
    for (auto& tensor : state) {
      tensor.pieces.push_back({2 * group.rank(), at::full({2}, group.rank(), at::kFloat)});
    }
    // Of the second one in rows, six elements from one to the next.
    const auto wide = at::arange(8, at::kFloat).view({2, 4});
    auto& rows = state[1].pieces[0];
    rows.values = wide.narrow(1, group.rank(), 2);
    rows.stride = 6;
    int taken = 0;
    bring_pieces(state, {true, false, false}, group,
                 [&](size_t tensor, const parallel::StatePiece& piece) {
                   EXPECT_EQ(tensor, static_cast<size_t>(taken % 2));
                   EXPECT_EQ(piece.begin, 2 * (1 + taken / 2));
                   EXPECT_EQ(piece.stride, tensor == 1 ? 6 : 0);
                   if (tensor == 1) {
                     EXPECT_TRUE(at::equal(piece.values, wide.narrow(1, 1 + taken / 2, 2)));
                   } else {
                     EXPECT_EQ(piece.values[1].item<float>(), 1 + taken / 2);
                   }
                   ++taken;
                 });
    EXPECT_EQ(taken, group.rank() == 0 ? 4 : 0);
  });
}

}  // namespace
}  // namespace convoy::checkpoint
