package decode

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/go-lw/lw/internal/verify/leak"
)

// newTemplater returns a decoder that makes templates from the first object on.
func newTemplater[T any](t fataler, opts Options) *Decoder {
	d := newDecoder[T](t, opts)
	d.ReuseFrom(func(string, string) any { return nil })
	d.objects = templatesFrom
	return d
}

func forgetTemplates(d *Decoder) {
	d.templates, d.templateBytes = nil, 0
}

// makeNoTemplates has d believe that it has made all templates, and it has no credit for more.
func makeNoTemplates(d *Decoder) {
	d.templates = new([maxParts]templates)
	for i := range d.templates {
		d.templates[i].made = maxTemplates
	}
}

func spec(members string) []byte {
	return []byte(`{"kind":"Sink","metadata":{"name":"a"},"spec":{` + members + `}}`)
}

func specOf(t fataler, d *Decoder) *templates { return templatesFor(t, d, "spec") }

// templatesFor returns which of d's templates are those of the part of that name.
func templatesFor(t fataler, d *Decoder, name string) *templates {
	for i, f := range d.root.layout.parts {
		if f.name == name {
			return d.templatesOf(i)
		}
	}
	t.Fatalf("%s is no part", name)
	return nil
}

const bigSpec = `"inline":"in","refKind":"k","str":"s","named":"a-name","strP":"p","flag":true,"flagP":false,"I":1,"i8":-8,"u64":64,"f64":1.5,"bytes":"AAEC",` +
	`"quoted":"5","any":{"a":[1,"x"]},"number":3,"time":"2026-03-04T05:06:07Z","timeP":"2026-03-04T05:06:07Z","qty":"1Gi","qtyP":"100m","intStr":"http","portP":80,` +
	`"ext":{"kind":"E"},"fields":{"f:a":{}},"text":"t","sel":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"In","values":["v","w"]}]},` +
	`"strs":["x","y"],"labels":["l"],"structs":[{"refKind":"a","refUID":1},{"refName":"b","refUID":2}],"ptrs":[{"refKind":"c"},null],"deep":[[1,2],[3],[]],"array":[1,2],` +
	`"m":{"a":"b"},"mq":{"cpu":"1"},"ms":{"a":{"refKind":"d"}},"pp":7,"self":{"a":{"str":"x","ext":{"kind":"F"}}},"list":[{"str":"in a list","ptrs":[{"refUID":9}]}]`

