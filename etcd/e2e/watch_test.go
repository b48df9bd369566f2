package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/internal/verify/rig"
)

// compact compacts everything before that version.
func compact(t testing.TB, client *clientv3.Client, version string) {
	t.Helper()
	revision, err := strconv.ParseInt(version, 10, 64)
	noErr(t, err)
	noErr(t, second(client.Compact(within(t, time.Minute), revision, clientv3.WithCompactPhysical())))
}

// TestCompaction compacts at the worst places: right before and at the position of a watch, between
// two pages, and the object before a deletion that a watch with a selector needs.
func TestCompaction(t *testing.T) {
	client, _, things := begin(t)
	ctx := within(t, time.Minute)
	w := &writer{t, things}
	w.put("a", 5, 1)
	v5 := listVersion(t, things)
	w.put("b", 5, 1)
	v10 := listVersion(t, things)
	w.remove("b4")
	v11 := listVersion(t, things)
	w.put("c", 1, 1)

	// A page, then a compaction beyond its revision.
	page, err := things.List(ctx, metav1.ListOptions{Limit: 2}, func(*thing, error) error { return nil })
	if err != nil || page.Continue == "" {
		t.Fatalf("%v, %v", page, err)
	}
	w.put("d", 1, 1)
	compact(t, client, v10)
	next, err := things.List(ctx, metav1.ListOptions{Limit: 2, Continue: page.Continue},
		func(*thing, error) error { return nil })
	if err != nil || next.ResourceVersion != page.ResourceVersion {
		t.Errorf("a page after a compaction before it: %v, %v", next, err)
	}
	compact(t, client, listVersion(t, things))
	if _, err := things.List(ctx, metav1.ListOptions{Limit: 2, Continue: next.Continue},
		func(*thing, error) error { return nil }); !apierrors.IsResourceExpired(err) {
		t.Errorf("a page after a compaction beyond it: %v, want Expired", err)
	}
	for _, v := range []string{v5, v10, v11} {
		if err := things.Watch(ctx, metav1.ListOptions{ResourceVersion: v},
			func(lw.WatchEvent[*thing]) error { return errEnough }); !apierrors.IsResourceExpired(err) {
			t.Errorf("a watch from %s: %v, want Expired", v, err)
		}
		if _, err := things.List(ctx, metav1.ListOptions{ResourceVersion: v,
			ResourceVersionMatch: metav1.ResourceVersionMatchExact},
			func(*thing, error) error { return nil }); !apierrors.IsResourceExpired(err) {
			t.Errorf("a list at %s: %v, want Expired", v, err)
		}
	}
	// Exactly at the position: nothing is missing.
	w.put("d", 1, 2)
	at := listVersion(t, things)
	compact(t, client, at)
	w.put("e", 1, 1)
	if _, events := watchFor(t, things, at, 1); events[0].Key().Name != "e0" {
		t.Errorf("after a compaction at the position: %v", events)
	}
}

// TestCompactedBehind holds a watch with a selector back while objects that it has to know are
// changed, deleted and compacted: it ends with 410, or tells of each.
func TestCompactedBehind(t *testing.T) {
	client, prefix, things := begin(t)
	ctx := within(t, time.Minute)
	const n = 3000 // more than the server and the network hold back
	text := strings.Repeat("x", 10_000)
	put := func(name string) {
		t.Helper()
		obj := newThing("ns", name, 1)
		obj.Labels, obj.Text = map[string]string{"on": "true"}, text
		noErr(t, second(client.Do(ctx, putOp(prefix, obj))))
	}
	put("first")
	start := listVersion(t, things)
	seen, blocked := 0, make(chan struct{})
	result := make(chan error)
	go func() {
		result <- things.Watch(ctx, metav1.ListOptions{ResourceVersion: start, LabelSelector: "on=true"},
			func(ev lw.WatchEvent[*thing]) error {
				if seen++; seen == 1 {
					<-blocked
				}
				if ev.Type == "DELETED" && ev.Key().Name == "first" {
					return errEnough
				}
				return nil
			})
	}()
	for i := range n {
		put(fmt.Sprint(i))
	}
	noErr(t, second(client.Delete(ctx, prefix+"ns/first")))
	put("last")
	compact(t, client, listVersion(t, things))
	close(blocked)
	if err := <-result; !apierrors.IsResourceExpired(err) && (err != errEnough || seen != n+1) {
		t.Errorf("%v, after %d events of %d", err, seen, n+1)
	}
}

