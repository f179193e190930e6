#!/bin/sh
# A Dask cluster by hand: a scheduler, workers over TCP (here two on this machine), a train on them, and away again.
#
#   sites/dask/cluster.sh TASK.py FILES... -o DIR
#
# On several hosts: start the scheduler on one with its own address, and `dask worker` with it on each of the others.
set -eu
folder=$(mktemp -d)
trap 'kill $(cat "$folder"/*.pid) 2>/dev/null; rm -rf "$folder"' EXIT
python -m dask scheduler --host 127.0.0.1 --port 0 --no-dashboard --scheduler-file "$folder/scheduler.json" \
  >"$folder/scheduler.log" 2>&1 &
echo $! >"$folder/scheduler.pid"
for number in 1 2; do
  python -m dask worker --scheduler-file "$folder/scheduler.json" --nthreads 1 --nworkers 1 --no-dashboard \
    --local-directory "$folder" --death-timeout 60 >"$folder/worker$number.log" 2>&1 &
  echo $! >"$folder/worker$number.pid"
done
until [ -s "$folder/scheduler.json" ]; do sleep 0.1; done
address=$(python -c 'import json, sys; print(json.load(open(sys.argv[1]))["address"])' "$folder/scheduler.json")
task=$1
shift
python -m sapwood run "$task" --executor "dask://${address#tcp://}" --input "$@"
