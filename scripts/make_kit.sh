#!/usr/bin/env bash
# Makes the folder .kit/ of this checkout: what building convoy needs beyond a compiler, CMake, ninja
# and a Python with torch. Carried to a machine without network, .kit/build builds the project there.
#   ./dev kit                   on a machine with network (Debian or Ubuntu, amd64)
#   .kit/build [TARGET...]      on the other one, in the project's root
# DEV_PACKAGES are the Debian packages that ./dev installs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
say() { printf '%s\n' "$@"; }
die() { printf '%s\n' "$@" >&2; exit 1; }

[[ $(dpkg --print-architecture) == amd64 ]] || die "the kit is made of amd64 packages: make it on such a machine"
for tool in apt-get xz python3 readelf; do
  command -v "$tool" >/dev/null || die "there is no $tool here"
done
python=
for candidate in .venv/bin/python .cache/python/bin/python python3; do
  if "$candidate" -m pip --version >/dev/null 2>&1; then python=$candidate && break; fi
done
[[ $python ]] || die "there is no Python with pip here: run ./dev build first"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work"/{deb,wheel,all,kit/usr/lib,kit/usr/share,kit/site/pyarrow}

# --- Debian packages: headers, CMake's package files, the libraries that are linked --------------------------
# Those of ./dev that are libraries, without what only benchmarks need, and the libraries themselves.
packages=()
for package in $DEV_PACKAGES; do
  if [[ $package == *-dev && $package != libbenchmark-dev ]]; then packages+=("$package"); fi
done
headers_only=(libgloo-dev)
for package in "${packages[@]}"; do
  if [[ " ${headers_only[*]} " == *" $package "* ]]; then continue; fi
  mapfile -t -O "${#packages[@]}" packages < <(apt-cache depends "$package" 2>/dev/null |
    sed -n 's/^ *Depends: \(lib[a-z0-9.+-]*\)$/\1/p' | grep -v -e '-dev$' -e '^libc6' -e '^libstdc' -e '^libgcc')
done
download() { (cd "$work/deb" && apt-get -q -o APT::Sandbox::User=root download "${packages[@]}") >"$work/apt.log" 2>&1; }
if ! download; then
  die "$(cat "$work/apt.log" 2>/dev/null)" "these packages cannot be downloaded; try apt-get update first: ${packages[*]}"
fi
for deb in "$work"/deb/*.deb; do dpkg -x "$deb" "$work/all"; done
arch=x86_64-linux-gnu
from=$work/all/usr
to=$work/kit/usr
mv "$from/include" "$to/include"
cp -rT "$to/include/$arch" "$to/include" # OpenSSL's headers of this architecture
rm -rf "${to:?}/include/$arch"
mkdir -p "$to/lib/$arch"
mv "$from/lib/$arch/cmake" "$to/lib/$arch/"
# Shared libraries, and archives of what has no shared one.
mv "$from/lib/$arch"/lib*.so* "$to/lib/$arch/"
for library in "$from/lib/$arch"/lib*.a; do
  name=${library##*/}
  if [[ ! -e $to/lib/$arch/${name%.a}.so ]]; then mv "$library" "$to/lib/$arch/"; fi
done
rm -f "$to/lib/$arch"/libgloo* "$to/lib/$arch"/libssl.*
mv "$from/share/cmake" "$to/share/cmake"
# Their package files ask for libraries that are not in the kit.
rm -rf "$to/share/cmake/Gloo" "$to/lib/$arch/cmake/tomlplusplus"

# --- The pyarrow wheel: Arrow and Parquet C++ (any Python's wheel: nothing of Python is kept) ------------------
pyarrow=$(sed -n 's/^pyarrow==//p' requirements.txt)
platforms=()
for platform in manylinux_2_{28,17,31,34,35}_x86_64 manylinux2014_x86_64; do platforms+=(--platform "$platform"); done
"$python" -m pip --disable-pip-version-check download -q --no-deps --only-binary=:all: --python-version 3.12 \
  --implementation cp "${platforms[@]}" -d "$work/wheel" "pyarrow==$pyarrow"
"$python" -m zipfile -e "$work"/wheel/pyarrow-*.whl "$work/all"
wheel=$work/all/pyarrow
site=$work/kit/site/pyarrow
mv "$wheel/include" "$site/include"
# Copies a library with those of the wheel that it needs.
keep() { # FILE...
  local file needed
  for file; do
    [[ -e $site/$file ]] && continue
    cp -L "$wheel/$file" "$site/$file"
    for needed in $(readelf -d "$site/$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
      if [[ -e $wheel/$needed ]]; then keep "$needed"; fi
    done
  done
}
for library in "$wheel"/lib{arrow,parquet}.so.*; do keep "${library##*/}"; done

# --- Pack ------------------------------------------------------------------------------------------------------
rm -rf .kit
mkdir .kit
tar -C "$work/kit" --sort=name --owner=0 --group=0 --numeric-owner -c . | xz -T0 -6 >.kit/kit.tar.xz
cp scripts/build_with_kit.sh .kit/build
{
  say "pyarrow $pyarrow"
  (cd "$work/deb" && printf '%s\n' *.deb)
} >.kit/contents
say ".kit/ is made: $(du -sh .kit | cut -f1) (unpacked $(du -sh "$work/kit" | cut -f1))" \
  "on the other machine, in the project's root:   .kit/build [TARGET...]"
