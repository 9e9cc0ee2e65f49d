package main

import "slices"

// ordered puts n files into an order in which few of them use one that comes later. uses says whether a file
// uses another one. To find the best order is hard (a minimum feedback arc set); this one begins with the
// heuristic of Eades, Lin and Smyth and then moves single files as long as that helps.
func ordered(n int, uses func(i, j int) bool) []int {
	order := begin(n, uses)
	up := func() (count int) {
		for at, i := range order {
			for _, j := range order[at+1:] {
				if uses(i, j) {
					count++
				}
			}
		}
		return count
	}
	for least, better := up(), true; better; {
		better = false
		for from := range n {
			for to := range n {
				was := slices.Clone(order)
				i := order[from]
				order = slices.Insert(slices.Delete(order, from, from+1), to, i)
				if now := up(); now < least {
					least, better = now, true
				} else {
					order = was
				}
			}
		}
	}
	return order
}

// begin takes away, one after another, files that use none of the rest (they come first), files that none of
// the rest uses (they come last), and else the one that more files use than it uses itself.
func begin(n int, uses func(i, j int) bool) []int {
	var first, last, rest []int
	for i := range n {
		rest = append(rest, i)
	}
	for len(rest) > 0 {
		best, most := 0, -n
		for k, i := range rest {
			below, above := 0, 0
			for _, j := range rest {
				if i != j && uses(i, j) {
					below++
				}
				if i != j && uses(j, i) {
					above++
				}
			}
			switch {
			case below == 0:
				best, most = k, n
			case above == 0 && most < n:
				best, most = k, -n
			case above-below > most:
				best, most = k, above-below
			}
			if below == 0 || above == 0 {
				break
			}
		}
		i := rest[best]
		rest = slices.Delete(rest, best, best+1)
		if most == -n {
			last = append([]int{i}, last...)
		} else {
			first = append(first, i)
		}
	}
	return append(first, last...)
}
