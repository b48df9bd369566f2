package lw_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// A Sprocket is an API type as it is written for a custom resource, with the fields that matter
// here.
type Sprocket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Color string `json:"color"`
	} `json:"spec"`
}

func ExampleHTTP() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"SprocketList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"42"},"items":[
			{"metadata":{"namespace":"shop","name":"door","resourceVersion":"40"},"spec":{"color":"green"}},
			{"metadata":{"namespace":"shop","name":"bell","resourceVersion":"41"},"spec":{"color":7}}]}`)
	}))
	defer server.Close()

	sprockets := &lw.HTTP[*Sprocket]{URL: server.URL + "/apis/example.com/v1/sprockets", Drop: []string{"metadata.managedFields"}}
	list, err := sprockets.List(context.Background(), metav1.ListOptions{}, func(s *Sprocket, err error) error {
		if err != nil {
			fmt.Println("set aside:", err)
			return nil
		}
		fmt.Println(lw.KeyOf(s), s.Spec.Color)
		return nil
	})
	fmt.Println(list.ResourceVersion, err)
	// Output:
	// shop/door green
	// set aside: lw: decode shop/bell: spec.color: at byte 289: a number, want a string
	// 42 <nil>
}

// The type is that of the API. What a program does not read of it is passed over in the bytes.
func ExampleFields() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"CarpList","apiVersion":"v1","metadata":{"resourceVersion":"42"},"items":[
			{"metadata":{"namespace":"pond","name":"koi","labels":{"app":"a","tier":"b"}},"spec":{"nodeName":"north","hostname":"h"},
			"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","message":"long"}]}}]}`)
	}))
	defer server.Close()

	carps := &lw.HTTP[*carp.Carp]{URL: server.URL, Only: lw.Fields{"metadata.labels.app", "spec.nodeName", "status.conditions.type"}}
	_, err := carps.List(context.Background(), metav1.ListOptions{}, func(c *carp.Carp, err error) error {
		fmt.Printf("%v %v\n", lw.KeyOf(c), c.Labels)
		fmt.Printf("node %q host %q phase %q\n", c.Spec.NodeName, c.Spec.Hostname, c.Status.Phase)
		fmt.Printf("%q %q\n", c.Status.Conditions[0].Type, c.Status.Conditions[0].Message)
		return err
	})
	fmt.Println(err)
	// Output:
	// pond/koi map[app:a]
	// node "north" host "" phase ""
	// "Ready" ""
	// <nil>
}

// Two parts of a program read one informer.
func ExampleFields_Union() {
	scheduler := lw.Fields{"spec.nodeName", "status.conditions.type"}
	board := lw.Fields{"metadata.labels", "status.conditions"}
	both := scheduler.Union(board)
	fmt.Println(both)
	// Output:
	// [metadata.labels spec.nodeName status.conditions status.conditions.type]
}

// A server with CBOR writes it where Accept names it. One without it answers in JSON. The objects
// are the same, and so is all that reads them.
func ExampleHTTP_cbor() {
	server := httptest.NewServer(http.HandlerFunc(sprocketsInCBOR))
	defer server.Close()

	sprockets := &lw.HTTP[*Sprocket]{URL: server.URL + "/apis/example.com/v1/sprockets", Accept: "application/cbor,application/json"}
	list, err := sprockets.List(context.Background(), metav1.ListOptions{}, func(s *Sprocket, err error) error {
		if err != nil {
			fmt.Println("set aside:", err)
			return nil
		}
		fmt.Println(lw.KeyOf(s), s.Spec.Color)
		return nil
	})
	fmt.Println(list.ResourceVersion, err)
	// Output:
	// asked for application/cbor,application/json
	// shop/door green
	// set aside: lw: decode shop/bell: spec.color: at byte 97: a number, want a string
	// 42 <nil>
}

// sprocketsInCBOR answers as an API server with CBOR does.
func sprocketsInCBOR(w http.ResponseWriter, r *http.Request) {
	fmt.Println("asked for", r.Header.Get("Accept"))
	item := func(name string, color any) any {
		return map[string]any{"metadata": map[string]any{"namespace": "shop", "name": name}, "spec": map[string]any{"color": color}}
	}
	body, _ := direct.Marshal(map[string]any{
		"kind": "SprocketList", "apiVersion": "example.com/v1", "metadata": map[string]any{"resourceVersion": "42"},
		"items": []any{item("door", "green"), item("bell", 7)},
	})
	w.Header().Set("Content-Type", "application/cbor")
	_, _ = w.Write(append([]byte{0xd9, 0xd9, 0xf7}, body...)) // the tag that marks CBOR
}

