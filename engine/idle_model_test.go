package engine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// This file is a model of how the device falls asleep. It is small enough to try every order
// of the steps of a poster and the device, with a store buffer between the poster and memory.
// The model repeats, line by line, the accesses of idler.sleep and of the host API's waker.
// TestNoWakeUpIsMissed runs the code itself.

// A night is a state of the model.
type night struct {
	record, executed uint8
	buffered         uint8 // the poster's record, in the store buffer; 0: the buffer is empty
	asleep, rung     bool
	poster, device   uint8
	posts            uint8
}

// These are the poster's next actions.
const (
	posterStores = iota
	posterLoads
	posterWakes
)

// These are the device's next actions.
const (
	deviceLooks = iota // polls the record while awake
	deviceTells
	deviceBarrier
	deviceLastLook
	deviceSleeps
	deviceWakes
)

// A habit is a variant of the code: as it is, or with a fault that the model must find.
type habit struct {
	noBarrier, noLastLook, lookFirst bool
}

const nightPosts = 3

// steps returns the states that can follow n.
func (h habit) steps(n night) (next []night) {
	if n.buffered > 0 { // the buffer may drain at any time
		to := n
		to.record, to.buffered = n.buffered, 0
		next = append(next, to)
	}
	to := n
	switch n.poster {
	case posterStores:
		if n.posts < nightPosts && n.buffered == 0 {
			to.posts++
			to.buffered, to.poster = to.posts, posterLoads
			next = append(next, to)
		}
	case posterLoads:
		to.poster = posterStores
		if n.asleep {
			to.poster = posterWakes
		}
		next = append(next, to)
	case posterWakes: // a system call drains the buffer
		if n.buffered > 0 {
			to.record, to.buffered = n.buffered, 0
		}
		to.rung, to.poster = true, posterStores
		next = append(next, to)
	}
	to = n
	switch n.device {
	case deviceLooks:
		to.executed = n.record
		if n.executed == n.record {
			to.device = deviceTells
		}
		if h.lookFirst {
			to.device = deviceLastLook
		}
	case deviceTells:
		to.asleep, to.device = true, deviceBarrier
	case deviceBarrier:
		if !h.noBarrier && n.buffered > 0 {
			to.record, to.buffered = n.buffered, 0
		}
		to.device = deviceLastLook
		if h.noLastLook || h.lookFirst {
			to.device = deviceSleeps
		}
	case deviceLastLook:
		to.device = deviceSleeps
		if h.lookFirst {
			to.device = deviceTells
		}
		if n.executed != n.record {
			to.executed, to.device = n.record, deviceWakes
		}
	case deviceSleeps:
		if !n.rung {
			return next
		}
		to.rung, to.device = false, deviceWakes
	case deviceWakes:
		to.asleep, to.device = false, deviceLooks
	}
	return append(next, to)
}

// explore visits every night that is reachable, and returns their number. It returns an error
// if the device can sleep without end while something is announced.
func (h habit) explore() (int, error) {
	seen := map[night]bool{{}: true}
	queue := []night{{}}
	for i := 0; i < len(queue); i++ {
		n := queue[i]
		next := h.steps(n)
		if len(next) == 0 && n.executed != n.posts {
			return len(queue), fmt.Errorf("the device sleeps, and %d of %d are executed", n.executed, n.posts)
		}
		for _, to := range next {
			if !seen[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	return len(queue), nil
}

func TestFallingAsleep(t *testing.T) {
	n, err := habit{}.explore()
	require.NoError(t, err)
	t.Logf("%d nights", n)
	require.Greater(t, n, 100)
}

// The model finds the fault of each habit that has one.
func TestFallingAsleepFindsFaults(t *testing.T) {
	for _, h := range []habit{{noBarrier: true}, {noLastLook: true}, {lookFirst: true}} {
		_, err := h.explore()
		require.ErrorContains(t, err, "the device sleeps", "%+v", h)
	}
}
