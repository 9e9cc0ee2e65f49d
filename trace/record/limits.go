package record

import (
	"fmt"

	"github.com/nicless/nicless/wqe"
)

// limits bound the memory of Write, which has all but the bytes of payload in memory at once.
type limits struct {
	// parts are blocks of WQEs, pieces of payload, completions, and whatever else has a record. Each takes
	// at most 300 bytes, and the garbage collector as much again. So 32 Mi take some 10 to 20 GB, which hosts
	// with such NICs have. A small message of RC has four: these are 8 million of them.
	parts int
	// queues are queue pairs, once more for each reset after use. The usual profile of the driver of mlx5
	// lets a function have 2^18 (log_max_qp). The writer calls itself as deep as there are queues, which must
	// stay below the stack that a goroutine can have.
	queues int
}

var most = limits{parts: 32 << 20, queues: 1 << 18}

// admit counts what a record has, and returns an error if that is more than Write has memory for.
func (g *gatherer) admit(x *raw) error {
	g.parts++
	if x.kind == rawPost {
		g.parts += len(x.data)/wqe.BlockSize - 1
	}
	if g.parts > most.parts {
		return fmt.Errorf("there are more than %d blocks of WQEs, pieces of payload, completions and other records: "+
			"record a shorter run", most.parts)
	}
	if len(g.queues) > most.queues {
		return fmt.Errorf("there are more than %d queue pairs, counted again after each reset: record a shorter run",
			most.queues)
	}
	return nil
}
