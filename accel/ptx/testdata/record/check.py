#!/usr/bin/env python3
"""Reads a file of golden vectors and checks some forms with Python's own arithmetic.

check.py FILE [--show NAME]     exit status 1: a mismatch, or no form could be checked
"""
import gzip
import math
import struct
import sys
from fractions import Fraction


def load(path):
    """Returns (device, rows, tables, forms): tables[name][column][row]; a form is a dict."""
    raw = open(path, 'rb').read()
    if raw[:2] == b'\x1f\x8b':
        raw = gzip.decompress(raw)
    if raw[:8] != b'PTXVEC1\n':
        raise SystemExit('not a file of golden vectors')
    ntab, rows, nforms = struct.unpack_from('<III', raw, 8)
    at = 20

    def text():
        nonlocal at
        n, = struct.unpack_from('<H', raw, at)
        at += 2 + n
        return raw[at - n:at].decode()

    def column():
        nonlocal at
        at += 8 * rows
        return struct.unpack_from(f'<{rows}Q', raw, at - 8 * rows)

    device = text()
    tables = {}
    for _ in range(ntab):
        name = raw[at:at + 8].rstrip(b'\0').decode()
        at += 8
        tables[name] = [column() for _ in range(4)]
    forms = {}
    for _ in range(nforms):
        f = {'name': text(), 'dst': text().split(','), 'src': text().split(','), 'text': text()}
        f['out'] = [column() for _ in f['dst']]
        forms[f['name']] = f
    if at != len(raw):
        raise SystemExit(f'{len(raw) - at} bytes too many')
    return device, rows, tables, forms


WIDTH = {'pred': 1, 'u8': 32, 's8': 32, 'bf16': 16, 'f16x2': 32, 'bf16x2': 32, 'u16x2': 32, 's16x2': 32,
         'tf32': 32,
         'e4m3x2': 16, 'e5m2x2': 16}


def width(t):
    """The width of the register that holds the type."""
    return WIDTH.get(t) or int(t[1:])


def operand(tables, src, k, i):
    t, fam = src.split(':')
    return tables[fam][k][i] & (1 << width(t)) - 1


# ---------------------------------------------------------------- models

def signed(v, w):
    v &= (1 << w) - 1
    return v - (1 << w) if v >> (w - 1) else v


def num(t):
    """A function that reads a register as the type's number."""
    w = int(t[1:])
    return (lambda v: signed(v, w)) if t[0] == 's' else (lambda v: v & (1 << w) - 1)


FMT = {'f16': ('<H', '<e', 5, 10), 'f32': ('<I', '<f', 8, 23), 'f64': ('<Q', '<d', 11, 52),
       'bf16': (None, None, 8, 7)}


def dec(t, v):
    if t == 'bf16':
        return struct.unpack('<f', struct.pack('<I', v << 16))[0]
    return struct.unpack(FMT[t][1], struct.pack(FMT[t][0], v))[0]


def enc(t, x, mode='rn'):
    """Encodes a float or an exact Fraction; None stands for a NaN."""
    _, _, e, m = FMT[t]
    sign = 1 << (e + m)
    inf = ((1 << e) - 1) << m
    bias = (1 << (e - 1)) - 1
    if isinstance(x, float):
        if math.isnan(x):
            return None
        if math.isinf(x):
            return inf | (sign if x < 0 else 0)
        if x == 0:
            return sign if math.copysign(1, x) < 0 else 0
        x = Fraction(x)
    s = sign if x < 0 else 0
    if x == 0:
        return 0
    x = abs(x)
    k = x.numerator.bit_length() - x.denominator.bit_length()
    if Fraction(2) ** k > x:
        k -= 1
    k = max(k, 1 - bias)
    q = x / Fraction(2) ** (k - m)
    up = {'rn': None, 'rz': False, 'rm': bool(s), 'rp': not s}[mode]
    n = round(q) if up is None else (math.ceil(q) if up else math.floor(q))
    v = n + ((k + bias - 1) << m)
    if v >= inf:
        v = inf if up is None or up else inf - 1
    return s | v


def f_op(t, o, mode):
    def model(*v):
        x = [dec(t, a) for a in v]
        if any(math.isnan(a) for a in x):
            return None
        if any(math.isinf(a) for a in x) or 0 in x:
            try:  # signs of zeros and infinities follow from the same operation in double precision
                y = {'add': lambda: x[0] + x[1], 'sub': lambda: x[0] - x[1], 'mul': lambda: x[0] * x[1]}[o]()
            except KeyError:
                return 'skip'
            if math.isinf(y) or math.isnan(y):
                return enc(t, y)
            if y == 0:
                return 'skip' if mode == 'rm' else enc(t, y)
        f = [Fraction(a) for a in x]
        y = {'add': lambda: f[0] + f[1], 'sub': lambda: f[0] - f[1], 'mul': lambda: f[0] * f[1],
             'div': lambda: f[0] / f[1], 'fma': lambda: f[0] * f[1] + f[2]}[o]()
        if y == 0:
            return 'skip' if o == 'fma' or mode == 'rm' else 0
        return enc(t, y, mode)
    return model


