#include "convoy/checkpoint/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <numeric>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/contents.h"
#include "convoy/checkpoint/export.h"
#include "convoy/checkpoint/manifest.h"
#include "convoy/formats/safetensors_folder.h"

namespace convoy::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Two files of two tensors, with a manifest.
class Verify : public testing::Test {
 protected:
  Verify() {
    Manifest manifest;
    for (const auto& [file, names] : files_) {
      std::vector<formats::TensorView> tensors;
      std::vector<float> values(60);
      std::iota(values.begin(), values.end(), 1.F);
      for (const auto& name : names) {
        tensors.push_back({name, "F32", {5, 12}, values.data(), values.size() * 4});
        manifest.set(file, name, checksum(values.data(), values.size(), 4, 0));
      }
      formats::write_safetensors(folder_ / file, tensors);
      manifest.set_bytes(file, fs::file_size(folder_ / file));
    }
    write_file(folder_ / Manifest::kName, manifest.to_text());
  }
  ~Verify() override {
    fs::remove_all(folder_);
    fs::remove_all(out_);
  }

  static std::string error_of(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  const fs::path folder_ = unique_folder("convoy-verify"), out_ = unique_folder("convoy-export");
  const std::map<std::string, std::vector<std::string>> files_{
      {"model.safetensors", {"h.0.weight", "h.1.weight"}},
      {"optimizer.safetensors", {"exp_avg.h.0.weight", "exp_avg.h.1.weight"}}};
};

TEST_F(Verify, FindsNothingWrongInWhatWasWritten) {
  std::vector<int64_t> told;
  const auto found = verify(folder_, [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, 4 * 240);
    told.push_back(done);
  });
  EXPECT_THAT(found.wrong, IsEmpty());
  EXPECT_TRUE(found.has_manifest);
  EXPECT_EQ(found.num_tensors, 4);
  EXPECT_EQ(found.num_bytes, 4 * 240);
  EXPECT_THAT(told, ElementsAre(240, 480, 720, 960));
}

TEST_F(Verify, AnyFlippedBitIsSeenAndThoseOfDataAreNamedByTensor) {
  for (const auto& [file, names] : files_) {
    const auto good = read_file(folder_ / file);
    const size_t data = good.size() - 480;
    for (size_t byte = 0; byte < good.size(); byte += byte < data ? 1 : 7) {
      auto bad = good;
      bad[byte] = static_cast<char>(bad[byte] ^ (1 << byte % 8));
      std::ofstream(folder_ / file, std::ios::binary) << bad;
      const auto found = verify(folder_);
      ASSERT_THAT(found.wrong, Not(IsEmpty())) << file << ", byte " << byte;
      if (byte < data) continue;
      EXPECT_THAT(found.wrong, ElementsAre(names[(byte - data) / 240] + " in " + file +
                                           " is not as it was written"));
    }
    write_file(folder_ / file, good);
  }
}

TEST_F(Verify, AManifestThatIsSpoiltIsToldBesideTheRest) {
  auto text = read_file(folder_ / Manifest::kName);
  text[text.find("h.1.weight")] = 'j';
  write_file(folder_ / Manifest::kName, text);
  EXPECT_THAT(verify(folder_).wrong,
              testing::UnorderedElementsAre("h.1.weight is left over in model.safetensors",
                                            "j.1.weight is missing in model.safetensors"));
  write_file(folder_ / Manifest::kName, text.substr(0, text.size() / 2));
  EXPECT_THAT(verify(folder_).wrong, ElementsAre(HasSubstr("manifest.json")));
}

TEST_F(Verify, SmallFilesAreComparedWithTheManifest) {
  auto manifest = Manifest::read(folder_);
  write_file(folder_ / "run.toml", "[train]\nseed = 1\n");
  write_file(folder_ / "schema.json", "{}");
  manifest.set_others(folder_);
  write_file(folder_ / Manifest::kName, manifest.to_text());
  EXPECT_THAT(verify(folder_).wrong, IsEmpty());
  write_file(folder_ / "run.toml", "[train]\nseed = 2\n");
  fs::remove(folder_ / "schema.json");
  EXPECT_THAT(verify(folder_).wrong,
              ElementsAre("run.toml is not as it was written", "schema.json is missing"));
}

TEST_F(Verify, AFolderThatLostItsWeightsSaysSo) {
  fs::remove(folder_ / "model.safetensors");
  EXPECT_EQ(find_weights(folder_), folder_);
  EXPECT_THAT(verify(folder_).wrong,
              ElementsAre("there are no weights",
                          "model.safetensors is missing, with 2 tensors (h.0.weight, h.1.weight)"));
}

