#!/usr/bin/env python3
"""List of PTX instruction forms and the table of inputs for the golden vectors.

forms.py              prints NAME<TAB>dst types<TAB>src types<TAB>template, one form a line
forms.py --inputs F   writes the table of inputs to the file F

A source type is written TYPE:FAMILY. FAMILY names the table of inputs from which the operand comes: operand
number k (0..3) takes column k. In a template $0 and $1 are the results, $a $b $c $d the operands.
"""
import random
import struct
import sys
from fractions import Fraction

ROWS = 96
FORMS = []
SEEN = set()

# ---------------------------------------------------------------- forms

FAMILY = {'u8': 'i32', 's8': 'i32'}
for _w in (16, 32, 64):
    for _t in 'usb':
        FAMILY[f'{_t}{_w}'] = f'i{_w}'
FAMILY['u16x2'] = FAMILY['s16x2'] = 'i32'


def op(name, dst, src, template=None, suffix=''):
    """One form. Without a template: the name is the instruction, the operands follow in order."""
    srcs = []
    for s in src.split():
        if ':' not in s:
            s = s + ':' + FAMILY.get(s, s)
        srcs.append(s)
    dsts = dst.split()
    if template is None:
        template = name + ' ' + ', '.join(['$' + str(i) for i in range(len(dsts))] +
                                          ['$' + 'abcd'[i] for i in range(len(srcs))]) + ';'
    name += suffix
    if name in SEEN:
        raise SystemExit('twice: ' + name)
    SEEN.add(name)
    FORMS.append((name, ','.join(dsts), ','.join(srcs), template))


INTS = ['u16', 's16', 'u32', 's32', 'u64', 's64']
WIDE = {'u16': 'u32', 's16': 's32', 'u32': 'u64', 's32': 's64'}
RND = ['rn', 'rz', 'rm', 'rp']


def integer():
    for t in INTS:
        for o in ('add', 'sub', 'mul.lo', 'mul.hi', 'div', 'rem', 'min', 'max'):
            op(f'{o}.{t}', t, f'{t} {t}')
        for o in ('mad.lo', 'mad.hi', 'sad'):
            op(f'{o}.{t}', t, f'{t} {t} {t}')
        if t[0] == 's':
            for o in ('abs', 'neg'):
                op(f'{o}.{t}', t, t)
    for t, w in WIDE.items():
        op(f'mul.wide.{t}', w, f'{t} {t}')
        op(f'mad.wide.{t}', w, f'{t} {t} {w}')
    op('add.sat.s32', 's32', 's32 s32')
    op('sub.sat.s32', 's32', 's32 s32')
    op('mad.hi.sat.s32', 's32', 's32 s32 s32')
    for t in ('u32', 's32'):
        for h in ('lo', 'hi'):
            op(f'mul24.{h}.{t}', t, f'{t} {t}')
            op(f'mad24.{h}.{t}', t, f'{t} {t} {t}')
    op('mad24.hi.sat.s32', 's32', 's32 s32 s32')
    for t in ('u16x2', 's16x2'):
        for o in ('add', 'min', 'max'):
            op(f'{o}.{t}', t, f'{t} {t}')
    for o in ('min', 'max'):
        for t in ('s16x2', 's32'):
            op(f'{o}.relu.{t}', t, f'{t} {t}')
    for t in ('u32', 's32', 'u64', 's64'):
        u = 'u' + t[1:]
        r = f'.reg .b{t[1:]} %t0;'
        op(f'add.cc.{t}', f'{t} {t}', f'{t} {t} {t} {t}', f'add.cc.{t} $0, $a, $b; addc.{t} $1, $c, $d;',
           '+addc')
        op(f'sub.cc.{t}', f'{t} {t}', f'{t} {t} {t} {t}', f'sub.cc.{t} $0, $a, $b; subc.{t} $1, $c, $d;',
           '+subc')
        op(f'add.cc.{t}', f'{t} {u}', f'{t} {t} {t} {t}',
           f'{{ {r} add.cc.{t} %t0, $a, $b; addc.cc.{t} $0, $c, $d; addc.{u} $1, 0, 0; }}', '+addc.cc+carry')
        op(f'sub.cc.{t}', f'{t} {u}', f'{t} {t} {t} {t}',
           f'{{ {r} sub.cc.{t} %t0, $a, $b; subc.cc.{t} $0, $c, $d; subc.{u} $1, 0, 0; }}', '+subc.cc+borrow')
        op(f'add.cc.{t}', f'{t} {t}', f'{t} {t} {t} {t}', f'add.cc.{t} $0, $a, $b; subc.{t} $1, $c, $d;',
           '+subc')
        op(f'sub.cc.{t}', f'{t} {t}', f'{t} {t} {t} {t}', f'sub.cc.{t} $0, $a, $b; addc.{t} $1, $c, $d;',
           '+addc')
        for h in ('lo', 'hi'):
            op(f'mad.{h}.cc.{t}', f'{t} {u}', f'{t} {t} {t}',
               f'mad.{h}.cc.{t} $0, $a, $b, $c; addc.{u} $1, 0, 0;',
               '+carry')
            op(f'madc.{h}.{t}', t, f'{t} {t} {t} {t}',
               f'{{ {r} add.cc.{t} %t0, $a, $d; madc.{h}.{t} $0, $a, $b, $c; }}')
            op(f'madc.{h}.cc.{t}', f'{t} {u}', f'{t} {t} {t} {t}',
               f'{{ {r} add.cc.{t} %t0, $a, $d; madc.{h}.cc.{t} $0, $a, $b, $c; addc.{u} $1, 0, 0; }}',
               '+carry')
        op(f'mad.lo.cc.{t}', f'{t} {t}', f'{t} {t} {t} {t}',
           f'mad.lo.cc.{t} $0, $a, $b, $c; madc.hi.{t} $1, $a, $b, $d;', '+madc.hi')
        op(f'bfind.{t}', 'u32', t)
        op(f'bfind.shiftamt.{t}', 'u32', t)
        op(f'bfe.{t}', t, f'{t} u32:sh u32:sh')
    for w in (32, 64):
        op(f'popc.b{w}', 'u32', f'b{w}')
        op(f'clz.b{w}', 'u32', f'b{w}')
        op(f'brev.b{w}', f'b{w}', f'b{w}')
        op(f'bfi.b{w}', f'b{w}', f'b{w} b{w} u32:sh u32:sh')
    op('fns.b32', 'b32', 'b32 b32:sh31 s32:off')
    for m in ('clamp', 'wrap'):
        op(f'bmsk.{m}.b32', 'b32', 'u32:sh u32:sh')
        op(f'szext.{m}.u32', 'u32', 'u32 u32:sh')
        op(f'szext.{m}.s32', 's32', 's32 u32:sh')
    for x in ('u32', 's32'):
        for y in ('u32', 's32'):
            d = 'u32' if x == y == 'u32' else 's32'
            op(f'dp4a.{x}.{y}', d, f'{x} {y} {d}')
            for h in ('lo', 'hi'):
                op(f'dp2a.{h}.{x}.{y}', d, f'{x} {y} {d}')
    # Packing and unpacking moves.
    op('mov.b32', 'b16 b16', 'b32', 'mov.b32 {$0, $1}, $a;', '.unpack2')
    op('mov.b64', 'b32 b32', 'b64', 'mov.b64 {$0, $1}, $a;', '.unpack2')
    op('mov.b32', 'b32', 'b16 b16', 'mov.b32 $0, {$a, $b};', '.pack2')
    op('mov.b64', 'b64', 'b32 b32', 'mov.b64 $0, {$a, $b};', '.pack2')
    op('mov.b64', 'b64', 'b16 b16 b16 b16', 'mov.b64 $0, {$a, $b, $c, $d};', '.pack4')


