package traffic_test

import (
	"fmt"

	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/model/traffic"
)

// The lines that the device touches for an inline WRITE, without its polls of other queues.
func ExampleSynth() {
	trace, err := traffic.Synth("write", 8, traffic.Form{Inline: true, Requests: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range trace.Accesses {
		if a.Who == model.Dev && a.Kind != model.Key {
			fmt.Println(a)
		}
	}
	// Output:
	// 1 dev load record db.host:0 poll
	// 2 dev load record db.peer:0 poll
	// 8 dev load record db.host:0 poll
	// 9 dev load wqe sq:0 once
	// 11 dev store payload rx:0 stream
	// 12 dev store cqe scq:0 complete
}
