package e2e_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// TestRestored puts a backup in the place of etcd's data, while nobody can reach the servers. When
// the API server is back it is behind the position of the informers, or it is past it: then only
// the newest object of a copy tells that its server has another history.
//
// A restarted watch cache answers 410 to a watch from before its start, so a list follows. Without
// a cache the watch goes on as if nothing had been, in the other history.
func TestRestored(t *testing.T) { testRestored(t) }

func TestRestoredWithoutWatchCache(t *testing.T) { testRestored(t, uncached) }

func testRestored(t *testing.T, args ...string) {
	on(t, func(t *testing.T, kind servers.Kind) {
		s, r := started(t, kind, args...)
		for _, past := range []bool{false, true} {
			for _, names := range []string{"same", "new"} {
				where := "behind"
				if past {
					where = "past"
				}
				restored(t, s, r, fmt.Sprintf("restored-%s-%s", where, names), names == "same", past, len(args) > 0)
			}
		}
	}, servers.Generic, servers.Kube)
}

// restored restores s once, and checks what informers of the namespace make of it.
func restored(t *testing.T, s *servers.Server, r *servers.Reader, namespace string, same, past, uncached bool) {
	path, backup := collection("configmaps", namespace), filepath.Join(t.TempDir(), "backup")
	const objects = 40
	name := func(i int) string { return fmt.Sprintf("common-%03d", i) }
	uids := map[string]string{}
	for i := range objects {
		uids[name(i)] = create(t, r, path, configMap(namespace, name(i), "common")).UID
	}
	restart := func(between func() error) {
		t.Helper()
		s.Stop()
		rig.OK(t, between())
		rig.OK(t, s.StartEtcd(within(t, patience)))
	}
	restart(func() error { return s.BackupEtcd(backup) })
	rig.OK(t, s.StartAPI(within(t, patience)))

	// What is lost. The last object that is written is one that nobody writes afterwards.
	for i := range 2 * objects {
		update(t, r, path+"/"+name(i%(objects-1)), configMap(namespace, name(i%(objects-1)), fmt.Sprint("lost-", i)))
		create(t, r, path, configMap(namespace, fmt.Sprintf("lost-%03d", i), "lost"))
	}
	update(t, r, path+"/"+name(objects-1), configMap(namespace, name(objects-1), "lost"))
	all := followConfigMaps(t, s, namespace, followOptions{}, faultWires...)
	for _, f := range all {
		f.same(r)
		f.early.rewinds()
		f.late.rewinds()
	}
	before := rig.Must[int64](t)(s.Revision(within(t, patience)))

	// The API server does not run yet, so this goes into etcd.
	restart(func() error { return s.RestoreEtcd(backup) })
	for i := 0; ; i++ {
		now := rig.Must[int64](t)(s.Revision(within(t, patience)))
		if !past && i == objects/2 || past && now > before+10 {
			break
		}
		to, uid := fmt.Sprintf("new-%03d", i), fmt.Sprint("uid-of-new-", i)
		if same {
			to = name(i % (objects - 1))
			uid = uids[to]
		}
		value := stored(t, configMap(namespace, to, fmt.Sprint("new-", i)), uid, "")
		rig.OK(t, s.Put(within(t, patience), map[string][]byte{"/registry/configmaps/" + namespace + "/" + to: value}))
	}
	time.Sleep(2 * time.Second) // an outage, and not one connection that broke
	rig.OK(t, s.StartAPI(within(t, patience)))
	now := rig.Must[int64](t)(s.Revision(within(t, patience)))
	if past != (now > before) {
		t.Fatalf("the server was at %d, and is at %d; past: %v", before, now, past)
	}
	if past && uncached {
		if code := watchError(t, r, fmt.Sprintf("%s?watch=1&timeoutSeconds=2&resourceVersion=%d", path, before)); code != 0 {
			t.Errorf("a plain watch from version %d ended with %d, want silence", before, code)
		}
	}
	begun := time.Now()
	for _, f := range all {
		f.told("the new epoch", func(err error) bool { return errors.Is(err, lw.ErrRewound) })
		f.same(r)
		if st := f.Status(); st.Epoch != 1 {
			t.Errorf("%s: status reports epoch %d, want 1", f.name(), st.Epoch)
		}
		f.paced()
	}
	t.Logf("%s: from version %d to %d, found within %v", namespace, before, now, time.Since(begun).Round(time.Millisecond))
	create(t, r, path, configMap(namespace, "afterwards", "a"))
	for _, f := range all {
		f.same(r)
		f.stop()
	}
}
