#pragma once

#include "convoy/parallel/layout.h"

namespace convoy::parallel {

/// Three blocks; unit 1 (a tied embedding) is read by the first and the last.
inline Layout tied_layout(LayoutOptions options = {}) {
  return Layout({{{0, 1}, {2}, {3, 1}}, {}, {false, true, false, false}},
                {{{{25}}}, {{{900}}, {{33}, false}}, {{{32}}, {{18}, false}}, {{{12}, false}}},
                options);
}

/// The same with a unit that is not trained, read by the second block.
inline Layout frozen_layout(LayoutOptions options = {}) {
  return Layout(
      {{{0, 1}, {4, 2}, {3, 1}},
       {},
       {false, true, false, false, false},
       {false, false, false, false, true}},
      {{{{25}}}, {{{900}}, {{33}, false}}, {{{32}}, {{18}, false}}, {{{12}, false}}, {{{50}}}},
      options);
}

}  // namespace convoy::parallel
