package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/bench/internal/bound"
)

func TestMain(m *testing.M) {
	become()
	os.Exit(m.Run())
}

// A row says what became of a start.
func TestRow(t *testing.T) {
	for want, e := range map[string]end{
		"as it is | ended after 4 s | – | 0 of 2": {how: "ended", after: 4 * time.Second, peak: 1 << 30},
		"as it is | **no** | **300** | 2 of 2":    {peak: 300 << 20, reconciled: 2},
	} {
		if diff := cmp.Diff(want, e.row("as it is")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// A program takes the place of this process, with its arguments and without the bound in its
// environment, and in the bound.
func TestBecome(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	defer bound.Release()
	start := func(bytes int64, script string) (string, error) {
		var out strings.Builder
		cmd := exec.Command(self, "/bin/sh", "-c", script, "sh", "an argument")
		cmd.Env = append(os.Environ(), fmt.Sprint(boundVariable, "=", bytes))
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			return "", err
		}
		if !bound.Possible() {
			go bound.Watch(cmd.Process.Pid, bytes)
		}
		err := cmd.Wait()
		return out.String(), err
	}
	out, err := start(100<<20, `echo "$1 $`+boundVariable+`"`)
	if diff := cmp.Diff("an argument \n", out); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	// The shell keeps 64 MiB in a variable, longer than a watcher sleeps.
	_, err = start(32<<20, `x=$(head -c 67108864 /dev/zero | tr '\0' x); while [ $((i+=1)) -lt 1000000 ]; do :; done`)
	if !bound.Killed(err) {
		t.Errorf("%v: it lives", err)
	}
}

// What the attack makes is as large as it should be, and not twice the same.
func TestObject(t *testing.T) {
	a := attack{size: 900_000, resource: "secrets"}
	x, y := a.object(1), a.object(2)
	text := func(o map[string]any) string { return o["data"].(map[string]any)["text"].(string) }
	if x.GetKind() != "Secret" || len(text(x.Object)) != 900_000 || text(x.Object) == text(y.Object) {
		t.Errorf("a %s of %d bytes", x.GetKind(), len(text(x.Object)))
	}
}

// Each operator's proof has objects of its own for each name.
func TestProofs(t *testing.T) {
	for _, o := range operators {
		for _, text := range append([]string{o.proof}, o.made...) {
			if !strings.Contains(text, "NAME") {
				t.Errorf("%s: no NAME in %s", o.name, text)
			}
		}
	}
}
