#!/usr/bin/env bash
# Builds the rivals and generates the reference files, whatever of them is missing.
# Usage: peers.sh SOURCES OUT PYTHON (SOURCES: the peers' folder; PYTHON: an interpreter with ROOT)
# SAPWOOD_PEERS_BIN and SAPWOOD_PEERS_DATA name ready-made ones (seedgen, seedread, limit; the .root files).
set -euo pipefail
sources=$1 out=$2 python=$3
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out/bin" && out=$(cd "$out" && pwd)
bin=${SAPWOOD_PEERS_BIN:-$out/bin}
data=${SAPWOOD_PEERS_DATA:-$out/data}
root=$("$python" -c 'import importlib.util as u, pathlib; print(pathlib.Path(u.find_spec("ROOT").origin).parent)')

[ -x "$bin/seedread" ] && [ -x "$bin/seedgen" ] || "$sources/build.sh" "$root" "$bin"
if [ ! -x "$bin/limit" ]; then
  libraries="-ldeflate -lzstd -llz4 -llzma"
  if ! g++ -O3 -march=native -w -o "$bin/limit" "$sources/limit.cpp" $libraries; then
    echo "the limit program needs: apt-get install libdeflate-dev libzstd-dev liblz4-dev liblzma-dev" >&2
    exit 1
  fi
fi
[ -x "$out/bin/ntread" ] || [ ! -e "$sources/build_ntuple.sh" ] || "$sources/build_ntuple.sh" "$root" "$out/bin"
[ -n "$(ls "$data"/*-small/*39.root 2>/dev/null)" ] || "$sources/all.sh" "$bin/seedgen" "$data"

"$python" "$here/wide.py" "$data"

# seedread takes one file and counts ROOT's start-up; root_read takes many and gives the start-up apart.
if [ "$here/root_read.cpp" -nt "$out/bin/root_read" ]; then
  g++ -O2 -std=c++20 -w -I"$root/include" -o "$out/bin/root_read" "$here/root_read.cpp" \
    -L"$root/lib" -Wl,-rpath,"$root/lib" -L"$bin" -Wl,-rpath,"$bin" -Wl,--unresolved-symbols=ignore-in-shared-libs \
    -Wl,--no-as-needed -lseed -Wl,--as-needed -lCore -lRIO -lTree -lTreePlayer -lHist -lMathCore -lImt -lThread
fi
