package e2e_test

import (
	"flag"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/kinds"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

var kindRounds = flag.Int("kinds", 3, "how often TestManyKinds makes and deletes its definitions")

// A rooms is a definition of the kind Room, and an informer that follows it, whether it is served or
// not.
type rooms struct {
	t *testing.T
	*follower[*unstructured.Unstructured]
	r      *servers.Reader
	plural string
}

// followRooms follows the kind of a plural, in all namespaces, through a gate of the catalog.
func followRooms(t *testing.T, r *servers.Reader, c *client, catalog *kinds.Catalog, plural string) *rooms {
	source := kinds.Source[*unstructured.Unstructured](catalog, kinds.Name{Group: "lw.test", Resource: plural}, nil)
	return &rooms{t, follow(t, c, "/apis/lw.test/v1/"+plural, source, followOptions{}), r, plural}
}

// catalogOf runs a catalog of a server until the end of the test.
func catalogOf(t *testing.T, c *client) *kinds.Catalog {
	catalog := kinds.New(c.url, c.http)
	ended := make(chan error, 1)
	ctx := t.Context()
	go func() { ended <- catalog.Run(ctx) }()
	t.Cleanup(func() { <-ended })
	return catalog
}

// define creates the definition with the versions v1, which is stored, and v2.
func (f *rooms) define(scope string) {
	f.t.Helper()
	version := func(name string, stored bool) object {
		return object{"name": name, "served": true, "storage": stored, "schema": object{"openAPIV3Schema": object{
			"type": "object", "description": "a room", "x-kubernetes-preserve-unknown-fields": true}}}
	}
	create(f.t, f.r, crds, object{
		"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
		"metadata": object{"name": f.plural + ".lw.test"},
		"spec": object{"group": "lw.test", "scope": scope,
			"names":    object{"plural": f.plural, "singular": f.plural + "-one", "kind": kindOf(f.plural), "listKind": kindOf(f.plural) + "List"},
			"versions": []object{version("v1", true), version("v2", false)}},
	})
	mustBeServed(f.t, f.r, f.path)
}

// definition is the path of the definition.
func (f *rooms) definition() string { return crds + "/" + f.plural + ".lw.test" }

// undefine deletes the definition.
func (f *rooms) undefine() {
	f.t.Helper()
	remove(f.t, f.r, f.definition())
}

// gone waits until the server has no definition.
func (f *rooms) gone() {
	f.t.Helper()
	rig.Until(f.t, patience, func() string {
		if _, err := f.r.Get(within(f.t, patience), f.definition()); !isNotFound(err) {
			return fmt.Sprintf("the definition is there: %v", err)
		}
		return ""
	})
}

// add creates an object.
func (f *rooms) add(namespace, name string, finalizers ...string) {
	f.t.Helper()
	path := "/apis/lw.test/v1/" + f.plural
	meta := object{"name": name, "finalizers": finalizers}
	if namespace != "" {
		path, meta["namespace"] = "/apis/lw.test/v1/namespaces/"+namespace+"/"+f.plural, namespace
	}
	create(f.t, f.r, path, object{"kind": kindOf(f.plural), "apiVersion": "lw.test/v1", "metadata": meta})
}

// has waits until the informer, which is in step, has n objects, and its handler was called so
// often.
func (f *rooms) has(n, adds, deletes int) {
	f.t.Helper()
	rig.Until(f.t, patience, func() string {
		a, _, d := f.calls()
		if st := f.Status(); st.Objects != n || a != adds || d != deletes || !st.Synced || st.Err != nil {
			return fmt.Sprintf("%s: %d objects, %d Adds, %d Deletes, want %d, %d, %d; %+v", f.plural, st.Objects, a, d, n, adds, deletes, st)
		}
		return ""
	})
}

// asked counts the requests for the kind, and with a verb those alone.
func (f *rooms) asked(verb string) int {
	return f.client.count(func(r request) bool {
		return strings.Contains(r.path, "/"+f.plural) && (verb == "" || r.verb == verb)
	})
}

// TestKinds follows a kind of kube-apiserver through all that may happen to its definition.
func TestKinds(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		s, r := shared(t, kind)
		c := newClient(t, s, wire{name: "kinds"})
		catalog := catalogOf(t, c)
		f := followRooms(t, r, c, catalog, "rooms")
		f.synced()
		f.has(0, 0, 0)
		if n := f.asked(""); n != 0 {
			t.Errorf("%d requests for a kind that nobody serves:\n%v", n, c.recorder)
		}

		f.define("Namespaced")
		f.add("default", "first") // the server takes two seconds for the first object of a kind
		began := time.Now()
		f.has(1, 1, 0)
		t.Logf("the first object is seen %v after its creation", time.Since(began).Round(time.Millisecond))
		for i := range 100 {
			f.add("default", fmt.Sprint("room-", i))
		}
		f.has(101, 101, 0)

		// The server ends all watches a second after a description has changed. The history of its next
		// storage may begin anew, so that it refuses the last version: that is one list, and no failure.
		lists := f.asked(verbList) + f.asked(verbStream)
		const changes = 5
		for i := range changes {
			watches := f.asked(verbWatch)
			rig.Must[[]byte](t)(r.Do(within(t, patience), http.MethodPatch, f.definition(), "application/json-patch+json", []object{
				{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": fmt.Sprint("room ", i)}}))
			if i%2 == 0 { // while the watch of before is open
				f.add("default", fmt.Sprint("late-", i))
				f.has(102+i, 102+i, 0)
			}
			f.requested(watches+1, "watches of the kind", func(r request) bool {
				return r.verb == verbWatch && strings.HasSuffix(r.path, "/"+f.plural)
			})
			if i%2 == 1 {
				f.add("default", fmt.Sprint("late-", i))
				f.has(102+i, 102+i, 0)
			}
		}
		if n := f.asked(verbList) + f.asked(verbStream) - lists; n > changes {
			t.Errorf("%d lists since a description has changed %d times:\n%v", n, changes, c.recorder)
		}
		t.Logf("%d lists after %d changes of a description", f.asked(verbList)+f.asked(verbStream)-lists, changes)
		if errs := f.errs.all(); len(errs) > 0 {
			t.Errorf("OnError was told of %v", errs)
		}

		// A withdrawn version deletes nothing. The other one is followed in its place, or none.
		for _, served := range []bool{false, true} {
			rig.Must[[]byte](t)(r.Do(within(t, patience), http.MethodPatch, f.definition(), "application/json-patch+json", []object{
				{"op": "replace", "path": "/spec/versions/1/served", "value": served}}))
			rig.Until(t, patience, func() string {
				if _, err := r.Get(within(t, patience), "/apis/lw.test/v2/rooms"); (err == nil) != served {
					return fmt.Sprintf("v2 is served: %v", err)
				}
				return ""
			})
			f.add("default", fmt.Sprint("served-", served))
		}
		rig.Until(t, patience, func() string {
			if n := f.Status().Objects; n != 108 {
				return fmt.Sprintf("%d objects, want 108", n)
			}
			return ""
		})
		if _, _, deletes := f.calls(); deletes != 0 {
			t.Errorf("%d Deletes of a version that was withdrawn", deletes)
		}

		// A finalizer holds its object, and with it the definition, and the kind is followed until then.
		f.add("default", "held", "lw.test/held")
		f.has(109, 109, 0)
		f.undefine()
		f.has(1, 109, 108)
		merge(t, r, "/apis/lw.test/v1/namespaces/default/rooms/held", object{"metadata": object{"finalizers": nil}})
		f.gone()
		f.has(0, 109, 109)

		f.define("Cluster")
		f.add("", "one")
		f.has(1, 110, 109)
		f.undefine()
		f.gone()
		f.has(0, 110, 110)
	}, servers.Kube)
}

// TestKindsWithoutRight follows a kind as a user who may read it, and neither definitions nor
// APIServices: discovery says what is served.
func TestKindsWithoutRight(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		s := sharedServer(t, kind)
		r := reader(t, s, "")
		create(t, r, rbac+"clusterroles", object{"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1",
			"metadata": object{"name": "attics"},
			"rules":    []object{{"apiGroups": []string{"lw.test"}, "resources": []string{"attics"}, "verbs": []string{"list", "watch"}}}})
		create(t, r, rbac+"clusterrolebindings", object{"kind": "ClusterRoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
			"metadata": object{"name": "attics"},
			"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "attics"},
			"subjects": []object{{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": servers.User}}})
		c := newClient(t, s, wire{name: "attics", token: servers.UserToken})
		f := followRooms(t, r, c, catalogOf(t, c), "attics")
		f.synced()
		for round := range 2 {
			if n := f.asked(verbList) + f.asked(verbStream); n != round {
				t.Errorf("%d lists, want %d", n, round)
			}
			f.define("Namespaced")
			f.add("default", "one")
			began := time.Now()
			f.has(1, round+1, round)
			t.Logf("found after %v", time.Since(began).Round(time.Millisecond))
			f.undefine()
			f.gone()
			f.has(0, round+1, round+1)
		}
	}, servers.Kube)
}

// TestKindsOfAServerThatDies kills the API server while a kind is absent, and while it is followed.
func TestKindsOfAServerThatDies(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		s, r := started(t, kind)
		c := newClient(t, s, wire{name: "sheds"})
		f := followRooms(t, r, c, catalogOf(t, c), "sheds")
		f.synced()
		restart := func() {
			t.Helper()
			s.KillAPI()
			rig.OK(t, s.StartAPI(within(t, patience)))
		}
		restart()
		f.define("Namespaced")
		f.add("default", "one")
		f.has(1, 1, 0)
		restart()
		f.add("default", "two")
		f.has(2, 2, 0)
		f.undefine()
		restart()
		f.gone()
		f.has(0, 2, 2)
	}, servers.Kube)
}

// TestManyKinds makes 40 definitions and deletes them, again and again: each object is seen to come
// and to go, and in the end there are as many goroutines as at first, and no request for a kind.
func TestManyKinds(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		s, r := started(t, kind)
		c := newClient(t, s, wire{name: "many kinds"})
		catalog := catalogOf(t, c)
		var all []*rooms
		for i := range 40 {
			f := followRooms(t, r, c, catalog, fmt.Sprintf("halls%d", i))
			f.synced()
			all = append(all, f)
		}
		goroutines := runtime.NumGoroutine()
		for round := range *kindRounds {
			for _, f := range all {
				f.define("Namespaced")
			}
			for _, f := range all {
				f.add("default", "one")
			}
			for _, f := range all {
				f.has(1, round+1, round)
				f.undefine()
			}
			for _, f := range all {
				f.gone()
				f.has(0, round+1, round+1)
			}
		}
		rig.Until(t, patience, func() string {
			if n := runtime.NumGoroutine(); n > goroutines+10 {
				return fmt.Sprintf("%d goroutines, %d at first", n, goroutines)
			}
			return ""
		})
		asked := func() (n int) {
			for _, f := range all {
				n += f.asked("")
			}
			return n
		}
		before := asked()
		time.Sleep(5 * time.Second)
		if n := asked() - before; n != 0 {
			t.Errorf("%d requests for kinds that are gone:\n%v", n, c.recorder)
		}
	}, servers.Kube)
}
