package clientgo_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw/internal/rig"
)

// byLabels indexes a pod by the keys of its labels.
func byLabels(obj any) ([]string, error) {
	keys := []string{}
	for k := range obj.(*corev1.Pod).Labels {
		keys = append(keys, k)
	}
	return keys, nil
}

// A unit test seeds the store of an informer that it does not run, and its listers find the
// objects.
func TestFixtures(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		inf := impl.new(server, cache.SharedIndexInformerOptions{Indexers: cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "labels": byLabels,
		}})
		x := inf.GetIndexer()
		rig.OK(t, x.Add(labelled("a", "x=1")))
		rig.OK(t, x.Add(labelled("b", "x=1", "y=1")))
		rig.OK(t, x.Update(labelled("c", "y=1")))
		rig.OK(t, x.Update(labelled("a", "x=2")))
		rig.OK(t, x.Add(pod("", "cluster")))
		rig.OK(t, x.Add(pod("other", "a")))
		rig.OK(t, x.Delete(labelled("c")))
		rig.OK(t, x.Delete(labelled("never")))
		rig.OK(t, x.Delete(cache.DeletedFinalStateUnknown{Key: "other/a"}))
		rig.OK(t, x.Resync())

		keys := x.ListKeys()
		slices.Sort(keys)
		rig.Same(t, "keys", []string{"cluster", "ns/a", "ns/b"}, keys)
		rig.Same(t, "objects", []string{"a", "b", "cluster"}, names(x.List()))
		for key, want := range map[string]bool{
			"ns/a": true, "cluster": true, "/cluster": false, "a": false, "ns/c": false, "ns/a/": false, "ns/a/b": false, "": false, "/": false, "ns/": false,
		} {
			obj, ok, err := x.GetByKey(key)
			if ok != want || err != nil || (obj != nil) != want {
				t.Errorf("GetByKey(%q): %v, %t, %v", key, obj, ok, err)
			}
		}
		for _, by := range []any{labelled("a"), &metav1.ObjectMeta{Namespace: "ns", Name: "a"}, cache.ExplicitKey("ns/a"), cache.DeletedFinalStateUnknown{Key: "ns/a"}} {
			obj, ok, err := x.Get(by)
			if !ok || err != nil || obj.(*corev1.Pod).Labels["x"] != "2" {
				t.Errorf("Get(%v): %v, %t, %v", by, obj, ok, err)
			}
		}
		for name, err := range map[string]error{
			"Get": func() error { _, _, err := x.Get("a string"); return err }(), "Add": x.Add(17), "Update": x.Update(struct{}{}),
			"Delete": x.Delete("a string"), "Replace": x.Replace([]any{labelled("q"), "a string"}, "9"), "Add of nil": x.Add(nil),
		} {
			if !errors.As(err, new(cache.KeyError)) {
				t.Errorf("%s without metadata: error %v", name, err)
			}
		}

		by := func(value string) []string {
			t.Helper()
			objs, err := x.ByIndex("labels", value)
			rig.OK(t, err)
			return names(objs)
		}
		rig.Same(t, "by index", [][]string{{"a", "b"}, {"b"}, {}}, [][]string{by("x"), by("y"), by("z")})
		indexKeys, err := x.IndexKeys("labels", "x")
		rig.OK(t, err)
		rig.Same(t, "index keys", []string{"ns/a", "ns/b"}, indexKeys)
		for _, tc := range []struct {
			of   *corev1.Pod
			want []string
		}{{labelled("?", "x=0", "y=0"), []string{"a", "b"}}, {labelled("?", "y=0"), []string{"b"}}, {labelled("?"), []string{}}, {labelled("?", "z=0"), []string{}}} {
			objs, err := x.Index("labels", tc.of)
			rig.OK(t, err)
			if diff := cmp.Diff(tc.want, names(objs)); diff != "" {
				t.Errorf("Index(%v) (-want +got):\n%s", tc.of.Labels, diff)
			}
		}
		values := x.ListIndexFuncValues("labels")
		slices.Sort(values)
		rig.Same(t, "values", []string{"x", "y"}, values)
		if got := x.ListIndexFuncValues("none"); got == nil || len(got) > 0 {
			t.Errorf("values of no index: %#v", got)
		}
		for name, err := range map[string]error{
			"ByIndex":   func() error { _, err := x.ByIndex("none", "x"); return err }(),
			"Index":     func() error { _, err := x.Index("none", labelled("a")); return err }(),
			"IndexKeys": func() error { _, err := x.IndexKeys("none", "x"); return err }(),
		} {
			if err == nil || !strings.HasSuffix(err.Error(), "Index with name none does not exist") {
				t.Errorf("%s of no index: %v", name, err)
			}
		}

		lister := corelisters.NewPodLister(x)
		pods, err := lister.Pods("ns").List(labels.SelectorFromSet(labels.Set{"x": "2"}))
		if err != nil || len(pods) != 1 || pods[0].Name != "a" {
			t.Errorf("the lister lists %v, %v", pods, err)
		}
		if p, err := lister.Pods("ns").Get("b"); err != nil || p.Name != "b" {
			t.Errorf("the lister gets %v, %v", p, err)
		}
		rig.OK(t, x.Replace([]any{labelled("new", "z=1"), labelled("b", "z=1")}, "7"))
		rig.Same(t, "objects after Replace", []string{"b", "new"}, names(x.List()))
		rig.Same(t, "by index after Replace", [][]string{{}, {"b", "new"}}, [][]string{by("x"), by("z")})
		if got := inf.GetStore().ListKeys(); len(got) != 2 {
			t.Errorf("the store has %v", got)
		}
		for i := range 50 {
			rig.OK(t, x.Add(labelled(fmt.Sprint("pod-", i*7%50), "many=1")))
		}
		if keys, err := x.IndexKeys("labels", "many"); err != nil || len(keys) != 50 || !slices.IsSorted(keys) {
			t.Errorf("the keys of many objects: %v, %v", keys, err)
		}
	})
}

