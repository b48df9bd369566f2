package histories_test

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/go-lw/lw/internal/rig"
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
		if legal {
			b.WriteString("\n## What a server that is right may do\n")
		} else {
			b.WriteString("\n## What only a broken server, proxy or replica does\n")
		}
		b.WriteString("\n| history | client-go v0.37.2 | lw |\n|---|---|---|\n")
		for _, h := range histories {
			if h.legal != legal {
				continue
			}
			row := "| " + h.name
			row += " | " + verdict(always(t, h)) + " | " + verdict(h.judge(t, followLW))
			b.WriteString(row + " |\n")
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
