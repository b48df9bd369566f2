// Package kubectl_test runs kubectl against package serve. The test binary is kubectl: it is built
// from the module proxy, and the test starts itself with the arguments of a user.
package kubectl_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kubectl/pkg/cmd"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// asKubectl is the variable that makes the test binary kubectl.
const asKubectl = "LW_TEST_IS_KUBECTL"

func TestMain(m *testing.M) {
	if os.Getenv(asKubectl) == "" {
		history.FromOne = true // TestRead names versions
		os.Exit(m.Run())
	}
	if err := cmd.NewDefaultKubectlCommand().Execute(); err != nil {
		os.Exit(1)
	}
}

// patience bounds each command, and is for a busy machine: none takes a second on an idle one.
const patience = 2 * time.Minute

// A Widget is an object of one's own, with labels and a time of creation.
type Widget struct {
	Metadata `json:"metadata"`
	Color    string `json:"color"`
	Size     int    `json:"size"`
	Status   Status `json:"status"`
}

type Metadata struct {
	lw.Meta
	Labels            map[string]string `json:"labels,omitempty"`
	CreationTimestamp time.Time         `json:"creationTimestamp"`
}

type Status struct {
	Conditions []Condition `json:"conditions,omitempty"`
}

type Condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

func (w *Widget) GetLabels() map[string]string { return w.Labels }

// A Count is how many widgets a namespace has.
type Count struct {
	lw.Meta `json:"metadata"`
	Widgets int `json:"widgets"`
}

func widget(namespace, name, color string, size int) *Widget {
	w := &Widget{Color: color, Size: size}
	w.Namespace, w.Name = namespace, name
	w.Labels = map[string]string{"color": color}
	w.CreationTimestamp = time.Now().Add(-90 * time.Minute)
	return w
}

// A bench is a server with widgets and the number of them in each namespace, and a kubectl that
// knows nothing but its URL.
type bench struct {
	*testing.T
	widgets *lw.Memory[*Widget]
	h       *serve.Handler // that kubectl talks to
	url     string
	home    string
	env     []string // of kubectl, beside HOME and PATH
}

// start starts a server, and as many relays between it and kubectl.
func start(t *testing.T, relays int, objects ...*Widget) *bench {
	b := &bench{T: t, widgets: lw.NewMemory(objects...), home: t.TempDir()}
	quiet := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	run := func(h *serve.Handler, serveOn func() error) {
		go func() {
			if err := serveOn(); !errors.Is(err, context.Canceled) && !errors.Is(err, lw.ErrStopped) &&
				!errors.Is(err, http.ErrServerClosed) {
				t.Errorf("Serve ended with %v", err)
			}
		}()
	}
	inf := lw.NewInformer(b.widgets, &lw.Options{Logger: quiet})
	g := lw.NewGraph(nil)
	counts := lw.GroupAll(g, inf, func(w *Widget) lw.Key { return lw.Key{Namespace: w.Namespace, Name: "widgets"} },
		func(key lw.Key, all []*Widget) *Count {
			return &Count{Meta: lw.Meta{Namespace: key.Namespace, Name: key.Name}, Widgets: len(all)}
		})
	go inf.Run(ctx)
	go g.Run(ctx)
	h := serve.New(&serve.Options{Authorize: serve.AllowAll, Logger: quiet})
	resource := serve.Resource[*Widget]{
		Group: "example.io", Name: "widgets", ShortNames: []string{"wi"},
		Fields: map[string]func(*Widget) string{"size": func(w *Widget) string { return strconv.Itoa(w.Size) }},
		Columns: []serve.Column[*Widget]{
			{Name: "Color", Value: func(w *Widget) serve.Cell { return serve.Text(w.Color) }},
			{Name: "Size", Type: "integer", Wide: true, Value: func(w *Widget) serve.Cell { return serve.Int(w.Size) }},
		},
		Validate: func(_ context.Context, w, _ *Widget) error {
			if w != nil && w.Color == "" {
				return errors.New("a widget needs a color")
			}
			return nil
		},
	}
	run(h, func() error { return serve.ServeMemory(ctx, h, b.widgets, resource) })
	run(h, func() error {
		return serve.Serve(ctx, h, counts, serve.Resource[*Count]{
			Group: "example.io", Name: "counts",
			Columns: []serve.Column[*Count]{
				{Name: "Widgets", Type: "integer", Value: func(c *Count) serve.Cell { return serve.Int(c.Widgets) }},
			},
		})
	})
	b.url = b.listen(h, 2)
	for range relays {
		upstream := lw.NewInformer(&lw.HTTP[*Widget]{URL: b.url + "/apis/example.io/v1/widgets"}, &lw.Options{Logger: quiet})
		go upstream.Run(ctx)
		h := serve.New(&serve.Options{Authorize: serve.AllowAll, Logger: quiet})
		run(h, func() error { return serve.Serve(ctx, h, upstream, resource) })
		b.url = b.listen(h, 1)
	}
	return b
}

// listen serves h, when it serves n collections that have synced, until the end of the test.
func (b *bench) listen(h *serve.Handler, n int) (url string) {
	b.Helper()
	b.h = h
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	for len(h.Status()) < n {
		if ctx.Err() != nil {
			b.Fatal("nothing is served")
		}
		time.Sleep(time.Millisecond)
	}
	rig.OK(b, h.WaitForSync(ctx))
	l := rig.Must[net.Listener](b)(net.Listen("tcp", "127.0.0.1:0"))
	srv := &http.Server{Handler: h}
	go srv.Serve(serve.Listener(l))
	b.Cleanup(func() {
		h.Close()
		srv.Close()
	})
	return "http://" + l.Addr().String()
}

// command is kubectl with arguments, and with no configuration.
func (b *bench) command(stdin string, args ...string) (cmd *exec.Cmd, out, errs *bytes.Buffer) {
	b.Helper()
	self := rig.Must[string](b)(os.Executable())
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	b.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, self, append([]string{"-s", b.url}, args...)...)
	cmd.Env = append([]string{asKubectl + "=1", "HOME=" + b.home, "PATH=" + os.Getenv("PATH")}, b.env...)
	out, errs = new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), out, errs
	return cmd, out, errs
}

// kubectl runs kubectl, and returns what it says, with single spaces.
func (b *bench) kubectl(stdin string, args ...string) string {
	b.Helper()
	cmd, out, errs := b.command(stdin, args...)
	if err := cmd.Run(); err != nil || errs.Len() > 0 {
		b.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, out, errs)
	}
	return words(out.String())
}

// fails runs kubectl, which fails, and returns its error.
func (b *bench) fails(stdin string, args ...string) string {
	b.Helper()
	cmd, out, errs := b.command(stdin, args...)
	if err := cmd.Run(); err == nil {
		b.Fatalf("kubectl %s did not fail:\n%s%s", strings.Join(args, " "), out, errs)
	}
	return words(errs.String())
}

// refused runs kubectl, which fails with an error that has want in it.
func (b *bench) refused(want, stdin string, args ...string) {
	b.Helper()
	if got := b.fails(stdin, args...); !strings.Contains(got, want) {
		b.Errorf("kubectl %s: %s, want %s in it\n%s", strings.Join(args, " "), got, want, stdin)
	}
}

// says runs kubectl, and compares what it says.
func (b *bench) says(want string, args ...string) {
	b.Helper()
	if diff := cmp.Diff(want, b.kubectl("", args...)); diff != "" {
		b.Errorf("kubectl %s (-want +got):\n%s", strings.Join(args, " "), diff)
	}
}

// words returns the lines of a text with single spaces between the words.
func words(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(lines, "\n")
}
