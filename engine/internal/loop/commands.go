//go:build linux && (amd64 || arm64)

package loop

// obey carries out the commands of rules of faults that have come up in the last step.
func (sh *Loop) obey() {
	commands := sh.Commands
	sh.Commands = nil
	sh.Passed()
	sh.Between(func() {
		for _, o := range commands {
			sh.r.Obey(o)
		}
	})
	sh.Restart()
}
