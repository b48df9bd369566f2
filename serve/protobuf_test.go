package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// A Note is an object that has an encoding in protobuf. All that it says is in its annotations.
type Note struct {
	metav1.ObjectMeta `json:"metadata"`
}

func (n *Note) Marshal() ([]byte, error) {
	return (&metav1.PartialObjectMetadata{ObjectMeta: n.ObjectMeta}).Marshal()
}

func (n *Note) Unmarshal(data []byte) error {
	var p metav1.PartialObjectMetadata
	err := p.Unmarshal(data)
	n.ObjectMeta = p.ObjectMeta
	return err
}

func newNote(n, text string) *Note {
	return &Note{metav1.ObjectMeta{Namespace: "n", Name: n, Annotations: map[string]string{"text": text},
		Labels: map[string]string{"short": fmt.Sprint(len(text) < 5)}}}
}

var notes = serve.Resource[*Note]{Group: "example.io", Name: "notes", Kind: "Note"}

const (
	notesPath = "/apis/example.io/v1/notes"
	notesOfN  = "/apis/example.io/v1/namespaces/n/notes"
	proto     = "application/vnd.kubernetes.protobuf"
	asTable   = "application/json;as=Table;g=meta.k8s.io;v=v1"
	asPartial = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// behind runs a relay of the Handler of b that passes protobuf on as it comes, and test with a
// bubble of it. Its clients go through it to what b serves.
func (b *bubble) behind(test func(r *bubble)) {
	b.beside(func(r *bubble) { r.raw(proto, b.client); test(r) })
}

// A protoEvent is an event of a watch in protobuf.
type protoEvent struct {
	typ  string
	note Note
	raw  string // the message of the object
}

// protoWatch opens a watch in protobuf, and returns a function that returns the events of so far.
func (b *bubble) protoWatch(query string) func() []protoEvent {
	b.t.Helper()
	events := b.events(protobufForm, notesPath+"?watch=1&"+query)
	return func() (all []protoEvent) {
		for _, ev := range events() {
			out := protoEvent{typ: ev.typ, raw: protoMessage(ev.object)}
			noErr(b.t, out.note.Unmarshal([]byte(out.raw)))
			all = append(all, out)
		}
		return all
	}
}

// protoMessage returns the message of an object that is in an envelope.
func protoMessage(data []byte) string {
	var envelope runtime.Unknown
	if rest, ok := bytes.CutPrefix(data, []byte("k8s\x00")); !ok || envelope.Unmarshal(rest) != nil {
		return fmt.Sprintf("no envelope: %q", data)
	}
	return string(envelope.Raw)
}

// S9: what a relay sends in protobuf is what its server has sent, byte for byte, but for the
// version of a deletion. A client that asks for something that it cannot have there is told so.
func TestProtobufPassesThrough(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := stored(b, lw.NewMemory(newNote("a", "first")), notes)
		b.behind(func(r *bubble) {
			near, far := b.protoWatch("resourceVersion=0"), r.protoWatch("resourceVersion=0")
			selected := r.protoWatch("resourceVersion=0&labelSelector=short%3Dtrue")
			write := func(write func(context.Context, *Note) (*Note, error), n, text string) {
				t.Helper()
				store(t, write, newNote(n, text))
			}
			write(m.Create, "b", "x")
			write(m.Update, "a", "y")
			write(m.Update, "b", strings.Repeat("long ", 1000))
			remove(t, m, "a")
			want := []string{"ADDED a 2 first", "ADDED b 3 x", "MODIFIED a 4 y", "MODIFIED b 5 long ", "DELETED a 6 y"}
			sent := near()
			rig.Same(t, "the server", want, tellNotes(sent))
			got := far()
			rig.Same(t, "the relay", want, tellNotes(got))
			for i, ev := range got {
				rig.Same(t, "the bytes of "+ev.typ, sent[i].raw, ev.raw)
			}
			rig.Same(t, "a watch with a selector", []string{"ADDED b 3 x", "ADDED a 4 y", "DELETED b 5 x", "DELETED a 6 y"},
				tellNotes(selected()))
			_, own := b.get(protobufForm, proto, notesPath)
			_, passed := r.get(protobufForm, proto, notesPath)
			if diff := cmp.Diff(own.tell(t, noteKind), passed.tell(t, noteKind)); diff != "" || len(own.Items) != 1 {
				t.Errorf("a list: %s", diff)
			}
			rig.Same(t, "objects that a relay has encoded", 0, r.h.Status()[0].Encoded)
			// What it has is protobuf alone; of that the metadata can be had in any encoding.
			for accept, want := range map[string]int{
				"application/json": http.StatusNotAcceptable, "application/cbor": http.StatusNotAcceptable,
				"application/json, " + proto: http.StatusOK, proto: http.StatusOK, asTable: http.StatusOK,
				proto + asPartial: http.StatusOK, "application/json" + asPartial: http.StatusOK, "application/cbor" +
					asPartial: http.StatusOK,
			} {
				path := "/apis/example.io/v1/namespaces/n/notes/b"
				code, body := r.do("GET", path, "", "Accept", accept)
				if code != want || want == http.StatusOK && accept != asTable && !strings.Contains(body, "long long") {
					t.Errorf("%s: %d, want %d: %.100q", accept, code, want, body)
				}
			}
			_, table := b.do("GET", notesPath, "", "Accept", asTable)
			_, passedTable := r.do("GET", notesPath, "", "Accept", asTable)
			rig.Same(t, "a table", table, passedTable)
		})
	})
}

