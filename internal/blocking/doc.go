// Package blocking executes system calls that are expected to wait for long: 10 ms and more.
//
// A thread that waits in a system call of package syscall keeps its processor (P) of the Go runtime until the
// runtime's sysmon thread takes it back. sysmon does so after 10 ms if no goroutine waits for a P, and looks
// some 60 times until then, first every 20 us. In a process that only sleeps and looks now and then, those
// wake-ups are nearly all of its cost: one sleep of a second wakes threads 60 times. Here a thread gives
// its P up before it waits, as the runtime itself does where it waits. Then sysmon wakes twice for each
// sleep.
//
// To give up a P and to take one again has its price, so short waits stay with package syscall.
//
// Source: entersyscallblock, exitsyscall and sysmon in runtime/proc.go. The runtime keeps the first two for
// other packages (go.dev/issue/67401); gVisor uses them in the same way.
package blocking
