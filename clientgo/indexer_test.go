package clientgo_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw/internal/verify/rig"
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
			"ns/a": true, "cluster": true, "/cluster": false, "a": false, "ns/c": false, "ns/a/": false, "ns/a/b": false,
			"": false, "/": false, "ns/": false,
		} {
			obj, ok, err := x.GetByKey(key)
			if ok != want || err != nil || (obj != nil) != want {
				t.Errorf("GetByKey(%q): %v, %t, %v", key, obj, ok, err)
			}
		}
		for _, by := range []any{labelled("a"), &metav1.ObjectMeta{Namespace: "ns", Name: "a"}, cache.ExplicitKey("ns/a"),
			cache.DeletedFinalStateUnknown{Key: "ns/a"}} {
			obj, ok, err := x.Get(by)
			if !ok || err != nil || obj.(*corev1.Pod).Labels["x"] != "2" {
				t.Errorf("Get(%v): %v, %t, %v", by, obj, ok, err)
			}
		}
		for name, err := range map[string]error{
			"Get": func() error { _, _, err := x.Get("a string"); return err }(), "Add": x.Add(17),
			"Update": x.Update(struct{}{}),
			"Delete": x.Delete("a string"), "Replace": x.Replace([]any{labelled("q"), "a string"}, "9"),
			"Add of nil": x.Add(nil),
		} {
			if !errors.As(err, new(cache.KeyError)) {
				t.Errorf("%s without metadata: error %v", name, err)
			}
		}

		by := func(value string) []string { return byIndex(t, x, "labels", value) }
		rig.Same(t, "by index", [][]string{{"a", "b"}, {"b"}, {}}, [][]string{by("x"), by("y"), by("z")})
		rig.Same(t, "index keys", []string{"ns/a", "ns/b"}, rig.Must[[]string](t)(x.IndexKeys("labels", "x")))
		for _, tc := range []struct {
			of   *corev1.Pod
			want []string
		}{{labelled("?", "x=0", "y=0"), []string{"a", "b"}}, {labelled("?", "y=0"), []string{"b"}},
			{labelled("?"), []string{}}, {labelled("?", "z=0"), []string{}}} {
			rig.Same(t, fmt.Sprint("Index of ", tc.of.Labels), tc.want, names(rig.Must[[]any](t)(x.Index("labels", tc.of))))
		}
		values := x.ListIndexFuncValues("labels")
		slices.Sort(values)
		rig.Same(t, "values", []string{"x", "y"}, values)
		if got := x.ListIndexFuncValues("none"); got == nil || len(got) > 0 {
			t.Errorf("values of no index: %#v", got)
		}
		_, err := x.ByIndex("none", "x")
		fails(t, err, "Index with name none does not exist$")
		_, err = x.Index("none", labelled("a"))
		fails(t, err, "Index with name none does not exist$")
		_, err = x.IndexKeys("none", "x")
		fails(t, err, "Index with name none does not exist$")

		lister := corelisters.NewPodLister(x)
		pods := rig.Must[[]*corev1.Pod](t)(lister.Pods("ns").List(labels.SelectorFromSet(labels.Set{"x": "2"})))
		rig.Same(t, "the lister lists", []string{"a"}, names(pods))
		rig.Same(t, "the lister gets", "b", rig.Must[*corev1.Pod](t)(lister.Pods("ns").Get("b")).Name)
		rig.OK(t, x.Replace([]any{labelled("new", "z=1"), labelled("b", "z=1")}, "7"))
		rig.Same(t, "objects after Replace", []string{"b", "new"}, names(x.List()))
		rig.Same(t, "by index after Replace", [][]string{{}, {"b", "new"}}, [][]string{by("x"), by("z")})
		rig.Same(t, "keys of the store", 2, len(inf.GetStore().ListKeys()))
		for i := range 50 {
			rig.OK(t, x.Add(labelled(fmt.Sprint("pod-", i*7%50), "many=1")))
		}
		if keys := rig.Must[[]string](t)(x.IndexKeys("labels", "many")); len(keys) != 50 || !slices.IsSorted(keys) {
			t.Errorf("the keys of many objects: %v", keys)
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
		rig.Same(t, "error", want, fmt.Sprint(x.Add(obj)))
	}
	rig.Same(t, "objects", 0, len(x.List()))
}