// TestOddKeys: a key of another shape and a value that cannot be read are errors of their objects,
// and hide no other; they go when the keys do.
func TestOddKeys(t *testing.T) {
	client, prefix, things := begin(t)
	ctx := within(t, time.Minute)
	w := &writer{t, things}
	w.put("good", 3, 1)
	odd := map[string]string{
		prefix + "a/b/c": "{}", prefix + "alone": "{}", prefix: "{}", prefix + "/x": "{}", prefix + "ns/": "{}",
		prefix + "ns/\xff\xfe/": "{}",
		prefix + "ns/bad":       "no JSON", prefix + "ns/empty": "", prefix + "ns/null": "null",
		prefix + "ns/other": `{"metadata":{"namespace":"ns","name":"good0"}}`, prefix + "ns/type": `{"n":"x"}`,
	}
	putOdd := func() {
		for key, value := range odd {
			noErr(t, second(client.Put(ctx, key, value)))
		}
	}
	putOdd()
	for _, limit := range []int64{0, 1, 3} {
		good, bad, next := 0, map[lw.Key]bool{}, ""
		for pages := 0; ; pages++ {
			meta, err := things.List(ctx, metav1.ListOptions{Limit: limit, Continue: next}, func(obj *thing, err error) error {
				var e *lw.Error
				switch {
				case err == nil:
					good++
				case errors.As(err, &e) && e.Key.Name != "":
					bad[e.Key] = true
				default:
					t.Errorf("an error without a key: %v", err)
				}
				return nil
			})
			if err != nil || pages > 20 {
				t.Fatalf("page %d: %v", pages, err)
			}
			if next = meta.Continue; next == "" {
				break
			}
		}
		if good != 3 || len(bad) != len(odd) {
			t.Errorf("in pages of %d: %d good and %d bad objects, want 3 and %d: %v", limit, good, len(bad), len(odd), bad)
		}
	}
	f := follow(t, things, prefix)
	if s := f.Status(); f.Store().Len() != 3 || len(s.SetAside) != len(odd) {
		t.Errorf("%d objects, and set aside %v", f.Store().Len(), s.SetAside)
	}
	w.put("good", 4, 2)
	rig.Met(t, time.Minute, "an object is behind a bad one", func() bool { return f.Store().Len() == 4 })
	for key := range odd {
		noErr(t, second(client.Delete(ctx, key)))
	}
	rig.Met(t, time.Minute, "bad objects that are gone are still set aside",
		func() bool { return len(f.Status().SetAside) == 0 })
	f.caughtUp(t, client)
	if s := f.Status(); rig.Relists(s) != 0 {
		t.Errorf("%d relists", rig.Relists(s))
	}
	// And in a watch.
	putOdd()
	rig.Met(t, time.Minute, "bad objects are not set aside", func() bool { return len(f.Status().SetAside) == len(odd) })
	if s := f.Status(); rig.Relists(s) != 0 {
		t.Errorf("%d relists", rig.Relists(s))
	}
}

// TestLargeValue has values of nearly as much as etcd takes, in a list and in a watch.
func TestLargeValue(t *testing.T) {
	client, prefix, things := begin(t)
	text := strings.Repeat("0123456789", 140_000)
	create := func(when string) {
		for i := range 5 {
			obj := newThing("ns", fmt.Sprint(when, i), 1)
			obj.Text = text
			noErr(t, second(things.Create(within(t, time.Minute), obj)))
		}
	}
	create("before")
	f := follow(t, things, prefix)
	create("after")
	f.caughtUp(t, client)
}

// TestNothingIsLeft ends watches in every way: no goroutine is left here, and no watcher on the
// server.
func TestNothingIsLeft(t *testing.T) {
	client := dial(t, startServer(t).endpoint)
	things := collect(t, client, newPrefix(), &etcd.Options[*thing]{Progress: time.Second})
	w := &writer{t, things}
	w.put("a", 1, 1)
	start := listVersion(t, things)
	metrics := httptest.NewServer(promhttp.Handler()) // the server is in this process
	defer metrics.Close()
	before := watchers(t, metrics.URL)
	ways := map[string]func(ctx context.Context) error{
		"the context": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(30*time.Millisecond, cancel)
			return things.Watch(ctx, metav1.ListOptions{ResourceVersion: start},
				func(lw.WatchEvent[*thing]) error { return nil })
		},
		"the time": func(ctx context.Context) error {
			err := things.Watch(ctx, metav1.ListOptions{ResourceVersion: start, TimeoutSeconds: new(int64(1))},
				func(lw.WatchEvent[*thing]) error { return nil })
			if err != nil {
				t.Errorf("after its time: %v", err)
			}
			return err
		},
		"yield": func(ctx context.Context) error {
			w.put("a", 1, int(time.Now().UnixNano()))
			err := things.Watch(ctx, metav1.ListOptions{ResourceVersion: start},
				func(lw.WatchEvent[*thing]) error { return errEnough })
			if err != errEnough {
				t.Errorf("after yield: %v", err)
			}
			return err
		},
		"the present": func(ctx context.Context) error {
			return things.Watch(ctx, metav1.ListOptions{}, func(lw.WatchEvent[*thing]) error { return errEnough })
		},
	}
	for what, way := range ways {
		for range 5 {
			_ = way(within(t, time.Minute))
			if what == "the time" {
				break
			}
		}
		rig.Met(t, time.Minute, what+": a watcher is left on the server",
			func() bool { return watchers(t, metrics.URL) == before })
		rig.Met(t, time.Minute, what+": a goroutine is left", func() bool { return !strings.Contains(stacks(), "lw/etcd.") })
	}
}

