package kubectl_test

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// A watcher is a kubectl that watches.
type watcher struct {
	b     *bench
	lines chan string
	stop  func()
}

// watch starts a kubectl that watches, and waits until the server has its watch.
func (b *bench) watch(args ...string) *watcher {
	b.Helper()
	opened := b.widgetStatus().Opened
	cmd, _, errs := b.command("", args...)
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	rig.OK(b, cmd.Start())
	w := &watcher{b, make(chan string, 100), nil}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(w.lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			w.lines <- words(in.Text())
		}
	}()
	w.stop = func() {
		b.Helper()
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait() // was killed
		if errs.Len() > 0 {
			b.Errorf("kubectl %s: %s", strings.Join(args, " "), errs)
		}
	}
	for deadline := time.Now().Add(patience); b.widgetStatus().Opened == opened; {
		if time.Now().After(deadline) {
			w.stop()
			b.Fatalf("kubectl %s does not watch", strings.Join(args, " "))
		}
		time.Sleep(time.Millisecond)
	}
	return w
}

// widgetStatus is the status of the widgets on the server that kubectl talks to.
func (b *bench) widgetStatus() serve.Status {
	b.Helper()
	for _, s := range b.h.Status() {
		if s.Resource == "widgets" {
			return s
		}
	}
	b.Fatal("there are no widgets")
	return serve.Status{}
}

// says waits for the next lines.
func (w *watcher) says(want ...string) {
	w.b.Helper()
	var got []string
	for range want {
		line, ok := <-w.lines
		if !ok {
			break
		}
		got = append(got, line)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.stop()
		w.b.Fatalf("the watch (-want +got):\n%s", diff)
	}
}

func (b *bench) put(write func(context.Context, *Widget) (*Widget, error), w *Widget) {
	b.Helper()
	rig.Must[*Widget](b)(write(b.Context(), w))
}

// What kubectl watches and waits for, of the server itself and of a relay of a relay.
func TestWatch(t *testing.T) {
	for _, relays := range []int{0, 2} {
		t.Run(fmt.Sprintf("relays=%d", relays), func(t *testing.T) {
			t.Parallel()
			b := start(t, relays, widget("shop", "cart", "red", 1), widget("zoo", "cage", "red", 3))
			w := b.watch("get", "widgets", "-n", "shop", "-w", "--output-watch-events", "-l", "color=red")
			w.says("EVENT NAME COLOR AGE", "ADDED cart red 90m")
			b.put(b.widgets.Create, widget("zoo", "pond", "red", 1))
			b.put(b.widgets.Create, widget("shop", "bag", "red", 1))
			w.says("ADDED bag red 90m")
			b.put(b.widgets.Update, widget("shop", "bag", "red", 2))
			w.says("MODIFIED bag red 90m")
			b.put(b.widgets.Update, widget("shop", "bag", "blue", 2)) // is not selected any more
			w.says("DELETED bag red 90m")
			rig.Must[string](t)(b.widgets.Delete(t.Context(), lw.Key{Namespace: "shop", Name: "cart"}, ""))
			w.says("DELETED cart red 90m")
			w.stop()

			raw := b.kubectl("", "get", "--raw", "/apis/example.io/v1/widgets?watch=1&timeoutSeconds=1&labelSelector=color=blue")
			if !strings.Contains(raw, `"type":"ADDED"`) || !strings.Contains(raw, `"name":"bag"`) ||
				strings.Contains(raw, "pond") {
				t.Errorf("--raw of a watch: %s", raw)
			}
			b.refused("timed out", "", "wait", "-n", "zoo", "widget/cage", "--for=condition=Ready", "--timeout=1s")
			ready := b.watch("wait", "-n", "zoo", "widget/cage", "--for=condition=Ready", "--timeout=100s")
			cage := widget("zoo", "cage", "red", 3)
			cage.Status.Conditions = []Condition{{"Ready", "True"}}
			b.put(b.widgets.Update, cage)
			ready.says("widget.example.io/cage condition met")
			ready.stop()
			gone := b.watch("wait", "-n", "zoo", "widget/cage", "--for=delete", "--timeout=100s")
			rig.Must[string](t)(b.widgets.Delete(t.Context(), lw.Key{Namespace: "zoo", Name: "cage"}, ""))
			gone.says("widget.example.io/cage condition met")
			gone.stop()
		})
	}
}

// What kubectl writes, and how it says what the server refuses. It needs no --validate=false.
func TestWrite(t *testing.T) {
	t.Parallel()
	b := start(t, 0)
	const cart = "apiVersion: example.io/v1\nkind: Widget\nmetadata: {namespace: shop, name: cart, labels: {a: b}}\n"
	is := func(want, got string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	is("widget.example.io/cart created", b.kubectl(cart+"color: red\n", "create", "-f", "-"))
	b.says("red b", "get", "widget", "-n", "shop", "cart", "-o", "jsonpath={.color} {.metadata.labels.a}")
	is(`Error from server (AlreadyExists): error when creating "STDIN": widgets.example.io "cart" already exists`,
		b.fails(cart+"color: red\n", "create", "-f", "-"))
	for body, want := range map[string]string{
		"size: 1\n":               "a widget needs a color",
		"color: red\ncolour: 1\n": `unknown field "colour"`,
		"color: 1\n":              "color",
	} {
		b.refused(want, strings.Replace(cart, "cart", "other", 1)+body, "create", "-f", "-")
	}
	is("widget.example.io/cart replaced", b.kubectl(cart+"color: blue\n", "replace", "-f", "-"))
	object := b.kubectl("", "get", "widget", "-n", "shop", "cart", "-o", "json")
	is("widget.example.io/cart replaced", b.kubectl(strings.Replace(object, "blue", "green", 1), "replace", "-f", "-"))
	for head, want := range map[string]string{
		"apiVersion: example.io/v1\nkind: Widgit\n": `no matches for kind "Widgit" in version "example.io/v1"`,
		"apiVersion: example.io/v9\nkind: Widget\n": `no matches for kind "Widget" in version "example.io/v9"`,
		"apiVersion: sample.io/v1\nkind: Widget\n":  `no matches for kind "Widget" in version "sample.io/v1"`,
	} {
		for _, verb := range []string{"create", "apply", "replace", "delete"} {
			b.refused(want, head+"metadata: {namespace: shop, name: cart}\n", verb, "-f", "-")
		}
		b.refused(want, head+"metadata: {namespace: shop, name: cart}\n", "apply", "--server-side", "-f", "-")
	}
	b.refused("(Conflict)", object, "replace", "-f", "-") // it is of an old version
	b.says("green", "get", "widget", "-n", "shop", "cart", "-o", "jsonpath={.color}")
	// A collection that is derived cannot be written.
	b.refused("(MethodNotAllowed)",
		`{"apiVersion":"example.io/v1","kind":"Count","metadata":{"namespace":"shop","name":"x"}}`, "create", "-f", "-")
	// A type without annotations cannot keep what kubectl has applied.
	b.refused(`unknown field "metadata.annotations"`, cart+"color: red\n", "apply", "-f", "-")
	is(`widget.example.io "cart" deleted from shop namespace`, b.kubectl("", "delete", "widget", "-n", "shop", "cart"))
	is(`Error from server (NotFound): widgets.example.io "cart" not found`, b.fails("", "delete", "widget", "-n",
		"shop", "cart"))
}
