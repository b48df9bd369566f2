package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// A form is a way in which a client wants its answers.
type form struct {
	name, accept string
	list         string   // what a client accepts that wants a list
	types        []string // the media types of an answer and of a watch
	kind         string   // of an object; "": that of the resource
}

func (f form) kindOr(own string) string {
	if f.kind != "" {
		return f.kind
	}
	return own
}

const asPartialList = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

var protobufForm = form{"protobuf", proto, proto, []string{proto, proto + ";stream=watch"}, ""}

var forms = []form{
	{"JSON", "application/json", "application/json", []string{"application/json", "application/json"}, ""},
	{"CBOR", "application/cbor", "application/cbor", []string{"application/cbor", "application/cbor-seq"}, ""},
	protobufForm,
	{"JSON metadata", "application/json" + asPartial, "application/json" + asPartialList,
		[]string{"application/json", "application/json"}, partialKind},
	{"CBOR metadata", "application/cbor" + asPartial, "application/cbor" + asPartialList,
		[]string{"application/cbor", "application/cbor-seq"}, partialKind},
	{"protobuf metadata", proto + asPartial, proto + asPartialList, []string{proto, proto + ";stream=watch"}, partialKind},
	{"table", asTable, asTable, []string{"application/json", "application/json"}, "Table"},
}

const (
	partialKind = "meta.k8s.io/v1 PartialObjectMetadata"
	noteKind    = "example.io/v1 Note"
)

// An answer is an object, a list, a table or a Status, in whatever form it came.
type answer struct {
	Kind, APIVersion string
	Metadata         struct {
		metav1.ObjectMeta
		Continue           string
		RemainingItemCount *int64
	}
	Code, Size int
	Items      []answer
	Rows       []struct{ Object answer }
}

// decode reads an answer.
func (f form) decode(data []byte) (a answer, err error) {
	switch {
	case strings.HasPrefix(f.name, "protobuf"):
		rest, ok := bytes.CutPrefix(data, []byte("k8s\x00"))
		var envelope runtime.Unknown
		if err := envelope.Unmarshal(rest); err != nil || !ok {
			return a, fmt.Errorf("no envelope: %v: %.200q", err, data)
		}
		var object interface{ Unmarshal([]byte) error } = new(metav1.PartialObjectMetadata)
		switch kind := envelope.Kind; {
		case kind == "Status":
			object = new(metav1.Status)
		case strings.HasSuffix(kind, "List"):
			object = new(metav1.PartialObjectMetadataList)
		}
		if err := object.Unmarshal(envelope.Raw); err != nil {
			return a, err
		}
		data, err = json.Marshal(object)
		defer func() { a.Kind, a.APIVersion = envelope.Kind, envelope.APIVersion }()
	case strings.HasPrefix(f.name, "CBOR"):
		var content map[string]any
		if err := direct.Unmarshal(data, &content); err != nil {
			return a, fmt.Errorf("%w: %.200q", err, data)
		}
		data, err = json.Marshal(content)
	}
	if err = errors.Join(err, json.Unmarshal(data, &a)); err != nil {
		err = fmt.Errorf("%w: %.200q", err, data)
	}
	return a, err
}

// must is decode of what has no error.
func (f form) must(t *testing.T, data []byte) answer {
	t.Helper()
	a, err := f.decode(data)
	if err != nil {
		t.Fatalf("%s: %v", f.name, err)
	}
	return a
}

// tell says all that an answer says of objects, without the kind; that it wants to be kind.
func (a *answer) tell(t *testing.T, kind string) []string {
	t.Helper()
	m := &a.Metadata
	if a.Kind == "Table" {
		var all []string
		for i := range a.Rows {
			all = append(all, a.Rows[i].Object.tell(t, partialKind)...)
		}
		return all
	}
	if list, ok := strings.CutSuffix(a.Kind, "List"); ok {
		all := make([]string, 0, len(a.Items))
		for i := range a.Items {
			item := &a.Items[i]
			if item.Kind == "" && item.APIVersion == "" { // in a list of protobuf objects have no kind
				item.Kind, item.APIVersion = list, a.APIVersion
			}
			all = append(all, item.tell(t, kind)...)
		}
		return all
	}
	rig.Same(t, "kind of an object", kind, a.APIVersion+" "+a.Kind)
	return []string{string(rig.Must[[]byte](t)(json.Marshal(&m.ObjectMeta)))}
}

// head says what an answer says of itself.
func (a *answer) head() string {
	m := &a.Metadata
	left := "?"
	if m.RemainingItemCount != nil {
		left = strconv.FormatInt(*m.RemainingItemCount, 10)
	}
	return fmt.Sprintf("version %s, more %t, left %s", m.ResourceVersion, m.Continue != "", left)
}

