package decode

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"pgregory.net/rapid"
)

// Values that were allocated in one piece are independent: objects stay as they were decoded while
// others are decoded, and an append to one slice does not write into the next one.
func TestBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDecoder[*sink](t, Options{})
		var got, want []any
		few := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return genSpec(t, 2) }), 1, 3).Draw(t, "specs")
		for range 12 {
			data := []byte(`{"metadata":{"name":"a"},"spec":` + rapid.SampledFrom(few).Draw(t, "spec") + `}`)
			v, err := decodeOne(d, data)
			if err != nil {
				continue
			}
			checkFull(t, v)
			w := &sink{}
			ok(t, unmarshal(data, w))
			w.TypeMeta = metav1.TypeMeta{}
			got, want = append(got, v), append(want, w)
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatal(cmp.Diff(fmt.Sprintf("%#v", want), fmt.Sprintf("%#v", got)))
		}
	})
}

// The same in protobuf, with a different number of values in each object.
func TestBatchesOfMessages(t *testing.T) {
	for _, share := range []bool{false, true} {
		d := newDecoder[*carp.Carp](t, Options{Share: share})
		var got, want []any
		for i := range 100 {
			c := newCarp(i)
			few := i / 4 * 7
			c.OwnerReferences = slices.Repeat(c.OwnerReferences, few%5)
			c.ManagedFields = slices.Repeat(c.ManagedFields, few%3)
			c.Status.Conditions = slices.Repeat(c.Status.Conditions, few%4)
			c.Status.Infos = slices.Repeat(c.Status.Infos, few%6)
			data := mustMarshal(t, c)
			g, w := decodeCarp(t, d, "protobuf", data)
			checkFull(t, g)
			got, want = append(got, g), append(want, w)
		}
		checkDiff(t, fmt.Sprintf("share %v", share), want, got)
	}
}

// checkFull checks that no slice of structs in v has a capacity beyond its length.
func checkFull(t fataler, v any) {
	visit(reflect.ValueOf(v), func(v reflect.Value) bool {
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct && v.Cap() > v.Len() {
			t.Fatalf("%v of %d has room for %d", v.Type(), v.Len(), v.Cap())
		}
		return true
	})
}

// An allocator stops to make batches if the objects differ much in their number of values.
func TestBatchesGiveUp(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	m := newBatchAllocator(reflect.TypeFor[Reference]())
	unused := 0
	for i := range 20 * trialLength {
		d.objects++
		for range 1 + 30*(i/2%2) { // 1 1 31 31 1 1 …
			m.take(d, 1)
		}
		unused += m.spare.len
	}
	if most := 20 * trialLength * 16 / wasteDivisor; unused > most {
		t.Errorf("%d values were made in vain, want no more than %d", unused, most)
	}
}

// A batch has as many values as both of the two objects before took, or as a sibling took that was
// the last object.
func TestBatchesGuess(t *testing.T) {
	type object struct {
		n     int    // values
		after uint64 // as many objects as the one before that had values
		want  int    // values of the batch
	}
	for name, objects := range map[string][]object{
		"others":   {{10, 1, 1}, {10, 1, 1}, {10, 1, 10}, {100, 1, 10}, {10, 1, 10}, {3, 1, 10}, {10, 1, 3}, {10, 2, 3}},
		"siblings": {{3, 1, 1}, {10, 1, 3}, {10, 2, 3}, {10, 1, 10}},
	} {
		d := newDecoder[*sink](t, Options{})
		if name == "siblings" {
			d.generateName = "a-"
			d.last.object = pointerTo(&sink{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}})
		}
		m := newBatchAllocator(reflect.TypeFor[Reference]())
		for i, o := range objects {
			d.objects += o.after
			m.take(d, 1)
			if got := m.spare.len + 1; got != o.want {
				t.Errorf("%s: object %d has a batch of %d, want %d", name, i, got, o.want)
			}
			for range o.n - 1 {
				m.take(d, 1)
			}
		}
	}
}