// The version of a store that a test has seeded is that of the last write; of a store that an
// informer fills, the server's.
func TestStoreResourceVersion(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		inf := impl.new(server, cache.SharedIndexInformerOptions{})
		x := inf.GetIndexer()
		want := func(when, version string) {
			t.Helper()
			rig.Same(t, when+": version", version, x.LastStoreSyncResourceVersion())
		}
		at := func(version string) *corev1.Pod {
			p := labelled("a")
			p.ResourceVersion = version
			return p
		}
		want("empty", "")
		rig.OK(t, x.Add(at("6")))
		want("Add", "6")
		rig.OK(t, x.Update(at("7")))
		want("Update", "7")
		rig.OK(t, x.Delete(at("8")))
		want("Delete", "8")
		x.Bookmark("9")
		want("Bookmark", "9")
		rig.OK(t, x.Replace(nil, "10"))
		want("Replace", "10")
		rig.Same(t, "LastSyncResourceVersion before Run", "", inf.LastSyncResourceVersion()+
			inf.GetController().LastSyncResourceVersion())
		server.create(t, labelled("b"), labelled("c"))
		runInformer(t, inf)
		synctest.Wait()
		version := server.ResourceVersion()
		want("the first list", version)
		rig.Same(t, "LastSyncResourceVersion", version, inf.LastSyncResourceVersion())
		rig.Same(t, "LastSyncResourceVersion of the controller", version, inf.GetController().LastSyncResourceVersion())
		server.create(t, labelled("d"))
		synctest.Wait()
		want("an event", server.ResourceVersion())
	})
}

// Indexes are added before Run, while it runs, and through the indexer; a name is taken once.
func TestAddIndexers(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		server.create(t, labelled("a", "x=1"), labelled("b", "x=1", "y=1"))
		inf := impl.new(server, cache.SharedIndexInformerOptions{Indexers: cache.Indexers{"0": byLabels}})
		rig.OK(t, inf.AddIndexers(cache.Indexers{"1": byLabels}))
		rig.OK(t, inf.GetIndexer().AddIndexers(cache.Indexers{"2": byLabels}))
		runInformer(t, inf)
		synctest.Wait()
		rig.OK(t, inf.AddIndexers(cache.Indexers{"3": byLabels}))
		rig.OK(t, inf.GetIndexer().AddIndexers(cache.Indexers{"4": byLabels}))
		err := inf.AddIndexers(cache.Indexers{"3": byLabels, "5": byLabels})
		fails(t, err, "indexer conflict: .*3")
		if got := inf.GetIndexer().GetIndexers(); len(got) != 5 || got["4"] == nil {
			t.Errorf("GetIndexers has %d", len(got))
		}
		server.create(t, labelled("c", "y=1"))
		server.delete(t, "a")
		synctest.Wait()
		for i := range 5 {
			index := fmt.Sprint(i)
			rig.Same(t, index+": y", []string{"b", "c"}, byIndex(t, inf.GetIndexer(), index, "y"))
			rig.Same(t, index+": x", []string{"b"}, byIndex(t, inf.GetIndexer(), index, "x"))
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
				if want := `unable to calculate an index entry for key "ns/a" on index "fails": no value`; err == nil ||
					err.Error() != want {
					t.Errorf("%s: panic %v, want %s", when, err, want)
				}
			}()
			f()
		}
		x := impl.new(server, cache.SharedIndexInformerOptions{Indexers: fails}).GetIndexer()
		panics("Add", func() { _ = x.Add(labelled("a")) })
		panics("Replace", func() { _ = x.Replace([]any{labelled("a")}, "1") })
		_, err := x.Index("fails", labelled("a"))
		rig.Same(t, "error of Index", "no value", fmt.Sprint(err))
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
		found, _ := x.ByIndex("labels", "v")
		byKeys, _ := x.IndexKeys("labels", "v")
		of, _ := x.Index("labels", labelled("?", "v=2"))
		all, keys := x.List(), x.ListKeys()
		clear(found)
		clear(of)
		clear(all)
		clear(keys)
		clear(byKeys)
		rig.Same(t, "by label", []string{"a", "b", "c"}, byIndex(t, x, "labels", "v"))
		rig.Same(t, "indexes", 1, len(x.GetIndexers()))
		if impl.clientgo { // which adds what comes before the failure
			return
		}
		more := cache.Indexers{"fails": func(any) ([]string, error) { return nil, errors.New("no value") }}
		for i := range 20 {
			more[fmt.Sprint(i)] = byLabels
		}
		rig.MustPanic(t, "no value", func() { _ = x.AddIndexers(more) })
		more["labels"], more["0"] = byLabels, byLabels
		if err := x.AddIndexers(more); err == nil || len(x.GetIndexers()) != 1 {
			t.Errorf("error %v, %d indexes, want the first one", err, len(x.GetIndexers()))
		}
		rig.OK(t, x.AddIndexers(nil))
		// A list with one object that is none changes nothing.
		if err := x.Replace([]any{labelled("new"), nil}, "9"); err == nil || len(x.List()) != 3 ||
			x.LastStoreSyncResourceVersion() == "9" {
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
			_, _, err := x.Get(none)
			rig.Same(t, fmt.Sprintf("errors of Get and Delete of a nil %T", none), true, err != nil && x.Delete(none) != nil)
		}
	})
}