// A typed store takes no object of another type.
func TestFixtureOfAnotherType(t *testing.T) {
	x := implementations["SharedIndexInformer"].new(newPodMemory(), cache.SharedIndexInformerOptions{}).GetIndexer()
	for want, obj := range map[string]any{
		"clientgo: a *v1.Secret is no object of this informer": &corev1.Secret{},
		"clientgo: a *v1.Pod is no object of this informer":    (*corev1.Pod)(nil),
	} {
		if err := x.Add(obj); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if n := len(x.List()); n > 0 {
		t.Errorf("%d objects", n)
	}
}

// The version of a store that a test has seeded is that of the last write; of a store that an
// informer fills, the server's.
func TestStoreResourceVersion(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		inf := impl.new(server, cache.SharedIndexInformerOptions{})
		x := inf.GetIndexer()
		want := func(when, version string) {
			t.Helper()
			if got := x.LastStoreSyncResourceVersion(); got != version {
				t.Errorf("%s: version %q, want %q", when, got, version)
			}
		}
		want("empty", "")
		p := labelled("a")
		p.ResourceVersion = "6"
		rig.OK(t, x.Add(p))
		want("Add", "6")
		p = p.DeepCopy()
		p.ResourceVersion = "7"
		rig.OK(t, x.Update(p))
		want("Update", "7")
		p = labelled("a")
		p.ResourceVersion = "8"
		rig.OK(t, x.Delete(p))
		want("Delete", "8")
		x.Bookmark("9")
		want("Bookmark", "9")
		rig.OK(t, x.Replace(nil, "10"))
		want("Replace", "10")
		if got := inf.LastSyncResourceVersion() + inf.GetController().LastSyncResourceVersion(); got != "" {
			t.Errorf("LastSyncResourceVersion before Run: %s", got)
		}
		server.create(t, labelled("b"), labelled("c"))
		runInformer(t, inf)
		synctest.Wait()
		version := server.ResourceVersion()
		want("the first list", version)
		if a, b := inf.LastSyncResourceVersion(), inf.GetController().LastSyncResourceVersion(); a != version || b != version {
			t.Errorf("LastSyncResourceVersion %s, %s; want %s", a, b, version)
		}
		server.create(t, labelled("d"))
		synctest.Wait()
		want("an event", server.ResourceVersion())
		server.Bookmark()
	})
}

// Indexes are added before Run, while it runs, and through the indexer; a name is taken once.
func TestAddIndexers(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		server.create(t, labelled("a", "x=1"), labelled("b", "x=1", "y=1"))
		inf := impl.new(server, cache.SharedIndexInformerOptions{Indexers: cache.Indexers{"0": byLabels}})
		add := func(name string, by func(cache.Indexers) error) {
			t.Helper()
			if err := by(cache.Indexers{name: byLabels}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		add("1", inf.AddIndexers)
		add("2", inf.GetIndexer().AddIndexers)
		runInformer(t, inf)
		synctest.Wait()
		add("3", inf.AddIndexers)
		add("4", inf.GetIndexer().AddIndexers)
		err := inf.AddIndexers(cache.Indexers{"3": byLabels, "5": byLabels})
		if err == nil || !strings.Contains(err.Error(), "indexer conflict: ") || !strings.Contains(err.Error(), "3") {
			t.Errorf("a name that is taken: %v", err)
		}
		if got := inf.GetIndexer().GetIndexers(); len(got) != 5 || got["4"] == nil {
			t.Errorf("GetIndexers has %d", len(got))
		}
		server.create(t, labelled("c", "y=1"))
		server.delete(t, "a")
		synctest.Wait()
		for i := range 5 {
			objs, err := inf.GetIndexer().ByIndex(fmt.Sprint(i), "y")
			if diff := cmp.Diff([]string{"b", "c"}, names(objs)); diff != "" || err != nil {
				t.Errorf("index %d: %v (-want +got):\n%s", i, err, diff)
			}
			objs, err = inf.GetIndexer().ByIndex(fmt.Sprint(i), "x")
			if diff := cmp.Diff([]string{"b"}, names(objs)); diff != "" || err != nil {
				t.Errorf("index %d: %v (-want +got):\n%s", i, err, diff)
			}
		}
	})
}