LUTS = [0x00, 0x01, 0x80, 0xfe, 0xff, 0x96, 0xe8, 0xca, 0x3c, 0xc0, 0xf8, 0x78, 0x1e, 0xb1, 0x6a, 0xaa, 0xcc,
        0xf0, 0x2d]


def logic():
    for t in ('pred', 'b16', 'b32', 'b64'):
        for o in ('and', 'or', 'xor'):
            op(f'{o}.{t}', t, f'{t} {t}')
        op(f'not.{t}', t, t)
        if t != 'pred':
            op(f'cnot.{t}', t, t)
            op(f'shl.{t}', t, f'{t} u32:sh')
            op(f'shr.{t}', t, f'{t} u32:sh')
    for t in INTS:
        op(f'shr.{t}', t, f'{t} u32:sh')
    for lut in LUTS:
        op('lop3.b32', 'b32', 'b32 b32 b32', f'lop3.b32 $0, $a, $b, $c, 0x{lut:02x};', f'.0x{lut:02x}')
    for b in ('or', 'and'):
        op(f'lop3.{b}.b32', 'b32 pred', 'b32 b32 b32 pred', f'lop3.{b}.b32 $0|$1, $a, $b, $c, 0x80, $d;',
           '.0x80')
    for d in 'lr':
        for m in ('clamp', 'wrap'):
            op(f'shf.{d}.{m}.b32', 'b32', 'b32 b32 u32:sh')
    op('prmt.b32', 'b32', 'b32 b32 b32')
    op('prmt.b32', 'b32', 'b32 b32 b32:sel', None, '.selectors')
    for m in ('f4e', 'b4e', 'rc8', 'ecl', 'ecr', 'rc16'):
        op(f'prmt.b32.{m}', 'b32', 'b32 b32 b32:sh')


FCMP = ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'equ', 'neu', 'ltu', 'leu', 'gtu', 'geu', 'num', 'nan']
SCMP = ['eq', 'ne', 'lt', 'le', 'gt', 'ge']
UCMP = ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'lo', 'ls', 'hi', 'hs']


def comparisons(t):
    if t[0] == 'f':
        return FCMP
    return {'b': ['eq', 'ne'], 's': SCMP, 'u': UCMP}[t[0]]


ALL = ['b16', 'b32', 'b64'] + INTS + ['f32', 'f64']


