#include "convoy/parallel/run/replicas_check.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/parallel_torch/tensor_testing.h"

// A bit that one of several ranks has differently is found, wherever ranks keep the same.
namespace convoy::parallel::tensors {
namespace {

using parallel::Kind;
using testing::HasSubstr;

/// The lowest byte of an element of what a rank keeps of a kind; undefined where it has not got it.
at::Tensor byte_of(FlatBuffers& flat, Kind kind, const std::string& name, int64_t element) {
  at::Tensor out;
  const auto& layout = flat.layout();
  for (int64_t bucket = 0; bucket < layout.num_buckets(kind); ++bucket) {
    const auto kept = flat.kept(kind, bucket);
    const auto values = flat.view(kind, bucket);
    for (const auto& piece : layout.pieces(bucket, kept)) {
      const auto& slots = flat.units()[static_cast<size_t>(piece.unit)].slots;
      if (slots[static_cast<size_t>(piece.param)].param->spec().name != name) continue;
      parallel::each_row(piece, [&](const parallel::Piece& row) {
        const int64_t at = row.place - kept.begin + element - row.begin;
        if (element < row.begin || element >= row.begin + row.length) return;
        out = values.view(at::kByte)[at * static_cast<int64_t>(values.element_size())];
      });
    }
  }
  return out;
}

struct Flip {
  Trial trial;
  int rank = 0;  ///< -1: the first that has it
  Kind kind = Kind::Weights;
  std::string name;
  int64_t element = 0;
};

/// What all ranks say after a step that is like others, and then that flip.
std::string told_of(const Flip& flipped) {
  const auto& trial = flipped.trial;
  std::set<std::string> told;
  std::mutex mutex;
  comm::ThreadConnector connector(std::chrono::seconds(30));
  comm::run_threads(trial.num_ranks(), [&](int rank) {
    at::set_num_threads(1);
    const comm::Groups groups({trial.mesh, rank, trial.num_ranks()},
                              [&](const std::vector<int>& ranks, const std::string& name) {
                                return connector.connect(rank, ranks, name);
                              });
    Replica replica(tensor_blocks(trial.family), groups, trial.options());
    replica.start();
    std::vector<MicroBatch> batches;
    for (int64_t m = 0; m < trial.micro_batches; ++m) {
      batches.push_back(
          tensor_batch(trial.family, 0, groups.rows.rank() + m * groups.rows.size(), 2));
    }
    replica.step(batches, {.seed = 7, .learning_rate = 2e-3, .check_replicas = true}, {});
    replica.weights();  // waits for gathers
    const auto byte = byte_of(replica.flat(), flipped.kind, flipped.name, flipped.element);
    const auto has =
        groups.world.all_gather(at::full({1}, byte.defined(), at::kLong), "who has it");
    const int who = flipped.rank < 0 ? has.view({-1}).argmax().item<int>() : flipped.rank;
    EXPECT_EQ(has[who].item<int64_t>(), 1) << flipped.name;
    if (rank == who && byte.defined()) at::Tensor(byte).bitwise_xor_(1);
    std::string said = "nothing";
    try {
      check_replicas(replica.flat(), groups, 4);
    } catch (const NumericError& error) {
      said = error.what();
    }
    const std::lock_guard lock(mutex);
    told.insert(said);
  });
  EXPECT_EQ(told.size(), 1U) << "all say the same";
  return *told.begin();
}

TEST(ReplicasCheck, NamesRanksAndParameterAlongEachAxis) {
  const std::string norm = "transformer.h.0.ln_1.weight", table = "transformer.wte.weight",
                    columns = "transformer.h.1.attn.c_attn.weight";
  const Trial data{.mesh = {.shard = 2}};
  EXPECT_THAT(told_of({data, 1, Kind::Weights, columns, 70}),
              HasSubstr("after step 4 ranks 0 and 1 differ in the weights of " + columns +
                        ", which data-parallel ranks keep alike"));
  EXPECT_THAT(told_of({data, 0, Kind::Moments, norm, 3}),
              HasSubstr("ranks 0 and 1 differ in exp_avg of " + norm));
  // Masters of 16 bits are shared out, weights are not; state replicas have the same shards.
  Trial half{.mesh = {.shard = 2}, .zero = 1, .dtype = at::kBFloat16};
  EXPECT_THAT(told_of({half, 1, Kind::Weights, norm, 3}), HasSubstr("the weights of " + norm));
  Trial replicas{.mesh = {.replicate = 2, .shard = 2}, .zero = 1, .dtype = at::kBFloat16};
  EXPECT_THAT(
      told_of({replicas, -1, Kind::Masters, norm, 3}),
      HasSubstr("differ in the fp32 masters of " + norm + ", which state replicas keep alike"));
  const Trial cut{.mesh = {.tensor = 3}};
  EXPECT_THAT(told_of({cut, 2, Kind::Weights, norm, 3}),
              HasSubstr("ranks 0 and 2 differ in the weights of " + norm +
                        ", which tensor ranks keep alike"));
  EXPECT_EQ(told_of({cut, 0, Kind::Weights, columns, 0}), "nothing") << "no other rank has it";
  // The second of three heads of keys is of both ranks; of the shards of its state, too.
  const std::string keys = "model.layers.0.self_attn.k_proj.weight";
  constexpr int64_t kSecond = 4 * 24;
  for (const int zero : {0, 1}) {
    Trial llama{.family = "llama", .mesh = {.shard = 1 + zero, .tensor = 2}, .zero = zero};
    EXPECT_THAT(told_of({llama, 1, Kind::Weights, keys, kSecond}),
                HasSubstr(zero == 0 ? "ranks 0 and 1 differ in the weights of head 1 of " + keys +
                                          ", which tensor ranks keep alike"
                                    : "ranks 1 and 3 differ in the weights of head 1 of " + keys +
                                          ", which data-parallel ranks keep alike"));
  }
  EXPECT_EQ(
      told_of({{.family = "llama", .mesh = {.tensor = 2}}, 1, Kind::Weights, keys, 2 * kSecond}),
      "nothing");
  const Trial stages{.mesh = {.pipeline = 2}};
  EXPECT_THAT(
      told_of({stages, 1, Kind::Moments, table, 11}),
      HasSubstr("ranks 0 and 1 differ in exp_avg of " + table + ", which stages keep alike"));
  EXPECT_EQ(told_of({stages, 0, Kind::Weights, norm, 3}), "nothing") << "one stage has it";
  // Tensor ranks have their shards at different places: the sums of these are compared.
  const Trial shards{.mesh = {.shard = 2, .tensor = 3}, .zero = 1};
  EXPECT_THAT(told_of({shards, -1, Kind::Moments, norm, 3}),
              HasSubstr("differ in exp_avg of " + norm + ", which tensor ranks keep alike"));
  const Trial context{.mesh = {.context = 2}};
  EXPECT_THAT(told_of({context, 1, Kind::Weights, columns, 70}),
              HasSubstr("ranks 0 and 1 differ in the weights of " + columns +
                        ", which context ranks keep alike"));
  const Trial rows{.mesh = {.shard = 2, .context = 2}, .zero = 1};
  EXPECT_THAT(told_of({rows, 3, Kind::Weights, norm, 3}),
              HasSubstr("ranks 0 and 3 differ in the weights of " + norm +
                        ", which data-parallel and context ranks keep alike"));
  Trial both{.mesh = {.pipeline = 2, .shard = 2, .tensor = 2}, .zero = 1};
  EXPECT_THAT(told_of({both, 0, Kind::Weights, norm, 3}),
              HasSubstr("ranks 0 and 2 differ in the weights of " + norm));
}

}  // namespace
}  // namespace convoy::parallel::tensors