// The values of an object are one piece if the object before had the same generated name, however
// many the objects before had.
func TestBatchesOfKin(t *testing.T) {
	allocations := func(generateName string) float64 {
		d := newDecoder[*sink](t, Options{})
		d.ReuseFrom(func(string, string) any { return nil })
		makeNoTemplates(d)
		i := 0
		next := func() {
			n := []int{2, 40, 20}[i/3%3]
			meta := ""
			if generateName != "" {
				meta = fmt.Sprintf(`"generateName":"%s-%d-",`, generateName, i/3)
			}
			data := `{"metadata":{` + meta + `"name":"a"},"spec":{"ptrs":[` + manyOf(n+1, `{"refKind":"a"}`) + `]}}`
			got := mustDecode[*sink](t, d, []byte(data))
			if len(got.Spec.Ptrs) != n+1 || got.Spec.Ptrs[n].Kind != "a" {
				t.Fatalf("%d elements of %d", len(got.Spec.Ptrs), n+1)
			}
			i++
		}
		for range 2 * trialLength {
			next()
		}
		return testing.AllocsPerRun(90, next)
	}
	if siblings, others := allocations("app"), allocations(""); siblings > others*3/4 {
		t.Errorf("%v allocations, and %v without a generated name", siblings, others)
	}
}

// A quantity that was decoded before is equal to the first one, and shares no memory with it.
func TestQuantityTwice(t *testing.T) {
	one := resource.MustParse("1")
	for _, in := range []string{`"250m"`, `"1Gi"`, `2`, `null`, `" 3 "`, `""`, `"x"`,
		`"123456789012345678901234567890"`, `"0.5"`} {
		var q quantityPool
		for i := range 3 {
			var got, want resource.Quantity
			err := q.decode([]byte(in), pointerTo(&got), (*resource.Quantity).UnmarshalJSON)
			if wantErr := want.UnmarshalJSON([]byte(in)); (err == nil) != (wantErr == nil) {
				t.Fatalf("%s: error %v, want %v", in, err, wantErr)
			}
			if got.Cmp(want) != 0 || got.String() != want.String() || got.Format != want.Format {
				t.Errorf("%s, try %d: %v, want %v", in, i, &got, &want)
			}
			got.Add(one)
		}
	}
}