def compare():
    for t in ALL:
        for z in ('', '.ftz') if t == 'f32' else ('',):
            for c in comparisons(t):
                op(f'setp.{c}{z}.{t}', 'pred', f'{t} {t}')
                op(f'set.{c}{z}.u32.{t}', 'u32', f'{t} {t}')
                op(f'set.{c}{z}.f32.{t}', 'f32', f'{t} {t}')
                op(f'set.{c}{z}.s32.{t}', 's32', f'{t} {t}')
                for b in ('and', 'or', 'xor'):
                    op(f'set.{c}.{b}{z}.u32.{t}', 'u32', f'{t} {t} pred')
                    op(f'setp.{c}.{b}{z}.{t}', 'pred pred', f'{t} {t} pred',
                       f'setp.{c}.{b}{z}.{t} $0|$1, $a, $b, $c;')
            c = 'eq' if t[0] == 'b' else 'gt'
            op(f'setp.{c}{z}.{t}', 'pred pred', f'{t} {t}', f'setp.{c}{z}.{t} $0|$1, $a, $b;', '.both')
    for t in ('s32', 'f32'):
        for c in comparisons(t)[2:]:
            for b in ('and', 'or', 'xor'):
                op(f'setp.{c}.{b}.{t}', 'pred pred', f'{t} {t} pred', f'setp.{c}.{b}.{t} $0|$1, $a, $b, !$c;',
                   '.not')
    for b in ('and', 'or', 'xor'):
        op(f'set.nan.{b}.f32.f32', 'f32', 'f32 f32 pred')
        op(f'set.ltu.{b}.s32.f32', 's32', 'f32 f32 pred', f'set.ltu.{b}.s32.f32 $0, $a, $b, !$c;', '.not')
    for t in ALL:
        op(f'selp.{t}', t, f'{t} {t} pred')
        op(f'slct.{t}.s32', t, f'{t} {t} s32')
        op(f'slct.{t}.f32', t, f'{t} {t} f32')
        op(f'slct.ftz.{t}.f32', t, f'{t} {t} f32')
    # Half precision.
    for c in FCMP:
        for z in ('', '.ftz'):
            op(f'setp.{c}{z}.f16', 'pred', 'f16 f16')
            op(f'setp.{c}{z}.f16x2', 'pred pred', 'f16x2 f16x2', f'setp.{c}{z}.f16x2 $0|$1, $a, $b;')
            op(f'set.{c}{z}.u32.f16', 'u32', 'f16 f16')
            op(f'set.{c}{z}.f16.f16', 'f16', 'f16 f16')
            op(f'set.{c}{z}.f16x2.f16x2', 'f16x2', 'f16x2 f16x2')
        op(f'set.{c}.u16.f16', 'u16', 'f16 f16')
        op(f'set.{c}.u32.f16x2', 'u32', 'f16x2 f16x2')
        op(f'setp.{c}.bf16', 'pred', 'bf16 bf16')
        op(f'setp.{c}.bf16x2', 'pred pred', 'bf16x2 bf16x2', f'setp.{c}.bf16x2 $0|$1, $a, $b;')
        op(f'set.{c}.u32.bf16', 'u32', 'bf16 bf16')
        op(f'set.{c}.bf16.bf16', 'bf16', 'bf16 bf16')
        op(f'set.{c}.bf16x2.bf16x2', 'bf16x2', 'bf16x2 bf16x2')
        op(f'set.{c}.u16.bf16', 'u16', 'bf16 bf16')
        op(f'set.{c}.u32.bf16x2', 'u32', 'bf16x2 bf16x2')
    for t in ('u32', 's32', 'f32', 'f64', 'b16'):
        op(f'set.eq.f16.{t}', 'f16', f'{t} {t}')
    for t in ('f16', 'bf16'):
        for b in ('and', 'or', 'xor'):
            op(f'setp.lt.{b}.{t}', 'pred', f'{t} {t} pred')
            op(f'set.gtu.{b}.u32.{t}', 'u32', f'{t} {t} pred')
            op(f'setp.geu.{b}.{t}x2', 'pred pred', f'{t}x2 {t}x2 pred',
               f'setp.geu.{b}.{t}x2 $0|$1, $a, $b, $c;')


I8 = ['u8', 's8'] + INTS


