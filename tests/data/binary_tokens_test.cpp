#include "convoy/data/binary_tokens.h"

#include <arrow/ipc/writer.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/data/mixture.h"
#include "convoy/data/token_file.h"
#include "convoy/data/tools/inspect_tokens.h"
#include "tests/data/parquet_testing.h"

namespace convoy::data {
namespace {
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

template <class T>
void put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <class T>
std::string bytes_of(const std::vector<int64_t>& ids) {
  std::string out;
  for (const int64_t id : ids) put(out, static_cast<T>(id));
  return out;
}

const std::vector<int64_t> kIds{5, 6, 50256, 0, 8, 9, 50256};
const std::vector<int64_t> kEnds{3, 3, 7};

class BinaryTokens : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = unique_folder("convoy-binary-tokens");
    make_folder(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Megatron's two files, of sequences that documents have `borders` of.
  fs::path megatron(uint8_t code = 8, const std::vector<int64_t>& borders = {0, 1, 2, 3},
                    const std::vector<int32_t>& lengths = {3, 2, 2}) const {
    const int width = code == 8 ? 2 : 4;
    std::string index("MMIDIDX\0\0", 9);
    put<uint64_t>(index, 1);
    put<uint8_t>(index, code);
    put<uint64_t>(index, lengths.size());
    put<uint64_t>(index, borders.size());
    for (const auto length : lengths) put<int32_t>(index, length);
    int64_t at = 0;
    for (const auto length : lengths) {
      put<int64_t>(index, at);
      at += length * width;
    }
    for (const auto border : borders) put<int64_t>(index, border);
    write_file(folder_ / "m.idx", index);
    write_file(folder_ / "m.bin", code == 8 ? bytes_of<uint16_t>(kIds) : bytes_of<int32_t>(kIds));
    return folder_ / "m.bin";
  }

  fs::path llmc(int32_t magic, int32_t version, int32_t count) const {
    std::string all;
    put(all, magic);
    put(all, version);
    put(all, count);
    all.resize(1024);
    all += magic == 20240520 ? bytes_of<uint16_t>(kIds) : bytes_of<uint32_t>(kIds);
    write_file(folder_ / "l.bin", all);
    return folder_ / "l.bin";
  }

  static void expect_ids(const fs::path& file, const std::vector<int64_t>& ends) {
    SCOPED_TRACE(file.string());
    const auto read = read_token_texts(file, "text", std::nullopt);
    const auto view = read.ids->view();
    std::vector<int64_t> ids(static_cast<size_t>(view.size()));
    EXPECT_EQ(view.copy(0, view.size(), ids.data()), ids.data() + ids.size());
    EXPECT_THAT(ids, ElementsAreArray(kIds));
    EXPECT_THAT(read.ends, ElementsAreArray(ends));
    EXPECT_EQ(read.ids->size(), view.size());
    EXPECT_EQ(vocab_size_of_ids(file, "text"), 0) << "nobody says how many there are";
  }

  static std::string refusal(const fs::path& file) {
    return testing::message_of([&] { map_binary_tokens(file); });
  }

  fs::path folder_;
};

TEST_F(BinaryTokens, ReadMegatronsDocuments) {
  for (const uint8_t code : {8, 4}) {
    const auto file = megatron(code);
    expect_ids(file, {3, 5, 7});
    expect_ids(folder_ / "m.idx", {3, 5, 7});
    expect_ids(folder_ / "m", {3, 5, 7});  // as Megatron's --data-path names them
    EXPECT_EQ(map_binary_tokens(file)->format, "Megatron");
  }
  expect_ids(megatron(8, {0, 2, 3}), {5, 7});  // a document of two sentences
}

TEST_F(BinaryTokens, ReadLlmcAndNanoGptAsOneDocument) {
  expect_ids(llmc(20240520, 1, 7), {7});
  expect_ids(llmc(20240801, 7, 7), {7});
  EXPECT_EQ(map_binary_tokens(folder_ / "l.bin")->format, "llm.c");
  write_file(folder_ / "train.bin", bytes_of<uint16_t>(kIds));
  expect_ids(folder_ / "train.bin", {7});
  EXPECT_EQ(map_binary_tokens(folder_ / "train.bin")->format, "nanoGPT");
}

TEST_F(BinaryTokens, AreCutIntoDocumentsByTheTokenThatEndsThem) {
  write_file(folder_ / "train.bin", bytes_of<uint16_t>(kIds));
  const auto file = map_binary_tokens(folder_ / "train.bin").value();
  const auto& ids = file.ids;
  EXPECT_THAT(ends_by_token(ids, 50256), ElementsAre(3, 7));
  EXPECT_THAT(ends_by_token(ids, 0), ElementsAre(4, 7));
  EXPECT_THAT(ends_by_token(ids, 1), ElementsAre(7));
}

TEST_F(BinaryTokens, RefuseIdsThatDoNotFitTheirIndex) {
  megatron(8, {0, 1, 2, 4});
  EXPECT_THAT(refusal(folder_ / "m.bin"), HasSubstr("its document 3 ends with sequence 4 of 3"));
  megatron(8, {0, 1, 2, 3}, {3, 2, 1});
  EXPECT_THAT(refusal(folder_ / "m.bin"),
              HasSubstr("m.bin: its sequences have 6 ids, the file has 7"));
  megatron(5);
  EXPECT_THAT(refusal(folder_ / "m.bin"), HasSubstr("has ids of the type 5; expected 8 (uint16)"));
  megatron();
  auto index = read_file(folder_ / "m.idx");
  write_file(folder_ / "m.idx", index.substr(0, index.size() - 3));
  EXPECT_THAT(refusal(folder_ / "m.bin"), HasSubstr("m.idx ends within its header"));
  index[9] = 2;
  write_file(folder_ / "m.idx", index);
  EXPECT_THAT(refusal(folder_ / "m.bin"), HasSubstr("is of version 2; expected 1"));
  index[0] = 'X';
  write_file(folder_ / "m.idx", index);
  EXPECT_THAT(refusal(folder_ / "m.bin"), HasSubstr("is no index of Megatron's"));
  megatron();
  fs::remove(folder_ / "m.bin");
  EXPECT_THAT(refusal(folder_ / "m.idx"), HasSubstr("there is no " + (folder_ / "m.bin").string()));
}

TEST_F(BinaryTokens, RefuseTruncatedFiles) {
  EXPECT_THAT(refusal(llmc(20240520, 1, 8)), HasSubstr("says that it has 8 ids, and has 7"));
  EXPECT_THAT(refusal(llmc(20240520, 2, 7)), HasSubstr("of version 2; expected 1"));
  write_file(folder_ / "train.bin", bytes_of<uint16_t>(kIds) + "x");
  EXPECT_THAT(refusal(folder_ / "train.bin"), HasSubstr("15 bytes of ids, 2 each"));
}

TEST_F(BinaryTokens, AreDescribed) {
  megatron();
  const auto report = inspect_tokens(folder_ / "m.bin", kIdsColumn).value();
  EXPECT_THAT(to_text(report), HasSubstr("documents    3 of 2 to 3 tokens"));
  EXPECT_THAT(to_text(report), HasSubstr("0 to 50256; train with a vocab_size of at least 50257"));
  EXPECT_EQ(to_json(report)["tokens"], 7);
  EXPECT_FALSE(inspect_tokens(folder_ / "m.parquet", kIdsColumn));
}

TEST_F(BinaryTokens, ChecksumSeesOneChangedId) {
  write_file(folder_ / "train.bin", bytes_of<uint16_t>(kIds));
  const auto sum = sum_of_some(map_binary_tokens(folder_ / "train.bin")->ids);
  auto others = kIds;
  others[3] = 1;
  write_file(folder_ / "train.bin", bytes_of<uint16_t>(others));
  EXPECT_NE(sum_of_some(map_binary_tokens(folder_ / "train.bin")->ids), sum);
}

// Arrow's own files, and folders of them that Hugging Face's `datasets` saves.

void write_arrow(const fs::path& file, const std::vector<testing::Named>& columns, bool is_stream) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const auto& [name, array] : columns) {
    fields.push_back(arrow::field(name, array->type()));
    arrays.push_back(array);
  }
  const auto schema = arrow::schema(fields);
  const auto rows = arrow::RecordBatch::Make(schema, arrays.front()->length(), arrays);
  const auto out = arrow::io::FileOutputStream::Open(file.string()).ValueOrDie();
  const auto writer = is_stream ? arrow::ipc::MakeStreamWriter(out, schema).ValueOrDie()
                                : arrow::ipc::MakeFileWriter(out, schema).ValueOrDie();
  testing::ok(writer->WriteRecordBatch(*rows));
  testing::ok(writer->Close());
}

