#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/chat/chat_template.h"
#include "convoy/nn/attention/kv_cache.h"
#include "convoy/tasks/language/text_generator.h"

namespace convoy::tasks {

/// Conversation with a model: it keeps what was said, and the cache of it.
class ChatGenerator {
 public:
  /// `system`: message that the conversation begins with; "" = none.
  ChatGenerator(TextGenerator& texts, GenerateOptions options, std::vector<std::string> stops,
                std::string system);

  struct Answer {
    std::string text;
    int64_t num_tokens = 0;  ///< new ones
    int64_t num_kept = 0;    ///< tokens of the conversation that the cache held already
    Ended ended = Ended::AtLength;
    bool stopped = false;  ///< by is_stopped; what was said until then counts
  };
  /// Answers what a person says. `show` gets the text as it comes. Throws UsageError where the
  /// conversation has no room in the model's context, or the template raises; what was said is
  /// forgotten then.
  Answer answer(const std::string& said, const std::function<void(std::string_view)>& show,
                const std::function<bool()>& is_stopped);

  /// Forgets all that was said.
  void begin_anew();

 private:
  std::vector<int32_t> prompt_ids() const;
  /// Makes the cache hold the longest beginning of `ids` that it has, with room for `positions`.
  void reuse_cache(const std::vector<int32_t>& ids, int64_t positions);
  /// Returns the token that follows on what the cache holds and the last of `seen_`.
  int32_t next_token(int64_t number);

  TextGenerator& texts_;
  const GenerateOptions options_;
  const std::vector<std::string> stops_;
  const std::string system_;
  const chat::ChatTemplate template_;
  chat::Dialogue dialogue_;
  std::vector<int32_t> seen_;  ///< tokens of the conversation
  std::shared_ptr<nn::KvCache> cache_;
  int64_t capacity_ = 0;
};

/// Reads what a person says from the standard input, a line each, and answers on the standard
/// output until there are no more: Ctrl-C ends an answer, "/new" begins anew.
void chat_with_person(ChatGenerator& chat);

}  // namespace convoy::tasks
