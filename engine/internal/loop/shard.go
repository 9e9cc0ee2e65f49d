//go:build linux && (amd64 || arm64)

package loop

import (
	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/engine/internal/object"
)

// Step is Engine.Step for this shard.
func (sh *Loop) Step() (done int) {
	if sh.Mail.Waiting.Load() && sh.Number == 0 {
		sh.Passed()
		sh.Mail.Serve()
		sh.Restart()
	}
	if len(sh.Commands) > 0 {
		sh.obey()
	}
	if sh.Several {
		sh.Acquire()
	}
	sh.StepClock = 0
	if sh.Fault.Cut <= object.CutVisits {
		done = sh.visitClients()
	}
	sh.Fault.QP = nil
	if sh.Stalled > 0 && sh.Fault.Cut <= object.CutVisits {
		sh.Fault.Part = object.CutRetry
		done += sh.Retry()
		sh.Fault.Part = object.CutVisits
	}
	if sh.HotPorts+sh.Timers.Armed > 0 && sh.Fault.Cut <= object.CutVisits {
		done += sh.ServePorts(false)
	}
	if sh.Sched.Unswept > 0 {
		done += sh.Sweep()
	}
	if sh.Sched.Warm < len(sh.Running) {
		done += sh.patrol(sh.patrolBudget(done))
	}
	sh.Sched.Turn++
	if sh.Sched.Turn%completion.ArmRoundSteps == 0 {
		if sh.HasColdPorts() {
			done += sh.ServePorts(true)
		}
		sh.Fault.Part = object.CutLast
		done += sh.ObserveArms(completion.ArmRoundPolls)
		if len(sh.Arm.Late.Clients) > 0 {
			done += sendLate(&sh.Shard)
		}
		sh.Diagnose()
		sh.Fault.Part = object.CutVisits
		if !sh.Several && sh.planIsDue() {
			done += sh.keepPlan()
		}
	}
	if sh.Fault.Cut != object.Whole {
		sh.Fault.Cut = object.Whole
	}
	if sh.Several {
		done += sh.visitPostponed(done == sh.Crossed)
		due := sh.Sched.Turn%completion.ArmRoundSteps == 0 && sh.planIsDue()
		sh.Release()
		if due {
			done += sh.keepPlan()
		}
	}
	return done + len(sh.Commands) // the next step carries them out
}

// pollArmsNext makes the next step poll registers and arm words, as one of ArmRoundSteps steps does.
func pollArmsNext(sh *Loop) { sh.Sched.Turn |= completion.ArmRoundSteps - 1 }
