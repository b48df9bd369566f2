package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// TestFrozenDuringWatch freezes the server under open watches for a few seconds. Nothing is lost,
// and nothing has to be asked for again.
func TestFrozenDuringWatch(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "frozen-watch"
		s, r := started(t, kind)
		all := followConfigMaps(t, s, namespace, followOptions{}, faultWires...)
		writes := startChurn(t, s, namespace)
		writes.more(t, 30)
		s.FreezeAPI()
		stillFrozen(t, r)
		for _, f := range all {
			if st := f.Status(); !st.Synced || st.Phase != "watching" || f.Store().Len() == 0 {
				t.Errorf("%s: status while the server is frozen: %+v", f.name(), st)
			}
		}
		time.Sleep(3 * time.Second)
		s.ThawAPI()
		writes.more(t, 30)
		writes.stop()
		for _, f := range all {
			f.same(r)
			f.bounded(0, 2)
			for _, err := range f.errs.all() {
				t.Errorf("%s: %v", f.name(), err)
			}
		}
	}, servers.Generic)
}

// stillFrozen checks that the server does not answer.
func stillFrozen(t testing.TB, r *servers.Reader) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := r.Get(ctx, "/api/v1/nodes"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the server is not frozen: %v", err)
	}
}

// TestFrozenForLong freezes the server for longer than a watch may be silent: the watch has to be
// given up.
func TestFrozenForLong(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "frozen-long"
		s, r := started(t, kind)
		path := collection("configmaps", namespace)
		create(t, r, path, configMap(namespace, "o", "a"))
		all := followConfigMaps(t, s, namespace, followOptions{Options: lw.Options{WatchTimeout: 2 * time.Second}},
			faultWires...)
		s.FreezeAPI()
		stillFrozen(t, r)
		for _, f := range all {
			f.told("the silence", isOp("watch"))
			if _, ok := f.Store().Get(lw.Key{Namespace: namespace, Name: "o"}); !ok {
				t.Errorf("%s: the store does not answer while the server is frozen", f.name())
			}
		}
		s.ThawAPI()
		create(t, r, path, configMap(namespace, "p", "a"))
		for _, f := range all {
			f.same(r)
			f.paced()
		}
	}, servers.Generic)
}

// TestFrozenDuringList freezes the server while the first list is on its way.
func TestFrozenDuringList(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace, objects = "frozen-list", 1000
		s, r := started(t, kind)
		seed(t, s, namespace, objects, 20_000)
		for _, w := range faultWires {
			client := newClient(t, s, w)
			src, path := configMaps(t, client, namespace)
			frozen := make(chan struct{})
			client.after(verbStream, 300_000, func() {
				s.FreezeAPI()
				close(frozen)
			})
			f := follow(t, client, path, src, followOptions{Options: lw.Options{SyncBudget: 2 * time.Second}})
			select {
			case <-frozen:
			case <-time.After(patience):
				t.Fatalf("%s: the server was not frozen", f.name())
			}
			stillFrozen(t, r)
			f.told("the stream that makes no progress", isOp("stream"))
			if st := f.Status(); st.Synced || f.Store().Len() != 0 {
				t.Errorf("%s: part of a list is in the store: %+v", f.name(), st)
			}
			s.ThawAPI()
			f.synced()
			if got := f.Status().Mode; got != lw.ListPages {
				t.Errorf("%s: status says that the list was %v, want pages after a stream without progress", f.name(), got)
			}
			f.same(r)
			f.bounded(2, 3)
			f.stop()
		}
	}, servers.Generic)
}

// TestEtcdDown stops etcd under the server: writes and consistent reads fail, open watches stay
// open, and go on when it is back.
func TestEtcdDown(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "etcd-down"
		s, r := started(t, kind)
		path := collection("configmaps", namespace)
		create(t, r, path, configMap(namespace, "o", "a"))
		all := followConfigMaps(t, s, namespace, followOptions{}, faultWires...)
		s.KillEtcd()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Do(ctx, "POST", path, "", configMap(namespace, "lost", "a")); err == nil {
			t.Error("a write succeeded without etcd")
		}
		late := startConfigMaps(t, s, namespace, followOptions{Options: lw.Options{SyncBudget: 2 * time.Second}},
			faultWires...)
		time.Sleep(3 * time.Second)
		for _, f := range all {
			if st := f.Status(); !st.Synced || f.Store().Len() != 1 {
				t.Errorf("%s: status without etcd: %+v", f.name(), st)
			}
		}
		for _, f := range late {
			if st := f.Status(); st.Synced {
				t.Errorf("%s: synced with a server that cannot read its own storage: %+v", f.name(), st)
			}
		}
		rig.OK(t, s.StartEtcd(within(t, patience)))
		rig.Until(t, patience, func() string {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if _, err := r.Do(ctx, "PUT", path+"/o", "", configMap(namespace, "o", "b")); err != nil {
				return fmt.Sprint("a write after etcd came back: ", err)
			}
			return ""
		})
		for _, f := range append(all, late...) {
			f.synced()
			f.same(r)
			f.paced()
		}
		for _, f := range all {
			f.bounded(2, 4)
		}
	}, servers.Generic)
}

// TestEtcdWiped replaces the server's storage by an empty one, as a restored backup does: its
// versions begin again, and those that the informers know are of a future that will not come.
func TestEtcdWiped(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "etcd-wiped"
		s, r := started(t, kind)
		path := collection("configmaps", namespace)
		for i := range 200 {
			update(t, r, path+"/"+create(t, r, path, configMap(namespace, fmt.Sprintf("old-%03d", i), "a")).Name,
				configMap(namespace, fmt.Sprintf("old-%03d", i), "b"))
		}
		all := followConfigMaps(t, s, namespace, followOptions{}, faultWires...)
		before := rig.Must[int64](t)(s.Revision(within(t, patience)))
		waits := make(chan error, len(all))
		for _, f := range all {
			f.same(r)
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				waits <- f.WaitForResourceVersion(ctx, fmt.Sprint(before+10))
			}()
		}
		s.Stop()
		rig.OK(t, s.WipeEtcd())
		rig.OK(t, s.Start(within(t, patience)))
		create(t, r, path, configMap(namespace, "new", "a"))
		create(t, r, path, configMap(namespace, "old-007", "again"))
		after := rig.Must[int64](t)(s.Revision(within(t, patience)))
		if after >= before {
			t.Fatalf("the server's version did not go back: from %d to %d", before, after)
		}
		if events := watchEvents(t, r, fmt.Sprintf("%s?watch=1&timeoutSeconds=2&resourceVersion=%d", path,
			before)); events != 0 {
			t.Errorf("a plain watch from version %d has seen %d events, want silence", before, events)
		}
		for _, f := range all {
			f.told("the new epoch", func(err error) bool { return errors.Is(err, lw.ErrRewound) })
			f.same(r)
			if st := f.Status(); st.Epoch != 1 {
				t.Errorf("%s: status reports epoch %d, want 1", f.name(), st.Epoch)
			}
			if adds, _, deletes := f.calls(); deletes != 200 || adds != 202 {
				t.Errorf("%s: %d calls of Add and %d of Delete, want 202 and 200", f.name(), adds, deletes)
			}
			f.paced()
		}
		for range all {
			if err := <-waits; !errors.Is(err, lw.ErrRewound) {
				t.Errorf("a wait for a version of the epoch before: %v, want ErrRewound", err)
			}
		}
		create(t, r, path, configMap(namespace, "newer", "a"))
		inStep(t, r, all...)
	}, servers.Generic)
}
