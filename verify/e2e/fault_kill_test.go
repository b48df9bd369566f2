package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// TestKillDuringWatch kills the server under open watches, up to three times, while somebody
// writes.
func TestKillDuringWatch(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "kill-watch"
		s, r := started(t, kind)
		all := followConfigMaps(t, s, namespace, followOptions{}, faultWires...)
		writes := startChurn(t, s, namespace)
		outages := 3
		if kind.Name == servers.Kube.Name {
			outages = 1 // it takes seconds to start
		}
		for range outages {
			writes.more(t, 30)
			dials := make([]int64, len(all))
			for i, f := range all {
				dials[i] = f.client.dials.Load()
			}
			s.KillAPI()
			for _, f := range all {
				// The store goes on answering, and the status does not hide the outage.
				rig.Until(t, patience, func() string {
					if st := f.Status(); !st.Synced || st.Failures == 0 || st.Err == nil {
						return fmt.Sprintf("%s: status during the outage: %+v", f.name(), st)
					}
					return ""
				})
				if f.client.count(broke) == 0 {
					t.Errorf("%s: no request broke", f.name())
				}
			}
			rig.OK(t, s.StartAPI(within(t, patience)))
			writes.more(t, 10)
			for i, f := range all {
				f.recovered()
				if f.client.dials.Load() == dials[i] {
					t.Errorf("%s: no new connection after the server was killed", f.name())
				}
			}
		}
		writes.stop()
		if _, failed := writes.counts(); failed == 0 {
			t.Error("no write failed: the server was never away")
		}
		for _, f := range all {
			f.same(r)
			f.paced()
			// A server that comes back knows what its clients missed, or says that it does not,
			// which costs a list or a streamed one.
			elapsed := time.Since(f.start)
			f.bounded(2*outages, 1+outages*attempts(elapsed/3))
		}
	}, servers.Kinds...)
}

// TestKillDuringFirstList kills the server while the answer to the first list is on its way.
func TestKillDuringFirstList(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace, objects = "kill-list", 1000
		for _, c := range []struct {
			mode lw.ListMode
			verb string
		}{
			{lw.ListWhole, verbList},
			{lw.ListPages, verbPage},
			{lw.ListAuto, verbStream},
		} {
			t.Run(string(c.mode), func(t *testing.T) {
				t.Parallel()
				s, r := started(t, kind)
				seed(t, s, namespace, objects, 20_000)
				for _, w := range faultWires {
					client := newClient(t, s, w)
					src, path := configMaps(t, client, namespace)
					killed := make(chan struct{})
					client.after(c.verb, 300_000, func() {
						s.KillAPI()
						close(killed)
					})
					f := follow(t, client, path, src, followOptions{Options: lw.Options{List: c.mode, PageSize: 200}})
					select {
					case <-killed:
					case <-time.After(patience):
						t.Fatalf("%s: the server was not killed", f.name())
					}
					f.told("the broken "+c.verb, func(err error) bool { return true })
					if st := f.Status(); st.Synced || st.Objects != 0 || f.Store().Len() != 0 {
						t.Errorf("%s: part of a list is in the store: %+v", f.name(), st)
					}
					if client.count(broke) == 0 {
						t.Errorf("%s: no request broke", f.name())
					}
					rig.OK(t, s.StartAPI(within(t, patience)))
					f.synced()
					if got := f.Store().Len(); got != objects {
						t.Errorf("%s: %d objects after the first sync, want %d", f.name(), got, objects)
					}
					// The first event says that all is well; else the watch would have to be open
					// for a while.
					after := create(t, r, path, configMap(namespace, "after", "a"))
					f.same(r)
					remove(t, r, path+"/"+after.Name)
					f.paced()
					f.bounded(attempts(time.Since(f.start)), attempts(time.Since(f.start))+1)
					f.stop()
				}
			})
		}
	}, servers.Generic)
}

// TestMissedWhileDown changes the collection while the server is down, so that no watch can tell:
// after the restart the versions that the informers stand at are too old, and a list has to show
// what became of each object.
func TestMissedWhileDown(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "missed"
		s, r := started(t, kind)
		path := collection("configmaps", namespace)
		for _, name := range []string{"stays", "changes", "goes", "again"} {
			create(t, r, path, configMap(namespace, name, "before"))
		}
		all := followConfigMaps(t, s, namespace, followOptions{}, faultWires...)
		inStep(t, r, all...)
		before, version, err := r.List(within(t, patience), path)
		if err != nil {
			t.Fatal(err)
		}
		s.KillAPI()
		key := func(name string) string { return "/registry/configmaps/" + namespace + "/" + name }
		rig.OK(t, s.Put(within(t, patience), map[string][]byte{
			key("changes"): stored(t, configMap(namespace, "changes", "after"), before[namespace+"/changes"].UID, ""),
			key("again"):   stored(t, configMap(namespace, "again", "after"), "another", ""),
			key("new"):     stored(t, configMap(namespace, "new", "after"), "new", ""),
		}))
		rig.OK(t, s.Delete(within(t, patience), key("goes")))
		rig.OK(t, s.StartAPI(within(t, patience)))
		if code := watchError(t, r, path+"?watch=1&resourceVersion="+version); code != 410 {
			t.Errorf("a plain watch from version %s ended with %d, want 410", version, code)
		}
		for _, f := range all {
			f.told("410", isExpired)
			f.same(r)
			// Each change is told once; what stayed is not told again.
			f.called(4+2, 1, 2)
			f.paced()
			f.bounded(1, 3+attempts(time.Since(f.start)))
		}
	}, servers.Generic)
}
