package e2e_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

var relaysFlag = flag.String("relays", "",
	"TestRelays has the faults that match this `regexp`; all of them take minutes")

// TestRelays follows a server through a relay, through a relay of that one, and through all three
// in turn, while the server and the relays fail in every way that there is.
func TestRelays(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		r := startRelays(t, kind, "relays")
		r.followAll(t, "first", r.first.URL)
		r.followAll(t, "second", r.second.URL)
		r.followAll(t, "in turn", r.server.URL, r.first.URL, r.second.URL)
		for _, fault := range relayFaults {
			if *relaysFlag == "" && !fault.often || !regexp.MustCompile(*relaysFlag).MatchString(fault.name) {
				continue
			}
			if fault.generic && kind.Name == servers.Kube.Name {
				t.Logf("%s: not of %s", fault.name, kind.Name)
				continue
			}
			begun := time.Now()
			var writes *churn
			if !fault.quiet {
				writes = startChurn(t, r.server, r.namespace)
				writes.more(t, 20)
			}
			fault.happens(t, r)
			if fault.quiet {
				writes = startChurn(t, r.server, r.namespace)
			}
			writes.more(t, 20)
			writes.stop()
			r.same(t, fault.name)
			t.Logf("%s: %v", fault.name, time.Since(begun).Round(time.Millisecond))
		}
	}, servers.Kinds...)
}

// A relayFault is what happens to a server and its relays, while somebody writes to the server. All
// is well afterwards.
type relayFault struct {
	name    string
	often   bool // also without -relays
	quiet   bool // nobody else writes until it is over
	generic bool // not of kube-apiserver
	happens func(t *testing.T, r *relays)
}

var relayFaults = []relayFault{
	{"server killed", true, false, false, func(t *testing.T, r *relays) {
		r.server.KillAPI()
		time.Sleep(time.Second)
		r.startAPI(t)
	}},
	{"server frozen", false, false, false, func(_ *testing.T, r *relays) {
		r.server.FreezeAPI()
		time.Sleep(2 * time.Second)
		r.server.ThawAPI()
	}},
	{"etcd killed", false, false, false, func(t *testing.T, r *relays) {
		r.server.KillEtcd()
		time.Sleep(time.Second)
		rig.OK(t, r.server.StartEtcd(within(t, patience)))
	}},
	{"first relay killed", true, false, false, func(t *testing.T, r *relays) { r.restart(t, r.first) }},
	{"second relay killed", false, false, false, func(t *testing.T, r *relays) { r.restart(t, r.second) }},
	{"first relay frozen", false, false, false, func(_ *testing.T, r *relays) {
		r.first.Freeze()
		time.Sleep(2 * time.Second)
		r.first.Thaw()
	}},
	{"server and first relay killed", false, false, false, func(t *testing.T, r *relays) {
		r.server.KillAPI()
		r.first.Kill()
		r.startAPI(t)
		r.start(t, r.first)
	}},
	// What happens between is seen by nobody, and forgotten before the server is back: a 410 for
	// the first relay, whose list then has differences, so a 410 for all behind it.
	{"compacted", true, false, false, func(t *testing.T, r *relays) {
		r.server.KillAPI()
		key := func(name string) string { return "/registry/configmaps/" + r.namespace + "/" + name }
		for i := range 3 {
			rig.OK(t, r.server.Put(within(t, patience), map[string][]byte{
				key("unseen"): stored(t, configMap(r.namespace, "unseen", fmt.Sprint(i)), "uid-of-unseen", ""),
			}))
		}
		rig.Must[int64](t)(r.server.Compact(within(t, patience)))
		r.startAPI(t)
	}},
	// The first relay begins anew at a server that answers lists with 429. kube-apiserver has
	// priority and fairness instead, from which an admin is exempt.
	{"too many requests", false, false, true, func(t *testing.T, r *relays) {
		r.server.KillAPI()
		args := r.server.Args
		r.server.Args = append(slices.Clone(args), "--max-requests-inflight=2")
		r.startAPI(t)
		release := occupy(t, r.server, servers.AdminToken, collection("secrets", ""), 4)
		r.restart(t, r.first)
		late := r.follow(t, "late, "+wires[1].name, wires[1], r.first.URL)
		rig.Until(t, patience, func() string {
			if late.client.count(func(req request) bool { return req.status == 429 || req.status == 504 }) == 0 &&
				!late.Status().Synced {
				return "nobody was refused"
			}
			return ""
		})
		release()
		r.server.KillAPI()
		r.server.Args = args
		r.startAPI(t)
	}},
	// These two are last: what goes to another history cannot go back, so nobody goes in turn.
	{"restored", false, true, false, func(t *testing.T, r *relays) {
		r.settle(t)
		backup := filepath.Join(t.TempDir(), "backup")
		r.server.Stop()
		rig.OK(t, r.server.BackupEtcd(backup))
		r.startServer(t)
		path := collection("configmaps", r.namespace)
		for i := range 30 {
			create(t, r.reader, path, configMap(r.namespace, fmt.Sprintf("lost-%d", i), "a"))
		}
		r.same(t, "before the restore")
		r.anotherHistory(t)
		r.server.Stop()
		rig.OK(t, r.server.RestoreEtcd(backup))
		time.Sleep(2 * time.Second) // an outage, and not one connection that broke
		r.startServer(t)
	}},
	{"wiped", false, true, false, func(t *testing.T, r *relays) {
		r.settle(t)
		// The new history must not reach the relays' position before they look: it would have the
		// same names at the same versions.
		path := collection("configmaps", r.namespace)
		create(t, r.reader, path, configMap(r.namespace, "often", "a"))
		for i := range 300 {
			update(t, r.reader, path+"/often", configMap(r.namespace, "often", fmt.Sprint(i)))
		}
		r.same(t, "before the wipe")
		r.anotherHistory(t)
		r.server.Stop()
		rig.OK(t, r.server.WipeEtcd())
		time.Sleep(2 * time.Second)
		r.startServer(t)
	}},
}

