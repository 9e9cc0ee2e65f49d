// Package summary has the form in which an engine says to others of its fabric what it does (state.Summary).
//
// An engine asks for one part, and the other answers with that part, so that whoever forges the address of a
// question makes nobody get more than was sent. Part 0 has the figures, and says how many parts there are;
// the others have programs. The parts of one moment have the same generation.
//
// All numbers are little-endian. A part is the value of a message between engines (package rendezvous), which
// has up to Most bytes:
//
//	0   kind: 1 a question, 2 an answer, 3 the engine tells nothing
//	1   version 1
//	2   part, from 0; 3 how many parts there are (0 in a question)
//	4   generation, 4 bytes (0 in a question)
//	8   ID of the question, 8 bytes: nobody can guess it
//
// In part 0 follow
//
//	16  time, WQEs, bytes, failed, explanations, packets sent again, timeouts: 8 bytes each
//	72  process, clients, programs, queue pairs, those linked, those waiting, rules of faults,
//	    peers that are up, and down: 4 bytes each
//	108 threads, 2 bytes; 110 flags, 2 bytes: 1 programs are told, 2 a thread is stuck
//	112 length of the name of the machine, 1 byte; the name, 63 bytes: up to 176
//
// and in each other part up to three programs of 56 bytes:
//
//	0   process, queue pairs, those linked, those waiting: 4 bytes each
//	16  WQEs, bytes, failed: 8 bytes each
//	40  name, up to 16 bytes, and zeros
//
// Files:
//
//	form.go      questions and answers
//	program.go   the parts with programs
//	collect.go   the parts of one summary
//	gather.go    the summary of an engine, from its state
package summary