// A string is guessed from the one before it in its field. One that has an escape must not be.
func TestGuessStrings(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	raw := []string{`"a"`, `"ab"`, `"\u0061"`, `"a\"b"`, `"a\\"`, `"a\\","str":"b"`, "\"\xff\"", `"\ufffd"`, "\"\ufffd\"",
		`"é"`, `"\n"`, "\"\n\"", `"a`, `null`, `""`, ` "a" `, `1`}
	for s := range inTurn(raw, "ababb") {
		checkSame(t, d, []byte(`{"metadata":{"name":"a"},"spec":{"str":`+s+`,"strs":[`+s+`,`+s+`],"m":{"k":`+s+`}}}`))
		if strings.HasPrefix(s, `"`) && strings.Count(s, ":") == 0 {
			checkSame(t, d, []byte(`{"metadata":{"name":"a"},"spec":{"m":{`+s+`:"v","z":"y",`+s+`:"w"}}}`))
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
	if sameMemory(mustDecode[*pod](t, d, []byte(long)).Name,
		mustDecode[*pod](t, d, []byte(strings.Replace(long, "x", "y", 1))).Name) {
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
	checkDiff(t, "slots of busy pools", []int{mostSlots, mostSlots}, []int{len(p.table), len(boxed.table)})
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

// The memory of a large object is given back, because a Decoder lives as long as its source.
func TestWorkingMemoryIsGivenBack(t *testing.T) {
	const n = 1 << 17
	many := func(one string) string { return manyOf(n, one) }
	pairs := func(value string) string { return membersOf(n/4, value) }
	spec := func(spec string) string {
		return `{"kind":"Sink","apiVersion":"v1","metadata":{"name":"a"},"spec":` + spec + `}`
	}
	big := newCarp(1)
	for range n {
		big.Finalizers = append(big.Finalizers, "some finalizer")
	}
	big.Labels["large"] = strings.Repeat("x", 16*n)
	sinks, carps, untyped := reflect.TypeFor[*sink](), reflect.TypeFor[*carp.Carp](),
		reflect.TypeFor[*unstructured.Unstructured]()
	for name, tt := range map[string]struct {
		typ  reflect.Type
		data string
	}{
		"untyped elements": {untyped, spec(`[` + many("0") + `]`)},
		"untyped members":  {untyped, spec(`{` + pairs("{}") + `}`)},
		"strings":          {sinks, spec(`{"strs":[` + many(`"a"`) + `]}`)}, "structs": {sinks,
			spec(`{"list":[` + many(`{}`)[:3*n/16-1] + `]}`)}, "a map": {sinks, spec(`{"m":{` + pairs(`"a"`) + `}}`)},
		"a string": {sinks, spec(`{"str":"` + strings.Repeat("xxxxxxxx", n) + `\n"}`)}, "no more than a large one": {sinks,
			spec(`{"unknown":"` + strings.Repeat("xxxxxxxx", n) + `"}`)},
		"structs by the thousand": {sinks, spec(`{"list":[` + many(`{}`)[:3*1000-1] + `],"structs":[` +
			many(`{}`)[:3*1000-1] + `],"self":{"a":{"list":[` + many(`{}`)[:3*1000-1] + `]}}}`)},
		"protobuf": {carps, string(protobufOf(t, big))},
	} {
		for _, live := range []bool{false, true} {
			d := decoderOf(t, tt.typ, Options{Workers: -1})
			small, large, enc := spec(`{"str":"x\n","strs":["a"],"m":{"a":"b"},"list":[{}]}`), tt.data, JSON
			frame := func(data string) io.Reader { return strings.NewReader(`{"type":"ADDED","object":` + data + "}\n") }
			if tt.typ == carps {
				enc, small = Protobuf, string(protobufOf(t, newCarp(1)))
				frame = func(data string) io.Reader { return bytes.NewReader(frameOf(t, "ADDED", []byte(data))) }
			}
			// after is called when data has been read, and while the next event is awaited if live.
			read := func(data string, after func()) {
				rs := []io.Reader{frame(data)}
				if live {
					// The last event comes together with the start of a small one. Both are in one
					// piece of memory.
					rs = append(rs, frame(small), readFunc(func([]byte) (int, error) { after(); return 0, io.EOF }))
				}
				if err := d.Watch(io.MultiReader(rs...), enc, func(Event) error { return nil }); err != nil {
					t.Error(err)
				}
				if !live {
					after()
				}
			}
			var before uint64
			for range 2 {
				read(small, func() {})
			}
			read(small, func() { before = heapNow() })
			read(large, func() {
				if after := heapNow(); after > before+1<<20 {
					t.Errorf("%s, live %v: %d bytes are kept after an object of %d", name, live, after-before, len(large))
				}
			})
			runtime.KeepAlive(d)
			runtime.KeepAlive(large)
		}
	}
}

// The items behind a large one in a list do not keep its bytes alive.
func TestListBufferIsGivenBack(t *testing.T) {
	large := `{"metadata":{"name":"` + strings.Repeat("x", 4<<20) + `"}}`
	list := `{"kind":"SinkList","items":[` + large + `],"metadata":{"resourceVersion":"1"}}`
	d := newDecoder[*sink](t, Options{Workers: -1})
	if _, err := d.List(strings.NewReader(list), JSON, func(Object) error { return nil }); err != nil || d.p.data != nil ||
		d.buf.data != nil {
		t.Errorf("error %v; %d bytes of the parser and %d of the buffer are kept", err, cap(d.p.data), cap(d.buf.data))
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

const initialEventsEnd = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"

// kept is the memory that d has while it awaits an event.
func kept(d *Decoder) int {
	const header = int(unsafe.Sizeof(""))
	n := cap(d.buf.data) + cap(d.p.data) + cap(d.p.scratch)
	n += header * (len(d.strings.table) + len(d.boxed.table))
	for _, f := range []*stringField{&d.kinds[0], &d.kinds[1], &d.eventTypes} {
		if f.seen != nil {
			n += int(unsafe.Sizeof(*f.seen))
		}
	}
	n += d.patternBytes + d.templateBytes + 8*cap(d.maps.seen)
	return n + cap(d.pairStack)*int(unsafe.Sizeof(pair{})) + cap(d.stringStack)*header
}

// A decoder that awaits the next event keeps little, and nothing that it read the list into.
func TestIdleDecoderKeepsLittle(t *testing.T) {
	event := func(name string) string {
		return `{"type":"ADDED","object":{"kind":"Sink","apiVersion":"v1","metadata":{"name":"` + name +
			`","resourceVersion":"1"},"spec":{"str":"` + strings.Repeat("x", 2000) + `"}}}` + "\n"
	}
	for name, tt := range map[string]struct {
		events string
		watch  func(d *Decoder, r io.Reader, enc Encoding, yield func(Event) error) error
		most   int
	}{
		"a streamed list": {event("a") + initialEventsEnd, (*Decoder).WatchList, idleBuffer + 100},
		"of 20 objects":   {strings.Repeat(event("a"), 20) + initialEventsEnd, (*Decoder).WatchList, idleBuffer + 100},
		"a watch":         {"", (*Decoder).Watch, idleBuffer + 100},
		"of one event":    {event("a"), (*Decoder).Watch, 8 << 10},
	} {
		d := newDecoder[*unstructured.Unstructured](t, Options{Workers: -1})
		awaited := false
		r := io.MultiReader(strings.NewReader(tt.events), readFunc(func([]byte) (int, error) {
			awaited = true
			if n := kept(d); n > tt.most {
				t.Errorf("%s: %d bytes are kept, %d of them in the buffer and %d in the parser; want at most %d", name, n,
					cap(d.buf.data), cap(d.p.data), tt.most)
			}
			return 0, io.EOF
		}))
		if err := tt.watch(d, r, JSON, func(Event) error { return nil }); err != nil || !awaited {
			t.Errorf("%s: error %v, awaited %v", name, err, awaited)
		}
	}
}

// A watch that waits has no templates, and the objects that come then make others.
func TestIdleDecoderKeepsNoTemplates(t *testing.T) {
	d := newTemplater[*sink](t, Options{})
	event := append(append([]byte(`{"type":"ADDED","object":`), spec(bigSpec)...), "}\n"...)
	made := func() bool { return d.templates != nil && specOf(t, d).made > 0 }
	r := io.MultiReader(strings.NewReader(strings.Repeat(string(event), 3)+initialEventsEnd),
		readFunc(func([]byte) (int, error) {
			if d.templates != nil || d.templateBytes != 0 {
				t.Errorf("templates of %d bytes are kept", d.templateBytes)
			}
			return 0, io.EOF
		}))
	n := 0
	if err := d.WatchList(r, JSON, func(ev Event) error {
		if n++; ev.Type == "ADDED" && !made() {
			t.Error("no template is made of initial events")
		}
		return nil
	}); err != nil || n != 4 {
		t.Errorf("%d events, error %v", n, err)
	}
	for range 2 {
		checkSame(t, d, spec(bigSpec))
	}
	if specOf(t, d).credit == 0 {
		t.Error("no template is made again")
	}
}

// The buffer of a watch grows if more comes than it has room for, so that events that come together
// are seen together, and not if events come one by one.
func TestWatchBufferGrows(t *testing.T) {
	event := `{"type":"ADDED","object":` + sinkA + "}\n"
	for _, busy := range []bool{false, true} {
		d := newDecoder[*sink](t, Options{})
		n, want, cut := 0, idleBuffer, cuts["one by one"]
		if busy {
			want, cut = watchBuffer, cuts["all together"]
		}
		ok(t, d.Watch(&piecewise{[]byte(strings.Repeat(event, 1000)), cut}, JSON, func(Event) error {
			if n++; n > 100 && cap(d.buf.data) != want {
				t.Errorf("busy %v: %d bytes of buffer at event %d, want %d", busy, cap(d.buf.data), n, want)
				return io.EOF
			}
			return nil
		}))
	}
}
