// Package niclesstest gives tests a device, as net/http/httptest gives them a server. A device lives for one
// test, in the test's process. It needs no hardware, no kernel module and no privilege.
//
// A test of an error path makes two connected queue pairs, posts what is wrong, and looks at the completion:
//
//	func TestPutBeyondTheBuffer(t *testing.T) {
//		d := niclesstest.New(t)
//		d.Expect("key-range")
//		a, b := d.Pair(niclesstest.PairConfig{Memory: 4096})
//		wr := a.Write(8)
//		wr.RemoteAddr = b.MR.Addr() + 4092
//		if c := a.Do(wr); !errors.Is(c.Err(), cqe.RemoteAccess) {
//			t.Fatal(c)
//		}
//	}
//
// # What fails a test
//
// At the end of the test, the device fails it, with a list, for
//
//   - objects that were made through its clients and are not closed: PDs, memory and its keys, windows, CQs,
//     SRQs, queue pairs, channels (see [Device.AllowLeaks])
//   - completions that nobody has polled, except those of flushed work (see [Device.AllowUnpolled])
//   - explanations that the test does not expect (see [Device.Expect] and [Device.Allow])
//   - expected explanations that did not come
//   - mistakes that the sanitizer finds, if the test calls [Device.Sanitize]
//
// Everything that Pair has made is closed by the device, and so are its clients. Explanations are logged
// (testing.TB.Log) when they come, with the queue pair, and the last events of the trace are logged if the
// test has failed.
//
// # Time
//
// A device goes by one of three clocks ([Config]):
//
//	Real     the time of the machine; a thread runs the device
//	Held     the clock stands still until the test calls Device.Advance
//	Bubble   the time of a testing/synctest bubble, in which New is called
//
// With Held and Bubble no thread runs the device. It is stepped when there is work, and when a timer runs
// out, so that retries of many seconds take microseconds, and happen in the same order every time. In a
// bubble, time passes by itself when all goroutines of the bubble are blocked. CQ.Wait, Channel.Wait,
// Context.NextEvent and End.Next block in this sense, so that a program that waits with them runs
// unchanged. docs/TESTING.md says what is not possible.
//
// # Files
//
//   - device.go: Config, New, and the end of a test
//   - clock.go: the clocks, and Advance
//   - pair.go, end.go: two connected queue pairs, and what a test does with each
//   - explain.go: explanations, and which of them are expected
//   - ledger.go: what a client has made, where, and whether it is gone
//   - fault.go: faults on demand
//   - sanitize.go: mistakes that the sanitizer finds
//   - trace.go: the events that the device has recorded
package niclesstest
