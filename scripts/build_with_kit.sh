#!/usr/bin/env bash
# Builds convoy without network, with the kit that ./dev kit makes; it lies there as .kit/build.
#   .kit/build [TARGET...]      in the project's root; without a target everything
# Needs: g++ 12 or newer, CMake 3.25 or newer, ninja, and a python3 that has torch. What it uses of the
# environment:
#   BUILD=build-offline  KIT=.kit/unpacked (here, once)  PYTHON=python3  JOBS=N  CXX=g++
#   CMAKE_ARGS="..."     more arguments of cmake
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$HERE/.."
BUILD=${BUILD:-build-offline}
KIT=$(realpath -m "${KIT:-$HERE/unpacked}")
PYTHON=${PYTHON:-python3}
say() { printf '%s\n' "$@"; }
die() { printf '%s\n' "$@" >&2; exit 1; }
first() { # FILE... prints the first that is there
  local file
  for file; do
    if [[ -e $file ]]; then say "$file" && break; fi
  done
}

# What lies there is run, and programs look for libraries there as long as they live: nobody else may write to it.
mkdir -p "$(dirname "$KIT")"
[[ -e $KIT ]] || mkdir -m 700 "$KIT"
[[ -d $KIT && -O $KIT ]] || die "$KIT is no folder of yours; KIT=... names another one"
[[ ! $(find "$KIT" -maxdepth 0 -perm /022) ]] || die "others may write to $KIT: try chmod go-w, or remove it if it is not yours"

# --- What this machine has -------------------------------------------------------------------------------------
for tool in cmake ninja "$PYTHON" "${CXX:-g++}"; do
  command -v "$tool" >/dev/null || die "there is no $tool here"
done
cmake_version=$(cmake --version | sed -n '1s/[^0-9]*//p')
[[ $(printf '%s\n' 3.25 "$cmake_version" | sort -V | head -n 1) == 3.25 ]] ||
  die "cmake $cmake_version is too old: the project asks for 3.25 (a pip wheel named cmake has newer ones)"
compiler=$("${CXX:-g++}" -dumpfullversion -dumpversion)
((${compiler%%.*} >= 12)) || say "note: the compiler is $compiler; the project is tried with g++ 12 to 14"
# The folders of the wheels, without importing them.
wheels=$("$PYTHON" - <<'PY'
import importlib.util
for name in "torch", "nvidia":
    spec = importlib.util.find_spec(name)
    print(list(spec.submodule_search_locations)[0] if spec else "")
PY
)
torch=$(sed -n 1p <<<"$wheels")
nvidia=$(sed -n 2p <<<"$wheels")
[[ $torch ]] || die "$PYTHON ($(command -v "$PYTHON")) has no torch; PYTHON=... names another one"
# The headers of the CUDA toolkit: those of nvcc, else of its usual place.
nvcc=$(command -v nvcc || true)
nvcc=${nvcc:+$(dirname "$(dirname "$(realpath "$nvcc")")")}
toolkit=$(first {"${CUDA_HOME:-/none}","${nvcc:-/none}"}/{include,targets/x86_64-linux/include}/crt/host_config.h \
  /usr/local/{cuda,cuda-*}/include/crt/host_config.h /usr/include/crt/host_config.h)
toolkit=${toolkit%/crt/host_config.h}

# --- Unpack the kit, once --------------------------------------------------------------------------------------
kit_sum=$(sha256sum "$HERE/kit.tar.xz" | cut -d' ' -f1)
if [[ $(cat "$KIT/sum" 2>/dev/null) != "$kit_sum" ]]; then
  [[ ! -e $KIT/usr || -e $KIT/.kit ]] || die "$KIT holds something else than this kit"
  mkdir -p "$KIT"
  touch "$KIT/.kit"
  rm -rf "${KIT:?}"/{sum,usr,site}
  "$PYTHON" -W ignore -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$HERE/kit.tar.xz" "$KIT"
  # Libraries that this machine has itself are taken from it: the kit's copy must not get in the way of other programs.
  for lib in $(cd "$KIT/usr/lib/x86_64-linux-gnu" && ls -- *.so.*); do
    have=$(first {/usr,}/lib/x86_64-linux-gnu/$lib {/usr,}/lib64/$lib)
    if [[ $have ]]; then
      rm -f "$KIT/usr/lib/x86_64-linux-gnu/$lib"
      ln -sf "$have" "$KIT/usr/lib/x86_64-linux-gnu/${lib%%.so*}.so"
    fi
  done
  say "$kit_sum" >"$KIT/sum"
