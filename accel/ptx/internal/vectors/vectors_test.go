package vectors_test

import (
	"bytes"
	"compress/gzip"
	"math"
	"math/big"
	"math/bits"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/accel/ptx/internal/vectors"
	"github.com/stretchr/testify/require"
)

const file = "../../testdata/h200.bin.gz"

func f32(v uint64) float32 { return math.Float32frombits(uint32(v)) }
func f64(v uint64) float64 { return math.Float64frombits(v) }

func of32(f float32) uint64 { return uint64(math.Float32bits(f)) }
func of64(f float64) uint64 { return math.Float64bits(f) }

// isNaN reports whether a result of a type is a NaN. Which one a processor computes is not Go's to say.
func isNaN(kind string, v uint64) bool {
	switch kind {
	case "f32":
		return f32(v) != f32(v)
	case "f64":
		return f64(v) != f64(v)
	}
	return false
}

func boolean(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}

// models compute some forms with Go's own arithmetic.
var models = map[string]func(o [4]uint64) uint64{
	"add.u32":      func(o [4]uint64) uint64 { return uint64(uint32(o[0]) + uint32(o[1])) },
	"add.s64":      func(o [4]uint64) uint64 { return o[0] + o[1] },
	"mul.hi.u64":   func(o [4]uint64) uint64 { hi, _ := bits.Mul64(o[0], o[1]); return hi },
	"mul.wide.s32": func(o [4]uint64) uint64 { return uint64(int64(int32(o[0])) * int64(int32(o[1]))) },
	"mad.lo.u32":   func(o [4]uint64) uint64 { return uint64(uint32(o[0])*uint32(o[1]) + uint32(o[2])) },
	"shl.b32":      func(o [4]uint64) uint64 { return uint64(uint32(o[0]) << min(uint32(o[1]), 32)) },
	"shr.s64":      func(o [4]uint64) uint64 { return uint64(int64(o[0]) >> min(uint32(o[1]), 64)) },
	"popc.b64":     func(o [4]uint64) uint64 { return uint64(bits.OnesCount64(o[0])) },
	"clz.b32":      func(o [4]uint64) uint64 { return uint64(bits.LeadingZeros32(uint32(o[0]))) },
	"brev.b32":     func(o [4]uint64) uint64 { return uint64(bits.Reverse32(uint32(o[0]))) },
	"lop3.b32.0xe8": func(o [4]uint64) uint64 { // the majority
		a, b, c := uint32(o[0]), uint32(o[1]), uint32(o[2])
		return uint64(a&b | b&c | a&c)
	},
	"setp.lt.f32":     func(o [4]uint64) uint64 { return boolean(f32(o[0]) < f32(o[1])) },
	"setp.ltu.f64":    func(o [4]uint64) uint64 { return boolean(!(f64(o[0]) >= f64(o[1]))) },
	"add.rn.f32":      func(o [4]uint64) uint64 { return of32(f32(o[0]) + f32(o[1])) },
	"mul.rn.f64":      func(o [4]uint64) uint64 { return of64(f64(o[0]) * f64(o[1])) },
	"div.rn.f64":      func(o [4]uint64) uint64 { return of64(f64(o[0]) / f64(o[1])) },
	"sqrt.rn.f64":     func(o [4]uint64) uint64 { return of64(math.Sqrt(f64(o[0]))) },
	"fma.rn.f64":      func(o [4]uint64) uint64 { return of64(math.FMA(f64(o[0]), f64(o[1]), f64(o[2]))) },
	"cvt.rn.f32.f64":  func(o [4]uint64) uint64 { return of32(float32(f64(o[0]))) },
	"cvt.rzi.u32.f64": func(o [4]uint64) uint64 { return truncate(f64(o[0])) },
}

// truncate converts towards zero, into the range of 32 bits without sign. NaN becomes 1<<31, as on the GPU.
func truncate(f float64) uint64 {
	switch {
	case f != f:
		return 1 << 31
	case f <= 0:
		return 0
	case f >= math.MaxUint32:
		return math.MaxUint32
	}
	n, _ := big.NewFloat(f).Uint64()
	return n
}

// The GPU's results agree with Go's arithmetic, in every row.
func TestModels(t *testing.T) {
	v, err := vectors.Read(file)
	require.NoError(t, err)
	require.Equal(t, "NVIDIA H200, compute capability 9.0, driver API 13000, PTX 8.6", v.Device)
	require.Len(t, v.Forms, 2606)
	found := 0
	for i := range v.Forms {
		f := &v.Forms[i]
		require.Len(t, f.Values, len(f.Results))
		model := models[f.Name]
		if model == nil {
			continue
		}
		found++
		for row, got := range f.Values[0] {
			o := v.Operands(f, row)
			want := model(o)
			if isNaN(f.Results[0], want) && isNaN(f.Results[0], got) {
				continue
			}
			require.Equal(t, want, got, "%s: row %d: operands %#x", f.Template, row, o)
		}
	}
	require.Equal(t, len(models), found)
}

// A file that is cut off, or has more than it says, is an error.
func TestWrongFiles(t *testing.T) {
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var whole bytes.Buffer
	_, err = whole.ReadFrom(z)
	require.NoError(t, err)
	for _, b := range [][]byte{
		{}, []byte("PTXVEC2\n"), whole.Bytes()[:12], whole.Bytes()[:whole.Len()/2],
		whole.Bytes()[:whole.Len()-1], append(bytes.Clone(whole.Bytes()), 0),
	} {
		path := filepath.Join(t.TempDir(), "vectors.gz")
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(b)
		require.NoError(t, w.Close())
		require.NoError(t, os.WriteFile(path, packed.Bytes(), 0o600))
		_, err := vectors.Read(path)
		require.Error(t, err, "%d bytes", len(b))
	}
	_, err = vectors.Read(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
