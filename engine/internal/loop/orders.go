//go:build linux && (amd64 || arm64)

package loop

// obey carries out the orders of rules of faults that have come up in the last step.
func (sh *Loop) obey() {
	orders := sh.Orders
	sh.Orders = nil
	sh.Passed()
	sh.Between(func() {
		for _, o := range orders {
			sh.r.Obey(o)
		}
	})
	sh.Restart()
}
