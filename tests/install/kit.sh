#!/usr/bin/env bash
# kit.sh SOURCE FOLDER: makes the kit and builds with it where there is no network: in a namespace
# without a link. Ends with 77 (skipped) where the kit cannot be made or namespaces are not allowed.
set -euo pipefail
source=$1 folder=$2
unshare -rn true 2>/dev/null || { echo 'skipped: no network namespaces here' && exit 77; }
rm -rf "$folder"
mkdir -p "$folder"
git clone -q "$source" "$folder/convoy"
cd "$source"
# As it is now, not as it was committed.
git ls-files -co --exclude-standard -z | xargs -0 cp --parents -t "$folder/convoy" 2>/dev/null || true
cd "$folder/convoy"
python=$source/.venv/bin/python
[[ -x $python ]] && ln -s "$source/.venv" .venv
./dev kit || { echo 'skipped: the kit cannot be made here' && exit 77; }
rm .venv
without_network() { unshare -rn env PYTHON="$python" JOBS=1 "$@"; }
if without_network "$python" -c 'import socket; socket.create_connection(("pypi.org", 443), 3)' 2>/dev/null; then
  echo 'the namespace has a network' >&2 && exit 1
fi
# A component without torch with its test, and a component with torch.
without_network .kit/build test_formats convoy_optim
without_network build-offline/tests/test_formats --gtest_brief=1
rm -rf "$folder"