def cvt():
    for d in I8:
        for s in I8:
            op(f'cvt.{d}.{s}', d, s)
            op(f'cvt.sat.{d}.{s}', d, s)
    for d in ('f16', 'bf16', 'f32', 'f64'):
        for s in I8:
            for r in RND:
                op(f'cvt.{r}.{d}.{s}', d, s)
            if d != 'bf16':
                op(f'cvt.rn.sat.{d}.{s}', d, s)
    for s in ('f16', 'bf16', 'f32', 'f64'):
        for d in I8:
            for r in ('rni', 'rzi', 'rmi', 'rpi'):
                op(f'cvt.{r}.{d}.{s}', d, f'{s}:{s}c')
                if s == 'f32':
                    op(f'cvt.{r}.ftz.{d}.{s}', d, f'{s}:{s}c')
            op(f'cvt.rzi.sat.{d}.{s}', d, f'{s}:{s}c')
            op(f'cvt.rni.sat.{d}.{s}', d, f'{s}:{s}c')
            if s == 'f32':
                op(f'cvt.rzi.ftz.sat.{d}.{s}', d, f'{s}:{s}c')
    for s in ('f16', 'bf16', 'f32', 'f64'):
        zs = ('', '.ftz') if s == 'f32' else ('',)
        for z in zs:
            for r in ('rni', 'rzi', 'rmi', 'rpi'):
                for x in ('', '.sat'):
                    op(f'cvt.{r}{z}{x}.{s}.{s}', s, f'{s}:{s}c')
            op(f'cvt{z}.{s}.{s}', s, f'{s}:{s}c')
            op(f'cvt{z}.sat.{s}.{s}', s, f'{s}:{s}c')
    for d, s in (('f32', 'f16'), ('f64', 'f16'), ('f64', 'f32'), ('f32', 'bf16'), ('f64', 'bf16')):
        for z in ('', '.ftz') if 'f32' in (d, s) else ('',):
            for x in ('', '.sat'):
                op(f'cvt{z}{x}.{d}.{s}', d, f'{s}:{s}c')
    for d, s in (('f16', 'f32'), ('f16', 'f64'), ('f32', 'f64'), ('bf16', 'f32'), ('bf16', 'f64'),
                 ('bf16', 'f16'),
                 ('f16', 'bf16')):
        for r in RND:
            for z in ('', '.ftz') if 'f32' in (d, s) else ('',):
                for x in ('', '.sat'):
                    op(f'cvt.{r}{z}{x}.{d}.{s}', d, f'{s}:{s}c')
    for d in ('f16', 'bf16'):
        for r in ('rn', 'rz'):
            for x in ('.relu', '.satfinite', '.relu.satfinite'):
                op(f'cvt.{r}{x}.{d}.f32', d, 'f32:f32c')
            for x in ('', '.relu', '.satfinite', '.relu.satfinite'):
                op(f'cvt.{r}{x}.{d}x2.f32', f'{d}x2', 'f32:f32c f32:f32c')
    for d in ('e4m3x2', 'e5m2x2'):
        for x in ('', '.relu'):
            op(f'cvt.rn.satfinite{x}.{d}.f32', d, 'f32:f32c f32:f32c')
            op(f'cvt.rn.satfinite{x}.{d}.f16x2', d, 'f16x2:f16x2c')
            op(f'cvt.rn{x}.f16x2.{d}', 'f16x2', f'{d}:fp8x2')
    op('cvt.rna.tf32.f32', 'tf32', 'f32:f32c')
    op('cvt.rna.satfinite.tf32.f32', 'tf32', 'f32:f32c')
    for r in ('rn', 'rz'):
        for x in ('', '.relu', '.satfinite', '.satfinite.relu'):
            op(f'cvt.{r}{x}.tf32.f32', 'tf32', 'f32:f32c')
    op('cvt.pack.sat.u8.s32.b32', 'b32', 's32 s32 b32')
    op('cvt.pack.sat.s8.s32.b32', 'b32', 's32 s32 b32')
    op('cvt.pack.sat.u16.s32', 'b32', 's32 s32')
    op('cvt.pack.sat.s16.s32', 'b32', 's32 s32')


def real():
    for o, n in (('add', 2), ('sub', 2), ('mul', 2), ('fma', 3), ('mad', 3)):
        src = ' '.join(['f32'] * n)
        for r in ([] if n == 3 else ['']) + ['.' + x for x in RND]:
            for z in ('', '.ftz'):
                for x in ('', '.sat'):
                    op(f'{o}{r}{z}{x}.f32', 'f32', src)
            op(f'{o}{r}.f64', 'f64', ' '.join(['f64'] * n))
    for z in ('', '.ftz'):
        for o in ('div.approx', 'div.full') + tuple('div.' + r for r in RND):
            op(f'{o}{z}.f32', 'f32', 'f32 f32')
        for o in ('rcp', 'sqrt'):
            for r in ['approx'] + RND:
                op(f'{o}.{r}{z}.f32', 'f32', 'f32:f32u')
        for o in ('rsqrt', 'sin', 'cos', 'lg2', 'ex2'):
            op(f'{o}.approx{z}.f32', 'f32', 'f32:f32u')
        for o in ('abs', 'neg'):
            op(f'{o}{z}.f32', 'f32', 'f32')
        for o in ('min', 'max'):
            for n in ('', '.NaN'):
                for x in ('', '.xorsign.abs'):
                    op(f'{o}{z}{n}{x}.f32', 'f32', 'f32 f32')
    op('tanh.approx.f32', 'f32', 'f32:f32u')
    for r in RND:
        op(f'div.{r}.f64', 'f64', 'f64 f64')
        op(f'rcp.{r}.f64', 'f64', 'f64:f64u')
        op(f'sqrt.{r}.f64', 'f64', 'f64:f64u')
    op('rcp.approx.ftz.f64', 'f64', 'f64:f64u')
    op('rsqrt.approx.f64', 'f64', 'f64:f64u')
    op('rsqrt.approx.ftz.f64', 'f64', 'f64:f64u')
    for o in ('abs', 'neg'):
        op(f'{o}.f64', 'f64', 'f64')
    for o in ('min', 'max'):
        op(f'{o}.f64', 'f64', 'f64 f64')
    for t in ('f32', 'f64'):
        op(f'copysign.{t}', t, f'{t} {t}')
        for o in ('finite', 'infinite', 'number', 'notanumber', 'normal', 'subnormal'):
            op(f'testp.{o}.{t}', 'pred', t)