TEST_F(Verify, AFolderThatARunTakesAwayIsNotDamaged) {
  const fs::path away = out_ / "away";
  const auto found = verify(folder_, [&](int64_t, int64_t) {
    if (fs::exists(away)) return;
    fs::rename(folder_, away);
    fs::remove(away / "optimizer.safetensors");
  });
  EXPECT_TRUE(found.vanished);
  EXPECT_THAT(found.wrong, ElementsAre("it was removed or replaced while it was read"));
}

TEST_F(Verify, PipesAreNotReadFor) {
  for (const char* file : {"model.safetensors", "manifest.json", "trainer_state.json",
                           "model.safetensors.index.json"}) {
    fs::remove(folder_ / "model.safetensors.index.json");
    const auto place = folder_ / file;
    const auto kept = fs::exists(place) ? read_file(place) : "";
    fs::remove(place);
    const bool is_index = place.filename().string().find("index") != std::string::npos;
    if (is_index) fs::remove(folder_ / "model.safetensors");
    ASSERT_EQ(::mkfifo(place.c_str(), 0600), 0);
    EXPECT_THAT(verify(folder_).wrong, testing::Contains(HasSubstr("not a regular file"))) << file;
    if (file != std::string("manifest.json")) {
      EXPECT_THAT(error_of([&] { look_at(folder_); }), HasSubstr("not a regular file")) << file;
    }
    if (file != std::string("trainer_state.json")) {
      EXPECT_THAT(error_of([&] { export_model(folder_, out_ / "new", {"", 1000}); }),
                  HasSubstr("not a regular file"))
          << file;
    }
    fs::remove(place);
    if (!kept.empty()) write_file(place, kept);
  }
}

TEST_F(Verify, AnIndexWithoutTensorsIsRefused) {
  fs::remove(folder_ / "model.safetensors");
  fs::remove(folder_ / Manifest::kName);
  write_file(folder_ / formats::kWeightsIndex, R"({"weight_map": {}})");
  EXPECT_THAT(verify(folder_).wrong, ElementsAre(HasSubstr("weight_map names no tensor")));
  EXPECT_THAT(error_of([&] { export_model(folder_, out_ / "new", {"", 1000}); }),
              HasSubstr("weight_map names no tensor"));
}

TEST_F(Verify, WarnsOfOddTensorsInAnExport) {
  fs::remove(folder_ / Manifest::kName);
  const float values[] = {1, NAN};
  const uint8_t small[] = {1, 2};
  formats::write_safetensors(folder_ / "model.safetensors",
                             std::vector<formats::TensorView>{{"bad", "F32", {2}, values, 8},
                                                              {"small", "F8_E4M3", {2}, small, 2}});
  EXPECT_THAT(export_model(folder_, out_ / "new", {"bf16", 1000}).warnings,
              ElementsAre("there is no config.json in " + folder_.string() +
                              ": nothing tells which model the weights are of",
                          "tensors whose dtype cannot become bf16 were written as they are: small",
                          "tensors hold numbers that are not finite: bad"));
  write_file(folder_ / "config.json", "{}");
  const float good[] = {1, 2};
  formats::write_safetensors(folder_ / "model.safetensors",
                             std::vector<formats::TensorView>{{"good", "F32", {2}, good, 8}});
  EXPECT_THAT(export_model(folder_, out_ / "good", {"bf16", 1000}).warnings, IsEmpty());
}

TEST_F(Verify, RefusesPlacesWhereNoExportCanGo) {
  fs::create_symlink(out_ / "nowhere", out_ / "link");
  const std::map<fs::path, std::string> places{
      {"", "the new folder has no name; try a path such as model"},
      {out_ / "link", "link is a link that leads nowhere; try another folder"},
      {folder_ / "half", ", which is read; try a folder beside it"},
      {folder_ / "a" / ".." / "half", ", which is read; try a folder beside it"},
      {folder_, "is there already; try another folder"}};
  for (const auto& [place, expected] : places) {
    EXPECT_THAT(error_of([&] { export_model(folder_ / "", place, {"", 1000}); }),
                HasSubstr(expected))
        << place;
  }
}

TEST_F(Verify, NumbersThatADtypeHasNotAreRefusedByName) {
  fs::remove(folder_ / Manifest::kName);
  const float values[] = {1, 70000};
  formats::write_safetensors(folder_ / "model.safetensors",
                             std::vector<formats::TensorView>{{"big", "F32", {2}, values, 8}});
  try {
    export_model(folder_, out_ / "half", {"fp16", 1000});
    ADD_FAILURE() << "infinities were written";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("big holds numbers that fp16 has not, up to 70000"));
  }
  EXPECT_FALSE(fs::exists(out_ / "half"));
  EXPECT_EQ(export_model(folder_, out_ / "bf16", {"bf16", 1000}).num_bytes, 4);
  EXPECT_THAT(verify(out_ / "bf16").wrong, IsEmpty());
}

}  // namespace
}  // namespace convoy::checkpoint
