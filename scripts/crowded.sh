#!/bin/sh
# Measures unmodified verbs programs that share two cores with the engine: scripts/crowded.sh [ROUNDS]
#
#   scripts/crowded.sh        # 5 rounds, about half a minute
#   CORE_A=2 CORE_B=3 scripts/crowded.sh 9
#   NICLESS=./nicless scripts/crowded.sh
#
# A round runs ib_write_lat, ib_send_lat, and ib_write_bw -s 8 with 5,000 and with 1,000,000
# messages, each by two programs under "nicless run" and with an engine of its own. All three
# processes may run on the cores CORE_A and CORE_B (default: 0 and 1), and on no others. The
# script prints the medians over the rounds, with the minimum and the maximum in brackets. Of the
# latencies, half a round trip, each value is itself the median of 5,000.
#
# NICLESS is the command to measure; without it, the script builds this checkout with Go.
set -eu
export LC_ALL=C

fail() {
	echo "crowded: error: $1" >&2
	[ $# -lt 2 ] || echo "hint: $2" >&2
	exit 1
}

[ $# -le 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
rounds=${1:-5}
case $rounds in
-h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
'' | 0* | *[!0-9]*) fail "rounds $rounds; at least 1 is needed" ;;
esac
a=${CORE_A:-0} b=${CORE_B:-1}

command -v ib_write_lat >/dev/null || fail "ib_write_lat is missing, so nothing was measured" "apt-get install perftest (Debian)"
command -v taskset >/dev/null || fail "taskset is missing, so nothing was measured" "apt-get install util-linux"
[ "$a" != "$b" ] || fail "CORE_A and CORE_B are both $a; two cores are needed"
taskset -c "$a,$b" true 2>/dev/null || fail "cores $a and $b: this process may not run on them" "CORE_A and CORE_B name the cores"

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
export XDG_RUNTIME_DIR="$work" # so that no engine that runs already is used
chmod 700 "$work"

if [ -z "${NICLESS:-}" ]; then
	root=$(cd "$(dirname "$0")/.." && pwd)
	NICLESS=$work/nicless.new
	(cd "$root" && CGO_ENABLED=0 "${GO:-go}" build -o "$NICLESS" ./cmd/nicless) || fail "nicless was not built" "NICLESS=PATH names a command to measure"
fi

# listening PORT: waits until something listens on a TCP port.
listening() {
	hex=$(printf ':%04X 0' "$1")
	for _ in $(seq 200); do
		grep -qs "$hex.* 0A " /proc/net/tcp /proc/net/tcp6 && return
		sleep 0.02
	done
	return 1
}

# measure NAME COLUMN PROGRAM ARGUMENTS: appends the number in a column of the program's output to the
# file NAME. Each call uses another port.
port=$((10000 + $$ % 15000))
measure() {
	name=$1 column=$2
	shift 2
	port=$((port + 1))
	timeout 60 taskset -c "$a,$b" "$NICLESS" run "$@" -s 8 -p "$port" >"$work/server" 2>&1 &
	server=$!
	listening "$port" || fail "$1 does not listen: $(tail -n 1 "$work/server")"
	timeout 60 taskset -c "$a,$b" "$NICLESS" run "$@" -s 8 -p "$port" 127.0.0.1 >"$work/out" 2>&1 ||
		fail "$1 ended with status $? (124: it took over 60 s): $(tail -n 1 "$work/out" | cut -c 1-200)"
	wait "$server" || true
	server=
	value=$(awk -v column="$column" '$1 == 8 && NF >= 5 { print $column }' "$work/out")
	[ -n "$value" ] || fail "$1 printed no figure: $(tail -n 1 "$work/out" | cut -c 1-200)"
	echo "$value" >>"$work/$name"
}

for round in $(seq "$rounds"); do
	measure write_lat 5 ib_write_lat -n 5000
	measure send_lat 5 ib_send_lat -n 5000
	measure few 5 ib_write_bw -n 5000
	measure many 5 ib_write_bw -n 1000000
	[ ! -t 2 ] || printf '\rround %d of %d ' "$round" "$rounds" >&2
done
[ ! -t 2 ] || printf '\r\033[K' >&2

echo "# $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r); cores $a and $b; $rounds rounds, median (least..greatest)"
echo "# load average $(cut -d ' ' -f 1 /proc/loadavg)"

# line NAME UNIT FILE
line() {
	sort -g "$work/$3" |
		awk -v name="$1" -v unit="$2" '{ v[NR] = $1 } END { printf "%-28s %8.2f (%.2f..%.2f) %s\n", name, v[int((NR + 1) / 2)], v[1], v[NR], unit }'
}
line "ib_write_lat" "us; target: 5" write_lat
line "ib_send_lat" "us; target: 5" send_lat
line "ib_write_bw, 5,000" "Mops; target: 10" few
line "ib_write_bw, 1,000,000" "Mops; target: 10" many
