//go:build linux && (amd64 || arm64)

package loop

// keepPlan does what is due in the plan of the device, and returns how much that was. It is called while this
// shard holds no lock; no shard works meanwhile.
func (sh *Loop) keepPlan() (done int) {
	if sh.Number != 0 || sh.r.Plan.Next == 0 || sh.Now() < sh.r.Plan.Next {
		return 0
	}
	sh.Passed()
	for f := sh.r.Plan.Take(sh.Now()); f != nil; f = sh.r.Plan.Take(sh.Now()) {
		sh.Between(f)
		done++
	}
	sh.Restart()
	return done
}