TEST_F(BinaryTokens, ReadArrowFilesAsParquet) {
  const auto ids = testing::lists<arrow::Int32Builder>({{5, 6, 50256}, {}, {0, 8, 9, 50256}});
  testing::write_parquet(folder_ / "ids.parquet", {{"input_ids", ids}});
  const auto parquet = read_token_texts(folder_ / "ids.parquet", "text", std::nullopt);
  for (const bool is_stream : {true, false}) {
    const auto file = folder_ / "ids.arrow";
    write_arrow(file, {{"input_ids", ids}}, is_stream);
    expect_ids(file, kEnds);
    const auto arrow = read_token_texts(file, "text", std::nullopt);
    EXPECT_THAT(arrow.ids->ids(), ElementsAreArray(parquet.ids->ids()));
    EXPECT_EQ(arrow.ends, parquet.ends);
  }
}

TEST_F(BinaryTokens, ReadFilesOfASavedDatasetInOrder) {
  const auto folder = folder_ / "saved/train";
  make_folder(folder);
  write_arrow(folder / "data-00000-of-00002.arrow",
              {{"tokens", testing::lists<arrow::Int64Builder>({{5, 6, 50256}, {}})}}, true);
  write_arrow(folder / "data-00001-of-00002.arrow",
              {{"tokens", testing::lists<arrow::Int64Builder>({{0, 8, 9, 50256}})}}, true);
  write_file(folder / "state.json",
             R"({"_data_files": [{"filename": "data-00000-of-00002.arrow"},
                                 {"filename": "data-00001-of-00002.arrow"}]})");
  const auto read = read_token_texts(folder, "tokens", std::nullopt);
  const auto report = inspect_tokens(folder, "tokens").value();
  EXPECT_EQ(report.format, "Arrow");
  EXPECT_EQ(report.num_documents, 3);
  EXPECT_EQ(report.min_length, 0);
  EXPECT_THAT(read.ids->ids(), ElementsAre(5, 6, 50256, 0, 8, 9, 50256));
  EXPECT_EQ(read.ends, kEnds);
  write_file(folder_ / "saved/dataset_dict.json", R"({"splits": ["test", "train"]})");
  EXPECT_EQ(read_token_texts(folder_ / "saved", "tokens", std::nullopt).ends, kEnds);
  write_file(folder_ / "saved/dataset_dict.json", R"({"splits": ["test", "rest"]})");
  EXPECT_THAT(
      testing::message_of([&] { read_token_texts(folder_ / "saved", "tokens", std::nullopt); }),
      HasSubstr("has the splits test, rest, and none is 'train'"));
  write_file(folder / "state.json", R"({"_data_files": [], "_indices_data_files": []})");
  EXPECT_THAT(testing::message_of([&] { read_token_texts(folder, "tokens", std::nullopt); }),
              HasSubstr("state.json names no data files"));
}