fi

# --- One folder with all wheels, as the project wants it -------------------------------------------------------
site=$KIT/site
rm -rf "$site/torch" "$site/nvidia"
ln -s "$torch" "$site/torch"
if [[ $nvidia ]]; then
  ln -s "$nvidia" "$site/nvidia"
elif [[ $toolkit ]]; then # torch finds the libraries of the toolkit instead
  mkdir -p "$site/nvidia/cuda"
  ln -s "$(first "${toolkit%/include}"/{lib64,lib,../../lib64})" "$site/nvidia/cuda/lib"
fi
# What the wheels lack of the NCCL plugin's headers comes from the toolkit.
headers=()
for folder in ${toolkit:+"$toolkit" "$toolkit/cccl"} "$(first /usr/include/nccl.h)"; do
  folder=${folder%/nccl.h}
  if [[ -d $folder ]]; then headers+=("$folder"); fi
done

# What tests that build something need (install.examples), and who calls cmake himself: `. .kit/unpacked/env`. There is no
# LIBRARY_PATH: CMake would take its folders for the system's and leave them out of the programs' RPATH.
usr=$(printf %q "$KIT/usr")
cat >"$KIT/env" <<ENV
export CMAKE_PREFIX_PATH=$usr\${CMAKE_PREFIX_PATH:+:\$CMAKE_PREFIX_PATH}
export CMAKE_LIBRARY_PATH=$usr/lib/x86_64-linux-gnu GTest_DIR=$usr/lib/x86_64-linux-gnu/cmake/GTest
export CPLUS_INCLUDE_PATH=$usr/include\${CPLUS_INCLUDE_PATH:+:\$CPLUS_INCLUDE_PATH}
export LD_LIBRARY_PATH=$usr/lib/x86_64-linux-gnu\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
ENV

# --- Build -----------------------------------------------------------------------------------------------------
say "g++ $compiler, cmake $cmake_version, torch in $torch ($(sed -n "s/^__version__ = '\(.*\)'/\1/p" "$torch/version.py"))" \
  "headers of a CUDA toolkit: ${headers[*]:-none}"
# A build folder of another checkout cannot be taken over.
if [[ -f $BUILD/CMakeCache.txt ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$BUILD/CMakeCache.txt"; then
  rm -rf "$BUILD"
fi
(
  . "$KIT/env"
  unset CPLUS_INCLUDE_PATH # in the flags instead, so that a bare `ninja` works too
  # shellcheck disable=SC2086
  cmake -S . -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DCONVOY_SITE_PACKAGES="$site" \
    -DCMAKE_CXX_FLAGS="-isystem '$KIT/usr/include'" -DCONVOY_CUDA_INCLUDE="$(IFS=';' && printf '%s' "${headers[*]}")" \
    ${CMAKE_ARGS:-} >"$KIT/cmake.log" 2>&1
) || { cat "$KIT/cmake.log" >&2; die "cmake failed"; }
grep 'NCCL plugin' "$KIT/cmake.log" || true
# A compiler takes up to 2 GB with torch's headers.
cores=$(nproc)
memory=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1800000))
jobs=${JOBS:-$((memory < cores ? (memory < 1 ? 1 : memory) : cores))}
start=$SECONDS
ninja -C "$BUILD" -j "$jobs" "$@"
say '' "built into $BUILD/ with $jobs jobs in $((SECONDS - start)) s" \
  "program   $BUILD/bin/convoy doctor" \
  "tests     . $KIT/env; OMP_NUM_THREADS=1 ctest --test-dir $BUILD --output-on-failure -LE slow -j $cores" \
  "          one component of them: -L comm; one test: -R NAME"
