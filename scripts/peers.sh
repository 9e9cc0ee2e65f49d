#!/bin/sh
# Compares the message rate of nicless with that of UCX: scripts/peers.sh [ROUNDS]
#
#   scripts/peers.sh          # 9 rounds, about half a minute
#   CORE_A=2 CORE_B=3 scripts/peers.sh 21
#   NICLESS=./nicless FLAGS=--inline scripts/peers.sh
#
# A round measures 8-byte WRITEs of nicless, tagged messages of 8 bytes of UCX, and 8-byte SENDs
# of nicless, one after another, on the same two cores: CORE_A posts (default: 0), and CORE_B
# has the engine, or the receiver of UCX (default: 1). So all three see the machine in nearly
# the same state. The script prints the medians, with the minimum and the maximum in brackets,
# and the ratio of nicless to UCX, which is taken round by round.
#
# UCX is measured by ucx_perftest -t tag_bw with UCX_TLS=posix,cma,self. nicless is measured by
# "nicless bench rate": 64 in flight, all signaled, a doorbell for 16. FLAGS has more flags for it.
# NICLESS is the command to measure; without it, the script builds this checkout with Go.
set -eu
export LC_ALL=C

fail() {
	echo "peers: error: $1" >&2
	[ $# -lt 2 ] || echo "hint: $2" >&2
	exit 1
}

[ $# -le 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
rounds=${1:-9}
case $rounds in
-h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
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

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

if [ -z "${NICLESS:-}" ]; then
	root=$(cd "$(dirname "$0")/.." && pwd)
	NICLESS=$work/nicless
	(cd "$root" && CGO_ENABLED=0 "${GO:-go}" build -o "$NICLESS" ./cmd/nicless) || fail "nicless was not built" "NICLESS=PATH names a command to measure"
fi

# nicless_rate OP: sets rate to millions of operations in a second.
nicless_rate() {
	# shellcheck disable=SC2086 # FLAGS is a list
	"$NICLESS" bench rate --op "$1" --size 8 --runs 1 --client-cpu "$a" --engine-cpu "$b" ${FLAGS:-} >"$work/out" ||
		fail "nicless bench rate --op $1 failed"
	sed -n 's/^# /  /p' "$work/out" >>"$work/remarks"
	rate=$(sed -n 's/^peer=nicless .* metric=rate_Mops value=\([0-9.]*\) .*/\1/p' "$work/out")
	[ -n "$rate" ] || fail "nicless bench rate --op $1 printed no rate: $(tail -n 1 "$work/out" | cut -c 1-100)" "FLAGS must not change the format of the output"
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

# ucx_rate: sets rate to millions of messages in a second. Each call uses another port.
port=$((10000 + $$ % 15000))
ucx_rate() {
	port=$((port + 1))
	UCX_TLS=posix,cma,self timeout 30 taskset -c "$b" ucx_perftest -p "$port" >/dev/null 2>"$work/server" &
	server=$!
	listening "$port" || fail "ucx_perftest does not listen: $(tail -n 1 "$work/server")"
	UCX_TLS=posix,cma,self timeout 30 taskset -c "$a" ucx_perftest 127.0.0.1 -p "$port" -t tag_bw -s 8 -n 2000000 -w 20000 -f -v >"$work/out" 2>&1 ||
		fail "ucx_perftest ended with status $? (124: it took over 30 s): $(tail -n 1 "$work/out" "$work/server" | cut -c 1-200)"
	wait "$server" || true
	server=
	rate=$(tail -n 1 "$work/out" | awk -F, 'NF == 8 && $8 > 0 { printf "%.3f\n", $8 / 1e6 }')
	[ -n "$rate" ] || fail "ucx_perftest printed no rate: $(tail -n 1 "$work/out")"
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
	[ ! -t 2 ] || printf '\rround %d of %d ' "$round" "$rounds" >&2
done
[ ! -t 2 ] || printf '\r\033[K' >&2

echo "# $(sed -n 's/^  machine: //p' "$work/remarks" | head -n 1)"
echo "# $(ucx_info -v 2>/dev/null | sed -n 's/^# *\(Library \)\{0,1\}[Vv]ersion:* */UCX /p' | head -n 1); cores $a and $b; $rounds rounds, median (least..greatest)"
echo "# of $((2 * rounds)) runs of nicless, $(grep -c 'siblings: .* busy' "$work/remarks" || true) were beside a busy sibling; load average $(cut -d ' ' -f 1 /proc/loadavg)"

# line NAME UNIT EXPRESSION: the values of an awk expression over the rounds, where $1 is the rate
# of WRITEs, $2 that of SENDs and $3 that of UCX.
line() {
	awk "{ print $3 }" "$work/rates" | sort -g |
		awk -v name="$1" -v unit="$2" '{ v[NR] = $1 } END { printf "%-26s %7.2f (%.2f..%.2f) %s\n", name, v[int(NR / 2) + 1], v[1], v[NR], unit }'
}
line "nicless WRITE" Mops '$1'
line "nicless SEND" Mops '$2'
line "UCX tag" Mops '$3'
line "nicless WRITE / UCX tag" "times; target: above $target" '$1 / $3'
line "nicless SEND / UCX tag" "times; target: above $target" '$2 / $3'
