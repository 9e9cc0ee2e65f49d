//go:build linux && (amd64 || arm64)

package gpu

import (
	"sync/atomic"
	"time"
)

// A Condition is what a stream waits for.
type Condition uint32

// The conditions, as CUDA numbers them.
const (
	AtLeast Condition = iota // cyclically: the difference is not negative
	Equal
	And
	Nor
)

// holds reports whether a value is as it should be.
func (c Condition) holds(v, want uint64, wide bool) bool {
	if !wide {
		v, want = v&(1<<32-1), want&(1<<32-1)
	}
	switch c {
	case AtLeast:
		if wide {
			return int64(v-want) >= 0
		}
		return int32(v-want) >= 0
	case Equal:
		return v == want
	case And:
		return v&want != 0
	}
	if wide {
		return ^(v | want) != 0
	}
	return ^uint32(v|want) != 0
}

// possible reports whether a word of memory can be stored or waited for.
func (t *Stream) word(address uint64, wide bool) Code {
	size := uint64(4)
	if wide {
		size = 8
	}
	if address%size != 0 || !t.device.system.reaches(address, size) {
		return InvalidValue
	}
	return Success
}

// WriteValue adds to a stream that a word of 4 or 8 bytes is stored, after everything before it.
func (t *Stream) WriteValue(address, v uint64, wide bool) Code {
	if c := t.word(address, wide); c != Success {
		return c
	}
	return t.add(func() {
		if wide {
			atomic.StoreUint64((*uint64)(pointerTo(address)), v)
		} else {
			atomic.StoreUint32((*uint32)(pointerTo(address)), uint32(v))
		}
	})
}

// A stream that waits for a word looks at it at least this often.
const waitPause = 100 * time.Microsecond

// WaitValue adds to a stream that it waits until a word of 4 or 8 bytes is as it should be.
func (t *Stream) WaitValue(address, want uint64, wide bool, cond Condition) Code {
	if c := t.word(address, wide); c != Success {
		return c
	}
	if cond > Nor {
		return InvalidValue
	}
	load := func() uint64 {
		if wide {
			return atomic.LoadUint64((*uint64)(pointerTo(address)))
		}
		return uint64(atomic.LoadUint32((*uint32)(pointerTo(address))))
	}
	return t.add(func() {
		for n := 0; !cond.holds(load(), want, wide) && t.device.Err() == Success; n++ {
			time.Sleep(min(time.Duration(n)*time.Microsecond, waitPause))
		}
	})
}
