package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A follower is an informer, and what its handler was told in sum.
type follower struct {
	*lw.Informer[*thing]
	prefix string

	mu    sync.Mutex
	sum   map[lw.Key]*thing // guarded by mu
	wrong []string          // calls that contradict those before; guarded by mu
	errs  []error           // of OnError; guarded by mu
}

// follow runs an informer of src until the test ends, and waits until it has synced.
func follow(t testing.TB, src lw.Source[*thing], prefix string) *follower {
	t.Helper()
	f := &follower{prefix: prefix, sum: map[lw.Key]*thing{}}
	f.Informer = lw.NewInformer(src, &lw.Options{
		PageSize: 100,
		OnError: func(err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.errs = append(f.errs, err)
		},
		Backoff: func(int) time.Duration { return 50 * time.Millisecond },
	})
	f.AddHandler(lw.Handler[*thing]{
		Add:    func(obj *thing) { f.call(nil, obj) },
		Update: func(old, obj *thing) { f.call(old, obj) },
		Delete: func(old *thing) { f.call(old, nil) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, w := range f.wrong {
			t.Error(w)
		}
	})
	noErr(t, f.WaitForSync(within(t, time.Minute)))
	return f
}

func (f *follower) call(old, obj *thing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := lw.Key{}
	if obj != nil {
		key = lw.KeyOf(obj)
	} else {
		key = lw.KeyOf(old)
	}
	if f.sum[key] != old {
		f.wrong = append(f.wrong, fmt.Sprintf("a call for %v with %v, and before it was %v", key, old, f.sum[key]))
	}
	if delete(f.sum, key); obj != nil {
		f.sum[key] = obj
	}
}

// errors returns what OnError was called with.
func (f *follower) errors() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.errs)
}

// rewound returns how often OnError has had an lw.ErrRewound.
func (f *follower) rewound() (n int) {
	for _, err := range f.errors() {
		if errors.Is(err, lw.ErrRewound) {
			n++
		}
	}
	return n
}

// A state is a version, UID and N of each object.
type state map[lw.Key]string

func describe(obj *thing) string {
	return fmt.Sprintf("%s %s %d %d", obj.ResourceVersion, obj.UID, obj.N, len(obj.Text))
}

// caughtUp waits until the store has all that client has now, and compares it with what client had
// at the version that the store reports, and with the sum of the calls.
func (f *follower) caughtUp(t testing.TB, client *clientv3.Client) {
	t.Helper()
	ctx := within(t, time.Minute)
	now, err := client.Get(ctx, f.prefix, clientv3.WithCountOnly())
	noErr(t, err)
	if err := f.WaitForResourceVersion(ctx, fmt.Sprint(now.Header.Revision)); err != nil {
		// A new epoch ends the wait.
		if !errors.Is(err, lw.ErrRewound) {
			t.Fatalf("%v; errors: %v", err, f.errors())
		}
		noErr(t, f.WaitForResourceVersion(ctx, fmt.Sprint(now.Header.Revision)))
	}
	f.compare(t, client)
}

// compare compares the store, and the sum of the calls, with what client had at the store's
// version.
func (f *follower) compare(t testing.TB, client *clientv3.Client) {
	t.Helper()
	snapshot := f.Store().Snapshot()
	want := readState(t, client, f.prefix, snapshot.ResourceVersion())
	got := state{}
	for obj := range snapshot.All() {
		got[lw.KeyOf(obj)] = describe(obj)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("the store at %s, (-etcd +store):\n%s", snapshot.ResourceVersion(), diff)
	}
	rig.Met(t, time.Minute, "the sum of the calls is not the store", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		sum := state{}
		for key, obj := range f.sum {
			sum[key] = describe(obj)
		}
		return maps.Equal(sum, want)
	})
}

// readState reads what is under prefix at a version.
func readState(t testing.TB, client *clientv3.Client, prefix, version string) state {
	t.Helper()
	var revision int64
	noErr(t, second(fmt.Sscan(version, &revision)))
	resp, err := client.Get(within(t, time.Minute), prefix, clientv3.WithPrefix(), clientv3.WithRev(revision))
	if err != nil {
		t.Fatalf("the state at %s: %v", version, err)
	}
	out := state{}
	for _, kv := range resp.Kvs {
		var obj thing
		noErr(t, json.Unmarshal(kv.Value, &obj))
		namespace, name, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), prefix), "/")
		obj.Meta = lw.Meta{Namespace: namespace, Name: name, ResourceVersion: fmt.Sprint(kv.ModRevision), UID: obj.UID}
		if obj.UID == "" {
			obj.UID = uidOf(kv.CreateRevision)
		}
		out[lw.KeyOf(&obj)] = describe(&obj)
	}
	return out
}