def half():
    for t in ('f16', 'f16x2'):
        for o in ('add', 'sub', 'mul'):
            for r in ('', '.rn'):
                for z in ('', '.ftz'):
                    for x in ('', '.sat'):
                        op(f'{o}{r}{z}{x}.{t}', t, f'{t} {t}')
        for z in ('', '.ftz'):
            for x in ('', '.sat', '.relu'):
                op(f'fma.rn{z}{x}.{t}', t, f'{t} {t} {t}')
            for o in ('abs', 'neg'):
                op(f'{o}{z}.{t}', t, t)
            for o in ('min', 'max'):
                for n in ('', '.NaN'):
                    for x in ('', '.xorsign.abs'):
                        op(f'{o}{z}{n}{x}.{t}', t, f'{t} {t}')
        op(f'ex2.approx.{t}', t, f'{t}:{t}u')
        op(f'tanh.approx.{t}', t, f'{t}:{t}u')
    for t in ('bf16', 'bf16x2'):
        for o in ('add', 'sub', 'mul'):
            for r in ('', '.rn'):
                op(f'{o}{r}.{t}', t, f'{t} {t}')
        for x in ('', '.relu'):
            op(f'fma.rn{x}.{t}', t, f'{t} {t} {t}')
        for o in ('abs', 'neg'):
            op(f'{o}.{t}', t, t)
        for o in ('min', 'max'):
            for n in ('', '.NaN'):
                for x in ('', '.xorsign.abs'):
                    op(f'{o}{n}{x}.{t}', t, f'{t} {t}')
        op(f'ex2.approx.ftz.{t}', t, f'{t}:{t}u')
        op(f'tanh.approx.{t}', t, f'{t}:{t}u')
    for t in ('f16', 'f16x2', 'bf16', 'bf16x2'):
        for x in ('', '.relu'):
            op(f'fma.rn.oob{x}.{t}', t, f'{t} {t} {t}')


# ---------------------------------------------------------------- inputs

class Format:
    """A binary floating-point format; values are bit patterns."""

    def __init__(self, e, m):
        self.e, self.m, self.w = e, m, 1 + e + m
        self.bias = (1 << (e - 1)) - 1
        self.sign = 1 << (e + m)
        self.inf = ((1 << e) - 1) << m
        self.max = self.inf - 1
        self.nan = self.inf | 1 << (m - 1)
        self.snan = self.inf | 1
        self.one = self.bias << m
        self.min = 1 << m

    def enc(self, x):
        """The nearest pattern (ties to even) to the number x, an int, a float or a Fraction."""
        x = Fraction(x)
        s = self.sign if x < 0 else 0
        x = abs(x)
        if x == 0:
            return s
        k = x.numerator.bit_length() - x.denominator.bit_length()
        if Fraction(2) ** k > x:
            k -= 1
        k = max(k, 1 - self.bias)
        q = x / Fraction(2) ** (k - self.m)
        n = round(q)
        v = n + ((k + self.bias - 1) << self.m) if k > 1 - self.bias or n >= 1 << self.m else n
        return s | min(v, self.inf)


F16, BF16, F32, F64 = Format(5, 10), Format(8, 7), Format(8, 23), Format(11, 52)
PI = Fraction(3141592653589793238462643383279, 10 ** 30)


def uniq(values, mask):
    out = []
    for v in values:
        v &= mask
        if v not in out:
            out.append(v)
    return out


def perm(i, k):
    """A permutation of the rows for column k."""
    return (i * (1, 35, 53, 77)[k] + (0, 11, 7, 50)[k]) % ROWS


