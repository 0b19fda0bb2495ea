#include <sentencepiece_processor.h>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/text/parts.h"
#include "convoy/text/sentencepiece_file.h"
#include "convoy/text/sentencepiece_normalizer.h"
#include "convoy/text/unigram.h"

namespace convoy::text {
namespace {

using Processor = sentencepiece::SentencePieceProcessor;

class SentencePieceModel : public Model {
 public:
  explicit SentencePieceModel(std::shared_ptr<const Processor> processor)
      : processor_(std::move(processor)) {}

  void encode(std::string_view word, Scratch& /*scratch*/,
              std::vector<int32_t>& ids) const override {
    std::vector<int> encoded;
    const auto status = processor_->Encode(word, &encoded);
    if (!status.ok()) fail<UsageError>("text", "SentencePiece: {}", status.ToString());
    ids.insert(ids.end(), encoded.begin(), encoded.end());
  }

 private:
  std::shared_ptr<const Processor> processor_;
};

/// A model of Unigram kind, which the library would cut more slowly and, in Debian's version, with
/// other pieces where ways are equally likely.
std::unique_ptr<Model> make_unigram(const SentencePieceFile& file, const Vocabulary& vocabulary,
                                    int32_t unk_id, const std::string& where) {
  using Kind = UnigramPiece::Kind;
  std::vector<UnigramPiece> pieces;
  for (const auto& piece : file.pieces) {
    const Kind kind = piece.type == SentencePieceFile::kNormal        ? Kind::Normal
                      : piece.type == SentencePieceFile::kUserDefined ? Kind::UserDefined
                                                                      : Kind::Other;
    pieces.push_back({piece.text, piece.score, kind});
  }
  return std::make_unique<Unigram>(
      pieces, vocabulary,
      UnigramOptions{
          .unk_id = unk_id, .byte_fallback = file.byte_fallback, .single_precision = true},
      where);
}

std::optional<int32_t> id_or_none(int id) {
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

}  // namespace

Parts parts_of_sentencepiece(std::string_view bytes, const std::string& where, const Part& config) {
  const SentencePieceFile file = read_sentencepiece(bytes, where);
  const auto processor = std::make_shared<Processor>();
  std::string problem;
  try {
    const auto status = processor->LoadFromSerializedProto(bytes);
    if (!status.ok()) problem = status.ToString();
  } catch (const std::exception& error) {  // of its tries
    problem = error.what();
  }
  if (!problem.empty()) {
    fail<FileError>("text", "{} is no SentencePiece model: {}", where, problem);
  }
  Parts parts;
  for (int32_t id = 0; id < processor->GetPieceSize(); ++id) {
    if (!parts.vocabulary.add(processor->IdToPiece(id), id)) {
      fail<FileError>("text", "{}: piece {} is '{}', which is there already", where, id,
                      processor->IdToPiece(id));
    }
    parts.special.push_back(processor->IsControl(id));
  }
  SpecialIds& ids = parts.special_ids;
  ids = {id_or_none(processor->bos_id()), id_or_none(processor->eos_id()),
         id_or_none(processor->pad_id()), id_or_none(processor->unk_id())};
  const std::string kind = config.text("tokenizer_class", "");
  if (config.flag("add_bos_token", kind.starts_with("LlamaTokenizer")) && ids.bos) {
    parts.frame.before = {*ids.bos};
  }
  if (config.flag("add_eos_token", kind.starts_with("T5Tokenizer")) && ids.eos) {
    parts.frame.behind = {*ids.eos};
  }
  if (file.model_type == SentencePieceFile::kUnigram) {
    parts.model = make_unigram(file, parts.vocabulary, processor->unk_id(), where);
    parts.normalizers.push_back(SentencePieceNormalizer(file));
  } else {
    parts.model = std::make_unique<SentencePieceModel>(processor);
  }
  parts.decode = [processor](std::span<const int32_t> tokens) {
    std::string text;
    const auto decoded = processor->Decode(std::vector<int>(tokens.begin(), tokens.end()), &text);
    if (!decoded.ok()) fail<UsageError>("text", "SentencePiece: {}", decoded.ToString());
    return text;
  };
  parts.fingerprint = hash_text(bytes);
  for (const auto& frame : {parts.frame.before, parts.frame.behind}) {
    parts.fingerprint = hash_combine(parts.fingerprint, frame.empty() ? 0 : frame[0] + 1);
  }
  return parts;
}

}  // namespace convoy::text
