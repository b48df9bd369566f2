package apiserver_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/watch"

	. "github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/rig"
)

// Twenty events within a second come within a second, each as late as the others.
func TestTrail(t *testing.T) {
	const trail, between = 3 * time.Second, 50 * time.Millisecond
	inBubble(t, func(b *bench) {
		b.Inject(Fault{Verb: Watch, Do: Trail(trail)})
		s := b.watch("resourceVersion=1&timeoutSeconds=2")
		var want []string
		for i := range 20 {
			b.create(fmt.Sprint("p", i))
			want = append(want, fmt.Sprintf("ADDED p%d@%d", i, i+2))
			time.Sleep(between)
		}
		time.Sleep(trail - 20*between - 1)
		rig.Same(b, "just before the first is due", nil, s.all())
		time.Sleep(time.Nanosecond)
		rig.Same(b, "when the first is due", want[:1], s.all())
		time.Sleep(19 * between)
		rig.Same(b, "when the last is due", want, s.all())
		time.Sleep(2*time.Second - 19*between)
		rig.Same(b, "when the end is due", append(want, "EOF"), s.all())
		s.close()

		b.Inject(Fault{Verb: Stream, Do: All(Trail(time.Second), Trail(2*time.Second))})
		s = b.watch("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
		time.Sleep(trail - 1)
		rig.Same(b, "a streamed list before its time", nil, s.all())
		time.Sleep(time.Nanosecond)
		rig.Same(b, "a streamed list in its time", 21, len(s.all()))
		s.close()
	})
}

// An end in time takes effect whatever else happens, and what is under way is lost with it.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		do   Effect
		// What the client has, one event being sent after a second and one after three.
		want []string
	}{
		{"cut", In(2*time.Second, Cut), []string{"1s ADDED a@2", "2s EOF"}},
		{"broken amid nothing", In(2*time.Second, Break), []string{"1s ADDED a@2", "2s half", "2s broken"}},
		{"410", In(2*time.Second, Error(apierrors.NewResourceExpired("old"))),
			[]string{"1s ADDED a@2", "2s ERROR 410 old", "2s EOF"}},
		{"410 at once", In(0, Error(apierrors.NewResourceExpired("old"))), []string{"0s ERROR 410 old", "0s EOF"}},
		{"the earliest", All(In(4*time.Second, Break), In(2*time.Second, Cut), In(3*time.Second, Break)),
			[]string{"1s ADDED a@2", "2s EOF"}},
		{"later than the watch", In(time.Minute, Break), []string{"1s ADDED a@2", "3s ADDED b@3", "9s EOF"}},
		{"amid what is under way", All(Trail(1500*time.Millisecond), In(2*time.Second, Break)), []string{"2s half", "2s broken"}},
		{"without what is under way", All(Trail(1500*time.Millisecond), In(2*time.Second, Cut)), []string{"2s EOF"}},
		{"after the end, which is under way", All(Trail(5*time.Second), In(10*time.Second, Cut)),
			[]string{"6s ADDED a@2", "8s ADDED b@3", "10s EOF"}},
	} {
		subtest(t, c.name, func(b *bench) {
			b.Inject(Fault{Verb: Watch, Do: c.do})
			s, began := b.watch("resourceVersion=1&timeoutSeconds=9"), time.Now()
			var got []string
			for i := range 60 {
				for _, line := range s.news() {
					got = append(got, fmt.Sprint(time.Since(began), " ", line))
				}
				if i == 4 || i == 13 {
					b.create(map[int]string{4: "a", 13: "b"}[i])
					continue // the time of this step counts from the event
				}
				time.Sleep(250 * time.Millisecond)
			}
			rig.Same(b, "stream", c.want, got)
			s.close()
		})
	}
}

// Interrupt finds a watch that is held back.
func TestTrailInterrupted(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.Inject(Fault{Verb: Watch, Do: Trail(time.Hour)})
		s := b.watch("resourceVersion=1")
		b.create("a")
		s.all()
		b.Interrupt(nil, Insert(Unit{Type: watch.Bookmark, Version: 2}))
		rig.Same(b, "an event of the test's own", []string{"BOOKMARK @2"}, s.all())
		b.Interrupt(nil, Cut)
		rig.Same(b, "the end", []string{"BOOKMARK @2", "EOF"}, s.all())
		s.close()
	})
}

func TestEffectsTogether(t *testing.T) {
	for _, c := range []struct {
		name string
		do   Effect
		want string
	}{
		{"waits add up", All(Delay(time.Second), nil, Delay(2*time.Second)), "200 a@3 gen=1 after 3s"},
		{"a wait and an answer", All(Fail(errors.New("x")), Delay(time.Second)), "500 InternalError after 1s"},
		{"the first answer", All(Fail(apierrors.NewUnauthorized("x")), Reset, Fail(errors.New("y"))), "401 Unauthorized after 0s"},
		{"before and after the write", All(Delay(time.Second), Written(Delay(2*time.Second)), Written(Fail(errors.New("x")))),
			"500 InternalError after 3s"},
		{"chosen", Choose(func(r Request) Effect {
			if r.Verb != Update || r.Meta.Labels["app"] != "x" {
				return nil
			}
			return All(Delay(time.Second), Choose(func(Request) Effect { return Delay(time.Minute) }))
		}), "200 a@3 gen=1 after 1m1s"},
		{"not chosen", Choose(func(Request) Effect { return nil }), "200 a@3 gen=1 after 0s"},
		{"overtaken", Overtake, "409 Conflict after 0s"},
		{"overtaken twice", All(Overtake, Overtake), "409 Conflict after 0s"},
	} {
		subtest(t, c.name, func(b *bench) {
			b.create("a")
			b.Inject(Fault{Do: c.do})
			began := time.Now()
			got := b.send("PUT", "/a", `{"metadata":{"name":"a","resourceVersion":"2","labels":{"app":"x"}}}`)
			rig.Same(b, "the answer", c.want, fmt.Sprint(got, " after ", time.Since(began)))
		})
	}
}

