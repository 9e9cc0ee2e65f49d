package schedstat

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// Family returns a process and all processes that descend from it at present, the process first.
// It leaves out those whose ancestors in between have ended.
func Family(pid int) []int {
	children := make(map[int][]int)
	list, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range list {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent := parentIn(text)
		children[parent] = append(children[parent], child)
	}
	family := []int{pid}
	for i := 0; i < len(family); i++ {
		family = append(family, children[family[i]]...)
	}
	return family
}

// parentIn returns the fourth field of a text from /proc/PID/stat. The second field is the
// program's name in parentheses, which may contain anything.
func parentIn(stat []byte) int {
	_, rest, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" "))
	fields := bytes.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	pid, _ := strconv.Atoi(string(fields[1]))
	return pid
}
