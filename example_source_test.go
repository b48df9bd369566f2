package lw_test

import (
	"context"
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

// A Sprocket is an API type as it is written for a custom resource, with the fields that matter here.
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

// A projection has the fields that a program reads, with the tags that they have in the API's type. lw finds them in JSON by their
// names and in protobuf by their numbers, and skips the bytes of all others.
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
			fmt.Println(p.Key(), "is", p.Status.Phase, "on", p.Spec.NodeName)
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

// A Memory is the server of a unit test: whatever is written between the list and the watch is told by the watch.
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

	a, _ := m.Get(lw.Key{Namespace: "default", Name: "a"})
	a.Size = 10
	m.Update(a)
	m.Delete(lw.Key{Namespace: "default", Name: "b"})

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

// An update of an object that somebody else has written since is refused, as a real server refuses it.
func ExampleMemory_Update() {
	m := lw.NewMemory(widget("a", 1))
	mine, _ := m.Get(lw.Key{Namespace: "default", Name: "a"})
	theirs, _ := m.Get(lw.Key{Namespace: "default", Name: "a"})

	theirs.Size = 2
	m.Update(theirs)
	mine.Size = 3
	_, err := m.Update(mine)
	fmt.Println(apierrors.IsConflict(err))

	// Output: true
}

// Each of three replicas of a controller follows its own third of the widgets. A replica knows its
// number from the ordinal of its pod in a StatefulSet, for example.
func ExampleShard() {
	server := lw.NewMemory[*Widget]()
	for i := range 300 {
		if _, err := server.Create(widget(fmt.Sprint("w-", i), i)); err != nil {
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

// A directory is a Source that can only be listed, and has no versions. Its Watch ends, without an
// error, when the next list is due: the source sets the pace.
type directory struct {
	names func() []string
	every time.Duration
}

func (directory) Hints() lw.SourceHints { return lw.SourceHints{NoStream: true, Unversioned: true} }

func (d directory) List(_ context.Context, _ metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta, error) {
	for _, name := range d.names() {
		if err := yield(widget(name, len(name)), nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{}, nil
}

func (d directory) Watch(ctx context.Context, _ metav1.ListOptions, _ func(lw.WatchEvent[*Widget]) error) error {
	select {
	case <-time.After(d.every):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A source that polls is followed like any other. Status.LastList says how old its content is.
func ExampleSource_polling() {
	var names atomic.Pointer[[]string]
	names.Store(&[]string{"one", "two"})
	src := directory{names: func() []string { return *names.Load() }, every: 10 * time.Millisecond}

	files := lw.NewInformer(lw.Source[*Widget](src), nil)
	gone := make(chan string, 1)
	files.AddHandler(lw.Handler[*Widget]{Delete: func(w *Widget) { gone <- w.Name }})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); files.Run(ctx) }()
	if err := files.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(files.Store().Len(), "files")

	names.Store(&[]string{"one", "three"})
	three := func(w *Widget) bool { return w != nil }
	if _, err := lw.WaitFor(ctx, files, lw.Key{Namespace: "default", Name: "three"}, three); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(files.Store().Len(), "files, as of a minute ago or less:", time.Since(files.Status().LastList) < time.Minute)
	fmt.Println(<-gone, "is gone")
	cancel()
	<-done

	// Output:
	// 2 files
	// 2 files, as of a minute ago or less: true
	// two is gone
}

// A reflector asks this after an outage: a server that was restored from a backup may be past
// the version that was read last, and no version tells then that its history is another one.
func ExampleSourceHints() {
	server := lw.NewMemory(widget("a", 1))
	backup := server.ResourceVersion()
	ctx := context.Background()

	// What an informer has: its newest object, and the version that its next watch begins at.
	newest, _ := server.Create(widget("b", 1))
	position := server.ResourceVersion()
	had, err := lw.HintsOf(server).Had(ctx, lw.MetaOf(newest), position)
	fmt.Println("before the restore:", had, err)

	server.Rewind(backup)
	server.Create(widget("c", 1))
	server.Create(widget("d", 1))
	had, err = lw.HintsOf(server).Had(ctx, lw.MetaOf(newest), position)
	fmt.Printf("after it, from %s to %s: %v %v\n", position, server.ResourceVersion(), had, err)

	// Output:
	// before the restore: true <nil>
	// after it, from 3 to 4: false <nil>
}