// get asks for something in a form, and checks what the headers say of the answer.
func (b *bubble) get(f form, accept, path string) (code int, a answer) {
	b.t.Helper()
	resp := b.send(b.ctx, "GET", path, "", "Accept", accept)
	data := bodyOf(b.t, resp)
	if resp.StatusCode != http.StatusOK { // see TestStatuses
		return resp.StatusCode, a
	}
	if got := resp.Header.Get("Content-Type"); got != f.types[0] || resp.ContentLength != int64(len(data)) {
		b.t.Errorf("%s: %s: the answer is %q of %d bytes, want %q of %d", f.name, path, got, resp.ContentLength,
			f.types[0], len(data))
	}
	return resp.StatusCode, f.must(b.t, data)
}

// list is a list in JSON.
func (b *bubble) list(query string) answer {
	b.t.Helper()
	return forms[0].must(b.t, []byte(b.answers(http.StatusOK, "", "GET", path+query, "")))
}

// An eventOf is an event of a watch, with its object as it came. An error has no object.
type eventOf struct {
	typ    string
	object []byte
}

// events opens a watch in a form, and returns what returns the events of so far. The last one has
// no type when the watch has ended.
func (b *bubble) events(f form, path string) func() []eventOf {
	b.t.Helper()
	resp := b.send(b.ctx, "GET", path, "", "Accept", f.accept)
	if got := resp.Header.Get("Content-Type"); got != f.types[1] || resp.StatusCode != http.StatusOK {
		b.t.Fatalf("%s: the watch has the code %d, and is %q, want %q", f.name, resp.StatusCode, got, f.types[1])
	}
	came := make(chan eventOf, 100)
	go func() {
		defer close(came)
		defer resp.Body.Close()
		next := eventReader(f.types[1], bufio.NewReader(resp.Body))
		for {
			ev, err := next()
			if err != nil {
				if err != io.EOF && b.ctx.Err() == nil {
					came <- eventOf{typ: err.Error()}
				}
				return
			}
			came <- ev
		}
	}()
	return func() (all []eventOf) {
		synctest.Wait()
		for {
			select {
			case ev, ok := <-came:
				all = append(all, ev)
				if !ok {
					return all
				}
				if ev.object == nil {
					b.t.Fatalf("%s: %s", f.name, ev.typ)
				}
			default:
				return all
			}
		}
	}
}

// open opens a watch in a form, and returns what tells the events of so far.
func (b *bubble) open(f form, path string, kind string) func() []string {
	b.t.Helper()
	events := b.events(f, path)
	return func() (all []string) {
		for _, ev := range events() {
			if ev.typ == "" {
				return append(all, "END")
			}
			a := f.must(b.t, ev.object)
			if ev.typ == "BOOKMARK" {
				end := len(a.Metadata.Annotations)
				for _, row := range a.Rows {
					end += len(row.Object.Metadata.Annotations)
				}
				all = append(all, fmt.Sprintf("BOOKMARK %s %t", a.Metadata.ResourceVersion, end > 0))
				continue
			}
			for _, told := range a.tell(b.t, kind) {
				if version := `"resourceVersion":"` + a.Metadata.ResourceVersion + `"`; !strings.Contains(told, version) {
					b.t.Errorf("%s: an event of an object has %s: %s", f.name, version, told)
				}
				all = append(all, ev.typ+" "+told)
			}
		}
		return all
	}
}

// Whatever is served, in whatever form a client wants it, each answer says the same: of one object,
// of a list, of each page of a list, and of each event of a watch.
func TestForms(t *testing.T) {
	none := map[string]bool{}
	for _, tt := range []struct {
		name    string
		own     bool            // the versions are made here
		without map[string]bool // forms that cannot be had
		serve   func(b *bubble, m *lw.Memory[*Note], test func(b *bubble))
	}{
		{"Memory", false, none, func(b *bubble, m *lw.Memory[*Note], test func(*bubble)) { test(b) }},
		{"relay", false, none, func(b *bubble, m *lw.Memory[*Note], test func(*bubble)) {
			b.beside(func(r *bubble) {
				collected(r, informer(r, m), notes)
				test(r)
			})
		}},
		{"raw JSON", false, map[string]bool{"protobuf": true}, func(b *bubble, m *lw.Memory[*Note], test func(*bubble)) {
			b.beside(func(r *bubble) { r.raw("application/json", b.client); test(r) })
		}},
		{"raw protobuf", false, map[string]bool{"JSON": true, "CBOR": true}, func(b *bubble, m *lw.Memory[*Note],
			test func(*bubble)) {
			b.beside(func(r *bubble) { r.raw(proto, b.client); test(r) })
		}},
		{"derived", true, none, func(b *bubble, m *lw.Memory[*Note], test func(*bubble)) {
			b.beside(func(r *bubble) {
				collected(r, derived(r, m, func(n *Note) *Note {
					out := newNote(n.Name, n.Annotations["text"])
					out.ResourceVersion = n.ResourceVersion // which means nothing there
					return out
				}), notes)
				test(r)
			})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, serve.Options{}, func(b *bubble) {
				b.t = t
				m := stored(b, lw.NewMemory(newNote("a", "first"), newNote("b", "x"), newNote("c", "third")), notes)
				tt.serve(b, m, func(b *bubble) { testForms(b, m, tt.own, tt.without) })
			})
		})
	}
}

