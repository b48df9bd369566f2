package layers

import "slices"

// Knots returns the files that need each other, the largest knot first: from each file of a knot
// the arrows lead to all others, and back.
func Knots(arrows []Arrow) (knots [][]string) {
	next := map[string]map[string]bool{}
	for _, a := range arrows {
		if next[a.From] == nil {
			next[a.From] = map[string]bool{}
		}
		next[a.From][a.To] = true
	}
	// Tarjan's algorithm.
	index, low := map[string]int{}, map[string]int{}
	var path []string
	var visit func(file string)
	visit = func(file string) {
		index[file] = len(index) + 1
		low[file] = index[file]
		path = append(path, file)
		for to := range next[file] {
			if index[to] == 0 {
				visit(to)
				low[file] = min(low[file], low[to])
			} else if slices.Contains(path, to) {
				low[file] = min(low[file], index[to])
			}
		}
		if low[file] == index[file] {
			at := slices.Index(path, file)
			if knot := slices.Clone(path[at:]); len(knot) > 1 {
				slices.Sort(knot)
				knots = append(knots, knot)
			}
			path = path[:at]
		}
	}
	for file := range next {
		if index[file] == 0 {
			visit(file)
		}
	}
	slices.SortFunc(knots, func(a, b []string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return slices.Compare(a, b)
	})
	return knots
}
