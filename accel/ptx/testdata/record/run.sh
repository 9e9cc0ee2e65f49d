#!/bin/sh
# run.sh OUTDIR: builds vec, records the vectors and checks them; everything goes into OUTDIR.
# The parts have limits of their own: 50 s to build, 80 s for the run, 20 s for the check.
out=${1:?usage: run.sh OUTDIR}
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
ulimit -c 0
: >"$out/run.log"
exec 3>&1
log() { echo "run.sh: $*" | tee -a "$out/run.log" >&3; }
log "start $(date -u +%T)"
cd "$tmp" || exit 2
python3 "$here/forms.py" >"$out/forms.tsv" 2>>"$out/run.log" || { log "forms.py failed"; exit 2; }
python3 "$here/forms.py" --inputs in.bin 2>>"$out/run.log" || { log "forms.py --inputs failed"; exit 2; }

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc /usr/local/cuda-*/bin/nvcc 2>/dev/null | head -1)
home=${nvcc:+$(dirname "$(dirname "$nvcc")")}
stubs="-L${home:-/usr/local/cuda}/lib64/stubs -L${home:-/usr/local/cuda}/targets/x86_64-linux/lib/stubs"
lib=$(ldconfig -p 2>/dev/null | sed -n 's/.*=> \(.*libcuda\.so\.1\)$/\1/p' | head -1)
lib=${lib:-$(ls /usr/local/nvidia/lib64/libcuda.so.1 2>/dev/null)}
inc=${home:-/usr/local/cuda}/include
try() { timeout 50 "$@" >>"$out/run.log" 2>&1; }
[ -n "$nvcc" ] && try "$nvcc" -O2 -arch=sm_90 -std=c++17 -o vec "$here/run.cu" -lcuda ||
    { [ -n "$nvcc" ] && try "$nvcc" -O2 -arch=sm_90 -std=c++17 -o vec "$here/run.cu" $stubs -lcuda; } ||
    try g++ -O2 -std=c++17 -I"$inc" -o vec -x c++ "$here/run.cu" -x none $stubs -lcuda ||
    try g++ -O2 -std=c++17 -I"$inc" -o vec -x c++ "$here/run.cu" -x none "$lib"
[ -x vec ] || { log "vec could not be built"; tail -20 "$out/run.log"; exit 3; }
log "built $(date -u +%T)"

done_forms() { python3 -c 'import struct,sys
try: print(struct.unpack_from("<I", open(sys.argv[1],"rb").read(), 16)[0])
except Exception: print(0)' "$1"; }
record() { timeout -k 3 90 ./vec "$out/forms.tsv" in.bin "$tmp/$1" "$2" "$3" "$4" "$5" >"$tmp/vec.log" 2>&1
    tail -c 20000 "$tmp/vec.log" | tee -a "$out/run.log"; }
t0=$(date +%s)
record vectors.bin "$out/refused.txt" 80 12 24
n=$(done_forms vectors.bin)
if [ "$n" -lt 1000 ] && [ $(($(date +%s) - t0)) -lt 40 ]; then
    log "only $n forms, so once more with one process"
    record vectors1.bin "$out/refused1.txt" 60 1 24
    if [ "$(done_forms vectors1.bin)" -gt "$n" ]; then
        mv vectors1.bin vectors.bin
        mv "$out/refused1.txt" "$out/refused.txt"
    fi
elif [ $(($(date +%s) - t0)) -lt 30 ]; then
    record again.bin "$tmp/refused2.txt" 35 8 32   # other groups and another order must give the same
    cmp vectors.bin again.bin && log "the second run gave the same file"
    cut -f1-3 "$out/refused.txt" >r1; cut -f1-3 "$tmp/refused2.txt" >r2
    cmp -s r1 r2 || log "the refused forms differ: $(wc -l <r1) and $(wc -l <r2)"
fi
[ -f vectors.bin ] && gzip -9 -c vectors.bin >"$out/vectors.bin.gz"
timeout 20 python3 "$here/check.py" vectors.bin >"$out/check.txt" 2>&1
log "check: exit status $?"
tail -40 "$out/check.txt"
log "errors of the JIT, counted:"
cut -f4 "$out/refused.txt" | sed 's/line [0-9]*/line N/' | sort | uniq -c | sort -rn | head -25 |
    tee -a "$out/run.log"
ls -l "$out"
log "end $(date -u +%T)"
