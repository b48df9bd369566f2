package decode

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// A string is guessed from the one before it in its field. One that has an escape in JSON must not
// be guessed.
func TestGuessStrings(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	raw := []string{`"a"`, `"ab"`, `"\u0061"`, `"a\"b"`, `"a\\"`, `"a\\","str":"b"`, "\"\xff\"", `"\ufffd"`, "\"\ufffd\"", `"é"`, `"\n"`, "\"\n\"", `"a`, `null`, `""`, ` "a" `, `1`}
	for _, a := range raw {
		for _, b := range raw {
			for _, s := range []string{a, b, a, b, b} {
				checkSame(t, d, []byte(`{"metadata":{"name":"a"},"spec":{"str":`+s+`,"strs":[`+s+`,`+s+`],"m":{"k":`+s+`}}}`))
				if strings.HasPrefix(s, `"`) && strings.Count(s, ":") == 0 {
					checkSame(t, d, []byte(`{"metadata":{"name":"a"},"spec":{"m":{`+s+`:"v","z":"y",`+s+`:"w"}}}`))
				}
			}
		}
	}
}

func TestIntern(t *testing.T) {
	d := newDecoder[*pod](t, Options{})
	d.strings.table = make([]string, mostSlots) // as large as a busy decoder's
	a, b := mustDecode[*pod](t, d, podJSON(1)), mustDecode[*pod](t, d, podJSON(2))
	// A slot of the table has one string, so two strings may displace each other by chance.
	shared, all := 0, 0
	for name, value := range a.Labels {
		if all++; sameMemory(value, b.Labels[name]) {
			shared++
		}
	}
	if shared < all/2 {
		t.Errorf("%d of %d equal strings share memory", shared, all)
	}
	long := fmt.Sprintf(`{"metadata":{"name":"%s"}}`, strings.Repeat("x", maxIntern+1))
	if sameMemory(mustDecode[*pod](t, d, []byte(long)).Name, mustDecode[*pod](t, d, []byte(strings.Replace(long, "x", "y", 1))).Name) {
		t.Error("different strings share memory")
	}
}

// No string of an object is a part of the bytes that it was read from: those are overwritten.
func TestNothingAliasesTheInput(t *testing.T) {
	for _, opts := range []Options{{}, {Share: true}} {
		d := newDecoder[*sink](t, opts)
		for _, spec := range specs {
			data := []byte(`{"metadata":{"name":"a"},"spec":` + spec + `}`)
			got, err := decodeOne(d, data)
			if err != nil {
				continue
			}
			want, _ := decodeOne(newDecoder[*sink](t, Options{}), []byte(string(data)))
			for i := range data {
				data[i] = '#'
			}
			clear(d.p.scratch[:cap(d.p.scratch)])
			if !reflect.DeepEqual(want, got) {
				t.Errorf("share %v: %s changed with its input", opts.Share, spec)
			}
		}
	}
}

// sameMemory reports whether two strings are one.
func sameMemory(a, b string) bool { return a == b && unsafe.StringData(a) == unsafe.StringData(b) }

// missesOf reads each of the strings once, and returns how many the pool did not have.
func missesOf(p *stringPool, from, to int) (misses int) {
	for i := from; i < to; i++ {
		if _, _, found := p.get(fmt.Appendf(nil, "string %d", i)); !found {
			misses++
		}
	}
	return misses
}

// A pool becomes as large as one stream needs, and no larger by what comes now and then.
func TestPoolGrows(t *testing.T) {
	for _, tt := range []struct {
		name    string
		strings int // how many come again and again in each stream
		fresh   int // how many others come between, in each stream
		slots   int // at most
		misses  int // of those that come again, at most
	}{
		// 12 misses in each of ten rounds are not enough to double 64 slots: see crowded.
		{"few", 20, 0, 128, 13},
		{"few, and new ones now and then", 20, 60, 128, 15},
		{"many", 1000, 0, mostSlots, 600},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, next, misses := &stringPool{}, 1_000_000, 0
			for range 100 {
				p.crowd = crowd{}
				for range 10 {
					misses = missesOf(p, 0, tt.strings)
				}
				missesOf(p, next, next+tt.fresh)
				next += tt.fresh
			}
			if len(p.table) > tt.slots || misses > tt.misses {
				t.Errorf("%d slots and %d misses, want at most %d and %d", len(p.table), misses, tt.slots, tt.misses)
			}
		})
	}
	p, boxed := &stringPool{}, &boxedStrings{}
	for i := range 50_000 {
		p.get(fmt.Append(nil, i))
		boxed.get(fmt.Append(nil, i))
	}
	if diff := cmp.Diff([]int{mostSlots, mostSlots}, []int{len(p.table), len(boxed.table)}); diff != "" {
		t.Errorf("slots of busy pools (-want +got):\n%s", diff)
	}
}

// A pool that has been doubled has every string that it had before.
func TestPoolKeepsWhatItHas(t *testing.T) {
	p := &stringPool{}
	missesOf(p, 0, 30)
	had := slices.Clone(p.table)
	for range 3 {
		p.table = enlarged(p.table, func(s string) uint64 { return maphash.String(seed, s) })
		for _, s := range had {
			if s == "" {
				continue // an empty slot
			}
			if _, _, found := p.get([]byte(s)); !found {
				t.Fatalf("with %d slots it does not have %q", len(p.table), s)
			}
		}
	}
}
