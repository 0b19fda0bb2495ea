#!/usr/bin/env bash
# lint.sh PROJECT FOLDER: lint refuses an arrow that no include uses, and an include without its arrow.
set -euo pipefail
project=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"
cd "$project"
git ls-files -z -- convoy scripts docs/design.md CMakeLists.txt | tar -c --null -T - | tar -x -C "$folder"
cd "$folder"
git init -q && git add -A
expect() { # PART
  local said
  if said=$(python3 scripts/lint.py); then echo "lint found nothing; expected: $1" >&2 && exit 1; fi
  [[ $said == *"$1"* ]] || { echo "got: $said; expected: $1" >&2 && exit 1; }
}
arrow="component machine names formats, of which it includes nothing"
[[ $(python3 scripts/lint.py || true) != *"$arrow"* ]]
cp CMakeLists.txt before
sed -i 's/^convoy_component(machine COMPONENTS base/& formats/' CMakeLists.txt
expect "$arrow"
mv before CMakeLists.txt
echo '#include "convoy/formats/pbtxt.h"' >>convoy/machine/binding.cpp
expect "component machine may not know component formats"
cd /
rm -rf "$folder"
