#!/usr/bin/env bash
# kit_folder.sh SCRIPT FOLDER: a kit is unpacked into a folder of one's own only, below the project
# unless another is named.
set -euo pipefail
script=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder/project/.kit"
cp "$script" "$folder/project/.kit/build"
touch "$folder/project/.kit/kit.tar.xz"
expect_refusal() { # PART [VARIABLE=VALUE...]
  local part=$1 said
  shift
  if said=$(env "$@" "$folder/project/.kit/build" 2>&1); then
    echo "it was not refused: $said" >&2 && exit 1
  fi
  [[ $said == *"$part"* ]] || { echo "got: $said; expected: $part" >&2 && exit 1; }
}
# As somebody else would prepare it: with the right sum, so that nothing is unpacked over it.
prepared() { # FOLDER
  mkdir -p "$1"
  sha256sum "$folder/project/.kit/kit.tar.xz" | cut -d' ' -f1 >"$1/sum"
  echo "touch $folder/ran" >"$1/env"
}
prepared "$folder/project/.kit/unpacked"
chmod 777 "$folder/project/.kit/unpacked"
expect_refusal "others may write to $folder/project/.kit/unpacked"
prepared "$folder/named"
chmod 775 "$folder/named"
expect_refusal "others may write to $folder/named" KIT="$folder/named"
touch "$folder/file"
expect_refusal "$folder/file is no folder of yours" KIT="$folder/file"
if ((EUID == 0)); then
  chmod 755 "$folder/named"
  chown nobody "$folder/named"
  expect_refusal "$folder/named is no folder of yours" KIT="$folder/named"
fi
expect_refusal "there is no no-such-python here" KIT="$folder/own" PYTHON=no-such-python
[[ $(stat -c %a "$folder/own") == 700 && ! -e $folder/ran ]]
rm -rf "$folder"