// Somebody else's write is seen, comes before that of the request, and leaves the object as it was.
func TestOvertake(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.create("a")
		s := b.watch("resourceVersion=2")
		write := func(method, body string, header ...string) string {
			b.Inject(Fault{Do: Overtake})
			return b.send(method, "/a", body, header...)
		}
		rig.Same(b, "an update of a version", "409 Conflict", write("PUT", `{"metadata":{"name":"a","resourceVersion":"2"}}`))
		rig.Same(b, "events", []string{"MODIFIED a@3", "MODIFIED a@4"}, s.news())
		rig.Same(b, "a patch", "200 a@7 gen=1",
			write("PATCH", `{"metadata":{"annotations":{"y":"z"}}}`, "Content-Type", "application/merge-patch+json"))
		rig.Same(b, "events", []string{"MODIFIED a@5", "MODIFIED a@6", "MODIFIED a@7"}, s.news())
		rig.Same(b, "an update without one", "200 a@10 gen=1", write("PUT", `{"metadata":{"name":"a"}}`))
		rig.Same(b, "a delete", true, strings.HasPrefix(write("DELETE", ""), "200"))
		rig.Same(b, "of what is gone", "404 NotFound", write("DELETE", ""))
		rig.Same(b, "faults that are left", 0, b.Armed())
		s.close()
	})
}

// A Match sees the metadata of what is written, in each format, and the write is as without it.
func TestMetaInMatch(t *testing.T) {
	meta := metav1.ObjectMeta{GenerateName: "a-", Namespace: "ns", Labels: map[string]string{"app": "x"}}
	object := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: meta}
	message := rig.Must[[]byte](t)((&runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		Raw: rig.Must[[]byte](t)(object.Marshal())}).Marshal())
	const text = `{"metadata":{"namespace":"ns","generateName":"a-","labels":{"app":"x"}}}`
	for _, c := range []struct{ name, method, path, contentType, body, want string }{
		{"JSON", "POST", "", "application/json; charset=utf-8", text, "201"},
		{"no type", "POST", "", "", text, "201"},
		{"YAML", "POST", "", "application/yaml", "metadata: {namespace: ns, generateName: a-, labels: {app: x}}", "201"},
		{"CBOR", "POST", "", "application/cbor", string(rig.Must[[]byte](t)(cbor.Marshal(object))), "201"},
		{"protobuf", "POST", "", "application/vnd.kubernetes.protobuf", "k8s\x00" + string(message), "415"},
		{"merge patch", "PATCH", "/b", "application/merge-patch+json", text, "200"},
		{"JSON patch", "PATCH", "/b", "application/json-patch+json", `[]`, "200 no meta"},
		{"half", "POST", "", "application/json", text[:30], "400 no meta"},
		{"half a message", "POST", "", "application/vnd.kubernetes.protobuf", "k8s\x00" + string(message[:20]), "415 no meta"},
		{"not a message", "POST", "", "application/vnd.kubernetes.protobuf", "k8", "415 no meta"},
		{"too long", "POST", "", "application/json", strings.Repeat(" ", 3<<20) + text, "413 no meta"},
		{"read", "GET", "/b", "", "", "200 no meta"},
	} {
		subtest(t, c.name, func(b *bench) {
			b.create("b")
			var saw *metav1.ObjectMeta
			b.Inject(Fault{Verb: Watch, Match: func(Request) bool { panic("a request for something else") }})
			b.Inject(Fault{Match: func(r Request) bool { saw = r.Meta; return false }})
			resp := b.must(b.request(c.method, b.URL("pods", "ns")+c.path, strings.NewReader(c.body), "Content-Type", c.contentType))
			_ = resp.Body.Close()
			got := fmt.Sprint(resp.StatusCode)
			if saw == nil {
				got += " no meta"
			} else {
				rig.Same(b, "the metadata", &meta, saw)
			}
			rig.Same(b, "the answer", c.want, got)
			rig.Same(b, "the log", (*metav1.ObjectMeta)(nil), b.Requests()[0].Meta)
		})
	}
	inBubble(t, func(b *bench) {
		b.Inject(Fault{Match: func(Request) bool { return false }})
		r := rig.Must[*http.Request](b)(http.NewRequestWithContext(b.Context(), "POST", b.URL("pods", "ns"), &broken{text: text}))
		_, err := b.client.Do(r)
		rig.Same(b, "the body that breaks off has an answer", true, err != nil)
		rig.Same(b, "objects", "200 rv=1", b.list(""))
	})
}

// broken is a body that ends with an error.
type broken struct{ text string }

func (r *broken) Read(p []byte) (int, error) {
	n := copy(p, r.text)
	if r.text = r.text[n:]; n > 0 {
		return n, nil
	}
	return 0, errors.New("broken")
}