// relays are a server, a relay of it, a relay of that one, and those who follow them.
type relays struct {
	server        *servers.Server
	first, second *servers.Relay
	reader        *servers.Reader // of the server
	namespace     string

	followers []*follower[*corev1.ConfigMap]
	of        map[string]*witness // by the name of the follower
	stores    map[string]cache.Store
	turning   []string // the names of those that ask several servers in turn
}

func startRelays(t *testing.T, kind servers.Kind, namespace string) *relays {
	t.Helper()
	r := &relays{server: startServer(t, kind), namespace: namespace, of: map[string]*witness{},
		stores: map[string]cache.Store{}}
	r.reader = r.server.Reader("")
	t.Cleanup(r.reader.Close)
	var err error
	if r.first, err = r.server.NewRelay(r.server.URL); err != nil {
		t.Fatal(err)
	}
	r.start(t, r.first)
	// The second one keeps so little that a watch may fall out of it.
	if r.second, err = r.server.NewRelay(r.first.URL, "-events", "50"); err != nil {
		t.Fatal(err)
	}
	r.start(t, r.second)
	return r
}

func (r *relays) start(t *testing.T, relay *servers.Relay) {
	t.Helper()
	rig.OK(t, relay.Start(within(t, patience)))
	t.Cleanup(relay.Kill)
}

func (r *relays) restart(t *testing.T, relay *servers.Relay) {
	t.Helper()
	relay.Kill()
	time.Sleep(500 * time.Millisecond)
	r.start(t, relay)
}

func (r *relays) startAPI(t *testing.T) {
	t.Helper()
	rig.OK(t, r.server.StartAPI(within(t, patience)))
}

func (r *relays) startServer(t *testing.T) {
	t.Helper()
	rig.OK(t, r.server.Start(within(t, patience)))
}

// follow starts an informer of lw on these servers.
func (r *relays) follow(t *testing.T, name string, w wire, to ...string) *follower[*corev1.ConfigMap] {
	t.Helper()
	w.name, w.to = name, to
	c := newClient(t, r.server, w)
	src, path := configMaps(t, c, r.namespace)
	// Short watches: who asks several servers is soon at the next one.
	f := follow(t, c, path, src, followOptions{Options: lw.Options{WatchTimeout: 2 * time.Second}})
	of := &witness{}
	f.AddHandler(lw.Handler[*corev1.ConfigMap]{
		Add: of.sees, Update: func(_, new *corev1.ConfigMap) { of.sees(new) }, Delete: of.loses,
	})
	r.of[name] = of
	r.followers = append(r.followers, f)
	return f
}

