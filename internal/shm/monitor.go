package shm

import "github.com/nicless/nicless/internal/cpu"

// Monitor makes the processor watch the word's cache line, as cpu.Monitor does.
func (p *BE32) Monitor() { cpu.Monitor(&p.w) }
