package main

import "strings"

// A fieldWords is forms of a word that names do not contain, and words of the field for the same thing.
type fieldWords struct{ forms, instead string }

// table has words for what people do, and the words for what devices and programs do.
var table = []fieldWords{
	{"ask asks asked asking", "request, query"},
	{"beat beats beating", "heartbeat, tick"},
	{"clog clogs clogged clogging", "fill, hold, exhaust"},
	{"forget forgets forgot forgotten forgetting", "drop, release, remove"},
	{"guess guesses guessed guessing", "estimate, infer"},
	{"hear hears heard hearing", "receive"},
	{"hoard hoards hoarded hoarding hoarder hoarders", "hold, exhaust"},
	{"judge judges judged judging judgment judgement", "check, decide"},
	{"learn learns learned learnt learning", "record, observe, query"},
	{"meet meets met", "match, seen"},
	{"nobody somebody everybody anybody", "none, any, all, peer"},
	{"owe owes owed owing", "pending, due"},
	{"rouse rouses roused rousing", "wake"},
	{"say says said saying unsaid", "report, log, explain, suppressed"},
	{"settle settles settled settling", "complete, drain"},
	{"shake shakes shook shaking", "handshake"},
	{"tell tells told telling untold", "send, report, notify"},
	{"whose whoever", "owner, peer"},
}

// fieldWord has each form of the table with its word, which is the first form, and the words to use.
var fieldWord = func() map[string]struct{ word, instead string } {
	all := map[string]struct{ word, instead string }{}
	for _, w := range table {
		forms := strings.Fields(w.forms)
		for _, form := range forms {
			all[form] = struct{ word, instead string }{forms[0], w.instead}
		}
	}
	return all
}()

// An exception allows a name of the packages in a folder, or each name there that contains a word.
type exception struct{ folder, name, word, reason string }

var exceptions = []exception{
	{folder: ".", name: "Unsaid", reason: "a field of Explanation, which users read"},
	{folder: "fabric/auth", name: "Meet", reason: "exported from a public package"},
	{folder: "fabric/roce", name: "Asked", reason: "exported from a public package"},
	{folder: "fabric/roce", name: "NotAsked", reason: "exported from a public package"},
	{folder: "packet", name: "AskForAck", reason: "exported from a public package"},
	{folder: "wqe", name: "AddressGuess", reason: "exported from a public package"},

	{folder: "internal/nic", word: "clog", reason: "the word of the resources' interface for closers that all wait"},
	{folder: "engine/internal/closers", word: "clog", reason: "the same"},
	{folder: "engine/internal/object", word: "clog", reason: "the same"},
	{folder: "engine/internal/request", word: "clog", reason: "the same"},
	{folder: "verbs", word: "clog", reason: "the same"},

	{folder: "tools/torture", word: "hoard", reason: "the name of an attack, which torture prints"},
}
