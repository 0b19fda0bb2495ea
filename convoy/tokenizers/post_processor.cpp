#include "convoy/tokenizers/post_processor.h"

#include "convoy/tokenizers/models/vocabulary.h"

namespace convoy::tokenizers {
namespace {

int32_t id_in(const JsonField& part) {
  return static_cast<int32_t>(part.number(0, Vocabulary::kMaxSize - 1));
}

/// Id of a pair such as ["[CLS]", 101].
int32_t id_of_pair(const JsonField& part) {
  const std::vector<JsonField> both = part.elements();
  if (both.size() != 2) part.refuse("a list of a token and its id");
  return id_in(both[1]);
}

void wrap(SpecialFrame& frame, std::vector<int32_t> before, const std::vector<int32_t>& behind) {
  before.insert(before.end(), frame.before.begin(), frame.before.end());
  frame.before = std::move(before);
  frame.behind.insert(frame.behind.end(), behind.begin(), behind.end());
}

void add_template(const JsonField& part, SpecialFrame& frame) {
  part.expect_keys({"type", "single", "pair", "special_tokens"});
  std::vector<int32_t> before;
  std::vector<int32_t> behind;
  bool passed = false;
  for (const JsonField& element : part["single"].elements()) {
    if (element.has("Sequence")) {
      if (passed) element.refuse("one sequence in the template of a single text");
      passed = true;
      continue;
    }
    const std::string name = element["SpecialToken"]["id"].text();
    for (const JsonField& id : part["special_tokens"][name.c_str()]["ids"].elements()) {
      (passed ? behind : before).push_back(id_in(id));
    }
  }
  if (!passed) part["single"].refuse("a sequence among its elements");
  wrap(frame, std::move(before), behind);
}

void add_frame(const JsonField& part, SpecialFrame& frame) {
  if (part.is_null()) return;
  const std::string type = part.type();
  if (type == "Sequence") {
    part.expect_keys({"type", "processors"});
    for (const JsonField& element : part["processors"].elements()) add_frame(element, frame);
  } else if (type == "TemplateProcessing") {
    add_template(part, frame);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    part.expect_keys({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    wrap(frame, {id_of_pair(part["cls"])}, {id_of_pair(part["sep"])});
  } else if (type != "ByteLevel") {  // that one only speaks of offsets
    part["type"].refuse(
        "Sequence, TemplateProcessing, BertProcessing, RobertaProcessing or ByteLevel");
  }
}

}  // namespace

SpecialFrame make_frame(const JsonField& part) {
  SpecialFrame frame;
  add_frame(part, frame);
  return frame;
}

}  // namespace convoy::tokenizers
