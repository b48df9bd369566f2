package lz

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// words are many that do not repeat.
var words = func() string {
	var b strings.Builder
	for i := range 120 {
		fmt.Fprintf(&b, `"%07x":`, uint32(i+1)*2654435761>>4)
	}
	return b.String()
}()

// other is text of another shape than large, which does not repeat itself.
func other(i int) []byte { return fmt.Appendf(nil, `{"id":%d,%s"owner":"%016x"}`, i, words, i*i) }

// large is text of one shape that is worth to be packed.
func large(i int) []byte {
	i = 1000 + i%500
	return slices.Concat(text(3*i), text(3*i+1), text(3*i+2))
}

// A kept is a text as a cell keeps it.
type kept struct {
	dict   *Dict
	packed string
	text   []byte
}

func put(c *Coder, text []byte) kept {
	packed, d := c.Pack(nil, text)
	k := kept{d, string(packed), text}
	c.Note(d, k.packed, len(text))
	return k
}

func (k *kept) check(t *testing.T) {
	t.Helper()
	got, err := Unpack(k.dict, nil, k.packed, len(k.text))
	if err != nil || !bytes.Equal(got, k.text) {
		t.Fatalf("a text of %d bytes came back as one of %d: %v", len(k.text), len(got), err)
	}
}

// The first texts make the dictionary. When others come it is made anew, and what was packed before
// is unpacked by the dictionary that it was packed by.
func TestDictionaryIsRefreshed(t *testing.T) {
	var c Coder
	var all []kept
	ratio := func(n int, text func(int) []byte) float64 {
		in, out := 0, 0
		for i := range n {
			k := put(&c, text(i))
			in, out = in+len(k.text), out+len(k.packed)
			all = append(all, k)
		}
		return float64(out) / float64(in)
	}
	ratio(200, large)
	first := c.dict
	if first == nil {
		t.Fatal("200 texts make no dictionary")
	}
	if r := ratio(2000, large); r > 0.25 {
		t.Errorf("texts of one shape are packed to %.2f", r)
	}
	if c.dict != first {
		t.Error("texts of the same shape have made another dictionary")
	}
	before := ratio(100, other)
	ratio(2000, other)
	if c.dict == first {
		t.Error("texts of another shape have made no other dictionary")
	}
	if after := ratio(500, other); after > 0.8*before {
		t.Errorf("the ratio of the other texts was %.2f and is %.2f", before, after)
	}
	for _, k := range all {
		k.check(t)
	}
}

// Texts that are like nothing make few dictionaries, and are kept as they are.
func TestNothingFits(t *testing.T) {
	var c Coder
	rng := rand.NewChaCha8([32]byte{1})
	dicts := map[*Dict]bool{}
	for range 3000 {
		random := make([]byte, 5000)
		rng.Read(random)
		k := put(&c, random)
		if k.dict != nil || len(k.packed) != len(random) {
			t.Fatal("random bytes were packed")
		}
		k.check(t)
		dicts[c.dict] = true
	}
	if c.dict != nil || len(c.samples) > 0 {
		t.Errorf("random bytes are %d samples, and the dictionary is %v", len(c.samples), c.dict)
	}
	for i := range 20_000 { // half of them of one shape, and half of ever new ones
		k := put(&c, large(i))
		k.check(t)
		shape := strings.Map(func(r rune) rune { return r ^ rune(i/300%20) }, string(other(i)))
		k = put(&c, []byte(shape))
		k.check(t)
		dicts[c.dict] = true
	}
	if len(dicts) > 9 {
		t.Errorf("%d dictionaries of 40000 texts", len(dicts))
	}
}

// Small texts are kept as they are.
func TestSmallTexts(t *testing.T) {
	var c Coder
	for range 1000 {
		if k := put(&c, bytes.Repeat([]byte{'a'}, tooSmall-1)); k.dict != nil {
			t.Fatal("a small text was packed")
		}
	}
	if c.dict != nil || c.samples != nil {
		t.Error("small texts are samples")
	}
	k := put(&c, bytes.Repeat([]byte{'a'}, tooSmall))
	if k.check(t); len(k.packed) > 20 {
		t.Errorf("%d bytes of one letter are packed to %d", tooSmall, len(k.packed))
	}
}