func tellNotes(all []protoEvent) (out []string) {
	for _, ev := range all {
		text := ev.note.Annotations["text"]
		out = append(out, fmt.Sprint(ev.typ, " ", ev.note.Name, " ", ev.note.ResourceVersion, " ", text[:min(5, len(text))]))
	}
	return out
}

// A relay does not know in which encoding its objects come before the first of them. A watch that
// asked for the other one ends with an error then: it never gets bytes in an encoding that it does
// not expect.
func TestProtobufComesLate(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := stored(b, lw.NewMemory[*Note](), notes)
		b.behind(func(r *bubble) {
			watch := r.begin(notesPath+"?watch=1&resourceVersion=0&timeoutSeconds=30", "Accept", "application/json")
			store(t, m.Create, newNote("a", "text"))
			got := <-watch
			var ev metav1.WatchEvent
			noErr(t, json.Unmarshal([]byte(got.body), &ev))
			if got.code != http.StatusOK || got.took > time.Second || ev.Type != "ERROR" ||
				!strings.Contains(got.body, "another encoding") {
				t.Errorf("a watch in JSON: %+v", got)
			}
			r.answers(http.StatusNotAcceptable, "", "GET", notesPath, "", "Accept", "application/json")
			// Who does not say what he accepts gets what there is.
			if code, body := r.do("GET", notesPath, ""); code != http.StatusOK ||
				!strings.Contains(protoMessage([]byte(body)), "text") {
				t.Errorf("a list without an Accept header: %d %q", code, body)
			}
		})
	})
}

// An Object that came as protobuf says that it is no JSON.
func TestObjectInProtobuf(t *testing.T) {
	note := newNote("a", "text")
	note.UID, note.ResourceVersion = "u", "5"
	data, err := note.Marshal()
	noErr(t, err)
	sent := bytes.Clone(data)
	var o serve.Object
	noErr(t, o.Unmarshal(data))
	clear(data) // its owner may use it again
	got, mediaType := o.Bytes()
	if mediaType != proto || !bytes.Equal(got, sent) {
		t.Errorf("%s %q, want %q", mediaType, got, sent)
	}
	rig.Same(t, "metadata", lw.MetaOf(note), o.Meta)
	rig.Same(t, "labels", note.Labels, o.GetLabels())
	if data, err := json.Marshal(&o); err == nil || !strings.Contains(err.Error(), "n/a") || !strings.Contains(err.Error(),
		"protobuf") {
		t.Errorf("as JSON: %s %v", data, err)
	}
	if text := serve.Field("metadata.name")(&o); text != "" {
		t.Errorf("a field: %q", text)
	}
}
