package store_test

import (
	"context"
	"io"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A driven source lists one widget at version 10, and has a benchmark drive its watch.
type driven struct {
	drive func(yield func(lw.WatchEvent[*rig.Widget]) error) error
}

func (d driven) List(_ context.Context, _ metav1.ListOptions, yield func(*rig.Widget, error) error) (metav1.ListMeta,
	error) {
	return metav1.ListMeta{ResourceVersion: "10"}, yield(rig.Stamped("a", 1, "10"), nil)
}

func (d driven) Watch(ctx context.Context, _ metav1.ListOptions, yield func(lw.WatchEvent[*rig.Widget]) error) error {
	if err := d.drive(yield); err != io.EOF {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (d driven) Told(obj lw.Identified) (*rig.Widget, bool, error) {
	w := *obj.(*rig.Widget)
	return &w, true, nil
}

// BenchmarkEvent is an event where nobody tells, with a key that is ahead meanwhile, and an event
// that confirms what was told, with the Tell.
func BenchmarkEvent(b *testing.B) {
	for _, name := range []string{"unused", "bookmark", "ahead", "told"} {
		b.Run(name, func(b *testing.B) {
			versions := make([]string, b.N)
			for i := range versions {
				versions[i] = strconv.Itoa(11 + i)
			}
			one, two := rig.Stamped("a", 1, ""), rig.Stamped("a", 2, "")
			done := make(chan struct{})
			var inf *lw.Informer[*rig.Widget]
			inf = lw.NewInformer[*rig.Widget](driven{func(yield func(lw.WatchEvent[*rig.Widget]) error) error {
				benchTell(b, inf, name, versions, yield, one, two)
				close(done)
				return io.EOF
			}}, &lw.Options{List: lw.ListWhole, OnError: func(err error) { b.Error(err) }})
			ctx, cancel := context.WithCancel(context.Background())
			go inf.Run(ctx)
			<-done
			cancel()
		})
	}
}

func benchTell(b *testing.B, inf *lw.Informer[*rig.Widget], name string, versions []string,
	yield func(lw.WatchEvent[*rig.Widget]) error, one, two *rig.Widget) {
	tell, _ := any(inf).(interface{ Tell(lw.Identified) error })
	if name == "ahead" {
		if err := tell.Tell(rig.Stamped("b", 1, "1000000000000")); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i, version := range versions {
		w := one
		if i%2 == 1 {
			w = two
		}
		ev := lw.WatchEvent[*rig.Widget]{Type: watch.Modified, ResourceVersion: version, More: true}
		switch name {
		case "bookmark":
			ev.Type = watch.Bookmark
		case "told":
			w = &rig.Widget{Meta: w.Meta, Size: w.Size}
			w.ResourceVersion = version
			if err := tell.Tell(w); err != nil {
				b.Fatal(err)
			}
			ev.Object = w
		default:
			w.ResourceVersion = version
			ev.Object = w
		}
		if err := yield(ev); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
}