func stacks() string {
	buf := make([]byte, 1<<22)
	return string(buf[:runtime.Stack(buf, true)])
}

// watchers returns how many watchers the servers of this process have.
func watchers(t testing.TB, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	noErr(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	noErr(t, err)
	for line := range strings.Lines(string(body)) {
		if n, ok := strings.CutPrefix(line, "etcd_debugging_mvcc_watcher_total "); ok {
			return n
		}
	}
	t.Fatal("the server does not say how many watchers it has")
	return ""
}

// TestInitial: a watch without a version begins with what there is.
func TestInitial(t *testing.T) {
	_, _, things := begin(t)
	(&writer{t, things}).put("a", 3, 1)
	for _, version := range []string{"", "0"} {
		_, events := watchFor(t, things, version, 3)
		for i, ev := range events {
			if ev.Type != "ADDED" || ev.Object.Name != fmt.Sprint("a", i) || ev.ResourceVersion != ev.Object.ResourceVersion {
				t.Errorf("event %d from %q: %v", i, version, ev)
			}
		}
	}
	if err := things.Watch(within(t, time.Minute), metav1.ListOptions{ResourceVersion: "x"}, nil); err == nil {
		t.Error("a watch from x")
	}
}

var errEnough = errors.New("enough")

// listVersion lists, and returns the version.
func listVersion(t testing.TB, src lw.Source[*thing]) string {
	t.Helper()
	meta, err := src.List(within(t, time.Minute), metav1.ListOptions{}, func(*thing, error) error { return nil })
	noErr(t, err)
	return meta.ResourceVersion
}

// watchFor watches from position until n events have come, and returns the position after them and
// the events. Bookmarks are none.
func watchFor(t testing.TB, src lw.Source[*thing], position string, n int) (string, []lw.WatchEvent[*thing]) {
	t.Helper()
	var events []lw.WatchEvent[*thing]
	if n == 0 {
		return position, nil
	}
	err := src.Watch(within(t, time.Minute), metav1.ListOptions{ResourceVersion: position},
		func(ev lw.WatchEvent[*thing]) error {
			events = append(events, ev)
			if position = ev.ResourceVersion; len(events) == n && !ev.Open {
				return errEnough
			}
			return nil
		})
	if err != errEnough {
		t.Fatalf("Watch: %v, after %d of %d events", err, len(events), n)
	}
	return position, events
}

// watchUntil watches from position until that version is passed.
func watchUntil(t testing.TB, src lw.Source[*thing], position, until string) (string, int) {
	t.Helper()
	n := 0
	ctx, cancel := context.WithCancel(within(t, time.Minute))
	defer cancel()
	reached := func() bool {
		c, err := resourceversion.CompareResourceVersion(position, until)
		return err == nil && c >= 0
	}
	if reached() {
		return position, 0
	}
	if err := src.Watch(ctx, metav1.ListOptions{ResourceVersion: position}, func(ev lw.WatchEvent[*thing]) error {
		n++
		if position = ev.ResourceVersion; reached() {
			cancel()
		}
		return nil
	}); ctx.Err() == nil {
		t.Fatalf("Watch: %v, at %s", err, position)
	}
	return position, n
}

// TestIdle: an etcd in which nothing at all is written answers on a watch that begins where it is.
// For twice as long as Progress a silent one would be waited for.
func TestIdle(t *testing.T) {
	things := collect(t, dial(t, startServer(t).endpoint), newPrefix(), &etcd.Options[*thing]{Progress: 3 * time.Second})
	opts := metav1.ListOptions{ResourceVersion: listVersion(t, things), TimeoutSeconds: new(int64(7))}
	noErr(t, things.Watch(within(t, time.Minute), opts, func(lw.WatchEvent[*thing]) error { return nil }))
}
