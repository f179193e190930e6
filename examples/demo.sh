#!/bin/sh
# Make proton collisions with Pythia 8, run three analyses over them in one reading, and name the page with the results.
#
#   examples/demo.sh [FOLDER]
#
# Needs sapwood with its extra `run`, and the package pythia8mc, in the `python` that is found first.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build/demo}
mkdir -p "$folder"

echo "Generating Z -> mu mu and QCD events with Pythia 8 (about half a minute on two cores) ..."
python examples/generate.py --output "$folder/data"

echo
set -- examples/dimuon.py examples/multiplicity.py examples/spectra.py --input "$folder/data" --output "$folder/results"
echo "sapwood run $*"
python -m sapwood run "$@"

echo
echo "Open $(cd "$folder/results" && pwd)/report.html"