def integers(w, rng):
    mask = (1 << w) - 1
    v = [0, 1, 2, 3, 5, 7, -1, -2, -3, 10, -10, 100, -100]
    for k in (8, 16, 24, 32, 64):
        if k > w:
            break
        h = 1 << (k - 1)
        v += [h - 1, h, -h, -h - 1, 2 * h - 1, 2 * h]
        if k != 24:
            v += [h + 1, -h + 1, 2 * h - 2, 2 * h + 1]
    v += [0x5555555555555555, 0xaaaaaaaaaaaaaaaa, 0x0f0f0f0f0f0f0f0f, 0x123456789abcdef0, 0xfedcba9876543210]
    if w >= 16:
        v += [257, 259, 2049, 2051, 65504, 65519, 65520]
    if w >= 32:
        v += [65521, (1 << 24) + 1, (1 << 24) + 3, (1 << 25) + 2, (1 << 25) + 6, 0x7fffff80, 0x7fffffbf,
              0x7fffffc0,
              -(1 << 24) - 1, -(1 << 25) - 2, 0xffffff7f, 0xffffff80, 0x81000000, 0x80808080, 0x7f7f7f7f]
    if w == 64:
        v += [(1 << 53) + 1, (1 << 53) + 3, (1 << 54) + 2, -(1 << 53) - 1, (1 << 63) - 512, (1 << 63) - 513,
              (1 << 64) - 1025, (1 << 64) - 1024, 1 << 40, (1 << 40) + (1 << 16), (1 << 40) + (1 << 16) + 1]
    v = uniq(v, mask)
    if len(v) > ROWS - 8:
        print(f'inputs: {w} bits: {len(v)} values, the last {len(v) - ROWS + 8} are dropped', file=sys.stderr)
        v = v[:ROWS - 8]
    while len(v) < ROWS:
        r = rng.getrandbits(w) >> rng.randrange(0, w)
        if r not in v:
            v.append(r)
    cols = [[v[perm(i, k)] for i in range(ROWS)] for k in range(4)]
    lo, hi = 1 << (w - 1), (1 << (w - 1)) - 1
    pairs = [(lo, mask), (hi, 1), (hi, hi), (lo, lo), (lo, 1), (mask, mask), (mask, 1), (lo, 0), (hi, 0),
             (mask, 0),
             (lo, hi), (hi, lo), (0, 0), (1, mask)]
    # The first pair with a given first operand goes to the row that has this operand already; the others take
    # rows from the end.
    used, j = set(), ROWS
    for a, b in pairs:
        i = v.index(a)
        if i in used:
            j -= 1
            i = j
            cols[0][i] = a
        used.add(i)
        cols[1][i] = b
    for j in range(40, 48):
        if j not in used:
            cols[1][j] = (cols[0][j], ~cols[0][j] & mask, -cols[0][j] & mask, cols[0][j] + 1 & mask)[j % 4]
    return cols


def reals(f, rng):
    """Rows of operands a b c d for arithmetic in the format f."""
    s, Z, I, Q, S, D, N, M, O = f.sign, 0, f.inf, f.nan, f.snan, 1, f.min, f.max, f.one
    DM = N - 1
    e = f.enc
    u = Fraction(1, 1 << f.m)
    two, half, three, third, ten = e(2), e(0.5), e(3), e(Fraction(1, 3)), e(10)
    U = O + 1
    tie, above, quarter = e(u / 2), e(u / 2) + 1, e(u / 4)
    P, P2 = Q | 2, S | 6
    neg = lambda x: x ^ s
    rows = [
        (Z, Z, Z), (s, s, s), (Z, s, Z), (s, Z, s), (Z, I, O), (s, I, Q), (I, I, neg(I)), (I, neg(I), I),
        (neg(I), neg(I), I), (I, Z, S), (O, I, neg(I)), (neg(I), O, O), (Q, O, O), (O, Q, two),
        (neg(Q), O, O),
        (S, O, O), (O, S, O), (neg(S), Q, O), (P, P2, O), (P2, P, O), (Q, S, I), (O, O, Q), (O, O, S),
        (O, I, P),
        (D, O, Z), (neg(D), O, D), (D, D, D), (D, neg(D), D), (DM, D, D), (DM, two, O), (DM, neg(DM), N),
        (N, half, Z), (N, neg(D), D), (N, neg(DM), neg(D)), (neg(N), half, D), (N, N, D), (N, U, neg(N)),
        (M, M, neg(M)), (M, neg(M), M), (neg(M), M, M), (M, two, neg(I)), (M, U, neg(M)),
        (M, ((f.bias + f.bias - f.m - 1) << f.m), Z), (M, ((f.bias + f.bias - f.m - 1) << f.m) - 1, D),
        (O, tie, neg(O)), (O, above, neg(O)), (U, tie, D), (O, neg(quarter), O), (neg(O), tie, O),
        (neg(U), neg(tie), s),
        (three, third, neg(O)), (O, three, third), (two, three, neg(ten)), (ten, three, O),
        (neg(ten), three, ten),
        (U, U, neg(O)), (U, U, neg(O + 2)), (O, neg(O), O), (neg(O), O, O), (O, O, neg(O)),
        (half, half, e(0.25)),
        (e(0.25), half, half), (e(1.5), half, tie), (e(0.75), e(1.25), D), (e(PI), e(PI), neg(e(PI * PI))),
        (O, M, DM), (D, M, O), (DM, M, neg(DM)), (N + 1, half, Z), (N + 1, half, D), (N | 3, half, neg(Z)),
        (three, D, N), (O, N, Z), (O, DM, s), (M - 1, O, tie),
    ]
    while len(rows) < ROWS:
        k = len(rows)
        ex = rng.randrange(1, 2 * f.bias) if k % 3 == 0 else f.bias + rng.randrange(-4, 5)
        ey = rng.randrange(1, 2 * f.bias) if k % 3 == 0 else f.bias + rng.randrange(-4, 5)
        a = rng.getrandbits(1) * s | ex << f.m | rng.getrandbits(f.m)
        b = rng.getrandbits(1) * s | ey << f.m | rng.getrandbits(f.m)
        if k % 3 == 1:
            c = neg(e(value(f, a) * value(f, b)))
        else:
            ez = max(1, min(2 * f.bias, ex + ey - f.bias + rng.randrange(-3, 4)))
            c = rng.getrandbits(1) * s | ez << f.m
            c |= rng.getrandbits(f.m)
        rows.append((a, b, c))
    rows = rows[:ROWS]
    return [[r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows],
            [rows[perm(i, 3)][0] for i in range(ROWS)]]