// An error of an index's function panics, with client-go's text.
func TestIndexError(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		fails := cache.Indexers{"fails": func(any) ([]string, error) { return nil, errors.New("no value") }}
		panics := func(when string, f func()) {
			t.Helper()
			defer func() {
				err, _ := recover().(error)
				if want := `unable to calculate an index entry for key "ns/a" on index "fails": no value`; err == nil || err.Error() != want {
					t.Errorf("%s: panic %v, want %s", when, err, want)
				}
			}()
			f()
		}
		x := impl.new(server, cache.SharedIndexInformerOptions{Indexers: fails}).GetIndexer()
		panics("Add", func() { _ = x.Add(labelled("a")) })
		panics("Replace", func() { _ = x.Replace([]any{labelled("a")}, "1") })
		if _, err := x.Index("fails", labelled("a")); err == nil || err.Error() != "no value" {
			t.Errorf("Index: %v", err)
		}
		inf := impl.new(server, cache.SharedIndexInformerOptions{})
		rig.OK(t, inf.GetIndexer().Add(labelled("a")))
		panics("AddIndexers", func() { _ = inf.AddIndexers(fails) })
		if !impl.clientgo { // whose index is there all the same, and panics at the next write
			if err := inf.GetIndexer().Add(labelled("b")); err != nil || len(inf.GetIndexer().GetIndexers()) > 0 {
				t.Errorf("after an index that could not be added: %v, %v", err, inf.GetIndexer().GetIndexers())
			}
		}
	})
}

// What a store returns is the caller's, and indexes are added all or none.
func TestIndexerIsItsOwn(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		x := impl.new(server, cache.SharedIndexInformerOptions{Indexers: cache.Indexers{"labels": byLabels}}).GetIndexer()
		for _, name := range []string{"c", "a", "b"} {
			rig.OK(t, x.Add(labelled(name, "v=1")))
		}
		if !impl.clientgo { // whose map is that of the store
			x.GetIndexers()["mine"] = byLabels
		}
		byIndex, _ := x.ByIndex("labels", "v")
		byKeys, _ := x.IndexKeys("labels", "v")
		of, _ := x.Index("labels", labelled("?", "v=2"))
		all, keys := x.List(), x.ListKeys()
		clear(byIndex)
		clear(of)
		clear(all)
		clear(keys)
		clear(byKeys)
		again, err := x.ByIndex("labels", "v")
		if diff := cmp.Diff([]string{"a", "b", "c"}, names(again)); diff != "" || err != nil || len(x.GetIndexers()) != 1 {
			t.Errorf("%d indexes, error %v, objects (-want +got):\n%s", len(x.GetIndexers()), err, diff)
		}
		if impl.clientgo { // which adds what comes before the failure
			return
		}
		more := cache.Indexers{"fails": func(any) ([]string, error) { return nil, errors.New("no value") }}
		for i := range 20 {
			more[fmt.Sprint(i)] = byLabels
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("an index of an error was added")
				}
			}()
			_ = x.AddIndexers(more)
		}()
		more["labels"], more["0"] = byLabels, byLabels
		if err := x.AddIndexers(more); err == nil || len(x.GetIndexers()) != 1 {
			t.Errorf("error %v, %d indexes, want the first one", err, len(x.GetIndexers()))
		}
		rig.OK(t, x.AddIndexers(nil))
		// A list with one object that is none changes nothing.
		if err := x.Replace([]any{labelled("new"), nil}, "9"); err == nil || len(x.List()) != 3 || x.LastStoreSyncResourceVersion() == "9" {
			t.Errorf("Replace: %v, %v at %q", err, names(x.List()), x.LastStoreSyncResourceVersion())
		}
		var wrong cache.KeyError
		if _, _, err := x.Get(17); !errors.As(err, &wrong) || wrong.Obj != any(17) || wrong.Err == nil {
			t.Errorf("Get of a number: %#v", err)
		}
		if err := x.Add(17); !errors.As(err, &wrong) || wrong.Obj != any(17) || wrong.Err == nil {
			t.Errorf("Add of a number: %#v", err)
		}
		for _, none := range []any{nil, (*corev1.Pod)(nil)} {
			if _, _, err := x.Get(none); err == nil {
				t.Errorf("Get(%#v): no error", none)
			}
			if err := x.Delete(none); err == nil {
				t.Errorf("Delete(%#v): no error", none)
			}
		}
	})
}
