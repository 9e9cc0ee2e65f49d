package verbs

import "time"

// A budget bounds what a program can make us write into the log.
type budget struct {
	second int64
	spent  int
}

// linesPerSecond is enough to see what is wrong with a program.
const linesPerSecond = 50

// spend reports whether another line may be written.
func (b *budget) spend() bool {
	if now := time.Now().Unix(); now != b.second {
		b.second, b.spent = now, 0
	}
	b.spent++
	return b.spent <= linesPerSecond
}