// What a template makes of a value is what apimachinery makes of it. An error is the same as
// without templates, although a part of the object has been made by one. A template may have white
// space, and fits what has the same.
func TestTemplateFits(t *testing.T) {
	const spaced = `"str": "s", "strP":"p" ,"any" : {"a":[ 1]} ,"I": 1 , "portP":	80,"structs":[ {"refKind": "a"}, {} ] , "m": {"a":"b"}`
	plain := newDecoder[*sink](t, Options{})
	for name, change := range map[string]struct {
		from, to string
		fits     bool
	}{
		"nothing":                       {"", "", true},
		"a string":                      {`"p"`, `"another"`, true},
		"an empty string":               {`"p"`, `""`, true},
		"a string with an escape":       {`"p"`, `"\"\u00e9"`, true},
		"a longer number":               {`"I":1,`, `"I":12,`, true},
		"a shorter number":              {`"u64":64`, `"u64":6`, true},
		"a truth value":                 {`"flag":true`, `"flag":false`, true},
		"a time":                        {`"timeP":"2026`, `"timeP":"2025`, true},
		"a map":                         {`"m":{"a":"b"}`, `"m":{"b":"c","d":"e"}`, true},
		"any":                           {`[1,"x"]`, `{"b":null}`, true},
		"a value that is raw":           {`{"kind":"E"}`, `[ 1, 2]`, true},
		"fields":                        {`{"f:a":{}}`, `{"f:b":{"f:c":{}}}`, true},
		"as deep as may be":             {`{"a":[1,"x"]}`, arrays(maxDepth - 2), true},
		"too deep":                      {`{"a":[1,"x"]}`, arrays(maxDepth - 1), false},
		"a value in a map":              {`{"kind":"F"}`, `{"kind":"another"}`, true},
		"an element":                    {`"refName":"b"`, `"refName":"c"`, true},
		"an element of strings":         {`["x","y"]`, `["x","z"]`, true},
		"a value in a pointer":          {`"refUID":9`, `"refUID":10`, true},
		"a null in a pointer":           {`"portP":80`, `"portP":null`, false},
		"a null for fields":             {`"fields":{"f:a":{}}`, `"fields":null`, false},
		"another sort":                  {`"intStr":"http"`, `"intStr":5`, false},
		"a null":                        {`"str":"s"`, `"str":null`, false},
		"an element more":               {`"strs":["x","y"]`, `"strs":["x","y","z"]`, false},
		"an element less":               {`"strs":["x","y"]`, `"strs":["x"]`, false},
		"another name":                  {`"inline"`, `"own"`, false},
		"a member more":                 {`"u64":64`, `"u64":64,"u32":32`, false},
		"white space":                   {`"u64":64`, `"u64": 64`, false},
		"an overflow":                   {`"i8":-8`, `"i8":300`, false},
		"no quantity":                   {`"1Gi"`, `"1Xi"`, false},
		"no JSON":                       {`"str":"s"`, `"str":"s`, false},
		"no JSON in what is any":        {`[1,"x"]`, `[1,"x"}`, false},
		"a name that comes twice":       {`"u64":64`, `"u64":64,"u64":65`, false},
		"a number that goes wrong":      {`"I":1,`, `"I":1.5,`, false},
		"no number in an element":       {`"refUID":2`, `"refUID":true`, false},
		"no integer in a pointer":       {`"refUID":9`, `"refUID":1e1`, false},
		"a number in a map":             {`"m":{"a":"b"}`, `"m":{"a":1}`, false},
		"no time":                       {`"timeP":"2026`, `"timeP":"x`, false},
		"no bytes":                      {`"AAEC"`, `"A"`, false},
		"no string in a map":            {`"ms":{"a":{"refKind":"d"}}`, `"ms":{"a":{"refKind":1}}`, false},
		"spaced":                        {``, ``, true},
		"spaced: a string":              {`"s"`, `"another"`, true},
		"spaced: behind a string":       {`"p" `, `"q" `, true},
		"spaced: none behind a string":  {`"p" ,`, `"q",`, false},
		"spaced: a number":              {`: 1 `, `: 12 `, true},
		"spaced: a number behind a tab": {`:	80`, `:	8080`, true},
		"spaced: any":                   {`[ 1]`, `[1,{}]`, true},
		"spaced: an element":            {`"a"}, {} `, `"b"}, {} `, true},
		"spaced: none behind an array":  {`{} ]`, `{}]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			base := bigSpec
			if strings.HasPrefix(name, "spaced") {
				base = spaced
			}
			d := newTemplater[*sink](t, Options{})
			checkSame(t, d, spec(base))
			ts := specOf(t, d)
			if len(ts.all) != 1 {
				t.Fatalf("%d templates", len(ts.all))
			}
			if !strings.Contains(base, change.from) {
				t.Fatal("nothing is changed")
			}
			credit, data := ts.credit, spec(strings.Replace(base, change.from, change.to, 1))
			checkSame(t, d, data)
			if fitted := ts.credit > credit; fitted != change.fits {
				t.Errorf("it fits: %v", fitted)
			}
			checkSame(t, d, spec(base))
			_, want := decodeOne(plain, data)
			if _, got := decodeOne(d, data); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
		})
	}
}

func arrays(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// A decoder of a few objects has no memory for templates.
func TestNoTemplateOfFewObjects(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	d.ReuseFrom(func(string, string) any { return nil })
	for d.objects < templatesFrom {
		if checkSame(t, d, spec(bigSpec)); d.objects < templatesFrom && d.templates != nil {
			t.Fatalf("templates at object %d", d.objects)
		}
	}
	if checkSame(t, d, spec(bigSpec)); d.templates == nil {
		t.Error("no templates at all")
	}
}

// With Share equal parts share memory, so templates are none.
func TestNoTemplateWithShare(t *testing.T) {
	d := newTemplater[*sink](t, Options{Share: true})
	for range 3 {
		checkSame(t, d, spec(bigSpec))
	}
	if ts := specOf(t, d); ts.made != 0 {
		t.Error("a template")
	}
}

// Servers write the members of an object of CBOR in another order each time.
func TestNoTemplateOfCBOR(t *testing.T) {
	d := newTemplater[*sink](t, Options{})
	var one map[string]any
	ok(t, unmarshal(spec(bigSpec), &one))
	list := map[string]any{"kind": "SinkList", "items": []any{one, one, one}}
	text := mustJSON(t, list)
	for _, c := range []struct {
		enc  Encoding
		data []byte
		want int
	}{{CBOR, mustCBOR(t, list), 0}, {JSON, text, 1}} {
		_, err := d.List(bytes.NewReader(c.data), c.enc, func(o Object) error { return o.Err })
		ok(t, err)
		if got := specOf(t, d).made; got != c.want {
			t.Errorf("encoding %d: %d templates were made, want %d", c.enc, got, c.want)
		}
	}
}

// Two blocks have less memory than one where the allocator would round up by much.
func TestSplit(t *testing.T) {
	word := int(reflect.TypeFor[*int]().Size())
	of := func(n int) blockArray { return blockArray{typ: reflect.TypeFor[*int](), n: n * 8 / word} }
	for _, tt := range []struct {
		arrays []blockArray
		want   int
	}{
		{nil, 0},
		{[]blockArray{of(10)}, 0},
		{[]blockArray{of(500), of(38)}, 1}, // 4096 and 320 bytes, not 4864
		{[]blockArray{of(250), of(261)}, 0},
	} {
		if got := split(tt.arrays); got != tt.want {
			t.Errorf("%v: %d", tt.arrays, got)
		}
	}
	for n := word; n < 8<<10; n += word {
		if got := cap(append([]*int(nil), make([]*int, n/word)...)) * word; roundedUp(n) != got && roundedUp(n)-8 != got {
			t.Errorf("%d bytes are rounded up to %d, want %d", n, roundedUp(n), got)
		}
	}
}

// Values of which a template could not say what others decode to are none.
func TestNoTemplate(t *testing.T) {
	long := `"str":"` + strings.Repeat("x", 2*minPattern) + `"`
	for name, members := range map[string]string{
		"a scalar twice":         `"I":1,"I":2`,
		"a string twice":         `"own":"a","own":"b"`,
		"a map twice":            `"m":{"a":"b"},"m":{"b":"c"}`,
		"a pointer twice":        `"strP":"a","strP":"b"`,
		"an array twice":         `"strs":["a"],"strs":["b"]`,
		"a pointer that is gone": `"strP":"a","strP":null`,
		"an array that is gone":  `"strs":["a"],"strs":null`,
		"what is not known":      `"unknown":1`,
		"too much memory":        `"list":[{}` + strings.Repeat(",{}", 100) + `]`,
	} {
		t.Run(name, func(t *testing.T) {
			d := newTemplater[*sink](t, Options{})
			for range 3 {
				checkSame(t, d, spec(long+","+members))
			}
			if ts := specOf(t, d); len(ts.all) != 0 {
				t.Error("a template")
			}
		})
	}
}

// Objects that were made by one template share no memory, and an append to a slice of one writes
// into no other value of it.
func TestTemplateSharesNothing(t *testing.T) {
	d := newTemplater[*sink](t, Options{})
	var all []any
	for range 4 {
		all = append(all, mustDecode[*sink](t, d, spec(bigSpec)))
	}
	if specOf(t, d).credit != 3 {
		t.Error("they were not made by a template")
	}
	owner := map[uintptr]int{}
	for i, o := range all {
		checkOwner(t, owner, i, o)
		s := o.(*sink).Spec
		checkDiff(t, "capacities", []int{2, 2, 2}, []int{cap(s.Strs), cap(s.Structs), cap(s.Ptrs)})
	}
	if len(owner) < 4*30 {
		t.Errorf("%d pieces of memory", len(owner))
	}
}

// checkOwner notes the memory of object i, and checks that no object before has a part of it.
func checkOwner(t *testing.T, owner map[uintptr]int, i int, o any) {
	t.Helper()
	visit(reflect.ValueOf(o), func(v reflect.Value) bool {
		switch v.Kind() {
		case reflect.Struct:
			return v.Type().PkgPath() != "unique" // all equal handles are one
		case reflect.Pointer, reflect.Map, reflect.Slice:
			// An empty slice has no memory of its own.
			if v.IsNil() || v.Kind() == reflect.Slice && v.Cap() == 0 || v.Type() == reflect.TypeFor[*time.Location]() {
				return false
			}
			if other, ok := owner[v.Pointer()]; ok && other != i {
				t.Fatalf("objects %d and %d share memory: a %v", other, i, v.Type())
			}
			owner[v.Pointer()] = i
		}
		return true
	})
}

// A part whose values have little in common makes few templates, and compares few values.
func TestTemplatesMustPay(t *testing.T) {
	d := newTemplater[*sink](t, Options{})
	ts := specOf(t, d)
	for i := range 1000 {
		checkSame(t, d, spec(`"str":"`+strings.Repeat("x", minPattern)+`","structs":[{}`+strings.Repeat(`,{}`, i%100)+`]`))
	}
	if ts.made > maxTemplates || len(ts.all) > maxTemplates {
		t.Errorf("%d templates were made, %d are left", ts.made, len(ts.all))
	}
	paused := 0
	for i := range 200 {
		checkSame(t, d, spec(`"str":"`+strings.Repeat("x", minPattern)+`","m":{},"structs":[{}`+strings.Repeat(`,{}`,
			i%100)+`]`))
		if ts.pauses > 0 {
			paused++
		}
	}
	if paused < 150 {
		t.Errorf("paused for %d of 200", paused)
	}
}

// Templates that fit earn another one, in the place of the one that fitted the longest time ago.
func TestTemplatesEarnOthers(t *testing.T) {
	d := newTemplater[*sink](t, Options{})
	ts := specOf(t, d)
	of := func(n int) []byte {
		return spec(`"str":"` + strings.Repeat("x", minPattern) + `","structs":[` + manyOf(n+1, `{}`) + `]`)
	}
	for i := range maxTemplates {
		checkSame(t, d, of(i))
	}
	for range templateCost {
		checkSame(t, d, of(0))
	}
	checkSame(t, d, of(maxTemplates))
	if ts.made != maxTemplates+1 || len(ts.all) != maxTemplates || ts.credit != 0 {
		t.Errorf("%d were made, %d are there, credit %d", ts.made, len(ts.all), ts.credit)
	}
	for _, i := range []int{0, maxTemplates} {
		credit := ts.credit
		if checkSame(t, d, of(i)); ts.credit != credit+1 {
			t.Errorf("there is no template of %d", i)
		}
	}
}

// The memory of all templates is bounded, and so is that of one.
func TestTemplatesAreBounded(t *testing.T) {
	d := newTemplater[*sink](t, Options{})
	sum := func() (n int) {
		for i := range maxParts {
			ts := d.templatesOf(i)
			for _, tt := range ts.all {
				n += tt.size
			}
		}
		return n
	}
	most := 0
	for i := range 300 {
		ts := specOf(t, d)
		ts.credit, ts.pauses = templateCost, 0
		checkSame(t, d, spec(`"str":"`+strings.Repeat("x", 100*i)+`","structs":[{}`+strings.Repeat(",{}", i)+`]`))
		most = max(most, len(ts.all))
		if got := sum(); got != d.templateBytes || got > maxTemplateBytes {
			t.Fatalf("%d bytes, noted as %d", got, d.templateBytes)
		}
	}
	if most != maxTemplates {
		t.Errorf("%d templates at most", most)
	}
}

// Where the memory of all templates is used up, none is added.
func TestTemplatesWithoutRoom(t *testing.T) {
	d := newTemplater[*sink](t, Options{})
	specOf(t, d)
	d.templateBytes = maxTemplateBytes - 10
	checkSame(t, d, spec(bigSpec))
	if ts := specOf(t, d); len(ts.all) != 0 || d.templateBytes != maxTemplateBytes-10 {
		t.Errorf("%d templates, %d bytes", len(ts.all), d.templateBytes)
	}
}

// A program has a bounded number of types of blocks, which it keeps for ever.
func TestShapesAreBounded(t *testing.T) {
	was := maps.Clone(shapes)
	defer func() { shapes = was }()
	shapes = map[string]reflect.Type{}
	of := func(n int) reflect.Type { return shapeOf([]blockArray{{typ: reflect.TypeFor[byte](), n: n}}) }
	for i := range maxShapes {
		if of(1+i) == nil {
			t.Fatalf("no shape %d", i)
		}
	}
	if of(1) == nil || of(maxShapes+1) != nil {
		t.Error("a shape that there is is none, or there are more")
	}
}

// An object that has come in part is decoded to its end, and is no reason to give up templates.
func TestTemplateOfCutObject(t *testing.T) {
	d := newTemplater[*sink](t, Options{})
	frame := `{"type":"ADDED","object":` + string(spec(bigSpec)) + "}\n"
	checkSame(t, d, spec(bigSpec))
	want := mustDecode[*sink](t, d, spec(bigSpec))
	cut := strings.Index(frame, `,"ms"`) // behind a brace, where the event may end
	score := specOf(t, d).score
	for range 20 {
		_ = d.WatchList(inPieces(frame[:cut], frame[cut:]), JSON, func(ev Event) error {
			if diff := cmp.Diff(fmt.Sprintf("%#v", want.Spec.List),
				fmt.Sprintf("%#v", ev.Object.Value.(*sink).Spec.List)); diff == "" {
				t.Error("the pointers are the same")
			}
			if !reflect.DeepEqual(want, ev.Object.Value) {
				t.Errorf("got %+v, want %+v", ev.Object.Value, want)
			}
			return nil
		})
	}
	if ts := specOf(t, d); ts.score != score || ts.pauses != 0 {
		t.Errorf("score %d, was %d", ts.score, score)
	}
}

// FuzzTemplate decodes two values, the second by a template of the first if it fits. Both are what
// apimachinery decodes, and the first is not changed by the second.
func FuzzTemplate(f *testing.F) {
	leak.Collect(f, time.Millisecond)
	f.Add(bigSpec, strings.Replace(bigSpec, `"s"`, `"\ud800"`, 1))
	f.Add(bigSpec, strings.Replace(bigSpec, `"I":1`, `"I":1e1`, 1))
	f.Add(bigSpec, strings.Replace(bigSpec, `"refUID":9`, `"refUID":null`, 1))
	f.Add(bigSpec+`,"own":"`+strings.Repeat("x", 64)+`"`, bigSpec+`,"own":"`+strings.Repeat("x", 63)+"\xff"+`"`)
	d := newTemplater[*sink](f, Options{})
	f.Fuzz(func(t *testing.T, first, second string) {
		forgetTemplates(d)
		var before any
		was := &sink{}
		for i, members := range []string{first, second, first, second} {
			checkSame(t, d, spec(members))
			switch {
			case i == 0:
				before, _ = decodeOne(d, spec(members))
				_ = unmarshal(spec(members), was)
			case before != nil && !reflect.ValueOf(before).IsNil():
				was.TypeMeta = before.(*sink).TypeMeta
				if !reflect.DeepEqual(was, before) {
					t.Fatalf("%s has changed %s", members, first)
				}
			}
		}
	})
}

// A pod of a list takes two thirds of the allocations that it takes without templates, or less.
func TestTemplateAllocations(t *testing.T) {
	allocations := func(d *Decoder) float64 {
		d.ReuseFrom(func(string, string) any { return nil })
		var pods [][]byte
		for i := range 400 {
			pods = append(pods, podJSON(i))
		}
		for _, data := range pods[:200] {
			mustDecode[*pod](t, d, data)
		}
		next := 200
		return testing.AllocsPerRun(150, func() {
			mustDecode[*pod](t, d, pods[next])
			next++
		})
	}
	with, without := newDecoder[*pod](t, Options{}), newDecoder[*pod](t, Options{})
	makeNoTemplates(without)
	if n, most := allocations(with), allocations(without)*2/3; n > most {
		t.Errorf("%v allocations, want at most %v", n, most)
	}
}

// templateValues are values of a spec's members: some fit a template of another, some are errors.
var templateValues = map[string][]string{
	"str":    {`""`, `"a"`, `"a string of some length"`, `"\u00e9\n"`, `null`, `1`},
	"named":  {`"b"`, `"c"`, `"` + strings.Repeat("long ", 40) + `"`},
	"strP":   {`"a"`, `"b"`, `null`},
	"flag":   {`true`, `false`, `null`},
	"flagP":  {`true`, `false`, `null`},
	"I":      {`0`, `1`, `12`, `-123456789012`, `1.5`, `null`},
	"i8":     {`1`, `-12`, `127`, `128`},
	"f64":    {`1`, `1.5`, `-1e30`, `"1"`},
	"bytes":  {`"AAEC"`, `"AQ=="`, `""`, `null`, `"A"`},
	"quoted": {`"1"`, `"12"`, `1`, `null`},
	"any":    {`1`, `"a"`, `{"a":[1,{"b":null}]}`, `[]`, `null`},
	"number": {`1`, `1.25`, `"2"`},
	"time":   {`"2026-03-04T05:06:07Z"`, `"2025-03-04T05:06:07+01:00"`, `null`, `"x"`},
	"timeP":  {`"2026-03-04T05:06:07Z"`, `"2025-03-04T05:06:07Z"`, `null`},
	"micro":  {`"2026-03-04T05:06:07.000001Z"`, `null`},
	"durM":   {`"1s"`, `"2m"`, `null`},
	"qty":    {`"1Gi"`, `"100m"`, `5`, `"0.123456789123456789123"`, `null`, `"x"`},
	"qtyP":   {`"1Gi"`, `"123456789012345678901234567890"`, `null`},
	"intStr": {`1`, `80`, `"http"`, `"x"`, `null`},
	"portP":  {`1`, `80`, `"http"`, `null`},
	"extP":   {`{"kind":"A"}`, `{}`, `[1]`, `null`},
	"fields": {`{"f:a":{}}`, `{"f:a":{"f:b":{}},"k:{\"a\":1}":{}}`, `{}`, `null`},
	"raw":    {`{"a":1}`, `"s"`, `12`, `1`, `null`},
	"text":   {`"a"`, `"b"`},
	"sel": {`{"matchLabels":{"a":"b"}}`, `{"matchLabels":{"a":"c","d":"e"}}`,
		`{"matchExpressions":[{"key":"k","operator":"In","values":["a","b"]}]}`, `{}`, `null`},
	"strs": {`["a","b"]`, `["b","c"]`, `["a"]`, `[]`, `null`, `["a",null]`},
	"structs": {`[{"refKind":"a","refUID":1},{}]`, `[{"refKind":"b","refUID":12},{}]`,
		`[{"refKind":"b","refUID":null},{}]`, `[{}]`, `null`},
	"ptrs":  {`[{"refName":"a"},null]`, `[{"refName":"b"},null]`, `[null,{"refName":"b"}]`, `[]`},
	"deep":  {`[[1,2],[3]]`, `[[4,5],[6]]`, `[[1],[2,3]]`, `[[],null]`},
	"array": {`[1,2]`, `[3]`, `null`},
	"m":     {`{"a":"b"}`, `{"c":"d","e":"f"}`, `{}`, `null`},
	"mq":    {`{"cpu":"1"}`, `{"cpu":"2","memory":"1Gi"}`},
	"ms":    {`{"a":{"refKind":"b"}}`, `{"c":{"refUID":5}}`},
	"pp":    {`1`, `12`, `null`},
	"self":  {`{"a":{"ext":{"a":1}}}`, `{"b":{"ext":[2],"str":"x"}}`},
	"list": {`[{"str":"a","portP":1}]`, `[{"str":"b","portP":"x"}]`, `[{"str":"c","list":[{"fields":{}}]}]`,
		`[{"str":"d","list":[{"fields":{"f:x":{}}}]}]`},
	"refName":    {`"a"`},
	"refKind":    {`"a"`, `"b"`},
	"inline":     {`"a"`, `"b"`},
	"unknown":    {`1`, `{"a":[]}`},
	"fla\\u0067": {`true`, `false`},
}

// A sequence of specs that have much in common is decoded as apimachinery decodes each.
func TestTemplateModel(t *testing.T) {
	names := slices.Sorted(maps.Keys(templateValues))
	d := newTemplater[*sink](t, Options{})
	rapid.Check(t, func(t *rapid.T) {
		forgetTemplates(d)
		chosen := rapid.SliceOfN(rapid.SampledFrom(names), 1, 12).Draw(t, "names")
		if rapid.Bool().Draw(t, "each once") {
			slices.Sort(chosen)
			chosen = slices.Compact(chosen)
		}
		values := map[int]string{}
		for range rapid.IntRange(2, 12).Draw(t, "objects") {
			var b strings.Builder
			b.WriteString(`"own":"` + strings.Repeat("x", minPattern) + `"`)
			for i, name := range chosen {
				if values[i] == "" || rapid.IntRange(0, 3).Draw(t, "changes") == 0 {
					values[i] = rapid.SampledFrom(templateValues[name]).Draw(t, name)
				}
				b.WriteString(`,"` + name + `":` + values[i])
			}
			checkSame(t, d, spec(b.String()))
		}
	})
}
