#!/bin/sh
# A pool of XRootD servers by hand, here a redirector and three servers on this machine; a train on its files; and away
# again. Each file is on two of the servers: one may fail.
#
#   sites/xrootd-pool/pool.sh TASK.py FILES... -o DIR [OPTIONS OF sapwood run]
#
# Needs xrootd and cmsd (Debian: apt-get install xrootd-server xrootd-server-plugins), and for root a user `xrootd`.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d /tmp/pool.XXXX)
trap 'kill $(cat "$folder"/*.pid) 2>/dev/null; rm -rf "$folder"' EXIT
python=${PYTHON:-python}
port() { "$python" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'; }
# Waits for two minutes: a daemon that does not start says why in its log.
wait_until() {
  tries=0
  until "$@"; do
    tries=$((tries + 1))
    [ $tries -lt 1200 ] || { tail -n 3 "$folder"/log/*/*.log >&2; exit 1; }
    sleep 0.1
  done
}
logged_in() { [ "$(grep -c 'Primary .*logged in' "$folder/log/redirector/cmsd.log")" -ge 3 ]; }
as=
[ "$(id -u)" != 0 ] || as="-R xrootd"
cmsd=$(port)
main=$(port)
task=$1
shift

number=0
urls=
while [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; do
  for server in $((number % 3 + 1)) $(((number + 1) % 3 + 1)); do
    mkdir -p "$folder/data/server$server/store"
    cp "$1" "$folder/data/server$server/store/"
  done
  urls="$urls root://localhost:$main//store/$(basename "$1")"
  number=$((number + 1))
  shift
done

for name in redirector server1 server2 server3; do
  own=$main
  [ $name = redirector ] || own=$(port)
  mkdir -p "$folder/data/$name/store" "$folder/admin" "$folder/run" "$folder/log"
  sed -e "s|@REDIRECTOR@|localhost|; s|@CMSD@|$cmsd|; s|@PORT@|$own|; s|@FOLDER@|$folder|; s|@DATA@|$folder/data/$name|" \
    "$here/pool.cfg" >"$folder/$name.cfg"
done
[ -z "$as" ] || chown -R xrootd "$folder"
# The cmsd first: an xrootd that does not find its own waits for ten seconds.
for daemon in cmsd xrootd; do
  for name in redirector server1 server2 server3; do
    (cd "$folder" && exec $daemon $as -n $name -c "$folder/$name.cfg" -l "$folder/log/$daemon.log") </dev/null >/dev/null 2>&1 &
    echo $! >"$folder/$name-$daemon.pid"
  done
  for name in server1 server2 server3; do
    wait_until test -e "$folder/admin/$name/.olb/olbd.admin"
  done
done
wait_until logged_in
"$python" -m sapwood run "$task" --input $urls "$@"
