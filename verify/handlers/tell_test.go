package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

// TestTell has each rule of what becomes of what an informer is told, as a line of what is done,
// and after => what is shown then, how many keys are ahead, and what handlers are told.
func TestTell(t *testing.T) {
	for _, tt := range []struct {
		name   string
		turns  bool   // with a Transform
		begins string // the list that it begins with, which is shown and told; "": the script has it
		script string
	}{
		{"not newer than the watch", false, "10 a@5", `
			tell a@4 => [a@5]
			tell a@10/w => [a@5]
			B 12 => [a@5]
			tell a@12 => [a@5]`},
		{"not newer than what was told", false, "10 a@5", `
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			tell a@12 => [a@12] ahead 1
			tell a@11/w => [a@12] ahead 1`},
		{"an update, an event of before and its own event", false, "10 a@5", `
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			M a@11 => [a@12] ahead 1
			M a@12 => [a@12]
			M a@13 => [a@13]: a@12>a@13 watch`},
		{"one more, before the first has come", false, "10 a@5", `
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			tell a@14 => [a@14] ahead 1: a@12>a@14 told
			M a@12 => [a@14] ahead 1
			M a@13 => [a@14] ahead 1
			M a@14 => [a@14]`},
		{"a create", false, "10", `
			tell a@12 => [a@12] ahead 1: +a@12 told
			A a@12 => [a@12]
			D a@13 => []: -a@12 watch`},
		{"a new UID", false, "10 a@5", `
			tell a@12/v => [a@12/v] ahead 1: -a@5 told, +a@12/v told
			D a@11 => [a@12/v] ahead 1
			A a@12/v => [a@12/v]`},
		{"overwritten before the event", false, "10 a@5", `
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			M a@13 => [a@13]: a@12>a@13 watch`},
		{"deleted before the event", false, "10", `
			tell a@12 => [a@12] ahead 1: +a@12 told
			A a@12 => [a@12]
			tell a@14 => [a@14] ahead 1: a@12>a@14 told
			D a@15 => []: -a@14 watch`},
		{"the write moves it out of the selection", false, "10 a@5", `
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			D a@12 => []: -a@12 watch`},
		{"created outside of the selection", false, "10 b@3", `
			tell a@12 => [a@12 b@3] ahead 1: +a@12 told
			M b@12 => [a@12 b@12] ahead 1: b@3>b@12 watch
			M b@13 => [b@13]: b@12>b@13 watch, -a@12 watch`},
		{"a bookmark passes it", false, "10 a@5", `
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			B 11 => [a@12] ahead 1
			B 12 => [a@5]: a@12>a@5 watch`},
		{"a bookmark passes what was told of another object", false, "10 a@5", `
			tell a@12/v => [a@12/v] ahead 1: -a@5 told, +a@12/v told
			B 13 => [a@5]: -a@12/v watch, +a@5 watch`},
		{"a transaction without the key", false, "10 b@3 c@4", `
			tell a@12 => [a@12 b@3 c@4] ahead 1: +a@12 told
			open M b@12 => [a@12 b@3 c@4] ahead 1
			M c@12 => [b@12 c@12]: b@3>b@12 watch, c@4>c@12 watch, -a@12 watch`},
		{"a transaction with the key", false, "10 b@3", `
			tell a@12 => [a@12 b@3] ahead 1: +a@12 told
			open M b@12 => [a@12 b@3] ahead 1
			A a@12 => [a@12 b@12]: b@3>b@12 watch`},
		{"the base moves under it", false, "10 a@5 b@3", `
			tell a@15 => [a@15 b@3] ahead 1: a@5>a@15 told
			M a@12 => [a@15 b@3] ahead 1
			M b@16 => [a@12 b@16]: b@3>b@16 watch, a@15>a@12 watch`},
		{"the base goes under it", false, "10 a@5 b@3", `
			tell a@15 => [a@15 b@3] ahead 1: a@5>a@15 told
			D a@12 => [a@15 b@3] ahead 1
			M b@16 => [b@16]: b@3>b@16 watch, -a@15 watch`},
		{"left out", true, "10 a@5", `
			tell a@12=70 => [] ahead 1: -a@5 told
			M a@11 => [] ahead 1
			M a@12=70 => []
			M a@13 => [a@13]: +a@13 watch`},
		{"left out, and passed", true, "10 a@5", `
			tell a@12=70 => [] ahead 1: -a@5 told
			B 13 => [a@5]: +a@5 watch`},
		{"kept by the Transform", true, "10 a@5", `
			tell a@12=71 => [a@5]
			tell a@13 => [a@13] ahead 1: a@5>a@13 told
			M a@12=71 => [a@13] ahead 1
			M a@13=71 => [a@13]
			B 14 => [a@13]`},
		{"the Transform fails", true, "10 a@5", `
			tell a@12=72 => [a@5]! lw: Widget: transform default/a: cannot turn it`},
		{"before the first list", false, "", `
			tell a@12 => [] ahead 1
			tell b@20 => [] ahead 2
			list 15 a@14 c@3 => [] ahead 2
			start => [a@14 b@20 c@3] ahead 1: +a@14 initial, +b@20 initial, +c@3 initial
			A b@20 => [a@14 b@20 c@3]`},
		{"an unreadable event of before", false, "10 a@5", `
			tell a@13 => [a@13] ahead 1: a@5>a@13 told
			E a@12 => [a@13] ahead 1
			M a@13 => [a@13]
			M a@14 => [a@14]: a@13>a@14 watch`},
		{"an unreadable event of before, and passed", false, "10 a@5", `
			tell a@13 => [a@13] ahead 1: a@5>a@13 told
			E a@12 => [a@13] ahead 1
			B 14 => [a@5]: a@13>a@5 watch`},
		{"the same version of another object", false, "10", `
			tell a@12 => [a@12] ahead 1: +a@12 told
			A a@12/v => [a@12/v]: -a@12 watch, +a@12/v watch`},
		{"two events of one version", false, "10 a@5 b@3", `
			tell a@12 => [a@12 b@3] ahead 1: a@5>a@12 told
			M b@12 => [a@12 b@12] ahead 1: b@3>b@12 watch
			M a@12 => [a@12 b@12]
			M a@13 => [a@13 b@12]: a@12>a@13 watch`},
		{"a list of before keeps it", true, "10 a@5", `
			tell a@20 => [a@20] ahead 1: a@5>a@20 told
			list 15 a@14=71 => [a@20] ahead 1
			B 21 => [a@5]: a@20>a@5 watch`},
		{"told and deleted before the first list", false, "", `
			tell a@12 => [] ahead 1
			gone a => [] ahead 1
			server 20 => [] ahead 1
			list 11 a@11/t => [] ahead 1
			start => [] ahead 1
			B 19 => [] ahead 1
			B 20 => [a@11/t]: +a@11/t watch`},
		{"told of in another order", false, "10", `
			tell a@20 => [a@20] ahead 1: +a@20 told
			tell b@12 => [a@20 b@12] ahead 2: +b@12 told
			B 13 => [a@20] ahead 1: -b@12 watch`},
		{"an event of the version is kept", true, "10 b@3", `
			tell a@12 => [a@12 b@3] ahead 1: +a@12 told
			M b@12=71 => [a@12 b@3] ahead 1
			A a@13 => [a@13 b@3]: a@12>a@13 watch`},
		{"a deletion whose event is unreadable", false, "10 a@5", `
			gone a => [] ahead 1: -a@5 told
			X a@12 => [] ahead 1
			server 12 => [] ahead 1
			sleep 31s => []`},
		{"an unreadable event of it", false, "10 a@5", `
			tell a@13 => [a@13] ahead 1: a@5>a@13 told
			E a@13 => [a@13]
			B 14 => [a@13]`},
		{"a list of before", false, "10 a@5 b@3", `
			tell a@20 => [a@20 b@3] ahead 1: a@5>a@20 told
			tell b@21/v => [a@20 b@21/v] ahead 2: -b@3 told, +b@21/v told
			list 15 a@14 c@12 => [a@20 b@21/v c@12] ahead 2: +c@12 relist
			A b@21/v => [a@14 b@21/v c@12]: a@20>a@14 watch
			D a@22 => [b@21/v c@12]: -a@14 watch`},
		{"a list that has it", false, "10 a@5", `
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			list 12 a@12 => [a@12]`},
		{"a list that has passed it", false, "10", `
			tell a@12 => [a@12] ahead 1: +a@12 told
			list 13 => []: -a@12 relist`},
		{"a list that is refused", false, "10 a@5", `
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			stale 8 a@5 => [a@12] ahead 1
			list 11 a@5 => [a@12] ahead 1
			M a@12 => [a@12]`},
		{"a version of another server", false, "10 a@5", `
			tell a@999 => [a@999] ahead 1: a@5>a@999 told
			list 11 a@11 => [a@999] ahead 1
			server 1000
			sleep 11m => [a@999] ahead 1
			list 12 a@11 => [a@11]: a@999>a@11 relist`},
		{"a version of another server, in a quiet collection", false, "10 a@5", `
			tell a@999 => [a@999] ahead 1: a@5>a@999 told
			server 10
			sleep 5m
			tell b@999 => [a@999 b@999] ahead 2: +b@999 told
			sleep 4m59s => [a@999 b@999] ahead 2
			sleep 3s => [a@5 b@999] ahead 1: a@999>a@5 relist
			sleep 5m => [a@5]: -b@999 relist
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			server 12
			sleep 11m => [a@12] ahead 1
			sleep 1h => [a@12] ahead 1
			M a@12 => [a@12]`},
		{"a deletion, and a server that is restored", false, "10 a@5", `
			server 20
			gone a => [] ahead 1: -a@5 told
			server 10
			sleep 11m => [a@5]: +a@5 relist`},
		{"a new epoch", false, "10 a@5", `
			tell a@12 => [a@12] ahead 1: a@5>a@12 told
			list 7 a@5 => [a@5]: a@12>a@5 relist
			tell a@9 => [a@9] ahead 1: a@5>a@9 told
			M a@9 => [a@9]`},
		{"a deletion at a version", false, "10 a@5", `
			gone a@12 => [] ahead 1: -a@5 told
			M a@11 => [] ahead 1
			tell a@11 => [] ahead 1
			tell a@13 => [] ahead 1
			D a@12 => []`},
		{"a deletion at a version, not seen yet", false, "10", `
			gone a@12 => [] ahead 1
			A a@11 => [] ahead 1
			D a@12 => []`},
		{"a deletion at a version that is old", false, "10 a@5", `
			gone a@9 => [a@5]`},
		{"a deletion at a version, and created again", false, "10 a@5", `
			gone a@12 => [] ahead 1: -a@5 told
			tell a@14/v => [a@14/v] ahead 1: +a@14/v told
			D a@12 => [a@14/v] ahead 1
			A a@14/v => [a@14/v]`},
		{"a deletion of another object", false, "10 a@5", `
			gone a/v => [a@5]
			gone b => [a@5]`},
		{"a deletion, and the server's version is known first", false, "10 a@5 b@3", `
			server 14
			gone a => [b@3] ahead 1: -a@5 told
			M a@11 => [b@3] ahead 1
			D a@12 => [b@3] ahead 1
			M b@13 => [b@13] ahead 1: b@3>b@13 watch
			M b@14 => [b@14]: b@13>b@14 watch`},
		{"a deletion, and the events come first", false, "10 a@5", `
			gone a => [] ahead 1: -a@5 told
			D a@12 => [] ahead 1
			server 12 => [] ahead 1
			sleep 31s => []`},
		{"only marked for deletion", false, "10 a@5", `
			server 12
			gone a => [] ahead 1: -a@5 told
			M a@11 => [] ahead 1
			B 12 => [a@11]: +a@11 watch`},
		{"only marked for deletion, and the events come first", false, "10 a@5", `
			gone a => [] ahead 1: -a@5 told
			M a@11 => [] ahead 1
			B 12 => [] ahead 1
			server 12 => [] ahead 1
			sleep 31s => [a@11]: +a@11 watch`},
		{"a deletion, and another object", false, "10 a@5", `
			gone a => [] ahead 1: -a@5 told
			D a@12 => [] ahead 1
			A a@13/v => [a@13/v]: +a@13/v watch`},
		{"a deletion of what was told, with late events", false, "10 a@5/t", `
			tell a@14 => [a@14] ahead 1: -a@5/t told, +a@14 told
			gone a => [] ahead 1: -a@14 told
			D a@11/t => [] ahead 1
			A a@12/s => [] ahead 1
			D a@13/s => [] ahead 1
			A a@14 => [] ahead 1
			D a@15 => [] ahead 1
			server 15 => [] ahead 1
			sleep 31s => []`},
		{"a deletion, and told of another object", false, "10 a@5", `
			gone a => [] ahead 1: -a@5 told
			tell a@11 => [] ahead 1
			tell a@13/v => [a@13/v] ahead 1: +a@13/v told
			D a@12 => [a@13/v] ahead 1
			A a@13/v => [a@13/v]`},
		{"a deletion, and a list of before that", false, "10 a@5", `
			server 20
			gone a => [] ahead 1: -a@5 told
			list 12 a@11 => [] ahead 1
			list 20 => []`},
		{"a deletion, and nobody says the version", false, "10 a@5", `
			gone a => [] ahead 1: -a@5 told
			sleep 1s => [] ahead 1
			list 12 a@11 => [a@11]: +a@11 relist`},
		{"a deletion during a list", false, "10 a@5", `
			slow 30s
			stale 12 a@11
			sleep 10s
			gone a => [] ahead 1: -a@5 told
			sleep 1m => [] ahead 1
			D a@13 => [] ahead 1
			list 14 => []`},
		{"a deletion, and a list with another object", false, "10 a@5", `
			server 20
			gone a => [] ahead 1: -a@5 told
			list 12 a@11/v => [a@11/v]: +a@11/v relist`},
		{"a deletion, and a list with another object that is unreadable", true, "10 a@5 b@3", `
			gone a => [b@3] ahead 1: -a@5 told
			list 12 a@11/v=72 b@3 => [b@3] ahead 1
			server 12 => [b@3] ahead 1
			sleep 31s => [b@3]`},
		{"a deletion, and a list in which the object is unreadable", true, "10 a@5 b@3", `
			gone a => [b@3] ahead 1: -a@5 told
			list 12 a@11=72 b@3 => [b@3] ahead 1
			server 12 => [b@3] ahead 1
			sleep 31s => [a@5 b@3]: +a@5 watch`},
		{"a deletion of what is kept from before a restore", true, "10 a@9 b@3", `
			list 7 a@6=72 b@3 => [a@9 b@3]
			gone a => [b@3] ahead 1: -a@9 told
			D a@8 => [b@3] ahead 1
			A a@9/v => [a@9/v b@3]: +a@9/v watch`},
		{"a gap shows under what was told", false, "10", `
			tell a@12 => [a@12] ahead 1: +a@12 told
			M a@13 => [a@13]: a@12>a@13 watch
			list 13 a@13 => [a@13]`},
		{"an object that was told and set aside", false, "10 a@5", `
			E b@11 => [a@5]
			D a@12 => []: -a@5 watch
			tell a@11 => []`},
	} {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			d := dictate(t, tt.turns, &lw.Options{DetectMutation: true})
			var got, want []string
			script := tt.script
			if tt.begins != "" {
				script = "list " + tt.begins + "\nstart => " + asFirstShown(tt.begins) + script
			}
			for line := range strings.Lines(script) {
				if line = strings.TrimSpace(line); line == "" {
					continue
				}
				do, shows, checked := strings.Cut(line, " => ")
				err := d.step(do)
				now := d.shows()
				if err != nil {
					now += "! " + err.Error()
				}
				if copies, n := inside.Copies(d.inf), d.inf.Store().Len(); copies != n {
					now += fmt.Sprintf("! the detector of mutations has %d copies of %d objects", copies, n)
				}
				if !checked {
					shows = now
				}
				got, want = append(got, do+" => "+now), append(want, do+" => "+shows)
			}
			rig.Same(t, "", want, got)
		})
	}
}

