#include "convoy/tasks/session/first_weights.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <fstream>

#include "convoy/formats/safetensors.h"
#include "tests/cli/command_testing.h"

// A run that goes on from an earlier one, of which the items have become more.
namespace convoy {
namespace {

constexpr int64_t kOld = 12, kNew = 17;
constexpr const char* kTable = "embeddings.item_id-list.weight";

class FirstWeights : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    write_events("old.csv", kOld);
    write_events("new.csv", kNew);
    ASSERT_EQ(run("data sessions old.csv --output old"), 0) << output_;
    ASSERT_EQ(run("data sessions new.csv --output new --ids-from old"), 0) << output_;
    ASSERT_EQ(run("data sessions new.csv --output anew"), 0) << output_;
    ASSERT_EQ(train("old", "--learning_rate 0.05 --max_steps 6", "first"), 0) << output_;
  }

  /// Sessions over so many items; with more of them the last are the most frequent.
  void write_events(const std::string& name, int64_t items) const {
    std::ofstream out(folder_ / name);
    out << "user_id,item_id,timestamp\n";
    for (int64_t user = 0; user < 40; ++user) {
      for (int64_t t = 0; t < 8; ++t) {
        const int64_t item = t % 2 == 0 ? (user * 5 + t * 3) % items : items - 1 - user % 4;
        out << fmt::format("u{},i{},{}\n", user, item, t);
      }
    }
  }

  int train(const std::string& data, const std::string& more, const std::string& to) {
    return run(fmt::format(
        "train --data.path {} --d_model 8 --n_layer 1 --n_head 2 --per_device_train_batch_size 8 "
        "--threads 1 --weight_decay 0 --overwrite_output_dir --output_dir {} {}",
        data, to, more));
  }

  at::Tensor weight(const std::string& of, const std::string& name) const {
    const formats::SafetensorsFile file(folder_ / of / "model.safetensors");
    return at::from_blob(const_cast<std::byte*>(file.bytes(name).data()), file.entry(name).shape)
        .clone();
  }
};

TEST_F(FirstWeights, AreTheEarlierOnesAndRowsAsIfTheyHadAlwaysBeenThere) {
  const std::string still = "--max_steps 1 --learning_rate 1e-9 ";
  ASSERT_EQ(train("new", still, "drawn"), 0) << output_;
  const auto before = weight("first", kTable), drawn = weight("drawn", kTable);
  ASSERT_EQ(before.size(0), kOld + 1);
  ASSERT_EQ(drawn.size(0), kNew + 1);
  for (const char* layout :
       {"", "--zero 3 --nproc 2", "--strategy dp",
        "--sampled_softmax true --row_tables true --nproc 2", "--pipeline_parallel_size 2"}) {
    ASSERT_EQ(train("new", still + "--model_name_or_path first " + layout, "grown"), 0)
        << layout << output_;
    const auto grown = weight("grown", kTable);
    ASSERT_EQ(grown.sizes(), drawn.sizes());
    EXPECT_TRUE(at::allclose(grown.narrow(0, 0, kOld + 1), before, 0, 1e-7)) << layout;
    const auto rest = [](const at::Tensor& table) {
      return table.narrow(0, kOld + 1, kNew - kOld);
    };
    EXPECT_TRUE(at::allclose(rest(grown), rest(drawn), 0, 1e-7)) << layout;
    EXPECT_TRUE(at::allclose(weight("grown", "transformer.h.0.attn.c_attn.weight"),
                             weight("first", "transformer.h.0.attn.c_attn.weight"), 0, 1e-7))
        << layout;
  }
}

TEST_F(FirstWeights, UnusedTensorsMayBeOfAnyDtype) {
  const auto path = folder_ / "first/model.safetensors";
  std::vector<formats::TensorView> views;
  std::vector<std::string> bytes;
  bytes.reserve(100);
  {
    const formats::SafetensorsFile file(path);
    for (const auto& [name, entry] : file.entries()) {
      const auto held = file.bytes(name);
      bytes.emplace_back(reinterpret_cast<const char*>(held.data()), held.size());
      views.push_back({name, entry.dtype, entry.shape, bytes.back().data(), held.size()});
    }
  }
  views.push_back({"scales", "F8_E4M3", {2}, "ab", 2});
  formats::write_safetensors(path, views);
  ASSERT_EQ(train("new", "--max_steps 1 --learning_rate 1e-9 --model_name_or_path first", "grown"),
            0)
      << output_;
  EXPECT_TRUE(at::allclose(weight("grown", kTable).narrow(0, 0, kOld + 1), weight("first", kTable),
                           0, 1e-7));
}

TEST_F(FirstWeights, AreNotEvaluatedOnOtherIds) {
  ASSERT_EQ(run("eval first --data old"), 0) << output_;
  for (const char* command : {"eval first --data anew", "predict first --data anew"}) {
    EXPECT_EQ(run(command), 1) << command;
    expect("expected ids that keep their numbers; try convoy data sessions --ids-from");
  }
  // Metrics are those that are asked for.
  ASSERT_EQ(run("eval first --data old --top_ks 1,3 --metric_names transformers4rec"), 0);
  EXPECT_TRUE(output_.find("@3") != std::string::npos || says("_3")) << output_;
  EXPECT_EQ(output_.find("10"), std::string::npos) << output_;
  // Nor is a run that prepared its data anew in between gone on with.
  fs::remove_all(folder_ / "old");
  ASSERT_EQ(shell("sed 2,99999s/,i/,j/ old.csv > other.csv"), 0) << output_;
  ASSERT_EQ(run("data sessions other.csv --output old"), 0) << output_;
  EXPECT_EQ(run("train first/run.toml --max_steps 9 --resume_from_checkpoint latest"), 2);
  expect("was trained with the item ids ");
}

TEST_F(FirstWeights, RefuseAnotherModelOrOtherIds) {
  const auto refused = [&](const std::string& data, const std::string& more,
                           const std::string& part) {
    EXPECT_NE(train(data, "--max_steps 1 --model_name_or_path first " + more, "no"), 0) << output_;
    expect(part);
    EXPECT_FALSE(fs::exists(folder_ / "no/model.safetensors"));
  };
  refused("anew", "", "expected ids that keep their numbers; try convoy data sessions --ids-from");
  refused("new", "--d_model 16", "try its run.toml as the configuration file");
  refused("new", "--weight_tying false", "has no weight lm_head.weight");
  ASSERT_EQ(train("new", "--max_steps 1", "first"), 0) << output_;
  refused("old", "", "try convoy data sessions --ids-from with the data of that run");
}

}  // namespace
}  // namespace convoy
