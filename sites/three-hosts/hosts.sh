#!/bin/bash
# Three hosts with a network of their own, here network namespaces of this machine: an XRootD server and a Dask worker on
# each; a redirector, the scheduler and the client on a fourth. A train on the pool's files; and away again. Each file is
# on two of the servers: one may fail.
#
#   sites/three-hosts/hosts.sh TASK.py FILES... -o DIR [OPTIONS OF sapwood run]
#
# Needs Linux, `ip` (iproute2), xrootd and cmsd (Debian: xrootd-server xrootd-server-plugins), sapwood[dask]; root, or the
# right to make user namespaces. All of it lives in namespaces that end with this script, whatever ends it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${SAPWOOD_HOSTS-}" ]; then
  export SAPWOOD_HOSTS=1
  [ "$(id -u)" = 0 ] && user= || user=--map-root-user
  exec unshare $user --net --mount --uts --pid --fork --kill-child --mount-proc "$0" "$@"
fi
python=${PYTHON:-python}
disk=$(mktemp -d)
trap 'rm -rf "$disk"' EXIT
hub=10.77.0.254

# The hosts: a bridge, and a cable from it to each.
mount -t tmpfs none /run
folder=/run/pool # sockets have short names
mkdir $folder
mount --bind "$disk" $folder
printf '%s\n' '127.0.0.1 localhost' "$hub hub" '10.77.0.1 h1' '10.77.0.2 h2' '10.77.0.3 h3' >"$folder/hosts"
mount --bind "$folder/hosts" /etc/hosts
hostname hub
ip link set lo up
ip link add bridge type bridge
ip addr add $hub/24 dev bridge
ip link set bridge up
for number in 1 2 3; do
  ip netns add h$number
  ip link add cable$number type veth peer name eth0 netns h$number
  ip link set cable$number master bridge up
  ip -n h$number addr add 10.77.0.$number/24 dev eth0
  ip -n h$number link set eth0 up
  ip -n h$number link set lo up
done
# on HOST COMMAND...: run something there, in the background, under the host's name.
on() {
  local name=$1 network=
  [ "$name" = hub ] || network="nsenter --net=/run/netns/$name"
  shift
  $network unshare --uts sh -c 'hostname "$0" && exec "$@"' "$name" "$@" </dev/null >>"$folder/out" 2>&1 &
}
# apart HOST COMMAND...: the same for a daemon, which has a /tmp of its own.
apart() {
  local name=$1
  shift
  on "$name" unshare --mount sh -c 'mount -t tmpfs none /tmp && exec "$@"' sh "$@"
}
# within SECONDS CONDITION...: wait until it holds.
within() {
  local end=$((SECONDS + $1))
  shift
  until "$@" 2>/dev/null; do
    [ $SECONDS -lt $end ] || { tail -n 20 "$folder/out" "$folder"/log/*/*.log >&2; echo "hosts.sh: no $*" >&2; exit 1; }
    sleep 0.1
  done
}

# The pool.
task=$1
shift
number=0
urls=
while [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; do
  for server in $((number % 3 + 1)) $(((number + 1) % 3 + 1)); do
    mkdir -p "$folder/data/h$server/store"
    cp "$1" "$folder/data/h$server/store/"
  done
  urls="$urls root://$hub//store/$(basename "$1")"
  number=$((number + 1))
  shift
done
for name in redirector h1 h2 h3; do
  mkdir -p "$folder/data/$name/store" "$folder/admin" "$folder/run" "$folder/log"
  sed -e "s|@REDIRECTOR@|$hub|; s|@CMSD@|1213|; s|@PORT@|1094|; s|@FOLDER@|$folder|; s|@DATA@|$folder/data/$name|" \
    "$here/../xrootd-pool/pool.cfg" >"$folder/$name.cfg"
done
cd "$folder"
# The daemons will not run as root: each has a user of its own.
as="unshare --user --map-user=1000 --map-group=1000"
known() { [ "$(grep -c 'Primary .*logged in' "$folder/log/redirector/cmsd.log")" -ge 3 ]; }
for daemon in cmsd xrootd; do
  for name in redirector h1 h2 h3; do
    [ $name = redirector ] && host=hub || host=$name
    apart $host $as $daemon -n $name -c "$folder/$name.cfg" -l "$folder/log/$daemon.log"
  done
  for name in h1 h2 h3; do within 20 [ -e "$folder/admin/$name/.olb/olbd.admin" ]; done
done
within 30 known

# The cluster.
on hub "$python" -m dask scheduler --host $hub --port 8786 --no-dashboard
for number in 1 2 3; do
  on h$number "$python" -m dask worker tcp://$hub:8786 --host 10.77.0.$number --nthreads 1 --nworkers 1 --no-dashboard \
    --local-directory "$folder" --death-timeout 60
done
ready() {
  "$python" -c "from distributed import Client; Client('tcp://$hub:8786', timeout=5).wait_for_workers(3, timeout=60)"
}
within 60 ready
cd "$OLDPWD"
"$python" -m sapwood run "$task" --executor dask://$hub:8786 --input $urls "$@"
