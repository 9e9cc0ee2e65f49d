//go:build linux && (amd64 || arm64)

package niclesstest

import "testing"

// How long a device costs a test: New, one WRITE, and the end.
func BenchmarkDevice(b *testing.B) {
	for name, cfg := range map[string]Config{"real": {}, "held": {Clock: Held}, "untraced": {NoTrace: true}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r := report(func(t testing.TB) {
					a, _ := NewWith(t, cfg).Pair(PairConfig{})
					a.Do(a.Write(8))
				})
				if len(r.errors) > 0 {
					b.Fatal(r.errors)
				}
			}
		})
	}
}
