#!/bin/sh
# Compares nicless with UCX, libfabric and iceoryx2: scripts/peers.sh [ROUNDS]
#
#   scripts/peers.sh          # 9 rounds, about a minute
#   CORE_A=2 CORE_B=3 scripts/peers.sh 21
#   NICLESS=./nicless FLAGS=--inline scripts/peers.sh
#   ICEORYX2=./benchmark-publish-subscribe scripts/peers.sh
#
# A round measures 8-byte WRITEs of nicless, tagged messages of 8 bytes of UCX, and 8-byte SENDs
# of nicless, one after another, on the same two cores: CORE_A posts (default: 0), and CORE_B
# has the engine, or the receiver of a peer (default: 1). So all see the machine in nearly
# the same state. The script prints the medians, with the minimum and the maximum in brackets,
# and the ratio of nicless to UCX, which is taken round by round.
#
# UCX is measured by ucx_perftest -t tag_bw with UCX_TLS=posix,cma,self. nicless is measured by
# "nicless bench rate": 64 in flight, all signaled, a doorbell for 16. FLAGS has more flags for it.
# NICLESS is the command to measure; without it, the script builds this checkout with Go.
#
# Then the round measures round trips: a SEND of nicless from its post to both completions, and of
# peers a message there and one back. Of these, libfabric (fi_pingpong, tagged, provider shm) and
# iceoryx2 (its benchmark-publish-subscribe, in PATH or as ICEORYX2) are left out if they are missing.
set -eu
export LC_ALL=C