def to_int(s, d, mode):
    w = int(d[1:])
    lo, hi = (-(1 << (w - 1)), (1 << (w - 1)) - 1) if d[0] == 's' else (0, (1 << w) - 1)

    def model(v):
        x = dec(s, v)
        if math.isnan(x):
            return 'skip'
        if math.isinf(x):
            return (hi if x > 0 else lo) & (1 << w) - 1
        x = Fraction(x)
        n = {'rni': round, 'rzi': math.trunc, 'rmi': math.floor, 'rpi': math.ceil}[mode](x)
        return min(max(n, lo), hi) & (1 << w) - 1
    return model


def models():
    m = {}
    for t in ('u16', 's16', 'u32', 's32', 'u64', 's64'):
        w, n = int(t[1:]), num(t)
        mask = (1 << w) - 1
        m[f'add.{t}'] = lambda a, b, k=mask: a + b & k
        m[f'sub.{t}'] = lambda a, b, k=mask: a - b & k
        m[f'mul.lo.{t}'] = lambda a, b, k=mask: a * b & k
        m[f'mul.hi.{t}'] = lambda a, b, k=mask, n=n, w=w: n(a) * n(b) >> w & k
        m[f'mad.lo.{t}'] = lambda a, b, c, k=mask: a * b + c & k
        m[f'min.{t}'] = lambda a, b, k=mask, n=n: min(n(a), n(b)) & k
        m[f'max.{t}'] = lambda a, b, k=mask, n=n: max(n(a), n(b)) & k
        m[f'sad.{t}'] = lambda a, b, c, k=mask, n=n: c + abs(n(a) - n(b)) & k
        if w < 64:
            m[f'mul.wide.{t}'] = lambda a, b, n=n, w=w: n(a) * n(b) & (1 << 2 * w) - 1
        m[f'shr.{t}'] = lambda a, b, k=mask, n=n, w=w: n(a) >> min(b, w) & k

        def quot(a, b, n=n, k=mask):
            a, b = n(a), n(b)
            if b == 0:
                return 'skip'
            q = abs(a) // abs(b)
            return (q if (a < 0) == (b < 0) else -q) & k

        def rem(a, b, n=n, k=mask):
            a, b = n(a), n(b)
            if b == 0:
                return 'skip'
            r = abs(a) % abs(b)
            return (-r if a < 0 else r) & k
        m[f'div.{t}'], m[f'rem.{t}'] = quot, rem
        for c, f in (('eq', lambda x, y: x == y), ('lt', lambda x, y: x < y), ('ge', lambda x, y: x >= y)):
            m[f'setp.{c}.{t}'] = lambda a, b, f=f, n=n: int(f(n(a), n(b)))
            m[f'set.{c}.u32.{t}'] = lambda a, b, f=f, n=n: 0xffffffff if f(n(a), n(b)) else 0
            m[f'set.{c}.f32.{t}'] = lambda a, b, f=f, n=n: 0x3f800000 if f(n(a), n(b)) else 0
        for d in ('u16', 's16', 'u32', 's32', 'u64', 's64'):
            m[f'cvt.{d}.{t}'] = lambda a, n=n, d=d: n(a) & (1 << int(d[1:])) - 1
        for d in ('f32', 'f64', 'f16'):
            for r in ('rn', 'rz', 'rm', 'rp'):
                m[f'cvt.{r}.{d}.{t}'] = lambda a, n=n, d=d, r=r: enc(d, Fraction(n(a)), r)
    for w in (16, 32, 64):
        mask = (1 << w) - 1
        m[f'and.b{w}'] = lambda a, b: a & b
        m[f'or.b{w}'] = lambda a, b: a | b
        m[f'xor.b{w}'] = lambda a, b: a ^ b
        m[f'not.b{w}'] = lambda a, k=mask: ~a & k
        m[f'shl.b{w}'] = lambda a, b, w=w, k=mask: a << min(b, w) & k
    for w in (32, 64):
        m[f'popc.b{w}'] = lambda a: a.bit_count() if hasattr(a, 'bit_count') else bin(a).count('1')
        m[f'clz.b{w}'] = lambda a, w=w: w - a.bit_length()
        m[f'brev.b{w}'] = lambda a, w=w: int(format(a, f'0{w}b')[::-1], 2)
    m['lop3.b32.0xe8'] = lambda a, b, c: a & b | a & c | b & c
    m['lop3.b32.0x96'] = lambda a, b, c: a ^ b ^ c
    m['and.pred'] = lambda a, b: a & b
    m['selp.b32'] = lambda a, b, p: a if p else b
    m['add.sat.s32'] = lambda a, b: min(max(signed(a, 32) + signed(b, 32), -1 << 31),
                                        (1 << 31) - 1) & 0xffffffff
    m['add.cc.u32+addc'] = lambda a, b, c, d: (a + b & 0xffffffff, c + d + (a + b >> 32) & 0xffffffff)
    m['sub.cc.u64+subc'] = lambda a, b, c, d: (a - b & (1 << 64) - 1, c - d - (a < b) & (1 << 64) - 1)
    m['bfi.b32'] = lambda a, b, c, d: 'skip' if c > 31 or d > 32 else \
        b & ~((1 << d) - 1 << c) & 0xffffffff | (a & (1 << d) - 1) << c & 0xffffffff
    for t in ('f32', 'f64'):
        for r in ('rn', 'rz', 'rm', 'rp'):
            for o in ('add', 'sub', 'mul', 'fma', 'div'):
                m[f'{o}.{r}.{t}'] = f_op(t, o, r)
        for c, f in (('lt', lambda x, y: x < y), ('geu', lambda x, y: not x < y), ('eq', lambda x, y: x == y),
                     ('nan', lambda x, y: x != x or y != y)):
            m[f'setp.{c}.{t}'] = lambda a, b, t=t, f=f: int(f(dec(t, a), dec(t, b)))
    for t in ('f16', 'bf16'):
        for o in ('add', 'mul', 'fma'):
            m[f'{o}.rn.{t}'] = f_op(t, o, 'rn')
    for s in ('f16', 'bf16', 'f32', 'f64'):
        for d in ('u16', 's16', 'u32', 's32', 'u64', 's64'):
            for r in ('rni', 'rzi', 'rmi', 'rpi'):
                m[f'cvt.{r}.{d}.{s}'] = to_int(s, d, r)
    for d, s in (('f64', 'f32'), ('f64', 'f16'), ('f32', 'f16'), ('f32', 'bf16')):
        m[f'cvt.{d}.{s}'] = lambda a, d=d, s=s: enc(d, dec(s, a))
    for d, s in (('f32', 'f64'), ('f16', 'f32'), ('bf16', 'f32'), ('f16', 'f64')):
        for r in ('rn', 'rz', 'rm', 'rp'):
            m[f'cvt.{r}.{d}.{s}'] = lambda a, d=d, s=s, r=r: enc(d, dec(s, a), r)
    return m


