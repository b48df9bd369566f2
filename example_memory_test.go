package lw_test

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
)

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

// A reflector asks a Witness after an outage: a server that was restored from a backup may be past
// the version that was read last, and no version tells then that its history is another one.
func ExampleWitness() {
	server := lw.NewMemory(widget("a", 1))
	backup := server.ResourceVersion()
	ctx := context.Background()

	// What an informer has: its newest object, and the version that its next watch begins at.
	newest, _ := server.Create(widget("b", 1))
	position := server.ResourceVersion()
	had, err := lw.Had(ctx, server, lw.MetaOf(newest), position)
	fmt.Println("before the restore:", had, err)

	server.Rewind(backup)
	server.Create(widget("c", 1))
	server.Create(widget("d", 1))
	had, err = lw.Had(ctx, server, lw.MetaOf(newest), position)
	fmt.Printf("after it, from %s to %s: %v %v\n", position, server.ResourceVersion(), had, err)

	// Output:
	// before the restore: true <nil>
	// after it, from 3 to 4: false <nil>
}
