// Package fault has the rules by which a device makes faults on demand.
//
// A Rules says what the rules are; Check says what is wrong with them. A Set is rules that a device obeys.
// For each queue, client or link the Set gives a Counter, which counts the events that fit and says which
// rule acts on an event. Nothing of a Counter depends on time or on other queues, except where a rule asks
// for time: for the same seed and the same events it always says the same. docs/FAULTS.md describes the
// language.
//
// The package knows neither files nor devices: package fault/rulefile reads YAML, package engine obeys.
//
//   - rules.go: Rules, Rule and Match; which fields there are
//   - action.go: the actions, and on which events each acts
//   - scalar.go: the values of fields, as text
//   - check.go: whether rules make sense
//   - calls.go: which requests can be refused, and with which errors
//   - set.go: which rules a queue, client or link has to do with
//   - counter.go: which rule acts on an event
package fault
