package lz

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// text is JSON of one shape, as the objects of a collection are.
func text(i int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"name":"web-%05d","namespace":"default","uid":"%032x","resourceVersion":"%d",`+
		`"labels":{"app.kubernetes.io/name":"web","pod-template-hash":"7d4b9c"}},"spec":{"containers":[{"name":"web","image":"registry/web:%d",`+
		`"resources":{"limits":{"cpu":"500m","memory":"128Mi"}}}],"nodeName":"node-%03d"},"status":{"phase":"Running","podIP":"10.0.%d.%d"}}`,
		i, i*i, i*7, i%9, i%300, i/250, i%250)
}

func samples(n int) (out []byte) {
	for i := range n {
		out = append(out, text(i)...)
	}
	return out
}

func roundTrip(t testing.TB, d *Dict, src []byte) []byte {
	t.Helper()
	packed := d.Pack([]byte("before"), src)
	if !bytes.HasPrefix(packed, []byte("before")) {
		t.Fatal("Pack does not append")
	}
	packed = packed[len("before"):]
	got, err := d.Unpack([]byte("and"), string(packed), len(src))
	if err != nil {
		t.Fatalf("%d bytes: %v", len(src), err)
	}
	if string(got) != "and"+string(src) {
		t.Fatalf("%d bytes came back as others", len(src))
	}
	return packed
}

// Every text comes back, whatever the dictionary is: the empty one, long matches that overlap
// themselves, texts longer than the window, and random bytes.
func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, 100_000)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	dicts := map[string]*Dict{"none": New(nil), "short": New([]byte("12345")), "like": New(samples(40)),
		"too long": New(samples(400)), "random": New(random)}
	for name, d := range dicts {
		for _, src := range [][]byte{
			nil, {0}, []byte("short"), text(1000), samples(3), samples(500), random, random[:7], random[:8], random[:9],
			bytes.Repeat([]byte{'a'}, 100_000), bytes.Repeat([]byte("ab"), 50),
			[]byte(strings.Repeat("x", 15) + strings.Repeat("12345678", 40)),
			append(bytes.Clone(random[:70_000]), random[:70_000]...), append(samples(10), random[:300]...),
		} {
			roundTrip(t, d, src)
		}
		for range 2000 { // pieces of what it knows, in any order
			var src []byte
			for range rng.IntN(6) {
				from := [][]byte{random, samples(20), d.text}[rng.IntN(3)]
				if len(from) > 0 {
					at := rng.IntN(len(from))
					src = append(src, from[at:at+rng.IntN(min(len(from)-at, 700)+1)]...)
				}
			}
			roundTrip(t, d, src)
		}
		_ = name
	}
}

// An object that is like those of the dictionary is packed to its differences.
func TestRatio(t *testing.T) {
	d := New(samples(120))
	in, out := 0, 0
	for i := 5000; i < 5100; i++ {
		in += len(text(i))
		out += len(roundTrip(t, d, text(i)))
	}
	if out*4 > in {
		t.Errorf("%d bytes are packed to %d", in, out)
	}
	random := make([]byte, 10_000)
	rand.NewChaCha8([32]byte{}).Read(random)
	if n := len(roundTrip(t, d, random)); n > len(random)+len(random)/100+8 {
		t.Errorf("%d random bytes became %d", len(random), n)
	}
}

// One Dict is used by many goroutines.
func TestConcurrent(t *testing.T) {
	d := New(samples(100))
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 300 {
				src := text(1000*g + i)
				got, err := d.Unpack(nil, string(d.Pack(nil, src)), len(src))
				if err != nil || !bytes.Equal(got, src) {
					t.Errorf("object %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// A text that stays the same is packed and unpacked without memory of its own.
func TestAllocations(t *testing.T) {
	d, src := New(samples(100)), text(9999)
	packed := d.Pack(nil, src)
	if len(packed) == 0 {
		t.Fatal("nothing was packed")
	}
	dst, s := make([]byte, 0, len(src)), string(packed)
	if n := testing.AllocsPerRun(100, func() { _, _ = d.Unpack(dst, s, len(src)) }); n != 0 {
		t.Errorf("Unpack makes %v allocations", n)
	}
}

// What is not packed is an error, and no panic; and bytes that are cut off are.
func TestCorrupt(t *testing.T) {
	d, src := New(samples(40)), text(77)
	packed := string(d.Pack(nil, src))
	for n := range len(packed) {
		if _, err := d.Unpack(nil, packed[:n], len(src)); err == nil {
			t.Fatalf("%d of %d bytes are no error", n, len(packed))
		}
	}
	for _, size := range []int{0, 1, len(src) - 1, len(src) + 1} {
		if _, err := d.Unpack(nil, packed, size); err == nil {
			t.Errorf("%d bytes in the place of %d are no error", size, len(src))
		}
	}
	if _, err := d.Unpack(nil, packed+"x", len(src)); err == nil {
		t.Error("what is behind the end is no error")
	}
}

// FuzzPack: whatever the dictionary and the text are, the text comes back.
func FuzzPack(f *testing.F) {
	f.Add(samples(2), text(3))
	f.Add([]byte{}, []byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"))
	f.Add(text(1), append(text(2), text(1)...))
	f.Fuzz(func(t *testing.T, dict, src []byte) { roundTrip(t, New(dict), src) })
}

// FuzzUnpack: bytes of any kind are read without a panic, and never to more than was asked for.
func FuzzUnpack(f *testing.F) {
	f.Add(samples(2), New(samples(2)).Pack(nil, text(3)), len(text(3)))
	f.Add([]byte{}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 5000)
	f.Add([]byte{}, []byte{0x01, 0, 0, 0}, 100)
	f.Fuzz(func(t *testing.T, dict, src []byte, size int) {
		size = max(0, min(size, 1<<20))
		out, err := New(dict).Unpack(nil, string(src), size)
		if len(out) > size || err == nil && len(out) != size {
			t.Errorf("%d bytes in the place of %d: %v", len(out), size, err)
		}
	})
}

func BenchmarkPack(b *testing.B) {
	d, src := New(samples(120)), samples(12)
	b.SetBytes(int64(len(src)))
	var dst []byte
	for b.Loop() {
		dst = d.Pack(dst[:0], src)
	}
}

func BenchmarkUnpack(b *testing.B) {
	d, src := New(samples(120)), samples(12)
	packed := string(d.Pack(nil, src))
	b.SetBytes(int64(len(src)))
	var dst []byte
	for b.Loop() {
		dst, _ = d.Unpack(dst[:0], packed, len(src))
	}
}
