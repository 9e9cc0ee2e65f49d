//go:build linux && (amd64 || arm64)

package loop

// planIsDue reports whether something in the plan of the device is due, which the first shard does. The
// shard holds its lock.
func (sh *Loop) planIsDue() bool {
	return sh.Number == 0 && sh.r.Plan.Next != 0 && sh.Now() >= sh.r.Plan.Next
}

// keepPlan does what is due in the plan of the device, and returns how much that was. It is called while this
// shard holds no lock; no shard works meanwhile.
func (sh *Loop) keepPlan() (done int) {
	sh.Passed()
	sh.Between(func() {
		now := sh.Now()
		for f := sh.r.Plan.Take(now); f != nil; f = sh.r.Plan.Take(now) {
			f()
			done++
		}
	})
	sh.Restart()
	return done
}