// apimachinery's decoders make the objects, and nothing else differs: an object that does not fit is
// an error of its own, in the words of the other decoder.
func ExampleHTTP_standard() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"SprocketList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"42"},"items":[
			{"metadata":{"namespace":"shop","name":"door","resourceVersion":"40"},"spec":{"color":"green"}},
			{"metadata":{"namespace":"shop","name":"bell","resourceVersion":"41"},"spec":{"color":7}}]}`)
	}))
	defer server.Close()

	sprockets := &lw.HTTP[*Sprocket]{URL: server.URL + "/apis/example.com/v1/sprockets", Standard: true}
	_, err := sprockets.List(context.Background(), metav1.ListOptions{}, func(s *Sprocket, err error) error {
		if broken, ok := errors.AsType[*lw.Error](err); ok {
			fmt.Println("set aside:", broken.Key)
			return nil
		}
		fmt.Println(lw.KeyOf(s), s.Spec.Color)
		return err
	})
	fmt.Println("by", sprockets.Hints().Decoder, err)
	// Output:
	// shop/door green
	// set aside: shop/bell
	// by apimachinery <nil>
}

// A projection has the fields that a program reads, with the tags that they have in the API's type.
// lw finds them in JSON by their names and in protobuf by their numbers, and skips the bytes of all
// others.
func ExampleHTTP_projection() {
	type Place struct {
		lw.Meta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
		Spec    struct {
			NodeName string `json:"nodeName" protobuf:"bytes,10,opt,name=nodeName"`
		} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
		Status struct {
			Phase carp.CarpPhase `json:"phase" protobuf:"bytes,1,opt,name=phase"`
		} `json:"status" protobuf:"bytes,3,opt,name=status"`
	}
	server := httptest.NewServer(http.HandlerFunc(carpsInProtobuf))
	defer server.Close()

	carps := &lw.HTTP[*Place]{URL: server.URL + "/apis/testapigroup/v1/carps"}
	_, err := carps.List(context.Background(), metav1.ListOptions{}, func(p *Place, err error) error {
		if err == nil {
			fmt.Println(lw.KeyOf(p), "is", p.Status.Phase, "on", p.Spec.NodeName)
		}
		return err
	})
	fmt.Println(err)
	// Output:
	// asked for application/vnd.kubernetes.protobuf,application/json
	// pond/koi is Running on n1
	// <nil>
}

// carpsInProtobuf answers as an API server does.
func carpsInProtobuf(w http.ResponseWriter, r *http.Request) {
	fmt.Println("asked for", r.Header.Get("Accept"))
	list := &carp.CarpList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []carp.Carp{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "pond", Name: "koi", UID: "u", ResourceVersion: "8", Labels: map[string]string{"color": "red"}},
		Spec:       carp.CarpSpec{NodeName: "n1", RestartPolicy: "Always", SchedulerName: "default"},
		Status:     carp.CarpStatus{Phase: "Running", CarpIP: "10.0.0.1"},
	}}}
	raw, _ := list.Marshal()
	body, _ := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "CarpList", APIVersion: "testapigroup/v1"}, Raw: raw}).Marshal()
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
	_, _ = w.Write(append([]byte("k8s\x00"), body...))
}

// A ListWatch makes a Source of two functions. For those of a generated client there is FromClient.
func ExampleListWatch() {
	node := func(name, version string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
	}
	changes := make(chan watch.Event, 1)
	src := &lw.ListWatch[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList]{
		ListFunc: func(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
			return &metav1.PartialObjectMetadataList{
				ListMeta: metav1.ListMeta{ResourceVersion: "5"},
				Items:    []metav1.PartialObjectMetadata{*node("one", "3"), *node("two", "5")},
			}, nil
		},
		// A real one sends the changes after opts.ResourceVersion, here 5.
		WatchFunc: func(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return watch.NewProxyWatcher(changes), nil
		},
	}

	// These functions know neither streamed lists nor pages.
	nodes := lw.NewInformer(src, &lw.Options{List: lw.ListWhole})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go nodes.Run(ctx)
	if err := nodes.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(nodes.Store().Len(), "nodes at version", nodes.Store().ResourceVersion())

	changes <- watch.Event{Type: watch.Added, Object: node("three", "6")}
	if err := nodes.WaitForResourceVersion(ctx, "6"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(nodes.Store().Len(), "nodes at version", nodes.Store().ResourceVersion())

	// Output:
	// 2 nodes at version 5
	// 3 nodes at version 6
}

// A Widget is a type of a user's own: Meta makes it an Object.
type Widget struct {
	lw.Meta
	Size int
}

func widget(name string, size int) *Widget {
	return &Widget{Meta: lw.Meta{Namespace: "default", Name: name}, Size: size}
}

// A Memory is the server of a unit test: whatever is written between the list and the watch is told
// by the watch.
func ExampleNewMemory() {
	m := lw.NewMemory(widget("a", 1), widget("b", 2))
	ctx := context.Background()

	list, err := m.List(ctx, metav1.ListOptions{}, func(w *Widget, err error) error {
		fmt.Println("listed", w.Name, w.Size)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}

	a, _ := m.Get(ctx, lw.Key{Namespace: "default", Name: "a"})
	a.Size = 10
	m.Update(ctx, a)
	m.Delete(ctx, lw.Key{Namespace: "default", Name: "b"}, "")

	ctx, cancel := context.WithCancel(ctx)
	m.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion}, func(ev lw.WatchEvent[*Widget]) error {
		fmt.Println(ev.Type, ev.Object.Name, ev.Object.Size)
		if ev.ResourceVersion == m.ResourceVersion() {
			cancel()
		}
		return nil
	})

	// Output:
	// listed a 1
	// listed b 2
	// MODIFIED a 10
	// DELETED b 2
}

// An update of an object that somebody else has written since is refused, as a real server refuses
// it.
func ExampleMemory_Update() {
	m := lw.NewMemory(widget("a", 1))
	mine, _ := m.Get(context.Background(), lw.Key{Namespace: "default", Name: "a"})
	theirs, _ := m.Get(context.Background(), lw.Key{Namespace: "default", Name: "a"})

	theirs.Size = 2
	m.Update(context.Background(), theirs)
	mine.Size = 3
	_, err := m.Update(context.Background(), mine)
	fmt.Println(apierrors.IsConflict(err))

	// Output: true
}

// Each of three replicas of a controller follows its own third of the widgets. A replica knows its
// number from the ordinal of its pod in a StatefulSet, for example.
func ExampleShard() {
	server := lw.NewMemory[*Widget]()
	for i := range 300 {
		if _, err := server.Create(context.Background(), widget(fmt.Sprint("w-", i), i)); err != nil {
			fmt.Println(err)
			return
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	const replicas = 3
	seen := map[lw.Key]int{} // by how many replicas
	for ordinal := range replicas {
		widgets := lw.NewInformer(lw.Shard(server, ordinal, replicas), nil)
		go widgets.Run(ctx)
		if err := widgets.WaitForSync(ctx); err != nil {
			fmt.Println(err)
			return
		}
		for w := range widgets.Store().All() {
			seen[lw.KeyOf(w)]++
		}
	}
	shared := 0
	for _, n := range seen {
		if n > 1 {
			shared++
		}
	}
	fmt.Println(len(seen), "widgets are seen,", shared, "of them by two replicas")
	// Output: 300 widgets are seen, 0 of them by two replicas
}

// What can only be listed is followed like any other collection. The version tells when it was
// listed.
func ExamplePoll() {
	var names atomic.Pointer[[]string]
	names.Store(&[]string{"one", "two"})
	src := lw.Poll(func(context.Context) ([]*Widget, error) {
		files := []*Widget{}
		for _, name := range *names.Load() {
			files = append(files, widget(name, len(name)))
		}
		return files, nil
	}, 10*time.Millisecond)

	files := lw.NewInformer(src, nil)
	gone := make(chan string, 1)
	files.AddHandler(lw.Handler[*Widget]{Delete: func(w *Widget) { gone <- w.Name }})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go files.Run(ctx)
	if err := files.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(files.Store().Len(), "files")

	names.Store(&[]string{"one", "three"})
	if _, err := files.CatchUp(ctx); err != nil { // has it listed at once
		fmt.Println(err)
		return
	}
	_, ok := files.Store().Get(lw.Key{Namespace: "default", Name: "three"})
	fmt.Println("three is there:", ok)
	fmt.Println(<-gone, "is gone")

	// Output:
	// 2 files
	// three is there: true
	// two is gone
}

// What sends a snapshot and then its changes, such as Server-Sent Events or a database's change
// feed.
func ExampleFeed() {
	changes := make(chan *Widget)
	src := lw.Feed(func(ctx context.Context, to *lw.Feeder[*Widget]) error {
		// A real one connects here, and is called again when the connection breaks.
		if err := to.Snapshot([]*Widget{widget("one", 1)}); err != nil {
			return err
		}
		for {
			select {
			case w := <-changes:
				if err := to.Change([]*Widget{w}); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})

	prices := lw.NewInformer(src, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go prices.Run(ctx)
	if err := prices.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	go func() { changes <- widget("one", 2) }()
	now, err := lw.WaitFor(ctx, prices, lw.Key{Namespace: "default", Name: "one"}, func(w *Widget) bool { return w != nil && w.Size > 1 })
	fmt.Println(now.Size, err)

	// Output: 2 <nil>
}

// A projection sees the whole object, and says which versions are not to be shown: a controller
// that routes to pods leaves those that are going away as they were.
func ExampleTransform_keep() {
	type Slim struct {
		lw.Meta
		Phase string
	}
	pod := func(name, phase string, leaving bool) *carp.Carp {
		p := &carp.Carp{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: carp.CarpStatus{Phase: carp.CarpPhase(phase)}}
		if leaving {
			p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		return p
	}
	server := lw.NewMemory(pod("koi", "Running", false))
	pods := lw.NewInformer(lw.Transform(server, func(p *carp.Carp) (*Slim, error) {
		if p.DeletionTimestamp != nil {
			return nil, lw.ErrKeep
		}
		return &Slim{lw.MetaOf(p), string(p.Status.Phase)}, nil
	}), nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go pods.Run(ctx)
	if err := pods.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}

	leaving, _ := server.Update(ctx, pod("koi", "Failed", true))
	if err := pods.WaitForResourceVersion(ctx, leaving.ResourceVersion); err != nil {
		fmt.Println(err)
		return
	}
	koi, _ := pods.Store().Get(lw.Key{Name: "koi"})
	fmt.Println(koi.Phase)

	// Output: Running
}

// A program that keeps its objects in a Writable does not know whether that is a Memory or an etcd.
func ExampleWritable() {
	var store lw.Writable[*Widget] = lw.NewMemory[*Widget]()

	widgets := lw.NewInformer(lw.Source[*Widget](store), nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go widgets.Run(ctx)

	stored, err := store.Create(ctx, widget("one", 1))
	if err != nil {
		fmt.Println(err)
		return
	}
	gone, err := store.Delete(ctx, lw.KeyOf(stored), stored.ResourceVersion)
	if err != nil {
		fmt.Println(err)
		return
	}
	// The version of a deletion can be waited for, as that of any other write.
	if err := widgets.WaitForResourceVersion(ctx, gone); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(widgets.Store().Len(), "widgets")

	// Output: 0 widgets
}

// A reflector asks this after an outage: a server that was restored from a backup may be past
// the version that was read last, and no version tells then that its history is another one.
func ExampleSourceHints() {
	server := lw.NewMemory(widget("a", 1))
	backup := server.ResourceVersion()
	ctx := context.Background()

	// What an informer has: its newest object, and the version that its next watch begins at.
	newest, _ := server.Create(ctx, widget("b", 1))
	position := server.ResourceVersion()
	had, err := lw.HintsOf(server).StillHas(ctx, lw.MetaOf(newest), position)
	fmt.Println("before the restore:", had, err)

	server.Rewind(backup)
	server.Create(ctx, widget("c", 1))
	server.Create(ctx, widget("d", 1))
	had, err = lw.HintsOf(server).StillHas(ctx, lw.MetaOf(newest), position)
	fmt.Printf("after it, from %s to %s: %v %v\n", position, server.ResourceVersion(), had, err)

	// Output:
	// before the restore: true <nil>
	// after it, from 3 to 4: false <nil>
}

// An informer of few objects of many: the program names those that it wants, as it learns of them.
func ExampleWanted() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var keys lw.KeySet
	widgets := lw.NewInformer(lw.Wanted(lw.NewMemory(widget("a", 1), widget("b", 2)), &keys), nil)
	go widgets.Run(ctx)
	if err := widgets.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(widgets.Store().Len(), "widgets")

	b := lw.Key{Namespace: "default", Name: "b"}
	keys.Set("an owner", b)
	if err := widgets.WaitForKey(ctx, b); err != nil {
		fmt.Println(err)
		return
	}
	got, _ := widgets.Store().Get(b)
	fmt.Println(got.Name, got.Size, widgets.KeyState(lw.Key{Namespace: "default", Name: "a"}))

	// Output:
	// 0 widgets
	// b 2 unwanted
}

// The notes of this program name widgets. Only the widgets that they name are kept.
func ExampleWantedBy() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var keys lw.KeySet
	widgets := lw.NewInformer(lw.Wanted(lw.NewMemory(widget("a", 1), widget("b", 2)), &keys), nil)
	notes := lw.NewInformer(lw.NewMemory(&Note{lw.Meta{Namespace: "default", Name: "n"}, "b"}), nil)
	named := lw.WantedBy(&keys, notes, func(n *Note) []lw.Key {
		return []lw.Key{{Namespace: n.Namespace, Name: n.Text}}
	})
	go widgets.Run(ctx)
	go notes.Run(ctx)
	if err := named.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	err := widgets.WaitForKey(ctx, lw.Key{Namespace: "default", Name: "b"})
	fmt.Println(widgets.Store().Len(), err)

	// Output: 1 <nil>
}