def value(f, v):
    ex = v >> f.m & (1 << f.e) - 1
    m = v & (1 << f.m) - 1
    x = Fraction(m, 1 << f.m) * Fraction(2) ** (1 - f.bias) if ex == 0 else \
        (1 + Fraction(m, 1 << f.m)) * Fraction(2) ** (ex - f.bias)
    return -x if v & f.sign else x


def spread(v, f, rng):
    """Fills the list v up to ROWS with random values and makes four columns of it."""
    v = uniq(v, (1 << f.w) - 1)
    if len(v) > ROWS:
        print(f'inputs: format {f.w}: {len(v)} values, the last {len(v) - ROWS} are dropped', file=sys.stderr)
    while len(v) < ROWS:
        x = (f.bias + rng.randrange(-6, 18)) % (2 * f.bias) << f.m | rng.getrandbits(f.m)
        x |= rng.getrandbits(1) * f.sign
        if x not in v:
            v.append(x)
    return [[v[perm(i, k)] for i in range(ROWS)] for k in range(4)]


def specials(f):
    s = f.sign
    return [0, s, 1, s | 1, f.min - 1, f.min, s | f.min, f.max, s | f.max, f.inf, s | f.inf, f.nan, s | f.nan,
            f.snan,
            s | f.snan | 2]


def conversions(f, rng):
    """Column a: values at which conversions differ."""
    e = f.enc
    s = f.sign
    F = Fraction
    v = specials(f)
    v += [e(x) for x in (1, -1, 0.5, -0.5, 1.5, -1.5, 2.5, 3.5)]
    v += [e(0.5) - 1, e(0.5) + 1, s | e(0.5) + 1, e(1) - 1, s | e(1) - 1]
    for k in (7, 8, 15, 16, 31, 32, 63, 64):
        t = e(1 << k)
        if t >= f.inf:
            continue
        v += [t, t - 1]
        if k % 2 or f.w == 64:
            v += [s | t, s | t + 1]
        if k < 33:
            v += [e((1 << k) - F(1, 2)), e(-(1 << k) - F(1, 2))] if k % 2 else [e((1 << k) - F(1, 2))]
    if f.w >= 32:
        v += [e(x) for x in (
            65504, 65520, F(1, 1 << 24), F(1, 1 << 25), F(3, 1 << 25), 1 + F(1, 1 << 11), 1 + F(3, 1 << 11),
            1 + F(1, 1 << 8), 1 + F(3, 1 << 8))]
        v += [e(65520) - 1, e(F(1, 1 << 25)) + 1, e(1 + F(1, 1 << 11)) + 1, e(1 + F(1, 1 << 8)) - 1]
    if f.w == 32:
        v += [e(x) for x in (448, 464, 480, F(1, 1 << 9), F(1, 1 << 10), F(3, 1 << 10), 1 + F(1, 16),
            -1 - F(3, 16), 57344, 61440, F(1, 1 << 16), F(1, 1 << 17), F(3, 1 << 17), 1 + F(1, 8),
                             1 + F(3, 8))]
        v += [e(464) + 1, 0x7f7f8000, 0x7f7f7fff, 0x7f7ff000, 0x00008000, 0x00018000, 0x007ff000]
    if f.w == 64:
        v += [e(x) for x in (1 + F(1, 1 << 24), 1 + F(3, 1 << 24), F(1, 1 << 149), F(1, 1 << 150),
                             F(3, 1 << 150),
                             F(1, 1 << 126) - F(1, 1 << 150), (1 << 128) - (1 << 103))]
        v += [e((1 << 128) - (1 << 103)) - 1]
    if f.w == 16:
        v += [e(x) for x in (F(1, 1 << 10), F(3, 1 << 10), 1 + F(1, 16), 1 + F(3, 16), 1 + F(1, 8),
                             1 + F(3, 8), 448,
                             464, 480, 57344, 61440, F(1, 1 << 17), F(3, 1 << 17), 4.5, -2.5, -3.5, 100.5,
                             127.5, 255.5)]
    return spread(v, f, rng)