fail() {
	echo "peers: error: $1" >&2
	[ $# -lt 2 ] || echo "hint: $2" >&2
	exit 1
}

[ $# -le 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
rounds=${1:-9}
case $rounds in
-h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
'' | 0* | *[!0-9]*) fail "rounds $rounds; at least 1 is needed" ;;
esac
a=${CORE_A:-0} b=${CORE_B:-1}
target=1.5 # times the rate of UCX

command -v ucx_perftest >/dev/null || fail "ucx_perftest is missing, so nothing was measured" "apt-get install ucx-utils (Debian), or build UCX"
command -v taskset >/dev/null || fail "taskset is missing, so nothing was measured" "apt-get install util-linux"
[ "$a" != "$b" ] || fail "CORE_A and CORE_B are both $a; two cores are needed"
for core in "$a" "$b"; do
	taskset -c "$core" true 2>/dev/null || fail "core $core: this process may not run on it" "CORE_A and CORE_B name the cores"
done

fabric=$(command -v fi_pingpong || true)
ICEORYX2=${ICEORYX2:-$(command -v benchmark-publish-subscribe || true)}
[ -z "$ICEORYX2" ] || command -v "$ICEORYX2" >/dev/null || fail "ICEORYX2=$ICEORYX2 is no program"

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

if [ -z "${NICLESS:-}" ]; then
	root=$(cd "$(dirname "$0")/.." && pwd)
	NICLESS=$work/nicless
	(cd "$root" && CGO_ENABLED=0 "${GO:-go}" build -o "$NICLESS" ./cmd/nicless) || fail "nicless was not built" "NICLESS=PATH names a command to measure"
fi

# nicless_figure METRIC KIND FLAGS...: sets figure to what nicless bench KIND prints.
nicless_figure() {
	metric=$1 kind=$2
	shift 2
	"$NICLESS" bench "$kind" --size 8 --runs 1 --client-cpu "$a" --engine-cpu "$b" "$@" >"$work/out" ||
		fail "nicless bench $kind $* failed"
	sed -n 's/^# /  /p' "$work/out" >>"$work/remarks"
	figure=$(sed -n "s/^peer=nicless .* metric=$metric value=\\([0-9.]*\\) .*/\\1/p" "$work/out")
	[ -n "$figure" ] || fail "nicless bench $kind $* printed no $metric: $(tail -n 1 "$work/out" | cut -c 1-100)" "FLAGS must not change the format of the output"
}

# nicless_rate OP: sets rate to millions of operations in a second.
nicless_rate() {
	# shellcheck disable=SC2086 # FLAGS is a list
	nicless_figure rate_Mops rate --op "$1" ${FLAGS:-}
	rate=$figure
}

# listening PORT: waits until something listens on a TCP port. It does not connect, because the
# receiver of ucx_perftest serves only one connection.
listening() {
	hex=$(printf ':%04X 0' "$1")
	for _ in $(seq 200); do
		grep -qs "$hex.* 0A " /proc/net/tcp /proc/net/tcp6 && return
		sleep 0.02
	done
	return 1
}

# between PORT SERVER CLIENT: starts SERVER on CORE_B, waits until it listens, and runs CLIENT on CORE_A,
# whose output is $work/out. Both are lists of words.
between() {
	port=$1 serving=$2 using=$3
	# shellcheck disable=SC2086 # lists
	UCX_TLS=posix,cma,self timeout 30 taskset -c "$b" $serving >/dev/null 2>"$work/server" &
	server=$!
	listening "$port" || fail "${serving%% *} does not listen: $(tail -n 1 "$work/server")"
	# shellcheck disable=SC2086 # lists
	UCX_TLS=posix,cma,self timeout 30 taskset -c "$a" $using >"$work/out" 2>&1 ||
		fail "${using%% *} ended with status $? (124: it took over 30 s): $(tail -n 1 "$work/out" "$work/server" | cut -c 1-200)"
	wait "$server" || true
	server=
}

# ucx_rate and ucx_trip: set rate to millions of messages in a second, and trip to the nanoseconds of a
# round trip. Each call uses another port.
port=$((10000 + $$ % 15000))
ucx_rate() {
	next=$((port + 1))
	between $next "ucx_perftest -p $next" "ucx_perftest 127.0.0.1 -p $next -t tag_bw -s 8 -n 2000000 -w 20000 -f -v"
	rate=$(tail -n 1 "$work/out" | awk -F, 'NF == 8 && $8 > 0 { printf "%.3f\n", $8 / 1e6 }')
	[ -n "$rate" ] || fail "ucx_perftest printed no rate: $(tail -n 1 "$work/out")"
}
ucx_trip() {
	next=$((port + 1))
	between $next "ucx_perftest -p $next" "ucx_perftest 127.0.0.1 -p $next -t tag_lat -s 8 -n 200000 -w 20000 -f -v"
	trip=$(tail -n 1 "$work/out" | awk -F, 'NF == 8 && $3 > 0 { printf "%.0f\n", 2000 * $3 }')
	[ -n "$trip" ] || fail "ucx_perftest printed no latency: $(tail -n 1 "$work/out")"
}

# fabric_trip: sets trip by libfabric. fi_pingpong prints half a round trip in us.
fabric_trip() {
	next=$((port + 1)) common="fi_pingpong -p shm -e rdm -m tagged -I 100000 -S 8"
	between $next "$common -B $next" "$common -P $next 127.0.0.1"
	trip=$(awk '$1 == 8 && $7 > 0 { printf "%.0f\n", 2000 * $7 }' "$work/out")
	[ -n "$trip" ] || fail "fi_pingpong printed no time: $(tail -n 1 "$work/out")"
}

# iceoryx_trip: sets trip by iceoryx2, whose program pins its two threads itself and prints half a
# round trip in ns. Of its services it takes the first, which serves processes and is not for threads.
iceoryx_trip() {
	timeout 30 "$ICEORYX2" --bench-ipc -i 200000 -p 8 --cpu-core-participant-1 "$a" --cpu-core-participant-2 "$b" >"$work/out" 2>&1 ||
		fail "$ICEORYX2 ended with status $? (124: it took over 30 s): $(tail -n 1 "$work/out" | cut -c 1-200)"
	trip=$(sed -n 's/^.*:::.* Latency: \([0-9]*\) ns.*/\1/p' "$work/out" | awk 'NR == 1 { print 2 * $1 }')
	[ -n "$trip" ] || fail "$ICEORYX2 printed no latency: $(tail -n 1 "$work/out" | cut -c 1-100)"
}

: >"$work/remarks"
: >"$work/rates"
for round in $(seq "$rounds"); do
	nicless_rate write
	write=$rate
	ucx_rate
	ucx=$rate
	nicless_rate send
	echo "$write $rate $ucx" >>"$work/rates"
	nicless_figure lat_ns lat --op send
	echo "$figure" >>"$work/trips"
	ucx_trip
	echo "$trip" >>"$work/ucx"
	if [ -n "$fabric" ]; then
		fabric_trip
		echo "$trip" >>"$work/fabric"
	fi
	if [ -n "$ICEORYX2" ]; then
		iceoryx_trip
		echo "$trip" >>"$work/iceoryx"
	fi
	[ ! -t 2 ] || printf '\rround %d of %d ' "$round" "$rounds" >&2
done
[ ! -t 2 ] || printf '\r\033[K' >&2

echo "# $(sed -n 's/^  machine: //p' "$work/remarks" | head -n 1)"
echo "# $(ucx_info -v 2>/dev/null | sed -n 's/^# *\(Library \)\{0,1\}[Vv]ersion:* */UCX /p' | head -n 1); cores $a and $b; $rounds rounds, median (least..greatest)"
echo "# of $((3 * rounds)) runs of nicless, $(grep -c 'siblings: .* busy' "$work/remarks" || true) were beside a busy sibling; load average $(cut -d ' ' -f 1 /proc/loadavg)"

# line NAME UNIT EXPRESSION FILE: the values of an awk expression over the rounds.
line() {
	awk "{ print $3 }" "$4" | sort -g |
		awk -v name="$1" -v unit="$2" '{ v[NR] = $1 } END { printf "%-26s %7.2f (%.2f..%.2f) %s\n", name, v[int(NR / 2) + 1], v[1], v[NR], unit }'
}
# In the file, $1 is the rate of WRITEs, $2 that of SENDs and $3 that of UCX.
line "nicless WRITE" Mops '$1' "$work/rates"
line "nicless SEND" Mops '$2' "$work/rates"
line "UCX tag" Mops '$3' "$work/rates"
line "nicless WRITE / UCX tag" "times; target: above $target" '$1 / $3' "$work/rates"
line "nicless SEND / UCX tag" "times; target: above $target" '$2 / $3' "$work/rates"

# trips NAME FILE PROGRAM HINT: the round trips of a peer, or that its program is missing.
trips() {
	if [ -s "$2" ]; then
		line "$1" "ns a round trip" '$1' "$2"
	else
		printf '%-26s not measured: %s is missing (%s)\n' "$1" "$3" "$4"
	fi
}
line "nicless SEND, one alone" "ns to both completions" '$1' "$work/trips"
trips "UCX tag, one alone" "$work/ucx"
trips "libfabric shm, tagged" "$work/fabric" fi_pingpong "apt-get install libfabric-bin"
trips "iceoryx2" "$work/iceoryx" benchmark-publish-subscribe "docs/reference/performance-peers.md says how it is built"
