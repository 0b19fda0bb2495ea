#include "convoy/text/sentencepiece_check.h"

namespace convoy::text {

void check_sentencepiece(std::string_view /*bytes*/, const std::string& /*where*/) {}

}  // namespace convoy::text
