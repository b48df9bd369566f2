package decode

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

var watches = map[string]func(*Decoder, io.Reader, Encoding, func(Event) error) error{"watch": (*Decoder).Watch, "list": (*Decoder).WatchList}

// An event is yielded as soon as it has come, whatever follows it.
func TestEventsAreNotHeldBack(t *testing.T) {
	event := `{"type":"ADDED","object":` + sinkA + `}`
	for _, event := range []string{event, strings.ReplaceAll(event, ",", ",\n")} {
		for _, behind := range []string{"\n", "", " ", "\r", "\r\n", "\n\n", " \t"} {
			synctest.Test(t, func(t *testing.T) {
				r, w := io.Pipe()
				yielded := 0
				go func() {
					defer w.Close()
					for i := range 3 {
						_, _ = io.WriteString(w, event[:100])
						_, _ = io.WriteString(w, event[100:]+behind)
						if synctest.Wait(); yielded != i+1 {
							t.Errorf("%q behind: %d events were yielded, want %d", behind, yielded, i+1)
						}
					}
				}()
				if err := newDecoder[*sink](t, Options{}).Watch(r, JSON, func(e Event) error {
					if yielded++; e.More {
						t.Errorf("%q behind: event %d says that another one is there", behind, yielded)
					}
					return nil
				}); err != nil {
					t.Errorf("%q behind: %v", behind, err)
				}
			})
		}
	}
}

// Bytes that cannot become an event are an error at once, however the line goes on. No bytes are
// awaited that may never come.
func TestInvalidLinesAreNotHeldBack(t *testing.T) {
	event := `{"type":"ADDED","object":` + sinkA + "}\n"
	for _, line := range []string{
		"{\"type\": oops\n", "{\"type\":\"ADDED\",\"object\":{\"metadata\":{oops\n", "{\"type\":\"ADDED\",\"object\":{\"spec\":{\"str\":\"no end\n", "{\"type\":\"\\x\n", "{{\n", "{{}", "{\"type\": oops\n{\"typ", "{\"type\":oops\n{\"typ",
		`{"type":"ADDED","object":{"metadata":{[]}`, `{"type":"ADDED","object":{"metadata":{}] {}`, "{\"type\":\"ADDED\",\"object\":{\"spec\":{\"i8\":300},\"metadata\":{oops\n", "<html>", "{\"object\":{},\"type\":tru\n",
	} {
		for _, size := range []int{1, 7, 1 << 10} {
			for name, watch := range watches {
				synctest.Test(t, func(t *testing.T) {
					r, w := io.Pipe()
					var err error
					yielded := 0
					go func() {
						err = watch(newDecoder[*sink](t, Options{Workers: 2}), r, JSON, func(Event) error { yielded++; return nil })
						r.Close()
					}()
					for b := []byte(event + line); len(b) > 0; b = b[min(size, len(b)):] {
						_, _ = w.Write(b[:min(size, len(b))])
					}
					synctest.Wait() // and nothing more comes
					if _, ok := err.(*SyntaxError); !ok || yielded != 1 {
						t.Errorf("%s, %q in pieces of %d: %d events, error %v", name, line, size, yielded, err)
					}
					w.Close()
				})
			}
		}
	}
}

// More is true for an event if the whole next event has come, but never among the initial events.
func TestMore(t *testing.T) {
	event := `{"type":"ADDED","object":` + sinkA + "}\n"
	end := initialEventsEnd
	fish := string(frameOf(t, "ADDED", protobufOf(t, newCarp(1))))
	for name, tc := range map[string]struct {
		enc    Encoding
		pieces []string
		watch  string
		want   []bool
	}{
		"together":            {JSON, []string{event + event + event}, "watch", []bool{true, true, false}},
		"apart":               {JSON, []string{event, event, event}, "watch", []bool{false, false, false}},
		"half":                {JSON, []string{event + event[:50], event[50:] + event[:len(event)-1], "\n"}, "watch", []bool{false, false, false}},
		"indented":            {JSON, []string{event + strings.ReplaceAll(event[:100], ",", ",\n"), event[100:]}, "watch", []bool{false, false}},
		"initial":             {JSON, []string{event + event + end + event + event}, "list", []bool{false, false, true, true, false}},
		"protobuf":            {Protobuf, []string{fish + fish}, "watch", []bool{true, false}}, // more than idleBuffer has room for is not seen
		"protobuf, half":      {Protobuf, []string{fish + fish[:50], fish[50:]}, "watch", []bool{false, false}},
		"protobuf, no length": {Protobuf, []string{fish + fish[:4], fish[4:]}, "watch", []bool{false, false}},
	} {
		r, w := io.Pipe()
		go func() {
			for _, piece := range tc.pieces {
				_, _ = io.WriteString(w, piece)
			}
			w.Close()
		}()
		d := newDecoder[*sink](t, Options{})
		if tc.enc == Protobuf {
			d = newDecoder[*carp.Carp](t, Options{})
		}
		var got []bool
		if err := watches[tc.watch](d, r, tc.enc, func(e Event) error { got = append(got, e.More); return nil }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		checkDiff(t, name, tc.want, got)
	}
}

// A bookmark needs a resource version. Only the annotation's value "true" ends the initial events.
func TestBookmarks(t *testing.T) {
	type yielded struct {
		version, err string
		end          bool
	}
	meta := func(version string, annotations map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{ResourceVersion: version, Annotations: annotations}
	}
	end := func(value string) map[string]string {
		return map[string]string{metav1.InitialEventsAnnotationKey: value, "other": "true"}
	}
	for how, tt := range map[string]struct {
		meta metav1.ObjectMeta
		want yielded
	}{
		"plain":                    {meta("5", nil), yielded{version: "5"}},
		"the end":                  {meta("5", end("true")), yielded{version: "5", end: true}},
		"not the end":              {meta("5", end("false")), yielded{version: "5"}},
		"another case":             {meta("5", end("True")), yielded{version: "5"}},
		"a number":                 {meta("5", end("1")), yielded{version: "5"}},
		"no value":                 {meta("5", end("")), yielded{version: "5"}},
		"another annotation":       {meta("5", map[string]string{"k8s.io/initial-events-begin": "true"}), yielded{version: "5"}},
		"no version":               {meta("", nil), yielded{err: "a bookmark without a resource version"}},
		"an end without a version": {meta("", end("true")), yielded{err: "a bookmark without a resource version"}},
	} {
		c := &carp.Carp{TypeMeta: newCarp(0).TypeMeta, ObjectMeta: tt.meta}
		data := mustJSON(t, c)
		for enc, stream := range map[Encoding]string{JSON: `{"type":"BOOKMARK","object":` + string(data) + "}\n", Protobuf: string(frameOf(t, "BOOKMARK", protobufOf(t, c)))} {
			for name, watch := range watches {
				var got yielded
				err := watch(newDecoder[*carp.Carp](t, Options{}), strings.NewReader(stream), enc, func(e Event) error {
					got.version, got.end = e.ResourceVersion, e.InitialEventsEnd
					if e.Type != "BOOKMARK" || e.Object.Value != nil || e.Object.Err != nil {
						t.Errorf("%s: %+v", how, e)
					}
					return nil
				})
				if err != nil {
					got.err = err.Error()
				}
				if got != tt.want {
					t.Errorf("%s, encoding %d, %s: %+v, want %+v", how, enc, name, got, tt.want)
				}
			}
		}
	}
}