func testForms(b *bubble, m *lw.Memory[*Note], own bool, without map[string]bool) {
	t := b.t
	const in = "/apis/example.io/v1/namespaces/n/notes"
	type watches struct{ all, selected, some func() []string }
	open := map[string]watches{}
	tells := map[string]map[string][]string{} // by what was asked for, and by form
	say := func(f form, what string, all ...string) {
		if tells[what] == nil {
			tells[what] = map[string][]string{}
		}
		tells[what][f.name] = append(tells[what][f.name], all...)
	}
	lists := func(when string) {
		t.Helper()
		for _, f := range forms {
			kind := f.kindOr(noteKind)
			code, one := b.get(f, f.accept, in+"/a")
			if unacceptable := code == http.StatusNotAcceptable; unacceptable != without[f.name] {
				t.Fatalf("%s: the code is %d", f.name, code)
			}
			if without[f.name] {
				for _, other := range []string{in, in + "?watch=1"} {
					if code, _ := b.get(f, f.list, other); code != http.StatusNotAcceptable && !strings.Contains(other, "watch") {
						t.Errorf("%s of %s: the code is %d", f.name, other, code)
					}
				}
				continue
			}
			if say(f, when+": one", strconv.Itoa(code)); code == http.StatusOK {
				say(f, when+": one", append(one.tell(t, kind), "version "+one.Metadata.ResourceVersion)...)
			}
			for _, query := range []string{notesPath, in, in + "?labelSelector=short%3Dtrue", notesPath +
				"?fieldSelector=metadata.name%3Db", in + "?resourceVersion=0&limit=1"} {
				_, list := b.get(f, f.list, query)
				say(f, when+": "+query, append(list.tell(t, kind), list.head())...)
			}
			more := ""
			for page := range 3 {
				_, list := b.get(f, f.list, in+"?limit=1&continue="+url.QueryEscape(more))
				say(f, fmt.Sprint(when, ": page ", page), append(list.tell(t, kind), list.head())...)
				if more = list.Metadata.Continue; more == "" {
					break
				}
			}
		}
	}
	lists("before")
	for _, f := range forms {
		if without[f.name] {
			continue
		}
		kind := f.kindOr(noteKind)
		open[f.name] = watches{
			all: b.open(f, notesPath+
				"?watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1&timeoutSeconds=90", kind),
			selected: b.open(f, in+"?watch=1&labelSelector=short%3Dtrue&timeoutSeconds=90", kind),
			some:     b.open(f, in+"?watch=1&fieldSelector=metadata.name%3Db&resourceVersion=0&timeoutSeconds=90", kind),
		}
	}
	write := func(write func(context.Context, *Note) (*Note, error), n, text string) {
		t.Helper()
		store(t, write, newNote(n, text))
		time.Sleep(time.Second) // each has a version of its own, wherever that is made
	}
	write(m.Create, "d", "fourth")
	write(m.Update, "a", "y")      // begins to be short
	write(m.Update, "b", "longer") // ceases to be
	write(m.Update, "d", "again")  // neither
	remove(t, m, "d")
	time.Sleep(time.Minute) // a bookmark is due
	lists("after")
	remove(t, m, "a")
	time.Sleep(time.Minute) // and the end
	lists("late")
	for _, f := range forms {
		if !without[f.name] {
			say(f, "all events", open[f.name].all()...)
			say(f, "selected events", open[f.name].selected()...)
			say(f, "events of one", open[f.name].some()...)
		}
	}
	first := "JSON"
	if without[first] {
		first = "protobuf"
	}
	for _, what := range slices.Sorted(maps.Keys(tells)) {
		for _, f := range forms {
			if diff := cmp.Diff(tells[what][first], tells[what][f.name]); diff != "" && !without[f.name] {
				t.Errorf("%s (-%s +%s):\n%s", what, first, f.name, diff)
			}
		}
	}
	// What they say is true. Of versions that are made here the order counts.
	versions, uids := map[uint64]int{}, map[string]string{}
	read := func(told string) (typ string, m metav1.ObjectMeta) {
		typ, data, _ := strings.Cut(told, "{")
		noErr(t, json.Unmarshal([]byte("{"+data), &m))
		if was := uids[m.Name]; len(m.UID) != 36 || was != "" && was != string(m.UID) {
			t.Errorf("the UID of %s is %q, and was %q", m.Name, m.UID, was)
		}
		if uids[m.Name] = string(m.UID); own && (m.UID[14] != '8' || !strings.Contains("89ab", string(m.UID[19]))) {
			t.Errorf("the UID %s is not one of RFC 9562, version 8", m.UID)
		}
		return typ, m
	}
	told := tells["all events"][first]
	for _, ev := range told {
		if strings.Contains(ev, "{") {
			_, m := read(ev)
			versions[number(t, m.ResourceVersion)] = 0
		}
	}
	for i, v := range slices.Sorted(maps.Keys(versions)) {
		if versions[v] = i + 2; own {
			versions[v] = i + 4
		}
	}
	short := func(all []string) (out []string) {
		for _, told := range all {
			before, m := told, metav1.ObjectMeta{}
			if strings.Contains(told, "{") {
				before, m = read(told)
			}
			fields := strings.Fields(strings.ReplaceAll(before, ",", " ,"))
			for i, field := range fields {
				if v, err := strconv.ParseUint(field, 10, 64); err == nil && versions[v] > 0 && i > 0 {
					fields[i] = strconv.Itoa(versions[v])
				}
			}
			if m.Name != "" {
				fields = append(fields, m.Name, strconv.Itoa(versions[number(t, m.ResourceVersion)]), m.Annotations["text"],
					m.Labels["short"])
			}
			out = append(out, strings.Join(fields, " "))
		}
		return out
	}
	for what, want := range map[string][]string{
		"before: one":          {"200", "a 2 first false", "version 2"},
		"before: " + notesPath: {"a 2 first false", "b 3 x true", "c 4 third false", "version 4 , more false , left ?"},
		"before: page 0":       {"a 2 first false", "version 4 , more true , left 2"},
		"before: page 2":       {"c 4 third false", "version 4 , more false , left ?"},
		"late: one":            {"404"},
		"late: " + in:          {"b 7 longer false", "c 4 third false", "version 10 , more false , left ?"},
		"late: " + in + "?resourceVersion=0&limit=1": {"b 7 longer false", "c 4 third false",
			"version 10 , more false , left ?"},
		"after: " + in + "?labelSelector=short%3Dtrue":             {"a 6 y true", "version 9 , more false , left ?"},
		"after: " + notesPath + "?fieldSelector=metadata.name%3Db": {"b 7 longer false", "version 9 , more false , left ?"},
		"after: page 1": {"b 7 longer false", "version 9 , more true , left 1"},
		"all events": {
			"ADDED a 2 first false", "ADDED b 3 x true", "ADDED c 4 third false", "BOOKMARK 4 true", "ADDED d 5 fourth false",
			"MODIFIED a 6 y true",
			"MODIFIED b 7 longer false", "MODIFIED d 8 again false", "DELETED d 9 again false", "BOOKMARK 9 false",
			"DELETED a 10 y true", "BOOKMARK 10 false", "END",
		},
		"selected events": {"ADDED b 3 x true", "ADDED a 6 y true", "DELETED b 7 x true", "DELETED a 10 y true", "END"},
		"events of one":   {"ADDED b 3 x true", "MODIFIED b 7 longer false", "END"},
	} {
		if own { // the collection began with all of them
			for i := range want {
				want[i] = strings.NewReplacer("a 2", "a 4", "b 3", "b 4", "version 2", "version 4").Replace(want[i])
			}
		}
		rig.Same(t, what, want, short(tells[what][first]))
	}
}

func number(t *testing.T, version string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(version, 10, 64)
	noErr(t, err)
	return v
}

// raw serves what another Handler serves, as bytes.
func (b *bubble) raw(accept string, client *http.Client) {
	src := serve.Raw("http://server"+notesPath, client)
	src.Accept = accept
	collected(b, informer[*serve.Object](b, src), serve.Resource[*serve.Object]{Group: "example.io", Name: "notes",
		Kind: "Note"})
}
