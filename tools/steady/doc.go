// Package steady runs tests beside a load, many times, to find those that fail by chance.
//
// Terms: a suite is test binaries with the arguments that they run with. A run is all binaries of a
// suite once, as many beside each other as there are cores, as with go test. Each binary runs its
// tests in an order of its own, which its seed repeats.
//
// Binaries are compiled once, before the load starts. The load is processes of this program: busy
// loops, one that writes memory, one that writes a file. They end when the pipe from their parent
// closes, so they end however the parent ends.
//
// Times are those of the monotonic clock, which stands still while a machine is suspended and does
// not jump.
//
// `make steady` runs its command, tools/steady/run.
//
//   - plan.go: what runs how often beside which load
//   - suite.go: the suites, and compiling their tests
//   - binary.go: runs one test binary; event.go reads its output
//   - fuzz.go: fuzz targets, and whether a failing input fails again
//   - load.go: the processes of the load; room.go how much load this machine has room for
//   - report.go: which tests failed how often
package steady