TEST_F(BinaryTokens, ReadFixedSizeListsOfArrow) {
  arrow::FixedSizeListBuilder builder(arrow::default_memory_pool(),
                                      std::make_shared<arrow::Int64Builder>(), 2);
  auto& values = static_cast<arrow::Int64Builder&>(*builder.value_builder());
  for (const int64_t id : {5, 6, 7, 8}) {
    if (id % 2 == 1) testing::ok(builder.Append());
    testing::ok(values.Append(id));
  }
  write_arrow(folder_ / "pairs.arrow", {{"input_ids", builder.Finish().ValueOrDie()}}, true);
  const auto read = read_token_texts(folder_ / "pairs.arrow", "text", std::nullopt);
  EXPECT_THAT(read.ids->ids(), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(read.ends, ElementsAre(2, 4));
}

TEST_F(BinaryTokens, RefuseArrowMasksAndLabelsThatLeaveOutTokens) {
  const auto file = folder_ / "ids.arrow";
  const auto ids = testing::lists<arrow::Int32Builder>({{5, 6}, {7, 0}});
  const auto problem = [&](const std::string& column = "text") {
    return testing::message_of([&] { read_token_texts(file, column, std::nullopt); });
  };
  write_arrow(file,
              {{"input_ids", ids},
               {"attention_mask", testing::lists<arrow::Int8Builder>({{1, 1}, {1, 0}})}},
              true);
  EXPECT_THAT(problem(), HasSubstr("attention_mask is 0 in row 1; expected ids without padding"));
  write_arrow(
      file,
      {{"input_ids", ids}, {"labels", testing::lists<arrow::Int64Builder>({{5, 6}, {7, -100}})}},
      true);
  EXPECT_THAT(problem(), HasSubstr("labels differ from input_ids in row 1; expected the same"));
  write_arrow(file,
              {{"input_ids", ids},
               {"attention_mask", testing::lists<arrow::Int8Builder>({{1, 1}, {1, 1}})},
               {"labels", testing::lists<arrow::Int64Builder>({{5, 6}, {7, 0}})}},
              true);
  EXPECT_EQ(problem(), "nothing was thrown");
  EXPECT_THAT(problem("input_id"), HasSubstr("has no column of ids 'input_id'"));
  EXPECT_THAT(problem("input_id"), HasSubstr("it has input_ids, attention_mask, labels"));
}

TEST_F(BinaryTokens, RefuseNullOrDamagedArrowLists) {
  const auto problem = [&](const std::shared_ptr<arrow::Array>& ids) {
    write_arrow(folder_ / "ids.arrow", {{"input_ids", ids}}, true);
    return testing::message_of(
        [&] { read_token_texts(folder_ / "ids.arrow", "text", std::nullopt); });
  };
  const auto values = testing::ints({5, 6, 7, 8});
  const auto offsets = [](const std::vector<int32_t>& all) {
    return testing::numbers<arrow::Int32Builder>(all)->data()->buffers[1];
  };
  const auto type = arrow::list(arrow::int64());
  const auto lists = [&](const std::vector<int32_t>& ends, std::shared_ptr<arrow::Buffer> valid) {
    return std::make_shared<arrow::ListArray>(type, 2, offsets(ends), values, std::move(valid));
  };
  EXPECT_EQ(problem(lists({0, 2, 4}, nullptr)), "nothing was thrown");
  EXPECT_THAT(problem(lists({0, 2, 4}, arrow::Buffer::FromString(std::string(1, '\1')))),
              HasSubstr("column 'input_ids', row 1 of " + (folder_ / "ids.arrow").string() +
                        " is null; expected a list"));
  EXPECT_THAT(problem(lists({0, 5, 4}, nullptr)), HasSubstr("ids.arrow"));
}

TEST_F(BinaryTokens, RefuseASavedDatasetWhoseFilesDifferInColumns) {
  const auto folder = folder_ / "saved";
  make_folder(folder);
  const auto ids = testing::lists<arrow::Int64Builder>({{5, 6}});
  write_arrow(folder / "a.arrow", {{"n", testing::ints({1})}, {"input_ids", ids}}, true);
  write_arrow(folder / "b.arrow", {{"input_ids", ids}}, true);
  write_file(folder / "state.json",
             R"({"_data_files": [{"filename": "a.arrow"}, {"filename": "b.arrow"}]})");
  EXPECT_THAT(testing::message_of([&] { read_token_texts(folder, "text", std::nullopt); }),
              HasSubstr("b.arrow has other columns than"));
}

TEST_F(BinaryTokens, TextsOfArrowFilesAreTokenized) {
  write_file(folder_ / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n");
  const auto tokenizer = tokenizers::Tokenizer::load(folder_ / "vocab.txt");
  write_arrow(folder_ / "texts.arrow", {{"text", testing::words({"a b", "b"})}}, true);
  const auto read = read_token_texts(folder_ / "texts.arrow", "text", tokenizer);
  EXPECT_THAT(read.ids->ids(), ElementsAre(2, 5, 6, 3, 2, 6, 3));
  EXPECT_THAT(
      testing::message_of([&] { read_token_texts(folder_ / "texts.arrow", "words", tokenizer); }),
      HasSubstr("has no column 'words'; it has text"));
}

}  // namespace
}  // namespace convoy::data