def nan(t, v):
    if t not in FMT:
        return False
    _, _, e, m = FMT[t]
    return v & (1 << e + m) - 1 > ((1 << e) - 1) << m


def main():
    device, rows, tables, forms = load(sys.argv[1])
    if len(sys.argv) == 4 and sys.argv[2] == '--show':
        f = forms[sys.argv[3]]
        print(f['text'])
        for i in range(rows):
            print(i, *(f'{operand(tables, s, k, i):#x}' for k, s in enumerate(f['src'])), '->',
                  *(f'{o[i]:#x}' for o in f['out']))
        return 0
    print(f'{device}: {len(forms)} forms, {len(tables)} tables, {rows} rows')
    poison = zero = 0
    for f in forms.values():
        flat = [v for o in f['out'] for v in o]
        wide = max((v.bit_length() for v in flat), default=0)
        if 0xeeeeeeeeeeeeeeee in flat or wide > max(width(t) for t in f['dst']):
            poison += 1
            print(f'{f["name"]}: a result was not written or is too wide')
        zero += not any(flat)
    print(f'{poison} forms with results not written; {zero} forms whose results are all zero')
    checked = wrong = skipped = 0
    for name, model in models().items():
        f = forms.get(name)
        if f is None:
            print(f'{name}: not in the file')
            continue
        checked += 1
        bad = []
        for i in range(rows):
            v = [operand(tables, s, k, i) for k, s in enumerate(f['src'])]
            want = model(*v)
            if want == 'skip':
                skipped += 1
                continue
            want = want if isinstance(want, tuple) else (want,)
            got = tuple(o[i] for o in f['out'])
            for w, g, t in zip(want, got, f['dst']):
                if not (nan(t, g) if w is None else w == g):
                    text = 'NaN' if w is None else hex(w)
                    bad.append(f'row {i}: {" ".join(map(hex, v))}: {g:#x}, expected {text}')
        if bad:
            wrong += 1
            print(f'{name}: {len(bad)} rows differ; {bad[0]}; {bad[-1]}')
    print(f'{checked} forms checked, {wrong} with differences, {skipped} rows left out')
    return 1 if wrong or not checked or poison else 0


if __name__ == '__main__':
    sys.exit(main())
