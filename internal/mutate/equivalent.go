package main

// An equivalent is a mutant that somebody has looked at and that changes nothing that a test may look at.
type equivalent struct {
	file     string // from the module's root
	function string
	was, is  string // as the report prints them; is "": removed
	why      string
}

// markEquivalents marks the mutants that are known to change nothing, and returns the entries that fit none.
func markEquivalents(all []*mutant) (stale []string) {
	type place struct{ file, function, was, is string }
	at := map[place][]*mutant{}
	for _, m := range all {
		is := ""
		if m.is != "" {
			is = oneLine(m.is)
		}
		p := place{m.file.name, m.function, oneLine(m.was), is}
		at[p] = append(at[p], m)
	}
	for _, e := range equivalents {
		is := ""
		if e.is != "" {
			is = oneLine(e.is)
		}
		found := at[place{e.file, e.function, oneLine(e.was), is}]
		if len(found) == 0 {
			stale = append(stale, e.file+" "+e.function+": "+e.was+" -> "+e.is)
		}
		for _, m := range found {
			m.equivalent = true
		}
	}
	return stale
}

var equivalents = []equivalent{}