// followAll starts informers of lw over several wires, and one of client-go.
func (r *relays) followAll(t *testing.T, name string, to ...string) {
	t.Helper()
	for _, w := range []wire{wires[0], wires[1], wires[4], wires[7]} {
		f := r.follow(t, name+", "+w.name, w, to...)
		f.synced()
		if len(to) > 1 {
			r.turning = append(r.turning, f.name())
		}
	}
	name += ", client-go"
	w := wires[5]
	w.name, w.to = name, to
	factory := informers.NewSharedInformerFactoryWithOptions(newClient(t, r.server, w).clientset(t), 0,
		informers.WithNamespace(r.namespace))
	inf := factory.Core().V1().ConfigMaps().Informer()
	of := &witness{again: true}
	if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { of.sees(obj.(*corev1.ConfigMap)) },
		UpdateFunc: func(_, obj any) { of.sees(obj.(*corev1.ConfigMap)) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(*corev1.ConfigMap); ok { // else nobody knows the last one
				of.loses(last)
			}
		},
	}); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); factory.Shutdown() })
	factory.Start(stop)
	if len(to) > 1 {
		r.turning = append(r.turning, name)
	}
	r.of[name], r.stores[name] = of, inf.GetStore()
}

// settle lets nobody ask several servers in turn any more.
func (r *relays) settle(t *testing.T) {
	t.Helper()
	r.followers = slices.DeleteFunc(r.followers, func(f *follower[*corev1.ConfigMap]) bool {
		if slices.Contains(r.turning, f.name()) {
			f.stop()
			return true
		}
		return false
	})
	for _, name := range r.turning {
		delete(r.stores, name)
		delete(r.of, name)
	}
}

// anotherHistory says that versions may go back now.
func (r *relays) anotherHistory(t *testing.T) {
	t.Helper()
	for _, f := range r.followers {
		f.early.rewinds()
		if f.late != nil {
			f.late.rewinds()
		}
	}
	for _, of := range r.of {
		of.forgets()
	}
}

// same waits until all have what the server has, and checks that none has gone back.
func (r *relays) same(t *testing.T, after string) {
	t.Helper()
	for _, f := range r.followers {
		f.same(r.reader)
	}
	for name, store := range r.stores {
		rig.Until(t, patience, func() string {
			want, _, err := r.reader.List(within(t, patience), collection("configmaps", r.namespace))
			if err != nil {
				return err.Error()
			}
			listed, got := map[string]string{}, map[string]string{}
			for key, obj := range want {
				listed[key] = obj.UID + " " + obj.ResourceVersion
			}
			for _, obj := range store.List() {
				got[keyString(obj.(*corev1.ConfigMap))] = string(obj.(*corev1.ConfigMap).UID) + " " +
					obj.(*corev1.ConfigMap).ResourceVersion
			}
			if diff := cmp.Diff(listed, got); diff != "" {
				return fmt.Sprintf("%s: the store is not the server's (-server +store):\n%s", name, diff)
			}
			return ""
		})
	}
	for _, name := range slices.Sorted(maps.Keys(r.of)) {
		if err := r.of[name].wrong(); err != nil {
			t.Errorf("%s: %s: %v", after, name, err)
		}
	}
}

// A witness notes the newest version of each object that a follower was told of, and whether it was
// told of an older one afterwards, or of an object after its end.
type witness struct {
	again bool // a list may tell of a version once more, as client-go does

	mu     sync.Mutex
	newest map[types.UID]uint64 // guarded by mu
	gone   map[types.UID]bool   // guarded by mu
	faults []error              // guarded by mu
}

func (w *witness) sees(obj *corev1.ConfigMap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.newest == nil {
		w.newest, w.gone = map[types.UID]uint64{}, map[types.UID]bool{}
	}
	version, err := strconv.ParseUint(obj.ResourceVersion, 10, 64)
	last := w.newest[obj.UID]
	if err != nil || w.gone[obj.UID] || version < last || version == last && !w.again {
		w.faults = append(w.faults, fmt.Errorf("%s (%s) at %s after %d, gone: %v (%v)", keyString(obj), obj.UID,
			obj.ResourceVersion, last, w.gone[obj.UID], err))
	}
	w.newest[obj.UID] = version
}

func (w *witness) loses(last *corev1.ConfigMap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone != nil {
		w.gone[last.UID] = true
	}
}

// forgets notes that versions may go back once. An object that is gone does not come back.
func (w *witness) forgets() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.newest)
}

// wrong returns what was wrong since it was last asked.
func (w *witness) wrong() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := errors.Join(w.faults...)
	w.faults = nil
	return err
}