def unary(f, rng):
    """Values for reciprocals, roots and transcendental functions."""
    e = f.enc
    F = Fraction
    v = specials(f)
    v += [f.min + 1, f.min * 2, f.max - 1, 2, 3, f.sign | f.min - 1, f.sign | 2]
    v += [e(x) for x in (1, -1, 2, -2, 3, 4, 0.5, -0.5, 0.25, 10, 100, 0.1, 1e-3, 7, 9, 25, -126, -127, -149,
                         -150, 127, 128,
                         127.5, 15, 16, -14, -24, -25, 1.5, -1.5, 5, -5, 20, -20)]
    v += [e(1) - 1, e(1) + 1, e(4) - 1, e(4) + 1, e(2) - 1, e(2) + 1, e(0.5) - 1, e(0.5) + 1]
    v += [e(PI * F(x)) for x in ('1/6', '1/4', '1/2', '1', '3/2', '2', '-1', '-1/2', '100', '1000000')]
    if f.w >= 32:
        v += [e(F(1, 1 << 126) / 2), e(F(2) ** 126), e(F(2) ** 127), e(F(2) ** 125), e(123456.789),
              e(1 << 40)]
    return spread(v, f, rng)


def packed(cols):
    """Two lanes of 16 bits: the low one in order, the high one permuted the same way in every column."""
    return [[c[i] | c[perm(i, 1)] << 16 for i in range(ROWS)] for c in cols]


def families():
    rng = random.Random(20240907)
    out = {}
    for w in (16, 32, 64):
        out[f'i{w}'] = integers(w, rng)
    for n, f in (('f16', F16), ('bf16', BF16), ('f32', F32), ('f64', F64)):
        out[n] = reals(f, rng)
        out[n + 'c'] = conversions(f, rng)
    out['f16x2'] = packed(out['f16'])
    out['bf16x2'] = packed(out['bf16'])
    out['f16x2c'] = packed(out['f16c'])
    for n, f in (('f16', F16), ('bf16', BF16), ('f32', F32), ('f64', F64)):
        out[n + 'u'] = unary(f, rng)
    out['f16x2u'] = packed(out['f16u'])
    out['bf16x2u'] = packed(out['bf16u'])
    sh = [0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 23, 24, 25, 28, 29, 30, 31, 32, 33, 34, 40, 47, 48,
          49, 56, 60, 61,
          62, 63, 64, 65, 66, 95, 96, 97, 127, 128, 129, 254, 255, 256, 257, 258, 263, 264, 287, 288, 289,
          319, 320, 511,
          512, 65535, 65536, 65537, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0xfffffffe, 0xffffffe0,
          0xffffffc0,
          0xffffff00, 0xffffff01, 0x10001010, 0x12345608]
    i = 0
    while len(sh) < ROWS:
        sh.append((i * 5) % 33)
        i += 1
    out['sh'] = [[sh[perm(i, k)] for i in range(ROWS)] for k in range(4)]
    out['sh31'] = [[(i * (5 + 2 * k) + k) % 32 for i in range(ROWS)] for k in range(4)]
    off = [0, 1, -1, 2, -2, 3, -3, 5, -5, 8, -8, 16, -16, 31, -31, 32, -32, 33]
    out['off'] = [[off[(i + k) % len(off)] & 0xffffffff for i in range(ROWS)] for k in range(4)]
    sel = [0x3210, 0x7654, 0x0123, 0x4567, 0x5140, 0x7362, 0xba98, 0xfedc, 0x8888, 0xffff, 0x0000, 0x7777,
           0xf0e1, 0x89ab,
           0x3b2a, 0x76543210, 0xffff3210, 0x6420, 0x7531]
    while len(sel) < ROWS:
        sel.append(rng.getrandbits(16))
    out['sel'] = [[sel[perm(i, k)] for i in range(ROWS)] for k in range(4)]
    codes = list(range(128)) + list(range(128, 256, 2)) + [0xff, 0xfd, 0xfb]
    codes = [c for c in codes if c not in (0x90, 0xa0, 0xb0)]
    fp8 = [codes[i] | codes[96 + i] << 8 for i in range(ROWS)]
    out['fp8x2'] = [[fp8[perm(i, k)] for i in range(ROWS)] for k in range(4)]
    out['pred'] = [[i & 1 for i in range(ROWS)], [i >> 1 & 1 for i in range(ROWS)],
                   [i * 5 >> 2 & 1 for i in range(ROWS)], [i >> 2 & 1 for i in range(ROWS)]]
    return out


def main():
    integer()
    logic()
    compare()
    cvt()
    real()
    half()
    fams = families()
    for name, dst, src, _ in FORMS:
        for s in src.split(','):
            if s.split(':')[1] not in fams:
                raise SystemExit(f'{name}: no table of inputs for {s}')
    if len(sys.argv) == 3 and sys.argv[1] == '--inputs':
        with open(sys.argv[2], 'wb') as f:
            f.write(b'PTXVIN1\n' + struct.pack('<II', len(fams), ROWS))
            for name, cols in fams.items():
                f.write(name.encode().ljust(8, b'\0'))
                for c in cols:
                    assert len(c) == ROWS
                    f.write(struct.pack(f'<{ROWS}Q', *c))
        return
    for form in FORMS:
        print('\t'.join(form))


if __name__ == '__main__':
    main()
