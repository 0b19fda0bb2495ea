#include <sentencepiece_processor.h>

#include <map>

#include "convoy/base/error.h"
#include "convoy/base/protobuf.h"
#include "convoy/base/random.h"
#include "convoy/tokenizers/load/sentencepiece_file.h"
#include "convoy/tokenizers/load/sentencepiece_normalizer.h"
#include "convoy/tokenizers/models/unigram.h"
#include "convoy/tokenizers/tokenizer_parts.h"

namespace convoy::tokenizers {
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
    if (!status.ok()) fail<UsageError>("tokenizer", "SentencePiece: {}", status.ToString());
    ids.insert(ids.end(), encoded.begin(), encoded.end());
  }

 private:
  std::shared_ptr<const Processor> processor_;
};

/// Model of Unigram kind. The library is slower and, in Debian's version, chooses other pieces
/// among equally likely ones.
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

std::shared_ptr<const Processor> make_processor(std::string_view bytes, const std::string& where) {
  const auto processor = std::make_shared<Processor>();
  std::string problem;
  try {
    const auto status = processor->LoadFromSerializedProto(bytes);
    if (!status.ok()) problem = status.ToString();
  } catch (const std::exception& error) {  // of its tries
    problem = error.what();
  }
  if (!problem.empty()) {
    fail<FileError>("tokenizer", "{} is no SentencePiece model: {}", where, problem);
  }
  return processor;
}

/// Processor of the same model for text behind an added token: it neither adds nor removes blanks
/// at the ends.
std::shared_ptr<const Processor> make_inside(std::string_view bytes, const std::string& where) {
  std::string settings, model(bytes);
  for (const int field : {kSentencePieceDummyPrefix, kSentencePieceExtraSpaces}) {
    protobuf::put_key(settings, field, protobuf::kVarint);
    protobuf::put_varint(settings, 0);
  }
  protobuf::put_bytes(model, kSentencePieceNormalizer, settings);  // the later value counts
  return make_processor(model, where);
}

std::string decode(const Processor& processor, const std::vector<int>& ids) {
  std::string text;
  const auto decoded = processor.Decode(ids, &text);
  if (!decoded.ok()) fail<UsageError>("tokenizer", "SentencePiece: {}", decoded.ToString());
  return text;
}

/// Adds the tokens of the settings, which are found in the text before it is normalized. Like
/// transformers, only the first word of a text gets a blank, unless the settings say "legacy".
void add_tokens_of(const JsonField& config, std::string_view bytes, const std::string& where,
                   bool is_unigram, const std::shared_ptr<const Processor>& processor,
                   TokenizerParts& parts) {
  Json tokens = added_tokens_of(config);
  if (tokens.empty()) return;
  for (Json& token : tokens) token["normalized"] = false;
  add_tokens(JsonField(tokens, where + ": added_tokens_decoder"), parts);
  parts.fingerprint = hash_combine(parts.fingerprint, hash_text(tokens.dump()));
  const auto inside = make_inside(bytes, where);
  if (!is_unigram && !config.flag("legacy", false)) {
    parts.model_inside = std::make_unique<SentencePieceModel>(inside);
  }
  std::map<int32_t, std::string> added;
  for (const Json& token : tokens) added[token["id"]] = token["content"];
  parts.decode = [=, added = std::move(added)](std::span<const int32_t> ids) {
    std::string text;
    std::vector<int> stretch;
    bool at_start = true;
    const auto end_stretch = [&] {
      if (!stretch.empty()) text += decode(at_start ? *processor : *inside, stretch);
      stretch.clear();
      at_start = false;
    };
    for (const int32_t id : ids) {
      const auto token = added.find(id);
      if (token == added.end()) {
        stretch.push_back(id);
        continue;
      }
      end_stretch();
      text += token->second;
    }
    end_stretch();
    return text;
  };
}

}  // namespace

TokenizerParts parts_of_sentencepiece(std::string_view bytes, const std::string& where,
                                      const JsonField& config) {
  const SentencePieceFile file = read_sentencepiece(bytes, where);
  const auto processor = make_processor(bytes, where);
  TokenizerParts parts;
  for (int32_t id = 0; id < processor->GetPieceSize(); ++id) {
    if (!parts.vocabulary.add(processor->IdToPiece(id), id)) {
      fail<FileError>("tokenizer", "{}: piece {} is '{}', which is there already", where, id,
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
  const bool is_unigram = file.model_type == SentencePieceFile::kUnigram;
  if (is_unigram) {
    parts.model = make_unigram(file, parts.vocabulary, processor->unk_id(), where);
    parts.normalizers.push_back({SentencePieceNormalizer(file)});
  } else {
    parts.model = std::make_unique<SentencePieceModel>(processor);
  }
  parts.decode = [processor](std::span<const int32_t> tokens) {
    return decode(*processor, {tokens.begin(), tokens.end()});
  };
  parts.fingerprint = hash_text(bytes);
  for (const auto& frame : {parts.frame.before, parts.frame.behind}) {
    parts.fingerprint = hash_combine(parts.fingerprint, frame.empty() ? 0 : frame[0] + 1);
  }
  add_tokens_of(config, bytes, where, is_unigram, processor, parts);
  return parts;
}

}  // namespace convoy::tokenizers
