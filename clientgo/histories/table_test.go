package histories_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

var (
	randoms = flag.Int("histories", 300, "how many random histories to run")
	update  = flag.Bool("update", false, "write README.md")
)

const doc = "README.md"

func TestMain(m *testing.M) {
	flag.Parse()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	// One of them sleeps for the time since the process began, which in a bubble is some decades.
	utilruntime.ErrorHandlers = nil
	child()
	os.Exit(m.Run())
}

// rules are those that the judge knows, in the words of the table.
var rules = []struct{ id, says string }{
	{"H1", "per object a handler is told Add, then Updates, then Delete, and nothing else"},
	{"H2", "what it is told of an object never goes back to an older version"},
	{"H3", "an Update stays with one object: deleted and created again is Delete, then Add"},
	{"H4", "the old object of an Update is the one that was told last"},
	{"H8", "what a handler was told adds up to what the store shows"},
	{"H12", "a failure in a user's function is reported and passed over, if that is what the user asks for"},
	{"noise", "no Update of an object that has not changed, unless a resync was asked for"},
	{"S4", "the resource version that the store reports never goes back, unless the server's does"},
	{"L1", "in the end the store shows what the server has, but for objects that it names as set aside"},
	{"L2", "it syncs"},
}

func TestHistories(t *testing.T) {
	var b strings.Builder
	b.WriteString(head)
	for _, legal := range []bool{true, false} {
		title := "What only a broken server, proxy or replica does"
		if legal {
			title = "What a server that is right may do"
		}
		fmt.Fprintf(&b, "\n## %s\n\n| history | client-go v0.37.2 | lw |\n|---|---|---|\n", title)
		for _, h := range histories {
			if h.legal == legal {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", h.name, verdict(always(t, h)), verdict(h.judge(t, followLW)))
			}
		}
		for _, p := range panics {
			if legal {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", p.name, orKept(inProcess(t, p.name, "client-go")), orKept(inProcess(t, p.name, "lw")))
			}
		}
	}

	b.WriteString("\n## Random histories\n\nIn how many of them a rule was broken. The server is right in all.\n\n")
	b.WriteString("| rule | | client-go v0.37.2 | lw |\n|---|---|---|---|\n")
	counts := []map[string]int{{}, {}}
	for seed := range *randoms {
		for i, broken := range random(t, uint64(seed)) {
			for rule := range broken {
				counts[i][rule]++
			}
		}
	}
	for _, r := range rules {
		if r.id == "H12" {
			continue // nothing of it happens there
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.id, r.says, share(counts[0][r.id]), share(counts[1][r.id]))
	}
	b.WriteString(tail)
	got := b.String()
	if testing.Verbose() {
		fmt.Print(got)
	}
	if *update {
		rig.OK(t, os.WriteFile(doc, []byte(got), 0o644))
		return
	}
	want := rig.Must[[]byte](t)(os.ReadFile(doc))
	if diff := cmp.Diff(string(want), got); diff != "" && *randoms == 300 {
		t.Errorf("%s does not say what happens; write it anew with -update (-it says +what happens):\n%s", doc, diff)
	}
	if len(counts[1]) > 0 {
		t.Errorf("lw breaks rules in random histories: %v", counts[1])
	}
}

// always is what client-go breaks in each of three tries: now and then it breaks more, as its
// goroutines happen to run.
func always(t *testing.T, h history) map[string]string {
	broken := h.judge(t, followClientGo)
	for range 2 {
		again := h.judge(t, followClientGo)
		maps.DeleteFunc(broken, func(rule, _ string) bool { return again[rule] == "" })
	}
	return broken
}

// verdict is a cell of the table.
func verdict(broken map[string]string) string {
	var out []string
	for _, rule := range slices.Sorted(maps.Keys(broken)) {
		out = append(out, rule+": "+broken[rule])
	}
	return orKept(strings.Join(out, "; "))
}

func orKept(broken string) string {
	if broken == "" {
		return "keeps all"
	}
	return broken
}

func share(n int) string {
	switch n {
	case 0:
		return "0"
	case *randoms:
		return "all"
	}
	// How many exactly depends on the moment at which goroutines run.
	return "some"
}

