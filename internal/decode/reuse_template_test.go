package decode

import (
	"reflect"
	"strings"
	"testing"
)

// A template that has taken the place of another makes no address in memory of which it has no
// values: that may be behind a block, where the collector finds what is no object.
func TestTemplateReplaced(t *testing.T) {
	d := newTemplater[*sink](t, Options{})
	ts := specOf(t, d)
	many := []string{`"structs":[` + manyOf(9, `{}`) + `]`, `"strs":[` + manyOf(30, `"x"`) + `]`,
		`"timeP":"2026-03-04T05:06:07Z"`,
		`"portP":80`, `"list":[` + manyOf(9, `{"str":"x"}`) + `]`, `"ptrs":[` + manyOf(9, `{}`) + `]`, `"strP":"x"`}
	blocks, empty := 0, 0
	for i := range 1 << len(many) {
		members := `"str":"` + strings.Repeat("x", minPattern) + `"`
		for j, m := range many {
			if i>>j&1 == 0 {
				members += "," + m
			}
		}
		for range blocksFrom + 2 {
			ts.credit, ts.pauses, ts.score = templateCost, 0, maxScore
			checkSame(t, d, spec(members))
		}
		var to regions
		of := ts.all[0]
		of.copy(pointerOf(reflect.New(of.root.Type())), &to)
		if of.blocks != nil {
			blocks++
		}
		for j, a := range of.arrays {
			if a.n == 0 {
				empty++
			}
			if (to[1+j].addr == nil) != (a.n == 0) {
				t.Fatalf("object %d, array %d of %d values: the address %v", i, j, a.n, to[1+j].addr)
			}
		}
		if !of.isSound() {
			t.Fatal("a place is outside")
		}
	}
	if blocks < 50 || empty < 50 {
		t.Errorf("%d templates with blocks, %d arrays without values", blocks, empty)
	}
}

// Blocks count as memory of templates: where there is no room for them, a template does without.
func TestBlocksWithoutRoom(t *testing.T) {
	d := newTemplater[*sink](t, Options{})
	for range 2 {
		checkSame(t, d, spec(bigSpec))
	}
	of := specOf(t, d).all[0]
	d.templateBytes = maxTemplateBytes - 100
	for range 2 * blocksFrom {
		checkSame(t, d, spec(bigSpec))
	}
	if of.fits < blocksFrom || of.blocks != nil || d.templateBytes != maxTemplateBytes-100 {
		t.Errorf("fits %d times, %d blocks, %d bytes", of.fits, len(of.blocks), d.templateBytes)
	}
}