// asFirstShown is what shows says of the first list: its version and objects.
func asFirstShown(list string) string {
	objs := strings.Fields(list)[1:]
	for i, obj := range objs {
		objs[i], _, _ = strings.Cut(obj, "=")
	}
	text := "[" + strings.Join(objs, " ") + "]"
	for i, obj := range objs {
		text += []string{": ", ", "}[min(i, 1)] + "+" + obj + " initial"
	}
	return text
}

// A deletion whose version nobody knows asks the server for its version once, however late the
// watch is, and every 30 seconds while that fails.
func TestTellDeletedAsksOnce(t *testing.T) {
	for server, want := range map[string]int{"server 20": 1, "server": 4} {
		rig.Subtest(t, server, func(t *testing.T) {
			d := dictate(t, false, nil)
			d.run(t, "list 10 a@5, start, "+server+", gone a")
			rig.Sleep(100 * time.Second)
			rig.Same(t, "ahead", 1, d.inf.Status().Ahead)
			d.src.mu.Lock()
			defer d.src.mu.Unlock()
			rig.Same(t, "requests", want, d.src.probes)
		})
	}
}

// TestTellRefuses has who cannot be told, and why.
func TestTellRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := widgetOf("a@12")
		check := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		d := dictate(t, false, nil)
		d.run(t, "list 10 a@5, start")
		check("a version that is no number", d.inf.Tell(widgetOf("a@x")), errors.ErrUnsupported)
		check("a deletion at such a version", d.inf.TellDeleted(rig.Key("a"), "u", "x"), errors.ErrUnsupported)
		if err := d.inf.Tell((*rig.Widget)(nil)); err == nil {
			t.Error("a nil object is told")
		}
		if err := d.inf.Tell(widgetOf("@12")); err == nil {
			t.Error("an object without a name is told")
		}

		opaque := dictate(t, false, nil)
		opaque.run(t, "list abc a@5, start")
		check("a collection of such a version", opaque.inf.Tell(told), errors.ErrUnsupported)

		ctx, cancel := context.WithCancel(t.Context())
		f := &heard{}
		done := make(chan error, 1)
		check("an object", d.inf.Tell(told), nil)
		go func() { done <- lw.Follow(ctx, d.inf, f) }()
		f.MustBe(t) // it waits until nothing is ahead
		check("a followed collection", d.inf.Tell(widgetOf("b@13")), errors.ErrUnsupported)
		check("a deletion in one", d.inf.TellDeleted(rig.Key("a"), "u", ""), errors.ErrUnsupported)
		d.step("M a@12")
		f.MustBe(t, "begin 12 a0", "progress 12")
		cancel()
		<-done
		check("a collection that is followed no more", d.inf.Tell(widgetOf("b@13")), nil)

		for what, src := range map[string]lw.Source[*rig.Widget]{
			"a source of an unknown kind": &rig.Fed{Version: "1"},
			"a Transform of one": lw.Transform(lw.Source[*rig.Widget](&rig.Fed{Version: "1"}),
				func(w *rig.Widget) (*rig.Widget, error) { return w, nil }),
			"options of one": lw.WithListOptions[*rig.Widget](&rig.Fed{Version: "1"}),
			"a Shard of one": lw.Shard[*rig.Widget](&rig.Fed{Version: "1"}, 0, 2),
			"a Poll":         lw.Poll(func(context.Context) ([]*rig.Widget, error) { return nil, nil }, time.Hour),
		} {
			inf := lw.NewInformer(src, nil)
			check(what, inf.Tell(told), errors.ErrUnsupported)
			check(what, inf.TellDeleted(rig.Key("a"), "u", ""), errors.ErrUnsupported)
			check(what, inf.TellDeleted(rig.Key("a"), "u", "12"), errors.ErrUnsupported)
			rig.Same(t, what+": ahead", 0, inf.Status().Ahead)
		}

		_, inf := ofMemory("", nil)
		rig.Begin(t, inf)()
		check("one that has stopped", inf.Tell(told), lw.ErrStopped)
		check("one that has stopped", inf.TellDeleted(rig.Key("a"), "u", "12"), lw.ErrStopped)
	})
}
