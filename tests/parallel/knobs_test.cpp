#include "convoy/parallel/knobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "convoy/base/error.h"
#include "convoy/parallel/pipeline/pipeline.h"
#include "convoy/parallel/refuse.h"

namespace convoy::parallel {
namespace {

using testing::HasSubstr;

std::vector<Parallelism> plans() {
  Parallelism hybrid{.ranks = {.shard = 8, .context = 2}, .rows = 2, .zero = 2};
  hybrid.set_shard_ranks(4);
  return {{},
          {.ranks = {.pipeline = 4, .shard = 2, .tensor = 2},
           .rows = 8,
           .micro_batches = 4,
           .zero = 1,
           .recomputed = {{2}},
           .sequence_parallel = true,
           .pipeline = {.schedule = &kZeroBubble, .splits = {3, 5, 9}}},
          {.ranks = {.shard = 4},
           .zero = 3,
           .recompute = true,
           .gathers = {.prefetch = 4, .reshard_after_forward = false},
           .offload = {.optimizer = Place::Disk, .parameters = Place::Cpu}},
          hybrid};
}

TEST(Knobs, FlagsOfAPlanGiveThePlan) {
  for (const auto& plan : plans()) {
    Parallelism back;
    OptionTable table;
    for (const auto& knob : knobs()) {
      if (knob.declare != nullptr) declare(knob, table, back);
    }
    for (const auto& flag : to_flags(plan)) {
      const auto equals = flag.find('=');
      const auto key = flag.substr(2, equals - 2);
      if (table.find(key) != nullptr) table.set(key, flag.substr(equals + 1), "a plan");
    }
    // Options of [train], and one that the hosts of a job complete.
    back.rows = plan.rows;
    back.micro_batches = plan.micro_batches;
    back.recompute = plan.recompute;
    back.ranks.replicate = plan.ranks.replicate;
    back.ranks.shard = plan.ranks.shard;
    EXPECT_EQ(back, plan) << plan.to_text();
  }
}

TEST(Knobs, ATextNamesWhatIsNotAsUsual) {
  const auto all = plans();
  EXPECT_EQ(all[0].to_text(), "1 rank, 1 x 1 row");
  EXPECT_EQ(all[1].to_text(),
            "4 pipeline x 2 data x 2 tensor, zero_bubble, cut at 3,5,9, sequence_parallel, zero 1, "
            "recompute_layers 2, 4 x 8 rows");
  EXPECT_EQ(all[2].to_text(),
            "4 data, zero 3, prefetch 4, weights gathered once, gradient_checkpointing, "
            "weights offloaded to cpu, "
            "optimizer offloaded to disk, 1 x 1 row");
  EXPECT_EQ(all[3].to_text(), "8 data x 2 context, zero 2, shard_ranks 4, 1 x 2 rows");
  EXPECT_EQ(all[3].family(), "context x hybrid zero 2");
}

TEST(Knobs, APlanResetsWhatHasNoEffectWithIt) {
  const auto reset = [](const Parallelism& plan) {
    std::set<std::string> out;
    for (const auto& knob : knobs()) {
      if (knob.is_reset(plan) && !knob.is_written(plan)) out.insert(knob.name);
    }
    return out;
  };
  const auto without = reset({.ranks = {.shard = 2}});
  for (const char* name : {"prefetch", "reshard_after_forward", "zero_keep_mb", "zero_reduce",
                           "pipeline_costs", "pipeline_schedule", "recompute_layers"}) {
    EXPECT_TRUE(without.contains(name)) << name;
  }
  const auto third = reset({.ranks = {.pipeline = 2}, .zero = 3});
  for (const char* name : {"prefetch", "zero_keep_mb", "pipeline_costs", "pipeline_schedule"}) {
    EXPECT_FALSE(third.contains(name)) << name;
  }
  EXPECT_TRUE(third.contains("pipeline_memory"));
  EXPECT_TRUE(reset({.zero = 3, .offload = {.parameters = Place::Cpu}}).contains("zero_keep_mb"));
}

TEST(Knobs, ASearchStartsFromWhatNoPlanDecides) {
  Parallelism asked{.ranks = {.pipeline = 2},
                    .rows = 4,
                    .micro_batches = 2,
                    .zero = 2,
                    .recompute = true,
                    .row_tables = true,
                    .gathers = {3, false},
                    .reduce_each = false,
                    .bucket_bytes = 12345,
                    .keep_bytes = 6789,
                    .offload = {.optimizer = Place::Cpu},
                    .pipeline = {.schedule = &kInterleaved, .splits = {4}, .memory = 1 << 20}};
  const Parallelism expected{.row_tables = true,
                             .gathers = {3, false},
                             .reduce_each = false,
                             .bucket_bytes = 12345,
                             .keep_bytes = 6789};
  EXPECT_EQ(undecided(asked), expected);
}

TEST(Refuse, SaysWhyOptionsDoNotGoTogether) {
  const auto why = [](const Parallelism& asked) { return refuse(asked).value_or("none"); };
  for (auto plan : plans()) {
    plan.offload.folder = "disk";
    EXPECT_EQ(why(plan), "none") << plan.to_text();
  }
  EXPECT_THAT(why({.pipeline = {.schedule = &kGPipe}}),
              HasSubstr("pipeline_schedule = gpipe has no effect without a pipeline"));
  EXPECT_THAT(why({.pipeline = {.splits = {4, 8}}}), HasSubstr("pipeline_splits = 4,8 has no"));
  EXPECT_THAT(why({.ranks = {.pipeline = 2}, .pipeline = {.virtual_stages = 3}}),
              HasSubstr("pipeline_virtual_stages = 3 has no effect with pipeline_schedule = 1f1b"));
  EXPECT_THAT(why({.recompute = true, .recomputed = {{1}}}), HasSubstr("recompute_layers some"));
  EXPECT_THAT(why({.sequence_parallel = true}), HasSubstr("tensor_parallel_size = 1"));
  EXPECT_THAT(why({.zero = 1, .offload = {.gradients = Place::Cpu}}),
              HasSubstr("offload_gradients = cpu with zero = 1: backward needs whole gradients"));
  EXPECT_THAT(why({.ranks = {.pipeline = 2}, .zero = 3, .offload = {.parameters = Place::Cpu}}),
              HasSubstr("offload_parameters = cpu with a pipeline: each micro-batch"));
  EXPECT_THAT(why({.zero = 3, .keep_bytes = 4 << 20, .offload = {.parameters = Place::Cpu}}),
              HasSubstr("offload_parameters = cpu with zero_keep_mb = 4"));
  EXPECT_THAT(why({.ranks = {.pipeline = 2}, .pipeline = {.placement = Placement::V}}),
              HasSubstr("pipeline_placement = v takes two virtual stages a rank; got 1"));
  EXPECT_THAT(why({.recomputed = {.to_fit = true}}), HasSubstr("fits stages of a pipeline"));
  EXPECT_THAT(why({.ranks = {.pipeline = 2}, .recomputed = {.to_fit = true}}),
              HasSubstr("makes stages fit into pipeline_memory"));
  EXPECT_THAT(why({.recomputed = {{1, 2}}}),
              HasSubstr("recompute_layers = 1,2 has 2 numbers; expected one, or one for each of 1 "
                        "stage"));
  EXPECT_THAT(why({.ranks = {.context = 2}, .row_tables = true}),
              HasSubstr("row_tables = true does not go with context_parallel_size = 2"));
  EXPECT_THROW(require(refuse({.sequence_parallel = true})), UsageError);
  const Parallelism disk{.offload = {.optimizer = Place::Disk}};
  EXPECT_THAT(why(disk), HasSubstr("offload_optimizer = disk needs a folder on a disk with room"));
  EXPECT_THAT(refuse(disk, {.shares_weights = true}).value_or("none"),
              HasSubstr("offload_optimizer = disk with DataParallel: its replicas share one"));
  const Parallelism gradients{.offload = {.gradients = Place::Cpu}};
  EXPECT_EQ(refuse(gradients, {.trains = false}), std::nullopt);
  EXPECT_EQ(least_zero({.optimizer = Place::Cpu}), 0);
  EXPECT_EQ(least_zero({.gradients = Place::Cpu, .parameters = Place::Disk}), 3);
}

}  // namespace
}  // namespace convoy::parallel
