//go:build linux && (amd64 || arm64)

package bench

import "context"

// A run is repeated, at most retakes times, if other programs used its cores for more than the
// part tooMuch of its time, or if a sibling of its cores was busy. Whether a run is repeated
// depends on the machine, not on the figure.
const (
	tooMuch = 0.02
	retakes = 4
)

// undisturbed calls the function take until a call was not disturbed by other programs, at most
// tries times. It returns the result that was disturbed least, and the number of repetitions.
func undisturbed[T any](ctx context.Context, tries int, take func() (T, error),
	lost func(T) float64) (best T, retaken int, err error) {
	for try := range tries {
		if err := ctx.Err(); err != nil {
			return best, retaken, err
		}
		s, err := take()
		if err != nil {
			return best, retaken, err
		}
		if try == 0 || lost(s) < lost(best) {
			best = s
		}
		if lost(best) <= tooMuch {
			break
		}
		if try+1 < tries {
			retaken++
		}
	}
	return best, retaken, nil
}
