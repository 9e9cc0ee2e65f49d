// Package states has the table of the states of queue pairs, and of the transports.
package states
