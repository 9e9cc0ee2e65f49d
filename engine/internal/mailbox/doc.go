// Package mailbox carries functions to the thread of an engine, which runs them between two steps.
package mailbox