// head and tail are the text before and after the tables.
const (
	head = `# What did client-go's informer and lw's do under the same histories?

Both informers have their default options. They follow the same servers, one after the other or at the
same time, and the same code judges both: the calls of their one handler, what the store shows, and
what is still wrong an hour later. The rules are in the last table. A cell names the rules that were
broken, each with the first way in which it was. This page is written by

    cd clientgo && go test ./histories -update

The same test without -update fails if the page differs from what happens.

client-go is good software: with a correct server it never loses an object, and its store equals the
server. Some of the differences are its contract: an Update may lead from one object to another of the
same name, and a relist updates everything. Over its own REST client some of the broken streams below
cannot reach it, because its decoder refuses them first.
`
	tail = `
H12 is in the first table only. Two things are not judged here. Whether each read shows one state of the
server cannot be tested with client-go, because its reads have no version. For the costs see bench.
`
)

// panics are what goes wrong in a user's own functions. Each is run in a process of its own, which
// prints "goes on" if the informer has told of the object that comes after the one at fault.
var panics = []struct {
	name         string
	clientGo, lw func(ctx context.Context, m *lw.Memory[*corev1.ConfigMap], told func(name string))
}{{
	name: "a handler panics, and panics are to be reported",
	clientGo: func(ctx context.Context, m *lw.Memory[*corev1.ConfigMap], told func(string)) {
		inf := sharedInformer(memory{m}, nil)
		_, _ = inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { fails(obj.(*corev1.ConfigMap), told) }})
		inf.RunWithContext(ctx)
	},
	lw: func(ctx context.Context, m *lw.Memory[*corev1.ConfigMap], told func(string)) {
		inf := lw.NewInformer(m, &lw.Options{OnPanic: func(*lw.Panic) {}})
		inf.AddHandler(lw.Handler[*corev1.ConfigMap]{Add: func(c *corev1.ConfigMap) { fails(c, told) }})
		_ = inf.Run(ctx)
	},
}, {
	name: "an index function fails for one object",
	clientGo: func(ctx context.Context, m *lw.Memory[*corev1.ConfigMap], told func(string)) {
		inf := sharedInformer(memory{m}, cache.Indexers{"size": func(obj any) ([]string, error) {
			if obj.(*corev1.ConfigMap).Name == "bad" {
				return nil, fmt.Errorf("no size")
			}
			return nil, nil
		}})
		_, _ = inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { told(obj.(*corev1.ConfigMap).Name) }})
		inf.RunWithContext(ctx)
	},
	lw: func(ctx context.Context, m *lw.Memory[*corev1.ConfigMap], told func(string)) {
		inf := lw.NewInformer(m, &lw.Options{OnPanic: func(*lw.Panic) {}, OnError: func(error) {}})
		lw.NewIndex(inf, func(c *corev1.ConfigMap) string {
			fails(c, func(string) {}) // an index function has no error to return
			return ""
		})
		inf.AddHandler(lw.Handler[*corev1.ConfigMap]{Add: func(c *corev1.ConfigMap) { told(c.Name) }})
		_ = inf.Run(ctx)
	},
}}

func fails(c *corev1.ConfigMap, told func(string)) {
	if c.Name == "bad" {
		panic("no use for it")
	}
	told(c.Name)
}

// childEnv names the case of a process that is such a one.
const childEnv = "LW_HISTORY"

// child runs the case that the environment names, if it does.
func child() {
	of := os.Getenv(childEnv)
	if of == "" {
		return
	}
	for _, p := range panics {
		run := p.lw
		switch of {
		case p.name + "/client-go":
			run = p.clientGo
		case p.name + "/lw":
		default:
			continue
		}
		m := lw.NewMemory(config("bad", "", ""))
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		went := make(chan struct{})
		go run(ctx, m, func(name string) {
			if name == "good" {
				close(went)
			}
		})
		time.Sleep(time.Second) // a process that dies does so now
		if _, err := m.Create(ctx, config("good", "", "")); err != nil {
			panic(err)
		}
		select {
		case <-went:
			fmt.Println("goes on")
		case <-ctx.Done():
			fmt.Println("hangs")
		}
		cancel()
		os.Exit(0)
	}
	panic("no case " + of)
}

// inProcess returns what becomes of the process in which name happens to an informer.
func inProcess(t *testing.T, name, informer string) string {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+name+"/"+informer)
	out, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(out), "goes on"):
		return ""
	case strings.Contains(string(out), "hangs"):
		return "H12: nothing is told any more"
	case err != nil:
		return "H12: the process ends"
	}
	t.Fatalf("%s: %s", cmd.Env[len(cmd.Env)-1], out)
	return ""
}
